"""The exact finite-size curves as a law that curves of any origin can be fitted by."""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ...scaling import Formula
from ._tail import MAX_DIM, nodes

Resource = Literal["t", "L", "N", "P"]
RESOURCES = ("t", "L", "N", "P")
NU, BETA = (0.05, 4.0), (0.05, 5.0)
_POINTS = 12  # Gauss–Legendre nodes of a cell of γ
_CELL = 0.4  # the length of a cell in log(1 + γ/ε)
_EPSILON = 0.1
_LINEAR, _LAST = 3.0, 43.0  # γλ_D from which cells have one length, 2, and at which they end
_GAUSS = np.polynomial.legendre.leggauss(_POINTS)
_HALVINGS = 56  # of a ridge's logarithm
_STEPS = 12  # towards the best step size of a depth
# Where a search starts: units, as multiples of the data's middle, for one resource and for more.
_TIMES = (1e-6, 1e-4, 0.01, 1.0), (1e-4, 0.03)
_SIZES = (1e-3, 0.02, 0.3, 5.0), (0.01, 0.3)

Points = Float[Array, " points"]
Nodes = Float[Array, " nodes"]


def curve_law(resources: Sequence[Resource] = ("t",), *, dim: int = 10**4) -> Formula:
    r"""``y = E + A Σ_x 𝓛_x(x/unit_x)``: the model's own curves, to be fitted.

    𝓛_x is the exact loss of the rotated structure in one resource, the others without limit, at D
    directions with ``λ_k = k^-ν`` and ``a_k ∝ k^-(νβ+1)``, as in `law`:

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
    place, weight = nodes(NU[1], float(dim))
    log_k, weight = np.log(place), np.asarray(weight)
    units = {name: f"unit_{name}" for name in names}

    def function(given: dict[str, Any], columns: dict[str, Any]) -> Any:
        nu, beta = given["nu"], given["beta"]
        lam = jnp.exp(-nu * log_k)
        share = jnp.exp(-(nu * beta + 1.0) * log_k) * weight
        share = share / jnp.sum(share)
        total = jnp.zeros_like(columns[names[0]])
        for name in names:
            x = columns[name] / given[units[name]]
            total = total + _CURVES[name](x, lam, share, jnp.asarray(weight), float(dim))
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


def in_time(x: Points, lam: Nodes, share: Nodes, weight: Nodes, dim: float) -> Points:
    """𝓛 along ``dγ/dt = −𝓛′(γ)``, of which ``t(γ) = ∫_0^γ dγ'/(−𝓛′)`` is tabulated and inverted."""
    speed = 2.0 * share * lam
    still_lam, still_speed = jax.lax.stop_gradient((lam, speed))
    nodes, weights = (jnp.asarray(part) for part in _GAUSS)

    def spent(low: Array, high: Array, lam: Nodes, speed: Nodes) -> Array:
        """The time from one γ to another in the same cell."""
        half = 0.5 * (high - low)[:, None]
        gamma = 0.5 * (high + low)[:, None] + half * nodes[None, :]
        fall = decayed(gamma.ravel(), lam, speed).reshape(gamma.shape)
        return jnp.sum(half * weights[None, :] / fall, axis=1)

    slowest = still_lam[-1]
    cells = math.ceil(math.log1p(_LINEAR * dim ** NU[1] / _EPSILON) / _CELL)
    bent = jnp.linspace(0.0, jnp.log1p(_LINEAR / (slowest * _EPSILON)), cells + 1)
    ends = jnp.arange(_LINEAR + 2.0, _LAST + 1.0, 2.0, dtype=lam.dtype) / slowest
    edges = jnp.concatenate([_EPSILON * jnp.expm1(bent), ends])
    begin = jnp.zeros(1, lam.dtype)
    times = jnp.concatenate([begin, jnp.cumsum(spent(edges[:-1], edges[1:], lam, speed))])
    still = jax.lax.stop_gradient(times)
    target = jnp.minimum(x, still[-1])
    still_x = jax.lax.stop_gradient(target)

    # With w = log(1 + t/t_ε) and u = log(1 + γ/ε), u(w) is smooth: linear first, of slope 1/(2+β)
    # later. A cubic in every cell, then Newton's steps in w.
    first = _EPSILON / jnp.sum(still_speed)
    u, w = jnp.log1p(edges / _EPSILON), jnp.log1p(still / first)
    pace = decayed(edges, still_lam, still_speed) * (still + first) / (edges + _EPSILON)
    cell = jnp.clip(jnp.searchsorted(still, still_x) - 1, 0, len(edges) - 2)
    width = w[cell + 1] - w[cell]
    goal = jnp.log1p(still_x / first)
    s = (goal - w[cell]) / width
    gamma = _EPSILON * jnp.expm1(
        (1.0 + 2.0 * s) * (1.0 - s) ** 2 * u[cell]
        + s**2 * (3.0 - 2.0 * s) * u[cell + 1]
        + s * (1.0 - s) * width * ((1.0 - s) * pace[cell] - s * pace[cell + 1])
    )
    low, high = edges[cell], edges[cell + 1]

    def closer(_: Any, gamma: Points) -> Points:
        gamma = jnp.clip(gamma, low, high)
        now = still[cell] + spent(low, gamma, still_lam, still_speed)
        fall = decayed(gamma, still_lam, still_speed)
        miss = jnp.log1p(now / first) - goal
        return gamma - miss * (now + first) * fall

    gamma = jnp.clip(jax.lax.fori_loop(0, 3, closer, gamma), low, high)
    # One more, with slopes: exact to first order.
    now = times[cell] + spent(low, gamma, lam, speed)
    gamma = gamma - (now - target) * decayed(gamma, still_lam, still_speed)
    return decayed(gamma, lam, share)


