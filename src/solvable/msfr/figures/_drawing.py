"""What the pictures of this lab share: the paper's symbols and its line styles."""

from typing import Any

import matplotlib.figure
import numpy as np

from ...style import COLOURS

THEORY = {"linestyle": "--", "linewidth": 1.3}
LAW = {"linestyle": ":", "linewidth": 1.2, "color": "0.35"}
TRAINING = {"linestyle": "-", "linewidth": 2.4, "alpha": 0.55}
TOKENS = {"linestyle": "none", "marker": "o", "markersize": 3.2, "markerfacecolor": "white"}


def panels(columns: int, rows: int = 1) -> tuple[matplotlib.figure.Figure, np.ndarray]:
    """A figure and its axes, lettered (a), (b), … along the rows."""
    figure = matplotlib.figure.Figure(figsize=(3.6 * columns + 0.3, 2.9 * rows + 0.2))
    axes = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    if len(axes) > 1:
        for letter, each in zip("abcdefgh", axes, strict=False):
            each.set_title(f"({letter})", loc="left", fontsize=9.0, fontweight="bold")
    return figure, axes


def loglog(axes: Any, x: str, y: str = "L", title: str = "") -> None:
    """Logarithmic axes labelled with the paper's symbols."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(f"${x}$")
    axes.set_ylabel(f"${y}$")
    if title:
        axes.set_title(title, fontsize=9.0)


def colour(k: int) -> str:
    """The k-th colour of the palette."""
    return COLOURS[k % len(COLOURS)]


def guide(axes: Any, x: np.ndarray, y: np.ndarray, exponent: float, label: str) -> None:
    """The pure power law x^-exponent, laid a little above a curve, through its middle."""
    middle = len(x) // 2
    line = y[middle] * (x / x[middle]) ** -exponent
    axes.plot(x, 1.5 * line, label=label, **LAW)
