"""What can be asked of a lab: parameters in groups, each told once, in plain Python.

From a parameter come its flag, its help, what refuses it, its place in captions and documents, and
its slider. Nothing here imports NumPy or JAX, so that help is quick.
"""

import dataclasses
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from .pinned import checksum, pinned, short_of

Q = TypeVar("Q", bound="Question")
GIVEN = "given"  # in tables of defaults: a value that is no word, whichever
MANY = 8  # values that captions name one by one


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
        by: another field, and for each word of it for which this one exists, its default; or
            several fields, and for each of their combinations. Of a field that is no word None
            stands for what is not given, or has no end, and `GIVEN` for all else.
        quiet: whether captions name it only where it is not its default.
        told: how help tells the default, where the number itself says little.
        optional: whether it may be left out: None.
        endless: whether a whole number may be infinity as well.
        spread: whether it may be several values at once, an axis of the answer: a tuple.
        row: whether it may be a row of numbers, which is one value: a tuple.
        file: whether it is the path of a file; once settled, "PATH#" and a part of its checksum.
        flag: whether it is true or false; captions name it where it is true.
    """

    symbol: str
    doc: str
    low: int | float = -math.inf
    high: int | float = math.inf
    open_low: bool = False
    whole: bool = False
    words: tuple[str, ...] = ()
    by: tuple[str | tuple[str, ...], Mapping[Any, Any]] | None = None
    quiet: bool = False
    told: str = ""
    optional: bool = False
    endless: bool = False
    spread: bool = False
    row: bool = False
    file: bool = False
    flag: bool = False

    @property
    def table(self) -> tuple[tuple[str, ...], dict[tuple[Any, ...], Any]]:
        """The fields that it depends on, and its defaults by what they are."""
        others, defaults = self.by or ((), {})
        if isinstance(others, tuple):
            return others, dict(defaults)
        return (others,), {(word,): value for word, value in defaults.items()}

    def choice(self, value: Any) -> Any:
        """What tables know a value by: the word, or whether it is given and has an end."""
        return value if self.words or value is None else None if value == math.inf else GIVEN

    @property
    def limits(self) -> str:
        """The range, in words: "in (1, 10]", "at least 0"."""
        if self.words or (self.low == -math.inf and self.high == math.inf):
            return ""
        if self.whole:
            top = f" to {brief(self.high)}" if self.high < math.inf else ""
            return f"{'from' if top else 'at least'} {self.low}{top}{', or inf' * self.endless}"
        if self.high == math.inf:
            return f"{'above' if self.open_low else 'at least'} {brief(self.low)}"
        if self.low == -self.high:
            return f"of size at most {brief(self.high)}"
        return f"in {'(' if self.open_low else '['}{brief(self.low)}, {brief(self.high)}]"

    def checked(self, name: str, value: Any) -> Any:
        """The value as it is kept, or a `ValueError` with one sentence."""
        if value is None and self.optional:
            return value
        if (self.spread or self.row) and _is_row(value):
            several: Any = value
            parts = [self._number(name, x) for x in several]
            if not parts:
                raise ValueError(f"{name} must have one value or more")
            return tuple(dict.fromkeys(parts) if self.spread else parts)
        if self.file:
            if not isinstance(value, str | os.PathLike) or not str(value):
                raise ValueError(f"{name} must be the path of a file, not {spoken(value)}")
            return str(value)
        if self.flag:
            if type(value).__name__ not in ("bool", "bool_"):
                raise ValueError(f"{name} must be true or false, not {spoken(value)}")
            return bool(value)
        if self.words:
            if not isinstance(value, str) or value not in self.words:
                allowed = ", ".join(self.words)
                raise ValueError(f"{name} must be one of {allowed}, not {spoken(value)}")
            return value
        return self._number(name, value)

    def _number(self, name: str, value: Any) -> Any:
        if self.endless and (value == "inf" or type(value).__name__.startswith("float")):
            number = float(value)  # the command line has floats, for inf is one
            if number == math.inf:
                return math.inf
            value = int(number) if number % 1.0 == 0.0 else number
        if self.whole:
            return whole_number(name, value, self.low, self.high, endless=self.endless)
        try:
            if not _is_number(value):
                raise TypeError
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"{name} must be a number, not {spoken(value)}") from None
        above = number > self.low if self.open_low else number >= self.low
        if not (above and number <= self.high) or (self.high == math.inf == number):
            inside = interval(self.low, self.high, self.open_low)
            raise ValueError(f"{name} must lie in {inside}, not {number:.12g}")
        return number


def _is_number(value: Any) -> bool:
    """Whether it may be a number: neither text nor a truth value."""
    kind = type(value).__name__
    return value is not None and kind not in ("bool", "bool_", "str", "str_", "bytes")


def _is_row(value: Any) -> bool:
    return isinstance(value, list | tuple) or getattr(value, "ndim", 0) == 1


def interval(low: float, high: float, open_low: bool = False) -> str:
    """A range as sentences have it.

    >>> interval(1.0, 10.0, open_low=True)
    '(1, 10]'
    """
    left = "(" if open_low or low == -math.inf else "["
    return f"{left}{low:g}, {high:g}{')' if high == math.inf else ']'}"


def whole_number(
    name: str,
    value: Any,
    low: int | float = 0,
    high: int | float = math.inf,
    endless: bool = False,
) -> int:
    """`value` as an int in [low, high], or a `ValueError` naming `name`; `endless` adds a word.

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
        limits += ", or inf" * endless
        raise ValueError(f"{name} must be a whole number, {limits}, not {spoken(value)}")
    return number


