"""Isotropic contexts: training in time, where it ends, and what depth is good for."""

import itertools
import math
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr
from scipy.special import binom

from ...reproduce import Figure, at_most, near, settings_of, step
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
from ._accounts import ABSTRACT, ACCOUNTS
from ._seeds import beyond, mean_of

LISTED = 6000  # steps
ONE, FOUR = (1, 1.0), (4, 1.0)  # L and α
LOOKS = 200  # along a run

fig = Figure(
    "deep_icl/iso-training",
    "Isotropic contexts: training in time, where it ends, and what depth is good for",
    settings={
        "quick": {"pairs": ((4, 0.5), FOUR, ONE), "steps": 400, "batches": (8, 16)}
        | {"seeds": 6, "contexts": 200},
        "default": {"pairs": ((16, 0.5), (16, 1.0), (16, 4.0), FOUR, ONE)}
        | {"steps": 400, "batches": (8, 16), "seeds": 6, "contexts": 500},
        "full": {"pairs": (*((16, 2.0**k) for k in range(-2, 4)), (8, 1.0), FOUR, (2, 1.0), ONE)}
        | {"steps": LISTED, "batches": (256, 512), "seeds": 6, "contexts": 5000},
    },
    constants={"dim": 32, "rate": 0.125, "pool": 500, "depths": (1, 2, 4, 8), "wide": 64}
    | {"lengths": (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)},
    note=(
        "Of this law the abstract says, as a summary quotes it: “For ISO and FS settings, we find "
        "that depth only aids ICL performance if context length is limited.” It holds for what "
        "depth takes off the loss, 1/(1+α) at most, and for endless contexts, where one layer has "
        "no loss. As a ratio depth gains the more the longer the context: L layers leave "
        "Cat_L α^-L. (a, b) D = 32, η = 0.125 for Γ's entries, 6000 steps and B = 512 contexts a "
        "step, as listed, at full size; below it fewer steps and contexts, from six seeds with "
        "two B each, which tell what is left at η/B → 0. Listed besides: K = 32 queries and an "
        "initial scale of 0.4; here all queries are averaged over exactly, and Γ starts at 0. t is "
        "the time of γ. Training of 16 layers does not end in the listed time where α ≥ 1."
    ),
)


def _pooled(alpha: float, settings: Any) -> RotatedStructure:
    """Drawn contexts of D dimensions as a task whose loss is their mean loss.

    Without noise that of a context is ``Σ_i (1 − γs_i/L)^(2L)/D`` with the eigenvalues s of its
    ``XᵀX/P``: those of all contexts together are a spectrum with endless contexts.
    """
    task = Isotropic(alpha, dim=settings.dim)
    found = draw_spectra(task, settings.pool, seed=settings.seed + 1).eigenvalues.ravel()
    lam = np.sort(found).reshape(-1, 10).mean(axis=1)  # neighbours are alike
    lam = np.maximum(lam, 1e-12)  # in place of 0, where α < 1
    return RotatedStructure(lam=lam, omega=1.0 / (lam.size * lam))


