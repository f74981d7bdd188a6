"""The one spectrum: eigenvalues, shares of the task, and how many directions each stands for."""

import math
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from .. import validation
from ..compiling import stage
from ..numerics.counting import ORDER, counting_rule
from ..numerics.host import unpacked
from ..numerics.quadrature import gauss_legendre
from ..numerics.roots import inverse_between

MAX_DIM = 10**15
MIN_LAM = 1e-150  # squares of eigenvalues must not underflow
ENDLESS = 1e12  # the largest N, P, L and γ that the nodes of D = ∞ are good for
_LEFT = 1e-14  # share of a convergent sum that may lie beyond the last of them
_COUNTED, _RATIO = 2**50, 1.6  # directions that are counted, and how far blocks beyond reach
_STEEP = 9.0  # ν up to which blocks of the usual length are short enough for 1/(k^-ν + z)


class Spectrum(eqx.Module):
    r"""Directions of a covariance Λ and of a task Ω that is diagonal beside it.

    Sums over D directions are ``Σ_j weight_j f(λ_j)`` and ``Σ_j share_j f(λ_j)``.

    Attributes:
        lam: λ, eigenvalues of the covariance.
        share: a = ω λ, parts of E y², each times its weight.
        weight: how many directions each stands for.
        dim: D, the sum of the weights; infinity for a power law without end.
    """

    lam: Float[Array, " nodes"]
    share: Float[Array, " nodes"]
    weight: Float[Array, " nodes"]
    dim: int | float = eqx.field(static=True)

    @classmethod
    def power(cls, nu: Any, beta: Any, dim: int | float, *, whole: bool = False) -> "Spectrum":
        r"""``λ_k = k^-ν`` and ``a_k ∝ k^-(νβ+1)`` with ``Σ a_k = 1``, k = 1 … D.

        The nodes are Gauss rules of the counting measure on blocks of k: they do not depend on ν
        and β, sums are right to round-off, and D = 10¹⁵ takes 1840 of them.

        Args:
            nu: ν, the capacity exponent.
            beta: β, the source exponent.
            dim: D, or infinity where the sums converge.
            whole: every direction by itself, at any D.

        >>> import jax; jax.config.update("jax_enable_x64", True)
        >>> spectrum = Spectrum.power(1.5, 0.8, 10**9)
        >>> spectrum.lam.size, round(float(spectrum.width_floor(100.0)), 15)
        (1056, 0.020337214242768)
        """
        nu, beta = check_exponents(nu, beta)
        if not (isinstance(dim, float) and dim == math.inf):
            dim = validation.whole("dim", dim, 1, MAX_DIM)
            if validation.is_concrete(nu) and float(dim) ** float(nu) > 1.0 / MIN_LAM:
                raise ValueError(f"dim^nu must be at most 1e150, not {dim}^{float(nu):g}")
        xp, nu, beta = unpacked(nu, beta)
        if whole:
            k, weight = np.arange(1.0, dim + 1.0), np.ones(int(dim))
        else:
            steep = float(nu) if xp is np else _STEEP
            angle = math.pi / steep if steep > _STEEP else math.inf
            k, weight = counting_rule(int(min(dim, _COUNTED)), angle=angle)
            if math.isinf(dim):
                k, weight = (
                    np.concatenate(parts)
                    for parts in zip(
                        (k, weight), _beyond(last_of(float(nu), float(beta))), strict=True
                    )
                )
        log_k = np.log(k)
        share = weight * xp.exp(-(nu * beta + 1.0) * log_k)
        # The smallest first: their sum is right to round-off.
        total = xp.sum(share[::-1])
        return cls(stage(xp.exp(-nu * log_k)), stage(share / total), stage(weight), dim)

    @classmethod
    def given(cls, lam: Any, omega: Any, weight: Any = None) -> "Spectrum":
        """Of eigenvalues λ, the task's second moments ω along them, and multiplicities.

        >>> Spectrum.given([1.0, 0.5], [1.0, 2.0], weight=[1, 3]).dim
        4
        """
        row = validation.floating("lam", lam)
        if row.ndim != 1 or row.size == 0:
            raise ValueError(f"lam must be one row of numbers, not shape {row.shape}")
        validation.within("lam", row, MIN_LAM, 1e100)
        column = validation.floating("omega", omega)
        validation.shaped("omega", column, row.shape)
        validation.within("omega", column, 0.0, 1e100)
        if validation.is_concrete(column) and not np.any(np.asarray(column)):
            raise ValueError("omega must be above 0 for one direction or more")
        _, lam, omega = unpacked(row, column)
        if weight is None:
            return cls(row, stage(lam * omega), stage(np.ones(lam.shape)), row.size)
        many = validation.real("weight", weight)
        validation.shaped("weight", many, row.shape)
        for one in many.ravel():
            validation.whole("weight", one, 1, MAX_DIM)
        dim = validation.whole("the sum of weight", many.sum(), 1, MAX_DIM)
        return cls(row, stage(many * lam * omega), stage(many), dim)

    @property
    def single(self) -> bool:
        """Whether every direction stands by itself."""
        return self.lam.shape[0] == self.dim

    def _rows(self, places: Any) -> tuple[Any, ...]:
        """The module, places with an axis of nodes, and λ, a and weights along it."""
        xp, places, lam, share, weight = unpacked(places, self.lam, self.share, self.weight)
        row = (1,) * places.ndim + lam.shape
        return xp, places[..., None], lam.reshape(row), share.reshape(row), weight.reshape(row)

    def seen(self, z: Any) -> Any:
        """``τ(z) = Σ λ/(λ + z)``, the directions that a ridge z leaves; z of any shape."""
        xp, z, lam, _, weight = self._rows(z)
        return xp.sum(weight * (lam / (lam + z)), axis=-1)

    def level(self, count: Any) -> Any:
        """The ridge z with ``Σ λ/(λ + z) = n``, of any shape, with its slopes; 0 from n = D on."""
        number = validation.floating("count", count)
        validation.within("count", number, 0.0, open_low=True)
        xp, count, lam, weight = unpacked(number, self.lam, self.weight)
        bounded = count < self.dim
        inside = xp.where(bounded, count, 0.5 * min(self.dim, 2.0 * MAX_DIM))
        # λ/(λ+z) lies between λ_D/(λ_D+z) and λ/z.
        high = xp.log(xp.sum(weight * lam) / inside) + 1e-9
        low = xp.log(xp.min(lam)) + xp.log(xp.sum(weight) / inside - 1.0) - 1e-9
        low = xp.minimum(low, high - 1e-9)

        def odds(log_z: Any, spectrum: "Spectrum") -> Any:
            """``log(τ/(D − τ))``: near n = D nothing cancels, as D − τ = Σ z/(λ + z)."""
            yp, log_z, spectrum = unpacked(log_z, spectrum)
            z = yp.exp(log_z)
            seen = yp.log(spectrum.seen(z))
            if math.isinf(spectrum.dim):
                return seen
            _, z, lam, _, weight = spectrum._rows(z)
            return seen - yp.log(yp.sum(weight * (z / (lam + z)), axis=-1))

        wanted = xp.log(inside)
        if math.isfinite(self.dim):
            wanted = wanted - xp.log(self.dim - inside)
        found = inverse_between(odds, wanted, low, high, self)
        return xp.where(bounded, xp.exp(found), 0.0)

    def width_floor(self, width: Any) -> Any:
        """``Σ a z/(λ + z)`` at ``z = z_N``: what a width N leaves of endless contexts."""
        xp, z, lam, share, _ = self._rows(self.level(width))
        return xp.sum(share * (z / (lam + z)), axis=-1)

    def context_floor(self, context: Any) -> Any:
        """``Σ a z²/(λ + z)²/(1 − Σ λ²/(λ + z)²/P)`` at ``z = z_P``: what P tokens leave."""
        xp, context = unpacked(validation.floating("context", context))
        bounded = context < self.dim
        inside = xp.where(bounded, context, 0.5 * min(self.dim, 2.0 * MAX_DIM))
        xp, z, lam, share, weight = self._rows(self.level(inside))
        left = z / (lam + z)
        # P − Σλ²/(λ+z)² = Σ λz/(λ+z)², without its cancellation.
        below = xp.sum(weight * (lam / (lam + z)) * left, axis=-1)
        return xp.where(bounded, inside * xp.sum(share * left**2, axis=-1) / below, 0.0)


