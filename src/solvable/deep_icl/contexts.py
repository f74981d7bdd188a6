"""The loss in single contexts: one eigendecomposition gives it at every depth and every γ."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from .. import memory, validation
from .run import contexts_of
from .task import FixedStructure, Isotropic, Task, check_task, refuse_large
from .theory import depths_of, gammas_of

_ENTRIES = 4_000_000  # tokens' entries in memory at once
_ROWS = "eigenvalues", "linear", "square", "noise"


@dataclass(frozen=True)
class Spectra:
    r"""Drawn contexts, reduced to what their losses depend on when Γ = γI.

    Attention of width N descends in a space of N directions, ``v = b − E w`` with
    ``E Eᵀ = (D/N) Π`` for a projection Π of rank N; with the eigenvalues s of ``Eᵀ Λ̂ E`` the loss
    of a context, averaged over tasks, queries and label noise, is

        ``Σa − 2 Σ_i φ_i c_i + Σ_ij φ_i φ_j A_ij + σ²/P Σ_i φ_i² s_i n_i``

    with ``φ = (1 − (1 − γs/L)^L)/s``.

    Attributes:
        eigenvalues: s.
        linear: c.
        square: A.
        noise: σ² n s/P.
        start: Σa.
    """

    eigenvalues: Float[np.ndarray, "contexts width"]
    linear: Float[np.ndarray, "contexts width"]
    square: Float[np.ndarray, "contexts width width"]
    noise: Float[np.ndarray, "contexts width"]
    start: float

    def loss(
        self, *, gamma: Any = None, step_size: Any = None, depth: Any = 1, step: Any = None
    ) -> Float[np.ndarray, "..."]:
        """The loss in every context.

        Args:
            gamma: γ, of any shape; or
            step_size: γ/L.
            depth: L, one or several; None or infinity for the limit.
            step: deprecated, the old name of step_size.

        Returns:
            Losses, of shape (gamma's shape, depth's shape, contexts).
        """
        why = "drawn contexts are looked at"
        validation.concrete("gamma and step_size", gamma, step_size, step, why=why)
        depths = depths_of(depth)
        places, by_step_size = gammas_of(gamma, step_size, step)
        if by_step_size and np.isinf(depths).any():
            raise ValueError("gamma, not step_size, must be given where depth is infinite")
        rows = np.ravel(np.asarray(places))
        values = np.asarray(
            [
                [self.at(float(g) * (d if by_step_size else 1.0), d) for d in depths.ravel()]
                for g in rows
            ]
        )
        return values.reshape((*places.shape, *depths.shape, len(self.linear)))

    def at(self, gamma: float, depth: float) -> Float[np.ndarray, " contexts"]:
        """The loss in every context at one γ and one depth."""
        s, linear, square, noise = self.eigenvalues, self.linear, self.square, self.noise
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if math.isinf(depth):
                gone = -np.expm1(-gamma * s)
            else:
                part = gamma * s / depth
                small = -np.expm1(depth * np.log1p(-np.minimum(part, 0.5)))
                gone = np.where(part < 0.5, small, 1.0 - (1.0 - part) ** depth)
            phi = np.where(s != 0.0, gone / np.where(s != 0.0, s, 1.0), gamma)
            slope = (square @ phi[:, :, None])[:, :, 0] + phi * noise - 2.0 * linear
            found = self.start + np.sum(phi * slope, axis=1)
        # What overflows is beyond all numbers, not none.
        return np.where(np.isfinite(found), found, np.inf)


def _draw(
    lam: np.ndarray,
    share: np.ndarray,
    noise: float,
    generator: np.random.Generator,
    count: int,
    width: int,
    context: int | None,
) -> tuple[np.ndarray, ...]:
    """Eigenvalues and what goes with them of some contexts, on the host."""
    dim = lam.size
    if context is None:
        covariance = np.broadcast_to(np.diag(lam), (count, dim, dim))
    else:
        x = generator.standard_normal((count, context, dim)) * np.sqrt(lam)
        covariance = np.swapaxes(x, 1, 2) @ x / context
    if width == dim:
        s, frame = np.linalg.eigh(covariance)
    else:
        frame = np.linalg.qr(generator.standard_normal((count, dim, width)))[0]
        frame *= math.sqrt(dim / width)
        s, turn = np.linalg.eigh(np.swapaxes(frame, 1, 2) @ covariance @ frame)
        frame = frame @ turn
    seen = covariance @ frame  # Λ̂E
    linear = np.einsum("d,cdi,cdi->ci", share, frame, seen)
    inside = np.swapaxes(frame, 1, 2) @ (lam[:, None] * frame)
    square = inside * (np.swapaxes(seen, 1, 2) @ ((share / lam)[:, None] * seen))
    spread = 0.0 if context is None else 1.0 / context
    return s, linear, square, noise**2 * spread * s * np.einsum("cii->ci", inside)


def draw_spectra(task: Task, contexts: int, *, seed: int = 0, gamma: Any = None) -> Spectra:
    r"""Real contexts, reduced to their eigenvalues: the oracle of the deterministic equivalent.

    Draws Λ̂ = XᵀX/P and, where N < D, Π; a context's loss is the sum of `Spectra` (derived).

    Args:
        task: the law; `Isotropic` needs a `dim`. The mean over tasks and queries is exact.
        contexts: how many.
        seed: of the draw.
        gamma: of `FixedStructure`, the diagonal of Γ up to a factor: then γ in `Spectra.loss` is
            that factor.

    >>> import jax; jax.config.update("jax_enable_x64", True)
    >>> from .task import RotatedStructure
    >>> task = RotatedStructure(nu=1.25, beta=1.0, dim=8, width=5, context=20)
    >>> draw_spectra(task, contexts=3).loss(gamma=0.5, depth=[1, 2]).shape
    (2, 3)
    """
    check_task(task)
    validation.needs_double("the loss in single contexts")
    validation.concrete("task and gamma", task, gamma, why="contexts are drawn")
    count = contexts_of(contexts)
    width = task.width or 1
    memory.refuse("contexts", contexts, 8.0 * count * width * (width + 3))
    generator = np.random.default_rng([validation.whole("seed", seed), 3])
    parts = list(spectra_parts(task, count, generator, gamma))
    rows = (np.concatenate([getattr(part, name) for part in parts]) for name in _ROWS)
    return Spectra(*rows, start=parts[0].start)


def spectra_parts(
    task: Task, count: int, generator: np.random.Generator, gamma: Any = None
) -> Iterator[Spectra]:
    """`count` contexts, as many at a time as there is room for."""
    if task.dim is None or task.width is None:
        raise ValueError("dim must be given to draw contexts: Isotropic(alpha, dim=…)")
    entries = task.dim * max(task.dim, task.context or 1)
    refuse_large(task, 64.0 * entries, "dim", "context")
    if isinstance(task, Isotropic):
        lam, share = np.ones(task.dim), np.full(task.dim, 1.0 / task.dim)
    else:
        lam, share = np.asarray(task.lam), np.asarray(task.share)
    if gamma is not None:
        check_task(task, FixedStructure)
        row = validation.floating("gamma", gamma)
        validation.shaped("gamma", row, lam.shape)
        validation.within("gamma", row, 0.0, open_low=True)
        lam = lam * np.asarray(row)  # in the frame of Γ^-½ x
    room = max(1, _ENTRIES // entries)
    law = lam, share, float(task.noise), generator
    for done in range(0, count, room):
        rows = _draw(*law, min(room, count - done), task.width, task.context)
        yield Spectra(*rows, start=float(np.sum(share)))
