"""Where a run will end, told from its start, against where it ends."""

import itertools
import math
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, at_least, at_most, near, settings_of, step
from ...reproduce.panels import Mark, Panel, drawn, level, upright
from ...style import colour
from .. import Outcome, Run, State, Task, decay, origin_growth, outcome, saddle, sphere, train
from ..task import law_of
from ..theory import first_order, outcome_of, second_order
from ._panels import SCALARS
from .basins import wilson

METHODS = {
    "first": "first order",
    "second": "second order",
    "short": "short run, $t = 4/q$",
    "late": "$t = 16$",
}
PLACES = ((400, 10), (80, 10), (4000, 10), (400, 2), (400, 50))
ENDS, SHOWN = ("oracle", "undecided"), ("first", "second", "short")
LINEAR, LATE = 0.3, 16.0  # as `outcome` has them
SHORT = 700  # steps of a short run
MARGINS = (0.0, 0.1, 0.25, 0.5, 1.0)  # of ln|P₁/P₂|

fig = Figure(
    "single_location/outcomes",
    "Where a run will end, told from its start",
    settings={
        "quick": {
            "runs": 400,
            "place_runs": 200,
            "lam": (0.05, 0.1, 0.3, 0.5, 0.7),
            "places": PLACES[:2],
        },
        "default": {
            "runs": 1000,
            "place_runs": 300,
            "lam": (0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.85),
            "places": PLACES,
        },
        "full": {
            "runs": 6000,
            "place_runs": 3000,
            "lam": (0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 0.85),
            "places": PLACES,
        },
    },
    constants={
        "gamma2": 0.5,
        "dim": 400,
        "length": 10,
        "time": 40.0,  # in units of the time in which the slower way out grows by e, at least
        "lr": {"small": 4e-3, "large": 1e-3},
        "large": 0.4,
        "margin_lam": 0.1,
        "kept_runs": 3000,
        "margins": MARGINS,
        "schedule": {"first": 1.0, "rate": 1e-4, "lr": 4e-3, "steps": 30_000},
        "reads": (0, 500, 1000, 2000, 4000),
    },
    note=(
        "Not in the paper. Starts on the sphere; of first order the larger of C₁, towards the "
        "oracle, and C₂, towards the swapped minimum, wins; of second order ρ has mixed them, "
        "where it decays faster than they grow; a short run goes by the exact map to t = 4/q "
        "first, a few hundred steps. What decides is read off runs of projected gradient descent: "
        "|ν| > 0.9 or |η| > 0.9. Bars and bands: Wilson's 95 % intervals. Starts are of size "
        "1/√d, and the linear regime ends at κ = 1/p; with p = λ√(d/2)/u their ratio √2 u/λ, "
        "which falls with λ, does not depend on d. Every λ is below λ_c = 0.892, above which "
        "there are not these two ends (figure fig7a)."
    ),
)


def _task(settings: Any, dim: int, length: int) -> Task:
    return Task(dim, length, settings.gamma2**0.5)


def _ended(settings: Any, task: Task, start: Any, lam: float) -> Run:
    """Runs that have come to their ends."""
    lr = settings.lr["large" if lam > settings.large else "small"]
    lr = min(lr, lr * settings.dim / task.dim)  # what is fastest grows like d
    slower = min(1.0, float(saddle(task, lam).growth), float(origin_growth(task, lam)))
    steps = math.ceil(settings.time / slower / lr)
    return train(task, start, lam=lam, lr=lr, steps=steps, log_every=steps, progress=step)


def _after(task: Task, start: State, lam: float, time: float) -> Outcome:
    """By the first order, from where the exact map is after some time, whatever λ."""
    lr = time / SHORT
    run = train(task, start, lam=lam, lr=lr, steps=SHORT, log_every=SHORT)
    x = State.raw(*(getattr(run, name)[:, -1] for name in SCALARS))
    return outcome_of(*first_order(law_of(task), x, np.full(start.runs, lam)))


