"""Fig. 14: learning in weights and in context, for several fractions of each in training."""

from collections.abc import Mapping
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr
from scipy.signal import find_peaks

from ...reproduce import Claim, Figure, Size, Statement, stage, step, worst_ratio
from ...reproduce.claim import Kind
from ...style import TRAINING, colour, panels
from .. import (
    Run,
    Sequences,
    Statistics,
    Task,
    escape_rate,
    merged,
    sample,
    statistics,
    train,
    train_brute,
    unit_factor,
)

SEED = 0
FRACTIONS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SEQUENCES, HEADS, SCALE, RATE, STEPS = 5000, 8, 1e-6, 5e-4, 4000
TESTS = {"in_weight": 0.0, "in_context": 1.0}
EVERY = 10
GROWN = (50.0, 1e3)  # times the first weights: between them growth is exponential
TOKEN = {"sequences": 400, "context": 8, "scale": 0.05, "lr": 0.05, "log_every": 20}
SETTINGS: Mapping[Size, Mapping[str, Any]] = {
    "quick": {"draws": 5, "token_steps": 400},
    "default": {"draws": 20, "token_steps": 800},
    "full": {"draws": 100, "token_steps": 2000},
}


def _task(fraction: float, context: int = 31) -> Task:
    """At fraction 0 the labels in the context say nothing, as in the published code."""
    labels = "task" if fraction > 0.0 else "noise"
    return Task(dim=4, context=context, spectrum="white", in_context=fraction, labels=labels)


def _sample(fraction: float, seed: int) -> Sequences:
    whole = fraction == 1.0
    return sample(_task(fraction), SEQUENCES, seed=seed, centred=True, whitened=whole)


def _moments(fraction: float, seed: int) -> Statistics:
    return statistics(_sample(fraction, seed))


def first_slope(moments: Statistics) -> np.ndarray:
    """``c_{a|(b,c)} = E[y_q G_ab x_{q,c}]`` of a data set, rows a; weights first grow by it."""
    rows = moments.task.features
    first, second = np.triu_indices(rows)
    kept = np.asarray(moments.cross).reshape(len(first), -1)
    whole = np.zeros((rows, rows, kept.shape[1]))
    whole[first, second] = whole[second, first] = kept
    return whole.reshape(rows, -1)


def _growth(run: Run) -> float:
    """How much the logarithm of the weights grows a step, early on."""
    weights = (run.value, run.key_query)
    size = np.sqrt(sum(np.sum(np.asarray(x) ** 2, axis=(0, 1, 2)) for x in weights))
    early = (size > GROWN[0] * size[0]) & (size < GROWN[1] * size[0])
    return float(np.polyfit(run.step[early], np.log(size[early]), 1)[0])


def _draw(seed: int) -> xr.Dataset:
    """All fractions, on data sets drawn anew."""
    # Test sets of their own: other streams than any training set's.
    tests = {name: _moments(f, 10_000 + 2 * seed + k) for k, (name, f) in enumerate(TESTS.items())}
    found: list[xr.Dataset] = []
    for fraction in FRACTIONS:
        moments = _moments(fraction, seed)
        run = train(
            moments,
            merged(heads=HEADS, scale=SCALE),
            lr=RATE,
            steps=STEPS,
            units="code",
            seed=seed,
            tests=tests,
            log_every=EVERY,
        )
        slope = first_slope(moments)
        found.append(
            xr.Dataset(
                {
                    "loss": ("step", np.asarray(run.loss)),
                    **{name: ("step", np.asarray(run.tests[name])) for name in TESTS},
                    "slope": (("row", "column"), slope),
                    "growth": ((), _growth(run)),
                },
                coords={"step": run.step},
            )
        )
    return xr.concat(found, dim="fraction").assign_coords(fraction=list(FRACTIONS))


def _draws(settings: Mapping[str, Any]) -> xr.Dataset:
    """All draws, and the population's rates."""
    found: list[xr.Dataset] = []
    for seed in range(SEED, SEED + settings["draws"]):
        found.append(_draw(seed))
        step(len(found), settings["draws"])
    data = xr.concat(found, dim="draw")
    rates = [float(escape_rate(_task(f))) for f in FRACTIONS]
    return data.assign(rate=("fraction", rates))


