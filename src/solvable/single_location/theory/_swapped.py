"""The swapped minima: k on v*, v on k*, where half of all runs end at small λ."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ... import validation
from ...compiling import jit
from ...numerics.roots import root_between
from ..state import NAMES, State
from ..task import MAX_LAM, Law, Task, check_task, law_of
from ._arguments import inverse_temperature, one_inverse_temperature
from ._field import field_of
from ._miss import miss_of
from ._pointwise import pointwise
from ._zeta import zeta_of

_GRID = 400
_TINY = 1e-9  # s below which s²/φ is ½ to all digits
_TERMS = 12


class Swapped(eqx.Module):
    """A swapped minimum; its mirror image has θ and η negative.

    Attributes:
        state: κ = ν = ρ = 0, η = 1 and θ = min(θ*, 1).
        excess: the excess risk there.
        capped: whether θ* > 1, so that v = k* exactly.
    """

    state: State
    excess: Float[Array, "*batch"]
    capped: Bool[Array, "*batch"]


def _parts(task: Law, lam: Array) -> tuple[Array, Array, Array]:
    """θ, whether it is capped, and the excess risk without what the other tokens add."""
    s = lam * task.gamma
    u, w = jnp.sqrt(1.0 + 2.0 * s**2), jnp.sqrt(1.0 + 4.0 * s**2)
    tiny = s < _TINY
    angle = 2.0 * jnp.arctan2(4.0 * s**2, (1.0 + w) ** 2)  # (π/2) ζ(0, s) = arcsin(2s²/u²)
    ratio = jnp.where(tiny, 0.5, s**2 / jnp.where(tiny, 1.0, angle))
    best = math.sqrt(math.pi) * task.gamma * ratio / u  # θ* D s
    capped = best > task.signal * s
    theta = jnp.where(capped, 1.0, best / (task.signal * jnp.where(capped, 1.0, s)))
    # 1 − sin φ/φ by its series: of erf on v* only the linear part serves.
    lag = jnp.zeros_like(s)
    for n in range(_TERMS, 0, -1):
        lag = angle**2 / (2 * n * (2 * n + 1)) * (1.0 - lag)
    short = jnp.where(capped, task.signal * s - best, 0.0) ** 2 * (2.0 / math.pi) / ratio
    own = task.gamma**2 * (lag + (2.0 / math.pi) * angle) + short
    return theta, capped, own


def swapped(task: Task, lam: Any) -> Swapped:
    r"""The spurious minimum k = v*, v·k* = min(θ*, 1), κ = ν = ρ = 0.

    ``θ* = γs E1(0) / (D ζ(0, s))``, ``E1(0) = 2/√(π(1 + 2s²))``, s = λγ, and the excess risk

    ``γ² − (γs E1(0))²/ζ(0, s) + D²ζ(0, s)(θ − θ*)² + γ²ζ(0, s) + (L−1)ζ(0, λ)``:

    erf, linear on v*, is multiplied by the constant Dθ. It is computed as a sum of positive terms.

    Args:
        task: the data law.
        lam: λ, the inverse temperature, in (0, 1000]; one or many.

    Reference: derived for this package.

    >>> found = swapped(Task(dim=400, length=10), 0.1)
    >>> round(found.state.theta.item(), 5), round(found.excess.item(), 6)
    (0.62977, 0.115512)
    """
    check_task(task)
    return _minimum(law_of(task), inverse_temperature(lam))


@pointwise
def _minimum(task: Law, lam: Array) -> Swapped:
    theta, capped, own = _parts(task, lam)
    zero = jnp.zeros_like(theta)
    excess = own + (task.length - 1) * zeta_of(jnp.zeros_like(lam), lam)
    return Swapped(State.raw(zero, zero, theta, jnp.ones_like(theta), zero), excess, capped)


def swapped_gap(task: Task, lam: Any) -> Float[Array, "*batch"]:
    """By how much the swapped minimum is worse than the oracle; it does not depend on L.

    Args:
        task: the data law.
        lam: λ, the inverse temperature, in (0, 1000]; one or many.

    Returns:
        The difference of the risks; negative where the swapped minimum is better.

    Reference: derived for this package.

    >>> round(swapped_gap(Task(dim=400, length=10), 0.05).item(), 4)
    -0.0294
    """
    check_task(task)
    return _gap(law_of(task), inverse_temperature(lam))


@pointwise
def _gap(task: Law, lam: Array) -> Array:
    oracle = task.gamma**2 * miss_of(lam * task.signal, lam * task.gamma)
    return _parts(task, lam)[2] - oracle


def crossover_lam(task: Task) -> float:
    """The λ below which the swapped minimum has a smaller risk than the oracle.

    Args:
        task: the data law.

    Returns:
        λ; infinity where the swapped minimum is better for every λ up to 1000.

    Reference: derived for this package.

    >>> round(crossover_lam(Task(dim=400, length=10)), 4)
    0.0907
    """
    check_task(task)
    validation.concrete("task", task, why="the crossover is searched for")
    law, grid = law_of(task), np.geomspace(1e-2 / task.signal, MAX_LAM, _GRID)
    worse = np.asarray(_gap(law, grid)) > 0.0
    if not worse.any():
        return math.inf
    place = int(np.argmax(worse))
    if place == 0:
        return 0.0

    def gap(lam: float) -> float:
        return float(_gap(law, np.asarray(lam)))

    return root_between(gap, float(grid[place - 1]), float(grid[place]))


@jit
def _jacobian(task: Law, x: State, lam: Array) -> Float[Array, "5 5"]:
    def velocity(y: Array) -> Array:
        found = field_of(task, State.raw(*y), lam)
        return jnp.stack([getattr(found, name) for name in NAMES])

    return jax.jacfwd(velocity)(jnp.stack([getattr(x, name) for name in NAMES]))


def swapped_rates(task: Task, lam: Any) -> Float[np.ndarray, " rates"]:
    """The eigenvalues of the flow at the swapped minimum, the largest first.

    Args:
        task: the data law.
        lam: λ, the inverse temperature, in (0, 1000].

    Returns:
        Five, of the flow in the five scalars; where θ is capped at 1 only motions with
        ``ρ = κ + ν`` are possible, and there are four.

    Reference: derived for this package.

    >>> rates = swapped_rates(Task(dim=400, length=10), 0.1)
    >>> len(rates), bool((rates < 0.0).all())
    (5, True)
    """
    check_task(task)
    lam = one_inverse_temperature(lam)
    validation.concrete("task and lam", task, lam, why="the eigenvalues are sorted")
    found = swapped(task, lam)
    with jax.ensure_compile_time_eval():
        matrix = np.array(_jacobian(law_of(task), found.state, lam))
    if found.capped:
        kappa, nu, rho = (NAMES.index(name) for name in ("kappa", "nu", "rho"))
        matrix[:, [kappa, nu]] += matrix[:, [rho]]
        matrix = np.delete(np.delete(matrix, rho, axis=0), rho, axis=1)
    return np.sort(np.linalg.eigvals(matrix).real)[::-1]
