"""Checks that the closed forms share."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ..state import State
from ..task import MAX_LAM, Law, check_task, law_of
from ._pointwise import spread

_ROUNDING = 1e-12


def inverse_temperature(lam: Any) -> Float[Array, "*batch"]:
    """λ in (0, 1000], one or many."""
    value = validation.floating("lam", lam)
    validation.within("lam", value, 0.0, MAX_LAM, open_low=True)
    return value


def one_inverse_temperature(lam: Any) -> Float[Array, ""]:
    """λ in (0, 1000], one."""
    value = inverse_temperature(lam)
    validation.shaped("lam", value, ())
    return value


def at_state(task: Any, x: Any, lam: Any) -> tuple[Law, State, Any]:
    """The law, a state, and λ for each of its runs: one of all, or one of each."""
    check_task(task)
    if not isinstance(x, State):
        raise ValueError(f"x must be a single_location.State, not {type(x).__name__}")
    value = inverse_temperature(lam)
    validation.shaped("lam", value, (), x.runs)
    return law_of(task), x, spread(value, x.runs)


def on_manifold(task: Any, kappa: Any, nu: Any, lam: Any) -> tuple[Law, Any, Any, Any]:
    """The law, κ and ν in [−1, 1] and λ, broadcast to one shape."""
    check_task(task)
    values = {"kappa": validation.floating("kappa", kappa), "nu": validation.floating("nu", nu)}
    for name, value in values.items():
        validation.within(name, value, -1.0 - _ROUNDING, 1.0 + _ROUNDING)
    values["lam"] = inverse_temperature(lam)
    shapes = {name: value.shape for name, value in values.items()}
    try:
        shape = np.broadcast_shapes(*shapes.values())
    except ValueError:
        words = ", ".join(f"{name} {given}" for name, given in shapes.items())
        raise ValueError(f"kappa, nu, lam must have one shape, not {words}") from None
    kappa, nu, lam = (spread(value, shape) for value in values.values())
    return law_of(task), kappa, nu, lam


def inside(value: Float[Array, "*runs"]) -> Float[Array, "*runs"]:
    """κ or ν without what training may end beyond ±1; at ±1 the slope is that of the identity."""
    return jnp.where(jnp.abs(value) > 1.0, jnp.sign(value), value)
