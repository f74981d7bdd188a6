"""What order zero conserves: gh (38) and the parts across (1, Λ) (120), and how they move."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.integrate import simpson

from ._formulas import flow, theorem

Pair = tuple[np.ndarray, np.ndarray]


def parts_across(v: np.ndarray, w: np.ndarray, strength: float) -> np.ndarray:
    """Λx_s − x_{S+1} of v + w and v − w, on a first axis."""
    return np.stack([strength * x[..., 0] - x[..., 1] for x in (v + w, v - w)])


def gh(v: np.ndarray, w: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """The product gh, with the g and h of a matrix H."""
    g, h = (np.sum(x * (x @ matrix), axis=-1) for x in (v + w, v - w))
    return g * h


def moved(path: Callable[[float], Pair], times: Any, matrix: np.ndarray, lam: float) -> Pair:
    """The largest changes of gh, relative, and of the parts across, over the start's size."""
    v, w = path(0.0)
    first, parts = gh(v, w, matrix), parts_across(v, w, lam)
    size = np.sqrt(np.sum(v**2 + w**2, axis=-1))
    ends = [path(t) for t in times]
    products = np.max([np.abs(gh(end[0], end[1], matrix) / first - 1.0) for end in ends], axis=0)
    changes = np.max(
        [np.abs(parts_across(end[0], end[1], lam) - parts) / size for end in ends], axis=0
    )
    return products, changes.max(axis=0)


def solved(matrix: np.ndarray, start: np.ndarray, lam: float) -> Callable[[float], Pair]:
    """Where all starts are at a time, by an ODE solver."""

    def path(t: float) -> Pair:
        ends = [flow(matrix, v, w, lam, t) for v, w in start.swapaxes(0, 1)]
        v, w = np.stack(ends, axis=1)
        return v, w

    return path


def descended(matrix: np.ndarray, start: np.ndarray, lam: float, lr: float, steps: int) -> Pair:
    """Where gradient descent leads from all starts: v and w."""
    v, w = start
    for _ in range(steps):
        step = lr * (np.sum(v * (w @ matrix), axis=-1) - lam)[:, None]
        v, w = v - step * (w @ matrix), w - step * (v @ matrix)
    return v, w


def excess_of(matrix: np.ndarray, start: np.ndarray, lam: float, until: float) -> np.ndarray:
    """∫(f − Λ)² dt of the flow from each start, by Theorem 3.1."""
    t = np.linspace(0.0, until, 4001)
    rate = float(np.trace(matrix))  # of H² = aH
    v, w = start
    first = np.sum(v * (w @ matrix), axis=-1)
    curves = [
        theorem(t, lam, rate=rate, f0=float(f0), c=float(c) / 2.0)
        for f0, c in zip(first, gh(v, w, matrix), strict=True)
    ]
    return np.asarray(simpson((np.asarray(curves) - lam) ** 2, x=t))
