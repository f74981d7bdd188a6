"""A lab is a description: what can be asked of it, who answers, and how answers are shown."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .papers import Paper
from .question import Question, brief, fields, groups, parameters, spoken
from .schedule import Times, schedule_of

if TYPE_CHECKING:
    import xarray as xr

    from .training import Progress, Training


# Words that `ask`, `compare` and the verbs take besides a question's.
RESERVED = {
    *("question", "witness", "at", "progress", "resume", "points", "seeds"),
    *("time", "t_min", "t_max", "output", "csv", "json", "plot", "zarr", "compute"),
    *("compile_cache", "brute", "save", "also", "with", "lab", "asked", "given", "run"),
}


class Broken(ValueError):
    """A lab's own code does not do what its description says."""


@dataclass(frozen=True)
class Witness:
    """Who answers a question.

    Attributes:
        title: how, in a few words.
        takes: the groups and single fields of the question that the answer depends on.
        trains: whether it trains: then its answer is a run.
        only: for fields, the values for which it exists.
        needs: fields of which one must be given, with what is taken for it if none is; None where
            nothing is.
        in_law: fields with which, once given, it agrees with others on the average only.
        smooth: fields whose values may be traced by JAX, so that many are answered at once.
        apart: why it answers another question than training does, of one question; "" where it
            does not: then it is not compared.
        told: how, for one question, where the title cannot say it.
    """

    title: str
    takes: tuple[str, ...]
    trains: bool = False
    only: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    needs: Mapping[str, Any] = field(default_factory=dict)
    in_law: tuple[str, ...] = ()
    smooth: tuple[str, ...] = ()
    apart: Callable[[Any], str] | None = None
    told: Callable[[Any], str] | None = None


@dataclass(frozen=True)
class Heading:
    """What a variable is called in tables, and the field without which it is not shown."""

    text: str
    given: str = ""


@dataclass(frozen=True)
class Axes:
    """One panel of the picture of an answer.

    Attributes:
        shows: the variable that is drawn, for every run.
        label: of its axis, in the paper's symbols.
        log: which axes are logarithmic, of "xy".
    """

    shows: str = "loss"
    label: str = "L"
    log: str = "xy"


