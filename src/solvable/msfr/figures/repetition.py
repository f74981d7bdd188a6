"""Data gone through again and again: what repetition costs, and what sums of two laws miss."""

from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, Finding, at_most, near, settings_of, step, worst_ratio
from ...reproduce.panels import Mark, Panel, drawn, entry, law, level, line, theory, tokens
from ...style import LAW, THEORY, TOKENS, colour
from .. import Init, SoftmaxInit, Task, data_law, loss, repetition, size_law, time_law, train
from ..theory import additive_in_size
from ._labels import all_labelled, of_label
from ._witness import claim_tokens, on_tokens

ERRORS = 4.0  # standard errors that a mean may be off
_MANY = "the largest of a few means over seeds, each off by 3 standard errors once in 400"
SOFTMAX = {"value": 0.1, "key": 0.1, "query": 0.11, "width": 501}  # u = 8.3: saturated

fig = Figure(
    "msfr/repetition",
    "What it costs to go through the same data again",
    settings={
        "quick": {"clocks": 8, "seeds": 8, "data": (40, 160), "trained_tasks": 2000},
        "default": {"clocks": 16, "seeds": 16, "data": (40, 160, 640), "trained_tasks": 5000},
        "full": {
            "clocks": 32,
            "seeds": 64,
            "data": (40, 160, 640, 2560),
            "trained_tasks": 20_000,
        },
    },
    constants={
        "alphas": (1.8, 2.5),
        "context": 100.0,
        "strength": 0.5,
        "init": (0.1, 0.11),
        "num_tasks": 10**12,
        "many_data": 10**4,
        "range": (0.01, 30.0),
        "lr": 2e-3,
        "times": (0.25, 1.0, 4.0),
    },
    note=(
        "Not in the paper. ψ = 100, Λ = 0.5, v = 0.1, w = 0.11 at the start (106), exact flow. "
        "c = ψ(1 + Λ²)t/N is how far one datum alone brings its task. Dots: binomial averages over "
        "data sets of N = 10⁴ at S = 10¹². Bars: gradient descent (lr 2e-3) on data sets drawn "
        "from thousands of tasks, at t = ¼, 1 and 4: mean over seeds and its standard error. Who "
        "fits E + A/N^a + B/t^b to a loss of this kind fits a form that is off by more than half "
        "where both matter."
    ),
)


def _task(settings: Any, num_tasks: int, alpha: float) -> tuple[Task, Init]:
    return Task(num_tasks, alpha, settings.context, settings.strength), Init(*settings.init)


def _pace(settings: Any) -> float:
    """``ψ(1 + Λ²)``, of which c is t/N times."""
    return settings.context * (1.0 + settings.strength**2)


def _grid(settings: Any) -> np.ndarray:
    """Clocks at which sums are taken."""
    low, high = settings.range
    return np.geomspace(low, high, settings.clocks)


@fig.data
def tokens_of_one_set(settings: Any) -> xr.Dataset:
    """One data set on tokens."""
    task = Task(20, 1.8, 20.0, settings.strength)
    how = {"lr": 5e-3, "steps": 300, "data": 30, "log_every": 10}
    return on_tokens(task, Init(*settings.init), **how)


@fig.data
def ratios(settings: Any) -> xr.Dataset:
    """Φ, its limits, and how far sums of two laws are off."""
    return all_labelled({str(alpha): _ratios(settings, alpha) for alpha in settings.alphas})


def _ratios(settings: Any, alpha: float) -> xr.Dataset:
    task, init = _task(settings, settings.num_tasks, alpha)
    c = np.geomspace(1e-3, 100.0, 121)
    found = repetition(task, init, c, "exact")
    y = np.geomspace(1e-3, 100.0, 41)
    return xr.Dataset(
        {
            "ratio": ("clock", found.ratio),
            "sum_in_data": ("clock", found.additive),
            "slope": found.slope,
            "amplitude": found.amplitude,
            "crossover": found.crossover,
            "sum_in_size": ("cut", additive_in_size(task, init, y, "exact")),
        },
        coords={"clock": c, "cut": y},
    )


