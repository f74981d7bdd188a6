"""Layers with weights of their own: one γ for each layer."""

import math
import warnings
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float
from scipy.integrate import solve_ivp

from ... import memory, validation
from ...compiling import stage
from ...numerics.host import is_known, numbers, unpacked
from ..directions import compiled_if_traced
from ..run import contexts_of
from ..start import Init
from ..task import FixedStructure, Isotropic, RotatedStructure, Task, check_task
from . import _christoffel as christoffel
from . import _gram as gram
from ._arguments import depths_of, is_population
from ._equivalent import medium_of, single_layer
from ._optimum import Optimum, optimum
from ._spectral import Spectral

MOST = 1024  # layers whose γ are worked out one by one
_RARE = 100.0  # a largest loss above so many medians: a few contexts own the mean


@compiled_if_traced
def product_loss(s: Spectral, gamma: Any) -> Any:
    """``c + Σ a_k Π_ℓ (1 − γ_ℓ λ_k/L)² + n_k (1 − Π_ℓ (1 − γ_ℓ λ_k/L))²``; layers stand last."""
    xp, gamma, lam, share, noise, floor = unpacked(gamma, *s)
    row = (1,) * (gamma.ndim - 1)
    left = xp.prod(1.0 - gamma[..., None] * lam.reshape(*row, 1, -1) / gamma.shape[-1], axis=-2)
    share, noise = share.reshape(*row, -1), noise.reshape(*row, -1)
    return floor + xp.sum(share * left**2 + noise * (1.0 - left) ** 2, axis=-1)


def _nodes(task: Any, depth: int) -> Spectral:
    """The sum over eigenvalues, fine enough for polynomials of a degree."""
    check_task(task)
    if isinstance(task, FixedStructure) or not is_population(task):
        raise ValueError(
            "task must be Isotropic, or a RotatedStructure with endless contexts at full width, "
            "for the loss of given untied layers"
        )
    if isinstance(task, Isotropic):
        xp, alpha, noise = unpacked(task.alpha, task.noise)
        lam, share = _fine_density(xp, alpha, depth)
        parts = lam, share, noise**2 / alpha * share / lam, xp.maximum(1.0 - alpha, 0.0)
        return Spectral(*(stage(part) for part in parts))
    if task.nu is None or task.beta is None:
        spectrum = task.spectrum
        if is_known(spectrum.weight) and np.any(np.asarray(spectrum.weight) % 1.0):
            raise ValueError(
                "task must have eigenvalues with whole multiplicities, or nu, beta and dim, for "
                "untied layers, which tell directions apart"
            )
        rows = spectrum.lam, spectrum.share
    else:
        xp, nu, beta = unpacked(task.nu, task.beta)
        k, weight = christoffel.power_rule(task.dim, depth)
        share = weight * xp.exp(-(nu * beta + 1.0) * np.log(k))
        rows = xp.exp(-nu * np.log(k)), share / xp.sum(share[::-1])
    return Spectral(stage(rows[0]), stage(rows[1]), stage(np.zeros(rows[0].shape)), stage(0.0))


def _fine_density(xp: Any, alpha: Any, depth: int) -> tuple[Any, Any]:
    """Marchenko and Pastur's law as in `density`, with nodes for squares of degree 2L."""
    # In a strip of ±.7 around the real axis p² grows by e^1.52L: the error is e^(1.52L − 4.4/h).
    spacing = min(0.1, 4.4 / (1.52 * depth + 37.0))
    place = spacing * np.arange(math.floor(-42.0 / spacing), math.ceil(20.0 / spacing))
    s2, root = np.exp(2.0 * place), xp.sqrt(alpha)
    lam = ((root - 1.0) ** 2 + (root + 1.0) ** 2 * s2) / (alpha * (1.0 + s2))
    shape = 16.0 / math.pi * spacing * np.exp(3.0 * place) / (1.0 + s2) ** 3
    return lam, shape / lam


