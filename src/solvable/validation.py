"""Checks at the edge: one clear sentence naming the field, its value and what is allowed.

Values that JAX is tracing (under `jit`, `grad`, `vmap`) are let through: only concrete values can
be looked at.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from .compiling import stage
from .question import Parameter, interval, spoken, whole_number


def is_concrete(value: Any) -> bool:
    """Whether `value` has numbers to look at, not a tracer's promise of them."""
    return not isinstance(value, Tracer)


def concrete(name: str, *values: Any, why: str) -> None:
    """Raise if JAX is tracing one of `values`, for what is worked out on the host.

    >>> concrete("t", 1.0, why="the window is searched for")
    """
    if not all(is_concrete(leaf) for leaf in jax.tree.leaves(values)):
        raise ValueError(f"{name} cannot be traced by JAX (jit, vmap, grad): {why} on the host")


def floating(name: str, value: Any) -> jax.Array:
    """`value` as an array in double precision, or a `ValueError` naming `name`.

    This is the door through which users' numbers come in, so that all is computed in double
    precision, or refused.

    >>> floating("alpha", "two")
    Traceback (most recent call last):
    ValueError: alpha must be a number or an array of numbers, not 'two'
    """
    needs_double(name)
    if isinstance(value, jax.Array) and value.dtype == jnp.float64:
        return value
    if isinstance(value, Tracer) and value.dtype.kind in "fiu":
        return value.astype(jnp.float64)
    return stage(real(name, value))


def real(name: str, value: Any) -> np.ndarray:
    """`value` as numpy's numbers, always in double precision, or a `ValueError` naming `name`."""
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiu":
            raise TypeError
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"{name} must be a number or an array of numbers, not {spoken(value)}"
        ) from None


def within(
    name: str,
    value: jax.Array | np.ndarray,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    open_low: bool = False,
) -> None:
    """Raise unless every entry of a concrete `value` lies in [low, high] (or (low, high]).

    >>> within("alpha", jnp.asarray(0.5), 1.0, 10.0, open_low=True)
    Traceback (most recent call last):
    ValueError: alpha must lie in (1, 10], not 0.5
    """
    if not is_concrete(value):
        return
    entries = np.asarray(value)
    good = (entries > low if open_low else entries >= low) & (entries <= high)
    if not good.all():
        bad = entries if entries.ndim == 0 else entries[~good].flat[0]
        inside = interval(low, high, open_low)
        raise ValueError(f"{name} must lie in {inside}, not {float(bad):.12g}")


def inside(name: str, value: jax.Array, parameter: Parameter) -> None:
    """Raise unless every entry of a concrete `value` lies in the range of its description."""
    within(name, value, parameter.low, parameter.high, open_low=parameter.open_low)


def shaped(name: str, value: jax.Array | np.ndarray, *allowed: tuple[int, ...]) -> None:
    """Raise unless the shape of `value` is one of those allowed; () is a single number."""
    if value.shape not in allowed:
        words = " or ".join("a single number" if s == () else f"shape {s}" for s in allowed)
        raise ValueError(f"{name} must be {words}, not an array of shape {value.shape}")


def whole(name: str, value: Any, low: int = 0, high: int | None = None) -> int:
    """`value` as an int in [low, high], or a `ValueError` naming `name`.

    >>> whole("steps", 2.5)
    Traceback (most recent call last):
    ValueError: steps must be a whole number, at least 0, not 2.5
    """
    return whole_number(name, value, low, math.inf if high is None else high)


def one_of(name: str, value: Any, allowed: Sequence[str]) -> None:
    """Raise unless `value` is one of the words allowed."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {spoken(value)}")


def needs_double(what: str) -> None:
    """Raise unless JAX computes in double precision, without which `what` would lose its digits."""
    if jnp.result_type(float) != jnp.float64:
        raise ValueError(f"{what} needs double precision: call solvable.setup() first")


def brief(**fields: Any) -> str:
    """``name=value, …`` with single numbers written out and arrays by their shape."""

    def word(value: Any) -> str:
        if not isinstance(value, jax.Array):
            return repr(value)
        if value.ndim or not is_concrete(value):
            return f"{value.dtype}{list(value.shape)}"
        return f"{float(value):.12g}"

    return ", ".join(f"{name}={word(value)}" for name, value in fields.items())
