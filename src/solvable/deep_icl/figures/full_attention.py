"""The weights of full attention: four numbers that make up γ, and tokens that train them."""

import math
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr
from numpy.polynomial import Chebyshev
from scipy.special import gamma as factorial
from scipy.special import zeta

from ...reproduce import Figure, near, settings_of, step, worst_ratio
from ...reproduce.panels import Panel, drawn, entry, law, line, theory, tokens, training
from ...style import THEORY, TOKENS, TRAINING
from .. import Init, Isotropic, RotatedStructure, Spectrum, draw_spectra
from ..model import train_brute
from ..reduced import train
from ..theory import loss_curve, optimum
from ._seeds import beyond, mean_of

KINDS = ("iso", "rrs")
SQUARES = {"x": "$w_x^2/2$", "q": "$w_q^2$", "k": "$w_k^2$", "v": "$w_v^2$"}

fig = Figure(
    "deep_icl/full-attention",
    "Training the weights of full linear attention",
    settings={  # D, P, contexts a step, L; by what η is divided
        "quick": {"iso": (8, 8, 32, (1, 4)), "rrs": (8, 24, 32, (4,)), "parts": (2, 4)}
        | {"steps": 70, "seeds": 6},
        "default": {"iso": (12, 12, 32, (1, 4)), "rrs": (12, 36, 32, (4,)), "parts": (2, 4)}
        | {"steps": 80, "seeds": 6},
        "full": {"iso": (128, 128, 1024, (1, 2, 4, 8)), "rrs": (80, 256, 512, (1, 2, 4, 8, 16))}
        | {"parts": (1, 2), "steps": 1000, "seeds": 4},
    },
    constants={"listed": {"iso": (0.4, 0.1), "rrs": (0.45, 0.125)}}  # w at the start, and η/√D
    | {"queries": 32, "rotated": (1.25, 1.2), "contexts": 20_000}  # ν and β; drawn
    | {"nu": 1.5, "beta": 0.8, "begin": 0.3, "many": 10**8}
    | {"layers": (4, 16, 64, 256), "uneven": (0.8, 0.4, 0.6, 0.5)},
    note=(
        "γ = w_x² w_q w_k w_v with all four trained, from balanced weights (√2 w, w, w, w); t is "
        "the time of these numbers, η/D a step. Listed runs: ISO D = P = 128, 1024 contexts a "
        "step, η = 0.1√D, w = 0.4; RRS ν = 1.25, β = 1.2, D = 80, P = 256, 512 contexts, "
        "η = 0.125√D, w = 0.45; 1000 steps, the full size. Else D and contexts are fewer, and "
        "steps shorter, as the noise of few contexts moves the weights. Solid lines descend the "
        "mean loss of drawn contexts, exact at this D; dashed ones are the flow at large D."
    ),
)


def _mean_loss(settings: Any, task: Any, depth: int) -> Chebyshev:
    """𝓛(γ) at this D, a polynomial: the mean over drawn contexts."""
    spectra = draw_spectra(task, settings.contexts, seed=settings.seed)
    ends = [0.0, 1.2 * float(optimum(task, depth).gamma)]
    return Chebyshev.interpolate(
        lambda gamma: spectra.loss(gamma=gamma, depth=depth).mean(axis=-1), 2 * depth, ends
    )


def _descended(curve: Chebyshev, w: float, times: np.ndarray, steps: int) -> np.ndarray:
    """γ = 2w⁵ of balanced weights at some times, w ← w − 2w⁴𝓛'(γ)η."""
    pace, slope, gammas = times[-1] / steps, curve.deriv(), [2.0 * w**5]
    for _ in range(steps):
        w -= 2.0 * pace * w**4 * float(slope(gammas[-1]))
        gammas.append(2.0 * w**5)
    return np.asarray(gammas)[np.rint(times / pace).astype(int)]


