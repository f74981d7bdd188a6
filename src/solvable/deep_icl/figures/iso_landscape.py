"""The loss against γ on isotropic contexts: its minimum, finite size, noise, and ridge."""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np
import xarray as xr
from scipy.optimize import brentq
from scipy.special import binom

from ...compiling import jit
from ...reproduce import Figure, at_least, near, settings_of
from ...reproduce.panels import Panel, drawn, entry, level, line, theory, tokens, training, upright
from ...style import THEORY, TOKENS, TRAINING
from .. import Isotropic, LinearAttention, draw_spectra, edge, loss, optimum, ridge_loss, sample

fig = Figure(
    "deep_icl/iso-landscape",
    "Isotropic contexts: the loss against γ, its minimum, finite size, and noise",
    settings={
        "quick": {"depths": (1, 2, 4, 16), "many": (256, 24), "contexts": 500, "tokens": 500}
        | {"sizes": {"16": 8000, "64": 500}},
        "default": {"depths": (1, 2, 4, 8, 16), "many": (512, 24), "contexts": 2000}
        | {"tokens": 2000, "sizes": {"16": 32_000, "32": 8000, "64": 2000}},
        "full": {"depths": (1, 2, 4, 8, 16, 32), "many": (1024, 200), "contexts": 20_000}
        | {"tokens": 40_000, "sizes": {"16": 200_000, "32": 100_000, "64": 40_000, "128": 20_000}},
    },
    constants={"alphas": (0.5, 1.0, 1.25, 2.0), "quiet": 0.5, "single": (1.25, 10), "dim": 32}
    | {"noisy": 1.125, "deep": 16, "noises": (0.0, 0.25, 0.5, 1.0), "noise": 0.5}
    | {"bounded": (0.5, 1.0, 2.0), "layers": (1, 2, 4, 8, 16, 32, 64), "safe": 1.5},
    note=(
        "α and L of (a) to (c) as reported; the noises, the depths and (d) are ours. Drawn "
        "contexts and tokens are shown where γ·edge/L is at most 1.5: beyond, their mean at such D "
        "is that of a few contexts whose largest eigenvalue is past the edge of stability, at 2; "
        "the minimum without noise is at (1+√α)²/(1+α), which is 2 at α = 1. The mean of contexts "
        "at finite D is ∫ρh + m/D, m = [h(λ₋)+h(λ₊)]/4 − ½⟨h⟩, with h the loss of an eigenvalue "
        "and ⟨·⟩ the mean under the arcsine law from λ₋ to λ₊: a known theorem on sample "
        "covariances of real data. Labels of queries have no noise."
    ),
)


def _mode(step_size: Any, depth: int, penalty: float = 0.0) -> Callable[[Any], Any]:
    """h(λ): the loss of an eigenvalue, ``u^2L + (σ²/αλ)(1 − u^L)²`` with u = 1 − γλ/L."""

    def value(lam: Any) -> Any:
        left = (1.0 - step_size * lam) ** depth
        return left**2 + penalty / lam * (1.0 - left) ** 2

    return value


def _first_order(alpha: float, value: Callable[[Any], Any]) -> float:
    """Of a loss h the m of ∫ρh + m/D."""
    centre, radius = 1.0 + 1.0 / alpha, 2.0 / np.sqrt(alpha)
    inside = centre + radius * np.cos((np.arange(400) + 0.5) * np.pi / 400)
    ends = value(centre - radius * (1.0 - 1e-12)) + value(centre + radius)
    return float(ends / 4.0 - np.mean(value(inside)) / 2.0)


def _lowest(s: np.ndarray, depth: int, penalty: float = 0.0) -> tuple[float, np.ndarray]:
    """γ/L at which the mean over contexts with eigenvalues s is least, and each one's pull on it."""

    def slopes(c: float) -> np.ndarray:
        u = 1.0 - c * s
        return np.mean(u ** (depth - 1) * (penalty * (1.0 - u**depth) - s * u**depth), axis=1)

    most = 3.0 / float(s.max())
    found = float(np.asarray(brentq(lambda c: slopes(c).mean(), 0.0, most, xtol=1e-13)))
    rise = (slopes(1.001 * found).mean() - slopes(0.999 * found).mean()) / (0.002 * found)
    return found, slopes(found) / rise


