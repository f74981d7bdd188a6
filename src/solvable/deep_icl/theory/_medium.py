"""Losses by the deterministic equivalent: contexts of P tokens, attention of width N."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ...compiling import jit, stage
from ...numerics.buckets import padding, time_bucket
from ...numerics.host import is_known, unpacked
from ...numerics.roots import root_between
from ..directions import filled
from ..task import RotatedStructure
from ._equivalent import OUTSIDE, Medium, edge, losses
from ._fixed import FixedLaw

MIN_POINTS = 64
MAX_POINTS = 2**15
SMALL = 1e-4  # γ/L, times the edge, below which the slope is interpolated from that at 0
RESIDUAL = 1e-9


def medium_of(task: RotatedStructure) -> Medium:
    """The medium of a task; directions that count for nothing fill it up to one of few sizes."""
    spread = 0.0 if task.context is None else 1.0 / task.context
    lam, share, weight = filled(task.lam, task.share, stage(np.ones(task.dim)))
    return Medium(lam, share, weight, stage(float(task.width)), stage(spread))


def preconditioned(law: FixedLaw, gamma: Float[Array, " dim"]) -> Medium:
    """The medium of S = Γ^½ Σ Γ^½, in which L layers are steps of 1/L."""
    _, row, lam = unpacked(gamma, law.lam)
    ones = np.ones(lam.shape)
    return Medium(stage(row * lam), law.share, stage(ones), stage(ones.sum()), law.spread)


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


@jit(static_argnames=("points", "narrow", "noisy"))
def total(
    medium: Medium,
    top: Float[Array, ""],
    noise: Float[Array, ""],
    step_size: Float[Array, ""],
    depths: Float[Array, " depths"] | None,
    *,
    points: int,
    narrow: bool,
    noisy: bool,
) -> tuple[Float[Array, " depths"], Float[Array, ""]]:
    """Bias and noise together, also at γ = 0, and the residual; `top` is the medium's edge."""
    top = jax.lax.stop_gradient(top)
    tiny = 1e-6 * SMALL / top
    found = losses(
        medium, top, jnp.maximum(step_size, tiny), depths, points=points, narrow=narrow, noisy=noisy
    )
    value = found.bias + noise**2 * found.noise
    value = jnp.where(step_size > tiny, value, jnp.sum(medium.share))
    return jnp.where(step_size >= 0.0, value, jnp.nan), found.residual


def totals(
    medium: Medium,
    noise: Float[Array, ""],
    step_sizes: Float[Array, " sizes"],
    depths: Float[Array, " depths"] | None,
    **options: Any,
) -> tuple[Float[Array, "sizes depths"], Float[Array, ""]]:
    """`total` at many step sizes, and the largest residual."""
    top = upper_edge(medium, options["narrow"])
    if not is_known(medium, noise, step_sizes):
        return _totals(medium, top, noise, step_sizes, depths, **options)
    # One by one: another number of them, or of depths, compiles nothing.
    count = 0 if depths is None else depths.size
    layers = depths
    if depths is not None:
        # One depth is filled up as well: against the sums over directions it costs nothing.
        layers = stage(np.asarray(depths)[padding(count, time_bucket(max(2, count)))])
    each = np.asarray(step_sizes)
    pairs = [total(medium, top, noise, stage(x), layers, **options) for x in each]
    values = np.stack([np.asarray(value)[: count or 1] for value, _ in pairs])
    return stage(values), stage(np.max([np.asarray(x) for _, x in pairs]))


@jit(static_argnames=("points", "narrow", "noisy"))
def _totals(
    medium: Medium,
    top: Float[Array, ""],
    noise: Float[Array, ""],
    step_sizes: Float[Array, " sizes"],
    depths: Float[Array, " depths"] | None,
    **options: Any,
) -> tuple[Float[Array, "sizes depths"], Float[Array, ""]]:
    values, residuals = jax.lax.map(
        lambda eta: total(medium, top, noise, eta, depths, **options), step_sizes
    )
    return values, jnp.max(residuals)


@jit(static_argnames=("points", "narrow", "noisy"))
def medium_descent(
    medium: Medium,
    top: Float[Array, ""],
    noise: Float[Array, ""],
    gamma: Float[Array, ""],
    depth: Float[Array, ""],
    *,
    points: int,
    narrow: bool,
    noisy: bool,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Loss and ``−d𝓛/dγ`` at one γ ≥ 0; elsewhere no number.

    At γ = 0 the slope is exactly ``−2 (N/D) Σ a_k λ_k``; at very small γ/L it would lose digits and
    is interpolated.
    """
    low = SMALL / jax.lax.stop_gradient(top)
    step_size = gamma / depth
    options = {"points": points, "narrow": narrow, "noisy": noisy}

    def value(step_size: Float[Array, ""]) -> Float[Array, ""]:
        return total(medium, top, noise, step_size, depth[None], **options)[0][0]

    share = jnp.sum(medium.share)
    portion = medium.width / medium.dim if narrow else jnp.ones_like(noise)
    first = 2.0 * portion * jnp.sum(medium.share * medium.lam)
    found, slope = jax.jvp(value, (jnp.maximum(step_size, low),), (jnp.ones_like(step_size),))
    slope = -slope / depth
    part = jnp.clip(step_size / low, 0.0, 1.0)
    slope = jnp.where(step_size < low, (1.0 - part) * first + part * slope, slope)
    found = jnp.where(step_size < low, share - gamma * first, found)
    good = step_size >= 0.0
    return jnp.where(good, found, jnp.nan), jnp.where(good, slope, jnp.nan)


def best_step_size(slope: Callable[[float], float], top: float) -> float:
    """Where the slope −d𝓛/dη, positive at first, vanishes; near 2/edge."""
    low, high = 1e-3 / top, 2.0 / top
    while slope(low) <= 0.0 and low > 1e-9 / top:
        low, high = 0.1 * low, low
    while slope(high) > 0.0 and high < 1e3 / top:
        low, high = high, 1.25 * high
    return root_between(slope, low, high)
