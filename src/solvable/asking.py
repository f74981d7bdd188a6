"""A lab is a description: what can be asked of it, who answers, and how answers are shown."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .description import Axes as Axes
from .description import Heading as Heading
from .description import LabLaw as LabLaw
from .description import Witness as Witness
from .papers import Paper
from .question import Question, brief, fields, groups, parameters, spoken, whole_number
from .schedule import Times, schedule_of

if TYPE_CHECKING:
    import xarray as xr

    from .training import Progress, Training


# Words that `ask`, `compare` and the verbs take besides a question's.
RESERVED = {
    *("question", "witness", "over", "at", "progress", "resume", "points", "seeds"),
    *("t_min", "t_max", "output", "csv", "json", "plot", "zarr", "compute"),
    *("compile_cache", "brute", "save", "also", "with", "lab", "asked", "given", "run"),
}


class Broken(ValueError):
    """A lab's own code does not do what its description says."""


@dataclass(frozen=True, repr=False)
class Lab:
    """A solvable model: its paper, what can be asked of it, who answers, its figures and its law.

    A package adds one by an entry point of the group "solvable.labs" whose name is the lab's and
    whose object is a `Lab`; importing it should import nothing heavy.

    Attributes:
        paper: where the model comes from.
        question: the type of what can be asked; None of a lab that has only figures.
        module: with a function of a question for every witness: of one that does not train, which
            gives a function of times (of no time, where it has no axis) to variables; of one that
            trains, which gives a `Training`.
            An optional `facts` of a question gives single numbers with what they are, an optional
            `derived` of a dataset, which has the question in its attributes, more variables.
        witnesses: who answers, by name; the first that trains is what others are judged by.
        shown: the columns of tables, with their headings.
        ends: columns of the table of where each run ends.
        axes: the panels of a picture.
        times: when a witness that does not train is looked at, unless told otherwise.
        figures: of the paper: "module:NAME" of a sequence of `reproduce.Figure`, or themselves.
        showcase: fields at which all witnesses answer, for the figure LAB/witnesses.
        spread: fields at several values of which witnesses that do not train are asked, unless
            told otherwise, where they can be.
        documented: variables with axes of their own along time that JSON documents have, too.
        law: what `solvable fit` and `solvable plan` know it by.
        absent: figures of the paper that are not at hand, with why, by their names there.
    """

    paper: Paper
    question: type[Question] | None = None
    module: str = ""
    witnesses: Mapping[str, Witness] = field(default_factory=dict)
    shown: Mapping[str, str | Heading] = field(default_factory=lambda: {"loss": "L(t)"})
    ends: Mapping[str, str] = field(default_factory=dict)
    axes: tuple[Axes, ...] = (Axes(),)
    times: Times = field(default_factory=Times)
    figures: Any = ()
    showcase: Mapping[str, Any] = field(default_factory=dict)
    spread: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    documented: tuple[str, ...] = ()
    law: LabLaw | None = None
    absent: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.question is None:
            return
        known, here = groups(self.question), fields(self.question)
        for word in (*known, *here):
            if word in RESERVED or (word == "time" and word in known):
                raise ValueError(
                    f"{word} cannot be a group or a field of {self.name}: it is an option"
                )
        if len(here) < sum(len(parameters(group)) for group in known.values()):
            raise ValueError(f"fields of {self.name} must have names of their own across groups")
        for name, witness in self.witnesses.items():
            told = (*witness.takes, *witness.only, *witness.needs, *witness.in_law, *witness.smooth)
            for word in told:
                if word not in known and word not in here:
                    raise ValueError(f"{name} of {self.name} names {word!r}, no group and no field")
            if witness.trains and ("schedule" not in known or witness.axis != "time"):
                need = "a group schedule" if "schedule" not in known else "time for its axis"
                raise ValueError(f"{self.name} must have {need}: {name} trains")
            for word in witness.over:
                if word not in here or not here[word].spread:
                    raise ValueError(f"{name} of {self.name} goes over {word!r}: it cannot spread")

    @property
    def name(self) -> str:
        """As the command line has it."""
        return self.paper.lab

    @property
    def described(self) -> type[Question]:
        """The type of its questions, or a `ValueError` where nothing can be asked."""
        if self.question is None:
            raise ValueError(f"{self.name} has no description yet: its Python functions answer")
        return self.question

    @cached_property
    def _module(self) -> Any:
        try:
            return import_module(self.module)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise Broken(f"the witnesses of {self.name} cannot be loaded ({reason})") from error

    def _witness(self, name: str, question: Question) -> Any:
        """What the lab's module makes of a question for a witness."""
        from .validation import needs_double

        needs_double(f"the {name} of {self.name}")
        made = getattr(self._module, name, None)
        if made is None:
            raise Broken(f"{self.module} must have a function {name}, the witness")
        return made(question)

    def taken(self, witness: str) -> list[str]:
        """The fields of the question that a witness takes, less those that it fixes."""
        known, who = groups(self.described), self.witnesses[witness]
        every = fields(self.described)
        names: dict[str, None] = {}
        for word in who.takes:
            names |= dict.fromkeys(parameters(known[word]) if word in known else [word])
        return [name for name in every if name in names and not self._fixed(who, name)]

    def _fixed(self, who: Witness, name: str) -> bool:
        """Whether a witness exists for one value of a field only, or for words without it."""
        if len(who.only.get(name, ())) == 1:
            return True
        others, rows = fields(self.described)[name].table
        return any(
            other in who.only and not {row[k] for row in rows} & set(who.only[other])
            for k, other in enumerate(others)
        )

    def refusal(self, question: Question, witness: str) -> str:
        """Why a witness cannot answer a settled question, in a sentence; "" if it can."""
        who, flat = self.witnesses[witness], question.flat()
        for name, allowed in who.only.items():
            if flat[name] not in allowed:
                words = " or ".join(brief(x) for x in allowed if x is not None)
                must = f"be {words}" if words else "be left out"
                return f"{name} must {must} for the {witness}, not {brief(flat[name])}"
        for name, parameter in fields(self.described).items():
            if parameter.spread and isinstance(flat[name], tuple) and name not in who.over:
                words = f"{name} must be one number for the {witness}, not {brief(flat[name])}"
                several = [n for n, other in self.witnesses.items() if name in other.over]
                there = ", ".join(self.witnesses[several[0]].over) if several else ""
                return f"{words}; over {there} it may be several" if several else words
        if who.needs and all(flat[name] is None for name in who.needs):
            return f"{' or '.join(who.needs)} must be given for the {witness}"
        return ""

    def settled(
        self, question: Question, witness: str, over: str = "", at: Any = None
    ) -> tuple[Question, str]:
        """The question as a witness answers it, and what had to be assumed, in a sentence.

        Args:
            question: what is asked.
            witness: who answers.
            over: the field that is gone over, if one is, and
            at: its values.

        Raises:
            ValueError: where the witness does not exist for it.
        """
        who, flat = self.witnesses[witness], question.flat()
        usual = dict(who.usual)
        if over in who.over:
            values: Any = flat[over] if at is None else at
            if values is None:
                values = who.over[over]
                values = values(question.settled()) if callable(values) else values
            one = isinstance(values, int | float | str)
            question = question.changed(**{over: [values] if one else list(values)})
        if not who.trains:
            usual |= {n: x for n, x in self.spread.items() if n in who.over}
        taken = {n: x for n, x in usual.items() if n != over and flat[n] is None}
        question = question.changed(**taken)
        question, assumed = question.settled(), ""
        needs = who.needs
        if needs and all(question.flat()[name] is None for name in needs):
            given = {name: value for name, value in needs.items() if value is not None}
            if given:
                question = question.changed(**given).settled()
                words = " and ".join(f"{name} = {value}" for name, value in given.items())
                assumed = f"{' or '.join(needs)} must be given for the {witness}: taking {words}"
        if sentence := self.refusal(question, witness):
            raise ValueError(sentence)
        return question, assumed

    def training(self, question: Question, witness: str) -> "Training":
        """What is trained, before any step, by a witness that does."""
        return self._witness(witness, question)

    def ask(
        self,
        question: Any = None,
        witness: str = "",
        *,
        over: str = "",
        at: Any = None,
        points: int | None = None,
        progress: "Progress | None" = None,
        resume: Any = None,
        **given: Any,
    ) -> "xr.Dataset":
        """The answer of one witness, as one labelled dataset with all that it depends on.

        Args:
            question: what is asked; the default question unless given, changed by
            given: single fields, such as ``alpha=2.0``.
            witness: who answers; the first one unless given, or the first that can go
            over: this axis: "time", another that a witness has, or a field at several values.
            at: the places on that axis, of a witness that does not train: times, or values of the
                field; the lab's own unless given.
            points: how many places, where the axis is no field and they are not given.
            progress: called with (step, steps) now and then, of one that trains.
            resume: a run of the same problem to go on from, of one that trains.

        Raises:
            ValueError: with one sentence, where a field is out of its range, or the witness does
                not exist for what is asked.
            training.Interrupted: at Ctrl-C, with the run so far.
        """
        witness = self.chosen(witness, over)
        who, question = self.witnesses[witness], self.asked(question, given)
        if at is not None and not who.trains and not who.axis and not over:
            raise ValueError(f"at needs over, one of {', '.join(who.axes)}, for the {witness}")
        settled, assumed = self.settled(question, witness, over, None if who.axis else at)
        if who.trains:
            if at is not None:
                raise ValueError(f"at is for a witness that does not train, not for {witness}")
            run = self.training(settled, witness).run(
                **schedule_of(settled).pace(), progress=progress, resume=resume
            )
            return self.labelled(run.to_xarray(), settled, witness, assumed)
        if resume is not None:
            raise ValueError(f"resume is for a witness that trains, not for {witness}")
        data = self.solved(settled, witness, at if who.axis else None, points)
        return self.labelled(data, settled, witness, assumed, over)

    def asked(self, question: Any, given: Mapping[str, Any]) -> Question:
        """The question, the default one unless given, with other fields."""
        kind = self.described
        if question is not None and not isinstance(question, kind):
            name = f"{kind.__module__}.{kind.__qualname__}"
            raise ValueError(f"question must be a {name}, not {spoken(question)}")
        return (question or kind()).changed(**given)

    def chosen(self, witness: str = "", over: str = "") -> str:
        """The witness of that name, or the first, or the first that can go over an axis."""
        self.described  # noqa: B018 - a lab without questions says so
        axes = self.axes_by_name()
        if witness and witness not in self.witnesses:
            raise ValueError(f"witness must be one of {', '.join(self.witnesses)}, not {witness!r}")
        if over and over not in (self.witnesses[witness].axes if witness else axes):
            known = self.witnesses[witness].axes if witness else axes
            raise ValueError(f"over must be one of {', '.join(known)}, not {over!r}")
        return witness or axes.get(over) or next(iter(self.witnesses))

    def axes_by_name(self) -> dict[str, str]:
        """What answers of witnesses that do not train can be over, and the first who gives it."""
        found: dict[str, str] = {}
        for name, who in self.witnesses.items():
            for axis in () if who.trains else who.axes:
                found.setdefault(axis, name)
        return found

    def solved(
        self, question: Question, witness: str, at: Any = None, points: int | None = None
    ) -> "xr.Dataset":
        """What a witness that does not train says at some places on its axis, and its facts."""
        import numpy as np
        import xarray as xr

        from .validation import real

        who, flat = self.witnesses[witness], question.flat()
        if points is not None:
            points = whole_number("points", points, 2)
        built = self._witness(witness, question)
        coords: dict[str, Any] = {}
        if who.axis == "time" and at is None:
            times = self.times if points is None else replace(self.times, points=points)
            at = times.of(question).grid()
        if who.axis:
            place = np.atleast_1d(built.grid(points or 50) if at is None else real("at", at))
            if place.ndim != 1 or not place.size:
                words = "times" if who.axis == "time" else "numbers"
                raise ValueError(f"at must be one axis of {words}, not of shape {place.shape}")
            coords[who.axis] = place
        seen = built(*coords.values())
        if "loss" not in seen:
            raise Broken(f"the {witness} of {self.name} must tell a loss, not {', '.join(seen)}")
        several = {name: flat[name] for name in who.over if isinstance(flat[name], tuple)}
        coords |= {name: np.asarray(values) for name, values in several.items()}
        data = xr.Dataset(coords=coords)
        for name, value in seen.items():
            dims, array, *more = value if isinstance(value, tuple) else (tuple(coords), value)
            data[name] = (dims, np.asarray(array), *more)
        facts = getattr(self._module, "facts", None)
        for name, (value, words) in (facts(question) if facts else {}).items():
            data[name] = ((), np.asarray(np.nan if value is None else value, float))
            data[name].attrs["long_name"] = words
        return data

    def labelled(
        self,
        data: "xr.Dataset",
        question: Question,
        witness: str,
        assumed: str = "",
        over: str = "",
    ) -> "xr.Dataset":
        """A dataset with what it is the answer to, by whom, over what, and what computed it."""
        who = self.witnesses[witness]
        asked = {"lab": self.name, "witness": witness, "question": json.dumps(question.document())}
        derived = getattr(self._module, "derived", None)
        data = derived(data.assign_attrs(asked)) if derived else data
        title = who.told(question) if who.told else who.title.format(**question.flat())
        return data.assign_attrs(
            **asked,
            title=title,
            caption=question.caption(self.taken(witness)),
            over=over or who.axis or next((n for n in who.over if n in data.dims), ""),
            remark=who.remark(question) if who.remark else "",
            assumed=assumed,
            versions=json.dumps(versions()),
        )

    def compare(
        self,
        question: Question | None = None,
        *,
        points: int = 40,
        seeds: int = 16,
        progress: "Progress | None" = None,
        **given: Any,
    ) -> "xr.Dataset":
        """Every witness that can answer, at the same log-spaced steps, judged.

        Args:
            question: what is asked; the default question unless given, changed by
            given: single fields, such as ``alpha=2.0``.
            points: of the grid.
            seeds: how many, where witnesses agree in law only.
            progress: called with (step, steps) now and then.

        Returns:
            As `comparing.compare` tells.
        """
        from .comparing import compare

        return compare(self, question, points=points, seeds=seeds, progress=progress, **given)

    def __repr__(self) -> str:
        asked = "" if self.question is None else f", of {', '.join(fields(self.question))}"
        return f"Lab({self.name!r}: {', '.join(self.witnesses) or 'figures'}{asked})"


def caption_of(answers: "Iterable[xr.Dataset]") -> str:
    """What answers depend on, in one caption."""
    parts = [part for data in answers for part in data.attrs["caption"].split(", ")]
    return ", ".join(dict.fromkeys(parts))


def versions() -> dict[str, str]:
    """Of what numbers depend on."""
    import platform
    from importlib.metadata import version

    found = {name: version(name) for name in ("jax", "jaxlib", "numpy", "scipy")}
    from . import __version__

    return {"solvable": __version__, "python": platform.python_version(), **found}
