"""What a finite width or a finite context leaves, at unlimited time and depth."""

import math
from functools import lru_cache

import numpy as np

from ...numerics.roots import root_between
from ._tail import Spectrum


def ridge(tail: Spectrum, size: float) -> float:
    """The effective ridge z of ``Σ λ_k/(λ_k + z) = n``; 0 from n = D on.

    >>> from ._tail import spectrum
    >>> round(ridge(spectrum(1.5, 0.8, 10**8), 100.0), 6)
    0.00373
    """
    if size >= tail.dim:
        return 0.0
    lam, weight = tail.lam, tail.weight

    def excess(log_z: float) -> float:
        return float(weight @ (lam / (lam + math.exp(log_z)))) / size - 1.0

    # Above: λ/(λ+z) ≤ λ/z. Below: the first 2n (or all D) directions alone, z/(λ+z) ≤ z/λ.
    high = math.log(tail.trace / size) + 1e-9
    many = min(math.ceil(2.0 * max(size, 1.0)), tail.dim)
    low = min(math.log((many - size) / many) - tail.nu * math.log(many), high) - 1.0
    return math.exp(root_between(excess, low, high))


class WidthFloor:
    """``𝓛_N = Σ a_k z/(λ_k + z)`` with ``Σ λ_k/(λ_k + z) = N``."""

    def __init__(self, tail: Spectrum):
        self.tail = tail
        self._at = lru_cache(maxsize=4096)(self._floor)

    def curve(self, width: np.ndarray) -> np.ndarray:
        """The floor at widths N."""
        return np.array([self._at(float(n))[0] for n in width])

    def local(self, width: np.ndarray) -> np.ndarray:
        """Its ``−d log 𝓛/d log N``."""
        return np.array([self._at(float(n))[1] for n in width])

    def _floor(self, width: float) -> tuple[float, float]:
        tail, z = self.tail, ridge(self.tail, width)
        if z == 0.0:
            return 0.0, math.inf
        left, seen = z / (tail.lam + z), tail.lam / (tail.lam + z)
        loss, both = float(tail.share @ left), seen * left
        return loss, width * float(tail.share @ both) / (float(tail.weight @ both) * loss)


class ContextFloor:
    """``𝓛_P = Σ a_k z²/(λ_k + z)² / [1 − Σ λ_k²/(λ_k + z)²/P]``, ``Σ λ_k/(λ_k + z) = P``.

    The denominator is ``(z/P) Σ λ_k/(λ_k + z)²``, which loses no digits. The descent in context has
    converged here: where few tokens of a steep spectrum are fitted so, the loss may exceed 1.
    """

    def __init__(self, tail: Spectrum):
        self.tail = tail
        self._at = lru_cache(maxsize=4096)(self._floor)

    def curve(self, context: np.ndarray) -> np.ndarray:
        """The floor at contexts P."""
        return np.array([self._at(float(n))[0] for n in context])

    def local(self, context: np.ndarray) -> np.ndarray:
        """Its ``−d log 𝓛/d log P``."""
        return np.array([self._at(float(n))[1] for n in context])

    def _floor(self, context: float) -> tuple[float, float]:
        tail, z = self.tail, ridge(self.tail, context)
        if z == 0.0:
            return 0.0, math.inf
        left, seen = z / (tail.lam + z), tail.lam / (tail.lam + z)
        bias, spread = float(tail.share @ left**2), float(tail.weight @ (seen * left))
        # d log(𝓛/P)/d log z, where dP/d log z = −spread
        rise = 2.0 - 2.0 * float(tail.share @ left**3) / bias
        rise -= 1.0 - 2.0 * float(tail.weight @ (seen * left**2)) / spread
        return context * bias / spread, -1.0 + rise * context / spread
