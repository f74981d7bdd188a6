"""The two predictors as training sees them: their exact risk, its slopes, and what a token adds."""

import math
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import memory, validation
from .schedule import Decay, Schedule
from .state import State
from .task import Law, Task
from .theory import (
    SOFTMAX_ENTRY,
    Moments,
    excess_of,
    moments_of,
    slopes_of,
    softmax_excess_of,
    softmax_slopes_of,
)

Attention = Literal["erf", "softmax"]
KINDS: tuple[Attention, ...] = ("erf", "softmax")


class Part(eqx.Module):
    """How some tokens enter a prediction T, with their axes.

    Attributes:
        weight: ∂T/∂(X·v), the attention.
        slope: ∂T/∂(X·k).
    """

    weight: Array
    slope: Array


class Erf(eqx.Module):
    """``Σ_ℓ erf(λ X_ℓ·k)(X_ℓ·v)``."""

    def excess(self, task: Task | Law, x: State, lam: Float[Array, "..."]) -> Array:
        """The excess risk."""
        return excess_of(task, x, lam)

    def slopes(self, task: Task | Law, x: State, lam: Float[Array, "..."]) -> State:
        """∂R in the five scalars."""
        return slopes_of(task, x, lam)

    def read(self, lam: Array, near: Any, far: Any) -> tuple[Array, Part, Part]:
        """T, and how the informative token (datum, run) and the others (…, token, run) enter it.

        Args:
            lam: λ.
            near: X·k and X·v of the informative token.
            far: those of the others.
        """

        def part(along_k: Array, along_v: Array) -> Part:
            slope = lam * (2.0 / math.sqrt(math.pi)) * jnp.exp(-((lam * along_k) ** 2))
            return Part(jax.lax.erf(lam * along_k), slope * along_v)

        far_part, near_part = part(*far), part(*near)
        output = near_part.weight * near[1] + jnp.sum(far_part.weight * far[1], axis=1)
        return output, near_part, far_part


ERF = Erf()


class Softmax(eqx.Module):
    """``Σ_ℓ softmax_ℓ(λ X_ℓ·k)(X_ℓ·v)`` at one λ.

    Attributes:
        moments: the table of its risk.
    """

    moments: Moments

    def excess(self, task: Task | Law, x: State, lam: Float[Array, "..."]) -> Array:
        """The excess risk."""
        return softmax_excess_of(task, self.moments, x, lam)

    def slopes(self, task: Task | Law, x: State, lam: Float[Array, "..."]) -> State:
        """∂R in the five scalars."""
        return softmax_slopes_of(task, self.moments, x, lam)

    def read(self, lam: Array, near: Any, far: Any) -> tuple[Array, Part, Part]:
        """T, and how the informative token and the others enter it, as of `Erf`."""
        along_k, along_v = (
            jnp.concatenate([x[:, None], y], axis=1) for x, y in zip(near, far, strict=True)
        )
        weight = jax.nn.softmax(lam * along_k, axis=1)
        output = jnp.sum(weight * along_v, axis=1)
        slope = lam * weight * (along_v - output[:, None])
        parts = Part(weight[:, 0], slope[:, 0]), Part(weight[:, 1:], slope[:, 1:])
        return output, *parts


def attention_of(kind: Any, task: Task, schedule: Schedule, runs: int) -> Erf | Softmax:
    """The predictor of that name, for so many runs; the table of softmax is made here."""
    validation.one_of("attention", kind, KINDS)
    if kind == "erf":
        return ERF
    if not isinstance(schedule, Decay) or float(schedule.rate):
        raise ValueError("lam must be one number for softmax: the table of its risk is made for it")
    moments = moments_of(task, float(np.asarray(schedule.first)))
    memory.refuse("runs", runs, SOFTMAX_ENTRY * runs * len(moments.place))
    return Softmax(moments)
