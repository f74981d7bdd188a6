"""Fig. 5: softmax attention, merged and separate: one drop of the loss, or several."""

import math
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, at_least, near, settings_of, step, worst_ratio
from ...reproduce.panels import Mark, Panel, drawn, entry, level, line, theory, training, upright
from ...style import colour
from .. import (
    Run,
    Sequences,
    Start,
    Task,
    merged,
    sample,
    separate,
    softmax_modes,
    train,
    train_brute,
)
from ._drops import LEAST, count_drops

BEYOND = (  # once, in double precision, with this figure's data, rate and way of counting
    "Run on a GPU beside this figure, from 1e-06: 2 drops on 3 data sets of 3 at P = 80000, on 2 "
    "of 3 at P = 320000 and on 1 of 3 at P = 1280000, else 1; s_c is from 6e-06 to 5e-05 on the "
    "six with two, and 1.5e-06, 8e-07 and 2e-07 on the three with one."
)
ONE = "Of one P this tells the scale, not how it falls with P."
SOFTMAX: Any = {"attention": "softmax"}
PUBLISHED = {"centred": True, "whitened": True}  # what the published code does to its data

fig = Figure(
    "shallow_icl/fig5",
    "Softmax attention: one drop, or several",
    settings={
        "quick": {
            "merged": ((400, 3, (1e-6, 1e-3, 3e-2)),),
            "symmetric": ((400, 2),),
            "separate": (300, 2),
            "growth": (500, 3),
            "drive": ((125, 60), (500, 60), (2000, 60)),
        },
        "default": {
            "merged": (
                (500, 3, (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)),
                (2000, 1, (1e-6,)),
                (5000, 1, (1e-6,)),
            ),
            "symmetric": ((500, 2), (2000, 1)),
            "separate": (500, 3),
            "growth": (2000, 6),
            "drive": ((125, 200), (500, 200), (2000, 200)),
        },
        "full": {
            "merged": (
                (500, 12, (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)),
                (2000, 3, (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)),
                (5000, 4, (1e-6,)),
                (20000, 2, (1e-6,)),
            ),
            "symmetric": ((500, 6), (2000, 3), (5000, 1)),
            "separate": (2000, 4),
            "growth": (5000, 12),
            "drive": ((125, 400), (500, 400), (2000, 400), (8000, 400)),
        },
    },
    constants={
        "task": {"dim": 4, "context": 31},
        "heads": {"merged": 8, "separate": 5},
        "stated": {"merged": 1e-6, "separate": 1e-2},
        "lr": {"merged": 0.1, "separate": 0.15},
        "every": 10,  # steps between two log points
        "chunk": 200,  # steps after which it is looked whether the loss has settled
        "most": 6000,  # steps
        "settled": 0.3,  # of the first loss: what a loss that has settled is below
        "drops": (LEAST, 0.15),  # of the first loss: what counts as a drop, and what in the notes
        "first": 0.85,  # of the first loss: where it is looked who came first
        "far": 10.0,  # from s_c: further than this the order is claimed
        "grown": 30,  # steps of growth from a small start
        "tokens": {"dim": 2, "context": 6, "sequences": 20, "lr": 0.05, "steps": 200, "seeds": 4},
    },
    note=(
        "The paper says that softmax ATTN_M and ATTN_S have single and multiple loss drops, with "
        "the setup of Figs. 1 and 3 (pp. 2 and 9, as quoted in a summary). D = 4, N = 31, H = 8 "
        "and 5; starts of scale 1e-6 and 0.01 (version A) as in the published code for those "
        "figures, data centred and whitened as there. Rates, P and the number of data sets are "
        "ours. With small weights attention is uniform, and every head sees the mean token X̄, "
        "which has no counterpart in linear attention: on P sequences c = E y_q X̄ is of size "
        "P^-½, not zero, and drives all heads alike, from any start. If their mean arrives before "
        "their differences, which grow from the start's own scale, the loss drops twice or more. "
        "A drop is a rise and a fall of −dL/d ln t by 0.05 of the first loss each. Runs go on "
        "until the loss is below 0.3 of the first and falls by less than 0.05 of it per unit of "
        "ln t; one that has dropped once by step 6000 and not settled is not counted: it passes "
        "for what the paper says, and fails what is ours. (b) Who was first to arrive; grey: "
        "within a factor 10 of s_c, where nothing is claimed."
    ),
)


def _has_settled(steps: Any, losses: Any, settings: Any) -> bool:
    """Whether no drop is under way, nor another to come."""
    lowest = np.minimum.accumulate(losses)
    before = np.interp(0.8 * steps[-1], steps, lowest)
    slope = (before - lowest[-1]) / math.log(1.25)
    return bool(max(slope / settings.drops[0], lowest[-1] / settings.settled) < losses[0])


