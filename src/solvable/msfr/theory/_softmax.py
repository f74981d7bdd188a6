"""Softmax attention whose keys are at rest: the loss as a sum of two exponentials a task.

With ``u = (K_s + Λ_s K_y)·Q_s`` and ``d = K_s·Q_s`` fixed the prediction is linear in V: if n of
the ψ context signs equal the query's, f times ε̂ is ``V·c(n)``, ``c = (A + O, Λ A)``,
``A = [n e^u − (ψ−n) e^−u]/D``, ``O = e^d/D``, ``D = n e^u + (ψ−n) e^−u + e^d``. So V moves in a
quadratic loss with ``M = Σ_n Binom(n; ψ, ½) c cᵀ``, whose minimum is exact for every n:
``V*_1 = Λ[1 + ψ e^{−u−d}(1 + tanh u)]``, ``V*_1 + Λ V*_2 = Λ tanh u``.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from ...numerics.counting import gauss_of_counting
from ...numerics.host import is_known, numbers, packed, unpacked
from ...numerics.streaming import in_blocks
from ..start import SoftmaxInit
from ..task import Task
from ._softmax_modes import Numbers
from ._softmax_tasks import (
    Nodes,
    SoftmaxTasks,
    Tasks,
    attention_at,
    check_softmax,
    is_zero,
    modes_at,
)

AT_REST = 3.0  # u from which on training follows keys at rest within 1 %
NEVER_ENDING = 1e300  # times from which on nothing is left to learn
_PIECE = 1 << 20  # entries (tasks × times) worked on at once


class SoftmaxStart(eqx.Module):
    """How far attention is from flat before training, which keys at rest keep.

    Attributes:
        agreeing: u, what a context token of the query's sign has in the exponent; others have −u.
        own: d, what the query's own token has.
    """

    agreeing: Float[Array, ""] | Float[Array, " tasks"]
    own: Float[Array, ""] | Float[Array, " tasks"]

    @property
    def at_rest(self) -> bool:
        """Whether |u| ≥ 3 for every task, from where on training follows keys at rest."""
        return bool(np.min(np.abs(np.asarray(self.agreeing))) >= AT_REST)


class SoftmaxModes(eqx.Module):
    """The two exponentials of every task: ``E_s(t) = Σ_i e_i exp(−2 p_s μ_i t)``.

    Attributes:
        rates: μ, eigenvalues of M, the larger one first.
        errors: e, which add up to the mean square error at the start.
    """

    rates: Float[Array, "tasks 2"]
    errors: Float[Array, "tasks 2"]


def softmax_start(task: Task, init: SoftmaxInit) -> SoftmaxStart:
    """``u = (K_s + Λ_s K_y)·Q_s`` and ``d = K_s·Q_s`` at the start.

    Args:
        task: the data law.
        init: where softmax attention starts.

    Returns:
        Single numbers where tasks share them, else one a task. The closed form follows training
        while u is large; see `softmax_loss`.

    Reference: App. I.1.

    >>> from solvable import msfr
    >>> task = msfr.Task(num_tasks=500, alpha=1.8, context=100.0, strength=0.5)
    >>> start = msfr.softmax_start(task, msfr.SoftmaxInit(value=0.1, key=0.1, query=0.11))
    >>> round(float(start.agreeing), 4), start.at_rest
    (8.2665, True)
    """
    check_softmax(task, init)
    shared = task.strength.ndim == 0 and is_zero(task.gamma)
    strength = task.strength if shared else task.strengths
    width = init.width_for(task)
    return SoftmaxStart(*numbers(_start, strength, init.key, init.query, width=width))


def _start(
    xp: Any, strength: Numbers, key: Numbers, query: Numbers, width: int
) -> tuple[Numbers, Numbers]:
    own, target = attention_at(xp, key, query, width)
    return own + target * strength, own + 0.0 * strength


def softmax_modes(task: Task, init: SoftmaxInit) -> SoftmaxModes:
    """The two modes of V in every task, keys at rest.

    Args:
        task: the data law; contexts are rounded, as in training.
        init: where softmax attention starts.

    Returns:
        Rates and errors, (tasks, 2). The second mode is slow: ``μ_2 ≈ 4Λ² e^{2(d−u)}/(ψ³ (1+Λ²))``
        at moderate u, ``2^−ψ Λ²/(1+Λ²)`` once attention is saturated.
    """
    tasks = SoftmaxTasks(task, init, each=True)
    return SoftmaxModes(*numbers(_each, tasks.nodes(), tasks.parameters, **tasks.static))


def _each(xp: Any, nodes: Nodes, law: tuple, **static: Any) -> tuple[Numbers, Numbers]:
    rates, errors = modes_at(xp, nodes, *law[1:], **static)
    return rates.T, errors.T


def softmax_loss(
    task: Task, init: SoftmaxInit, t: Any, size: Any = None, data: Any = None
) -> Float[Array, "..."]:
    """The population loss of softmax attention with keys at rest.

    ``L(t) = ½ Σ_s p_s Σ_i e_i exp(−2 p_s μ_i t)``, μ_i the eigenvalues of M and
    ``e_i = μ_i (component of V(0) − V*)²``: no floor at any u, but a slow mode. Tasks ``s ≥ D``
    keep Σ_i e_i; with N data, ``#_s ~ Binomial(N, p_s)``, an exponential's mean is
    ``(1 − p_s(1 − e^{−2μ_i t/N}))^N`` (the signs within a task's data are taken at their chances).

    Training follows it for u ≳ 3 (`softmax_start`). At S = 300, α = 1.8, ψ = 20, Λ = ½ and t ≤ 400
    it is, over training: within 0.2 % at u = 8.27 and 2.97, 1.10 (t = 10) to 1.98 (t = 400) at
    0.99, and 1.8 to 10.9 at 0.2, where the keys learn.

    Args:
        task: the data law; contexts are rounded to whole lengths, at least 1, as in training.
        init: where softmax attention starts.
        t: times, one number or one axis.
        size: D in 1 … S + 1; None for the whole model.
        data: N from 1 to 1e15; None or infinity for unlimited data.

    Returns:
        Array (times,), or a single number for a single time.

    Reference: App. I.1 has the model; the closed form is ours.

    >>> from solvable import msfr
    >>> task = msfr.Task(num_tasks=10**9, alpha=1.8, context=100.0, strength=0.5)
    >>> init = msfr.SoftmaxInit(value=0.1, key=0.1, query=0.11, width=501)
    >>> [f"{x:.6f}" for x in softmax_loss(task, init, [0.0, 1e2, 1e4]).tolist()]
    ['0.061272', '0.004104', '0.000530']
    """
    from ._loss import data_of, size_of, times_of  # which asks this module about softmax

    check_softmax(task, init)
    times = times_of(t)
    size = None if size is None else size_of(task, size)
    data = data_of(data)
    tasks = SoftmaxTasks(task, init, each=not is_known(size))
    cuts = (int(size),) if size is not None and is_known(size) else ()
    given = (times.reshape(-1), size, data)
    if is_known(task, init, given):
        _, given = unpacked(given)
        found = packed(_added_up(np, tasks.tasks(cuts), *given))
    else:
        found = numbers(_traced_loss, tasks.nodes(cuts), tasks.parameters, *given, **tasks.static)
    return found.reshape(times.shape)


def _traced_loss(
    xp: Any, nodes: Nodes, law: tuple, t: Numbers, size: Numbers, data: Numbers, **static: Any
) -> Numbers:
    """The same of traced parameters, compiled for a number of nodes."""
    alpha, *rest = law
    power = xp.exp(-alpha * xp.log(nodes.index))
    weight = power / xp.sum(nodes.count * power)
    rates, errors = modes_at(xp, nodes, *rest, **static)
    tasks = Tasks(nodes.index, nodes.count, weight, rates, errors)
    return _added_up(xp, tasks, t, size, data)


def _added_up(xp: Any, tasks: Tasks, t: Numbers, size: Numbers, data: Numbers) -> Numbers:
    """L at each time, of tasks that are taken piece by piece."""
    index, weight = tasks.index, tasks.weight
    block = max(1, _PIECE // max(1, t.shape[0]))
    total = xp.zeros_like(t)
    for first in range(0, index.shape[0], block):
        here = slice(first, first + block)
        for rate, amount in zip(tasks.rates, tasks.amounts, strict=True):
            share = decay(xp, weight[here], rate[here], t, data)
            if size is not None:
                share = xp.where((index[here] < size)[:, None], share, 1.0)
            total = total + amount[here] @ share
    return total


def decay(xp: Any, weight: Numbers, rate: Numbers, t: Numbers, data: Numbers = None) -> Numbers:
    """What is left of a mode at each time, (tasks, times), on the average over data sets of N."""
    ended = t[None, :] >= NEVER_ENDING
    time = xp.where(ended, 1.0, t[None, :])
    with np.errstate(over="ignore", under="ignore"):
        if data is None:
            return xp.where(ended, 0.0, xp.exp(-2.0 * (weight * rate)[:, None] * time))
        gone = xp.where(ended, -1.0, xp.expm1(-2.0 * rate[:, None] * (time / data)))
        missed = weight[:, None] * gone
        some = missed > -1.0  # log1p of −1 is no number, and has no slope
        return xp.where(some, xp.exp(data * xp.log1p(xp.where(some, missed, 0.0))), 0.0)


def softmax_pairs(task: Task, init: SoftmaxInit) -> Callable[[Any, Any], np.ndarray]:
    """L(t, D) at pairs of times and whole model sizes, at a cost that hardly grows with S.

    Args:
        task: the data law.
        init: where softmax attention starts.

    Returns:
        A function of times and sizes, arrays of one shape, to losses of that shape: whole blocks of
        tasks below D, and the block that has D by rules of its own for what is learned and not.
    """
    tasks = SoftmaxTasks(task, init)
    parts, tail = tasks.tasks(), tasks.tail()

    def some(t: np.ndarray, size: np.ndarray) -> np.ndarray:
        begin = tail.edges[tail.block(size)]
        whole = np.searchsorted(parts.index, begin)
        few = slice(whole.max())
        inside = np.arange(whole.max())[None, :] < whole[:, None]
        left = np.exp(-parts.speeds[:, None, few] * t[None, :, None])
        learned = np.einsum("kpn,kn->p", np.where(inside[None], left, 0.0), parts.amounts[:, few])
        x, w = gauss_of_counting(size - begin)
        pair, column = np.nonzero(w)
        if not len(pair):
            return tail(size) + learned
        own = tasks.at((begin[:, None] + x)[pair, column], w[pair, column])
        terms = np.sum(own.amounts * np.exp(-own.speeds * t[None, pair]), axis=0)
        return tail(size) + learned + np.bincount(pair, terms, len(t))

    def loss(t: Any, size: Any) -> np.ndarray:
        time, sizes = np.broadcast_arrays(np.asarray(t, float), np.asarray(size, np.int64))
        rows = max(1, min(_PIECE // max(1, len(parts.index)), time.size))
        with np.errstate(over="ignore", under="ignore"):
            return in_blocks(some, time.ravel(), sizes.ravel(), block=rows).reshape(time.shape)

    return loss
