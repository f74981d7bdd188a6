"""The laws in one resource: time, model size, data."""

import math
from functools import partial
from typing import Any

import numpy as np

from ... import validation
from ...numerics.counting import TailSum
from ...numerics.streaming import in_blocks
from ..start import Init, SoftmaxInit
from ..task import Task
from ..theory import (
    MAX_TIME,
    ORDERS,
    Order,
    edges_of,
    host_loss,
    longest_wait,
    rows_at,
    rows_of,
    shared_flow,
    shares_everything,
    weights_at,
)
from ._curves import Curve, exponentials, sizes_of
from ._exponents import Regime, exponents_of
from ._law import PER_DECADE, Law, check_law, decades, excess, log_slope, worked_out
from ._shape import one_task, shape_of
from ._softmax import softmax_data_law, softmax_size_law, softmax_time_law

_BLOCK = 256  # points worked on at once


def time_range(task: Task, init: Init, order: Order) -> np.ndarray:
    """Times from the first task's first move to the last task's end."""
    grid = np.geomspace(1e-60, 1e290, 2100)
    begins, ends = [], []
    for s in (1, task.num_tasks):  # of the two either may be the slower
        left = one_task(task, init, order, s)(grid)
        pace = float(weights_at(task, np.array([float(s)]))[0])
        begun, done = left < (1.0 - 2e-3) * left[0], left < 1e-6 * left[0]
        with np.errstate(over="ignore", divide="ignore"):
            begins.append(grid[np.argmax(begun)] / pace)
            ends.append(grid[np.argmax(done) if done.any() else -1] / pace)
    low = min(begins)
    with np.errstate(over="ignore"):  # where nothing ends the ratio would overflow
        high = min(max(ends), 1e300 * low, MAX_TIME)
    return np.geomspace(low, high, int(PER_DECADE * decades(low, high)) + 2)


def curve_in_time(task: Task, init: Init, order: Order, *, less: bool = False) -> Curve:
    """L(t), `less` its limit if that is asked for."""
    rows, flow = rows_of(task, init), shared_flow(task, init, order)

    def block(t: np.ndarray) -> np.ndarray:
        return host_loss(rows, t, order, flow, less=less)

    return lambda t: in_blocks(block, np.minimum(t, MAX_TIME), block=min(_BLOCK, len(t)))


@worked_out
def time_law(
    task: Task, init: Init | SoftmaxInit, order: Order = "zeroth", regime: Regime | None = None
) -> Law:
    """The law of the loss in training time, at unlimited data and size.

    ``L(t) ≈ (Z/2α)(kt)^{1/α−1} ∫ x^{−1/α} E(x) dx`` with ``k = Zψ(1+Λ²)``: over (0, ∞) it is the
    power law, over ``(kt(S+½)^−α, kt(½)^−α)`` the finite-size form `Law.finite`.

    Args:
        task: the data law, with single numbers for context and strength.
        init: where linear attention starts; or `SoftmaxInit`, for softmax attention with keys at
            rest, which has one solution for all orders.
        order: which solution E(x) = (f − Λ)² is taken from.
        regime: which of the two time laws; by default the one that rules over more tasks.

    Reference: Tables 1 and 2, corrected; amplitude in place of eqs. (76), (83).
    """
    if isinstance(init, SoftmaxInit):
        validation.one_of("order", order, ORDERS)
        return softmax_time_law(task, init, regime)
    limit = check_law(task, init, order)
    table, regime = exponents_of(task, regime)
    above = curve_in_time(task, init, order, less=True)
    base = {
        "resource": "time",
        "exponent": table.time,
        "status": status_of(limit),
        "regime": regime,
        "limit": limit,
        "_curve": curve_in_time(task, init, order),
        # The nearest singularity in log t: see `counting_rule`.
        "_local": partial(log_slope, above, math.atan2(math.pi, longest_wait(task, init)) / 150.0),
        "_grid": partial(time_range, task, init, order),
    }
    if not shares_everything(task, init):
        return Law(amplitude=None, **base)
    shape = shape_of(task, init, order)

    def finite(t: np.ndarray) -> np.ndarray:
        x = shape.rate * t
        last = (task.num_tasks + 0.5) ** -shape.alpha
        return limit + shape.loss(t, shape.mellin(x * last, x * 0.5**-shape.alpha))

    amplitude = float(shape.loss(np.ones(1), shape.mellin())[0])
    return Law(amplitude=amplitude, _finite=finite, **base)


