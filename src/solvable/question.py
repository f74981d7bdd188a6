"""What can be asked of a lab: parameters in groups, each told once, in plain Python.

From a parameter come its flag, its help, what refuses it, its place in captions and documents, and
its slider. Nothing here imports NumPy or JAX, so that help is quick.
"""

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

Q = TypeVar("Q", bound="Question")


@dataclass(frozen=True)
class Parameter:
    """One field of a question.

    Attributes:
        symbol: how the paper writes it; empty for what has no symbol.
        doc: what it is, in a few words.
        low, high: its range, ends included.
        open_low: whether the range is without its lower end.
        whole: whether it must be a whole number.
        words: what it may be, of a word.
        by: another field, and for each word of it for which this one exists, its default.
        quiet: whether captions name it only where it is not its default.
        told: how help tells the default, where the number itself says little.
        optional: whether it may be left out: None.
    """

    symbol: str
    doc: str
    low: int | float = -math.inf
    high: int | float = math.inf
    open_low: bool = False
    whole: bool = False
    words: tuple[str, ...] = ()
    by: tuple[str, Mapping[str, Any]] | None = None
    quiet: bool = False
    told: str = ""
    optional: bool = False

    @property
    def limits(self) -> str:
        """The range, in words: "in (1, 10]", "at least 0"."""
        if self.words or (self.low == -math.inf and self.high == math.inf):
            return ""
        if self.whole and self.high == math.inf:
            return f"at least {self.low}"
        if self.whole:
            return f"from {self.low} to {brief(self.high)}"
        if self.high == math.inf:
            return f"{'above' if self.open_low else 'at least'} {brief(self.low)}"
        if self.low == -self.high:
            return f"of size at most {brief(self.high)}"
        return f"in {'(' if self.open_low else '['}{brief(self.low)}, {brief(self.high)}]"

    def checked(self, name: str, value: Any) -> Any:
        """The value as it is kept, or a `ValueError` with one sentence."""
        if value is None and self.optional:
            return value
        if self.words:
            if not isinstance(value, str) or value not in self.words:
                allowed = ", ".join(self.words)
                raise ValueError(f"{name} must be one of {allowed}, not {spoken(value)}")
            return value
        if self.whole:
            return whole_number(name, value, self.low, self.high)
        try:
            if value is None or type(value).__name__ in ("bool", "bool_", "str", "bytes"):
                raise TypeError
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"{name} must be a number, not {spoken(value)}") from None
        above = number > self.low if self.open_low else number >= self.low
        if not (above and number <= self.high) or (self.high == math.inf == number):
            inside = interval(self.low, self.high, self.open_low)
            raise ValueError(f"{name} must lie in {inside}, not {number:.12g}")
        return number


def interval(low: float, high: float, open_low: bool = False) -> str:
    """A range as sentences have it.

    >>> interval(1.0, 10.0, open_low=True)
    '(1, 10]'
    """
    left = "(" if open_low or low == -math.inf else "["
    return f"{left}{low:g}, {high:g}{')' if high == math.inf else ']'}"


def whole_number(name: str, value: Any, low: int | float = 0, high: int | float = math.inf) -> int:
    """`value` as an int in [low, high], or a `ValueError` naming `name`.

    >>> whole_number("steps", 2.5)
    Traceback (most recent call last):
    ValueError: steps must be a whole number, at least 0, not 2.5
    """
    try:
        number = int(value)
        good = type(value).__name__ not in ("bool", "bool_") and number == value and number >= low
    except (TypeError, ValueError, OverflowError):
        good, number = False, 0
    if not good or number > high:
        limits = f"at least {low}" if high == math.inf else f"from {low} to {int(high)}"
        raise ValueError(f"{name} must be a whole number, {limits}, not {spoken(value)}")
    return number


def spoken(value: Any) -> str:
    """A value as a sentence has it: on one line, and short.

    >>> spoken("a" * 70)[-10:]
    'aaaaaaa...'
    """
    if getattr(value, "ndim", 0):
        return f"an array of shape {value.shape}"
    words = " ".join(repr(value).split())
    return words if len(words) <= 60 else f"{words[:57]}..."


