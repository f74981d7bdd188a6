"""One layer on isotropic data by SGD with finite batches: a recursion of one number."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ... import validation
from ..task import Isotropic, check_task


@dataclass(frozen=True)
class SgdCurve:
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
    factor: float
    floor: float


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
    ``b = (η²/τ)(1 + 1/κ)(c − 1)``, to which noisy query labels add ``(η²/τ)σ²c/κ``.

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
    values = {}
    for name, value in numbers.items():
        number = validation.floating(name, value)
        validation.shaped(name, number, ())
        validation.within(name, number, 0.0, open_low=True)
        values[name] = float(number)
    eta, tau, kappa = values["lr"], values["batch"], values["queries"]
    count = np.arange(validation.whole("steps", steps, 0, 10**8) + 1)
    alpha, square = float(task.alpha), float(task.noise) ** 2
    c = 1.0 + (1.0 + square) / alpha
    drawn = eta**2 / tau
    a = (1.0 - eta * c) ** 2 + drawn * (1.0 + 1.0 / kappa) * c**2
    b = drawn * (1.0 + 1.0 / kappa) * (c - 1.0)
    if noisy_queries:
        b += drawn * square * c / kappa
    with np.errstate(over="ignore"):
        grown = a ** count.astype(float)
        total = count * 1.0 if a == 1.0 else (grown - 1.0) / (a - 1.0)
        distance = grown / c**2 + b * total
    mean = 2.0 * (1.0 - 1.0 / c) / c * (1.0 - eta * c) ** count
    far = distance + mean + (1.0 - 1.0 / c) ** 2
    return SgdCurve(
        count,
        jnp.asarray(distance),
        jnp.asarray(c * distance + (c - 1.0) / c),
        jnp.asarray(far),
        a,
        b / (1.0 - a) if a < 1.0 else np.inf,
    )