def _error(values: np.ndarray) -> float:
    """The standard error of a mean over the last axis."""
    return float(values.std(ddof=1) / np.sqrt(values.size))


def _eigenvalues(alpha: float, dim: int, contexts: int, seed: int) -> np.ndarray:
    """Of drawn contexts; where α < 1 those that are 0 are rounded."""
    found = draw_spectra(Isotropic(alpha, dim=dim), contexts, seed=seed).eigenvalues
    return np.maximum(found, 1e-12)


def _safe(alpha: float, settings: Any) -> np.ndarray:
    """γ/L at which the mean over contexts can be measured."""
    return np.linspace(0.0, settings.safe / float(edge(Isotropic(alpha))), 13)[1:]


@fig.data
def curves(settings: Any) -> xr.Dataset:
    """The integrals of (a) to (c), up to beyond the edge of stability."""
    load, (single, depth) = np.linspace(0.0, 2.1, 160), settings.single

    def at(alpha: float, noise: float, depth: Any) -> np.ndarray:
        task = Isotropic(alpha, noise)
        return np.asarray(loss(task, step_size=load / float(edge(task)), depth=depth))

    noisy = [at(settings.noisy, x, settings.deep) for x in settings.noises]
    found: dict[str, Any] = {"noisy_loss": (("noise", "load"), np.stack(noisy))}
    found["quiet_loss"] = (("load", "depth"), at(settings.quiet, 0.0, list(settings.depths)))
    found["single_loss"] = ("load", at(single, 0.0, depth))
    for name, alpha in {"quiet": settings.quiet, "noisy": settings.noisy, "single": single}.items():
        found[f"{name}_place"] = ("load", load / float(edge(Isotropic(alpha))))
    best = [optimum(Isotropic(settings.noisy, x), settings.deep) for x in settings.noises]
    found["best"] = ("noise", [float(x.gamma) / settings.deep for x in best])
    found["best_loss"] = ("noise", [float(x.loss) for x in best])
    coords = {"load": load, "depth": list(settings.depths), "noise": list(settings.noises)}
    return xr.Dataset(found, coords=coords)


@fig.data
def minima(settings: Any) -> xr.Dataset:
    """Minima over drawn contexts of a large D, and their loss where the closed form has them."""
    (dim, contexts), depths = settings.many, settings.depths
    rows: dict[str, list[float]] = {"low": [], "low_error": [], "mean": [], "mean_error": []}
    rows["told"] = []
    for alpha in settings.alphas:
        s, best = _eigenvalues(alpha, dim, contexts, settings.seed), alpha / (1.0 + alpha)
        for depth in depths:
            each = _mode(best, depth)(s).mean(axis=1)
            low, pull = _lowest(s, depth)
            told = float(optimum(Isotropic(alpha), depth).loss)
            found = low / best, _error(pull) / best, each.mean(), _error(each), told
            for row, value in zip(rows.values(), found, strict=True):
                row.append(float(value))
    shape = len(settings.alphas), len(depths)
    found = {name: (("alpha", "depth"), np.reshape(row, shape)) for name, row in rows.items()}
    s = _eigenvalues(settings.noisy, dim, contexts, settings.seed)
    penalties = [x**2 / settings.noisy for x in settings.noises]
    places, pulls = zip(*(_lowest(s, settings.deep, x) for x in penalties), strict=True)
    found["noisy_low"] = ("noise", np.asarray(places))
    found["move_error"] = ("move", [_error(b - a) for a, b in itertools.pairwise(pulls)])
    return xr.Dataset(found, coords={"alpha": list(settings.alphas), "depth": list(depths)})


