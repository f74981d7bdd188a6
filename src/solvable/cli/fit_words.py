"""What a fit says, to read and as a JSON document."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .laws import words_of

if TYPE_CHECKING:
    import numpy as np

    from ..scaling import Fit, LocalExponent, Parameter, Window

STATUS = {
    "converged": ("converged", "bold green"),
    "ill_posed": ("ill-posed", "bold yellow"),
    "at_bound": ("at a bound", "bold yellow"),
    "not_converged": ("not converged", "bold red"),
}
FAR = 3.0  # standard deviations from which on a row is named
MISSED = 1e-3  # a runs test below it is told
NAMED = 5  # rows, at most, and in the document
LISTED = 20
UNBOUNDED = (-math.inf, math.inf)
DIGITS = 7  # that are shown at most, where there is no noise


@dataclass(frozen=True)
class Told:
    """A fit, and the table that it was made of.

    Attributes:
        fit: the fit.
        file: that held the table.
        sources: the column, or the arithmetic, behind every resource.
        target, weighted, grouped: the same of y, of the weights and of the groups.
        columns, y, weights, labels: the rows without empty cells.
        places: where in the file each of these is.
        rows: how many rows the file has.
        empty: how many rows are empty in which column.
    """

    fit: "Fit"
    file: str
    sources: Mapping[str, str]
    target: str
    weighted: str | None
    grouped: str | None
    columns: "Mapping[str, np.ndarray]"
    y: "np.ndarray"
    weights: "np.ndarray | None"
    labels: Sequence[str] | None
    places: Sequence[str]
    rows: int
    empty: Mapping[str, int]

    @property
    def left_out(self) -> int:
        """Rows with an empty cell."""
        return self.rows - len(self.places)

    def left_out_words(self) -> str:
        """How many rows were left out, and why."""
        cells = ", ".join(f"{count} in {name}" for name, count in self.empty.items())
        return f"left out {self.left_out} of {self.rows} rows with empty cells: {cells}"

    @cached_property
    def outliers(self) -> list[tuple[str, float, float]]:
        """Rows beyond Huber's scale, worst first: where, y over the curve, and how far."""
        import numpy as np

        fit = self.fit
        weights = np.ones(len(self.y)) if self.weights is None else self.weights
        root = np.sqrt(weights / np.mean(weights))[fit.rows]
        sizes = np.abs(fit.residuals) * root
        # Without noise there is a last digit to be wrong, but no outlier.
        limit = max(fit.scale if math.isfinite(fit.scale) else FAR * fit.noise, 1e-9)
        far = [k for k in np.argsort(-sizes) if sizes[k] > limit]
        return [
            (self.places[int(fit.rows[k])], math.exp(-fit.residuals[k]), float(sizes[k]))
            for k in far
        ]

    @property
    def floor(self) -> float:
        """What is taken off y before it is looked at for power laws: a floor that is pinned."""
        floor = self.fit.parameters.get("E")
        known = floor is not None and floor.state == "pinned" and floor.value < self.y.min()
        return floor.value if floor is not None and known else 0.0

    @cached_property
    def straight(self) -> "tuple[Window, LocalExponent] | None":
        """Where y is a pure power law of its one resource, and the local exponent.

        None for several resources, or where there are too few points.
        """
        from .. import scaling

        if len(self.sources) > 1:
            return None
        (x,) = self.columns.values()
        options: dict[str, Any] = {"group": self.labels, "level": self.fit.known.level}
        try:
            window = scaling.power_window(x, self.y - self.floor, **options)
            return window, scaling.local_exponent(x, self.y - self.floor, **options)
        except ValueError:  # fewer than six different x
            return None

    def document(self) -> dict[str, Any]:
        """All that is told, with every digit."""
        from dataclasses import asdict

        from ..scaling.stored import to_document

        window = local = None
        if self.straight is not None:
            window, local = (asdict(part) for part in self.straight)
            window["floor"] = self.floor
            local = {name: column.tolist() for name, column in local.items()}
        return {
            **to_document(self.fit),
            "file": self.file,
            "columns": {
                "x": dict(self.sources),
                "y": self.target,
                "weights": self.weighted,
                "group": self.grouped,
            },
            "left_out": self.left_out,
            "outliers": {
                "count": len(self.outliers),
                "worst": [{"row": row, "ratio": ratio} for row, ratio, _ in self.outliers[:LISTED]],
            },
            "window": window,
            "local_exponent": local,
        }


