"""How fast attention leaves its start: rates of the linearised training."""

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ..task import Task

Part = Literal["all", "in-context", "in-weight"]


def _lengths(task: Task) -> tuple[np.ndarray, np.ndarray]:
    """The contexts' numbers of examples, and what the output of each is divided by."""
    if task.lengths == "fixed":
        return np.array([float(task.context)]), np.array([float(task.context)])
    examples = np.arange(1.0, task.context + 1.0)
    return examples, examples + (task.normalise == "n")


def _signal(task: Task) -> Float[Array, "dim dim"]:
    """ΛCΛ, in the eigenbasis."""
    lam = task.eigenvalues
    if task.task_covariance is None:
        return jnp.diag(lam**2)
    return lam[:, None] * task.into_eigenbasis(task.task_covariance) * lam[None, :]


def _in_weight(task: Task, mean: float, query: float) -> Float[Array, "features columns"]:
    """``E[y_q G_ab x_c]`` of sequences with the task vector w₀, as a matrix a | (b, c)."""
    lam, dim = jnp.diag(task.eigenvalues), task.dim
    fixed = task.fixed if task.basis is None else task.basis.T @ task.fixed
    pull = task.eigenvalues * fixed  # Λw₀
    if task.labels == "noise":
        cross, square = jnp.zeros_like(lam), jnp.ones((), lam.dtype)
    else:
        cross, square = jnp.outer(pull, pull), fixed @ pull + task.noise**2
    tokens = (mean + query) * lam[:, :, None] * pull[None, None, :] + query * (
        lam[:, None, :] * pull[None, :, None] + lam[None, :, :] * pull[:, None, None]
    )
    top = jnp.concatenate([tokens, mean * cross[:, None, :]], axis=1).reshape(dim, -1)
    bottom = jnp.concatenate([mean * cross, mean * square * pull[None, :]]).reshape(1, -1)
    return jnp.concatenate([top, bottom])


def _in_context(task: Task, mean: float) -> Float[Array, "features columns"]:
    """The same of sequences with a fresh task vector."""
    cross, dim = mean * _signal(task), task.dim
    top = jnp.concatenate([jnp.zeros((dim, dim, dim), cross.dtype), cross[:, None, :]], axis=1)
    bottom = jnp.concatenate([cross, jnp.zeros((1, dim), cross.dtype)])
    return jnp.concatenate([top.reshape(dim, -1), bottom.reshape(1, -1)])


def _top(matrix: Float[Array, "rows columns"]) -> Float[Array, ""]:
    """The largest singular value, whose slope is finite also where others coincide."""
    u, _, v = jnp.linalg.svd(jax.lax.stop_gradient(matrix), full_matrices=False)
    return u[:, 0] @ matrix @ v[0]


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
        return fraction * mean * jnp.linalg.norm(_signal(task)) * task.outputs**-0.5
    weights = (1.0 - fraction) * _in_weight(task, mean, float(np.mean(1.0 / divisor)))
    return _top(weights if part == "in-weight" else fraction * _in_context(task, mean) + weights)


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
    return -jnp.log(size) / escape_rate(task)


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
    return shrink * jnp.linalg.norm(_signal(task)) * task.outputs**-0.5


def _checked(task: Any) -> None:
    if not isinstance(task, Task):
        raise ValueError(f"task must be a shallow_icl.Task, not {type(task).__name__}")


def _fresh(task: Any) -> None:
    _checked(task)
    if task.in_context != 1.0:
        raise ValueError(f"in_context must be 1 for this closed form, not {task.in_context:g}")
