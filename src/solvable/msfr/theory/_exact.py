"""The exact solution at every context length: one scalar clock for all modes of H.

``η̇ = −p(f−Λ)Hη`` and ``ρ̇ = +p(f−Λ)Hρ`` share the clock ``τ̇ = p(Λ − f)``, so that in the modes of H

    f(τ) = Σ_i c_i e^{s_i τ} − d_i e^{−s_i τ},   c = ¼μη(0)²,  d = ¼μρ(0)²,  s = 2μ,

rises from f(0) and ``p t = ∫ dτ / (Λ − f(τ))`` is one quadrature. Read in the direction in which f
approaches Λ from below, it ends either at the pole τ* where f = Λ, or, when every c is zero, at a
saddle: f → 0⁻ and τ never ends. The quadrature runs over panels whose length follows the distance
to the nearest complex zero of Λ − f, each with a Chebyshev series of its antiderivative; inverting
it for a time is then a few Newton steps on a polynomial. Between τ and its distance ``δ = τ* − τ``
from the pole both are carried along, since near either end only one of them has digits.

Tasks are the first axis of every array, modes the last; all of it runs in numpy for numbers and in
JAX for what is traced.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from ...numerics.host import hold, march, module_of, repeat
from ...numerics.quadrature import (
    antiderivative_matrix,
    chebyshev_fit,
    chebyshev_pair,
    chebyshev_value,
    gauss_legendre,
)
from ...numerics.special import log_add, log_square
from ._modes import Start

Modes = Float[Any, "tasks modes"]
Column = Float[Any, " tasks"]
Points = Float[Any, "tasks points"]
Times = Float[Any, "tasks times"]

NODES = 16
PANELS = 64
_PULL = 0.5  # the largest share of the remaining distance to the pole that one panel takes
_FLAT = 1e-17  # terms below this share of the whole are gone
RESAMPLED = 24
_HUGE = 600.0  # an exponent whose exponential is huge, yet finite
_FULL = 800.0  # e-folds after which a residual has underflowed


class _Clock(eqx.Module):
    """Λ − f as a function of the clock, written in terms that are all positive."""

    log_c: Modes
    log_d: Modes
    s: Modes
    floor: Column
    end: Column  # τ*, or 1 where there is no pole
    ends: Bool[Any, " tasks"]  # whether there is a pole
    top: Modes  # c e^{sτ*}, or 0
    bottom: Modes  # d e^{−sτ*}

    def __init__(
        self,
        log_c: Modes,
        log_d: Modes,
        s: Modes,
        floor: Column,
        gap: Column,
        end: Column,
        ends: Bool[Any, " tasks"],
    ):
        xp = module_of(s)
        self.log_c, self.log_d, self.s = log_c, log_d, s
        self.floor, self.end, self.ends = floor, end, ends
        top = xp.exp(xp.where(ends[:, None], log_c + s * end[:, None], -xp.inf))
        bottom = xp.exp(log_d - s * end[:, None])
        if xp is jnp:
            # One rounding for all uses: the compiler must not form these twice in different ways.
            top, bottom = jax.lax.optimization_barrier((top, bottom))
        # What τ* misses below its last digit, magnified by e^{sτ*}, is put back to first order.
        left, slope = _left(log_c, log_d, s * end[:, None], s, top, bottom, gap, floor)[:2]
        ulp = left / xp.where(slope > 0.0, slope, 1.0)
        shift = xp.clip(s * ulp[:, None], -1e-9, 1e-9)
        shift = hold(xp.where(ends[:, None], shift, 0.0))
        self.top, self.bottom = top * (1.0 + shift), bottom * (1.0 - shift)

    def remaining(self, tau: Points, delta: Points) -> Points:
        """``R = Λ − f > 0`` at τ = τ* − δ."""
        xp = module_of(self.s, tau)
        s, log_d, top, bottom = (x[:, None, :] for x in (self.s, self.log_d, self.top, self.bottom))
        y = s * delta[:, :, None]
        fall = xp.exp(log_d - s * tau[:, :, None])
        close = y < 1.0
        drop = xp.where(close, bottom * xp.expm1(xp.where(close, y, 0.0)), fall - bottom)
        to_pole = xp.sum(drop - top * xp.expm1(-y), axis=2)
        return xp.where(self.ends[:, None], to_pole, self.floor[:, None] + xp.sum(fall, axis=2))

    def end_slope(self) -> Column:
        """``f'(τ*)``, or 1 where there is no pole."""
        xp = module_of(self.s)
        slope = xp.sum(self.s * (self.top + self.bottom), axis=1)
        return xp.where(self.ends & (slope > 0.0), slope, 1.0)

    def lasting(self) -> tuple[Column, Bool[Any, "tasks modes"]]:
        """The slowest falling rate, and which modes fall at that rate: those left last."""
        xp = module_of(self.s)
        slowest = xp.min(xp.where(self.log_d > -xp.inf, self.s, xp.inf), axis=1)
        slowest = xp.where(xp.isfinite(slowest), slowest, 1.0)
        return slowest, self.s <= slowest[:, None] * (1.0 + 1e-12)


