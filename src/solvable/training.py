"""The one optimiser loop: compiled segments, a log schedule, progress, stopping and resuming."""

import time as clock
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from . import validation
from .compiling import jit, stage
from .fingerprint import difference, fingerprint, program_of
from .memory import refuse
from .numerics.buckets import padding, run_bucket

Progress = Callable[[int, int], None]

_SEGMENT = 0.1  # seconds of work between two looks at the host
_ROOM = 256  # log points of a segment, at most: every segment copies its log once
_PAGE = 2**25  # and the bytes of such a log
_SMALL = 2**20  # bytes of a problem whose steps cost less than compiling them
_MOST = 2**53  # steps, each of them a number of its own


@dataclass(frozen=True)
class Run:
    """What a training run saw.

    Leading axes of the fields are runs (one a seed), the last axis is the log points, which always
    include step 0 and the last step.

    Attributes:
        step: optimiser steps done.
        time: lr × step for gradient descent, step for other optimisers.
        loss: what the paper plots.
        state: parameters and optimiser state at the last step, from which `resume` goes on.
        origin: the problem, in words (`fingerprint`); `resume` refuses a run of any other.
    """

    step: Int[np.ndarray, " points"]
    time: Float[np.ndarray, " points"]
    loss: Float[Array, "*runs points"]
    state: Any
    origin: Mapping[str, str] = field(default_factory=dict, kw_only=True, repr=False)

    @property
    def status(self) -> str:
        """ "ok", or "diverged" where a loss is no longer finite (a smaller lr may help)."""
        return "ok" if bool(jnp.all(jnp.isfinite(self.loss))) else "diverged"

    @classmethod
    def of(cls, history: "History", pace: float) -> Any:
        """The run whose fields are what was observed."""
        time = pace * history.step
        seen: dict[str, Any] = history.observed
        return cls(step=history.step, time=time, state=history.state, **seen)


R = TypeVar("R", bound=Run)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during training; `run` holds what there is, and can be resumed from."""

    def __init__(self, run: Any):
        super().__init__("training was interrupted")
        self.run = run


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
    def stack(cls, trees: Sequence[Any]) -> Any:
        """Equal pytrees stacked along a new leading axis."""
        return jax.tree.map(lambda *x: _on_host(lambda *y: np.stack(y), *x), *trees)

    def gradient(self, params: Any, step: Int[Array, ""]) -> Any:
        """Each problem's gradient."""
        return jax.vmap(lambda problem, p: problem.gradient(p, step))(self.problems, params)

    def observe(self, params: Any) -> Any:
        """Each problem's observations."""
        return jax.vmap(lambda problem, p: problem.observe(p))(self.problems, params)


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


