"""Adam as one family in eps/p: tasks that fall together, tasks that wait for their turn."""

from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, Finding, at_most, near, settings_of, step, worst_ratio
from ...reproduce.panels import (
    Mark,
    Panel,
    drawn,
    entry,
    law,
    level,
    line,
    theory,
    training,
    upright,
)
from ...reproduce.panels import tokens as dots
from ...style import THEORY, colour
from .. import (
    Init,
    Task,
    adam_loss,
    adam_regimes,
    adam_residual,
    adamw,
    residual,
    time_law,
    train,
)
from ..task import realised_shares
from ..theory import B1, B2
from ._judging import log_points
from ._labels import all_labelled, of_label
from ._witness import ROUND_OFF, claim_tokens, on_tokens

MANY = 10**15  # tasks, of which the law's amplitude is that of infinitely many
FEW = {"num_tasks": 8, "context": 10.0, "data": 200, "steps": 60, "seed": 0, "eps": 3e-2}
HEADLESS = 20.0  # times t_× after which the first tasks have rung off
PEAKS = 1e-12  # of |R| down to which rounding does not show

fig = Figure(
    "msfr/adam",
    "Adam: one task with eps/p, and a power law beyond the tasks that fall together",
    settings={
        "quick": {"last": 1000, "directs": ((2000, 1e-2, 100),)},
        "default": {"last": 5000, "directs": ((2000, 1e-2, 300), (10**6, 1e-8, 200))},
        "full": {"last": 8000, "directs": ((2000, 1e-2, 300), (10**6, 1e-8, 400))},
    },
    constants={
        "alpha": 1.8,
        "context": 100.0,
        "strength": 0.5,
        "init": (0.1, 0.11),
        "lr": 5e-3,
        "eps": 1e-8,
        "counts": (500, 10**6, 10**9, 10**12),
        "ratios": (1e-6, 10.0, 100.0, 1e3, 1e4),
        "momenta": (0.8, 0.9, 0.95),
        "range": (1e-12, 1e-4),
        "few": FEW,
    },
    note=(
        "Not in the paper, whose App. I.2 trains softmax attention by AdamW. Linear attention, "
        "Adam with lr 5e-3, β 0.9 and 0.999 (Table 4) and no weight decay; α = 1.8, ψ = 100, "
        "Λ = 0.5, v = 0.1, w = 0.11 at the start (106). Adam's moments scale with the gradient, so "
        "a task of weight p trained with eps is one of weight 1 trained with q = eps/p. q ≪ g "
        "(its gradient at the start, 33): every entry moves by lr a step, whatever p; all such "
        "tasks, s < s* = (Z g/eps)^(1/α) = 1.4·10⁵ at eps = 1e-8, fall together, then ring. "
        "q ≫ g: gradient descent of step lr/q, one task after another. L of 10¹² or infinitely "
        "many tasks is a sum of Adam's paths at about a thousand nodes. The law has its amplitude "
        "from gradient flow, at t → lr t/eps; nothing is fitted. (f): at 200 steps. From about "
        "9000 steps on √v̂ has forgotten the descent, steps are unstable and rounding grows: not "
        "shown."
    ),
)


def _task(settings: Any, count: int) -> tuple[Task, Init]:
    return Task(count, settings.alpha, settings.context, settings.strength), Init(*settings.init)


@fig.data
def family(settings: Any) -> xr.Dataset:
    """Residuals of one task for several q, the flow of step lr/q beside them, and ringing."""
    task, init = _task(settings, 1)
    steps, q = log_points(settings.last, 160), np.asarray(settings.ratios)
    flow = [np.asarray(residual(task, init, settings.lr * steps / each))[:, 0] for each in q]
    every, few = np.arange(401), _task(settings, settings.counts[0])[0]
    rung = [adam_residual(task, init, every, 0.0, b1=b1, lr=settings.lr) for b1 in settings.momenta]
    return xr.Dataset(
        {
            "path": (("ratio", "step"), adam_residual(task, init, steps, q, lr=settings.lr).T),
            "path_flow": (("ratio", "step"), np.stack(flow)),
            "ringing": (("momentum", "every"), np.stack(rung)),
            "few_loss": ("every", adam_loss(few, init, every, lr=settings.lr, eps=settings.eps)),
        },
        coords={"ratio": q, "step": steps, "momentum": list(settings.momenta), "every": every},
    )


