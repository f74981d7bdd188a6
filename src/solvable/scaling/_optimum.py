"""The best allocation of a budget, in logarithms of the resources."""

import itertools
import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from ..numerics.roots import root_between
from .cost import Cost
from .law import Formula, Law

CLOSE = 1e-9  # the largest d log(f − E)/d log x along the budget that is left at an optimum
_FINE, _WIDE = 1e-3, 1e-2  # steps of first and of second differences, of the fourth order
_FAR = 690.0  # of log x: beyond it there are no doubles
_WINDOWS = (60.0, 150.0, 375.0, 2.0 * _FAR)  # half-widths in which an optimum is looked for
_GRID = {1: 41, 2: 15, 3: 7}  # points an axis by the number of axes, and 5 beyond
_FEW, _MANY = 64, 256
_FLAT = 1e-10
_ENDLESS = 460.0  # log x from which on an optimum has run away
_ONCE = np.array([1.0, -8.0, 8.0, -1.0]) / 12.0  # weights of first differences
_CORNERS = 1e-4  # by which slopes over two widths differ where a law has corners
_MOVES = 100  # of a grid whose best place is on its edge
_ALMOST = 1e-4
_LAST = 1e-9  # the width of the last grid around the optimum of such a law


@dataclass(frozen=True)
class Optimum:
    """The best allocation of one budget.

    Attributes:
        logs: log x of all resources.
        log_loss: log(f − E).
        exponent: ``−d log(f − E)/d log C``, the multiplier of the budget; of a law with corners
            (between whole numbers of something) from half to twice the budget, and so is
        growth: ``d log x/d log C``.
        status: "ok", or what is amiss.
        smooth: whether the law has no corners there.
        held: the resources of which the least is the best.
    """

    logs: np.ndarray
    log_loss: float
    exponent: float
    growth: np.ndarray
    status: str = "ok"
    smooth: bool = True
    held: tuple[int, ...] = ()

    @property
    def exists(self) -> bool:
        """Whether there is an allocation to tell of."""
        return math.isfinite(self.log_loss)


@dataclass(frozen=True)
class Slopes:
    """Derivatives in log x at a place.

    Attributes:
        tilt, curve: first and second, of log(f − E).
        powers, turn: the same of log C.
        cornered: whether the law has corners: its slopes over two widths differ.
    """

    tilt: np.ndarray
    curve: np.ndarray
    powers: np.ndarray
    turn: np.ndarray
    cornered: bool


