"""Zeros of the gradient in weights: the population loss written out here, and a search for them."""

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from ...compiling import jit
from ...numerics.host import module_of

Kind = Literal["merged", "separate"]


def split(weights: Any, kind: Kind, heads: int, dim: int) -> tuple[Any, ...]:
    """The parts v and U, or v, k and q, of weights in one row each, (…, size)."""
    lead, v, rest = weights.shape[:-1], weights[..., :heads], weights[..., heads:]
    if kind == "merged":
        return v, rest.reshape(*lead, heads, dim, dim)
    k, q = rest[..., : heads * dim], rest[..., heads * dim :]
    return v, k.reshape(*lead, heads, dim), q.reshape(*lead, heads, dim)


def joined(*parts: np.ndarray) -> np.ndarray:
    """The inverse of `split`, of parts (many, heads, …)."""
    return np.concatenate([x.reshape(len(x), -1) for x in parts], axis=1)


def size_of(kind: Kind, heads: int, dim: int) -> int:
    """How many weights there are."""
    return heads * (1 + (dim**2 if kind == "merged" else 2 * dim))


def maps_of(weights: Any, kind: Kind, heads: int, dim: int) -> Any:
    """``M = Σ v_i U_i`` or ``Σ v_i k_i q_iᵀ``, (…, dim, dim)."""
    v, *inner = split(weights, kind, heads, dim)
    form = "...h,...hde->...de" if kind == "merged" else "...h,...hd,...he->...de"
    return module_of(weights).einsum(form, v, *inner)


def losses_of(lam: Any, context: Any, maps: Any) -> Any:
    """``E(y_q − βᵀMx_q)²`` in the eigenbasis: tr Λ − 2tr(MᵀΛ²) + tr(MᵀE[Λ̂²]MΛ)."""
    gram = lam**2 + (lam**2 + jnp.sum(lam) * lam) / context
    twice = jnp.einsum("...dd,d->...", maps, lam**2)
    return jnp.sum(lam) - 2.0 * twice + jnp.einsum("d,e,...de->...", gram, lam, maps**2)


def _loss(weights: Any, lam: Any, context: Any, kind: Kind, heads: int) -> Any:
    return losses_of(lam, context, maps_of(weights, kind, heads, lam.shape[0]))


@jit(static_argnames=("kind", "heads"))
def slopes(weights: Any, lam: Any, context: Any, kind: Kind, heads: int) -> tuple[Any, Any]:
    """L and ∂L/∂W of many weights, by automatic differentiation."""
    one = jax.value_and_grad(lambda w: _loss(w, lam, context, kind, heads))
    return jax.vmap(one)(weights)


@jit(static_argnames=("kind", "heads"))
def curvatures(weights: Any, lam: Any, context: Any, kind: Kind, heads: int) -> tuple[Any, Any]:
    """∂L/∂W and the Hessian of many weights, by automatic differentiation."""
    one = lambda w: _loss(w, lam, context, kind, heads)  # noqa: E731
    return jax.vmap(jax.grad(one))(weights), jax.vmap(jax.hessian(one))(weights)


def zeros(
    starts: np.ndarray, lam: np.ndarray, context: float, kind: Kind, heads: int, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Where the method of Levenberg and Marquardt for ∂L/∂W = 0 ends, and |∂L/∂W| there."""

    def look(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        slope, hessian = map(np.asarray, curvatures(weights, lam, context, kind, heads))
        return slope, hessian, np.linalg.norm(slope, axis=1)

    weights, damping = starts, np.full(len(starts), 0.1)
    slope, hessian, size = look(weights)
    for _ in range(steps):
        normal = hessian @ hessian + damping[:, None, None] * np.eye(weights.shape[1])
        pull = np.einsum("nij,nj->ni", hessian, slope)
        tried = weights - np.linalg.solve(normal, pull[..., None])[..., 0]
        found = look(tried)
        better = found[2] < size
        weights = np.where(better[:, None], tried, weights)
        slope = np.where(better[:, None], found[0], slope)
        hessian = np.where(better[:, None, None], found[1], hessian)
        size = np.where(better, found[2], size)
        damping = np.clip(np.where(better, damping / 3.0, 4.0 * damping), 1e-14, 1e6)
    return weights, size
