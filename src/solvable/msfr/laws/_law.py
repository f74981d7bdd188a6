"""What a law is: exponent, amplitude, and the window in which it can be seen."""

import functools
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import jax
import numpy as np
from jax.core import Tracer

from ... import validation
from ...numerics.host import numbers
from ...scaling import longest_window
from ..start import Init
from ..task import Task
from ..theory import ORDERS, Order, initial_residual, starts
from ._exponents import Regime

F = TypeVar("F", bound=Callable[..., Any])
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
        amplitude, exponent = self.amplitude, self.exponent
        return _entrywise(lambda x: amplitude * x**-exponent, x)

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
        with on_host():
            x = self._grid()
        steps = decades(x[0], x[-1]) * validation.whole("per_decade", per_decade, 1, 10**6)
        wanted = np.geomspace(x[0], x[-1], int(steps) + 2)
        return x[np.unique(np.searchsorted(x, wanted * (1.0 - 1e-12)).clip(0, len(x) - 1))]

    def window(self, tolerance: float = 0.05) -> tuple[float, float]:
        """The longest stretch of x in which the local exponent is within `tolerance` of the law's.

        Args:
            tolerance: relative (absolute where the exponent is 0).

        Returns:
            (low, high). Where the law is seen nowhere, low = high, the point of closest approach.
        """
        validation.concrete("tolerance", tolerance, why="the window is searched for")
        value = validation.floating("tolerance", tolerance)
        validation.shaped("tolerance", value, ())
        validation.within("tolerance", value, 0.0, 1.0, open_low=True)
        with on_host():
            return longest_window(self._grid(), self._local, self.exponent, float(tolerance))

    def decades(self, tolerance: float = 0.05) -> float:
        """How many decades the window spans."""
        return decades(*self.window(tolerance))


def decades(low: float, high: float) -> float:
    """How many powers of ten lie between two numbers, whose ratio may overflow."""
    return math.log10(high) - math.log10(low)


def _entrywise(function: Callable[[np.ndarray], np.ndarray], x: Any) -> np.ndarray:
    """A function of one axis, at positive x of any shape."""
    validation.concrete("x", x, why="a law is worked out")
    place = validation.floating("x", x)
    validation.within("x", place, 0.0, 1e300, open_low=True)
    with on_host():
        return function(np.asarray(place).ravel()).reshape(place.shape)


def on_host() -> AbstractContextManager[Any]:
    """Within `jit` too, numbers are worked out; outside there is nothing to be done for it."""
    if isinstance(jax.device_put(0.0), Tracer):
        return jax.ensure_compile_time_eval()
    return nullcontext()


def worked_out(function: F) -> F:
    """A function that works numbers out on the host, also where it is called inside of `jit`."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with on_host():
            return function(*args, **kwargs)

    return call  # pyright: ignore[reportReturnType]


def check_law(task: Any, init: Any, order: str) -> np.ndarray:
    """Refuse what no law can be given for.

    Returns:
        What the tasks have to learn, (f(0) − Λ)² of each.
    """
    validation.needs_double("a scaling law")
    validation.one_of("order", order, ORDERS)
    if not isinstance(task, Task) or not isinstance(init, Init):
        raise ValueError("a law needs a msfr.Task and a msfr.Init")
    validation.concrete("task and init", task, init, why="a law is worked out")
    if task.context.ndim or task.strength.ndim:
        raise ValueError("context and strength must be single numbers for a law, not arrays")
    squares = np.asarray(numbers(_initial_squares, starts(task, init), order=order))
    if not squares.any():
        raise ValueError("init must leave something to learn for a law: every f(0) is its strength")
    return squares


def _initial_squares(_: Any, start: Any, order: Order) -> Any:
    return initial_residual(start, order) ** 2