@dataclass(frozen=True)
class Landscape:
    """The loss above its floor, ``f − E``, over resources that cost something.

    Attributes:
        law: f.
        values: of its parameters, E being 0.
        cost: of its resources.
        least: log of the least amount of every resource, −∞ where there is none.
    """

    law: Law
    values: np.ndarray
    cost: Cost
    least: np.ndarray

    @property
    def size(self) -> int:
        """The number of resources."""
        return len(self.law.resources)

    def solved(self, held: tuple[int, ...] = ()) -> tuple[int, list[int]]:
        """The resource that takes the rest of a budget, one without a least amount; the others."""
        free = [k for k in range(self.size) if k not in held]
        last = next((k for k in reversed(free) if self.least[k] == -np.inf), free[-1])
        return last, [k for k in free if k != last]

    def log_loss(self, logs: np.ndarray) -> np.ndarray:
        """Log(f − E) at places (points, resources); infinite where there is none."""
        inside = np.all((np.abs(logs) <= _FAR + 1.0) & (logs >= self.least - _LAST), axis=1)
        with np.errstate(all="ignore"):
            loss = self._curve(np.exp(np.where(inside[:, None], logs, 0.0)))
            good = inside & np.isfinite(loss) & (loss > 0.0)
            return np.where(good, np.log(np.where(good, loss, 1.0)), np.inf)

    def _curve(self, x: np.ndarray) -> np.ndarray:
        """The law; a compiled one is asked for a few numbers of points only."""
        if not isinstance(self.law, Formula):
            return self.law.curve(self.values, x)
        unit = _FEW if len(x) <= _FEW else _MANY
        padded = np.pad(x, [(0, -len(x) % unit), (0, 0)], constant_values=1.0)
        return self.law.curve(self.values, padded)[: len(x)]

    def log_cost(self, logs: np.ndarray) -> np.ndarray:
        """Log C at places; infinite where it is no positive number."""
        with np.errstate(all="ignore"):
            cost = self.cost.everywhere(dict(zip(self.law.resources, np.exp(logs.T), strict=True)))
            good = np.isfinite(cost) & (cost > 0.0)
            return np.where(good, np.log(np.where(good, cost, 1.0)), np.inf)

    def on_budget(self, logs: np.ndarray, budget: float, solved: int) -> np.ndarray:
        """Places moved along one resource to where they cost the budget."""
        names, moved = self.law.resources, logs.copy()
        rest = {n: np.exp(logs[:, k]) for k, n in enumerate(names) if k != solved}
        with np.errstate(divide="ignore"):
            if len(logs) == 1:
                one = {name: float(x[0]) for name, x in rest.items()}
                moved[0, solved] = np.log(self.cost.amount(names[solved], budget, one))
            else:
                moved[:, solved] = np.log(self.cost.amounts(names[solved], budget, rest))
        return moved

    def slopes(self, logs: np.ndarray, free: list[int]) -> Slopes:
        """Derivatives in log x of free resources, by differences of the fourth order."""
        shifts, first, second = _stencil(len(free))
        places = np.repeat(logs[None], 1 + len(shifts), axis=0)
        places[1:, free] += shifts
        with np.errstate(invalid="ignore"):
            loss, cost = self.log_loss(places), self.log_cost(places)
            loss, cost = loss[1:] - loss[0], cost[1:] - cost[0]
            wide = loss[4 * len(free) : 8 * len(free)].reshape(-1, 4) @ _ONCE / _WIDE
            tilt = first @ loss
            near = np.abs(tilt - wide) <= _CORNERS * np.maximum(1.0, np.abs(tilt))
            return Slopes(tilt, second @ loss, first @ cost, second @ cost, not np.all(near))

    def best(self, budget: float) -> Optimum:
        """The best allocation: windows of grids around a balanced one, then Newton's steps."""
        middle = np.maximum(self._balanced(budget), self.least)
        if self.size == 1:
            return self.near(middle, budget)
        found, width = middle, 0.0
        for width in _WINDOWS:
            found, log_loss, edge = self._looked(middle, width, budget)
            if math.isinf(log_loss):
                return self._none("no optimum: the law has no value at this budget")
            if not edge:
                break
        if np.max(np.abs(found)) > _ENDLESS:
            return self._none(self._runaway(found, middle))
        found = self._zoomed(found, width, 0.01 if np.isfinite(self.least).any() else 0.5, budget)
        solved, _ = self.solved()
        least = np.flatnonzero(found <= self.least + _LAST)
        held = tuple(int(k) for k in least if k != solved)
        best = self.near(found, budget, held)
        if np.max(np.abs(best.logs)) > 0.5 * _ENDLESS:
            return self._none(self._runaway(best.logs, middle))
        return best

    def near(self, logs: np.ndarray, budget: float, held: tuple[int, ...] = ()) -> Optimum:
        """The optimum near a place, some resources being held."""
        found = self._polished(logs, budget, held)
        if found.smooth and (found.status == "ok" or found.status.startswith("flat")):
            return found
        begin = found.logs if found.exists else logs
        place = self._zoomed(begin, 2.0, _LAST, budget, held)
        loss = float(self.log_loss(place[None])[0])
        if math.isinf(loss):
            return found
        solved, loose = self.solved(held)
        if not self.slopes(place, [*loose, solved]).cornered:
            again = self._polished(place, budget, held)
            if again.status == "ok":
                return again
        none = np.full(self.size, np.nan)
        return Optimum(place, loss, math.nan, none, smooth=False, held=held)

    def lowest(self, logs: np.ndarray, budget: float) -> float:
        """The least log(f − E) near a place, to some 1e-8, by grids alone."""
        place = self._zoomed(logs, 2.0, _ALMOST, budget)
        return float(self.log_loss(place[None])[0])

    def followed(self, found: Optimum, budget: float) -> Optimum:
        """An optimum at a corner, with its exponent and growth from half to twice the budget."""
        ends = [self.near(found.logs, share * budget) for share in (0.5, 2.0)]
        apart = math.log(4.0)
        return Optimum(
            found.logs,
            found.log_loss,
            (ends[0].log_loss - ends[1].log_loss) / apart,
            (ends[1].logs - ends[0].logs) / apart,
            found.status,
            smooth=False,
            held=found.held,
        )

    def _zoomed(
        self,
        logs: np.ndarray,
        width: float,
        last: float,
        budget: float,
        held: tuple[int, ...] = (),
    ) -> np.ndarray:
        """The best place of ever smaller grids."""
        solved, axes = self.solved(held)
        count = _GRID.get(len(axes), 5)
        found, moves = self.on_budget(logs[None], budget, solved)[0], 0
        while axes and width > last:
            found, _, edge = self._looked(found, width, budget, held)
            moves += edge
            if not edge or moves > _MOVES:
                width = min(3.0 * width / (count - 1), 0.5 * width)
        return found

    def _balanced(self, budget: float) -> np.ndarray:
        """All resources alike."""

        def excess(log_x: float) -> float:
            value = float(self.log_cost(np.full((1, self.size), log_x))[0])
            spent = value if math.isfinite(value) else math.copysign(1e3, log_x)
            return spent - math.log(budget)

        if excess(-_FAR) >= 0.0 or excess(_FAR) <= 0.0:
            return np.zeros(self.size)
        return np.full(self.size, root_between(excess, -_FAR, _FAR))

    def _looked(
        self, middle: np.ndarray, width: float, budget: float, held: tuple[int, ...] = ()
    ) -> tuple[np.ndarray, float, bool]:
        """The best place of a grid, its log-loss, and whether it is on the grid's edge."""
        solved, axes = self.solved(held)
        count = _GRID.get(len(axes), 5)
        steps = np.linspace(-width, width, count)
        lines = [np.clip(middle[k] + steps, max(-_FAR, self.least[k]), _FAR) for k in axes]
        places = np.repeat(middle[None], count ** len(axes), axis=0)
        places[:, axes] = np.array(list(itertools.product(*lines)))
        places = self.on_budget(places, budget, solved)
        losses = self.log_loss(places)
        k = int(np.argmin(losses))
        seen = losses[np.isfinite(losses)]
        if len(seen) > 1 and np.ptp(seen) <= _FLAT:  # any place does
            return places[k], float(losses[k]), False
        ends = [(line[0], line[-1]) for line in lines]
        edge = any(
            places[k, axis] in pair and places[k, axis] > self.least[axis]
            for axis, pair in zip(axes, ends, strict=True)
        )
        return places[k], float(losses[k]), edge

    def _runaway(self, found: np.ndarray, middle: np.ndarray) -> str:
        k = int(np.argmax(np.abs(found - middle)))
        way = "grows" if found[k] > middle[k] else "shrinks"
        return f"no optimum: the loss falls without end as {self.law.resources[k]} {way}"

    def _none(self, status: str) -> Optimum:
        none = np.full(self.size, np.nan)
        return Optimum(none, math.nan, math.nan, none, status)

    def _polished(self, logs: np.ndarray, budget: float, held: tuple[int, ...]) -> Optimum:
        """Newton's steps along the budget."""
        solved, loose = self.solved(held)
        free = [*loose, solved]

        def there(place: np.ndarray) -> tuple[np.ndarray, float]:
            moved = self.on_budget(place[None], budget, solved)
            return moved[0], float(self.log_loss(moved)[0])

        logs, loss = there(logs)
        kept, least, stale = None, math.inf, 0
        for _ in range(100 if math.isfinite(loss) else 0):
            here = self.slopes(logs, free)
            tilt, curve, powers, turn = here.tilt, here.curve, here.powers, here.turn
            with np.errstate(all="ignore"):
                rate = -tilt[-1] / powers[-1]
                slope = (tilt + rate * powers)[:-1]
                along = np.concatenate([np.eye(len(loose)), -powers[None, :-1] / powers[-1]])
                reduced = along.T @ (curve + rate * turn) @ along
            if not (math.isfinite(rate) and np.isfinite(reduced).all()):
                break
            size = float(np.max(np.abs(slope), initial=0.0))
            stale = 0 if size < least else stale + 1
            if size < least:
                kept, least = (logs, loss, here, reduced), size
            if size <= 1e-13 or stale >= (2 if least <= CLOSE else 6):
                break
            step = _downhill(reduced, slope)
            share = min(1.0, 5.0 / max(float(np.max(np.abs(step))), 1e-300))
            place, new = logs, math.inf
            while share > 1e-4:
                place = logs.copy()
                place[loose] += share * step
                place, new = there(place)
                # Near the optimum the loss is flat to round-off: the full step is taken.
                if new <= loss + 1e-4 * share * float(slope @ step) + 1e-14 * (1.0 + abs(loss)):
                    break
                share *= 0.5
            else:
                break
            logs, loss = place, new
        if kept is None:
            return self._none("no optimum: the best allocation is at the edge of the law")
        return self._told(*kept, free, held, least)

    def _told(
        self,
        logs: np.ndarray,
        loss: float,
        here: Slopes,
        bend: np.ndarray,
        free: list[int],
        held: tuple[int, ...],
        slope: float,
    ) -> Optimum:
        """The optimum's exponent, growth and status."""
        tilt, powers = here.tilt, here.powers
        if not np.all(powers > 0.0):
            name = self.law.resources[free[int(np.argmin(powers))]]
            return self._none(f"no optimum: the cost does not rise with {name} there")
        exponent, growth, status = float(-(tilt @ powers) / (powers @ powers)), None, "ok"
        if slope > CLOSE:
            status = f"stopped at a slope of {slope:.1e}"
        elif len(bend) and np.linalg.eigvalsh(bend)[0] <= _FLAT:
            status, growth = "flat: other allocations of this budget are as good", np.nan
        if growth is None:
            inner = here.curve + exponent * here.turn
            matrix = np.block([[inner, powers[:, None]], [powers[None], np.zeros((1, 1))]])
            growth = np.linalg.lstsq(matrix, np.eye(len(matrix))[-1])[0][:-1]
        grown = np.zeros(self.size)
        grown[free] = growth
        return Optimum(logs, loss, exponent, grown, status, not here.cornered, held)


