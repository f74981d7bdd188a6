"""The picture of one curve."""

from collections.abc import Sequence
from io import BytesIO

from ..style import figure_style


def draw(time: Sequence[float], loss: Sequence[float], kind: str) -> bytes:
    """L against t on logarithmic axes, as the content of a `kind` ("svg", "png", "pdf") file.

    Points at which a logarithm does not exist (t = 0, say) are left out.
    """
    from matplotlib.figure import Figure

    points = [(t, value) for t, value in zip(time, loss, strict=True) if t > 0.0 and value > 0.0]
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