@fig.data
def losses(settings: Any) -> xr.Dataset:
    """L(t) of 500, of many and of infinitely many tasks, and what flow says of them."""
    steps = log_points(settings.last, 160)[1:]
    how = {"lr": settings.lr, "eps": settings.eps}
    found, flow = [], []
    for count in settings.counts:
        task, init = _task(settings, count)
        found.append(np.asarray(adam_loss(task, init, steps, **how)))
        flow.append(np.asarray(adam_regimes(task, init, **how).flow(steps)))
    task, init = _task(settings, MANY)
    rule, here = time_law(task, init, "exact"), adam_regimes(task, init, **how)
    assert rule.amplitude is not None
    assert here.unstable is not None
    return xr.Dataset(
        {
            "loss": (("count", "step_loss"), found),
            "flow": (("count", "step_loss"), flow),
            "endless": ("step_loss", adam_loss(task, init, steps, endless=True, **how)),
            "power": ("step_loss", rule(steps * settings.lr / settings.eps)),
            "exponent": rule.exponent,
            "arrival": here.arrival,
            "sign_tasks": here.sign_tasks,
            "gradient": here.gradient,
            "unstable": here.unstable,
        },
        coords={"count": list(settings.counts), "step_loss": steps},
    )


@fig.data
def levels(settings: Any) -> xr.Dataset:
    """What infinitely many tasks have left at one step, against eps."""
    task, init = _task(settings, MANY)
    low, high = (np.log10(end) for end in settings.range)
    eps = np.logspace(low, high, 17)
    left = [adam_loss(task, init, 200, lr=settings.lr, eps=e, endless=True) for e in eps]
    stops = [adam_regimes(task, init, lr=settings.lr, eps=e).plateau for e in eps]
    return xr.Dataset(
        {"left_at": ("eps", np.stack(left)), "plateau": ("eps", stops)}, coords={"eps": eps}
    )