def words(told: Told) -> list[Any]:
    """What is printed."""
    from rich.table import Table
    from rich.text import Text

    fit = told.fit
    points = f"{len(fit.rows)} of {len(told.y)} rows" if fit.hold_out else f"{len(fit.rows)} points"
    runs = f" in {fit.groups} groups" if fit.groups else ""
    name, style = STATUS[fit.status]
    meaning, advice = _status_words(fit)
    head = Text.assemble(
        (formula(told), "bold"), f"\n{_sources(told)}{points}{runs}: ", (name, style)
    )
    said = [Text(line) for line in (meaning, advice) if line]
    facts = {
        "intervals": _interval_words(fit),
        "residuals": _residual_words(told),
        "shape": _shape_words(fit),
        "outliers": _outlier_words(told),
        "hold-out": _hold_out_words(told),
        "window": _window_words(told),
        "slope": _slope_words(told),
        "next": _further(told),
    }
    grid = Table.grid(padding=(0, 2))
    for label, sentence in facts.items():
        if sentence:
            grid.add_row(Text(label, style="bold"), Text(sentence))
    return [head, *said, "", _table(fit), "", grid]


def formula(told: Told) -> str:
    """The law, in the names of the table."""
    law, y = told.fit.law, _short(told.target, "y")
    x = law.resources
    match law.name:
        case "power" | "chinchilla" | "additive":
            pairs = zip(law.linear[1:], x, law.exponents, strict=True)
            return f"{y} = E + " + " + ".join(f"{A} {one}^-{a}" for A, one, a in pairs)
        case "broken":
            return f"{y} = E + A {x[0]}^-a (1 + ({x[0]}/x0)^(1/s))^(-(c-a)s)"
    return f"{y} = {law.name}({', '.join(x)}; {', '.join(law.parameters)})"


def _short(text: str, otherwise: str) -> str:
    return text if len(text) <= 24 else otherwise


def _sources(told: Told) -> str:
    """Which column is which resource, where that is not its name already."""
    pairs = {**told.sources, **({"y": told.target} if _short(told.target, "y") == "y" else {})}
    said = [f"{name} = {text}" for name, text in pairs.items() if name != text]
    settings = getattr(told.fit.law, "settings", {})
    said += [
        f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in settings.items()
    ]
    return f"{', '.join(said)}; " if said else ""


def _status_words(fit: "Fit") -> tuple[str, str]:
    """What the status means, and what to do about it."""
    message = fit.message
    if message.partition(" ")[0].rstrip(",") not in (*fit.parameters, *fit.law.resources):
        message = message[:1].upper() + message[1:]
    match fit.status:
        case "ill_posed" if " vary" in message:
            return f"{message}.", (
                "The curve may still be good where the data are. Collect rows in which the columns "
                "vary, each by itself, or fit a law without them."
            )
        case "ill_posed":
            floor = fit.parameters.get("E")
            pin = (
                "E (--pin E=…)" if floor and floor.state == "free" else "a parameter (--pin NAME=…)"
            )
            return f"{message}.", (
                "The curve may still be good where the data are; single parameters are not. Pin "
                f"{pin} if you know it, or collect points over a wider range."
            )
        case "at_bound":
            names = [name for name, one in fit.parameters.items() if one.state == "at bound"]
            return f"{message}.", (
                f"{_missing(fit)}The other intervals take {_and(names)} for known there; points "
                "over a wider range, or a law with fewer parameters, would tell more."
            )
        case "not_converged":
            return f"{message}.", (
                "Do not use these numbers: hold some parameters (--pin NAME=…), take a law with "
                "fewer, or look at the table."
            )
    return "", ""


def _missing(fit: "Fit") -> str:
    """Which terms the data do not show."""
    meanings = _meanings(fit)
    terms = [
        meanings.get(name, name).replace("amplitude of", "term in")
        for name, one in fit.parameters.items()
        if name in fit.law.linear and one.state == "at bound" and one.value == 0.0
    ]
    return f"The data show no {' and no '.join(terms)}. " if terms else ""


