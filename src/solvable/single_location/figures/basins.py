"""Where runs end: at the oracle, or at the swapped minimum that panel 1 of Fig. 7b hides."""

import math
from collections.abc import Mapping
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Claim, Figure, Size, Statement, stage, step, worst_ratio
from ...style import TOKENS, colour, panels
from .. import (
    Run,
    Task,
    crossover_lam,
    decay,
    oracle_excess,
    origin_growth,
    saddle,
    sphere,
    swapped,
    train,
)

SEED = 0
LENGTH = 10
RATES = {"small": 4e-3, "large": 2e-3}  # for large λ and d the larger step is unstable
LARGE = 0.4
SETTLED = 0.9  # |ν| at the oracle, |η| at the swapped minimum
COIN = 0.2  # λ up to which both growth rates are nearly equal
SCHEDULE = {"dim": 400, "first": 1.0, "rate": 1e-4, "lr": 4e-3, "steps": 30_000}
SETTINGS: Mapping[Size, Mapping[str, Any]] = {
    "quick": {
        "runs": 150,
        "time": 40.0,
        "lam": {"400": (0.05, 0.1, 0.9), "80": (0.1, 0.9)},
    },
    "default": {
        "runs": 800,
        "time": 60.0,
        "lam": {"400": (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.9), "80": (0.05, 0.1, 0.3, 0.5, 0.9)},
    },
    "full": {
        "runs": 6000,
        "time": 120.0,
        "lam": {
            "400": (0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9),
            "80": (0.02, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9),
        },
    },
}
# Shares of the oracle in 600 runs of another code, at (d, λ); and of failures of the schedule.
BEFORE = {
    (400, 0.02): 0.47,
    (400, 0.05): 0.50,
    (400, 0.1): 0.50,
    (400, 0.2): 0.515,
    (400, 0.3): 0.51,
    (400, 0.5): 0.69,
    (400, 0.9): 0.965,
    (80, 0.1): 0.54,
    (80, 0.5): 0.65,
    (80, 0.9): 0.86,
}
BEFORE_RUNS, BEFORE_FAILED = 600, 0.038
BETTER = ((400, 0.05), (80, 0.1))  # (d, λ) at which the swapped minimum is the better one


def wilson(hits: Any, runs: int) -> tuple[Any, Any]:
    """Wilson's 95 % interval of a share.

    >>> [round(float(end), 4) for end in wilson(5, 10)]
    [0.2366, 0.7634]
    """
    z = 1.959963984540054
    share = np.asarray(hits) / runs
    middle = (share + z**2 / (2.0 * runs)) / (1.0 + z**2 / runs)
    half = z / (1.0 + z**2 / runs) * np.sqrt(share * (1 - share) / runs + z**2 / (4 * runs**2))
    return middle - half, middle + half


def deviation(share: float, runs: int, other: float, others: int) -> float:
    """The difference of two shares in standard errors of it."""
    pooled = (share * runs + other * others) / (runs + others)
    return (share - other) / math.sqrt(pooled * (1.0 - pooled) * (1.0 / runs + 1.0 / others))


def _ends(run: Run) -> dict[str, np.ndarray]:
    """Which of the runs are at the oracle, and which at the swapped minimum."""
    nu, eta = (np.abs(np.asarray(x)[:, -1]) for x in (run.nu, run.eta))
    oracle = nu > SETTLED
    return {"oracle": oracle, "swapped": (eta > SETTLED) & ~oracle}


def _case(settings: Mapping[str, Any], dim: int, lam: float, seed: int) -> xr.Dataset:
    """Runs from the sphere at one λ."""
    task = Task(dim, LENGTH)
    lr = RATES["large" if lam > LARGE and dim > 100 else "small"]
    steps = round(settings["time"] / lr)
    start = sphere(task, settings["runs"], seed=seed)
    run = train(task, start, lam=lam, lr=lr, steps=steps, log_every=steps, progress=step)
    loss, found = np.asarray(run.loss)[:, -1], {}
    for name, there in _ends(run).items():
        found[name] = int(there.sum())
        found[f"{name}_excess"] = float(np.median(loss[there])) if there.any() else np.nan
    found["oracle_theory"] = float(oracle_excess(task, lam))
    found["swapped_theory"] = float(swapped(task, lam).excess)
    return xr.Dataset(
        {name: ("case", [value]) for name, value in found.items()},
        coords={"dim": ("case", [dim]), "lam": ("case", [lam])},
    )


def _constant(settings: Mapping[str, Any]) -> xr.Dataset:
    """Every λ at every dimension, each with starts of its own."""
    cases = [(int(dim), lam) for dim, lams in settings["lam"].items() for lam in lams]
    found = [_case(settings, dim, lam, SEED + k) for k, (dim, lam) in enumerate(cases)]
    return xr.concat(found, dim="case")


