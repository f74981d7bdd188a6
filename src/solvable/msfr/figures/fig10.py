"""Fig. 10: softmax attention trained by AdamW: L against D, N, t and C."""

from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Claim, Figure, Size, Statement, stage, step, worst_ratio
from ...reproduce.claim import Kind
from ...style import LAW, THEORY, TRAINING, colour, loglog, panels
from .. import Run, Task, adamw, train
from ._softmax import (
    ENTRY,
    FEW,
    NEVER_ENDING,
    OVER_SETS,
    WIDTH,
    Saturated,
    between,
    data_sets,
    draw_data_sets,
    envelope,
    few_start,
    few_tasks,
    few_ticks,
    judge_exponent,
    optimal,
    over_data_sets,
    start,
    steady_decades,
)
from ._witness import judge_tokens, on_tokens, tokens_statement

ALPHAS = (1.8, 2.1)
COMPUTE_ALPHA = 2.1
STRENGTH = 0.5
# Table 4; one for all runs, so that they are compiled once.
ADAMW = adamw(5e-3)

SETTINGS: dict[Size, dict[str, Any]] = {
    "quick": {
        "num_tasks": 200,
        "context": 20.0,
        "steps": 300,
        "sizes": 8,
        "data": {"most": 300, "count": 3, "seeds": 3},
    },
    "default": {
        "num_tasks": 500,
        "context": 100.0,
        "steps": 300,
        "sizes": 16,
        "data": {"most": 1000, "count": 5, "seeds": 4},
    },
    "full": {
        "num_tasks": 500,
        "context": 100.0,
        "steps": 1000,
        "sizes": 24,
        "data": {"most": 3000, "count": 8, "seeds": 16},
    },
}


def _task(settings: dict, alpha: float) -> Task:
    return Task(settings["num_tasks"], alpha, settings["context"], STRENGTH)


def _train(settings: dict, alpha: float, **how: Any) -> Run:
    task, steps = _task(settings, alpha), settings["steps"]
    return train(task, start(), optimizer=ADAMW, steps=steps, log_every=1, **how)


def _halved(run: Run) -> np.ndarray:
    """When each task's error is half of what it was, between the steps by a straight line."""
    error = np.abs(np.asarray(run.predictions) - STRENGTH)
    error = error / error[:, :1]
    after = np.argmax(error <= 0.5, axis=1)
    task = np.arange(len(error))
    high, low = error[task, after - 1], error[task, after]
    return after - 1 + (high - 0.5) / (high - low)


def _time(settings: dict) -> xr.Dataset:
    """The whole model on the population; the law of gradient descent beside it."""
    runs = [_train(settings, alpha, progress=step) for alpha in ALPHAS]
    t = np.geomspace(1.0, 1e5, 61)
    flow = [Saturated.of(_task(settings, alpha)).loss(t) for alpha in ALPHAS]
    return xr.Dataset(
        {
            "time_trained": (("alpha", "time"), [np.asarray(run.loss) for run in runs]),
            "halved": (("alpha", "task"), [_halved(run) for run in runs]),
            "descent": (("alpha", "descent_time"), flow),
        },
        coords={"alpha": list(ALPHAS), "time": runs[0].time, "descent_time": t},
    )


