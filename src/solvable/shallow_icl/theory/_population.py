"""The moments of infinitely many sequences, and the loss of a predictor ŷ = βᵀ M x_q."""

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ... import memory, validation
from ...numerics.host import packed, unpacked
from ..task import MAX_CONTEXT, Task, counted

_LARGEST = 1e100  # entry of a map: its square is a number

Diagonal = Float[Any, " dim"]
Matrix = Float[Any, "dim dim"]
Number = Float[Any, ""]


class Population(eqx.Module):
    r"""The moments that in-context learning sees, in the eigenbasis of Λ.

    With ``β = (1/N) Σ y_n x_n`` and zero blocks every model predicts ``ŷ = βᵀ M x_q``, and

    ``L(M) = E y_q² − 2 tr(Mᵀ cross) + tr(Mᵀ gram M Λ) = L* + tr((M − M*)ᵀ gram (M − M*) Λ)``.

    The second form is what is computed: it keeps its digits when the loss is small. `gram`, `cross`
    and `best` are diagonals (dim,) where the task covariance is the identity, else matrices.

    Attributes:
        spectrum: λ_d.
        gram: ``E ββᵀ``.
        cross: ``E y_q β x_qᵀ``.
        best: M*, the minimum.
        floor: L*, its loss.
        power: ``E y_q²``, the loss of the zero predictor.
    """

    spectrum: Diagonal
    gram: Diagonal | Matrix
    cross: Diagonal | Matrix
    best: Diagonal | Matrix
    floor: Number
    power: Number

    @property
    def is_diagonal(self) -> bool:
        """Whether Λ and C share their eigenvectors as far as is known."""
        return self.gram.ndim == 1

    def weighted(self, gap: Float[Any, "*batch dim dim"]) -> Float[Any, "*batch dim dim"]:
        """``gram gap Λ``: half the slope ∂L/∂M at M = M* + gap."""
        lead = (1,) * (gap.ndim - 2)
        columns = self.spectrum.reshape(*lead, 1, -1)
        if self.is_diagonal:
            return self.gram.reshape(*lead, -1, 1) * gap * columns
        return (self.gram @ gap) * columns

    def excess(self, gap: Float[Any, "*batch dim dim"]) -> Float[Any, "*batch"]:
        """``tr(gapᵀ gram gap Λ)``: what a map M = M* + gap loses against the best."""
        return (gap * self.weighted(gap)).sum(axis=(-2, -1))

    @property
    def best_map(self) -> Float[Any, "dim dim"]:
        """M* as a matrix."""
        if not self.is_diagonal:
            return self.best
        kind = np if isinstance(self.best, np.ndarray) else jnp
        return kind.diag(self.best)

    def gap(self, maps: Float[Any, "*batch dim dim"]) -> Float[Any, "*batch dim dim"]:
        """M − M*."""
        return maps - self.best_map.reshape((1,) * (maps.ndim - 2) + self.best_map.shape)

    def residual(self, maps: Float[Any, "*batch dim dim"]) -> Float[Any, "*batch dim dim"]:
        """``cross − gram M Λ``, which a head's weights follow."""
        return -self.weighted(self.gap(maps))


def population(task: Task, *, context: Any = None) -> Population:
    r"""The moments of the population.

    ``E ββᵀ = (1 + 1/N) ΛCΛ + (tr(CΛ) + σ²) Λ/N``, ``E y_q β x_qᵀ = ΛCΛ`` and ``E y_q² = tr(CΛ)``.
    For varied lengths they are averaged over the contexts of m = 1 … N examples, with β divided by
    n = m + 1 or by m.

    Args:
        task: the data law, every sequence with a fresh task vector.
        context: N, where it is not the task's own: the moments of a test at another length.

    Reference: eq. (5); App. on moments.

    >>> population(Task(dim=2, context=10, spectrum="white")).gram.round(6).tolist()
    [0.325, 0.325]
    """
    return packed(moments_of(task, context))