@fig.data
def contexts(settings: Any) -> xr.Dataset:
    """Drawn contexts at the dimension of tokens: the curves, and minima with noise."""
    dim, count, deep, seed = settings.dim, settings.contexts, settings.deep, settings.seed
    quiet = _eigenvalues(settings.quiet, dim, count, seed)
    noisy = _eigenvalues(settings.noisy, dim, count, seed)
    penalties = [x**2 / settings.noisy for x in settings.noises]
    places, safe = (_safe(alpha, settings) for alpha in (settings.quiet, settings.noisy))
    first = [[_mode(c, n)(quiet).mean() for n in settings.depths] for c in places]
    second = [[_mode(c, deep, x)(noisy).mean() for c in safe] for x in penalties]
    found = {"quiet_drawn": (("safe", "depth"), first), "noisy_drawn": (("noise", "safe"), second)}
    return xr.Dataset(found).assign(quiet_safe=("safe", places), noisy_safe=("safe", safe))


@fig.data
def sizes(settings: Any) -> xr.Dataset:
    """(c): the mean over drawn contexts at several D, and the first order in 1/D."""
    alpha, depth = settings.single
    places, means, errors = _safe(alpha, settings), [], []
    for dim, count in settings.sizes.items():
        s = _eigenvalues(alpha, int(dim), count, settings.seed + 1)
        each = [_mode(c, depth)(s).mean(axis=1) for c in places]
        means.append([x.mean() for x in each])
        errors.append([_error(x) for x in each])
    found: dict[str, Any] = {"size_mean": (("dim", "safe"), means)}
    found["size_error"] = (("dim", "safe"), errors)
    limit = loss(Isotropic(alpha), step_size=places, depth=depth)
    found |= {"size_safe": ("safe", places), "size_limit": ("safe", np.asarray(limit))}
    found["first_order"] = ("safe", [_first_order(alpha, _mode(c, depth)) for c in places])
    return xr.Dataset(found, coords={"dim": [int(dim) for dim in settings.sizes]})


@jit(filtered=True)
def _squares(gamma: Any, x: Any, y: Any, labelled: int, depth: int) -> jax.Array:
    """The mean squared error at the queries of every context, by attention on tokens."""
    eye = jnp.eye(x.shape[-1], dtype=x.dtype)
    model = LinearAttention.aligned(gamma * eye, dim=x.shape[-1], depth=depth)
    guess = jax.vmap(model)(x, y[:, :labelled])
    return jnp.mean((guess - y[:, labelled:]) ** 2, axis=1)


@fig.data
def attention(settings: Any) -> xr.Dataset:
    """On tokens with noise: attention of many layers and of one, and ridge regression."""
    alpha, dim, deep, seed = settings.noisy, settings.dim, settings.deep, settings.seed
    found: dict[str, list[Any]] = {name: [] for name in ("token_loss", "token_error", "token_told")}
    one, ridge, places = [], [], _safe(alpha, settings)[3::4]
    for noise in settings.noises[1:]:
        task, penalty = Isotropic(alpha, noise, dim=dim, queries=dim), noise**2 / alpha
        data, labelled = sample(task, settings.tokens, seed=seed), task.context or 1
        each = [_squares(jnp.asarray(c * deep), data.x, data.y, labelled, deep) for c in places]
        told = np.asarray(loss(Isotropic(alpha, noise), step_size=places, depth=deep))
        finite = [_first_order(alpha, _mode(c, deep, penalty)) / dim for c in places]
        found["token_loss"].append(np.mean(each, axis=1))
        found["token_error"].append([_error(np.asarray(x)) for x in each])
        found["token_told"].append(told + finite)
        x, y = np.asarray(data.x), np.asarray(data.y)
        seen, asked = x[:, :labelled], x[:, labelled:]
        u = np.einsum("cpd,cp->cd", seen, y[:, :labelled]) / labelled
        # The best multiple of what one layer says, by least squares on the queries' labels.
        said, wanted = np.einsum("ckd,cd->ck", asked, u), y[:, labelled:]
        top, bottom = (said * wanted).mean(axis=1), (said**2).mean(axis=1)
        slope = top.mean() / bottom.mean()
        one.append((slope, _error(top - slope * bottom) / bottom.mean()))
        moment = np.swapaxes(seen, 1, 2) @ seen / labelled + penalty * np.eye(dim)
        miss = np.asarray(data.b) - np.linalg.solve(moment, u[:, :, None])[:, :, 0]
        square = np.sum(miss**2, axis=1)
        least = _first_order(alpha, lambda lam, r=penalty: r / (lam + r)) / dim
        least += float(ridge_loss(Isotropic(alpha, noise)))
        ridge.append((square.mean(), _error(square), least))
    rows = {name: (("strength", "token_place"), np.asarray(x)) for name, x in found.items()}
    words = ("one", "one_error"), ("ridge", "ridge_error", "ridge_told")
    for names, values in zip(words, (one, ridge), strict=True):
        rows |= {n: ("strength", x) for n, x in zip(names, np.transpose(values), strict=True)}
    return xr.Dataset(rows, {"strength": list(settings.noises[1:]), "token_place": places})


