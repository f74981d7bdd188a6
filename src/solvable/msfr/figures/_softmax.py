"""What the figures of softmax attention share: its start, its theory, and how curves are judged."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from ...reproduce import Finding, at_most
from .. import SoftmaxInit, Task, softmax_modes
from ._witness import on_tokens

ENTRY = 0.1  # of V and W_K at the start; W_Q has 1.1 times as much, as in (106)
WIDTH = 501  # d_e, S + 1 at S = 500: u = 8.3
BEGUN = 10  # steps from which on gradient descent is set beside its flow
STEPS = (
    "(1 − x)^(2n) against exp(−2xn), over a power law of tasks, makes (1−δ)(2−δ)/4n of L, δ = 1/α: "
    "0.16/n and 0.20/n at α = 1.8 and 2.1, and some more where tasks are few"
)


def start(width: int | None = WIDTH, entry: float = ENTRY) -> SoftmaxInit:
    """V = 0.1, W_K = 0.1, W_Q = 0.11 in every entry."""
    return SoftmaxInit(value=entry, key=entry, query=1.1 * entry, width=width)


def few_tokens(beta: float = 0.0) -> xr.Dataset:
    """Real tokens: few tasks, short contexts, one data set."""
    task = Task(8, 1.8, 10.0, 0.5, beta=beta)
    return on_tokens(task, start(None), data=200, steps=50, log_every=5, lr=0.1)


class AtRest:
    """``½ Σ_s p_s Σ_i e_i exp(−2 p̂_s μ_i t)``: keys at rest, with shares p̂ of a data set's own."""

    def __init__(self, task: Task, init: SoftmaxInit):
        modes = softmax_modes(task, init)
        self.weights = np.asarray(task.weights)
        self.rates, self.errors = np.asarray(modes.rates), np.asarray(modes.errors)

    def loss(self, t: float, shares: Any) -> float:
        """L at one time."""
        left = np.exp(-2.0 * np.asarray(shares)[:, None] * self.rates * t)
        return float(np.sum(0.5 * self.weights[:, None] * self.errors * left))


def between(low: float, high: float, count: int) -> np.ndarray:
    """Whole numbers evenly spaced in the logarithm.

    >>> between(1, 100, 3).tolist()
    [1, 10, 100]
    """
    return np.unique(np.round(np.geomspace(low, high, count)).astype(int))


def mean_exponent(x: Any, y: Any) -> float:
    """The exponent between the first and the last point."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    return float(np.log(y[0] / y[-1]) / np.log(x[-1] / x[0]))


def in_steps(steps: Any, trained: Any, predicted: Any) -> float:
    """The largest ``|training/theory − 1| × steps``, from step 10 on."""
    steps = np.asarray(steps, float)
    gap = np.abs(np.asarray(trained) / np.asarray(predicted) - 1.0) * steps
    return float(np.max(gap[..., steps >= BEGUN]))


def follows(steps: Any, trained: Any, predicted: Any, note: str = "") -> Finding:
    """Training is theory to what its steps are worth."""
    return at_most(in_steps(steps, trained, predicted), 0.5, because=STEPS, note=note)


def few_ticks(axes: Any) -> None:
    """Plain numbers 1, 2, 5, 10, … along x, for ranges of a decade or two."""
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
