"""Training at all context lengths at once: one length stands for them, and where it does not."""

import math
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, near, settings_of, step, worst_ratio
from ...reproduce.panels import Mark, Panel, drawn, entry, level, line, theory, training, upright
from ...reproduce.panels import tokens as points
from ...style import colour
from .. import (
    Sequences,
    Task,
    converged_map,
    crossing_times,
    loss,
    merged,
    mid_levels,
    plateau_levels,
    plateau_losses,
    sample,
    separate,
    softmax_modes,
    statistics,
    train,
    train_brute,
)
from ._seeds import beyond, mean_of

SOFTMAX: Any = {"attention": "softmax"}
DIVIDED = ("n", "n-1")  # what the output is divided by: the tokens with the query, or without

fig = Figure(
    "shallow_icl/lengths",
    "Contexts of varied length",
    settings={
        "quick": {"data": (4000, 8), "softmax": (200, 3)},
        "default": {"data": (20000, 16), "softmax": (600, 4)},
        "full": {"data": (80000, 40), "softmax": (4000, 6)},
    },
    constants={
        "task": {"dim": 4, "context": 31},
        "fresh": 5,  # data sets that a trained model is tested on
        "separate": {"heads": 5, "scale": 1e-2, "lr": 0.2, "steps": 200_000, "points": 800},
        "merged": {"heads": 8, "scales": (1e-5, 1e-4), "lr": 0.1, "steps": 4000, "every": 5},
        "growth": {"context": 12, "heads": 8, "scale": 1e-6, "lr": 0.1, "steps": 30},
        "tokens": {"dim": 2, "context": 5, "sequences": 20, "lr": 0.05, "steps": 200, "seeds": 3},
    },
    note=(
        "Every sequence is asked at every length m = 1 … N of its context, and the loss is the "
        "mean over them; the published code has this as an option. D = 4, N = 31; linear "
        "attention with zero blocks, on data sets closed under w → −w, a data set a run. The "
        "output is divided by n = m + 1, the tokens seen, as in that code, or by n − 1 = m. "
        "Divided by m, β has the mean Λw at every length and a covariance linear in 1/m: all "
        "formulas of a fixed length hold with N_eff = N/(1 + ½ + … + 1/N) = 7.70 in the place of "
        "N. Divided by m + 1, short contexts are shrunk, as they should be: the loss is less, and "
        "no one length does it. (a) Across: plateaus by theory. (b) Circles: mean over data sets, "
        "on fresh sequences; grey: the loss of linear attention that is trained at each length "
        "alone; upright: N_eff. (c) Softmax attention, N = 12, which has no such moments and is "
        "trained on tokens."
    ),
)


def _task(settings: Any, divided: str) -> Task:
    return Task(**settings.task, lengths="varied", normalise=divided)


def _joined(parts: list[list[dict[str, Any]]], dims: tuple[str, str]) -> xr.Dataset:
    """Data sets along the second dimension, for every case along the first."""
    rows = [xr.concat([xr.Dataset(one) for one in row], dim=dims[1]) for row in parts]
    return xr.concat(rows, dim=dims[0])


def _asked(data: Sequences, best: np.ndarray, divided: str) -> np.ndarray:
    """The loss of ŷ = βᵀ M x_q at every length, on tokens."""
    x, y, target = (np.asarray(part) for part in (data.x, data.y[..., 0], data.target[..., 0]))
    by = np.arange(1, x.shape[1]) + (divided == "n")
    beta = np.cumsum(y[:, :-1, None] * x[:, :-1], axis=1) / by[:, None]
    guess = np.einsum("pmd,de,pme->pm", beta, best, x[:, 1:])
    return np.mean((guess - target[:, 1:]) ** 2, axis=0)


