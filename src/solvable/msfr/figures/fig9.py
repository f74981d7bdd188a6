"""Fig. 9: softmax attention at context lengths that vary from task to task."""

from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, Finding, at_least, at_most, near, settings_of, step, worst_ratio
from ...reproduce.panels import Mark, Panel, drawn, entry, law, level, line, theory, training
from ...style import THEORY
from .. import Run, SoftmaxInit, Task, loss, softmax_start, time_law, train
from ..task import realised_shares
from ..theory import softmax_pairs
from ._judging import WITHIN
from ._softmax import AtRest, between, few_ticks, few_tokens, follows, mean_exponent, start
from ._table import printed
from ._witness import claim_tokens

POINTS = 100  # logged in every run
SOURCE = "Fig. 9, App. I.1"
VARIED = (0.5, 1.0)
ALONE = (  # how far contexts fall, and the shortest: with what the exponent is set beside β = 0
    (0.0, 0.0),
    (1.0, 2.0),
    (1.0, 10.0),
)

fig = Figure(
    "msfr/fig9",
    "Softmax attention at varied context lengths: the loss in t, D and N",
    settings={
        "quick": {"context": 100.0, "lr": 1.0, "steps": 500, "small_steps": 1000}
        | {"small_context": 20.0, "far_context": 20.0}
        | {"condition_tasks": 50, "condition_steps": 400}
        | {"far_lr": 1.5, "far_steps": 300, "sizes": 3, "data": (10, 100), "seeds": 2},
        "default": {"context": 500.0, "lr": 1.0, "steps": 400, "small_steps": 1200}
        | {"small_context": 100.0, "far_context": 100.0}
        | {"condition_tasks": 100, "condition_steps": 600}
        | {"far_lr": 1.5, "far_steps": 300, "sizes": 4, "data": (10, 30, 100), "seeds": 2},
        "full": {"context": 1000.0, "lr": 0.2, "steps": 2500, "small_steps": 10_000}
        | {"small_context": 100.0, "far_context": 100.0}
        | {"condition_tasks": 200, "condition_steps": 4000}
        | {"far_lr": 1.5, "far_steps": 4000, "sizes": 8, "data": (10, 30, 100, 300), "seeds": 16},
    },
    constants={
        "num_tasks": 500,
        "alpha": 1.8,
        "strength": 0.5,
        "betas": (0.0, *VARIED),
        "small": 1e-5,
        "widths": (60, 501),
        "law_tasks": 10**9,
        "law_context": 500.0,
    },
    note=(
        "α = 1.8, S = 500; neither β, nor ψ_1, nor how softmax attention starts is stated (the "
        "caption says fixed where the text says varied). Here β = 0.5 and 1, contexts rounded, at "
        "least 1. (a), (b): (106) carried over, V = 0.1, W_K = 0.1, W_Q = 0.11, d_e = 501, u = "
        "8.3, ψ_1 = 500 (quick: 100). (c): (107) carried over, 1e-5 in every entry, u = 0, ψ_1 = "
        "100: all is learned, keys too. Neither start has Table 2's law. (d): the condition, at "
        "S = 100, β = 1 (quick: S = 50): from u = 1 and with contexts down to 2 the last tasks are "
        "slower than at β = 0, from u = 8.3 a third as much, with contexts down to 10 next to not; "
        "read over the decade that ends at half the time at which the last task is learned. (e), "
        "(f): L against D and N with ψ_1 = 100 (quick: 20), where at β = 1 most contexts are 1."
    ),
)


def _task(settings: Any, beta: float, context: float, num_tasks: int | None = None) -> Task:
    count = num_tasks or settings.num_tasks
    return Task(count, settings.alpha, context, settings.strength, beta=beta)


def _train(task: Task, init: SoftmaxInit, **how: Any) -> Run:
    return train(task, init, log_points=POINTS, progress=step, **how)


