"""Predictions, residuals and losses of all tasks at once."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ... import validation
from ...numerics.binomial import NODES, binomial_nodes_by_row
from ...numerics.streaming import map_rows, sum_rows
from ..start import Init
from ..task import Task
from ._exact import Resampled, exact, exact_shared
from ._modes import Start
from ._zeroth import order_one, order_zero

Order = Literal["zeroth", "first", "exact"]
ORDERS: tuple[str, ...] = get_args(Order)

MAX_TIME = 1e300
# Entries (tasks × times) worked on at once: fits the cache, and bounds memory at any size.
_PIECE = {"zeroth": 1 << 18, "first": 1 << 17, "exact": 1 << 16}
_KERNEL = {"zeroth": order_zero, "first": order_one, "exact": exact}

Row = Float[Array, "tasks times"]


def starts(task: Task, init: Init) -> Start:
    """The tasks' context matrices and initial parameters, one row a task.

    Entries so small that their products underflow are taken as 0 (contexts as 1e-30).
    """

    def flush(x: Array, tiny: float) -> Array:
        return jnp.where(jnp.abs(x) < tiny, 0.0, x)

    v, w = (flush(x, 1e-101) for x in init.columns(task))
    return Start(jnp.maximum(task.contexts, 1e-30), flush(task.strengths, 1e-60), v, w)


def initial_residual(start: Start, order: Order) -> Float[Array, " tasks"]:
    """f(0) − Λ; the first order is already exact at t = 0."""
    at_zero = start.leading_prediction if order == "zeroth" else start.prediction
    return at_zero - start.strength


@jax.jit
def _one_flow(task: Task, init: Init) -> Resampled:
    return exact_shared(starts(task, init))


def shared_flow(task: Task, init: Init, order: Order) -> Resampled | None:
    """The one flow of tasks that share everything at the exact order; elsewhere None.

    Taking longest to compile, it is compiled by itself: once for any number of tasks and times.
    """
    if order != "exact" or not shares_everything(task, init):
        return None
    return _one_flow(Task(1, task.alpha, task.context, task.strength), init)


def kernel_of(order: Order, flow: Resampled | None) -> Callable[[Start, Row], Row]:
    """The residual f − Λ at times p t; tasks that share everything read one and the same flow."""
    if flow is None:
        return _KERNEL[order]
    return lambda _, time: flow.residual(time.ravel()).reshape(time.shape)


@partial(jax.jit, static_argnames="order")
def _residual(task: Task, init: Init, t: Array, order: Order, flow: Resampled | None) -> Row:
    start, weight = starts(task, init), task.weights
    kernel = kernel_of(order, flow)

    def rows(part: tuple[Start, Array]) -> Row:
        start, weight = part
        return kernel(start, weight[:, None] * t[None, :])

    piece = max(1, _PIECE[order] // max(1, t.shape[0]))
    return map_rows(rows, (start, weight), piece=piece).T


@partial(jax.jit, static_argnames="order")
def joint_loss(
    task: Task,
    init: Init,
    t: Float[Array, " times"],
    size: Float[Array, " times"] | None,
    data: Float[Array, ""] | None,
    order: Order,
    flow: Resampled | None,
) -> Float[Array, " times"]:
    """L at each time with its own model size: the compiled core of `loss`, unchecked."""
    start, weight = starts(task, init), task.weights
    kernel = kernel_of(order, flow)
    learned = None if size is None else task.index[:, None] < size[None, :]

    def rows(part: Any) -> Row:
        start, weight, learned = part
        if data is None:
            left = kernel(start, weight[:, None] * t[None, :]) ** 2
        else:
            count, share = binomial_nodes_by_row(data, weight)  # (tasks, nodes)
            time = (count / data)[:, None, :] * t[None, :, None]
            flat = time.reshape(weight.shape[0], -1)
            square = kernel(start, flat).reshape(time.shape) ** 2
            left = jnp.sum(share[:, None, :] * square, axis=2)
        if learned is not None:
            left = jnp.where(learned, left, (initial_residual(start, order) ** 2)[:, None])
        return 0.5 * weight[:, None] * left

    width = t.shape[0] * (1 if data is None else NODES)
    piece = max(1, _PIECE[order] // max(1, width))
    return sum_rows(rows, (start, weight, learned), piece=piece)


def _times(t: Any) -> Array:
    """Times as a floating array of at most one axis, in [0, ∞]."""
    t = validation.floating("t", t)
    if t.ndim > 1:
        raise ValueError(f"t must be a single time or one axis of times, not of shape {t.shape}")
    validation.within("t", t, 0.0)
    return jnp.minimum(t, MAX_TIME)


def shares_everything(task: Task, init: Init) -> bool:
    """Whether all tasks differ in their weight only."""
    return task.is_uniform and init.is_uniform


def _check(task: Task, init: Any, order: str) -> None:
    validation.needs_double("the closed form")
    validation.one_of("order", order, ORDERS)
    if not isinstance(task, Task):
        raise ValueError(f"task must be a msfr.Task, not {type(task).__name__}")
    if not isinstance(init, Init):
        raise ValueError(
            f"init must be a msfr.Init (linear attention) for the theory, not {type(init).__name__}"
        )


def residual(task: Task, init: Init, t: Any, order: Order = "exact") -> Float[Array, "..."]:
    """What is still to be learned, ``f_s(t) − Λ_s``, to relative accuracy.

    Args:
        task: the data law.
        init: where linear attention starts.
        t: times, one number or one axis.
        order: "exact" at every context length, or the expansion in 1/ψ to order "zeroth" (Theorem
            3.1) or "first" (App. J).

    Returns:
        Array (times, tasks), or (tasks,) for a single time.
    """
    _check(task, init, order)
    t = _times(t)
    out = _residual(task, init, jnp.atleast_1d(t), order, shared_flow(task, init, order))
    return out.reshape(*t.shape, task.num_tasks)


def predict(task: Task, init: Init, t: Any, order: Order = "exact") -> Float[Array, "..."]:
    """The prediction ``f_s(t)`` of gradient flow on linear attention at infinite data.

    ``v̇_s = −p_s (f_s − Λ_s) H_s w_s`` and likewise for w, with ``f_s = v_sᵀ H_s w_s`` and
    ``H_s = [[ψ+1, ψΛ], [ψΛ, ψΛ²]]``.

    Args:
        task: the data law.
        init: where linear attention starts.
        t: times, one number or one axis.
        order: "exact", "zeroth" or "first".

    Returns:
        Array (times, tasks), or (tasks,) for a single time.

    Reference: Theorem 3.1 (zeroth), App. J (first); the exact solution is the clock of `_exact`.

    >>> from solvable import msfr
    >>> task = msfr.Task(num_tasks=2, alpha=1.8, context=100.0, strength=0.5)
    >>> f = msfr.predict(task, msfr.Init(v=0.1, w=0.11), [0.0, 0.01, 1.0])
    >>> f.shape, f"{float(f[-1, 0]):.6f}"
    ((3, 2), '0.500000')
    """
    left = residual(task, init, t, order)
    strengths = task.strengths
    return left + strengths.reshape((1,) * (left.ndim - 1) + strengths.shape)


def loss(
    task: Task,
    init: Init,
    t: Any,
    order: Order = "exact",
    size: Any = None,
    data: Any = None,
) -> Float[Array, "..."]:
    """The population loss with all three resources limited: time, model size and data.

    ``L(t, D, N) = ½ Σ_s p_s E[(f_s(t) − Λ_s)²]``: tasks ``s ≥ D`` keep ``f_s(0)``, and with N data
    task s is trained with weight ``#_s/N``, ``#_s ~ Binomial(N, p_s)``, over which E averages.

    Args:
        task: the data law.
        init: where linear attention starts.
        t: times, one number or one axis.
        order: "exact", "zeroth" or "first".
        size: D in 1 … S + 1; None for the whole model.
        data: N ≥ 1; None or infinity for unlimited data.

    Returns:
        Array (times,), or a single number for a single time.

    Reference: eqs. (15), (66).
    """
    _check(task, init, order)
    t = _times(t)
    if size is not None:
        size = size_of(task, size)
    if data is not None and validation.is_concrete(data) and data == math.inf:
        data = None
    if data is not None:
        if validation.is_concrete(data):
            validation.whole("data", data, 1)
        data = validation.floating("data", data)
        validation.shaped("data", data, ())
    flat = jnp.atleast_1d(t)
    sizes = None if size is None else jnp.broadcast_to(size, flat.shape)
    flow = shared_flow(task, init, order)
    out = joint_loss(task, init, flat, sizes, data, order, flow)
    return out.reshape(t.shape)


def size_of(task: Task, size: Any) -> Float[Array, ""]:
    """A model size D, checked."""
    if validation.is_concrete(size):
        validation.whole("size", size, 1, task.num_tasks + 1)
    size = validation.floating("size", size)
    validation.shaped("size", size, ())
    return size
