"""Fig. 1: merged attention learns in context in a single drop, as a two-layer net does."""

from collections.abc import Mapping
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Claim, Figure, Size, Statement, stage, step, worst_ratio
from ...reproduce.claim import Kind
from ...style import THEORY, TOKENS, TRAINING, colour, panels
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

SEED = 10
HEADS, SCALE, RATE, STEPS = 8, 1e-6, 1e-3, 6000
SEQUENCES = 5000
POINTS = 600  # logged in every run, so that each kind is compiled once
DECADES = (1e-6, 1e-5, 1e-4, 1e-3)  # scales at which the escape is timed
EARLY = (400, 700)  # steps between which growth is exponential
WHITE = {"scale": 1e-3, "lr": 2.5e-4}
DRIFT = {"scale": 1e-2, "rates": (1e-3, 5e-4), "time": 186.0}
TOKEN = {"scale": 1e-4, "lr": 3e-3, "steps": POINTS}
SETTINGS: Mapping[Size, Mapping[str, Any]] = {
    "quick": {"seeds": 3, "token_sequences": 100},
    "default": {"seeds": 6, "token_sequences": 500},
    "full": {"seeds": 24, "token_sequences": 2000},
}


def _task(spectrum: str = "linear") -> Task:
    return Task(dim=4, context=31, spectrum=spectrum, basis="random", basis_seed=SEED)


def _seeds(settings: Mapping[str, Any]) -> list[int]:
    return list(range(SEED, SEED + settings["seeds"]))


def _half() -> list[float]:
    """The loss half-way down."""
    levels = plateau_losses(_task())
    return [0.5 * float(levels[0] + levels[-1])]


def _halves(run: Run) -> np.ndarray:
    """The step at which each run is half-way down."""
    return crossing_times(run.step, run.loss, _half())[..., 0]


def _population(task: Task, scale: float, seeds: list[int], **how: Any) -> Run:
    how = {"lr": RATE, "steps": STEPS} | how
    every = how["steps"] // POINTS
    start = merged(heads=HEADS, scale=scale)
    return train(task, start, units="code", seed=seeds, log_every=every, progress=step, **how)


def _data(settings: Mapping[str, Any]) -> xr.Dataset:
    """The published setting: a data set a seed, attention with all blocks and the MLP."""
    every, found = STEPS // POINTS, []
    for seed in _seeds(settings):
        data = sample(_task(), SEQUENCES, seed=seed, centred=True, whitened=True)
        how = {"lr": RATE, "steps": STEPS, "units": "code", "seed": seed, "log_every": every}
        everything, cubic = statistics(data, "all"), statistics(data, "zero")
        attention = train(everything, merged(HEADS, SCALE), progress=step, **how)
        net = train(cubic, mlp(HEADS, SCALE), **how)
        found.append(
            xr.Dataset(
                {
                    "attention": ("step", np.asarray(attention.loss)),
                    "mlp": ("step", np.asarray(net.loss)),
                    "attention_half": _halves(attention),
                    "mlp_half": _halves(net),
                    "attention_floor": float(everything.floor),
                    "mlp_floor": float(cubic.floor),
                },
                coords={"step": attention.step},
            )
        )
    return xr.concat(found, "seed").assign_coords(seed=_seeds(settings))


