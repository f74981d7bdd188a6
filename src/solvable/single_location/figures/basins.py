"""Where runs end: at the oracle, or at the swapped minimum that panel 1 of Fig. 7b hides."""

import math
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, at_least, at_most, near, settings_of, step, worst_ratio
from ...reproduce.panels import Mark, Panel, drawn, entry, level, line, tokens, upright
from ...style import colour
from .. import Run, State, Task, decay, sphere, train, train_brute
from ..state import scalars, uniform_vectors
from ..theory import crossover_lam, oracle_excess, origin_growth, saddle, swapped
from ._panels import SCALARS

BETTER = ((400, 0.05), (80, 0.1))  # (d, λ) at which the swapped minimum is the better one
ENDS = {"oracle": "to the oracle", "swapped": "to the swapped minimum"}

fig = Figure(
    "single_location/basins",
    "Shares of runs that end at the oracle or at the swapped minimum, against λ",
    settings={
        "quick": {"runs": 150, "time": 40.0, "lam": {"400": (0.05, 0.1, 0.85), "80": (0.1, 0.9)}},
        "default": {
            "runs": 800,
            "time": 60.0,
            "lam": {
                "400": (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.85),
                "80": (0.05, 0.1, 0.3, 0.5, 0.9),
            },
        },
        "full": {
            "runs": 6000,
            "time": 120.0,
            "lam": {
                "400": (0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 0.85),
                "80": (0.02, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9),
            },
        },
    },
    constants={
        "length": 10,
        "gamma2": 0.5,
        "lr": {"small": 4e-3, "large": 2e-3},  # for large λ and d the larger step is unstable
        "large": 0.4,
        "favoured": 0.85,  # below λ_c, 0.892, above which there are not these two ends
        # Starts that are drawn as vectors in R^d, the first of which are trained there too.
        "vectors": {"dim": 80, "lam": 0.1, "runs": 2000, "brute": 100, "lr": 4e-3, "steps": 8000},
        "schedule": {
            "dim": 400,
            "first": 1.0,
            "rate": 1e-4,
            "lr": 4e-3,
            "steps": 30_000,
            "runs": 800,
        },
    },
    note=(
        "Not in the paper, whose Fig. 7b has both ends. At the swapped minimum k is along v* and v "
        "along k*: κ = ν = 0, η = ±1, θη > 0; erf, linear on v*, is multiplied by the constant "
        "√(d/2) θ. A run counts as at the oracle if |ν| > 0.9, as κ may still be growing, and as "
        "swapped if |η| > 0.9 instead. Runs start on the sphere, each λ from starts of its own, "
        "and are read at α × steps = 60 (--quick 40), α = 0.004, or 0.002 for λ > 0.4 at d = 400, "
        "where the larger step is unstable; shares do not change with α. Every λ is below λ_c "
        "(0.892 at d = 400), above which there are not these two ends (figure fig7a). Bars: "
        "Wilson's 95 % intervals. (c): growth rates of κ, ν and of θ, η at the origin, where all "
        "runs start; while they are equal, the start alone tells the two ends apart (figure "
        "outcomes)."
    ),
)


def wilson(hits: Any, runs: int) -> tuple[Any, Any]:
    """Wilson's 95 % interval of a share.

    >>> [round(float(end), 4) for end in wilson(5, 10)]
    [0.2366, 0.7634]
    """
    z2, hits = 1.959963984540054**2, np.asarray(hits)
    middle, half = hits + z2 / 2.0, np.sqrt(z2 * (hits * (runs - hits) / runs + z2 / 4.0))
    return (middle - half) / (runs + z2), (middle + half) / (runs + z2)


def _ends(settings: Any, task: Task, seed: int, **how: Any) -> tuple[Run, dict[str, np.ndarray]]:
    """Runs from the sphere; which are at the oracle at the end, which at the swapped minimum."""
    start = sphere(task, how.pop("runs", settings.runs), seed=seed)
    run = train(task, start, log_every=how["steps"], progress=step, **how)
    return run, {name: run.outcome.end == name for name in ENDS}


@fig.data
def constant(settings: Any) -> xr.Dataset:
    """Every λ at every dimension, each with starts of its own."""
    cases, parts = [(int(dim), lam) for dim, lams in settings.lam.items() for lam in lams], []
    for k, (dim, lam) in enumerate(cases):
        task = Task(dim, settings.length, settings.gamma2**0.5)
        lr = settings.lr["large" if lam > settings.large and dim > 100 else "small"]
        how = {"lam": lam, "lr": lr, "steps": round(settings.time / lr)}
        run, ends = _ends(settings, task, settings.seed + k, **how)
        loss, found = np.asarray(run.loss)[:, -1], {"dim": dim, "lam": lam}
        for name, there in ends.items():
            found[name] = int(there.sum())
            found[f"{name}_excess"] = float(np.median(loss[there])) if there.any() else np.nan
        found["oracle_theory"] = float(oracle_excess(task, lam))
        found["swapped_theory"] = float(swapped(task, lam).excess)
        parts.append(found)
    columns = {name: ("case", [found[name] for found in parts]) for name in parts[0]}
    return xr.Dataset(columns).set_coords(["dim", "lam"])


