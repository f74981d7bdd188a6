"""Few lengths instead of many, so that a new number of times or runs compiles nothing.

Padding happens in numpy, outside the compiled function: inside it every length would be compiled.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from ..compiling import stage


def time_bucket(count: int) -> int:
    """The length to which an axis of times is padded, one of 1, 16, 64, 256, and so on.

    >>> [time_bucket(n) for n in (1, 2, 16, 50, 65)]
    [1, 16, 16, 64, 256]
    """
    size = 1 if count <= 1 else 16
    while size < count:
        size *= 4
    return size


def run_bucket(count: int) -> int:
    """The number to which runs side by side are padded: the next power of two.

    >>> [run_bucket(n) for n in (1, 3, 4, 30)]
    [1, 4, 4, 32]
    """
    return 1 << (count - 1).bit_length()


def padding(count: int, size: int) -> np.ndarray:
    """Which of `count` entries each of `size` is: themselves, then the last one again."""
    return np.minimum(np.arange(size), count - 1)


def by_bucket(function: Callable[[Any], Any], times: Any, axis: int = 0) -> Any:
    """``function(times)`` of one axis of times, at one of few lengths.

    Args:
        function: treats times independently, and gives a pytree of arrays.
        times: one axis; what JAX traces is handed on as it is.
        axis: of the results, that of the times.
    """
    if isinstance(times, Tracer) or times.shape[0] == 0:
        return function(times)
    count = times.shape[0]
    filled = np.asarray(times)[padding(count, time_bucket(count))]

    def cut(x: Any) -> jax.Array:
        if isinstance(x, Tracer):  # other arguments are traced
            return jax.lax.slice_in_dim(x, 0, count, axis=axis)
        return stage(np.take(np.asarray(x), np.arange(count), axis=axis))

    return jax.tree.map(cut, function(filled))
