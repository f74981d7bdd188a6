"""The paper's figures, tables and claims, and figures that it lacks."""

from . import (
    adam,
    batch,
    crossover,
    errata,
    fig2,
    fig3,
    fig4,
    fig5,
    fig6,
    fig7,
    fig8,
    fig9,
    fig10,
    invariants,
    repetition,
    table1,
    table2,
    unseen,
    window,
)

# In the order of the report.
_PICTURES = (
    fig2,
    fig3,
    fig4,
    crossover,
    window,
    fig5,
    fig6,
    fig7,
    fig8,
    fig9,
    fig10,
    adam,
    batch,
    repetition,
)
_OTHERS = (table1, table2, unseen, invariants, errata)
FIGURES = tuple(
    module.fig if hasattr(module, "fig") else module.FIGURE for module in (*_PICTURES, *_OTHERS)
)
