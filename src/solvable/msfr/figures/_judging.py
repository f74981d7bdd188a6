"""How the curves of this lab are judged."""

from dataclasses import dataclass

import numpy as np

from ..laws import Law

DECADES = 2.0  # over which a law must be seen
WITHIN = 0.02  # of its exponent
START = 0.03  # from which time on gradient descent at lr 1e-3 is to follow the flow


def worst_ratio(measured: np.ndarray, expected: np.ndarray) -> float:
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
        worst: the local exponent farthest from the law's within the best two decades.
        low, high: the longest window within 2 % of the law's exponent.
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
        if self.high == self.low:
            return f"no window within 2 %; closest at {symbol} = {self.low:.2g}"
        return (
            f"within 2 % from {symbol} = {self.low:.2g} to {self.high:.2g}, "
            f"{self.decades:.1f} decades"
        )


def seen(law: Law, tolerance: float = WITHIN, decades: float = DECADES) -> Seen:
    """How well a law is seen; no range is picked by hand.

    The window is where the local exponent is within `tolerance`. The worst exponent is that of the
    middle `decades` decades of the window, or, where the window is shorter, of as many decades
    around it.
    """
    low, high = law.window(tolerance)
    middle, half = np.sqrt(low * high), 10.0 ** (decades / 2)
    x = np.geomspace(middle / half, middle * half, 41)
    local = law.local_exponent(x)
    return Seen(float(local[np.argmax(np.abs(local - law.exponent))]), low, high)
