"""Mini-batches: batch size as the fourth resource.

All tasks share one optimum, so that the noise of mini-batches vanishes with the residual: it leaves
no floor, and has an edge of instability instead.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.interpolate import CubicSpline
from scipy.special import xlog1py, xlogy

from ... import validation
from ...numerics.binomial import binomial_nodes
from ...numerics.counting import counting_rule
from ...numerics.roots import root_between
from ..start import Init, SoftmaxInit
from ..task import Task
from ._learning import Order, learnable
from ._loss import MAX_DATA, check
from ._repetition import gamma_ratio
from ._tasks import rows_of, starts, weights_at

_LEFT = 1e-12  # of the residual at the start: learned
_GONE = 1e100  # size of a residual that has diverged
_MOST_HITS = 10**6  # of one task until it is learned
_EACH = 4096  # hits that are summed one by one
_PIECE = 1 << 21  # entries (tasks × hits) worked on at once

Values = Float[np.ndarray, "..."]


@dataclass(frozen=True, eq=False)
class _Linear:
    """One task of linear attention in the modes μ of H: ``f = ¼ Σ_i μ_i (η_i² − ρ_i²)``.

    Attributes:
        rates: μ.
        plus, minus: η = v + w and ρ = v − w at the start, in the modes.
        target: Λ.
    """

    rates: Float[np.ndarray, " modes"]
    plus: Float[np.ndarray, " modes"]
    minus: Float[np.ndarray, " modes"]
    target: float

    @classmethod
    def of(cls, task: Task, init: Init, order: Order) -> "_Linear":
        check(task, init, order)
        validation.one_of("order", order, ("exact", "zeroth"))
        start = starts(task, init, np.ones(1))
        if not bool(learnable(start, order)[0]):
            raise ValueError("init must be one from which tasks are learned: f never reaches Λ")
        psi, lam = float(start.context[0]), float(start.strength[0])
        trace, first = psi * (1.0 + lam**2), lam
        rates = np.array([trace, 0.0])
        if order == "exact":
            trace += 1.0
            top = 0.5 * (trace + math.sqrt(max(trace**2 - 4.0 * psi * lam**2, 0.0)))
            rates, first = np.array([top, psi * lam**2 / top]), lam * (1.0 - 1.0 / top)
        frame = np.array([[1.0, first], [-first, 1.0]]) / math.hypot(1.0, first)
        v, w = frame @ start.v[0], frame @ start.w[0]
        return cls(rates, v + w, v - w, lam)

    def _sum(self, power: int, sign: float, clock: float = 0.0) -> float:
        """``Σ_i μ_i^power (η_i² e^{2μ_i τ} + sign ρ_i² e^{−2μ_i τ})``."""
        turn = np.exp(self.rates * clock)
        squares = (self.plus * turn) ** 2 + sign * (self.minus / turn) ** 2
        return float(np.sum(self.rates**power * squares))

    @property
    def initial(self) -> float:
        return 0.25 * self._sum(1, -1.0) - self.target

    @property
    def first_rate(self) -> float:
        """K_0 = |Hv|² + |Hw|² at the start."""
        return 0.5 * self._sum(2, 1.0)

    @property
    def cubic(self) -> float:
        """``vᵀH³w`` at the start."""
        return 0.25 * self._sum(3, -1.0)

    @cached_property
    def last_rate(self) -> float:
        """K where the flow ends: f′(τ) at the clock τ at which f is Λ."""

        def off(clock: float) -> float:
            return 0.25 * self._sum(1, -1.0, clock) - self.target

        if off(0.0) == 0.0:
            return self.first_rate
        far = math.copysign(1.0 / float(self.rates[0]), -off(0.0))
        while off(0.0) * off(far) > 0.0:
            far *= 2.0
        return 0.5 * self._sum(2, 1.0, root_between(off, 0.0, far))

    def residuals(self, step: float, most: int) -> list[float]:
        """R_n = f − Λ after n = 0, 1, … GD steps at weight 1, until it is learned."""
        (m, k), (a, b), (c, d) = (x.tolist() for x in (self.rates, self.plus, self.minus))
        found = [self.initial]
        small, left = _LEFT * abs(self.initial), self.initial
        while small < abs(left) < _GONE and len(found) <= most:
            one, two = step * left * m, step * left * k
            a, b, c, d = (1.0 - one) * a, (1.0 - two) * b, (1.0 + one) * c, (1.0 + two) * d
            left = 0.25 * (m * (a * a - c * c) + k * (b * b - d * d)) - self.target
            found.append(left)
        return found


@dataclass(frozen=True)
class _Saturated:
    """One task of softmax attention whose context has all the weight: f = V_1 + Λ V_2.

    Attributes:
        initial: f(0) − Λ.
        last_rate: K = 1 + Λ², at all times.
    """

    initial: float
    last_rate: float
    cubic: float = 0.0

    @classmethod
    def of(cls, task: Task, init: SoftmaxInit) -> "_Saturated":
        lam = float(task.strength)
        return cls(float(init.value) * (1.0 + lam) - lam, 1.0 + lam**2)

    @property
    def first_rate(self) -> float:
        return self.last_rate

    def residuals(self, step: float, most: int) -> list[float]:
        """``(f(0) − Λ)(1 − hK)^n``, until it is learned."""
        found, factor = [self.initial], 1.0 - step * self.last_rate
        small, left = _LEFT * abs(self.initial), self.initial
        while small < abs(left) < _GONE and len(found) <= most:
            left = factor * left
            found.append(left)
        return found


def _one_task(task: Any, init: Any, order: Order) -> _Linear | _Saturated:
    """What all tasks are, but for their weight."""
    validation.needs_double("the closed form")
    if not isinstance(task, Task):
        raise ValueError(f"task must be a msfr.Task, not {type(task).__name__}")
    if not isinstance(init, Init | SoftmaxInit):
        raise ValueError(
            f"init must be a msfr.Init or a msfr.SoftmaxInit, not {type(init).__name__}"
        )
    validation.concrete("task and init", task, init, why="hits are counted")
    alike = init.value.ndim == 0 if isinstance(init, SoftmaxInit) else init.is_uniform
    if not (task.is_uniform and alike):
        raise ValueError("context, strength and init must be the same for all tasks, as one number")
    if isinstance(init, SoftmaxInit):
        return _Saturated.of(task, init)
    return _Linear.of(task, init, order)


def _step(lr: Any, batch: Any) -> tuple[float, int]:
    """The step h = η/B and B, checked."""
    validation.concrete("lr", lr, why="hits are counted")
    rate = validation.real("lr", lr)
    validation.shaped("lr", rate, ())
    validation.within("lr", rate, 0.0, 1e100, open_low=True)
    size = validation.whole("batch", batch, 1, int(MAX_DATA))
    return float(rate) / size, size


def _squares(one: _Linear | _Saturated, step: float, most: float) -> Values:
    """R_n² of a task that is hit n = 0, 1, … times; ∞ from where it has diverged on."""
    found = np.array(one.residuals(step, int(min(most, _MOST_HITS))))
    if len(found) > _MOST_HITS and most > _MOST_HITS:
        raise ValueError(
            f"lr/batch must be such that {_MOST_HITS} hits teach a task, not {step:.3g}: small "
            "steps are the flow, loss(task, init, lr * steps, data=batch * steps)"
        )
    return np.where(np.abs(found) < _GONE, found, np.inf) ** 2


def _mean(squares: Values, draws: float, chance: Values) -> Values:
    """``E R_n²``, n ~ Binomial(draws, chance), one a chance; beyond the last nothing is left."""
    if not np.isfinite(squares[-1]) and draws >= len(squares) - 1:
        return np.full(chance.shape, np.inf)
    if len(squares) > _EACH:  # small steps: smooth in n
        count, weight = binomial_nodes(np, np.float64(draws), chance)
        smooth = CubicSpline(np.arange(len(squares)), squares)
        there = count < len(squares) - 1
        return np.sum(weight * np.where(there, smooth(np.where(there, count, 0.0)), 0.0), axis=1)
    n = np.arange(min(len(squares), int(min(draws, _EACH)) + 1), dtype=float)
    choose = np.cumsum(np.log(np.append(1.0, (draws - n[:-1]) / n[1:])))
    log = choose + xlogy(n, chance[:, None]) + xlog1py(draws - n, -chance[:, None])
    return np.exp(log) @ squares[: len(n)]


def sgd_loss(
    task: Task,
    init: Init | SoftmaxInit,
    steps: Any,
    *,
    lr: Any,
    batch: int,
    data: int | None = None,
    order: Order = "exact",
) -> Float[np.ndarray, "..."]:
    """The mean loss after SGD on mini-batches, by how often each task was hit.

    With h = η/B and R_n the residual f − Λ after n steps of gradient descent of size h on one task
    alone, a task that was hit n times in t steps is at R_n:

    ``L(t) = ½ Σ_s p_s E R_n²``,  ``n ~ Binomial(Bt, p_s)``,

    so that the loss depends on the data seen, Bt, and on η/B only. It is exact for B = 1; for
    B > 1 for tasks with B p_s ≪ 1, of whose hits no two fall into one step. Those are the ones that
    count once the first are learned, as long as the first are stable (`stability_edge`). As h → 0
    it is the flow on data seen once, `loss` at t = ηt with N = Bt data.

    Of a data set of N data each is hit once an epoch: after e epochs ``L = ½ Σ_s p_s E R_{en}²``
    with ``n ~ Binomial(N, p_s)``. As h → 0 that is `loss` with N data, and for many tasks
    `repetition` at ``c = ψ(1+Λ²) ηe/B``.

    Args:
        task: the data law; all tasks share context and strength. Any number of tasks.
        init: where linear attention starts; or softmax attention, taken as saturated: its keys at
            rest and all attention in the context, f = V_1 + Λ V_2.
        steps: t, one number or one axis of whole numbers.
        lr: η.
        batch: B.
        data: N, a data set gone through in epochs, as by `train`; Bt must be whole epochs. None for
            fresh mini-batches.
        order: of H: "exact", or "zeroth" for ``ψ u uᵀ``.

    Returns:
        Array (steps,), or a single number for a single t; infinite where a task alone diverges.

    >>> from solvable import msfr
    >>> task = msfr.Task(num_tasks=1000, alpha=1.8, context=100.0, strength=0.5)
    >>> float(msfr.sgd_loss(task, msfr.Init(0.1, 0.11), 200, lr=0.004, batch=4).round(10))
    0.0851693402
    """
    one = _one_task(task, init, order)
    step, size = _step(lr, batch)
    validation.concrete("steps", steps, why="hits are counted")
    t = validation.real("steps", steps)
    if t.ndim > 1:
        raise ValueError(f"steps must be one number or one axis of them, not of shape {t.shape}")
    validation.within("steps", t, 0.0, MAX_DATA / size)
    if np.any(t != np.floor(t)):
        raise ValueError(f"steps must be whole numbers, not {float(t[t != np.floor(t)].flat[0]):g}")
    seen = (size * t).ravel()
    epochs = np.ones_like(seen) if data is None else _epochs(data, size, seen)
    squares = _squares(one, step, float(np.max(seen, initial=0.0)))
    block = max(1, _PIECE // min(len(squares), _EACH))
    if isinstance(init, Init):
        rows = rows_of(task, init)
        chance, count = rows.weight, rows.count
    else:  # e^−y, y ∝ s^−α
        index, count = counting_rule(task.num_tasks, angle=0.5 * math.pi / float(task.alpha))
        chance = weights_at(task, index)
    parts = np.array_split(np.minimum(chance, 1.0), 1 + len(chance) // block)
    share = 0.5 * count * chance
    found = []
    for total, times in zip(seen, epochs, strict=True):
        each = _every(squares, int(times)) if total else squares[:1]
        mean = [_mean(each, total / max(times, 1.0), part) for part in parts]
        found.append(np.sum(share * np.concatenate(mean)))
    return np.array(found).reshape(t.shape)


def _epochs(data: Any, batch: int, seen: Values) -> Values:
    """How many times a data set was gone through."""
    count = validation.whole("data", data, batch, int(MAX_DATA))
    if np.any(seen % count):
        raise ValueError(f"batch * steps must be whole epochs of data = {count}")
    return seen / count


def _every(squares: Values, times: int) -> Values:
    """What is left of a task after 0, `times`, 2 `times`, … hits."""
    kept = squares[::times]
    return np.append(kept, np.inf) if np.isinf(squares[-1]) > np.isinf(kept[-1]) else kept


def sgd_amplitude(
    task: Task, init: Init | SoftmaxInit, *, lr: Any, batch: int, order: Order = "exact"
) -> float:
    """The amplitude of the law of SGD in data seen, ``L = amplitude · (Bt)^{−(α−1)/α}``.

    ``amplitude = (Z^δ/2α) G(h)``, ``G(h) = Σ_n R_n² Γ(n+1−δ)/n!``, h = η/B, δ = 1/α: what
    `sgd_loss` tends to at many tasks and data. No h has less than the one that learns a task in one
    hit (`best_batch`), ``E(0) Γ(1−δ)``: the data law.

    Args:
        task: the data law; all tasks share context and strength.
        init: as of `sgd_loss`.
        lr: η.
        batch: B.
        order: of H: "exact", or "zeroth".

    Returns:
        The amplitude; infinite where a task alone diverges at h.
    """
    one = _one_task(task, init, order)
    squares = _squares(one, _step(lr, batch)[0], math.inf)
    delta = 1.0 / float(task.alpha)
    total = float(np.sum(squares * gamma_ratio(np.arange(len(squares), dtype=float), delta)))
    return float(task.normaliser) ** delta * 0.5 * delta * total


def mean_square_rate(
    task: Task, init: Init | SoftmaxInit, *, lr: Any, batch: int, order: Order = "exact"
) -> Float[np.ndarray, " tasks"]:
    """By what a step of SGD multiplies the mean of (f_s − Λ)² near the end of training.

    ``ρ_s = 1 − 2ηK p + η²K² [p² (1 − 1/B) + p/B]``, ``K = |Hv|² + |Hw|²`` where the flow ends
    (order zero: ``ψ(1+Λ²) √(4Λ²+2C)``); exact for saturated softmax attention, whose K is 1 + Λ².
    Tasks with p → 0 see the clock ``ηt (1 − ηK/2B)``.

    Args:
        task: the data law; all tasks share context and strength.
        init: as of `sgd_loss`.
        lr: η.
        batch: B.
        order: of H: "exact", or "zeroth".

    Returns:
        ρ of every task; above 1 it does not stay learned.
    """
    one = _one_task(task, init, order)
    step, size = _step(lr, batch)
    p, pull = np.asarray(task.weights), step * size * one.last_rate
    return 1.0 - 2.0 * pull * p + pull**2 * (p**2 * (1.0 - 1.0 / size) + p / size)


def stability_edge(
    task: Task, init: Init | SoftmaxInit, *, batch: int, order: Order = "exact"
) -> float:
    """The learning rate above which learned tasks do not stay so in mean square.

    ``η K [p_1 (1 − 1/B) + 1/B] < 2``: where ρ of `mean_square_rate` is 1 for the first task. A
    start whose K_0 is larger than K diverges earlier.

    Args:
        task: the data law; all tasks share context and strength.
        init: as of `sgd_loss`.
        batch: B.
        order: of H: "exact", or "zeroth".

    >>> from solvable import msfr
    >>> task = msfr.Task(num_tasks=300, alpha=1.8, context=100.0, strength=0.5)
    >>> [f"{msfr.stability_edge(task, msfr.Init(0.1, 0.11), batch=b):.4f}" for b in (1, 16)]
    ['0.0144', '0.0255']
    """
    rate = _one_task(task, init, order).last_rate
    size = _step(1.0, batch)[1]
    heaviest = float(task.normaliser)
    return 2.0 / (rate * (heaviest * (1.0 - 1.0 / size) + 1.0 / size)) if rate else math.inf


def one_hit_step(task: Task, init: Init | SoftmaxInit, order: Order = "exact") -> float:
    """h*, the step that learns a task in one hit: ``1 − hK_0 + h² (f(0) − Λ) vᵀH³w = 0``.

    In the linear case (saturated softmax attention) it is 1/K.

    Args:
        task: the data law; all tasks share context and strength.
        init: as of `sgd_loss`.
        order: of H: "exact", or "zeroth".
    """
    one = _one_task(task, init, order)
    square = one.first_rate**2 - 4.0 * one.initial * one.cubic
    if not (one.first_rate > 0.0 and square >= 0.0):
        raise ValueError("init must be one from which some step learns a task in one hit")
    return 2.0 / (one.first_rate + math.sqrt(square))


def best_batch(task: Task, init: Init | SoftmaxInit, lr: Any, *, order: Order = "exact") -> float:
    """The batch that is best at a fixed learning rate and a fixed number of data Bt: ``B* = η/h*``.

    h* learns a task in one hit (`one_hit_step`), and the loss is then the data law of N = Bt, which
    no batch beats. Below B* tasks are overshot, above it they need more than one hit. Growing B
    with η = h*B saves steps at the same loss, up to `largest_batch`.

    Args:
        task: the data law; all tasks share context and strength.
        init: as of `sgd_loss`.
        lr: η.
        order: of H: "exact", or "zeroth".

    Returns:
        B*, not rounded; below 1 no batch is that small, and one datum at a time is best.
    """
    step = one_hit_step(task, init, order)
    return _step(lr, 1)[0] / step


def largest_batch(
    task: Task, init: Init | SoftmaxInit, *, step: Any = None, order: Order = "exact"
) -> float:
    """The largest batch at which learned tasks stay so when the learning rate is h times it.

    ``B ≤ 1 + (2/(hK) − 1)/p_1``, the edge of `stability_edge` at η = hB. It looks at the end of
    training only: where K_0 is larger than K the start diverges earlier, as soon as hB is beyond
    the largest single step from which the first task returns.

    Args:
        task: the data law; all tasks share context and strength.
        init: as of `sgd_loss`.
        step: h; that of `one_hit_step` unless given.
        order: of H: "exact", or "zeroth".

    Returns:
        B, not rounded; below 1 no batch is stable.
    """
    h = one_hit_step(task, init, order) if step is None else _step(step, 1)[0]
    rate = _one_task(task, init, order).last_rate
    return 1.0 + (2.0 / (h * rate) - 1.0) / float(task.normaliser) if rate else math.inf
