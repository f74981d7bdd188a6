"""The best shape of a model for a budget."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Array, Float

from ... import validation
from ...scaling import Known, plan
from ..run import TIMES, Time
from ..task import RotatedStructure
from ..theory import is_population, loss_curve
from ._additive import AdditiveLaw, additive_law
from ._cost import NAMES, Cost
from ._exact import ENDLESS_DEPTH, MOST_DEPTH, Model, Search
from ._exponents import Number, check_spectrum, exponents

Method = Literal["law", "exact"]
METHODS = ("law", "exact")
_WORDS = {"t": "time", "N": "width", "L": "depth", "P": "context"}
_QUICK = 64  # layers up to which the exact shape takes seconds


@dataclass(frozen=True)
class Shape:
    """The best shape for a budget; what the cost does not contain has no limit.

    Attributes:
        time: t, in the unit of time asked for.
        width: N.
        depth: L.
        context: P.
        loss: 𝓛 there: of the method "exact" the model's, that of `loss_curve`; of the method "law"
            a law's number, the sum of the four laws, for which `curve` gives the model's.
        exponent: of ``𝓛* ∝ budget^-exponent``: the local one; of the method "law" and a cost that
            is a monomial the asymptotic one.
        status: "ok", or what is amiss.
        method: "exact" or "law".
        budget, cost: what it costs, and how that is counted.
        nu, beta, dim: the spectrum.
        unit: the unit of time, "scalar" or "matrix".
    """

    time: float
    width: float
    depth: float
    context: float
    loss: float
    exponent: float
    status: str
    method: Method
    budget: float
    cost: str
    nu: float
    beta: float
    dim: int | float
    unit: Time

    def __repr__(self) -> str:
        told = {n: f"{getattr(self, n):.6g}" for n in ("time", "width", "depth", "context")}
        kind = "the model's loss" if self.method == "exact" else "a law's number"
        told |= {"loss": f"{self.loss:.6g} ({kind})", "exponent": f"{self.exponent:.5g}"}
        told["status"] = repr(self.status)
        return f"Shape({', '.join(f'{name}={word}' for name, word in told.items())})"

    def task(self) -> RotatedStructure:
        """The context law at this shape; N and P of the method "law" go down to whole numbers."""
        if math.isinf(self.dim):
            raise ValueError("dim must be finite for a task, not inf")
        sizes = (None if math.isinf(x) else math.floor(x) for x in (self.width, self.context))
        width, context = sizes
        width = None if width is None else min(width, int(self.dim))
        return RotatedStructure(self.nu, self.beta, int(self.dim), width=width, context=context)

    def curve(self, t: Any = None) -> Float[Array, "..."]:
        """The model's loss at this shape, at `time` or at other times of the same unit.

        ``loss_curve(task(), t, depth, time=unit)``, the depth of the method "law" a whole number,
        too. Of a depth without limit 256 layers stand for it where width or context have one.

        Args:
            t: times of any shape; `time` unless given.
        """
        task, depth = self.task(), float(math.floor(min(self.depth, MOST_DEPTH)))
        if math.isinf(self.depth):
            depth = math.inf if is_population(task) else float(ENDLESS_DEPTH)
        return loss_curve(task, self.time if t is None else t, depth, time=self.unit)


def optimal_shape(
    budget: Number,
    *,
    nu: Number,
    beta: Number,
    cost: str | Callable[..., Any] = "t*N**2*L",
    method: Method | None = None,
    time: Time = "scalar",
    dim: int | float = 10**6,
) -> Shape:
    """The time, width, depth and context that make the loss smallest at a given cost.

    ``min 𝓛(t, N, L, P)`` with ``cost(t, N, L, P) = budget`` (accounts; exact: derived).

    Args:
        budget: what the shape costs.
        nu: ν, the capacity exponent.
        beta: β, the source exponent.
        cost: an expression of numbers, + - * / **, parentheses and t, N, L, P, or a function whose
            arguments have these names. What it does not contain has no limit; t must be in it.
        method: "exact" minimises the flow of the deterministic equivalent at D over whole N, L, P
            (one layer is exact). "law" minimises the sum of the four laws over
            real N, L, P ≥ 1 and t > 0, and knows of D the amplitudes only: its powers are right,
            its loss is about twice too large at budgets in reach. Unless given, "exact"
            where that takes seconds, for up to about 64 layers; `Shape.method` says which.
        time: the unit of t: "scalar" for dγ/dt = −∂𝓛/∂γ, "matrix" for N times as long. It is that
            of `loss_curve` and of `additive_law`.
        dim: D.

    >>> shape = optimal_shape(1e12, nu=1.25, beta=0.8, method="law")
    >>> round(shape.exponent, 5), shape.context
    (0.14815, inf)
    """
    amount, spending = _checked(budget, nu, beta, cost, time, dim)
    if method is not None:
        validation.one_of("method", method, METHODS)
    laws = additive_law(nu, beta, time=time, dim=dim)
    guess = _law_shape(amount, spending, laws, dim)
    quick = guess.depth <= _QUICK or "L" not in spending.names
    if method == "law" or (method is None and (math.isinf(dim) or not quick)):
        return guess
    if math.isinf(dim):
        raise ValueError("dim must be finite for the method 'exact', not inf")
    return exact_shape(guess, spending)


def exact_shape(guess: Shape, cost: Cost, loss: Any = None) -> Shape:
    """The exact shape near that of the laws.

    Args:
        guess: the sum of laws' best shape.
        cost: what it costs.
        loss: 𝓛 of (scalar t, N, P, L); that of the spectrum unless given.
    """
    dim = int(guess.dim)
    model = Model(guess.nu, guess.beta, dim) if loss is None else loss
    search = Search(model, cost, dim, guess.unit)
    deep, status = "L" in cost.names, "ok"
    depth = min(max(1, round(guess.depth)), MOST_DEPTH) if deep else ENDLESS_DEPTH
    best = search.best(guess.budget, {"N": guess.width, "P": guess.context}, depth)
    if deep and best.depth == MOST_DEPTH:
        status = f"depth is at the largest that is tried, {MOST_DEPTH}"
    elif not deep:
        status = f"depth {ENDLESS_DEPTH} stands for a depth without limit"
    width, context = (best.places.get(name, math.inf) for name in ("N", "P"))
    shape = Shape(
        time=best.time,
        width=width,
        depth=float(best.depth) if deep else math.inf,
        context=context,
        loss=best.loss,
        exponent=search.exponent(guess.budget, best),
        status=status,
        method="exact",
        **{name: getattr(guess, name) for name in ("budget", "cost", "nu", "beta", "dim", "unit")},
    )
    return shape if loss is not None else replace(shape, loss=float(shape.curve()))


def _checked(
    budget: Any, nu: Number, beta: Number, cost: Any, time: str, dim: int | float
) -> tuple[float, Cost]:
    """The budget and the cost, or a `ValueError` for what cannot be planned with."""
    validation.needs_double("an optimal shape")
    validation.concrete("budget", budget, why="the best shape is searched for")
    number = validation.floating("budget", budget)
    validation.shaped("budget", number, ())
    validation.within("budget", number, 1e-50, 1e100)
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


class _Sum:
    """The sum of laws, over the resources of a cost, as `scaling` plans with it."""

    name = "sum of laws"
    parameters = linear = exponents = logarithmic = ()

    def __init__(self, laws: AdditiveLaw, resources: tuple[str, ...]):
        self.laws, self.resources, self.bounds = laws, resources, {}

    def curve(self, values: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The sum at points (points, resources)."""
        given = {"t": "t", "N": "width", "L": "depth", "P": "context"}
        columns = zip(self.resources, x.T, strict=True)
        return self.laws(**{given[name]: column for name, column in columns})

    def slopes(self, values: np.ndarray, x: np.ndarray) -> np.ndarray:
        """There are no parameters."""
        return np.zeros((len(x), 0))

    def starts(self, x: np.ndarray) -> np.ndarray:
        """There are no parameters."""
        return np.zeros((1, 0))

    def rescaled(self, values: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """There are no parameters."""
        return values


def _law_shape(budget: float, cost: Cost, laws: AdditiveLaw, dim: int | float) -> Shape:
    """The sum of the four laws, minimised at a budget over N, L, P ≥ 1 (`scaling.plan`)."""
    least = {name: 1.0 for name in cost.names if name != "t"}
    known = Known(_Sum(laws, cost.names), np.zeros(0))
    best = plan(known, budget, cost, least=least, mistakes=False)
    status, loss = best.status[0], float(best.loss.value[0])
    if status == "ok" and loss > 1.0:
        status = "beyond the laws: their sum is above 1, the loss before training"
    closed = _asymptotic(cost, laws.time.nu, laws.time.beta, laws.unit)
    places = {_WORDS[name]: float(best.allocation[name].value[0]) for name in cost.names}
    return Shape(
        **{_WORDS[name]: places.get(_WORDS[name], math.inf) for name in NAMES},
        loss=loss,
        exponent=float(best.exponent.value[0]) if closed is None else closed,
        status=status,
        method="law",
        budget=budget,
        cost=cost.text,
        nu=laws.time.nu,
        beta=laws.time.beta,
        dim=dim,
        unit=laws.unit,
    )


def _asymptotic(cost: Cost, nu: float, beta: float, time: Time) -> float | None:
    """``1/Σ(power/exponent)`` of a cost that is a monomial; None for any other."""
    if cost.monomial is None:
        return None
    powers = {_WORDS[name]: power for name, power in cost.monomial.items()}
    given = {word: powers.get(word, 0.0) for word in ("width", "depth", "context")}
    return float(exponents(nu, beta, time).compute(powers["time"], **given))
