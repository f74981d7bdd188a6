"""Where an answer goes: a table, one JSON document, a CSV file, a Zarr store, a picture."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import tyro

from .arguments import Flag, MaybeFile
from .files import (
    STDOUT,
    check_csv,
    check_different,
    check_folder,
    check_writable,
    write_csv,
    write_file,
    write_folder,
)
from .screen import note, print_json, print_rich

if TYPE_CHECKING:
    import xarray as xr

PICTURES = (".svg", ".png", ".pdf")
ROWS = 14  # of a table, the first and the last point among them
COLUMNS = 7  # that fit into 80 characters
DIGITS = {5: 5, 6: 3, COLUMNS: 2}  # of numbers, by the number of columns


class Told(Protocol):
    """What can be written, with all that it depends on."""

    def settings(self) -> dict[str, Any]:
        """What was asked, of whom, with which versions: what stands beside a table."""
        ...

    def document(self) -> dict[str, Any]:
        """Everything, for JSON."""
        ...

    def dataset(self) -> "xr.Dataset":
        """All of it."""
        ...

    def csv(self) -> str:
        """Every point, with all the digits that tell one double from the next."""
        ...

    def words(self, all_written: bool) -> list[Any]:
        """What a terminal shows; where the rest is to be had, unless all is written."""
        ...

    def picture(self, kind: str) -> bytes:
        """The content of a picture of a kind ("svg", "png", "pdf")."""
        ...


@dataclass(frozen=True)
class Rows:
    """A small table that is printed whole, above the points of a curve, and a word on it."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    remark: str = ""


@dataclass(frozen=True)
class AnswerOptions:
    """Where the answer goes; a table of some of its points unless told otherwise."""

    csv: Annotated[
        Path | None,
        tyro.conf.arg(
            metavar="FILE",
            help="write every point into this CSV file, and what was asked into FILE.json; - for "
            "standard output, instead of the table",
            help_behavior_hint="",
        ),
    ] = None
    json: Flag = False
    """print one JSON document instead of the table"""
    plot: MaybeFile = None
    """draw it into this .svg, .png or .pdf file"""
    zarr: Annotated[Path | None, tyro.conf.arg(help_behavior_hint="", metavar="DIR")] = None
    """write everything into this Zarr store, which xarray.open_zarr reads"""

    def check(self) -> None:
        """Raise a `ValueError` if a file could not be written."""
        check_csv(self.csv, self.json)
        check_plot(self.plot)
        check_folder("zarr", self.zarr)
        if self.csv is not None and self.csv != STDOUT:
            check_writable("csv", _beside(self.csv))
        check_different(csv=self.csv, plot=self.plot, zarr=self.zarr)

    def write(self, told: Told) -> None:
        """Write the files, settings beside tables, then standard output."""
        import json

        if self.csv is not None and self.csv != STDOUT:
            settings = json.dumps(told.settings(), indent=1)
            write_file("csv", _beside(self.csv), f"{settings}\n".encode())
        if self.zarr is not None:
            write_folder("zarr", self.zarr, told.dataset())
            note(f"wrote {self.zarr}")
        if self.csv is not None and self.csv != STDOUT:
            write_csv(self.csv, told.csv())
        if self.plot is not None:
            write_file("plot", self.plot, told.picture(self.plot.suffix.lower().removeprefix(".")))
            note(f"wrote {self.plot}")
        if self.json:
            print_json(told.document())
        elif self.csv == STDOUT:
            write_csv(STDOUT, told.csv())
        else:
            print_rich(*told.words(all_written=self.csv is not None))


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def check_plot(path: Path | None) -> None:
    """Raise a `ValueError` if a picture could not be written."""
    if path is not None and path.suffix.lower() not in PICTURES:
        raise ValueError(f"plot must end in .svg, .png or .pdf, not {str(path)!r}")
    check_writable("plot", path)


def csv_of(columns: Mapping[str, Sequence[Any]]) -> str:
    """Columns of numbers as text, with all the digits that tell one double from the next."""
    lines = [",".join(_cell(x) for x in row) for row in zip(*columns.values(), strict=True)]
    return "\n".join([",".join(columns), *lines, ""])


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def _empty(headings: Iterable[str]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def whole_table(rows: Rows) -> list[Any]:
    """A small table, and the word on it."""
    if not rows.rows:
        return [rows.remark, ""]
    table = _empty(rows.headings)
    for row in rows.rows:
        table.add_row(*row)
    return [table, rows.remark, ""] if rows.remark else [table, ""]


def points_table(
    columns: Mapping[str, Sequence[int | float]], shown: Mapping[str, str], all_written: bool
) -> list[Any]:
    """Some points of a curve, and where all of them are to be had."""
    names = _fitting(shown)
    table = _empty(shown[name] for name in names)
    digits = _digits(names)
    points = len(columns[names[0]])
    rows = min(ROWS, points)
    for row in range(rows):
        point = round(row * (points - 1) / max(1, rows - 1))
        table.add_row(*(_number(columns[name][point], digits) for name in names))
    left = f"{rows} of {points} points" if rows < points else ""
    if len(names) < len(shown):
        left += f"{', ' * bool(left)}{len(names)} of {len(shown)} columns"
    return [table, f"{left}; --csv FILE writes them all"] if left and not all_written else [table]


def _fitting(shown: Mapping[str, str]) -> list[str]:
    """As many columns as fit the terminal."""
    names = list(shown)[:COLUMNS]
    room = shutil.get_terminal_size().columns
    while len(names) > 2 and sum(3 + max(len(shown[n]), 6 + _digits(names)) for n in names) > room:
        names.pop()
    return names


def _digits(names: Sequence[str]) -> int:
    """Of numbers, by the number of columns."""
    return next(digits for most, digits in DIGITS.items() if len(names) <= most)


def _number(value: int | float, digits: int) -> str:
    return str(value) if isinstance(value, int) else f"{value:.{digits}e}"
