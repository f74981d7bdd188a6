"""Tokens whose eigenvalues are a power law: sums over very many of them, or over all."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import hyp2f1, zeta

from ...numerics.quadrature import gauss_legendre

ALONE = 200  # eigenvalues that are summed one by one
_NODES = 10  # for the others, on a panel
_PANEL = 2.0  # its length, in ln λ³
_SMALLEST = 1e-290
# f'(n + ½)/24 of the sum from n + 1 on, less its integral from n + ½, by differences.
_ENDS = np.array([1.0, -3.0, 2.0]) / 24.0


@dataclass(frozen=True)
class PowerTokens:
    """``λ_d = c d^−a``, d = 1 … D, of trace 1, seen through a context of N examples.

    Attributes:
        exponent: a > 1.
        context: N.
        dim: D, or infinity.
    """

    exponent: float
    context: float
    dim: float = math.inf

    @property
    def first(self) -> float:
        """The largest eigenvalue, c."""
        a = self.exponent
        return float(1.0 / (zeta(a) - (0.0 if self.dim == math.inf else zeta(a, self.dim + 1.0))))

    @property
    def spread(self) -> float:
        """Tr Λ/N, which a context adds to every eigenvalue."""
        return 1.0 / self.context

    def ratio(self, spectrum: np.ndarray) -> np.ndarray:
        """``λγ = λ(1 + 1/N) + 1/N``, in which a mode's share and its size differ."""
        return spectrum * (1.0 + self.spread) + self.spread

    def spectrum(self, places: np.ndarray) -> np.ndarray:
        """λ_d."""
        return self.first * places**-self.exponent

    def sampled(self, most: float) -> tuple[np.ndarray, np.ndarray, float]:
        """Places d, how many each stands for, and up to which place that are all.

        The first 200 stand for themselves; from there to about `most` sums are integrals over ln d,
        with the first term of Euler and Maclaurin.
        """
        if self.dim <= 2 * ALONE:
            alone = np.arange(1.0, self.dim + 1.0)
            return alone, np.ones_like(alone), self.dim
        alone = np.arange(1.0, ALONE + 1.0)
        counts = np.ones_like(alone)
        counts[-3:] += _ENDS
        longest = (self.first / _SMALLEST) ** (1.0 / self.exponent)
        most = min(max(most, 2.0 * ALONE), self.dim, longest)
        low, high = math.log(ALONE + 0.5), math.log(most + 0.5)
        edges = np.linspace(low, high, 1 + math.ceil((high - low) * 3.0 * self.exponent / _PANEL))
        nodes, weights = gauss_legendre(_NODES)
        gaps = np.diff(edges)[:, None]
        more = np.exp(edges[:-1, None] + gaps * nodes)
        parts = [more.ravel(), (more * gaps * weights).ravel()]
        if most == self.dim:  # the other end
            parts[0] = np.append(parts[0], self.dim - np.array([2.0, 1.0, 0.0]))
            parts[1] = np.append(parts[1], -_ENDS)
        return np.append(alone, parts[0]), np.append(counts, parts[1]), most

    def beyond(self, most: float) -> float:
        """``Σ λ/γ`` over the places after `sampled`, which the modes there would gain."""
        if most == self.dim:
            return 0.0
        return self._gain(most) - (0.0 if self.dim == math.inf else self._gain(self.dim))

    def _gain(self, place: float) -> float:
        """``∫ λ/γ dd`` from place + ½ to infinity."""
        a, x = self.exponent, place + 0.5
        top = self.first * x**-a
        if self.context == math.inf:
            return float(top * x / (a - 1.0))
        series = hyp2f1(1.0, 2.0 - 1.0 / a, 3.0 - 1.0 / a, -(self.context + 1.0) * top)
        return float(self.context * top**2 * x * series / (2.0 * a - 1.0))

    @property
    def floor(self) -> float:
        """``L* = Σ λ(1 − 1/γ)``, what a context of N leaves."""
        if self.context == math.inf:
            return 0.0
        alone = min(self.dim, ALONE)
        spectrum = self.spectrum(np.arange(1.0, alone + 1.0))
        lost = np.sum(spectrum * (1.0 + spectrum) / (1.0 + (self.context + 1.0) * spectrum))
        if alone == self.dim:
            return float(lost)
        rest = self._lost(float(ALONE)) - (0.0 if self.dim == math.inf else self._lost(self.dim))
        return float(lost + rest)

    def _lost(self, place: float) -> float:
        """``∫ λ(1 − 1/γ) dd`` likewise: 1 − 1/γ = (1 + λ)/(1 + (N + 1)λ), in two fractions."""
        a, x, all_in = self.exponent, place + 0.5, self.context + 1.0
        top = self.first * x**-a
        wide = all_in * top
        series = hyp2f1(1.0, 1.0 - 1.0 / a, 2.0 - 1.0 / a, -wide) / (a - 1.0)
        slope = -a / x**2 / 24.0
        whole = 1.0 / (a - 1.0) + slope
        return float(
            top * x * (whole / all_in + (1.0 - 1.0 / all_in) * (series + slope / (1.0 + wide) ** 2))
        )
