"""Fig. 4b: from the invariant manifold, at constant λ, every run finds the oracle."""

from collections.abc import Mapping
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Claim, Figure, Size, Statement, stage, worst_ratio
from ...style import THEORY, colour
from .. import manifold_flow, oracle_excess, oracle_rates
from ._panels import (
    REFERENCE_RUNS,
    VECTOR_RUNS,
    Setting,
    chosen,
    draw_panels,
    means,
    path_gap,
    record,
    share_error,
    with_vectors,
    worst_score,
)

SEED = 0
SETTING = Setting(lam=0.1, lr=4e-3, steps=20_000, log_every=200, start="manifold")
EQUAL = 1000  # steps in R^d
# Mean excess risks of an earlier computation of ours, 30 other seeds, and their rounding.
EARLY = {0: (0.617, 5e-4), 2000: (0.151, 5e-4)}
LATE = {6000: 0.1150, 20_000: 0.1137}
TAIL = (50_000, 60_000)  # steps, beyond the figure, between which the rate of κ is measured
SETTINGS: Mapping[Size, Mapping[str, Any]] = {
    "quick": {"runs": 20},
    "default": {"runs": 30},
    "full": {"runs": 600},
}


def _runs(settings: Mapping[str, Any]) -> xr.Dataset:
    run = SETTING.train(settings["runs"], SEED, steps=TAIL[1])
    found = record(run, **with_vectors(SETTING, run, SEED, EQUAL))
    off = 1.0 - abs(found.kappa)
    fall = np.log(off.sel(step=TAIL[0]) / off.sel(step=TAIL[1]))
    found = found.sel(step=slice(None, SETTING.steps))
    return found.assign(rate=fall / (SETTING.lr * (TAIL[1] - TAIL[0])))


