"""Loss, optimum and curves of every task: one door to the formulas of each."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize

from ... import memory, validation
from ...compiling import jit, stage
from ...numerics.host import is_known, unpacked
from ...numerics.roots import root_between
from ..run import Time
from ..start import Init, gamma_of
from ..task import FixedStructure, Isotropic, RotatedStructure, Task, check_task
from . import _medium as medium
from ._arguments import (
    check_growth,
    check_noise,
    depths_of,
    gammas_of,
    is_population,
    scalar_times,
)
from ._fixed import (
    FixedLaw,
    closed_gamma,
    closed_loss,
    fixed_law,
    second_order,
    single_layer_loss,
    single_layer_optimum,
)
from ._flow import Flow
from ._isotropic import noiseless_optimum, top_eigenvalue
from ._roots import traced_root
from ._spectral import Spectral, known_losses, spectral, spectral_descent, spectral_loss

_FEW = 8  # depths of an optimum that are written out


class Optimum(eqx.Module):
    """The best γ at a depth, and the loss there.

    Attributes:
        gamma: γ*; of `FixedStructure` one for each direction, on the last axis.
        loss: 𝓛(γ*).
    """

    gamma: Float[Array, "..."]
    loss: Float[Array, "..."]

    def __repr__(self) -> str:
        if self.gamma.ndim == 1 and self.gamma.size <= _FEW and validation.is_concrete(self.gamma):
            told = (np.array2string(np.asarray(x), precision=8) for x in (self.gamma, self.loss))
            return "Optimum(gamma={}, loss={})".format(*told)
        return f"Optimum({validation.brief(gamma=self.gamma, loss=self.loss)})"


def loss(
    task: Task,
    *,
    gamma: Any = None,
    step_size: Any = None,
    depth: Any = 1,
    points: int | None = None,
    step: Any = None,
) -> Float[Array, "..."]:
    r"""The loss ⟨(f − y)²⟩ of L layers with Γ = γI.

    ISO: ``∫ρ(λ)[(1 − γλ/L)^(2L) + σ²/(αλ)(1 − (1 − γλ/L)^L)²]`` with Marchenko and Pastur's ρ.
    FS and RRS with endless contexts and N = D: ``Σ_k a_k (1 − γλ_k/L)^(2L)``. Otherwise the
    two-point deterministic equivalent, whose error is O(1/N, 1/P); FS at L = 1 is exact.

    Args:
        task: the context law.
        gamma: γ ≥ 0, of any shape; of `FixedStructure` a number for Γ = γI, or Γ's diagonal on the
            last axis; or
        step_size: γ/L, at which one evaluation gives all depths.
        depth: L, one or several; None or infinity for the limit.
        points: on the contour of the equivalent; enough for 10 digits unless given.
        step: deprecated, the old name of step_size.

    Returns:
        The losses, of shape (gamma's shape, depth's shape).

    >>> import jax; jax.config.update("jax_enable_x64", True)
    >>> rrs = RotatedStructure(nu=1.25, beta=1.0, dim=200, width=60, context=100)
    >>> print(loss(rrs, step_size=0.6, depth=[1, 2]).round(8))
    [0.74672763 0.57493919]
    """
    check_task(task)
    depths = depths_of(depth)
    places, by_step_size = gammas_of(gamma, step_size, step)
    if by_step_size and np.isinf(depths).any():
        raise ValueError("gamma, not step_size, must be given where depth is infinite")
    if points is not None:
        points = validation.whole("points", points, 8, medium.MAX_POINTS)
        if points % 2:
            raise ValueError(f"points must be even, not {points}")
    along = isinstance(task, FixedStructure) and places.ndim > 0
    if isinstance(task, FixedStructure) and along:
        validation.shaped("gamma", places, (*places.shape[:-1], task.dim))
    _, numbers = unpacked(places)
    rows = numbers.reshape(-1, places.shape[-1]) if along else numbers.reshape(-1)
    shape = places.shape[:-1] if along else places.shape
    if numbers.size == 0:
        return stage(np.zeros((*shape, *depths.shape)))
    _, values = unpacked(_values(task, rows, depths.ravel(), by_step_size, points))
    return stage(values.reshape((*shape, *depths.shape)))


def _values(
    task: Task, rows: Any, depths: np.ndarray, by_step_size: bool, points: int | None
) -> Float[Array, "rows depths"]:
    """The loss at every row and depth."""
    name = "step_size" if by_step_size else "gamma"
    noisy = check_noise(task)
    if is_population(task):
        s = spectral(task)
        xp, lam, places = unpacked(s.lam, rows)
        along = rows.ndim > 1
        loads, top = (places * lam[None, :], 1.0) if along else (places, xp.max(lam))
        for deep in depths:
            check_growth(f"{name} times lam" if along else name, loads, top, float(deep))
        if is_known(s, rows):
            return stage(known_losses(s, places, depths, by_step_size))
        layers = stage(depths)
        factor = layers if by_step_size else jnp.ones_like(layers)
        each = jax.vmap(lambda g, f, d: spectral_loss(s, g * f, d), (None, 0, 0))
        return jax.vmap(lambda g: each(g, factor, layers))(stage(rows))
    if isinstance(task, FixedStructure):
        columns = [_fixed(task, rows, float(d), by_step_size, noisy, points) for d in depths]
        xp, *values = unpacked(*columns)
        return stage(xp.stack(values, 1))
    assert isinstance(task, RotatedStructure)
    return _rotated(task, rows, depths, by_step_size, noisy, points)


def _fixed(
    task: FixedStructure,
    rows: Any,
    depth: float,
    by_step_size: bool,
    noisy: bool,
    points: int | None,
) -> Float[Array, " rows"]:
    """Contexts of P tokens, Γ diagonal: the equivalent of S = Γ^½ΣΓ^½, exact for one layer."""
    law = fixed_law(task)
    full = rows[:, None] * np.ones((1, task.dim)) if rows.ndim == 1 else rows
    full = full * (depth if by_step_size else 1.0)
    if depth == 1.0:
        return single_layer_loss(law, full)
    xp, full, lam = unpacked(full, task.lam)
    load = full * lam[None, :]
    count = points_of(depth, xp.max(load), points)
    check_growth("gamma times lam", load, 1.0, depth)
    _refuse_many(task.dim, count)
    layers = None if math.isinf(depth) else stage(depth)
    if is_known(law, full):
        pairs = [_fixed_row(law, stage(row), layers, points=count, noisy=noisy) for row in full]
        medium.settled(np.max([np.asarray(residual) for _, residual in pairs], initial=0.0))
        return stage(np.asarray([np.asarray(value) for value, _ in pairs]))
    return jax.lax.map(
        lambda row: fixed_equivalent(law, row, layers, points=count, noisy=noisy)[0], full
    )


def fixed_equivalent(
    law: FixedLaw,
    gamma: Float[Array, " dim"],
    depth: Float[Array, ""] | None,
    *,
    points: int,
    noisy: bool,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The loss at one diagonal Γ by the equivalent, and its residual; no depth is infinite."""
    # S in units of its largest eigenvalue; where that is tiny, the second order is exact.
    top = jnp.max(gamma * law.lam)
    layers = jnp.ones_like(top) if depth is None else depth
    tiny = jax.lax.stop_gradient(top) < medium.SMALL * layers
    unit = jnp.where(tiny, 1.0, top)
    m = medium.preconditioned(law, jnp.where(tiny, 1.0 / law.lam, gamma / unit))
    found, residual = medium.total(
        m,
        medium.upper_edge(jax.lax.stop_gradient(m), False),
        law.noise,
        unit / layers,
        None if depth is None else depth[None],
        points=points,
        narrow=False,
        noisy=noisy,
    )
    few = second_order(law, gamma, 0.0 if depth is None else 1.0 / depth)
    value = jnp.where(tiny, few, found[0])
    # The circle leaves room for eigenvalues that are a little below 0, no more.
    good = jnp.min(gamma * law.lam) >= -5.0 * layers / points
    return jnp.where(good, value, jnp.nan), residual


