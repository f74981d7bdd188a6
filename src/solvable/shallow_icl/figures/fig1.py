"""Fig. 1: merged attention learns in context in a single drop, as a two-layer net does."""

from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, at_most, near, settings_of, step, worst_ratio
from ...reproduce.panels import Panel, drawn, law, level, line, theory, tokens, training
from .. import (
    Run,
    Task,
    conserved_merged,
    converged_map,
    crossing_times,
    escape_rate,
    growing_mode,
    half_rise_time,
    merged,
    mlp,
    plateau_losses,
    sample,
    statistics,
    train,
    train_brute,
    unit_factor,
    white_loss,
)
from ._drops import count_drops
from ._first_slope import first_slope
from ._seeds import power_law

POINTS = 600  # logged in every run, so that each kind is compiled once

fig = Figure(
    "shallow_icl/fig1",
    "Merged attention: one drop, and that of a two-layer linear net beside it",
    settings={
        "quick": {"seeds": 24, "sequences": (1250, 5000, 20_000), "token_sequences": 50},
        "default": {"seeds": 48, "sequences": (1250, 5000, 20_000), "token_sequences": 500},
        "full": {
            "seeds": 100,
            "sequences": (1250, 5000, 20_000, 80_000),
            "token_sequences": 2000,
        },
    },
    constants={
        "dim": 4,
        "context": 31,
        "heads": 8,
        "published": 5000,  # sequences
        "scale": 1e-6,
        "lr": 1e-3,
        "steps": 6000,
        "units": "code",
        "scales": (1e-6, 1e-5, 1e-4, 1e-3),  # at which the escape is timed
        "early": (400, 700),  # steps between which growth is exponential
        "white": {"scale": 1e-3, "rates": (2.5e-4, 1.25e-4)},
        "drift": {"scale": 1e-2, "rates": (1e-3, 5e-4), "time": 186.0},
        "token": {"scale": 1e-4, "lr": 3e-3, "seeds": 3},
    },
    note=(
        "D = 4, N = 31, H = 8 (paper); P = 5000, η = 1e-3, 6001 steps and weights of 1e-6 in the "
        "units of the published code, which does not divide by N; MLP and attention start from the "
        "same weights, which the paper may not have done. On a finite data set the blocks 𝐯 and u "
        "of attention do not stay at zero: in (a) its drop comes earlier than that of the MLP, in "
        "(b) by a part of the time that falls like 1/P (dots: a data set each, the line its "
        "geometric mean). In (c) every task vector comes with its negative, which keeps them at "
        "zero, and the two are equal. The rest is the population. (d): u₀ is the growing mode of "
        "the random start; how the paper's w_init is meant for such a start is not known to us. "
        "White: weights of 0.001 and η = 2.5e-4 and half of it, in the code's units too; our "
        "choice."
    ),
    seed=10,
)


def _task(settings: Any, spectrum: str = "linear") -> Task:
    where = {"basis": "random", "basis_seed": settings.seed}
    return Task(settings.dim, settings.context, spectrum=spectrum, **where)


def _seeds(settings: Any) -> list[int]:
    return list(range(settings.seed, settings.seed + settings.seeds))


def _halves(settings: Any, run: Run) -> np.ndarray:
    """The step at which each run is half-way down."""
    levels = plateau_losses(_task(settings))
    return crossing_times(run.step, run.loss, [0.5 * float(levels[0] + levels[-1])])[..., 0]