def _flow(settings: Mapping[str, Any]) -> xr.Dataset:
    """The population: all heads, and the D + 1 numbers that are left after the escape."""
    task, seeds = _task(), _seeds(settings)
    whole = _population(task, SCALE, seeds)
    aligned = _population(task, SCALE, seeds, blocks="aligned")
    maps, best = np.asarray(whole.map), np.asarray(converged_map(task))
    size = np.linalg.norm(maps, axis=(1, 2))
    first, last = (np.searchsorted(whole.step, at) for at in EARLY)
    growth = np.log(size[:, last] / size[:, first]) / (whole.step[last] - whole.step[first])
    paper_rate = RATE * unit_factor(task, merged(HEADS, SCALE), "code") ** 2
    return xr.Dataset(
        {
            "population": (("seed", "step"), np.asarray(whole.loss)),
            "aligned": (("seed", "step"), np.asarray(aligned.loss)),
            "population_half": ("seed", _halves(whole)),
            "aligned_half": ("seed", _halves(aligned)),
            "growth": ("seed", 0.5 * growth),  # M has two weights
            "map_gap": (
                "seed",
                np.linalg.norm(maps[..., -1] - best, axis=(1, 2)) / np.linalg.norm(best),
            ),
            "levels": ("plateau", np.asarray(plateau_losses(task))),
        },
        coords={"seed": seeds, "step": whole.step},
        attrs={"escape_rate": float(escape_rate(task)), "paper_rate": paper_rate},
    )


def _escape(settings: Mapping[str, Any]) -> xr.Dataset:
    """When the loss is half-way down, for several scales."""
    runs = [_population(_task(), scale, _seeds(settings)) for scale in DECADES]
    times = [crossing_times(run.time, run.loss, _half())[:, 0] for run in runs]
    return xr.Dataset(
        {"escape": (("scale", "seed"), times)},
        coords={"scale": list(DECADES), "seed": _seeds(settings)},
    )


def _conserved(settings: Mapping[str, Any]) -> xr.Dataset:
    """How far gradient descent drifts off what the flow conserves, at two rates."""
    task, drifts = _task(), []
    start = merged(HEADS, DRIFT["scale"])
    factor = unit_factor(task, start, "code")
    for rate in DRIFT["rates"]:
        steps = POINTS * round(DRIFT["time"] / (2.0 * factor**2 * rate) / POINTS)
        run = _population(task, DRIFT["scale"], _seeds(settings), lr=rate, steps=steps)
        weights = (np.moveaxis(factor * np.asarray(w), -1, 0) for w in (run.value, run.key_query))
        kept = np.asarray(conserved_merged(*weights))  # (points, seeds, heads, heads)
        drifts.append(np.linalg.norm(kept - kept[:1], axis=(2, 3)).max(axis=0))
    return xr.Dataset(
        {"drift": (("rate", "seed"), drifts)},
        coords={"rate": list(DRIFT["rates"]), "seed": _seeds(settings)},
    )


def _white(settings: Mapping[str, Any]) -> xr.Dataset:
    """White tokens: training and the closed form."""
    task = _task("white")
    run = _population(task, WHITE["scale"], _seeds(settings), lr=WHITE["lr"])
    factor = unit_factor(task, merged(HEADS, WHITE["scale"]), "code")
    value, inner = (factor * np.asarray(w)[..., 0] for w in (run.value, run.key_query))
    mode = np.asarray(growing_mode(task, value, inner))
    sigma = np.trace(np.asarray(run.map), axis1=1, axis2=2) / task.dim
    end = float(converged_map(task)[0, 0])
    return xr.Dataset(
        {
            "white": (("seed", "white_time"), np.asarray(run.loss)),
            "white_theory": (("seed", "white_time"), np.asarray(white_loss(task, mode, run.time))),
            "white_half": ("seed", crossing_times(run.time, -sigma, [-0.5 * end])[:, 0]),
            "white_half_theory": ("seed", np.asarray(half_rise_time(task, mode))),
        },
        coords={"seed": _seeds(settings), "white_time": run.time},
    )


