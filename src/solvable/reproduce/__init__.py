"""Figures and claims of the papers, as things that run: compute, draw, judge, report."""

from .claim import KINDS as KINDS
from .claim import SIZES as SIZES
from .claim import Claim as Claim
from .claim import Finding as Finding
from .claim import Quote as Quote
from .claim import Size as Size
from .claim import Statement as Statement
from .claim import at_least as at_least
from .claim import at_most as at_most
from .claim import corrected as corrected
from .claim import decades as decades
from .claim import near as near
from .claim import worst_ratio as worst_ratio
from .figure import Figure as Figure
from .figure import settings_of as settings_of
from .registry import Lab as Lab  # an old name of solvable.Lab
from .registry import figures as figures
from .registry import labs as labs
from .run import Outcome as Outcome
from .run import run as run
from .stage import stage as stage
from .stage import step as step
