"""Contexts in numpy: their loss and its gradient in the matrix Γ, of many Γ at once."""

import math
from typing import Any

import numpy as np

from .. import RotatedStructure


class Contexts:
    """Contexts of a law, an axis or two of them last: Σ̂ and Xᵀy/P as Γ sees them, b, and Σ.

    ``XᵀX/P = FFᵀ`` with Bartlett's triangular F, and given X the noise in Xᵀy/P is σFz/√P.
    """

    def __init__(self, task: Any, shape: tuple[int, ...], generator: np.random.Generator):
        normal, dim, rotated = (
            generator.standard_normal,
            task.dim,
            isinstance(task, RotatedStructure),
        )
        ones = [1] * len(shape)
        if rotated:
            self.lam = np.asarray(task.lam).reshape(-1, *ones)
            self.b = np.sqrt(np.asarray(task.omega)).reshape(-1, *ones) * np.ones(shape)
            factor, left = np.diag(np.sqrt(task.lam)).reshape(dim, dim, *ones), 0.0
        else:
            self.lam, self.b = np.ones((dim, *ones)), normal((dim, *shape)) / math.sqrt(dim)
            factor = np.zeros((dim, dim, *shape))
            for i in range(dim):
                factor[i, :i] = normal((i, *shape))
                factor[i, i] = np.sqrt(generator.chisquare(task.context - i, shape))
            factor /= math.sqrt(task.context)
            left = float(task.noise) / math.sqrt(task.context) * normal((dim, *shape))
        left = left + np.einsum("ij...,i...->j...", factor, self.b)
        self.frame = _frames(dim, task.width, shape, generator) if rotated else None
        if self.frame is not None:
            factor = np.einsum("ij...,ik...->jk...", self.frame, factor)
        self.moment = np.einsum("ik...,jk...->ij...", factor, factor)
        self.seen = _times(factor, left)

    def missed(self, gamma: np.ndarray, depth: int) -> tuple[np.ndarray, list[np.ndarray]]:
        """The error v after the layers, and what each of them was given."""
        w, given = np.zeros_like(self.seen), []
        for _ in range(depth):
            given.append(self.seen - _times(self.moment, w))
            w = w + np.einsum("ijr,jbr->ibr", gamma, given[-1]) / depth
        return self.b - (w if self.frame is None else _times(self.frame, w)), given

    def loss(self, gamma: np.ndarray, depth: int) -> np.ndarray:
        """``vᵀΣv`` in every context."""
        return np.sum(self.lam * self.missed(gamma, depth)[0] ** 2, axis=0)

    def slope(self, gamma: np.ndarray, depth: int) -> np.ndarray:
        """Its gradient in Γ, back through the layers, the mean over contexts."""
        v, given = self.missed(gamma, depth)
        back, found = -2.0 * self.lam * v, np.zeros(())
        if self.frame is not None:
            back = np.einsum("ij...,i...->j...", self.frame, back)
        for one in given[::-1]:
            found = found + np.einsum("ibr,jbr->ijr", back, one) / depth / v.shape[1]
            back = back - _times(self.moment, np.einsum("jir,jbr->ibr", gamma, back)) / depth
        return found


def _frames(dim: int, width: int, shape: tuple[int, ...], generator: np.random.Generator) -> Any:
    """√(D/N) times N random orthonormal columns each, by Gram and Schmidt."""
    found = generator.standard_normal((dim, width, *shape))
    for j in range(width):
        for i in range(j):
            found[:, j] -= np.sum(found[:, i] * found[:, j], axis=0) * found[:, i]
        found[:, j] /= np.sqrt(np.sum(found[:, j] ** 2, axis=0))
    return found * math.sqrt(dim / width)


def _times(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return np.einsum("ij...,j...->i...", matrix, vector)


def parts_of(change: np.ndarray) -> list[np.ndarray]:
    """|·|² of the trace of matrices, the rest of their symmetric part, their antisymmetric part."""
    back = np.swapaxes(change, 0, 1)
    trace = np.einsum("iir->r", change) ** 2 / len(change)
    both = (np.sum((change + sign * back) ** 2, axis=(0, 1)) / 4.0 for sign in (1.0, -1.0))
    symmetric, antisymmetric = both
    return [trace, symmetric - trace, antisymmetric]