def spoken(value: Any) -> str:
    """A value as a sentence has it: on one line, and short.

    >>> spoken("a" * 70)[-10:]
    'aaaaaaa...'
    """
    if getattr(value, "ndim", 0):
        return f"an array of shape {value.shape}"
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()  # spoken as a number of Python
    words = " ".join(repr(value).split())
    return words if len(words) <= 60 else f"{words[:57]}..."


def brief(value: Any) -> str:
    """A value as captions and help tell it.

    >>> brief(1000000), brief(0.70710678), brief("gd"), brief(1234567), brief((1, 2.5))
    ('1e6', '0.707107', 'gd', '1234567', '1 2.5')
    """
    if isinstance(value, tuple):
        return _row_of([brief(x) for x in value])
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


def _row_of(words: list[str]) -> str:
    """Values side by side; of many the ends, their number, and what tells them from others."""
    text = " ".join(words)
    if len(words) <= MANY:
        return text
    return f"{words[0]} {words[1]} … {words[-1]} ({len(words)}, {checksum(text.encode())[:8]})"


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


def file(doc: str, **more: Any) -> Any:
    """A field that is the path of a file, or left out."""
    return _field(None, Parameter("", doc, file=True, **more))


def flag(doc: str, default: bool | None = False, **more: Any) -> Any:
    """A field that is true or false."""
    return _field(default, Parameter("", doc, flag=True, **more))


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
        flat, known = question.flat(), fields(type(self))
        for name, parameter in known.items():
            if parameter.file and flat[name] is not None:
                flat[name] = pinned(name, flat[name])
            others, defaults = parameter.table
            if not others:
                continue
            found = tuple(known[other].choice(flat[other]) for other in others)
            if found in defaults:
                flat[name] = defaults[found] if flat[name] is None else flat[name]
            elif flat[name] is not None:
                raise ValueError(_misplaced(name, others, found, list(defaults)))
        return question.changed(**flat)

    def document(self) -> dict[str, dict[str, Any]]:
        """The question as plain data, group by group."""
        return {
            key: {name: _plain(value) for name, value in vars(group).items()}
            for key, group in _groups(self).items()
        }

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
            if parameter.flag:
                told += [parameter.symbol or name] * value
                continue
            short = _exact(value) if value != usual[name] else brief(value)
            if parameter.file:
                short = short_of(value)
            told.append(f"{parameter.symbol or name} = {short}")
        return ", ".join(told)


def _exact(value: Any) -> str:
    """A value in few words that tell it from any other, so that no two captions are one."""
    if isinstance(value, tuple):
        return _row_of([_exact(x) for x in value])
    short = brief(value)
    return repr(value) if isinstance(value, float) and float(short) != value else short


def _plain(value: Any) -> Any:
    """As JSON has it, which knows neither tuples nor infinity."""
    if isinstance(value, tuple):
        return [_plain(x) for x in value]
    return "inf" if value == math.inf else value


def _misplaced(
    name: str, others: tuple[str, ...], found: tuple[Any, ...], rows: list[tuple[Any, ...]]
) -> str:
    """Why a field does not exist for what others are: by the first that rules it out."""
    place = next(k for k in range(len(others)) if found[: k + 1] not in {r[: k + 1] for r in rows})
    other, here = others[place], found[place]
    if here is None or here == GIVEN:
        return f"{name} needs {other}" if here is None else f"{name} cannot be given with {other}"
    words = " or ".join(dict.fromkeys(r[place] for r in rows if r[:place] == found[:place]))
    return f"{name} is for {other} {words}, not {here}"


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
