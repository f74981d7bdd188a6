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


def module_of(*values: Any) -> Any:
    """The module that arrays are of: `jax.numpy` if any is JAX's, numpy otherwise.

    What is written with it, with `hold`, `repeat` and `march`, serves numbers and traced values.

    >>> module_of(np.ones(2), 3.0).__name__
    'numpy'
    """
    return jnp if any(isinstance(x, jax.Array) for x in jax.tree.leaves(values)) else np


def hold(tree: Any) -> Any:
    """The same, without slopes where JAX differentiates."""
    return jax.tree.map(lambda x: jax.lax.stop_gradient(x) if isinstance(x, jax.Array) else x, tree)


def repeat(count: int, step: Callable[[Any], Any], state: Any) -> Any:
    """``step`` applied `count` times; in numpy, until nothing changes any more."""
    if module_of(state) is jnp:
        return jax.lax.fori_loop(0, count, lambda _, state: step(state), state)
    for _ in range(count):
        before, state = state, step(state)
        if all(map(np.array_equal, jax.tree.leaves(before), jax.tree.leaves(state))):
            break
    return state


def march(
    count: int,
    step: Callable[[Any], tuple[Any, Any]],
    state: Any,
    done: Callable[[Any], bool],
) -> tuple[Any, Any]:
    """States and outputs of `count` steps, the outputs stacked on a new second axis.

    Args:
        count: how many steps.
        step: gives the next state, and an output.
        state: the first.
        done: of an output: whether no more is to come, so that numpy may stop, at a multiple of
            16 steps: what is compiled for the outputs sees few lengths.
    """
    if module_of(state) is jnp:
        state, outputs = jax.lax.scan(lambda state, _: step(state), state, None, length=count)
        return state, jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1), outputs)
    outputs = []
    for _ in range(count):
        state, output = step(state)
        outputs.append(output)
        if len(outputs) % 16 == 0 and done(output):
            break
    return state, jax.tree.map(lambda *x: np.stack(x, axis=1), *outputs)


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