@fig.data
def sums(settings: Any, ratios: xr.Dataset) -> xr.Dataset:
    """Exact losses with limited data, and with limited size, beside those with one limit alone.

    The last point is where a sum of two laws is worst.
    """
    parts = {str(x): _sums(settings, x, of_label(ratios, str(x))) for x in settings.alphas}
    return all_labelled(parts)


def _sums(settings: Any, alpha: float, get: Any) -> xr.Dataset:
    task, init = _task(settings, settings.num_tasks, alpha)
    grid, data = _grid(settings), settings.many_data
    c = np.append(grid, get("clock")[get("sum_in_data").argmax()])
    y = np.append(grid, get("cut")[get("sum_in_size").argmax()])
    early = c * data / _pace(settings)
    # The law in size is one in D − ½.
    late = y * (data - 0.5) ** alpha / (float(task.normaliser) * _pace(settings))
    end = data_law(task, init, "exact").loss(np.asarray(float(data)))
    cut = size_law(task, init, "exact").loss(np.asarray(float(data)))
    limited, unlimited = (np.asarray(loss(task, init, early, data=n)) for n in (data, None))
    small, whole = (np.asarray(loss(task, init, late, size=n)) for n in (data, None))
    return xr.Dataset(
        {
            "measured": ("sum_clock", limited / unlimited),
            "law": ("sum_clock", repetition(task, init, c, "exact").ratio),
            "both_in_data": ("sum_clock", (unlimited + end) / limited),
            "both_in_size": ("sum_cut", (whole + cut) / small),
        },
        coords={"sum_clock": c, "sum_cut": y},
    )


@fig.data
def exponential(settings: Any) -> xr.Dataset:
    """Softmax attention with keys at rest, whose tasks are learned exponentially."""
    alpha, data = settings.alphas[0], settings.many_data
    task = _task(settings, settings.num_tasks, alpha)[0]
    init = SoftmaxInit(**SOFTMAX)
    y = _grid(settings)
    t = y * data / (2.0 * (1.0 + settings.strength**2))
    ratio = np.asarray(loss(task, init, t, data=data)) / np.asarray(loss(task, init, t))
    return xr.Dataset({"softmax": ("exponent", ratio)}, coords={"exponent": y})


@fig.data
def trained(settings: Any) -> xr.Dataset:
    """Data sets drawn and trained on."""
    return all_labelled({str(alpha): _trained(settings, alpha) for alpha in settings.alphas})


def _trained(settings: Any, alpha: float) -> xr.Dataset:
    task, init = _task(settings, settings.trained_tasks, alpha)
    at = [round(t / settings.lr) for t in settings.times]
    every = {"log_every": at[0], "steps": at[-1]}  # times are whole multiples of the first
    losses = []
    for k, data in enumerate(settings.data):
        seeds = tuple(range(settings.seed, settings.seed + settings.seeds))
        run = train(task, init, lr=settings.lr, data=data, seed=seeds, **every)
        losses.append(np.asarray(run.loss)[:, np.searchsorted(run.step, at)])
        step(k + 1, len(settings.data))
    t, n = np.asarray(settings.times), np.asarray(settings.data)[:, None]
    clock = _pace(settings) * t[None, :] / n
    limited = [np.asarray(loss(task, init, t, data=data)) for data in settings.data]
    return xr.Dataset(
        {
            "trained": (("data", "run", "time"), np.stack(losses)),
            "flow": ("time", np.asarray(loss(task, init, t))),
            "limited_flow": (("data", "time"), np.stack(limited)),
            "trained_clock": (("data", "time"), clock),
            "expected": (("data", "time"), repetition(task, init, clock, "exact").ratio),
        },
        coords={"data": list(settings.data), "time": t},
    )


