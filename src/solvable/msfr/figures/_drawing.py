"""What the pictures of this lab share."""

from typing import Any

import numpy as np

from ...style import LAW


def guide(axes: Any, x: np.ndarray, y: np.ndarray, exponent: float, label: str) -> None:
    """The pure power law x^-exponent, laid a little above a curve, through its middle."""
    middle = len(x) // 2
    line = y[middle] * (x / x[middle]) ** -exponent
    axes.plot(x, 1.5 * line, label=label, **LAW)
