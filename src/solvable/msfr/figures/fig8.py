"""Fig. 8: softmax attention trained by gradient descent: L against D, t, N and C."""

from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Claim, Figure, Size, Statement, stage, step, worst_ratio
from ...reproduce.claim import Kind
from ...style import LAW, THEORY, TRAINING, colour, loglog, panels
from ...training import log_steps
from .. import Run, Task, train
from ._drawing import guide
from ._softmax import (
    ENTRY,
    FEW,
    OVER_SETS,
    SETTLED,
    STEP_ERROR,
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
    near_decades,
    optimal,
    over_data_sets,
    start,
)
from ._witness import judge_tokens, on_tokens, tokens_statement

ALPHAS = (1.8, 2.1)
COMPUTE_ALPHA = 1.8
STRENGTH = 0.5
LARGE = 100_000  # tasks at which the law in t is asymptotic
LARGE_COMPUTE = 10_000  # and that in C
POINTS = 250  # logged in every run on the population, so that they are compiled once

SETTINGS: dict[Size, dict[str, Any]] = {
    "quick": {
        "num_tasks": 200,
        "context": 20.0,
        "time": {"lr": 0.1, "steps": 5000},
        "size": {"lr": 1.0, "steps": 1000, "count": 12},
        "data": {"lr": 1.0, "steps": 1000, "most": 300, "count": 3, "seeds": 3},
    },
    "default": {
        "num_tasks": 500,
        "context": 100.0,
        "time": {"lr": 0.1, "steps": 5000},
        "size": {"lr": 1.0, "steps": 1750, "count": 12},
        "data": {"lr": 1.0, "steps": 1000, "most": 300, "count": 4, "seeds": 3},
    },
    "full": {
        "num_tasks": 500,
        "context": 100.0,
        "time": {"lr": 0.1, "steps": 10000},
        "size": {"lr": 1.0, "steps": 10000, "count": 16},
        "data": {"lr": 1.0, "steps": 5000, "most": 1000, "count": 6, "seeds": 8},
    },
}


def _task(settings: dict, alpha: float) -> Task:
    return Task(settings["num_tasks"], alpha, settings["context"], STRENGTH)


def _time(settings: dict) -> xr.Dataset:
    """The whole model on the population, at a small step."""
    how = settings["time"]
    every = how["steps"] // POINTS
    t = how["lr"] * log_steps(how["steps"], every)[1:]
    trained, theory, large = [], [], []
    far = np.geomspace(1.0, 1e9, 55)
    for alpha in ALPHAS:
        task = _task(settings, alpha)
        run = train(task, start(), **how, log_every=every, progress=step)
        trained.append(np.asarray(run.loss)[1:])
        theory.append(Saturated.of(task).loss(t))
        large.append(Saturated.of(Task(LARGE, alpha, settings["context"], STRENGTH)).loss(far))
    return xr.Dataset(
        {
            "time_trained": (("alpha", "time"), trained),
            "time_theory": (("alpha", "time"), theory),
            "large_theory": (("alpha", "large_time"), large),
        },
        coords={"alpha": list(ALPHAS), "time": t, "large_time": far},
        attrs={"time_lr": how["lr"], "large": LARGE},
    )


