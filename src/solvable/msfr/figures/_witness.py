"""Further witnesses: training on real tokens, where they fit, and of more tasks than any memory."""

from typing import Any

import numpy as np
import xarray as xr

from ...numerics.counting import counting_rule
from ...reproduce import Figure, Finding, near, step, worst_ratio
from .. import Init, SoftmaxInit, Task, train, train_brute

ROUND_OFF = 1e-10  # between tokens and the reduction, along the whole trajectory


def on_tokens(task: Task, init: Init | SoftmaxInit, **how: Any) -> xr.Dataset:
    """The loss in time by training on tokens and by the reduction, from one data set."""
    brute = train_brute(task, init, progress=step, **how)
    reduced = train(task, init, **how)
    return xr.Dataset(
        {
            "tokens": ("token_time", np.asarray(brute.loss)),
            "reduced": ("token_time", np.asarray(reduced.loss)),
        },
        coords={"token_time": brute.time},
    )


def descended(
    shares: np.ndarray,
    context: float,
    strength: float,
    init: tuple[float, float],
    lr: float,
    at: Any,
) -> np.ndarray:
    """What gradient descent has left after the steps `at` of tasks with such shares of the data.

    Tasks decouple, and those of one context, strength and start differ by their shares alone.

    Args:
        shares: p_s, or #_s/N.
        context: ψ.
        strength: Λ.
        init: every entry of v, and of w.
        lr: learning rate.
        at: rising numbers of steps.

    Returns:
        f_s − Λ, (steps, tasks).
    """
    v, w = (np.full((2, len(shares)), entry) for entry in init)
    mixed = np.array([1.0, strength])  # u of H⁰ = uuᵀ
    left, last = [], 0
    for step_number in at:
        for _ in range(last, step_number):
            pull = lr * shares * _residual(v, w, mixed, context, strength)
            v, w = v - pull * _through(w, mixed, context), w - pull * _through(v, mixed, context)
        last = step_number
        left.append(_residual(v, w, mixed, context, strength))
    return np.stack(left)


def _residual(
    v: np.ndarray, w: np.ndarray, mixed: np.ndarray, context: float, strength: float
) -> np.ndarray:
    """``vᵀHw − Λ`` with the H of (7)."""
    return context * (mixed @ v) * (mixed @ w) + v[0] * w[0] - strength


def _through(x: np.ndarray, mixed: np.ndarray, context: float) -> np.ndarray:
    """``Hx``."""
    found = context * mixed[:, None] * (mixed @ x)[None, :]
    found[0] += x[0]
    return found


def descended_loss(num_tasks: int, alpha: float, *how: Any) -> np.ndarray:
    """The loss of gradient descent, the sum over tasks taken at a few nodes, whatever their number.

    Args:
        num_tasks: S.
        alpha: of the task law.
        how: as `descended` takes it after the shares, with a start that is not small: the nodes are
            those of powers of s.
    """
    s, count = counting_rule(num_tasks)
    weight = s**-alpha
    weight = weight / np.sum((count * weight)[::-1])
    return 0.5 * descended(weight, *how) ** 2 @ (count * weight)


def claim_tokens(fig: Figure, source: str, setting: str) -> None:
    """Claim that training on tokens is the reduced dynamics, for some setting."""

    def tokens(d: xr.Dataset) -> Finding:
        return near(worst_ratio(d.tokens, d.reduced), 0.0, ROUND_OFF, because="round-off")

    tokens.__doc__ = (
        f"Training on real tokens is the reduced dynamics to round-off, {setting} (largest "
        "relative gap of L)."
    )
    fig.claim("check", source)(tokens)
