"""The four panels that all optimisation figures share, and how their runs are kept and judged."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib.figure
import numpy as np
import xarray as xr
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm

from ...reproduce import step
from ...style import THEORY, colour, panels
from .. import Run, State, Task, decay, manifold, sphere, train, train_brute

REFERENCE_RUNS = 30  # behind every number of an earlier computation that is compared with
VECTOR_RUNS = 8  # that are trained in R^d too
_STARTS: Mapping[str, Callable[..., State]] = {"sphere": sphere, "manifold": manifold}
_KEPT = ("loss", "kappa", "nu", "distance")
SCALARS = ("kappa", "nu", "theta", "eta", "rho")


@dataclass(frozen=True)
class Setting:
    """How a figure is trained.

    Attributes:
        lam: λ_0.
        lr: α.
        steps: how many.
        log_every: steps between two log points.
        decay: the rate of ``λ_t = λ_0/(1 + decay·t)``.
        start: "sphere" or "manifold".
        dim: d.
        noise: ε.
    """

    lam: float
    lr: float
    steps: int
    log_every: int
    decay: float = 0.0
    start: Literal["sphere", "manifold"] = "sphere"
    dim: int = 400
    noise: float = 0.0
    length: int = 10

    @property
    def task(self) -> Task:
        """The data law, γ² = ½."""
        return Task(dim=self.dim, length=self.length, noise=self.noise)

    @property
    def schedule(self) -> Any:
        """λ as a function of the step."""
        return decay(self.lam, self.decay)

    @property
    def constants(self) -> dict[str, Any]:
        """What is told with a figure's settings; the steps of some figures depend on its size."""
        told = dict(vars(self)) | {"gamma": math.sqrt(0.5)}
        return {name: value for name, value in told.items() if name != "steps"}

    def starts(self, runs: int, seed: int) -> State:
        """Where the runs start."""
        return _STARTS[self.start](self.task, runs=runs, seed=seed)

    def train(self, runs: int, start_seed: int, **how: Any) -> Run:
        """Projected gradient descent in five scalars, or what `how` changes of it."""
        asked = {"lam": self.schedule, "lr": self.lr, "steps": self.steps, "progress": step}
        asked |= {"log_every": self.log_every} | how
        return train(self.task, self.starts(runs, start_seed), **asked)


def record(run: Run, **more: Any) -> xr.Dataset:
    """What of a run is drawn and judged, and `more`."""
    kept = {name: (("run", "step"), np.asarray(getattr(run, name))) for name in _KEPT}
    kept |= {"step": run.step, "lam": ("step", np.asarray(run.lam))}
    return xr.Dataset(kept | more)


def with_vectors(setting: Setting, run: Run, seed: int, steps: int) -> dict[str, Any]:
    """Risks and scalars of the first runs, in R^d and in five scalars, at the first log points."""
    runs = run.kappa.shape[0]
    start = setting.starts(runs, seed)
    first = State.raw(*(getattr(start, name)[:VECTOR_RUNS] for name in SCALARS))
    whole = train_brute(
        setting.task,
        first,
        lam=setting.schedule,
        lr=setting.lr,
        steps=steps,
        log_every=setting.log_every,
        progress=step,
    )
    points = len(whole.step)
    assert np.array_equal(whole.step, run.step[:points])
    names = ("loss", "distance", *SCALARS)
    dims = ("quantity", "vector_run", "vector_step")
    short = [np.asarray(getattr(run, name))[:VECTOR_RUNS, :points] for name in names]
    return {
        "in_vectors": (dims, np.stack([np.asarray(getattr(whole, name)) for name in names])),
        "in_scalars": (dims, np.stack(short)),
        "vector_step": whole.step,
        "quantity": list(names),
    }


def path_gap(data: xr.Dataset, until: int | None = None) -> float:
    """The largest gap of a scalar between five scalars and R^d, up to a step."""
    early = data.sel(vector_step=slice(None, until), quantity=list(SCALARS))
    return float(abs(early.in_scalars - early.in_vectors).max())


