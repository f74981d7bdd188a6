r"""One small head on a plateau, solved by one quadrature.

Until something more is learned a head sees a fixed matrix ``diag(c)``, ``c_d = λ_d²``, on the
directions that are not yet learned, and with ``s = ∫ v dt/τ``

    k_d = A_d e^{c_d s} + B_d e^{−c_d s},    q_d = A_d e^{c_d s} − B_d e^{−c_d s},
    v² = f(s) = v₀² + Σ_d A_d² (e^{2c_d s} − 1) + B_d² (e^{−2c_d s} − 1).

f is convex. About its minimum s* it is ``f = m + Σ_d P_d h(2c_d x) + Q_d h(−2c_d x)``, x = s − s*,
with ``h(y) = e^y − 1 − y``, P = A²e^{2cs*}, Q = B²e^{−2cs*}: a sum of positive terms, but for m. If
m > 0 the head passes the minimum, and ``x = δ sinh w`` makes dt/dw smooth. If m < 0 it comes in,
turns where f(s* + δ) = 0 and leaves the way it came; ``x = δ cosh w`` makes that one way with v < 0
at w < 0. At the end v blows up at a finite time T: the head is learned.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...numerics.quadrature import gauss_legendre

Numbers = np.ndarray | np.floating

_NODES, _WEIGHTS = gauss_legendre(16)
_GROWTH = 80.0  # ln of how much v² grows until the rest of the way is one exponential
_PANEL = 0.8  # in units of the distance over which dt/dw changes
_NOTHING = 1e-60  # squares that are zero are taken as this, of the whole
_STEPS = 200  # more than any root here needs


def _root(
    function: Callable[[float], tuple[float, float]], low: float, high: float, guess: float
) -> float:
    """The zero of an increasing function, given with its slope: Newton inside a bracket."""
    x = min(max(guess, low), high)
    for _ in range(_STEPS):
        value, slope = function(x)
        if value > 0.0:
            high = x
        else:
            low = x
        after = x - value / slope if slope > 0.0 else math.nan
        if not low <= after <= high:
            after = 0.5 * (low + high)
        if abs(after - x) <= 4e-16 * abs(after):
            return after
        x = after
    return x


@dataclass(frozen=True)
class _Bend:
    """``Σ_d P_d h(2c_d y) + Q_d h(−2c_d y)``, from the logs of P and Q."""

    log_p: np.ndarray
    log_q: np.ndarray
    c: np.ndarray

    def moved(self, s: float) -> "_Bend":
        """The same about a point s further on."""
        shift = 2.0 * self.c * s
        return _Bend(self.log_p + shift, self.log_q - shift, self.c)

    @property
    def curvature(self) -> float:
        """Half the second derivative at y = 0."""
        return float(np.sum(2.0 * self.c**2 * (np.exp(self.log_p) + np.exp(self.log_q))))

    def value(self, y: Numbers) -> Numbers:
        """The sum itself, to relative accuracy."""
        z = 2.0 * self.c * np.asarray(y)[..., None]
        p, q = np.exp(self.log_p), np.exp(self.log_q)
        near = np.abs(z) < 0.5
        u = np.where(near, z, 0.0)
        even, odd = np.zeros_like(u), np.zeros_like(u)  # h(u) = u²(even(u²) + u odd(u²))
        for k in range(7, 0, -1):
            even = even * u * u + 1.0 / math.factorial(2 * k)
            odd = odd * u * u + 1.0 / math.factorial(2 * k + 1)
        series = u * u * ((p + q) * even + (p - q) * u * odd)
        far = np.exp(self.log_p + z) - p * (1.0 + z) + np.exp(self.log_q - z) - q * (1.0 - z)
        return np.sum(np.where(near, series, far), axis=-1)

    def slope(self, y: float) -> float:
        """Its derivative."""
        z = 2.0 * self.c * y
        near = np.abs(z) < 0.5
        u = np.where(near, z, 0.0)
        p, q = np.exp(self.log_p), np.exp(self.log_q)
        rise = np.where(near, p * np.expm1(u), np.exp(self.log_p + z) - p)
        fall = np.where(near, q * np.expm1(-u), np.exp(self.log_q - z) - q)
        return float(np.sum(2.0 * self.c * (rise - fall)))


def _lowest(bend: _Bend) -> float:
    """Where ``Σ P e^{2cs} + Q e^{−2cs}`` is least."""
    log_c = np.log(bend.c)

    def balance(s: float) -> tuple[float, float]:
        up, down = bend.log_p + log_c + 2.0 * bend.c * s, bend.log_q + log_c - 2.0 * bend.c * s
        top, bottom = float(up.max()), float(down.max())
        rise, fall = np.exp(up - top), np.exp(down - bottom)
        value = top - bottom + math.log(rise.sum() / fall.sum())
        slope = np.sum(bend.c * rise) / rise.sum() + np.sum(bend.c * fall) / fall.sum()
        return value, 2.0 * float(slope)

    value, slope = balance(0.0)
    slow, fast = float(bend.c.min()), float(bend.c.max())
    reach = sorted((-value / (4.0 * slow), -value / (4.0 * fast)))
    margin = 1e-12 * abs(value) / slow
    return _root(balance, reach[0] - margin, reach[1] + margin, -value / slope)


@dataclass(frozen=True)
class Path:
    """A head's way to its blow-up, in the frame where that is at s → ∞, its weights of order 1."""

    bend: _Bend  # about the minimum, or about the turning point
    base: float  # f there
    slope: float
    width: float  # δ
    turns: bool
    begin: float  # w at the start
    start: float  # s there less the y of the start

    def y(self, w: Numbers) -> Numbers:
        """S less that of the minimum, or of the turning point."""
        if self.turns:
            return 2.0 * self.width * np.sinh(0.5 * w) ** 2
        return self.width * np.sinh(w)

    def square(self, y: Numbers) -> Numbers:
        """v²."""
        return self.base + self.slope * y + self.bend.value(y)

    def pace(self, w: Numbers) -> Numbers:
        """dt/dw."""
        y = self.y(w)
        if not self.turns:
            return self.width * np.cosh(w) / np.sqrt(self.square(y))
        bent = self.bend.value(y) / np.where(y > 0.0, y, 1.0)
        return math.sqrt(2.0 * self.width) * np.cosh(0.5 * w) / np.sqrt(self.slope + bent)

    @cached_property
    def _edges(self) -> np.ndarray:
        """Ends of the panels: as far apart as dt/dw is smooth, in w and in c·y."""
        whole = math.log(self.square(self.y(np.array(self.begin))) + 1.0) + _GROWTH
        far = float(np.min((whole - self.bend.log_p) / (2.0 * self.bend.c)))
        ratio = self.bend.c.max() * self.width
        if self.turns:
            last = 2.0 * math.asinh(math.sqrt(0.5 * far / self.width))
        else:
            last = math.asinh(far / self.width)

        def smooth(w: Numbers) -> Numbers:
            return w + ratio * (2.0 * np.sinh(0.5 * w) ** 2 if self.turns else np.sinh(w))

        first, final = np.copysign(smooth(np.abs([self.begin, last])), [self.begin, last])
        panels = max(1, math.ceil((final - first) / _PANEL))
        aim = np.linspace(first, final, panels + 1)
        size = np.abs(aim)
        w = np.minimum(
            size, np.arccosh(1.0 + size / ratio) if self.turns else np.arcsinh(size / ratio)
        )
        for _ in range(5):
            gain = np.sinh(w) if self.turns else np.cosh(w)
            w = w - (smooth(w) - size) / (1.0 + ratio * gain)
        w = np.copysign(w, aim)
        w[0], w[-1] = self.begin, last
        return w

    def _between(self, low: np.ndarray, high: np.ndarray) -> Numbers:
        gap = high - low
        return gap * (self.pace(low[..., None] + gap[..., None] * _NODES) @ _WEIGHTS)

    @cached_property
    def _passed(self) -> np.ndarray:
        """Times at the edges."""
        edges = self._edges
        return np.append(0.0, np.cumsum(self._between(edges[:-1], edges[1:])))

    @cached_property
    def end(self) -> float:
        """The time of the blow-up; v̇/v is constant behind the last edge."""
        y = float(self.y(self._edges[-1]))
        rest = 2.0 * math.sqrt(self.square(np.array(y))) / (self.slope + self.bend.slope(y))
        return float(self._passed[-1]) + rest

    def _within(self, panel: int, t: float) -> float:
        """Where in a panel the time t has passed since its beginning."""
        low, high = (float(w) for w in self._edges[panel : panel + 2])

        def late(w: float) -> tuple[float, float]:
            passed = self._between(np.array(low), np.array(w))
            return float(passed) - t, float(self.pace(np.array(w)))

        share = t / float(self._passed[panel + 1] - self._passed[panel])
        return _root(late, low, high, low + share * (high - low))

    def at(self, t: float, *, halted: bool = False) -> tuple[float, float]:
        """S and v at a time; a halted head never goes beyond the minimum."""
        edges, passed = self._edges, self._passed
        panel = int(np.searchsorted(passed, t, side="right")) - 1
        if panel + 1 < len(edges):
            w = self._within(panel, t - float(passed[panel]))
        else:
            w = float(edges[-1])
        if halted:
            w = min(w, 0.0)
        y = self.y(np.array(w))
        v = math.sqrt(float(self.square(y)))
        return self.start + float(y), math.copysign(v, w) if self.turns else v


