"""Softmax attention on source/capacity features without tokens: the limit of long contexts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .. import memory, training, validation
from ..compiling import jit, stage
from .model import SoftmaxAttention
from .run import learned_tasks
from .task import LIMITS, Task, check_seed, seed_keys

_PRECISION = {"single": np.float32, "double": np.float64}
_LARGEST = 1e25  # entry of a strength or of a model, in size: its tenth power must not overflow


@dataclass(frozen=True, repr=False)
class SourceRun(training.Run):
    """A training run on source/capacity features in the limit of long contexts.

    Attributes:
        loss: ``½ Σ_s p_s E_s``.
        errors: ``E_s = r_sᵀ Σ_s r_s``, the mean square error of each task, (…, tasks, points).
    """

    errors: Float[Array, "*runs tasks points"]


def _errors(
    model: SoftmaxAttention,
    strengths: Float[Array, "learned tasks"],
    variances: Float[Array, "learned tasks"],
) -> Float[Array, " learned"]:
    """``r_sᵀ Σ_s r_s`` of the first tasks: the rows there are."""
    value = model.value[: strengths.shape[0]]
    z = variances * (value[:, :-1] + value[:, -1:] * strengths)  # Σ_s B_sᵀ v_s
    y = jnp.concatenate([z, jnp.sum(z * strengths, axis=1, keepdims=True)], axis=1)  # Σ̃_s v_s
    # Some accelerators would multiply with 10 bits.
    highest = jax.lax.Precision.HIGHEST
    inner = jnp.matmul(y, model.key.T, precision=highest)
    r = jnp.matmul(inner, model.query[:, :-1], precision=highest) - strengths
    return jnp.sum(variances * r**2, axis=1)


def _variances(xp: Any, decay: Any, num_tasks: int) -> Any:
    """The diagonals ω̃^s of all Σ_s: ``k^-τ``, shifted so that entry s is the largest (110)."""
    place = xp.arange(num_tasks)
    rank = (place[None, :] - place[:, None]) % num_tasks + 1
    return xp.exp(-decay * xp.log(rank.astype(float)))


class SourceProblem(eqx.Module):
    """The loss of the tasks that are learned; the others keep the errors of the start."""

    weights: Float[Array, " tasks"]
    strengths: Float[Array, "learned tasks"]
    variances: Float[Array, "learned tasks"]
    frozen: Float[Array, " unlearned"]

    def _loss(self, model: SoftmaxAttention) -> Float[Array, ""]:
        count = self.strengths.shape[0]
        errors = _errors(model, self.strengths, self.variances)
        return 0.5 * jnp.sum(self.weights[:count] * errors)

    def gradient(self, params: SoftmaxAttention, step: Int[Array, ""]) -> SoftmaxAttention:
        """By automatic differentiation: six products of matrices with those of the loss."""
        return jax.grad(self._loss)(params)

    def observe(self, params: SoftmaxAttention) -> dict[str, Array]:
        """The loss, and every task's error."""
        live = _errors(params, self.strengths, self.variances)
        errors = jnp.concatenate([live, self.frozen])
        return {"loss": 0.5 * jnp.sum(self.weights * errors), "errors": errors}


def source_strengths(task: Task, *, seed: int = 0, data: int = 0) -> Float[Array, "tasks features"]:
    """``Λ_s ~ N(0, I)``, a row for each task.

    Args:
        task: of which the number of tasks counts.
        seed: the same seed gives the same strengths.
        data: 0 for those of `train_source`; N for those of the tokens that
            ``sample(task, N, seed=seed, features="source")`` draws.

    Reference: App. H.1.
    """
    _check(task)
    data = validation.whole("data", data, 0)
    return _draw_strengths(stage(check_seed(seed)), stage(data), task.num_tasks)


@jit(static_argnames="num_tasks")
def _draw_strengths(seed: Array, data: Array, num_tasks: int) -> Float[Array, "tasks features"]:
    _, tokens = seed_keys(seed)
    _, strengths = jax.random.split(jax.random.fold_in(tokens, data))  # as `sample` does
    return jax.random.normal(strengths, (num_tasks, num_tasks), jnp.result_type(float))


def source_start(task: Task, *, seed: int = 0) -> SoftmaxAttention:
    """``V ~ N(0, 0.1²)``, ``W_K, W_Q ~ N(0, 1/d_e)`` in every entry, ``d_e = S + 1``.

    The paper does not say where its softmax attention starts.

    Args:
        task: of which the number of tasks counts.
        seed: the same seed gives the same start.
    """
    _check(task)
    return _draw_start(stage(check_seed(seed)), task.num_tasks)


@jit(static_argnames="num_tasks")
def _draw_start(seed: Array, num_tasks: int) -> SoftmaxAttention:
    width, dtype = num_tasks + 1, jnp.result_type(float)
    value, key, query = jax.random.split(jax.random.key(seed), 3)
    return SoftmaxAttention(
        0.1 * jax.random.normal(value, (num_tasks, width), dtype),
        jax.random.normal(key, (width, width), dtype) / width**0.5,
        jax.random.normal(query, (width, width), dtype) / width**0.5,
    )


