"""Stiff initial value problems without a Jacobian: a stabilised explicit Runge–Kutta method."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.integrate import DenseOutput, OdeSolver

Field = Callable[[float, np.ndarray], np.ndarray]

_DAMPING = 2.0 / 13.0
_STRETCH = 1.54  # h ρ may be 0.65 times the square of the number of stages
_LOOK = 25  # steps between two looks at how stiff the field is
_SAFETY = 1.2  # of what a look finds
_POWER = 60  # products with the Jacobian at a look, at most
_MOST = 4000  # stages: their rounding errors add up to its square
_TINY = float(np.finfo(float).tiny)


@functools.lru_cache(maxsize=4096)
def _coefficients(stages: int) -> tuple[float, list[tuple[float, float, float, float, float]]]:
    """μ̃₁, and (1 − μ − ν, μ, ν, μ̃, γ̃) of the later stages."""
    w0 = 1.0 + _DAMPING / stages**2
    # Chebyshev's polynomials and their first two derivatives at w0.
    t, d, dd = [1.0, w0], [0.0, 1.0], [0.0, 0.0]
    for _ in range(2, stages + 1):
        t.append(2.0 * w0 * t[-1] - t[-2])
        d.append(2.0 * w0 * d[-1] - d[-2] + 2.0 * t[-2])
        dd.append(2.0 * w0 * dd[-1] - dd[-2] + 4.0 * d[-2])
    w1 = d[stages] / dd[stages]
    b = [dd[j] / d[j] ** 2 for j in range(2, stages + 1)]
    b = [b[0], 1.0 / w0, *b]
    later = []
    for j in range(2, stages + 1):
        mu, nu, pull = 2.0 * b[j] * w0 / b[j - 1], -b[j] / b[j - 2], 2.0 * b[j] * w1 / b[j - 1]
        back = -(1.0 - b[j - 1] * t[j - 1]) * pull
        later.append((1.0 - mu - nu, mu, nu, pull, back))
    return b[1] * w1, later


def _stages(stretch: float) -> int:
    """How many stages make a step stable over which h ρ is so long."""
    return max(2, 1 + math.floor(math.sqrt(_STRETCH * stretch + 1.0)))


class _Shorter(DenseOutput):
    """Inside of a step: a shorter one from its beginning, stable and of the same order."""

    def __init__(self, solver: "Chebyshev"):
        super().__init__(solver.t_old, solver.t)
        self.end = solver.y
        self.origin = (solver.y_old, solver.f_old)
        self.solver, self.radius = solver, solver.radius_old

    def _call_impl(self, t: Any) -> np.ndarray:
        if np.ndim(t):
            return np.stack([self._call_impl(float(x)) for x in t], axis=-1)
        y, f = self.origin
        h = float(t) - self.t_old
        if h == 0.0:
            return y
        if t == self.t:
            return self.end
        return self.solver.advanced(self.t_old, y, f, h, _stages(abs(h) * self.radius))


class Chebyshev(OdeSolver):
    r"""Runge–Kutta–Chebyshev of order 2, a method for `scipy.integrate.solve_ivp`.

    For fields whose Jacobian has eigenvalues on the negative real axis, or close to it, as that of
    a gradient flow: s evaluations of the field are stable over steps of ``0.65 s²/ρ``, where an
    explicit method of fixed order would need as many for ``O(s)/ρ``. No Jacobian is formed; its
    radius ρ is found by a power iteration on differences of the field.

    Args:
        fun, t0, y0, t_bound, vectorized, support_complex: as every solver of scipy's.
        rtol, atol: of the error of a step, ``|error| ≤ atol + rtol |y|``, root mean square.
        max_step: the longest step.

    Reference: Sommeijer, Shampine, Verwer, J. Comput. Appl. Math. 88, 315 (1998).

    >>> from scipy.integrate import solve_ivp
    >>> end = solve_ivp(lambda t, y: -1e4 * y, (0.0, 1.0), [1.0], Chebyshev, rtol=1e-6, atol=1e-9)
    >>> end.success, end.nfev < 2000, bool(abs(end.y[0, -1]) < 1e-6)
    (True, True, True)
    """

    def __init__(
        self,
        fun: Field,
        t0: float,
        y0: Any,
        t_bound: float,
        *,
        rtol: float = 1e-6,
        atol: Any = 1e-9,
        max_step: float = math.inf,
        vectorized: bool = False,
        support_complex: bool = False,
        **extraneous: Any,
    ):
        super().__init__(fun, t0, y0, t_bound, vectorized, support_complex)
        self.rtol, self.atol, self.longest = rtol, atol, max_step
        self.taken = 0
        self.y_old: Any = None
        self.f = self.fun(self.t, self.y)
        self.f_old, self._fastest = self.f, self.f
        self._looked = -_LOOK
        self.radius = self.radius_old = 0.0
        self._look()
        self._before: tuple[float, float] | None = None  # size and error of the last step
        self.h = self._first()

    def _scale(self, *y: np.ndarray) -> np.ndarray:
        return self.atol + self.rtol * functools.reduce(np.maximum, map(np.abs, y))

    def _norm(self, x: np.ndarray) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.sqrt(np.mean(x**2)))

    def _first(self) -> float:
        """The size of the first step."""
        span = abs(self.t_bound - self.t)
        h = min(self.longest, span, 1.0 / self.radius if self.radius > 0.0 else span)
        if h == 0.0:
            return h
        ahead = self.fun(self.t + self.direction * h, self.y + self.direction * h * self.f)
        change = h * self._norm((ahead - self.f) / self._scale(self.y))
        return h if 0.1 * change < 1.0 else 0.1 * h / math.sqrt(change)

    def _look(self) -> None:
        """ρ, by differences of the field along the direction that it stretches most."""
        vector, size = self._fastest, float(np.linalg.norm(self._fastest))
        reach = math.sqrt(np.finfo(float).eps) * float(np.linalg.norm(self.y))
        reach = reach or math.sqrt(np.finfo(float).eps)
        if size == 0.0:
            vector = np.ones_like(self.y)
            size = float(np.linalg.norm(vector))
        found = 0.0
        for _ in range(_POWER):
            change = self.fun(self.t, self.y + vector * (reach / size)) - self.f
            stretched, last = float(np.linalg.norm(change)) / reach, found
            found = stretched
            if not math.isfinite(found) or found == 0.0:
                break
            vector, size = change, float(np.linalg.norm(change))
            if abs(found - last) <= 0.01 * found:
                break
        self._fastest, self._looked = vector, self.taken
        self.radius = _SAFETY * found

    def advanced(self, t: float, y: Any, f: Any, h: float, stages: int) -> np.ndarray:
        """One step of given size and stages."""
        pull, later = _coefficients(stages)
        # The field may depend on t: stage j is at t + h c_j.
        before, here = y, y + (h * pull) * f
        times = [0.0, pull]
        for rest, mu, nu, pull, back in later:
            ahead = rest * y + mu * here + nu * before
            ahead += (h * pull) * self.fun(t + h * times[-1], here) + (h * back) * f
            times.append(mu * times[-1] + nu * times[-2] + pull + back)
            before, here = here, ahead
        return here

    def _step_impl(self) -> tuple[bool, str | None]:
        least = 10.0 * abs(np.nextafter(self.t, self.direction * np.inf) - self.t)
        while True:
            if self.taken - self._looked >= _LOOK:
                self._look()
            room = _MOST**2 / _STRETCH / self.radius if self.radius > 0.0 else math.inf
            left = abs(self.t_bound - self.t)
            h = min(self.h, self.longest, room)
            if h < least and h < left:
                return False, self.TOO_SMALL_STEP
            end = left <= 1.0001 * h
            h = self.direction * (left if end else h)
            y = self.advanced(self.t, self.y, self.f, h, _stages(abs(h) * self.radius))
            after = self.t_bound if end else self.t + h
            f = self.fun(after, y)
            gap = 0.8 * (self.y - y) + 0.4 * h * (self.f + f)
            with np.errstate(over="ignore", invalid="ignore"):
                error = self._norm(gap / self._scale(self.y, y))
            if error <= 1.0:
                break
            # A step that goes wild is more likely one whose ρ has grown.
            self.h = abs(h) * (max(0.1, 0.8 * error ** (-1 / 3)) if math.isfinite(error) else 0.1)
            if self._looked < self.taken:
                self._look()
        self._accept(after, y, f, abs(h), max(error, 1e-10))
        return True, None

    def _accept(self, t: float, y: np.ndarray, f: np.ndarray, h: float, error: float) -> None:
        """The step is done; the next one's size from the errors of this and the last one."""
        grow = 0.8 * error ** (-1 / 3)
        if self._before is not None:
            last, worse = self._before
            grow = min(grow, grow * h / last * (worse / error) ** (1 / 3))
        self._before = (h, error)
        self.h = h * min(10.0, max(0.1, grow))
        self.y_old, self.f_old, self.radius_old = self.y, self.f, self.radius
        self.t, self.y, self.f, self.taken = t, y, f, self.taken + 1

    def _dense_output_impl(self) -> DenseOutput:
        return _Shorter(self)
