"""What width, context or depth leave when everything else is unlimited."""

import math
from typing import Any, Literal, get_args

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ...compiling import stage
from ...numerics.host import unpacked
from ..spectrum import Spectrum
from ..task import RotatedStructure, check_task
from ._optimum import optimum

Limit = Literal["width", "context", "both", "depth"]
LIMITS: tuple[Limit, ...] = get_args(Limit)


class Floor(eqx.Module):
    r"""The loss that a width N or a context P leaves of endless training and depth (derived).

    With ``Σ λ/(λ + z_n) = n``: width ``Σ a z_N/(λ + z_N)``; context
    ``Σ a z_P²/(λ + z_P)² / (1 − (1/P) Σ λ²/(λ + z_P)²)``.

    Attributes:
        spectrum: λ and a.
        limit: "width" or "context".
    """

    spectrum: Spectrum
    limit: Literal["width", "context"] = eqx.field(static=True)

    def loss(self, size: Any) -> Any:
        """𝓛 at N or P of any shape; 0 from D on. With its slopes where JAX traces."""
        find = self.spectrum.width_floor if self.limit == "width" else self.spectrum.context_floor
        return find(size)

    def local(self, size: Any) -> Any:
        """``−d log 𝓛/d log n``, infinite from D on.

        With ``s = Σ λz/(λ + z)²``, of which ``dn/d log z = −s``: width
        ``(n/s) Σ aλz/(λ + z)²/𝓛``; context ``(n/s) d log(𝓛/n)/d log z − 1``.
        """
        xp, size = unpacked(size)
        bounded = size < self.spectrum.dim
        inside = xp.where(bounded, size, 1.0)
        level = self.spectrum.level(inside)
        xp, z, lam, share, weight = unpacked(
            level[..., None], self.spectrum.lam, self.spectrum.share, self.spectrum.weight
        )
        row = (1,) * inside.ndim + lam.shape
        lam, share, weight = (x.reshape(row) for x in (lam, share, weight))
        left, seen = z / (lam + z), lam / (lam + z)

        def total(x: Any) -> Any:
            return xp.sum(x, axis=-1)

        spread = total(weight * seen * left)
        if self.limit == "width":
            slope = total(share * seen * left) / total(share * left)
        else:
            slope = 1.0 - 2.0 * total(share * left**3) / total(share * left**2)
            slope = slope + 2.0 * total(weight * seen * left**2) / spread
        found = inside / spread * slope - (self.limit == "context")
        return xp.where(bounded, found, xp.inf)


def floor(task: RotatedStructure, limit: Limit, depth: Any = None) -> Float[Array, "..."]:
    r"""The loss that one resource leaves when all others, and training, are unlimited.

    Width and context: `Floor` (derived). Both, for N < P and converged:
    ``(P − 1)/(P − N − 1)`` times the width's (derived; early stopping does better near N = P).
    Depth: the optimum ``min_γ Σ a (1 − γλ/L)^2L`` (accounts).

    Args:
        task: the context law; its noise does not enter.
        limit: "width", "context", "both" or "depth", the optimum at
        depth: L, one or several; for the limit "depth" only.

    >>> import jax; jax.config.update("jax_enable_x64", True)
    >>> round(floor(RotatedStructure(nu=1.25, beta=1.0, dim=256, width=32), "width").item(), 4)
    0.0824
    """
    check_task(task, RotatedStructure)
    validation.one_of("limit", limit, LIMITS)
    if (depth is None) == (limit == "depth"):
        raise ValueError("depth must be given for the limit 'depth', and for no other")
    spectrum = task.spectrum
    if limit == "depth":
        return optimum(RotatedStructure(spectrum=spectrum), depth).loss
    if limit == "context":
        size = math.inf if task.context is None else float(task.context)
        return stage(Floor(spectrum, "context").loss(size))
    width = Floor(spectrum, "width").loss(float(task.width))
    if limit == "width" or task.context is None:
        return stage(width)
    if task.context <= task.width + 1:
        raise ValueError(
            f"context must be greater than width + 1 = {task.width + 1} for the limit 'both', not "
            f"{task.context}"
        )
    return stage((task.context - 1.0) / (task.context - task.width - 1.0) * width)


def level(lam: Any, count: float) -> Any:
    """The z with ``Σ λ/(λ + z) = count``; 0 where count ≥ D."""
    return Spectrum(lam, lam, stage(np.ones(lam.size)), lam.size).level(np.asarray(count))
