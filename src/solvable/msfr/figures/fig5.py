"""Fig. 5: softmax attention on source/capacity regression, in time and at best compute."""

from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np
import xarray as xr
from scipy.special import zeta

from ...reproduce import Figure, at_least, at_most, near, settings_of, step
from ...reproduce.panels import Mark, Panel, drawn, each, entry, law, line, training
from ...reproduce.panels import tokens as dots
from ...style import LAW, TOKENS, colour
from .. import (
    Task,
    sample,
    source_start,
    source_strengths,
    train_source,
    train_tokens,
)
from ._source import (
    Falls,
    Sample,
    crossing,
    descends,
    envelope,
    mean_curve,
    mean_exponent,
    stable,
)
from ._table import printed

POINTS = 150  # of the log
ENOUGH = 3.0  # standard errors
LATER = 40.0  # from which time the exponents are read once more

fig = Figure(
    "msfr/fig5",
    "Softmax attention on source/capacity regression",
    settings={
        "quick": {"num_tasks": 60, "few_tasks": 40, "steps": 1000, "seeds": 8, "errors": 2.0}
        | {"sizes": (3, 6, 13), "size_seeds": 4}
        | {"token_tasks": 40, "context": 200, "data": 300, "token_steps": 100, "token_seeds": 2}
        | {"contexts": (25, 400), "contexts_seeds": 2},
        "default": {"num_tasks": 200, "few_tasks": 50, "steps": 1500, "seeds": 20, "errors": 0.0}
        | {"sizes": (3, 5, 8, 13, 22), "size_seeds": 8}
        | {"token_tasks": 50, "context": 200, "data": 500, "token_steps": 500, "token_seeds": 2}
        | {"contexts": (50, 800), "contexts_seeds": 4},
        "full": {"num_tasks": 500, "few_tasks": 50, "steps": 3000, "seeds": 24, "errors": 0.0}
        | {"sizes": (3, 5, 8, 13, 22, 36), "size_seeds": 16}
        | {"token_tasks": 50, "context": 1000, "data": 500, "token_steps": 1500, "token_seeds": 4}
        | {"contexts": (50, 200, 800, 3200), "contexts_seeds": 8},
    },
    constants={"alphas": (1.8, 2.1), "decay": 3.0, "lr": 0.2},
    note=(
        "The paper has τ = 3, lr 0.2 and ψ = 1000, and says neither S nor N nor the start. (a) to "
        "(c) have ψ = ∞ and the population: for Gaussian tokens softmax attention then is linear "
        "attention with a normalised covariance (msfr.source_loss), and needs no tokens. (d) has "
        "tokens. Ours: S = 200 (500 in full), ω_1 = 1, V ~ N(0, 0.1²), W_K, W_Q ~ N(0, 1/d_e), "
        "d_e = S + 1, single precision. Both α have the same strengths Λ_s ~ N(0, I) and the same "
        "starts, seed by seed, so that differences between them are paired. At lr 0.2 gradient "
        "descent is unstable where Λ_1 happens to be large: a seed whose L rises by over a tenth "
        "at either α is left out. S → ∞ in the laws; of L the tasks beyond S are missing, which "
        "are not learned before t ~ 1/p_S: L + ½ Ē Σ_{s>S} p_s has them, Ē the mean of the errors "
        "at the start. At S = 200 this lowers the exponent by 0.035 at α = 1.8 and by 0.01 at 2.1, "
        "and at S = 50 by 0.15 and 0.06. What is added depends on α by itself: one and the same "
        "curve of training at both α, with its own tasks beyond, shows a difference, too, so that "
        "what training says of α is judged as it is trained (alphas) and above that difference "
        "(alphas). Larger S, measured once on a GPU by the same code to t = 600: exponents "
        "at α = 1.8 and 2.1 with the tasks beyond, and their paired difference as trained, are "
        "0.459 ± 0.016, 0.538 ± 0.025, 0.058 ± 0.011 at S = 500 (21 of 24 seeds stable), "
        "0.465 ± 0.013, 0.531 ± 0.018, 0.055 ± 0.008 at S = 1000 (20 of 24), and "
        "0.455 ± 0.013, 0.515 ± 0.019, 0.057 ± 0.010 at S = 2000 (14 of 16)."
    ),
)


def _tasks(num_tasks: int, alpha: float, context: float = 1.0) -> Task:
    return Task(num_tasks, alpha, context, 1.0)


