"""Where a power law holds."""

import math
from collections.abc import Callable

import numpy as np

from . import _table


def longest_window(
    x: np.ndarray, local: Callable[[np.ndarray], np.ndarray], exponent: float, tolerance: float
) -> tuple[float, float]:
    """The longest stretch of x where a local exponent is within a tolerance of a law's.

    Runs of grid points inside the tolerance, their ends refined on a second grid.

    Args:
        x: the grid, rising.
        local: the local exponent at points x.
        exponent: of the law.
        tolerance: relative (absolute where the exponent is 0).

    Returns:
        (low, high). Where the law is seen nowhere, low = high, the point of closest approach.

    >>> low, high = longest_window(np.geomspace(1.0, 1e4, 49), lambda x: 0.5 + 1.0 / x, 0.5, 0.02)
    >>> round(low), round(high)
    (100, 10000)
    """
    x = _table.positive("x", x)
    if len(x) == 0:
        raise ValueError("x must hold one number or more, not none")
    exponent = _table.number("exponent", exponent, -math.inf, math.inf)
    tolerance = _table.number("tolerance", tolerance, 0.0, math.inf)
    slack = tolerance * (abs(exponent) or 1.0)
    miss = np.abs(local(x) - exponent) - slack
    inside = miss <= 0.0
    if not inside.any():
        best = float(x[np.nanargmin(miss)])
        return best, best
    edges = np.flatnonzero(np.diff(np.concatenate([[False], inside, [False]])))
    runs = edges.reshape(-1, 2)  # [first inside, first outside)
    first, after = (int(k) for k in max(runs, key=lambda run: x[run[1] - 1] / x[run[0]]))

    def crossing(outside: int, within: int) -> float:
        if not 0 <= outside < len(x):
            return float(x[within])
        ends = x[outside], x[within]
        for _ in range(2):
            fine = np.geomspace(*ends, 17)
            good = np.abs(local(fine) - exponent) <= slack
            k = int(np.argmax(good)) if good.any() else 16
            ends = fine[max(k - 1, 0)], fine[k]
        return float(ends[1])

    return crossing(first - 1, first), crossing(after, after - 1)
