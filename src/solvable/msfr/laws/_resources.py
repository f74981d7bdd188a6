"""The laws in one resource: time, model size, data."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ...numerics.streaming import sum_rows
from ..start import Init
from ..task import Task
from ..theory import Order
from ..theory._exact import Resampled
from ..theory._loss import (
    Row,
    initial_residual,
    joint_loss,
    kernel_of,
    shared_flow,
    shares_everything,
    starts,
)
from ..theory._modes import Start
from ._exponents import Regime, exponents_of
from ._law import PER_DECADE, Law, check_law, curve_and_slope
from ._shape import shape_of


@partial(jax.jit, static_argnames="order")
def _left(start: Start, time: Row, order: Order, flow: Resampled | None) -> Row:
    return kernel_of(order, flow)(start, time)


def time_range(task: Task, init: Init, order: Order) -> np.ndarray:
    """Times from the first task's first move to the last task's end."""
    start, weights = starts(task, init), task.weights
    ends = jax.tree.map(lambda x: x[jnp.asarray([0, -1])], start)
    grid = np.geomspace(1e-40, 1e290, 2000)
    time = jnp.broadcast_to(jnp.asarray(grid), (2, len(grid)))
    left = np.abs(np.asarray(_left(ends, time, order, shared_flow(task, init, order))))
    begun = left[0] < (1.0 - 1e-3) * left[0, 0]
    done = left[1] < 1e-3 * left[1, 0]
    low = grid[np.argmax(begun)] / float(weights[0])
    high = grid[np.argmax(done) if done.any() else -1] / float(weights[-1])
    count = int(PER_DECADE * math.log10(high / low)) + 2
    return np.geomspace(low, high, count)


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
    shared = shares_everything(task, init)
    flow = shared_flow(task, init, order)
    curve, local = curve_and_slope(lambda t: joint_loss(task, init, t, None, None, order, flow))
    start, limit = curve(np.asarray([0.0, 1e300]))
    base = {
        "resource": "time",
        "regime": regime,
        "_curve": curve,
        "_local": local,
        "_grid": partial(time_range, task, init, order),
    }
    if limit > 1e-12 * start:  # some tasks end at a saddle
        return Law(exponent=0.0, amplitude=float(limit), status="saddle", **base)
    if not shared:
        return Law(exponent=table.time, amplitude=None, status="ok", **base)
    shape = shape_of(task, init, order)

    def finite(t: np.ndarray) -> np.ndarray:
        x = shape.rate * t
        last = (task.num_tasks + 0.5) ** -shape.alpha
        return shape.loss(t, shape.mellin(x * last, x * 0.5**-shape.alpha))

    amplitude = float(shape.loss(np.ones(1), shape.mellin())[0])
    return Law(exponent=table.time, amplitude=amplitude, status="ok", _finite=finite, **base)


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
    check_law(task, init, order)
    number = validation.floating("shift", shift)
    validation.within("shift", number, 0.0, 0.9)
    table, regime = exponents_of(task, None)
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
    check_law(task, init, order)
    table, regime = exponents_of(task, None)
    curve, local = curve_and_slope(partial(_loss_in_data, task, init, order=order))
    amplitude = None
    if shares_everything(task, init):
        alpha, z = float(task.alpha), float(task.normaliser)
        square = float(_initial_squares(task, init, order)[0])
        amplitude = z * square / (2.0 * alpha) * math.gamma(1.0 - 1.0 / alpha)
        amplitude *= z ** (1.0 / alpha - 1.0)
    last = 10.0 / float(task.weights[-1])
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