def _tokens(settings: Mapping[str, Any]) -> xr.Dataset:
    """Attention and the MLP on the same tokens, and the reductions of both."""
    data = sample(_task(), settings["token_sequences"], seed=SEED, antithetic=True)
    how = {"lr": TOKEN["lr"], "steps": TOKEN["steps"], "units": "code", "seed": SEED}
    how["log_every"] = TOKEN["steps"] // POINTS
    starts = {"attention": merged(HEADS, TOKEN["scale"]), "mlp": mlp(HEADS, TOKEN["scale"])}
    brute = {name: train_brute(data, s, progress=step, **how) for name, s in starts.items()}
    reduced = {name: train(data, s, **how) for name, s in starts.items()}
    found: dict[str, Any] = {}
    for name in starts:
        found[f"token_{name}"] = ("token_step", np.asarray(brute[name].loss))
        found[f"reduced_{name}"] = ("token_step", np.asarray(reduced[name].loss))
        for kind, run in (("token", brute[name]), ("reduced", reduced[name])):
            found[f"{kind}_{name}_map"] = (("row", "column"), np.asarray(run.map)[..., -1])
    return xr.Dataset(found, coords={"token_step": brute["mlp"].step})


def compute(size: Size) -> xr.Dataset:
    """Attention and the MLP on data, on the population and on tokens."""
    settings = SETTINGS[size]
    return xr.merge(
        [
            stage("data", lambda: _data(settings)),
            stage("population", lambda: _flow(settings)),
            stage("escape", lambda: _escape(settings)),
            stage("conserved", lambda: _conserved(settings)),
            stage("white", lambda: _white(settings)),
            stage("tokens", lambda: _tokens(settings)),
        ],
        combine_attrs="no_conflicts",
    )


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """The published setting, the same on tokens, and white tokens."""
    figure, (on_data, on_tokens, white) = panels(3)
    one = data.isel(seed=0)
    on_data.plot(one.step, one.attention, color=colour(0), label="attention", **TRAINING)
    on_data.plot(one.step, one.mlp, color=colour(1), label="MLP(z)", **TRAINING)
    on_data.plot(one.step, one.aligned, color=colour(6), label="theory, population", **THEORY)
    on_data.axhline(float(data.levels[-1]), color="0.35", linestyle=":", label="$L(M_D)$")
    on_data.set_title(f"{SEQUENCES} sequences", fontsize=9.0)
    every = max(1, data.sizes["token_step"] // 40)
    some = data.isel(token_step=slice(None, None, every))
    on_tokens.plot(
        data.token_step, data.reduced_attention, color=colour(0), label="reduced", **TRAINING
    )
    on_tokens.plot(
        some.token_step, some.token_attention, color=colour(0), label="attention", **TOKENS
    )
    look = {**TOKENS, "marker": "x", "markersize": 4.5}
    on_tokens.plot(some.token_step, some.token_mlp, color=colour(1), label="MLP(z)", **look)
    on_tokens.set_title("real tokens, antithetic", fontsize=9.0)
    for each in (on_data, on_tokens):
        each.set_xlabel("step")
    for k in range(min(3, data.sizes["seed"])):
        here = data.isel(seed=k)
        white.plot(
            here.white_time,
            here.white,
            color=colour(k),
            label="" if k else "training, 3 seeds",
            **TRAINING,
        )
        white.plot(
            here.white_time,
            here.white_theory,
            color=colour(6),
            label="" if k else "closed form",
            **THEORY,
        )
    white.set_xlabel(r"$t/\tau$")
    white.set_title(r"white tokens, $\Lambda = I/D$", fontsize=9.0)
    for each in (on_data, on_tokens, white):
        each.set_ylabel("loss $L$")
        each.set_ylim(bottom=0.0)
        each.legend(loc="upper right")
    return figure


def _say(word: str, text: str, source: str, kind: Kind) -> Statement:
    return Statement(f"shallow_icl/fig1/{word}", text, source, kind)


EQUIVALENT = _say(
    "mlp",
    "Trained on the same tokens, merged attention is a two-layer linear net on the cubic features "
    "z (largest relative gap of L along training).",
    "Sec. 3.1, Fig. 1",
    "reported",
)
EQUIVALENT_MAP = _say(
    "mlp-map",
    "They have learned the same map M of ŷ = βᵀ M x_q (largest gap of an entry, relative to the "
    "largest).",
    "Sec. 3.1, Fig. 1",
    "reported",
)
BRUTE = _say(
    "tokens",
    "Training on real tokens is the reduced dynamics to round-off (largest relative gap of L, "
    "attention and MLP).",
    "derived",
    "check",
)
ONCE = _say(
    "drops",
    "The loss of merged attention drops once (number of drops, the seed furthest off; data and "
    "population).",
    'Fig. 1; as quoted in a summary, p. 2 (and p. 9) has drops that "also" occur with softmax',
    "paper",
)
HALF = _say(
    "half-drop",
    "After the escape D + 1 numbers are left, and they give the step of the drop (largest relative "
    "gap of the step at which L is half-way down; population, all seeds).",
    "derived",
    "new",
)
GROWTH = _say(
    "growth",
    "Before it the weights grow by ln(1 + 2η‖Λ²‖_F) a step (mean over seeds).",
    "derived",
    "new",
)
ON_DATA = _say(
    "half-drop-data",
    f"On {SEQUENCES} sequences the loss is half-way down after about 1020 steps (mean over seeds).",
    "ours",
    "regression",
)
ESCAPE = _say(
    "escape",
    "A decade of the initial scale delays the drop by ln 10/‖Λ²‖_F (t/τ; least squares over "
    "scales, mean over seeds).",
    "eq. (7)",
    "reported",
)
END = _say(
    "end",
    "Training converges to M* = (Λ + (Λ + tr Λ)/N)⁻¹, whose loss is L(M_D) (relative gap of the "
    "population's loss at the last step, largest of all seeds).",
    "eq. (9), Fig. 1",
    "reported",
)
FLOOR = _say(
    "floor",
    "On a data set the MLP converges to the global minimum, the least-squares fit on z (relative "
    "gap of the loss at the last step, largest of all seeds).",
    "Sec. 3.1",
    "reported",
)
KEPT = _say(
    "conserved",
    "W₁W₁ᵀ − w₂w₂ᵀ is conserved by gradient flow: the drift of gradient descent halves with the "
    "rate (ratio of the drifts, median over seeds).",
    "Sec. 3, App. on conservation",
    "reported",
)
WHITE_CURVE = _say(
    "white",
    "With white tokens L(t) = Dλ(1 − 2λσ(t) + λ²γσ(t)²), σ in closed form (largest gap in units of "
    "L(0), all seeds).",
    "eq. (8)",
    "reported",
)
WHITE_HALF = _say(
    "white-half",
    "With white tokens σ is half-way up at t½ = ln(√D/(λγu₀) − 1)/(2λ²√D) (largest relative gap, "
    "all seeds).",
    "derived",
    "new",
)


def claims(data: xr.Dataset) -> list[Claim]:
    """Attention against the MLP, training against theory."""
    counts = np.concatenate(
        [count_drops(data.step, data[name]) for name in ("attention", "population")]
    )
    halves, shift = data.attention_half, data.attention_half - data.population_half
    spread = f"Seeds from {float(halves.min()):.0f} to {float(halves.max()):.0f}."
    step_time = 2.0 * data.attrs["paper_rate"]
    rate = data.attrs["escape_rate"]
    decades = np.log10(np.array(DECADES))
    delay = -float(np.polyfit(decades, data.escape.mean("seed").values, 1)[0])
    drift = data.drift.sel(rate=max(DRIFT["rates"])) / data.drift.sel(rate=min(DRIFT["rates"]))
    maps = (data.token_attention_map.values, data.token_mlp_map.values)
    reduced = [
        worst_ratio(data[f"token_{name}"], data[f"reduced_{name}"]) for name in ("attention", "mlp")
    ]
    floor = float(data.levels[-1])
    return [
        EQUIVALENT.judge(
            0.0,
            worst_ratio(data.token_attention, data.token_mlp),
            1e-12,
            note="Antithetic sequences (w and −w in pairs), on which the zero blocks stay zero.",
        ),
        EQUIVALENT_MAP.judge(0.0, np.abs(maps[0] - maps[1]).max() / np.abs(maps[1]).max(), 1e-12),
        BRUTE.judge(0.0, max(reduced), 1e-10),
        ONCE.judge(1.0, counts[np.argmax(np.abs(counts - 1))], 0.0),
        HALF.judge(0.0, worst_ratio(data.population_half, data.aligned_half), 0.005),
        GROWTH.judge(
            np.log1p(step_time * rate),
            data.growth.mean(),
            1e-3 * np.log1p(step_time * rate),
            note=(
                f"Gradient flow would grow by 2η‖Λ²‖_F = {step_time * rate:.5f} in that time. "
                f"Steps {EARLY[0]} to {EARLY[1]}."
            ),
        ),
        ON_DATA.judge(
            1020.0,
            data.attention_half.mean(),
            60.0,
            note=(
                f"{spread} Measured before in this setting: 1000 to 1045 for three. Data sets move "
                f"it by {float(shift.std()):.0f} steps (standard deviation), the draw of the start "
                f"by {float(data.population_half.std()):.0f}. "
                f"The MLP: {float(data.mlp_half.mean()):.0f}."
            ),
        ),
        ESCAPE.judge(np.log(10.0) / rate, delay, 0.01 * np.log(10.0) / rate),
        END.judge(
            0.0,
            worst_ratio(data.population.isel(step=-1), floor),
            1e-3,
            note=(
                f"M itself is {float(data.map_gap.max()):.1%} off M* by then, in its slowest "
                "direction."
            ),
        ),
        FLOOR.judge(
            0.0,
            worst_ratio(data.mlp.isel(step=-1), data.mlp_floor),
            2e-3,
            note=(
                "Attention, whose zero blocks have left zero, is "
                f"{worst_ratio(data.attention.isel(step=-1), data.attention_floor):.1%} above the "
                "least that all its features allow."
            ),
        ),
        KEPT.judge(2.0, drift.median(), 0.05),
        WHITE_CURVE.judge(
            0.0, np.abs(data.white - data.white_theory).max() / data.white[0, 0], 7e-3
        ),
        WHITE_HALF.judge(0.0, worst_ratio(data.white_half, data.white_half_theory), 2e-3),
    ]


FIGURE = Figure(
    id="shallow_icl/fig1",
    title="Merged attention: one drop, equal to that of a two-layer linear net",
    settings=SETTINGS,
    constants={
        "dim": 4,
        "context": 31,
        "heads": HEADS,
        "sequences": SEQUENCES,
        "scale": SCALE,
        "lr": RATE,
        "steps": STEPS,
        "units": "code",
        "white": WHITE,
        "drift": DRIFT,
        "token": TOKEN,
    },
    statements=(
        EQUIVALENT,
        EQUIVALENT_MAP,
        BRUTE,
        ONCE,
        HALF,
        GROWTH,
        ON_DATA,
        ESCAPE,
        END,
        FLOOR,
        KEPT,
        WHITE_CURVE,
        WHITE_HALF,
    ),
    compute=compute,
    draw=draw,
    claims=claims,
    note=(
        "D = 4, N = 31, H = 8 (paper); P = 5000, η = 1e-3, 6001 steps and weights of 1e-6 in the "
        "units of the published code, which does not divide by N. On a finite data set the blocks "
        "𝐯 and u of attention do not stay at zero: in (a) its drop comes a few per cent earlier "
        "than that of the MLP with the same weights on the same data. In (b) every task vector "
        "comes with its negative, which keeps them at zero, and the two are equal. The rest is the "
        "population. (c): u₀ is the growing mode of the random start; how the paper's w_init is "
        f"meant for such a start is not known to us. White: weights of {WHITE['scale']:g} and "
        f"η = {WHITE['lr']:g}, in the code's units too; our choice."
    ),
    seed=SEED,
)
