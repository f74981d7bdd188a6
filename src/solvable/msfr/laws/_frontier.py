"""The compute-optimal frontier, from the exact loss."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ...compiling import jit, stage
from ...numerics.streaming import in_blocks
from ..start import Init
from ..task import Task
from ..theory import (
    Order,
    Resampled,
    Rows,
    initial_residual,
    kernel_of,
    read,
    rows_of,
    shared_flow,
    shares_everything,
)
from ._exponents import exponents_of
from ._law import PER_DECADE, Law, check_law, decades, worked_out
from ._resources import time_range
from ._shape import saddle, shape_of


@dataclass(frozen=True)
class Frontier:
    """The best split of compute C = D·t, from the exact loss.

    Attributes:
        compute: C.
        size: D*, whole numbers.
        time: t* = C/D*.
        loss: L(t*, D*).
        exponent: of the asymptotic law ``L ∝ C^-exponent``; 0 where tasks end at a saddle.
        local_exponent: ``−d log L*/d log C`` at each C.
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


_PIECE = 512  # tasks added up at once
_COLUMNS = 9  # sizes tried at once for a budget
_ROWS = 8  # budgets in a call
_FEW = 4096  # tasks whose sum is taken on the host
_MOST = 1e200  # compute

Pairs = Float[Array, "budgets columns"]


@jit(static_argnames="order")
def _losses(rows: Rows, t: Pairs, size: Pairs, order: Order, flow: Resampled | None) -> Pairs:
    """L(t, D) at pairs of t and D.

    `joint_loss` visits every task for every pair; here a row costs as many tasks as its largest
    model learns, and along a frontier nearly all models learn few.
    """
    start, weight = rows.start, rows.weight
    kernel = kernel_of(order, flow)
    unlearned = 0.5 * weight * initial_residual(start, order) ** 2
    tail = jnp.append(jnp.cumsum(unlearned[::-1])[::-1], 0.0)
    room = -weight.shape[0] % _PIECE
    padded = jax.tree.map(
        lambda x: jnp.pad(x, [(0, room)] + [(0, 0)] * (x.ndim - 1), mode="edge"), (start, weight)
    )
    place = jnp.arange(_PIECE)

    def one(row: tuple[Array, Array]) -> Array:
        t, learned = row[0], row[1].astype(place.dtype) - 1

        def add(k: Array, total: Array) -> Array:
            start, weight = jax.tree.map(
                lambda x: jax.lax.dynamic_slice_in_dim(x, k * _PIECE, _PIECE), padded
            )
            left = kernel(start, weight[:, None] * t[None, :])
            inside = (k * _PIECE + place)[:, None] < learned[None, :]
            return total + jnp.sum(jnp.where(inside, 0.5 * weight[:, None] * left**2, 0.0), axis=0)

        pieces = (jnp.max(learned) + _PIECE - 1) // _PIECE
        return jax.lax.fori_loop(0, pieces, add, jnp.zeros_like(t)) + tail[learned]

    return jax.lax.map(one, (t, size))


def _best_sizes(
    loss: Callable[[np.ndarray, np.ndarray], np.ndarray], compute: np.ndarray, most: int
) -> np.ndarray:
    """The whole D in 1 … most that minimises L(C/D, D), for each C.

    A coarse geometric grid brackets the minimum (the loss is flat where nothing is learned yet),
    then each round divides the bracket by 4. Every call has the same shape, so one compilation
    serves.
    """
    rows = np.arange(len(compute))

    def at(sizes: np.ndarray) -> np.ndarray:  # (budgets, columns)
        return loss(compute[:, None] / sizes, sizes)

    coarse = np.round(np.geomspace(1, most, 5 * _COLUMNS)).astype(int).reshape(5, _COLUMNS)
    values = np.concatenate(
        [at(np.broadcast_to(part, (len(compute), _COLUMNS))) for part in coarse], axis=1
    )
    coarse = coarse.ravel()
    k = np.argmin(values, axis=1)
    low, high = coarse[np.maximum(k - 1, 0)], coarse[np.minimum(k + 1, len(coarse) - 1)]
    while True:
        share = np.arange(_COLUMNS) / (_COLUMNS - 1)
        sizes = np.round(low[:, None] + (high - low)[:, None] * share).astype(int)
        k = np.argmin(at(sizes), axis=1)
        if np.all(high - low < _COLUMNS):
            return sizes[rows, k]
        low, high = sizes[rows, np.maximum(k - 1, 0)], sizes[rows, np.minimum(k + 1, _COLUMNS - 1)]


