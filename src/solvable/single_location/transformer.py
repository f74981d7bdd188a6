r"""A whole one-layer transformer on real tokens: that attention finds the location is no accident.

The paper trains it in Appendix E. Known are its initialisation, its sizes and its optimiser. These
choices are ours, where what is known leaves them open:

- the query is that of a fixed Gaussian [CLS] vector, which is no token itself and is not added to
  what attention gives;
- scores are divided by √p; tokens are attended with softmax;
- the MLP has one hidden layer with ReLU, and a skip around it; there is no skip around attention
  and no normalisation of layers;
- test data are 1000 token matrices, the informative token anywhere.

The published sizes train with or without the skip, with or without [CLS] among the tokens: they
cannot tell these choices apart.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt32

from .. import memory, training, validation
from ..compiling import jit, stage
from .task import Task, Tokens, check_seed, check_task, draw_tokens, refuse_tokens, stream

_TEST = 1000  # token matrices of the test batch


class Transformer(eqx.Module):
    r"""Softmax attention at a [CLS] query, an MLP with a skip around it, and a linear read-out.

    ``a = softmax_ℓ((Qᵀx₀)·(KᵀX_ℓ)/√p)``, ``z = Σ_ℓ a_ℓ VᵀX_ℓ`` and
    ``T(X) = θ·(z + W₂ᵀ relu(W₁ᵀz + b₁) + b₂)``. Only the row of [CLS] is computed: keys are needed
    along one direction, ``KQᵀx₀``, and values for one mean of the tokens.

    Attributes:
        cls_vector: x₀, of [CLS], which is not trained.
        query: Q.
        key: K.
        value: V.
        inner: W₁ and b₁.
        outer: W₂ and b₂.
        readout: θ.

    Reference: Appendix E.
    """

    cls_vector: Float[Array, "*runs dim"]
    query: Float[Array, "*runs dim width"]
    key: Float[Array, "*runs dim width"]
    value: Float[Array, "*runs dim width"]
    inner: tuple[Float[Array, "*runs width hidden"], Float[Array, "*runs hidden"]]
    outer: tuple[Float[Array, "*runs hidden width"], Float[Array, "*runs width"]]
    readout: Float[Array, "*runs width"]

    @classmethod
    def draw(cls, task: Task, key: Key[Array, ""], *, width: int, hidden: int) -> "Transformer":
        """The published initialisation.

        K, V, W₁ and W₂ are Gaussian with variance 2/(rows + columns), θ with variance 1/d²;
        Q and the biases are 0, so that attention starts even.

        Args:
            task: for its dimension.
            key: of the draw.
            width: p, of keys, values and the read-out.
            hidden: m, units of the MLP.
        """
        shapes = [
            (task.dim,),
            (task.dim, width),
            (task.dim, width),
            (width, hidden),
            (hidden, width),
            (width,),
        ]
        ends = np.cumsum([math.prod(shape) for shape in shapes])
        flat = jax.random.normal(key, (int(ends[-1]),), task.gamma.dtype)  # compiled once
        first, *matrices, last = (
            part.reshape(shape)
            for part, shape in zip(jnp.split(flat, ends[:-1]), shapes, strict=True)
        )
        keys, values, inner, outer = (x * math.sqrt(2 / sum(x.shape)) for x in matrices)
        return cls(
            cls_vector=first,
            query=jnp.zeros_like(keys),
            key=keys,
            value=values,
            inner=(inner, jnp.zeros_like(inner[0])),
            outer=(outer, jnp.zeros_like(outer[0])),
            readout=last / task.dim,
        )

    def attention(self, x: Float[Array, "*data length dim"]) -> Float[Array, "*data length"]:
        """How much [CLS] attends to each token."""
        query = jax.lax.stop_gradient(self.cls_vector) @ self.query
        return jax.nn.softmax(x @ (self.key @ query) / math.sqrt(len(query)), axis=-1)

    def __call__(self, x: Float[Array, "*data length dim"]) -> Float[Array, "*data"]:
        """The prediction for one matrix of tokens, or for many."""
        return self.predict(x, self.attention(x))

    def predict(
        self, x: Float[Array, "*data length dim"], weights: Float[Array, "*data length"]
    ) -> Float[Array, "*data"]:
        """The prediction with these weights of the tokens."""
        z = jnp.einsum("...l,...ld->...d", weights, x) @ self.value

        def biased(x: Array, b: Array) -> Array:
            return x + b.reshape((1,) * (x.ndim - 1) + b.shape)

        hidden = jax.nn.relu(biased(z @ self.inner[0], self.inner[1]))
        return (z + biased(hidden @ self.outer[0], self.outer[1])) @ self.readout


class SinglePass(eqx.Module):
    """A transformer's training on fresh tokens at every step."""

    task: Task
    batch: int = eqx.field(static=True)
    seed: UInt32[Array, " words"]  # of a key
    test: Tokens

    def gradient(self, params: Transformer, step: Int[Array, ""]) -> Transformer:
        """That of the mean squared error on this step's tokens."""
        key = jax.random.fold_in(jax.random.wrap_key_data(self.seed), step)
        tokens = draw_tokens(self.task, key, self.batch)
        return jax.grad(lambda model: jnp.mean((model(tokens.x) - tokens.y) ** 2))(params)

    def observe(self, params: Transformer) -> dict[str, Array]:
        """The error on the test batch, and what its informative tokens are attended with."""
        weights = params.attention(self.test.x)
        miss = params.predict(self.test.x, weights) - self.test.y
        found = jnp.take_along_axis(weights, self.test.location[:, None], axis=1)
        return {"loss": jnp.mean(miss**2), "attention": jnp.mean(found)}


