"""The data law: multitask sparse feature regression, and samplers of real token matrices."""

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from .. import memory, validation
from ..compiling import jit, stage
from ..labs import msfr as description
from ..numerics.counting import counting_rule
from ..numerics.host import numbers
from ..question import parameters

LIMITS = parameters(description.Task)
MAX_SEED = 2**63 - 1
MAX_ROWS = 10**8  # tasks of which each can have an entry of its own

Features = Literal["sparse", "approximate", "source"]


class Task(eqx.Module):
    r"""Multitask sparse feature regression (MSFR).

    Task ``s = 1 … S`` is drawn with weight ``p_s = s^-α / Σ_r r^-α``; its context has
    ``ψ_s = ψ_1 s^-β`` examples and its strength is ``Λ_s = Λ_1 s^-γ``.

    Args:
        num_tasks: S, the number of tasks (the paper's N_s), up to 2^53: beyond 1e8 of them `loss`,
            the laws and `frontier` work, what has an entry a task (`weights`, `predict`, `train`)
            is refused.
        alpha: exponent of the task law, in (1, 10].
        context: ψ_1, or an array (tasks,) with the length of every context, in (0, 1e9].
        strength: Λ_1, or an array (tasks,) with every strength, of size at most 1e6.
        beta: decay of the context lengths, in [0, 100]; only with a single `context`.
        gamma: decay of the strengths, in [0, 100]; only with a single `strength`.

    Reference: eqs. (1) to (4).

    >>> task = Task(num_tasks=3, alpha=2.0, context=36.0, strength=0.5, beta=2.0)
    >>> task
    Task(num_tasks=3, alpha=2, context=36, strength=0.5, beta=2, gamma=0)
    >>> task.contexts.round(9).tolist()
    [36.0, 9.0, 4.0]
    """

    num_tasks: int = eqx.field(static=True)
    alpha: Float[Array, ""]
    context: Float[Array, ""] | Float[Array, " tasks"]
    strength: Float[Array, ""] | Float[Array, " tasks"]
    beta: Float[Array, ""]
    gamma: Float[Array, ""]

    def __init__(
        self,
        num_tasks,
        alpha,
        context,
        strength,
        beta=0.0,
        gamma=0.0,
    ):
        self.num_tasks = LIMITS["num_tasks"].checked("num_tasks", num_tasks)
        self.alpha = validation.floating("alpha", alpha)
        self.context = validation.floating("context", context)
        self.strength = validation.floating("strength", strength)
        self.beta = validation.floating("beta", beta)
        self.gamma = validation.floating("gamma", gamma)
        for name in ("alpha", "beta", "gamma"):
            validation.shaped(name, getattr(self, name), ())
        validation.shaped("context", self.context, (), (self.num_tasks,))
        validation.shaped("strength", self.strength, (), (self.num_tasks,))
        for name in ("alpha", "context", "strength", "beta", "gamma"):
            validation.inside(name, getattr(self, name), LIMITS[name])
        for decay, law in (("beta", "context"), ("gamma", "strength")):
            exponent, values = getattr(self, decay), getattr(self, law)
            if values.ndim == 1 and validation.is_concrete(exponent) and float(exponent) != 0.0:
                raise ValueError(
                    f"{decay} must be 0 when {law} is an array, not {float(exponent):g}"
                )

    def __repr__(self) -> str:
        return f"Task({validation.brief(**vars(self))})"

    def fit(self, columns: float = 1.0) -> None:
        """Refuse more tasks than memory has room for, at `columns` numbers a task."""
        validation.needs_double("a law of tasks")
        if self.num_tasks > MAX_ROWS:
            raise ValueError(
                f"num_tasks must be at most {MAX_ROWS:.0e} where every task has an entry, not "
                f"{self.num_tasks}; loss (solvable solve), the laws and frontier take more"
            )
        needed = 8.0 * columns * self.num_tasks
        if needed > _SMALL:
            memory.refuse("num_tasks", self.num_tasks, needed)

    @property
    def index(self) -> Float[Array, " tasks"]:
        """The task numbers s = 1 … S."""
        self.fit(3.0)
        return numbers(_index, count=self.num_tasks)

    @property
    def normaliser(self) -> Float[Array, ""]:
        """Z = 1 / Σ_s s^-α, summed from the smallest term up."""
        return numbers(_normaliser, self.alpha, count=self.num_tasks)

    @property
    def weights(self) -> Float[Array, " tasks"]:
        """The task law p_s = Z s^-α (1)."""
        self.fit(4.0)
        return numbers(_weights, self.alpha, count=self.num_tasks)

    @property
    def contexts(self) -> Float[Array, " tasks"]:
        """Context lengths ψ_s = ψ_1 s^-β."""
        return self._law(self.context, self.beta)

    @property
    def strengths(self) -> Float[Array, " tasks"]:
        """Strengths Λ_s = Λ_1 s^-γ."""
        return self._law(self.strength, self.gamma)

    def _law(self, first: Array, decay: Array) -> Float[Array, " tasks"]:
        if first.ndim == 1:
            return first
        self.fit(4.0)
        return numbers(_decay, first, decay, count=self.num_tasks)

    @property
    def is_uniform(self) -> bool:
        """Whether all tasks are known to share one context length and one strength."""

        def constant(first: Array, decay: Array) -> bool:
            return first.ndim == 0 and validation.is_concrete(decay) and float(decay) == 0.0

        return constant(self.context, self.beta) and constant(self.strength, self.gamma)

    def rounded(self) -> "Task":
        """The task whose contexts can be sampled: whole lengths, at least 1.

        >>> Task(num_tasks=3, alpha=2.0, context=5.0, strength=1.0, beta=3.0).rounded().context
        Array([5., 1., 1.], dtype=float64)
        """
        if self.is_uniform:
            context = numbers(_whole, self.context)
            return eqx.tree_at(lambda task: task.context, self, context)
        lengths = numbers(_whole, self.contexts)
        none = stage(np.zeros(()))
        return eqx.tree_at(lambda task: (task.context, task.beta), self, (lengths, none))


