"""Attention on real tokens, trained by brute force: the oracle of the reductions."""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .. import training
from ..compiling import stage
from .run import Run, checked, chosen_rates, each_run, live, prepared
from .start import Start
from .task import Sequences, Task
from .units import Units


class MergedAttention(eqx.Module):
    r"""Attention with merged key and query: ``X + Σ_i W^V_i X A_i``.

    Linear: ``A_i = Xᵀ W^KQ_i X / N``; softmax: the softmax of ``Xᵀ W^KQ_i X`` over its columns.

    Attributes:
        value: W^V, (heads, features, features).
        key_query: W^KQ, (heads, features, features).
        softmax: which of the two.

    Reference: eq. (3).
    """

    value: Float[Array, "*runs heads features features"]
    key_query: Float[Array, "*runs heads features features"]
    softmax: bool = eqx.field(static=True, default=False)

    def scores(
        self, tokens: Float[Array, "features columns"], queries: Float[Array, "features asked"]
    ) -> Float[Array, "heads columns asked"]:
        """``Xᵀ W^KQ_i Q``."""
        return tokens.T @ (self.key_query @ queries)

    def __call__(
        self, tokens: Float[Array, "features columns"], by: Float[Array, ""]
    ) -> Float[Array, "features columns"]:
        """All columns of the output; linear attention is divided by `by`."""
        return tokens + _attend(self, tokens, tokens, by, jnp.ones(tokens.shape[1], bool))


class SeparateAttention(eqx.Module):
    r"""Attention with separate keys and queries of rank R: ``W^KQ_i = W^K_iᵀ W^Q_i``.

    Attributes:
        value: W^V, (heads, features, features).
        key: W^K, (heads, rank, features).
        query: W^Q, (heads, rank, features).
        softmax: as in `MergedAttention`.

    Reference: eq. (10).
    """

    value: Float[Array, "*runs heads features features"]
    key: Float[Array, "*runs heads rank features"]
    query: Float[Array, "*runs heads rank features"]
    softmax: bool = eqx.field(static=True, default=False)

    def scores(
        self, tokens: Float[Array, "features columns"], queries: Float[Array, "features asked"]
    ) -> Float[Array, "heads columns asked"]:
        """``(W^K_i X)ᵀ W^Q_i Q``."""
        return jnp.swapaxes(self.key @ tokens, 1, 2) @ (self.query @ queries)

    def __call__(
        self, tokens: Float[Array, "features columns"], by: Float[Array, ""]
    ) -> Float[Array, "features columns"]:
        """All columns of the output; linear attention is divided by `by`."""
        return tokens + _attend(self, tokens, tokens, by, jnp.ones(tokens.shape[1], bool))


class CubicMLP(eqx.Module):
    """A two-layer linear net on the cubic features: ``ŷ = w₂ᵀ W₁ z``, ``z = vec(β x_qᵀ)``.

    Attributes:
        output: V, (hidden, outputs, outputs); for one output w₂.
        hidden: U, (hidden, dim, dim); its entries are the rows of W₁.

    Reference: Sec. 3.1.
    """

    output: Float[Array, "*runs hidden outputs outputs"]
    hidden: Float[Array, "*runs hidden dim dim"]

    def predict(
        self,
        tokens: Float[Array, "features columns"],
        by: Float[Array, ""],
        seen: Float[Array, " columns"],
        query: Float[Array, " features"],
    ) -> Float[Array, " outputs"]:
        """The prediction from the cubic features of a sequence."""
        dim = self.hidden.shape[1]
        context = tokens * seen[None, :]
        beta = context[:dim] @ context[dim:].T / by  # (dim, outputs)
        z = beta[:, None, :] * query[:dim][None, :, None]  # (dim, dim, outputs)
        return jnp.einsum("hop,hde,dep->o", self.output, self.hidden, z)


Attention = MergedAttention | SeparateAttention