@fig.data
def time(settings: Any) -> xr.Dataset:
    """(a), (b): from (106), beside keys at rest."""
    tasks = [_task(settings, beta, settings.context) for beta in settings.betas]
    runs = [_train(task, start(), lr=settings.lr, steps=settings.steps) for task in tasks]
    t = runs[0].time
    predicted = [np.asarray(loss(task, start(), t)) for task in tasks]
    shortest = [float(np.min(np.asarray(task.rounded().contexts))) for task in tasks]
    return xr.Dataset(
        {
            "trained": (("beta", "time"), [np.asarray(run.loss) for run in runs]),
            "predicted": (("beta", "time"), predicted),
            "step": ("time", runs[0].step),
            "shortest": ("beta", shortest),
        },
        coords={"beta": list(settings.betas), "time": t},
    )


@fig.data
def small(settings: Any) -> xr.Dataset:
    """(c): from (107), where the keys have to be learned."""
    init = SoftmaxInit(settings.small, settings.small, settings.small)
    tasks = [_task(settings, beta, settings.small_context) for beta in settings.betas]
    runs = [_train(task, init, lr=2.0, steps=settings.small_steps) for task in tasks]
    trained = [np.asarray(run.loss) for run in runs]
    return xr.Dataset(
        {"small_trained": (("beta", "small_time"), trained)},
        coords={"beta": list(settings.betas), "small_time": runs[0].time},
    )


@fig.data
def condition(settings: Any) -> xr.Dataset:
    """(d): few tasks with contexts down to 2 or 10, attention nearly flat or saturated."""
    count = settings.condition_tasks
    rate = 1.0 + settings.strength**2
    last = float(_task(settings, 0.0, 1.0, count).weights[-1])
    end = 0.5 / (2.0 * last * rate)  # half the time at which the last task is learned
    contexts = [(beta, count * (shortest if beta else 2.0)) for beta, shortest in ALONE]
    tasks = [_task(settings, beta, context, count) for beta, context in contexts]
    how = {"lr": end / settings.condition_steps, "steps": settings.condition_steps}
    runs = [_train(task, start(width), **how) for width in settings.widths for task in tasks]
    curves = [np.asarray(run.loss)[1:] for run in runs]
    agreeing = [
        float(softmax_start(_task(settings, 0.0, 1.0, count), start(w)).agreeing)
        for w in settings.widths
    ]
    shape = (len(agreeing), len(ALONE), -1)
    return xr.Dataset(
        {"condition_trained": (("agreeing", "case", "condition_time"), np.reshape(curves, shape))},
        coords={"agreeing": agreeing, "condition_time": runs[0].time[1:]},
    )


@fig.data
def sizes(settings: Any) -> xr.Dataset:
    """(e): models of several sizes D on the population."""
    sizes = between(5, 25, settings.sizes)
    tasks = [_task(settings, beta, settings.far_context) for beta in settings.betas]
    how = {"lr": settings.far_lr, "steps": settings.far_steps}
    runs = [[_train(task, start(), size=int(d), **how) for d in sizes] for task in tasks]
    t = runs[0][0].time
    trained = [[np.asarray(run.loss) for run in some] for some in runs]
    predicted = [softmax_pairs(task, start())(t[None, :], sizes[:, None]) for task in tasks]
    limit = [[float(loss(task, start(), np.inf, size=int(d))) for d in sizes] for task in tasks]
    return xr.Dataset(
        {
            "by_size": (("beta", "size", "far_time"), np.asarray(trained)),
            "by_size_predicted": (("beta", "size", "far_time"), np.asarray(predicted)),
            "by_size_limit": (("beta", "size"), limit),
            "far_step": ("far_time", runs[0][0].step),
        },
        coords={"beta": list(settings.betas), "size": sizes, "far_time": t},
    )


