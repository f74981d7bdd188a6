"""What a shape costs: an expression in t, N, L, P, or a function of them."""

import ast
import inspect
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ...numerics.roots import root_between

NAMES = ("t", "N", "L", "P")
_ALLOWED = "numbers, + - * / **, parentheses and the names t, N, L, P"
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_UNARY: dict[type, Callable[[Any], Any]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_H = 1e-3  # step of the differences in log x; their error is of the order of its fourth power


class Cost:
    """The cost of a shape.

    Args:
        cost: an expression such as "t*N**2*L", or a function whose arguments are named t, N, L, P.

    >>> cost = Cost("t*N**2*(L + 2)")
    >>> cost.names, cost({"t": 3.0, "N": 10.0, "L": 4.0})
    (('t', 'N', 'L'), 1800.0)
    """

    def __init__(self, cost: Any):
        if isinstance(cost, str):
            body = _parsed(cost)
            found = {node.id for node in ast.walk(body) if isinstance(node, ast.Name)}
            self._value: Callable[[dict[str, Any]], Any] = lambda places: _value(body, places)
        elif callable(cost):
            found = _arguments(cost)
            self._value = lambda places: cost(**{name: places[name] for name in self.names})
        else:
            raise ValueError(
                f"cost must be an expression of {_ALLOWED}, or a function of t, N, L, P, "
                f"not {cost!r}"
            )
        self.text = cost if isinstance(cost, str) else getattr(cost, "__name__", repr(cost))
        self.names = tuple(name for name in NAMES if name in found)
        if "t" not in self.names:
            raise ValueError(f"cost must contain t, the training time, not {self.text!r}")
        probes = [self.powers(self._at(scale)) for scale in (0.3, 2.0, 40.0, 3e3)]
        for powers in probes:
            for name, power in powers.items():
                if not power > 0.0:
                    raise ValueError(f"cost must rise with {name}, not as {self.text!r} does")
        first = probes[0]
        same = all(abs(p[n] - first[n]) < 1e-8 * first[n] for p in probes for n in self.names)
        # The powers of a monomial; None for any other cost.
        self.monomial = {n: round(p, 9) for n, p in first.items()} if same else None

    def _at(self, scale: float) -> dict[str, float]:
        """A place to look at, no two resources alike."""
        spread = {"t": 1.0, "N": 1.3, "L": 0.8, "P": 1.7}
        return {n: 1.0 + scale * spread[n] if n != "t" else scale for n in self.names}

    def __call__(self, places: dict[str, float]) -> float:
        """The cost, a positive number (or infinity, where it is too large for one)."""
        try:
            with np.errstate(all="ignore"):
                value = float(self._value({n: np.float64(x) for n, x in places.items()}))
        except (TypeError, ValueError, ZeroDivisionError):
            value = math.nan
        except OverflowError:
            value = math.inf
        if not value > 0.0:
            told = ", ".join(f"{name} = {x:g}" for name, x in places.items())
            raise ValueError(f"cost must be a positive number, not {self.text!r} at {told}")
        return value

    def powers(self, places: dict[str, float]) -> dict[str, float]:
        """``d log C/d log x`` of every resource, by differences of the fourth order."""
        slopes = {}
        for name, x in places.items():

            def at(shift: float, name: str = name, x: float = x) -> float:
                return math.log(self(places | {name: x * math.exp(shift * _H)}))

            near, far = at(1.0) - at(-1.0), at(2.0) - at(-2.0)
            slopes[name] = (8.0 * near - far) / (12.0 * _H)
        return slopes

    def time(self, budget: float, places: dict[str, float]) -> float:
        """The t at which a shape costs the budget; 0 where it costs more without training."""
        rest = {name: x for name, x in places.items() if name != "t"}

        def excess(log_t: float) -> float:
            value = self({"t": math.exp(log_t)} | rest)
            return (700.0 if value == math.inf else math.log(value)) - math.log(budget)

        if self.monomial is not None:
            return math.exp(-excess(0.0) / self.monomial["t"])
        low, high = -1.0, 1.0
        while excess(low) > 0.0:
            if low < -600.0:
                return 0.0
            low *= 2.0
        while excess(high) < 0.0:
            if high > 600.0:
                raise ValueError(f"cost must rise with t without limit, not as {self.text!r} does")
            high *= 2.0
        return math.exp(root_between(excess, low, high))


def _parsed(cost: str) -> ast.expr:
    """The tree of an expression that holds nothing but what is allowed."""
    problem = ValueError(f"cost must be an expression of {_ALLOWED}, not {_brief(cost)}")
    if len(cost) > 500:
        raise problem
    try:
        body = ast.parse(cost.strip(), mode="eval").body
        _check(body)
        # Any place does: what cannot be computed here is not made of numbers.
        _value(body, {name: np.float64(1.5) for name in NAMES})
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError, OverflowError):
        raise problem from None
    return body


def _brief(cost: str) -> str:
    return repr(cost if len(cost) <= 60 else cost[:57] + "...")


def _check(node: ast.AST) -> None:
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        _check(node.left)
        _check(node.right)
    elif isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        _check(node.operand)
    elif (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
    ):
        if not math.isfinite(float(node.value)):
            raise ValueError
    elif not (isinstance(node, ast.Name) and node.id in NAMES):
        raise ValueError


def _value(node: Any, places: dict[str, Any]) -> Any:
    """The number an expression stands for; in numpy's floats, which overflow to infinity."""
    if isinstance(node, ast.BinOp):
        with np.errstate(all="ignore"):
            return _BINARY[type(node.op)](_value(node.left, places), _value(node.right, places))
    if isinstance(node, ast.UnaryOp):
        return _UNARY[type(node.op)](_value(node.operand, places))
    if isinstance(node, ast.Constant):
        return np.float64(node.value)  # pyright: ignore[reportArgumentType]
    return places[node.id]


def _arguments(cost: Callable[..., Any]) -> set[str]:
    """The names of a function's arguments, all of them t, N, L or P."""
    try:
        parameters = inspect.signature(cost).parameters.values()
    except (TypeError, ValueError):
        raise ValueError("cost must be a function whose arguments have names: t, N, L, P") from None
    for one in parameters:
        named = one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
        if not named or one.name not in NAMES:
            raise ValueError(f"cost must be a function of arguments named t, N, L, P, not {one}")
    return {one.name for one in parameters}
