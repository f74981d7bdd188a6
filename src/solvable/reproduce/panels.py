"""Panels that many figures draw alike: declared by what they show, drawn in one way."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..style import LAW, THEORY, TOKENS, TRAINING, colour
from ..style import panels as lettered

if TYPE_CHECKING:
    import matplotlib.figure

SMALL = 8.0  # points, of a legend


@dataclass(frozen=True)
class Mark:
    """Something in a panel: a line, points, a band, a level.

    Attributes:
        put: draws it on axes.
    """

    put: Callable[[Any], None]


def line(x: Any, y: Any, label: str = "", k: int = 0, **look: Any) -> Mark:
    """A line in the k-th colour."""
    style = {"color": colour(k), "label": label} | look
    return Mark(lambda axes: axes.plot(x, y, **style))


def theory(x: Any, y: Any, label: str = "", k: int = 0, **look: Any) -> Mark:
    """What a closed form says."""
    return line(x, y, label, k, **(THEORY | look))


def training(x: Any, y: Any, label: str = "", k: int = 0, **look: Any) -> Mark:
    """What training in reduced variables did."""
    return line(x, y, label, k, **(TRAINING | look))


def tokens(x: Any, y: Any, label: str = "", k: int = 0, **look: Any) -> Mark:
    """Points: training on tokens, or anything measured."""
    return line(x, y, label, k, **(TOKENS | look))


def law(x: Any, y: Any, label: str = "", **look: Any) -> Mark:
    """A power law to compare a slope with."""
    return line(x, y, label, **(LAW | look))


def band(x: Any, runs: Any, label: str = "", k: int = 0, within: float = 95.0) -> Mark:
    """The mean over runs (first axis), and where so many per cent of them are."""
    values = np.asarray(runs)

    def put(axes: Any) -> None:
        low, high = np.percentile(values, [50.0 - within / 2, 50.0 + within / 2], axis=0)
        axes.fill_between(x, low, high, color=colour(k), alpha=0.22, linewidth=0.0)
        axes.plot(x, values.mean(axis=0), color=colour(k), label=label)

    return Mark(put)


def each(x: Any, runs: Any, label: str = "", k: int = 0, **look: Any) -> Mark:
    """A thin line for every run (first axis)."""
    style = {"color": colour(k), "linewidth": 0.8, "alpha": 0.7} | look

    def put(axes: Any) -> None:
        for n, one in enumerate(np.asarray(runs)):
            axes.plot(x, one, label="" if n else label, **style)

    return Mark(put)


def level(y: float = 0.0, **look: Any) -> Mark:
    """A thin line across."""
    style = {"color": "0.6", "linewidth": 0.7, "zorder": 0} | look
    return Mark(lambda axes: axes.axhline(y, **style))


def upright(x: float = 0.0, **look: Any) -> Mark:
    """A thin line from bottom to top."""
    style = {"color": "0.6", "linewidth": 0.7, "zorder": 0} | look
    return Mark(lambda axes: axes.axvline(x, **style))


def entry(label: str, **look: Any) -> Mark:
    """A line of the legend that stands for what many marks look like."""
    return Mark(lambda axes: axes.plot([], [], label=label, **look))


@dataclass(frozen=True)
class Panel:
    """What a panel shows.

    Attributes:
        x, y: what its axes say.
        marks: what is drawn, from the bottom to the top.
        log: which axes are logarithmic.
        title: above it.
        xlim, ylim: its range, where it is not the data's.
        legend: how large its letters are; 0 for none.
        where: the legend's place.
        more: what else is to be done to the axes.
    """

    x: str
    y: str
    marks: Sequence[Mark]
    log: Literal["", "x", "y", "xy"] = ""
    title: str = ""
    xlim: tuple[float | None, float | None] | None = None
    ylim: tuple[float | None, float | None] | None = None
    legend: float = SMALL
    where: str | tuple[float, float] = "best"
    more: Sequence[Callable[[Any], Any]] = field(default=())

    def put(self, axes: Any) -> None:
        """Draw it."""
        for mark in self.marks:
            mark.put(axes)
        # A whole range comes before the logarithm, which may find none in the data; half of one
        # after it, as the other half is the data's.
        limits = {"xlim": self.xlim, "ylim": self.ylim}
        axes.set(**{name: ends for name, ends in limits.items() if ends and None not in ends})
        if "x" in self.log:
            axes.set_xscale("log")
        if "y" in self.log:
            axes.set_yscale("log")
        axes.set_xlabel(self.x)
        axes.set_ylabel(self.y)
        axes.set(**{name: ends for name, ends in limits.items() if ends and None in ends})
        if self.title:
            axes.set_title(self.title, fontsize=9.0)
        for do in self.more:
            do(axes)
        if self.legend:
            axes.legend(fontsize=self.legend, loc=self.where)


def drawn(*panels: Panel, rows: int = 1, shared: str = "") -> "matplotlib.figure.Figure":
    """A figure of panels, lettered along its rows.

    Args:
        panels: what is in them; without legends of their own (``legend=0``) where one is shared.
        rows: of how many rows.
        shared: the place of one legend for all, for example "outside lower center".
    """
    figure, axes = lettered(-(-len(panels) // rows), rows)
    entries: dict[str, Any] = {}
    for panel, place in zip(panels, axes, strict=False):
        panel.put(place)
        for handle, label in zip(*place.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    for place in axes[len(panels) :]:
        place.set_visible(False)
    if shared:
        how: dict[str, Any] = {"loc": shared, "ncols": len(entries), "fontsize": SMALL}
        figure.legend(list(entries.values()), list(entries), **how)
    return figure