def _until_settled(
    settings: Any, data: Sequences, start: Start, lr: float, seed: int
) -> tuple[Run, dict[str, Any]]:
    """A run until its loss has settled, and how often it dropped; not a number if not known."""
    run, how = None, {"lr": lr, "seed": seed, "log_every": settings.every, "progress": step}
    settled = False
    for steps in range(settings.chunk, settings.most + 1, settings.chunk):
        run = train(data, start, steps=steps, resume=run, **how)
        if settled := _has_settled(run.step, np.asarray(run.loss), settings):
            break
    assert run is not None
    loss = np.full(settings.most // settings.every + 1, np.nan)
    loss[: len(run.step)] = run.loss
    counts = [int(count_drops(run.step, run.loss, least)) for least in settings.drops]
    # A second drop is one, whatever comes later; that there is none is known at the end only.
    known = [n if settled or n > 1 else np.nan for n in counts]
    return run, {"loss": ("point", loss), "drops": known[0], "coarse": known[1]}


def _together(run: Run, below: float) -> float:
    """The heads' mean over their differences, at the first loss below a fraction of the first."""
    fallen = np.asarray(run.loss) < below * float(run.loss[0])
    if not fallen.any():
        return math.nan
    when = int(np.argmax(fallen))
    parts = [np.asarray(x)[..., when] for x in (run.value, run.key_query)]
    whole = np.concatenate([x.reshape(len(x), -1) for x in parts], axis=1)
    mean = whole.mean(axis=0)
    return float(np.linalg.norm(mean) * len(whole) ** 0.5 / np.linalg.norm(whole - mean))


def _joined(settings: Any, runs: list[dict[str, Any]], dim: str) -> xr.Dataset:
    """Runs along a dimension of their own; they share the log points."""
    found = xr.concat([xr.Dataset(run) for run in runs], dim=dim)
    steps = np.arange(found.sizes["point"]) * settings.every
    return found.assign_coords(point=steps)


def _sequences(settings: Any, count: int, seed: int, **options: Any) -> Sequences:
    return sample(Task(**settings.task), count, seed=settings.seed + seed, **options)


@fig.data
def attention(settings: Any) -> xr.Dataset:
    """Merged attention on every data set from every scale, and on four-fold data from 1e-6."""
    heads, lr, found = settings.heads["merged"], settings.lr["merged"], []
    four = {"antithetic": True, "query_flip": True}
    asked = [(*each, {}) for each in settings.merged]
    asked += [(*each, (settings.stated["merged"],), four) for each in settings.symmetric]
    for count, sets, scales, options in asked:
        for seed in range(sets):
            data = _sequences(settings, count, seed, **PUBLISHED, **options)
            critical = softmax_modes(data, heads).critical
            for scale in scales:
                run, seen = _until_settled(
                    settings, data, merged(heads, scale, **SOFTMAX), lr, settings.seed + seed
                )
                case = {"sequences": count, "set": seed, "scale": scale, "critical": critical}
                case |= {"four": bool(options), "together": _together(run, settings.first)}
                found.append(case | seen)
    return _joined(settings, found, "run")


@fig.data
def apart(settings: Any) -> xr.Dataset:
    """Separate attention on every data set."""
    count, sets = settings.separate
    start = separate(settings.heads["separate"], 1, settings.stated["separate"], **SOFTMAX)
    found = []
    for seed in range(sets):
        data = _sequences(settings, count, seed, **PUBLISHED)
        lr = settings.lr["separate"]
        found.append(_until_settled(settings, data, start, lr, settings.seed + seed)[1])
    joined = _joined(settings, found, "apart")
    return joined.rename({name: f"apart_{name}" for name in ("loss", "drops", "coarse")})


@fig.data
def escape(settings: Any) -> xr.Dataset:
    """Growth from the stated start, of the heads' differences and of their mean, and its theory."""
    heads, lr, (count, sets) = settings.heads["merged"], settings.lr["merged"], settings.growth
    start = merged(heads, settings.stated["merged"], **SOFTMAX)
    parts, steps = [], np.zeros(0)
    for seed in range(sets):
        data = _sequences(settings, count, seed, **PUBLISHED)
        modes = softmax_modes(data, heads)
        how = {"lr": lr, "steps": settings.grown, "log_every": 5, "progress": step}
        run = train(data, start, seed=settings.seed + seed, **how)
        between, mean = modes.along(run.value, run.key_query)
        steps = run.step
        told = modes.amplitude[:, None] * np.expm1(np.outer(np.log1p(2 * lr * modes.rate), steps))
        found = {"between": np.linalg.norm(between, axis=0), "mean": np.linalg.norm(mean, axis=0)}
        found |= {"mean_theory": np.linalg.norm(told, axis=0)}
        found |= {"mean_gap": np.linalg.norm(np.abs(mean) - told, axis=0)}
        found = {name: ("step", values) for name, values in found.items()}
        parts.append(xr.Dataset(found | {"rate": math.log1p(2 * lr * modes.apart)}))
    return xr.concat(parts, dim="grown").assign_coords(step=steps)


@fig.data
def drive(settings: Any) -> xr.Dataset:
    """The label's entry of E y_q X̄ on many data sets, in units of its size by theory."""
    task = Task(**settings.task)
    lam, context = np.asarray(task.eigenvalues), settings.task["context"]
    # E (y_q ȳ)² = N E (wᵀΛw)²/(N+1)², and E (wᵀΛw)² = tr² + 2 tr Λ²
    size = (context * (lam.sum() ** 2 + 2.0 * np.sum(lam**2))) ** 0.5 / (context + 1)
    found = []
    for k, (count, sets) in enumerate(settings.drive):
        entries = []
        for seed in range(sets):  # the first sequences of a seed are the same at every P
            data = sample(task, count, seed=settings.seed + 1000 * (k + 1) + seed)
            mean = np.asarray(data.tokens)[:, -1].mean(axis=1)
            entries.append(np.mean(np.asarray(data.target)[:, -1, 0] * mean))
        found.append(np.sqrt(np.mean(np.square(entries)) * count) / size)
    counts = [count for count, _ in settings.drive]
    return xr.Dataset({"pushed": ("many", found), "size": size}, coords={"many": counts})


@fig.data
def witnesses(settings: Any) -> xr.Dataset:
    """A small model on tokens and by the query's row alone."""
    given, start = settings.tokens, separate(2, 2, 0.3, **SOFTMAX)
    data = sample(Task(given["dim"], given["context"]), given["sequences"])
    seeds = list(range(settings.seed, settings.seed + given["seeds"]))
    # Twice this rate is at the edge of stability, where the last bit of a start decides.
    how = {"lr": given["lr"], "steps": given["steps"], "log_every": 5, "seed": seeds}
    losses = [np.asarray(each(data, start, **how).loss) for each in (train_brute, train)]
    names = ["tokens", "query row"]
    axes = ("witness", "weights", "checked")
    return xr.Dataset({"token_loss": (axes, losses)}, coords={"witness": names})


def _losses(d: xr.Dataset) -> list[Mark]:
    """From the stated start: by P, and on four-fold data."""
    stated, four, found = _stated(d), d.four.values, []
    for k, count in enumerate(np.unique(d.sequences.values[stated])):
        for n, one in enumerate(d.loss.values[stated & (d.sequences.values == count)]):
            found.append(training(d.point, one, "" if n else f"$P = {count}$", k))
    dashed: Any = {"linestyle": "--", "linewidth": 1.1}
    for n, one in enumerate(d.loss.values[four]):
        found.append(line(d.point, one, "" if n else "four-fold data", 6, **dashed))
    return found


def _orders(d: xr.Dataset) -> list[Mark]:
    """Who came first, against s/s_c."""
    shade: Any = {"color": "0.9", "linewidth": 0.0, "zorder": 0}
    far, found = settings_of(d).far, [level(1.0), upright(1.0)]
    found.append(Mark(lambda axes: axes.axvspan(1.0 / far, far, **shade)))
    for k, (word, pick) in enumerate({"one drop": d.drops == 1, "several": d.drops > 1}.items()):
        here = d.isel(run=pick.values & ~d.four.values)
        look: Any = {"linestyle": "none", "marker": "os"[k], "markersize": 4.5}
        look["markerfacecolor"] = colour(k) if k else "white"
        found.append(line(here.scale / here.critical, here.together, word, k, **look))
    return found


def _growths(d: xr.Dataset) -> list[Mark]:
    """Sizes in the growing modes, and the linearised training."""
    black, found = {"color": "black", "linewidth": 0.9}, []
    for n in range(d.sizes["grown"]):
        one = d.isel(grown=n)
        alone = float(one.between[0]) * np.exp(float(one.rate) * d.step.values)
        found.append(training(d.step, one["mean"], "" if n else "the heads' mean", 1))
        found.append(training(d.step, one.between, "" if n else "their differences", 0))
        found.append(theory(d.step, alone, **black))
        found.append(theory(d.step[1:], one.mean_theory[1:], **black))  # from zero at the start
    return [*found, entry("linearised", linestyle="--", **black)]


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """Losses from the stated starts, who comes first against s/s_c, and the growth before that."""
    apart = [training(d.point, one, "", k) for k, one in enumerate(d.apart_loss.values)]
    begun: Any = {"x": "step", "y": "$L$", "log": "x", "xlim": (20.0, None), "ylim": (0.0, 1.15)}
    x, y = "scale of the start over $s_c$", "heads' mean over differences"
    sizes, small = "size in the growing modes", "merged, scale $10^{-6}$"
    return drawn(
        Panel(**begun, marks=_losses(d), title=small),
        Panel(x, y, _orders(d), log="xy", title="merged, $L$ down by 15 %"),
        Panel("step", sizes, _growths(d), log="y", title=small),
        Panel(**begun, marks=apart, title="separate, scale $0.01$, a line a data set", legend=0),
        rows=2,
    )


def _stated(d: xr.Dataset) -> np.ndarray:
    """Which runs are the paper's: on i.i.d. data, from the stated start."""
    return ~d.four.values & (d.scale.values == settings_of(d).stated["merged"])


def _sides(d: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Which runs on i.i.d. data start far below s_c, and which far above."""
    ratio, far = (d.scale / d.critical).values, settings_of(d).far
    return ~d.four.values & (ratio <= 1.0 / far), ~d.four.values & (ratio >= far)


def _told(d: xr.Dataset, pick: np.ndarray) -> str:
    """How many drops some runs had, in words."""
    here, told = d.isel(run=pick), []
    places = zip(here.sequences.values.tolist(), here.scale.values.tolist(), strict=True)
    for count, scale in sorted(set(places)):
        these = here.isel(run=(here.sequences.values == count) & (here.scale.values == scale))
        both = zip(these.drops.values, these.coarse.values, strict=True)
        each = ", ".join(f"{n:g} ({m:g})" for n, m in both)
        told.append(f"P = {count}, scale {scale:g}: {each}")
    return f"{'; '.join(told)}; in brackets with drops of {settings_of(d).drops[1]} and more."


@fig.claim(
    "reported",
    "pp. 2 and 9, as quoted in a summary; the scale of Fig. 1 in the published code",
    known="fails",
)
def merged_reported(d):
    """From the start of Fig. 1, of scale {stated[merged]}, softmax attention with merged keys and
    queries learns in one drop (share of data sets, those that are not counted with it)."""
    # Fails where the sample's mean token drives all heads before their differences have grown.
    pick = _stated(d)
    share = 1.0 - (d.drops.values[pick] > 1).mean()
    because = "if half of the data sets did, one that does would be no exception"
    words = (
        f"{_told(d, pick)} The sample's E y_q X̄, of size P^-½, drives all heads alike from any "
        "start, and from this one they arrive before their differences: a drop for either."
    )
    return at_least(share, 0.5, because=because, note=f"{words} {BEYOND}")


@fig.claim("new", "derived", word="merged")
def in_one(d):
    """It does from a start {far:g} times s_c or more, and from {stated[merged]} on four-fold data,
    closed under x_q → −x_q and w → −w as the population is (the most drops of a run)."""
    four, above = d.four.values, _sides(d)[1]
    words = f"Four-fold: {_told(d, four)} i.i.d.: {_told(d, above)}"
    return near(d.drops.values[four | above].max(), 1.0, 0.0, because="counts", note=words)


@fig.claim("new", "derived")
def below(d):
    """From a start of s_c/{far:g} or less it learns in several drops (share of runs)."""
    pick = _sides(d)[0]
    share = (d.drops.values[pick] > 1).mean()
    because = "where the heads' mean is hardly faster than their differences, there is no pause "
    because += "long enough to part two drops: s_c tells the order alone"
    return near(share, 1.0, 0.25, because=because, note=_told(d, pick))


@fig.claim("new", "derived")
def order(d):
    """The heads' mean is the first to arrive from s_c/{far:g} or less, and their differences from
    {far:g} s_c or more (share of runs, the smaller of the two)."""
    under, above = _sides(d)
    together = d.together.values
    shares = (together[under] > 1.0).mean(), (together[above] < 1.0).mean()
    words = f"{under.sum()} runs below, with ratios from {together[under].min():.2g}; {above.sum()}"
    words += f" above, with ratios up to {together[above].max():.2g}."
    return near(min(shares), 1.0, 0.0, because="every run is to be told right", note=words)


@fig.claim("new", "derived")
def critical(d):
    """The scale from which the two arrive together is s_c = max A_j^(r_f/r_j) of the data set, to a
    factor of ten (log₁₀ of the scale at which they are alike over s_c, mean over data sets)."""
    # Fails if the differences ever caught up a decade earlier or later than s_c has it.
    found, iid = [], d.isel(run=~d.four.values)
    for count, number in sorted({*zip(iid.sequences.values, iid.set.values, strict=True)}):
        here = iid.isel(run=(iid.sequences.values == count) & (iid.set.values == number))
        ratio, scale = np.log(here.together.values), np.log10((here.scale / here.critical).values)
        if len(ratio) > 1:  # the ratio falls as the scale grows
            found.append(np.interp(0.0, -ratio, scale, left=np.nan, right=np.nan))
    because = "a factor 10: what is compared when the loss has fallen by 15 % is smaller than one, "
    because += "of which r_f/r_j = 1.5 to 2 is a power"
    words = ", ".join(f"{10.0**x:.2g}" for x in found)
    return near(np.mean(found), 0.0, 1.0, because=because, note=f"Each over s_c: {words}. {ONE}")


@fig.claim(
    "reported",
    "pp. 2 and 9, as quoted in a summary; heads and scale of Fig. 3 in the published code",
    word="separate",
)
def in_several(d):
    """From the start of Fig. 3, of scale {stated[separate]}, softmax attention with separate keys
    and queries learns in multiple drops (the fewest of a data set)."""
    count, _ = settings_of(d).separate
    both = zip(d.apart_drops.values, d.apart_coarse.values, strict=True)
    words = ", ".join(f"{n:g} ({m:g})" for n, m in both)
    words = f"P = {count}: {words}; in brackets with drops of {settings_of(d).drops[1]} and more."
    least = d.apart_drops.values.min()  # not a number if one is not known
    return at_least(least, 2, because="multiple, no more is said", note=words)


@fig.claim("new", "derived")
def growth(d):
    """From {stated[merged]} the differences between heads grow along the top singular vectors of
    𝒞 = E y_q Ĉ x_q by ln(1 + 2η σ_max(𝒞)) a step (growth over that, the data set furthest off)."""
    grown = np.log((d.between[:, -1] / d.between[:, 0]).values) / float(d.step[-1])
    ratio = grown / d.rate.values
    far = ratio[np.argmax(np.abs(ratio - 1.0))]
    told = np.expm1(d.rate.values) / (2.0 * settings_of(d).lr["merged"])
    words = f"σ_max from {told.min():.4f} to {told.max():.4f} on {told.size} data sets."
    because = "the heads' mean, .02 to .04 by then, bends what differences see"
    return near(far, 1.0, 0.02, because=because, note=words)


@fig.claim("new", "derived")
def mean_head(d):
    """The heads' mean grows along the damped modes e_j from A_j = |e_j·c|/r_j as if it started
    there, whatever the start: A_j ((1 + 2η r_j)ⁿ − 1) (gap of all modes over their size after
    {grown} steps, the worst data set)."""
    gap = (d.mean_gap[:, -1] / d.mean_theory[:, -1]).values
    sizes = d.mean_theory[:, -1].values
    words = f"They are then from {sizes.min():.2g} to {sizes.max():.2g}, the start was 1e-06."
    because = "the next order is a part of the modes as large as they are themselves, up to .04"
    return near(gap.max(), 0.0, 0.04, because=because, note=words)


@fig.claim("new", "derived", word="drive")
def pushed(d):
    """On P sequences the label's entry of E y_q X̄ is √(N (tr² + 2 tr Λ²))/((N + 1)√P) in root mean
    square (over that, all P together)."""
    sets = np.array([sets for _, sets in settings_of(d).drive])
    found = float((np.sum(sets * d.pushed.values**2) / sets.sum()) ** 0.5)
    each = zip(d.many.values, d.pushed.values, strict=True)
    words = ", ".join(f"{x:.3f} at P = {count}" for count, x in each)
    because = "3 standard errors of a root mean square of so many Gaussians"
    slack, words = 3.0 / (2.0 * sets.sum()) ** 0.5, f"{float(d.size):.4f}/√P times {words}."
    return near(found, 1.0, slack, because=because, note=words)


@fig.claim("check", "derived")
def tokens(d):
    """Training with the query's row of the attention alone is training on real tokens to round-off
    (largest relative gap of L, {tokens[seeds]} starts)."""
    rows = [d.token_loss.sel(witness=name) for name in ("tokens", "query row")]
    return near(worst_ratio(*rows), 0.0, 1e-10, because="round-off of 200 steps is 1e-12")
