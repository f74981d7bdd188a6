"""Fig. 4: separate keys and queries of rank R = 1, 2, 4, 8: plateaus at multiples of R."""

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Claim, Figure, Size, stage, worst_ratio
from ...style import THEORY, TRAINING, colour, panels
from .. import final_weights, given, rank_escape_rate, train
from ._rank import (
    CONSTANTS,
    NOTE,
    RATE,
    SEED,
    SETTINGS,
    draw_ranks,
    draw_rests,
    over_ranks,
    rank_claims,
    rank_statements,
    rank_task,
    say,
)

RANKS = (1, 2, 4, 8)
SPARE = {"size": 1e-8, "steps": 400, "log_every": 10}
TAKEN = (1, 2, 3, 5)  # directions that the spare pair takes up


def _spare() -> xr.Dataset:
    """A head of rank 2 that holds the first direction, its spare pair all but zero."""
    task = rank_task()
    held = final_weights(task, [(0,)], rank=2)
    keys = held["key"].at[:, 1, : task.dim].set(SPARE["size"])
    queries = np.zeros(keys.shape)
    queries[:, :, : task.dim] = held["query"].at[:, 1].set(SPARE["size"])
    value = np.zeros((1, task.features, task.features))
    value[:, task.dim :] = held["value"]
    start = given(value, key=keys, query=queries, dim=task.dim)
    rate = RATE * task.context ** (2 / 3)  # in the paper's units
    run = train(task, start, lr=rate, steps=SPARE["steps"], log_every=SPARE["log_every"])
    map_ = np.asarray(run.map)[..., 1:]
    first = SPARE["size"] ** 2 * float(held["value"][0, 0, -1])
    rates = [float(rank_escape_rate(task, (0,), d)) for d in TAKEN]
    return xr.Dataset(
        {
            "spare": (("taken", "spare_step"), map_[TAKEN, TAKEN] / first),
            "spare_growth": ("taken", np.log1p(2.0 * rate * np.array(rates))),
        },
        coords={"taken": list(TAKEN), "spare_step": run.step[1:]},
    )


def compute(size: Size) -> xr.Dataset:
    """Training at every rank, and the growth of a spare pair."""
    return xr.merge([over_ranks(SETTINGS[size], RANKS), stage("spare", _spare)])


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """A panel a rank, the time spent at each level, and the spare pair."""
    figure, axes = panels(3, 2)
    draw_ranks(axes, data)
    draw_rests(axes[4], data)
    for k, d in enumerate(TAKEN):
        here = data.sel(taken=d)
        axes[5].plot(
            data.spare_step, here.spare, color=colour(k), label=f"$d = {d + 1}$", **TRAINING
        )
        law = np.exp(2.0 * here.spare_growth * data.spare_step)
        axes[5].plot(data.spare_step, law, color="black", **THEORY)
    axes[5].plot([], [], color="black", label=r"rate $2v\lambda_d^2$", **THEORY)
    axes[5].set_yscale("log")
    axes[5].set_xlabel("step")
    axes[5].set_ylabel("$M_{dd}$ / its start")
    axes[5].set_title("spare pair, $d = 1$ is held", fontsize=9.0)
    axes[5].legend(fontsize=8.0)
    return figure


RANK = rank_statements("fig4", "Fig. 4")
GROWTH = say(
    "fig4",
    "spare-pair",
    "A head with a spare pair takes up a direction exponentially, at the rate vλ_d² (largest "
    "relative gap of the growth of k and q a step, ln(1 + 2ηvλ_d²)).",
    "derived",
    "new",
)


def claims(data: xr.Dataset) -> list[Claim]:
    """Plateaus at multiples of R, and why there are no others."""
    grown = 0.5 * np.log(data.spare.isel(spare_step=-1)) / float(data.spare_step[-1])
    return [
        *rank_claims(RANK, data),
        GROWTH.judge(
            0.0,
            worst_ratio(grown, data.spare_growth),
            1e-3,
            note=f"Directions {', '.join(str(d + 1) for d in TAKEN)} from k = q = 1e-8, "
            f"{SPARE['steps']} steps on the population; a head with no pair grown yet has rate 0.",
        ),
    ]


FIGURE = Figure(
    id="shallow_icl/fig4",
    title="Keys and queries of rank R: plateaus at multiples of R only",
    settings=SETTINGS,
    constants={**CONSTANTS, "ranks": RANKS},
    statements=(*RANK, GROWTH),
    compute=compute,
    draw=draw,
    claims=claims,
    note=NOTE,
    seed=SEED,
)
