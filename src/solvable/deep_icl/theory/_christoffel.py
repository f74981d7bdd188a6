"""The best polynomial with p(0) = 1: what layers of their own can do when all contexts are alike.

L layers apply ``p(λ) = Π_ℓ (1 − γ_ℓ λ/L)`` to a direction, so that ``𝓛 = ∫p² dμ`` with
``μ = Σ a_k δ(λ_k)``. Over all p of degree ≤ L with p(0) = 1 the least value is the Christoffel
function ``1/Σ_{k≤L} q_k(0)²`` of μ's orthonormal polynomials q_k. The best p is orthogonal to λ
times all lower degrees: an orthogonal polynomial of λ dμ, whose zeros z_ℓ are real, simple and
inside the spectrum, so that real layers ``γ_ℓ = L/z_ℓ`` reach it (derived: accounts call the best
layers Chebyshev-like).
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import eigvalsh_tridiagonal

from ...numerics.compensated import two_product
from ...numerics.counting import gauss_of_counting

SMALLEST = 1e-45  # of Σa; smaller losses are below what float64 tells apart, and given as 0
_DIRECT = 20  # directions kept one by one for each layer: zeros sit on eigenvalues there
_RATIO, _ORDER = 1.5, 24  # of the blocks beyond

Row = Float[np.ndarray, " n"]


class Nodes(NamedTuple):
    """Distinct eigenvalues, falling, and the share of each."""

    lam: Row
    share: Row


def given_nodes(lam: Row, share: Row) -> Nodes:
    """Rows of eigenvalues and shares: equal ones are merged, those without a share left out."""
    there = share > 0.0
    places, which = np.unique(-lam[there], return_inverse=True)
    return Nodes(-places, np.bincount(which, share[there], minlength=places.size))


@lru_cache(maxsize=16)
def power_rule(dim: int, depth: int) -> tuple[Row, Row]:
    """Directions k = 1 … D, and how many each stands for, as polynomials of a degree see them.

    The first 20 L stand one by one; the others in blocks whose ends are in the ratio 1.5, each the
    24-point Gauss rule of its whole numbers.
    """
    first = min(max(_DIRECT * depth, 16 * _ORDER), dim)
    edges = [first + 1]
    while edges[-1] <= dim:
        edges.append(min(int(edges[-1] * _RATIO), dim + 1))
    k, weight = np.arange(1.0, first + 1.0), np.ones(first)
    if len(edges) > 1:
        begin = np.asarray(edges, dtype=np.int64)
        x, w = gauss_of_counting(np.diff(begin), _ORDER)
        inside = w > 0.0
        k = np.concatenate([k, (begin[:-1, None] + x)[inside]])
        weight = np.concatenate([weight, w[inside]])
    k.flags.writeable = weight.flags.writeable = False
    return k, weight


class Bidiagonal(NamedTuple):
    """``Bᵀ``'s entries: the Jacobi matrix of μ is B Bᵀ, B lower bidiagonal.

    Attributes:
        diagonal: α_0 … α_(m−1).
        below: β_1 … β_m.
        losses: 𝓛*_0 … 𝓛*_m.
    """

    diagonal: Row
    below: Row
    losses: Row


def bidiagonal(nodes: Nodes, depth: int) -> Bidiagonal:
    r"""Golub and Kahan's bidiagonalisation of diag(√λ) from √a, orthogonalised in full.

    B is the Cholesky factor of μ's Jacobi matrix, so that
    ``q_k(0)² = Π_{j<k} (α_j/β_{j+1})²/Σa``: positive numbers, without cancellation, give 𝓛*_L at
    every L up to `depth` in one run (derived). It ends where the loss falls below 1e-45 Σa,
    or where there are no more eigenvalues.
    """
    root, total = np.sqrt(nodes.lam), float(np.sum(nodes.share))
    depth = min(depth, root.size - 1)
    us, vs = np.zeros((depth + 1, root.size)), np.zeros((depth, root.size))
    alpha, beta = np.zeros(depth), np.zeros(depth)
    us[0] = np.sqrt(nodes.share / total)
    # log Σ_k q_k(0)² of the degrees so far, and that of the last one.
    logs, last = np.zeros(depth + 1), 0.0
    for j in range(depth):
        vs[j], alpha[j] = _next(root * us[j], vs[:j])
        us[j + 1], beta[j] = _next(root * vs[j], us[: j + 1])
        # β = 0: what is left of the spectrum is within rounding of fewer eigenvalues.
        last += 2.0 * math.log(alpha[j] / beta[j]) if beta[j] > 0.0 else math.inf
        logs[j + 1] = np.logaddexp(logs[j], last)
        if math.exp(-logs[j + 1]) < SMALLEST:
            depth = j + 1
            break
    losses = total * np.exp(-logs[: depth + 1])
    return Bidiagonal(alpha[:depth], beta[:depth], losses)


def _next(v: Row, before: Float[np.ndarray, "m n"]) -> tuple[Row, float]:
    """What of v is orthogonal to the rows before, by two passes, as a unit vector; and its norm."""
    for _ in range(2):
        v = v - (before @ v) @ before
    norm = math.sqrt(float(v @ v))
    return v / (norm or 1.0), norm


def best(b: Bidiagonal, nodes: Nodes, depth: int) -> tuple[Row, float]:
    """γ of L layers, rising, and 𝓛*_L; layers that are not needed have γ = 0, and the loss is 0.

    The zeros of p* are the squared singular values of the (L+1) × L lower bidiagonal matrix.
    """
    many = b.diagonal.size
    if depth <= many and b.losses[depth] >= SMALLEST * b.losses[0]:
        return depth / _zeros(b, depth), float(b.losses[depth])
    # Either every eigenvalue has a layer of its own, or the loss is too small to be told from 0.
    zeros = nodes.lam if depth >= nodes.lam.size else _zeros(b, min(depth, many))
    return np.concatenate([np.zeros(depth - zeros.size), depth / zeros]), 0.0


def _zeros(b: Bidiagonal, depth: int) -> Row:
    """Squared singular values, falling, each to round-off of its own: by bisection."""
    beside = np.stack([b.diagonal[:depth], b.below[:depth]], axis=1).ravel()
    none = np.zeros(2 * depth + 1)
    values = eigvalsh_tridiagonal(none, beside, lapack_driver="stebz", tol=1e-300)
    return np.asarray(values)[:depth:-1] ** 2


def reached(nodes: Nodes, gamma: Row) -> float:
    """``Σ a_k Π_ℓ (1 − γ_ℓ λ_k/L)²`` of γ as they are, every factor to round-off of its own.

    Where a zero sits on an eigenvalue the factor cancels, and the others are huge there.
    """
    depth = float(gamma.size)
    high, low = two_product(gamma[:, None], nodes.lam[None, :])
    with np.errstate(divide="ignore", over="ignore"):
        logs = np.sum(np.log(np.abs((depth - high) - low) / depth), axis=0)
        return float(np.sum(np.exp(np.log(nodes.share) + 2.0 * logs)))


def isotropic(xp: Any, alpha: Any, *, depths: tuple[int, ...]) -> tuple[Any, Any]:
    r"""γ of every layer, and the loss, for isotropic covariates without noise.

    λρ(λ) is a semicircle, whose orthogonal polynomials are Chebyshev's of the second kind:

        ``γ_ℓ = Lα/((1 − √α)² + 4√α cos²(πℓ/(2L+2)))``,   ``𝓛* = 1/(1 + α + … + α^L)``

    (derived).

    Returns:
        γ, rising, (depths, deepest), no number beyond a depth; and losses, (depths,).
    """
    x, deep = xp.log(alpha), np.asarray(depths, float)
    root, most = xp.sqrt(alpha), int(deep.max())
    rows = []
    for layers in depths:
        # cos(πℓ/(2L+2)) from its small end, as sines.
        sine = np.sin(0.5 * np.pi * np.arange(layers, 0.0, -1.0) / (layers + 1.0))
        row = layers * alpha / ((1.0 - root) ** 2 + 4.0 * root * sine**2)
        rows.append(xp.concatenate([row, np.full(most - layers, np.nan)]))
    return xp.stack(rows), _inverse_sum(xp, x, deep)


def _inverse_sum(xp: Any, x: Any, deep: Any) -> Any:
    """``1/Σ_{k≤L} e^kx = e^(−Lx/2) sinh(x/2)/sinh((L+1)x/2)``, by its series where x is small."""
    more = deep + 1.0
    small = xp.abs(more * x) < 0.1
    y = xp.where(small, 0.5 * x, 0.0)
    near = xp.exp(-deep * y + _log_sinhc(y) - _log_sinhc(more * y)) / more
    y = xp.where(small, 1.0, x)
    size = xp.abs(y)
    far = xp.exp(-deep * xp.maximum(y, 0.0)) * xp.expm1(-size) / xp.expm1(-more * size)
    return xp.where(small, near, far)


def _log_sinhc(y: Any) -> Any:
    """``log(sinh(y)/y)`` for |y| < 0.05."""
    y2 = y**2
    return y2 * (1.0 / 6.0 - y2 * (1.0 / 180.0 - y2 / 2835.0))
