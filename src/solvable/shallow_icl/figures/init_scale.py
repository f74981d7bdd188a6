"""How long the first plateau lasts: a logarithm of the initial scale, or its inverse."""

from collections.abc import Mapping
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Claim, Figure, Size, Statement, stage, step, worst_ratio
from ...reproduce.claim import Kind
from ...style import LAW, THEORY, TOKENS, colour, panels
from .. import (
    Start,
    Task,
    crossing_times,
    drop_times,
    escape_rate,
    escape_time,
    merged,
    mid_levels,
    separate,
    train,
)

SEED = 0
HEADS = {"merged": 8, "separate": 5}
POINTS = 500  # logged in every run
STEPS = 5000  # of merged attention, at every scale
RATE = 0.2  # of separate attention, whose steps grow with 1/scale
HORIZON = 25.0  # t/τ times scale: later than any seed's first drop
SMALL = {"merged": 1e-2, "separate": 1e-2}  # scales up to which the laws are judged
SETTINGS: Mapping[Size, Mapping[str, Any]] = {
    "quick": {"seeds": 8, "merged": (1e-6, 1e-1, 6), "separate": (1e-3, 1e-1, 5)},
    "default": {"seeds": 24, "merged": (1e-8, 1e-1, 15), "separate": (1e-4, 1e-1, 10)},
    "full": {"seeds": 48, "merged": (1e-10, 1e-1, 19), "separate": (1e-4, 1e-1, 13)},
}


def _task() -> Task:
    return Task(dim=4, context=31, basis="random", basis_seed=SEED)


def _first_drop(start: Start, lr: float, steps: int, seeds: list[int], **how: Any) -> np.ndarray:
    """When each seed's loss first falls to the first mid-level, on the population."""
    task = _task()
    run = train(
        task,
        start,
        lr=lr,
        steps=steps,
        seed=seeds,
        log_every=steps // POINTS,
        progress=step,
        **how,
    )
    return crossing_times(run.time, run.loss, mid_levels(task)[:1])[:, 0]


def _merged(settings: Mapping[str, Any], seeds: list[int]) -> xr.Dataset:
    """Merged attention: all heads, and the D + 1 numbers of the theory."""
    scales = np.geomspace(*settings["merged"])
    drops, theory = [], []
    for scale in scales.tolist():
        horizon = 1.2 * float(escape_time(_task(), scale)) + 15.0
        how = (merged(HEADS["merged"], scale), horizon / (2.0 * STEPS), STEPS, seeds)
        drops.append(_first_drop(*how))
        theory.append(_first_drop(*how, blocks="aligned"))
    return xr.Dataset(
        {
            "merged_drop": (("merged_scale", "seed"), drops),
            "merged_theory": (("merged_scale", "seed"), theory),
        },
        coords={"merged_scale": scales, "seed": seeds},
        attrs={"escape_rate": float(escape_rate(_task()))},
    )


def _separate(settings: Mapping[str, Any], seeds: list[int]) -> xr.Dataset:
    """Separate attention: training, and the quadrature of the theory."""
    scales = np.geomspace(*settings["separate"])
    drops, theory = [], []
    for scale in scales.tolist():
        start = separate(HEADS["separate"], 1, scale)
        steps = POINTS * round(HORIZON / scale / (2.0 * RATE) / POINTS + 0.5)
        drops.append(_first_drop(start, RATE, steps, seeds))
        theory.append(drop_times(_task(), start, seed=seeds).time[:, 0])
    return xr.Dataset(
        {
            "separate_drop": (("separate_scale", "seed"), drops),
            "separate_theory": (("separate_scale", "seed"), theory),
        },
        coords={"separate_scale": scales, "seed": seeds},
    )


