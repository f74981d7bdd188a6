"""E erfc(t + sG)²: what an attention that should be 1 misses, without cancellation."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...numerics.quadrature import gauss_legendre
from ._zeta import reduced, slope_of_erf

_NODES = 32
_FALL = 50.0  # the integrand is left where it has fallen by e^−50


@jax.custom_jvp
def miss_of(t: Float[Array, "..."], s: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""``E (1 − erf(t + sG))²``, for arrays of one shape.

    ``1 − 2 E0 + ζ = erfc(τ)² + (4/π) ∫_{1/w}^1 exp(−τ²(1 + y²)) / (1 + y²) dy``: two positive
    terms, so that it keeps its digits down to the smallest numbers.
    """
    _, w, tau, square = reduced(t, s)
    low = 1.0 / w
    width = 4.0 * s**2 / (w * (1.0 + w))  # 1 − 1/w
    size = jnp.abs(tau)
    reach = size * (size * low + jnp.sqrt(square * low**2 + _FALL))
    width = jnp.where(reach * width > _FALL, _FALL / jnp.where(reach > 0.0, reach, 1.0), width)
    lead = (1,) * t.ndim
    nodes, weights = (jnp.asarray(a, t.dtype).reshape(-1, *lead) for a in gauss_legendre(_NODES))
    y = width[None] * nodes
    fall = jnp.exp(-square[None] * y * (y + 2.0 * low[None]))
    inside = jnp.sum(weights * fall / (1.0 + (low[None] + y) ** 2), axis=0)
    spread = (4.0 / math.pi) * width * inside * jnp.exp(-square * (1.0 + low**2))
    return jax.lax.erfc(tau) ** 2 + spread


@miss_of.defjvp
def _miss_jvp(primals: Any, tangents: Any) -> Any:
    t, s = primals
    dt, ds = tangents
    # The heat equation: ∂_s = s ∂_t².
    return miss_of(t, s), miss_t(t, s) * dt + s * miss_tt(t, s) * ds


def miss_t(t: Float[Array, "..."], s: Float[Array, "..."]) -> Float[Array, "..."]:
    """Its slope in t, ``−(2/u) erf'(τ) erfc(τ/w)``."""
    u, w, tau, square = reduced(t, s)
    return -2.0 / u * slope_of_erf(square) * jax.lax.erfc(tau / w)


def miss_tt(t: Float[Array, "..."], s: Float[Array, "..."]) -> Float[Array, "..."]:
    """Its second slope, ``(2/u²) erf'(τ) [2τ erfc(τ/w) + erf'(τ/w)/w]``."""
    u, w, tau, square = reduced(t, s)
    inner = 2.0 * tau * jax.lax.erfc(tau / w) + slope_of_erf(square / w**2) / w
    return 2.0 / u**2 * slope_of_erf(square) * inner
