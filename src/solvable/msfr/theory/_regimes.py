"""Where Adam is sign descent, and where it is gradient descent."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ..start import Init
from ..task import Task
from ._adam import (
    B1,
    B2,
    EPS,
    LR,
    MAX_EPS,
    MIN_EPS,
    Adam,
    adam_of,
    alike,
    check,
    check_shared,
    law_of,
    number,
    prediction,
    states,
)
from ._loss import loss

_PIECES = 64  # straight pieces of a path of sign descent, more than any has
_SAME = 1.0 + 1e-12  # turns as close as that come at once
_SETTLED = 1e-8  # of f − Λ at the start, from which on √v̂ only decays
_LONGEST = 5000  # steps after which it is taken to
_FAR = 1e5  # steps that are followed at most


@dataclass(frozen=True)
class AdamRegimes:
    """When Adam learns which task.

    Attributes:
        gradient: g, the largest entry at the start of the gradient of a task of weight 1.
        sign_tasks: ``s* = (Z g/eps)^{1/α}``. Tasks before it fall together, whatever their weight;
            those after it one after another, as in gradient descent. A power law in t is seen only
            if there are many more tasks.
        arrival: ``t_×``, the steps in which entries that move by lr each reach ``f = Λ``; infinite
            where they do not.
        plateau: ``L_flow(lr t_×/eps)``, about where the loss stops when the first tasks have
            arrived: what the others have left, ``∝ eps^{(α−1)/α}`` if there are many more than s*.
        unstable: the step from which on the first task, learned, is unstable, so that rounding
            errors grow: as √v̂ forgets the descent, ``lr Σ_i (∂_i f)²/(√v̂_i + q)`` comes to
            ``2(1+β1)/(1−β1)``. Infinite where q alone keeps it below; None where arrival takes more
            than 10⁵ steps, so that it is not followed.
        task, init, lr, eps: what these are the regimes of.
    """

    gradient: float
    sign_tasks: float
    arrival: float
    plateau: float
    unstable: float | None
    task: Task
    init: Init
    lr: float
    eps: float

    def flow(self, steps: Any) -> Float[Array, "..."]:
        """``L_flow(lr t/eps)``, which the loss follows for t ≫ t_×, but for O(t_×/t)."""
        return loss(self.task, self.init, validation.real("steps", steps) * (self.lr / self.eps))

    def learned_at(self, index: Any) -> Float[np.ndarray, "..."]:
        """About when task s is learned: at t_× up to s*, at ``t_× (s/s*)^α`` beyond."""
        s = validation.real("index", index)
        return self.arrival * np.maximum(s / self.sign_tasks, 1.0) ** float(self.task.alpha)


def adam_regimes(
    task: Task,
    init: Init,
    *,
    lr: float = LR,
    b1: float = B1,
    b2: float = B2,
    eps: float = EPS,
) -> AdamRegimes:
    """Where Adam on linear attention passes from sign descent to gradient descent.

    ``s* = (Z g/eps)^{1/α}``: tasks before it move by ±lr a step whatever their weight and arrive
    together, at t_×. Beyond it Adam is gradient descent of step lr/eps, task s is learned at
    ``t_s = t_× (s/s*)^α``, and for ``t ≫ t_×`` the loss is ``L_flow(lr t/eps)``, which has the
    exponent ``(α−1)/α`` of gradient descent.

    Args:
        task: tasks that share their context and strength.
        init: where linear attention starts, all tasks alike.
        lr, b1, b2, eps: of Adam, as in `adam_loss`.

    Returns:
        The scales, and the laws between and beyond them.

    Reference: not in the paper. It says why Fig. 10c shows no power law: 500 tasks are few.

    >>> from solvable import msfr
    >>> task = msfr.Task(num_tasks=500, alpha=1.8, context=100.0, strength=0.5)
    >>> found = msfr.adam_regimes(task, msfr.Init(v=0.1, w=0.11))
    >>> f"{found.gradient:.1f} {found.sign_tasks:.3g} {found.arrival:.1f}"
    '33.0 1.37e+05 11.5'
    """
    check(task, init)
    check_shared(task, init, "Adam's regimes are those of tasks that differ in weight only")
    adam, eps = adam_of(lr, b1, b2, 0.0), number("eps", eps, MIN_EPS, MAX_EPS)
    alpha, z = float(task.alpha), float(task.normaliser)
    left, reach = prediction(*law_of(task), alike(task, init, np.zeros(1)).theta)
    g, arrival = float(np.max(np.abs(left * reach))), _sign_length(task, init) / adam.lr
    return AdamRegimes(
        gradient=g,
        sign_tasks=(z * g / eps) ** (1.0 / alpha),
        arrival=arrival,
        plateau=float(loss(task, init, adam.lr * arrival / eps)),
        unstable=_unstable(task, init, eps / z, adam, arrival),
        task=task,
        init=init,
        lr=adam.lr,
        eps=eps,
    )


def _sign_length(task: Task, init: Init) -> float:
    """How far every entry goes until f = Λ, where all move at the same speed, downhill.

    Along a straight piece f is quadratic. It ends where an entry of H v or H w changes its sign,
    which turns an entry of the other vector round.
    """
    law = law_of(task)
    theta = alike(task, init, np.zeros(1)).theta[:, 0]
    left, reach = prediction(*law, theta)
    side, signs, gone = np.sign(left), np.sign(reach), 0.0
    for _ in range(_PIECES):
        if left == 0.0:
            break
        # What nothing pulls at yet is pulled at once the others have moved.
        for _ in range(2):
            signs = np.where(signs == 0.0, np.sign(prediction(*law, -side * signs)[1]), signs)
        change = prediction(*law, -side * signs)[1]
        if np.any(signs * np.where(reach == 0.0, change, 0.0) < 0.0) or not np.any(signs):
            return math.inf  # what would turn an entry round is turned round by it: a saddle
        bend = -0.5 * float(np.sum(signs * change))
        arrived = _first_root(float(side * left), -float(np.sum(np.abs(reach))), bend)
        towards = signs * change < 0.0
        turns = np.where(towards, np.abs(reach / np.where(towards, change, 1.0)), math.inf)
        turn = float(np.min(turns))
        if not turn < arrived:
            return gone + arrived
        theta, gone = theta - side * turn * signs, gone + turn
        turned = turns <= turn * _SAME
        left, reach = prediction(*law, theta)
        reach, signs = np.where(turned, 0.0, reach), np.where(turned, -signs, signs)
    return gone if left == 0.0 else math.inf


def _first_root(level: float, slope: float, bend: float) -> float:
    """The smallest positive root of ``level + slope x + bend x²``, level > 0 ≥ slope."""
    inside = slope**2 - 4.0 * bend * level
    below = -slope + math.sqrt(max(inside, 0.0))
    return 2.0 * level / below if inside >= 0.0 and below > 0.0 else math.inf


def _unstable(task: Task, init: Init, ratio: float, adam: Adam, arrival: float) -> float | None:
    """The step from which on a learned task is unstable."""
    if not math.isfinite(arrival):
        return math.inf
    if arrival > _FAR:
        return None
    limit = 2.0 * (1.0 + adam.b1) / (1.0 - adam.b1) / adam.lr
    path = states(alike(task, init, np.array([ratio])), adam)
    now, step = next(path), 0
    settled = _SETTLED * abs(now.left[0])
    while step < arrival or (abs(now.left[0]) > settled and step < arrival + _LONGEST):
        now, step = next(path), step + 1
        if step > arrival and np.sum(now.reach**2 / (now.below + ratio)) >= limit:
            return float(step)
    reach, seen = now.reach**2, 1.0 - adam.b2 ** (step + 1.0)
    if np.sum(reach) < limit * ratio:
        return math.inf

    def excess(more: float) -> float:
        forgotten = adam.b2**more
        fade = math.sqrt(forgotten * seen / (1.0 - forgotten * (1.0 - seen)))
        return float(np.sum(reach / (now.below * fade + ratio))) - limit

    low, high = 0.0, 1.0
    while excess(high) < 0.0:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle) < 0.0 else (low, middle)
    return step + high
