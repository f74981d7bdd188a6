"""``solvable fit``: a law fitted to the user's own curves, with intervals."""

import keyword
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from ..asking import LabLaw
from .arguments import Flag, MaybeFile, Repeated, following, pairs
from .compute import ComputeOptions
from .files import write_file
from .laws import FORMULAS, model, models
from .output import check_plot
from .progress import Waiting
from .screen import note, print_json, print_rich

if TYPE_CHECKING:
    from ..scaling import Fit as Fitted
    from .fit_words import Told
    from .table import Source, Table

HOLD_OUTS = ("largest", "random")


def _option(metavar: str, *words: str) -> Any:
    """How an option without a default is told."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="", help=" ".join(words) or None)


def command(words: Sequence[str]) -> type["Fit"]:
    """`Fit` with the laws there are: formulas, our labs', and another's where one is named."""
    known = models(following(words, "--law"))
    names = (*FORMULAS, *known)
    law = Annotated[
        Literal[names],  # pyright: ignore[reportInvalidTypeForm]
        _option(f"{{{','.join(names)}}}", *_FORMULA_WORDS, _model_words(known)),
    ]
    settings = Annotated[
        Repeated,
        _option(
            "NAME=VALUE",
            "a setting of a lab's model, once for each: --set num_tasks=500.",
            _setting_words(known),
        ),
    ]
    # tyro reads the other options' words in the class they are written in.
    return make_dataclass(
        Fit.__name__,
        [("law", law), ("set", settings, ())],
        bases=(Fit,),
        frozen=True,
        namespace={"__doc__": Fit.__doc__},
    )


_FORMULA_WORDS = (
    "power: y = E + A x^-a; chinchilla: y = E + A N^-a + B D^-b; additive: E and a power",
    "law in every resource; broken: a power law that bends at x0, from exponent a to c;",
)


def _model_words(known: Mapping[str, LabLaw]) -> str:
    over = " or of ".join(f"{', '.join(law.resources)} ({name})" for name, law in known.items())
    return f"{', '.join(known)}: the law of that lab's solvable model, of {over}"


def _setting_words(known: Mapping[str, LabLaw]) -> str:
    told = {name: [*law.settings, *law.further] for name, law in known.items()}
    return ", ".join(f"{name} has {_joined(has, 'and')}" for name, has in told.items() if has)


@dataclass(frozen=True)
class Fit:
    """Fit a law to a table of runs: its parameters with intervals, and how well it predicts.

    solvable fit runs.csv --law chinchilla --x N=params --x "D=flops/(6*params)" --y loss
    """

    file: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """the table: CSV (comma, semicolon or tab; column names first) or Parquet"""
    law: str
    x: Annotated[
        Repeated,
        _option(
            "[NAME=]COLUMN",
            "a resource, once for each: --x N=params --x D=tokens. COLUMN is a column of the table",
            "or an arithmetic on columns (+ - * / ** and parentheses):",
            '--x "D=flops/(6*params)". NAME may be left out for power, broken and chinchilla',
            "(N first, then D)",
        ),
    ]
    y: Annotated[
        str,
        _option("COLUMN", "what is fitted, such as the loss: a column or an arithmetic, positive"),
    ]
    compute: ComputeOptions = field(default_factory=ComputeOptions)
    group: Annotated[str | None, _option("COLUMN")] = None
    """the run that a row is of, if rows share noise; intervals then rest on the runs"""
    weights: Annotated[str | None, _option("COLUMN")] = None
    """how much a row counts, inverse variances up to a factor; all the same unless given"""
    loss: Literal["huber", "squares"] = "huber"
    """huber bounds the pull of outliers, squares (least squares) does not"""
    scale: Annotated[
        float | None,
        _option(
            "FLOAT",
            "relative residual beyond which huber bounds the pull; unless given, 1.345 standard",
            "deviations of the noise, found from the data",
        ),
    ] = None
    intervals: Annotated[
        Literal["delta", "profile", "bootstrap"],
        tyro.conf.arg(
            help="delta: from the curvature at the best fit (with --group: CR2); profile: from how "
            "the fit worsens away from it; bootstrap: from refits to resampled residuals"
        ),
    ] = "delta"
    level: float = 0.95
    """of the intervals, between 0 and 1"""
    pin: Annotated[Repeated, _option("NAME=NUMBER")] = ()
    """hold a parameter at a value, once for each: --pin E=1.7"""
    set: Repeated = ()
    hold_out: Annotated[
        tuple[str, str] | None,
        _option(
            "{largest,random} SHARE",
            "fit without a share of the rows and see how well they are predicted: largest 20%",
            "leaves out those of the largest resources, random 20% any",
        ),
    ] = None
    draws: int = 1000
    """refits of a bootstrap, at least 100"""
    seed: int = 0
    """of what is drawn"""
    plot: MaybeFile = None
    """draw data, law, bands and residuals into this .svg, .png or .pdf file"""
    json: Flag = False
    """print one JSON document, which solvable plan reads, instead of tables"""

    def run(self) -> int:
        """Fit, and tell."""
        if not self.x:
            raise ValueError("--x must be given; see solvable fit --help")
        pins, settings = pairs("pin", self.pin, "E=1.7"), pairs("set", self.set, "num_tasks=500")
        hold_out = _hold_out(self.hold_out)
        check_plot(self.plot)
        self.compute.quieten()
        picture = b""
        with Waiting("fitting", "refits") as waiting:
            told = self._fitted(
                _numbers("pin", pins),
                {k: _value(v) for k, v in settings.items()},
                hold_out,
                waiting,
            )
            _ = told.straight  # takes a while for many rows
            if self.plot is not None:
                from .fit_picture import draw

                picture = draw(told, self.plot.suffix.lower().removeprefix("."))
        if told.left_out:
            note(told.left_out_words())
        if self.plot is not None:
            write_file("plot", self.plot, picture)
            note(f"wrote {self.plot}")
        if self.json:
            print_json(told.document())
        else:
            from .fit_words import words

            print_rich(*words(told))
        return 0

    def _fitted(
        self,
        pins: Mapping[str, float],
        settings: Mapping[str, Any],
        hold_out: tuple[str, float] | None,
        waiting: Waiting,
    ) -> "Told":
        """The fit, with the table it was made of."""
        from . import table as tables
        from .fit_words import Told
        from .laws import law_of

        table = tables.read(self.file)
        y, resources = table.source("y", self.y), _resources(self.law, table, self.x)
        weights = None if self.weights is None else table.source("weights", self.weights)
        group = None if self.group is None else table.label_source("group", self.group)
        used = [*resources.values(), y, *(part for part in (weights, group) if part is not None)]
        rows, empty = table.complete(used)
        if not rows:
            raise ValueError(
                f"every row of {table.path.name} has an empty cell in {_joined(empty, 'or')}"
            )
        columns = {name: table.numbers(source, rows) for name, source in resources.items()}
        target = table.numbers(y, rows)
        heavy = None if weights is None else table.numbers(weights, rows)
        labels = None if group is None else table.labels(group, rows)

        if self.law not in FORMULAS:
            self.compute.prepare()
        from .. import scaling

        law = law_of(self.law, tuple(resources), settings)
        for name in pins:
            if name not in law.parameters:
                raise ValueError(
                    f"pin must name a parameter of {self.law}, one of "
                    f"{', '.join(law.parameters)}, not {name!r}"
                )
        fit: Fitted = scaling.fit(
            law,
            columns,
            y=target,
            weights=heavy,
            group=labels,
            loss=self.loss,
            intervals=self.intervals,
            pinned=pins,
            scale=self.scale,
            hold_out=hold_out,
            level=self.level,
            draws=self.draws,
            seed=self.seed,
            progress=waiting,
        )
        return Told(
            fit=fit,
            file=str(self.file),
            sources={name: source.text for name, source in resources.items()},
            target=y.text,
            weighted=None if weights is None else weights.text,
            grouped=None if group is None else group.text,
            columns=columns,
            y=target,
            weights=heavy,
            labels=labels,
            places=[table.places(row) for row in rows],
            rows=table.rows,
            empty=empty,
        )


def _resources(law: str, table: "Table", given: Sequence[str]) -> "dict[str, Source]":
    """The resources that a law is of, by name, in its order."""
    told = model(law)
    pairs = [_named(table, text) for text in given]
    names = [name or (text if text.isidentifier() else "") for name, text in pairs]
    if law in ("power", "broken"):
        if len(pairs) != 1:
            raise ValueError(f"x must be given once for {law}, which has one resource")
        names = [names[0] or "x"]
    elif law == "chinchilla":
        if len(pairs) != 2:
            raise ValueError("x must be given twice for chinchilla: --x N=params --x D=tokens")
        names = _size_and_data([name for name, _ in pairs])
    elif "" in names or (told is not None and not set(names) <= set(told.resources)):
        allowed = f", one of {', '.join(told.resources)}" if told is not None else ""
        known = [name for name in names if name] if told is None else told.resources
        bad = next(text for name, (_, text) in zip(names, pairs, strict=True) if name not in known)
        raise ValueError(f"x must have a name for {law}{allowed}: --x NAME={bad}")
    if len(set(names)) < len(names):
        raise ValueError(f"x must have different names, not {', '.join(names)}")
    found = {name: table.source("x", text) for name, (_, text) in zip(names, pairs, strict=True)}
    order = ("N", "D") if set(names) == {"N", "D"} else names
    order = order if told is None else told.resources
    return {name: found[name] for name in order if name in found}


def _size_and_data(names: list[str]) -> list[str]:
    """N and D where they are not named otherwise: by their names, else in the order given."""
    free = [name for name in ("N", "D") if name not in names]
    return [name or free.pop(0) for name in names]


def _named(table: "Table", text: str) -> tuple[str, str]:
    """``N=params`` taken apart; a column that is really called so is one without a name."""
    name, equals, rest = (part.strip() for part in text.partition("="))
    if text.strip() in table.names or not equals:
        return "", text.strip()
    if not (name.isascii() and name.isidentifier()) or keyword.iskeyword(name) or not rest:
        raise ValueError(f"x must be NAME=COLUMN, such as N=params, not {text!r}")
    return name, rest


def _numbers(option: str, given: Mapping[str, str]) -> dict[str, float]:
    found = {}
    for name, text in given.items():
        value = _value(text)
        if isinstance(value, str):
            raise ValueError(f"{option} {name} must be a number, not {text!r}")
        found[name] = float(value)
    return found


def _value(text: str) -> int | float | str:
    """A whole number, a number, or else the text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _hold_out(given: tuple[str, str] | None) -> tuple[str, float] | None:
    if given is None:
        return None
    kind, text = given
    if kind not in HOLD_OUTS:
        raise ValueError(f"hold_out must begin with largest or random, not {kind!r}")
    share = _value(text.removesuffix("%"))
    part = float("nan") if isinstance(share, str) else share / 100 if text.endswith("%") else share
    if not 0.0 < part < 1.0:
        raise ValueError(f"hold_out must end with a share such as 20% or 0.2, not {text!r}")
    return kind, float(part)


def _joined(names: Sequence[str] | Mapping[str, Any], word: str) -> str:
    *first, last = names
    return f"{', '.join(first)} {word} {last}" if first else last
