"""The compute-optimal frontier, from the exact loss."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import numpy as np

from ... import validation
from ...numerics.counting import TailSum, gauss_of_counting
from ...numerics.streaming import in_blocks
from ..start import Init, SoftmaxInit
from ..task import Task
from ..theory import (
    ORDERS,
    Order,
    Rows,
    edges_of,
    host_rows,
    host_sum,
    kernel_of,
    rest_square,
    rows_at,
    rows_of,
    shared_flow,
    shares_everything,
    softmax_pairs,
)
from ._exponents import Exponents, Regime, exponents_of
from ._law import PER_DECADE, Law, check_law, decades, excess, worked_out
from ._resources import status_of, time_range
from ._shape import shape_of
from ._softmax import Modes, softmax_compute_amplitude


@dataclass(frozen=True)
class Frontier:
    """The best split of compute C = D·t, from the exact loss.

    Attributes:
        compute: C.
        size: D*, whole numbers.
        time: t* = C/D*.
        loss: L(t*, D*).
        exponent: of the asymptotic law ``L − limit ∝ C^-exponent``.
        local_exponent: ``−d log(L* − limit)/d log C`` at each C.
        size_exponent, time_exponent: ``D* ∝ C^…`` and ``t* ∝ C^…`` of the asymptotic law.
        amplitude: of the asymptotic law; None where tasks do not share everything.
        limit: what is left of the loss for ever, of tasks that cannot be learned.
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
    limit: float


_COLUMNS = 9  # sizes tried at once for a budget
_CLOSE = 1e-7  # of D: closer to the best one the loss is flat to round-off
_MOST = 1e200  # compute
_BLOCK = 256  # pairs worked on at once

Pairs = Callable[[np.ndarray, np.ndarray], np.ndarray]


def losses_of(task: Task, init: Init, order: Order) -> Pairs:
    """L(t, D) less its limit at pairs of t and D, of any shape: task by task, so that it is kept
    where the limit is most of it.

    Blocks of tasks below that of D are learned, in that of D those below D, by a rule of their own.
    """
    rows, flow, edges = rows_of(task, init), shared_flow(task, init, order), edges_of(task, init)
    kernel = kernel_of(order, flow)

    def unlearned(index: np.ndarray) -> np.ndarray:
        at = rows_at(task, init, index)
        return 0.5 * at.weight * excess(at, order)

    tail = TailSum(edges, unlearned)

    def some(t: np.ndarray, size: np.ndarray) -> np.ndarray:
        begin = edges[tail.block(size)]

        def learned(part: Rows) -> np.ndarray:
            left = kernel(part.start, part.weight[:, None] * t[None, :]) ** 2
            left = left - rest_square(part.start, order)[:, None]
            inside = part.index[:, None] < begin[None, :]
            return np.where(inside, 0.5 * part.share[:, None] * left, 0.0)

        found = host_sum(learned, rows, len(t)) + tail(size)
        x, w = gauss_of_counting(size - begin)
        used = w > 0.0
        if used.any():
            at = rows_at(task, init, (begin[:, None] + x)[used])
            time = at.weight * np.broadcast_to(t[:, None], x.shape)[used]
            left = host_rows(
                lambda part: (
                    kernel(part.start, part.weight[:, None])[:, 0] ** 2
                    - rest_square(part.start, order)
                ),
                eqx.tree_at(lambda rows: rows.weight, at, time),
                1,
            )
            terms = np.zeros(x.shape)
            terms[used] = 0.5 * at.weight * left
            found = found + np.sum(w * terms, axis=1)
        return found

    def losses(t: np.ndarray, size: np.ndarray) -> np.ndarray:
        flat = in_blocks(some, t.ravel(), size.ravel(), block=min(_BLOCK, t.size))
        return flat.reshape(t.shape)

    return losses


def _best_sizes(loss: Pairs, compute: np.ndarray, most: int) -> np.ndarray:
    """The whole D in 1 … most that minimises L(C/D, D), for each C.

    A coarse geometric grid brackets the minimum (the loss is flat where nothing is learned yet),
    then each round divides the bracket by 4.
    """
    rows = np.arange(len(compute))

    def at(sizes: np.ndarray) -> np.ndarray:  # (budgets, columns)
        return loss(compute[:, None] / sizes, sizes)

    coarse = np.round(np.geomspace(1, most, 5 * _COLUMNS)).astype(int)
    values = at(np.broadcast_to(coarse, (len(compute), len(coarse))))
    k = np.argmin(values, axis=1)
    low, high = coarse[np.maximum(k - 1, 0)], coarse[np.minimum(k + 1, len(coarse) - 1)]
    while True:
        share = np.arange(_COLUMNS) / (_COLUMNS - 1)
        sizes = np.round(low[:, None] + (high - low)[:, None] * share).astype(int)
        k = np.argmin(at(sizes), axis=1)
        if np.all(high - low < np.maximum(_COLUMNS, _CLOSE * low)):
            return sizes[rows, k]
        low, high = sizes[rows, np.maximum(k - 1, 0)], sizes[rows, np.minimum(k + 1, _COLUMNS - 1)]


