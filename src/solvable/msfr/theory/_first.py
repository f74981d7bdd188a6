"""Order one: the first correction in ε = 1/ψ, for any start."""

import math
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from ...numerics.host import module_of
from ._modes import Start
from ._zeroth import clock_of, columns, cosh_sinhc, zeroth_residual

Values = Float[Any, "..."]
Row = Float[Any, "tasks times"]


def order_one(start: Start, time: Row) -> Row:
    """f⁰ + f¹/ψ − Λ: the first correction in ε = 1/ψ, for any init.

    At first order in ε the large mode of ``H(ε) = ψ(H⁰ + εH¹)`` moves like order zero with its
    eigenvalue ``ψ(n + ε/n)`` (n = 1 + Λ²) and eigenvector turned by ``εΛ/n²``, towards the target
    ``Λ − k``: the small mode's share ``k = ψε (Λ²/n) v⊥·w⊥`` does not move yet. The derivative of
    the closed form along that change is f¹ (App. J for inits along (1, Λ)).
    """
    at, along = columns(start), _change(start)
    if module_of(start, time) is np:
        return _moved(*(x[:, None] for x in (*at, *along)), time=time)

    def moved(*at: Values) -> Values:
        return zeroth_residual(*(x[:, None] for x in at), time=time)

    value, change = jax.jvp(moved, at, along)
    return value + change


def _change(start: Start) -> tuple[Values, ...]:
    """How the columns of order zero change, with ε = 1/ψ already multiplied in."""
    n, lam = start.squared_norm, start.strength
    root = module_of(start).sqrt(start.context)
    turn = lam / (n * n * root)  # √ψ/ψ = 1/√ψ cannot overflow

    def change(along: Values, across: Values) -> Values:
        return 0.5 * along / (n * n * root) + turn * across

    d_plus = change(start.along(1.0), start.across(1.0))
    d_minus = change(start.along(-1.0), start.across(-1.0))
    # Of f0 = ψ q_v q_w by its own factors: as (plus² − minus²)/4 it would cancel.
    d_v, d_w = change(start.along_v, start.across_v), change(start.along_w, start.across_w)
    d_initial = root * (start.along_v * d_w + start.along_w * d_v)
    return d_plus, d_minus, d_initial, -resting(start), 1.0 / n


def resting(start: Start) -> Float[Any, " tasks"]:
    """The small mode's share k of f, which stays where it is at order one."""
    return (start.strength / start.squared_norm) ** 2 * start.across_v * start.across_w