def _schedule(settings: Mapping[str, Any]) -> xr.Dataset:
    """The schedule of Fig. 4a, read when every run is on its way to one of the two."""
    task = Task(SCHEDULE["dim"], LENGTH)
    steps = SCHEDULE["steps"]
    run = train(
        task,
        sphere(task, settings["runs"], seed=SEED + 1000),
        lam=decay(SCHEDULE["first"], SCHEDULE["rate"]),
        lr=SCHEDULE["lr"],
        steps=steps,
        log_every=steps,
        progress=step,
    )
    return xr.Dataset({f"schedule_{name}": int(there.sum()) for name, there in _ends(run).items()})


def _theory() -> xr.Dataset:
    """Risks of both minima and rates of growth at the origin, against λ."""
    lam, task = np.geomspace(0.015, 1.2, 120), Task(400, LENGTH)
    rows = {
        "oracle_risk": oracle_excess(task, lam),
        "swapped_risk": swapped(task, lam).excess,
        "oracle_rate": saddle(task, lam).growth,
        "swapped_rate": origin_growth(task, lam),
    }
    return xr.Dataset(
        {name: ("fine", np.asarray(values)) for name, values in rows.items()},
        coords={"fine": lam},
        attrs={"crossover": crossover_lam(task)},
    )


def compute(size: Size) -> xr.Dataset:
    """Ends of runs at constant λ and with the schedule, and the theory of both minima."""
    settings = SETTINGS[size]
    parts = [
        stage("constant", lambda: _constant(settings)),
        stage("schedule", lambda: _schedule(settings)),
        _theory(),
    ]
    found = xr.merge(parts, combine_attrs="no_conflicts")
    return found.assign_attrs(runs=settings["runs"])


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """Shares with their intervals, the risks of both minima, and the rates that decide."""
    figure, (shares, risks, rates) = panels(3)
    runs = data.attrs["runs"]
    for k, dim in enumerate(np.unique(data.dim.values)[::-1]):
        here = data.isel(case=data.dim.values == dim)
        low, high = wilson(here.oracle.values, runs)
        share = here.oracle.values / runs
        shares.errorbar(
            here.lam * (1.0 + 0.03 * k),
            share,
            [share - low, high - share],
            color=colour(k),
            marker="o",
            markersize=3.0,
            linewidth=1.0,
            label=f"constant λ, $d = {dim}$",
        )
    failed = int(data.schedule_swapped)
    low, high = wilson(failed, runs)
    shares.axhspan(1.0 - high, 1.0 - low, color=colour(2), alpha=0.35, linewidth=0.0)
    shares.plot([], [], color=colour(2), linewidth=5, alpha=0.4, label="schedule of Fig. 4a")
    shares.axhline(0.5, color="0.6", linewidth=0.7, zorder=0)
    shares.set_ylim(0.3, 1.02)
    shares.set_ylabel("share of runs at the oracle")
    shares.legend(fontsize=8.0, loc="upper left", bbox_to_anchor=(0.0, 0.88))
    here = data.isel(case=data.dim.values == SCHEDULE["dim"])
    for k, name in enumerate(("oracle", "swapped")):
        risks.plot(data.fine, data[f"{name}_risk"], color=colour(k), label=f"{name}, theory")
        risks.plot(here.lam, here[f"{name}_excess"], color=colour(k), label="runs", **TOKENS)
        way = "to the oracle" if name == "oracle" else "to the swapped minimum"
        rates.plot(data.fine, data[f"{name}_rate"], color=colour(k), label=way)
    risks.axvline(data.attrs["crossover"], color="0.6", linewidth=0.7, zorder=0)
    risks.set_yscale("log")
    risks.set_ylabel("excess risk, $d = 400$")
    rates.set_ylabel("growth rate at the origin, $d = 400$")
    for each in (shares, risks, rates):
        each.set_xscale("log")
        each.set_xlabel(r"inverse temperature $\lambda$")
    for each in (risks, rates):
        each.legend(fontsize=8.0)
    return figure


def _say(word: str, text: str, source: str) -> Statement:
    return Statement(f"single_location/basins/{word}", text, source)


TOSS = _say(
    "coin",
    f"From random starts a small constant λ (up to {COIN:g}, d = 400) is a coin toss between the "
    "oracle and the swapped minimum (share at the oracle).",
    "Fig. 7b (shares derived)",
)
FAVOURED = _say(
    "favoured",
    "A large λ favours the oracle, towards which the origin is then left faster (share at the "
    "oracle, λ = 0.9, d = 400).",
    "Fig. 7a (shares derived)",
)
SHARES = _say(
    "shares",
    "Shares at the oracle are those that another code found in 600 runs (largest difference in "
    "standard errors of it).",
    "Figs. 7a, 7b (shares derived)",
)
FAILURES = _say(
    "schedule",
    "The decreasing λ of Fig. 4a leaves a few per cent of random starts at the swapped minimum "
    "(share of runs).",
    "Fig. 4a (share derived)",
)
RISKS = _say(
    "risks",
    "Runs end at the risks of the two minima (largest relative gap of their median; d = 400, "
    "λ = 0.05 and d = 80, λ = 0.1).",
    "Theorem 1, Fig. 7b (minimum derived)",
)
ORDER = _say(
    "order",
    "At small λ the swapped minimum is the better predictor (risk of its runs over that of the "
    "oracle's, the larger of the two ratios).",
    "derived",
)


