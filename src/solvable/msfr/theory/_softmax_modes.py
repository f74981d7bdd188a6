"""The two modes in which V moves while the keys of softmax attention are at rest."""

import math
from functools import lru_cache
from typing import Any

import numpy as np

from ...numerics.binomial import binomial_nodes

_GAP = 400.0  # between two logarithms of attention: more of it changes no number that is left
_LISTED = 128  # contexts up to which every n is summed

Numbers = Any  # arrays of numpy, or of JAX where it traces


@lru_cache(maxsize=4096)
def _chances(length: float) -> tuple[np.ndarray, np.ndarray]:
    """Numbers n and the logarithms of ``Binom(n; ψ, ½)``: all n, or the nodes of an integral.

    At long contexts no token that agrees, and none that does not, are kept besides: alone with
    them the slow mode is learned once attention is saturated.
    """
    with np.errstate(all="ignore"):
        count, share = (x[0] for x in binomial_nodes(np, np.asarray(length), np.array([0.5])))
        log = np.log(share)
    if length <= _LISTED:
        few = int(length) + 1
        return count[:few], log[:few]
    none = np.array([-length * math.log(2.0)])
    return np.concatenate([[0.0], count, [length]]), np.concatenate([none, log, none])


def chances(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers n of agreeing signs and the logarithms of their chances, a row for each context."""
    found = [_chances(float(each)) for each in lengths]
    width = max(len(n) for n, _ in found)

    def table(k: int, empty: float) -> np.ndarray:
        return np.stack(
            [np.pad(x[k], (0, width - len(x[k])), constant_values=empty) for x in found]
        )

    return table(0, 0.0), table(1, -math.inf)


def both_modes(
    xp: Any, length: Numbers, table: tuple[Numbers, Numbers], start: tuple[Numbers, ...]
) -> tuple[Numbers, Numbers]:
    """The rates μ and errors e, (2, rows), of M = Σ_n P(n) c(n) c(n)ᵀ, to relative accuracy.

    With ``w = P (e^u + e^−u) e^d/D²`` the determinant is ``Λ² Σ_{n<n'} w w' (n − n')²``, without a
    term to cancel. The smaller eigenvalue is that over the larger one, and its error that times the
    component of V(0) − V* which is known in closed form.

    Args:
        xp: numpy or `jax.numpy`.
        length: ψ, whole numbers.
        table: of `chances`.
        start: u, d, Λ, V_ss and V_{s,S+1}, of as many rows or of one.
    """
    length, (n, log_chance) = length[:, None], table
    agreeing, own, strength, first, second = (x[:, None] for x in start)
    same, other, own = _apart(xp, agreeing, -agreeing, own)
    both = xp.logaddexp(same, other)
    some, rest = n > 0.0, n < length
    top = xp.maximum(own, xp.maximum(xp.where(some, same, own), xp.where(rest, other, own)))
    plus = n * xp.exp(xp.where(some, same - top, 0.0))
    minus = xp.where(rest, length - n, 0.0) * xp.exp(xp.where(rest, other - top, 0.0))
    alone = xp.exp(own - top)
    total = plus + minus + alone
    a, o = (plus - minus) / total, alone / total

    chance = xp.exp(log_chance)
    m11 = _added(xp, chance * (a + o) ** 2)
    m12 = strength * _added(xp, chance * a * (a + o))
    m22 = strength**2 * _added(xp, chance * a**2)
    spread = xp.sqrt((m11 - m22) ** 2 + 4.0 * m12**2)
    large = 0.5 * (m11 + m22 + spread)
    angle = 0.5 * xp.arctan2(2.0 * m12, m11 - m22)
    cos, sin = xp.cos(angle), xp.sin(angle)

    log_w = log_chance + (own - top) + (both - top) - 2.0 * xp.log(total)
    most = xp.argmax(log_w, axis=1)[:, None]
    k = n - xp.take_along_axis(n, most, axis=1)  # from the heaviest, so that what is far is kept
    w = xp.exp(log_w - xp.max(log_w, axis=1, keepdims=True))
    away = k - _added(xp, w * k) / _added(xp, w)
    apart = (away != 0.0) & (log_chance > -math.inf)
    log_away = xp.log(xp.where(apart, xp.abs(away), 1.0))
    moment = _log_sum(xp, xp.where(apart, log_w + 2.0 * log_away, -math.inf))
    there = strength != 0.0
    log_strength = xp.log(xp.where(there, xp.abs(strength), 1.0))
    log_small = 2.0 * log_strength + _log_sum(xp, log_w) + moment - xp.log(large)
    small = xp.where(there, xp.exp(log_small), 0.0)

    left = a * (first + strength * second) + o * first - strength
    fast = _added(xp, chance * (cos * (a + o) + sin * strength * a) * left)
    far = xp.log(2.0 * length) + same + other - both - own  # log κ, V* = (Λ(1+κ), −(1−tanh u)−κ)
    scale = xp.maximum(far, 0.0)
    near = cos * (second + 2.0 * xp.exp(other - both)) - sin * (first - strength)
    slow = near * xp.exp(-scale) + xp.exp(far - scale) * (sin * strength + cos)
    rest_error = xp.where(there, xp.exp(log_small + 2.0 * scale), 0.0) * slow**2
    rates = xp.concatenate([large, small], axis=1).T
    return rates, xp.concatenate([fast**2 / large, rest_error], axis=1).T


def _apart(xp: Any, *logs: Numbers) -> list[Numbers]:
    """Three logarithms, the largest 0, with gaps cut where nothing is left of the next."""
    a, b, c = logs
    high, low = xp.maximum(a, xp.maximum(b, c)), xp.minimum(a, xp.minimum(b, c))
    middle = xp.maximum(xp.minimum(a, b), xp.minimum(xp.maximum(a, b), c))
    second = xp.maximum(middle - high, -_GAP)
    third = second + xp.maximum(low - middle, -_GAP)
    return [xp.where(x >= high, 0.0, xp.where(x >= middle, second, third)) for x in logs]


def _added(xp: Any, x: Numbers) -> Numbers:
    return xp.sum(x, axis=1, keepdims=True)


def _log_sum(xp: Any, x: Numbers) -> Numbers:
    top = xp.max(x, axis=1, keepdims=True)
    return top + xp.log(_added(xp, xp.exp(x - top)))
