"""Fig. 12: the ranks R = 3, 5, 6, 7 that do not divide D, and heads that are too few."""

from collections.abc import Mapping
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Claim, Figure, Size, stage, step, worst_ratio
from ...style import THEORY, colour, panels
from .. import separate, train
from ._rank import (
    CONSTANTS,
    NOTE,
    SEED,
    SETTINGS,
    draw_ranks,
    draw_rests,
    over_ranks,
    rank_claims,
    rank_statements,
    rank_task,
    say,
)

RANKS = (3, 5, 6, 7)
FEW = ((1, 2), (5, 1), (7, 1))  # ranks and heads with RH < D
FEW_HOW = {"lr": 0.1, "steps": 10000, "units": "code", "log_every": 1000}
FEW_SCALE = 0.05


def _few(settings: Mapping[str, Any]) -> xr.Dataset:
    """Where training ends on the population when RH < D."""
    seeds = list(range(SEED, SEED + settings["seeds"]))
    loss = []
    for rank, heads in FEW:
        start = separate(heads=heads, rank=rank, scale=FEW_SCALE, init="B")
        run = train(rank_task(), start, seed=seeds, progress=step, **FEW_HOW)
        loss.append(np.asarray(run.loss)[:, -1])
    return xr.Dataset(
        {"few_loss": (("few", "seed"), loss)}, coords={"few": [r * h for r, h in FEW]}
    )


def compute(size: Size) -> xr.Dataset:
    """Training at every rank, and with few heads."""
    settings = SETTINGS[size]
    return xr.merge([over_ranks(settings, RANKS), stage("few", lambda: _few(settings))])


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """A panel a rank, the time spent at each level, and the losses of few heads."""
    figure, axes = panels(3, 2)
    draw_ranks(axes, data)
    draw_rests(axes[4], data)
    last = axes[5]
    last.plot(data.learned, data.level, color="black", label="$L(M_m)$", **THEORY)
    words = "end of training, every seed"
    for k, few in enumerate(data.few.values):
        each = data.few_loss.sel(few=few)
        place = np.full(each.size, few)
        last.plot(place, each, "o", color=colour(0), markersize=5.0, label="" if k else words)
        rank, heads = FEW[k]
        last.annotate(
            f"R = {rank}, H = {heads}",
            (few, float(each.max())),
            textcoords="offset points",
            xytext=(5, 5),
            fontsize=7.5,
        )
    last.set_xlabel("$m = RH$")
    last.set_ylabel("$L$")
    last.set_title("fewer than $D$ pairs", fontsize=9.0)
    last.legend(fontsize=8.0)
    return figure


RANK = rank_statements("fig12", "Fig. 12")
END = say(
    "fig12",
    "few-heads",
    "With RH < D pairs of keys and queries training ends at L(M_RH): the first RH directions are "
    "learned (largest relative gap of L).",
    "derived",
    "new",
)


def claims(data: xr.Dataset) -> list[Claim]:
    """Plateaus at multiples of R, and the end with few heads."""
    expected = data.level.values[data.few.values]
    gap = worst_ratio(data.few_loss.transpose("seed", "few").values, expected)
    words = ", ".join(f"R = {r}, H = {h}" for r, h in FEW)
    return [
        *rank_claims(RANK, data),
        END.judge(0.0, gap, 1e-3, note=f"{words}; {data.sizes['seed']} seeds each, population."),
    ]


FIGURE = Figure(
    id="shallow_icl/fig12",
    title="Ranks that do not divide the dimension, and too few heads",
    settings=SETTINGS,
    constants={**CONSTANTS, "ranks": RANKS, "few": FEW, "few_scale": FEW_SCALE, **FEW_HOW},
    statements=(*RANK, END),
    compute=compute,
    draw=draw,
    claims=claims,
    note=NOTE,
    seed=SEED,
)
