"""The optimal split of compute, as the figures show and judge it."""

import numpy as np
import xarray as xr

from .. import Init, Task, compute_law, frontier
from ..theory import Order
from ._judging import START, Get, sight, window_of, window_on

SLACK = 0.01  # of the exponents of D* and t*


def cut_sizes(left: np.ndarray, weights: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The loss of every model size from the residuals of the whole model: (…, sizes).

    Tasks decouple, so that a model of size D is the whole one with the tasks s ≥ D at their start;
    `left` is (tasks, points), its first point the start.
    """
    terms = 0.5 * weights[:, None] * left**2
    learned = np.cumsum(terms, axis=0)
    unlearned = np.cumsum(terms[::-1, :1], axis=0)[::-1]
    pad = np.zeros((1, terms.shape[1]))
    learned, unlearned = np.concatenate([pad, learned]), np.concatenate([unlearned, pad[:, :1]])
    return (learned[size - 1] + unlearned[size - 1]).T


def frontier_of_law(
    task: Task, init: Init, order: Order, per_decade: int, exponent: float
) -> xr.Dataset:
    """The exact frontier over the law's whole range: local exponent, window, D* and t*."""
    x = compute_law(task, init, order).grid(per_decade)
    best = frontier(task, init, x, order)
    window = window_on(x, best.local_exponent, exponent)
    split = {"split_size": ("law_C", best.size), "split_time": ("law_C", best.time)}
    seen = sight("C", x, best.local_exponent, window, best.loss, best.amplitude)
    return seen.assign(split)


def split_exponents(get: Get) -> tuple[float, float]:
    """The slopes of D* and t* in C across the window in which the frontier follows its law."""
    x, window = get("law_C"), window_of(get, "C")
    inside = np.flatnonzero((x >= window.low) & (x <= window.high))
    if len(inside) < 2:
        return float("nan"), float("nan")
    ends = inside[[0, -1]]
    length = np.diff(np.log(x[ends]))
    slopes = (np.diff(np.log(get(name)[ends])) / length for name in ("split_size", "split_time"))
    of_size, of_time = (float(slope[0]) for slope in slopes)
    return of_size, of_time


def lower_envelope(get: Get) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The least loss of gradient descent over D at budgets D t, and which D has it."""
    t, members, curves = get("time")[1:], get("member"), get("trained_member")[1:]
    budgets = np.geomspace(members[0] * START, members[-1] * t[-1], 60)
    logs = np.stack(
        [
            np.interp(
                np.log(budgets / D), np.log(t), np.log(curves[:, k]), left=np.inf, right=np.inf
            )
            for k, D in enumerate(members)
        ]
    )
    best = np.argmin(logs, axis=0)
    return budgets, np.exp(np.min(logs, axis=0)), members[best]
