"""Order zero: one mode, solved in closed form, stable at every edge."""

import math
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from ...numerics.host import hold, module_of
from ...numerics.special import log_add, log_square
from ._modes import Start

Values = Float[Any, "..."]  # of numpy or of JAX

# Beyond these nothing changes: e^-2y has underflowed, or an algebraic tail is below 1e-150.
_LARGEST_EXPONENT = 5e3
_LARGEST_CLOCK = 1e150
_LOG_OF_NOTHING = -3e4  # below any logarithm of a square over σ, and no y makes up for it


def cosh_sinhc(z: Values) -> tuple[Values, Values]:
    """``cosh √z`` and ``sinh √z / √z`` for 0 ≤ z ≤ ¼: entire in z, so no √z to differentiate."""
    cosh = sinhc = 0.0 * z
    for k in range(7, -1, -1):  # the next term is below z⁸/16! = 7e-19
        cosh = cosh * z + 1.0 / math.factorial(2 * k)
        sinhc = sinhc * z + 1.0 / math.factorial(2 * k + 1)
    return cosh, sinhc


def clock_of(
    plus: Values, minus: Values, target: Values, rate: Values, time: Values
) -> tuple[Values, Values, Bool[Any, "..."]]:
    """``a t``, σ (1 where it is 0), and whether y = aσt is above ½."""
    xp = module_of(plus, minus, target, rate, time)
    limit = hold(_LARGEST_CLOCK / xp.maximum(rate, 1e-100))
    half = 0.5 * plus * minus  # √(C/2)
    scale = hold(xp.maximum(xp.abs(target), xp.abs(half)))
    moves = scale > 0.0
    safe = xp.where(moves, scale, 1.0)
    ratio = (target / safe) ** 2 + (half / safe) ** 2
    sigma = safe * xp.sqrt(xp.where(moves, ratio, 1.0))
    clock = rate * xp.minimum(time, limit)
    return clock, sigma, moves & (hold(sigma * clock) > 0.5)


def _near(plus: Values, minus: Values, target: Values, clock: Values) -> tuple[Values, Values]:
    """The brackets at y ≤ ½, where neither cancels by more than √e: power series in y²."""
    z = (clock * target) ** 2 + (0.5 * (clock * plus) * minus) ** 2
    cosh, sinhc = cosh_sinhc(z)
    return (
        cosh + (0.5 * plus**2 - target) * clock * sinhc,
        cosh + (0.5 * minus**2 + target) * clock * sinhc,
    )


def _of_rows(far: Bool[Any, "..."], row: Values) -> Bool[Any, "..."]:
    """Whether a row has anything that is far: what is the same for all its times is found once."""
    xp = module_of(far)
    shape = (1,) * (far.ndim - row.ndim) + row.shape
    times = tuple(k for k, length in enumerate(shape) if length == 1)
    return xp.any(far, axis=times, keepdims=True).reshape(row.shape)


def brackets(
    plus: Values, minus: Values, target: Values, rate: Values, time: Values
) -> tuple[Values, Values]:
    """Logarithms of the two brackets that carry the whole time dependence.

    With ``g0 = plus²``, ``h0 = minus²``, ``σ² = Λ² + g0 h0/4``, ``y = aσt`` the brackets are
    ``B_g = cosh y + (g0/2 − Λ) sinh(y)/σ`` and ``B_h = cosh y + (h0/2 + Λ) sinh(y)/σ``; all of
    order zero follows from them: ``f − Λ = (f0 − Λ)/(B_g B_h)``, ``g = g0 B_h/B_g``.

    Args:
        plus, minus: √ψ q of v + w and of v − w, signed.
        target: Λ.
        rate: a / p = ψ(1 + Λ²).
        time: p t.

    Returns:
        ``log B_g`` and ``log B_h``, each without the common factor e^y when y > ½.
    """
    xp = module_of(plus, minus, target, rate, time)
    clock, sigma, far = clock_of(plus, minus, target, rate, time)
    near_g, near_h = map(xp.log, _near(plus, minus, target, xp.where(far, 0.0, clock)))

    # y > ½: sums of positive terms, in logs. The bracket whose e^y term can vanish comes first.
    sigma = xp.where(far, sigma, 1.0)
    saturated = hold(sigma * clock) > _LARGEST_EXPONENT
    y = xp.where(far & ~saturated, sigma * xp.where(far & ~saturated, clock, 1.0), 1.0)
    y = xp.where(saturated, _LARGEST_EXPONENT, y)
    size = xp.abs(target)
    log_g, log_h = log_square(plus), log_square(minus)
    first, second = xp.where(target >= 0.0, log_g, log_h), xp.where(target >= 0.0, log_h, log_g)
    log_small = log_g + log_h - xp.log(4.0 * sigma) - xp.log(sigma + size)  # 1 − |Λ|/σ
    log_big = xp.log1p(size / sigma)
    log_t = xp.log(-xp.expm1(-2.0 * y)) - xp.log(2.0 * sigma)
    log_first = log_add(log_add(first + log_t, log_small), log_big - 2.0 * y) - math.log(2.0)
    log_second = log_add(log_add(second + log_t, log_big), log_small - 2.0 * y) - math.log(2.0)
    far_g = xp.where(target >= 0.0, log_first, log_second)
    far_h = xp.where(target >= 0.0, log_second, log_first)
    return xp.where(far, far_g, near_g), xp.where(far, far_h, near_h)


