r"""The two-point deterministic equivalent of L steps of gradient descent in a random context.

A context's map is ``M = (D/N) Π Λ̂``: a Haar projector Π of rank N and the covariance Λ̂ of P tokens.
Its resolvent is that of Λ at a renormalised κ(z), and two resolvents give every loss (derived from
the accounts' two-point theory). Losses are integrals of ``h(z) = (1 + γz/L)^L`` over an ellipse
around the spectrum, so that one evaluation serves all γ and all depths.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from ...compiling import stage
from ...numerics.host import hold, unpacked
from ...numerics.roots import inverse_between
from ..spectrum import Spectrum

_NEWTON = 6


class Medium(NamedTuple):
    """What a context does to the descent: a spectrum, N and P.

    Attributes:
        lam, share, weight: of the `Spectrum`.
        narrow: 1/N; None for N = D.
        spread: 1/P; 0 for contexts without end.
        dim: D.
    """

    lam: Float[Array, " nodes"]
    share: Float[Array, " nodes"]
    weight: Float[Array, " nodes"]
    narrow: Float[Array, ""] | None
    spread: Float[Array, ""]
    dim: Float[Array, ""]

    @classmethod
    def of(cls, spectrum: Spectrum, width: Any, context: Any) -> "Medium":
        """Of a spectrum, N (None, or D, without limit) and P (None without end)."""
        narrow = None if width is None or width == spectrum.dim else stage(1.0 / width)
        spread = stage(0.0 if context is None else 1.0 / context)
        rows = spectrum.lam, spectrum.share, spectrum.weight
        return cls(*rows, narrow, spread, stage(float(spectrum.dim)))


def _map(xp: Any, m: Any, kappa: Any) -> tuple[Any, ...]:
    """``z = κ (1 − τ/P)(1 − τ/N)/(1 − τ/D)`` at κ of any shape, real or complex.

    Returns:
        z, dz/dκ, u = 1 − τ/P, ψ = (1 − τ/N)/(1 − τ/D) and ``τ = Σ λ/(λ + κ)``.
    """
    row = (1,) * kappa.ndim + m.lam.shape
    lam, weight = m.lam.reshape(row).astype(kappa.dtype), m.weight.reshape(row)
    g = 1.0 / (lam + kappa[..., None])
    part = weight.astype(kappa.dtype) * lam * g
    tau, slope = xp.sum(part, axis=-1), xp.sum(part * g, axis=-1)
    spread, dim = m.spread.astype(kappa.dtype), m.dim.astype(kappa.dtype)
    u = 1.0 - tau * spread
    z, rate, psi = kappa * u, 1.0 / kappa + slope * spread / u, xp.ones_like(kappa)
    if m.narrow is not None:
        narrow = m.narrow.astype(kappa.dtype)
        above, below = 1.0 - tau * narrow, 1.0 - tau / dim
        psi = above / below
        z, rate = z * psi, rate + slope * narrow / above - slope / (dim * below)
    return z, z * rate, u, psi, tau


def edge(m: Medium) -> Any:
    """The upper edge of M's spectrum: the smallest −z(κ) over real κ below −λ₁, with its slopes.

    Without a minimum inside, which only endless contexts allow, it is the limit λ₁D/N.
    """
    xp, m = unpacked(m)
    limit = xp.max(m.lam) * (1.0 if m.narrow is None else m.narrow * m.dim)

    def rise(log_gap: Any, m: Any) -> Any:
        """The slope of −z in κ: it falls through 0 at the edge, as κ falls from −λ₁."""
        yp, log_gap, m = unpacked(log_gap, m)
        return _map(yp, m, _below(yp, m, log_gap))[1]

    low, high = np.asarray(-36.0), np.asarray(12.0)
    still = hold(m)
    inside = rise(low, still) * rise(high, still) < 0.0
    # Where there is none the place does not matter.
    high = xp.where(inside, high, low + 1e-9)
    if xp is np and not inside:
        return limit
    place = hold(inverse_between(rise, xp.zeros(()), low, high, still))
    # A place that is none would spoil the slopes of the limit, too.
    found = -_map(xp, m, _below(xp, m, xp.where(inside, place, 0.0)))[0]
    return xp.where(inside, found, limit)


def _below(xp: Any, m: Any, log_gap: Any) -> Any:
    """κ below −λ₁; of eigenvalues that are all 0, any."""
    top = xp.max(m.lam)
    return -xp.where(top > 0.0, top, 1.0) * (1.0 + xp.exp(log_gap))


class Resolvents(NamedTuple):
    """One- and two-point functions of M on the upper half of an ellipse around [−edge, 0].

    Attributes:
        z: the points; the lower half is their conjugate.
        dz: weights dz/2πi.
        one: ``E Tr ΩΛ(z + M)^-1 = (κ/z) Σ a/(λ + κ)``.
        two: ``E Tr Ω(z + Mᵀ)^-1 Λ(z' + M)^-1``, z' on the upper half, then on the lower one.
        noise: ``−E Tr ΛΠ(z + S)^-1/(P z) = −τ/(P u z)``, S the part of M that descends.
        start: Σa, the loss before the first layer.
        residual: the largest relative error with which the equation for κ is solved.
    """

    z: Complex[Array, " half"]
    dz: Complex[Array, " half"]
    one: Complex[Array, " half"]
    two: Complex[Array, "half points"]
    noise: Complex[Array, " half"]
    start: Float[Array, ""]
    residual: Float[Array, ""]


def resolvents(m: Medium, top: Any, log_rho: Any, points: int) -> Resolvents:
    r"""The functions of M on the ellipse ``z = (edge/2)((w + 1/w)/2 − 1)``, ``w = ϱ e^iθ``.

    Args:
        m: the medium.
        top: its edge, or more; no slopes are taken through it.
        log_rho: log ϱ; the trapezoidal rule has the error ϱ^-points.
        points: on the ellipse, even.

    Returns:
        The functions; differentiable in the medium.
    """
    xp, m, top, log_rho = unpacked(m, hold(top), hold(log_rho))
    first = 0.5 * top * (xp.cosh(log_rho) - 1.0)
    top, log_rho = (x.astype(complex) for x in (top, log_rho))
    w = xp.exp(log_rho + 2j * np.pi * (np.arange(points // 2) + 0.5) / points)
    z, dz = 0.5 * top * (0.5 * (w + 1.0 / w) - 1.0), top * (w - 1.0 / w) / (4.0 * points)
    kappa = _along(xp, hold(m), z, first)
    if xp is jnp:  # a step of Newton's method from a fixed place has the slopes of the root
        value, slope, *_ = _map(xp, m, jax.lax.stop_gradient(kappa))
        kappa = jax.lax.stop_gradient(kappa) - (value - z) / slope
    value, _, u, psi, tau = _map(xp, m, kappa)
    residual = xp.max(xp.abs(value - z) / xp.abs(z))
    lam = m.lam.astype(kappa.dtype)
    g = 1.0 / (lam[None, :] + kappa[:, None])
    one = kappa / z * xp.sum(m.share.astype(kappa.dtype)[None, :] * g, axis=1)
    two = _pairs(xp, m, g, kappa, u, psi)
    noise = -m.spread.astype(kappa.dtype) * tau / (u * z)
    return Resolvents(z, dz, one, two, noise, xp.sum(m.share), residual)


def _along(xp: Any, m: Any, z: Any, first: Any) -> Any:
    """κ at every z, each continued from the one before: other roots of the equation exist."""
    start = _positive_root(xp, m, first).astype(complex)

    if xp is np:
        kappa, here, found = start, first, []
        for goal in z:
            kappa = kappa + (goal - here) / _map(np, m, np.asarray(kappa))[1]
            for _ in range(4 * _NEWTON):
                value, slope, *_ = _map(np, m, np.asarray(kappa))
                step = (value - goal) / slope
                kappa = kappa - step
                if abs(step) <= 1e-15 * abs(kappa):
                    break
            found.append(kappa)
            here = goal
        return np.asarray(found)

    def newton(_: Any, carry: Any) -> Any:
        kappa, goal = carry
        value, slope, *_ = _map(jnp, m, kappa)
        return kappa - (value - goal) / slope, goal

    def follow(carry: Any, goal: Any) -> Any:
        kappa, here = carry
        kappa = kappa + (goal - here) / _map(jnp, m, kappa)[1]
        kappa, _ = jax.lax.fori_loop(0, _NEWTON, newton, (kappa, goal))
        return (kappa, goal), kappa

    return jax.lax.scan(follow, (start, first.astype(z.dtype)), z)[1]


def _positive_root(xp: Any, m: Any, z: Any) -> Any:
    """κ > 0 with z(κ) = z > 0, where τ < min(N, P): there z grows with κ."""
    most = m.spread if m.narrow is None else xp.maximum(m.spread, m.narrow)  # 1/min(N, P)
    high = xp.log(xp.maximum(2.0 * xp.sum(m.weight * m.lam) * most, 4.0 * z)) + 1e-9

    def log_z(log_kappa: Any, m: Any, most: Any) -> Any:
        yp, log_kappa, m, most = unpacked(log_kappa, m, most)
        value, _, _, _, tau = _map(yp, m, yp.exp(log_kappa))
        good = (tau * most < 1.0) & (value > 0.0)
        return yp.where(good, yp.log(yp.where(good, value, 1.0)), -700.0)

    return xp.exp(inverse_between(log_z, xp.log(z), xp.log(z) - 1e-9, high, m, most))


def _pairs(xp: Any, m: Any, g: Any, kappa: Any, u: Any, psi: Any) -> Any:
    r"""``F(z, z')`` for z on the upper half and z' on both.

    With ``Q = T₁²/(P(1 − Γ₂))``, ``T₁ = Σ λgg'``, ``Γ₂ = Σ λ²gg'/P``, ``A = Σ a gg'/(1 − Γ₂)`` and
    p = N/D, ``F = (A + φ T₁/(1 − Γ₂))/(uu'ψψ')``,
    ``φ = (1 − pψ)(Σ aλgg' + κκ'T₁A/P)/(κ'(pκψ(Σ gg' + Q) + T₁ − κQ))`` (accounts, in which φ is a
    difference of two sums over all D directions: taken by hand it has a limit of large D).
    """
    rows = [m.share, m.weight * m.lam**2]
    if m.narrow is not None:
        rows += [m.weight * m.lam, m.share * m.lam, m.weight]
    sums = _products(xp, xp.stack(rows), g)

    def outer(x: Any, y: Any) -> Any:
        return x[:, None] * xp.concatenate([y, xp.conj(y)])[None, :]

    spread = m.spread.astype(kappa.dtype)
    screen = 1.0 / (1.0 - spread * sums[1])
    inner = sums[0] * screen
    if m.narrow is not None:
        by_lam, by_both, by_one = sums[2], sums[3], sums[4]
        both, portion = outer(kappa, kappa), 1.0 / (m.narrow * m.dim).astype(kappa.dtype)
        more = spread * by_lam**2 * screen
        above = outer(1.0 - portion * psi, xp.ones_like(psi)) * (
            by_both + spread * both * by_lam * inner
        )
        below = portion * outer(kappa * psi, kappa) * (by_one + more)
        below = below + outer(xp.ones_like(kappa), kappa) * by_lam - both * more
        inner = inner + above / below * by_lam * screen
    return inner / outer(u * psi, u * psi)


def _products(xp: Any, weights: Any, g: Any) -> Any:
    """``Σ_k w_k g_k g'_k`` by one real product of matrices, for g' and its conjugate."""
    half = g.shape[0]
    parts = xp.concatenate([g.real, g.imag])
    four = (weights[:, None, :] * parts[None]) @ parts.T
    rr, ri = four[:, :half, :half], four[:, :half, half:]
    ir, ii = four[:, half:, :half], four[:, half:, half:]
    real, imaginary = (
        xp.concatenate(parts, axis=2) for parts in ((rr - ii, rr + ii), (ri + ir, ir - ri))
    )
    return real.astype(complex) + 1j * imaginary.astype(complex)


def losses(r: Resolvents, gamma: Any, depth: Any, noise: Any) -> tuple[Any, Any]:
    r"""𝓛 and d𝓛/dγ of L tied layers, at rows of γ and L (infinite: the limit).

    With ``h = (1 + γz/L)^L``: ``𝓛 − Σa = 2∮(h − 1) E Tr ΩΛ(z + M)^-1 + ∮∮(h − 1)(h' − 1)F``, and of
    label noise ``−σ²/P ∮(1 − h)² τ/(uz)`` (derived). Every term is of order γ: no digit is lost
    as γ → 0.

    Args:
        r: the resolvents.
        gamma, depth: of one shape.
        noise: σ.

    Returns:
        Two arrays of that shape.
    """
    xp, r, gamma, depth, noise = unpacked(r, gamma, depth, noise)
    shape = gamma.shape
    gamma, depth = gamma.reshape(-1, 1), depth.reshape(-1, 1)
    endless = xp.isinf(depth)
    layers = xp.where(endless, 1.0, depth).astype(complex)
    load = gamma.astype(complex) * r.z[None, :]
    part = xp.where(endless, 0.0, load / layers)
    with np.errstate(over="ignore", invalid="ignore"):  # far beyond the edge of stability
        log = xp.where(endless, load, layers * xp.log1p(part))
        rise = xp.expm1(log)  # h − 1
        steep = r.z[None, :] * xp.exp(log) / (1.0 + part)  # dh/dγ
        a, b = rise * r.dz[None, :], steep * r.dz[None, :]
        seen = xp.concatenate([a, xp.conj(a)], axis=1) @ r.two.T
        twice = 2.0 * r.one[None, :] + seen
        unit = (noise**2).astype(complex) * r.noise[None, :]
        value = r.start + 2.0 * xp.sum((a * (twice + unit * rise)).real, axis=1)
        slope = 4.0 * xp.sum((b * (r.one[None, :] + seen + unit * rise)).real, axis=1)
    # Right to 1e-15 of Σa or so, and so no loss below 0.
    return xp.maximum(value, 0.0).reshape(shape), slope.reshape(shape)