@fig.data
def direct(settings: Any) -> xr.Dataset:
    """All tasks trained, and a few nodes of the family."""
    parts = {}
    for count, eps, steps in settings.directs:
        task, init = _task(settings, count)
        optimizer = adamw(settings.lr, eps=eps, weight_decay=0.0)
        how = {"optimizer": optimizer, "steps": steps, "log_every": steps // 20}
        run = train(task, init, progress=step, **how)
        each = np.arange(1, steps + 1)
        found = np.asarray(adam_loss(task, init, np.append(0, each), lr=settings.lr, eps=eps))
        parts[str(count)] = xr.Dataset(
            {
                "trained": ("at", np.asarray(run.loss)),
                "by_nodes": ("at", found[run.step]),
                "of_each": ("each", found[1:]),
            },
            coords={"at": run.step, "each": each},
        )
    return all_labelled(parts)


@fig.data
def together(settings: Any) -> xr.Dataset:
    """500 tasks trained: how far each is behind the first; two laws and eps with one eps/p."""
    count = settings.counts[0]
    task, init = _task(settings, count)
    how: dict[str, Any] = {"steps": 100, "log_every": 1}
    run = train(task, init, optimizer=adamw(settings.lr, eps=settings.eps, weight_decay=0.0), **how)
    left = np.asarray(run.predictions) - settings.strength
    behind = np.abs(left - left[:1]).max(axis=1) / np.abs(left[0, 0])
    other = Task(count, 2.5, settings.context, settings.strength)
    here, there = count // 10, 3  # two tasks of two laws
    scale = float(other.weights[there]) / float(task.weights[here])
    eps = 1e-4
    pair = [
        train(law, init, optimizer=adamw(settings.lr, eps=each), **how).predictions[row]
        for law, each, row in ((task, eps, here), (other, scale * eps, there))
    ]
    return xr.Dataset(
        {
            "behind": ("task", behind),
            "ratio_of": ("task", settings.eps / np.asarray(task.weights)),
            "pair": (("law", "pair_step"), np.stack(pair)),
        },
        coords={"task": np.arange(1, count + 1)},
    )


@fig.data
def tokens(settings: Any) -> xr.Dataset:
    """Real tokens, the reduction and the family."""
    few = settings.few
    task = Task(few["num_tasks"], settings.alpha, few["context"], settings.strength)
    init, data, seed = Init(*settings.init), few["data"], few["seed"]
    optimizer = adamw(settings.lr, eps=few["eps"], weight_decay=0.0)
    how = {"optimizer": optimizer, "steps": few["steps"], "log_every": 5}
    part = on_tokens(task, init, data=data, seed=seed, **how)
    with np.errstate(divide="ignore"):  # tasks that the data set lacks stay where they are
        ratio = few["eps"] / np.asarray(realised_shares(task, data, seed))
    left = np.asarray(adam_residual(task, init, part.token_time.values, ratio, lr=settings.lr))
    return part.assign(of_family=("token_time", 0.5 * left**2 @ np.asarray(task.weights)))


def _s(count: float) -> str:
    power = np.log10(count)
    return rf"$S = 10^{{{power:.0f}}}$" if power >= 4 else f"$S = {count:g}$"


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """(a) paths, (b) losses, (c) witnesses, (d) ringing, (e) L over its law, (f) what is left."""
    return drawn(_paths(d), _losses(d), _witnesses(d), _ringing(d), _over_law(d), _left(d), rows=2)


def _paths(d: xr.Dataset) -> Panel:
    marks: list[Mark] = [level(0.0)]
    for k, q in enumerate(d.ratio.values):
        here = d.sel(ratio=q).isel(step=slice(1, None))
        marks += [training(here.step, here.path, k=k), _name(here.step, here.path, q, k)]
        if q > float(d.gradient):
            marks.append(theory(here.step, here.path_flow, k=k))
    marks.append(entry("flow at $lr\\,t/q$", color="0.3", **THEORY))
    label = "$R_t(q) = f - \\Lambda$"
    return Panel("$t$ (steps)", label, marks, log="x", ylim=(-0.4, 2.4), legend=7.0)


def _name(t: xr.DataArray, path: xr.DataArray, q: float, k: int) -> Mark:
    """What a path is called, where it is half way down."""
    fallen = np.flatnonzero(path.values <= 1.0)
    at = fallen[0] if len(fallen) else len(t) - 1
    side: dict[str, Any] = {"ha": "right" if k == 0 or not len(fallen) else "left"}
    words = rf" ${'' if k else 'q = '}10^{{{np.log10(q):.0f}}}$ "
    look = side | {"color": colour(k), "fontsize": 7.5}
    return Mark(lambda axes: axes.text(float(t[at]), float(path[at]) + 0.08, words, **look))


def _losses(d: xr.Dataset) -> Panel:
    t = d.step_loss
    marks = [
        training(t, d.loss.sel(count=count), _s(count), k)
        for k, count in enumerate(d["count"].values[:2])
    ]
    million = d.isel(count=1)
    marks += [
        training(t, d.endless, r"$S = \infty$", 2),
        theory(t, million.flow, r"$L_\mathrm{flow}(lr\,t/\epsilon)$", 1),
        law(t, d.power, r"$A\,(lr\,t/\epsilon)^{-(\alpha-1)/\alpha}$"),
        upright(float(d.arrival)),
    ]
    more = [lambda a: a.text(float(d.arrival), 2e-11, " $t_\\times$", fontsize=8.0, color="0.4")]
    return Panel("$t$ (steps)", "$L$", marks, log="xy", ylim=(1e-11, 5.0), legend=7.0, more=more)


def _witnesses(d: xr.Dataset) -> Panel:
    marks = []
    looks = {"linestyle": "none", "markersize": 4.0, "alpha": 0.6}
    for k, (count, eps, _) in enumerate(settings_of(d).directs):
        get = of_label(d, str(count))
        words = rf"all, {_s(count)}, $\epsilon = 10^{{{np.log10(eps):.0f}}}$"
        marks += [
            line(get("at")[1:], get("trained")[1:], words, k, marker="s", **looks),
            theory(get("each"), get("of_each"), k=k),
        ]
    late = d.isel(token_time=slice(1, None))
    marks += [
        theory(late.token_time, late.of_family, k=2),
        dots(late.token_time, late.tokens, "tokens, $S = 8$", 2),
        entry("family", color="0.3", **THEORY),
    ]
    return Panel("$t$ (steps)", "$L$", marks, log="xy", legend=7.0)


def _ringing(d: xr.Dataset) -> Panel:
    marks: list[Mark] = []
    for k, b1 in enumerate(d.momentum.values):
        size, t = np.abs(d.ringing.sel(momentum=b1)), d.every
        marks.append(line(t, size, rf"$\beta_1 = {b1}$", k, linewidth=1.1, alpha=0.7))
        peak = _peaks(size.values)
        height = b1 ** (0.5 * t[50:]) * _slow(t[50:])
        first = float(size[peak[0]] / (b1 ** (0.5 * peak[0]) * _slow(peak[0])))
        marks.append(theory(t[50:], first * height, k=k))
    marks.append(entry(r"$\propto \beta_1^{t/2}\,\hat v^{-1/8}$", color="0.3", **THEORY))
    label = r"$|R_t(q \to 0)|$"
    return Panel("$t$ (steps)", label, marks, log="y", ylim=(1e-13, 5.0), legend=7.0)


def _over_law(d: xr.Dataset) -> Panel:
    late = d.isel(step_loss=d.step_loss.values >= 4.0 * float(d.arrival))
    marks: list[Mark] = [level(1.0, linestyle=":", color="0.35", linewidth=1.2)]
    for count, k in zip(d["count"].values[1:], (1, 3, 4), strict=True):
        marks.append(line(late.step_loss, late.loss.sel(count=count) / late.power, _s(count), k))
    rest = {"linestyle": (0, (4, 4)), "linewidth": 2.0}
    marks.append(line(late.step_loss, late.endless / late.power, r"$S = \infty$", 2, **rest))
    label = r"$L\,/\,A\,(lr\,t/\epsilon)^{-(\alpha-1)/\alpha}$"
    return Panel("$t$ (steps)", label, marks, log="x", ylim=(0.0, 2.0), legend=7.0)


def _left(d: xr.Dataset) -> Panel:
    eps, rule = d.eps, float(d.exponent)
    marks = [
        training(eps, d.left_at, r"$S = \infty$, 200 steps"),
        theory(eps, d.plateau, r"where it stops, $L_\mathrm{flow}(lr\,t_\times/\epsilon)$", 1),
        law(
            eps,
            0.5 * d.left_at[0] * (eps / eps[0]) ** rule,
            r"$\propto \epsilon^{(\alpha-1)/\alpha}$",
        ),
    ]
    return Panel(r"$\epsilon$", "$L$", marks, log="xy", legend=7.0)


def _peaks(size: np.ndarray) -> np.ndarray:
    """Where |R| is largest between two zeros, once it rings."""
    inner = size[1:-1]
    high = (inner > size[:-2]) & (inner > size[2:]) & (inner > PEAKS)
    found = np.flatnonzero(high) + 1
    return found[found > 50]


def _slow(t: Any) -> Any:
    """``v̂^(−1/8)`` once gradients are gone: ``v̂ ∝ β2^t/(1 − β2^t)``.

    A step c = lr/√v̂ that changes slowly keeps |R|² sin ω/(c β1^t), with ω² ∝ c.
    """
    return ((1.0 - B2**t) / B2**t) ** 0.125


def _rate(size: np.ndarray) -> float:
    """The rate at which peaks fall besides, not a number where nothing rings."""
    peak = _peaks(size)
    if len(peak) < 3:
        return float("nan")
    return float(-np.polyfit(peak, np.log(size[peak] / _slow(peak)), 1)[0])


SLOW = "the next order of a slow change is 7 % of the first peaks' height, over 7 e-folds or more"


@fig.claim("new", "beyond App. I.2")
def scaling(d):
    """Two tasks of two laws, trained with AdamW in the reduction at the same eps/p, have the same
    path (largest gap of f)."""
    gap = float(np.abs(d.pair[0] - d.pair[1]).max())
    moved = float(np.abs(d.pair[0] - d.pair[0, 0]).max())
    return near(gap, 0.0, ROUND_OFF, because="round-off", note=f"f moves by {moved:.3g}.")


@fig.claim("check", "beyond App. I.2")
def nodes(d):
    """The loss of all tasks, each trained in the reduction, is that of the family at the nodes of
    the sum (largest relative gap)."""
    cases = settings_of(d).directs
    gaps = []
    for count, _, _ in cases:
        get = of_label(d, str(count))
        gaps.append(worst_ratio(get("trained"), get("by_nodes")))
    words = ", ".join(f"{count} tasks with eps = {eps:g}" for count, eps, _ in cases)
    return near(max(gaps), 0.0, ROUND_OFF, because="round-off", note=f"{words}.")


@fig.claim("new", "Fig. 10c")
def fall_together(d):
    """Of {counts[0]} tasks under Adam with eps = {eps} the last is behind the first by eps/(p g) of
    its error at most, to first order (most that it is, over eps/(p_S g))."""
    behind, ratio = float(d.behind[-1]), float(d.ratio_of[-1] / d.gradient)
    because = "√v̂ is g to a factor of two, over entries and along the way"
    spread = float(d.ratio_of[-1] / d.ratio_of[0])
    words = f"It is {behind:.2g}, though p_S is {1 / spread:.2g} of p_1. s* = {d.sign_tasks:.3g}."
    return at_most(behind / ratio, 2.0, because=because, note=words)


@fig.claim("new", "Fig. 10c")
def no_law(d):
    """So {counts[0]} tasks have no power law in t: once they have arrived L falls with
    β1^t v̂^(−1/4) from peak to peak (the rate besides v̂, over −ln β1; to 400 steps)."""
    rate = 2.0 * _rate(np.sqrt(d.few_loss.values))
    local = float(np.log2(d.few_loss[100] / d.few_loss[200]))
    note = (
        f"Between 100 and 200 steps the local exponent is {local:.3g}, of β1^t alone "
        f"{-100.0 * np.log2(B1):.3g}; gradient descent's is {float(d.exponent):.3g}."
    )
    return near(rate / -np.log(B1), 1.0, 0.01, because=SLOW, note=note)


@fig.claim("new", "beyond App. I.2", over="momenta")
def rings(d, x):
    """Tasks that have arrived ring with the envelope β1^(t/2) v̂^(−1/8) at β1 = {x}: v̂ ∝
    β2^t/(1 − β2^t) makes steps grow slowly (the rate besides v̂, over −½ ln β1)."""
    size = np.abs(d.ringing.sel(momentum=x).values)
    rate, peak = _rate(size), _peaks(size)
    plain = -np.polyfit(peak, np.log(size[peak]), 1)[0] / (-0.5 * np.log(x))
    note = f"It is {rate:.4f}. Without v̂ the ratio would be {plain:.3f}."
    return near(rate / (-0.5 * np.log(x)), 1.0, 0.01, because=SLOW, note=note)


@fig.claim("new", "Table 1, beyond App. I.2")
def exponent_many(d):
    """10¹² tasks, many more than s*, have gradient descent's exponent (α−1)/α in t under Adam
    (from 20 t_× to the last step)."""
    return _exponent(d, d.loss.isel(count=-1))


@fig.claim("new", "Table 1, beyond App. I.2")
def exponent_endless(d):
    """Infinitely many tasks have gradient descent's exponent (α−1)/α in t under Adam (from 20 t_×
    to the last step)."""
    return _exponent(d, d.endless)


def _exponent(d: xr.Dataset, curve: xr.DataArray) -> Finding:
    late = d.step_loss >= HEADLESS * d.arrival
    slope = -np.polyfit(np.log(d.step_loss[late]), np.log(curve[late]), 1)[0]
    because = "Adam is ahead of the flow by a few steps, of 230 at the least"
    return near(slope, float(d.exponent), 0.01 * float(d.exponent), because=because)


@fig.claim("new", "beyond App. I.2")
def flow(d):
    """For t ≫ t_× the loss of 10¹² tasks is that of the flow at lr t/eps but for O(t_×/t) (largest
    relative gap for t ≥ 20 t_×, times t/t_×)."""
    many, t = d.isel(count=-1), d.step_loss / d.arrival
    gap = np.abs(many.loss / many.flow - 1.0)
    note = f"At the last step the gap is {float(gap[-1]):.2g}."
    worst = float((gap * t)[t >= HEADLESS].max())
    return at_most(worst, 1.0, because="the order claimed", note=note)


@fig.claim("new", "beyond App. I.2")
def amplitude(d):
    """Infinitely many tasks have A(lr t/eps)^(−(α−1)/α), A that of gradient flow (relative gap at
    the last step)."""
    gap = float(d.endless[-1] / d.power[-1] - 1.0)
    bound = float(d.arrival / d.step_loss[-1])
    return near(gap, 0.0, bound, because="t_×/t, the order of what is left out")


@fig.claim("new", "beyond App. I.2")
def plateau(d):
    """What is left at the same step falls like eps^((α−1)/α), {range[0]} ≤ eps ≤ {range[1]}
    (exponent across, at 200 steps)."""
    slope = np.polyfit(np.log(d.eps), np.log(d.left_at), 1)[0]
    stops = np.polyfit(np.log(d.eps), np.log(d.plateau), 1)[0]
    note = f"Of the level where the flow stands at t_× it is {stops:.4f}."
    because = "at the largest eps the first tasks are no longer many"
    return near(slope, float(d.exponent), 0.01 * float(d.exponent), because=because, note=note)


claim_tokens(fig, "App. I.2, on linear attention", "Adam, S = 8, N = 200")


@fig.claim("check", "App. I.2, on linear attention")
def tokens_and_family(d):
    """Training on real tokens by Adam is the family at eps over each task's share of the data
    (largest relative gap of L)."""
    return near(worst_ratio(d.tokens, d.of_family), 0.0, ROUND_OFF, because="round-off")
