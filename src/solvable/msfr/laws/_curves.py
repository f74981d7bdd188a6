"""Curves that laws of linear and of softmax attention share: tails, and sums of exponentials."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...numerics.counting import TailSum
from ...numerics.streaming import in_blocks

Curve = Callable[[np.ndarray], np.ndarray]

_PIECE = 1 << 20  # entries (terms × points) worked on at once
_EVERY = 1000  # sizes up to which every one is looked at
_SIZES = 60  # a decade, beyond


def exponentials(amounts: np.ndarray, speeds: np.ndarray) -> tuple[Curve, Curve]:
    """``L(x) = Σ_j a_j exp(−v_j x)`` and its local exponent, infinite where L has underflowed."""

    def both(x: np.ndarray) -> np.ndarray:
        with np.errstate(under="ignore", over="ignore"):
            terms = amounts[:, None] * np.exp(-speeds[:, None] * x[None, :])
            return np.stack([terms.sum(axis=0), x * (speeds @ terms)], axis=1)

    block = max(1, _PIECE // len(amounts))

    def pair(x: np.ndarray) -> np.ndarray:
        return in_blocks(both, x, block=min(block, len(x))).reshape(-1, 2).T

    def local(x: np.ndarray) -> np.ndarray:
        value, change = pair(x)
        gone = value <= 0.0
        return np.where(gone, np.inf, change / np.where(gone, 1.0, value))

    return lambda x: pair(x)[0], local


def sizes_of(tail: TailSum, last: int, shift: float, limit: float = 0.0) -> dict[str, Any]:
    """Curve, local exponent against D − shift and grid of a law in size, as `Law` takes them.

    Args:
        tail: what a model of size D leaves above the limit.
        last: S.
        shift: see `size_law`.
        limit: what no size takes off the loss.
    """
    if last < 2:
        raise ValueError(f"num_tasks must be at least 2 for a law in size, not {last}")

    def curve(size: np.ndarray) -> np.ndarray:
        return limit + tail(np.clip(np.round(size), 1, last + 1).astype(np.int64))

    def local(size: np.ndarray) -> np.ndarray:
        place = np.clip(np.round(size), 1, last).astype(np.int64)
        after, own = tail(place + 1), tail.term(place.astype(float))
        gone = (after <= 0.0) | (own <= -after)  # underflowed: it falls faster than any power
        step = np.log1p(np.where(gone, 0.0, own) / np.where(gone, 1.0, after))
        return np.where(gone, np.inf, step / np.log1p(1.0 / (place - shift)))

    def grid() -> np.ndarray:
        few = np.arange(1, min(last, _EVERY))
        many = np.geomspace(1, last - 1, int(_SIZES * math.log10(last)) + 2)
        return np.unique(np.concatenate([few, np.round(many)])).astype(float)

    return {"_curve": curve, "_local": local, "_grid": grid}
