"""Who answers the questions of `solvable.labs.shallow_icl`."""

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..compiling import stage
from ..labs.shallow_icl import Asked
from ..training import Training
from . import model
from . import reduced as reduction
from .run import live, positive_rates
from .sample_flow import sample_flow
from .start import Start, merged, mlp, separate
from .task import Sequences, Task, sample
from .theory import (
    Drops,
    drop_times,
    escape_rate,
    escape_time,
    flow,
    growing_mode,
    half_rise_time,
    largest_rate,
    plateau_losses,
    staircase_loss,
)
from .units import unit_factor

if TYPE_CHECKING:
    import xarray as xr


MOST_RATES = 2000  # dimensions, beyond which a sharpness would take its time


def task_of(q: Asked) -> Task:
    """The data law of a settled question."""
    told = dict(vars(q.task))
    eigenvalues = told.pop("eigenvalues")
    if eigenvalues is not None:
        told["spectrum"] = list(eigenvalues)
    if told["normalise"] is None:
        del told["normalise"]
    return Task(**told)


def start_of(q: Asked) -> Start:
    """The model of a settled question, and where it starts."""
    told: Any = q.start
    if told.model == "mlp":
        return mlp(told.heads, told.scale)
    if told.model == "merged":
        return merged(told.heads, told.scale, attention=told.attention)
    return separate(told.heads, told.rank, told.scale, told.init, attention=told.attention)


def _factor(q: Asked) -> float:
    return unit_factor(task_of(q), start_of(q), str(q.schedule.units))


def pace(q: Asked) -> float:
    """How much of t/τ a step of gradient descent is worth."""
    rate = q.schedule.lr or 0.0
    positive_rates(stage(rate))
    return 2.0 * _factor(q) ** 2 * rate


def _is_staircase(q: Asked) -> bool:
    """Whether it waits at plateaus that are known: separate linear attention."""
    law, told = q.task, q.start
    fresh = law.in_context == 1.0 and law.labels == "task"
    known = told.rank == 1 or law.outputs == 1
    return fresh and known and (told.model, told.attention) == ("separate", "linear")


@lru_cache(maxsize=8)
def drops_of(q: Asked) -> Drops | None:
    """The predicted drops of a settled question, if they can be predicted."""
    if not _is_staircase(q) or q.task.outputs > 1 or q.sample.sequences is not None:
        return None
    task = task_of(q)
    if np.any(np.diff(np.asarray(task.eigenvalues)) == 0.0):
        return None
    return drop_times(task, start_of(q), units=str(q.schedule.units), seed=q.schedule.seed)


class Theory:
    """The loss of gradient flow at any times, and of separate attention its predicted drops."""

    def __init__(self, q: Asked):
        self.q, self.task, self.start, self.data = q, task_of(q), start_of(q), _data(q)

    def _flow(self, times: np.ndarray) -> dict[str, Any]:
        """At increasing times."""
        how = self.q.schedule
        blocks: Any = how.blocks
        options: dict[str, Any] = {"units": how.units, "seed": how.seed}
        if isinstance(self.data, Sequences):
            # What can be trained can be followed.
            reduction.prepare(self.data, self.start, blocks=blocks, **_training(self.q))
            usual = "zero" if self.start.kind == "mlp" else "all"
            found = sample_flow(self.data, self.start, times, blocks=blocks or usual, **options)
            return {"loss": found}
        found = flow(self.task, self.start, times, blocks=blocks, **options)
        return {"loss": found.loss, "error": found.error}

    def __call__(self, t: Any) -> dict[str, Any]:
        """L(t); on the population beside it the staircase, and when each eigenvector is learned."""
        times, place = np.unique(t, return_inverse=True)
        seen: dict[str, Any] = {name: x[place] for name, x in self._flow(times).items()}
        if "error" in seen:
            seen["error"] = (("time",), seen["error"], {"long_name": "estimated relative error"})
        drops = drops_of(self.q)
        if drops is None:
            return seen
        if self.start.rank == 1:  # else heads that have grown learn more, and drops are steeper
            stairs = np.asarray(staircase_loss(self.task, drops.time, t))
            seen["staircase"] = (("time",), stairs, {"long_name": "predicted drops"})
        learned = {
            "drop_time": drops.time,
            "drop_step": drops.time / pace(self.q),
            "margin": drops.margin,
        }
        for name, values in learned.items():  # nothing is learned at first
            seen[name] = (("learned",), np.r_[np.nan, values])
        return seen


