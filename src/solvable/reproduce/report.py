"""The report card: index.html, made of whatever whole figures a folder holds."""

from pathlib import Path

from . import registry
from .page import Chapter, Picture, page
from .registry import Lab
from .store import Result, results

PAGE = "index.html"


def write_report(out: Path) -> None:
    """Write `out`/index.html anew, whole or not at all; it needs no other file to be read."""
    text = page(chapters(results(out)), out)
    beside = out / f".{PAGE}.tmp"
    beside.write_text(text, encoding="utf-8")
    beside.replace(out / PAGE)


def chapters(found: dict[str, Result]) -> list[Chapter]:
    """The papers that have a figure among the results, in the registry's order."""
    present = {id.partition("/")[0] for id in found}
    known = [name for name in registry.names() if name in present]
    return [
        _chapter(name, _lab(name) if name in known else None, found)
        for name in [*known, *sorted(present.difference(known))]
    ]


def _chapter(name: str, lab: Lab | None, found: dict[str, Result]) -> Chapter:
    figures = lab.figures if lab else ()
    ours = [Picture(found[figure.id], figure) for figure in figures if figure.id in found]
    shown = {picture.id for picture in ours}
    others = [
        Picture(found[id], None)
        for id in sorted(found)
        if id.partition("/")[0] == name and id not in shown
    ]
    missing = [figure for figure in figures if figure.id not in found]
    order = [figure.id for figure in figures]
    return Chapter(name, lab.paper if lab else None, [*ours, *others], missing, order)


def _lab(name: str) -> Lab | None:
    """The lab; None where the package that has it is broken, for its results can still be shown."""
    try:
        return registry.lab(name)
    except Exception:
        return None
