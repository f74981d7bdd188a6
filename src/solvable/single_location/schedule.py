"""How the inverse temperature λ changes while training."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .. import validation
from .task import MAX_LAM


class Decay(eqx.Module):
    """``λ_t = λ_0 / (1 + rate·t)``, t counting steps from 0."""

    first: Float[Array, ""]
    rate: Float[Array, ""]

    def __call__(self, step: Int[Array, ""]) -> Float[Array, ""]:
        """λ at a step."""
        return self.first / (1.0 + self.rate * step.astype(self.first.dtype))


def decay(first: Any, rate: Any) -> Decay:
    """The published schedule ``λ_t = λ_0 / (1 + rate·t)``.

    Args:
        first: λ_0, in (0, 1000].
        rate: at least 0; 0 for a constant λ.

    >>> decay(1.0, 1e-4)(jnp.asarray(10_000)).item()
    0.5
    """
    values = {"first": validation.floating("first", first)}
    values["rate"] = validation.floating("rate", rate)
    for name, value in values.items():
        validation.shaped(name, value, ())
    validation.within("first", values["first"], 0.0, MAX_LAM, open_low=True)
    validation.within("rate", values["rate"], 0.0, 1e6)
    return Decay(**values)


Schedule = Callable[[Int[Array, ""]], Float[Array, ""]]


def schedule_of(lam: Any) -> Schedule:
    """A schedule as it is, or a constant as one."""
    if isinstance(lam, Decay):
        return lam
    if callable(lam):

        def schedule(step: Int[Array, ""]) -> Any:
            return jnp.asarray(lam(step))

        try:
            value = jax.eval_shape(schedule, jnp.asarray(0))
        except Exception as error:
            raise ValueError(
                f"lam must be a number or a function of the step that JAX can trace; it raises "
                f"{type(error).__name__}"
            ) from error
        if value.shape != ():
            raise ValueError(f"lam must give one number a step, not an array of {value.shape}")
        first = schedule(jnp.asarray(0))
        validation.within("lam", first, 0.0, MAX_LAM, open_low=True)
        return schedule
    value = validation.floating("lam", lam)
    validation.shaped("lam", value, ())
    validation.within("lam", value, 0.0, MAX_LAM, open_low=True)
    return Decay(value, jnp.zeros_like(value))
