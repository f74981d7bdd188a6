"""Which tasks can be learned, and where those that cannot come to rest."""

from typing import Any, Literal

from jaxtyping import Bool, Float

from ...numerics.host import module_of
from ._first import resting
from ._modes import Start

Order = Literal["zeroth", "first", "exact"]


def learnable(start: Start, order: Order) -> Bool[Any, " tasks"]:
    """Which tasks reach their target: ``Λ = 0`` or ``H(v(0) + sgn(Λ) w(0)) ≠ 0``.

    ``Hη = 0`` and ``Hρ = 0`` (η = v + w, ρ = v − w) stay so along the flow, and while they do f
    cannot pass 0. H is ``ψ u uᵀ`` at orders zero and one, so that only the part along u = (1, Λ)
    counts; exactly it is invertible for Λ ≠ 0.

    Args:
        start: the tasks.
        order: which H.
    """
    xp = module_of(start)
    sign = xp.where(start.strength < 0.0, -1.0, 1.0)
    if order == "exact":
        moves = xp.any(start.v + sign[:, None] * start.w != 0.0, axis=1)
    else:
        moves = xp.where(start.strength < 0.0, start.along(-1.0), start.along(1.0)) != 0.0
    return (start.strength == 0.0) | moves


def rest_square(start: Start, order: Order) -> Float[Any, " tasks"]:
    """``(f − Λ)²`` at t → ∞ of tasks that are trained: 0 where they can be learned, else Λ².

    What cannot be learned ends at the saddle f = 0; at order one the part of f that does not move
    yet stays.
    """
    xp = module_of(start)
    left = start.strength - resting(start) if order == "first" else start.strength
    return xp.where(learnable(start, order), 0.0, left**2)
