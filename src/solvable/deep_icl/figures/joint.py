"""Width, depth and time together: the loss in compute, and the tails at the optimum."""

import math
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, Finding, at_least, near, settings_of
from ...reproduce.panels import Mark, Panel, drawn, entry, law, theory, tokens, upright
from ...style import THEORY, TOKENS, TRAINING, colour
from .. import RotatedStructure, draw_spectra, edge, loss, loss_curve, optimum
from ._rotated import SEEDS, DrawnFlow, repeated, seeds_gap, spaced

LIMITS = 1e3, 1e6  # compute, between which envelopes are judged

fig = Figure(
    "deep_icl/joint",
    "Width, depth and time together: the loss in compute, and the tails at the optimum",
    settings={
        "quick": {"trained": (16,), "steps": 300, "batch": 16, "seeds": 6, "contexts": 1000},
        "default": {"trained": (8, 16), "steps": 1500, "batch": 16, "seeds": 6, "contexts": 1000},
        "full": {
            "trained": (4, 8, 16, 32, 64),
            "steps": 50_000,
            "batch": 64,
            "seeds": 8,
            "contexts": 20_000,
        },
    },
    constants={
        "nu": 1.25,
        "beta": 1.0,
        "dim": 64,
        "widths": (4, 8, 16, 32, 64),
        "rate": 0.85,
        "listed": 50_000,  # steps
        # Tails: ν, β, D, N and L, and γ·edge/L where the mean is judged.
        "tails": (1.25, 0.8, 256, 64, 8),
        "backed": 1.5,
        "means": (4, 4000),  # draws of so many contexts, on whose mean loss γ descends
    },
    note=(
        "ν = 1.25, β = 1, D = 64, L = ⌊(N/4)^ν⌋, endless contexts; γ is that of γ (D/N) Π, and t "
        "its time. The listed runs have γΠ, η = 0.85, B = 64 contexts a step and T = 50000 steps, "
        "where curves end; a step is (N/D)² as long here, and the listed tN²L is D²tL: at fixed D "
        "its width costs nothing, which panel (b) shows. Only the full size trains so long; below "
        "it B = 16 and fewer steps, from several seeds. The top eigenvalue of a context fluctuates "
        "by about √(2/N): near the edge of stability rare contexts diverge, and the mean over "
        "contexts is not what the equivalent describes."
    ),
)


def _depth(settings: Any, width: int) -> int:
    """L = ⌊(N/4)^ν⌋."""
    return int((width / 4.0) ** settings.nu + 1e-9)


def _task(settings: Any, width: int) -> RotatedStructure:
    return RotatedStructure(settings.nu, settings.beta, settings.dim, width=width)


@fig.data
def flows(settings: Any) -> xr.Dataset:
    """The flow of every shape, at equal compute: tN²L, and the listed one, D²tL."""
    budget, found = np.geomspace(10.0, 1e7, 121), {"flow": [], "listed_flow": []}
    for width in settings.widths:
        depth = _depth(settings, width)
        for name, cost in (("flow", width**2), ("listed_flow", settings.dim**2)):
            times = budget / (cost * depth)
            row = np.asarray(loss_curve(_task(settings, width), times, depth))
            end = settings.listed * settings.rate * width / settings.dim**2
            found[name].append(np.where(times <= end, row, np.nan))
    both = {name: (("width", "budget"), np.asarray(rows)) for name, rows in found.items()}
    return xr.Dataset(both, coords={"width": list(settings.widths), "budget": budget})


def _descended(flow: DrawnFlow, one: float, at: np.ndarray) -> np.ndarray:
    """γ by steps of a length in time down what the flow goes down."""
    speed, gammas = np.gradient(flow.gammas, flow.time), [0.0]
    for _ in range(int(at[-1])):
        gammas.append(gammas[-1] + one * float(np.interp(gammas[-1], flow.gammas, speed)))
    return np.asarray(gammas)[at]


@fig.data
def runs(settings: Any) -> xr.Dataset:
    """Γ on contexts from several seeds, and γ by the same steps on draws of many contexts."""
    found: list[xr.Dataset] = []
    for width in settings.trained:
        task, depth = _task(settings, width), _depth(settings, width)
        run = repeated(task, depth, settings.rate, settings)
        (draws, many), one, rows = settings.means, float(run.time[-1] / run.step[-1]), []
        for seed in range(settings.seed, settings.seed + draws):
            spectra = draw_spectra(task, many, seed=seed)
            flow = DrawnFlow(spectra, depth, float(edge(task)))
            rows.append(_descended(flow, one, run.step.values))
        found.append(run.assign(drawn_gammas=(("draw", "step"), np.stack(rows))))
    return xr.concat(found, xr.IndexVariable("trained", list(settings.trained)))