def theory(q: Asked) -> Theory:
    """Gradient flow, on the population or on sequences."""
    return Theory(q)


def _data(q: Asked) -> Task | Sequences:
    task, told = task_of(q), q.sample
    if told.sequences is not None:
        given: dict[str, Any] = dict(vars(told))
        return sample(task, given.pop("sequences"), seed=given.pop("data_seed"), **given)
    if task.in_context != 1.0:
        raise ValueError(
            f"in_context must be 1 on the population, not {task.in_context:g}; sequences trains "
            "on a sample"
        )
    return task


def _training(q: Asked) -> dict[str, Any]:
    return {"lr": q.schedule.lr, "units": q.schedule.units, "seed": q.schedule.seed}


def reduced(q: Asked) -> Training:
    """Attention trained on the moments of its data, or on those of the population."""
    blocks: Any = q.schedule.blocks
    return reduction.prepare(_data(q), start_of(q), blocks=blocks, **_training(q))


def tokens(q: Asked) -> Training:
    """The whole attention block trained on tokens."""
    data: Any = _data(q)
    return model.prepare(data, start_of(q), **_training(q))


def derived(data: "xr.Dataset") -> "xr.Dataset":
    """The levels at which separate attention waits."""
    q = Asked.of(data.attrs["question"])
    if not _is_staircase(q):
        return data
    task = task_of(q)
    learned = np.arange(min(task.dim, (q.start.heads or 0) * (q.start.rank or 0)) + 1)
    eigenvalue = np.r_[np.nan, np.asarray(task.eigenvalues)][learned]
    told = {"long_name": "plateau" + " of the population" * (q.sample.sequences is not None)}
    return data.assign_coords(learned=learned).assign(
        plateau=(("learned",), np.asarray(plateau_losses(task))[learned], told),
        eigenvalue=(("learned",), eigenvalue),
    )


def facts(q: Asked) -> dict[str, tuple[float | None, str]]:
    """What the closed forms tell of the population: levels, how long the start lasts, rates."""
    task, start = task_of(q), start_of(q)
    if q.sample.sequences is not None:
        return {"pace": (pace(q), "t/τ that a step of training is worth")}
    levels = np.asarray(plateau_losses(task))
    told: dict[str, tuple[float | None, str]] = {
        "pace": (pace(q), "t/τ that a step of training is worth"),
        "floor": (float(levels[-1]), "loss with everything learned"),
    }
    learned = start.heads * (start.rank or task.dim)
    if learned < task.dim:
        told["heads_floor"] = (float(levels[learned]), "loss that so few heads leave")
    if (start.rank is None or task.outputs == 1) and task.dim <= MOST_RATES:
        rate = float(largest_rate(task, start, str(q.schedule.units)))
        told["largest_lr"] = (rate, "largest η at which the end is stable")
    if start.rank is not None:
        return told
    drawn = live(start.draw(task, q.schedule.seed), task.dim)
    weights = {name: _factor(q) * x for name, x in drawn.items()}
    mode = float(growing_mode(task, **weights))
    told["escape_rate"] = (float(escape_rate(task)), "rate per t/τ at which the start is left")
    told["growing_mode"] = (mode, "size u₀ of the growing mode at the start")
    if mode > 0.0:
        lasts = float(escape_time(task, min(1.0, math.sqrt(mode))))
        told["escape_time"] = (lasts, "t/τ = ln(1/√u₀)/rate until it is left")
    if len(set(np.asarray(task.eigenvalues).tolist())) == 1:
        told["half_rise_time"] = (float(half_rise_time(task, mode)), "t/τ at half of the rise")
    return told