def _and(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _table(fit: "Fit") -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    table.add_column("parameter", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column(f"{100 * fit.known.level:g} % interval", no_wrap=True)
    table.add_column("", style="dim")
    meanings = _meanings(fit)
    for name, one in fit.parameters.items():
        value, interval = digits(one, fit.law.bounds[name])
        table.add_row(name, value, interval, meanings.get(name, ""))
    return table


def _meanings(fit: "Fit") -> dict[str, str]:
    law = fit.law
    match law.name:
        case "power" | "chinchilla" | "additive":
            each = dict(zip(law.linear[1:], law.resources, strict=True))
            steep = dict(zip(law.exponents, law.resources, strict=True))
            return (
                {"E": "floor"}
                | {name: f"amplitude of {x}" for name, x in each.items()}
                | {name: f"exponent of {x}" for name, x in steep.items()}
            )
        case "broken":
            return {
                "E": "floor",
                "A": "amplitude",
                "a": "exponent before the bend",
                "c": "exponent beyond it",
                "x0": "where it bends",
                "s": f"the bend is 4s wide in log {law.resources[0]}",
            }
    units = {f"unit_{x}": f"this much {x} is 1 of the model's" for x in law.resources}
    return {"E": "floor", "A": "height above it"} | dict(words_of(law.name)) | units


def digits(one: "Parameter", bounds: tuple[float, float] = UNBOUNDED) -> tuple[str, str]:
    """Value and interval with as many digits as the interval bears: two of its half-width.

    An end that is a bound tells nothing of the width.

    >>> from solvable.scaling import Parameter
    >>> digits(Parameter(0.341234, 0.329876, 0.352592, 0.005))
    ('0.341', '0.330 … 0.353')
    >>> digits(Parameter(406.4321, 301.2345, 548.3456, 0.1))
    ('410', '300 … 550')
    >>> digits(Parameter(0.2, 0.0, 5.6789, 2.7), (0.0, math.inf))
    ('0.2', '0 … 5.7')
    """
    if one.state == "pinned":
        return f"{one.value:.{DIGITS}g}", "pinned"
    if one.state == "at bound":
        return f"{one.value:g}", "at its bound"
    if not math.isfinite(one.value) or not math.isfinite(one.error):
        return "?", "cannot be told"
    ends = (one.low, one.high)
    sides = [abs(end - one.value) for end in ends if end not in bounds and math.isfinite(end)]
    if not sides:  # from one bound to the other
        return "?", "cannot be told"
    if min(sides) == 0.0:
        return f"{one.value:.{DIGITS}g}", "exact"
    value = _rounded(one.value, min(sides))
    low, high = (_rounded(end, abs(end - one.value) or min(sides)) for end in ends)
    return value, f"{low} … {high}"


def _rounded(value: float, spread: float) -> str:
    """A number down to the second digit of its spread."""
    if value == 0.0:
        return "0"
    if math.isinf(value):
        return "∞" if value > 0.0 else "−∞"
    leading = math.floor(math.log10(abs(value)))
    place = math.floor(math.log10(spread)) - 1  # of the last digit; −2: hundredths
    place = max(min(place, leading), leading - DIGITS + 1)
    if not 1e-4 <= abs(value) < 1e6:
        mantissa, exponent = f"{value:.{leading - place}e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{round(value, -place):.{max(0, -place)}f}"


def percent(share: float, signed: bool = False) -> str:
    """A relative size with two digits.

    >>> percent(0.02345), percent(-0.3, signed=True)
    ('2.3 %', '−30 %')
    """
    size = 100.0 * share
    text = f"{abs(size):#.2g}".rstrip(".")
    if "e" in text:
        text = f"{abs(size):.0f}" if abs(size) >= 1.0 else f"{abs(size):.1e}"
    sign = ("−" if size < 0.0 else "+") if signed else ""
    return f"{sign}{text} %"


def _interval_words(fit: "Fit") -> str:
    again = f"{fit.redone} refits were searched again" if fit.redone else ""
    lost = f"{fit.failed} failed and were left out" if fit.failed else ""
    return "; ".join(part for part in (fit.method, again, lost) if part)


def _residual_words(told: Told) -> str:
    fit = told.fit
    said = f"rms {percent(fit.rms)}"
    if math.isfinite(fit.scale):
        said += (
            f"; {len(told.outliers)} of {len(fit.rows)} are beyond Huber's scale, "
            f"{percent(fit.scale)} (of normal noise about {0.18 * len(fit.rows):.0f} would be)"
        )
    return said


def _shape_words(fit: "Fit") -> str:
    """A warning where residuals are no noise."""
    if fit.runs_p is None or fit.runs_p >= MISSED:
        return ""
    return (
        f"the residuals keep their sign for long stretches (runs test, p = {fit.runs_p:.1g}): the "
        "law misses the shape of the data, which the intervals do not count"
    )


def _outlier_words(told: Told) -> str:
    fit = told.fit
    deviation = fit.scale / 1.345 if math.isfinite(fit.scale) else fit.noise
    far = [one for one in told.outliers if one[2] > FAR * deviation]
    if not far:
        return "none beyond 3 standard deviations"
    rows = ", ".join(f"{place} ({percent(ratio - 1.0, True)})" for place, ratio, _ in far[:NAMED])
    more = f" and {len(far) - NAMED} more" if len(far) > NAMED else ""
    return f"measured against the law: {rows}{more}"


def _hold_out_words(told: Told) -> str:
    fit, held = told.fit, told.fit.hold_out
    if held is None:
        return ""
    count = len(held.rows)
    which = f"the {count} largest" if held.kind == "largest" else f"{count} random"
    side = "too high" if held.bias > 0.0 else "too low"
    said = (
        f"{which} of {len(told.y)} rows are predicted with rms {percent(held.rms)}, the law on "
        f"average {percent(abs(held.bias))} {side}; {100 * held.inside:.0f} % lie inside their "
        f"{100 * fit.known.level:g} % prediction intervals. The parameters are those of the "
        "other rows"
    )
    if _unlikely(round(held.inside * count), count, fit.known.level):
        said += ". Fewer than the intervals promise: do not trust the law that far out"
    return said


def _unlikely(inside: int, count: int, level: float) -> bool:
    """Whether so few of `count` would be inside less than once in a hundred tables."""
    from scipy import stats

    return bool(stats.binom.cdf(inside, count, level) < 0.01)


def _window_words(told: Told) -> str:
    """Where y alone is a power law."""
    if told.straight is None:
        return ""
    window, _ = told.straight
    (x,) = told.fit.law.resources
    what = _short(told.target, "y") + (f" − {told.floor:g}" if told.floor else "")
    if window.points == 0:
        return f"{what} is nowhere a pure power law of {x}"
    whole = window.points == len(told.y)
    ends = f"from {x} = {_place(window.low)} to {_place(window.high)}"
    return (
        f"a pure power law of {what} is not rejected {'over the whole range' if whole else ends} "
        f"({window.decades:.1f} decades, {window.points} points): exponent "
        f"{_steep(window.exponent, window.exponent_low, window.exponent_high)}"
    )


def _slope_words(told: Told) -> str:
    """How steep y is at both ends."""
    if told.straight is None:
        return ""
    _, local = told.straight
    (x,) = told.fit.law.resources
    ends = [
        f"{_steep(local.exponent[k], local.low[k], local.high[k])} at {x} = {_place(local.x[k])}"
        for k in (0, -1)
    ]
    return f"local exponent {' and '.join(ends)}"


def _steep(value: float, low: float, high: float) -> str:
    from ..scaling import Parameter

    if not math.isfinite(high - low):
        return "?"
    return "{} ({})".format(*digits(Parameter(float(value), float(low), float(high), 0.0)))


def _place(x: float) -> str:
    """A number with three digits.

    >>> _place(11700.0), _place(1599.0), _place(1.0), _place(0.00025)
    ('1.17e4', '1600', '1', '2.5e-4')
    """
    if 1e-3 <= x < 1e4:
        return f"{float(f'{x:.3g}'):g}"
    mantissa, exponent = f"{x:.2e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def _further(told: Told) -> str:
    if told.fit.status == "not_converged":
        return "--json has every digit"
    if len(told.sources) > 1:
        cost = "*".join(["6", *told.fit.law.resources])
        return f'--json > fit.json, then solvable plan --law fit.json --cost "{cost}" --budget …'
    return "--plot FILE draws it, --json has every digit"