@fig.data
def runs(settings: Any) -> xr.Dataset:
    """Γ on fresh contexts, once a seed, γ on drawn ones with the same steps, and its flow."""
    parts: list[xr.Dataset] = []
    dim, seeds = settings.dim, range(settings.seed, settings.seed + settings.seeds)
    listed = np.geomspace(0.01, LISTED * settings.rate / dim, 60)
    for depth, alpha in settings.pairs:
        how: dict[str, Any] = {"depth": depth, "lr": settings.rate, "time": "matrix"}
        how |= {"steps": settings.steps, "log_every": settings.steps // LOOKS, "progress": step}
        task = Isotropic(alpha, dim=dim)
        each = [
            [train_brute(task, Init(gamma=0.0), seed=seed, contexts=n, **how) for seed in seeds]
            for n in settings.batches
        ]
        pool = _pooled(alpha, settings)
        how |= {"lr": settings.rate / dim, "time": "scalar"}
        one = train(pool, Init(gamma=0.0), **how)
        ends = np.stack([[np.asarray(run.state[0][0]) for run in runs] for runs in each])
        left = np.sum((np.eye(dim) - ends) ** 2, axis=(-2, -1)) / dim
        found: dict[str, Any] = {
            "far": (("batch", "run"), left),
            "drawn_gamma": ("step", one.gamma),
        }
        for name in ("loss", "gamma"):
            rows = np.asarray([[getattr(run, name) for run in runs] for runs in each])
            found[f"tokens_{name}"] = (("batch", "run", "step"), rows)
        found["flow"] = ("time", np.asarray(loss_curve(Isotropic(alpha), listed, depth)))
        found["drawn_flow"] = ("time", np.asarray(loss_curve(pool, listed, depth)))
        places = {"step": np.asarray(one.step), "time": listed, "batch": list(settings.batches)}
        parts.append(xr.Dataset(found, coords=places))
    return xr.concat(parts, "pair")


@fig.data
def ends(settings: Any) -> xr.Dataset:
    """The loss of drawn contexts at γ = Lα/(1+α), at every length and depth."""
    dim, depths, rows = settings.wide, list(settings.depths), []
    for alpha in settings.lengths:
        s = draw_spectra(Isotropic(alpha, dim=dim), settings.contexts, seed=settings.seed)
        left = 1.0 - alpha / (1.0 + alpha) * s.eigenvalues
        values = [(left ** (2 * depth)).mean(axis=-1) for depth in depths]
        rows.append([mean_of(np.stack(x)) for x in (values, [values[0] - x for x in values])])
    table, both = np.asarray(rows), ("alpha", "depth")  # alpha, what, mean or error, depth
    found = {"best": (both, table[:, 0, 0]), "best_error": (both, table[:, 0, 1])}
    found |= {"fall": (both, table[:, 1, 0]), "fall_error": (both, table[:, 1, 1])}
    return xr.Dataset(found, coords={"alpha": list(settings.lengths), "depth": depths})


@fig.data
def theories(settings: Any) -> xr.Dataset:
    """The optimum in closed form, and endless depth at α = 1."""
    alphas, late = np.geomspace(0.125, 100.0, 81), np.geomspace(0.5, 24.0, 31)
    depths = list(settings.depths)
    closed = [np.asarray(optimum(Isotropic(x), [*depths, math.inf]).loss) for x in alphas.tolist()]
    found: dict[str, Any] = {"closed": (("length", "layers"), np.asarray(closed))}
    found["late_loss"] = ("late", np.asarray(loss_curve(Isotropic(1.0), late, math.inf)))
    coords = {"length": alphas, "late": late, "depth": depths}
    return xr.Dataset(found, coords | {"layers": [*depths, math.inf]})


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
                seen = here.tokens_loss[-1].mean("run")[marks]
                panel.append(theory(d.time, here.flow, words, k))
                panel.append(training(d.time, here.drawn_flow, k=k))
                panel.append(tokens(settings.rate / settings.dim * d.step[marks], seen, k=k))
    panels[1].append(theory(d.late, d.late_loss, r"$L = \infty$", 6))
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
        if k and math.isfinite(depth):
            gains.append(tokens(d.alpha, d.fall.sel(depth=depth), k=k))
        if math.isfinite(depth):
            best.append(tokens(d.alpha, d.best.sel(depth=depth), k=k))
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


def _ended(d: xr.Dataset, pair: tuple[int, float]) -> xr.Dataset:
    """The last halves of the runs of some L and α."""
    late = slice(-(d.sizes["step"] // 2), None)
    return d.isel(pair=settings_of(d).pairs.index(pair), step=late)


def _quiet(values: xr.DataArray) -> np.ndarray:
    """Of every seed the value at η/B → 0, by the straight line through two B = n and 2n."""
    return (2.0 * values.isel(batch=1) - values.isel(batch=0)).values


def _catalan(k: Any) -> Any:
    """Cat_k."""
    return binom(2 * k, k) / (k + 1)


def _left(alpha: float, depth: int, dim: float) -> float:
    """The least loss of L layers where α > 1: its terms from Cat_L on, and the one in 1/D."""
    y, k = alpha / (1.0 + alpha) ** 2, np.arange(depth, 60)
    more = (4.0 * y) ** depth * (1.0 - binom(2 * depth, depth) / 4.0**depth) / (2.0 * dim)
    return alpha / (1.0 + alpha) * float(np.sum(_catalan(k) * y**k)) + more


def _second(alpha: Any, dim: int) -> Any:
    """𝓛_1 − 𝓛_2 at γ = Lα/(1+α), exactly, by the moments of XᵀX/P."""
    c, p = alpha / (1.0 + alpha), alpha * dim
    two = 1.0 + (dim + 1.0) / p
    three = 1.0 + 3.0 * (dim + 1.0) / p + (dim**2 + 3.0 * dim + 4.0) / p**2
    four = 1.0 + 6.0 * (dim + 1.0) / p + (6.0 * dim**2 + 17.0 * dim + 21.0) / p**2
    four = four + (dim**3 + 6.0 * dim**2 + 21.0 * dim + 20.0) / p**3
    return 2.0 * c - 5.0 * c**2 * two + 4.0 * c**3 * three - c**4 * four


SEEDS = "{:.1f} standard errors of Student's t over seeds"


@fig.claim("reported", "accounts: ISO training")
def one_layer(d):
    """One layer ends at 1/(1+α), at finite D at 1 − 1/(1 + (D+1)/P) (Γ trained on fresh contexts,
    mean over seeds and the last half of the runs, at η/B → 0; α = 1, D = {dim})."""
    mean, error = mean_of(_quiet(_ended(d, ONE).tokens_loss.mean("step")))
    told, most = 1.0 - 1.0 / (2.0 + 1.0 / settings_of(d).dim), beyond(d.sizes["run"])
    words = f"Standard error {error:.4f}; D → ∞: 0.5."
    return near(mean, told, most * error, because=SEEDS.format(most), note=words)


@fig.claim("reported", "accounts: ISO training, which may not be the paper's own", known="fails")
def one_layer_reported(d):
    """Some accounts: one layer ends at (1+α)^-2, where others have 1/(1+α) (Γ trained on fresh
    contexts; α = 1, D = {dim})."""
    mean, error = mean_of(_quiet(_ended(d, ONE).tokens_loss.mean("step")))
    words = (
        f"{ACCOUNTS} It is the loss of the same Γ on endless contexts, not on those of P tokens."
    )
    most = beyond(d.sizes["run"])
    return near(mean, 0.25, most * error, because=SEEDS.format(most), note=words)


@fig.claim("new", "derived")
def far(d):
    """What is (1+α)^-2 is |I − Γ|²/D, the loss of the same Γ on endless contexts, at finite D (1 −
    1/(1 + (D+1)/P))² (where training of one layer ends, at η/B → 0; α = 1, D = {dim})."""
    mean, error = mean_of(_quiet(_ended(d, ONE).far))
    left, most = 1.0 - 1.0 / (2.0 + 1.0 / settings_of(d).dim), beyond(d.sizes["run"])
    words = f"Standard error {error:.4f}; D → ∞: 0.25."
    return near(mean, left**2, most * error, because=SEEDS.format(most), note=words)


@fig.claim("check", "derived")
def on_contexts(d):
    """The matrix Γ on fresh contexts follows γ on drawn ones, D = {dim} (relative gap of its mean
    diagonal at η/B → 0, mean over seeds, from a tenth of a run, the largest by its tolerance)."""
    later = d.sel(step=d.step >= 0.1 * d.step[-1])
    ratio = (later.tokens_gamma / later.drawn_gamma).transpose("batch", "pair", "step", "run")
    mean, error = mean_of(_quiet(ratio))
    raw = float(abs(ratio.isel(batch=1).mean("run") - 1.0).max())
    most = beyond(d.sizes["run"], d.sizes["pair"])
    slack = most * error + 0.005 + raw**2
    worst = np.unravel_index(np.argmax(abs(mean - 1.0) / slack), slack.shape)
    because = f"{SEEDS.format(most)}; ½ % for the draw, and the square of what noise adds"
    words = f"At B = {d.batch.values[1]} the largest is {raw:.3f}, by the noise of SGD."
    return near((mean - 1.0)[worst], 0.0, slack[worst], because=because, note=words)


@fig.claim("reported", ABSTRACT)
def limited_context(d):
    """Where contexts are limited depth helps: four layers leave less than one, trained for as many
    steps (ratio of the losses of Γ on fresh contexts over the last half of the runs, upper end; α =
    1, D = {dim})."""
    four, one = (_ended(d, pair).tokens_loss[-1].mean("step").values for pair in (FOUR, ONE))
    mean, error = mean_of(np.log(four / one))
    most = beyond(d.sizes["run"])
    words = f"Ratio {math.exp(mean):.3f} within a factor {math.exp(error):.3f}; 0.547 if training "
    words += "were endless, D → ∞."
    because = f"from 1 on depth would not help; {SEEDS.format(most)} are in the ratio"
    return at_most(np.exp(mean + most * error), 1.0, because=because, note=words)


@fig.claim("new", "derived")
def gain_fades(d):
    """What a second layer takes off the loss, 𝓛_1 − 𝓛_2 = α²/(1+α)³, at finite D by the first four
    moments of XᵀX/P, is most at α = 2 and fades like 1/α in long contexts (drawn contexts over
    that, less 1, furthest in standard errors; α from ¼ to 64, D = {wide})."""
    here = d.sel(depth=2)
    told = _second(d.alpha, settings_of(d).wide)
    gap, error = here.fall / told - 1.0, here.fall_error / told
    far = int(np.argmax(abs(gap / error).values))
    words = "Gains " + ", ".join(f"{x:.4f}" for x in here.fall.values)
    because = "3.5 standard errors over contexts, of eight α"
    return near(gap[far], 0.0, 3.5 * error[far], because=because, note=words + ".")


@fig.claim("reported", ABSTRACT)
def endless_context(d):
    """With endless contexts depth gains nothing: 𝓛_1 − 𝓛_8 ends at 0 (drawn contexts at γ =
    Lα/(1+α), D = {wide}; the parabola in 1/α through α = 8, 16 and 64, at 1/α = 0)."""
    some = d.sel(alpha=[8.0, 16.0, 64.0], depth=8)
    x = 1.0 / some.alpha.values
    weights = np.asarray([math.prod(y / (y - one) for y in x if y != one) for one in x])
    found, error = weights @ some.fall.values, np.hypot.reduce(weights * some.fall_error.values)
    because = "the cubic term of x/(1+x), x = (D+1)/P, what one layer leaves; 3 standard errors"
    slack = math.prod(x) * (1.0 + 1.0 / settings_of(d).wide) ** 3 + 3.0 * error
    words = f"Γ = LI has no loss at any L; at α = 64 the gain is {float(some.fall[-1]):.4f}."
    return near(found, 0.0, slack, because=because, note=words)


@fig.claim("new", "derived")
def ratio_grows(d):
    """As a ratio depth gains the more the longer the context: 𝓛_L/𝓛_1 = α Σ Cat_k (α/(1+α)²)^k, k ≥
    L, which falls as α^(1−L) in the end (drawn contexts over that with its terms in 1/D, less 1,
    the furthest off by its tolerance; L = 2 and 4, α = 8, 16 and 64, D = {wide})."""
    rows: list[tuple[float, float]] = []
    over, error = d.best / d.best.sel(depth=1), d.best_error / d.best
    for alpha, depth in itertools.product((8.0, 16.0, 64.0), (2, 4)):
        told, limit = (
            _left(alpha, depth, dim) / _left(alpha, 1, dim)
            for dim in (settings_of(d).wide, math.inf)
        )
        noise = np.hypot(*error.sel(alpha=alpha, depth=[1, depth]).values)
        gap = float(over.sel(alpha=alpha, depth=depth)) / told - 1.0
        rows.append((gap, 3.5 * noise + (told / limit - 1.0) ** 2))
    gaps, slack = np.asarray(rows).T
    worst = int(np.argmax(abs(gaps) / slack))
    words = "; ".join(
        f"𝓛_{depth}/𝓛_1 = " + ", ".join(f"{x:.2g}" for x in over.sel(depth=depth).values)
        for depth in (2, 4)
    )
    because = "3.5 standard errors over contexts, of six numbers, those of 𝓛_L and 𝓛_1 as if they "
    because += "were of different ones; and the square of the term in 1/D"
    return near(gaps[worst], 0.0, slack[worst], because=because, note=words + " from α = ¼ on.")


FIGURE = fig
