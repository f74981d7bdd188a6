"""Layers with weights of their own: tied until something sets them apart."""

from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr
from scipy.stats import t as student

from ...reproduce import Figure, at_least, near, settings_of, step, worst_ratio
from ...reproduce.panels import Panel, drawn, entry, level, line, theory, tokens, training
from ...style import LAW, THEORY, TRAINING, colour
from .. import Init, RotatedStructure, loss_curve, train, train_brute
from ._parting import leave, saddle, twice

fig = Figure(
    "deep_icl/untied",
    "Layers with weights of their own: tied until something sets them apart",
    settings={
        "quick": {"dim": 48, "depths": (1, 4), "steps": 2000, "runs": 4}
        | {"tokens": {"dim": 24, "contexts": 32, "steps": 60, "seeds": 4}},
        "default": {"dim": 128, "depths": (1, 2, 4, 8), "steps": 10_000, "runs": 4}
        | {"tokens": {"dim": 32, "contexts": 64, "steps": 150, "seeds": 6}},
        "full": {"dim": 128, "depths": (1, 2, 4, 8), "steps": 10_000, "runs": 32}
        | {"tokens": {"dim": 128, "contexts": 256, "steps": 10_000, "seeds": 8}},
    },
    constants={"nu": 1.25, "beta": 0.75, "rate": 4.0, "token_depth": 4}  # η of the matrix Γ
    # The layers that leave: D, β, L, how far apart they start; the ends of flows.
    | {"large": 500, "source": 1.0, "leaving": (2, 4, 8), "apart": 1e-3}
    | {"end": 1e8, "early": 1e3},
    note=(
        "Contexts without end at full width, ν = 1.25. Panel (a) is as reported, β = 0.75, D = 128 "
        "(quick: D = 48), η = 4 for tied layers and 4L for untied ones, in the reduction; whole "
        "matrices are trained on contexts with a smaller D, fewer contexts and fewer steps (full: "
        "as listed). Panels (b) and (c) are ours, D = 500, β = 1: the flow dγ/dt = −L ∂𝓛/∂γ of "
        "every layer, from γ that are 1e-3 apart with mean 0. From equal layers nothing breaks the "
        "symmetry but noise. Once their γ are 1 % apart, untied layers are above tied ones of "
        "endless depth at the same t in all of these runs; beyond them that is a conjecture. "
        "Before, they move like tied layers of their depth, which can be below endless ones, and "
        "later they pass tied layers of their depth."
    ),
)


