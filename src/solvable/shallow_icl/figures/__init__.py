"""The paper's figures and claims, and figures that it lacks."""

from . import (
    fig1,
    fig3,
    fig4,
    fig5,
    fig6,
    fig11,
    fig12,
    fig14,
    fixed_points,
    init_scale,
    leak,
    lengths,
    plateaus,
    time_laws,
)

# In the order of the report.
_MODULES = (
    fig1,
    fig3,
    fig4,
    fig5,
    fig6,
    fig11,
    fig12,
    fig14,
    plateaus,
    init_scale,
    leak,
    lengths,
    fixed_points,
    time_laws,
)
FIGURES = tuple(module.fig for module in _MODULES)
