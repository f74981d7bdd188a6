"""How long the first plateau lasts: a logarithm of the initial scale, or its inverse."""

from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, near, settings_of, step, worst_ratio
from ...reproduce.panels import Panel, drawn, law, theory, tokens
from .. import (
    Start,
    Task,
    crossing_times,
    drop_times,
    escape_rate,
    escape_time,
    merged,
    mid_levels,
    separate,
    train,
)

fig = Figure(
    "shallow_icl/init-scale",
    "How long the first plateau lasts, against the initial scale",
    settings={
        "quick": {"seeds": 8, "merged": (1e-6, 1e-1, 6), "separate": (1e-3, 1e-1, 5)},
        "default": {"seeds": 24, "merged": (1e-8, 1e-1, 15), "separate": (1e-4, 1e-1, 10)},
        "full": {"seeds": 48, "merged": (1e-10, 1e-1, 19), "separate": (1e-4, 1e-1, 13)},
    },
    constants={
        "dim": 4,
        "context": 31,
        "heads": {"merged": 8, "separate": 5},
        "points": 500,  # logged in every run
        "steps": 5000,  # of merged attention, at every scale
        "rate": 0.2,  # of separate attention, whose steps grow with 1/scale
        "horizon": 25.0,  # t/τ times scale: later than any seed's first drop
        "small": 1e-2,  # scales up to which the laws are judged
    },
    note=(
        "Not in the paper, which says that plateaus grow as the start shrinks. The population; "
        "D = 4, N = 31, rank 1, the paper's units (1/N in the attention), every weight of the same "
        "standard deviation; the same seed has the same weights at every scale, up to the scale. "
        "A drop is where L falls half-way to L(M_1). Two linear layers leave zero exponentially, "
        "three (value, key, query) by v̇ ∝ v², whence the two laws. Judged at scales up to 0.01, "
        "every seed."
    ),
)


def _task(settings: Any) -> Task:
    return Task(settings.dim, settings.context, basis="random", basis_seed=settings.seed)


def _seeds(settings: Any) -> list[int]:
    return list(range(settings.seed, settings.seed + settings.seeds))