def _left(
    log_c: Modes,
    log_d: Modes,
    y: Modes,
    s: Modes,
    grow: Modes,
    fall: Modes,
    gap: Column,
    floor: Column,
) -> tuple[Column, Column, Column, Column]:
    """R = Λ − f, f', and the rising and falling sides of R, from the terms at y = sτ.

    R is taken from the gap when f(0) is close to Λ, from the terms themselves when Λ is small.
    """
    xp = module_of(s)
    c, d = xp.exp(log_c), xp.exp(log_d)
    small = y < 1.0
    near = xp.where(small, y, 0.0)
    rise = xp.where(small, c * xp.expm1(near), grow - c)
    drop = xp.where(small, -d * xp.expm1(-near), d - fall)
    up = xp.sum(grow, axis=1) + xp.maximum(-floor, 0.0)
    down = xp.sum(fall, axis=1) + xp.maximum(floor, 0.0)
    left = xp.where(up + down < gap, down - up, gap - xp.sum(rise + drop, axis=1))
    return left, xp.sum(s * (grow + fall), axis=1), up, down


def _find_end(log_c: Modes, log_d: Modes, s: Modes, gap: Column, floor: Column) -> Column:
    """τ* > 0 with f(τ*) = Λ: Newton on the log of rising over falling terms, inside a bracket."""
    xp = module_of(s)
    c, d = xp.exp(log_c), xp.exp(log_d)
    falls, rises = log_d > -xp.inf, log_c > -xp.inf

    def balance(tau: Column) -> tuple[Column, Column, Column]:
        """R = Λ − f, its slope f', and the step of Newton's method, at τ."""
        y = s * tau[:, None]
        grow, fall = xp.exp(log_c + y), xp.exp(log_d - y)
        left, slope, up, down = _left(log_c, log_d, y, s, grow, fall, gap, floor)
        log_ratio = xp.log1p(xp.maximum(left / up, -1.0 + 1e-16))
        falling = xp.sum(s * fall, axis=1) / xp.where(down > 0.0, down, 1.0)
        rate = xp.sum(s * grow, axis=1) / up + xp.where(down > 0.0, falling, 0.0)
        return left, slope, log_ratio / rate

    # f ≥ any one rising term less f(0), and below zero f decays at least like the slowest mode.
    reach = log_add(xp.zeros_like(log_c), xp.log(gap)[:, None] - log_c)
    high = xp.min(xp.where(rises, reach, xp.inf) / xp.where(rises, s, 1.0), axis=1)
    sinks = (floor < 0.0) & xp.any(falls, axis=1)
    slowest = xp.min(xp.where(falls, s, xp.inf), axis=1)
    above = (gap + xp.sum(c, axis=1)) / xp.where(sinks, -floor, 1.0)  # Σd = |Λ| + gap + Σc
    sink = xp.log1p(above) / slowest
    high = xp.where(sinks, xp.minimum(high, sink), high)
    fastest = xp.max(xp.where(rises | falls, s, 0.0), axis=1)
    low = xp.log1p(gap / xp.sum(c + d, axis=1)) / fastest
    low = xp.minimum(low, high)

    def shrink(state: tuple[Column, Column, Column]) -> tuple[Column, Column, Column]:
        low, high, tau = state
        left, _, step = balance(tau)
        low, high = xp.where(left > 0.0, tau, low), xp.where(left > 0.0, high, tau)
        newton = tau + step
        inside = (newton >= low) & (newton <= high)
        return low, high, xp.where(inside, newton, xp.sqrt(low) * xp.sqrt(high))

    tau = repeat(60, shrink, (low, high, high))[2]
    tau = hold(xp.where(xp.isfinite(tau) & (tau > 0.0), tau, 1.0))
    left, slope, _ = balance(tau)
    return tau + left / hold(xp.where(slope > 0.0, slope, 1.0))  # carries the derivative


