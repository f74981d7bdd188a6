"""A table in a file: columns by name, numbers of which every one is checked."""

import csv
import difflib
import io
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from .scaling.expression import Expression

DELIMITERS = ",;\t"
PARQUET = (".parquet", ".pq")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE = ("nan", "inf", "infinity")
_FOREIGN = {
    b"PK\x03\x04": "a spreadsheet or an archive; save it as CSV",
    b"\x1f\x8b": "compressed; unpack it first",
    b"\xff\xfe": "UTF-16; save it as UTF-8",
    b"\xfe\xff": "UTF-16; save it as UTF-8",
}


@dataclass(frozen=True)
class Source:
    """Where a column of numbers comes from.

    Attributes:
        option: that asks for it.
        text: a column's name, or an arithmetic on names.
        names: the columns that it needs.
        arithmetic: how it is computed from them; None where it is the column itself.
    """

    option: str
    text: str
    names: tuple[str, ...]
    arithmetic: "Expression | None" = None


@dataclass(frozen=True)
class Table:
    """A table as it stands in its file.

    Attributes:
        path: of the file.
        names: of the columns, in order; "" where a column has none.
        rows: how many there are.
        places: where each row is: "line 7" of a CSV file, "row 6" of a Parquet file.
        cells: the cells of the k-th column; None where empty.
    """

    path: Path
    names: tuple[str, ...]
    rows: int
    places: Callable[[int], str]
    cells: Callable[[int], Sequence[Any]]

    def source(self, option: str, text: str) -> Source:
        """The column of that name, or else an arithmetic on columns.

        Raises:
            ValueError: naming the option, what is wrong, and the columns that there are.
        """
        from .scaling.expression import ARITHMETIC, Expression

        text = text.strip()
        if text in self.names and text:
            self._index(option, text)
            return Source(option, text, (text,))
        try:
            arithmetic = Expression(text)
        except ValueError:
            raise ValueError(
                f"{option} must be a column or an arithmetic of {ARITHMETIC} and columns, "
                f"not {text[:60]!r}{self._near(text)}; {self._there_are()}"
            ) from None
        for name in arithmetic.names:
            if name not in self.names:
                raise ValueError(
                    f"{option} names {name!r}, which is no column of {self.path.name}"
                    f"{self._near(name)}; {self._there_are()}"
                )
            self._index(option, name)
        if not arithmetic.names:
            raise ValueError(f"{option} must name a column, not {text!r}; {self._there_are()}")
        return Source(option, text, arithmetic.names, arithmetic)

    def label_source(self, option: str, text: str) -> Source:
        """The column of that name, whatever it holds."""
        text = text.strip()
        if not text or text not in self.names:
            raise ValueError(
                f"{option} must be a column, not {text[:60]!r}{self._near(text)}; "
                f"{self._there_are()}"
            )
        self._index(option, text)
        return Source(option, text, (text,))

    def complete(self, sources: Sequence[Source]) -> tuple[list[int], dict[str, int]]:
        """The rows without an empty cell in what is needed, and how many are empty in what."""
        empty: dict[str, set[int]] = {}
        for source in sources:
            for name in source.names:
                cells = self.cells(self._index(source.option, name))
                found = {row for row, cell in enumerate(cells) if cell is None}
                if found:
                    empty[name] = found
        left_out = set().union(*empty.values())
        kept = [row for row in range(self.rows) if row not in left_out]
        return kept, {name: len(rows) for name, rows in empty.items()}

    def numbers(self, source: Source, rows: Sequence[int]) -> "np.ndarray":
        """Positive finite numbers of some rows.

        Raises:
            ValueError: naming the column, the place and the value of the first cell that is none.
        """
        import numpy as np

        columns = {name: self.finite(source, name, rows) for name in source.names}
        if source.arithmetic is None:
            values, called = columns[source.text], source.text
        else:
            values = np.broadcast_to(source.arithmetic(columns), len(rows)).astype(float)
            called = f"{source.option} ({source.text})"
        bad = np.flatnonzero(~((values > 0.0) & np.isfinite(values)))
        if len(bad):
            where = self.places(rows[bad[0]])
            raise ValueError(
                f"{called} must hold positive finite numbers, not {values[bad[0]]:.12g} ({where})"
            )
        return values

    def labels(self, source: Source, rows: Sequence[int]) -> list[str]:
        """Text of some rows."""
        cells = self.cells(self._index(source.option, source.text))
        return [str(cells[row]) for row in rows]

    def finite(self, source: Source, name: str, rows: Sequence[int]) -> "np.ndarray":
        """Finite numbers of some rows of a column, or a `ValueError` that names the first other."""
        import numpy as np

        cells = self.cells(self._index(source.option, name))
        values = np.empty(len(rows))
        for k, row in enumerate(rows):
            values[k] = number = _number(cells[row])
            if not math.isfinite(number):
                raise ValueError(
                    f"{name} must hold numbers such as 0.25 or 1e9, not {_brief(cells[row])} "
                    f"({self.places(row)}){_remark(cells[row])}"
                )
        return values

    def _index(self, option: str, name: str) -> int:
        if self.names.count(name) > 1:
            raise ValueError(
                f"{option} names {name!r}, of which {self.path.name} has "
                f"{self.names.count(name)} columns: names must differ"
            )
        return self.names.index(name)

    def _near(self, name: str) -> str:
        folded = {known.casefold(): known for known in self.names if known}
        near = difflib.get_close_matches(name.casefold(), list(folded), n=1)
        return f"; did you mean {folded[near[0]]}?" if near else ""

    def _there_are(self) -> str:
        named = [name for name in self.names if name]
        shown = ", ".join(named[:12]) + (f" and {len(named) - 12} more" if len(named) > 12 else "")
        return f"{self.path.name} has the columns {shown}"


