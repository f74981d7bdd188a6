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


@dataclass(frozen=True)
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
def _task_stream(seed: Array) -> UInt32[Array, " words"]:
    return jax.random.key_data(tasks.seed_keys(seed)[0])


@dataclass(frozen=True)
class Request:
    """What a run was asked for, checked: shared by `train` and `train_brute`."""

    task: Task
    init: Init | SoftmaxInit
    size: int | None
    learned: Bool[Array, " tasks"]
    data: int | None
    batch: int | None
    seeds: list[int]
    many: bool

    @classmethod
    def check(
        cls, task: Any, init: Any, size: Any, data: Any, batch: Any, seed: int | Sequence[int]
    ) -> "Request":
        """Validate the arguments that both kinds of training take."""
        if not isinstance(task, Task):
            raise ValueError(f"task must be a msfr.Task, not {type(task).__name__}")
        if not isinstance(init, Init | SoftmaxInit):
            raise ValueError(
                f"init must be a msfr.Init or a msfr.SoftmaxInit, not {type(init).__name__}"
            )
        validation.concrete("task and init", task, init, why="training starts")
        if isinstance(data, float) and data == math.inf:
            data = None
        if data is not None and batch is not None:
            raise ValueError(
                "data and batch cannot both be given: batch draws fresh data at every step"
            )
        data = None if data is None else validation.whole("data", data, 1)
        batch = None if batch is None else validation.whole("batch", batch, 1)
        validation.needs_double("training")
        task.fit(40.0)
        seeds, many = training.seeds_of(seed)
        seeds = [tasks.check_seed(s) for s in seeds]
        whole = isinstance(init, SoftmaxInit) or data is not None or batch is not None
        learned = learned_tasks(task, size)
        size = None if size is None else int(size)
        law = task.rounded() if whole else task
        return cls(law, init, size, learned, data, batch, seeds, many)

    def batch_stream(self, seed: int) -> UInt32[Array, " words"] | None:
        """The key, as numbers, of the stream from which mini-batches are drawn."""
        return None if self.batch is None else _task_stream(stage(seed))

    def run(
        self,
        kind: str,
        build: Callable[["Request", int], tuple[Any, Any]],
        *,
        lr: Any,
        optimizer: Any,
        steps: int,
        log_every: int | None,
        progress: training.Progress | None,
        resume: Run | None,
    ) -> Run:
        """Build the problem of every seed, train, and label what was logged."""
        validation.concrete("lr", lr, why="training runs")
        self._fit(steps, log_every)
        built = [build(self, seed) for seed in self.seeds]
        if self.many:
            problems, starts = (training.SideBySide.stack(x) for x in zip(*built, strict=True))
            problem, params = training.SideBySide(problems), starts
        else:
            problem, params = built[0]
        return training.follow(
            problem,
            params,
            Run.of,
            origin={
                "kind": kind,
                "task": self.task,
                "init": self.init,
                "size": self.size,
                "data": self.data,
                "batch": self.batch,
                "seed": self.seeds if self.many else self.seeds[0],
                "drawn": None if self.data is None else [p.drawn for p, _ in built],
            },
            lr=lr,
            optimizer=optimizer,
            steps=steps,
            log_every=log_every,
            progress=progress,
            resume=resume,
        )

    def _fit(self, steps: int, log_every: int | None) -> None:
        """Refuse logs of predictions that are more than memory has room for."""
        points = len(training.log_steps(steps, log_every))
        self.task.fit((3.0 * points + 60.0) * len(self.seeds))
        if self.data is not None:
            memory.refuse("data", self.data, 32.0 * self.data)
        if self.batch is not None:
            memory.refuse("batch", self.batch, 32.0 * self.batch * len(self.seeds))
