"""Where training starts: the parameters of linear and of softmax attention at time zero."""

from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from .. import memory, validation
from ..labs import msfr as description
from ..numerics.host import numbers
from ..question import parameters
from .task import Task

LIMITS = parameters(description.Start)
MAX_WIDTH = 10**9


class Init(eqx.Module):
    """Start of linear attention: the entries of ``v_s`` and ``w_s`` on coordinates (s, S+1).

    The other entries never move with exact features and are taken as 0.

    Args:
        v: one number for every entry of every task, or an array (tasks, 2).
        w: likewise. Entries are at most 1e3 in size.

    Reference: eq. (106) is ``Init(v=0.1, w=0.11)``, eq. (107) ``Init(v=1e-5, w=1e-5)``.
    """

    v: Float[Array, ""] | Float[Array, "tasks 2"]
    w: Float[Array, ""] | Float[Array, "tasks 2"]

    def __init__(self, v, w):
        self.v, self.w = validation.floating("v", v), validation.floating("w", w)
        for name, value in (("v", self.v), ("w", self.w)):
            if value.shape != () and (value.ndim != 2 or value.shape[1] != 2):
                raise ValueError(
                    f"{name} must be a single number or an array of shape (tasks, 2), "
                    f"not of shape {value.shape}"
                )
            validation.inside(name, value, LIMITS[name])

    def __repr__(self) -> str:
        return f"Init({validation.brief(**vars(self))})"

    @property
    def is_uniform(self) -> bool:
        """Whether all tasks start at the same entries."""
        return self.v.ndim == 0 and self.w.ndim == 0

    def columns(self, task: Task) -> tuple[Float[Array, "tasks 2"], Float[Array, "tasks 2"]]:
        """The v and w of every task of `task`."""
        return _columns("v", self.v, task), _columns("w", self.w, task)


def _columns(name: str, value: Array, task: Task) -> Float[Array, "tasks 2"]:
    task.fit(3.0)
    return _filled(name, value, (task.num_tasks, 2))


def _filled(name: str, value: Array, shape: tuple[int, ...]) -> Array:
    """An array of this shape: as it is given, or of one number."""
    validation.shaped(name, value, (), shape)
    return value if value.shape else numbers(_broadcast, value, shape=shape)


def _broadcast(xp: Any, value: Any, shape: tuple[int, ...]) -> Any:
    return xp.broadcast_to(value, shape)


def _width(width: Any) -> int:
    return validation.whole("width", width, 1, MAX_WIDTH)


class SoftmaxInit(eqx.Module):
    """Start of softmax attention.

    Args:
        value: every entry of V, or an array (tasks, 2) of ``V_ss, V_{s,S+1}``.
        key: every entry of W_K, or an array (width, tasks + 1).
        query: every entry of W_Q, or an array (width, tasks + 1).
        width: d_e, the width of keys and queries; tasks + 1 unless given.

    Reference: App. I.1.
    """

    value: Float[Array, ""] | Float[Array, "tasks 2"]
    key: Float[Array, ""] | Float[Array, "width features"]
    query: Float[Array, ""] | Float[Array, "width features"]
    width: int | None = eqx.field(static=True)

    def __init__(self, value, key, query, width=None):
        self.value = validation.floating("value", value)
        self.key = validation.floating("key", key)
        self.query = validation.floating("query", query)
        if self.key.shape != () and self.query.shape != () and self.key.shape != self.query.shape:
            raise ValueError(
                f"key and query must have the same shape, not {self.key.shape} and "
                f"{self.query.shape}"
            )
        for name, entries in (("key", self.key), ("query", self.query)):
            if entries.ndim not in (0, 2):
                raise ValueError(
                    f"{name} must be a single number or an array of shape (width, tasks + 1), "
                    f"not of shape {entries.shape}"
                )
            if entries.ndim == 2:
                if width is not None and _width(width) != entries.shape[0]:
                    raise ValueError(
                        f"width must be {entries.shape[0]}, the rows of {name}, not {width}"
                    )
                width = entries.shape[0]
        if self.value.ndim not in (0, 2) or (self.value.ndim == 2 and self.value.shape[1] != 2):
            raise ValueError(
                f"value must be a single number or an array of shape (tasks, 2), "
                f"not of shape {self.value.shape}"
            )
        for name in ("value", "key", "query"):
            validation.inside(name, getattr(self, name), LIMITS[name])
        self.width = None if width is None else _width(width)

    def __repr__(self) -> str:
        return f"SoftmaxInit({validation.brief(**vars(self))})"

    def width_for(self, task: Task) -> int:
        """d_e, the width of keys and queries."""
        return task.num_tasks + 1 if self.width is None else self.width

    def values(self, task: Task) -> Float[Array, "tasks 2"]:
        """``V_ss, V_{s,S+1}`` of every task."""
        return _columns("value", self.value, task)

    def keys(self, task: Task, width: int) -> Float[Array, "width features"]:
        """The key matrix W_K; its last column is K_y."""
        return self._matrix("key", self.key, task, width)

    def queries(self, task: Task, width: int) -> Float[Array, "width features"]:
        """The query matrix W_Q."""
        return self._matrix("query", self.query, task, width)

    @staticmethod
    def _matrix(name: str, value: Array, task: Task, width: int) -> Float[Array, "width features"]:
        shape = (width, task.num_tasks + 1)
        memory.refuse("width", width, 24.0 * width * (task.num_tasks + 1))
        return _filled(name, value, shape)
