"""Elementary functions that keep their digits, and their derivatives, at the edges."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


@jax.custom_jvp
def log_add(a: Float[Array, "..."], b: Float[Array, "..."]) -> Float[Array, "..."]:
    """``log(e^a + e^b)``, finite in value and slope also where both terms are e^−∞ = 0."""
    apart = jnp.where(a == b, 0.0, -jnp.abs(a - b))
    return jnp.maximum(a, b) + jnp.log1p(jnp.exp(apart))


@log_add.defjvp
def _log_add_jvp(primals, tangents):
    a, b = primals
    da, db = tangents
    out = log_add(a, b)

    def share(x: Array) -> Array:
        return jnp.where(x == -jnp.inf, 0.0, jnp.exp(x - jnp.where(out == -jnp.inf, 0.0, out)))

    return out, share(a) * da + share(b) * db


def log_square(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """``log x²``, −∞ with zero slope at x = 0, where x² has zero slope too."""
    zero = x == 0.0
    return jnp.where(zero, -jnp.inf, 2.0 * jnp.log(jnp.abs(jnp.where(zero, 1.0, x))))