def _panels(
    clock: _Clock, count: int
) -> tuple[Float[Any, "tasks edges"], Float[Any, "tasks edges"], Float[Any, "tasks panels"]]:
    """Left ends (as τ and as δ) and lengths of the panels; those past the last have length 0."""
    xp = module_of(clock)
    modes = clock.s.shape[1]
    slope = clock.end_slope()
    _, lasting = clock.lasting()
    floor = clock.floor
    at_end = clock.log_d - clock.s * clock.end[:, None]

    def is_tail(delta: Column, fall: Modes, left: Column) -> Bool[Any, " tasks"]:
        # Pole: R/δ is free of zeros in the disc of radius 2δ, so one series finishes the work.
        y = 2.0 * clock.s * delta[:, None]
        rise = clock.top * (xp.expm1(xp.minimum(y, _HUGE)) - y)
        behind = xp.exp(xp.minimum(at_end + y, _HUGE))
        bend = xp.sum(rise + behind - clock.bottom * (1.0 + y), axis=1)
        # Saddle: one exponential is left, which is integrated in closed form.
        alone = xp.sum(xp.where(lasting, 0.0, fall), axis=1) <= _FLAT * left
        return xp.where(clock.ends, bend < slope * delta, alone)

    # While d e^{−sτ} rules, R has no zero within π/s of the real axis: two e-folds a panel, more
    # only if a fall over hundreds of e-folds would use up the panels.
    least = xp.maximum(xp.abs(floor), xp.sum(xp.exp(clock.log_c), axis=1))
    folds = xp.log(xp.sum(xp.exp(clock.log_d), axis=1)) - xp.log(xp.maximum(least, 1e-300))
    folds = xp.maximum(2.0, 1.5 * folds / count)

    def advance(state: tuple[Column, Column]) -> tuple[Any, Any]:
        tau, delta = state
        rise = clock.top * xp.exp(-clock.s * delta[:, None])
        fall = xp.exp(clock.log_d - clock.s * tau[:, None])
        left = clock.remaining(tau[:, None], delta[:, None])[:, 0]
        # |R(τ + z) − R(τ)| < R(τ) for |z| below this radius.
        both = rise + fall
        radius = xp.log1p(left[:, None] / (modes * xp.maximum(both, 1e-300))) / clock.s
        radius = xp.min(xp.where(both > 0.0, radius, xp.inf), axis=1)
        # Re R > 0 in a strip around the panel: falling terms outweigh the others along it.
        down = xp.sum(fall, axis=1) + xp.maximum(floor, 0.0)
        up = xp.sum(rise, axis=1) + xp.maximum(-floor, 0.0)
        fastest = xp.max(xp.where(both > _FLAT * left[:, None], clock.s, 0.0), axis=1)
        room = 0.5 * (xp.log(0.5 * down) - xp.log(xp.maximum(up, 1e-300)))
        strip = xp.minimum(folds, room) / xp.maximum(fastest, 1e-300)
        step = xp.maximum(radius, strip)
        step = xp.where(clock.ends, xp.minimum(step, _PULL * delta), step)
        step = xp.where(is_tail(delta, fall, left), 0.0, step)
        return (tau + step, delta - step), (tau, delta, step)

    start = (xp.zeros_like(clock.end), clock.end)
    (tau, delta), (taus, deltas, steps) = march(
        count, advance, start, done=lambda panel: not panel[2].any()
    )
    return (
        xp.concatenate([taus, tau[:, None]], axis=1),
        xp.concatenate([deltas, delta[:, None]], axis=1),
        steps,
    )


