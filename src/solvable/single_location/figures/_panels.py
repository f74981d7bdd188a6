"""The four panels that all optimisation figures share, and how their runs are kept and judged."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm

from ... import validation
from ...reproduce import Figure, Finding, near, settings_of, step
from ...reproduce.panels import Mark, Panel, band, each, line, theory
from ...style import colour, panels
from .. import (
    Run,
    State,
    Task,
    decay,
    manifold,
    oracle_excess,
    published,
    sphere,
    train,
    train_brute,
)
from ..published import numbers

SCALARS = ("kappa", "nu", "theta", "eta", "rho")
KEPT = ("loss", "kappa", "nu", "distance")
PUBLISHED_RUNS = 30
SIGNS = {-1: "−", 1: "+"}
STARTS = (
    "The starts are those of the authors' 30 runs, remade from their random numbers; with start "
    "set to sphere or manifold, they are drawn from the seed instead."
)


def setting(figure: str) -> dict[str, Any]:
    """What a published figure is computed with; ``λ_t = lam/(1 + decay·t)``."""
    given = numbers(figure)
    same = ("dim", "length", "gamma", "noise", "lam", "lr", "steps", "shown")
    found = {name: given[name] for name in same} | {"decay": given["lam_decay"]}
    return found | {"start": "published", "figure": figure, "runs": PUBLISHED_RUNS}


def task(settings: Any) -> Task:
    """The data law."""
    return Task(settings.dim, settings.length, gamma=settings.gamma, noise=settings.noise)


def starts(settings: Any, first: int | None = None) -> State:
    """Where the runs start, or the first of them."""
    validation.one_of("start", settings.start, ("published", "sphere", "manifold"))
    if settings.start == "published":
        given = published(settings.figure)
        if settings.dim != given.task.dim or settings.runs > PUBLISHED_RUNS:
            raise ValueError(
                f"start must be sphere or manifold for other than up to {PUBLISHED_RUNS} runs at "
                f"dim = {given.task.dim}, the published ones"
            )
        found = given.start
    else:
        place = {"sphere": sphere, "manifold": manifold}[settings.start]
        found = place(task(settings), runs=settings.runs, seed=settings.seed)
    stop = settings.runs if first is None else min(first, settings.runs)
    return State.raw(*(getattr(found, name)[:stop] for name in SCALARS))


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
    ends = run.outcome
    kept |= {"end": ("run", ends.end.astype(str)), "sign": ("run", ends.sign)}
    oracle = np.asarray(oracle_excess(task(settings), run.lam))
    kept |= {"step": run.step, "lam": ("step", np.asarray(run.lam)), "oracle": ("step", oracle)}
    return xr.Dataset(kept | more)


def with_vectors(settings: Any, run: Run, steps: int) -> dict[str, Any]:
    """Risks and scalars of the first runs, in R^d and in five scalars, at the first log points."""
    count, names = min(settings.vector_runs, settings.runs), ("loss", "distance", *SCALARS)
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
    """Which runs end at the oracle or its flip."""
    return data.end == "oracle"


def parted(data: xr.Dataset) -> tuple[xr.Dataset, xr.Dataset]:
    """The runs that end at the oracle, and the others."""
    good = reached(data).values
    return data.isel(run=good), data.isel(run=~good)


def counted(data: xr.Dataset) -> str:
    """How many runs end where."""
    return f"{int(reached(data).sum())} of {data.sizes['run']} runs end at the oracle."


def claim_shown(fig: Figure, told: Mapping[int, str]) -> None:
    """Claim that the runs which the figure shows end where they do in the authors' code."""

    def shown(d: xr.Dataset) -> Finding:
        words = {"oracle": "", "swapped": "s", "undecided": "?"}
        found = {n: words[str(d.end[n].values)] or SIGNS[int(d.sign[n])] for n in told}
        said = ", ".join(f"run {n} at {end}" for n, end in found.items())
        right = np.mean([found[n] == end for n, end in told.items()])
        return near(right, 1.0, 0.0, because="all", note=f"{said} (s: swapped).")

    ends = ", ".join(f"{n} at {end.replace('s', 'the swapped minimum')}" for n, end in told.items())
    shown.__doc__ = (
        f"The runs that panel 3 shows end where they do in the authors' code: {ends} (share of "
        "them; + and − are the signs of κ and ν)."
    )
    source = f"Fig. {fig.name.removeprefix('fig')}, panel 3, by the authors' code"
    fig.claim("reported", source)(shown)


