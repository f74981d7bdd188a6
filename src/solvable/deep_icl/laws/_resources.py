"""The laws in one resource: time, depth, width, context."""

import math
from functools import lru_cache

import numpy as np
from scipy.special import beta as beta_function
from scipy.special import gamma as gamma_function

from ... import validation
from ._depth import DepthFloor
from ._exponents import Number, exponents
from ._floors import ContextFloor, WidthFloor
from ._flow import ScalarFlow
from ._law import RESOURCES, Law, Resource
from ._tail import ENDLESS, Spectrum, check_spectrum, spectrum


def law(resource: Resource, nu: Number, beta: Number, dim: int | float = 10**8) -> Law:
    r"""The law of the rotated structure's loss in one resource, the others without limit.

    With ``Z = Σ k^-(νβ+1)`` and the ridge ``z = ((π/ν)/(N sin(π/ν)))^ν`` (ν < 1: ``Σλ/N``):

    * time: ``c γ^-β`` with ``c = Γ(β) 2^-β/(νZ)``, ``γ = (cβ(β+2)t)^(1/(β+2))``;
    * depth: ``Γ(β)/(νZ) (4L)^-β``;
    * width: ``z^β/(νZ) π/sin(πβ)`` for β < 1, ``z Σ a_k/λ_k`` for β > 1;
    * context: max(ν, 1) times ``z^β/(νZ) B(2−β, β)`` for β < 2, ``z² Σ a_k/λ_k²`` for β > 2,
      where z is that of P.

    At β = 1 (width), β = 2 (context) and ν = 1 (both) a logarithm stands beside the power: there is
    no amplitude, but loss, local exponent and window are exact as everywhere.

    For ν < 1 the sum Σλ grows with D, and with it the amplitudes in width and context; the power
    shows for Σλ ≪ N ≪ D. Where D has no end, all loss is left at any width then, and that is
    refused.

    Args:
        resource: "time", "depth", "width" or "context".
        nu: ν, the capacity exponent.
        beta: β, the source exponent.
        dim: D, a whole number, or infinity where the sums converge.

    Returns:
        The law, with the exact loss at this D beside it.

    >>> width = law("width", 1.5, 0.5)
    >>> width.exponent, round(width.amplitude, 4), round(float(width.loss(1000.0)), 6)
    (0.75, 2.0698, 0.011571)
    """
    validation.needs_double("a scaling law")
    validation.one_of("resource", resource, RESOURCES)
    check_spectrum(nu, beta, dim)
    if nu <= 1.0 and dim == math.inf and resource in ("width", "context"):
        raise ValueError(
            f"dim must be finite for a {resource} law at nu = {nu:g}, not inf: "
            "for nu up to 1 the sum of the eigenvalues grows with dim"
        )
    return _law(resource, float(nu), float(beta), float(dim))


@lru_cache(maxsize=64)
def _law(resource: Resource, nu: float, beta: float, dim: int | float) -> Law:
    tail = spectrum(nu, beta, dim)
    exponent = getattr(exponents(nu, beta), resource)
    last = 1.0 / float(tail.lam[-1]) if dim < math.inf else math.inf  # 1/λ_D
    most = ENDLESS if dim == math.inf else math.inf
    limits = (0.0, most)
    status = "ok"
    if resource == "time":
        flow = ScalarFlow(tail)
        amplitude = _time_amplitude(tail)
        limits = (0.0, float(flow.table[1][-1]))

        def ends() -> tuple[float, float]:
            gamma, time = flow.table
            return 0.01, float(np.interp(min(10.0 * last, most), gamma, time))

        curve, local = flow.curve, flow.local
    elif resource == "depth":
        floor = DepthFloor(tail)
        amplitude = gamma_function(beta) / (nu * tail.normaliser) * 4.0**-beta
        limits = (1.0, min(most, 1e15))

        def ends() -> tuple[float, float]:
            return 1.0, max(2.0, min(10.0 * last, limits[1]))

        curve, local = floor.curve, floor.local
    else:
        floor = WidthFloor(tail) if resource == "width" else ContextFloor(tail)
        cap = 1 if resource == "width" else 2
        amplitude = _floor_amplitude(tail, cap)
        if amplitude is None:
            status = "logarithm"
        elif nu < 1.0:
            status = "grows with dim"

        def ends() -> tuple[float, float]:
            return 1.0, max(1.5, min(0.999 * dim, most))

        curve, local = floor.curve, floor.local
    return Law(
        resource=resource,
        exponent=float(exponent),
        amplitude=None if amplitude is None else float(amplitude),
        status=status,
        nu=nu,
        beta=beta,
        dim=dim,
        _curve=curve,
        _local=local,
        _ends=ends,
        _range=limits,
    )


def _time_amplitude(tail: Spectrum) -> float:
    beta = tail.beta
    front = gamma_function(beta) * 2.0**-beta / (tail.nu * tail.normaliser)
    return float(front * (front * beta * (beta + 2.0)) ** (-beta / (beta + 2.0)))


def _floor_amplitude(tail: Spectrum, cap: int) -> float | None:
    """Of the width's floor (cap 1) or the context's (cap 2) at n = 1; None at a logarithm."""
    nu, beta = tail.nu, tail.beta
    if nu == 1.0 or beta == cap:
        return None
    z = ((math.pi / nu) / math.sin(math.pi / nu)) ** nu if nu > 1.0 else tail.trace
    if beta < cap:
        # ∫ x^(β−1)/(1+x)^cap dx = B(β, cap − β), which is π/sin(πβ) for cap 1
        value = z**beta / (nu * tail.normaliser) * float(beta_function(beta, cap - beta))
    else:
        value = z**cap * tail.moment(cap)
    return value * (max(nu, 1.0) if cap == 2 else 1.0)