def _tokens(settings: Mapping[str, Any]) -> xr.Dataset:
    """A mixture on tokens and through its moments, with losses on both kinds of test."""
    context = TOKEN["context"]
    data, *tests = (
        sample(_task(f, context), TOKEN["sequences"], seed=SEED + k)
        for k, f in enumerate((0.4, *TESTS.values()))
    )
    how = {"lr": TOKEN["lr"], "steps": settings["token_steps"], "log_every": TOKEN["log_every"]}
    how |= {"seed": SEED, "tests": dict(zip(TESTS, tests, strict=True))}
    start = merged(heads=2, scale=TOKEN["scale"])
    runs = [train_brute(data, start, progress=step, **how), train(data, start, **how)]
    losses = [[run.loss, *(run.tests[name] for name in TESTS)] for run in runs]
    return xr.Dataset(
        {"token_loss": (("witness", "judged_on", "token_step"), np.asarray(losses))},
        coords={
            "witness": ["tokens", "moments"],
            "judged_on": ["train", *TESTS],
            "token_step": runs[0].step,
        },
    )


def compute(size: Size) -> xr.Dataset:
    """All fractions on every draw, and tokens."""
    settings = SETTINGS[size]
    return xr.merge(
        [stage("draws", lambda: _draws(settings)), stage("tokens", lambda: _tokens(settings))]
    )


WORDS = {
    "loss": "train, over its start",
    "in_weight": "test in weights",
    "in_context": "test in context",
}


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """One panel a fraction: the median of the draws, and all of them as a band."""
    figure, axes = panels(3, 2)
    for each, fraction in zip(axes, FRACTIONS, strict=True):
        here = data.sel(fraction=fraction)
        curves = {"loss": here.loss / here.loss.isel(step=0)}
        curves |= {name: here[name] for name in TESTS}
        for k, (name, curve) in enumerate(curves.items()):
            low, high = (curve.quantile(q, "draw") for q in (0.0, 1.0))
            each.fill_between(data.step, low, high, color=colour(k), alpha=0.2, linewidth=0.0)
            each.plot(
                data.step, curve.median("draw"), color=colour(k), label=WORDS[name], **TRAINING
            )
        each.set_title(f"$f = {fraction:g}$", fontsize=9.0)
        each.set_xlabel("step")
        each.set_ylabel("loss")
        each.set_ylim(0.0, 2.6 if fraction == 0.0 else 1.45)
    axes[0].legend(fontsize=8.0, loc="center right")
    return figure


