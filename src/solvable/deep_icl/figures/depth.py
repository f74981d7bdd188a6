"""Depth at a small width: the loss against LN²t, and what depth and width leave."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr
from scipy.interpolate import CubicSpline

from ...reproduce import Claim, Figure, Size, stage
from ...style import LAW, THEORY, TOKENS, TRAINING, colour, loglog, panels
from .. import RotatedStructure, Spectra, draw_spectra, edge, floor, optimum
from ..laws import law
from ._rotated import CLOSE, MANY, draw_kinds, flows, gamma_gap, gap_note, spaced, trained
from ._say import say

NU, BETA, DIM, WIDTH, RATE = 1.25, 1.0, 64, 8, 2.0
TIME = 25_000 * RATE / WIDTH  # scalar time at the end of the listed run
DEPTHS = [1, 2, 4, 8, 16]
LOADS = (2.0, 241)  # the largest γ·edge/L at which drawn contexts are looked at, and how many
FLOOR_WIDTHS = [4, 8, 16, 32]
DEEPEST = 2.0**20
SEED = 0
SETTINGS: Mapping[Size, Mapping[str, Any]] = {
    "quick": {"trained": [4], "steps": 1000, "batch": 32, "seed": SEED, "contexts": 2000},
    "default": {
        "trained": [1, 4, 16],
        "steps": 5000,
        "batch": 64,
        "seed": SEED,
        "contexts": 20_000,
    },
    "full": {
        "trained": DEPTHS,
        "steps": 25_000,
        "batch": 512,
        "seed": SEED,
        "contexts": 200_000,
    },
}


def _task(width: int = WIDTH) -> RotatedStructure:
    return RotatedStructure(NU, BETA, DIM, width=width)


class DrawnFlow:
    """Gradient flow of γ on the mean loss of drawn contexts, at one depth.

    ``t(γ) = ∫dγ/(−d𝓛/dγ)``, from γ = 0 to the first minimum of the mean.
    """

    def __init__(self, spectra: Spectra, depth: int, top: float):
        nodes = np.linspace(0.0, math.log1p(LOADS[0] * depth), LOADS[1])  # log(1 + γ·edge)
        gamma = np.expm1(nodes) / top
        near = 1e-4 * (gamma + 0.01 / top)
        mean = spectra.loss(gamma=np.stack([gamma, gamma + near]), depth=depth).mean(axis=-1)
        descent = CubicSpline(nodes + 0.5 * near * top * np.exp(-nodes), (mean[0] - mean[1]) / near)
        fine = np.linspace(0.0, nodes[-1], 20_001)
        fell = descent(fine)
        stop = int(np.argmax(fell <= 0.0)) if np.any(fell <= 0.0) else len(fine)
        fine, fell = fine[:stop], fell[:stop]
        pace = np.exp(fine) / top / fell  # dt/dx
        spent = np.cumsum(0.5 * (pace[1:] + pace[:-1]) * np.diff(fine))
        self.time = np.concatenate([[0.0], spent])
        self.gammas = np.expm1(fine) / top
        self.losses = CubicSpline(nodes, mean[0])(fine)
        self.least = float(self.losses[-1])
        self.best = float(self.gammas[-1])

    def gamma(self, times: np.ndarray) -> np.ndarray:
        """γ(t)."""
        return np.interp(times, self.time, self.gammas)

    def loss(self, times: np.ndarray) -> np.ndarray:
        """𝓛(t)."""
        return np.interp(times, self.time, self.losses)


def _flows(settings: Mapping[str, Any]) -> xr.Dataset:
    """The flows of the equivalent and of drawn contexts, and where they end."""
    times = np.geomspace(0.1, TIME, 80)
    task, free = _task(), RotatedStructure(NU, BETA, DIM)
    top = float(edge(task))
    spectra = draw_spectra(task, settings["contexts"], seed=SEED)
    drawn = [DrawnFlow(spectra, depth, top) for depth in DEPTHS]
    best = optimum(task, DEPTHS)
    at_best = np.stack(
        [
            spectra.loss(gamma=float(g), depth=depth)
            for g, depth in zip(np.asarray(best.gamma), DEPTHS, strict=True)
        ]
    )
    return xr.Dataset(
        {
            "flow": (("depth", "time"), flows(task, times, DEPTHS)),
            "drawn_flow": (("depth", "time"), np.asarray([one.loss(times) for one in drawn])),
            "drawn_least": ("depth", np.asarray([one.least for one in drawn])),
            "drawn_load": (
                "depth",
                np.asarray([one.best for one in drawn]) * top / np.asarray(DEPTHS),
            ),
            "best_load": ("depth", np.asarray(best.gamma) * top / np.asarray(DEPTHS)),
            "best_loss": ("depth", np.asarray(best.loss)),
            "median": ("depth", np.median(at_best, axis=1)),
            "mean": ("depth", at_best.mean(axis=1)),
            "free_loss": ("depth", np.asarray(optimum(free, DEPTHS).loss)),
        },
        coords={"depth": DEPTHS, "time": times},
    )


def _floors(settings: Mapping[str, Any]) -> xr.Dataset:
    """What each width leaves at endless depth and time."""
    values = [
        draw_spectra(_task(width), settings["contexts"], seed=SEED).loss(gamma=1e9, depth=None)
        for width in FLOOR_WIDTHS
    ]
    return xr.Dataset(
        {
            "floor": ("width", np.asarray([float(floor(_task(n), "width")) for n in FLOOR_WIDTHS])),
            "floor_drawn": ("width", np.asarray([v.mean() for v in values])),
            "floor_error": (
                "width",
                np.asarray([v.std(ddof=1) / math.sqrt(v.size) for v in values]),
            ),
        },
        coords={"width": FLOOR_WIDTHS},
        attrs={"depth_exponent": law("depth", NU, BETA, MANY).at(DEEPEST)[1]},
    )


def _trained(depth: int, settings: Mapping[str, Any]) -> xr.Dataset:
    """Training, and γ of the flow on drawn contexts at the same times."""
    run = trained(_task(), depth, RATE, settings)
    spectra = draw_spectra(_task(), settings["contexts"], seed=SEED)
    flow = DrawnFlow(spectra, depth, float(edge(_task())))
    times = RATE / WIDTH * run.step.values
    return run.assign(drawn_gamma=("step", flow.gamma(times)))


def compute(size: Size) -> xr.Dataset:
    """Flows, floors and both kinds of training."""
    settings = SETTINGS[size]
    runs = [
        stage(f"trained-{depth}", lambda depth=depth: _trained(depth, settings))
        for depth in settings["trained"]
    ]
    parts = [
        stage("flows", lambda: _flows(settings)),
        stage("floors", lambda: _floors(settings)),
        xr.concat(runs, xr.IndexVariable("trained", settings["trained"])),
    ]
    return xr.merge(parts, combine_attrs="no_conflicts")


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """Loss against LN²t, minima against L, and the floors' finite-N corrections."""
    figure, (time, minima, gaps) = panels(3)
    at = data.sel(width=WIDTH)
    for k, depth in enumerate(data.depth.values):
        spent, here = depth * WIDTH**2 * data.time, data.sel(depth=depth)
        time.plot(spent, here.flow, color=colour(k), label=f"$L = {depth}$", **THEORY)
        time.plot(spent, here.drawn_flow, color=colour(k), **TRAINING)
        if depth in data.trained.values:
            run = data.sel(trained=depth)
            marks = spaced(data.step.values, 16)
            x = depth * WIDTH * RATE * data.step.values[marks]
            time.plot(x, run.tokens_loss.values[marks], color=colour(k), **TOKENS)
    time.axhline(float(at.floor), label=r"$L = t = \infty$", **LAW)
    draw_kinds(time, "mean of drawn contexts")
    loglog(time, "LN^2t", r"\mathcal{L}", f"$N = {WIDTH}$, $D = {DIM}$")
    time.set_yticks([0.1, 0.3, 0.5, 1.0], ["0.1", "0.3", "0.5", "1"])
    time.minorticks_off()
    time.legend(fontsize=6.5, ncols=2, loc="lower left")
    time.set_ylim(0.09, 1.2)
    minima.plot(
        data.depth, data.drawn_least, color=colour(0), label="least mean, drawn", **TRAINING
    )
    words = f"equivalent, $N = {WIDTH}$"
    minima.plot(data.depth, data.best_loss, color=colour(0), label=words, **THEORY)
    minima.plot(data.depth, data["median"], color=colour(0), label="median, drawn", **TOKENS)
    total = data.free_loss + float(at.floor)
    minima.plot(data.depth, total, color=colour(1), label="sum of the floors", **THEORY)
    minima.plot(data.depth, data.free_loss, color=colour(2), label="$N = D$")
    power = 0.6 * float(data.free_loss[0]) * data.depth.astype(float) ** -BETA
    minima.plot(data.depth, power, label=r"$L^{-\beta}$", **LAW)
    loglog(minima, "L", r"\min_\gamma \mathcal{L}")
    minima.legend(fontsize=6.5, loc="lower left")
    gap = data.floor_drawn / data.floor - 1.0
    error = 3.0 * data.floor_error / data.floor
    gaps.errorbar(data.width, gap, yerr=error, color=colour(0), label="drawn contexts", **TOKENS)
    fine = np.geomspace(3.5, 40.0, 50)
    gaps.plot(fine, 1.0 / fine, label="$1/N$", **LAW)
    gaps.axhline(0.0, color="0.6", linewidth=0.7, zorder=0)
    gaps.set_xscale("log")
    gaps.set_xticks(FLOOR_WIDTHS, [str(n) for n in FLOOR_WIDTHS])
    gaps.minorticks_off()
    gaps.set_xlabel("$N$")
    gaps.set_ylabel("floor / equivalent − 1")
    gaps.legend(fontsize=7.5)
    return figure


