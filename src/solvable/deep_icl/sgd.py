"""SGD of one layer on finite batches: where a few contexts and queries leave their noise."""

import math
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from .. import training, validation
from ..compiling import stage
from .model import mean_of_chunks, split_contexts
from .run import contexts_of
from .task import MAX_CONTEXT, Isotropic, seed_of, told

Place = tuple[Float[Array, "dim dim"], Int[Array, ""]]


@dataclass(frozen=True, repr=False)
class SgdRun(training.Run):
    """A run of `train_sgd`.

    Attributes:
        loss: ``|I − Γ|²/D``, with an infinite context.
        distance: ``|Γ − Γ*|²/D``, to ``Γ* = I/c``, ``c = 1 + (1 + σ²)/α``.
    """

    distance: Float[Array, " points"]


class OneLayerSgd(eqx.Module):
    """One layer's Γ on finite batches of isotropic contexts; a place is (Γ, step)."""

    task: Isotropic
    lr: Float[Array, ""]
    seed: Key[Array, ""]
    queries: int | None = eqx.field(static=True)
    noisy: bool = eqx.field(static=True)
    contexts: int = eqx.field(static=True)
    chunks: int = eqx.field(static=True)

    def _slope(self, gamma: Array, key: Array, count: int) -> Array:
        """``⟨Ω̂(b − Γu)uᵀ⟩`` over some contexts."""
        dim, labelled = gamma.shape[0], self.task.context
        assert labelled is not None
        scale = self.task.noise * math.sqrt(dim)
        # One draw, as each is compiled by itself: tokens with their noise, and the task last.
        normal = jax.random.normal(key, (count, labelled + (self.queries or 0) + 1, dim + 1))
        x, noise, b = normal[:, :-1, :dim], scale * normal[:, :-1, dim], normal[:, -1, :dim]
        seen, asked = x[:, :labelled], x[:, labelled:]
        y = jnp.einsum("cpd,cd->cp", seen, b) + noise[:, :labelled]
        u = jnp.einsum("cpd,cp->cd", seen, y) / labelled
        miss = b - u @ gamma.T
        if self.queries is not None:
            error = jnp.einsum("ckd,cd->ck", asked, miss)
            error = error + noise[:, labelled:] if self.noisy else error
            miss = jnp.einsum("ckd,ck->cd", asked, error) / self.queries
        return miss.T @ u / count

    def advance(self, params: Place, step: Int[Array, ""]) -> Place:
        """``Γ ← Γ + (η/B) Σ_b Ω̂_b (b_b − Γu_b) u_bᵀ``."""
        gamma, now = params
        key = jax.random.fold_in(self.seed, now)
        slope = mean_of_chunks(lambda *at: self._slope(gamma, *at), key, self.contexts, self.chunks)
        return gamma + self.lr * slope, now + 1

    def observe(self, params: Place) -> dict[str, Array]:
        """The two distances."""
        gamma, _ = params
        eye = jnp.eye(gamma.shape[0], dtype=gamma.dtype)
        aim = 1.0 / (1.0 + (1.0 + self.task.noise**2) / self.task.alpha)
        return {
            "loss": jnp.sum((eye - gamma) ** 2) / gamma.shape[0],
            "distance": jnp.sum((gamma - aim * eye) ** 2) / gamma.shape[0],
        }


def train_sgd(
    task: Isotropic,
    *,
    lr: Any,
    steps: int,
    contexts: int,
    queries: int | None = None,
    noisy_queries: bool = False,
    seed: int = 0,
    log_every: int | None = 1,
    progress: training.Progress | None = None,
    resume: SgdRun | None = None,
) -> SgdRun:
    r"""SGD of one layer's Γ from 0 on finite batches of isotropic contexts.

    ``Γ ← Γ + (η/B) Σ_b Ω̂_b (b_b − Γu_b) u_bᵀ`` with ``b ~ N(0, I)``, ``u = Σ̂b + √D σ Xᵀε/P`` and
    Ω̂ the second moment of K queries (accounts). This η has the 2/D of the loss's own gradient
    in it.

    Args:
        task: α, σ and D.
        lr: η.
        steps: how many steps.
        contexts: B, of a step.
        queries: K, of a context; those of the task unless given, and all where it has none.
        noisy_queries: whether the queries' labels have the noise of the context's.
        seed: of the contexts.
        log_every: steps between two log points; None for every 400th part of the run.
        progress: called with (step, steps) now and then.
        resume: a run of the same problem to go on from; `steps` counts from its beginning.

    Raises:
        training.Interrupted: at Ctrl-C, with the run so far.

    >>> run = train_sgd(Isotropic(alpha=1.0, dim=8), lr=0.1, steps=5, contexts=8, queries=16)
    >>> run.loss.shape, run.distance[0].item()
    ((6,), 0.25)
    """
    if not isinstance(task, Isotropic):
        raise ValueError(f"task must be a deep_icl.Isotropic, not {type(task).__name__}")
    if task.dim is None or task.context is None:
        raise ValueError("dim must be given to draw contexts: Isotropic(alpha, dim=…)")
    if queries is None:
        queries = task.queries
    else:
        queries = validation.whole("queries", queries, 1, MAX_CONTEXT)
    if not isinstance(noisy_queries, bool):
        raise ValueError(f"noisy_queries must be true or false, not {noisy_queries!r}")
    rate = training.check_rate(lr)
    if noisy_queries and queries is None:
        raise ValueError("queries must be given for noisy_queries: the mean over all has no noise")
    count = contexts_of(contexts)
    seed = seed_of(seed)
    dim = task.dim
    chunks = split_contexts(count, (task.context + (queries or 0)) * dim)

    def build() -> tuple[OneLayerSgd, Place]:
        problem = OneLayerSgd(
            task=task,
            lr=rate,
            seed=jax.random.key(seed),
            queries=queries,
            noisy=noisy_queries,
            contexts=count,
            chunks=chunks,
        )
        return problem, (stage(np.zeros((dim, dim))), stage(0))

    origin = {
        "kind": "deep_icl.train_sgd",
        "task": told(task),
        "contexts": count,
        "queries": queries,
        "noisy_queries": noisy_queries,
        "seed": seed,
        "chunks": chunks,
    }
    begun = training.Training(
        build, lambda history, _: SgdRun.of(history, float(rate)), origin, lr=rate
    )
    return begun.run(steps=steps, log_every=log_every, progress=progress, resume=resume)
