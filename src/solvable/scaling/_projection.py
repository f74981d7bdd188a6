"""Variable projection: amplitudes solved for, exponents searched."""

import numpy as np
from scipy.optimize import least_squares, nnls

from ._problem import Problem

_FOLLOWED = 2  # of the places searched first, how many are followed to their minimum
_KEPT = 40  # how many more are kept where more than two parameters are searched


def projected(problem: Problem, starts: np.ndarray) -> np.ndarray:
    """Good values to polish: minima of ``f/y − 1`` in least squares: (rows, parameters).

    In more than two dimensions there are often several minima, and where y spans decades other ones
    than those of log f − log y: there, the starts with the least of that are kept as well.

    Args:
        problem: the law and the data.
        starts: where to look, rows of all parameters.
    """
    search = _Search(problem)
    values = search.solved(search.distinct(starts))
    order = np.argsort(np.sum(search.residual(values) ** 2, axis=-1), kind="stable")
    if not search.moving.any():
        return values[order[:1]]
    found = [search.followed(values[k]) for k in order[:_FOLLOWED]]
    if int(search.moving.sum()) > 2:
        kept = np.argsort(search.log_costs(values), kind="stable")[:_KEPT]
        found.extend(values[kept])
    return np.array(found)


class _Search:
    def __init__(self, problem: Problem):
        self.problem = problem
        self.moving = problem.free & ~problem.is_linear
        self.solving = problem.free & problem.is_linear
        low, high = problem.limits
        # In the logarithm, where a step from 3 to 0.3 is as long as one from 0.3 to 0.03.
        self.low, self.high = problem.values(low), problem.values(high)
        self.positive = problem.is_log | (self.low > 0.0)
        self.scale = problem.root * np.exp(-problem.log_y)  # of relative residuals
        self.signed = self.low[self.solving] < 0.0
        self.known: dict[bytes, np.ndarray] = {}  # the last row asked for

    def distinct(self, starts: np.ndarray) -> np.ndarray:
        """Starts within bounds, pinned values put in, repetitions left out."""
        problem = self.problem
        rows = np.where(problem.free, starts, np.nan_to_num(problem.pinned))
        rows = np.where(self.moving, np.clip(rows, self.low, self.high), rows)
        rows = np.where(self.solving, 0.0, rows)
        return np.unique(rows, axis=0)

    def solved(self, rows: np.ndarray) -> np.ndarray:
        """Rows with their best amplitudes, none below 0 that must not be."""
        if not self.solving.any():
            return rows
        # The curves of amplitudes 1, after that of the pinned ones.
        which = np.flatnonzero(self.solving)
        parts = np.repeat(np.where(self.solving, 0.0, rows)[:, None], 1 + len(which), axis=1)
        parts[:, 1:, self.problem.is_linear] = 0.0
        parts[:, 1 + np.arange(len(which)), which] = 1.0
        with np.errstate(all="ignore"):
            curves = np.nan_to_num(self.problem.law.curve(parts, self.problem.x) * self.scale)
        full = rows.copy()
        for k, (held, *columns) in enumerate(curves):
            full[k, self.solving] = self.amplitudes(np.array(columns).T, self.problem.root - held)
        return full

    def amplitudes(self, columns: np.ndarray, target: np.ndarray) -> np.ndarray:
        """The best multiples of curves; a signed one is the difference of two."""
        both = np.concatenate([columns, -columns[:, self.signed]], axis=1)
        norms = np.linalg.norm(both, axis=0)
        norms = np.where(norms > 0.0, norms, 1.0)
        try:
            found = nnls(both / norms, target)[0] / norms
        except RuntimeError:  # does not end: a start like any other
            found = np.full(both.shape[1], 1.0 / both.shape[1])
        best = found[: columns.shape[1]].copy()
        best[self.signed] -= found[columns.shape[1] :]
        return best

    def residual(self, rows: np.ndarray) -> np.ndarray:
        """``√w (f/y − 1)``."""
        with np.errstate(all="ignore"):
            curve = self.problem.law.curve(rows, self.problem.x)
            return np.nan_to_num(curve * self.scale - self.problem.root, nan=1e6, posinf=1e6)

    def log_costs(self, rows: np.ndarray) -> np.ndarray:
        """The sum of squares of log f − log y."""
        with np.errstate(all="ignore"):
            miss = np.log(self.problem.law.curve(rows, self.problem.x)) - self.problem.log_y
        return np.nan_to_num(np.sum((self.problem.root * miss) ** 2, axis=-1), nan=np.inf)

    def at(self, row: np.ndarray, moved: np.ndarray) -> np.ndarray:
        """The row with other values of what is searched, and their best amplitudes."""
        key = moved.tobytes()
        if key not in self.known:
            full = row.copy()
            full[self.moving] = np.where(self.positive[self.moving], np.exp(moved), moved)
            self.known = {key: self.solved(full[None])[0]}
        return self.known[key]

    def jacobian(self, full: np.ndarray) -> np.ndarray:
        """Kaufman's: the slopes without their part along the basis, which amplitudes take up."""
        with np.errstate(all="ignore"):
            every = np.nan_to_num(self.problem.law.slopes(full, self.problem.x))
        slopes = every[:, self.moving] * self.scale[:, None]
        slopes = slopes * np.where(self.positive, full, 1.0)[self.moving]
        used = every[:, self.solving & (full != 0.0)] * self.scale[:, None]
        if used.shape[1]:
            q = np.linalg.qr(used / np.maximum(np.linalg.norm(used, axis=0), 1e-300))[0]
            slopes = slopes - q @ (q.T @ slopes)
        return slopes

    def searched(self, values: np.ndarray) -> np.ndarray:
        """What is searched of values: logarithms of what is positive."""
        moving, positive = values[self.moving], self.positive[self.moving]
        with np.errstate(divide="ignore"):
            return np.where(positive, np.log(np.where(positive, moving, 1.0)), moving)

    def followed(self, row: np.ndarray) -> np.ndarray:
        """The minimum that a start leads to."""
        low, high = self.searched(self.low), self.searched(self.high)
        result = least_squares(
            lambda moved: self.residual(self.at(row, moved)),
            # Not on the bound itself, from which the method cannot start.
            np.clip(self.searched(row), low + 1e-9, high - 1e-9),
            jac=lambda moved: self.jacobian(self.at(row, moved)),  # pyright: ignore[reportArgumentType]
            bounds=(low, high),
            x_scale="jac",
            xtol=1e-6,
            ftol=1e-9,
            gtol=1e-12,
            max_nfev=60,
        )
        return self.at(row, result.x)
