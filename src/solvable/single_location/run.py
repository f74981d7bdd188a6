"""What a training run is asked for, and what it gives, in R^d and in five scalars alike."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from .. import training, validation
from ..compiling import stage
from .schedule import Schedule, check_schedule, schedule_of, told
from .state import NAMES, State, check_runs
from .task import Task, check_task
from .theory import Outcome, ended


@dataclass(frozen=True, repr=False)
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

    @property
    def outcome(self) -> Outcome:
        """Where the runs are at the last step: |ν| > 0.9 is at the oracle, |η| > 0.9 swapped.

        κ is not asked for: at the oracle it may still be growing; but next to ±(1, −1), which are
        sources, a run is undecided. So is one with both above 0.9: at large λ there is another
        minimum, where k and v have turned together.
        """
        return ended(*(np.asarray(x)[..., -1] for x in (self.kappa, self.nu, self.eta)))


def checked(
    task: Any, start: Any, lam: Any, lr: Any, batch: Any, seed: Any
) -> tuple[State, Schedule, Float[Array, ""], int | None, int]:
    """The start on one axis of runs, λ, the rate, batch and seed; or an error."""
    check_task(task)
    if not isinstance(start, State):
        raise ValueError(
            "start must be a single_location.State, such as sphere or manifold give, not "
            f"{type(start).__name__}"
        )
    check_runs(start)
    rate = training.check_rate(lr)
    batch = None if batch is None else validation.whole("batch", batch, 1)
    flat = State.raw(*(getattr(start, name).reshape(-1) for name in NAMES))
    return flat, schedule_of(lam), rate, batch, validation.whole("seed", seed)


def prepared(
    trainer: str,
    build: Callable[[], tuple[Any, Any]],
    task: Task,
    start: State,
    *,
    schedule: Schedule,
    lr: Float[Array, ""],
    batch: int | None,
    attention: str,
    seed: int,
    draws: Any = None,
    drawn: Callable[[Any, Any], Mapping[str, Any]] | None = None,
) -> training.Training[Run]:
    """The training of a built problem; seed and draws are of its origin with SGD only."""

    def label(history: training.History, _: float) -> Run:
        seen = dict(history.observed)
        lam, test = seen.pop("lam"), seen.pop("test_loss", None)

        def shaped(x: Any) -> Any:
            return stage(np.asarray(x).reshape(*start.runs, x.shape[-1]))

        with np.errstate(over="ignore"):
            time = float(lr) * history.step
        return Run(
            step=history.step,
            time=time,
            state=history.state,
            lam=lam,
            test_loss=None if test is None else shaped(test),
            **{name: shaped(x) for name, x in seen.items()},
        )

    # Runs that were kept say nothing of erf.
    trainer = trainer if attention == "erf" else f"{trainer}, {attention} attention"
    origin = {
        "kind": f"{trainer}, {'projected gradient descent' if batch is None else 'SGD'}",
        "task": task,
        "lam": told(schedule),
        "batch": batch,
        "seed": None if batch is None else str(seed),
        "start": start,
    }
    return training.Training(
        build,
        label,
        origin if batch is None else {**origin, "draws": draws},
        drawn,
        lr=lr,
        check=lambda steps, _: check_schedule(schedule, steps),
    )
