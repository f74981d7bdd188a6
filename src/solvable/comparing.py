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

from .asking import Broken, Lab
from .question import Question, whole_number
from .schedule import schedule_of

if TYPE_CHECKING:
    import xarray as xr

    from .training import Progress

_ROUND = 1e-9  # of sums in another order
_SQUARE = 1e-14  # of a loss r² by its root: ΔL/L = 2Δr/r, so it grows like √(max L / L)
_NEXT = 1.2  # for orders of the step beyond the second
_WORTH = 0.5  # of the loss: where the step is worth more, the flow cannot be told from it
_COARSE = 0.75  # of what halving lr changes, halving it again should change about a half
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
    """The losses of every witness over time that can answer, at the same log-spaced steps.

    Args:
        lab: which model.
        question: what is asked; the lab's default unless given, changed by
        given: single fields, such as ``alpha=2.0``.
        points: of the grid, evenly spaced in log step.
        seeds: how many, where witnesses agree in law only; from the question's seed on.
        progress: called with (step, steps) now and then.

    Returns:
        `loss` of every witness, its `gap` to the first that trains, relative, what is `allowed`,
        and whether a point is `judged`: not where the step is worth more than half of the loss. In
        law, losses are means over seeds, five standard errors are allowed besides, and `errors`
        tells how many the gap needs; a witness that agrees seed by seed is asked for the first
        seed alone, beside which `single` is the first's own loss. The attributes `verdicts` and
        `silent` are JSON documents: of each witness whether it agrees, differs or cannot be judged,
        and of those that did not answer, why not.

    Raises:
        ValueError: with one sentence, where fewer than two witnesses can answer.
    """
    asked = lab.asked(question, given).settled()
    points, seeds = whole_number("points", points, 2), whole_number("seeds", seeds, 2)
    whole_number("steps", asked.flat().get("steps", 1), 1)
    return _Crew(lab, asked, points, seeds, progress).judged()


class _Crew:
    """The witnesses of one question, and what they say."""

    def __init__(
        self, lab: Lab, question: Question, points: int, seeds: int, progress: "Progress | None"
    ):
        from .training import log_steps

        self.lab, self.question, self.progress = lab, question, progress
        in_time = [name for name, who in lab.witnesses.items() if who.axis == "time"]
        self.silent = {name: self._refusal(name) for name in in_time}
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
        self.halved: dict[int, xr.DataArray] = {}

    def _refusal(self, name: str) -> str:
        apart = self.lab.witnesses[name].apart
        return self.lab.refusal(self.question, name) or (apart(self.question) if apart else "")

    def _reasons(self) -> str:
        return "; ".join(f"{name}: {reason}" for name, reason in self.silent.items() if reason)

    def _trained(self, witness: str, seeds: list[int], parts: int = 1) -> "xr.DataArray":
        """Losses of as many runs as there are seeds, each at lr/parts and the same times."""
        import xarray as xr

        from .training import run_all

        rate = self.question.flat()["lr"] / parts
        asked = [self.question.changed(seed=seed, lr=rate) for seed in seeds]
        trainings = [self.lab.training(each, witness) for each in asked]
        runs = run_all(trainings, at=(parts * self.steps).tolist(), progress=self.progress)
        found: Any = [run.to_xarray().loss for run in runs]
        if not hasattr(self, "time"):  # of the first; of others the same, but for rounding
            self.time = found[0].time.values
        found = [x.assign_coords(time=self.time, step=("time", self.steps)) for x in found]
        return xr.concat(found, dim="seed", join="override")

    def _part(self, parts: int, law: bool) -> "xr.DataArray":
        """The first witness at lr/parts, once for all that need it."""
        if parts not in self.halved:
            self.halved[parts] = self._trained(self.first, self.seeds, parts)
        return self.halved[parts] if law else self.halved[parts].isel(seed=[0])

    def judged(self) -> "xr.Dataset":
        """What everybody says, and how far it is from the first that trains."""
        import xarray as xr

        first = self.halved[1] = self._trained(self.first, self.seeds)
        said, found = {self.first: first}, {}
        for name in self.others:
            law, trains = self.law[name], self.lab.witnesses[name].trains
            try:
                if trains:
                    said[name] = self._trained(name, self.seeds if law else self.seeds[:1])
                else:
                    said[name] = self._solved(name)
            except Broken:
                raise
            except ValueError as error:
                self.silent[name] = str(error)
                continue
            runs = [self._part(parts, law) for parts in ((1,) if trains else (1, 2, 4))]
            with np.errstate(all="ignore"):  # of what diverged
                found[name] = _judge(runs, said[name], law)
        if not found:
            raise ValueError(f"nothing can be compared with the {self.first}: {self._reasons()}")
        parts = {"loss": _stacked({name: _mean(x) for name, x in said.items()})}
        for word in ("gap", "allowed", "judged", "errors"):
            parts[word] = _stacked({name: each[word] for name, each in found.items()})
        if not any(self.law[name] for name in found):
            del parts["errors"]
        if alone := [name for name in said if len(self.seeds) > said[name].sizes["seed"] > 0]:
            alone = [name for name in alone if self.lab.witnesses[name].trains]
        if alone:
            parts["single"] = first.isel(seed=0)
        label = self._labelled(xr.Dataset(parts), {n: each["verdict"] for n, each in found.items()})
        return label.assign_attrs(alone=json.dumps(alone))

    def _solved(self, name: str) -> "xr.DataArray":
        data = self.lab.solved(self.question, name, self.time)
        return data.loss.expand_dims("seed").assign_coords(step=("time", self.steps))

    def _labelled(self, data: "xr.Dataset", verdicts: Mapping[str, str]) -> "xr.Dataset":
        spoke = [name for name, reason in self.silent.items() if not reason]
        taken = dict.fromkeys(name for who in spoke for name in self.lab.taken(who))
        label = self.lab.labelled(data, self.question, self.first)
        return label.assign_attrs(
            witness="all",
            title="its witnesses against each other",
            first=self.first,
            seeds=len(self.seeds),
            caption=self.question.caption(taken)
            + (f", {len(self.seeds)} seeds" if len(self.seeds) > 1 else ""),
            verdicts=json.dumps(verdicts),
            silent=json.dumps({name: why for name, why in self.silent.items() if why}),
            agrees=int(all(verdict.startswith("agrees") for verdict in verdicts.values())),
        )