_fixed_row = jit(fixed_equivalent, static_argnames=("points", "noisy"))


def _refuse_many(dim: int, points: int) -> None:
    """Raise where the sums over directions at all points of the contour have no room."""
    memory.refuse("dim", dim, 64.0 * dim * points)


def points_of(depth: float, load: Any, points: int | None) -> int:
    """Points on the contour, where `load` = γ times the edge."""
    if points is not None:
        return points
    return medium.points_for(depth, float(load) if is_known(load) else 400.0)


def _rotated(
    task: RotatedStructure,
    rows: Any,
    depths: np.ndarray,
    by_step_size: bool,
    noisy: bool,
    points: int | None,
) -> Float[Array, "rows depths"]:
    """The equivalent; all depths at once at a given step size."""
    _refuse_many(task.dim, max(points or medium.points_for(float(d)) for d in depths))
    narrow = task.width < task.dim
    m = medium.medium_of(task)
    xp, places, top = unpacked(rows, medium.upper_edge(m, narrow))
    for deep in depths:
        check_growth("step_size" if by_step_size else "gamma", places, top, float(deep))

    def at(step_sizes: Any, layers: Any, count: int) -> Any:
        _refuse_many(task.dim, count)
        options = {"points": count, "narrow": narrow, "noisy": noisy}
        values, residual = medium.totals(m, task.noise, stage(step_sizes), layers, **options)
        medium.settled(residual)
        return values

    if by_step_size:
        count = points or medium.points_for(float(depths.max()))
        return at(places, stage(depths), count)
    columns = []
    for deep in depths.tolist():
        count = points_of(deep, xp.max(places) * top, points)
        endless = math.isinf(deep)
        layers = None if endless else stage([deep])
        columns.append(at(places / (1.0 if endless else deep), layers, count))
    xp, *values = unpacked(*columns)
    return stage(xp.concatenate(values, axis=1))


