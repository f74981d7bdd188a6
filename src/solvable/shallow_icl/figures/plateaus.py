"""When the drops come: predicted from the first weights alone, against training."""

import math
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, at_least, near, settings_of, stage, step
from ...reproduce.panels import Mark, Panel, drawn, entry, law, level, line, tokens, upright
from ...style import LAW, colour
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
    unit_factor,
)

PARTS = 4  # of a run, each up to three times the steps of the one before, logged a third as often
POINTS = 900  # logged in the first, two thirds as many in the others
CHUNK = 50  # seeds whose first drops are followed at once
SHOWN = ("best", "typical", "worst")  # seeds whose loss is drawn, by their worst drop
RANKS = (2, 4)  # above one
MISSED = 0.05  # the relative error from which on a drop is not where it is predicted
RESAMPLED = 400  # times that seeds are drawn anew, for the error of a slope

fig = Figure(
    "shallow_icl/plateaus",
    "The length of every plateau, predicted from the weights that training starts with",
    settings={"quick": {"seeds": 30}, "default": {"seeds": 100}, "full": {"seeds": 400}},
    constants={
        "dim": 4,
        "context": 31,
        "heads": 5,
        "init": "A",
        "scales": (1e-2, 3e-3, 1e-3),
        "units": "code",
        "lr": 0.02,
        "first": {"scale": 3e-3, "points": 4000},  # where first drops are followed closely
        "beyond": 1.2,  # how long training goes on, in units of the latest drop predicted
        "clear": 1.3,  # the margin T₂/T₁ above which a drop is no near-tie
        "rank_scale": 1e-3,  # of keys and queries of higher rank
    },
    note=(
        "Not in the paper, which has the length of a plateau up to its scaling. While nothing that "
        "is being learned has grown, every head follows its own exactly solved flow; the one that "
        "blows up first is learned next. D = 4, N = 31, H = 5, R = 1 and η = 0.02 in units of the "
        "published code, every weight of standard deviation s (version A of the "
        "initialisation), on the population. A drop is where the loss is half-way between two "
        "plateaus; one that training does not have within 1.2 times the latest time predicted "
        "for any seed counts as infinitely far off. A head of rank R that has learned a direction "
        "has R − 1 pairs of key and query to spare, which go on growing exponentially: a plateau "
        "between two drops of one head is a logarithm of s long, one between two heads 1/s."
    ),
)


def _task(settings: Any) -> Task:
    return Task(settings.dim, settings.context)


def _train(settings: Any, start: Start, lr: float, seeds: list[int], **how: Any) -> Run:
    """Training on the population."""
    how |= {"lr": lr, "units": settings.units, "seed": seeds, "progress": step}
    return train(_task(settings), start, **how)


def _whole(settings: Any, start: Start, steps: float, times: int = 1) -> Run:
    """Training for so many steps, logged ever more rarely: the drops are ever further apart."""
    steps, lr = steps / times, settings.lr * times
    finest = math.ceil(steps / (POINTS * 3 ** (PARTS - 1)))
    run = None
    for every in (finest * 3**part for part in range(PARTS)):
        how = {"steps": POINTS * every, "log_every": every, "resume": run}
        run = _train(settings, start, lr, _seeds(settings), **how)
    assert run is not None
    return run


def _seeds(settings: Any) -> list[int]:
    return list(range(settings.seed, settings.seed + settings.seeds))


