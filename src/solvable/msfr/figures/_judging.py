"""How the laws of this lab are judged: where they are seen, by one rule."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from ...reproduce import Finding, at_least
from ...reproduce.numerals import number
from ...scaling import longest_window
from ..laws import Law

WITHIN = 0.02  # of its exponent, where a law is seen
RULES = 0.5  # of the way from the first task to the last, over which a law is to be seen
RULE = (
    "over at least half of the decades from the first task to the last (share of them in which the "
    "local exponent is within 2 %)"
)
START = 0.03  # from which time on gradient descent at lr 1e-3 is within 1 % of the flow
STEP = (
    "after a time t a step lr is off by lr r²t for a task of rate r, and the tasks being learned "
    "have rt of about 1"
)

Get = Callable[[str], np.ndarray]


def log_points(last: int, count: int) -> np.ndarray:
    """Whole numbers from 0 to `last`, evenly spaced in the logarithm from 1 on.

    >>> log_points(1000, 4).tolist()
    [0, 1, 10, 100, 1000]
    """
    return np.unique(np.append(0, np.round(np.geomspace(1, last, count)).astype(int)))


@dataclass(frozen=True)
class Window:
    """Where a power law is seen.

    Attributes:
        low, high: its ends; equal where it is seen nowhere, at the point of closest approach.
        mean: the local exponent within, on average over log x.
    """

    low: float
    high: float
    mean: float

    @property
    def decades(self) -> float:
        """How long it is."""
        return float(np.log10(self.high) - np.log10(self.low))

    def words(self, symbol: str) -> str:
        """The window, to read."""
        low, high = (number(float(f"{x:.2g}")) for x in (self.low, self.high))
        if self.high == self.low:
            return f"Nowhere; closest at {symbol} = {low}"
        return f"{symbol} = {low} … {high}, there {number(self.mean)} on average"


def sights(laws: Mapping[str, Law], per_decade: int) -> xr.Dataset:
    """What `sight` has of each law, on a grid of its whole range."""
    parts: list[xr.Dataset] = []
    for name, law in laws.items():
        x = law.grid(per_decade)
        window, local = law.window(WITHIN), law.local_exponent(x)
        parts.append(sight(name, x, local, window, law.loss(x), law.amplitude))
    return xr.merge(parts)


def sight(
    name: str,
    x: np.ndarray,
    local: np.ndarray,
    window: tuple[float, float],
    loss: np.ndarray | None = None,
    amplitude: float | None = None,
) -> xr.Dataset:
    """A law X as the claims find it: on the grid ``law_X`` its local exponent ``local_X`` and its
    loss ``loss_X``, where it is seen, ``window_X``, and its ``amplitude_X``."""
    found: dict[str, Any] = {
        f"local_{name}": (f"law_{name}", local),
        f"window_{name}": ("end", list(window)),
    }
    if loss is not None:
        found[f"loss_{name}"] = (f"law_{name}", loss)
    if amplitude is not None:
        found[f"amplitude_{name}"] = amplitude
    return xr.Dataset(found, coords={f"law_{name}": x})


def window_on(x: np.ndarray, local: np.ndarray, exponent: float) -> tuple[float, float]:
    """Where a law is seen whose local exponent is known on a grid alone."""
    good = np.isfinite(local)
    at, values = np.log(x[good]), local[good]
    between = lambda y: np.interp(np.log(y), at, values)  # noqa: E731
    return longest_window(x[good], between, exponent, WITHIN)


def window_of(get: Get, symbol: str) -> Window:
    """The window of the law in a symbol."""
    low, high = (float(end) for end in get(f"window_{symbol}"))
    x, local = get(f"law_{symbol}"), get(f"local_{symbol}")
    inside = (x >= low) & (x <= high) & np.isfinite(local)
    if not inside.any():
        inside = np.arange(len(x)) == np.argmin(np.abs(np.log(x / low)))
    return Window(low, high, float(local[inside].mean()))


def reach(num_tasks: float, size: float, exponent: float) -> float:
    """Decades from the first task to the last in what the loss falls with by `exponent`.

    Of `num_tasks` tasks the last leaves a loss of num_tasks^-size, `size` being the exponent of the
    law in model size.

    >>> reach(1e9, 0.8, 0.8), round(reach(1e9, 0.8, 0.8 / 1.8), 6)
    (9.0, 16.2)
    """
    return float(np.log10(num_tasks)) * size / exponent


def lag(time: np.ndarray, lr: float, trained: np.ndarray, flow: np.ndarray) -> float:
    """The largest relative gap of gradient descent from its flow, in units of lr/t, t > 0."""
    t, gap = np.asarray(time), np.abs(np.asarray(trained) / np.asarray(flow) - 1.0)
    return float(np.max((gap * t / lr)[t > 0.0]))


def rules(symbol: str, seen: Mapping[str, tuple[Window, float]]) -> Finding:
    """A law is seen over most of the way, in each of several cases.

    Args:
        symbol: what it is a law in.
        seen: for each case the law's window, and the decades of the whole way.
    """
    shares = [window.decades / whole for window, whole in seen.values()]
    words = [
        f"{f'{case}: ' if case else ''}{window.decades:.1f} of {whole:.1f} decades "
        f"({window.words(symbol)})"
        for case, (window, whole) in seen.items()
    ]
    because = "a law is to hold for most of the tasks, not for a stretch of them"
    return at_least(min(shares), RULES, because=because, note=f"{'; '.join(words)}.")