@fig.data
def drawn_in_space(settings: Any) -> xr.Dataset:
    """How many runs reach the oracle where k and v are drawn, and trained, as vectors of R^d."""
    asked = dict(settings.vectors)
    runs, brute = asked.pop("runs"), asked.pop("brute")
    task = Task(asked.pop("dim"), settings.length, settings.gamma2**0.5)
    how = asked | {"log_every": asked["steps"], "progress": step}
    start = scalars(*uniform_vectors(task, runs, seed=settings.seed + 2000))
    one = train(task, start, **how).outcome
    other = train(task, sphere(task, runs, seed=settings.seed + 2001), **how).outcome
    first = State.raw(*(getattr(start, name)[:brute] for name in SCALARS))
    space = train_brute(task, first, **how).outcome
    same = (space.labels == one.labels[:brute]).mean()
    found = {"drawn_oracle": one.counts["oracle"], "scalars_oracle": other.counts["oracle"]}
    return xr.Dataset(found | {"same_in_space": same})


@fig.data
def scheduled(settings: Any) -> xr.Dataset:
    """The schedule of Fig. 4a, read when every run is on its way to one of the two."""
    asked = settings.schedule
    task = Task(asked["dim"], settings.length, settings.gamma2**0.5)
    how = {name: asked[name] for name in ("lr", "steps", "runs")}
    how["lam"] = decay(asked["first"], asked["rate"])
    _, ends = _ends(settings, task, settings.seed + 1000, **how)
    return xr.Dataset({f"schedule_{name}": int(there.sum()) for name, there in ends.items()})


@fig.data
def minima(settings: Any) -> xr.Dataset:
    """Risks of both minima and rates of growth at the origin, against λ."""
    task = Task(settings.schedule["dim"], settings.length, settings.gamma2**0.5)
    lam = np.geomspace(0.015, 0.88, 120)
    rows = {"oracle_risk": oracle_excess(task, lam), "swapped_risk": swapped(task, lam).excess}
    rows |= {"oracle_rate": saddle(task, lam).growth, "swapped_rate": origin_growth(task, lam)}
    found = {name: ("fine", np.asarray(values)) for name, values in rows.items()}
    return xr.Dataset(found | {"crossover": crossover_lam(task), "fine": lam})


def _shares(d: xr.Dataset, dim: int, k: int) -> Mark:
    """Shares at one dimension, with their intervals."""
    here, runs = d.isel(case=d.dim.values == dim), settings_of(d).runs
    share, (low, high) = here.oracle.values / runs, wilson(here.oracle.values, runs)
    look = {"marker": "o", "markersize": 3.0, "linewidth": 1.0, "color": colour(k)}
    look |= {"label": f"constant λ, $d = {dim}$", "yerr": [share - low, high - share]}
    return Mark(lambda axes: axes.errorbar(here.lam * (1.0 + 0.03 * k), share, **look))


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """Shares with their intervals, the risks of both minima, and the rates that decide."""
    given = settings_of(d)
    here = d.isel(case=d.dim.values == given.schedule["dim"])
    low, high = wilson(int(d.schedule_swapped), given.schedule["runs"])
    shaded = {"color": colour(2), "alpha": 0.35, "linewidth": 0.0}
    shares = [_shares(d, dim, k) for k, dim in enumerate(np.unique(d.dim.values)[::-1])]
    shares.append(Mark(lambda axes: axes.axhspan(1.0 - high, 1.0 - low, **shaded)))
    shares += [entry("schedule of Fig. 4a", color=colour(2), linewidth=5, alpha=0.4), level(0.5)]
    risks, rates = [upright(float(d.crossover))], []
    for k, (name, way) in enumerate(ENDS.items()):
        risks.append(line(d.fine, d[f"{name}_risk"], f"{name}, theory", k))
        risks.append(tokens(here.lam, here[f"{name}_excess"], "runs", k))
        rates.append(line(d.fine, d[f"{name}_rate"], way, k))
    place = {"fontsize": 8.0, "loc": "upper left", "bbox_to_anchor": (0.0, 0.88)}
    own, tall = [lambda axes: axes.legend(**place)], (0.3, 1.02)
    x, y = r"inverse temperature $\lambda$", "share of runs at the oracle"
    return drawn(
        Panel(x, y, shares, log="x", ylim=tall, legend=0, more=own),
        Panel(x, "excess risk, $d = 400$", risks, log="xy"),
        Panel(x, "growth rate at the origin, $d = 400$", rates, log="x"),
    )