def _judge(runs: "list[xr.DataArray]", theirs: "xr.DataArray", law: bool) -> dict[str, Any]:
    """Gap and allowance, both relative, which points are judged, and the verdict.

    Args:
        runs: of the first witness: at lr, and for what does not train at lr/2 and lr/4.
        theirs: what the other one says.
        law: whether they agree on the average only.
    """
    import xarray as xr

    mean, other = _mean(runs[0]), _mean(theirs)
    size: Any = abs(mean)
    most = size.copy(data=np.maximum.accumulate(size.values, axis=size.get_axis_num("time")))
    floor = _SQUARE**2 * most  # what is left of a loss, once larger, that round-off has taken
    scale = xr.where(size > floor, size, xr.where(floor > 0.0, floor, 1.0))
    gap = abs(other - mean) / scale
    known = (_ROUND * size + _SQUARE * np.sqrt(most * size) + floor) / scale
    judged = gap.notnull()
    if len(runs) > 1:
        worth, more = _step_share(*(_mean(run) / scale for run in runs))
        known, judged = known + _NEXT * worth + more, worth <= _WORTH
    error = np.sqrt(_variance(runs[0]) + _variance(theirs)) / scale if law else 0.0 * scale
    allowed = known + ERRORS * error
    beyond = np.maximum(gap - known, 0.0)
    found = {
        "gap": gap,
        "allowed": allowed,
        "judged": judged.astype(float),
        "errors": xr.where(beyond > 0.0, beyond / error, 0.0),
    }
    finite = [x.notnull() & (abs(x) < np.inf) for x in (*runs, theirs)]
    if lost := [x for x in finite if not bool(x.all())]:
        at = int(mean.step[_first(~lost[0])])
        return {**found, "verdict": f"not judged: the loss is not finite at step {at}"}
    off = ~(gap <= allowed) & judged
    large = "not judged: lr is too large to follow the flow"
    if float(judged.isel(time=slice(1, None)).mean()) < 0.5:
        return {**found, "verdict": large}
    most_errors = float(found["errors"].where(judged, 0.0).max())
    words = f" in law ({most_errors:.2g} standard errors)" if law else ""
    if not bool(off.any()):
        return {**found, "verdict": f"agrees{words}"}
    if len(runs) > 1 and _coarse([_mean(run) / scale for run in runs]):
        return {**found, "verdict": large}
    if law and not bool((off & ((error > 0.0) | (off.step == 0))).any()):
        return {**found, "verdict": "not judged: all seeds drew the same; --seeds takes more"}
    return {**found, "verdict": f"differs{words}"}


def _step_share(whole: Any, half: Any, quarter: Any) -> tuple[Any, Any]:
    """How far the flow may be, from runs at lr, lr/2 and lr/4: in first order, and in second.

    With L(h) = L(0) + c h + d h², twice what halving changes is |c h + 3/2 d h²|, which is the
    distance but for d h²; and c may be 0 at some time.
    """
    return 2.0 * abs(half - whole), 8.0 / 3.0 * abs(whole - 3.0 * half + 2.0 * quarter)


def _coarse(runs: list[Any]) -> bool:
    """Whether halving the step again changes more than it would near the flow."""
    whole, half, quarter = runs
    return bool(abs(quarter - half).max() > _COARSE * abs(half - whole).max())


def _first(where: "xr.DataArray") -> int:
    """The first time at which something holds of any run or seed."""
    others = [dim for dim in where.dims if dim != "time"]
    return int(np.argmax((where.any(others) if others else where).values))


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
    """The largest gap of a witness, and its largest share of what is allowed, where judged."""
    import xarray as xr

    here = data.sel(witness=witness)
    gap, allowed = here.gap, here.allowed
    share = xr.where(gap > 0.0, gap / xr.where(allowed > 0.0, allowed, np.nan), 0.0)
    kept = here.judged == 1.0
    return float(gap.where(kept).max()), float(share.where(kept).max())