def edge(task: Task) -> Float[Array, ""]:
    """The upper edge of the spectrum of what a layer descends: γ·edge/L < 2 is stable.

    >>> round(edge(RotatedStructure(nu=1.25, beta=1.0, dim=100, width=50)).item(), 4)
    0.6104
    """
    check_task(task)
    if isinstance(task, Isotropic):
        return top_eigenvalue(task.alpha)
    if isinstance(task, FixedStructure):
        ones = stage(np.ones(task.dim))
        return medium.upper_edge(medium.preconditioned(fixed_law(task), ones), False)
    return medium.upper_edge(medium.medium_of(task), task.width < task.dim)


def optimum(task: Task, depth: Any = 1) -> Optimum:
    r"""The best γ and the loss there.

    ISO without noise: ``γ* = Lα/(1+α)`` and ``𝓛* = 1 − α/(1+α) Σ_{k<L} Cat_k (α/(1+α)²)^k`` with
    the Catalan numbers. Elsewhere γ* is the zero of d𝓛/dγ; of `FixedStructure` with endless
    contexts it is L/λ_k.

    Args:
        task: the context law.
        depth: L, one or several; None or infinity for the limit.

    >>> import jax; jax.config.update("jax_enable_x64", True)
    >>> optimum(Isotropic(alpha=2.0), depth=8)
    Optimum(gamma=5.33333333333, loss=0.0265757524249)
    """
    check_task(task)
    depths = depths_of(depth)
    if isinstance(task, Isotropic) and _silent(task.noise):
        return Optimum(*noiseless_optimum(task.alpha, depths))
    found = [_optimum(task, float(d)) for d in depths.ravel()]
    xp, *gammas = unpacked(*(g for g, _ in found))
    yp, *values = unpacked(*(v for _, v in found))
    gamma, value = xp.stack(gammas), yp.stack(values)
    return Optimum(
        stage(gamma.reshape((*depths.shape, *gamma.shape[1:]))),
        stage(value.reshape(depths.shape)),
    )


def _silent(noise: Array) -> bool:
    return validation.is_concrete(noise) and float(noise) == 0.0


