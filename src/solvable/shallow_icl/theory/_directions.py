"""What the closed forms ask of a task, and the eigenvectors that a caller names."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ..task import Task
from ._population import Population, population


def diagonal(task: Any) -> Population:
    """The population of a task whose moments are all diagonal in the eigenbasis of Λ."""
    if not isinstance(task, Task):
        raise ValueError(f"task must be a shallow_icl.Task, not {type(task).__name__}")
    moments = population(task)
    if not moments.is_diagonal:
        raise ValueError(
            "task_covariance must be None, not a matrix: with one, directions are not learned one "
            "by one"
        )
    return moments


def one_output(task: Task) -> None:
    """Raise unless tokens have one label."""
    if task.outputs != 1:
        raise ValueError(f"outputs must be 1 for this closed form, not {task.outputs}")


def direction_of(task: Task, direction: Any) -> int:
    """The place of an eigenvector, 0 for the largest eigenvalue."""
    return validation.whole("direction", direction, 0, task.dim - 1)


def subset_of(task: Task, subset: Any, name: str = "subset") -> list[int]:
    """The places of several eigenvectors, each named once."""
    if not isinstance(subset, Sequence | np.ndarray | set | frozenset | range):
        raise ValueError(f"{name} must be a sequence of whole numbers, not {subset!r}")
    places = [validation.whole(name, d, 0, task.dim - 1) for d in subset]
    if len(set(places)) < len(places):
        raise ValueError(f"{name} must name every eigenvector at most once, not {places}")
    return places


def axes(task: Task) -> Float[Array, "dim dim"]:
    """The eigenvectors of Λ, in columns."""
    if task.basis is None:
        return jnp.eye(task.dim, dtype=task.eigenvalues.dtype)
    return task.basis


def non_negative(name: str, value: Any) -> Float[Array, "..."]:
    """Times and the like: numbers in [0, ∞]."""
    array = validation.floating(name, value)
    validation.within(name, array, 0.0)
    return array


def outer(
    first: Float[Array, "..."], second: Float[Array, "..."]
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Both with the axes of the first in front of those of the second."""
    shape = first.shape + second.shape
    return (
        jnp.broadcast_to(first.reshape(first.shape + (1,) * second.ndim), shape),
        jnp.broadcast_to(second.reshape((1,) * first.ndim + second.shape), shape),
    )
