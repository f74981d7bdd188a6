"""The gradient flow of the population itself, from the weights that training starts with."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int
from scipy.integrate import DOP853, Radau
from scipy.linalg import LinAlgWarning

from ... import training, validation
from ...numerics.chebyshev import Chebyshev
from ...numerics.host import unpacked
from ..start import Start
from ..task import Task
from ..units import unit_factor
from ._clock import Clock
from ._population import Population, moments_of
from ._slope import Slope, Weights

Blocks = Literal["zero", "aligned"]
Method = Literal["explicit", "implicit", "chebyshev"]

MAX_TIME = 1e300
MIN_SCALE = 1e-140  # below, the product of a key and a query is no number
_METHODS: dict[str, tuple[Any, float]] = {  # and the tolerance of a step
    "explicit": (DOP853, 1e-12),
    "implicit": (Radau, 1e-9),
    "chebyshev": (Chebyshev, 1e-7),
}
_EXPLICIT = 40_000  # evaluations, after which the flow is taken to be stiff
_SMALL = 300  # weights whose Jacobian is cheap
_LOOSER = 8.0  # the tolerance of the second run, by which errors are told
_MOST = 5_000_000  # evaluations
_ROUNDED = 1e-15  # of the least loss: what is left of the excess where it is reached
_ROUNDING = 1e-13  # of the loss, over all steps
_NOTHING = 1e-22  # of the zero predictor's loss


@dataclass(frozen=True, repr=False)
class Flow:
    """Gradient flow at given times; leading axes are seeds.

    Attributes:
        time: t/τ, as they were asked for.
        loss: L.
        excess: L − L*, of which rounding spares what is small.
        error: the loss's relative error, estimated.
        weights: those at the last of the times, named and shaped as in a `Run` but for its points,
            in the units that were asked for; None where the blocks are "aligned".
        steps: of the solver; over all levels where the blocks are "aligned".
        evaluations: of the slope, those for the Jacobian among them.
        method: "explicit", "implicit" or "chebyshev", the last of them that was needed; or "clock".
    """

    time: Float[np.ndarray, " times"]
    loss: Float[np.ndarray, "*seeds times"]
    excess: Float[np.ndarray, "*seeds times"]
    error: Float[np.ndarray, "*seeds times"]
    weights: Weights | None
    steps: Int[np.ndarray, "*seeds"]
    evaluations: Int[np.ndarray, "*seeds"]
    method: str

    def __repr__(self) -> str:
        words = f"{self.loss.shape} losses to t = {self.time.max():g}, {self.method}"
        return f"Flow({words}, error {np.max(self.error):.1g})"


def flow(
    task: Task,
    start: Start,
    times: Any,
    *,
    units: str = "paper",
    seed: int | Sequence[int] = 0,
    blocks: Blocks | None = None,
    method: Method | None = None,
    tolerance: float | None = None,
) -> Flow:
    r"""Gradient flow of the population loss, ``τ Ẇ = −½ ∂L/∂W``, at any times.

    It is what gradient descent tends to at small rates, where a step of rate η is ``Δt/τ = 2η``
    (times `unit_factor` squared). The flow is followed by an explicit method of order 8, as long as
    that is cheap. Beyond, where the rest is stiff, an implicit one of order 5 takes over if there
    are at most 300 weights, else a stabilised explicit one of order 2, `Chebyshev`, whose cost
    grows like √t. A second run at 8 times the tolerance tells the error: about 1e-10 of the
    loss where t/τ is some thousands or there are at most 300 weights, 1e-4 on long runs of
    more.

    With ``blocks="aligned"`` merged attention is D + 1 numbers, ``M = s·diag(g)`` in the
    eigenbasis, followed in the clock ``T = ∫ s² dt``, in which they are linear: O(D) a step, to any
    time, with an error of about 1e-9. It leaves out all but the growing mode of the start, O(s).

    Args:
        task: the data law.
        start: linear attention with zero blocks, or an MLP.
        times: t/τ, one or an axis of them.
        units: of the weights that are drawn: "paper", with 1/N in the attention, or "code".
        seed: of the weights; one, or several for a leading axis of seeds.
        blocks: "zero", every head (unless given), or "aligned".
        method: "explicit", "implicit" or "chebyshev", where one is to be used throughout.
        tolerance: relative, of the error of one step; 1e-12, 1e-9 and 1e-7 unless given.

    Returns:
        A `Flow`; losses below 1e-22 of the zero predictor's are not followed any further.

    Reference: eqs. (6) and (14); the clock is derived for this package.

    >>> from ..start import merged, separate
    >>> task = Task(dim=4, context=31)
    >>> flow(task, separate(heads=5, scale=0.1), [0.0, 100.0, 1e9]).loss.round(4).tolist()
    [1.0, 0.3777, 0.136]
    >>> flow(task, merged(8, 1e-5), 70.0, blocks="aligned").loss.shape
    (1,)
    """
    for name, value in (("task", task), ("times", times), ("tolerance", tolerance)):
        validation.concrete(name, value, why="flow is followed")
    moments = moments_of(task)
    blocks = _checked(task, start, blocks)
    time = np.atleast_1d(np.asarray(validation.floating("times", times)))
    if time.ndim > 1 or time.size == 0:
        raise ValueError(f"times must be a number or one axis of them, not of shape {time.shape}")
    validation.within("times", time, 0.0, MAX_TIME)
    if method is not None:
        validation.one_of("method", method, tuple(_METHODS))
    factor = unit_factor(task, start, units)
    seeds, many = training.seeds_of(seed)
    start.refuse_large(task, len(seeds))
    drawn = [_drawn(task, start, factor, s) for s in seeds]
    if blocks == "aligned":
        if method is not None or tolerance is not None:
            raise ValueError("method and tolerance must be None when blocks is 'aligned'")
        found = [_in_its_clock(moments, weights, time) for weights in drawn]
    else:
        step = None if tolerance is None else _tolerance(tolerance)
        least = _least(moments, start)
        found = [
            _head_by_head(Slope(moments, weights), least, time, method, step) for weights in drawn
        ]
    excess, error, ends, steps, evaluations, names = zip(*found, strict=True)
    weights = None if blocks == "aligned" else _live(task, ends, factor, many)
    every = [np.array(x) if many else np.array(x[0]) for x in (excess, error, steps, evaluations)]
    gap, off, count, calls = every
    last = max(names, key=("clock", *_METHODS).index)
    return Flow(time, float(moments.floor) + gap, gap, off, weights, count, calls, last)


def _checked(task: Task, start: Any, blocks: Any) -> Blocks:
    if not isinstance(start, Start):
        raise ValueError(f"start must be made by merged, separate or mlp, not {start!r}")
    start.fits(task)
    if start.attention != "linear":
        raise ValueError(f"attention must be linear for the flow, not {start.attention}")
    if not start.zero_blocks:
        raise ValueError("zero_blocks must be true on the population, where they stay zero")
    if 0.0 < start.scale < MIN_SCALE:
        raise ValueError(f"scale must be at least {MIN_SCALE:g} for the flow, not {start.scale:g}")
    blocks = "zero" if blocks is None else blocks
    validation.one_of("blocks", blocks, ("zero", "aligned"))
    if blocks == "aligned":
        if start.rank is not None or task.outputs > 1:
            raise ValueError("blocks 'aligned' is for merged attention with one output only")
        if task.task_covariance is not None:
            raise ValueError("task_covariance must be None when blocks is 'aligned'")
    return blocks


def _tolerance(given: Any) -> float:
    size = validation.floating("tolerance", given)
    validation.shaped("tolerance", size, ())
    validation.within("tolerance", size, 1e-13, 1e-2)
    return float(size)


def _drawn(task: Task, start: Start, factor: float, seed: int) -> Weights:
    """The weights that move, in the paper's units and the eigenbasis."""
    weights, dim = start.draw(task, seed), task.dim
    basis = np.eye(dim) if task.basis is None else np.asarray(task.basis)
    found = {"value": factor * weights["value"][:, dim:, dim:]}
    if start.rank is None:
        found["key_query"] = factor * (basis.T @ weights["key_query"][:, :dim, :dim] @ basis)
    else:
        found |= {name: factor * weights[name][:, :, :dim] @ basis for name in ("key", "query")}
    return found


