"""Layers with weights of their own: one γ for each layer."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize

from ... import validation
from ..run import MAX_DEPTH
from ..task import FixedStructure, Task, check_task
from ._arguments import is_population
from ._loss import Optimum, optimum
from ._spectral import Spectral, spectral


@jax.jit
def product_loss(s: Spectral, gamma: Float[Array, " layers"]) -> Float[Array, ""]:
    """``c + Σ a_k Π_ℓ (1 − γ_ℓ λ_k/L)² + n_k (1 − Π_ℓ (1 − γ_ℓ λ_k/L))²``."""
    left = jnp.prod(1.0 - gamma[:, None] * s.lam[None, :] / gamma.shape[0], axis=0)
    return s.floor + jnp.sum(s.share * left**2) + jnp.sum(s.noise * (1.0 - left) ** 2)


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
    if rows.ndim == 0:
        raise ValueError("gamma must have one number for each layer, not a single number")
    flat = rows.reshape(-1, rows.shape[-1])
    return jax.vmap(lambda g: product_loss(s, g))(flat).reshape(rows.shape[:-1])


def untied_optimum(task: Task, depth: int) -> Optimum:
    """The best γ for each layer: spread out like the inverse zeros of a Chebyshev polynomial.

    The tied optimum is a saddle of this loss; the search starts beside it and from Chebyshev's
    steps, and the better end is taken.
    """
    s = _spectrum(task)
    validation.needs_double("an optimum")
    layers = validation.whole("depth", depth, 1, min(MAX_DEPTH, 1000))
    both = jax.jit(jax.value_and_grad(lambda g: jnp.log(product_loss(s, g))))
    top = float(jnp.max(s.lam))
    tied = float(optimum(task, layers).gamma) * np.ones(layers)
    places = np.cos(np.pi * (np.arange(layers) + 0.5) / layers)
    starts = [tied * (1.0 + 0.3 * places)]
    # Chebyshev's steps on [low, top]: the inverse zeros of its polynomial there.
    for low in 10.0 ** -np.arange(0.5, 4.0, 0.5):
        zeros = 0.5 * top * ((1.0 + low) + (1.0 - low) * places)
        starts.append(layers / zeros)
    best = min(
        (
            minimize(
                lambda x: [np.asarray(y, float) for y in both(jnp.asarray(x))],
                start,
                jac=True,
                method="BFGS",
                options={"gtol": 1e-9, "maxiter": 500},
            )
            for start in starts
        ),
        key=lambda found: float(found.fun),
    )
    return Optimum(jnp.asarray(np.sort(best.x)), jnp.asarray(np.exp(best.fun)))
