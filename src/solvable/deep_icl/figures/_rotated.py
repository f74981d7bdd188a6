"""What the figures of the rotated structure share: two kinds of training, and very many dims."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from ...reproduce import step
from ...style import THEORY, TOKENS, TRAINING, colour
from .. import Init, RotatedStructure, loss_curve, train
from ..laws import spectrum
from ..model import train_brute

MANY = 10**8  # directions, where a law of many is asked for
# Γ's mean diagonal against γ: what is left of 1/N, and of the noise of a few contexts a step.
CLOSE = 0.03


def many(nu: float, beta: float) -> RotatedStructure:
    """A spectrum of 10⁸ directions, as the few hundred nodes that stand for it in sums.

    Good for N = D and endless contexts in scalar time only, where the loss is a sum.
    """
    nodes = spectrum(nu, beta, MANY)
    return RotatedStructure(lam=nodes.lam, omega=nodes.share / nodes.lam)


def trained(
    task: RotatedStructure,
    depth: int,
    rate: float,
    settings: Mapping[str, Any],
    start: float = 0.0,
) -> xr.Dataset:
    """Γ trained on fresh contexts, and the scalar γ on the equivalent with the same steps.

    Args:
        task: the law of contexts.
        depth: L.
        rate: the step size of Γ's entries.
        settings: "steps", "batch" and "seed".
        start: γ at the start.

    Returns:
        γ and losses of both at the same steps; `time` is the scalar γ's.
    """
    steps = settings["steps"]
    how: dict[str, Any] = {
        "depth": depth,
        "lr": rate,
        "steps": steps,
        "log_every": max(1, steps // 100),
        "time": "matrix",
        "progress": step,
    }
    begin = Init(gamma=start)
    brute = train_brute(task, begin, contexts=settings["batch"], seed=settings["seed"], **how)
    small = train(task, begin, **how)
    return xr.Dataset(
        {
            "tokens_loss": ("step", np.asarray(brute.loss)),
            "tokens_gamma": ("step", np.asarray(brute.gamma)),
            "train_loss": ("step", np.asarray(small.loss)),
            "train_gamma": ("step", np.asarray(small.gamma)),
        },
        coords={"step": np.asarray(brute.step)},
    )


def flows(task: RotatedStructure, times: np.ndarray, depths: list[int]) -> np.ndarray:
    """The loss along gradient flow, a row for each depth."""
    return np.asarray(loss_curve(task, times, depths)).T


def gamma_gap(data: xr.Dataset, of: str = "train_gamma", since: float = 0.1) -> float:
    """The largest relative gap of Γ's mean diagonal from γ, from a part of the run on.

    Before a tenth of it few contexts have been seen, and their noise is all there is.
    """
    later = data.sel(step=(data.step > 0) & (data.step >= since * data.step[-1]))
    return float(abs(later.tokens_gamma / later[of] - 1.0).max())


def gap_note(data: xr.Dataset, of: str = "train_gamma") -> str:
    """The gap over the whole run, which the first few steps may dominate."""
    return f"From the first step on the gap is {gamma_gap(data, of, 0.0):.4f}."


def spaced(steps: np.ndarray, count: int = 12) -> np.ndarray:
    """Which of the steps to mark, evenly in their logarithm."""
    wanted = np.geomspace(steps[1], steps[-1], count)
    return np.unique(np.abs(steps[:, None] - wanted[None, :]).argmin(axis=0))


def draw_trained(axes: Any, data: xr.Dataset, x: Any, k: int) -> None:
    """Both kinds of training, against x; the marks are of Γ on contexts."""
    axes.plot(x[1:], data.train_loss.values[1:], color=colour(k), **TRAINING)
    marks = spaced(data.step.values)
    axes.plot(x[marks], data.tokens_loss.values[marks], color=colour(k), **TOKENS)


def draw_kinds(axes: Any, training: str = "training of γ", tokens: str = "Γ on contexts") -> None:
    """The three kinds of lines, for a legend."""
    axes.plot([], [], color="0.3", label="gradient flow", **THEORY)
    axes.plot([], [], color="0.3", label=training, **TRAINING)
    axes.plot([], [], color="0.3", label=tokens, **TOKENS)
