"""Fig. 4: contexts and strengths that fall with the task: ψ_s = ψ_1 s^-β, Λ_s = Λ_1 s^-γ."""

from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, Finding, at_least, at_most, near, settings_of, step, worst_ratio
from ...reproduce.numerals import number
from ...reproduce.panels import Panel, drawn, entry, law, line, theory, training
from ...style import LAW, TRAINING
from .. import Init, Task, data_law, frontier, loss, residual, size_law, time_law, train
from ._judging import Get, log_points
from ._labels import all_labelled, of_label
from ._split import cut_sizes
from ._witness import claim_tokens, on_tokens

PAPER_TIME = 5.0  # the time of the paper's 5000 steps of lr 1e-3

fig = Figure(
    "msfr/fig4",
    "Scaling laws when contexts or strengths fall with the task",
    settings={
        "quick": {"num_tasks": 500, "steps": 250_000, "budgets": 20},
        "default": {"num_tasks": 500, "steps": 1_000_000, "budgets": 40},
        "full": {"num_tasks": 500, "steps": 4_000_000, "budgets": 80},
    },
    constants={
        "alpha": 1.8,
        "context": 100.0,
        "weak": 0.5,
        "strong": 100.0,
        "betas": (0.5, 1.0),
        "gammas": (0.3, 0.5),
        "init": (1e-5, 1e-5),
    },
    note=(
        "S = 500, α = 1.8, v = w = 1e-5 at the start (107). The paper states no prefactors: ψ_1 "
        "= 100 with Λ = 0.5 in (a), (b), and ψ_1 = 100 with Λ_1 = 100 in (c) to (f), so that Λ_s > "
        "4 for all tasks, as F.3 assumes Λ_s² ≫ 1. Gradient descent needs a small lr (far below "
        "1e-3 with Λ_1 = 100) and covers the first stretch; the flow is exact. (b) and (f) show "
        "one β and one γ. Dotted lines have the slopes of Table 2, and in grey of Table 1; that "
        "the laws hold is judged in msfr/table2, at numbers of tasks that show them, and where "
        "Λ_s ≪ 1 in msfr/crossover. With ψ_1 = 100 for every β, as in (a), β > 0 can only slow a "
        "task down; whether balance is better is judged with ψ_1 such that what a data point has "
        "in context on average, Σ p_s ψ_s, is 100. That γ > 0 needs a smaller D or N is a matter "
        "of the exponents, which msfr/table2 judges."
    ),
)


def _decays(settings: Any) -> list[tuple[float, float]]:
    """(β, γ), from none on."""
    varied = [(beta, 0.0) for beta in settings.betas] + [(0.0, g) for g in settings.gammas]
    return [(0.0, 0.0), *varied]


def _task(settings: Any, beta: float, gamma: float) -> tuple[Task, Init]:
    strength = settings.strong if gamma else settings.weak
    task = Task(settings.num_tasks, settings.alpha, settings.context, strength, beta, gamma)
    return task, Init(*settings.init)


def _key(beta: float, gamma: float) -> str:
    return f"γ={gamma}" if gamma else f"β={beta}"


@fig.data
def tokens(settings: Any) -> xr.Dataset:
    """Contexts and strengths that both fall with the task."""
    task = Task(20, settings.alpha, 40.0, 2.0, beta=0.5, gamma=0.3)
    return on_tokens(task, Init(0.05, 0.05), lr=1e-3, steps=300, data=200, log_every=10)


@fig.data
def curves(settings: Any) -> xr.Dataset:
    """(a), (c): the flow far in time, of every size, and gradient descent."""
    return all_labelled({_key(*decay): _in_time(settings, *decay) for decay in _decays(settings)})