@dataclass(frozen=True, repr=False)
class TransformerRun(training.Run):
    """A training run of the transformer.

    Attributes:
        loss: the excess risk on a fixed test batch.
        attention: the weight of the informative token, a mean over that batch.
        state: its first item is the `Transformer` at the last step.
    """

    attention: Float[Array, "*runs points"]


@jit(filtered=True)
def _prepare(
    task: Task, key: Key[Array, ""], batch: int, width: int, hidden: int
) -> tuple[SinglePass, Transformer]:
    """The problem and the start of one run."""
    start, data, test = jax.random.split(key, 3)
    clean = eqx.tree_at(lambda t: t.noise, task, jnp.zeros_like(task.noise))
    test = draw_tokens(clean, test, _TEST)
    problem = SinglePass(task, batch, jax.random.key_data(data), test)
    return problem, Transformer.draw(task, start, width=width, hidden=hidden)


def train_transformer(
    task: Task,
    *,
    width: int | None = None,
    hidden: int = 200,
    lr: Any = 0.01,
    batch: int = 128,
    steps: int = 8000,
    seed: int | Sequence[int] = 0,
    log_every: int | None = None,
    progress: training.Progress | None = None,
    resume: TransformerRun | None = None,
) -> TransformerRun:
    """Train a whole one-layer transformer by single-pass SGD on fresh tokens.

    Args:
        task: the data law.
        width: p, of keys and values; d unless given.
        hidden: m, units of the MLP.
        lr: the step size.
        batch: fresh token matrices at every step.
        steps: how many steps.
        seed: of the start, the data and the test batch; a sequence for runs side by side.
        log_every: steps between two log points; every 400th part of the run unless given.
        progress: called with (step, steps) now and then.
        resume: a run of the same problem to go on from; `steps` counts from its beginning.

    Returns:
        A `TransformerRun`. The labels of its test batch have no noise, so that its loss is the
        excess risk.

    Raises:
        training.Interrupted: at Ctrl-C, with the run so far.

    Reference: Appendix E; for what is open there see this module.

    >>> run = train_transformer(Task(dim=8, length=3), hidden=16, batch=8, steps=10)
    >>> run.loss.shape, round(run.attention[0].item(), 3)
    ((11,), 0.333)
    """
    check_task(task)
    width = task.dim if width is None else validation.whole("width", width, 1)
    hidden = validation.whole("hidden", hidden, 1)
    batch = validation.whole("batch", batch, 1)
    seeds, many = training.seeds_of(seed)
    rate = training.check_rate(lr)
    weights = 3.0 * task.dim * width + 2.0 * width * hidden
    memory.refuse("hidden", hidden, 40.0 * len(seeds) * weights)
    refuse_tokens("batch", batch, task, len(seeds) * (batch + _TEST))
    keys = [jax.random.key(check_seed(s)) for s in seeds]

    def build() -> tuple[Any, Any]:
        return training.SideBySide.of([_prepare(task, k, batch, width, hidden) for k in keys])

    def label(history: training.History, pace: float) -> TransformerRun:
        seen: dict[str, Any] = history.observed
        if not many:
            seen = {name: stage(np.asarray(x)[0]) for name, x in seen.items()}
        return TransformerRun(
            step=history.step, time=pace * history.step, state=history.state, **seen
        )

    origin = {
        "kind": "single_location.train_transformer",
        "task": task,
        "width": width,
        "hidden": hidden,
        "batch": batch,
        "seed": np.array(seeds) if many else seeds[0],
        "draws": stream(),
    }

    def drawn(problem: Any, params: Any) -> dict[str, Any]:
        return {"test": problem.problems.test, "start": dict(enumerate(jax.tree.leaves(params)))}

    begun = training.Training(build, label, origin, drawn, lr=rate)
    return begun.run(steps=steps, log_every=log_every, progress=progress, resume=resume)
