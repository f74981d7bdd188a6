"""The risk of any (k, v) in closed form, and its slopes in the five scalars."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..state import State
from ..task import Law, Task
from ._arguments import at_state
from ._pointwise import pointwise
from ._zeta import reduced, slope_of_erf, zeta_of, zeta_t, zeta_tt, zeta_ttt


class Pieces(eqx.Module):
    """What the risk and its slopes are made of, at one κ and λ.

    Attributes:
        s: λγ.
        e: E0 … E3, the derivatives in t of ``E erf(t + sG)`` at t = λDκ.
        z: ζ and its first three derivatives in t, at (t, s).
        c: ``C = 2λ/√(π(1 + 2λ²))``.
        k: ``K = (L−1) λ² ζ_tt(0, λ) + (L−1)(L−2) C²``.
    """

    s: Array
    e: tuple[Array, Array, Array, Array]
    z: tuple[Array, Array, Array, Array]
    c: Array
    k: Array


def pieces(task: Task | Law, kappa: Float[Array, "*runs"], lam: Float[Array, "..."]) -> Pieces:
    """The pieces of all runs; λ is broadcast to their shape."""
    lam = jnp.broadcast_to(lam, kappa.shape)
    s = lam * task.gamma
    t = lam * task.signal * kappa
    u, _, tau, square = reduced(t, s)
    slope = slope_of_erf(square)
    e = (
        jax.lax.erf(tau),
        slope / u,
        -2.0 * tau * slope / u**2,
        (4.0 * square - 2.0) * slope / u**3,
    )
    z = (zeta_of(t, s), zeta_t(t, s), zeta_tt(t, s), zeta_ttt(t, s))
    c = 2.0 * lam / jnp.sqrt(math.pi * (1.0 + 2.0 * lam**2))
    others = task.length - 1
    k = others * lam**2 * zeta_tt(jnp.zeros_like(lam), lam) + others * (others - 1) * c**2
    return Pieces(s, e, z, c, k)


def excess_of(task: Task | Law, x: State, lam: Float[Array, "..."]) -> Float[Array, "*runs"]:
    """`excess_risk`, unchecked."""
    lam = jnp.broadcast_to(lam, x.kappa.shape)
    p = pieces(task, x.kappa, lam)
    e0, e1, e2, _ = p.e
    z0, z1, z2, _ = p.z
    g, d, s, others = task.gamma, task.signal, p.s, task.length - 1
    cross = g**2 * x.nu * e0 + d * g * s * x.theta * x.eta * e1 + (g * s) ** 2 * x.rho * x.eta * e2
    own = (d**2 * x.theta**2 + g**2) * z0 + 2.0 * d * g * s * x.theta * x.rho * z1
    own = own + (g * s * x.rho) ** 2 * z2
    rest = others * zeta_of(jnp.zeros_like(lam), lam) + p.k * x.rho**2
    mixed = 2.0 * others * p.c * x.rho * (d * x.theta * e0 + g * s * x.rho * e1)
    return g**2 - 2.0 * cross + own + rest + mixed


def slopes_of(task: Task | Law, x: State, lam: Float[Array, "..."]) -> State:
    """∂R in the five scalars, as a state (unchecked: they are no scalars of unit vectors)."""
    p = pieces(task, x.kappa, lam)
    e0, e1, e2, e3 = p.e
    z0, z1, z2, z3 = p.z
    g, d, s, others = task.gamma, task.signal, p.s, task.length - 1
    gs = g * s
    lam = jnp.broadcast_to(lam, x.kappa.shape)
    kappa = (
        -2.0 * (g**2 * x.nu * e1 + d * gs * x.theta * x.eta * e2 + gs**2 * x.rho * x.eta * e3)
        + (d**2 * x.theta**2 + g**2) * z1
        + 2.0 * d * gs * x.theta * x.rho * z2
        + gs**2 * x.rho**2 * z3
        + 2.0 * others * p.c * x.rho * (d * x.theta * e1 + gs * x.rho * e2)
    )
    nu = -2.0 * g**2 * e0
    theta = (
        -2.0 * d * gs * x.eta * e1
        + 2.0 * d**2 * x.theta * z0
        + 2.0 * d * gs * x.rho * z1
        + 2.0 * others * p.c * x.rho * d * e0
    )
    eta = -2.0 * (d * gs * x.theta * e1 + gs**2 * x.rho * e2)
    rho = (
        -2.0 * gs**2 * x.eta * e2
        + 2.0 * d * gs * x.theta * z1
        + 2.0 * gs**2 * x.rho * z2
        + 2.0 * p.k * x.rho
        + 2.0 * others * p.c * (d * x.theta * e0 + 2.0 * gs * x.rho * e1)
    )
    return State.raw(lam * task.signal * kappa, nu, theta, eta, rho)


def _with_noise(law: Law, x: State, lam: Array) -> Array:
    return excess_of(law, x, lam) + law.noise**2


_excess, _risk, _slopes = (pointwise(kernel) for kernel in (excess_of, _with_noise, slopes_of))


def excess_risk(task: Task, x: State, lam: Any) -> Float[Array, "*runs"]:
    r"""The excess risk ``E(Y − T(X))² − ε²`` of the predictor T with the scalars x.

    With ``t = λDκ``, ``s = λγ``, E_j the derivatives of ``E erf(t + sG)`` in t and ζ at (t, s),

    ``γ² − 2[γ²ν E0 + Dγs θη E1 + γ²s² ρη E2] + (D²θ² + γ²)ζ + 2Dγs θρ ζ_t + γ²s²ρ² ζ_tt
    + (L−1)ζ(0, λ) + Kρ² + 2(L−1)Cρ [Dθ E0 + γsρ E1]``.

    Args:
        task: the data law.
        x: the five scalars.
        lam: λ, the inverse temperature, in (0, 1000].

    Reference: Theorem 1.

    >>> task = Task(dim=400, length=10)
    >>> x = State(kappa=0.3, nu=0.5, theta=-0.1, eta=0.2, rho=0.15)
    >>> round(excess_risk(task, x, lam=0.1).item(), 12)
    0.74832285321
    """
    return _excess(*at_state(task, x, lam))


def risk(task: Task, x: State, lam: Any) -> Float[Array, "*runs"]:
    """The risk ``E(Y − T(X))²``: the excess risk and ε²."""
    return _risk(*at_state(task, x, lam))


def slopes(task: Task, x: State, lam: Any) -> State:
    """∂R/∂κ, ∂R/∂ν, ∂R/∂θ, ∂R/∂η, ∂R/∂ρ, by the names of the scalars.

    Reference: derived for this package.
    """
    return _slopes(*at_state(task, x, lam))