@fig.data
def linear(settings: Any) -> xr.Dataset:
    """Separate and merged attention at all lengths, for both divisors and every data set."""
    (count, sets), slow, fast = settings.data, settings.separate, settings.merged
    parts, rising = [], None
    for divided in DIVIDED:
        task, row = _task(settings, divided), []
        middle = mid_levels(task)
        for seed in range(sets):
            data = sample(task, count, seed=settings.seed + seed, antithetic=True)
            moments = statistics(data, "zero")
            how: Any = {"blocks": "zero", "seed": settings.seed + seed, "progress": step}
            start = separate(slow["heads"], 1, slow["scale"])
            how_long = {"steps": slow["steps"], "log_points": slow["points"]}
            climbed = train(moments, start, lr=slow["lr"], **how_long, **how)
            seen = np.append(plateau_levels(climbed.step, climbed.loss, middle), climbed.loss[-1])
            how |= {"lr": fast["lr"], "steps": fast["steps"], "log_every": fast["every"]}
            runs = [train(moments, merged(fast["heads"], s), **how) for s in fast["scales"]]
            half = [
                crossing_times(run.step, run.loss, [0.5 * float(run.loss[0] + run.loss[-1])])[0]
                for run in runs
            ]
            best = np.asarray(runs[-1].map)[..., -1]
            first = settings.seed + 1000 * (1 + seed)
            fresh = [sample(task, count, seed=first + k) for k in range(settings.fresh)]
            rising = climbed.step
            found: dict[str, Any] = {"climbed": ("step", np.asarray(climbed.loss))}
            found |= {"seen": ("plateau", seen), "half": ("scale", half)}
            found |= {"learned": (("row", "column"), best)}
            asked = [_asked(one, best, divided) for one in fresh]
            found["asked"] = (("fresh", "length"), np.stack(asked))
            row.append(found)
        parts.append(row)
    lengths = np.arange(1, settings.task["context"] + 1)
    places = {"step": rising, "length": lengths, "divided": list(DIVIDED)}
    return _joined(parts, ("divided", "set")).assign_coords(places)


@fig.data
def told(settings: Any) -> xr.Dataset:
    """Plateaus, and the loss at every length, by theory."""
    lengths = np.arange(1, settings.task["context"] + 1)
    alone = [Task(**(settings.task | {"context": int(m)})) for m in lengths]
    found: list[xr.Dataset] = []
    for divided in DIVIDED:
        task = _task(settings, divided)
        best = np.asarray(converged_map(task))
        shrunk = lengths / (lengths + 1.0) if divided == "n" else np.ones(len(lengths))
        at = [float(loss(one, s * best)) for one, s in zip(alone, shrunk, strict=True)]
        levels = ("floor", np.asarray(plateau_losses(task)))
        found.append(xr.Dataset({"levels": levels, "asked_told": ("length", at)}))
    least = [float(plateau_losses(one)[-1]) for one in alone]
    both: xr.Dataset = xr.concat(found, dim="divided")
    return both.assign(least=("length", least), spectrum=("row", np.asarray(alone[0].eigenvalues)))


@fig.data
def softmax(settings: Any) -> xr.Dataset:
    """The differences between heads of softmax attention as they grow from a small start."""
    (count, sets), how, found = settings.softmax, settings.growth, []
    task = Task(settings.task["dim"], how["context"], lengths="varied")
    start, steps = merged(how["heads"], how["scale"], **SOFTMAX), np.zeros(0)
    for seed in range(sets):
        data = sample(task, count, seed=settings.seed + seed)
        modes = softmax_modes(data, how["heads"])
        seeds = {"seed": settings.seed + seed, "progress": step}
        run = train(data, start, lr=how["lr"], steps=how["steps"], log_every=5, **seeds)
        between, _ = modes.along(run.value, run.key_query)
        steps = run.step
        rate = math.log1p(2.0 * how["lr"] * modes.apart)
        size = ("grown_step", np.linalg.norm(between, axis=0))
        found.append(xr.Dataset({"between": size, "rate": rate}))
    return xr.concat(found, dim="grown").assign_coords(grown_step=steps)


@fig.data
def witnesses(settings: Any) -> xr.Dataset:
    """Small models on tokens, where what a length does not show is hidden, and in reduced form."""
    given = settings.tokens
    seeds = list(range(settings.seed, settings.seed + given["seeds"]))
    how = {"lr": given["lr"], "steps": given["steps"], "log_every": 5, "seed": seeds}
    cases = {
        "merged, m + 1": ("n", merged(2, 0.3)),
        "separate, m": ("n-1", separate(2, 2, 0.3)),
        "softmax": ("n", merged(2, 0.3, **SOFTMAX)),
    }
    losses = []
    for divided, start in cases.values():
        task = Task(given["dim"], given["context"], lengths="varied", normalise=divided)
        data = sample(task, given["sequences"])
        losses.append([np.asarray(each(data, start, **how).loss) for each in (train_brute, train)])
    names = {"model": list(cases), "witness": ["tokens", "reduced"]}
    return xr.Dataset({"token_loss": (("model", "witness", "weights", "checked"), losses)}, names)


