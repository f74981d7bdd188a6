"""Least squares, or Huber's loss, of many data sets at once: Levenberg–Marquardt with bounds."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

CLOSE = 1e-9  # of the residuals' length: what is left of it along the curve at a minimum
_ROUND_OFF = 1e-14  # of a residual
_LEAST = 1e-12  # damping that keeps columns alike from making a singular matrix
_STUCK = 1e12  # a damping that no step needs
_ALMOST = 1e-6  # stuck so near to the minimum is there

Linearised = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Polished:
    """Minima, one a row.

    Attributes:
        coordinates: where they are.
        cost: the loss there.
        converged: whether they are minima.
    """

    coordinates: np.ndarray
    cost: np.ndarray
    converged: np.ndarray


def huber(residual: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """ρ summed over the last axis, ρ′ and ρ″; an infinite scale is least squares."""
    size = np.abs(residual)
    inside = size <= scale
    if scale == np.inf:
        return np.asarray(0.5 * np.sum(size**2, axis=-1)), residual, inside.astype(float)
    terms = np.where(inside, 0.5 * size**2, scale * size - 0.5 * scale**2)
    return np.asarray(terms.sum(axis=-1)), np.clip(residual, -scale, scale), inside.astype(float)


def polished(
    linearised: Linearised,
    begin: np.ndarray,
    limits: tuple[np.ndarray, np.ndarray],
    free: np.ndarray,
    scale: float = np.inf,
    most: int = 200,
    close: float = CLOSE,
) -> Polished:
    """Minimise every row's loss over its free coordinates within bounds.

    Args:
        linearised: (coordinates, which rows) to residuals and Jacobian.
        begin: (rows, parameters).
        limits: the lowest and the highest coordinates.
        free: which coordinates move, (parameters,) or (rows, parameters).
        scale: of Huber's loss.
        most: steps at most.
        close: what may be left of the residuals' length along the curve.
    """
    low, high = limits
    place = np.where(free, np.clip(begin, low, high), begin)
    free = np.broadcast_to(free, place.shape)
    rows = np.arange(len(place))
    converged = np.zeros(len(place), bool)
    residual, jacobian = linearised(place, rows)
    cost, push, bend = huber(residual, scale)
    final = np.where(np.isfinite(cost), cost, np.inf)
    rows = np.flatnonzero(np.isfinite(cost))  # there is no curve at the others
    jacobian, push, bend, cost = jacobian[rows], push[rows], bend[rows], cost[rows]
    damping = np.full(len(rows), 1e-3)
    floor = _ROUND_OFF**2 * residual.shape[-1]

    for _ in range(most if len(rows) else 0):
        here = place[rows]
        down = -np.einsum("bnp,bn->bp", jacobian, push)
        moving = free[rows] & ~((here <= low) & (down < 0.0)) & ~((here >= high) & (down > 0.0))
        down = np.where(moving, down, 0.0)
        curved = jacobian * bend[..., None] if scale < np.inf else jacobian
        normal = np.matmul(np.swapaxes(curved, 1, 2), jacobian)
        length = np.sqrt(np.einsum("bnp,bnp->bp", jacobian, jacobian))
        length = np.where(moving & (length > 0.0), length, 1.0)
        normal = normal / (length[:, :, None] * length[:, None, :])
        both = moving[:, :, None] & moving[:, None, :]
        normal = np.where(both, normal, 0.0)
        diagonal = np.arange(place.shape[1])
        normal[:, diagonal, diagonal] += damping[:, None] + ~moving
        step = np.linalg.solve(normal, (down / length)[..., None])[..., 0] / length
        left = np.einsum("bp,bp->b", down, step)  # what the step gains, twice
        near = close**2 * 2.0 * cost + floor
        done = (left <= near) & (damping <= 1e-2)
        trial = np.clip(here + step, low, high)
        trial = np.where(free[rows], trial, here)
        new_residual, new_jacobian = linearised(trial, rows)
        new_cost, new_push, new_bend = huber(new_residual, scale)
        better = new_cost < cost
        place[rows[better]] = trial[better]
        final[rows[better]] = new_cost[better]
        jacobian = np.where(better[:, None, None], new_jacobian, jacobian)
        push = np.where(better[:, None], new_push, push)
        bend = np.where(better[:, None], new_bend, bend)
        cost = np.where(better, new_cost, cost)
        less, more = np.maximum(0.1 * damping, _LEAST), 8.0 * np.maximum(damping, 1e-9)
        damping = np.where(better, less, more)
        stuck = damping > _STUCK
        done |= stuck & (left * damping <= _ALMOST**2 * 2.0 * cost + floor)
        converged[rows[done]] = True
        keep = ~(done | stuck)
        if not keep.any():
            break
        if not keep.all():
            rows, jacobian, push, bend = rows[keep], jacobian[keep], push[keep], bend[keep]
            cost, damping = cost[keep], damping[keep]
    return Polished(place, final, converged & np.isfinite(final))
