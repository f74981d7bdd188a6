"""Whether the invariant manifold attracts: the flow of (θ, η, ρ) linearised on it."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ...compiling import stage
from ...numerics.roots import root_between
from ..task import MAX_LAM, Law, Task, check_task, law_of
from ._arguments import inside, inverse_temperature, on_manifold
from ._flow import scales
from ._miss import miss_t, miss_tt
from ._pointwise import pointwise
from ._risk import pieces
from ._zeta import zeta_of

_GRID = 400
_LEAST = 1e-2  # of 1/D: there the attention is linear


def _matrix(task: Law, kappa: Array, nu: Array, lam: Array) -> Array:
    kappa, nu = inside(kappa), inside(nu)
    p = pieces(task, kappa, lam)
    e0, e1, e2, _ = p.e
    z0, z1, z2, _ = p.z
    g, d, others = task.gamma, task.signal, task.length - 1
    gs = g * p.s
    # R_θ, R_η, R_ρ as linear forms, R_κ and R_ν as numbers.
    theta_theta, theta_eta = 2.0 * d**2 * z0, -2.0 * d * gs * e1
    theta_rho = 2.0 * d * gs * z1 + 2.0 * others * p.c * d * e0
    eta_rho = -2.0 * gs**2 * e2
    rho_rho = 2.0 * gs**2 * z2 + 2.0 * p.k + 4.0 * others * p.c * gs * e1
    zero, one = jnp.zeros_like(z0), jnp.ones_like(z0)
    r_kappa, r_nu = lam * d * g**2 * (z1 - 2.0 * nu * e1), -2.0 * g**2 * e0

    def matrix(*rows: tuple[Array, Array, Array]) -> Array:
        return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)

    bend = matrix(
        (theta_theta, theta_eta, theta_rho),
        (theta_eta, zero, eta_rho),
        (theta_rho, eta_rho, rho_rho),
    )
    gram = matrix((one, zero, kappa), (zero, one, nu), (kappa, nu, 2.0 * one))
    turn = matrix(
        (nu * r_nu, zero, zero),
        (zero, kappa * r_kappa, zero),
        (-r_kappa, -r_nu, kappa * r_kappa + nu * r_nu),
    )
    return turn - gram @ bend


_transversal = pointwise(_matrix)


def transversal(task: Task, kappa: Any, nu: Any, lam: Any) -> Float[Array, "*runs 3 3"]:
    r"""The matrix M of ``ẏ = M y``, y = (θ, η, ρ) small, at a place (κ, ν) of the manifold.

    ``θ̇ = −R_θ − κR_ρ + νR_ν θ``, ``η̇ = −R_η − νR_ρ + κR_κ η`` and
    ``ρ̇ = −R_κθ − R_νη − κR_θ − νR_η − 2R_ρ + (κR_κ + νR_ν)ρ``, with the slopes to first order.

    Args:
        task: the data law.
        kappa: κ in [−1, 1].
        nu: ν in [−1, 1].
        lam: λ, the inverse temperature, in (0, 1000].

    Returns:
        M, rows and columns in the order θ, η, ρ. At the corners κ² = ν² = 1 only ``ρ = κθ + νη``
        is possible; M has an eigenvalue ``κR_κ + νR_ν`` that belongs to no motion.

    Reference: derived for this package.

    >>> transversal(Task(dim=400, length=10), 0.3, 0.9, 0.1).shape
    (3, 3)
    """
    return _transversal(*on_manifold(task, kappa, nu, lam))


def transversal_growth(task: Task, kappa: Any, nu: Any, lam: Any) -> Float[Array, "*runs"]:
    """The largest rate (real part) at which the distance to the manifold grows at (κ, ν).

    Args:
        task: the data law.
        kappa: κ in [−1, 1].
        nu: ν in [−1, 1].
        lam: λ, the inverse temperature, in (0, 1000].

    Returns:
        Positive where the manifold repels.

    Reference: derived for this package.

    >>> round(transversal_growth(Task(dim=400, length=10), 0.3, 1.0, 0.9).item(), 3)
    0.032
    """
    matrix = transversal(task, kappa, nu, lam)
    if validation.is_concrete(matrix):
        return stage(np.linalg.eigvals(np.asarray(matrix)).real.max(axis=-1))
    return jnp.max(jnp.real(jnp.linalg.eigvals(matrix)), axis=-1)


def _at_oracle(task: Law, lam: Array) -> Array:
    """The eigenvalues of the flow of (θ, η) at (1, 1), where ρ = θ + η, the larger first.

    The flow is symmetric there, [[a, b], [b, e]]; e is a sum of negative terms.
    """
    p = pieces(task, jnp.ones_like(lam), lam)
    e0, e1, e2, _ = p.e
    z0, z1, z2, _ = p.z
    g, d, others = task.gamma, task.signal, task.length - 1
    gs, t = g * p.s, lam * d
    far = 2.0 * p.k + 4.0 * others * p.c * gs * e1
    a = -2.0 * g**2 * e0 - 2.0 * d**2 * z0 - 4.0 * d * gs * z1 - 4.0 * others * p.c * d * e0
    a = a - 2.0 * gs**2 * z2 - far
    b = -2.0 * d * gs * (z1 - e1) - 2.0 * gs**2 * (z2 - e2) - 2.0 * others * p.c * d * e0 - far
    e = t * g**2 * miss_t(t, p.s) - 2.0 * gs**2 * miss_tt(t, p.s) - far
    low = 0.5 * (a + e) - jnp.sqrt(0.25 * (a - e) ** 2 + b**2)
    # By the determinant: next to an eigenvalue of order d the other would lose its digits.
    return jnp.stack([(a * e - b**2) / jnp.where(low < 0.0, low, -1.0), low], axis=-1)


_oracle_growth = pointwise(_at_oracle)


def oracle_growth(task: Task, lam: Any) -> Float[Array, "*batch 2"]:
    """The two rates at which the distance to the manifold grows at the oracle, the larger first.

    Where both are negative, the oracle is a local minimum of the risk.

    Args:
        task: the data law.
        lam: λ, the inverse temperature, in (0, 1000]; one or many.

    Reference: derived for this package.

    >>> round(oracle_growth(Task(dim=400, length=10), 0.9)[0].item(), 3)
    0.021
    """
    check_task(task)
    return _oracle_growth(law_of(task), inverse_temperature(lam))


def critical_lam(task: Task) -> float:
    r"""λ_c, above which the manifold repels at the oracle.

    Where the attention is saturated the flow's determinant there is a multiple of
    ``D²(2/w − 1) + γ²(2/w + L − 2)``, ``w = √(1 + 4λ²)``, so that for L > 1

    ``λ_c = ½ √(4(D² + γ²)²/(D² − γ²(L − 2))² − 1)``:

    √3/2 = 0.866 as d → ∞, and none at all for L ≥ 2 + D²/γ². What is left of the erf's slope, of
    order ``exp(−D²)``, is not neglected.

    Args:
        task: the data law.

    Returns:
        λ_c, the smallest; infinity where there is none up to λ = 1000.

    Reference: derived for this package.

    >>> round(critical_lam(Task(dim=400, length=10)), 4)
    0.8924
    """
    check_task(task)
    validation.concrete("task", task, why="λ_c is searched for")
    law, grid = law_of(task), np.geomspace(_LEAST / task.signal, MAX_LAM, _GRID)
    repels = np.asarray(_oracle_growth(law, grid))[:, 0] > 0.0
    if repels[0]:
        return 0.0
    if not repels.any():
        return math.inf
    place = int(np.argmax(repels))

    def growth(lam: float) -> float:
        return float(np.asarray(_oracle_growth(law, np.asarray(lam)))[0])

    return root_between(growth, float(grid[place - 1]), float(grid[place]))


def origin_growth(task: Task, lam: Any) -> Float[Array, "*batch"]:
    r"""The rate at which θ and η grow at the origin, on the way to the swapped minima.

    The flow there is ``[[−2D²ζ(0, s), q], [q, 0]]`` with ``q = 4γ²p/√π``, so that the rate is
    ``q(√(b² + 4) − b)/2``, ``b = 2D²ζ(0, s)/q``. It competes with `saddle(…).growth`, on the way
    to the oracle.

    Args:
        task: the data law.
        lam: λ, the inverse temperature, in (0, 1000]; one or many.

    Reference: derived for this package.

    >>> round(origin_growth(Task(dim=400, length=10), 0.1).item(), 4)
    0.7668
    """
    check_task(task)
    return _at_origin(law_of(task), inverse_temperature(lam))


@pointwise
def _at_origin(task: Law, lam: Array) -> Array:
    p, _, twice = scales(task, lam)
    q = 2.0 * twice * p / math.sqrt(math.pi)
    fall = 2.0 * task.signal**2 * zeta_of(jnp.zeros_like(lam), lam * task.gamma)
    b = fall / jnp.where(q > 1e-100, q, 1.0)  # below that it is 0 either way
    return 2.0 * q / (b + jnp.sqrt(b**2 + 4.0))
