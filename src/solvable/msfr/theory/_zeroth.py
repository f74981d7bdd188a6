"""Order zero: one mode, solved in closed form, stable at every edge."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ...numerics.special import log_add, log_square
from ._modes import Start

Values = Float[Array, "..."]

# Beyond these nothing changes: e^-2y has underflowed, or an algebraic tail is below 1e-150.
_LARGEST_EXPONENT = 5e3
_LARGEST_CLOCK = 1e150
_LOG_OF_NOTHING = -3e4  # below any logarithm of a square over σ, and no y makes up for it


def _cosh_sinhc(z: Values) -> tuple[Values, Values]:
    """``cosh √z`` and ``sinh √z / √z`` for 0 ≤ z ≤ ¼: entire in z, so no √z to differentiate."""
    cosh = sinhc = jnp.zeros_like(z)
    for k in range(7, -1, -1):  # the next term is below z⁸/16! = 7e-19
        cosh = cosh * z + 1.0 / math.factorial(2 * k)
        sinhc = sinhc * z + 1.0 / math.factorial(2 * k + 1)
    return cosh, sinhc


def _clock(
    plus: Values, minus: Values, target: Values, rate: Values, time: Values
) -> tuple[Values, Values, Bool[Array, "..."]]:
    """``a t``, σ (1 where it is 0), and whether y = aσt is above ½."""
    limit = jax.lax.stop_gradient(_LARGEST_CLOCK / jnp.maximum(rate, 1e-100))
    half = 0.5 * plus * minus  # √(C/2)
    scale = jax.lax.stop_gradient(jnp.maximum(jnp.abs(target), jnp.abs(half)))
    moves = scale > 0.0
    safe = jnp.where(moves, scale, 1.0)
    ratio = (target / safe) ** 2 + (half / safe) ** 2
    sigma = safe * jnp.sqrt(jnp.where(moves, ratio, 1.0))
    clock = rate * jnp.minimum(time, limit)
    return clock, sigma, moves & (jax.lax.stop_gradient(sigma * clock) > 0.5)


def _near(plus: Values, minus: Values, target: Values, clock: Values) -> tuple[Values, Values]:
    """The brackets at y ≤ ½, where neither cancels by more than √e: power series in y²."""
    z = (clock * target) ** 2 + (0.5 * (clock * plus) * minus) ** 2
    cosh, sinhc = _cosh_sinhc(z)
    return (
        cosh + (0.5 * plus**2 - target) * clock * sinhc,
        cosh + (0.5 * minus**2 + target) * clock * sinhc,
    )


def _of_rows(far: Bool[Array, "..."], row: Values) -> Bool[Array, "..."]:
    """Whether a row has anything that is far: what is the same for all its times is found once."""
    shape = (1,) * (far.ndim - row.ndim) + row.shape
    times = tuple(k for k, length in enumerate(shape) if length == 1)
    return jnp.any(far, axis=times, keepdims=True).reshape(row.shape)


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
    clock, sigma, far = _clock(plus, minus, target, rate, time)
    near_g, near_h = map(jnp.log, _near(plus, minus, target, jnp.where(far, 0.0, clock)))

    # y > ½: sums of positive terms, in logs. The bracket whose e^y term can vanish comes first.
    sigma = jnp.where(far, sigma, 1.0)
    saturated = jax.lax.stop_gradient(sigma * clock) > _LARGEST_EXPONENT
    y = jnp.where(far & ~saturated, sigma * jnp.where(far & ~saturated, clock, 1.0), 1.0)
    y = jnp.where(saturated, _LARGEST_EXPONENT, y)
    size = jnp.abs(target)
    log_g, log_h = log_square(plus), log_square(minus)
    first, second = jnp.where(target >= 0.0, log_g, log_h), jnp.where(target >= 0.0, log_h, log_g)
    log_small = log_g + log_h - jnp.log(4.0 * sigma) - jnp.log(sigma + size)  # 1 − |Λ|/σ
    log_big = jnp.log1p(size / sigma)
    log_t = jnp.log(-jnp.expm1(-2.0 * y)) - jnp.log(2.0 * sigma)
    log_first = log_add(log_add(first + log_t, log_small), log_big - 2.0 * y) - math.log(2.0)
    log_second = log_add(log_add(second + log_t, log_big), log_small - 2.0 * y) - math.log(2.0)
    far_g = jnp.where(target >= 0.0, log_first, log_second)
    far_h = jnp.where(target >= 0.0, log_second, log_first)
    return jnp.where(far, far_g, near_g), jnp.where(far, far_h, near_h)


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
    clock, sigma, far = _clock(plus, minus, target, rate, time)
    near_g, near_h = _near(plus, minus, target, jnp.where(far, 0.0, clock))
    sigma = jnp.where(_of_rows(far, sigma), sigma, 1.0)  # else slopes overflow where it is tiny

    # y > ½: with E = e^−2y the bracket whose e^y term can vanish is e^y/2 (top (1 − κE) + big E),
    # the other is e^y/2 · whole (1 + share E): no logarithm of anything that depends on time.
    size = jnp.abs(target)
    log_g, log_h = log_square(plus), log_square(minus)
    log_first = jnp.where(target >= 0.0, log_g, log_h) - jnp.log(2.0 * sigma)
    log_small = log_g + log_h - jnp.log(4.0 * sigma) - jnp.log(sigma + size)  # 1 − |Λ|/σ
    log_top = jnp.maximum(log_add(log_first, log_small), _LOG_OF_NOTHING)
    # As quotients these two would overflow in their slopes where the top is small.
    kappa, small = jnp.exp(log_first - log_top), jnp.exp(log_small)
    second = jnp.where(target >= 0.0, minus, plus) ** 2 / (2.0 * sigma)
    big = 1.0 + size / sigma
    whole = big + second
    share = (small - second) / whole
    twice = jnp.minimum(2.0 * jnp.where(far, sigma * clock, 1.0), 2.0 * _LARGEST_EXPONENT)
    fallen = jnp.exp(-twice)
    # e^2y top, or its inverse on both sides of the quotient: nothing grows.
    rise = twice + log_top
    risen = rise > 0.0
    less = jnp.exp(jnp.where(risen, -rise, rise))
    rest = 1.0 - kappa * fallen
    product = jnp.where(risen, big * less + rest, big + less * rest) * (1.0 + share * fallen)
    off = initial - target
    above = 4.0 * off / whole * jnp.where(risen, less, 1.0)
    return jnp.where(far, above, off) / jnp.where(far, product, near_g * near_h)


def order_zero(start: Start, time: Float[Array, "tasks times"]) -> Float[Array, "tasks times"]:
    """f⁰ − Λ for every task at its own data-weighted times p t."""
    root = jnp.sqrt(start.context)
    return zeroth_residual(
        (root * start.along(1.0))[:, None],
        (root * start.along(-1.0))[:, None],
        start.leading_prediction[:, None],
        start.strength[:, None],
        (start.context * start.squared_norm)[:, None],
        time,
    )


def order_one(start: Start, time: Float[Array, "tasks times"]) -> Float[Array, "tasks times"]:
    """f⁰ + f¹/ψ − Λ: the first correction in ε = 1/ψ, for any init.

    At first order in ε the large mode of ``H(ε) = ψ(H⁰ + εH¹)`` moves like order zero with its
    eigenvalue ``ψ(n + ε/n)`` (n = 1 + Λ²) and eigenvector turned by ``εΛ/n²``, towards the target
    ``Λ − k``: the small mode's share ``k = ψε (Λ²/n) v⊥·w⊥`` does not move yet. One jvp of the
    closed form along that change is f¹ (App. J for inits along (1, Λ)).
    """
    n, psi, lam = start.squared_norm, start.context, start.strength
    root = jnp.sqrt(psi)
    plus, minus = root * start.along(1.0), root * start.along(-1.0)
    # Changes with ε = 1/ψ already multiplied in; √ψ/ψ = 1/√ψ cannot overflow.
    turn = lam / (n * n * root)
    d_plus = 0.5 * start.along(1.0) / (n * n * root) + turn * start.across(1.0)
    d_minus = 0.5 * start.along(-1.0) / (n * n * root) + turn * start.across(-1.0)
    d_initial = 0.5 * (plus * d_plus - minus * d_minus)
    across_v, across_w = (
        0.5 * (start.across(1.0) + start.across(-1.0)),
        0.5 * (start.across(1.0) - start.across(-1.0)),
    )
    d_target = -((lam / n) ** 2) * across_v * across_w
    at = (plus, minus, start.leading_prediction, lam, psi * n)
    along = (d_plus, d_minus, d_initial, d_target, 1.0 / n)

    def moved(plus: Values, minus: Values, initial: Values, target: Values, rate: Values) -> Values:
        columns = (x[:, None] for x in (plus, minus, initial, target, rate))
        return zeroth_residual(*columns, time=time)

    value, change = jax.jvp(moved, at, along)
    return value + change