def _sizes(settings: dict, whole: xr.DataArray) -> xr.Dataset:
    """Models of several sizes D, and what they are if every task has the whole model's curve."""
    most = settings["num_tasks"]
    sizes = np.array(between(most / 100, most / 5, settings["sizes"]))
    shape = (len(ALPHAS), len(sizes), -1)
    trained = [
        np.asarray(_train(settings, alpha, size=int(size), progress=step).loss)
        for alpha in ALPHAS
        for size in sizes
    ]
    unlearned = [
        Saturated.of(_task(settings, alpha)).loss(NEVER_ENDING, size=int(size))[0]
        for alpha in ALPHAS
        for size in sizes
    ]
    curves = np.reshape(trained, shape)
    t = whole.time.values[1:]
    compute = np.geomspace(sizes[0] * t[0], sizes[-1] * t[-1], 121)
    every = np.arange(2, most + 2)
    together = whole.sel(alpha=COMPUTE_ALPHA).values[1:]
    flow = Saturated.of(_task(settings, COMPUTE_ALPHA))
    start_loss = float(flow.loss(0.0)[0])
    left = np.array([flow.loss(NEVER_ENDING, size=int(size))[0] for size in every])
    share = together / whole.sel(alpha=COMPUTE_ALPHA).values[0]
    predicted = left[:, None] + (start_loss - left)[:, None] * share
    best, best_size = envelope(compute, every, t, predicted)
    lowest, _ = envelope(compute, sizes, t, curves[ALPHAS.index(COMPUTE_ALPHA), :, 1:])
    same, _ = envelope(compute, sizes, t, predicted[sizes - every[0]])
    return xr.Dataset(
        {
            "size_trained": (("alpha", "size", "time"), curves),
            "size_theory": (("alpha", "size"), np.reshape(unlearned, shape[:2])),
            "envelope": ("compute", lowest),
            "same_sizes": ("compute", same),
            "frontier": ("compute", best),
            "frontier_size": ("compute", best_size),
        },
        coords={"alpha": list(ALPHAS), "size": sizes, "time": whole.time, "compute": compute},
    )


def _data(settings: dict) -> xr.Dataset:
    """The whole model on data sets of several sizes N, several of each."""
    how = settings["data"]
    return data_sets(
        {alpha: _task(settings, alpha) for alpha in ALPHAS},
        between(10, how["most"], how["count"]),
        range(how["seeds"]),
        NEVER_ENDING,
        lambda alpha, data, seed: _train(settings, alpha, data=data, seed=seed),
    )


