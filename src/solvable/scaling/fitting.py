"""Fits: a law for a table, with intervals that are honest."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from scipy import stats

from .. import validation
from . import _table
from ._inference import Minimum, to_original
from ._intervals import Progress, bootstrapped, profiled
from ._problem import centred
from ._search import minimum_of
from .law import Law
from .laws import EXPONENT, LAWS, named

Loss = Literal["huber", "squares"]
Intervals = Literal["delta", "profile", "bootstrap"]
Status = Literal["converged", "ill_posed", "at_bound", "not_converged"]
LOSSES: tuple[str, ...] = get_args(Loss)
INTERVALS: tuple[str, ...] = get_args(Intervals)
ILL_POSED = 1e3  # condition number of the Jacobian with columns of one length
UNKNOWN = 1e5  # values: a standard error above so many of them tells nothing
UNKNOWN_FOLDS = 30.0  # the same of a logarithm
_MOST_SCALE = 1e100  # whose square is a number
_MOST_DRAWS = 10**7  # hours of refits
_FEWEST_SIGNS = 6  # of each, for a runs test


@dataclass(frozen=True)
class Parameter:
    """A parameter of a fit.

    Attributes:
        value: nan where the data say nothing about it.
        low, high: the ends of its interval; equal to the value where it is pinned or at a bound.
        error: its standard error; of its logarithm where it is a scale (`Law.logarithmic`).
        state: "free", "pinned" or "at bound".
    """

    value: float
    low: float
    high: float
    error: float
    state: Literal["free", "pinned", "at bound"] = "free"


@dataclass(frozen=True)
class Prediction:
    """What a fit says of points.

    Attributes:
        value: the curve.
        low, high: where a new measurement lies (or the curve itself).
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class HoldOut:
    """How a fit does on rows that it has not seen.

    Attributes:
        kind: "largest" or "random".
        rows: which, by their place in the table.
        rms: of log(curve/y) there.
        bias: its mean; positive where the law is too high.
        inside: the share of rows within their prediction intervals.
    """

    kind: str
    rows: np.ndarray
    rms: float
    bias: float
    inside: float


@dataclass(frozen=True)
class Known:
    """A law with its values, and how sure they are: what a plan needs.

    Attributes:
        law: the law.
        values: of its parameters, in order.
        covariance: of its coordinates (logarithms of `Law.logarithmic` parameters, else the
            parameters themselves); None where there is no uncertainty.
        degrees: of freedom of t.
        level: of intervals.
        ranges: where the data were, from the smallest to the largest of every resource.
    """

    law: Law
    values: np.ndarray
    covariance: np.ndarray | None = None
    degrees: float = math.inf
    level: float = 0.95
    ranges: Mapping[str, tuple[float, float]] | None = None

    def __post_init__(self):
        shape = _table.shape("values", self.values)
        if shape != (len(self.law.parameters),):
            raise ValueError(
                f"values must be {len(self.law.parameters)} numbers, those of "
                f"{', '.join(self.law.parameters)}, not of shape {shape}"
            )

    @property
    def quantile(self) -> float:
        """Of t, at the level."""
        return float(stats.t.ppf(0.5 + 0.5 * self.level, self.degrees))