@fig.data
def curves(settings: Any) -> xr.Dataset:
    """L(t) for a few N, and the sum of the two laws, at the first α."""
    task, init = _task(settings, settings.num_tasks, settings.alphas[0])
    t, counts = np.geomspace(0.03, 3000.0, 41), np.asarray([10**2, 10**3, 10**4])
    found = time_law(task, init, "exact").loss(t), data_law(task, init, "exact").loss(counts * 1.0)
    ratio = repetition(task, init, _pace(settings) * t[None, :] / counts[:, None], "exact").ratio
    return xr.Dataset(
        {
            "curve": (("curve_data", "curve_time"), ratio * found[0][None, :]),
            "in_time": ("curve_time", found[0]),
            "in_data": ("curve_data", found[1]),
        },
        coords={"curve_time": t, "curve_data": counts},
    )


def _bars(x: np.ndarray, y: np.ndarray, error: np.ndarray, k: int) -> Mark:
    look = {"fmt": "s", "markersize": 3.0, "color": colour(k), "elinewidth": 0.9, "capsize": 1.8}
    return Mark(lambda axes: axes.errorbar(x, y, error, **look))


def _mean(get: Any) -> tuple[np.ndarray, np.ndarray]:
    """L(t, N)/L(t, ∞) of trained data sets over seeds, and its standard error; (data, time)."""
    ratio = get("trained") / get("flow")
    return ratio.mean(axis=1), ratio.std(axis=1, ddof=1) / np.sqrt(ratio.shape[1])


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """(a) losses in time, (b) all of them as one function, (c) how far sums of two laws are off."""
    settings = settings_of(d)
    t = d.curve_time.values
    losses = []
    for k, count in enumerate(d.curve_data.values):
        both = d.in_time.values + float(d.in_data.values[k])
        losses += [
            line(t, d.curve.values[k], rf"$N = 10^{round(np.log10(count))}$", k),
            theory(t, both, k=k, linewidth=0.9),
        ]
    losses += [
        line(t, d.in_time.values, r"$N = \infty$", color="0.4", linewidth=1.0),
        entry("sum of the two laws", color="0.3", **THEORY),
    ]
    collapse, wrong = [], [level(1.0)]
    for k, alpha in enumerate(settings.alphas):
        get = of_label(d, str(alpha))
        c, word = get("clock"), rf"$\alpha = {alpha}$"
        power = 1.0 - 1.0 / alpha
        mean, error = _mean(get)
        below, above = c < 1.2 * get("crossover"), c > 0.25 * get("crossover")
        collapse += [
            line(c, get("ratio"), rf"$\Phi$, {word}", k, linewidth=1.2),
            law(c[below], 1.0 + get("slope") * c[below]),
            law(c[above], get("amplitude") * c[above] ** power),
            tokens(get("sum_clock"), get("measured"), k=k),
            _bars(get("trained_clock").ravel(), mean.ravel(), error.ravel(), k),
        ]
        wrong += [
            line(c, get("sum_in_data"), rf"time and data, {word}", k, linewidth=1.2),
            tokens(get("sum_clock"), get("both_in_data"), k=k),
            theory(get("cut"), get("sum_in_size"), rf"time and size, {word}", k),
            tokens(get("sum_cut"), get("both_in_size"), k=k),
        ]
    collapse += [
        entry("its limits", **LAW),
        entry("exact sums", color="0.3", **TOKENS),
        Mark(
            lambda axes: axes.errorbar([], [], [], fmt="s", color="0.3", markersize=3.0, label="GD")
        ),
    ]
    return drawn(
        Panel("$t$", "$L$", losses, log="xy", title=rf"$\alpha = {settings.alphas[0]}$"),
        Panel(
            r"$c = \psi(1 + \Lambda^2)\,t/N$",
            r"$L(t, N)/L(t, \infty)$",
            collapse,
            log="xy",
            xlim=(3e-3, 50.0),
            ylim=(0.9, 40.0),
            legend=7.0,
        ),
        Panel(
            r"$c$, or $k\,t\,D^{-\alpha}$",
            "sum of two laws / loss",
            wrong,
            log="x",
            xlim=(1e-3, 100.0),
            ylim=(0.98, 1.9),
            legend=7.0,
        ),
    )


