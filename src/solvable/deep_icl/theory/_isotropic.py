"""Isotropic covariates: Marchenko–Pastur integrals, and their optimum in closed form."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..task import Isotropic

# The trapezoidal rule in log tan(θ/2): the density's square roots and, at α = 1, its singularity
# lie at the two ends, where the nodes are dense. Its error is e^(−π²/(2·spacing)), far below 1e-16.
_SPACING = 0.1
_NODES = _SPACING * np.arange(-420, 200)


def density(
    alpha: Float[Array, ""],
) -> tuple[Float[Array, " nodes"], Float[Array, " nodes"]]:
    """Eigenvalues and weights of the Marchenko–Pastur law, without its atom at 0 (α < 1).

    With ``s = tan(φ/2)``: ``λ = ((√α − 1)² + (√α + 1)² s²)/(α (1 + s²))``.
    """
    s2 = jnp.asarray(np.exp(2.0 * _NODES), alpha.dtype)
    root = jnp.sqrt(alpha)
    lam = ((root - 1.0) ** 2 + (root + 1.0) ** 2 * s2) / (alpha * (1.0 + s2))
    shape = 16.0 / math.pi * _SPACING * np.exp(3.0 * _NODES) / (1.0 + np.exp(2.0 * _NODES)) ** 3
    return lam, jnp.asarray(shape, alpha.dtype) / lam


def top_eigenvalue(alpha: Float[Array, ""]) -> Float[Array, ""]:
    """``(1 + α^-½)²``, the upper edge of the spectrum."""
    return (1.0 + alpha**-0.5) ** 2


@jax.jit
def noiseless_optimum(
    alpha: Float[Array, ""], depth: Float[Array, ""]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    r"""``γ* = Lα/(1+α)`` and ``𝓛* = (1−α)₊ + α/(1+α) Σ_{k≥L} Cat_k (α/(1+α)²)^k``.

    The sum is ``(4/π) q^2L ∫_0^∞ s²/((s² + δ)(1 + s²)^(L+1)) ds`` with ``q² = 4α/(1+α)²`` and
    ``δ = 1 − q²``: term by term it needs a million terms near α = 1, where the integral, in
    log s, needs no more nodes than elsewhere.
    """
    endless = jnp.isinf(depth)
    layers = jnp.where(endless, 1.0, depth)
    gap = ((alpha - 1.0) / (alpha + 1.0)) ** 2
    log_q2 = jnp.where(
        gap < 0.5, jnp.log1p(-jnp.minimum(gap, 0.5)), jnp.log(4.0 * alpha / (1.0 + alpha) ** 2)
    )
    # Beyond s ≈ L^-½ the integrand falls like s^-2L: the nodes are placed from there.
    place = jnp.asarray(_NODES, alpha.dtype) - 0.5 * jnp.log(layers)
    s2 = jnp.exp(2.0 * place)
    log_terms = 3.0 * place - jnp.log(s2 + gap) - (layers + 1.0) * jnp.log1p(s2)
    total = _SPACING * jnp.sum(jnp.exp(log_terms))
    tail = jnp.exp(jnp.log(4.0 / math.pi * total) + layers * log_q2)
    tail = jnp.where(endless, 0.0, alpha / (1.0 + alpha) * tail)
    return depth * alpha / (1.0 + alpha), jnp.maximum(1.0 - alpha, 0.0) + tail


def ridge_at(task: Isotropic) -> Float[Array, ""]:
    """``∫ρ r/(λ + r)``, r = σ²/α: the loss of optimal ridge regression on the context."""
    lam, weight = density(task.alpha)
    penalty = task.noise**2 / task.alpha
    atom = jnp.maximum(1.0 - task.alpha, 0.0)
    return atom + jnp.sum(weight * penalty / (lam + penalty))
