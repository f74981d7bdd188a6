"""Fig. 9: softmax attention at context lengths that vary from task to task: L against t."""

from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Claim, Figure, Size, Statement, stage, step, worst_ratio
from ...style import LAW, THEORY, TRAINING, colour, loglog, panels
from .. import Task, train
from ._drawing import guide
from ._softmax import ENTRY, FEW, SETTLED, STEP_ERROR, WIDTH, Saturated, few_start, few_tasks, start
from ._witness import judge_tokens, on_tokens, tokens_statement

ALPHA = 1.8
STRENGTH = 0.5
BETAS = (0.0, 0.5, 1.0)
VARIED = BETAS[1:]
WORD = {0.0: "zero", 0.5: "half", 1.0: "one"}

SETTINGS: dict[Size, dict[str, Any]] = {
    "quick": {"num_tasks": 200, "context": 500.0, "lr": 0.5, "steps": 1000},
    "default": {"num_tasks": 500, "context": 500.0, "lr": 0.2, "steps": 2500},
    "full": {"num_tasks": 500, "context": 1000.0, "lr": 0.1, "steps": 10000},
}


def _curve(settings: dict, beta: float) -> xr.Dataset:
    """Gradient descent on the population with ψ_s = ψ_1 s^-β, and the theory."""
    task = Task(settings["num_tasks"], ALPHA, settings["context"], STRENGTH, beta=beta)
    lr, steps = settings["lr"], settings["steps"]
    run = train(task, start(), lr=lr, steps=steps, log_every=steps // 250, progress=step)
    t = run.time[1:]
    return xr.Dataset(
        {
            "trained": (("beta", "time"), np.asarray(run.loss)[None, 1:]),
            "theory": (("beta", "time"), Saturated.of(task).loss(t)[None]),
            "shortest": ("beta", [float(task.rounded().contexts[-1])]),
        },
        coords={"beta": [beta], "time": t},
        attrs={"lr": lr},
    )


def compute(size: Size) -> xr.Dataset:
    """L(t) for every β."""
    settings = SETTINGS[size]
    curves = [stage(f"beta-{beta}", lambda beta=beta: _curve(settings, beta)) for beta in BETAS]
    tokens = stage("tokens", lambda: on_tokens(few_tasks(beta=1.0), few_start(), **FEW, lr=0.1))
    return xr.merge([xr.concat(curves, dim="beta"), tokens])


def _table_2(beta: float) -> float:
    return (ALPHA - 1.0) / (ALPHA + beta)


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """The curves, and each divided by that of β = 0."""
    figure, axes = panels(2)
    t = data.time.values
    first = data.sel(beta=0.0)
    for k, beta in enumerate(BETAS):
        here, look = data.sel(beta=beta), {"color": colour(k)}
        # The curves lie on each other: each is narrower than the one below it.
        width = {"linewidth": 6.0 - 2.0 * k}
        words = rf"$\beta = {beta:g}$"
        axes[0].plot(t, here.trained, label=words, **look, **(TRAINING | width))
        axes[1].plot(t, here.trained / first.trained, **look, **TRAINING)
        axes[1].plot(t, here.theory / first.theory, **look, **THEORY)
    axes[0].plot(t, first.theory, color="0.2", label=r"theory, $\beta = 0$", **THEORY)
    late = t >= SETTLED * data.attrs["lr"]
    guide(axes[0], t[late], first.theory.values[late], _table_2(0.0), r"$(\alpha-1)/\alpha$")
    loglog(axes[0], "t", title=rf"$\alpha = {ALPHA}$, $\psi_s \propto s^{{-\beta}}$")
    axes[0].legend(loc="lower left")
    begin = t[late][0]
    for beta, up in zip(VARIED, (-1, 1), strict=True):
        line = (t[late] / begin) ** (_table_2(0.0) - _table_2(beta))
        axes[1].plot(t[late], line, **LAW)
        axes[1].annotate(
            rf"Table 2, $\beta = {beta:g}$",
            (t[-1], line[-1] if up > 0 else 1.0 + 0.4 * (line[-1] - 1.0)),
            xytext=(-4 - 8 * (up > 0), 3 * up),
            textcoords="offset points",
            ha="right",
            va="bottom" if up > 0 else "top",
            fontsize=8.0,
            color="0.35",
        )
    axes[1].set_xscale("log")
    axes[1].set_xlabel("$t$")
    axes[1].set_ylabel(r"$L_\beta\,/\,L_{\beta=0}$")
    axes[1].set_ylim(0.9, 1.08 * axes[1].get_ylim()[1])
    axes[1].set_title(r"relative to $\beta = 0$", fontsize=9.0)
    return figure


def _say(word: str, text: str) -> Statement:
    return Statement(f"msfr/fig9/{word}", text, "Fig. 9, App. I.1", "new")


THEORETICAL = {
    b: _say(
        f"theory-{WORD[b]}",
        f"At β = {b:g} gradient descent follows the flow of saturated attention, in which ψ_s "
        f"enters through 2^(−ψ_s) alone, from step {SETTLED} on (largest relative gap of L).",
    )
    for b in BETAS
}
EXPONENT = {
    b: _say(
        f"exponent-{WORD[b]}",
        "The law in t of softmax attention that starts saturated does not depend on β: the "
        f"exponent of the training at β = {b:g} is that at β = 0.",
    )
    for b in VARIED
}
SAME = {
    b: _say(
        f"same-{WORD[b]}",
        f"L(t) at β = {b:g} is that at β = 0, if attention starts saturated (largest relative gap "
        "of L).",
    )
    for b in VARIED
}

BRUTE = tokens_statement("msfr/fig9", "Fig. 9", "β = 1, S = 8")


def _exponent(t: np.ndarray, losses: np.ndarray) -> float:
    """The mean slope from the first to the last time."""
    return float(np.log(losses[0] / losses[-1]) / np.log(t[-1] / t[0]))


def claims(data: xr.Dataset) -> list[Claim]:
    """Each β against theory, β = 0 and Table 2."""
    late = data.isel(time=data.time.values >= SETTLED * data.attrs["lr"])
    t = late.time.values
    trained = {b: late.trained.sel(beta=b).values for b in BETAS}
    theory = {b: late.theory.sel(beta=b).values for b in BETAS}
    slope = {b: _exponent(t, trained[b]) for b in BETAS}
    drop = {b: _table_2(0.0) - _table_2(b) for b in VARIED}
    opened = {b: (t[-1] / t[0]) ** drop[b] - 1.0 for b in VARIED}
    reach = f"From t = {t[0]:.0f}, step {SETTLED}, to {t[-1]:.0f}"
    return [
        *(
            THEORETICAL[b].judge(0.0, worst_ratio(trained[b], theory[b]), 0.01, note=STEP_ERROR)
            for b in BETAS
        ),
        *(
            EXPONENT[b].judge(
                slope[0.0],
                slope[b],
                drop[b] / 4.0,
                note=(
                    f"Linear attention's law, Table 2, takes {drop[b]:.3f} off; the tolerance is a "
                    "quarter of that. "
                    f"{reach}, where the finite S makes L steeper than t^(−(α−1)/α)."
                ),
            )
            for b in VARIED
        ),
        *(
            SAME[b].judge(
                0.0,
                worst_ratio(trained[b], trained[0.0]),
                opened[b] / 10.0,
                note=(
                    f"{reach}; linear attention's law, Table 2, opens a gap of {opened[b]:.2g} "
                    "between these times, and the tolerance is a tenth of it. The shortest context "
                    "has "
                    f"ψ = {int(data.shortest.sel(beta=b))}."
                ),
            )
            for b in VARIED
        ),
        judge_tokens(BRUTE, data),
    ]


FIGURE = Figure(
    id="msfr/fig9",
    title="Softmax attention at varied context lengths: the loss in time",
    settings=SETTINGS,
    constants={
        "alpha": ALPHA,
        "betas": BETAS,
        "strength": STRENGTH,
        "entry": ENTRY,
        "width": WIDTH,
    },
    statements=(*THEORETICAL.values(), *EXPONENT.values(), *SAME.values(), BRUTE),
    compute=compute,
    draw=draw,
    claims=claims,
    note=(
        "The paper does not state ψ_1 and the start: here ψ_1 = 500 (1000 at full size), so that "
        "at β = 1 no context is shorter than one token at S = 500, lengths rounded; Λ = 0.5; "
        "V = 0.1, W_K = 0.1, W_Q = 0.11 in every entry and d_e = 501. Quick: S = 200. Where no "
        "context sign agrees with the query, which has the chance 2^(−ψ_s), the query attends to "
        "itself; but for that ψ_s does not enter, as softmax normalises by it. Theory leaves out "
        "what the query's own token takes at the start from n agreeing ones, 6 %/n. The paper sees "
        "a law similar to linear attention's from a start that it does not state; nothing is said "
        "here of starts that are not saturated."
    ),
)