def log_steps(steps: int, log_every: int | None) -> Int[np.ndarray, " points"]:
    """The steps that are logged: 0, every `log_every`-th, and the last.

    >>> log_steps(10, 4).tolist()
    [0, 4, 8, 10]
    """
    steps = validation.whole("steps", steps, 0)
    if log_every is None:
        log_every = max(1, steps // 400)
    log_every = validation.whole("log_every", log_every, 1)
    if steps > _MOST:
        raise ValueError(f"steps must be at most {_MOST}, not {steps}")
    log_every = min(log_every, steps + 1)  # whatever is longer logs the ends alone
    refuse("steps", steps, 16.0 * (steps // log_every))
    points = np.arange(0, steps + 1, log_every)
    return points if points[-1] == steps else np.append(points, steps)


def seeds_of(seed: int | Sequence[int]) -> tuple[list[int], bool]:
    """The seeds of a run, and whether there is an axis of them."""
    many = isinstance(seed, Sequence | np.ndarray)
    seeds: list[Any] = list(seed) if many else [seed]  # pyright: ignore[reportArgumentType]
    if not seeds:
        raise ValueError("seed must be a whole number or a sequence with at least one")
    return [validation.whole("seed", s) for s in seeds], many


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
    rate = validation.floating("lr", lr)
    validation.shaped("lr", rate, ())
    validation.within("lr", rate, 0.0, open_low=True)
    state = _DESCENT.init(params)
    dtype = jax.tree.leaves(params)[0].dtype
    state.hyperparams["learning_rate"] = rate.astype(dtype)  # pyright: ignore
    return _DESCENT, state, float(rate)


@jit(filtered=True)
def _observe(problem: Problem | Iteration, state: Any) -> Any:
    return problem.observe(state[0])


@jit(filtered=True)
def _segment(fixed: Any, state: Any, logs: Any, span: Array, points: Array) -> Any:
    """From step span[0] to span[1], logging at the first span[2] of points[1:] on the way."""
    problem, optimizer = fixed
    step, upto, count = span

    def one(step: Array, state: Any) -> Any:
        params, memory = state
        if isinstance(problem, Iteration):
            return problem.advance(params, step), memory
        gradient = problem.gradient(params, step)
        with jax.numpy_dtype_promotion("standard"):  # optax's bias correction mixes int and float
            updates, memory = optimizer.update(gradient, memory, params)
        return optax.apply_updates(params, updates), memory

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
        seen = _observe(now, state)
        points = np.append(points[:done], step)
        logs = jax.tree.map(lambda log, x: np.append(log[:done], x[None], axis=0), logs, seen)
    observed = jax.tree.map(lambda log: stage(np.moveaxis(log, 0, -1)), logs)
    return History(points, observed, state, finished)


def joined(earlier: R, later: R) -> R:
    """One run after another that took up where it ended: the shared log point is kept once."""

    def join(a: Any, b: Any) -> Any:
        return np.concatenate([np.asarray(a), np.asarray(b)[..., 1:]], axis=-1)

    def kind(a: Any, b: Any) -> Any:
        both = join(a, b)
        return both if isinstance(b, np.ndarray) else stage(both)

    names = _logged(later)
    pairs = {name: (getattr(earlier, name), getattr(later, name)) for name in names}
    return replace(later, **{name: jax.tree.map(kind, *pair) for name, pair in pairs.items()})


def _logged(run: Run) -> list[str]:
    """The fields of a run whose last axis is the log points."""
    return [f.name for f in fields(run) if f.name not in ("state", "origin")]


def _refuse_other(
    problem: Any,
    state: Any,
    resume: Any,
    origin: Mapping[str, str],
    steps: int,
    label: Callable[[History, float], Any],
    pace: float,
) -> None:
    """Raise unless `resume` is a run of this problem that has steps left; before any is done."""
    if not isinstance(resume, Run):
        raise ValueError(f"resume must be a run, not {type(resume).__name__}")
    done = int(resume.step[-1])
    if steps < done:
        raise ValueError(f"steps must be at least {done}, those done already, not {steps}")
    if resume.origin:
        if other := difference(resume.origin, origin):
            raise ValueError(f"resume must be a run of the same problem: {other}")
    else:
        warnings.warn("resume does not say of which problem it is a run", stacklevel=4)
    form = [
        (jax.tree.structure(s), [np.shape(x) for x in jax.tree.leaves(s)])
        for s in (state, resume.state)
    ]
    if form[0] != form[1]:
        raise ValueError("resume must be a run of the same model, with the same seeds")
    # What follows is for damage, and for runs that do not say what they are runs of.
    now = problem.supply(done)[0] if isinstance(problem, Supplied) else problem
    seen = jax.tree.map(lambda x: stage(np.asarray(x)[..., None]), _observe(now, resume.state))
    here = label(History(np.array([done]), seen, resume.state, True), pace)
    if _names(here) != _names(resume):
        raise ValueError("resume must be a run with the same tests")
    if not np.allclose(here.time[..., 0], resume.time[..., -1], rtol=1e-9):
        raise ValueError("resume must be a run at the same lr, in the same units")
    # The same state has the same loss on the same data, but for how the compiler rounds.
    if not np.allclose(here.loss[..., 0], resume.loss[..., -1], rtol=1e-6, equal_nan=True):
        raise ValueError("resume must be a run on the same data")


def _names(run: Run) -> Any:
    """Which fields, and what in them, a run has logged."""
    return {name: jax.tree.structure(getattr(run, name)) for name in _logged(run)}


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


def follow(
    problem: Problem | Iteration | Supplied,
    params: Any,
    label: Callable[[History, float], R],
    *,
    origin: Mapping[str, Any],
    lr: Any = None,
    optimizer: optax.GradientTransformation | None = None,
    steps: int,
    log_every: int | None = None,
    progress: Progress | None = None,
    resume: R | None = None,
) -> R:
    """Train a problem from start to end, and give the run as its lab labels it.

    Args:
        problem: what is trained.
        params: where it starts.
        label: makes the lab's run of a log and of how much time one step is.
        origin: all that the lab's problem depends on, for `fingerprint`: the trainer's name, task,
            start, data, batch, seeds, units, rates that are not `lr`; what is most telling first.
        lr: learning rate of gradient descent; or
        optimizer: any optax optimiser.
        steps: how many steps, counted from the beginning.
        log_every: steps between two log points; every 400th part of the run unless given.
        progress: called with (step, steps) now and then.
        resume: a run of the same problem to go on from.

    Raises:
        Interrupted: at Ctrl-C, with the run so far.
    """
    if isinstance(problem, Iteration | Supplied):
        transformation, memory, pace = None, (), 1.0
    else:
        transformation, memory, pace = choose_optimizer(params, lr, optimizer)
    points = log_steps(steps, log_every)
    dtype = jax.tree.leaves(params)[0].dtype.name
    update = None if optimizer is None else program_of(optimizer, params)
    rest = {"lr": lr, "optimizer": update, "precision": dtype}
    words = fingerprint(**{**origin, **rest, **origin})  # a lab's own rates are what counts
    if resume is not None:
        _refuse_other(problem, (params, memory), resume, words, steps, label, pace)
        params, memory = resume.state
        points = np.append(resume.step[-1], points[points > resume.step[-1]])
    state = jax.eval_shape(lambda: (params, memory))
    wide, params, memory, runs = _widened(problem, params, memory, transformation)
    history = descend(
        wide, params, optimizer=transformation, memory=memory, points=points, progress=progress
    )
    if runs:
        seen = eqx.filter_eval_shape(problem.observe, state[0])  # pyright: ignore
        observed = _narrowed(history.observed, seen, runs)
        history = replace(history, observed=observed, state=_narrowed(history.state, state, runs))
    run = replace(label(history, pace), origin=words)
    if resume is not None:
        run = joined(resume, run)
    if not history.finished:
        raise Interrupted(run)
    return run
