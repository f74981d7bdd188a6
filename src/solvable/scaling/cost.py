"""What resources cost: an expression such as 6*N*D, or a function."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import validation
from ..numerics.roots import root_between
from .expression import ARITHMETIC, Expression

_H = 1e-3  # step of the differences in log x; their error is of the order of its fourth power
_FAR = 700.0  # of log x and of log C: more is no double
_SCALES = (1.0, 1e3, 1e6, 1e9)  # where a cost is looked at


class Cost:
    """The cost C of resources, which rises with each of them.

    Args:
        cost: an expression of numbers, ``+ - * / **``, parentheses and resources, or a function
            whose arguments are named as they are.
        resources: the names that may occur; any unless given.

    Attributes:
        text: the expression, or the function's name.
        names: the resources it contains, in the order of `resources`.
        monomial: the powers of a cost that is a product of powers; None for any other.

    >>> cost = Cost("6*N*(D + 1e3)")
    >>> cost.names, cost({"N": 2.0, "D": 1e4}), cost.monomial
    (('N', 'D'), 132000.0, None)
    >>> round(cost.amount("D", 132000.0, {"N": 2.0}), 9)
    10000.0
    """

    def __init__(self, cost: Any, resources: Sequence[str] | None = None):
        names = "" if resources is None else f" {', '.join(resources)}"
        if isinstance(cost, str):
            expression = Expression(cost, resources, "cost")
            self.text, found = expression.text, expression.names
            self._value: Callable[[Mapping[str, Any]], Any] = expression
            self._each = expression
        elif callable(cost):
            self.text, found = getattr(cost, "__name__", repr(cost)), _arguments(cost, resources)
            self._value = lambda places: cost(**{name: places[name] for name in self.names})
            self._each = self._one_by_one
        else:
            told = f"the names{names}" if names else "names"
            raise ValueError(
                f"cost must be an expression of {ARITHMETIC} and {told}, "
                f"or a function of{names or ' them'}, not {validation.spoken(cost)}"
            )
        order = found if resources is None else resources
        self.names = tuple(name for name in order if name in found)
        self.monomial = self._looked_at()

    def _looked_at(self) -> dict[str, float] | None:
        """The powers of a monomial, after a look at some places that the cost rises there."""
        places = self._places()
        probes = []
        for place in places:
            corner = np.ravel(self.everywhere({name: np.array([x]) for name, x in place.items()}))
            if 0.0 < corner[0] < math.inf:
                probes.append(self.powers(place))
        if not probes:
            self(places[-1])
            raise ValueError(f"cost must be a finite number, not {self.text!r}")
        for powers in probes:
            for name, power in powers.items():
                if not power > 0.0:
                    raise ValueError(f"cost must rise with {name}, not as {self.text!r} does")
        first = probes[0]
        same = all(abs(p[n] - first[n]) < 1e-8 * first[n] for p in probes for n in self.names)
        if not same or len(probes) < len(places):
            return None
        return {name: _plain(power) for name, power in first.items()}

    def _places(self) -> list[dict[str, float]]:
        """Places to look at, no two resources alike and no two mixtures."""
        return [
            {name: scale * 1.7 ** (k * (j + 1) % 11) for k, name in enumerate(self.names)}
            for j, scale in enumerate(_SCALES)
        ]

    def __call__(self, places: Mapping[str, float]) -> float:
        """The cost, a positive number (or infinity, where it is too large for one)."""
        value = self._number(places)
        if not value > 0.0:
            told = ", ".join(f"{name} = {x:g}" for name, x in places.items())
            raise ValueError(f"cost must be a positive number, not {self.text!r} at {told}")
        return value

    def _number(self, places: Mapping[str, float]) -> float:
        """The cost, nan where it is no number."""
        try:
            with np.errstate(all="ignore"):
                return float(self._value({n: np.float64(x) for n, x in places.items()}))
        except (TypeError, ValueError, ZeroDivisionError):
            return math.nan
        except OverflowError:
            return math.inf

    def everywhere(self, places: Mapping[str, np.ndarray]) -> np.ndarray:
        """The cost at many places, arrays of one shape: whatever it is there, or nan."""
        return np.asarray(self._each(places), float)

    def _one_by_one(self, places: Mapping[str, np.ndarray]) -> np.ndarray:
        arrays = np.broadcast_arrays(*(places[name] for name in self.names))
        rows = zip(*(array.ravel() for array in arrays), strict=True)
        found = [self._number(dict(zip(self.names, row, strict=True))) for row in rows]
        return np.reshape(found, arrays[0].shape)

    def powers(self, places: Mapping[str, float]) -> dict[str, float]:
        """``d log C/d log x`` of every resource, by differences of the fourth order."""
        slopes = {}
        for name, x in places.items():

            def at(shift: float, name: str = name, x: float = x) -> float:
                return math.log(self({**places, name: x * math.exp(shift * _H)}))

            near, far = at(1.0) - at(-1.0), at(2.0) - at(-2.0)
            slopes[name] = (8.0 * near - far) / (12.0 * _H)
        return slopes

    def amount(self, name: str, budget: float, places: Mapping[str, float]) -> float:
        """How much of one resource makes the cost the budget, to round-off.

        Args:
            name: of the resource.
            budget: what it shall cost.
            places: the other resources.

        Returns:
            The amount; 0 where the others cost more, infinity where it never costs so much.
        """
        if self.monomial is not None:
            return float(self.amounts(name, budget, places))
        rest = {n: np.float64(x) for n, x in places.items() if n != name}

        def excess(log_x: float) -> float:
            value = self._number({**rest, name: math.exp(log_x)})
            logs = math.log(value) if 0.0 < value < math.inf else _FAR * (1 if value > 0 else -1)
            return logs - math.log(budget)

        low, high = -1.0, 1.0
        while excess(low) > 0.0:
            if low <= -_FAR:
                return 0.0
            low = max(2.0 * low, -_FAR)
        while excess(high) < 0.0:
            if high >= _FAR:
                return math.inf
            high = min(2.0 * high, _FAR)
        return math.exp(root_between(excess, low, high))

    def amounts(self, name: str, budget: float, places: Mapping[str, Any]) -> np.ndarray:
        """As `amount`, at many places: arrays of one shape."""
        given = {n: np.asarray(x, float) for n, x in places.items() if n != name}
        wanted = np.broadcast_shapes(*(x.shape for x in given.values()))
        others = {n: np.atleast_1d(x) for n, x in given.items()}
        shape = wanted or (1,)

        def excess(log_x: np.ndarray) -> np.ndarray:
            """Log(C/budget); what is not positive is cheap."""
            value = np.broadcast_to(self.everywhere({**others, name: np.exp(log_x)}), shape)
            with np.errstate(all="ignore"):
                logs = np.log(np.where(value > 0.0, value, 0.0))
            return np.clip(logs, -_FAR, _FAR) - math.log(budget)

        if self.monomial is not None:
            power, log_x = self.monomial[name], np.zeros(shape)
            for _ in range(2):  # the first step is exact, the other takes its round-off away
                log_x = np.clip(log_x - excess(log_x) / power, -_FAR, _FAR)
        else:
            log_x = _root(excess, np.full(shape, -_FAR), np.full(shape, _FAR))
        found = np.where(log_x <= -_FAR, 0.0, np.exp(log_x))
        return np.where(log_x >= _FAR, np.inf, found).reshape(wanted)


def _root(
    function: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Roots of rising functions by bisection; the ends where there is none."""
    ends = low, high
    lost = function(low) >= 0.0, function(high) <= 0.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        left = function(middle) < 0.0
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    return np.where(lost[0], ends[0], np.where(lost[1], ends[1], 0.5 * (low + high)))


def _plain(power: float) -> float:
    """Without the last digits, where they are round-off."""
    return round(power, 9) if abs(power - round(power, 9)) < 1e-11 else power


def _arguments(cost: Callable[..., Any], resources: Sequence[str] | None) -> set[str]:
    """The names of a function's arguments, all of them resources."""
    names = "" if resources is None else ", ".join(resources)
    try:
        parameters = inspect.signature(cost).parameters.values()
    except (TypeError, ValueError):
        colon = f": {names}" if names else ""
        raise ValueError(f"cost must be a function whose arguments have names{colon}") from None
    for one in parameters:
        named = one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
        if not named or (resources is not None and one.name not in resources):
            told = f" {names}" if names else ""
            raise ValueError(f"cost must be a function of arguments named{told}, not {one}")
    return {one.name for one in parameters}