@fig.data
def paths(settings: Any) -> xr.Dataset:
    """Tokens, and balanced weights, from the same start at the same times, with two step sizes."""
    seeds, asked = range(settings.seed, settings.seed + settings.seeds), settings.queries
    kinds: list[xr.Dataset] = []
    for kind in KINDS:
        dim, context, batch, depths = getattr(settings, kind)
        (nu, beta), (start, rate) = settings.rotated, settings.listed[kind]
        task: Any = RotatedStructure(nu, beta, dim, context=context, queries=asked)
        if kind == "iso":
            task = Isotropic(context / dim, dim=dim, queries=asked)
        rows: list[xr.Dataset] = []
        begin, times = Init(weights=start), np.linspace(0.0, 1.0, 11)
        times *= settings.steps * rate / math.sqrt(dim)
        for depth in depths:
            curve, parts = _mean_loss(settings, task, depth), []
            for part in settings.parts:
                count = settings.steps * part
                how: dict[str, Any] = {"steps": count, "log_every": count // 10, "time": "matrix"}
                how |= {"lr": rate / part * math.sqrt(dim), "contexts": batch, "progress": step}
                runs = [train_brute(task, begin, depth=depth, seed=n, **how) for n in seeds]
                gamma = _descended(curve, start, times, count)
                data = {"drawn_gamma": ("point", gamma), "drawn_loss": ("point", curve(gamma))}
                for name in ("gamma", "loss", "weights"):
                    many = np.stack([getattr(run, name) for run in runs])
                    data[name] = (("run", *["weight"] * (many.ndim - 2), "point"), many)
                parts.append(xr.Dataset(data, {"weight": list(SQUARES)}))
            flow = np.asarray(loss_curve(task, times, depth, start=begin))
            both: Any = xr.concat(parts, "part")
            rows.append(both.assign(flow=("point", flow), time=("point", times)))
        kinds.append(xr.concat(rows, xr.IndexVariable("depth", list(depths))))
    return xr.concat(kinds, xr.IndexVariable("kind", list(KINDS)), join="outer")


@fig.data
def invariants(settings: Any) -> xr.Dataset:
    """Weights that are not balanced, with a step and with a quarter of it."""
    task, rows = RotatedStructure(settings.nu, settings.beta, 256), []
    for part in (1, 4):
        how: dict[str, Any] = {"depth": 4, "lr": 0.02 / part, "log_every": 10 * part}
        run = train(task, Init(weights=settings.uneven), steps=500 * part, **how)
        rows.append(np.asarray(run.weights) ** 2 / np.asarray([[2.0], [1.0], [1.0], [1.0]]))
    coords = {"weight": list(SQUARES), "uneven_time": 0.2 * np.arange(51)}
    return xr.Dataset({"squares": (("rate", *coords), np.asarray(rows))}, coords)


@fig.data
def laws(settings: Any) -> xr.Dataset:
    """Very many directions: 𝓛(t) of four weights and of γ alone, and where the former end."""
    task = RotatedStructure(spectrum=Spectrum.power(settings.nu, settings.beta, settings.many))
    t, layers = np.geomspace(1.0, 1e8, 65), list(settings.layers)
    begin = Init(weights=settings.begin)
    four, one = (np.asarray(loss_curve(task, t, math.inf, start=x)) for x in (begin, Init(0.0)))
    how: dict[str, Any] = {"lr": 0.3, "steps": 6000, "log_points": 5}
    ends = [train(task, begin, depth=n, **how) for n in layers]
    found: dict[str, Any] = {"four": ("late", four), "one": ("late", one)}
    found["end"] = ("layers", [float(run.loss[-1]) for run in ends])
    found["end_gamma"] = ("layers", [float(run.gamma[-1]) for run in ends])
    found["least"] = ("layers", np.asarray(optimum(task, layers).loss))
    return xr.Dataset(found, coords={"late": t, "layers": layers})


def _power(d: xr.Dataset, m: int) -> float:
    """The exponent in time where γ ∝ w^m."""
    product = m * settings_of(d).beta
    return product / (product + 2.0)


def _amplitude(nu: float, beta: float) -> float:
    """The c of 𝓛 = cγ^−β at large γ."""
    return float(factorial(beta) * 2.0**-beta / nu / zeta(nu * beta + 1.0))


def _above(nu: float, beta: float, layers: np.ndarray) -> np.ndarray:
    """The least loss of L layers over c(2L)^−β, less 1, to order 1/L.

    With γ = 2L − x, all but the first direction leave c(2L)^−β (1 + βx/2L − β(β+1)/4L), and the
    first, of share 1/ζ, leaves e^−2x/ζ: the sum is least where this is cβ(2L)^−β/4L.
    """
    first = _amplitude(nu, beta) * beta * (2.0 * layers) ** -beta / (4.0 * layers)
    twice = -np.log(zeta(nu * beta + 1.0) * first)  # 2x
    return beta * (twice - beta) / (4.0 * layers)


def _apart(d: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray]:
    """w_k² − w_v² and w_k² of one layer on tokens."""
    squares = d.weights.sel(kind="iso", depth=1) ** 2
    return squares.sel(weight="k") - squares.sel(weight="v"), squares.sel(weight="k")


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """Tokens for both structures, drift, what is conserved, and the laws in t and L."""
    settings, loss, panels, grey = settings_of(d), r"$\mathcal{L}$", [], {"color": "0.3"}
    low: dict[str, Any] = {"legend": 7.0, "where": "lower left"}
    looks = {"flow, large $D$": THEORY, "descent at this $D$": TRAINING, "tokens": TOKENS}
    for kind in KINDS:
        marks = [entry(words, **grey, **look) for words, look in looks.items()]
        for k, depth in enumerate(getattr(settings, kind)[3]):
            here = d.sel(kind=kind, depth=depth).isel(part=-1)
            marks.append(training(here.time, here.drawn_loss, k=k))
            marks.append(theory(here.time, here.flow, f"$L = {depth}$", k))
            marks.append(tokens(here.time, here.loss.mean("run"), k=k))
        title = f"{kind.upper()}, $D = {getattr(settings, kind)[0]}$"
        panels.append(Panel("$t$", loss, marks, "y", title, **low))
    first, last = _apart(d)[0].mean("run")
    t, dots = d.time.sel(kind="iso", depth=1), {"marker": "o", "markersize": 3.0}
    moved = [line(t, first, r"$\eta$", **dots), line(t, last, r"$\eta/2$", 1, **dots)]
    moved.append(law(t, first / 2.0, "half of the first"))
    kept = [line(d.uneven_time, d.squares[1, k], x, k) for k, x in enumerate(SQUARES.values())]
    slopes, at = [], d.late[24:]
    for k, (m, row, words) in enumerate(((1, d.one, "γ alone"), (5, d.four, "four weights"))):
        slopes.append(theory(d.late, row, words, k))
        slopes.append(law(at, 2.0 * float(row[-1]) * (at / 1e8) ** -_power(d, m)))
    slopes.append(law([], [], r"slope $-m\beta/(m\beta+2)$, $m = 1, 5$"))
    ends = [training(d.layers, d.end, r"four weights, $t \to \infty$")]
    ends.append(theory(d.layers, d.least, r"least over $\gamma$", 1))
    powers = float(d.end[-1]) * (d.layers / float(d.layers[-1])) ** -settings.beta
    ends.append(law(d.layers, powers, r"slope $-\beta$"))
    many = rf"$\nu = {settings.nu}$, $\beta = {settings.beta}$"
    return drawn(
        *panels,
        Panel("$t$", "$w_k^2 - w_v^2$", moved, title="ISO, $L = 1$, tokens", legend=7.0),
        Panel("$t$", "squares", kept, title="not balanced, $L = 4$", legend=7.0),
        Panel("$t$", loss, slopes, "xy", rf"{many}, $L = \infty$", ylim=(1e-7, 3.0), **low),
        Panel("$L$", loss, ends, "xy", many, **low),
        rows=2,
    )


@fig.claim("reported", "accounts: full attention")
def conserved(d):
    """The flow of four weights conserves w_x²/2 − w_q², w_q² − w_k² and w_k² − w_v²: their largest
    change is an error of the step, 4 times as small with a quarter of it (ratio, L = 4)."""
    squares = d.squares - d.squares.isel(uneven_time=0)
    change = abs(squares.diff("weight")).max(["weight", "uneven_time"]).values
    because = "the next order in η = 0.02, with a factor of up to 1: 2 %"
    return near(change[0] / change[1], 4.0, 0.08, because=because)


@fig.claim("check", "ours", word="tokens-{x}", over=KINDS)
def on_tokens(d, x):
    """The matrices of attention, trained on tokens, have the γ of the balanced weights (√2 w, w, w,
    w), γ = 2w⁵, that descend the mean loss at this D: {x}, the deepest (relative gap of the mean
    over seeds, from a tenth of the run on, taken to η = 0 along two step sizes, the largest by its
    tolerance)."""
    depth, runs = getattr(settings_of(d), x)[3][-1], d.sizes["run"]
    ratio = (d.gamma / d.drawn_gamma).sel(kind=x, depth=depth).isel(point=slice(1, None))
    straight = 2.0 * ratio[1] - ratio[0]
    mean, error = mean_of(straight.transpose("point", "run").values)
    most, raw = beyond(runs), worst_ratio(ratio[0].mean("run"), 1.0)
    slack = most * error + 0.01
    k = int(np.argmax(abs(mean - 1.0) / slack))
    because = f"{most:.1f} standard errors of Student's t over seeds; 1 %, to which drawn contexts "
    because += "tell early growth"
    words = f"L = {depth}, {runs} seeds; {raw:.3f} at the longer step, by noise."
    return near(mean[k] - 1.0, 0.0, slack[k], because=because, note=words)


@fig.claim("new", "derived")
def drift(d):
    """With one layer the noise of contexts drives balanced weights apart, along the flat direction
    of constant γ, at a pace ∝ η: w_k² − w_v² with half the step, at equal times (ratio)."""
    apart, key = (x.isel(point=-1) for x in _apart(d))
    mean, error = mean_of(apart.transpose("part", "run").values)
    ratio, part = float(mean[1] / mean[0]), float(mean[0] / key[0].mean())
    most, spread = beyond(d.sizes["run"]), ratio * math.hypot(*(error / mean))
    because = f"the next order, the drift in units of w²; {most:.1f} standard errors, Student's t"
    words = f"It is {part:.3f} of w_k² at the longer step. Descent of the mean loss has none."
    return near(ratio, 0.5, 0.5 * part + most * spread, because=because, note=words)


@fig.claim("reported", "accounts: full attention")
def in_time(d):
    """From four balanced weights, γ ∝ w⁵, the loss falls as t^(−5β/(5β+2)) (local exponent at t =
    10⁶, L = ∞, ν = {nu}, β = {beta}, D = 10⁸)."""
    local = -np.gradient(np.log(d.four.values), np.log(d.late.values))
    because = "single directions make it swing, by 10⁻⁴ of itself where γ moves fastest"
    words = f"γ alone has {_power(d, 1):.4f}."
    found = local[np.argmin(abs(d.late.values - 1e6))]
    return near(found, _power(d, 5), 1e-3, because=because, note=words)


@fig.claim("reported", "accounts: full attention")
def in_depth(d):
    """The exponent in depth is that of γ alone, β: four weights, trained until nothing moves, end
    at 𝓛 ∝ L^−β (exponent from L = 64 to 256, less what the next order of the least loss over γ, (ln
    L)/L, adds to it; ν = {nu}, β = {beta}, D = 10⁸)."""
    settings, last = settings_of(d), d.isel(layers=[-2, -1])
    layers = last.layers.values.astype(float)
    above, apart = _above(settings.nu, settings.beta, layers), math.log(layers[1] / layers[0])
    found, more = (-np.diff(np.log(x))[0] / apart for x in (last.end.values, 1.0 + above))
    because = "the order after that, the square of it at the smaller L"
    words = f"The exponent is {found:.4f}, and the next order is {more:.4f} of it; γ/L ends at "
    words += f"{float(last.end_gamma[-1]) / layers[1]:.3f}, and tends to 2. The ends are the least "
    words += f"loss over γ within {worst_ratio(d.end, d.least):.0e} of it."
    slack = above[0] ** 2 / apart
    return near(found - more, settings.beta, slack, because=because, note=words)


@fig.claim("new", "derived")
def amplitude(d):
    """From four weights it is cγ^−β with γ = (20 · 2^−1.6 (β + 2/5) cβt)^(1/(β+2/5)) and c =
    Γ(β)2^−β/(νζ(νβ+1)): nothing is fitted (largest relative gap, t from 10⁵ to 10⁸)."""
    nu, beta, late = settings_of(d).nu, settings_of(d).beta, d.late.values[40:]
    c = _amplitude(nu, beta)
    told = c * (20.0 * 2.0**-1.6 * (beta + 0.4) * c * beta * late) ** (-beta / (beta + 0.4))
    because = "the start takes t of about 20, 2 × 10⁻⁴ of the first time"
    return near(worst_ratio(d.four[40:], told), 0.0, 2e-4, because=because)


FIGURE = fig
