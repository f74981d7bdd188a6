"""The loss against γ on isotropic contexts: its minimum, what noise does to it, and ridge."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np
import xarray as xr
from scipy.optimize import minimize_scalar
from scipy.special import binom

from ...compiling import jit
from ...numerics.roots import root_between
from ...reproduce import Figure, at_least, near, settings_of
from ...reproduce.panels import Panel, drawn, entry, level, line, theory, tokens, upright
from ...style import THEORY, TOKENS
from .. import Isotropic, LinearAttention, draw_spectra, edge, loss, optimum, ridge_loss, sample

LEAST: dict[str, Any] = {"marker": "v", "markersize": 5.0, "linestyle": ""}

fig = Figure(
    "deep_icl/iso-landscape",
    "Isotropic contexts: the loss against γ, its minimum, and noise",
    settings={
        "quick": {"depths": (1, 2, 4, 10), "many": (256, 24), "tokens": 1000},
        "default": {"depths": (1, 2, 4, 10, 16), "many": (512, 24)} | {"tokens": 2000},
        "full": {"depths": (1, 2, 4, 10, 16, 32), "many": (1024, 48)} | {"tokens": 40_000},
    },
    constants={"alphas": (0.5, 1.0, 1.25, 2.0), "quiet": 0.5, "dim": 32}
    | {"noisy": 1.125, "deep": 16, "noises": (0.0, 0.25, 0.5, 1.0), "noise": 0.5}
    | {"bounded": (0.5, 1.0, 2.0), "layers": (1, 2, 4, 8, 16, 32, 64)}
    | {"few": (64, 1000), "shallow": (1, 2, 4)},  # D and contexts that tell of 1/D, and L
    note=(
        "α and L of (a), (b) as reported, and of a third, α = 5/4 and L = 10, of which the minimum "
        "is judged; the noises, the depths and (c) are ours. At finite D "
        "the mean over contexts is ∫ρh + m/D with h the loss of an eigenvalue, m = [h(λ₋)+h(λ₊)]/4 "
        "− ½⟨h⟩ and ⟨·⟩ the mean under the arcsine law from λ₋ to λ₊: a known theorem on sample "
        "covariances of real data. Tokens are shown up to γ·edge/L = 1.5: the minimum without "
        "noise is at (1+√α)²/(1+α), at α = 1 the edge of stability, 2, and there a few contexts "
        "whose top eigenvalue is past it own the mean at small D. Queries' labels have no noise."
    ),
)


def _mode(step_size: Any, depth: int, penalty: float = 0.0) -> Callable[[Any], Any]:
    """h(λ): the loss of an eigenvalue, ``u^2L + (σ²/αλ)(1 − u^L)²`` with u = 1 − γλ/L."""

    def value(lam: Any) -> Any:
        left = (1.0 - step_size * lam) ** depth
        return left**2 + penalty / lam * (1.0 - left) ** 2

    return value


def _first_order(alpha: float, value: Callable[[Any], Any]) -> float:
    """Of a loss h the m of ``∫ρh + m/D``."""
    centre, radius = 1.0 + 1.0 / alpha, 2.0 / math.sqrt(alpha)
    inside = centre + radius * np.cos((np.arange(400) + 0.5) * math.pi / 400)
    ends = value(centre - radius * (1.0 - 1e-12)) + value(centre + radius)
    return float(ends / 4.0 - np.mean(value(inside)) / 2.0)


def _lowest(s: np.ndarray, depth: int, penalty: float = 0.0) -> tuple[float, np.ndarray]:
    """γ/L where the mean over contexts with eigenvalues s is least, and how each one moves it."""

    def slopes(c: float) -> np.ndarray:
        u = 1.0 - c * s
        return np.mean(u ** (depth - 1) * (penalty * (1.0 - u**depth) - s * u**depth), axis=1)

    most = 3.0 / float(s.max())
    found = root_between(lambda c: float(slopes(c).mean()), 0.0, most)
    rise = (slopes(1.001 * found).mean() - slopes(0.999 * found).mean()) / (0.002 * found)
    return found, slopes(found) / rise


def _error(values: Any) -> float:
    """The standard error of a mean."""
    return float(np.std(values, ddof=1) / math.sqrt(np.size(values)))


def _eigenvalues(alpha: float, dim: int, contexts: int, seed: int) -> np.ndarray:
    """Of drawn contexts; where α < 1 those that are 0 are rounded."""
    found = draw_spectra(Isotropic(alpha, dim=dim), contexts, seed=seed).eigenvalues
    return np.maximum(found, 1e-12)


def _places(alpha: float, most: float, count: int) -> np.ndarray:
    """γ/L up to where γ·edge/L is `most`."""
    return np.linspace(0.0, most / float(edge(Isotropic(alpha))), count + 1)[1:]


@fig.data
def curves(settings: Any) -> xr.Dataset:
    """The integrals of (a) and (b), up to beyond the edge of stability."""
    alphas, depths, noises = (settings.quiet, settings.noisy), settings.depths, settings.noises
    quiet, noisy = (_places(alpha, 2.1, 160) for alpha in alphas)
    first = loss(Isotropic(alphas[0]), step_size=quiet, depth=list(depths))
    tasks = [Isotropic(alphas[1], noise) for noise in noises]
    second = [np.asarray(loss(task, step_size=noisy, depth=settings.deep)) for task in tasks]
    found = {"quiet_loss": (("load", "depth"), np.asarray(first))}
    found["noisy_loss"] = (("noise", "load"), np.asarray(second))
    rows = xr.Dataset(found, coords={"depth": list(depths), "noise": list(noises)})
    return rows.assign(quiet_place=("load", quiet), noisy_place=("load", noisy))


@fig.data
def minima(settings: Any) -> xr.Dataset:
    """Minima over drawn contexts of a large D, and of a small one, and their loss where the closed
    form has them."""
    parts: list[xr.Dataset] = []
    alphas, names = list(settings.alphas), ("low", "low_error", "mean", "mean_error", "told")
    for (dim, count), depths in (
        (settings.many, settings.depths),
        (settings.few, settings.shallow),
    ):
        rows = []
        for alpha in alphas:
            s, best = _eigenvalues(alpha, dim, count, settings.seed), alpha / (1.0 + alpha)
            for depth in depths:
                (low, pull), each = _lowest(s, depth), _mode(best, depth)(s).mean(axis=1)
                told = float(optimum(Isotropic(alpha), depth).loss)
                rows.append((low / best, _error(pull) / best, each.mean(), _error(each), told))
        table = np.reshape(rows, (len(alphas), len(depths), -1))
        found = {n: (("alpha", "depth"), table[..., k]) for k, n in enumerate(names)}
        parts.append(xr.Dataset(found, {"alpha": alphas, "depth": list(depths)}))
    dims = xr.IndexVariable("dim", [settings.many[0], settings.few[0]])
    joined: Any = xr.concat(parts, dims, join="outer")
    return joined


@fig.data
def noisy_minima(settings: Any) -> xr.Dataset:
    """Minima with noise: of many layers at a large D, and of one layer at a small one."""
    alpha, noises = settings.noisy, settings.noises
    sizes = (settings.many, settings.few)
    many, few = (_eigenvalues(alpha, dim, count, settings.seed) for dim, count in sizes)
    lows = [_lowest(many, settings.deep, x**2 / alpha) for x in noises]
    ones = [_lowest(few, 1, x**2 / alpha) for x in noises]
    least = [float(optimum(Isotropic(alpha, x), settings.deep).loss) for x in noises]
    found: dict[str, Any] = {"noisy_low": ("noise", [low for low, _ in lows])}
    found["noisy_least"] = ("noise", least)
    found["one"] = ("noise", [low for low, _ in ones])
    found["one_error"] = ("noise", [_error(pull) for _, pull in ones])
    moves = [_error(b - a) for (_, a), (_, b) in itertools.pairwise(lows)]
    return xr.Dataset(found | {"move_error": ("move", moves)})


@jit(filtered=True)
def _squares(gamma: Any, x: Any, y: Any, labelled: int, depth: int) -> jax.Array:
    """The mean squared error at the queries of every context, by attention on tokens."""
    eye = jnp.eye(x.shape[-1], dtype=x.dtype)
    model = LinearAttention.aligned(gamma * eye, dim=x.shape[-1], depth=depth)
    guess = jax.vmap(model)(x, y[:, :labelled])
    return jnp.mean((guess - y[:, labelled:]) ** 2, axis=1)


@fig.data
def attention(settings: Any) -> xr.Dataset:
    """Attention on tokens with noise, beside the integral and its m/D."""
    alpha, dim, deep, rows = settings.noisy, settings.dim, settings.deep, []
    places, noises = _places(alpha, 1.5, 3), settings.noises[1:]
    for noise in noises:
        task = Isotropic(alpha, noise, dim=dim, queries=dim)
        data, labelled = sample(task, settings.tokens, seed=settings.seed), task.context or 1
        limit = np.asarray(loss(Isotropic(alpha, noise), step_size=places, depth=deep))
        for c, value in zip(places.tolist(), limit, strict=True):
            each = np.asarray(_squares(jnp.asarray(c * deep), data.x, data.y, labelled, deep))
            more = _first_order(alpha, _mode(c, deep, noise**2 / alpha)) / dim
            rows.append((each.mean(), _error(each), value + more))
    table = np.reshape(rows, (len(noises), -1, 3))
    names = ("token_loss", "token_error", "token_told")
    found = {n: (("sigma", "token"), table[..., k]) for k, n in enumerate(names)}
    return xr.Dataset(found, coords={"sigma": list(noises), "token": places})


@fig.data
def bound(settings: Any) -> xr.Dataset:
    """With noise: the least loss of L layers, and it over ridge, drawn and told."""
    layers, (dim, count), parts = [*settings.layers, math.inf], settings.many, []
    for alpha in settings.bounded:
        task, penalty = Isotropic(alpha, settings.noise), settings.noise**2 / alpha
        s, best = _eigenvalues(alpha, dim, count, settings.seed + 2), optimum(task, layers)
        told, pairs = float(ridge_loss(task)), list(zip(layers, best.gamma, strict=True))
        rows = [_over_ridge(s, depth, float(gamma), penalty) for depth, gamma in pairs]
        first = [_first_order(alpha, _stopped(x, n, penalty)) for n, x in pairs]
        ridge = told + _first_order(alpha, lambda lam, r=penalty: r / (lam + r)) / dim
        data: dict[str, Any] = {"least": ("layers", np.asarray(best.loss)), "ridge_told": told}
        data["over_told"] = ("layers", (np.asarray(best.loss) + np.asarray(first) / dim) / ridge)
        data |= {"over": ("layers", [x for x, _ in rows])}
        data |= {"over_error": ("layers", [x for _, x in rows])}
        parts.append(xr.Dataset(data, coords={"layers": layers}))
    joined: Any = xr.concat(parts, xr.IndexVariable("bounded", list(settings.bounded)))
    return joined


def _over_ridge(s: np.ndarray, depth: float, near_by: float, penalty: float) -> tuple[float, float]:
    """The least mean loss of L layers over that of ridge in contexts with eigenvalues s."""

    def mean(gamma: float) -> float:
        return float(_stopped(gamma, depth, penalty)(s).mean())

    ends, ridge = (0.5 * near_by, 1.5 * near_by), (penalty / (s + penalty)).mean(axis=1)
    best: Any = minimize_scalar(mean, bounds=ends, method="bounded")
    each = _stopped(best.x, depth, penalty)(s).mean(axis=1)
    ratio = float(each.mean() / ridge.mean())
    return ratio, _error(each - ratio * ridge) / float(ridge.mean())


def _stopped(gamma: Any, depth: float, penalty: float) -> Callable[[Any], Any]:
    """`_mode` of γ, at endless depth as well."""
    if math.isfinite(depth):
        return _mode(gamma / depth, int(depth), penalty)
    return lambda lam: np.exp(-2.0 * gamma * lam) + penalty / lam * np.expm1(-gamma * lam) ** 2


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """𝓛 against γ/L for depths and for noises, and the least 𝓛 with noise."""
    settings, grey = settings_of(d), {"color": "0.3"}
    share = settings.quiet / (1.0 + settings.quiet)
    quiet = [upright(share, label=r"$\gamma/L = \alpha/(1+\alpha)$")]
    noisy = [upright(settings.noisy / (1.0 + settings.noisy), label=r"$\alpha/(1+\alpha)$")]
    for k, n in enumerate(settings.depths):
        here = d.sel(depth=n, alpha=settings.quiet, dim=settings.many[0])
        quiet.append(theory(d.quiet_place, here.quiet_loss, f"$L = {n}$", k))
        quiet.append(line([share * here.low], [here["mean"]], k=k, **LEAST))
    quiet.append(entry(f"drawn, $D = {settings.many[0]}$", **grey, **LEAST))
    for k, sigma in enumerate(settings.noises):
        here = d.sel(noise=sigma)
        noisy.append(theory(d.noisy_place, here.noisy_loss, rf"$\sigma = {sigma:g}$", k))
        noisy.append(line([here.noisy_low], [here.noisy_least], k=k, **LEAST))
        if sigma:
            noisy.append(tokens(d.token, d.token_loss.sel(sigma=sigma), k=k))
    noisy.append(entry(f"attention on tokens, $D = {settings.dim}$", **grey, **TOKENS))
    bounded = []
    for k, at in enumerate(settings.bounded):
        here, look = d.sel(bounded=at), {"marker": "o", "markersize": 3.5}
        some = here.sel(layers=list(settings.layers))
        bounded.append(line(some.layers, some.least, rf"$\alpha = {at:g}$", k, **look))
        bounded.append(level(float(here.ridge_told), **(THEORY | {"color": f"C{k}"})))
    bounded.append(entry("ridge", **grey, **THEORY))

    def octaves(axes: Any) -> None:
        axes.set_xticks(settings.layers, [str(n) for n in settings.layers])
        axes.minorticks_off()
        axes.legend(fontsize=7.0, loc="lower center", ncols=4, columnspacing=1.0)

    noise = rf"$\sigma = {settings.noise}$"
    titles = (
        rf"$\alpha = {settings.quiet}$, no noise",
        rf"$\alpha = {settings.noisy}$, $L = {settings.deep}$",
    )
    name, place, least = r"$\mathcal{L}$", r"$\gamma/L$", r"$\min_\gamma\,\mathcal{L}$"
    small: dict[str, Any] = {"legend": 7.0}
    low: dict[str, Any] = {"log": "y", "ylim": (0.04, 2.0), "where": "lower left", **small}
    return drawn(
        Panel(place, name, quiet, title=titles[0], where=(0.44, 0.54), **small),
        Panel(place, name, noisy, title=titles[1], **low),
        Panel(
            "$L$", least, bounded, title=noise, log="x", ylim=(0.0, 0.8), more=[octaves], legend=0
        ),
    )


def _worst(gap: xr.DataArray, error: xr.DataArray) -> tuple[float, float]:
    """The gap that is the most standard errors, and its error."""
    k = int(np.argmax(abs(gap / error).values))
    return float(gap.values.flat[k]), float(error.values.flat[k])


def _share(d: xr.Dataset) -> xr.DataArray:
    """binom(2L, L)/4^L."""
    return xr.DataArray(binom(2 * d.depth, d.depth) / 4.0**d.depth, coords={"depth": d.depth})


def _furthest(gap: xr.DataArray, slack: xr.DataArray) -> tuple[float, float]:
    """The gap that is the most of its tolerance, and this; of a small D there are few depths."""
    k = int(np.nanargmax(abs(gap / slack).values))
    return float(gap.values.flat[k]), float(slack.values.flat[k])


MANY = "4 standard errors over contexts, of four α, and the square of the term in 1/D"
PAST = "Deeper, contexts past the edge of stability own the mean at the smaller D."


@fig.claim("new", "derived")
def minimum(d):
    """Without noise 𝓛 is least at γ/L = α/(1+α) at every depth, at finite D at 1 −
    (4^L/binom(2L,L) − 1)/((1+α)D) times that (minimum over drawn contexts, its relative gap, the
    furthest by its tolerance; D = {many[0]}, and {few[0]} with L = 1, 2, 4; α = ½, 1, 5/4, 2)."""
    shift = (1.0 / _share(d) - 1.0) / ((1.0 + d.alpha) * d.dim)
    slack = 4.0 * d.low_error + shift**2
    gap, most = _furthest(d.low - 1.0 + shift, slack)
    without = float(abs((d.low - 1.0) / slack).max())
    words = f"Without the term in 1/D it would be {without:.1f} times its tolerance off. {PAST}"
    return near(gap, 0.0, most, because=MANY, note=words)


@fig.claim("new", "derived")
def closed_form(d):
    """There it is 1 − α/(1+α) Σ Cat_k (α/(1+α)²)^k, k < L, or binom(2L,L)/4^L at α = 1, and at
    finite D (4α/(1+α)²)^L (1 − binom(2L,L)/4^L)/(2D) more (mean over drawn contexts, its relative
    gap, the furthest by its tolerance; D = {many[0]}, and {few[0]} with L = 1, 2, 4; α = ½, 1, 5/4,
    2)."""
    more = (4.0 * d.alpha / (1.0 + d.alpha) ** 2) ** d.depth * (1.0 - _share(d)) / (2.0 * d.dim)
    slack = 4.0 * d.mean_error / d.told + (more / d.told) ** 2
    gap, most = _furthest(d["mean"] / (d.told + more) - 1.0, slack)
    without = float(abs((d["mean"] / d.told - 1.0) / slack).max())
    words = f"Without the term in 1/D it would be {without:.1f} times its tolerance off. {PAST}"
    return near(gap, 0.0, most, because=MANY, note=words)


@fig.claim("reported", "accounts: ISO, large D")
def formula(d):
    """𝓛(γ) = ∫ρ[(1−γλ/L)^2L + (σ²/αλ)(1−(1−γλ/L)^L)²] with ρ of Marchenko and Pastur (attention on
    tokens at D = {dim} over that and m/D, less 1, furthest in standard errors; α = {noisy:g},
    L = {deep}, three σ)."""
    gap, error = _worst(d.token_loss / d.token_told - 1.0, d.token_error / d.token_told)
    because = "4 standard errors, of 9 numbers, and 2/D² for the next order"
    return near(gap, 0.0, 4.0 * error + 2.0 / settings_of(d).dim ** 2, because=because)


@fig.claim("reported", "accounts: one layer with noise")
def noisy_minimum(d):
    """With noise the minimum of one layer is at γ = α/(1+α+σ²), at finite D at 1/(1 + (D+1)/P +
    σ²D/P) (minimum over drawn contexts over that, less 1, furthest in standard errors; D =
    {few[0]}, α = {noisy:g}, four σ)."""
    settings = settings_of(d)
    plain = 1.0 / (1.0 + (1.0 + d.noise**2) / settings.noisy)
    told = 1.0 / (1.0 / plain + 1.0 / (settings.few[0] * settings.noisy))
    gap, error = _worst(d.one / told - 1.0, d.one_error / told)
    least = float(abs((d.one - plain) / d.one_error).min())
    words = f"The place at endless D is {least:.1f} standard errors off, or more."
    return near(gap, 0.0, 3.5 * error, because="3.5 standard errors over contexts", note=words)


@fig.claim("new", "derived")
def noise_moves_it(d):
    """At L = {deep}, too, it moves to the left, the more the larger σ (smallest move of γ/L from a
    σ to the next over drawn contexts, 3 standard errors taken off; D = {many[0]})."""
    words = "γ/L = " + ", ".join(f"{x:.3f}" for x in d.noisy_low.values) + "."
    least = (-np.diff(d.noisy_low) - 3.0 * d.move_error).min()
    return at_least(least, 0.0, because="below 0 it would not", note=words)


@fig.claim("check", "derived: ridge is the best there is for Gaussian tasks")
def ridge_bound(d):
    """With noise no depth reaches ridge: stopped at its best, the best of L from 1 to ∞ leaves more
    by what the integrals with their m/D say (ratio in drawn contexts, the furthest of three α by
    its tolerance; σ = {noise:g}, D = {many[0]})."""
    place = d.over.argmin("layers")
    ratio, error, told = (d[x].isel(layers=place) for x in ("over", "over_error", "over_told"))
    slack = 3.5 * error + 4.0 / settings_of(d).many[0] ** 2
    far = int(np.argmax((abs(ratio - told) / slack).values))
    rows = zip(ratio.values, told.values, d.bounded.values, d.layers[place].values, strict=True)
    words = "; ".join(f"{x:.4f}, told {y:.4f} (α = {a:g}, L = {n:g})" for x, y, a, n in rows)
    because = "3.5 standard errors over contexts, of three, and 4/D² for the next order; below 1 "
    because += "ridge would be beaten"
    return near(ratio[far], told[far], slack[far], because=because, note=words + ".")


FIGURE = fig
