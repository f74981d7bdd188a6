"""Plans: what to do with a budget."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .. import validation
from ._optimum import Landscape, Optimum
from ._table import number
from .cost import Cost
from .fitting import Fit, Known
from .law import Law
from .laws import Additive
from .stored import settled

FACTORS = (0.5, 2.0)  # of a twofold mistake
_STEP = 1e-4  # of differences in the parameters


@dataclass(frozen=True)
class Interval:
    """Numbers, one a budget, and where they lie at the fit's level.

    Attributes:
        value: the numbers.
        low, high: the ends; the value itself where nothing is uncertain.
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Mistake:
    """What it costs to take half or twice the best amount of a resource, at the same budget.

    The other resources are the best for it. Arrays are (budgets, 2): half, double.

    Attributes:
        loss: what the law gives.
        ratio: of that loss to the optimum's.
        budget: the share of the budget with which the optimum has the same loss.
    """

    loss: np.ndarray
    ratio: np.ndarray
    budget: np.ndarray


@dataclass(frozen=True)
class Plan:
    """The best allocations of budgets.

    Attributes:
        known: the law, its values and how sure they are.
        cost: what the resources cost.
        budget: the budgets.
        status: of every budget: "ok", or what is amiss.
        allocation: the amount of every resource; its interval is symmetric in the logarithm.
        loss: the law's value there, the same.
        exponent: ``−d log(L − E)/d log C`` along the frontier, E the loss of unlimited resources.
        growth: ``d log x/d log C`` of every resource.
        closed: the exponent ``1/Σ(power/exponent)`` of a sum of power laws at a cost that is a
            product of powers; None for other laws and costs.
        mistakes: what half and twice the best amount of a resource cost; none for one resource.
        outside: of every budget the resources whose best amount the data did not reach, by the
            factor it is beyond them (below 1 under the smallest); None where the data's ranges are
            not known.
        least: the least amounts of resources that were allowed.
    """

    known: Known
    cost: Cost
    budget: np.ndarray
    status: tuple[str, ...]
    allocation: dict[str, Interval]
    loss: Interval
    exponent: Interval
    growth: dict[str, Interval]
    closed: float | None
    mistakes: dict[str, Mistake]
    outside: tuple[dict[str, float], ...] | None
    least: dict[str, float] = field(default_factory=dict)

    def valley(self, resource: str, factors: Sequence[float] | np.ndarray, at: int = 0) -> Any:
        """The loss where one resource is off its best amount, the others being the best for it.

        Args:
            resource: which.
            factors: times the best amount.
            at: which of the budgets.

        Returns:
            An array; nan where the budget does not allow it.
        """
        names = list(self.allocation)
        if resource not in names:
            raise ValueError(f"resource must be one of {', '.join(names)}, not {resource!r}")
        place = np.log([self.allocation[name].value[at] for name in names])
        around = _Around(self.known, self.cost, self.least)
        held = names.index(resource)
        return np.array([around.beside(place, float(self.budget[at]), held, f) for f in factors])