def _seeds(settings: Any, count: int) -> tuple[int, ...]:
    return tuple(range(settings.seed, settings.seed + count))


def _trained(settings: Any, num_tasks: int, name: str) -> xr.Dataset:
    """The whole model from every seed at every α, and what the tasks beyond the last would add."""
    found: list[xr.Dataset] = []
    for alpha in settings.alphas:
        task = _tasks(num_tasks, alpha)
        run = train_source(
            task,
            lr=settings.lr,
            steps=settings.steps,
            decay=settings.decay,
            seed=_seeds(settings, settings.seeds),
            log_points=POINTS,
            progress=step,
        )
        beyond = float(zeta(alpha, num_tasks + 1)) * float(task.normaliser)
        unlearned = float(np.mean(np.asarray(run.errors)[..., 0]))
        parts = {
            name: (("seed", "time"), np.asarray(run.loss, float)),
            f"{name}_beyond": 0.5 * unlearned * beyond,
            f"{name}_share": float(task.normaliser),  # p_1
        }
        found.append(xr.Dataset(parts, coords={"time": run.time}).expand_dims(alpha=[alpha]))
    return xr.concat(found, dim="alpha")


@fig.data
def time(settings: Any) -> xr.Dataset:
    """(a): training at ψ = ∞."""
    return _trained(settings, settings.num_tasks, "loss")


@fig.data
def few(settings: Any) -> xr.Dataset:
    """The same with fewer tasks."""
    return _trained(settings, settings.few_tasks, "few")


@fig.data
def sized(settings: Any, time: xr.Dataset) -> xr.Dataset:
    """(c): models of size D at the first α, from the first seeds that are stable."""
    kept = np.flatnonzero(stable(time, "loss"))[: settings.size_seeds]
    found = []
    for k, size in enumerate(settings.sizes):
        run = train_source(
            _tasks(settings.num_tasks, settings.alphas[0]),
            lr=settings.lr,
            steps=settings.steps,
            decay=settings.decay,
            size=size,
            seed=tuple(int(settings.seed + s) for s in kept),
            log_points=POINTS,
        )
        found.append(np.asarray(run.loss, float))
        step(k + 1, len(settings.sizes))
    return xr.Dataset(
        {"sized": (("size", "size_seed", "time"), np.stack(found))},
        coords={"size": list(settings.sizes), "size_seed": kept, "time": time.time.values},
    )


@fig.data
def tokens(settings: Any) -> xr.Dataset:
    """(d): training on tokens, and at ψ = ∞ with the same strengths, start and shares of tasks."""
    seeds, how = _seeds(settings, settings.token_seeds), {"steps": settings.token_steps}
    found = []
    for alpha in settings.alphas:
        task = _tasks(settings.token_tasks, alpha, float(settings.context))
        found.append([_on_tokens(settings, task, settings.data, s, **how) for s in seeds])
    return xr.Dataset(
        {
            "tokens": (("alpha", "token_seed", "token_time"), np.array(found)[:, :, 0]),
            "limit": (("alpha", "token_seed", "token_time"), np.array(found)[:, :, 1]),
        },
        coords={"alpha": list(settings.alphas), "token_time": np.array(found)[0, 0, 2]},
    )


@fig.data
def contexts(settings: Any) -> xr.Dataset:
    """Ten tasks with many data each, which have less noise, at several ψ, for a short time."""
    seeds, found = _seeds(settings, settings.contexts_seeds), []
    for context in settings.contexts:
        task = _tasks(10, settings.alphas[0], float(context))
        found.append([_on_tokens(settings, task, 800, s, steps=100)[:2] for s in seeds])
    of_tokens, limit = np.moveaxis(np.array(found), 2, 0)
    above = (of_tokens / limit - 1.0).mean(axis=-1)
    return xr.Dataset({"above": (("psi", "seed_of_psi"), above)}, {"psi": list(settings.contexts)})


