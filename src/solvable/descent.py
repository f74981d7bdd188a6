"""The one optimiser loop: compiled segments, a log schedule, progress and stopping."""

import time as clock
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from . import validation
from .compiling import jit, stage
from .memory import refuse
from .numerics.buckets import padding, run_bucket

Progress = Callable[[int, int], None]

_SEGMENT = 0.1  # seconds of work between two looks at the host
_ROOM = 256  # log points of a segment, at most: every segment copies its log once
_PAGE = 2**25  # and the bytes of such a log
_SMALL = 2**20  # bytes of a problem whose steps cost less than compiling them
_MOST = 2**53  # steps, each of them a number of its own


@runtime_checkable
class Problem(Protocol):
    """What can be trained: a pytree whose leaves are its numbers."""

    def gradient(self, params: Any, step: Int[Array, ""]) -> Any:
        """The gradient of the loss that step `step` descends."""
        ...

    def observe(self, params: Any) -> Any:
        """What is logged: a dict of arrays."""
        ...


@runtime_checkable
class Iteration(Protocol):
    """What is trained by a map of its own instead of an optimiser's step."""

    def advance(self, params: Any, step: Int[Array, ""]) -> Any:
        """The parameters after step `step`."""
        ...

    def observe(self, params: Any) -> Any:
        """What is logged: a dict of arrays."""
        ...


@runtime_checkable
class Supplied(Protocol):
    """A problem that needs new numbers from the host now and then, such as random draws."""

    def supply(self, step: int) -> tuple[Problem | Iteration, int]:
        """The problem with what it needs from `step` on, and until which step that lasts."""
        ...


@runtime_checkable
class Several(Protocol):
    """A problem of several runs side by side, on the first axis of every parameter array."""

    def chosen(self, runs: Int[np.ndarray, " runs"]) -> Any:
        """The problem of these runs of it; one may be there more than once."""
        ...


class SideBySide(eqx.Module):
    """Several problems of one shape as one: every leaf has a leading axis of runs."""

    problems: Any

    def chosen(self, runs: Int[np.ndarray, " runs"]) -> "SideBySide":
        """The problem of these runs of it."""
        return SideBySide(jax.tree.map(lambda x: _on_host(lambda y: y[runs], x), self.problems))

    @classmethod
    def of(cls, built: Sequence[tuple[Any, Any]]) -> tuple["SideBySide", Any]:
        """Problems and their starts as one problem and its start."""
        problems, starts = (stacked(trees) for trees in zip(*built, strict=True))
        return cls(problems), starts

    def gradient(self, params: Any, step: Int[Array, ""]) -> Any:
        """Each problem's gradient."""
        return jax.vmap(lambda problem, p: problem.gradient(p, step))(self.problems, params)

    def observe(self, params: Any) -> Any:
        """Each problem's observations."""
        return jax.vmap(lambda problem, p: problem.observe(p))(self.problems, params)


class Abreast(eqx.Module):
    """Trainings of one shape as one iteration; what moves is each one's (parameters, memory)."""

    problems: Any
    optimizer: Any = eqx.field(static=True)

    def chosen(self, runs: Int[np.ndarray, " runs"]) -> "Abreast":
        """The trainings chosen."""
        arrays, rest = eqx.partition(self.problems, eqx.is_array)
        picked = jax.tree.map(lambda x: _on_host(lambda y: y[runs], x), arrays)
        return Abreast(eqx.combine(picked, rest), self.optimizer)

    def advance(self, params: Any, step: Int[Array, ""]) -> Any:
        """Each one's own step."""

        def one(problem: Any, state: Any) -> Any:
            return _advanced(problem, self.optimizer, state, step)

        return eqx.filter_vmap(one)(self.problems, params)

    def observe(self, params: Any) -> Any:
        """Each one's observations."""
        return eqx.filter_vmap(lambda problem, state: problem.observe(state[0]))(
            self.problems, params
        )


