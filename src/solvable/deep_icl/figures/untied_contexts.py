"""Untied layers where contexts differ: what is typical, what is safe, and how deep."""

import warnings
from functools import partial
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, at_least, at_most, near, settings_of, step
from ...reproduce.panels import Mark, Panel, drawn, entry, law, line, theory, tokens, training
from ...style import LAW, THEORY, TOKENS, TRAINING, colour
from .. import RotatedStructure, Spectra, draw_spectra, edge, floor, optimum, untied_optimum

DEEPEST = 128  # of the equivalent's untied layers

fig = Figure(
    "deep_icl/untied-contexts",
    "Untied layers where contexts differ",
    settings={
        "quick": {"contexts": 1000, "widths": (128, 256, 512, 1024)},
        "default": {"contexts": 4000, "widths": (128, 256, 512, 1024, 2048)},
        "full": {"contexts": 30_000, "widths": (128, 256, 512, 1024, 2048, 4096)},
    },
    constants={
        "nu": 1.25,
        "beta": 0.8,
        "dim": 64,
        "pairs": ((32, 0), (32, 64), (64, 64)),  # N and P; 0 for endless contexts
        "depths": (1, 2, 4, 8, 16),
        # The depth for a width: ν and β, D, and times what of the width's floor.
        "laws": ((1.25, 0.8), (1.25, 0.5), (1.5, 0.5)),
        "named": ("1.25-0.8", "1.25-0.5", "1.5-0.5"),
        "many": 10**14,
        "over": 1.5,
    },
    note=(
        "Rotated structure, ν = 1.25, β = 0.8, D = 64 in (a) and (b); γ is that of γ (D/N) Π. With "
        "finite N or P the eigenvalues differ from context to context. The equivalent's Gram "
        "matrix of polynomials gives the layers that are best for the typical context; beyond the "
        "typical top eigenvalue their polynomial grows like e^2L√(2δ), δ the relative excess, so "
        "that rare contexts own its mean. The layers that are best in the mean over drawn contexts "
        "are judged on fresh ones, without the worst 1 %: one context in about as many as were "
        "drawn has a larger top eigenvalue than all of these, and can own the whole mean: of 1000 "
        "contexts one did, of 4000 none. Panel (c): depths at which the "
        "equivalent's loss is 1.5 times what the width leaves at endless depth, D = 10¹⁴. That "
        "they grow like √(λ₁/λ_N), as the steps of Chebyshev's iteration do, where tied layers "
        "need λ₁/λ_N, is an argument and not a proof; for β > 1, N^(ν/2β) is a conjecture."
    ),
)


def _name(width: int, context: int) -> str:
    return f"N = {width}, P = {context or '∞'}"


def _left(spectra: Spectra, gamma: np.ndarray) -> np.ndarray:
    """The loss of layers with a γ each in every context; φ = (1 − Π(1 − γ_ℓ s/L))/s as a sum."""
    s, gamma = spectra.eigenvalues, gamma[np.isfinite(gamma)]
    left, phi = np.ones_like(s), np.zeros_like(s)
    for rate in gamma / gamma.size:
        phi, left = phi + rate * left, left * (1.0 - rate * s)
    pull = np.einsum("cij,cj->ci", spectra.square, phi) + phi * spectra.noise
    return spectra.start + np.sum(phi * (pull - 2.0 * spectra.linear), axis=1)


def _median(losses: np.ndarray) -> np.ndarray:
    """The median over the contexts, and its standard error."""
    share = 0.5 / np.sqrt(losses.shape[1])
    low, high = np.quantile(losses, [0.5 - share, 0.5 + share], axis=1)
    return np.stack([np.median(losses, axis=1), 0.5 * (high - low)])


