"""Training in the smallest exact state space."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .. import memory, training, validation
from ..compiling import stage
from .run import Data, Logged, Run, Runs, Weigh, checked, chosen_rates, each_run, live, prepared
from .start import Start
from .statistics import Moments, Statistics, key_query, statistics
from .task import Sequences, Task
from .theory import Population, population
from .units import Units

Params = dict[str, Array]


class _Problem(eqx.Module):
    """What the reductions share: a loss of one run, on any of its data."""

    train: Any
    tests: dict[str, Any]
    rate: Float[Array, " runs"]

    def _loss(self, moments: Any, params: Params) -> Float[Array, ""]:
        raise NotImplementedError

    def _slope(self, params: Params) -> Params:
        """∂L/∂W of one run, by automatic differentiation."""
        return jax.grad(lambda p: self._loss(self.train, p))(params)

    def gradient(self, params: Params, step: Int[Array, ""]) -> Params:
        """Every run's gradient times its rate."""
        return each_run(self._slope, params, self.rate)

    def observe(self, params: Params) -> dict[str, Any]:
        """Losses and weights."""

        def look(params: Params) -> dict[str, Any]:
            tests = {name: self._loss(test, params) for name, test in self.tests.items()}
            return {"loss": self._loss(self.train, params), "tests": tests}

        return jax.vmap(look)(params) | {"params": params}

    def chosen(self, runs: Int[np.ndarray, " runs"]) -> "_Problem":
        """The problem of these runs of it: only their rates differ."""
        return type(self)(self.train, self.tests, chosen_rates(self.rate, runs))


class MomentProblem(_Problem):
    """Linear attention on a data set, through its statistics (Reductions A and B)."""

    train: Moments
    tests: dict[str, Moments]

    def _loss(self, moments: Moments, params: Params) -> Float[Array, ""]:
        return moments.loss(moments.coefficients(params))

    def _slope(self, params: Params) -> Params:
        # From the moments themselves: the loss is written about its minimum, which may be far away.
        tensor, pull = jax.vjp(self.train.coefficients, params)
        return pull(self.train.slope(tensor))[0]


class PopulationProblem(_Problem):
    """Linear attention with zero blocks on the population, in the eigenbasis."""

    train: Population
    tests: dict[str, Population]

    def _loss(self, moments: Population, params: Params) -> Float[Array, ""]:
        """``(1/D_y) Σ_op L(M_op)``, ``M_op = Σ_i V_i[o, p] U_i``: the mixed ones are to be 0."""
        maps = jnp.einsum("hop,hde->opde", params["value"], key_query(params))
        outputs = maps.shape[0]
        own = jnp.eye(outputs, dtype=maps.dtype)[:, :, None, None]
        gap = maps - own * moments.best_map[None, None]
        return moments.floor + jnp.sum(moments.excess(gap)) / outputs


class AlignedProblem(_Problem):
    """Merged attention after its escape: M = s·diag(g), D + 1 numbers."""

    train: Population
    tests: dict[str, Population]

    def _loss(self, moments: Population, params: Params) -> Float[Array, ""]:
        gap = params["size"] * params["modes"] - moments.best
        return moments.floor + jnp.sum(moments.gram * moments.spectrum * gap**2)


class Asked(eqx.Module):
    """What the query's row of the attention sees of a data set.

    Attributes:
        tokens: the matrices X.
        query: x_q.
        target: y_q.
    """

    tokens: Float[Array, "sequences features columns"]
    query: Float[Array, "sequences dim"]
    target: Float[Array, "sequences outputs"]

    @classmethod
    def of(cls, data: Sequences) -> "Asked":
        """Made on the host."""
        parts = (data.tokens, np.asarray(data.x)[:, -1], np.asarray(data.target)[:, -1])
        return cls(*map(stage, parts))

    @staticmethod
    def held(data: Sequences, heads: int) -> float:
        """Bytes that a step of training takes."""
        return 8.0 * data.x.shape[0] * data.x.shape[1] * (3 * data.task.features + 6 * heads)

    def guess(self, params: Params) -> Float[Array, "sequences outputs"]:
        """``ŷ_q`` of softmax attention."""
        x, inner = self.tokens, key_query(params)
        query = jnp.einsum("hbc,pc->pbh", inner, self.query)
        weight = jax.nn.softmax(jnp.swapaxes(x, 1, 2) @ query, axis=1)  # over the tokens
        return jnp.einsum("hoa,pah->po", params["value"], x @ weight)


