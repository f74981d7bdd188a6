"""What a training run is asked for, and what it gives, in R^d and in five scalars alike."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from .. import training, validation
from ..compiling import stage
from .schedule import Schedule, schedule_of, told
from .state import NAMES, State
from .task import Task, check_task


@dataclass(frozen=True)
class Run(training.Run):
    """A training run of the single_location lab; state, λ and risk are those of the same step.

    Attributes:
        loss: the excess risk R − ε².
        lam: λ of every log point.
        kappa, nu, theta, eta, rho: the five scalars.
        distance: √(θ² + η² + ρ²), to the invariant manifold.
        test_loss: on a fixed batch of tokens, minus ε²; of `train_brute` with `batch` only.
    """

    lam: Float[Array, " points"]
    kappa: Float[Array, "*runs points"]
    nu: Float[Array, "*runs points"]
    theta: Float[Array, "*runs points"]
    eta: Float[Array, "*runs points"]
    rho: Float[Array, "*runs points"]
    distance: Float[Array, "*runs points"]
    test_loss: Float[Array, "*runs points"] | None


def check_rate(lr: Any) -> Float[Array, ""]:
    """A step size above 0."""
    rate = validation.floating("lr", lr)
    validation.shaped("lr", rate, ())
    validation.within("lr", rate, 0.0, open_low=True)
    return rate


@dataclass(frozen=True)
class Request:
    """What a run was asked for, checked: shared by `train` and `train_brute`."""

    task: Task
    start: State
    schedule: Schedule
    lr: Float[Array, ""]
    batch: int | None
    seed: int
    steps: int

    @classmethod
    def check(
        cls, task: Any, start: Any, lam: Any, lr: Any, batch: Any, seed: Any, steps: Any
    ) -> "Request":
        """Validate the arguments that both kinds of training take."""
        check_task(task)
        if not isinstance(start, State):
            raise ValueError(
                "start must be a single_location.State, such as sphere or manifold give, not "
                f"{type(start).__name__}"
            )
        rate = check_rate(lr)
        batch = None if batch is None else validation.whole("batch", batch, 1)
        seed, steps = validation.whole("seed", seed), validation.whole("steps", steps)
        return cls(task, start, schedule_of(lam, steps), rate, batch, seed, steps)

    @property
    def flat(self) -> State:
        """The start with exactly one axis of runs."""
        return State.raw(*(getattr(self.start, name).reshape(-1) for name in NAMES))

    def origin(self, kind: str, **draws: Any) -> dict[str, Any]:
        """What the run depends on; the seed, and what else is told of the draws, with SGD only."""
        return {
            "kind": kind,
            "task": self.task,
            "lam": told(self.schedule),
            "batch": self.batch,
            "seed": None if self.batch is None else str(self.seed),
            "start": self.start,
            **draws,
        }

    def run(self, problem: Any, params: Any, **options: Any) -> Run:
        """Train, and label what was logged."""

        def label(history: training.History, _: float) -> Run:
            seen = dict(history.observed)
            lam, test = seen.pop("lam"), seen.pop("test_loss", None)

            def shaped(x: Any) -> Any:
                return stage(np.asarray(x).reshape(*self.start.runs, x.shape[-1]))

            with np.errstate(over="ignore"):
                time = float(self.lr) * history.step
            return Run(
                step=history.step,
                time=time,
                state=history.state,
                lam=lam,
                test_loss=None if test is None else shaped(test),
                **{name: shaped(x) for name, x in seen.items()},
            )

        return training.follow(problem, params, label, lr=self.lr, steps=self.steps, **options)
