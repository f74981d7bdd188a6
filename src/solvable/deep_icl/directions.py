"""Sums over directions: in numpy, or compiled for few numbers of them."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ..compiling import jit, stage
from ..numerics.host import is_known

F = TypeVar("F", bound=Callable[..., Any])

_LEAST = 16  # directions, to which few are filled up


def compiled_if_traced(function: F) -> F:
    """A function of arrays: as it is for known numbers, one compiled function for traced ones."""
    compiled = jit(function)

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return function(*args) if is_known(*args) else compiled(*args)

    return call  # pyright: ignore[reportReturnType]


def direction_bucket(count: int) -> int:
    """The number to which directions are filled up: 16, 24, 32, 48, 64, 96, and so on.

    >>> [direction_bucket(n) for n in (3, 24, 40, 200)]
    [16, 24, 48, 256]
    """
    size = _LEAST
    while size < count:
        size = size * 3 // 2 if size & (size - 1) == 0 else size * 4 // 3
    return size


def filled(*rows: Any) -> tuple[Any, ...]:
    """Rows over directions, with zeros up to one of few lengths; as they are where traced."""
    if not is_known(*rows):
        return rows
    more = direction_bucket(rows[0].shape[0]) - rows[0].shape[0]
    return tuple(stage(np.pad(np.asarray(row), (0, more))) for row in rows)
