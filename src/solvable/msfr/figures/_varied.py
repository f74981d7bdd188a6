"""The law of (17) in time when all tasks have one Δ: amplitude, sum, and the flow itself."""

import math
from typing import Any

import numpy as np
from scipy.integrate import quad

from ...numerics.counting import counting_rule
from .. import Init, Task, loss


def varied_amplitude(
    alpha: float, beta: float, gamma: float, pace: float, delta: float, normaliser: float
) -> tuple[float, float]:
    """Exponent and amplitude of the law of (17) in time, with one Δ for all tasks.

    With ``2a_sΛ_s = κ s^-m`` the sum ``(Z/2) Σ s^{−α−2γ} [Δe^{−x}/(1 + Δe^{−x})]²``,
    ``x = κt s^-m``, is ``(Z/2m)(κt)^-ν ∫ x^{ν−1} [Δe^{−x}/(1 + Δe^{−x})]² dx`` for large t,
    ``ν = (α+2γ−1)/m``; the integral is ``Γ(ν)[Li_{ν−1}(−Δ) − Li_ν(−Δ)]``.

    Args:
        alpha, beta, gamma: of the tasks, contexts and strengths; m = α + β + 3γ, as Λ ≫ 1.
        pace: κ.
        delta: Δ.
        normaliser: Z.

    Returns:
        ν and the amplitude A of ``A t^-ν``.
    """
    m = alpha + beta + 3.0 * gamma
    nu = (alpha + 2.0 * gamma - 1.0) / m
    return nu, normaliser / (2.0 * m) * pace**-nu * _mellin(nu, delta)


def _mellin(nu: float, delta: float) -> float:
    """``∫₀^∞ x^{ν−1} (1 + e^x/Δ)^-2 dx``, 0 < ν."""

    def fallen(x: float) -> float:
        part = delta * math.exp(-x)
        return (part / (1.0 + part)) ** 2

    # y = x^ν near 0, where the power is not smooth; the front is at log Δ.
    front = max(math.log(delta), 0.0) + 1.0
    low, _ = quad(lambda y: fallen(y ** (1.0 / nu)), 0.0, front**nu, epsabs=0.0, limit=200)
    high, _ = quad(
        lambda x: x ** (nu - 1.0) * fallen(x), front, front + 60.0, epsabs=0.0, limit=200
    )
    return low / nu + high


def varied_sums(settings: Any, beta: float, gamma: float, delta: float, x: Any) -> tuple[Any, Any]:
    """The sum of (17) at times κt = x, κ = 1, without Z, and its local exponent."""
    alpha = settings.alpha
    m = alpha + beta + 3.0 * gamma
    angle = math.atan2(math.pi, max(math.log(delta), 0.0)) / m  # of the pole of the bracket
    s, w = counting_rule(settings.num_tasks, angle=angle)
    clock = x[None, :] * s[:, None] ** -m
    part = 1.0 / (1.0 + np.exp(np.minimum(clock - math.log(delta), 700.0)))
    front = (w * s ** -(alpha + 2.0 * gamma))[:, None]
    value = np.sum(front * part**2, axis=0)
    slope = np.sum(2.0 * front * part**2 * (1.0 - part) * clock, axis=0)
    return value, slope / value


def flow_ratio(settings: Any, beta: float, gamma: float, delta: float) -> float:
    """The loss of the flow from f_s(0) = Λ_s/(1 + Δ), v = w, over its law, as `front` is learned.

    Its rate has 1 + Λ_s², for which (17) has Λ_s² if γ > 0, so that Λ_1² ≫ 1 there.
    """
    context, first = 100.0, settings.first_strength if gamma else 0.5
    task = Task(settings.flow_tasks, settings.alpha, context, first, beta=beta, gamma=gamma)
    lam = np.asarray(task.strengths)
    part = np.sqrt(lam / (np.asarray(task.contexts) * (1.0 + delta))) / (1.0 + lam**2)
    start = part[:, None] * np.stack([np.ones_like(lam), lam], axis=1)
    z = float(task.normaliser)
    square = first**2 if gamma else 1.0 + first**2
    pace = 2.0 * z * context * first * square
    nu, amplitude = varied_amplitude(settings.alpha, beta, gamma, pace, delta, z)
    t = settings.front ** (settings.alpha + beta + 3.0 * gamma) / pace
    value = float(loss(task, Init(start, start), t, "zeroth"))
    return value / (first**2 * amplitude * t**-nu)