class Prefixes(eqx.Module):
    """What the queries' rows see of sequences at every length: attention to what came before.

    The query of a prefix of m examples is the token m, without its label.

    Attributes:
        tokens: inputs and labels of every column.
        target: w·x of every column.
    """

    tokens: Float[Array, "sequences columns features"]
    target: Float[Array, "sequences lengths outputs"]

    @classmethod
    def of(cls, data: Sequences) -> "Prefixes":
        """Made on the host."""
        x, y, target = map(np.asarray, (data.x, data.y, data.target))
        return cls(stage(np.concatenate([x, y], axis=2)), stage(target[:, 1:]))

    @staticmethod
    def held(data: Sequences, heads: int) -> float:
        """Bytes that a step of training takes."""
        count, columns = data.x.shape[:2]
        return 8.0 * count * columns * heads * (3 * data.task.features + 6 * columns)

    def guess(self, params: Params) -> Float[Array, "sequences lengths outputs"]:
        """``ŷ_q`` of softmax attention at every length."""
        tokens, value = self.tokens, params["value"]
        dim = tokens.shape[2] - self.target.shape[2]
        asked = jnp.einsum("hbc,pmc->phmb", key_query(params), tokens[:, 1:, :dim])
        shown = jnp.einsum("hoa,pna->phon", value, tokens)
        # The query itself is seen without its label; what comes after it is not seen.
        own = jnp.einsum("phmb,pmb->phm", asked[..., :dim], tokens[:, 1:, :dim])
        told = jnp.einsum("hoa,pma->phom", value[..., :dim], tokens[:, 1:, :dim])
        scores = jnp.einsum("phmb,pnb->phmn", asked, tokens)
        before = np.tri(*scores.shape[2:], dtype=bool)[None, None]
        scores = jnp.where(before, scores, -jnp.inf)
        weight = jax.nn.softmax(jnp.concatenate([scores, own[..., None]], axis=3), axis=3)
        others = jnp.einsum("phmn,phon->pmo", weight[..., :-1], shown)
        return others + jnp.einsum("phm,phom->pmo", weight[..., -1], told)


class QueryRowProblem(_Problem):
    """Softmax attention on a data set: live weights, and only the queries' rows of attention."""

    train: Asked | Prefixes
    tests: dict[str, Asked | Prefixes]

    def _loss(self, moments: Asked | Prefixes, params: Params) -> Float[Array, ""]:
        return jnp.mean((moments.guess(params) - moments.target) ** 2)


def train(
    data: Task | Sequences | Statistics,
    start: Start,
    *,
    lr: Any,
    steps: int,
    units: Units = "paper",
    seed: int | Sequence[int] = 0,
    blocks: Literal["all", "zero", "aligned"] | None = None,
    tests: Mapping[str, Task | Sequences | Statistics] | None = None,
    log_every: int | None = None,
    log_points: int | None = None,
    progress: training.Progress | None = None,
    resume: Run | None = None,
) -> Run:
    """Train attention by full-batch gradient descent, in the smallest exact state space.

    A data set is trained on through the moments of its cubic features: the cost of a step does not
    depend on the number of sequences or on the context (linear attention; softmax attention has no
    such moments and is trained on the tokens, the query's row alone). A task is trained on as its
    population, infinitely many sequences, with zero blocks, in the eigenbasis of Λ.

    Args:
        data: sequences; their `statistics`, made once for many runs; or a task for its population.
        start: the model, from `merged`, `separate` or `mlp`.
        lr: the learning rate, or several for as many runs side by side.
        steps: how many steps.
        units: of rate and weights: "paper", with 1/N in the attention, or "code", without.
        seed: of the weights; one, or several for as many runs side by side.
        blocks: "all", every weight that can move (default on a data set); "zero", the blocks 𝐯, u
            and κ kept at zero (default on a population and of an MLP); "aligned", merged attention
            on the population reduced to D + 1 numbers, good for small scales.
        tests: other data whose loss is logged too, by name: sequences where `data` is sequences,
            tasks with the same basis where it is a task.
        log_every: steps between two log points; every 400th part of the run unless given; or
        log_points: points of the log, evenly spaced in log step.
        progress: called with (step, steps) now and then.
        resume: a run of the same problem to go on from; `steps` counts from its beginning.

    Returns:
        A `Run`; the last axis is the log points.

    Raises:
        training.Interrupted: at Ctrl-C, with the run so far.

    >>> from .start import merged
    >>> run = train(Task(dim=4, context=31), merged(heads=8, scale=1e-3), lr=0.05, steps=4000)
    >>> [round(run.loss[k].item(), 3) for k in (0, -1)]
    [1.0, 0.136]
    """
    options = {"units": units, "seed": seed, "blocks": blocks, "tests": tests}
    return prepare(data, start, lr=lr, **options).run(
        steps=steps, log_every=log_every, log_points=log_points, progress=progress, resume=resume
    )


