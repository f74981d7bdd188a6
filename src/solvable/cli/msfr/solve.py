"""``solvable solve msfr``: L(t) of gradient flow on linear attention, in closed form."""

from dataclasses import asdict, dataclass
from typing import Literal

from ..compute import ComputeOptions
from ..output import Curve, OutputOptions
from ..progress import Waiting
from ..screen import symbols
from .options import LinearStart, ResourceOptions, TaskOptions

MAX_TIME = 1e300


@dataclass(frozen=True)
class TimeOptions:
    """When the loss is looked at: times evenly spaced in log t."""

    t_min: float = 1e-3
    """first time t, above 0"""
    t_max: float = 1e2
    """last time t, above the first"""
    points: int = 50
    """number of times, at least 2"""

    def build(self) -> list[float]:
        """The times; the first and the last are exactly those asked for."""
        import numpy as np

        from solvable.validation import floating, whole, within

        within("t_min", floating("t_min", self.t_min), 0.0, MAX_TIME, open_low=True)
        within("t_max", floating("t_max", self.t_max), self.t_min, MAX_TIME, open_low=True)
        return np.geomspace(self.t_min, self.t_max, whole("points", self.points, 2)).tolist()


@dataclass(frozen=True)
class SolveMsfr:
    """Compute L(t) of gradient flow on linear attention, in closed form."""

    task: TaskOptions
    init: LinearStart
    resource: ResourceOptions
    time: TimeOptions
    output: OutputOptions
    compute: ComputeOptions
    order: Literal["exact", "zeroth", "first"] = "exact"
    """exact at every context length ψ, or the expansion in 1/ψ (Theorem 3.1, App. J)"""

    def run(self) -> int:
        """Compute the curve and write it."""
        self.output.check()
        with Waiting("solving"):
            self.compute.prepare()
            from solvable import msfr

            time, task, init = self.time.build(), self.task.build(), self.init.build()
            limits = asdict(self.resource)
            loss = msfr.loss(task, init, time, order=self.order, **limits).tolist()
        self.output.write(
            Curve(
                facts={
                    "lab": "msfr",
                    "command": "solve",
                    "task": asdict(self.task),
                    "init": asdict(self.init),
                    "order": self.order,
                    **limits,
                },
                words=self._words(),
                columns={"time": time, "loss": loss},
                shown={"time": "t", "loss": "L(t)"},
            )
        )
        return 0

    def _words(self) -> str:
        order = "exact" if self.order == "exact" else f"{self.order} order in 1/ψ"
        start = symbols(asdict(self.init))
        return f"msfr, theory ({order})\n{self.task.words()}, {start}{self.resource.words()}"
