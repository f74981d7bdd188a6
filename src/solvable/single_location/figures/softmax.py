"""Does softmax find the token from starts where erf does not: its descent, exactly."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, at_least, at_most, near, settings_of, step
from ...reproduce.panels import Mark, Panel, drawn, each, entry, level, theory, tokens
from ...style import colour
from .. import (
    State,
    Task,
    best_lam,
    excess_risk,
    linear_excess,
    published,
    softmax_excess,
    softmax_slopes,
    sphere,
    train,
)
from ..state import NAMES, scalars, vectors
from .basins import wilson

KINDS = ("erf", "softmax")
SMALL = 1e-4  # scalars by whose difference slopes are differentiated
EXACT = 1e-12  # of excess risks, generously

fig = Figure(
    "single_location/softmax",
    "Softmax instead of erf: from which starts the token is found",
    settings={
        "quick": {"runs": 60, "lam": (0.1, 0.3, 1.0), "lengths": (10, 200)},
        "default": {"runs": 200, "lam": (0.1, 0.2, 0.3, 0.5, 1.0, 2.0), "lengths": (10, 50, 200)},
        "full": {
            "runs": 2000,
            "lam": (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 2.0, 3.0),
            "lengths": (10, 20, 50, 100, 200),
        },
    },
    constants={
        "dim": 400,
        "gamma2": 0.5,
        "length": 10,
        "figure": "7b",
        "log_every": 50,
        "batch": 5,
        "noises": 4,  # of SGD from every start
        "found": 0.9,  # |ν|; |η| at a swapped minimum
        "time": {"erf": 40.0, "softmax": 20.0},  # of the runs against λ
        "lr": {"small": 4e-3, "large": 1e-3},  # of erf, for which the larger step is unstable
        "large": 0.4,
        "many": {"lam": 1.0, "time": 0.5},  # against L, until 0.5 L
        # A place near another minimum at L = 10, and how it is come by.
        "other": {"lam": 0.3, "place": (-0.4, -0.3, -0.94, -0.91, 0.64), "time": 200.0},
    },
    note=(
        "Not in the paper, which replaces softmax by erf and trains that. Projected gradient "
        "descent on the exact risk of either predictor, ‖k‖ = ‖v‖ = 1; for softmax the risk is "
        "the sum of a few hundred exponentials. (a), (b): the 30 published starts of Fig. 7b, "
        "λ = 0.1, α = 0.004. (c): random starts on the sphere, others at every λ, the same for "
        "both predictors; bars: Wilson's 95 % intervals. A run has found the token if |ν| > 0.9 > "
        "|η| at α × steps = 40 (erf), 20 (softmax), as κ may still be growing. (d): medians of the "
        "same runs, above the oracle's curve where κ is still growing; the excess risk is what "
        "tells whether finding was worth it; above λ_c = 0.89 erf has another minimum where the "
        "oracle was (Fig. 7a), near which its runs are. (e): λ = 1, read at α × steps = L/2 and "
        "not before 20. d = 400, and L = 10 but in (e)."
    ),
)


def _task(settings: Any, length: int) -> Task:
    return Task(settings.dim, length, settings.gamma2**0.5)


def _last(run: Any, name: str) -> np.ndarray:
    return np.asarray(getattr(run, name))[:, -1]


def _state(values: Any) -> State:
    """A state of its five scalars, one after the other."""
    return State(**dict(zip(NAMES, values, strict=True)))


def _count(settings: Any, run: Any) -> dict[str, int]:
    """How many runs have found the token, with which sign, and how many are swapped."""
    nu, eta = _last(run, "nu"), _last(run, "eta")
    at, turned = abs(nu) > settings.found, abs(eta) > settings.found
    # Both are large at the minimum that takes the oracle's place for erf at λ > λ_c.
    found = {"found": at & ~turned, "positive": at & ~turned & (nu > 0.0), "swapped": turned & ~at}
    return {name: int(which.sum()) for name, which in found.items()}


@fig.data
def same_starts(settings: Any) -> xr.Dataset:
    """The published starts by erf, by softmax, and by softmax with SGD; then erf's swapped ends."""
    given = published(settings.figure)
    how = {**given.how, "log_every": settings.log_every, "progress": step}
    runs = {kind: train(given.task, given.start, attention=kind, **how) for kind in KINDS}
    found: dict[str, Any] = {"at": runs["erf"].time, "kind": list(KINDS)}
    for name in ("kappa", "nu", "loss"):
        values = np.stack([np.asarray(getattr(runs[kind], name)) for kind in KINDS])
        found[name] = ("kind", "run", "at"), values
    lost = abs(_last(runs["erf"], "nu")) <= settings.found
    ends = _state(_last(runs["erf"], name)[lost] for name in NAMES)
    carried = train(given.task, ends, attention="softmax", **how)
    found["carried"] = _count(settings, carried)["found"]
    short = round(settings.time["softmax"] / given.lr)
    how |= {"steps": short, "log_every": short, "batch": settings.batch, "seed": settings.seed}
    start = _state(np.tile(getattr(given.start, name), settings.noises) for name in NAMES)
    noisy = train(given.task, start, attention="softmax", **how)
    return xr.Dataset(found | {"sgd": _count(settings, noisy)["found"]})


