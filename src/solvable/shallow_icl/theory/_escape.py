"""How fast attention leaves its start: rates of the linearised training."""

from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import Array, Float

from ... import memory, validation
from ...numerics.host import packed, unpacked
from ..task import Task

Part = Literal["all", "in-context", "in-weight"]


def _lengths(task: Task) -> tuple[np.ndarray, np.ndarray]:
    """The contexts' numbers of examples, and what the output of each is divided by."""
    if task.lengths == "fixed":
        return np.array([float(task.context)]), np.array([float(task.context)])
    memory.refuse("context", task.context, 32.0 * task.context)
    examples = np.arange(1.0, task.context + 1.0)
    return examples, examples + (task.normalise == "n")


def _signal(task: Task) -> Float[Any, " dim"] | Float[Any, "dim dim"]:
    """ΛCΛ, in the eigenbasis; its diagonal where it has no more."""
    _, lam, basis, prior = unpacked(task.eigenvalues, task.basis, task.task_covariance)
    if prior is None:
        return lam**2
    prior = prior if basis is None else basis.T @ prior @ basis
    return lam[:, None] * prior * lam[None, :]


def _in_weight(task: Task, mean: float, query: float) -> Float[Any, "features columns"]:
    """``E[y_q G_ab x_c]`` of sequences with the task vector w₀, as a matrix a | (b, c)."""
    memory.refuse("dim", task.dim, 64.0 * task.dim**3)
    xp, values, basis, fixed, noise = unpacked(task.eigenvalues, task.basis, task.fixed, task.noise)
    lam, dim = xp.diag(values), task.dim
    fixed = fixed if basis is None else basis.T @ fixed
    pull = values * fixed  # Λw₀
    if task.labels == "noise":
        cross, square = xp.zeros_like(lam), 1.0
    else:
        cross, square = xp.outer(pull, pull), fixed @ pull + noise**2
    tokens = (mean + query) * lam[:, :, None] * pull[None, None, :] + query * (
        lam[:, None, :] * pull[None, :, None] + lam[None, :, :] * pull[:, None, None]
    )
    top = xp.concatenate([tokens, mean * cross[:, None, :]], axis=1).reshape(dim, -1)
    bottom = xp.concatenate([mean * cross, mean * square * pull[None, :]]).reshape(1, -1)
    return xp.concatenate([top, bottom])


def _in_context(task: Task, mean: float) -> Float[Any, "features columns"]:
    """The same of sequences with a fresh task vector."""
    xp, cross = unpacked(mean * _signal(task))
    cross, dim = xp.diag(cross) if cross.ndim == 1 else cross, task.dim
    top = xp.concatenate([np.zeros((dim, dim, dim)), cross[:, None, :]], axis=1)
    bottom = xp.concatenate([cross, np.zeros((1, dim))])
    return xp.concatenate([top.reshape(dim, -1), bottom.reshape(1, -1)])


def _top(matrix: Float[Any, "rows columns"]) -> Float[Any, ""]:
    """The largest singular value, whose slope is finite also where others coincide."""
    xp, matrix = unpacked(matrix)
    still = matrix if xp is np else jax.lax.stop_gradient(matrix)
    u, _, v = xp.linalg.svd(still, full_matrices=False)
    return u[:, 0] @ matrix @ v[0]


def _size(matrix: Float[Any, "..."]) -> Float[Any, ""]:
    """The Frobenius norm."""
    return unpacked(matrix)[0].linalg.norm(matrix)


