"""How many times a loss drops."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from jaxtyping import Int

LEAST = 0.05  # of the first loss: by how much the slope rises and falls again in a drop
RESOLUTION = 0.01  # in ln t: what is faster is not seen


def count_drops(time: Any, loss: Any, least: float = LEAST) -> Int[np.ndarray, "*batch"]:
    """The number of drops of a loss: the maxima of −dL/d ln t that stand out.

    A drop is a rise of the slope by `least` or more, followed by a fall by as much; before the
    first point the slope is zero. The curve is that of the lowest loss so far, so that a loss that
    shakes by 1e-4 of its first value or less drops no more often.

    Args:
        time: the points' times, or steps, increasing, (points,); a first time of zero is the start.
        loss: the curves, (…, points).
        least: in units of a curve's first loss.

    Returns:
        How many drops each curve has, (…). A drop that is steepest at the last point is not over
        and does not count.

    >>> t = np.arange(1.0, 1000.0)
    >>> fall = lambda where: 0.5 / (1.0 + (t / where) ** 12)
    >>> int(count_drops(t, fall(30.0) + fall(300.0)))
    2
    """
    time, loss = np.asarray(time, float), np.asarray(loss, float)
    if loss.ndim == 0 or time.shape != loss.shape[-1:] or np.count_nonzero(time > 0.0) < 2:
        raise ValueError(
            "time must be one axis as long as the last of loss, with 2 points or more after zero, "
            f"not of shape {time.shape} with loss of shape {loss.shape}"
        )
    if not np.all(np.diff(time) > 0.0) or time[0] < 0.0:
        raise ValueError("time must increase, from zero or later")
    later = time > 0.0
    log_time = np.log(time[later])
    span = log_time[-1] - log_time[0]
    grid = np.linspace(log_time[0], log_time[-1], 2 + int(span / RESOLUTION))
    counts = np.zeros(loss.shape[:-1], int)
    for where in np.ndindex(counts.shape):
        lowest = np.minimum.accumulate(loss[where])[later]
        slope = -np.diff(np.interp(grid, log_time, lowest)) / np.diff(grid)
        counts[where] = _count_peaks(slope, least * loss[where][0])
    return counts


def _count_peaks(heights: Iterable[float], least: float) -> int:
    """How often a curve that starts at zero rises by `least` and falls by as much again."""
    low, high, rising, count = 0.0, 0.0, False, 0
    for height in heights:
        if rising:
            high = max(high, height)
            if high - height >= least:
                rising, low, count = False, height, count + 1
        else:
            low = min(low, height)
            if height - low >= least:
                rising, high = True, height
    return count