@fig.data
def against_lam(settings: Any) -> xr.Dataset:
    """Random starts, others at every λ, the same for both predictors."""
    task, rows = _task(settings, settings.length), []
    oracle = State(1.0, 1.0)
    for k, lam in enumerate(settings.lam):
        start = sphere(task, settings.runs, seed=settings.seed + k)
        for kind in KINDS:
            lr = settings.lr["large" if lam > settings.large and kind == "erf" else "small"]
            steps = round(settings.time[kind] / lr)
            how = {"lam": lam, "lr": lr, "steps": steps, "log_every": steps, "progress": step}
            run = train(task, start, attention=kind, **how)
            risk = {"erf": excess_risk, "softmax": softmax_excess}[kind]
            row = _count(settings, run) | {"median": float(np.median(_last(run, "loss")))}
            rows.append(row | {"oracle": float(risk(task, oracle, lam))})
    shape = (len(settings.lam), len(KINDS))
    data = {n: (("lam", "kind"), np.reshape([row[n] for row in rows], shape)) for n in rows[0]}
    data |= {"linear": float(linear_excess(task)), "best": best_lam(task).excess}
    return xr.Dataset(data, coords={"lam": list(settings.lam)})


def _bend(task: Task, x: State, lam: float) -> float:
    """The smallest eigenvalue of the Hessian of softmax's risk on both spheres, at one state.

    A fifth axis is all that is orthogonal to k, v, k*, v*; lengths are made stiff.
    """
    place = np.concatenate([np.asarray(x)[:5] for x in vectors(task, x)])

    def risk(z: Any) -> Any:
        k, v = z[:5], z[5:]
        size = jnp.linalg.norm(k), jnp.linalg.norm(v)
        held = 1e3 * sum((x - 1.0) ** 2 for x in size)
        return softmax_excess(task, scalars(k / size[0], v / size[1]), lam) + held

    return float(np.linalg.eigvalsh(jax.hessian(risk)(jnp.asarray(place))).min())


@fig.data
def against_length(settings: Any) -> xr.Dataset:
    """Random starts at every L, by softmax; where those end that are swapped."""
    lam, rows, bend = settings.many["lam"], [], math.nan
    for k, length in enumerate(settings.lengths):
        task, lr = _task(settings, length), settings.lr["small"]
        steps = round(max(settings.time["softmax"], settings.many["time"] * length) / lr)
        start = sphere(task, settings.runs, seed=settings.seed + 50 + k)
        how = {"lam": lam, "lr": lr, "steps": steps, "log_every": steps, "progress": step}
        run = train(task, start, attention="softmax", **how)
        lost = _last(run, "eta") ** 2 > settings.found**2
        lost &= abs(_last(run, "nu")) <= settings.found
        risks = np.where(lost, _last(run, "loss"), np.inf)
        row = _count(settings, run) | {"swapped_excess": [np.nan] * 3}
        if lost.any():
            row["swapped_excess"] = np.quantile(risks[lost], [0.0, 0.5, 1.0]).tolist()
            least = _state(_last(run, name)[risks.argmin()] for name in NAMES)
            bend = _bend(task, least, lam)
        rows.append(row | {"oracle": float(softmax_excess(task, State(1.0, 1.0), lam))})
    ends = [row.pop("swapped_excess") for row in rows]
    data = {f"length_{name}": ("length", [row[name] for row in rows]) for name in rows[0]}
    data |= {"swapped_excess": (("length", "side"), ends), "swapped_bend": bend}
    return xr.Dataset(data, coords={"length": list(settings.lengths)})