@fig.data
def tails(settings: Any) -> xr.Dataset:
    """Drawn contexts against the equivalent, up to its best γ."""
    nu, beta, dim, width, depth = settings.tails
    task = RotatedStructure(nu, beta, dim, width=width)
    top, best = float(edge(task)), optimum(task, depth)
    most = float(best.gamma) * top / depth
    loads = np.unique([*np.linspace(0.9, 1.9, 11).round(3), settings.backed, most])
    gamma = loads * depth / top
    spectra = draw_spectra(task, settings.contexts, seed=settings.seed)
    values = spectra.loss(gamma=gamma, depth=depth)
    below = spectra.eigenvalues.max(axis=1) <= top
    inside, outside = values[:, below], values[:, ~below]
    found = {
        "tail_theory": np.asarray(loss(task, gamma=gamma, depth=depth)),
        "tail_mean": values.mean(axis=-1),
        "tail_error": values.std(axis=-1, ddof=1) / math.sqrt(values.shape[-1]),
        "tail_median": np.median(values, axis=-1),
        "inside_mean": inside.mean(axis=-1),
        "inside_error": inside.std(axis=-1, ddof=1) / math.sqrt(inside.shape[-1]),
        "outside_mean": outside.mean(axis=-1),
        "outside_error": outside.std(axis=-1, ddof=1) / math.sqrt(outside.shape[-1]),
    }
    return xr.Dataset(
        {name: ("tail_load", row) for name, row in found.items()}
        | {"best_load": most, "outside": 1.0 - inside.shape[-1] / values.shape[-1]},
        coords={"tail_load": loads},
    )


POWERS = {
    "flow": r"$C^{-\nu\beta/((3+\beta)\nu+2)}$",
    "listed_flow": r"$C^{-\beta/(3+\beta)}$",
}


def _power(settings: Any, name: str) -> float:
    nu, beta = settings.nu, settings.beta
    return nu * beta / ((3.0 + beta) * nu + 2.0) if name == "flow" else beta / (3.0 + beta)


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """Loss against compute, in our time and in that of listed runs, and the tails."""
    settings, both = settings_of(d), []
    for name, words in POWERS.items():
        marks = []
        for k, width in enumerate(settings.widths):
            depth = _depth(settings, width)
            label = f"$N = {width}$, $L = {depth}$"
            marks.append(theory(d.budget, d[name].sel(width=width), label, k))
            if width in settings.trained:
                run = d.sel(trained=width)
                spent = run.time * depth * (width if name == "flow" else settings.dim) ** 2
                at = spaced(d.step.values)
                marks.append(tokens(spent[at], run.tokens_loss.mean("run")[at], "", k))
        anchor = float(d[name].min("width").sel(budget=1e5, method="nearest"))
        inside = d.budget.sel(budget=slice(*LIMITS))
        marks.append(law(inside, 0.8 * anchor * (inside / 1e5) ** -_power(settings, name), words))
        marks.append(entry("flow of the equivalent", color="0.3", **THEORY))
        marks.append(entry("Γ on contexts", color="0.3", **TOKENS))
        both.append(marks)

    def mean(axes: Any) -> None:
        look: dict[str, Any] = {"color": colour(1), "label": "mean"}
        axes.errorbar(d.tail_load, d.tail_mean, yerr=d.tail_error, **look, **TRAINING)

    tail = [
        theory(d.tail_load, d.tail_theory, "equivalent", 6),
        tokens(d.tail_load, d.tail_median, "median"),
        Mark(mean),
        theory(d.tail_load, d.inside_mean, "mean, top eigenvalue below the edge", 2, linestyle="-"),
        upright(float(d.best_load), color="0.35", linestyle=":", label=r"$\gamma^*$"),
    ]
    _, _, dim, width, depth = settings.tails
    look: dict[str, Any] = {"log": "xy", "ylim": (0.03, 1.3), "legend": 6.5, "where": "lower left"}
    shape = f"$D = {settings.dim}$, $L = \\lfloor(N/4)^\\nu\\rfloor$"
    title = f"$N = {width}$, $L = {depth}$, $D = {dim}$"
    listed = r"in the time of $\gamma\Pi$, $t_\Pi = (D/N)^2\,t$"
    load = r"$\gamma\,\lambda_\mathrm{edge}/L$"
    return drawn(
        Panel("$C = tN^2L$", r"$\mathcal{L}$", both[0], title=shape, **look),
        Panel(r"$C = t_\Pi N^2L$", r"$\mathcal{L}$", both[1], title=listed, **look),
        Panel(load, r"$\mathcal{L}$", tail, log="y", title=title, legend=7.0),
    )


