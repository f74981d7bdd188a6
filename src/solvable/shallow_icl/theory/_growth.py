"""The growth of one head between two plateaus, in closed form."""

import math
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float
from scipy.special import expit

from ... import validation
from ...numerics.host import packed, unpacked
from ..task import Task
from ._directions import diagonal, direction_of, non_negative, one_output, outer
from ._population import Population

Values = Float[Any, "..."]

# 2x³ − x⁶ = ½ is (1 − x³)² = ½.
HALF_DROP = math.cbrt(1.0 - math.sqrt(0.5))

_NEWTON = 10
_TINY = float(np.finfo(float).tiny)
_LEAST = math.sqrt(_TINY)  # start whose square is a number
_SATURATED = -math.log(_TINY) / 3.6  # F at which 1 − x is nearly none


def _clock(xp: Any, x: Values, rest: Values) -> Values:
    """F(x) with F + 1/x → 0 at x → 0; rest = 1 − x is given for its digits."""
    bend = xp.log1p(x * (1.0 + x)) / 6.0
    turn = xp.arctan(math.sqrt(3.0) * x / (2.0 + x)) / math.sqrt(3.0)
    return bend - xp.log(rest) / 3.0 - turn - 1.0 / x


def half_drop_lead() -> float:
    r"""How much earlier half of a drop is over than a head without saturation would blow up.

    ``−F(x) = 1.2534…`` at ``x = (1 − √½)^{1/3}``, in units of ``τ/(λ² v*)``: from a small v₀ the
    drop is half over at ``t = 1/(λ² v₀) − 1.2534/(λ² v*)``.

    Reference: derived for this package.

    >>> round(half_drop_lead(), 6)
    1.253391
    """
    x = HALF_DROP
    bend, turn = math.log1p(x * (1.0 + x)) / 6.0, math.atan(math.sqrt(3.0) * x / (2.0 + x))
    return 1.0 / x + turn / math.sqrt(3.0) + math.log1p(-x) / 3.0 - bend


def drop_fraction(fraction: Any) -> Values:
    r"""Which part of a drop of the loss a growing head has done: ``2x³ − x⁶``.

    Args:
        fraction: x = v/v*, how large the head is of what it will be.

    Reference: derived for this package.

    >>> drop_fraction([0.0, HALF_DROP, 1.0]).round(12).tolist()
    [0.0, 0.5, 1.0]
    """
    x = validation.floating("fraction", fraction)
    validation.within("fraction", x, 0.0, 1e50)
    _, x = unpacked(x)
    return packed(x**3 * (2.0 - x**3))


def _head(task: Task, direction: Any) -> tuple[Population, int, Values]:
    moments = diagonal(task)
    one_output(task)
    place = direction_of(task, direction)
    return moments, place, unpacked(moments.best)[0].cbrt(moments.best[place])


def _started(start: Any, full: Values) -> Values:
    size = validation.floating("start", start)
    validation.within("start", size, _LEAST)
    known = validation.is_concrete(size) and validation.is_concrete(full)
    if known and not np.all(np.asarray(size) < float(full)):
        raise ValueError(
            f"start must lie below what the head grows to, {float(full):.6g}, not "
            f"{np.asarray(size).max():.6g}"
        )
    return size


