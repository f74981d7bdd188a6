"""Predictions, residuals and losses of all tasks at once."""

import functools
import math
from collections.abc import Callable
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ...compiling import jit, stage
from ...numerics.binomial import NODES, binomial_nodes
from ...numerics.buckets import by_bucket
from ...numerics.host import is_known, module_of, numbers
from ...numerics.streaming import map_rows, sum_rows
from ..start import Init, SoftmaxInit
from ..task import Task
from ._exact import Resampled, exact, exact_shared
from ._first import order_one
from ._learning import Order, rest_square
from ._modes import Column, Start
from ._softmax import softmax_loss
from ._tasks import Rows, all_rows, is_law, padded, rows_of, starts
from ._zeroth import order_zero

ORDERS: tuple[str, ...] = get_args(Order)

MAX_TIME = 1e300
MAX_DATA = 1e15
# Entries (tasks × times) worked on at once: fits the cache, or fills a GPU; bounds memory.
_PIECE = {"zeroth": 1 << 18, "first": 1 << 17, "exact": 1 << 16}
_GPU_PIECE = {"zeroth": 1 << 26, "first": 1 << 22, "exact": 1 << 22}
_GPU_SHARED = 1 << 20  # of a flow that all tasks read
_KERNEL = {"zeroth": order_zero, "first": order_one, "exact": exact}
_HOST_PIECE = 1 << 14
HOST = 10**7  # entries up to which numbers are the host's: what is compiled is faster beyond
_MOST = 4096  # times up to which their number is filled up

Row = Float[Any, "tasks times"]
Kernel = Callable[[Start, Row], Row]


def initial_residual(start: Start, order: Order) -> Column:
    """f(0) − Λ; the first order is already exact at t = 0."""
    at_zero = start.leading_prediction if order == "zeroth" else start.prediction
    return at_zero - start.strength


@jit
def _one_flow(start: Start) -> Resampled:
    return exact_shared(start)


@functools.lru_cache(maxsize=64)
def _known_flow(context: float, strength: float, v: float, w: float) -> Resampled:
    task, init = Task(1, 2.0, context, strength), Init(v, w)
    with np.errstate(all="ignore"):
        return exact_shared(starts(task, init, np.ones(1)))


def shared_flow(task: Task, init: Init, order: Order) -> Resampled | None:
    """The one flow of tasks that share everything at the exact order; elsewhere None.

    Numbers are the host's; taking longest to compile, of traced ones it is compiled by itself: once
    for any number of tasks and times.
    """
    if order != "exact" or not shares_everything(task, init):
        return None
    if is_known(task, init):
        return _known_flow(*(float(x) for x in (task.context, task.strength, init.v, init.w)))
    return _one_flow(starts(Task(1, task.alpha, task.context, task.strength), init))


def kernel_of(order: Order, flow: Resampled | None) -> Kernel:
    """The residual f − Λ at times p t; tasks that share everything read one and the same flow."""
    if flow is None:
        return _KERNEL[order]
    return lambda _, time: flow.residual(time.ravel()).reshape(time.shape)