def _effective(settings: Any) -> float:
    """N_eff."""
    return 1.0 / float(np.mean(1.0 / np.arange(1, settings.task["context"] + 1)))


def _climbs(d: xr.Dataset) -> list[Mark]:
    """Losses of separate attention, and the plateaus."""
    found: list[Mark] = []
    for k, divided in enumerate(DIVIDED):
        one = d.sel(divided=divided)
        look: Any = {"color": colour(k), "linestyle": "--"}
        found += [level(x, **look) for x in one.levels.values[1:]]
        for n, climbed in enumerate(one.climbed.values[:3]):
            word = "" if n else f"divided by ${divided}$"
            found.append(training(d.step[1:], climbed[1:], word, k, linewidth=1.3))
    return found


def _by_length(d: xr.Dataset) -> list[Mark]:
    """The loss at every length."""
    found: list[Mark] = [line(d.length, d.least, "trained at it alone", color="0.6")]
    for k, divided in enumerate(DIVIDED):
        one = d.sel(divided=divided)
        word = f"at all, divided by ${divided}$"
        found.append(points(d.length, one.asked.mean(("set", "fresh")), word, k, markersize=3.5))
        found.append(theory(d.length, one.asked_told, color="black", linewidth=0.9))
    found.append(entry("theory", linestyle="--", color="black", linewidth=0.9))
    return [*found, upright(_effective(settings_of(d)))]


def _growths(d: xr.Dataset) -> list[Mark]:
    """Softmax attention's heads as they part."""
    found: list[Mark] = []
    for n in range(d.sizes["grown"]):
        one = d.isel(grown=n)
        alone = float(one.between[0]) * np.exp(float(one.rate) * d.grown_step.values)
        found.append(training(d.grown_step, one.between, "" if n else "softmax on tokens", 0))
        word = "" if n else "linearised"
        found.append(theory(d.grown_step, alone, word, color="black", linewidth=0.9))
    return found


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """Losses and plateaus of separate attention, the loss at every length, and softmax's growth."""
    power = round(math.log10(settings_of(d).growth["scale"]))
    size, apart = "differences between heads", f"merged softmax, scale $10^{{{power}}}$"
    separate_, length = "separate, three data sets", "length of the context"
    begun = (300.0, float(d.step[-1]))
    return drawn(
        Panel("step", "$L$", _climbs(d), log="x", title=separate_, xlim=begun, where="upper right"),
        Panel(length, "$L$", _by_length(d), log="xy", title="merged, by length"),
        Panel("step", size, _growths(d), log="y", title=apart),
    )


STUDENT = "99 in 100, Student's t over data sets"


def _mean(values: np.ndarray) -> tuple[float, float]:
    """Mean over data sets, and how far off it may be."""
    mean, error = mean_of(values)
    return float(mean), beyond(len(values)) * float(error)


@fig.claim("new", "derived", over=DIVIDED)
def plateaus(d, x):
    """Separate attention trained at all lengths, divided by {x}, rests at the plateaus of the
    mixture, and ends at the last (gap of a plateau, median over data sets, the one of four that is
    furthest off by its error)."""
    # Fails, by 0.06 to 0.24, if N stood where the mean over lengths stands.
    one = d.sel(divided=x)
    told, seen = one.levels.values[1:], one.seen.transpose("plateau", "set").values
    # A run that two heads grow together in, or that has not come so far, is infinitely far off.
    gap = np.median(np.where(np.isnan(seen), np.inf, seen), axis=1) - told
    # A median is 1.25 times as uncertain as a mean.
    error = 1.25 * np.nanstd(seen, axis=1, ddof=1) / d.sizes["set"] ** 0.5
    far, most = int(np.argmax(np.abs(gap / error))), beyond(d.sizes["set"], len(told))
    rows = zip(gap + told, told, error, strict=True)
    words = ", ".join(f"{x:.4f} ({y:.4f} ± {e:.4f})" for x, y, e in rows)
    because = "the furthest of four, 99 in 100, Student's t over data sets"
    words = f"Seen, by theory and with its standard error: {words}; "
    words += f"{int(np.isnan(seen).any(axis=0).sum())} of {d.sizes['set']} runs lack one."
    return near(gap[far], 0.0, most * error[far], because=because, note=words)


