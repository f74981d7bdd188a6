"""What sums over tasks of softmax attention run over: all of them, or nodes that stand for many."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array

from ... import validation
from ...numerics.counting import TailSum, block_edges, counting_rule
from ...numerics.host import is_known, unpacked
from ..start import SoftmaxInit
from ..task import Task
from ._softmax_modes import Numbers, both_modes, chances
from ._tasks import weights_at

_LENGTHS = 20_000  # different contexts whose chances are worked out
_ALL = 4096  # tasks that are added up one by one
_ROWS = 1 << 11  # tasks whose modes are worked out at once
_LEAD = 8.0  # by which a logarithm of attention leads where the others are left out of sums
_STEEPEST = 10.0  # α where it is not known
_CAUTIOUS = 0.05  # angle of analyticity where nothing is known


class Nodes(eqx.Module):
    """The tasks at which a sum is taken, as far as they are known without α, Λ and the start.

    Attributes:
        index: s, increasing.
        count: how many tasks each stands for.
        lengths: the different contexts ψ.
        place: which of them each has.
        table: of `chances`, of the different contexts.
    """

    index: Any
    count: Any
    lengths: Any
    place: Any
    table: Any


@dataclass(frozen=True)
class Tasks:
    """Tasks, or nodes that stand for many of them, as sums take them.

    Attributes:
        index: s, increasing.
        count: how many tasks each stands for.
        weight: p_s.
        rates, errors: μ and e, (2, tasks).
    """

    index: Numbers
    count: Numbers
    weight: Numbers
    rates: Numbers
    errors: Numbers

    @property
    def speeds(self) -> Numbers:
        """``2 p_s μ_i``, (2, tasks)."""
        return 2.0 * self.weight[None, :] * self.rates

    @property
    def amounts(self) -> Numbers:
        """``½ p_s e_i`` times the number of tasks, (2, tasks)."""
        return 0.5 * (self.count * self.weight)[None, :] * self.errors


class SoftmaxTasks:
    """All tasks of a law by few of them: the blocks of a rule, and the tasks at any s in them."""

    def __init__(self, task: Task, init: SoftmaxInit, *, each: bool = False):
        """Look at tasks and start.

        Args:
            task: the data law.
            init: where softmax attention starts.
            each: whether every task is wanted, not nodes that stand for many.
        """
        check_softmax(task, init)
        validation.concrete(
            "context and beta", task.context, task.beta, why="contexts are rounded to whole lengths"
        )
        self.task, self.init = task, init
        arrays = (task.context, task.strength, init.value, init.key, init.query)
        self.is_law = not any(x.ndim for x in arrays)
        self.by_rule = self.is_law and not each and task.num_tasks > _ALL
        if not self.by_rule:
            task.fit(60.0)

    def edges(self, cuts: tuple[int, ...] = ()) -> np.ndarray:
        """Where blocks begin, and S + 1."""
        count = self.task.num_tasks
        if not self.by_rule:
            return np.arange(1, count + 2)
        return block_edges(count, angle=self._angle, cuts=(*self._jumps, *cuts))

    def tasks(self, cuts: tuple[int, ...] = ()) -> Tasks:
        """The tasks to sum over, with no node across the whole numbers of `cuts`."""
        return self._tasks(self.nodes(cuts))

    def nodes(self, cuts: tuple[int, ...] = ()) -> Nodes:
        """What is known of them without α, Λ and the start."""
        count = self.task.num_tasks
        if not self.by_rule:
            return self._nodes(np.arange(1.0, count + 1.0), np.ones(count))
        return self._nodes(*counting_rule(count, angle=self._angle, cuts=(*self._jumps, *cuts)))

    def at(self, index: np.ndarray, count: np.ndarray) -> Tasks:
        """The tasks at s, which between whole numbers have the context of the one before."""
        return self._tasks(self._nodes(index, count))

    def _nodes(self, index: np.ndarray, count: np.ndarray) -> Nodes:
        context = np.asarray(self.task.context)
        if context.ndim:
            lengths = context[index.astype(int) - 1]
        else:
            lengths = context * np.exp(-float(self.task.beta) * np.log(np.floor(index)))
        lengths, place = np.unique(np.maximum(np.round(lengths), 1.0), return_inverse=True)
        return Nodes(index, count, lengths, place, chances(lengths))

    def _tasks(self, nodes: Nodes) -> Tasks:
        _, (_, *rest) = unpacked(self.parameters)
        with np.errstate(all="ignore"):
            rates, errors = modes_at(np, nodes, *rest, **self.static)
        return Tasks(nodes.index, nodes.count, weights_at(self.task, nodes.index), rates, errors)

    @property
    def parameters(self) -> tuple[Numbers, ...]:
        """All of the law and of the start that may be traced."""
        task, init = self.task, self.init
        return (task.alpha, task.strength, task.gamma, init.value, init.key, init.query)

    @property
    def static(self) -> dict[str, Any]:
        """What the formula depends on besides."""
        shared = self.is_law and is_zero(self.task.gamma)
        return {"width": self.init.width_for(self.task), "shared": shared}

    def tail(self) -> TailSum:
        """``½ Σ_{s ≥ D} p_s Σ_i e_i``, what a model of size D leaves for ever, for any D."""

        def term(index: np.ndarray) -> np.ndarray:
            return np.sum(self.at(index, np.ones(len(index))).amounts, axis=0)

        return TailSum(self.edges(), term)

    @cached_property
    def _angle(self) -> float:
        """How far from the real axis of log s the sums' terms are analytic and bounded.

        ``exp(−2pμt)`` grows once ``s^−α`` turns by a right angle; where strengths vary, D(n) has
        zeros once u turns by as much and is not so large that one token has all attention.
        """
        alpha, gamma = self.task.alpha, self.task.gamma
        angle = 0.5 * math.pi / (float(alpha) if is_known(alpha) else _STEEPEST)
        if is_zero(gamma):
            return angle
        if not is_known(gamma, self.task.strength, self.init):
            return min(angle, _CAUTIOUS)
        own, _ = attention_at(np, self.init.key, self.init.query, self.static["width"])
        lead = math.log(float(self.task.context) + 1.0) + _LEAD
        turn = min(abs(float(own) * float(self.task.strength)), lead)
        narrow = math.asin(min(1.0, 0.5 * math.pi / max(turn, 1.0))) / max(float(gamma), 1e-9)
        return min(angle, narrow)

    @cached_property
    def _jumps(self) -> tuple[int, ...]:
        """Where rounded contexts change, each with its neighbours, as whole numbers up to S."""
        task = self.task
        if is_zero(task.beta):
            return ()
        first, beta, most = float(task.context), float(task.beta), task.num_tasks
        last = max(1.0, round(first * float(most) ** -beta))
        if first - last > _LENGTHS:
            raise ValueError(
                f"context must give at most {_LENGTHS} different lengths for more than {_ALL} "
                f"tasks, not {first - last:.0f}"
            )
        lengths = np.arange(last, round(first)) + 0.5
        with np.errstate(over="ignore"):
            places = np.minimum((first / lengths) ** (1.0 / beta), float(most))
        near = np.floor(places)[:, None] + np.arange(3.0)
        return tuple(int(x) for x in np.unique(near) if 1 < x <= most)


def modes_at(
    xp: Any,
    nodes: Nodes,
    strength: Numbers,
    gamma: Numbers,
    value: Numbers,
    key: Numbers,
    query: Numbers,
    *,
    width: int,
    shared: bool,
) -> tuple[Numbers, Numbers]:
    """μ and e at nodes, (2, nodes), once for every context where they are `shared`."""
    index = nodes.index[:1] if shared else nodes.index
    whole = index.astype(int) - 1
    strength = strength[whole] if strength.ndim else strength * xp.exp(-gamma * xp.log(index))
    value = value[whole].T if value.ndim else xp.broadcast_to(value, (2, index.shape[0]))
    own, target = attention_at(xp, key, query, width)
    if own.ndim:
        own, target = own[whole], target[whole]
    own = own + 0.0 * strength
    start = (own + target * strength, own, strength, value[0], value[1])
    if shared:
        rates, errors = both_modes(xp, nodes.lengths, nodes.table, start)
        return rates[:, nodes.place], errors[:, nodes.place]
    parts = []
    for first in range(0, index.shape[0], _ROWS):
        here = slice(first, first + _ROWS)
        place = nodes.place[here]
        table = (nodes.table[0][place], nodes.table[1][place])
        parts.append(both_modes(xp, nodes.lengths[place], table, tuple(x[here] for x in start)))
    rates, errors = (xp.concatenate(each, axis=1) for each in zip(*parts, strict=True))
    return rates, errors


def attention_at(xp: Any, key: Numbers, query: Numbers, width: int) -> tuple[Numbers, Numbers]:
    """``K_s·Q_s`` and ``K_y·Q_s``: single numbers where all entries are one, else one a task."""
    if not key.ndim and not query.ndim:
        own = float(width) * (key * query)
        return own, own
    if not query.ndim:
        total = xp.sum(key, axis=0) * query
        return total[:-1], xp.broadcast_to(total[-1:], total[:-1].shape)
    if not key.ndim:
        total = (key * xp.sum(query, axis=0))[:-1]
        return total, total
    return xp.sum(key * query, axis=0)[:-1], xp.sum(key[:, -1:] * query, axis=0)[:-1]


def check_softmax(task: Any, init: Any) -> None:
    """Refuse what is no task or no start of softmax attention."""
    validation.needs_double("the closed form")
    if not isinstance(task, Task):
        raise ValueError(f"task must be a msfr.Task, not {type(task).__name__}")
    if not isinstance(init, SoftmaxInit):
        raise ValueError(
            f"init must be a msfr.SoftmaxInit (softmax attention), not {type(init).__name__}"
        )


def is_zero(decay: Array) -> bool:
    return is_known(decay) and float(decay) == 0.0
