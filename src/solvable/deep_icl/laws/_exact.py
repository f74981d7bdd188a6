"""The best shape for a budget, from the deterministic equivalent."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from ...compiling import stage
from ._additive import additive_law
from ._cost import Cost
from ._curves import DepthCurves, step_sizes
from ._exponents import Time
from ._shape import Shape, check_shape, law_shape
from ._tail import spectrum

Table = Callable[[float, float, np.ndarray, int], np.ndarray]
Edge = Callable[[float, float], float]
MOST_DEPTH = 512
_ENDLESS_DEPTH = 256  # stands for a depth without limit
_LONGEST = 100  # contexts up to so many times D are tried
_CLOSE = 1.02  # N and P are found to this factor: the loss is flat there, to 1e-4


def exact_shape(
    budget: float,
    cost: Any,
    nu: float,
    beta: float,
    dim: int,
    time: Time = "scalar",
    *,
    table: Table,
    edge: Edge,
    max_depth: int = 64,
) -> Shape:
    """The whole N, L and P, and the t, that make the loss smallest at a given cost.

    At each (N, P) the losses of all depths along the flow come from one table over step sizes; the
    search over (N, P) starts at the best shape of the sum of laws and goes by ever smaller factors.

    Args:
        budget: what the shape costs.
        cost: as in `optimal_shape`.
        nu, beta, dim: the spectrum.
        time: the unit of t.
        table: (N, P, step sizes η, largest depth) to the losses C_ℓ(η) of ℓ = 1 … largest depth,
            a row an η; N is D and P infinity where the cost does not contain them.
        edge: (N, P) to the upper edge of the spectrum: step sizes go up to 2/edge.
        max_depth: the largest depth tried at first; doubled, up to 512, while the best is near it.

    Returns:
        The shape; its exponent is the local one, between the best shapes of half and of twice the
        budget.
    """
    amount, spending = check_shape(budget, nu, beta, cost, time, dim)
    laws = additive_law(nu, beta, time=time, dim=dim)
    start = law_shape(amount, spending, laws)
    if "L" not in spending.names:
        max_depth = max(max_depth, _ENDLESS_DEPTH)
    while True:
        search = _Search(amount, spending, dim, time, table, edge, max_depth)
        found = search.run(start)
        deepest = max_depth >= MOST_DEPTH or math.isinf(found.depth)
        if deepest or found.depth <= 0.75 * max_depth:
            return replace(found, exponent=search.exponent(found))
        max_depth, start = min(2 * max_depth, MOST_DEPTH), found


class _Search:
    """The search at one largest depth."""

    def __init__(
        self,
        budget: float,
        cost: Cost,
        dim: int,
        time: Time,
        table: Table,
        edge: Edge,
        max_depth: int,
    ):
        self.budget, self.cost, self.dim, self.time = budget, cost, dim, time
        self.table, self.edge, self.max_depth = table, edge, max_depth
        self.curves = cache(self._curves)
        self.best_depth = cache(self._best_depth)

    def exponent(self, found: Shape) -> float:
        """``−d log 𝓛*/d log C``, from half to twice the budget (or from it, where that is all)."""
        first, losses = self.budget, []
        factors = [0.5, 2.0]
        for k, factor in enumerate(factors):
            self.budget = factor * first
            self.best_depth = cache(self._best_depth)
            loss = self.run(found, 1.5, 1.1).loss
            if math.isinf(loss):  # half the budget buys nothing
                factors[k], loss = 1.0, found.loss
            losses.append(loss)
        self.budget = first
        return math.log(losses[0] / losses[1]) / math.log(factors[1] / factors[0])

    def _curves(self, width: int, context: float) -> DepthCurves:
        edge = self.edge(float(width), context)
        c = step_sizes(self.max_depth)
        losses = self.table(float(width), context, c[1:] / edge, self.max_depth)
        # At step size 0 nothing is learned, and Σ a = 1.
        return DepthCurves(np.concatenate([np.ones((1, self.max_depth)), losses]), edge)

    def _t(self, width: int, context: float, depth: int) -> float:
        places = {"N": float(width), "L": float(depth), "P": context}
        return self.cost.time(
            self.budget, {name: x for name, x in places.items() if name in self.cost.names}
        )

    def loss(self, width: int, context: float, depth: int, t: float) -> float:
        """𝓛 at time t, in the unit asked for."""
        scalar = t if self.time == "scalar" else t / width
        return self.curves(width, context).loss(scalar, depth)

    def _best_depth(self, width: int, context: float) -> tuple[float, int, float]:
        """The least loss at a width and a context, with its depth and time."""

        def at(depth: int) -> float:
            t = self._t(width, context, depth)
            return self.loss(width, context, depth, t) if t > 0.0 else math.inf

        if "L" in self.cost.names:
            depth = _best_whole(at, 1, self.max_depth)
        else:
            depth = self.max_depth
        return at(depth), depth, self._t(width, context, depth)

    def run(self, start: Shape, factor: float = 4.0, close: float = _CLOSE) -> Shape:
        """The best shape, from a first guess that may be some factors off, to a factor `close`."""
        bounded = [name for name in ("N", "P") if name in self.cost.names]
        most = {"N": self.dim, "P": _LONGEST * self.dim}
        guess = {"N": start.width, "P": start.context}
        place = {name: round(min(max(guess[name], 1.0), most[name])) for name in bounded}
        value = self._at(place)[0]
        while True:
            moves = self._moves(place, factor, most)
            losses = [self._at(move)[0] for move in moves]
            k = int(np.argmin(losses)) if losses else 0
            if losses and losses[k] < value:
                place, value = moves[k], losses[k]
            elif (
                factor <= close
                or not losses
                or all(abs(move[name] - place[name]) <= 1 for move in moves for name in place)
            ):
                return self._shape(place)
            else:
                factor = factor**0.5

    def _moves(
        self, place: dict[str, int], factor: float, most: dict[str, int]
    ) -> list[dict[str, int]]:
        """The neighbours of a place, a factor (and 1 at least) away in one or both numbers."""
        options = []
        for name, x in place.items():
            up, down = max(x + 1, round(x * factor)), min(x - 1, round(x / factor))
            options.append([x, min(up, most[name]), max(down, 1)])
        moves = [dict(zip(place, row, strict=True)) for row in itertools.product(*options)]
        return [move for k, move in enumerate(moves) if move != place and move not in moves[:k]]

    def _at(self, place: dict[str, int]) -> tuple[float, int, float]:
        return self.best_depth(place.get("N", self.dim), float(place.get("P", math.inf)))

    def _shape(self, place: dict[str, int]) -> Shape:
        value, depth, t = self._at(place)
        status = "ok"
        if depth == self.max_depth and "L" in self.cost.names:
            status = f"depth is at the largest that is tried, {depth}"
        elif "L" not in self.cost.names:
            status = f"depth {depth} stands for a depth without limit"
        return Shape(
            time=t,
            width=float(place.get("N", math.inf)),
            depth=float(depth) if "L" in self.cost.names else math.inf,
            context=float(place.get("P", math.inf)),
            loss=value,
            exponent=math.nan,
            status=status,
        )


def _best_whole(function: Callable[[int], float], low: int, high: int) -> int:
    """The whole number that makes a function smallest: geometric candidates, then closer ones."""
    known: dict[int, float] = {}

    def at(x: int) -> float:
        if x not in known:
            known[x] = function(x)
        return known[x]

    tried = sorted({round(x) for x in np.geomspace(low, high, 13)})
    while True:
        k = min(range(len(tried)), key=lambda i: at(tried[i]))
        low, high = tried[max(k - 1, 0)], tried[min(k + 1, len(tried) - 1)]
        if high - low <= 8:
            return min(range(low, high + 1), key=at)
        tried = sorted({round(x) for x in np.linspace(low, high, 9)} | {tried[k]})


def equivalent(nu: float, beta: float, dim: int) -> tuple[Table, Edge]:
    """The table and the edge of the deterministic equivalent, its tail of directions binned.

    A projector of rank N is taken D/N times as large, Γ_eff = γ (D/N) Π: only so is there a limit
    of large D. With Π itself training would take (D/N)² times as long, for no other loss.
    """

    from ..theory import Medium, points_for, totals, upper_edge

    tail = spectrum(nu, beta, dim)
    lam, share, weight = (stage(x) for x in (tail.lam, tail.share, tail.weight))
    silent = stage(0.0)

    def medium(width: float, context: float) -> tuple[Medium, bool]:
        numbers = stage(width), stage(1.0 / context)
        return Medium(lam, share, weight, *numbers), width < dim

    def table(width: float, context: float, etas: np.ndarray, max_depth: int) -> np.ndarray:
        m, narrow = medium(width, context)
        depths = stage(np.arange(1.0, max_depth + 1.0))
        points = points_for(float(max_depth))
        options = {"points": points, "narrow": narrow, "noisy": False}
        sizes = stage(etas * dim / width)
        return np.asarray(totals(m, silent, sizes, depths, **options)[0])

    def edge(width: float, context: float) -> float:
        return float(upper_edge(*medium(width, context))) * dim / width

    return table, edge
