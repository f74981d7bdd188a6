"""The laws in one resource: time, depth, width, context."""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import beta as beta_function
from scipy.special import gamma as gamma_function

from ... import validation
from ..spectrum import ENDLESS, Spectrum
from ..theory import Floor, Flow
from ._depth import DepthFloor
from ._exponents import Number, check_spectrum, exponents
from ._law import RESOURCES, Law, Resource

_BLOCK = 512
_MOST_DEPTH = 1e15


def law(resource: Resource, nu: Number, beta: Number, dim: int | float = 10**8) -> Law:
    r"""The law of the rotated structure's loss in one resource, the others without limit.

    Exponents as in `exponents`; amplitudes are derived. With ``Z = Σ k^-(νβ+1)`` and the
    ridge ``z = ((π/ν)/(N sin(π/ν)))^ν`` (ν < 1: ``Σλ/N``):

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
def _law(resource: Resource, nu: float, beta: float, dim: float) -> Law:
    spectrum = Spectrum.power(nu, beta, dim if math.isinf(dim) else int(dim))
    lam, share = np.asarray(spectrum.lam), np.asarray(spectrum.share)
    front = float(share[0]) / nu  # 1/(νZ)
    last = math.inf if math.isinf(dim) else 1.0 / float(lam[-1])
    most = ENDLESS if math.isinf(dim) else math.inf
    status, low = "ok", 0.0
    if resource == "time":
        amplitude: float | None = _time_amplitude(front, beta)
        curve: Any = TimeCurve(spectrum)
        end, most = float(curve.flow.time(np.asarray(min(10.0 * last, most)))), curve.largest
        ends = 0.01, end
    elif resource == "depth":
        amplitude = float(front * gamma_function(beta)) * 4.0**-beta
        curve, low, most = DepthFloor(spectrum), 1.0, min(most, _MOST_DEPTH)
        ends = 1.0, max(2.0, min(10.0 * last, most))
    else:
        amplitude = _floor_amplitude(spectrum, front, nu, beta, 1 if resource == "width" else 2)
        curve = Floor(spectrum, resource)
        status = "logarithm" if amplitude is None else "grows with dim" if nu < 1.0 else "ok"
        ends = 1.0, max(1.5, min(0.999 * dim, most))
    return Law(
        resource=resource,
        exponent=float(getattr(exponents(nu, beta), resource)),
        amplitude=amplitude,
        status=status,
        nu=nu,
        beta=beta,
        dim=dim,
        _curve=curve.loss,
        _local=curve.local,
        _ends=ends,
        _range=(low, most),
    )


class TimeCurve:
    """𝓛 along ``dγ/dt = −𝓛′(γ)`` from γ = 0, ``𝓛(γ) = Σ a_k exp(−2γλ_k)`` (accounts)."""

    def __init__(self, spectrum: Spectrum):
        self.lam, share = np.asarray(spectrum.lam), np.asarray(spectrum.share)
        self.rows = np.stack([share, 2.0 * share * self.lam], axis=1)
        slowest = ENDLESS / 3.0 if math.isinf(spectrum.dim) else 1.0 / float(self.lam[-1])
        self.flow = Flow(lambda gamma: self.both(gamma)[:, 1], 0.0, math.inf, 1.0, slowest)

    @property
    def largest(self) -> float:
        """The last time that is tabulated."""
        return float(self.flow.table.times[-1])

    def both(self, gamma: np.ndarray) -> np.ndarray:
        """𝓛 and −𝓛′ at a row of γ."""
        parts = np.array_split(gamma, max(1, len(gamma) // _BLOCK))
        return np.concatenate(
            [np.exp(-2.0 * g[:, None] * self.lam[None, :]) @ self.rows for g in parts]
        )

    def loss(self, time: np.ndarray) -> np.ndarray:
        """𝓛 at a row of times."""
        return self.both(self.flow.gamma(time))[:, 0]

    def local(self, time: np.ndarray) -> np.ndarray:
        """Its ``−d log 𝓛/d log t = t 𝓛′²/𝓛``."""
        loss, fall = self.both(self.flow.gamma(time)).T
        return time * fall**2 / loss


def _time_amplitude(front: float, beta: float) -> float:
    c = front * float(gamma_function(beta)) * 2.0**-beta
    return float(c * (c * beta * (beta + 2.0)) ** (-beta / (beta + 2.0)))


def _floor_amplitude(
    spectrum: Spectrum, front: float, nu: float, beta: float, cap: int
) -> float | None:
    """Of the width's floor (cap 1) or the context's (cap 2) at n = 1; None at a logarithm."""
    if nu == 1.0 or beta == cap:
        return None
    lam, terms = np.asarray(spectrum.lam), np.asarray(spectrum.share)
    trace = float(np.asarray(spectrum.weight) @ lam)
    z = ((math.pi / nu) / math.sin(math.pi / nu)) ** nu if nu > 1.0 else trace
    if beta < cap:
        # ∫ x^(β−1)/(1+x)^cap dx = B(β, cap − β), which is π/sin(πβ) for cap 1
        value = z**beta * front * float(beta_function(beta, cap - beta))
    else:
        for _ in range(cap):  # Σ a_k λ_k^-cap, one by one: λ^-cap alone may overflow
            terms = terms / lam
        value = z**cap * float(terms.sum())
    return value * (max(nu, 1.0) if cap == 2 else 1.0)
