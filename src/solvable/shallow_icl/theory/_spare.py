r"""Heads of any rank from plateau to plateau: small ones, and grown ones with rows to spare.

What a small head of rank R does depends on the norms over its rows of A_d and B_d alone. Once it
has learned a direction, one of its rows, in some basis, is taken; the others go on growing like
``A_d e^{c_d s}``, s being the time integral of a v that is large now. So the next directions are
learned by the same head, at a time that is a logarithm of its scale, until its rows are used up.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...numerics.quadrature import gauss_legendre
from ._head import Head

_NODES, _WEIGHTS = gauss_legendre(20)
_HALF = 1.0 - math.sqrt(0.5)  # of M_dd/w*_d, at half a drop
# A growing head's c s less ln(v*/A) + c v* (t − T), when it is grown: see `growth_time`.
_GAIN = 1.0 + math.atan(3.0**-0.5) * 3.0**-0.5 - 0.5 * math.log(3.0)


def lengths(rows: np.ndarray) -> np.ndarray:
    """Of the columns, also where their squares are no numbers."""
    size = np.abs(rows).max(axis=0)
    return size * np.linalg.norm(rows / np.where(size > 0.0, size, 1.0), axis=0)


@dataclass(frozen=True)
class FreshHead:
    """A small head, with its rows as they were drawn.

    Attributes:
        head: its size and the norms of its rows, now.
        rise: ``A = (k + q)/2`` at the start, (rank, dim).
        fall: ``B = (k − q)/2``.
        s: ``∫ v dt/τ`` since then.
    """

    head: Head
    rise: np.ndarray
    fall: np.ndarray
    s: float = 0.0

    @classmethod
    def of(cls, value: float, rise: np.ndarray, fall: np.ndarray, cross: np.ndarray) -> "FreshHead":
        """As drawn."""
        return cls(Head(value, lengths(rise), lengths(fall), cross), rise, fall)

    @property
    def end(self) -> float:
        """How long it takes to blow up."""
        return self.head.end

    def advanced(self, t: float, place: int) -> "FreshHead":
        """The head after a time, without the direction, by its place, that is learned then."""
        s = self.s + self.head.clock(t) if len(self.rise) > 1 else self.s
        return replace(self, head=self.head.advance(t).without(place), s=s)

    def grown(self, place: int, now: float, cross: np.ndarray, best: np.ndarray) -> "GrownHead":
        """What it is once it has blown up along a direction, the largest that is left."""
        falls, v = self.head.falls, math.cbrt(best[place])
        rows, s, first = (
            (self.fall, -self.s, self.head.b[0]) if falls else (self.rise, self.s, self.head.a[0])
        )
        if first == 0.0:
            raise ValueError(
                "start must have no key and query that are zero along an eigenvector for drop "
                f"times, not along that of eigenvalue number {place}"
            )
        s += (math.log(v / first) + _GAIN) / cross[place]
        head = GrownHead(rows, len(rows), cross, best, v, s, now + self.end, best[place])
        head.take(place)
        return head


@dataclass
class GrownHead:
    """A head that has learned something.

    Attributes:
        rows: what grows, as it was at the start, without the rows that are taken, (rank, dim).
        spare: how many are not taken.
        cross: c_d.
        best: w*_d.
        v: its value.
        s: ``∫ v dt/τ`` since the start, at
        t: a time t/τ; later it is ``s + v·(the time − t)``.
        held: Σ w*_d of what it has learned, which is v³.
    """

    rows: np.ndarray
    spare: int
    cross: np.ndarray
    best: np.ndarray
    v: float
    s: float
    t: float
    held: float

    def take(self, place: int) -> None:
        """A row, in the basis that learns a direction first, is no longer to spare."""
        along = self.rows[:, place] / lengths(self.rows)[place]
        self.rows = self.rows - np.outer(along, along @ self.rows)
        self.spare -= 1

    def _s_at(self, place: int, bend: float) -> float:
        """S at half of a drop of ``M = v A² e^{2cs}``, plus `bend` in its logarithm."""
        size = float(lengths(self.rows)[place])
        if size == 0.0:
            return math.inf
        start = math.log(_HALF * self.best[place] / self.v) - 2.0 * math.log(size)
        return (start + bend) / (2.0 * self.cross[place])

    def soonest(self, left: Sequence[int]) -> tuple[float, int]:
        """When it is half-way through its next drop, and of which direction."""
        times = [
            self.t + (self._s_at(place, self._bends(place)[0]) - self.s) / self.v for place in left
        ]
        first = int(np.argmin(times))
        return times[first], left[first]

    def learn(self, place: int) -> None:
        """Half of its next drop is over."""
        time, s, late = self._bends(place)
        half = self.t + (self._s_at(place, time) - self.s) / self.v
        s = self._s_at(place, s) - late / (2.0 * self.cross[place])
        self.held += float(self.best[place])
        self.v, self.s, self.t = math.cbrt(self.held), s, half
        self.take(place)

    def _bends(self, place: int) -> tuple[float, float, float]:
        r"""How growth departs from an exponential, while what is held stays learned.

        With u = M/w*, r = w*/held and ``v³ = held (1 + r u)`` it is
        ``2c ds = (1/u − r/(3(1 + r u)))/(1 − u) du``, ``dt = ds/v``. To u = ½-drop: 2cv₀ t and 2cs
        less ln u; then, to u = 1, how much 2cs lags behind what it is from then on.
        """
        r = float(self.best[place]) / self.held
        u = _HALF * _NODES
        slope = (1.0 - r * u / (3.0 * (1.0 + r * u))) / (1.0 - u)
        time = _HALF * float(_WEIGHTS @ ((slope / np.cbrt(1.0 + r * u) - 1.0) / u))
        s = _HALF * float(_WEIGHTS @ ((slope - 1.0) / u))
        u = _HALF + (1.0 - _HALF) * _NODES
        slope = (1.0 / u - r / (3.0 * (1.0 + r * u))) / (1.0 - u)
        lag = np.cbrt((1.0 + r) / (1.0 + r * u)) - 1.0
        return time, s, (1.0 - _HALF) * float(_WEIGHTS @ (slope * lag))
