"""The verbs that ask described labs: options, refusals and help all come from the description."""

import math
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import tyro

from ..asking import Lab
from ..question import Question, groups, parameters
from ..schedule import schedule_of
from .answer import Answer, Comparison
from .arguments import Command, Flag
from .compute import ComputeOptions
from .files import check_different, check_folder
from .options import options
from .output import AnswerOptions
from .progress import Waiting
from .screen import note
from .statuses import DIFFERS, DIVERGED, INTERRUPTED

if TYPE_CHECKING:
    import xarray as xr

    from ..training import Training


@dataclass(frozen=True)
class Asking:
    """A command that asks a lab, filled with the options of its description."""

    lab: ClassVar[Lab]
    asked: ClassVar[tuple[str, ...]]  # the groups of the question that have options here

    if TYPE_CHECKING:  # what `command` adds
        output: AnswerOptions
        compute: ComputeOptions

    def given(self) -> dict[str, Any]:
        """The fields of the question that were given; one of several values is that value."""
        found = {}
        for key in self.asked:
            for name, value in vars(getattr(self, key)).items():
                if value == ():
                    raise ValueError(f"{name} must be followed by one number or more")
                one = isinstance(value, tuple) and len(value) == 1
                found[name] = value[0] if one else value
        return {name: x for name, x in found.items() if x is not None and x is not False}


@dataclass(frozen=True)
class SolveLab(Asking):
    """``solvable solve LAB``."""

    if TYPE_CHECKING:
        time: Any
        also: str | None
        over: str | None
        at: tuple[float, ...] | None

    def run(self) -> int:
        """Ask the witness that does not train, and another at the same times if wished."""
        self.output.check()
        given = self.given()
        times = {name: x for name, x in vars(self.time).items() if x is not None}
        axes = self.lab.axes_by_name()
        over = self.over or next(iter(axes))
        witness = axes[over]
        question = self.lab.described().changed(**given)
        self._check(given, times, over, witness)
        if self.also is not None:
            self.lab.settled(question, witness)
            return _both(self, question, self.also, witness, "solve")
        who = self.lab.witnesses[witness]
        with Waiting("solving"):
            self.compute.prepare()
            at = None if self.at is None else list(self.at)
            if who.axis == "time" and at is None:
                asked = type(self.lab.times)(**(vars(self.lab.times) | times))
                at = asked.of(self.lab.settled(question, witness)[0]).grid()
            points = times.get("points", self.lab.times.points)
            along = "" if who.axis else over
            data = self.lab.ask(question, witness, over=along, at=at, points=points)
        self.output.write(Answer(self.lab, "solve", data))
        return 0

    def _check(self, given: dict[str, Any], times: dict[str, Any], over: str, witness: str) -> None:
        """Raise where something is given that the answer does not depend on."""
        axes, axis = self.lab.axes_by_name(), self.lab.witnesses[witness].axis
        taken = self.lab.taken(witness) + (self.lab.taken(self.also) if self.also else [])
        for name in given:
            if name not in taken:
                there = [each for each, who in axes.items() if name in self.lab.taken(who)]
                word = f"--over {' or '.join(there)}, not {over}" if there else ""
                raise ValueError(f"{name} is for {word or f'--with {self._trained_with(name)}'}")
        if self.at == ():
            raise ValueError("at must be followed by one number or more")
        if self.at is not None and over in given:
            raise ValueError(f"{over} and at cannot both be given")
        for name in times:
            if name != "points" and axis != "time":
                raise ValueError(f"{name} is for --over time, not {over}")
            if not axis:
                raise ValueError(f"points is for --over {' or '.join(_own_axes(self.lab))}")
            if self.at is not None:
                raise ValueError(f"{name} and at cannot both be given")
        if self.also is None:
            return
        if axis != "time" or self.at is not None:
            raise ValueError(
                "with is for the lab's own times" if self.at else "with is for --over time"
            )
        if times:
            first = next(iter(times))
            told = f"with {self.also}, lr × steps tells"
            raise ValueError(f"{first} is for the {witness} alone: {told}")

    def _trained_with(self, name: str) -> str:
        """The witnesses that train and take a field."""
        return " or ".join(who for who in _trained(self.lab) if name in self.lab.taken(who))


