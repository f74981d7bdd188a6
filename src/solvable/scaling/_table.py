"""Columns of numbers, checked."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import validation
from .law import Law

HOLD_OUTS = ("largest", "random")


@dataclass(frozen=True)
class Table:
    """Rows to be fitted.

    Attributes:
        x: (rows, resources).
        y: what is fitted.
        weights: of the rows.
        groups: the number of every row's group, from 0; None without groups.
        rows: their places in the table that was given.
    """

    x: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    groups: np.ndarray | None
    rows: np.ndarray

    def part(self, rows: np.ndarray) -> "Table":
        """Some of the rows."""
        groups = self.groups
        if groups is not None:
            groups = np.unique(groups[rows], return_inverse=True)[1]
        return Table(self.x[rows], self.y[rows], self.weights[rows], groups, self.rows[rows])

    def split(
        self, hold_out: tuple[str, float] | None, seed: int
    ) -> tuple["Table", "Table | None"]:
        """The rows to fit, and those held out."""
        if hold_out is None:
            return self, None
        try:
            kind, share = hold_out
        except (TypeError, ValueError):
            raise ValueError(
                f"hold_out must be a kind and a share, such as ('largest', 0.2), "
                f"not {validation.spoken(hold_out)}"
            ) from None
        validation.one_of("hold_out", kind, HOLD_OUTS)
        share = number("hold_out", share, 0.0, 1.0)
        count = max(1, round(share * len(self.y)))
        if kind == "largest":
            order = np.argsort(np.sum(np.log(self.x), axis=1), kind="stable")
        else:
            order = np.random.default_rng(seed).permutation(len(self.y))
        return self.part(np.sort(order[:-count])), self.part(np.sort(order[-count:]))


def number(name: str, value: Any, low: float, high: float) -> float:
    """`value` as a float in (low, high), or a `ValueError` naming `name`."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not low < found < high:
        raise ValueError(
            f"{name} must be a number in ({low:g}, {high:g}), not {validation.spoken(value)}"
        )
    return found


def shape(name: str, values: Any) -> tuple[int, ...]:
    """The shape of numbers, or a `ValueError` naming `name` where they have none."""
    try:
        found = np.asarray(values)
        if found.dtype.kind not in "fiu":
            raise TypeError
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers, not {validation.spoken(values)}") from None
    return found.shape


def positive(name: str, values: Any, *, one: bool = False) -> np.ndarray:
    """One axis of positive numbers, or a `ValueError` naming the column and the row.

    Args:
        name: of the column.
        values: the numbers.
        one: whether a number is a column of one row.
    """
    try:
        column = np.atleast_1d(values) if one else np.asarray(values)
        if column.dtype.kind not in "fiu":
            raise TypeError
        column = column.astype(float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a column of numbers, not {_brief(values)}") from None
    if column.ndim != 1:
        raise ValueError(f"{name} must be one axis of numbers, not of shape {column.shape}")
    bad = np.flatnonzero(~((column > 0.0) & np.isfinite(column)))
    if len(bad):
        raise ValueError(
            f"{name} must hold positive finite numbers, not {column[bad[0]]:g} (row {bad[0] + 1})"
        )
    return column


def resources(law: Law, columns: Mapping[str, Any]) -> np.ndarray:
    """A law's columns, side by side: (rows, resources)."""
    missing = [name for name in law.resources if name not in columns]
    if missing:
        raise ValueError(
            f"columns must hold {', '.join(law.resources)} for {law.name}, not {', '.join(columns)}"
        )
    found = {name: positive(name, columns[name], one=True) for name in law.resources}
    same_length(found)
    return np.stack(list(found.values()), axis=1)


def read(law: Law, columns: Mapping[str, Any], y: Any, weights: Any, group: Any) -> Table:
    """The table that a law is fitted to."""

    def column(name: str, given: Any) -> Any:
        if not isinstance(given, str):
            return given
        if given not in columns:
            raise ValueError(f"{name} must be one of {', '.join(columns)}, not {given!r}")
        return columns[given]

    x = resources(law, columns)
    target = positive(y if isinstance(y, str) else "y", column("y", y))
    parts: dict[str, Any] = {"x": x, "y": target}
    if weights is None:
        parts["weights"] = np.ones(len(x))
    else:
        heavy = positive("weights", column("weights", weights))
        parts["weights"] = heavy / np.mean(heavy)
    if group is not None:
        parts["group"] = numbered(column("group", group))
    same_length(parts)
    return Table(x, target, parts["weights"], parts.get("group"), np.arange(len(x)))


def enough(law: Law, table: Table, free: int, held_out: bool = False) -> None:
    """Refuse too few rows or groups."""
    if len(table.y) <= free:
        rest = " that are not held out" if held_out else ""
        raise ValueError(
            f"points{rest} must be at least {free + 1} for the {free} free parameters of "
            f"{law.name}, not {len(table.y)}"
        )
    if table.groups is not None:
        count = int(table.groups.max()) + 1
        if count < 3:
            raise ValueError(f"group must tell at least 3 groups apart, not {count}")


def numbered(labels: Any) -> np.ndarray:
    """Groups by number, from 0, of one axis of labels."""
    names = np.asarray(labels)
    if names.ndim != 1:
        raise ValueError(f"group must be one axis of labels, not of shape {names.shape}")
    if names.dtype.kind == "f" and np.isnan(names).any():
        raise ValueError("group must name a group in every row, not nan")
    return np.unique(names.astype(str), return_inverse=True)[1]


def same_length(parts: Mapping[str, Any]) -> None:
    """Refuse columns of different lengths."""
    lengths = {name: len(part) for name, part in parts.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"columns must have one length: {told}")


def _brief(values: Any) -> str:
    if isinstance(values, Sequence | np.ndarray) and not isinstance(values, str):
        odd = (v for v in values if not isinstance(v, int | float | np.number))
        return validation.spoken(str(next(odd, values)))
    return validation.spoken(values)
