"""When the drops of separate attention come: the plateaus' exact dynamics, without time steps."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ... import training, validation
from ..start import Start
from ..task import Task
from ..units import unit_factor
from ._directions import diagonal, one_output
from ._growth import half_drop_lead
from ._spare import FreshHead, GrownHead


@dataclass(frozen=True)
class Drops:
    """The predicted drops of the loss; leading axes are seeds.

    Attributes:
        time: t/τ at the middle of each drop; infinity where it never comes, 0 where the weights
            start too large for a plateau.
        margin: ``T₂/T₁``, how much longer the second head would have taken to blow up; near 1 two
            heads grow together and the prediction is poor. Infinity where one head is left.
        direction: the place of the eigenvector that is learned, 0 for the largest eigenvalue.
        factor: c of `unit_factor`, for the units that were asked for.
    """

    time: Float[np.ndarray, "*seeds drops"]
    margin: Float[np.ndarray, "*seeds drops"]
    direction: Int[np.ndarray, " drops"]
    factor: float

    def steps(self, lr: Any) -> Float[np.ndarray, "*seeds drops"]:
        """Steps of gradient descent at a rate in the units that were asked for: 2c²η of t/τ each.

        >>> Drops(np.array([8.0]), np.array([2.0]), np.array([0]), 2.0).steps(0.1).tolist()
        [10.0]
        """
        validation.concrete("lr", lr, why="steps are counted")
        rate = validation.floating("lr", lr)
        validation.shaped("lr", rate, ())
        validation.within("lr", rate, 0.0, open_low=True)
        return self.time / (2.0 * self.factor**2 * float(rate))


def drop_times(
    task: Task, start: Start, *, units: str = "paper", seed: int | Sequence[int] = 0
) -> Drops:
    r"""When each eigenvector is learned, from the weights that training starts with.

    On a plateau every small head follows its own exactly solved flow, which blows up at a time T.
    The head with the smallest T is learned next, and half of the drop is over at
    ``T − 1.2534…/(λ_d² v*_d)``, d being the largest eigenvalue left; the others are moved on by T,
    d is taken from what they see, and so on. A drop costs one quadrature a head: no time stepping.
    A head of rank R that has learned a direction has R − 1 pairs of key and query to spare, which
    go on growing like ``e^{λ_d² s}``, ``s = ∫ v dt/τ``: it learns the next ones after a time that
    is a logarithm of the scale, where another head takes its inverse.

    Good where scales are small: at rank 1 and 1e-3 half of all seeds are within 0.5 % at each of
    four drops, at 1e-2 within 6 %; errors fall in proportion to the scale.

    Args:
        task: the data law, with one output and distinct eigenvalues; its task covariance must be
            the identity.
        start: separate attention of any rank, linear, with zero blocks.
        units: of the weights that are drawn: "paper", with 1/N in the attention, or "code".
        seed: of the weights; one, or several for a leading axis of seeds.

    Returns:
        As many drops as pairs of key and query in all heads, or dimensions, whichever are fewer.

    Reference: Sec. 4.2.

    >>> from ..start import separate
    >>> drops = drop_times(Task(dim=4, context=31), separate(heads=5, scale=1e-3), units="code")
    >>> drops.steps(lr=0.02).round(-2).astype(int).tolist()
    [4400, 10500, 19500, 102600]
    """
    validation.concrete("task", task, why="roots are searched for")
    moments = diagonal(task)
    one_output(task)
    _checked(start)
    cross, best = (np.asarray(x, float) for x in (moments.cross, moments.best))
    if np.any(np.diff(cross) > -1e-9 * cross[1:]):
        raise ValueError(
            "spectrum must have distinct eigenvalues for drop times, not "
            f"{np.asarray(task.eigenvalues).tolist()}"
        )
    factor = unit_factor(task, start, units)
    seeds, many = training.seeds_of(seed)
    found = [_predict(_heads(task, start, factor, s, cross), cross, best) for s in seeds]
    time, margin = (np.array(x) for x in zip(*found, strict=True))
    if not many:
        time, margin = time[0], margin[0]
    return Drops(time, margin, np.arange(time.shape[-1]), factor)


def _checked(start: Any) -> None:
    if not isinstance(start, Start):
        raise ValueError(f"start must be made by separate, not {start!r}")
    for field, allowed in (
        ("kind", "separate"),
        ("attention", "linear"),
        ("zero_blocks", True),
    ):
        if getattr(start, field) != allowed:
            raise ValueError(
                f"{field} must be {allowed} for drop times, not {getattr(start, field)}"
            )


def _heads(
    task: Task, start: Start, factor: float, seed: int, cross: np.ndarray
) -> list[FreshHead]:
    """The heads as they are drawn, in the eigenbasis and the paper's units."""
    drawn, dim = start.draw(task, seed), task.dim
    basis = np.eye(dim) if task.basis is None else np.asarray(task.basis, float)
    v = factor * drawn["value"][:, dim, dim]
    k, q = (factor * drawn[name][:, :, :dim] @ basis for name in ("key", "query"))
    parts = zip(v.tolist(), 0.5 * (k + q), 0.5 * (k - q), strict=True)
    return [FreshHead.of(value, a, b, cross) for value, a, b in parts]


def _predict(
    fresh: list[FreshHead], cross: np.ndarray, best: np.ndarray
) -> tuple[list[float], list[float]]:
    """Times and margins of the drops, by direction."""
    left = list(range(min(len(fresh) * len(fresh[0].rise), len(best))))
    grown: list[GrownHead] = []
    times, margins, now = [math.inf] * len(left), [math.inf] * len(left), 0.0
    while left:
        lead = half_drop_lead() / (cross[left[0]] * math.cbrt(best[left[0]]))
        waits = [head.end for head in fresh]
        nexts = [head.soonest(left) for head in grown]
        waits += [max(0.0, t - now) for t, _ in nexts]
        halves = [now + wait - lead for wait in waits[: len(fresh)]] + [t for t, _ in nexts]
        if not waits:
            break
        first = int(np.argmin(halves))
        wait, half = waits.pop(first), halves[first]
        place = nexts[first - len(fresh)][1] if first >= len(fresh) else left[0]
        soon = min(waits, default=math.inf)
        if wait == math.inf:
            margins[place] = 1.0 if waits else math.inf
            fresh = [head for n, head in enumerate(fresh) if n != first]
            left.remove(place)
            continue
        times[place] = max(0.0, half)
        margins[place] = soon / wait if wait > 0.0 else math.inf
        if first < len(fresh):
            grown.append(fresh.pop(first).grown(place, now, cross, best))
        else:
            grown[first - len(fresh)].learn(place)
        grown = [head for head in grown if head.spare]
        fresh = [head.advanced(wait, left.index(place)) for head in fresh]
        left.remove(place)
        now += wait
    return times, margins
