"""Averages over a binomial count, at fixed cost for every number of draws."""

import math

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

from .quadrature import gauss_legendre

NODES = 160
_FEW = 64.0  # expected successes (or failures) up to which the sum is taken term by term
_BELOW, _ABOVE = 18.0, 14.0  # standard deviations of the window otherwise


def _stirling_error(n: Float[Array, "..."]) -> Float[Array, "..."]:
    """``log n! − log(√(2πn) (n/e)^n)``."""
    large = n > 15.0
    m = jnp.where(large, n, 16.0)
    i2 = 1.0 / (m * m)
    series = (
        1 / 12 - i2 * (1 / 360 - i2 * (1 / 1260 - i2 * (1 / 1680 - i2 * (1 / 1188 - i2 / 1.92))))
    ) / m
    k = jnp.where(large, 1.0, jnp.maximum(n, 1e-300))
    direct = gammaln(k + 1.0) - (k + 0.5) * jnp.log(k) + k - 0.5 * math.log(2.0 * math.pi)
    return jnp.where(large, series, direct)


def _deviance(x: Float[Array, "..."], mean: Float[Array, "..."]) -> Float[Array, "..."]:
    """``x log(x/mean) + mean − x`` without cancellation near x = mean."""
    d = (x - mean) / mean
    near = jnp.abs(d) < 0.1
    e = jnp.where(near, d, 0.0)
    z = e / (2.0 + e)
    z2 = z * z
    tail = jnp.zeros_like(z2)
    for j in range(8, 0, -1):  # (1 + e) log(1 + e) − e = e z + 2 (1 + e) z³ (1/3 + z²/5 + …)
        tail = tail * z2 + 1.0 / (2 * j + 1)
    series = e * z + 2.0 * (1.0 + e) * z * z2 * tail
    far = jnp.where(near, 1.0, d)
    return mean * jnp.where(near, series, (1.0 + far) * jnp.log1p(far) - far)


def binomial_average_nodes(
    draws: Float[Array, ""], chance: Float[Array, ""]
) -> tuple[Float[Array, " nodes"], Float[Array, " nodes"]]:
    """Counts k_j and weights ω_j with ``E g(k) = Σ_j ω_j g(k_j)`` for ``k ~ Binomial(N, p)``.

    Up to 64 expected successes the sum runs over k = 0, 1, …; up to 64 expected failures over
    k = N, N − 1, …; in between it is an integral (its difference from the sum is exponentially
    small in the variance) by a Gauss rule in the angle φ = 2√N asin√(k/N), whose variance is 1,
    with Loader's form of the probabilities. There `g` is evaluated between the whole numbers, and
    counts more than 18 standard deviations below the mean (probability under e^-120) are left out.

    Args:
        draws: N from 1 to 1e12.
        chance: p in (0, 1].
    """
    dtype = chance.dtype
    other = 1.0 - chance
    hits_are_rare = chance <= 0.5
    rare = jnp.where(hits_are_rare, chance, other)
    listed = draws * rare <= _FEW

    # Few of one kind: j of the rare kind, by the recurrence of log C(N, j) p^j q^(N−j).
    possible = rare > 0.0
    j = jnp.arange(NODES, dtype=dtype)
    left = draws - j
    ratio = jnp.where(left[:-1] > 0.0, left[:-1], 1.0) / j[1:]
    choose = jnp.concatenate([jnp.zeros(1, dtype), jnp.cumsum(jnp.log(ratio))])
    log_p = choose + j * jnp.log(jnp.where(possible, rare, 1.0)) + left * jnp.log1p(-rare)
    exists = (left >= 0.0) & (possible | (j == 0.0))
    list_weight = jnp.exp(jnp.where(exists, log_p, -jnp.inf))
    list_count = jnp.where(hits_are_rare, j, jnp.maximum(left, 0.0))

    # Many of both.
    chance = jnp.where(listed, 0.5, chance)
    root = jnp.sqrt(draws)
    middle = 2.0 * root * jnp.arcsin(jnp.sqrt(chance))
    low = jnp.maximum(middle - _BELOW, 1e-3)
    high = jnp.minimum(middle + _ABOVE, math.pi * root - 1e-3)
    x, w = (jnp.asarray(a, dtype) for a in gauss_legendre(NODES))
    half_angle = 0.5 * (low + (high - low) * x) / root
    hits, misses = draws * jnp.sin(half_angle) ** 2, draws * jnp.cos(half_angle) ** 2
    log_q = (
        _stirling_error(draws)
        - _stirling_error(hits)
        - _stirling_error(misses)
        - _deviance(hits, draws * chance)
        - _deviance(misses, draws * (1.0 - chance))
    )
    weight = w * (high - low) / math.sqrt(2.0 * math.pi) * jnp.exp(log_q)
    return jnp.where(listed, list_count, hits), jnp.where(listed, list_weight, weight)


binomial_nodes_by_row = jax.vmap(binomial_average_nodes, in_axes=(None, 0))
