"""What a trained preconditioner does where the covariance has turned since training."""

from typing import Any

import numpy as np
from jaxtyping import Array, Float

from ... import memory, validation
from ...compiling import stage
from ...numerics.host import unpacked
from ..task import FixedStructure, check_task
from ._arguments import depths_of

MAX_LAYERS = 10**4


def turns(dim: int, angle: Any, seed: int) -> Any:
    """``R = e^(θS)``, ``S = (G − Gᵀ)/(2√D)`` with Gaussian G, at every angle θ."""
    xp, angle = unpacked(angle)
    g = np.random.default_rng([seed, 7]).standard_normal((dim, dim))
    skew = (g - g.T) / (2.0 * np.sqrt(dim))
    rates, vectors = np.linalg.eigh(-1j * skew)  # S = i H with H Hermitian
    turned = angle[:, None] * rates[None, :]
    # The real part of V e^(iθ) V*, by real products.
    real, imaginary = np.real(vectors), np.imag(vectors)
    cosine, sine = xp.cos(turned), xp.sin(turned)
    even = _product(xp, real, cosine, real) + _product(xp, imaginary, cosine, imaginary)
    return even + _product(xp, real, sine, imaginary) - _product(xp, imaginary, sine, real)


def _product(xp: Any, left: np.ndarray, middle: Any, right: np.ndarray) -> Any:
    """``Σ_e left_de middle_ae right_fe``."""
    return (left[None] * middle[:, None, :]) @ xp.asarray(right.T)[None]


def _turned(task: FixedStructure, angle: Any, seed: int) -> tuple[Any, Any]:
    check_task(task, FixedStructure)
    if task.context is not None:
        raise ValueError(f"context must be None for the loss after a turn, not {task.context}")
    angles = validation.floating("angle", angle)
    validation.within("angle", angles, -100.0, 100.0)
    memory.refuse("dim", task.dim, 64.0 * (2 + angles.size) * task.dim**2)
    _, rows = unpacked(angles)
    return rows, turns(task.dim, rows.ravel(), validation.whole("seed", seed))


def shifted_loss(
    task: FixedStructure, angle: Any, depth: Any = 1, *, seed: int = 0
) -> Float[Array, "..."]:
    r"""The loss of Γ = LΣ^-1 where covariates and tasks are turned: Σ' = RΣRᵀ, Ω' = RΩRᵀ.

    ``Tr Ω' ((I − Σ^-1Σ')^L)ᵀ Σ' (I − Σ^-1Σ')^L`` with ``R = e^(θS)``, ``S = (G − Gᵀ)/(2√D)``
    (accounts).

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
    if np.isinf(depths).any() or depths.max() > MAX_LAYERS:
        raise ValueError(
            f"depth must be at most {MAX_LAYERS} for the loss after a turn, not {depths.max():g}"
        )
    xp, turn, lam, omega = unpacked(turn, task.lam, task.omega)
    wanted = np.unique(depths).astype(int)
    left = turn * xp.sqrt(omega)[None, None, :]
    found: dict[int, Any] = {}
    beyond = xp.zeros(turn.shape[:1], bool)  # whether it has overflowed
    with np.errstate(over="ignore", invalid="ignore"):
        for layer in range(1, int(wanted[-1]) + 1):
            # Σ' v through vectors: never a power of a matrix.
            seen = turn @ (lam[None, :, None] * (xp.swapaxes(turn, 1, 2) @ left))
            left = left - seen / lam[None, :, None]
            if layer in wanted:
                inside = xp.swapaxes(turn, 1, 2) @ left
                value = xp.sum(lam[None, :] * xp.sum(inside**2, axis=2), axis=1)
                beyond = beyond | ~xp.isfinite(value)
                found[layer] = xp.where(beyond, xp.inf, value)
    values = xp.stack([found[int(d)] for d in depths.ravel()], axis=-1)
    return stage(values.reshape((*angles.shape, *depths.shape)))


def shift_radius(task: FixedStructure, angle: Any, *, seed: int = 0) -> Float[Array, "..."]:
    """The spectral radius of I − Σ^-1Σ': beyond 1 every further layer makes the loss worse.

    ``max |s − 1|`` over the eigenvalues s of Σ^-1Σ' (derived).
    """
    angles, turn = _turned(task, angle, seed)
    xp, turn, lam = unpacked(turn, task.lam)
    root = xp.sqrt(lam)
    # Σ^-½Σ'Σ^-½ has the eigenvalues of Σ^-1Σ', and is symmetric.
    half = (turn * root[None, None, :]) / root[None, :, None]
    values = xp.linalg.eigvalsh(half @ xp.swapaxes(half, 1, 2))
    return stage(xp.max(xp.abs(1.0 - values), axis=1).reshape(angles.shape))
