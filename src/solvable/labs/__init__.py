"""The labs there are: descriptions of ours, one a module, and those of installed packages.

A description imports nothing heavy: the labs themselves are imported when they are asked.
"""

import importlib
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points

from ..asking import Lab
from ..papers import PAPERS

GROUP = "solvable.labs"


def names() -> list[str]:
    """The labs' names, ours first; nothing is imported."""
    return list(dict.fromkeys([*PAPERS, *sorted(point.name for point in _points())]))


def lab(name: str) -> Lab:
    """The lab of that name, ours or of an installed package.

    >>> lab("msfr").paper.title
    'A Solvable Attention for Neural Scaling Laws'
    """
    if name in PAPERS:
        return importlib.import_module(f"{__name__}.{name}").LAB
    found = [point for point in _points() if point.name == name]
    if not found:
        raise ValueError(f"lab must be one of {', '.join(names())}, not {name!r}")
    try:
        loaded = found[0].load()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(
            f"the lab {name!r} of {found[0].value} cannot be loaded ({reason})"
        ) from error
    if not isinstance(loaded, Lab) or loaded.name != name:
        raise ValueError(f"the entry point {name!r} of {GROUP} must be a solvable.Lab named so")
    return loaded


def labs(find: Callable[[str], Lab] = lab) -> Mapping[str, Lab]:
    """Every lab by its name; those of other packages that cannot be loaded are warned of."""
    found = {}
    for name in names():
        try:
            found[name] = find(name)
        except ValueError as error:
            warnings.warn(str(error), stacklevel=2)
    return found


def _points() -> list[EntryPoint]:
    return list(entry_points(group=GROUP))
