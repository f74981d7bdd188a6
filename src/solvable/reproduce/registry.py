"""Which figures there are: of our labs, and of those of installed packages."""

import difflib
import importlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from .. import asking
from .. import labs as described
from ..papers import PAPERS, Paper
from .figure import Figure
from .witnesses import witnesses

names = described.names


def Lab(paper: Paper, figures: Sequence[Figure]) -> asking.Lab:
    """A lab of figures alone; `solvable.Lab` is its name now."""
    words = "reproduce.Lab(paper, figures) is solvable.Lab(paper, figures=figures) now"
    warnings.warn(words, DeprecationWarning, stacklevel=2)
    return asking.Lab(paper, figures=tuple(figures))


def lab(name: str) -> asking.Lab:
    """The lab of that name with its figures themselves; imports them."""
    found = described.lab(name)
    own = _figures(found)
    if strangers := [figure.id for figure in own if figure.lab != name]:
        raise ValueError(f"{strangers[0]} is not a figure of the lab {name!r}")
    if len(found.witnesses) > 1 and any(who.trains for who in found.witnesses.values()):
        own = (*own, witnesses(found))
    return replace(found, figures=own)


def _figures(found: asking.Lab) -> tuple[Figure, ...]:
    if not isinstance(found.figures, str):
        return tuple(found.figures)
    module, _, word = found.figures.partition(":")
    if found.name not in PAPERS:
        return tuple(getattr(importlib.import_module(module), word))
    import jax

    with jax.enable_x64(True):  # some figures make tasks as they are declared
        return tuple(getattr(importlib.import_module(module), word))


def labs() -> Mapping[str, asking.Lab]:
    """Every lab by its name, with its figures; those that cannot be loaded are warned of."""
    return described.labs(lab)


def figure(id: str) -> Figure:
    """The figure LAB/FIGURE."""
    name, _, word = id.partition("/")
    known = {figure.name: figure for figure in lab(name).figures}
    if word not in known:
        near = difflib.get_close_matches(word, known, n=1)
        hint = f"; did you mean {name}/{near[0]}?" if near else ""
        allowed = ", ".join(known)
        raise ValueError(f"figure of {name} must be one of {allowed}, not {word!r}{hint}")
    return known[word]


def figures(targets: Iterable[str] = ("all",)) -> list[Figure]:
    """The figures that targets name, each once, in the order asked.

    Args:
        targets: "all", LAB or LAB/FIGURE, any number of them.
    """
    found: dict[str, Figure] = {}
    for target in targets:
        if target == "all":
            chosen = [f for each in labs().values() for f in each.figures]
        elif "/" in target:
            chosen = [figure(target)]
        elif target in names():
            chosen = list(lab(target).figures)
        else:
            allowed = ", ".join(["all", *names()])
            known = [f.id for each in labs().values() for f in each.figures if f.name == target]
            hint = f"; did you mean {known[0]}?" if known else ""
            raise ValueError(f"target must be one of {allowed} or LAB/FIGURE, not {target!r}{hint}")
        found.update((f.id, f) for f in chosen)
    return list(found.values())
