"""The report card: index.html, made of whatever whole figures a folder holds."""

from pathlib import Path

from ..asking import Lab
from . import registry, sealed
from .page import Chapter, Picture, page
from .store import Result, read_result, results

PAGE = "index.html"


class Shelf:
    """The figures under a folder, each looked through once, and the page that shows them."""

    def __init__(self, out: Path):
        self._out = out
        self.results, self.others = results(out)

    def refresh(self, folder: Path) -> None:
        """Look through a figure's folder again."""
        self.results.pop(folder, None)
        self.others.pop(folder, None)
        try:
            self.results[folder] = read_result(folder)
        except ValueError as error:
            self.others[folder] = str(error)

    def drop(self, folder: Path, why: str) -> None:
        """Show no longer what a folder holds: it could not be made, or judged, now."""
        if self.results.pop(folder, None) is not None:
            self.others[folder] = f"could not be made or judged anew ({why})"

    @property
    def left_out(self) -> list[str]:
        """Folders that are no figures, each with the reason."""
        return [
            f"{folder.relative_to(self._out).as_posix()} {why}"
            for folder, why in sorted(self.others.items())
        ]

    def write(self) -> None:
        """Write index.html anew, whole or not at all; it needs no other file to be read."""
        # An interrupted run may have one put aside at this moment.
        there = [result for folder, result in self.results.items() if folder.is_dir()]
        text = page(chapters(there), self._out, self.left_out)
        beside = self._out / f".{PAGE}.tmp"
        beside.unlink(missing_ok=True)  # it may be a link
        beside.write_text(text, encoding="utf-8")
        sealed.sync(beside)
        beside.replace(self._out / PAGE)


def write_report(out: str | Path) -> None:
    """Write the page of all whole figures in a folder."""
    Shelf(Path(out)).write()


def chapters(found: list[Result]) -> list[Chapter]:
    """The papers that have a figure among the results, in the registry's order."""
    present = {result.figure.partition("/")[0] for result in found}
    known = [name for name in registry.names() if name in present]
    return [
        _chapter(name, _lab(name) if name in known else None, found)
        for name in [*known, *sorted(present.difference(known))]
    ]


def _chapter(name: str, lab: Lab | None, found: list[Result]) -> Chapter:
    figures = {figure.id: figure for figure in (lab.figures if lab else ())}
    order = list(figures)
    ours = [result for result in found if result.figure.partition("/")[0] == name]
    # As the lab has them, unknown ones last; a figure's own settings before changed ones.
    ours.sort(
        key=lambda r: (
            order.index(r.figure) if r.figure in figures else len(order),
            r.figure,
            bool(r.changes),
            r.folder.name,
        )
    )
    shown = {result.figure for result in ours if not result.changes}
    return Chapter(
        name=name,
        paper=lab.paper if lab else None,
        pictures=[Picture(result, figures.get(result.figure)) for result in ours],
        missing=[figure for id, figure in figures.items() if id not in shown],
        order=order,
    )


def _lab(name: str) -> Lab | None:
    """The lab; None where the package that has it is broken, for its results can still be shown."""
    try:
        return registry.lab(name)
    except Exception:
        return None
