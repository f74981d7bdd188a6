"""The picture of one curve."""

import math
from collections.abc import Sequence
from io import BytesIO

from ..style import figure_style


def draw(time: Sequence[int | float], loss: Sequence[int | float], kind: str) -> bytes:
    """L against t on logarithmic axes, as the content of a `kind` ("svg", "png", "pdf") file.

    Points at which a logarithm does not exist (t = 0, or after divergence) are left out.
    """
    from matplotlib.figure import Figure

    pairs = zip(time, loss, strict=True)
    points = [(t, value) for t, value in pairs if t > 0.0 and 0.0 < value < math.inf]
    content = BytesIO()
    with figure_style():
        figure = Figure()
        axes = figure.add_subplot()
        axes.loglog(*zip(*points, strict=True) if points else ((), ()))
        axes.set_xlabel("$t$")
        axes.set_ylabel("$L$")
        # Without the date, the same curve gives the same file.
        dateless = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
        figure.savefig(content, format=kind, metadata=dateless.get(kind))
    return content.getvalue()