def in_depth(x: Points, lam: Nodes, share: Nodes, weight: Nodes, dim: float) -> Points:
    """𝓛 at the best step size c, where it has no slope in c; below L = 1 it is ``𝓛_1^L``.

    The slope is ``Σ a_k λ_k (1 − cλ_k)^(2L−1)``. Its terms with cλ < 1 and those with cλ > 1, of
    which that of λ = 1 is one, are equal at ``1 < c ≤ 1 + max(1, Σ_{k>1} a_k/a_1)``; the logarithm
    of their ratio rises with ``y = log(c − 1)``, almost linearly where L is large.
    """
    depth = jnp.maximum(x, 1.0)
    still_lam, still_share, power = jax.lax.stop_gradient((lam, share, 2.0 * depth - 1.0))
    log_share = jnp.log(still_share * still_lam)

    def ratio(y: Points) -> tuple[Points, Points]:
        """The logarithm of the ratio, and its slope; far from the root the two may be far apart."""
        step = jnp.exp(y)[:, None]
        left = 1.0 - (1.0 + step) * still_lam[None, :]
        size, over = jnp.maximum(jnp.abs(left), 1e-300), left < 0.0
        logs = power[:, None] * jnp.log(size) + log_share[None, :]

        def top(mask: Array) -> Points:
            return jnp.maximum(jnp.max(jnp.where(mask, logs, -jnp.inf), axis=1), -1e300)

        tops = top(over), top(~over)
        terms = jnp.exp(logs - jnp.where(over, tops[0][:, None], tops[1][:, None]))
        steep = terms * step * still_lam[None, :] / size

        def both(terms: Array) -> tuple[Points, Points]:
            return jnp.sum(terms, axis=1, where=over), jnp.sum(terms, axis=1, where=~over)

        sums = tuple(jnp.maximum(part, 1e-300) for part in both(terms))
        slope = power * sum(part / total for part, total in zip(both(steep), sums, strict=True))
        return tops[0] - tops[1] + jnp.log(sums[0]) - jnp.log(sums[1]), slope

    def closer(_: Any, ends: tuple[Points, Points, Points]) -> tuple[Points, Points, Points]:
        low, high, y = ends
        value, slope = ratio(y)
        low, high = jnp.where(value < 0.0, y, low), jnp.where(value < 0.0, high, y)
        step = y - value / slope
        inside = ((step > low) & (step < high)) | (jnp.abs(step - y) < 1e-13)
        return low, high, jnp.where(inside, step, 0.5 * (low + high))

    most = jnp.minimum(jnp.maximum(1.0, 1.0 / still_share[0]), 1.0 / still_lam[-1] - 1.0)
    endless = (1.0 - still_lam[-1]) / (1.0 + still_lam[-1])  # c − 1 of L = ∞
    ends = (jnp.full_like(x, -80.0), jnp.zeros_like(x) + jnp.log(most) + 1e-9)
    y = jax.lax.fori_loop(0, _STEPS, closer, (*ends, jnp.zeros_like(x) + jnp.log(endless)))[2]
    c = (1.0 + jnp.exp(y))[:, None] * lam[None, :]
    far = jnp.log(jnp.maximum(jnp.abs(1.0 - c), 1e-300))
    logs = jnp.where(c < 0.5, jnp.log1p(-jnp.minimum(c, 0.5)), far)
    loss = jnp.exp(2.0 * depth[:, None] * logs) @ share
    return loss ** jnp.minimum(x, 1.0)


