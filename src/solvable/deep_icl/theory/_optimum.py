"""The best γ of every task."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize

from ... import validation
from ...compiling import jit, stage
from ...numerics.host import is_known, unpacked
from ...numerics.roots import inverse_between, root_between
from ..spectrum import Spectrum
from ..task import FixedStructure, Isotropic, RotatedStructure, Task, check_task
from ._arguments import depths_of, is_population
from ._equivalent import (
    STABLE,
    Equivalent,
    fixed_equivalent,
    fixed_points,
    single_layer,
)
from ._fixed import FixedLaw, fixed_law, single_layer_optimum
from ._isotropic import noiseless_optimum
from ._loss import edge, loss
from ._mean import margin_scale, mean_optimum
from ._resolvents import Medium, losses
from ._resolvents import edge as upper_edge
from ._spectral import (
    Spectral,
    known_losses,
    scaled_descent,
    spectral,
    spectral_descent,
    spectral_loss,
)

_FEW = 8  # depths of an optimum that are written out
_CLOSER, _PLACES, _FAR = 1.03, 400, 1e40  # ratio of places where slopes are looked at; how far
_STEEP = 1e200
_LEAST = 1e-14  # of a loss that is searched for: its round-off
_NOTHING = 1e-17  # e^-39
_SAFE = 0.7  # of the typical optimum, from where that of the mean is searched for


class Optimum(eqx.Module):
    """The best γ at a depth, and the loss there.

    Attributes:
        gamma: γ*; of `FixedStructure` one for each direction, of untied layers one for each layer,
            on the last axis.
        loss: 𝓛(γ*): exact, or with finite width or context that of the typical context, unless it
            is the mean over drawn ones.
        error: the standard error of a mean over drawn contexts; None where nothing is drawn.
        typical: the median over drawn contexts; None where nothing is drawn.
        rounded: of untied layers, the loss that γ in double precision reaches; None elsewhere.
        bound: of untied layers with noise, finite width or context, the loss of the best
            polynomial, which real γ reach where its zeros are real; None elsewhere.
    """

    gamma: Float[Array, "..."]
    loss: Float[Array, "..."]
    error: Float[Array, "..."] | None = None
    typical: Float[Array, "..."] | None = None
    rounded: Float[Array, "..."] | None = None
    bound: Float[Array, "..."] | None = None

    def __repr__(self) -> str:
        told = {name: value for name, value in vars(self).items() if value is not None}
        if self.gamma.ndim == 1 and self.gamma.size <= _FEW and validation.is_concrete(self.gamma):
            each = (f"{k}={np.array2string(np.asarray(x), precision=8)}" for k, x in told.items())
            return f"Optimum({', '.join(each)})"
        return f"Optimum({validation.brief(**told)})"


def optimum(
    task: Task,
    depth: Any = 1,
    *,
    contexts: int | None = None,
    seed: int = 0,
    margin: Any = None,
) -> Optimum:
    r"""The best γ and the loss there.

    ISO without noise: ``γ* = Lα/(1+α)`` and ``𝓛* = 1 − α/(1+α) Σ_{k<L} Cat_k (α/(1+α)²)^k`` with
    the Catalan numbers (derived). Elsewhere γ* is the zero of d𝓛/dγ; of `FixedStructure` with
    endless contexts it is L/λ_k. One layer is exact.

    With finite width or context, and L ≥ 2, this is the optimum of the *typical* context: it sits
    at the edge of stability, where rare contexts diverge, and its mean loss may be many times
    larger. `contexts` gives the optimum of the mean instead, `margin` a step that is safe.

    Args:
        task: the context law.
        depth: L, one or several; None or infinity for the limit.
        contexts: minimise the mean over so many drawn contexts; the loss is then the mean over
            fresh ones, with its standard `error` and the median, `typical`. 2000 are enough for
            D ≤ 32, 300 for D = 100.
        seed: of the contexts.
        margin: m of the largest multiple of γ* with γ·edge/L ≤ 2/(1 + m s),
            ``s² = 2/P + 2/N − 2/D`` (of ISO Tracy and Widom's); 1.2 is fair, 2 is safe.

    >>> import jax; jax.config.update("jax_enable_x64", True)
    >>> optimum(Isotropic(alpha=2.0), depth=8)
    Optimum(gamma=5.33333333333, loss=0.0265757524249)
    """
    check_task(task)
    depths = depths_of(depth)
    if contexts is not None and margin is not None:
        raise ValueError("contexts and margin cannot both be given")
    if contexts is not None:
        return _of_means(task, depths, contexts, seed)
    if isinstance(task, Isotropic) and _silent(task.noise):
        best = Optimum(*noiseless_optimum(task.alpha, depths))
    else:
        found = [_optimum(task, float(d)) for d in depths.ravel()]
        best = Optimum(*(_stacked([pair[k] for pair in found], depths) for k in (0, 1)))
    return best if margin is None else _with_margin(task, depths, best, margin)


def _stacked(values: list[Any], depths: np.ndarray) -> Float[Array, "..."]:
    xp, *values = unpacked(*values)
    rows = xp.stack(values)
    return stage(rows.reshape((*depths.shape, *rows.shape[1:])))


def _silent(noise: Array) -> bool:
    return validation.is_concrete(noise) and float(noise) == 0.0


def _optimum(task: Task, depth: float) -> tuple[Any, Any]:
    """γ* and the loss there, at one depth."""
    if isinstance(task, FixedStructure):
        return _fixed_optimum(task, depth)
    if is_population(task):
        return _population_optimum(spectral(task), depth)
    assert isinstance(task, RotatedStructure)
    if depth == 1.0:
        return single_layer(task).best()
    if math.isinf(depth):
        raise ValueError("depth must be finite for an optimum with finite width or context")
    return _equivalent_optimum(Equivalent.of(task), depth)


def _equivalent_optimum(equivalent: Equivalent, depth: float) -> tuple[Any, Any]:
    """The first zero of the equivalent's slope, near γ = 2L/edge, and the loss there."""
    if is_known(equivalent.medium, equivalent.noise):
        equivalent.for_depth(depth)  # serves the search, and refuses a depth that is too large
        first = float(equivalent.both(np.asarray(0.0), depth)[1])

        def descent(gamma: float) -> float:
            fall = float(equivalent.both(np.asarray(gamma), depth)[1]) / first
            return fall if abs(fall) < _STEEP else -_STEEP  # far beyond the edge

        unit = depth / float(equivalent.top)
        low, high = 0.0, 0.25 * unit
        while descent(high) > 0.0 and high < 1e3 * unit:
            low, high = high, 1.25 * high
        if descent(high) > 0.0:
            raise ArithmeticError(f"no minimum of the loss was found up to γ = {high:.6g}")
        gamma = np.asarray(root_between(descent, low, high))
        return gamma, equivalent.both(gamma, depth)[0]
    found, deep = equivalent.for_depth(depth), stage(depth)

    def slope(gamma: Any, r: Any, noise: Any) -> Any:
        return losses(r, gamma, jnp.broadcast_to(deep, gamma.shape), noise)[1]

    high = STABLE * depth / jax.lax.stop_gradient(stage(equivalent.top))
    zero = jnp.zeros_like(high)
    gamma = inverse_between(slope, zero, zero, high, found, equivalent.noise)
    return gamma, losses(found, gamma, deep, equivalent.noise)[0]


def _turns(xp: Any, lam: Any, depth: Any) -> tuple[Any, Any]:
    """From where to where factors of a narrow spectrum are 0, and a third as much around."""
    low, high = depth / xp.max(lam), depth / xp.min(lam)
    far = 0.3 * (high - low)
    narrow = high < 3.0 * low
    return xp.where(narrow, low - far, low), xp.where(narrow, high + far, low)


def _population_optimum(s: Spectral, depth: float) -> tuple[Any, Any]:
    """The zero of −d𝓛/dγ, which is positive at γ = 0, and the loss there."""
    if math.isinf(depth) and is_known(s.noise) and not np.any(np.asarray(s.noise)):
        return np.asarray(math.inf), s.floor
    xp, lam, share, noise = unpacked(s.lam, s.share, s.noise)
    # The zero of the slope's tangent at 0. With noise the slope has several zeros, of which the
    # first is the best, and none lies much before this place.
    part = lam / xp.max(lam)
    bend = (2.0 - 1.0 / depth) * xp.sum(share * part**2) + xp.sum(noise * part**2)
    first = xp.sum(share * part) / bend / xp.max(lam)
    if is_known(s):

        def descent(gamma: float) -> float:
            return float(spectral_descent(s, np.asarray([gamma]), depth, scaled=True)[0])

        low, steps = 0.0, float(first) * _CLOSER ** np.arange(-30.0, _PLACES)
        if np.any(noise) and math.isfinite(depth):
            # Where factors are 0 the loss may turn over and over.
            steps = np.unique(np.append(steps, np.linspace(*_turns(np, lam, depth), _PLACES)))
        while (falls := spectral_descent(s, steps, depth, scaled=True) > 0.0).all():
            low, steps = steps[-1], steps * (steps[-1] / steps[0])
        k = int(np.argmin(falls))
        gamma = np.asarray(root_between(descent, steps[k - 1] if k else low, steps[k]))
        return gamma, known_losses(s, gamma[None], np.asarray([depth]))[0, 0]
    noisy = not is_known(s.noise) or bool(np.any(np.asarray(s.noise)))
    return _traced_optimum(s, stage(depth), jax.lax.stop_gradient(first), noisy)


@jit(static_argnames="noisy")
def _traced_optimum(
    s: Spectral, depth: Float[Array, ""], first: Float[Array, ""], noisy: bool
) -> Any:
    """The same of numbers that JAX traces, with their slopes."""

    def descent(gamma: Array, s: Spectral) -> Array:
        if not noisy:
            return scaled_descent(gamma, s, depth)
        return -jax.grad(lambda g: spectral_loss(s, g, depth))(gamma)

    still = jax.lax.stop_gradient(s)
    begin, end = _turns(jnp, still.lam, depth)

    def further(gamma: Array) -> Array:
        far = _CLOSER * gamma
        if not noisy:
            return far
        near = jnp.where(gamma < begin, begin, gamma + (end - begin) / _PLACES)
        return jnp.where((gamma < end) & (end > begin), jnp.minimum(far, near), far)

    low, high = jax.lax.while_loop(
        lambda ends: (descent(ends[1], still) > 0.0) & (ends[1] < _FAR * first),
        lambda ends: (ends[1], further(ends[1])),
        (jnp.zeros_like(first), 0.5 * first),
    )
    gamma = inverse_between(descent, jnp.zeros_like(low), low, high, s)
    return gamma, spectral_loss(s, gamma, depth)


def _fixed_optimum(task: FixedStructure, depth: float) -> tuple[Any, Any]:
    """Γ's best diagonal: closed for one layer and for endless contexts, else by L-BFGS."""
    law = fixed_law(task)
    if task.context is None:
        _, lam = unpacked(task.lam)
        return depth / lam, np.asarray(0.0)
    if depth == 1.0:
        return single_layer_optimum(law)
    if math.isinf(depth):
        raise ValueError("depth must be finite for an optimum with a finite context")
    validation.concrete(
        "a FixedStructure with a finite context", task, why="its best Γ is searched for"
    )
    points = fixed_points(law, None, depth)
    lam, layers = np.asarray(task.lam), stage(depth)
    single = depth * np.asarray(single_layer_optimum(law)[0]) * lam
    start = np.log(np.maximum(single, _NOTHING))  # 0 where nothing is to be learned
    found = minimize(
        lambda x: [np.asarray(y, float) for y in _log_fixed(stage(x), law, layers, points)],
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(-40.0, math.log(2.0 * depth))] * task.dim,
        options={"maxiter": 2000, "maxfun": 4000, "ftol": 1e-12, "gtol": 1e-7},
    )
    best = np.exp(found.x) / lam
    return best, np.asarray(fixed_equivalent(law, best, depth, fixed_points(law, best, depth)))


