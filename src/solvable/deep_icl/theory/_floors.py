"""What width, context or depth leave when everything else is unlimited."""

from typing import Any, Literal, get_args

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ...numerics.roots import root_between
from ..task import RotatedStructure, check_task
from ._loss import optimum

Limit = Literal["width", "context", "both", "depth"]
LIMITS: tuple[Limit, ...] = get_args(Limit)


def floor(task: RotatedStructure, limit: Limit, depth: Any = None) -> Float[Array, "..."]:
    r"""The loss that one resource leaves when all others, and training, are unlimited.

    With ``Σ λ/(λ + z_n) = n``: width ``Σ a_k z_N/(λ_k + z_N)``; context
    ``Σ a_k z_P²/(λ_k + z_P)² / (1 − (1/P) Σ λ²/(λ + z_P)²)``; both, for N < P,
    ``(P − 1)/(P − N − 1)`` times the width's.

    Args:
        task: the context law; its noise does not enter.
        limit: "width", "context", "both" (converged: early stopping does better near N = P), or
            "depth": the optimum at
        depth: L, one or several; for the limit "depth" only.

    >>> import jax; jax.config.update("jax_enable_x64", True)
    >>> round(floor(RotatedStructure(nu=1.25, beta=1.0, dim=256, width=32), "width").item(), 4)
    0.0824
    """
    check_task(task, RotatedStructure)
    validation.one_of("limit", limit, LIMITS)
    if (depth is None) == (limit == "depth"):
        raise ValueError("depth must be given for the limit 'depth', and for no other")
    if limit == "depth":
        free = RotatedStructure(lam=task.lam, omega=task.omega)
        return optimum(free, depth).loss
    validation.needs_double("a floor")
    lam, share = np.asarray(task.lam), np.asarray(task.share)
    if limit == "width":
        return jnp.asarray(width_floor(lam, share, float(task.width)))
    if task.context is None:
        if limit == "context":
            return jnp.asarray(0.0)
        return jnp.asarray(width_floor(lam, share, float(task.width)))
    if limit == "context":
        return jnp.asarray(context_floor(lam, share, float(task.context)))
    if task.context <= task.width + 1:
        raise ValueError(
            f"context must be greater than width + 1 = {task.width + 1} for the limit 'both', not "
            f"{task.context}"
        )
    excess = (task.context - 1.0) / (task.context - task.width - 1.0)
    return jnp.asarray(excess * width_floor(lam, share, float(task.width)))


def level(lam: np.ndarray, count: float) -> float:
    """The z with ``Σ λ/(λ + z) = count``; 0 where count ≥ D."""
    if count >= lam.size:
        return 0.0

    def surplus(log_z: float) -> float:
        return float(np.sum(lam / (lam + np.exp(log_z)))) - count

    low, high = np.log(lam.min()) - 40.0, np.log(lam.sum() / count)
    return float(np.exp(root_between(surplus, float(low), float(high))))


def width_floor(lam: np.ndarray, share: np.ndarray, width: float) -> float:
    """``Σ a z/(λ + z)`` at z_N."""
    z = level(lam, width)
    return float(np.sum(share * z / (lam + z)))


def context_floor(lam: np.ndarray, share: np.ndarray, context: float) -> float:
    """``Σ a z²/(λ + z)²/(1 − Σ λ²/(λ + z)²/P)`` at z_P."""
    z = level(lam, context)
    if z == 0.0:
        return 0.0
    left = np.sum(share * (z / (lam + z)) ** 2)
    # P − Σλ²/(λ+z)² = Σ λz/(λ+z)², without its cancellation.
    return float(left * context / np.sum(lam * z / (lam + z) ** 2))