def _told(settings: Any, task: Task, start: Any, lam: float) -> dict[str, Any]:
    """What every method says, right or wrong, and the margins of the second order."""
    p = lam * task.signal / math.sqrt(1.0 + 2.0 * settings.gamma2 * lam**2)
    q = 4.0 * settings.gamma2 * p / math.sqrt(math.pi)
    true = _ended(settings, task, start, lam).outcome
    found: dict[str, Any] = {name: true.counts[name] for name in ("oracle", "undecided")}
    law = law_of(task), start, np.full(start.runs, lam)
    told = {"first": outcome_of(*first_order(*law)), "second": outcome_of(*second_order(*law))}
    told["short"] = _after(task, start, lam, 4.0 / q)
    told["late"] = outcome(task, start, lam, horizon=LATE)
    for name, one in told.items():
        found[name] = (one.end == true.end) & (one.sign == true.sign)
    one, other = told["first"], told["second"]
    found["second_end"] = told["second"].end == true.end
    found["differ"] = (one.end != other.end) | (one.sign != other.sign)
    return found | {"margin": np.abs(told["second"].margin)}


@fig.data
def laws(settings: Any) -> xr.Dataset:
    """How often they are right, against λ."""
    task, parts = _task(settings, settings.dim, settings.length), []
    for k, lam in enumerate(settings.lam):
        start = sphere(task, settings.runs, seed=settings.seed + k)
        parts.append(_told(settings, task, start, lam))
    found = {name: ("lam", [part[name] for part in parts]) for name in ENDS}
    every = (*METHODS, "second_end", "differ", "margin")
    found |= {name: (("lam", "run"), [part[name] for part in parts]) for name in every}
    return xr.Dataset(found, coords={"lam": list(settings.lam)})


@fig.data
def many(settings: Any) -> xr.Dataset:
    """How many of more starts the second order tells right, as many at every size."""
    task, lam = _task(settings, settings.dim, settings.length), settings.margin_lam
    start = sphere(task, settings.kept_runs, seed=settings.seed + 300)
    told, true = outcome(task, start, lam), _ended(settings, task, start, lam).outcome
    return xr.Dataset({"kept": int((told.labels == true.labels).sum())})


@fig.data
def elsewhere(settings: Any) -> xr.Dataset:
    """How often they are right at other d and L."""
    parts = []
    for k, (dim, length) in enumerate(settings.places):
        task = _task(settings, dim, length)
        start = sphere(task, settings.place_runs, seed=settings.seed + 100 + k)
        parts.append(_told(settings, task, start, settings.margin_lam))
    found = {f"place_{n}": ("place", [np.sum(x[n]) for x in parts]) for n in ENDS + SHOWN}
    return xr.Dataset(found, coords={"place": ["{}, {}".format(*x) for x in settings.places]})


@fig.data
def scheduled(settings: Any) -> xr.Dataset:
    """The schedule of Fig. 4a: who is swapped in the end, and whom the first steps say."""
    asked, task = settings.schedule, _task(settings, settings.dim, settings.length)
    start = sphere(task, settings.runs, seed=settings.seed + 200)
    lam, lr = decay(asked["first"], asked["rate"]), asked["lr"]
    steps = asked["steps"]
    run = train(task, start, lam=lam, lr=lr, steps=steps, log_every=steps, progress=step)
    true = run.outcome.end == "swapped"
    found = {"schedule_swapped": int(true.sum()), "schedule_missed": [], "schedule_false": []}
    for read in settings.reads:
        told = outcome(task, start, lam, horizon=read * lr, lr=lr).end == "swapped"
        found["schedule_missed"].append(int((true & ~told).sum()))
        found["schedule_false"].append(int((told & ~true).sum()))
    data = {name: x if isinstance(x, int) else ("read", x) for name, x in found.items()}
    return xr.Dataset(data, coords={"read": list(settings.reads)})


