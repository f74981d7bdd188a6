"""The best shape of a model for a budget."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ... import validation
from ._additive import AdditiveLaw, additive_law
from ._cost import NAMES, Cost
from ._exponents import TIMES, Number, Time, exponents
from ._tail import check_spectrum

Method = Literal["law", "exact"]
_OPTIMAL = 1e-8  # the largest d log 𝓛/d log x along the budget that is left at an optimum
_WORDS = {"t": "time", "N": "width", "L": "depth", "P": "context"}


@dataclass(frozen=True)
class Shape:
    """The best shape for a budget; what the cost does not contain has no limit.

    Attributes:
        time: t, in the unit of time asked for.
        width: N.
        depth: L.
        context: P.
        loss: 𝓛 there.
        exponent: of ``𝓛* ∝ budget^-exponent``: the asymptotic one for a cost that is a monomial,
            else (and from the exact loss) the local one.
        status: "ok", or what is amiss.
    """

    time: float
    width: float
    depth: float
    context: float
    loss: float
    exponent: float
    status: str = "ok"


def optimal_shape(
    budget: Number,
    *,
    nu: Number,
    beta: Number,
    cost: str | Callable[..., Any] = "t*N**2*L",
    method: Method = "law",
    time: Time = "scalar",
    dim: int = 10**6,
) -> Shape:
    """The time, width, depth and context that make the loss smallest at a given cost.

    Args:
        budget: what the shape costs.
        nu: ν, the capacity exponent.
        beta: β, the source exponent.
        cost: an expression of numbers, + - * / **, parentheses and t, N, L, P, or a function whose
            arguments have these names. What it does not contain has no limit; t must be in it.
        method: "law" minimises the sum of the four laws over real N, L, P ≥ 1 and t > 0, and knows
            of D the amplitudes only: its powers are right, its loss is two or three times too large
            at budgets in reach. "exact" minimises the deterministic equivalent at D over whole
            N, L, P.
        time: the unit of t: "scalar" for dγ/dt = −∂𝓛/∂γ, "matrix" for N times as long. Where N < D
            the exact Γ is γ (D/N) Π, Π the projector: with Π alone (as in `loss_curve`) there is no
            limit of large D, and training takes (D/N)² times as long.
        dim: D.

    >>> shape = optimal_shape(1e12, nu=1.25, beta=0.8)
    >>> round(shape.exponent, 5), shape.context
    (0.14815, inf)
    """
    amount, spending = check_shape(budget, nu, beta, cost, time, dim)
    validation.one_of("method", method, ("law", "exact"))
    if method == "exact":
        from ._exact import equivalent, exact_shape

        table, edge = equivalent(float(nu), float(beta), dim)
        return exact_shape(
            amount, spending, float(nu), float(beta), dim, time, table=table, edge=edge
        )
    return law_shape(amount, spending, additive_law(nu, beta, time=time, dim=dim))


def check_shape(
    budget: Any, nu: Number, beta: Number, cost: Any, time: str, dim: int | float
) -> tuple[float, Cost]:
    """The budget and the cost, or a `ValueError` for what cannot be planned with."""
    validation.needs_double("an optimal shape")
    validation.concrete("budget", budget, why="the best shape is searched for")
    number = validation.floating("budget", budget)
    validation.shaped("budget", number, ())
    validation.within("budget", number, 0.0, 1e200, open_low=True)
    check_spectrum(nu, beta, dim)
    validation.one_of("time", time, TIMES)
    spending = cost if isinstance(cost, Cost) else Cost(cost)
    amount, least = float(number), dict.fromkeys(spending.names, 1.0)
    if spending.time(amount, least) <= 0.0:
        least["t"] = 1e-200
        raise ValueError(
            f"budget must be above {spending(least):g}, the cost of N = L = P = 1, not {amount:g}"
        )
    return amount, spending


def asymptotic_exponent(cost: Cost, nu: float, beta: float, time: Time) -> float | None:
    """``1/Σ(power/exponent)`` of a cost that is a monomial; None for any other."""
    if cost.monomial is None:
        return None
    powers = {_WORDS[name]: power for name, power in cost.monomial.items()}
    given = {word: powers.get(word, 0.0) for word in ("width", "depth", "context")}
    return float(exponents(nu, beta, time).compute(powers["time"], **given))


def law_shape(budget: float, cost: Cost, laws: AdditiveLaw) -> Shape:
    """The sum of the four laws, minimised at a budget.

    The cost fixes t, and in the logarithms of N, L, P ≥ 1 log 𝓛 is convex where log C is (sums of
    monomials): damped Newton steps from a coarse grid's best place, on the variables that are not
    held at 1.
    """
    free = [name for name in cost.names if name != "t"]

    def places(logs: np.ndarray) -> dict[str, float]:
        rest = {name: math.exp(y) for name, y in zip(free, logs, strict=True)}
        return {"t": cost.time(budget, rest), **rest}

    def loss(logs: np.ndarray) -> float:
        at = places(logs)
        if at["t"] <= 0.0:
            return math.inf
        return math.log(sum(value for value, _ in laws.terms(at).values()))

    def slopes(logs: np.ndarray) -> tuple[np.ndarray, float]:
        """Of log 𝓛 in log N, log L, log P at the budget; and −d log 𝓛/d log C through t."""
        at = places(logs)
        terms, powers = laws.terms(at), cost.powers(at)
        total = sum(value for value, _ in terms.values())
        fall = {name: value * slope / total for name, (value, slope) in terms.items()}
        if laws.unit == "matrix" and "N" in fall:
            fall["N"] -= fall["t"]
        rate = fall["t"] / powers["t"]
        return np.array([rate * powers[name] - fall[name] for name in free]), rate

    logs, status = _start(loss, len(free), budget), "ok"
    for _ in range(200):
        slope, _ = slopes(logs)
        loose = (logs > 0.0) | (slope < 0.0)
        if not np.any(np.abs(slope[loose]) > 1e-3 * _OPTIMAL):
            break
        step = np.zeros_like(logs)
        step[loose] = _newton(lambda y: slopes(y)[0], logs, slope, loose)
        moved = _backtracked(loss, logs, step, slope)
        if moved is None:
            break
        logs = moved
    slope, rate = slopes(logs)
    loose = (logs > 0.0) | (slope < 0.0)
    if np.any(np.abs(slope[loose]) > _OPTIMAL):
        status = f"stopped at a slope of {float(np.max(np.abs(slope[loose]))):.1e}"
    elif loss(logs) > 0.0:
        status = "beyond the laws: their sum is above 1, the loss before training"
    best = places(logs)
    given = {_WORDS[name]: best.get(name, math.inf) for name in NAMES}
    closed = asymptotic_exponent(cost, laws.time.nu, laws.time.beta, laws.unit)
    exponent = rate if closed is None else closed
    return Shape(loss=math.exp(loss(logs)), exponent=exponent, status=status, **given)


def _start(loss: Callable[[np.ndarray], float], count: int, budget: float) -> np.ndarray:
    """The best place of a coarse grid of logarithms."""
    if count == 0:
        return np.zeros(0)
    high = max(math.log(budget), 1.0)
    axis = np.linspace(0.0, high, 7)
    grid = np.stack(np.meshgrid(*[axis] * count, indexing="ij"), -1).reshape(-1, count)
    return grid[int(np.argmin([loss(y) for y in grid]))]


def _newton(
    slopes: Callable[[np.ndarray], np.ndarray],
    logs: np.ndarray,
    slope: np.ndarray,
    loose: np.ndarray,
) -> np.ndarray:
    """Newton's step on the loose variables, downhill where the loss is not convex."""
    h, columns = 1e-4, []
    for k in np.flatnonzero(loose):
        shift = h * (np.arange(len(logs)) == k)
        columns.append((slopes(logs + shift) - slopes(logs - shift))[loose] / (2.0 * h))
    bend = np.stack(columns)
    values, vectors = np.linalg.eigh(0.5 * (bend + bend.T))
    values = np.maximum(np.abs(values), 1e-6)
    return -vectors @ ((vectors.T @ slope[loose]) / values)


def _backtracked(
    loss: Callable[[np.ndarray], float], logs: np.ndarray, step: np.ndarray, slope: np.ndarray
) -> np.ndarray | None:
    """A part of a step that lowers the loss, logarithms kept from 0 on; None where none does."""
    now, share = loss(logs), min(1.0, 5.0 / max(float(np.max(np.abs(step))), 1e-300))
    while share > 1e-6:
        there = np.maximum(logs + share * step, 0.0)
        # Near the optimum the loss is flat to round-off: the full step is taken.
        if loss(there) <= now + 1e-4 * float(slope @ (there - logs)) + 4e-15:
            return there
        share *= 0.5
    return None