class _Path(eqx.Module):
    """Every task's whole approach: panels, the time passed at their ends, and the two tails."""

    clock: _Clock
    tau: Float[Any, "tasks edges"]  # panel ends, as shares of τ*
    delta: Float[Any, "tasks edges"]
    step: Float[Any, "tasks panels"]
    passed: Float[Any, "tasks edges"]  # p t at the panel ends
    total: Float[Any, "tasks panels"]  # p t spent in each panel
    series: Float[Any, "terms tasks panels"]  # p t inside each panel, less its linear part
    ends: Float[Any, "2 tasks panels"]  # dp t/dx at both ends of each panel
    tail: Float[Any, "terms tasks"]  # p t beyond the simple pole, inside the last stretch

    def __init__(self, clock: _Clock, count: int):
        """Every quantity that only places nodes is held constant under differentiation."""
        xp = module_of(clock)
        self.clock = clock
        frozen = hold(clock)
        self.tau, self.delta, self.step = hold(
            tuple(x / frozen.end[:, None] for x in _panels(frozen, count))
        )
        nodes, weights = (xp.asarray(x) for x in gauss_legendre(NODES))
        matrix = xp.asarray(antiderivative_matrix(NODES))
        tasks, panels = self.step.shape

        def density(x: Any) -> Float[Any, "tasks panels nodes"]:
            inside = self.step[:, :, None] * x[None, None, :]
            tau = (self.tau[:, :-1, None] + inside).reshape(tasks, -1)
            delta = (self.delta[:, :-1, None] - inside).reshape(tasks, -1)
            end = clock.end[:, None]
            left = clock.remaining(end * tau, end * delta).reshape(tasks, panels, -1)
            return (end * self.step)[:, :, None] / left

        inside = density(nodes)
        self.total = inside @ weights
        none = xp.zeros_like(self.total[:, :1])
        self.passed = xp.concatenate([none, xp.cumsum(self.total, axis=1)], axis=1)
        # On a plateau the linear part is nearly all, and x·total has no rounding to speak of.
        linear = xp.asarray(np.where(np.arange(NODES + 1) < 2, 0.5, 0.0))
        series = inside @ matrix.T - self.total[:, :, None] * linear[None, None, :]
        self.series = xp.moveaxis(series, 2, 0)
        self.ends = hold(xp.moveaxis(density(xp.asarray(np.array([0.0, 1.0]))), 2, 0))

        # 1/R − 1/(f'(τ*)δ) has no pole: (f'δ − R)/(f'δ R), with f'δ − R summed by itself.
        last = xp.where(clock.ends, clock.end * self.delta[:, -1], 1.0)
        near = last[:, None] * nodes[None, :]
        y = xp.minimum(clock.s[:, None, :] * near[:, :, None], _HUGE)
        top, bottom = clock.top[:, None, :], clock.bottom[:, None, :]
        bend = top * (y + xp.expm1(-y)) - bottom * (xp.expm1(y) - y)
        bend = xp.sum(xp.where(clock.ends[:, None, None], bend, 0.0), axis=2)
        left = clock.remaining(clock.end[:, None] - near, near)
        left = xp.where(clock.ends[:, None], left, 1.0)
        extra = bend / (clock.end_slope()[:, None] * near) * last[:, None] / left
        self.tail = matrix @ extra.T


def _distance(path: _Path, times: Times, *, rolled: bool = False) -> Times:
    """The distance R = Λ − f(t) > 0; the last Newton step of each inversion carries the slope.

    Rolled into loops it compiles sooner, and is slower at many times.
    """
    xp = module_of(path, times)
    clock, count = path.clock, path.step.shape[1]
    panel = _panel_of(path, times)
    in_tail = panel >= count
    k = xp.minimum(panel, count - 1)
    row = xp.arange(times.shape[0])[:, None]
    passed = path.passed[row, k]
    half = 0.5 * hold(path.passed[row, k + 1] - passed)
    aim = xp.where(in_tail, half, times - passed)
    terms, total = path.series[:, row, k], path.total[row, k]
    x = _invert(hold(terms), hold(total), path.ends[:, row, k], hold(aim), rolled=rolled)
    value, slope = chebyshev_pair(terms, x, rolled=rolled)
    slope = slope + total
    x = x + ((aim - total * x) - value) / hold(xp.where(slope > 0.0, slope, 1.0))
    end, step = clock.end[:, None], path.step[row, k] * x
    inside = clock.remaining(end * (path.tau[row, k] + step), end * (path.delta[row, k] - step))
    left = xp.where(in_tail, times - path.passed[:, -1:], 0.0)
    pole = _pole_tail(path, left, rolled=rolled)
    beyond = xp.where(clock.ends[:, None], pole, _saddle_tail(path, left))
    return xp.where(in_tail, beyond, inside)


