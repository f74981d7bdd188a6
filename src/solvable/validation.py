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


def is_concrete(value: Any) -> bool:
    """Whether `value` has numbers to look at, not a tracer's promise of them."""
    return not isinstance(value, Tracer)


def floating(name: str, value: Any) -> jax.Array:
    """`value` as a floating-point array, or a `ValueError` naming `name`.

    >>> floating("alpha", "two")
    Traceback (most recent call last):
    ValueError: alpha must be a number or an array of numbers, not 'two'
    """
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jnp.floating):
        return value
    try:
        array = value if isinstance(value, jax.Array) else np.asarray(value)
        if array.dtype.kind not in "fiu":
            raise TypeError
        return jnp.asarray(array, dtype=jnp.result_type(float))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a number or an array of numbers, not {value!r}") from None


def within(
    name: str,
    value: jax.Array,
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
        left = "(" if open_low or low == -math.inf else "["
        right = ")" if high == math.inf else "]"
        raise ValueError(
            f"{name} must lie in {left}{low:g}, {high:g}{right}, not {float(bad):.12g}"
        )


def shaped(name: str, value: jax.Array, *allowed: tuple[int, ...]) -> None:
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
    try:
        number = int(value)
        good = not isinstance(value, bool | np.bool_) and number == value and number >= low
    except (TypeError, ValueError, OverflowError):
        good, number = False, 0
    if not good or (high is not None and number > high):
        limits = f"at least {low}" if high is None else f"from {low} to {high}"
        raise ValueError(f"{name} must be a whole number, {limits}, not {value!r}")
    return number


def one_of(name: str, value: Any, allowed: Sequence[str]) -> None:
    """Raise unless `value` is one of the words allowed."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")


def needs_double(what: str) -> None:
    """Raise unless JAX computes in double precision, without which `what` would lose its digits."""
    if not jax.config.read("jax_enable_x64"):
        raise ValueError(
            f"{what} needs double precision: call jax.config.update('jax_enable_x64', True) first"
        )


def brief(**fields: Any) -> str:
    """``name=value, …`` with single numbers written out and arrays by their shape."""

    def word(value: Any) -> str:
        if not isinstance(value, jax.Array):
            return repr(value)
        if value.ndim or not is_concrete(value):
            return f"{value.dtype}{list(value.shape)}"
        return f"{float(value):.12g}"

    return ", ".join(f"{name}={word(value)}" for name, value in fields.items())
