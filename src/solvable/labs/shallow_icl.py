"""What `solvable list` and `reproduce` know of shallow_icl."""

from ..asking import Lab
from ..papers import PAPERS

LAB = Lab(paper=PAPERS["shallow_icl"], figures="solvable.shallow_icl.figures:FIGURES")
