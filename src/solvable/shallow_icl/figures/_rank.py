"""What Figs. 4 and 12 share: the loss of keys and queries of several ranks, and its plateaus."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import xarray as xr

from ...reproduce import (
    Figure,
    Finding,
    Size,
    at_least,
    near,
    settings_of,
    stage,
    step,
    worst_ratio,
)
from ...reproduce.panels import Panel, each, level, line
from .. import (
    Task,
    mid_levels,
    plateau_levels,
    plateau_losses,
    sample,
    separate,
    statistics,
    train,
)

SETTINGS: dict[Size, dict[str, Any]] = {
    "quick": {"sequences": None, "seeds": 8, "steps": 20000},
    "default": {"sequences": 80000, "seeds": 16, "steps": 20000},
    "full": {"sequences": 80000, "seeds": 48, "steps": 50000},
}
CONSTANTS = {
    "dim": 8,
    "context": 31,
    "heads": 9,
    "scale": 5e-3,
    "init": "B",
    "lr": 0.02,
    "points": 400,  # logged in every run
    "near": 0.1,  # of its own loss: how near to a level a run is said to rest at it
    "judged": (1, 2, 3, 4, 5),  # the levels behind the first whose surroundings do not overlap
}
NOTE = (
    "D = 8, N = 31, H = 9, scale 5e-3, η = 0.02 in units of the published code, P = 80000 and "
    "20000 steps as there (quick: the population; full: 50000 steps, as an earlier README). "
    "Which of the published initialisations the paper used is not known: here version B (W^V of "
    "standard deviation s, W^K and W^Q of s/√(R(D+1))), that of the code at the time of the "
    "paper. A run rests at a level while its loss is within 10 % of it, and how long is told in "
    "ln t; the levels m ≥ 6 are so close to each other that this tells nothing there, and levels "
    "that fewer than half of the runs get to are not judged. Where the weights end is in fig11."
)


def rank_task(settings: Any) -> Task:
    """The data law of both figures."""
    return Task(settings.dim, settings.context)


def _one(settings: Any, rank: int, data: Callable[[], Any]) -> xr.Dataset:
    """Runs from all seeds at one rank, and where each is flattest between two drops."""
    seeds = list(range(settings.seed, settings.seed + settings.seeds))
    start = separate(settings.heads, rank, settings.scale, settings.init)
    how = {"steps": settings.steps, "log_every": settings.steps // settings.points}
    run = train(data(), start, lr=settings.lr, units="code", seed=seeds, progress=step, **how)
    loss = np.asarray(run.loss)
    # A run may end on a plateau: it is taken to drop right after.
    steps, ended = np.append(run.step, run.step[-1] + 1), np.pad(loss, ((0, 0), (0, 1)))
    heights = plateau_levels(steps, ended, np.asarray(mid_levels(rank_task(settings))))
    found = {"loss": (("seed", "step"), loss), "height": (("seed", "plateau"), heights)}
    places = {"seed": seeds, "step": run.step, "plateau": np.arange(1, heights.shape[1] + 1)}
    return xr.Dataset(found, places).expand_dims(rank=[rank])


def over_ranks(settings: Any) -> xr.Dataset:
    """Runs at every rank, on one data set or on the population."""

    @cache
    def data() -> Any:
        task = rank_task(settings)
        if settings.sequences is None:
            return task
        return statistics(sample(task, settings.sequences, seed=settings.seed))

    ranks = settings.ranks
    found = [stage(f"rank_{r}", lambda r=r: _one(settings, r, data)) for r in ranks]
    levels = np.asarray(plateau_losses(rank_task(settings)))
    return xr.concat(found, dim="rank").assign(level=("learned", levels))


def rests(data: xr.Dataset) -> xr.DataArray:
    """For how much of ln t a run is near each level, median over seeds, (rank, learned)."""
    later = data.isel(step=slice(1, None))
    pace = xr.DataArray(np.gradient(np.log(later.step.values)), dims="step")
    there = abs(later.loss / data.level - 1.0) <= settings_of(data).near
    return (there * pace).sum("step").median("seed")


def _reached(data: xr.Dataset) -> list[tuple[int, int]]:
    """The ranks R and levels m that half of the runs get to."""
    settings, end = settings_of(data), data.loss.isel(step=-1).median("seed")
    seen = end <= (1.0 + settings.near) * data.level
    return [(r, m) for r in settings.ranks for m in settings.judged if seen.sel(rank=r)[m]]


def _contrast(data: xr.Dataset, chosen: Callable[[int, int], bool]) -> tuple[float, str]:
    """The shortest rest at a chosen level over the longest at another; where they are."""
    spent = rests(data)
    found = {(r, m): float(spent.sel(rank=r)[m]) for r, m in _reached(data)}
    least = min((pair for pair in found if chosen(*pair)), key=lambda pair: found[pair])
    most = max((pair for pair in found if not chosen(*pair)), key=lambda pair: found[pair])
    words = "ln t {:.3f} at R = {}, m = {}, against {:.3f} at R = {}, m = {}."
    return found[least] / found[most], words.format(found[least], *least, found[most], *most)


REST = "a plateau is where a loss stays longer than elsewhere"


def claim_ranks(fig: Figure, source: str) -> None:
    """What is said of the ranks of either figure."""

    def rests(data: xr.Dataset) -> Finding:
        """The loss rests at L(M_m) where m is a multiple of R: at any of them longer than at any
        level that is none (within 10 %, the least ln t over the most; over R and 1 ≤ m ≤ 5, median
        over seeds)."""
        ratio, words = _contrast(data, lambda r, m: m % r == 0)
        return at_least(ratio, 1.0, because=REST, note=words)

    def literally(data: xr.Dataset) -> Finding:
        """Read literally, "m that divides R" as the paper is reported to write: the loss rests at
        L(M_m) where m divides R, longer than where it does not (the same ratio)."""
        ratio, words = _contrast(data, lambda r, m: r % m == 0)
        words += " The account adds that multiples of R are meant: a head takes its R directions "
        words += "one right after the other, and only the next head keeps the loss waiting."
        return at_least(ratio, 1.0, because=REST, note=words)

    def levels(data: xr.Dataset) -> Finding:
        """The plateaus are those of R = 1, L(M_m) = tr Λ − Σ_d≤m λ_d/γ_d (largest relative gap of
        a plateau's median height, over R and the multiples m ≤ 5 of R)."""
        sequences, places = settings_of(data).sequences, _reached(data)
        dark = [(r, m) for r, m in places if m % r == 0]
        found = [data.height.sel(rank=r, plateau=m) for r, m in dark]
        gaps = [
            worst_ratio(x.median(), data.level[m]) for x, (_, m) in zip(found, dark, strict=True)
        ]
        seen = sum(int(x.notnull().sum()) for x in found)
        words = f"{seen} of {len(dark) * data.sizes['seed']} runs and plateaus have a height: both "
        words += "drops, with a log point in between."
        if sequences is None:
            why = "a plateau that directions to come have begun to lower is never quite flat"
            return near(max(gaps), 0.0, 1e-4, because=why, note=words)
        # Of one data set. Relative to its mean y_q² has the variance 2 + 6 tr Λ²/(tr Λ)².
        lam = np.asarray(rank_task(settings_of(data)).eigenvalues)
        spread = (2.0 + 6.0 * float(np.sum(lam**2) / np.sum(lam) ** 2)) ** 0.5
        why = "3.5 standard errors of the mean of y_q² over one data set"
        return near(max(gaps), 0.0, 3.5 * spread * sequences**-0.5, because=why, note=words)

    fig.claim("reported", source)(rests)
    fig.claim("reported", source, word="rests-reported", known="fails")(literally)
    fig.claim("reported", source)(levels)


def rank_panels(data: xr.Dataset) -> list[Panel]:
    """One panel a rank: every seed's loss, and the levels; those at multiples of R dark."""
    time, levels, panels = data.step.values / 1000, data.level.values, []
    for k, rank in enumerate(data["rank"].values.tolist()):
        dark, pale = {"color": "black", "linewidth": 1.0}, {"color": "0.7"}
        looks = [dark if m % rank == 0 else pale for m in range(len(levels))]
        marks = [level(y, linestyle="--", **look) for y, look in zip(levels, looks, strict=True)]
        marks.append(each(time, data.loss.sel(rank=rank).transpose("seed", "step"), k=k, alpha=0.6))
        shown = [m for m in range(0, 9, rank) if m != 7 or rank == 7]  # 7 and 8 are too close

        def right(axes: Any, shown: list[int] = shown) -> None:
            side = axes.secondary_yaxis("right")
            side.set_yticks(levels[shown], [f"$m={m}$" for m in shown])
            side.tick_params(labelsize=6.0, length=2.0)

        look: dict[str, Any] = {"xlim": (0.0, time[-1]), "ylim": (0.15, 1.05), "legend": 0.0}
        panels.append(
            Panel("step / 1000", "$L$", marks, title=f"$R = {rank}$", more=[right], **look)
        )
    return panels


def rest_panel(data: xr.Dataset) -> Panel:
    """How long a median run rests at each level, rank by rank."""
    judged, found = list(settings_of(data).judged), rests(data)
    look: dict[str, Any] = {"marker": "o", "markersize": 4.0, "linewidth": 0.8}
    marks = [
        line(judged, found.sel(rank=rank)[judged], f"$R = {rank}$", k, **look)
        for k, rank in enumerate(data["rank"].values)
    ]
    ticks = [lambda axes: axes.set_xticks(judged)]
    return Panel("$m$", r"$\ln t$ spent near $L(M_m)$", marks, more=ticks)
