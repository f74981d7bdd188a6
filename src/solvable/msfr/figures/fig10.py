"""Fig. 10: softmax attention trained by AdamW: L against D, N, t and C."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import matplotlib.figure
import numpy as np
import optax
import xarray as xr

from ...reproduce import Figure, at_least, at_most, near, settings_of, step, worst_ratio
from ...reproduce.panels import Mark, Panel, drawn, entry, law, line, theory, training
from ...style import LAW, THEORY
from .. import Run, Task, adamw, loss, train
from ..task import realised_shares
from ._softmax import between, few_ticks, mean_exponent, start
from ._witness import claim_tokens, on_tokens

GD = {  # Table 1
    "D": lambda alpha: alpha - 1,
    "N": lambda alpha: (alpha - 1) / alpha,
    "t": lambda alpha: (alpha - 1) / alpha,
    "C": lambda alpha: (alpha - 1) / (alpha + 1),
}

fig = Figure(
    "msfr/fig10",
    "Softmax attention by AdamW: the loss in D, N, t and C",
    settings={
        "quick": {"num_tasks": 500, "context": 20.0, "steps": 300, "sizes": 5, "long_steps": 1000}
        | {"data": (10, 1000), "seeds": 2},
        "default": {"num_tasks": 500, "context": 100.0, "steps": 300, "sizes": 6}
        | {"long_steps": 2000, "data": (10, 100, 1000), "seeds": 3},
        "full": {"num_tasks": 500, "context": 100.0, "steps": 300, "sizes": 16}
        | {"long_steps": 10_000, "data": (10, 32, 100, 316, 1000, 3162), "seeds": 16},
    },
    constants={
        "alphas": (1.8, 2.1),
        "compute_alpha": 2.1,
        "strength": 0.5,
        "entry": 0.1,
        "width": 501,
        "lr": 5e-3,
        "eps": 1e-8,
        "large_eps": 1e-3,
        "few": {"num_tasks": 8, "context": 10.0, "data": 200, "steps": 50},
    },
    note=(
        "AdamW as in Table 4. The start is ours, as the paper does not say: V = 0.1, W_K = 0.1 "
        "and W_Q = 0.11 in every entry, d_e = 501; S = 500, ψ = 100, Λ = 0.5 as in Fig. 3 (quick: "
        "ψ = 20, which leaves 1e-8). t counts steps; L in D and N is the last step's. Why no power "
        "law in t: a task of weight p trained with eps moves like one of weight 1 trained with "
        "eps/p (msfr/adam), and V's entries move by lr a step as long as p g ≫ eps, g = 0.35 the "
        "gradient at the start. That is so for s ≪ s* = (Z g/eps)^(1/α), 10⁴ at α = 1.8 and 3200 "
        "at 2.1: all 500 tasks are one. With eps = 1e-3 s* is 18, and gradient descent's law comes "
        "back (thin, in c)."
    ),
)


@lru_cache
def _adamw(lr: float, eps: float) -> optax.GradientTransformation:
    """One for all runs, so that they are compiled once."""
    return adamw(lr, eps=eps)


def _task(settings: Any, alpha: float) -> Task:
    return Task(settings.num_tasks, alpha, settings.context, settings.strength)


def _train(settings: Any, task: Task, eps: float, **how: Any) -> Run:
    how = {"steps": settings.steps, "log_every": 1} | how
    optimizer = _adamw(settings.lr, eps)
    return train(task, start(settings.width, settings.entry), optimizer=optimizer, **how)


@fig.data
def time(settings: Any) -> xr.Dataset:
    """(c): the whole model on the population, one task alone, and a hundred thousand times eps."""
    alphas = settings.alphas
    runs = [_train(settings, _task(settings, a), settings.eps, progress=step) for a in alphas]
    alone = _alone(settings)
    left = np.stack([np.asarray(run.predictions) for run in runs]) - settings.strength
    task, init = _task(settings, alphas[0]), start(settings.width, settings.entry)
    how = {"steps": settings.long_steps, "log_every": None, "log_points": 60}
    late = _train(settings, task, settings.large_eps, progress=step, **how)
    clock = settings.lr / settings.large_eps * late.step
    return xr.Dataset(
        {
            "trained": (("alpha", "step"), [np.asarray(run.loss) for run in runs]),
            "alone": ("step", alone),
            "behind": (("alpha", "task"), np.abs(left - left[:, :1]).max(axis=2)),
            "ratio": (
                ("alpha", "task"),
                [settings.eps / np.asarray(_task(settings, a).weights) for a in alphas],
            ),
            "left": (("alpha", "task"), np.abs(left[:, :, -1])),
            "error": float(np.abs(left[0, 0, 0])),
            "descent": (("alpha", "step"), [_fastest(settings, a, runs[0].step) for a in alphas]),
            "late": ("late_step", np.asarray(late.loss)),
            "late_flow": ("late_step", np.asarray(loss(task, init, clock))),
        },
        coords={"alpha": list(alphas), "step": runs[0].step, "late_step": late.step},
    )


def _alone(settings: Any) -> np.ndarray:
    """L(t)/L(0) of one task that is trained alone: the first, in a model of size 2."""
    found = np.asarray(
        _train(settings, _task(settings, settings.alphas[0]), settings.eps, size=2).loss
    )
    others = found[0] * (1.0 - float(_task(settings, settings.alphas[0]).weights[0]))
    return (found - others) / (found[0] - others)


def _fastest(settings: Any, alpha: float, steps: np.ndarray) -> np.ndarray:
    """Gradient descent's L, by its flow, at the largest step that is stable: 2/(p_1 (1 + Λ²))."""
    task = _task(settings, alpha)
    lr = 2.0 / (float(task.normaliser) * (1.0 + settings.strength**2))
    return np.asarray(loss(task, start(settings.width, settings.entry), lr * steps))


