"""The paper's figures and claims, and figures that it lacks."""

from . import fig1, fig3, fig4, fig5, fig6, fig12, fig14, init_scale, leak, plateaus

# In the order of the report.
_MODULES = (fig1, fig3, plateaus, init_scale, fig4, fig12, leak, fig5, fig6, fig14)
FIGURES = tuple(module.FIGURE for module in _MODULES)
