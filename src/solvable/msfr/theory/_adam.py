"""Adam on linear attention: every task is one task, trained with eps over its weight.

Adam's moments scale with the gradient, and so does its step's numerator with the root below it. A
task of weight p trained with eps therefore follows, step by step, the path of a task of weight 1
trained with ``q = eps/p``: ``p m̂ / (p √v̂ + eps) = m̂ / (√v̂ + q)``. Decoupled weight decay does not
see the gradient and changes nothing about it. So one family of paths, in q, holds all tasks of all
laws.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float
from scipy.special import zeta

from ... import memory, validation
from ...compiling import stage
from ...numerics.counting import counting_rule
from ...numerics.quadrature import gauss_legendre
from ..start import Init
from ..task import Task
from ._loss import shares_everything
from ._modes import Start
from ._tasks import all_rows, is_law, starts, weights_at

LR, B1, B2, EPS = 5e-3, 0.9, 0.999, 1e-8  # of Table 4
MAX_RATE = MAX_DECAY = 1.0
MIN_EPS, MAX_EPS = 1e-30, 1e30
MAX_STEPS = 10**7
# The nearest singularity in log s is not known: rules for nearer and nearer ones, until they agree.
_ANGLES = (0.16, 0.08, 0.04)
_ROUNDING = 1e-14  # of f − Λ, as a share of what it was
_SUMMED = 2**20  # tasks that are summed before an integral takes over
_PANEL = 0.46  # of that integral, in log s
_ORDER = 16
_BEYOND = 1e-14  # of the loss, to which tasks without end are followed


@dataclass(frozen=True)
class Adam:
    """The optimiser, without its eps."""

    lr: float
    b1: float
    b2: float
    weight_decay: float


@dataclass(frozen=True)
class Tasks:
    """Tasks side by side, or one for all; eps over the weight is what tells them apart."""

    context: Any
    strength: Any
    v: Any  # (2, 1) or (2, tasks)
    w: Any
    ratio: np.ndarray  # (tasks,)

    @property
    def theta(self) -> np.ndarray:
        """The four entries of every task."""
        return np.concatenate([np.broadcast_to(x, (2, len(self.ratio))) for x in (self.v, self.w)])


class State(NamedTuple):
    """Tasks after some steps, side by side."""

    left: np.ndarray  # f − Λ, (tasks,)
    theta: np.ndarray  # v_1, v_2, w_1, w_2, (4, tasks)
    reach: np.ndarray  # ∂f/∂θ: H w, H v
    below: np.ndarray  # √v̂ of the step to come


def states(tasks: Tasks, adam: Adam) -> Iterator[State]:
    """Adam from its first step on, of tasks of weight 1 each with its q."""
    theta = tasks.theta
    mean, square = np.zeros_like(theta), np.zeros_like(theta)
    for count in itertools.count(1):
        left, reach = prediction(tasks.context, tasks.strength, theta)
        slope = left * reach
        mean = adam.b1 * mean + (1.0 - adam.b1) * slope
        square = adam.b2 * square + (1.0 - adam.b2) * slope**2
        below = np.sqrt(square / (1.0 - adam.b2**count))
        yield State(left, theta, reach, below)
        above, below = mean / (1.0 - adam.b1**count), below + tasks.ratio
        # 0 where nothing pulls
        move = np.divide(above, below, out=np.zeros_like(above), where=below > 0.0)
        theta = theta - adam.lr * (move + adam.weight_decay * theta)


def prediction(context: Any, strength: Any, theta: np.ndarray) -> tuple[Any, np.ndarray]:
    """``f − Λ`` with ``f = vᵀ H w``, and the gradient of f: H w, H v."""
    v_1, v_2, w_1, w_2 = theta
    along_v, along_w = context * (v_1 + strength * v_2), context * (w_1 + strength * w_2)
    left = along_v * (w_1 + strength * w_2) + v_1 * w_1 - strength
    return left, np.stack([along_w + w_1, strength * along_w, along_v + v_1, strength * along_v])


def _paths(tasks: Tasks, steps: np.ndarray, adam: Adam) -> Iterator[np.ndarray]:
    """The residuals of all tasks after each of some increasing numbers of steps."""
    wanted = set(steps.tolist())
    for step, state in enumerate(states(tasks, adam)):
        if step in wanted:
            yield state.left
        if step == steps[-1]:
            return


def adam_residual(
    task: Task,
    init: Init,
    steps: Any,
    ratio: Any,
    *,
    lr: float = LR,
    b1: float = B1,
    b2: float = B2,
    weight_decay: float = 0.0,
) -> Float[Array, "..."]:
    r"""What Adam has left to learn of a task of weight p, ``R_t(q) = f(t) − Λ`` at ``q = eps/p``.

    Adam's moments scale with the gradient: ``p m̂ / (p √v̂ + eps) = m̂ / (√v̂ + q)``. So every task
    follows the path of a task of weight 1 trained with q in place of eps, exactly, whatever the law
    of tasks. Two regimes, with g the largest entry of its gradient at the start:

    - ``q ≪ g``, *sign*: R does not depend on q; parameters move by ±lr a step until they arrive,
      then R rings with the envelope ``β1^{t/2}``;
    - ``q ≫ g``, *linear*: gradient descent of step lr/q, so ``R_t(q) → R_flow(lr t/q)``.

    Args:
        task: tasks that share their context and strength; their number and α play no role.
        init: where linear attention starts, all tasks alike.
        steps: how many steps t were done, whole numbers: one or one axis.
        ratio: q = eps/p from 0 (the limit of sign descent) to infinity: one or one axis.
        lr: the step's size, in (0, 1].
        b1, b2: how much of the mean gradient and of the mean square is kept, in [0, 1).
        weight_decay: decoupled, as of AdamW, in [0, 1].

    Returns:
        Array of the axes of `steps`, then those of `ratio`; accurate to the rounding of f.

    Reference: not in the paper, whose App. I.2 trains by AdamW; a task has 4 numbers by eq. (8).

    >>> from solvable import msfr
    >>> task = msfr.Task(num_tasks=1, alpha=1.8, context=100.0, strength=0.5)
    >>> left = msfr.adam_residual(task, msfr.Init(v=0.1, w=0.11), [0, 10, 100], [0.0, 1e3])
    >>> [[f"{x:.4f}" for x in row] for row in left.tolist()]
    [['1.9860', '1.9860'], ['0.3192', '1.9263'], ['-0.0076', '1.4967']]
    """
    check(task, init)
    check_shared(task, init, "Adam's family is one of tasks that differ in weight only")
    count = _steps(steps)
    adam = adam_of(lr, b1, b2, weight_decay)
    validation.concrete("ratio", ratio, why="Adam runs")
    q = validation.real("ratio", ratio)
    if q.ndim > 1:
        raise ValueError(f"ratio must be one number or one axis of them, not of shape {q.shape}")
    validation.within("ratio", q, 0.0)
    memory.refuse("ratio", q.size, 16.0 * q.size * (count.size + 20.0))
    found = np.empty((count.size, q.size))
    asked, place = np.unique(count.ravel(), return_inverse=True)
    if count.size and q.size:
        paths = _paths(alike(task, init, q.ravel()), asked, adam)
        found = np.stack(list(paths))[place]
    return stage(found.reshape(count.shape + q.shape))


def adam_loss(
    task: Task,
    init: Init,
    steps: Any,
    *,
    lr: float = LR,
    b1: float = B1,
    b2: float = B2,
    eps: float = EPS,
    weight_decay: float = 0.0,
    endless: bool = False,
    tolerance: float = 1e-9,
) -> Float[Array, "..."]:
    r"""The population loss of linear attention trained by Adam, for any number of tasks.

    ``L(t) = ½ Σ_s p_s R_t(eps/p_s)²``, R as of `adam_residual`. Of very many tasks only the few
    hundred to thousand nodes of a Gauss rule of their sum are trained (`numerics.counting`), so
    that 10³ and 10¹⁵ tasks cost the same. With tasks without end ``Z = 1/ζ(α)``, and beyond the
    first 2^20 the sum is the integral ``(eps^{1−δ} Z^δ / 2α) ∫ q^{δ−2} R_t(q)² dq``, δ = 1/α.

    Args:
        task: the data law; contexts and strengths may be laws in s, or arrays.
        init: where linear attention starts.
        steps: how many steps t were done, whole numbers: one or one axis.
        lr: the step's size, in (0, 1].
        b1, b2: how much of the mean gradient and of the mean square is kept, in [0, 1).
        eps: what is added to the root of the mean square, above 0.
        weight_decay: decoupled, as of AdamW, in [0, 1].
        endless: of infinitely many tasks, which must share context and strength; `task.num_tasks`
            plays no role then.
        tolerance: to which relative accuracy the sum over tasks is asked, but for the rounding of
            f − Λ. Two rules must agree so well; the one with more nodes is mostly exact.

    Returns:
        Array (steps,), or a single number for a single step.

    Raises:
        ValueError: also where the tolerance is not reached. That happens after very many steps
            (about 10⁴ at β2 = 0.999): √v̂ forgets the gradients of the descent, steps grow until
            they are unstable, and rounding errors decide where a learned task is. See
            `AdamRegimes.unstable`.

    Reference: not in the paper; App. I.2 and Fig. 10 train softmax attention by AdamW.

    >>> from solvable import msfr
    >>> task = msfr.Task(num_tasks=10**6, alpha=1.8, context=100.0, strength=0.5)
    >>> found = msfr.adam_loss(task, msfr.Init(v=0.1, w=0.11), [100, 400])
    >>> [f"{x:.6e}" for x in found.tolist()]
    ['3.795151e-05', '1.447293e-06']
    """
    check(task, init)
    count = _steps(steps)
    adam = adam_of(lr, b1, b2, weight_decay)
    least = number("eps", eps, MIN_EPS, MAX_EPS)
    allowed = number("tolerance", tolerance, 1e-14, 1.0)
    if endless:
        check_shared(task, init, "an endless sum is that of one family")
    if not count.size:
        return stage(np.zeros(count.shape))
    asked, place = np.unique(np.append(0, count.ravel()), return_inverse=True)
    found = _converged(task, init, asked, adam, least, endless, allowed)
    return stage(found[place[1:]].reshape(count.shape))


def _converged(
    task: Task,
    init: Init,
    steps: np.ndarray,
    adam: Adam,
    eps: float,
    endless: bool,
    tolerance: float,
) -> np.ndarray:
    """The loss after each step, by rules with more and more nodes until two agree."""
    if not endless and not is_law(task, init):
        rows = all_rows(task, init)
        return _summed(_side_by_side(rows.start, eps / rows.weight), rows.weight, steps, adam)
    by_rule = _endless if endless else _finite
    few, apart, bad = by_rule(task, init, steps, adam, eps, math.inf), math.inf, steps > 0
    for angle in _ANGLES:
        more = by_rule(task, init, steps, adam, eps, angle)
        # f − Λ is rounded to some ulps of its start, which is all there is of it in the end.
        rounded = _ROUNDING * np.sqrt(more[0]) * (np.sqrt(more) + _ROUNDING * np.sqrt(more[0]))
        bad = np.abs(more - few) > tolerance * more + rounded
        if not bad.any():
            return more
        apart = np.max(np.abs(more - few)[bad] / more[bad])
        few = more
    raise ValueError(
        f"tolerance must be larger than {tolerance:g}: from step {steps[np.argmax(bad)]} on the "
        f"loss is known to {apart:.1g} only, as rounding errors grow there"
    )


def _summed(tasks: Tasks, share: np.ndarray, steps: np.ndarray, adam: Adam) -> np.ndarray:
    """``½ Σ share R²`` after each of some increasing numbers of steps."""
    return np.array([0.5 * np.sum(share * left**2) for left in _paths(tasks, steps, adam)])


def _finite(
    task: Task, init: Init, steps: np.ndarray, adam: Adam, eps: float, angle: float
) -> np.ndarray:
    """The sum over tasks that are laws in s, at the nodes of a rule."""
    index, count = counting_rule(task.num_tasks, angle=angle)
    weight = weights_at(task, index)
    return _summed(
        _side_by_side(starts(task, init, index), eps / weight), count * weight, steps, adam
    )


def _endless(
    task: Task, init: Init, steps: np.ndarray, adam: Adam, eps: float, angle: float
) -> np.ndarray:
    """The sum over infinitely many tasks: the first by the rule, the rest as an integral."""
    alpha = float(task.alpha)
    z = 1.0 / float(zeta(alpha))
    s, share = counting_rule(_SUMMED, angle=angle)
    begin = math.log(_SUMMED + 0.5)
    # Beyond the task reached, s_t, R is what it was but for (s_t/s)^α, in a share (s_t/s)^(α−1).
    speed = _speed(task, init, adam.lr * float(steps[-1]))
    reached = math.log(max(z * speed / eps, 1.0)) / alpha
    far = max(begin, reached) - math.log(_BEYOND) / (2.0 * alpha - 1.0)
    panel = min(_PANEL, 2.0 * angle / 1.4)
    edges = np.linspace(begin, far, math.ceil((far - begin) / panel) + 1)
    nodes, weights = gauss_legendre(_ORDER)
    length = np.diff(edges)[:, None]
    x = (edges[:-1, None] + length * nodes).ravel()
    width = (length * weights).ravel() * np.exp(x)
    x, width = np.append(np.log(s), x), np.append(share, width)
    p = z * np.exp(-alpha * x)
    # One of weight 0 stands for all beyond.
    rest = z * math.exp((1.0 - alpha) * far) / (alpha - 1.0)
    tasks = alike(task, init, np.append(eps * np.exp(alpha * x) / z, math.inf))
    return _summed(tasks, np.append(p * width, rest), steps, adam)


def _speed(task: Task, init: Init, length: float) -> float:
    """The eps/p of tasks that have just begun to be learned after `length` = lr t."""
    context, strength = law_of(task)
    left, reach = prediction(context, strength, alike(task, init, np.zeros(1)).theta)
    grown = float(abs(left[0])) * (context * (1.0 + strength**2) + 1.0)  # θ̇ = p (Λ − f) H θ
    return float(np.max(np.abs(left * reach))) + length * (float(np.sum(reach**2)) + grown)


def law_of(task: Task) -> tuple[float, float]:
    """The context, not so short that products underflow, and the strength that all tasks share."""
    return max(float(task.context), 1e-30), float(task.strength)


def alike(task: Task, init: Init, ratio: np.ndarray) -> Tasks:
    """Tasks that differ in eps/p only."""
    return Tasks(*law_of(task), float(init.v), float(init.w), ratio)


def _side_by_side(start: Start, ratio: np.ndarray) -> Tasks:
    """Tasks that may differ in everything."""
    context, strength, v, w = (np.asarray(x) for x in jax.tree.leaves(start))
    return Tasks(context, strength, v.T, w.T, ratio)


def check(task: Any, init: Any) -> None:
    """Refuse what is no task or no start of linear attention."""
    validation.needs_double("Adam's family")
    if not isinstance(task, Task):
        raise ValueError(f"task must be a msfr.Task, not {type(task).__name__}")
    if not isinstance(init, Init):
        raise ValueError(
            f"init must be a msfr.Init: Adam's family is that of linear attention, not "
            f"{type(init).__name__}"
        )
    validation.concrete("task and init", task, init, why="Adam runs")


def check_shared(task: Task, init: Init, why: str) -> None:
    """Refuse tasks that differ in more than their weight."""
    if not shares_everything(task, init):
        raise ValueError(
            f"task and init must have one context, strength and start for all tasks: {why}"
        )


def number(name: str, value: Any, low: float, high: float) -> float:
    """A single number, checked."""
    validation.concrete(name, value, why="Adam runs")
    found = validation.real(name, value)
    validation.shaped(name, found, ())
    validation.within(name, found, low, high)
    return float(found)


def adam_of(lr: Any, b1: Any, b2: Any, weight_decay: Any) -> Adam:
    """The optimiser, checked."""
    most = 1.0 - 1e-9
    return Adam(
        number("lr", lr, 1e-30, MAX_RATE),
        number("b1", b1, 0.0, most),
        number("b2", b2, 0.0, most),
        number("weight_decay", weight_decay, 0.0, MAX_DECAY),
    )


def _steps(steps: Any) -> np.ndarray:
    """Numbers of steps of at most one axis, checked."""
    validation.concrete("steps", steps, why="Adam runs")
    found = validation.real("steps", steps)
    if found.ndim > 1:
        raise ValueError(f"steps must be one number or one axis of them, not {found.shape}")
    for each in found.ravel():
        validation.whole("steps", each, 0, MAX_STEPS)
    return found.astype(int)