def read(path: Path) -> Table:
    """The table in a CSV file (delimited by comma, semicolon or tab) or a Parquet file.

    Raises:
        ValueError: where there is none, with one sentence.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None
    if content.startswith(b"PAR1") or path.suffix.lower() in PARQUET:
        return _parquet(path, content)
    for opening, words in _FOREIGN.items():
        if content.startswith(opening):
            raise _unreadable(path, f"it is {words}")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unreadable(path, f"it is not text in UTF-8: byte {error.start + 1}") from None
    if "\0" in text:
        raise _unreadable(path, "it is not text")
    return _csv(path, text)


def _csv(path: Path, text: str) -> Table:
    try:
        records = list(_records(text, _delimiter(text)))
    except csv.Error as error:
        raise _unreadable(path, f"its quotes or cells are broken: {error}") from None
    if not records:
        raise ValueError(f"file must hold a table, but {str(path)!r} is empty")
    first, header = records[0]
    names = tuple(name.strip() for name in header)
    if any(_NUMBER.fullmatch(name) for name in names) or not any(names):
        raise ValueError(
            f"file must begin with a line of column names, but line {first} of {str(path)!r} "
            f"is {','.join(names)[:60]!r}"
        )
    body = records[1:]
    if not body:
        raise ValueError(f"file must hold rows, but {str(path)!r} has only a line of column names")
    for line, record in body:
        if len(record) != len(names):
            raise ValueError(
                f"every line must have as many cells as there are column names, {len(names)}, "
                f"but line {line} of {str(path)!r} has {len(record)}"
            )

    def cells(k: int) -> list[str | None]:
        return [record[k].strip() or None for _, record in body]

    return Table(path, names, len(body), lambda row: f"line {body[row][0]}", _remembered(cells))


def _records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The lines that are not blank, with the number of the line on which each begins."""
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=delimiter, strict=True, skipinitialspace=True
    )
    begin = 1
    for record in reader:
        if record and (len(record) > 1 or record[0].strip()):
            yield begin, record
        begin = reader.line_num + 1


def _delimiter(text: str) -> str:
    """The one that makes the most columns, as many in the first row as in the header."""

    def score(delimiter: str) -> tuple[bool, bool, int]:
        records = _records(text, delimiter)
        try:
            width = len(next(records, (0, ()))[1])
        except csv.Error:
            return False, False, 0
        try:
            same = len(next(records, (0, ()))[1]) == width
        except csv.Error:
            same = False
        return width > 1, same, width

    return max(DELIMITERS, key=score)


def _parquet(path: Path, content: bytes) -> Table:
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise ValueError(
            f"file is Parquet ({str(path)!r}), which needs pyarrow: pip install 'solvable[parquet]'"
        ) from None
    try:
        stored = parquet.read_table(io.BytesIO(content))
    except (arrow.ArrowException, OSError) as error:
        words = str(error).splitlines()[0].rstrip(".") if str(error) else "damaged"
        raise _unreadable(path, f"it is not Parquet: {words[:100]}") from None
    if stored.num_rows == 0 or stored.num_columns == 0:
        raise ValueError(f"file must hold rows, but {str(path)!r} has none")

    def cells(k: int) -> list[Any]:
        return [
            (cell.strip() or None) if isinstance(cell, str) else cell
            for cell in stored.column(k).to_pylist()
        ]

    names = tuple(name.strip() for name in stored.column_names)
    return Table(path, names, stored.num_rows, lambda row: f"row {row + 1}", _remembered(cells))


def _remembered(cells: Callable[[int], Sequence[Any]]) -> Callable[[int], Sequence[Any]]:
    known: dict[int, Sequence[Any]] = {}

    def look(k: int) -> Sequence[Any]:
        if k not in known:
            known[k] = cells(k)
        return known[k]

    return look


def _number(cell: Any) -> float:
    """What a cell says, nan where that is no number."""
    from decimal import Decimal

    if isinstance(cell, str):
        return float(cell) if _NUMBER.fullmatch(cell) else math.nan
    if isinstance(cell, bool) or not isinstance(cell, int | float | Decimal):
        return math.nan
    try:
        return float(cell)
    except OverflowError:
        return math.inf


def _brief(cell: Any) -> str:
    text = cell if isinstance(cell, str) else str(cell)
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _remark(cell: Any) -> str:
    """What may have been meant."""
    if not isinstance(cell, str) or cell.lower().lstrip("+-") in _NOT_FINITE:
        return ""
    if re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?", cell):
        return "; thousands are written without commas"
    if re.fullmatch(r"[+-]?\d+,\d+([eE][+-]?\d+)?", cell):
        return "; decimals need a point"
    if re.fullmatch(r"[+-]?[\d_]+(\.[\d_]*)?", cell):
        return "; digits are written without underscores"
    return ""


def _unreadable(path: Path, why: str) -> ValueError:
    return ValueError(
        f"file must be a CSV or Parquet file that can be read, not {str(path)!r} ({why})"
    )