@fig.data
def data(settings: Any) -> xr.Dataset:
    """(f): the whole model on data sets of several sizes N, several of each."""
    seeds, trained, realised, expected = range(settings.seeds), [], [], []
    end = settings.far_lr * settings.far_steps
    for beta in settings.betas:
        task = _task(settings, beta, settings.far_context)
        rest = AtRest(task, start())
        for count in settings.data:
            how = {"lr": settings.far_lr, "steps": settings.far_steps, "data": count}
            runs = [_train(task, start(), seed=seed, **how) for seed in seeds]
            trained.append([float(run.loss[-1]) for run in runs])
            shares = [realised_shares(task, count, seed) for seed in seeds]
            realised.append([rest.loss(end, each) for each in shares])
            expected.append(float(loss(task, start(), end, data=count)))
    shape = (len(settings.betas), len(settings.data))
    return xr.Dataset(
        {
            "by_data": (("beta", "amount", "seed"), np.reshape(trained, (*shape, -1))),
            "by_data_realised": (("beta", "amount", "seed"), np.reshape(realised, (*shape, -1))),
            "by_data_expected": (("beta", "amount"), np.reshape(expected, shape)),
        },
        coords={
            "beta": list(settings.betas),
            "amount": list(settings.data),
            "seed": list(seeds),
        },
    )


@fig.data
def laws(settings: Any) -> xr.Dataset:
    """Keys at rest at 10⁹ tasks: where the law in t is seen."""
    windows = []
    for beta in settings.betas:
        task = _task(settings, beta, settings.law_context, settings.law_tasks)
        windows.append(time_law(task, start()).window(WITHIN))
    return xr.Dataset({"window": (("beta", "end"), windows)}, coords={"beta": list(settings.betas)})


@fig.data
def tokens(settings: Any) -> xr.Dataset:
    """The same by real tokens, at a size where they fit."""
    return few_tokens(beta=1.0)


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """L(t) from two starts, the condition, and L against D and N."""
    panels = (_by_time, _by_ratio, _by_small, _by_condition, _by_size, _by_data)
    return drawn(*(panel(d) for panel in panels), rows=2)


def _word(beta: float) -> str:
    return rf"$\beta = {beta:g}$"


def _by_time(d: xr.Dataset) -> Panel:
    marks: list[Mark] = []
    late = d.isel(time=slice(1, None))
    for k, beta in enumerate(d.beta.values):
        # The curves lie on each other: each is narrower than the one below it.
        marks.append(
            training(late.time, late.trained.sel(beta=beta), _word(beta), k, linewidth=6.0 - 2 * k)
        )
    marks.append(theory(late.time, late.predicted.sel(beta=0.0), r"theory, $\beta = 0$", 6))
    t = late.time.values
    first = 0.7 * float(late.predicted.sel(beta=0.0)[0])
    marks.append(
        law(t, first * (t / t[0]) ** -_table_2(d, 0.0), r"$\propto t^{-(\alpha-1)/\alpha}$")
    )
    title = "(106): $u = 8.3$ at the start"
    return Panel("$t$", "$L$", marks, log="xy", title=title, where="lower left", legend=7.0)


def _by_ratio(d: xr.Dataset) -> Panel:
    late = d.isel(time=d.step.values >= 10)
    t = late.time.values
    first = late.sel(beta=0.0)
    marks: list[Mark] = [level(1.0)]
    for k, beta in enumerate(VARIED, start=1):
        here = late.sel(beta=beta)
        table = (t / t[0]) ** (_table_2(d, 0.0) - _table_2(d, beta))
        marks += [
            training(t, here.trained / first.trained, _word(beta), k),
            theory(t, here.predicted / first.predicted, k=k),
            line(t, table, k=k, linestyle=":", linewidth=1.2),
        ]
    marks += [
        entry("theory", color="0.3", **THEORY),
        entry("Table 2", color="0.3", linestyle=":", linewidth=1.2),
    ]
    shape = {"log": "x", "title": r"relative to $\beta = 0$", "where": "upper left", "legend": 7.0}
    return Panel("$t$", r"$L_\beta\,/\,L_0$", marks, **shape)


