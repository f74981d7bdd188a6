"""Answers of described labs, to be read, stored and looked at."""

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..asking import Lab, caption_of
from ..question import fields
from .output import Rows, csv_of, points_table, whole_table

if TYPE_CHECKING:
    import xarray as xr

RUNS = 8  # whose ends are shown
NARROW = 64  # columns, below which verdicts are lines
_FIRST = ("step", "time")


@dataclass(frozen=True)
class Answer:
    """What a witness said, and what another one said at the same times.

    Attributes:
        lab: whose answer it is.
        command: that asked.
        data: the answer.
        beside: that of another witness.
        facts: what else the document tells.
    """

    lab: Lab
    command: str
    data: "xr.Dataset"
    beside: "xr.Dataset | None" = None
    facts: Mapping[str, Any] | None = None

    def settings(self) -> dict[str, Any]:
        """What was asked, of whom, with which versions."""
        return {"lab": self.lab.name, "command": self.command, **_settings(self.data)}

    def document(self) -> dict[str, Any]:
        """Everything, for JSON."""
        more = self.lab.documented
        found = {**self.settings(), **(self.facts or {}), **document_of(self.data, more)}
        if self.beside is None:
            return found
        return {**found, "with": {**_settings(self.beside), **document_of(self.beside, more)}}

    def dataset(self) -> "xr.Dataset":
        """All of it; a second answer is told apart by its witness."""
        if self.beside is None:
            return self.data
        names = [name for name in self.beside.data_vars if "time" in self.beside[name].dims]
        other = self.beside[names].rename({name: f"{name}_{self._other}" for name in names})
        return self.data.assign(other.drop_vars(["time", "step"], errors="ignore").variables)

    @property
    def _other(self) -> str:
        return "" if self.beside is None else str(self.beside.attrs["witness"])

    def csv(self) -> str:
        """A row a point, and a run where there are several."""
        return csv_of(rows_of(self.dataset()))

    def words(self, all_written: bool) -> list[Any]:
        """How, what, the facts, where each run ends, and some points."""
        heading = [f"{self.lab.name}, {self.data.attrs['title']}", _wrapped(self._caption())]
        if self.beside is not None:
            heading.insert(1, f"with {self._other}: {self.beside.attrs['title']}")
        if remark := self.data.attrs["remark"]:
            heading.append(remark)
        columns, shown = self._points()
        return [
            *heading,
            "",
            *self._facts(),
            *self._sides(),
            *self._ends(),
            *(points_table(columns, shown, all_written) if shown else []),
        ]

    def _caption(self) -> str:
        """What both answers depend on."""
        return caption_of([self.data] if self.beside is None else [self.data, self.beside])

    def _symbol(self, name: str) -> str:
        """What an axis is called."""
        known = fields(self.lab.described)
        if name == "time":  # which may be a field's name, too: that of its unit
            return str(self.lab.shown.get("time", "t"))
        return (known[name].symbol or name) if name in known else self._heading(name)

    def _heading(self, name: str) -> str:
        """What a variable is called: by itself, or by the lab."""
        told = self.lab.shown.get(name, name)
        words = self.data[name].attrs.get("long_name", "") if name in self.data.data_vars else ""
        return words or (told if isinstance(told, str) else told.text)

    def _points(self) -> tuple[dict[str, list[Any]], dict[str, str]]:
        """The columns of the table: how far it is, then what the lab shows and there is.

        A loss at several values of other fields has a column for each.
        """
        asked, data, over = _flat(self.data), self.dataset(), self.data.attrs["over"]
        if not over:
            return {}, {}
        first = {"step": "step"} if "step" in self.data.coords else {}
        shown = {**first, over: self._symbol(over)}
        columns = {name: _column(data, name, over) for name in shown}
        for name, heading in self.lab.shown.items():
            given = "" if isinstance(heading, str) else heading.given
            if name not in data.data_vars or (given and not asked.get(given)):
                continue
            if not _plain(self.data, data[name]):  # one a layer, which a mean tells
                continue
            wide = [d for d in map(str, data[name].dims) if d != over and d in data.coords]
            if over not in data[name].dims or (wide and name != "loss"):
                continue
            if wide:
                for key, part in _parted(data[name], wide, self._symbol):
                    columns[f"{name}, {key}"], shown[f"{name}, {key}"] = part.values.tolist(), key
                continue
            both = [name, *([f"{name}_{self._other}"] if self.beside is not None else [])]
            for each in both:
                if each in data:
                    columns[each] = _column(data, each, over)
                    more = f", {self._other}" if each != name else ""
                    shown[each] = self._heading(name) + more
        return columns, shown

    def _sides(self) -> list[Any]:
        """What is along another axis than the answer, such as the optimum of every depth."""
        over = self.data.attrs["over"]
        told: list[Any] = []
        here = [n for n in self.lab.shown if n in self.data.data_vars]
        for axis in map(str, self.data.coords):
            names = [name for name in here if self.data[name].dims == (axis,)]
            if axis in (over, "time", "step") or not names:
                continue
            columns = [_column(self.data, name, axis) for name in (axis, *names)]
            rows = [tuple(map(_side, row)) for row in zip(*columns, strict=True)]
            headings = (self._symbol(axis), *map(self._heading, names))
            told += whole_table(Rows(headings, rows))
        return told

    def _facts(self) -> list[Any]:
        """Single numbers, with what they are and their errors."""
        single = {n: x for n, x in self.data.data_vars.items() if x.dims == () and x.size == 1}
        told = {n: x for n, x in single.items() if not str(n).endswith("_error")}
        rows = []
        for name, value in told.items():
            error = single.get(f"{name}_error")
            rows.append((self._heading(str(name)), _number(value, error)))
        heading = str(self.data.attrs["witness"])
        return whole_table(Rows((heading, ""), rows)) if rows else []

    def _ends(self) -> list[Any]:
        """Where every run ends: a mean does not tell one end from another."""
        ends = {name: text for name, text in self.lab.ends.items() if name in self.data}
        if not ends or "run" not in self.data.dims:
            return []
        runs = self.data.sizes["run"]
        last = {name: self.data[name].isel(time=-1).values for name in ends}
        rows = [(str(k), *(_end(last[name][k]) for name in ends)) for k in range(min(runs, RUNS))]
        remark = f"{RUNS} of {runs} runs; --json tells them all" if runs > RUNS else ""
        return whole_table(Rows(("run", *ends.values()), rows, remark))

    def picture(self, kind: str) -> bytes:
        """The witness figure: theory, training and tokens as they are, a panel an axis."""
        from ..drawing import answers
        from .picture import saved

        both = [self.data] if self.beside is None else [self.data, self.beside]
        return saved(kind, lambda: answers(self.lab, both))