@fig.data
def early(settings: Any) -> xr.Dataset:
    """The first drop of all seeds, in t/τ, predicted and at the rate and half of it."""
    scale = settings.first["scale"]
    start = separate(heads=settings.heads, scale=scale, init=settings.init)
    how = {"units": settings.units, "seed": _seeds(settings)}
    drops = drop_times(_task(settings), start, **how)
    predicted = drops.time[:, 0]
    levels, pace = np.asarray(mid_levels(_task(settings)))[:1], 2.0 * settings.lr
    pace *= unit_factor(_task(settings), start, settings.units) ** 2  # t/τ of a step
    every = math.ceil(settings.beyond * float(predicted.max()) / pace / settings.first["points"])
    found = []
    for halves in (1, 2):
        steps = {"steps": settings.first["points"] * every * halves, "log_every": every * halves}
        parts = []
        for k in range(0, settings.seeds, CHUNK):
            some = _seeds(settings)[k : k + CHUNK]
            run = _train(settings, start, settings.lr / halves, seeds=some, **steps)
            parts.append(crossing_times(run.time, run.loss, levels)[:, 0])
        found.append(np.concatenate(parts))
    times = {"first_predicted": ("seed", predicted), "first": (("halves", "seed"), found)}
    times["first_margin"] = ("seed", drops.margin[:, 0])
    return xr.Dataset(times, coords={"seed": _seeds(settings), "halves": [1, 2]})


