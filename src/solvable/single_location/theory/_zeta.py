"""ζ(t, s) = E erf(t + sG)² and its derivatives, without cancellation."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ...numerics.quadrature import gauss_legendre
from ._pointwise import pointwise, spread

_NODES = 16  # 12 are enough up to s = 2.5


def slope_of_erf(square: Float[Array, "..."]) -> Float[Array, "..."]:
    """``erf'(x) = (2/√π) e^{−x²}``, from x²."""
    return (2.0 / math.sqrt(math.pi)) * jnp.exp(-square)


def reduced(t: Float[Array, "..."], s: Float[Array, "..."]) -> tuple[Array, Array, Array, Array]:
    """``u = √(1 + 2s²)``, ``w = √(1 + 4s²)``, ``τ = t/u`` and τ² with one rounding less."""
    u2 = 1.0 + 2.0 * s**2
    u, w = jnp.sqrt(u2), jnp.sqrt(1.0 + 4.0 * s**2)
    return u, w, t / u, t**2 / u2


@jax.custom_jvp
def zeta_of(t: Float[Array, "..."], s: Float[Array, "..."]) -> Float[Array, "..."]:
    """`zeta` of arrays of one shape, unchecked."""
    _, w, tau, square = reduced(t, s)
    # Exact for small s, where π/4 − arctan(1/w) has no digit left.
    width = jnp.arctan2(4.0 * s**2, (1.0 + w) ** 2)
    nodes, weights = gauss_legendre(_NODES)
    lead = (1,) * t.ndim
    nodes, weights = (jnp.asarray(a, t.dtype).reshape(-1, *lead) for a in (nodes, weights))
    angle = 0.25 * math.pi - width[None] * nodes
    inside = jnp.sum(weights * jnp.exp(-square[None] / jnp.cos(angle) ** 2), axis=0)
    return jax.lax.erf(tau) ** 2 + (4.0 / math.pi) * width * inside


@zeta_of.defjvp
def _zeta_jvp(primals: Any, tangents: Any) -> Any:
    t, s = primals
    dt, ds = tangents
    # The heat equation ζ_s = s ζ_tt.
    return zeta_of(t, s), zeta_t(t, s) * dt + s * zeta_tt(t, s) * ds


def zeta_t(t: Float[Array, "..."], s: Float[Array, "..."]) -> Float[Array, "..."]:
    """``ζ_t = (2/u) erf(τ/w) erf'(τ)``."""
    u, w, tau, square = reduced(t, s)
    return 2.0 / u * jax.lax.erf(tau / w) * slope_of_erf(square)


def zeta_tt(t: Float[Array, "..."], s: Float[Array, "..."]) -> Float[Array, "..."]:
    """``ζ_tt = (2/u²) [−2τ erf(τ/w) + erf'(τ/w)/w] erf'(τ)``."""
    u, w, tau, square = reduced(t, s)
    inner = -2.0 * tau * jax.lax.erf(tau / w) + slope_of_erf(square / w**2) / w
    return 2.0 / u**2 * inner * slope_of_erf(square)


def zeta_ttt(t: Float[Array, "..."], s: Float[Array, "..."]) -> Float[Array, "..."]:
    """``ζ_ttt = (2/u³) [(4τ² − 2) erf(τ/w) − (4τ/w + 2τ/w³) erf'(τ/w)] erf'(τ)``."""
    u, w, tau, square = reduced(t, s)
    near = slope_of_erf(square / w**2)
    inner = (4.0 * square - 2.0) * jax.lax.erf(tau / w) - (4.0 / w + 2.0 / w**3) * tau * near
    return 2.0 / u**3 * inner * slope_of_erf(square)


_zeta = pointwise(lambda _, t, s: zeta_of(t, s))


def zeta(t: Any, s: Any) -> Float[Array, "..."]:
    r"""``ζ(t, s) = E erf(t + sG)²``, G a standard normal variable.

    ``ζ = erf(τ)² + (4/π) ∫_{π/4−Δ}^{π/4} exp(−τ²/cos²φ) dφ``, ``τ = t/√(1 + 2s²)``,
    ``Δ = atan2(4s², (1 + √(1 + 4s²))²)``: two positive terms, so that a small ζ keeps its digits.

    Args:
        t: any numbers, of at most 1e8 in size.
        s: at least 0, at most 1e4; broadcast with t.

    Reference: Theorem 1.

    >>> round(zeta(0.5, 0.3).item(), 14)
    0.30087776856432
    """
    t, s = validation.floating("t", t), validation.floating("s", s)
    validation.within("t", t, -1e8, 1e8)
    validation.within("s", s, 0.0, 1e4)
    try:
        shape = np.broadcast_shapes(t.shape, s.shape)
    except ValueError:
        raise ValueError(f"t and s must have one shape, not {t.shape} and {s.shape}") from None
    return _zeta(None, spread(t, shape), spread(s, shape))
