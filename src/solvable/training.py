"""What is trained, before any step and after: one runner for every lab, with runs side by side."""

import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from . import validation
from .compiling import stage
from .descent import Abreast as Abreast
from .descent import History as History
from .descent import Iteration as Iteration
from .descent import Problem as Problem
from .descent import Progress as Progress
from .descent import SideBySide as SideBySide
from .descent import Supplied as Supplied
from .descent import (
    check_rate,
    choose_optimizer,
    descended,
    given_steps,
    is_array,
    observe,
    stacked,
)
from .descent import log_steps as log_steps
from .fingerprint import difference, fingerprint, program_of
from .memory import refuse
from .schedule import LOG_POINTS as LOG_POINTS

if TYPE_CHECKING:
    import xarray as xr

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


def seeds_of(seed: int | Sequence[int]) -> tuple[list[int], bool]:
    """The seeds of a run, and whether there is an axis of them."""
    many = isinstance(seed, Sequence | np.ndarray)
    seeds: list[Any] = list(seed) if many else [seed]  # pyright: ignore[reportArgumentType]
    if not seeds:
        raise ValueError("seed must be a whole number or a sequence with at least one")
    return [validation.whole("seed", s) for s in seeds], many


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
        history = descended(self.problem, state, self._rule[0], points, progress)
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
        seen = jax.tree.map(lambda x: stage(np.asarray(x)[..., None]), observe(at, state))
        return self.labelled(History(np.array([step]), seen, state, True))

    def _points(self, steps: Any, log_every: Any, log_points: Any, at: Any) -> np.ndarray:
        """The steps to log at, checked."""
        if at is None:
            default = self.log_points if log_every is None and log_points is None else log_points
            points = log_steps(steps, log_every, default)
        elif log_every is None and log_points is None:
            points = given_steps(at, steps)
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
        arrays, rest = eqx.partition((each.problem, each.state), is_array)
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
        return descended(first.problem, first.state, first._rule[0], points, progress)
    shapes = jax.tree.leaves(eqx.filter_eval_shape(first.problem.observe, first.params))
    logged = sum(math.prod(x.shape) * x.dtype.itemsize for x in shapes) * len(points)
    refuse("trainings", len(trainings), 3.0 * logged * len(trainings))
    problem = Abreast(stacked([each.problem for each in trainings]), first._rule[0])
    start = stacked([each.state for each in trainings])
    history = descended(problem, (start, ()), None, points, progress)
    return replace(history, state=history.state[0])


def _row(history: History, row: int) -> History:
    """The log of one of several trainings."""
    observed, state = jax.tree.map(
        lambda x: stage(np.asarray(x)[row]), (history.observed, history.state)
    )
    return replace(history, observed=observed, state=state)
