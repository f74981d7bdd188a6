"""The loss of separate attention over time: plateaus, and the drops between them."""

import math
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from ... import memory, validation
from ...numerics.host import packed, unpacked
from ..task import Task
from ._directions import diagonal, non_negative, one_output
from ._growth import HALF_DROP, growth, growth_time

_SEED = 1e-6  # of its final size: what a head that grows later is taken as; 1e-18 of a drop


def staircase_loss(task: Task, times: Any, t: Any) -> Float[Array, "..."]:
    r"""The loss that falls from plateau to plateau, each drop by one head that grows.

    ``L(t) = L* + Σ_d (λ_d/γ_d) (1 − x_d³)²``, where ``x_d = v/v*`` follows ``τ v̇ = λ²v² − λ³γv⁵``
    and passes the middle of its drop at the time given.

    Args:
        task: the data law, with one output; its task covariance must be the identity.
        times: t/τ at the middle of each drop, (…, drops), the largest eigenvalue first, as the
            `time` of `drop_times`; infinity for a drop that never comes. Directions without a
            time are not learned.
        t: t/τ, of which a step of gradient descent is 2η.

    Returns:
        L, of the shape of times without its last axis followed by that of t.

    Reference: eqs. (15), (18).

    >>> task = Task(dim=4, context=31)
    >>> staircase_loss(task, [100.0, 300.0, 2000.0], [0.0, 200.0, 300.0, 1e9]).round(3).tolist()
    [1.0, 0.64, 0.509, 0.21]
    """
    moments = diagonal(task)
    one_output(task)
    middle, t = validation.floating("times", times), non_negative("t", t)
    count = middle.shape[-1] if middle.ndim else 0
    if not 1 <= count <= task.dim:
        raise ValueError(
            f"times must have a last axis of 1 to {task.dim} drops, not be of shape {middle.shape}"
        )
    if validation.is_concrete(middle) and np.isnan(np.asarray(middle)).any():
        raise ValueError("times must be numbers or infinity, not nan")
    xp, middle, t, moments = unpacked(middle, t, moments)
    gains = moments.cross * moments.best
    shape = middle.shape[:-1] + (1,) * t.ndim
    memory.refuse("t", f"of shape {t.shape}", 64.0 * math.prod(middle.shape[:-1] + t.shape))
    loss = xp.broadcast_to(moments.floor + gains[count:].sum(), middle.shape[:-1] + t.shape)
    for d in range(count):
        full = xp.cbrt(moments.best[d])
        lead = growth_time(task, d, HALF_DROP, _SEED * full)
        since = t.reshape((1,) * (middle.ndim - 1) + t.shape) - middle[..., d].reshape(shape)
        size = growth(task, d, xp.maximum(since + xp.asarray(lead), 0.0), _SEED * full)
        loss = loss + gains[d] * (1.0 - (xp.asarray(size) / full) ** 3) ** 2
    return packed(loss)
