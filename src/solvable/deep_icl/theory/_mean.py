"""The best Γ for the mean over drawn contexts, where rare contexts own the mean."""

import math
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize, minimize_scalar

from ... import memory, validation
from ..run import contexts_of
from ..task import FixedStructure, Isotropic, Task, check_task
from ._arguments import MAX_DEPTH
from ._fixed import fixed_law, single_layer_optimum

_ROOM = 2**18  # numbers of the contexts that go through the layers at once
_RARE = 100.0  # a largest loss above so many medians: a few contexts own the mean


class MeanOptimum(NamedTuple):
    """The Γ that is best in the mean over some contexts, judged on others.

    Attributes:
        gamma: γ; of `FixedStructure` one for each direction.
        loss: the mean over fresh contexts.
        error: its standard error.
        typical: their median.
    """

    gamma: np.ndarray
    loss: float
    error: float
    typical: float


def mean_optimum(
    task: Task, depth: Any, *, contexts: int, seed: int = 0, fresh: Any = None, start: Any = None
) -> MeanOptimum:
    r"""The Γ with the least mean loss over drawn contexts, and its loss over fresh ones.

    ``min_Γ (1/n) Σ_c Tr Ω M_cᵀ^L Λ M_c^L`` with ``M = I − ΓΛ̂/L``, and the mean over noise: of
    `FixedStructure` over diagonal Γ, by L-BFGS in log γ_kλ_k on the mean's logarithm; else over one
    γ. The mean over the contexts of the search is too low, so others judge (accounts D).

    Args:
        task: the context law, with a finite context or width; `Isotropic` with a `dim`.
        depth: L, finite.
        contexts: n, of the search: 2000 for D ≤ 32, 300 for D ≈ 100.
        seed: of the contexts.
        fresh: how many others; 10 n unless given.
        start: of `FixedStructure`, Γ's diagonal where the search begins: L times the optimum of a
            single layer unless given.

    Warns:
        UserWarning: where the largest fresh loss is more than 100 medians: then rarer contexts than
            were drawn own the mean, and `margin_scale` is the better way.
    """
    check_task(task)
    validation.needs_double("the mean over drawn contexts")
    validation.concrete("task and start", task, start, why="contexts are drawn")
    layers = validation.whole("depth", depth, 1, MAX_DEPTH)
    count = contexts_of(contexts)
    many = 10 * count if fresh is None else contexts_of(fresh)
    seed = validation.whole("seed", seed)
    search, judge = (np.random.default_rng([seed, part]) for part in (4, 5))
    if not isinstance(task, FixedStructure):
        gamma, losses = _one(task, float(layers), count, many, search, judge)
    elif task.context is None:
        raise ValueError("context must be finite for an optimum over drawn contexts")
    else:
        gamma, losses = _diagonal(task, layers, count, many, search, judge, start)
    typical = float(np.median(losses))
    if losses.max() > _RARE * typical:
        words = (
            f"few of the fresh contexts own the mean: the largest loss is {losses.max():.3g}, the "
            f"median {typical:.3g}; more contexts or a margin make it safe"
        )
        warnings.warn(words, stacklevel=4)  # of `optimum`
    error = losses.std(ddof=1) / math.sqrt(losses.size) if losses.size > 1 else math.nan
    return MeanOptimum(gamma, float(losses.mean()), float(error), typical)


def margin_scale(task: Task, step_edge: Any, margin: Any) -> np.ndarray:
    r"""By what to multiply Γ so that contexts with a larger top eigenvalue stay stable.

    The largest ``c ≤ 1`` with ``c·step·edge ≤ 2/(1 + m·s)``, where s is the relative spread of a
    context's top eigenvalue: ``s² = 2/P`` by its tokens (accounts D) and ``2/N − 2/D`` by its
    projection, that of a Beta(N/2, (D−N)/2) number (derived). Of `Isotropic` it is Tracy and
    Widom's, ``s = 1.268 (P^-½ + D^-½)^⅓/(√P + √D)``.

    Args:
        task: the context law; an `Isotropic` without `dim` has no spread.
        step_edge: the upper edge over L, γ·edge/L.
        margin: m ≥ 0; 1.2 is fair, 2 is safe.

    >>> import jax; jax.config.update("jax_enable_x64", True)
    >>> task = FixedStructure(nu=1.0, beta=1.0, dim=24, context=24)
    >>> float(margin_scale(task, 1.754, 1.0).round(4))
    0.8848
    """
    check_task(task)
    number = validation.floating("margin", margin)
    validation.shaped("margin", number, ())
    validation.within("margin", number, 0.0, 1e6)
    tokens, dim, width = task.context or math.inf, task.dim or math.inf, task.width or math.inf
    if isinstance(task, Isotropic):
        spread = 1.268 * (tokens**-0.5 + dim**-0.5) ** (1 / 3) / (tokens**0.5 + dim**0.5)
    else:
        spread = math.sqrt(2.0 / tokens + 2.0 / width - 2.0 / dim)
    most = 2.0 / (1.0 + np.asarray(number) * spread)
    return np.asarray(np.minimum(1.0, most / np.asarray(step_edge)))


