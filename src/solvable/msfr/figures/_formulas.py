"""Formulas as the paper writes them; what it misprints is a method or a keyword of its own.

They are here to be compared with, not to compute with: `msfr.predict` keeps its digits where these
lose them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class AlongContext:
    """One task of weight 1 that starts along (1, Λ): ``v(0) = v u``, ``w(0) = w u``.

    Attributes:
        context: ψ.
        strength: Λ.
        v, w: the start.
    """

    context: float
    strength: float
    v: float
    w: float

    @property
    def direction(self) -> np.ndarray:
        """The vector u = (1, Λ)."""
        return np.array([1.0, self.strength])

    @property
    def norm(self) -> float:
        """|u|² = 1 + Λ²."""
        return 1.0 + self.strength**2

    @property
    def rate(self) -> float:
        """The rate a = pψ(1 + Λ²), p = 1."""
        return self.context * self.norm

    @property
    def g(self) -> float:
        """Of v + w: ψ ηᵀH⁰η."""
        return self.context * ((self.v + self.w) * self.norm) ** 2

    @property
    def h(self) -> float:
        """Of v − w: ψ ρᵀH⁰ρ."""
        return self.context * ((self.v - self.w) * self.norm) ** 2

    @property
    def f0(self) -> float:
        """The prediction at the start, (g − h)/4."""
        return (self.g - self.h) / 4

    @property
    def _squares(self) -> float:
        """vᵀHv + wᵀHw at order zero, H = ψH⁰."""
        return self.context * self.norm**2 * (self.v**2 + self.w**2)

    def constant(self) -> float:
        """C = gh/2, ``gh = (vᵀHv + wᵀHw)² − 4(vᵀHw)²``."""
        return (self._squares**2 - 4 * self.f0**2) / 2

    def printed_constants(self) -> tuple[float, float]:
        """C as the two forms of (40) print it, H of the second at order zero.

        ``(ηᵀH⁰η)(ρᵀH⁰ρ)`` and ``(vᵀHv + wᵀHw)² − 4 vᵀHw``.
        """
        return self.g * self.h / self.context**2, self._squares**2 - 4 * self.f0

    def _roots(self, c: float, f0: float) -> tuple[float, float, float]:
        """λ, P and Q of Theorem 3.1."""
        strength = self.strength
        lam = np.sqrt(4 * strength**2 + 2 * c)
        top = 4 * f0 * strength + 2 * c + lam * np.sqrt(4 * f0**2 + 2 * c)
        p = top / (2 * (f0 - strength) * (lam - 2 * strength))
        return lam, p, p * (2 * strength - lam) / (2 * strength + lam)

    def theorem(self, t: np.ndarray, c: float | None = None, f0: float | None = None) -> np.ndarray:
        """f⁰(t) of Theorem 3.1, for a given C and f(0)."""
        lam, p, q = self._roots(self.constant() if c is None else c, self.f0 if f0 is None else f0)
        grow = np.exp(self.rate * lam * t)
        return self.strength + lam / 2 * (1 / (1 + p * grow) - 1 / (1 + q * grow))

    def balanced(self, t: np.ndarray, *, twice: float = 2.0) -> np.ndarray:
        """f⁰(t) from v = w, whose exponent is −2aΛt; (58) prints −2aλt, where λ = 2Λ."""
        f0 = self.g / 4
        decay = np.exp(-twice * self.rate * self.strength * t)
        return self.strength / (1 + (self.strength - f0) / f0 * decay)

    def first_order(
        self,
        t: np.ndarray,
        *,
        sign: float = 1.0,
        start: float = 1.0,
    ) -> np.ndarray:
        """f¹(t) of App. J; (137) prints four times as much.

        Args:
            t: times.
            sign: of the e^{−2ξt} term of I_z, printed as −1 in (149), (151).
            start: 1 with the term I_u(0) of m, which (150) lacks, 0 without.
        """
        strength, rate, c = self.strength, self.rate, self.constant()
        lam, p, q = self._roots(c, self.f0)
        xi = rate * lam / 2
        k = strength * rate / xi

        def i_u(t: Any) -> Any:
            up, down = np.exp(2 * xi * t), np.exp(-2 * xi * t)
            linear = 4 * rate * q * t * (strength**2 + c)
            return -(q**2) * up * strength * (1 + k) + down * strength * (k - 1) + linear

        def i_z(t: Any) -> Any:
            up, down = np.exp(2 * xi * t), np.exp(-2 * xi * t)
            linear = 4 * rate * p * t * (strength**2 + c)
            return p**2 * up * strength * (1 - k) + sign * down * strength * (1 + k) + linear

        m = (i_u(t) - start * i_u(0.0)) / (q * np.exp(xi * t) + np.exp(-xi * t)) ** 2
        n = (i_z(t) - i_z(0.0)) / (p * np.exp(xi * t) + np.exp(-xi * t)) ** 2
        return (4 * self.theorem(t) + 2 * (m - n)) / (4 * self.norm**2)


def laplace(x: np.ndarray, integrand: np.ndarray) -> float:
    """Laplace's method for ``∫ integrand dx``: a Gaussian around the maximum."""
    alive = integrand > 0.0
    x, integrand = x[alive], integrand[alive]
    log = np.log(integrand)
    k = int(np.argmax(log[1:-1])) + 1
    left, right = (x[k] - x[k - 1]), (x[k + 1] - x[k])
    slope = (log[k + 1] - log[k]) / right - (log[k] - log[k - 1]) / left
    curvature = slope / (0.5 * (left + right))
    return float(integrand[k] * np.sqrt(-2.0 * np.pi / curvature))