def _on_tokens(
    settings: Any, task: Task, count: int, seed: int, steps: int
) -> tuple[np.ndarray, ...]:
    """L on tokens, L at ψ = ∞, and the times."""
    data = sample(task, count, seed=seed, features="source", decay=settings.decay)
    strengths = source_strengths(task, seed=seed, data=count)
    start = source_start(task, seed=seed)
    shares = np.bincount(np.asarray(data.task), minlength=task.num_tasks) / count
    how = {"lr": settings.lr, "steps": steps, "log_every": 5}
    run = train_tokens(_single(start), _single(data), progress=step, **how)
    free = train_source(
        task, start, strengths=strengths, weights=shares, decay=settings.decay, **how
    )
    return np.asarray(run.loss, float), np.asarray(free.loss, float), run.time


def _single(tree: Any) -> Any:
    """In single precision, which halves the time and moves the loss by far less than a seed."""
    return jax.tree.map(
        lambda x: x.astype(jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x, tree
    )


def _sized(d: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Sizes D, the whole model last, and L of each with the tasks beyond S: (D, runs, times)."""
    alpha, chosen = settings_of(d).alphas[0], d.size_seed.values
    all_of_it = d.loss.sel(alpha=alpha).values[chosen]
    runs = np.concatenate([d.sized.values, all_of_it[None]]) + float(d.loss_beyond.sel(alpha=alpha))
    return np.append(d["size"].values, settings_of(d).num_tasks + 1), runs


def _best(
    d: xr.Dataset, chosen: Any = slice(None), later: float = 0.0
) -> tuple[float, float, float]:
    """The exponent of the least mean L at compute C, and from and to which C it was read.

    With `later`, from further on: by that share of the decades.
    """
    sizes, runs = _sized(d)
    curves = np.stack([mean_curve(one[chosen]) for one in runs])
    spent, least, _ = envelope(sizes, d.time.values, curves)
    share = float(d.loss_share.sel(alpha=settings_of(d).alphas[0]))
    first, last = crossing(spent, least, 1.0 - share), float(spent[-1])
    first *= (last / first) ** later
    return mean_exponent(spent, least, first, last), first, last


def _apart(d: xr.Dataset, which: str) -> float:
    """Half of what separates the laws of the two α."""
    one, *_, other = (getattr(printed(a), which) for a in settings_of(d).alphas)
    return abs(other - one) / 2.0


HALF = "half of what separates the laws of the two α: nearer to its own than to the other"
ERRORS = f"{ENOUGH:.0f} standard errors over seeds"


@fig.claim("paper", "Fig. 5(a), App. H.1, Table 1", word="time-{x}", over="alphas")
def in_time(d, x):
    """Softmax attention on source/capacity features is consistent with L ∝ t^(−(α−1)/α) at
    α = {x}, S → ∞ (exponent, mean over seeds)."""
    falls = Falls.of(d)
    found, bare = falls.exponent(x), falls.exponent(x, whole=False)
    note = (
        f"{found} (standard error) over {len(found.values)} of {d.sizes['seed']} seeds, the stable "
        f"ones, each the mean local "
        f"exponent from t = {falls.first[x]:.2g}, where L has lost p_1, to {falls.time[-1]:.0f}; "
        f"without the tasks beyond S = {settings_of(d).num_tasks} it is {bare}. From "
        f"t = {LATER:g} on it is {falls.exponent(x, LATER)}. Half of what separates the laws is "
        f"{_apart(d, 'time') / found.error:.1f} standard errors."
    )
    tolerance, why = _apart(d, "time"), HALF
    if settings_of(d).errors * found.error > tolerance:  # few seeds, at the quick size
        tolerance = settings_of(d).errors * found.error
        why = "2 standard errors over the few seeds of this size, more than " + HALF
    return near(found.mean, printed(x).time, tolerance, because=why, note=note)


@fig.claim("new", "Fig. 5(a), Table 1", known={"quick": "fails"})
def alphas(d):
    """Over seeds whose L descends the exponent of training, as it is, is larger at α = {alphas[1]}
    than at {alphas[0]} (difference in standard errors, seeds paired)."""
    falls, all_falls = Falls.of(d), Falls.of(d, every=True)
    found, every = (each.paired(whole=False) for each in (falls, all_falls))
    nulls = ", ".join(f"{null} by that of α = {a:g}" for a, null in falls.blind().items())
    note = (
        f"The difference is {found} over the {len(found.values)} stable seeds of "
        f"{d.sizes['seed']}; over all {len(every.values)} whose L stays finite it is {every}. With "
        f"the tasks beyond S it is {falls.paired()}, of the laws {2.0 * _apart(d, 'time'):.3f}, "
        f"but one curve at both α would have {nulls}: these tasks carry α themselves."
    )
    return at_least(found.mean / found.error, ENOUGH, because=ERRORS, note=note)


@fig.claim("new", "Fig. 5(a)")
def few_tasks(d):
    """With {few_tasks} tasks training as it is shows at most half of the laws' dependence on α: too
    much of L is missing (difference of the exponents, seeds paired)."""
    found = Falls.of(d, "few").paired(whole=False)
    note = (
        f"The difference is {found} over {len(found.values)} stable seeds, that of the laws "
        f"{2.0 * _apart(d, 'time'):.3f}."
    )
    why = "half of what separates the laws of the two α"
    return at_most(abs(found.mean), _apart(d, "time"), because=why, note=note)


@fig.claim("paper", "Fig. 5(b), App. H.1, Table 1")
def compute(d):
    """The least L at compute C = D·t is consistent with C^(−(α−1)/(α+1)) at α = {alphas[0]},
    S → ∞ (exponent)."""
    exponent, first, last = _best(d)
    runs = np.arange(d.sizes["size_seed"])
    left_out = np.array([_best(d, runs != k)[0] for k in runs])
    error = np.sqrt((len(runs) - 1) * np.var(left_out))
    sizes = ", ".join(str(size) for size in _sized(d)[0])
    later, middle, _ = _best(d, later=0.5)
    note = (
        f"Mean local exponent of the least mean L from C = {first:.2g}, where it has lost p_1, to "
        f"C = {last:.2g}, where training of the best D ends; {len(runs)} seeds, ± {error:.3f} "
        f"(jackknife; half of what separates the laws is {_apart(d, 'compute') / error:.1f} of "
        f"it), D = {sizes}. "
        f"From C = {middle:.2g} on it is {later:.3f}."
    )
    law = printed(settings_of(d).alphas[0]).compute
    return near(exponent, law, _apart(d, "compute"), because=HALF, note=note)


def _ratios(d: xr.Dataset) -> Sample:
    """Of every pair of runs L on tokens by L at ψ = ∞, the geometric mean over the run."""
    good = descends(d.limit.values) & descends(d.tokens.values)
    logs = np.log(d.tokens.values / d.limit.values)[good]
    return Sample(np.exp(logs.mean(axis=-1)))


@fig.claim("check", "App. H.1", word="tokens")
def follow_tokens(d):
    """Training on tokens, with {token_tasks} tasks, has the loss of ψ = ∞ within a quarter, at the
    same strengths, start and shares of tasks (ratio of the losses, mean over runs and time)."""
    found, settings = _ratios(d), settings_of(d)
    note = (
        f"ψ = {settings.context}, N = {settings.data}, to t = {float(d.token_time[-1]):.0f}; "
        f"{found} over {len(found.values)} runs, from {found.values.min():.2f} to "
        f"{found.values.max():.2f}. So tokens show no more of α than ψ = ∞ does at their S."
    )
    why = "the N queries of a data set blur its L by a tenth, and ψ adds to it (see contexts)"
    return near(found.mean, 1.0, 0.25, because=why, note=note)


@fig.claim("check", "App. H.1", word="contexts")
def approach(d):
    """Training on tokens approaches ψ = ∞ as contexts grow: at the longest of {contexts} L
    lies above its limit by at most a third of what it does at the shortest (mean over t ≤ 20 and
    runs)."""
    found = [Sample(runs) for runs in d.above.values]
    each = ", ".join(f"{x} at ψ = {psi}" for psi, x in zip(d.psi.values, found, strict=True))
    why = "1/ψ would make it a 16th or less, and 800 queries blur it by 0.04"
    return at_most(found[-1].mean, found[0].mean / 3.0, because=why, note=f"10 tasks; {each}.")


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """(a) L in time, (b) its exponents, (c) compute, (d) tokens."""
    return drawn(_losses(d), _exponents(d), _frontier(d), _tokens(d), rows=2)


def _guide(x: tuple[float, float], y: float, exponent: float) -> Mark:
    """A law over a range, a little above a curve that begins at y."""
    ends = np.array(x)
    return law(ends, 1.35 * y * (ends / ends[0]) ** -exponent)


def _losses(d: xr.Dataset) -> Panel:
    falls = Falls.of(d)
    t, marks = falls.time, []
    for k, (alpha, runs) in enumerate(falls.whole.items()):
        curve, first = mean_curve(runs), falls.first[alpha]
        marks += [
            each(t[1:], (runs / runs[:, :1])[:, 1:], k=k, linewidth=0.4, alpha=0.35),
            training(t[1:], curve[1:], rf"mean, $\alpha = {alpha:g}$", k),
            _guide((first, t[-1]), np.interp(first, t, curve), printed(alpha).time),
        ]
    marks.append(entry(r"$t^{-(\alpha-1)/\alpha}$", **LAW))
    title = f"S = {settings_of(d).num_tasks}, with the tasks beyond"
    return Panel("$t$", "$L / L(0)$", marks, "xy", title, where="lower left")


def _exponents(d: xr.Dataset) -> Panel:
    """Exponents against their laws."""
    at = [printed(a).time for a in settings_of(d).alphas]
    marks = [law([0.35, 0.65], [0.35, 0.65], "law")]
    many, few = Falls.of(d), Falls.of(d, "few")
    pairs = [many.exponent(a).values for a in many.first]
    marks.append(line(at, np.array(pairs), color=colour(0), linewidth=0.4, alpha=0.35))
    size, small = settings_of(d).num_tasks, settings_of(d).few_tasks
    shown = (
        (many, True, f"S = {size}, with the tasks beyond", 0, "full"),
        (many, False, f"S = {size}", 0, "none"),
        (few, False, f"S = {small}", 1, "none"),
    )
    for n, (falls, whole, word, k, fill) in enumerate(shown):
        found = [falls.exponent(a, whole=whole) for a in falls.first]
        x = np.array(at) + 0.003 * (n - 1.0)
        marks.append(_points(x, found, word, k, fill))
    ranges = {"xlim": (0.42, 0.55), "ylim": (0.0, 0.75), "where": "lower right", "legend": 7.0}
    what = r"law $(\alpha-1)/\alpha$"
    return Panel(what, "exponent", marks, title="each seed, and means", **ranges)


def _points(x: Any, found: list[Sample], word: str, k: int, fill: Any) -> Mark:
    means, errors = [s.mean for s in found], [s.error for s in found]
    look = {"marker": "o", "markersize": 4.5, "fillstyle": fill, "capsize": 2.0, "linewidth": 1.0}
    return Mark(lambda axes: axes.errorbar(x, means, errors, color=colour(k), label=word, **look))


def _frontier(d: xr.Dataset) -> Panel:
    sizes, runs = _sized(d)
    curves = np.stack([mean_curve(one) for one in runs])
    t, num_tasks, alpha = d.time.values, settings_of(d).num_tasks, settings_of(d).alphas[0]
    marks = [
        training(
            size * t[1:], curve[1:], f"$D = {size}$" + (" (all)" if size > num_tasks else ""), k
        )
        for k, (size, curve) in enumerate(zip(sizes, curves, strict=True))
    ]
    spent, least, _ = envelope(sizes, t, curves)
    _, first, last = _best(d)
    marks += [
        line(spent, least, "least", color="black", linewidth=1.0),
        _guide((first, last), np.interp(first, spent, least), printed(alpha).compute),
        entry(r"$C^{-(\alpha-1)/(\alpha+1)}$", **LAW),
    ]
    title = rf"$\alpha = {alpha:g}$, S = {num_tasks}"
    return Panel("$C = D t$", "$L / L(0)$", marks, "xy", title, where="lower left", legend=7.0)


def _tokens(d: xr.Dataset) -> Panel:
    settings, t = settings_of(d), d.token_time.values
    shown = np.unique(np.geomspace(1, len(t) - 1, 24).astype(int))
    alpha = settings.alphas[0]
    here = d.sel(alpha=alpha)
    marks = []
    for k in range(settings.token_seeds):
        marks += [
            dots(t[shown], here.tokens.values[k, shown], k=k),
            line(t[1:], here.limit.values[k, 1:], k=k, linewidth=1.2),
        ]
    marks += [
        entry(rf"tokens, $\psi = {settings.context}$", color="0.3", **TOKENS),
        entry(r"$\psi = \infty$, same seed", color="0.3", linewidth=1.2),
    ]
    title = rf"$\alpha = {alpha:g}$, S = {settings.token_tasks}, $N = {settings.data}$"
    return Panel("$t$", "$L$", marks, "xy", title, where="lower left")