def _optimum(task: Task, depth: float) -> tuple[Any, Any]:
    """γ* and the loss there, at one depth."""
    if isinstance(task, FixedStructure):
        return _fixed_optimum(task, depth)
    if is_population(task):
        return _population_optimum(spectral(task), depth)
    if math.isinf(depth):
        raise ValueError("depth must be finite for an optimum with finite width or context")
    assert isinstance(task, RotatedStructure)
    validation.concrete(
        "a task with finite width or context", task, why="the best γ of its equivalent is found"
    )
    curve = RotatedDescent(task, depth)
    eta = medium.best_step_size(lambda eta: curve.slope(eta * depth), float(edge(task)))
    gamma = eta * depth
    return gamma, curve.loss(gamma)


def _population_optimum(s: Spectral, depth: float) -> tuple[Any, Any]:
    """The zero of −d𝓛/dγ, which is positive at γ = 0, and the loss there."""
    if math.isinf(depth) and is_known(s.noise) and not np.any(np.asarray(s.noise)):
        return np.asarray(math.inf), s.floor
    xp, lam = unpacked(s.lam)
    far = (2.0 * depth if math.isfinite(depth) else 1.0) / xp.max(lam)
    if is_known(s):

        def descent(gamma: float) -> float:
            return float(spectral_descent(s, np.asarray([gamma]), depth)[0])

        low, high = 0.0, float(far)
        while descent(high) > 0.0 and high < 1e12 * far:
            low, high = high, 1.25 * high
        gamma = np.asarray(root_between(descent, low, high))
        return gamma, known_losses(s, gamma[None], np.asarray([depth]))[0, 0]
    return _traced_optimum(s, stage(depth), jax.lax.stop_gradient(far))


@jit
def _traced_optimum(s: Spectral, depth: Float[Array, ""], far: Float[Array, ""]) -> Any:
    """The same of numbers that JAX traces, with their slopes."""

    def descent(gamma: Array, s: Spectral) -> Array:
        return -jax.grad(lambda g: spectral_loss(s, g, depth))(gamma)

    still = jax.lax.stop_gradient(s)
    low, high = jax.lax.while_loop(
        lambda ends: (descent(ends[1], still) > 0.0) & (ends[1] < 1e12 * far),
        lambda ends: (ends[1], 1.25 * ends[1]),
        (jnp.zeros_like(far), far),
    )
    gamma = traced_root(descent, low, high, s)
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
    options = {"points": medium.points_for(depth), "noisy": check_noise(task)}
    _refuse_many(task.dim, options["points"])
    lam, layers = np.asarray(task.lam), stage(depth)
    start = np.log(depth * np.asarray(single_layer_optimum(law)[0]) * lam)
    found = minimize(
        lambda x: [np.asarray(y, float) for y in _log_fixed(stage(x), law, layers, **options)],
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(-40.0, math.log(2.0 * depth))] * task.dim,
        options={"maxiter": 2000, "maxfun": 4000, "ftol": 1e-12, "gtol": 1e-7},
    )
    return np.exp(found.x) / lam, np.asarray(np.exp(found.fun))


@jit(static_argnames=("points", "noisy"))
def _log_fixed(
    log_load: Float[Array, " dim"], law: FixedLaw, depth: Float[Array, ""], **options: Any
) -> tuple[Float[Array, ""], Float[Array, " dim"]]:
    """The logarithm of 𝓛, and its slopes in log γλ."""

    def value(log_load: Array) -> Array:
        return jnp.log(fixed_equivalent(law, jnp.exp(log_load) / law.lam, depth, **options)[0])

    return jax.value_and_grad(value)(log_load)


