"""What a training run is asked for, and what it gives, on tokens and in the reductions alike."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from .. import training, validation
from ..compiling import stage
from .start import Start
from .statistics import Statistics
from .task import Sequences, Task
from .units import unit_factor

_LARGEST_RATE = 1e100


@dataclass(frozen=True, repr=False)
class Run(training.Run):
    """A training run of the shallow_icl lab.

    Runs side by side are on leading axes: rates first, then seeds, each where several were given.

    Attributes:
        time: t/τ, of which a step of rate η (in the paper's units) is 2η; with several rates it has
            their axis.
        loss: the mean of (y_q − ŷ_q)² over the sequences it is trained on, or of the population.
        tests: the losses on other data, by the names they were given.
        value: the bottom rows ``[𝐯ᵀ, v]`` of every W^V, (…, heads, outputs, features, points).
        key_query: the first `dim` columns ``[U; uᵀ]`` of every W^KQ, (…, heads, features, dim,
            points); None where key and query are separate.
        key: the rows ``[kᵀ, κ]`` of every W^K, (…, heads, rank, features, points), or None.
        query: the first `dim` columns of every W^Q, (…, heads, rank, dim, points), or None.
        map: M of ``ŷ = βᵀ M x_q``, β = (1/N) Σ y_n x_n, (…, dim, dim, points); None for softmax
            attention and for several outputs.

    All weights are in the units that were asked for; the entries left out never move.
    """

    time: Float[np.ndarray, "*rates points"]
    tests: dict[str, Float[Array, "*runs points"]]
    value: Float[Array, "*runs heads outputs features points"]
    key_query: Float[Array, "*runs heads features dim points"] | None
    key: Float[Array, "*runs heads rank features points"] | None
    query: Float[Array, "*runs heads rank dim points"] | None
    map: Float[Array, "*runs dim dim points"] | None


def live(weights: Mapping[str, Any], dim: int) -> dict[str, Any]:
    """The entries of whole weight matrices that reach the prediction."""
    parts = {"value": weights["value"][..., dim:, :]}
    if "key_query" in weights:
        return parts | {"key_query": weights["key_query"][..., :dim]}
    return parts | {"key": weights["key"], "query": weights["query"][..., :dim]}


def each_run(gradient: Callable[[Any], Any], params: Any, rate: Float[Array, " runs"]) -> Any:
    """Every run's gradient times its rate."""

    def one(params: Any, rate: Float[Array, ""]) -> Any:
        return jax.tree.map(lambda g: rate * g, gradient(params))

    return jax.vmap(one)(params, rate)


def chosen_rates(
    rate: Float[Array, " runs"], runs: Int[np.ndarray, " chosen"]
) -> Float[Array, " chosen"]:
    """The rates of some runs, picked on the host."""
    return stage(np.asarray(rate)[runs])


def _map(weights: Mapping[str, Any]) -> Float[np.ndarray, "runs dim dim points"]:
    """``Σ_i v_i U_i`` of live weights with one output."""
    v, inner = weights["value"][:, :, 0, -1], weights["key_query"]
    with np.errstate(over="ignore", invalid="ignore"):  # a diverging run says so by its status
        if inner is None:
            key = weights["key"][:, :, :, :-1]
            inner = np.einsum("nhrdp,nhrep->nhdep", key, weights["query"])
        return np.einsum("nhp,nhdep->ndep", v, inner[:, :, : weights["value"].shape[3] - 1])


def positive_rates(rates: Float[Array, "..."]) -> None:
    """Raise unless learning rates are positive, and their squares are numbers."""
    validation.within("lr", rates, 0.0, open_low=True)
    largest = float(np.asarray(rates).max())
    if largest > _LARGEST_RATE:
        raise ValueError(f"lr must be at most {_LARGEST_RATE:g}, not {largest:g}")


def _task_of(data: Any) -> Task | None:
    """The law of any kind of data, or None of what is no data."""
    if isinstance(data, Task):
        return data
    return data.task if isinstance(data, Sequences | Statistics) else None


Data = Task | Sequences | Statistics
Logged = Mapping[str, np.ndarray]
Weigh = Callable[[Logged], Logged]


@dataclass(frozen=True)
class Runs:
    """Runs side by side, every rate with every seed; the law they are of, and what tests them."""

    task: Task
    start: Start
    units: str
    rates: np.ndarray
    many_rates: bool
    seeds: list[int]
    many_seeds: bool
    tests: dict[str, Any]

    @property
    def factor(self) -> float:
        """By which weights in the units asked for are multiplied to be in the paper's."""
        return unit_factor(self.task, self.start, self.units)

    @property
    def paper_rates(self) -> np.ndarray:
        """The rates in the paper's units."""
        return self.factor**2 * self.rates

    def starts(self) -> dict[str, np.ndarray]:
        """The whole weights of every run, in the units asked for; runs on the first axis."""
        drawn = [self.start.draw(self.task, seed) for seed in self.seeds]
        tiled = drawn * len(self.rates)
        return {name: np.stack([weights[name] for weights in tiled]) for name in drawn[0]}

    def per_run(self, rates: np.ndarray) -> Float[Array, " runs"]:
        """The rate of every run."""
        return stage(np.repeat(rates, len(self.seeds)))

    def shaped(self, array: Any) -> Any:
        """The axis of runs split into those of rates and of seeds, where there are any."""
        lead = (len(self.rates),) * self.many_rates + (len(self.seeds),) * self.many_seeds
        return array.reshape(lead + array.shape[1:])

    def label(self, weigh: Weigh, history: training.History) -> Run:
        """What was logged, with live weights made by `weigh`."""
        # On the host: every operation on a shape of its own would be compiled.
        seen: dict[str, Any] = jax.tree.map(np.asarray, history.observed)
        time = 2.0 * self.paper_rates[:, None] * history.step
        weights: dict[str, Any] = dict.fromkeys(("key_query", "key", "query", "map"))
        weights |= weigh(seen["params"])
        if self.start.attention == "linear" and self.task.outputs == 1:
            # Two or three weights a head: c² or c³ is the N that the code leaves out.
            power = 2 if self.start.rank is None else 3
            weights["map"] = self.factor**power * _map(weights)

        def logged(x: np.ndarray | None) -> Any:
            return None if x is None else stage(self.shaped(x))

        return Run(
            step=history.step,
            time=time if self.many_rates else time[0],
            state=history.state,
            tests={name: logged(seen["tests"][name]) for name in self.tests},
            **{name: logged(x) for name, x in {"loss": seen["loss"], **weights}.items()},
        )


def checked(
    data: Any,
    start: Any,
    lr: Any,
    units: Any,
    seed: int | Sequence[int],
    tests: Mapping[str, Any] | None,
) -> Runs:
    """The runs that are asked for, or an error."""
    task = _task_of(data)
    if task is None:
        raise ValueError(
            "data must be shallow_icl.Sequences, their Statistics, or a shallow_icl.Task for "
            f"the population, not {type(data).__name__}"
        )
    if not isinstance(start, Start):
        raise ValueError(f"start must be made by merged, separate or mlp, not {start!r}")
    start.fits(task)
    for name, value in (("data", data), ("lr", lr), ("tests", tests)):
        validation.concrete(name, value, why="training is followed")
    rates = validation.floating("lr", lr)
    if rates.ndim > 1 or rates.size == 0:
        raise ValueError(f"lr must be a number or one axis of them, not of shape {rates.shape}")
    positive_rates(rates)
    unit_factor(task, start, units)
    if tests is not None and not isinstance(tests, Mapping):
        raise ValueError(f"tests must be a mapping of names to data, not {tests!r}")
    for name, other in (tests or {}).items():
        law = _task_of(other)
        if law is None or (law.dim, law.outputs) != (task.dim, task.outputs):
            raise ValueError(
                f"tests must be Sequences, Statistics or Tasks of dim {task.dim} and outputs "
                f"{task.outputs}; {name!r} is not"
            )
    seeds, many = training.seeds_of(seed)
    start.refuse_large(task, len(seeds) * rates.size)
    several = np.atleast_1d(np.asarray(rates, float))
    return Runs(task, start, units, several, rates.ndim == 1, seeds, many, dict(tests or {}))


def prepared(
    kind: str, build: Callable[[], tuple[Any, Any]], weigh: Weigh, runs: Runs, *, blocks: str
) -> training.Training[Run]:
    """The training of runs side by side.

    Args:
        kind: the trainer's name.
        build: makes a problem whose gradients are multiplied by the rate of every run already, and
            which observes "loss", "tests" and "params"; and where it starts.
        weigh: makes live weights, in the units asked for, of the logged params.
        runs: which they are.
        blocks: which of the weights move.
    """
    origin = {
        "kind": kind,
        "blocks": blocks,
        "task": runs.task,
        "start": runs.start,
        "units": runs.units,
        "lr": runs.rates if runs.many_rates else runs.rates[0],
        "seed": runs.seeds if runs.many_seeds else runs.seeds[0],
    }
    return training.Training(
        build,
        lambda history, _: runs.label(weigh, history),
        origin,
        lambda problem, _: {"data": problem.train, "tests": problem.tests},
        lr=1.0,
    )