@fig.data
def other(settings: Any) -> xr.Dataset:
    """Where softmax's descent at L = 10 ends from a start of our choice."""
    task, lr, lam = _task(settings, settings.length), settings.lr["small"], settings.other["lam"]
    place = np.array(settings.other["place"])
    place[4] = place[0] * place[2] + place[3] * place[1]  # what k and v are in the plane
    steps = round(settings.other["time"] / lr)
    how = {"lam": lam, "lr": lr, "steps": steps, "log_every": steps, "progress": step}
    run = train(task, State(*place), attention="softmax", **how)
    end = _state(np.asarray(getattr(run, name))[-1] for name in NAMES)
    told = {f"other_{name}": float(getattr(end, name)) for name in NAMES}
    bend = _bend(task, end, lam)
    return xr.Dataset(told | {"other_bend": bend, "other_excess": float(run.loss[-1])})


def _ways(settings: Any, length: int, lam: float) -> dict[str, float]:
    """The drift of ν at the origin, when κ has come to 1/(λD), and how far (θ, η) grow until then.

    ``ν = ct`` and ``κ̇ = pν`` give ``t = √(2/(λDcp))``; θ and η grow as ``[[−h, b], [b, 0]]`` does.
    """
    task = _task(settings, length)
    x = State(*(SMALL * np.eye(5)[[0, 1, 2, 3, 4]] * np.eye(5)[:, [1, 1, 2, 3, 4]]).T)
    r, o = softmax_slopes(task, x, lam), softmax_slopes(task, State(0.0, 0.0), lam)
    drift, push = -float(o.nu), float(o.kappa - np.asarray(r.kappa)[1]) / SMALL
    damp, both = float(np.asarray(r.theta)[2]) / SMALL, -float(np.asarray(r.theta)[3]) / SMALL
    rate = math.hypot(0.5 * damp, both) - 0.5 * damp
    when = math.sqrt(2.0 / (lam * task.signal * drift * push))
    return {"drift": drift, "when": when, "efolds": rate * when}


@fig.data
def origin(settings: Any) -> xr.Dataset:
    """The linearised descent at the origin."""
    here = [_ways(settings, settings.length, lam) for lam in settings.lam]
    there = [_ways(settings, length, settings.many["lam"]) for length in settings.lengths]
    given = published(settings.figure)
    data = {f"lam_{name}": ("lam", [row[name] for row in here]) for name in here[0]}
    data |= {f"length_{name}": ("length", [row[name] for row in there]) for name in there[0]}
    return xr.Dataset(data | {"drift": _ways(settings, settings.length, given.lam)["drift"]})


def _bars(x: Any, hits: Any, runs: int, label: str, k: int) -> Mark:
    """Shares with Wilson's intervals."""
    share, ends = np.asarray(hits) / runs, np.asarray(wilson(hits, runs))
    error = np.maximum([share - ends[0], ends[1] - share], 0.0)
    look = {"marker": "o", "markersize": 3.5, "linewidth": 1.0, "color": colour(k)}
    return Mark(lambda axes: axes.errorbar(x, share, yerr=error, label=label, **look))


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """Runs from the published starts, shares against λ and L, and what is lost."""
    runs, late = settings_of(d).runs, d.isel(at=slice(1, None))
    paths = {"nu": [], "kappa": []}
    for name, marks in paths.items():
        for k, kind in enumerate(KINDS[::-1]):
            values = late[name].sel(kind=kind)
            marks.append(each(late["at"], values, "", k, linewidth=0.9))
            marks.append(entry(kind, color=colour(k)))
        marks.append(level())
    shares, risks = [], [level(float(d.linear)), entry("best linear", color="0.6", linewidth=0.7)]
    for k, kind in enumerate(KINDS[::-1]):
        here = d.sel(kind=kind)
        shares.append(_bars(d.lam, here.found, runs, kind, k))
        oracle = here.oracle.where(here.oracle > EXACT)
        risks.append(theory(d.lam, oracle, rf"{kind}, $k = k^*$, $v = v^*$", k))
        risks.append(tokens(d.lam, here["median"], f"{kind}, runs", k))
    many = [
        _bars(d.length, d.length_found, runs, "found", 0),
        _bars(d.length, d.length_swapped, runs, "swapped", 3),
    ]
    lam, t, share = (
        r"inverse temperature $\lambda$",
        r"time $\alpha\,\times$ steps",
        "share of runs",
    )
    tall, title = (-0.03, 1.05), "the published starts of Fig. 7b"
    return drawn(
        Panel(t, r"$\nu = v\cdot v^*$", paths["nu"], log="x", title=title, where="upper left"),
        Panel(t, r"$\kappa = k\cdot k^*$", paths["kappa"], log="x", title=title, legend=0),
        Panel(lam, "share that find the token", shares, log="x", ylim=tall, where="lower left"),
        Panel(lam, r"excess risk $R - \varepsilon^2$", risks, log="xy", where="lower left"),
        Panel("$L$", share, many, log="x", ylim=tall, title=r"softmax, $\lambda = 1$"),
        rows=2,
    )