@dataclass(frozen=True)
class Fit:
    """A fitted law.

    Attributes:
        law: which.
        status: "converged"; "ill_posed" where the data do not determine the parameters (the scaled
            Jacobian's condition number is above 1000, or an exponent's interval includes 0);
            "at_bound"; "not_converged".
        message: what the status means here.
        parameters: by name.
        known: values and covariance, for predictions and plans.
        residuals: log(curve/y) of the rows that were fitted, in the order of the table.
        rms: their root mean square.
        runs_p: the p-value of a runs test on the residuals' signs, along the one resource or the
            fitted curve: small where they keep their sign for long, as the law misses the shape of
            the data, which no interval counts. None for grouped or too few rows.
        rows: which rows were fitted.
        condition: the condition number.
        noise: the residual standard deviation, from ρ′ and the degrees of freedom.
        loss, scale: what was minimised; the scale is Huber's, infinity for least squares.
        intervals, method: "delta", "profile" or "bootstrap", and how, in words.
        groups: how many groups, 0 for none.
        refits, redone, failed: of a bootstrap: how many, how many had to be searched again, and how
            many of these failed and were left out.
        hold_out: how it does on rows held out.
        draws: the refits' coordinates, (refits, parameters), as those of `Known.covariance`.
    """

    law: Law
    status: Status
    message: str
    parameters: dict[str, Parameter]
    known: Known
    residuals: np.ndarray
    rms: float
    runs_p: float | None
    rows: np.ndarray
    condition: float
    noise: float
    loss: Loss
    scale: float
    intervals: Intervals
    method: str
    groups: int = 0
    refits: int = 0
    redone: int = 0
    failed: int = 0
    hold_out: HoldOut | None = None
    draws: np.ndarray | None = field(default=None, repr=False)

    def __getitem__(self, name: str) -> float:
        """The value of a parameter."""
        return self.parameters[name].value

    def curve(self, columns: Mapping[str, Any]) -> np.ndarray:
        """The curve at points."""
        return self.law.curve(self.known.values, _table.resources(self.law, columns))

    def predict(
        self, columns: Mapping[str, Any], kind: Literal["new", "curve"] = "new"
    ) -> Prediction:
        """The curve at points, and where a measurement (or the curve) lies, by the delta method.

        Args:
            columns: the resources by name.
            kind: "new" for a measurement with the noise of the data, "curve" for the law itself.
        """
        validation.one_of("kind", kind, ("new", "curve"))
        x = _table.resources(self.law, columns)
        known = self.known
        is_log = np.array([name in self.law.logarithmic for name in self.law.parameters])
        value = self.law.curve(known.values, x)
        with np.errstate(all="ignore"):
            slopes = self.law.slopes(known.values, x) * np.where(is_log, known.values, 1.0)
            slopes = np.nan_to_num(slopes / value[:, None], posinf=0.0, neginf=0.0)
        assert known.covariance is not None
        spread = np.einsum("np,pq,nq->n", slopes, known.covariance, slopes)
        if kind == "new":
            spread = spread + self.noise**2
        with np.errstate(over="ignore"):
            factor = np.exp(known.quantile * np.sqrt(np.maximum(spread, 0.0)))
            return Prediction(value, value / factor, value * factor)


