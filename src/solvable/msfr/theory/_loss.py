"""Predictions, residuals and losses of all tasks at once."""

import math
from collections.abc import Callable
from typing import Any, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ...compiling import jit, stage
from ...numerics.binomial import NODES, binomial_nodes
from ...numerics.buckets import by_bucket, padding, run_bucket
from ...numerics.host import numbers
from ...numerics.streaming import in_blocks, map_rows, sum_rows
from ..start import Init
from ..task import Task
from ._exact import Resampled, exact, exact_shared
from ._modes import Column, Start
from ._zeroth import order_one, order_zero

Order = Literal["zeroth", "first", "exact"]
ORDERS: tuple[str, ...] = get_args(Order)

MAX_TIME = 1e300
MAX_DATA = 1e15
# Entries (tasks × times) worked on at once: fits the cache, and bounds memory at any size.
_PIECE = {"zeroth": 1 << 18, "first": 1 << 17, "exact": 1 << 16}
_KERNEL = {"zeroth": order_zero, "first": order_one, "exact": exact}
_BLOCK = 1 << 14  # times at which a shared flow is read at once
_HOST = 1 << 22  # entries (tasks × times) up to which sums over a shared flow are the host's
_FEWEST, _MOST = 16, 4096  # tasks and times between which their numbers are filled up

Row = Float[Array, "tasks times"]


def starts(task: Task, init: Init) -> Start:
    """The tasks' context matrices and initial parameters, one row a task.

    Entries so small that their products underflow are taken as 0 (contexts as 1e-30).
    """
    return Start(*numbers(_starts, task.contexts, task.strengths, *init.columns(task)))


def _starts(xp: Any, context: Any, strength: Any, v: Any, w: Any) -> tuple[Any, ...]:
    def flush(x: Any, tiny: float) -> Any:
        return xp.where(xp.abs(x) < tiny, 0.0, x)

    context = xp.maximum(context, 1e-30)
    return context, flush(strength, 1e-60), flush(v, 1e-101), flush(w, 1e-101)


class Rows(eqx.Module):
    """The tasks as compiled functions take them: one row a task.

    Few tasks are filled up with rows of weight 0, so that a new number of them compiles nothing.
    """

    start: Start
    weight: Column
    index: Column


def rows_of(task: Task, init: Init) -> Rows:
    """The tasks, and what they start from; the last row again, without weight, to a power of 2."""
    task.fit(24.0)
    rows = Rows(starts(task, init), task.weights, task.index)
    count = task.num_tasks
    if count > _MOST or not is_known(rows):
        return rows
    place = padding(count, max(_FEWEST, run_bucket(count)))
    rows = jax.tree.map(lambda x: np.asarray(x)[place], rows)
    rows.weight[count:] = 0.0
    return jax.tree.map(stage, rows)


class Draws(eqx.Module):
    """Limited data: N, and what counts of each task are averaged over, if that is known already."""

    data: Float[Array, ""]
    nodes: tuple[Float[Array, "tasks nodes"], Float[Array, "tasks nodes"]] | None


def draws_of(rows: Rows, data: Float[Array, ""] | None) -> Draws | None:
    """Limited data as compiled functions take them: numbers are averaged over without compiling."""
    if data is None:
        return None
    if rows.weight.shape[0] > _MOST or not is_known(data, rows):
        return Draws(data, None)
    return Draws(data, numbers(binomial_nodes, data, rows.weight))


def initial_residual(start: Start, order: Order) -> Column:
    """f(0) − Λ; the first order is already exact at t = 0."""
    at_zero = start.leading_prediction if order == "zeroth" else start.prediction
    return at_zero - start.strength


@jit
def _one_flow(start: Start) -> Resampled:
    return exact_shared(start)


def shared_flow(task: Task, init: Init, order: Order) -> Resampled | None:
    """The one flow of tasks that share everything at the exact order; elsewhere None.

    Taking longest to compile, it is compiled by itself: once for any number of tasks and times.
    """
    if order != "exact" or not shares_everything(task, init):
        return None
    return _one_flow(starts(Task(1, task.alpha, task.context, task.strength), init))