@fig.data
def bound(settings: Any) -> xr.Dataset:
    """With noise: the least loss of L layers and that of ridge, by theory and on drawn contexts."""
    noise, layers, rows = settings.noise, list(settings.layers), []
    for alpha in settings.bounded:
        task, penalty = Isotropic(alpha, noise), noise**2 / alpha
        s = _eigenvalues(alpha, settings.dim, settings.contexts, settings.seed + 2)
        ridge = np.mean(penalty / (s + penalty))
        least = [_mode(_lowest(s, n, penalty)[0], n, penalty)(s).mean() for n in layers]
        best = {"least": ("layers", np.asarray(optimum(task, layers).loss))}
        best |= {"least_drawn": ("layers", least), "ridge_drawn": float(ridge)}
        rows.append(xr.Dataset(best).assign(ridge_limit=float(ridge_loss(task))))
    joined = xr.concat(rows, xr.IndexVariable("bounded", list(settings.bounded)))
    return joined.assign_coords(layers=layers)


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """𝓛 against γ/L for depths, for D and for noises; the least 𝓛 with noise against depth."""
    settings, panels = settings_of(d), []
    alpha, depth = settings.single
    quiet, noisy, single, stopped = [], [], [], []
    for k, n in enumerate(settings.depths):
        here = d.sel(depth=n)
        quiet.append(theory(d.quiet_place, here.quiet_loss, f"$L = {n}$", k))
        quiet.append(training(d.quiet_safe, here.quiet_drawn, k=k))
    for k, sigma in enumerate(settings.noises):
        here = d.sel(noise=sigma)
        noisy.append(theory(d.noisy_place, here.noisy_loss, rf"$\sigma = {sigma:g}$", k))
        noisy.append(training(d.noisy_safe, here.noisy_drawn, k=k))
        noisy.append(line([here.best], [here.best_loss], k=k, marker="v", linestyle=""))
        if sigma:
            noisy.append(tokens(d.token_place, d.token_loss.sel(strength=sigma), k=k))
    for k, dim in enumerate(d.dim.values):
        here = d.sel(dim=dim)
        single.append(training(d.size_safe, here.size_mean, f"$D = {dim}$", k))
        single.append(theory(d.size_safe, d.size_limit + d.first_order / dim, k=k, linestyle=":"))
    single.append(theory(d.single_place, d.single_loss, r"$D = \infty$", 6))
    for k, at in enumerate(settings.bounded):
        here, look = d.sel(bounded=at), {"marker": "o", "markersize": 3.5}
        stopped.append(line(d.layers, here.least, rf"$\alpha = {at:g}$", k, **look))
        stopped.append(level(float(here.ridge_limit), color=f"C{k}", **THEORY))
    grey = {"color": "0.3"}
    quiet.append(entry(f"drawn, $D = {settings.dim}$", **grey, **TRAINING))
    noisy.append(entry("attention on tokens", **grey, **TOKENS))
    noisy.append(entry("least", marker="v", linestyle="", **grey))
    single.append(
        entry(r"$\infty$ and first order in $1/D$", **(grey | THEORY | {"linestyle": ":"}))
    )
    stopped.append(entry("ridge", **grey, **THEORY))
    places = (settings.quiet, settings.noisy, alpha)
    titles = (
        rf"$\alpha = {settings.quiet:g}$, no noise",
        rf"$\alpha = {settings.noisy:g}$, $L = {settings.deep}$",
        rf"$\alpha = {alpha:g}$, $L = {depth}$",
    )
    for marks, place, title in zip((quiet, noisy, single), places, titles, strict=True):
        marks.insert(0, upright(place / (1.0 + place)))
        panels.append(
            Panel(r"$\gamma/L$", r"$\mathcal{L}$", marks, title=title, legend=7.0, log="y")
        )
    words = r"$\min_\gamma\,\mathcal{L}$"
    title = rf"$\sigma = {settings.noise:g}$"
    panels.append(Panel("$L$", words, stopped, title=title, log="x", ylim=(0.0, 0.85), legend=7.0))
    return drawn(*panels, rows=2)


