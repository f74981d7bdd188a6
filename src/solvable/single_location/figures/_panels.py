"""The four panels that all optimisation figures share, and how their runs are kept and judged."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm

from ...reproduce import Figure, Finding, near, settings_of, step, worst_ratio
from ...reproduce.panels import Mark, Panel, band, each, theory
from ...style import colour, panels
from .. import Run, State, Task, decay, manifold, oracle_excess, sphere, train, train_brute

# What figures are trained with unless they say otherwise; ``λ_t = lam/(1 + decay·t)``. Besides,
# `vector_runs` are trained in R^d too, and are the same in five scalars for `equal` steps.
COMMON = {
    "dim": 400,
    "length": 10,
    "gamma": 0.5**0.5,
    "noise": 0.0,
    "decay": 0.0,
    "start": "sphere",
}
REFERENCE_RUNS = 30  # behind every number of an earlier computation that is compared with
SCALARS = ("kappa", "nu", "theta", "eta", "rho")
KEPT = ("loss", "kappa", "nu", "distance")


def task(settings: Any) -> Task:
    """The data law."""
    return Task(settings.dim, settings.length, gamma=settings.gamma, noise=settings.noise)


def starts(settings: Any, first: int | None = None) -> State:
    """Where the runs start, or the first of them."""
    place = {"sphere": sphere, "manifold": manifold}[settings.start]
    found = place(task(settings), runs=settings.runs, seed=settings.seed)
    return State.raw(*(getattr(found, name)[:first] for name in SCALARS))


def trained(
    settings: Any, start: State | None = None, *, by: Callable[..., Run] = train, **other: Any
) -> Run:
    """Projected gradient descent in five scalars, or what is asked for beside the settings."""
    asked = {"lam": decay(settings.lam, settings.decay), "lr": settings.lr, "progress": step}
    asked |= {"steps": settings.steps, "log_every": settings.log_every} | other
    return by(task(settings), starts(settings) if start is None else start, **asked)


def record(settings: Any, run: Run, **more: Any) -> xr.Dataset:
    """What of a run is drawn and judged, the oracle's excess risk beside it, and `more`."""
    kept = {name: (("run", "step"), np.asarray(getattr(run, name))) for name in KEPT}
    oracle = np.asarray(oracle_excess(task(settings), run.lam))
    kept |= {"step": run.step, "lam": ("step", np.asarray(run.lam)), "oracle": ("step", oracle)}
    return xr.Dataset(kept | more)


def with_vectors(settings: Any, run: Run, steps: int) -> dict[str, Any]:
    """Risks and scalars of the first runs, in R^d and in five scalars, at the first log points."""
    count, names = settings.vector_runs, ("loss", "distance", *SCALARS)
    whole = trained(settings, starts(settings, count), by=train_brute, steps=steps)
    points = len(whole.step)
    assert np.array_equal(whole.step, run.step[:points])
    found = {"vector_step": whole.step, "quantity": list(names)}
    for word, x in {"in_vectors": whole, "in_scalars": run}.items():
        values = np.stack([np.asarray(getattr(x, name))[:count, :points] for name in names])
        found[word] = ("quantity", "vector_run", "vector_step"), values
    return found


def claim_vectors(fig: Figure, until: str = "") -> None:
    """Claim that five scalars and R^d are the same, for the first `equal` steps."""

    def vectors(d: xr.Dataset) -> Finding:
        early = d.sel(vector_step=slice(None, settings_of(d).equal), quantity=list(SCALARS))
        gap = abs(early.in_scalars - early.in_vectors).max()
        return near(gap, 0.0, 1e-10, because="round-off")

    vectors.__doc__ = (
        f"Five scalars are the dynamics in R^{{dim}} step by step{until} (largest gap of a scalar, "
        "{equal} steps)."
    )
    fig.claim("check", "derived")(vectors)


def reached(data: xr.Dataset) -> xr.DataArray:
    """Which runs end beside the oracle or its flip; the others end at a swapped minimum."""
    return abs(data.nu.isel(step=-1)) > 0.5


def parted(data: xr.Dataset) -> tuple[xr.Dataset, xr.Dataset]:
    """The runs that reach the oracle, and the others."""
    good = reached(data).values
    return data.isel(run=good), data.isel(run=~good)


def mean_error(values: Any) -> Any:
    """The standard error of the difference between the mean and that of REFERENCE_RUNS runs."""
    return np.std(values, axis=0, ddof=1) * math.sqrt(1.0 / len(values) + 1.0 / REFERENCE_RUNS)


def near_earlier(
    data: xr.Dataset, earlier: Mapping[int, str], note: str = ".", within: float | None = None
) -> Finding:
    """That mean risks at some steps, as written down earlier, are the same.

    They are to be so `within` a relative gap, or within errors; `note` follows after the means.
    """
    risks = data.loss.sel(step=list(earlier)).values
    mean, told = risks.mean(axis=0), np.array([float(x) for x in earlier.values()])
    short = [f"{at // 1000}k" if at and at % 1000 == 0 else str(at) for at in earlier]
    words = ", ".join(f"{x:.4g} ({at})" for x, at in zip(mean, short, strict=True)) + note
    if within:
        return near(worst_ratio(mean, told), 0.0, within, note=words)
    rounding = np.array([0.5 * 10.0 ** -len(x.partition(".")[2]) for x in earlier.values()])
    worst = np.max((abs(mean - told) - rounding) / mean_error(risks), initial=0.0)
    both = f"both means, ours and the earlier one of {REFERENCE_RUNS} runs, have errors"
    return near(worst, 0.0, 3.0, because=f"three standard errors; {both}", note=words)


