"""What the figures of softmax attention share: its start, its law, and how exponents are read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from ...reproduce import Claim, Statement, step
from ...style import LAW, THEORY, TRAINING
from .. import Run, SoftmaxInit, Task
from ..task import realised_shares

ENTRY = 0.1  # of V and W_K at the start; W_Q has 1.1 times as much, as in (106)
WIDTH = 501  # d_e: with u = 8 at the start attention is saturated, whatever S is
SETTLED = 100  # steps after which the flow describes gradient descent to 1/steps
WITHIN = 0.1  # of a law's exponent, where the law is read off
SHORTEST = 0.5  # decades over which an exponent can be read off
NEVER_ENDING = 1e300  # t at which every task that was seen is learned

STEP_ERROR = f"Gradient descent and its flow differ by about 1/steps, 1 % at step {SETTLED}."
OVER_SETS = (
    "The average is the ratio of training to theory with the realised counts, times that theory's "
    "mean over all data sets."
)
READ = "The tolerance is that within which theory's own slope lies where the exponent is read."


def start() -> SoftmaxInit:
    """V = 0.1, W_K = 0.1, W_Q = 0.11 in every entry."""
    return SoftmaxInit(value=ENTRY, key=ENTRY, query=1.1 * ENTRY, width=WIDTH)


FEW = {"data": 200, "steps": 50, "log_every": 5}  # where real tokens are trained


def few_tasks(beta: float = 0.0) -> Task:
    """Tasks so few and contexts so short that real tokens fit."""
    return Task(8, 1.8, 10.0, 0.5, beta=beta)


def few_start() -> SoftmaxInit:
    """The start with d_e = S + 1."""
    return SoftmaxInit(value=ENTRY, key=ENTRY, query=1.1 * ENTRY)


@dataclass(frozen=True)
class Saturated:
    """The gradient flow of softmax attention that attends to nothing but agreeing tokens.

    At u ≫ 1 the prediction times ε̂ is ``V_s·a``, ``a = (1, Λ_s)``, where any of the ψ_s context
    signs equals the query's, and ``V_s·b``, ``b = (1, 0)``, where none does, which has the chance
    ``2^-ψ_s``. Only V moves, in a quadratic loss that is 0 at ``V* = (Λ_s, 0)``:
    ``L = ½ Σ_s p_s Σ_i e_si exp(−2 p_s μ_si t)`` with μ the eigenvalues of
    ``M_s = (1 − 2^-ψ) a aᵀ + 2^-ψ b bᵀ`` and ``e_si = μ_si (c_si)²``, c the components of
    ``V(0) − V*``. At long contexts this is ``½ Σ_s p_s e_s(0)² exp(−2 p_s (1 + Λ_s²) t)``.

    Attributes:
        weights: p_s.
        rates: μ, (tasks, 2).
        errors: e, (tasks, 2); their sum over i is the mean square error at the start.
    """

    weights: np.ndarray
    rates: np.ndarray
    errors: np.ndarray

    @classmethod
    def of(cls, task: Task, entry: float = ENTRY) -> "Saturated":
        """The flow from ``V_ss = V_{s,S+1} = entry``."""
        task = task.rounded()
        strength, missed = np.asarray(task.strengths), np.exp2(-np.asarray(task.contexts))
        agreeing = np.stack([np.ones_like(strength), strength], axis=-1)
        own = np.array([1.0, 0.0])
        curvature = (1.0 - missed)[:, None, None] * agreeing[:, :, None] * agreeing[:, None, :]
        curvature = curvature + missed[:, None, None] * np.outer(own, own)
        rates, frame = np.linalg.eigh(curvature)
        away = np.stack([entry - strength, np.full_like(strength, entry)], axis=-1)
        parts = np.einsum("ski,sk->si", frame, away)
        return cls(np.asarray(task.weights), rates, rates * parts**2)

    def loss(self, t: Any, *, size: int | None = None, shares: Any = None) -> np.ndarray:
        """L at each time, for a model of size D, trained on tasks with the given shares."""
        shares = self.weights if shares is None else np.asarray(shares)
        learned = np.arange(1, len(self.weights) + 1) < (size or np.inf)
        speed = 2.0 * (shares * learned)[:, None] * self.rates
        amount = 0.5 * self.weights[:, None] * self.errors
        return np.array([np.sum(amount * np.exp(-speed * x)) for x in np.atleast_1d(t)])

    def mean_loss(self, t: float, data: int) -> float:
        """L averaged over data sets of N data, ``#_s ~ Binomial(N, p_s)``."""
        p = self.weights[:, None]
        left = (1.0 - p * -np.expm1(-2.0 * self.rates * t / data)) ** data
        return float(np.sum(0.5 * p * self.errors * left))

    def frontier(
        self, compute: np.ndarray, sizes: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The least L(C/D, D) over `sizes`, or every whole D ≥ 2, and that D, for each C = D·t."""
        sizes = np.arange(2, len(self.weights) + 2) if sizes is None else sizes
        amount = 0.5 * self.weights[:, None] * self.errors
        speed = 2.0 * self.weights[:, None] * self.rates
        kept = np.flatnonzero(np.max(self.errors, axis=0) > 1e-16)
        learned = np.arange(1, len(self.weights) + 1) < sizes[:, None]  # (sizes, tasks)
        best, where = [], []
        for c in compute:
            t = np.where(learned, c / sizes[:, None], 0.0)
            losses = np.sum([np.exp(-speed[:, i] * t) @ amount[:, i] for i in kept], axis=0)
            where.append(int(np.argmin(losses)))
            best.append(losses[where[-1]])
        return np.array(best), sizes[where]


def between(low: float | int, high: float | int, count: int) -> list[int]:
    """Whole numbers evenly spaced in the logarithm.

    >>> between(1, 100, 3)
    [1, 10, 100]
    """
    return np.unique(np.round(np.geomspace(low, high, count)).astype(int)).tolist()


def envelope(
    compute: np.ndarray, sizes: np.ndarray, time: np.ndarray, losses: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The lowest of the curves L(t; D) at each C = D·t, infinite where there is none, and its D.

    Args:
        compute: C.
        sizes: D of each curve.
        time: increasing times > 0, interpolated in the logarithms.
        losses: (sizes, times).
    """
    lines = [
        np.interp(np.log(compute), np.log(d * time), np.log(y), left=np.inf, right=np.inf)
        for d, y in zip(sizes, losses, strict=True)
    ]
    return np.exp(np.min(lines, axis=0)), np.asarray(sizes)[np.argmin(lines, axis=0)]


def optimal(data: xr.Dataset, times: np.ndarray) -> xr.Dataset:
    """The part of C whose best D by theory is among the sizes trained, and its t among `times`."""
    best = data.frontier_size.values
    t, sizes = data["compute"].values / best, data["size"].values
    inside = (best >= sizes.min()) & (best <= sizes.max()) & (t >= times[0]) & (t <= times[-1])
    return data.isel(compute=np.flatnonzero(inside))


def few_ticks(axes: Any) -> None:
    """Plain numbers 1, 2, 5, 10, … along x, for ranges of a decade or two."""
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def draw_data_sets(axes: Any, here: xr.Dataset, shade: str, label: str) -> None:
    """L against N: every data set, their mean, and theory with their counts and with all."""
    amount = here["amount"]
    each = np.repeat(amount.values, here.sizes["seed"])
    dots = {"linestyle": "none", "marker": ".", "markersize": 5.0, "alpha": 0.6}
    axes.plot(each, here.data_trained.values.ravel(), color=shade, **dots)
    axes.plot(amount, here.data_trained.mean("seed"), color=shade, label=label, **TRAINING)
    axes.plot(amount, here.data_realised.mean("seed"), color=shade, **THEORY)
    axes.plot(amount, here.data_expected, **LAW)


def data_sets(
    tasks: Mapping[float, Task],
    amounts: Sequence[int],
    seeds: Sequence[int],
    t: float,
    run: Callable[[float, int, int], Run],
) -> xr.Dataset:
    """The whole model on data sets of several sizes N, several of each.

    Args:
        tasks: one for each α.
        amounts: N.
        seeds: one for each data set of a size.
        t: when training ends, for the theory.
        run: trains at (α, N, seed); one seed at a time has the shapes of a run on the population.
    """
    trained, realised, expected = [], [], []
    for alpha, task in tasks.items():
        flow = Saturated.of(task)
        for data in amounts:
            trained.append([float(run(alpha, data, seed).loss[-1]) for seed in seeds])
            shares = [realised_shares(task, data, seed) for seed in seeds]
            realised.append([flow.loss(t, shares=each)[0] for each in shares])
            expected.append(flow.mean_loss(t, data))
            step(len(expected), len(tasks) * len(amounts))
    shape = (len(tasks), len(amounts))
    return xr.Dataset(
        {
            "data_trained": (("alpha", "amount", "seed"), np.reshape(trained, (*shape, -1))),
            "data_realised": (("alpha", "amount", "seed"), np.reshape(realised, (*shape, -1))),
            "data_expected": (("alpha", "amount"), np.reshape(expected, shape)),
        },
        coords={"alpha": list(tasks), "amount": list(amounts), "seed": list(seeds)},
    )


@dataclass(frozen=True)
class Slope:
    """An exponent that was read off, and where."""

    value: float
    low: float
    high: float

    def words(self, symbol: str) -> str:
        """The stretch, to read."""
        if not self.low < self.high:
            return f"Theory is within 10 % of the law over less than half a decade of {symbol}."
        decades = np.log10(self.high / self.low)
        return f"Read from {symbol} = {self.low:.3g} to {self.high:.3g}, {decades:.1f} decades."


def judge_exponent(
    said: Statement, law: float, symbol: str, x: Any, y: Any, theory: Any, note: str = ""
) -> Claim:
    """Judge the exponent of a measured curve, see `read_exponent`."""
    slope = read_exponent(x, y, theory, law)
    note = f"{slope.words(symbol)} {READ} {note}".rstrip()
    return said.judge(law, slope.value, WITHIN * law, note=note)


def _runs(good: np.ndarray) -> np.ndarray:
    """Where runs of true intervals begin and end, as places of their end points, (runs, 2)."""
    return np.flatnonzero(np.diff(np.concatenate([[False], good, [False]]))).reshape(-1, 2)


def read_exponent(x: Any, measured: Any, predicted: Any, exponent: float) -> Slope:
    """The exponent of a measured curve where its finite-size prediction shows the law.

    The range is the prediction's, not ours: the longest run of neighbouring points between which
    the predicted slope is within 10 % of `exponent`. Over it a line is fitted to the measured
    points. Not a number where the prediction shows the law over less than half a decade.
    """
    x, measured, predicted = (np.log(np.asarray(y, float)) for y in (x, measured, predicted))
    good = np.abs(-np.diff(predicted) / np.diff(x) - exponent) <= WITHIN * exponent
    runs = _runs(good)
    first, last = max(runs, key=lambda run: x[run[1]] - x[run[0]], default=(0, 0))
    if x[last] - x[first] < SHORTEST * np.log(10.0):
        return Slope(np.nan, np.nan, np.nan)
    here = slice(first, last + 1)
    slope = -np.polyfit(x[here], measured[here], 1)[0]
    return Slope(float(slope), float(np.exp(x[first])), float(np.exp(x[last])))


def near_decades(x: Any, y: Any, exponent: float, within: float) -> float:
    """The longest stretch of x on which a curve's slope is within that share of the exponent."""
    place, level = np.log10(np.asarray(x, float)), np.log10(np.asarray(y, float))
    good = np.abs(-np.diff(level) / np.diff(place) - exponent) <= within * exponent
    return max((float(place[last] - place[first]) for first, last in _runs(good)), default=0.0)


def over_data_sets(trained: Any, realised: Any, expected: Any) -> np.ndarray:
    """The mean of L over all data sets, from a few of each N (amounts, seeds).

    Training is divided by the theory with the counts that each data set happens to have, which
    takes out the luck of the draw, and multiplied by that theory's exact mean.
    """
    ratio = np.mean(np.asarray(trained) / np.asarray(realised), axis=-1)
    return ratio * np.asarray(expected)


def steady_decades(x: Any, y: Any, within: float = 0.2) -> float:
    """Over how many decades of x the local exponent is within 20 % of any one positive number."""
    place, level = np.log10(np.asarray(x, float)), np.log10(np.asarray(y, float))
    local = -np.gradient(level, place)
    longest = 0.0
    for first in range(len(place)):
        low = high = local[first]
        for last in range(first, len(place)):
            low, high = min(low, local[last]), max(high, local[last])
            if low <= 0.0 or high * (1.0 - within) > low * (1.0 + within):
                break
            longest = max(longest, float(place[last] - place[first]))
    return longest