def _cases(d: xr.Dataset) -> dict[tuple[int, float], xr.Dataset]:
    """Every case by its dimension and λ."""
    places = zip(d.dim.values.tolist(), d.lam.values.tolist(), strict=True)
    return {place: d.isel(case=k) for k, place in enumerate(places)}


@fig.claim("new", "derived")
def coin(d):
    """From random starts a small constant λ (up to 0.1, d = 400) is a coin toss between the oracle
    and the swapped minimum (share at the oracle)."""
    heads = d.oracle[(d.dim.values == 400) & (d.lam.values <= 0.1)]
    tossed = settings_of(d).runs * heads.size
    slack = 0.01 + 3.0 * 0.5 / math.sqrt(tossed)
    because = "three standard errors, and 0.01 as the rates of both ways are not quite the same"
    return near(heads.sum() / tossed, 0.5, slack, because=because, note=f"{tossed} runs.")


@fig.claim("new", "derived")
def favoured(d):
    """A large λ favours the oracle, towards which the origin is then left faster (lower end of the
    95 % interval of the share at the oracle, λ = {favoured}, d = 400)."""
    # Fails if a quarter of the runs or more were swapped: the rates alone do not exclude it.
    given = settings_of(d)
    hits, runs = int(_cases(d)[400, given.favoured].oracle), given.runs
    because = "three in four, half way from a coin to all"
    low, high = wilson(hits, runs)
    words = f"{hits} of {runs} runs, 95 % interval {low:.3f} to {high:.3f}."
    return at_least(low, 0.75, because=because, note=words)


@fig.claim("check", "derived")
def shares(d):
    """Starts drawn as vectors of R^{vectors[dim]} reach the oracle as often as those drawn as five
    scalars (difference of the shares in standard errors; λ = {vectors[lam]})."""
    runs = settings_of(d).vectors["runs"]
    one, other = float(d.drawn_oracle) / runs, float(d.scalars_oracle) / runs
    pooled = 0.5 * (one + other)
    score = (one - other) / math.sqrt(2.0 * pooled * (1.0 - pooled) / runs)
    words = f"{one:.3f} and {other:.3f} of {runs} runs each."
    return near(score, 0.0, 3.0, because="three standard errors", note=words)


@fig.claim("check", "derived")
def vectors(d):
    """Trained as vectors of R^{vectors[dim]} they end where the five scalars do, with the same
    signs (share of {vectors[brute]} runs)."""
    return near(d.same_in_space, 1.0, 0.0, because="all")


@fig.claim("check", "ours")
def settled(d):
    """At every λ, all below λ_c, runs come to one of the two ends (share of those that do not)."""
    # Fails above λ_c, if only once runs have left the oracle: there is a third minimum.
    runs = settings_of(d).runs * d.sizes["case"]
    left = runs - int((d.oracle + d.swapped).sum())
    because = "runs that start at the boundary stay there for long, one in so many"
    return near(left / runs, 0.0, 0.005, because=because, note=f"{left} of {runs}.")


@fig.claim("new", "ours")
def schedule(d):
    """The decreasing λ of Fig. 4a leaves a few per cent of random starts at the swapped minimum
    (share of runs, the further end of its 95 %
    interval)."""
    asked, failed = settings_of(d).schedule, int(d.schedule_swapped)
    low, high = wilson(failed, asked["runs"])
    words = f"{failed} of {asked['runs']} runs at step {asked['steps']}, 95 % interval "
    words += f"{low:.3f} to {high:.3f}; of the 30 published starts none."
    far = low if 0.05 - low > high - 0.05 else high
    because = "a few: at least one in a hundred, at most nine"
    return near(far, 0.05, 0.04, because=because, note=words)


@fig.claim("check", "derived")
def risks(d):
    """Runs end at the risks of the two minima (largest relative gap of their median; d = 400,
    λ = 0.05 and d = 80, λ = 0.1)."""
    both = [_cases(d)[place] for place in BETTER]
    gaps = [worst_ratio(x[f"{name}_excess"], x[f"{name}_theory"]) for name in ENDS for x in both]
    because = "what 1 − κ, which falls slowest, still adds to the oracle's"
    return near(max(gaps), 0.0, 2e-3, because=because)


@fig.claim("new", "derived")
def order(d):
    """At small λ the swapped minimum is the better predictor (risk of its runs over that of the
    oracle's, the larger of the two ratios)."""
    ratios = {}
    for dim, lam in BETTER:
        one, other = (float(_cases(d)[dim, lam][f"{name}_excess"]) for name in ENDS)
        ratios[f"d = {dim}, λ = {lam:g}: {other:.4f} against {one:.4f}"] = other / one
    words = f"At d = 400 they change places at λ = {float(d.crossover):.4f}."
    because = "the better of two is below the other"
    return at_most(max(ratios.values()), 1.0, because=because, note=f"{'; '.join(ratios)}. {words}")