@dataclass(frozen=True)
class TrainLab(Asking):
    """``solvable train LAB``."""

    if TYPE_CHECKING:
        also: str | None
        save: Path | None
        resume: Path | None

    def run(self) -> int:
        """Train, and write the curve; after Ctrl-C, what there is of it."""
        self.output.check()
        check_folder("save", self.save)
        check_different(save=self.save, zarr=self.output.zarr, csv=self.output.csv)
        brute = getattr(self, "brute", False)
        witness = "tokens" if brute else _trained(self.lab)[0]
        if self.resume is None:
            question = self.lab.described().changed(**self.given())
        else:
            question, witness = self._saved(self.resume, "tokens" if brute else "")
        for name in self.given():
            if name not in self.lab.taken(witness):
                raise ValueError(f"{name} is for --brute, on which alone the answer depends on it")
        if self.also is not None:
            self.lab.settled(question, self.also)
        return _both(self, question, witness, self.also, "train", self.save, self.resume)

    def _saved(self, path: Path, witness: str) -> tuple[Question, str]:
        """What a saved run was asked, but for what is given, and who answered."""
        from ..computing import quieten

        quieten()  # `saved` imports JAX
        from ..saved import attributes

        found = attributes(path)
        lab, who = found.get("lab", "no lab"), found.get("witness", "")
        if lab != self.lab.name or who not in _trained(self.lab) or (witness or who) != who:
            here = f"{self.lab.name}, {witness}" if witness else self.lab.name
            raise ValueError(f"resume must be a run of {here}, not of {lab}, {who}")
        given = self.given()
        if {"log_every", "log_points"} & set(given):  # one of them takes the place of the other
            given = {"log_every": None, "log_points": None} | given
        return self.lab.described.of(found["question"]).changed(**given), who


@dataclass(frozen=True)
class CompareLab(Asking):
    """``solvable compare LAB``."""

    if TYPE_CHECKING:
        points: int
        seeds: int

    def run(self) -> int:
        """Ask everybody, and judge."""
        self.output.check()
        question = self.lab.described().changed(**self.given())
        with Waiting("comparing") as bar:
            self.compute.prepare()
            data = self.lab.compare(question, points=self.points, seeds=self.seeds, progress=bar)
        self.output.write(Comparison(self.lab, data))
        return 0 if data.attrs["agrees"] else DIFFERS


def _both(
    asking: Asking,
    question: Question,
    trained: str,
    solved: str | None,
    command: str,
    save: Path | None = None,
    resume: Path | None = None,
) -> int:
    """Train, ask another witness at the same times if wished, write both, say how it ended.

    Args:
        asking: the command.
        question: what is asked.
        trained: the witness that trains.
        solved: the one that does not, if it is asked.
        command: "solve", which is about what is solved, or "train", which is about what is trained.
        save: where the run is kept.
        resume: a saved run to go on from.
    """
    lab = asking.lab
    with Waiting("training") as bar:
        asking.compute.prepare()
        from ..training import Interrupted

        settled, assumed = lab.settled(question, trained)
        training = lab.training(settled, trained)
        try:
            run = training.run(
                **schedule_of(settled).pace(),
                progress=bar,
                resume=None if resume is None else _loaded(resume, training),
            )
            finished = True
        except Interrupted as stop:
            run, finished = stop.run, False
        data = lab.labelled(run.to_xarray(), settled, trained, assumed)
        theory = None if solved is None else lab.ask(settled, solved, at=data.time.values)
    if save is not None:
        from ..saved import save as keep

        keep(run, save, {name: str(value) for name, value in data.attrs.items()})
        note(f"wrote {save}")
    if assumed:
        note(assumed)
    lost = _lost(data)
    facts = {"status": "ok" if lost is None else "diverged", "interrupted": not finished}
    pair = (theory, data) if command == "solve" and theory is not None else (data, theory)
    asking.output.write(Answer(lab, command, *pair, facts))
    if lost is not None:
        note(f"training diverged: the loss is {lost[1]} at step {lost[0]}; try a smaller --lr")
    if finished:
        return 0 if lost is None else DIVERGED
    word = f"; --resume {save} goes on" if save else ""
    if command == "train" and save is None:
        word = "; with --save RUN.zarr it could go on"
    note(f"interrupted at step {int(data.step[-1])} of {schedule_of(settled).steps}{word}")
    return INTERRUPTED


def _loaded(path: Path, training: "Training") -> Any:
    from ..saved import load

    return load(path, training)


def _own_axes(lab: Lab) -> list[str]:
    """The axes of answers that are no fields."""
    return [axis for axis, who in lab.axes_by_name().items() if lab.witnesses[who].axis]


def _trained(lab: Lab) -> list[str]:
    """The witnesses that train."""
    return [name for name, who in lab.witnesses.items() if who.trains]


def _lost(data: "xr.Dataset") -> tuple[int, float] | None:
    """The first point at which the loss of some run is not finite."""
    others = [dim for dim in data.loss.dims if dim != "time"]
    loss = (data.loss.sum(others, skipna=False) if others else data.loss).values.tolist()
    points = zip(data.step.values.tolist(), loss, strict=True)
    return next(((step, x) for step, x in points if not math.isfinite(x)), None)


