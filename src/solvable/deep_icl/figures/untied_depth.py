"""What untied layers can do where all contexts are alike: two depth laws, and where they end."""

import math
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, at_most, near, settings_of, worst_ratio
from ...reproduce.panels import Panel, drawn, entry, law, line, theory, tokens
from ...style import LAW, THEORY, TOKENS
from .. import Isotropic, optimum, untied_depth_law, untied_optimum
from ._ends import finite, law_task, spread
from ._least_squares import least_squares, rounding

fig = Figure(
    "deep_icl/untied-depth",
    "What untied layers can do where all contexts are alike",
    settings={
        "quick": {
            "sizes": (32, 64),
            "contexts": 200,
            "deep": (1, 2, 4, 8, 16, 32, 64, 128),
            "ends": (10**3, 10**4),
            "bits_dim": 100,
            "bits_depths": (4, 6, 7, 8, 9, 10, 12, 13, 14),
            "units": 32,
        },
        "default": {
            "sizes": (32, 64),
            "contexts": 400,
            "deep": (1, 2, 4, 8, 16, 32, 64, 128, 256),
            "ends": (10**3, 10**4),
            "bits_dim": 200,
            "bits_depths": tuple(range(2, 17)),
            "units": 64,
        },
        "full": {
            "sizes": (64, 128),
            "contexts": 4000,
            "deep": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
            "ends": (10**3, 10**4, 10**5),
            "bits_dim": 1000,
            "bits_depths": tuple(range(2, 17)),
            "units": 256,
        },
    },
    constants={
        "alphas": (0.5, 1.0, 2.0),
        "layers": (1, 2, 4),  # where isotropic contexts are drawn
        "nus": (1.25, 1.5, 2.0),
        "betas": (0.8, 0.5, 1.0),
        "many": 10**15,
        "brute": (2, 4, 8, 16, 32),  # depths of the least squares
        "brute_dim": 1000,
        "spreads": (1e-3, 0.03, 0.1),
        "spread_depths": (1, 2, 4, 8, 16, 32, 64),
        "tops": (200, 300),  # how many eigenvalues are spread
        "bits": (24, 53),  # of float32 and float64
    },
    note=(
        "L layers with a γ each apply a polynomial p of degree L with p(0) = 1 to a direction, so "
        "that min ∫p² dμ, μ the spectrum of the task, bounds them; the best p has real zeros, "
        "which layers reach. Panel (a): isotropic covariates, P = αD, D → ∞ by Chebyshev's "
        "polynomials, beside the polynomials that are best in the mean over drawn contexts, judged "
        "on fresh ones. Panels (b) and (c): rotated structure with endless contexts at N = D, ν = "
        "1.25 and β = 0.8 in (c). The law C(L + 1 + β/2)^(−(2+ν)β) is derived up to its shift, 1 + "
        "β/2, which is read off numbers: a conjecture. Its zeros sit on the top eigenvalues, "
        "exponentially close in L. Panel (c): any spread of eigenvalues (semicircles of relative "
        "standard deviation δ, for each of the top 300) leaves the exponent 2β of a density while"
        " L is far below 300, shown by numbers alone; γ rounded to a float32 or a float64 leave "
        "the law from about 8 and 13 layers on. There the unit of λ is any: with λ₁ = 1 the γ of "
        "the top zero is nearly L, a whole number, and rounding is luckier."
    ),
)


@fig.data
def isotropic(settings: Any) -> xr.Dataset:
    """Drawn isotropic contexts against the limit of many directions."""
    found: dict[str, list[Any]] = {"iso_drawn": [], "iso_error": []}
    many = np.arange(1, 13)
    for alpha in settings.alphas:
        for name in found:
            found[name].append([])
        for dim in settings.sizes:
            task = Isotropic(alpha, dim=dim)
            best = untied_optimum(
                task, list(settings.layers), contexts=settings.contexts, seed=settings.seed
            )
            found["iso_drawn"][-1].append(np.asarray(best.loss))
            found["iso_error"][-1].append(np.asarray(best.error))
    tied = [np.asarray(optimum(Isotropic(alpha), many).loss) for alpha in settings.alphas]
    own = [np.asarray(untied_optimum(Isotropic(alpha), many).loss) for alpha in settings.alphas]
    data = {name: (("alpha", "size", "layers"), np.asarray(rows)) for name, rows in found.items()}
    data |= {"iso_tied": (("alpha", "many"), tied), "iso_own": (("alpha", "many"), own)}
    places = {"alpha": list(settings.alphas), "size": list(settings.sizes), "many": many}
    return xr.Dataset(data, coords=places | {"layers": list(settings.layers)})


