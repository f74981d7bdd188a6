"""Averages over a binomial count, at fixed cost for every number of draws."""

import math
from typing import Any

import jax.scipy.special
import numpy as np
import scipy.special

from .quadrature import gauss_legendre

NODES = 160
_FEW = 64.0  # expected successes (or failures) up to which the sum is taken term by term
_BELOW, _ABOVE = 18.0, 14.0  # standard deviations of the window otherwise


def _stirling_error(xp: Any, n: Any) -> Any:
    """``log n! − log(√(2πn) (n/e)^n)``."""
    gammaln = scipy.special.gammaln if xp is np else jax.scipy.special.gammaln
    large = n > 15.0
    m = xp.where(large, n, 16.0)
    i2 = 1.0 / (m * m)
    series = (
        1 / 12 - i2 * (1 / 360 - i2 * (1 / 1260 - i2 * (1 / 1680 - i2 * (1 / 1188 - i2 / 1.92))))
    ) / m
    k = xp.where(large, 1.0, xp.maximum(n, 1e-300))
    direct = gammaln(k + 1.0) - (k + 0.5) * xp.log(k) + k - 0.5 * math.log(2.0 * math.pi)
    return xp.where(large, series, direct)


def _deviance(xp: Any, x: Any, mean: Any) -> Any:
    """``x log(x/mean) + mean − x`` without cancellation near x = mean."""
    d = (x - mean) / mean
    near = xp.abs(d) < 0.1
    e = xp.where(near, d, 0.0)
    z = e / (2.0 + e)
    z2 = z * z
    tail = xp.zeros_like(z2)
    for j in range(8, 0, -1):  # (1 + e) log(1 + e) − e = e z + 2 (1 + e) z³ (1/3 + z²/5 + …)
        tail = tail * z2 + 1.0 / (2 * j + 1)
    series = e * z + 2.0 * (1.0 + e) * z * z2 * tail
    far = xp.where(near, 1.0, d)
    return mean * xp.where(near, series, (1.0 + far) * xp.log1p(far) - far)


def binomial_nodes(xp: Any, draws: Any, chance: Any) -> tuple[Any, Any]:
    """Counts k_j and weights ω_j with ``E g(k) = Σ_j ω_j g(k_j)`` for ``k ~ Binomial(N, p)``.

    Up to 64 expected successes the sum runs over k = 0, 1, …; up to 64 expected failures over
    k = N, N − 1, …; in between it is an integral (its difference from the sum is exponentially
    small in the variance) by a Gauss rule in the angle φ = 2√N asin√(k/N), whose variance is 1,
    with Loader's form of the probabilities. There `g` is evaluated between the whole numbers, and
    counts more than 18 standard deviations below the mean (probability under e^-120) are left out.

    Args:
        xp: numpy or `jax.numpy`.
        draws: N from 1 to 1e12.
        chance: p in (0, 1], one a row.

    Returns:
        k and ω, (rows, nodes).
    """
    chance = chance[:, None]
    other = 1.0 - chance
    hits_are_rare = chance <= 0.5
    rare = xp.where(hits_are_rare, chance, other)
    listed = draws * rare <= _FEW

    # Few of one kind: j of the rare kind, by the recurrence of log C(N, j) p^j q^(N−j).
    possible = rare > 0.0
    j = xp.arange(NODES, dtype=float)
    left = draws - j
    ratio = xp.where(left[:-1] > 0.0, left[:-1], 1.0) / j[1:]
    choose = xp.concatenate([xp.zeros(1), xp.cumsum(xp.log(ratio))])
    j, left, choose = j[None, :], left[None, :], choose[None, :]
    log_p = choose + j * xp.log(xp.where(possible, rare, 1.0)) + left * xp.log1p(-rare)
    exists = (left >= 0.0) & (possible | (j == 0.0))
    list_weight = xp.exp(xp.where(exists, log_p, -xp.inf))
    list_count = xp.where(hits_are_rare, j, xp.maximum(left, 0.0))

    # Many of both.
    chance = xp.where(listed, 0.5, chance)
    root = xp.sqrt(draws)
    middle = 2.0 * root * xp.arcsin(xp.sqrt(chance))
    low = xp.maximum(middle - _BELOW, 1e-3)
    high = xp.minimum(middle + _ABOVE, math.pi * root - 1e-3)
    x, w = (xp.asarray(a)[None, :] for a in gauss_legendre(NODES))
    half_angle = 0.5 * (low + (high - low) * x) / root
    hits, misses = draws * xp.sin(half_angle) ** 2, draws * xp.cos(half_angle) ** 2
    log_q = (
        _stirling_error(xp, draws)
        - _stirling_error(xp, hits)
        - _stirling_error(xp, misses)
        - _deviance(xp, hits, draws * chance)
        - _deviance(xp, misses, draws * (1.0 - chance))
    )
    weight = w * (high - low) / math.sqrt(2.0 * math.pi) * xp.exp(log_q)
    return xp.where(listed, list_count, hits), xp.where(listed, list_weight, weight)
