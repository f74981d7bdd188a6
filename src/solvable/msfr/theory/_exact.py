"""The exact solution at every context length: one scalar clock for all modes of H.

``η̇ = −p(f−Λ)Hη`` and ``ρ̇ = +p(f−Λ)Hρ`` share the clock ``τ̇ = p(Λ − f)``, so that in the modes of H

    f(τ) = Σ_i c_i e^{s_i τ} − d_i e^{−s_i τ},   c = ¼μη(0)²,  d = ¼μρ(0)²,  s = 2μ,

rises from f(0) and ``p t = ∫ dτ / (Λ − f(τ))`` is one quadrature. Read in the direction in which f
approaches Λ from below, it ends either at the pole τ* where f = Λ, or, when every c is zero, at a
saddle: f → 0⁻ and τ never ends. The quadrature runs over panels whose length follows the distance
to the nearest complex zero of Λ − f, each with a Chebyshev series of its antiderivative; inverting
it for a time is then a few Newton steps on a polynomial. Between τ and its distance ``δ = τ* − τ``
from the pole both are carried along, since near either end only one of them has digits.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ...numerics.quadrature import (
    antiderivative_matrix,
    chebyshev_fit,
    chebyshev_pair,
    chebyshev_value,
    gauss_legendre,
)
from ...numerics.special import log_add, log_square
from ._modes import Start

Modes = Float[Array, " modes"]
Scalar = Float[Array, ""]
Times = Float[Array, " times"]

NODES = 16
PANELS = 64
_PULL = 0.5  # the largest share of the remaining distance to the pole that one panel takes
_FLAT = 1e-17  # terms below this share of the whole are gone
RESAMPLED = 24
_HUGE = 600.0  # an exponent whose exponential is huge, yet finite
_FULL = 800.0  # e-folds after which a residual has underflowed

_hold = jax.lax.stop_gradient


class _Clock(eqx.Module):
    """Λ − f as a function of the clock, written in terms that are all positive."""

    log_c: Modes
    log_d: Modes
    s: Modes
    floor: Scalar
    end: Scalar  # τ*, or 1 where there is no pole
    ends: Bool[Array, ""]  # whether there is a pole
    top: Modes  # c e^{sτ*}, or 0
    bottom: Modes  # d e^{−sτ*}

    def __init__(
        self,
        log_c: Modes,
        log_d: Modes,
        s: Modes,
        floor: Scalar,
        gap: Scalar,
        end: Scalar,
        ends: Bool[Array, ""],
    ):
        self.log_c, self.log_d, self.s = log_c, log_d, s
        self.floor, self.end, self.ends = floor, end, ends
        top = jnp.exp(jnp.where(ends, log_c + s * end, -jnp.inf))
        # One rounding for all uses: the compiler must not form these twice in different ways.
        top, bottom = jax.lax.optimization_barrier((top, self.falling(end)))
        # What τ* misses below its last digit, magnified by e^{sτ*}, is put back to first order.
        left, slope = _left(log_c, log_d, s * end, s, top, bottom, gap, floor)[:2]
        ulp = left / jnp.where(slope > 0.0, slope, 1.0)
        shift = _hold(jnp.where(ends, jnp.clip(s * ulp, -1e-9, 1e-9), 0.0))
        self.top, self.bottom = top * (1.0 + shift), bottom * (1.0 - shift)

    def falling(self, tau: Scalar) -> Modes:
        """``d e^{−sτ}``."""
        return jnp.exp(self.log_d - self.s * tau)

    def remaining(self, tau: Scalar, delta: Scalar) -> Scalar:
        """``R = Λ − f > 0`` at τ = τ* − δ."""
        y = self.s * delta
        fall = self.falling(tau)
        close = y < 1.0
        drop = jnp.where(
            close, self.bottom * jnp.expm1(jnp.where(close, y, 0.0)), fall - self.bottom
        )
        to_pole = jnp.sum(drop - self.top * jnp.expm1(-y))
        return jnp.where(self.ends, to_pole, self.floor + jnp.sum(fall))

    def end_slope(self) -> Scalar:
        """``f'(τ*)``, or 1 where there is no pole."""
        slope = jnp.sum(self.s * (self.top + self.bottom))
        return jnp.where(self.ends & (slope > 0.0), slope, 1.0)

    def lasting(self) -> tuple[Scalar, Bool[Array, " modes"]]:
        """The slowest falling rate, and which modes fall at that rate: those left last."""
        slowest = jnp.min(jnp.where(self.log_d > -jnp.inf, self.s, jnp.inf))
        slowest = jnp.where(jnp.isfinite(slowest), slowest, 1.0)
        return slowest, self.s <= slowest * (1.0 + 1e-12)