@worked_out
def frontier(
    task: Task, init: Init | SoftmaxInit, compute: Any, order: Order = "exact"
) -> Frontier:
    """The compute-optimal frontier: the exact L(t, D) minimised over whole D at D·t = C.

    Where every task starts somewhere else (`init` of arrays) the loss may have several minima in D;
    the least of those next to 45 sizes is given.

    Args:
        task: the data law.
        init: where linear attention starts, or `SoftmaxInit`.
        compute: C, one axis of positive numbers.
        order: which solution the loss is taken from.

    Returns:
        The frontier, with the exponents of the asymptotic law beside it.
    """
    limit, table, _, amplitude = _asymptote(task, init, order)
    validation.concrete("compute", compute, why="the best size is searched for")
    budget = validation.floating("compute", compute)
    if budget.ndim > 1 or budget.size == 0:
        raise ValueError(f"compute must be one axis of numbers, not of shape {budget.shape}")
    validation.within("compute", budget, 0.0, _MOST, open_low=True)
    budget = np.atleast_1d(np.asarray(budget))
    if isinstance(init, SoftmaxInit):
        loss = softmax_pairs(task, init)
    else:
        loss = losses_of(task, init, order)
    size = _best_sizes(loss, budget, task.num_tasks + 1)
    value, slope = _around(loss, budget, size, task.num_tasks + 1)
    return Frontier(
        compute=budget,
        size=size,
        time=budget / size,
        loss=limit + value,
        exponent=table.compute,
        local_exponent=slope,
        size_exponent=table.optimal_size,
        time_exponent=table.optimal_time,
        amplitude=amplitude,
        limit=limit,
    )


def _asymptote(
    task: Task, init: Init | SoftmaxInit, order: Order
) -> tuple[float, Exponents, Regime, float | None]:
    """Limit, exponents, regime and amplitude of the law that the frontier tends to."""
    if isinstance(init, SoftmaxInit):
        validation.one_of("order", order, ORDERS)
        modes = Modes(task, init)
        return 0.0, modes.exponents, modes.regime, softmax_compute_amplitude(modes)
    limit = check_law(task, init, order)
    table, regime = exponents_of(task, None)
    shared = shares_everything(task, init)
    return limit, table, regime, _compute_amplitude(task, init, order) if shared else None


def _around(
    loss: Pairs, compute: np.ndarray, size: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """The loss at the best whole D less its limit, and the local exponent of the frontier in C.

    At the best real D a change of C acts through t alone. Whole D lie up to ½ beside it, which
    would show as jumps, so the exponent is interpolated between D − 1, D, D + 1 to the vertex of
    the parabola through their losses.
    """
    near = np.clip(size[:, None] + np.array([-1, 0, 1]), 1, most)
    # Slopes by central differences: their 1e-9 is far below what an exponent is read to.
    shifts = np.exp(np.array([-1e-4, 0.0, 1e-4]))
    t = compute[:, None, None] / near[:, :, None] * shifts
    sizes = np.broadcast_to(near[:, :, None], t.shape)
    below, value, above = np.moveaxis(loss(t, sizes), -1, 0)
    gone = (below <= 0.0) | (above <= 0.0)  # underflowed: it falls faster than any power
    slope = np.log(np.where(gone, 1.0, below) / np.where(gone, 1.0, above)) / 2e-4
    slope = np.where(gone, np.inf, slope)
    bend = value[:, 0] - 2.0 * value[:, 1] + value[:, 2]
    inner = (near[:, 0] < near[:, 1]) & (near[:, 1] < near[:, 2]) & (bend > 0.0)
    vertex = 0.5 * (value[:, 0] - value[:, 2]) / np.where(inner, bend, 1.0)
    x = np.where(inner, np.clip(vertex, -0.5, 0.5), 0.0)
    finite = np.where(np.isfinite(slope), slope, 0.0)
    weights = np.stack([x * (x - 1.0) / 2.0, 1.0 - x * x, x * (x + 1.0) / 2.0], axis=1)
    local = np.where(np.isfinite(slope).all(axis=1), np.sum(weights * finite, axis=1), np.inf)
    return value[:, 1], local


def _compute_amplitude(task: Task, init: Init, order: Order) -> float:
    """The asymptotic frontier's amplitude: the scaling form of L(t, D) minimised over its ratio.

    With ``ξ = k t D^−α`` the loss is ``(Z/2α)(kt)^{1/α−1} m(ξ)``, ``m(ξ) = ∫_ξ^∞ x^{−1/α}E dx +
    E(0) ξ^{1−1/α}/(1−1/α)``, and ``t = (ξ C^α/k)^{1/(1+α)}``.
    """
    shape = shape_of(task, init, order)
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


@worked_out
def compute_law(task: Task, init: Init | SoftmaxInit, order: Order = "zeroth") -> Law:
    """The law of the loss along the compute-optimal frontier, C = D·t.

    Args:
        task: the data law, with single numbers for context and strength.
        init: where linear attention starts, or `SoftmaxInit`.
        order: which solution the loss is taken from.

    Reference: Tables 1 and 2; the printed exponents of t* and D* are swapped.
    """
    limit, table, regime, amplitude = _asymptote(task, init, order)

    def grid() -> np.ndarray:
        if isinstance(init, SoftmaxInit):
            t = Modes(task, init).times()
        else:
            t = time_range(task, init, order)
        low, high = 2.0 * t[0], min(task.num_tasks * t[-1], _MOST)
        return np.geomspace(low, high, int(0.5 * PER_DECADE * decades(low, high)) + 2)

    return Law(
        resource="compute",
        exponent=table.compute,
        amplitude=amplitude,
        status=status_of(limit),
        regime=regime,
        limit=limit,
        _curve=lambda x: frontier(task, init, x, order).loss,
        _local=lambda x: frontier(task, init, x, order).local_exponent,
        _grid=grid,
    )
