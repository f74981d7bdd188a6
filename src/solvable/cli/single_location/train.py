"""``solvable train single_location``: the excess risk by training k and v."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from .. import descent
from ..arguments import Flag
from ..compute import ComputeOptions
from ..output import Curve, OutputOptions, Rows
from ..progress import Waiting
from .options import SCALARS, DescentOptions, StartOptions, TaskOptions

if TYPE_CHECKING:
    from solvable import single_location

ROWS = 8  # runs whose ends are shown


@dataclass(frozen=True)
class TrainSingleLocation:
    """Train k and v on single-location regression; some runs of Fig. 4b unless told otherwise.

    The loss is the excess risk, a mean over the runs as |κ|, |ν| and the distance are.
    """

    task: TaskOptions
    start: StartOptions
    descent: DescentOptions
    output: OutputOptions
    compute: ComputeOptions
    brute: Flag = False
    """train the vectors in R^d, with --batch on tokens, instead of their five scalars"""

    def run(self) -> int:
        """Train and write the curve; after Ctrl-C, what there is of it."""
        self.output.check()

        def work(progress: Waiting) -> Any:
            from solvable import single_location

            task, options = self.task.build(), self.descent.build()
            start = self.start.build(task, self.descent.seed, self.descent.batch)
            train = single_location.train_brute if self.brute else single_location.train
            return train(task, start, progress=progress, **options)

        run, finished = descent.train(self.compute, work)
        curve = self._curve(run, finished)
        return descent.conclude(self.output, curve, self.descent.steps, finished)

    def _curve(self, run: "single_location.Run", finished: bool) -> Curve:
        columns: dict[str, Any] = {"step": run.step.tolist(), "time": run.time.tolist()}
        columns["loss"] = run.loss.mean(0).tolist()
        columns["abs_kappa"] = abs(run.kappa).mean(0).tolist()
        columns["abs_nu"] = abs(run.nu).mean(0).tolist()
        columns["distance"] = run.distance.mean(0).tolist()
        columns["lam"] = run.lam.tolist()
        if run.test_loss is not None:
            columns["test_loss"] = run.test_loss.mean(0).tolist()
        each = [*SCALARS, "distance", "loss"] + ["test_loss"] * (run.test_loss is not None)
        # What λ is, is seen only where it changes: its column takes the place of t = lr × step.
        second = {"lam": "λ"} if self.descent.lam_decay else {"time": "t"}
        shown = {"step": "step", **second, "loss": "L(t)", "abs_kappa": "|κ|", "abs_nu": "|ν|"}
        return Curve(
            facts={
                "lab": "single_location",
                "command": "train",
                "task": asdict(self.task),
                **self.start.facts(),
                "descent": asdict(self.descent),
                "brute": self.brute,
                "interrupted": not finished,
                # Runs × points: worth its length in the JSON document only.
                "per_run": {name: getattr(run, name).tolist() for name in each}
                if self.output.json
                else {},
            },
            words=self._words(),
            columns=columns,
            shown=shown | {"distance": "distance"},
            rows=_ends(run),
        )

    def _words(self) -> str:
        kind = "projected gradient descent" if self.descent.batch is None else "mini-batch SGD"
        law = "exact reduction" if self.descent.batch is None else "reduction exact in law"
        space = f"brute force in R^{self.task.dim}" if self.brute else law
        how = f"single_location, {kind} ({space})"
        return "\n".join([how, self.start.words(), self.task.words(), self.descent.words()])


def _ends(run: "single_location.Run") -> Rows:
    """Where every run ends: the mean does not tell the oracle from the swapped minimum."""
    runs = len(run.loss)

    def scalar(name: str, k: int) -> str:
        return f"{round(getattr(run, name)[k, -1].item(), 4) + 0.0:.4f}"  # without −0

    rows = [
        (
            str(k),
            f"{run.loss[k, -1]:.5g}",
            *(scalar(name, k) for name in SCALARS),
            f"{run.distance[k, -1]:.2e}",
        )
        for k in range(min(runs, ROWS))
    ]
    remark = f"{ROWS} of {runs} runs; --json tells them all" if runs > ROWS else ""
    return Rows(("run", "last L", *SCALARS.values(), "distance"), rows, remark)
