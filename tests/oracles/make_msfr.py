"""Make tests/oracles/msfr.json: 50-digit values of the gradient flow of one MSFR task.

The task: `f = v^T H w`, `vdot = -p (f - L) H w`, `wdot = -p (f - L) H v`, with L the strength,
p the weight, psi the context and

    zeroth   H = psi (1, L)^T (1, L)
    exact    H = psi (1, L)^T (1, L) + diag(1, 0)
    first    f = f0 + f1 / psi,  f1 = df/deps at 0 for H = psi [(1, L)^T (1, L) + eps diag(1, 0)]

`eta = v + w` and `rho = v - w` share one clock, `taudot = p (L - f)`, so that
`f(tau) = sum_i c_i e^{2 mu_i tau} - d_i e^{-2 mu_i tau}`, `c_i, d_i = mu_i (eta_i^2, rho_i^2) / 4`
over the modes of H. Everything below works in the frame `f < L` (else swap eta and rho, and change
the signs of f and L).

Nothing is imported from the project. Every number is computed at W and at 2W digits, and W doubled
until 52 digits agree.

    python tests/oracles/make_msfr.py            # writes the table
    python tests/oracles/make_msfr.py --check    # compares the methods with independent ones
"""

import argparse
import json
import math
import random
import time
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

from digits import DIGITS, agreed, written
from mpmath import mp, mpf

SKIP_BELOW = mpf(10) ** -150
TABLE = Path(__file__).with_name("msfr.json")


@dataclass(frozen=True)
class Start:
    """The inputs of one trajectory: IEEE doubles, taken exactly."""

    case: str
    context: float
    strength: float
    v: tuple[float, float]
    w: tuple[float, float]
    weight: float = 1.0

    @property
    def rate(self) -> float:
        """`a = p psi (1 + L^2)`."""
        return self.weight * self.context * (1 + self.strength**2)

    def initial_prediction(self, order: str) -> Fraction:
        """`f(0) = v^T H w`, as a rational number; H lacks diag(1, 0) at order zero."""
        psi, lam = Fraction(self.context), Fraction(self.strength)
        (v1, v2), (w1, w2) = map(Fraction, self.v), map(Fraction, self.w)
        zeroth = psi * (v1 + lam * v2) * (w1 + lam * w2)
        return zeroth if order == "zeroth" else zeroth + v1 * w1

    def overlaps(self) -> tuple[Fraction, Fraction]:
        """`g, h = psi (q_v +- q_w)^2` with `q = (1, L) . (v or w)`, as rational numbers."""
        psi, lam = Fraction(self.context), Fraction(self.strength)
        (v1, v2), (w1, w2) = map(Fraction, self.v), map(Fraction, self.w)
        q_v, q_w = v1 + lam * v2, w1 + lam * w2
        return psi * (q_v + q_w) ** 2, psi * (q_v - q_w) ** 2


def real(value: Fraction) -> mpf:
    """A rational number at the working precision."""
    return mpf(value.numerator) / value.denominator


# ---------------------------------------------------------------- quadrature


