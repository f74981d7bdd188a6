"""What a training run is asked for, and what it gives, on tokens and in the reduction alike."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, UInt32

from .. import memory, training, validation
from ..compiling import jit, stage
from . import task as tasks
from .start import Init, SoftmaxInit
from .task import Task


@dataclass(frozen=True, repr=False)
class Run(training.Run):
    """A training run of the msfr lab.

    Attributes:
        loss: the population loss, ``½ Σ_s p_s (f_s − Λ_s)²``.
        train_loss: the same with the data set's task shares #_s/N; the population's without one.
        predictions: f_s, (…, tasks, points); for softmax attention averaged over the signs.
    """

    train_loss: Float[Array, "*runs points"]
    predictions: Float[Array, "*runs tasks points"]


def learned_tasks(task: Task, size: Any) -> Bool[Array, " tasks"]:
    """Which tasks s < D a model of size D learns."""
    task.fit(1.0)
    size = task.num_tasks + 1 if size is None else size
    size = validation.whole("size", size, 1, task.num_tasks + 1)
    return stage(np.arange(1, task.num_tasks + 1) < size)


@jit
def _streams(seed: Array) -> tuple[UInt32[Array, " words"], UInt32[Array, " words"]]:
    """Those of fresh batches, and of the orders in which a data set is gone through."""
    orders = jax.random.fold_in(jax.random.key(seed), 2)  # beside the two of `seed_keys`
    return jax.random.key_data(tasks.seed_keys(seed)[0]), jax.random.key_data(orders)


def checked(
    task: Any, init: Any, size: Any, data: Any, batch: Any, seed: int | Sequence[int]
) -> tuple[Task, Bool[Array, " tasks"], int | None, int | None, list[int]]:
    """The law as it is trained on, the tasks learned, data, batch and seeds; or an error.

    A batch of the whole data set is none: every step trains on all of it.
    """
    if not isinstance(task, Task):
        raise ValueError(f"task must be a msfr.Task, not {type(task).__name__}")
    if not isinstance(init, Init | SoftmaxInit):
        raise ValueError(
            f"init must be a msfr.Init or a msfr.SoftmaxInit, not {type(init).__name__}"
        )
    validation.concrete("task and init", task, init, why="training starts")
    if isinstance(data, float) and data == math.inf:
        data = None
    data = None if data is None else validation.whole("data", data, 1)
    batch = None if batch is None else validation.whole("batch", batch, 1, data)
    batch = None if batch == data else batch
    validation.needs_double("training")
    task.fit(40.0)
    seeds = [tasks.check_seed(s) for s in training.seeds_of(seed)[0]]
    whole = isinstance(init, SoftmaxInit) or data is not None or batch is not None
    return task.rounded() if whole else task, learned_tasks(task, size), data, batch, seeds


def batch_stream(data: int | None, batch: int | None, seed: int) -> UInt32[Array, " words"] | None:
    """The key, as numbers, of the stream from which mini-batches, or their orders, are drawn."""
    return None if batch is None else _streams(stage(seed))[0 if data is None else 1]


def prepared(
    trainer: str,
    build: Callable[..., tuple[Any, Any]],
    task: Any,
    init: Any,
    *,
    lr: Any,
    optimizer: Any,
    size: Any,
    data: Any,
    batch: Any,
    seed: int | Sequence[int],
) -> training.Training[Run]:
    """The training of all seeds; `build` makes the problem of one and where it starts.

    It is called with the law, `init`, which tasks are learned, data, batch and the seed.
    """
    law, learned, data, batch, seeds = checked(task, init, size, data, batch, seed)
    many = training.seeds_of(seed)[1]
    validation.concrete("lr", lr, why="training runs")
    if data is not None:
        memory.refuse("data", data, 32.0 * data * (1 if batch is None else len(seeds)))
    if batch is not None:
        memory.refuse("batch", batch, 32.0 * batch * len(seeds))

    def problems() -> tuple[Any, Any]:
        built = [build(law, init, learned, data, batch, s) for s in seeds]
        return training.SideBySide.of(built) if many else built[0]

    def drawn(problem: Any, _: Any) -> dict[str, Any]:
        one = problem.problems if many else problem
        return {} if data is None else {"drawn": one.drawn}

    return training.Training(
        problems,
        Run.of,
        {
            "kind": f"{trainer}, {'linear' if isinstance(init, Init) else 'softmax'}",
            "task": law,
            "init": init,
            "size": None if size is None else int(size),
            "data": data,
            "batch": batch,
            "seed": seeds if many else seeds[0],
        },
        drawn,
        lr=lr,
        optimizer=optimizer,
        log_points=training.LOG_POINTS,
        check=lambda _, points: law.fit((3.0 * points + 60.0) * len(seeds)),
    )