@fig.claim("new", "derived")
def published_starts(d):
    """From the published starts of Fig. 7b that erf loses, softmax at the same λ finds the token
    (share of them at the end)."""
    nu, least = abs(d.nu.isel(at=-1)), settings_of(d).found
    lost = (nu.sel(kind="erf") <= least).values
    found = (nu.sel(kind="softmax") > least).values
    words = f"erf loses {lost.sum()} of {lost.size}; softmax finds {found.sum()} of {lost.size}."
    return near(found[lost].mean(), 1.0, 0.0, because="all of them", note=words)


@fig.claim("new", "ours")
def from_where_erf_ends(d):
    """Even from erf's swapped minimum, where those runs end, softmax at that λ goes on to the token
    (share of them)."""
    lost = int((abs(d.nu.isel(at=-1).sel(kind="erf")) <= settings_of(d).found).sum())
    words = f"{int(d.carried)} of {lost}: for softmax it is no minimum."
    return near(float(d.carried) / max(lost, 1), 1.0, 0.0, because="all of them", note=words)


@fig.claim("new", "ours")
def random_starts(d):
    """From random starts softmax finds the token at every λ, L = 10 (lower end of the 95 % interval
    of the share)."""
    found, runs = d.found.sel(kind="softmax"), settings_of(d).runs
    tried = runs * found.size
    low, _ = wilson(int(found.sum()), tried)
    told = [f"{int(x) / runs:.3f} (λ = {float(x.lam):g})" for x in d.found.sel(kind="erf")]
    words = f"{int(found.sum())} of {tried} runs; erf from the same starts: {', '.join(told)}."
    return at_least(low, 0.97, because="one or two lost of quick's 180 would fail", note=words)


@fig.claim("new", "ours")
def erf_loses(d):
    """Where erf's oracle is at its best, erf loses runs from the same random starts (its share at
    λ = 0.1: upper end of the 95 % interval)."""
    runs = settings_of(d).runs
    _, high = wilson(int(d.found.sel(kind="erf", lam=0.1)), runs)
    words = f"{int(d.found.sel(kind='erf', lam=0.1))} of {runs}."
    return at_most(high, 0.9, because="else the two do not differ", note=words)


@fig.claim("new", "derived")
def sign(d):
    """All of them end at (1, 1): softmax has no sign to choose, as erf has (share of the runs with
    ν > 0)."""
    here, other = d.sel(kind="softmax"), d.sel(kind="erf")
    words = f"erf: {float(other.positive.sum() / other.found.sum()):.2f} of what it finds."
    ratio = float(here.positive.sum()) / (settings_of(d).runs * d.sizes["lam"])
    return near(ratio, 1.0, 0.0, because="not one", note=words)


@fig.claim("new", "ours")
def sgd(d):
    """So does SGD with five fresh data a step, from the published starts, each with several noises
    (lower end of the 95 % interval of the share)."""
    tried = d.sizes["run"] * settings_of(d).noises
    words = f"{int(d.sgd)} of {tried}; α = 0.004, until α × steps = 20."
    low, _ = wilson(int(d.sgd), tried)
    return at_least(low, 0.95, because="two lost of 120 would fail", note=words)