class RotatedDescent:
    """Loss and slope of a `RotatedStructure` at one depth by the equivalent, γ by γ."""

    def __init__(self, task: RotatedStructure, depth: float):
        self.depth = depth
        self.top = float(edge(task))
        narrow = task.width < task.dim
        options = {
            "points": medium.points_for(depth),
            "narrow": narrow,
            "noisy": check_noise(task),
        }
        _refuse_many(task.dim, options["points"])
        m = medium.medium_of(task)
        top, layers = stage(self.top), stage(depth)

        def one(gamma: float) -> tuple[Array, Array]:
            return medium.medium_descent(m, top, task.noise, stage(gamma), layers, **options)

        self.both = one

    def slope(self, gamma: float) -> float:
        """−d𝓛/dγ."""
        return float(self.both(float(gamma))[1])

    def loss(self, gamma: float) -> Float[Array, ""]:
        """𝓛(γ)."""
        return self.both(float(gamma))[0]


def gamma_curve(
    task: Task,
    t: Any,
    depth: Any = 1,
    *,
    start: Init | None = None,
    time: Time = "scalar",
) -> Float[Array, "..."]:
    """γ(t) of gradient flow; see `loss_curve`.

    Returns:
        γ, of shape (t's shape, depth's shape); of `FixedStructure` with a last axis of directions.
    """
    return _curve(task, t, depth, start, time)[0]


def loss_curve(
    task: Task,
    t: Any,
    depth: Any = 1,
    *,
    start: Init | None = None,
    time: Time = "scalar",
) -> Float[Array, "..."]:
    r"""The loss along gradient flow.

    ISO and RRS: ``dγ/dt = −d𝓛/dγ``, solved by the quadrature ``t(γ) = ∫dγ/(−d𝓛/dγ)``. FS with
    endless contexts, from γ = 0: ``𝓛 = Σ_k a_k (1 + 4(1 − 1/L) ω_k λ_k³ t)^(−L/(L−1))``.

    Args:
        task: the context law.
        t: times, of any shape.
        depth: L, one or several; None or infinity for the limit.
        start: γ at t = 0 (0 unless given), or the balanced weights of full attention.
        time: "scalar", or "matrix": that of plain gradient flow of the N × N matrix Γ, N times as
            slow.

    Returns:
        The losses, of shape (t's shape, depth's shape).

    >>> import jax; jax.config.update("jax_enable_x64", True)
    >>> fs = FixedStructure(nu=1.25, beta=1.25, dim=128)
    >>> print(loss_curve(fs, t=[10.0, 1e3], depth=2).round(8))
    [0.17091492 0.04091202]
    """
    return _curve(task, t, depth, start, time)[1]


def _curve(task: Any, t: Any, depth: Any, start: Any, time: Any) -> tuple[Array, Array]:
    check_task(task)
    depths = depths_of(depth)
    begin = Init(gamma=0.0) if start is None else start
    if not isinstance(begin, Init):
        raise ValueError(f"start must be a deep_icl.Init, not {type(begin).__name__}")
    if isinstance(task, FixedStructure):
        return _fixed_curve(task, scalar_times(task, t, time), depths, begin)
    validation.concrete("task, t and start", task, t, start, why="the flow is followed")
    times = np.asarray(scalar_times(task, t, time))
    found = [_scalar_curve(task, times.ravel(), float(d), begin) for d in depths.ravel()]
    shape = (*times.shape, *depths.shape)
    gamma, value = (np.stack([pair[k] for pair in found], axis=-1).reshape(shape) for k in (0, 1))
    return stage(gamma), stage(value)


def _fixed_curve(
    task: FixedStructure, times: Any, depths: np.ndarray, start: Init
) -> tuple[Array, Array]:
    if task.context is not None:
        raise ValueError("context must be None for the flow of a FixedStructure; use train")
    validation.concrete("start", start, why="that it is 0 is looked at")
    if start.gamma is None or bool(np.any(np.asarray(start.gamma) != 0.0)):
        raise ValueError("start must be Init(gamma=0) for the flow of a FixedStructure; use train")
    memory.refuse("t", f"{times.size} times", 64.0 * times.size * depths.size * task.dim)
    places, layers = times.reshape(-1, 1), depths.reshape(1, -1)
    shape = (*times.shape, *depths.shape)
    _, gamma, value = unpacked(
        closed_gamma(task, places, layers), closed_loss(task, places, layers)
    )
    return stage(gamma.reshape((*shape, task.dim))), stage(value.reshape(shape))


