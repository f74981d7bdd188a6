"""What a training run is asked for, and what it gives, on tokens and in the reduction alike."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .. import training, validation
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
    if size is None:
        return jnp.ones(task.num_tasks, bool)
    size = validation.whole("size", size, 1, task.num_tasks + 1)
    return jnp.arange(1, task.num_tasks + 1) < size


@dataclass(frozen=True)
class Request:
    """What a run was asked for, checked: shared by `train` and `train_brute`."""

    task: Task
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
        if data is not None and data == math.inf:
            data = None
        if data is not None and batch is not None:
            raise ValueError(
                "data and batch cannot both be given: batch draws fresh data at every step"
            )
        data = None if data is None else validation.whole("data", data, 1)
        batch = None if batch is None else validation.whole("batch", batch, 1)
        seeds, many = training.seeds_of(seed)
        whole = isinstance(init, SoftmaxInit) or data is not None or batch is not None
        learned = learned_tasks(task, size)
        return cls(task.rounded() if whole else task, learned, data, batch, seeds, many)

    def batch_key(self, seed: int) -> Array | None:
        """The stream from which mini-batches are drawn."""
        return None if self.batch is None else tasks.seed_keys(seed)[0]

    def run(
        self,
        build: Callable[["Request", int], tuple[training.Problem, Any]],
        *,
        lr: Any,
        optimizer: Any,
        steps: int,
        log_every: int | None,
        progress: training.Progress | None,
        resume: Run | None,
    ) -> Run:
        """Build the problem of every seed, train, and label what was logged."""
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
            lr=lr,
            optimizer=optimizer,
            steps=steps,
            log_every=log_every,
            progress=progress,
            resume=resume,
        )
