"""Losses that are sums over eigenvalues: all that is exact at large D, or with endless contexts."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...compiling import jit, stage
from ...numerics.host import unpacked
from ..directions import filled
from ..task import FixedStructure, Isotropic, RotatedStructure
from ._isotropic import density
from ._power import left_and_gone

_ENTRIES = 4_000_000  # of an array at once
_NEARLY = 1e-30  # in the place of a factor that is 0


class Spectral(NamedTuple):
    r"""``𝓛 = c + Σ_k a_k (1 − γλ_k/L)^(2L) + n_k (1 − (1 − γλ_k/L)^L)²``.

    Attributes:
        lam: λ.
        share: a.
        noise: n.
        floor: c, what no γ can change.
    """

    lam: Float[Array, " modes"]
    share: Float[Array, " modes"]
    noise: Float[Array, " modes"]
    floor: Float[Array, ""]


def spectral(
    task: Isotropic | FixedStructure | RotatedStructure, *, whole: bool = False
) -> Spectral:
    """The sum over eigenvalues of a task: Isotropic, or with endless contexts and full width.

    Directions that count for nothing fill up those of a `RotatedStructure`, which share one γ, to
    one of few numbers of them. Polynomials of untied layers want them whole, one by one.
    """
    if isinstance(task, Isotropic):
        lam, weight = density(task.alpha)
        xp, alpha, noise, lam, weight = unpacked(task.alpha, task.noise, lam, weight)
        parts = lam, weight, noise**2 / alpha * weight / lam, xp.maximum(1.0 - alpha, 0.0)
        return Spectral(*(stage(part) for part in parts))
    spectrum = task.rows if whole else task.spectrum
    rows = spectrum.lam, spectrum.share
    lam, share = filled(*rows) if isinstance(task, RotatedStructure) else rows
    return Spectral(lam, share, stage(np.zeros(lam.shape)), stage(0.0))


@jit
def spectral_loss(
    s: Spectral, gamma: Float[Array, "*modes"], depth: Float[Array, ""]
) -> Float[Array, ""]:
    """The loss at one γ, or one for each mode."""
    left, gone = left_and_gone(gamma * s.lam, jnp.broadcast_to(depth, s.lam.shape))
    return s.floor + jnp.sum(s.share * left**2) + jnp.sum(s.noise * gone**2)


def known_losses(
    s: Spectral, gamma: np.ndarray, depths: np.ndarray, by_step_size: bool = False
) -> np.ndarray:
    """`spectral_loss` at rows of γ (or γ/L) and at depths, (rows, depths), on the host."""
    lam, share, noise, least = (np.asarray(x) for x in s)
    noisy, found = bool(np.any(noise)), []
    column = depths[None, :, None]
    places = gamma[:, None, None] if gamma.ndim == 1 else gamma[:, None, :]
    for part in np.array_split(places, max(1, len(gamma) * depths.size * lam.size // _ENTRIES)):
        with np.errstate(over="ignore"):
            load = (part * column if by_step_size else part) * lam
            left, gone = left_and_gone(
                load, np.broadcast_to(column, np.broadcast_shapes(load.shape, column.shape))
            )
            value = np.sum(share * left**2, axis=2)
            if noisy:
                value = value + np.sum(noise * gone**2, axis=2)
        found.append(least + value)
    return np.concatenate(found)


def spectral_descent(
    s: Spectral, gamma: np.ndarray, depth: float, *, scaled: bool = False
) -> np.ndarray:
    """``−d𝓛/dγ`` at many γ, on the host: a flow asks for another number of them every time.

    Scaled it is over λ₁, and without noise over the largest ``(1 − x/L)^2L``: a search sees its
    sign where it would underflow.
    """
    lam, share, noise = (np.asarray(x) for x in (s.lam, s.share, s.noise))
    noisy, top = bool(np.any(noise)), np.max(lam) if scaled else 1.0
    found = []
    for part in np.array_split(gamma, max(1, gamma.size * lam.size // _ENTRIES)):
        load = part[:, None] * lam[None, :]
        if np.isinf(depth):
            log, rest, sign = -load, np.ones_like(load), np.ones_like(load)
        else:
            rest = 1.0 - load / depth
            with np.errstate(divide="ignore"):
                log = depth * np.log(np.abs(rest))
            sign = np.where(rest < 0.0, (-1.0) ** (depth % 2), 1.0)
        if scaled and not noisy:
            most = np.max(np.where(share > 0.0, log, -np.inf), axis=1, keepdims=True)
            log = log - np.where(np.isfinite(most), most, 0.0)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            square = np.where(rest == 0.0, 0.0, np.exp(2.0 * log) / rest)  # (1 − x/L)^(2L−1)
            total = np.sum(np.where(share > 0.0, 2.0 * share * lam * square, 0.0), axis=1)
            if noisy:
                once = np.where(rest == 0.0, depth == 1.0, sign * np.exp(log) / rest)
                rise = np.where(sign > 0.0, -np.expm1(log), 1.0 + np.exp(log))
                total -= np.sum(2.0 * noise * lam * once * rise, axis=1)
        found.append(total / top)
    return np.concatenate(found)


def scaled_descent(gamma: Array, s: Spectral, depth: Array) -> Array:
    """The same for one γ that JAX traces, without noise: over a power of the largest factor."""
    there = s.share > 0.0
    rest = jnp.where(there, 1.0 - gamma * s.lam / depth, 0.0)
    # Where all factors are 0 their slopes still have a ratio.
    rest = rest + jnp.where(jnp.any(rest != 0.0), 0.0, _NEARLY) * there.astype(rest.dtype)
    part = rest / jax.lax.stop_gradient(jnp.max(jnp.abs(rest)))
    size = jnp.exp((2.0 * depth - 1.0) * jnp.log(jnp.where(part == 0.0, 1.0, jnp.abs(part))))
    return jnp.sum(s.share * s.lam * jnp.where(part == 0.0, 0.0, jnp.sign(part) * size))