def _sizes(settings: dict) -> xr.Dataset:
    """Models of several sizes D on the population, and the frontier of compute."""
    how, most = settings["size"], settings["num_tasks"]
    sizes = between(most / 100, most / 5, how["count"])
    every = how["steps"] // POINTS
    t = how["lr"] * log_steps(how["steps"], every)[1:]
    trained, theory = [], []
    for alpha in ALPHAS:
        task = _task(settings, alpha)
        flow = Saturated.of(task)
        for size in sizes:
            run = train(
                task,
                start(),
                lr=how["lr"],
                steps=how["steps"],
                size=size,
                log_every=every,
                progress=step,
            )
            trained.append(np.asarray(run.loss)[1:])
            theory.append(flow.loss(t, size=size))
    shape = (len(ALPHAS), len(sizes), -1)
    curves = np.reshape(trained, shape)
    compute = np.geomspace(sizes[0] * t[0], sizes[-1] * t[-1], 61)
    best, best_size = Saturated.of(_task(settings, COMPUTE_ALPHA)).frontier(compute)
    lowest, _ = envelope(compute, np.array(sizes), t, curves[ALPHAS.index(COMPUTE_ALPHA)])
    far = np.geomspace(1e2, 1e9, 43)
    flow = Saturated.of(Task(LARGE_COMPUTE, COMPUTE_ALPHA, settings["context"], STRENGTH))
    large, _ = flow.frontier(far, np.array(between(2, LARGE_COMPUTE, 201)))
    return xr.Dataset(
        {
            "size_trained": (("alpha", "size", "size_time"), curves),
            "size_theory": (("alpha", "size", "size_time"), np.reshape(theory, shape)),
            "envelope": ("compute", lowest),
            "frontier": ("compute", best),
            "frontier_size": ("compute", best_size),
            "large_frontier": ("large_compute", large),
        },
        coords={
            "alpha": list(ALPHAS),
            "size": sizes,
            "size_time": t,
            "compute": compute,
            "large_compute": far,
        },
        attrs={"size_lr": how["lr"]},
    )


def _data(settings: dict) -> xr.Dataset:
    """The whole model on data sets of several sizes N, several of each."""
    how = settings["data"]
    lr, steps = how["lr"], how["steps"]
    tasks = {alpha: _task(settings, alpha) for alpha in ALPHAS}

    def run(alpha: float, data: int, seed: int) -> Run:
        every = steps // POINTS
        return train(
            tasks[alpha], start(), lr=lr, steps=steps, data=data, seed=seed, log_every=every
        )

    amounts, seeds = between(10, how["most"], how["count"]), range(how["seeds"])
    return data_sets(tasks, amounts, seeds, lr * steps, run).assign_attrs(data_time=lr * steps)