def _panel_of(path: _Path, times: Times) -> Int[Any, "tasks times"]:
    """The panel each time falls into; the number of panels stands for the tail."""
    passed, times = hold((path.passed, times))
    if module_of(passed, times) is np:
        found = [np.searchsorted(*pair, side="right") for pair in zip(passed, times, strict=True)]
        return np.stack(found) - 1

    def search(passed: Any, times: Any) -> Any:
        return jnp.searchsorted(passed, times, side="right", method="scan_unrolled")

    return jax.vmap(search)(passed, times) - 1


def _invert(
    terms: Float[Any, "terms tasks times"],
    total: Times,
    ends: Float[Any, "2 tasks times"],
    aim: Times,
    *,
    rolled: bool,
) -> Times:
    """The x in [0, 1] where each panel's antiderivative reaches `aim`, but for one Newton step.

    The first guess takes the integrand for an exponential between its end values.
    """
    xp = module_of(terms, aim)
    first, last = ends
    growth = xp.log(last / first)
    bent = xp.abs(growth) > 1e-3
    scaled = aim / first
    x = xp.where(bent, xp.log1p(growth * scaled) / xp.where(bent, growth, 1.0), scaled)
    x = xp.clip(xp.where(xp.isfinite(x), x, 0.5), 0.0, 1.0)

    def newton(x: Times) -> Times:
        value, slope = chebyshev_pair(terms, x, rolled=rolled)
        slope = slope + total
        x = x + ((aim - total * x) - value) / xp.where(slope > 0.0, slope, 1.0)
        return xp.clip(x, 0.0, 1.0)

    return repeat(3, newton, x)


def _pole_tail(path: _Path, left: Times, *, rolled: bool) -> Times:
    """R after a further p t = `left` inside the last stretch: Newton in log δ."""
    xp = module_of(path, left)
    clock = path.clock
    last = xp.where(clock.ends, clock.end * path.delta[:, -1], 1.0)[:, None]
    slope = clock.end_slope()[:, None]
    whole = xp.sum(path.tail, axis=0)[:, None]
    left = xp.minimum(left, hold(_FULL / slope + xp.abs(whole)))
    terms = xp.broadcast_to(path.tail[:, :, None], (*path.tail.shape, left.shape[1]))

    def newton(log: Times, slope: Any, whole: Any, terms: Any, left: Times) -> Times:
        ratio = xp.exp(log)
        value, density = chebyshev_pair(terms, ratio, rolled=rolled)
        return log + (whole - value - left - log / slope) / hold(1.0 / slope + ratio * density)

    arguments = (slope, whole, terms, left)
    log = -hold(slope * left)
    log = repeat(4, lambda log: xp.minimum(newton(log, *hold(arguments)), 0.0), log)
    close = last * xp.exp(newton(log, *arguments))
    return clock.remaining(clock.end[:, None] * path.tau[:, -1:] + (last - close), close)


def _saddle_tail(path: _Path, left: Times) -> Times:
    """R after a further p t = `left` when one falling exponential is left: closed form."""
    xp = module_of(path, left)
    clock = path.clock
    slowest, lasting = clock.lasting()
    falling = xp.exp(clock.log_d - clock.s * (clock.end * path.tau[:, -1])[:, None])
    fall = xp.sum(xp.where(lasting, falling, 0.0), axis=1)
    fall = xp.where(clock.ends, 0.0, fall)[:, None]
    rate = xp.where(clock.ends, 1.0, slowest)[:, None]
    floor = xp.where(clock.ends, 0.0, clock.floor)[:, None]
    left = xp.minimum(left, hold(1e290 / (1.0 + rate * (floor + fall))))
    z = rate * floor * left
    gone = z > 600.0
    z = xp.where(gone, 0.0, z)
    tiny = z < 1e-8
    growth = xp.where(tiny, 1.0 + 0.5 * z, xp.expm1(z) / xp.where(tiny, 1.0, z))
    stretch = 1.0 + (floor + fall) * rate * left * growth
    return floor + xp.where(gone, 0.0, fall / stretch)