@cache
def legendre_rule(order: int, precision: int) -> list[tuple[mpf, mpf]]:
    """Gauss-Legendre nodes and weights on [0, 1] at `precision` bits: Newton on `P_order`."""
    rule = []
    for j in range(1, order // 2 + 1):
        x = mpf(math.cos(math.pi * (j - 0.25) / (order + 0.5)))
        step = mpf(1)
        while abs(step) > mpf(2) ** (-precision // 2 - 5):
            below, here = mpf(1), x
            for k in range(2, order + 1):
                below, here = here, ((2 * k - 1) * x * here - (k - 1) * below) / k
            slope = order * (x * here - below) / (x * x - 1)
            step = here / slope
            x -= step
        below, here = mpf(1), x
        for k in range(2, order + 1):
            below, here = here, ((2 * k - 1) * x * here - (k - 1) * below) / k
        slope = order * (x * here - below) / (x * x - 1)
        weight = 1 / ((1 - x * x) * slope**2)
        rule += [((1 - x) / 2, weight), ((1 + x) / 2, weight)]
    return rule


def integrate(integrand, low: mpf, high: mpf) -> mpf:
    """`int_low^high` by Gauss-Legendre of 12, 24, 48 ... nodes; halved where they disagree."""
    if low == high:
        return mpf(0)
    width = high - low
    order, last = 12, None
    while True:
        values = [
            (weight, integrand(low + width * x)) for x, weight in legendre_rule(order, mp.prec)
        ]
        total = mp.fdot(values)
        scale = max(abs(value) for _, value in values)
        if last is not None:
            # doubling the nodes squares the error of an analytic integrand
            difference = abs(total - last)
            if difference == 0 or scale == 0 or (difference / scale) ** 1.8 < mp.eps:
                return width * total
        if order > mp.dps:
            middle = low + width / 2
            return integrate(integrand, low, middle) + integrate(integrand, middle, high)
        order, last = 2 * order, total


class PathIntegral:
    """`I(s) = direction int_edge0^s integrand`; each panel between edges is summed once."""

    def __init__(self, integrand, edges, direction, extend=None):
        self.integrand, self.edges = integrand, list(edges)
        self.direction, self.extend = direction, extend
        self.sums = [mpf(0)]

    def sum_to(self, index: int) -> mpf:
        """The integral up to edge `index`."""
        while len(self.edges) <= index:
            self.edges.append(self.extend(self.edges[-1]))
        while len(self.sums) <= index:
            k = len(self.sums)
            panel = integrate(self.integrand, self.edges[k - 1], self.edges[k])
            self.sums.append(self.sums[-1] + self.direction * panel)
        return self.sums[index]

    def index_before(self, s: mpf) -> int:
        """The last edge passed on the way to s."""
        index = 0
        while True:
            while len(self.edges) <= index + 1 and self.extend:
                self.edges.append(self.extend(self.edges[-1]))
            if index + 1 >= len(self.edges):
                return index
            if (s - self.edges[index + 1]) * self.direction < 0:
                return index
            index += 1

    def __call__(self, s: mpf) -> mpf:
        index = self.index_before(s)
        part = integrate(self.integrand, self.edges[index], s)
        return self.sum_to(index) + self.direction * part


class PoleIntegral:
    """`I(delta) = int_delta^start top / gap`, where gap has a simple zero at 0.

    Below `near` the pole is split off: `top / gap = top(0) / (gap'(0) delta) + regular`.
    """

    def __init__(self, top, gap, top_at_zero, slope, start, near):
        self.residue, self.near = top_at_zero / slope, min(near, start)
        edges = [start]
        doubled = [self.near]
        while 2 * doubled[-1] < start:
            doubled.append(2 * doubled[-1])
        edges += [edge for edge in reversed(doubled) if edge < start]
        self.outer = PathIntegral(lambda delta: top(delta) / gap(delta), edges, -1)
        self.regular = lambda delta: top(delta) / gap(delta) - self.residue / delta

    def at_near(self) -> mpf:
        return self.outer.sum_to(len(self.outer.edges) - 1)

    def __call__(self, delta: mpf) -> mpf:
        if delta >= self.near:
            return self.outer(delta)
        pole = self.residue * mp.log(self.near / delta)
        return self.at_near() + pole + integrate(self.regular, delta, self.near)


# ---------------------------------------------------------------- exact: the clock of any 2 x 2 H


def modes(h11, h12, h22, start: Start) -> list[tuple[mpf, mpf, mpf]]:
    """`(mu_i, c_i, d_i)` of [[h11, h12], [h12, h22]]: `c, d = mu_i (eta_i^2, rho_i^2) / 4`."""
    determinant = h11 * h22 - h12**2
    large = (h11 + h22 + mp.sqrt((h11 - h22) ** 2 + 4 * h12**2)) / 2
    slope = h12 / (large - h22)
    norm = 1 + slope**2
    eta = [mpf(x) + mpf(y) for x, y in zip(start.v, start.w, strict=True)]
    rho = [mpf(x) - mpf(y) for x, y in zip(start.v, start.w, strict=True)]
    found = []
    for mu, axis in ((large, (mpf(1), slope)), (determinant / large, (-slope, mpf(1)))):
        c, d = (mu * (axis[0] * x[0] + axis[1] * x[1]) ** 2 / norm / 4 for x in (eta, rho))
        if c != 0 or d != 0:
            found.append((mu, c, d))
    return found


def perturbed_modes(start: Start, epsilon) -> list[tuple[mpf, mpf, mpf]]:
    """The modes of `H = psi [(1, L)^T (1, L) + epsilon diag(1, 0)]`."""
    psi, lam = mpf(start.context), mpf(start.strength)
    return modes(psi * (1 + epsilon), psi * lam, psi * lam**2, start)


def exact_modes(start: Start) -> list[tuple[mpf, mpf, mpf]]:
    """The modes of `H = [[psi + 1, psi L], [psi L, psi L^2]]`."""
    psi, lam = mpf(start.context), mpf(start.strength)
    return modes(psi + 1, psi * lam, psi * lam**2, start)


class Clock:
    """Inverts `p t = int_0^tau dtau' / (L - f(tau'))`.

    The place on the path is `delta = tau* - tau` where f reaches L at a finite tau*, else tau.
    """

    def __init__(self, mode_list, strength: mpf, above: bool):
        self.sign = -1 if above else 1
        self.target = self.sign * strength
        self.modes = [(mu, d, c) for mu, c, d in mode_list] if above else mode_list
        self.rising = any(c != 0 for _, c, _ in self.modes)
        self.falling = any(d != 0 for _, _, d in self.modes)
        self.at_rest = not (self.rising or self.falling)
        if self.at_rest:
            return
        fastest = max(abs(mu) for mu, _, _ in self.modes)
        self.has_pole = self.rising or self.target < 0
        if self.has_pole:
            self.end = self.find_end(fastest)
            self.weights = [
                (mu, c * mp.exp(2 * mu * self.end), d * mp.exp(-2 * mu * self.end))
                for mu, c, d in self.modes
            ]
            self.slope = 2 * sum(mu * (c + d) for mu, c, d in self.weights)
            near = 1 / (4 * fastest)
            self.elapsed = PoleIntegral(
                lambda _: mpf(1), self.gap, mpf(1), self.slope, self.end, near
            )
        else:
            edges, double = [mpf(0), 1 / (4 * fastest)], lambda edge: 2 * edge
            self.elapsed = PathIntegral(lambda tau: 1 / self.gap(tau), edges, 1, double)

    def prediction_at_clock(self, tau: mpf) -> mpf:
        """`f(tau) = sum c e^{2 mu tau} - d e^{-2 mu tau}` in the frame f < L."""
        total = mpf(0)
        for mu, c, d in self.modes:
            growth = mp.exp(2 * mu * tau)
            total += c * growth - d / growth
        return total

    def find_end(self, fastest: mpf) -> mpf:
        """The tau* > 0 with `f(tau*) = L`: bracket, bisect, then Newton."""
        high = 1 / fastest
        while self.prediction_at_clock(high) < self.target:
            high *= 2
        low = high / 2
        while self.prediction_at_clock(low) > self.target:
            low, high = low / 2, low
        for _ in range(40):
            middle = (low + high) / 2
            if self.prediction_at_clock(middle) < self.target:
                low = middle
            else:
                high = middle
        tau = (low + high) / 2
        for _ in range(100):
            slope = mpf(0)
            for mu, c, d in self.modes:
                growth = mp.exp(2 * mu * tau)
                slope += 2 * mu * (c * growth + d / growth)
            step = (self.target - self.prediction_at_clock(tau)) / slope
            tau += step
            if abs(step) < tau * mpf(10) ** (-mp.dps // 2 - 5):
                return tau
        raise ArithmeticError("Newton for tau* did not converge")

    def gap(self, place: mpf) -> mpf:
        """`L - f >= 0`, without cancellation at the pole."""
        if not self.has_pole:
            return self.target - self.prediction_at_clock(place)
        total = mpf(0)
        for mu, c, d in self.weights:
            growth = mp.expm1(2 * mu * place)
            total += c * growth / (1 + growth) + d * growth
        return total

    def tau(self, place: mpf) -> mpf:
        return self.end - place if self.has_pole else place

    def bracket(self, elapsed: mpf) -> tuple[mpf, mpf, mpf]:
        """Places before and after the time, and a first guess."""
        if self.has_pole:
            path = self.elapsed.outer
            if elapsed > self.elapsed.at_near():
                near = self.elapsed.near
                tail = integrate(self.elapsed.regular, mpf(0), near)
                late = elapsed - self.elapsed.at_near() - tail
                guess = near * mp.exp(-self.slope * late)
                return near, mpf(0), min(guess, near)
        else:
            path = self.elapsed
        index = 0
        while path.sum_to(index + 1) < elapsed:
            index += 1
        before, after = path.edges[index], path.edges[index + 1]
        early = (elapsed - path.sum_to(index)) * self.gap(before)
        guess = before + path.direction * early
        inside = (guess - before) * (guess - after) < 0
        return before, after, guess if inside else (before + after) / 2

    def place_at(self, elapsed: mpf, guess: mpf | None = None) -> mpf:
        """The place where the integral equals `elapsed = p t`: safeguarded Newton."""
        before = after = None
        if guess is None:
            before, after, guess = self.bracket(elapsed)
        place = guess
        for _ in range(200):
            late = self.elapsed(place) - elapsed
            if late > 0:
                after = place
            else:
                before = place
            step = late * self.gap(place)
            if self.has_pole:
                following = place * mp.exp(step / place) if abs(step) < 50 * place else mpf(-1)
            else:
                following = place - step
            if abs(step) < place * mpf(10) ** (-mp.dps // 2 - 5):
                return following
            outside = following <= 0
            if before is not None and after is not None:
                outside = outside or (following - before) * (following - after) >= 0
            if outside:
                following = (before + after) / 2
            place = following
        raise ArithmeticError("Newton for tau(t) did not converge")

    def values(self, place: mpf) -> tuple[mpf, mpf]:
        """`f` and `f - L` in the original frame."""
        residual = -self.gap(place)
        # at L = 0 the sum of exponentials cancels as f -> 0
        f = self.prediction_at_clock(self.tau(place)) if self.target else residual
        return self.sign * f, self.sign * residual


def exact_clock(start: Start) -> Clock:
    above = start.initial_prediction("exact") > Fraction(start.strength)
    return Clock(exact_modes(start), mpf(start.strength), above)


def is_algebraic(clock: Clock) -> bool:
    """L = 0 with one of eta, rho zero: f falls like 1/t."""
    return not clock.at_rest and not clock.has_pole and clock.target == 0


def exact_rows(start: Start, times: list[float], places: dict) -> list[tuple[mpf, ...]]:
    """`(f, f - L, f(0))` of the exact H; `places` keeps first guesses between precisions."""
    initial, strength = start.initial_prediction("exact"), Fraction(start.strength)
    f_start, lam = real(initial), mpf(start.strength)
    if initial == strength:
        return [(f_start, mpf(0), f_start) for _ in times]
    clock = exact_clock(start)
    rows = []
    for t in times:
        elapsed = mpf(start.weight) * mpf(t)
        if clock.at_rest or t == 0:
            f, residual = f_start, real(initial - strength)
        elif is_algebraic(clock):
            # one mode: fdot = -2 p mu f |f|
            f = f_start / (1 + 2 * elapsed * clock.modes[0][0] * abs(f_start))
            residual = f - lam
        else:
            places[t] = clock.place_at(elapsed, places.get(t))
            f, residual = clock.values(places[t])
        rows.append((f, residual, f_start))
    return rows


# ------------------------------------------------ zeroth: Riccati's equation for e^{2 mu tau}


class Riccati:
    """One mode: `x = e^{2 mu tau}`, `f = (g x - h / x) / 4`, `dx/d(at) = -(g x^2 - 4 L x - h) / 2`.

    With the roots x+ > 0 >= x-, `y = (x - x+) / (x - x-)` decays as `e^{-S a t}`,
    `S = sqrt(4 L^2 + g h)`. In the frame f < L. Saddles (g = 0, L >= 0) have no root x+ to go to.
    """

    def __init__(self, start: Start):
        g, h = start.overlaps()
        strength = Fraction(start.strength)
        self.at_target = g - h == 4 * strength
        self.above = g - h > 4 * strength
        self.sign = -1 if self.above else 1
        if self.above:
            g, h = h, g
        self.g, self.h, self.target = real(g), real(h), self.sign * real(strength)
        self.at_rest = self.g == 0 and self.h == 0
        self.has_root = self.g > 0 or (self.h > 0 and self.target < 0)
        lam, spread = self.target, mp.sqrt(4 * self.target**2 + self.g * self.h)
        self.spread = spread
        if self.g > 0 and not self.at_target:
            if lam >= 0:
                self.upper, self.lower = (2 * lam + spread) / self.g, -self.h / (2 * lam + spread)
            else:
                self.upper, self.lower = self.h / (spread - 2 * lam), (2 * lam - spread) / self.g
            self.ratio = (1 - self.upper) / (1 - self.lower)
        elif self.g == 0 and self.h > 0 and lam != 0:
            self.upper = -self.h / (4 * lam)

    def values(self, at: mpf) -> tuple[mpf, mpf, mpf, mpf]:
        """`f`, `f - L` as given; log x and `log(x+ / x)` (None at saddles) in the frame f < L."""
        g, h, lam = self.g, self.h, self.target
        if self.at_rest or self.at_target:
            f = (g - h) / 4
            return self.sign * f, self.sign * (f - lam), mpf(0), None
        if g > 0:
            y = self.ratio * mp.exp(-self.spread * at)
            between = self.upper - self.lower
            x = (self.upper - y * self.lower) / (1 - y)
            f = (g * x - h / x) / 4
            residual = g * between**2 * y / (4 * (1 - y) * (self.upper - y * self.lower))
            remaining = mp.log1p(-y * between / (self.upper - y * self.lower))
            return self.sign * f, self.sign * residual, mp.log(x), remaining
        if lam == 0:
            x = 1 + h * at / 2
            f = -h / (4 * x)
            return self.sign * f, self.sign * f, mp.log(x), None
        growth = mp.exp(2 * lam * at)
        x = growth * (1 - self.upper) + self.upper
        f = -h / (4 * x)
        residual = -(h / 4 + lam) * growth / x
        remaining = -mp.log1p((1 / self.upper - 1) * growth) if self.has_root else None
        return self.sign * f, self.sign * residual, mp.log(x), remaining


def scaled_time(start: Start, t) -> mpf:
    """`a t = p psi (1 + L^2) t` at the working precision."""
    return mpf(start.weight) * mpf(start.context) * (1 + mpf(start.strength) ** 2) * mpf(t)


def zeroth_rows(start: Start, times: list[float], _places: dict) -> list[tuple[mpf, ...]]:
    """`(f, f - L, f(0))` at order zero."""
    solution = Riccati(start)
    f_start = real(start.initial_prediction("zeroth"))
    rows = []
    for t in times:
        f, residual, _, _ = solution.values(scaled_time(start, t))
        rows.append((f, residual, f_start))
    return rows


# ------------------------------------------------ first: the derivative in eps at eps = 0


class FirstOrder:
    """`f1 = G + f' dtau/deps`, `G = d f(tau) / d eps` at fixed clock, in the frame f < L.

    Fixed t gives `dtau/deps = -F int G / F^2`, `F = L - f`; by parts, in the clock `e = 2 mu tau`,
    `f1 = f' F { G(0) / (f'(0) F(0)) + int_0^e (G / f')' / F }`, which does not cancel as F -> 0.
    G has the divided differences of `mu e^{2 mu tau}` at the eigenvalues of psi H0, mu and 0.
    """

    def __init__(self, start: Start):
        psi, lam = mpf(start.context), mpf(start.strength)
        self.zeroth = Riccati(start)
        norm = 1 + lam**2
        mu = psi * norm
        eta = [mpf(x) + mpf(y) for x, y in zip(start.v, start.w, strict=True)]
        rho = [mpf(x) - mpf(y) for x, y in zip(start.v, start.w, strict=True)]
        if self.zeroth.above:
            eta, rho = rho, eta
        (eta1, eta2), (rho1, rho2) = (
            ((x[0] + lam * x[1]) / mp.sqrt(norm), (x[1] - lam * x[0]) / mp.sqrt(norm))
            for x in (eta, rho)
        )
        along, across, kernel = psi / norm, -psi * lam / norm, psi * lam**2 / norm
        self.mu, self.c, self.d = mu, self.zeroth.g / 4, self.zeroth.h / 4
        self.up, self.down = eta1**2 * along / 4, rho1**2 * along / 4
        self.mix_up, self.mix_down = eta1 * eta2 * across / 2, rho1 * rho2 * across / 2
        self.still = (eta2**2 - rho2**2) * kernel / 4
        self.path = None
        if self.zeroth.at_rest or self.zeroth.at_target:
            return
        if self.zeroth.has_root:
            self.end = mp.log(self.zeroth.upper)
            self.c_end, self.d_end = self.c * self.zeroth.upper, self.d / self.zeroth.upper
            self.path = PoleIntegral(
                lambda delta: self.top(self.end - delta),
                self.gap,
                self.top(self.end),
                self.c_end + self.d_end,
                self.end,
                mpf(1) / 4,
            )
        else:
            edges, double = [mpf(0), mpf(1) / 2], lambda edge: 2 * edge
            self.path = PathIntegral(lambda e: self.top(e) / self.gap(e), edges, 1, double)

    def gap(self, place: mpf) -> mpf:
        """`F = L - f` at `delta = e* - e`, or at e for a saddle."""
        if self.zeroth.has_root:
            growth = mp.expm1(place)
            return self.c_end * growth / (1 + growth) + self.d_end * growth
        return self.zeroth.target + self.d * mp.exp(-place)

    def derivative_at_clock(self, e: mpf, x: mpf) -> tuple[mpf, mpf]:
        """G and dG/de at `x = e^e`."""
        up, down = x, 1 / x
        value = (self.up * (1 + e) + self.mix_up) * up + self.still
        value -= (self.down * (1 - e) + self.mix_down) * down
        slope = (self.up * (2 + e) + self.mix_up) * up
        slope += (self.down * (2 - e) + self.mix_down) * down
        return value, slope

    def top(self, e: mpf) -> mpf:
        """`(G / f')'` with `f' = c x + d / x`, `f'' = f`."""
        x = mp.exp(e)
        value, slope = self.derivative_at_clock(e, x)
        f, f_slope = self.c * x - self.d / x, self.c * x + self.d / x
        return (slope * f_slope - value * f) / f_slope**2

    def value(self, start: Start, t) -> mpf:
        """`f1(t)` in the original frame."""
        at_start, _ = self.derivative_at_clock(mpf(0), mpf(1))
        if self.zeroth.at_rest:
            return self.zeroth.sign * at_start
        at = scaled_time(start, t)
        if self.zeroth.at_target:
            return self.zeroth.sign * at_start * mp.exp(-2 * at * (self.c + self.d))
        _, residual, e, remaining = self.zeroth.values(at)
        x = mp.exp(e)
        place = remaining if self.zeroth.has_root else e
        integral = self.path(place) if t else mpf(0)
        gap_start = self.zeroth.target - (self.c - self.d)
        total = at_start / ((self.c + self.d) * gap_start) + integral
        return self.zeroth.sign * (self.c * x + self.d / x) * abs(residual) * total


def first_rows(start: Start, times: list[float], _places: dict) -> list[tuple[mpf, ...]]:
    """`(f, f - L, f(0))` with `f = f0 + f1 / psi`."""
    solution = FirstOrder(start)
    psi = mpf(start.context)
    f_start = real(start.initial_prediction("first"))
    rows = []
    for t in times:
        f, residual, _, _ = solution.zeroth.values(scaled_time(start, t))
        correction = solution.value(start, t) / psi
        rows.append((f + correction, residual + correction, f_start))
    return rows


ROWS = {"zeroth": zeroth_rows, "exact": exact_rows, "first": first_rows}


# ---------------------------------------------------------------- which starts, which times


def scaled_to(order: str, start: Start, relative: float) -> Start:
    """The start with w scaled so that `f(0) = L (1 + relative)` up to the rounding of w."""
    wanted = Fraction(start.strength) * (1 + Fraction(relative))
    factor = wanted / start.initial_prediction(order)
    w = tuple(float(Fraction(x) * factor) for x in start.w)
    return Start(start.case, start.context, start.strength, start.v, w, start.weight)


def uniform(case, context, strength, v, w, weight=1.0) -> Start:
    return Start(case, float(context), float(strength), (v, v), (w, w), weight)


def edge_starts(order: str) -> list[Start]:
    """Every edge of the dynamics; f(0) -> L depends on the order's f(0)."""
    starts = [uniform("generic", 100, 0.5, 0.1, 0.11, p) for p in (1e-6, 1e-3, 0.37, 1.0)]
    starts += [uniform("balanced", 100, 0.5, v, v) for v in (0.1, 1e-5)]
    starts += [uniform("balanced", 5, 2.0, 0.3, 0.3, 0.01)]
    starts += [uniform("C to 0", 100, 0.5, 0.1, 0.1 * (1 + tiny)) for tiny in (1e-3, 1e-8, 1e-15)]
    starts += [uniform("C to 0", 2, -0.5, 0.1, 0.1 * (1 + 1e-8))]
    for relative in (1e-3, 1e-8, 1e-14):
        for side in (-1, 1):
            near = uniform("f0 to L", 100, 0.5, 0.1, 0.11, 0.5)
            starts.append(scaled_to(order, near, side * relative))
    starts += [scaled_to(order, uniform("f0 to L", 5, -0.7, 0.2, -0.3), 1e-8)]
    starts += equilibria(order)
    starts += [uniform("f0 to 0", 100, 0.5, A, 1.1 * A) for A in (1e-5, 1e-20, 1e-100)]
    starts += [uniform("f0 to 0", 100, 0.5, 1e-100, 1e-100), uniform("f0 to 0", 5, 0.5, 1e-20, 0.3)]
    starts += [uniform("f0 to 0", 5, -0.5, 1e-20, 1.1e-20)]
    starts += [uniform("f0 above L", 100, 0.5, 0.3, 0.33), uniform("f0 above L", 5, 0.5, 0.6, 0.5)]
    starts += [
        uniform("f0 negative", 100, 0.5, -0.09, 0.1),
        uniform("f0 negative", 5, 2.0, -0.9, 1.0),
    ]
    starts += [
        uniform("f0 much larger", 1e4, 0.5, -3.0, 3.3),
        uniform("f0 much larger", 1e4, 0.5, 3.0, 3.3),
        uniform("f0 much larger", 100, 1e-3, -2.7, 3.0),
        uniform("f0 much larger", 100, 1e-3, 3.0, 3.0),
    ]
    starts += [
        uniform("saddle", 100, 0.5, -0.1, 0.1),
        uniform("saddle", 5, 2.0, -0.3, 0.3, 0.01),
        uniform("saddle", 100, -0.5, 0.1, 0.1),
        uniform("saddle", 1, -2.0, 0.3, 0.3, 0.1),
    ]
    for tiny in (1e-6, 1e-12, 2.0**-52):
        starts += [uniform("near saddle", 100, 0.5, -0.1, 0.1 * (1 + tiny))]
        starts += [uniform("near saddle", 5, -0.5, 0.1 * (1 + tiny), 0.1)]
    for lam in (1e-3, 1e-8, 1e-30):
        starts += [
            uniform("L to 0", 100, lam, 0.1, 0.11),
            uniform("L to 0", 100, lam, 0.1, 0.1),
            uniform("L to 0", 5, -lam, 0.1, 0.11),
        ]
    starts += [uniform("L to 0", 5, 1e-8, -0.1, 0.1)]
    starts += [
        uniform("L zero, balanced", 100, 0.0, 0.1, 0.1),
        uniform("L zero, balanced", 5, 0.0, -0.3, 0.3, 0.1),
        uniform("L zero", 100, 0.0, 0.1, 0.11),
        uniform("L zero", 5, 0.0, -0.3, 0.2),
        Start("L zero", 5.0, 0.0, (0.1, 0.4), (0.3, -0.2)),
    ]
    starts += [uniform("L negative", psi, lam, 0.1, 0.11) for psi, lam in ((100, -0.5), (5, -2.0))]
    starts += [uniform("uniform, L = -1", psi, -1.0, 0.1, 0.11) for psi in (5, 100)]
    starts += [uniform("uniform, L to -1", psi, -1 + 1e-9, 0.1, 0.11) for psi in (5, 100)]
    starts += [
        uniform("L large", 100, lam, A, 1.1 * A)
        for lam, A in ((1e3, 1e-4), (1e6, 1e-4), (-1e3, 0.1), (-1e6, 1e-7), (1e3, 0.1))
    ]
    for psi in (0.3, 1.0, 2.0, 5.0, 1e6, 1e9):
        starts += [uniform(f"context {psi:g}", psi, 0.5, 0.1, 0.11)]
    for psi in (1e6, 1e9):
        starts += [uniform(f"context {psi:g}", psi, 0.5, 0.1 / psi**0.5, 0.11 / psi**0.5)]
    for psi, lam in ((5.0, 0.5), (100.0, -0.7), (1.0, 2.0)):
        starts += [
            Start("non-uniform", psi, lam, (0.0, 0.3), (0.2, 0.0)),
            Start("non-uniform", psi, lam, (0.3, -0.7), (-0.2, 0.5)),
        ]
    starts += [
        Start("non-uniform", 0.3, 0.5, (0.3, -0.7), (-0.2, 0.5)),
        Start("non-uniform", 1e6, 0.5, (0.3, -0.7), (-0.2, 0.5)),
        Start("saddle of order zero", 5.0, 1.0, (0.5, 0.25), (-0.25, -0.5)),
        Start("saddle of order zero", 5.0, -1.0, (0.5, 0.25), (0.75, 0.5)),
        Start("still at order zero", 5.0, 2.0, (-0.5, 0.25), (0.25, -0.125)),
        Start("one factor zero", 5.0, 0.5, (0.0, 0.0), (0.2, 0.1)),
        Start("one factor zero", 100.0, -0.5, (0.1, 0.1), (0.0, 0.0)),
    ]
    starts += [uniform("zero", 100, lam, 0.0, 0.0) for lam in (0.5, -0.5)]
    starts += [
        uniform("large", 100, 0.5, 30.0, 33.0),
        uniform("large", 5, 0.5, 30.0, -30.0 * (1 - 1e-3)),
        uniform("large", 1, -0.5, 30.0, 30.0 * (1 + 1e-9)),
        Start("large", 5.0, 0.5, (30.0, -60.0), (20.0, 10.0)),
    ]
    return starts


def equilibria(order: str) -> list[Start]:
    """Starts with f(0) = L in exact arithmetic."""
    if order == "exact":
        return [
            Start("f0 equals L", 1.0, 0.5, (0.5, 0.0), (0.5, 0.0)),
            Start("f0 equals L", 3.0, -2.0, (-1.0, 0.0), (0.5, 0.0)),
            Start("f0 equals L", 5.0, 0.0, (0.0, 0.3), (0.2, 0.0)),
        ]
    return [
        Start("f0 equals L", 1.0, 0.5, (1.0, 0.0), (0.5, 0.0)),
        Start("f0 equals L", 4.0, 1.0, (0.25, 0.25), (0.25, 0.25)),
        Start("f0 equals L", 5.0, 0.0, (0.0, 0.3), (0.2, 0.0)),
    ]


def first_starts() -> list[Start]:
    """Inits along (1, L), where App. J has a formula, and a choice of the edges."""
    along = [
        Start("along (1, L)", psi, lam, (A, A * lam), (B, B * lam), p)
        for psi, lam, A, B, p in (
            (100.0, 0.5, 0.125, 0.1875, 1.0),
            (5.0, 0.5, 0.125, 0.1875, 0.01),
            (20.0, 2.0, -0.125, 0.25, 1.0),
            (100.0, -0.5, 0.125, 0.1875, 1.0),
            (1000.0, 0.25, 0.5, 0.75, 1.0),
            (2.0, 1.0, 0.5, -0.25, 1.0),
        )
    ]
    chosen = Counter()
    edges = []
    for start in edge_starts("first"):
        chosen[start.case] += 1
        if chosen[start.case] <= 2 or start.case in ("f0 to L", "saddle", "L to 0", "non-uniform"):
            edges.append(start)
    return along + edges


RATES = (1e-12, 1e-6, 1e-3, 0.1, 10.0, 1e3, 1e6)
RATIOS = (0.5, 1e-2, 1e-9, 1e-40)
DEEPEST = 1e-145
LATEST = 1e45


def short(t: mpf) -> float:
    """A double with four significant decimal digits near t."""
    return float(mp.nstr(t, 4))


def bisect_log(below_target, low: mpf, high: mpf) -> mpf:
    """The place in (low, high) where `below_target` turns true, to five digits in log scale."""
    low, high = mp.log(low), mp.log(high)
    while high - low > 1e-5:
        middle = (low + high) / 2
        if below_target(mp.exp(middle)):
            high = middle
        else:
            low = middle
    return mp.exp(high)


def transition_times(start: Start, order: str) -> list[mpf]:
    """When |f - L|, or |f| at a saddle, has fallen to the RATIOS of its start and to DEEPEST."""
    initial = start.initial_prediction("exact" if order == "exact" else "zeroth")
    distance = abs(real(initial - Fraction(start.strength)))
    if distance == 0:
        return []
    if order == "exact":
        clock = exact_clock(start)
        if clock.at_rest:
            return []
        pole = clock.has_pole or is_algebraic(clock)

        def size_at(t):
            f, residual, _ = exact_rows(start, [t], {})[0]
            return abs(residual if pole else f)
    else:
        solution = Riccati(start)
        if solution.at_rest:
            return []
        pole = solution.has_root or solution.target == 0

        def size_at(t):
            f, residual, _, _ = solution.values(scaled_time(start, t))
            return abs(residual if pole else f)

    first = distance if pole else abs(real(initial))
    sizes = [first * ratio for ratio in RATIOS] + [mpf(DEEPEST)]
    if order == "exact" and clock.has_pole:
        found = []
        for size in sizes:
            place = bisect_log(
                lambda s, size=size: clock.gap(s) > size, clock.end * mpf(10) ** -400, clock.end
            )
            found.append(clock.elapsed(place) / mpf(start.weight))
        return found
    early, late = mpf(1e-20) / start.rate, mpf(1e60) / start.rate
    if order == "exact":
        early, late = mpf(1e-8) / start.rate, mpf(1e8) / start.rate
    return [
        bisect_log(lambda t, size=size: size_at(t) < size, early, late)
        for size in sizes
        if size < first
    ]


def sample_times(start: Start, order: str) -> list[float]:
    """The doubles t for one start: a t over 18 decades and the transition, no two within 2 %."""
    with mp.workdps(45):
        wanted = [mpf(x) / start.rate for x in RATES] + transition_times(start, order)
    if order == "first" and not Riccati(start).has_root:
        wanted = [t for t in wanted if t * start.rate * abs(start.strength) < 800]
    times: list[float] = []
    for t in sorted(short(t) for t in wanted):
        if t * start.rate <= LATEST and (not times or t > 1.02 * times[-1]):
            times.append(t)
    return times


def survives(start: Start, order: str, times: list[float]) -> list[float]:
    """The times before the residual falls under 1e-150, judged by the decay rate at L."""
    if order != "exact":
        return times
    with mp.workdps(45):
        if start.initial_prediction("exact") == Fraction(start.strength):
            return times
        clock = exact_clock(start)
        if clock.at_rest or not clock.has_pole:
            return times
        smallest = bisect_log(
            lambda s: clock.gap(s) > SKIP_BELOW, clock.end * mpf(10) ** -400, clock.end
        )
        last = clock.elapsed(smallest) / mpf(start.weight)
        return [t for t in times if t < last]


# ---------------------------------------------------------------- the table


def points_of(start: Start, order: str) -> list[dict]:
    """The points of one trajectory."""
    times = survives(start, order, sample_times(start, order))
    places: dict[float, mpf] = {}
    rows = agreed(lambda: ROWS[order](start, times, places))
    points = []
    for t, (f, residual, f_start) in zip(times, rows, strict=True):
        if residual != 0 and abs(residual) < SKIP_BELOW:
            continue
        points.append(
            {
                "case": start.case,
                "order": order,
                "context": start.context,
                "strength": start.strength,
                "v": list(start.v),
                "w": list(start.w),
                "weight": start.weight,
                "t": t,
                "f": written(f),
                "residual": written(residual),
                "f0": written(f_start),
            }
        )
    return points


def task_law(num_tasks: int, alpha: float) -> list[mpf]:
    """`p_s = s^-alpha / sum_s s^-alpha`."""
    powers = [mpf(s) ** -mpf(alpha) for s in range(1, num_tasks + 1)]
    return [power / mp.fsum(powers) for power in powers]


def binomial_law(number: int, p: mpf) -> list[mpf]:
    """`P(k) = C(n, k) p^k (1 - p)^(n - k)`, k = 0 ... n."""
    ratio = p / (1 - p)
    law = [(1 - p) ** number]
    for k in range(number):
        law.append(law[-1] * ratio * (number - k) / (k + 1))
    return law


SUM_LAWS = {"num_tasks": 5, "alpha": 1.8, "context": 20.0, "strength": 0.5, "v": 0.1, "w": 0.11}


def finite_data_losses() -> list[dict]:
    """`1/2 sum_s p_s E_k (f_s(t; k/N) - L)^2`, `k ~ Binomial(N, p_s)`; f_s = f(0) at s >= D."""
    start = uniform("sum", SUM_LAWS["context"], SUM_LAWS["strength"], SUM_LAWS["v"], SUM_LAWS["w"])
    counts, sizes, times = (1, 3, 40, 300, 5000), (None, 3), (1e-2, 0.3, 10.0, 1e3)

    def compute():
        solution = Riccati(start)
        law = task_law(SUM_LAWS["num_tasks"], SUM_LAWS["alpha"])
        losses = []
        for data in counts:
            spread = [binomial_law(data, p) for p in law]
            for t in times:
                squares = [
                    solution.values(scaled_time(start, t) * k / data)[1] ** 2
                    for k in range(data + 1)
                ]
                learned = [mp.fdot(chances, squares) for chances in spread]
                for size in sizes:
                    task_squares = [
                        square if size is None or s < size else squares[0]
                        for s, square in enumerate(learned, 1)
                    ]
                    losses.append((mp.fdot(law, task_squares) / 2,))
        return losses

    keys = [(data, t, size) for data in counts for t in times for size in sizes]
    return [
        {**SUM_LAWS, "data": data, "size": size, "t": t, "loss": written(loss)}
        for (data, t, size), (loss,) in zip(keys, agreed(compute), strict=True)
    ]


def starts_of(order: str) -> list[Start]:
    return first_starts() if order == "first" else edge_starts(order)


def write_table() -> None:
    """Compute every point and write the JSON, one point a line."""
    began, points = time.time(), []
    for order in ROWS:
        for start in starts_of(order):
            since = time.time()
            points += points_of(start, order)
            spent = time.time() - since
            if spent > 5:
                print(f"  {order} {start.case} {start.context:g} {start.strength:g}: {spent:.0f} s")
        number = sum(point["order"] == order for point in points)
        print(f"{order}: {number} points, {time.time() - began:.0f} s", flush=True)
    sums = finite_data_losses()
    lines = [
        "{",
        f' "digits": {DIGITS},',
        ' "made_by": "tests/oracles/make_msfr.py",',
        ' "points": [',
        ",\n".join("  " + json.dumps(point) for point in points),
        " ],",
        ' "sums": [',
        ",\n".join("  " + json.dumps(point) for point in sums),
        " ]",
        "}",
    ]
    TABLE.write_text("\n".join(lines) + "\n")
    print(f"{len(points)} points, {len(sums)} sums, {time.time() - began:.0f} s, {TABLE}")


# ---------------------------------------------------------------- --check: independent methods


def ode_prediction(start: Start, order: str, t: float) -> mpf:
    """f(t) of the four-number ODE by its Taylor series, the last terms below eps at each step."""
    psi, lam, p = mpf(start.context), mpf(start.strength), mpf(start.weight)
    corner = psi if order == "zeroth" else psi + 1
    terms = int(1.5 * mp.dps)

    def times_h(x1, x2):
        return corner * x1 + psi * lam * x2, psi * lam * x1 + psi * lam**2 * x2

    def product(one, two):
        return mp.fdot(one, reversed(two))

    state, remaining = [mpf(x) for x in start.v + start.w], mpf(t)
    while remaining > 0:
        y, hv, hw = [[x] for x in state], ([], []), ([], [])
        push = []
        for k in range(terms):
            for i in range(2):
                hv[i].append(times_h(y[0][k], y[1][k])[i])
                hw[i].append(times_h(y[2][k], y[3][k])[i])
            f = product(y[0], hw[0]) + product(y[1], hw[1])
            push.append(-p * (f - (lam if k == 0 else 0)))
            for i, rate in enumerate((hw[0], hw[1], hv[0], hv[1])):
                y[i].append(product(push, rate) / (k + 1))
        last = max(abs(x[k]) ** (mpf(1) / k) for x in y for k in (terms - 1, terms))
        step = remaining if last == 0 else min(remaining, mp.eps ** (mpf(1) / terms) / last / 2)
        state = [mp.polyval(x[::-1], step) for x in y]
        remaining -= step
    hw = times_h(state[2], state[3])
    return state[0] * hw[0] + state[1] * hw[1]


def first_by_difference(start: Start, t: float, epsilon: mpf) -> mpf:
    """`[f(eps) - f(-eps)] / (2 eps)` with the clock of the perturbed H."""
    values = []
    for shift in (epsilon, -epsilon):
        lam = mpf(start.strength)
        mode_list = perturbed_modes(start, shift)
        above = sum(c - d for _, c, d in mode_list) > lam
        clock = Clock(mode_list, lam, above)
        place = clock.place_at(mpf(start.weight) * mpf(t))
        values.append(clock.values(place)[0])
    return (values[0] - values[1]) / (2 * epsilon)


def first_by_appendix_j(start: Start, t: float) -> mpf:
    """f1 of App. J (with the errata), for inits along (1, L)."""
    g, h = map(real, start.overlaps())
    lam, f_start, c = mpf(start.strength), (g - h) / 4, g * h / 2
    at = scaled_time(start, t)
    big = mp.sqrt(4 * lam**2 + 2 * c)
    upper = 4 * f_start * lam + 2 * c + big * mp.sqrt(4 * f_start**2 + 2 * c)
    p = upper / (2 * (f_start - lam) * (big - 2 * lam))
    q = p * (2 * lam - big) / (2 * lam + big)
    grow = mp.exp(big * at / 2)
    k = 2 * lam / big

    def integral_u(x, s):
        return -(q**2) * x**2 * lam * (1 + k) + lam * (k - 1) / x**2 + 4 * q * s * (lam**2 + c)

    def integral_z(x, s):
        return p**2 * x**2 * lam * (1 - k) + lam * (1 + k) / x**2 + 4 * p * s * (lam**2 + c)

    m = (integral_u(grow, at) - integral_u(mpf(1), 0)) / (q * grow + 1 / grow) ** 2
    n = (integral_z(grow, at) - integral_z(mpf(1), 0)) / (p * grow + 1 / grow) ** 2
    f = lam + big / 2 * (1 / (1 + p * grow**2) - 1 / (1 + q * grow**2))
    return (4 * f + 2 * (m - n)) / (4 * (1 + lam**2) ** 2)


def report(name: str, worst: mpf, bound: float) -> None:
    print(f"{name}: worst relative difference {mp.nstr(worst, 3)} (bound {bound:g})", flush=True)
    assert worst < bound, name


def difference(one: mpf, two: mpf) -> mpf:
    return abs(one - two) / abs(two) if two else abs(one)


def start_of(point: dict) -> Start:
    """The trajectory of a point of the table."""
    v, w = tuple(point["v"]), tuple(point["w"])
    return Start(point["case"], point["context"], point["strength"], v, w, point["weight"])


def check_against_series(points: list[dict]) -> None:
    """Two points of each case against the Taylor series of the ODE, where that is not stiff."""
    worst, number = mpf(0), Counter()
    shuffled = random.Random(0).sample(points, len(points))
    for point in shuffled:
        start, key = start_of(point), (point["order"], point["case"])
        stiffness = start.rate * point["t"] * (abs(start.strength) + abs(float(point["f0"])) + 0.1)
        if point["order"] == "first" or number[key] == 2 or stiffness > 80:
            continue
        number[key] += 1
        with mp.workdps(70):
            found = ode_prediction(start, point["order"], point["t"])
            worst = max(worst, difference(found, mpf(point["f"])))
    report(f"f against the Taylor series of the ODE at {number.total()} points", worst, 1e-48)


def check_deep_residual(points: list[dict]) -> None:
    """A residual near 1e-145 of each order against the Taylor series at 210 digits."""
    for order in ("zeroth", "exact"):
        deep = [
            point
            for point in points
            if point["order"] == order
            and point["case"] == "non-uniform"
            and 0 < abs(float(point["residual"])) < 1e-140
        ]
        with mp.workdps(210):
            f = ode_prediction(start_of(deep[0]), order, deep[0]["t"])
            worst = difference(f - mpf(deep[0]["strength"]), mpf(deep[0]["residual"]))
        report(f"{order}, residual {deep[0]['residual'][-5:]} against the series", worst, 1e-48)


def check_zeroth_against_clock(points: list[dict]) -> None:
    """Riccati's closed form against the quadrature and inversion that serve the exact H."""
    worst, number = mpf(0), 0
    for point in points[::3]:
        start = start_of(point)
        if point["order"] != "zeroth" or start.strength == 0:
            continue
        with mp.workdps(110):
            solution = Riccati(start)
            if solution.at_rest or solution.at_target:
                continue
            clock = Clock(perturbed_modes(start, 0)[:1], mpf(start.strength), solution.above)
            place = clock.place_at(mpf(start.weight) * mpf(point["t"]))
            for found, name in zip(clock.values(place), ("f", "residual"), strict=True):
                worst = max(worst, difference(found, mpf(point[name])))
        number += 1
    report(f"zeroth against the clock's quadrature at {number} points", worst, 1e-48)


def check_first() -> None:
    """The first order against App. J, and against differences of the flow in epsilon."""
    by_difference, by_appendix, number = mpf(0), mpf(0), Counter()
    with mp.workdps(150):
        for start in first_starts():
            solution = FirstOrder(start)
            zeroth = solution.zeroth
            if zeroth.at_rest or start.strength == 0:
                continue
            for at in (1e-6, 0.1, 3.0):
                t = at / start.rate
                if abs(zeroth.values(scaled_time(start, t))[1]) < 1e-20:
                    continue
                value = solution.value(start, t)
                if start.case == "along (1, L)":
                    found = first_by_appendix_j(start, t)
                    by_appendix = max(by_appendix, difference(value, found))
                    number["appendix"] += 1
                if number[start.case] < 3 and abs(start.strength) >= 1e-3:
                    found = first_by_difference(start, t, mpf(10) ** -45)
                    by_difference = max(by_difference, difference(value, found))
                    number[start.case] += 1
    report(f"f1 against App. J at {number.pop('appendix')} points", by_appendix, 1e-60)
    report(f"f1 against differences at {number.total()} points", by_difference, 1e-60)


def check() -> None:
    """Compare the table and each method with others that share no formula with them."""
    points = json.loads(TABLE.read_text())["points"]
    check_against_series(points)
    check_deep_residual(points)
    check_zeroth_against_clock(points)
    check_first()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with independent methods")
    if parser.parse_args().check:
        check()
    else:
        write_table()


if __name__ == "__main__":
    main()
