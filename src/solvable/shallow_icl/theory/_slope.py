"""All moving weights of attention in one vector: its slope on the population, and its loss."""

import numpy as np

from ...numerics.host import unpacked
from ._population import Population

Weights = dict[str, np.ndarray]

_FAR = 1e-3  # of the size of all weights


class Slope:
    r"""``τ Ẇ = −½ ∂L/∂W`` of every head with zero blocks, in the eigenbasis of Λ.

    ``L = L* + (1/D_y) Σ_op tr((M_op − δ_op M*)ᵀ gram (M_op − δ_op M*) Λ)``,
    ``M_op = Σ_i V_i[o, p] U_i`` with ``U_i = K_iᵀ Q_i`` where key and query are separate.
    """

    def __init__(self, moments: Population, weights: Weights):
        """From the moments and the weights at the start, in numpy."""
        _, moments = unpacked(moments)
        self.floor, self.power = float(moments.floor), float(moments.power)
        self.spectrum, self.gram = moments.spectrum, moments.gram
        self.heads, self.outputs = weights["value"].shape[:2]
        own = np.eye(self.outputs).ravel()
        self.target = np.multiply.outer(own, moments.best_map)
        if moments.is_diagonal:
            self.curvature = np.multiply.outer(self.gram, self.spectrum) / self.outputs
        self.shapes = {name: x.shape for name, x in weights.items()}
        self.start = np.concatenate([x.ravel() for x in weights.values()])
        self.cuts = np.cumsum([x.size for x in weights.values()])[:-1].tolist()
        if "key_query" in weights:
            self.slope, self.maps = self._merged, self._merged_maps
        elif self.outputs == 1:
            self.rank = weights["key"].shape[1]
            self.slope, self.maps = self._separate, self._separate_maps
        else:
            self.slope, self.maps = self._several, self._several_maps

    def split(self, y: np.ndarray) -> Weights:
        """The weights in a vector."""
        parts, shapes = np.split(y, self.cuts), self.shapes.items()
        return {name: x.reshape(shape) for (name, shape), x in zip(shapes, parts, strict=True)}

    def sizes(self) -> np.ndarray:
        """How large every weight is at the start: as all are, unless its kind is far smaller."""
        kinds = list(self.split(self.start).values())
        found = [float(np.abs(x).max()) for x in kinds]
        most = max(found)
        if most == 0.0:
            return np.ones_like(self.start)
        whole = most * float(np.sqrt(np.mean((self.start / most) ** 2)))
        least = min(size for size in found if size > 0.0)
        sizes = [size or least for size in found]  # zeros are driven by others
        sizes = [size if size < _FAR * whole else whole for size in sizes]
        return np.concatenate([np.full(x.size, s) for x, s in zip(kinds, sizes, strict=True)])

    def excess(self, y: np.ndarray) -> float:
        """L − L*, of which rounding spares what is small."""
        gap = self.maps(y) - self.target
        return float(np.sum(gap * self._weighted(gap)))

    def _weighted(self, gap: np.ndarray) -> np.ndarray:
        """``gram gap Λ/D_y``, for every pair of outputs."""
        if self.gram.ndim == 1:
            return self.curvature * gap
        return self.gram @ gap * self.spectrum / self.outputs

    def _merged_maps(self, y: np.ndarray) -> np.ndarray:
        value = y[: self.cuts[0]].reshape(self.heads, -1)
        return (value.T @ y[self.cuts[0] :].reshape(self.heads, -1)).reshape(self.target.shape)

    def _merged(self, _: float, y: np.ndarray) -> np.ndarray:
        value = y[: self.cuts[0]].reshape(self.heads, -1)
        inner = y[self.cuts[0] :].reshape(self.heads, -1)
        maps = (value.T @ inner).reshape(self.target.shape)
        pull = self._weighted(self.target - maps).reshape(value.shape[1], -1)
        return np.concatenate([(inner @ pull.T).ravel(), (value @ pull).ravel()])

    def _rows(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """V of every row, and the rows of all keys and queries; one output."""
        value, key, query = y[: self.cuts[0]], *np.split(y[self.cuts[0] :], 2)
        wide = (-1, len(self.spectrum))
        return np.repeat(value, self.rank)[:, None], key.reshape(wide), query.reshape(wide)

    def _separate_maps(self, y: np.ndarray) -> np.ndarray:
        value, key, query = self._rows(y)
        return ((value * key).T @ query)[None]

    def _separate(self, _: float, y: np.ndarray) -> np.ndarray:
        value, key, query = self._rows(y)
        pull = self._weighted(self.target - ((value * key).T @ query))[0]
        pulled = key @ pull
        return np.concatenate(
            [
                (pulled * query).reshape(self.heads, -1).sum(axis=1),
                (value * (query @ pull.T)).ravel(),
                (value * pulled).ravel(),
            ]
        )

    def _inner(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Values in rows, keys, queries, and ``K_iᵀ Q_i`` in rows."""
        value, key, query = self.split(y).values()
        inner = (np.swapaxes(key, 1, 2) @ query).reshape(self.heads, -1)
        return value.reshape(self.heads, -1), key, query, inner

    def _several_maps(self, y: np.ndarray) -> np.ndarray:
        value, _, _, inner = self._inner(y)
        return (value.T @ inner).reshape(self.target.shape)

    def _several(self, _: float, y: np.ndarray) -> np.ndarray:
        value, key, query, inner = self._inner(y)
        maps = (value.T @ inner).reshape(self.target.shape)
        pull = self._weighted(self.target - maps).reshape(value.shape[1], -1)
        each = (value @ pull).reshape(self.heads, *self.target.shape[1:])
        keys, queries = query @ np.swapaxes(each, 1, 2), key @ each
        return np.concatenate([(inner @ pull.T).ravel(), keys.ravel(), queries.ravel()])