_say = partial(say, "depth")
POWER = _say(
    "reported",
    "exponent",
    "With N = D the least loss falls as L^-β (local exponent at L = 2²⁰, β = 1, D = 10⁸).",
    "accounts: depth figure",
)
FLOOR = _say(
    "check",
    "floor",
    f"At N = {WIDTH} it stops at the width's floor Σ a z/(λ + z) (mean over drawn contexts at "
    "endless depth and time).",
)
LOW = _say(
    "check",
    "low",
    "The equivalent is too low at so small a width, by up to 1/N: N times the relative gap of the "
    "floor (the largest of N = 4, 8, 16, 32).",
)
SUM = _say(
    "reported",
    "sum",
    "The least loss is about the sum of what depth and width leave alone (ratio, the L furthest "
    "from 1).",
    "accounts: summary law",
)
MEDIAN = _say(
    "check",
    "median",
    "At its best γ the equivalent is the typical context's loss (largest relative gap of the "
    "median of drawn contexts, all depths).",
)
TOKENS_CLAIM = _say(
    "check",
    "tokens",
    f"The matrix Γ, {WIDTH} × {WIDTH}, trained on fresh contexts follows the flow on the mean loss "
    "of drawn contexts (largest relative gap of its mean diagonal from a tenth of the runs on).",
)
SMALLER = _say(
    "new",
    "smaller",
    "The mean over contexts is least at a smaller γ than the equivalent: rare contexts diverge "
    "(γ* over that of the equivalent, the largest of L = 2, 4, 8, 16).",
)


