"""Formulas as the paper writes them, and solutions by scipy that share nothing with them.

They are here to be compared with, not to compute with: `msfr.predict` keeps its digits where these
lose them.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp


def root(strength: float, c: float) -> float:
    """λ = √(4Λ² + 2C) of Theorem 3.1."""
    return math.sqrt(4.0 * strength**2 + 2.0 * c)


def numerator(strength: float, f0: float, c: float) -> float:
    """What stands above in P."""
    return 4.0 * f0 * strength + 2.0 * c + root(strength, c) * math.sqrt(4.0 * f0**2 + 2.0 * c)


def first_root(strength: float, f0: float, c: float) -> float:
    """P of Theorem 3.1."""
    below = 2.0 * (f0 - strength) * (root(strength, c) - 2.0 * strength)
    return numerator(strength, f0, c) / below


def theorem(
    t: Any, strength: float, *, rate: float, f0: float, c: float, p: float | None = None
) -> Any:
    """``f⁰ = Λ + (λ/2)[1/(1 + Pe^{aλt}) − 1/(1 + Qe^{aλt})]`` of Theorem 3.1 (13).

    Args:
        t: time.
        strength: Λ.
        rate: a.
        f0: f(0).
        c: C.
        p: P; its own unless given.
    """
    lam, twice = root(strength, c), 2.0 * strength
    p = first_root(strength, f0, c) if p is None else p
    q = p * (twice - lam) / (twice + lam)
    grow = np.exp(rate * lam * t)
    return strength + lam / 2.0 * (1.0 / (1.0 + p * grow) - 1.0 / (1.0 + q * grow))


@dataclass(frozen=True)
class AlongContext:
    """One task of weight 1 that starts along u = (1, Λ): ``v(0) = v u``, ``w(0) = w u``.

    Attributes:
        context: ψ.
        strength: Λ.
        v, w: the start.
    """

    context: float
    strength: float
    v: float
    w: float

    @property
    def direction(self) -> np.ndarray:
        """The vector u."""
        return np.array([1.0, self.strength])

    @property
    def norm(self) -> float:
        """|u|² = 1 + Λ²."""
        return 1.0 + self.strength**2

    @property
    def rate(self) -> float:
        """The rate a = #ψ(1 + Λ²)/N, # = N."""
        return self.context * self.norm

    @property
    def matrix(self) -> np.ndarray:
        """H of (9) at order zero, ψH⁰ = ψ u uᵀ."""
        return self.context * np.outer(self.direction, self.direction)

    @property
    def query(self) -> np.ndarray:
        """What the query adds to it, ψεH¹ = e₁e₁ᵀ (7)."""
        return np.diag([1.0, 0.0])

    @property
    def start(self) -> tuple[np.ndarray, np.ndarray]:
        """v(0) and w(0)."""
        return self.v * self.direction, self.w * self.direction

    def square(self, x: np.ndarray) -> float:
        """``ψ x·H⁰x``: g of v + w, h of v − w (28), (29)."""
        return float(x @ self.matrix @ x)

    @property
    def g(self) -> float:
        """Of v + w at the start."""
        v, w = self.start
        return self.square(v + w)

    @property
    def h(self) -> float:
        """Of v − w at the start."""
        v, w = self.start
        return self.square(v - w)

    @property
    def f0(self) -> float:
        """The prediction at the start."""
        v, w = self.start
        return float(v @ self.matrix @ w)

    @property
    def constant(self) -> float:
        """C = ½[(‖v‖² + ‖w‖²)² − 4(v·Hw)²], norms and product in ψH⁰."""
        v, w = self.start
        return 0.5 * ((self.square(v) + self.square(w)) ** 2 - 4.0 * self.f0**2)

    def root(self) -> float:
        """λ of Theorem 3.1."""
        return root(self.strength, self.constant)

    def first_root(self) -> float:
        """P of Theorem 3.1."""
        return first_root(self.strength, self.f0, self.constant)

    def theorem(self, t: Any, **forms: float) -> Any:
        """f⁰(t) of Theorem 3.1 (13); C, P or the rate a may be given as `c`, `p`, `rate`."""
        given = {"rate": self.rate, "f0": self.f0, "c": self.constant} | forms
        return theorem(t, self.strength, **given)

    def balanced(self, t: Any, *, exponent: float) -> Any:
        """``Λ/(1 + Δ e^{exponent·at})`` with Δ = (Λ − f(0))/f(0): the form of (14) and (58)."""
        delta = (self.strength - self.f0) / self.f0
        return self.strength / (1.0 + delta * np.exp(exponent * self.rate * t))

    # App. E.2 and J, with B = F = 1, so that A = Q, E = P.

    @property
    def amplitudes(self) -> tuple[float, float]:
        """A = Q and E = P of (47)."""
        twice, lam, p = 2.0 * self.strength, self.root(), self.first_root()
        return p * (twice - lam) / (twice + lam), p

    @property
    def xi(self) -> float:
        """ξ = aλ/2 (46)."""
        return self.rate * self.root() / 2.0

    def log_slopes(self, t: float) -> tuple[float, float]:
        """γ̇/γ and θ̇/θ (47)."""
        a, e = self.amplitudes
        up, down = self.strength * self.rate + self.xi, self.strength * self.rate - self.xi
        raised, fallen = math.exp(self.xi * t), math.exp(-self.xi * t)
        gamma = (up * a * raised + down * fallen) / (a * raised + fallen)
        theta = -(down * e * raised + up * fallen) / (e * raised + fallen)
        return gamma, theta

    def factors(self, t: float) -> tuple[float, float]:
        """The integrating factors u (142) and z (145)."""
        raised, fallen = math.exp(self.xi * t), math.exp(-self.xi * t)
        return tuple((x * raised + fallen) ** 2 for x in self.amplitudes)  # pyright: ignore

    def integrals(self, t: float, sign: float = 1.0) -> tuple[float, float]:
        """I_u and I_z of (148), (149), without constants.

        Args:
            t: time.
            sign: of the e^{−2ξt} term of I_z; the second form of (149) has −1.
        """
        (a, e), lam, k = self.amplitudes, self.strength, self.strength * self.rate / self.xi
        up, down = math.exp(2.0 * self.xi * t), math.exp(-2.0 * self.xi * t)
        steady = 4.0 * self.rate * t * (lam**2 + self.constant)
        i_u = -(a**2) * up * lam * (1.0 + k) + down * lam * (k - 1.0) + steady * a
        i_z = e**2 * up * lam * (1.0 - k) + sign * down * lam * (1.0 + k) + steady * e
        return i_u / self.norm**2, i_z / self.norm**2

    def slope_of_i_z(self, t: float, sign: float = 1.0) -> float:
        """dI_z/dt."""
        (_, e), lam, k = self.amplitudes, self.strength, self.strength * self.rate / self.xi
        up, down = math.exp(2.0 * self.xi * t), math.exp(-2.0 * self.xi * t)
        moving = e**2 * up * lam * (1.0 - k) - sign * down * lam * (1.0 + k)
        steady = 4.0 * self.rate * e * (lam**2 + self.constant)
        return (2.0 * self.xi * moving + steady) / self.norm**2

    def m_and_n(self, t: float, *, sign: float = 1.0, constant: float = 1.0) -> tuple[float, float]:
        """The m and n of (134), (136).

        Args:
            t: time.
            sign: as in `integrals`.
            constant: 1 with those that make m(0) = n(0) = 0, 0 without, as in (150), (151).
        """
        now, before = self.integrals(t, sign), self.integrals(0.0, sign)
        m, n = (
            (x - constant * y) / z for x, y, z in zip(now, before, self.factors(t), strict=True)
        )
        return m, n

    def bracket(self, t: float, **forms: float) -> float:
        """``r + 2(m − n)`` of (129), four times f¹."""
        m, n = self.m_and_n(t, **forms)
        return float(4.0 * self.theorem(t)) / self.norm**2 + 2.0 * (m - n)

    # Witnesses.

    def flow(self, t: float, matrix: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """v(t), w(t) by an ODE solver, at order zero unless a matrix H is given."""
        return flow(self.matrix if matrix is None else matrix, *self.start, self.strength, t)

    def prediction(self, t: float, matrix: np.ndarray | None = None) -> float:
        """f(t) = v·Hw by an ODE solver."""
        v, w = self.flow(t, matrix)
        return float(v @ (self.matrix if matrix is None else matrix) @ w)

    def squares(self, t: float) -> tuple[float, float]:
        """g(t) and h(t) by an ODE solver."""
        v, w = self.flow(t)
        return self.square(v + w), self.square(v - w)

    def sensitivity(self, t: float) -> np.ndarray:
        """v, w and their derivatives in ε = 1/ψ at 0, as rows, by an ODE solver.

        ``H(ε) = ψ(H⁰ + εH¹)`` at fixed ψ.
        """
        h0, h1 = self.matrix, self.context * self.query

        def field(_: float, y: np.ndarray) -> np.ndarray:
            v, w, dv, dw = y.reshape(4, 2)
            pull = v @ h0 @ w - self.strength
            change = dv @ h0 @ w + v @ h0 @ dw + v @ h1 @ w
            return -np.concatenate(
                [
                    pull * (h0 @ w),
                    pull * (h0 @ v),
                    change * (h0 @ w) + pull * (h0 @ dw + h1 @ w),
                    change * (h0 @ v) + pull * (h0 @ dv + h1 @ v),
                ]
            )

        return _solved(field, np.concatenate([*self.start, np.zeros(4)]), t).reshape(4, 2)

    def first_order(self, t: float) -> float:
        """f¹(t) = ∂f/∂ε by an ODE solver."""
        v, w, dv, dw = self.sensitivity(t)
        h0, h1 = self.matrix, self.context * self.query
        return float(dv @ h0 @ w + v @ h0 @ dw + v @ h1 @ w)


def flow(
    matrix: np.ndarray,
    v: np.ndarray,
    w: np.ndarray,
    target: float,
    t: float,
    *,
    moves: Any = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """v(t), w(t) of (9) at # = N by an ODE solver, for any symmetric H.

    Args:
        matrix: H.
        v, w: the start.
        target: Λ.
        t: time.
        moves: 1 for every entry of v and w, two rows, that is not held.
    """

    def field(_: float, y: np.ndarray) -> np.ndarray:
        v, w = y.reshape(2, -1)
        pull = v @ matrix @ w - target
        return -pull * (moves * np.stack([matrix @ w, matrix @ v])).ravel()

    v, w = _solved(field, np.concatenate([v, w]), t).reshape(2, -1)
    return v, w


def _solved(field: Any, start: np.ndarray, t: float) -> np.ndarray:
    """Where an ODE leads in a time, to 13 digits a step."""
    if t == 0.0:
        return start
    found = solve_ivp(field, (0.0, t), start, method="DOP853", rtol=1e-13, atol=1e-18)
    if not found.success:
        raise RuntimeError(found.message)
    return found.y[:, -1]


def riccati(field: Any, start: tuple[float, float], t: float) -> np.ndarray:
    """G and h after a time, by an ODE solver from equations ``field(g, h) -> (ġ, ḣ)``."""
    return _solved(lambda _, y: np.asarray(field(*y)), np.asarray(start), t)
