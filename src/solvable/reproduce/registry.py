"""Which labs and figures there are: our own, and those of installed packages."""

import difflib
import importlib
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points

from ..papers import PAPERS, Paper
from .figure import Figure

GROUP = "solvable.labs"


@dataclass(frozen=True)
class Lab:
    """A paper and its figures.

    A package adds one by an entry point of the group "solvable.labs" whose name is the lab's and
    whose object is a `Lab`.
    """

    paper: Paper
    figures: tuple[Figure, ...]

    def __post_init__(self) -> None:
        strangers = [figure.id for figure in self.figures if figure.lab != self.paper.lab]
        if strangers:
            raise ValueError(f"{strangers[0]} is not a figure of the lab {self.paper.lab!r}")


def names() -> list[str]:
    """The labs' names, ours first; nothing is imported."""
    others = sorted(point.name for point in entry_points(group=GROUP))
    return list(dict.fromkeys([*PAPERS, *others]))


def lab(name: str) -> Lab:
    """The lab of that name; imports it."""
    if name in PAPERS:
        import jax

        with jax.enable_x64(True):  # some figures make tasks as they are declared
            module = importlib.import_module(f"solvable.{name}.figures")
        return Lab(PAPERS[name], tuple(module.FIGURES))
    found = [point for point in entry_points(group=GROUP) if point.name == name]
    if not found:
        raise ValueError(f"lab must be one of {', '.join(names())}, not {name!r}")
    try:
        loaded = found[0].load()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(
            f"the lab {name!r} of {found[0].value} cannot be loaded ({reason})"
        ) from error
    if not isinstance(loaded, Lab) or loaded.paper.lab != name:
        raise ValueError(f"the entry point {name!r} of {GROUP} must be a reproduce.Lab named so")
    return loaded


def labs() -> Mapping[str, Lab]:
    """Every lab by its name; those of other packages that cannot be loaded are warned of."""
    found = {}
    for name in names():
        try:
            found[name] = lab(name)
        except ValueError as error:
            warnings.warn(str(error), stacklevel=2)
    return found


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
