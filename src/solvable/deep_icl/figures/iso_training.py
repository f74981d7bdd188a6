"""Isotropic contexts: training in time, where it ends, and what depth is good for."""

import itertools
import math
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, at_least, at_most, near, settings_of, step, worst_ratio
from ...reproduce.panels import Panel, drawn, entry, law, theory, tokens, training
from ...style import THEORY, TOKENS, TRAINING
from .. import (
    Init,
    Isotropic,
    RotatedStructure,
    draw_spectra,
    loss_curve,
    optimum,
    train,
    train_brute,
)
from ._accounts import ABSTRACT

LISTED = 6000  # steps
ONE = (1, 1.0)  # one layer at α = 1

fig = Figure(
    "deep_icl/iso-training",
    "Isotropic contexts: training in time, where it ends, and what depth is good for",
    settings={
        "quick": {"pairs": ((4, 0.5), (4, 1.0), (1, 1.0)), "steps": 400, "batch": 32}
        | {"seeds": 3, "contexts": 200},
        "default": {"pairs": ((16, 0.25), (16, 1.0), (16, 4.0), (4, 1.0), (1, 1.0))}
        | {"steps": 500, "batch": 32, "seeds": 3, "contexts": 500},
        "full": {
            "pairs": (*((16, 2.0**k) for k in range(-2, 4)), (8, 1.0), (4, 1.0), (2, 1.0), ONE)
        }
        | {"steps": LISTED, "batch": 512, "seeds": 4, "contexts": 5000},
    },
    constants={"dim": 32, "rate": 0.125, "pool": 500, "depths": (1, 2, 4, 8), "wide": 64}
    | {"lengths": (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)},
    note=(
        "Of this law the abstract says, as a summary quotes it: “For ISO and FS settings, we find "
        "that depth only aids ICL performance if context length is limited.” It holds for what "
        "depth takes off the loss, 1/(1+α) at most, and for endless contexts, where one layer has "
        "no loss. As a ratio depth gains the more the longer the context: L layers leave "
        "Cat_L α^-L. (a, b) D = 32, η = 0.125 for Γ's entries, 6000 steps and B = 512 contexts a "
        "step, as listed, at full size; below it fewer steps and contexts, from several seeds. "
        "Listed besides: K = 32 queries and an initial scale of 0.4; here all queries are averaged "
        "over exactly, and Γ starts at 0. t is the time of γ. Training of 16 layers does not end "
        "in the listed time where α ≥ 1."
    ),
)


def _pooled(alpha: float, settings: Any) -> RotatedStructure:
    """Drawn contexts of D dimensions as a task whose loss is their mean loss.

    Without noise that of a context is ``Σ_i (1 − γs_i/L)^(2L)/D`` with the eigenvalues s of its
    ``XᵀX/P``: those of all contexts together are a spectrum with endless contexts.
    """
    task = Isotropic(alpha, dim=settings.dim)
    found = draw_spectra(task, settings.pool, seed=settings.seed + 1).eigenvalues.ravel()
    lam = np.maximum(found, 1e-12)  # in place of 0, where α < 1
    return RotatedStructure(lam=lam, omega=1.0 / (lam.size * lam))


