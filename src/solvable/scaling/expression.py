"""A small arithmetic on names, which runs nothing but arithmetic."""

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_UNARY: dict[type, Callable[[Any], Any]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_LONGEST = 500
ARITHMETIC = "numbers, + - * / **, parentheses"


class Expression:
    """An expression of numbers, ``+ - * / **``, parentheses and names.

    Args:
        text: the expression.
        allowed: the names that may occur; any unless given.
        field: what it is called in an error.

    >>> flops = Expression("6*N*D")
    >>> flops.names, float(flops({"N": 2.0, "D": 10.0}))
    (('N', 'D'), 120.0)
    """

    def __init__(self, text: str, allowed: Sequence[str] | None = None, field: str = "expression"):
        self.text = text
        self._allowed = None if allowed is None else tuple(allowed)
        kinds = "names" if self._allowed is None else f"the names {', '.join(self._allowed)}"
        brief = repr(text if len(text) <= 60 else text[:57] + "...")
        problem = ValueError(
            f"{field} must be an expression of {ARITHMETIC} and {kinds}, not {brief}"
        )
        if len(text) > _LONGEST:
            raise problem
        try:
            self._body = ast.parse(text.strip(), mode="eval").body
            self._check(self._body)
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
            raise problem from None
        found = [node for node in ast.walk(self._body) if isinstance(node, ast.Name)]
        found.sort(key=lambda node: (node.lineno, node.col_offset))
        self.names = tuple(dict.fromkeys(node.id for node in found))

    def __call__(self, places: Mapping[str, Any]) -> Any:
        """The value where the names stand for numbers or arrays; numpy's, which may be infinite."""
        with np.errstate(all="ignore"):
            return self._value(self._body, places)

    def _check(self, node: ast.AST) -> None:
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            self._check(node.left)
            self._check(node.right)
        elif isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
            self._check(node.operand)
        elif isinstance(node, ast.Constant):
            is_number = isinstance(node.value, int | float) and not isinstance(node.value, bool)
            if not (is_number and math.isfinite(float(node.value))):  # pyright: ignore[reportArgumentType]
                raise ValueError
        elif not (isinstance(node, ast.Name) and node.id in (self._allowed or (node.id,))):
            raise ValueError

    def _value(self, node: Any, places: Mapping[str, Any]) -> Any:
        if isinstance(node, ast.BinOp):
            return _BINARY[type(node.op)](
                self._value(node.left, places), self._value(node.right, places)
            )
        if isinstance(node, ast.UnaryOp):
            return _UNARY[type(node.op)](self._value(node.operand, places))
        if isinstance(node, ast.Constant):
            return np.float64(node.value)  # pyright: ignore[reportArgumentType]
        value = places[node.id]
        return value if isinstance(value, np.ndarray) else np.float64(value)