def fit(
    law: Law | str,
    columns: Mapping[str, Any],
    *,
    y: Any,
    weights: Any = None,
    group: Any = None,
    loss: Loss = "huber",
    intervals: Intervals = "delta",
    pinned: Mapping[str, float] | None = None,
    scale: float | None = None,
    hold_out: tuple[str, float] | None = None,
    start: Mapping[str, float] | None = None,
    level: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
    progress: Progress | None = None,
) -> Fit:
    """Fit a law to a table.

    Residuals are relative, log(f/y). Amplitudes are solved for while exponents are searched
    (variable projection), then everything is polished together.

    Args:
        law: a `Law`, or "power", "chinchilla", "additive", "broken" of the columns' names.
        columns: columns of positive numbers by name; those that the law does not take are left.
        y: what is fitted, positive: a column's name, or numbers.
        weights: of the rows, inverse variances up to a factor: a column's name, or numbers.
        group: which rows share a run's own noise: a column's name, or labels. Intervals then rest
            on the number of groups.
        loss: "huber" bounds the pull of outliers, "squares" does not.
        intervals: "delta" (with groups: CR2), "profile", or "bootstrap" (with groups: of groups).
        pinned: values that are held, by parameter.
        scale: beyond which a residual counts as an outlier; 1.345 standard deviations (by the
            median absolute deviation) of a first robust fit unless given.
        hold_out: ("largest", 0.2) to fit without the fifth of rows with the largest product of
            resources and see how they are predicted; or ("random", 0.2).
        start: exponents to start from instead of the law's own; others as the law has them.
        level: of the intervals.
        draws: of a bootstrap, from 100 to 1e7.
        seed: of what is drawn.
        progress: called with (done, all) refits.

    Returns:
        The fit; look at its status.

    >>> x = np.geomspace(1.0, 1e4, 12)
    >>> found = fit("power", {"x": x, "loss": 1.5 + 8.0 * x**-0.3}, y="loss")
    >>> found.status, round(found["E"], 9), round(found["a"], 9)
    ('converged', 1.5, 0.3)
    """
    validation.one_of("loss", loss, LOSSES)
    validation.one_of("intervals", intervals, INTERVALS)
    level = _table.number("level", level, 0.0, 1.0)
    draws = validation.whole("draws", draws, 100, _MOST_DRAWS)
    seed = validation.whole("seed", seed)
    if scale is not None:
        scale = _table.number("scale", scale, 0.0, _MOST_SCALE)
    if isinstance(law, str):
        used = {given for given in (y, weights, group) if isinstance(given, str)}
        law = named(law, tuple(name for name in columns if name not in used))
    if not isinstance(law, Law):
        raise ValueError(f"law must be a Law or one of {', '.join(LAWS)}, not {law!r}")
    pinned = _pins(law, pinned)
    data = _table.read(law, columns, y, weights, group)
    kept, held_out = data.split(hold_out, seed)
    free = len(law.parameters) - len(pinned)
    _table.enough(law, kept, free, held_out is not None)
    if kept.groups is not None and intervals == "profile":
        raise ValueError("intervals must be delta or bootstrap for grouped rows, not 'profile'")

    problem = centred(law, kept.x, kept.y, kept.weights, pinned)
    starts = None if start is None else _starts(law, kept.x, problem.factors, start)
    minimum = minimum_of(problem, loss, scale, starts)
    result = _told(minimum, kept, pinned, loss, intervals, level, draws, seed, progress)
    if held_out is None or hold_out is None:
        return result
    predicted = result.predict(dict(zip(law.resources, held_out.x.T, strict=True)))
    miss = np.log(predicted.value / held_out.y)
    inside = (held_out.y >= predicted.low) & (held_out.y <= predicted.high)
    seen = HoldOut(
        kind=hold_out[0],
        rows=held_out.rows,
        rms=float(np.sqrt(np.mean(miss**2))),
        bias=float(np.mean(miss)),
        inside=float(np.mean(inside)),
    )
    return replace(result, hold_out=seen)


def _pins(law: Law, pinned: Mapping[str, float] | None) -> dict[str, float]:
    found = {}
    for name, value in (pinned or {}).items():
        validation.one_of("pinned", name, law.parameters)
        low, high = law.bounds[name]
        number = _table.number(name, value, -math.inf, math.inf)
        if not low <= number <= high:
            raise ValueError(f"{name} must lie in [{low:g}, {high:g}] to be pinned, not {number:g}")
        if number == 0.0 and name in law.logarithmic:
            raise ValueError(f"{name} must be above 0 to be pinned, not 0: leave its term out")
        found[name] = number
    if len(found) == len(law.parameters):
        raise ValueError(f"pinned must leave a parameter of {law.name} free, not pin all of them")
    return found


def _starts(law: Law, x: np.ndarray, factors: np.ndarray, start: Mapping[str, float]) -> np.ndarray:
    """Rows to start from, in the units of the data, then in those of the columns over `factors`."""
    rows = law.starts(x)
    for name, value in start.items():
        validation.one_of("start", name, law.parameters)
        rows[:, law.parameters.index(name)] = _table.number(name, value, -math.inf, math.inf)
    is_linear = [name in law.linear for name in law.parameters]
    return np.unique(np.where(is_linear, 1.0, law.rescaled(rows, 1.0 / factors)), axis=0)


