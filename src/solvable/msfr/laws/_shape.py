"""The Mellin integral behind the amplitudes, for tasks that differ in their weight only."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from ...compiling import jit, stage
from ...numerics.quadrature import Antiderivative
from ...numerics.streaming import in_blocks
from ..start import Init
from ..task import Task
from ..theory import (
    Order,
    Resampled,
    Start,
    kernel_of,
    loss,
    read,
    shared_flow,
    shares_everything,
    starts,
)

_CELLS = 4000
_BLOCK = 4096  # times read at once
_LAST = 1e290


@dataclass(frozen=True)
class Shape:
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
            x = np.atleast_1d(np.asarray(x, float))
            flat = self.initial * np.minimum(x, self.low) ** power / power
            return flat + self.weighted(np.log(np.clip(x, self.low, self.high)))

        return upto(high) - upto(low)

    def loss(self, t: np.ndarray, integral: np.ndarray) -> np.ndarray:
        """``(Z/2α)(kt)^{1/α−1}`` times a Mellin integral."""
        front = self.normaliser / (2.0 * self.alpha)
        return front * (self.rate * t) ** (1.0 / self.alpha - 1.0) * integral


@jit(static_argnames="order")
def _moving(
    start: Start, time: Float[Array, " n"], order: Order, flow: Resampled | None
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    kernel = kernel_of(order, flow)
    return jax.jvp(lambda time: kernel(start, time[None, :])[0], (time,), (time,))


def residuals(
    task: Task, init: Init, order: Order, row: int
) -> tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]:
    """Of one task, as functions of data-weighted times p t: f − Λ; and with it t df/dt.

    The second gives both on a last axis.
    """
    place = np.arange(task.num_tasks)[row]
    start = jax.tree.map(lambda x: stage(np.asarray(x)[[place]]), starts(task, init))
    flow = shared_flow(task, init, order)

    def block(time: np.ndarray) -> np.ndarray:
        return np.stack([np.asarray(x) for x in _moving(start, stage(time), order, flow)], axis=1)

    def both(time: np.ndarray) -> np.ndarray:
        found = in_blocks(block, time.ravel(), block=_BLOCK)
        return found.reshape(*time.shape, 2)

    if flow is not None:
        return partial(read, flow), both
    return lambda time: both(time)[..., 0], both


def saddle(task: Task, init: Init, order: Order) -> float | None:
    """What is left of the loss for ever where tasks end at a saddle; None if they do not."""
    times = np.asarray([0.0, _LAST])
    if shares_everything(task, init):
        start, limit = 0.5 * residuals(task, init, order, 0)[0](times) ** 2
    else:
        start, limit = np.asarray(loss(task, init, times, order))
    return float(limit) if limit > 1e-12 * start else None


def shape_of(task: Task, init: Init, order: Order) -> Shape:
    """E(x) of a task whose rows share everything."""
    left = residuals(task, init, order, 0)[0]
    pace = float(task.context) * (1.0 + float(task.strength) ** 2)
    grid = np.geomspace(1e-40, 1e290, _CELLS * 16)
    values = left(grid / pace) ** 2
    initial = float(left(np.zeros(1))[0] ** 2)
    power = 1.0 - 1.0 / float(task.alpha)
    weight = values * grid**power
    alive = np.flatnonzero(weight > 1e-18 * weight.max())
    moved = np.flatnonzero(np.abs(values - initial) > 1e-13 * initial)
    low = float(grid[max(moved[0] - 1, 0)])
    high = float(grid[min(alive[-1] + 1, len(grid) - 1)])
    weighted = Antiderivative(
        lambda y: np.exp(power * y) * left(np.exp(y) / pace) ** 2,
        math.log(low),
        math.log(high),
        _CELLS,
    )
    normaliser = float(task.normaliser)
    return Shape(
        initial=initial,
        low=low,
        high=high,
        weighted=weighted,
        rate=normaliser * pace,
        alpha=float(task.alpha),
        normaliser=normaliser,
    )