def _by_small(d: xr.Dataset) -> Panel:
    marks: list[Mark] = []
    late = d.isel(small_time=d.small_time.values >= 20.0)
    t = late.small_time.values
    seen = t[t >= t[-1] / 8.0]
    top = 1.4 * float(late.small_trained.sel(beta=0.0)[-len(seen)])
    for k, beta in enumerate(d.beta.values):
        marks.append(training(t, late.small_trained.sel(beta=beta), _word(beta), k))
        guide = top * (seen / seen[0]) ** -_table_2(d, float(beta))
        marks.append(line(seen, guide, k=k, linestyle=":", linewidth=1.2))
    marks.append(entry("Table 2", color="0.3", linestyle=":", linewidth=1.2))
    title = "(107): $u = 0$ at the start"
    return Panel("$t$", "$L$", marks, log="xy", title=title, where="lower left", legend=7.0)


def _by_condition(d: xr.Dataset) -> Panel:
    marks: list[Mark] = [level(1.0)]
    late = d.isel(condition_time=d.condition_time.values >= 1.0)
    t = late.condition_time.values
    for k, u in enumerate(d.agreeing.values):
        here = late.condition_trained.sel(agreeing=u)
        for case, (_, shortest) in enumerate(ALONE[1:], start=1):
            look = {"linestyle": "-" if case == 1 else "--"}
            words = rf"$u = {u:.1f}$, $\psi \geq {shortest:g}$"
            marks.append(line(t, here[case] / here[0], words, k, **look))
    shape = {
        "log": "x",
        "title": r"$\beta = 1$: the condition",
        "where": "upper left",
        "legend": 7.0,
    }
    return Panel("$t$", r"$L_\beta\,/\,L_0$", marks, **shape)


def _by_size(d: xr.Dataset) -> Panel:
    marks: list[Mark] = []
    size = d["size"].values
    for k, beta in enumerate(d.beta.values):
        last = d.sel(beta=beta).isel(far_time=-1)
        marks.append(training(size, last.by_size, _word(beta), k, linewidth=6.0 - 2 * k))
        marks.append(theory(size, last.by_size_predicted, k=k))
    limit = d.by_size_limit.sel(beta=0.0).values
    marks += [
        line(size, limit, r"theory, $t \to \infty$", color="0.3", linewidth=0.8),
        law(size, 0.8 * limit[0] * (size / size[0]) ** -0.8, r"$\propto D^{-(\alpha-1)}$"),
        entry("theory", color="0.3", **THEORY),
    ]
    title = f"$t = {float(d.far_time[-1]):g}$"
    shape = {"log": "xy", "title": title, "where": "lower left", "legend": 7.0}
    return Panel("$D$", "$L$", marks, more=[few_ticks], **shape)


def _by_data(d: xr.Dataset) -> Panel:
    marks: list[Mark] = []
    amount = d.amount.values.astype(float)
    for k, beta in enumerate(d.beta.values):
        here = d.sel(beta=beta)
        words = training(amount, here.by_data.mean("seed"), _word(beta), k, linewidth=6.0 - 2 * k)
        marks += [words, theory(amount, here.by_data_realised.mean("seed"), k=k)]
    first = 0.8 * float(d.by_data_expected[0, 0])
    power = first * (amount / amount[0]) ** -(0.8 / 1.8)
    marks += [
        entry("theory, same counts", color="0.3", **THEORY),
        law(amount, power, r"$\propto N^{-(\alpha-1)/\alpha}$"),
    ]
    title = f"$t = {float(d.far_time[-1]):g}$, mean of {d.sizes['seed']} data sets"
    shape = {"log": "xy", "title": title, "where": "lower left", "legend": 7.0}
    return Panel("$N$", "$L$", marks, more=[few_ticks], **shape)


