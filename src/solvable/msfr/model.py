"""Attention on real tokens, trained by brute force: the oracle of the reductions."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, UInt32

from .. import training, validation
from ..compiling import jit, stage
from . import task as tasks
from .batches import batch_places, draw_batch
from .reduced import sign_weights
from .run import Run, batch_stream, checked, prepared
from .start import Init, SoftmaxInit
from .task import Task, Tokens

_PIECE = 32  # token matrices evaluated at once when all tasks are looked at
_LARGEST = 1e100  # entry of tokens or of a model, in size


def _embedded(entries: Float[Array, "tasks 2"], task: Task) -> np.ndarray:
    """Rows (tasks, tasks + 1) whose entries on coordinates (s, S+1) are those given."""
    validation.concrete("task and init", entries, why="a model is built")
    task.fit(4.0 * (task.num_tasks + 1))
    rows = np.zeros((task.num_tasks, task.num_tasks + 1))
    np.fill_diagonal(rows, np.asarray(entries)[:, 0])
    rows[:, -1] = np.asarray(entries)[:, 1]
    return rows


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
        v, w = (_embedded(x, task) for x in init.columns(task))
        return cls(stage(v), stage(w.T))

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
        width, value = init.width_for(task), _embedded(init.values(task), task)
        return cls(stage(value), init.keys(task, width), init.queries(task, width))

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
    stream: UInt32[Array, " words"] | None  # the key of the mini-batches, as numbers
    batch: int | None = eqx.field(static=True)
    longest: int = eqx.field(static=True)

    @property
    def drawn(self) -> Any:
        """Which tasks were drawn, and the signs of their labels."""
        if self.data is None:
            return None
        parts = np.asarray(self.data.task), np.sign(np.asarray(self.data.label))
        return np.stack(parts, axis=-2)

    def _predict(self, model: Attention, tokens: Tokens) -> Float[Array, " data"]:
        frozen = jax.lax.stop_gradient(predict_tokens(self.start, tokens))
        return jnp.where(self.learned[tokens.task], predict_tokens(model, tokens), frozen)

    def _loss(self, model: Attention, tokens: Tokens) -> Float[Array, ""]:
        """``½ mean (f − ŷ)²`` (6)."""
        return 0.5 * jnp.mean((self._predict(model, tokens) - tokens.label) ** 2)

    def gradient(self, params: Attention, step: Int[Array, ""]) -> Attention:
        """By automatic differentiation through the attention block."""
        tokens = self.data
        if self.batch is not None and self.stream is not None:
            if tokens is None:
                drawn = draw_batch(self.weights, self.stream, step, self.batch, self.longest)
                tokens = tasks.build_tokens(self.context, self.strength, *drawn)
            else:
                places = batch_places(self.stream, step, self.batch, tokens.task.shape[0])
                tokens = jax.tree.map(lambda x: x[places], tokens)
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
    log_points: int | None = None,
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
        batch: B, a fresh mini-batch at every step; with `data` one of the data set, see `train`.
        seed: one seed, or several for as many runs side by side on a leading axis.
        log_every: steps between two log points; or
        log_points: points of the log, evenly spaced in log step; 200 unless log_every is given.
        progress: called with (step, steps) now and then.
        resume: a run of the same problem to go on from; `steps` counts from its beginning.

    Returns:
        A `Run`; the last axis is the log points.

    >>> task = Task(num_tasks=3, alpha=1.8, context=4, strength=0.5)
    >>> train_brute(task, Init(v=0.1, w=0.11), lr=0.01, steps=10, data=20).loss.shape
    (11,)
    """
    options = {"size": size, "data": data, "batch": batch, "seed": seed}
    begun = prepare(task, init, lr=lr, optimizer=optimizer, **options)
    return begun.run(
        steps=steps, log_every=log_every, log_points=log_points, progress=progress, resume=resume
    )


def prepare(
    task: Task,
    init: Init | SoftmaxInit,
    *,
    lr: Any = None,
    optimizer: optax.GradientTransformation | None = None,
    size: int | None = None,
    data: int | None = None,
    batch: int | None = None,
    seed: int | Sequence[int] = 0,
) -> training.Training[Run]:
    """What `train_brute` trains, before any step."""
    law, _, count, fresh, seeds = checked(task, init, size, data, batch, seed)
    if count is None and fresh is None:
        raise ValueError("data or batch must be given: brute force trains on sampled tokens")
    drawn = ((count or 0) + (fresh or 0)) * len(seeds)
    tasks.fit_tokens(law.num_tasks, drawn, tasks.longest_context(law))
    options = {"size": size, "data": data, "batch": batch, "seed": seed}
    return prepared(
        "msfr.train_brute", token_problem, task, init, lr=lr, optimizer=optimizer, **options
    )


