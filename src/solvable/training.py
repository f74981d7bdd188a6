"""The one optimiser loop: compiled segments, a log schedule, progress, stopping and resuming."""

import json
import math
import time as clock
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, get_args, runtime_checkable

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
from .schedule import LOG_POINTS as LOG_POINTS

if TYPE_CHECKING:
    import xarray as xr

Progress = Callable[[int, int], None]

_SEGMENT = 0.1  # seconds of work between two looks at the host
_ROOM = 256  # log points of a segment, at most: every segment copies its log once
_PAGE = 2**25  # and the bytes of such a log
_SMALL = 2**20  # bytes of a problem whose steps cost less than compiling them
_MOST = 2**53  # steps, each of them a number of its own

# Axes as annotations have them, and as `to_xarray` calls them.
_AXES = {"points": "time", "tasks": "task", "runs": "run", "rates": "run"}


@dataclass(frozen=True, repr=False)
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

    def __repr__(self) -> str:
        *_, lab, _ = ("", "", *type(self).__module__.split(".")[1:])
        loss, last = np.asarray(self.loss), int(self.step[-1])
        runs = math.prod(loss.shape[:-1])
        with np.errstate(all="ignore"):  # a diverged run says so by its status
            first, final = (float(np.mean(loss[..., k])) for k in (0, -1))
        several = loss.ndim > 1
        return (
            f"{lab} {type(self).__name__}({f'{runs} runs × ' if several else ''}{last} steps to "
            f"t = {float(np.max(self.time[..., -1])):.6g}, {len(self.step)} points, "
            f"{'mean ' if several else ''}loss {first:.3g} → {final:.3g}, {self.status})"
        ).lstrip()

    def to_xarray(self) -> "xr.Dataset":
        """What was logged as a dataset along the dimensions time, run, task and so on.

        Coordinates are `time`, or `times` where runs have their own, and `step`; a field with
        several arrays gives one variable for each, as in ``tests_fresh``. Attributes are the
        status, and the origin as JSON.
        """
        import xarray as xr

        found = {n: (_dims(self, n, f, x), np.asarray(x)) for n, f, x in variables(self)}
        coords = {name: found.pop(name) for name in ("time", "times", "step") if name in found}
        attrs = {"status": self.status, "origin": json.dumps(dict(self.origin))}
        return xr.Dataset(found, coords=coords, attrs=attrs)


def variables(run: Run) -> list[tuple[str, Field, Any]]:
    """All arrays that a run has logged: their names in a dataset, their fields, and they."""
    found = []
    for each in _logged(run):
        for path, leaf in jax.tree_util.tree_leaves_with_path(getattr(run, each.name)):
            name = "_".join([each.name, *(str(getattr(key, "key", key)) for key in path)])
            # A coordinate with the name of a dimension can have that one alone.
            found.append(("times" if name == "time" and np.ndim(leaf) > 1 else name, each, leaf))
    return found


def _dims(run: Run, name: str, of: Field, array: Any) -> list[str]:
    """The dimensions of a variable, from the annotation of its field."""
    kinds: list[Any] = [of.type, *get_args(of.type)]
    axes = next(kind.dim_str for kind in kinds if hasattr(kind, "dim_str")).split()
    found: list[str] = []
    for place, axis in enumerate(axes):
        plain = axis.lstrip("*")
        word = _AXES.get(plain, plain if plain.isidentifier() else f"{name}_{place}")
        if not axis.startswith("*"):
            found.append(word if word not in found else f"{word}_2")
            continue
        count = np.ndim(array) - len(axes) + 1
        several = count > 1 or (word == "run" and run.loss.ndim > 2)
        found += [f"{word}_{k}" for k in range(count)] if several else [word] * count
    return found


