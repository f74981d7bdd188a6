"""The time that gradient flow of one number takes, by quadrature: no step of an ODE is made."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...numerics.quadrature import gauss_legendre

_HALVINGS = 52  # panels that halve towards either end
_NODES = 20


@dataclass(frozen=True)
class Flow:
    """``t(γ) = ∫ dγ/(mobility · −d𝓛/dγ)`` from a start up to a fixed point, and its inverse.

    Args:
        speed: dγ/dt at many γ.
        start: γ at t = 0.
        end: the fixed point; infinite where there is none.
        scale: a γ over which the speed changes, for the first panels where there is no end.
    """

    speed: Callable[[np.ndarray], np.ndarray]
    start: float
    end: float
    scale: float

    def gamma(self, t: np.ndarray) -> np.ndarray:
        """γ(t) at times of any shape."""
        edges = self._edges()
        nodes, weights = gauss_legendre(_NODES)
        width = np.diff(edges)
        places = edges[:-1, None] + width[:, None] * nodes[None, :]
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            pieces = width * ((1.0 / self.speed(places.ravel()).reshape(places.shape)) @ weights)
        # Beyond where rounding hides the speed, the flow has arrived.
        good = np.isfinite(pieces) & (pieces > 0.0)
        last = len(pieces) if good.all() else int(np.argmin(good))
        passed = np.concatenate([[0.0], np.cumsum(pieces[:last])])
        times = np.ravel(t)
        panel = np.clip(np.searchsorted(passed, times, side="right") - 1, 0, last - 1)
        left, right = edges[panel], edges[panel + 1]
        rest = np.minimum(times, passed[-1]) - passed[panel]
        gamma = left + (right - left) * np.clip(rest / pieces[panel], 0.0, 1.0)
        for _ in range(40):
            span = gamma - left
            inside = left[:, None] + span[:, None] * nodes[None, :]
            taken = span * ((1.0 / self.speed(inside.ravel()).reshape(inside.shape)) @ weights)
            new = np.clip(gamma + (rest - taken) * self.speed(gamma), left, right)
            done = np.all(np.abs(new - gamma) <= 4e-16 * np.abs(new))
            gamma = new
            if done:
                break
        return gamma.reshape(np.shape(t))

    def _edges(self) -> np.ndarray:
        """Panels that double away from the start, and halve towards the fixed point."""
        halves = 0.5 ** np.arange(_HALVINGS, 0, -1)
        if np.isinf(self.end):
            return self.start + np.concatenate([[0.0], self.scale * 2.0 ** np.arange(-40, 60)])
        span = self.end - self.start
        near = self.start + span * halves  # ends in the middle
        far = self.end - span * halves[::-1][1:]
        # Panels that are narrower than rounding are none.
        return np.unique(np.concatenate([[self.start], near, far]))
