"""Single flows: parameters along the way, the balanced start, and any symmetric H."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ... import validation
from ..start import Init
from ..task import Task
from ._exact import Flow
from ._loss import _check, _times, starts
from ._modes import Start
from ._zeroth import brackets

_MANY_PANELS = 96  # other matrices may have modes of any ratio


@jax.jit
def _parameters(start: Start, weight: Array, t: Array) -> tuple[Array, Array]:
    root, n = jnp.sqrt(start.context), start.squared_norm
    columns = (
        root * start.along(1.0),
        root * start.along(-1.0),
        start.strength,
        start.context * n,
    )
    time = t[:, None] * weight[None, :]
    log_g, log_h, _ = brackets(*(x[None, :] for x in columns), time=time)

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
    _check(task, init, "zeroth")
    t = _times(t)
    v, w = _parameters(starts(task, init), task.weights, jnp.atleast_1d(t))
    shape = (*t.shape, task.num_tasks, 2)
    return v.reshape(shape), w.reshape(shape)


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
    lam, f0, a, t = (
        validation.floating(name, x)
        for name, x in (("strength", strength), ("initial", initial), ("rate", rate), ("t", t))
    )
    for name, x in (("strength", lam), ("initial", f0)):
        validation.within(name, x, 0.0, open_low=True)
    validation.within("rate", a, 0.0)
    validation.within("t", t, 0.0)
    decay = jnp.exp(-2.0 * a * lam * t)
    return lam * f0 / (f0 + (lam - f0) * decay)


@partial(jax.jit, static_argnames=("panels",))
def _symmetric(
    matrix: Array, v: Array, w: Array, target: Array, time: Array, panels: int
) -> Float[Array, " times"]:
    mu, basis = jnp.linalg.eigh(matrix)
    root = jnp.sqrt(jnp.abs(mu))
    plus, minus = root * (basis.T @ (v + w)), root * (basis.T @ (v - w))
    return Flow(mu, plus, minus, v @ matrix @ w, target, panels).residual(time)


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
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"matrix must be square, not of shape {matrix.shape}")
    for name, x in (("v", v), ("w", w)):
        validation.shaped(name, x, (matrix.shape[0],))
    if validation.is_concrete(matrix) and not bool(jnp.allclose(matrix, matrix.T, rtol=1e-12)):
        raise ValueError("matrix must be symmetric")
    target, weight = validation.floating("target", target), validation.floating("weight", weight)
    for name, x in (("target", target), ("weight", weight)):
        validation.shaped(name, x, ())
    for name, x in (("matrix", matrix), ("v", v), ("w", w), ("target", target)):
        validation.within(name, x, -1e100, 1e100)
    validation.within("weight", weight, 0.0, 1e100)
    t = _times(t)
    time = weight * jnp.atleast_1d(t)
    left = _symmetric(matrix, v, w, target, time, _MANY_PANELS)
    return (target + left).reshape(t.shape)
