"""Untied layers where contexts differ: what is typical, what is safe, and how deep."""

from functools import partial
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr
from scipy.optimize import minimize_scalar

from ...reproduce import Figure, at_most, settings_of, step
from ...reproduce.panels import Panel, drawn, entry, law, level, line, theory, tokens
from ...style import LAW, THEORY, TOKENS, colour
from .. import RotatedStructure, Spectra, draw_spectra, edge, optimum, untied_optimum
from ..theory import drawn as drawn_form

OCTAVE = np.log(2.0)

fig = Figure(
    "deep_icl/untied-contexts",
    "Untied layers where contexts differ",
    settings={
        "quick": {"contexts": 500, "octaves": 2},
        "default": {"contexts": 2000, "octaves": 4},
        "full": {"contexts": 30_000, "octaves": 5},
    },
    constants={
        "nu": 1.25,
        "beta": 0.8,
        "dim": 64,
        "pairs": ((32, 0), (32, 64), (64, 64)),  # N and P; 0 for endless contexts
        "depths": (1, 2, 4, 8, 16),
        # The best shape of a budget N²L: ν and β, the narrowest N, D.
        "laws": ((1.25, 0.8), (1.25, 1.5), (1.5, 2.0)),
        "narrow": 64,
        "many": 10**14,
    },
    note=(
        "Rotated structure, ν = 1.25, β = 0.8, D = 64 in (a) and (b); γ is that of γ (D/N) Π. With "
        "finite N or P the eigenvalues differ from context to context. The equivalent's Gram "
        "matrix of polynomials gives the layers that are best for the typical context; beyond the "
        "typical top eigenvalue their polynomial grows like e^2L√(2δ), δ the relative excess, so "
        "that rare contexts own its mean. The layers that are best in the mean over n drawn "
        "contexts, and the best tied ones of the same contexts, are judged on 10 n fresh ones. One "
        "context in about n has a larger top eigenvalue than all that were drawn; up to four "
        "layers stand that, 8 and 16 not at every N and P, for n from 500 to 4000: their mean over "
        "all contexts is then that of the rarest. Panel (c): where the equivalent is least along "
        "N²L = const, time without end, D = 10¹⁴. That the width needs a depth of √(λ₁/λ_N), as "
        "the steps of Chebyshev's iteration do, where tied layers need λ₁/λ_N, is an argument and "
        "not a proof; N^(ν min(β, 1)/2β) is a conjecture."
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
    pull = (spectra.square @ phi[:, :, None])[:, :, 0] + phi * spectra.noise
    return spectra.start + np.sum(phi * (pull - 2.0 * spectra.linear), axis=1)


def _median(losses: np.ndarray) -> np.ndarray:
    """The median over the contexts, and its standard error."""
    share = 0.5 / np.sqrt(losses.shape[1])
    low, high = np.quantile(losses, [0.5 - share, 0.5 + share], axis=1)
    return np.stack([np.median(losses, axis=1), 0.5 * (high - low)])


def _best(tried: Spectra, depths: list[int]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Layers that are best in the mean over some contexts, as of `untied_optimum`; tied ones."""
    own, tied = drawn_form([tried], max(depths)).best(*depths), []
    far = 2.0 / float(tried.eigenvalues.max(axis=1).min())  # beyond it every context diverges
    for depth in depths:

        def mean(step_size: float, depth: int = depth) -> float:
            return float(np.log(tried.at(step_size * depth, float(depth)).mean()))

        found: Any = minimize_scalar(mean, bounds=(0.0, far), method="bounded")
        tied.append(np.full(depth, depth * found.x))
    return [each.gamma for each in own], tied


@fig.data
def contexts(settings: Any) -> xr.Dataset:
    """The equivalent's layers, those for the mean, and tied ones for it, on the same contexts."""
    found: dict[str, list[Any]] = {}
    depths, count = list(settings.depths), settings.contexts
    for n, (width, context) in enumerate(settings.pairs):
        task = RotatedStructure(
            settings.nu, settings.beta, settings.dim, width=width, context=context or None
        )
        best, one = untied_optimum(task, depths), optimum(task, depths)
        tried = draw_spectra(task, count, seed=settings.seed)
        rows = list(np.asarray(best.gamma)), *_best(tried, depths)
        losses, tops = [], []
        for k in range(1, 11):
            fresh = draw_spectra(task, count, seed=settings.seed + k)
            losses.append([[_left(fresh, row) for row in each] for each in rows])
            tops.append(fresh.eigenvalues.max(axis=1))
        typical, own, tied = np.concatenate(losses, axis=-1)
        top = np.concatenate(tops)
        common, known = top <= float(edge(task)), top <= tried.eigenvalues.max()
        values = {
            "own": best.loss,
            "tied": one.loss,
            "median": _median(typical)[0],
            "slack": _median(typical)[1],
            "mean": typical.mean(axis=1),
            "inside": typical[:, common].mean(axis=1),
            "outside": np.full(len(depths), 1.0 - common.mean()),
            "whole": own.mean(axis=1) / tied.mean(axis=1),
            "whole_error": _error(own, tied),
            "known": own[:, known].mean(axis=1) / tied[:, known].mean(axis=1),
            "known_error": _error(own[:, known], tied[:, known]),
            "beyond": np.full(len(depths), np.sum(~known)),
            "others": own[:, known].sum(axis=1) / own.sum(axis=1),
            "typical_whole": typical.mean(axis=1) / tied.mean(axis=1),
        }
        for name, row in values.items():
            found.setdefault(name, []).append(np.asarray(row))
        step(n + 1, len(settings.pairs))
    data = {name: (("pair", "depth"), np.asarray(row)) for name, row in found.items()}
    pairs = [_name(*pair) for pair in settings.pairs]
    return xr.Dataset(data, coords={"pair": pairs, "depth": depths})


def _error(own: np.ndarray, tied: np.ndarray) -> np.ndarray:
    """The standard error of a ratio of two means over the same contexts."""
    ratio, mean = own.mean(axis=1) / tied.mean(axis=1), tied.mean(axis=1)
    apart = own - ratio[:, None] * tied
    return apart.std(axis=1, ddof=1) / mean / np.sqrt(own.shape[1])


@fig.data
def shape(settings: Any) -> xr.Dataset:
    """Depths, as real numbers, at which 𝓛 is least along N²L = const, over N an octave apart."""
    half = settings.narrow * 2.0 ** (0.5 * np.arange(-1, 2 * settings.octaves + 2))
    widths, best = half.round().astype(int), np.empty((len(settings.laws), settings.octaves + 1))
    for k, (nu, beta) in enumerate(settings.laws):
        logs, depths = [], []
        for n, width in enumerate(widths):
            task = RotatedStructure(nu, beta, settings.many, width=width)
            layers = np.arange(1, round(13 * (width / 64) ** 0.55) + 1)
            depths.append(np.log(layers))
            logs.append(np.log(np.asarray(untied_optimum(task, layers).loss)))
            step(k * widths.size + n + 1, len(settings.laws) * widths.size)
        for n in range(1, widths.size, 2):
            # Slopes over an octave of N and of L; at the best shape the first is twice the second.
            most = min(depths[n - 1][-1], depths[n][-1] - 0.5 * OCTAVE)
            places = np.arange(0.5 * OCTAVE, most, 0.01)
            wide, narrow = (np.interp(places, depths[m], logs[m]) for m in (n + 1, n - 1))
            deep, flat = (np.interp(places + x * OCTAVE, depths[n], logs[n]) for x in (0.5, -0.5))
            done = places[wide - narrow < 2.0 * (deep - flat)]
            best[k, n // 2] = np.exp(done[0]) if done.size else np.nan
    rows = {"best_depth": (("law", "width"), best)}
    return xr.Dataset(rows, coords={"width": widths[1::2]})


def _power(nu: float, beta: float) -> float:
    """Of the width, with which the best depth is conjectured to grow."""
    return 0.5 * nu * min(beta, 1.0) / beta


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """Losses against depth: typical and mean; and the best depth against the best width."""
    settings, typical, means, shapes, top = settings_of(d), [], [], [], 12.0
    for k, pair in enumerate(d.pair.values):
        here = d.sel(pair=pair)
        typical.append(line(d.depth, here.own, pair, k))
        typical.append(tokens(d.depth, here["median"], "", k))
        typical.append(theory(d.depth, here.tied, "", k))
        known = here.known.sel(depth=slice(2, None))
        means.append(line(d.depth, here.typical_whole, "", k, linewidth=0.8))
        means.append(tokens(d.depth, here.whole, "", k))
        means.append(line(known.depth, known, "", k, linestyle="none", marker="x", markersize=5.0))
        above = d.depth[here.whole.values > top]
        high = np.full(above.size, 0.8 * top * 0.75**k)
        means.append(line(above, high, "", k, linestyle="none", marker="^", markersize=3.5))
    typical += [entry("equivalent", color="0.3"), entry("median, drawn", color="0.3", **TOKENS)]
    typical.append(entry("tied, equivalent", color="0.3", **THEORY))
    means.append(entry("best for the mean", color="0.3", **TOKENS))
    means.append(entry(f"the same, above {top:g}", color="0.3", linestyle="none", marker="^"))
    means.append(entry("no eigenvalue unseen", color="0.3", linestyle="none", marker="x"))
    means.append(entry("best for the typical", color="0.3", linewidth=0.8))
    means.append(level(1.0))
    for k, (nu, beta) in enumerate(settings.laws):
        here = d.best_depth.isel(law=k)
        name = rf"$\nu = {nu:g}$, $\beta = {beta:g}$"
        shapes.append(line(d.width, here, name, k, marker=".", markersize=7.0))
        power = d.width ** _power(nu, beta)
        shapes.append(law(d.width, float(here[-1] / power[-1]) * power, color=colour(k)))
    shapes.append(entry(r"$N^{\nu\,\min(\beta, 1)/2\beta}$", **LAW))
    title, words = f"$D = {settings.dim}$", r"best shape at $N^2L$, $D = 10^{14}$"

    def ticks(axes: Any, *, of: Any = d.depth.values) -> None:
        axes.set_xticks(of, [str(n) for n in of])
        axes.xaxis.set_minor_formatter("")

    def plain(axes: Any, *, values: Any = (0.3, 0.5, 1, 2, 5, 10)) -> None:
        axes.set_yticks(values, [f"{x:g}" for x in values])
        axes.yaxis.set_minor_formatter("")

    wide = [partial(ticks, of=d.width.values), partial(plain, values=(3, 5, 10, 20, 50))]
    look: dict[str, Any] = {"log": "xy", "legend": 7.0}
    return drawn(
        Panel("$L$", r"$\mathcal{L}$", typical, title=title, more=[ticks], **look),
        Panel(
            "$L$",
            r"mean $\mathcal{L}$, untied/tied",
            means,
            title=f"{10 * settings.contexts} fresh contexts",
            ylim=(0.2, top),
            more=[ticks, plain],
            **look,
        ),
        Panel("$N$", "$L$", shapes, title=words, more=wide, **look),
    )


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


@fig.claim("new", "numbers")
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


def _worst(d: xr.Dataset, name: str, depths: list[int]) -> tuple[float, str]:
    """The largest ratio and three standard errors; the ratios in words."""
    here = d.sel(depth=depths)
    rows = here[name].transpose("depth", "pair")
    words = "; ".join(
        f"L = {depth}: " + ", ".join(f"{x:.3g}" for x in row)
        for depth, row in zip(depths, rows.values, strict=True)
    )
    return float((here[name] + 3.0 * here[f"{name}_error"]).max()), words


BELOW = "three standard errors are in it; beyond 1 tied layers would be better"


@fig.claim("new", "numbers", over=(2, 4), word="safe-{x}")
def safe(d, x):
    """{x} untied layers that are best in the mean over n drawn contexts are better than the best
    tied ones also in the mean over 10 n fresh contexts (untied over tied, 3 standard errors added,
    the largest over N and P)."""
    worst, words = _worst(d, "whole", [x])
    return at_most(worst, 1.0, because=BELOW, note=f"{words}, by N and P.")


@fig.claim("new", "numbers", word="unsafe")
def deep(d):
    """16 untied layers that are best in the mean over n drawn contexts are not safe at every N and
    P: of 10 n fresh contexts the few whose top eigenvalue exceeds all that were drawn own the mean
    (share of it that the others have, the least over N and P)."""
    words = _worst(d, "whole", [8, 16])[1]
    words = f"Untied over tied, by N and P: {words}. Of {10 * settings_of(d).contexts} contexts "
    words += ", ".join(f"{x:.0f}" for x in d.beyond.isel(depth=0).values) + " are beyond."
    because = "without them the others, 99 in 100, would have 99 hundredths"
    return at_most(d.others.sel(depth=16).min(), 0.1, because=because, note=words)


@fig.claim("new", "numbers")
def within(d):
    """Where no eigenvalue exceeds those of the n drawn contexts, untied layers that are best in the
    mean over these are better than tied ones at every depth (mean over such fresh contexts, untied
    over tied, 3 standard errors added, the largest over L = 2, 4, 8, 16 and N and P)."""
    worst, words = _worst(d, "known", [2, 4, 8, 16])
    return at_most(worst, 1.0, because=BELOW, note=f"{words}, by N and P.")


@fig.claim("new", "argued")
def shapes(d):
    """At a budget N²L, time without end, the best depth of untied layers grows with the width more
    nearly like N^(ν min(β,1)/2β) than like tied layers', of twice this exponent, or those of
    contexts that are all alike, of 2/(2+ν) of it (exponent by least squares in log-log over this,
    less 1, in units of half way to the other on its side; the largest of three ν and β, one β <
    1)."""
    settings, found, words = settings_of(d), [], []
    x = np.log(d.width.values)
    for k, (nu, beta) in enumerate(settings.laws):
        y, told = np.log(d.best_depth.isel(law=k).values), _power(nu, beta)
        off = float(np.polyfit(x, y, 1)[0]) / told - 1.0
        found.append(abs(off) / (0.5 if off > 0.0 else 0.5 * nu / (2.0 + nu)))
        octaves = ", ".join(f"{z:.2f}" for z in np.diff(y) / np.diff(x))
        words.append(f"ν = {nu:g}, β = {beta:g}: {octaves} for {told:.3f}, {off:+.0%} in all")
    note = "By octave of N " + "; ".join(words) + ". By the equivalent alone."
    return at_most(max(found), 1.0, because="half way between two exponents", note=note)


FIGURE = fig
