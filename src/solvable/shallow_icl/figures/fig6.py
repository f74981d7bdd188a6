"""Fig. 6: a larger start shortens the plateaus, until the loss looks like an exponential."""

from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, at_most, near, step
from ...reproduce.panels import Mark, Panel, drawn, law, level, line, tokens
from .. import Start, Task, crossing_times, merged, mid_levels, plateau_losses, separate, train
from ._drops import count_drops

KINDS = ("merged", "separate")

fig = Figure(
    "shallow_icl/fig6",
    "Larger initial scales: shorter plateaus, then none",
    settings={"quick": {"seeds": 8}, "default": {"seeds": 24}, "full": {"seeds": 100}},
    constants={
        "dim": 4,
        "context": 31,
        "heads": {"merged": 8, "separate": 5},
        "points": {"merged": 1500, "separate": 3000},  # logged in every run
        # In the paper's units; for each scale the rate and the steps.
        "scales": {"merged": (1e-3, 1e-2, 0.1, 1.0), "separate": (0.01, 0.1, 0.3, 1.0)},
        "rates": {"merged": (0.02, 0.02, 0.02, 0.02), "separate": (0.2, 0.1, 0.05, 0.01)},
        "steps": {
            "merged": (6000, 6000, 6000, 6000),
            "separate": (60_000, 18_000, 12_000, 12_000),
        },
        "fitted": 400,  # points of a curve that an exponential is fitted to, evenly in t
    },
    note=(
        "The paper's scales, rates and data are not known: the scales are ours, in the paper's "
        "units, on the population with D = 4, N = 31; H = 8 merged and 5 separate, rank 1, as in "
        "Figs. 1 and 3; every weight of the same standard deviation. One seed is drawn in (a)–(c), "
        "all are judged. From scale 1 the loss starts above that of the zero map, as the random "
        "weights are a wrong map. How much a loss looks like an exponential: a + b exp(−ct) by "
        "least squares from the start to the middle of the last drop, and the root mean square of "
        "what is left, in units of how far the loss falls there."
    ),
    seed=5,  # whose drops are far apart
)


def _start(settings: Any, kind: str, scale: float) -> Start:
    heads = settings.heads[kind]
    return merged(heads, scale) if kind == "merged" else separate(heads, 1, scale)