def _slope(d: xr.Dataset, name: str) -> float:
    """Of the lower envelope, by least squares in log-log."""
    least = d[name].min("width").sel(budget=slice(*LIMITS))
    return -float(np.polyfit(np.log(least.budget.values), np.log(least.values), 1)[0])


@fig.claim("new", "argued", word="free-width")
def free_width(d):
    """In the time of γΠ, which the listed runs have, a width costs nothing at fixed D: the lower
    envelope of the shapes L = ⌊(N/4)^ν⌋ falls as C^(−β/(3+β)), C = tN²L of γΠ (slope by least
    squares, C from 10³ to 10⁶)."""
    told, other = (_power(settings_of(d), name) for name in ("listed_flow", "flow"))
    words = f"In the time of γ (D/N) Π it falls with {_slope(d, 'flow'):.3f}, beside {other:.3f} "
    words += "of laws. That power is reported: deep_icl/optimal-shape judges it along the best "
    words += "shapes, at β = 0.8 and 1.5."
    because = "half of what tells it from C^(−νβ/((3+β)ν+2)), in which N² is paid"
    slack = 0.5 * (told - other)
    return near(_slope(d, "listed_flow"), told, slack, because=because, note=words)


@fig.claim("check", "ours", word="tokens")
def on_contexts(d):
    """Γ trained on fresh contexts follows the same steps on the mean loss of drawn contexts
    (relative gap of its mean diagonal, mean over seeds and over the run from a tenth on; the N
    furthest off by its tolerance)."""
    each = (d.drawn_gammas / d.drawn_gammas.mean("draw")).sel(step=d.step >= 0.1 * d.step[-1])
    each = each.mean("step")
    spread = each.max("draw") - each.min("draw")
    means = d.assign(drawn_gamma=d.drawn_gammas.mean("draw"))
    gap, slack = seeds_gap(means, "drawn_gamma", spread)
    words = f"N = {', '.join(map(str, d.trained.values))}; {d.sizes['run']} seeds, "
    words += f"{int(d.step[-1])} steps; from the equivalent's γ it is {seeds_gap(d)[0]:.3f} away."
    because = f"{SEEDS}; and at most {float(spread.max()):.4f} by which draws of "
    because += f"{settings_of(d).means[1]} contexts are apart"
    return near(gap, 0.0, slack, because=because, note=words)


def _tail(d: xr.Dataset, load: Any, name: str, note: str = "") -> Finding:
    """A statistic of drawn contexts over the equivalent."""
    here, width = d.sel(tail_load=load), settings_of(d).tails[3]
    slack = here[f"{name}_error"] / here.tail_theory if f"{name}_error" in d else 0.0
    because = "the equivalent's next order, 1/N, and 3 standard errors"
    ratio = here[f"{name}_mean" if f"{name}_error" in d else name] / here.tail_theory
    return near(ratio, 1.0, 1.0 / width + 3.0 * slack, because=because, note=note)


@fig.claim("check", "ours")
def median(d):
    """At the best γ of the equivalent the median context has its loss (ratio)."""
    return _tail(d, d.best_load, "tail_median")


@fig.claim("new", "numbers")
def rare(d):
    """At the best γ of the equivalent the mean over the contexts whose top eigenvalue is below its
    edge is the equivalent (ratio)."""
    return _tail(d, d.best_load, "inside")


@fig.claim("new", "numbers")
def share(d):
    """The contexts beyond it lose more than the others there (their mean, 3 standard errors taken
    off, over the mean of the others)."""
    best, outside = d.sel(tail_load=d.best_load), float(d.outside)
    carried = 1.0 - (1.0 - outside) * float(best.inside_mean / best.tail_mean)
    words = f"They are {100.0 * outside:.1f} % of the contexts and {100.0 * carried:.0f} % of the "
    words += f"mean, which is {float(best.tail_mean / best.tail_theory):.2f} times the equivalent."
    least = (best.outside_mean - 3.0 * best.outside_error) / best.inside_mean
    return at_least(least, 1.0, because="1 if they lost no more than the others", note=words)


@fig.claim("check", "ours")
def back_off(d):
    """At γ·edge/L = {backed} the mean over all contexts is the equivalent (ratio)."""
    return _tail(d, settings_of(d).backed, "tail")


FIGURE = fig
