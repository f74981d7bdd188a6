"""The gradient flow on the invariant manifold θ = η = ρ = 0: a flow in the plane (κ, ν)."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ...compiling import jit, stage
from ...numerics.buckets import by_bucket, padding, run_bucket, time_bucket
from ...numerics.ode import solve_at
from ..state import State
from ..task import Law, Task, check_task, law_of
from ._arguments import inside, inverse_temperature, on_manifold, one_inverse_temperature
from ._pointwise import pointwise
from ._zeta import slope_of_erf

_FIRST = 1e-6  # of the scale 1/p: up to there the stable manifold is straight
_FULL = 4.0  # asinh of an artanh ν at which ν is 1 to all digits


def scales(task: Task | Law, lam: Float[Array, "..."]) -> tuple[Array, Array, Array]:
    """``p = λD/√(1 + 2λ²γ²)``, p/w with ``w = √(1 + 4λ²γ²)``, and 2γ²."""
    s2 = (lam * task.gamma) ** 2
    p = lam * task.signal / jnp.sqrt(1.0 + 2.0 * s2)
    return p, p / jnp.sqrt(1.0 + 4.0 * s2), 2.0 * task.gamma**2


def _mirror_field(task: Law, kappa: Array, nu: Array, lam: Array) -> tuple[Array, Array]:
    """−R_κ and −R_ν: the velocities of artanh κ and artanh ν."""
    p, narrow, twice = scales(task, lam)
    at = p * kappa
    along_kappa = twice * p * slope_of_erf(at**2) * (nu - jax.lax.erf(narrow * kappa))
    return along_kappa, twice * jax.lax.erf(at)


def manifold_field(
    task: Task, kappa: Any, nu: Any, lam: Any
) -> tuple[Float[Array, "*runs"], Float[Array, "*runs"]]:
    r"""The velocity of (κ, ν) on the manifold θ = η = ρ = 0.

    ``κ̇ = 2γ²p (1 − κ²) erf'(pκ) [ν − erf(pκ/w)]`` and ``ν̇ = 2γ²(1 − ν²) erf(pκ)``, with
    ``p = λD/√(1 + 2λ²γ²)`` and ``w = √(1 + 4λ²γ²)``.

    Args:
        task: the data law.
        kappa: κ in [−1, 1].
        nu: ν in [−1, 1].
        lam: λ, the inverse temperature, in (0, 1000].

    Returns:
        κ̇ and ν̇.

    Reference: Sec. 4.

    >>> [v.item() for v in manifold_field(Task(dim=400, length=10), 1.0, 1.0, 0.1)]
    [0.0, 0.0]
    """
    return _field(*on_manifold(task, kappa, nu, lam))


@pointwise
def _field(task: Law, kappa: Array, nu: Array, lam: Array) -> tuple[Array, Array]:
    kappa, nu = inside(kappa), inside(nu)
    a, b = _mirror_field(task, kappa, nu, lam)
    return (1.0 - kappa**2) * a, (1.0 - nu**2) * b


def nullcline(task: Task, kappa: Any, lam: Any) -> Float[Array, "*runs"]:
    """The ν at which κ rests: ``ν = erf(pκ/w)``; ν itself rests where κ = 0.

    Args:
        task: the data law.
        kappa: κ in [−1, 1].
        lam: λ, the inverse temperature, in (0, 1000].

    Reference: derived for this package.

    >>> nullcline(Task(dim=400, length=10), 0.0, 0.1).item()
    0.0
    """
    law, place, _, lam = on_manifold(task, kappa, 0.0, lam)
    return _nullcline(law, place, lam)


@pointwise
def _nullcline(task: Law, kappa: Array, lam: Array) -> Array:
    return jax.lax.erf(scales(task, lam)[1] * inside(kappa))


def _velocity(
    t: Array, y: Float[Array, "2"], args: tuple[Law, Array, Float[Array, "2"]]
) -> Float[Array, "2"]:
    """Of artanh κ and artanh ν. What starts at ±1 (`still` is that sign, else 0) stays there."""
    task, lam, still = args
    place = jnp.where(still == 0.0, jnp.tanh(y), still)
    return jnp.where(still == 0.0, jnp.stack(_mirror_field(task, place[0], place[1], lam)), 0.0)


@jit
def _follow(
    task: Law, start: Float[Array, "runs 2"], times: Float[Array, " times"], lam: Array
) -> Float[Array, "runs times 2"]:
    still = jnp.where(jnp.abs(start) == 1.0, start, 0.0)
    mirrored = jnp.arctanh(jnp.where(still == 0.0, start, 0.0))

    def one(place: Array, still: Array) -> Array:
        return solve_at(_velocity, place, times, (task, lam, still), rtol=1e-13)

    # Each run with its own steps, so that a run does not depend on its company.
    ends = jax.vmap(one)(mirrored, still)
    still = jnp.broadcast_to(still[:, None], ends.shape)
    return jnp.where(still == 0.0, jnp.tanh(ends), still)


def manifold_flow(task: Task, start: State, times: Any, *, lam: Any) -> State:
    r"""The gradient flow on the manifold at given times.

    In the mirror coordinates ``a = artanh κ``, ``b = artanh ν`` it is ``ȧ = −R_κ``, ``ḃ = −R_ν``
    exactly, which keeps κ and ν inside the square.

    Args:
        task: the data law.
        start: where the runs start; with θ = η = ρ = 0.
        times: at least 0, increasing; step size times steps of projected gradient descent.
        lam: λ, the inverse temperature, in (0, 1000].

    Returns:
        The states, the times on the last axis.

    Reference: Sec. 4, Theorem 5.

    >>> times = np.linspace(0.0, 40.0, 9)
    >>> x = manifold_flow(Task(dim=400, length=10), State(0.05, 0.02), times, lam=0.1)
    >>> x.kappa[::4].round(4).tolist()
    [0.05, 0.8908, 0.9493]
    """
    check_task(task)
    if not isinstance(start, State):
        raise ValueError(f"start must be a single_location.State, not {type(start).__name__}")
    if validation.is_concrete(start.distance) and np.any(np.asarray(start.distance) > 0.0):
        raise ValueError(
            "start must have theta = eta = rho = 0, not a distance to the manifold of "
            f"{np.max(np.asarray(start.distance)):.3g}"
        )
    when = validation.floating("times", times)
    if when.ndim != 1 or when.size == 0:
        raise ValueError(f"times must be a list of numbers, not an array of shape {when.shape}")
    validation.within("times", when, 0.0, 1e12)
    if validation.is_concrete(when) and np.any(np.diff(np.asarray(when)) < 0.0):
        raise ValueError("times must increase, not go back")
    lam = one_inverse_temperature(lam)
    if start.kappa.size == 0:
        raise ValueError("start must have at least one run, not none")
    law, place = law_of(task), (start.kappa, start.nu)
    if all(validation.is_concrete(x) for x in (*place, law.gamma, when, lam)):
        flat = np.stack([np.asarray(x).reshape(-1) for x in place], axis=-1)
        rows = padding(len(flat), run_bucket(len(flat)))
        columns = padding(when.size, time_bucket(when.size))
        ends = _follow(law, stage(flat[rows]), stage(np.asarray(when)[columns]), lam)
    else:
        ends = _follow(law, jnp.stack([x.reshape(-1) for x in place], axis=-1), when, lam)
    ends = np.asarray(ends) if validation.is_concrete(ends) else ends
    ends = ends[: start.kappa.size, : when.size].reshape(*start.runs, when.size, 2)
    zero = stage(np.zeros(ends.shape[:-1]))
    return State.raw(stage(ends[..., 0]), stage(ends[..., 1]), zero, zero, zero)


def conserved(x: State) -> Float[Array, "*runs"]:
    """``(1 − κ²)/(1 − ν²)``, which the flow on the manifold conserves as λ√d → 0.

    Args:
        x: states on the manifold, |ν| < 1.

    Reference: derived for this package.

    >>> conserved(State(kappa=0.5, nu=0.5)).item()
    1.0
    """
    if not isinstance(x, State):
        raise ValueError(f"x must be a single_location.State, not {type(x).__name__}")
    validation.needs_double("x")
    return _conserved(None, x.kappa, x.nu)


_conserved = pointwise(lambda _, kappa, nu: (1.0 - kappa**2) / (1.0 - nu**2))


class Saddle(eqx.Module):
    """The saddle (κ, ν) = (0, 0), along which training leaves its start.

    Attributes:
        growth: the rate at which the flow leaves it.
        decay: the rate at which the flow comes to it.
        slope: ν/κ on the way out.
        stable_slope: ν/κ on the way in.
    """

    growth: Float[Array, "*batch"]
    decay: Float[Array, "*batch"]
    slope: Float[Array, "*batch"]
    stable_slope: Float[Array, "*batch"]


def saddle(task: Task, lam: Any) -> Saddle:
    r"""Rates and directions of the flow at the saddle (0, 0).

    With ``q = 4γ²p/√π`` and ``b = 2p/(√π w)`` the rates are ``q(−b ± √(b² + 4))/2``, the slope of
    the way out ``(b + √(b² + 4))/2``, that of the way in minus its inverse.

    Args:
        task: the data law.
        lam: λ, the inverse temperature, in (0, 1000]; one or many.

    Reference: derived for this package.

    >>> x = saddle(Task(dim=400, length=10), 0.1)
    >>> round(x.growth.item(), 4), round(x.decay.item(), 3), round(x.slope.item(), 2)
    (0.7715, 3.268, 2.06)
    """
    check_task(task)
    return _saddle(law_of(task), inverse_temperature(lam))


def _saddle_of(task: Law, lam: Array) -> Saddle:
    p, narrow, twice = scales(task, lam)
    q, b = 2.0 * twice * p / math.sqrt(math.pi), 2.0 / math.sqrt(math.pi) * narrow
    slope = 0.5 * (b + jnp.sqrt(b**2 + 4.0))
    return Saddle(growth=q / slope, decay=q * slope, slope=slope, stable_slope=-1.0 / slope)


_saddle = pointwise(_saddle_of)


class OracleRates(eqx.Module):
    """How fast the flow on the manifold comes to ±(1, 1).

    Attributes:
        kappa: the rate at which 1 − κ falls.
        nu: the rate at which 1 − ν falls.
    """

    kappa: Float[Array, "*batch"]
    nu: Float[Array, "*batch"]


def oracle_rates(task: Task, lam: Any) -> OracleRates:
    r"""The rates at which the flow on the manifold converges to the oracle.

    ``4γ²p erf'(p) erfc(p/w)`` for κ and ``4γ² erf(p)`` for ν.

    Args:
        task: the data law.
        lam: λ, the inverse temperature, in (0, 1000]; one or many.

    Reference: derived for this package.

    >>> x = oracle_rates(Task(dim=400, length=10), 0.1)
    >>> round(x.kappa.item(), 4), round(x.nu.item(), 3)
    (0.0214, 1.907)
    """
    check_task(task)
    return _oracle_rates(law_of(task), inverse_temperature(lam))


def _oracle_rates_of(task: Law, lam: Array) -> OracleRates:
    p, narrow, twice = scales(task, lam)
    kappa = 2.0 * twice * p * slope_of_erf(p**2) * jax.lax.erfc(narrow)
    return OracleRates(kappa, 2.0 * twice * jax.lax.erf(p))


_oracle_rates = pointwise(_oracle_rates_of)


class FixedPoint(eqx.Module):
    """A place in the square where the flow on the manifold rests.

    Attributes:
        kappa, nu: where it is.
        rates: the eigenvalues of the flow there, the larger first.
        kind: "attractor", "source" or "saddle".
    """

    kappa: float = eqx.field(static=True)
    nu: float = eqx.field(static=True)
    rates: Float[Array, "2"]
    kind: str = eqx.field(static=True)


def fixed_points(task: Task, lam: Any) -> tuple[FixedPoint, ...]:
    """All places where the flow on the manifold rests, and its eigenvalues there.

    The oracle and its flip ±(1, 1) attract, ±(1, −1) are sources, (0, 0) is a saddle.

    Args:
        task: the data law.
        lam: λ, the inverse temperature, in (0, 1000].

    Reference: derived for this package.

    >>> [(x.kappa, x.nu, x.kind) for x in fixed_points(Task(dim=400, length=10), 0.1)][:2]
    [(0.0, 0.0, 'saddle'), (1.0, 1.0, 'attractor')]
    """
    check_task(task)
    middle, inward, outward = _eigenvalues(law_of(task), one_inverse_temperature(lam))
    return (
        FixedPoint(0.0, 0.0, middle, "saddle"),
        FixedPoint(1.0, 1.0, inward, "attractor"),
        FixedPoint(-1.0, -1.0, inward, "attractor"),
        FixedPoint(1.0, -1.0, outward, "source"),
        FixedPoint(-1.0, 1.0, outward, "source"),
    )


@jit
def _eigenvalues(task: Law, lam: Array) -> tuple[Array, Array, Array]:
    """At the saddle, the attractors and the sources, the larger first."""
    middle, oracle = _saddle_of(task, lam), _oracle_rates_of(task, lam)
    p, narrow, twice = scales(task, lam)
    away = 2.0 * twice * p * slope_of_erf(p**2) * (1.0 + jax.lax.erf(narrow))

    def ordered(a: Array, b: Array) -> Array:
        return jnp.stack([jnp.maximum(a, b), jnp.minimum(a, b)])

    return (
        ordered(middle.growth, -middle.decay),
        ordered(-oracle.kappa, -oracle.nu),
        ordered(away, oracle.nu),
    )


def _climb(t: Array, y: Array, args: tuple[Array, Array, Array]) -> Array:
    """dy/da of ``artanh ν = −sinh y`` along an orbit in κ > 0 > ν, where ``da/dt`` is never 0."""
    p, narrow, first = args
    kappa = jnp.tanh(first + t)
    at = p * kappa
    # R_ν/R_κ, with the exponential last: it alone is large.
    ratio = jax.lax.erf(at) / (
        p * (2.0 / math.sqrt(math.pi)) * (jax.lax.erf(narrow * kappa) + jnp.tanh(jnp.sinh(y)))
    )
    return jnp.where(y < _FULL, ratio * jnp.exp(jnp.minimum(at**2, 600.0)) / jnp.cosh(y), 0.0)


@jit
def _boundary(task: Law, place: Float[Array, " points"], lam: Array) -> Float[Array, " points"]:
    """ν on the boundary at κ in [−1, 1]."""
    size = jnp.abs(place)
    # A smaller λ gives the same curve, ν = −κ, to all digits.
    lam = jnp.maximum(lam, 1e-30 / task.signal)
    p, narrow, _ = scales(task, lam)
    slope = -_saddle_of(task, lam).stable_slope
    first = _FIRST / (1.0 + p)
    a = jnp.arctanh(jnp.where(size < 1.0, size, 0.0))
    order = jnp.argsort(a)
    times = jnp.maximum(a[order] - first, 0.0)
    start = jnp.arcsinh(slope * first)
    ends = solve_at(_climb, start, times, (p, narrow, first), rtol=1e-14, atol=1e-24)
    y = jnp.zeros_like(a).at[order].set(ends)
    b = jnp.where(a > first, jnp.sinh(y), slope * a)
    below = jnp.where(size < 1.0, jnp.tanh(b), 1.0)
    return jnp.where(place > 0.0, -below, below)


def basin_boundary(task: Task, kappa: Any, lam: Any) -> Float[Array, "*points"]:
    r"""The boundary between what flows to (1, 1) and to (−1, −1), as a curve κ → ν.

    It is the stable manifold of the saddle (0, 0): the two orbits that come to it from the sources
    (1, −1) and (−1, 1), followed from the saddle backwards in ``artanh κ``. Starts above it end at
    (1, 1), starts below it at (−1, −1).

    Args:
        task: the data law.
        kappa: κ in [−1, 1], one or many.
        lam: λ, the inverse temperature, in (0, 1000].

    Returns:
        ν of the boundary, of the sign opposite to κ.

    Reference: Theorem 5.

    >>> nu = basin_boundary(Task(dim=400, length=10), np.linspace(-1.0, 1.0, 21), 0.1)
    >>> nu[::5].round(4).tolist()
    [1.0, 0.3007, 0.0, -0.3007, -1.0]
    """
    check_task(task)
    place = validation.floating("kappa", kappa)
    validation.within("kappa", place, -1.0, 1.0)
    lam = one_inverse_temperature(lam)
    if place.size == 0:
        return place
    law = law_of(task)
    flat = np.asarray(place).reshape(-1) if validation.is_concrete(place) else place.reshape(-1)
    found = by_bucket(lambda points: _boundary(law, points, lam), flat)
    found = np.asarray(found) if validation.is_concrete(found) else found
    return stage(found.reshape(place.shape))
