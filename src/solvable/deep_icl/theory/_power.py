"""Powers that neither overflow nor lose digits: what L steps of descent leave of a direction."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def log_left(
    load: Float[Array, "..."], depth: Float[Array, "..."]
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """``log |(1 − x/L)^L|`` and its sign, for x = γλ; ``−x`` and 1 at infinite depth.

    Args:
        load: x = γλ.
        depth: L, of the same shape; may be infinite.
    """
    endless = jnp.isinf(depth)
    layers = jnp.where(endless, 1.0, depth)
    part = jnp.where(endless, 0.5, load / layers)
    rest = 1.0 - part
    spent = rest == 0.0
    # log1p keeps the digits of small parts; past 1 it is the distance that counts.
    near = jnp.log1p(-jnp.where(part < 1.0, part, 0.5))
    far = jnp.log(jnp.where(part > 1.0, part - 1.0, 1.0))
    log = layers * jnp.where(part < 1.0, near, far)
    log = jnp.where(spent, -jnp.inf, log)
    odd = jnp.where(layers % 2.0 == 1.0, -1.0, 1.0)
    sign = jnp.where((rest < 0.0) & ~endless, odd, 1.0)
    log = jnp.where(endless, -load, log)
    return jnp.where(jnp.isnan(load), jnp.nan, log), sign  # what has diverged is no number


def squared(log: Float[Array, "..."]) -> Float[Array, "..."]:
    """``(1 − x/L)^(2L)``."""
    return jnp.exp(2.0 * log)


def gone(log: Float[Array, "..."], sign: Float[Array, "..."]) -> Float[Array, "..."]:
    """``1 − (1 − x/L)^L``, without cancellation for small x."""
    return jnp.where(sign > 0.0, -jnp.expm1(log), 1.0 + jnp.exp(log))
