"""Batch size as the fourth resource: one law in data, an edge, a best batch, and epochs."""

from typing import Any

import matplotlib.figure
import numpy as np
import scipy.stats
import xarray as xr

from ...numerics.roots import root_between
from ...reproduce import Figure, at_least, at_most, near, settings_of, step
from ...reproduce.panels import Mark, Panel, drawn, entry, law, level, line, theory, upright
from ...style import THEORY, colour
from .. import (
    Init,
    Task,
    best_batch,
    data_law,
    largest_batch,
    loss,
    mean_square_rate,
    one_hit_step,
    sgd_amplitude,
    sgd_loss,
    stability_edge,
    train,
)
from ._witness import claim_tokens, on_tokens

RATE = 0.8  # of the edge, at which the mean square is measured
ERRORS = 4.0  # standard errors that a mean may be off
_MANY = "the largest of a few means over seeds, each off by 3 standard errors once in 400"

fig = Figure(
    "msfr/batch",
    "Mini-batches: one law in data, an edge, a best batch, and epochs",
    settings={
        "quick": {
            "num_tasks": 300,
            "seeds": 16,
            "batches": (1, 4),
            "at_one_rate": (1, 2, 4, 16),
            "edges": (1, 4),
            "paces": (0.5, 0.9, 1.1, 1.4, 2.0),
            "edge_steps": 400,
            "repeats": 8,
            "slope_tasks": 5000,
            "slope_seeds": 8,
            "epochs": 20,
        },
        "default": {
            "num_tasks": 1000,
            "seeds": 64,
            "batches": (1, 2, 4, 8),
            "at_one_rate": (1, 2, 4, 8, 16),
            "edges": (1, 4, 16),
            "paces": (0.5, 0.7, 0.9, 0.97, 1.05, 1.1, 1.2, 1.3, 1.4, 1.55, 1.7, 2.0),
            "edge_steps": 1000,
            "repeats": 8,
            "slope_tasks": 20_000,
            "slope_seeds": 32,
            "epochs": 40,
        },
        "full": {
            "num_tasks": 5000,
            "seeds": 256,
            "batches": (1, 2, 4),
            "at_one_rate": (1, 2, 4, 8, 16, 32),
            "edges": (1, 4, 16, 64),
            "paces": (0.5, 0.7, 0.9, 0.97, 1.03, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 2.0),
            "edge_steps": 4000,
            "repeats": 8,
            "slope_tasks": 100_000,
            "slope_seeds": 64,
            "epochs": 80,
        },
    },
    constants={
        "alpha": 1.8,
        "context": 100.0,
        "strength": 0.5,
        "init": (0.1, 0.11),
        "step": 1e-3,
        "last": 1024,
        "settled": 256,
        "budget": 640,  # which all batches divide
        "data": 320,
        "epoch_batch": 4,
        "edge_tasks": 30,
    },
    note=(
        "Not in the paper. α = 1.8, ψ = 100, Λ = 0.5, v = 0.1, w = 0.11 at the start (106). Bars: "
        "mean over seeds and its standard error. (a) η/B = 10⁻³. (b) N = Bt = 640 data at η = 2h*, "
        "h* the step that learns a task in one hit. (c) Runs that begin next to the end of "
        "training (v = w, f within 10⁻⁴ of Λ): η over the edge ηK[p₁(1 − 1/B) + 1/B] = 2, beyond "
        "which the mean square grows. Single runs leave where the mean logarithm grows (dotted "
        "uprights), which is later, but for B = 1. (d) N = 320 data in mini-batches of 4, each "
        "datum once an epoch."
    ),
)


def _task(settings: Any, num_tasks: int) -> tuple[Task, Init]:
    task = Task(num_tasks, settings.alpha, settings.context, settings.strength)
    return task, Init(*settings.init)


def _seeds(settings: Any, count: int) -> tuple[int, ...]:
    return tuple(range(settings.seed, settings.seed + count))


@fig.data
def tokens(settings: Any) -> xr.Dataset:
    """Mini-batches of a data set on tokens; 8 does not divide 60."""
    task, init = Task(20, settings.alpha, 20.0, settings.strength), Init(*settings.init)
    return on_tokens(task, init, lr=5e-3, steps=300, data=60, batch=8, log_every=10)


