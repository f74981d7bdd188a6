"""What the oracle, the best linear predictor, the zero predictor and Bayes lose."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.special import erfcx

from ... import memory, validation
from ...compiling import jit, stage
from ...numerics.roots import root_between
from ..task import EVEN, LIMITS, MAX_LAM, Law, Task, check_task, law_of
from ._arguments import inverse_temperature
from ._miss import miss_of
from ._pointwise import pointwise
from ._zeta import zeta_of

_GRID = 1000  # values of λ between which the slope is looked for changes of sign
_SCORES = 2**20  # of tokens held at once


def oracle_excess(task: Task, lam: Any) -> Float[Array, "*batch"]:
    r"""The excess risk of the oracle ``(k, v) = ±(k*, v*)``.

    ``γ² E(1 − erf(λD + λγG))² + (L−1) ζ(0, λ)``: what the attention to the informative token
    misses, and what the other tokens add; both positive, no digits are lost.

    Args:
        task: the data law.
        lam: λ, the inverse temperature, in (0, 1000]; one or many.

    Reference: Theorem 1, Corollary 2.

    >>> round(oracle_excess(Task(dim=400, length=10), 0.1).item(), 12)
    0.113498082965
    """
    check_task(task)
    return _oracle_excess(law_of(task), inverse_temperature(lam))


@pointwise
def _oracle_excess(task: Law, lam: Array) -> Array:
    missed = miss_of(lam * task.signal, lam * task.gamma)
    return task.gamma**2 * missed + (task.length - 1.0) * zeta_of(jnp.zeros_like(lam), lam)


def oracle_risk(task: Task, lam: Any) -> Float[Array, "*batch"]:
    """The risk of the oracle: its excess risk and ε²."""
    return _with_noise(oracle_excess(task, lam), task.noise)


def _with_noise(excess: Array, noise: Array) -> Array:
    """The risk, on the host unless JAX is tracing."""
    if validation.is_concrete(excess) and validation.is_concrete(noise):
        return stage(np.asarray(excess) + np.asarray(noise) ** 2)
    return excess + noise**2


@dataclass(frozen=True)
class Optimum:
    """The best inverse temperature of the oracle.

    Attributes:
        lam: λ, at most 1000.
        excess: the excess risk there.
    """

    lam: float
    excess: float


def _slope(task: Task, lam: Any) -> Any:
    """dR/dλ of the oracle, or for one token a positive multiple of it that does not underflow."""
    g, d, others = float(task.gamma), task.signal, task.length - 1
    s2 = (lam * g) ** 2
    u, w = np.sqrt(1.0 + 2.0 * s2), np.sqrt(1.0 + 4.0 * s2)
    tau = lam * d / u
    x = tau / w
    missed = lam * g**2 * (2.0 / math.sqrt(math.pi)) / (u * w) - d / u**2 * erfcx(x)
    if others == 0:
        return missed
    missed = missed * g**2 * (4.0 / math.sqrt(math.pi)) / u * np.exp(-(tau**2) - x**2)
    l2 = lam**2
    return missed + others * lam * (8.0 / math.pi) / ((1.0 + 2.0 * l2) * np.sqrt(1.0 + 4.0 * l2))


def best_lam(task: Task) -> Optimum:
    r"""The λ at which the oracle's excess risk is smallest, and that risk.

    A large λ makes the attention to the informative token sharp, a small one keeps the other
    tokens out. Where dR/dλ changes sign is found to round-off.

    Args:
        task: the data law.

    Reference: Corollary 2.

    >>> best = best_lam(Task(dim=400, length=10))
    >>> round(best.lam, 4), round(best.excess, 4)
    (0.0638, 0.0671)
    """
    check_task(task)
    validation.concrete("task", task, why="the best λ is searched for")
    g, d, others = float(task.gamma), task.signal, max(task.length - 1, 1)
    # Far below this λ the slope is that of −(4/√π) γ²Dλ: negative.
    low = 1e-2 * min(g**2 * d / others, 1.0 / d, d / g**2, 1.0)
    grid = np.geomspace(low, MAX_LAM, _GRID)
    rising = _slope(task, grid) > 0.0
    places = np.flatnonzero(~rising[:-1] & rising[1:])
    found = [_root(task, grid[i], grid[i + 1]) for i in places]
    if not rising[-1]:
        found.append(MAX_LAM)
    losses = np.asarray(oracle_excess(task, np.asarray(found)))
    least = int(np.argmin(losses))
    return Optimum(found[least], float(losses[least]))


def _root(task: Task, low: float, high: float) -> float:
    def slope(z: float) -> float:
        return float(_slope(task, math.exp(z)))

    return math.exp(root_between(slope, math.log(low), math.log(high)))


@dataclass(frozen=True)
class OptimalPath:
    """The oracle at its best λ while d and L grow together.

    Attributes:
        dim: d.
        length: L.
        lam: the best λ.
        excess: the excess risk there.
    """

    dim: Int[np.ndarray, " points"]
    length: Int[np.ndarray, " points"]
    lam: Float[np.ndarray, " points"]
    excess: Float[np.ndarray, " points"]


def optimal_path(dims: Sequence[int], exponent: Any, *, gamma: Any = EVEN) -> OptimalPath:
    r"""The oracle's excess risk at its best λ along ``L = d^exponent``.

    It falls to 0, that is to the Bayes risk, if and only if L = o(d): then λ can be small enough
    for ``λ²L → 0`` and large enough for ``λ√d → ∞``. To leading order the best λ is
    ``√(log(d/L)/d)``, and the excess ``(4/π) (L/d) log(d/L)``.

    Args:
        dims: values of d.
        exponent: of L, in [0, 2]; L is rounded, and at least 2.
        gamma: γ.

    Reference: Corollary 2.

    >>> optimal_path([400, 4000, 40000], 0.5).excess.round(4).tolist()
    [0.1098, 0.0516, 0.0221]
    """
    power = validation.floating("exponent", exponent)
    validation.concrete("exponent and gamma", power, gamma, why="the best λ is searched for")
    validation.shaped("exponent", power, ())
    validation.within("exponent", power, 0.0, 2.0)
    try:
        sizes = [LIMITS["dim"].checked("dims", d) for d in dims]
    except TypeError:
        raise ValueError(f"dims must be a list of whole numbers, not {dims!r}") from None
    lengths = [max(2, round(d ** float(power))) for d in sizes]
    tasks = [Task(d, length, gamma) for d, length in zip(sizes, lengths, strict=True)]
    best = [best_lam(task) for task in tasks]
    return OptimalPath(
        np.asarray(sizes, int),
        np.asarray(lengths, int),
        np.asarray([x.lam for x in best], float),
        np.asarray([x.excess for x in best], float),
    )


def linear_excess(task: Task) -> Float[Array, ""]:
    r"""The excess risk of the best linear predictor of all token entries.

    ``γ² Σ_ℓ p_ℓ(1 − p_ℓ) / (p_ℓγ² + 1 − p_ℓ)``, with weights
    ``β_ℓ = p_ℓγ²/(p_ℓγ² + 1 − p_ℓ) v*``, p the law of the location. For a uniform one it is
    ``γ²(L−1)/(L−1+γ²)``: hardly better than the zero predictor, at any dimension.

    Args:
        task: the data law.

    Reference: Proposition 3.

    >>> round(linear_excess(Task(dim=400, length=10)).item(), 4)
    0.4737
    """
    check_task(task)
    return _linear_excess(law_of(task), task.chances)


@jit
def _linear_excess(task: Law, p: Array | None) -> Array:
    g2 = task.gamma**2
    if p is None:
        return g2 * (task.length - 1.0) / (task.length - 1.0 + g2)
    return g2 * jnp.sum(p * (1.0 - p) / (p * g2 + (1.0 - p)))


def linear_risk(task: Task) -> Float[Array, ""]:
    """The risk of the best linear predictor: its excess risk and ε²."""
    return _with_noise(linear_excess(task), task.noise)


def zero_excess(task: Task) -> Float[Array, ""]:
    """The excess risk of predicting 0 always: γ²."""
    check_task(task)
    return _with_noise(stage(np.float64(0.0)), task.gamma)


def zero_risk(task: Task) -> Float[Array, ""]:
    """The risk of predicting 0 always: γ² + ε²."""
    return _with_noise(zero_excess(task), task.noise)


@dataclass(frozen=True)
class BayesRisk:
    """The Bayes risk, estimated.

    Attributes:
        excess: the risk less ε².
        error: the standard error of that estimate.
        risk: the excess and ε².
        draws: how many it is the mean of.
    """

    excess: float
    error: float
    risk: float
    draws: int


def bayes_risk(task: Task, *, draws: int = 2**17, seed: int = 0) -> BayesRisk:
    r"""The risk of ``E[Y | X]``, the best of all predictors, by importance sampling.

    With π the posterior of the location the excess is ``E Σ_{i<j} π_iπ_j (X_i·v* − X_j·v*)²``.
    Where d is large tokens i, j between which X does not decide are rare; they are drawn as if
    from ``√(P_i P_j)``, P_ℓ the law of X given the location ℓ. The weights are then at most ½
    times ``∫√(P_iP_j) = (2γ/(1+γ²))^d exp(−d/(4(1+γ²)))``, so that the relative error stays
    small however rare the event; it grows like d^¼.

    Args:
        task: the data law, with any law of the location.
        draws: how many token matrices; the cost is this times L.
        seed: of them.

    Returns:
        A `BayesRisk`, with its standard error.

    Reference: derived for this package.

    >>> estimate = bayes_risk(Task(dim=16, length=10))
    >>> round(estimate.excess, 3), estimate.error < 2e-4
    (0.029, True)
    """
    check_task(task)
    validation.concrete("task", task, why="tokens are drawn")
    draws = validation.whole("draws", draws, 2)
    memory.refuse("draws", draws, 32.0 * draws)
    memory.refuse("length", task.length, 120.0 * task.length)
    generator = np.random.default_rng([validation.whole("seed", seed), 3])
    noise, chances = float(task.noise) ** 2, np.asarray(task.locations, float)
    chances = chances[chances > 0.0]
    length = len(chances)
    if length < 2:
        return BayesRisk(0.0, 0.0, noise, draws)
    roots = np.sqrt(chances)
    pairs = 0.5 * float(np.sum(roots) ** 2 - np.sum(chances))
    gamma, d = float(task.gamma), task.dim
    overlap = d * (math.log1p(-((1.0 - gamma) ** 2) / (1.0 + gamma**2)) - 0.25 / (1.0 + gamma**2))
    piece = max(1, min(draws, _SCORES // length))
    counts = [min(piece, draws - first) for first in range(0, draws, piece)]
    values = np.concatenate([_undecided(task, chances, roots, generator, n) for n in counts])
    scale = pairs * math.exp(overlap)
    excess = scale * float(np.mean(values))
    error = scale * float(np.std(values, ddof=1)) / math.sqrt(draws)
    return BayesRisk(excess, error, excess + noise, draws)


def _undecided(
    task: Task, chances: np.ndarray, roots: np.ndarray, generator: np.random.Generator, count: int
) -> np.ndarray:
    """``√(p_iP_i p_jP_j)/Σ_ℓ p_ℓP_ℓ (X_i·v* − X_j·v*)²``, of pairs and tokens drawn for it."""
    length, d, g2 = len(chances), task.dim, float(task.gamma) ** 2
    first, second = _pair(roots, generator, count)
    rows, columns = np.arange(count), np.arange(length)[None, :]
    special = (columns == first[:, None]) | (columns == second[:, None])
    spread = np.where(special, math.sqrt(2.0 * g2 / (1.0 + g2)), 1.0)
    along_k = spread * generator.standard_normal((count, length))
    along_k += np.where(special, task.signal / (1.0 + g2), 0.0)
    along_v = spread * generator.standard_normal((count, length))
    square = along_k**2 + along_v**2 + spread**2 * generator.chisquare(d - 2, (count, length))
    score = 0.5 * (1.0 - 1.0 / g2) * square + task.signal / g2 * along_k + np.log(chances)[None, :]
    middle = 0.5 * (score[rows, first] + score[rows, second])
    highest = score.max(axis=1)
    total = highest + np.log(np.sum(np.exp(score - highest[:, None]), axis=1))
    return np.exp(middle - total) * (along_v[rows, first] - along_v[rows, second]) ** 2


def _pair(
    roots: np.ndarray, generator: np.random.Generator, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Two different places each, with probability ∝ √(p_i p_j)."""
    last, total = len(roots) - 1, np.cumsum(roots)
    chance = roots * (total[-1] - roots)
    first = generator.choice(len(roots), count, p=chance / chance.sum())
    at = generator.uniform(size=count) * (total[-1] - roots[first])
    at = np.where(at >= total[first] - roots[first], at + roots[first], at)
    second = np.minimum(np.searchsorted(total, at, side="right"), last)
    # Round-off may end on the first place itself: then its neighbour, of the same edge.
    return first, np.where(second == first, np.where(first < last, first + 1, first - 1), second)