@fig.data
def sizes(settings: Any, time: xr.Dataset) -> xr.Dataset:
    """(a), (d): models of several sizes D, and what they are if tasks fall together."""
    most, alphas = settings.num_tasks, settings.alphas
    sizes = between(most / 100, most / 5, settings.sizes)
    runs = [
        [_train(settings, _task(settings, a), settings.eps, size=int(d)).loss for d in sizes]
        for a in alphas
    ]
    init = start(settings.width, settings.entry)
    never = [
        [float(loss(_task(settings, a), init, np.inf, size=int(d))) for d in sizes] for a in alphas
    ]
    # One curve for all tasks: those below D have it, the others stay. Every D from 2 on.
    alpha = settings.compute_alpha
    whole = time.trained.sel(alpha=alpha).values[1:]
    every, t = np.arange(2, most + 2), time.step.values[1:]
    weights = np.asarray(_task(settings, alpha).weights)
    first = float(time.trained.sel(alpha=alpha)[0])
    tail = first * np.append(np.cumsum(weights[::-1])[::-1], 0.0)[every - 1]
    predicted = tail[:, None] + (1.0 - tail / first)[:, None] * whole
    compute = np.geomspace(sizes[0] * t[0], sizes[-1] * t[-1], 241)
    best, at = _envelope(compute, every, t, predicted)
    k = alphas.index(alpha)
    lowest, _ = _envelope(compute, sizes, t, np.asarray(runs[k])[:, 1:])
    same, _ = _envelope(compute, sizes, t, predicted[sizes - every[0]])
    return xr.Dataset(
        {
            "by_size": (("alpha", "size", "step"), np.asarray(runs)),
            "never": (("alpha", "size"), never),
            "envelope": ("compute", lowest),
            "same_sizes": ("compute", same),
            "frontier": ("compute", best),
            "frontier_size": ("compute", at),
        },
        coords={"alpha": list(alphas), "size": sizes, "step": time.step, "compute": compute},
    )