_SMALL = 1e8  # bytes that are there without asking


def _index(xp: Any, count: int) -> Any:
    return xp.arange(1, count + 1, dtype=float)


def _powers(xp: Any, exponent: Any, index: Any) -> Any:
    return xp.exp(-exponent * xp.log(index))


def _normaliser(xp: Any, alpha: Any, count: int) -> Any:
    index, tasks = (np.ascontiguousarray(x[::-1]) for x in counting_rule(count))
    return 1.0 / xp.sum(tasks * _powers(xp, alpha, index))


def _weights(xp: Any, alpha: Any, count: int) -> Any:
    return _normaliser(xp, alpha, count) * _powers(xp, alpha, _index(xp, count))


def _decay(xp: Any, first: Any, exponent: Any, count: int) -> Any:
    return first * _powers(xp, exponent, _index(xp, count))


def _whole(xp: Any, lengths: Any) -> Any:
    return xp.maximum(xp.round(lengths), 1.0)


class Tokens(eqx.Module):
    """Sampled in-context data.

    Attributes:
        phi: token matrices Φ; row S+1 holds the targets, the last column the query (4). Contexts
            shorter than the longest are padded with zero columns.
        label: ŷ, what the query's target is.
        task: the index (from 0) of the task of each datum.
        present: which columns are tokens, not padding.
    """

    phi: Float[Array, "data features columns"]
    label: Float[Array, " data"]
    task: Int[Array, " data"]
    present: Float[Array, "data columns"]


def check_seed(seed: Any) -> int:
    """A seed, checked."""
    return validation.whole("seed", seed, 0, MAX_SEED)


def seed_keys(seed: Int[Array, ""]) -> tuple[Key[Array, ""], Key[Array, ""]]:
    """Two independent streams of a seed: which tasks are drawn, and what their tokens are."""
    tasks, tokens = jax.random.split(jax.random.key(seed))
    return tasks, tokens


def draw_tasks(
    weights: Float[Array, " tasks"], key: Key[Array, ""], data: int
) -> Int[Array, " data"]:
    """`data` task indices (from 0) drawn from the task law, by inversion."""
    cumulative = jnp.cumsum(weights)
    uniform = jax.random.uniform(key, (data,), weights.dtype) * cumulative[-1]
    found = jnp.searchsorted(cumulative, uniform, side="right")
    return jnp.minimum(found, weights.shape[0] - 1)


def count_tasks(index: Int[Array, " data"], num_tasks: int) -> Float[Array, " tasks"]:
    """The share #_s / N of every task in a data set."""
    counts = jnp.bincount(index, length=num_tasks)
    return counts.astype(jnp.result_type(float)) / index.shape[0]


def realised_shares(task: Task, data: int, seed: int) -> Float[Array, " tasks"]:
    """The shares #_s / N of the data set of N data that a seed draws."""
    memory.refuse("data", data, 32.0 * data)
    return _shares(task.weights, stage(check_seed(seed)), data)


@jit(static_argnames="data")
def _shares(weights: Array, seed: Array, data: int) -> Float[Array, " tasks"]:
    index = draw_tasks(weights, seed_keys(seed)[0], data)
    return count_tasks(index, weights.shape[0])


def draw_signs(
    key: Key[Array, ""], data: Int[Array, " data"], longest: int
) -> Int[Array, "data columns"]:
    """Signs ε_1 … ε_ψ, ε̂ of the data numbered `data`: each datum has its own stream."""

    def one(number: Int[Array, ""]) -> Int[Array, " columns"]:
        return jax.random.rademacher(jax.random.fold_in(key, number), (longest + 1,), jnp.int32)

    return jax.vmap(one)(data)


def longest_context(task: Task) -> int:
    """The number of context columns that every sampled datum has room for."""
    return int(np.max(np.asarray(task.rounded().context)))