@fig.data
def rotated(settings: Any) -> xr.Dataset:
    """The best losses of very many directions, tied and untied, and the law."""
    depths, found = list(settings.deep), {"own": [], "tied": [], "told": []}
    for k, nu in enumerate(settings.nus):
        task, beta = law_task(settings, k, settings.many), settings.betas[k]
        found["own"].append(np.asarray(untied_optimum(task, depths).loss))
        found["tied"].append(np.asarray(optimum(task, depths).loss))
        found["told"].append(np.asarray(untied_depth_law(nu, beta)(np.asarray(depths, float))))
    rows = {name: (("beta", "depth"), np.asarray(row)) for name, row in found.items()}
    return xr.Dataset(rows, coords={"beta": list(settings.betas), "depth": depths})


for stage in (finite, spread, least_squares, rounding):
    fig.data(stage)


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """Losses against depth: isotropic, rotated with the law, and where the law ends."""
    settings, iso, power, ends = settings_of(d), [], [], []
    last, beta = d.isel(size=-1), settings.betas[0]
    for k, alpha in enumerate(settings.alphas):
        here = last.sel(alpha=alpha)
        iso.append(line(d.many, here.iso_own, rf"$\alpha = {alpha:g}$", k))
        iso.append(theory(d.many, here.iso_tied, "", k))
        iso.append(tokens(d.layers, here.iso_drawn, "", k))
    iso.append(entry("untied", color="0.3"))
    iso.append(entry("tied", color="0.3", **THEORY))
    iso.append(entry(f"untied, drawn, $D = {settings.sizes[-1]}$", color="0.3", **TOKENS))
    for k, (nu, x) in enumerate(zip(settings.nus, settings.betas, strict=True)):
        here = d.sel(beta=x)
        power.append(line(d.depth, here.own, rf"$\nu = {nu:g}$, $\beta = {x:g}$", k))
        power.append(law(d.depth, here.told, color="black"))
        power.append(theory(d.depth, here.tied, "", k))
    power.append(entry("untied", color="0.3"))
    power.append(entry("law, untied", **(LAW | {"color": "black"})))
    power.append(entry("tied", color="0.3", **THEORY))
    here = d.sel(beta=beta)
    ends.append(line(d.depth, here.own, r"$N = D \to \infty$", 6))
    ends.append(line(d.ended_depth, d.ended, f"$N = D = {settings.bits_dim}$", 5))
    for k, delta in enumerate(settings.spreads):
        row = d.spread.sel(delta=delta).isel(top=-1)
        ends.append(theory(d.spread_depth, row, rf"spread $\delta = {delta:g}$", k))
    for k, (digits, name) in enumerate(zip(settings.bits, ("float32", "float64"), strict=True)):
        row = d.exact * (1.0 + d.lost.sel(bits=digits).median("unit"))
        words, seen = f"$D = {settings.bits_dim}$, $\\gamma$ in {name}", row < 1.0
        ends.append(tokens(d.bits_depth[seen], row[seen], words, 3 + k, markersize=5.5 - 2.5 * k))
    start = d.spread.isel(top=-1, delta=-1).sel(spread_depth=8)
    slope = 1.6 * float(start) * (d.spread_depth[3:] / 8.0) ** (-2.0 * beta)
    ends.append(law(d.spread_depth[3:], slope, r"$L^{-2\beta}$"))
    low = float(here.own.sel(depth=settings.spread_depths[-1]))
    loss, look = r"$\min\,\mathcal{L}$", {"legend": 7.0, "where": "lower left"}
    three = rf"$\nu = {settings.nus[0]:g}$, $\beta = {beta:g}$"
    ends_look: dict[str, Any] = look | {"legend": 6.5}
    return drawn(
        Panel("$L$", loss, iso, log="y", title="isotropic", **look),
        Panel("$L$", loss, power, log="xy", title="rotated, $N = D$, $P = \\infty$", **look),
        Panel("$L$", loss, ends, log="xy", ylim=(0.02 * low, 1.0), title=three, **ends_look),
    )


@fig.claim("new", "derived", word="isotropic")
def isotropic_law(d):
    """Isotropic covariates without noise: 𝓛* = 1/(1 + α + … + α^L) (best polynomials of drawn
    contexts in ten times as many fresh ones, two D extrapolated to D = ∞: relative gap over 3
    standard errors and the square of the gap at the smaller D, the largest of α = ½, 1, 2 and L =
    1, 2, 4)."""
    powers = d.alpha ** xr.DataArray(np.arange(d.layers.values[-1] + 1), dims="power")
    told = 1.0 / powers.cumsum("power").isel(power=d.layers)
    ratio, error = d.iso_drawn / told, d.iso_error / told
    first, last = (ratio.isel(size=n) for n in (0, -1))
    gap = abs(2.0 * last - first - 1.0)
    slack = 3.0 * np.hypot(2.0 * error.isel(size=-1), error.isel(size=0)) + (first - 1.0) ** 2
    tied = d.iso_tied.sel(many=d.layers) / told
    words = f"Gaps up to {float(gap.max()):.4f}, of {float(slack.max()):.4f}; at the larger D to "
    words += f"{float((last - 1.0).max()):.3f}; tied layers at up to {float(tied.max()):.2f} 𝓛*."
    because = "the gap is of first order in 1/D; what is left is of second"
    return at_most((gap / slack).max(), 1.0, because=because, note=words)


