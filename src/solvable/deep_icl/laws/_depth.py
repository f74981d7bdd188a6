"""What a finite depth leaves, at unlimited time, width and context."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np

from ...numerics.host import hold, unpacked
from ...numerics.roots import inverse_between, root_between
from ..spectrum import Spectrum

_LEAST = -700.0  # of log(c − 1)


class DepthFloor(eqx.Module):
    r"""``𝓛_L = min_c Σ a_k (1 − cλ_k)^2L``, c = γ/L, for real L ≥ 1 (accounts).

    The loss is convex in c: its slope ``−2L Σ a_k λ_k (1 − cλ_k)^(2L−1)`` has one root, where its
    terms with cλ < 1 and those with cλ > 1, of which that of λ = 1 is one, are equal, at
    ``1 < c ≤ 1 + max(1, Σ_{k>1} a_k/a_1)``.
    """

    spectrum: Spectrum

    def step(self, depth: Any) -> Any:
        """The best c at a row of depths; without slopes, as the loss has none there."""
        xp, depth, s = unpacked(*hold((depth, self.spectrum)))
        most = xp.minimum(xp.maximum(1.0, 1.0 / s.share[0]), 1.0 / s.lam[-1] - 1.0)
        if xp is np:
            return np.array([root_between(_known(x, s), 1.0, 1.0 + 1.01 * most) for x in depth])
        low, high = xp.full_like(depth, _LEAST), xp.zeros_like(depth) + xp.log(most) + 0.01
        return 1.0 + xp.exp(inverse_between(_slope, xp.zeros_like(depth), low, high, depth, s))

    def _left(self, depth: Any) -> tuple[Any, Any, Any]:
        """The module, ``2L log |1 − cλ|`` at the best c, (depths, nodes), and a."""
        xp, depth, lam, share = unpacked(depth, self.spectrum.lam, self.spectrum.share)
        x = self.step(depth)[:, None] * lam[None, :]
        far = xp.log(xp.maximum(xp.abs(1.0 - x), 1e-300))
        logs = xp.where(x < 0.5, xp.log1p(-xp.minimum(x, 0.5)), far)
        return xp, 2.0 * depth[:, None] * logs, share

    def loss(self, depth: Any) -> Any:
        """𝓛 at a row of depths, with its slopes where JAX traces."""
        xp, logs, share = self._left(depth)
        return xp.exp(logs) @ share

    def local(self, depth: Any) -> Any:
        """Its ``−d log 𝓛/d log L``; at the best c only the power changes."""
        xp, logs, share = self._left(depth)
        terms = xp.exp(logs - xp.max(logs, axis=1, keepdims=True)) * share[None, :]
        return -xp.sum(terms * logs, axis=1) / xp.sum(terms, axis=1)


def _known(depth: float, s: Any) -> Callable[[float], float]:
    """`_slope` at c itself."""

    def of_step(c: float) -> float:
        log_gap = np.full(1, math.log(c - 1.0) if c > 1.0 else -math.inf)
        return _slope(log_gap, np.full(1, depth), s).item()

    return of_step


def _slope(log_gap: Any, depth: Any, s: Any) -> Any:
    """``d𝓛/dc`` at log(c − 1), over its largest term."""
    xp, log_gap, depth, s = unpacked(log_gap, depth, s)
    # 1 − cλ, exact at λ = 1
    left = (1.0 - s.lam)[None, :] - xp.exp(log_gap)[:, None] * s.lam[None, :]
    with np.errstate(divide="ignore"):
        logs = xp.log(s.share * s.lam)[None, :]
    logs = logs + (2.0 * depth - 1.0)[:, None] * xp.log(xp.maximum(xp.abs(left), 1e-300))
    terms = xp.exp(logs - xp.max(logs, axis=1, keepdims=True))
    return xp.sum(xp.where(left < 0.0, terms, -terms), axis=1)
