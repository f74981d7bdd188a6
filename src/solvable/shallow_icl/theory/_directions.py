"""What the closed forms ask of a task, and the eigenvectors that a caller names."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from ... import memory, validation
from ...numerics.host import unpacked
from ..task import Task
from ._population import Population, moments_of


def diagonal(task: Any) -> Population:
    """The population of a task whose moments are all diagonal in the eigenbasis of Λ.

    Its arrays are numpy's, unless JAX traces the task.
    """
    moments = moments_of(task)
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


def axes(task: Task) -> Float[Any, "dim dim"]:
    """The eigenvectors of Λ, in columns."""
    memory.refuse("dim", task.dim, 32.0 * task.dim**2)
    if task.basis is None:
        return np.eye(task.dim)
    return unpacked(task.basis)[1]


def non_negative(name: str, value: Any) -> Float[Array, "..."]:
    """Times and the like: numbers in [0, ∞]."""
    array = validation.floating(name, value)
    validation.within(name, array, 0.0)
    return array


def outer(
    first: Float[Any, "..."], second: Float[Any, "..."]
) -> tuple[Float[Any, "..."], Float[Any, "..."]]:
    """Both with the axes of the first in front of those of the second, for entries to pair up."""
    shape = first.shape + second.shape
    memory.refuse("t", f"of shape {second.shape}", 64.0 * math.prod(shape))
    xp, first, second = unpacked(first, second)
    return (
        xp.broadcast_to(first.reshape(first.shape + (1,) * second.ndim), shape),
        xp.broadcast_to(second.reshape((1,) * first.ndim + second.shape), shape),
    )
