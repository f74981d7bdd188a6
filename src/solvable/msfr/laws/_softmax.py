"""The laws of softmax attention whose keys are at rest.

A task's error is ``Σ_i e_i exp(−2 p_s μ_i t)``, so that every Mellin integral is a Gamma function.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import gammainc, gammaincc

from ... import validation
from ..start import SoftmaxInit
from ..task import Task
from ..theory import NEVER_ENDING, SoftmaxTasks
from ._curves import exponentials, sizes_of
from ._exponents import Exponents, Regime, regime_of
from ._law import PER_DECADE, Law, decades


def softmax_exponents(
    task: Task, init: SoftmaxInit, regime: Regime | None = None
) -> tuple[Exponents, Regime]:
    """The exponents of softmax attention with keys at rest.

    A task is learned at the rate ``2 p_s (1 + Λ_s²)`` whatever its context is, so that β does not
    enter: ``L ∝ t^{−(α−1)/α}``, ``N^{−(α−1)/α}``, ``D^{−(α−1)}``. With γ > 0 the error of a task is
    Λ_s² only while that is more than the start's V_ss²: α + 2γ − 1 in place of α − 1 while
    Λ_s ≫ 1 ("strong", with α + 2γ below it in the time law), and for ever if V starts at 0.

    Args:
        task: the data law.
        init: where softmax attention starts.
        regime: of which tasks; by default the one that rules over more of them.
    """
    regime = regime_of(task) if regime is None else regime
    validation.one_of("regime", regime, ("strong", "weak"))
    alpha, gamma = float(task.alpha), float(task.gamma)
    strong = regime == "strong"
    falling = gamma if strong or not np.any(np.asarray(init.value)) else 0.0
    size = alpha + 2.0 * falling - 1.0
    time = size / (alpha + (2.0 * gamma if strong else 0.0))
    found = Exponents(
        size=size,
        data=size / alpha,
        time=time,
        compute=time * size / (time + size),
        optimal_size=time / (time + size),
        optimal_time=size / (time + size),
    )
    return found, regime


class Modes:
    """What the laws of one task law and start have in common."""

    def __init__(self, task: Task, init: SoftmaxInit, regime: Regime | None = None):
        """Work out the tasks, or refuse what no law can be given for."""
        validation.needs_double("a scaling law")
        if not isinstance(task, Task) or not isinstance(init, SoftmaxInit):
            raise ValueError("a law of softmax attention needs a msfr.Task and a msfr.SoftmaxInit")
        validation.concrete("task and init", task, init, why="a law is worked out")
        if task.context.ndim or task.strength.ndim:
            raise ValueError("context and strength must be single numbers for a law, not arrays")
        self.task, self.init = task, init
        self.law = SoftmaxTasks(task, init)
        self.parts = self.law.tasks()
        if not np.any(self.parts.errors > 0.0):
            raise ValueError(
                "init must leave something to learn for a law: every f(0) is its strength"
            )
        self.regime: Regime
        self.exponents, self.regime = softmax_exponents(task, init, regime)
        self.alpha, self.normaliser = float(task.alpha), float(task.normaliser)
        self.shared = self.law.is_law and task.is_uniform
        self.first, self.last = (
            self.law.at(np.array([float(s)]), np.ones(1)) for s in (1, task.num_tasks)
        )

    def base(self, resource: Any, exponent: float) -> dict[str, Any]:
        """Fields of a law: whatever V starts at, it is learned, so that nothing is left."""
        told = {"resource": resource, "exponent": exponent, "regime": self.regime}
        return {**told, "status": "ok", "limit": 0.0}

    def mellin(self, part: Callable[[float], Any]) -> np.ndarray:
        """``(Z^δ/2α) Γ(1−δ) Σ_i e_i (2μ_i)^{δ−1} part(2μ_i)``, of the first task's modes."""
        power = 1.0 - 1.0 / self.alpha
        total: Any = 0.0
        for rate, error in zip(self.first.rates[:, 0], self.first.errors[:, 0], strict=True):
            if error > 0.0:
                total = total + error * (2.0 * rate) ** -power * part(2.0 * rate)
        front = self.normaliser ** (1.0 / self.alpha) / (2.0 * self.alpha)
        return np.asarray(front * math.gamma(power) * total)

    def times(self) -> np.ndarray:
        """From the first task's first move to the last task's end."""
        first, last = self.first, self.last
        low = 1e-3 * np.sum(first.errors) / np.sum(first.errors * first.speeds)
        lasting = last.errors > 1e-6 * np.sum(last.errors)
        slowest = np.min(last.speeds[lasting])
        high = math.log(1e6) / slowest if slowest > 0.0 else NEVER_ENDING
        high = min(high, 1e300 * low, 0.1 * NEVER_ENDING)
        return np.geomspace(low, high, int(PER_DECADE * decades(low, high)) + 2)


