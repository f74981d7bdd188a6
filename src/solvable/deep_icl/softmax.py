r"""Softmax attention with depth on real contexts: no theory, but what depth does can be seen.

Known are the scores k·q/N, the residual 1/L, the optional GELU MLP, AdamW, and a learning rate that
does not depend on depth and is divided by the number of heads. These choices are ours, where what
is known leaves them open:

- every layer has its own weights; each head has keys and values of the full width N, and what the
  heads give is summed;
- context and queries attend to the context only, with no mask besides and no signs;
- the MLP has one hidden layer of N units and follows attention in every layer, with its own
  residual 1/L; there are no biases and no normalisation of layers;
- matrices start Gaussian with variance 1/N, w_y and w_o with variance 1, and W_x with one over the
  tokens' mean square length, so that the stream starts of order one; the read-out is w_o·h/N;
- AdamW is optax's, with its own weight decay of 1e-4; all weights have the same rate;
- the loss is logged on fixed contexts, as many as in a step.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key

from .. import memory, training, validation
from ..compiling import jit
from .model import labelled_queries, mean_of_chunks, split_contexts, token_loss
from .run import MAX_DEPTH, contexts_of
from .task import Contexts, Isotropic, Task, check_task, draw, is_silent, seed_of, told

_MOST_UNITS = 10**6


class SoftmaxAttention(eqx.Module):
    r"""Softmax attention with a residual stream.

    ``h_μ = W_x x_μ + w_y y_μ``, then in each layer
    ``h_μ ← h_μ + (1/L) Σ_heads Σ_{ν≤P} softmax_ν(k_ν·q_μ/N) v_ν`` and, with an MLP,
    ``h_μ ← h_μ + (1/L) W₂ gelu(W₁ h_μ)``; the prediction is ``w_o·h_μ/N``.

    Attributes:
        read: W_x.
        label: w_y.
        query, key, value: of every layer and head.
        mlp: W₁ and W₂ of every layer, or None.
        out: w_o.
    """

    read: Float[Array, "hidden dim"]
    label: Float[Array, " hidden"]
    query: Float[Array, "layers heads hidden hidden"]
    key: Float[Array, "layers heads hidden hidden"]
    value: Float[Array, "layers heads hidden hidden"]
    mlp: tuple[Float[Array, "layers hidden hidden"], Float[Array, "layers hidden hidden"]] | None
    out: Float[Array, " hidden"]

    @classmethod
    def draw(
        cls, task: Task, key: Key[Array, ""], *, depth: int, hidden: int, heads: int, mlp: bool
    ) -> "SoftmaxAttention":
        """The start.

        Args:
            task: for the dimension and the length of its tokens.
            key: of the draw.
            depth: L.
            hidden: N.
            heads: how many in each layer.
            mlp: whether each layer has an MLP.
        """
        assert task.dim is not None
        square = float(task.dim) if isinstance(task, Isotropic) else jnp.sum(task.lam)
        matrix, plain = (depth, heads, hidden, hidden), (depth, hidden, hidden)
        shapes = [(hidden, task.dim), (hidden,), (hidden,), *[matrix] * 3, *[plain] * (2 * mlp)]
        ends = np.cumsum([math.prod(shape) for shape in shapes])
        flat = jax.random.normal(key, (int(ends[-1]),))  # compiled once
        parts = zip(jnp.split(flat, ends[:-1]), shapes, strict=True)
        read, label, out, *rest = (part.reshape(shape) for part, shape in parts)
        query, keyed, value, *both = (part / math.sqrt(hidden) for part in rest)
        return cls(
            read=read / square**0.5,
            label=label,
            query=query,
            key=keyed,
            value=value,
            mlp=(both[0], both[1]) if mlp else None,
            out=out,
        )

    def __call__(
        self, x: Float[Array, "tokens dim"], y: Float[Array, " labelled"]
    ) -> Float[Array, " asked"]:
        """The predictions at the queries, which are the tokens beyond those with a label."""
        labelled, depth, hidden = y.shape[0], self.query.shape[0], self.label.shape[0]
        h = x @ self.read.T
        h = h.at[:labelled].add(y[:, None] * self.label[None, :])

        def layer(h: Array, weights: Any) -> tuple[Array, None]:
            (query, key, value), mlp = weights
            seen = h[:labelled]
            q = jnp.einsum("aij,tj->ati", query, h)
            k, v = (jnp.einsum("aij,tj->ati", matrix, seen) for matrix in (key, value))
            chance = jax.nn.softmax(jnp.einsum("ati,asi->ats", q, k) / hidden, axis=-1)
            h = h + jnp.einsum("ats,asi->ti", chance, v) / depth
            if mlp is not None:
                inner, outer = mlp
                h = h + jax.nn.gelu(h @ inner.T) @ outer.T / depth
            return h, None

        h, _ = jax.lax.scan(layer, h, ((self.query, self.key, self.value), self.mlp))
        return h[labelled:] @ self.out / hidden


class SoftmaxDescent(eqx.Module):
    """Its training on fresh contexts."""

    task: Task
    seed: Key[Array, ""]
    test: Contexts
    contexts: int = eqx.field(static=True)
    chunks: int = eqx.field(static=True)
    silent: bool = eqx.field(static=True)

    def gradient(self, params: SoftmaxAttention, step: Int[Array, ""]) -> SoftmaxAttention:
        """That of the loss on this step's contexts."""
        length = self.test.y.shape[1] - (self.task.queries or 0)

        def look(key: Array, count: int) -> SoftmaxAttention:
            data = draw(self.task, key, count, self.silent)
            return jax.grad(lambda model: token_loss(model, data, length))(params)

        return mean_of_chunks(look, jax.random.fold_in(self.seed, step), self.contexts, self.chunks)

    def observe(self, params: SoftmaxAttention) -> dict[str, Array]:
        """The loss on the fixed contexts."""
        length = self.test.y.shape[1] - (self.task.queries or 0)
        return {"loss": token_loss(params, self.test, length)}


