"""Elementary functions that keep their digits, and their derivatives, at the edges."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .host import module_of


def log_add(a: Float[Any, "..."], b: Float[Any, "..."]) -> Float[Any, "..."]:
    """``log(e^a + e^b)``, finite in value and slope also where both terms are e^−∞ = 0."""
    return np.logaddexp(a, b) if module_of(a, b) is np else _log_add(a, b)


@jax.custom_jvp
def _log_add(a: Float[Array, "..."], b: Float[Array, "..."]) -> Float[Array, "..."]:
    apart = jnp.where(a == b, 0.0, -jnp.abs(a - b))
    return jnp.maximum(a, b) + jnp.log1p(jnp.exp(apart))


@_log_add.defjvp
def _log_add_jvp(primals, tangents):
    a, b = primals
    da, db = tangents
    out = _log_add(a, b)

    def share(x: Array) -> Array:
        return jnp.where(x == -jnp.inf, 0.0, jnp.exp(x - jnp.where(out == -jnp.inf, 0.0, out)))

    return out, share(a) * da + share(b) * db


def log_square(x: Float[Any, "..."]) -> Float[Any, "..."]:
    """``log x²``, −∞ with zero slope at x = 0, where x² has zero slope too."""
    xp = module_of(x)
    zero = x == 0.0
    return xp.where(zero, -xp.inf, 2.0 * xp.log(xp.abs(xp.where(zero, 1.0, x))))