def _bars(hits: Any, runs: int) -> np.ndarray:
    """How far Wilson's interval goes below and above the share."""
    share, (low, high) = np.atleast_1d(hits / runs), wilson(np.atleast_1d(hits), runs)
    return np.maximum([share - low, high - share], 0.0)  # at 0 and 1 but for round-off


def _share(d: xr.Dataset, name: str, k: int, nudge: float = 1.0) -> Mark:
    """How often a method is right against λ, with its intervals."""
    runs, hits = settings_of(d).runs, d[name].sum("run").values
    share = hits / runs
    look = {"marker": "o", "markersize": 3.0, "linewidth": 1.0, "color": colour(k)}
    look |= {"label": METHODS[name], "yerr": _bars(hits, runs)}
    return Mark(lambda axes: axes.errorbar(d.lam * nudge, share, **look))


def _by_margin(d: xr.Dataset) -> list[tuple[float, int, int]]:
    """From margin to margin: its middle, how many runs have it, and how many are told right."""
    here, found = d.sel(lam=settings_of(d).margin_lam), []
    edges = [*settings_of(d).margins, math.inf]
    for low, high in itertools.pairwise(edges):
        inside = ((here.margin >= low) & (here.margin < high)).values
        middle = 0.5 * (low + high) if high < math.inf else 1.5 * low
        found.append((middle, int(inside.sum()), int(here.second.values[inside].sum())))
    return [row for row in found if row[1]]


def _margins(axes: Any, d: xr.Dataset) -> None:
    """How often the second order is right against its margin."""
    middle, count, right = (np.array(x) for x in zip(*_by_margin(d), strict=True))
    bars = np.concatenate([_bars(r, n) for r, n in zip(right, count, strict=True)], axis=1)
    look = {"marker": "o", "markersize": 4.0, "linewidth": 1.0, "color": colour(1)}
    axes.errorbar(middle, right / count, yerr=bars, **look)


def _places(axes: Any, d: xr.Dataset) -> None:
    """How often each method is right at other d and L."""
    runs, count = settings_of(d).place_runs, d.sizes["place"]
    for k, name in enumerate(SHOWN):
        hits = d[f"place_{name}"].values
        look = {"marker": "o", "markersize": 3.5, "linestyle": "none", "color": colour(k)}
        spots = np.arange(count) + 0.18 * (k - 1)
        axes.errorbar(spots, hits / runs, yerr=_bars(hits, runs), label=METHODS[name], **look)
    axes.set_xticks(range(count), [str(place) for place in d.place.values])
    axes.set_xlim(-0.5, count - 0.5)


def _ends(axes: Any, d: xr.Dataset) -> None:
    """The share of the runs that end at the oracle, against λ."""
    runs = settings_of(d).runs
    low, high = wilson(d.oracle.values, runs)
    axes.fill_between(d.lam, low, high, color="0.6", alpha=0.5, linewidth=0.0)
    axes.plot(d.lam, d.oracle / runs, color="0.4", linestyle=":", label="end at the oracle")


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """Shares told right against λ, against the margin, and at other d and L."""
    against = [_share(d, name, k, 1.0 + 0.015 * (k - 1.5)) for k, name in enumerate(METHODS)]
    against += [Mark(lambda axes: _ends(axes, d)), level(0.5), upright(LINEAR)]
    # A decade at least: else the labels of the ticks collide.
    against.append(Mark(lambda axes: axes.set_xlim(0.85 * float(d.lam[0]), 1.0)))
    x, at = r"inverse temperature $\lambda$", rf"$\lambda = {settings_of(d).margin_lam:g}$"
    others = {"title": at, "ylim": (None, 1.01), "legend": 0}
    return drawn(
        Panel(
            x,
            "share of runs",
            against,
            log="x",
            ylim=(0.4, 1.03),
            title="told right, $d = 400$, $L = 10$",
            where=(0.02, 0.36),
        ),
        Panel(
            r"margin $|\ln|P_1/P_2||$",
            "share told right",
            [Mark(lambda axes: _margins(axes, d))],
            title=f"second order, {at}",
            legend=0,
        ),
        Panel("$d, L$", "share told right", [Mark(lambda axes: _places(axes, d))], **others),
    )


