"""``solvable plan``: what to do with a budget."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from ..asking import LabLaw
from ..question import brief
from .arguments import Flag, Maybe, MaybeFile, following
from .compute import ComputeOptions
from .files import STDOUT, check_csv, write_csv, write_file
from .laws import FORMULAS, height_of, law_of, models, ours
from .output import check_plot
from .progress import Waiting
from .screen import note, print_json, print_rich

if TYPE_CHECKING:
    from .plan_words import Told

MOST = 1e300


@dataclass(frozen=True)
class ModelOptions:
    """What the model is, for --model."""

    def given(self) -> dict[str, Any]:
        """The options that were given."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def build(self, name: str) -> tuple[dict[str, float], dict[str, Any]]:
        """The exponents and the settings of a model, or a `ValueError` for what it has not."""
        known = models(name)
        told = known[name]
        for option in self.given():
            if option not in told.planned:
                others = [other for other, law in known.items() if option in law.planned]
                raise ValueError(f"{option} is for --model {' or '.join(others)}, not {name}")
        given = told.planned | self.given()
        return {n: given[n] for n in told.exponents}, {n: given[n] for n in told.settings}


def command(words: Sequence[str]) -> type["Plan"]:
    """`Plan` with the models there are, ours and that of another lab which is named."""
    named = following(words, "--model")
    known = models(named)
    kind = Literal[tuple(known)]  # pyright: ignore[reportInvalidTypeForm]
    costs = ", ".join(f"for {name}: {law.cost}" for name, law in known.items())
    parts = [
        ("model", kind, "the law of a lab's model at finite size, instead of a fit"),
        ("cost", str, f'what the resources cost, such as "6*N*D" (default {costs})'),
    ]
    # tyro reads the other options' words in the class they are written in.
    return make_dataclass(
        Plan.__name__,
        [
            *((name, _maybe(kind, text), None) for name, kind, text in parts),
            ("options", options := _options(known, named), field(default_factory=options)),
        ],
        bases=(Plan,),
        frozen=True,
        namespace={"__doc__": Plan.__doc__},
    )


def _options(known: Mapping[str, LabLaw], named: str) -> type[ModelOptions]:
    """An option for everything that a plan can be told of our models, and of the named one."""
    known = {name: law for name, law in known.items() if name in ours() or name == named}
    taken = {"help", *(one.name for kind in (Plan, ComputeOptions) for one in fields(kind))}
    told: dict[str, list[str]] = {}
    kinds: dict[str, type] = {}
    for name, law in known.items():
        for option, default in law.planned.items():
            if option in taken:
                raise ValueError(f"the law of {name} cannot have {option}: plan has --{option}")
            low, high = law.limits.get(option, (0.0, 0.0))
            limits = f", in [{low:g}, {high:g}]" if option in law.limits else ""
            text = f"{law.words.get(option, option)}{limits} (default: {brief(default)})"
            told.setdefault(option, []).append(f"{name}: {text}")
            if name == named or option not in kinds:
                kinds[option] = float if option in law.exponents else type(default)
    return make_dataclass(
        ModelOptions.__name__,
        [(name, _maybe(kinds[name], "; ".join(texts)), None) for name, texts in told.items()],
        bases=(ModelOptions,),
        frozen=True,
        namespace={"__doc__": ModelOptions.__doc__},
    )


def _maybe(kind: Any, text: str) -> Any:
    """An option that may be left out."""
    return Annotated[kind | None, tyro.conf.arg(help=text, help_behavior_hint="")]