def _live(task: Task, ends: Sequence[Weights], factor: float, many: bool) -> Weights:
    """Weights as a `Run` has them: zero blocks in their places, the tokens' coordinates."""
    dim, outputs = task.dim, task.outputs
    basis = np.eye(dim) if task.basis is None else np.asarray(task.basis)
    found = {name: np.stack([end[name] for end in ends]) / factor for name in ends[0]}
    for name in found.keys() - {"value"}:
        found[name] = found[name] @ basis.T
    before, after = [(0, 0)] * 3, [(0, 0)] * 2
    found["value"] = np.pad(found["value"], [*before, (dim, 0)])
    if "key_query" in found:
        found["key_query"] = np.pad(basis @ found["key_query"], [*after, (0, outputs), (0, 0)])
    else:
        found["key"] = np.pad(found["key"], [*before, (0, outputs)])
    return found if many else {name: x[0] for name, x in found.items()}


def _least(moments: Population, start: Start) -> float:
    """The least loss that so many keys and queries can reach, whatever the number of outputs."""
    _, moments = unpacked(moments)
    floor, ranks = float(moments.floor), start.heads * (start.rank or len(moments.spectrum))
    if start.rank is None or ranks >= len(moments.spectrum):
        return floor
    if moments.is_diagonal:
        gains = np.sort(moments.cross * moments.best)[::-1]
    else:
        values, vectors = np.linalg.eigh(moments.gram)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        whole = root @ moments.best * np.sqrt(moments.spectrum)
        gains = np.linalg.svd(whole, compute_uv=False) ** 2
    return floor + float(gains[ranks:].sum())


