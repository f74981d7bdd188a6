"""The power-law spectrum up to D = 10¹⁵ directions, or without end, as a few thousand nodes."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ... import validation

MAX_DIM = 10**15
_EXACT = 512  # from here on directions are binned
_POINTS = 12  # Gauss–Legendre nodes of a bin
ENDLESS = 1e12  # the largest N, P, L and γ that the nodes of D = ∞ are good for
_LEFT = 1e-14  # share of a convergent sum that may lie beyond the last of them


@dataclass(frozen=True)
class Spectrum:
    """Nodes and weights for sums over ``λ_k = k^-ν`` and ``a_k = k^-(νβ+1)/Z``, ``Σ a_k = 1``.

    The first 511 directions stand one by one. The others are the midpoint rule's integral from
    511½ to D + ½, with its first Euler–Maclaurin term: Gauss–Legendre in log k, in bins so short
    that λ changes by less than a factor e^1.4. Sums of smooth functions of log k are right to 1e-10
    of themselves.

    Attributes:
        nu, beta: ν and β.
        dim: D, infinity for no end.
        lam: λ at the nodes.
        weight: how many directions a node stands for.
        share: a at the nodes, times the weight.
        normaliser: Z.
    """

    nu: float
    beta: float
    dim: float
    lam: np.ndarray
    weight: np.ndarray
    share: np.ndarray
    normaliser: float

    @cached_property
    def trace(self) -> float:
        """``Σ λ_k``."""
        return float(self.weight @ self.lam)

    def moment(self, power: int) -> float:
        """``Σ a_k λ_k^-power``, dividing once a time: λ^-power alone may overflow."""
        terms = self.share
        for _ in range(power):
            terms = terms / self.lam
        return float(terms.sum())


def spectrum(nu: float, beta: float, dim: int | float) -> Spectrum:
    """The nodes of a power-law spectrum.

    Args:
        nu: ν, the capacity exponent.
        beta: β, the source exponent.
        dim: D, a whole number or infinity.

    >>> tail = spectrum(1.5, 0.8, 10**8)
    >>> len(tail.lam) < 800, round(float(tail.share.sum()), 12)
    (True, 1.0)
    """
    k, weight = nodes(nu, _last(nu, beta, dim))
    share = weight * k ** -(nu * beta + 1.0)
    normaliser = float(share.sum())
    return Spectrum(nu, beta, float(dim), k**-nu, weight, share / normaliser, normaliser)


def check_spectrum(nu: Any, beta: Any, dim: int | float) -> None:
    """Refuse exponents and dimensions outside what can be summed."""
    validation.concrete("nu and beta", nu, beta, why="the spectrum is summed")
    check_exponents(nu, beta)
    if not (isinstance(dim, float) and dim == math.inf):
        validation.whole("dim", dim, 2, MAX_DIM)
        if dim**nu > 1e150:
            raise ValueError(f"dim^nu must be at most 1e150, not {dim}^{nu:g}")
    else:
        _last(nu, beta, dim)


def check_exponents(nu: Any, beta: Any) -> None:
    """Refuse ν and β outside (0, 20]."""
    for name, value in (("nu", nu), ("beta", beta)):
        number = validation.floating(name, value)
        validation.shaped(name, number, ())
        validation.within(name, number, 0.0, 20.0, open_low=True)


def _last(nu: float, beta: float, dim: int | float) -> float:
    """The last direction: D, or where what is left of the convergent sums can be neglected."""
    if dim != math.inf:
        return float(dim)
    slowest = min(nu * beta, nu - 1.0) if nu > 1.0 else nu * beta
    decades = math.log10(ENDLESS) / min(nu, 1.0) - math.log10(_LEFT) / slowest
    if decades * max(nu, 1.0) > 290.0:
        raise ValueError(
            f"dim must be finite for nu = {nu:g} and beta = {beta:g}, not inf: "
            "sums over all directions converge too slowly"
        )
    return 10.0**decades


def nodes(nu: float, last: float) -> tuple[np.ndarray, np.ndarray]:
    if last <= 4 * _EXACT:
        k = np.arange(1.0, last + 1.0)
        return k, np.ones_like(k)
    exact = np.arange(1.0, _EXACT + 1.0)
    ones = np.ones(_EXACT)
    # Σ_{k≥m} f = ∫_{m−½} f + f′(m−½)/24 + O(m^-4), and f′(m−½) is f(m) − f(m−1) as well.
    ones[-2] -= 1.0 / 24.0
    ones[-1] = 1.0 / 24.0
    low, high = math.log(_EXACT - 0.5), math.log(last + 0.5)
    bins = math.ceil((high - low) / min(0.7, 1.4 / nu))
    edges = np.linspace(low, high, bins + 1)
    nodes, weights = np.polynomial.legendre.leggauss(_POINTS)
    half = 0.5 * np.diff(edges)[:, None]
    y = (0.5 * (edges[1:] + edges[:-1]))[:, None] + half * nodes[None, :]
    k = np.exp(y).ravel()
    return np.concatenate([exact, k]), np.concatenate([ones, (half * weights).ravel() * k])
