"""Mini-batches: fresh ones, and those of a data set, every epoch in an order of its own.

The order is a swap-or-not shuffle (Hoang, Morris, Rogaway 2012): it tells the place of one datum
without those of the others, so that a step costs as much as its batch, whatever N is.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, UInt32

from . import task as tasks

_ROUNDS = 48  # what two data know of each other's places halves in every round


def batch_keys(
    stream: UInt32[Array, " words"], step: Int[Array, ""]
) -> tuple[Key[Array, ""], Key[Array, ""]]:
    """The streams of the mini-batch of step `step`: its tasks and its signs."""
    key = jax.random.wrap_key_data(stream)
    task_key, token_key = jax.random.split(jax.random.fold_in(key, step))
    return task_key, token_key


def draw_batch(
    weights: Float[Array, " tasks"],
    stream: UInt32[Array, " words"],
    step: Int[Array, ""],
    batch: int,
    longest: int,
) -> tuple[Int[Array, " data"], Int[Array, "data columns"]]:
    """Tasks and signs of the mini-batch of step `step`: the same in `train` and `train_brute`."""
    task_key, token_key = batch_keys(stream, step)
    index = tasks.draw_tasks(weights, task_key, batch)
    return index, tasks.draw_signs(token_key, jnp.arange(batch), longest)


def batch_places(
    stream: UInt32[Array, " words"], step: Int[Array, ""], batch: int, data: int
) -> Int[Array, " batch"]:
    """Which of the N data the mini-batch of step k has: draws ``kB … kB + B − 1``.

    Draw ``eN + j`` is the j-th datum of epoch e, so that every epoch has each datum once; where B
    does not divide N a batch runs on into the next epoch.

    Args:
        stream: the key of the orders, as numbers.
        step: k.
        batch: B, at most N.
        data: N.
    """
    draw = step * batch + jnp.arange(batch)
    epoch, place = draw // data, draw % data
    first = epoch[0]
    epochs = 1 if data % batch == 0 else 2  # that a batch may lie in
    keys = jax.vmap(lambda e: jax.random.fold_in(jax.random.wrap_key_data(stream), e))(
        first + jnp.arange(epochs)
    )
    words = jax.vmap(lambda key: jax.random.bits(key, (2, _ROUNDS), jnp.uint64))(keys)
    turns = (words[:, 0] % jnp.uint64(data)).astype(place.dtype)
    salts = words[:, 1].astype(jnp.uint32)
    which = epoch - first

    def swap(k: Int[Array, ""], x: Int[Array, " batch"]) -> Int[Array, " batch"]:
        """Either x or ``turn − x`` (mod N): a coin says it that both of them share."""
        apart = turns[which, k] - x
        other = jnp.where(apart < 0, apart + data, apart)
        coin = _mixed(jnp.maximum(x, other).astype(jnp.uint32) ^ salts[which, k]) >> 31
        return jnp.where(coin == 1, other, x)

    return jax.lax.fori_loop(0, _ROUNDS, swap, place)


def _mixed(x: UInt32[Array, " n"]) -> UInt32[Array, " n"]:
    """A hash whose every bit depends on all bits of x."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = (x ^ (x >> shift)) * jnp.uint32(factor)
    return x ^ (x >> 16)