def untied_loss(task: Task, gamma: Any) -> Float[Array, "..."]:
    r"""The loss of untied layers, ``Σ_k a_k Π_ℓ (1 − γ_ℓ λ_k/L)²`` without noise (accounts).

    Args:
        task: Isotropic, or a RotatedStructure with endless contexts at full width.
        gamma: one γ for each layer, on the last axis.
    """
    rows = validation.floating("gamma", gamma)
    if rows.ndim == 0 or rows.shape[-1] == 0:
        raise ValueError(
            f"gamma must have one number for each layer, on its last axis, not shape {rows.shape}"
        )
    validation.within("gamma", rows, -1e150, 1e150)
    s = _nodes(task, rows.shape[-1])
    memory.refuse("gamma", f"{rows.size} numbers", 24.0 * rows.size * s.lam.size)
    with np.errstate(over="ignore", invalid="ignore"):
        found = stage(product_loss(s, rows))
    if is_known(found) and not np.isfinite(np.asarray(found)).all():
        raise ValueError(
            f"gamma must be smaller: the loss overflows, at {validation.spoken(gamma)}"
        )
    return found


def untied_optimum(
    task: Task, depth: Any, *, contexts: int | None = None, seed: int = 0
) -> Optimum:
    r"""The best γ of every layer: the inverse zeros of the best polynomial with p(0) = 1.

    L layers apply ``p(λ) = Π_ℓ (1 − γ_ℓ λ/L)``, and ``min_p ∫p² dμ = 1/Σ_{k≤L} q_k(0)²`` with the
    orthonormal polynomials of ``μ = Σ a_k δ(λ_k)``; ``γ_ℓ = L/z_ℓ`` with the zeros of the best p
    (derived). ISO without noise: ``𝓛 = 1/(1 + α + … + α^L)``. A RotatedStructure with endless
    contexts at full width: by bidiagonalisation, exact down to 1e-45 Σa, and 0 below. Elsewhere one
    Gram matrix gives all depths: of the noise (ISO), of the deterministic equivalent, whose error
    is O(1/N, 1/P), or of drawn contexts. One layer is exact.

    Zeros sit on the top eigenvalues, exponentially close in L: from about 13 layers on γ in double
    precision no longer reach the loss. `rounded` says what they reach. Eigenvalues of your own that
    differ by 1e-12 of themselves cost up to five digits of the loss.

    Args:
        task: Isotropic or RotatedStructure.
        depth: L, one or several.
        contexts: with finite width or context, the γ that are best in the mean over so many drawn
            contexts, where otherwise they are those of the typical one, whose mean rare contexts
            own. The loss is then the mean over ten times as many fresh ones.
        seed: of the contexts.

    Returns:
        γ, rising, on a last axis of layers, filled with no numbers to the largest depth;
        the loss they would reach exactly, and `rounded`, what they do reach. With noise, finite
        width or context, where the best polynomial has complex zeros, γ are the best real ones that
        a search finds, and `bound` the loss of the polynomial. With `contexts`, `error` and
        `typical`.

    >>> import jax; jax.config.update("jax_enable_x64", True)
    >>> best = untied_optimum(RotatedStructure(nu=1.25, beta=1.0, dim=2000), 2)
    >>> print(best.gamma.round(8), best.loss.round(10))
    [2.00489175 6.33354744] 0.054462599
    """
    check_task(task)
    if isinstance(task, FixedStructure):
        raise ValueError("law must be rrs or iso for untied layers, not fs (FixedStructure)")
    depths = depths_of(depth)
    if np.isinf(depths).any():
        raise ValueError("depth must be finite for untied layers")
    silent = is_known(task.noise) and float(task.noise) == 0.0
    if isinstance(task, Isotropic) and silent and contexts is None:
        layers = tuple(int(d) for d in depths.ravel())
        memory.refuse("depth", max(layers), 16.0 * len(layers) * max(layers))
        gamma, loss = numbers(christoffel.isotropic, task.alpha, depths=layers)
        _, gamma, loss = unpacked(gamma, loss)
        return _optimum(depths, gamma=gamma, loss=loss)
    validation.concrete("task", task, why="the best γ of every layer are worked out")
    validation.needs_double("the best untied layers")
    alike = isinstance(task, RotatedStructure) and is_population(task)
    layers = depths.astype(int).ravel().tolist()
    if not alike and max(layers) > gram.DEEPEST:
        raise ValueError(
            f"depth must be at most {gram.DEEPEST} for untied layers with noise, or with finite "
            f"width or context, not {max(layers)}"
        )
    for one in layers:
        validation.whole("depth", one, 1, MOST)
    if contexts is not None:
        return _of_means(task, depths, layers, contexts, seed)
    return (_exact if alike else _by_form)(task, depths, layers)


