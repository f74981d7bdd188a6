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
    starts = search.distinct(starts)
    values = np.array([search.solved(row) for row in starts])
    order = np.argsort([search.cost(row) for row in values], kind="stable")
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

    def distinct(self, starts: np.ndarray) -> np.ndarray:
        """Starts within bounds, pinned values put in, repetitions left out."""
        problem = self.problem
        rows = np.where(problem.free, starts, np.nan_to_num(problem.pinned))
        rows = np.where(self.moving, np.clip(rows, self.low, self.high), rows)
        rows = np.where(self.solving, 0.0, rows)
        return np.unique(rows, axis=0)

    def basis(self, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The curves of amplitudes 1, and what pinned amplitudes leave to be fitted."""
        problem, which = self.problem, np.flatnonzero(self.solving)
        rest = np.where(self.solving, 0.0, row)
        alone = np.where(problem.is_linear, 0.0, row)
        ones = np.repeat(alone[None, :], len(which), axis=0)
        ones[np.arange(len(which)), which] = 1.0
        with np.errstate(all="ignore"):
            columns = problem.law.curve(ones, problem.x) * self.scale
            held = problem.law.curve(rest, problem.x) * self.scale
        return np.nan_to_num(columns.T), problem.root - np.nan_to_num(held)

    def solved(self, row: np.ndarray) -> np.ndarray:
        """The row with its best amplitudes, none below 0 that must not be."""
        if not self.solving.any():
            return row
        columns, target = self.basis(row)
        # Not negative: a signed amplitude is the difference of two.
        both = np.concatenate([columns, -columns[:, self.signed]], axis=1)
        norms = np.linalg.norm(both, axis=0)
        norms = np.where(norms > 0.0, norms, 1.0)
        try:
            found = nnls(both / norms, target)[0] / norms
        except RuntimeError:  # does not end: a start like any other
            found = np.full(both.shape[1], 1.0 / both.shape[1])
        amplitudes = found[: columns.shape[1]].copy()
        amplitudes[self.signed] -= found[columns.shape[1] :]
        full = row.copy()
        full[self.solving] = amplitudes
        return full

    def residual(self, row: np.ndarray) -> np.ndarray:
        """``√w (f/y − 1)``."""
        with np.errstate(all="ignore"):
            curve = self.problem.law.curve(row, self.problem.x)
            return np.nan_to_num(curve * self.scale - self.problem.root, nan=1e6, posinf=1e6)

    def cost(self, row: np.ndarray) -> float:
        """Half the sum of squares."""
        return 0.5 * float(np.sum(self.residual(row) ** 2))

    def log_costs(self, rows: np.ndarray) -> np.ndarray:
        """The sum of squares of log f − log y."""
        with np.errstate(all="ignore"):
            miss = np.log(self.problem.law.curve(rows, self.problem.x)) - self.problem.log_y
        return np.nan_to_num(np.sum((self.problem.root * miss) ** 2, axis=-1), nan=np.inf)

    def followed(self, row: np.ndarray) -> np.ndarray:
        """The minimum that a start leads to."""
        known: dict[bytes, np.ndarray] = {}

        def at(moved: np.ndarray) -> np.ndarray:
            key = moved.tobytes()
            if key not in known:
                full = row.copy()
                full[self.moving] = np.where(self.positive[self.moving], np.exp(moved), moved)
                known.clear()
                known[key] = self.solved(full)
            return known[key]

        def jacobian(moved: np.ndarray) -> np.ndarray:
            # Kaufman: the slopes without their part along the basis, which amplitudes take up.
            full = at(moved)
            with np.errstate(all="ignore"):
                slopes = self.problem.law.slopes(full, self.problem.x)[:, self.moving]
            slopes = np.nan_to_num(slopes) * self.scale[:, None]
            slopes = slopes * np.where(self.positive, full, 1.0)[self.moving]
            used = self.basis(full)[0][:, full[self.solving] != 0.0]
            if used.shape[1]:
                q = np.linalg.qr(used / np.maximum(np.linalg.norm(used, axis=0), 1e-300))[0]
                slopes = slopes - q @ (q.T @ slopes)
            return slopes

        def inside(values: np.ndarray) -> np.ndarray:
            moving, positive = values[self.moving], self.positive[self.moving]
            with np.errstate(divide="ignore"):
                return np.where(positive, np.log(np.where(positive, moving, 1.0)), moving)

        low, high = inside(self.low), inside(self.high)
        # Not on the bound itself, from which the method below cannot start.
        begin = np.clip(inside(row), low + 1e-9, high - 1e-9)
        result = least_squares(
            lambda moved: self.residual(at(moved)),
            begin,
            jac=jacobian,  # pyright: ignore[reportArgumentType]
            bounds=(low, high),
            x_scale="jac",
            xtol=1e-6,
            ftol=1e-9,
            gtol=1e-12,
            max_nfev=60,
        )
        return at(result.x)
