"""Short formulas once, for numbers in numpy and for what JAX traces in JAX.

A single operation of JAX is compiled for every shape, which costs more than all of it in numpy.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from .. import validation
from ..compiling import jit, prepare, stage


@jit(static_argnames=("formula", "static"))
def _traced(formula: Callable[..., Any], static: tuple[tuple[str, Any], ...], *values: Any) -> Any:
    return formula(jnp, *values, **dict(static))


def is_known(*values: Any) -> bool:
    """Whether all numbers of some pytrees are there, none traced by JAX."""
    return not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(values))


def unpacked(*values: Any) -> tuple[Any, ...]:
    """The module to compute with, and the values as it takes them.

    >>> xp, x = unpacked(jnp.asarray(2.0))
    >>> xp.__name__, xp.sqrt(x).item()
    ('numpy', 1.4142135623730951)
    """
    if is_known(*values):
        return (np, *jax.tree.map(np.asarray, values))
    prepare()  # what a user compiles of it must add up, too
    return (jnp, *jax.tree.map(stage, values))


def packed(tree: Any) -> Any:
    """What was computed, as JAX's arrays, which are of double precision or refused."""
    validation.needs_double("theory")
    return jax.tree.map(stage, tree)


def numbers(formula: Callable[..., Any], *values: Any, **static: Any) -> Any:
    """``formula(xp, *values, **static)``: in numpy if no value is traced, else compiled by JAX.

    Args:
        formula: takes numpy or `jax.numpy` first; a function of a module, so that it is compiled
            once.
        values: pytrees of arrays.
        static: what shapes depend on.

    >>> numbers(lambda xp, x, count: x * xp.arange(count), np.asarray(2.0), count=3)
    Array([0., 2., 4.], dtype=float64)
    """
    if not is_known(*values):
        return _traced(formula, tuple(sorted(static.items())), *values)
    with np.errstate(all="ignore"):
        found = formula(np, *jax.tree.map(np.asarray, values), **static)
    return packed(found)
