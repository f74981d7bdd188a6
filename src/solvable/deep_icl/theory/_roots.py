"""Roots of functions whose numbers JAX traces; for given numbers there is Brent's method."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...compiling import stage

_HALVINGS = 64


def traced_root(function: Callable[..., Any], low: Any, high: Any, *given: Any) -> Float[Array, ""]:
    """The root of a function that falls from `low` to `high`, with its slopes in what is given.

    Args:
        function: of the place, then of what is given.
        low, high: places around the root.
        given: numbers that the function depends on.
    """
    still, ends = jax.lax.stop_gradient((given, (stage(low), stage(high))))

    def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        before = function(middle, *still) > 0.0
        return jnp.where(before, middle, low), jnp.where(before, high, middle)

    low, high = jax.lax.fori_loop(0, _HALVINGS, halve, ends)
    place = 0.5 * (low + high)
    # A step of Newton's method, for its slopes alone.
    step = -function(place, *given) / jax.lax.stop_gradient(jax.grad(function)(place, *still))
    return place + (step - jax.lax.stop_gradient(step))
