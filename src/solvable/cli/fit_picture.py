"""The picture of a fit: the data, the law with its bands, and what is left over."""

from collections.abc import Iterator
from io import BytesIO
from typing import Any

import numpy as np

from ..scaling import Additive, Prediction
from ..style import COLOURS, colour, figure_style, panels
from .fit_words import Told, digits

AHEAD = 0.5  # decades that a law is drawn beyond the data
BEFORE = 0.1
MANY = 150  # points, which are drawn small
HALVES = tuple(0.5 * k for k in range(2, 20))  # ticks of a short axis
FEW = 6  # groups that get colours of their own
BAND, NEW = {"alpha": 0.28, "linewidth": 0.0}, {"alpha": 0.12, "linewidth": 0.0}
LINE = "0.15"


def draw(told: Told, kind: str) -> bytes:
    """The content of a `kind` ("svg", "png", "pdf") file.

    One resource: the curve and its residuals. A sum of power laws: each term against its resource,
    after the others are taken off. Any other law: measured against fitted.
    """
    content = BytesIO()
    with figure_style():
        if len(told.sources) == 1:
            figure = _one(told)
        elif isinstance(told.fit.law, Additive):
            figure = _terms(told)
        else:
            figure = _any(told)
        # Without the date, the same fit gives the same file.
        dateless = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
        figure.savefig(content, format=kind, metadata=dateless.get(kind))
    return content.getvalue()


