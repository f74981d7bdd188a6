"""What predictors can do: linear ones fail, the oracle is optimal if and only if L = o(d)."""

import math
from collections.abc import Mapping
from typing import Any

import jax
import matplotlib.figure
import numpy as np
import xarray as xr
from scipy.special import erfc

from ...reproduce import Claim, Figure, Size, Statement, stage, worst_ratio
from ...style import LAW, THEORY, TOKENS, colour, panels
from .. import (
    Task,
    Tokens,
    bayes,
    bayes_risk,
    best_lam,
    least_squares,
    linear_excess,
    optimal_path,
    sample,
    zero_excess,
)

SEED = 0
SMALL = 4  # d of the linear predictors, whose excess does not depend on it
PATHS = {"10": 0.0, "√d": 0.5, "d": 1.0}  # exponents of L; the first has L = 10
CLOSE = 100  # d up to which Bayes is drawn
SETTINGS: Mapping[Size, Mapping[str, Any]] = {
    "quick": {
        "lengths": (4, 32),
        "data": 2**14,
        "bayes_dims": (16,),
        "draws": 2**15,
        "dims": (20, 10**7, 10),
    },
    "default": {
        "lengths": (2, 4, 8, 16, 32, 64),
        "data": 2**16,
        "bayes_dims": (4, 8, 16, 32),
        "draws": 2**17,
        "dims": (20, 10**8, 27),
    },
    "full": {
        "lengths": (2, 4, 8, 16, 32, 64, 128),
        "data": 2**17,
        "bayes_dims": (4, 8, 16, 32),
        "draws": 2**20,
        "dims": (20, 10**9, 40),
    },
}


def _error(guess: Any, tokens: Tokens) -> float:
    return float(np.mean((np.asarray(guess) - np.asarray(tokens.y)) ** 2))


def _linear(settings: Mapping[str, Any]) -> xr.Dataset:
    """Least squares on tokens: its error on its own data and on new ones."""
    rows = []
    for k, length in enumerate(settings["lengths"]):
        task = Task(SMALL, length)
        seen, new = (sample(task, settings["data"], seed=SEED + 2 * k + j) for j in (0, 1))
        weights = np.asarray(least_squares(seen)).ravel()
        errors = [_error(np.asarray(t.x).reshape(len(t.y), -1) @ weights, t) for t in (seen, new)]
        rows.append([np.mean(errors), float(linear_excess(task))])
    fitted, theory = np.asarray(rows).T
    return xr.Dataset(
        {"fitted": ("length", fitted), "linear": ("length", theory)},
        coords={"length": list(settings["lengths"])},
        attrs={"zero": float(zero_excess(Task(SMALL, 2)))},
    )