def _most(losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean over all but the worst 1 % of the contexts, and its standard error."""
    rest = np.sort(losses, axis=1)[:, : round(0.99 * losses.shape[1])]
    return rest.mean(axis=1), rest.std(axis=1, ddof=1) / np.sqrt(rest.shape[1])


@fig.data
def contexts(settings: Any) -> xr.Dataset:
    """The equivalent's layers, those for the mean, and tied ones, on the same fresh contexts."""
    found: dict[str, list[Any]] = {}
    depths = list(settings.depths)
    for n, (width, context) in enumerate(settings.pairs):
        task = RotatedStructure(
            settings.nu, settings.beta, settings.dim, width=width, context=context or None
        )
        best = untied_optimum(task, depths)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that some fresh contexts are rare
            safe = untied_optimum(task, depths, contexts=settings.contexts, seed=settings.seed + 1)
        fresh = draw_spectra(task, settings.contexts, seed=settings.seed)
        typical, mean = (
            np.stack([_left(fresh, row) for row in np.asarray(each.gamma)]) for each in (best, safe)
        )
        one = optimum(task, depths)
        gammas = zip(depths, np.asarray(one.gamma), strict=True)
        same = np.stack([_left(fresh, np.full(depth, gamma)) for depth, gamma in gammas])
        within = fresh.eigenvalues.max(axis=1) <= float(edge(task))
        values = {
            "own": best.loss,
            "tied": one.loss,
            "below_tied": (mean < same).mean(axis=1),
            "median": _median(typical)[0],
            "slack": _median(typical)[1],
            "mean": typical.mean(axis=1),
            "most": _most(typical)[0],
            "inside": typical[:, within].mean(axis=1),
            "outside": np.full(len(depths), 1.0 - within.mean()),
            "whole": mean.mean(axis=1),
            "safe": _most(mean)[0],
            "safe_error": _most(mean)[1],
        }
        for name, row in values.items():
            found.setdefault(name, []).append(np.asarray(row))
        step(n + 1, len(settings.pairs))
    rows = {name: (("pair", "depth"), np.asarray(row)) for name, row in found.items()}
    pairs = [_name(*pair) for pair in settings.pairs]
    return xr.Dataset(rows, coords={"pair": pairs, "depth": depths})


@fig.data
def shape(settings: Any) -> xr.Dataset:
    """Depths, as real numbers, at which untied layers are at 1.5 times the width's floor."""
    best = np.empty((len(settings.laws), len(settings.widths)))
    for k, (nu, beta) in enumerate(settings.laws):
        low, high = 1.0, 16.0
        for n, width in enumerate(settings.widths):
            task = RotatedStructure(nu, beta, settings.many, width=width)
            goal = np.log(settings.over * float(floor(task, "width")))
            depths = np.arange(max(1, int(low) - 1), min(DEEPEST, int(high) + 1) + 1)
            losses = np.log(np.asarray(untied_optimum(task, depths).loss))
            found = np.interp(-goal, -losses, np.log(depths), left=np.nan, right=np.nan)
            best[k, n] = np.exp(found)
            low, high = best[k, n] * 2.0 ** (0.5 * nu - 0.3), best[k, n] * 2.0 ** (0.5 * nu + 0.3)
            step(k * len(settings.widths) + n + 1, best.size)
    rows = {"best_depth": (("law", "width"), best)}
    return xr.Dataset(rows, coords={"width": list(settings.widths)})


def _slope(width: xr.DataArray, depth: xr.DataArray) -> tuple[float, float]:
    """D log L/d log N by least squares, and how much it differs from octave to octave."""
    x, y = np.log(width.values), np.log(depth.values)
    return float(np.polyfit(x, y, 1)[0]), float(np.ptp(np.diff(y) / np.diff(x)))


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """Losses against depth: typical and mean; and the depth of 1.5 floors against width."""
    settings, typical, means, shapes = settings_of(d), [], [], []
    for k, pair in enumerate(d.pair.values):
        here = d.sel(pair=pair)
        typical.append(line(d.depth, here.own, pair, k))
        typical.append(tokens(d.depth, here["median"], "", k))
        typical.append(theory(d.depth, here.tied, "", k))
        means.append(training(d.depth, here.most / here.own, "", k))
        bars: dict[str, Any] = {"yerr": 3.0 * here.safe_error / here.own, "color": colour(k)}
        means.append(_bars(d.depth, here.safe / here.own, bars))
        means.append(theory(d.depth, here.tied / here.own, "", k))
    typical += [entry("equivalent", color="0.3"), entry("median, drawn", color="0.3", **TOKENS)]
    typical.append(entry("tied, equivalent", color="0.3", **THEORY))
    means.append(entry("typical's best layers", color="0.3", **TRAINING))
    means.append(entry("mean's best layers", color="0.3", **TOKENS))
    means.append(entry("tied, equivalent", color="0.3", **THEORY))
    for k, (nu, beta) in enumerate(settings.laws):
        here = d.isel(law=k)
        shapes.append(tokens(d.width, here.best_depth, rf"$\nu = {nu:g}$, $\beta = {beta:g}$", k))
        scale = float(np.exp(np.log(here.best_depth / d.width ** (0.5 * nu)).mean()))
        shapes.append(law(d.width, scale * d.width ** (0.5 * nu), color=colour(k)))
    shapes.append(entry(r"$N^{\nu/2}$", **LAW))
    nu, here = settings.laws[0][0], d.best_depth.isel(law=0)
    other = float(here[0]) * (d.width / float(d.width[0])) ** (nu / (2.0 + nu))
    shapes.append(line(d.width, other, r"$N^{\nu/(2+\nu)}$", color="0.6", linewidth=0.8))
    top = 2.0 * float((d.tied / d.own).max())
    title, words = f"$D = {settings.dim}$", rf"depth of {settings.over:g} floors, $D = 10^{{14}}$"

    def ticks(axes: Any, *, of: Any = d.depth.values) -> None:
        axes.set_xticks(of, [str(n) for n in of])
        axes.xaxis.set_minor_formatter("")

    def plain(axes: Any, *, values: Any = (1, 2, 3, 5)) -> None:
        axes.set_yticks(values, [f"{x:g}" for x in values])
        axes.yaxis.set_minor_formatter("")

    wide = [partial(ticks, of=d.width.values), partial(plain, values=(3, 5, 10, 20, 50, 100))]
    look: dict[str, Any] = {"log": "xy", "legend": 7.0}
    return drawn(
        Panel("$L$", r"$\mathcal{L}$", typical, title=title, more=[ticks], **look),
        Panel(
            "$L$",
            r"mean $\mathcal{L}$ over the equivalent's",
            means,
            title=title,
            ylim=(0.9, top),
            more=[ticks, plain],
            **look,
        ),
        Panel("$N$", "$L$", shapes, title=words, more=wide, **look),
    )


def _bars(x: Any, y: Any, look: dict[str, Any]) -> Mark:
    """Points with three standard errors."""
    return Mark(lambda axes: axes.errorbar(x, y, **look, **TOKENS))


@fig.claim("check", "ours")
def median(d):
    """The equivalent's best layers have its loss in the median drawn context up to 2/N + 2/P, the
    relative variance of a context's top eigenvalue (largest relative gap beyond 3.5 standard
    errors over it, all N, P and L)."""
    sizes = [2.0 / n + (2.0 / p if p else 0.0) for n, p in settings_of(d).pairs]
    gap = abs(d["median"] / d.own - 1.0)
    beyond = (gap - 3.5 * d.slack / d.own) / xr.DataArray(sizes, dims="pair")
    words = f"Largest gap {float(gap.max()):.3f}; at L = 1 it is "
    words += f"{float(gap.sel(depth=1).max()):.3f}."
    because = "a median is off a mean by what fluctuates squared, an order and not a bound"
    return at_most(beyond.max(), 1.0, because=because, note=words)


@fig.claim("new", "derived")
def rare(d):
    """The mean over contexts is another: at the equivalent's best 16 layers the contexts whose top
    eigenvalue exceeds its edge own it (share of the mean that the others have, the largest over N
    and P)."""
    here = d.sel(depth=16)
    share = (1.0 - here.outside) * here.inside / here["mean"]
    words = f"They are {100.0 * float(here.outside.max()):.1f} % of the contexts; the means are "
    words += ", ".join(f"{x:.1g}" for x in (here["mean"] / here.own).values)
    because = "without rare contexts the others, nine of ten, would have nine tenths"
    return at_most(share.max(), 0.01, because=because, note=f"{words} times the equivalent.")


@fig.claim("new", "numbers")
def safe(d):
    """Layers that are best in the mean over drawn contexts are below the best tied ones of typical
    contexts in at least 95 % of fresh contexts from L = 4 on, not at L = 2 (share of contexts in
    which their loss is less, the smallest over L = 4, 8, 16 and all N and P)."""
    here = d.sel(depth=slice(2, None))
    ratio = (here.safe + 3.0 * here.safe_error) / here.tied
    cost, whole = 100.0 * (here.safe / here.own - 1.0), here.whole / here.tied
    words = f"Without the worst 1 % they cost {float(cost.min()):.0f} to {float(cost.max()):.0f} % "
    words += f"of what typical layers have, and are at {float(ratio.min()):.2f} to "
    words += f"{float(ratio.max()):.2f} of what tied ones typically have; with the worst 1 % at "
    words += f"{float(whole.min()):.2f} to {float(whole.max()):.2f}"
    two = float(here.below_tied.sel(depth=2).min())
    because = "nineteen of twenty, said before counting; L = 2 was left out after it"
    deep = here.below_tied.sel(depth=slice(4, None)).min()
    return at_least(deep, 0.95, because=because, note=f"{words}. At L = 2: {two:.2f}.")


@fig.claim("new", "argued", over="named", word="shape-{x}")
def grows(d, x):
    """The depth at which untied layers have 1.5 times the loss that the width leaves grows like
    N^ν/2, as √(λ₁/λ_N) does, nearer to it than to N^ν/(2+ν) (least squares in log-log, D = 10¹⁴;
    ν and β: {x})."""
    settings = settings_of(d)
    k = settings.named.index(x)
    slope, swing = _slope(d.width, d.best_depth.isel(law=k))
    nu = settings.laws[k][0]
    other = nu / (2.0 + nu)
    words = "L = " + ", ".join(f"{y:.1f}" for y in d.best_depth.isel(law=k).values)
    words += f"; octaves differ by {swing:.3f}; ν/(2+ν) = {other:.3f}."
    because = "half of what tells ν/2 from ν/(2+ν)"
    return near(slope, 0.5 * nu, 0.5 * (0.5 * nu - other), because=because, note=words)


FIGURE = fig
