"""The data law: in-context linear regression, and samplers of real sequences."""

import math
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from .. import memory, validation
from ..compiling import stage
from ..numerics.host import packed, unpacked

MAX_EIGENVALUE = 1e6
MIN_EIGENVALUE = 1e-12
MAX_EXPONENT = 20.0
MAX_CONTEXT = 10**15  # which a float still holds exactly
MAX_SIZE = 10**9  # of what has an axis in memory
MAX_ENTRY = 1e30  # of data: its sixth power is a number


def counted(name: str, value: Any, most: int = MAX_SIZE) -> int:
    """A whole number from 1 on that is not absurd."""
    number = validation.whole(name, value, 1)
    if number > most:
        raise ValueError(f"{name} must be at most {most}, not {number}")
    return number


class Task(eqx.Module):
    r"""In-context linear regression.

    A sequence is ``x_1 … x_N, x_q ~ N(0, Λ)`` with labels ``y_n = w·x_n`` and the target
    ``y_q = w·x_q``; every sequence has its own task vector ``w ~ N(0, C)``.

    Args:
        dim: D, the dimension of the tokens.
        context: N, the number of labelled examples, the query not counted; None or infinity for
            the limit of long contexts (theory and population only).
        spectrum: the eigenvalues of Λ: "linear", ∝ D … 1 with trace 1; "white", Λ = I/D; "power",
            ∝ d^-exponent with trace 1; or an array (dim,) that does not increase, as it is.
        exponent: of the power law; 1 unless given.
        basis: the eigenvectors of Λ: "identity", "random", or an orthogonal matrix with the
            eigenvectors in its columns.
        basis_seed: of a random basis.
        noise: standard deviation of the noise on the labels in the context.
        task_covariance: C, (dim, dim) or (dim,) for a diagonal; the identity unless given.
        in_context: f, the fraction of sequences with a fresh w; the others have the task vector
            `fixed`, in the context and at the query.
        fixed: w₀, (dim,); ones, of norm √D, unless given.
        labels: "task"; or "noise": the labels in the context are N(0, 1) and say nothing, while
            the target is w₀·x_q (in_context must be 0 then).
        lengths: "fixed"; or "varied": the loss is averaged over the prefixes with contexts of
            1 … N examples.
        normalise: what the output of a varied length is divided by: "n", the number of tokens with
            the query (as the published code), or "n-1", the context's length.
        outputs: D_y, the number of labels of a token, each with a task vector of its own.

    Reference: Sec. 2.1.

    >>> task = Task(dim=4, context=31)
    >>> task
    Task(dim=4, context=31, eigenvalues=[0.4, 0.3, 0.2, 0.1])
    >>> task.covariance.trace().round(12).item()
    1.0
    """

    dim: int = eqx.field(static=True)
    context: int | float = eqx.field(static=True)
    eigenvalues: Float[Array, " dim"]
    basis: Float[Array, "dim dim"] | None
    noise: Float[Array, ""]
    task_covariance: Float[Array, "dim dim"] | None
    in_context: float = eqx.field(static=True)
    fixed: Float[Array, " dim"]
    labels: str = eqx.field(static=True)
    lengths: str = eqx.field(static=True)
    normalise: str = eqx.field(static=True)
    outputs: int = eqx.field(static=True)

    def __init__(
        self,
        dim,
        context,
        spectrum="linear",
        *,
        exponent=None,
        basis="identity",
        basis_seed=0,
        noise=0.0,
        task_covariance=None,
        in_context=1.0,
        fixed=None,
        labels="task",
        lengths="fixed",
        normalise="n",
        outputs=1,
    ):
        self.dim = counted("dim", dim)
        memory.refuse("dim", self.dim, 64.0 * self.dim)
        validation.concrete("context", context, why="contexts are counted")
        if context is None or (isinstance(context, float) and context == math.inf):
            self.context = math.inf
        else:
            self.context = counted("context", context, MAX_CONTEXT)
        self.eigenvalues = _eigenvalues(spectrum, self.dim, exponent)
        self.basis = _basis(basis, self.dim, basis_seed)
        self.noise = validation.floating("noise", noise)
        validation.shaped("noise", self.noise, ())
        validation.within("noise", self.noise, 0.0, 1e6)
        self.task_covariance = _task_covariance(task_covariance, self.dim)
        if type(in_context) is bool or not (
            isinstance(in_context, int | float) and 0.0 <= in_context <= 1.0
        ):
            raise ValueError(f"in_context must be a number from 0 to 1, not {in_context!r}")
        self.in_context = float(in_context)
        self.fixed = validation.floating("fixed", np.ones(self.dim) if fixed is None else fixed)
        validation.shaped("fixed", self.fixed, (self.dim,))
        validation.within("fixed", self.fixed, -1e6, 1e6)
        validation.one_of("labels", labels, ("task", "noise"))
        validation.one_of("lengths", lengths, ("fixed", "varied"))
        validation.one_of("normalise", normalise, ("n", "n-1"))
        self.labels, self.lengths, self.normalise = labels, lengths, normalise
        self.outputs = counted("outputs", outputs)
        if labels == "noise" and self.in_context != 0.0:
            raise ValueError(
                f"in_context must be 0 when labels is 'noise', not {self.in_context:g}"
            )
        if self.outputs > 1 and self.in_context != 1.0:
            raise ValueError(
                f"in_context must be 1 with several outputs, not {self.in_context:g}: "
                "there is one fixed task vector only"
            )
        if lengths == "varied" and self.context == math.inf:
            raise ValueError("context must be finite when lengths is 'varied', not inf")

    def __repr__(self) -> str:
        said: dict[str, Any] = {"dim": self.dim, "context": self.context}
        if validation.is_concrete(self.eigenvalues) and self.dim <= 8:
            said["eigenvalues"] = np.asarray(self.eigenvalues).round(6).tolist()
        else:
            said["eigenvalues"] = self.eigenvalues
        usual = {"in_context": 1.0, "labels": "task", "lengths": "fixed", "outputs": 1}
        said |= {name: getattr(self, name) for name in usual if getattr(self, name) != usual[name]}
        if self.lengths == "varied":
            said["normalise"] = self.normalise
        if self.task_covariance is not None:
            said["task_covariance"] = self.task_covariance
        if not (validation.is_concrete(self.noise) and self.noise == 0.0):
            said["noise"] = self.noise
        return f"Task({validation.brief(**said)})"

    @property
    def covariance(self) -> Float[Array, "dim dim"]:
        """Λ, in the coordinates of the tokens."""
        memory.refuse("dim", self.dim, 16.0 * self.dim**2)
        xp, values, basis = unpacked(self.eigenvalues, self.basis)
        if basis is None:
            return packed(xp.diag(values))
        return packed((basis * values[None, :]) @ basis.T)

    @property
    def trace(self) -> Float[Array, ""]:
        """Tr Λ, the loss of the zero predictor when C = I."""
        xp, values = unpacked(self.eigenvalues)
        return packed(xp.sum(values))

    @property
    def features(self) -> int:
        """D + D_y, the entries of a token."""
        return self.dim + self.outputs

    def into_eigenbasis(self, matrix: Float[Array, "dim dim"]) -> Float[Array, "dim dim"]:
        """A matrix on the tokens' space, written in the eigenvectors of Λ."""
        _, basis, matrix = unpacked(self.basis, matrix)
        return packed(matrix if basis is None else basis.T @ matrix @ basis)


