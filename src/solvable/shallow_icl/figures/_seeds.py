"""What runs of several seeds say of a power law, and how far their means may be off."""

from typing import Any

import numpy as np
from scipy.stats import t as student

from ...reproduce import Finding, near

Numbers = Any


def beyond(runs: int, among: int = 1) -> float:
    """How many standard errors the furthest of so many means is within, 99 in 100 (Student's t)."""
    return float(student.ppf(1.0 - 0.005 / among, runs - 1))


def mean_of(values: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """The mean over the last axis, and its standard error."""
    found = np.asarray(values, float)
    return found.mean(axis=-1), found.std(axis=-1, ddof=1) / found.shape[-1] ** 0.5


def slope_of(x: Numbers, values: Numbers) -> tuple[float, float]:
    """The slope of ln values, (x, seeds), in ln x: its mean over seeds, and its standard error.

    One slope a seed: what a seed's values have in common at all x does not matter.

    >>> x = np.array([1.0, 10.0, 100.0])
    >>> slope, error = slope_of(x, np.stack([3.0 / x, 5.0 / x], axis=1))
    >>> round(slope, 12), round(error, 12)
    (-1.0, 0.0)
    """
    slopes = np.polyfit(np.log(np.asarray(x, float)), np.log(np.asarray(values, float)), 1)[0]
    mean, error = mean_of(slopes)
    return float(mean), float(error)


def power_law(x: Numbers, values: Numbers, exponent: float, note: str = "") -> Finding:
    """Values, (x, seeds), are a power of x with this exponent, as well as the seeds can tell."""
    runs = np.shape(values)[-1]
    slope, error = slope_of(x, values)
    most = beyond(runs)
    sizes = np.exp(np.log(np.asarray(values)).mean(axis=-1))
    told = ", ".join(f"{size:.2g} at {at:g}" for at, size in zip(np.asarray(x), sizes, strict=True))
    words = f"Standard error {error:.3f}, {runs} seeds. Geometric means: {told}. {note}".rstrip()
    because = f"{most:.1f} standard errors of Student's t over seeds"
    return near(slope, exponent, most * error, because=because, note=words)