def prepare(
    data: Data,
    start: Start,
    *,
    lr: Any,
    units: Units = "paper",
    seed: int | Sequence[int] = 0,
    blocks: Literal["all", "zero", "aligned"] | None = None,
    tests: Mapping[str, Data] | None = None,
) -> training.Training[Run]:
    """What `train` trains, before any step."""
    runs = checked(data, start, lr, units, seed, tests)
    moving = _blocks(data, runs, blocks)
    if isinstance(data, Task):
        kind, build, weigh = _population_problem(runs, moving)
    else:
        kind, build, weigh = _data_problem(data, runs, moving)
    return prepared(f"shallow_icl.train, {kind.__name__}", build, weigh, runs, blocks=moving)


def _blocks(data: Data, runs: Runs, blocks: str | None) -> str:
    """Which blocks are trained, checked against what the data and the model allow."""
    start, population = runs.start, isinstance(data, Task)
    kind = "the population" if population else "a data set"
    if blocks is None:
        blocks = "zero" if population or start.kind == "mlp" else "all"
    validation.one_of("blocks", blocks, ("all", "zero", "aligned"))
    if start.attention == "softmax" and (population or blocks != "all"):
        raise ValueError(
            "data must be sequences and blocks 'all' for softmax attention: it has no moments"
        )
    if (blocks == "all" and population) or (blocks == "aligned" and not population):
        raise ValueError(f"blocks cannot be {blocks!r} on {kind}")
    if blocks == "all" and start.kind == "mlp":
        raise ValueError("blocks must be 'zero' for an MLP, not 'all': it has no other weights")
    if blocks == "aligned" and (start.rank is not None or runs.task.outputs > 1):
        raise ValueError("blocks 'aligned' is for merged attention with one output only")
    if blocks != "all" and not start.zero_blocks:
        raise ValueError(f"zero_blocks must be true when blocks is {blocks!r}, as on {kind}")
    wrong = [n for n, x in runs.tests.items() if isinstance(x, Task) != population]
    if wrong:
        expected = "tasks" if population else "sequences"
        raise ValueError(f"tests must be {expected} on {kind}; {', '.join(wrong)} is not")
    return blocks


Built = tuple[type[_Problem], Callable[[], tuple[_Problem, Params]], Weigh]


def _without_zeros(weights: Mapping[str, np.ndarray], dim: int) -> dict[str, np.ndarray]:
    """The blocks of live weights that need not be zero."""
    parts = {"value": weights["value"][..., dim:]}
    if "key_query" in weights:
        return parts | {"key_query": weights["key_query"][..., :dim, :]}
    return parts | {"key": weights["key"][..., :dim], "query": weights["query"]}


def _with_zeros(params: Mapping[str, np.ndarray], outputs: int, dim: int) -> dict[str, np.ndarray]:
    """Logged blocks back in their places; the last axis is the log points."""

    def pad(x: np.ndarray, axis: int, before: int, after: int) -> np.ndarray:
        return np.pad(x, [(before, after) if k == axis else (0, 0) for k in range(x.ndim)])

    parts = {"value": pad(params["value"], 3, dim, 0)}
    if "key_query" in params:
        return parts | {"key_query": pad(params["key_query"], 2, 0, outputs)}
    return parts | {"key": pad(params["key"], 3, 0, outputs), "query": params["query"]}


