"""What a sum over tasks runs over: all of them, or the few nodes that stand for them."""

import math
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, Int

from ...compiling import stage
from ...numerics.buckets import padding, run_bucket
from ...numerics.counting import block_edges, counting_rule
from ...numerics.host import is_known, module_of, numbers
from ..start import Init
from ..task import Task
from ._exact import modes
from ._modes import Column, Start
from ._zeroth import plateau

_FEWEST, _MOST = 16, 4096  # tasks between which their number is filled up for compiled functions
_ANY_ANGLE = math.atan2(math.pi, 100.0) / 4.0  # of traced parameters: α + β + 2γ = 4, 100 e-folds
_LONGEST_WAIT = 700.0
_LEAST_ANGLE = 1e-3  # shorter blocks would be many thousands, for tasks that hardly matter
_PLACES = 49  # at which plateaus are looked at


class Rows(eqx.Module):
    """Tasks, one a row, each standing for `count` of them."""

    start: Start
    weight: Column  # p_s
    index: Column  # s
    count: Column

    @property
    def share(self) -> Column:
        """How much of all data a row stands for."""
        return self.count * self.weight


def starts(task: Task, init: Init, index: Any = None) -> Start:
    """The tasks' context matrices and initial parameters, one row a task, or at some s.

    Entries so small that their products underflow are taken as 0 (contexts as 1e-150).
    """
    if index is None:
        return Start(*numbers(_starts, task.contexts, task.strengths, *init.columns(task)))
    law = (task.context, task.strength, task.beta, task.gamma, init.v, init.w)
    xp = module_of(*law, index)
    if is_known(*law, index):
        xp, law, index = np, jax.tree.map(np.asarray, law), np.asarray(index)
    context, strength, beta, gamma, v, w = law
    shape, log = (index.shape[0], 2), xp.log(index)
    values = (context * xp.exp(-beta * log), strength * xp.exp(-gamma * log))
    return Start(*_starts(xp, *values, xp.broadcast_to(v, shape), xp.broadcast_to(w, shape)))


def _starts(xp: Any, context: Any, strength: Any, v: Any, w: Any) -> tuple[Any, ...]:
    def flush(x: Any, tiny: float) -> Any:
        return xp.where(xp.abs(x) < tiny, 0.0, x)

    context = xp.maximum(context, 1e-150)
    return context, flush(strength, 1e-60), flush(v, 1e-101), flush(w, 1e-101)


def is_law(task: Task, init: Init) -> bool:
    """Whether everything is a law in s, or one number: not arrays, an entry a task."""
    return task.context.ndim == 0 and task.strength.ndim == 0 and init.is_uniform


def _blocks(task: Task, init: Init) -> dict[str, Any]:
    """How blocks of tasks are cut so that sums of any closed form are exact.

    A residual is analytic in log s up to where y = aσt reaches the poles of order zero. Of traced
    parameters the angle of those is not known; then it is that of α + β + 2γ = 4 and a plateau of
    100 e-folds, and starts down to about 1e-22 are summed to round-off.
    """
    if not is_known(task, init):
        return {"angle": _ANY_ANGLE}
    alpha, beta, gamma = (float(x) for x in (task.alpha, task.beta, task.gamma))
    angle = math.atan2(math.pi, longest_wait(task, init)) / (alpha + beta + 3.0 * gamma)
    return {"angle": max(angle, _LEAST_ANGLE), "near": _still(task)}


def longest_wait(task: Task, init: Init) -> float:
    """The longest plateau of any task, in e-folds, as if all were laws in s.

    With decaying strengths it may be longest in between, and where order zero stands still the
    exact flow waits for what the rest of the start makes of it.
    """
    some = np.geomspace(1.0, task.num_tasks, _PLACES)
    with np.errstate(all="ignore"):
        start = starts(task, init, some)
        _, plus, minus = modes(start)
        rising = np.where(start.strength[:, None] < 0.0, minus, plus)
        risen = 0.25 * np.sum(rising**2, axis=1)
        own = np.where(risen > 0.0, np.log1p(np.abs(start.strength) / risen), 0.0)
        waits = np.maximum(plateau(start), np.where(np.isfinite(own), own, 0.0))
    return min(float(np.max(waits)), _LONGEST_WAIT)


def edges_of(task: Task, init: Init) -> Int[np.ndarray, " edges"]:
    """Where blocks of tasks begin, and S + 1; a block each, where tasks do not follow laws."""
    if not is_law(task, init):
        return np.arange(1, task.num_tasks + 2)
    return block_edges(task.num_tasks, **_blocks(task, init))


def _still(task: Task) -> tuple[int, ...]:
    """Next to which s a uniform start has nothing along (1, Λ_s): where Λ_s passes −1."""
    strength, gamma = float(task.strength), float(task.gamma)
    if strength >= -1.0 or gamma == 0.0:
        return ()
    place = math.log(-strength) / gamma
    return (math.floor(math.exp(place)) + 1,) if place < math.log(task.num_tasks) else ()


def rows_of(task: Task, init: Init, cuts: tuple[int, ...] = ()) -> Rows:
    """The rows of a sum over tasks: nodes where tasks follow laws, all of them where not."""
    if not is_law(task, init):
        return all_rows(task, init)
    index, count = counting_rule(task.num_tasks, cuts=cuts, **_blocks(task, init))
    return Rows(starts(task, init, index), weights_at(task, index), index, count)


def rows_at(task: Task, init: Init, index: Float[np.ndarray, " n"]) -> Rows:
    """Rows at some s, each standing for itself; whole s, where tasks do not follow laws."""
    if is_law(task, init):
        one = np.ones(len(index))
        return Rows(starts(task, init, index), weights_at(task, index), index, one)
    return jax.tree.map(lambda x: x[index.astype(int) - 1], all_rows(task, init))


def weights_at(task: Task, index: Any) -> Any:
    """p_s at some s."""
    if is_known(task):
        return float(task.normaliser) * np.exp(-float(task.alpha) * np.log(index))
    return task.normaliser * module_of(task).exp(-task.alpha * np.log(index))


def all_rows(task: Task, init: Init) -> Rows:
    """Every task, one a row."""
    task.fit(24.0)
    one = np.ones(task.num_tasks)
    rows = Rows(starts(task, init), task.weights, task.index, one)
    return jax.tree.map(np.asarray, rows) if is_known(rows) else rows


def padded(rows: Rows) -> Rows:
    """Few rows filled up to a power of two with ones that stand for no task.

    So a new number of them compiles nothing.
    """
    count = rows.weight.shape[0]
    if count > _MOST or not is_known(rows):
        return rows
    place = padding(count, max(_FEWEST, run_bucket(count)))
    filled = jax.tree.map(lambda x: np.asarray(x)[place], rows)
    filled.count[count:] = 0.0
    return jax.tree.map(stage, filled)
