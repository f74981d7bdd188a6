"""When the drops come: predicted from the first weights alone, against training."""

import math
from collections.abc import Mapping
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Claim, Figure, Size, Statement, stage, step
from ...style import LAW, TRAINING, colour, panels
from .. import (
    Run,
    Start,
    Task,
    crossing_times,
    drop_times,
    mid_levels,
    plateau_losses,
    separate,
    train,
)

SEED = 0
SCALES = (1e-2, 3e-3, 1e-3)
HEADS, RATE = 5, 0.02
LENGTH = 300.0  # steps times scale: all drops are over, as their times are ∝ 1/scale
PARTS = 4  # of a run, each up to three times the steps of the one before, logged a third as often
POINTS = 900  # logged in the first, two thirds as many in the others
SHOWN = ("best", "typical", "worst")  # seeds whose loss is drawn, by their worst drop
CLEAR = 1.3  # the margin T₂/T₁ above which a drop is no near-tie
SETTINGS: Mapping[Size, Mapping[str, Any]] = {
    "quick": {"seeds": 24},
    "default": {"seeds": 40},
    "full": {"seeds": 400},
}


def _task() -> Task:
    return Task(dim=4, context=31)


def _train(start: Start, seeds: list[int]) -> Run:
    """Training on the population, logged ever more rarely: the drops are ever further apart."""
    finest = math.ceil(LENGTH / start.scale / (POINTS * 3 ** (PARTS - 1)))
    run = None
    for every in (finest * 3**part for part in range(PARTS)):
        run = train(
            _task(),
            start,
            lr=RATE,
            steps=POINTS * every,
            units="code",
            seed=seeds,
            log_every=every,
            progress=step,
            resume=run,
        )
    assert run is not None
    return run


