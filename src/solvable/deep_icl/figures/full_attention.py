"""The weights of full attention: four numbers that make up γ, and tokens that train them."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np
import xarray as xr
from numpy.polynomial import Chebyshev

from ...compiling import jit
from ...reproduce import Claim, Figure, Size, stage, step, worst_ratio
from ...style import LAW, THEORY, TOKENS, TRAINING, colour, loglog, panels
from .. import (
    Init,
    Isotropic,
    LinearAttention,
    RotatedStructure,
    Run,
    attention_time_exponent,
    draw_spectra,
    gamma_prediction,
    loss_curve,
    optimum,
    sample,
    train,
    train_brute,
)
from ..laws import spectrum
from ._say import say

SEED = 0
ISO = {"alpha": 1.0, "queries": 32, "scale": 0.4, "rate": 0.1}  # the rate times √D is that of Γ
RRS = {"nu": 1.25, "beta": 1.2, "queries": 32, "scale": 0.45, "rate": 0.125}
LAWS = {"nu": 1.5, "beta": 0.8, "scale": 0.3}  # of the exponents
UNEVEN = (0.7, 0.4, 0.6, 0.5)  # weights that are not balanced
CONTEXTS = 4000  # drawn for the loss at finite D
POINTS = 20
SETTINGS: Mapping[Size, Mapping[str, Any]] = {
    "quick": {
        "iso": {"dim": 16, "depths": (1, 4), "contexts": 32, "steps": 120},
        "rrs": {"dim": 16, "context": 64, "depths": (4,), "contexts": 32, "steps": 80},
        "drift_steps": 300,
        "law_dim": 10**8,
        "floor_depths": (1, 4, 16),
    },
    "default": {
        "iso": {"dim": 32, "depths": (1, 4), "contexts": 64, "steps": 200},
        "rrs": {"dim": 24, "context": 96, "depths": (1, 4), "contexts": 32, "steps": 160},
        "drift_steps": 400,
        "law_dim": 10**8,
        "floor_depths": (1, 2, 4, 8, 16, 32),
    },
    "full": {
        "iso": {"dim": 128, "depths": (1, 2, 4, 8), "contexts": 1024, "steps": 1000},
        "rrs": {
            "dim": 80,
            "context": 256,
            "depths": (1, 2, 4, 8, 16),
            "contexts": 512,
            "steps": 1000,
        },
        "drift_steps": 4000,
        "law_dim": 10**9,
        "floor_depths": (1, 2, 4, 8, 16, 32, 64),
    },
}


def _kept(prefix: str, run: Run) -> dict[str, np.ndarray]:
    assert run.weights is not None
    kept = {"loss": run.loss, "gamma": run.gamma, "weights": run.weights}
    return {f"{prefix}_{name}": np.asarray(value) for name, value in kept.items()}


def _finite_dim(dim: int, depth: int, lr: float, steps: int, every: int) -> dict[str, np.ndarray]:
    """Four weights on the exact loss at finite D, which is a mean over drawn contexts."""
    drawn = draw_spectra(Isotropic(alpha=ISO["alpha"], dim=dim), CONTEXTS, seed=SEED)
    high = 1.2 * float(optimum(Isotropic(alpha=ISO["alpha"]), depth).gamma)
    places = 0.5 * high * (1.0 - np.cos(np.pi * (np.arange(32) + 0.5) / 32))
    each = drawn.loss(gamma=places, depth=depth)
    values = each.mean(axis=-1)
    error = each[int(np.argmin(values))].std() / math.sqrt(CONTEXTS)
    fitted = Chebyshev.fit(places, values, 2 * depth if depth < 12 else 24, domain=[0.0, high])
    slope = fitted.deriv()
    weights = ISO["scale"] * np.array([math.sqrt(2.0), 1.0, 1.0, 1.0])
    gammas = []
    for n in range(steps + 1):
        x, q, k, v = weights
        gamma = x**2 * q * k * v
        if n % every == 0 or n == steps:
            gammas.append(gamma)
        weights = weights - lr * float(slope(gamma)) * gamma * np.array(
            [2 / x, 1 / q, 1 / k, 1 / v]
        )
    best = float(np.min(fitted(np.linspace(0.0, high, 2000))))
    return {
        "finite_gamma": np.asarray(gammas),
        "finite_loss": np.asarray(fitted(np.asarray(gammas))),
        "finite_best": np.asarray(best),
        "finite_error": np.asarray(error),
    }


def _tokens(task: Any, setting: Mapping[str, Any], size: Mapping[str, Any], depth: int) -> Any:
    """Training on tokens and in four numbers, from the same start."""
    every = max(1, size["steps"] // POINTS)
    how = {"depth": depth, "lr": setting["rate"] * math.sqrt(size["dim"]), "time": "matrix"}
    how |= {"steps": size["steps"], "log_every": every, "progress": step}
    start = Init(weights=setting["scale"])
    brute = train_brute(task, start, contexts=size["contexts"], seed=SEED, **how)
    return brute, train(task, start, **how), every


def _iso(settings: Mapping[str, Any], depth: int) -> xr.Dataset:
    size = settings["iso"]
    task = Isotropic(alpha=ISO["alpha"], dim=size["dim"], queries=ISO["queries"])
    brute, theory, every = _tokens(task, ISO, size, depth)
    rows = _kept("iso_brute", brute) | _kept("iso", theory)
    pace = ISO["rate"] / math.sqrt(size["dim"])
    rows |= _finite_dim(size["dim"], depth, pace, size["steps"], every)
    return _row(rows, "iso", depth, pace * brute.step)


def _rrs(settings: Mapping[str, Any], depth: int) -> xr.Dataset:
    size = settings["rrs"]
    task = RotatedStructure(
        nu=RRS["nu"],
        beta=RRS["beta"],
        dim=size["dim"],
        context=size["context"],
        queries=int(RRS["queries"]),
    )
    brute, theory, _ = _tokens(task, RRS, size, depth)
    pace = RRS["rate"] / math.sqrt(size["dim"])
    return _row(_kept("rrs_brute", brute) | _kept("rrs", theory), "rrs", depth, pace * brute.step)


def _row(rows: dict[str, np.ndarray], kind: str, depth: int, time: np.ndarray) -> xr.Dataset:
    """The curves at one depth, over scalar time."""
    point = f"{kind}_time"
    dims = {0: (), 1: (point,), 2: ("weight", point)}
    data = {name: (dims[value.ndim], value) for name, value in rows.items()}
    coords = {point: time, "weight": ["x", "q", "k", "v"], f"{kind}_depth": depth}
    return xr.Dataset(data, coords=coords).expand_dims(f"{kind}_depth")


def _drift(settings: Mapping[str, Any]) -> xr.Dataset:
    """One layer on tokens: how far the noise drives the weights apart at constant γ."""
    size, steps = settings["iso"], settings["drift_steps"]
    task = Isotropic(alpha=ISO["alpha"], dim=size["dim"], queries=ISO["queries"])
    rate, start = ISO["rate"] * math.sqrt(size["dim"]), Init(weights=ISO["scale"])
    found, gammas = [], []
    for part in (1, 4):
        run = train_brute(
            task,
            start,
            depth=1,
            lr=rate / part,
            time="matrix",
            steps=steps * part,
            contexts=size["contexts"],
            log_every=steps * part,
            seed=SEED,
            progress=step,
        )
        assert run.weights is not None
        found.append(np.asarray(run.weights)[:, -1])
        gammas.append(float(run.gamma[-1]))
    weights = np.asarray(found)
    return xr.Dataset(
        {
            "drift_weights": (("part", "weight"), weights),
            "drift": ("part", np.abs(weights[:, 3] / weights[:, 1] - 1.0)),
            "drift_gamma": ("part", gammas),
        },
        coords={"part": [1, 4], "weight": ["x", "q", "k", "v"]},
    )


def _invariants() -> xr.Dataset:
    """What the flow of four weights conserves, and balanced weights."""
    task, changes = RotatedStructure(nu=LAWS["nu"], beta=LAWS["beta"], dim=256), []
    for part in (1, 4):
        run = train(
            task,
            Init(weights=UNEVEN),
            depth=4,
            lr=0.02 / part,
            steps=1000 * part,
            log_every=max(1, 1000 * part // 400),
        )
        x, q, k, v = np.asarray(run.weights) ** 2
        kept = np.stack([x / 2.0 - q, q - k, k - v])
        changes.append(float(np.max(np.abs(kept - kept[:, :1]))))
    even = train(task, Init(weights=LAWS["scale"]), depth=4, lr=0.02, steps=1000, log_every=2)
    weights = np.asarray(even.weights)
    one = weights[1]
    gaps = [
        weights / (one[None, :] * np.array([math.sqrt(2.0), 1.0, 1.0, 1.0])[:, None]) - 1.0,
        np.asarray(even.gamma)[None, :] / (2.0 * one**5)[None, :] - 1.0,
    ]
    balance = max(float(np.max(np.abs(gap))) for gap in gaps)
    return xr.Dataset(attrs={"change": changes[0], "change_slow": changes[1], "balance": balance})


def _aligned() -> xr.Dataset:
    """Masked attention on tokens with aligned weights against the matrix Γ."""
    dim, length, depth, asked = 6, 9, 5, 4
    data = sample(Isotropic(alpha=length / dim, dim=dim, queries=asked), contexts=8, seed=SEED)
    gamma = np.random.default_rng(SEED).normal(size=(dim, dim))
    model = LinearAttention.aligned(jnp.asarray(gamma), dim=dim, depth=depth)
    labels = data.y[:, :length]

    def one(x: jax.Array, y: jax.Array) -> jax.Array:
        return gamma_prediction(jnp.asarray(gamma), x, y, depth)

    attention, matrix = (
        np.asarray(jit(jax.vmap(each))(data.x, labels)) for each in (model.__call__, one)
    )
    gap = np.max(np.abs(attention - matrix)) / np.max(np.abs(matrix))
    return xr.Dataset(attrs={"aligned_gap": float(gap)})


def _laws(settings: Mapping[str, Any]) -> xr.Dataset:
    """The loss in time for γ itself and for four weights, and its floors in depth."""
    tail = spectrum(LAWS["nu"], LAWS["beta"], settings["law_dim"])  # far directions are binned
    task = RotatedStructure(lam=tail.lam, omega=tail.share / tail.lam)
    t = np.geomspace(1e0, 1e7, 57)
    starts = {1: Init(gamma=0.0), 5: Init(weights=LAWS["scale"])}
    curves = [np.asarray(loss_curve(task, t, None, start=start)) for start in starts.values()]
    small = RotatedStructure(nu=LAWS["nu"], beta=LAWS["beta"], dim=512)
    depths = list(settings["floor_depths"])
    ends = loss_curve(small, 1e9, depths, start=starts[5])
    return xr.Dataset(
        {
            "law_loss": (("m", "law_time"), np.asarray(curves)),
            "end": ("floor_depth", np.asarray(ends)),
            "best": ("floor_depth", np.asarray(optimum(small, depths).loss)),
        },
        coords={"m": list(starts), "law_time": t, "floor_depth": depths},
    )


def compute(size: Size) -> xr.Dataset:
    """Tokens and four numbers for both structures, drift, invariants, and laws."""
    settings = SETTINGS[size]
    iso = [
        stage(f"iso_{depth}", lambda d=depth: _iso(settings, d))
        for depth in settings["iso"]["depths"]
    ]
    rrs = [
        stage(f"rrs_{depth}", lambda d=depth: _rrs(settings, d))
        for depth in settings["rrs"]["depths"]
    ]
    parts = [
        xr.concat(iso, "iso_depth"),
        xr.concat(rrs, "rrs_depth"),
        stage("drift", lambda: _drift(settings)),
        stage("invariants", _invariants),
        stage("aligned", _aligned),
        stage("laws", lambda: _laws(settings)),
    ]
    data = xr.merge(parts, combine_attrs="no_conflicts")
    sizes = {f"{kind}_{name}": settings[kind][name] for kind in ("iso", "rrs") for name in _TOLD}
    return data.assign_attrs(sizes)


_TOLD = ("dim", "contexts")


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """Losses on tokens, weights, and the law in time."""
    figure, (iso, rrs, weights, law) = panels(2, 2)
    for axes, kind in ((iso, "iso"), (rrs, "rrs")):
        for k, depth in enumerate(data[f"{kind}_depth"].values):
            here, t = data.sel({f"{kind}_depth": depth}), data[f"{kind}_time"]
            axes.plot(t, here[f"{kind}_loss"], color=colour(k), label=f"$L = {depth}$", **THEORY)
            axes.plot(t, here[f"{kind}_brute_loss"], color=colour(k), **TOKENS)
            if kind == "iso":
                axes.plot(t, here.finite_loss, color=colour(k), **TRAINING)
        axes.set_yscale("log")
        axes.set_xlabel("$t$ (scalar time)")
        axes.set_ylabel(r"$\mathcal{L}$")
        axes.plot([], [], color="0.3", label="four weights", **THEORY)
        axes.plot([], [], color="0.3", label="tokens", **TOKENS)
    dim = data.attrs["iso_dim"]
    iso.plot([], [], color="0.3", label=f"exact at $D = {dim}$", **TRAINING)
    iso.set_title(rf"ISO, $\alpha = 1$, $D = {dim}$", fontsize=9.0)
    rrs.set_title(rf"RRS, $\beta = 1.2$, $D = {data.attrs['rrs_dim']}$", fontsize=9.0)
    iso.legend(fontsize=7.0)
    rrs.legend(fontsize=7.0)
    last = data.isel(rrs_depth=-1)
    for k, name in enumerate(data.weight.values):
        here = last.sel(weight=name)
        words = rf"$w_{name}$"
        weights.plot(data.rrs_time, here.rrs_weights, color=colour(k), **THEORY)
        weights.plot(data.rrs_time, here.rrs_brute_weights, color=colour(k), label=words, **TOKENS)
    weights.set_xlabel("$t$ (scalar time)")
    weights.set_ylabel("weight")
    weights.set_title(f"RRS, $L = {int(last.rrs_depth)}$", fontsize=9.0)
    weights.legend(fontsize=7.5)
    t = data.law_time.values
    for k, m in enumerate(data.m.values):
        curve, power = data.law_loss.sel(m=m).values, attention_time_exponent(LAWS["beta"], int(m))
        words = r"four weights, $\gamma = 2w^5$" if m == 5 else r"$\gamma$ itself"
        words += f": law $t^{{-{power:.3f}}}$"
        law.plot(t, curve, color=colour(k), label=words, **THEORY)
        law.plot(t, 1.6 * curve[-1] * (t / t[-1]) ** -power, **LAW)
    loglog(
        law,
        r"t\ \mathrm{(scalar\ time)}",
        r"\mathcal{L}",
        rf"$L = \infty$, $\beta = {LAWS['beta']}$",
    )
    law.set_ylim(0.3 * float(data.law_loss.min()), 3.0)
    law.legend(fontsize=7.5, loc="lower left")
    return figure


FIG = "accounts: full-attention figure"
_say = partial(say, "full-attention")
ALIGNED = _say(
    "reported",
    "aligned",
    "Masked linear attention with aligned weights predicts what the one matrix Γ does (largest gap "
    "relative to the predictions, D = 6, P = 9, L = 5, a random Γ).",
    "accounts: reduced-Γ model",
)
CONSERVED = _say(
    "check",
    "conserved",
    "The flow of four weights conserves w_x²/2 − w_q², w_q² − w_k² and w_k² − w_v²: their largest "
    "change is an error of the step, and falls 4 times with a step 4 times smaller.",
)
BALANCED = _say(
    "reported",
    "balanced",
    "Balanced weights (√2 w, w, w, w) stay balanced, γ = 2w⁵ (largest relative gap over a run).",
    "accounts: full attention",
)
ISO_PATH = _say(
    "reported",
    "iso-tokens",
    "Attention trained on isotropic tokens has the γ of four weights on the exact loss at this D "
    "(largest relative gap in the second half of the run, deepest attention).",
    FIG,
)
RRS_PATH = _say(
    "reported",
    "rrs-tokens",
    "Attention trained on rotated tokens has the γ of four weights on the deterministic equivalent "
    "(largest relative gap in the second half, deepest attention).",
    FIG,
)
OFFSET = _say(
    "check",
    "finite-size",
    "The best loss at finite D lies above that of large D (ratio at L = 1, against its exact "
    "value (1 + 1/D)/(2 + 1/D) over ½).",
)
LAW5 = _say(
    "reported",
    "time-law",
    "The loss falls as t^-5β/(5β+2) (local log-log slope, L = ∞).",
    "accounts: full-attention figure, slope 5β/(5β+2)",
)
LAW1 = _say(
    "reported",
    "time-law-gamma",
    "With γ itself trained it falls as t^-β/(β+2).",
    "accounts: RRS time law",
)
FLOORS = _say(
    "reported",
    "depth",
    "Four weights end where γ itself does, so that the exponent in depth is the same (largest "
    "relative gap to the best loss, all depths).",
    "accounts: full attention, depth exponent",
)
DRIFT = _say(
    "new",
    "drift",
    "With one layer the noise of the contexts drives the weights along the flat direction of "
    "constant γ: |w_v/w_q − 1| with a step 4 times smaller, over that without, at equal times "
    "(of noise ∝ step: ¼).",
)


def claims(data: xr.Dataset) -> list[Claim]:
    """Invariants and laws of the flow, and tokens against it."""
    change, slow = data.attrs["change"], data.attrs["change_slow"]
    iso, rrs = data.isel(iso_depth=-1), data.isel(rrs_depth=-1)
    later = {kind: slice(data.sizes[f"{kind}_time"] // 2, None) for kind in ("iso", "rrs")}
    iso, rrs = iso.isel(iso_time=later["iso"]), rrs.isel(rrs_time=later["rrs"])
    dims = {kind: data.attrs[f"{kind}_dim"] for kind in ("iso", "rrs")}
    size = {
        kind: f"D = {dims[kind]}, {data.attrs[f'{kind}_contexts']} contexts a step, "
        f"L = {int(each[f'{kind}_depth'])}; the tolerance is 2/D."
        for kind, each in (("iso", iso), ("rrs", rrs))
    }
    first = data.sel(iso_depth=1)
    exact = 2.0 * (1.0 + 1.0 / dims["iso"]) / (2.0 + 1.0 / dims["iso"])
    logs, t = np.log(data.law_loss), np.log(data.law_time.values)
    here = (data.law_time.values > 9e3) & (data.law_time.values < 1.1e6)
    slopes = {int(m): -np.polyfit(t[here], logs.sel(m=m).values[here], 1)[0] for m in data.m}
    powers = {m: attention_time_exponent(LAWS["beta"], m) for m in slopes}
    far = f"Least squares over 1e4 ≤ t ≤ 1e6, D ≥ 1e8, β = {LAWS['beta']}; the law is at t → ∞."
    return [
        ALIGNED.judge(0.0, data.attrs["aligned_gap"], 1e-12),
        CONSERVED.judge(4.0, change / slow, 0.4, note=f"{change:.2g} and {slow:.2g}."),
        BALANCED.judge(0.0, data.attrs["balance"], 1e-12),
        ISO_PATH.judge(
            0.0,
            worst_ratio(iso.iso_brute_gamma, iso.finite_gamma),
            2.0 / dims["iso"],
            note=size["iso"],
        ),
        RRS_PATH.judge(
            0.0,
            worst_ratio(rrs.rrs_brute_gamma, rrs.rrs_gamma),
            2.0 / dims["rrs"],
            note=size["rrs"],
        ),
        OFFSET.judge(
            exact,
            float(first.finite_best) / 0.5,
            3.0 * float(first.finite_error) / 0.5,
            note=f"{CONTEXTS} contexts drawn; the tolerance is 3 standard errors.",
        ),
        LAW5.judge(powers[5], slopes[5], 0.002, note=far),
        LAW1.judge(powers[1], slopes[1], 0.002, note=far),
        FLOORS.judge(0.0, worst_ratio(data.end, data.best), 1e-8),
        DRIFT.judge(
            0.5,
            float(data.drift[1] / data.drift[0]),
            "at most",
            note=f"D = {dims['iso']}, α = 1: {float(data.drift[0]):.3f} and "
            f"{float(data.drift[1]):.3f}; γ {float(data.drift_gamma[0]):.3f} and "
            f"{float(data.drift_gamma[1]):.3f}.",
        ),
    ]


FIGURE = Figure(
    id="deep_icl/full-attention",
    title="Training the weights of full linear attention",
    settings=SETTINGS,
    constants={"iso": ISO, "rrs": RRS, "laws": LAWS, "uneven": UNEVEN},
    statements=(
        ALIGNED,
        CONSERVED,
        BALANCED,
        ISO_PATH,
        RRS_PATH,
        OFFSET,
        LAW5,
        LAW1,
        FLOORS,
        DRIFT,
    ),
    compute=compute,
    draw=draw,
    claims=claims,
    note=(
        "Reported with D = P = 128 and 1024 contexts a step (ISO) and D = 80, P = 256, 512 "
        "contexts (RRS), rates 0.1√D and 0.125√D: the full size. Else D, contexts and steps "
        "are fewer, at the same rates, which are those of the matrices; times are of the four "
        "numbers. At small D the tokens' loss lies above the theory of large D: with isotropic "
        "tokens the solid line descends the exact loss at this D, a mean over drawn contexts."
    ),
    seed=SEED,
)