def is_array(leaf: Any) -> bool:
    """Whether a leaf of a problem is numbers."""
    return isinstance(leaf, jax.Array | np.ndarray)


def stacked(trees: Sequence[Any]) -> Any:
    """Equal pytrees with their arrays stacked along a new leading axis."""
    arrays, (rest, *_) = zip(*(eqx.partition(tree, is_array) for tree in trees), strict=True)
    stacked = jax.tree.map(lambda *x: _on_host(lambda *y: np.stack(y), *x), *arrays)
    return eqx.combine(stacked, rest)


def _on_host(function: Callable[..., np.ndarray], *arrays: Any) -> Any:
    """A numpy function of JAX arrays, also of random keys; JAX would compile it for every shape."""
    if not jnp.issubdtype(arrays[0].dtype, jax.dtypes.prng_key):
        return stage(function(*(np.asarray(x) for x in arrays)))
    words = function(*(np.asarray(jax.random.key_data(x)) for x in arrays))
    return jax.random.wrap_key_data(stage(words), impl=jax.random.key_impl(arrays[0]))


@dataclass(frozen=True)
class History:
    """The log of `descend`: steps and observations, the log points on the last axis."""

    step: Int[np.ndarray, " points"]
    observed: dict[str, Array]
    state: Any
    finished: bool


# One transformation for every learning rate: the rate lives in its state, so that a new value
# compiles nothing.
_DESCENT = optax.inject_hyperparams(optax.sgd)(learning_rate=0.0)


