"""What L steps of descent leave of a direction, without loss of digits."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...numerics.host import unpacked


@jax.custom_jvp
def _power(x: jax.Array, layers: jax.Array) -> jax.Array:
    """``x^L`` of whole L, with slopes of every order at x = 0; none in L."""
    return x**layers


@_power.defjvp
def _(given: Any, tangents: Any) -> tuple[Any, Any]:
    x, layers = given
    return _power(x, layers), layers * _power(x, jnp.maximum(layers - 1.0, 0.0)) * tangents[0]


def left_and_gone(load: Any, depth: Any) -> tuple[Any, Any]:
    """``r = (1 − x/L)^L`` and ``1 − r``; ``e^-x`` and ``1 − e^-x`` at infinite depth.

    Args:
        load: x = γλ.
        depth: L, of the same shape, or of one to which it is broadcast; may be infinite.
    """
    xp, load, depth = unpacked(load, depth)
    endless = xp.isinf(depth)
    layers = xp.where(endless, 1.0, depth)
    with np.errstate(over="ignore", invalid="ignore"):  # what has diverged is no number
        part = xp.where(endless, 0.0, load / layers)
        small = part < 0.5
        # log1p keeps the digits of small parts. Beyond, 1 − x/L is exact up to 2, and its power has
        # slopes of every order where it is 0, as its logarithm has not.
        log = xp.where(endless, -load, layers * xp.log1p(-xp.where(small, part, 0.0)))
        power = (np.power if xp is np else _power)(xp.where(small, 0.5, 1.0 - part), layers)
        left = xp.where(small, xp.exp(log), power)
        return left, xp.where(small, -xp.expm1(log), 1.0 - power)
