"""The one look of every matplotlib picture."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import matplotlib.figure
    import numpy as np

# Okabe and Ito's palette: told apart with every common kind of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

THEORY = {"linestyle": "--", "linewidth": 1.3}
LAW = {"linestyle": ":", "linewidth": 1.2, "color": "0.35"}
TRAINING = {"linestyle": "-", "linewidth": 2.4, "alpha": 0.55}
TOKENS = {"linestyle": "none", "marker": "o", "markersize": 3.2, "markerfacecolor": "white"}


@contextmanager
def figure_style() -> Iterator[None]:
    """Within it, figures are made and saved in Solvable's style.

    The font is the one matplotlib ships, so that a picture is the same on every machine.
    """
    import matplotlib
    from cycler import cycler

    settings: dict[Any, Any] = {
        "font.family": "DejaVu Sans",
        "font.size": 9.0,
        "mathtext.fontset": "dejavusans",
        "axes.linewidth": 0.6,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": cycler(color=COLOURS),
        "axes.labelsize": 11.0,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "xtick.minor.width": 0.4,
        "ytick.minor.width": 0.4,
        "lines.linewidth": 1.6,
        "legend.frameon": False,
        "figure.figsize": (4.8, 3.4),
        "figure.constrained_layout.use": True,
        "savefig.dpi": 150,
        "svg.fonttype": "path",
        "svg.hashsalt": "solvable",
    }
    with matplotlib.rc_context(settings):
        yield


def panels(columns: int, rows: int = 1) -> tuple["matplotlib.figure.Figure", "np.ndarray"]:
    """A figure and its axes, lettered (a), (b), … along the rows."""
    import matplotlib.figure
    import numpy as np

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