def _chosen(data: xr.Dataset) -> list[int]:
    """The runs that are published, or the first with each end."""
    given = settings_of(data)
    if given.start == "published" and max(given.shown) < data.sizes["run"]:
        return list(given.shown)
    ends = data.end.values, data.sign.values
    found = [np.flatnonzero((ends[0] == "oracle") & (ends[1] == sign)) for sign in (1, -1)]
    found.append(np.flatnonzero(ends[0] != "oracle"))
    return [int(runs[0]) for runs in found if len(runs)]


def _square(figure: matplotlib.figure.Figure, axes: Any, data: xr.Dataset, runs: list[int]) -> None:
    """Trajectories in the (κ, ν) square, coloured by step."""
    axes.plot([1, -1], [1, -1], "*", color="0.3", markersize=9, label=r"oracle $\pm(1, 1)$")
    axes.axhline(0.0, color="0.85", linewidth=0.7, zorder=0)
    axes.axvline(0.0, color="0.85", linewidth=0.7, zorder=0)
    shared: dict[tuple[float, ...], list[int]] = {}  # runs by where they end
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
        shared.setdefault(tuple(points[-1].round(1)), []).append(n)
    for place, which in shared.items():
        inward = -11.0 * np.where(np.array(place) < 0.0, -1.0, 1.0)
        axes.annotate(", ".join(map(str, which)), place, tuple(inward), **words)
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
    """Risk, |κ| and |ν|, trajectories, distance: means over all runs, as published.

    Where some runs do not end at the oracle, the mean of those that do is drawn beside that of all,
    and they themselves one by one.

    Args:
        data: of `record`.
        ylim: between which risks are drawn.
        each_run: draw |κ|, |ν| and the distance as a line a run.
        smallest: distance drawn; as published unless given.
    """
    (most, lost), at = parted(data), data.step.values
    runs = data.sizes["run"]
    words, some = f"mean of {runs}, 95 %", bool(lost.sizes["run"])
    failed = f"swapped, {lost.sizes['run']} of {runs}"

    def both(name: str, label: str, k: int) -> list[Mark]:
        """The mean of all runs with their band, and that of the ones at the oracle."""
        # What is below the panel, 0 above all, is left out of the logarithm.
        all_, own = abs(data[name]).clip(1e-300, None), abs(most[name]).clip(1e-300, None)
        marks = [band(at, all_, label, k)]
        if some and most.sizes["run"]:
            dashed = {"linestyle": "--", "linewidth": 1.0}
            marks.append(line(at, own.mean("run"), "", k, **dashed))
        return marks

    note = [line([], [], "mean at the oracle", 0, linestyle="--", linewidth=1.0)] if some else []
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
        risks = [*both("loss", words, 0), *note]
    else:
        apart = {"linestyle": "-.", "linewidth": 0.7}
        scalars = [*both("kappa", r"$|\kappa|$", 0), *both("nu", r"$|\nu|$", 2)]
        scalars += [each(at, abs(lost.kappa), "swapped", 1, **apart)]
        scalars += [each(at, abs(lost.nu), "", 1, **apart)]
        distances = [*both("distance", words, 0), each(at, lost.distance, failed, 1, **apart)]
        risks = [*both("loss", words, 0), *note, each(at, lost.loss, failed, 1, **apart)]
    risks.append(theory(at, data.oracle, "oracle", 6))
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
