"""What the figures of the rotated structure share: training on contexts from several seeds."""

from typing import Any

import numpy as np
import xarray as xr

from ...reproduce import step
from .. import Init, RotatedStructure, train
from ..model import train_brute


def spaced(steps: np.ndarray, count: int = 12) -> np.ndarray:
    """Which of the steps to mark, evenly in their logarithm."""
    wanted = np.geomspace(steps[1], steps[-1], count)
    return np.unique(np.abs(steps[:, None] - wanted[None, :]).argmin(axis=0))


def repeated(task: RotatedStructure, depth: int, rate: float, settings: Any) -> xr.Dataset:
    """Γ trained on fresh contexts from several seeds, and γ on the equivalent with the same steps.

    Args:
        task: the law of contexts.
        depth: L.
        rate: the step size of the entries of a Γ that stands for γΠ, as accounts list it: that of
            γ (D/N) Π is (N/D)² of it.
        settings: with `steps`, `batch`, `seeds` (how many) and `seed` (the first).

    Returns:
        γ and losses at the same steps, of every seed and of the equivalent; `time` is γ's own.
    """
    lr = rate * (task.width / task.dim) ** 2
    how: dict[str, Any] = {"depth": depth, "lr": lr, "steps": settings.steps, "time": "matrix"}
    how |= {"log_every": max(1, settings.steps // 50), "progress": step}
    begin, first = Init(gamma=0.0), settings.seed
    seeds = range(first, first + settings.seeds)
    runs = [train_brute(task, begin, contexts=settings.batch, seed=n, **how) for n in seeds]
    small = train(task, begin, **how)
    both = ("run", "step")
    return xr.Dataset(
        {
            "tokens_loss": (both, np.stack([np.asarray(run.loss) for run in runs])),
            "tokens_gamma": (both, np.stack([np.asarray(run.gamma) for run in runs])),
            "train_loss": ("step", np.asarray(small.loss)),
            "train_gamma": ("step", np.asarray(small.gamma)),
            "time": ("step", lr / task.width * np.asarray(small.step)),
        },
        coords={"step": np.asarray(small.step)},
    )


def seeds_gap(data: xr.Dataset, of: str = "train_gamma") -> tuple[float, float]:
    """How far γ is off relative to another one, mean over the run and seeds; its standard error.

    From a tenth of the run on: before, few contexts have been seen. Of several problems, that which
    is furthest off in standard errors.
    """
    later = data.sel(step=(data.step > 0) & (data.step >= 0.1 * data.step[-1]))
    gaps = (later.tokens_gamma / later[of] - 1.0).mean("step")
    mean, error = gaps.mean("run"), gaps.std("run", ddof=1) / gaps.sizes["run"] ** 0.5
    worst = (abs(mean) / error).argmax(...)
    return float(mean.isel(worst)), float(error.isel(worst))