def _eigenvalues(spectrum: Any, dim: int, exponent: Any) -> Float[Array, " dim"]:
    if exponent is not None and not (isinstance(spectrum, str) and spectrum == "power"):
        raise ValueError("exponent is for the spectrum 'power' only")
    power = validation.floating("exponent", 1.0 if exponent is None else exponent)
    validation.shaped("exponent", power, ())
    validation.within("exponent", power, 0.0, MAX_EXPONENT)
    if isinstance(spectrum, str):
        validation.one_of("spectrum", spectrum, ("linear", "white", "power"))
        order = np.arange(1, dim + 1)
        if spectrum == "power":
            xp, power = unpacked(power)
            shape = xp.exp(-power * np.log(order))
            return packed(shape / xp.sum(shape))
        shape = order[::-1] if spectrum == "linear" else np.ones(dim)
        return stage(shape / shape.sum())
    values = validation.floating("spectrum", spectrum)
    validation.shaped("spectrum", values, (dim,))
    validation.within("spectrum", values, MIN_EIGENVALUE, MAX_EIGENVALUE)
    if validation.is_concrete(values) and np.any(np.diff(np.asarray(values)) > 0.0):
        raise ValueError(f"spectrum must not increase, not {np.asarray(values).tolist()}")
    return values


def _basis(basis: Any, dim: int, seed: Any) -> Float[Array, "dim dim"] | None:
    if isinstance(basis, str):
        validation.one_of("basis", basis, ("identity", "random"))
        if basis == "identity":
            return None
        memory.refuse("dim", dim, 48.0 * dim**2)
        gaussian = np.random.default_rng(validation.whole("basis_seed", seed)).normal(
            size=(dim, dim)
        )
        q, r = np.linalg.qr(gaussian)
        return stage(q * np.sign(np.diag(r)))  # the signs make it uniform
    matrix = validation.floating("basis", basis)
    validation.shaped("basis", matrix, (dim, dim))
    if validation.is_concrete(matrix):
        entries = np.asarray(matrix)
        with np.errstate(over="ignore", invalid="ignore"):
            off = float(np.max(np.abs(entries.T @ entries - np.eye(dim))))
        if not off <= 1e-6:
            raise ValueError(
                f"basis must be orthogonal; basisᵀ basis is off the identity by {off:.2g}"
            )
    return matrix


