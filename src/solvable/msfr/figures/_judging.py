"""How the curves of this lab are judged."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...reproduce import Claim, Statement
from ...reproduce.numerals import number

DECADES = 2.0  # over which a law must be seen
WITHIN = 0.02  # of its exponent
START = 0.03  # from which time on gradient descent at lr 1e-3 is to follow the flow


def worst_ratio(measured: Any, expected: Any) -> float:
    """The largest |measured/expected − 1|."""
    return float(np.max(np.abs(np.asarray(measured) / np.asarray(expected) - 1.0)))


def log_points(last: int, count: int) -> np.ndarray:
    """Whole numbers from 0 to `last`, evenly spaced in the logarithm from 1 on.

    >>> log_points(1000, 4).tolist()
    [0, 1, 10, 100, 1000]
    """
    return np.unique(np.append(0, np.round(np.geomspace(1, last, count)).astype(int)))


@dataclass(frozen=True)
class Seen:
    """Where and how well a power law is seen.

    Attributes:
        worst: the local exponent farthest from the law's within the middle two decades of the
            window, or of as many decades around it where it is shorter.
        low, high: the longest window within the tolerance; equal where there is none, at the point
            of closest approach.
    """

    worst: float
    low: float
    high: float

    @property
    def decades(self) -> float:
        """How long the window is."""
        return float(np.log10(self.high / self.low))

    def words(self, symbol: str) -> str:
        """The window, to read."""
        low, high = (number(float(f"{x:.2g}")) for x in (self.low, self.high))
        if self.high == self.low:
            return f"Nowhere within 2 %; closest at {symbol} = {low}."
        ends = f"{symbol} = {low} … {high}"
        return f"Within 2 % over {self.decades:.1f} decades, {ends}."


def seen(x: Any, local: Any, exponent: float, tolerance: float = WITHIN) -> Seen:
    """How well a law is seen in a local exponent on a grid; no range is picked by hand."""
    grid, values = np.log10(np.asarray(x)), np.asarray(local)
    good = np.isfinite(values)
    fine = np.linspace(grid[good][0], grid[good][-1], 4001)
    curve = np.interp(fine, grid[good], values[good])
    miss = np.abs(curve / exponent - 1.0)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], miss <= tolerance, [False]])))
    if edges.size:
        first, after = max(edges.reshape(-1, 2), key=lambda run: run[1] - run[0])
        low, high = fine[first], fine[after - 1]
    else:
        low = high = fine[np.argmin(miss)]
    middle = 0.5 * (low + high)
    near = np.abs(fine - middle) <= 0.5 * DECADES + 1e-9
    worst = curve[near][np.argmax(miss[near])]
    return Seen(float(worst), float(10.0**low), float(10.0**high))


def judge_law(
    statement: Statement, x: Any, local: Any, exponent: float, symbol: str, **how: Any
) -> Claim:
    """Whether a local exponent is within 2 % of the law's over two decades."""
    found = seen(x, local, exponent)
    words = f"{found.words(symbol)} {how.pop('note', '')}".rstrip()
    return statement.judge(exponent, found.worst, WITHIN * exponent, note=words, **how)
