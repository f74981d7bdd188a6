"""The best shape for a budget, from the deterministic equivalent."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial.chebyshev import chebval
from scipy.optimize import minimize_scalar

from ...numerics.quadrature import chebyshev_fit
from ...numerics.roots import root_between
from ..run import Time
from ..spectrum import Spectrum
from ..task import RotatedStructure
from ..theory import Equivalent, Flow, Medium, loss_curve, losses
from ._cost import Cost

Loss = Callable[[float, float, float, int], float]
MOST_DEPTH = 512
_LEAST_DEPTH = 16  # of a contour
_NODES = 64  # of the series of a loss and of its slope
_PLACES = 240  # on which the end of a flow is looked for
_FLAT, _SURE = 1e-11, 1e-10  # of the slope at the start: round-off, and what is none
ENDLESS_DEPTH = 256  # stands for a depth without limit
_LONGEST = 100  # contexts up to so many times D are tried
_NEAR, _CLOSE = math.log(1.6), 0.01  # in log N and log P: a first step, and where a search ends


@dataclass(frozen=True)
class Best:
    """The best whole numbers at a budget.

    Attributes:
        places: N and P, where the cost contains them.
        depth: L.
        time: t.
        loss: 𝓛.
    """

    places: dict[str, float]
    depth: int
    time: float
    loss: float


class Model:
    """𝓛(t) of real widths and contexts: the flow of the equivalent, of one layer exact.

    Losses and their slopes, divided by their zero, are Chebyshev series in a logarithm of γ that is
    fine at both ends.

    Args:
        nu, beta, dim: the spectrum.
    """

    def __init__(self, nu: float, beta: float, dim: int):
        self.spectrum = Spectrum.power(nu, beta, dim)
        self._equivalent = lru_cache(maxsize=256)(self._made)
        self._flow = lru_cache(maxsize=2048)(self._followed)

    def __call__(self, t: float, width: float, context: float, depth: int) -> float:
        """𝓛 at scalar time t; N and P are infinite where they have no limit."""
        if depth == 1:
            task = self.task(width, context)
            return float(loss_curve(task, t, 1))
        flow, value = self._flow(width, context, depth)
        return value(flow.gamma(np.full(1, t))).item()

    def task(self, width: float, context: float) -> RotatedStructure:
        """At the next whole numbers."""
        wide, long = (None if math.isinf(x) else max(1, round(x)) for x in (width, context))
        return RotatedStructure(spectrum=self.spectrum, width=wide, context=long)

    def _made(self, width: float, context: float) -> Equivalent:
        sizes = (None if math.isinf(x) else x for x in (width, context))
        return Equivalent(Medium.of(self.spectrum, *sizes), 0.0)

    def _followed(self, width: float, context: float, depth: int) -> tuple[Flow, Callable]:
        equivalent = self._equivalent(width, context)
        # One contour serves all depths up to the next power of 2.
        deepest = 2.0 ** math.ceil(math.log2(max(depth, _LEAST_DEPTH)))
        found, top = equivalent.for_depth(deepest), float(equivalent.top)

        def both(gamma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return losses(found, gamma, np.full(gamma.shape, float(depth)), 0.0)

        places = np.geomspace(1e-3, 2.5 * depth, _PLACES) / top
        slopes = both(places)[1]
        # Where the loss is flat its slope is round-off: the flow has arrived, at no zero.
        flat = slopes >= _FLAT * slopes[0]
        k = max(1, int(np.argmax(flat)))
        crossed = bool(slopes[k] > 0.0) and bool(slopes[k - 1] < _SURE * slopes[0])
        end = float(places[k])
        if crossed:
            end = root_between(lambda g: both(np.full(1, g))[1].item(), float(places[k - 1]), end)
        # The loss changes at γ·edge ~ 1, and again as far from the end, where the top diverges.
        small = 0.5 / top
        size = math.log1p(end / small)
        nodes, to_series = chebyshev_fit(_NODES)
        grown = np.exp(size * (2.0 * nodes - 1.0))
        gamma = ((end + small) * grown - small) / (1.0 + grown)
        value, slope = both(gamma)
        fall = slope / (gamma - end) if crossed else -slope
        series = to_series @ np.log(np.stack([value, np.maximum(fall, 1e-300)], axis=1))

        def read(gamma: np.ndarray, k: int) -> np.ndarray:
            place = np.log((gamma + small) / (end + small - gamma)) / size
            return np.exp(chebval(place, series[:, k]))

        def speed(gamma: np.ndarray) -> np.ndarray:
            return read(gamma, 1) * (end - gamma if crossed else 1.0)

        flow = Flow(speed, 0.0, end, 1.0 / top)
        return flow, lambda gamma: read(gamma, 0)


class Search:
    """The search for the best shape.

    Args:
        loss: 𝓛 of (scalar t, N, P, L).
        cost: what a shape costs.
        dim: D.
        time: the unit of t.
    """

    def __init__(self, loss: Loss, cost: Cost, dim: int, time: Time):
        self.loss, self.cost, self.dim, self.unit = loss, cost, dim, time
        self.free = [name for name in ("N", "P") if name in cost.names]
        self.most = {"N": float(dim), "P": float(_LONGEST * dim)}

    def best(self, budget: float, start: dict[str, float], depth: int) -> Best:
        """The best whole numbers, from a first guess that may be some factors off.

        N and P in turn by Brent's method in their logarithms, each with the best whole L; then L up
        and down, and the whole numbers around.
        """
        places = {name: min(max(start[name], 1.0), self.most[name]) for name in self.free}
        here = self._deep(budget, places, depth)
        for _ in range(3 if len(self.free) > 1 else 1):
            for name in self.free:
                here = self._along(budget, here, name, None)
        for way in (1, -1):
            while 1 <= here.depth + way <= MOST_DEPTH and "L" in self.cost.names:
                there = self._at(budget, here.places, here.depth + way)
                for name in self.free:
                    there = self._along(budget, there, name, there.depth)
                if not there.loss < here.loss:
                    break
                here = there
        while True:
            pairs = [
                {math.floor(x), math.ceil(x), round(x) - 1, round(x) + 1}
                for x in here.places.values()
            ]
            around = [
                dict(zip(self.free, map(float, row), strict=True))
                for row in itertools.product(*pairs)
                if all(1 <= x <= self.most[n] for n, x in zip(self.free, row, strict=True))
            ]
            there = min((self._at(budget, p, here.depth) for p in around), key=lambda b: b.loss)
            whole = all(x == round(x) for x in here.places.values())
            if whole and not there.loss < here.loss:
                return here
            here = there

    def exponent(self, budget: float, best: Best) -> float:
        """``−d log 𝓛*/d log C``, from half to twice the budget (or from it, where that is all)."""
        budgets, values = [0.5 * budget, 2.0 * budget], []
        for k, amount in enumerate(budgets):
            found = self.best(amount, best.places, best.depth).loss
            if math.isinf(found):  # half the budget buys nothing
                budgets[k], found = budget, best.loss
            values.append(found)
        return math.log(values[0] / values[1]) / math.log(budgets[1] / budgets[0])

    def _at(self, budget: float, places: dict[str, float], depth: int) -> Best:
        given = {
            name: x for name, x in {**places, "L": float(depth)}.items() if name in self.cost.names
        }
        t = self.cost.time(budget, given)
        if t <= 0.0:
            return Best(places, depth, t, math.inf)
        width, context = (places.get(name, math.inf) for name in ("N", "P"))
        scalar = t if self.unit == "scalar" else t / min(width, self.dim)
        return Best(places, depth, t, self.loss(scalar, width, context, depth))

    def _deep(self, budget: float, places: dict[str, float], depth: int) -> Best:
        """The best L at some places, by ever smaller steps from a guess."""
        here = self._at(budget, places, depth)
        step = max(1, depth // 2) if "L" in self.cost.names else 0
        while step:
            near = {min(max(here.depth + way * step, 1), MOST_DEPTH) for way in (-1, 1)}
            there = min((self._at(budget, places, k) for k in near), key=lambda b: b.loss)
            if there.loss < here.loss:
                here = there
            else:
                step //= 2
        return here

    def _along(self, budget: float, here: Best, name: str, depth: int | None) -> Best:
        """The best amount of one resource, at a depth or at the best of each place."""
        seen = {}

        def height(log_x: float) -> float:
            x = min(max(math.exp(log_x), 1.0), self.most[name])
            if x not in seen:
                places = {**here.places, name: x}
                last = min(seen.values(), key=lambda b: b.loss, default=here).depth
                seen[x] = (
                    self._deep(budget, places, last)
                    if depth is None
                    else self._at(budget, places, depth)
                )
            # Beyond the ends it rises, and what costs too much is no number that can be compared.
            value = min(seen[x].loss, 1e9)
            return math.log(value) + abs(log_x - math.log(x))

        middle = math.log(here.places[name])
        minimize_scalar(height, bracket=(middle, middle + _NEAR), tol=_CLOSE / max(1.0, middle))
        return min([here, *seen.values()], key=lambda b: b.loss)
