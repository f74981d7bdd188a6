"""The picture of a curve, or of several over the same points."""

import math
from collections.abc import Mapping, Sequence
from io import BytesIO

from ..style import figure_style

Points = Sequence[int | float]


def draw(x: Points, lines: Mapping[str, Points], kind: str, symbol: str = "t") -> bytes:
    """L on logarithmic axes, as the content of a `kind` ("svg", "png", "pdf") file.

    Points at which a logarithm does not exist (t = 0, or after divergence) are left out.

    Args:
        x: what the curves are drawn over.
        lines: the curves by their labels.
        kind: of the file.
        symbol: of x.
    """
    from matplotlib.figure import Figure

    content = BytesIO()
    with figure_style():
        figure = Figure()
        axes = figure.add_subplot()
        for label, values in lines.items():
            pairs = zip(x, values, strict=True)
            points = [(t, y) for t, y in pairs if 0.0 < t < math.inf and 0.0 < y < math.inf]
            axes.loglog(*zip(*points, strict=True) if points else ((), ()), label=label)
        axes.set_xlabel(f"${symbol}$")
        axes.set_ylabel("$L$" if len(lines) == 1 else "loss")
        if len(lines) > 1:
            axes.legend(fontsize=8.0)
        # Without the date, the same curve gives the same file.
        dateless = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
        figure.savefig(content, format=kind, metadata=dateless.get(kind))
    return content.getvalue()
