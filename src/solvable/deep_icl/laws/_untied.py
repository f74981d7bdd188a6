"""How fast the loss falls with depth where every layer has a weight of its own."""

import math
from typing import Any

import equinox as eqx
import jax.scipy.special as traced
import numpy as np
import scipy.special as known
from jaxtyping import Array, Float

from ... import validation
from ...compiling import stage
from ...numerics.host import numbers, unpacked
from ..spectrum import check_exponents

# B_2j/(2j)! of Euler and Maclaurin's tail, from k = 16 on: 1e-17 for every s > 1.
_BERNOULLI = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000)
_FIRST = 16


class UntiedLaw(eqx.Module):
    r"""``𝓛*_L ≃ C (L + 1 + β/2)^(−(2+ν)β)`` of untied layers, all contexts alike (P = ∞, N = D).

    Derived; the shift 1 + β/2 is read off numbers and leaves a relative O(L^-2). It is the law of
    exact arithmetic: it ends at ``L ≈ D^(ν/(2+ν))``, where a finite D makes the loss fall faster
    than any power, and it needs zeros on the top eigenvalues, exponentially close in L. Weights
    rounded to float64 leave it from about 13 layers on, float32 from 8. Any spread of the
    eigenvalues from context to context (N < D, P < ∞) cuts the exponent to 2β, that of a
    continuous density; with a width floor ``N^(−ν min(β,1))`` the best depth then grows like
    ``L ∝ N^(ν min(β,1)/(2β))`` (numbers at ν = 1.25, β = .8; a conjecture elsewhere).

    Attributes:
        exponent: (2+ν)β.
        amplitude: ``C = Γ(β)Γ(β+1)/(νZ) ((1+ν/2)² b)^β``.
        shift: 1 + β/2.
        edge: ``b = (B(1/ν, ½)/ν)^ν``: zeros sit on every eigenvalue above ``b L^-ν``.
        seated: ``b^(-1/ν)``, the part of all layers that sits there.
        spread_exponent: 2β.
        shape_exponent: ν min(β,1)/(2β), of the best depth in the width.
    """

    exponent: Float[Array, ""]
    amplitude: Float[Array, ""]
    shift: Float[Array, ""]
    edge: Float[Array, ""]
    seated: Float[Array, ""]
    spread_exponent: Float[Array, ""]
    shape_exponent: Float[Array, ""]

    def __repr__(self) -> str:
        return f"UntiedLaw({validation.brief(**vars(self))})"

    def __call__(self, depth: Any) -> Float[Array, "..."]:
        """The law's loss at depths L, of any shape."""
        place = validation.floating("depth", depth)
        validation.within("depth", place, 1.0)
        xp, deep, amplitude, shift, power = unpacked(
            place, self.amplitude, self.shift, self.exponent
        )
        return stage(amplitude * xp.exp(-power * xp.log(deep + shift)))


def untied_depth_law(nu: Any, beta: Any, dim: int | float = math.inf) -> UntiedLaw:
    r"""The depth law of untied layers on a power-law spectrum (derived).

    Near 0 ``dμ ≃ λ^(β−1) dλ/(νZ)``. At such a hard edge, with zeros of density ``A λ^-½``, the
    Christoffel function is ``Γ(β)Γ(β+1)(πA)^-2β/(νZ)`` (Bessel universality). A follows from an
    equilibrium problem with a constraint, as no two zeros share an eigenvalue: with ``λ = L^-ν y``
    there are ``s(y) = y^(−1/ν−1)/ν`` eigenvalues a layer. Above b every one has its zero; below,
    what that leaves is ``(1 − ∫_b^∞ s(t) √(t(t−b))/(t−y) dt)/(π √(y(b−y)))``. That it ends
    smoothly at b fixes b, and its limit at 0 is ``A = 2/(2+ν) L^(1+ν/2)/(π√b)``.

    Args:
        nu: ν, the capacity exponent.
        beta: β, the source exponent.
        dim: D, which enters through ``Z = Σ k^-(νβ+1)`` alone.

    >>> import jax; jax.config.update("jax_enable_x64", True)
    >>> law = untied_depth_law(2.0, 1.0)
    >>> law.exponent.item(), round(law.amplitude.item(), 8), round(law(32).item(), 10)
    (4.0, 4.10529833, 3.2596e-06)
    """
    nu, beta = check_exponents(nu, beta)
    for name, value in (("nu", nu), ("beta", beta)):
        validation.within(name, value, 1e-6)
    if not (isinstance(dim, float) and dim == math.inf):
        dim = validation.whole("dim", dim, 1)
    return UntiedLaw(*numbers(_law, nu, beta, dim=float(dim)))


def _law(xp: Any, nu: Any, beta: Any, *, dim: float) -> tuple[Any, ...]:
    special = known if xp is np else traced
    log_beta = special.betaln(1.0 / nu, 0.5 * xp.ones_like(nu)) - xp.log(nu)  # log(b)/ν
    log_c = special.gammaln(beta) + special.gammaln(beta + 1.0) - xp.log(nu)
    log_c = log_c - xp.log(_sum(xp, nu * beta + 1.0, dim))
    log_c = log_c + beta * (2.0 * xp.log1p(0.5 * nu) + nu * log_beta)
    exponent, shift, edge = (2.0 + nu) * beta, 1.0 + 0.5 * beta, xp.exp(nu * log_beta)
    shape = 0.5 * nu * xp.minimum(beta, 1.0) / beta
    return exponent, xp.exp(log_c), shift, edge, xp.exp(-log_beta), 2.0 * beta, shape


def _sum(xp: Any, s: Any, dim: float) -> Any:
    """``Σ_{k≤D} k^-s``, s > 1: Euler and Maclaurin's formula beyond k = 16."""
    if dim < _FIRST:
        return xp.sum(np.arange(1.0, dim + 1.0) ** -s)
    head = xp.sum(np.arange(1.0, float(_FIRST)) ** -s) + _tail(xp, s, float(_FIRST))
    return head if math.isinf(dim) else head - _tail(xp, s, dim + 1.0)


def _tail(xp: Any, s: Any, start: float) -> Any:
    """``Σ_{k≥start} k^-s``."""
    term = s * start ** (-s - 1.0)
    total = start ** (1.0 - s) / (s - 1.0) + 0.5 * start**-s
    for j, factor in enumerate(_BERNOULLI):
        total = total + factor * term
        term = term * (s + 2.0 * j + 1.0) * (s + 2.0 * j + 2.0) / start**2
    return total
