"""The loss against γ on isotropic contexts: where its minimum is, without noise and with it."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np
import xarray as xr
from scipy.optimize import minimize_scalar

from ...compiling import jit
from ...reproduce import Claim, Figure, Size, stage, worst_ratio
from ...style import THEORY, TOKENS, TRAINING, colour, panels
from .. import (
    Isotropic,
    LinearAttention,
    draw_spectra,
    edge,
    loss,
    optimum,
    ridge_loss,
    sample,
)
from ._say import say

SEED = 0
SAFE = 1.5  # γ·edge/L up to which the mean over contexts is not that of rare ones
MOST = 2.1  # γ·edge/L up to which is drawn
GRID = 160
ALPHA = 0.5  # (a)
NOISY = {"alpha": 1.125, "depth": 16, "noises": (0.0, 0.25, 0.5, 1.0)}  # (b)
SINGLE = {"alpha": 1.25, "depth": 10}  # (c)
STOPPED = {"alphas": (0.5, 1.0, 2.0), "noise": 0.5, "depths": (1, 2, 4, 8, 16, 32, 64, 512)}  # (d)
KNOWN = {"early": (0.64507, 0.40003, 0.18216), "ridge": (0.64039, 0.39039, 0.17539)}
# What is looked at on tokens: (α, σ, L) of a curve in each of (a), (b) and (c).
WITNESS = ((0.5, 0.0, 4), (1.125, 0.5, 16), (1.25, 0.0, 10))
SETTINGS: Mapping[Size, Mapping[str, Any]] = {
    "quick": {
        "depths": (1, 2, 4, 16),
        "dim": 32,
        "contexts": 400,
        "tokens": 512,
        "dims": {16: 16_000, 64: 1000},
    },
    "default": {
        "depths": (1, 2, 4, 8, 16, 64),
        "dim": 64,
        "contexts": 800,
        "tokens": 4096,
        "dims": {16: 64_000, 32: 16_000, 64: 4000},
    },
    "full": {
        "depths": (1, 2, 4, 8, 16, 64),
        "dim": 128,
        "contexts": 4000,
        "tokens": 32_768,
        "dims": {16: 400_000, 32: 200_000, 64: 100_000, 128: 40_000},
    },
}


def _step_sizes(alpha: float) -> np.ndarray:
    """γ/L from 0 to a little beyond the edge of stability."""
    return np.linspace(0.0, MOST / float(edge(Isotropic(alpha))), GRID)


def _lowest(alpha: float, noise: float, depth: int) -> float:
    """γ/L at the minimum, found on the integral without its derivative."""
    task = Isotropic(alpha, noise)
    high = 2.0 / float(edge(task))
    found = minimize_scalar(
        lambda x: float(loss(task, step_size=x, depth=depth)),
        bounds=(0.0, 1.2 * high),
        method="bounded",
        options={"xatol": 1e-9},
    )
    place = float(found.x)  # pyright: ignore[reportAttributeAccessIssue]
    # That is good to the root of round-off only: a quartic through places around it is better.
    near = 2e-4 * high * np.arange(-2.0, 3.0)
    losses = np.asarray(loss(task, step_size=place + near, depth=depth))
    slope = np.polyder(np.polyfit(near, losses, 4))
    shift = -slope[-1] / slope[-2]
    for _ in range(3):
        shift -= np.polyval(slope, shift) / np.polyval(np.polyder(slope), shift)
    return place + float(shift)


def _theory(settings: Mapping[str, Any]) -> xr.Dataset:
    """The integrals of all curves, and their minima."""
    depths, noises = settings["depths"], NOISY["noises"]
    quiet = loss(Isotropic(ALPHA), step_size=_step_sizes(ALPHA), depth=list(depths))
    alpha, deep = NOISY["alpha"], NOISY["depth"]
    noisy = [loss(Isotropic(alpha, s), step_size=_step_sizes(alpha), depth=deep) for s in noises]
    single = loss(
        Isotropic(SINGLE["alpha"]), step_size=_step_sizes(SINGLE["alpha"]), depth=SINGLE["depth"]
    )
    stopped = [
        [np.asarray(optimum(Isotropic(a, STOPPED["noise"]), d).loss) for d in _all_depths()]
        for a in STOPPED["alphas"]
    ]
    ridge = [float(ridge_loss(Isotropic(a, STOPPED["noise"]))) for a in STOPPED["alphas"]]
    return xr.Dataset(
        {
            "quiet": (("grid", "depth"), np.asarray(quiet)),
            "quiet_best": ("depth", [_lowest(ALPHA, 0.0, d) for d in depths]),
            "noisy": (("noise", "grid"), np.asarray(noisy)),
            "noisy_best": ("noise", [_lowest(alpha, s, deep) for s in noises]),
            "one_best": ("noise", [_lowest(alpha, s, 1) for s in noises]),
            "single": ("grid", np.asarray(single)),
            "single_best": _lowest(SINGLE["alpha"], 0.0, SINGLE["depth"]),
            "stopped": (("stop_alpha", "stop_depth"), np.asarray(stopped)),
            "ridge": ("stop_alpha", ridge),
        },
        coords={
            "depth": list(depths),
            "noise": list(noises),
            "stop_alpha": list(STOPPED["alphas"]),
            "stop_depth": list(_all_depths()),
        },
    )


def _all_depths() -> tuple[Any, ...]:
    return (*STOPPED["depths"], math.inf)


def _safe(alpha: float, count: int) -> np.ndarray:
    """γ/L at which the mean over contexts can be measured."""
    return np.linspace(0.0, SAFE / float(edge(Isotropic(alpha))), count + 1)[1:]


def _drawn(settings: Mapping[str, Any]) -> xr.Dataset:
    """The mean loss of drawn contexts on all curves, at γ/L that are safe."""
    dim, contexts = settings["dim"], settings["contexts"]

    def mean(alpha: float, noise: float, depth: Any) -> np.ndarray:
        spectra = draw_spectra(Isotropic(alpha, noise, dim=dim), contexts, seed=SEED)
        return spectra.loss(step_size=_safe(alpha, 12), depth=depth).mean(axis=-1)

    noisy = [mean(NOISY["alpha"], s, NOISY["depth"]) for s in NOISY["noises"]]
    return xr.Dataset(
        {
            "quiet_drawn": (("safe", "depth"), mean(ALPHA, 0.0, list(settings["depths"]))),
            "noisy_drawn": (("noise", "safe"), np.asarray(noisy)),
        }
    )


@jit(filtered=True)
def _squares(gamma: Any, x: Any, y: Any, labelled: int, depth: int) -> jax.Array:
    """The mean squared error at the queries of every context, by attention on tokens."""
    eye = jnp.eye(x.shape[-1], dtype=x.dtype)
    model = LinearAttention.aligned(gamma * eye, dim=x.shape[-1], depth=depth)
    guess = jax.vmap(model)(x, y[:, :labelled])
    return jnp.mean((guess - y[:, labelled:]) ** 2, axis=1)


def _tokens(settings: Mapping[str, Any]) -> xr.Dataset:
    """A curve of each panel on tokens, beside contexts drawn at the same dimension."""
    dim, means, errors, expected, places = 32, [], [], [], []
    for alpha, noise, depth in WITNESS:
        task = Isotropic(alpha, noise, dim=dim, queries=dim)
        labelled = task.context
        assert labelled is not None
        data = sample(task, settings["tokens"], seed=SEED)
        step_sizes = _safe(alpha, 6)
        found = np.asarray(
            [_squares(jnp.asarray(s * depth), data.x, data.y, labelled, depth) for s in step_sizes]
        )
        many = draw_spectra(task, 4 * settings["contexts"], seed=SEED + 1)
        exact = many.loss(step_size=step_sizes, depth=depth)
        means.append(found.mean(axis=1))
        expected.append(exact.mean(axis=1))
        errors.append(
            np.hypot(
                found.std(axis=1) / math.sqrt(found.shape[1]),
                exact.std(axis=1) / math.sqrt(exact.shape[1]),
            )
        )
        places.append(step_sizes)
    kinds = ("witness", "token_step_size")
    return xr.Dataset(
        {
            "token_loss": (kinds, np.asarray(means)),
            "token_error": (kinds, np.asarray(errors)),
            "token_exact": (kinds, np.asarray(expected)),
            "token_place": (kinds, np.asarray(places)),
        },
        attrs={"token_dim": dim},
    )


def _sizes(settings: Mapping[str, Any]) -> xr.Dataset:
    """(c) at several dimensions."""
    alpha, depth = SINGLE["alpha"], SINGLE["depth"]
    step_sizes = np.append(_safe(alpha, 12), float(alpha / (1.0 + alpha)))
    means, errors, middles = [], [], []
    for dim, contexts in settings["dims"].items():
        found = draw_spectra(Isotropic(alpha, dim=dim), contexts, seed=SEED + 2).loss(
            step_size=step_sizes, depth=depth
        )
        means.append(found.mean(axis=1))
        middles.append(np.median(found, axis=1))
        errors.append(found.std(axis=1) / math.sqrt(contexts))
    both = ("dim", "step_size")
    return xr.Dataset(
        {
            "size_mean": (both, np.asarray(means)),
            "size_median": (both, np.asarray(middles)),
            "size_error": (both, np.asarray(errors)),
            "size_limit": (
                "step_size",
                np.asarray(loss(Isotropic(alpha), step_size=step_sizes, depth=depth)),
            ),
        },
        coords={"dim": list(settings["dims"]), "step_size": step_sizes},
    )


def compute(size: Size) -> xr.Dataset:
    """All curves by theory, on drawn contexts and on tokens."""
    settings = SETTINGS[size]
    parts = [
        stage("theory", lambda: _theory(settings)),
        stage("drawn", lambda: _drawn(settings)),
        stage("tokens", lambda: _tokens(settings)),
        stage("sizes", lambda: _sizes(settings)),
    ]
    return xr.merge(parts, combine_attrs="no_conflicts").assign_attrs(drawn_dim=settings["dim"])


def _frame(axes: Any, alpha: float, title: str, low: float) -> None:
    axes.set_yscale("log")
    axes.set_ylim(low, 2.0)
    axes.axvline(alpha / (1.0 + alpha), color="0.6", linewidth=0.8, zorder=0)
    axes.set_xlabel(r"$\gamma/L$")
    axes.set_ylabel(r"$\mathcal{L}$")
    axes.set_title(title, fontsize=9.0)


def _spots(axes: Any, data: xr.Dataset, which: int, k: int) -> None:
    here = data.isel(witness=which)
    axes.plot(here.token_place, here.token_loss, color=colour(k), **TOKENS)


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """𝓛 against γ/L for depths, for noises and for dimensions; the best 𝓛 against depth."""
    figure, (depths, noises, sizes, stopped) = panels(2, 2)
    step_sizes, safe = _step_sizes(ALPHA), _safe(ALPHA, 12)
    for k, deep in enumerate(data.depth.values):
        here = data.sel(depth=deep)
        depths.plot(safe, here.quiet_drawn, color=colour(k), **TRAINING)
        depths.plot(step_sizes, here.quiet, color=colour(k), label=f"$L = {deep}$", **THEORY)
        if deep == WITNESS[0][2]:
            _spots(depths, data, 0, k)
    _frame(depths, ALPHA, rf"$\alpha = {ALPHA:g}$, no noise", 0.45)
    depths.set_ylim(0.38, 1.2)
    ticks = (0.4, 0.5, 0.6, 0.8, 1.0)
    depths.set_yticks(ticks, [f"{x:g}" for x in ticks])
    depths.set_yticks([], minor=True)
    depths.legend(fontsize=7.5, loc="lower left", ncols=3)
    alpha = NOISY["alpha"]
    step_sizes, safe = _step_sizes(alpha), _safe(alpha, 12)
    for k, noise in enumerate(data.noise.values):
        here = data.sel(noise=noise)
        noises.plot(safe, here.noisy_drawn, color=colour(k), **TRAINING)
        noises.plot(
            step_sizes, here.noisy, color=colour(k), label=rf"$\sigma = {noise:g}$", **THEORY
        )
        noises.plot(
            here.noisy_best,
            np.interp(here.noisy_best, step_sizes, here.noisy),
            "v",
            color=colour(k),
            markersize=5.0,
        )
        if noise == WITNESS[1][1]:
            _spots(noises, data, 1, k)
    noises.plot([], [], "v", color="0.3", markersize=5.0, label="minimum")
    _frame(noises, alpha, rf"$\alpha = {alpha:g}$, $L = {NOISY['depth']}$", 0.05)
    noises.legend(fontsize=7.5, loc="lower left", ncols=3)
    alpha = SINGLE["alpha"]
    step_sizes = _step_sizes(alpha)
    for k, dim in enumerate(data.dim.values):
        here = data.sel(dim=dim).isel(step_size=slice(None, -1))
        sizes.plot(
            here.step_size, here.size_mean, color=colour(k), label=f"$D = {dim}$", **TRAINING
        )
    sizes.plot(step_sizes, data.single, color=colour(6), label=r"$D → ∞$", **THEORY)
    _spots(sizes, data, 2, 6)
    sizes.plot([], [], color=colour(6), label="tokens, $D = 32$", **TOKENS)
    sizes.plot([], [], color="0.3", label="drawn contexts", **TRAINING)
    _frame(sizes, alpha, rf"$\alpha = {alpha:g}$, $L = {SINGLE['depth']}$", 0.08)
    sizes.legend(fontsize=7.5, loc="upper center")
    for k, alpha in enumerate(data.stop_alpha.values):
        here = data.sel(stop_alpha=alpha)
        line = here.stopped.isel(stop_depth=slice(None, -1))
        words = rf"$\alpha = {alpha:g}$"
        stopped.plot(line.stop_depth, line, "o-", color=colour(k), markersize=3.5, label=words)
        stopped.axhline(float(here.ridge), color=colour(k), **THEORY)
    stopped.plot([], [], color="0.3", label="optimal ridge", **THEORY)
    stopped.set_xscale("log", base=2)
    stopped.set_ylim(0.0, 0.85)
    stopped.set_xlabel("$L$")
    stopped.set_ylabel(r"$\min_\gamma\,\mathcal{L}$")
    stopped.set_title(rf"$\sigma = {STOPPED['noise']:g}$", fontsize=9.0)
    stopped.legend(fontsize=7.5, ncols=2, loc="upper right")
    return figure


_say = partial(say, "iso-landscape")
QUIET = _say(
    "check",
    "minimum",
    "Without noise the minimum is at γ/L = α/(1+α) for every depth (largest gap, α = ½ and 5/4).",
)
ONE = _say(
    "reported",
    "noisy-minimum",
    "With noise it moves: at L = 1 to α/(1+α+σ²) (largest gap, α = 9/8).",
    "accounts: one layer with noise",
)
MOVES = _say(
    "new",
    "noise-moves-it",
    "At L = 16 it moves to the left too, the more the larger σ (smallest move of γ/L from one σ to "
    "the next).",
    "ours",
)
EDGE = _say(
    "new",
    "edge",
    "The minimum without noise is never beyond the edge of stability: γ*·edge/L = (1+√α)²/(1+α) is "
    "2 at most, at α = 1 (largest gap between the two sides).",
)
EARLY = _say(
    "regression",
    "early-stopping",
    "At infinite depth with σ² = ¼ the best γ, which stops descent early, ends at .64507, .40003 "
    "and .18216 for α = ½, 1, 2 (largest gap).",
    "an earlier computation",
)
RIDGE = _say(
    "regression",
    "ridge",
    "Optimal ridge is lower still, .64039, .39039 and .17539 (largest gap).",
    "an earlier computation",
)
BOUND = _say(
    "new",
    "ridge-bound",
    "No depth beats ridge at its best (smallest loss over ridge's, all depths).",
)
DEEP = _say("check", "depth-512", "512 layers are as good as infinitely many (largest gap).")
DRAWN = _say(
    "check",
    "drawn",
    "The integrals are the mean loss of drawn contexts, up to O(1/D) (slope of the gap in D, "
    "log-log, α = 5/4, L = 10, γ·edge/L = 1).",
)
SPOTS = _say(
    "check",
    "tokens",
    "Attention on tokens at D = 32 has the loss of drawn contexts at D = 32 (largest gap, in "
    "standard errors).",
)


def claims(data: xr.Dataset) -> list[Claim]:
    """Minima, what noise does, ridge, and the witnesses."""
    far = np.append(data.quiet_best.values, float(data.single_best))
    wanted = np.append(
        np.full(data.sizes["depth"], ALPHA / (1.0 + ALPHA)),
        SINGLE["alpha"] / (1.0 + SINGLE["alpha"]),
    )
    sigma, alpha = data.noise.values, NOISY["alpha"]
    every = np.geomspace(0.05, 20.0, 31)
    ratio = [float(optimum(Isotropic(a), 8).gamma * edge(Isotropic(a))) / 8.0 for a in every]
    early = data.stopped.sel(stop_depth=math.inf).values
    over = (data.stopped / data.ridge).values
    middle = int(np.argmin(np.abs(data.step_size.values * float(_edge()) - 1.0)))
    gap = (data.size_mean / data.size_limit - 1.0).isel(step_size=middle).values
    error = (data.size_error / data.size_limit).isel(step_size=middle).values
    dims = np.log(data.dim.values.astype(float))
    slope = np.log(gap[-1] / gap[0]) / (dims[-1] - dims[0])
    unsure = math.hypot(error[0] / gap[0], error[-1] / gap[-1]) / (dims[-1] - dims[0])
    score = np.abs((data.token_loss - data.token_exact) / data.token_error)
    last = data.isel(step_size=-1)
    return [
        QUIET.judge(0.0, np.max(np.abs(far - wanted)), 1e-6),
        ONE.judge(
            0.0, np.max(np.abs(data.one_best.values - alpha / (1.0 + alpha + sigma**2))), 1e-6
        ),
        MOVES.judge(0.0, np.min(-np.diff(data.noisy_best.values)), "at least"),
        EDGE.judge(
            0.0,
            np.max(np.abs(np.asarray(ratio) - (1.0 + np.sqrt(every)) ** 2 / (1.0 + every))),
            1e-12,
            note=f"From {min(ratio):.3f} to {max(ratio):.3f} for α from 0.05 to 20.",
        ),
        EARLY.judge(0.0, np.max(np.abs(early - KNOWN["early"])), 1e-5),
        RIDGE.judge(0.0, np.max(np.abs(data.ridge.values - KNOWN["ridge"])), 1e-5),
        BOUND.judge(1.0, over.min(), "at least"),
        DEEP.judge(
            0.0,
            np.max(np.abs(data.stopped.sel(stop_depth=512).values - early)),
            1e-4,
        ),
        DRAWN.judge(
            -1.0,
            slope,
            3.0 * unsure + 4.0 / math.exp(dims[0]),
            note="Gaps "
            + ", ".join(
                f"{100.0 * g:.1f} % (D = {d})" for g, d in zip(gap, data.dim.values, strict=True)
            )
            + ". Tolerance: three standard errors and 4/D for the next order. At the minimum the "
            "mean is that of rare contexts: "
            + ", ".join(
                f"D = {d}: mean {m:.3g}, median {q:.3g}"
                for d, m, q in zip(
                    data.dim.values, last.size_mean.values, last.size_median.values, strict=True
                )
            )
            + f", D → ∞ {float(last.size_limit):.3g}.",
        ),
        SPOTS.judge(
            0.0,
            score.max(),
            3.5,
            note=f"{score.size} points; {worst_ratio(data.token_loss, data.token_exact):.1%} at "
            "most.",
        ),
    ]


def _edge() -> float:
    return float(edge(Isotropic(SINGLE["alpha"])))


FIGURE = Figure(
    id="deep_icl/iso-landscape",
    title="Isotropic contexts: the loss against γ, with and without noise",
    settings=SETTINGS,
    constants={"alpha": ALPHA, "noisy": NOISY, "single": SINGLE, "stopped": STOPPED},
    statements=(QUIET, ONE, MOVES, EDGE, EARLY, RIDGE, BOUND, DEEP, DRAWN, SPOTS),
    compute=compute,
    draw=draw,
    claims=claims,
    note=(
        "α and L of (a) to (c) as reported; the noises, the depths and (d) are ours. The grey line "
        "is γ/L = α/(1+α). Drawn contexts and tokens are shown where γ·edge/L is at most 1.5: "
        "beyond, their mean is that of a few contexts whose largest eigenvalue is above the edge, "
        "which (1 − γλ/L)^(2L) blows up. Labels of queries have no noise."
    ),
    seed=SEED,
)
