"""Other values for a figure's settings, checked by name and type."""

import difflib
import json
import math
from collections.abc import Mapping
from typing import Any

from .claim import Size
from .figure import Figure


def parsed(figure: Figure, size: Size, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes that differ from a figure's own settings, as values of the same type.

    Args:
        figure: whose settings.
        size: at which size.
        changes: values, or text as it is typed on a command line, by name; where a figure has
            several, ``alphas``, a single one is ``alpha``.

    Raises:
        ValueError: for a name that the figure does not have, or a value of another type.
    """
    if not changes:
        return {}
    known = figure.values(size)
    found = {}
    for name, value in changes.items():
        if name not in known and isinstance(known.get(f"{name}s"), list):
            name = f"{name}s"  # one of what the figure has several of
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            allowed = ", ".join(known)
            raise ValueError(f"setting of {figure.id} must be one of {allowed}, not {name!r}{hint}")
        if name in found:
            raise ValueError(f"{name} must be given once, not twice")
        found[name] = _value(name, value, known[name])
        each = [json.dumps(one) for one in found[name]] if name in figure.axes else []
        if len(set(each)) < len(each):  # it would claim the same twice
            raise ValueError(f"{name} must be different values, not {value!r}")
    return {name: value for name, value in found.items() if value != known[name]}


def _value(name: str, given: Any, like: Any) -> Any:
    """A value of the type of another."""
    value = _read(given, like) if isinstance(given, str) else json.loads(json.dumps(given))
    if isinstance(like, list) and not isinstance(value, list | str):
        value = [value]
    if not _fits(value, like):
        raise ValueError(f"{name} must be {_type(like)}, such as {typed(like)}, not {given!r}")
    return _cast(value, like)


def _read(text: str, like: Any) -> Any:
    if isinstance(like, str):
        return text
    for form in (text, f"[{text}]") if isinstance(like, list) else (text,):
        try:
            value = json.loads(form)
        except ValueError:
            continue
        if not isinstance(like, list) or isinstance(value, list):
            return value
    return text


def _fits(value: Any, like: Any) -> bool:
    match like:
        case bool():
            return isinstance(value, bool)
        case int():
            whole = isinstance(value, float) and math.isfinite(value) and value == int(value)
            return (isinstance(value, int) or whole) and not isinstance(value, bool)
        case float():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            return number and math.isfinite(value)
        case list():
            if not isinstance(value, list) or not value:
                return False
            kinds = like if len(like) == len(value) else [_widest(like)] * len(value)
            return all(_fits(v, k) for v, k in zip(value, kinds, strict=True))
        case dict():
            same = isinstance(value, dict) and set(value) == set(like)
            return same and all(_fits(value[name], like[name]) for name in like)
        case None:
            return True
        case _:
            return isinstance(value, str)


def _cast(value: Any, like: Any) -> Any:
    match like:
        case bool() | str() | None:
            return value
        case int():
            return int(value)
        case float():
            return float(value)
        case list():
            kinds = like if len(like) == len(value) else [_widest(like)] * len(value)
            return [_cast(v, k) for v, k in zip(value, kinds, strict=True)]
        case _:
            return {name: _cast(value[name], like[name]) for name in like}


def _widest(like: list[Any]) -> Any:
    """What the elements of a list are like: one that is no whole number, where there is one."""
    return next((each for each in like if isinstance(each, float)), like[0] if like else None)


def typed(value: Any) -> str:
    """A value as one types it.

    >>> typed([1, 2.5]), typed([[1, 2]]), typed("word")
    ('1,2.5', '[[1,2]]', 'word')
    """
    if isinstance(value, str):
        return value
    text = json.dumps(value, separators=(",", ":"))
    return text[1:-1] if isinstance(value, list) and "[" not in text[1:] else text


def _type(like: Any) -> str:
    match like:
        case bool():
            return "true or false"
        case int():
            return "a whole number"
        case float():
            return "a finite number"
        case [list() as first, *_]:
            return f"lists in brackets, each of {_type(first)}"
        case list():
            return f"{_type(_widest(like)).removeprefix('a ')}s with commas between"
        case dict():
            return "a JSON object with the same names"
        case _:
            return "a word"
