"""The loss in training time, at unlimited depth, width and context."""

import math
from functools import cached_property

import numpy as np

from ._tail import ENDLESS, Spectrum

_PER_DECADE = 8
_POINTS = 10  # Gauss–Legendre nodes of a cell of γ
_BLOCK = 512
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(_POINTS)
_MOST_TIME = 1e280


class ScalarFlow:
    """``dγ/dt = −𝓛′(γ)`` from γ = 0 with ``𝓛(γ) = Σ a_k exp(−2γλ_k)``, by quadrature.

    ``t(γ) = ∫_0^γ dγ'/(−𝓛′(γ'))`` is tabulated cell by cell, and inverted inside a cell by Newton.
    """

    def __init__(self, tail: Spectrum):
        self.tail = tail

    def losses(self, gamma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """𝓛(γ) and −𝓛′(γ)."""
        tail, loss, fall = self.tail, [], []
        for k in range(0, len(gamma), _BLOCK):
            left = np.exp(-2.0 * gamma[k : k + _BLOCK, None] * tail.lam[None, :])
            loss.append(left @ tail.share)
            fall.append(left @ (2.0 * tail.share * tail.lam))
        return np.concatenate(loss), np.concatenate(fall)

    @cached_property
    def table(self) -> tuple[np.ndarray, np.ndarray]:
        """γ and t(γ) at the edges of the cells."""
        slowest = float(self.tail.lam[-1])
        high = ENDLESS if math.isinf(self.tail.dim) else 5.0 / slowest
        count = int(_PER_DECADE * np.log10(high / 1e-3)) + 2
        gamma = np.concatenate([[0.0], np.geomspace(1e-3, high, count)])
        if not math.isinf(self.tail.dim):  # the last direction falls off exponentially
            gamma = np.concatenate([gamma, np.arange(6.0, 41.0) / slowest])
        with np.errstate(divide="ignore", over="ignore"):
            spent = self._between(gamma[:-1], gamma[1:])
            time = np.concatenate([[0.0], np.cumsum(spent)])
        good = time < _MOST_TIME
        return gamma[good], time[good]

    def _between(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """The time from one γ to another, in the same cell."""
        half = 0.5 * (high - low)[:, None]
        gamma = 0.5 * (high + low)[:, None] + half * _NODES[None, :]
        _, fall = self.losses(gamma.ravel())
        return np.sum(half * _WEIGHTS / fall.reshape(gamma.shape), axis=1)

    def gamma(self, time: np.ndarray) -> np.ndarray:
        """γ(t)."""
        edges, times = self.table
        cell = np.clip(np.searchsorted(times, time) - 1, 0, len(times) - 2)
        low, high, begin, end = edges[cell], edges[cell + 1], times[cell], times[cell + 1]
        gamma = low + (high - low) * ((time - begin) / (end - begin))
        for _ in range(30):  # in log t, which is nearly linear in γ or in log γ
            _, fall = self.losses(gamma)
            now = begin + self._between(low, gamma)
            better = np.clip(gamma - np.log(now / time) * fall * now, 0.5 * (low + gamma), high)
            done = bool(np.all(np.abs(better - gamma) <= 1e-9 * gamma))  # the next is exact
            gamma = better
            if done:
                break
        return gamma

    def curve(self, time: np.ndarray) -> np.ndarray:
        """𝓛 at times t."""
        return self.losses(self.gamma(time))[0] if len(time) else np.zeros(0)

    def local(self, time: np.ndarray) -> np.ndarray:
        """Its ``−d log 𝓛/d log t = t 𝓛′²/𝓛``."""
        if len(time) == 0:
            return np.zeros(0)
        loss, fall = self.losses(self.gamma(time))
        return time * fall**2 / loss
