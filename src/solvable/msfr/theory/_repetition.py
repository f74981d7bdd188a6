"""Finite data gone through again and again: how much loss that costs, and from when on."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln

from ... import validation
from ...numerics.counting import MOST, counting_rule
from ...numerics.quadrature import gauss_legendre
from ..start import Init
from ..task import Task
from ._learning import Order, learnable
from ._loss import check, residual, shares_everything
from ._tasks import starts
from ._zeroth import plateau

_DECADES = 280  # of x, up and down, in which learning is looked for
_NOTHING = 1e-18  # no digit of a sum
_NEAR = 1e-8  # of where half is learned: up to there E(0) − E is a line, to half of the digits
_LINE = 1e-8  # slope × clock up to which the ratio is a line, to all digits
_PIECE = 1 << 20  # entries (clocks × nodes) worked on at once

Values = Float[np.ndarray, "..."]


@dataclass(frozen=True, eq=False)
class Repetition:
    """What N data, gone through again and again, cost against as many fresh ones, for S = ∞.

    Attributes:
        clock: c = ψ(1+Λ²)t/N, how far one datum alone brings its task in time t.
        ratio: Φ(c) = L(t, N)/L(t, ∞).
        slope: Φ → 1 + slope · c where c is small.
        amplitude: Φ → amplitude · c^exponent where c is large, and L(t, N) the data law.
        exponent: 1 − 1/α.
        crossover: c at which that law is 1: time rules below it, data above.
    """

    clock: Values
    ratio: Values
    slope: float
    amplitude: float
    exponent: float
    crossover: float

    @property
    def additive(self) -> Values:
        """``(L(t, ∞) + L(∞, N))/L(t, N)``: how far a sum of the two laws overstates the loss."""
        return (1.0 + self.amplitude * self.clock**self.exponent) / self.ratio


@dataclass(frozen=True, eq=False)
class Learning:
    """E(x) = (f − Λ)² of tasks that share everything, in the clock x = ψ(1+Λ²) p t.

    Attributes:
        task, init, order: of which it is.
        initial: E(0).
        half, end: where half of it is left, and nothing that counts in an integral.
        angle: how far from the real axis of log x the nearest singularity is.
    """

    task: Task
    init: Init
    order: Order
    initial: float
    half: float
    end: float
    angle: float

    def __call__(self, x: Values) -> Values:
        """E at clocks of any shape."""
        return _squares(self.task, self.init, self.order, x)

    @property
    def delta(self) -> float:
        """1/α."""
        return 1.0 / float(self.task.alpha)

    def mellin(self, low: float = 0.0) -> float:
        """``∫ x^−δ E(x) dx`` from `low` on."""
        power = 1.0 - self.delta
        begin = max(low, _NOTHING * self.half)  # E is E(0) up to there
        x, weight = _panels(begin, max(self.end, 2.0 * begin), self.angle)
        head = self.initial * (begin**power - low**power) / power
        return head + float(np.sum(weight * x**power * self(x)))

    def steepness(self) -> float:
        """``−∫ x^−δ E′(x) dx``, by parts ``δ ∫ x^{−δ−1} (E(0) − E) dx``."""
        begin, power = _NEAR * self.half, 1.0 - self.delta
        x, weight = _panels(begin, self.end, self.angle)
        gone = self.initial - self(np.append(begin, x))
        middle = self.delta * float(np.sum(weight * x**-self.delta * gone[1:]))
        line = self.delta * float(gone[0]) * begin**-self.delta / power
        return line + middle + self.initial * self.end**-self.delta

    def hits(self, clock: Values) -> Values:
        """``Σ_{n≥0} Γ(n+1−δ)/n! E(nc)`` for clocks c > 0 on one axis."""
        n, weight = counting_rule(MOST, angle=self.angle)
        weight = weight * gamma_ratio(n, self.delta)
        rows = max(1, _PIECE // len(n))
        found = np.full(clock.shape, self.initial * math.gamma(1.0 - self.delta))
        for k in range(0, len(clock), rows):
            x = clock[k : k + rows, None] * n
            near = int(np.max(np.sum(x < 10.0 * self.end, axis=1)))  # beyond them nothing is left
            found[k : k + rows] += self(x[:, :near]) @ weight[:near] if near else 0.0
        return found


def gamma_ratio(n: Values, delta: float) -> Values:
    """``Γ(n + 1 − δ)/n!``, by Stirling's series where logarithms of the two would cancel."""
    few = np.minimum(n, 16.0)
    direct = np.exp(gammaln(few + 1.0 - delta) - gammaln(few + 1.0))
    m = np.maximum(n, 16.0)

    def rest(z: Values) -> Values:
        i2 = 1.0 / (z * z)
        return (1 / 12 - i2 * (1 / 360 - i2 * (1 / 1260 - i2 * (1 / 1680 - i2 / 1188)))) / z

    log = (m + 0.5 - delta) * np.log1p(-delta / m) + delta + rest(m - delta) - rest(m)
    return np.where(n < 16.0, direct, np.exp(log) * m**-delta)