class Flow(eqx.Module):
    """Every task's approach to its target, ready to be read at any times.

    Args:
        mu: eigenvalues of H, any symmetric matrix.
        plus, minus: √|μ| times the entries of v + w and v − w in the eigenbasis.
        initial: f(0).
        target: Λ.
        panels: how many panels the quadrature may use.
    """

    path: _Path
    gap: Column
    unit: Column
    sign: Column  # of f − Λ; 0 where f(0) = Λ

    def __init__(
        self,
        mu: Modes,
        plus: Modes,
        minus: Modes,
        initial: Column,
        target: Column,
        panels: int = PANELS,
    ):
        xp = module_of(mu, plus, minus, initial, target)
        forward = mu >= 0.0
        c = log_square(xp.where(forward, plus, minus)) - math.log(4.0)
        d = log_square(xp.where(forward, minus, plus)) - math.log(4.0)
        down = initial > target  # read backwards: −f rises towards −Λ
        gap = xp.where(down, initial - target, target - initial)
        arrived = gap <= 0.0
        # In units of the larger of |Λ| and |f(0) − Λ| nothing below underflows.
        unit = hold(xp.where(arrived, 1.0, xp.maximum(gap, xp.abs(target))))
        gap = xp.where(arrived, 1.0, gap / unit)
        log_c = xp.where(down[:, None], d, c) - xp.log(unit)[:, None]
        log_d = xp.where(down[:, None], c, d) - xp.log(unit)[:, None]
        floor = xp.where(arrived, 1.0, xp.where(down, -target, target) / unit)
        s = 2.0 * xp.abs(mu)
        ends = xp.any(log_c > -xp.inf, axis=1) | (floor < 0.0)
        pole = _find_end(  # with harmless numbers where there is none
            xp.where(ends[:, None], log_c, 0.0),
            xp.where(ends[:, None], log_d, 0.0),
            xp.where(ends[:, None], s, 1.0),
            gap,
            floor,
        )
        end = xp.where(ends, pole, 1.0)
        self.path = _Path(_Clock(log_c, log_d, s, floor, gap, end, ends), panels)
        self.gap, self.unit = gap, unit
        self.sign = xp.where(arrived, 0.0, xp.where(down, 1.0, -1.0))

    def residual(self, times: Times) -> Times:
        """``f(t) − Λ`` at data-weighted times p t ≥ 0, to relative accuracy."""
        return self.signed(_distance(self.path, self.scaled(times)), times)

    def scaled(self, times: Times) -> Times:
        """Times in the unit in which the path is known."""
        xp = module_of(self, times)
        unit = self.unit[:, None]
        return xp.minimum(times, hold(1e290 / unit)) * unit

    def signed(self, distance: Times, times: Times) -> Times:
        """F − Λ of the distance."""
        xp = module_of(self, times)
        at = xp.where(times > 0.0, distance, self.gap[:, None])
        return (self.sign * self.unit)[:, None] * at