def token_problem(
    task: Task,
    init: Init | SoftmaxInit,
    learned: Bool[Array, " tasks"],
    data: int | None,
    batch: int | None,
    seed: int,
) -> tuple[TokenProblem, Attention]:
    """The problem on tokens, and the whole model where it starts."""
    linear = isinstance(init, Init)
    model = LinearAttention.start(task, init) if linear else SoftmaxAttention.start(task, init)
    problem = TokenProblem(
        context=task.contexts,
        strength=task.strengths,
        weights=task.weights,
        learned=learned,
        start=model,
        data=None if data is None else tasks.sample(task, data, seed=seed),
        stream=batch_stream(data, batch, seed),
        batch=batch,
        longest=tasks.longest_context(task),
    )
    return problem, model


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
    model = _checked_model(model)
    num_tasks = model.value.shape[0]
    tokens = _checked_tokens(tokens, num_tasks)
    chosen = _checked_learned(learned, num_tasks)
    validation.concrete("lr", lr, why="training runs")
    origin = {
        "kind": "msfr.train_tokens",
        "model": model,
        "tokens": tokens,
        "learned": chosen,
    }
    begun = training.Training(
        lambda: (_data_problem(model, tokens, chosen), model),
        training.Run.of,
        origin,
        lr=lr,
        optimizer=optimizer,
    )
    return begun.run(steps=steps, log_every=log_every, progress=progress)


@jit
def _data_problem(model: Attention, tokens: Tokens, learned: Bool[Array, " tasks"]) -> DataProblem:
    kept = learned[tokens.task]
    first = half_squares(model, tokens)
    return DataProblem(
        tokens,
        weight=jnp.where(kept, 1.0 / kept.shape[0], 0.0).astype(first.dtype),
        rest=jnp.mean(jnp.where(kept, 0.0, first)),
    )


_SHAPES = {
    "value": "(tasks, tasks + 1)",
    "key_query": "(tasks + 1, tasks)",
    "key": "(width, tasks + 1)",
    "query": "(width, tasks + 1)",
}


def _checked_model(model: Any) -> Attention:
    """An attention block whose matrices fit together and are finite."""
    if not isinstance(model, LinearAttention | SoftmaxAttention):
        raise ValueError(f"model must be an attention block, not {type(model).__name__}")
    validation.concrete("model", model, why="training starts")
    arrays = {name: _finite(f"model.{name}", x) for name, x in vars(model).items()}
    tasks = arrays["value"].shape[0] if arrays["value"].ndim else 0
    width = arrays["key"].shape[0] if "key" in arrays and arrays["key"].ndim else 0
    sizes = {"tasks": tasks, "tasks + 1": tasks + 1, "width": width}
    for name, array in arrays.items():
        wanted = tuple(sizes[word] for word in _SHAPES[name].strip("()").split(", "))
        if array.shape != wanted or 0 in wanted:
            raise ValueError(f"model.{name} must have the shape {_SHAPES[name]}, not {array.shape}")
    return type(model)(**arrays)


def _checked_tokens(tokens: Any, num_tasks: int) -> Tokens:
    """A data set whose arrays fit together, and to a model of so many tasks."""
    if not isinstance(tokens, Tokens):
        raise ValueError(f"tokens must be msfr.Tokens, not {type(tokens).__name__}")
    validation.concrete("tokens", tokens, why="training starts")
    phi, label, present = (
        _finite(f"tokens.{name}", getattr(tokens, name)) for name in ("phi", "label", "present")
    )
    if phi.ndim != 3 or 0 in phi.shape:
        raise ValueError(f"tokens.phi must have the axes data, rows, columns, not {phi.shape}")
    if phi.shape[1] != num_tasks + 1:
        raise ValueError(
            f"tokens must have {num_tasks + 1} rows, as the model has {num_tasks} tasks, "
            f"not {phi.shape[1]}"
        )
    validation.shaped("tokens.label", label, phi.shape[:1])
    validation.shaped("tokens.present", present, (phi.shape[0], phi.shape[2]))
    index = np.asarray(tokens.task)
    if index.shape != phi.shape[:1] or index.dtype.kind not in "iu":
        found = f"{index.dtype}{list(index.shape)}"
        raise ValueError(f"tokens.task must be {phi.shape[0]} whole numbers, not {found}")
    if index.min() < 0 or index.max() >= num_tasks:
        bad = index.min() if index.min() < 0 else index.max()
        raise ValueError(f"tokens.task must lie in [0, {num_tasks - 1}], not {bad}")
    return Tokens(phi, label, stage(index), present)


def _finite(name: str, value: Any) -> Array:
    array = validation.floating(name, value)
    validation.within(name, array, -_LARGEST, _LARGEST)
    # A model and tokens of single precision are trained in it: that was asked for.
    single = isinstance(value, jax.Array) and value.dtype == jnp.float32
    return value if single else array


def _checked_learned(learned: Any, num_tasks: int) -> Bool[Array, " tasks"]:
    """Which tasks are learned: all, or as given."""
    if learned is None:
        return stage(np.ones(num_tasks, bool))
    validation.concrete("learned", learned, why="training starts")
    try:
        chosen = np.asarray(learned)
    except ValueError:  # rows of different lengths
        chosen = np.empty(0, object)
    if chosen.shape != (num_tasks,) or not np.isin(chosen, (False, True)).all():
        raise ValueError(
            f"learned must be {num_tasks} truth values, one a task, not "
            f"{chosen.dtype}{list(chosen.shape)}"
        )
    return stage(chosen.astype(bool))
