"""Rotated structure: the loss in training time, and in compute C = Lt at the best depth."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr
from scipy.interpolate import CubicSpline

from ...reproduce import Claim, Figure, Size, stage, worst_ratio
from ...style import LAW, THEORY, colour, loglog, panels
from .. import RotatedStructure, gamma_curve
from ..laws import exponents, law
from ._rotated import (
    CLOSE,
    MANY,
    draw_kinds,
    draw_trained,
    flows,
    gamma_gap,
    gap_note,
    many,
    trained,
)
from ._say import say

NU, BETA, DIM, CONTEXT = 1.75, 0.5, 45, 512
RATE = 3.0  # of Γ's entries
TIME = 20_000 * RATE / DIM  # scalar time at the end of the listed run
EXPONENT, COMPUTE = BETA / (2.0 + BETA), BETA / (3.0 + BETA)
LATE = 1e4  # from this time on the law's amplitude is judged
OTHERS = ((1.5, 0.8), (1.25, 1.75))  # (ν, β) whose amplitudes are judged as well
SETTINGS: Mapping[Size, Mapping[str, Any]] = {
    "quick": {
        "depths": [1, 4, 16],
        "trained": [4],
        "steps": 300,
        "batch": 8,
        "seed": 0,
        "deepest": 256,
        "per_octave": 2,
    },
    "default": {
        "depths": [1, 2, 4, 8, 16],
        "trained": [1, 4, 16],
        "steps": 1500,
        "batch": 8,
        "seed": 0,
        "deepest": 1024,
        "per_octave": 3,
    },
    "full": {
        "depths": [1, 2, 4, 8, 16],
        "trained": [1, 2, 4, 8, 16],
        "steps": 20_000,
        "batch": 512,
        "seed": 0,
        "deepest": 4096,
        "per_octave": 8,
    },
}


def _task() -> RotatedStructure:
    return RotatedStructure(NU, BETA, DIM, context=CONTEXT)


def _flows(settings: Mapping[str, Any]) -> xr.Dataset:
    """The flow of the equivalent at the listed size, and the law of very many directions."""
    times = np.geomspace(0.05, TIME, 80)
    time = law("time", NU, BETA, MANY)
    late = np.geomspace(0.1, 1e8, 73)
    return xr.Dataset(
        {
            "flow": (("depth", "time"), flows(_task(), times, settings["depths"])),
            "endless": ("late", time.loss(late)),
            "endless_law": ("late", time(late)),
            "endless_fall": ("late", time.local_exponent(late)),
        },
        coords={"depth": settings["depths"], "time": times, "late": late},
    )


def _amplitudes() -> xr.Dataset:
    """Loss over law from late times on, of other exponents."""
    late = np.geomspace(LATE, 1e8, 17)
    laws = [law("time", nu, beta, MANY) for nu, beta in ((NU, BETA), *OTHERS)]
    ratios = [one.loss(late) / one(late) for one in laws]
    return xr.Dataset({"amplitude": (("law", "after"), np.asarray(ratios))})


def _frontier(settings: Mapping[str, Any]) -> xr.Dataset:
    """The least loss over depths at compute C = Lt, of very many directions."""
    octaves = np.log2(settings["deepest"])
    grid = np.geomspace(1, settings["deepest"], round(octaves * settings["per_octave"]) + 1)
    depths = np.unique(grid.round().astype(int))
    budget = np.geomspace(1e1, 1e9, 65)
    task = many(NU, BETA)
    rows = np.stack([flows(task, budget / depth, [depth])[0] for depth in depths.tolist()])
    # Between the depths a spline: the best depth goes as C^1/(3+β), and is none of them.
    between = CubicSpline(np.log(depths), np.log(rows))
    fine = np.linspace(0.0, np.log(depths[-1]), 4000)
    found = between(fine)
    return xr.Dataset(
        {
            "deep": (("deep_depth", "budget"), rows),
            "frontier": ("budget", np.exp(found.min(axis=0))),
            "best": ("budget", np.exp(fine[found.argmin(axis=0)])),
        },
        coords={"deep_depth": depths, "budget": budget},
    )


def _trained(settings: Mapping[str, Any]) -> xr.Dataset:
    found = [
        stage(f"trained-{depth}", lambda depth=depth: trained(_task(), depth, RATE, settings))
        for depth in settings["trained"]
    ]
    return xr.concat(found, xr.IndexVariable("trained", settings["trained"]))


def _units(data: xr.Dataset) -> xr.Dataset:
    """The scalar time of γ that the trained Γ has at its end, and γ of the flow there."""
    end = RATE * float(data.step[-1])  # Γ's own time
    around = np.geomspace(0.2, 5.0, 81) * end / DIM
    scalar, flow = [], []
    for depth in data.trained.values.tolist():
        gamma = np.asarray(gamma_curve(_task(), around, depth))
        reached = float(data.tokens_gamma.sel(trained=depth)[-1])
        scalar.append(np.exp(np.interp(np.log(reached), np.log(gamma), np.log(around))))
        flow.append(float(gamma_curve(_task(), end / DIM, depth)))
    return xr.Dataset(
        {
            "unit": ("trained", end / np.asarray(scalar)),
            "flow_end": ("trained", np.asarray(flow)),
        }
    )


def compute(size: Size) -> xr.Dataset:
    """Flows, the frontier over depths, and both kinds of training."""
    settings = SETTINGS[size]
    runs = _trained(settings)
    return xr.merge(
        [
            stage("flows", lambda: _flows(settings)),
            stage("amplitudes", _amplitudes),
            stage("frontier", lambda: _frontier(settings)),
            runs,
            stage("units", lambda: _units(runs)),
        ]
    )


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """Loss against time, against C = Lt, and the local exponents of both."""
    figure, (time, compute, slope) = panels(3)
    for k, depth in enumerate(data.depth.values):
        time.plot(
            data.time, data.flow.sel(depth=depth), color=colour(k), label=f"$L = {depth}$", **THEORY
        )
    for depth in data.trained.values:
        here = data.sel(trained=depth)
        k = list(data.depth.values).index(depth)
        draw_trained(time, here, RATE / DIM * data.step.values, k)
    early = data.sel(late=slice(1.0, TIME))
    words = r"$t^{-\beta/(2+\beta)}$, $D = 10^8$"
    time.plot(early.late, early.endless_law, label=words, **LAW)
    draw_kinds(time)
    loglog(time, "t", r"\mathcal{L}", f"$D = {DIM}$, $P = {CONTEXT}$")
    time.legend(fontsize=7.0, loc="lower left")
    shown = [d for d in data.deep_depth.values if d & (d - 1) == 0 and d <= 1024]
    for j, depth in enumerate(shown):
        line = data.deep.sel(deep_depth=depth)
        words = "$L = 1, 2, 4, …$" if j == 0 else ""
        compute.plot(data.budget, line, color="0.75", linewidth=0.8, label=words)
    compute.plot(data.budget, data.frontier, color=colour(0), label="best $L$")
    anchor = data.isel(budget=-1)
    power = 0.85 * float(anchor.frontier) * (data.budget / float(anchor.budget)) ** -COMPUTE
    compute.plot(data.budget, power, label=r"$C^{-\beta/(3+\beta)}$", **LAW)
    loglog(compute, "C = Lt", r"\mathcal{L}", "$D = 10^8$, $P = \\infty$")
    compute.legend(fontsize=7.5)
    slope.plot(data.late, data.endless_fall, color=colour(1), label=r"in $t$, $L = \infty$")
    # Depths are whole and few: two decades of C, 16 points, smooth their steps.
    budget, best = np.log(data.budget.values), np.log(data.frontier.values)
    wide = -(best[16:] - best[:-16]) / (budget[16:] - budget[:-16])
    words = "in $C = Lt$, best $L$, over 2 decades"
    slope.plot(data.budget[8:-8], wide, color=colour(0), label=words)
    slope.axhline(EXPONENT, label=r"$\beta/(2+\beta)$, $\beta/(3+\beta)$", **LAW)
    slope.axhline(COMPUTE, **LAW)
    slope.set_xscale("log")
    slope.set_ylim(0.08, 0.32)
    slope.set_xlabel("$t$ or $C$")
    slope.set_ylabel("local exponent")
    slope.set_title("$D = 10^8$, $P = \\infty$", fontsize=9.0)
    slope.legend(fontsize=7.0)
    return figure


SOURCE = "accounts: RRS time figure"
_say = partial(say, "rrs-time")
POWER = _say(
    "reported",
    "time",
    "At L = ∞ the loss falls as t^-β/(2+β) (local exponent at t = 10⁶, ν = 1.75, β = 0.5, "
    "D = 10⁸).",
    SOURCE,
)
AMPLITUDE = _say(
    "new",
    "amplitude",
    "It is cγ^-β with γ = (cβ(β+2)t)^1/(β+2), c = Γ(β)2^-β/(νZ): nothing is fitted (largest "
    "relative gap for t from 10⁴ to 10⁸, three pairs of ν and β, D = 10⁸).",
)
BUDGET = _say(
    "reported",
    "compute",
    "In C = Lt at the best depth it falls as C^-β/(3+β) (least squares in log-log over "
    "C from 10⁵ to 10⁹, D = 10⁸).",
    SOURCE,
)
TOKENS_CLAIM = _say(
    "check",
    "tokens",
    "Γ trained on fresh contexts of P = 512 tokens stays γI with the γ of the equivalent (largest "
    "relative gap of its mean diagonal from a tenth of the runs on).",
)
UNITS = _say(
    "new",
    "units",
    "The matrix Γ moves N times as slowly as dγ/dt = −∂𝓛/∂γ: t of Γ over t of γ when both have "
    "come equally far (N = 45; the deepest run, which is far from its end).",
)
TWO = _say(
    "check",
    "two",
    "The loss has no factor ½, and so its flow keeps the 2 of the derivative (γ at the end of "
    "the deepest run).",
)


def claims(data: xr.Dataset) -> list[Claim]:
    """The two exponents, the amplitude, and training against the flow."""
    at = float(data.endless_fall.sel(late=1e6, method="nearest"))
    far = data.sel(budget=slice(0.9e5, 2e9))
    slope = -np.polyfit(np.log(far.budget.values), np.log(far.frontier.values), 1)[0]
    end = data.isel(trained=-1)
    depths = ", ".join(map(str, data.trained.values))
    told = f"L = {depths}; {int(data.step[-1])} steps of η = {RATE:g}."
    where = f"L = {int(end.trained)}, {int(data.step[-1])} steps of η = {RATE:g}."
    return [
        POWER.judge(EXPONENT, at, 1e-3),
        AMPLITUDE.judge(0.0, worst_ratio(data.amplitude, 1.0), 5e-5),
        BUDGET.judge(
            COMPUTE,
            slope,
            0.003,
            note=f"Best depths from {int(far.best[0])} to {int(far.best[-1])}.",
        ),
        TOKENS_CLAIM.judge(0.0, gamma_gap(data), CLOSE, note=f"{told} {gap_note(data)}"),
        UNITS.judge(
            DIM,
            end.unit,
            0.1 * DIM,
            note=f"The gradient in Γ is (∂𝓛/∂γ)I/N. {where}",
        ),
        TWO.judge(end.flow_end, end.tokens_gamma[-1], CLOSE * float(end.flow_end), note=where),
    ]


FIGURE = Figure(
    id="deep_icl/rrs-time",
    title="Rotated structure: the loss in training time, and in C = Lt at the best depth",
    settings=SETTINGS,
    constants={
        "nu": NU,
        "beta": BETA,
        "dim": DIM,
        "context": CONTEXT,
        "rate": RATE,
        "exponents": {"time": exponents(NU, BETA).time, "compute": COMPUTE},
    },
    statements=(
        POWER,
        AMPLITUDE,
        BUDGET,
        TOKENS_CLAIM,
        UNITS,
        TWO,
    ),
    compute=compute,
    draw=draw,
    claims=claims,
    note=(
        "ν = 1.75, β = 0.5, D = 45, P = 512; t is the time of the scalar γ, of which a step of Γ "
        "with η = 3 is η/D. Listed are B = 512 contexts a step and T = 20000 steps, which only the "
        "full size trains; below it B = 8 and fewer steps, and the flow of the equivalent goes on "
        "to the listed time. At D = 45 the loss bends away from its power law: exponents are those "
        "of 10⁸ directions with endless contexts, for which a few hundred nodes stand in the sums."
    ),
)
