"""How something is trained, and when it is looked at: groups that questions are made of."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from .question import Group, Question, parameters, real, whole

LOG_POINTS = 200


@dataclass(frozen=True)
class Schedule(Group):
    """How it is trained; t = lr × step.

    Where neither `log_every` nor `log_points` is given, points are evenly spaced in log step.
    """

    linear: ClassVar[bool] = False
    lr: float | None = real(1e-3, "η", "learning rate", 0.0, open_low=True)
    steps: int = whole(5000, "", "number of steps", quiet=True)
    seed: int = whole(0, "", "seed of all that is drawn", quiet=True)
    log_every: int | None = whole(
        None, "", "steps between two points of the curve; instead of log_points", 1, quiet=True
    )
    log_points: int | None = whole(
        None,
        "",
        "points of the curve, evenly spaced in log step",
        2,
        quiet=True,
        told=f"{LOG_POINTS}",
    )

    def pace(self) -> dict[str, Any]:
        """How long training lasts and where its points are, as `Training.run` takes it."""
        logs = {"log_every": self.log_every, "log_points": self.log_points}
        if logs == {"log_every": None, "log_points": None} and not self.linear:
            logs["log_points"] = LOG_POINTS
        return {"steps": self.steps, **logs}


@dataclass(frozen=True)
class Even(Schedule):
    """The same with points that are evenly spaced in step, where neither is given."""

    linear = True
    log_every: int | None = whole(
        None, "", "steps between two points of the curve", 1, quiet=True, told="a 400th of the run"
    )
    log_points: int | None = whole(
        None,
        "",
        "points of the curve, evenly spaced in log step; instead of log_every",
        2,
        quiet=True,
    )


def schedule_of(question: Question) -> Schedule:
    """How a question's witnesses train."""
    return question.schedule  # pyright: ignore[reportAttributeAccessIssue]


@dataclass(frozen=True)
class Times(Group):
    """When it is looked at: times evenly spaced in log t."""

    t_min: float = real(1e-3, "", "first time t", 0.0, 1e300, open_low=True)
    t_max: float = real(1e2, "", "last time t, above the first", 0.0, 1e300, open_low=True)
    points: int = whole(50, "", "number of times", 2)

    def __post_init__(self) -> None:
        limits = parameters(type(self))
        first = limits["t_min"].checked("t_min", self.t_min)
        replace(limits["t_max"], low=first).checked("t_max", self.t_max)
        super().__post_init__()

    def of(self, question: Question) -> "Times":
        """These times, for a settled question on which some of them may depend."""
        return self

    def grid(self) -> list[float]:
        """The times; the first and the last are exactly those asked for."""
        import numpy as np

        from . import memory

        memory.refuse("points", self.points, 1000.0 * self.points)  # as numbers, and as text
        return np.geomspace(self.t_min, self.t_max, self.points).tolist()