def _panels(low: float, high: float, angle: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes x and weights of ``∫ … d log x`` from `low` to `high`, on panels of even length."""
    node, weight = gauss_legendre(16)
    longest = 2.0 * min(angle / 1.4, 0.23)  # as blocks of `counting_rule`
    edges = np.linspace(math.log(low), math.log(high), 2 + int(math.log(high / low) / longest))
    width = np.diff(edges)[:, None]
    return np.exp(edges[:-1, None] + width * node).ravel(), (width * weight).ravel()


def _squares(task: Task, init: Init, order: Order, x: Values) -> Values:
    alone = Task(1, task.alpha, task.context, task.strength)
    pace = float(task.context) * (1.0 + float(task.strength) ** 2)
    return np.asarray(residual(alone, init, x.ravel() / pace, order)).reshape(x.shape) ** 2


def learning(task: Task, init: Init, order: Order) -> Learning:
    """How tasks that share everything are learned, or a `ValueError` where they are not."""
    check(task, init, order)
    validation.concrete("task and init", task, init, why="repetition is worked out")
    if not shares_everything(task, init):
        raise ValueError("context, strength and init must be the same for all tasks, as one number")
    start = starts(task, init, np.ones(1))
    if not bool(learnable(start, order)[0]):
        raise ValueError("init must be one from which tasks are learned: here f never reaches Λ")
    grid = np.logspace(-_DECADES, _DECADES, 16 * _DECADES + 1)
    initial, *rest = _squares(task, init, order, np.append(0.0, grid)).tolist()
    if initial == 0.0:
        raise ValueError("init must leave something to learn: f(0) is the strength already")
    error = np.asarray(rest)
    half = float(grid[np.argmax(error < 0.5 * initial)])
    power = 1.0 - 1.0 / float(task.alpha)
    alive = np.flatnonzero(error * grid**power > _NOTHING * initial * half**power)
    # Poles of order zero; of other orders a plateau is at least as long as it takes to half.
    wait = max(float(plateau(start)[0]), 2.0 * abs(float(task.strength)) * half)
    return Learning(
        task=task,
        init=init,
        order=order,
        initial=initial,
        half=half,
        end=float(grid[min(alive[-1] + 1, len(grid) - 1)]),
        angle=math.atan2(math.pi, min(wait, 700.0)),
    )


def repetition(task: Task, init: Init, clock: Any, order: Order = "zeroth") -> Repetition:
    """How much larger the loss is when N data are gone through again and again, at S = ∞.

    A task's count is then Poisson, ``#_s ~ Poisson(N p_s)``. With ``E(x) = (f − Λ)²`` in the clock
    ``x = ψ(1+Λ²) p t``, ``δ = 1/α`` and ``M = ∫ x^−δ E dx`` the loss is
    ``L(t, N) = (Z^δ/2α) N^{δ−1} Σ_n Γ(n+1−δ)/n! E(nc)``, so that

    ``Φ(c) = L(t, N)/L(t, ∞) = c^{1−δ} Σ_n Γ(n+1−δ)/n! E(nc) / M``,  ``c = ψ(1+Λ²) t/N``.

    It falls from the data law ``E(0) Γ(1−δ) c^{1−δ}/M`` at large c to
    ``1 + ½ (1−δ) (J/M) c``, ``J = −∫ x^−δ E′ dx``, at small c. It is not universal: E ∝ e^{−2μx}
    has ``[2μc/(1 − e^{−2μc})]^{1−δ}``. Counts of finite N are binomial, which makes
    ``Γ(N+1)/Γ(N+2−δ)`` of ``N^{δ−1}``: less by ``(1−δ)(2−δ)/2N``.

    Args:
        task: the data law; its number of tasks plays no role, and all share context and strength.
        init: where linear attention starts; tasks must be learned from it.
        clock: c ≥ 0, numbers of any shape.
        order: "zeroth", "first" or "exact".

    Returns:
        A `Repetition`: the ratio, to 1e-10, and its two limits.

    Reference: (66) is the limit t → ∞ at finite S.

    >>> from solvable import msfr
    >>> task = msfr.Task(num_tasks=500, alpha=1.8, context=100.0, strength=0.5)
    >>> found = msfr.repetition(task, msfr.Init(v=0.1, w=0.11), [0.1, 1.0, 10.0])
    >>> found.ratio.round(6).tolist(), round(found.crossover, 5)
    ([1.189376, 2.464944, 6.826191], 0.13277)
    """
    validation.concrete("clock", clock, why="repetition is worked out")
    c = validation.real("clock", clock)
    validation.within("clock", c, 0.0, 1e100)
    task_of = learning(task, init, order)
    power, total = 1.0 - task_of.delta, task_of.mellin()
    slope = 0.5 * power * task_of.steepness() / total
    ratio = np.array(1.0 + slope * c)
    many = slope * c > _LINE
    ratio[many] = c[many] ** power * task_of.hits(c[many]) / total
    amplitude = task_of.initial * math.gamma(power) / total
    return Repetition(c, ratio, slope, amplitude, power, amplitude ** (-1.0 / power))


def additive_in_size(task: Task, init: Init, cut: Any, order: Order = "zeroth") -> Values:
    """``(L(t, ∞) + L(∞, D))/L(t, D)`` at S = ∞: how far a sum of the two laws overstates the loss.

    ``L(t, D) ∝ ∫_y^∞ x^−δ E dx + E(0) y^{1−δ}/(1−δ)`` with ``y = k t D^−α``, ``k = Zψ(1+Λ²)``, of
    which the two laws are the limits y → 0 and y → ∞.

    Args:
        task: the data law, as of `repetition`.
        init: where linear attention starts.
        cut: y > 0, numbers of any shape.
        order: "zeroth", "first" or "exact".
    """
    y = validation.real("cut", cut)
    validation.within("cut", y, 0.0, 1e100, open_low=True)
    task_of = learning(task, init, order)
    frozen = task_of.initial * y ** (1.0 - task_of.delta) / (1.0 - task_of.delta)
    left = np.array([task_of.mellin(float(low)) for low in y.ravel()]).reshape(y.shape)
    return (task_of.mellin() + frozen) / (left + frozen)