def _moved(
    plus: Values,
    minus: Values,
    initial: Values,
    target: Values,
    rate: Values,
    d_plus: Values,
    d_minus: Values,
    d_initial: Values,
    d_target: Values,
    d_rate: Values,
    time: Row,
) -> Row:
    """`zeroth_residual` plus its derivative along a change, in numpy.

    ``R = (f0 − Λ)/(B_g B_h)``, so that ``dR = d(f0 − Λ)/(B_g B_h) − R (d log B_g + d log B_h)``.
    """
    value = zeroth_residual(plus, minus, initial, target, rate, time)
    clock, sigma, far = clock_of(plus, minus, target, rate, time)
    d_clock = np.where(rate > 0.0, clock / rate, 0.0) * d_rate
    half, d_half = 0.5 * plus * minus, 0.5 * (d_plus * minus + plus * d_minus)
    near = _near_change(
        plus, minus, target, np.where(far, 0.0, clock), d_plus, d_minus, d_target, d_clock, d_half
    )

    # y > ½: B is e^y/2 times T, of the one whose e^y term can vanish and of the other.
    rising = target >= 0.0
    first, d_first = np.where(rising, plus, minus), np.where(rising, d_plus, d_minus)
    second, d_second = np.where(rising, minus, plus), np.where(rising, d_minus, d_plus)
    size, d_size = np.abs(target), np.where(rising, d_target, -d_target)
    aim, tie = size / sigma, half / sigma  # of σ² = Λ² + half²; σ³ would underflow
    d_sigma = aim * d_size + tie * d_half
    y = np.where(far, sigma * clock, 1.0)
    # Beyond these e-folds nothing changes any more, and y would take all digits.
    d_y = np.where(y > 5e3, 0.0, d_sigma * clock + sigma * d_clock)
    fallen = np.exp(-2.0 * np.minimum(y, 5e3))
    big, small = 1.0 + aim, tie * (half / (sigma + size))
    d_small = tie * (aim * d_half - tie * d_size) / sigma
    g2 = second**2 / (2.0 * sigma)
    d_g2 = second * d_second / sigma - g2 * d_sigma / sigma
    other = big + g2 * (1.0 - fallen) + small * fallen
    d_other = (d_g2 - d_small) * (1.0 - fallen) + 2.0 * (g2 - small) * fallen * d_y

    # top = 1 − |Λ|/σ + g/2σ = first² scale/σ: what divides by it is taken out of the quotients.
    scale = 0.5 + second**2 / (4.0 * (sigma + size))
    grown = np.where(first == 0.0, 0.0, d_first / np.where(first == 0.0, 1.0, first))
    by_small = aim * (grown * second + d_second) - (second / sigma) * d_size
    by_small = (second / sigma) * by_small / (4.0 * scale)
    by_first = (grown - 0.5 * d_sigma / sigma) / scale
    kappa = 0.5 / scale
    by_top = by_small + by_first * (1.0 - fallen) + 2.0 * kappa * fallen * d_y
    log_top = 2.0 * np.log(np.abs(first)) + np.log(scale) - np.log(sigma)
    log_top = np.where(first == 0.0, -3e4, log_top)
    rise = 2.0 * np.minimum(y, 5e3) + log_top
    risen = rise > 0.0
    less = np.exp(np.where(risen, -rise, rise))
    rest, d_big = 1.0 - kappa * fallen, -d_small - 2.0 * big * d_y
    d_log = np.where(risen, by_top + d_big * less, by_top * less + d_big)
    d_log = d_log / np.where(risen, rest + big * less, big + less * rest)
    far_change = 2.0 * d_y + d_other / other + d_log

    change = np.where(far, far_change, near)
    off = initial - target
    share = np.where(off == 0.0, 0.0, value / np.where(off == 0.0, 1.0, off))  # 1/(B_g B_h)
    share = np.where(off == 0.0, _share(plus, minus, target, rate, time), share)
    return value + (d_initial - d_target) * share - value * change


def _share(plus: Values, minus: Values, target: Values, rate: Values, time: Row) -> Row:
    """1/(B_g B_h), for tasks that start where they are to go."""
    return zeroth_residual(plus, minus, target + 1.0, target, rate, time)


def _near_change(
    plus: Values,
    minus: Values,
    target: Values,
    clock: Values,
    d_plus: Values,
    d_minus: Values,
    d_target: Values,
    d_clock: Values,
    d_half: Values,
) -> Values:
    """``d log B_g + d log B_h`` at y ≤ ½, by the power series in y²."""
    # Clocks and their changes are large where what they multiply is 0: that comes first.
    half = 0.5 * plus * minus
    x, y = clock * target, clock * half
    z = x**2 + y**2
    d_z = 2.0 * x * (d_clock * target + clock * d_target)
    d_z = d_z + 2.0 * y * (d_clock * half + clock * d_half)
    cosh, sinhc = cosh_sinhc(z)
    slope = 0.0 * z
    for k in range(8, 0, -1):  # d sinhc/dz = ½ Σ 2k z^(k−1)/(2k+1)!
        slope = slope * z + k / math.factorial(2 * k + 1)
    found = 0.0
    for own, d_own, sign in ((plus, d_plus, -1.0), (minus, d_minus, 1.0)):
        pull, d_pull = 0.5 * own**2 + sign * target, own * d_own + sign * d_target
        bracket = cosh + pull * clock * sinhc
        d_bracket = 0.5 * sinhc * d_z + (d_pull * clock + pull * d_clock) * sinhc
        found = found + (d_bracket + pull * clock * slope * d_z) / bracket
    return found
