"""Roots of functions of one number, by scipy."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq


def root_between(function: Callable[[float], float], low: float, high: float) -> float:
    """A root between two places where the function has opposite signs, to round-off (Brent).

    >>> round(root_between(lambda x: x**2 - 2.0, 0.0, 2.0), 12)
    1.414213562373
    """
    found = brentq(function, low, high, xtol=1e-300, rtol=np.float64(1e-15), maxiter=500)
    return float(found)  # pyright: ignore[reportArgumentType]