Found = tuple[np.ndarray, np.ndarray, Weights, int, int, str]


def _in_its_clock(moments: Population, weights: Weights, time: np.ndarray) -> Found:
    """L − L* of aligned merged attention: w₂ and W₁ m in equal parts, m along the cross moment."""
    _, moments = unpacked(moments)
    cross, decay = moments.cross, moments.gram * moments.spectrum
    modes = np.einsum("hdd,d->h", weights["key_query"], cross / np.linalg.norm(cross))
    size = 0.5 * float(np.linalg.norm(weights["value"][:, 0, 0] + modes))
    floor = float(moments.floor)
    if size == 0.0:  # never leaves
        return np.full(time.shape, moments.power - floor), np.zeros(time.shape), {}, 0, 0, "clock"
    ones, last = np.ones_like(cross), float(time.max())
    clock = Clock(cross, decay, decay / cross, ones, size, floor, last)
    excess, off = clock.excess(time)
    return excess, off / (floor + excess), {}, clock.steps, clock.steps, "clock"


def _head_by_head(
    slope: Slope, least: float, time: np.ndarray, method: Method | None, step: float | None
) -> Found:
    """L − L* of all heads, with the error that a looser run tells."""
    places, back = np.unique(time, return_inverse=True)
    fine = _followed(slope, least - slope.floor, places, method, step, 1.0)
    loose = _followed(slope, least - slope.floor, places, method, step, _LOOSER)
    # The order-2 method's errors go like tolerance^⅔, the others' faster: a third is due at most.
    loss, off = slope.floor + fine.excess, np.abs(loose.excess - fine.excess)
    off += _ROUNDING * loss + _NOTHING * slope.power
    error = np.divide(off, loss, out=np.ones_like(off), where=loss > 0.0)
    counts = (fine.steps + loose.steps, fine.evaluations + loose.evaluations)
    return fine.excess[back], error[back], slope.split(fine.y), *counts, fine.method


@dataclass(frozen=True)
class _Followed:
    excess: np.ndarray
    y: np.ndarray
    steps: int
    evaluations: int
    method: str


def _followed(
    slope: Slope,
    least: float,
    times: np.ndarray,
    method: Method | None,
    tolerance: float | None,
    looser: float,
) -> _Followed:
    """One run to increasing times, by one method after another."""
    small = slope.start.size <= _SMALL
    names = [method] if method else ["explicit", "implicit" if small else "chebyshev"]
    enough = max(_ROUNDED * (slope.floor + least), _NOTHING * slope.power)
    weight = slope.sizes()
    here, found, steps, name = slope.excess(slope.start), [], 0, names[0]
    calls = _Calls(slope.slope)
    t, y, left = 0.0, slope.start, times.tolist()
    while left and left[0] == 0.0:
        found.append(here)
        del left[0]
    for name in names if left else []:
        kind, usual = _METHODS[name]
        size = looser * (tolerance or usual)
        with np.errstate(over="ignore", invalid="ignore"), warnings.catch_warnings():
            # A matrix that is singular where steps are endless is met by a shorter step.
            warnings.simplefilter("ignore", LinAlgWarning)
            solver = kind(calls, t, y, left[-1], rtol=size, atol=1e-3 * size * weight)
            while (
                left
                and here - least > enough
                and not (calls.count > _EXPLICIT and name != names[-1])
            ):
                solver.step()
                if solver.status == "failed" or calls.count > _MOST:
                    raise ValueError(
                        f"times must end before about {solver.t:.3g} for this start, not at "
                        f"{times[-1]:g}: beyond, the flow takes too many steps"
                    )
                steps += 1
                if left[0] <= solver.t:
                    inside = solver.dense_output()
                    while left and left[0] <= solver.t:
                        found.append(slope.excess(inside(left[0])))
                        del left[0]
                here = slope.excess(solver.y)
        t, y = float(solver.t), solver.y
        if not left or here - least <= enough:
            break
    found += [here] * len(left)  # as it stays
    return _Followed(np.array(found), y, steps, calls.count, name)


class _Calls:
    """A slope that counts how often it is evaluated."""

    def __init__(self, slope: Callable[[float, np.ndarray], np.ndarray]):
        self.slope, self.count = slope, 0

    def __call__(self, t: float, y: np.ndarray) -> np.ndarray:
        self.count += 1
        return self.slope(t, y)