@fig.data
def runs(settings: Any) -> xr.Dataset:
    """Γ on fresh contexts, once a seed, γ on drawn ones with the same steps, and its flow."""
    parts: list[xr.Dataset] = []
    dim, seeds = settings.dim, range(settings.seed, settings.seed + settings.seeds)
    listed = np.geomspace(0.01, LISTED * settings.rate / dim, 60)
    for depth, alpha in settings.pairs:
        how: dict[str, Any] = {"depth": depth, "lr": settings.rate, "time": "matrix"}
        how |= {"steps": settings.steps, "log_every": settings.steps // 50, "progress": step}
        more, task = {"contexts": settings.batch}, Isotropic(alpha, dim=dim)
        each = [train_brute(task, Init(gamma=0.0), seed=seed, **more, **how) for seed in seeds]
        pool = _pooled(alpha, settings)
        how |= {"lr": settings.rate / dim, "time": "scalar"}
        one = train(pool, Init(gamma=0.0), **how)
        far = [np.sum((np.eye(dim) - np.asarray(run.state[0][0])) ** 2) / dim for run in each]
        found: dict[str, Any] = {"far": ("run", far), "drawn_gamma": ("step", one.gamma)}
        found["tokens_loss"] = (("run", "step"), np.asarray([run.loss for run in each]))
        found["tokens_gamma"] = (("run", "step"), np.asarray([run.gamma for run in each]))
        found["flow"] = ("time", np.asarray(loss_curve(Isotropic(alpha), listed, depth)))
        found["drawn_flow"] = ("time", np.asarray(loss_curve(pool, listed, depth)))
        parts.append(xr.Dataset(found, coords={"step": np.asarray(one.step), "time": listed}))
    return xr.concat(parts, "pair")


@fig.data
def ends(settings: Any) -> xr.Dataset:
    """The loss of drawn contexts at γ = Lα/(1+α), at every length and depth."""
    dim, depths, rows = settings.wide, list(settings.depths), []
    for alpha in settings.lengths:
        s = draw_spectra(Isotropic(alpha, dim=dim), settings.contexts, seed=settings.seed)
        left = 1.0 - alpha / (1.0 + alpha) * s.eigenvalues
        values = [(left ** (2 * depth)).mean(axis=-1) for depth in depths]
        falls = [b - a for a, b in itertools.pairwise(values)]
        rows.append([_mean(x) for x in (*values, *falls, values[0] - values[-1])])
    mean, error = np.moveaxis(np.asarray(rows), -1, 0)
    found: dict[str, Any] = {}
    for name, table in {"best": mean, "best_error": error}.items():
        found[name] = (("alpha", "depth"), table[:, : len(depths)])
    for name, table in {"fall": mean, "fall_error": error}.items():
        found[name] = (("alpha", "doubling"), table[:, len(depths) : -1])
    found |= {"gain": ("alpha", mean[:, -1]), "gain_error": ("alpha", error[:, -1])}
    return xr.Dataset(found, coords={"alpha": list(settings.lengths), "depth": depths})


def _mean(values: np.ndarray) -> tuple[float, float]:
    """A mean and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(values.size))


@fig.data
def theories(settings: Any) -> xr.Dataset:
    """The optimum in closed form, descent in endless contexts, and endless depth at α = 1."""
    alphas, late = np.geomspace(0.125, 100.0, 81), np.geomspace(0.1, 1e8, 91)
    depths = list(settings.depths)
    closed = [np.asarray(optimum(Isotropic(x), [*depths, math.inf]).loss) for x in alphas.tolist()]
    plain = RotatedStructure(lam=np.ones(1), omega=np.ones(1))
    how: dict[str, Any] = {"lr": 0.01, "steps": 1000, "log_every": 20}
    fall = [train(plain, Init(gamma=0.0), depth=n, **how).loss for n in depths]
    found: dict[str, Any] = {"closed": (("length", "layers"), np.asarray(closed))}
    found["endless"] = (("depth", "early"), np.asarray(fall))
    found["late_loss"] = ("late", np.asarray(loss_curve(Isotropic(1.0), late, math.inf)))
    coords = {"length": alphas, "late": late, "depth": depths}
    return xr.Dataset(found, coords | {"layers": [*depths, math.inf]})


def _endless(late: Any) -> tuple[Any, Any]:
    """γ and the loss of endless layers at α = 1, late: ``γ = (25t²/32π)^(1/5), 𝓛 = (2πγ)^-½``."""
    gamma = (25.0 * late**2 / (32.0 * math.pi)) ** 0.2
    return gamma, (2.0 * math.pi * gamma) ** -0.5


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """The loss in time against α and against L, the best loss, and what depth takes off it."""
    settings, grey = settings_of(d), {"color": "0.3"}
    deepest = max(depth for depth, _ in settings.pairs)
    panels: list[list[Any]] = [[], []]
    marks = np.unique(np.geomspace(1, d.sizes["step"] - 1, 14).round().astype(int))
    for j, (depth, alpha) in enumerate(settings.pairs):
        here = d.isel(pair=j)
        for wanted, panel, words in (
            (depth == deepest, panels[0], rf"$\alpha = {alpha:g}$"),
            (alpha == 1.0, panels[1], f"$L = {depth}$"),
        ):
            if wanted:
                k = sum(bool(mark) for mark in panel) // 3
                seen = here.tokens_loss.mean("run")[marks]
                panel.append(theory(d.time, here.flow, words, k))
                panel.append(training(d.time, here.drawn_flow, k=k))
                panel.append(tokens(settings.rate / settings.dim * d.step[marks], seen, k=k))
    late = d.late.sel(late=slice(0.5, 24.0))
    panels[1].append(theory(late, d.late_loss.sel(late=late), r"$L = \infty$", 6))
    panels[1].append(law(late, _endless(late)[1], r"$(2\pi\gamma)^{-1/2} \propto t^{-1/5}$"))
    panels[0].append(entry(r"flow, $D \to \infty$", **grey, **THEORY))
    panels[0].append(entry(f"drawn contexts, $D = {settings.dim}$", **grey, **TRAINING))
    panels[0].append(entry(f"Γ on contexts, $D = {settings.dim}$", **grey, **TOKENS))
    best, gains = [], []
    for k, depth in enumerate((*settings.depths, math.inf)):
        words = f"$L = {depth}$" if math.isfinite(depth) else r"$L = \infty$"
        closed = d.closed.sel(layers=depth)
        best.append(theory(d.length, closed.where(closed > 0.0), words, k))
        if k:
            gains.append(theory(d.length, d.closed.sel(layers=1) - closed, words, k))
        if math.isfinite(depth):
            best.append(tokens(d.alpha, d.best.sel(depth=depth), k=k))
    gains.append(tokens(d.alpha, d.gain, k=len(settings.depths) - 1))
    gains.append(law(d.length, 1.0 / (1.0 + d.length), r"$1/(1+\alpha)$"))
    best.append(entry(f"drawn contexts, $D = {settings.wide}$", **grey, **TOKENS))
    look: dict[str, Any] = {"log": "xy", "legend": 7.0, "where": "lower left"}
    time, loss, ratio = "$t$", r"$\mathcal{L}$", r"$\alpha = P/D$"
    gain = r"$\mathcal{L}^*_1 - \mathcal{L}^*_L$"
    return drawn(
        Panel(time, loss, panels[0], title=f"$L = {deepest}$", **look),
        Panel(time, loss, panels[1], title=r"$\alpha = 1$", **look),
        Panel(ratio, r"$\mathcal{L}^*$", best, ylim=(1e-5, 1.5), **look),
        Panel(ratio, gain, gains, log="x", ylim=(0.0, 0.55), legend=7.0),
        rows=2,
    )


def _one(d: xr.Dataset) -> tuple[xr.Dataset, tuple[float, float], float]:
    """Last halves of the runs of one layer at α = 1, their loss with its error, SGD's noise."""
    settings = settings_of(d)
    late = slice(-(d.sizes["step"] // 2), None)
    here = d.isel(pair=settings.pairs.index(ONE), step=late)
    return here, _mean(here.tokens_loss.values), settings.rate / settings.batch


NOISE = "3 standard errors, and what the noise of SGD adds, η/B"


@fig.claim("reported", "accounts: ISO training")
def one_layer(d):
    """One layer ends at 1/(1+α), at finite D at 1 − 1/(1 + (D+1)/P) (Γ trained on fresh contexts,
    mean over seeds and the last half of the runs; α = 1, D = {dim})."""
    _, (found, error), noise = _one(d)
    told = 1.0 - 1.0 / (2.0 + 1.0 / settings_of(d).dim)
    words = f"Standard error {error:.4f}, noise of SGD {noise:.4f}; D → ∞: 0.5."
    return near(found, told, 3.0 * error + noise, because=NOISE, note=words)


@fig.claim("reported", "accounts: ISO training", known="fails")
def one_layer_reported(d):
    """Some accounts: one layer ends at (1+α)^-2, where others have 1/(1+α) (Γ trained on fresh
    contexts; α = 1, D = {dim})."""
    _, (found, error), noise = _one(d)
    words = "Known from accounts, which may not be the paper's own words. It is the loss of the "
    words += "same Γ on endless contexts, not on those of P tokens."
    return near(found, 0.25, 3.0 * error + noise, because=NOISE, note=words)


@fig.claim("new", "derived")
def far(d):
    """What is (1+α)^-2 is |I − Γ|²/D, the loss of the same Γ on endless contexts, at finite D (1 −
    1/(1 + (D+1)/P))² (where training of one layer ends, mean over seeds; α = 1, D = {dim})."""
    (here, _, noise), settings = _one(d), settings_of(d)
    left = 1.0 - 1.0 / (2.0 + 1.0 / settings.dim)
    error = 2.0 * left * float(here.tokens_gamma.std()) / math.sqrt(settings.seeds)
    because = "3.5 standard errors, of ends that scatter as γ does late, and a tenth of SGD's noise"
    words = f"D → ∞: 0.25. Expected with SGD's noise, η/(2B) = {0.5 * noise:.4f}."
    told, slack = left**2 + 0.5 * noise, 3.5 * error + 0.05 * noise
    return near(here.far.mean(), told, slack, because=because, note=words)


@fig.claim("check", "derived")
def on_contexts(d):
    """The matrix Γ on fresh contexts follows γ on drawn ones, D = {dim} (relative gap of its mean
    diagonal, mean over seeds, from a tenth of the runs, the largest by its tolerance)."""
    settings = settings_of(d)
    later = d.sel(step=d.step >= 0.1 * d.step[-1])
    ratio = later.tokens_gamma / later.drawn_gamma
    error = ratio.std("run", ddof=1) / math.sqrt(settings.seeds)
    alpha = xr.DataArray([alpha for _, alpha in settings.pairs], dims="pair")
    slack = 3.0 * error + 2.0 * settings.rate / (settings.batch * alpha) + 0.005
    worst = abs((ratio.mean("run") - 1.0) / slack).argmax(...)
    because = "3 standard errors over seeds, SGD's noise of order η/(αB), 2 of it, ½ % for the draw"
    return near((ratio.mean("run") - 1.0).isel(worst), 0.0, slack.isel(worst), because=because)


@fig.claim("reported", ABSTRACT)
def limited_context(d):
    """Where contexts are limited depth helps: twice as many layers leave less (largest 𝓛_2L − 𝓛_L
    of drawn contexts at γ = Lα/(1+α), 3 standard errors added; L = 1, 2, 4, α from ¼ to 4)."""
    some = d.sel(alpha=d.alpha <= 4.0)
    worst = (some.fall + 3.0 * some.fall_error).max()
    return at_most(worst, 0.0, because="above 0 depth would not help")


@fig.claim("new", "derived")
def gain_fades(d):
    """What depth takes off the loss, 𝓛_1 − 𝓛_8, fades in long contexts, which the ratio 𝓛_8/𝓛_1
    does not (𝓛_1 − 𝓛_8 of drawn contexts over that at the α before, the largest, 3 standard errors
    added; α = 2, 4, 8, 16, 64)."""
    some = d.sel(alpha=d.alpha >= 2.0)
    gain, error = some.gain.values, some.gain_error.values
    worst = ((gain + 3.0 * error)[1:] / (gain - 3.0 * error)[:-1]).max()
    words = "Gains " + ", ".join(f"{x:.4f}" for x in gain) + "; most is gained near α = 1.4."
    return at_most(worst, 1.0, because="beyond 1 it would not fade", note=words)


@fig.claim("reported", ABSTRACT)
def endless_context(d):
    """With endless contexts depth gains nothing: 𝓛_1 − 𝓛_8 ends at 0 (drawn contexts at γ =
    Lα/(1+α), D = {wide}; the straight line in 1/α through α = 16 and 64, at 1/α = 0)."""
    far, near_by = (d.sel(alpha=x) for x in (64.0, 16.0))
    found = (4.0 * far.gain - near_by.gain) / 3.0
    error = float(np.hypot(4.0 * far.gain_error, near_by.gain_error)) / 3.0
    slack = (1.0 + 1.0 / settings_of(d).wide) ** 2 / (16.0 * 64.0) + 3.0 * error
    because = "the bend of x/(1+x), x = (D+1)/P, what one layer leaves; 3 standard errors"
    words = (
        f"From {float(near_by.gain):.4f} and {float(far.gain):.4f}: Γ = LI has no loss at any L."
    )
    return near(found, 0.0, slack, because=because, note=words)


@fig.claim("new", "derived")
def one_layer_ahead(d):
    """With endless contexts one layer is ahead of deeper ones at every time, at the same rate η for
    γ at every depth (smallest 𝓛_L/𝓛_1 of descent after its first step, L = 2, 4, 8)."""
    some = d.endless.isel(early=slice(1, None))
    worst = (some / some.sel(depth=1)).sel(depth=slice(2, None)).min()
    return at_least(worst, 1.0, because="below 1 a deeper one would be ahead")


@fig.claim("new", "derived")
def ratio_grows(d):
    """In long contexts L layers leave Cat_L α^-L, so that 𝓛_2/𝓛_1 = 2/α (drawn contexts, over that,
    at the longest, α = 64; D = {wide})."""
    here = d.sel(alpha=64.0)
    two, one = (here.sel(depth=n) for n in (2, 1))
    ratio = 0.5 * 64.0 * two.best / one.best
    slack = 1.5 / 64.0 + 1.5 / settings_of(d).wide + 3.0 * float(two.best_error / two.best)
    because = "the next orders are 1.5/α and 1.5/D; 3 standard errors"
    words = "𝓛_8/𝓛_1 = " + ", ".join(f"{x:.2g}" for x in (d.best[:, -1] / d.best[:, 0]).values)
    return near(ratio, 1.0, slack, because=because, note=words + ".")


@fig.claim("new", "derived")
def endless_depth(d):
    """At α = 1 endless layers fall as t^(−1/5): 𝓛 = (2πγ)^-½ with γ = (25t²/32π)^(1/5), nothing is
    fitted (largest relative gap of the flow for t from 10⁴ to 10⁸)."""
    late = d.late_loss.sel(late=slice(1e4, None))
    gamma, told = _endless(late.late)
    slack = 1.0 / float(gamma[0]) ** 2
    because = "1/γ² at t = 10⁴: in the order of 1/γ the corrections of 𝓛 and of γ cancel"
    return near(worst_ratio(late, told), 0.0, slack, because=because)


FIGURE = fig
