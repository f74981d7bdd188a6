"""Fig. 8: softmax attention trained by gradient descent: L against D, t, N and C."""

from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, at_least, near, settings_of, step, worst_ratio
from ...reproduce.panels import drawn
from .. import (
    SoftmaxInit,
    Task,
    compute_law,
    data_law,
    frontier,
    loss,
    size_law,
    softmax_start,
    time_law,
    train,
)
from ..task import realised_shares
from ..theory import softmax_pairs
from ._fig8_panels import by_compute, by_data, by_law, by_range, by_size, by_time
from ._judging import WITHIN, reach, window_on
from ._softmax import (
    AtRest,
    between,
    few_tokens,
    follows,
    mean_exponent,
    start,
)
from ._table import printed
from ._witness import claim_tokens

POINTS = 120  # logged in every run
SOURCE = "Fig. 8{panel}, App. I.1"
RESOURCES = ("t", "D", "D − ½", "N", "C")
HALF = "half of what separates the laws of the two α"

fig = Figure(
    "msfr/fig8",
    "Softmax attention by gradient descent: the loss in D, t, N and C",
    settings={
        "quick": {"num_tasks": 500, "context": 20.0, "lr": 0.25, "steps": 2000, "sizes": 4}
        | {"far_lr": 1.5, "far_steps": 300, "data": (10, 100), "seeds": 3}
        | {"range_tasks": 100, "widths": (501, 182, 60), "range_lr": 0.2, "range_steps": 2000}
        | {"per_decade": 2},
        "default": {"num_tasks": 500, "context": 100.0, "lr": 0.1, "steps": 4000, "sizes": 6}
        | {"far_lr": 1.5, "far_steps": 600, "data": (10, 30, 100, 300), "seeds": 2}
        | {"range_tasks": 300, "widths": (501, 182, 60, 12), "range_lr": 0.1, "range_steps": 4000}
        | {"per_decade": 6},
        "full": {"num_tasks": 500, "context": 100.0, "lr": 0.05, "steps": 20_000, "sizes": 16}
        | {"far_lr": 1.5, "far_steps": 6000, "data": (10, 30, 100, 300, 1000), "seeds": 16}
        | {"range_tasks": 300, "widths": (501, 182, 60, 12), "range_lr": 0.025}
        | {"range_steps": 16_000, "per_decade": 12},
    },
    constants={
        "alphas": (1.8, 2.1),
        "compute_alpha": 1.8,
        "strength": 0.5,
        "range_context": 20.0,
        "law_tasks": 10**9,
    },
    note=(
        "S = 500, ψ = 100 and Λ = 0.5 as in Fig. 3 (quick: ψ = 20). How softmax attention starts "
        "is not stated: here V = 0.1, W_K = 0.1, W_Q = 0.11 in every entry, (106) carried over, "
        "with d_e = S + 1 = 501, so that u = 8.3. Learning rates and steps are ours (lr 1e-3 and "
        "5000 steps, t = 5, as in Fig. 3, would learn two tasks). Theory has the keys at rest, "
        "with u and d as they start: V is then learned in two modes a task, without a fitted "
        "number; (e) tells for which u that is so, at S = 300 (quick: 100), ψ = 20. L against D, N "
        "is that at the t above the panel. That the laws are similar to Table 1's is judged at the "
        "paper's S: in t by training, in D (at t → ∞), N (over all data sets) and C (over all D) "
        "by the theory that training follows. (f): at S = 500 local exponents drift by as much as "
        "separates the laws of two α, at S = 10⁹ they are flat."
    ),
)


def _task(settings: Any, alpha: float, num_tasks: int | None = None) -> Task:
    return Task(num_tasks or settings.num_tasks, alpha, settings.context, settings.strength)


@fig.data
def time(settings: Any) -> xr.Dataset:
    """(b): the whole model on the population, at a small step."""
    tasks = [_task(settings, alpha) for alpha in settings.alphas]
    how = {"lr": settings.lr, "steps": settings.steps, "log_points": POINTS, "progress": step}
    runs = [train(task, start(), **how) for task in tasks]
    t = runs[0].time
    predicted = [np.asarray(loss(task, start(), t)) for task in tasks]
    return xr.Dataset(
        {
            "trained": (("alpha", "time"), [np.asarray(run.loss) for run in runs]),
            "predicted": (("alpha", "time"), predicted),
            "step": ("time", runs[0].step),
            "first": ("alpha", [float(task.normaliser) for task in tasks]),  # p_1
        },
        coords={"alpha": list(settings.alphas), "time": t},
    )