@fig.claim("new", "exact binomial sums", word="ratio-{x}", over="alphas")
def follows(d, x):
    """L(t, N)/L(t, ∞) is one function Φ of c = ψ(1+Λ²)t/N from c = 0.01 to 30: binomial sums over
    10¹² tasks at N = 10⁴ are Φ, α = {x} (largest relative gap)."""
    get, delta = of_label(d, str(x)), 1.0 / x
    slack = (1.0 - delta) * (2.0 - delta) / settings_of(d).many_data
    because = "counts are binomial, not Poisson: (1−δ)(2−δ)/2N, and as much again for S and N"
    return near(worst_ratio(get("measured"), get("law")), 0.0, slack, because=because)


@fig.claim("check", "training on data sets", word="trained-{x}", over="alphas")
def is_trained(d, x):
    """Gradient descent on drawn data sets has the loss of the binomial average at every N and t,
    α = {x} (largest distance in standard errors of the mean over seeds)."""
    get = of_label(d, str(x))
    mean, error = _mean(get)
    true = get("limited_flow") / get("flow")
    words = (
        f"Φ itself, of infinitely many tasks and data, is {worst_ratio(true, get('expected')):.1%}"
    )
    off = np.abs(mean - true) / error
    return at_most(off.max(), ERRORS, because=_MANY, note=f"{words} off at most.")


@fig.claim("new", "exact binomial sums", over="alphas")
def tenth(d, x):
    """Going through the data again costs a tenth of the loss at c near 0.05: binomial sums are 1.1
    where Φ is, α = {x} (relative gap of c)."""
    get = of_label(d, str(x))
    found = _crossing(get("sum_clock")[:-1], get("measured")[:-1])
    true = _crossing(get("clock"), get("ratio"))
    words = f"At c = {true:.4f}; the slope at 0 alone says {0.1 / float(get('slope')):.4f}."
    because = "the sums are interpolated, in log c and log(Φ − 1)"
    return near(found / true - 1.0, 0.0, 0.02, because=because, note=words)


def _crossing(c: np.ndarray, ratio: np.ndarray) -> float:
    return float(np.exp(np.interp(np.log(0.1), np.log(ratio - 1.0), np.log(c))))


@fig.claim("new", "softmax attention with keys at rest")
def exponential_tasks(d):
    """Of tasks that are learned exponentially, as in saturated softmax attention, Φ is
    [y/(1−e^−y)]^(1−1/α), y = 2μt/N: binomial sums (largest relative gap)."""
    y, power = d.exponent.values, 1.0 - 1.0 / settings_of(d).alphas[0]
    because = "the context's attention is not all: a second, slow mode has 10⁻⁴ of the loss"
    true = (y / -np.expm1(-y)) ** power
    return near(worst_ratio(d.softmax, true), 0.0, 1e-3, because=because)


@fig.claim("new", "exact binomial sums", word="sum-in-data-{x}", over="alphas")
def data_adds(d, x):
    """A sum of the laws in time and in data overstates the loss by half and more where both matter,
    α = {x}: (L(t, ∞) + L(∞, N))/L(t, N) of exact sums where Φ has it at its largest."""
    return _worst(of_label(d, str(x)), "both_in_data", "sum_in_data", "sum_clock", "c")


@fig.claim("new", "exact sums", word="sum-in-size-{x}", over="alphas")
def size_adds(d, x):
    """A sum of the laws in time and in size does likewise, α = {x}: (L(t, ∞) + L(∞, D))/L(t, D) of
    exact sums where that of the laws' limit S = ∞ is at its largest."""
    return _worst(of_label(d, str(x)), "both_in_size", "sum_in_size", "sum_cut", "k t D^−α")


def _worst(get: Any, measured: str, law: str, at: str, word: str) -> Finding:
    because = "N, D and S are finite: 1/N, and (D/S)^(α−1)"
    words = f"At {word} = {float(get(at)[-1]):.3f}."
    return near(get(measured)[-1], get(law).max(), 2e-3, because=because, note=words)


claim_tokens(fig, "App. I", "N = 30 data")
