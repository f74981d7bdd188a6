"""Keys and queries of higher rank: where a head that holds several directions ends."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from ... import memory
from ...numerics.host import packed, unpacked
from ..task import Task, counted
from ._directions import axes, diagonal, direction_of, one_output, subset_of


def groups_of(task: Task, groups: Any) -> list[list[int]]:
    """Which directions each head holds, each direction at most once."""
    if not isinstance(groups, Sequence | np.ndarray):
        raise ValueError(f"groups must be a sequence of sequences, one a head, not {groups!r}")
    places = [subset_of(task, group, "groups") for group in groups]
    subset_of(task, [d for group in places for d in group], "groups")
    return places


def final_weights(
    task: Task, groups: Any, *, heads: int | None = None, rank: int | None = None
) -> dict[str, Float[Array, "..."]]:
    r"""Balanced weights of heads that hold given directions, at a fixed point.

    ``v_i = (Σ_{d ∈ S_i} w*_d)^{1/3}``, and for every d in S_i one pair of rows
    ``k = q = (w*_d/v_i)^{1/2} e_d``. Training ends there up to a rotation of a head's rows and
    signs with ``v k q > 0``. When all directions are held it is a global minimum.

    Args:
        task: the data law, with one output; its task covariance must be the identity.
        groups: S_i, for every head the places of its eigenvectors, 0 for the largest eigenvalue.
        heads: H; those without a group are zero. As many as groups unless given.
        rank: R; the rows left over are zero. The largest group's size unless given.

    Returns:
        "value" (heads, 1, features), "key" (heads, rank, features) and "query" (heads, rank, dim):
        the entries that reach the prediction, in the paper's units and the tokens' coordinates.

    Reference: derived for this package.

    >>> task = Task(dim=8, context=31)
    >>> final_weights(task, [(4, 5), (6, 7)])["value"][:, 0, -1].round(3).tolist()
    [2.48, 3.021]
    """
    moments = diagonal(task)
    one_output(task)
    places = groups_of(task, groups)
    most = max([1, *map(len, places)])
    heads = counted("heads", max(1, len(places)) if heads is None else heads)
    rank = counted("rank", most if rank is None else rank)
    if heads < len(places):
        raise ValueError(f"heads must be at least {len(places)}, one a group, not {heads}")
    if rank < most:
        raise ValueError(f"rank must be at least {most}, as the largest group, not {rank}")
    memory.refuse("heads", heads, 32.0 * heads * rank * (task.dim + 1))
    dim = task.dim
    xp, vectors, best = unpacked(axes(task), moments.best)
    values, rows = [np.zeros(())] * heads, [np.zeros((rank, dim))] * heads
    for i, group in enumerate(places):
        if group:
            held = best[np.array(group)]
            values[i] = xp.cbrt(xp.sum(held))
            pairs = xp.sqrt(held / values[i])[:, None] * vectors[:, np.array(group)].T
            rows[i] = xp.concatenate([pairs, np.zeros((rank - len(group), dim))])
    value = xp.concatenate([np.zeros((heads, dim)), xp.stack(values)[:, None]], axis=1)
    query = xp.stack(rows)
    key = xp.concatenate([query, np.zeros((heads, rank, 1))], axis=2)
    return packed({"value": value[:, None], "key": key, "query": query})


def rank_escape_rate(task: Task, group: Any, direction: int) -> Float[Array, ""]:
    r"""The rate at which a head with a spare pair of rows takes up one more direction.

    ``v λ_d²`` per t/τ, ``v = (Σ_{d ∈ S} w*_d)^{1/3}``: the spare pair grows exponentially, so that
    its plateau lasts a logarithm of the scale and no longer; the Hessian there has the eigenvalue
    ``−2 v λ_d²``. A head that is zero has rate zero: it grows algebraically.

    Args:
        task: the data law, with one output; its task covariance must be the identity.
        group: S, what the head holds, places of eigenvectors, 0 for the largest eigenvalue.
        direction: d, not yet learned.

    Reference: Sec. 5.

    >>> rank_escape_rate(Task(dim=4, context=31), (0,), 1).round(4).item()
    0.1179
    """
    moments = diagonal(task)
    one_output(task)
    held, place = subset_of(task, group, "group"), direction_of(task, direction)
    if place in held:
        raise ValueError(f"direction must not be in the group {held}, not {place}")
    xp, best, cross = unpacked(moments.best, moments.cross)
    if not held:
        return packed(0.0 * cross[place])
    return packed(xp.cbrt(xp.sum(best[np.array(held)])) * cross[place])