def _bayes(settings: Mapping[str, Any]) -> xr.Dataset:
    """The Bayes predictor on tokens, and its excess by importance sampling."""
    rows = []
    for dim in settings["bayes_dims"]:
        task = Task(dim, 10)
        tokens = sample(task, settings["draws"] // 8, seed=SEED)
        guess = jax.vmap(lambda x, task=task: bayes(task, x))(tokens.x)
        miss = np.asarray((guess - tokens.y) ** 2)
        found = bayes_risk(task, draws=settings["draws"], seed=SEED)
        error = math.hypot(float(np.std(miss)) / math.sqrt(len(miss)), found.error)
        rows.append([miss.mean(), found.excess, error])
    tokens, excess, error = np.asarray(rows).T
    return xr.Dataset(
        {
            "bayes_tokens": ("bayes_dim", tokens),
            "bayes": ("bayes_dim", excess),
            "bayes_error": ("bayes_dim", error),
        },
        coords={"bayes_dim": list(settings["bayes_dims"])},
    )


def _paths(settings: Mapping[str, Any]) -> xr.Dataset:
    """The oracle at its best λ while d and L grow, and Bayes beside it."""
    low, high, count = settings["dims"]
    dims = np.unique(np.geomspace(low, high, count).round().astype(int))
    near = np.unique(np.geomspace(low, CLOSE, 8).round().astype(int))
    best, least = [], []
    for exponent in PATHS.values():
        if exponent == 0.0:
            tasks = [Task(d, 10) for d in near.tolist()]
            best.append([best_lam(Task(d, 10)).excess for d in dims.tolist()])
        else:
            tasks = [Task(d, max(2, round(d**exponent))) for d in near.tolist()]
            best.append(optimal_path(dims.tolist(), exponent).excess)
        least.append([bayes_risk(task, draws=settings["draws"] // 8).excess for task in tasks])
    return xr.Dataset(
        {
            "oracle": (("path", "dim"), np.asarray(best)),
            "path_bayes": (("path", "near"), np.asarray(least)),
        },
        coords={"path": list(PATHS), "dim": dims, "near": near},
        attrs={"limit": _limit(0.5)},
    )


def _limit(gamma2: float) -> float:
    """The oracle's excess along L = d as d → ∞: the least of γ² erfc(c/√2)² + (4/π)c²."""

    c = np.linspace(0.0, 2.0, 200_001)
    return float(np.min(gamma2 * erfc(c / math.sqrt(2.0)) ** 2 + 4.0 / math.pi * c**2))


def compute(size: Size) -> xr.Dataset:
    """Linear predictors, Bayes, and the oracle along three paths."""
    settings = SETTINGS[size]
    parts = [
        stage("linear", lambda: _linear(settings)),
        stage("bayes", lambda: _bayes(settings)),
        stage("paths", lambda: _paths(settings)),
    ]
    return xr.merge(parts, combine_attrs="no_conflicts")


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """Linear predictors against L, and the oracle against d."""
    figure, (linear, optimal) = panels(2)
    linear.plot(data.length, data.linear, color=colour(0), label="best linear, theory", **THEORY)
    linear.plot(data.length, data.fitted, color=colour(0), label="least squares", **TOKENS)
    linear.axhline(data.attrs["zero"], label="zero predictor", **LAW)
    linear.set_xscale("log", base=2)
    linear.set_ylim(0.3, 0.52)
    linear.set_xlabel("$L$")
    linear.legend(fontsize=8.0, loc="lower right")
    for k, name in enumerate(data.path.values):
        here = data.sel(path=name)
        optimal.plot(data.dim, here.oracle, color=colour(k), label=f"oracle, L = {name}")
        optimal.plot(data.near, here.path_bayes, color=colour(k), **THEORY)
    optimal.plot([], [], color="0.3", label="Bayes", **THEORY)
    optimal.axhline(data.attrs["limit"], **LAW)
    optimal.set_xscale("log")
    optimal.set_yscale("log")
    optimal.set_ylim(1e-6, 1.0)
    optimal.set_xlabel("$d$")
    optimal.legend(fontsize=8.0, loc="lower left", bbox_to_anchor=(0.13, 0.0))
    for each in (linear, optimal):
        each.set_ylabel("excess risk")
    return figure


def _say(word: str, text: str, source: str) -> Statement:
    return Statement(f"single_location/predictors/{word}", text, source)


LINEAR = _say(
    "linear",
    "The best linear predictor of all token entries has excess risk γ²(L−1)/(L−1+γ²) (largest "
    "relative gap of least squares on tokens).",
    "Proposition 3 (formula derived)",
)
FAILS = _say(
    "linear-fails",
    "Linear predictors fail as L grows: least squares loses what predicting 0 loses (their ratio "
    "at the largest L).",
    "Proposition 3",
)
BAYES_RISK = _say(
    "bayes",
    "The Bayes predictor has the excess risk that importance sampling gives (largest gap on tokens "
    "in standard errors; L = 10).",
    "Sec. 2 (predictor derived)",
)
OPTIMAL = _say(
    "optimal",
    "With L = o(d) the oracle at its best λ is asymptotically Bayes optimal: its excess risk tends "
    "to 0 along L = √d (at the largest d).",
    "Corollary 2",
)
LAW_OF = _say(
    "law",
    "It falls like (L/d) log(d/L): along L = √d with the slope of that law (difference of the "
    "log-log slopes in d over the last decade).",
    "Corollary 2 (law derived)",
)
NOT = _say(
    "not-optimal",
    "Not so along L = d, where it tends to the least of γ² erfc(c/√2)² + (4/π)c² over c = λ√d (at "
    "the largest d).",
    "Corollary 2 (limit derived)",
)


def claims(data: xr.Dataset) -> list[Claim]:
    """Linear predictors, Bayes, and the oracle's optimality."""
    apart = np.abs(data.bayes_tokens - data.bayes) / data.bayes_error
    dims = data.dim.values.astype(float)
    good = data.oracle.sel(path="√d").values
    law = np.log(dims) / np.sqrt(dims)
    first = int(np.searchsorted(dims, dims[-1] / 10.0))
    across = np.log(dims[-1] / dims[first])
    slope, model = (float(np.log(y[-1] / y[first]) / across) for y in (good, law))
    last, limit = float(dims[-1]), data.attrs["limit"]
    return [
        LINEAR.judge(
            0.0,
            worst_ratio(data.fitted, data.linear),
            0.03,
            note=f"d = {SMALL}; the mean of the errors on the data of the fit and on new ones.",
        ),
        FAILS.judge(
            1.0,
            float(data.fitted[-1]) / data.attrs["zero"],
            0.03,
            note=f"L = {int(data.length[-1])}; the gain is γ²/(L−1+γ²).",
        ),
        BAYES_RISK.judge(
            0.0,
            apart.max(),
            4.0,
            note="; ".join(f"d = {int(x.bayes_dim)}: {float(x):.3g}" for x in data.bayes),
        ),
        OPTIMAL.judge(0.01, good[-1], "at most", note=f"d = {last:.0e}."),
        LAW_OF.judge(0.0, slope - model, 0.05, note=f"{slope:.3f} and {model:.3f}."),
        NOT.judge(
            limit,
            data.oracle.sel(path="d").values[-1],
            1e-3,
            note=f"d = {last:.0e}. Bayes does tend to 0: "
            f"{float(data.path_bayes.sel(path='d')[-1]):.1e} at d = L = {int(data.near[-1])}.",
        ),
    ]


FIGURE = Figure(
    id="single_location/predictors",
    title="Linear predictors, the oracle at its best λ, and Bayes",
    settings=SETTINGS,
    constants={"gamma2": 0.5, "noise": 0.0, "linear_dim": SMALL},
    statements=(LINEAR, FAILS, BAYES_RISK, OPTIMAL, LAW_OF, NOT),
    compute=compute,
    draw=draw,
    claims=claims,
    note=(
        "The paper states these as theorems, without a picture. (a) Least squares on tokens at "
        f"d = {SMALL}: the excess of linear predictors does not depend on d. (b) The oracle "
        "k = k*, v = v* with the λ that is best for its d and L; dotted, the limit along L = d. "
        "Bayes is drawn up to d = 100, beyond which it is below the picture."
    ),
    seed=SEED,
)