def _rows(data: Sequences) -> type[Asked] | type[Prefixes]:
    """What softmax attention is shown of sequences."""
    return Prefixes if data.task.lengths == "varied" else Asked


def _data_problem(data: Sequences | Statistics, runs: Runs, blocks: str) -> Built:
    """On the moments of a data set; for softmax on the queries' rows."""
    task, factor = runs.task, runs.factor

    def weigh(logged: Logged) -> Logged:
        logged = {name: x / factor for name, x in logged.items()}
        return _with_zeros(logged, task.outputs, task.dim) if blocks == "zero" else logged

    softmax = runs.start.attention == "softmax"
    for name, other in {"data": data, **runs.tests}.items():
        if softmax:
            if not isinstance(other, Sequences):
                raise ValueError(f"{name} must be sequences for softmax attention, not {other!r}")
            held = _rows(other).held(other, runs.start.heads)
            memory.refuse("sequences", len(other), held * len(runs.seeds) * len(runs.rates))
        if isinstance(other, Statistics) and other.blocks != blocks:
            raise ValueError(f"{name} must be statistics with blocks {blocks!r}, not {other!r}")

    def seen(data: Any) -> Any:
        if softmax:
            return _rows(data).of(data)
        if isinstance(data, Sequences):
            data = statistics(data, blocks)  # pyright: ignore[reportArgumentType]
        return data.moments

    kind = QueryRowProblem if softmax else MomentProblem

    def build() -> tuple[_Problem, Params]:
        weights = live(runs.starts(), task.dim)
        if blocks == "zero":
            weights = _without_zeros(weights, task.dim)
        params = {name: stage(factor * x) for name, x in weights.items()}
        rate = runs.per_run(runs.paper_rates)
        return kind(seen(data), {name: seen(x) for name, x in runs.tests.items()}, rate), params

    return kind, build, weigh


def _population_problem(runs: Runs, blocks: str) -> Built:
    """On the population: all weights, or what is left of them after the escape."""
    task, factor = runs.task, runs.factor
    basis = np.eye(task.dim) if task.basis is None else np.asarray(task.basis)
    for name, test in runs.tests.items():
        other = np.eye(task.dim) if test.basis is None else np.asarray(test.basis)
        if not np.array_equal(basis, other):
            raise ValueError(f"tests must have the task's own basis; {name!r} has another")
    kind = AlignedProblem if blocks == "aligned" else PopulationProblem

    def weigh(logged: Logged) -> Logged:
        if blocks == "aligned":  # one head
            diagonal = np.eye(task.dim)[:, :, None] * logged["modes"][:, None]
            logged = {"value": logged["size"][:, None, None, None], "key_query": diagonal[:, None]}
        logged = {name: x / factor for name, x in logged.items()}
        for name in ("key", "query", "key_query"):
            if name in logged:
                logged[name] = np.einsum("de,...ep->...dp", basis, logged[name])
        if "key_query" in logged:
            logged["key_query"] = np.einsum("df,...fep->...dep", basis, logged["key_query"])
        return _with_zeros(logged, task.outputs, task.dim)

    def build() -> tuple[_Problem, Params]:
        moments = population(task)
        problem = kind(
            moments,
            {name: population(x) for name, x in runs.tests.items()},
            runs.per_run(runs.paper_rates),
        )
        weights = _without_zeros(live(runs.starts(), task.dim), task.dim)
        weights = {name: factor * x for name, x in weights.items()}
        for name in ("key", "query", "key_query"):  # into the eigenbasis
            if name in weights:
                weights[name] = weights[name] @ basis
        if "key_query" in weights:
            weights["key_query"] = basis.T @ weights["key_query"]
        if blocks == "zero":
            return problem, {name: stage(x) for name, x in weights.items()}
        if not moments.is_diagonal:
            raise ValueError("task_covariance must be None when blocks is 'aligned'")
        # Only the growing mode, w₂ and W₁ m in equal parts, survives the escape.
        direction = np.asarray(moments.cross) / np.linalg.norm(moments.cross)
        modes = np.einsum("nhdd,d->nh", weights["key_query"], direction)
        size = 0.5 * np.linalg.norm(weights["value"][:, :, 0, 0] + modes, axis=1)
        return problem, {"size": stage(size), "modes": stage(size[:, None] * direction)}

    return kind, build, weigh
