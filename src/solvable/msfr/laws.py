"""Scaling laws of linear attention: exponents, amplitudes, windows, and the compute frontier.

Exponents are those of the paper's two tables in their corrected form. Amplitudes carry no fitted
constant: where tasks share context, strength and init, the loss is a function of ``a_s t`` alone and
the sum over tasks a Mellin integral of it. Every law reports the window in which the finite-size
loss really follows it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import validation
from ..numerics.quadrature import Antiderivative
from ..numerics.streaming import sum_rows
from .start import Init
from .task import Task
from .theory import ORDERS, Order
from .theory._loss import (
    initial_residual,
    joint_loss,
    kernel_of,
    shares_everything,
    starts,
)

Regime = Literal["strong", "weak"]
Resource = Literal["time", "size", "data", "compute"]
_PER_DECADE = 12
_NEARBY = 10.0**0.1


@dataclass(frozen=True)
class Exponents:
    """Exponents of the loss in each resource (Tables 1 and 2, corrected).

    Attributes:
        size: ``L ∝ D^-(α+2γ−1)``.
        data: ``L ∝ N^-(α+2γ−1)/α``.
        time: ``L ∝ t^-(α+2γ−1)/(α+β+3γ)`` while the tasks being learned have Λ_s ≫ 1 ("strong"),
            ``t^-(α+2γ−1)/(α+β+γ)`` once they have Λ_s ≪ 1 ("weak").
        compute: ``L ∝ C^-(time·size)/(time+size)`` at the optimal split of C = D t.
        optimal_size: ``D* ∝ C^(time/(time+size))``.
        optimal_time: ``t* ∝ C^(size/(time+size))``.
    """

    size: float
    data: float
    time: float
    compute: float
    optimal_size: float
    optimal_time: float


def exponents(
    alpha: float, beta: float = 0.0, gamma: float = 0.0, regime: Regime = "strong"
) -> Exponents:
    """The exponents of Tables 1 and 2, corrected.

    Args:
        alpha: exponent of the task law.
        beta: decay of the context lengths.
        gamma: decay of the strengths.
        regime: whether the tasks being learned have Λ_s ≫ 1 ("strong") or ≪ 1 ("weak").

    >>> round(exponents(1.8).time, 4), round(exponents(1.8).compute, 4)
    (0.4444, 0.2857)
    """
    for name, value, low in (("alpha", alpha, 1.0), ("beta", beta, 0.0), ("gamma", gamma, 0.0)):
        number = validation.floating(name, value)
        validation.shaped(name, number, ())
        validation.within(name, number, low, open_low=name == "alpha")
    validation.one_of("regime", regime, ("strong", "weak"))
    size = alpha + 2.0 * gamma - 1.0
    time = size / (alpha + beta + (3.0 if regime == "strong" else 1.0) * gamma)
    return Exponents(
        size=size,
        data=size / alpha,
        time=time,
        compute=time * size / (time + size),
        optimal_size=time / (time + size),
        optimal_time=size / (time + size),
    )


@dataclass(frozen=True)
class Law:
    """One power law ``L ≈ amplitude · x^-exponent`` and where it holds.

    Attributes:
        resource: what x is: "time", "size", "data" or "compute".
        exponent: of the asymptotic law.
        amplitude: its exact amplitude; None where tasks do not share context, strength and init.
        status: "ok", or why there is no such law (tasks at a saddle never reach their target).
        regime: "strong" or "weak", see `exponents`.
    """

    resource: Resource
    exponent: float
    amplitude: float | None
    status: str
    regime: Regime
    _curve: Callable[[np.ndarray], np.ndarray] = field(repr=False)
    _local: Callable[[np.ndarray], np.ndarray] = field(repr=False)
    _grid: Callable[[], np.ndarray] = field(repr=False)
    _finite: Callable[[np.ndarray], np.ndarray] | None = field(default=None, repr=False)

    def __call__(self, x: Any) -> np.ndarray:
        """The pure power law ``amplitude · x^-exponent``."""
        if self.amplitude is None:
            raise ValueError("this law has no amplitude: its tasks do not share everything")
        return self.amplitude * np.asarray(x, float) ** -self.exponent

    def loss(self, x: Any) -> np.ndarray:
        """The finite-size loss itself, at x = t, D, N or C (the other resources unlimited)."""
        return self._curve(np.atleast_1d(np.asarray(x, float)))

    def finite(self, x: Any) -> np.ndarray:
        """The law at finite S: the Mellin integral cut off at the first and the last task."""
        if self._finite is None:
            raise ValueError(f"the {self.resource} law of these tasks has no finite-size form")
        return self._finite(np.atleast_1d(np.asarray(x, float)))

    def local_exponent(self, x: Any) -> np.ndarray:
        """``−d log L / d log x`` of the finite-size loss."""
        return self._local(np.atleast_1d(np.asarray(x, float)))

    def window(self, tolerance: float = 0.05) -> tuple[float, float]:
        """The longest stretch of x in which the local exponent is within `tolerance` of the law's.

        Args:
            tolerance: relative.

        Returns:
            (low, high). Where the law is seen nowhere, low = high, the point of closest approach.
        """
        value = validation.floating("tolerance", tolerance)
        validation.shaped("tolerance", value, ())
        validation.within("tolerance", value, 0.0, 1.0, open_low=True)
        x = self._grid()
        return _longest_window(x, self._local, self.exponent, float(tolerance))

    def decades(self, tolerance: float = 0.05) -> float:
        """How many decades the window spans."""
        low, high = self.window(tolerance)
        return math.log10(high / low)


def _longest_window(
    x: np.ndarray, local: Callable[[np.ndarray], np.ndarray], exponent: float, tolerance: float
) -> tuple[float, float]:
    """Runs of grid points inside the tolerance, their ends refined on a second grid."""
    miss = np.abs(local(x) - exponent) - tolerance * abs(exponent)
    inside = miss <= 0.0
    if not inside.any():
        best = float(x[np.nanargmin(miss)])
        return best, best
    edges = np.flatnonzero(np.diff(np.concatenate([[False], inside, [False]])))
    runs = edges.reshape(-1, 2)  # [first inside, first outside)
    first, after = max(runs, key=lambda run: x[run[1] - 1] / x[run[0]])

    def crossing(outside: int, within: int) -> float:
        if not 0 <= outside < len(x):
            return float(x[within])
        ends = x[outside], x[within]
        for _ in range(2):
            fine = np.geomspace(*ends, 17)
            good = np.abs(local(fine) - exponent) <= tolerance * abs(exponent)
            k = int(np.argmax(good)) if good.any() else 16
            ends = fine[max(k - 1, 0)], fine[k]
        return float(ends[1])

    return crossing(first - 1, first), crossing(after, after - 1)


def regime_of(task: Task) -> Regime:
    """Which time law of Table 2 rules: over more of the tasks (in log s) |Λ_s| > 1 or < 1."""
    sizes = np.abs(np.asarray(task.strengths))
    s = np.arange(1, task.num_tasks + 1)
    strong = float(np.sum((sizes > 1.0) / s))
    return "strong" if strong > 0.5 * float(np.sum(1.0 / s)) else "weak"


def _check(task: Any, init: Any, order: str) -> None:
    validation.needs_double("a scaling law")
    validation.one_of("order", order, ORDERS)
    if not isinstance(task, Task) or not isinstance(init, Init):
        raise ValueError("a law needs a msfr.Task and a msfr.Init")
    if task.context.ndim or task.strength.ndim:
        raise ValueError("context and strength must be single numbers for a law, not arrays")


def _exponents_of(task: Task, regime: Regime | None) -> tuple[Exponents, Regime]:
    regime = regime_of(task) if regime is None else regime
    return exponents(float(task.alpha), float(task.beta), float(task.gamma), regime), regime


@dataclass(frozen=True)
class _Shape:
    """E(x) = (f − Λ)² of tasks that share everything, as a function of x = a t.

    Attributes:
        initial: E(0).
        low, high: below `low` E is constant, beyond `high` nothing is left to integrate.
        weighted: the antiderivative of ``x^{−1/α} E(x) dx`` in log x, from `low` on.
        rate: k = Zψ(1 + Λ²), so that x = k t s^-α.
        alpha: exponent of the task law.
        normaliser: Z.
    """

    initial: float
    low: float
    high: float
    weighted: Antiderivative
    rate: float
    alpha: float
    normaliser: float

    def mellin(self, low: Any = 0.0, high: Any = math.inf) -> np.ndarray:
        """``∫ x^{−1/α} E(x) dx`` from `low` to `high`."""
        power = 1.0 - 1.0 / self.alpha

        def upto(x: Any) -> np.ndarray:
            x = np.asarray(x, float)
            flat = self.initial * np.minimum(x, self.low) ** power / power
            return flat + self.weighted(np.log(np.clip(x, self.low, self.high)))

        return upto(high) - upto(low)

    def loss(self, t: np.ndarray, integral: np.ndarray) -> np.ndarray:
        """``(Z/2α)(kt)^{1/α−1}`` times a Mellin integral."""
        front = self.normaliser / (2.0 * self.alpha)
        return front * (self.rate * t) ** (1.0 / self.alpha - 1.0) * integral


def _shape(task: Task, init: Init, order: Order) -> _Shape:
    start = jax.tree.map(lambda x: x[:1], starts(task, init))
    kernel = kernel_of(start, order, shared=True)
    pace = (start.context * start.squared_norm)[0]

    @jax.jit
    def squares(x: Array) -> Array:
        return kernel(start, (x / pace).reshape(1, -1)).reshape(x.shape) ** 2

    initial = float(initial_residual(start, order)[0] ** 2)
    grid = np.geomspace(1e-40, 1e290, 4000)
    values = np.asarray(squares(jnp.asarray(grid)))
    power = 1.0 - 1.0 / float(task.alpha)
    weight = values * grid**power
    alive = np.flatnonzero(weight > 1e-18 * weight.max())
    moved = np.flatnonzero(np.abs(values - initial) > 1e-13 * initial)
    low = float(grid[max(moved[0] - 1, 0)])
    high = float(grid[min(alive[-1] + 1, len(grid) - 1)])
    weighted = Antiderivative(
        lambda y: jnp.exp(power * y) * squares(jnp.exp(y)), math.log(low), math.log(high)
    )
    return _Shape(
        initial=initial,
        low=low,
        high=high,
        weighted=weighted,
        rate=float(task.normaliser * pace),
        alpha=float(task.alpha),
        normaliser=float(task.normaliser),
    )


def _limit(task: Task, init: Init, order: Order) -> float:
    """L at t → ∞: zero unless some tasks end at a saddle."""
    shared = shares_everything(task, init)
    t = jnp.asarray([1e300])
    return float(joint_loss(task, init, t, None, None, order, shared)[0])


def _curve_and_slope(
    loss: Callable[[Array], Array],
) -> tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]:
    """A loss curve and its local exponent, from a function that treats its entries one by one."""

    def curve(x: np.ndarray) -> np.ndarray:
        return np.asarray(loss(jnp.asarray(x)))

    def local(x: np.ndarray) -> np.ndarray:
        point = jnp.asarray(x)
        value, change = jax.jvp(loss, (point,), (point,))
        return -np.asarray(change / value)

    return curve, local


def _time_range(task: Task, init: Init, order: Order) -> np.ndarray:
    """Times from the first task's first move to the last task's end."""
    start, weights = starts(task, init), task.weights
    ends = jax.tree.map(lambda x: x[jnp.asarray([0, -1])], start)
    grid = np.geomspace(1e-40, 1e290, 2000)
    kernel = kernel_of(ends, order, shared=False)
    left = np.abs(np.asarray(kernel(ends, jnp.broadcast_to(jnp.asarray(grid), (2, len(grid))))))
    begun = left[0] < (1.0 - 1e-3) * left[0, 0]
    done = left[1] < 1e-3 * left[1, 0]
    low = grid[np.argmax(begun)] / float(weights[0])
    high = grid[np.argmax(done) if done.any() else -1] / float(weights[-1])
    count = int(_PER_DECADE * math.log10(high / low)) + 2
    return np.geomspace(low, high, count)


def time_law(task: Task, init: Init, order: Order = "zeroth", regime: Regime | None = None) -> Law:
    """The law of the loss in training time, at unlimited data and size.

    ``L(t) ≈ (Z/2α)(kt)^{1/α−1} ∫ x^{−1/α} E(x) dx`` with ``k = Zψ(1+Λ²)``: over (0, ∞) it is the power
    law, over ``(kt(S+½)^−α, kt(½)^−α)`` the finite-size form `Law.finite`.

    Args:
        task: the data law, with single numbers for context and strength.
        init: where linear attention starts.
        order: which solution E(x) = (f − Λ)² is taken from.
        regime: which of the two time laws; by default the one that rules over more tasks.

    Reference: Tables 1 and 2, corrected; amplitude in place of eqs. (76), (83).
    """
    _check(task, init, order)
    table, regime = _exponents_of(task, regime)
    shared = shares_everything(task, init)
    curve, local = _curve_and_slope(partial(_loss_in_time, task, init, order=order, shared=shared))
    limit = _limit(task, init, order)
    base = {
        "resource": "time",
        "regime": regime,
        "_curve": curve,
        "_local": local,
        "_grid": partial(_time_range, task, init, order),
    }
    if limit > 1e-12 * float(curve(np.asarray([0.0]))[0]):
        return Law(exponent=0.0, amplitude=limit, status="saddle", **base)
    if not shared:
        return Law(exponent=table.time, amplitude=None, status="ok", **base)
    shape = _shape(task, init, order)

    def finite(t: np.ndarray) -> np.ndarray:
        x = shape.rate * t
        last = (task.num_tasks + 0.5) ** -shape.alpha
        return shape.loss(t, shape.mellin(x * last, x * 0.5**-shape.alpha))

    amplitude = float(shape.loss(np.asarray(1.0), shape.mellin()))
    return Law(exponent=table.time, amplitude=amplitude, status="ok", _finite=finite, **base)


def _loss_in_time(task: Task, init: Init, t: Array, *, order: Order, shared: bool) -> Array:
    return joint_loss(task, init, t, None, None, order, shared)


def _initial_squares(task: Task, init: Init, order: Order) -> Float[Array, " tasks"]:
    return initial_residual(starts(task, init), order) ** 2


def size_law(task: Task, init: Init, order: Order = "zeroth", shift: float = 0.0) -> Law:
    """The law of the loss in model size D, at unlimited time and data: ``L = ½ Σ_{s≥D} p_s e_s²``.

    Args:
        task: the data law, with single numbers for context and strength.
        init: where linear attention starts.
        order: which f_s(0) the unlearned tasks keep.
        shift: the local exponent is taken against ``D − shift``; the tail sum goes like
            ``(D − ½)^{1−α}``, so that ½ shows the law much earlier.

    Reference: Tables 1 and 2.
    """
    _check(task, init, order)
    number = validation.floating("shift", shift)
    validation.within("shift", number, 0.0, 0.9)
    table, regime = _exponents_of(task, None)
    squares = np.asarray(0.5 * task.weights * _initial_squares(task, init, order))
    tail = np.append(np.cumsum(squares[::-1])[::-1], 0.0)  # tail[D − 1] is the loss at D
    sizes = np.arange(1, task.num_tasks, dtype=float)
    slopes = np.log(tail[:-2] / tail[1:-1]) / np.log((sizes + 1.0 - shift) / (sizes - shift))

    def curve(size: np.ndarray) -> np.ndarray:
        return tail[np.clip(np.round(size).astype(int), 1, task.num_tasks + 1) - 1]

    def local(size: np.ndarray) -> np.ndarray:
        return slopes[np.clip(np.round(size).astype(int), 1, len(slopes)) - 1]

    amplitude = None
    if shares_everything(task, init):
        front = 0.5 * float(task.normaliser) * float(_initial_squares(task, init, order)[0])
        amplitude = front / (float(task.alpha) - 1.0)
    return Law(
        resource="size",
        exponent=table.size,
        amplitude=amplitude,
        status="ok",
        regime=regime,
        _curve=curve,
        _local=local,
        _grid=lambda: sizes,
    )


@partial(jax.jit, static_argnames=("order",))
def _loss_in_data(task: Task, init: Init, data: Array, *, order: Order) -> Array:
    squares, weights = _initial_squares(task, init, order), task.weights

    def rows(part: tuple[Array, Array]) -> Array:
        weight, square = part
        missed = jnp.exp(jnp.log1p(-jnp.minimum(weight, 1.0 - 1e-16))[:, None] * data[None, :])
        return (0.5 * weight * square)[:, None] * missed

    piece = max(1, (1 << 18) // data.shape[0])
    return sum_rows(rows, (weights, squares), piece=piece)


def data_law(task: Task, init: Init, order: Order = "zeroth") -> Law:
    """The law of the loss in data N, at unlimited time and size: ``L = ½ Σ_s p_s (1−p_s)^N e_s²``.

    Its amplitude for tasks that share everything is ``(Z e²/2α) Γ(1−1/α) Z^{1/α−1}``.

    Args:
        task: the data law, with single numbers for context and strength.
        init: where linear attention starts.
        order: which f_s(0) the unseen tasks keep.

    Reference: eq. (66), Tables 1 and 2; (105) has its exponent misprinted.
    """
    _check(task, init, order)
    table, regime = _exponents_of(task, None)
    curve, local = _curve_and_slope(partial(_loss_in_data, task, init, order=order))
    amplitude = None
    if shares_everything(task, init):
        alpha, z = float(task.alpha), float(task.normaliser)
        square = float(_initial_squares(task, init, order)[0])
        amplitude = z * square / (2.0 * alpha) * math.gamma(1.0 - 1.0 / alpha)
        amplitude *= z ** (1.0 / alpha - 1.0)
    last = 10.0 / float(task.weights[-1])
    grid = np.geomspace(1.0, last, int(_PER_DECADE * math.log10(last)) + 2)
    return Law(
        resource="data",
        exponent=table.data,
        amplitude=amplitude,
        status="ok",
        regime=regime,
        _curve=curve,
        _local=local,
        _grid=lambda: grid,
    )


@dataclass(frozen=True)
class Frontier:
    """The best split of compute C = D·t, from the exact loss.

    Attributes:
        compute: C.
        size: D*, whole numbers.
        time: t* = C/D*.
        loss: L(t*, D*).
        exponent: of the asymptotic law ``L ∝ C^-exponent``.
        local_exponent: ``−d log L*/d log C`` around each C, over a fifth of a decade.
        size_exponent, time_exponent: ``D* ∝ C^…`` and ``t* ∝ C^…`` of the asymptotic law.
        amplitude: of the asymptotic law; None where tasks do not share everything.
    """

    compute: np.ndarray
    size: np.ndarray
    time: np.ndarray
    loss: np.ndarray
    exponent: float
    local_exponent: np.ndarray
    size_exponent: float
    time_exponent: float
    amplitude: float | None


def _best_sizes(
    loss: Callable[[Array, Array], Array], compute: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """The whole D in 1 … most that minimises L(C/D, D), and that minimum, for each C.

    A coarse geometric grid brackets the minimum (the loss is flat where nothing is learned yet),
    then each round divides the bracket by 4. Every call has the same shape, so one compilation
    serves.
    """
    columns = 9
    rows = np.arange(len(compute))

    def at(sizes: np.ndarray) -> np.ndarray:  # (computes, columns)
        t = compute[:, None] / sizes
        flat = loss(jnp.asarray(t.ravel()), jnp.asarray(sizes.ravel().astype(float)))
        return np.asarray(flat).reshape(sizes.shape)

    coarse = np.round(np.geomspace(1, most, 5 * columns)).astype(int).reshape(5, columns)
    values = np.concatenate(
        [at(np.broadcast_to(part, (len(compute), columns))) for part in coarse], axis=1
    )
    coarse = coarse.ravel()
    k = np.argmin(values, axis=1)
    low, high = coarse[np.maximum(k - 1, 0)], coarse[np.minimum(k + 1, len(coarse) - 1)]
    while True:
        share = np.arange(columns) / (columns - 1)
        sizes = np.round(low[:, None] + (high - low)[:, None] * share).astype(int)
        values = at(sizes)
        k = np.argmin(values, axis=1)
        if np.all(high - low < columns):
            return sizes[rows, k], values[rows, k]
        low, high = sizes[rows, np.maximum(k - 1, 0)], sizes[rows, np.minimum(k + 1, columns - 1)]


def frontier(task: Task, init: Init, compute: Any, order: Order = "exact") -> Frontier:
    """The compute-optimal frontier: the exact L(t, D) minimised over whole D at D·t = C.

    Args:
        task: the data law.
        init: where linear attention starts.
        compute: C, one axis of positive numbers.
        order: which solution the loss is taken from.

    Returns:
        The frontier, with the exponents of the asymptotic law beside it.
    """
    _check(task, init, order)
    budget = validation.floating("compute", compute)
    if budget.ndim > 1:
        raise ValueError(f"compute must be one axis of numbers, not of shape {budget.shape}")
    validation.within("compute", budget, 0.0, 1e200, open_low=True)
    budget = np.atleast_1d(np.asarray(budget))
    shared = shares_everything(task, init)

    def loss(t: Array, size: Array) -> Array:
        return joint_loss(task, init, t, size, None, order, shared)

    # Whole D make the frontier's slope jump at every change of D: the local exponent is its mean
    # over a fifth of a decade.
    wide = np.concatenate([budget / _NEARBY, budget, budget * _NEARBY])
    sizes, losses = _best_sizes(loss, wide, task.num_tasks + 1)
    below, value, above = losses.reshape(3, -1)
    size = sizes.reshape(3, -1)[1]
    table, _ = _exponents_of(task, None)
    return Frontier(
        compute=budget,
        size=size,
        time=budget / size,
        loss=value,
        exponent=table.compute,
        local_exponent=np.log(below / above) / (2.0 * math.log(_NEARBY)),
        size_exponent=table.optimal_size,
        time_exponent=table.optimal_time,
        amplitude=_compute_amplitude(task, init, order) if shared else None,
    )


def _compute_amplitude(task: Task, init: Init, order: Order) -> float:
    """The asymptotic frontier's amplitude: the scaling form of L(t, D) minimised over its ratio.

    With ``ξ = k t D^−α`` the loss is ``(Z/2α)(kt)^{1/α−1} m(ξ)``, ``m(ξ) = ∫_ξ^∞ x^{−1/α}E dx +
    E(0) ξ^{1−1/α}/(1−1/α)``, and ``t = (ξ C^α/k)^{1/(1+α)}``.
    """
    shape = _shape(task, init, order)
    alpha, power = shape.alpha, 1.0 - 1.0 / shape.alpha

    def at(log_ratio: np.ndarray) -> np.ndarray:
        ratio = np.exp(log_ratio)
        t = (ratio / shape.rate) ** (1.0 / (1.0 + alpha))
        rest = shape.initial * ratio**power / power
        return shape.loss(t, shape.mellin(ratio, math.inf) + rest)

    low, high = math.log(shape.low), math.log(shape.high)
    for _ in range(6):
        grid = np.linspace(low, high, 65)
        k = int(np.argmin(at(grid)))
        low, high = grid[max(k - 1, 0)], grid[min(k + 1, 64)]
    return float(at(np.asarray([0.5 * (low + high)]))[0])


def compute_law(task: Task, init: Init, order: Order = "zeroth") -> Law:
    """The law of the loss along the compute-optimal frontier, C = D·t.

    Args:
        task: the data law, with single numbers for context and strength.
        init: where linear attention starts.
        order: which solution the loss is taken from.

    Reference: Tables 1 and 2; the printed exponents of t* and D* are swapped.
    """
    _check(task, init, order)
    table, regime = _exponents_of(task, None)
    shared = shares_everything(task, init)

    def grid() -> np.ndarray:
        t = _time_range(task, init, order)
        low, high = 2.0 * t[0], task.num_tasks * t[-1]
        return np.geomspace(low, high, int(0.5 * _PER_DECADE * math.log10(high / low)) + 2)

    return Law(
        resource="compute",
        exponent=table.compute,
        amplitude=_compute_amplitude(task, init, order) if shared else None,
        status="ok",
        regime=regime,
        _curve=lambda x: frontier(task, init, x, order).loss,
        _local=lambda x: frontier(task, init, x, order).local_exponent,
        _grid=grid,
    )