def growth_time(task: Task, direction: int, fraction: Any, start: Any) -> Float[Array, "..."]:
    r"""When a growing head has reached a given part of its final size.

    The head ``k = q = v e_d`` obeys ``τ v̇ = λ²v² − λ³γv⁵``, so that with ``x = v/v*``,
    ``v* = (λγ)^{−1/3}``,

    ``t = τ/(λ²v*) [F(x) − F(x₀)]``,
    ``F(x) = −1/x − ⅓ ln(1−x) + ⅙ ln(1+x+x²) − (1/√3) arctan((2x+1)/√3)``.

    Args:
        task: the data law, with one output; its task covariance must be the identity.
        direction: d, the place of the eigenvector, 0 for the largest eigenvalue.
        fraction: x in (0, 1].
        start: v₀ = v(0) in (0, v*), in the paper's units.

    Returns:
        t/τ, of the shape of start followed by that of fraction; infinite at x = 1, negative where
        x < x₀.

    Reference: eq. (18) is the differential equation.

    >>> task = Task(dim=4, context=31)
    >>> growth_time(task, 0, HALF_DROP, 0.01).round(3).item()
    619.018
    """
    moments, place, full = _head(task, direction)
    x = validation.floating("fraction", fraction)
    validation.within("fraction", x, 0.0, 1.0, open_low=True)
    first, x = outer(_started(start, full), x)
    xp, first, x, full = unpacked(first, x, full)
    first = first / full

    def bounded(x: Values) -> Values:
        return _clock(xp, x, 1.0 - x) + 1.0 / x

    with np.errstate(divide="ignore"):  # infinite at x = 1
        apart = (x - first) / first / x  # 1/x₀ − 1/x
        return packed((apart + (bounded(x) - bounded(first))) / (moments.cross[place] * full))


def _place(xp: Any, target: Values) -> Values:
    """ln(x/(1−x)) where F(x) = target: Newton from below on a concave function."""
    sigmoid = _sigmoid(xp)

    def step(_: Any, p: Values) -> Values:
        x, rest = sigmoid(p), sigmoid(-p)
        return p + (target - _clock(xp, x, rest)) * (x * (1.0 + x * (1.0 + x)))

    # −1/x ≥ F − J(⅔) and −⅓ ln(1−x) ≥ J: both lie below the root.
    early = -xp.log(0.5 - xp.minimum(target, 0.0))
    rest = 3.0 * (xp.maximum(target, 0.0) + 1.0)
    late = rest + xp.log1p(-xp.exp(-rest))
    p = xp.where(target < 0.0, early, late)
    if xp is not np:
        return jax.lax.fori_loop(0, _NEWTON, step, p)
    for _ in range(_NEWTON):
        p = step(_, p)
    return p


def _sigmoid(xp: Any) -> Any:
    return expit if xp is np else jax.nn.sigmoid


def growth(task: Task, direction: int, t: Any, start: Any) -> Float[Array, "..."]:
    r"""The size v(t) of a growing head, ``τ v̇ = λ²v² − λ³γv⁵``: the inverse of `growth_time`.

    Args:
        task: the data law, with one output; its task covariance must be the identity.
        direction: d, the place of the eigenvector, 0 for the largest eigenvalue.
        t: t/τ, of which a step of gradient descent is 2η.
        start: v₀ = v(0) in (0, v*), in the paper's units.

    Returns:
        v, of the shape of start followed by that of t.

    Reference: eq. (18).

    >>> growth(Task(dim=4, context=31), 0, [0.0, 619.018, 1e9], 0.01).round(4).tolist()
    [0.01, 0.8697, 1.3097]
    """
    moments, place, full = _head(task, direction)
    first, t = outer(_started(start, full), non_negative("t", t))
    xp, first, t, full, rate = unpacked(first, t, full, moments.cross[place])
    hold, sigmoid = (np.asarray if xp is np else jax.lax.stop_gradient), _sigmoid(xp)
    first = first / full
    begin = _clock(xp, first, xp.maximum(1.0 - first, _LEAST))
    # Late or never: a clock that has run to infinity has a slope of 0 × ∞.
    pace = rate * full
    enough = hold((_SATURATED + 2.0 / first) / pace)
    target = xp.minimum(pace * xp.minimum(t, enough) + begin, _SATURATED)
    p = hold(_place(xp, hold(target)))
    x, rest = sigmoid(p), sigmoid(-p)
    slope = x**2 * rest * (1.0 + x * (1.0 + x))  # dx/dF: carries the derivative
    return packed(full * (x + slope * (target - _clock(xp, x, rest))))