@dataclass(frozen=True)
class LabLaw:
    """The loss of a lab's model over resources, for `solvable fit` and `solvable plan`.

    The law has the lab's name and keeps the settings it was made with, from which a stored fit
    makes it again. Of its parameters a plan takes `E` for 0, `A` for the height, the exponents as
    told, and others for 1; where it has `unit_x`, less than that of a resource x other than t is
    none.

    Attributes:
        make: "module:function" of (resources, **settings), which gives the `scaling.Law`.
        resources: what the loss is over.
        cost: what the resources cost, unless told otherwise.
        exponents: parameters of the law that a plan needs, with their defaults.
        settings: what the law is made with, with the defaults of a plan.
        further: names of what else it can be made with, which a plan leaves as it is.
        words: what exponents and settings are, for help.
        limits: from where to where an exponent goes, for help.
        height: "module:function" of (exponents, settings): the loss that shares are of; 1 if empty.
    """

    make: str
    resources: tuple[str, ...]
    cost: str
    exponents: Mapping[str, float]
    settings: Mapping[str, int | float] = field(default_factory=dict)
    further: tuple[str, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    height: str = ""

    @property
    def planned(self) -> dict[str, int | float]:
        """What a plan can be told of the model, with the defaults: exponents, then settings."""
        return {**self.exponents, **self.settings}


@dataclass(frozen=True, repr=False)
class Lab:
    """A solvable model: its paper, what can be asked of it, who answers, its figures and its law.

    A package adds one by an entry point of the group "solvable.labs" whose name is the lab's and
    whose object is a `Lab`; importing it should import nothing heavy.

    Attributes:
        paper: where the model comes from.
        question: the type of what can be asked; None of a lab that has only figures.
        module: with a function of a question for every witness: of one that does not train, which
            gives a function of times to variables; of one that trains, which gives a `Training`.
            An optional `facts` of a question gives single numbers with what they are, an optional
            `derived` of a dataset more variables.
        witnesses: who answers, by name; the first that trains is what others are judged by.
        shown: the columns of tables, with their headings.
        ends: columns of the table of where each run ends.
        axes: the panels of a picture.
        times: when a witness that does not train is looked at, unless told otherwise.
        figures: of the paper: "module:NAME" of a sequence of `reproduce.Figure`, or themselves.
        showcase: fields at which all witnesses answer, for the figure LAB/witnesses.
        law: what `solvable fit` and `solvable plan` know it by.
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
    law: LabLaw | None = None

    def __post_init__(self) -> None:
        if self.question is None:
            return
        known, here = groups(self.question), fields(self.question)
        for word in (*known, *here):
            if word in RESERVED:
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
            if witness.trains and "schedule" not in known:
                raise ValueError(f"{self.name} must have a group schedule: {name} trains")

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
        by = fields(self.described)[name].by
        return by is not None and by[0] in who.only and not set(by[1]) & set(who.only[by[0]])

    def refusal(self, question: Question, witness: str) -> str:
        """Why a witness cannot answer a settled question, in a sentence; "" if it can."""
        who, flat = self.witnesses[witness], question.flat()
        for name, allowed in who.only.items():
            if flat[name] not in allowed:
                words = " or ".join(brief(x) for x in allowed if x is not None)
                must = f"be {words}" if words else "be left out"
                return f"{name} must {must} for the {witness}, not {brief(flat[name])}"
        if who.needs and all(flat[name] is None for name in who.needs):
            return f"{' or '.join(who.needs)} must be given for the {witness}"
        return ""

    def settled(self, question: Question, witness: str) -> tuple[Question, str]:
        """The question as a witness answers it, and what had to be assumed, in a sentence.

        Raises:
            ValueError: where the witness does not exist for it.
        """
        question, assumed = question.settled(), ""
        needs = self.witnesses[witness].needs
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
        at: Any = None,
        progress: "Progress | None" = None,
        resume: Any = None,
        **given: Any,
    ) -> "xr.Dataset":
        """The answer of one witness, as one labelled dataset with all that it depends on.

        Args:
            question: what is asked; the default question unless given, changed by
            given: single fields, such as ``alpha=2.0``.
            witness: who answers; the first one unless given.
            at: the times, of a witness that does not train; the lab's own unless given.
            progress: called with (step, steps) now and then, of one that trains.
            resume: a run of the same problem to go on from, of one that trains.

        Raises:
            ValueError: with one sentence, where a field is out of its range, or the witness does
                not exist for what is asked.
            training.Interrupted: at Ctrl-C, with the run so far.
        """
        witness = self.chosen(witness)
        question = self.asked(question, given)
        settled, assumed = self.settled(question, witness)
        if self.witnesses[witness].trains:
            if at is not None:
                raise ValueError(f"at is for a witness that does not train, not for {witness}")
            run = self.training(settled, witness).run(
                **schedule_of(settled).pace(), progress=progress, resume=resume
            )
            return self.labelled(run.to_xarray(), settled, witness, assumed)
        if resume is not None:
            raise ValueError(f"resume is for a witness that trains, not for {witness}")
        return self.labelled(self.solved(settled, witness, at), settled, witness, assumed)

    def asked(self, question: Any, given: Mapping[str, Any]) -> Question:
        """The question, the default one unless given, with other fields."""
        kind = self.described
        if question is not None and not isinstance(question, kind):
            name = f"{kind.__module__}.{kind.__qualname__}"
            raise ValueError(f"question must be a {name}, not {spoken(question)}")
        return (question or kind()).changed(**given)

    def chosen(self, witness: str = "") -> str:
        """The witness of that name, or the first."""
        self.described  # noqa: B018 - a lab without questions says so
        witness = witness or next(iter(self.witnesses))
        if witness not in self.witnesses:
            raise ValueError(f"witness must be one of {', '.join(self.witnesses)}, not {witness!r}")
        return witness

    def solved(self, question: Question, witness: str, at: Any = None) -> "xr.Dataset":
        """What a witness that does not train says at some times, and its facts."""
        import numpy as np
        import xarray as xr

        from .validation import real

        time = np.atleast_1d(self.times.grid() if at is None else real("at", at))
        if time.ndim != 1 or not time.size:
            raise ValueError(f"at must be one axis of times, not of shape {time.shape}")
        seen = self._witness(witness, question)(time)
        if "loss" not in seen:
            raise Broken(f"the {witness} of {self.name} must tell a loss, not {', '.join(seen)}")
        data = xr.Dataset(coords={"time": time})
        for name, value in seen.items():
            dims, array = value if isinstance(value, tuple) else (("time",), value)
            data[name] = (dims, np.asarray(array))
        facts = getattr(self._module, "facts", None)
        for name, (value, words) in (facts(question) if facts else {}).items():
            data[name] = ((), np.asarray(np.nan if value is None else value, float))
            data[name].attrs["long_name"] = words
        return data

    def labelled(
        self, data: "xr.Dataset", question: Question, witness: str, assumed: str = ""
    ) -> "xr.Dataset":
        """A dataset with what it is the answer to, by whom, and what computed it."""
        who = self.witnesses[witness]
        derived = getattr(self._module, "derived", None)
        data = derived(data) if derived else data
        title = who.told(question) if who.told else who.title.format(**question.flat())
        return data.assign_attrs(
            lab=self.name,
            witness=witness,
            title=title,
            question=json.dumps(question.document()),
            caption=question.caption(self.taken(witness)),
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
