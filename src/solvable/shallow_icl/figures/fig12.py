"""Fig. 12: the ranks R = 3, 5, 6, 7 that do not divide D, and heads that are too few."""

from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, near, settings_of, step, worst_ratio
from ...reproduce.panels import Mark, Panel, drawn, theory, tokens
from .. import separate, train
from ._rank import (
    CONSTANTS,
    NOTE,
    SETTINGS,
    claim_ranks,
    over_ranks,
    rank_panels,
    rank_task,
    rest_panel,
)

fig = Figure(
    "shallow_icl/fig12",
    "Ranks that do not divide the dimension, and too few heads",
    settings=SETTINGS,
    constants={
        **CONSTANTS,
        "ranks": (3, 5, 6, 7),
        "few": ((1, 2), (5, 1), (7, 1)),  # ranks and heads with RH < D
        "few_scale": 0.05,
        "few_lr": 0.1,
        "few_steps": 10000,
    },
    note=NOTE,
)


@fig.data
def ranks(settings: Any) -> xr.Dataset:
    """Training at every rank."""
    return over_ranks(settings)


@fig.data
def few(settings: Any) -> xr.Dataset:
    """Where training ends on the population when RH < D."""
    seeds, losses = list(range(settings.seed, settings.seed + settings.seeds)), []
    how = {"lr": settings.few_lr, "steps": settings.few_steps, "units": "code", "seed": seeds}
    for rank, heads in settings.few:
        start = separate(heads, rank, settings.few_scale, settings.init)
        run = train(rank_task(settings), start, log_every=1000, progress=step, **how)
        losses.append(np.asarray(run.loss)[:, -1])
    places = {"few": [rank * heads for rank, heads in settings.few], "seed": seeds}
    return xr.Dataset({"few_loss": (("few", "seed"), losses)}, places)


def _label(rank: int, heads: int, loss: float) -> Mark:
    look: Any = {"textcoords": "offset points", "xytext": (5, 5), "fontsize": 7.5}
    return Mark(
        lambda axes: axes.annotate(f"R = {rank}, H = {heads}", (rank * heads, loss), **look)
    )


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """A panel a rank, the time spent at each level, and the losses of few heads."""
    marks = [theory(d.learned, d.level, "$L(M_m)$", color="black")]
    for k, (rank, heads) in enumerate(settings_of(d).few):
        here = d.few_loss.sel(few=rank * heads)
        words = "" if k else "end of training, every seed"
        marks.append(tokens(np.full(here.size, rank * heads), here, words, markersize=5.0))
        marks.append(_label(rank, heads, float(here.max())))
    last = Panel("$m = RH$", "$L$", marks, title="fewer than $D$ pairs")
    return drawn(*rank_panels(d), rest_panel(d), last, rows=2)


claim_ranks(fig, "Fig. 12, Sec. 5")


@fig.claim("new", "derived")
def few_heads(d):
    """With RH < D pairs of keys and queries training ends at L(M_RH): the first RH directions are
    learned (largest relative gap of L, all seeds)."""
    words = ", ".join(f"R = {r}, H = {h}" for r, h in settings_of(d).few)
    words = f"{words}; {d.sizes['seed']} seeds each, population."
    gap = worst_ratio(d.few_loss.transpose("seed", "few"), d.level.values[d.few.values])
    return near(gap, 0.0, 1e-9, because="training has settled to round-off", note=words)
