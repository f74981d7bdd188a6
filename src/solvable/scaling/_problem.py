"""Data and a law, in the units in which a fit is well scaled."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .law import Law

SMALLEST = 1e-12  # of an amplitude, in units of the data: less is none
_FAR = 1e12  # how far from the data a scale without bound is looked for


@dataclass(frozen=True)
class Problem:
    """What is fitted: residuals ``√w (log f − log y)``.

    Columns and y are divided by their geometric means inside, so that another unit changes nothing
    but amplitudes. Coordinates are the logarithms of the law's logarithmic parameters, and the
    other parameters themselves.

    Attributes:
        law: the law.
        x: the columns, centred: (points, resources).
        log_y: log y, centred.
        root: √w of every point.
        pinned: the values held, centred; nan where free.
        factors: what the columns were divided by.
        unit: what y was divided by.
        centred: whether they were; else scales without bound have none here either.
    """

    law: Law
    x: np.ndarray
    log_y: np.ndarray
    root: np.ndarray
    pinned: np.ndarray
    factors: np.ndarray
    unit: float
    centred: bool = True

    @property
    def size(self) -> int:
        """The number of points."""
        return len(self.log_y)

    @cached_property
    def is_linear(self) -> np.ndarray:
        """Which parameters are amplitudes."""
        return np.array([name in self.law.linear for name in self.law.parameters])

    @cached_property
    def is_log(self) -> np.ndarray:
        """Which coordinates are logarithms."""
        return np.array([name in self.law.logarithmic for name in self.law.parameters])

    @cached_property
    def free(self) -> np.ndarray:
        """Which parameters are not pinned."""
        return np.isnan(self.pinned)

    @cached_property
    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """The bounds of the coordinates, wide apart but finite for logarithms."""
        low, high = np.array([self.law.bounds[name] for name in self.law.parameters], float).T
        if not self.centred:
            return self.coordinates(low), self.coordinates(high)
        least = np.where(self.is_linear, SMALLEST, 1.0 / _FAR)
        low = np.where(self.is_log & (low == 0.0), least, low)
        high = np.where(self.is_log & ~self.is_linear & np.isinf(high), _FAR, high)
        return self.coordinates(low), self.coordinates(high)

    def coordinates(self, values: np.ndarray) -> np.ndarray:
        """Values to coordinates."""
        with np.errstate(divide="ignore"):
            return np.where(self.is_log, np.log(np.where(self.is_log, values, 1.0)), values)

    def values(self, coordinates: np.ndarray) -> np.ndarray:
        """Coordinates to values."""
        with np.errstate(over="ignore"):  # a step too far, which is not taken
            return np.where(
                self.is_log, np.exp(np.where(self.is_log, coordinates, 0.0)), coordinates
            )

    def linearised(
        self, coordinates: np.ndarray, log_y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Residuals (rows, points) and their Jacobian (rows, points, parameters).

        Where the curve is not positive the residuals are infinite, and the step is not taken.
        """
        values = self.values(coordinates)
        with np.errstate(all="ignore"):
            slopes = self.law.slopes(values, self.x)
            if self.law.linear:  # homogeneous in them, so that Euler's theorem gives the curve
                amplitudes = np.where(self.is_linear, values, 0.0)
                curve = np.matmul(slopes, amplitudes[..., None])[..., 0]
            else:
                curve = self.law.curve(values, self.x)
            bad = ~(np.isfinite(curve) & (curve > 0.0))
            residual = np.where(bad, np.inf, np.log(np.where(bad, 1.0, curve)) - log_y) * self.root
            slopes = slopes * np.where(self.is_log, values, 1.0)[..., None, :]
            jacobian = slopes * (self.root / np.where(bad, 1.0, curve))[..., None]
        return residual, np.where(np.isfinite(jacobian), jacobian, 0.0)

    def original(self, values: np.ndarray) -> np.ndarray:
        """Centred values in the units of the data."""
        with np.errstate(over="ignore", under="ignore"):
            moved = self.law.rescaled(values, self.factors)
            return np.where(self.is_linear, moved * self.unit, moved)


def centred(
    law: Law, x: np.ndarray, y: np.ndarray, weights: np.ndarray, pinned: dict[str, float]
) -> Problem:
    """The problem of a law and data; x (points, resources) in the order of the law's resources."""
    held = np.array([pinned.get(name, np.nan) for name in law.parameters])
    factors = np.exp(np.mean(np.log(x), axis=0))
    some = law.starts(x)[0]
    # A resource of which no parameter takes the unit stays in the units that are given.
    alone = np.where(np.eye(len(factors), dtype=bool), factors, 1.0)
    with np.errstate(over="ignore", under="ignore"):
        factors = np.where([np.any(law.rescaled(some, one) != some) for one in alone], factors, 1.0)
        kept = np.all((law.rescaled(some, factors) == some) | np.isnan(held))
    if not kept:  # a pinned amplitude is one in the units that are given
        factors = np.ones_like(factors)
    unit = float(np.exp(np.mean(np.log(y)))) if law.linear else 1.0
    is_linear = np.array([name in law.linear for name in law.parameters])
    return Problem(
        law=law,
        x=x / factors,
        log_y=np.log(y) - np.log(unit),
        root=np.sqrt(weights),
        pinned=np.where(is_linear, held / unit, held),
        factors=factors,
        unit=unit,
        centred=bool(kept),
    )