@fig.data
def scaling(settings: Any) -> xr.Dataset:
    """(a): L in data seen at one η/B."""
    task, init = _task(settings, settings.num_tasks)
    counts = settings.last // 2 ** np.arange(6)[::-1]
    every = counts[0]
    losses = []
    for k, batch in enumerate(settings.batches):
        rate = {"lr": batch * settings.step, "batch": batch, "steps": settings.last // batch}
        seeds = _seeds(settings, settings.seeds)
        run = train(task, init, seed=seeds, log_every=max(1, int(every) // batch), **rate)
        losses.append(np.asarray(run.loss)[:, np.searchsorted(batch * run.step, counts)])
        step(k + 1, len(settings.batches))
    many = np.unique(np.round(np.geomspace(10, 10 * settings.last, 30)))
    endless = Task(10**12, settings.alpha, settings.context, settings.strength)
    hits = {"lr": settings.step, "batch": 1}
    return xr.Dataset(
        {
            "scaled": (("batch", "run", "seen"), np.stack(losses)),
            "mean": ("seen", sgd_loss(task, init, counts, **hits)),
            "curve": ("many", sgd_loss(task, init, many, **hits)),
            "endless": ("many", sgd_loss(endless, init, many, **hits)),
            "amplitude": sgd_amplitude(endless, init, **hits),
        },
        coords={"batch": list(settings.batches), "seen": counts, "many": many},
    )


@fig.data
def slope(settings: Any) -> xr.Dataset:
    """The exponent in data of training with many tasks."""
    task, init = _task(settings, settings.slope_tasks)
    batch, counts = 4, np.asarray([settings.settled, 8 * settings.settled])
    at = counts // batch
    how = {
        "lr": batch * settings.step,
        "batch": batch,
        "seed": _seeds(settings, settings.slope_seeds),
    }
    run = train(task, init, steps=int(at[1]), log_every=int(at[0]), progress=step, **how)
    left = np.asarray(run.loss)[:, np.searchsorted(run.step, at)]
    hits = sgd_loss(task, init, at, lr=batch * settings.step, batch=batch)
    return xr.Dataset({"ends": (("slope_run", "end"), left), "end_means": ("end", hits)})


@fig.data
def best(settings: Any) -> xr.Dataset:
    """(b): L in the batch at one learning rate, and at one η/B, after as many data."""
    task, init = _task(settings, settings.num_tasks)
    seeds, data = _seeds(settings, settings.seeds), settings.budget
    hit = one_hit_step(task, init)
    at_one, along = [], []
    for k, batch in enumerate(settings.at_one_rate):
        ends = {"batch": batch, "steps": data // batch, "log_every": data // batch, "seed": seeds}
        at_one.append(np.asarray(train(task, init, lr=2.0 * hit, **ends).loss)[:, -1])
        along.append(np.asarray(train(task, init, lr=batch * hit, **ends).loss)[:, -1])
        step(k + 1, len(settings.at_one_rate))
    # Beyond the batches that were trained by steps of the same size and as many data.
    grid = np.geomspace(1.0, 1.25 * settings.at_one_rate[-1], 24)
    curve = [sgd_loss(task, init, data, lr=2.0 * hit / b, batch=1) for b in grid]
    return xr.Dataset(
        {
            "at_one_rate": (("rate_batch", "best_run"), np.stack(at_one)),
            "at_one_step": (("rate_batch", "best_run"), np.stack(along)),
            "best_curve": ("batch_grid", np.asarray(curve)),
            "best_batch": best_batch(task, init, 2.0 * hit),
            "largest_batch": largest_batch(task, init),
            "unseen": data_law(task, init, "exact").loss(np.asarray(float(data))),
        },
        coords={"rate_batch": list(settings.at_one_rate), "batch_grid": grid},
    )


def _at_the_end(settings: Any) -> Init:
    """A start next to the end of training: v = w along (1, 1), f off Λ by 1e-4 of it."""
    along = settings.context * (1.0 + settings.strength) ** 2 + 1.0
    entry = np.sqrt(settings.strength / along) * (1.0 + 0.5e-4)
    return Init(entry, entry)


@fig.data
def edge(settings: Any) -> xr.Dataset:
    """(c): how many runs leave the end of training, and how the mean square moves."""
    task, init = _task(settings, settings.edge_tasks)[0], _at_the_end(settings)
    leave, typical, rates, squares = [], [], [], []
    for k, batch in enumerate(settings.edges):
        most, left = stability_edge(task, init, batch=batch), []
        for pace in settings.paces:
            how = {"lr": pace * most, "batch": batch, "seed": _seeds(settings, settings.seeds)}
            ends = {"steps": settings.edge_steps, "log_every": settings.edge_steps}
            first, last = np.asarray(train(task, init, **how, **ends).loss).T
            left.append(np.mean(~(last <= first)))  # not a number has left, too
        leave.append(left)
        typical.append(_typical(float(task.normaliser), batch))
        # Over so few steps that a mean over seeds is not that of a few of them.
        found = []
        for seeds in np.arange(settings.repeats * settings.seeds).reshape(settings.repeats, -1):
            rate = {"lr": RATE * most, "batch": batch}
            how = {**rate, "seed": tuple((settings.seed + seeds).tolist())}
            run = train(task, init, **how, steps=3, log_every=3)
            off = np.asarray(run.predictions)[:, :3, :] - settings.strength
            found.append((off[..., -1] / off[..., 0]) ** 2)
        squares.append(np.concatenate(found))
        rates.append(mean_square_rate(task, init, lr=RATE * most, batch=batch)[:3] ** 3)
        step(k + 1, len(settings.edges))
    return xr.Dataset(
        {
            "left": (("edge_batch", "pace"), np.asarray(leave)),
            "typical": ("edge_batch", np.asarray(typical)),
            "squares": (("edge_batch", "edge_run", "first_task"), np.stack(squares)),
            "mean_squares": (("edge_batch", "first_task"), np.stack(rates)),
        },
        coords={"edge_batch": list(settings.edges), "pace": list(settings.paces)},
    )


def _typical(chance: float, batch: int) -> float:
    """η over the edge of the mean square from which on ``E log |1 − ηKc/B|`` is above 0."""
    c = np.arange(batch + 1) / batch
    weight = scipy.stats.binom.pmf(np.arange(batch + 1), batch, chance)
    bound = 2.0 / (chance * (1.0 - 1.0 / batch) + 1.0 / batch)

    def grows(x: float) -> float:
        return float(np.sum(weight * np.log(np.maximum(np.abs(1.0 - x * bound * c), 1e-300))))

    grid = np.linspace(0.999, 4.0, 3002)
    last = grid[np.argmax(np.array([grows(x) for x in grid]) > 0.0)]
    return root_between(grows, last - 1e-3, last) if grows(last - 1e-3) < 0.0 else float(last)


@fig.data
def epochs(settings: Any) -> xr.Dataset:
    """(d): a data set gone through again and again in mini-batches."""
    task, init = _task(settings, settings.num_tasks)
    batch, data = settings.epoch_batch, settings.data
    a_pass, rate = data // batch, {"lr": batch * settings.step, "batch": batch}
    seeds = _seeds(settings, settings.seeds)
    how = {"steps": settings.epochs * a_pass, "log_every": a_pass, "progress": step}
    run = train(task, init, data=data, seed=seeds, **rate, **how)
    steps = np.asarray(run.step)
    return xr.Dataset(
        {
            "epoch_loss": (("epoch_run", "epoch"), np.asarray(run.loss)),
            "epoch_train_loss": (("epoch_run", "epoch"), np.asarray(run.train_loss)),
            "epoch_hits": ("epoch", sgd_loss(task, init, steps, data=data, **rate)),
            "epoch_fresh": ("epoch", sgd_loss(task, init, steps, **rate)),
            "epoch_flow": ("epoch", np.asarray(loss(task, init, run.time, data=data))),
        },
        coords={"epoch": steps // a_pass},
    )


def _bars(x: Any, runs: np.ndarray, label: str, k: int, axis: int) -> Mark:
    """The mean over runs and its standard error."""
    error = runs.std(axis=axis, ddof=1) / np.sqrt(runs.shape[axis])
    look = {"fmt": "o", "markersize": 3.2, "elinewidth": 0.9, "capsize": 1.8, "label": label}
    return Mark(lambda axes: axes.errorbar(x, runs.mean(axis=axis), error, color=colour(k), **look))


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """(a) one law in data, (b) the best batch, (c) the edge, (d) epochs."""
    settings = settings_of(d)
    power = 1.0 - 1.0 / settings.alpha
    many = d.many.values
    seen = [
        _bars(d.seen.values * 1.015 ** (k - 1.5), d.scaled.values[k], f"$B = {batch}$", k, 0)
        for k, batch in enumerate(settings.batches)
    ]
    seen += [
        theory(many, d.curve.values, "by hits", color="0.3"),
        line(many, d.endless.values, "$S = 10^{12}$", color="0.6", linewidth=1.0),
        law(many, float(d.amplitude) * many**-power, r"$\propto N^{-(\alpha-1)/\alpha}$"),
    ]
    hit = [
        level(float(d.unseen), color="0.4", linewidth=0.9, label="data law"),
        upright(float(d.best_batch), color="0.4", linestyle=":"),
        theory(d.batch_grid.values, d.best_curve.values, "by hits", color="0.3"),
        _bars(d.rate_batch.values, d.at_one_rate.values, r"SGD, $\eta = 2h^*$", 0, 1),
    ]
    leave = [upright(1.0, color="0.6")]
    for k, batch in enumerate(settings.edges):
        leave += [
            line(settings.paces, d.left.values[k], f"$B = {batch}$", k, marker="o", markersize=3.0),
            upright(float(d.typical[k]), color=colour(k), linestyle=":", linewidth=1.0),
        ]
    leave += [entry("typical run grows", color="0.4", linestyle=":", linewidth=1.0)]
    epoch = d.epoch.values
    some = np.unique(np.round(np.geomspace(1, epoch[-1], 12)).astype(int))
    passes = [
        _bars(epoch[some], d.epoch_loss.values[:, some], f"SGD on {settings.data} data", 0, 0),
        line(epoch[1:], d.epoch_hits.values[1:], "by hits", color="0.3", **THEORY),
        line(epoch[1:], d.epoch_flow.values[1:], "flow on the data set", 1, linewidth=1.0),
        line(epoch[1:], d.epoch_fresh.values[1:], "fresh data", 2, linewidth=1.0),
    ]
    return drawn(
        Panel("$N = Bt$", "$L$", seen, log="xy", xlim=(20, 6000), ylim=(0.02, 0.6), legend=7.5),
        Panel("$B$", "$L$", hit, log="x", legend=7.5, title=f"after $N = {settings.budget}$ data"),
        Panel(
            r"$\eta$ / edge",
            "share of runs that leave",
            leave,
            ylim=(-0.04, 1.04),
            legend=7.5,
            where="lower right",
        ),
        Panel("epochs", "$L$", passes, log="xy", legend=7.5),
        rows=2,
    )


def _off(runs: np.ndarray, true: Any, axis: int) -> np.ndarray:
    """How many standard errors means over runs are off."""
    error = runs.std(axis=axis, ddof=1) / np.sqrt(runs.shape[axis])
    return np.abs(runs.mean(axis=axis) - true) / error


@fig.claim("new", "SGD on fresh mini-batches")
def linear_scaling_rule(d):
    """At one η/B the loss depends on the data seen N = Bt alone, whatever the batch: it is that of
    hits, ½ Σ p E R_n², n ~ Binomial(N, p), from N = {settled} on (largest distance in standard
    errors)."""
    late = d.seen.values >= settings_of(d).settled
    off = np.stack([_off(runs, d["mean"].values, 0)[late] for runs in d.scaled.values])
    early = np.stack([_off(runs, d["mean"].values, 0)[~late] for runs in d.scaled.values])
    words = f"Before, tasks with Bp ~ 1 count: {early.max():.1f} at B = "
    words += f"{settings_of(d).batches[int(early.max(axis=1).argmax())]}; for B = 1 it is exact."
    return at_most(off.max(), ERRORS, because=_MANY, note=words)


@fig.claim("new", "SGD on fresh mini-batches")
def one_at_a_time(d):
    """For B = 1 that is exact at all times (largest distance in standard errors)."""
    return at_most(_off(d.scaled.values[0], d["mean"].values, 0).max(), ERRORS, because=_MANY)


@fig.claim("new", "SGD on fresh mini-batches")
def exponent(d):
    """The exponent in data seen is (α−1)/α: training with thousands of tasks, from N = {settled} to
    eight times that."""
    ends = d.ends.values
    slope = -np.diff(np.log(ends.mean(axis=0)))[0] / np.log(8.0)
    # Of a mean's logarithm, run by run.
    each = -np.diff(ends / ends.mean(axis=0), axis=1)[:, 0] / np.log(8.0)
    error = each.std(ddof=1) / np.sqrt(len(each))
    finite = -np.diff(np.log(d.end_means.values))[0] / np.log(8.0)
    words = f"Standard error {error:.4f}; of hits with as many tasks it is {finite:.4f}."
    power = 1.0 - 1.0 / settings_of(d).alpha
    slack = ERRORS * error + 0.01
    return near(slope, power, slack, because="seeds, and that N and S are finite", note=words)


@fig.claim("new", "SGD on fresh mini-batches")
def best_is_one_hit(d):
    """At a fixed learning rate η = 2h* and a fixed number of data the batch B* = η/h* = 2 is best
    (the trained batch of least loss)."""
    mean = d.at_one_rate.values.mean(axis=1)
    order = np.argsort(mean)
    runs = d.at_one_rate.values[order[:2]]
    error = np.sqrt(np.sum(runs.var(axis=1, ddof=1) / runs.shape[1]))
    words = f"The next, B = {d.rate_batch.values[order[1]]}, has "
    words += f"{(mean[order[1]] - mean[order[0]]) / error:.0f} standard errors more."
    return near(
        d.rate_batch.values[order[0]], float(d.best_batch), 0.5, because="B is whole", note=words
    )


@fig.claim("new", "SGD on fresh mini-batches")
def best_is_the_data_law(d):
    """There the loss is the data law's, of tasks that were never seen (distance in standard
    errors)."""
    at = int(np.argmin(np.abs(d.rate_batch.values - float(d.best_batch))))
    return at_most(_off(d.at_one_rate.values[at], float(d.unseen), 0), ERRORS, because="seeds")


@fig.claim("new", "SGD on fresh mini-batches")
def largest(d):
    """Growing B at η = h*B saves steps until runs diverge: beyond the edge of the end of training
    they do (share of the runs)."""
    gone = np.mean(~(d.at_one_step.values < 10.0), axis=1)
    batches = d.rate_batch.values
    beyond = batches > float(d.largest_batch)
    shares = ", ".join(f"{x:.0%} at B = {b}" for b, x in zip(batches, gone, strict=True))
    words = f"The edge is B = {float(d.largest_batch):.1f}; from the usual start, whose K is 4.5 "
    words += f"times that of the end, runs diverge earlier: {shares}."
    return at_least(gone[beyond].min(), 0.5, because="most runs", note=words)


@fig.claim("new", "SGD on fresh mini-batches")
def mean_squares(d):
    """Next to the end the mean square is multiplied by ρ = 1 − 2ηKp + η²K²[p²(1−1/B) + p/B] a step,
    of the first three tasks at 0.8 of the edge (largest distance in standard errors)."""
    pairs = zip(d.squares.values, d.mean_squares.values, strict=True)
    return at_most(max(_off(*pair, 0).max() for pair in pairs), ERRORS, because=_MANY)


@fig.claim("new", "SGD on fresh mini-batches")
def stays(d):
    """Below the edge ηK[p₁(1−1/B) + 1/B] = 2 no run leaves the end of training (largest share of
    runs at 0.9 of it and below)."""
    below = d.pace.values <= 0.9
    return at_most(d.left.values[:, below].max(), 0.0, because="no run at all")


@fig.claim("new", "SGD on fresh mini-batches")
def leaves(d):
    """Single runs leave where the mean logarithm of |1 − ηKc/B| grows, which for B > 1 is beyond
    the edge of the mean square (least share of runs 5 % beyond it, less the largest 5 % before)."""
    shares, pace = d.left.values, d.pace.values
    gaps = []
    for left, typical in zip(shares, d.typical.values, strict=True):
        after, before = left[pace > 1.05 * typical], left[pace < 0.95 * typical]
        gaps.append(after.min() - before.max())
    places = zip(d.edge_batch.values, d.typical.values, strict=True)
    words = ", ".join(f"B = {batch}: {x:.2f}" for batch, x in places)
    return at_least(min(gaps), 0.5, because="most runs", note=f"In units of the edge: {words}.")


@fig.claim("new", "SGD on a data set")
def many_epochs(d):
    """After e epochs of a data set the loss is ½ Σ p E R_en², n ~ Binomial(N, p): each datum has
    hit its task e times (largest distance in standard errors)."""
    off = _off(d.epoch_loss.values[:, 1:], d.epoch_hits.values[1:], 0)
    return at_most(off.max(), ERRORS, because=_MANY)


@fig.claim("new", "SGD on a data set")
def no_floor(d):
    """Mini-batches leave no floor: what is left of the training loss after all epochs, over that
    at the start (largest of the runs)."""
    left = d.epoch_train_loss.values
    words = f"After {int(d.epoch[-1])} epochs."
    because = "noise of the size of a step would leave ηK/B ~ 0.1 of it"
    return at_most((left[:, -1] / left[:, 0]).max(), 1e-4, because=because, note=words)


claim_tokens(fig, "App. I", "mini-batches of 8 of 60 data")