def _worst(gap: xr.DataArray, error: xr.DataArray) -> tuple[float, float]:
    """The gap that is the most standard errors, and its error."""
    k = int(np.argmax(abs(gap / error).values))
    return float(gap.values.flat[k]), float(error.values.flat[k])


def _share(d: xr.Dataset) -> xr.DataArray:
    """binom(2L, L)/4^L at the depths of the minima."""
    return xr.DataArray(binom(2 * d.depth, d.depth) / 4.0**d.depth, coords={"depth": d.depth})


MANY = "4 standard errors over contexts, of 4 lengths, and the second order in 1/D"


@fig.claim("new", "derived")
def minimum(d):
    """Without noise 𝓛 is least at γ/L = α/(1+α) at every depth, at finite D at
    [1 − (4^L/binom(2L,L) − 1)/((1+α)D)] times that (relative gap of the minimum over drawn
    contexts, the one furthest in standard errors, α = ½, 1, 5/4, 2)."""
    dim = settings_of(d).many[0]
    shift = (1.0 / _share(d) - 1.0) / ((1.0 + d.alpha) * dim)
    gap, error = _worst(d.low - 1.0 + shift, d.low_error)
    words = f"D = {dim}; without the shift the largest gap is {float(shift.max()):.4f}."
    return near(gap, 0.0, 4.0 * error + float(shift.max()) ** 2, because=MANY, note=words)


@fig.claim("new", "derived", word="closed-form")
def closed_form(d):
    """There it is 1 − α/(1+α) Σ Cat_k (α/(1+α)²)^k, k < L, which is binom(2L,L)/4^L at α = 1, and
    at finite D another (4α/(1+α)²)^L (1 − binom(2L,L)/4^L)/(2D) (relative gap of the mean over
    drawn contexts, the one furthest in standard errors, α = ½, 1, 5/4, 2)."""
    dim = settings_of(d).many[0]
    more = (4.0 * d.alpha / (1.0 + d.alpha) ** 2) ** d.depth * (1.0 - _share(d)) / (2.0 * dim)
    gap, error = _worst(d["mean"] / (d.told + more) - 1.0, d.mean_error / d.told)
    second = float((more / d.told).max()) ** 2
    words = f"D = {dim}; the term in 1/D is up to {float((more / d.told).max()):.3f} of the whole."
    return near(gap, 0.0, 4.0 * error + second, because=MANY, note=words)


@fig.claim("new", "derived, by a theorem on linear statistics of sample covariances")
def finite_size(d):
    """At finite D the mean over contexts is above the integral by m/D (D times the gap over m, α =
    5/4, L = 10, γ·edge/L = 1; the D furthest off in units of its tolerance)."""
    here = d.isel(safe=7)
    ratio, error = (
        (x * d.dim / here.first_order) for x in (here.size_mean - here.size_limit, here.size_error)
    )
    slack = 3.5 * error + 4.0 / d.dim
    k = int(np.argmax(abs((ratio - 1.0) / slack).values))
    words = "D = " + ", ".join(
        f"{n}: {float(x):.3f}" for n, x in zip(d.dim.values, ratio, strict=True)
    )
    because = "3.5 standard errors, and 4/D for the next order"
    return near(ratio[k], 1.0, slack[k], because=because, note=words + ".")


