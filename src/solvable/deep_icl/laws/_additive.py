"""The loss as a sum of four laws."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import validation
from ..run import TIMES, Time
from ._exponents import Number, check_spectrum
from ._law import Law
from ._resources import law

_MANY = 10**8


@dataclass(frozen=True)
class AdditiveLaw:
    """``𝓛 ≈ c_t t^(−β/(2+β)) + c_L L^-β + c_N N^(−ν min(β,1)) + c_P P^(−ν min(β,2))``.

    Where a law has no amplitude, because a logarithm stands beside its power, the exact floor (of
    at least 10⁸ directions) stands for it.

    Attributes:
        time, depth, width, context: the four laws.
        unit: the unit of t: that of the scalar γ, or that of the matrix Γ, N times as long.
        dim: D; in matrix time, N is D where the width has no limit.
    """

    time: Law
    depth: Law
    width: Law
    context: Law
    unit: Time
    dim: float

    def __call__(
        self,
        *,
        t: Any = math.inf,
        width: Any = math.inf,
        depth: Any = math.inf,
        context: Any = math.inf,
    ) -> np.ndarray:
        """The sum of the four terms; what is not given has no limit.

        Args:
            t, width, depth, context: t, N, L and P, numbers or arrays of one common shape.
        """
        validation.concrete("places", t, width, depth, context, why="the laws are summed")
        rows = {}
        given = {"t": t, "width": width, "depth": depth, "context": context}
        for name, value in given.items():
            number = validation.floating(name, value)
            validation.within(name, number, 0.0, open_low=True)
            rows[name] = np.asarray(number)
        try:
            t, width, depth, context = np.broadcast_arrays(*rows.values())
        except ValueError:
            shapes = ", ".join(f"{name} {row.shape}" for name, row in rows.items())
            raise ValueError(f"t, width, depth and context must have one shape: {shapes}") from None
        laws = (self.time, self.width, self.depth, self.context)
        places = (self.scalar_time(t, width), width, depth, context)
        parts = [_term(*pair) for pair in zip(laws, places, strict=True)]
        return np.asarray(np.sum(parts, axis=0))

    def scalar_time(self, t: np.ndarray, width: np.ndarray) -> np.ndarray:
        """The time of the scalar flow, t or t/N."""
        if self.unit == "scalar":
            return t
        width = np.where(np.isinf(width), self.dim, width)
        return np.asarray(t / np.where(np.isinf(t), 1.0, width))


def _term(one: Law, x: np.ndarray) -> np.ndarray:
    """One law's part of the loss: its power, or its exact floor where there is no amplitude."""
    if one.amplitude is not None:
        return one(x)
    bounded = np.isfinite(x)
    return np.where(bounded, one.loss(np.where(bounded, np.minimum(x, one.largest), 1.0)), 0.0)


def additive_law(
    nu: Number, beta: Number, *, time: Time = "scalar", dim: int | float = 10**8
) -> AdditiveLaw:
    """The four laws of a spectrum, as one sum (accounts; caps and amplitudes derived).

    The depth law is that of tied layers. Of untied ones at finite width, L^(−2β), no amplitude is
    known; without limits it is `untied_depth_law`.

    Args:
        nu: ν, the capacity exponent.
        beta: β, the source exponent.
        time: the unit of t: "scalar" for dγ/dt = −∂𝓛/∂γ, "matrix" for N times as long.
        dim: D, whose amplitudes are taken.

    >>> round(float(additive_law(1.25, 0.8)(t=1e6, width=1e3, depth=1e3)), 5)
    0.01873
    """
    validation.needs_double("a scaling law")
    validation.one_of("time", time, TIMES)
    check_spectrum(nu, beta, dim)
    if time == "matrix" and dim == math.inf:
        raise ValueError("dim must be finite in matrix time, not inf: t is N or D times as long")

    def floor(resource: Any) -> Law:
        one = law(resource, nu, beta, dim)
        if one.amplitude is None and dim < _MANY:
            return law(resource, nu, beta, _MANY)
        return one

    return AdditiveLaw(
        time=law("time", nu, beta, dim),
        depth=law("depth", nu, beta, dim),
        width=floor("width"),
        context=floor("context"),
        unit=time,
        dim=float(dim),
    )


def additive_loss(
    nu: Number,
    beta: Number,
    *,
    t: Any = math.inf,
    width: Any = math.inf,
    depth: Any = math.inf,
    context: Any = math.inf,
    time: Time = "scalar",
    dim: int | float = 10**8,
) -> np.ndarray:
    """``𝓛 ≈ c_t t^(−β/(2+β)) + c_N N^(−ν min(β,1)) + c_L L^-β + c_P P^(−ν min(β,2))``.

    The sum of single laws (accounts; the caps are derived). The amplitudes are those of `law`:
    nothing is fitted.

    Args:
        nu: ν, the capacity exponent.
        beta: β, the source exponent.
        t, width, depth, context: t, N, L and P; what is not given has no limit.
        time: the unit of t: "scalar" for dγ/dt = −∂𝓛/∂γ, "matrix" for N times as long.
        dim: D, whose amplitudes are taken.

    >>> round(float(additive_loss(1.5, 0.8, depth=64.0)), 6)
    0.006166
    """
    sum_of_laws = additive_law(nu, beta, time=time, dim=dim)
    return sum_of_laws(t=t, width=width, depth=depth, context=context)
