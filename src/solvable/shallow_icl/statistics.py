"""All that training sees of a data set: the moments of its cubic features."""

from dataclasses import fields
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import memory, validation
from ..compiling import stage
from .task import Sequences, Task

Blocks = Literal["all", "zero"]

_PIECE = 2**22  # entries of the feature matrix that are in memory at once


def key_query(params: dict[str, Array]) -> Float[Array, "heads rows dim"]:
    """W^KQ of every head, or W^Kᵀ W^Q."""
    if "key_query" in params:
        return params["key_query"]
    return jnp.einsum("hrb,hrc->hbc", params["key"], params["query"])


class Moments(eqx.Module):
    r"""The quadratic form that the loss is in the tensor T of a linear attention model.

    Every model predicts ``ŷ = ⟨T, Φ⟩``, ``T_abc = Σ_i a_i[a] K_i[b, c]``, from the features
    ``Φ_abc = G_ab x_{q,c}``, ``G = X Xᵀ/N``, of which those with a ≤ b are kept. So
    ``L = E y² − 2⟨T, cross⟩ + ⟨T, gram T⟩``, whatever the number of sequences.

    Attributes:
        gram: ``E ΦΦᵀ``.
        cross: ``E Φ y``.
        best: a minimiser T*.
        rest: ``cross − gram T*``, zero up to round-off.
        floor: the loss at T*, from its residuals; the loss is written about it, so that it keeps
            its digits when it is small.
        blocks: "all", or "zero": only the features that weights with zero blocks see.
    """

    gram: Float[Array, "features features"]
    cross: Float[Array, "outputs features"]
    best: Float[Array, "outputs features"]
    rest: Float[Array, "outputs features"]
    floor: Float[Array, ""]
    blocks: Blocks = eqx.field(static=True)

    def coefficients(self, params: dict[str, Array]) -> Float[Array, "outputs features"]:
        """T on the kept features, of live weights (or of their blocks that are not zero)."""
        tensor = jnp.einsum("hoa,hbc->oabc", params["value"], key_query(params))
        if self.blocks == "zero":
            return tensor.reshape(tensor.shape[0], -1)
        tensor = tensor + jnp.swapaxes(tensor, 1, 2)
        first, second = np.triu_indices(tensor.shape[1])
        once = jnp.asarray(np.where(first == second, 0.5, 1.0)[None, :, None], tensor.dtype)
        return (tensor[:, first, second] * once).reshape(tensor.shape[0], -1)

    def slope(self, tensor: Float[Array, "outputs features"]) -> Float[Array, "outputs features"]:
        """∂L/∂T."""
        return (2.0 / tensor.shape[0]) * (tensor @ self.gram - self.cross)

    def loss(self, tensor: Float[Array, "outputs features"]) -> Float[Array, ""]:
        """``L* + ⟨T − T*, gram (T − T*) − 2 rest⟩``, averaged over the outputs."""
        gap = tensor - self.best
        excess = jnp.sum(gap * (gap @ self.gram - 2.0 * self.rest))
        return self.floor + excess / tensor.shape[0]


class Statistics(Moments):
    """The moments of a data set, with the law that it was drawn from.

    Attributes:
        task: the law.
    """

    task: Task

    def __check_init__(self):
        count = _count(self.task, self.blocks)
        validation.shaped("gram", self.gram, (count, count))
        validation.shaped("cross", self.cross, (self.task.outputs, count))

    def __repr__(self) -> str:
        return f"Statistics({self.blocks} blocks of {self.task!r})"

    @property
    def moments(self) -> Moments:
        """All that training sees of them: one program serves every law."""
        return Moments(**{f.name: getattr(self, f.name) for f in fields(Moments)})


def statistics(data: Sequences, blocks: Blocks = "all") -> Statistics:
    """The statistics of a data set, in double precision, on the host.

    `train` makes them itself; made once they serve many runs.

    Args:
        data: the sequences; varied lengths are averaged over their prefixes.
        blocks: "all" for any weights, "zero" for weights whose zero blocks stay zero.

    >>> from .task import sample
    >>> statistics(sample(Task(dim=4, context=31), sequences=100)).gram.shape
    (60, 60)
    """
    if not isinstance(data, Sequences):
        raise ValueError(f"data must be shallow_icl.Sequences, not {type(data).__name__}")
    validation.one_of("blocks", blocks, ("all", "zero"))
    validation.concrete("data", data, why="moments are summed up")
    validation.needs_double("statistics")
    task = data.task
    x, y, target = (np.asarray(a, float) for a in (data.x, data.y, data.target))
    count = _count(task, blocks)
    memory.refuse("dim", task.dim, 32.0 * count**2)
    size = max(1, _PIECE // (count * (x.shape[1] if task.lengths == "varied" else 1)))
    gram, cross = np.zeros((count, count)), np.zeros((task.outputs, count))
    seen = 0
    chunks = [slice(k, k + size) for k in range(0, len(x), size)]
    for chunk in chunks:
        for features, labels in _pieces(x[chunk], y[chunk], target[chunk], task, blocks):
            gram += features.T @ features
            cross += labels.T @ features
            seen += len(features)
    gram, cross = gram / seen, cross / seen
    best = np.linalg.lstsq(gram, cross.T, rcond=None)[0].T
    floor = 0.0
    for chunk in chunks:
        for features, labels in _pieces(x[chunk], y[chunk], target[chunk], task, blocks):
            floor += np.sum((labels - features @ best.T) ** 2)
    return Statistics(
        gram=stage(gram),
        cross=stage(cross),
        best=stage(best),
        rest=stage(cross - best @ gram),
        floor=stage(floor / (seen * task.outputs)),
        task=task,
        blocks=blocks,
    )


def _count(task: Task, blocks: Blocks) -> int:
    """How many features are kept."""
    pairs = task.features * (task.features + 1) // 2
    return task.dim * (pairs if blocks == "all" else task.dim * task.outputs)


def _pieces(x: np.ndarray, y: np.ndarray, target: np.ndarray, task: Task, blocks: Blocks) -> Any:
    """The features Φ (sequences, features) and the targets, prefix by prefix."""
    dim, longest = task.dim, x.shape[1] - 1
    tokens = np.concatenate([x, y], axis=2)
    first, second = np.triu_indices(tokens.shape[2])
    contexts = range(1, longest + 1) if task.lengths == "varied" else (longest,)
    sums = np.zeros((len(x), tokens.shape[2], tokens.shape[2]))
    done = 0
    for m in contexts:
        new = tokens[:, done:m]
        sums += np.swapaxes(new, 1, 2) @ new
        done = m
        by = m + 1 if task.lengths == "varied" and task.normalise == "n" else m
        query = x[:, m]
        if blocks == "zero":
            kept = np.swapaxes(sums[:, :dim, dim:], 1, 2).reshape(len(x), -1)
        else:
            gram = sums.copy()
            gram[:, :dim, :dim] += query[:, :, None] * query[:, None, :]
            kept = gram[:, first, second]
        features = (kept / by)[:, :, None] * query[:, None, :]
        yield features.reshape(len(x), -1), target[:, m]
