"""The picture of a curve, or of several over the same points."""

import math
from collections.abc import Mapping, Sequence
from io import BytesIO

from ..style import figure_style

Points = Sequence[int | float]
FEW = 12  # points that are marked


def draw(
    x: Points, lines: Mapping[str, Points], kind: str, symbol: str = "t", y: str = "$L$"
) -> bytes:
    """Losses on logarithmic axes, as the content of a `kind` ("svg", "png", "pdf") file.

    Points at which a logarithm does not exist (t = 0, or after divergence) are left out.

    Args:
        x: what the curves are drawn over.
        lines: the curves by their labels.
        kind: of the file.
        symbol: of x.
        y: the label of the other axis.
    """
    from matplotlib.figure import Figure

    content = BytesIO()
    with figure_style():
        figure = Figure()
        axes = figure.add_subplot()
        for label, values in lines.items():
            pairs = zip(x, values, strict=True)
            points = [(a, b) for a, b in pairs if 0.0 < a < math.inf and 0.0 < b < math.inf]
            mark = {"marker": "o", "markersize": 3.5} if len(points) <= FEW else {}
            axes.loglog(*zip(*points, strict=True) if points else ((), ()), label=label, **mark)
        axes.set_xlabel(f"${symbol}$")
        axes.set_ylabel(y)
        if len(lines) > 1:
            axes.legend(fontsize=8.0)
        # Without the date, the same curve gives the same file.
        dateless = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
        figure.savefig(content, format=kind, metadata=dateless.get(kind))
    return content.getvalue()
