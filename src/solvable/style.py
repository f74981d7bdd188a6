"""The one look of every matplotlib picture."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Okabe and Ito's palette: told apart with every common kind of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


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