def plan(
    fit: Fit | Known,
    budget: float | Sequence[float] | np.ndarray,
    cost: str | Callable[..., Any] | Cost,
    *,
    least: Mapping[str, float] | None = None,
    mistakes: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Plan:
    """The allocation of a budget that makes a law's loss smallest.

    minimise f(x) subject to C(x) = budget; intervals by the delta method, from the covariance of
    the law's parameters.

    Args:
        fit: a fit, or a law with values (`Known`).
        budget: one or several.
        cost: an expression such as "6*N*D", or a function whose arguments are named as the law's
            resources; it must rise with each of them.
        least: the least amounts that make sense, by resource; anything above 0 unless given.
        mistakes: whether to find out what twofold mistakes cost.
        progress: called with (done, all) budgets.

    >>> from .laws import chinchilla
    >>> law = Known(chinchilla(), np.array([1.69, 406.4, 410.7, 0.34, 0.28]))
    >>> best = plan(law, 5.76e23, "6*N*D")
    >>> f"{best.allocation['N'].value[0]:.3g}, {best.allocation['D'].value[0]:.3g}"
    '3.22e+10, 2.98e+12'
    >>> best.status, best.loss.value.round(4).tolist(), best.exponent.value.round(4).tolist()
    (('ok',), [1.9307], [0.1535])
    """
    known = settled(fit) if isinstance(fit, Fit) else fit
    budgets = _budgets(budget)
    spending = cost if isinstance(cost, Cost) else Cost(cost, known.law.resources)
    _check(known, spending)
    around = _Around(known, spending, _least(known.law, least))
    found = []
    for k, amount in enumerate(budgets):
        found.append(around.told(float(amount), mistakes))
        if progress is not None:
            progress(k + 1, len(budgets))
    return _gathered(around, budgets, found)


def _budgets(given: Any) -> np.ndarray:
    try:
        found = np.atleast_1d(np.asarray(given, float))
        good = found.ndim == 1 and len(found) and ((found > 0.0) & (found < 1e300)).all()
    except (TypeError, ValueError):
        good, found = False, np.zeros(0)
    if not good:
        raise ValueError(
            f"budget must be one positive number or more, not {validation.spoken(given)}"
        )
    return found


def _least(law: Law, given: Mapping[str, float] | None) -> dict[str, float]:
    found = {}
    for name, value in (given or {}).items():
        validation.one_of("least", name, law.resources)
        found[name] = number(f"least {name}", value, 0.0, math.inf)
    return found


def _check(known: Known, cost: Cost) -> None:
    resources = known.law.resources
    missing = [name for name in resources if name not in cost.names]
    if missing:
        raise ValueError(
            f"cost must contain {missing[0]}, of which there would be no limit, not {cost.text!r}"
        )
    foreign = [name for name in cost.names if name not in resources]
    if foreign:
        raise ValueError(
            f"cost must be made of {', '.join(resources)}, the resources of {known.law.name}, "
            f"not {foreign[0]}"
        )
    bad = [n for n, v in zip(known.law.parameters, known.values, strict=True) if not np.isfinite(v)]
    if bad:
        raise ValueError(f"fit must have a value of {bad[0]} to plan with")


@dataclass(frozen=True)
class _Told:
    """Of one budget: the optimum, and the derivatives of what is told in the coordinates."""

    optimum: Optimum
    floor: float
    log_loss_error: float
    errors: np.ndarray  # of the logs, the exponent and the growths
    mistakes: np.ndarray  # (resources, half and double): loss, ratio, budget


@dataclass(frozen=True)
class _Around:
    """A law, and what is found out near its optima."""

    known: Known
    cost: Cost
    least: Mapping[str, float]

    @cached_property
    def floor(self) -> float:
        """E, where the law has one."""
        law = self.known.law
        if "E" not in law.linear:
            return 0.0
        k = law.parameters.index("E")
        slope = law.slopes(self.known.values, np.ones((1, len(law.resources))))[0, k]
        return float(self.known.values[k]) if slope == 1.0 else 0.0

    def landscape(self, values: np.ndarray) -> Landscape:
        """Above the floor."""
        raised = np.array(values, float)
        if self.floor:
            raised[self.known.law.parameters.index("E")] = 0.0
        least = [self.least.get(name, 0.0) for name in self.known.law.resources]
        with np.errstate(divide="ignore"):
            return Landscape(self.known.law, raised, self.cost, np.log(least))

    @cached_property
    def here(self) -> Landscape:
        """At the law's values."""
        return self.landscape(self.known.values)

    def told(self, budget: float, wanted: bool) -> _Told:
        """The optimum of one budget, how sure it is, and what mistakes cost."""
        size = len(self.known.law.resources)
        best = self.here.best(budget)
        if best.exists and not best.smooth:
            best = self.here.followed(best, budget)
        errors, error = np.zeros(2 * size + 1), 0.0
        mistakes = np.full((3, size, len(FACTORS)), np.nan)
        if not best.exists:
            return _Told(best, self.floor, math.nan, errors * np.nan, mistakes)
        if self.known.covariance is not None:
            errors, error = self._errors(best, budget, self.known.covariance)
        total = self.floor + math.exp(best.log_loss)
        for k in range(size if wanted and size > 1 and best.status == "ok" else 0):
            for side, factor in enumerate(FACTORS):
                loss = self.beside(best.logs, budget, k, factor, best.held)
                share = self._share(best, budget, loss)
                mistakes[:, k, side] = loss, loss / total, share
        return _Told(best, self.floor, error, errors, mistakes)

    def _errors(
        self, best: Optimum, budget: float, covariance: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Standard errors of the logs, the exponent and the growths; and of the log of the loss."""
        law, values = self.known.law, self.known.values
        is_log = np.array([name in law.logarithmic for name in law.parameters])
        x = np.exp(best.logs)[None]
        with np.errstate(all="ignore"):
            rise = law.slopes(values, x)[0] * np.where(is_log, values, 1.0)
            rise = np.nan_to_num(rise / law.curve(values, x)[0])
        error = math.sqrt(max(float(rise @ covariance @ rise), 0.0))
        turn = np.zeros((2 * len(best.logs) + 1, len(values)))
        for k, name in enumerate(law.parameters):
            if covariance[k, k] <= 0.0 or (name == "E" and self.floor):
                continue
            low, high = law.bounds[name]
            step = _STEP if is_log[k] else _STEP * (abs(values[k]) or 1.0)
            if not best.smooth:  # the corners' own steps are not seen over a wider one
                step = min(math.sqrt(covariance[k, k]), 0.5)
            if not is_log[k]:
                room = [0.5 * gap for gap in (values[k] - low, high - values[k]) if gap > 0.0]
                step = min([step, *room])
            ends = []
            for sign in (1.0, -1.0):
                moved = np.array(values, float)
                if is_log[k]:
                    moved[k] *= math.exp(sign * step)
                else:
                    moved[k] += sign * step
                there = self._near(self.landscape(moved), best, budget)
                ends.append(np.concatenate([there.logs, [there.exponent], there.growth]))
            turn[:, k] = (ends[0] - ends[1]) / (2.0 * step)
        return np.sqrt(np.maximum(np.einsum("ip,pq,iq->i", turn, covariance, turn), 0.0)), error

    def _near(self, landscape: Landscape, best: Optimum, budget: float) -> Optimum:
        """The optimum near another, with exponent and growth."""
        found = landscape.near(best.logs, budget, best.held)
        return found if found.smooth or not found.exists else landscape.followed(found, budget)

    def beside(
        self, logs: np.ndarray, budget: float, held: int, factor: float, least: tuple[int, ...] = ()
    ) -> float:
        """The loss where one resource is a factor off, the others being the best for it."""
        place = np.array(logs, float)
        place[held] += math.log(factor)
        still = tuple({held, *least})
        free = [k for k in range(len(place)) if k not in still]
        if not np.isfinite(place).all() or not free:
            return math.nan
        if len(free) == 1:
            moved = self.here.on_budget(place[None], budget, free[0])
            log_loss = float(self.here.log_loss(moved)[0])
        else:
            log_loss = self.here.near(place, budget, still).log_loss
        return self.floor + math.exp(log_loss) if math.isfinite(log_loss) else math.nan

    def _share(self, best: Optimum, budget: float, loss: float) -> float:
        """The share of the budget at which the optimum has a given loss."""
        if not loss > self.floor:
            return math.nan
        target = math.log(loss - self.floor)
        if not best.smooth:
            return self._share_by_halving(best, budget, target)
        shift, near = 0.0, best
        for _ in range(30):
            move = (near.log_loss - target) / near.exponent
            if not abs(move) > 1e-10 * max(1.0, abs(shift)):
                break
            move = float(np.clip(move, -1.0, 1.0))
            shift += move
            near = self._near_budget(near, move, budget * math.exp(shift))
            if not near.exists or not near.smooth:
                return self._share_by_halving(best, budget, target)
        return math.exp(shift)

    def _near_budget(self, near: Optimum, move: float, budget: float) -> Optimum:
        return self.here.near(near.logs + move * near.growth, budget, near.held)

    def _share_by_halving(self, best: Optimum, budget: float, target: float) -> float:
        """The same where the law has corners, to 1 %."""
        low, high, logs = -1.0, 0.0, best.logs
        while self.here.lowest(logs, budget * math.exp(low)) < target:
            low, high = 2.0 * low, low
            if low < -20.0:
                return math.nan
        while high - low > 0.01:
            middle = 0.5 * (low + high)
            is_better = self.here.lowest(logs, budget * math.exp(middle)) < target
            low, high = (low, middle) if is_better else (middle, high)
        return math.exp(0.5 * (low + high))


def _gathered(around: _Around, budgets: np.ndarray, found: list[_Told]) -> Plan:
    known, cost = around.known, around.cost
    names, reach = known.law.resources, known.quantile if known.covariance is not None else 0.0
    size = len(names)
    logs = np.stack([one.optimum.logs for one in found])
    errors = np.stack([one.errors for one in found])
    floors = np.array([one.floor for one in found])
    heights = np.array([one.optimum.log_loss for one in found])
    loss_error = np.array([one.log_loss_error for one in found])
    exponent = np.array([one.optimum.exponent for one in found])
    growth = np.stack([one.optimum.growth for one in found])
    mistakes = np.stack([one.mistakes for one in found])
    amounts = np.exp(logs)
    return Plan(
        known=known,
        cost=cost,
        budget=budgets,
        status=tuple(one.optimum.status for one in found),
        allocation={
            name: _factor(amounts[:, k], reach * errors[:, k]) for k, name in enumerate(names)
        },
        loss=_factor(floors + np.exp(heights), reach * loss_error),
        exponent=_around(exponent, reach * errors[:, size]),
        growth={
            name: _around(growth[:, k], reach * errors[:, size + 1 + k])
            for k, name in enumerate(names)
        },
        closed=_closed(known, cost),
        mistakes={
            name: Mistake(mistakes[:, 0, k], mistakes[:, 1, k], mistakes[:, 2, k])
            for k, name in enumerate(names if size > 1 else ())
        },
        outside=None
        if known.ranges is None
        else tuple(_outside(known.ranges, dict(zip(names, row, strict=True))) for row in amounts),
        least=dict(around.least),
    )


def _factor(value: np.ndarray, reach: np.ndarray) -> Interval:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        factor = np.exp(reach)
        return Interval(value, value / factor, value * factor)


def _around(value: np.ndarray, reach: np.ndarray) -> Interval:
    return Interval(value, value - reach, value + reach)


def _outside(ranges: Any, place: dict[str, float]) -> dict[str, float]:
    beyond = {}
    for name, x in place.items():
        low, high = ranges[name]
        if x < low * (1.0 - 1e-9):
            beyond[name] = float(x / low)
        elif x > high * (1.0 + 1e-9):
            beyond[name] = float(x / high)
    return beyond


def _closed(known: Known, cost: Cost) -> float | None:
    """``1/Σ(power/exponent)``, where all terms are there."""
    law = known.law
    if not isinstance(law, Additive) or cost.monomial is None:
        return None
    given = dict(zip(law.parameters, known.values, strict=True))
    if any(given[name] <= 0.0 for name in (*law.amplitudes, *law.exponents)):
        return None
    pairs = zip(law.resources, law.exponents, strict=True)
    return float(1.0 / sum(cost.monomial[x] / given[exponent] for x, exponent in pairs))
