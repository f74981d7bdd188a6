"""How far the mean over few runs may be off."""

import numpy as np
from scipy.stats import t as student


def beyond(runs: int, among: int = 1) -> float:
    """How many standard errors the furthest of so many means is within, 99 in 100 (Student's t)."""
    return float(student.ppf(1.0 - 0.005 / among, runs - 1))


def mean_of(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean over the last axis, and its standard error."""
    found = np.asarray(values)
    return found.mean(axis=-1), found.std(axis=-1, ddof=1) / found.shape[-1] ** 0.5