def compute(size: Size) -> xr.Dataset:
    """Training in D, N, t and C, with the theory of what is never learned."""
    settings = SETTINGS[size]
    whole = stage("time", lambda: _time(settings))
    sizes = stage("sizes", lambda: _sizes(settings, whole.time_trained))
    data = stage("data", lambda: _data(settings))
    tokens = stage("tokens", lambda: on_tokens(few_tasks(), few_start(), **FEW, optimizer=ADAMW))
    return xr.merge([whole, sizes, data, tokens])


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """L against D, N, t and C."""
    figure, axes = panels(2, 2)
    by_size, by_data, by_time, by_compute = axes
    late = data.isel(time=slice(1, None))
    for k, alpha in enumerate(ALPHAS):
        here, words = late.sel(alpha=alpha), rf"$\alpha = {alpha}$"
        look = {"color": colour(k)}
        by_size.plot(here["size"], here.size_trained.isel(time=-1), **look, **TRAINING, label=words)
        by_size.plot(here["size"], here.size_theory, **look, **THEORY)
        draw_data_sets(by_data, here, colour(k), words)
        # The curves lie on each other: the upper one is narrower.
        width = {"linewidth": 4.5 - 3.0 * k}
        by_time.plot(here.time, here.time_trained, **look, **(TRAINING | width), label=words)
    t = late.time.values
    for k, alpha in enumerate(ALPHAS):
        law = float(data.time_trained[k, 0]) * t ** -((alpha - 1.0) / alpha)
        by_time.plot(t, law, **LAW, label="" if k else r"$(\alpha-1)/\alpha$, as with GD")
    for axis, x in ((by_size, "D"), (by_data, "N"), (by_time, "t")):
        if axis is not by_time:
            words = "theory, same counts" if axis is by_data else "theory"
            axis.plot([], [], color="0.2", label=words, **THEORY)
        if axis is by_data:
            axis.plot([], [], label="theory, all data sets", **LAW)
        loglog(axis, x)
        axis.legend(loc="lower left")
    few_ticks(by_size)
    shades = np.linspace(0.25, 0.9, data.sizes["size"])
    for size, shade in zip(data["size"].values, shades, strict=True):
        curve = late.size_trained.sel(alpha=COMPUTE_ALPHA, size=size)
        by_compute.plot(size * late.time, curve, color=colour(0), linewidth=1.0, alpha=float(shade))
    seen = _optimal(data)
    c = seen["compute"]
    by_compute.plot(c, seen.envelope, color=colour(1), label="lower envelope", **TRAINING)
    by_compute.plot(c, seen.frontier, color=colour(6), label="predicted, every $D$", **THEORY)
    tail = seen.isel(compute=slice(len(c) // 2, None))
    line = (tail["compute"] / tail["compute"][0]) ** -(COMPUTE_ALPHA - 1.0)
    by_compute.plot(
        tail["compute"], 0.5 * float(tail.frontier[0]) * line, **LAW, label=r"$\alpha - 1$"
    )
    loglog(by_compute, "C = D t", title=rf"$\alpha = {COMPUTE_ALPHA}$, one curve a $D$")
    by_compute.legend(loc="lower left")
    return figure


def _optimal(data: xr.Dataset) -> xr.Dataset:
    return optimal(data, data.time.values[1:])


def _say(word: str, kind: Kind, text: str) -> Statement:
    return Statement(f"msfr/fig10/{word}", text, "Fig. 10, App. I.2", kind)


SIZE = {
    a: _say(
        f"size-{10 * a:.0f}",
        "new",
        f"Under AdamW at α = {a} what remains of L is the initial error of the tasks s ≥ D "
        "(largest relative gap of L).",
    )
    for a in ALPHAS
}
SIZE_EXPONENT = {
    a: _say(
        f"size-exponent-{10 * a:.0f}",
        "check",  # Table 1 has D, not D − ½
        f"Under AdamW L ∝ (D−½)^(−(α−1)) at α = {a} (exponent of the training).",
    )
    for a in ALPHAS
}
DATA = {
    a: _say(
        f"data-{10 * a:.0f}",
        "new",
        f"Under AdamW at α = {a} what remains of L is the initial error of the tasks that the "
        "data set lacks (largest relative gap of L over all N and seeds).",
    )
    for a in ALPHAS
}
DATA_EXPONENT = {
    a: _say(
        f"data-exponent-{10 * a:.0f}",
        "check",  # of training over theory, times theory's mean: practically theory's own
        f"Under AdamW L ∝ N^(−(α−1)/α) at α = {a} (exponent of the training, averaged over data "
        "sets).",
    )
    for a in ALPHAS
}
NO_LAW = {
    a: _say(
        f"time-{10 * a:.0f}",
        "new",
        f"Under AdamW at α = {a} the law in t is not gradient descent's, and no power law: the "
        "local exponent keeps within 20 % of one number for half a decade at most.",
    )
    for a in ALPHAS
}
TOGETHER = {
    a: _say(
        f"together-{10 * a:.0f}",
        "new",
        f"AdamW at α = {a} learns all tasks at the same time, whatever p_s (time to halve the "
        "error, slowest task over fastest).",
    )
    for a in ALPHAS
}
COMPUTE = _say(
    "compute",
    "check",
    f"At α = {COMPUTE_ALPHA} the lower envelope of L(t; D) at fixed C = D·t is that of tasks "
    "s < D which all have the whole model's curve (largest relative gap).",
)
COMPUTE_EXPONENT = _say(
    "compute-exponent",
    "new",
    f"Under AdamW the law in C at α = {COMPUTE_ALPHA} is not gradient descent's: its exponent "
    "tends to α−1, that of D.",
)

BRUTE = tokens_statement("msfr/fig10", "Fig. 10", "AdamW, S = 8")


def claims(data: xr.Dataset) -> list[Claim]:
    """What is never learned, when the rest is, and what compute buys."""
    found = []
    for a in ALPHAS:
        here = data.sel(alpha=a)
        last, curve = here.isel(time=-1), here.isel(time=slice(1, None)).time_trained
        mean = over_data_sets(here.data_trained, here.data_realised, here.data_expected)
        steepest, begin = _steepest(curve.time.values, curve.values)
        steady = steady_decades(here.descent_time, here.descent)
        slowest, fastest = float(here.halved.max()), float(here.halved.min())
        found += [
            SIZE[a].judge(0.0, worst_ratio(last.size_trained, here.size_theory), 0.01),
            judge_exponent(
                SIZE_EXPONENT[a],
                a - 1.0,
                "D−½",
                here["size"] - 0.5,
                last.size_trained,
                here.size_theory,
            ),
            DATA[a].judge(0.0, worst_ratio(here.data_trained, here.data_realised), 0.01),
            judge_exponent(
                DATA_EXPONENT[a],
                (a - 1.0) / a,
                "N",
                here["amount"],
                mean,
                here.data_expected,
                OVER_SETS,
            ),
            NO_LAW[a].judge(
                0.5,
                steady_decades(curve.time, curve),
                "at most",
                note=(
                    f"An exponential has 0.18 decades; theory of gradient descent has {steady:.1f} "
                    f"at this S. From step {begin} to {10 * begin} L falls by "
                    f"{steepest:.1f} decades, by GD's law {(a - 1.0) / a:.2f}."
                ),
            ),
            TOGETHER[a].judge(
                1.0,
                slowest / fastest,
                0.1,
                note=(
                    f"After {fastest:.1f} to {slowest:.1f} steps; under gradient descent the ratio "
                    f"is p_1/p_S = {data.sizes['task'] ** a:.2g}."
                ),
            ),
        ]
    seen = _optimal(data)
    descent = (COMPUTE_ALPHA - 1.0) / (COMPUTE_ALPHA + 1.0)
    return [
        *found,
        COMPUTE.judge(
            0.0,
            worst_ratio(seen.envelope, seen.same_sizes),
            0.01,
            note="Over the same D; where the best D of all is among the sizes trained.",
        ),
        judge_exponent(
            COMPUTE_EXPONENT,
            COMPUTE_ALPHA - 1.0,
            "C",
            seen["compute"],
            seen.envelope,
            seen.frontier,
            f"Gradient descent's is (α−1)/(α+1) = {descent:.3f}.",
        ),
        judge_tokens(BRUTE, data),
    ]


def _steepest(t: np.ndarray, losses: np.ndarray) -> tuple[float, int]:
    """The most decades by which L falls within one of t, and where that begins."""
    whole = t.astype(int)
    first = whole[10 * whole <= whole[-1]]
    fall = np.log10(losses[first - whole[0]] / losses[10 * first - whole[0]])
    return float(fall.max()), int(first[np.argmax(fall)])


FIGURE = Figure(
    id="msfr/fig10",
    title="Softmax attention by AdamW: the loss in D, N, t and C",
    settings=SETTINGS,
    constants={"alphas": ALPHAS, "strength": STRENGTH, "entry": ENTRY, "width": WIDTH},
    statements=(
        *(
            said[a]
            for a in ALPHAS
            for said in (SIZE, SIZE_EXPONENT, DATA, DATA_EXPONENT, NO_LAW, TOGETHER)
        ),
        COMPUTE,
        COMPUTE_EXPONENT,
        BRUTE,
    ),
    compute=compute,
    draw=draw,
    claims=claims,
    note=(
        "AdamW as in Table 4. The start is ours, as the paper does not say: V = 0.1, W_K = 0.1 "
        "and W_Q = 0.11 in every entry, d_e = 501; S = 500, ψ = 100, Λ = 0.5 as in Fig. 3 (quick: "
        "S = 200, ψ = 20). t counts steps; L against D and N is that of the last step, 300 (full: "
        "1000). L(t) dips where the momentum carries predictions through their targets."
    ),
)
