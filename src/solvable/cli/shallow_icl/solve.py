"""``solvable solve shallow_icl``: L(t) of training on the population, in closed form."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..compute import ComputeOptions
from ..output import Curve, OutputOptions, Rows
from ..progress import Waiting
from .options import (
    DescentOptions,
    ModelOptions,
    TaskOptions,
    model_facts,
    model_name,
    run_words,
)

if TYPE_CHECKING:
    from solvable import shallow_icl


CLEAR = 1.3
SMALL = 0.01  # of a scale in the paper's units, up to which heads leave one by one
_CAVEAT = f"margin below {CLEAR}: two heads grow nearly together, and what follows may be off"
_LARGE = "times are good for smaller scales: at this one heads may leave as mixtures, some far off"


@dataclass(frozen=True)
class Theory:
    """A theory curve, with what else the closed forms tell.

    Attributes:
        loss: L at the times asked for.
        facts: for the JSON document.
        rows: for the reader.
    """

    loss: list[float]
    facts: dict[str, Any]
    rows: Rows


@dataclass(frozen=True)
class SolveShallowIcl:
    """Compute L(t) of training on the population, without training.

    Separate attention of rank 1, or merged attention on white tokens; at the points of train.
    """

    task: TaskOptions
    model: ModelOptions
    descent: DescentOptions
    output: OutputOptions
    compute: ComputeOptions

    def run(self) -> int:
        """Compute the curve and write it."""
        self.output.check()
        options = self.descent.build(self.model.preset)
        with Waiting("solving"):
            self.compute.prepare()
            from solvable import shallow_icl, training
            from solvable.shallow_icl.run import positive_rates
            from solvable.validation import floating

            task, start = self.task.build(), self.model.build()
            positive_rates(floating("lr", options["lr"]))
            step = training.log_steps(options["steps"], options["log_every"], options["log_points"])
            factor = shallow_icl.unit_factor(task, start, options["units"])
            pace = 2.0 * factor**2 * options["lr"]  # of t/τ, a step
            time = (pace * step).tolist()
            solve = _staircase if start.kind == "separate" else _white
            theory = solve(task, start, options, pace, time)
        how = f"shallow_icl, theory of {model_name(start)} on the population"
        self.output.write(
            Curve(
                facts={
                    "lab": "shallow_icl",
                    "command": "solve",
                    "task": self.task.facts(task),
                    **model_facts(start),
                    **options,
                    **theory.facts,
                },
                heading="\n".join([how, self.task.words(task), run_words(start, options)]),
                columns={"step": step.tolist(), "time": time, "loss": theory.loss},
                shown={"step": "step", "time": "t/τ", "loss": "L(t)"},
                rows=theory.rows,
                symbol="t/\\tau",
                log="",
                levels=[plateau["loss"] for plateau in theory.facts.get("plateaus", ())],
            )
        )
        return 0


def _staircase(
    task: "shallow_icl.Task",
    start: "shallow_icl.Start",
    options: dict[str, Any],
    pace: float,
    time: list[float],
) -> Theory:
    """Separate attention: plateaus, and drops from one to the next."""
    from solvable import shallow_icl

    drops = shallow_icl.drop_times(task, start, units=options["units"], seed=options["seed"])
    levels = shallow_icl.plateau_losses(task).tolist()
    plateaus: list[dict[str, Any]] = [{"learned": 0, "loss": levels[0]}]
    for m, (at, margin) in enumerate(zip(drops.time.tolist(), drops.margin.tolist(), strict=True)):
        plateaus.append(
            {
                "learned": m + 1,
                "loss": levels[m + 1],
                "eigenvalue": float(task.eigenvalues[m]),
                "time": at,
                "step": at / pace,
                "margin": margin,
            }
        )
    headings = ("learned", "loss", "eigenvalue", "drop at t/τ", "step", "margin")
    names = ("learned", "loss", "eigenvalue", "time", "step", "margin")
    rows = [tuple(_word(plateau.get(name)) for name in names) for plateau in plateaus]
    caveats = [_CAVEAT] if drops.margin.min() < CLEAR else []
    if drops.factor * start.scale > SMALL:
        caveats.append(_LARGE)
    return Theory(
        loss=shallow_icl.staircase_loss(task, drops.time, time).tolist(),
        facts={"plateaus": plateaus},
        rows=Rows(headings, rows, "\n".join(caveats)),
    )


def _white(
    task: "shallow_icl.Task",
    start: "shallow_icl.Start",
    options: dict[str, Any],
    pace: float,
    time: list[float],
) -> Theory:
    """Merged attention, or the MLP that it is, on white tokens."""
    from solvable import shallow_icl
    from solvable.shallow_icl.run import live

    if start.attention != "linear":
        raise ValueError(f"attention must be linear for a theory curve, not {start.attention}")
    least, most = float(task.eigenvalues[-1]), float(task.eigenvalues[0])
    if most > least:
        raise ValueError(
            f"spectrum must be white for the theory curve of --model {start.kind}, not from "
            f"{least:g} to {most:g}; solvable train shallow_icl --model merged --blocks aligned "
            "has any spectrum"
        )
    factor = shallow_icl.unit_factor(task, start, options["units"])
    drawn = live(start.draw(task, options["seed"]), task.dim)
    weights = {name: factor * entries for name, entries in drawn.items()}
    u0 = float(shallow_icl.growing_mode(task, **weights))
    escape = float(shallow_icl.escape_time(task, min(1.0, math.sqrt(u0))))
    middle = float(shallow_icl.half_rise_time(task, u0))
    loss = shallow_icl.white_loss(task, u0, [*time, 0.0, escape, middle, math.inf]).tolist()
    marks = dict(zip(("start", "escape", "half risen", "end"), loss[len(time) :], strict=True))
    when = {"start": 0.0, "escape": escape, "half risen": middle, "end": math.inf}
    return Theory(
        loss=loss[: len(time)],
        facts={
            "growing_mode": u0,
            "marks": [
                {"mark": name, "loss": level, "time": when[name], "step": when[name] / pace}
                for name, level in marks.items()
            ],
        },
        rows=Rows(
            ("", "loss", "t/τ", "step"),
            [
                (name, _word(level), _word(when[name]), _word(when[name] / pace))
                for name, level in marks.items()
            ],
        ),
    )


def _word(value: int | float | None) -> str:
    """A number to read; nothing where there is none, or none that is finite."""
    return "" if value is None or value == math.inf else f"{value:.6g}"
