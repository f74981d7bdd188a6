"""How sure the coordinates of a minimum are: covariances for independent and for grouped noise."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ._polish import huber
from ._problem import Problem

_LOST = 1e-10  # of the largest singular value: a direction that the data do not see
_BLIND = 1e6  # the standard error that stands for such a direction


@dataclass(frozen=True)
class Minimum:
    """A minimum of a problem.

    Attributes:
        problem: the law and the data.
        coordinates: where it is.
        scale: of Huber's loss, infinity for least squares.
        converged: whether it is one.
        moving: which coordinates are neither pinned nor at a bound.
    """

    problem: Problem
    coordinates: np.ndarray
    scale: float
    converged: bool
    moving: np.ndarray

    @property
    def is_inside(self) -> bool:
        """Whether nothing that is free is at a bound."""
        return bool(np.all(self.moving == self.problem.free))

    @cached_property
    def linear(self) -> tuple[np.ndarray, np.ndarray]:
        """Residuals, and their Jacobian in the moving coordinates."""
        problem = self.problem
        residual, jacobian = problem.linearised(self.coordinates[None], problem.log_y[None])
        return residual[0], jacobian[0][:, self.moving]

    @property
    def degrees(self) -> int:
        """Points less moving coordinates, n − p."""
        return self.problem.size - int(self.moving.sum())

    @cached_property
    def decomposition(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The lengths of the Jacobian's columns, and the SVD of the columns at length 1."""
        jacobian = self.linear[1]
        length = np.linalg.norm(jacobian, axis=0)
        # What is below this is round-off, of a column that does not vary.
        faint = _LOST * np.linalg.norm(self.problem.root)
        jacobian = np.where(length > faint, jacobian, 0.0)
        length = np.where(length > faint, length, 1.0)
        left, sizes, right = np.linalg.svd(jacobian / length, full_matrices=False)
        return length, left, sizes, right

    @property
    def condition(self) -> float:
        """The condition number of the Jacobian with columns of one length."""
        sizes = self.decomposition[2]
        if len(sizes) == 0:
            return 1.0
        return float(sizes[0] / sizes[-1]) if sizes[-1] > 0.0 else np.inf

    @cached_property
    def seen(self) -> np.ndarray:
        """Which directions of the SVD the data see."""
        sizes = self.decomposition[2]
        return sizes > _LOST * sizes[0] if len(sizes) else np.zeros(0, bool)

    @cached_property
    def leverage(self) -> np.ndarray:
        """The diagonal of the hat matrix."""
        return np.sum(self.decomposition[1][:, self.seen] ** 2, axis=1)

    @cached_property
    def push(self) -> tuple[np.ndarray, float]:
        """ρ′ of the residuals, and the mean of ρ″."""
        _, push, bend = huber(self.linear[0], self.scale)
        return push, float(np.mean(bend))

    @property
    def variance(self) -> float:
        """``Σ ρ′²/(n − p)``, the residuals' variance for least squares."""
        return float(np.sum(self.push[0] ** 2) / self.degrees)

    @property
    def inverse(self) -> np.ndarray:
        """``V S⁻¹`` in the directions that are seen: moving coordinates by those directions."""
        length, _, sizes, right = self.decomposition
        return right.T[:, self.seen] / sizes[self.seen] / length[:, None]

    def _spread(self, middle: np.ndarray) -> np.ndarray:
        """``V S⁻¹ M S⁻¹ Vᵀ`` in all moving coordinates; unseen directions are told by `_BLIND`."""
        length, _, _, right = self.decomposition
        blind = right.T[:, ~self.seen] * _BLIND / length[:, None]
        return self.inverse @ middle @ self.inverse.T + blind @ blind.T

    def covariance(self) -> np.ndarray:
        """``RSS/(n−p) (JᵀJ)⁻¹``; for Huber's loss with his correction for what is cut off.

        Reference: Huber, Robust Statistics (1981), eq. (6.6.1) of section 7.6.
        """
        _, inside = self.push
        p = int(self.moving.sum())
        cut = 1.0 + p / self.problem.size * (1.0 - inside) / inside if inside < 1.0 else 1.0
        factor = cut**2 * self.variance / inside**2
        return self._spread(factor * np.eye(int(self.seen.sum())))

    def clustered(self, groups: np.ndarray) -> np.ndarray:
        """CR2: ``(JᵀJ)⁻¹ Σ_g J_gᵀ A_g e_g e_gᵀ A_g J_g (JᵀJ)⁻¹``, ``A_g = (I − H_gg)^-½``.

        Args:
            groups: the number of every point's group, from 0.

        Reference: Bell and McCaffrey (2002).
        """
        left = self.decomposition[1][:, self.seen]
        scores = summed(left * adjusted(left, self.push[0], groups)[:, None], groups)
        return self._spread(scores.T @ scores / self.push[1] ** 2)


def summed(rows: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """The sum of every group's rows."""
    total = np.zeros((int(groups.max()) + 1, rows.shape[1]))
    np.add.at(total, groups, rows)
    return total


def adjusted(basis: np.ndarray, residual: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """``A_g e_g``: residuals made as large as the noise, a group at a time.

    Args:
        basis: Q, orthonormal columns that span the Jacobian's.
        residual: e.
        groups: the number of every point's group.
    """
    grown = np.empty_like(residual)
    order = np.argsort(groups, kind="stable")
    for members in np.split(order, np.cumsum(np.bincount(groups))[:-1]):
        # (I − QQᵀ)^-½ through its few directions: I + U ((1 − s²)^-½ − 1) Uᵀ, Q = U S Vᵀ.
        u, s, _ = np.linalg.svd(basis[members], full_matrices=False)
        rest = 1.0 - s**2
        factor = np.where(rest > 1e-10, 1.0 / np.sqrt(np.maximum(rest, 1e-10)), 0.0)
        e = residual[members]
        grown[members] = e + u @ ((factor - 1.0) * (u.T @ e))
    return grown


def turned(minimum: Minimum) -> np.ndarray:
    """How coordinates in the units of the data move with the moving ones: (all, moving)."""
    h = 1e-4  # amplitudes in logarithms move linearly: any step does
    columns = []
    for k in np.flatnonzero(minimum.moving):
        shift = h * (np.arange(len(minimum.coordinates)) == k)
        up = in_data_units(minimum, minimum.coordinates + shift)
        down = in_data_units(minimum, minimum.coordinates - shift)
        with np.errstate(invalid="ignore"):  # what is pinned at 0 has the logarithm −∞
            columns.append(np.nan_to_num((up - down) / (2.0 * h)))
    return np.stack(columns, axis=1) if columns else np.zeros((len(minimum.coordinates), 0))


def in_data_units(minimum: Minimum, coordinates: np.ndarray) -> np.ndarray:
    """Coordinates, in the units of the data."""
    problem = minimum.problem
    return problem.coordinates(problem.original(problem.values(coordinates)))


def to_original(minimum: Minimum, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates and their covariance in the units of the data; 0 where nothing moves."""
    turn = turned(minimum)
    return in_data_units(minimum, minimum.coordinates), turn @ covariance @ turn.T
