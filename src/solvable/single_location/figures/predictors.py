"""What predictors can do: linear ones fail, the oracle is optimal if and only if L = o(d)."""

import math
from typing import Any

import jax
import matplotlib.figure
import numpy as np
import xarray as xr
from scipy.special import erfc

from ...reproduce import Figure, at_most, near, settings_of, worst_ratio
from ...reproduce.panels import Panel, drawn, entry, level, line, theory, tokens
from ...style import LAW, THEORY
from .. import Task, bayes, least_squares, sample
from ..theory import bayes_risk, best_lam, linear_excess, zero_excess

fig = Figure(
    "single_location/predictors",
    "Linear predictors, the oracle at its best λ, and Bayes",
    settings={
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
    },
    constants={
        "gamma2": 0.5,
        "noise": 0.0,
        "linear_dim": 4,  # of the linear predictors, whose excess does not depend on it
        "length": 10,
        "paths": {"10": 0.0, "√d": 0.5, "d": 1.0},  # exponents of L; with 0 it is `length`
        "close": 100,  # d up to which Bayes is drawn
    },
    note=(
        "Theorems in accounts of the paper, whose Proposition 3 is not at hand; Bayes and L = d "
        "are ours. (a) Least squares on tokens at d = 4: the excess of linear predictors does not "
        "depend on d. (b) The oracle k = k*, v = v* with the λ that is best for its d and L; "
        "dotted, the limit along L = d. Bayes is drawn up to d = 100, beyond which it is below "
        "the picture."
    ),
)


@fig.data
def fits(settings: Any) -> xr.Dataset:
    """Least squares on tokens: its error on its own data and on new ones."""
    law, fitted = (settings.gamma2**0.5, settings.noise), []
    tasks = [Task(settings.linear_dim, length, *law) for length in settings.lengths]
    for k, task in enumerate(tasks):
        both = [sample(task, settings.data, seed=settings.seed + 2 * k + j) for j in (0, 1)]
        weights = np.asarray(least_squares(both[0])).ravel()
        misses = [np.asarray(t.x).reshape(len(t.y), -1) @ weights - np.asarray(t.y) for t in both]
        fitted.append(np.mean(np.square(misses)) - settings.noise**2)
    told = ("length", [float(linear_excess(task)) for task in tasks])
    found = {"fitted": ("length", fitted), "linear": told, "zero": float(zero_excess(tasks[0]))}
    return xr.Dataset(found, coords={"length": list(settings.lengths)})