def source_loss(
    model: SoftmaxAttention, strengths: Any, weights: Any, *, decay: Any = 3.0
) -> Float[Array, ""]:
    r"""The loss of softmax attention on source/capacity features as ψ → ∞.

    Softmax weighs a context token g by ``e^{g·b}``, ``b = W_Kᵀ W_Q (φ̂; 0)``, and for tokens
    ``g ~ N(0, Σ̃)`` the mean of g with these weights is ``Σ̃ b``. With ``B_s = [I; Λ_sᵀ]``,
    ``Σ̃_s = B_s Σ_s B_sᵀ``, ``A = W_Kᵀ W_Q`` it is linear attention with a normalised covariance:

    ``f_s(φ̂) = v_sᵀ Σ̃_s A (φ̂; 0)``, ``r_s = [Aᵀ Σ̃_s v_s]_{1…S} − Λ_s``,
    ``L = ½ Σ_s p_s r_sᵀ Σ_s r_s``.

    The query's own token and the noise of a finite context are left out; both are O(1/ψ).

    Args:
        model: V, W_K and W_Q.
        strengths: Λ, (tasks, tasks), a row for each task.
        weights: p_s, (tasks,).
        decay: τ of the spectrum ``ω_k = k^-τ``.

    Returns:
        L.

    Reference: App. H.1, eqs. (108) to (114); the limit is ours.

    >>> task = Task(num_tasks=3, alpha=1.8, context=1.0, strength=1.0)
    >>> start, strengths = source_start(task), source_strengths(task)
    >>> float(source_loss(start, strengths, task.weights)) > 0.0
    True
    """
    if not isinstance(model, SoftmaxAttention):
        raise ValueError(f"model must be a msfr.SoftmaxAttention, not {type(model).__name__}")
    rows = validation.floating("strengths", strengths)
    _check_model(model, rows.shape[0] if rows.ndim else 0)
    count = model.value.shape[0]
    validation.shaped("strengths", rows, (count, count))
    validation.within("strengths", rows, -_LARGEST, _LARGEST)
    shares = validation.floating("weights", weights)
    validation.shaped("weights", shares, (count,))
    validation.within("weights", shares, 0.0, 1.0)
    return _loss(model, rows, shares, _checked_decay(decay))


@jit
def _loss(model: SoftmaxAttention, strengths: Array, weights: Array, decay: Array) -> Array:
    dtype = model.value.dtype
    strengths, weights = strengths.astype(dtype), weights.astype(dtype)
    variances = _variances(jnp, decay, strengths.shape[0]).astype(dtype)
    return 0.5 * jnp.sum(weights * _errors(model, strengths, variances))


def train_source(
    task: Task,
    start: SoftmaxAttention | None = None,
    *,
    lr: Any = None,
    steps: int,
    optimizer: Any = None,
    size: int | None = None,
    decay: float = 3.0,
    strengths: Any = None,
    weights: Any = None,
    precision: Literal["single", "double"] = "single",
    seed: int | Sequence[int] = 0,
    log_every: int | None = None,
    log_points: int | None = None,
    progress: training.Progress | None = None,
    resume: SourceRun | None = None,
) -> SourceRun:
    """Train softmax attention on source/capacity features as ψ → ∞: no tokens, no data set.

    Descends `source_loss` in V, W_K and W_Q; a step costs six products of S × S matrices.

    Args:
        task: the data law; of its contexts and strengths none counts.
        start: V, W_K and W_Q at step 0; `source_start` of the seed unless given.
        lr: learning rate of gradient descent; or
        optimizer: any optax optimiser.
        steps: how many steps.
        size: D; tasks s ≥ D keep their initial predictions. None for the whole model.
        decay: τ of the spectrum ``ω_k = k^-τ``.
        strengths: Λ, (tasks, tasks), a row for each task; `source_strengths` of the seed unless
            given.
        weights: (tasks,), in the place of the law's p_s: the shares of a data set, for example.
        precision: "single" halves the time; from "double" it differs by round-off.
        seed: one seed, or several for as many runs side by side on a leading axis.
        log_every: steps between two log points; or
        log_points: points of the log, evenly spaced in log step; 200 unless log_every is given.
        progress: called with (step, steps) now and then.
        resume: a run of the same problem to go on from; `steps` counts from its beginning.

    Returns:
        A `SourceRun`; the last axis is the log points.

    Raises:
        training.Interrupted: at Ctrl-C, with the run so far.

    Reference: App. H.1, Fig. 5.

    >>> task = Task(num_tasks=5, alpha=1.8, context=1.0, strength=1.0)
    >>> train_source(task, lr=0.2, steps=10, seed=(0, 1)).errors.shape
    (2, 5, 11)
    """
    begun = _prepare(
        task,
        start,
        lr=lr,
        optimizer=optimizer,
        size=size,
        decay=decay,
        strengths=strengths,
        weights=weights,
        precision=precision,
        seed=seed,
    )
    return begun.run(
        steps=steps, log_every=log_every, log_points=log_points, progress=progress, resume=resume
    )