def _linear(d: xr.Dataset, least: float = 0.0) -> xr.Dataset:
    """The runs at λ up to 0.3, from some λ on."""
    return d.isel(lam=(d.lam.values <= LINEAR) & (d.lam.values >= least))


def _words(d: xr.Dataset, name: str) -> str:
    """How often a method is right, λ by λ and place by place."""
    told = [f"{float(x):.3f} (λ = {float(x.lam):g})" for x in d[name].mean("run")]
    runs = settings_of(d).place_runs
    other = [f"{float(x) / runs:.3f} ({x.place.item()})" for x in d.get(f"place_{name}", [])]
    return f"{', '.join(told)}{'; at λ = 0.1 ' if other else ''}{', '.join(other)}."


@fig.claim("check", "ours")
def settled(d):
    """Every run has come to one of the two ends (share that has not)."""
    # Fails if there were a third end, as above λ_c, or if runs were read before they have one.
    left = float(d.undecided.sum() + d.place_undecided.sum())
    runs = d.first.size + d.sizes["place"] * settings_of(d).place_runs
    because = "so few change no share judged here: runs that start at the boundary stay there long"
    return near(left / runs, 0.0, 0.005, because=because, note=f"{int(left)} of {runs}.")


@fig.claim("new", "derived")
def first(d):
    """From λ = 0.05 to 0.3 the first order is wrong where ρ mixes both ways out: most of the runs
    that it tells wrong are ones of which the second order says otherwise (their share)."""
    # Fails if something else than ρ, or of third order in the start, made as many errors.
    here = _linear(d, 0.05)
    wrong = ~here.first.values
    hits, runs = int((wrong & here.differ.values).sum()), int(wrong.sum())
    low, high = wilson(hits, runs)
    words = f"{hits} of {runs}, 95 % interval {low:.3f} to {high:.3f}; of all runs it says "
    words += f"otherwise of {float(here.differ.mean()):.3f}. Right: {_words(d, 'first')}"
    because = "more than half; errors that had nothing to do with ρ would have that of all runs"
    return at_least(hits / runs, 0.5, because=because, note=words)


@fig.claim("new", "derived")
def second(d):
    """From λ = 0.05 to 0.3 the second order mends more of it than it spoils (runs that it alone
    tells right, less those that the first order alone does, in standard errors)."""
    # Fails if the term of second order had another sign or size: it would spoil as many.
    here = _linear(d, 0.05)
    mends, spoils = int((here.second & ~here.first).sum()), int((here.first & ~here.second).sum())
    words = f"It mends {mends} and spoils {spoils}. Right: {_words(d, 'second')}"
    score = (mends - spoils) / math.sqrt(max(mends + spoils, 1))
    return at_least(score, 3.0, because="three standard errors", note=words)


@fig.claim("new", "derived")
def kept(d):
    """At d = 400, L = 10, λ = 0.1 the second order is right for 97 % of random starts at least
    (upper end of the 95 % interval of the share, {kept_runs} runs)."""
    # Fails if it were right for 96 %; the first order is for 95 %.
    runs = settings_of(d).kept_runs
    low, high = wilson(int(d.kept), runs)
    words = f"{int(d.kept)} of {runs}, 95 % interval {low:.3f} to {high:.3f}."
    return at_least(high, 0.97, because="asked for beforehand", note=words)


@fig.claim("new", "derived")
def places(d):
    """It is nearly as good at every d and L tried: right for nine in ten at least (lower end of the
    95 % interval, the least of all places; λ = {margin_lam})."""
    # Fails if the law held at some d or L only, as the second order would at L = 2.
    ends = {str(x.place.values): wilson(int(x), settings_of(d).place_runs) for x in d.place_second}
    words = ", ".join(f"{low:.3f} to {high:.3f} ({at})" for at, (low, high) in ends.items())
    because = "nine in ten, where a toss of ends and signs gives one in four"
    return at_least(min(low for low, _ in ends.values()), 0.9, because=because, note=f"{words}.")


