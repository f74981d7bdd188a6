"""The Mellin integral behind the amplitudes, for tasks that differ in their weight only."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...numerics.quadrature import Antiderivative
from ..start import Init
from ..task import Task
from ..theory import Order
from ..theory._exact import Resampled
from ..theory._loss import initial_residual, kernel_of, shared_flow, starts
from ..theory._modes import Start

_CELLS = 4000


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


@partial(jax.jit, static_argnames="order")
def _squares(
    start: Start, time: Float[Array, " n"], order: Order, flow: Resampled | None
) -> Float[Array, " n"]:
    """(f − Λ)² of one task at data-weighted times p t."""
    return kernel_of(order, flow)(start, time[None, :])[0] ** 2


def shape_of(task: Task, init: Init, order: Order) -> Shape:
    """E(x) of a task whose rows share everything."""
    start = jax.tree.map(lambda x: x[:1], starts(task, init))
    flow = shared_flow(task, init, order)
    pace = (start.context * start.squared_norm)[0]
    initial = float(initial_residual(start, order)[0] ** 2)
    grid = np.geomspace(1e-40, 1e290, _CELLS * 16)  # as many as below: one compilation
    values = np.asarray(_squares(start, jnp.asarray(grid) / pace, order, flow))
    power = 1.0 - 1.0 / float(task.alpha)
    weight = values * grid**power
    alive = np.flatnonzero(weight > 1e-18 * weight.max())
    moved = np.flatnonzero(np.abs(values - initial) > 1e-13 * initial)
    low = float(grid[max(moved[0] - 1, 0)])
    high = float(grid[min(alive[-1] + 1, len(grid) - 1)])
    weighted = Antiderivative(
        lambda y: jnp.exp(power * y) * _squares(start, jnp.exp(y) / pace, order, flow),
        math.log(low),
        math.log(high),
        _CELLS,
    )
    return Shape(
        initial=initial,
        low=low,
        high=high,
        weighted=weighted,
        rate=float(task.normaliser * pace),
        alpha=float(task.alpha),
        normaliser=float(task.normaliser),
    )