@worked_out
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
    squares = check_law(task, init, order)
    validation.concrete("compute", compute, why="the best size is searched for")
    budget = validation.floating("compute", compute)
    if budget.ndim > 1 or budget.size == 0:
        raise ValueError(f"compute must be one axis of numbers, not of shape {budget.shape}")
    validation.within("compute", budget, 0.0, _MOST, open_low=True)
    budget = np.atleast_1d(np.asarray(budget))
    rows, flow = rows_of(task, init), shared_flow(task, init, order)
    weights = np.asarray(task.weights)
    unlearned = np.cumsum((0.5 * weights * squares)[::-1])[::-1]
    tail = np.append(unlearned, 0.0)

    def few(t: np.ndarray, size: np.ndarray) -> np.ndarray:
        """The same of tasks that share a flow, read without compiling anything for their number."""
        learned = np.arange(size.max() - 1)[None, :, None] < size[:, None, :] - 1
        p = weights[None, : learned.shape[1], None]
        left = read(flow, p * t[:, None, :])
        return np.sum(np.where(learned, 0.5 * p * left**2, 0.0), axis=1) + tail[size - 1]

    def block(t: np.ndarray, size: np.ndarray) -> np.ndarray:
        if flow is not None and task.num_tasks <= _FEW:
            return few(t, size)
        pairs = stage(t), stage(size.astype(float))
        return np.asarray(_losses(rows, *pairs, order, flow))

    def loss(t: np.ndarray, size: np.ndarray) -> np.ndarray:
        return in_blocks(block, t, size, block=_ROWS)

    size = _best_sizes(loss, budget, task.num_tasks + 1)
    value, slope = _around(loss, budget, size, task.num_tasks + 1)
    table, _ = exponents_of(task, None)
    exponent, amplitude, _ = _asymptote(task, init, order)
    return Frontier(
        compute=budget,
        size=size,
        time=budget / size,
        loss=value,
        exponent=exponent,
        local_exponent=slope,
        size_exponent=table.optimal_size,
        time_exponent=table.optimal_time,
        amplitude=amplitude,
    )


def _asymptote(task: Task, init: Init, order: Order) -> tuple[float, float | None, str]:
    """Exponent, amplitude and status of the law that the frontier tends to."""
    limit = saddle(task, init, order)
    if limit is not None:
        return 0.0, limit, "saddle"
    shared = shares_everything(task, init)
    amplitude = _compute_amplitude(task, init, order) if shared else None
    return exponents_of(task, None)[0].compute, amplitude, "ok"


def _around(
    loss: Callable[[np.ndarray, np.ndarray], np.ndarray],
    compute: np.ndarray,
    size: np.ndarray,
    most: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The loss at the best whole D, and the local exponent of the frontier in C.

    At the best real D a change of C acts through t alone. Whole D lie up to ½ beside it, which
    would show as jumps, so the exponent is interpolated between D − 1, D, D + 1 to the vertex of
    the parabola through their losses.
    """
    near = np.clip(size[:, None] + np.array([-1, 0, 1]), 1, most)
    # Slopes by central differences: their 1e-9 is far below what an exponent is read to, and the
    # shape of this call is compiled already.
    shifts = np.exp(np.array([-1e-4, 0.0, 1e-4]))
    t = compute[:, None, None] / near[:, :, None] * shifts
    sizes = np.broadcast_to(near[:, :, None], t.shape)
    flat = (len(compute), _COLUMNS)
    losses = loss(t.reshape(flat), sizes.reshape(flat)).reshape(t.shape)
    below, value, above = np.moveaxis(losses, -1, 0)
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
def compute_law(task: Task, init: Init, order: Order = "zeroth") -> Law:
    """The law of the loss along the compute-optimal frontier, C = D·t.

    Args:
        task: the data law, with single numbers for context and strength.
        init: where linear attention starts.
        order: which solution the loss is taken from.

    Reference: Tables 1 and 2; the printed exponents of t* and D* are swapped.
    """
    check_law(task, init, order)
    _, regime = exponents_of(task, None)
    exponent, amplitude, status = _asymptote(task, init, order)

    def grid() -> np.ndarray:
        t = time_range(task, init, order)
        low, high = 2.0 * t[0], min(task.num_tasks * t[-1], _MOST)
        return np.geomspace(low, high, int(0.5 * PER_DECADE * decades(low, high)) + 2)

    return Law(
        resource="compute",
        exponent=exponent,
        amplitude=amplitude,
        status=status,
        regime=regime,
        _curve=lambda x: frontier(task, init, x, order).loss,
        _local=lambda x: frontier(task, init, x, order).local_exponent,
        _grid=grid,
    )
