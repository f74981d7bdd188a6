"""Attention on real tokens, trained by brute force: the oracle of the reductions."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key

from .. import training, validation
from . import task as tasks
from .reduced import draw_batch, sign_weights
from .run import Request, Run
from .start import Init, SoftmaxInit
from .task import Task, Tokens

_PIECE = 32  # token matrices evaluated at once when all tasks are looked at


class LinearAttention(eqx.Module):
    """Linear self-attention with merged key and query: ``f(Φ) = V Φ Φᵀ W φ̂`` (5).

    Attributes:
        value: V, (tasks, tasks + 1); row s is v_s.
        key_query: W, (tasks + 1, tasks); column s is w_s.
    """

    value: Float[Array, "tasks features"]
    key_query: Float[Array, "features tasks"]

    @classmethod
    def start(cls, task: Task, init: Init) -> "LinearAttention":
        """The model whose entries on coordinates (s, S+1) are those of `init`, the others 0."""
        v, w = init.columns(task)
        s = jnp.arange(task.num_tasks)
        empty = jnp.zeros((task.num_tasks, task.num_tasks + 1), v.dtype)
        rows = [empty.at[s, s].set(x[:, 0]).at[:, -1].set(x[:, 1]) for x in (v, w)]
        return cls(rows[0], rows[1].T)

    def __call__(
        self, phi: Float[Array, "features columns"], present: Float[Array, " columns"]
    ) -> Float[Array, " tasks"]:
        """The prediction for the query in the last column, one entry a task."""
        query = self.key_query @ phi[:-1, -1]
        return self.value @ (phi @ (phi.T @ query))


class SoftmaxAttention(eqx.Module):
    """Softmax self-attention: ``f(Φ) = V Φ softmax(Φᵀ W_Kᵀ W_Q Φ)``, last column (App. I.1).

    Attributes:
        value: V, (tasks, tasks + 1).
        key: W_K, (width, tasks + 1).
        query: W_Q, (width, tasks + 1).
    """

    value: Float[Array, "tasks features"]
    key: Float[Array, "width features"]
    query: Float[Array, "width features"]

    @classmethod
    def start(cls, task: Task, init: SoftmaxInit) -> "SoftmaxAttention":
        """The model at `init`; entries of V off the coordinates (s, S+1) are 0."""
        width, s = init.width_for(task), jnp.arange(task.num_tasks)
        entries = init.values(task)
        value = jnp.zeros((task.num_tasks, task.num_tasks + 1), entries.dtype)
        value = value.at[s, s].set(entries[:, 0]).at[:, -1].set(entries[:, 1])
        return cls(value, init.keys(task, width), init.queries(task, width))

    def __call__(
        self, phi: Float[Array, "features columns"], present: Float[Array, " columns"]
    ) -> Float[Array, " tasks"]:
        """The prediction for the query in the last column, one entry a task."""
        # From the query on, so that no matrix is multiplied with all of Φ.
        logits = phi.T @ (self.key.T @ (self.query @ phi[:, -1]))
        attention = jax.nn.softmax(jnp.where(present > 0.0, logits, -jnp.inf))
        return self.value @ (phi @ attention)


Attention = LinearAttention | SoftmaxAttention


def predict_tokens(model: Attention, tokens: Tokens) -> Float[Array, " data"]:
    """``[f(Φ)]_s`` for every datum, s its task."""
    outputs = jax.vmap(model)(tokens.phi, tokens.present)
    return jnp.take_along_axis(outputs, tokens.task[:, None], axis=1)[:, 0]


def half_squares(model: Attention, tokens: Tokens) -> Float[Array, " data"]:
    """``½ (f − ŷ)²`` of every datum."""
    return 0.5 * (predict_tokens(model, tokens) - tokens.label) ** 2


class DataProblem(eqx.Module):
    """Training on a fixed data set; the loss of tasks that are not learned is a constant."""

    data: Tokens
    weight: Float[Array, " data"]  # 1/N, or 0 where the task is not learned
    rest: Float[Array, ""]  # what those tasks add to the loss

    def _loss(self, model: Attention) -> Float[Array, ""]:
        """``½ mean (f − ŷ)²`` (6)."""
        return jnp.sum(self.weight * half_squares(model, self.data)) + self.rest

    def gradient(self, params: Attention, step: Int[Array, ""]) -> Attention:
        """By automatic differentiation through the attention block."""
        return jax.grad(self._loss)(params)

    def observe(self, params: Attention) -> dict[str, Array]:
        """The loss on the whole data set."""
        return {"loss": self._loss(params)}


class TokenProblem(eqx.Module):
    """Training on tokens. Tasks that are not learned keep the predictions of the start."""

    context: Float[Array, " tasks"]
    strength: Float[Array, " tasks"]
    weights: Float[Array, " tasks"]
    learned: Bool[Array, " tasks"]
    start: Attention
    data: Tokens | None
    key: Key[Array, ""] | None
    batch: int | None = eqx.field(static=True)
    longest: int = eqx.field(static=True)

    def _predict(self, model: Attention, tokens: Tokens) -> Float[Array, " data"]:
        frozen = jax.lax.stop_gradient(predict_tokens(self.start, tokens))
        return jnp.where(self.learned[tokens.task], predict_tokens(model, tokens), frozen)

    def _loss(self, model: Attention, tokens: Tokens) -> Float[Array, ""]:
        """``½ mean (f − ŷ)²`` (6)."""
        return 0.5 * jnp.mean((self._predict(model, tokens) - tokens.label) ** 2)

    def gradient(self, params: Attention, step: Int[Array, ""]) -> Attention:
        """By automatic differentiation through the attention block."""
        tokens = self.data
        if self.batch is not None and self.key is not None:
            index, signs = draw_batch(self.weights, self.key, step, self.batch, self.longest)
            tokens = tasks.build_tokens(self.context, self.strength, index, signs)
        return jax.grad(self._loss)(params, tokens)

    def _one_of_each(self, model: Attention) -> tuple[Array, Array]:
        """Predictions times ε̂, and their weights, on tokens with every number of equal signs."""
        size = self.weights.shape[0]
        if isinstance(model, LinearAttention):  # which does not see the signs
            equal, chance = jnp.full((size, 1), self.longest), jnp.ones((size, 1))
        else:
            equal = jnp.broadcast_to(jnp.arange(self.longest + 1), (size, self.longest + 1))
            chance = sign_weights(self.context, self.longest)

        def look(item: tuple[Array, Array]) -> Array:
            index, equal = item
            place = jnp.arange(self.longest + 1)
            signs = jnp.where((place < equal) | (place == self.longest), 1, -1).astype(jnp.int32)
            tokens = tasks.build_tokens(self.context, self.strength, index[None], signs[None, :])
            return self._predict(model, tokens)[0]

        index = jnp.broadcast_to(jnp.arange(size)[:, None], equal.shape)
        f = jax.lax.map(look, (index.ravel(), equal.ravel()), batch_size=_PIECE)
        return f.reshape(equal.shape), chance.astype(f.dtype)

    def observe(self, params: Attention) -> dict[str, Array]:
        """Losses and mean predictions."""
        f, chance = self._one_of_each(params)
        square = 0.5 * jnp.sum(chance * (f - self.strength[:, None]) ** 2, axis=1)
        loss = jnp.sum(self.weights * square)
        train_loss = loss if self.data is None else self._loss(params, self.data)
        return {
            "loss": loss,
            "train_loss": train_loss,
            "predictions": jnp.sum(chance * f, axis=1),
        }


def train_brute(
    task: Task,
    init: Init | SoftmaxInit,
    *,
    lr: Any = None,
    steps: int,
    optimizer: optax.GradientTransformation | None = None,
    size: int | None = None,
    data: int | None = None,
    batch: int | None = None,
    seed: int | Sequence[int] = 0,
    log_every: int | None = None,
    progress: training.Progress | None = None,
    resume: Run | None = None,
) -> Run:
    """Train the whole attention block on real token matrices by automatic differentiation.

    Takes the arguments of `train`, draws the same data for the same seed, and returns the same
    trajectory to round-off; it costs as much as its tokens. `data` or `batch` must be given.

    Args:
        task: the data law; contexts are rounded to whole lengths, at least 1.
        init: `Init` for linear attention, `SoftmaxInit` for softmax attention.
        lr: learning rate of gradient descent; or
        optimizer: any optax optimiser.
        steps: how many steps.
        size: D; tasks s ≥ D keep their initial prediction. None for the whole model.
        data: N, a fixed data set drawn with `seed`.
        batch: B, a fresh mini-batch at every step.
        seed: one seed, or several for as many runs side by side on a leading axis.
        log_every: steps between two log points; every 400th part of the run unless given.
        progress: called with (step, steps) now and then.
        resume: a run of the same problem to go on from; `steps` counts from its beginning.

    Returns:
        A `Run`; the last axis is the log points.

    >>> task = Task(num_tasks=3, alpha=1.8, context=4, strength=0.5)
    >>> train_brute(task, Init(v=0.1, w=0.11), lr=0.01, steps=10, data=20).loss.shape
    (11,)
    """
    request = Request.check(task, init, size, data, batch, seed)
    if request.data is None and request.batch is None:
        raise ValueError("data or batch must be given: brute force trains on sampled tokens")

    def build(request: Request, seed: int) -> tuple[training.Problem, Any]:
        law = request.task
        if isinstance(init, Init):
            model = LinearAttention.start(law, init)
        else:
            model = SoftmaxAttention.start(law, init)
        problem = TokenProblem(
            context=law.contexts,
            strength=law.strengths,
            weights=law.weights,
            learned=request.learned,
            start=model,
            data=None if request.data is None else tasks.sample(law, request.data, seed=seed),
            key=request.batch_key(seed),
            batch=request.batch,
            longest=tasks.longest_context(law),
        )
        return problem, model

    return request.run(
        build,
        lr=lr,
        optimizer=optimizer,
        steps=steps,
        log_every=log_every,
        progress=progress,
        resume=resume,
    )


def train_tokens(
    model: Attention,
    tokens: Tokens,
    *,
    lr: Any = None,
    steps: int,
    optimizer: optax.GradientTransformation | None = None,
    learned: Any = None,
    log_every: int | None = None,
    progress: training.Progress | None = None,
) -> training.Run:
    """Train any attention block on any data set of tokens, by automatic differentiation.

    `train_brute` trains from a law and an `Init`; this takes features of every kind and any start.

    Args:
        model: where training starts.
        tokens: the data set, as from `sample`.
        lr: learning rate of gradient descent; or
        optimizer: any optax optimiser.
        steps: how many steps.
        learned: for every task whether it is learned; the others keep the predictions of the start.
            None for all.
        log_every: steps between two log points; every 400th part of the run unless given.
        progress: called with (step, steps) now and then.

    Returns:
        A `training.Run` whose `loss` is the data set's, ``½ mean (f − ŷ)²`` (6), and whose `state`
        begins with the trained model.

    Raises:
        training.Interrupted: at Ctrl-C, with the run so far.

    >>> task = Task(num_tasks=3, alpha=1.8, context=4, strength=0.5)
    >>> tokens = tasks.sample(task, 20, features="approximate")
    >>> model = LinearAttention.start(task, Init(v=0.1, w=0.11))
    >>> train_tokens(model, tokens, lr=0.01, steps=10).loss.shape
    (11,)
    """
    if not isinstance(model, LinearAttention | SoftmaxAttention):
        raise ValueError(f"model must be an attention block, not {type(model).__name__}")
    if not isinstance(tokens, Tokens):
        raise ValueError(f"tokens must be msfr.Tokens, not {type(tokens).__name__}")
    num_tasks = model.value.shape[0]
    if tokens.phi.shape[1] != num_tasks + 1:
        raise ValueError(
            f"tokens must have {num_tasks + 1} rows, as the model has {num_tasks} tasks, "
            f"not {tokens.phi.shape[1]}"
        )
    chosen = jnp.ones(num_tasks, bool) if learned is None else jnp.asarray(learned, bool)
    validation.shaped("learned", chosen, (num_tasks,))
    kept = chosen[tokens.task]
    first = half_squares(model, tokens)
    problem = DataProblem(
        tokens,
        weight=jnp.where(kept, 1.0 / kept.shape[0], 0.0).astype(first.dtype),
        rest=jnp.mean(jnp.where(kept, 0.0, first)),
    )
    return training.follow(
        problem,
        model,
        training.Run.of,
        lr=lr,
        optimizer=optimizer,
        steps=steps,
        log_every=log_every,
        progress=progress,
    )
