"""The second time law, once the tasks being learned have Λ_s ≪ 1, where F.3 assumes Λ_s² ≫ 1."""

from collections.abc import Mapping
from typing import Any

import matplotlib.figure
import xarray as xr

from ...reproduce import Claim, Figure, Size, stage
from ...style import colour, panels
from .. import Init, Task, exponents, time_law
from ._judging import judge_law, law_statement

ALPHA, CONTEXT = 1.8, 100.0
GAMMAS = (0.3, 0.5)
STRENGTHS = (1.0, 1000.0)
INIT = (1e-5, 1e-5)  # (107)
SETTINGS: Mapping[Size, Mapping[str, Any]] = {
    "quick": {"num_tasks": 30_000, "per_decade": 5},
    "default": {"num_tasks": 10**5, "per_decade": 8},
    "full": {"num_tasks": 10**6, "per_decade": 12},
}


def _local(settings: Mapping[str, Any], gamma: float, strength: float) -> xr.Dataset:
    task = Task(settings["num_tasks"], ALPHA, CONTEXT, strength, gamma=gamma)
    law = time_law(task, Init(*INIT))
    t = law.grid(settings["per_decade"])
    name = f"{gamma}-{strength:g}"
    return xr.Dataset(
        {f"local:{name}": (f"time:{name}", law.local_exponent(t))}, coords={f"time:{name}": t}
    )


def compute(size: Size) -> xr.Dataset:
    """Local exponents in time, for weak and for strong tasks."""
    settings = SETTINGS[size]
    return xr.merge(
        stage(f"{gamma}-{strength:g}", lambda g=gamma, s=strength: _local(settings, g, s))
        for gamma in GAMMAS
        for strength in STRENGTHS
    )


def _exponents(gamma: float) -> tuple[float, float]:
    """Of the time law for weak and for strong tasks."""
    weak, strong = exponents(ALPHA, 0.0, gamma, "weak"), exponents(ALPHA, 0.0, gamma, "strong")
    return weak.time, strong.time


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """One panel a γ: the local exponent against time, and both laws."""
    figure, axes = panels(2)
    for each, gamma in zip(axes, GAMMAS, strict=True):
        for k, strength in enumerate(STRENGTHS):
            t, local = (data[f"{what}:{gamma}-{strength:g}"] for what in ("time", "local"))
            label = rf"$\Lambda_1 = {strength:g}$"
            each.plot(t, local, color=colour(k), label=label, linewidth=1.3)
        weak, strong = _exponents(gamma)
        for k, (value, words) in enumerate(
            (
                (weak, r"$\Lambda_s \ll 1$: $(\alpha+2\gamma-1)/(\alpha+\beta+\gamma)$"),
                (strong, r"Table 2: $(\alpha+2\gamma-1)/(\alpha+\beta+3\gamma)$"),
            )
        ):
            each.axhline(value, color=colour(k), linestyle=":", linewidth=1.2, label=words)
        each.set_xscale("log")
        each.set_ylim(0.0, 1.2)
        each.set_xlabel("$t$")
        each.set_ylabel(r"$-\,d \log L / d \log t$")
        each.set_title(rf"$\gamma = {gamma}$", fontsize=9.0)
    figure.set_size_inches(7.5, 3.7)
    lines, labels = axes[0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside upper center", ncols=2, fontsize=8.0)
    return figure


SECOND = {
    g: law_statement(
        f"msfr/crossover/weak-{g}",
        f"Once Λ_s ≪ 1 (Λ_1 = 1), L ∝ t^(−(α+2γ−1)/(α+β+γ)) at γ = {g}",
        "F.3, whose assumption Λ_s² ≫ 1 it leaves",
        "new",
    )
    for g in GAMMAS
}
FIRST = {
    g: law_statement(
        f"msfr/crossover/strong-{g}",
        f"While Λ_s ≫ 1 (Λ_1 = 1000), L ∝ t^(−(α+2γ−1)/(α+β+3γ)) at γ = {g}",
        "Table 2, F.3",
        "check",
    )
    for g in GAMMAS
}


def claims(data: xr.Dataset) -> list[Claim]:
    """Each law where it should be seen."""
    second, first = [], []
    for g in GAMMAS:
        weak, strong = _exponents(g)
        t, local = (data[f"{what}:{g}-1"].values for what in ("time", "local"))
        second.append(judge_law(SECOND[g], t, local, weak, "t"))
        t, local = (data[f"{what}:{g}-1000"].values for what in ("time", "local"))
        first.append(judge_law(FIRST[g], t, local, strong, "t"))
    return [*second, *first]


FIGURE = Figure(
    id="msfr/crossover",
    title="Two laws in time: strong tasks and weak tasks",
    settings=SETTINGS,
    constants={
        "alpha": ALPHA,
        "context": CONTEXT,
        "gammas": GAMMAS,
        "strengths": STRENGTHS,
        "init": INIT,
    },
    statements=(*SECOND.values(), *FIRST.values()),
    compute=compute,
    draw=draw,
    claims=claims,
    note=(
        "Not in the paper, which assumes Λ_s² ≫ 1 (F.3). The rate of task s is "
        "p_s ψ_s Λ_s (1 + Λ_s²): with Λ_s ≫ 1 it falls like s^(−(α+β+3γ)), with Λ_s ≪ 1 like "
        "s^(−(α+β+γ)). α = 1.8, β = 0, ψ = 100, v = w = 1e-5 at the start (107), order zero. At "
        "first each task is learned by itself, so that the exponent swings; at the end the last "
        "task is."
    ),
)