def _task_covariance(value: Any, dim: int) -> Float[Array, "dim dim"] | None:
    if value is None:
        return None
    matrix = validation.floating("task_covariance", value)
    validation.shaped("task_covariance", matrix, (dim,), (dim, dim))
    validation.within("task_covariance", matrix, -1e6, 1e6)
    if matrix.ndim == 1:
        memory.refuse("dim", dim, 48.0 * dim**2)
        xp, matrix = unpacked(matrix)
        matrix = packed(xp.diag(matrix))
    if validation.is_concrete(matrix):
        entries = np.asarray(matrix)
        if not entries.any():
            raise ValueError("task_covariance must not be 0: there would be nothing to learn")
        if np.abs(entries - entries.T).max() > 1e-9 * np.abs(entries).max():
            raise ValueError("task_covariance must be symmetric")
        least = np.linalg.eigvalsh(entries)[0]
        if least < -1e-9 * np.abs(entries).max():
            raise ValueError(
                f"task_covariance must have no negative eigenvalue; the least is {least:.3g}"
            )
    return matrix


class Sequences(eqx.Module):
    """A data set of sequences: sampled, or the reader's own.

    Args:
        task: the law that it was drawn from; of data of one's own its sizes count.
        x: the tokens' inputs; the last of a sequence is the query (of the longest prefix).
        y: the labels shown in the context, with their noise.
        target: w·x of every token, without noise; the last is what is asked.

    >>> Sequences(Task(dim=2, context=3), np.ones((5, 4, 2)), np.ones((5, 4, 1)), np.ones((5, 4)))
    Traceback (most recent call last):
    ValueError: target must be shape (5, 4, 1), not an array of shape (5, 4)
    """

    task: Task
    x: Float[Array, "sequences columns dim"]
    y: Float[Array, "sequences columns outputs"]
    target: Float[Array, "sequences columns outputs"]

    def __init__(self, task, x, y, target):
        if not isinstance(task, Task):
            raise ValueError(f"task must be a shallow_icl.Task, not {type(task).__name__}")
        if task.context == math.inf:
            raise ValueError("context must be finite for sequences, not inf")
        self.task, columns = task, int(task.context) + 1
        self.x, self.y, self.target = (
            validation.floating(name, part)
            for name, part in (("x", x), ("y", y), ("target", target))
        )
        count = self.x.shape[0] if self.x.ndim else 0
        if count == 0:
            raise ValueError(f"x must hold one sequence or more, not be of shape {self.x.shape}")
        validation.shaped("x", self.x, (count, columns, task.dim))
        for name in ("y", "target"):
            validation.shaped(name, getattr(self, name), (count, columns, task.outputs))
        for name in ("x", "y", "target"):
            validation.within(name, getattr(self, name), -MAX_ENTRY, MAX_ENTRY)

    def __repr__(self) -> str:
        return f"Sequences({self.x.shape[0]} of {self.task!r})"

    def __len__(self) -> int:
        return self.x.shape[0]

    @property
    def tokens(self) -> Float[Array, "sequences features columns"]:
        """The matrices X: column n is ``[x_n; y_n]``, the last ``[x_q; 0]`` (1)."""
        xp, x, y = unpacked(self.x, self.y)
        shown = xp.concatenate([y[:, :-1], xp.zeros_like(y[:, :1])], axis=1)
        return packed(xp.swapaxes(xp.concatenate([x, shown], axis=2), 1, 2))


