"""The time that gradient flow of one number takes, by quadrature: no step of an ODE is made."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...numerics.inversion import Inverse

_CELL = 0.15  # the length of a cell, in the logarithm of γ beyond some scale
_DOUBLINGS = 60  # of that scale, where nothing ends the flow
_LAST = 330  # times 1/λ_D, at which a flow without a fixed point has ended: e^-660 is left


@dataclass(frozen=True)
class Flow:
    r"""``t(γ) = ∫ dγ/(mobility · −d𝓛/dγ)`` from a start up to a fixed point, and its inverse.

    Gradient flow of the scalar γ (accounts); its inverse is tabulated once.

    Args:
        speed: dγ/dt at many γ.
        start: γ at t = 0.
        end: the fixed point; infinite where there is none.
        scale: a γ over which the speed changes, 1/λ₁.
        slowest: 1/λ_D, over which it changes at last; 2^60 times the scale unless given.

    >>> flow = Flow(lambda gamma: 1.0 - gamma, 0.0, 1.0, 1.0)
    >>> flow.gamma(np.asarray([0.0, math.log(2.0)])).round(12)
    array([0. , 0.5])
    """

    speed: Callable[[np.ndarray], np.ndarray]
    start: float
    end: float
    scale: float
    slowest: float = math.inf

    @cached_property
    def table(self) -> Inverse:
        """t(γ), up to where rounding hides the speed: there the flow has arrived."""
        return Inverse(lambda gamma: 1.0 / self.speed(gamma), self._edges())

    @property
    def longest(self) -> float:
        """The time up to which it is followed: infinity where it has arrived by then."""
        here = self.table.edges[-1] == self._edges()[-1]
        endless = math.isinf(self.end) and math.isinf(self.slowest)
        return float(self.table.times[-1]) if here and endless else math.inf

    def gamma(self, t: np.ndarray) -> np.ndarray:
        """γ(t) at times of any shape."""
        return self.table(np.asarray(t, float))

    def time(self, gamma: np.ndarray) -> np.ndarray:
        """t(γ) at γ of any shape, from the start to the end."""
        return self.table.at(np.asarray(gamma, float))

    def _edges(self) -> np.ndarray:
        """Cells that grow away from the start, and shrink towards the fixed point."""
        unit = min(0.1 * self.scale, abs(self.start) or math.inf)

        def away(reach: float) -> np.ndarray:
            size = math.log1p(reach / unit)
            steps = np.linspace(0.0, size, max(1, math.ceil(size / _CELL)) + 1)
            return self.start + unit * np.expm1(steps)

        if math.isfinite(self.end):
            span = self.end - self.start
            # Panels that are narrower than rounding are none.
            towards = self.end - span * 0.5 ** np.arange(1.0, 53.0, 0.5)
            return np.unique(np.concatenate([away(0.5 * span), towards]))
        if math.isinf(self.slowest):
            return away(self.scale * 2.0**_DOUBLINGS)
        steady = self.start + self.slowest * np.arange(4.0, _LAST + 1.0)
        return np.concatenate([away(3.0 * self.slowest), steady])
