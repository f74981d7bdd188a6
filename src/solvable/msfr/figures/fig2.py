"""Fig. 2: L(t) by theory and by training, at a short and a long context."""

from collections.abc import Mapping
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Claim, Figure, Size, Statement, stage, worst_ratio
from ...reproduce.claim import Kind
from ...style import THEORY, TOKENS, TRAINING, colour, loglog, panels
from .. import Init, Task, loss, train
from ._judging import START, log_points
from ._witness import ROUND_OFF, on_tokens

CONTEXTS = (5, 100)
ORDERS = ("zeroth", "first", "exact")
SETTINGS: Mapping[Size, Mapping[str, Any]] = {
    "quick": {"num_tasks": 100, "lr": 1e-3, "steps": 5000, "data": 200, "token_steps": (300, 30)},
    "default": {
        "num_tasks": 100,
        "lr": 1e-3,
        "steps": 5000,
        "data": 400,
        "token_steps": (1000, 200),
    },
    "full": {
        "num_tasks": 100,
        "lr": 1e-4,
        "steps": 50000,
        "data": 2000,
        "token_steps": (5000, 1000),
    },
}
INIT = (0.1, 0.11)  # (106)


def _task(settings: Mapping[str, Any], context: int) -> Task:
    return Task(settings["num_tasks"], alpha=1.8, context=float(context), strength=0.5)


def _curves(settings: Mapping[str, Any]) -> xr.Dataset:
    """Gradient descent on the population, and the flow to each order."""
    init, points = Init(*INIT), log_points(settings["steps"], 120)
    t = settings["lr"] * points
    trained, theory = [], []
    for context in CONTEXTS:
        task = _task(settings, context)
        run = train(task, init, lr=settings["lr"], steps=settings["steps"], log_every=1)
        trained.append(np.asarray(run.loss)[points])
        theory.append([np.asarray(loss(task, init, t, order)) for order in ORDERS])
    return xr.Dataset(
        {
            "trained": (("context", "time"), trained),
            "theory": (("context", "order", "time"), theory),
        },
        coords={"context": list(CONTEXTS), "time": t, "order": list(ORDERS)},
    )


def _tokens(settings: Mapping[str, Any]) -> xr.Dataset:
    """The same training on real tokens and in the reduction, from one data set a context."""
    found: list[xr.Dataset] = []
    for context, steps in zip(CONTEXTS, settings["token_steps"], strict=True):
        how = {"lr": settings["lr"], "steps": steps, "data": settings["data"], "seed": 0}
        how["log_every"] = max(1, steps // 30)
        part = on_tokens(_task(settings, context), Init(*INIT), **how)
        names = ("tokens", "reduced", "token_time")
        found.append(part.rename({name: f"{name}_{context}" for name in names}))
    return xr.merge(found)


def compute(size: Size) -> xr.Dataset:
    """Training and theory at both context lengths."""
    settings = SETTINGS[size]
    return xr.merge(
        [stage("curves", lambda: _curves(settings)), stage("tokens", lambda: _tokens(settings))]
    )


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """One panel a context length, and the data set on which tokens are trained."""
    figure, axes = panels(3)
    for each, context in zip(axes, CONTEXTS, strict=False):
        here = data.sel(context=context).isel(time=slice(1, None))
        each.plot(here.time, here.trained, color=colour(0), label="training (reduced)", **TRAINING)
        for k, order in enumerate(ORDERS):
            words = f"theory, {'exact' if order == 'exact' else f'{order} order'}"
            each.plot(
                here.time, here.theory.sel(order=order), color=colour(1 + k), label=words, **THEORY
            )
        loglog(each, "t", title=rf"$\psi = {context}$")
        each.legend()
    for k, context in enumerate(CONTEXTS):
        t = data[f"token_time_{context}"][1:]
        axes[2].plot(
            t,
            data[f"reduced_{context}"][1:],
            color=colour(k),
            label=rf"reduced, $\psi = {context}$",
            **TRAINING,
        )
        axes[2].plot(
            t,
            data[f"tokens_{context}"][1:],
            color=colour(k),
            label=rf"tokens, $\psi = {context}$",
            **TOKENS,
        )
    loglog(axes[2], "t", title="on one data set")
    axes[2].set_ylim(bottom=data[f"tokens_{CONTEXTS[0]}"].values.min() / 4)
    axes[2].legend(fontsize=7.5, ncols=2, loc="lower center")
    return figure


def _say(word: str, kind: Kind, text: str, source: str = "Fig. 2, Theorem 3.1") -> Statement:
    return Statement(f"msfr/fig2/{word}", text, source, kind)


EXACT = {
    c: _say(
        f"exact-{c}",
        "check",
        f"L(t) of gradient descent at ψ = {c} is that of the exact flow for t ≥ 0.03 (largest "
        "relative gap).",
    )
    for c in CONTEXTS
}
ZEROTH = _say(
    "order-zero-100",
    "paper",
    "At ψ = 100 order zero describes training (largest relative gap of L for t ≥ 0.03).",
)
SHORT = _say(
    "first-order-5",
    "new",
    "At ψ = 5 the first order in 1/ψ (App. J, carried over to any start) closes the gap that order "
    "zero leaves: what remains is "
    "at most a tenth (ratio of the largest relative gaps of L for t ≥ 0.03).",
    "Fig. 2, App. J",
)
BRUTE = {
    c: _say(
        f"tokens-{c}",
        "check",
        f"Training on real tokens is the reduced dynamics to round-off, ψ = {c} (largest relative "
        "gap of L).",
    )
    for c in CONTEXTS
}


def claims(data: xr.Dataset) -> list[Claim]:
    """Theory against training, and tokens against the reduction."""
    late = data.isel(time=data.time.values >= START)
    gaps = {
        (c, order): worst_ratio(
            late.trained.sel(context=c), late.theory.sel(context=c, order=order)
        )
        for c in CONTEXTS
        for order in ORDERS
    }
    return [
        *(EXACT[c].judge(0.0, gaps[c, "exact"], 0.01) for c in CONTEXTS),
        ZEROTH.judge(0.0, gaps[100, "zeroth"], 0.02),
        SHORT.judge(
            0.1,
            gaps[5, "first"] / gaps[5, "zeroth"],
            "at most",
            note=f"Order zero is {gaps[5, 'zeroth']:.1%} off, the first {gaps[5, 'first']:.1%}.",
        ),
        *(
            BRUTE[c].judge(
                0.0,
                worst_ratio(data[f"tokens_{c}"], data[f"reduced_{c}"]),
                ROUND_OFF,
                note=f"Trained to t = {float(data[f'token_time_{c}'][-1]):.2g}.",
            )
            for c in CONTEXTS
        ),
    ]


FIGURE = Figure(
    id="msfr/fig2",
    title="The loss in time, theory against training, at a short and a long context",
    settings=SETTINGS,
    constants={"alpha": 1.8, "strength": 0.5, "contexts": CONTEXTS, "init": INIT},
    statements=(*EXACT.values(), ZEROTH, SHORT, *BRUTE.values()),
    compute=compute,
    draw=draw,
    claims=claims,
    note=(
        "S = 100, v = 0.1, w = 0.11 at the start (106), GD with lr 1e-3 and 5000 steps as in the "
        "paper, which states neither "
        "α nor Λ here: α = 1.8, Λ = 0.5. The gap of order zero at ψ = 5 is what the exact solution "
        "closes. GD with lr 1e-3 is 7 % below its flow at t = 0.002, an error of the step that has "
        "fallen below 1 % by t = 0.03, where the comparison starts. (c): the same training on "
        "real tokens and reduced, on one data set."
    ),
)