def _flow(settings: Mapping[str, Any]) -> xr.Dataset:
    """The gradient flow from the same starts, and descent with half the step beside it."""
    start = SETTING.starts(settings["runs"], SEED)
    half = SETTING.train(
        settings["runs"],
        SEED,
        lr=0.5 * SETTING.lr,
        steps=2 * SETTING.steps,
        log_every=2 * SETTING.log_every,
    )
    flow = manifold_flow(SETTING.task, start, half.time, lam=SETTING.lam)
    found = {"flow": flow, "half": half}
    return xr.Dataset(
        {
            f"{kind}_{name}": (("run", "step"), np.asarray(getattr(x, name)))
            for kind, x in found.items()
            for name in ("kappa", "nu")
        },
        coords={"step": half.step // 2},
    )


def compute(size: Size) -> xr.Dataset:
    """All runs in five scalars, a few in R^d, and the flow."""
    settings = SETTINGS[size]
    return xr.merge(
        [stage("runs", lambda: _runs(settings)), stage("flow", lambda: _flow(settings))]
    )


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """The four panels; the distance is 0."""
    oracle = np.full(data.sizes["step"], float(oracle_excess(SETTING.task, SETTING.lam)))
    figure, (risk, scalars, _, distance) = draw_panels(data, oracle, runs=chosen(data)[:2])
    risk.set_ylim(0.0, 0.7)
    for k, name in enumerate(("kappa", "nu")):
        scalars.plot(
            data.step,
            abs(data[f"flow_{name}"]).mean("run"),
            color=colour(6),
            label="" if k else "gradient flow",
            **THEORY,
        )
    scalars.legend(fontsize=7.5)
    distance.legend().remove()
    distance.axhspan(7e-9, 4e-7, color="0.88", linewidth=0.0)
    words = "7e-9 to 4e-7: single precision, as published"
    distance.text(0.5, 0.24, words, **_PLACE, transform=distance.transAxes)
    most = float(data.distance.max())
    words = "exactly 0" if most == 0.0 else f"at most {most:.1g}"
    words = f"{words}\nin all {data.sizes['run']} runs, at all steps"
    distance.text(0.5, 0.6, words, **_PLACE, transform=distance.transAxes)
    return figure


_PLACE: Mapping[str, Any] = {"ha": "center", "va": "center", "fontsize": 8.0}


def _say(word: str, text: str, source: str = "Fig. 4b") -> Statement:
    return Statement(f"single_location/fig4b/{word}", text, source)


ENDS = _say(
    "oracle",
    "From the manifold every run reaches the oracle or its flip: κν > 0, |ν| > 0.999 and "
    "|κ| > 0.97 at the end (share of the runs).",
    "Fig. 4b, Theorem 5",
)
SIGNS = _say("signs", "Either sign is as likely (share of the runs that end beside (1, 1)).")
STAYS = _say(
    "manifold",
    "Descent does not leave the manifold (largest distance, all runs, all steps).",
    "Fig. 4b",
)
EARLY_RISKS = _say(
    "risks-early",
    "The mean excess risk is 0.617 at the start and 0.151 after 2k steps in an earlier computation "
    "(largest gap, in standard errors of the difference).",
)
LATE_RISKS = _say(
    "risks",
    "and 0.1150 after 6k, 0.1137 after 20k (largest relative gap).",
)
RATE = _say(
    "rate",
    "In the long run 1 − |κ| falls at the rate 4γ²p erf'(p) erfc(p/w) = 0.0214 (median over runs, "
    f"steps {TAIL[0] // 1000}k to {TAIL[1] // 1000}k, relative to that).",
    "derived",
)
FLOW = _say(
    "flow",
    "Descent follows the gradient flow on the manifold (largest gap of κ or ν along a run, median "
    "over runs).",
    "Theorem 5; flow derived",
)
ORDER = _say(
    "flow-order",
    "The gap is of first order in α: half the step halves it (ratio, median over runs).",
    "derived",
)
SAME = _say(
    "vectors",
    "Five scalars are the dynamics in R^400 step by step (largest gap of a scalar, "
    f"{EQUAL} steps).",
    "derived",
)


def claims(data: xr.Dataset) -> list[Claim]:
    """The oracle, the manifold, risks, rates, and R^d."""
    last, runs = data.isel(step=-1), data.sizes["run"]
    kappa, nu = abs(last.kappa), abs(last.nu)
    ends = (last.kappa * last.nu > 0.0) & (nu > 0.999) & (kappa > 0.97)
    expected = float(oracle_rates(SETTING.task, SETTING.lam).kappa)
    gaps = {}
    for kind in ("", "half_"):
        off = [abs(data[f"{kind}{name}"] - data[f"flow_{name}"]).max("step") for name in _BOTH]
        gaps[kind] = xr.concat(off, "scalar").max("scalar")
    late = {at: float(data.loss.sel(step=at).mean()) for at in LATE}
    return [
        ENDS.judge(
            1.0,
            ends.mean(),
            0.0,
            note=f"Least |κ| {float(kappa.min()):.4f}, least |ν| {float(nu.min()):.6f}.",
        ),
        SIGNS.judge(
            0.5,
            (last.kappa > 0.0).mean(),
            share_error(0.5, runs, 10**9),
            note="Tolerance: three standard errors.",
        ),
        STAYS.judge(
            0.0,
            data.distance.max(),
            1e-15,
            note="Every slope off the manifold is a product with θ, η or ρ, so that 0 stays 0 to "
            "the last bit; the published curve, in single precision with vectors of R^400, is "
            "7e-9 to 4e-7.",
        ),
        EARLY_RISKS.judge(
            0.0,
            worst_score(data, EARLY),
            3.0,
            note=f"{means(data, list(EARLY))}; both means, ours and the earlier one of "
            f"{REFERENCE_RUNS} runs, have errors. A run that starts next to the basin boundary "
            "leaves it late.",
        ),
        LATE_RISKS.judge(
            0.0,
            worst_ratio(list(late.values()), list(LATE.values())),
            0.01,
            note=f"{means(data, list(LATE))}; oracle "
            f"{float(oracle_excess(SETTING.task, SETTING.lam)):.4f}.",
        ),
        RATE.judge(
            1.0,
            data.rate.median() / expected,
            0.05,
            note=f"{float(data.rate.median()):.5f} where {expected:.5f} is the limit κ → 1. In "
            "the figure it is not reached yet: 1 − |κ| is still "
            f"{float(1.0 - kappa.median()):.3f} at its end. |ν| is faster by a factor of 90.",
        ),
        FLOW.judge(
            0.0,
            gaps[""].median(),
            0.01,
            note=f"α = {SETTING.lr:g}. Largest of all runs: {float(gaps[''].max()):.4f}, where a "
            "run leaves the saddle late.",
        ),
        ORDER.judge(2.0, (gaps[""] / gaps["half_"]).median(), 0.05),
        SAME.judge(0.0, path_gap(data), 1e-10),
    ]


_BOTH = ("kappa", "nu")
FIGURE = Figure(
    id="single_location/fig4b",
    title="From the invariant manifold: every run finds the oracle",
    settings=SETTINGS,
    constants=SETTING.constants | {"steps": SETTING.steps, "vector_runs": VECTOR_RUNS},
    statements=(ENDS, SIGNS, STAYS, EARLY_RISKS, LATE_RISKS, RATE, FLOW, ORDER, SAME),
    compute=compute,
    draw=draw,
    claims=claims,
    note=(
        "d = 400, L = 10, γ² = ½, λ = 0.1, α = 4e-3, 20k steps of projected gradient descent on "
        "the exact risk from random places on the manifold, all as published; the seeds are ours. "
        "The paper's step-size bound and rate in Theorem 5 are not known to us; the flow and its "
        "rates are derived. The earlier risks are of a computation of this project, as the "
        "published ones are only a picture. (d) has nothing to draw: in five scalars the distance "
        "is exactly 0."
    ),
    seed=SEED,
)
