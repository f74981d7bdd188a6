"""Closed forms, entry by entry: compiled once for one of few sizes, whatever the shape."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ... import validation
from ...compiling import jit, stage
from ...numerics.buckets import padding, run_bucket, time_bucket

_FEW = 4096  # entries beyond which computing what is padded would cost more than compiling


def pointwise(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel ``(law, *points)`` for points of any shape.

    Args:
        kernel: takes numbers of the law and pytrees of arrays of one shape, which it treats entry
            by entry; gives a pytree of arrays with the axes of the points first.
    """
    compiled = jit(kernel)

    @functools.wraps(kernel)
    def call(law: Any, *points: Any) -> Any:
        if not all(validation.is_concrete(x) for x in jax.tree.leaves((law, points))):
            return compiled(law, *points)
        shape = jax.tree.leaves(points)[0].shape
        count = math.prod(shape)
        if count == 0:
            return compiled(law, *points)
        index = padding(count, time_bucket(count) if count <= _FEW else run_bucket(count))
        flat = jax.tree.map(lambda x: np.asarray(x).reshape(-1)[index], points)
        with jax.ensure_compile_time_eval():  # numbers stay numbers where others are traced
            found = compiled(law, *flat)
        return jax.tree.map(
            lambda x: stage(np.asarray(x)[:count].reshape((*shape, *x.shape[1:]))), found
        )

    return call


def spread(x: Any, shape: tuple[int, ...]) -> Any:
    """`x` broadcast to a shape: on the host, unless JAX is tracing it."""
    if x.shape == shape:
        return x
    return (np if validation.is_concrete(x) else jnp).broadcast_to(x, shape)