def build_tokens(
    lengths: Float[Array, " tasks"],
    strengths: Float[Array, " tasks"],
    index: Int[Array, " data"],
    signs: Int[Array, "data columns"],
) -> Tokens:
    """Token matrices Φ of exact sparse features: ``φ = ε e_s``, ``y = Λ_s ε`` (4)."""
    data, columns = signs.shape
    num_tasks = lengths.shape[0]
    dtype = strengths.dtype
    place = jnp.arange(columns)
    in_context = place[None, :].astype(dtype) < lengths[index][:, None]
    is_query = (place == columns - 1)[None, :]
    context = (in_context & ~is_query).astype(dtype)
    present = context + jnp.broadcast_to(is_query, (data, columns)).astype(dtype)
    sign = signs.astype(dtype) * present
    feature = jax.nn.one_hot(index, num_tasks, dtype=dtype)[:, :, None] * sign[:, None, :]
    target = strengths[index][:, None] * sign * context
    phi = jnp.concatenate([feature, target[:, None, :]], axis=1)
    return Tokens(phi, strengths[index] * sign[:, -1], index, present)


def sample(
    task: Task,
    data: int,
    *,
    seed: int = 0,
    features: Features = "sparse",
    decay: float = 3.0,
) -> Tokens:
    r"""A data set of real token matrices Φ.

    With ``features="approximate"`` every feature gets noise ``ζ ~ N(0, I/ψ_s²)`` (App. H.2). With
    ``"source"`` the features of task s are ``N(0, diag ω^s)``, ``ω_k = k^-τ`` shifted cyclically so
    that entry s is the largest, and ``y = Λ_s·φ`` with one vector ``Λ_s ~ N(0, I)`` a task
    (App. H.1); the task's `strength` plays no role then.

    Args:
        task: the data law; contexts are rounded to whole lengths, at least 1.
        data: N, the number of data.
        seed: the same seed gives the same data set here, in `train` and in `train_brute`.
        features: "sparse" (exact), "approximate" or "source".
        decay: τ of the source/capacity spectrum.

    >>> tokens = sample(Task(num_tasks=4, alpha=1.8, context=6, strength=0.5), data=10)
    >>> tokens.phi.shape
    (10, 5, 7)
    """
    if not isinstance(task, Task):
        raise ValueError(f"task must be a msfr.Task, not {type(task).__name__}")
    validation.concrete("task", task, why="token matrices are drawn")
    data = validation.whole("data", data, 1)
    seed = check_seed(seed)
    validation.one_of("features", features, ("sparse", "approximate", "source"))
    validation.concrete("decay", decay, why="token matrices are drawn")
    tau = validation.floating("decay", decay)
    validation.shaped("decay", tau, ())
    validation.inside("decay", tau, LIMITS["beta"])
    lengths = task.rounded().contexts
    longest = longest_context(task)
    fit_tokens(task.num_tasks, data, longest, features)
    return _sample(lengths, task.strengths, task.weights, stage(seed), tau, data, longest, features)


def fit_tokens(num_tasks: int, data: int, longest: int, features: Features = "sparse") -> None:
    """Refuse more tokens than memory has room for."""
    entries = 1.0 * data * (num_tasks + 1) * (longest + 1)
    copies = 3.0 if features == "sparse" else 5.0
    memory.refuse("data", data, 8.0 * copies * entries + 8.0 * num_tasks**2 * (copies > 3.0))


@jit(static_argnames=("data", "longest", "features"))
def _sample(
    lengths: Float[Array, " tasks"],
    strengths: Float[Array, " tasks"],
    weights: Float[Array, " tasks"],
    seed: Int[Array, ""],
    decay: Float[Array, ""],
    data: int,
    longest: int,
    features: Features,
) -> Tokens:
    task_key, token_key = seed_keys(seed)
    index = draw_tasks(weights, task_key, data)
    signs = draw_signs(token_key, jnp.arange(data), longest)
    tokens = build_tokens(lengths, strengths, index, signs)
    if features == "sparse":
        return tokens

    noise_key, strength_key = jax.random.split(jax.random.fold_in(token_key, data))
    size, dtype = weights.shape[0], tokens.phi.dtype
    noise = jax.random.normal(noise_key, (data, size, tokens.phi.shape[2]), dtype)
    noise = noise * tokens.present[:, None, :]
    if features == "approximate":
        width = 1.0 / lengths[index]
        return eqx.tree_at(
            lambda x: x.phi, tokens, tokens.phi.at[:, :size].add(noise * width[:, None, None])
        )

    place = jnp.arange(size, dtype=index.dtype)
    rank = (place[None, :] - index[:, None]) % size + 1  # (data, features), 1 at the task's entry
    feature = noise * jnp.exp(-0.5 * decay * jnp.log(rank.astype(dtype)))[:, :, None]
    strength = jax.random.normal(strength_key, (size, size), dtype)[index]
    target = jnp.einsum("nk,nkc->nc", strength, feature)
    row = target.at[:, -1].set(0.0)
    phi = jnp.concatenate([feature, row[:, None, :]], axis=1)
    return Tokens(phi, target[:, -1], index, tokens.present)
