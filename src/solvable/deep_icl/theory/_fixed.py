"""One covariance for all contexts: closed forms in time, and exact losses of one layer."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..task import FixedStructure


def _progress(task: FixedStructure, t: Float[Array, ""]) -> Float[Array, " dim"]:
    """``4 ω_k λ_k³ t``."""
    return 4.0 * task.share * task.lam**2 * t


@jax.jit
def closed_loss(
    task: FixedStructure, t: Float[Array, ""], depth: Float[Array, ""]
) -> Float[Array, ""]:
    r"""``Σ a_k (1 + 4(1 − 1/L) ω_k λ_k³ t)^(−L/(L−1))``.

    L = 1: ``Σ a_k e^(−4ω_kλ_k³t)``; L = ∞: ``Σ a_k/(1 + 4ω_kλ_k³t)``.
    """
    x, inverse = _progress(task, t), 1.0 / depth
    rest = 1.0 - inverse
    single = rest == 0.0
    safe = jnp.where(single, 0.5, rest)
    # (1 + (1−1/L) x)^(−1/(1−1/L))
    log = jnp.where(single, -x, -jnp.log1p(safe * x) / safe)
    return jnp.sum(task.share * jnp.exp(log))


@jax.jit
def closed_gamma(
    task: FixedStructure, t: Float[Array, ""], depth: Float[Array, ""]
) -> Float[Array, " dim"]:
    r"""``γ_k = (L/λ_k)[1 − (1 + 4(1 − 1/L) ω_k λ_k³ t)^(−1/(2L−2))]``, and its limits."""
    x, inverse = _progress(task, t), 1.0 / depth
    rest = 1.0 - inverse
    single = rest == 0.0
    safe = jnp.where(single, 0.5, rest)
    log = jnp.where(single, -0.5 * x, -0.5 * jnp.log1p(safe * x) / safe)  # L log(1 − γλ/L)
    endless = inverse == 0.0
    layers = jnp.where(endless, 1.0, depth)
    return jnp.where(endless, -log, -layers * jnp.expm1(log / layers)) / task.lam


def single_layer_loss(task: FixedStructure, gamma: Float[Array, " dim"]) -> Float[Array, ""]:
    """``Σ a_k (1 − 2g_k + (1 + 1/P) g_k²) + (Σa + σ²)/P Σ g_k²`` with g = γλ: exact at any D, P."""
    spread = 0.0 if task.context is None else 1.0 / task.context
    g = gamma * task.lam
    own = jnp.sum(task.share * ((1.0 - g) ** 2 + spread * g**2))
    return own + spread * (jnp.sum(task.share) + task.noise**2) * jnp.sum(g**2)


def single_layer_optimum(
    task: FixedStructure,
) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
    """``γ_k = ω_k/((1 + 1/P) ω_k λ_k + (Σa + σ²)/P)`` and ``Σ a_k (1 − γ_k λ_k)``."""
    spread = 0.0 if task.context is None else 1.0 / task.context
    rest = spread * (jnp.sum(task.share) + task.noise**2)
    gamma = task.omega / ((1.0 + spread) * task.share + rest)
    # 1 − γλ, without its cancellation.
    left = (spread * task.share + rest) / ((1.0 + spread) * task.share + rest)
    return gamma, jnp.sum(task.share * left)


def second_order(
    task: FixedStructure, gamma: Float[Array, " dim"], depth: float
) -> Float[Array, ""]:
    """The loss at small γ to second order: exact at any D and P."""
    spread = 0.0 if task.context is None else 1.0 / task.context
    share = 0.0 if depth == float("inf") else 1.0 / depth
    g = gamma * task.lam
    square, total = jnp.sum(g**2), jnp.sum(g)
    # E Λ̂ΛΛ̂ and E ΛΛ̂² of Gaussian tokens.
    around = jnp.sum(task.share * (1.0 + spread) * g**2) + spread * jnp.sum(task.share) * square
    twice = jnp.sum(task.share * ((1.0 + spread) * g**2 + spread * total * g))
    first = jnp.sum(task.share * (1.0 - 2.0 * g))
    return first + around + (1.0 - share) * twice + spread * task.noise**2 * square