def reached(data: xr.Dataset) -> xr.DataArray:
    """Which runs end beside the oracle or its flip; the others end at a swapped minimum."""
    return abs(data.nu.isel(step=-1)) > 0.5


def mean_error(values: Any) -> float:
    """The standard error of the difference between the mean and that of REFERENCE_RUNS runs."""
    values = np.asarray(values)
    return float(np.std(values, ddof=1) * math.sqrt(1.0 / values.size + 1.0 / REFERENCE_RUNS))


def score(values: Any, reference: float, rounding: float) -> float:
    """How many standard errors the mean is off, beyond what the reference is rounded by."""
    gap = abs(float(np.mean(np.asarray(values))) - reference)
    return max(0.0, gap - rounding) / mean_error(values)


def worst_score(data: xr.Dataset, reference: Mapping[int, tuple[float, float]]) -> float:
    """The largest score of the risk over steps, each with a reference and its rounding."""
    return max(score(data.loss.sel(step=at), *told) for at, told in reference.items())


def share_error(share: float, runs: int, others: int = 600) -> float:
    """Three standard errors of the difference of two shares, over `runs` and over `others`."""
    return 3.0 * math.sqrt(share * (1.0 - share) * (1.0 / runs + 1.0 / others))


def means(data: xr.Dataset, steps: Sequence[int]) -> str:
    """Mean risks at some steps, for a note."""
    return ", ".join(f"{float(data.loss.sel(step=at).mean()):.4g} ({_short(at)})" for at in steps)


def _short(at: int) -> str:
    return f"{at // 1000}k" if at and at % 1000 == 0 else str(at)


def _band(axes: Any, data: xr.DataArray, k: int, label: str) -> None:
    """The mean over runs and where 95 % of them are."""
    low, high = np.percentile(data.values, [2.5, 97.5], axis=0)
    axes.fill_between(data.step, low, high, color=colour(k), alpha=0.22, linewidth=0.0)
    axes.plot(data.step, data.mean("run"), color=colour(k), label=label)


def _lines(axes: Any, data: xr.DataArray, k: int, label: str, **look: Any) -> None:
    """One line a run."""
    for n, one in enumerate(data.values):
        style = {"color": colour(k), "linewidth": 0.8, "alpha": 0.7} | look
        axes.plot(data.step, one, label="" if n else label, **style)


def chosen(data: xr.Dataset) -> list[int]:
    """The first run that ends beside (1, 1), the first beside (−1, −1), the first swapped one."""
    last, good = data.nu.isel(step=-1).values, reached(data).values
    found = [np.flatnonzero(good & (last > 0.0)), np.flatnonzero(good & (last < 0.0))]
    found.append(np.flatnonzero(~good))
    return [int(runs[0]) for runs in found if len(runs)]


def _square(figure: matplotlib.figure.Figure, axes: Any, data: xr.Dataset, runs: list[int]) -> None:
    """Trajectories in the (κ, ν) square, coloured by step."""
    axes.plot([1, -1], [1, -1], "*", color="0.3", markersize=9, label=r"oracle $\pm(1, 1)$")
    axes.axhline(0.0, color="0.85", linewidth=0.7, zorder=0)
    axes.axvline(0.0, color="0.85", linewidth=0.7, zorder=0)
    shade = None
    for n in runs:
        points = np.stack([data.kappa.values[n], data.nu.values[n]], axis=-1)
        shade = LineCollection(
            list(np.stack([points[:-1], points[1:]], axis=1)),
            cmap="viridis",
            norm=LogNorm(*data.step.values[[1, -1]]),
            linewidth=2.0,
        )
        shade.set_array(data.step.values[1:])
        axes.add_collection(shade)
        axes.plot(*points[0], "o", color="0.3", markersize=3.0)
        axes.plot(*points[-1], "s", color=colour(1), markersize=4.0)
        inward = -11.0 * np.where(points[-1] < 0.0, -1.0, 1.0)
        axes.annotate(
            str(n),
            points[-1],
            tuple(inward),
            textcoords="offset points",
            fontsize=7.5,
            ha="center",
            va="center",
        )
    axes.plot([], [], "o", color="0.3", markersize=3.0, label="start")
    axes.plot([], [], "s", color=colour(1), markersize=4.0, label="end")
    axes.set_xlim(-1.1, 1.1)
    axes.set_ylim(-1.1, 1.1)
    axes.set_xlabel(r"$\kappa = k\cdot k^*$")
    axes.set_ylabel(r"$\nu = v\cdot v^*$")
    axes.set_title(f"runs {', '.join(map(str, runs))}", fontsize=9.0)
    axes.legend(fontsize=7.5, loc="upper left")
    if shade is not None:
        figure.colorbar(shade, ax=axes, fraction=0.06).ax.set_title("step", fontsize=7.5)


