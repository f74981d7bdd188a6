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
from ...style import LAW, THEORY, TOKENS, TRAINING
from .. import (
    Init,
    Isotropic,
    RotatedStructure,
    Spectrum,
    draw_spectra,
    loss_curve,
    optimum,
    train,
    train_brute,
)
from ..theory._flow import Flow
from ._rotated import seeds_gap

KINDS = ("iso", "rrs")
UNIT = {"x": math.sqrt(2.0), "q": 1.0, "k": 1.0, "v": 1.0}  # balanced weights
RUNS = {"plain": (1, 1), "step": (2, 1), "batch": (1, 2)}  # by what η is divided, B multiplied

fig = Figure(
    "deep_icl/full-attention",
    "Training the weights of full linear attention",
    settings={
        "quick": {
            "iso": {"dim": 8, "context": 8, "batch": 32, "depths": (4,)},
            "rrs": {"dim": 8, "context": 24, "batch": 32, "depths": (4,)},
            "steps": 100,
            "slower": 2,
            "seeds": 3,
            "contexts": 4000,
            "drift": {"dim": 8, "batch": 64, "steps": 120},
        },
        "default": {
            "iso": {"dim": 24, "context": 24, "batch": 32, "depths": (1, 4)},
            "rrs": {"dim": 20, "context": 60, "batch": 32, "depths": (1, 4)},
            "steps": 120,
            "slower": 4,
            "seeds": 4,
            "contexts": 8000,
            "drift": {"dim": 16, "batch": 32, "steps": 120},
        },
        "full": {
            "iso": {"dim": 128, "context": 128, "batch": 1024, "depths": (1, 2, 4, 8)},
            "rrs": {"dim": 80, "context": 256, "batch": 512, "depths": (1, 2, 4, 8, 16)},
            "steps": 1000,
            "slower": 1,
            "seeds": 3,
            "contexts": 8000,
            "drift": {"dim": 32, "batch": 128, "steps": 300},
        },
    },
    constants={
        "queries": 32,
        "listed": {"iso": (0.4, 0.1), "rrs": (0.45, 0.125)},  # w at the start, and η/√D
        "rotated": (1.25, 1.2),  # ν and β on tokens
        "nu": 1.5,  # of laws
        "beta": 0.8,
        "begin": 0.3,
        "many": 10**8,
        "products": (1, 2, 3, 7),
        "layers": (4, 16, 64, 256),
        "uneven": (0.7, 0.4, 0.6, 0.5),
    },
    note=(
        "γ = w_x² w_q w_k w_v with all four trained, from balanced weights (√2 w, w, w, w); t is "
        "the time of these numbers, η/D a step. Listed runs: ISO D = P = 128, 1024 contexts a "
        "step, η = 0.1√D, w = 0.4; RRS D = 80, P = 256, 512 contexts, η = 0.125√D, w = 0.45; 1000 "
        "steps, the full size. Else D and contexts are fewer, and steps 4 times as short and as "
        "many, as the noise of few contexts moves the weights. Solid lines descend the mean loss "
        "of drawn contexts, which is exact at this D; dashed ones are the flow at large D."
    ),
)


def _task(settings: Any, kind: str) -> Isotropic | RotatedStructure:
    size = getattr(settings, kind)
    if kind == "iso":
        alpha = size["context"] / size["dim"]
        return Isotropic(alpha, dim=size["dim"], queries=settings.queries)
    more = {"context": size["context"], "queries": settings.queries}
    return RotatedStructure(*settings.rotated, size["dim"], **more)


def _descended(settings: Any, task: Any, depth: int, begin: float, pace: float, marks: Any) -> Any:
    """γ and 𝓛 of balanced weights, w ← w − 2w⁴𝓛'(γ)η, on the mean loss of drawn contexts."""
    spectra = draw_spectra(task, settings.contexts, seed=settings.seed)

    def mean(gamma: np.ndarray) -> np.ndarray:
        return spectra.loss(gamma=gamma, depth=depth).mean(axis=-1)

    high = 1.2 * float(optimum(task, depth).gamma)
    curve = Chebyshev.interpolate(mean, 2 * depth, domain=[0.0, high])  # it is a polynomial
    slope, w, gammas = curve.deriv(), begin, []
    for n in range(int(marks[-1]) + 1):
        gammas.append(2.0 * w**5)
        w -= 2.0 * pace * w**4 * float(slope(gammas[n]))
    return np.asarray(gammas)[marks], curve(np.asarray(gammas)[marks])


def _trained(task: Any, begin: float, rate: float, seeds: range, **how: Any) -> list[Any]:
    """Attention on fresh contexts, once a seed."""
    how |= {"lr": rate * math.sqrt(task.dim), "time": "matrix", "progress": step}
    return [train_brute(task, Init(weights=begin), seed=seed, **how) for seed in seeds]