def _how(settings: Any, **more: Any) -> dict[str, Any]:
    """How a run is trained: as published, or as it is told."""
    how = {"lr": settings.lr, "steps": settings.steps, "units": settings.units} | more
    return how | {"log_every": how["steps"] // POINTS, "progress": step}


def _population(settings: Any, task: Task, scale: float, **more: Any) -> Run:
    """The population, from all seeds."""
    start = merged(heads=settings.heads, scale=scale)
    return train(task, start, seed=_seeds(settings), **_how(settings, **more))


def _pair(settings: Any, sequences: int, seed: int) -> xr.Dataset:
    """Attention with all blocks and the MLP, on the same sequences and from the same weights."""
    task, start = _task(settings), (settings.heads, settings.scale)
    data = sample(task, sequences, seed=seed, centred=True, whitened=True)
    everything, cubic = statistics(data, "all"), statistics(data, "zero")
    how = _how(settings, seed=seed)
    attention, net = train(everything, merged(*start), **how), train(cubic, mlp(*start), **how)
    step_time = 2.0 * settings.lr * unit_factor(task, merged(*start), settings.units) ** 2
    # The rates at which the two leave a small start; the part of the MLP is E[y_q β x_qᵀ].
    whole = np.log1p(step_time * np.linalg.norm(first_slope(everything), 2))
    zero = np.log1p(step_time * np.linalg.norm(np.asarray(cubic.cross)))
    found = {
        "attention": ("step", np.asarray(attention.loss)),
        "mlp": ("step", np.asarray(net.loss)),
        "attention_half": _halves(settings, attention),
        "mlp_half": _halves(settings, net),
        "slower": 1.0 - zero / whole,
        "attention_floor": float(everything.floor),
        "mlp_floor": float(cubic.floor),
    }
    return xr.Dataset(found, coords={"step": attention.step})


@fig.data
def data(settings: Any) -> xr.Dataset:
    """Data sets of every size, one a seed."""
    sizes, seeds, found = settings.sequences, _seeds(settings), []
    for sequences in sizes:
        of_size = [_pair(settings, sequences, seed) for seed in seeds]
        found.append(xr.concat(of_size, "seed"))
    return xr.concat(found, "sequences").assign_coords(sequences=list(sizes), seed=seeds)


@fig.data
def population(settings: Any) -> xr.Dataset:
    """The population: all heads, and the D + 1 numbers that are left after the escape."""
    task = _task(settings)
    whole = _population(settings, task, settings.scale)
    aligned = _population(settings, task, settings.scale, blocks="aligned")
    maps, best = np.asarray(whole.map), np.asarray(converged_map(task))
    size = np.linalg.norm(maps, axis=(1, 2))
    first, last = (np.searchsorted(whole.step, at) for at in settings.early)
    growth = np.log(size[:, last] / size[:, first]) / (whole.step[last] - whole.step[first])
    gap = np.linalg.norm(maps[..., -1] - best, axis=(1, 2)) / np.linalg.norm(best)
    factor = unit_factor(task, merged(settings.heads, settings.scale), settings.units)
    found = {
        "population": (("seed", "step"), np.asarray(whole.loss)),
        "aligned": (("seed", "step"), np.asarray(aligned.loss)),
        "population_half": ("seed", _halves(settings, whole)),
        "aligned_half": ("seed", _halves(settings, aligned)),
        "growth": ("seed", 0.5 * growth),  # M has two weights
        "map_gap": ("seed", gap),
        "levels": ("plateau", np.asarray(plateau_losses(task))),
        # Of the flow, in the time of a step; descent grows by the logarithm of one more.
        "step_growth": 2.0 * settings.lr * factor**2 * float(escape_rate(task)),
    }
    return xr.Dataset(found, coords={"seed": _seeds(settings), "step": whole.step})


@fig.data
def escape(settings: Any) -> xr.Dataset:
    """At which step the loss is half-way down, for several scales."""
    runs = [_population(settings, _task(settings), scale) for scale in settings.scales]
    steps = [_halves(settings, run) for run in runs]
    coords = {"scale": list(settings.scales), "seed": _seeds(settings)}
    return xr.Dataset({"escape": (("scale", "seed"), steps)}, coords=coords)


@fig.data
def conserved(settings: Any) -> xr.Dataset:
    """How far gradient descent drifts off what the flow conserves, at two rates."""
    task, given, drifts = _task(settings), settings.drift, []
    factor = unit_factor(task, merged(settings.heads, given["scale"]), settings.units)
    for rate in given["rates"]:
        steps = POINTS * round(given["time"] / (2.0 * factor**2 * rate) / POINTS)
        run = _population(settings, task, given["scale"], lr=rate, steps=steps)
        weights = (np.moveaxis(factor * np.asarray(w), -1, 0) for w in (run.value, run.key_query))
        kept = np.asarray(conserved_merged(*weights))  # (points, seeds, heads, heads)
        drifts.append(np.linalg.norm(kept - kept[:1], axis=(2, 3)).max(axis=0))
    coords = {"rate": list(given["rates"]), "seed": _seeds(settings)}
    return xr.Dataset({"drift": (("rate", "seed"), drifts)}, coords=coords)


@fig.data
def white(settings: Any) -> xr.Dataset:
    """White tokens: training at two rates, and the closed form at the same times."""
    task, given, found = _task(settings, "white"), settings.white, []
    factor = unit_factor(task, merged(settings.heads, given["scale"]), settings.units)
    end = float(converged_map(task)[0, 0])
    for rate in given["rates"]:
        steps = round(settings.steps * given["rates"][0] / rate)
        run = _population(settings, task, given["scale"], lr=rate, steps=steps)
        value, inner = (factor * np.asarray(w)[..., 0] for w in (run.value, run.key_query))
        mode = np.asarray(growing_mode(task, value, inner))
        sigma = np.trace(np.asarray(run.map), axis1=1, axis2=2) / task.dim
        parts = {
            "white": (("seed", "white_time"), np.asarray(run.loss)),
            "white_half": ("seed", crossing_times(run.time, -sigma, [-0.5 * end])[:, 0]),
            "white_theory": (("seed", "white_time"), np.asarray(white_loss(task, mode, run.time))),
            "white_half_theory": ("seed", np.asarray(half_rise_time(task, mode))),
        }
        found.append(xr.Dataset(parts, coords={"white_time": run.time.round(9)}))
    whole = xr.concat(found, "white_rate", join="exact")
    # The start is the same at both rates.
    exact = {name: whole[name].isel(white_rate=0) for name in ("white_theory", "white_half_theory")}
    coords = {"seed": _seeds(settings), "white_rate": list(given["rates"])}
    return whole.assign(exact).assign_coords(coords)


@fig.data
def real_tokens(settings: Any) -> xr.Dataset:
    """Attention and the MLP on the same tokens, and the reductions of both."""
    given = settings.token
    data = sample(_task(settings), settings.token_sequences, seed=settings.seed, antithetic=True)
    seeds = _seeds(settings)[: given["seeds"]]
    how = _how(settings, lr=given["lr"], steps=POINTS, seed=seeds)
    kinds = {"attention": merged, "mlp": mlp}
    found: dict[str, Any] = {}
    for name, kind in kinds.items():
        start = kind(settings.heads, given["scale"])
        brute, reduced = train_brute(data, start, **how), train(data, start, **how)
        for way, run in (("token", brute), ("reduced", reduced)):
            found[f"{way}_{name}"] = (("start", "token_step"), np.asarray(run.loss))
        found[f"token_{name}_map"] = (("start", "row", "column"), np.asarray(brute.map)[..., -1])
        found["token_step"] = brute.step
    return xr.Dataset(found).set_coords("token_step")


def _earlier(d: xr.Dataset) -> xr.DataArray:
    """By which part of its time the drop of attention comes before that of the MLP."""
    return 1.0 - d.attention_half / d.mlp_half


def _gaps(d: xr.Dataset) -> xr.DataArray:
    """The largest gap between attention and the MLP along training, in units of L(0)."""
    return abs(d.attention - d.mlp).max("step") / d.mlp.isel(step=0)


def _published(d: xr.Dataset) -> xr.Dataset:
    """The data sets of the published size."""
    return d.sel(sequences=settings_of(d).published)


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """The published setting, attention against the MLP in P, on tokens, and white tokens."""
    one, sequences = _published(d).isel(seed=0), d.sequences.values
    curves = [
        training(one.step, one.attention, "attention"),
        training(one.step, one.mlp, "MLP(z)", 1),
        theory(one.step, one.aligned, "theory, population", 6),
        level(d.levels[-1], color="0.35", linestyle=":", label="$L(M_D)$"),
    ]
    laws, some = [], {"markersize": 2.5, "alpha": 0.35, "markerfacecolor": None}
    rows = {"largest gap of $L/L(0)$": _gaps(d), "drop earlier, in parts of its time": _earlier(d)}
    for k, (words, values) in enumerate(rows.items()):
        each = values.transpose("sequences", "seed").values
        laws.append(tokens(sequences, each, "", k, **some))
        laws.append(line(sequences, np.exp(np.log(each).mean(axis=1)), words, k))
    guide = 2.5 * float(_gaps(d).max()) * sequences[0] / sequences
    laws.append(law(sequences, guide, "$1/P$"))
    few = d.isel(start=0)
    seen = few.isel(token_step=slice(None, None, max(1, d.sizes["token_step"] // 40)))
    cross = {"marker": "x", "markersize": 4.5}
    on_tokens = [
        training(few.token_step, few.reduced_attention, "reduced"),
        tokens(seen.token_step, seen.token_attention, "attention"),
        tokens(seen.token_step, seen.token_mlp, "MLP(z)", 1, **cross),
    ]
    rises = []
    for k in range(min(3, d.sizes["seed"])):
        here = d.isel(seed=k, white_rate=-1)
        rises.append(training(d.white_time, here.white, "" if k else "training, 3 seeds", k))
        rises.append(theory(d.white_time, here.white_theory, "" if k else "closed form", 6))
    ticks = [lambda axes: axes.set_xticks(sequences, sequences), lambda axes: axes.minorticks_off()]
    falls: dict[str, Any] = {"ylim": (0.0, None), "where": "upper right"}
    title = f"{settings_of(d).published} sequences, one seed"
    return drawn(
        Panel("step", "loss $L$", curves, title=title, **falls),
        Panel("$P$ sequences", "attention against MLP(z)", laws, log="xy", legend=7.5, more=ticks),
        Panel("step", "loss $L$", on_tokens, title="real tokens, antithetic", **falls),
        Panel(r"$t/\tau$", "loss $L$", rises, title=r"white tokens, $\Lambda = I/D$", **falls),
        rows=2,
    )


@fig.claim("reported", "Sec. 3.1, Fig. 1")
def _mlp(d):
    """Trained on the same tokens, merged attention is a two-layer linear net on the cubic features
    z, where its zero blocks stay at zero: on sequences that come in pairs w, −w (largest relative
    gap of L along training, {token[seeds]} starts)."""
    return near(worst_ratio(d.token_attention, d.token_mlp), 0.0, 1e-12, because="round-off")


@fig.claim("reported", "Fig. 1, as accounts describe it", known="fails")
def mlp_reported(d):
    """On i.i.d. sequences, too, the losses of attention and MLP(z) lie on one another (largest gap
    along training in units of L(0), median over seeds, P = {published})."""
    gaps = _gaps(_published(d))
    earlier = 100.0 * _earlier(_published(d))
    words = (
        f"Seeds from {float(gaps.min()):.3f} to {float(gaps.max()):.3f}: the blocks 𝐯 and u leave "
        f"zero, and the drop of attention comes {float(earlier.min()):.1f} to "
        f"{float(earlier.max()):.1f} % earlier (median {float(earlier.median()):.1f} %)."
    )
    return near(gaps.median(), 0.0, 0.01, because="what a drawn line is wide", note=words)


@fig.claim("new", "derived")
def earlier(d):
    """On i.i.d. sequences it is attention whose drop comes first (share of the data sets)."""
    # Fails if the free blocks slowed a single data set down.
    words = f"{_earlier(d).size} of them; its growth matrix holds that of the MLP as a block."
    return near((_earlier(d) > 0.0).mean(), 1.0, 0.0, because="without exception", note=words)


@fig.claim("new", "derived")
def earlier_law(d):
    """By a part of its time that falls like 1/P: the blocks are O(P^-½) and act twice (slope in P,
    log-log, of the step at which L is half-way down, relative to the MLP's)."""
    # Fails if the blocks acted at first order, which would be a slope of −½.
    return power_law(d.sequences, _earlier(d).transpose("sequences", "seed"), -1.0)


@fig.claim("new", "derived")
def gap_law(d):
    """So does the largest gap of the losses along training (slope in P, log-log)."""
    # Fails as the one above.
    return power_law(d.sequences, _gaps(d).transpose("sequences", "seed"), -1.0)


@fig.claim("new", "derived")
def growth_bound(d):
    """Attention cannot gain more than its faster growth: 1 − ln(1 + 2η‖Z‖)/ln(1 + 2ησ), with Z =
    E[y_q β x_qᵀ] and σ the top singular value of E[y_q G_ab x_c] as a matrix a | (b, c), of the
    data set (the part of the time by which it is earlier over that, largest of all data sets)."""
    # Fails if attention were faster than its fastest mode.
    share = _earlier(d) / d.slower
    words = f"Least {float(share.min()):.2f}, median {float(share.median()):.2f}: 𝐯 and u start at "
    words += "zero, and are too small to help for about half of the way."
    return at_most(share.max(), 1.0, because="a bound", note=words)


@fig.claim("reported", "Sec. 3.1, Fig. 1")
def mlp_map(d):
    """They have learned the same map M of ŷ = βᵀ M x_q (largest gap of an entry, relative to the
    largest; pairs w, −w)."""
    gap = abs(d.token_attention_map - d.token_mlp_map).max()
    return near(gap / abs(d.token_mlp_map).max(), 0.0, 1e-12, because="round-off")


@fig.claim("check", "derived", word="tokens")
def on_tokens(d):
    """Training on real tokens is the reduced dynamics to round-off (largest relative gap of L,
    attention and MLP)."""
    names = ("attention", "mlp")
    gaps = [worst_ratio(d[f"token_{name}"], d[f"reduced_{name}"]) for name in names]
    return near(max(gaps), 0.0, 1e-10, because="round-off, which the escape amplifies")


SINGLE = (
    'Fig. 1; a summary quotes p. 2: "the single and multiple loss drops also occur in softmax" '
    "attention"
)


@fig.claim("reported", SINGLE)
def drops(d):
    """The loss of merged attention drops once (number of drops, the seed furthest off; data of P =
    {published} and population)."""
    curves = (_published(d).attention, d.population)
    counts = np.concatenate([count_drops(d.step, c.transpose("seed", "step")) for c in curves])
    words = f"{counts.size} curves. A drop that is not over does not count."
    return near(counts[np.argmax(np.abs(counts - 1))], 1.0, 0.0, because="a count", note=words)


@fig.claim("new", "derived")
def half_drop(d):
    """After the escape D + 1 numbers are left, and they give the step of the drop (largest relative
    gap of the step at which L is half-way down; population, all seeds)."""
    because = "what does not grow keeps the size of the start, 6e-6 in the paper's units"
    return near(worst_ratio(d.population_half, d.aligned_half), 0.0, 1e-5, because=because)


@fig.claim("new", "derived")
def growth(d):
    """Before it the weights grow by ln(1 + 2η‖Λ²‖_F) a step (relative gap, the seed furthest off;
    steps {early[0]} to {early[1]})."""
    told, flow = float(np.log1p(d.step_growth)), float(d.step_growth)
    words = f"{told:.6f}; gradient flow would grow by 2η‖Λ²‖_F = {flow:.6f} in that time."
    because = "weights that do not grow are 1 % of those that do at step 400; the flow is 6e-3 off"
    return near(worst_ratio(d.growth, told), 0.0, 1e-3, because=because, note=words)


@fig.claim("reported", "eq. (7)")
def _escape(d):
    """A decade of the initial scale delays the drop by ln 10/‖Λ²‖_F, of t/τ that is counted by the
    growth of a step, ln(1 + 2η‖Λ²‖_F) (least squares over scales, mean over seeds, relative to
    that)."""
    decades = np.log10(np.array(settings_of(d).scales))
    delay = -float(np.polyfit(decades, d.escape.mean("seed").values, 1)[0])
    told, flow = np.log(10.0) / np.log1p(d.step_growth), np.log(10.0) / d.step_growth
    words = f"{delay:.2f} steps for {float(told):.2f}; by gradient flow {float(flow):.2f}."
    because = "the start of the largest scale, 6e-3 in the paper's units, is not infinitely small"
    return near(delay / told, 1.0, 1e-3, because=because, note=words)


@fig.claim("reported", "eq. (9), Fig. 1")
def end(d):
    """Training converges to M* = (Λ + (Λ + tr Λ)/N)⁻¹, whose loss is L(M_D) (relative gap of the
    population's loss at the last step, largest of all seeds)."""
    floor, gap = float(d.levels[-1]), float(d.map_gap.max())
    words = f"M itself is {gap:.1%} off M* by then, in its slowest direction."
    because = "the excess is of the order of the square of what M is still off, some 1e-4"
    return near(
        worst_ratio(d.population.isel(step=-1), floor), 0.0, 1e-3, because=because, note=words
    )


@fig.claim("reported", "Sec. 3.1")
def floor(d):
    """On a data set the MLP converges to the global minimum, the least-squares fit on z (relative
    gap of the loss at the last step, largest of all seeds; P = {published})."""
    here = _published(d).isel(step=-1)
    above = worst_ratio(here.attention, here.attention_floor)
    words = (
        "Attention, whose zero blocks have left zero, is up to "
        f"{above:.1%} above the least that all its features allow."
    )
    because = "as on the population training is cut before its slowest direction is over"
    return near(worst_ratio(here.mlp, here.mlp_floor), 0.0, 2e-3, because=because, note=words)


@fig.claim("reported", "Sec. 3, App. on conservation", word="conserved")
def kept(d):
    """W₁W₁ᵀ − w₂w₂ᵀ is conserved by gradient flow: the drift of gradient descent halves with the
    rate (ratio of the drifts, the seed furthest off)."""
    given = settings_of(d).drift["rates"]
    ratio = (d.drift.sel(rate=given[0]) / d.drift.sel(rate=given[1])).values
    far = ratio[np.argmax(np.abs(ratio - 2.0))]
    because = "the next order in the rate, some 1 % of the first"
    return near(far, 2.0, 0.05, because=because, note=f"Median {np.median(ratio):.4f}.")


def _still(values: xr.DataArray) -> xr.DataArray:
    """What two rates, one half of the other, tell of η → 0."""
    return 2.0 * values.isel(white_rate=1) - values.isel(white_rate=0)


@fig.claim("reported", "eq. (8)")
def _white(d):
    """With white tokens L(t) = Dλ(1 − 2λσ(t) + λ²γσ(t)²), σ in closed form (largest gap in units of
    L(0) at η → 0, by the straight line through two rates; all seeds)."""
    gaps = abs(d.white - d.white_theory).max(("seed", "white_time")) / float(d.white_theory[0, 0])
    found = abs(_still(d.white) - d.white_theory).max() / d.white_theory[0, 0]
    words = "At the two rates: " + " and ".join(f"{float(gap):.2g}" for gap in gaps) + "."
    because = "η², and weights of the start that do not grow, 6e-3 in the paper's units"
    return near(found, 0.0, 1e-3, because=because, note=words)


@fig.claim("new", "derived")
def white_half(d):
    """With white tokens σ is half-way up at t½ = ln(√D/(λγu₀) − 1)/(2λ²√D) (largest relative gap at
    η → 0, all seeds)."""
    because = "weights of the start that do not grow, 6e-3 in the paper's units, and η²"
    found = worst_ratio(_still(d.white_half), d.white_half_theory)
    return near(found, 0.0, 5e-4, because=because)
