"""The paper's figures and claims, and figures that it lacks."""

from . import (
    appendix_e,
    basins,
    fig4a,
    fig4b,
    fig5,
    fig7a,
    fig7b,
    outcomes,
    phase,
    predictors,
    probing,
    softmax,
    stability,
)

# In the order of the report.
FIGURES = (
    fig4a.fig,
    fig4b.fig,
    fig5.fig,
    fig7a.fig,
    fig7b.fig,
    appendix_e.fig,
    probing.fig,
    phase.fig,
    basins.fig,
    outcomes.fig,
    stability.fig,
    predictors.fig,
    softmax.fig,
)