@jit(filtered=True)
def _prepare(
    task: Task, seed: Key[Array, ""], contexts: int, chunks: int, silent: bool, **sizes: Any
) -> tuple[SoftmaxDescent, SoftmaxAttention]:
    start, data, test = jax.random.split(seed, 3)
    fixed = draw(task, test, contexts, silent)
    problem = SoftmaxDescent(task, data, fixed, contexts, chunks, silent)
    return problem, SoftmaxAttention.draw(task, start, **sizes)


def train_softmax(
    task: Task,
    *,
    depth: int,
    hidden: int = 128,
    heads: int = 1,
    mlp: bool = False,
    lr: Any = 1e-3,
    steps: int = 1000,
    contexts: int = 64,
    seed: int = 0,
    log_every: int | None = None,
    progress: training.Progress | None = None,
    resume: training.Run | None = None,
) -> training.Run:
    """Train softmax attention with AdamW on fresh contexts at every step.

    Descends ``⟨(f − y)²⟩`` of `SoftmaxAttention` at the queries (accounts; choices of ours are told
    at the head of this module).

    Args:
        task: the law of contexts, with a finite context and `queries`.
        depth: L.
        hidden: N, of the residual stream.
        heads: in each layer.
        mlp: whether each layer has an MLP.
        lr: AdamW's learning rate, for any depth; it is divided by `heads`.
        steps: how many steps.
        contexts: B, fresh contexts at every step.
        seed: of the start, the contexts and the fixed contexts.
        log_every: steps between two log points; every 400th part of the run unless given.
        progress: called with (step, steps) now and then.
        resume: a run of the same problem to go on from; `steps` counts from its beginning.

    Returns:
        A run whose loss is that on fixed contexts; the first item of its state is the model.

    Raises:
        training.Interrupted: at Ctrl-C, with the run so far.

    >>> from .task import FixedStructure
    >>> task = FixedStructure(nu=1.5, beta=1.75, dim=4, context=8, queries=2)
    >>> train_softmax(task, depth=2, hidden=8, steps=3, contexts=4).loss.shape
    (4,)
    """
    check_task(task)
    dim, labelled, asked = labelled_queries(task)
    depth = validation.whole("depth", depth, 1, MAX_DEPTH)
    hidden = validation.whole("hidden", hidden, 1, _MOST_UNITS)
    heads = validation.whole("heads", heads, 1, _MOST_UNITS)
    count = contexts_of(contexts)
    seed = seed_of(seed)
    if not isinstance(mlp, bool):
        raise ValueError(f"mlp must be true or false, not {mlp!r}")
    rate = training.check_rate(lr)
    parameters = depth * hidden**2 * (3 * heads + 2 * mlp) + hidden * (dim + 2)
    memory.refuse("hidden", hidden, 32.0 * parameters)  # with their gradient and AdamW's moments
    tokens = labelled + asked
    size = tokens * (dim + depth * (heads * (labelled + 3 * hidden) + 2 * hidden))
    sizes = {"depth": depth, "hidden": hidden, "heads": heads, "mlp": mlp}
    chunks = split_contexts(count, size)

    def build() -> tuple[SoftmaxDescent, SoftmaxAttention]:
        return _prepare(task, jax.random.key(seed), count, chunks, is_silent(task), **sizes)

    origin = {
        "kind": "deep_icl.train_softmax, AdamW",
        "task": told(task),
        **sizes,
        "rate": rate,
        "contexts": count,
        "seed": seed,
        "chunks": chunks,
    }
    adamw = optax.adamw(float(rate) / heads)
    begun = training.Training(build, training.Run.of, origin, optimizer=adamw)
    return begun.run(steps=steps, log_every=log_every, progress=progress, resume=resume)