def _one(told: Told) -> Any:
    """The curve over its resource, and below the residuals and the local exponent."""
    import matplotlib.figure

    fit = told.fit
    ((name, x),) = told.columns.items()
    count = 2 if told.straight is None else 3
    figure = matplotlib.figure.Figure(figsize=(5.4, 2.2 + 1.3 * count))
    heights = (3.0, 1.0, 1.0)[:count]
    top, middle, *rest = figure.subplots(count, 1, sharex=True, height_ratios=heights)
    grid = np.geomspace(x.min() * 10.0**-BEFORE, x.max() * 10.0**AHEAD, 300)
    curve, new = (_within(told, fit.predict({name: grid}, kind)) for kind in ("curve", "new"))
    level = f"{100 * fit.known.level:g} %"
    top.fill_between(
        grid, new.low, new.high, color=COLOURS[0], label=f"{level}, a new point", **NEW
    )
    top.fill_between(
        grid, curve.low, curve.high, color=COLOURS[0], label=f"{level}, the law", **BAND
    )
    top.plot(grid, curve.value, color=LINE, linewidth=1.3, label=fit.law.name, zorder=_height(told))
    _points(top, told, x, told.y)
    floor = fit.parameters.get("E")
    bands = np.clip([new.low, new.high], told.y.min() / 1.3, told.y.max() * 1.3).ravel()
    shown = np.concatenate([told.y, curve.value, bands])
    if floor is not None and np.isfinite(floor.error) and floor.value > shown.min() / 3.0:
        shown = np.append(shown, floor.value)
        top.axhline(floor.value, color="0.45", linestyle=":", linewidth=1.0)
        top.annotate(
            "E",
            (1.0, floor.value),
            (-3.0, -2.0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
            va="top",
            color="0.35",
            fontsize=8.0,
        )
    top.set_yscale("log")
    _limits(top, shown)
    _ticks(top, "y")
    top.set_ylabel(_plain(told.target))
    top.legend(fontsize=8.0)
    _residuals(middle, told, x)
    bottom = rest[0] if rest else middle
    if rest:
        _local(bottom, told, grid, curve.value)
    bottom.set_xscale("log")
    bottom.set_xlabel(_plain(told.sources[name]))
    bottom.set_xlim(grid[0], grid[-1])
    return figure


def _local(axes: Any, told: Told, grid: np.ndarray, curve: np.ndarray) -> None:
    """The local exponent of the data with its band, that of the law, and the window."""
    assert told.straight is not None
    window, local = told.straight
    axes.fill_between(local.x, local.low, local.high, color=COLOURS[1], **BAND)
    axes.plot(local.x, local.exponent, color=COLOURS[1], linewidth=1.2)
    below = np.log(np.maximum(curve - told.floor, 1e-300))
    axes.plot(grid, -np.gradient(below, np.log(grid)), color=LINE, linewidth=1.0)
    if window.points:
        axes.axvspan(window.low, window.high, color="0.5", alpha=0.13, linewidth=0.0)
        words = "grey: where a pure power law is not rejected"
    else:
        words = "nowhere a pure power law"
    axes.set_title(words, loc="right", fontsize=7.0, color="0.45")
    axes.set_ylabel("local exp.")
    known = local.exponent[np.isfinite(local.exponent)]
    if len(known):
        room = max(0.3 * np.ptp(known), 0.05 * np.abs(known).max(), 1e-3)
        axes.set_ylim(known.min() - room, known.max() + room)


def _within(told: Told, band: Prediction) -> Prediction:
    """A band cut off far outside the picture, where it may be infinite."""
    least, most = 1e-3 * told.y.min(), 1e3 * told.y.max()
    return Prediction(band.value, np.clip(band.low, least, most), np.clip(band.high, least, most))


def _terms(told: Told) -> Any:
    """Every term of a sum of power laws, the others taken off, and the residuals."""
    fit = told.fit
    law, known = fit.law, fit.known
    assert isinstance(law, Additive)
    assert known.covariance is not None
    x = np.stack([told.columns[name] for name in law.resources], axis=1)
    names, values = law.parameters, dict(zip(law.parameters, known.values, strict=True))
    fitted = law.curve(known.values, x)
    columns = min(2, len(law.resources)) if len(law.resources) != 2 else 3
    figure, axes = panels(columns, -(-(len(law.resources) + 1) // columns))
    for k, name in enumerate(law.resources):
        amplitude, steep = law.amplitudes[k], law.exponents[k]
        place = axes[k]
        ends = x[:, k].min() * 10.0**-BEFORE, x[:, k].max() * 10.0**AHEAD
        grid = np.geomspace(*ends, 200)
        term = values[amplitude] * grid ** -values[steep]
        which = [names.index(amplitude), names.index(steep)]
        slopes = np.stack([np.ones_like(grid), -np.log(grid)], axis=1)
        spread = np.einsum("np,pq,nq->n", slopes, known.covariance[np.ix_(which, which)], slopes)
        factor = np.exp(np.minimum(known.quantile * np.sqrt(np.maximum(spread, 0.0)), 50.0))
        place.fill_between(grid, term / factor, term * factor, color=COLOURS[0], **BAND)
        place.plot(grid, term, color=LINE, linewidth=1.3, zorder=_height(told))
        left = told.y - fitted + values[amplitude] * x[:, k] ** -values[steep]
        floor = 0.3 * max(term.min(), 1e-3 * left.max())
        seen = left > floor
        _bars(place, x[seen, k], left[seen], fit.noise * fitted[seen], floor)
        _points(place, told, x[:, k], np.where(seen, left, np.nan), legend=k == 0)
        place.plot(
            x[~seen, k],
            np.full(int((~seen).sum()), floor * 1.1),
            "v",
            color="0.55",
            markersize=4.0,
            label="below the axis" if not seen.all() else None,
        )
        place.loglog()
        place.set_xlim(*ends)
        place.set_ylim(floor, 2.0 * max(term.max(), left.max()))
        _ticks(place, "xy")
        place.set_xlabel(_plain(_called(name, told.sources[name])))
        rest = [_power(law, j) for j in range(len(law.resources)) if j != k]
        taken = " − ".join(["E", *rest]) if len(rest) == 1 else "all other terms"
        place.set_ylabel(f"{_plain(_short_target(told))} − {taken}", fontsize=9.0)
        value, interval = digits(fit.parameters[steep], law.bounds[steep])
        place.text(
            0.98,
            0.98,
            f"{_power(law, k)}\n{steep} = {value}  ({interval})",
            transform=place.transAxes,
            ha="right",
            va="top",
            fontsize=8.0,
            bbox={"facecolor": "white", "alpha": 0.7, "linewidth": 0.0, "pad": 1.5},
            zorder=5,
        )
        if (k == 0 and len(place.get_legend_handles_labels()[0]) > 1) or not seen.all():
            place.legend(fontsize=8.0, loc="lower left")
    _over_fitted(axes[len(law.resources)], told, fitted)
    for unused in axes[len(law.resources) + 1 :]:
        unused.set_axis_off()
        unused.set_title("", loc="left")
    return figure


def _power(law: Additive, k: int) -> str:
    """``A N^-a`` as it is written."""
    steep = law.exponents[k].replace("_", r"\_")
    return rf"{law.amplitudes[k]} {law.resources[k]}$^{{-\mathrm{{{steep}}}}}$"


def _any(told: Told) -> Any:
    """Measured against fitted, and the residuals."""
    fitted = told.fit.curve(told.columns)
    figure, (left, right) = panels(2)
    ends = np.array([min(fitted.min(), told.y.min()), max(fitted.max(), told.y.max())])
    ends = ends * [0.95, 1.05]
    left.plot(ends, ends, color=LINE, linewidth=1.0)
    _points(left, told, fitted, told.y)
    _logarithmic(left, "xy")
    left.set_xlabel(_plain(f"{_short_target(told)} of {told.fit.law.name}"))
    left.set_ylabel(_plain(f"{_short_target(told)} measured"))
    if len(left.get_legend_handles_labels()[0]) > 1:
        left.legend(fontsize=8.0)
    _over_fitted(right, told, fitted)
    return figure


def _over_fitted(axes: Any, told: Told, fitted: np.ndarray) -> None:
    _residuals(axes, told, fitted)
    _logarithmic(axes, "x")
    axes.set_xlabel(_plain(f"{_short_target(told)}, fitted"))


def _residuals(axes: Any, told: Told, x: np.ndarray) -> None:
    """What is measured over the law, in percent, with Huber's scale."""
    fit = told.fit
    over = 100.0 * (told.y / fit.curve(told.columns) - 1.0)
    axes.axhline(0.0, color=LINE, linewidth=1.0, zorder=_height(told))
    if np.isfinite(fit.scale) and fit.scale > 1e-9:
        ends = 100.0 * np.expm1(fit.scale * np.array([-1.0, 1.0]))
        axes.axhspan(*ends, color="0.5", alpha=0.13, linewidth=0.0)
        axes.set_title("grey: within Huber's scale", loc="right", fontsize=7.0, color="0.45")
    _points(axes, told, x, over, legend=False)
    axes.set_ylabel("residual, %")


def _points(axes: Any, told: Told, x: np.ndarray, y: np.ndarray, legend: bool = True) -> None:
    """The rows, in the colours of a few groups; those held out are open."""
    many = len(told.y) > MANY
    held = told.fit.hold_out
    out = np.isin(np.arange(len(told.y)), [] if held is None else held.rows)
    dots: dict[str, Any] = {
        "markersize": 2.4 if many else 4.0,
        "alpha": 0.5 if many else 1.0,
        "linestyle": "none",
        "marker": "o",
        "zorder": 3,
    }
    for label, tint, rows in _groups(told):
        within, without = rows[~out[rows]], rows[out[rows]]
        axes.plot(
            x[within],
            y[within],
            color=tint,
            markeredgewidth=0.0 if many else 0.25,
            markeredgecolor="white",
            label=label if legend else None,
            **dots,
        )
        axes.plot(x[without], y[without], color=tint, markerfacecolor="white", **dots)
    if legend and out.any():
        axes.plot([], [], color="0.4", markerfacecolor="white", label="held out", **dots)


def _height(told: Told) -> float:
    """Lines go behind points that can be told apart, and in front of a cloud."""
    return 4.0 if len(told.y) > MANY else 2.5


def _groups(told: Told) -> Iterator[tuple[str, str, np.ndarray]]:
    labels = told.labels
    kinds = [] if labels is None else sorted(set(labels), key=_by_size)
    if labels is None or len(kinds) > FEW:
        yield "data", colour(1), np.arange(len(told.y))
        return
    for k, kind in enumerate(kinds):
        rows = np.array([row for row, label in enumerate(labels) if label == kind])
        yield _brief(kind), colour(k + 1), rows


def _by_size(label: str) -> tuple[bool, float, str]:
    """Numbers in their order, before words."""
    try:
        return False, float(label), label
    except ValueError:
        return True, 0.0, label


def _brief(label: str) -> str:
    """A label without digits that say nothing."""
    words, number, _ = _by_size(label)
    return _plain(label if words else f"{number:g}")


def _bars(axes: Any, x: np.ndarray, y: np.ndarray, size: np.ndarray, floor: float) -> None:
    axes.vlines(x, np.maximum(y - size, floor), y + size, color="0.7", linewidth=0.7, zorder=2)


def _logarithmic(axes: Any, which: str) -> None:
    """Logarithmic axes; with less than two decades, plain numbers on some of the ticks."""
    if "x" in which:
        axes.set_xscale("log")
    if "y" in which:
        axes.set_yscale("log")
    _ticks(axes, which)


def _ticks(axes: Any, which: str) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    for axis in (getattr(axes, f"{letter}axis") for letter in which):
        low, high = axis.get_view_interval()
        if not 0.0 < low < high < 300.0 * low:
            continue
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high > 4.0 * low else HALVES))
        axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        axis.set_minor_locator(NullLocator())
        axis.set_minor_formatter(NullFormatter())


def _limits(axes: Any, shown: np.ndarray) -> None:
    low, high = shown.min(), shown.max()
    room = (high / low) ** 0.06
    axes.set_ylim(low / room, high * room)


def _called(name: str, source: str) -> str:
    return name if name == source else f"{name} = {source}"


def _short_target(told: Told) -> str:
    return told.target if len(told.target) <= 16 else "y"


def _plain(text: str) -> str:
    """Text in which nothing is taken for mathematics, and that fits under a panel."""
    text = text if len(text) <= 48 else f"{text[:45]}…"
    return text.replace("\\", "\\\\").replace("$", r"\$")