def ridge(x: Points, lam: Nodes, weight: Nodes, dim: float) -> Points:
    """The ridge z of ``Σ λ_k/(λ_k + z) = n`` for n < D, with its slopes."""
    still_x, still_lam = jax.lax.stop_gradient((x, lam))

    def seen(y: Points, lam: Nodes) -> Points:
        return (lam[None, :] / (lam[None, :] + jnp.exp(y)[:, None])) @ weight

    # λ/(λ+z) lies between λ_D/(λ_D+z) and λ/z.
    low = jnp.log(still_lam[-1]) + jnp.log(dim / still_x - 1.0)
    high = jnp.log(still_lam @ weight / still_x)
    y = _bisected(lambda y: seen(y, still_lam) > still_x, low - 1e-9, high + 1e-9)
    z = jnp.exp(y)[:, None]
    slope = (still_lam[None, :] * z / (still_lam[None, :] + z) ** 2) @ weight
    return jnp.exp(y + (seen(y, lam) - x) / slope)


def in_width(x: Points, lam: Nodes, share: Nodes, weight: Nodes, dim: float) -> Points:
    """``Σ a_k z/(λ_k + z)``."""
    bounded = x < dim
    z = ridge(jnp.where(bounded, x, 0.5 * dim), lam, weight, dim)[:, None]
    return jnp.where(bounded, (z / (lam[None, :] + z)) @ share, 0.0)


def in_context(x: Points, lam: Nodes, share: Nodes, weight: Nodes, dim: float) -> Points:
    """``P Σ a_k z²/(λ_k + z)²/Σ λ_k z/(λ_k + z)²``."""
    bounded = x < dim
    inside = jnp.where(bounded, x, 0.5 * dim)
    z = ridge(inside, lam, weight, dim)[:, None]
    left, seen = z / (lam[None, :] + z), lam[None, :] / (lam[None, :] + z)
    loss = inside * (left**2 @ share) / ((seen * left) @ weight)
    return jnp.where(bounded, loss, 0.0)


_CURVES: dict[str, Callable[..., Any]] = {
    "t": in_time,
    "L": in_depth,
    "N": in_width,
    "P": in_context,
}


def _bisected(above: Callable[[Points], Array], low: Points, high: Points) -> Points:
    """Where a condition that holds from `low` on, up to some place, ends."""

    def halve(_: Any, ends: tuple[Points, Points]) -> tuple[Points, Points]:
        low, high = ends
        middle = 0.5 * (low + high)
        holds = above(middle)
        return jnp.where(holds, middle, low), jnp.where(holds, high, middle)

    low, high = jax.lax.fori_loop(0, _HALVINGS, halve, (low, high))
    return 0.5 * (low + high)