def _downhill(bend: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Newton's step; downhill where the loss is not convex."""
    values, vectors = np.linalg.eigh(0.5 * (bend + bend.T))
    values = np.maximum(np.abs(values), _FLAT)
    return -vectors @ ((vectors.T @ slope) / values)


@cache
def _stencil(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shifts, and the weights that make first and second derivatives of differences there."""
    unit = np.eye(size)
    steps = np.array([-2.0, -1.0, 1.0, 2.0])
    twice = np.array([-1.0, 16.0, 16.0, -1.0]) / 12.0
    pairs = list(itertools.combinations(range(size), 2))
    ways = [_FINE * unit[k] for k in range(size)] + [_WIDE * unit[k] for k in range(size)]
    ways += [_WIDE * (unit[i] + sign * unit[j]) for i, j in pairs for sign in (1.0, -1.0)]
    shifts = np.concatenate([steps[:, None] * way for way in ways])
    first, second = np.zeros((size, len(shifts))), np.zeros((size, size, len(shifts)))

    def at(way: int) -> slice:
        return slice(4 * way, 4 * way + 4)

    for k in range(size):
        first[k, at(k)] = _ONCE / _FINE
        second[k, k, at(size + k)] = twice / _WIDE**2
    for number, (i, j) in enumerate(pairs):
        for way, sign in ((0, 1.0), (1, -1.0)):
            weights = 0.25 * sign * twice / _WIDE**2
            second[i, j, at(2 * size + 2 * number + way)] = weights
            second[j, i, at(2 * size + 2 * number + way)] = weights
    return shifts, first, second