@fig.claim("reported", "accounts: ISO, large D")
def formula(d):
    """𝓛(γ) = ∫ρ[(1−γλ/L)^2L + (σ²/αλ)(1−(1−γλ/L)^L)²] with ρ of Marchenko and Pastur (attention on
    tokens at D = {dim} over that and m/D, less 1, furthest in standard errors; α = {noisy:g},
    L = {deep}, three σ)."""
    gap, error = _worst(d.token_loss / d.token_told - 1.0, d.token_error / d.token_told)
    because = "4 standard errors, of 9 numbers, and 2/D² for the next order"
    return near(gap, 0.0, 4.0 * error + 2.0 / settings_of(d).dim ** 2, because=because)


@fig.claim("reported", "accounts: one layer with noise", word="noisy-minimum")
def noisy_minimum(d):
    """With noise the minimum moves: at L = 1 to γ = α/(1+α+σ²), at finite D to
    1/(1 + (D+1)/P + σ²D/P) (least squares of the labels on what one layer says of tokens, over
    that, less 1, furthest in standard errors; D = {dim}, α = {noisy:g}, three σ)."""
    settings = settings_of(d)
    told = 1.0 / (1.0 + (1.0 + 1.0 / settings.dim + d.strength**2) / settings.noisy)
    gap, error = _worst(d.one / told - 1.0, d.one_error / told)
    limit = settings.noisy / (1.0 + settings.noisy + d.strength**2)
    words = f"D → ∞ is up to {float((limit / told - 1.0).max()):.4f} beyond."
    return near(gap, 0.0, 3.5 * error, because="3.5 standard errors over contexts", note=words)


@fig.claim("new", "derived", word="noise-moves-it")
def noise_moves_it(d):
    """At L = {deep} too it moves to the left, the more the larger σ (smallest move of γ/L from a σ
    to the next over drawn contexts, 3 standard errors taken off, D = {many[0]})."""
    moves = -np.diff(d.noisy_low.values)
    words = "γ/L = " + ", ".join(f"{x:.3f}" for x in d.noisy_low.values) + "; D → ∞ "
    words += ", ".join(f"{x:.3f}" for x in d.best.values) + "."
    because = "below 0 it would not move"
    return at_least((moves - 3.0 * d.move_error).min(), 0.0, because=because, note=words)


@fig.claim("check", "derived")
def ridge(d):
    """Ridge regression with r = σ²/α leaves (1−α)₊ + ∫ρ r/(λ+r) (on tokens at D = {dim}, over that
    and m/D, less 1, furthest in standard errors; α = {noisy:g}, three σ)."""
    gap, error = _worst(d.ridge / d.ridge_told - 1.0, d.ridge_error / d.ridge_told)
    because = "3.5 standard errors over contexts, and 2/D² for the next order"
    return near(gap, 0.0, 3.5 * error + 2.0 / settings_of(d).dim ** 2, because=because)


@fig.claim("new", "derived", word="ridge-bound")
def ridge_bound(d):
    """No depth beats it: with noise more layers come near, at most (least loss of L layers over
    that of ridge in the same drawn contexts, the smallest; L to 64, σ = {noise:g})."""
    ratio = d.least_drawn / d.ridge_drawn
    words = "D → ∞, the best of these L: " + ", ".join(
        f"{float(x):.4f} at α = {a:g}"
        for a, x in zip(d.bounded.values, (d.least / d.ridge_limit).min("layers"), strict=True)
    )
    because = "ridge at this r is the mean of the posterior"
    return at_least(ratio.min(), 1.0, because=because, note=words + ".")


FIGURE = fig