@fig.data
def paths(settings: Any) -> xr.Dataset:
    """Tokens, and balanced weights, from the same start at the same steps."""
    kinds, seeds = [], range(settings.seed, settings.seed + settings.seeds)
    count = settings.steps * settings.slower
    for kind in KINDS:
        size, task, rows = getattr(settings, kind), _task(settings, kind), []
        begin, rate = settings.listed[kind]
        rate /= settings.slower
        how = {"steps": count, "contexts": size["batch"], "log_every": count // 20}
        for depth in size["depths"]:
            runs = _trained(task, begin, rate, seeds, depth=depth, **how)
            marks, pace = np.asarray(runs[0].step), rate / math.sqrt(size["dim"])
            gamma, loss = _descended(settings, task, depth, begin, pace, marks)
            flow = loss_curve(task, pace * marks, depth, start=Init(weights=begin))
            found = {"drawn_gamma": gamma, "drawn_loss": loss, "flow": np.asarray(flow)}
            found |= {"time": pace * marks}
            each = {"tokens_gamma": "gamma", "tokens_loss": "loss", "weights": "weights"}
            many = {n: np.stack([getattr(run, x) for run in runs]) for n, x in each.items()}
            dims = {2: ("run", "step"), 3: ("run", "weight", "step")}
            data = {name: ("step", row) for name, row in found.items()}
            data |= {name: (dims[row.ndim], row) for name, row in many.items()}
            rows.append(xr.Dataset(data, coords={"step": marks, "weight": list(UNIT)}))
        kinds.append(xr.concat(rows, xr.IndexVariable("depth", list(size["depths"]))))
    return xr.concat(kinds, xr.IndexVariable("kind", list(KINDS)), join="outer")


@fig.data
def drift(settings: Any) -> xr.Dataset:
    """One layer on tokens with another step and another number of contexts: w_k² − w_v²."""
    size, found = settings.drift, []
    task = Isotropic(1.0, dim=size["dim"], queries=settings.queries)
    begin, rate = settings.listed["iso"]
    seeds = range(settings.seed, settings.seed + settings.seeds)
    for slower, more in RUNS.values():
        count, batch = size["steps"] * slower, size["batch"] * more
        how = {"depth": 1, "steps": count, "contexts": batch, "log_every": count // 20}
        runs = _trained(task, begin, rate / slower, seeds, **how)
        squares = np.stack([np.asarray(run.weights) for run in runs]) ** 2
        found.append(squares[:, 2:])
    k, v = np.moveaxis(np.asarray(found), 2, 0)
    dims, time = ("how", "run", "drift_time"), np.linspace(0.0, 1.0, 21) * size["steps"]
    coords = {"how": list(RUNS), "drift_time": time * rate / math.sqrt(size["dim"])}
    return xr.Dataset({"apart": (dims, k - v), "drift_square": (dims, k)}, coords)


@fig.data
def invariants(settings: Any) -> xr.Dataset:
    """Weights that are not balanced, with a step and with a quarter of it."""
    task, rows = RotatedStructure(settings.nu, settings.beta, 256), []
    for part in (1, 4):
        how: dict[str, Any] = {"depth": 4, "lr": 0.02 / part, "steps": 1000 * part}
        run = train(task, Init(weights=settings.uneven), log_every=20 * part, **how)
        rows.append(np.asarray(run.weights) ** 2)
    squares = np.asarray(rows) / np.asarray(list(UNIT.values()))[:, None] ** 2
    coords = {"part": [1, 4], "weight": list(UNIT), "uneven_time": 0.4 * np.arange(51)}
    return xr.Dataset({"squares": (("part", "weight", "uneven_time"), squares)}, coords)


@fig.data
def laws(settings: Any) -> xr.Dataset:
    """The loss of many endlessly deep directions: of four weights, and of γ = w^m."""
    spectrum = Spectrum.power(settings.nu, settings.beta, settings.many)
    lam, share, begin = np.asarray(spectrum.lam), np.asarray(spectrum.share), settings.begin
    t = np.geomspace(1.0, 1e8, 65)
    four = loss_curve(
        RotatedStructure(spectrum=spectrum), t, None, start=Init(weights=begin)
    )

    def fall(gamma: np.ndarray, m: int) -> np.ndarray:
        """dγ/dt = (dγ/dw)² (−𝓛')."""
        left = np.exp(-2.0 * gamma[:, None] * lam) @ (2.0 * share * lam)
        return m**2 * gamma ** (2.0 - 2.0 / m) * left

    rows = []
    for m in settings.products:
        gamma = Flow(lambda g, m=m: fall(g, m), begin**m, math.inf, 1.0).gamma(t)
        rows.append(np.exp(-2.0 * gamma[:, None] * lam) @ share)
    found = {"four": ("late", np.asarray(four)), "power": (("m", "late"), np.asarray(rows))}
    return xr.Dataset(found, coords={"m": list(settings.products), "late": t})


@fig.data
def ends(settings: Any) -> xr.Dataset:
    """Where descent of four weights ends at every depth, and the least loss over γ."""
    layers = list(settings.layers)
    spectrum = Spectrum.power(settings.nu, settings.beta, settings.many)
    task = RotatedStructure(spectrum=spectrum)
    how: dict[str, Any] = {"lr": 0.3, "steps": 6000, "log_points": 5}
    begin = Init(weights=settings.begin)
    end = [float(train(task, begin, depth=depth, **how).loss[-1]) for depth in layers]
    found = {"end": ("layers", end), "least": ("layers", np.asarray(optimum(task, layers).loss))}
    return xr.Dataset(found, coords={"layers": layers})


FIGURE = fig