@fig.claim("check", "ours")
def brute(d):
    """The least loss is that of least squares over polynomials in hundreds of digits (largest
    relative gap, D = 1000, L = 2 … 32)."""
    gap = worst_ratio(d.by_library, d.by_force)
    return near(gap, 0.0, 1e-12, because="round-off of the library's bidiagonalisation")


@fig.claim("new", "derived", word="law")
def amplitude(d):
    """Rotated structure, all contexts alike: 𝓛* ≃ C(L + 1 + β/2)^(−(2+ν)β), C = Γ(β)Γ(β+1)/(νZ)
    ((1+ν/2)²b)^β, b = (B(1/ν, ½)/ν)^ν (largest L² × relative gap, L from 64 on, three ν and β, D =
    10¹⁵; nothing fitted, the shift 1 + β/2 a conjecture)."""
    here = d.sel(depth=slice(64, None))
    gap = (here.depth**2 * abs(here.own / here.told - 1.0)).max()
    because = "no first order in 1/L is left; of second order, a factor of at most one"
    return at_most(gap, 1.0, because=because)


@fig.claim("new", "derived")
def ends(d):
    """D directions end the law from L ∝ D^(ν/(2+ν)) on (local exponent in D of the L + 1 + β/2 at
    which 𝓛* of D directions is half of that of endless ones, over ν/(2+ν), smallest two D; of three
    ν and β the furthest from 1)."""
    settings, found = settings_of(d), []
    for nu, beta in zip(settings.nus, settings.betas, strict=True):
        half = d.half.sel(beta=beta).values[:2] + 1.0 + 0.5 * beta
        slope = np.diff(np.log(half))[0] / np.log(settings.ends[1] / settings.ends[0])
        found.append(slope * (2.0 + nu) / nu)
    words = f"L from {float(d.half.min()):.1f} to {float(d.half.max()):.1f}."
    because = "second order in 1/L, L = 18 … 50 at D = 10³"
    return near(max(found, key=lambda x: abs(x - 1.0)), 1.0, 8e-3, because=because, note=words)


@fig.claim("new", "numbers", word="spread")
def spread_out(d):
    """A relative spread δ of each of the top 300 eigenvalues leaves the exponent 2β of a density,
    not (2+ν)β (slope of 𝓛* over the last octave, L = 32 to 64, ν = 1.25, β = 0.8, δ = .001, .03,
    .1; the one furthest off)."""
    settings, logs = settings_of(d), np.log(d.spread.transpose("top", "delta", ...))
    slopes = -np.diff(logs.values, axis=-1) / np.log(2.0)  # from octave to octave
    beta, nu = settings.betas[0], settings.nus[0]
    words = "; ".join(
        f"δ = {delta:g}: " + ", ".join(f"{y:.2f}" for y in row[-3:])
        for delta, row in zip(d.delta.values, slopes[-1], strict=True)
    )
    words = f"Slopes of the last three octaves, no limit of which is taken: {words}. With the top "
    words += f"{d.top.values[0]} alone they are within {abs(slopes[0] - slopes[-1]).max():.1g}."
    because = "a tenth of what tells the two apart, for the steps that gaps between bands make"
    last = max(slopes[-1, :, -1], key=lambda x: abs(x - 2.0 * beta))
    return near(last, 2.0 * beta, 0.1 * nu * beta, because=because, note=words)


@fig.claim("new", "derived", over="bits", word="rounding-{x}")
def rounded(d, x):
    """γ rounded to {x} binary digits lose 4^-{x}/(8 ln 2) Σ_ℓ ½ ∂²𝓛/∂(log γ_ℓ)², in the mean over
    units of λ (ratio, mean over units and depths)."""
    ratio = (d.lost / d.lost_told).sel(bits=x).values
    slack = 3.0 * ratio.std(ddof=1) / np.sqrt(ratio.size)
    return near(ratio.mean(), 1.0, slack, because="3 standard errors of the mean")


@fig.claim("new", "derived", over="bits", word="end-{x}")
def reach(d, x):
    """So γ of {x} binary digits leave 𝓛* at the depth at which that is 1 % of it (depth at which
    the median over units is, less that; both between depths along log 𝓛)."""
    here, depths = d.sel(bits=x), d.bits_depth.values
    rows = here.lost.median("unit").values, here.lost_told.values
    found, told = (float(np.interp(math.log(0.01), np.log(row), depths)) for row in rows)
    because = "half a layer: another layer loses some thousand times as much"
    return near(found - told, 0.0, 0.5, because=because, note=f"L = {found:.1f}, told {told:.1f}.")


FIGURE = fig
