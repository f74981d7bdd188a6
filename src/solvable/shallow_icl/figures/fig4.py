"""Fig. 4: separate keys and queries of rank R = 1, 2, 4, 8: plateaus at multiples of R."""

from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, near, settings_of, worst_ratio
from ...reproduce.panels import Panel, drawn, theory, training
from .. import final_weights, given, rank_escape_rate, train
from ._rank import (
    CONSTANTS,
    NOTE,
    SETTINGS,
    claim_ranks,
    over_ranks,
    rank_panels,
    rank_task,
    rest_panel,
)

fig = Figure(
    "shallow_icl/fig4",
    "Keys and queries of rank R: plateaus at multiples of R only",
    settings=SETTINGS,
    constants={
        **CONSTANTS,
        "ranks": (1, 2, 4, 8),
        "spare": {"size": 1e-8, "steps": 400, "log_every": 10},
        "taken": (1, 2, 3, 5),  # directions that the spare pair takes up
    },
    note=NOTE,
)


@fig.data
def ranks(settings: Any) -> xr.Dataset:
    """Training at every rank."""
    return over_ranks(settings)


@fig.data
def spare(settings: Any) -> xr.Dataset:
    """A head of rank 2 that holds the first direction, its spare pair all but zero."""
    task, size = rank_task(settings), settings.spare["size"]
    held = {name: np.array(x) for name, x in final_weights(task, [(0,)], rank=2).items()}
    held["key"][:, 1, : task.dim] = held["query"][:, 1] = size
    value = np.zeros((1, task.features, task.features))
    value[:, task.dim :] = held["value"]
    query = np.pad(held["query"], ((0, 0), (0, 0), (0, 1)))
    start = given(value, key=held["key"], query=query, dim=task.dim)
    rate = settings.lr * task.context ** (2 / 3)  # in the paper's units
    how = {"lr": rate, "steps": settings.spare["steps"], "log_every": settings.spare["log_every"]}
    run = train(task, start, **how)
    taken = list(settings.taken)
    first = size**2 * float(held["value"][0, 0, -1])
    rates = [float(rank_escape_rate(task, (0,), d)) for d in taken]
    found = {
        "spare": (("taken", "spare_step"), np.asarray(run.map)[taken, taken, 1:] / first),
        "spare_growth": ("taken", np.log1p(2.0 * rate * np.array(rates))),
    }
    return xr.Dataset(found, {"taken": taken, "spare_step": run.step[1:]})


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """A panel a rank, the time spent at each level, and the spare pair."""
    marks = []
    for k, taken in enumerate(d.taken.values):
        here = d.sel(taken=taken)
        marks.append(training(d.spare_step, here.spare, f"$d = {taken + 1}$", k))
        law = np.exp(2.0 * here.spare_growth * d.spare_step)
        words = "" if k else r"rate $2v\lambda_d^2$"
        marks.append(theory(d.spare_step, law, words, color="black"))
    title = "spare pair, $d = 1$ is held"
    last = Panel("step", "$M_{dd}$ / its start", marks, log="y", title=title)
    return drawn(*rank_panels(d), rest_panel(d), last, rows=2)


claim_ranks(fig, "Fig. 4, Sec. 5")


@fig.claim("new", "derived")
def spare_pair(d):
    """A head with a spare pair takes up a direction exponentially, at the rate vλ_d² (largest
    relative gap of the growth of k and q a step, ln(1 + 2ηvλ_d²))."""
    settings = settings_of(d)
    grown = 0.5 * np.log(d.spare.isel(spare_step=-1)) / float(d.spare_step[-1])
    words = f"Directions {', '.join(str(k + 1) for k in settings.taken)} from k = q = 1e-8, "
    words += f"{settings.spare['steps']} steps on the population."
    gap = worst_ratio(grown, d.spare_growth)
    because = "the pair stays below 1e-7, and the head that has it is at rest to 1e-9"
    return near(gap, 0.0, 1e-8, because=because, note=words)