def brief(value: Any) -> str:
    """A value as captions and help tell it.

    >>> brief(1000000), brief(0.70710678), brief("gd"), brief(1234567)
    ('1e6', '0.707107', 'gd', '1234567')
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    text = str(value) if isinstance(value, int) else f"{value:g}"
    if (
        isinstance(value, int)
        and 10**6 <= abs(value) < 10**100
        and not value % 10 ** (len(text) - 3)
    ):
        text = f"{value:g}"  # few digits and many zeros
    head, e, power = text.partition("e")
    return f"{head}e{int(power)}" if e else text


def real(
    default: float | None,
    symbol: str,
    doc: str,
    low: int | float = -math.inf,
    high: int | float = math.inf,
    **more: Any,
) -> Any:
    """A field that is a number."""
    return _field(default, Parameter(symbol, doc, low, high, **more))


def whole(
    default: int | None,
    symbol: str,
    doc: str,
    low: int = 0,
    high: int | float = math.inf,
    **more: Any,
) -> Any:
    """A field that is a whole number."""
    return _field(default, Parameter(symbol, doc, low, high, whole=True, **more))


def word(default: str | None, doc: str, **more: Any) -> Any:
    """A field that is one of some words, those of its ``Literal``."""
    return _field(default, Parameter("", doc, **more))


def _field(default: Any, parameter: Parameter) -> Any:
    return dataclasses.field(default=default, metadata={"parameter": parameter})


@dataclass(frozen=True)
class Group:
    """Some fields of a question under one heading, its docstring; ranges are checked when made.

    A field that is None was not given: what it is then, is settled with the whole question.
    """

    def __post_init__(self) -> None:
        for name, parameter in parameters(type(self)).items():
            object.__setattr__(self, name, parameter.checked(name, getattr(self, name)))

    def implied(self) -> dict[str, Any]:
        """What follows from what was given, where a table cannot say it; fields by name."""
        return {}


@cache
def parameters(kind: type[Group]) -> dict[str, Parameter]:
    """The parameters of a group by name, with the words that their types allow."""
    hints = get_type_hints(kind)
    return {
        field.name: dataclasses.replace(
            field.metadata["parameter"],
            words=_words(hints[field.name]),
            optional=type(None) in get_args(hints[field.name]),
        )
        for field in dataclasses.fields(kind)
    }


def _words(hint: Any) -> tuple[str, ...]:
    if get_origin(hint) is Literal:
        return get_args(hint)
    if isinstance(hint, UnionType) or get_origin(hint) is not None:
        return tuple(word for part in get_args(hint) for word in _words(part))
    return ()


@dataclass(frozen=True)
class Question:
    """All that can be asked of a lab: a frozen dataclass of groups, each with a default.

    The names of fields are unique across groups. Where something trains, the group `schedule` says
    how.
    """

    def flat(self) -> dict[str, Any]:
        """Every field by name."""
        return {
            name: getattr(group, name)
            for group in _groups(self).values()
            for name in parameters(type(group))
        }

    def changed(self: Q, /, **given: Any) -> Q:
        """The question with other fields, or a `ValueError` that names what there is."""
        known = fields(type(self))
        for name in given:
            if name not in known:
                import difflib

                near = difflib.get_close_matches(name, known, n=1)
                hint = f"; did you mean {near[0]}?" if near else f"; it has {', '.join(known)}"
                raise ValueError(f"{name} is no field of the question{hint}")
        if not given:
            return self
        limits = fields(type(self))  # checked here, too: a whole number becomes a float's
        given = {name: limits[name].checked(name, value) for name, value in given.items()}
        return type(self)(
            **{
                key: dataclasses.replace(group, **{n: given[n] for n in vars(group) if n in given})
                for key, group in _groups(self).items()
            }
        )

    def settled(self: Q) -> Q:
        """The question with every default that depends on another field; asked twice, the same."""
        implied = {n: x for group in _groups(self).values() for n, x in group.implied().items()}
        question = self.changed(**implied)
        flat = question.flat()
        for name, parameter in fields(type(self)).items():
            if parameter.by is None:
                continue
            other, defaults = parameter.by
            if flat[other] in defaults:
                flat[name] = defaults[flat[other]] if flat[name] is None else flat[name]
            elif flat[name] is not None:
                words = " or ".join(defaults)
                raise ValueError(f"{name} is for {other} {words}, not {flat[other]}")
        return question.changed(**flat)

    def document(self) -> dict[str, dict[str, Any]]:
        """The question as plain data, group by group."""
        return {key: dict(vars(group)) for key, group in _groups(self).items()}

    @classmethod
    def of(cls: type[Q], document: str | Mapping[str, Any]) -> Q:
        """The question that a document is of: what `document` gives, or its JSON.

        Raises:
            ValueError: naming what is none of its groups or fields.
        """
        try:
            told = json.loads(document) if isinstance(document, str) else document
        except (ValueError, RecursionError):
            raise ValueError(f"document must be JSON, not {spoken(document)}") from None
        if not isinstance(told, Mapping):
            raise ValueError(f"document must be an object of groups, not a {type(told).__name__}")
        known = groups(cls)
        for key, values in told.items():
            if key not in known or not isinstance(values, Mapping):
                raise ValueError(f"{key} is no group of the question; it has {', '.join(known)}")
            for name in values:
                if name not in parameters(known[key]):
                    there = ", ".join(parameters(known[key]))
                    raise ValueError(f"{name} is no field of {key}; it has {there}")
        return cls().changed(**{n: x for values in told.values() for n, x in values.items()})

    def caption(self, names: Iterable[str] | None = None) -> str:
        """``S = 500, α = 1.8, …``: those fields of `names` that apply, in the paper's symbols.

        Quiet fields are named where they are not their defaults; others always.
        """
        usual, flat = type(self)().settled().flat(), self.flat()
        known = fields(type(self))
        told = []
        for name in known if names is None else names:
            parameter, value = known[name], flat[name]
            if value is None or (parameter.quiet and value == usual[name]):
                continue
            short = brief(value)
            if isinstance(value, float) and value != usual[name] and float(short) != value:
                short = repr(value)  # so that no two questions have one caption
            told.append(f"{parameter.symbol or name} = {short}")
        return ", ".join(told)


def fields(kind: type[Question]) -> dict[str, Parameter]:
    """Every parameter of a question by name."""
    return {
        name: parameter
        for group in groups(kind).values()
        for name, parameter in parameters(group).items()
    }


@cache
def groups(kind: type[Question]) -> dict[str, type[Group]]:
    """The groups of a question by name."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _groups(question: Question) -> dict[str, Group]:
    return {field.name: getattr(question, field.name) for field in dataclasses.fields(question)}