def host_rows(function: Callable[[Rows], np.ndarray], rows: Rows, width: int) -> np.ndarray:
    """``function(rows)`` in numpy, in pieces that fit the cache, `width` entries a row."""
    piece = max(1, _HOST_PIECE // max(1, width))
    count = rows.weight.shape[0]
    with np.errstate(all="ignore"):
        return np.concatenate(
            [
                function(jax.tree.map(lambda x, k=k: x[k : k + piece], rows))
                for k in range(0, count, piece)
            ]
        )


def host_sum(function: Callable[[Rows], np.ndarray], rows: Rows, width: int) -> np.ndarray:
    """The sum over rows of ``function(rows)``, which has an axis of them first."""
    return host_rows(lambda part: np.sum(function(part), axis=0, keepdims=True), rows, width).sum(0)


def _piece(order: Order, flow: Resampled | None, width: int) -> int:
    """Rows worked on at once, `width` entries each."""
    entries = _PIECE[order]
    if jax.default_backend() == "gpu":
        entries = _GPU_PIECE[order] if flow is None else _GPU_SHARED
    return max(1, entries // max(1, width))


@jit(static_argnames="order")
def _residual(rows: Rows, t: Array, order: Order, flow: Resampled | None) -> Row:
    kernel = kernel_of(order, flow)

    def left(part: tuple[Start, Array]) -> Row:
        start, weight = part
        return kernel(start, weight[:, None] * t[None, :])

    piece = _piece(order, flow, t.shape[0])
    return map_rows(left, (rows.start, rows.weight), piece=piece).T


def _squares(
    rows: Rows, t: Any, size: Any, data: Any, order: Order, kernel: Kernel
) -> Float[Any, "tasks times"]:
    """E[(f_s(t) − Λ_s)²] of every row, in numpy or in JAX."""
    weight = rows.weight
    if data is None:
        left = kernel(rows.start, weight[:, None] * t[None, :]) ** 2
    else:
        xp = module_of(rows, t, data)
        count, share = binomial_nodes(xp, data, weight)
        time = (count / data)[:, None, :] * t[None, :, None]
        flat = time.reshape(weight.shape[0], -1)
        square = kernel(rows.start, flat).reshape(time.shape) ** 2
        left = xp.sum(share[:, None, :] * square, axis=2)
    if size is None:
        return left
    xp = module_of(rows, left, size)
    unlearned = (initial_residual(rows.start, order) ** 2)[:, None]
    return xp.where(rows.index[:, None] < size, left, unlearned)


@jit(static_argnames="order")
def joint_loss(
    rows: Rows,
    t: Float[Array, " times"],
    size: Float[Array, ""] | None,
    data: Float[Array, ""] | None,
    order: Order,
    flow: Resampled | None,
) -> Float[Array, " times"]:
    """L at each time: the core of `loss`, unchecked."""
    kernel = kernel_of(order, flow)

    def losses(part: Rows) -> Row:
        return 0.5 * part.share[:, None] * _squares(part, t, size, data, order, kernel)

    width = t.shape[0] * (1 if data is None else NODES)
    return sum_rows(losses, rows, piece=_piece(order, flow, width))


def host_loss(
    rows: Rows,
    t: np.ndarray,
    order: Order,
    flow: Resampled | None,
    *,
    size: Any = None,
    data: Any = None,
    less: bool = False,
) -> np.ndarray:
    """The same in numpy; `less` what is left for ever, task by task, if that is asked for."""
    kernel = kernel_of(order, flow)

    def losses(part: Rows) -> np.ndarray:
        left = _squares(part, t, size, data, order, kernel)
        if less:
            left = left - rest_square(part.start, order)[:, None]
        return 0.5 * part.share[:, None] * left

    return host_sum(losses, rows, t.shape[0] * (1 if data is None else NODES))


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
    rows, flow = all_rows(task, init), shared_flow(task, init, order)
    if t.size * task.num_tasks <= HOST and is_known(task, init, t):
        kernel, flat = kernel_of(order, flow), t.reshape(-1)
        left = host_rows(lambda x: kernel(x.start, x.weight[:, None] * flat), rows, t.size)
        return stage(left.T.reshape(*t.shape, task.num_tasks))
    rows = padded(rows)
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
    init: Init | SoftmaxInit,
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
        init: where linear attention starts; or `SoftmaxInit`, for softmax attention with keys at
            rest (`softmax_loss` has its formula, and its range).
        t: times, one number or one axis.
        order: "exact", "zeroth" or "first"; softmax attention has one closed form for all.
        size: D in 1 … S + 1; None for the whole model.
        data: N from 1 to 1e15; None or infinity for unlimited data. To 1e-10 from starts of 1e-5 or
            more; a task that waits for more than 25 e-folds is learned within a single datum, and
            the average, an integral above 64 data, is then off by up to 1e-3 (1e-6 at 1e-10).

    Returns:
        Array (times,), or a single number for a single time.

    Reference: eqs. (15), (66).
    """
    if isinstance(init, SoftmaxInit):
        validation.one_of("order", order, ORDERS)
        return softmax_loss(task, init, t, size, data)
    check(task, init, order)
    t = times_of(t)
    if size is not None:
        size = size_of(task, size)
    data = data_of(data)
    rows, flow = summed_rows(task, init, size), shared_flow(task, init, order)
    entries = rows.weight.shape[0] * t.size * (1 if data is None else NODES)
    if entries <= HOST and is_known(task, init, t, size, data):
        limits = [None if x is None else float(x) for x in (size, data)]
        found = host_loss(rows, t.reshape(-1), order, flow, size=limits[0], data=limits[1])
        return stage(found.reshape(t.shape))
    rows = padded(rows)
    return at_times(lambda t: joint_loss(rows, t, size, data, order, flow), t)


def summed_rows(task: Task, init: Init, size: Any = None) -> Rows:
    """What a sum over tasks runs over when those s < D are learned."""
    if size is not None and not is_known(size):
        return all_rows(task, init)  # nodes would have to end at a D that is not known
    cut = () if size is None or not is_law(task, init) else (int(size),)
    return rows_of(task, init, cut)


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