def _attend(
    model: Attention,
    tokens: Float[Array, "features columns"],
    queries: Float[Array, "features asked"],
    by: Float[Array, ""],
    seen: Any,
) -> Float[Array, "features asked"]:
    """``Σ_i W^V_i X A_i`` for the columns asked."""
    scores = model.scores(tokens, queries)
    if model.softmax:
        weight = jax.nn.softmax(jnp.where(seen[None, :, None], scores, -jnp.inf), axis=1)
    else:
        weight = scores / by
    return jnp.sum(model.value @ (tokens @ weight), axis=0)


def build(start: Start, weights: Mapping[str, Any], task: Task) -> Any:
    """The model of whole weight matrices."""
    if start.kind == "mlp":
        dim = task.dim
        value, inner = weights["value"][..., dim:, dim:], weights["key_query"][..., :dim, :dim]
        return CubicMLP(stage(value), stage(inner))
    kind = MergedAttention if start.rank is None else SeparateAttention
    arrays = {name: stage(x) for name, x in weights.items()}
    return kind(**arrays, softmax=start.attention == "softmax")


def _prefix(
    tokens: Float[Array, "features columns"], dim: int, context: Int[Array, ""]
) -> tuple[Array, Array, Array]:
    """The tokens of a prefix, zero behind it and with the query's label hidden; which it has."""
    place = jnp.arange(tokens.shape[1])
    is_label = (jnp.arange(tokens.shape[0]) >= dim)[:, None]
    hidden = (place > context)[None, :] | ((place == context)[None, :] & is_label)
    return jnp.where(hidden, 0.0, tokens), place <= context, place < context


class Tokens(eqx.Module):
    """A data set as brute force reads it: every sequence at every length.

    Attributes:
        tokens: inputs and labels of every column; those that a length does not show are hidden.
        target: what is asked at each length.
        context: the lengths, without the query.
        by: what linear attention is divided by at each.
    """

    tokens: Float[Array, "sequences features columns"]
    target: Float[Array, "sequences lengths outputs"]
    context: Int[Array, " lengths"]
    by: Float[Array, " lengths"]

    @classmethod
    def of(cls, data: Sequences, unit: float) -> "Tokens":
        """Made on the host; linear attention is divided by the length in units of `unit`."""
        task, x, y, target = data.task, *map(np.asarray, (data.x, data.y, data.target))
        varied, longest = task.lengths == "varied", x.shape[1] - 1
        context = np.arange(1 if varied else longest, longest + 1)
        by = (context + (varied and task.normalise == "n")) / unit
        tokens = np.swapaxes(np.concatenate([x, y], axis=2), 1, 2)
        return cls(*map(stage, (tokens, target[:, context], context, by)))


class TokenProblem(eqx.Module):
    """Training on tokens, every weight of every run."""

    train: Tokens
    tests: dict[str, Tokens]
    rate: Float[Array, " runs"]

    def predict(self, model: Any, data: Tokens) -> Float[Array, "sequences lengths outputs"]:
        """``ŷ_q`` of every sequence and length."""
        dim = data.tokens.shape[1] - data.target.shape[2]

        def one(matrix: Array, context: Array, by: Array) -> Array:
            prefix, seen, labelled = _prefix(matrix, dim, context)
            query = prefix[:, context]
            if isinstance(model, CubicMLP):
                return model.predict(prefix, by, labelled.astype(matrix.dtype), query)
            return _attend(model, prefix, query[:, None], by, seen)[dim:, 0]

        lengths = jax.vmap(one, in_axes=(None, 0, 0))
        return jax.vmap(lambda matrix: lengths(matrix, data.context, data.by))(data.tokens)

    def _loss(self, model: Any, data: Tokens) -> Float[Array, ""]:
        return jnp.mean((self.predict(model, data) - data.target) ** 2)

    def gradient(self, params: Any, step: Int[Array, ""]) -> Any:
        """By automatic differentiation through the attention block."""
        return each_run(lambda model: jax.grad(self._loss)(model, self.train), params, self.rate)

    def observe(self, params: Any) -> dict[str, Any]:
        """Losses and weights."""

        def look(model: Any) -> dict[str, Any]:
            tests = {name: self._loss(model, data) for name, data in self.tests.items()}
            return {"loss": self._loss(model, self.train), "tests": tests}

        return jax.vmap(look)(params) | {"params": params}

    def chosen(self, runs: Int[np.ndarray, " runs"]) -> "TokenProblem":
        """The problem of these runs of it: only their rates differ."""
        return TokenProblem(self.train, self.tests, chosen_rates(self.rate, runs))


