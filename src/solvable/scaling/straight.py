"""Where data in one resource are a straight line on logarithmic axes, and how steep they are."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from . import _table
from ._inference import adjusted, summed

_ENDS = 40  # places where a window may begin or end
_FEWEST = 6  # distinct x of a window
_NEIGHBOURS = 0.3  # share of the points that a local exponent is taken from
_MANY, _BINS = 4000, 1000  # rows above which they are averaged, and into how many
_S_SHAPED = 1e-3  # so rarely is a straight line taken for an S
_EXACT = 1e-12  # residuals below it are round-off


@dataclass(frozen=True)
class Window:
    """The longest range in which a pure power law is not rejected.

    Attributes:
        low, high: its ends; equal where every range is rejected.
        exponent: of ``y ∝ x^-exponent`` in it, and
        exponent_low, exponent_high: its interval.
        points: rows in it.
        p_value: of the test against a quadratic.
    """

    low: float
    high: float
    exponent: float
    exponent_low: float
    exponent_high: float
    points: int
    p_value: float

    @property
    def decades(self) -> float:
        """How long it is."""
        return float(np.log10(self.high / self.low))


@dataclass(frozen=True)
class LocalExponent:
    """``−d log y/d log x`` along the data.

    Attributes:
        x: where.
        exponent: there, and
        low, high: its band.
    """

    x: np.ndarray
    exponent: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class _Line:
    """A weighted fit of a polynomial: coefficients, standard errors, degrees of freedom."""

    coefficients: np.ndarray
    errors: np.ndarray
    degrees: int


def power_window(
    x: Any, y: Any, *, group: Any = None, significance: float = 0.05, level: float = 0.95
) -> Window:
    """The longest range of x in which a pure power law ``y ∝ x^-a`` is not rejected.

    In every range log y is fitted by a quadratic in log x; the power law is rejected where the
    quadratic's coefficient is not 0: F(1, n − 3), and with groups F(1, G − 1) of its CR2 variance.
    An S, of which a quadratic sees nothing, is rejected where a cubic's last coefficient is not 0
    at 0.1 %.

    Args:
        x: the resource, positive.
        y: positive; what a law leaves for ever should be taken off before.
        group: labels of rows that share a run's own noise.
        significance: a range is rejected below this p-value.
        level: of the exponent's interval.

    >>> x = np.geomspace(1.0, 1e6, 61)
    >>> noise = 0.01 * np.random.default_rng(0).standard_normal(61)
    >>> window = power_window(x, (1.0 + 0.03 * x) ** -0.5 * np.exp(noise))
    >>> 300 < window.low < 3e3, window.high > 3e5, abs(window.exponent - 0.5) < 0.005
    (True, True, True)
    """
    u, v, groups = _rows(x, y, group)
    significance = _table.number("significance", significance, 0.0, 1.0)
    level = _table.number("level", level, 0.0, 1.0)
    ends = np.unique(u)
    if len(ends) > _ENDS:
        ends = ends[np.unique(np.linspace(0, len(ends) - 1, _ENDS).round().astype(int))]
    pairs = [(a, b) for k, a in enumerate(ends) for b in ends[k + 1 :]]
    pairs.sort(key=lambda pair: pair[0] - pair[1])
    for a, b in pairs:
        inside = (u >= a) & (u <= b)
        if len(np.unique(u[inside])) < _FEWEST:
            continue
        bent = _polynomial(u, v, groups, inside, 2)
        if bent is None:
            continue
        p = float(2.0 * stats.t.sf(abs(bent.coefficients[2]) / bent.errors[2], bent.degrees))
        line = _polynomial(u, v, groups, inside, 1)
        if p >= significance and line is not None and not _is_s_shaped(u, v, groups, inside):
            reach = stats.t.ppf(0.5 + 0.5 * level, line.degrees) * line.errors[1]
            steep = -line.coefficients[1]
            low = -np.inf if a == ends[0] else a - 1e-12
            high = np.inf if b == ends[-1] else b + 1e-12
            logs = np.sort(np.log(np.asarray(x, float)))
            rows = np.exp(logs[(logs >= low) & (logs <= high)])
            return Window(
                low=float(rows[0]),
                high=float(rows[-1]),
                exponent=float(steep),
                exponent_low=float(steep - reach),
                exponent_high=float(steep + reach),
                points=len(rows),
                p_value=p,
            )
    middle = float(np.exp(np.median(u)))
    return Window(middle, middle, np.nan, -np.inf, np.inf, 0, 0.0)


def _is_s_shaped(
    u: np.ndarray, v: np.ndarray, groups: np.ndarray | None, inside: np.ndarray
) -> bool:
    """Whether a cubic is plainly better: bent one way and back, which no quadratic sees."""
    cubic = _polynomial(u, v, groups, inside, 3)
    if cubic is None:
        return False
    p = 2.0 * stats.t.sf(abs(cubic.coefficients[3]) / cubic.errors[3], cubic.degrees)
    return bool(p < _S_SHAPED)


def local_exponent(
    x: Any,
    y: Any,
    *,
    group: Any = None,
    at: Any = None,
    share: float = _NEIGHBOURS,
    level: float = 0.95,
) -> LocalExponent:
    """The local exponent ``−d log y/d log x`` and its band.

    The slope of a quadratic in log x through the nearest points, which weigh less the farther they
    are (tricube). The band is that of the noise: where the curve bends within so few points that a
    quadratic cannot follow, the exponent is smoothed, and the band does not say by how much.

    Args:
        x, y: positive.
        group: labels of rows that share a run's own noise.
        at: where, 41 places along the data unless given.
        share: of the points that are near.
        level: of the band.

    >>> x = np.geomspace(1.0, 1e4, 50)
    >>> local = local_exponent(x, x**-0.4, at=[10.0, 100.0])
    >>> local.exponent.round(6).tolist()
    [0.4, 0.4]
    """
    u, v, groups = _rows(x, y, group)
    share = _table.number("share", share, 0.0, np.inf)
    level = _table.number("level", level, 0.0, 1.0)
    if at is None:
        places = np.exp(np.linspace(u.min(), u.max(), 41))
    else:
        places = _table.positive("at", np.atleast_1d(at))
    count = min(len(u), max(round(share * len(u)), 8))
    rows = np.full((3, len(places)), np.nan)
    for k, place in enumerate(np.log(places)):
        distance = np.abs(u - place)
        reach = np.sort(distance)[count - 1] * (1.0 + 1e-9)
        # At least six different x, or there is no quadratic.
        different = np.unique(distance.round(12))
        reach = max(reach, 1.0001 * different[min(_FEWEST, len(different) - 1)], 1e-12)
        weights = np.clip(1.0 - (distance / reach) ** 3, 0.0, 1.0) ** 3
        found = _polynomial(u, v, groups, weights > 0.0, 2, weights, place)
        if found is None:
            rows[:, k] = np.nan, -np.inf, np.inf
            continue
        slope = -found.coefficients[1]
        half = stats.t.ppf(0.5 + 0.5 * level, found.degrees) * found.errors[1]
        rows[:, k] = slope, slope - half, slope + half
    return LocalExponent(places, *rows)


def _rows(x: Any, y: Any, group: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Logarithms of x and y, and groups by number."""
    u, v = np.log(_table.positive("x", x)), np.log(_table.positive("y", y))
    groups = None if group is None else _table.numbered(group)
    _table.same_length({"x": u, "y": v} | ({} if groups is None else {"group": groups}))
    if len(np.unique(u)) < _FEWEST:
        raise ValueError(
            f"x must hold at least {_FEWEST} different numbers, not {len(np.unique(u))}"
        )
    if groups is None and len(u) > _MANY:
        # Means of neighbours, equally many: noise of one size again, and no bend lost.
        order = np.argsort(u, kind="stable")[: len(u) // _BINS * _BINS]
        return u[order].reshape(_BINS, -1).mean(1), v[order].reshape(_BINS, -1).mean(1), None
    return u, v, groups


def _polynomial(
    u: np.ndarray,
    v: np.ndarray,
    groups: np.ndarray | None,
    inside: np.ndarray,
    degree: int,
    weights: np.ndarray | None = None,
    center: float | None = None,
) -> _Line | None:
    """A polynomial in log x through the rows inside; None where they are too few."""
    u, v = u[inside], v[inside]
    root = np.ones(len(u)) if weights is None else np.sqrt(weights[inside])
    center = float(np.mean(u)) if center is None else center
    scale = max(float(np.max(np.abs(u - center))), 1e-300)
    columns = ((u - center) / scale)[:, None] ** np.arange(degree + 1.0) * root[:, None]
    left, sizes, right = np.linalg.svd(columns, full_matrices=False)
    degrees, inner = len(u) - degree - 1, None
    if groups is not None:
        inner = np.unique(groups[inside], return_inverse=True)[1]
        degrees = min(degrees, int(inner.max()))
    if degrees < 1 or sizes[-1] < 1e-10 * sizes[0]:
        return None
    inverse = right.T / sizes
    solution = inverse @ (left.T @ (root * v))
    residual = root * v - columns @ solution
    if inner is None:
        # Weighted rows have the noise of one row each: the sandwich, with what it leaves of it.
        hat = np.sum(left**2, axis=1)
        variance = max(float(np.sum(residual**2) / np.sum(root**2 * (1.0 - hat))), _EXACT**2)
        middle = left.T @ (left * (root**2)[:, None]) * variance
    else:
        scores = summed(left * adjusted(left, residual, inner)[:, None], inner)
        middle = scores.T @ scores + _EXACT**2 * np.eye(degree + 1)
    errors = np.sqrt(np.diag(inverse @ middle @ inverse.T))
    powers = scale ** np.arange(degree + 1.0)
    return _Line(solution / powers, errors / powers, degrees)
