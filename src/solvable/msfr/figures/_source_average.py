"""Linear attention on Gaussian features with a falling spectrum, averaged over tokens exactly.

Features of task s are ``N(0, Σ_s)``, ``Σ_s = diag ω^s``, and targets ``Λ_s·φ`` (App. H.1). In units
in which v and w are √ψ as large and time 1/ψ, the loss depends on the context's length through
ε = 1/ψ alone, and has a limit at ε = 0.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...compiling import jit, stage
from ...numerics.ode import solve_at

Params = tuple[Float[Any, "tasks features"], Float[Any, "features tasks"]]


class SourceTask(eqx.Module):
    """Multitask in-context regression under the source/capacity condition, for linear attention.

    Attributes:
        weights: p_s.
        strengths: Λ_s, a row a task.
        spectra: ω^s, a row a task.
        epsilon: 1/ψ.
    """

    weights: Float[Array, " tasks"]
    strengths: Float[Array, "tasks tasks"]
    spectra: Float[Array, "tasks tasks"]
    epsilon: Float[Array, ""]

    def loss(self, params: Params) -> Float[Array, ""]:
        """``½ Σ_s p_s E(f − ŷ)²``, over all contexts and queries.

        With ``B = [I; Λᵀ]``, ``a = Bᵀv_s``, ``C = BᵀW``, ``x = CᵀΣa``, and a query φ̂ whose own
        token adds ``(v·φ̂)(φ̂ᵀWφ̂)``: ``(x − Λ)ᵀΣ(x − Λ)``, the variance of the context's second
        moments ``ε[xᵀΣx + aᵀΣa tr(CᵀΣCΣ)]``, and fourth and sixth moments of φ̂.
        """
        value, query = params

        def one(v: Array, lam: Array, omega: Array) -> Array:
            a, c = v[:-1] + lam * v[-1], query[:-1] + lam[:, None] * query[-1][None, :]
            x = c.T @ (omega * a)
            spread = jnp.sum(omega * x * x)
            crossed = jnp.sum(omega[:, None] * c * c * omega[None, :])
            spread += jnp.sum(omega * a * a) * crossed
            half = jnp.sqrt(omega)
            own, left = half * v[:-1], half * (x - lam)
            form = half[:, None] * query[:-1] * half[None, :]
            form = 0.5 * (form + form.T)
            trace, turned = jnp.trace(form), form @ own
            fourth = (left @ own) * trace + 2.0 * left @ turned
            sixth = (own @ own) * (trace**2 + 2.0 * jnp.sum(form * form))
            sixth += 4.0 * trace * (own @ turned) + 8.0 * turned @ turned
            eps = self.epsilon
            return left @ left + eps * (spread + 2.0 * fourth) + eps**2 * sixth

        return 0.5 * self.weights @ jax.vmap(one)(value, self.strengths, self.spectra)


def _downhill(_: Array, params: Params, task: SourceTask) -> Params:
    return jax.tree.map(jnp.negative, jax.grad(task.loss)(params))


@jit
def _losses(task: SourceTask, params: Params, t: Array) -> Float[Array, " times"]:
    path = solve_at(_downhill, params, t, task, rtol=1e-11)
    return jax.vmap(task.loss)(path)


def spectra(count: int, decay: float) -> np.ndarray:
    """ω^s of every task: ``ω_k = k^-τ``, ω_1 = 1 at entry s, then on in a circle (110)."""
    place = np.arange(count)
    rank = (place[None, :] - place[:, None]) % count + 1
    return np.where(rank == 1, 1.0, 0.0) if np.isinf(decay) else rank**-decay


def flow_losses(
    weights: Any, strengths: Any, decay: float, context: float, start: Params, t: Any
) -> np.ndarray:
    """L(t) of gradient flow in all entries of V and W, by an ODE solver.

    Args:
        weights: p_s.
        strengths: Λ_s, a row a task.
        decay: τ, or infinity.
        context: ψ, or infinity.
        start: V and W, √ψ as large.
        t: increasing times from 0 on, ψ as large.
    """
    found = spectra(len(weights), decay)
    task = SourceTask(stage(weights), stage(strengths), stage(found), stage(1.0 / context))
    return np.asarray(_losses(task, jax.tree.map(stage, start), stage(np.asarray(t))))


@jit
def _loss(task: SourceTask, params: Params) -> Float[Array, ""]:
    return task.loss(params)


def average_loss(
    weights: Any, strengths: Any, decay: float, context: float, params: Params
) -> float:
    """L of V and W themselves, whose entries are as they are."""
    root = np.sqrt(context)
    found = spectra(len(weights), decay)
    task = SourceTask(stage(weights), stage(strengths), stage(found), stage(1.0 / context))
    return float(_loss(task, jax.tree.map(lambda x: stage(root * x), params)))
