"""What a law is: exponent, amplitude, and the window in which it can be seen."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ... import validation
from ...scaling import longest_window
from ..start import Init
from ..task import Task
from ..theory import ORDERS
from ._exponents import Regime

Resource = Literal["time", "size", "data", "compute"]
PER_DECADE = 12  # points of the grid on which windows are looked for


@dataclass(frozen=True)
class Law:
    """One power law ``L ≈ amplitude · x^-exponent`` and where it holds.

    Attributes:
        resource: what x is: "time", "size", "data" or "compute".
        exponent: of the asymptotic law.
        amplitude: its exact amplitude; None where tasks do not share context, strength and init.
        status: "ok", or why there is no such law (tasks at a saddle never reach their target).
        regime: "strong" or "weak", see `exponents`.
    """

    resource: Resource
    exponent: float
    amplitude: float | None
    status: str
    regime: Regime
    _curve: Callable[[np.ndarray], np.ndarray] = field(repr=False)
    _local: Callable[[np.ndarray], np.ndarray] = field(repr=False)
    _grid: Callable[[], np.ndarray] = field(repr=False)
    _finite: Callable[[np.ndarray], np.ndarray] | None = field(default=None, repr=False)

    def __call__(self, x: Any) -> np.ndarray:
        """The pure power law ``amplitude · x^-exponent``."""
        if self.amplitude is None:
            raise ValueError("this law has no amplitude: its tasks do not share everything")
        return np.asarray(self.amplitude * np.asarray(x, float) ** -self.exponent)

    def loss(self, x: Any) -> np.ndarray:
        """The finite-size loss itself, at x = t, D, N or C (the other resources unlimited)."""
        return _entrywise(self._curve, x)

    def finite(self, x: Any) -> np.ndarray:
        """The law at finite S: the Mellin integral cut off at the first and the last task."""
        if self._finite is None:
            raise ValueError(f"the {self.resource} law of these tasks has no finite-size form")
        return _entrywise(self._finite, x)

    def local_exponent(self, x: Any) -> np.ndarray:
        """``−d log L / d log x`` of the finite-size loss."""
        return _entrywise(self._local, x)

    def grid(self, per_decade: int = PER_DECADE) -> np.ndarray:
        """Points x over the law's whole range, from the first thing learned to the last."""
        x = self._grid()
        steps = math.log10(x[-1] / x[0]) * validation.whole("per_decade", per_decade, 1)
        wanted = np.geomspace(x[0], x[-1], int(steps) + 2)
        return x[np.unique(np.searchsorted(x, wanted * (1.0 - 1e-12)).clip(0, len(x) - 1))]

    def window(self, tolerance: float = 0.05) -> tuple[float, float]:
        """The longest stretch of x in which the local exponent is within `tolerance` of the law's.

        Args:
            tolerance: relative (absolute where the exponent is 0).

        Returns:
            (low, high). Where the law is seen nowhere, low = high, the point of closest approach.
        """
        value = validation.floating("tolerance", tolerance)
        validation.shaped("tolerance", value, ())
        validation.within("tolerance", value, 0.0, 1.0, open_low=True)
        x = self._grid()
        return longest_window(x, self._local, self.exponent, float(tolerance))

    def decades(self, tolerance: float = 0.05) -> float:
        """How many decades the window spans."""
        low, high = self.window(tolerance)
        return math.log10(high / low)


def _entrywise(function: Callable[[np.ndarray], np.ndarray], x: Any) -> np.ndarray:
    """A function of one axis, at positive x of any shape."""
    place = validation.floating("x", x)
    validation.within("x", place, 0.0, open_low=True)
    return function(np.asarray(place).ravel()).reshape(place.shape)


def check_law(task: Any, init: Any, order: str) -> None:
    """Refuse what no law can be given for."""
    validation.needs_double("a scaling law")
    validation.one_of("order", order, ORDERS)
    if not isinstance(task, Task) or not isinstance(init, Init):
        raise ValueError("a law needs a msfr.Task and a msfr.Init")
    if task.context.ndim or task.strength.ndim:
        raise ValueError("context and strength must be single numbers for a law, not arrays")


def curve_and_slope(
    loss: Callable[[Array], Array],
) -> tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]:
    """A loss curve and its local exponent, from a function that treats its entries one by one."""

    def curve(x: np.ndarray) -> np.ndarray:
        return in_blocks(lambda part: np.asarray(loss(jnp.asarray(part))), x)

    def local(x: np.ndarray) -> np.ndarray:
        def block(part: np.ndarray) -> np.ndarray:
            point = jnp.asarray(part)
            value, change = jax.jvp(loss, (point,), (point,))
            return -np.asarray(change / value)

        return in_blocks(block, x)

    return curve, local


def in_blocks(
    function: Callable[..., np.ndarray], *rows: np.ndarray, block: int = 32
) -> np.ndarray:
    """A function of rows (axis 0), always called with `block` of them: any number compiles once."""
    length = len(rows[0])
    if length == 0:
        return np.zeros(0)
    short = -length % block
    padded = [np.pad(x, [(0, short)] + [(0, 0)] * (x.ndim - 1), mode="edge") for x in rows]
    parts = [function(*(x[k : k + block] for x in padded)) for k in range(0, length, block)]
    return np.concatenate(parts)[:length]