@jit(static_argnames="points")
def _log_fixed(
    log_load: Float[Array, " dim"], law: FixedLaw, depth: Float[Array, ""], points: int
) -> tuple[Float[Array, ""], Float[Array, " dim"]]:
    """The logarithm of 𝓛 and its round-off, and its slopes in log γλ."""
    least = _LEAST * jnp.sum(law.share)

    def value(log_load: Array) -> Array:
        return jnp.log(fixed_equivalent(law, jnp.exp(log_load) / law.lam, depth, points) + least)

    return jax.value_and_grad(value)(log_load)


def _of_means(task: Task, depths: np.ndarray, contexts: int, seed: int) -> Optimum:
    """The optimum of the mean over drawn contexts, at every depth."""
    found = []
    for deep in depths.ravel().tolist():
        if math.isinf(deep):
            raise ValueError("depth must be finite for an optimum over drawn contexts")
        start = None
        if isinstance(task, FixedStructure) and task.context is not None and deep > 1.0:
            start = _SAFE * np.asarray(_fixed_optimum(task, deep)[0])
        found.append(mean_optimum(task, int(deep), contexts=contexts, seed=seed, start=start))
    rows = (_stacked([each[k] for each in found], depths) for k in range(4))
    return Optimum(*rows)


def _with_margin(task: Task, depths: np.ndarray, best: Optimum, margin: Any) -> Optimum:
    """The optimum of the typical context, moved back from the edge of stability."""
    if np.isinf(depths).any():
        raise ValueError("depth must be finite for a margin")
    validation.concrete("task and margin", task, margin, why="the edge is looked for")
    gammas, losses_there = [], []
    rows = np.asarray(best.gamma).reshape(depths.size, -1)
    for deep, row in zip(depths.ravel().tolist(), rows, strict=True):
        if isinstance(task, FixedStructure):
            spectrum = Spectrum.given(row * np.asarray(task.lam), np.ones(task.dim))
            top = float(upper_edge(Medium.of(spectrum, None, task.context)))
        else:
            top = float(row[0]) * float(edge(task))
        gamma = float(margin_scale(task, top / deep, margin)) * row
        gammas.append(gamma if isinstance(task, FixedStructure) else gamma[0])
        losses_there.append(loss(task, gamma=gammas[-1], depth=int(deep)))
    return Optimum(_stacked(gammas, depths), _stacked(losses_there, depths))