@fig.data
def sizes(settings: Any) -> xr.Dataset:
    """(a), (d): models of several sizes D on the population, and theory's best of all D."""
    most = settings.num_tasks
    sizes = between(most / 100, most / 5, settings.sizes)
    tasks = [_task(settings, alpha) for alpha in settings.alphas]
    how = {"lr": settings.far_lr, "steps": settings.far_steps, "log_points": POINTS}
    runs = [
        [train(task, start(), size=int(d), progress=step, **how) for d in sizes] for task in tasks
    ]
    t = runs[0][0].time
    trained = [[np.asarray(run.loss) for run in some] for some in runs]
    predicted = [softmax_pairs(task, start())(t[None, :], sizes[:, None]) for task in tasks]
    limit = [[float(loss(task, start(), np.inf, size=int(d))) for d in sizes] for task in tasks]
    compute = np.geomspace(10.0, 1e6, 121)
    best = frontier(_task(settings, settings.compute_alpha), start(), compute)
    inside = (best.size >= sizes[0]) & (best.size <= sizes[-1])
    return xr.Dataset(
        {
            "by_size": (("alpha", "size", "size_time"), np.asarray(trained)),
            "by_size_predicted": (("alpha", "size", "size_time"), np.asarray(predicted)),
            "by_size_limit": (("alpha", "size"), limit),
            "size_step": ("size_time", runs[0][0].step),
            "frontier": ("compute", best.loss[inside]),
        },
        coords={
            "alpha": list(settings.alphas),
            "size": sizes,
            "size_time": t,
            "compute": compute[inside],
        },
    )


@fig.data
def data(settings: Any) -> xr.Dataset:
    """(c): the whole model on data sets of several sizes N, several of each."""
    lr, steps, seeds = settings.far_lr, settings.far_steps, range(settings.seeds)
    trained, realised, expected = [], [], []
    for alpha in settings.alphas:
        task = _task(settings, alpha)
        rest = AtRest(task, start())
        for count in settings.data:
            how = {"lr": lr, "steps": steps, "log_points": POINTS, "data": count}
            runs = [train(task, start(), seed=seed, progress=step, **how) for seed in seeds]
            trained.append([float(run.loss[-1]) for run in runs])
            shares = [realised_shares(task, count, seed) for seed in seeds]
            realised.append([rest.loss(lr * steps, each) for each in shares])
            expected.append(float(loss(task, start(), lr * steps, data=count)))
    shape = (len(settings.alphas), len(settings.data))
    return xr.Dataset(
        {
            "by_data": (("alpha", "amount", "seed"), np.reshape(trained, (*shape, -1))),
            "by_data_realised": (("alpha", "amount", "seed"), np.reshape(realised, (*shape, -1))),
            "by_data_expected": (("alpha", "amount"), np.reshape(expected, shape)),
        },
        coords={
            "alpha": list(settings.alphas),
            "amount": list(settings.data),
            "seed": list(seeds),
        },
    )


@fig.data
def at_rest(settings: Any) -> xr.Dataset:
    """(e): training, keys at rest and saturated attention from several u on."""
    alpha = settings.alphas[0]
    task = Task(settings.range_tasks, alpha, settings.range_context, settings.strength)
    how = {"lr": settings.range_lr, "steps": settings.range_steps, "log_points": POINTS}
    saturated = SoftmaxInit(value=0.1, key=10.0, query=10.0)
    runs = [train(task, start(width), progress=step, **how) for width in settings.widths]
    t = runs[0].time[1:]
    trained = [np.asarray(run.loss)[1:] for run in runs]
    predicted = [np.asarray(loss(task, start(width), t)) for width in settings.widths]
    limit = [np.asarray(loss(task, saturated, t))] * len(settings.widths)
    agreeing = [float(softmax_start(task, start(w)).agreeing) for w in settings.widths]
    return xr.Dataset(
        {
            "range_trained": (("agreeing", "range_time"), trained),
            "range_predicted": (("agreeing", "range_time"), predicted),
            "range_saturated": (("agreeing", "range_time"), limit),
            "range_step": ("range_time", runs[0].step[1:]),
        },
        coords={"agreeing": agreeing, "range_time": t},
    )


