"""From data to the minimum: projection, polish, and Huber's scale."""

import math

import numpy as np

from ._inference import Minimum
from ._polish import CLOSE, Polished, polished
from ._problem import Problem
from ._projection import projected

NORMAL = 1.4826  # of the median absolute deviation: the standard deviation of normal noise
HUBER = 1.345  # standard deviations: 95 % efficient for normal noise
_EXACT = 1e-9  # residuals below it are round-off or rounded data, and there are no outliers
_BOUND = 1e-9
_TRIAL, _FINALISTS = 20, 8  # steps from many starts, and how many of them go on to the end


def minimum_of(
    problem: Problem, loss: str, scale: float | None, starts: np.ndarray | None = None
) -> Minimum:
    """The minimum of a problem's loss.

    Args:
        problem: the law and the data.
        loss: "squares" or "huber".
        scale: of Huber's loss; None for 1.345 standard deviations of a first robust fit.
        starts: rows of parameters to start from instead of the law's own.
    """
    own = problem.law.starts(problem.x)
    if starts is None:
        begin = projected(problem, own)
        found = _best(problem, problem.coordinates(begin), math.inf)
    else:
        begin = projected(problem, starts)
        found = _best(problem, problem.coordinates(begin), math.inf)
        if not (found.converged[0] and minimum_at(problem, found, math.inf).is_inside):
            # A start that leads to a bound is not trusted.
            begin = np.concatenate([begin, projected(problem, own)])
            found = _best(problem, problem.coordinates(begin), math.inf)
    if loss == "huber":
        rounds = [scale] if scale is not None else [None, None]
        for given in rounds:
            width = given if given is not None else _scale(problem, found.coordinates[0])
            # Least squares may have been led astray by outliers: the other starts have a say too.
            begin = np.concatenate([found.coordinates, problem.coordinates(begin)])
            found, scale = _best(problem, begin, width), width
            begin = problem.values(found.coordinates)
    return minimum_at(problem, found, scale or math.inf)


def minimum_at(problem: Problem, found: Polished, scale: float) -> Minimum:
    """The first minimum found, with what is at a bound told from what can move."""
    low, high = problem.limits
    coordinates, converged = found.coordinates[0], bool(found.converged[0])
    room = _BOUND * np.maximum(1.0, np.abs(coordinates))
    at_bound = (coordinates <= low + room) | (coordinates >= high - room)
    return Minimum(problem, coordinates, scale, converged, problem.free & ~at_bound)


def refitted(
    problem: Problem, log_y: np.ndarray, begin: np.ndarray, scale: float, close: float = CLOSE
) -> Polished:
    """The minima of many data sets over the same points, all from one start."""
    starts = np.repeat(begin[None], len(log_y), axis=0)
    return polished(
        lambda coordinates, rows: problem.linearised(coordinates, log_y[rows]),
        starts,
        problem.limits,
        problem.free,
        scale,
        close=close,
    )


def _best(problem: Problem, begin: np.ndarray, scale: float) -> Polished:
    """The lowest of the minima that the starts lead to."""
    if len(begin) > _FINALISTS:
        tried = lowest(problem, begin, problem.free, scale, most=_TRIAL)
        begin = tried.coordinates[np.argsort(tried.cost, kind="stable")[:_FINALISTS]]
    found = lowest(problem, begin, problem.free, scale)
    near = found.cost <= found.cost.min() * (1.0 + 1e-9) + 1e-28 * problem.size
    k = int(np.argmax(near & found.converged))  # of equal ones, one that has converged
    if not near[k]:
        k = int(np.argmin(found.cost))
    if not found.converged[k]:  # a narrow valley: on along it
        return lowest(problem, found.coordinates[k : k + 1], problem.free, scale, most=3000)
    return Polished(*(part[k : k + 1] for part in (found.coordinates, found.cost, found.converged)))


def lowest(
    problem: Problem,
    begin: np.ndarray,
    free: np.ndarray,
    scale: float,
    most: int = 200,
    close: float = CLOSE,
) -> Polished:
    """The minima of one data set from many starts."""
    return polished(
        lambda coordinates, rows: problem.linearised(coordinates, problem.log_y),
        begin,
        problem.limits,
        free,
        scale,
        most,
        close,
    )


def _scale(problem: Problem, coordinates: np.ndarray) -> float:
    """1.345 robust standard deviations of the residuals; infinity where there is no noise."""
    residual = problem.linearised(coordinates[None], problem.log_y[None])[0][0]
    spread = NORMAL * float(np.median(np.abs(residual - np.median(residual))))
    return HUBER * spread if spread > _EXACT else math.inf