@fig.claim("check", "derived")
def drift(d):
    """From the start, whatever it is, artanh ν grows at the drift of the origin, about 2γ²/L (its
    gain until t = 1, mean over the published starts, relative to the drift)."""
    one = float(d["at"].sel(at=1.0, method="nearest"))
    nu = np.arctanh(d.nu.sel(kind="softmax", at=[0.0, one]))
    gain = float((nu.isel(at=1) - nu.isel(at=0)).mean()) / one
    because = "κ, at 1/√d at first, changes the attention by λDκ"
    words = f"{gain:.4f} and {float(d.drift):.4f}."
    return near(gain / float(d.drift), 1.0, 0.1, because=because, note=words)


@fig.claim("new", "derived")
def why(d):
    """That is why: the drift of ν takes κ to 1/(λD) before θ and η, which lead to a swapped
    minimum, have grown e-fold, at L = 10 (largest number of e-folds, all λ)."""
    told = [f"{float(x):.2f} (λ = {float(x.lam):g})" for x in d.lam_efolds]
    more = [f"{float(x):.2f} (L = {int(x.length)})" for x in d.length_efolds]
    words = f"{', '.join(told)}; at λ = 1 {', '.join(more)}."
    because = "an e-fold does not take θ and η out of the size of a random start"
    return at_most(d.lam_efolds.max(), 1.0, because=because, note=words)


@fig.claim("new", "ours")
def many_tokens(d):
    """With many tokens that is over: at the largest L softmax loses runs to a swapped minimum of
    its own (lower end of the share's interval less the upper end of the smallest L's)."""
    runs, swapped = settings_of(d).runs, d.length_swapped.values
    low, high = wilson(swapped, runs)
    told = [f"{int(x) / runs:.3f} (L = {int(x.length)})" for x in d.length_swapped]
    words = (
        f"Swapped: {', '.join(told)}; found: {float(d.length_found[-1]) / runs:.3f} at the last."
    )
    because = "95 % intervals that do not meet"
    return at_least(low[-1] - high[0], 0.0, because=because, note=words)


@fig.claim("new", "ours")
def swapped(d):
    """Most of those runs are at one place, with an excess risk that is not the oracle's (their
    median at the largest L, relative to the smallest of them)."""
    low, middle, high = (float(x) for x in d.swapped_excess[-1])
    words = f"Excess {low:.4f} to {high:.4f}, median {middle:.4f}; the oracle at this λ: "
    words += f"{float(d.length_oracle[-1]):.1e}."
    because = "some are still on their way"
    return near(middle / low, 1.0, 0.01, because=because, note=words)


@fig.claim("new", "ours")
def minimum(d):
    """It is a minimum, which no run leaves (smallest eigenvalue of the Hessian on the two spheres,
    at the largest L)."""
    return at_least(d.swapped_bend, 0.0, because="at a saddle one is negative")


@fig.claim("new", "ours")
def another(d):
    """Softmax has another minimum at L = 10, too, which no random start has found (smallest
    eigenvalue of the Hessian there, λ = 0.3)."""
    at = ", ".join(f"{float(d[f'other_{name}']):.3f}" for name in NAMES)
    words = f"(κ, ν, θ, η, ρ) = ({at}), excess {float(d.other_excess):.4f}: more than zero has."
    return at_least(d.other_bend, 0.0, because="at a saddle one is negative", note=words)


@fig.claim("new", "derived")
def price(d):
    """At λ = 0.1, erf's, finding is worth less: softmax's oracle loses more than erf's (its excess
    risk, relative to that)."""
    here = d.oracle.sel(lam=0.1)
    soft, erf = (float(here.sel(kind=kind)) for kind in ("softmax", "erf"))
    words = f"{soft:.4f} and {erf:.4f}; the best linear predictor: {float(d.linear):.4f}."
    return at_least(soft / erf, 1.0, because="the same would be 1", note=words)


@fig.claim("new", "ours")
def gain(d):
    """At λ = 1 the runs of softmax lose less than a hundredth of what erf's oracle does at its best
    λ (their median excess, relative to that)."""
    here, best = float(d["median"].sel(kind="softmax", lam=1.0)), float(d.best)
    words = f"{here:.1e} and {best:.4f}."
    return at_most(here / best, 0.01, because="a hundredth", note=words)
