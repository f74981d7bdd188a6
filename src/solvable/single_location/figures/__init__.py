"""The paper's figures and claims, and figures that it lacks."""

from . import probing

FIGURES = (probing.FIGURE,)
