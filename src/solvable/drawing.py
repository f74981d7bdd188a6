"""Pictures of answers: each witness in its own way of drawing, over the lab's own axes."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from .asking import Axes, Lab, caption_of
from .question import fields
from .style import LAW, THEORY, TOKENS, TRAINING, colour, panels

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray as xr

FEW = 24  # marks of a curve on tokens
RUNS = 24  # that are drawn one by one
_HOW: Mapping[str, Mapping[str, Any]] = {"theory": THEORY, "tokens": TOKENS, "first seed": LAW}
_DASHES = ("-", "--", ":", "-.")
_LONG = 5  # entries of a legend, beyond which it stands beside the panel
_TOP = {"theory": 3.0, "tokens": 4.0}
_COLOUR = {"reduced": 0, "theory": 1, "tokens": 2}  # others have the next ones


def answers(lab: Lab, found: "Sequence[xr.Dataset]") -> "matplotlib.figure.Figure":
    """What one or several witnesses say, a panel for each of the lab's axes that they have."""
    shown = [axes for axes in lab.axes if any(axes.shows in data for data in found)]
    figure, places = panels(len(shown))
    for axes, place in zip(shown, places, strict=True):
        axes = _spaced(axes, found)
        _dressed(place, axes)  # first: empty axes cannot become logarithmic
        for k, data in enumerate(found):
            if axes.shows in data:
                witness = data.attrs["witness"]
                shade = _COLOUR.get(witness, 3 + k)
                if spread := [dim for dim in data[axes.shows].dims if dim in fields(lab.described)]:
                    spread = [dim for dim in spread if dim != data.attrs["over"]]
                _spread(place, data, axes, spread, shade, lab, len(found) > 1)
        _levelled(place, axes, found)
        _named(figure, place)
        _few_ticks(place)
    _titled(figure, lab, caption_of(found))
    return figure


def _spaced(axes: Axes, found: "Sequence[xr.Dataset]") -> Axes:
    """A panel with even axes has logarithmic ones where most times lie in the first tenth."""
    if axes.log:
        return axes
    times = [data.time.values for data in found if "time" in data.coords]
    early = [np.mean(time < 0.1 * time.max()) > 0.5 for time in times]
    return replace(axes, log="xy" if any(early) else "")


def _levelled(place: Any, axes: Axes, found: "Sequence[xr.Dataset]") -> None:
    """Levels, each once, under one label for all of a variable."""
    for name in axes.levels:
        seen = [data[name] for data in found if name in data]
        values = np.unique(np.concatenate([np.ravel(x) for x in seen])) if seen else ()
        for k, level in enumerate(values):
            words = {} if k else {"label": seen[0].attrs.get("long_name", name)}
            place.axhline(level, zorder=0.0, **LAW, **words)


def _legend(place: Any, **where: Any) -> None:
    """What hides the levels behind it."""
    place.legend(fontsize=8.0, frameon=True, framealpha=1.0, edgecolor="none", **where)