@fig.data
def equal(settings: Any) -> xr.Dataset:
    """Tied and untied layers from equal starts, and the flow of tied ones."""
    task = RotatedStructure(settings.nu, settings.beta, settings.dim)
    how: dict[str, Any] = {"lr": settings.rate, "steps": settings.steps, "time": "matrix"}
    how |= {"log_every": max(1, settings.steps // 1000), "progress": step}
    finer = how | {"lr": settings.rate / 2, "steps": 2 * settings.steps, "layers": "untied"}
    finer |= {"log_every": 2 * how["log_every"]}
    names = "tied", "own", "limit", "flow", "layer_gap"
    found: dict[str, list[Any]] = {name: [] for name in names}
    t = np.zeros(0)
    for depth in settings.depths:
        one = train(task, Init(gamma=0.0), depth=depth, **how)
        many = train(task, Init(gamma=0.0), depth=depth, layers="untied", **how)
        half = np.asarray(train(task, Init(gamma=0.0), depth=depth, **finer).loss)
        t = np.asarray(one.time)
        found["tied"].append(np.asarray(one.loss))
        found["own"].append(np.asarray(many.loss))
        found["limit"].append(2.0 * half - np.asarray(many.loss))
        found["flow"].append(np.asarray(loss_curve(task, t, depth, time="matrix")))
        ratio = np.asarray(many.gamma)[:, 1:] / np.asarray(one.gamma)[1:]
        found["layer_gap"].append(worst_ratio(ratio, 1.0))
    gaps = found.pop("layer_gap")
    both = {name: (("depth", "time"), np.asarray(rows)) for name, rows in found.items()}
    both |= {"layer_gap": ("depth", np.asarray(gaps))}
    return xr.Dataset(both, coords={"depth": list(settings.depths), "time": t})


@fig.data
def on_contexts(settings: Any) -> xr.Dataset:
    """The matrices of all layers on contexts: one step from equal layers, then runs."""
    size, depth = settings.tokens, settings.token_depth
    task = RotatedStructure(settings.nu, settings.beta, size["dim"])
    how: dict[str, Any] = {"depth": depth, "lr": settings.rate, "time": "matrix"}
    real: dict[str, Any] = how | {"contexts": size["contexts"]}
    begin, one = Init(gamma=0.5), real | {"steps": 1, "seed": settings.seed}
    own = np.asarray(train_brute(task, begin, layers="untied", **one).state[0][0])
    tied = np.asarray(train_brute(task, begin, layers="tied", **one).state[0][0])
    how |= {"steps": size["steps"], "log_every": max(1, size["steps"] // 15), "progress": step}
    real |= how | {"layers": "untied"}
    seeds = range(settings.seed, settings.seed + size["seeds"])
    runs = [train_brute(task, Init(gamma=0.0), seed=n, **real) for n in seeds]
    small = train(task, Init(gamma=0.0), **how)
    both = ("seed", "token_time")
    found = {
        "tokens_loss": (both, np.stack([np.asarray(run.loss) for run in runs])),
        "tokens_gamma": (both, np.stack([np.asarray(run.gamma).mean(axis=0) for run in runs])),
        "small_gamma": ("token_time", np.asarray(small.gamma)),
        "small_loss": ("token_time", np.asarray(small.loss)),
        "one_step_gap": np.abs(own.mean(axis=0) - tied).max(),
        "one_step_apart": np.abs(own - own.mean(axis=0)).max(),
    }
    return xr.Dataset(found, coords={"token_time": np.asarray(small.time)})


for stage in (saddle, leave, twice):
    fig.data(stage)


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """Losses of equal layers, of layers that leave the tied ones, and where their γ go."""
    settings, same, leaves, gammas = settings_of(d), [], [], []
    for k, depth in enumerate(settings.depths):
        here = d.sel(depth=depth).isel(time=slice(1, None))
        same.append(training(here.time, here.own, f"$L = {depth}$", k))
        same.append(theory(here.time, here.flow, "", k))
    late, size = d.isel(token_time=slice(1, None)), settings.tokens
    words = rf"matrices, $D = {size['dim']}$, $L = {settings.token_depth}$"
    same.append(tokens(late.token_time, late.tokens_loss.mean("seed"), words, 6))
    same.append(theory(late.token_time, late.small_loss, "", 6))
    same.append(entry("untied", color="0.3", **TRAINING))
    same.append(entry("tied, flow", color="0.3", **THEORY))
    same.append(entry("tied $\\gamma$, the matrices' steps", color=colour(6), **THEORY))
    for k, depth in enumerate(settings.leaving):
        here = d.sel(leaving=depth)
        for run in range(d.sizes["run"]):
            look = {"linewidth": 1.2, "alpha": 0.7, "label": f"$L = {depth}$" if run == 0 else ""}
            leaves.append(line(d.leave_time, here.left.isel(run=run), k=k, **look))
        leaves.append(theory(d.leave_time, here.still, "", k))
        leaves.append(level(float(here.own_best), **(LAW | {"color": colour(k)})))
    leaves.append(line(d.leave_time, d.endless, r"tied, $L = \infty$", 6, linewidth=1.0))
    leaves.append(entry("tied", color="0.3", **THEORY))
    leaves.append(entry("best untied", **LAW))
    middle = settings.leaving[1]
    here = d.sel(leaving=middle)
    for n in range(middle):
        gammas.append(line(d.leave_time, here.layers.isel(layer=n), f"layer {n + 1}", n))
        gammas.append(level(float(here.goal[n]), **(LAW | {"linewidth": 1.0})))
    gammas.append(entry("best untied", **LAW))
    time, loss = "$t$", r"$\mathcal{L}$"
    look: dict[str, Any] = {"log": "xy", "legend": 7.0, "where": "lower left"}
    two = [lambda axes: axes.legend(fontsize=7.0, loc="lower left", ncols=2)]
    wide = look | {"legend": 0, "more": two}
    low, below = 0.25 * float(d.own.min()), 0.03 * float(d.own_best.min())
    title = rf"$D = {settings.large}$, $\beta = {settings.source:g}$"
    return drawn(
        Panel("$t$ of matrices", loss, same, ylim=(low, 1.3), title="equal starts", **look),
        Panel(time, loss, leaves, ylim=(below, 1.0), title=f"{title}, uneven starts", **wide),
        Panel(time, r"$\gamma_\ell$", gammas, log="xy", title=f"$L = {middle}$", ylim=(0.5, None)),
    )


@fig.claim("reported", "accounts: untied figure")
def same(d):
    """Untied layers with the step L·η and an equal start move like tied ones (largest gap of the
    loss, and of any layer's γ relative to γ, over the run)."""
    gap = max(float(abs(d.own - d.tied).max()), float(d.layer_gap.max()))
    return near(gap, 0.0, 1e-12, because="round-off of thousands of steps")


@fig.claim("reported", "accounts: untied figure")
def flow(d):
    """With ever smaller steps their loss is that of the tied layers' flow (largest relative gap
    from a hundredth of the run on, the steps' length taken to 0 along two)."""
    late = d.sel(time=slice(0.01 * float(d.time[-1]), None))
    because = "the square of what a step is worth, 2 % at D = 48, .4 % at D = 128"
    words = f"With the steps as they are: {worst_ratio(late.own, late.flow):.2g}."
    return near(worst_ratio(late.limit, late.flow), 0.0, 1e-3, because=because, note=words)


@fig.claim("check", "ours")
def one_step(d):
    """On drawn contexts a step moves the layers' mean matrix as it moves the tied one (largest
    gap of an entry)."""
    words = f"The layers themselves are up to {float(d.one_step_apart):.2g} apart."
    return near(d.one_step_gap, 0.0, 1e-12, because="the chain rule, to round-off", note=words)


@fig.claim("check", "ours")
def matrices(d):
    """Whole matrices of untied layers, trained on fresh contexts, follow the scalar γ (relative gap
    of their mean diagonal, mean over seeds, from half of the run on, the largest by its
    tolerance)."""
    size = settings_of(d).tokens
    half = d.isel(token_time=slice(d.sizes["token_time"] // 2, None))
    ratio = half.tokens_gamma / half.small_gamma
    gaps, errors = abs(ratio.mean("seed") - 1.0), ratio.std("seed", ddof=1) / size["seeds"] ** 0.5
    beyond = float(student.ppf(0.9985, size["seeds"] - 1))  # of a normal number: 3
    slack = 1.0 / size["contexts"] + beyond * errors
    worst = int((gaps / slack).argmax("token_time"))
    because = f"Student's t of {size['seeds']} seeds, 3 in 1000 beyond {beyond:.1f} standard errors"
    because += "; noise of B contexts a step adds a drift of 1/B"
    words = f"{size['seeds']} seeds, D = {size['dim']}, B = {size['contexts']}; standard error "
    words += f"{float(errors[worst]):.4f}."
    return near(gaps[worst], 0.0, float(slack[worst]), because=because, note=words)


@fig.claim("new", "derived", word="saddle")
def tied_saddle(d):
    """The tied optimum is a saddle of the untied loss at every depth: along each of the L − 1
    directions in which the mean γ rests the second derivative is −(2/L²) Σ a λ²
    (1 − γλ/L)^(2L−2) < 0 (eigenvalues of the Hessian, L = 2, 4, 8, largest relative gap)."""
    modes = d.mode < d.leaving - 1
    gap = abs(d.bend / d.bend_told - 1.0).where(modes).max()
    words = "Lowest: " + ", ".join(f"{x:.3g}" for x in d.bend.min("mode").values) + "."
    return near(gap, 0.0, 1e-9, because="round-off of the Hessian", note=words)


@fig.claim("new", "derived")
def finds(d):
    """From layers 1e-3 apart gradient flow finds the best untied layers, whose loss the Christoffel
    function gives (loss at t = 1e8 over it, less 1: the largest over runs and L = 2, 4, 8)."""
    gap = abs(d.left.isel(leave_time=-1) / d.own_best - 1.0).max()
    words = ", ".join(f"{x:.6g}" for x in d.own_best.values) + "; tied: "
    words += ", ".join(f"{x:.4g}" for x in d.tied_best.values) + "."
    because = "at L = 8 the slowest mode has 20 time constants by then, e^-40; the flow's 1e-8"
    return near(gap, 0.0, 1e-6, because=because, note=f"Best: {words}")


def _constants(d: xr.Dataset) -> xr.DataArray:
    """1/(2Lh), h the smallest eigenvalue of the Hessian at the best layers."""
    return 0.5 / (d.leaving * d.softest)


@fig.claim("check", "ours")
def last_rate(d):
    """The last of 𝓛 − 𝓛* falls as e^(−2Lht), h the smallest eigenvalue of the Hessian at the best
    layers, as near any minimum (rate over 2Lh between 1e-3 and 1e-8 of 𝓛*, mean over runs, the
    furthest from 1 of L = 2, 4, 8)."""

    def rate(excess: np.ndarray) -> float:
        inside = (excess > 1e-8) & (excess < 1e-3)
        return -np.polyfit(d.leave_time.values[inside], np.log(excess[inside]), 1)[0]

    excess = (d.left / d.own_best - 1.0).transpose("leaving", "run", "leave_time").values
    means = np.array([[rate(one) for one in row] for row in excess]).mean(axis=1)
    means *= _constants(d).values
    because = "what is left is a square in the slowest mode up to √1e-3 of itself"
    return near(means[np.argmax(abs(means - 1.0))], 1.0, 0.03, because=because)


@fig.claim("new", "derived")
def late(d):
    """The deeper, the later: the time at which untied layers come within 1 % of their 𝓛* grows with
    depth as 1/(2Lh) does, h the smallest eigenvalue of the Hessian there (logarithm of the growth
    over that of 1/(2Lh), from L = 2 to 4 and 4 to 8, the further from 0; mean over runs)."""
    slow, near_end = _constants(d).values, abs(d.left / d.own_best - 1.0) < 0.01
    t = d.leave_time.where(near_end).min("leave_time").transpose("leaving", "run").values
    off = np.diff(np.log(t / slow[:, None]).mean(axis=1))
    words = "; ".join(
        f"L = {n}: 1/(2Lh) = {one:.3g}, t = {row.min():.2g} to {row.max():.2g}"
        for n, one, row in zip(d.leaving.values, slow, t, strict=True)
    )
    because = "about 7 time constants, and at either depth one more or less for where they begin"
    return near(off[np.argmax(abs(off))], 0.0, 0.3, because=because, note=f"{words}, by run.")


@fig.claim("new", "derived")
def before(d):
    """Until then they move like tied ones: while no two γ are 1 % apart, the loss is the tied one
    (largest relative gap over runs and L = 2, 4, 8)."""
    gap = abs(d.left / d.still - 1.0).where(d.apart < 0.01).max()
    because = "second order in 1 %; of first order it would be 0.01"
    return near(gap, 0.0, 1e-3, because=because)


@fig.claim("new", "numbers")
def above(d):
    """After parting, from when its γ have been 1 % apart, an untied run stays above the tied curve
    of L = ∞ at the same t, in all runs; a conjecture beyond them (smallest ratio of losses, L = 2,
    4, 8)."""
    parted = (d.apart > 0.01).cumsum("leave_time") > 0
    ratio = d.left / d.endless
    rows = ((ratio, "Over all t, with those before, it is"),)
    rows += (((d.left / d.still).where(parted), "over tied layers of the same L after parting"),)
    words = f"{d.sizes['run']} runs a depth. " + "; ".join(
        f"{name} " + ", ".join(f"{x:.2f}" for x in row.min(["run", "leave_time"]).values)
        for row, name in rows
    )
    because = "above at every t"
    return at_least(ratio.where(parted).min(), 1.0, because=because, note=f"{words}.")


@fig.claim("check", "ours")
def by_hand(d):
    """The flow of two layers is that of Runge and Kutta's rule with a gradient of its own (largest
    relative gap of γ, t up to 10³)."""
    gap = worst_ratio(d.by_curve, d.by_rule)
    because = "the flow's 1e-8 a step, times what the saddle makes of it"
    return near(gap, 0.0, 1e-4, because=because)


FIGURE = fig