def _table_2(d: xr.Dataset, beta: float) -> float:
    return float(printed(settings_of(d).alpha, beta).time)


def _drop(d: xr.Dataset, beta: float) -> float:
    """What Table 2 takes off the exponent in t."""
    return _table_2(d, 0.0) - _table_2(d, beta)


HALF = "half of what Table 2 takes off"
APART = "half of what separates the laws of α = 1.8 and 2.1, which Fig. 8 has"
START = "What changes is where a task starts: its error is 15 % larger at ψ = 1 than at ψ ≫ 1."
QUARTER = "a quarter of what Table 2 takes off"


@fig.claim("paper", SOURCE, word="table-2-{x}", over=VARIED, known="fails")
def like_linear(d, x):
    """The law in t at β = {x} is similar to linear attention's, (α−1)/(α+β) of Table 2: from (106)
    the exponent of training falls by as much from β = 0 to β."""
    late = d.isel(time=d.step.values >= 20)
    found = _fall(late.time, late.trained.sel(beta=0.0), late.trained.sel(beta=x))
    t = late.time.values
    words = (
        f"From t = {t[0]:g} to {t[-1]:g}, shortest context "
        f"{float(d.shortest.sel(beta=x)):g}. From u = 1 and with contexts down to 2 it falls."
    )
    return near(found, _drop(d, x), _drop(d, x) / 2.0, because=HALF, note=words)


@fig.claim("paper", SOURCE, word="table-2-small-{x}", over=VARIED, known="fails")
def like_linear_small(d, x):
    """The law in t at β = {x} is similar to linear attention's, (α−1)/(α+β) of Table 2: from (107),
    the start of Sec. 4.2, the exponent of training falls by as much from β = 0 to β."""
    late = d.isel(small_time=d.small_time.values >= float(d.small_time[-1]) / 8.0)
    curves = late.small_trained
    found = _fall(late.small_time, curves.sel(beta=0.0), curves.sel(beta=x))
    own = mean_exponent(late.small_time, curves.sel(beta=x))
    t = late.small_time.values
    words = f"From t = {t[0]:.3g} to {t[-1]:g}, the exponent being {own:.3f}: it rises with β."
    return near(found, _drop(d, x), _drop(d, x) / 2.0, because=HALF, note=words)


def _fall(t: Any, first: Any, second: Any) -> float:
    return mean_exponent(t, first) - mean_exponent(t, second)


@fig.claim("paper", SOURCE, word="size-{x}", over=VARIED)
def size_law_stays(d, x):
    """The law in D is not affected by a varied context length, β = {x} (change of the mean exponent
    of training from β = 0)."""
    last, size = d.isel(far_time=-1).by_size, d["size"].values
    found = _fall(size, last.sel(beta=0.0), last.sel(beta=x))
    limit = d.by_size_limit
    change = _fall(size, limit.sel(beta=0.0), limit.sel(beta=x))
    ends = f"D = {size[0]} to {size[-1]}, t = {float(d.far_time[-1]):g}"
    words = f"{ends}; theory at t → ∞ has {change:.3f}. {START}"
    return near(found, 0.0, _apart(d, "size"), because=APART, note=words)


@fig.claim("paper", SOURCE, word="data-{x}", over=VARIED)
def data_law_stays(d, x):
    """The law in N is not affected by a varied context length, β = {x} (change of the mean exponent
    of training from β = 0, over the same data sets)."""
    mean, exact = d.by_data.mean("seed"), d.by_data_expected
    found = _fall(d.amount, mean.sel(beta=0.0), mean.sel(beta=x))
    change = _fall(d.amount, exact.sel(beta=0.0), exact.sel(beta=x))
    ends = f"N = {int(d.amount[0])} to {int(d.amount[-1])}, {d.sizes['seed']} data sets each"
    words = f"{ends}; theory's mean over all has {change:.3f}. {START}"
    return near(found, 0.0, _apart(d, "data"), because=APART, note=words)


