"""The two-point deterministic equivalent of L steps of gradient descent in a random context.

A context's map is ``M = Π Λ̂``: a Haar projector Π of rank N and the covariance Λ̂ of P tokens. Its
resolvent is that of Λ at a renormalised κ(z); two resolvents at z and z' give, as a power series in
both, the loss at every depth.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from ...compiling import jit, stage
from ...numerics.host import is_known

ALIAS = 10.0  # decades by which what the circle cannot resolve is suppressed
OUTSIDE = 5.75  # γ times the distance of the circle from the spectrum, at infinite depth
_BLOCK = 64  # points whose pairs with all others are in memory at once
_BISECTIONS = 48
_NEWTON = 6


class Medium(NamedTuple):
    """What a context does to the descent.

    Attributes:
        lam: eigenvalues of the covariance.
        share: a_k = ω_k λ_k.
        weight: how many directions an eigenvalue stands for; D is their sum.
        width: N, any positive number up to D.
        spread: 1/P; 0 for contexts without end.
    """

    lam: Float[Array, " dim"]
    share: Float[Array, " dim"]
    weight: Float[Array, " dim"]
    width: Float[Array, ""]
    spread: Float[Array, ""]

    @property
    def dim(self) -> Float[Array, ""]:
        """D."""
        return jnp.sum(self.weight)


class Loss(NamedTuple):
    """Losses at some depths.

    Attributes:
        bias: without noise.
        noise: what label noise of unit variance adds.
        residual: the largest relative error with which the equation for κ is solved.
    """

    bias: Float[Array, " depths"]
    noise: Float[Array, " depths"]
    residual: Float[Array, ""]


class Contour(NamedTuple):
    """The upper half of a circle around the spectrum of −M; the rest is its conjugate.

    Attributes:
        z: the points, from the right to the left.
        first: the real point to the right of them all.
        heights: of every depth the function of −z that is applied to M, times dz/2πi.
        rises: the same of the noise: (function − 1)/z.
    """

    z: Complex[Array, " half"]
    first: Float[Array, ""]
    heights: Complex[Array, "depths half"]
    rises: Complex[Array, "depths half"]


def _as(dtype: Any, *values: Any) -> list[Any]:
    """Numbers in the type of others: nothing is promoted by itself."""
    return [x.astype(dtype) for x in values]


def _map(m: Medium, kappa: Any, *, narrow: bool) -> tuple[Any, Any, Any, Any]:
    """``z = κ (1 − τ/P) (N − τ)/(D − τ)``, dz/dκ, ``1 − τ/P`` and τ, at one κ, real or complex."""
    lam, width, spread, dim = _as(kappa.dtype, m.lam, m.width, m.spread, m.weight.sum())
    g, weight = 1.0 / (lam + kappa), (m.weight * m.lam).astype(kappa.dtype)
    tau, slope = (weight * g).sum(), (weight * g**2).sum()
    u = 1.0 - tau * spread
    z, rate = kappa * u, 1.0 / kappa + slope * spread / u
    if narrow:
        z = z * (width - tau) / (dim - tau)
        rate = rate + slope / (width - tau) - slope / (dim - tau)
    return z, z * rate, u, tau


# Where the edge is looked for: log(κ/−λ₁ − 1) on a grid first, then by golden section.
_GRID = np.linspace(-36.0, 12.0, 193)
_SECTIONS = 45
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)
_MANY = 10**5  # directions from which on it is compiled


def edge(m: Medium, *, narrow: bool) -> Float[Array, ""]:
    """The upper edge of M's spectrum: the smallest −z(κ) over real κ below −λ₁.

    Without a minimum inside (N = D and P infinite) it is λ₁.
    """
    if is_known(m) and m.lam.size < _MANY:
        return stage(_known_edge(jax.tree.map(np.asarray, m), narrow))
    return _edge(m, narrow=narrow)


def _known_edge(m: Any, narrow: bool) -> float:
    top = m.lam.max()

    def minus_z(log_gap: float) -> float:
        return -_map(m, -top * (1.0 + np.exp(log_gap)), narrow=narrow)[0]

    k = int(np.argmin([minus_z(x) for x in _GRID]))
    low, high = _GRID[max(k - 1, 0)], _GRID[min(k + 1, _GRID.size - 1)]
    for _ in range(_SECTIONS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        low, high = (low, right) if minus_z(left) < minus_z(right) else (left, high)
    return minus_z(0.5 * (low + high))


@jit(static_argnames="narrow")
def _edge(m: Medium, *, narrow: bool) -> Float[Array, ""]:
    def minus_z(m: Medium, log_gap: Array) -> Array:
        return -_map(m, -jnp.max(m.lam) * (1.0 + jnp.exp(log_gap)), narrow=narrow)[0]

    still, grid = jax.lax.stop_gradient(m), jnp.asarray(_GRID)
    k = jnp.argmin(jax.lax.map(lambda x: minus_z(still, x), grid))
    ends = grid[jnp.maximum(k - 1, 0)], grid[jnp.minimum(k + 1, grid.size - 1)]

    def shrink(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        better = minus_z(still, left) < minus_z(still, right)
        return jnp.where(better, low, left), jnp.where(better, right, high)

    low, high = jax.lax.fori_loop(0, _SECTIONS, shrink, ends)
    return minus_z(m, 0.5 * (low + high))  # at a minimum its place has no slope


def _positive_root(m: Medium, z: Float[Array, ""], *, narrow: bool) -> Float[Array, ""]:
    """κ > 0 with z(κ) = z > 0, where τ < min(N, P): there z grows with κ."""
    dim, trace = m.dim, jnp.sum(m.weight * m.lam)
    width = m.width if narrow else dim
    fewest = 1.0 / jnp.maximum(m.spread, 1.0 / width)
    low = jnp.log(z * dim / width)
    high = jnp.log(jnp.maximum(2.0 * trace / fewest, 4.0 * z * dim / width))

    def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        value, _, u, tau = _map(m, jnp.exp(middle), narrow=narrow)
        short = (value < z) | (u <= 0.0) | (tau >= width)
        return jnp.where(short, middle, low), jnp.where(short, high, middle)

    low, high = jax.lax.fori_loop(0, _BISECTIONS, halve, (low, high))
    return jnp.exp(0.5 * (low + high))


def _along(
    m: Medium, z: Complex[Array, " half"], first: Float[Array, ""], *, narrow: bool
) -> Complex[Array, " half"]:
    """κ at every z, each continued from the one before: other roots of the equation exist."""

    def newton(_: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        kappa, goal = carry
        value, slope, _, _ = _map(m, kappa, narrow=narrow)
        return kappa - (value - goal) / slope, goal

    def follow(carry: tuple[Array, Array], goal: Array) -> tuple[tuple[Array, Array], Array]:
        kappa, here = carry
        kappa = kappa + (goal - here) / _map(m, kappa, narrow=narrow)[1]
        kappa, _ = jax.lax.fori_loop(0, _NEWTON, newton, (kappa, goal))
        return (kappa, goal), kappa

    start = _positive_root(m, first, narrow=narrow)
    return jax.lax.scan(follow, (start.astype(z.dtype), first.astype(z.dtype)), z)[1]


def _angles(points: int, dtype: Any) -> Float[Array, " half"]:
    return jnp.asarray(2.0 * np.pi * (np.arange(points // 2) + 0.5) / points, dtype)


def _circle(
    step_size: Float[Array, ""], depths: Float[Array, " depths"], top: Float[Array, ""], points: int
) -> Contour:
    """``(1 − ηM)^ℓ``: the circle |1 + ηz| = 1/r, outside of which there is no spectrum.

    ``Σ_ℓ ζ^ℓ (1 − ηM)^ℓ = (z + M)^-1/(ζη)`` with ``z = (1/ζ − 1)/η``.
    """
    still = jax.lax.stop_gradient(step_size)
    growth = jnp.maximum(jnp.abs(still * top - 1.0), 1.0)
    log_radius = -ALIAS * math.log(10.0) / points - jnp.log(growth)
    angle = _angles(points, step_size.dtype)
    log_zeta = jax.lax.complex(jnp.broadcast_to(log_radius, angle.shape), angle)
    # From the conjugates, so that z runs through the upper half.
    log_zeta = jnp.conj(log_zeta)
    eta, moved = _as(log_zeta.dtype, still, step_size - still)
    z = jnp.expm1(-log_zeta) / eta
    # The circle rests where the step size moves: only 1 + ηz has slopes then.
    log_power = -log_zeta + jnp.log1p(moved * z * jnp.exp(log_zeta))
    power = jnp.exp(depths.astype(z.dtype)[:, None] * log_power[None, :])
    dz = jnp.exp(-log_zeta) / (eta * points)
    heights = power * dz[None, :]
    rises = (power - 1.0) * (dz / z)[None, :]
    return Contour(z, jnp.expm1(-log_radius) / still, heights, rises)


def _around(gamma: Float[Array, ""], top: Float[Array, ""], points: int) -> Contour:
    """``e^(−γM)``, the limit of infinite depth: a circle around [−edge, 0]."""
    still = jax.lax.stop_gradient(gamma)
    centre, gap = -0.5 * top, OUTSIDE / still
    angle = _angles(points, gamma.dtype)
    arm = jax.lax.complex((gap - centre) * jnp.cos(angle), (gap - centre) * jnp.sin(angle))
    z = centre.astype(arm.dtype) + arm
    load, dz = gamma.astype(z.dtype) * z, arm / points
    return Contour(z, gap, (jnp.exp(load) * dz)[None, :], (jnp.expm1(load) / z * dz)[None, :])


@jit(static_argnames=("points", "narrow", "noisy"))
def losses(
    m: Medium,
    top: Float[Array, ""],
    step_size: Float[Array, ""],
    depths: Float[Array, " depths"] | None,
    *,
    points: int,
    narrow: bool,
    noisy: bool,
) -> Loss:
    r"""``E Tr[Ω (1 − ηMᵀ)^ℓ Λ (1 − ηM)^ℓ]`` at all depths ℓ from one evaluation.

    It is the integral of ``h(z) h(z') F(z, z')`` over two circles around the spectrum, with
    ``h = (1 + ηz)^ℓ`` and ``F(z, z') = E Tr[Ω (z + Mᵀ)^-1 Λ (z' + M)^-1]``.

    Args:
        m: the medium.
        top: the edge of its spectrum.
        step_size: η = γ/L > 0; γ itself at infinite depth.
        depths: ℓ; None for the limit of infinite depth.
        points: on the circle, even, at least 4 times the largest depth.
        narrow: whether N < D.
        noisy: whether the noise's part is wanted (N = D only).

    Returns:
        The losses; differentiable in the medium and in η.
    """
    top = jax.lax.stop_gradient(top)
    if depths is None:
        contour = _around(step_size, top, points)
    else:
        contour = _circle(step_size, depths, top, points)
    z, fixed = contour.z, jax.lax.stop_gradient(m)
    kappa = _along(fixed, jax.lax.stop_gradient(z), contour.first, narrow=narrow)
    at = jax.vmap(lambda k: _map(m, k, narrow=narrow))
    # One more step of Newton's method from a fixed place has the derivatives of the root.
    value, slope, _, _ = at(kappa)
    kappa = kappa - (value - z) / slope
    value, _, u, tau = at(kappa)
    residual = jnp.max(jnp.abs(value - z) / jnp.abs(z))

    half = points // 2
    block = max(b for b in range(1, _BLOCK + 1) if half % b == 0)
    here = _Points(z, kappa, u, tau)
    there = jax.tree.map(lambda x: jnp.concatenate([x, jnp.conj(x)]), here)

    def both(x: Array) -> Array:
        return jnp.concatenate([x, jnp.conj(x)], axis=1)

    all_heights, all_rises = both(contour.heights), both(contour.rises)

    def some(carry: tuple[Array, Array], part: Any) -> tuple[tuple[Array, Array], None]:
        rows, heights, rises = part
        bias, noise = _pairs(m, rows, there, narrow=narrow, noisy=noisy)
        carry = (
            carry[0] + jnp.einsum("iL,ij,Lj->L", heights, bias, all_heights),
            carry[1] + jnp.einsum("iL,ij,Lj->L", rises, noise, all_rises) if noisy else carry[1],
        )
        return carry, None

    def blocks(x: Array) -> Array:
        return x.reshape(half // block, block, *x.shape[1:])

    parts = jax.tree.map(blocks, (here, contour.heights.T, contour.rises.T))
    zero = jnp.zeros(contour.heights.shape[0], z.dtype)
    (bias, noise), _ = jax.lax.scan(some, (zero, zero), parts)
    # The lower half of the first circle gives the conjugate.
    return Loss(2.0 * bias.real, 2.0 * noise.real, residual)


class _Points(NamedTuple):
    """Points on the circle, and what the map has there."""

    z: Complex[Array, " points"]
    kappa: Complex[Array, " points"]
    u: Complex[Array, " points"]
    tau: Complex[Array, " points"]


def _pairs(
    m: Medium, p: _Points, q: _Points, *, narrow: bool, noisy: bool
) -> tuple[Complex[Array, "some points"], Complex[Array, "some points"] | None]:
    """F(z, z') for z in p and z' in q, and its counterpart for the noise."""
    weights = [m.share, m.weight * m.lam**2]
    if narrow or noisy:
        weights.append(m.weight * m.lam)
    if narrow:
        weights += [m.share * m.lam, m.weight]
    sums = _products(jnp.stack(weights), m.lam, p.kappa, q.kappa)
    spread, width, dim = _as(p.z.dtype, m.spread, m.width, m.dim)

    def outer(x: Array, y: Array) -> Array:
        return x[:, None] * y[None, :]

    screen = 1.0 / (1.0 - spread * sums[1])
    across = outer(1.0 / p.u, 1.0 / q.u)
    inner = sums[0] * screen
    bias = across * inner
    if narrow:
        by_lam, by_both, by_one = sums[2], sums[3], sums[4]
        psi, psi_ = ((width - x.tau) / (dim - x.tau) for x in (p, q))
        psi2 = outer(psi, psi_)
        omega = (by_both + spread * outer(p.kappa, q.kappa) * by_lam * inner) / psi2
        g0 = across * (by_one + spread * by_lam**2 * screen) / psi2
        g1 = (((dim - q.tau) / q.z)[None, :] - p.z[:, None] * g0) / psi[:, None]
        phi = outer(1.0 - psi, psi_ / q.z) * omega / (p.z[:, None] * g0 + g1)
        bias = (bias + phi * across * by_lam * screen) / psi2
    if not noisy:
        return bias, None
    # Tr ΛQ' − z Tr ΛQQ'.
    return bias, spread * ((q.tau / q.u)[None, :] - p.z[:, None] * across * sums[2] * screen)


def _products(
    weights: Float[Array, "sums dim"],
    lam: Float[Array, " dim"],
    kappa: Complex[Array, " some"],
    other: Complex[Array, " points"],
) -> Complex[Array, "sums some points"]:
    """``Σ_k w_k/((λ_k + κ)(λ_k + κ'))``, by real products: twice as fast as complex ones.

    The second half of `other` is the conjugate of the first.
    """
    points = other.shape[0]

    def parts(kappa: Array) -> Array:
        g = 1.0 / (lam.astype(kappa.dtype)[None, :] + kappa[:, None])
        return jnp.stack([g.real, g.imag])

    one, two = parts(kappa), parts(other[: points // 2])
    four = jnp.einsum("sd,apd,bqd->sapbq", weights, one, two, precision="highest")
    rr, ri, ir, ii = four[:, 0, :, 0], four[:, 0, :, 1], four[:, 1, :, 0], four[:, 1, :, 1]
    straight, crossed = jax.lax.complex(rr - ii, ri + ir), jax.lax.complex(rr + ii, ir - ri)
    return jnp.concatenate([straight, crossed], axis=2)