def _in_time(settings: Any, beta: float, gamma: float) -> xr.Dataset:
    task, init = _task(settings, beta, gamma)
    # The fastest rate is 2p_1ψΛ(1 + Λ²). A fifth of its inverse is too coarse for the first task,
    # but from the tenth on the rates are at least 60 times slower, and training gets far.
    first = float(task.strengths[0])
    lr = 0.2 / (2.0 * float(task.weights[0]) * settings.context * first * (1.0 + first**2))
    points = log_points(settings.steps, 60)[1:]
    how = {"lr": lr, "steps": settings.steps, "log_every": max(1, settings.steps // 2000)}
    run = train(task, init, progress=step, **how)
    kept = np.unique(np.searchsorted(run.step, points).clip(1, len(run.step) - 1))
    whole = time_law(task, init).grid()
    far = np.geomspace(whole[0], whole[-1], 100)
    # The start, far times and those of training in one call: one compilation for all tasks.
    left = np.asarray(residual(task, init, np.concatenate([[0.0], far, run.time[kept]])))
    members = np.unique(np.round(np.geomspace(5, 100, 7)).astype(int))
    sizes = np.append(members, task.num_tasks + 1)
    losses = cut_sizes(left.T, np.asarray(task.weights), sizes)[1:]
    tenth = np.abs(left[1 : len(far) + 1, 9])
    return xr.Dataset(
        {
            "lr": lr,
            "tenth": ((), far[np.argmax(tenth < 0.01 * abs(left[0, 9]))]),
            "trained": ("time", np.asarray(run.loss)[kept]),
            "flow": ("time", losses[len(far) :, -1]),
            "far_flow": ("far", losses[: len(far), -1]),
            "member_loss": (("member", "far"), losses[: len(far), :-1].T),
        },
        coords={"time": run.time[kept], "far": far, "member": members},
    )


@fig.data
def resources(settings: Any) -> xr.Dataset:
    """(d), (e): the limits t → ∞ in size and data."""
    return all_labelled({_key(0.0, g): _in_size_and_data(settings, g) for g in settings.gammas})


def _in_size_and_data(settings: Any, gamma: float) -> xr.Dataset:
    task, init = _task(settings, 0.0, gamma)
    sizes, count = (
        np.unique(np.round(np.geomspace(1, last, 200)).astype(int))
        for last in (settings.num_tasks, 1e5)
    )
    return xr.Dataset(
        {
            "size_loss": ("size", size_law(task, init, "exact").loss(sizes)),
            "data_loss": ("data", data_law(task, init, "exact").loss(count)),
        },
        coords={"size": sizes, "data": count},
    )


@fig.data
def balanced(settings: Any) -> xr.Dataset:
    """The loss of contexts that fall over that of equal ones, as much context given to both."""
    return all_labelled(
        {_key(beta, 0.0): _against_equal(settings, beta) for beta in settings.betas}
    )


def _against_equal(settings: Any, beta: float) -> xr.Dataset:
    equal, init = _task(settings, 0.0, 0.0)
    t = np.geomspace(0.01, 1e4, 361)
    weights, fall = np.asarray(equal.weights), np.arange(1.0, settings.num_tasks + 1) ** -beta
    firsts = {
        "same_data": settings.context / float(weights @ fall),
        "same_mean": settings.context / float(fall.mean()),
    }
    plain, found = np.asarray(loss(equal, init, t, "exact")), {}
    for name, first in firsts.items():
        task = Task(settings.num_tasks, settings.alpha, first, settings.weak, beta)
        found[name] = ("early", np.asarray(loss(task, init, t, "exact")) / plain)
        found[f"{name}_first"] = first
    alone = np.abs(np.asarray(residual(equal, init, t, "exact"))[:, 0])
    found["first_half"] = t[np.argmax(alone < 0.5 * settings.weak)]
    return xr.Dataset(found, coords={"early": t})


@fig.data
def split(settings: Any) -> xr.Dataset:
    """(b), (f): the exact frontier of one β and of one γ."""
    return all_labelled({_key(*decay): _frontier(settings, *decay) for decay in _shown(settings)})


def _shown(settings: Any) -> tuple[tuple[float, float], tuple[float, float]]:
    return (settings.betas[0], 0.0), (0.0, settings.gammas[0])


def _frontier(settings: Any, beta: float, gamma: float) -> xr.Dataset:
    task, init = _task(settings, beta, gamma)
    t = time_law(task, init).grid()
    budgets = np.geomspace(2 * t[0], t[-1] * settings.num_tasks, settings.budgets)
    best = frontier(task, init, budgets)
    return xr.Dataset({"best_loss": ("budget", best.loss)}, coords={"budget": budgets})


def _table(settings: Any, beta: float, gamma: float) -> dict[str, float]:
    """The exponents of Table 2; of Table 1 without decay."""
    size, rate = settings.alpha + 2 * gamma - 1, settings.alpha + beta + 3 * gamma
    return {"t": size / rate, "D": size, "N": size / settings.alpha, "C": size / (rate + 1)}


def _guides(
    x: np.ndarray, y: np.ndarray, settings: Any, symbol: str, *decay: float, plain: bool = False
) -> list[Any]:
    """Table 2's law a little above a curve; Table 1's, if asked for, from its middle on."""
    shown = y > 1e-6 * y[0]
    x, y = x[shown], y[shown]
    middle = int(np.searchsorted(x, np.sqrt(x[0] * x[-1])))
    laws = [(decay, {})] if any(decay) else []
    if plain:
        laws.append(((0.0, 0.0), GREY))
    return [
        law(x, 1.5 * y[middle] * (x / x[middle]) ** -_table(settings, *each)[symbol], **look)
        for each, look in laws
    ]


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """(a), (b) contexts; (c) to (f) strengths."""
    settings = settings_of(d)
    betas = [(0.0, 0.0), *((beta, 0.0) for beta in settings.betas)]
    gammas = [(0.0, gamma) for gamma in settings.gammas]
    one_beta, one_gamma = _shown(settings)
    return drawn(
        _panel_in_time(d, betas),
        _panel_of_compute(d, *one_beta),
        _panel_in_time(d, gammas),
        _panel_of(d, "size", "D"),
        _panel_of(d, "data", "N"),
        _panel_of_compute(d, *one_gamma),
        rows=2,
    )


GREY: dict[str, Any] = {"color": "0.75", "zorder": 0}
LAWS = [entry("Table 2", **LAW), entry("Table 1", **(LAW | GREY))]


def _panel_in_time(d: xr.Dataset, decays: list[tuple[float, float]]) -> Panel:
    settings, marks, tops = settings_of(d), [], []
    for k, decay in enumerate(decays):
        get = of_label(d, _key(*decay))
        far, flow = get("far"), get("far_flow")
        marks += [
            theory(far, flow, f"exact flow, ${_symbol(*decay)}$", k),
            training(get("time"), get("trained"), k=k),
            *_guides(far, flow, settings, "t", *decay, plain=k == 0),
        ]
        tops.append(flow[0])
    return Panel(
        "$t$",
        "$L$",
        [*marks, entry("GD", color="0.3", **TRAINING), *LAWS],
        log="xy",
        ylim=(1e-6 * max(tops), 10.0 * max(tops)),
        legend=7.5,
    )


def _panel_of(d: xr.Dataset, name: str, symbol: str) -> Panel:
    settings, marks = settings_of(d), []
    for k, gamma in enumerate(settings.gammas):
        get = of_label(d, _key(0.0, gamma))
        x, y = get(name), get(f"{name}_loss")
        marks += [
            theory(x, y, rf"$t \to \infty$, $\gamma = {gamma}$", k),
            *_guides(x, y, settings, symbol, 0.0, gamma, plain=k == 0),
        ]
    return Panel(f"${symbol}$", "$L$", [*marks, *LAWS], log="xy", legend=7.5)


def _panel_of_compute(d: xr.Dataset, *decay: float) -> Panel:
    settings, get = settings_of(d), of_label(d, _key(*decay))
    members, (c, y) = get("member"), (get("budget"), get("best_loss"))
    words = f"$D = {members[0]}$ to ${members[-1]}$"
    curves = [
        line(size * get("far"), losses, "" if k else words, color="0.75", linewidth=0.9)
        for k, (size, losses) in enumerate(zip(members, get("member_loss"), strict=True))
    ]
    frontier = theory(c, y, "exact frontier")
    return Panel(
        "$C = D t$",
        "$L$",
        [*curves, frontier, *_guides(c, y, settings, "C", *decay, plain=True), *LAWS],
        log="xy",
        title=f"${_symbol(*decay)}$",
        ylim=(1e-6 * y[0], 10.0 * y[0]),
        legend=7.5,
    )


def _symbol(beta: float, gamma: float) -> str:
    return rf"\gamma = {gamma}" if gamma else rf"\beta = {beta:g}"


def _less_until(get: Get, of: str) -> float:
    """The last time at which contexts that fall have less loss than equal ones; NaN if none."""
    less = get("early")[get(of) < 1.0]
    return float(less[-1]) if less.size else float("nan")


def _at_last_step(get: Get, of: str) -> float:
    return float(np.interp(np.log(PAPER_TIME), np.log(get("early")), get(of)))


@fig.claim("paper", "Sec. 4.2", word="balance-beta-{x:g}", over="betas")
def balance(d, x):
    """It is better to balance the context sequence length: with the same Σ p_s ψ_s, β = {x:g} has
    no less loss than β = 0 from t = 5 on, which is 5000 steps of lr 1e-3 (least ratio of the two,
    exact flow to t = 10⁴)."""
    get = of_label(d, _key(x, 0.0))
    late = get("early") >= PAPER_TIME
    words = f"{_at_last_step(get, 'same_data'):.2f} times as much at t = 5."
    return at_least(
        get("same_data")[late].min(), 1.0, because="that is what better means", note=words
    )


@fig.claim("new", "Sec. 4.2", word="balance-from-beta-{x:g}", over="betas")
def balance_from(d, x):
    """Early it is the other way, as the first task has the longest context: with the same Σ p_s
    ψ_s, β = {x:g} has less loss until the first task is learned, and never after the second is half
    learned (last such time over when β = 0 has half learned the first)."""
    get, settings = of_label(d, _key(x, 0.0)), settings_of(d)
    last, low = _less_until(get, "same_data"), get("same_data").min()
    because = "when β = 0 has half learned the second task; all but the first have less context"
    words = f"Until t = {last:.2f}; at best {low:.2f} times the loss."
    return at_most(
        last / float(get("first_half")), 2.0**settings.alpha, because=because, note=words
    )


@fig.claim("new", "Sec. 4.2", word="task-mean-beta-{x:g}", over="betas")
def task_mean(d, x):
    """With the same mean of ψ_s over tasks in place of data points it is better not to balance
    within 5000 steps of lr 1e-3: β = {x:g} has less loss than β = 0 at t = 5 (ratio of the two)."""
    get = of_label(d, _key(x, 0.0))
    last = number(float(f"{_less_until(get, 'same_mean'):.2g}"))
    words = f"Until t = {last}; ψ_1 = {float(get('same_mean_first')):.0f}."
    because = "that is what less means"
    return at_most(_at_last_step(get, "same_mean"), 1.0, because=because, note=words)


def _follows(d: xr.Dataset, *decay: float) -> Finding:
    get = of_label(d, _key(*decay))
    late = get("time") >= get("tenth")
    gap = worst_ratio(get("trained")[late], get("flow")[late])
    low, high = (number(float(f"{t:.2g}")) for t in (get("tenth"), get("time")[-1]))
    because = "ten times lr/t where it begins: a task being learned at t has a rate of 1/t"
    slack = 10.0 * get("lr") / get("tenth")
    return near(gap, 0.0, slack, because=because, note=f"From t = {low} to {high}.")


@fig.claim("check", "Fig. 4a", word="flow-beta-{x:g}", over="betas")
def follows_in_context(d, x):
    """L(t) of gradient descent is that of the exact flow at β = {x:g} from where the tenth task is
    learned (largest relative gap)."""
    return _follows(d, x, 0.0)


@fig.claim("check", "Fig. 4c", word="flow-gamma-{x}", over="gammas")
def follows_in_strength(d, x):
    """L(t) of gradient descent is that of the exact flow at γ = {x} from where the tenth task is
    learned (largest relative gap)."""
    return _follows(d, 0.0, x)


claim_tokens(fig, "Fig. 4", "β = 0.5 and γ = 0.3, S = 20")