R = TypeVar("R", bound=Run)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during training; `run` holds what there is, and can be resumed from.

    Of `run_all` it is a list, with None for what was not begun.
    """

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
    def of(cls, built: Sequence[tuple[Any, Any]]) -> tuple["SideBySide", Any]:
        """Problems and their starts as one problem and its start."""
        problems, starts = (_stacked(trees) for trees in zip(*built, strict=True))
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


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray)


def _stacked(trees: Sequence[Any]) -> Any:
    """Equal pytrees with their arrays stacked along a new leading axis."""
    arrays, (rest, *_) = zip(*(eqx.partition(tree, _is_array) for tree in trees), strict=True)
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


def _given_steps(at: Any, steps: int | None) -> Int[np.ndarray, " points"]:
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


def seeds_of(seed: int | Sequence[int]) -> tuple[list[int], bool]:
    """The seeds of a run, and whether there is an axis of them."""
    many = isinstance(seed, Sequence | np.ndarray)
    seeds: list[Any] = list(seed) if many else [seed]  # pyright: ignore[reportArgumentType]
    if not seeds:
        raise ValueError("seed must be a whole number or a sequence with at least one")
    return [validation.whole("seed", s) for s in seeds], many


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
def _observe(problem: Problem | Iteration, state: Any) -> Any:
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

    names = [each.name for each in _logged(later)]
    pairs = {name: (getattr(earlier, name), getattr(later, name)) for name in names}
    return replace(later, **{name: jax.tree.map(kind, *pair) for name, pair in pairs.items()})


def _logged(run: Run) -> list[Field]:
    """The fields of a run whose last axis is the log points."""
    return [f for f in fields(run) if f.name not in ("state", "origin")]


def _names(run: Run) -> Any:
    """Which fields, and what in them, a run has logged."""
    return {f.name: jax.tree.structure(getattr(run, f.name)) for f in _logged(run)}


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


def _descended(
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


@dataclass(frozen=True, eq=False)
class Training(Generic[R]):
    """What is trained, before any step.

    Attributes:
        build: makes the problem and the parameters it starts from; called once, when needed.
        label: makes the lab's run of a log and of how much time one step is.
        origin: all that the lab's problem depends on, for `fingerprint`: the trainer's name, task,
            start, data, batch, seeds, units, rates that are not `lr`; what is most telling first.
        drawn: more of the origin, of the problem and its start when they are built.
        lr: learning rate of gradient descent; or
        optimizer: any optax optimiser.
        log_points: of the log, evenly spaced in log step, unless a run asks for others; None for
            every 400th part of the run.
        check: called with the steps and the number of log points before anything is built; raises
            where they cannot be.
    """

    build: Callable[[], tuple[Any, Any]]
    label: Callable[[History, float], R]
    origin: Mapping[str, Any]
    drawn: Callable[[Any, Any], Mapping[str, Any]] | None = None
    lr: Any = None
    optimizer: optax.GradientTransformation | None = None
    log_points: int | None = None
    check: Callable[[int, int], None] | None = None

    @cached_property
    def _built(self) -> tuple[Any, Any]:
        return self.build()

    @property
    def problem(self) -> Any:
        """What is trained."""
        return self._built[0]

    @property
    def params(self) -> Any:
        """Where it starts."""
        return self._built[1]

    @cached_property
    def _rule(self) -> tuple[Any, Any, float]:
        """The optimiser, its state at the start, and how much time one step is."""
        if isinstance(self.problem, Iteration | Supplied):
            return None, (), 1.0
        return choose_optimizer(self.params, self.lr, self.optimizer)

    @property
    def state(self) -> tuple[Any, Any]:
        """Parameters and optimiser state at step 0."""
        return self.params, self._rule[1]

    @cached_property
    def _told(self) -> dict[str, str]:
        """The words of its origin that need not be built."""
        rate = None if self.lr is None else check_rate(self.lr)
        return fingerprint(**{**self.origin, "lr": rate, **self.origin})

    @cached_property
    def words(self) -> dict[str, str]:
        """Its origin, in words."""
        drawn = {} if self.drawn is None else self.drawn(self.problem, self.params)
        update = None if self.optimizer is None else program_of(self.optimizer, self.params)
        precision = jax.tree.leaves(self.params)[0].dtype.name
        return self._told | fingerprint(**drawn, optimizer=update, precision=precision)

    def run(
        self,
        *,
        steps: int | None = None,
        log_every: int | None = None,
        log_points: int | None = None,
        at: Sequence[int] | None = None,
        progress: Progress | None = None,
        resume: R | None = None,
    ) -> R:
        """Train from start to end, and give the run as its lab labels it.

        Args:
            steps: how many steps, counted from the beginning.
            log_every: steps between two log points; or
            log_points: points of the log, evenly spaced in log step; or
            at: the steps to log at, from 0 to the last.
            progress: called with (step, steps) now and then.
            resume: a run of the same problem to go on from.

        Raises:
            Interrupted: at Ctrl-C, with the run so far.
        """
        points = self._points(steps, log_every, log_points, at)
        if resume is not None:
            self._refuse_other(resume, int(points[-1]))  # before anything is built
        state = self.state
        if resume is not None:
            self._refuse_unfit(resume)
            state, done = resume.state, resume.step[-1]
            points = np.append(done, points[points > done])
        history = _descended(self.problem, state, self._rule[0], points, progress)
        run = self.labelled(history)
        if resume is not None:
            run = joined(resume, run)
        if not history.finished:
            raise Interrupted(run)
        return run

    def labelled(self, history: History) -> R:
        """The run of a log."""
        return replace(self.label(history, self._rule[2]), origin=self.words)

    def seen(self, state: Any, step: int) -> R:
        """A run that has logged one state alone."""
        at = self.problem.supply(step)[0] if isinstance(self.problem, Supplied) else self.problem
        seen = jax.tree.map(lambda x: stage(np.asarray(x)[..., None]), _observe(at, state))
        return self.labelled(History(np.array([step]), seen, state, True))

    def _points(self, steps: Any, log_every: Any, log_points: Any, at: Any) -> np.ndarray:
        """The steps to log at, checked."""
        if at is None:
            default = self.log_points if log_every is None and log_points is None else log_points
            points = log_steps(steps, log_every, default)
        elif log_every is None and log_points is None:
            points = _given_steps(at, steps)
        else:
            raise ValueError("at cannot be given with log_every or log_points")
        if self.check is not None:
            self.check(int(points[-1]), len(points))
        return points

    def _refuse_other(self, resume: Any, steps: int) -> None:
        """Raise unless `resume` is a run with steps left, of a problem of the same words."""
        if not isinstance(resume, Run):
            raise ValueError(f"resume must be a run, not {type(resume).__name__}")
        done = int(resume.step[-1])
        if steps < done:
            raise ValueError(f"steps must be at least {done}, those done already, not {steps}")
        if not resume.origin:
            warnings.warn("resume does not say of which problem it is a run", stacklevel=4)
        told = {name.split(".")[0] for name in self._told}
        early = {name: x for name, x in resume.origin.items() if name.split(".")[0] in told}
        if resume.origin and (other := difference(early, self._told)):
            raise ValueError(f"resume must be a run of the same problem: {other}")

    def _refuse_unfit(self, resume: Run) -> None:
        """Raise unless `resume` is a run of this problem as it is built, before any step."""
        if resume.origin and (other := difference(resume.origin, self.words)):
            raise ValueError(f"resume must be a run of the same problem: {other}")
        if _form(self.state) != _form(resume.state):
            raise ValueError("resume must be a run of the same model, with the same seeds")
        # What follows is for damage, and for runs that do not say what they are runs of.
        here = self.seen(resume.state, int(resume.step[-1]))
        if _names(here) != _names(resume):
            raise ValueError("resume must be a run with the same tests")
        if not np.allclose(here.time[..., 0], resume.time[..., -1], rtol=1e-9):
            raise ValueError("resume must be a run at the same lr, in the same units")
        # The same state has the same loss on the same data, but for how the compiler rounds.
        if not np.allclose(here.loss[..., 0], resume.loss[..., -1], rtol=1e-6, equal_nan=True):
            raise ValueError("resume must be a run on the same data")


def _form(state: Any) -> Any:
    """The structure of a state, and the shapes in it."""
    return jax.tree.structure(state), [np.shape(x) for x in jax.tree.leaves(state)]


def _alike(one: Training, other: Training) -> bool:
    """Whether two trainings can be one program: all that is not a number of them is the same."""
    forms = []
    for each in (one, other):
        if isinstance(each.problem, Supplied):
            return False
        arrays, rest = eqx.partition((each.problem, each.state), _is_array)
        shapes = [(x.shape, x.dtype) for x in jax.tree.leaves(arrays)]
        same = (each._rule[0], each.log_points, shapes, jax.tree.leaves(rest))
        forms.append((jax.tree.structure(arrays), jax.tree.structure(rest), same))
    return forms[0] == forms[1]


def run_all(
    trainings: Sequence[Training[R]],
    *,
    steps: int | None = None,
    log_every: int | None = None,
    log_points: int | None = None,
    at: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> list[R]:
    """The runs of several trainings, those of one shape side by side in one program.

    Each run is what `Training.run` gives but for round-off, and can be resumed by itself.

    Args:
        trainings: with the same optimiser, or gradient descent at their own rates, to be side by
            side; those whose random numbers come from the host are trained in turn.
        steps, log_every, log_points, at: as of `Training.run`.
        progress: called with (step, steps) now and then, both summed over the programs.

    Raises:
        Interrupted: at Ctrl-C, with a list of the runs so far.
    """
    points = [each._points(steps, log_every, log_points, at) for each in trainings]
    groups: list[list[int]] = []
    for k, each in enumerate(trainings):
        group = next((g for g in groups if _alike(trainings[g[0]], each)), None)
        groups.append([k]) if group is None else group.append(k)
    runs: dict[int, R] = {}
    for k, group in enumerate(groups):
        look = progress and _part(progress, k, len(groups))
        members = [trainings[g] for g in group]
        history = _together(members, points[group[0]], look)
        for row, (g, each) in enumerate(zip(group, members, strict=True)):
            runs[g] = each.labelled(_row(history, row) if len(members) > 1 else history)
        if not history.finished:
            raise Interrupted([runs.get(g) for g in range(len(trainings))])
    return [runs[g] for g in range(len(trainings))]


def _part(progress: Progress, done: int, parts: int) -> Progress:
    return lambda step, steps: progress(done * steps + step, parts * steps)


def _together(trainings: Sequence[Training], points: Any, progress: Progress | None) -> History:
    """The log of trainings of one shape, on a leading axis where there is more than one."""
    first = trainings[0]
    if len(trainings) == 1:
        return _descended(first.problem, first.state, first._rule[0], points, progress)
    shapes = jax.tree.leaves(eqx.filter_eval_shape(first.problem.observe, first.params))
    logged = sum(math.prod(x.shape) * x.dtype.itemsize for x in shapes) * len(points)
    refuse("trainings", len(trainings), 3.0 * logged * len(trainings))
    problem = Abreast(_stacked([each.problem for each in trainings]), first._rule[0])
    start = _stacked([each.state for each in trainings])
    history = _descended(problem, (start, ()), None, points, progress)
    return replace(history, state=history.state[0])


def _row(history: History, row: int) -> History:
    """The log of one of several trainings."""
    observed, state = jax.tree.map(
        lambda x: stage(np.asarray(x)[row]), (history.observed, history.state)
    )
    return replace(history, observed=observed, state=state)
