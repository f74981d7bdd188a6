"""What width, context or depth leave when everything else is unlimited."""

from typing import Any, Literal, get_args

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ...compiling import stage
from ...numerics.host import is_known, unpacked
from ...numerics.roots import root_between
from ..task import RotatedStructure, check_task
from ._loss import optimum
from ._roots import traced_root

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
    lam, share = task.lam, task.share
    if limit == "width":
        return stage(width_floor(lam, share, float(task.width)))
    if task.context is None:
        if limit == "context":
            return stage(0.0)
        return stage(width_floor(lam, share, float(task.width)))
    if limit == "context":
        return stage(context_floor(lam, share, float(task.context)))
    if task.context <= task.width + 1:
        raise ValueError(
            f"context must be greater than width + 1 = {task.width + 1} for the limit 'both', not "
            f"{task.context}"
        )
    excess = (task.context - 1.0) / (task.context - task.width - 1.0)
    return stage(excess * width_floor(lam, share, float(task.width)))


def level(lam: Any, count: float) -> Any:
    """The z with ``Σ λ/(λ + z) = count``; 0 where count ≥ D."""
    if count >= lam.size:
        return np.asarray(0.0)
    xp, row = unpacked(lam)

    def surplus(log_z: Any, row: Any) -> Any:
        return xp.sum(row / (row + xp.exp(log_z))) - count

    low, high = xp.log(xp.min(row)) - 40.0, xp.log(xp.sum(row) / count)
    if not is_known(lam):
        return jnp.exp(traced_root(surplus, low, high, row))
    return np.exp(root_between(lambda log_z: float(surplus(log_z, row)), float(low), float(high)))


def width_floor(lam: Any, share: Any, width: float) -> Any:
    """``Σ a z/(λ + z)`` at z_N."""
    xp, lam, share, z = unpacked(lam, share, level(lam, width))
    return xp.sum(share * z / (lam + z))


def context_floor(lam: Any, share: Any, context: float) -> Any:
    """``Σ a z²/(λ + z)²/(1 − Σ λ²/(λ + z)²/P)`` at z_P."""
    if context >= lam.size:
        return 0.0
    xp, lam, share, z = unpacked(lam, share, level(lam, context))
    left = xp.sum(share * (z / (lam + z)) ** 2)
    # P − Σλ²/(λ+z)² = Σ λz/(λ+z)², without its cancellation.
    return left * context / xp.sum(lam * z / (lam + z) ** 2)
