"""Single flows: parameters along the way, the balanced start, and any symmetric H."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ...compiling import jit
from ...numerics.host import numbers
from ..start import Init
from ..task import Task
from ._exact import Flow
from ._loss import MAX_TIME, at_times, check, times_of
from ._tasks import Rows, all_rows, padded
from ._zeroth import brackets

_MANY_PANELS = 96  # other matrices may have modes of any ratio
_LARGEST = 1e100


@jit
def _parameters(rows: Rows, t: Array) -> tuple[Array, Array]:
    start, weight = rows.start, rows.weight
    root, n = jnp.sqrt(start.context), start.squared_norm
    columns = (
        root * start.along(1.0),
        root * start.along(-1.0),
        start.strength,
        start.context * n,
    )
    time = t[:, None] * weight[None, :]
    log_g, log_h = brackets(*(x[None, :] for x in columns), time=time)

    def turn(sign: float, log_change: Array) -> Array:
        # Along u = (1, Λ) the part grows; across it, Λx₁ − x₂ is conserved.
        along = start.along(sign)[None, :] * jnp.exp(0.5 * log_change)
        across = jnp.broadcast_to(start.across(sign)[None, :], along.shape)
        lam = start.strength[None, :]
        return jnp.stack([along + lam * across, lam * along - across], -1) / n[None, :, None]

    eta, rho = turn(1.0, log_h - log_g), turn(-1.0, log_g - log_h)
    return 0.5 * (eta + rho), 0.5 * (eta - rho)


def parameters(task: Task, init: Init, t: Any) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """The parameters ``v⁰_s(t), w⁰_s(t)`` at order zero.

    ``v ± w`` moves along ``(1, Λ)`` only: its part there is ``√(g/ψ)`` (``√(h/ψ)`` for −), while
    ``Λx_1 − x_2`` is conserved.

    Args:
        task: the data law.
        init: where linear attention starts.
        t: times, one number or one axis.

    Returns:
        v and w, each (times, tasks, 2), or (tasks, 2) for a single time.

    Reference: App. J.1.
    """
    check(task, init, "zeroth")
    t = times_of(t)
    task.fit(24.0 + 16.0 * t.size)
    rows = padded(all_rows(task, init))
    return at_times(lambda t: _parameters(rows, t), t, task.num_tasks)


def balanced(strength: Any, initial: Any, rate: Any, t: Any) -> Float[Array, "..."]:
    """Order zero from a balanced start v = w: ``f = Λ / (1 + Δ e^{−2aΛt})``, ``Δ = (Λ − f0)/f0``.

    `predict` contains this case; here it is by itself, for Λ > 0 and f0 > 0.

    Args:
        strength: Λ.
        initial: f0.
        rate: a = pψ(1 + Λ²).
        t: time.

    Reference: eq. (58), with its exponent corrected.
    """
    given = {"strength": strength, "initial": initial, "rate": rate, "t": t}
    lam, f0, a, t = (validation.floating(name, x) for name, x in given.items())
    for name, x in (("strength", lam), ("initial", f0)):
        validation.within(name, x, 0.0, _LARGEST, open_low=True)
    validation.within("rate", a, 0.0, _LARGEST)
    validation.within("t", t, 0.0)
    shapes = [x.shape for x in (lam, f0, a, t)]
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        words = ", ".join(map(str, shapes))
        raise ValueError(f"{', '.join(given)} must have shapes that fit, not {words}") from None
    return numbers(_balanced, lam, f0, a, t)


def _balanced(xp: Any, lam: Any, f0: Any, a: Any, t: Any) -> Any:
    # By the larger of the two, so that neither products nor t = ∞ at rate 0 are undefined.
    scale = xp.maximum(lam, f0)
    decay = xp.exp(-2.0 * a * lam * xp.minimum(t, MAX_TIME))
    return lam * (f0 / scale) / (f0 / scale + (lam - f0) / scale * decay)


@jit
def _symmetric(
    matrix: Array, v: Array, w: Array, target: Array, weight: Array, t: Array
) -> Float[Array, " times"]:
    mu, basis = jnp.linalg.eigh(matrix)
    root = jnp.sqrt(jnp.abs(mu))
    plus, minus = root * (basis.T @ (v + w)), root * (basis.T @ (v - w))
    first = (x[None] for x in (mu, plus, minus, v @ matrix @ w, target))
    flow = Flow(*first, panels=_MANY_PANELS)
    return target + flow.residual((weight * t)[None, :])[0]


def exact_flow(
    matrix: Any, v: Any, w: Any, *, target: Any, t: Any, weight: Any = 1.0
) -> Float[Array, "..."]:
    """The exact prediction ``f(t) = vᵀHw`` of one task for any symmetric H.

    ``v̇ = −p (f − Λ) H w``, ``ẇ = −p (f − Λ) H v``.

    Args:
        matrix: H, symmetric (d, d).
        v, w: initial parameters, each (d,).
        target: Λ.
        t: times, one number or one axis.
        weight: p.

    Returns:
        Array (times,), or a single number for a single time.

    Reference: App. H.3 is the case ``H² = μH``, whose rate is ``a = pμ``.

    >>> exact_flow([[2.0, 0.0], [0.0, 2.0]], [0.5, 0.0], [0.5, 0.0], target=1.0, t=[0.0, 9.0])
    Array([0.5, 1. ], dtype=float64)
    """
    validation.needs_double("the closed form")
    matrix, v, w = (
        validation.floating(name, x) for name, x in (("matrix", matrix), ("v", v), ("w", w))
    )
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise ValueError(f"matrix must be square, not of shape {matrix.shape}")
    for name, x in (("v", v), ("w", w)):
        validation.shaped(name, x, (matrix.shape[0],))
    if validation.is_concrete(matrix):
        entries = np.asarray(matrix)
        validation.within("matrix", matrix, -_LARGEST, _LARGEST)
        if not np.allclose(entries, entries.T, rtol=1e-12):
            raise ValueError("matrix must be symmetric")
    target, weight = validation.floating("target", target), validation.floating("weight", weight)
    for name, x in (("target", target), ("weight", weight)):
        validation.shaped(name, x, ())
    for name, x in (("v", v), ("w", w), ("target", target)):
        validation.within(name, x, -_LARGEST, _LARGEST)
    validation.within("weight", weight, 0.0, _LARGEST)
    t = times_of(t)
    return at_times(lambda t: _symmetric(matrix, v, w, target, weight, t), t)
