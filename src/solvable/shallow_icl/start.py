"""Where training starts: the published initialisations of merged and separate attention."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from .. import memory, validation
from .task import Task, counted

MAX_SCALE = 1e3
MAX_WEIGHT = 1e6

Kind = Literal["merged", "separate", "mlp"]
Version = Literal["A", "B", "C", "D"]
Attention = Literal["linear", "softmax"]


@dataclass(frozen=True)
class Start:
    """A model at time zero, before a seed draws its weights; made by `merged`, `separate`, `mlp`.

    Attributes:
        kind: "merged" (ATTN_M), "separate" (ATTN_S) or "mlp" (MLP(z)).
        heads: H; the hidden width of an MLP.
        rank: R, the rows of a head's key and query; None where they are merged.
        scale: s, the size of the weights.
        init: which published version of a separate model's scales.
        attention: "linear" or "softmax".
        zero_blocks: whether the blocks that in-context learning does not need start at zero.
    """

    kind: Kind
    heads: int
    rank: int | None
    scale: float
    init: Version
    attention: Attention
    zero_blocks: bool

    def sizes(self, task: Task) -> dict[str, float]:
        """The standard deviation of every weight's entries."""
        rows = task.features
        if self.rank is None:
            return {"value": self.scale, "key_query": self.scale}
        keys = (self.rank * rows) ** -0.5
        value, keys = {
            "A": (1.0, 1.0),
            "B": (1.0, keys),
            "C": (1.0 / rows, keys),
            "D": (1.0 / rows / math.sqrt(self.heads), keys / math.sqrt(self.heads)),
        }[self.init]
        return {"value": self.scale * value, "key": self.scale * keys, "query": self.scale * keys}

    def fits(self, task: Task) -> None:
        """Raise unless such weights can be drawn for a task."""

    def refuse_large(self, task: Task, runs: int = 1) -> None:
        """Raise if the weights of so many runs do not fit into memory, naming the largest size."""
        sizes = {"heads": self.heads, "rank": self.rank or 1, "dim": task.dim}
        sizes["outputs"] = task.outputs
        name = max(sizes, key=lambda name: sizes[name])
        entries = self.heads * task.features * 2 * (task.features + (self.rank or 0))
        memory.refuse(name, sizes[name], 24.0 * entries * runs)

    def draw(self, task: Task, seed: int) -> dict[str, np.ndarray]:
        """The whole weight matrices of a seed, dead entries included.

        Returns:
            "value" W^V (heads, features, features) and either "key_query" W^KQ (heads, features,
            features) or "key" W^K and "query" W^Q (heads, rank, features). The same seed draws the
            same Gaussians at every scale, and an MLP draws those of merged attention.
        """
        rows, dim = task.features, task.dim
        shapes = {
            "value": (self.heads, rows, rows),
            "key_query": (self.heads, rows, rows),
            "key": (self.heads, self.rank or 0, rows),
            "query": (self.heads, self.rank or 0, rows),
        }
        self.refuse_large(task)
        weights = {}
        for stream, name in enumerate(shapes):
            if name in (sizes := self.sizes(task)):
                draw = np.random.default_rng([validation.whole("seed", seed), 100 + stream])
                weights[name] = sizes[name] * draw.standard_normal(shapes[name])
        if self.zero_blocks:
            weights["value"][:, dim:, :dim] = 0.0
            if self.rank is None:
                weights["key_query"][:, dim:, :dim] = 0.0
            else:
                weights["key"][:, :, dim:] = 0.0
        return weights


def _checked(
    kind: Kind,
    name: str,
    heads: Any,
    rank: Any,
    scale: Any,
    init: Any,
    attention: Any,
    zero_blocks: bool,
) -> Start:
    heads = counted(name, heads)
    rank = None if rank is None else counted("rank", rank)
    validation.concrete("scale", scale, why="weights are drawn")
    size = validation.floating("scale", scale)
    validation.shaped("scale", size, ())
    validation.within("scale", size, 0.0, MAX_SCALE, open_low=True)
    validation.one_of("init", init, ("A", "B", "C", "D"))
    validation.one_of("attention", attention, ("linear", "softmax"))
    return Start(kind, heads, rank, float(size), init, attention, bool(zero_blocks))


def merged(
    heads: int, scale: float, *, attention: Attention = "linear", zero_blocks: bool = True
) -> Start:
    """Merged key and query, ATTN_M: every entry of W^V and W^KQ is N(0, s²).

    Args:
        heads: H.
        scale: s.
        attention: "linear" or "softmax".
        zero_blocks: start 𝐯 and u at zero, as published.

    Reference: Sec. 3; eq. (3).

    >>> merged(heads=8, scale=1e-6).kind
    'merged'
    """
    return _checked("merged", "heads", heads, None, scale, "A", attention, zero_blocks)