def draw_panels(
    data: xr.Dataset,
    oracle: Any,
    *,
    runs: list[int],
    each: bool = False,
    smallest: float = 1e-8,
) -> tuple[matplotlib.figure.Figure, np.ndarray]:
    """Risk, |κ| and |ν|, trajectories, distance; of runs that end swapped, one line each.

    Args:
        data: of `record`.
        oracle: the oracle's excess risk at every log point.
        runs: whose trajectories are drawn.
        each: draw |κ|, |ν| and the distance as a line a run.
        smallest: distance drawn; as published unless given.
    """
    figure, (risk, scalars, square, distance) = panels(4)
    good = reached(data)
    most, lost = data.isel(run=good.values), data.isel(run=~good.values)
    words = f"mean of {int(good.sum())}, 95 %" if lost.sizes["run"] else "mean, 95 %"
    failed = f"swapped, {lost.sizes['run']} of {data.sizes['run']}"
    _band(risk, most.loss, 0, words)
    _lines(risk, lost.loss, 1, failed, linestyle="-.")
    risk.plot(data.step, oracle, color=colour(6), label="oracle", **THEORY)
    risk.set_ylabel(r"excess risk $R - \varepsilon^2$")
    if each:
        _lines(scalars, abs(most.kappa), 0, r"$|\kappa|$, to the oracle")
        _lines(scalars, abs(most.nu), 5, r"$|\nu|$, to the oracle", linestyle="--")
        _lines(scalars, abs(lost.kappa), 1, r"$|\kappa|$, swapped")
        _lines(scalars, abs(lost.nu), 4, r"$|\nu|$, swapped", linestyle="--")
        _lines(distance, most.distance, 0, "to the oracle")
        _lines(distance, lost.distance, 1, "swapped")
    else:
        _band(scalars, abs(most.kappa), 0, r"$|\kappa|$")
        _band(scalars, abs(most.nu), 2, r"$|\nu|$")
        # What is below the panel, 0 above all, is left out of the logarithm.
        _band(distance, most.distance.clip(1e-300, None), 0, words)
        _lines(scalars, abs(lost.kappa), 1, r"swapped", linestyle="-.")
        _lines(scalars, abs(lost.nu), 1, "", linestyle="-.")
        _lines(distance, lost.distance, 1, "swapped", linestyle="-.")
    scalars.set_ylim(-0.03, 1.03)
    scalars.set_ylabel(r"$|\kappa|$, $|\nu|$")
    distance.set_ylim(smallest, 2.0)
    distance.set_yscale("log")
    distance.set_ylabel(r"$\sqrt{\theta^2 + \eta^2 + \rho^2}$")
    distance.set_title("distance to the manifold", fontsize=9.0)
    for panel in (risk, scalars, distance):
        panel.set_xlabel("step")
        panel.legend(fontsize=7.5)
        panel.ticklabel_format(axis="x", style="sci", scilimits=(3, 3), useMathText=True)
    _square(figure, square, data, runs)
    return figure, np.array([risk, scalars, square, distance])
