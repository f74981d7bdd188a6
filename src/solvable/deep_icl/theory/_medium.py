"""Losses by the deterministic equivalent: contexts of P tokens, attention of width N."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ...numerics.roots import root_between
from ..task import FixedStructure, RotatedStructure
from ._equivalent import OUTSIDE, Medium, edge, losses

MIN_POINTS = 64
MAX_POINTS = 2**15
SMALL = 1e-4  # steps, times the edge, below which the slope is interpolated from that at 0
RESIDUAL = 1e-9


def medium_of(task: RotatedStructure) -> Medium:
    """The medium of a task."""
    spread = 0.0 if task.context is None else 1.0 / task.context
    numbers = (jnp.asarray(x, task.lam.dtype) for x in (task.width, spread))
    return Medium(task.lam, task.share, jnp.ones_like(task.lam), *numbers)


def preconditioned(task: FixedStructure, gamma: Float[Array, " dim"]) -> Medium:
    """The medium of S = Γ^½ Σ Γ^½, in which L layers are steps of 1/L."""
    spread = 0.0 if task.context is None else 1.0 / task.context
    kind = task.lam.dtype
    return Medium(
        gamma * task.lam,
        task.share,
        jnp.ones_like(task.lam),
        jnp.asarray(task.dim, kind),
        jnp.asarray(spread, kind),
    )


def points_for(depth: float, load: float = 0.0) -> int:
    """Points on the circle: four times the depth, in few different sizes.

    Args:
        depth: the largest; infinite for e^(−γM), where
        load: γ times the edge takes its place.
    """
    needed = 4.0 * depth
    if math.isinf(depth):
        # The circle comes OUTSIDE/γ close to the spectrum: 10 decades of aliasing ask for this.
        needed = 10.0 * math.log(10.0) * (0.5 * load + OUTSIDE) / OUTSIDE
    points = MIN_POINTS
    while points < needed:
        points = points * 3 // 2 if points & (points - 1) == 0 else points * 4 // 3
    if points > MAX_POINTS:
        raise ValueError(
            f"depth must be at most {MAX_POINTS // 4} with finite width or context, not {depth:g}"
            if math.isfinite(depth)
            else f"gamma times the spectrum's edge must be at most {_MAX_LOAD:.0f}, not {load:.6g}"
        )
    return points


_MAX_LOAD = 2.0 * OUTSIDE * (MAX_POINTS / (10.0 * math.log(10.0)) - 1.0)


def settled(residual: Any) -> None:
    """Raise where the equation for κ was not solved."""
    if validation.is_concrete(residual) and not float(np.max(np.asarray(residual))) < RESIDUAL:
        raise ArithmeticError(
            f"the deterministic equivalent was not solved: relative residual {float(residual):.2g}"
        )


def upper_edge(medium: Medium, narrow: bool) -> Float[Array, ""]:
    """The edge of the spectrum of M."""
    return edge(medium, narrow=narrow)


@partial(jax.jit, static_argnames=("points", "narrow", "noisy"))
def total(
    medium: Medium,
    noise: Float[Array, ""],
    step: Float[Array, ""],
    depths: Float[Array, " depths"] | None,
    *,
    points: int,
    narrow: bool,
    noisy: bool,
) -> tuple[Float[Array, " depths"], Float[Array, ""]]:
    """Bias and noise together, also at step 0, and the residual."""
    top = jax.lax.stop_gradient(edge(medium, narrow=narrow))
    tiny = 1e-6 * SMALL / top
    found = losses(
        medium, jnp.maximum(step, tiny), depths, points=points, narrow=narrow, noisy=noisy
    )
    value = found.bias + noise**2 * found.noise
    value = jnp.where(step > tiny, value, jnp.sum(medium.share))
    return jnp.where(step >= 0.0, value, jnp.nan), found.residual


@partial(jax.jit, static_argnames=("points", "narrow", "noisy"))
def totals(
    medium: Medium,
    noise: Float[Array, ""],
    steps: Float[Array, " steps"],
    depths: Float[Array, " depths"] | None,
    *,
    points: int,
    narrow: bool,
    noisy: bool,
) -> tuple[Float[Array, "steps depths"], Float[Array, ""]]:
    """`total` at many steps, and the largest residual."""
    options = {"points": points, "narrow": narrow, "noisy": noisy}
    values, residuals = jax.lax.map(lambda eta: total(medium, noise, eta, depths, **options), steps)
    return values, jnp.max(residuals)


@partial(jax.jit, static_argnames=("points", "narrow", "noisy"))
def medium_descent(
    medium: Medium,
    noise: Float[Array, ""],
    gamma: Float[Array, ""],
    depth: Float[Array, ""],
    *,
    points: int,
    narrow: bool,
    noisy: bool,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Loss and ``−d𝓛/dγ`` at one γ ≥ 0; elsewhere no number.

    At γ = 0 the slope is exactly ``−2 (N/D) Σ a_k λ_k``; very small steps would lose its digits and
    are interpolated.
    """
    top = jax.lax.stop_gradient(edge(medium, narrow=narrow))
    low = SMALL / top
    step = gamma / depth

    def value(step: Float[Array, ""]) -> Float[Array, ""]:
        return total(medium, noise, step, depth[None], points=points, narrow=narrow, noisy=noisy)[
            0
        ][0]

    share = jnp.sum(medium.share)
    portion = medium.width / medium.dim if narrow else jnp.ones_like(noise)
    first = 2.0 * portion * jnp.sum(medium.share * medium.lam)
    found, slope = jax.jvp(value, (jnp.maximum(step, low),), (jnp.ones_like(step),))
    slope = -slope / depth
    part = jnp.clip(step / low, 0.0, 1.0)
    slope = jnp.where(step < low, (1.0 - part) * first + part * slope, slope)
    found = jnp.where(step < low, share - gamma * first, found)
    good = step >= 0.0
    return jnp.where(good, found, jnp.nan), jnp.where(good, slope, jnp.nan)


def best_step(slope: Callable[[float], float], top: float) -> float:
    """Where the slope −d𝓛/dη, positive at first, vanishes; near 2/edge."""
    low, high = 1e-3 / top, 2.0 / top
    while slope(low) <= 0.0 and low > 1e-9 / top:
        low, high = 0.1 * low, low
    while slope(high) > 0.0 and high < 1e3 / top:
        low, high = high, 1.25 * high
    return root_between(slope, low, high)
