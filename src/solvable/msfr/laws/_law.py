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
from ...scaling import longest_window
from ..start import Init
from ..task import Task
from ..theory import ORDERS, Order, Rows, initial_residual, rest_square, rows_of
from ._exponents import Regime

F = TypeVar("F", bound=Callable[..., Any])
Resource = Literal["time", "size", "data", "compute"]
PER_DECADE = 12  # points of the grid on which windows are looked for


@dataclass(frozen=True)
class Law:
    """One power law ``L ≈ limit + amplitude · x^-exponent`` and where it holds.

    Attributes:
        resource: what x is: "time", "size", "data" or "compute".
        exponent: of the asymptotic law, of what L is above its limit.
        amplitude: its exact amplitude; None where tasks do not share context, strength and init.
        status: "ok", or "saddle" where tasks that cannot be learned leave a limit.
        regime: "strong" or "weak", see `exponents`.
        limit: what no amount of any resource takes off the loss, ``½ Σ p_s Λ_s²`` over the tasks
            that cannot be learned from this start.
    """

    resource: Resource
    exponent: float
    amplitude: float | None
    status: str
    regime: Regime
    limit: float
    _curve: Callable[[np.ndarray], np.ndarray] = field(repr=False)
    _local: Callable[[np.ndarray], np.ndarray] = field(repr=False)
    _grid: Callable[[], np.ndarray] = field(repr=False)
    _finite: Callable[[np.ndarray], np.ndarray] | None = field(default=None, repr=False)

    def __call__(self, x: Any) -> np.ndarray:
        """The pure power law ``limit + amplitude · x^-exponent``."""
        if self.amplitude is None:
            raise ValueError("this law has no amplitude: its tasks do not share everything")
        amplitude, exponent = self.amplitude, self.exponent
        return _entrywise(lambda x: self.limit + amplitude * x**-exponent, x)

    def loss(self, x: Any) -> np.ndarray:
        """The finite-size loss itself, at x = t, D, N or C (the other resources unlimited)."""
        return _entrywise(self._curve, x)

    def finite(self, x: Any) -> np.ndarray:
        """The law at finite S: the Mellin integral cut off at the first and the last task."""
        if self._finite is None:
            raise ValueError(f"the {self.resource} law of these tasks has no finite-size form")
        return _entrywise(self._finite, x)

    def local_exponent(self, x: Any) -> np.ndarray:
        """``−d log(L − limit) / d log x`` of the finite-size loss."""
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


def check_law(task: Any, init: Any, order: Order) -> float:
    """Refuse what no law can be given for.

    Returns:
        What is left of the loss for ever, ``½ Σ p_s (f_s(∞) − Λ_s)²``.
    """
    validation.needs_double("a scaling law")
    validation.one_of("order", order, ORDERS)
    if not isinstance(task, Task) or not isinstance(init, Init):
        raise ValueError("a law needs a msfr.Task and a msfr.Init")
    validation.concrete("task and init", task, init, why="a law is worked out")
    if task.context.ndim or task.strength.ndim:
        raise ValueError("context and strength must be single numbers for a law, not arrays")
    rows = rows_of(task, init)
    with np.errstate(all="ignore"):
        if not initial_residual(rows.start, order).any():
            raise ValueError(
                "init must leave something to learn for a law: every f(0) is its strength"
            )
        return 0.5 * float(np.sum(rows.share * rest_square(rows.start, order)))


def excess(rows: Rows, order: Order) -> np.ndarray:
    """What each task has to learn that it can: ``(f(0) − Λ)²`` less what is left for ever."""
    with np.errstate(all="ignore"):
        return initial_residual(rows.start, order) ** 2 - rest_square(rows.start, order)


def log_slope(curve: Callable[[np.ndarray], np.ndarray], step: float, x: np.ndarray) -> np.ndarray:
    """``−d log y / d log x`` of a smooth positive curve; infinite where it has underflowed.

    By four points of log y, to ``step⁴/30`` of its fifth derivative.

    Args:
        curve: y.
        step: in log x, far below the distance of the nearest singularity.
        x: where.
    """
    shifts = step * np.array([-2.0, -1.0, 1.0, 2.0])
    y = curve((x[:, None] * np.exp(shifts)).ravel()).reshape(-1, 4)
    gone = np.any(y <= 0.0, axis=1)
    log = np.log(np.where(gone[:, None], 1.0, y))
    slope = (8.0 * (log[:, 2] - log[:, 1]) - (log[:, 3] - log[:, 0])) / (12.0 * step)
    return np.where(gone, np.inf, -slope)
