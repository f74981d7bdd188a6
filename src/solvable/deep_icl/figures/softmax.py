"""Softmax attention on rotated contexts: no theory, but depth helps here as well."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Claim, Figure, Size, stage, step
from ...style import LAW, TRAINING, colour, panels
from .. import RotatedStructure, train_softmax
from ._say import say

SEED = 0
NU, BETA = 1.5, 1.75
SETTINGS: Mapping[Size, Mapping[str, Any]] = {
    "quick": {
        "task": {"dim": 4, "context": 16, "queries": 8},
        "hidden": 16,
        "depths": (1, 4),
        "contexts": 16,
        "steps": 300,
        "rate": 1e-2,
    },
    "default": {
        "task": {"dim": 8, "context": 24, "queries": 8},
        "hidden": 32,
        "depths": (1, 2, 4, 8),
        "contexts": 32,
        "steps": 500,
        "rate": 5e-3,
    },
    "full": {
        "task": {"dim": 64, "context": 128, "queries": 16},
        "hidden": 128,
        "depths": (1, 2, 4, 8, 16),
        "contexts": 512,
        "steps": 10_000,
        "rate": 1e-3,
    },
}
POINTS = 100


def _train(settings: Mapping[str, Any], depth: int) -> xr.Dataset:
    """One depth; the rate does not depend on it."""
    run = train_softmax(
        RotatedStructure(nu=NU, beta=BETA, **settings["task"]),
        depth=depth,
        hidden=settings["hidden"],
        lr=settings["rate"],
        steps=settings["steps"],
        contexts=settings["contexts"],
        seed=SEED,
        log_every=max(1, settings["steps"] // POINTS),
        progress=step,
    )
    return xr.Dataset(
        {"loss": (("depth", "step"), np.asarray(run.loss)[None])},
        coords={"depth": [depth], "step": run.step},
    )


def compute(size: Size) -> xr.Dataset:
    """A run for every depth."""
    settings = SETTINGS[size]
    runs = [
        stage(f"depth_{depth}", lambda d=depth: _train(settings, d)) for depth in settings["depths"]
    ]
    told = {"dim": settings["task"]["dim"], "rate": settings["rate"]}
    return xr.concat(runs, "depth").assign_attrs(told)


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """Losses against steps, and at the end against depth."""
    figure, (curves, ends) = panels(2)
    for k, depth in enumerate(data.depth.values):
        line = data.loss.sel(depth=depth)
        curves.plot(data.step, line, color=colour(k), label=f"$L = {depth}$", **TRAINING)
    curves.axhline(1.0, **LAW, label="zero predictor")
    curves.set_xlabel("step of AdamW")
    curves.set_ylabel(r"$\mathcal{L}$ on fixed contexts")
    curves.set_yscale("log")
    curves.legend(fontsize=8.0)
    ends.plot(data.depth, _last(data), "o-", color=colour(0))
    ends.set_xscale("log", base=2)
    ends.set_yscale("log")
    ends.set_xticks(data.depth.values, [str(depth) for depth in data.depth.values])
    ends.set_xlabel("$L$")
    ends.set_ylabel(r"$\mathcal{L}$, mean of the last tenth")
    return figure


def _last(data: xr.Dataset) -> xr.DataArray:
    """The mean over the last tenth of the log points."""
    return data.loss.isel(step=slice(-max(1, data.sizes["step"] // 10), None)).mean("step")


SOURCE = "ours"
_say = partial(say, "softmax", "new")
ZERO = _say(
    "learns",
    "Attention of every depth ends below the zero predictor's loss, 1 (largest end).",
    SOURCE,
)
DEEPER = _say(
    "deeper",
    "Deeper attention ends lower: the largest ratio of the end to that of the next smaller depth.",
    SOURCE,
)
STABLE = _say(
    "stable",
    "With one rate for all depths training is stable at each: the largest loss after the first "
    "tenth of the run, all depths, stays below the zero predictor's.",
    SOURCE,
)


def claims(data: xr.Dataset) -> list[Claim]:
    """Qualitative: better than nothing, deeper is better, one rate for all."""
    ends = _last(data).values
    late = data.loss.isel(step=slice(data.sizes["step"] // 10, None))
    told = ", ".join(f"{end:.3f} (L = {n})" for n, end in zip(data.depth.values, ends, strict=True))
    return [
        ZERO.judge(1.0, ends.max(), "at most", note=f"Means of the last tenth: {told}."),
        DEEPER.judge(1.0, np.max(ends[1:] / ends[:-1]), "at most"),
        STABLE.judge(1.0, late.max(), "at most", note=f"Rate {data.attrs['rate']:g}."),
    ]


FIGURE = Figure(
    id="deep_icl/softmax",
    title="Softmax attention: depth helps without theory",
    settings=SETTINGS,
    constants={"nu": NU, "beta": BETA, "heads": 1, "mlp": False},
    statements=(ZERO, DEEPER, STABLE),
    compute=compute,
    draw=draw,
    claims=claims,
    note=(
        "Qualitative: there is no theory. Scores k·q/N, residual 1/L, AdamW with a rate that does "
        "not depend on depth; one head, no MLP. Reported with D = 64, P = 128, K = 16, 512 "
        "contexts a step and width 128 (the full size); quick and default are far smaller. Which "
        "scales the weights start with is our choice."
    ),
    seed=SEED,
)