def softmax_time_law(task: Task, init: SoftmaxInit, regime: Regime | None = None) -> Law:
    """``L(t) ≈ (Z^δ/2α) Γ(1−δ) Σ_i e_i (2μ_i)^{δ−1} t^{δ−1}``, δ = 1/α, keys at rest.

    The finite-size form has the incomplete Gamma functions between the first and the last task.

    Args:
        task: the data law, with single numbers for context and strength.
        init: where softmax attention starts.
        regime: which of two laws where strengths vary.
    """
    modes = Modes(task, init, regime)
    used = modes.parts.amounts > 0.0
    curve, local = exponentials(modes.parts.amounts[used], modes.parts.speeds[used])
    base = {
        **modes.base("time", modes.exponents.time),
        "_curve": curve,
        "_local": local,
        "_grid": modes.times,
    }
    if not modes.shared:
        return Law(amplitude=None, **base)
    power = 1.0 - 1.0 / modes.alpha

    def finite(t: np.ndarray) -> np.ndarray:
        x = modes.normaliser * t
        high, low = x * 0.5**-modes.alpha, x * (task.num_tasks + 0.5) ** -modes.alpha

        def between(rate: float) -> np.ndarray:
            # Far on, the difference of two that are nearly 1 is that of what they lack.
            late = gammaincc(power, rate * low) - gammaincc(power, rate * high)
            early = gammainc(power, rate * high) - gammainc(power, rate * low)
            return np.where(rate * low > 1.0, late, early)

        return modes.mellin(between) * t**-power

    return Law(amplitude=float(modes.mellin(lambda _: 1.0)), _finite=finite, **base)


def softmax_size_law(task: Task, init: SoftmaxInit, shift: float = 0.0) -> Law:
    """``L(D) = ½ Σ_{s≥D} p_s Σ_i e_i``, keys at rest, time and data unlimited.

    Args:
        task: the data law, with single numbers for context and strength.
        init: where softmax attention starts.
        shift: the local exponent is taken against ``D − shift``.
    """
    modes = Modes(task, init)
    front = float(np.sum(modes.first.amounts)) / (modes.alpha - 1.0)  # ½ Z e/(α−1)
    return Law(
        amplitude=front if modes.shared else None,
        **modes.base("size", modes.exponents.size),
        **sizes_of(modes.law.tail(), task.num_tasks, shift),
    )


def softmax_data_law(task: Task, init: SoftmaxInit) -> Law:
    """``L(N) = ½ Σ_s p_s (1−p_s)^N Σ_i e_i``, keys at rest, time and size unlimited.

    Args:
        task: the data law, with single numbers for context and strength.
        init: where softmax attention starts.
    """
    modes = Modes(task, init)
    parts, alpha = modes.parts, modes.alpha
    missed = -np.log1p(-np.minimum(parts.weight, 1.0 - 1e-16))
    curve, local = exponentials(np.sum(parts.amounts, axis=0), missed)
    last = 10.0 / float(modes.last.weight[0])
    grid = np.geomspace(1.0, last, int(PER_DECADE * math.log10(last)) + 2)
    error = float(np.sum(modes.first.errors))
    front = modes.normaliser ** (1.0 / alpha) * error / (2.0 * alpha)
    return Law(
        amplitude=front * math.gamma(1.0 - 1.0 / alpha) if modes.shared else None,
        **modes.base("data", modes.exponents.data),
        _curve=curve,
        _local=local,
        _grid=lambda: grid,
    )


def softmax_compute_amplitude(modes: Modes) -> float | None:
    """The least over ξ = Z t D^−α of the scaling form of L(t, D) at D·t = 1.

    ``L = t^{δ−1} {(Z^δ/2α) Σ_i e_i (2μ_i)^{δ−1} Γ(1−δ, 2μ_i ξ) + (Z^δ/2α) e ξ^{1−δ}/(1−δ)}`` with
    ``t = (ξ C^α/Z)^{1/(1+α)}``; None where tasks do not share everything.
    """
    if not modes.shared:
        return None
    alpha, power = modes.alpha, 1.0 - 1.0 / modes.alpha
    front = modes.normaliser ** (1.0 / alpha) / (2.0 * alpha)
    error = float(np.sum(modes.first.errors))

    def at(log_ratio: np.ndarray) -> np.ndarray:
        ratio = np.exp(log_ratio)
        t = (ratio / modes.normaliser) ** (1.0 / (1.0 + alpha))
        learned = modes.mellin(lambda rate: gammaincc(power, rate * ratio))
        return t**-power * (learned + front * error * ratio**power / power)

    rates = 2.0 * modes.first.rates[modes.first.errors > 0.0]
    low, high = -math.log(rates.max()) - 40.0, -math.log(rates.max()) + 10.0
    for _ in range(8):
        grid = np.linspace(low, high, 65)
        k = int(np.argmin(at(grid)))
        low, high = grid[max(k - 1, 0)], grid[min(k + 1, 64)]
    return float(at(np.asarray([0.5 * (low + high)]))[0])


def exponential_repetition(alpha: float, clock: Any) -> np.ndarray:
    """``L(t, N)/L(t, ∞) = [x/(1 − e^{−x})]^{1−1/α}``, x = 2μt/N: what finite data cost.

    Exact for one exponential a task and S → ∞: the fast mode of softmax attention, μ ≈ 1 + Λ².

    Args:
        alpha: exponent of the task law.
        clock: x, how far one datum carries a task.

    >>> round(float(exponential_repetition(1.8, 1.0)), 11)
    1.22612111352
    """
    x = np.asarray(clock, float)
    ratio = np.where(x > 0.0, x / -np.expm1(-np.where(x > 0.0, x, 1.0)), 1.0)
    return np.asarray(ratio ** (1.0 - 1.0 / alpha))
