"""The exponents of the paper's two tables, corrected."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from ... import validation
from ...numerics.counting import counting_rule
from ..task import Task

Regime = Literal["strong", "weak"]
Number = float | Float[Any, ""]


@dataclass(frozen=True)
class Exponents:
    """Exponents of the loss in each resource (Tables 1 and 2, corrected).

    Attributes:
        size: ``L ∝ D^-(α+2γ−1)``.
        data: ``L ∝ N^-(α+2γ−1)/α``.
        time: ``L ∝ t^-(α+2γ−1)/(α+β+3γ)`` while the tasks being learned have Λ_s ≫ 1 ("strong"),
            ``t^-(α+2γ−1)/(α+β+γ)`` once they have Λ_s ≪ 1 ("weak").
        compute: ``L ∝ C^-(time·size)/(time+size)`` at the optimal split of C = D t.
        optimal_size: ``D* ∝ C^(time/(time+size))``.
        optimal_time: ``t* ∝ C^(size/(time+size))``.
    """

    size: Number
    data: Number
    time: Number
    compute: Number
    optimal_size: Number
    optimal_time: Number


def exponents(
    alpha: Number, beta: Number = 0.0, gamma: Number = 0.0, regime: Regime = "strong"
) -> Exponents:
    """The exponents of Tables 1 and 2, corrected.

    Args:
        alpha: exponent of the task law.
        beta: decay of the context lengths.
        gamma: decay of the strengths.
        regime: whether the tasks being learned have Λ_s ≫ 1 ("strong") or ≪ 1 ("weak").

    >>> round(exponents(1.8).time, 4), round(exponents(1.8).compute, 4)
    (0.4444, 0.2857)
    """
    for name, value, low in (("alpha", alpha, 1.0), ("beta", beta, 0.0), ("gamma", gamma, 0.0)):
        number = validation.floating(name, value)
        validation.shaped(name, number, ())
        validation.within(name, number, low, 1e100, open_low=name == "alpha")
    validation.one_of("regime", regime, ("strong", "weak"))
    size = alpha + 2.0 * gamma - 1.0
    time = size / (alpha + beta + (3.0 if regime == "strong" else 1.0) * gamma)
    return Exponents(
        size=size,
        data=size / alpha,
        time=time,
        compute=time * size / (time + size),
        optimal_size=time / (time + size),
        optimal_time=size / (time + size),
    )


def regime_of(task: Task) -> Regime:
    """Which time law of Table 2 rules: over more of the tasks (in log s) |Λ_s| > 1 or < 1."""
    first, gamma = abs(float(task.strength)), float(task.gamma)
    if first <= 1.0 or gamma == 0.0:
        return "strong" if first > 1.0 else "weak"
    # |Λ_s| > 1 for s below this; beyond the last task there is nothing to compare with.
    turn = math.log(first) / gamma
    if turn >= math.log(task.num_tasks + 1.0):
        return "strong"
    end = math.ceil(math.exp(turn))
    index, count = counting_rule(task.num_tasks, cuts=(end,))
    shares = count / index
    return "strong" if np.sum(shares[index < end]) > 0.5 * np.sum(shares) else "weak"


def exponents_of(task: Task, regime: Regime | None) -> tuple[Exponents, Regime]:
    """The exponents of a task, in the regime given or else the one that rules."""
    regime = regime_of(task) if regime is None else regime
    return exponents(float(task.alpha), float(task.beta), float(task.gamma), regime), regime
