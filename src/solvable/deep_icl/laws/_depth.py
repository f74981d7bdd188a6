"""What a finite depth leaves, at unlimited time, width and context."""

import numpy as np

from ...numerics.roots import root_between
from ._tail import Spectrum


class DepthFloor:
    """``𝓛_L = min_c Σ a_k (1 − c λ_k)^2L``, c = γ/L."""

    def __init__(self, tail: Spectrum):
        self.tail = tail

    def curve(self, depth: np.ndarray) -> np.ndarray:
        """The floor at depths L."""
        return np.array([self._at(float(n))[0] for n in depth])

    def local(self, depth: np.ndarray) -> np.ndarray:
        """Its ``−d log 𝓛/d log L``; at the best c only the power changes."""
        return np.array([self._at(float(n))[1] for n in depth])

    def step_size(self, depth: float) -> float:
        """The best c = γ/L, times λ₁ = 1. The loss is convex in c: its slope has one root."""
        tail = self.tail

        def slope(c: float) -> float:
            left, logs = self._logs(c)
            logs = (2.0 * depth - 1.0) * logs
            terms = np.exp(logs - logs.max()) * tail.share * tail.lam
            return float(np.sum(np.where(left < 0.0, -terms, terms)))

        high = 2.0
        while slope(high) > 0.0:
            high *= 1.25
        return root_between(slope, 0.0, high)

    def _logs(self, c: float) -> tuple[np.ndarray, np.ndarray]:
        """1 − cλ, and the logarithm of its size."""
        x = c * self.tail.lam
        left = 1.0 - x
        near = np.log1p(-np.minimum(x, 0.5))
        far = np.log(np.maximum(np.abs(left), 1e-300))
        return left, np.where(x < 0.5, near, far)

    def _at(self, depth: float) -> tuple[float, float]:
        _, logs = self._logs(self.step_size(depth))
        top = float(np.max(2.0 * depth * logs))
        terms = self.tail.share * np.exp(2.0 * depth * logs - top)
        total = float(terms.sum())
        return total * float(np.exp(top)), -2.0 * depth * float(terms @ logs) / total
