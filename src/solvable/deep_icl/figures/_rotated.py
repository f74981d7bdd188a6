"""What the figures of the rotated structure share: training on contexts, and flow on drawn ones."""

import math
from typing import Any

import numpy as np
import xarray as xr
from scipy.interpolate import CubicSpline

from ...reproduce import step
from .. import Init, RotatedStructure, Spectra, train
from ..model import train_brute
from ._seeds import beyond


def spaced(steps: np.ndarray, count: int = 12) -> np.ndarray:
    """Which of the steps to mark, evenly in their logarithm."""
    wanted = np.geomspace(steps[1], steps[-1], count)
    return np.unique(np.abs(steps[:, None] - wanted[None, :]).argmin(axis=0))


class DrawnFlow:
    """Gradient flow of γ on the mean loss of drawn contexts, to its first minimum, at one depth.

    ``t(γ) = ∫dγ/(−d𝓛/dγ)``, in x = log(1 + γ·edge) with x' = dγ/dx: ``dt = x'² dx/(−d𝓛/dx)``.
    """

    def __init__(self, spectra: Spectra, depth: int, top: float):
        nodes = np.linspace(0.0, math.log1p(2.0 * depth), 121)
        means = spectra.loss(gamma=np.expm1(nodes) / top, depth=depth).mean(axis=-1)
        curve = CubicSpline(nodes, means)
        x = np.linspace(0.0, nodes[-1], 20_001)
        fall = -curve(x, 1)
        stop = int(np.argmax(fall <= 0.0)) or x.size
        x, pace = x[:stop], (np.exp(x) / top)[:stop] ** 2 / fall[:stop]
        spent = 0.5 * (pace[1:] + pace[:-1]) * np.diff(x)
        self.time = np.concatenate([[0.0], np.cumsum(spent)])
        self.gammas, self.losses = np.expm1(x) / top, curve(x)

    def gamma(self, times: np.ndarray) -> np.ndarray:
        """γ(t)."""
        return np.interp(times, self.time, self.gammas)

    def loss(self, times: np.ndarray) -> np.ndarray:
        """𝓛(t)."""
        return np.interp(times, self.time, self.losses)


def repeated(task: RotatedStructure, depth: int, rate: float, settings: Any) -> xr.Dataset:
    """Γ trained on fresh contexts from several seeds, and γ on the equivalent with the same steps.

    Args:
        task: the law of contexts.
        depth: L.
        rate: the step size of the entries of a Γ that stands for γΠ, as accounts list it: that of
            γ (D/N) Π is (N/D)² of it.
        settings: with `steps`, `batch`, `seeds` (how many) and `seed` (the first).

    Returns:
        γ and losses of every seed and γ of the equivalent at the same steps; `time` is γ's own.
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
            "train_gamma": ("step", np.asarray(small.gamma)),
            "time": ("step", lr / task.width * np.asarray(small.step)),
        },
        coords={"step": np.asarray(small.step)},
    )


def seeds_gap(data: xr.Dataset, of: str = "train_gamma", more: Any = 0.0) -> tuple[float, float]:
    """How far γ is off relative to another one, mean over the run and seeds; what it is allowed.

    From a tenth of the run on: before, few contexts have been seen. Allowed is what chance exceeds
    in 1 of 100 figures, and something more; of several problems, that which is furthest off by it.
    """
    later = data.sel(step=(data.step > 0) & (data.step >= 0.1 * data.step[-1]))
    gaps = (later.tokens_gamma / later[of] - 1.0).mean("step")
    mean, error = gaps.mean("run"), gaps.std("run", ddof=1) / gaps.sizes["run"] ** 0.5
    slack = beyond(gaps.sizes["run"], mean.size) * error + more
    worst = (abs(mean) / slack).argmax(...)
    return float(mean.isel(worst)), float(slack.isel(worst))


SEEDS = "Student's t over the seeds: 1 in 100 is beyond"


def least_squares(task: RotatedStructure, count: int, seed: int) -> np.ndarray:
    """Losses of least squares on P tokens of which N < P directions are seen, by numpy alone."""
    rng, found = np.random.default_rng(seed), []
    lam, omega = np.asarray(task.lam), np.asarray(task.omega)
    tokens, width = int(task.context or 0), int(task.width or 0)
    for _ in range(count):
        inputs = rng.standard_normal((tokens, task.dim)) * np.sqrt(lam)
        rows = np.linalg.qr(rng.standard_normal((task.dim, width)))[0]
        # What is learned of every direction of the task, as columns.
        learned = rows @ np.linalg.lstsq(inputs @ rows, inputs)[0]
        found.append(np.sum(lam[:, None] * (np.eye(task.dim) - learned) ** 2 * omega))
    return np.asarray(found)