def _spread(
    place: Any, data: "xr.Dataset", axes: Axes, spread: list[Any], shade: int, lab: Lab, named: bool
) -> None:
    """One variable: a line of its own for each of the values of other fields."""
    witness, over, x = data.attrs["witness"], data.attrs["over"], data[axes.shows]
    place.set_xlabel(_symbol(lab, over))
    if over != "time" and _is_short(data[over].values):
        place.set_xscale("linear")
        axes = replace(axes, log=axes.log.replace("x", ""))
    if not lab.witnesses[witness].trains:
        witness = "theory"
    lone = witness == "theory" and not named
    alone = {"linestyle": "-"} if lone else {}  # dashes are for what lies on training
    if not spread:
        named = named or any(name in data for name in axes.levels)
        named = named or any(name in data and over in data[name].dims for name in axes.beside)
        label = data.attrs["witness"] if named else ""
        _drawn(place, x, witness, axes, shade, label, over, alone)
    else:
        known, flat = fields(lab.described), x.stack(cell=spread)
        first = x[spread[0]].values.tolist()
        for k, cell in enumerate(flat.cell.values):
            values = cell if isinstance(cell, tuple) else (cell,)
            told = zip(spread, values, strict=True)
            label = ", ".join(f"{known[n].symbol or n} = {v:g}" for n, v in told)
            line, hue = flat.isel(cell=k, drop=True), first.index(values[0])
            label, look = f"{witness}, {label}" * named or label, alone
            if len(spread) > 1:  # a colour for each value of the first field, a dash of the others
                look = {"linestyle": _DASHES[(k % (len(flat.cell) // len(first))) % len(_DASHES)]}
            _drawn(place, line, witness, axes, shade + hue, label, over, look)
    for name in axes.beside:
        if name in data and over in data[name].dims:
            label = data[name].attrs.get("long_name", name)
            how = {"color": "0.35", "linestyle": "--", "label": label}
            kept = data[name].values > 0.0
            place.plot(data[over].values[kept], data[name].values[kept], **how)


def _is_short(values: np.ndarray) -> bool:
    """Whether an axis has less than a decade, or what has no logarithm."""
    seen = values[np.isfinite(values)]
    return bool(seen.size) and bool(seen.min() <= 0.0 or seen.max() < 10.0 * seen.min())


def _symbol(lab: Lab, over: str) -> str:
    known = fields(lab.described)
    heading = str(lab.shown.get(over, over))
    if over == "time":  # which may be a field's name, too
        return heading if over in lab.shown else "$t$"
    return known[over].symbol if over in known else heading


def compared(lab: Lab, data: "xr.Dataset") -> "matplotlib.figure.Figure":
    """What every witness says of the loss; and the gaps, with what each is allowed."""
    figure, (left, right) = panels(2)
    axes = next((axes for axes in lab.axes if axes.shows == "loss"), Axes())
    axes = _spaced(axes, [data])
    names = [str(name) for name in data.witness.values]
    _dressed(left, axes)
    shades = {name: _COLOUR.get(name, 3 + k) for k, name in enumerate(names)}
    for name in names:
        _drawn(left, data.loss.sel(witness=name), name, axes, shades[name], name)
    if "single" in data:
        _drawn(left, data.single, "first seed", axes, shades[data.attrs["first"]], "first seed")
    _levelled(left, axes, [data])
    _legend(left)
    time = data.time.values
    for name in names:
        if name == data.attrs["first"]:
            continue
        gap, allowed = (_worst(data[word].sel(witness=name)) for word in ("gap", "allowed"))
        kept = time > 0.0
        seen = np.maximum(gap, 1e-17)  # what is equal to the last digit has a place, too
        right.plot(time[kept], seen[kept], color=colour(shades[name]), label=name)
        right.plot(time[kept], allowed[kept], color=colour(shades[name]), linestyle=":")
    right.plot([], [], color="0.35", linestyle=":", label="what it is allowed")
    right.set_xscale("log")
    right.set_yscale("log")
    for place in (left, right):
        place.set_xlabel(_symbol(lab, "time"))
    right.set_ylabel(f"relative gap to {data.attrs['first']}")
    low, high = right.get_ylim()
    right.set_ylim(low * (low / high) ** 0.35, high)  # room for the legend
    _legend(right, loc="lower left")
    for place in (left, right):
        _few_ticks(place)
    _titled(figure, lab, data.attrs["caption"])
    return figure


def _worst(x: "xr.DataArray") -> np.ndarray:
    others = [dim for dim in x.dims if dim != "time"]
    return (x.max(others) if others else x).values


def _drawn(
    place: Any,
    x: "xr.DataArray",
    witness: str,
    axes: Axes,
    k: int,
    label: str,
    over: str = "time",
    more: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """One variable of one witness: a line a run, those of many runs thin."""
    x, how = x.sortby(over), dict(_HOW.get(witness, TRAINING))
    time = x[over].values
    rows = np.atleast_2d(x.transpose(..., over).values)
    rows = rows.reshape(-1, rows.shape[-1])[:RUNS]
    if len(rows) > 1 and "linewidth" in how:
        how["linewidth"] *= 0.7
    for run, values in enumerate(rows):
        kept = np.isfinite(values) & np.isfinite(time)
        if "x" in axes.log:
            kept &= time > 0.0
        if "y" in axes.log:
            kept &= values > 0.0
        if how.get("marker"):
            how["markevery"] = max(1, int(kept.sum()) // FEW)
        elif kept.sum() <= 12:
            how |= {"marker": "o", "markersize": 3.5}
        words = {"label": label} if label and run == 0 else {}
        look = {"color": colour(k), "zorder": _TOP.get(witness, 2.0), **how, **words, **more}
        place.plot(time[kept], values[kept], **look)


def _dressed(place: Any, axes: Axes) -> None:
    if "x" in axes.log:
        place.set_xscale("log")
    if "y" in axes.log:
        place.set_yscale("log")
    place.set_xlabel("$t$")
    place.set_ylabel(f"${axes.label}$")


def _few_ticks(place: Any) -> None:
    """Along a logarithmic axis of less than two decades, numbers at 1, 2 and 5 only."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    for axis in (place.xaxis, place.yaxis):
        low, high = axis.get_view_interval()
        if axis.get_scale() == "log" and high < 100.0 * low:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axis.set_minor_formatter(NullFormatter())


def _named(figure: Any, place: Any) -> None:
    """The legend, if there is anything to tell apart; a long one beside the panel."""
    many = len(place.get_legend_handles_labels()[0])
    if many > _LONG:
        figure.set_figwidth(figure.get_figwidth() + 1.4)
        _legend(place, loc="center left", bbox_to_anchor=(1.0, 0.5))
    elif many:
        _legend(place)


def _titled(figure: Any, lab: Lab, caption: str) -> None:
    """Whose model, and at which parameters; lines end between these."""
    wide = int(figure.get_figwidth() * 17)
    whole = [part.replace(" ", "\xa0") for part in caption.split(", ")]
    words = textwrap.fill(f"{lab.name}: {', '.join(whole)}", wide, break_on_hyphens=False)
    figure.suptitle(words, fontsize=8.0, x=0.01, ha="left")
