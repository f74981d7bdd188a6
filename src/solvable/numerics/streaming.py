"""Work on long axes in pieces of fixed size, so that memory does not grow with the axis."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def _split(tree: Any, length: int, piece: int) -> Any:
    """Pad axis 0 to a multiple of `piece` with the last row and fold it into (pieces, piece)."""
    pieces = -(-length // piece)

    def fold(x: jax.Array) -> jax.Array:
        padded = jnp.pad(x, [(0, pieces * piece - length)] + [(0, 0)] * (x.ndim - 1), mode="edge")
        return padded.reshape(pieces, piece, *x.shape[1:])

    return jax.tree.map(fold, tree)


def map_rows(function: Callable[[Any], Any], rows: Any, *, piece: int) -> Any:
    """``function(rows)`` for a function that treats rows (axis 0) independently, piece by piece.

    Args:
        function: takes and returns a pytree of arrays whose axis 0 is the rows.
        rows: pytree of arrays, all with the same length of axis 0.
        piece: rows per call.
    """
    length = jax.tree.leaves(rows)[0].shape[0]
    if length <= piece:
        return function(rows)
    out = jax.lax.map(jax.checkpoint(function), _split(rows, length, piece))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:length], out)


def sum_rows(function: Callable[[Any], jax.Array], rows: Any, *, piece: int) -> jax.Array:
    """``function(rows).sum(axis=0)`` piece by piece, without ever holding all rows' results.

    Args:
        function: takes a pytree of rows, returns one array whose axis 0 is the rows.
        rows: pytree of arrays, all with the same length of axis 0.
        piece: rows per call.
    """
    length = jax.tree.leaves(rows)[0].shape[0]
    if length <= piece:
        return jnp.sum(function(rows), axis=0)

    def add(total: jax.Array, item: tuple[Any, jax.Array]) -> tuple[jax.Array, None]:
        part, mask = item
        values = function(part)
        keep = mask.reshape(-1, *[1] * (values.ndim - 1))
        return total + jnp.sum(jnp.where(keep, values, jnp.zeros_like(values)), axis=0), None

    parts = _split(rows, length, piece)
    pieces = -(-length // piece)
    mask = (jnp.arange(pieces * piece) < length).reshape(pieces, piece)
    shape = jax.eval_shape(function, jax.tree.map(lambda x: x[0], parts))
    zero = jnp.zeros(shape.shape[1:], shape.dtype)
    return jax.lax.scan(jax.checkpoint(add), zero, (parts, mask))[0]


def in_blocks(
    function: Callable[..., np.ndarray], *rows: np.ndarray, block: int = 32
) -> np.ndarray:
    """A function of rows (axis 0), always called with `block` of them: any number compiles once."""
    length = len(rows[0])
    if length == 0:
        return np.zeros(0)
    short = -length % block
    padded = [np.pad(x, [(0, short)] + [(0, 0)] * (x.ndim - 1), mode="edge") for x in rows]
    parts = [function(*(x[k : k + block] for x in padded)) for k in range(0, length, block)]
    return np.concatenate(parts)[:length]