def _first_drop(settings: Any, start: Start, lr: float, steps: int, **how: Any) -> np.ndarray:
    """When each seed's loss first falls to the first mid-level, on the population."""
    task = _task(settings)
    how |= {"seed": _seeds(settings), "log_every": steps // settings.points, "progress": step}
    run = train(task, start, lr=lr, steps=steps, **how)
    return crossing_times(run.time, run.loss, mid_levels(task)[:1])[:, 0]


def _dataset(settings: Any, kind: str, drops: Any, told: Any) -> xr.Dataset:
    scale = f"{kind}_scale"
    found = {f"{kind}_drop": ((scale, "seed"), drops), f"{kind}_theory": ((scale, "seed"), told)}
    places = {scale: np.geomspace(*getattr(settings, kind)), "seed": _seeds(settings)}
    return xr.Dataset(found, places)


@fig.data
def merged_drops(settings: Any) -> xr.Dataset:
    """Merged attention: all heads, and the D + 1 numbers of the theory."""
    task, drops, told = _task(settings), [], []
    for scale in np.geomspace(*settings.merged).tolist():
        horizon = 1.2 * float(escape_time(task, scale)) + 15.0
        start, lr = merged(settings.heads["merged"], scale), horizon / (2.0 * settings.steps)
        drops.append(_first_drop(settings, start, lr, settings.steps))
        told.append(_first_drop(settings, start, lr, settings.steps, blocks="aligned"))
    return _dataset(settings, "merged", drops, told).assign(escape=float(escape_rate(task)))


@fig.data
def separate_drops(settings: Any) -> xr.Dataset:
    """Separate attention: training, and the quadrature of the theory."""
    task, drops, told, points = _task(settings), [], [], settings.points
    for scale in np.geomspace(*settings.separate).tolist():
        start = separate(settings.heads["separate"], 1, scale)
        steps = points * round(settings.horizon / scale / (2.0 * settings.rate) / points + 0.5)
        drops.append(_first_drop(settings, start, settings.rate, steps))
        told.append(drop_times(task, start, seed=_seeds(settings)).time[:, 0])
    return _dataset(settings, "separate", drops, told)


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """The first drop against the scale, merged and separate."""
    marks, middle = {}, {}
    for k, kind in enumerate(settings_of(d).heads):
        scale, drop = d[f"{kind}_scale"].values, d[f"{kind}_drop"]
        words = ["training, all seeds", *[""] * (d.sizes["seed"] - 1)]
        runs = zip(drop.transpose("seed", ...).values, words, strict=True)
        marks[kind] = [tokens(scale, run, word, k, alpha=0.5) for run, word in runs]
        middle[kind] = d[f"{kind}_theory"].median("seed").values
        marks[kind].append(theory(scale, middle[kind], "theory, median seed", 6))
    scale = d.merged_scale.values
    line = middle["merged"][0] - np.log(scale / scale[0]) / float(d.escape)
    marks["merged"].append(law(scale, line + 4.0, r"slope $1/\|\Lambda^2\|_F$ in $\ln$"))
    scale = d.separate_scale.values
    line = middle["separate"][0] * scale[0] / scale
    marks["separate"].append(law(scale, 2.2 * line, "slope $-1$"))
    x, y = r"initial scale $w_\mathrm{init}$", r"first drop $t/\tau$"
    look: dict[str, Any] = {"where": "upper right"}
    words = "{} key and query"
    return drawn(
        Panel(x, y, marks["merged"], "x", words.format("merged"), ylim=(0.0, None), **look),
        Panel(x, y, marks["separate"], "xy", words.format("separate"), **look),
    )


def _small(d: xr.Dataset, kind: str) -> tuple[xr.Dataset, np.ndarray]:
    """What is judged, and the logarithms of its scales."""
    kept = d[f"{kind}_scale"].values <= 1.001 * settings_of(d).small
    return d.isel({f"{kind}_scale": kept}), np.log(d[f"{kind}_scale"].values[kept])


def _furthest(values: np.ndarray, from_: float) -> float:
    return float(values[np.argmax(abs(values - from_))])


@fig.claim("reported", "eq. (7)")
def merged_slope(d):
    """Merged attention stays near zero for a time ∝ ln(1/w_init): slope × ‖Λ²‖_F is 1 (least
    squares; the seed furthest from it)."""
    small, scale = _small(d, "merged")
    slopes = -np.polyfit(scale, small.merged_drop.transpose("merged_scale", "seed"), 1)[0]
    because = "at scale 0.01 the start is 1 % of the weights' end"
    return near(_furthest(slopes * float(d.escape), 1.0), 1.0, 0.01, because=because)


@fig.claim("check", "derived")
def merged_theory(d):
    """Its first drop comes when that of the D + 1 numbers left after the escape does (largest
    relative gap, all seeds)."""
    small, _ = _small(d, "merged")
    gap = worst_ratio(small.merged_drop, small.merged_theory)
    return near(gap, 0.0, 0.01, because="the numbers leave out what is of the scale's order")


@fig.claim("new", "derived")
def separate_slope(d):
    """Separate attention stays near zero for a time ∝ 1/w_init (log-log slope by least squares;
    the seed furthest from −1)."""
    small, scale = _small(d, "separate")
    drops = np.log(small.separate_drop.transpose("separate_scale", "seed"))
    because = "at scale 0.01 the start is 1 % of the weights' end"
    return near(_furthest(np.polyfit(scale, drops, 1)[0], -1.0), -1.0, 0.01, because=because)


@fig.claim("check", "derived")
def separate_theory(d):
    """Its first drop comes when the exactly solved flow of a small head says (largest relative gap,
    all seeds)."""
    small, _ = _small(d, "separate")
    gap = worst_ratio(small.separate_drop, small.separate_theory)
    return near(gap, 0.0, 0.01, because="the flow leaves out what is of the scale's order")
