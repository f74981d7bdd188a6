"""Roots of functions of one number: by scipy, and with their slopes where JAX traces."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq, elementwise

from ..compiling import stage
from .host import is_known

_HALVINGS = 64


def root_between(function: Callable[[float], float], low: float, high: float) -> float:
    """A root between two places where the function has opposite signs, to round-off (Brent).

    >>> round(root_between(lambda x: x**2 - 2.0, 0.0, 2.0), 12)
    1.414213562373
    """
    found = brentq(function, low, high, xtol=1e-300, rtol=np.float64(1e-15), maxiter=500)
    return float(found)  # pyright: ignore[reportArgumentType]


def inverse_between(
    function: Callable[..., Any], target: Any, low: Any, high: Any, *given: Any
) -> Any:
    """Where a monotone function has given values, entry by entry, with its slopes under JAX.

    Of known numbers by Chandrupatla's method, to round-off; of traced ones by halving, and one step
    of Newton's method for the slopes in `target` and in what is given.

    Args:
        function: of places, entry by entry, then of what is given.
        target: its values.
        low, high: places around each root, of the shape of `target`.
        given: pytrees of numbers that the function depends on.

    >>> inverse_between(np.log, np.asarray([0.0, 1.0]), 0.1, 9.0).round(6)
    array([1.      , 2.718282])
    """
    if is_known(target, low, high, given):
        return _known(function, np.asarray(target), low, high, given)
    return _traced(function, target, low, high, given)


def _known(function: Any, target: np.ndarray, low: Any, high: Any, given: Any) -> np.ndarray:
    ends = tuple(np.broadcast_to(np.asarray(x, float), target.shape) for x in (low, high))
    if target.size == 0:
        return np.zeros(target.shape)
    found = elementwise.find_root(
        lambda x, y: np.asarray(function(x, *given)) - y,
        ends,
        args=(target,),
        tolerances={"xatol": 1e-300, "xrtol": 4e-16, "fatol": 0.0, "frtol": 0.0},
        maxiter=200,
    )
    return np.asarray(found.x)


def _traced(function: Any, target: Any, low: Any, high: Any, given: Any) -> Any:
    target = stage(target)
    still, aim = jax.lax.stop_gradient((given, target))
    ends = tuple(
        jnp.broadcast_to(jax.lax.stop_gradient(stage(x)), target.shape) for x in (low, high)
    )
    falls = function(ends[0], *still) > function(ends[1], *still)

    def halve(_: Any, ends: Any) -> Any:
        low, high = ends
        middle = 0.5 * (low + high)
        before = (function(middle, *still) > aim) == falls
        return jnp.where(before, middle, low), jnp.where(before, high, middle)

    low, high = jax.lax.fori_loop(0, _HALVINGS, halve, ends)
    place = 0.5 * (low + high)
    ones = jnp.ones_like(place)
    slope = jax.jvp(lambda x: function(x, *still), (place,), (ones,))[1]
    # A step of Newton's method, for its slopes alone.
    step = (target - function(place, *given)) / jax.lax.stop_gradient(slope)
    return place + (step - jax.lax.stop_gradient(step))