def train_brute(
    data: Sequences,
    start: Start,
    *,
    lr: Any,
    steps: int,
    units: Units = "paper",
    seed: int | Sequence[int] = 0,
    tests: Mapping[str, Sequences] | None = None,
    log_every: int | None = None,
    log_points: int | None = None,
    progress: training.Progress | None = None,
    resume: Run | None = None,
) -> Run:
    """Train the whole attention block on real tokens by automatic differentiation.

    Takes the arguments of `train`, draws the same weights for the same seed, and returns the same
    trajectory to round-off; it costs as much as its tokens. In the code's units the attention is
    really not divided by N, the length that it is trained at.

    Args:
        data: the sequences.
        start: the model, from `merged`, `separate` or `mlp`.
        lr: the learning rate, or several for as many runs side by side.
        steps: how many steps.
        units: of rate and weights: "paper", with 1/N in the attention, or "code", without.
        seed: of the weights; one, or several for as many runs side by side.
        tests: other sequences whose loss is logged too, by name.
        log_every: steps between two log points; every 400th part of the run unless given; or
        log_points: points of the log, evenly spaced in log step.
        progress: called with (step, steps) now and then.
        resume: a run of the same problem to go on from; `steps` counts from its beginning.

    Returns:
        A `Run`; the last axis is the log points.

    Raises:
        training.Interrupted: at Ctrl-C, with the run so far.

    >>> from .start import merged
    >>> from .task import sample
    >>> data = sample(Task(dim=2, context=5), sequences=20)
    >>> train_brute(data, merged(heads=2, scale=0.1), lr=0.1, steps=10).loss.shape
    (11,)
    """
    begun = prepare(data, start, lr=lr, units=units, seed=seed, tests=tests)
    return begun.run(
        steps=steps, log_every=log_every, log_points=log_points, progress=progress, resume=resume
    )


def prepare(
    data: Sequences,
    start: Start,
    *,
    lr: Any,
    units: Units = "paper",
    seed: int | Sequence[int] = 0,
    tests: Mapping[str, Sequences] | None = None,
) -> training.Training[Run]:
    """What `train_brute` trains, before any step."""
    runs = checked(data, start, lr, units, seed, tests)
    for name, other in {"data": data, **runs.tests}.items():
        if not isinstance(other, Sequences):
            raise ValueError(
                f"{name} must be sequences, not {type(other).__name__}: brute force needs tokens"
            )
    task = runs.task
    # The code does not divide by the N that it is trained at; tests may have others.
    unit = float(task.context) if units == "code" and task.lengths == "fixed" else 1.0

    def problem() -> tuple[TokenProblem, Any]:
        tokens = {name: Tokens.of(x, unit) for name, x in runs.tests.items()}
        made = TokenProblem(Tokens.of(data, unit), tokens, runs.per_run(runs.rates))
        return made, build(start, runs.starts(), task)

    def weigh(model: Any) -> Mapping[str, np.ndarray]:
        if isinstance(model, CubicMLP):
            pads = [(0, 0)] * 5
            value, inner = list(pads), list(pads)
            value[3], inner[2] = (task.dim, 0), (0, task.outputs)
            return {"value": np.pad(model.output, value), "key_query": np.pad(model.hidden, inner)}
        # The log points stand last: the features are the axes before them.
        weights = {f: np.moveaxis(getattr(model, f), -1, 0) for f in vars(model) if f != "softmax"}
        return {name: np.moveaxis(x, 0, -1) for name, x in live(weights, task.dim).items()}

    return prepared("shallow_icl.train_brute", problem, weigh, runs, blocks="all")
