"""Where a curve goes: a table, one JSON document, a CSV file, a picture."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .arguments import Flag, MaybeFile
from .files import STDOUT, check_csv, check_writable, write_csv, write_file
from .screen import note, print_json, print_rich

PICTURES = (".svg", ".png", ".pdf")
ROWS = 14  # of a table, the first and the last point among them
COLUMNS = 7  # that fit into 80 characters
DIGITS = {5: 5, 6: 3, COLUMNS: 2}  # of numbers, by the number of columns


@dataclass(frozen=True)
class Rows:
    """A small table that is printed whole, above the points of a curve, and a word on it."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    remark: str = ""


@dataclass(frozen=True)
class Curve:
    """A computed curve.

    Attributes:
        facts: what was asked, as the JSON document tells it.
        words: the same to read.
        columns: the points, by the name of the column.
        shown: the columns of the table, with their headings.
        rows: what else there is to read.
        x: the column that a picture is drawn over, and
        symbol: how its axis is labelled.
        y: how the other axis is labelled.
        lines: the columns that are drawn, with their labels.
    """

    facts: dict[str, Any]
    words: str
    columns: dict[str, Sequence[int | float]]
    shown: dict[str, str]
    rows: Rows | None = None
    x: str = "time"
    symbol: str = "t"
    y: str = "$L$"
    lines: Mapping[str, str] = field(default_factory=lambda: {"loss": ""})


@dataclass(frozen=True)
class OutputOptions:
    """Where the curve goes; a table of some of its points unless told otherwise."""

    csv: MaybeFile = None
    """write every point into this CSV file; - for standard output, instead of the table"""
    json: Flag = False
    """print one JSON document instead of the table"""
    plot: MaybeFile = None
    """draw the curve, log-log, into this .svg, .png or .pdf file"""

    def check(self) -> None:
        """Raise a `ValueError` if a file could not be written."""
        check_csv(self.csv, self.json)
        check_plot(self.plot)

    def write(self, curve: Curve) -> None:
        """Write the files, then standard output."""
        if self.csv is not None and self.csv != STDOUT:
            write_csv(self.csv, _csv(curve))
        if self.plot is not None:
            from .picture import draw

            kind = self.plot.suffix.lower().removeprefix(".")
            lines = {label: curve.columns[name] for name, label in curve.lines.items()}
            picture = draw(curve.columns[curve.x], lines, kind, curve.symbol, curve.y)
            write_file("plot", self.plot, picture)
            note(f"wrote {self.plot}")
        if self.json:
            print_json({**curve.facts, **curve.columns})
        elif self.csv == STDOUT:
            write_csv(STDOUT, _csv(curve))
        else:
            print_rich(
                curve.words,
                *(() if curve.rows is None else _whole(curve.rows)),
                *_table(curve, all_written=self.csv is not None),
            )


def check_plot(path: Path | None) -> None:
    """Raise a `ValueError` if a picture could not be written."""
    if path is not None and path.suffix.lower() not in PICTURES:
        raise ValueError(f"plot must end in .svg, .png or .pdf, not {str(path)!r}")
    check_writable("plot", path)


def _csv(curve: Curve) -> str:
    """Every point, with all the digits that tell one double from the next."""
    lines = [",".join(map(repr, row)) for row in zip(*curve.columns.values(), strict=True)]
    return "\n".join([",".join(curve.columns), *lines, ""])


def _empty(headings: Iterable[str]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _whole(rows: Rows) -> list[Any]:
    if not rows.rows:
        return [rows.remark, ""]
    table = _empty(rows.headings)
    for row in rows.rows:
        table.add_row(*row)
    return [table, rows.remark, ""] if rows.remark else [table, ""]


def _table(curve: Curve, all_written: bool) -> list[Any]:
    shown = list(curve.shown)[:COLUMNS]
    table = _empty(curve.shown[name] for name in shown)
    digits = next(n for most, n in DIGITS.items() if len(shown) <= most)
    points = len(curve.columns[curve.x])
    rows = min(ROWS, points)
    for row in range(rows):
        point = round(row * (points - 1) / max(1, rows - 1))
        table.add_row(*(_number(curve.columns[name][point], digits) for name in shown))
    left = f"{rows} of {points} points" if rows < points else ""
    if len(shown) < len(curve.shown):
        left += f"{', ' * bool(left)}{len(shown)} of {len(curve.shown)} columns"
    return [table, f"{left}; --csv FILE writes them all"] if left and not all_written else [table]


def _number(value: int | float, digits: int) -> str:
    return str(value) if isinstance(value, int) else f"{value:.{digits}e}"