def near_share(
    which: xr.DataArray, told: float, note: str = "", *, others: int = 600, because: str = ""
) -> Finding:
    """That a share of the runs is the one of other runs."""
    error = math.sqrt(told * (1.0 - told) * (1.0 / which.size + 1.0 / others))
    because = because or f"three standard errors of the difference to {others} other runs"
    return near(which.mean(), told, 3.0 * error, because=because, note=note)


def _chosen(data: xr.Dataset) -> list[int]:
    """The first run that ends beside (1, 1), the first beside (−1, −1), the first swapped one."""
    last = data.nu.isel(step=-1).values
    found = [np.flatnonzero(ends) for ends in (last > 0.5, last < -0.5, abs(last) <= 0.5)]
    return [int(runs[0]) for runs in found if len(runs)]


def _square(figure: matplotlib.figure.Figure, axes: Any, data: xr.Dataset, runs: list[int]) -> None:
    """Trajectories in the (κ, ν) square, coloured by step."""
    axes.plot([1, -1], [1, -1], "*", color="0.3", markersize=9, label=r"oracle $\pm(1, 1)$")
    axes.axhline(0.0, color="0.85", linewidth=0.7, zorder=0)
    axes.axvline(0.0, color="0.85", linewidth=0.7, zorder=0)
    norm, shade = LogNorm(*data.step.values[[1, -1]]), None
    words = {"textcoords": "offset points", "fontsize": 7.5, "ha": "center", "va": "center"}
    for n in runs:
        points = np.stack([data.kappa.values[n], data.nu.values[n]], axis=-1)
        pieces = list(np.stack([points[:-1], points[1:]], axis=1))
        shade = LineCollection(pieces, cmap="viridis", norm=norm, linewidth=2.0)
        shade.set_array(data.step.values[1:])
        axes.add_collection(shade)
        axes.plot(*points[0], "o", color="0.3", markersize=3.0)
        axes.plot(*points[-1], "s", color=colour(1), markersize=4.0)
        inward = -11.0 * np.where(points[-1] < 0.0, -1.0, 1.0)
        axes.annotate(str(n), points[-1], tuple(inward), **words)
    axes.plot([], [], "o", color="0.3", markersize=3.0, label="start")
    axes.plot([], [], "s", color=colour(1), markersize=4.0, label="end")
    axes.set(xlim=(-1.1, 1.1), xlabel=r"$\kappa = k\cdot k^*$")
    axes.set(ylim=(-1.1, 1.1), ylabel=r"$\nu = v\cdot v^*$")
    axes.set_title(f"runs {', '.join(map(str, runs))}", fontsize=9.0)
    axes.legend(fontsize=7.5, loc="upper left")
    if shade is not None:
        figure.colorbar(shade, ax=axes, fraction=0.06).ax.set_title("step", fontsize=7.5)


def draw_panels(
    data: xr.Dataset, ylim: tuple[float, float], *, each_run: bool = False, smallest: float = 1e-8
) -> matplotlib.figure.Figure:
    """Risk, |κ| and |ν|, trajectories, distance; of runs that end swapped, one line each.

    Args:
        data: of `record`.
        ylim: between which risks are drawn.
        each_run: draw |κ|, |ν| and the distance as a line a run, and a swapped trajectory.
        smallest: distance drawn; as published unless given.
    """
    (most, lost), at = parted(data), data.step.values
    words = f"mean of {most.sizes['run']}, 95 %" if lost.sizes["run"] else "mean, 95 %"
    failed = f"swapped, {lost.sizes['run']} of {data.sizes['run']}"
    if each_run:
        scalars = [
            each(at, abs(most.kappa), r"$|\kappa|$, to the oracle", 0),
            each(at, abs(most.nu), r"$|\nu|$, to the oracle", 5, linestyle="--"),
            each(at, abs(lost.kappa), r"$|\kappa|$, swapped", 1),
            each(at, abs(lost.nu), r"$|\nu|$, swapped", 4, linestyle="--"),
        ]
        distances = [
            each(at, most.distance, "to the oracle", 0),
            each(at, lost.distance, "swapped", 1),
        ]
    else:
        scalars = [
            band(at, abs(most.kappa), r"$|\kappa|$", 0),
            band(at, abs(most.nu), r"$|\nu|$", 2),
            each(at, abs(lost.kappa), "swapped", 1, linestyle="-."),
            each(at, abs(lost.nu), "", 1, linestyle="-."),
        ]
        distances = [
            # What is below the panel, 0 above all, is left out of the logarithm.
            band(at, most.distance.clip(1e-300, None), words, 0),
            each(at, lost.distance, "swapped", 1, linestyle="-."),
        ]
    risks = [
        band(at, most.loss, words, 0),
        each(at, lost.loss, failed, 1, linestyle="-."),
        theory(at, data.oracle, "oracle", 6),
    ]
    figure, axes = panels(4)
    _panel(r"excess risk $R - \varepsilon^2$", risks, ylim).put(axes[0])
    _panel(r"$|\kappa|$, $|\nu|$", scalars, (-0.03, 1.03)).put(axes[1])
    _square(figure, axes[2], data, _chosen(data)[: 3 if each_run else 2])
    name, title = r"$\sqrt{\theta^2 + \eta^2 + \rho^2}$", "distance to the manifold"
    _panel(name, distances, (smallest, 2.0), log="y", title=title).put(axes[3])
    return figure


def _panel(y: str, marks: Sequence[Mark], ylim: Any = None, **more: Any) -> Panel:
    """A panel over the steps, in thousands."""
    how = {"axis": "x", "style": "sci", "scilimits": (3, 3), "useMathText": True}
    steps = [lambda axes: axes.ticklabel_format(**how)]
    return Panel("step", y, marks, ylim=ylim, legend=7.5, more=steps, **more)
