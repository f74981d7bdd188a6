"""What a trained preconditioner does where the covariance has turned since training."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ..task import FixedStructure, check_task
from ._arguments import depths_of


def turns(dim: int, angle: np.ndarray, seed: int) -> np.ndarray:
    """``R = e^(θS)``, ``S = (G − Gᵀ)/(2√D)`` with Gaussian G, at every angle θ."""
    g = np.random.default_rng([seed, 7]).standard_normal((dim, dim))
    skew = (g - g.T) / (2.0 * np.sqrt(dim))
    rates, vectors = np.linalg.eigh(-1j * skew)  # S = i H with H Hermitian
    phases = np.exp(1j * angle[:, None] * rates[None, :])
    return np.einsum("de,ae,fe->adf", vectors, phases, vectors.conj()).real


def _turned(task: FixedStructure, angle: Any, seed: int) -> tuple[np.ndarray, np.ndarray]:
    check_task(task, FixedStructure)
    validation.needs_double("the loss after a turn")
    angles = validation.floating("angle", angle)
    validation.within("angle", angles, -100.0, 100.0)
    values = np.asarray(angles)
    return values, turns(task.dim, values.ravel(), validation.whole("seed", seed))


def shifted_loss(
    task: FixedStructure, angle: Any, depth: Any = 1, *, seed: int = 0
) -> Float[Array, "..."]:
    r"""The loss of Γ = LΣ^-1 where covariates and tasks are turned: Σ' = RΣRᵀ, Ω' = RΩRᵀ.

    ``Tr Ω' ((I − Σ^-1Σ')^L)ᵀ Σ' (I − Σ^-1Σ')^L`` with ``R = e^(θS)``, ``S = (G − Gᵀ)/(2√D)``.

    Args:
        task: the law that Γ was trained on, with endless contexts.
        angle: θ, of any shape.
        depth: L, one or several.
        seed: of the Gaussian matrix G.

    Returns:
        The losses, of shape (angle's shape, depth's shape).

    >>> import jax; jax.config.update("jax_enable_x64", True)
    >>> shifted_loss(FixedStructure(nu=1.25, beta=1.25, dim=16), 0.0, depth=2).item() < 1e-25
    True
    """
    angles, turn = _turned(task, angle, seed)
    depths = depths_of(depth)
    if np.isinf(depths).any():
        raise ValueError("depth must be finite for the loss after a turn")
    lam, omega = np.asarray(task.lam), np.asarray(task.omega)
    wanted = np.unique(depths).astype(int)
    left = turn * np.sqrt(omega)[None, None, :]
    found: dict[int, np.ndarray] = {}
    with np.errstate(over="ignore", invalid="ignore"):
        for layer in range(1, int(wanted[-1]) + 1):
            # Σ' v through vectors: never a power of a matrix.
            seen = turn @ (lam[None, :, None] * (np.swapaxes(turn, 1, 2) @ left))
            left = left - seen / lam[None, :, None]
            if layer in wanted:
                inside = np.swapaxes(turn, 1, 2) @ left
                found[layer] = np.einsum("d,ade->a", lam, inside**2)
    values = np.stack([found[int(d)] for d in depths.ravel()], axis=-1)
    return jnp.asarray(values.reshape((*angles.shape, *depths.shape)))


def shift_radius(task: FixedStructure, angle: Any, *, seed: int = 0) -> Float[Array, "..."]:
    """The spectral radius of I − Σ^-1Σ': beyond 1 every further layer makes the loss worse."""
    angles, turn = _turned(task, angle, seed)
    root = np.sqrt(np.asarray(task.lam))
    # Σ^-½Σ'Σ^-½ has the eigenvalues of Σ^-1Σ', and is symmetric.
    half = (turn * root[None, None, :]) / root[None, :, None]
    values = np.linalg.eigvalsh(half @ np.swapaxes(half, 1, 2))
    return jnp.asarray(np.max(np.abs(1.0 - values), axis=1).reshape(angles.shape))