def _apart(d: xr.Dataset, word: str) -> float:
    """Half of the distance between the exponents of this α and of Fig. 8's other one, 2.1."""
    first, second = (getattr(printed(a), word) for a in (settings_of(d).alpha, 2.1))
    return abs(second - first) / 2.0


@fig.claim("new", SOURCE, word="theory-{x}", over="betas")
def follows_theory(d, x):
    """At β = {x} training from (106) follows keys at rest, in which ψ_s enters next to nothing
    (largest |ratio − 1| times the number of steps)."""
    here = d.sel(beta=x)
    return follows(here.step, here.trained, here.predicted)


@fig.claim("new", SOURCE, word="size-theory-{x}", over="betas")
def follows_sizes(d, x):
    """Models of size D at β = {x} follow keys at rest, with the tasks s ≥ D at their start (largest
    |ratio − 1| times the number of steps)."""
    here = d.sel(beta=x)
    return follows(here.far_step, here.by_size, here.by_size_predicted)


@fig.claim("new", SOURCE, word="data-theory-{x}", over="betas")
def follows_data(d, x):
    """Every task of a data set at β = {x} is learned at the pace of its share #_s/N, whatever its
    context is (largest relative gap of L over all N and seeds)."""
    here = d.sel(beta=x)
    because = "1/steps; and the few data of a task with contexts of 1 may lack a sign"
    return near(worst_ratio(here.by_data, here.by_data_realised), 0.0, 0.02, because=because)


@fig.claim("new", SOURCE)
def stays(d):
    """The exponent in t does not depend on β while no context is shorter than 10, from u = 1 as
    from u = 8.3 on (largest change between β = 0 and 1)."""
    falls = {u: _condition(d, u, 2) for u in d.agreeing.values}
    words = ", ".join(f"{fall:.3f} at u = {u:.2g}" for u, fall in falls.items())
    most = max(abs(fall) for fall in falls.values())
    return at_most(most, _drop(d, 1.0) / 4.0, because=QUARTER, note=f"{words}. {_decade(d)}")


@fig.claim("new", SOURCE)
def moves(d):
    """The exponent in t does depend on β where contexts fall to 2 and attention starts nearly flat,
    u = 1 (what it loses from β = 0 to 1)."""
    u = min(d.agreeing.values)
    large = max(d.agreeing.values)
    words = f"From u = {large:.2g} on it loses {_condition(d, large, 1):.3f}."
    found, least = _condition(d, u, 1), _drop(d, 1.0) / 4.0
    return at_least(found, least, because=QUARTER, note=f"{words} {_decade(d)}")


def _condition(d: xr.Dataset, u: float, case: int) -> float:
    here = _last_decade(d).condition_trained.sel(agreeing=u)
    return _fall(here.condition_time, here[0], here[case])


def _last_decade(d: xr.Dataset) -> xr.Dataset:
    t = d.condition_time.values
    return d.isel(condition_time=t >= t[-1] / 10.0)


def _decade(d: xr.Dataset) -> str:
    t = _last_decade(d).condition_time.values
    return f"From t = {t[0]:.3g} to {t[-1]:.4g}, S = {settings_of(d).condition_tasks}."


@fig.claim("new", SOURCE, word="law-{x}", over="betas")
def same_law(d, x) -> Finding:
    """At S = 10⁹ keys at rest have L ∝ t^(−(α−1)/α) at β = {x} (decades in which the local exponent
    is within 2 %)."""
    low, high = (float(end) for end in d.window.sel(beta=x))
    words = f"t = {low:.2g} to {high:.2g}; between β's own contexts and those that are 1 it bends."
    found = np.log10(high / low)
    return at_least(found, 4.0, because="many more than any bend has", note=words if x else "")


claim_tokens(fig, "Fig. 9", "β = 1, S = 8, ψ_1 = 10, N = 200")
