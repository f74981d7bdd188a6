"""``solvable solve msfr``: L(t) of gradient flow on linear attention, in closed form."""

from dataclasses import asdict, dataclass
from typing import Literal

from ..compute import ComputeOptions
from ..output import Curve, OutputOptions
from ..progress import Waiting
from ..screen import symbols
from ..times import TimeOptions
from .options import LinearStart, ResourceOptions, TaskOptions

MAX_TIME = 1e300


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

            time, task, init = self.time.build(MAX_TIME), self.task.build(), self.init.build()
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