def drops(step: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """The steps of the first two drops of each curve: where it falls fastest."""
    found = []
    for curve in loss:
        slope = -np.gradient(curve, step)
        peaks, _ = find_peaks(slope, prominence=0.05 * slope.max())
        found.append(step[peaks[:2]] if len(peaks) > 1 else (np.nan, np.nan))
    return np.array(found, float)


def _say(word: str, text: str, source: str, kind: Kind) -> Statement:
    return Statement(f"shallow_icl/fig14/{word}", text, source, kind)


ESCAPE = _say(
    "escape",
    "Weights of all blocks first grow by ln(1 + 2ησ₁) a step, σ₁ the top singular value of "
    "E[y_q G_ab x_q,c] on the data set (largest relative gap over fractions and draws).",
    "derived",
    "new",
)
RATES = _say(
    "rate",
    "That σ₁ is the population's, in closed form for every fraction f (largest relative gap, the "
    "moments averaged over draws).",
    "derived",
    "new",
)
DROPS = tuple(
    _say(
        word,
        f"At f = 0.4 the loss drops {count} (step of the fastest fall, median over draws).",
        "ours",
        "regression",
    )
    for word, count in (("first-drop", "first near step 940"), ("second-drop", "again near 1820"))
)
WEIGHTS_FIRST = _say(
    "in-weight",
    "At f = 0.4 the first drop is learning in weights: the test of it falls to 0.346 (lowest, "
    "median over draws).",
    "ours",
    "regression",
)
CONTEXT_PEAK = _say(
    "in-context",
    "Meanwhile the test in context gets worse than at the start, up to 1.09 (highest, median over "
    "draws).",
    "ours",
    "regression",
)
TRANSIENT = _say(
    "transient",
    "For 0 < f < 1 what was learned in weights is lost again as learning in context sets in (rise "
    "of the test in weights from its lowest to the end, median over draws, the least over f).",
    "ours",
    "new",
)
ALONE = _say(
    "alone",
    "At f = 0 nothing is learned in context, and at f = 1 nothing in weights (the lowest of either "
    "test over its start, median over draws).",
    "ours",
    "new",
)
BRUTE = _say(
    "tokens",
    "Training a mixture on real tokens is training on its moments to round-off, losses on both "
    "kinds of test included (largest relative gap).",
    "derived",
    "check",
)


def claims(data: xr.Dataset) -> list[Claim]:
    """Rates of escape, and what is learned when."""
    rate = RATE * unit_factor(_task(1.0), merged(heads=HEADS, scale=SCALE), "code") ** 2
    slope = data.slope.transpose("draw", "fraction", "row", "column").values
    top = np.linalg.svd(slope, compute_uv=False)[..., 0]
    mean = np.linalg.svd(slope.mean(axis=0), compute_uv=False)[..., 0]
    growth = data.growth.transpose("draw", "fraction")
    some = data.sel(fraction=0.4)
    when = np.median(drops(data.step.values, some.loss.transpose("draw", "step").values), axis=0)
    lowest = some.in_weight.min("step").median("draw")
    highest = some.in_context.max("step").median("draw")
    mixed = data.in_weight.sel(fraction=list(FRACTIONS[1:-1]))
    rise = (mixed.isel(step=-1) - mixed.min("step")).median("draw")
    other = (data.in_context.sel(fraction=0.0), data.in_weight.sel(fraction=1.0))
    none = [float((x.min("step") / x.isel(step=0)).median("draw")) for x in other]
    tokens, moments = data.token_loss.sel(witness="tokens"), data.token_loss.sel(witness="moments")
    found = ", ".join(f"{31 * x:.2f}" for x in mean)
    known = ", ".join(f"{31 * x:.2f}" for x in data.rate.values)
    draws = f"{data.sizes['draw']} draws of data and weights"
    return [
        ESCAPE.judge(0.0, worst_ratio(growth, np.log1p(2.0 * rate * top)), 1e-3, note=f"{draws}."),
        RATES.judge(
            0.0,
            worst_ratio(mean, data.rate),
            0.05,
            note=f"Nσ₁ = {found} at f = 0 … 1, population {known}. One data set's own is up to "
            f"{np.max(np.abs(top / data.rate.values - 1.0)):.0%} off: noise makes the largest "
            "singular value of 5000 sequences larger.",
        ),
        *(
            said.judge(step, found, slack, note=f"Draws differ by {spread} steps or so (1σ).")
            for said, step, found, slack, spread in zip(
                DROPS, (940, 1820), when, (60, 100), (30, 50), strict=True
            )
        ),
        WEIGHTS_FIRST.judge(0.346, lowest, 0.03, note="Draws differ by 0.012 (1σ)."),
        CONTEXT_PEAK.judge(1.09, highest, 0.06, note="Draws differ by 0.025 (1σ)."),
        TRANSIENT.judge(0.3, rise.min(), "at least"),
        ALONE.judge(0.95, min(none), "at least", note="Down to 0.14 where it is learned."),
        BRUTE.judge(0.0, worst_ratio(tokens, moments), 1e-10),
    ]


FIGURE = Figure(
    id="shallow_icl/fig14",
    title="Learning in weights and in context, and one after the other",
    settings=SETTINGS,
    constants={
        "dim": 4,
        "context": 31,
        "heads": HEADS,
        "scale": SCALE,
        "lr": RATE,
        "steps": STEPS,
        "sequences": SEQUENCES,
        "fractions": FRACTIONS,
        "tokens": TOKEN,
    },
    statements=(
        ESCAPE,
        RATES,
        *DROPS,
        WEIGHTS_FIRST,
        CONTEXT_PEAK,
        TRANSIENT,
        ALONE,
        BRUTE,
    ),
    compute=compute,
    draw=draw,
    claims=claims,
    note=(
        "Merged attention with all its blocks, H = 8, D = 4, Λ = I/4, P = 5000, scale 1e-6, "
        "η = 5e-4 in units of the published code, 4000 steps. A fraction f of the sequences has a "
        "task vector of its own, the others share w₀ of norm √D; as in that code, at f = 0 the "
        "labels in the context are noise, at f = 1 the task vectors are whitened, and the tests "
        "are of those two kinds. The steps and losses at f = 0.4 are those of one run of the "
        "published settings on another draw, which looks the same as the figure; lines are the "
        "median of our draws and bands all of them."
    ),
    seed=SEED,
)