def moments_of(task: Any, context: Any = None) -> Population:
    """The same in numpy's arrays, unless JAX traces the task."""
    if not isinstance(task, Task):
        raise ValueError(f"task must be a shallow_icl.Task, not {type(task).__name__}")
    if task.in_context != 1.0:
        raise ValueError(
            f"in_context must be 1 for the population, not {task.in_context:g}: sample sequences, "
            "or see escape_rate"
        )
    if context is None:
        context = task.context
    elif context != math.inf:
        context = counted("context", context, MAX_CONTEXT)
    if task.lengths == "varied":
        if context == math.inf:
            raise ValueError("context must be finite when lengths is 'varied', not inf")
        memory.refuse("context", context, 32.0 * context)
        examples = np.arange(1.0, context + 1.0)
        shrink = examples / (examples + 1.0) if task.normalise == "n" else np.ones(len(examples))
    else:
        examples, shrink = np.array([float(context)]), np.ones(1)
    mean, spread = float(shrink.mean()), float(shrink.var())
    inverse = float((shrink**2 / examples).mean())

    xp, lam, basis, prior, noise = unpacked(
        task.eigenvalues, task.basis, task.task_covariance, task.noise
    )
    if prior is None:
        signal, power = lam**2, xp.sum(lam)
        rest = inverse * (signal + (power + noise**2) * lam) + spread * signal
        gram = mean**2 * signal + rest
        best = mean * signal / (gram * lam)
        floor = xp.sum(signal * rest / (gram * lam))
        return Population(lam, gram, mean * signal, best, *map(xp.asarray, (floor, power)))
    prior = prior if basis is None else basis.T @ prior @ basis
    signal = lam[:, None] * prior * lam[None, :]
    power = xp.sum(xp.diagonal(prior) * lam)
    rest = (inverse + spread) * signal + inverse * (power + noise**2) * xp.diag(lam)
    gram = mean**2 * signal + rest
    cross = mean * signal
    best = xp.linalg.solve(gram, cross) / lam[None, :]
    floor = xp.trace(signal @ xp.linalg.solve(gram, rest) / lam[None, :])
    return Population(lam, gram, cross, best, *map(xp.asarray, (floor, power)))


def converged_map(task: Task) -> Float[Array, "dim dim"]:
    """What training converges to: ``M* = (Λ + (Λ + tr Λ I)/N)⁻¹``, in the tokens' coordinates.

    Reference: eq. (9).

    >>> converged_map(Task(dim=2, context=10, spectrum="white")).round(6).tolist()
    [[1.538462, 0.0], [0.0, 1.538462]]
    """
    moments = moments_of(task)
    memory.refuse("dim", task.dim, 32.0 * task.dim**2)
    _, best, basis = unpacked(moments.best_map, task.basis)
    return packed(best if basis is None else basis @ best @ basis.T)


def loss(task: Task, maps: Any, *, context: Any = None) -> Float[Array, "*batch"]:
    r"""The population loss of a predictor ``ŷ = βᵀ M x_q``.

    ``L(M) = tr CΛ − 2 tr(Mᵀ ΛCΛ) + tr(Mᵀ E[ββᵀ] M Λ)``.

    Args:
        task: the data law.
        maps: M, (…, dim, dim), in the coordinates of the tokens.
        context: N of the test, where it is not the task's own.

    Reference: eq. (5).

    >>> task = Task(dim=4, context=31)
    >>> loss(task, converged_map(task)).round(8).item()
    0.13599507
    """
    moments = moments_of(task, context)
    given = validation.floating("maps", maps)
    if given.ndim < 2 or given.shape[-2:] != (task.dim, task.dim):
        raise ValueError(
            f"maps must be of shape (…, {task.dim}, {task.dim}), not of shape {given.shape}"
        )
    validation.within("maps", given, -_LARGEST, _LARGEST)
    _, given, basis, moments = unpacked(given, task.basis, moments)
    if basis is not None:
        given = basis.T @ given @ basis
    return packed(moments.floor + moments.excess(moments.gap(given)))


def plateau_losses(task: Task) -> Float[Array, " plateaus"]:
    r"""The loss with the first m = 0 … D eigenvectors learned: ``tr Λ − Σ_{d ≤ m} λ_d/γ_d``.

    Summed from the end, so that long contexts lose no digits.

    Args:
        task: the data law; its task covariance must be the identity.

    Reference: eq. (15).

    >>> plateau_losses(Task(dim=4, context=31)).round(8).tolist()
    [1.0, 0.64057971, 0.37737216, 0.2098046, 0.13599507]
    """
    moments = moments_of(task)
    if not moments.is_diagonal:
        raise ValueError("task_covariance must be None: its plateaus are not known in closed form")
    xp, gains, floor = unpacked(moments.cross * moments.best, moments.floor)
    later = xp.cumsum(gains[::-1])[::-1]
    return packed(floor + xp.concatenate([later, np.zeros(1)]))