def compute(size: Size) -> xr.Dataset:
    """Training in D, t, N and C, with the finite-size theory of each."""
    settings = SETTINGS[size]
    return xr.merge(
        [
            stage("time", lambda: _time(settings)),
            stage("sizes", lambda: _sizes(settings)),
            stage("data", lambda: _data(settings)),
            stage("tokens", lambda: on_tokens(few_tasks(), few_start(), **FEW, lr=0.1)),
        ],
        combine_attrs="no_conflicts",
    )


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """L against D, t, N and C."""
    figure, axes = panels(2, 2)
    by_size, by_time, by_data, by_compute = axes
    for k, alpha in enumerate(ALPHAS):
        here, words = data.sel(alpha=alpha), rf"$\alpha = {alpha}$"
        look = {"color": colour(k)}
        last = here.isel(size_time=-1)
        by_size.plot(here["size"], last.size_trained, **look, **TRAINING, label=words)
        by_size.plot(here["size"], last.size_theory, **look, **THEORY)
        by_time.plot(here.time, here.time_trained, **look, **TRAINING, label=words)
        by_time.plot(here.time, here.time_theory, **look, **THEORY)
        draw_data_sets(by_data, here, colour(k), words)
    t = data.time.values[len(data.time) // 10 :]
    for k, alpha in enumerate(ALPHAS):
        law = (alpha - 1.0) / alpha
        y = data.time_theory.sel(alpha=alpha).values[-len(t) :]
        guide(by_time, t, y, law, "" if k else r"$(\alpha-1)/\alpha$")
    for axis, x, title in (
        (by_size, "D", rf"$t = {float(data.size_time[-1]):.0f}$"),
        (by_time, "t", r"$D = N = \infty$"),
        (by_data, "N", rf"$t = {data.attrs['data_time']:.0f}$"),
    ):
        words = "theory, same counts" if axis is by_data else "theory"
        axis.plot([], [], color="0.2", label=words, **THEORY)
        if axis is by_data:
            axis.plot([], [], label="theory, all data sets", **LAW)
        loglog(axis, x, title=title)
        axis.legend(loc="lower left")
    few_ticks(by_size)
    shades = np.linspace(0.25, 0.9, data.sizes["size"])
    for size, shade in zip(data["size"].values, shades, strict=True):
        curve = data.size_trained.sel(alpha=COMPUTE_ALPHA, size=size)
        by_compute.plot(
            size * data.size_time, curve, color=colour(0), linewidth=1.0, alpha=float(shade)
        )
    seen = _optimal(data)
    by_compute.plot(
        seen["compute"], seen.envelope, color=colour(1), label="lower envelope", **TRAINING
    )
    by_compute.plot(seen["compute"], seen.frontier, color=colour(6), label="theory", **THEORY)
    law = (COMPUTE_ALPHA - 1.0) / (COMPUTE_ALPHA + 1.0)
    c, y = seen["compute"].values, seen.frontier.values
    by_compute.plot(c, 0.6 * y[0] * (c / c[0]) ** -law, **LAW, label=r"$(\alpha-1)/(\alpha+1)$")
    loglog(by_compute, "C = D t", title=rf"$\alpha = {COMPUTE_ALPHA}$, one curve a $D$")
    by_compute.legend(loc="lower left")
    return figure


def _optimal(data: xr.Dataset) -> xr.Dataset:
    t = data.size_time.values
    return optimal(data, t[t >= SETTLED * data.attrs["size_lr"]])


def _say(word: str, kind: Kind, panel: str, text: str) -> Statement:
    return Statement(f"msfr/fig8/{word}", text, f"Fig. 8{panel}, App. I.1", kind)


TIME = {
    a: _say(
        f"time-{10 * a:.0f}",
        "new",
        "b",
        f"At α = {a} softmax attention follows L(t) = ½ Σ p e(0)² exp(−2p(1+Λ²)t) from step "
        f"{SETTLED} on (largest relative gap of L).",
    )
    for a in ALPHAS
}
TIME_EXPONENT = {
    a: _say(
        f"time-exponent-{10 * a:.0f}",
        "paper",
        "b",
        f"L ∝ t^(−(α−1)/α) at α = {a} (exponent of the training).",
    )
    for a in ALPHAS
}
TIME_DECADES = {
    a: _say(
        f"time-decades-{10 * a:.0f}",
        "check",
        "b",
        f"At S = 10⁵ the same theory has an exponent within 2 % of (α−1)/α, α = {a}, over two "
        "decades of t or more.",
    )
    for a in ALPHAS
}
SIZE = {
    a: _say(
        f"size-{10 * a:.0f}",
        "new",
        "a",
        f"At α = {a} L(D) is the initial error of the tasks s ≥ D and what is left of the others "
        "(largest relative gap of L).",
    )
    for a in ALPHAS
}
SIZE_EXPONENT = {
    a: _say(
        f"size-exponent-{10 * a:.0f}",
        "check",  # Table 1 has D, not D − ½
        "a",
        f"L ∝ (D−½)^(−(α−1)) at α = {a} (exponent of the training).",
    )
    for a in ALPHAS
}
DATA = {
    a: _say(
        f"data-{10 * a:.0f}",
        "new",
        "c",
        f"At α = {a} every task is learned at the pace of its share #_s/N of the data set "
        "(largest relative gap of L over all N and seeds).",
    )
    for a in ALPHAS
}
DATA_EXPONENT = {
    a: _say(
        f"data-exponent-{10 * a:.0f}",
        "check",  # of training over theory, times theory's mean: practically theory's own
        "c",
        f"L ∝ N^(−(α−1)/α) at α = {a} (exponent of the training, averaged over data sets).",
    )
    for a in ALPHAS
}
COMPUTE = _say(
    "compute",
    "check",
    "d",
    f"At α = {COMPUTE_ALPHA} the lower envelope of L(t; D) at fixed C = D·t is the least of the "
    "theory's L(C/D, D) (largest relative gap).",
)
COMPUTE_DECADES = _say(
    "compute-decades",
    "check",
    "d",
    "At S = 10⁴ the same theory has an exponent within 5 % of (α−1)/(α+1), α = "
    f"{COMPUTE_ALPHA}, over two decades of C or more.",
)
BRUTE = tokens_statement("msfr/fig8", "Fig. 8", "S = 8")

GRID_ERROR = (
    "Where theory's D* is among the sizes trained and its t* past step "
    f"{SETTLED}: 1 % for the steps and 1 % for having a dozen sizes, not all."
)


def claims(data: xr.Dataset) -> list[Claim]:
    """Training against theory at its own size, and the exponents."""
    late = data.isel(time=data.time.values >= SETTLED * data.attrs["time_lr"])
    end = data.isel(size_time=-1)
    found = []
    for a in ALPHAS:
        now, last = late.sel(alpha=a), end.sel(alpha=a)
        law = (a - 1.0) / a
        far = data.large_theory.sel(alpha=a)
        found += [
            SIZE[a].judge(0.0, worst_ratio(last.size_trained, last.size_theory), 0.01),
            judge_exponent(
                SIZE_EXPONENT[a],
                a - 1.0,
                "D−½",
                last["size"] - 0.5,
                last.size_trained,
                last.size_theory,
            ),
            TIME[a].judge(
                0.0, worst_ratio(now.time_trained, now.time_theory), 0.01, note=STEP_ERROR
            ),
            judge_exponent(TIME_EXPONENT[a], law, "t", now.time, now.time_trained, now.time_theory),
            TIME_DECADES[a].judge(2.0, near_decades(far.large_time, far, law, 0.02), "at least"),
            DATA[a].judge(0.0, worst_ratio(last.data_trained, last.data_realised), 0.01),
            judge_exponent(
                DATA_EXPONENT[a],
                law,
                "N",
                last["amount"],
                over_data_sets(last.data_trained, last.data_realised, last.data_expected),
                last.data_expected,
                OVER_SETS,
            ),
        ]
    seen, far = _optimal(data), data.large_frontier
    law = (COMPUTE_ALPHA - 1.0) / (COMPUTE_ALPHA + 1.0)
    return [
        *found,
        COMPUTE.judge(0.0, worst_ratio(seen.envelope, seen.frontier), 0.02, note=GRID_ERROR),
        COMPUTE_DECADES.judge(2.0, near_decades(far.large_compute, far, law, 0.05), "at least"),
        judge_tokens(BRUTE, data),
    ]


FIGURE = Figure(
    id="msfr/fig8",
    title="Softmax attention by gradient descent: the loss in D, t, N and C",
    settings=SETTINGS,
    constants={"alphas": ALPHAS, "strength": STRENGTH, "entry": ENTRY, "width": WIDTH},
    statements=(
        *(
            said[a]
            for a in ALPHAS
            for said in (
                SIZE,
                SIZE_EXPONENT,
                TIME,
                TIME_EXPONENT,
                TIME_DECADES,
                DATA,
                DATA_EXPONENT,
            )
        ),
        COMPUTE,
        COMPUTE_DECADES,
        BRUTE,
    ),
    compute=compute,
    draw=draw,
    claims=claims,
    note=(
        "The paper does not say how softmax attention starts: here V = 0.1, W_K = 0.1 and "
        "W_Q = 0.11 in every entry, and d_e = 501 (S + 1 at S = 500), so that u = 8 at the start. "
        "The theory needs u ≫ 1: with d_e = 51 it is tens of per cent off. S = 500, ψ = 100 and "
        "Λ = 0.5 as in Fig. 3 (quick: S = 200, ψ = 20). Learning rates and steps are ours: 0.1 in "
        "(b), 1 in (a), (c), (d), whose L is that at the t in their titles. Tokens are trained at "
        "S = 8, ψ = 10, N = 200, d_e = 9."
    ),
)
