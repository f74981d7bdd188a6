"""How the curves of this lab are judged."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from ...reproduce import Claim, Figure, Finding, Quote, Statement, decades
from ...reproduce.claim import Kind
from ...reproduce.numerals import number
from ._labels import of_label

DECADES = 2.0  # over which a law must be seen
WITHIN = 0.02  # of its exponent
RULE = "over two decades or more (decades in which the local exponent is within 2 %)."
START = 0.03  # from which time on gradient descent at lr 1e-3 is to follow the flow


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
        mean: the local exponent, averaged over the window in log x.
        low, high: the longest window within the tolerance; equal where there is none, at the point
            of closest approach.
    """

    mean: float
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
        return f"Within 2 % for {ends}, there {number(self.mean)} on average."


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
    inside = (fine >= low) & (fine <= high)
    return Seen(float(curve[inside].mean()), float(10.0**low), float(10.0**high))


def claim_law(
    fig: Figure, kind: Kind, source: str, word: str, text: str, symbol: str, *, shift: float = 0.0
) -> None:
    """Claim for every α of a figure that a power law in a symbol is seen."""
    name = "D − ½" if shift else symbol

    def law(d: xr.Dataset, x: float) -> Finding:
        get = of_label(d, str(x))
        grid, exponent = get(f"law_{symbol}") - shift, float(get(f"exponent_{symbol}"))
        found = seen(grid, get(f"local_{symbol}"), exponent)
        return decades(
            found, DECADES, note=f"The exponent is {number(exponent)}. {found.words(name)}"
        )

    law.__doc__ = f"{text} {RULE}"
    fig.claim(kind, source, word=f"{word}-law-{{x}}", over="alphas")(law)


def law_statement(
    id: str, text: str, source: str, kind: Kind, quote: Quote | None = None
) -> Statement:
    """That a power law is seen; the number judged is over how many decades."""
    return Statement(id, f"{text} {RULE}", source, kind, quote)


def judge_law(
    statement: Statement, x: Any, local: Any, exponent: float, symbol: str, printed: Any = None
) -> Claim:
    """Over how many decades a local exponent is within 2 % of the law's, or of the quoted one."""
    found = seen(x, local, exponent)
    of_printed = None if printed is None else seen(x, local, printed).decades
    note = f"The exponent is {number(exponent)}. {found.words(symbol)}"
    return statement.judge(DECADES, found.decades, "at least", as_printed=of_printed, note=note)
