"""The best polynomial as a linear solve: where contexts differ, or labels are noisy.

With ``p(λ) = 1 − λ r(λ)`` and ``r = Σ_j ρ_j T_j`` in Chebyshev's polynomials of an interval, every
loss of untied layers is quadratic: ``𝓛 = 𝓛_0 − 2 h·ρ + ρᵀKρ``. Leading blocks of one Gram matrix K
give all depths. The best p need not have real zeros: it bounds what layers can do, and where a
complex pair appears, real γ are polished from there.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.polynomial import chebyshev
from scipy.optimize import minimize

from ... import memory
from ._equivalent import settled
from ._resolvents import Medium, edge, resolvents

DEEPEST = 128  # layers of a form; points on the ellipse are 20 times as many
_ROUND = 1e-15  # of K's largest eigenvalue: its round-off
_SCATTERED, _STARTS = 16, 6  # layers up to which searches start from scattered zeros, too
_FAR = 2.0  # T_j grows by at most e² on the ellipse, and loses no more digits

Row = Float[np.ndarray, " n"]


class Layers(NamedTuple):
    """The best layers at a depth.

    Attributes:
        gamma: γ of each, rising.
        loss: what they reach.
        bound: that of the best polynomial of that degree with p(0) = 1.
    """

    gamma: Row
    loss: float
    bound: float


class Form(NamedTuple):
    """``𝓛 = start − 2 linear·ρ + ρᵀ square ρ``, with T_j on [low, top]."""

    start: float
    linear: Float[np.ndarray, " most"]
    square: Float[np.ndarray, "most most"]
    low: float
    top: float

    def best(self, *depths: int) -> list[Layers]:
        """The best layers at some depths: the inverse zeros of the best polynomials, or a search.

        Where zeros are complex, real layers are searched for: from real parts and sizes, from equal
        layers, from those of a smaller depth with some more that do nothing, and, of few layers,
        from zeros that are scattered over the spectrum.
        """
        found: dict[int, Layers] = {}

        def layers(depth: int) -> Layers:
            if depth not in found:
                gamma, bound = self._polynomial(depth)
                if not np.any(np.imag(gamma)):
                    found[depth] = Layers(np.sort(np.real(gamma)), bound, bound)
                else:
                    # Four depths an octave, the same ones whatever is asked for.
                    step = 1 << max(0, (depth - 1).bit_length() - 3)
                    fewer = layers((depth - 1) // step * step)
                    found[depth] = self._searched(gamma, fewer, bound)
            return found[depth]

        return [layers(depth) for depth in depths]

    def _polynomial(self, depth: int) -> tuple[np.ndarray, float]:
        """L times the inverse zeros of the best polynomial, and its loss."""
        linear, square = self.linear[:depth], self.square[:depth, :depth]
        values, frame = np.linalg.eigh(square)
        # What K cannot tell from 0 is left out: top eigenvalues that hardly differ from context to
        # context take zeros exactly, and K loses as many digits as they do.
        rho = frame @ ((frame.T @ linear) / (np.maximum(values, 0.0) + _ROUND * values[-1]))
        middle, half = 0.5 * (self.top + self.low), 0.5 * (self.top - self.low)
        zeros = middle + half * chebyshev.chebroots(
            chebyshev.chebsub([1.0], chebyshev.chebmul([middle, half], rho))
        )
        gamma = np.zeros(depth, zeros.dtype)  # a lower degree is a layer that does nothing
        gamma[: zeros.size] = depth / zeros
        return gamma, self.start + float(rho @ (square @ rho - 2.0 * linear))

    def _searched(self, pairs: np.ndarray, fewer: Layers, bound: float) -> Layers:
        """Real layers near those of a polynomial with complex zeros."""
        depth, parts = pairs.size, np.real(pairs)
        unit = depth / self.top  # loads γ·top/L do not know the scale of the spectrum
        idle = np.zeros(depth - fewer.gamma.size)
        apart = 1e-3 * unit * np.arange(1.0, idle.size + 1.0)
        before = fewer.gamma * depth / fewer.gamma.size
        starts = [parts, np.abs(pairs), np.full(depth, np.mean(parts))]
        starts.append(np.concatenate([before, apart]))
        if depth <= _SCATTERED:
            part = np.random.default_rng(depth).random((_STARTS, depth))
            zeros = self.low + (self.top - self.low) * np.sin(0.5 * np.pi * part) ** 2
            starts += list(depth / zeros)

        def log(load: Row) -> tuple[float, Row]:
            value, slope = self._log(load * unit)
            return value, slope * unit

        how: Any = {"jac": True, "method": "BFGS", "options": {"gtol": 1e-9}}
        end = min((minimize(log, x / unit, **how) for x in starts), key=lambda end: end.fun)
        if np.exp(end.fun) > fewer.loss:
            return Layers(np.sort(np.concatenate([before, idle])), fewer.loss, bound)
        return Layers(np.sort(end.x * unit), float(np.exp(end.fun)), bound)

    def at(self, gamma: Row) -> float:
        """The loss of given layers."""
        return float(np.exp(self._log(gamma)[0]))

    def _log(self, gamma: Row) -> tuple[float, Row]:
        """The logarithm of the loss of given layers, and its slopes."""
        depth = gamma.size
        x = np.cos(np.pi * (np.arange(depth) + 0.5) / depth)
        lam = 0.5 * (self.top + self.low) + 0.5 * (self.top - self.low) * x
        # From values at Chebyshev's points to coefficients.
        turn = 2.0 / depth * chebyshev.chebvander(x, depth - 1).T
        turn[0] *= 0.5
        with np.errstate(over="ignore", invalid="ignore"):  # a search may step too far
            rho = turn @ quotient(gamma, lam)
            pull = self.square[:depth, :depth] @ rho - self.linear[:depth]
            loss = self.start + float(rho @ (pull - self.linear[:depth]))
            loss = max(loss, 1e-16 * self.start)  # what it is right to
            rest = without(1.0 - gamma[:, None] * lam[None, :] / depth)
            slope = 2.0 / depth * (rest @ (turn.T @ pull))
            return float(np.log(loss)), slope / loss


def quotient(
    gamma: Float[np.ndarray, " layers"], lam: Float[np.ndarray, "..."]
) -> Float[np.ndarray, "..."]:
    """``(1 − Π_ℓ (1 − γ_ℓ λ/L))/λ``, term by term: nothing cancels at small λ."""
    left, total = np.ones_like(lam), np.zeros_like(lam)
    for rate in gamma / gamma.size:
        total = total + rate * left
        left = left * (1.0 - rate * lam)
    return total


def without(factor: Float[np.ndarray, "layers n"]) -> Float[np.ndarray, "layers n"]:
    """The product of all rows but one, for each."""
    ones = np.ones((1, factor.shape[1]))
    before = np.cumprod(np.concatenate([ones, factor[:-1]]), axis=0)
    after = np.cumprod(np.concatenate([ones, factor[:0:-1]]), axis=0)[::-1]
    return before * after


def noisy_isotropic(alpha: float, noise: float, depth: int) -> Form:
    r"""Isotropic covariates with noise: ``∫ρ[1 − 2λr + λ(λ + σ²/α)r²]`` (derived).

    λρ is a semicircle; the Gauss rule of Chebyshev's polynomials of the second kind is exact.
    """
    angle = np.pi * np.arange(1.0, depth + 2.0) / (depth + 2.0)
    weight = 2.0 / (depth + 2.0) * np.sin(angle) ** 2
    middle, half = 1.0 + 1.0 / alpha, 2.0 / np.sqrt(alpha)
    table = chebyshev.chebvander(np.cos(angle), depth - 1)
    heavy = weight * (middle + half * np.cos(angle) + noise**2 / alpha)
    square = table.T @ (heavy[:, None] * table)
    return Form(1.0, table.T @ weight, square, middle - half, middle + half)


def isotropic_bound(alpha: float, noise: float, depth: int) -> float:
    r"""The least loss of any polynomial, of isotropic covariates with noise (derived).

    ``1 − √α U_{L−1}(ξ)/U_L(ξ)``, ``ξ = (1 + α + σ²)/(2√α)``, Chebyshev's U: the corner of the
    inverse of a tridiagonal matrix. With m the small root of ``m² − (1+α+σ²)m + α = 0``,
    ``1 − m`` is the loss of optimal ridge regression, and what L layers add to it is
    ``m(1−q)q^L/(1−q^(L+1))``, ``q = m²/α``.
    """
    square = noise**2
    total, apart = 1.0 + alpha + square, alpha + square - 1.0
    root = np.sqrt(apart**2 + 4.0 * square)  # = √(total² − 4α)
    m = 2.0 * alpha / (total + root)
    ridge = 2.0 * square / (apart + root) if apart > 0.0 else 0.5 * (root - apart)
    log_q = 2.0 * np.log(m) - np.log(alpha)
    added = np.expm1(log_q) / np.expm1((depth + 1.0) * log_q) * np.exp(depth * log_q)
    return float(ridge + m * added)


def equivalent_form(medium: Medium, noise: float, depth: int) -> Form:
    r"""The typical context of finite width or length, by its deterministic equivalent (derived).

    With ``f_j = λT_j(λ)`` at ``λ = −z``: ``h_j = ∮f_j E Tr ΩΛ(z + M)^-1``,
    ``K_ij = ∮∮ f_i f_j' E Tr Ω(z + Mᵀ)^-1 Λ(z' + M)^-1``, and of label noise
    ``σ²/P ∮ λT_iT_j E Tr ΛΠ(z + S)^-1``, on an ellipse on which T_j grows like ϱ^j, no faster. K is
    right to 1e-14, and the least loss to about 1e-4 of itself where K is singular to round-off
    (N = 4096, L > 20), else to 1e-8 and better.
    """
    top = float(edge(medium))
    log_rho = math.log1p(_FAR / max(depth, 6))
    points = 2 * math.ceil(depth + 18.0 / log_rho)
    size = medium.lam.size + 5 * points
    memory.refuse("depth", depth, 64.0 * points * size)
    r = resolvents(medium, np.asarray(top), np.asarray(log_rho), points)
    settled(r.residual)
    z, dz = np.asarray(r.z), np.asarray(r.dz)
    f = -z * chebyshev.chebvander(-2.0 * z / top - 1.0, depth - 1).T
    a = f * dz
    linear = 2.0 * (a @ np.asarray(r.one)).real
    square = 2.0 * (a @ np.asarray(r.two) @ np.concatenate([a, a.conj()], axis=1).T).real
    square += 2.0 * noise**2 * ((a * np.asarray(r.noise)) @ f.T).real
    return Form(float(r.start), linear, 0.5 * (square + square.T), 0.0, top)


def drawn(parts: Any, depth: int) -> Form:
    """The mean over drawn contexts, given as `Spectra`, some at a time."""
    count, linear, square, top, start = 0, np.zeros(depth), np.zeros((depth, depth)), 0.0, 0.0
    for part in parts:
        s = part.eigenvalues
        top, start = top or float(np.max(s)), part.start
        table = chebyshev.chebvander(2.0 * s / top - 1.0, depth - 1)
        turned = np.swapaxes(table, 1, 2)
        inner = part.square @ table + part.noise[:, :, None] * table
        square += np.sum(turned @ inner, axis=0)
        linear += np.sum(turned @ part.linear[:, :, None], axis=0)[:, 0]
        count += len(s)
    return Form(start, linear / count, square / count, 0.0, top)


def drawn_losses(parts: Any, gammas: list[np.ndarray]) -> Float[np.ndarray, "rows contexts"]:
    """The loss of given layers, one or more rows of them, in every drawn context."""
    found = []
    for part in parts:
        rows = []
        for gamma in gammas:
            r = quotient(gamma, part.eigenvalues)
            pull = (part.square @ r[:, :, None])[:, :, 0] + part.noise * r - 2.0 * part.linear
            rows.append(part.start + np.sum(r * pull, axis=1))
        found.append(np.stack(rows))
    return np.concatenate(found, axis=1)