def _told(
    minimum: Minimum,
    data: "_table.Table",
    pinned: dict[str, float],
    loss: Loss,
    intervals: Intervals,
    level: float,
    draws: int,
    seed: int,
    progress: Progress | None,
) -> Fit:
    """The minimum with its intervals and its status."""
    problem, law, groups = minimum.problem, minimum.problem.law, data.groups
    count = 0 if groups is None else int(groups.max()) + 1
    grouped = groups is not None
    matrix = minimum.clustered(groups) if groups is not None else minimum.covariance()
    center, covariance = to_original(minimum, matrix)
    degrees = count - 1 if grouped else minimum.degrees
    ends = zip(data.x.min(axis=0).tolist(), data.x.max(axis=0).tolist(), strict=True)
    ranges = dict(zip(law.resources, ends, strict=True))
    values = np.where(_absent(minimum), 0.0, _representable(minimum))
    for name, value in pinned.items():  # as given, without the round-off of other units
        values[law.parameters.index(name)] = value
    known = Known(law, values, covariance, float(degrees), level, ranges)
    error = np.sqrt(np.diag(covariance))
    if not (minimum.converged or intervals == "delta"):
        intervals = "delta"  # of what is no minimum there is nothing to profile or to redraw
    method = f"delta method, t({degrees})" if not grouped else f"CR2, t({degrees})"
    refits = found = None
    if intervals == "profile":
        low, high = profiled(minimum, level)
        method = f"profile likelihood, F(1, {degrees})"
    elif intervals == "bootstrap":
        found = bootstrapped(minimum, groups, loss, draws, seed, progress)
        refits = found.coordinates
        if grouped:
            low, high = found.spread(center, level, degrees)
            method = f"wild bootstrap of {count} groups, {len(refits)} refits, t({degrees})"
        else:
            low, high = found.percentiles(level, degrees)
            method = f"bootstrap of residuals, {len(refits)} refits, levels of t({degrees})"
    else:
        reach = known.quantile * error
        low, high = center - reach, center + reach
    parameters = _parameters(minimum, known.values, low, high, error)
    status, message = _judged(minimum, parameters)
    residual = minimum.linear[0] / problem.root
    return Fit(
        law=law,
        status=status,
        message=message,
        parameters=parameters,
        known=known,
        residuals=residual,
        rms=float(np.sqrt(np.mean(residual**2))),
        runs_p=None if grouped else _runs_p(residual, law.curve(values, data.x), data.x),
        rows=data.rows,
        condition=minimum.condition,
        noise=math.sqrt(minimum.variance) / minimum.push[1],
        loss=loss,
        scale=minimum.scale,
        intervals=intervals,
        method=method,
        groups=count,
        refits=0 if refits is None else len(refits),
        redone=0 if found is None else found.redone,
        failed=0 if found is None else found.failed,
        draws=refits,
    )


def _runs_p(residual: np.ndarray, curve: np.ndarray, x: np.ndarray) -> float | None:
    """How likely so few runs of one sign are, by Wald and Wolfowitz."""
    if np.max(np.abs(residual)) < 1e-10:  # signs of round-off
        return None
    order = np.argsort(x[:, 0] if x.shape[1] == 1 else curve, kind="stable")
    above = residual[order] > 0.0
    some, others = int(above.sum()), int((~above).sum())
    if min(some, others) < _FEWEST_SIGNS:
        return None
    mean = 1.0 + 2.0 * some * others / (some + others)
    variance = (mean - 1.0) * (mean - 2.0) / (some + others - 1.0)
    runs = 1 + int(np.sum(above[1:] != above[:-1]))
    return float(stats.norm.cdf((runs - mean) / math.sqrt(variance)))


def _representable(minimum: Minimum) -> np.ndarray:
    """The values in the units of the data, or a `ValueError` where a number cannot hold them."""
    problem, law = minimum.problem, minimum.problem.law
    values = problem.original(problem.values(minimum.coordinates))
    bad = ~np.isfinite(values) | (problem.is_log & (values == 0.0))
    if bad.any():
        means = zip(law.resources, problem.factors, strict=True)
        told = ", ".join(f"{name} {mean:.1g}" for name, mean in means)
        raise ValueError(
            f"columns must be in units nearer to 1 ({told} on average, y {problem.unit:.1g}): "
            f"{law.parameters[int(np.argmax(bad))]} is too large or too small for a number"
        )
    return values


