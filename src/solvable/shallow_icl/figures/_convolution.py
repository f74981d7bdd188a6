"""Separate attention of rank 1 as a convolutional net of three linear layers, by its own code."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ...compiling import jit, stage
from .. import SeparateAttention, Sequences


def cubic(data: Sequences) -> tuple[np.ndarray, np.ndarray]:
    """``z = vec(β x_qᵀ)``, columns stacked, (sequences, dim²), and y_q."""
    x, y = np.asarray(data.x), np.asarray(data.y)[..., 0]
    beta = np.einsum("pn,pnd->pd", y[:, :-1], x[:, :-1]) / (x.shape[1] - 1)
    return np.einsum("pe,pd->ped", x[:, -1], beta).reshape(len(x), -1), np.asarray(data.target)[
        :, -1, 0
    ]


def parts_of(draws: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """v, k and q of starts with rank 1, as they are drawn, (starts, heads, …)."""
    dim = draws[0]["value"].shape[-1] - 1
    return {
        "value": np.stack([w["value"][:, dim, dim] for w in draws]),
        "key": np.stack([w["key"][:, 0, :dim] for w in draws]),
        "query": np.stack([w["query"][:, 0, :dim] for w in draws]),
    }


def stacked(weights: dict[str, np.ndarray], z: np.ndarray) -> np.ndarray:
    """``ŷ = Σ_i v_i q_iᵀ K_i z`` with ``K_i = I_D ⊗ k_iᵀ`` written out, dim × dim²."""
    found, dim = np.zeros(len(z)), weights["query"].shape[1]
    for v, k, q in zip(weights["value"], weights["key"], weights["query"], strict=True):
        found += v * (z @ np.kron(np.eye(dim), k[None, :]).T @ q)
    return found


@jit(filtered=True)
def _attend(model: SeparateAttention, tokens: Any, by: Any) -> Any:
    one = lambda model: jax.vmap(lambda x: model(x, by)[-1, -1])(tokens)  # noqa: E731
    return eqx.filter_vmap(one)(model)


def attended(weights: list[dict[str, np.ndarray]], data: Sequences) -> np.ndarray:
    """What whole attention predicts, of every entry of its weights, (starts, sequences)."""
    parts: dict[str, Any] = {
        name: stage(np.stack([each[name] for each in weights])) for name in weights[0]
    }
    by = stage(np.asarray(float(data.task.context)))
    return np.asarray(_attend(SeparateAttention(**parts), stage(np.asarray(data.tokens)), by))


def _predict(weights: dict[str, Any], z: Any) -> Any:
    """A kernel of width D that moves D places at a time, one channel a head; two more layers."""
    kernel = weights["key"][:, None, :]
    stride = (kernel.shape[2],)
    inner = jax.lax.conv_general_dilated(z[:, None, :], kernel, stride, "VALID")  # (P, H, D)
    return jnp.einsum("h,he,phe->p", weights["value"], weights["query"], inner)


@jit(static_argnames=("steps", "every"))
def _descend(weights: Any, z: Any, target: Any, lr: Any, *, steps: int, every: int) -> Any:

    def loss(one: Any) -> Any:
        return jnp.mean((_predict(one, z) - target) ** 2)

    def step(_: Any, now: Any) -> Any:
        slope = jax.vmap(jax.grad(loss))(now)
        return jax.tree.map(lambda w, g: w - lr * g, now, slope)

    def part(now: Any, _: Any) -> Any:
        return jax.lax.fori_loop(0, every, step, now), jax.vmap(loss)(now)

    return jax.lax.scan(part, weights, length=steps // every + 1)[1]


def trained(
    weights: dict[str, np.ndarray],
    z: np.ndarray,
    target: np.ndarray,
    *,
    lr: float,
    steps: int,
    log_every: int,
) -> np.ndarray:
    """Losses of the net from many starts along gradient descent, (starts, points)."""
    parts = {name: stage(each) for name, each in weights.items()}
    how = {"steps": steps, "every": log_every}
    return np.asarray(_descend(parts, stage(z), stage(target), lr, **how)).T
