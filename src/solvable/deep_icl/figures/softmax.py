"""Softmax attention on rotated contexts: no theory, but depth helps here as well."""

from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, at_most, settings_of, step
from ...reproduce.panels import Panel, band, drawn, each, level, line
from ...style import LAW
from .. import RotatedStructure, train_softmax
from ._seeds import beyond, mean_of

fig = Figure(
    "deep_icl/softmax",
    "Softmax attention: depth helps without theory",
    settings={
        "quick": {
            "sizes": {"dim": 4, "context": 16, "queries": 8},
            "training": {"hidden": 16, "contexts": 16, "steps": 200, "lr": 1e-2},
            "depths": (1, 4),
            "seeds": 6,
        },
        "default": {
            "sizes": {"dim": 4, "context": 16, "queries": 8},
            "training": {"hidden": 16, "contexts": 16, "steps": 300, "lr": 1e-2},
            "depths": (1, 2, 4),
            "seeds": 8,
        },
        "full": {
            "sizes": {"dim": 64, "context": 128, "queries": 16},
            "training": {"hidden": 128, "contexts": 512, "steps": 10_000, "lr": 1e-3},
            "depths": (1, 2, 4, 8, 16),
            "seeds": 6,
        },
    },
    constants={"nu": 1.5, "beta": 1.75, "heads": 1, "mlp": False, "points": 100},
    note=(
        "Qualitative: there is no theory. Scores k·q/N, residual 1/L, AdamW with a rate that does "
        "not depend on depth; one head, no MLP. Reported with D = 64, P = 128, K = 16, 512 "
        "contexts a step and width 128 (the full size); quick and default are far smaller. Which "
        "scales the weights start with is our choice. A seed is of the start and the contexts."
    ),
)


@fig.data
def runs(settings: Any) -> xr.Dataset:
    """Losses on fixed contexts in training, of every depth and seed."""
    task = RotatedStructure(settings.nu, settings.beta, **settings.sizes)
    how = settings.training | {"heads": settings.heads, "mlp": settings.mlp, "progress": step}
    how["log_every"] = max(1, how["steps"] // settings.points)
    seeds, losses, steps = range(settings.seed, settings.seed + settings.seeds), [], np.zeros(0)
    for depth in settings.depths:
        found = [train_softmax(task, depth=depth, seed=seed, **how) for seed in seeds]
        losses.append([np.asarray(run.loss) for run in found])
        steps = found[0].step
    data = {"loss": (("depth", "run", "step"), np.asarray(losses))}
    return xr.Dataset(data, coords={"depth": list(settings.depths), "step": steps})


def _ends(d: xr.Dataset) -> np.ndarray:
    """The mean logarithm over the last tenth of the log points: depths, runs."""
    return np.log(d.loss.values[..., -max(1, d.sizes["step"] // 10) :]).mean(axis=-1)


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """Losses against steps, and at the end against depth."""
    curves = [
        band(d.step, d.loss.sel(depth=n), f"$L = {n}$", k) for k, n in enumerate(d.depth.values)
    ]
    curves.append(level(1.0, label="zero predictor", **LAW))
    ends = np.exp(_ends(d))
    last = [
        each(d.depth, ends.T, "a seed", 6),
        line(d.depth, np.exp(_ends(d).mean(axis=1)), "mean"),
    ]

    def ticks(axes: Any) -> None:
        axes.set_xticks(d.depth.values, [str(n) for n in d.depth.values])
        axes.xaxis.set_minor_formatter("")

    loss = r"$\mathcal{L}$ on fixed contexts"
    return drawn(
        Panel("step of AdamW", loss, curves, log="y", ylim=(None, 5.0)),
        Panel("$L$", "end, mean of the last tenth", last, log="xy", more=[ticks]),
    )


@fig.claim("new", "ours")
def deeper(d):
    """Qualitative: deeper attention ends lower at the same rate and number of steps (the largest
    ratio of the end to that of the next smaller depth, geometric mean over {seeds} seeds, upper
    end)."""
    falls = np.diff(_ends(d), axis=0)
    mean, error = mean_of(falls)
    most = beyond(falls.shape[1], len(falls))
    depths, rows = settings_of(d).depths, zip(mean, error, strict=True)
    words = ", ".join(
        f"{np.exp(m):.3f} within a factor {np.exp(e):.3f} (L = {n})"
        for (m, e), n in zip(rows, depths[1:], strict=True)
    )
    because = "above 1 the deeper one would end higher, or not be told from the other; it has "
    because += f"{most:.1f} standard errors of Student's t over seeds in it"
    return at_most(np.exp((mean + most * error).max()), 1.0, because=because, note=f"{words}.")


FIGURE = fig