@dataclass(frozen=True)
class Plan:
    """Divide a budget so that a law's loss is smallest, and say what a mistake costs.

    solvable fit runs.csv … --json > fit.json, then
    solvable plan --law fit.json --cost "6*N*D" --budget 1e21
    """

    budget: Annotated[str, tyro.conf.arg(metavar="C|LOW:HIGH", help_behavior_hint="")]
    """the budget, or the lowest and the highest of several"""
    law: MaybeFile = None
    """a fit: what solvable fit --json printed"""
    model: str | None = None
    cost: str | None = None
    points: Maybe[int] = None
    """number of budgets from LOW to HIGH, at least 2 (default: 7)"""
    options: ModelOptions = field(default_factory=ModelOptions)
    compute: ComputeOptions = field(default_factory=ComputeOptions)
    csv: MaybeFile = None
    """write a row for every budget into this CSV file; - for standard output, not the tables"""
    plot: MaybeFile = None
    """draw the valley and the frontier into this .svg, .png or .pdf file"""
    json: Flag = False
    """print one JSON document instead of tables"""

    def run(self) -> int:
        """Plan, and tell."""
        budgets = _budgets(self.budget, self.points)
        check_csv(self.csv, self.json)
        check_plot(self.plot)
        if (self.law is None) == (self.model is None):
            both = "cannot both be given" if self.law is not None else "must be given, one of them"
            raise ValueError(f"law and model {both}")
        self.compute.quieten()
        picture = b""
        with Waiting("planning", "budgets") as waiting:
            told = self._planned(budgets, waiting)
            if self.plot is not None:
                from .plan_picture import draw

                picture = draw(told, self.plot.suffix.lower().removeprefix("."))
        for sentence in told.warnings():
            note(sentence)
        if self.csv is not None and self.csv != STDOUT:
            write_csv(self.csv, told.csv())
        if self.plot is not None:
            write_file("plot", self.plot, picture)
            note(f"wrote {self.plot}")
        if self.json:
            print_json(told.document())
        elif self.csv == STDOUT:
            write_csv(STDOUT, told.csv())
        else:
            print_rich(*told.words())
        return 0

    def _planned(self, budgets: list[float], waiting: Waiting) -> "Told":
        known, cost, facts = self._from_fit() if self.model is None else self._from_model()
        remark = "" if self.model is None else models(self.model)[self.model].remark
        from .. import scaling
        from .plan_words import Told

        # Less than one task, layer, neuron or token is none.
        least = None
        if known.law.name not in FORMULAS:
            at = dict(zip(known.law.parameters, known.values.tolist(), strict=True))
            units = {x: f"unit_{x}" for x in known.law.resources if x != "t"}
            least = {x: at[unit] for x, unit in units.items() if unit in at}
        plan = scaling.plan(known, budgets, cost, least=least, progress=waiting)
        if not any(math.isfinite(loss) for loss in plan.loss.value):
            raise ValueError(f"budget {self.budget} has {plan.status[0]}")
        return Told(plan, facts, remark)

    def _from_fit(self) -> tuple[Any, str, dict[str, Any]]:
        assert self.law is not None
        if given := self.options.given():
            raise ValueError(f"{next(iter(given))} is for --model, not for --law")
        if self.cost is None:
            raise ValueError('cost must be given with --law, such as --cost "6*N*D"')
        document = _read(self.law)
        from ..scaling.stored import described, from_document

        name, resources, settings = described(document)
        if name not in FORMULAS:
            self.compute.prepare()
        known = from_document(document, law_of(name, resources, settings))
        facts = {
            "law": name,
            "file": str(self.law),
            "fit_status": document.get("status"),
            "fit_message": document.get("message", ""),
        }
        return known, self.cost, facts

    def _from_model(self) -> tuple[Any, str, dict[str, Any]]:
        assert self.model is not None
        exponents, settings = self.options.build(self.model)
        self.compute.prepare()
        import numpy as np

        from ..scaling import Cost, Known

        told = models(self.model)[self.model]
        cost = Cost(self.cost or told.cost, told.resources)
        law = law_of(self.model, cost.names, settings)
        for name, value in exponents.items():
            if name not in law.bounds:
                raise ValueError(f"the law of {self.model} must have the parameter {name}")
            low, high = law.bounds[name]
            if not low <= value <= high:
                raise ValueError(f"{name} must lie in [{low:g}, {high:g}], not {value:g}")
        height = height_of(self.model, exponents, settings)
        values = {"E": 0.0, "A": height, **exponents}
        known = Known(law, np.array([values.get(name, 1.0) for name in law.parameters]))
        facts = {"model": self.model, **exponents, **settings}
        return known, cost.text, facts


def _budgets(text: str, points: int | None) -> list[float]:
    """One budget, or those from LOW to HIGH."""
    parts = text.split(":")
    try:
        ends = [float(part) for part in parts]
    except ValueError:
        ends = []
    if len(ends) not in (1, 2) or not all(0.0 < end < MOST for end in ends):
        raise ValueError(f"budget must be a positive number, or LOW:HIGH of two, not {text!r}")
    if len(ends) == 1:
        if points is not None:
            raise ValueError("points is for several budgets, --budget LOW:HIGH")
        return ends
    low, high = ends
    if not low < high:
        raise ValueError(f"budget must be LOW:HIGH with LOW below HIGH, not {text!r}")
    count = 7 if points is None else points
    if not 2 <= count <= 1000:
        raise ValueError(f"points must be a whole number, from 2 to 1000, not {count}")
    ratio = math.log(high / low) / (count - 1)
    return [low * math.exp(k * ratio) for k in range(count - 1)] + [high]


def _read(path: Path) -> Any:
    from ..scaling.stored import NOT_A_FIT

    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(
            f"law must be a file that can be read, not {str(path)!r} ({error.strerror})"
        ) from None
    except UnicodeDecodeError:
        raise ValueError(f"law must be {NOT_A_FIT}, not {str(path)!r}") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"law must be {NOT_A_FIT}, not {str(path)!r}") from None
