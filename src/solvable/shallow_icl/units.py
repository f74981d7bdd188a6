"""The paper's units, with 1/N in the attention, and those of the published code, without."""

from typing import Literal

from .. import validation
from .start import Start
from .task import Task

Units = Literal["paper", "code"]


def unit_factor(task: Task, start: Start, units: str) -> float:
    r"""c: weights W and rate η in `units` are c·W and c²·η in the paper's, step by step.

    The published code does not divide by N. With every weight multiplied by ``c = N^{1/2}``
    (merged, two weights a head) or ``N^{1/3}`` (separate, three) and the rate by c², gradient
    descent takes the same steps with the 1/N. Softmax attention and varied lengths are the same in
    both units.

    >>> from .start import separate
    >>> round(unit_factor(Task(dim=4, context=27), separate(heads=5), "code"), 12)
    3.0
    """
    if not isinstance(task, Task):
        raise ValueError(f"task must be a shallow_icl.Task, not {type(task).__name__}")
    if not isinstance(start, Start):
        raise ValueError(f"start must be made by merged, separate or mlp, not {start!r}")
    validation.one_of("units", units, ("paper", "code"))
    if units == "paper" or start.attention == "softmax" or task.lengths == "varied":
        return 1.0
    if task.context == float("inf"):
        raise ValueError("units must be paper when the context is infinite, not 'code'")
    return task.context ** (1 / 2 if start.rank is None else 1 / 3)
