"""The Mellin integral behind the amplitudes, for tasks that differ in their weight only."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...numerics.quadrature import Antiderivative
from ...numerics.streaming import in_blocks
from ..start import Init
from ..task import Task
from ..theory import Order, kernel_of, rest_square, rows_at, shared_flow

_CELLS = 4000
_BLOCK = 4096  # times read at once


@dataclass(frozen=True)
class Shape:
    """E(x) = (f − Λ)² of tasks that share everything, as a function of x = a t.

    Where the tasks cannot be learned, E is what of it can: without Λ².

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


def one_task(task: Task, init: Init, order: Order, index: int) -> Callable[[Any], np.ndarray]:
    """``(f − Λ)²`` of task s less what is left for ever, as a function of times p t."""
    rows = rows_at(task, init, np.array([float(index)]))
    kernel = kernel_of(order, shared_flow(task, init, order))
    rest = float(rest_square(rows.start, order)[0])

    def square(time: Any) -> np.ndarray:
        with np.errstate(all="ignore"):
            block = min(_BLOCK, len(time))
            left = in_blocks(lambda t: kernel(rows.start, t[None, :])[0], time, block=block)
        # Of a rest that stays only what is above round-off can be told.
        above = left**2 - rest
        return np.where(above > 1e-13 * rest, above, 0.0)

    return square


def shape_of(task: Task, init: Init, order: Order) -> Shape:
    """E(x) of a task whose rows share everything."""
    square = one_task(task, init, order, 1)
    pace = float(task.context) * (1.0 + float(task.strength) ** 2)
    grid = np.geomspace(1e-40, 1e290, _CELLS)
    values = square(grid / pace)
    initial = float(square(np.zeros(1))[0])
    power = 1.0 - 1.0 / float(task.alpha)
    weight = values * grid**power
    alive = np.flatnonzero(weight > 1e-18 * weight.max())
    moved = np.flatnonzero(np.abs(values - initial) > 1e-13 * initial)
    low, high = 1.0, math.e  # for tasks that start at a saddle: there is nothing to integrate
    if moved.size:
        low = float(grid[max(moved[0] - 1, 0)])
        high = float(grid[min(alive[-1] + 1, len(grid) - 1)])
    weighted = Antiderivative(
        lambda y: np.exp(power * y) * square(np.exp(y) / pace),
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
