"""``solvable train deep_icl``: the loss of deep linear attention by training."""

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from .. import descent
from ..arguments import Flag, Maybe
from ..compute import ComputeOptions
from ..output import Curve, OutputOptions
from ..progress import Waiting
from .options import NAMES, StartOptions, TaskOptions, Unit

if TYPE_CHECKING:
    from solvable import deep_icl

LR = 0.5
WEIGHTS_LR = 0.02
STEPS = 2000
FEW_STEPS = 200  # where a step takes its time
CONTEXTS = 64
_WEIGHTS = ("w_x", "w_q", "w_k", "w_v")


@dataclass(frozen=True)
class DescentOptions:
    """Gradient descent; t = lr × step."""

    depth: int = 8
    """depth L, at least 1"""
    lr: Maybe[float] = None
    """step size, above 0 (default: 0.5; with --weights 0.02)"""
    steps: Maybe[int] = None
    """number of steps, at least 0 (default: 2000; 200 with --brute, --width or --context)"""
    layers: Literal["tied", "untied"] = "tied"
    """one γ for all layers, or one for each, which moves with L × lr"""
    time: Unit = "scalar"
    """unit of lr: that of γ, or of the entries of the N × N matrix Γ, N times as slow"""
    log_every: Maybe[int] = None
    """steps between two points of the curve, at least 1; instead of log_points"""
    log_points: Maybe[int] = None
    """points of the curve, evenly spaced in log step, at least 2 (default: 200)"""


@dataclass(frozen=True)
class ContextOptions:
    """Training on contexts: fresh ones at every step."""

    brute: Flag = False
    """train whole matrices on contexts, instead of the few numbers that they come down to"""
    contexts: Maybe[int] = None
    """number B of contexts a step, at least 1 (default: 64)"""
    queries: Maybe[int] = None
    """number K of queries a context, at least 1; the mean over all of them unless given"""
    seed: Maybe[int] = None
    """seed of the contexts, at least 0 (default: 0)"""

    def build(self) -> dict[str, Any]:
        """The library's words for what is of brute force alone."""
        if not self.brute:
            given = [name for name, x in asdict(self).items() if name != "brute" and x is not None]
            if given:
                raise ValueError(f"{given[0]} is for --brute: else nothing is drawn")
            return {}
        contexts = CONTEXTS if self.contexts is None else self.contexts
        return {"contexts": contexts, "seed": 0 if self.seed is None else self.seed}


@dataclass(frozen=True)
class TrainDeepIcl:
    """Train deep linear attention on in-context regression and log L(t).

    On the loss over all contexts, in the exact small state space; with --brute on real contexts.
    """

    task: TaskOptions
    start: StartOptions
    descent: DescentOptions
    sample: ContextOptions
    output: OutputOptions
    compute: ComputeOptions

    def run(self) -> int:
        """Train and write the curve; after Ctrl-C, what there is of it."""
        self.output.check()
        drawn, options = self.sample.build(), asdict(self.descent)
        if options["steps"] is None:
            limited = self.task.width is not None or self.task.context < math.inf
            options["steps"] = FEW_STEPS if self.sample.brute or limited else STEPS
        if options["lr"] is None:
            options["lr"] = LR if self.start.weights is None else WEIGHTS_LR

        def work(progress: Waiting) -> Any:
            from solvable import deep_icl

            task = self.task.build(queries=self.sample.queries)
            if self.sample.brute and task.dim is None:
                raise ValueError("dim must be given for --brute on --law iso")
            if self.sample.brute and self.start.weights is not None:
                for name, value in (("context", task.context), ("queries", task.queries)):
                    if value is None:
                        raise ValueError(f"{name} must be given for --brute with --weights")
            train = deep_icl.train_brute if self.sample.brute else deep_icl.train
            return train(task, self.start.build(), progress=progress, **options, **drawn)

        run, finished = descent.train(self.compute, work)
        curve = self._curve(run, options, drawn, finished)
        return descent.conclude(self.output, curve, options["steps"], finished)

    def _curve(
        self, run: "deep_icl.Run", options: dict[str, Any], drawn: dict[str, Any], finished: bool
    ) -> Curve:
        columns: dict[str, Any] = {
            name: getattr(run, name).tolist() for name in ("step", "time", "loss")
        }
        shown = {"step": "step", "time": "t", "loss": "loss"}
        many = run.gamma.ndim > 1
        columns["gamma"] = (run.gamma.mean(0) if many else run.gamma).tolist()
        shown["gamma"] = "mean γ" if many else "γ"
        if run.weights is not None:
            columns |= zip(_WEIGHTS, run.weights.tolist(), strict=True)
            shown |= {"w_x": "w_x", "w_v": "w_v"}  # four would be too wide
        return Curve(
            facts={
                "lab": "deep_icl",
                "command": "train",
                "task": self.task.facts() | {"queries": self.sample.queries},
                "start": self.start.facts(),
                "descent": options,
                "brute": self.sample.brute,
                **drawn,
                "interrupted": not finished,
                # Layers or directions × points: worth its length in the JSON document only.
                "each_gamma": run.gamma.tolist() if many and self.output.json else None,
            },
            heading=self._words(options, drawn),
            columns=columns,
            shown=shown,
        )

    def _words(self, options: dict[str, Any], drawn: dict[str, Any]) -> str:
        law = self.task.law
        what = "full attention" if self.start.weights is not None else "preconditioner Γ"
        facts = self.task.facts()
        narrow = self.task.width is not None and self.task.width < facts["dim"]
        exact = (options["depth"] == 1 and law == "fs") or self.task.context == math.inf
        if self.sample.brute:
            space = f"matrices on {drawn['contexts']} contexts a step, seed {drawn['seed']}"
        elif law == "iso":
            space = "exact reduction as D → ∞"
        else:
            space = "exact reduction" if exact and not narrow else "deterministic equivalent"
        rate = f"{self.start.words()}, L = {options['depth']}, {options['layers']} layers"
        lines = [
            f"deep_icl, {what}, {NAMES[law]} ({law.upper()})",
            space,
            self.task.words(),
            f"{rate}, lr = {options['lr']:g} in {options['time']} time",
        ]
        alone = self.start.gamma is None or len(self.start.gamma) == 1
        if options["layers"] == "untied" and alone and not self.sample.brute:
            lines.append("equal layers stay equal: give --gamma one value each to let them part")
        return "\n".join(lines)