def check_exponents(nu: Any, beta: Any) -> tuple[Array, Array]:
    """ν and β in double precision, or a `ValueError` outside (0, 20]."""
    numbers = []
    for name, value in (("nu", nu), ("beta", beta)):
        number = validation.floating(name, value)
        validation.shaped(name, number, ())
        validation.within(name, number, 0.0, 20.0, open_low=True)
        numbers.append(number)
    return numbers[0], numbers[1]


def last_of(nu: float, beta: float) -> float:
    """Where of a power law without end what is left of its convergent sums can be neglected."""
    slowest = min(nu * beta, nu - 1.0) if nu > 1.0 else nu * beta
    decades = math.log10(ENDLESS) / min(nu, 1.0) - math.log10(_LEFT) / slowest
    if decades * max(nu, 1.0) > 290.0:
        raise ValueError(
            f"dim must be finite for nu = {nu:g} and beta = {beta:g}, not inf: "
            "sums over all directions converge too slowly"
        )
    return 10.0**decades


def _beyond(last: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the directions from 2^50 to the last: there a sum is an integral."""
    begin = float(_COUNTED)
    count = max(1, math.ceil(math.log(last / begin) / math.log(_RATIO)))
    edges = np.geomspace(begin + 0.5, max(last, _RATIO * begin), count + 1)
    x, w = gauss_legendre(ORDER)
    width = np.diff(edges)[:, None]
    return (edges[:-1, None] + width * x).ravel(), (width * w).ravel()