@fig.claim("new", "derived")
def short(d):
    """Up to λ = 0.3 a short run mends almost all, as ρ has decayed by then (runs told wrong,
    relative to the first order from the start)."""
    # Fails if ρ decayed more slowly, or if what decides came later than t = 4/q.
    here = _linear(d)
    ratio = float((~here.short).sum() / (~here.first).sum())
    because = "what is called almost all"
    return at_most(ratio, 0.25, because=because, note=f"Right: {_words(d, 'short')}")


@fig.claim("new", "ours")
def late(d):
    """Above λ = 0.3 the larger of |ν| and |η| at t = 16 tells (smallest share told right)."""
    # Fails if runs cross from one way out to the other after t = 16.
    share = d.late.mean("run").isel(lam=d.lam.values > LINEAR)
    because = "at most a run in twenty is still in between"
    return at_least(share.min(), 0.95, because=because, note=f"Right: {_words(d, 'late')}")


@fig.claim("new", "derived")
def margin(d):
    """The margin says how sure it is: what the second order tells wrong has a margin below ½
    (share of the wrong ones, λ up to 0.3)."""
    # Fails if errors had nothing to do with how close P₁ and P₂ are.
    here = _linear(d)
    wrong = here.margin.values[~here.second.values]
    words = f"{wrong.size} wrong; of all runs {float((here.margin < 0.5).mean()):.2f} are below ½."
    because = "at least two thirds, where a third of all runs is"
    return at_least((wrong < 0.5).mean(), 2.0 / 3.0, because=because, note=words)


@fig.claim("new", "derived")
def breaks(d):
    """At the largest λ, where a random start is outside of the linear regime, the second order
    tells the two ends no better than always saying the more frequent one (share of ends told right,
    signs aside, less that end's share)."""
    # Fails if C₁ and C₂ still told more of the end than how often it comes: as they do up to 0.3.
    runs = settings_of(d).runs
    most = np.maximum(d.oracle, runs - d.undecided - d.oracle) / runs
    told = [
        f"{float(x):.3f} for {float(y):.3f} (λ = {float(x.lam):g})"
        for x, y in zip(d.second_end.mean("run"), most, strict=True)
    ]
    gain = float(d.second_end.isel(lam=-1).mean() - most.isel(lam=-1))
    words = f"Right for the share of the more frequent end: {', '.join(told)}."
    return at_most(gain, 0.0, because="what tells nothing gains nothing", note=words)


@fig.claim("new", "derived")
def dimension(d):
    """How good the second order is does not depend on d (share told right, largest less smallest,
    L = 10, in standard errors)."""
    # Fails if starts of size 1/√d left the linear regime at some d: its end is 1/√d as well.
    runs = settings_of(d).place_runs
    here = [x.item() / runs for x in d.place_second if str(x.place.values).endswith(", 10")]
    pooled = float(np.mean(here))
    score = (max(here) - min(here)) / math.sqrt(2.0 * pooled * (1.0 - pooled) / runs)
    because = "three standard errors"
    return near(score, 0.0, 3.0, because=because, note=_words(d, "second"))


@fig.claim("new", "ours")
def schedule(d):
    """With the schedule of Fig. 4a the first 4000 steps tell: the larger of |ν| and |η| is that of
    the end (share of the runs)."""
    # Fails if runs cross over later: chaos reigns between steps 500 and 1000, and would show.
    runs, last = settings_of(d).runs, d.isel(read=-1)
    wrong = int(last.schedule_missed + last.schedule_false)
    false = ", ".join(f"{int(x)} at {int(x.read)}" for x in d.schedule_false)
    words = f"{int(d.schedule_swapped)} of {runs} end swapped. Said to, but do not: {false}; "
    words += f"missed: {int(d.schedule_missed.max())} at most."
    return at_least(1.0 - wrong / runs, 0.99, because="one in a hundred", note=words)
