"""Isotropic covariates: Marchenko–Pastur integrals, and their optimum in closed form."""

import math
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from ...compiling import stage
from ...numerics.host import unpacked
from ..directions import compiled_if_traced
from ..task import Isotropic

# The trapezoidal rule in log tan(θ/2): the density's square roots and, at α = 1, its singularity
# lie at the two ends, where the nodes are dense. Its error is e^(−π²/(2·spacing)), far below 1e-16.
_SPACING = 0.1
_NODES = _SPACING * np.arange(-420, 200)


@compiled_if_traced
def density(
    alpha: Float[Array, ""],
) -> tuple[Float[Array, " nodes"], Float[Array, " nodes"]]:
    """Eigenvalues and weights of the Marchenko–Pastur law, without its atom at 0 (α < 1).

    With ``s = tan(φ/2)``: ``λ = ((√α − 1)² + (√α + 1)² s²)/(α (1 + s²))``.
    """
    xp, ratio = unpacked(alpha)
    s2, root = np.exp(2.0 * _NODES), xp.sqrt(ratio)
    lam = ((root - 1.0) ** 2 + (root + 1.0) ** 2 * s2) / (ratio * (1.0 + s2))
    shape = 16.0 / math.pi * _SPACING * np.exp(3.0 * _NODES) / (1.0 + s2) ** 3
    return stage(lam), stage(shape / lam)


@compiled_if_traced
def top_eigenvalue(alpha: Float[Array, ""]) -> Float[Array, ""]:
    """``(1 + α^-½)²``, the upper edge of the spectrum."""
    _, ratio = unpacked(alpha)
    return stage((1.0 + ratio**-0.5) ** 2)


@compiled_if_traced
def noiseless_optimum(
    alpha: Float[Array, ""], depth: Any
) -> tuple[Float[Array, "*depths"], Float[Array, "*depths"]]:
    r"""``γ* = Lα/(1+α)`` and ``𝓛* = (1−α)₊ + α/(1+α) Σ_{k≥L} Cat_k (α/(1+α)²)^k``.

    The sum is ``(4/π) q^2L ∫_0^∞ s²/((s² + δ)(1 + s²)^(L+1)) ds`` with ``q² = 4α/(1+α)²`` and
    ``δ = 1 − q²``: term by term it needs a million terms near α = 1, where the integral, in
    log s, needs no more nodes than elsewhere.
    """
    xp, a, deep = unpacked(alpha, depth)
    endless = xp.isinf(deep)
    layers = xp.where(endless, 1.0, deep)
    gap = ((a - 1.0) / (a + 1.0)) ** 2
    log_q2 = xp.where(gap < 0.5, xp.log1p(-xp.minimum(gap, 0.5)), xp.log(4.0 * a / (1.0 + a) ** 2))
    # Beyond s ≈ L^-½ the integrand falls like s^-2L: the nodes are placed from there.
    nodes = _NODES.reshape((1,) * deep.ndim + _NODES.shape)
    place = nodes - 0.5 * xp.log(layers)[..., None]
    s2 = xp.exp(2.0 * place)
    log_terms = 3.0 * place - xp.log(s2 + gap) - (layers + 1.0)[..., None] * xp.log1p(s2)
    total = _SPACING * xp.sum(xp.exp(log_terms), axis=-1)
    tail = xp.exp(xp.log(4.0 / math.pi * total) + layers * log_q2)
    tail = xp.where(endless, 0.0, a / (1.0 + a) * tail)
    return stage(deep * a / (1.0 + a)), stage(xp.maximum(1.0 - a, 0.0) + tail)


@compiled_if_traced
def ridge_at(task: Isotropic) -> Float[Array, ""]:
    """``∫ρ r/(λ + r)``, r = σ²/α: the loss of optimal ridge regression on the context."""
    xp, alpha, noise, lam, weight = unpacked(task.alpha, task.noise, *density(task.alpha))
    penalty = noise**2 / alpha
    atom = xp.maximum(1.0 - alpha, 0.0)
    return stage(atom + xp.sum(weight * penalty / (lam + penalty)))
