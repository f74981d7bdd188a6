"""What gradient flow conserves, and the heads that it does not need."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ...numerics.host import packed, unpacked

_LARGEST = 1e100  # of a weight: its square is a number


def live_weights(**weights: Any) -> list[Float[Array, "..."]]:
    """Weights (…, heads, ·, ·) whose batch axes and heads agree."""
    arrays = []
    for name, given in weights.items():
        array = validation.floating(name, given)
        if array.ndim < 3 or (arrays and array.shape[:-2] != arrays[0].shape[:-2]):
            front = "(…, heads" if not arrays else "(" + ", ".join(map(str, arrays[0].shape[:-2]))
            raise ValueError(f"{name} must be of shape {front}, ·, ·), not of shape {array.shape}")
        validation.within(name, array, -_LARGEST, _LARGEST)
        arrays.append(array)
    return arrays


def conserved_merged(value: Any, key_query: Any) -> Float[Array, "*batch heads heads"]:
    r"""What gradient flow conserves in merged attention: ``W₁ W₁ᵀ − w₂ w₂ᵀ``.

    W₁ has a row for every head's W^KQ, w₂ one for its W^V, blocks that need not be zero included.
    It holds on any data for linear attention; gradient descent drifts by O(rate).

    Args:
        value: (…, heads, outputs, features), as in a `Run`.
        key_query: (…, heads, features, dim).

    Reference: App. on conservation.

    >>> conserved_merged(np.ones((2, 1, 3)), np.ones((2, 3, 2))).tolist()
    [[3.0, 3.0], [3.0, 3.0]]
    """
    xp, *weights = unpacked(*live_weights(value=value, key_query=key_query))
    first, second = (x.reshape(*x.shape[:-2], -1) for x in weights)
    return packed(second @ xp.swapaxes(second, -1, -2) - first @ xp.swapaxes(first, -1, -2))


class Conserved(NamedTuple):
    """What gradient flow conserves in separate attention, head by head.

    Attributes:
        value_key: ``‖v_i‖² − Σ_r ‖k_ir‖²``, (…, heads).
        key_query: ``K_i K_iᵀ − Q_i Q_iᵀ``, (…, heads, rank, rank).
    """

    value_key: Float[Array, "*batch heads"]
    key_query: Float[Array, "*batch heads rank rank"]


def conserved_separate(value: Any, key: Any, query: Any) -> Conserved:
    r"""What gradient flow conserves in separate attention of any rank.

    ``v_i² − Σ_r ‖k_ir‖²`` and the matrix ``K_i K_iᵀ − Q_i Q_iᵀ`` of every head, blocks that need
    not be zero included. It holds on any data for linear attention.

    Args:
        value: (…, heads, outputs, features), as in a `Run`.
        key: (…, heads, rank, features).
        query: (…, heads, rank, dim).

    Reference: App. on conservation.

    >>> conserved_separate(np.ones((2, 1, 3)), np.ones((2, 1, 3)), np.ones((2, 1, 2))).key_query
    Array([[[1.]],
    <BLANKLINE>
           [[1.]]], dtype=float64)
    """
    xp, v, k, q = unpacked(*live_weights(value=value, key=key, query=query))
    if k.shape[-2] != q.shape[-2]:
        raise ValueError(
            f"query must have as many rows as key ({k.shape[-2]}), not be of shape {q.shape}"
        )
    norms = xp.sum(v**2, axis=(-2, -1)) - xp.sum(k**2, axis=(-2, -1))
    rows = k @ xp.swapaxes(k, -1, -2) - q @ xp.swapaxes(q, -1, -2)
    return Conserved(packed(norms), packed(rows))


def fewer_heads(value: Any, key_query: Any) -> tuple[np.ndarray, np.ndarray]:
    r"""Merged attention with fewer heads and the same loss at every step of training.

    A rotation of the heads, ``[w₂|W₁] → O [w₂|W₁]``, changes no iterate of gradient descent. With
    more heads than columns that are not zero (D² + 1 with zero blocks and one output) the triangle
    of a QR decomposition has the rows that are needed, and no others.

    Args:
        value: (…, heads, outputs, features), as in a `Run`.
        key_query: (…, heads, features, dim).

    Returns:
        `value` and `key_query` with ``min(heads, columns)`` heads; as they were given where that is
        no fewer.

    Reference: derived for this package.

    >>> value, key_query = fewer_heads(np.ones((9, 1, 3)), np.ones((9, 3, 2)))
    >>> value.shape, abs(value[0, 0]).round(12).tolist()
    ((9, 1, 3), [1.0, 1.0, 1.0])
    >>> value, key_query = fewer_heads(np.ones((40, 1, 3)), np.ones((40, 3, 2)))
    >>> value.shape, abs(value[0, 0] / 40**0.5).round(12).tolist()
    ((9, 1, 3), [1.0, 1.0, 1.0])
    """
    weights = {"value": value, "key_query": key_query}
    for name, array in weights.items():
        validation.concrete(name, array, why="the columns that are not zero are counted")
    first, second = (np.asarray(x) for x in live_weights(**weights))
    flat = np.concatenate([x.reshape(*x.shape[:-2], -1) for x in (first, second)], axis=-1)
    moving = np.flatnonzero(np.any(flat != 0.0, axis=tuple(range(flat.ndim - 1))))
    if moving.size == 0:
        return first[..., :1, :, :], second[..., :1, :, :]
    if flat.shape[-2] <= moving.size:
        return first, second
    fewer = np.zeros((*flat.shape[:-2], moving.size, flat.shape[-1]), flat.dtype)
    fewer[..., moving] = np.linalg.qr(flat[..., moving], mode="r")
    split = first.shape[-2] * first.shape[-1]
    heads = fewer.shape[:-1]
    return (
        fewer[..., :split].reshape(*heads, *first.shape[-2:]),
        fewer[..., split:].reshape(*heads, *second.shape[-2:]),
    )