class Resampled(eqx.Module):
    """The flow of one task as a series in time on every panel: reading it needs no inversion.

    Past the last panel R/E is analytic in ``E = e^{−f'(τ*) p t}``. The grid moves with the flow
    under differentiation, so that slopes are as smooth as values.
    """

    flow: Flow
    series: Float[Any, "terms edges"]
    bend: Float[Any, " panels"]

    def __init__(self, flow: Flow):
        path = flow.path
        xp = module_of(path)
        points, matrix = (xp.asarray(x) for x in chebyshev_fit(RESAMPLED))
        # In the time at which an integrand that is exponential in τ would be passed, R is as
        # smooth as in τ itself: x = log(1 + q v)/log(1 + q) for the share v of a panel's time.
        first, last = path.ends[:, 0]
        growth = xp.log(xp.where(first > 0.0, last, 1.0) / xp.where(first > 0.0, first, 1.0))
        total, passed = path.total[0], path.passed[0]
        bend = growth * total / xp.where(first > 0.0, first, 1.0)
        self.bend = hold(xp.where(xp.abs(bend) > 1e-6, bend, 0.0))
        q = self.bend[:, None]
        share = xp.expm1(points[None, :] * xp.log1p(q)) / xp.where(q == 0.0, 1.0, q)
        share = xp.where(q == 0.0, points[None, :], share)
        inner = passed[:-1, None] + total[:, None] * share
        outer = passed[-1] - xp.log(points) / path.clock.end_slope()
        times = xp.concatenate([inner.ravel(), outer])[None, :]
        values = _distance(path, times, rolled=True).reshape(-1, RESAMPLED)
        values = xp.concatenate([values[:-1], values[-1:] / points[None, :]])
        self.flow, self.series = flow, matrix @ values.T

    def residual(self, times: Float[Any, " times"]) -> Float[Any, " times"]:
        """``f(t) − Λ`` at data-weighted times p t ≥ 0, to relative accuracy."""
        path, count = self.flow.path, self.flow.path.step.shape[1]
        xp = module_of(self, times)
        slope, passed, total = path.clock.end_slope(), path.passed[0], path.total[0]
        clock_time = self.flow.scaled(times[None, :])
        panel = _panel_of(path, clock_time)[0]
        clock_time = clock_time[0]
        in_tail = panel >= count
        k = xp.minimum(panel, count - 1)
        left = xp.where(in_tail, clock_time - passed[-1], 0.0)
        decay = xp.exp(-slope * xp.minimum(left, hold(_FULL / slope)))
        share = xp.where(in_tail, 0.0, clock_time - passed[k])
        share = share / xp.where(total > 0.0, total, 1.0)[k]
        q = self.bend[k]
        bent = xp.log1p(q * share) / xp.where(q == 0.0, 1.0, xp.log1p(q))
        inside = xp.where(q == 0.0, share, bent)
        value = chebyshev_value(self.series, panel, xp.where(in_tail, decay, inside))
        value = xp.where(in_tail, value * decay, value)
        if not (xp is np and path.clock.ends[0]):
            at_saddle = in_tail & ~path.clock.ends
            value = xp.where(at_saddle, _saddle_tail(path, left[None, :])[0], value)
        return self.flow.signed(value[None, :], times[None, :])[0]


def modes(start: Start) -> tuple[Modes, Modes, Modes]:
    """Eigenvalues of the 2×2 H and √μ times v ± w in its eigenbasis, each (tasks, 2).

    ``μ₁ = 1 + m`` with ``m² + m(1 − ψn) = ψ``, ``μ₂ = ψΛ²/μ₁``, and the eigenvector of μ₁ has slope
    ``Λ(1 − 1/μ₁)``.
    """
    xp = module_of(start)
    psi, lam = start.context, start.strength
    excess = psi * start.squared_norm - 1.0
    root = xp.sqrt(excess**2 + 4.0 * psi)
    large = excess > 0.0
    m = xp.where(large, 0.5 * (excess + root), 2.0 * psi / xp.where(large, 1.0, root - excess))
    mu1 = 1.0 + m
    slope = lam * m / mu1
    norm = xp.sqrt(1.0 + slope**2)
    root1, root2 = xp.sqrt(mu1), lam * xp.sqrt(psi / mu1)

    def project(sign: float) -> Modes:
        x1, x2 = (start.v + sign * start.w).T
        # The slope is Λ − Λ/μ₁ for long contexts and small for short ones: neither may cancel.
        short = m < 1.0
        first = xp.where(short, x1 + slope * x2, start.along(sign) - lam * x2 / mu1)
        second = xp.where(short, x2 - slope * x1, lam * x1 / mu1 - start.across(sign))
        return xp.stack([root1 * first / norm, root2 * second / norm], axis=1)

    return xp.stack([mu1, psi * lam**2 / mu1], axis=1), project(1.0), project(-1.0)


def flows(start: Start) -> Flow:
    """The exact flow of every task, one row a task."""
    mu, plus, minus = modes(start)
    return Flow(mu, plus, minus, start.prediction, start.strength)


def exact(start: Start, time: Times) -> Times:
    """The residual f − Λ for every task at its own data-weighted times p t."""
    return flows(start).residual(time)


def exact_shared(start: Start) -> Resampled:
    """The flow that all tasks follow, each at its own pace p t: that of the first row."""
    return Resampled(flows(jax.tree.map(lambda x: x[:1], start)))
