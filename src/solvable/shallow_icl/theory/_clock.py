r"""The flow of aligned merged attention, in the clock that makes it linear.

``M = s·diag(g)``, ``τ ġ_d = s(drive_d − h_d s g_d)``, ``τ ṡ = Σ_d g_d(drive_d − h_d s g_d)``
conserve ``s² − Σ g_d²``, which is zero for small starts. In the clock ``T = ∫ s² dt/τ``

    dg_d/dT = drive_d/s − h_d g_d,    s² = Σ g_d²,    dt/τ = dT/s².

On a step 1/s is taken as linear in T: the rest is exact, however long the step, and s at its end
is the root of a quartic. Steps are the same backwards and forwards, so that the error is a series
in their squares, of which two terms are extrapolated away.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.interpolate import make_interp_spline

_LEVELS = (60, 120, 240)  # steps a decade of the clock
_RICHARDSON = (-1.0 / 3.0, 4.0 / 3.0)
_ROMBERG = (1.0 / 45.0, -20.0 / 45.0, 64.0 / 45.0)
_ORDER = 5  # of the spline between them
_SPLINE = 1e-10  # of the excess, at most, between nodes
_ENOUGH = 1e-18  # of the loss: the excess that is not followed any more
_NOTHING = 1e-30  # of what there is to learn
_FIRST = 0.1  # of the fastest mode's time in the clock: what a large start begins with
_BEYOND = 3  # nodes of the coarse level after all is over
_MOST = 2000  # decades of the clock
_NEWTON = 40  # more steps than the root takes


def _relaxed(z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``e^{−z}``, ``φ₁ − φ₂`` and ``φ₂``: φ₁ = (1 − e^{−z})/z, φ₂ = (1 − φ₁)/z."""
    near = z < 0.3
    u, far = np.where(near, z, 0.0), np.where(near, 1.0, z)
    series = np.zeros_like(z)
    for k in range(13, 1, -1):
        series = 1.0 / math.factorial(k) - u * series
    lost = np.where(near, 1.0 - u * series, -np.expm1(-far) / far)
    second = np.where(near, series, (1.0 - lost) / far)
    return np.exp(-z), lost - second, second


def _size(guess: float, square: float, mixed: float, end: float) -> float:
    """The positive root y of ``y⁴ = square y² + 2 mixed y + end``: Newton, from above."""
    y = max(guess, math.sqrt(square), end**0.25)
    for _ in range(_NEWTON):
        y2 = y * y
        value = y2 * y2 - square * y2 - 2.0 * mixed * y - end
        step = value / (4.0 * y2 * y - 2.0 * square * y - 2.0 * mixed)
        y -= step
        if abs(step) <= 4e-16 * y:
            break
    return y


@dataclass(frozen=True)
class Clock:
    """Modes that one size drives, started along the direction in which they grow.

    Attributes:
        drive: what pulls on a mode, ``E y_q β x_q``.
        decay: h_d, ``gram λ``.
        ratio: ``h_d/drive_d = 1/w*_d``.
        weight: how many modes each stands for.
        start: s at t = 0.
        floor: of the loss, what stays.
        last: t/τ up to which it is followed.
    """

    drive: np.ndarray
    decay: np.ndarray
    ratio: np.ndarray
    weight: np.ndarray
    start: float
    floor: float
    last: float

    @cached_property
    def pull(self) -> float:
        """The rate at which small modes grow, ``‖drive‖``."""
        return math.sqrt(float(self.weight @ self.drive**2))

    @cached_property
    def first(self) -> float:
        """The first scale of T: of the escape, or of the fastest decay where that is less."""
        return min(self.start**2 / (2.0 * self.pull), _FIRST / float(self.decay.max()))

    @property
    def least(self) -> float:
        """An excess that is not followed any more."""
        power = float(self.weight @ (self.drive / self.ratio))
        return max(_ENOUGH * self.floor, _NOTHING * power)

    def march(self, level: int, count: int | None = None) -> np.ndarray:
        """T, t and the excess ``Σ (drive_d²/h_d)(1 − M_d/w*_d)²`` at nodes.

        Args:
            level: steps a decade of the clock.
            count: of nodes, 60 a decade; up to the last time, or as long as there is an excess,
                unless given.
        """
        every, grow = level // _LEVELS[0], 10.0 ** (1.0 / level)
        gain = self.weight * self.drive / self.ratio
        first = self.first
        g, s, t = self.start * self.drive / self.pull, self.start, 0.0
        found = [(0.0, 0.0, float(gain @ (1.0 - s * g * self.ratio) ** 2))]
        more = _BEYOND + _ORDER
        for step in range(_MOST * level):
            begin = first * 10.0 ** (step / level)
            gap = begin * (grow - 1.0)
            left, early, late = _relaxed(self.decay * gap)
            # In units of s, whose fourth power may be no number.
            alpha = left * (g / s) + (self.drive * (gap / s / s)) * early
            beta = (self.drive * (gap / s / s)) * late
            before = s
            sums = (float(self.weight @ x) for x in (alpha**2, alpha * beta, beta**2))
            growth = _size(1.0, *sums)
            s, g = before * growth, before * (alpha + beta / growth)
            t += gap / 3.0 * (1.0 / before**2 + 1.0 / (before * s) + 1.0 / s**2)
            if (step + 1) % every:
                continue
            excess = float(gain @ (1.0 - s * g * self.ratio) ** 2)
            found.append((begin * grow - first, t, excess))
            if count is None:
                more -= t > self.last or excess <= self.least
            if len(found) == count or not more:
                break
        return np.array(found).T

    @cached_property
    def _nodes(self) -> list[np.ndarray]:
        coarse = self.march(_LEVELS[0])
        return [coarse, *(self.march(level, coarse.shape[1]) for level in _LEVELS[1:])]

    def _between(self, weights: tuple[float, ...], t: np.ndarray) -> np.ndarray:
        """The excess at times, of nodes of several levels."""
        levels = self._nodes[: len(weights)]
        times = np.array(weights) @ np.array([nodes[1] for nodes in levels])
        heights = np.array([np.maximum(nodes[2], self.least) for nodes in levels])
        logs = np.array(weights) @ np.log(heights)
        pace = self.start**2 / (2.0 * self.first)  # the escape's rate, unless the start is large
        spline = make_interp_spline(np.log1p(pace * times), logs, k=_ORDER)
        # Beyond the last node there is nothing left that could be followed.
        return np.exp(spline(np.log1p(pace * np.minimum(t, times[-1]))))

    def excess(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """L − L* at times t/τ, and an estimate of its error: that of one extrapolation less."""
        found = self._between(_ROMBERG, t)
        off = np.abs(self._between(_RICHARDSON, t) - found) + _SPLINE * found
        return found, off + self.least * (found <= 2.0 * self.least)

    @property
    def steps(self) -> int:
        """Of all levels."""
        nodes = self._nodes[0].shape[1] - 1
        return sum(nodes * level // _LEVELS[0] for level in _LEVELS)