def _prepare(
    task: Task,
    start: Any,
    *,
    lr: Any,
    optimizer: Any,
    size: Any,
    decay: Any,
    strengths: Any,
    weights: Any,
    precision: Any,
    seed: int | Sequence[int],
) -> training.Training[SourceRun]:
    """What `train_source` trains, before any step."""
    _check(task)
    given = (start, decay, strengths, weights, lr)
    validation.concrete("start, decay, strengths, weights and lr", given, why="training starts")
    validation.one_of("precision", precision, tuple(_PRECISION))
    dtype, num_tasks = _PRECISION[precision], task.num_tasks
    seeds, many = training.seeds_of(seed)
    seeds = [check_seed(s) for s in seeds]
    learned = int(np.count_nonzero(np.asarray(learned_tasks(task, size))))
    tau = float(_checked_decay(decay))
    shares = np.asarray(task.weights if weights is None else _checked_weights(weights, task))
    rows = None if strengths is None else _checked_strengths(strengths, task)
    if start is not None:
        _check_model(start, num_tasks)
    itemsize, square = np.dtype(dtype).itemsize, float(num_tasks) * (num_tasks + 1)
    memory.refuse("num_tasks", num_tasks, (16.0 * itemsize * len(seeds) + 32.0) * square)

    def one(seed: int) -> tuple[SourceProblem, SoftmaxAttention]:
        chosen = source_strengths(task, seed=seed) if rows is None else rows
        model = source_start(task, seed=seed) if start is None else start
        return _begun(model, chosen, shares, tau, learned, dtype)

    def build() -> tuple[Any, Any]:
        built = [one(s) for s in seeds]
        return training.SideBySide.of(built) if many else built[0]

    return training.Training(
        build,
        SourceRun.of,
        {
            "kind": "msfr.train_source",
            "task": {"num_tasks": num_tasks, "alpha": task.alpha},
            "start": start,
            "size": None if size is None else int(size),
            "decay": tau,
            "strengths": rows,
            "weights": None if weights is None else shares,
            "seed": seeds if many else seeds[0],
        },
        lr=lr,
        optimizer=optimizer,
        log_points=training.LOG_POINTS,
        check=lambda _, points: memory.refuse(
            "log_points", points, 3.0 * itemsize * num_tasks * points * len(seeds)
        ),
    )


def _begun(
    model: SoftmaxAttention,
    strengths: Any,
    weights: np.ndarray,
    decay: float,
    learned: int,
    dtype: Any,
) -> tuple[SourceProblem, SoftmaxAttention]:
    """A problem and its start, on the host."""

    def cast(x: Any) -> Array:
        return stage(np.asarray(x).astype(dtype))

    begin = jax.tree.map(cast, model)
    rows = np.asarray(strengths)
    variances = _variances(np, decay, len(rows))
    first = _first_errors(begin, cast(rows), cast(variances))
    problem = SourceProblem(
        weights=cast(weights),
        strengths=cast(rows[:learned]),
        variances=cast(variances[:learned]),
        frozen=cast(np.asarray(first)[learned:]),
    )
    return problem, begin


_first_errors = jit(_errors)


def _check(task: Any) -> None:
    if not isinstance(task, Task):
        raise ValueError(f"task must be a msfr.Task, not {type(task).__name__}")
    validation.concrete("task", task, why="training starts")
    validation.needs_double("training")
    memory.refuse("num_tasks", task.num_tasks, 32.0 * float(task.num_tasks) ** 2)


def _check_model(model: Any, num_tasks: int) -> None:
    """An attention block for so many tasks, with finite entries where they are known."""
    if not isinstance(model, SoftmaxAttention):
        raise ValueError(f"start must be a msfr.SoftmaxAttention, not {type(model).__name__}")
    width = model.key.shape[0] if np.ndim(model.key) else 0
    shapes = {
        "value": (num_tasks, num_tasks + 1),
        "key": (width, num_tasks + 1),
        "query": (width, num_tasks + 1),
    }
    for name, shape in shapes.items():
        entries = validation.floating(name, getattr(model, name))
        validation.shaped(name, entries, shape)
        validation.within(name, entries, -_LARGEST, _LARGEST)


def _checked_decay(decay: Any) -> Float[Array, ""]:
    tau = validation.floating("decay", decay)
    validation.shaped("decay", tau, ())
    validation.inside("decay", tau, LIMITS["beta"])
    return tau


def _checked_weights(weights: Any, task: Task) -> Float[Array, " tasks"]:
    shares = validation.floating("weights", weights)
    validation.shaped("weights", shares, (task.num_tasks,))
    validation.within("weights", shares, 0.0, 1.0)
    return shares


def _checked_strengths(strengths: Any, task: Task) -> Float[Array, "tasks features"]:
    rows = validation.floating("strengths", strengths)
    validation.shaped("strengths", rows, (task.num_tasks, task.num_tasks))
    validation.within("strengths", rows, -_LARGEST, _LARGEST)
    return rows
