"""``solvable train shallow_icl``: L(t) by training attention on in-context regression."""

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from .. import descent
from ..arguments import Flag, Maybe
from ..compute import ComputeOptions
from ..output import Curve, OutputOptions
from ..progress import Waiting
from ..screen import note
from .options import (
    DescentOptions,
    ModelOptions,
    TaskOptions,
    model_facts,
    model_name,
    run_words,
)

if TYPE_CHECKING:
    from solvable import shallow_icl

SEQUENCES = 400


@dataclass(frozen=True)
class DataOptions:
    """What it is trained on: the population, infinitely many sequences, unless told otherwise."""

    sequences: Maybe[int] = None
    """number P of sampled sequences, at least 1"""
    data_seed: int = 0
    """seed of the sequences, at least 0"""
    antithetic: Flag = False
    """draw them in pairs with opposite labels"""
    centred: Flag = False
    """take its mean from every token, as the published code does"""
    whitened: Flag = False
    """make the sample of task vectors exactly white, as the published code does"""

    def build(self, task: "shallow_icl.Task") -> Any:
        """The library's sequences, or the task for its population."""
        if self.sequences is None:
            if self != DataOptions():
                raise ValueError(
                    "data-seed, antithetic, centred and whitened are for --sequences, "
                    "not for the population"
                )
            if task.in_context != 1.0:
                raise ValueError(
                    f"in_context must be 1 on the population, not {task.in_context:g}; "
                    "--sequences trains on a sample"
                )
            return task
        from solvable import shallow_icl

        return shallow_icl.sample(
            task,
            self.sequences,
            seed=self.data_seed,
            antithetic=self.antithetic,
            centred=self.centred,
            whitened=self.whitened,
        )

    def words(self) -> str:
        """``the population``, ``5000 sequences``."""
        if self.sequences is None:
            return "the population"
        kinds = ("antithetic", "centred", "whitened")
        named = [str(self.sequences), *(kind for kind in kinds if getattr(self, kind))]
        return " ".join([*named, "sequences" if self.sequences != 1 else "sequence"])


@dataclass(frozen=True)
class TrainShallowIcl:
    """Train attention on in-context regression and log L(t); Fig. 3's setting unless told."""

    task: TaskOptions
    model: ModelOptions
    data: DataOptions
    descent: DescentOptions
    output: OutputOptions
    compute: ComputeOptions
    blocks: Maybe[Literal["all", "zero", "aligned"]] = None
    """weights that are trained (default: all on sequences, zero on the population); zero keeps
    𝐯, u and κ at zero, aligned follows merged attention in D + 1 numbers"""
    brute: Flag = False
    """train every weight on tokens; without --sequences, on 400"""

    def run(self) -> int:
        """Train and write the curve; after Ctrl-C, what there is of it."""
        self.output.check()
        if self.brute and self.blocks is not None:
            raise ValueError("blocks cannot be given with --brute, which trains every weight")
        data, options = self._data(), self.descent.build(self.model.preset)

        def work(progress: Waiting) -> Any:
            from solvable import shallow_icl

            start = self.model.build()
            given = data.build(self.task.build())
            if self.brute:
                return shallow_icl.train_brute(given, start, progress=progress, **options)
            return shallow_icl.train(given, start, blocks=self.blocks, progress=progress, **options)

        run, finished = descent.train(self.compute, work)
        curve = self._curve(run, data, options, finished)
        return descent.conclude(self.output, curve, options["steps"], finished)

    def _data(self) -> DataOptions:
        """The data; what needs tokens takes some."""
        if self.data.sequences is not None:
            return self.data
        if self.brute:
            why = "--brute"
        elif self.model.attention == "softmax":
            why = "--attention softmax"
        else:
            return self.data
        note(f"{why} without --sequences: training on {SEQUENCES}")
        return replace(self.data, sequences=SEQUENCES)

    def _curve(
        self, run: "shallow_icl.Run", data: DataOptions, options: dict[str, Any], finished: bool
    ) -> Curve:
        task, start = self.task.build(), self.model.build()
        if self.brute:
            space = "brute force"
        elif start.attention == "softmax":
            space = "the query's row"
        elif self.blocks is not None and self.blocks != "all":
            space = f"{self.blocks} blocks" if self.blocks == "zero" else "aligned reduction"
        else:
            space = "exact reduction"
        how = f"shallow_icl, {model_name(start)} on {data.words()} ({space})"
        return Curve(
            facts={
                "lab": "shallow_icl",
                "command": "train",
                "task": self.task.facts(task),
                **model_facts(start),
                **asdict(data),
                **options,
                "blocks": self.blocks,
                "brute": self.brute,
                "interrupted": not finished,
            },
            heading="\n".join([how, self.task.words(task), run_words(start, options)]),
            columns={name: getattr(run, name).tolist() for name in ("step", "time", "loss")},
            shown={"step": "step", "time": "t/τ", "loss": "L(t)"},
            symbol="t/\\tau",
            log="",
            levels=_plateaus(task, start),
        )


def _plateaus(task: "shallow_icl.Task", start: "shallow_icl.Start") -> list[float]:
    """What separate attention of rank 1 stops at on its way, for the picture."""
    from solvable import shallow_icl

    if start.kind != "separate" or start.attention != "linear" or start.rank != 1:
        return []
    return shallow_icl.plateau_losses(task).tolist()
