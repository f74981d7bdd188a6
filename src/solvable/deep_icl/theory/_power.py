"""Powers that neither overflow nor lose digits: what L steps of descent leave of a direction."""

from typing import Any

import numpy as np

from ...numerics.host import unpacked


def log_left(load: Any, depth: Any) -> tuple[Any, Any]:
    """``log |(1 − x/L)^L|`` and its sign, for x = γλ; ``−x`` and 1 at infinite depth.

    Args:
        load: x = γλ.
        depth: L, of the same shape, or of one to which it is broadcast; may be infinite.
    """
    xp, load, depth = unpacked(load, depth)
    endless = xp.isinf(depth)
    layers = xp.where(endless, 1.0, depth)
    with np.errstate(invalid="ignore", over="ignore"):  # what has diverged is no number
        part = xp.where(endless, 0.5, load / layers)
        rest = 1.0 - part
        # log1p keeps the digits of small parts; past 1 it is the distance that counts.
        near = xp.log1p(-xp.where(part < 1.0, part, 0.5))
        far = xp.log(xp.where(part > 1.0, part - 1.0, 1.0))
        log = layers * xp.where(part < 1.0, near, far)
        log = xp.where(rest == 0.0, -xp.inf, log)
        odd = xp.where(layers % 2.0 == 1.0, -1.0, 1.0)
        sign = xp.where((rest < 0.0) & ~endless, odd, 1.0)
        log = xp.where(endless, -load, log)
        return xp.where(xp.isnan(load), xp.nan, log), sign


def squared(log: Any) -> Any:
    """``(1 − x/L)^(2L)``."""
    xp, log = unpacked(log)
    with np.errstate(over="ignore"):
        return xp.exp(2.0 * log)


def gone(log: Any, sign: Any) -> Any:
    """``1 − (1 − x/L)^L``, without cancellation for small x."""
    xp, log, sign = unpacked(log, sign)
    with np.errstate(over="ignore"):
        return xp.where(sign > 0.0, -xp.expm1(log), 1.0 + xp.exp(log))