def _by_form(task: Any, depths: np.ndarray, layers: list[int]) -> Optimum:
    """By the Gram matrix of the noise, or of the equivalent; a single layer is exact."""
    most, noise = max(layers), float(task.noise)
    if isinstance(task, Isotropic):
        form = gram.noisy_isotropic(float(task.alpha), noise, most)
        best = form.best(*layers)
        gammas, losses = [], []
        for each, deep in zip(best, layers, strict=True):
            gamma, loss = _isotropic(task, each, deep)
            gammas.append(gamma)
            losses.append(loss)
        bounds = [gram.isotropic_bound(float(task.alpha), noise, d) for d in layers]
        # Where the zeros are real both are one number, which the bound has in closed form.
        losses = [max(x, y) for x, y in zip(losses, bounds, strict=True)]
        return _optimum(depths, gamma=_padded(gammas), loss=losses, rounded=losses, bound=bounds)
    form = gram.equivalent_form(medium_of(task), noise, most)
    found = form.best(*layers)
    rounded = [form.at(each.gamma) for each in found]
    for k in [k for k, d in enumerate(layers) if d == 1]:
        gamma, rounded[k] = (float(x) for x in single_layer(task).best())
        found[k] = gram.Layers(np.asarray([gamma]), rounded[k], rounded[k])
    return _optimum(
        depths,
        gamma=_padded([each.gamma for each in found]),
        loss=[each.loss for each in found],
        rounded=rounded,
        bound=[each.bound for each in found],
    )


def _isotropic(task: Isotropic, found: gram.Layers, depth: int) -> tuple[np.ndarray, float]:
    """The best of the layers that a form found, of those without noise and of tied ones; its loss.

    As a sum of positive terms: the form has losses to round-off of 1 only.
    """
    s = _nodes(task, depth)
    silent = np.asarray(numbers(christoffel.isotropic, task.alpha, depths=(depth,))[0])[0]
    tied = np.full(depth, float(optimum(task, depth).gamma))
    rows = [row for row in (found.gamma, silent, tied) if np.all(np.isfinite(row))]
    losses = np.asarray(product_loss(s, stage(np.stack(rows))))
    return rows[int(np.argmin(losses))], float(np.min(losses))


def _optimum(depths: np.ndarray, **fields: Any) -> Optimum:
    """With the shape of the depths."""
    rows = {name: np.asarray(x) if isinstance(x, list) else x for name, x in fields.items()}
    return Optimum(
        **{name: stage(x.reshape((*depths.shape, *x.shape[1:]))) for name, x in rows.items()}
    )


def _padded(rows: list[np.ndarray]) -> np.ndarray:
    """Rows of several lengths, filled with no numbers."""
    most = max(row.size for row in rows)
    return np.stack([np.pad(row, (0, most - row.size), constant_values=np.nan) for row in rows])


def _exact(task: Any, depths: np.ndarray, layers: list[int]) -> Optimum:
    """Every depth from one bidiagonalisation."""
    s = _nodes(task, max(layers))
    nodes = christoffel.given_nodes(np.asarray(s.lam), np.asarray(s.share))
    memory.refuse("depth", max(layers), 96.0 * max(layers) * nodes.lam.size)
    b = christoffel.bidiagonal(nodes, max(layers))
    found = [christoffel.best(b, nodes, d) for d in layers]
    return _optimum(
        depths,
        gamma=_padded([gamma for gamma, _ in found]),
        loss=[loss for _, loss in found],
        rounded=[christoffel.reached(nodes, gamma) for gamma, _ in found],
    )


def _of_means(
    task: Isotropic | RotatedStructure,
    depths: np.ndarray,
    layers: list[int],
    contexts: Any,
    seed: Any,
) -> Optimum:
    """The best in the mean over drawn contexts, judged on ten times as many others."""
    from ..contexts import spectra_parts  # which imports the theory

    if isinstance(task, RotatedStructure) and is_population(task):
        raise ValueError("contexts must be None where all contexts are alike (P = ∞, N = D)")
    count, seed = contexts_of(contexts), validation.whole("seed", seed)
    search, judge = (np.random.default_rng([seed, part]) for part in (6, 7))
    form = gram.drawn(spectra_parts(task, count, search), max(layers))
    gammas = [each.gamma for each in form.best(*layers)]
    losses = gram.drawn_losses(spectra_parts(task, 10 * count, judge), gammas)
    typical = np.median(losses, axis=1)
    if np.any(losses.max(axis=1) > _RARE * typical):
        words = "few of the fresh contexts own the mean: the layers are not safe in rare ones"
        warnings.warn(words, stacklevel=3)
    error, mean = losses.std(axis=1, ddof=1) / math.sqrt(10 * count), losses.mean(axis=1)
    return _optimum(depths, gamma=_padded(gammas), loss=mean, error=error, typical=typical)