def log_steps(
    steps: Any, log_every: int | None, log_points: int | None = None
) -> Int[np.ndarray, " points"]:
    """The steps that are logged: 0, every `log_every`-th, and the last.

    With `log_points` those are 0 and so many from 1 on, evenly spaced in log step and rounded.

    >>> log_steps(10, 4).tolist()
    [0, 4, 8, 10]
    >>> log_steps(1000, None, 4).tolist()
    [0, 1, 10, 100, 1000]
    """
    steps = validation.whole("steps", steps, 0)
    if log_every is not None and log_points is not None:
        raise ValueError("log_every and log_points cannot both be given")
    if steps > _MOST:
        raise ValueError(f"steps must be at most {_MOST}, not {steps}")
    if log_points is not None:
        log_points = validation.whole("log_points", log_points, 2)
        refuse("log_points", log_points, 32.0 * log_points)
        even = np.geomspace(1, max(1, steps), log_points).round().astype(int)
        return np.unique([0, *even[even < steps], steps])
    log_every = max(1, steps // 400) if log_every is None else log_every
    log_every = validation.whole("log_every", log_every, 1)
    log_every = min(log_every, steps + 1)  # whatever is longer logs the ends alone
    refuse("steps", steps, 16.0 * (steps // log_every))
    points = np.arange(0, steps + 1, log_every)
    return points if points[-1] == steps else np.append(points, steps)


def given_steps(at: Any, steps: int | None) -> Int[np.ndarray, " points"]:
    """Steps to log at as they were given, checked."""
    points = validation.real("at", at)
    whole = points.ndim == 1 and points.size > 0 and np.array_equal(points, np.floor(points))
    if not whole or points[0] != 0 or np.any(np.diff(points) <= 0) or points[-1] > _MOST:
        raise ValueError(
            f"at must be increasing whole steps, the first 0, not {validation.spoken(at)}"
        )
    if steps is not None and validation.whole("steps", steps) != points[-1]:
        raise ValueError(f"steps must be {int(points[-1])}, the last of at, not {steps}")
    return points.astype(int)


def check_rate(lr: Any) -> Float[Array, ""]:
    """A learning rate above 0."""
    rate = validation.floating("lr", lr)
    validation.shaped("lr", rate, ())
    validation.within("lr", rate, 0.0, open_low=True)
    return rate


def choose_optimizer(
    params: Any, lr: Any, optimizer: optax.GradientTransformation | None
) -> tuple[Any, Any, float]:
    """The transformation, its initial state, and how much time one step is.

    Args:
        params: where training starts.
        lr: learning rate of gradient descent; or
        optimizer: any optax optimiser; exactly one of the two is given.
    """
    if (lr is None) == (optimizer is None):
        raise ValueError("lr (gradient descent) or optimizer (optax) must be given, and only one")
    if optimizer is not None:
        if not hasattr(optimizer, "update"):
            raise ValueError(f"optimizer must be an optax optimiser, not {optimizer!r}")
        return optimizer, optimizer.init(params), 1.0
    rate = check_rate(lr)
    state = _DESCENT.init(params)
    dtype = jax.tree.leaves(params)[0].dtype
    state.hyperparams["learning_rate"] = rate.astype(dtype)  # pyright: ignore
    return _DESCENT, state, float(rate)


@jit(filtered=True)
def observe(problem: Problem | Iteration, state: Any) -> Any:
    """What a problem logs of a state."""
    return problem.observe(state[0])


def _advanced(problem: Any, optimizer: Any, state: Any, step: Int[Array, ""]) -> Any:
    """Parameters and the optimiser's memory after step `step`."""
    params, memory = state
    if isinstance(problem, Iteration):
        return problem.advance(params, step), memory
    gradient = problem.gradient(params, step)
    with jax.numpy_dtype_promotion("standard"):  # optax's bias correction mixes int and float
        updates, memory = optimizer.update(gradient, memory, params)
    return optax.apply_updates(params, updates), memory


@jit(filtered=True)
def _segment(fixed: Any, state: Any, logs: Any, span: Array, points: Array) -> Any:
    """From step span[0] to span[1], logging at the first span[2] of points[1:] on the way."""
    problem, optimizer = fixed
    step, upto, count = span

    def one(step: Array, state: Any) -> Any:
        return _advanced(problem, optimizer, state, step)

    def interval(k: Array, carry: Any) -> Any:
        # The last one ends at no log point; a loop of its own would compile the step twice.
        state, logs = carry
        logged = k < count
        last = jnp.where(logged, points[k + 1], upto)
        state = jax.lax.fori_loop(jnp.maximum(step, points[k]), last, one, state)
        row = jnp.where(logged, k, len(points))  # out of the page: not written
        found = problem.observe(state[0])
        put = jax.tree.map(lambda log, x: log.at[row].set(x, mode="drop"), logs, found)
        return state, put

    return jax.lax.fori_loop(0, count + 1, interval, (state, logs))


def descend(
    problem: Problem | Iteration | Supplied,
    params: Any,
    *,
    optimizer: Any,
    memory: Any,
    points: Int[np.ndarray, " points"],
    progress: Progress | None = None,
) -> History:
    """Train, logging `problem.observe` at the steps `points`.

    The work is handed to the compiler in segments of about 0.1 s, between which the host shows
    progress and listens for Ctrl-C; the numbers do not depend on where the segments end.

    Args:
        problem: what is trained.
        params: where it starts.
        optimizer: an optax transformation; None of an `Iteration`.
        memory: its state at the start.
        points: increasing steps to log at; training starts at the first.
        progress: called with (step, last step) now and then.

    Returns:
        The log, with the log points on the last axis of every observation. After Ctrl-C it ends at
        the step reached, and `finished` is false.
    """
    state = (params, memory)
    count, step, end = len(points), int(points[0]), int(points[-1])
    now, until = problem.supply(step) if isinstance(problem, Supplied) else (problem, end)
    # The log is kept on the host, and handed out a little at a time: an operation on its own shape
    # would be compiled by itself, and a segment copies what it is given.
    shapes = eqx.filter_eval_shape(now.observe, params)
    logs = jax.tree.map(lambda x: np.zeros((count, *x.shape), x.dtype), shapes)
    size = max(1, sum(log[:1].nbytes for log in jax.tree.leaves(logs)))
    room = max(1, min(_ROOM, _PAGE // size))  # the same for any number of log points
    page = jax.tree.map(lambda x: stage(np.zeros((room, *x.shape), x.dtype)), shapes)
    pace = int(points[min(1, count - 1)]) - step
    logged, finished = 0, True
    try:
        while logged < count:
            began = clock.perf_counter()
            if isinstance(problem, Supplied) and step >= until:
                now, until = problem.supply(step)
            upto = min(step + max(1, pace), until, end)
            reached = int(np.searchsorted(points, upto, side="right"))
            if reached - logged > room:
                reached = logged + room
                upto = int(points[reached - 1])
            near = np.full(room + 1, points[reached - 1] if reached else step)
            near[0] = points[logged - 1] if logged else step
            near[1 : reached - logged + 1] = points[logged:reached]
            span = np.asarray([step, upto, reached - logged])
            state, written = jax.block_until_ready(
                _segment((now, optimizer), state, page, stage(span), stage(near))
            )
            for log, new in zip(jax.tree.leaves(logs), jax.tree.leaves(written), strict=True):
                log[logged:reached] = np.asarray(new)[: reached - logged]
            logged = reached
            step = upto
            spent = clock.perf_counter() - began
            if spent < _SEGMENT:
                pace = 2 * pace
            elif spent > 4 * _SEGMENT:
                pace = pace // 2
            if progress is not None:
                progress(step, end)
    except KeyboardInterrupt:
        finished = False
        done = int(np.searchsorted(points, step, side="left"))  # points before this step
        seen = observe(now, state)
        points = np.append(points[:done], step)
        logs = jax.tree.map(lambda log, x: np.append(log[:done], x[None], axis=0), logs, seen)
    observed = jax.tree.map(lambda log: stage(np.moveaxis(log, 0, -1)), logs)
    return History(points, observed, state, finished)


def _widened(problem: Any, params: Any, memory: Any, optimizer: Any) -> tuple[Any, Any, Any, int]:
    """Runs side by side padded to one of few numbers of them, and how many there are; 0 if alone.

    A new number of runs then compiles nothing; the runs that are added repeat the last one.
    """
    axes = {x.shape[0] for x in jax.tree.leaves(params) if x.ndim}
    if not isinstance(problem, Several) or len(axes) != 1:
        return problem, params, memory, 0
    (runs,) = axes
    size = sum(x.nbytes for x in jax.tree.leaves((problem, params)) if eqx.is_array(x))
    if run_bucket(runs) == runs or size > _SMALL:
        return problem, params, memory, 0
    index = padding(runs, run_bucket(runs))

    def wide(x: Any) -> Any:
        return stage(np.asarray(x)[index]) if np.ndim(x) else x

    more = jax.tree.map(wide, params)
    if optimizer is not None:
        # An optimiser's own numbers are told from those it keeps a run by their shapes.
        like = jax.eval_shape(optimizer.init, more)
        memory = jax.tree.map(lambda x, y: x if np.shape(x) == y.shape else wide(x), memory, like)
    return problem.chosen(index), more, memory, runs


def _narrowed(tree: Any, like: Any, runs: int) -> Any:
    """What was logged or left, without the runs that were added."""

    def cut(x: Any, y: Any) -> Any:
        return x if np.shape(x)[: len(y.shape)] == y.shape else stage(np.asarray(x)[:runs])

    return jax.tree.map(cut, tree, like)


def descended(
    problem: Any, state: Any, optimizer: Any, points: Any, progress: Progress | None
) -> History:
    """`descend`, of runs side by side in one of few numbers of them."""
    shapes = jax.eval_shape(lambda: state)
    wide, params, memory, runs = _widened(problem, state[0], state[1], optimizer)
    history = descend(
        wide, params, optimizer=optimizer, memory=memory, points=points, progress=progress
    )
    if not runs:
        return history
    seen = eqx.filter_eval_shape(problem.observe, shapes[0])
    observed = _narrowed(history.observed, seen, runs)
    return replace(history, observed=observed, state=_narrowed(history.state, shapes, runs))
