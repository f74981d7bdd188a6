"""The picture of a plan: the valley at one budget, and the frontier over budgets."""

from io import BytesIO
from typing import Any

import numpy as np

from ..scaling import Plan, plan
from ..style import LAW, colour, figure_style, panels
from .laws import FORMULAS
from .plan_words import Told

REACH = 8.0  # the largest mistake that is drawn
AROUND = 30.0  # how far the frontier of a single budget goes
BAND = {"alpha": 0.2, "linewidth": 0.0}


def draw(told: Told, kind: str) -> bytes:
    """The content of a `kind` ("svg", "png", "pdf") file."""
    content = BytesIO()
    with figure_style():
        several = len(told.names) > 1
        figure, axes = panels(2 if several else 1)
        if several:
            _valley(axes[0], told)
        _frontier(axes[-1], told)
        # Without the date, the same plan gives the same file.
        dateless = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
        figure.savefig(content, format=kind, metadata=dateless.get(kind))
    return content.getvalue()


def _valley(axes: Any, told: Told) -> None:
    """The loss along the budget, one resource being off by a factor."""
    best, k = told.plan, told.shown
    factors = np.geomspace(1.0 / REACH, REACH, _count(told, 49))
    for j, name in enumerate(told.names):
        loss = best.valley(name, factors, k)
        axes.plot(factors, loss, color=colour(j), label=_plain(name))
        mistakes = best.mistakes[name]
        axes.plot((0.5, 2.0), mistakes.loss[k], "o", color=colour(j), markersize=3.5)
    axes.plot([1.0], [best.loss.value[k]], "*", color="0.15", markersize=8.0, zorder=4)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    _plain_ticks(axes, "xy")
    axes.set_xlabel("amount / best amount")
    axes.set_ylabel("loss")
    axes.set_title(f"budget {best.budget[k]:.3g}", loc="right", fontsize=8.0, color="0.4")
    axes.legend(fontsize=8.0, loc="upper center", title="off by a factor", title_fontsize=8.0)


def _frontier(axes: Any, told: Told) -> None:
    """The best loss over budgets, with its band."""
    best = told.plan
    line = best if len(best.budget) > 24 else _around(best, _count(told, 33))
    good = np.isfinite(line.loss.value)
    x, loss = line.budget[good], line.loss
    if not told.sure:
        level = f"{100 * best.known.level:g} %"
        low, high = loss.low[good], np.minimum(loss.high[good], 1e3 * loss.value[good])
        axes.fill_between(x, low, high, color=colour(0), label=level, **BAND)
    axes.plot(x, loss.value[good], color=colour(0), label="best loss")
    mark = {"marker": "o", "markersize": 3.5, "linestyle": "none", "color": "0.15"}
    axes.plot(best.budget, best.loss.value, **mark, label="planned", zorder=4)
    floor = best.known.values[best.known.law.parameters.index("E")] if _has_floor(best) else 0.0
    shown = loss.value[good]
    if floor > 0.3 * shown.min():
        axes.axhline(floor, **LAW, label="E, unlimited")
    axes.set_xscale("log")
    axes.set_yscale("log")
    _plain_ticks(axes, "y")
    axes.set_xlabel(_plain(f"budget C = {best.cost.text}"))
    axes.set_ylabel("loss")
    axes.legend(fontsize=8.0)


def _around(best: Plan, count: int) -> Plan:
    """The frontier near a few budgets."""
    reach = AROUND if len(best.budget) == 1 else 1.0
    budgets = np.geomspace(best.budget.min() / reach, best.budget.max() * reach, count)
    return plan(best.known, budgets, best.cost, least=best.least, mistakes=False)


def _count(told: Told, fine: int) -> int:
    """The points of a line; a model's loss takes its time."""
    return fine if told.plan.known.law.name in FORMULAS else 13


def _has_floor(best: Plan) -> bool:
    return "E" in best.known.law.linear


def _plain_ticks(axes: Any, which: str) -> None:
    """Plain numbers on the ticks of an axis that is short."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    for letter in which:
        axis = getattr(axes, f"{letter}axis")
        low, high = axis.get_view_interval()
        if letter == "x":
            axis.set_major_formatter(FuncFormatter(lambda v, _: _fraction(v)))
            axis.set_minor_formatter(NullFormatter())
        elif high < 100.0 * low:
            narrow = high < 4.0 * low
            axis.set_major_locator(
                MaxNLocator(6, steps=[1, 2, 5, 10]) if narrow else LogLocator(subs=(1.0, 2.0, 5.0))
            )
            axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.4g}"))
            axis.set_minor_formatter(NullFormatter())


def _fraction(value: float) -> str:
    return f"{value:g}" if value >= 1.0 or value <= 0.0 else f"1/{round(1.0 / value):d}"


def _plain(text: str) -> str:
    """Text in which nothing is taken for mathematics, and that fits under a panel."""
    text = text if len(text) <= 48 else f"{text[:45]}…"
    return text.replace("\\", "\\\\").replace("$", r"\$").replace("**", "^")
