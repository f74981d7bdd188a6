"""The published figures' settings, and the thirty starts that their runs have."""

import functools
import json
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np

from .. import validation
from .schedule import decay
from .state import State
from .task import Task


@dataclass(frozen=True, repr=False)
class Published:
    """One of the published optimisation figures: its task, its runs, how they are trained.

    Attributes:
        figure: 4a, 4b, 5, 7a or 7b.
        task: the data law.
        start: the starts of its 30 runs; 4a, 7a and 7b have the same.
        lam: λ_0, with
        lam_decay: the rate of ``λ_t = λ_0/(1 + rate·t)``, 0 where λ is constant.
        lr: α, the step size.
        steps: how many.
        batch: of SGD; None for projected gradient descent on the exact risk.
        shown: the runs whose paths the figure shows.
    """

    figure: str
    task: Task
    start: State
    lam: float
    lam_decay: float
    lr: float
    steps: int
    batch: int | None = None
    shown: tuple[int, ...] = field(default=())

    @property
    def how(self) -> dict[str, Any]:
        """What `train` and `train_brute` take besides the task and the start."""
        lam = decay(self.lam, self.lam_decay) if self.lam_decay else self.lam
        return {"lam": lam, "lr": self.lr, "steps": self.steps, "batch": self.batch}

    def __repr__(self) -> str:
        told = {name: getattr(self, name) for name in ("task", "lam", "lam_decay", "lr", "steps")}
        return f"Published({self.figure!r}, {validation.brief(**told)}, batch={self.batch})"


@functools.cache
def _stored() -> dict[str, Any]:
    return json.loads(
        (files("solvable.single_location") / "published_starts.json").read_text("utf-8")
    )


def numbers(figure: str) -> dict[str, Any]:
    """The numbers of a figure's setting, the name of its starts among them."""
    figures = _stored()["figures"]
    validation.one_of("figure", figure, tuple(figures))
    return dict(figures[figure])


def published(figure: str) -> Published:
    """The setting of a published figure and the starts of its runs, as five scalars.

    They are those of the authors' code, with its random numbers: k*, v*, k and v are normal vectors
    in single precision from the key 0 of JAX's generator (the older, not the partitionable one),
    projected and normalised in double precision here. They differ by at most 1e-7 from what the
    code itself makes of them in single precision, and runs from them end at the same minima with
    the same signs (4a, 4b, 7b). Of Fig. 5 the batches are not stored.

    Args:
        figure: 4a, 4b, 5, 7a or 7b.

    Reference: Sec. 5, Figs. 4a, 4b, 5, 7a, 7b, by the authors' code.

    >>> from solvable import single_location as sl
    >>> setting = sl.published("7b")
    >>> setting.task.dim, setting.lam, setting.start.runs
    (400, 0.1, (30,))
    >>> run = sl.train(setting.task, setting.start, **setting.how)
    >>> print(run.outcome)
    16 at the oracle, 14 at the swapped minimum
    """
    row = numbers(figure)
    task = Task(*(row[name] for name in ("dim", "length", "gamma", "noise")))
    start = State(*np.array(_stored()["starts"][row["starts"]]).T)
    how = {name: row[name] for name in ("lam", "lam_decay", "lr", "steps", "batch")}
    return Published(figure, task, start, **how, shown=tuple(row["shown"]))