@dataclass(frozen=True)
class Comparison:
    """What `compare` found."""

    lab: Lab
    data: "xr.Dataset"

    def settings(self) -> dict[str, Any]:
        """What was asked, of whom, with which versions."""
        attrs = self.data.attrs
        asked = {"lab": self.lab.name, "command": "compare", **_settings(self.data)}
        found = {name: json.loads(attrs[name]) for name in ("verdicts", "silent", "alone")}
        more = {"first": attrs["first"], "seeds": attrs["seeds"], "agrees": bool(attrs["agrees"])}
        return {**asked, "witness": self.data.witness.values.tolist(), **found, **more}

    def document(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {**self.settings(), **document_of(self.data)}

    def dataset(self) -> "xr.Dataset":
        """All of it."""
        return self.data

    def csv(self) -> str:
        """A row a point and a witness."""
        return csv_of(rows_of(self.data))

    def words(self, all_written: bool) -> list[Any]:
        """Who answered, the verdicts, who is silent and why, and some points."""
        from ..comparing import worst

        attrs = self.data.attrs
        verdicts, silent = json.loads(attrs["verdicts"]), json.loads(attrs["silent"])
        rows = [(attrs["first"], "", "", "what the others are judged by")]
        for name, verdict in verdicts.items():
            gap, share = worst(self.data, name)
            rows.append((name, f"{gap:.2g}", f"{share:.2g}", verdict))
        rows += [(name, "", "", f"silent: {why}") for name, why in silent.items()]
        seeds = f", means over {attrs['seeds']} seeds" if attrs["seeds"] > 1 else ""
        columns: dict[str, Sequence[Any]] = {
            "step": _column(self.data, "step"),
            "time": _column(self.data, "time"),
        }
        shown = {"step": "step", "time": str(self.lab.shown.get("time", "t"))}
        alone = json.loads(attrs["alone"])
        for name in self.data.witness.values:
            columns[name] = _column(self.data.sel(witness=name), "loss")
            shown[name] = f"loss, {name}" + "*" * (name in alone)
        if alone:
            columns["single"] = _column(self.data, "single")
            shown["single"] = f"loss, {attrs['first']}*"
        return [
            f"{self.lab.name}, its witnesses against each other{seeds}",
            _wrapped(attrs["caption"]),
            "",
            *verdict_table(rows),
            *points_table(columns, shown, all_written),
            *(["* at the first seed alone, where they agree"] if alone else []),
        ]

    def picture(self, kind: str) -> bytes:
        """What every witness says, and the gaps with what is allowed."""
        from ..drawing import compared
        from .picture import saved

        return saved(kind, lambda: compared(self.lab, self.data))


def verdict_table(rows: Sequence[tuple[str, str, str, str]]) -> list[Any]:
    """Witnesses with their largest gaps, the largest shares of what is allowed, and verdicts."""
    from rich import box
    from rich.table import Table

    if shutil.get_terminal_size().columns < NARROW:
        return [*(f"{row[0]}: {row[3]}" for row in rows), ""]

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    for heading in ("witness", "relative gap", "gap/allowed"):
        table.add_column(heading, no_wrap=True, justify="left" if heading == "witness" else "right")
    table.add_column("verdict")
    for row in rows:
        table.add_row(*row)
    return [table, ""]


def _wrapped(caption: str) -> str:
    """A caption, broken between its parts only."""
    width, lines = shutil.get_terminal_size().columns, [""]
    for part in caption.split(", "):
        longer = f"{lines[-1]}, {part}" if lines[-1] else part
        lines = [*lines[:-1], longer] if len(longer) < width else [*lines, part]
    return ",\n".join(line for line in lines if line)


def _settings(data: "xr.Dataset") -> dict[str, Any]:
    attrs = data.attrs
    told = {name: json.loads(attrs[name]) for name in ("versions", "question")}
    return {"witness": attrs["witness"], **told, "over": attrs["over"]}


def _flat(data: "xr.Dataset") -> dict[str, Any]:
    groups = json.loads(data.attrs["question"])
    return {name: value for fields in groups.values() for name, value in fields.items()}


def document_of(data: "xr.Dataset", documented: Sequence[str] = ()) -> dict[str, Any]:
    """Every variable at the top under its name, nested as `dims` says.

    What has axes of its own along time, such as every task's prediction, is for Zarr, but for what
    the lab has `documented`.
    """
    names = [n for n in _FIRST if n in data.coords]
    for name, x in data.data_vars.items():
        if "time" not in x.dims or _plain(data, x) or name in documented:
            names.append(str(name))
    names += [str(n) for n in data.coords if n not in names]
    dims = {name: list(map(str, data[name].dims)) for name in names}
    return {"dims": dims, **{name: data[name].values.tolist() for name in names}}


def rows_of(data: "xr.Dataset") -> dict[str, list[Any]]:
    """The columns of a table with a row a point: axes first, then what is along them."""
    import numpy as np

    over = str(data.attrs["over"])
    along = {str(n): x for n, x in data.data_vars.items() if over in x.dims and _plain(data, x)}
    if not over:
        return {str(n): [x.item()] for n, x in data.data_vars.items() if x.dims == ()}
    inner = (over, *(d for d in map(str, data.loss.dims) if d != over))
    sizes = {dim: data.sizes[dim] for dim in inner}
    place = np.indices(tuple(sizes.values())).reshape(len(sizes), -1)
    index = dict(zip(inner, place, strict=True))
    first = [n for n in dict.fromkeys((*_FIRST, over)) if n in data.coords]
    columns = {n: data[n].values[index[over]].tolist() for n in first}
    for dim in inner[1:]:
        known = data[dim].values if dim in data.coords else np.arange(sizes[dim])
        columns[dim] = known[index[dim]].tolist()
    for name, x in along.items():
        columns[name] = x.values[tuple(index[str(dim)] for dim in x.dims)].tolist()
    return columns


def _plain(data: "xr.Dataset", x: "xr.DataArray") -> bool:
    """Whether a variable has no axes but those of the loss: time, runs, witnesses."""
    return set(x.dims) <= set(data.loss.dims)


def _column(data: "xr.Dataset", name: str, over: str = "time") -> list[Any]:
    """What a table shows of a variable: means over the runs; whole numbers where it has such."""
    x = data[name]
    others = [dim for dim in x.dims if dim != over]
    values = (x.mean(others, skipna=False) if others else x).values.tolist()
    whole = name == over and name != "time" and all(v % 1 == 0 or math.isinf(v) for v in values)
    return [int(v) if math.isfinite(v) else v for v in values] if whole else values


def _parted(x: "xr.DataArray", wide: list[str], symbol: Any) -> list[tuple[str, Any]]:
    """A variable at each of the values of other axes, with what these are."""
    if not wide:
        return [("", x)]
    axis, *rest = wide
    found = []
    for value in x[axis].values.tolist():
        for words, part in _parted(x.sel({axis: value}), rest, symbol):
            found.append((", ".join(w for w in (f"{symbol(axis)} = {value:g}", words) if w), part))
    return found


def _side(value: int | float) -> str:
    """Of a small table: nothing where there is no number."""
    if isinstance(value, int):
        return str(value)
    return "" if math.isnan(value) else f"{value:.5g}"


def _number(value: Any, error: Any) -> str:
    """A number to read, with its standard error."""
    number = float(value)
    if math.isinf(number):
        return "none"
    if math.isnan(number):
        return "not estimated"
    return f"{number:.5g}" + (f" ± {float(error):.1g}" if error is not None else "")


def _end(value: float) -> str:
    """Four decimals, or the size of what is smaller."""
    if value == 0.0:
        return "0"
    return f"{value:.4f}" if 1e-3 <= abs(value) < 1e4 else f"{value:.0e}"
