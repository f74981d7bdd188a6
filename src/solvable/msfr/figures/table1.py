"""Table 1: the exponents of equal contexts and strengths, against α."""

from collections.abc import Mapping
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Claim, Figure, Size, Statement, stage
from ...reproduce.claim import Kind
from ...style import colour, panels
from .. import Init, Task, data_law, exponents, size_law, time_law
from ._judging import DECADES, Seen, law_statement, seen
from ._labels import labelled, local_exponents, of_label
from ._split import SLACK, frontier_of_law, split_exponents

ALPHAS = (1.8, 2.1, 2.5, 3.0)
CONTEXT, STRENGTH = 100.0, 0.5
INIT = (0.1, 0.11)  # (106)
SETTINGS: Mapping[Size, Mapping[str, Any]] = {
    "quick": {"time_tasks": 10**5, "law_tasks": 10**5, "split_tasks": 10_000, "per_decade": 4},
    "default": {"time_tasks": 10**5, "law_tasks": 10**5, "split_tasks": 30_000, "per_decade": 6},
    "full": {"time_tasks": 10**6, "law_tasks": 10**6, "split_tasks": 10**5, "per_decade": 8},
}
ROWS = {"D": "size", "t": "time", "N": "data", "C": "compute"}


def _part(settings: Mapping[str, Any], alpha: float) -> xr.Dataset:
    init = Init(*INIT)
    task, many, few = (
        Task(settings[count], alpha, CONTEXT, STRENGTH)
        for count in ("time_tasks", "law_tasks", "split_tasks")
    )
    laws = {
        "t": time_law(task, init, "exact"),
        "D": size_law(many, init, "exact", shift=0.5),
        "N": data_law(many, init, "exact"),
    }
    return xr.merge(
        [
            local_exponents(laws, settings["per_decade"]),
            frontier_of_law(few, init, "exact", per_decade=2),
        ]
    )


def compute(size: Size) -> xr.Dataset:
    """Local exponents and optimal splits for every α."""
    parts = [
        labelled(stage(f"alpha-{alpha}", lambda a=alpha: _part(SETTINGS[size], a)), str(alpha))
        for alpha in ALPHAS
    ]
    return xr.merge(parts)


def _windows(data: xr.Dataset, alpha: float) -> dict[str, Seen]:
    """Where each law is seen."""
    get, table = of_label(data, str(alpha)), exponents(alpha)
    found = {}
    for symbol, name in ROWS.items():
        x = get(f"law_{symbol}") - (0.5 if symbol == "D" else 0.0)
        found[symbol] = seen(x, get(f"local_{symbol}"), getattr(table, name))
    return found


def _measured(data: xr.Dataset, alpha: float) -> dict[str, float]:
    """Each exponent as it is seen, averaged over its window."""
    found = {symbol: window.mean for symbol, window in _windows(data, alpha).items()}
    slopes = split_exponents(of_label(data, str(alpha)), exponents(alpha).compute)
    return {**found, "D*": slopes[0], "t*": slopes[1]}


def _law(symbol: str, alpha: Any) -> Any:
    return {
        "D": alpha - 1,
        "t": (alpha - 1) / alpha,
        "N": (alpha - 1) / alpha,
        "C": (alpha - 1) / (alpha + 1),
        "D*": 1 / (alpha + 1),
        "t*": alpha / (alpha + 1),
    }[symbol]


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """The exponents as curves in α, and what is measured."""
    figure, axes = panels(2)
    alpha = np.linspace(1.5, 3.2, 60)
    measured = [_measured(data, a) for a in ALPHAS]
    styles = (("D", 0, r"$D$: $\alpha-1$"), ("t", 1, r"$t$, $N$: $(\alpha-1)/\alpha$"))
    styles += (("C", 2, r"$C$: $(\alpha-1)/(\alpha+1)$"),)
    splits = (("D*", 0, r"$D^*$: $1/(\alpha+1)$"), ("t*", 1, r"$t^*$: $\alpha/(\alpha+1)$"))
    for each, rows in zip(axes, (styles, splits), strict=True):
        for symbol, k, label in rows:
            each.plot(alpha, _law(symbol, alpha), "--", color=colour(k), label=label, linewidth=1.3)
            seen_here = [m[symbol] for m in measured]
            each.plot(ALPHAS, seen_here, "o", color=colour(k), markersize=5.0)
        each.set_xlabel(r"$\alpha$")
        each.legend(fontsize=8.0)
    axes[0].plot([], [], "o", color="0.4", label="exact loss")
    axes[0].plot(ALPHAS, [m["N"] for m in measured], "x", color="black", label="exact loss in $N$")
    axes[0].legend(fontsize=8.0)
    axes[0].set_ylabel("exponent of $L$")
    axes[1].set_ylabel("exponent in $C$ of the optimum")
    axes[1].set_ylim(0.0, 1.0)
    return figure


LAWS = {
    "D": "L ∝ (D − ½)^(−(α−1))",
    "t": "L ∝ t^(−(α−1)/α)",
    "N": "L ∝ N^(−(α−1)/α)",
    "C": "L ∝ C^(−(α−1)/(α+1)) at the best split",
}
# Table 1 has D where the size law is read in D − ½, in which the sum shows it sooner.
KINDS: dict[str, Kind] = {"D": "check", "t": "paper", "N": "paper", "C": "paper"}
SAID = {
    symbol: law_statement(
        f"msfr/table1/{ROWS[symbol]}", f"{text} for α from 1.8 to 3", "Table 1", KINDS[symbol]
    )
    for symbol, text in LAWS.items()
}
SPLIT = {
    "D*": Statement(
        "msfr/table1/optimal-size",
        "D* ∝ C^(1/(α+1)) for α from 1.8 to 3 (largest miss of the exponent).",
        "Table 1",
        "paper",
    ),
    "t*": Statement(
        "msfr/table1/optimal-time",
        "t* ∝ C^(α/(α+1)) for α from 1.8 to 3 (largest miss of the exponent).",
        "Table 1",
        "paper",
    ),
}


def claims(data: xr.Dataset) -> list[Claim]:
    """Each row of the table, at its worst α."""
    windows = {alpha: _windows(data, alpha) for alpha in ALPHAS}
    found = []
    for symbol, statement in SAID.items():
        decades = {alpha: windows[alpha][symbol].decades for alpha in ALPHAS}
        words = ", ".join(f"{length:.1f} at α = {alpha}" for alpha, length in decades.items())
        found.append(statement.judge(DECADES, min(decades.values()), "at least", note=f"{words}."))
    measured = {alpha: _measured(data, alpha) for alpha in ALPHAS}
    for symbol, statement in SPLIT.items():
        worst = max(abs(measured[alpha][symbol] - _law(symbol, alpha)) for alpha in ALPHAS)
        found.append(statement.judge(0.0, worst, SLACK))
    return found


FIGURE = Figure(
    id="msfr/table1",
    title="Exponents of equal contexts and strengths",
    settings=SETTINGS,
    constants={"alphas": ALPHAS, "context": CONTEXT, "strength": STRENGTH, "init": INIT},
    statements=(*SAID.values(), *SPLIT.values()),
    compute=compute,
    draw=draw,
    claims=claims,
    note=(
        "ψ = 100, Λ = 0.5, v = 0.1, w = 0.11 at the start (106). Dashed: Table 1. Dots: the "
        "local exponent of the exact loss, averaged over its window; for D* and t* the slope of "
        "the exact frontier across its window, where whole D leave a slack of 0.01."
    ),
)
