"""Figures and claims of the papers, as things that run: compute, draw, judge, report."""

from .claim import Claim as Claim
from .claim import Statement as Statement
from .claim import worst_ratio as worst_ratio
from .figure import SIZES as SIZES
from .figure import Figure as Figure
from .figure import Size as Size
from .registry import Lab as Lab
from .registry import figures as figures
from .registry import labs as labs
from .run import Outcome as Outcome
from .run import run as run
from .stage import stage as stage
from .stage import step as step
