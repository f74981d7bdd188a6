"""One layer on isotropic data by SGD with finite batches: a recursion of one number."""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int

from ... import validation
from ...compiling import stage
from ...numerics.host import is_known, unpacked
from ..task import Isotropic, check_task


class SgdCurve(eqx.Module):
    """SGD of one layer at large D.

    Attributes:
        step: 0, 1, …
        distance: C = |Γ − Γ*|²/D.
        loss: of contexts as in training.
        far_loss: of contexts without end, |I − Γ|²/D.
        factor: a of ``C ← aC + b``; stable below 1.
        floor: b/(1 − a), where C ends; infinite where it is not stable.
    """

    step: Int[np.ndarray, " points"]
    distance: Float[Array, " points"]
    loss: Float[Array, " points"]
    far_loss: Float[Array, " points"]
    factor: float | Float[Array, ""]
    floor: float | Float[Array, ""]


def sgd_curve(
    task: Isotropic,
    *,
    lr: Any,
    steps: int,
    batch: Any,
    queries: Any,
    noisy_queries: bool = False,
) -> SgdCurve:
    r"""``C ← aC + b`` from Γ = 0, at large D with Θ(D) contexts of Θ(D) tokens.

    With ``c = 1 + (1 + σ²)/α`` and ``Γ* = I/c``: ``a = (1 − ηc)² + (η²/τ)(1 + 1/κ)c²``,
    ``b = (η²/τ)(1 + 1/κ)(c − 1)`` (accounts), to which noisy query labels add ``(η²/τ)σ²c/κ``
    (derived).

    Args:
        task: α and the noise σ.
        lr: η, of the step ``Γ ← Γ + (η/B) Σ Ω̂ (b − Γu) uᵀ``.
        steps: how many.
        batch: τ = B/D, contexts a step.
        queries: κ = K/D, queries a context.
        noisy_queries: whether the queries' labels have the noise too.

    >>> import jax; jax.config.update("jax_enable_x64", True)
    >>> curve = sgd_curve(Isotropic(alpha=1.0), lr=0.1, steps=40, batch=1.0, queries=4.0)
    >>> round(curve.distance[-1].item(), 4)
    0.0403
    """
    check_task(task, Isotropic)
    numbers = {"lr": lr, "batch": batch, "queries": queries}
    values = []
    for name, value in numbers.items():
        number = validation.floating(name, value)
        validation.shaped(name, number, ())
        validation.within(name, number, 0.0, 1e100, open_low=True)
        values.append(number)
    validation.within("alpha", task.alpha, 1e-100)
    count = np.arange(validation.whole("steps", steps, 0, 10**8) + 1)
    xp, eta, tau, kappa, alpha, noise = unpacked(*values, task.alpha, task.noise)
    square = noise**2
    c = 1.0 + (1.0 + square) / alpha
    drawn = eta**2 / tau
    with np.errstate(over="ignore", invalid="ignore"):
        a = (1.0 - eta * c) ** 2 + drawn * (1.0 + 1.0 / kappa) * c**2
        fall = eta * c * (2.0 - eta * c * (1.0 + (1.0 + 1.0 / kappa) / tau))  # 1 − a
        b = drawn * (1.0 + 1.0 / kappa) * (c - 1.0)
        if noisy_queries:
            b = b + drawn * square * c / kappa
        powers = count.astype(float)
        # a^n and 1 − a^n; of a next to 1 by its distance from it
        log = powers * xp.log1p(-xp.minimum(fall, 0.5))
        grown = xp.where(fall < 0.5, xp.exp(log), a**powers)
        gone = xp.where(fall < 0.5, -xp.expm1(log), 1.0 - a**powers)
        level = fall == 0.0
        total = xp.where(level, powers, gone / xp.where(level, 1.0, fall))
        distance = grown / c**2 + b * total
        left = 1.0 - eta * c
        signed = xp.where((left < 0.0) & (count % 2 == 1), -1.0, 1.0) * xp.abs(left) ** powers
        mean = 2.0 * (1.0 - 1.0 / c) / c * signed
        far = distance + mean + (1.0 - 1.0 / c) ** 2
        far = xp.where(xp.isinf(distance), xp.inf, far)
        end = xp.where(fall > 0.0, b / xp.where(fall > 0.0, fall, 1.0), xp.inf)
    known = is_known(a, end)
    return SgdCurve(
        count,
        stage(distance),
        stage(c * distance + (c - 1.0) / c),
        stage(far),
        float(a) if known else a,
        float(end) if known else end,
    )
