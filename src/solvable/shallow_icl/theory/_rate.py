"""The largest learning rate at which the minimum is stable."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from ...numerics.host import packed, unpacked
from ..start import Start
from ..task import Task
from ..units import unit_factor
from ._directions import diagonal, one_output
from ._population import Population


def _top(xp: Any, matrix: Float[Any, "n n"]) -> Float[Any, ""]:
    """The largest eigenvalue, whose slope is finite also where others coincide."""
    still = matrix if xp is np else jax.lax.stop_gradient(matrix)
    vector = xp.linalg.eigh(still)[1][:, -1]
    return vector @ matrix @ vector


def _bordered(
    xp: Any, curvature: Float[Any, " n"], shared: Float[Any, " n"], own: Float[Any, " n"]
) -> Float[Any, ""]:
    """The top eigenvalue of ``h^½ (shared sharedᵀ + diag own) h^½``."""
    root = xp.sqrt(curvature)
    return _top(xp, xp.outer(root * shared, root * shared) + xp.diag(curvature * own))


def _merged_sharpness(moments: Population, outputs: int) -> Float[Any, ""]:
    # M = s G/√D_y with s⁴ = D_y Σ w*²: δM_dd = (g_d δs + s δg_d)/√D_y; all else is flatter.
    xp, moments = unpacked(moments)
    size = (outputs * xp.sum(moments.best**2)) ** 0.25
    modes = outputs**0.5 * moments.best / size
    own = xp.broadcast_to(size**2, modes.shape)
    return 2.0 / outputs * _bordered(xp, moments.gram * moments.spectrum, modes, own)


def _separate_sharpness(moments: Population, heads: int, rank: int) -> Float[Any, ""]:
    # Head i holds the directions iR … iR + R − 1, as they are learned.
    xp, moments = unpacked(moments)
    dim = moments.spectrum.shape[0]
    learned = min(dim, heads * rank)
    groups = [np.arange(i, min(i + rank, learned)) for i in range(0, learned, rank)]
    values = [xp.cbrt(xp.sum(moments.best[group])) for group in groups]
    curves = []
    for group, v in zip(groups, values, strict=True):
        held = moments.best[group]
        curvature = moments.gram[group] * moments.spectrum[group]
        curves.append(_bordered(xp, curvature, held / v, 2.0 * v * held))
    # M_de, d ≠ e, is moved by a query of the head that holds d and a key of the one that holds e.
    size = xp.concatenate([xp.full(len(g), v) for g, v in zip(groups, values, strict=True)])
    pull = size * moments.best[:learned]
    weight = moments.gram[:learned, None] * moments.spectrum[None, :learned]
    mixed = xp.where(np.eye(learned, dtype=bool), 0.0, weight * (pull[:, None] + pull[None, :]))
    curves.append(xp.max(mixed))
    if learned < dim:  # a head turning to what is not learned, as in `stability`
        rest = slice(learned, dim)
        key = moments.gram[None, rest] * (moments.spectrum[:learned] * pull)[:, None]
        query = (moments.gram[:learned] * pull)[:, None] * moments.spectrum[None, rest]
        both = moments.cross[None, rest] * size[:, None]
        curves.append(xp.max(0.5 * (key + query) + xp.sqrt((0.5 * (key - query)) ** 2 + both**2)))
    return 2.0 * xp.max(xp.stack(curves))


def largest_rate(task: Task, start: Start, units: str = "paper") -> Float[Array, ""]:
    r"""The largest rate of gradient descent at which the end of training is stable.

    ``2/sharpness``, the sharpness being the largest eigenvalue of the Hessian of L at the balanced
    minimum: for merged attention ``U_i = r_i G``, ``v_i = r_i s``, ``s⁴ = Σ w*_d²``; for separate
    attention of rank R the heads hold R directions each, in the order of their learning. The
    sharpness is the top eigenvalue of ``2 h^½ (g gᵀ + s²) h^½``, ``h_d = λ_d³γ_d``, for merged
    attention and ``6 h_d w*_d^{4/3}``, or that of a pair of directions if larger, for rank 1.

    Args:
        task: the data law; its task covariance must be the identity.
        start: the model; its scale does not matter.
        units: of the rate: "paper", with 1/N in the attention, or "code", without.

    Reference: derived for this package.

    >>> from ..start import merged, separate
    >>> task = Task(dim=4, context=31)
    >>> largest_rate(task, merged(heads=8, scale=1e-3)).round(4).item()
    1.4231
    >>> largest_rate(task, separate(heads=5), units="code").round(4).item()
    0.1612
    """
    moments = diagonal(task)
    _checked(start)
    if start.rank is None:
        sharpness = _merged_sharpness(moments, task.outputs)
    else:
        one_output(task)
        sharpness = _separate_sharpness(moments, start.heads, start.rank)
    return packed(2.0 / sharpness / unit_factor(task, start, units) ** 2)


def _checked(start: Any) -> None:
    if not isinstance(start, Start):
        raise ValueError(f"start must be made by merged, separate or mlp, not {start!r}")
    if start.attention != "linear":
        raise ValueError(f"attention must be linear for this closed form, not {start.attention}")