def _cases(data: xr.Dataset) -> dict[tuple[int, float], xr.Dataset]:
    """Every case by its dimension and λ."""
    places = zip(data.dim.values.tolist(), data.lam.values.tolist(), strict=True)
    return {place: data.isel(case=k) for k, place in enumerate(places)}


def claims(data: xr.Dataset) -> list[Claim]:
    """Shares, risks, and which of the minima is better."""
    runs = data.attrs["runs"]
    small = (data.dim.values == SCHEDULE["dim"]) & (data.lam.values <= COIN)
    tossed, heads = runs * int(small.sum()), int(data.oracle.values[small].sum())
    cases, apart = _cases(data), {}
    for (dim, lam), share in BEFORE.items():
        if (dim, lam) in cases:
            here = float(cases[dim, lam].oracle) / runs
            z = deviation(here, runs, share, BEFORE_RUNS)
            apart[f"d = {dim}, λ = {lam:g}: {here:.3f} ({share:g})"] = z
    failed = int(data.schedule_swapped) / runs
    low, high = (float(end) for end in wilson(int(data.schedule_swapped), runs))
    spread = math.sqrt(BEFORE_FAILED * (1.0 - BEFORE_FAILED) * (1.0 / runs + 1.0 / BEFORE_RUNS))
    both = {(dim, lam): cases[dim, lam] for dim, lam in BETTER}
    gaps = [
        worst_ratio(here[f"{name}_excess"], here[f"{name}_theory"])
        for name in ("oracle", "swapped")
        for here in both.values()
    ]
    ratios = [float(here.swapped_excess / here.oracle_excess) for here in both.values()]
    order = "; ".join(
        f"d = {dim}, λ = {lam:g}: {float(here.swapped_excess):.4f} against "
        f"{float(here.oracle_excess):.4f}"
        for (dim, lam), here in both.items()
    )
    best = cases[SCHEDULE["dim"], 0.9]
    left = 1.0 - (data.oracle + data.swapped).sum() / (runs * data.sizes["case"])
    return [
        TOSS.judge(
            0.5, heads / tossed, 3.0 * 0.5 / math.sqrt(tossed), note=f"{tossed} runs, 3 σ allowed."
        ),
        FAVOURED.judge(0.9, best.oracle / runs, "at least", note=f"{runs} runs."),
        SHARES.judge(
            0.0,
            max(map(abs, apart.values())),
            3.0,
            note=f"Share here (there): {'; '.join(apart)}. At neither minimum: {float(left):.2%}.",
        ),
        FAILURES.judge(
            BEFORE_FAILED,
            failed,
            3.0 * spread,
            note=f"{runs} runs at step {SCHEDULE['steps']}, 95 % interval {low:.3f} to {high:.3f}; "
            f"expected is what {BEFORE_RUNS} runs of another code gave, 3 σ of both allowed.",
        ),
        RISKS.judge(0.0, max(gaps), 2e-3),
        ORDER.judge(
            1.0,
            max(ratios),
            "at most",
            note=f"{order}. At d = 400 they change places at λ = {data.attrs['crossover']:.4f}.",
        ),
    ]


FIGURE = Figure(
    id="single_location/basins",
    title="Shares of runs that end at the oracle or at the swapped minimum, against λ",
    settings=SETTINGS,
    constants={
        "length": LENGTH,
        "gamma2": 0.5,
        "lr": RATES,
        "large": LARGE,
        "settled": SETTLED,
        "schedule": SCHEDULE,
    },
    statements=(TOSS, FAVOURED, SHARES, FAILURES, RISKS, ORDER),
    compute=compute,
    draw=draw,
    claims=claims,
    note=(
        "Not in the paper, whose Fig. 7b has both ends. At the swapped minimum k is along v* and v "
        "along k*: κ = ν = 0, η = ±1, θη > 0; erf, linear on v*, is multiplied by the constant "
        "√(d/2) θ. A run counts as at the oracle if |ν| > 0.9, as κ may still be growing, and as "
        "swapped if |η| > 0.9 instead. Runs start on the sphere, each λ from starts of its own, "
        "and are read at α × steps = 60 (--quick 40), α = 0.004, or 0.002 for λ > 0.4 at d = 400, "
        "where the larger step is unstable; shares do not change with α. Bars: Wilson's 95 % "
        "intervals. (c): growth rates of κ, ν and of θ, η at the origin, where all runs start; "
        "while they are equal, nothing tells the two ends apart."
    ),
    seed=SEED,
)