@fig.claim("new", "derived")
def one_length(d):
    """Divided by n − 1, what is learned is M* = (Λ + (Λ + tr Λ)/N_eff)⁻¹, N_eff = N/Σ_m 1/m (N that
    the diagonal of M tells, over N_eff)."""
    # Fails if another mean stood for all lengths: the arithmetic one is 2.1 times N_eff.
    lam = d.spectrum.values
    learned = np.diagonal(d.learned.sel(divided="n-1").values, axis1=1, axis2=2)
    inverse = np.mean((1.0 / (lam * learned) - 1.0) / (1.0 + 1.0 / lam), axis=1)
    found, slack = _mean(inverse * _effective(settings_of(d)))
    words = f"N_eff = {_effective(settings_of(d)):.4f}."
    return near(1.0 / found, 1.0, slack, because=STUDENT, note=words)


def _decades(d: xr.Dataset, divided: str) -> np.ndarray:
    """The rate that a decade of the start's scale tells, on every data set."""
    how, half = settings_of(d).merged, d.half.sel(divided=divided).values
    steps = (half[:, 0] - half[:, 1]) / math.log10(how["scales"][1] / how["scales"][0])
    return np.expm1(math.log(10.0) / steps) / (2.0 * how["lr"])


@fig.claim("new", "derived")
def decade(d):
    """Divided by n − 1, merged attention leaves a small start as at any fixed length: a decade of
    its scale takes ln 10/‖Λ²‖_F (rate over ‖Λ²‖_F)."""
    lam = d.spectrum.values
    found, slack = _mean(_decades(d, "n-1") / float(np.sum(lam**4)) ** 0.5)
    return near(found, 1.0, slack, because=STUDENT)


@fig.claim("new", "derived")
def later(d):
    """Divided by n, it leaves later: a decade takes 1/mean(m/(m + 1)) times as long (the quotient
    of the two rates on a data set, over that)."""
    # Fails if the divisor did not matter for the time: the quotient would be 1.
    told = float(np.mean(d.length.values / (d.length.values + 1.0)))
    found, slack = _mean(_decades(d, "n-1") / _decades(d, "n") * told)
    words = f"1/mean = {1.0 / told:.4f}."
    return near(found, 1.0, slack, because=STUDENT, note=words)


@fig.claim("new", "derived", over=DIVIDED)
def at_length(d, x):
    """Trained at all lengths, divided by {x}, and tested on fresh sequences at each, it has the
    loss of the mixture's M* at that length (gap in standard errors, the worst length)."""
    # Fails if the map were that of the longest context, or of each length.
    one = d.sel(divided=x)
    # Tests of one trained model share what it has learned amiss.
    ratio = (one.asked / one.asked_told).mean("fresh").transpose("length", "set").values
    mean, error = mean_of(ratio)
    off = (mean - 1.0) / error
    mixed, least = float(one.asked_told.mean()), float(d.least.mean())
    words = f"Standard errors up to {error.max():.2g} of the loss. Mean over lengths by theory "
    words += f"{mixed:.4f}; trained at every length alone it would be {least:.4f}."
    most = beyond(d.sizes["set"], d.sizes["length"])
    because = "the furthest of 31, 99 in 100, Student's t over the models trained"
    return near(np.max(np.abs(off)), 0.0, most, because=because, note=words)


@fig.claim("new", "derived")
def softmax_growth(d):
    """Softmax attention's heads grow apart by ln(1 + 2η σ_max(𝒞)) a step, 𝒞 = E y_q Ĉ x_q averaged
    over the lengths (growth over that, the data set furthest off)."""
    # Fails if the longest length stood for all: its (m/(m + 1))² is a quarter above the mean.
    grown = np.log((d.between[:, -1] / d.between[:, 0]).values) / float(d.grown_step[-1])
    ratio = grown / d.rate.values
    far = ratio[np.argmax(np.abs(ratio - 1.0))]
    because = (
        "the heads' mean, larger at short lengths, bends what differences see by some per cent"
    )
    return near(far, 1.0, 0.05, because=because)


@fig.claim("check", "ours", word="tokens")
def hidden(d):
    """Training in reduced form, or by the queries' rows, is training on tokens that hide what a
    length does not show (largest relative gap of L, three models, {tokens[seeds]} starts each)."""
    gaps = [worst_ratio(*one) for one in d.token_loss.values]
    because = "round-off of 200 steps is 1e-12"
    return near(max(gaps), 0.0, 1e-10, because=because)
