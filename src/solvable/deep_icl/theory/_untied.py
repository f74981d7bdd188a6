"""Layers with weights of their own: one γ for each layer."""

from typing import Any

import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize

from ... import memory, validation
from ...compiling import stage
from ...numerics.host import unpacked
from ..directions import compiled_if_traced
from ..run import MAX_DEPTH
from ..task import FixedStructure, Task, check_task
from ._arguments import is_population
from ._loss import Optimum, optimum
from ._spectral import Spectral, spectral


@compiled_if_traced
def product_loss(s: Spectral, gamma: Any) -> Any:
    """``c + Σ a_k Π_ℓ (1 − γ_ℓ λ_k/L)² + n_k (1 − Π_ℓ (1 − γ_ℓ λ_k/L))²``; layers stand last."""
    xp, gamma, lam, share, noise, floor = unpacked(gamma, *s)
    row = (1,) * (gamma.ndim - 1)
    left = xp.prod(1.0 - gamma[..., None] * lam.reshape(*row, 1, -1) / gamma.shape[-1], axis=-2)
    share, noise = share.reshape(*row, -1), noise.reshape(*row, -1)
    return floor + xp.sum(share * left**2 + noise * (1.0 - left) ** 2, axis=-1)


def _spectrum(task: Any) -> Spectral:
    check_task(task)
    if isinstance(task, FixedStructure) or not is_population(task):
        raise ValueError(
            "task must be Isotropic, or a RotatedStructure with endless contexts at full width, "
            "for untied layers"
        )
    return spectral(task)


def untied_loss(task: Task, gamma: Any) -> Float[Array, "..."]:
    r"""The loss of untied layers, ``Σ_k a_k Π_ℓ (1 − γ_ℓ λ_k/L)²`` without noise.

    Args:
        task: Isotropic, or a RotatedStructure with endless contexts at full width.
        gamma: one γ for each layer, on the last axis.
    """
    s = _spectrum(task)
    rows = validation.floating("gamma", gamma)
    if rows.ndim == 0 or rows.shape[-1] == 0:
        raise ValueError(
            f"gamma must have one number for each layer, on its last axis, not shape {rows.shape}"
        )
    validation.within("gamma", rows, -1e150, 1e150)
    memory.refuse("gamma", f"{rows.size} numbers", 24.0 * rows.size * s.lam.size)
    with np.errstate(over="ignore"):
        return stage(product_loss(s, rows))


def untied_optimum(task: Task, depth: int) -> Optimum:
    """The best γ for each layer: spread out like the inverse zeros of a Chebyshev polynomial.

    The tied optimum is a saddle of this loss; the search starts beside it and from Chebyshev's
    steps, and the better end is taken.
    """
    s = _spectrum(task)
    validation.concrete("task", task, why="the best γ of every layer is searched for")
    layers = validation.whole("depth", depth, 1, min(MAX_DEPTH, 1000))
    memory.refuse("depth", layers, 64.0 * layers * s.lam.size)
    top = float(np.max(np.asarray(s.lam)))
    tied = float(optimum(task, layers).gamma) * np.ones(layers)
    places = np.cos(np.pi * (np.arange(layers) + 0.5) / layers)
    starts = [tied * (1.0 + 0.3 * places)]
    # Chebyshev's steps on [low, top]: the inverse zeros of its polynomial there.
    for low in 10.0 ** -np.arange(0.5, 4.0, 0.5):
        zeros = 0.5 * top * ((1.0 + low) + (1.0 - low) * places)
        starts.append(layers / zeros)
    options = {"gtol": 1e-9, "maxiter": 500}
    best = min(
        (
            minimize(_log_product, start, args=(s,), jac=True, method="BFGS", options=options)
            for start in starts
        ),
        key=lambda found: float(found.fun),
    )
    return Optimum(stage(np.sort(best.x)), stage(np.exp(best.fun)))


def _log_product(gamma: np.ndarray, s: Spectral) -> tuple[float, np.ndarray]:
    """The logarithm of 𝓛 of untied layers, and its slopes."""
    lam, share, noise, floor = (np.asarray(x) for x in s)
    rate = lam[None, :] / gamma.size
    with np.errstate(over="ignore", invalid="ignore"):
        factor = 1.0 - gamma[:, None] * rate
        ones = np.ones((1, lam.size))
        before = np.cumprod(np.concatenate([ones, factor[:-1]]), axis=0)
        after = np.cumprod(np.concatenate([ones, factor[:0:-1]]), axis=0)[::-1]
        left = before[-1] * factor[-1]
        loss = floor + np.sum(share * left**2 + noise * (1.0 - left) ** 2)
        pull = 2.0 * (share * left - noise * (1.0 - left))
        slope = -np.sum(pull[None, :] * before * after * rate, axis=1)
        return float(np.log(loss)), slope / loss
