"""Pictures as the content of files: of a curve, of several over the same points, or any other."""

import math
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any

from ..style import LAW, figure_style

Points = Sequence[int | float]
FEW = 12  # points that are marked


def draw(
    x: Points,
    lines: Mapping[str, Points],
    kind: str,
    symbol: str = "t",
    y: str = "$L$",
    log: str = "xy",
    levels: Points = (),
) -> bytes:
    """Losses over something, as the content of a `kind` ("svg", "png", "pdf") file.

    Points at which a logarithm does not exist (t = 0, or after divergence) are left out.

    Args:
        x: what the curves are drawn over.
        lines: the curves by their labels.
        kind: of the file.
        symbol: of x.
        y: the label of the other axis.
        log: which axes are logarithmic, of "xy".
        levels: losses that are marked.
    """
    from matplotlib.figure import Figure

    def there(value: float, axis: str) -> bool:
        return math.isfinite(value) and (value > 0.0 or axis not in log)

    def make() -> Figure:
        figure = Figure()
        axes = figure.add_subplot()
        axes.set_xscale("log" if "x" in log else "linear")
        axes.set_yscale("log" if "y" in log else "linear")
        for label, values in lines.items():
            pairs = zip(x, values, strict=True)
            points = [(a, b) for a, b in pairs if there(a, "x") and there(b, "y")]
            mark = {"marker": "o", "markersize": 3.5} if len(points) <= FEW else {}
            axes.plot(*zip(*points, strict=True) if points else ((), ()), label=label, **mark)
        for level in levels:
            axes.axhline(level, **LAW)
        axes.set_xlabel(f"${symbol}$")
        axes.set_ylabel(y)
        if len(lines) > 1:
            axes.legend(fontsize=8.0)
        return figure

    return saved(kind, make)


def saved(kind: str, make: Callable[[], Any]) -> bytes:
    """A figure, made in our style, as the content of a file; the same figure, the same file."""
    content = BytesIO()
    dateless = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with figure_style():
        make().savefig(content, format=kind, metadata=dateless.get(kind))
    return content.getvalue()
