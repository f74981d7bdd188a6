"""The laws in one resource: time, model size, data."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from ... import validation
from ...compiling import jit, stage
from ...numerics.streaming import in_blocks
from ..start import Init
from ..task import Task
from ..theory import (
    Order,
    Resampled,
    Rows,
    joint_loss,
    rows_of,
    shared_flow,
    shares_everything,
)
from ._exponents import Regime, exponents_of
from ._law import PER_DECADE, Law, check_law, decades, worked_out
from ._shape import residuals, saddle, shape_of

Curve = Callable[[np.ndarray], np.ndarray]

_FEW = 4096  # tasks whose sum is taken on the host
_PIECE = 1 << 20  # entries (tasks × numbers of data) worked on at once


def time_range(task: Task, init: Init, order: Order) -> np.ndarray:
    """Times from the first task's first move to the last task's end."""
    weights = np.asarray(task.weights)
    grid = np.geomspace(1e-40, 1e290, 2000)
    first, last = (np.abs(residuals(task, init, order, row)[0](grid)) for row in (0, -1))
    begun, done = first < (1.0 - 1e-3) * first[0], last < 1e-3 * last[0]
    low = grid[np.argmax(begun)] / weights[0]
    high = grid[np.argmax(done) if done.any() else -1] / weights[-1]
    high = min(high, 1e300 * low)  # at a saddle nothing ends, and the ratio would overflow
    return np.geomspace(low, high, int(PER_DECADE * decades(low, high)) + 2)


@jit(static_argnames="order")
def _loss_and_change(
    rows: Rows, t: Array, order: Order, flow: Resampled | None
) -> tuple[Array, Array]:
    """L and t dL/dt at each time."""
    return jax.jvp(lambda t: joint_loss(rows, t, None, None, order, flow), (t,), (t,))


def curve_in_time(task: Task, init: Init, order: Order) -> tuple[Curve, Curve]:
    """L(t) and its local exponent."""
    shared = shares_everything(task, init) and task.num_tasks <= _FEW
    rows, flow = rows_of(task, init), shared_flow(task, init, order)
    weights = np.asarray(task.weights)
    moving = residuals(task, init, order, 0)[1]

    def both(t: np.ndarray) -> np.ndarray:
        if shared:  # one task tells all, with nothing to compile for their number
            left, change = np.moveaxis(moving(weights[:, None] * t[None, :]), -1, 0)
            return np.stack([0.5 * weights @ left**2, weights @ (left * change)], axis=1)
        found = _loss_and_change(rows, stage(t), order, flow)
        return np.stack([np.asarray(x) for x in found], axis=1)

    def local(t: np.ndarray) -> np.ndarray:
        value, change = in_blocks(both, t).reshape(-1, 2).T
        return exponent(value, change)

    return lambda t: in_blocks(both, t).reshape(-1, 2)[:, 0], local


def exponent(value: np.ndarray, change: np.ndarray) -> np.ndarray:
    """``−d log L/d log x`` from L and x dL/dx: infinite where L has underflowed."""
    gone = value <= 0.0
    return np.where(gone, np.inf, -change / np.where(gone, 1.0, value))


@worked_out
def time_law(task: Task, init: Init, order: Order = "zeroth", regime: Regime | None = None) -> Law:
    """The law of the loss in training time, at unlimited data and size.

    ``L(t) ≈ (Z/2α)(kt)^{1/α−1} ∫ x^{−1/α} E(x) dx`` with ``k = Zψ(1+Λ²)``: over (0, ∞) it is the
    power law, over ``(kt(S+½)^−α, kt(½)^−α)`` the finite-size form `Law.finite`.

    Args:
        task: the data law, with single numbers for context and strength.
        init: where linear attention starts.
        order: which solution E(x) = (f − Λ)² is taken from.
        regime: which of the two time laws; by default the one that rules over more tasks.

    Reference: Tables 1 and 2, corrected; amplitude in place of eqs. (76), (83).
    """
    check_law(task, init, order)
    table, regime = exponents_of(task, regime)
    curve, local = curve_in_time(task, init, order)
    base = {
        "resource": "time",
        "regime": regime,
        "_curve": curve,
        "_local": local,
        "_grid": partial(time_range, task, init, order),
    }
    limit = saddle(task, init, order)
    if limit is not None:
        return Law(exponent=0.0, amplitude=limit, status="saddle", **base)
    if not shares_everything(task, init):
        return Law(exponent=table.time, amplitude=None, status="ok", **base)
    shape = shape_of(task, init, order)

    def finite(t: np.ndarray) -> np.ndarray:
        x = shape.rate * t
        last = (task.num_tasks + 0.5) ** -shape.alpha
        return shape.loss(t, shape.mellin(x * last, x * 0.5**-shape.alpha))

    amplitude = float(shape.loss(np.ones(1), shape.mellin())[0])
    return Law(exponent=table.time, amplitude=amplitude, status="ok", _finite=finite, **base)


@worked_out
def size_law(task: Task, init: Init, order: Order = "zeroth", shift: Any = 0.0) -> Law:
    """The law of the loss in model size D, at unlimited time and data: ``L = ½ Σ_{s≥D} p_s e_s²``.

    Args:
        task: the data law, with single numbers for context and strength.
        init: where linear attention starts.
        order: which f_s(0) the unlearned tasks keep.
        shift: the local exponent is taken against ``D − shift``; the tail sum goes like
            ``(D − ½)^{1−α}``, so that ½ shows the law much earlier.

    Reference: Tables 1 and 2.
    """
    squares = check_law(task, init, order)
    if task.num_tasks < 2:
        raise ValueError(f"num_tasks must be at least 2 for a law in size, not {task.num_tasks}")
    validation.concrete("shift", shift, why="a law is worked out")
    number = validation.floating("shift", shift)
    validation.shaped("shift", number, ())
    validation.within("shift", number, 0.0, 0.9)
    shift = float(number)
    table, regime = exponents_of(task, None)
    losses = 0.5 * np.asarray(task.weights) * squares
    tail = np.append(np.cumsum(losses[::-1])[::-1], 0.0)  # tail[D − 1] is the loss at D
    sizes = np.arange(1, task.num_tasks, dtype=float)
    gone = tail[1:-1] <= 0.0  # underflowed: it falls faster than any power
    ratio = np.where(gone, 1.0, tail[:-2]) / np.where(gone, 1.0, tail[1:-1])
    slopes = np.log(ratio) / np.log((sizes + 1.0 - shift) / (sizes - shift))
    slopes = np.where(gone, np.inf, slopes)

    def curve(size: np.ndarray) -> np.ndarray:
        return tail[np.clip(np.round(size).astype(int), 1, task.num_tasks + 1) - 1]

    def local(size: np.ndarray) -> np.ndarray:
        return slopes[np.clip(np.round(size).astype(int), 1, len(slopes)) - 1]

    amplitude = None
    if shares_everything(task, init):
        front = 0.5 * float(task.normaliser) * float(squares[0])
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


def _curve_in_data(weights: np.ndarray, squares: np.ndarray) -> tuple[Curve, Curve]:
    """``½ Σ_s p_s (1−p_s)^N e_s²`` and its local exponent in N."""
    front, missed = 0.5 * weights * squares, np.log1p(-np.minimum(weights, 1.0 - 1e-16))

    def both(data: np.ndarray) -> np.ndarray:
        terms = front[:, None] * np.exp(missed[:, None] * data[None, :])
        change = data * (missed @ terms)
        return np.stack([terms.sum(axis=0), change], axis=1)

    block = max(1, _PIECE // len(weights))

    def local(data: np.ndarray) -> np.ndarray:
        return exponent(*in_blocks(both, data, block=block).reshape(-1, 2).T)

    return lambda data: in_blocks(both, data, block=block).reshape(-1, 2)[:, 0], local


@worked_out
def data_law(task: Task, init: Init, order: Order = "zeroth") -> Law:
    """The law of the loss in data N, at unlimited time and size: ``L = ½ Σ_s p_s (1−p_s)^N e_s²``.

    Its amplitude for tasks that share everything is ``(Z e²/2α) Γ(1−1/α) Z^{1/α−1}``.

    Args:
        task: the data law, with single numbers for context and strength.
        init: where linear attention starts.
        order: which f_s(0) the unseen tasks keep.

    Reference: eq. (66), Tables 1 and 2; (105) has its exponent misprinted.
    """
    squares = check_law(task, init, order)
    table, regime = exponents_of(task, None)
    curve, local = _curve_in_data(np.asarray(task.weights), squares)
    amplitude = None
    if shares_everything(task, init):
        alpha, z = float(task.alpha), float(task.normaliser)
        amplitude = z * float(squares[0]) / (2.0 * alpha) * math.gamma(1.0 - 1.0 / alpha)
        amplitude *= z ** (1.0 / alpha - 1.0)
    last = 10.0 / float(np.asarray(task.weights)[-1])
    grid = np.geomspace(1.0, last, int(PER_DECADE * math.log10(last)) + 2)
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
