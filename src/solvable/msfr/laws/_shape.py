"""The Mellin integral behind the amplitudes, for tasks that differ in their weight only."""

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...numerics.quadrature import Antiderivative
from ..start import Init
from ..task import Task
from ..theory import Order
from ..theory._loss import initial_residual, kernel_of, starts


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
            x = np.asarray(x, float)
            flat = self.initial * np.minimum(x, self.low) ** power / power
            return flat + self.weighted(np.log(np.clip(x, self.low, self.high)))

        return upto(high) - upto(low)

    def loss(self, t: np.ndarray, integral: np.ndarray) -> np.ndarray:
        """``(Z/2α)(kt)^{1/α−1}`` times a Mellin integral."""
        front = self.normaliser / (2.0 * self.alpha)
        return front * (self.rate * t) ** (1.0 / self.alpha - 1.0) * integral


def shape_of(task: Task, init: Init, order: Order) -> Shape:
    """E(x) of a task whose rows share everything."""
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
    return Shape(
        initial=initial,
        low=low,
        high=high,
        weighted=weighted,
        rate=float(task.normaliser * pace),
        alpha=float(task.alpha),
        normaliser=float(task.normaliser),
    )