def _one(
    task: Any, depth: float, count: int, many: int, search: Any, judge: Any
) -> tuple[np.ndarray, Float[np.ndarray, " many"]]:
    """One γ: eigenvalues make every value of it cheap."""
    from ..contexts import spectra_parts  # which imports the theory

    parts = list(spectra_parts(task, count, search))
    # Beyond it every context diverges.
    far = 2.0 * depth / min(part.eigenvalues.max(axis=1).min() for part in parts)

    def log_mean(gamma: float) -> float:
        return math.log(sum(part.at(gamma, depth).sum() for part in parts) / count)

    found = minimize_scalar(
        log_mean, bounds=(0.0, far), method="bounded", options={"xatol": 1e-8 * far}
    )
    gamma = float(found.x)  # pyright: ignore[reportAttributeAccessIssue]
    losses = [part.at(gamma, depth) for part in spectra_parts(task, many, judge)]
    return np.asarray(gamma), np.concatenate(losses)


def _diagonal(
    task: FixedStructure, depth: int, count: int, many: int, search: Any, judge: Any, start: Any
) -> tuple[Float[np.ndarray, " dim"], Float[np.ndarray, " many"]]:
    """A diagonal Γ, in the frame of white tokens: there ``Λ^½ΓΛ^½ = diag(g)``, g = γλ."""
    lam, share = np.asarray(task.lam), np.asarray(task.share)
    context, dim = task.context or 1, task.dim
    noise = float(task.noise) / math.sqrt(context)
    memory.refuse("contexts", count, 8.0 * count * dim * min(dim, context))
    if start is None:
        begin = depth * np.asarray(single_layer_optimum(fixed_law(task))[0])
    else:
        row = validation.floating("start", start)
        validation.shaped("start", row, (dim,))
        validation.within("start", row, 0.0, open_low=True)
        begin = np.asarray(row)
    law = np.sqrt(share), noise, depth
    columns = dim + (min(dim, context) if noise else 0)
    room = max(1, _ROOM // (dim * columns))
    parts = list(_white_roots(search, count, dim, context, room))

    def log_mean(log_load: np.ndarray) -> tuple[float, np.ndarray]:
        pace, total, slope = np.exp(log_load) / depth, 0.0, 0.0
        for root in parts:
            moment, taken, left = _layers(root, pace, *law)
            total += np.sum(left**2)
            back = 2.0 * left
            for push in reversed(taken):
                slope = slope - np.einsum("cij,cij->i", back, push)
                back = back - moment @ (pace[:, None] * back)
        return math.log(total / count), slope * pace / total

    low, high = -40.0, math.log(2.0 * depth)
    found = minimize(
        log_mean,
        np.clip(np.log(begin * lam), low, high),
        jac=True,
        method="L-BFGS-B",
        bounds=[(low, high)] * dim,
        options={"maxiter": 150, "ftol": 1e-9},
    )
    pace = np.exp(found.x) / depth
    others = _white_roots(judge, many, dim, context, room)
    losses = [np.sum(_layers(root, pace, *law)[2] ** 2, axis=(1, 2)) for root in others]
    return np.exp(found.x) / lam, np.concatenate(losses)


def _white_roots(
    generator: np.random.Generator, count: int, dim: int, context: int, room: int
) -> Iterator[Float[np.ndarray, "some dim rank"]]:
    """R with ``RRᵀ = ZᵀZ/P`` in law, Z of P white tokens: by Bartlett's triangle where P ≥ D."""
    for done in range(0, count, room):
        some = min(room, count - done)
        if context < dim:
            root = generator.standard_normal((some, dim, context))
        else:
            root = np.tril(generator.standard_normal((some, dim, dim)), -1)
            k = np.arange(dim)
            root[:, k, k] = np.sqrt(generator.chisquare(context - k, (some, dim)))
        yield root / math.sqrt(context)


def _layers(
    root: Float[np.ndarray, "some dim rank"],
    pace: Float[np.ndarray, " dim"],
    start: Float[np.ndarray, " dim"],
    noise: float,
    depth: int,
) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """``V ← V − (g/L)(WV + E)`` from ``diag √a``, ``W = RRᵀ``: W, each ``WV + E``, the last V.

    With noise V has columns more, from 0, and there ``E = σR/√P``; 𝓛 is ‖V‖².
    """
    moment = root @ np.swapaxes(root, 1, 2)
    left, source = np.broadcast_to(np.diag(start), moment.shape), 0.0
    if noise:
        left = np.concatenate([left, np.zeros_like(root)], axis=2)
        source = np.concatenate([np.zeros_like(moment), noise * root], axis=2)
    taken = []
    for _ in range(depth):
        taken.append(moment @ left + source)
        left = left - pace[:, None] * taken[-1]
    return moment, taken, left