def status_of(limit: float) -> str:
    """Whether there are tasks that cannot be learned."""
    return "saddle" if limit > 0.0 else "ok"


@worked_out
def size_law(
    task: Task, init: Init | SoftmaxInit, order: Order = "zeroth", shift: Any = 0.0
) -> Law:
    """The law of the loss in model size D, at unlimited time and data: ``L = ½ Σ_{s≥D} p_s e_s²``.

    Args:
        task: the data law, with single numbers for context and strength.
        init: where linear attention starts, or `SoftmaxInit`.
        order: which f_s(0) the unlearned tasks keep.
        shift: the local exponent is taken against ``D − shift``; the tail sum goes like
            ``(D − ½)^{1−α}``, so that ½ shows the law much earlier.

    Reference: Tables 1 and 2.
    """
    validation.concrete("shift", shift, why="a law is worked out")
    number = validation.floating("shift", shift)
    validation.shaped("shift", number, ())
    validation.within("shift", number, 0.0, 0.9)
    if isinstance(init, SoftmaxInit):
        validation.one_of("order", order, ORDERS)
        return softmax_size_law(task, init, float(number))
    limit = check_law(task, init, order)
    table, regime = exponents_of(task, None)

    def term(index: np.ndarray) -> np.ndarray:
        rows = rows_at(task, init, index)
        return 0.5 * rows.weight * excess(rows, order)

    curves = sizes_of(TailSum(edges_of(task, init), term), task.num_tasks, float(number), limit)
    amplitude = None
    if shares_everything(task, init):
        first = term(np.ones(1))[0]  # ½ Z e²
        amplitude = float(first) / (float(task.alpha) - 1.0)
    return Law(
        resource="size",
        exponent=table.size,
        amplitude=amplitude,
        status=status_of(limit),
        regime=regime,
        limit=limit,
        **curves,
    )


def _curves_in_data(task: Task, init: Init, order: Order) -> tuple[Curve, Curve]:
    """``½ Σ_s p_s (1−p_s)^N e_s²`` and its local exponent in N."""
    rows = rows_of(task, init)
    front = 0.5 * rows.share * excess(rows, order)
    return exponentials(front, -np.log1p(-np.minimum(rows.weight, 1.0 - 1e-16)))


@worked_out
def data_law(task: Task, init: Init | SoftmaxInit, order: Order = "zeroth") -> Law:
    """The law of the loss in data N, at unlimited time and size: ``L = ½ Σ_s p_s (1−p_s)^N e_s²``.

    Its amplitude for tasks that share everything is ``(Z e²/2α) Γ(1−1/α) Z^{1/α−1}``. Of tasks
    that cannot be learned e² is what it is above its limit.

    Args:
        task: the data law, with single numbers for context and strength.
        init: where linear attention starts, or `SoftmaxInit`.
        order: which f_s(0) the unseen tasks keep.

    Reference: eq. (66), Tables 1 and 2; (105) has its exponent misprinted.
    """
    if isinstance(init, SoftmaxInit):
        validation.one_of("order", order, ORDERS)
        return softmax_data_law(task, init)
    limit = check_law(task, init, order)
    table, regime = exponents_of(task, None)
    above, local = _curves_in_data(task, init, order)
    amplitude = None
    if shares_everything(task, init):
        alpha, z = float(task.alpha), float(task.normaliser)
        square = float(excess(rows_at(task, init, np.ones(1)), order)[0])
        amplitude = z * square / (2.0 * alpha) * math.gamma(1.0 - 1.0 / alpha)
        amplitude *= z ** (1.0 / alpha - 1.0)
    last = 10.0 / float(weights_at(task, np.array([float(task.num_tasks)]))[0])
    grid = np.geomspace(1.0, last, int(PER_DECADE * math.log10(last)) + 2)
    return Law(
        resource="data",
        exponent=table.data,
        amplitude=amplitude,
        status=status_of(limit),
        regime=regime,
        limit=limit,
        _curve=lambda data: limit + above(data),
        _local=local,
        _grid=lambda: grid,
    )