def _envelope(
    compute: np.ndarray, sizes: np.ndarray, time: np.ndarray, losses: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The lowest of the curves L(t; D) at each C = D·t, infinite where there is none, and its D."""
    lines = [
        np.interp(np.log(compute), np.log(d * time), np.log(y), left=np.inf, right=np.inf)
        for d, y in zip(sizes, losses, strict=True)
    ]
    return np.exp(np.min(lines, axis=0)), np.asarray(sizes)[np.argmin(lines, axis=0)]


@fig.data
def data(settings: Any) -> xr.Dataset:
    """(b): the whole model on data sets of several sizes N, several of each."""
    seeds, trained, unseen, expected = range(settings.seeds), [], [], []
    init = start(settings.width, settings.entry)
    for alpha in settings.alphas:
        task = _task(settings, alpha)
        weights, first = np.asarray(task.weights), float(loss(task, init, 0.0))
        for k, count in enumerate(settings.data):
            runs = [_train(settings, task, settings.eps, seed=s, data=count) for s in seeds]
            trained.append([float(run.loss[-1]) for run in runs])
            shares = [np.asarray(realised_shares(task, count, seed)) for seed in seeds]
            unseen.append([first * np.sum(weights[each == 0.0]) for each in shares])
            expected.append(float(loss(task, init, np.inf, data=count)))
            step(k + 1, len(settings.data))
    shape = (len(settings.alphas), len(settings.data))
    return xr.Dataset(
        {
            "by_data": (("alpha", "amount", "seed"), np.reshape(trained, (*shape, -1))),
            "unseen": (("alpha", "amount", "seed"), np.reshape(unseen, (*shape, -1))),
            "expected": (("alpha", "amount"), np.reshape(expected, shape)),
        },
        coords={
            "alpha": list(settings.alphas),
            "amount": list(settings.data),
            "seed": list(seeds),
        },
    )


@fig.data
def tokens(settings: Any) -> xr.Dataset:
    """The same by real tokens, at a size where they fit."""
    few = settings.few
    task = Task(few["num_tasks"], settings.alphas[0], few["context"], settings.strength)
    how = {"data": few["data"], "steps": few["steps"], "log_every": 5}
    return on_tokens(
        task, start(None, settings.entry), optimizer=_adamw(settings.lr, settings.eps), **how
    )


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """L against D, N, t and C."""
    return drawn(_by_size(d), _by_data(d), _by_time(d), _by_compute(d), rows=2)


def _by_size(d: xr.Dataset) -> Panel:
    marks: list[Mark] = []
    for k, alpha in enumerate(d.alpha.values):
        here = d.sel(alpha=alpha)
        power = here.never[0] * (d["size"] / d["size"][0]) ** -GD["D"](alpha)
        marks += [
            training(d["size"], here.by_size.isel(step=-1), rf"$\alpha = {alpha}$", k),
            theory(d["size"], here.never, k=k),
            law(d["size"], power),
        ]
    marks += [
        entry(r"tasks $s \geq D$ at their start", color="0.2", **THEORY),
        entry(r"$\propto D^{-(\alpha-1)}$", **LAW),
    ]
    return Panel("$D$", "$L$", marks, log="xy", where="lower left", more=[few_ticks])


def _by_data(d: xr.Dataset) -> Panel:
    marks: list[Mark] = []
    dot: dict[str, Any] = {"linestyle": "none", "marker": ".", "markersize": 5.0, "alpha": 0.6}
    for k, alpha in enumerate(d.alpha.values):
        here, n = d.sel(alpha=alpha), d.amount
        power = here.expected[0] * (n / n[0]) ** -GD["N"](alpha)
        each = np.repeat(n.values, d.sizes["seed"])
        marks += [
            line(each, here.by_data.values.ravel(), k=k, **dot),
            training(n, here.by_data.mean("seed"), rf"$\alpha = {alpha}$", k),
            theory(n, here.expected, k=k),
            law(n, power),
        ]
    marks += [
        entry("unseen tasks at their start, mean", color="0.2", **THEORY),
        entry(r"$\propto N^{-(\alpha-1)/\alpha}$", **LAW),
    ]
    return Panel("$N$", "$L$", marks, log="xy", where="lower left")


def _by_time(d: xr.Dataset) -> Panel:
    marks: list[Mark] = []
    settings, t = settings_of(d), d.step[1:]
    for k, alpha in enumerate(d.alpha.values):  # on each other: the upper one is narrower
        curve = d.trained.sel(alpha=alpha)[1:]
        marks.append(training(t, curve, rf"$\alpha = {alpha}$", k, linewidth=4.5 - 3.0 * k))
    late, power = d.late_step[1:], np.log10(settings.large_eps)
    first, last = d.late[1:], float(d.late[-1])
    rule = GD["t"](settings.alphas[0])
    thin = {"linewidth": 1.2, "alpha": 1.0}
    marks += [
        theory(t, d.alone[1:] * d.trained[0, 0], "one task alone", color="black", linewidth=0.9),
        training(late, first, rf"$\epsilon = 10^{{{power:.0f}}}$", 2, **thin),
        theory(late, d.late_flow[1:], r"flow at $lr\,t/\epsilon$", 4),
        law(late, 0.5 * last * (late / late[-1]) ** -rule, r"$\propto t^{-(\alpha-1)/\alpha}$"),
    ]
    low = (float(d.trained.min()) / 3.0, None)
    return Panel("$t$ (steps)", "$L$", marks, log="xy", ylim=low, legend=7.0, where="lower left")


def _by_compute(d: xr.Dataset) -> Panel:
    alpha = settings_of(d).compute_alpha
    shades = np.linspace(0.25, 0.9, d.sizes["size"])
    curves = d.by_size.sel(alpha=alpha).isel(step=slice(1, None))
    marks = [
        line(size * curves.step, curves.sel(size=size), linewidth=1.0, alpha=float(shade))
        for size, shade in zip(d["size"].values, shades, strict=True)
    ]
    seen = _optimal(d)
    c, top = seen["compute"], float(seen.frontier[0])
    marks += [
        training(c, seen.envelope, "lower envelope", 1),
        theory(c, seen.frontier, "predicted, every $D$", 6),
        law(c, 0.5 * top * (c / c[0]) ** -GD["D"](alpha), r"$\alpha - 1$"),
        law(c, top * (c / c[0]) ** -GD["C"](alpha), r"GD's $(\alpha-1)/(\alpha+1)$", color="0.7"),
    ]
    title = rf"$\alpha = {alpha}$, one curve a $D$"
    return Panel("$C = D t$", "$L$", marks, log="xy", title=title, where="lower left")


def _optimal(d: xr.Dataset) -> xr.Dataset:
    """The part of C whose best D is among the sizes trained."""
    best, sizes = d.frontier_size.values, d["size"].values
    return d.isel(compute=np.flatnonzero((best >= sizes[0]) & (best <= sizes[-1])))


def _similar(d: xr.Dataset, alpha: float, rule: Callable[[float], float]) -> tuple[float, str]:
    """How far an exponent may be off so that it is told from the other α's, and why."""
    one, other = (rule(each) for each in settings_of(d).alphas)
    words = "half of the distance to the other α's: nearer to its own law than to that"
    return abs(one - other) / 2.0, words


@fig.claim("paper", "App. I.2", over="alphas")
def learns(d, x):
    """AdamW can still learn the task strength Λ_s given sufficient training time: every task at
    α = {x} within {steps} steps (largest |f_s − Λ| over what it was)."""
    left = float(d.left.sel(alpha=x).max() / d.error)
    because = "β1^(t/2) over the 225 steps since arrival is 1e-5, ten times that for the rarest"
    return at_most(left, 1e-4, because=because)


@fig.claim("paper", "Fig. 10a, App. I.2", word="size-{x}", over="alphas")
def like_gradient_descent_in_size(d, x):
    """In D AdamW shows what gradient descent does at α = {x}: what remains of L is what is never
    learned, the initial error of the tasks s ≥ D (largest relative gap of L)."""
    gap = worst_ratio(d.by_size.sel(alpha=x).isel(step=-1), d.never.sel(alpha=x))
    last = d.isel(step=-1)
    bound = float((last.trained.sel(alpha=x) / last.by_size.sel(alpha=x)).max())
    because = "what the whole model has left at the last step, over L"
    note = "It can fail only if D is off by one or tasks couple."
    return near(gap, 0.0, bound, because=because, note=note)


@fig.claim("paper", "Fig. 10a, App. I.2", word="size-exponent-{x}", over="alphas")
def size_exponent(d, x):
    """The law in D is similar to Table 1's D^(−(α−1)) at α = {x} (mean exponent over the sizes)."""
    sizes, curve = d["size"], d.by_size.sel(alpha=x).isel(step=-1)
    slack, because = _similar(d, x, GD["D"])
    return near(mean_exponent(sizes, curve), GD["D"](x), slack, because=because)


@fig.claim("new", "Fig. 10a, Table 1", over="alphas")
def too_few(d, x):
    """But {num_tasks} tasks are too few to see α − 1 itself, α = {x}: tasks end too soon, and begin
    at s = 1 (smallest relative gap of the slope between neighbouring D)."""
    sizes = np.log(d["size"].values)
    local = -np.diff(np.log(d.by_size.sel(alpha=x).isel(step=-1).values)) / np.diff(sizes)
    gap = np.abs(local / GD["D"](x) - 1.0)
    words = ", ".join(f"{each:.3g}" for each in local)
    because = "2 % is how near a law is called seen in msfr/table1, where 10⁹ tasks show it"
    return at_least(gap.min(), 0.02, because=because, note=f"Slopes: {words}.")


@fig.claim("paper", "Fig. 10b, App. I.2", word="data-{x}", over="alphas")
def like_gradient_descent_in_data(d, x):
    """In N AdamW shows what gradient descent does at α = {x}: what remains of L is the initial
    error of the tasks that the data set lacks (largest relative gap of L over all data sets)."""
    here = d.sel(alpha=x)
    gap = worst_ratio(here.by_data, here.unseen)
    because = (
        "K_y is shared and moves: unseen tasks attend to their query e^(d−u)/ψ less, 1e-3 of f"
    )
    return near(gap, 0.0, 1e-3 * 100.0 / settings_of(d).context, because=because)


@fig.claim("paper", "Fig. 10c, App. I.2", over="alphas")
def faster(d, x):
    """AdamW converges faster than gradient descent at α = {x}, even at the largest stable step (L
    of AdamW over L of gradient descent's flow at lr·t, {steps} steps)."""
    ratio = float(d.trained.sel(alpha=x)[-1] / d.descent.sel(alpha=x)[-1])
    return at_most(ratio, 0.01, because="two orders of magnitude leave no doubt")


@fig.claim("paper", "Fig. 10c, App. I.2", over="alphas")
def different(d, x):
    """AdamW leads to a very different time scaling law at α = {x} (decades by which L falls from
    20 to 200 steps, over gradient descent's exponent)."""
    curve = d.trained.sel(alpha=x)
    fall = float(np.log10(curve.sel(step=20) / curve.sel(step=200)))
    because = "ten times the exponent is very different"
    note = f"L falls by {fall:.1f} decades; the exponent is {GD['t'](x):.3f}."
    return at_least(fall / GD["t"](x), 10.0, because=because, note=note)


@fig.claim("new", "Fig. 10c", over="alphas")
def one_task(d, x):
    """It is no power law of many tasks but the curve of one: L(t)/L(0) at α = {x} is that of a
    single task trained alone (largest gap of its root within {steps} steps)."""
    whole = d.trained.sel(alpha=x)
    alone = np.maximum(d.alone, 0.0)  # in the end there is only rounding
    gap = np.abs(np.sqrt(whole / whole[0]) - np.sqrt(alone)).max()
    bound = 10.0 * d.sizes["task"] * settings_of(d).eps / float(d.error)
    because = "ten times S eps/g: a task is behind by eps/(p_s g) and weighs p_s, its keys by more"
    return near(gap, 0.0, bound, because=because)


@fig.claim("new", "Fig. 10c", over="alphas")
def lag(d, x):
    """The rarest task is behind the first by eps/(p_S g) of its error at α = {x}, to first order
    (most that it is, over eps/(p_S g))."""
    here = d.sel(alpha=x)
    behind, ratio = float(here.behind[-1] / d.error), float(here.ratio[-1] / d.error)
    because = "√v̂ is g along the way but for tens of per cent"
    return near(behind / ratio, 1.0, 0.2, because=because, note=f"It is {behind:.2g}.")


@fig.claim("new", "Fig. 10c")
def law_returns(d):
    """With eps = {large_eps}, s* ≪ {num_tasks}, AdamW at α = {alphas[0]} follows the flow at
    lr t/eps but for O(t_×/t) (largest relative gap of L for t ≥ 4 t_×, times t/t_×)."""
    settings = settings_of(d)
    arrival = float(d.error) / (settings.lr * (1.0 + settings.strength))  # both entries of V move
    late = d.isel(late_step=d.late_step.values >= 4.0 * arrival)
    gap = np.abs(late.late / late.late_flow - 1.0)
    slope, limit = mean_exponent(late.late_step, late.late), GD["t"](settings.alphas[0])
    note = (
        f"At the last step the gap is {float(gap[-1]):.2g}. t_× = {arrival:.0f} steps. L has the "
        f"exponent {slope:.3f} there; of infinitely many tasks it is {limit:.3f}."
    )
    worst = float((gap * late.late_step / arrival).max())
    return at_most(worst, 1.0, because="the order claimed", note=note)


@fig.claim("paper", "Fig. 10d, App. I.2")
def compute_different(d):
    """The law for the optimal compute at α = {compute_alpha} is another than gradient descent's
    C^(−(α−1)/(α+1)) (mean exponent of the lower envelope, over that one)."""
    seen, alpha = _optimal(d), settings_of(d).compute_alpha
    slope = mean_exponent(seen["compute"], seen.envelope)
    because = "twice the exponent is another law"
    words = f"It is {slope:.3f} in place of {GD['C'](alpha):.3f}."
    return at_least(slope / GD["C"](alpha), 2.0, because=because, note=words)


@fig.claim("new", "Fig. 10d")
def compute_is_size(d):
    """As all tasks arrive together, more compute goes into size, not time: t* does not pass the
    step at which L of the whole model is lowest for the first time, α = {compute_alpha} (largest t*
    over that step)."""
    seen, alpha = _optimal(d), settings_of(d).compute_alpha
    best, whole = seen.frontier_size, d.trained.sel(alpha=alpha).values
    time = seen["compute"] / best
    arrived = float(d.step[int(np.argmax(np.diff(whole) > 0.0))])
    note = (
        f"D* grows from {int(best[0])} to {int(best[-1])}, t* from {float(time[0]):.0f} to "
        f"{float(time[-1]):.0f} steps: an exponent of {-mean_exponent(seen['compute'], time):.3f} "
        f"in C, where gradient descent has {alpha / (alpha + 1.0):.3f}."
    )
    because = "then L rises, and what ringing takes off later is small beside tasks s ≥ D"
    return at_most(time.max() / arrived, 1.0, because=because, note=note)


@fig.claim("check", "Fig. 10d")
def compute(d):
    """The lower envelope of L(t; D) at fixed C = D·t is that of tasks s < D which all have the
    whole model's curve, α = {compute_alpha} (largest relative gap, over the same D)."""
    seen = _optimal(d)
    gap = worst_ratio(seen.envelope, seen.same_sizes)
    settings = settings_of(d)
    left = float(seen.envelope.min() / d.trained.sel(alpha=settings.compute_alpha)[0])
    bound = 2.0 * d.sizes["task"] * settings.eps / (float(d.error) * np.sqrt(left))
    because = (
        "2S eps/(g √l): tasks lag by eps/(p_s g) of their error and weigh p_s, so that all S shift "
        "l = L/L(0) by 2√l S eps/g at most; l is smallest at the last C"
    )
    return near(gap, 0.0, bound, because=because)


claim_tokens(fig, "Fig. 10", "AdamW, S = 8")