def _scale(settings: Any, scale: float) -> xr.Dataset:
    """Drops of all seeds at one scale, predicted and simulated, in steps."""
    seeds = _seeds(settings)
    start = separate(heads=settings.heads, scale=scale, init=settings.init)
    drops = drop_times(_task(settings), start, units=settings.units, seed=seeds)
    predicted = drops.steps(settings.lr)
    run = _whole(settings, start, settings.beyond * float(predicted.max()))
    loss = np.asarray(run.loss)
    found = crossing_times(run.step, loss, np.asarray(mid_levels(_task(settings))))
    order = np.argsort(np.max(np.abs(predicted / found - 1.0), axis=1))  # NaN comes last
    shown = order[[0, len(order) // 2, -1]]
    parts = {
        "predicted": (("seed", "direction"), predicted),
        "simulated": (("seed", "direction"), found),
        "margin": (("seed", "direction"), drops.margin),
        "loss": (("shown", "point"), loss[shown]),
        "shown_predicted": (("shown", "direction"), predicted[shown]),
        "step": ("point", run.step.astype(float)),
    }
    coords = {"seed": seeds, "direction": drops.direction + 1, "shown": list(SHOWN)}
    return xr.Dataset(parts, coords=coords)


@fig.data
def scales(settings: Any) -> xr.Dataset:
    """Every scale, and the plateaus' losses."""
    found = [stage(f"{s:g}", lambda s=s: _scale(settings, s)) for s in settings.scales]
    levels = {"level": ("learned", np.asarray(plateau_losses(_task(settings))))}
    every = xr.concat(found, dim="scale").assign_coords(scale=list(settings.scales))
    return every.assign(levels)


def _rank(settings: Any, rank: int) -> xr.Dataset:
    """Drops of all seeds at one rank, predicted, and simulated at the rate and twice it."""
    start = separate(settings.heads, rank, settings.rank_scale, settings.init)
    drops = drop_times(_task(settings), start, units=settings.units, seed=_seeds(settings))
    steps = settings.beyond * float(drops.steps(settings.lr).max())
    runs = [_whole(settings, start, steps, times) for times in (1, 2)]
    levels = np.asarray(mid_levels(_task(settings)))
    found = [crossing_times(run.time, run.loss, levels) for run in runs]
    order = np.argsort(np.max(np.abs(drops.time / found[0] - 1.0), axis=1))
    typical = order[len(order) // 2]
    parts = {
        "rank_predicted": (("seed", "direction"), drops.time),
        "rank_drop": (("times", "seed", "direction"), found),
        "rank_loss": ("point", np.asarray(runs[0].loss)[typical]),
        "rank_step": ("point", runs[0].step.astype(float)),
        "rank_shown": ("direction", drops.steps(settings.lr)[typical]),
    }
    places = {"seed": _seeds(settings), "direction": drops.direction + 1, "times": [1, 2]}
    return xr.Dataset(parts, coords=places)


@fig.data
def ranks(settings: Any) -> xr.Dataset:
    """Keys and queries of higher rank."""
    found = [stage(f"rank_{r}", lambda r=r: _rank(settings, r)) for r in RANKS]
    return xr.concat(found, dim="rank").assign_coords(rank=list(RANKS))


def errors(d: xr.Dataset) -> xr.DataArray:
    """The relative error of every predicted drop; infinite where training had none."""
    return abs(d.predicted / d.simulated - 1.0).fillna(np.inf)


def least_margin(d: xr.Dataset) -> xr.DataArray:
    """The smallest margin so far: later predictions rest on the earlier ones."""
    axis = d.margin.get_axis_num("direction")
    return d.margin.copy(data=np.minimum.accumulate(d.margin.values, axis=axis))


def _stairs(d: xr.Dataset) -> Panel:
    """Three losses and when their drops were predicted."""
    small = d.isel(scale=-1)
    half = 0.5 * (d.level.values[1:] + d.level.values[:-1])
    marks: list[Mark] = [level(each, **(LAW | {"linewidth": 0.8})) for each in d.level.values]
    for k, which in enumerate(SHOWN):
        here, dot = small.sel(shown=which), {"linestyle": "none", "marker": "o"}
        marks.append(line(here.step[1:], here.loss[1:], which, k, linewidth=2.4, alpha=0.55))
        marks.append(line(here.shown_predicted, half, "", 6, markersize=3.8, **dot))
        marks.append(line(here.shown_predicted, half, "", k, markersize=2.4, **dot))
    marks.append(entry("predicted", linestyle="none", marker="o", color="black", markersize=3.8))
    ends = (0.5 * float(small.predicted.min()), float(small.step[-1]))
    title = f"three of the seeds, $s = {float(small.scale):g}$"
    return Panel("step", "$L$", marks, log="x", title=title, xlim=ends, where="upper right")


def _ranks(d: xr.Dataset) -> Panel:
    """A typical loss at every rank and when its drops were predicted."""
    half, given = 0.5 * (d.level.values[1:] + d.level.values[:-1]), settings_of(d)
    marks: list[Mark] = [level(each, **(LAW | {"linewidth": 0.8})) for each in d.level.values]
    one = d.sel(scale=given.rank_scale, shown="typical")
    curves = [(one.step, one.loss, one.shown_predicted)]
    curves += [
        (x.rank_step, x.rank_loss, x.rank_shown) for x in (d.sel(rank=rank) for rank in RANKS)
    ]
    for k, (rank, (steps, loss, told)) in enumerate(zip((1, *RANKS), curves, strict=True)):
        dot = {"linestyle": "none", "marker": "o"}
        marks.append(line(steps[1:], loss[1:], f"$R = {rank}$", k, linewidth=2.4, alpha=0.55))
        marks.append(line(told, half, "", 6, markersize=3.8, **dot))
        marks.append(line(told, half, "", k, markersize=2.4, **dot))
    marks.append(entry("predicted", linestyle="none", marker="o", color="black", markersize=3.8))
    low, high = np.log10([float(d.rank_shown.min()), float(one.shown_predicted.max())])
    ends = (10.0 ** np.floor(low), 10.0 ** np.ceil(high))
    title = f"rank $R$, a typical seed, $s = {given.rank_scale:g}$"
    return Panel("step", "$L$", marks, log="x", title=title, xlim=ends, where="upper right")


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """Three staircases with their predictions, all drops, their errors, and higher ranks."""
    error, margin = errors(d), least_margin(d)
    drops, misses, some = [], [], {"markersize": 3.0, "alpha": 0.6}
    for k, scale in enumerate(d.scale.values):
        here, look = d.sel(scale=scale), some | {"markerfacecolor": colour(k)}
        words = rf"$s = {scale:g}$"
        x, y = here.predicted.values.ravel(), here.simulated.values.ravel()
        drops.append(tokens(x, y, words, k, **look))
        x, y = margin.sel(scale=scale).values.ravel(), error.sel(scale=scale).values.ravel()
        misses.append(tokens(x - 1.0, y, words, k, **look))
    ends = np.array([d.predicted.min(), d.predicted.max()])
    drops.append(law(ends, ends))
    misses.append(upright(settings_of(d).clear - 1.0, **LAW))
    least = "least margin so far, $T_2/T_1 - 1$"
    return drawn(
        _stairs(d),
        Panel("predicted step of a drop", "simulated", drops, log="xy"),
        Panel(least, "relative error", misses, log="xy", legend=0),
        _ranks(d),
        rows=2,
    )


def _late(d: xr.Dataset) -> xr.DataArray:
    """By which part of its predicted time the first drop of descent comes late, at both rates."""
    return (d["first"] / d.first_predicted - 1.0).fillna(np.inf)


@fig.claim("new", "derived")
def first(d):
    """The first drop is where the head that blows up first puts it, unless another one grows
    together with it (relative error of its time at η → 0, by the straight line through two rates;
    the furthest off of the seeds with a margin T₂/T₁ of {clear} or more, scale 3·10⁻³)."""
    late = _late(d)
    found = (2.0 * late.sel(halves=2) - late.sel(halves=1)).values
    clear = found[d.first_margin.values >= settings_of(d).clear]
    sizes = ", ".join(f"{float(x):.2g}" for x in late.median("seed"))
    words = (
        f"{clear.size} of {found.size} seeds, of which all are within {np.abs(found).max():.1g}. "
        f"At η and η/2 it is {sizes} late (medians)."
    )
    because = "three times the square of the scale, 9e-3 in the paper's units"
    return near(clear[np.argmax(np.abs(clear))], 0.0, 3e-4, because=because, note=words)


@fig.claim("new", "derived")
def first_rate(d):
    """By descent it is late by a time of first order in η (what it is late at η over that at η/2,
    median over seeds, scale 3·10⁻³)."""
    late = _late(d)
    ratio = (late.sel(halves=1) / late.sel(halves=2)).values
    words = f"From {ratio.min():.3f} to {ratio.max():.3f}."
    return near(np.median(ratio), 2.0, 0.05, because="the next order in η", note=words)


@fig.claim("new", "derived")
def every(d):
    """So is every later drop where it is predicted (median over seeds of the relative error, the
    drop furthest off, scale 10⁻³)."""
    median = errors(d).isel(scale=-1).median("seed")
    each = ", ".join(f"{float(x):.2%}" for x in median)
    because = "of the order of the scale, 3e-3 in the paper's units, for each of three drops"
    return near(median.max(), 0.0, 0.01, because=because, note=f"Drop by drop: {each}.")


@fig.claim("new", "derived", word="all")
def all_drops(d):
    """All four drops are predicted from the first weights without time steps (share of the seeds
    with every drop within 5 %, scale 10⁻³)."""
    small = errors(d).isel(scale=-1)
    good = (small <= MISSED).all("direction")
    words = (
        f"{int(good.sum())} of {good.size} seeds; the worst drop is {float(small.max()):.0%} off: "
        "where two heads grow together, which of them is learned decides all that follows."
    )
    # Fails if near-ties, or anything else, spoiled more than one seed in five; one in ten is usual.
    because = "one seed in five may have two heads that grow together"
    return at_least(good.mean(), 0.8, because=because, note=words)


@fig.claim("new", "derived")
def ties(d):
    """What is missed are near-ties, two heads that grow together: where every margin T₂/T₁ so far
    is {clear} or more, drops are where they are predicted (largest relative error, scale 10⁻³)."""
    clear = least_margin(d).isel(scale=-1) >= settings_of(d).clear
    small = errors(d).isel(scale=-1).where(clear)
    # Fails if a drop were missed, by what counts as that above, for any other reason.
    because = "as above, what is further off counts as missed"
    words = f"{int(clear.sum())} drops of {clear.size}; half of them are within "
    words += f"{float(small.median()):.2%}."
    return near(small.max(), 0.0, MISSED, because=because, note=words)


@fig.claim("new", "derived")
def smaller(d):
    """The prediction is that of small scales: its errors vanish with the scale, about like its
    first power (slope in s, log-log, of the median error of the drops behind the first)."""
    # Fails if they fell like s^½, as what a plateau leaves may, or like s².
    error = errors(d).isel(direction=slice(1, None)).transpose("scale", "seed", "direction").values
    x = np.log(d.scale.values)

    def slope(each: np.ndarray) -> float:
        return float(np.polyfit(x, np.log(np.median(each, axis=(1, 2))), 1)[0])

    draw = np.random.default_rng(0)
    seeds = draw.integers(0, error.shape[1], (RESAMPLED, error.shape[1]))
    spread = float(np.std([slope(error[:, some]) for some in seeds]))
    rows = zip(np.median(error, axis=(1, 2)), d.scale.values, strict=True)
    each = ", ".join(f"{error:.2%} at {scale:g}" for error, scale in rows)
    words = f"Medians: {each}. Standard error {spread:.3f}, by resampling the seeds."
    because = "half-way to s^½; over this decade the square of s adds 0.1 to 0.2 to the slope"
    return near(slope(error), 1.0, 0.25, because=because, note=words)


def _still(drops: xr.DataArray) -> xr.DataArray:
    """What drops at two rates tell of η → 0; infinite where one of them is missing."""
    return (2.0 * drops.sel(times=1) - drops.sel(times=2)).fillna(np.inf)


@fig.claim("new", "derived", over=RANKS, word="rank-{x}")
def rank(d, x):
    """With keys and queries of rank {x} every drop is where it is predicted (median over seeds of
    the relative error of its time at η → 0, by the straight line through two rates, the drop
    furthest off, scale {rank_scale:g})."""
    # Fails if a grown head's spare pairs started from elsewhere than its first weights.
    here = d.sel(rank=x)
    gaps = abs(_still(here.rank_drop) / here.rank_predicted - 1.0)
    median, good = gaps.median("seed"), (gaps <= 0.01).all("direction")
    words = f"Drop by drop: {', '.join(f'{float(g):.2%}' for g in median)}; {int(good.sum())} of "
    words += f"{good.size} seeds have all within 1 %, the worst is {float(gaps.max()):.1%} off."
    because = "of the order of the scale, 3e-3 in the paper's units, for a drop by another head"
    return near(median.max(), 0.0, 0.01, because=because, note=words)


@fig.claim("new", "derived", over=RANKS, word="rank-{x}-wait")
def wait(d, x):
    """Between its first two drops a head of rank {x} waits as its spare pairs have it: their c s
    grows by v c in time, from what the first drop has left (time in between over the one
    predicted, at η → 0, median over seeds, scale {rank_scale:g})."""
    # Fails if they waited for the inverse of the scale, as another head does: 40 times as long.
    here = d.sel(rank=x)
    told = here.rank_predicted.diff("direction").isel(direction=0)
    found = _still(here.rank_drop).diff("direction").isel(direction=0)
    one = d.predicted.sel(scale=settings_of(d).rank_scale).diff("direction").isel(direction=0)
    after = float(one.median() / d.predicted.sel(scale=settings_of(d).rank_scale)[:, 0].median())
    share = float((told / here.rank_predicted.isel(direction=0)).median())
    words = (
        f"It is {share:.1%} of the time until the first drop (median); at rank 1, where it takes "
        f"another head, {after:.0%}. From {float((found / told).min()):.3f} to "
        f"{float((found / told).max()):.3f}."
    )
    because = "the time is short; what is of the scale's order in either drop is a part of it"
    return near((found / told).median(), 1.0, 0.02, because=because, note=words)