@fig.data
def laws(settings: Any) -> xr.Dataset:
    """(f): theory's local exponent, and over how many decades each law is seen at 10⁹ tasks."""
    t = np.geomspace(1.0, 1e14, 113)
    seen, local, drifting = [], [], []
    for alpha in settings.alphas:
        many, here = _task(settings, alpha, settings.law_tasks), _task(settings, alpha)
        in_time = time_law(many, start())
        found = (
            in_time,
            size_law(many, start()),
            size_law(many, start(), shift=0.5),
            data_law(many, start()),
        )
        budgets = compute_law(many, start()).grid(settings.per_decade)
        split = frontier(many, start(), budgets)
        low, high = window_on(budgets, split.local_exponent, split.exponent)
        seen.append([*(each.decades(WITHIN) for each in found), np.log10(high / low)])
        local.append(in_time.local_exponent(t))
        few = time_law(here, start()).local_exponent(t)
        drifting.append(np.where(np.logical_and.accumulate(few < 1.0), few, np.nan))
        step(len(seen), len(settings.alphas))
    return xr.Dataset(
        {
            "seen": (("alpha", "resource"), seen),
            "local": (("alpha", "law_time"), local),
            "drifting": (("alpha", "law_time"), drifting),
        },
        coords={"alpha": list(settings.alphas), "resource": list(RESOURCES), "law_time": t},
    )


@fig.data
def tokens(settings: Any) -> xr.Dataset:
    """The same by real tokens, at a size where they fit."""
    return few_tokens()


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """L against D, t, N and C; the range of the theory; local exponents."""
    panels = (by_size, by_time, by_data, by_compute, by_range, by_law)
    return drawn(*(panel(d) for panel in panels), rows=2)


def _apart(word: str, *alphas: float) -> float:
    """Half of the distance between the exponents of two α."""
    first, second = (getattr(printed(a), word) for a in alphas)
    return abs(second - first) / 2.0


@fig.claim("paper", SOURCE.format(panel="b"), over="alphas")
def time_exponent(d, x):
    """The law in t is similar to Table 1's, L ∝ t^(−(α−1)/α), at α = {x} (mean exponent of
    training)."""
    here = d.sel(alpha=x)
    falls = here.trained.values <= (1.0 - float(here.first)) * float(here.trained[0])
    seen = here.isel(time=np.flatnonzero(falls))
    t = seen.time.values
    words = f"From t = {t[0]:.2g}, where L has lost the share p_1, to {t[-1]:.3g}."
    slack = _apart("time", *settings_of(d).alphas)
    found = mean_exponent(t, seen.trained)
    return near(found, printed(x).time, slack, because=HALF, note=words)


@fig.claim("paper", SOURCE.format(panel="a"), over="alphas")
def size_exponent(d, x):
    """The law in D is similar to Table 1's, L ∝ D^(−(α−1)), at α = {x} (mean exponent over the
    sizes, t → ∞)."""
    limit, size = d.by_size_limit.sel(alpha=x), d["size"].values
    found, slack = mean_exponent(size, limit), _apart("size", *settings_of(d).alphas)
    shifted = mean_exponent(size - 0.5, limit)
    words = f"D = {size[0]} to {size[-1]} of S = 500. Against D − ½ it is {shifted:.3f}."
    return near(found, printed(x).size, slack, because=HALF, note=words)


@fig.claim("paper", SOURCE.format(panel="c"), over="alphas")
def data_exponent(d, x):
    """The law in N is similar to Table 1's, L ∝ N^(−(α−1)/α), at α = {x} (mean exponent over all
    data sets)."""
    found = mean_exponent(d.amount, d.by_data_expected.sel(alpha=x))
    slack = _apart("data", *settings_of(d).alphas)
    words = f"N = {int(d.amount[0])} to {int(d.amount[-1])}, t = {float(d.size_time[-1]):g}."
    return near(found, printed(x).data, slack, because=HALF, note=words)


@fig.claim("paper", SOURCE.format(panel="d"))
def compute_exponent(d):
    """The law in C is similar to Table 1's, L ∝ C^(−(α−1)/(α+1)), at α = {compute_alpha} (mean
    exponent where the best D is between S/100 and S/5)."""
    alpha, c = settings_of(d).compute_alpha, d["compute"].values
    found, slack = mean_exponent(c, d.frontier), _apart("compute", *settings_of(d).alphas)
    words = f"C = {c[0]:.3g} to {c[-1]:.3g}."
    return near(found, printed(alpha).compute, slack, because=HALF, note=words)