@dataclass(frozen=True)
class Head:
    """v and the parts A = (k + q)/2 and B = (k − q)/2 of one head, with the c that it sees."""

    v: float
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray

    @cached_property
    def size(self) -> float:
        """The largest of its weights: the flow is the same for all sizes, at times 1/size."""
        return float(max(abs(self.v), np.abs(self.a).max(), np.abs(self.b).max()))

    @cached_property
    def _solved(self) -> tuple[Path | None, bool, bool]:
        """The path, whether in the mirror (v and q negated, s → −s), and whether it is endless."""
        if not (np.any(self.a) or np.any(self.b)):
            return None, False, True
        v, parts = float(self.v) / self.size, [(x / self.size) ** 2 for x in (self.a, self.b)]
        given = [bool(np.any(x)) for x in parts]
        p, q = (np.log(np.where(x > 0.0, x, _NOTHING)) for x in parts)
        bend = _Bend(p, q, self.c)
        lowest = _lowest(bend)
        about = bend.moved(lowest)
        least = v * v - float(about.value(np.array(-lowest)))
        if v == 0.0 and least >= 0.0:
            return None, False, True
        mirrored = lowest > 0.0 if least < 0.0 else v < 0.0
        if mirrored:
            v, lowest = -v, -lowest
            about = _Bend(about.log_q, about.log_p, self.c)
            given.reverse()
        if least < 0.0:
            return _turning(about, least, v, lowest), mirrored, False
        halted = not given[0] or (least == 0.0 and lowest > 0.0)
        least = max(least, _NOTHING)
        width = math.sqrt(least / about.curvature)
        begin = math.asinh(-lowest / width)
        return Path(about, least, 0.0, width, False, begin, lowest), mirrored, halted

    @property
    def end(self) -> float:
        """T/τ, when v blows up; infinity where it never does."""
        path, _, endless = self._solved
        return math.inf if path is None or endless else path.end / self.size

    def advance(self, t: float) -> "Head":
        """The head at a time t ≤ T."""
        path, mirrored, endless = self._solved
        if path is None:
            return self
        s, v = path.at(t * self.size, halted=endless)
        if mirrored:
            s, v = -s, -v
        grow = np.exp(self.c * s)
        return Head(self.size * v, self.a * grow, self.b / grow, self.c)

    def clock(self, t: float) -> float:
        """``s = ∫ v dt/τ`` from here to a time t ≤ T."""
        path, mirrored, endless = self._solved
        if path is None:
            return self.v * t
        s, _ = path.at(t * self.size, halted=endless)
        return -s if mirrored else s

    @property
    def falls(self) -> bool:
        """Whether it blows up at s → −∞, with ``k = −q``: B grows, and A is left behind."""
        return self._solved[1]

    def without(self, place: int) -> "Head":
        """The head once a direction has been learned: it does not see that any more."""
        return Head(self.v, *(np.delete(x, place) for x in (self.a, self.b, self.c)))


def _turning(about: _Bend, least: float, v: float, lowest: float) -> Path:
    """The path of a head that turns, or would have turned before its start, at s* + δ."""

    def above(x: float) -> tuple[float, float]:
        return least + float(about.value(np.array(x))), about.slope(x)

    width = _root(above, 0.0, -lowest * (1.0 + 1e-9), math.sqrt(-least / about.curvature))
    slope = about.slope(width)
    path = Path(about.moved(width), 0.0, slope, width, True, 0.0, lowest + width)

    def beyond(y: float) -> tuple[float, float]:
        return float(path.square(np.array(y))) - v * v, slope + path.bend.slope(y)

    y = _root(beyond, 0.0, v * v / slope, -lowest - width)
    begin = math.copysign(2.0 * math.asinh(math.sqrt(0.5 * y / width)), v)
    return Path(path.bend, 0.0, slope, width, True, begin, -y)
