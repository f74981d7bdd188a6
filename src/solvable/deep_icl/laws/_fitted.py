"""The exact finite-size curves as a law that curves of any origin can be fitted by."""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ... import validation
from ...numerics.inversion import Inverse
from ...scaling import Formula
from ..spectrum import MAX_DIM, Spectrum
from ._depth import DepthFloor

Resource = Literal["t", "L", "N", "P"]
RESOURCES = ("t", "L", "N", "P")
NU, BETA = (0.05, 4.0), (0.05, 5.0)
_CELL, _UNIT = 0.3, 0.1  # the length of a cell in log(1 + γ/unit)
_STEADY, _LAST = 3.0, 43.0  # γλ_D from which cells have one length, 2, and at which they end
_STILL = 1e-150  # a speed at which the flow has ended
# Where a search starts: units, as multiples of the data's middle, for one resource and for more.
_TIMES = (1e-6, 1e-4, 0.01, 1.0), (1e-4, 0.03)
_SIZES = (1e-3, 0.02, 0.3, 5.0), (0.01, 0.3)

Points = Float[Array, " points"]
Nodes = Float[Array, " nodes"]


def curve_law(resources: Sequence[Resource] = ("t",), *, dim: int = 10**4) -> Formula:
    r"""``y = E + A Σ_x 𝓛_x(x/unit_x)``: the model's own curves, to be fitted.

    The sum of the four laws (accounts) with the exact curves in place of powers: 𝓛_x is the loss of
    the rotated structure in one resource, the others without limit, at D directions with
    ``λ_k = k^-ν`` and ``a_k ∝ k^-(νβ+1)``, as in `law`:

    * t, time: ``Σ a_k exp(−2γλ_k)`` along the scalar flow from γ = 0;
    * L, depth: ``min_c Σ a_k (1 − cλ_k)^2L``, and below one layer ``𝓛_1^L``;
    * N, width: ``Σ a_k z/(λ_k + z)`` with ``Σ λ_k/(λ_k + z) = N``;
    * P, context: ``Σ a_k z²/(λ_k + z)²/[1 − Σ λ_k²/(λ_k + z)²/P]``, z that of P.

    They start at 1, fall like powers, and end with the last direction: width and context leave
    nothing from D on.

    Where L, N or P are the model's own, pin their units to 1: the curve in L has a corner at 1.
    What one curve tells apart (the condition number of a fit with D = 10⁴ over the whole range,
    early bend included): E, A, ν, β and the unit by 7 to 41 in t, 29 to 170 in L, 120 to 560 in N
    and 240 to 600 in P; with the unit pinned by 5 to 26, 18 to 25, 18 to 84 and 10 to 38.

    Args:
        resources: which of t, L, N and P.
        dim: D.

    Returns:
        The law, with the parameters E, A, nu, beta and a unit of every resource: how much of the
        data's resource makes 1 of the model's.

    >>> import numpy as np
    >>> law = curve_law(("t", "N"), dim=100)
    >>> law.parameters
    ('E', 'A', 'nu', 'beta', 'unit_t', 'unit_N')
    >>> law.curve(np.array([1.0, 2.0, 1.5, 0.8, 1.0, 1.0]), np.array([[1e-9, 200.0]])).round(6)
    array([3.])
    """
    validation.needs_double("a law to be fitted")
    names = tuple(resources) if isinstance(resources, Sequence) else ()
    known = all(isinstance(name, str) for name in names)
    if not names or (known and len(set(names)) < len(names)):
        raise ValueError(
            f"resources must be one or more of t, L, N, P, each once, not {resources!r}"
        )
    for name in names:
        validation.one_of("resources", name, RESOURCES)
    return _law(names, validation.whole("dim", dim, 2, MAX_DIM))


@lru_cache(maxsize=16)
def _law(names: tuple[Resource, ...], dim: int) -> Formula:
    units = {name: f"unit_{name}" for name in names}

    def function(given: dict[str, Any], columns: dict[str, Any]) -> Any:
        spectrum = Spectrum.power(given["nu"], given["beta"], dim)
        total = jnp.zeros_like(columns[names[0]])
        for name in names:
            total = total + _CURVES[name](columns[name] / given[units[name]], spectrum)
        return given["E"] + given["A"] * total

    several = len(names) > 1
    tried = {unit: (_TIMES if x == "t" else _SIZES)[several] for x, unit in units.items()}
    return Formula(
        name="deep_icl",
        resources=names,
        function=function,
        bounds={
            "E": (0.0, math.inf),
            "A": (0.0, math.inf),
            "nu": NU,
            "beta": BETA,
            **dict.fromkeys(units.values(), (0.0, math.inf)),
        },
        begin={
            "nu": (1.3,) if several else (0.8, 1.8),
            "beta": (0.4, 1.2),
            **tried,
        },
        linear=("E", "A"),
        exponents=("nu", "beta"),
        logarithmic=("A", *units.values()),
        units=units,
        settings={"dim": dim},
    )


@jax.custom_jvp
def decayed(gamma: Points, lam: Nodes, share: Nodes) -> Points:
    """``Σ_k share_k exp(−2γλ_k)`` at every γ; its slopes are sums of the same exponentials."""
    return jnp.exp(-2.0 * gamma[:, None] * lam[None, :]) @ share


@decayed.defjvp
def _decayed_jvp(primals, tangents):
    gamma, lam, share = primals
    d_gamma, d_lam, d_share = tangents
    left = jnp.exp(-2.0 * gamma[:, None] * lam[None, :])
    moved = left @ d_share - 2.0 * gamma * (left @ (share * d_lam))
    return left @ share, moved - 2.0 * d_gamma * (left @ (share * lam))


def in_time(x: Points, spectrum: Spectrum) -> Points:
    """𝓛 along ``dγ/dt = −𝓛′(γ)``, of which ``t(γ) = ∫_0^γ dγ'/(−𝓛′)`` is tabulated and inverted."""
    lam, share = spectrum.lam, spectrum.share
    slowest = jax.lax.stop_gradient(lam[-1])
    most = math.log1p(_STEADY * float(spectrum.dim) ** NU[1] / _UNIT)
    bent = jnp.linspace(0.0, jnp.log1p(_STEADY / (slowest * _UNIT)), math.ceil(most / _CELL) + 1)
    ends = jnp.arange(_STEADY + 2.0, _LAST + 1.0, 2.0, dtype=lam.dtype) / slowest
    edges = jnp.concatenate([_UNIT * jnp.expm1(bent), ends])
    speed = 2.0 * share * lam
    flow = Inverse(lambda gamma: 1.0 / jnp.maximum(decayed(gamma, lam, speed), _STILL), edges)
    return decayed(flow(x), lam, share)


def in_depth(x: Points, spectrum: Spectrum) -> Points:
    """𝓛 at the best step size; below L = 1 it is ``𝓛_1^L``."""
    return DepthFloor(spectrum).loss(jnp.maximum(x, 1.0)) ** jnp.minimum(x, 1.0)


_CURVES: dict[str, Callable[[Points, Spectrum], Points]] = {
    "t": in_time,
    "L": in_depth,
    "N": lambda x, spectrum: spectrum.width_floor(x),
    "P": lambda x, spectrum: spectrum.context_floor(x),
}
