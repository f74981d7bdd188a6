"""The paper's figures, tables and claims, and figures that it lacks."""

from . import fig2

FIGURES = (fig2.FIGURE,)