def _tops(
    plus: Values, minus: Values, target: Values, sigma: Values
) -> tuple[Values, Values, Values]:
    """Logarithms of the parts of the e^y term that can vanish: g/2σ, 1 − |Λ|/σ, and their sum."""
    xp = module_of(plus, minus, target, sigma)
    log_g, log_h = log_square(plus), log_square(minus)
    log_first = xp.where(target >= 0.0, log_g, log_h) - xp.log(2.0 * sigma)
    log_small = log_g + log_h - xp.log(4.0 * sigma) - xp.log(sigma + xp.abs(target))
    return log_first, log_small, xp.maximum(log_add(log_first, log_small), _LOG_OF_NOTHING)


def plateau(start: Start) -> Float[Any, " tasks"]:
    """How many e-folds a task waits before it is learned, ``log((1 + |Λ|/σ)/top)``.

    In y the residual has its nearest poles at ``2y = plateau ± iπ``; 0 at a saddle, which has none.
    """
    xp = module_of(start)
    plus, minus, _, target, rate = columns(start)
    _, sigma, _ = clock_of(plus, minus, target, rate, 0.0 * rate)
    log_top = _tops(plus, minus, target, sigma)[2]
    folds = xp.log(1.0 + xp.abs(target) / sigma) - log_top
    return xp.where(log_top > _LOG_OF_NOTHING, xp.maximum(folds, 0.0), 0.0)


def zeroth_residual(
    plus: Values, minus: Values, initial: Values, target: Values, rate: Values, time: Values
) -> Values:
    """``f(t) − Λ`` of one mode, to relative accuracy: ``(f0 − Λ)/(B_g B_h)``.

    Args:
        plus, minus: √ψ q of v + w and of v − w.
        initial: f0 = (plus² − minus²)/4, given so that it need not be formed by cancellation.
        target: Λ.
        rate: a / p.
        time: p t.

    Reference: Theorem 3.1; balanced, negative, saddle and algebraic cases included.
    """
    xp = module_of(plus, minus, initial, target, rate, time)
    clock, sigma, far = clock_of(plus, minus, target, rate, time)
    off = initial - target
    far_all = xp is np and bool(far.all())  # numbers are asked first: mostly all are on one side
    near_g, near_h = (
        (1.0, 1.0) if far_all else _near(plus, minus, target, xp.where(far, 0.0, clock))
    )
    if xp is np and not far.any():
        return off / (near_g * near_h)
    sigma = xp.where(_of_rows(far, sigma), sigma, 1.0)  # else slopes overflow where it is tiny

    # y > ½: with E = e^−2y the bracket whose e^y term can vanish is e^y/2 (top (1 − κE) + big E),
    # the other is e^y/2 · whole (1 + share E): no logarithm of anything that depends on time.
    log_first, log_small, log_top = _tops(plus, minus, target, sigma)
    # As quotients these two would overflow in their slopes where the top is small.
    kappa, small = xp.exp(log_first - log_top), xp.exp(log_small)
    second = xp.where(target >= 0.0, minus, plus) ** 2 / (2.0 * sigma)
    big = 1.0 + xp.abs(target) / sigma
    whole = big + second
    share = (small - second) / whole
    twice = xp.minimum(2.0 * xp.where(far, sigma * clock, 1.0), 2.0 * _LARGEST_EXPONENT)
    fallen = xp.exp(-twice)
    # e^2y top, or its inverse on both sides of the quotient: nothing grows.
    rise = twice + log_top
    risen = rise > 0.0
    less = xp.exp(xp.where(risen, -rise, rise))
    rest = 1.0 - kappa * fallen
    product = xp.where(risen, big * less + rest, big + less * rest) * (1.0 + share * fallen)
    above = 4.0 * off / whole * xp.where(risen, less, 1.0)
    return xp.where(far, above, off) / xp.where(far, product, near_g * near_h)


def columns(start: Start) -> tuple[Float[Any, " tasks"], ...]:
    """What order zero depends on: √ψ q of v ± w, f(0), Λ and a/p = ψ(1 + Λ²) of every task."""
    root = module_of(start).sqrt(start.context)
    return (
        root * start.along(1.0),
        root * start.along(-1.0),
        start.leading_prediction,
        start.strength,
        start.context * start.squared_norm,
    )


def order_zero(start: Start, time: Float[Any, "tasks times"]) -> Float[Any, "tasks times"]:
    """f⁰ − Λ for every task at its own data-weighted times p t."""
    return zeroth_residual(*(x[:, None] for x in columns(start)), time=time)