@fig.claim("new", SOURCE.format(panel="b"), word="time-{x}", over="alphas")
def follows_time(d, x):
    """Training at α = {x} follows L(t) = ½ Σ_s p_s Σ_i e_i exp(−2 p_s μ_i t), the keys at rest
    (largest |ratio − 1| times the number of steps)."""
    here = d.sel(alpha=x)
    return follows(here.step, here.trained, here.predicted)


@fig.claim("new", SOURCE.format(panel="a"), word="size-{x}", over="alphas")
def follows_size(d, x):
    """Models of size D at α = {x} follow the same with the tasks s ≥ D at their start (largest
    |ratio − 1| times the number of steps)."""
    here = d.sel(alpha=x)
    return follows(here.size_step, here.by_size, here.by_size_predicted)


@fig.claim("new", SOURCE.format(panel="c"), word="data-{x}", over="alphas")
def follows_data(d, x):
    """Every task of a data set at α = {x} is learned at the pace of its share #_s/N (largest
    relative gap of L over all N and seeds)."""
    here, steps = d.sel(alpha=x), float(d.size_step[-1])
    gap = worst_ratio(here.by_data, here.by_data_realised)
    because = "1/steps, the signs that a task's few data have being of no weight at long contexts"
    return near(gap, 0.0, 1.0 / steps, because=because, note=f"After {steps:.0f} steps.")


@fig.claim("new", SOURCE.format(panel="b"))
def at_rest_from_three(d):
    """From u = 3 on the keys are as good as at rest: the closed form is within 1 % of training
    (largest relative gap of L, from step 100 on)."""
    late = d.isel(range_time=d.range_step.values >= 100)
    gaps = {u: _gap(late, u, "range_predicted") for u in late.agreeing.values if u >= 3.0}
    words = ", ".join(f"{gap:.2%} at u = {u:.2f}" for u, gap in gaps.items())
    because = "1/steps makes 1 % at step 100"
    return near(max(gaps.values()), 0.0, 0.01, because=because, note=f"{words}.")


@fig.claim("new", SOURCE.format(panel="b"))
def not_only_saturated(d):
    """At u = 3 attention is not saturated: u → ∞ is further from training at the end than keys at
    rest (ratio of the gaps)."""
    last = d.isel(range_time=[-1])
    u = min(u for u in d.agreeing.values if u >= 3.0)
    rest, flat = _gap(last, u, "range_predicted"), _gap(last, u, "range_saturated")
    words = f"{rest:.2%} and {flat:.2%}, at u = {u:.2f}."
    return at_least(flat / rest, 5.0, because="a gap that is clearly another", note=words)


@fig.claim("new", SOURCE.format(panel="b"))
def keys_learn(d):
    """At u = 1 the keys learn, and the closed form is left behind (theory over training at the
    end)."""
    last = d.isel(range_time=-1)
    ratio = {u: float(r) for u, r in zip(d.agreeing.values, _ratio(last), strict=True)}
    near_one = min(ratio, key=lambda u: abs(u - 1.0))
    words = ", ".join(f"{r:.3g} at u = {u:.2g}" for u, r in ratio.items())
    return at_least(ratio[near_one], 1.2, because="far beyond the 1 % of u ≥ 3", note=f"{words}.")


def _ratio(d: xr.Dataset) -> np.ndarray:
    return (d.range_predicted / d.range_trained).values


def _gap(d: xr.Dataset, u: float, name: str) -> float:
    here = d.sel(agreeing=u)
    return worst_ratio(here[name], here.range_trained)


@fig.claim("check", "Table 1", word="laws")
def all_laws(d):
    """At S = 10⁹ the exact sums have the exponents of Table 1 in t, D, D − ½, N and C, over at
    least half of the decades from the first task to the last (smallest share of them in which the
    local exponent is within 2 %)."""
    shares, words = [], []
    for alpha in d.alpha.values:
        table, seen = printed(float(alpha)), d.seen.sel(alpha=alpha)
        told = {"t": table.time, "N": table.data, "C": table.compute}
        for name in d.resource.values:
            whole = reach(settings_of(d).law_tasks, table.size, told.get(str(name), table.size))
            found = float(seen.sel(resource=name))
            shares.append(found / whole)
            words.append(f"{name}: {found:.1f} of {whole:.1f}")
        words[-1] += f" (α = {alpha})"
    because = "a law is to hold for most of the tasks, not for a stretch of them"
    return at_least(min(shares), 0.5, because=because, note=f"Decades: {', '.join(words)}.")


claim_tokens(fig, "Fig. 8", "S = 8, ψ = 10, N = 200")
