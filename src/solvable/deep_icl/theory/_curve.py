"""Gradient flow of every task."""

import math
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from ... import memory, validation
from ...compiling import stage
from ...numerics.host import unpacked
from ..run import Time
from ..start import Init, gamma_of
from ..task import FixedStructure, Isotropic, RotatedStructure, Task, check_task
from ._arguments import depths_of, is_population, scalar_times
from ._equivalent import Equivalent, single_layer
from ._fixed import closed_gamma, closed_loss
from ._flow import Flow
from ._optimum import optimum
from ._spectral import known_losses, spectral, spectral_descent


def gamma_curve(
    task: Task,
    t: Any,
    depth: Any = 1,
    *,
    start: Init | None = None,
    time: Time = "scalar",
) -> Float[Array, "..."]:
    """γ(t) of gradient flow, ``dγ/dt = −d𝓛/dγ`` (accounts); see `loss_curve`.

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

    ISO and RRS: ``dγ/dt = −d𝓛/dγ`` (accounts, with the factor 2 that they drop), solved by the
    quadrature ``t(γ) = ∫dγ/(−d𝓛/dγ)``; at width N < D of ``Γ = γ (D/N) Π``. FS with endless
    contexts, from γ = 0: ``𝓛 = Σ_k a_k (1 + 4(1 − 1/L) ω_k λ_k³ t)^(−L/(L−1))`` (derived).

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
    if times.size == 0:
        return stage(np.zeros((*times.shape, *depths.shape))), stage(
            np.zeros((*times.shape, *depths.shape))
        )
    equivalent = None if is_population(task) else Equivalent.of(task)
    found = [
        _scalar_curve(task, equivalent, times.ravel(), float(d), begin) for d in depths.ravel()
    ]
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
    task: Isotropic | RotatedStructure,
    equivalent: Equivalent | None,
    times: np.ndarray,
    depth: float,
    start: Init,
) -> tuple[np.ndarray, np.ndarray]:
    """γ and 𝓛 at the times, at one depth."""
    if math.isinf(depth) and equivalent is not None:
        raise ValueError("depth must be finite for a flow with finite width or context")
    end = float(np.asarray(optimum(task, depth).gamma))
    begin, mobility = _mobility(start)
    if equivalent is None:
        s = spectral(task)
        top = float(np.max(np.asarray(s.lam)))

        def descent(gamma: np.ndarray) -> np.ndarray:
            return spectral_descent(s, gamma, depth)

        def value(gamma: np.ndarray) -> np.ndarray:
            return known_losses(s, gamma, np.asarray([depth]))[:, 0]
    elif depth == 1.0:
        assert isinstance(task, RotatedStructure)
        parabola, top = single_layer(task), float(equivalent.top)

        def descent(gamma: np.ndarray) -> np.ndarray:
            far = parabola.top * (end - gamma)  # to the end: nothing cancels there
            return np.asarray(2.0 * parabola.top * parabola.square * far)

        def value(gamma: np.ndarray) -> np.ndarray:
            return np.asarray(parabola.loss(gamma))
    else:
        top = float(equivalent.top)

        def descent(gamma: np.ndarray) -> np.ndarray:
            return -equivalent.both(gamma, np.full(gamma.shape, depth))[1]

        def value(gamma: np.ndarray) -> np.ndarray:
            return equivalent.both(gamma, np.full(gamma.shape, depth))[0]

    if not np.isfinite(value(np.full(1, begin))).all():
        raise ValueError(f"start must be where the loss is a number, not at γ = {begin:.6g}")
    if not begin < end:
        raise ValueError(
            f"start must be below γ = {end:.6g}, the optimum at depth {depth:g}, not at {begin:.6g}"
        )
    slowest = math.inf
    if isinstance(task, RotatedStructure) and math.isinf(end):
        lam, share = np.asarray(task.spectrum.lam), np.asarray(task.spectrum.share)
        slowest = 1.0 / float(np.min(lam[share > 0.0]))
    flow = Flow(lambda g: mobility(g) * descent(g), begin, end, 1.0 / top, slowest)
    if times.max() > flow.longest:
        raise ValueError(
            f"t must be at most {flow.longest:.3g} at endless depth, not {times.max():.6g}"
        )
    gamma = flow.gamma(times)
    return gamma, value(gamma)


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