def escape_rate(task: Task, part: Part = "all") -> Float[Array, ""]:
    r"""The rate at which merged attention with all its blocks leaves a small start.

    The top singular value of ``c_{a|(b,c)} = E[y_q G_ab x_{q,c}]``, ``G = XXᵀ/N``: weights grow
    like ``exp(rate · t/τ)``, and by ``ln(1 + 2η rate)`` a step of gradient descent. With y for the
    last index, a fraction f of fresh task vectors and the rest with w₀,

    ``c_{by·} = c_{yb·} = fΛ² + (1−f)Λw₀w₀ᵀΛ``, ``c_{yyc} = (1−f)(w₀ᵀΛw₀)(Λw₀)_c``,
    ``c_{bb'c} = (1−f)[(1+1/N)Λ_{bb'}(Λw₀)_c + (Λ_{bc}(Λw₀)_{b'} + Λ_{b'c}(Λw₀)_b)/N]``.

    All in context (f = 1) the rate is ``‖Λ²‖_F``, with D_y outputs ``‖Λ²‖_F/√D_y``.

    Args:
        task: the data law; `labels` "noise" for contexts that say nothing (then ``c_{by·} = 0`` and
            ``c_{yyc} = (Λw₀)_c``).
        part: "all"; or "in-context" or "in-weight" for what the sequences with fresh task vectors,
            or those with w₀, would give alone, each weighted with its fraction.

    Returns:
        The rate per t/τ.

    Reference: App. on in-context and in-weight learning.

    >>> escape_rate(Task(dim=4, context=31, spectrum="white")).item()
    0.125
    >>> escape_rate(Task(dim=4, context=31, spectrum="white", in_context=0.4)).round(4).item()
    0.3992
    """
    _checked(task)
    validation.one_of("part", part, ("all", "in-context", "in-weight"))
    examples, divisor = _lengths(task)
    mean = 1.0 if task.lengths == "fixed" else float(np.mean(examples / divisor))
    fraction = task.in_context
    if part == "in-context" or fraction == 1.0:  # two blocks; the row of the label is the larger
        fraction = fraction if part != "in-weight" else 0.0
        return packed(fraction * mean * _size(_signal(task)) * task.outputs**-0.5)
    weights = (1.0 - fraction) * _in_weight(task, mean, float(np.mean(1.0 / divisor)))
    if part == "all":
        weights = weights + fraction * _in_context(task, mean)
    return packed(_top(weights))


def escape_time(task: Task, scale: Any) -> Float[Array, "..."]:
    r"""How long merged attention stays near zero: ``ln(1/w_init)/‖Λ²‖_F``.

    A decade of the scale costs ``ln 10/‖Λ²‖_F``.

    Args:
        task: the data law, every sequence with a fresh task vector.
        scale: w_init, the size of the first weights, in the paper's units; in (0, 1].

    Returns:
        t/τ, of the shape of scale.

    Reference: eq. (7).

    >>> escape_time(Task(dim=4, context=31), 0.1).round(2).item()
    12.24
    """
    _fresh(task)
    size = validation.floating("scale", scale)
    validation.within("scale", size, 0.0, 1.0, open_low=True)
    xp, size, rate = unpacked(size, escape_rate(task))
    return packed(-xp.log(size) / rate)


def softmax_rate(task: Task) -> Float[Array, ""]:
    r"""The rate at which softmax attention with merged key and query leaves a small start.

    ``(N/(N + 1))² ‖Λ²‖_F``: at first order in the weights the softmax over all N + 1 tokens is
    linear attention on centred statistics. It holds in the model's own units, without 1/N.

    Args:
        task: the data law, every sequence with a fresh task vector.

    Returns:
        The rate per t/τ; a step of gradient descent is 2η.

    Reference: derived for this package.

    >>> softmax_rate(Task(dim=4, context=31, spectrum="white")).round(6).item()
    0.11731
    """
    _fresh(task)
    examples, _ = _lengths(task)
    shrink = 1.0 if task.context == np.inf else float(np.mean((examples / (examples + 1.0)) ** 2))
    return packed(shrink * _size(_signal(task)) * task.outputs**-0.5)


def _checked(task: Any) -> None:
    if not isinstance(task, Task):
        raise ValueError(f"task must be a shallow_icl.Task, not {type(task).__name__}")


def _fresh(task: Any) -> None:
    _checked(task)
    if task.in_context != 1.0:
        raise ValueError(f"in_context must be 1 for this closed form, not {task.in_context:g}")
