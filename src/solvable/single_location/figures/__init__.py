"""The paper's figures and claims, and figures that it lacks."""

from . import (
    appendix_e,
    basins,
    fig4a,
    fig4b,
    fig5,
    fig7a,
    fig7b,
    phase,
    predictors,
    probing,
    stability,
)

# In the order of the report.
_MODULES = (
    fig4a,
    fig4b,
    fig5,
    fig7a,
    fig7b,
    appendix_e,
    probing,
    phase,
    basins,
    stability,
    predictors,
)
FIGURES = tuple(module.FIGURE for module in _MODULES)