@fig.data
def guesses(settings: Any) -> xr.Dataset:
    """The Bayes predictor on tokens, and its excess by importance sampling."""
    rows = []
    for dim in settings.bayes_dims:
        task = Task(dim, settings.length, settings.gamma2**0.5, settings.noise)
        drawn = sample(task, settings.draws // 8, seed=settings.seed)
        guess = jax.vmap(lambda x, task=task: bayes(task, x))(drawn.x)
        miss = np.asarray((guess - drawn.y) ** 2)
        found = bayes_risk(task, draws=settings.draws, seed=settings.seed)
        error = math.hypot(float(np.std(miss)) / math.sqrt(len(miss)), found.error)
        rows.append([miss.mean() - settings.noise**2, found.excess, error])
    names = ("bayes_tokens", "bayes", "bayes_error")
    found = {name: ("bayes_dim", [row[k] for row in rows]) for k, name in enumerate(names)}
    return xr.Dataset(found, coords={"bayes_dim": list(settings.bayes_dims)})


@fig.data
def paths(settings: Any) -> xr.Dataset:
    """The oracle at its best λ while d and L grow, and Bayes beside it."""
    grids = np.geomspace(*settings.dims), np.geomspace(settings.dims[0], settings.close, 8)
    dims, close = (np.unique(grid.round().astype(int)).tolist() for grid in grids)

    def task(d: int, power: float) -> Task:
        length = max(2, round(d**power)) if power else settings.length
        return Task(d, length, settings.gamma2**0.5, settings.noise)

    powers, how = settings.paths.values(), {"draws": settings.draws // 8, "seed": settings.seed}
    best = [[best_lam(task(d, power)).excess for d in dims] for power in powers]
    least = [[bayes_risk(task(d, power), **how).excess for d in close] for power in powers]
    # Along L = d the excess tends to the least of γ² erfc(c/√2)² + (4/π)c².
    c = np.linspace(0.0, 2.0, 200_001)
    ends = settings.gamma2 * erfc(c / math.sqrt(2.0)) ** 2 + 4.0 / math.pi * c**2
    found = {"oracle": (("path", "dim"), best), "path_bayes": (("path", "near"), least)}
    found |= {"limit": float(np.min(ends))}
    return xr.Dataset(found, coords={"path": list(settings.paths), "dim": dims, "near": close})


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """Linear predictors against L, and the oracle against d."""
    linear = [
        theory(d.length, d.linear, "best linear, theory"),
        tokens(d.length, d.fitted, "least squares"),
        level(float(d.zero), label="zero predictor", zorder=2, **LAW),
    ]
    optimal = []
    for k, name in enumerate(d.path.values):
        here = d.sel(path=name)
        optimal.append(line(d.dim, here.oracle, f"oracle, L = {name}", k))
        optimal.append(theory(d.near, here.path_bayes, "", k))
    optimal += [entry("Bayes", color="0.3", **THEORY), level(float(d.limit), zorder=2, **LAW)]
    twos = [lambda axes: axes.set_xscale("log", base=2)]
    place = {"fontsize": 8.0, "loc": "lower left", "bbox_to_anchor": (0.13, 0.0)}
    own, y = [lambda axes: axes.legend(**place)], "excess risk"
    return drawn(
        Panel("$L$", y, linear, ylim=(0.3, 0.52), where="lower right", more=twos),
        Panel("$d$", y, optimal, log="xy", ylim=(1e-6, 1.0), legend=0, more=own),
    )


@fig.claim("new", "derived")
def linear(d):
    """The best linear predictor of all token entries has excess risk γ²(L−1)/(L−1+γ²) (largest
    relative gap of least squares on tokens)."""
    words = f"d = {settings_of(d).linear_dim}; the mean of the errors on the data of the fit and on"
    data, fields = settings_of(d).data, settings_of(d).linear_dim * float(d.length[-1])
    slack = 4.0 * math.sqrt(1.0 / data) + fields / data
    because = "four standard errors of a mean square of so many data, and entries/data for the fit"
    note = f"{words} new ones."
    return near(worst_ratio(d.fitted, d.linear), 0.0, slack, because=because, note=note)


@fig.claim("reported", "Proposition 3")
def linear_fails(d):
    """Linear predictors fail as L grows: least squares loses what predicting 0 loses (their ratio
    at the largest L)."""
    words = f"L = {int(d.length[-1])}; the gain is γ²/(L−1+γ²)."
    gain, data = float(1.0 - d.linear[-1] / d.zero), settings_of(d).data
    because = "what the best linear predictor gains there, and four standard errors"
    return near(
        d.fitted[-1] / d.zero, 1.0, gain + 4.0 / math.sqrt(data), because=because, note=words
    )


@fig.claim("check", "derived", word="bayes")
def bayes_optimum(d):
    """The Bayes predictor has the excess risk that importance sampling gives (largest gap on tokens
    in standard errors; L = 10)."""
    apart = abs(d.bayes_tokens - d.bayes) / d.bayes_error
    words = "; ".join(f"d = {int(x.bayes_dim)}: {float(x):.3g}" for x in d.bayes)
    return near(apart.max(), 0.0, 4.0, because="four standard errors", note=words)


@fig.claim("reported", "Corollary 2")
def optimal(d):
    """With L = o(d) the oracle at its best λ is asymptotically Bayes optimal: its excess risk tends
    to 0 along L = √d (at the largest d)."""
    here, bound = d.oracle.sel(path="√d"), math.log(float(d.dim[-1])) / math.sqrt(float(d.dim[-1]))
    words = f"d = {float(d.dim[-1]):.0e}; at d = {float(d.dim[0]):.0f} it is {float(here[0]):.2f}."
    because = "twice (L/d) log(d/L), that is log(d)/√d"
    return at_most(here[-1], 2.0 * bound, because=because, note=words)


@fig.claim("new", "derived")
def law(d):
    """It falls like (L/d) log(d/L): along L = √d with the slope of that law (difference of the
    log-log slopes in d over the last decade)."""
    dims = d.dim.values.astype(float)
    first = int(np.searchsorted(dims, dims[-1] / 10.0))
    both = d.oracle.sel(path="√d").values, np.log(dims) / np.sqrt(dims)
    across = np.log(dims[-1] / dims[first])
    slope, model = (float(np.log(y[-1] / y[first]) / across) for y in both)
    because = "1/log d, by which such a law is approached"
    slack = 1.0 / np.log(dims[-1])
    return near(slope - model, 0.0, slack, because=because, note=f"{slope:.3f} and {model:.3f}.")


@fig.claim("new", "derived")
def not_optimal(d):
    """Not so along L = d, where it tends to the least of γ² erfc(c/√2)² + (4/π)c² over c = λ√d (at
    the largest d)."""
    here = d.sel(path="d")
    words = f"{float(here.path_bayes[-1]):.1e} at d = L = {int(d.near[-1])}."
    words = f"d = {float(d.dim[-1]):.0e}. Bayes does tend to 0: {words}"
    because = "it is approached like 1/d"
    return near(here.oracle[-1], d.limit, 1e-3, because=because, note=words)