def _scale(settings: Mapping[str, Any], scale: float) -> xr.Dataset:
    """Drops of all seeds at one scale, predicted and simulated, in steps."""
    seeds = list(range(SEED, SEED + settings["seeds"]))
    start = separate(heads=HEADS, scale=scale, init="A")
    drops = drop_times(_task(), start, units="code", seed=seeds)
    run = _train(start, seeds)
    loss = np.asarray(run.loss)
    found = crossing_times(run.step, loss, np.asarray(mid_levels(_task())))
    predicted = drops.steps(RATE)
    order = np.argsort(np.max(np.abs(predicted / found - 1.0), axis=1))  # NaN comes last
    shown = order[[0, len(order) // 2, -1]]
    return xr.Dataset(
        {
            "predicted": (("seed", "direction"), predicted),
            "simulated": (("seed", "direction"), found),
            "margin": (("seed", "direction"), drops.margin),
            "loss": (("shown", "point"), loss[shown]),
            "shown_predicted": (("shown", "direction"), predicted[shown]),
            "step": ("point", run.step.astype(float)),
        },
        coords={"seed": seeds, "direction": drops.direction + 1, "shown": list(SHOWN)},
    ).expand_dims(scale=[scale])


def compute(size: Size) -> xr.Dataset:
    """Every scale, and the plateaus' losses."""
    settings = SETTINGS[size]
    found = [stage(f"scale_{s:g}", lambda s=s: _scale(settings, s)) for s in SCALES]
    levels = xr.Dataset({"level": ("learned", np.asarray(plateau_losses(_task())))})
    return xr.merge([xr.concat(found, dim="scale"), levels])


def errors(data: xr.Dataset) -> xr.DataArray:
    """The relative error of every predicted drop; infinite where training had none."""
    return abs(data.predicted / data.simulated - 1.0).fillna(np.inf)


def least_margin(data: xr.Dataset) -> xr.DataArray:
    """The smallest margin so far: later predictions rest on the earlier ones."""
    axis = data.margin.get_axis_num("direction")
    return data.margin.copy(data=np.minimum.accumulate(data.margin.values, axis=axis))


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """Three staircases with their predictions, all drops, and their errors against margins."""
    figure, axes = panels(3)
    stairs, drops, misses = axes
    small = data.sel(scale=SCALES[-1])
    for level in data.level.values:
        stairs.axhline(level, zorder=0, **(LAW | {"linewidth": 0.8}))
    half = 0.5 * (data.level.values[1:] + data.level.values[:-1])
    for k, which in enumerate(SHOWN):
        here = small.sel(shown=which)
        stairs.plot(here.step[1:], here.loss[1:], color=colour(k), label=which, **TRAINING)
        stairs.plot(here.shown_predicted, half, "o", color="black", markersize=3.8)
        stairs.plot(here.shown_predicted, half, "o", color=colour(k), markersize=2.4)
    stairs.plot([], [], "o", color="black", markersize=3.8, label="predicted")
    stairs.set_xscale("log")
    stairs.set_xlim(1e3, float(small.step[-1]))
    stairs.set_xlabel("step")
    stairs.set_ylabel("$L$")
    stairs.set_title("three of the seeds, $s = 10^{-3}$", fontsize=9.0)
    stairs.legend()
    error, margin = errors(data), least_margin(data)
    dots = {"linestyle": "none", "marker": "o", "markersize": 3.0, "alpha": 0.6}
    for k, scale in enumerate(SCALES):
        here, words = data.sel(scale=scale), rf"$s = {scale:g}$"
        drops.plot(
            here.predicted.values.ravel(),
            here.simulated.values.ravel(),
            color=colour(k),
            label=words,
            **dots,
        )
        misses.plot(
            margin.sel(scale=scale).values.ravel() - 1.0,
            error.sel(scale=scale).values.ravel(),
            color=colour(k),
            label=words,
            **dots,
        )
    ends = np.array([data.predicted.min(), data.predicted.max()])
    drops.plot(ends, ends, **LAW)
    for each in (drops, misses):
        each.set_xscale("log")
        each.set_yscale("log")
    drops.legend()
    misses.legend(loc="lower left")
    drops.set_xlabel("predicted step of a drop")
    drops.set_ylabel("simulated")
    misses.axvline(CLEAR - 1.0, **LAW)
    misses.set_xlabel("least margin so far, $T_2/T_1 - 1$")
    misses.set_ylabel("relative error")
    return figure


def _say(word: str, text: str) -> Statement:
    return Statement(f"shallow_icl/plateaus/{word}", text, "derived", "new")


FIRST = _say(
    "first",
    "The first drop is where the head that blows up first puts it, at scale 10⁻³ (largest relative "
    "error over seeds).",
)
EVERY = _say(
    "every",
    "So is every later drop (largest of the drops' median relative errors over seeds, scale 10⁻³).",
)
ALL = _say(
    "all",
    "All four drops are predicted from the first weights without time steps (fraction of seeds "
    "with every drop within 5 %, scale 10⁻³).",
)
TIES = _say(
    "ties",
    "What is missed are near-ties, two heads that grow together: where every margin T₂/T₁ so far "
    f"is {CLEAR} or more, drops are where they are predicted (largest relative error, scale 10⁻³).",
)
SMALLER = _say(
    "smaller",
    "The prediction is that of small scales: its errors fall with the scale (median error of the "
    "drops behind the first at 10⁻² over that at 10⁻³).",
)


def claims(data: xr.Dataset) -> list[Claim]:
    """Predicted drops against simulated ones."""
    error = errors(data)
    small = error.sel(scale=SCALES[-1])
    median = small.median("seed")
    good = (small <= 0.05).all("direction")
    clear = least_margin(data).sel(scale=SCALES[-1]) >= CLEAR
    later = error.isel(direction=slice(1, None)).median(("seed", "direction"))
    each = ", ".join(f"{float(x):.2%}" for x in median)
    return [
        FIRST.judge(
            0.0,
            small.isel(direction=0).max(),
            0.005,
            note="Simulated drops are read off a log with a point every 0.1 to 0.3 % of the time.",
        ),
        EVERY.judge(0.0, median.max(), 0.01, note=f"Drop by drop: {each}."),
        ALL.judge(
            0.8,
            good.mean(),
            "at least",
            note=f"{int(good.sum())} of {good.size} seeds; the worst drop is "
            f"{float(small.max()):.0%} off: where two heads grow together, which of them is "
            "learned decides all that follows.",
        ),
        TIES.judge(
            0.0, small.where(clear).max(), 0.02, note=f"{int(clear.sum())} drops of {clear.size}."
        ),
        SMALLER.judge(
            3.0,
            later.sel(scale=SCALES[0]) / later.sel(scale=SCALES[-1]),
            "at least",
            note=f"{float(later[0]):.1%}, {float(later[1]):.1%} and {float(later[2]):.2%} at "
            "scales 10⁻², 3·10⁻³ and 10⁻³; in proportion to the scale it would be 10.",
        ),
    ]


FIGURE = Figure(
    id="shallow_icl/plateaus",
    title="The length of every plateau, predicted from the weights that training starts with",
    settings=SETTINGS,
    constants={
        "dim": 4,
        "context": 31,
        "heads": HEADS,
        "init": "A",
        "scales": SCALES,
        "lr": RATE,
        "length": LENGTH,
        "parts": PARTS,
        "points": POINTS,
    },
    statements=(FIRST, EVERY, ALL, TIES, SMALLER),
    compute=compute,
    draw=draw,
    claims=claims,
    note=(
        "Not in the paper, which has the length of a plateau up to its scaling. While nothing that "
        "is being learned has grown, every head follows its own exactly solved flow; the one that "
        "blows up first is learned next. D = 4, N = 31, H = 5, R = 1 and η = 0.02 in units of the "
        "published code, every weight of standard deviation s (version A of the "
        "initialisation), on the population. A drop is where the loss is half-way between two "
        "plateaus."
    ),
    seed=SEED,
)
