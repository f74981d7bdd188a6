"""Witnesses against each other, judged by numbers that nobody chose.

The first witness that trains, in its exact small state space, is what others are judged by. What a
closed form of the flow is allowed beside it is what the step is worth, and that is measured:
gradient descent follows the flow to first order in lr, so twice what halving lr changes is the
distance to it. What agrees in law only is judged by means over seeds and their standard errors.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .asking import Lab
from .question import Question, whole_number
from .schedule import schedule_of

if TYPE_CHECKING:
    import xarray as xr

    from .training import Progress

_ROUND = 1e-9  # of sums in another order
_SQUARE = 1e-14  # of a loss r² by its root: ΔL/L = 2Δr/r, so it grows like √(max L / L)
_SECOND = 1.2  # for the next order in the step
ERRORS = 5.0  # standard errors


def compare(
    lab: Lab,
    question: Question | None = None,
    *,
    points: int = 40,
    seeds: int = 16,
    progress: "Progress | None" = None,
    **given: Any,
) -> "xr.Dataset":
    """Every witness that can answer a question, at the same log-spaced steps.

    Args:
        lab: which model.
        question: what is asked; the lab's default unless given, changed by
        given: single fields, such as ``alpha=2.0``.
        points: of the grid, evenly spaced in log step.
        seeds: how many, where witnesses agree in law only; from the question's seed on.
        progress: called with (step, steps) now and then.

    Returns:
        `loss` of every witness, its `gap` to the first that trains, relative, and what is
        `allowed`. In law, all are means over seeds, five standard errors are allowed besides, and
        `errors` tells how many the gap needs. The attributes `verdicts` and `silent` are JSON
        documents: of each witness whether it agrees or differs, and of those that did not answer,
        why not.

    Raises:
        ValueError: with one sentence, where fewer than two witnesses can answer.
    """
    asked = (question or lab.described()).changed(**given).settled()
    points, seeds = whole_number("points", points, 2), whole_number("seeds", seeds, 2)
    whole_number("steps", asked.flat().get("steps", 1), 1)
    crew = _Crew(lab, asked, points, seeds, progress)
    return crew.judged()


class _Crew:
    """The witnesses of one question, and what they say."""

    def __init__(
        self, lab: Lab, question: Question, points: int, seeds: int, progress: "Progress | None"
    ):
        from .training import log_steps

        self.lab, self.question, self.progress = lab, question, progress
        self.silent = {name: lab.refusal(question, name) for name in lab.witnesses}
        able = [name for name, reason in self.silent.items() if not reason]
        trained = [name for name in able if lab.witnesses[name].trains]
        if not trained:
            raise ValueError(f"nothing can be compared: {self._reasons()}")
        self.first, self.others = trained[0], [name for name in able if name != trained[0]]
        schedule = schedule_of(question)
        self.steps = log_steps(schedule.steps, None, points)
        flat = question.flat()
        self.law = {
            name: any(flat[field] is not None for field in lab.witnesses[name].in_law)
            for name in self.others
        }
        several = seeds if any(self.law.values()) else 1
        self.seeds = [schedule.seed + k for k in range(several)]

    def _reasons(self) -> str:
        return "; ".join(f"{name}: {reason}" for name, reason in self.silent.items() if reason)

    def _trained(self, witness: str, seeds: list[int], halves: int = 1) -> "xr.DataArray":
        """Losses of as many runs as there are seeds, each at lr/halves and the same times."""
        import xarray as xr

        from .training import run_all

        rate = self.question.flat()["lr"] / halves
        asked = [self.question.changed(seed=seed, lr=rate) for seed in seeds]
        trainings = [self.lab.training(each, witness) for each in asked]
        runs = run_all(trainings, at=(halves * self.steps).tolist(), progress=self.progress)
        found: Any = [run.to_xarray().loss for run in runs]
        if halves > 1:  # the same times, but for rounding
            found = [x.assign_coords(time=self.time, step=("time", self.steps)) for x in found]
        else:
            self.time = found[0].time.values
        return xr.concat(found, dim="seed", join="override")

    def judged(self) -> "xr.Dataset":
        """What everybody says, and how far it is from the first that trains."""
        import xarray as xr

        first = self._trained(self.first, self.seeds)
        said, gaps, allowances, errors = {self.first: first}, {}, {}, {}
        verdicts: dict[str, str] = {}
        half = None
        for name in self.others:
            try:
                if self.lab.witnesses[name].trains:
                    seeds = self.seeds if self.law[name] else self.seeds[:1]
                    said[name] = self._trained(name, seeds)
                else:
                    said[name] = self._solved(name)
                    if half is None:
                        half = self._trained(self.first, self.seeds, halves=2)
            except ValueError as error:
                self.silent[name] = str(error)
                continue
            ours = first if self.law[name] else first.isel(seed=[0])
            share = None
            if not self.lab.witnesses[name].trains:
                assert half is not None
                share = half if self.law[name] else half.isel(seed=[0])
            gap, allowed, error = _judge(ours, said[name], share, self.law[name])
            gaps[name], allowances[name] = gap, allowed
            verdicts[name] = _verdict(gap, allowed, error)
            if error is not None:
                errors[name] = error
        if not gaps:
            raise ValueError(f"nothing can be compared with the {self.first}: {self._reasons()}")
        losses = {name: _mean(x) for name, x in said.items()}
        data = xr.Dataset(
            {
                "loss": _stacked(losses),
                "gap": _stacked(gaps),
                "allowed": _stacked(allowances),
                **({"errors": _stacked(errors)} if errors else {}),
            }
        )
        return self._labelled(data, verdicts)

    def _solved(self, name: str) -> "xr.DataArray":
        data = self.lab.solved(self.question, name, self.time)
        return data.loss.expand_dims("seed").assign_coords(step=("time", self.steps))

    def _labelled(self, data: "xr.Dataset", verdicts: Mapping[str, str]) -> "xr.Dataset":
        taken = dict.fromkeys(
            name
            for who in self.lab.witnesses
            if who not in self.silent or not self.silent[who]
            for name in self.lab.taken(who)
        )
        label = self.lab.labelled(data, self.question, self.first)
        return label.assign_attrs(
            witness="all",
            title="its witnesses against each other",
            first=self.first,
            seeds=len(self.seeds),
            caption=self.question.caption(taken),
            verdicts=json.dumps(verdicts),
            silent=json.dumps({name: why for name, why in self.silent.items() if why}),
            agrees=int(all(verdict.startswith("agrees") for verdict in verdicts.values())),
        )


def _judge(
    ours: "xr.DataArray", theirs: "xr.DataArray", half: "xr.DataArray | None", law: bool
) -> tuple["xr.DataArray", "xr.DataArray", "xr.DataArray | None"]:
    """Gap and allowance, both relative; in law, how many standard errors the gap needs of it."""
    import xarray as xr

    mean, other = _mean(ours), _mean(theirs)
    size: Any = abs(mean)
    most = size.max("time")
    floor = _SQUARE**2 * most  # what is left of a loss that round-off has taken
    scale = xr.where(size > floor, size, xr.where(floor > 0.0, floor, 1.0))
    gap = abs(other - mean) / scale
    allowed = (_ROUND * size + _SQUARE * np.sqrt(most * size) + floor) / scale
    if half is not None:
        allowed = allowed + _SECOND * _step_share(mean, _mean(half), size) / scale
    if not law:
        return gap, allowed, None
    error = np.sqrt(_variance(ours) + _variance(theirs)) / scale
    beyond = np.maximum(gap - allowed, 0.0)
    errors = beyond / xr.where(error > 0.0, error, np.finfo(float).tiny)
    return gap, allowed + ERRORS * error, errors


def _step_share(mean: Any, half: Any, size: Any) -> Any:
    """How far the flow is, from runs at lr and lr/2: the larger of two extrapolations to lr = 0.

    A small distance is linear in lr; where rates differ for long it grows exponentially, and the
    logarithm is what is linear.
    """
    import xarray as xr

    there = size > 0.0
    ratio = xr.where(there, half / xr.where(there, mean, 1.0), 1.0)
    straight = xr.where(there, 2.0 * abs(ratio - 1.0), 0.0) * size
    return np.maximum(xr.where(there, straight, 2.0 * abs(half)), abs(ratio**2 - 1.0) * size)


def _verdict(gap: "xr.DataArray", allowed: "xr.DataArray", errors: "xr.DataArray | None") -> str:
    found = "agrees" if bool((gap <= allowed).all()) else "differs"
    if errors is None:
        return found
    return f"{found} in law ({float(errors.max(skipna=False)):.1f} standard errors)"


def _mean(x: "xr.DataArray") -> "xr.DataArray":
    return x.mean("seed", skipna=False)


def _variance(x: "xr.DataArray") -> "xr.DataArray":
    """Of the mean over seeds; none of what is not drawn."""
    count = x.sizes["seed"]
    return x.var("seed", ddof=1, skipna=False) / count if count > 1 else 0.0 * _mean(x)


def _stacked(parts: Mapping[str, "xr.DataArray"]) -> "xr.DataArray":
    import xarray as xr

    return xr.concat(
        list(parts.values()),
        xr.DataArray(list(parts), dims="witness", name="witness"),
        join="outer",
    )


def worst(data: "xr.Dataset", witness: str) -> tuple[float, float]:
    """The largest gap of a witness, and its largest share of what is allowed where it is."""
    gap, allowed = data.gap.sel(witness=witness), data.allowed.sel(witness=witness)
    return float(gap.max(skipna=False)), float((gap / allowed).max(skipna=False))