def separate(
    heads: int,
    rank: int = 1,
    scale: float = 1e-2,
    init: Version = "A",
    *,
    attention: Attention = "linear",
    zero_blocks: bool = True,
) -> Start:
    """Separate key and query of rank R, ATTN_S: W^KQ = W^Kᵀ W^Q.

    Args:
        heads: H.
        rank: R.
        scale: s.
        init: the standard deviations, as the published code had them: "A" (until 10 January 2025)
            s everywhere; "B" (14 January to December 2025) s for W^V and s/√(R(D+1)) for the
            others; "C" (10 to 14 January 2025) s/(D+1) and s/√(R(D+1)); "D" (since) both of those
            divided by √H.
        attention: "linear" or "softmax".
        zero_blocks: start 𝐯 and κ at zero, as published.

    Reference: Sec. 4; eq. (10).

    >>> separate(heads=5, rank=2, scale=1e-3).rank
    2
    """
    return _checked("separate", "heads", heads, rank, scale, init, attention, zero_blocks)


def mlp(hidden: int, scale: float) -> Start:
    """The two-layer linear net on the cubic features z, which merged attention is equivalent to.

    Args:
        hidden: its width; with as many heads and one seed, merged attention starts equal.
        scale: s.

    Reference: Sec. 3.1.
    """
    return _checked("mlp", "hidden", hidden, None, scale, "A", "linear", True)


@dataclass(frozen=True)
class Given(Start):
    """A model that starts from weights of the reader's own, whatever the seed; made by `given`."""

    weights: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False, compare=False)
    dim: int = 0

    def fits(self, task: Task) -> None:
        """Raise unless the weights are of the task's sizes."""
        rows = self.weights["value"].shape[-1]
        if rows != task.features:
            raise ValueError(f"value must have {task.features} rows for this task, not {rows}")
        if self.dim != task.dim:
            raise ValueError(f"dim of given weights must be the task's {task.dim}, not {self.dim}")

    def draw(self, task: Task, seed: int) -> dict[str, np.ndarray]:
        """The weights as they were given."""
        self.fits(task)
        return {name: array.copy() for name, array in self.weights.items()}


def given(
    value: Any,
    *,
    key_query: Any = None,
    key: Any = None,
    query: Any = None,
    dim: int,
    attention: Attention = "linear",
) -> Given:
    """Attention that starts from given weight matrices, in the units that `train` is asked for.

    Args:
        value: W^V, (heads, features, features).
        key_query: W^KQ, (heads, features, features), for merged attention; or
        key: W^K, (heads, rank, features), and
        query: W^Q, of the same shape, for separate attention.
        dim: D, how many of the features are inputs; the others are labels.
        attention: "linear" or "softmax".

    >>> import numpy as np
    >>> given(np.eye(3)[None], key_query=np.eye(3)[None], dim=2).kind
    'merged'
    """
    merged_too = key_query is not None
    if merged_too == (key is not None) or (key is None) != (query is None):
        raise ValueError("key_query, or key and query, must be given beside value")
    parts = {"key_query": key_query} if merged_too else {"key": key, "query": query}
    parts = {"value": value} | parts
    for name, part in parts.items():
        validation.concrete(name, part, why="blocks that are zero are looked for")
    arrays = {name: validation.floating(name, x) for name, x in parts.items()}
    for name, array in arrays.items():
        if array.ndim != 3 or array.size == 0:
            raise ValueError(
                f"{name} must have three axes that are not empty, not the shape {array.shape}"
            )
        validation.within(name, array, -MAX_WEIGHT, MAX_WEIGHT)
    heads, _, rows = arrays["value"].shape
    rank = None if merged_too else arrays["key"].shape[1]
    for name, array in arrays.items():
        wide = name == "value" or rank is None
        validation.shaped(name, array, (heads, rows if wide else rank or 0, rows))
    weights = {name: np.array(array) for name, array in arrays.items()}
    if rows < 2:
        raise ValueError(f"value must have two rows or more, an input and a label, not {rows}")
    dim = validation.whole("dim", dim, 1, rows - 1)
    validation.one_of("attention", attention, ("linear", "softmax"))
    inner = weights["key_query"][:, dim:, :dim] if merged_too else weights["key"][:, :, dim:]
    still = not (weights["value"][:, dim:, :dim].any() or inner.any())
    scale = max(float(np.abs(array).max()) for array in weights.values())
    kind: Kind = "merged" if merged_too else "separate"
    return Given(kind, heads, rank, scale, "A", attention, still, weights, dim)
