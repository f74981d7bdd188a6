"""Gradient flow on a data set, in numpy: a witness beside the steps of `train`."""

import math
from typing import Any

import numpy as np
from scipy.integrate import DOP853, Radau

from .run import live
from .start import Start
from .statistics import Blocks, Moments, statistics
from .task import Sequences
from .units import unit_factor

_ERROR = 1e-10  # of a step, relative
_STIFF = 40_000  # slopes, after which the rest is taken to be stiff
_SMALL = 300  # weights whose Jacobian is cheap
_MOST = 2_000_000  # slopes: some minutes
_ROUNDED = 1e-15  # of the first loss: what moments know of the excess over the least


class _Heads:
    r"""``τ Ẇ = −½ ∂L/∂W`` of all live weights, in one vector.

    ``L`` is a quadratic form in ``T_abc = Σ_i a_i[a] K_i[b, c]``, of which a data set sees the part
    that is symmetric in a and b.
    """

    def __init__(self, moments: Moments, weights: dict[str, np.ndarray]):
        self.gram, self.cross = np.asarray(moments.gram), np.asarray(moments.cross)
        self.best, self.rest = np.asarray(moments.best), np.asarray(moments.rest)
        self.floor, self.outputs = float(moments.floor), len(self.cross)
        self.shapes = {name: x.shape for name, x in weights.items()}
        self.cuts = np.cumsum([x.size for x in weights.values()])[:-1]
        self.start = np.concatenate([x.ravel() for x in weights.values()])
        inner = self._inner(weights)
        sides = (weights["value"].shape[2], *inner.shape[1:])
        self.place = np.arange(np.prod(sides)).reshape(sides)
        if moments.blocks == "all":  # of a, b and b, a one is kept
            first, second = np.triu_indices(sides[0])
            pairs = np.zeros(sides[:2], int)
            pairs[first, second] = pairs[second, first] = np.arange(len(first))
            self.place = pairs[:, :, None] * sides[2] + np.arange(sides[2])
        self.evaluations = 0

    def split(self, y: np.ndarray) -> dict[str, np.ndarray]:
        """The weights in a vector."""
        parts = zip(np.split(y, self.cuts), self.shapes.items(), strict=True)
        return {name: x.reshape(shape) for x, (name, shape) in parts}

    def _inner(self, weights: dict[str, np.ndarray]) -> np.ndarray:
        """W^KQ of every head."""
        if "key_query" in weights:
            return weights["key_query"]
        return np.swapaxes(weights["key"], 1, 2) @ weights["query"]

    def _tensor(self, weights: dict[str, np.ndarray], inner: np.ndarray) -> np.ndarray:
        """T on what the data set sees."""
        whole = np.einsum("hoa,hbc->oabc", weights["value"], inner)
        place, count = self.place.ravel(), self.gram.shape[0]
        return np.stack([np.bincount(place, one.ravel(), count) for one in whole])

    def loss(self, y: np.ndarray) -> float:
        """L, about the least that any T has."""
        weights = self.split(y)
        gap = self._tensor(weights, self._inner(weights)) - self.best
        excess = float(np.sum(gap * (gap @ self.gram - 2.0 * self.rest))) / self.outputs
        return max(0.0, self.floor + excess)  # rounding of the moments may be more than is left

    def slope(self, _: float, y: np.ndarray) -> np.ndarray:
        """Ẇ."""
        self.evaluations += 1
        if self.evaluations > _MOST:
            raise ValueError(f"times must be shorter: {_MOST} slopes of the flow are not enough")
        weights = self.split(y)
        value, inner = weights["value"], self._inner(weights)
        pull = (self.cross - self._tensor(weights, inner) @ self.gram) / self.outputs
        pull = pull[:, self.place]
        found = {"value": np.einsum("oabc,hbc->hoa", pull, inner)}
        pulled = np.einsum("hoa,oabc->hbc", value, pull)
        if "key_query" in weights:
            found["key_query"] = pulled
        else:
            found["key"] = weights["query"] @ np.swapaxes(pulled, 1, 2)
            found["query"] = weights["key"] @ pulled
        return np.concatenate([found[name].ravel() for name in weights])


def sample_flow(
    data: Sequences, start: Start, times: Any, *, units: str, seed: int, blocks: Blocks
) -> np.ndarray:
    r"""The loss of gradient flow on a data set, ``τ Ẇ = −½ ∂L/∂W``.

    By a method of order 8; where the rest is stiff, by an implicit one of order 5.

    Args:
        data: the sequences.
        start: linear attention, or an MLP.
        times: t/τ, increasing.
        units: of the weights that are drawn.
        seed: of the weights.
        blocks: "all", or "zero", where zero blocks are kept at zero.
    """
    task, factor = data.task, unit_factor(data.task, start, units)
    drawn = {name: factor * x for name, x in live(start.draw(task, seed), task.dim).items()}
    if blocks == "zero":
        drawn["value"] = drawn["value"][..., task.dim :]
        for name, axis in (("key_query", 1), ("key", 2)):
            if name in drawn:
                drawn[name] = drawn[name].take(np.arange(task.dim), axis)
    heads = _Heads(statistics(data, blocks), drawn)
    return _followed(heads, np.asarray(times, float))


def _followed(heads: _Heads, times: np.ndarray) -> np.ndarray:
    """Losses at increasing times, by one method after another."""
    t, y, losses, left = 0.0, heads.start, [], times.tolist()
    while left and left[0] == 0.0:
        losses.append(heads.loss(y))
        del left[0]
    size = 1e-3 * float(np.sqrt(np.mean(y**2)))
    here, enough = heads.loss(y), heads.floor + _ROUNDED * heads.loss(y)
    methods = [(DOP853, _ERROR, _STIFF), (Radau, 10.0 * _ERROR, math.inf)]
    for kind, error, most in methods if y.size <= _SMALL else [(DOP853, _ERROR, math.inf)]:
        if not left or here <= enough:
            break
        solver = kind(heads.slope, t, y, left[-1], rtol=error, atol=error * size)
        while left and here > enough and heads.evaluations < most:
            told = solver.step()
            if solver.status == "failed":
                raise ValueError(f"the flow does not go on beyond t = {solver.t:.3g}: {told}")
            if left[0] <= solver.t:
                inside = solver.dense_output()
                while left and left[0] <= solver.t:
                    losses.append(heads.loss(inside(left[0])))
                    del left[0]
            here = heads.loss(solver.y)
        t, y = float(solver.t), solver.y
    return np.array(losses + [here] * len(left))  # as it stays