def _left(
    log_c: Modes,
    log_d: Modes,
    y: Modes,
    s: Modes,
    grow: Modes,
    fall: Modes,
    gap: Scalar,
    floor: Scalar,
) -> tuple[Scalar, Scalar, Scalar, Scalar]:
    """R = Λ − f, f', and the rising and falling sides of R, from the terms at y = sτ.

    R is taken from the gap when f(0) is close to Λ, from the terms themselves when Λ is small.
    """
    c, d = jnp.exp(log_c), jnp.exp(log_d)
    small = y < 1.0
    near = jnp.where(small, y, 0.0)
    rise = jnp.where(small, c * jnp.expm1(near), grow - c)
    drop = jnp.where(small, -d * jnp.expm1(-near), d - fall)
    up = jnp.sum(grow) + jnp.maximum(-floor, 0.0)
    down = jnp.sum(fall) + jnp.maximum(floor, 0.0)
    left = jnp.where(up + down < gap, down - up, gap - jnp.sum(rise + drop))
    return left, jnp.sum(s * (grow + fall)), up, down


def _find_end(log_c: Modes, log_d: Modes, s: Modes, gap: Scalar, floor: Scalar) -> Scalar:
    """τ* > 0 with f(τ*) = Λ: Newton on the log of rising over falling terms, inside a bracket."""
    c, d = jnp.exp(log_c), jnp.exp(log_d)
    falls, rises = log_d > -jnp.inf, log_c > -jnp.inf

    def balance(tau: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        """R = Λ − f, its slope f', and the step of Newton's method, at τ."""
        y = s * tau
        grow, fall = jnp.exp(log_c + y), jnp.exp(log_d - y)
        left, slope, up, down = _left(log_c, log_d, y, s, grow, fall, gap, floor)
        log_ratio = jnp.log1p(jnp.maximum(left / up, -1.0 + 1e-16))
        rate = jnp.sum(s * grow) / up + jnp.where(down > 0.0, jnp.sum(s * fall) / down, 0.0)
        return left, slope, log_ratio / rate

    # f ≥ any one rising term less f(0), and below zero f decays at least like the slowest mode.
    high = jnp.min(
        jnp.where(rises, log_add(jnp.zeros_like(log_c), jnp.log(gap) - log_c), jnp.inf)
        / jnp.where(rises, s, 1.0)
    )
    sinks = (floor < 0.0) & jnp.any(falls)
    slowest = jnp.min(jnp.where(falls, s, jnp.inf))
    above = (gap + jnp.sum(c)) / jnp.where(sinks, -floor, 1.0)  # Σd = |Λ| + gap + Σc
    sink = jnp.log1p(above) / slowest
    high = jnp.where(sinks, jnp.minimum(high, sink), high)
    low = jnp.log1p(gap / jnp.sum(c + d)) / jnp.max(jnp.where(rises | falls, s, 0.0))
    low = jnp.minimum(low, high)

    def shrink(_: Any, state: tuple[Scalar, Scalar, Scalar]) -> tuple[Scalar, Scalar, Scalar]:
        low, high, tau = state
        left, _, step = balance(tau)
        low, high = jnp.where(left > 0.0, tau, low), jnp.where(left > 0.0, high, tau)
        newton = tau + step
        inside = (newton >= low) & (newton <= high)
        return low, high, jnp.where(inside, newton, jnp.sqrt(low) * jnp.sqrt(high))

    tau = jax.lax.fori_loop(0, 60, shrink, (low, high, high))[2]
    tau = _hold(jnp.where(jnp.isfinite(tau) & (tau > 0.0), tau, 1.0))
    left, slope, _ = balance(tau)
    return tau + left / _hold(jnp.where(slope > 0.0, slope, 1.0))  # carries the derivative


def _panels(clock: _Clock, count: int) -> tuple[Array, Array, Array]:
    """Left ends (as τ and as δ) and lengths of the panels; those past the last have length 0."""
    modes = clock.s.shape[0]
    slope = clock.end_slope()
    _, lasting = clock.lasting()

    def is_tail(tau: Scalar, delta: Scalar) -> Bool[Array, ""]:
        # Pole: R/δ is free of zeros in the disc of radius 2δ, so one series finishes the work.
        y = 2.0 * clock.s * delta
        rise = clock.top * (jnp.expm1(jnp.minimum(y, _HUGE)) - y)
        fall = jnp.exp(jnp.minimum(clock.log_d - clock.s * clock.end + y, _HUGE))
        bend = jnp.sum(rise + fall - clock.bottom * (1.0 + y))
        # Saddle: one exponential is left, which is integrated in closed form.
        rest = jnp.sum(jnp.where(lasting, 0.0, clock.falling(tau)))
        alone = rest <= _FLAT * clock.remaining(tau, delta)
        return jnp.where(clock.ends, bend < slope * delta, alone)

    # While d e^{−sτ} rules, R has no zero within π/s of the real axis: two e-folds a panel, more
    # only if a fall over hundreds of e-folds would use up the panels.
    least = jnp.maximum(jnp.abs(clock.floor), jnp.sum(jnp.exp(clock.log_c)))
    folds = jnp.log(jnp.sum(jnp.exp(clock.log_d))) - jnp.log(jnp.maximum(least, 1e-300))
    folds = jnp.maximum(2.0, 1.5 * folds / count)

    def advance(state: tuple[Scalar, Scalar], _: None):
        tau, delta = state
        rise, fall = clock.top * jnp.exp(-clock.s * delta), clock.falling(tau)
        left = clock.remaining(tau, delta)
        # |R(τ + z) − R(τ)| < R(τ) for |z| below this radius.
        radius = jnp.log1p(left / (modes * jnp.maximum(rise + fall, 1e-300))) / clock.s
        radius = jnp.min(jnp.where(rise + fall > 0.0, radius, jnp.inf))
        # Re R > 0 in a strip around the panel: falling terms outweigh the others along it.
        down = jnp.sum(fall) + jnp.maximum(clock.floor, 0.0)
        up = jnp.sum(rise) + jnp.maximum(-clock.floor, 0.0)
        fastest = jnp.max(jnp.where(rise + fall > _FLAT * left, clock.s, 0.0))
        room = 0.5 * (jnp.log(0.5 * down) - jnp.log(jnp.maximum(up, 1e-300)))
        strip = jnp.minimum(folds, room) / jnp.maximum(fastest, 1e-300)
        step = jnp.maximum(radius, strip)
        step = jnp.where(clock.ends, jnp.minimum(step, _PULL * delta), step)
        step = jnp.where(is_tail(tau, delta), 0.0, step)
        return (tau + step, delta - step), (tau, delta, step)

    start = (jnp.zeros_like(clock.end), clock.end)
    (tau, delta), (taus, deltas, steps) = jax.lax.scan(advance, start, None, length=count)
    return jnp.append(taus, tau), jnp.append(deltas, delta), steps


class _Path(eqx.Module):
    """One task's whole approach: the panels, the time passed at their ends, and the two tails."""

    clock: _Clock
    tau: Float[Array, " edges"]  # panel ends, as shares of τ*
    delta: Float[Array, " edges"]
    step: Float[Array, " panels"]
    passed: Float[Array, " edges"]  # p t at the panel ends
    total: Float[Array, " panels"]  # p t spent in each panel
    series: Float[Array, "terms panels"]  # p t inside each panel, less its linear part
    ends: Float[Array, "2 panels"]  # dp t/dx at both ends of each panel
    tail: Float[Array, " terms"]  # p t beyond the simple pole, inside the last stretch

    def __init__(self, clock: _Clock, count: int):
        """Every quantity that only places nodes is held constant under differentiation."""
        self.clock = clock
        frozen = _hold(clock)
        self.tau, self.delta, self.step = _hold(
            tuple(x / frozen.end for x in _panels(frozen, count))
        )
        nodes, weights = (jnp.asarray(x, clock.s.dtype) for x in gauss_legendre(NODES))
        matrix = jnp.asarray(antiderivative_matrix(NODES), clock.s.dtype)

        def density(x: Float[Array, " nodes"]) -> Float[Array, "panels nodes"]:
            tau = self.tau[:-1, None] + self.step[:, None] * x[None, :]
            delta = self.delta[:-1, None] - self.step[:, None] * x[None, :]
            left = jax.vmap(jax.vmap(clock.remaining))(clock.end * tau, clock.end * delta)
            return clock.end * self.step[:, None] / left

        inside = density(nodes)
        self.total = inside @ weights
        self.passed = jnp.concatenate([jnp.zeros_like(self.total[:1]), jnp.cumsum(self.total)])
        # On a plateau the linear part is nearly all, and x·total has no rounding to speak of.
        self.series = (matrix @ inside.T).at[:2].add(-0.5 * self.total[None, :])
        self.ends = _hold(density(jnp.asarray([0.0, 1.0], clock.s.dtype))).T

        # 1/R − 1/(f'(τ*)δ) has no pole: (f'δ − R)/(f'δ R), with f'δ − R summed by itself.
        last = jnp.where(clock.ends, clock.end * self.delta[-1], 1.0)
        y = jnp.minimum(clock.s[None, :] * last * nodes[:, None], _HUGE)
        bend = clock.top[None, :] * (y + jnp.expm1(-y)) - clock.bottom[None, :] * (jnp.expm1(y) - y)
        bend = jnp.sum(jnp.where(clock.ends, bend, 0.0), axis=1)
        linear = clock.end_slope() * last * nodes
        left = jax.vmap(clock.remaining)(clock.end - last * nodes, last * nodes)
        self.tail = matrix @ (bend / linear * last / jnp.where(clock.ends, left, 1.0))


def _distance(path: _Path, times: Times, *, rolled: bool = False) -> Times:
    """The distance R = Λ − f(t) > 0; the last Newton step of each inversion carries the slope.

    Rolled into loops it compiles sooner, and is slower at many times.
    """
    clock, count = path.clock, path.step.shape[0]
    panel = _panel_of(path, times)
    in_tail = panel >= count
    k = jnp.minimum(panel, count - 1)
    aim = jnp.where(
        in_tail, 0.5 * _hold(path.passed[k + 1] - path.passed[k]), times - path.passed[k]
    )
    terms, total = path.series[:, k], path.total[k]
    x = _invert(_hold(terms), _hold(total), path.ends[:, k], _hold(aim), rolled=rolled)
    value, slope = chebyshev_pair(terms, x, rolled=rolled)
    slope = slope + total
    x = x + ((aim - total * x) - value) / _hold(jnp.where(slope > 0.0, slope, 1.0))
    inside = jax.vmap(clock.remaining)(
        clock.end * (path.tau[k] + path.step[k] * x),
        clock.end * (path.delta[k] - path.step[k] * x),
    )
    left = jnp.where(in_tail, times - path.passed[-1], 0.0)
    pole = _pole_tail(path, left, rolled=rolled)
    beyond = jnp.where(clock.ends, pole, _saddle_tail(path, left))
    return jnp.where(in_tail, beyond, inside)


def _panel_of(path: _Path, times: Times) -> Int[Array, " times"]:
    """The panel each time falls into; the number of panels stands for the tail."""
    passed = _hold(path.passed)
    return jnp.searchsorted(passed, _hold(times), side="right", method="scan_unrolled") - 1


def _invert(
    terms: Float[Array, "terms times"],
    total: Times,
    ends: Float[Array, "2 times"],
    aim: Times,
    *,
    rolled: bool,
) -> Times:
    """The x in [0, 1] where each panel's antiderivative reaches `aim`, but for one Newton step.

    The first guess takes the integrand for an exponential between its end values.
    """
    first, last = ends
    growth = jnp.log(last / first)
    bent = jnp.abs(growth) > 1e-3
    scaled = aim / first
    x = jnp.where(bent, jnp.log1p(growth * scaled) / jnp.where(bent, growth, 1.0), scaled)
    x = jnp.clip(jnp.where(jnp.isfinite(x), x, 0.5), 0.0, 1.0)

    def newton(_: Any, x: Times) -> Times:
        value, slope = chebyshev_pair(terms, x, rolled=rolled)
        slope = slope + total
        x = x + ((aim - total * x) - value) / jnp.where(slope > 0.0, slope, 1.0)
        return jnp.clip(x, 0.0, 1.0)

    return jax.lax.fori_loop(0, 3, newton, x)


def _pole_tail(path: _Path, left: Times, *, rolled: bool) -> Times:
    """R after a further p t = `left` inside the last stretch: Newton in log δ."""
    clock = path.clock
    last, slope = jnp.where(clock.ends, clock.end * path.delta[-1], 1.0), clock.end_slope()
    whole = jnp.sum(path.tail)
    left = jnp.minimum(left, _hold(_FULL / slope + jnp.abs(whole)))
    terms = jnp.broadcast_to(path.tail[:, None], (path.tail.shape[0], left.shape[0]))

    def newton(log: Times, slope: Scalar, whole: Scalar, terms: Array, left: Times) -> Times:
        ratio = jnp.exp(log)
        value, density = chebyshev_pair(terms, ratio, rolled=rolled)
        return log + (whole - value - left - log / slope) / _hold(1.0 / slope + ratio * density)

    arguments = (slope, whole, terms, left)
    log = -_hold(slope * left)
    log = jax.lax.fori_loop(
        0, 4, lambda _, log: jnp.minimum(newton(log, *_hold(arguments)), 0.0), log
    )
    close = last * jnp.exp(newton(log, *arguments))
    return jax.vmap(clock.remaining)(clock.end * path.tau[-1] + (last - close), close)


def _saddle_tail(path: _Path, left: Times) -> Times:
    """R after a further p t = `left` when one falling exponential is left: closed form."""
    clock = path.clock
    slowest, lasting = clock.lasting()
    fall = jnp.sum(jnp.where(lasting, clock.falling(clock.end * path.tau[-1]), 0.0))
    fall, rate = jnp.where(clock.ends, 0.0, fall), jnp.where(clock.ends, 1.0, slowest)
    floor = jnp.where(clock.ends, 0.0, clock.floor)
    left = jnp.minimum(left, _hold(1e290 / (1.0 + rate * (floor + fall))))
    z = rate * floor * left
    gone = z > 600.0
    z = jnp.where(gone, 0.0, z)
    tiny = z < 1e-8
    growth = jnp.where(tiny, 1.0 + 0.5 * z, jnp.expm1(z) / jnp.where(tiny, 1.0, z))
    stretch = 1.0 + (floor + fall) * rate * left * growth
    return floor + jnp.where(gone, 0.0, fall / stretch)


class Flow(eqx.Module):
    """One task's approach to its target, ready to be read at any times.

    Args:
        mu: eigenvalues of H, any symmetric matrix.
        plus, minus: √|μ| times the entries of v + w and v − w in the eigenbasis.
        initial: f(0).
        target: Λ.
        panels: how many panels the quadrature may use.
    """

    path: _Path
    gap: Scalar
    unit: Scalar
    sign: Scalar  # of f − Λ; 0 where f(0) = Λ

    def __init__(
        self,
        mu: Modes,
        plus: Modes,
        minus: Modes,
        initial: Scalar,
        target: Scalar,
        panels: int = PANELS,
    ):
        forward = mu >= 0.0
        c = log_square(jnp.where(forward, plus, minus)) - math.log(4.0)
        d = log_square(jnp.where(forward, minus, plus)) - math.log(4.0)
        down = initial > target  # read backwards: −f rises towards −Λ
        gap = jnp.where(down, initial - target, target - initial)
        arrived = gap <= 0.0
        # In units of the larger of |Λ| and |f(0) − Λ| nothing below underflows.
        unit = _hold(jnp.where(arrived, 1.0, jnp.maximum(gap, jnp.abs(target))))
        gap = jnp.where(arrived, 1.0, gap / unit)
        log_c = jnp.where(down, d, c) - jnp.log(unit)
        log_d = jnp.where(down, c, d) - jnp.log(unit)
        floor = jnp.where(arrived, 1.0, jnp.where(down, -target, target) / unit)
        s = 2.0 * jnp.abs(mu)
        ends = jnp.any(log_c > -jnp.inf) | (floor < 0.0)
        pole = _find_end(  # with harmless numbers where there is none
            jnp.where(ends, log_c, 0.0),
            jnp.where(ends, log_d, 0.0),
            jnp.where(ends, s, 1.0),
            gap,
            floor,
        )
        end = jnp.where(ends, pole, 1.0)
        self.path = _Path(_Clock(log_c, log_d, s, floor, gap, end, ends), panels)
        self.gap, self.unit = gap, unit
        self.sign = jnp.where(arrived, 0.0, jnp.where(down, 1.0, -1.0))

    def residual(self, times: Times) -> Times:
        """``f(t) − Λ`` at data-weighted times p t ≥ 0, to relative accuracy."""
        return self._signed(_distance(self.path, self._scaled(times)), times)

    def _scaled(self, times: Times) -> Times:
        return jnp.minimum(times, _hold(1e290 / self.unit)) * self.unit

    def _signed(self, distance: Times, times: Times) -> Times:
        return self.sign * self.unit * jnp.where(times > 0.0, distance, self.gap)


class Resampled(eqx.Module):
    """A flow as a series in time on every panel: reading it needs no inversion.

    Past the last panel R/E is analytic in ``E = e^{−f'(τ*) p t}``. The grid moves with the flow
    under differentiation, so that slopes are as smooth as values.
    """

    flow: Flow
    series: Float[Array, "terms edges"]
    bend: Float[Array, " panels"]

    def __init__(self, flow: Flow):
        path = flow.path
        points, matrix = (jnp.asarray(x, path.tau.dtype) for x in chebyshev_fit(RESAMPLED))
        # In the time at which an integrand that is exponential in τ would be passed, R is as
        # smooth as in τ itself: x = log(1 + q v)/log(1 + q) for the share v of a panel's time.
        first, last = path.ends
        growth = jnp.log(jnp.where(first > 0.0, last, 1.0) / jnp.where(first > 0.0, first, 1.0))
        bend = growth * path.total / jnp.where(first > 0.0, first, 1.0)
        self.bend = _hold(jnp.where(jnp.abs(bend) > 1e-6, bend, 0.0))
        q = self.bend[:, None]
        share = jnp.expm1(points[None, :] * jnp.log1p(q)) / jnp.where(q == 0.0, 1.0, q)
        share = jnp.where(q == 0.0, points[None, :], share)
        inner = path.passed[:-1, None] + path.total[:, None] * share
        outer = path.passed[-1] - jnp.log(points) / path.clock.end_slope()
        values = _distance(path, jnp.concatenate([inner.ravel(), outer]), rolled=True)
        values = values.reshape(-1, RESAMPLED).at[-1].divide(points)
        self.flow, self.series = flow, matrix @ values.T

    def residual(self, times: Times) -> Times:
        """``f(t) − Λ`` at data-weighted times p t ≥ 0, to relative accuracy."""
        path, count = self.flow.path, self.flow.path.step.shape[0]
        slope = path.clock.end_slope()
        clock_time = self.flow._scaled(times)
        panel = _panel_of(path, clock_time)
        in_tail = panel >= count
        k = jnp.minimum(panel, count - 1)
        left = jnp.where(in_tail, clock_time - path.passed[-1], 0.0)
        decay = jnp.exp(-slope * jnp.minimum(left, _hold(_FULL / slope)))
        share = jnp.where(in_tail, 0.0, clock_time - path.passed[k])
        share = share / jnp.where(path.total > 0.0, path.total, 1.0)[k]
        q = self.bend[k]
        bent = jnp.log1p(q * share) / jnp.where(q == 0.0, 1.0, jnp.log1p(q))
        inside = jnp.where(q == 0.0, share, bent)
        value = chebyshev_value(self.series, panel, jnp.where(in_tail, decay, inside))
        value = jnp.where(in_tail, value * decay, value)
        at_saddle = in_tail & ~path.clock.ends
        distance = jnp.where(at_saddle, _saddle_tail(path, left), value)
        return self.flow._signed(distance, times)


def modes(start: Start) -> tuple[Array, Array, Array]:
    """Eigenvalues of the 2×2 H and √μ times v ± w in its eigenbasis, each (tasks, 2).

    ``μ₁ = 1 + m`` with ``m² + m(1 − ψn) = ψ``, ``μ₂ = ψΛ²/μ₁``, and the eigenvector of μ₁ has slope
    ``Λ(1 − 1/μ₁)``.
    """
    psi, lam = start.context, start.strength
    excess = psi * start.squared_norm - 1.0
    root = jnp.sqrt(excess**2 + 4.0 * psi)
    large = excess > 0.0
    m = jnp.where(large, 0.5 * (excess + root), 2.0 * psi / jnp.where(large, 1.0, root - excess))
    mu1 = 1.0 + m
    slope = lam * m / mu1
    norm = jnp.sqrt(1.0 + slope**2)
    root1, root2 = jnp.sqrt(mu1), lam * jnp.sqrt(psi / mu1)

    def project(sign: float) -> Array:
        x1, x2 = (start.v + sign * start.w).T
        # The slope is Λ − Λ/μ₁ for long contexts and small for short ones: neither may cancel.
        short = m < 1.0
        first = jnp.where(short, x1 + slope * x2, start.along(sign) - lam * x2 / mu1)
        second = jnp.where(short, x2 - slope * x1, lam * x1 / mu1 - start.across(sign))
        return jnp.stack([root1 * first / norm, root2 * second / norm], axis=1)

    return jnp.stack([mu1, psi * lam**2 / mu1], axis=1), project(1.0), project(-1.0)


def flows(start: Start) -> Flow:
    """The exact flow of every task, one row a task."""
    mu, plus, minus = modes(start)
    return jax.vmap(Flow)(mu, plus, minus, start.prediction, start.strength)


def exact(start: Start, time: Float[Array, "tasks times"]) -> Float[Array, "tasks times"]:
    """The residual f − Λ for every task at its own data-weighted times p t."""
    return jax.vmap(Flow.residual)(flows(start), time)


def exact_shared(start: Start) -> Resampled:
    """The flow that all tasks follow, each at its own pace p t: that of the first row."""
    first = jax.tree.map(lambda x: x[:1], start)
    return Resampled(jax.tree.map(lambda x: x[0], flows(first)))