@jit
def _read(flow: Resampled, time: Float[Array, " n"]) -> Float[Array, " n"]:
    return flow.residual(time)


def is_known(*trees: Any) -> bool:
    """Whether all numbers in pytrees can be looked at."""
    return all(validation.is_concrete(leaf) for leaf in jax.tree.leaves(trees))


def read(flow: Any, time: np.ndarray) -> np.ndarray:
    """The residual f − Λ of a shared flow at data-weighted times p t of any shape."""

    def block(part: np.ndarray) -> np.ndarray:
        return np.asarray(_read(flow, stage(part)))

    return in_blocks(block, time.ravel(), block=_BLOCK).reshape(time.shape)


def kernel_of(order: Order, flow: Resampled | None) -> Callable[[Start, Row], Row]:
    """The residual f − Λ at times p t; tasks that share everything read one and the same flow."""
    if flow is None:
        return _KERNEL[order]
    return lambda _, time: flow.residual(time.ravel()).reshape(time.shape)


@jit(static_argnames="order")
def _residual(rows: Rows, t: Array, order: Order, flow: Resampled | None) -> Row:
    kernel = kernel_of(order, flow)

    def left(part: tuple[Start, Array]) -> Row:
        start, weight = part
        return kernel(start, weight[:, None] * t[None, :])

    piece = max(1, _PIECE[order] // max(1, t.shape[0]))
    return map_rows(left, (rows.start, rows.weight), piece=piece).T


@jit(static_argnames="order")
def joint_loss(
    rows: Rows,
    t: Float[Array, " times"],
    size: Float[Array, ""] | Float[Array, " times"] | None,
    draws: Draws | None,
    order: Order,
    flow: Resampled | None,
) -> Float[Array, " times"]:
    """L at each time, with one model size or each its own: the core of `loss`, unchecked."""
    kernel = kernel_of(order, flow)
    sizes = None if size is None else jnp.broadcast_to(size, t.shape)
    learned = None if sizes is None else rows.index[:, None] < sizes[None, :]

    def losses(part: Any) -> Row:
        start, weight, learned, nodes = part
        if draws is None:
            left = kernel(start, weight[:, None] * t[None, :]) ** 2
        else:
            # (tasks, nodes); of many tasks only as many at once as are worked on.
            count, share = binomial_nodes(jnp, draws.data, weight) if nodes is None else nodes
            time = (count / draws.data)[:, None, :] * t[None, :, None]
            flat = time.reshape(weight.shape[0], -1)
            square = kernel(start, flat).reshape(time.shape) ** 2
            left = jnp.sum(share[:, None, :] * square, axis=2)
        if learned is not None:
            left = jnp.where(learned, left, (initial_residual(start, order) ** 2)[:, None])
        return 0.5 * weight[:, None] * left

    width = t.shape[0] * (1 if draws is None else NODES)
    piece = max(1, _PIECE[order] // max(1, width))
    nodes = None if draws is None else draws.nodes
    return sum_rows(losses, (rows.start, rows.weight, learned, nodes), piece=piece)


def _read_loss(
    weights: np.ndarray,
    initial: float,
    t: np.ndarray,
    size: Array | None,
    draws: Draws | None,
    flow: Resampled,
) -> np.ndarray:
    """The same of few tasks that share a flow: read once for all, and summed on the host."""
    p = weights[:, None]
    if draws is None or draws.nodes is None:
        left = read(flow, p * t[None, :]) ** 2
    else:
        count, share = (np.asarray(x)[: len(weights)] for x in draws.nodes)
        time = (count / np.asarray(draws.data))[:, None, :] * t[None, :, None]
        left = np.einsum("sn,stn->st", share, read(flow, time) ** 2)
    if size is not None:
        left = np.where(np.arange(1, len(p) + 1)[:, None] < np.asarray(size), left, initial**2)
    return np.sum(0.5 * p * left, axis=0)


def times_of(t: Any) -> Any:
    """Times of at most one axis in [0, ∞], checked: in numpy, or as JAX traces them."""
    t = validation.floating("t", t)
    if t.ndim > 1:
        raise ValueError(f"t must be a single time or one axis of times, not of shape {t.shape}")
    validation.within("t", t, 0.0)
    if validation.is_concrete(t):
        return np.minimum(np.asarray(t), MAX_TIME)
    return jnp.minimum(t, MAX_TIME)


def at_times(function: Callable[[Any], Any], t: Any, tasks: int | None = None) -> Any:
    """``function`` of one axis of times, at the times t: its results have the axes of t first.

    Args:
        function: treats times independently, and gives a pytree of arrays.
        t: as from `times_of`.
        tasks: the second axis of the results is cut to so many.
    """
    flat = t.reshape(-1)
    found = by_bucket(function, flat) if flat.shape[0] <= _MOST else function(flat)

    def cut(x: Any) -> Array:
        x = x if not validation.is_concrete(x) else np.asarray(x)
        x = x if tasks is None else x[:, :tasks]
        x = x.reshape((*t.shape, *x.shape[1:]))
        return stage(x) if isinstance(x, np.ndarray) else x

    return jax.tree.map(cut, found)


def shares_everything(task: Task, init: Init) -> bool:
    """Whether all tasks differ in their weight only."""
    return task.is_uniform and init.is_uniform


def check(task: Any, init: Any, order: str) -> None:
    """Refuse what is no task, no start of linear attention or no order."""
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
    check(task, init, order)
    t = times_of(t)
    task.fit(24.0 + 4.0 * t.size)
    rows, flow = rows_of(task, init), shared_flow(task, init, order)
    if flow is not None and t.size * task.num_tasks <= _HOST and is_known(flow, rows, t):
        return stage(read(flow, t[..., None] * np.asarray(task.weights)))
    return at_times(lambda t: _residual(rows, t, order, flow), t, task.num_tasks)


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
    return numbers(_add_strengths, left, task.strengths)


def _add_strengths(xp: Any, left: Any, strengths: Any) -> Any:
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
        data: N from 1 to 1e15; None or infinity for unlimited data.

    Returns:
        Array (times,), or a single number for a single time.

    Reference: eqs. (15), (66).
    """
    check(task, init, order)
    t = times_of(t)
    if size is not None:
        size = size_of(task, size)
    data = data_of(data)
    rows, flow = rows_of(task, init), shared_flow(task, init, order)
    draws = draws_of(rows, data)
    entries = task.num_tasks * t.size * (1 if data is None else NODES)
    if flow is not None and entries <= _HOST and is_known(flow, rows, t, size, draws):
        initial = float(read(flow, np.zeros(1))[0])
        found = _read_loss(np.asarray(task.weights), initial, t.reshape(-1), size, draws, flow)
        return stage(found.reshape(t.shape))
    return at_times(lambda t: joint_loss(rows, t, size, draws, order, flow), t)


def size_of(task: Task, size: Any) -> Float[Array, ""]:
    """A model size D, checked."""
    number = validation.floating("size", size)
    validation.shaped("size", number, ())
    if validation.is_concrete(number):
        validation.whole("size", size, 1, task.num_tasks + 1)
    return number


def data_of(data: Any) -> Float[Array, ""] | None:
    """A number of data N, checked; None if it is unlimited."""
    if data is None:
        return None
    number = validation.floating("data", data)
    validation.shaped("data", number, ())
    if validation.is_concrete(number):
        if float(number) == math.inf:
            return None
        validation.whole("data", data, 1)
        if float(number) > MAX_DATA:  # the counts' spread would be lost in rounding
            raise ValueError(f"data must be at most {MAX_DATA:g}, or infinite, not {data!r}")
    return number