class UntiedCurve(NamedTuple):
    """Gradient flow of untied layers.

    Attributes:
        gamma: γ of every layer, on the last axis, after those of the times.
        loss: 𝓛.
    """

    gamma: Float[Array, "... layers"]
    loss: Float[Array, "..."]


def untied_curve(task: Task, t: Any, *, start: Init) -> UntiedCurve:
    r"""Gradient flow ``dγ_ℓ/dt = −L ∂𝓛/∂γ_ℓ`` of untied layers: equal layers move like tied ones.

    The tied optimum is a saddle. From layers that differ a little the flow waits there, then leaves
    and finds the best untied layers, late: within 1 % of their loss at t ≈ 300, 6·10⁴, 3·10⁷ for
    2, 4, 8 layers at ν = 1.25, β = 1, D = 500 (derived). It is stiff; an implicit method (BDF) with
    the exact second derivatives follows it.

    Args:
        task: Isotropic, or a RotatedStructure with endless contexts at full width.
        t: times, of any shape.
        start: γ of every layer at t = 0, ``Init(gamma=[…])``.

    >>> import jax; jax.config.update("jax_enable_x64", True)
    >>> task = RotatedStructure(nu=1.25, beta=1.0, dim=100)
    >>> untied_curve(task, [0.0, 1e3], start=Init(gamma=[0.0, 1e-3])).gamma.shape
    (2, 2)
    """
    check_task(task)
    if not isinstance(start, Init) or start.gamma is None or start.gamma.ndim != 1:
        raise ValueError("start must be deep_icl.Init(gamma=…) with one γ for each layer")
    validation.concrete("task, t and start", task, t, start, why="the flow is followed")
    times = np.asarray(validation.floating("t", t))
    validation.within("t", times, 0.0, 1e100)
    begin = np.asarray(start.gamma)
    validation.whole("the number of layers", begin.size, 1, 64)
    s = _nodes(task, begin.size)
    places, back = np.unique(times.ravel(), return_inverse=True)
    gamma = _flow(s, begin, places)[back]
    loss = product_loss(s, stage(gamma))
    shape = times.shape
    return UntiedCurve(stage(gamma.reshape((*shape, begin.size))), stage(loss.reshape(shape)))


def _flow(s: Spectral, begin: np.ndarray, times: np.ndarray) -> np.ndarray:
    """γ at rising times ≥ 0, (times, layers)."""
    lam, share, noise, _ = (np.asarray(x) for x in s)
    layers, rate = begin.size, lam / begin.size
    if not np.any(times):
        return np.tile(begin, (times.size, 1))

    def slopes(gamma: np.ndarray) -> tuple[np.ndarray, ...]:
        factor = 1.0 - gamma[:, None] * rate[None, :]
        rest = gram.without(factor)
        left = factor[0] * rest[0]
        return factor, -rate * rest, share * left - noise * (1.0 - left)

    def pace(_: Any, gamma: np.ndarray) -> np.ndarray:
        turn, pull = slopes(gamma)[1:]
        return -2.0 * layers * (turn @ pull)

    def change(_: Any, gamma: np.ndarray) -> np.ndarray:
        factor, turn, pull = slopes(gamma)
        second = (turn * (share + noise)) @ turn.T
        for k in range(layers if layers > 1 else 0):
            rest = gram.without(np.delete(factor, k, axis=0)) @ (pull * rate**2)
            second[k] += np.insert(rest, k, 0.0)
        return -2.0 * layers * second

    found = solve_ivp(
        pace,
        (0.0, float(times[-1])),
        begin,
        method="BDF",
        t_eval=times,
        jac=change,
        rtol=1e-8,
        atol=1e-12 / np.max(lam),
    )
    if not found.success:
        raise ArithmeticError(f"the flow could not be followed: {found.message}")
    return found.y.T