def command(lab: Lab, verb: str) -> type[Command]:
    """What a verb is for a lab: the groups that its witnesses take, less what they fix."""
    solved = [name for name, who in lab.witnesses.items() if not who.trains]
    theory = [name for name in solved if lab.witnesses[name].axis == "time"]
    trained, several = _trained(lab), set[str]()
    own: list[Any] = []
    if verb == "solve":
        names = [name for witness in solved for name in lab.taken(witness)]
        several = {name for witness in solved for name in lab.witnesses[witness].over}
        if trained and theory:
            fixed = lab.witnesses[theory[0]].only
            more = [name for witness in trained for name in lab.taken(witness)]
            names += [name for name in more if name not in fixed]
            own.append(_with(trained, "train this witness, too, and tell and draw both"))
        else:
            own.append(("also", Suppressed, None))
        own += _over(lab)
        base, doc = SolveLab, f"Compute {'; or '.join(lab.witnesses[n].title for n in solved)}."
    elif verb == "train":
        names = [name for witness in trained for name in lab.taken(witness)]
        if "tokens" in trained[1:]:
            own.append(("brute", _flag(_on_tokens(lab)), False))
        if theory:
            own.append(_with(theory, "ask this witness, too, and tell and draw both"))
        else:
            own.append(("also", Suppressed, None))
        own.append(
            ("save", _path("keep the run in this Zarr store, which --resume goes on from"), None)
        )
        words = "go on from a run that was saved; what is not given is as it was then"
        own.append(("resume", _path(words), None))
        base, doc = TrainLab, "Train, and log the curve that solve computes."
    else:
        taken = [name for witness in (*theory, *trained) for name in lab.taken(witness)]
        names = [name for name in taken if name not in ("log_every", "log_points")]
        own.append(("points", _count("points of the grid, evenly spaced in log step"), 40))
        own.append(("seeds", _count("seeds, where witnesses agree in law only"), 16))
        base = CompareLab
        doc = f"Ask {', '.join((*theory, *trained))} the same question, and judge the gaps."
    usual = lab.described()
    asked = {
        key: options(getattr(usual, key), names, several)
        for key, group in groups(lab.described).items()
        if set(parameters(group)) & set(names)
    }
    parts: list[Any] = list(asked.items())
    if verb == "solve":
        parts.append(("time", options(lab.times)))
    parts += [("output", AnswerOptions), ("compute", ComputeOptions)]
    namespace = {"__doc__": doc, "lab": lab, "asked": tuple(asked)}
    return make_dataclass(
        base.__name__, [*parts, *own], bases=(base,), frozen=True, namespace=namespace
    )


Suppressed = Annotated[None, tyro.conf.Suppress]


def _over(lab: Lab) -> list[Any]:
    """What the answer is over, and where on it, for labs with more than one axis."""
    axes = list(lab.axes_by_name())
    if len(axes) == 1:
        return [("over", Suppressed, None), ("at", Suppressed, None)]
    kind = Literal[tuple(axes)]  # pyright: ignore[reportInvalidTypeForm]
    there = {who: [] for who in lab.axes_by_name().values()}
    for axis, who in lab.axes_by_name().items():
        there[who].append(axis)
    words = "; ".join(f"{', '.join(each)}: {lab.witnesses[n].title}" for n, each in there.items())
    over = tyro.conf.arg(
        help=f"what it is over ({words})", help_behavior_hint=f"(default: {axes[0]})"
    )
    at = tyro.conf.arg(metavar="FLOAT ...", help="its places there", help_behavior_hint="")
    return [
        ("over", Annotated[kind | None, over], None),
        ("at", Annotated[tuple[float, ...] | None, at], None),
    ]


def _with(choices: list[str], words: str) -> tuple[str, Any, Any]:
    kind = Literal[tuple(choices)]  # pyright: ignore[reportInvalidTypeForm]
    arg = tyro.conf.arg(name="with", help=words, help_behavior_hint="")
    return ("also", Annotated[kind | None, arg], None)


def _flag(words: str) -> Any:
    return Annotated[Flag, tyro.conf.arg(help=words, help_behavior_hint="")]


def _path(words: str) -> Any:
    arg = tyro.conf.arg(metavar="RUN.zarr", help=words, help_behavior_hint="")
    return Annotated[Path | None, arg]


def _count(words: str) -> Any:
    return Annotated[int, tyro.conf.arg(help=f"{words}, at least 2")]


def _on_tokens(lab: Lab) -> str:
    """What --brute does, and what it assumes."""
    needs = lab.witnesses["tokens"].needs
    taken = [f"{name} = {value}" for name, value in needs.items() if value is not None]
    without = " or ".join(f"--{name}" for name in needs)
    assumed = f"; without {without}, with {' and '.join(taken)}" if taken else ""
    return f"train on real tokens instead{assumed}"
