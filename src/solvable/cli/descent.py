"""Training as a command: a bar while it lasts, and what is told of how it ended."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .compute import ComputeOptions
from .output import Curve, OutputOptions
from .progress import Waiting
from .screen import note
from .statuses import DIVERGED, INTERRUPTED


def train(compute: ComputeOptions, work: Callable[[Waiting], Any]) -> tuple[Any, bool]:
    """The run that `work` gives, and whether it went to its end.

    Args:
        compute: how JAX computes; it is prepared first.
        work: trains, moving the bar that it is given.

    Returns:
        The run; after Ctrl-C, what there is of it.
    """
    with Waiting("training") as bar:
        compute.prepare()
        from solvable import training

        try:
            return work(bar), True
        except training.Interrupted as stop:
            return stop.run, False


def conclude(output: OutputOptions, curve: Curve, steps: int, finished: bool) -> int:
    """Write the curve of a run and its status, say how it ended, and return the exit status.

    Args:
        output: where the curve goes.
        curve: it has the columns `step` and `loss`.
        steps: how many were asked for.
        finished: whether they were done.
    """
    points = zip(curve.columns["step"], curve.columns["loss"], strict=True)
    lost = next(((step, loss) for step, loss in points if not math.isfinite(loss)), None)
    status = "ok" if lost is None else "diverged"
    output.write(replace(curve, facts=curve.facts | {"status": status}))
    if lost is not None:
        note(f"training diverged: the loss is {lost[1]} at step {lost[0]}; try a smaller --lr")
    if finished:
        return 0 if lost is None else DIVERGED
    note(
        f"interrupted at step {curve.columns['step'][-1]} of {steps}; the same command starts "
        "over (from Python, resume= goes on)"
    )
    return INTERRUPTED
