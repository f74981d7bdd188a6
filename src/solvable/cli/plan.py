"""``solvable plan``: what to do with a budget."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from .arguments import Flag, Maybe, MaybeFile
from .compute import ComputeOptions
from .files import STDOUT, check_csv, write_csv, write_file
from .laws import MODELS, RESOURCES, law_of
from .output import check_plot
from .progress import Waiting
from .screen import note, print_json, print_rich

if TYPE_CHECKING:
    from .plan_words import Told

MOST = 1e300
# Of each model: its resources, its cost unless given, its exponents and its settings.
COSTS = {"msfr": "D*t", "deep_icl": "t*N**2*L"}
EXPONENTS: Mapping[str, Mapping[str, float]] = {
    "msfr": {"alpha": 1.8, "beta": 0.0, "gamma": 0.0},
    "deep_icl": {"nu": 1.5, "beta": 0.8},
}
SETTINGS: Mapping[str, Mapping[str, int | float]] = {
    "msfr": {"num_tasks": 500, "context": 100.0, "strength": 0.5},
    "deep_icl": {"dim": 10**4},
}


@dataclass(frozen=True)
class ModelOptions:
    """What the model is, for --model."""

    alpha: Maybe[float] = None
    """msfr: exponent α of the task law, in [1.001, 10] (default: 1.8)"""
    beta: Maybe[float] = None
    """msfr: decay β of the contexts (default: 0); deep_icl: source exponent β (default: 0.8)"""
    gamma: Maybe[float] = None
    """msfr: decay γ of the strengths (default: 0)"""
    num_tasks: Maybe[int] = None
    """msfr: number of tasks S (default: 500)"""
    context: Maybe[float] = None
    """msfr: context length ψ_1 (default: 100)"""
    strength: Maybe[float] = None
    """msfr: strength Λ_1 (default: 0.5)"""
    nu: Maybe[float] = None
    """deep_icl: capacity exponent ν, in [0.05, 4] (default: 1.5)"""
    dim: Maybe[int] = None
    """deep_icl: dimension D (default: 10000)"""

    def given(self) -> dict[str, Any]:
        """The options that were given."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def build(self, model: str) -> tuple[dict[str, float], dict[str, Any]]:
        """The exponents and the settings of a model, or a `ValueError` for what it has not."""
        allowed = {**EXPONENTS[model], **SETTINGS[model]}
        for name in self.given():
            if name not in allowed:
                other = next(m for m in MODELS if name in {**EXPONENTS[m], **SETTINGS[m]})
                raise ValueError(f"{name} is for --model {other}, not {model}")
        given = allowed | self.given()
        return {n: given[n] for n in EXPONENTS[model]}, {n: given[n] for n in SETTINGS[model]}


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
    model: Annotated[Literal["msfr", "deep_icl"] | None, tyro.conf.arg(help_behavior_hint="")] = (
        None
    )
    """a lab's own loss at finite size, instead of a fit"""
    cost: Maybe[str] = None
    """what the resources cost, such as "6*N*D" (default for msfr: D*t, for deep_icl: t*N**2*L)"""
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
        source = self._from_fit() if self.law is not None else self._from_model()
        known, cost, facts = source
        from .. import scaling
        from .plan_words import Told

        # Less than one task, layer, neuron or token is none.
        least = None
        if known.law.name in MODELS:
            at = dict(zip(known.law.parameters, known.values.tolist(), strict=True))
            least = {x: at[f"unit_{x}"] for x in known.law.resources if x != "t"}
        plan = scaling.plan(known, budgets, cost, least=least, progress=waiting)
        if not any(math.isfinite(loss) for loss in plan.loss.value):
            raise ValueError(f"budget {self.budget} has {plan.status[0]}")
        return Told(plan, facts)

    def _from_fit(self) -> tuple[Any, str, dict[str, Any]]:
        assert self.law is not None
        if given := self.options.given():
            raise ValueError(f"{next(iter(given))} is for --model, not for --law")
        if self.cost is None:
            raise ValueError('cost must be given with --law, such as --cost "6*N*D"')
        document = _read(self.law)
        from ..scaling.stored import described, from_document

        name, resources, settings = described(document)
        if name in MODELS:
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

        cost = Cost(self.cost or COSTS[self.model], RESOURCES[self.model])
        law = law_of(self.model, cost.names, settings)
        for name, value in exponents.items():
            low, high = law.bounds[name]
            if not low <= value <= high:
                raise ValueError(f"{name} must lie in [{low:g}, {high:g}], not {value:g}")
        height = _before_training(exponents, settings) if self.model == "msfr" else 1.0
        values = {"E": 0.0, "A": height, **exponents}
        known = Known(law, np.array([values.get(name, 1.0) for name in law.parameters]))
        facts = {"model": self.model, **exponents, **settings}
        return known, cost.text, facts


def _before_training(exponents: Mapping[str, float], settings: Mapping[str, Any]) -> float:
    """The loss of msfr before training, which its curve is a share of."""
    from solvable import msfr

    task = msfr.Task(**settings, **exponents)
    return float(msfr.loss(task, msfr.Init(0.1, 0.11), 0.0, "zeroth"))


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
