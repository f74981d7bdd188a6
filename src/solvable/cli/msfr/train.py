"""``solvable train msfr``: L(t) by training attention."""

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from .. import descent
from ..arguments import Flag, Maybe
from ..compute import ComputeOptions
from ..output import Curve, OutputOptions
from ..progress import Waiting
from ..screen import note, symbols
from .options import LinearStart, ResourceOptions, SoftmaxStart, TaskOptions

if TYPE_CHECKING:
    from solvable import msfr

BRUTE_DATA = 400


@dataclass(frozen=True)
class DescentOptions:
    """How it is trained."""

    optimizer: Literal["gd", "adamw"] = "gd"
    """gradient descent, or AdamW with the paper's constants (Table 4)"""
    lr: Maybe[float] = None
    """learning rate, above 0 (default: 1e-3 for gd, 5e-3 for adamw)"""
    steps: int = 5000
    """number of steps, at least 0; for gd, t = lr × step"""
    batch: Maybe[int] = None
    """mini-batch size B, drawn afresh at every step; none unless given"""
    seed: int = 0
    """seed of the data set and of the mini-batches, at least 0"""
    log_every: Maybe[int] = None
    """steps between two points of the curve; a 400th of the run unless given"""

    @property
    def rate(self) -> float:
        """The learning rate."""
        default = {"gd": 1e-3, "adamw": 5e-3}[self.optimizer]
        return default if self.lr is None else self.lr

    def build(self) -> dict[str, Any]:
        """The library's optimiser: `lr` for gradient descent, else `optimizer`."""
        if self.optimizer == "gd":
            return {"lr": self.rate}
        import optax

        from solvable.validation import floating, within

        within("lr", floating("lr", self.rate), 0.0, open_low=True)
        adamw = optax.adamw(self.rate, b1=0.9, b2=0.999, eps=1e-8, weight_decay=1e-5)
        return {"optimizer": adamw}


@dataclass(frozen=True)
class TrainMsfr:
    """Train linear or softmax attention and log L(t)."""

    task: TaskOptions
    linear: LinearStart
    softmax: SoftmaxStart
    descent: DescentOptions
    resource: ResourceOptions
    output: OutputOptions
    compute: ComputeOptions
    attention: Literal["linear", "softmax"] = "linear"
    """linear attention starts at --v, --w, softmax attention at --value, --key, --query"""
    brute: Flag = False
    """train every parameter on real tokens; without --data or --batch, on 400 data"""

    def run(self) -> int:
        """Train and write the curve; after Ctrl-C, what there is of it."""
        self.output.check()
        start, resources = self._start(), self._resources()

        def work(progress: Waiting) -> Any:
            from solvable import msfr

            train = msfr.train_brute if self.brute else msfr.train
            return train(
                self.task.build(),
                start.build(),
                steps=self.descent.steps,
                batch=self.descent.batch,
                seed=self.descent.seed,
                log_every=self.descent.log_every,
                progress=progress,
                **self.descent.build(),
                **asdict(resources),
            )

        run, finished = descent.train(self.compute, work)
        curve = self._curve(run, start, resources, finished)
        return descent.conclude(self.output, curve, self.descent.steps, finished)

    def _start(self) -> LinearStart | SoftmaxStart:
        """The start of the attention asked for; options for the other one are a mistake."""
        if self.attention == "linear":
            if self.softmax != SoftmaxStart():
                raise ValueError("value, key and query are for --attention softmax, not linear")
            return self.linear
        if self.linear != LinearStart():
            raise ValueError("v and w are for --attention linear, not softmax")
        return self.softmax

    def _resources(self) -> ResourceOptions:
        """The limits; real tokens cannot be unlimited."""
        if not self.brute or self.resource.data is not None or self.descent.batch is not None:
            return self.resource
        note(f"--brute without --data or --batch: training on a data set of {BRUTE_DATA}")
        return replace(self.resource, data=BRUTE_DATA)

    def _curve(
        self,
        run: "msfr.Run",
        start: LinearStart | SoftmaxStart,
        resources: ResourceOptions,
        finished: bool,
    ) -> Curve:
        space = "brute force" if self.brute else "exact reduction"
        how = f"msfr, {self.attention} attention trained with {self.descent.optimizer} ({space})"
        what = f"{self.task.words()}, {symbols(asdict(start))}{resources.words()}"
        batch = "" if self.descent.batch is None else f", B = {self.descent.batch}"
        shown = {"step": "step", "time": "t", "loss": "L(t)", "train_loss": "training loss"}
        if resources.data is None:  # then both losses are the population's
            del shown["train_loss"]
        return Curve(
            facts={
                "lab": "msfr",
                "command": "train",
                "task": asdict(self.task),
                "attention": self.attention,
                "init": asdict(start),
                **asdict(self.descent),
                "lr": self.descent.rate,
                **asdict(resources),
                "brute": self.brute,
                "interrupted": not finished,
            },
            words=f"{how}\n{what}{batch}",
            columns={name: getattr(run, name).tolist() for name in _COLUMNS},
            shown=shown,
        )


_COLUMNS = ("step", "time", "loss", "train_loss")