def compute(size: Size) -> xr.Dataset:
    """The first drop at every scale."""
    settings = SETTINGS[size]
    seeds = list(range(SEED, SEED + settings["seeds"]))
    return xr.merge(
        [
            stage("merged", lambda: _merged(settings, seeds)),
            stage("separate", lambda: _separate(settings, seeds)),
        ],
        combine_attrs="no_conflicts",
    )


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """The first drop against the scale, merged and separate."""
    figure, axes = panels(2)
    for each, name, k in zip(axes, HEADS, (0, 1), strict=True):
        scale = data[f"{name}_scale"].values
        drop = data[f"{name}_drop"]
        for n in range(data.sizes["seed"]):
            words = "" if n else "training, all seeds"
            each.plot(scale, drop.isel(seed=n), color=colour(k), alpha=0.5, **TOKENS, label=words)
        middle = data[f"{name}_theory"].median("seed").values
        each.plot(scale, middle, color=colour(6), **THEORY, label="theory, median seed")
        each.set_xscale("log")
        each.set_xlabel(r"initial scale $w_\mathrm{init}$")
        each.set_ylabel(r"first drop $t/\tau$")
        each.set_title(f"{name} key and query", fontsize=9.0)
    logarithm, inverse = axes
    scale, middle = data.merged_scale.values, data.merged_theory.median("seed").values
    law = middle[0] - np.log(scale / scale[0]) / data.attrs["escape_rate"]
    logarithm.plot(scale, law + 4.0, **LAW, label=r"slope $1/\|\Lambda^2\|_F$ in $\ln$")
    logarithm.set_ylim(bottom=0.0)
    scale, middle = data.separate_scale.values, data.separate_theory.median("seed").values
    inverse.plot(scale, 2.2 * middle[0] * scale[0] / scale, **LAW, label="slope $-1$")
    inverse.set_yscale("log")
    for each in axes:
        each.legend(loc="upper right", fontsize=8.0)
    return figure


def _say(word: str, text: str, source: str, kind: Kind) -> Statement:
    return Statement(f"shallow_icl/init-scale/{word}", text, source, kind)


LOGARITHM = _say(
    "merged-slope",
    "Merged attention stays near zero for a time ∝ ln(1/w_init): slope × ‖Λ²‖_F is 1 (least "
    "squares, median over seeds).",
    "eq. (7)",
    "reported",
)
MERGED = _say(
    "merged-theory",
    "Its first drop comes when that of the D + 1 numbers left after the escape does (largest "
    "relative gap, all seeds).",
    "derived",
    "check",
)
INVERSE = _say(
    "separate-slope",
    "Separate attention stays near zero for a time ∝ 1/w_init (log-log slope by least squares, "
    "median over seeds).",
    "derived",
    "new",
)
SEPARATE = _say(
    "separate-theory",
    "Its first drop comes when the exactly solved flow of a small head says (largest relative gap, "
    "all seeds).",
    "derived",
    "check",
)


def claims(data: xr.Dataset) -> list[Claim]:
    """Both laws, and the theory behind each, where the start is small."""
    small = {
        name: data.isel({f"{name}_scale": data[f"{name}_scale"].values <= 1.001 * SMALL[name]})
        for name in HEADS
    }
    kept = small["merged"]
    slopes = np.polyfit(np.log(kept.merged_scale.values), kept.merged_drop.values, 1)[0]
    rate = data.attrs["escape_rate"]
    thin = small["separate"]
    powers = np.polyfit(np.log(thin.separate_scale.values), np.log(thin.separate_drop.values), 1)[0]
    where = {name: f"Scales up to {scale:g}." for name, scale in SMALL.items()}
    return [
        LOGARITHM.judge(1.0, -rate * np.median(slopes), 0.01, note=where["merged"]),
        MERGED.judge(
            0.0, worst_ratio(kept.merged_drop, kept.merged_theory), 0.01, note=where["merged"]
        ),
        INVERSE.judge(-1.0, np.median(powers), 0.02, note=where["separate"]),
        SEPARATE.judge(
            0.0,
            worst_ratio(thin.separate_drop, thin.separate_theory),
            0.01,
            note=where["separate"],
        ),
    ]


FIGURE = Figure(
    id="shallow_icl/init-scale",
    title="How long the first plateau lasts, against the initial scale",
    settings=SETTINGS,
    constants={"dim": 4, "context": 31, "heads": HEADS, "rank": 1, "init": "A", "units": "paper"},
    statements=(LOGARITHM, MERGED, INVERSE, SEPARATE),
    compute=compute,
    draw=draw,
    claims=claims,
    note=(
        "Not in the paper, which says that plateaus grow as the start shrinks. The population; "
        "D = 4, N = 31, the paper's units (1/N in the attention), every weight of the same "
        "standard deviation; the same seed has the same weights at every scale, up to the scale. "
        "A drop is where L falls half-way to L(M_1). Two linear layers leave zero exponentially, "
        "three (value, key, query) by v̇ ∝ v², whence the two laws."
    ),
    seed=SEED,
)
