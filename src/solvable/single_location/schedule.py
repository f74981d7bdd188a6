"""How the inverse temperature λ changes while training."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .. import validation
from ..compiling import jit, stage
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


class Own(eqx.Module):
    """A user's function of the step, in double precision."""

    function: Any

    def __call__(self, step: Int[Array, ""]) -> Float[Array, ""]:
        """λ at a step."""
        return jnp.asarray(self.function(step)).astype(jnp.result_type(float))


Schedule = Callable[[Int[Array, ""]], Float[Array, ""]]

# Steps at which a user's function is looked at; further ones are not asked for.
_STEPS = np.array([0, *(n * 10**k for k in range(9) for n in (1, 2, 5))])


def schedule_of(lam: Any) -> Schedule:
    """A schedule as it is, or a constant as one."""
    if isinstance(lam, Decay):
        return lam
    if callable(lam):
        return _own(lam)
    value = validation.floating("lam", lam)
    validation.shaped("lam", value, ())
    validation.within("lam", value, 0.0, MAX_LAM, open_low=True)
    return Decay(value, stage(np.float64(0.0)))


def check_schedule(schedule: Schedule, steps: int) -> None:
    """Raise unless a user's function is a λ until so many steps."""
    if isinstance(schedule, Own):
        values = _values(schedule, stage(np.minimum(_STEPS, steps)))
        validation.within("lam", values, 0.0, MAX_LAM, open_low=True)


def _own(lam: Callable[..., Any]) -> Own:
    validation.needs_double("lam")
    try:
        value = jax.eval_shape(lambda step: jnp.asarray(lam(step)), stage(0))
    except Exception as error:
        raise ValueError(
            f"lam must be a number or a function of the step that JAX can trace; it raises "
            f"{type(error).__name__}"
        ) from error
    if value.shape != ():
        raise ValueError(f"lam must give one number a step, not an array of {value.shape}")
    if value.dtype.kind not in "fiu":
        raise ValueError(f"lam must give a number, not {value.dtype.name}")
    return Own(lam)


@jit(filtered=True)
def _values(schedule: Schedule, steps: Int[Array, " steps"]) -> Float[Array, " steps"]:
    return jax.vmap(schedule)(steps)


def told(schedule: Schedule) -> Any:
    """What tells one schedule from another: a constant, what it decays with, or its values."""
    if isinstance(schedule, Own):
        return lambda step: schedule(step)
    if isinstance(schedule, Decay) and float(schedule.rate) == 0.0:
        return schedule.first
    return schedule