def claims(data: xr.Dataset) -> list[Claim]:
    """Exponent, floor, its corrections, and training against drawn contexts."""
    at = data.sel(width=WIDTH)
    gap = data.width * (data.floor_drawn / data.floor - 1.0)
    ratio = (data.best_loss / (data.free_loss + float(at.floor))).values
    tokens, theory = gamma_gap(data, "drawn_gamma"), gamma_gap(data)
    deeper = data.sel(depth=slice(2, None))
    percent = 100.0 * (float(at.floor_drawn / at.floor) - 1.0)
    depths = ", ".join(map(str, data.trained.values))
    return [
        POWER.judge(BETA, data.attrs["depth_exponent"], 1e-3),
        FLOOR.judge(
            at.floor,
            at.floor_drawn,
            float(at.floor) / WIDTH + 3.0 * float(at.floor_error),
            note=f"Allowed are 1/N and 3 standard errors; the equivalent is {percent:.1f} % low.",
        ),
        LOW.judge(1.0, gap.max(), "at most"),
        SUM.judge(1.0, ratio[np.argmax(np.abs(ratio - 1.0))], 0.2),
        MEDIAN.judge(0.0, abs(data["median"] / data.best_loss - 1.0).max(), 1.0 / WIDTH),
        TOKENS_CLAIM.judge(
            0.0,
            tokens,
            CLOSE,
            note=f"L = {depths}; {int(data.step[-1])} steps of η = {RATE:g}. From the equivalent's "
            f"γ it is {theory:.3f} away. {gap_note(data, 'drawn_gamma')}",
        ),
        SMALLER.judge(1.0, (deeper.drawn_load / deeper.best_load).max(), "at most"),
    ]


FIGURE = Figure(
    id="deep_icl/depth",
    title="Depth at a small width: the loss against LN²t, and what depth and width leave",
    settings=SETTINGS,
    constants={"nu": NU, "beta": BETA, "dim": DIM, "width": WIDTH, "rate": RATE, "depths": DEPTHS},
    statements=(POWER, FLOOR, LOW, SUM, MEDIAN, TOKENS_CLAIM, SMALLER),
    compute=compute,
    draw=draw,
    claims=claims,
    note=(
        "ν = 1.25, β = 1, D = 64, N = 8, endless contexts; t is the time of the scalar γ, of which "
        "a step of Γ with η = 2 is η/N. Listed are B = 512 contexts a step and T = 25000 steps, "
        "which only the full size trains. At N = 8 the equivalent is off by several per cent, and "
        "near its best γ rare contexts diverge, so that the mean over contexts is not its value: "
        "the solid lines are gradient flow on the mean of drawn contexts, exact at this N up to "
        "the draw."
    ),
    seed=SEED,
)