def _scalar_curve(
    task: Isotropic | RotatedStructure, times: np.ndarray, depth: float, start: Init
) -> tuple[np.ndarray, np.ndarray]:
    """γ and 𝓛 at the times, at one depth."""
    end = float(np.asarray(_end(task, depth)))
    begin, mobility = _mobility(start)
    if is_population(task):
        s = spectral(task)
        top = float(np.max(np.asarray(s.lam)))

        def descent(gamma: np.ndarray) -> np.ndarray:
            return spectral_descent(s, gamma, depth)

        def value(gamma: np.ndarray) -> np.ndarray:
            return known_losses(s, gamma, np.asarray([depth]))[:, 0]
    else:
        assert isinstance(task, RotatedStructure)
        table = Table(task, depth, end)
        top, descent, value = table.top, table.descent, table.loss
    if not begin < end:
        raise ValueError(
            f"start must be below γ = {end:.6g}, the optimum at depth {depth:g}, not at {begin:.6g}"
        )
    flow = Flow(lambda g: mobility(g) * descent(g), begin, end, 1.0 / top)
    gamma = flow.gamma(times)
    return gamma, value(gamma)


def _end(task: Isotropic | RotatedStructure, depth: float) -> Any:
    return optimum(task, depth).gamma


def _mobility(start: Init) -> tuple[float, Any]:
    """γ at the start, and dγ/dt over −d𝓛/dγ: 1, or (dγ/dw)² of four balanced weights."""
    if start.weights is None:
        assert start.gamma is not None
        validation.shaped("gamma", start.gamma, ())
        return float(start.gamma), lambda gamma: 1.0
    weights = np.asarray(start.weights)
    balanced = weights[1] * np.array([math.sqrt(2.0), 1.0, 1.0, 1.0])
    if not np.allclose(weights, balanced, rtol=1e-12) or weights[1] <= 1e-30:
        raise ValueError(
            "start must have balanced weights (√2 w, w, w, w), w > 1e-30, for the flow; use train"
        )
    # γ = 2w⁵ and dw/dt = −2w⁴ d𝓛/dγ.
    return float(gamma_of(weights)), lambda gamma: 20.0 * (0.5 * gamma) ** 1.6


class Table:
    """Loss and slope of a `RotatedStructure` between γ = 0 and the optimum, interpolated.

    The slope divided by its zero, and the loss, are smooth in log(1 + γ·edge): a Chebyshev series
    of their logarithms.
    """

    def __init__(self, task: RotatedStructure, depth: float, end: float, count: int = 40):
        from numpy.polynomial import chebyshev

        curve = RotatedDescent(task, depth)
        self.top, self.end = curve.top, end
        self.high = math.log1p(end * curve.top)
        nodes = 0.5 * self.high * (1.0 - np.cos(np.pi * (np.arange(count) + 0.5) / count))
        found = [curve.both(float(np.expm1(x) / curve.top)) for x in nodes]
        losses = np.array([float(v) for v, _ in found])
        slopes = np.array([float(v) for _, v in found])
        gamma = np.expm1(nodes) / curve.top
        unit = 2.0 * nodes / self.high - 1.0
        self._loss = chebyshev.Chebyshev.fit(unit, np.log(losses), count - 1, domain=[-1, 1])
        ratio = np.log(slopes / (end - gamma))
        self._slope = chebyshev.Chebyshev.fit(unit, ratio, count - 1, domain=[-1, 1])

    def _unit(self, gamma: np.ndarray) -> np.ndarray:
        return 2.0 * np.log1p(gamma * self.top) / self.high - 1.0

    def loss(self, gamma: np.ndarray) -> np.ndarray:
        """𝓛(γ)."""
        return np.exp(self._loss(self._unit(gamma)))

    def descent(self, gamma: np.ndarray) -> np.ndarray:
        """−d𝓛/dγ."""
        return np.exp(self._slope(self._unit(gamma))) * (self.end - gamma)