def sample(
    task: Task,
    sequences: int,
    *,
    seed: int = 0,
    antithetic: bool = False,
    query_flip: bool = False,
    centred: bool = False,
    whitened: bool = False,
) -> Sequences:
    """A data set of sequences.

    They are drawn on the host in double precision: no compilation, and the same numbers on every
    device.

    Args:
        task: the data law.
        sequences: P, how many.
        seed: the same seed gives the same data set.
        antithetic: the second half repeats the first with w → −w and all labels negated. The zero
            blocks of the weights then stay exactly zero in training.
        query_flip: every sequence comes with its copy at −x_q, whose target is negated; with
            `antithetic` these two are repeated with −w, four to a draw, and E y_q X̄ is exactly
            zero. For fixed lengths only, where the query is no example.
        centred: subtract from x its mean over the sequences, position by position, as the
            published code does.
        whitened: make the sample of task vectors exactly centred and white (times C), as the
            published code does.

    >>> data = sample(Task(dim=4, context=31), sequences=10)
    >>> data.tokens.shape
    (10, 5, 32)
    """
    if not isinstance(task, Task):
        raise ValueError(f"task must be a shallow_icl.Task, not {type(task).__name__}")
    validation.concrete("task", task, why="sequences are drawn")
    count = counted("sequences", sequences, MAX_CONTEXT)
    if task.context == math.inf:
        raise ValueError("context must be finite to be sampled, not inf")
    if antithetic and (count % 2 or task.in_context != 1.0):
        raise ValueError(
            "antithetic needs an even number of sequences, each with a fresh task "
            f"(in_context 1), not {count} with in_context {task.in_context:g}"
        )
    copies = (1 + antithetic) * (1 + query_flip)
    if query_flip and count % copies:
        raise ValueError(f"query_flip needs a multiple of {copies} sequences here, not {count}")
    if query_flip and task.lengths == "varied":
        raise ValueError(
            "lengths must be fixed for query_flip, not 'varied': the query of a prefix is an "
            "example of the longer ones"
        )
    drawn = count // copies
    fresh = round(task.in_context * drawn)
    if whitened and (drawn <= task.dim * task.outputs or fresh < drawn):
        raise ValueError(
            f"whitened needs more than {task.dim * task.outputs * copies} sequences, each with a "
            f"fresh task, not {count} with in_context {task.in_context:g}"
        )
    entries = count * (int(task.context) + 1) * (task.dim + 3 * task.outputs)
    memory.refuse("sequences", count, 24.0 * entries)
    # One stream for each kind of number, so that no option changes the others' draws.
    draw = [np.random.default_rng([validation.whole("seed", seed), k]) for k in range(4)]
    columns = int(task.context) + 1
    x = draw[0].standard_normal((drawn, columns, task.dim))
    x *= np.sqrt(np.asarray(task.eigenvalues, float))
    if task.basis is not None:
        x = x @ np.asarray(task.basis, float).T
    w = draw[1].standard_normal((drawn, task.dim, task.outputs))
    noise = float(task.noise) * draw[2].standard_normal((drawn, columns, task.outputs))
    if centred:  # a query that is flipped has mean zero already
        shown = columns - query_flip
        x[:, :shown] -= x[:, :shown].mean(axis=0)
    if whitened:
        w = _whiten(w.reshape(drawn, -1), copies, antithetic).reshape(w.shape)
    if task.task_covariance is not None:
        w = _root(np.asarray(task.task_covariance, float)) @ w
    w[fresh:] = np.asarray(task.fixed, float)[:, None]
    target = x @ w
    y = draw[3].standard_normal(target.shape) if task.labels == "noise" else target + noise
    if query_flip:
        x, y, target = (np.concatenate([part, _asked_at_minus(part)]) for part in (x, y, target))
    if antithetic:
        x, y, target = (np.concatenate(p) for p in ((x, x), (y, -y), (target, -target)))
    return Sequences(task, x, y, target)


def _asked_at_minus(part: np.ndarray) -> np.ndarray:
    """Sequences with the last column negated."""
    return np.concatenate([part[:, :-1], -part[:, -1:]], axis=1)


def _root(matrix: np.ndarray, power: float = 0.5) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 0.0) ** power) @ vectors.T


def _whiten(vectors: np.ndarray, copies: int, antithetic: bool) -> np.ndarray:
    """Mean zero and unbiased covariance one, exactly, of all copies, negatives or not."""
    if not antithetic:  # ±vectors have mean zero already
        vectors = vectors - vectors.mean(axis=0)
    covariance = copies * vectors.T @ vectors / (copies * len(vectors) - 1)
    return vectors @ _root(covariance, -0.5)