def _parameters(
    minimum: Minimum, values: np.ndarray, low: np.ndarray, high: np.ndarray, error: np.ndarray
) -> dict[str, Parameter]:
    """Values and intervals; what the data do not see has neither."""
    problem, found = minimum.problem, {}
    law, (least, most) = problem.law, problem.limits
    lost = _lost(minimum)
    for k, name in enumerate(law.parameters):
        is_log = name in law.logarithmic
        bounds = law.bounds[name]
        value = float(values[k])
        with np.errstate(over="ignore"):
            below, above = (float(np.exp(end) if is_log else end) for end in (low[k], high[k]))
        if not problem.free[k]:
            found[name] = Parameter(value, value, value, 0.0, "pinned")
        elif name in lost:
            found[name] = Parameter(math.nan, *bounds, math.inf, "free")
        elif not minimum.moving[k]:
            bound = bounds[0] if minimum.coordinates[k] <= 0.5 * (least[k] + most[k]) else bounds[1]
            found[name] = Parameter(bound, bound, bound, 0.0, "at bound")
        elif error[k] > (UNKNOWN_FOLDS if is_log else UNKNOWN * max(abs(value), 1e-300)):
            found[name] = Parameter(math.nan, *bounds, math.inf, "free")
        else:
            clipped = max(below, bounds[0]), min(above, bounds[1])
            found[name] = Parameter(value, *clipped, float(error[k]), "free")
    return found


def _absent(minimum: Minimum) -> np.ndarray:
    """Which amplitudes are at the bound that stands for 0, and leave a curve without them."""
    problem = minimum.problem
    ended = problem.free & ~minimum.moving & problem.is_linear & problem.is_log
    ended = ended & (minimum.coordinates <= problem.limits[0] + 1.0)
    rest = np.where(ended, 0.0, problem.values(minimum.coordinates))
    return ended & bool(np.all(problem.law.curve(rest, problem.x) > 0.0))


def _lost(minimum: Minimum) -> set[str]:
    """Parameters without any effect on the curve, as the exponent of a term that is 0."""
    problem = minimum.problem
    values = np.where(_absent(minimum), 0.0, problem.values(minimum.coordinates))
    slopes = problem.law.slopes(values, problem.x)
    effect = np.max(np.abs(slopes / problem.law.curve(values, problem.x)[:, None]), axis=0)
    blind = problem.free & ~problem.is_linear & (effect < 1e-9)
    return {name for name, lost in zip(problem.law.parameters, blind, strict=True) if lost}


def _judged(minimum: Minimum, parameters: dict[str, Parameter]) -> tuple[Status, str]:
    if not minimum.converged:
        return "not_converged", "the search ended before it reached a minimum"
    bound = [name for name, one in parameters.items() if one.state == "at bound"]
    unknown = [name for name, one in parameters.items() if math.isnan(one.value)]
    rest = f"; {_listed(unknown)} cannot be told" if unknown else ""
    if bound:
        ends = ", ".join(f"{name} = {parameters[name].value:g}" for name in bound)
        words = f"{ends} at {'its bound' if len(bound) == 1 else 'their bounds'}"
        return "at_bound", words + rest
    if not minimum.condition <= ILL_POSED:
        why = _alike(minimum) or (
            f"the data do not tell the parameters apart: condition number {minimum.condition:.3g}, "
            f"above {ILL_POSED:g}"
        )
        return "ill_posed", why + rest
    vague = [
        name
        for name in minimum.problem.law.exponents
        if parameters[name].state == "free" and not parameters[name].low > EXPONENT[0]
    ]
    if vague:
        return "ill_posed", f"the interval of {_listed(vague)} includes 0{rest}"
    if unknown:
        return "ill_posed", f"{_listed(unknown)} cannot be told"
    return "converged", ""


def _alike(minimum: Minimum) -> str:
    """Columns that do not vary, or only together, in words."""
    logs, names = np.log(minimum.problem.x), minimum.problem.law.resources
    spread = np.ptp(logs, axis=0)
    still = [name for name, width in zip(names, spread, strict=True) if width < 1e-6]
    if still:
        return f"{_listed(still)} {'does' if len(still) == 1 else 'do'} not vary"
    around = (logs - logs.mean(axis=0)) / spread
    for i, j in itertools.combinations(range(len(names)), 2):
        turn = float(around[:, i] @ around[:, j] / (around[:, i] @ around[:, i]))
        if np.max(np.abs(around[:, j] - turn * around[:, i])) < 1e-3:
            return f"{names[i]} and {names[j]} vary only together: nothing tells their terms apart"
    return ""


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
