"""What a law is: exponent, amplitude, and the window in which it can be seen."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ... import validation
from ...scaling import longest_window

Resource = Literal["time", "depth", "width", "context"]
RESOURCES = ("time", "depth", "width", "context")
PER_DECADE = 12  # points of the grid on which windows are looked for


@dataclass(frozen=True)
class Law:
    """One power law ``𝓛 ≈ amplitude · x^-exponent``, the other resources without limit (accounts).

    Attributes:
        resource: what x is: "time", "depth", "width" or "context".
        exponent: of the asymptotic law.
        amplitude: its exact amplitude at this D; None where a logarithm stands beside the power.
        status: "ok"; "logarithm" at β = 1 (width), β = 2 (context) and ν = 1 (both); "grows with
            dim" for ν < 1 (both), where the amplitude is a power of Σλ.
        nu, beta, dim: the spectrum.
    """

    resource: Resource
    exponent: float
    amplitude: float | None
    status: str
    nu: float
    beta: float
    dim: float
    _curve: Callable[[np.ndarray], np.ndarray] = field(repr=False, compare=False)
    _local: Callable[[np.ndarray], np.ndarray] = field(repr=False, compare=False)
    _ends: tuple[float, float] = field(repr=False, compare=False)
    _range: tuple[float, float] = field(repr=False, compare=False)

    @property
    def largest(self) -> float:
        """The largest x at which the loss can be asked for."""
        return self._range[1]

    def __call__(self, x: Any) -> np.ndarray:
        """The pure power law ``amplitude · x^-exponent``."""
        if self.amplitude is None:
            raise ValueError(
                f"the {self.resource} law of nu = {self.nu:g}, beta = {self.beta:g} has no "
                "amplitude: a logarithm stands beside the power; use loss or local_exponent"
            )
        validation.concrete("x", x, why="laws are worked out")
        place = validation.floating("x", x)
        validation.within("x", place, 0.0, open_low=True)
        return np.asarray(self.amplitude * np.asarray(place) ** -self.exponent)

    def loss(self, x: Any) -> np.ndarray:
        """The exact loss at this D, at x = t, L, N or P (the other resources without limit)."""
        return self._entrywise(self._curve, x)

    def local_exponent(self, x: Any) -> np.ndarray:
        """``−d log 𝓛 / d log x`` of the exact loss."""
        return self._entrywise(self._local, x)

    def at(self, x: float) -> tuple[float, float]:
        """The exact loss and its local exponent at one x that is known to be good."""
        place = np.array([x])
        return float(self._curve(place)[0]), float(self._local(place)[0])

    def grid(self, per_decade: int = PER_DECADE) -> np.ndarray:
        """Points x over the law's whole range, from the first direction learned to the last."""
        low, high = self._ends
        steps = math.log10(high / low) * validation.whole("per_decade", per_decade, 1, 10**4)
        return np.geomspace(low, high, int(steps) + 2)

    def window(self, tolerance: float = 0.05) -> tuple[float, float]:
        """The longest stretch of x in which the local exponent is within `tolerance` of the law's.

        Args:
            tolerance: relative.

        Returns:
            (low, high). Where the law is seen nowhere, low = high, the point of closest approach.
        """
        validation.concrete("tolerance", tolerance, why="the window is looked for")
        value = validation.floating("tolerance", tolerance)
        validation.shaped("tolerance", value, ())
        validation.within("tolerance", value, 0.0, 1.0, open_low=True)
        return longest_window(self.grid(), self._local, self.exponent, float(tolerance))

    def decades(self, tolerance: float = 0.05) -> float:
        """How many decades the window spans."""
        low, high = self.window(tolerance)
        return math.log10(high / low)

    def _entrywise(self, function: Callable[[np.ndarray], np.ndarray], x: Any) -> np.ndarray:
        """A function of one axis, at x of any shape inside the law's range."""
        validation.concrete("x", x, why="the exact loss is summed")
        place = validation.floating("x", x)
        low, high = self._range
        validation.within("x", place, low, high, open_low=low == 0.0)
        return function(np.asarray(place).ravel()).reshape(place.shape)