def _exponential(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The best a + b exp(−cx) for x from 0 to 1: least squares in a and b at every c."""
    rates = np.geomspace(1e-2, 1e3, 200)
    shapes = np.exp(-rates[:, None] * x)
    shapes = shapes - shapes.mean(axis=1, keepdims=True)
    heights = shapes @ y / np.sum(shapes**2, axis=1)
    fits = y.mean() + heights[:, None] * shapes
    return fits[np.argmin(np.sum((fits - y) ** 2, axis=1))]


def _sweep(settings: Any, kind: str) -> xr.Dataset:
    """All scales of one kind of attention, on the population."""
    task = Task(settings.dim, settings.context, basis="random", basis_seed=settings.seed)
    levels, seeds = mid_levels(task), range(settings.seed, settings.seed + settings.seeds)
    x = np.linspace(0.0, 1.0, settings.fitted)
    sweep = zip(*(getattr(settings, n)[kind] for n in ("scales", "rates", "steps")), strict=True)
    found: dict[str, list[Any]] = {n: [] for n in ("loss", "time", "drop", "count", "curve", "fit")}
    for scale, rate, steps in sweep:
        how = {"steps": steps, "log_every": steps // settings.points[kind], "progress": step}
        run = train(task, _start(settings, kind, scale), lr=rate, seed=list(seeds), **how)
        loss, drops = np.asarray(run.loss), crossing_times(run.time, run.loss, levels)
        ends = np.where(np.isnan(drops[:, -1]), run.time[-1], drops[:, -1])
        curves = np.stack([np.interp(x * t, run.time, y) for t, y in zip(ends, loss, strict=True)])
        fits = np.stack([_exponential(x, y) for y in curves])
        parts = (loss[0], run.time, drops, count_drops(run.time, loss), curves, fits)
        for name, part in zip(found, parts, strict=True):
            found[name].append(part)
    scale, many = f"{kind}_scale", (f"{kind}_scale", "seed")
    axes = {"loss": (scale, f"{kind}_point"), "time": (scale, f"{kind}_point"), "count": many}
    axes |= {"drop": (*many, "level"), "curve": (*many, "x"), "fit": (*many, "x")}
    data = {f"{kind}_{name}": (axes[name], found[name]) for name in found}
    return xr.Dataset(data, {scale: list(settings.scales[kind]), "seed": list(seeds), "x": x})


@fig.data
def merged_sweep(settings: Any) -> xr.Dataset:
    """Training of merged attention from every scale, and the plateaus of separate attention."""
    levels = np.asarray(plateau_losses(Task(settings.dim, settings.context)))
    return _sweep(settings, "merged").assign(plateau_loss=("learned", levels))


@fig.data
def separate_sweep(settings: Any) -> xr.Dataset:
    """Training of separate attention from every scale."""
    return _sweep(settings, "separate")


def _deviation(d: xr.Dataset, kind: str) -> xr.DataArray:
    """How far losses are from their best exponential, (scale, seed)."""
    curve = d[f"{kind}_curve"]
    left = ((curve - d[f"{kind}_fit"]) ** 2).mean("x") ** 0.5
    return left / (curve.max("x") - curve.min("x"))


def _losses(d: xr.Dataset, kind: str) -> Panel:
    marks = []
    for k, scale in enumerate(d[f"{kind}_scale"].values):
        here = d.sel({f"{kind}_scale": scale}).isel({f"{kind}_point": slice(1, None)})
        words = rf"$w_\mathrm{{init}} = {scale:g}$"
        marks.append(line(here[f"{kind}_time"], here[f"{kind}_loss"], words, k))
    levels = d.plateau_loss.values if kind == "separate" else d.plateau_loss.values[-1:]
    marks += [level(y, color="0.35", linestyle="--", linewidth=0.8) for y in levels]
    title, look = f"{kind} key and query", {"ylim": (0.0, 1.7), "where": "upper right"}
    return Panel(r"$t/\tau$", "loss $L$", marks, log="x", title=title, **look)


def _ends(d: xr.Dataset) -> list[Mark]:
    """The first seed from the smallest and the largest start, each with its exponential."""
    marks: list[Mark] = []
    for n, kind in enumerate(KINDS):
        for k, style in ((0, "--"), (-1, "-")):
            here = d.isel({f"{kind}_scale": k, "seed": 0})
            words = rf"{kind}, $w_\mathrm{{init}} = {float(here[f'{kind}_scale']):g}$"
            marks.append(line(d.x, here[f"{kind}_curve"], words, n, linestyle=style))
            words = "best exponential" if (n, k) == (1, -1) else ""
            marks.append(law(d.x, here[f"{kind}_fit"], words))
    return marks


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """The loss from every scale; the smallest and the largest; and all from an exponential."""
    away = []
    for n, kind in enumerate(KINDS):
        far, scales = _deviation(d, kind), d[f"{kind}_scale"]
        away.append(tokens(scales, far.values[:, 0], f"{kind}, all seeds", n, alpha=0.6))
        away += [tokens(scales, run, "", n, alpha=0.6) for run in far.values.T[1:]]
        away.append(line(scales, far.median("seed"), "median", n, linewidth=1.0))
    x, y = "$t$ / time of the last drop", "rms distance / fall of $L$"
    title, init = "smallest and largest scale", r"initial scale $w_\mathrm{init}$"
    return drawn(
        *(_losses(d, kind) for kind in KINDS),
        Panel(x, "loss $L$", _ends(d), title=title, where="upper right"),
        Panel(init, y, away, log="x", title="from the best exponential", ylim=(0.0, 0.2)),
        rows=2,
    )


@fig.claim("reported", "Fig. 6", word="shrinks-{x}", over=KINDS)
def shrinks(d, x):
    """A larger start shortens the first plateau of {x} attention (largest ratio of the times of
    the first drop at a scale and at the next smaller one, over all seeds)."""
    first = d[f"{x}_drop"].isel(level=0).transpose(f"{x}_scale", "seed").values
    words = f"t/τ, medians: {', '.join(f'{t:.3g}' for t in np.median(first, axis=1))}."
    return at_most(np.max(first[1:] / first[:-1]), 1.0, because="shorter is below 1", note=words)


@fig.claim("new", "ours")
def stairs(d):
    """From the smallest start separate attention drops D times (median over seeds)."""
    counts = d.separate_count.isel(separate_scale=0)
    words = (
        f"Every one of {counts.size} seeds counts; {int((counts == d.level.size).sum())} drop so."
    )
    return near(counts.median(), d.level.size, 0.0, because="drops are counted", note=words)


@fig.claim("new", "ours")
def no_stairs(d):
    """From the largest it drops once, without plateaus (median over seeds)."""
    counts = d.separate_count.isel(separate_scale=-1)
    words = f"Every one of {counts.size} seeds counts; {int((counts == 1).sum())} drop once."
    return near(counts.median(), 1.0, 0.0, because="drops are counted", note=words)


@fig.claim("reported", "Fig. 6", word="lazy-{x}", over=KINDS)
def lazy(d, x):
    """From the largest start the loss of {x} attention looks like an exponential (distance from
    the best one, root mean square, in units of the loss's fall; median over seeds)."""
    far = _deviation(d, x).median("seed").values
    words = f"From the smallest start on: {', '.join(f'{y:.3f}' for y in far)}."
    because = "in a picture two lines touch, each as wide as 2 % of its height"
    return near(far[-1], 0.0, 0.04, because=because, note=words)


@fig.claim("new", "ours", word="exponential-{x}", over=KINDS)
def exponential(d, x):
    """The loss of {x} attention is closer to an exponential from the largest start than from the
    smallest (logarithm of the ratio of the distances, mean over all seeds in standard errors)."""
    far = _deviation(d, x).transpose(f"{x}_scale", "seed").values
    ratio = np.log(far[-1] / far[0])
    error = ratio.std(ddof=1) / ratio.size**0.5
    words = f"Ratio {np.exp(np.median(ratio)):.2f} in the median run, from "
    words += f"{np.exp(ratio.min()):.2f} to {np.exp(ratio.max()):.2f} in {ratio.size}."
    return at_most(ratio.mean() / error, -3.0, because="closer, by three of them", note=words)
