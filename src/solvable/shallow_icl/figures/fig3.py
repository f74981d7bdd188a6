"""Fig. 3: separate attention learns one eigenvector after another."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np
import xarray as xr

from ...compiling import jit
from ...reproduce import Figure, at_least, near, settings_of, step, worst_ratio
from ...reproduce.panels import Mark, Panel, drawn, entry, level, line, theory, tokens
from ...style import THEORY, colour
from .. import (
    Start,
    Task,
    aligned_weights,
    conserved_separate,
    crossing_times,
    drop_times,
    fixed_point,
    loss,
    mid_levels,
    plateau_levels,
    plateau_losses,
    population,
    sample,
    separate,
    statistics,
    train,
    train_brute,
    unit_factor,
)
from ._drops import count_drops
from ._heads import GROWN, Heads, flattest, full_sizes, grow, growths, pace_of
from ._seeds import beyond, mean_of

POINTS = 5000  # logged in every run on the population, so that each kind is compiled once
MOST = 0.75  # the share of seeds of which a worst case is told

fig = Figure(
    "shallow_icl/fig3",
    "Separate attention: one drop and one plateau for every eigenvector",
    settings={
        "quick": {"sequences": 20_000, "seeds": 12, "population_seeds": 20},
        "default": {"sequences": 80_000, "seeds": 12, "population_seeds": 20},
        "full": {"sequences": 160_000, "seeds": 24, "population_seeds": 48},
    },
    constants={
        "dim": 4,
        "context": 31,
        "heads": 5,
        "rank": 1,
        "scale": 1e-2,
        "init": "A",
        "lr": 0.02,
        "published_steps": 10_000,
        "steps": 40_000,
        "log_every": 20,
        "units": "code",
        "small": {"scale": 1e-3, "steps": 250_000},
        "token": {"sequences": 100, "scale": 0.1, "steps": 2000},
    },
    note=(
        "D = 4, N = 31, P = 80000, η = 0.02 and 10001 steps as in the published notebook (quick: "
        "20000 sequences), drawn over four times as many. H = 5 is from a file's name there; one "
        "summary says 4. Which of the four published initialisations was used is not known: "
        "version A at 1e-2, inferred from the times of the drops. How the paper starts its v(t) in "
        f"(b) is not known: here where a head has reached {GROWN:g} of its size, in the seed whose "
        "heads theory puts furthest from ties. At 1e-2 a head often leaves as a mixture of "
        "eigenvectors, which is why (b) is not exact; (d) has a smaller start, where all heads "
        "follow one curve in their own units of time and size. Of the population's seeds a claim "
        "says what three in four are within: in about one of eight two heads that start alike grow "
        "together. A seed that has not had all drops counts as infinitely far off."
    ),
)


def _task(settings: Any) -> Task:
    return Task(settings.dim, settings.context, basis="random", basis_seed=settings.seed)


def _start(settings: Any, scale: float) -> Start:
    return separate(settings.heads, settings.rank, scale, settings.init)


def _seeds(settings: Any, count: int) -> list[int]:
    return list(range(settings.seed, settings.seed + count))


def _how(settings: Any, seeds: list[int], **more: Any) -> dict[str, Any]:
    """How runs are trained."""
    how = {"lr": settings.lr, "units": settings.units, "seed": seeds, "progress": step}
    return how | more


@fig.data
def data(settings: Any) -> xr.Dataset:
    """The published setting, a data set a seed."""
    task, seeds = _task(settings), _seeds(settings, settings.seeds)
    start, found = _start(settings, settings.scale), []
    factor, levels = unit_factor(task, start, settings.units), np.asarray(mid_levels(task))
    for seed in seeds:
        sequences = sample(task, settings.sequences, seed=seed, centred=True, whitened=True)
        how = _how(settings, [seed], steps=settings.steps, log_every=settings.log_every)
        run = train(statistics(sequences), start, **how)
        heads = Heads(run, task, factor)
        drops = crossing_times(run.step, run.loss, levels)
        flat = flattest(run, drops)[0]
        keys = np.abs(heads.key[0][:, :, flat]) / full_sizes(task)[None, :, None]
        parts = {
            "loss": ("step", np.asarray(run.loss)[0]),
            "drop": ("direction", drops[0]),
            "level": ("between", plateau_levels(run.step, run.loss, levels)[0]),
            "value": (("head", "step"), np.abs(heads.value[0])),
            "key": (("head", "direction", "plateau"), keys),
        }
        found.append(xr.Dataset(parts, coords={"step": run.step, "time": ("step", run.time)}))
    levels = {"plateau_loss": ("learned", np.asarray(plateau_losses(task)))}
    return xr.concat(found, "seed").assign_coords(seed=seeds).assign(levels)


@fig.data
def values(settings: Any, data: xr.Dataset) -> xr.Dataset:
    """The closed form of v(t) for the heads of one seed, each from where it has grown to a part.

    The seed is the one whose drops theory puts furthest from ties.
    """
    task, start = _task(settings), _start(settings, settings.scale)
    drops = drop_times(task, start, units=settings.units, seed=_seeds(settings, settings.seeds))
    chosen = int(np.argmax(drops.margin.min(axis=1)))
    here = data.isel(seed=chosen)
    curves = np.full((task.dim, here.sizes["step"]), np.nan)
    for d, full in enumerate(full_sizes(task)):
        v = here.value.isel(head=d).values
        first = int(np.argmax(v >= GROWN * full))
        t = np.maximum(here.time.values - here.time.values[first], 0.0)
        curves[d, first:] = full * grow(task, d, t, v[first] / full)[first:]
    return xr.Dataset({"value_theory": (("direction", "step"), curves), "chosen": chosen})


def _cosines(heads: Heads, flat: np.ndarray, dim: int) -> np.ndarray:
    """The least |cosine| of keys and queries of learned heads with their eigenvectors, by run."""
    found = []
    for part in (heads.key, heads.query):
        there = np.take_along_axis(part[:, :dim], flat[:, None, None, :], -1)
        along = np.abs(np.einsum("nddp->ndp", there)) / np.linalg.norm(there, axis=2)
        learned = np.arange(dim)[:, None] <= np.arange(dim)
        found.append(np.where(learned, along, np.inf).min(axis=(1, 2)))
    return np.minimum(*found)


@fig.data
def plateaus(settings: Any) -> xr.Dataset:
    """The population from a small start: what is learned on each plateau."""
    task, given = _task(settings), settings.small
    seeds, start = _seeds(settings, settings.population_seeds), _start(settings, given["scale"])
    steps = {"steps": given["steps"], "log_every": given["steps"] // POINTS}
    run = train(task, start, **_how(settings, seeds, **steps))
    heads, levels = Heads(run, task, unit_factor(task, start, settings.units)), mid_levels(task)
    drops = crossing_times(run.step, run.loss, levels)
    flat = flattest(run, drops)
    maps = np.take_along_axis(np.asarray(run.map), flat[:, None, None, :], -1)
    alone = [np.asarray(fixed_point(task, [d])) for d in range(task.dim)]
    rests = np.cumsum(np.stack(alone, axis=-1), axis=-1)
    gap = np.linalg.norm(maps - rests, axis=(1, 2)) / np.linalg.norm(rests, axis=(0, 1))
    best, basis = np.asarray(population(task).best), np.asarray(task.basis)
    inside = np.einsum("de,ndfp,fe->nep", basis, np.asarray(run.map), basis)
    learned = inside >= 0.5 * best[:, None]
    # What is never learned is last.
    never = inside.shape[-1] + np.arange(task.dim)
    learned_at = np.where(learned.any(axis=-1), np.argmax(learned, axis=-1), never)
    x, y, gaps = growths(run, heads, task)
    clock = np.linspace(0.0, 9.0, 200)
    found = {
        "small_drop": (("small_seed", "direction"), drops),
        "small_level": (("small_seed", "between"), plateau_levels(run.step, run.loss, levels)),
        "map_gap": (("small_seed", "plateau"), gap),
        "cosine": ("small_seed", _cosines(heads, flat, task.dim)),
        "in_order": ("small_seed", np.all(np.diff(learned_at, axis=1) > 0, axis=1)),
        "final_value": (("small_seed", "direction"), np.abs(heads.value[:, : task.dim, -1])),
        "growth_time": (("small_seed", "direction", "sample"), x),
        "growth_value": (("small_seed", "direction", "sample"), y),
        "growth_gap": (("small_seed", "direction"), gaps),
        "growth_theory": ("growth_clock", grow(task, 0, clock / pace_of(task, 0), GROWN)),
        "full_value": ("direction", full_sizes(task)),
    }
    return xr.Dataset(found, coords={"small_seed": seeds, "growth_clock": clock})


@fig.data
def conserved(settings: Any) -> xr.Dataset:
    """How far gradient descent drifts off what the flow conserves, at two rates."""
    task, seeds = _task(settings), _seeds(settings, settings.population_seeds)
    start = _start(settings, settings.scale)
    factor, drifts = unit_factor(task, start, settings.units), []
    for halves in (1, 2):
        steps = halves * settings.steps
        how = {"lr": settings.lr / halves, "steps": steps, "log_every": steps // POINTS}
        run = train(task, start, **_how(settings, seeds, **how))
        weights = (run.value, run.key, run.query)
        kept = conserved_separate(*(np.moveaxis(factor * np.asarray(w), -1, 0) for w in weights))
        both = np.stack([np.asarray(kept.value_key), np.asarray(kept.key_query)[..., 0, 0]])
        drifts.append(np.abs(both - both[:, :1]).max(axis=(0, 1, 3)))
    coords = {"halves": [1, 2], "small_seed": seeds}
    return xr.Dataset({"drift": (("halves", "small_seed"), drifts)}, coords=coords)


@fig.data
def fixed(settings: Any) -> xr.Dataset:
    """The slope of the loss at one member of every set of fixed points."""
    task = _task(settings)
    # With all eigenvectors held, head d holds e_d: a smaller set is fewer of these heads.
    count = settings.heads
    held = np.array([[s >> d & 1 for d in range(count)] for s in range(2**task.dim)], float)
    everything = aligned_weights(task, range(task.dim), heads=count)
    weights = {name: held[:, :, None, None] * np.asarray(w) for name, w in everything.items()}

    def of(w: Any) -> Any:
        inner = jnp.einsum("hrd,hre->hde", w["key"][..., : task.dim], w["query"])
        return loss(task, jnp.einsum("h,hde->de", w["value"][:, 0, task.dim], inner))

    slope = jit(jax.vmap(jax.grad(of)))(weights)
    largest = np.max([np.abs(np.asarray(g)).max(axis=(1, 2, 3)) for g in slope.values()], axis=0)
    return xr.Dataset({"rest_slope": ("subset", largest)})


@fig.data
def real_tokens(settings: Any) -> xr.Dataset:
    """One data set by brute force on its tokens and in the reduction."""
    given = settings.token
    sequences = sample(_task(settings), given["sequences"], seed=settings.seed)
    how = _how(settings, [settings.seed], steps=given["steps"], log_every=1)
    start = _start(settings, given["scale"])
    runs = [kind(sequences, start, **how) for kind in (train_brute, train)]
    found = {
        name: ("token_step", np.asarray(run.loss)[0])
        for name, run in zip(("tokens", "reduced"), runs, strict=True)
    }
    return xr.Dataset(found, coords={"token_step": runs[0].step})


def _losses(d: xr.Dataset) -> Panel:
    """The losses of all seeds, and the plateaus."""
    given, levels = settings_of(d), d.plateau_loss.values
    marks = [level(y, color="0.35", linestyle="--", linewidth=0.8) for y in levels]
    for k, curve in enumerate(d["loss"].values[:6, 1:]):
        marks.append(line(d.step[1:], curve, "", k, alpha=0.8, linewidth=1.3))
    names = [f"$L(M_{m})$" for m in range(len(levels))]
    words = {
        "xytext": (-4, 0),
        "ha": "right",
        "textcoords": "offset points",
        "fontsize": 7.5,
        "va": "center",
    }
    end = given.published_steps

    def more(axes: Any) -> None:
        axes.secondary_yaxis("right").set_yticks(levels, names, fontsize=7.5)
        axes.axvline(end, color="0.6", linestyle=":", linewidth=1.0)
        axes.annotate("length of the\nnotebook", (end, 0.92), color="0.35", **words)

    title = f"{given.sequences} sequences, {min(6, d.sizes['seed'])} seeds"
    some: dict[str, Any] = {"xlim": (60, given.steps), "ylim": (0.0, 1.06), "legend": 0}
    return Panel("step", "loss $L$", marks, log="x", title=title, more=[more], **some)


def _values(d: xr.Dataset) -> Panel:
    """The heads' values in one seed, with theory."""
    here, marks = d.isel(seed=int(d.chosen), step=slice(1, None)), []
    for k in range(d.sizes["head"]):
        words = rf"$e_{k + 1}$" if k < d.sizes["direction"] else "spare"
        marks.append(line(here.step, here.value[k], words, k, linewidth=2.4, alpha=0.55))
    marks += [theory(here.step, curve, "", 6) for curve in here.value_theory]
    marks.append(entry("theory", color=colour(6), **THEORY))
    look: dict[str, Any] = {"xlim": (60, settings_of(d).steps), "where": "upper left"}
    return Panel("step", "$|v_i|$", marks, log="x", title="heads of one seed", legend=7.5, **look)


def _keys(d: xr.Dataset) -> Panel:
    """The keys along the eigenvectors, one block a plateau."""
    key = d.key.isel(seed=int(d.chosen))
    heads, directions, plateaus = (key.sizes[of] for of in ("head", "direction", "plateau"))
    grid = key.transpose("head", "plateau", "direction").values.reshape(heads, -1)
    names = [rf"$e_{k + 1}$" for _ in range(plateaus) for k in range(directions)]

    def put(axes: Any) -> None:
        image = axes.imshow(grid, vmin=0.0, vmax=1.0, cmap="Blues", aspect="auto")
        for m in range(1, plateaus):
            axes.axvline(m * directions - 0.5, color="0.2", linewidth=1.2)
        axes.set_xticks(range(grid.shape[1]), names, fontsize=7.5)
        rows = [*range(1, directions + 1), "spare"][:heads]
        axes.set_yticks(range(heads), rows, fontsize=7.5)
        axes.tick_params(length=0)
        axes.figure.colorbar(image, ax=axes, label="$|k_i \\cdot e_d| / v^*_d$", pad=0.02)

    title, x = "keys along the eigenvectors", "plateaus after drops 1 to 4, left to right"
    return Panel(x, "head", [Mark(put)], title=title, legend=0)


def _rises(d: xr.Dataset) -> Panel:
    """The growth of all heads on a common clock."""
    marks = []
    for k in range(d.sizes["direction"]):
        here = d.isel(direction=k)
        x, y = here.growth_time.values.ravel(), here.growth_value.values.ravel()
        marks.append(tokens(x, y, rf"heads of $e_{k + 1}$", k))
    marks.append(theory(d.growth_clock, d.growth_theory, "theory", 6))
    x, y = r"$\lambda_d^2 v^*_d\,(t - t_0)/\tau$", "$|v_i|/v^*_d$"
    title = f"population, scale {settings_of(d).small['scale']:g}"
    look: dict[str, Any] = {"xlim": (-0.4, 9.0), "where": "upper left"}
    return Panel(x, y, marks, title=title, legend=7.5, **look)


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """The loss, the heads' values, their keys on the plateaus, and their growth."""
    return drawn(_losses(d), _values(d), _keys(d), _rises(d), rows=2)


def _most(gaps: Any) -> float:
    """What three seeds in four, or more, are within; not a number counts as infinity."""
    sizes = np.sort(np.nan_to_num(np.asarray(gaps, float), nan=np.inf))
    return float(sizes[math.ceil(MOST * sizes.size) - 1])


@fig.claim("reported", "Sec. 4.2, Fig. 3a")
def drops(d):
    """The loss drops D times within four times the length of the authors' notebook (number of
    drops, the seed furthest off)."""
    counts = count_drops(d.step, d["loss"].transpose("seed", "step"))
    end = settings_of(d).published_steps
    within = int((d["drop"] <= end).all("direction").sum())
    words = f"Within the {end + 1} steps of the authors' notebook {within} of {counts.size} seeds "
    words += "have had all four."
    far = counts[np.argmax(np.abs(counts - d.sizes["direction"]))]
    return near(far, d.sizes["direction"], 0.0, because="a count", note=words)


@fig.claim("reported", "eq. (15), Fig. 3a")
def levels(d):
    """Between the drops it rests at L(M_m) = tr Λ − Σ_{{d≤m}} λ_d/γ_d (relative gap of a plateau,
    mean over seeds, the one of three that is furthest off by its error)."""
    gaps = d.level.transpose("between", "seed").values / d.plateau_loss.values[1:-1, None] - 1.0
    mean, error = mean_of(gaps)
    most, far = beyond(gaps.shape[1], gaps.shape[0]), int(np.argmax(np.abs(mean / error)))
    words = (
        f"{settings_of(d).sequences} sequences. A single plateau is up to "
        f"{np.max(np.abs(gaps)):.1%} off. It is read where |dL/d ln t| is least between two drops."
    )
    because = f"{most:.1f} standard errors of Student's t over seeds, the furthest of three"
    return near(mean[far], 0.0, most * error[far], because=because, note=words)


@fig.claim("reported", "eq. (15), Fig. 3a")
def levels_population(d):
    """From a small start the plateaus are those levels (largest relative gap; three seeds in four,
    population, scale {small[scale]:g})."""
    gaps = abs(d.small_level / d.plateau_loss.values[1:-1] - 1.0).max("between", skipna=False)
    count = int((~(gaps <= 1e-3)).sum())
    words = f"{count} of {gaps.size} seeds are further off than 1e-3. A seed whose two heads grow "
    words += "together has no plateau between them."
    because = "what is left of one drop, and begun of the next, where the loss is flattest"
    return near(_most(gaps), 0.0, 1e-3, because=because, note=words)


@fig.claim("reported", "eq. (12), Sec. 4.3")
def regression(d):
    """On a plateau attention is principal component regression in context, M = Σ_{{d≤m}} w*_d
    e_d e_dᵀ (largest relative gap of M in norm; three seeds in four, population, scale
    {small[scale]:g})."""
    gaps = d.map_gap.max("plateau", skipna=False)
    because = "a plateau's loss is off by the square of this only, 4e-4"
    words = f"The worst: {float(gaps.max()):.2g}."
    return near(_most(gaps), 0.0, 0.02, because=because, note=words)


@fig.claim("reported", "Sec. 4.2")
def order(d):
    """The eigenvectors are learned in the order of their eigenvalues (share of seeds,
    population)."""
    # Fails if order were a matter of chance, one seed in 24, or heads often grew two at a time.
    words = f"{d.sizes['small_seed']} seeds. Learned is what M has half of."
    because = "of two heads that grow together the wrong one may be first: one seed in 50 or so"
    return near(d.in_order.mean(), 1.0, 0.1, because=because, note=words)


@fig.claim("reported", "eq. (16), Fig. 3c")
def aligned(d):
    """Keys and queries of the learned heads lie along the eigenvectors (least |cosine| on a
    plateau; three seeds in four, population, scale {small[scale]:g})."""
    found = 1.0 - _most(1.0 - d.cosine)
    words = f"The worst: {float(d.cosine.min()):.4f}."
    return at_least(found, 0.99, because="it cannot exceed 1; 0.99 is 8 degrees off", note=words)


@fig.claim("reported", "eq. (17), Fig. 3b")
def sizes(d):
    """Learned heads end at |v| = (w*_d)^(1/3) (largest relative gap; three seeds in four,
    population, scale {small[scale]:g})."""
    gaps = abs(d.final_value / d.full_value - 1.0).max("direction", skipna=False)
    because = "descent at this rate drifts off what the flow conserves of v² − |k|² by some 2e-3"
    words = f"The worst: {float(gaps.max()):.2g}."
    return near(_most(gaps), 0.0, 2e-3, because=because, note=words)


@fig.claim("reported", "eq. (18), Fig. 3b")
def _growth(d):
    """A head grows as τ v̇ = λ²v² − λ³γv⁵ has it, in closed form t(v) (largest gap in units of v*,
    median over all heads; population, scale {small[scale]:g}, from 0.15 v* on)."""
    gaps = d.growth_gap
    by = ", ".join(f"{float(gap):.1%}" for gap in gaps.median("small_seed"))
    words = f"By direction: {by}; three heads in four: {_most(gaps.values.ravel()):.1%}. A head "
    words += "that leaves early is still a mixture of eigenvectors."
    because = "a fifth of the 0.15 v* from which on it is judged, as it is a mixture there"
    return near(gaps.median(), 0.0, 0.03, because=because, note=words)


@fig.claim("reported", "eq. (12)")
def fixed_points(d):
    """All 2^D sets of eigenvectors are fixed points: the gradient vanishes there (largest
    entry)."""
    return near(d.rest_slope.max(), 0.0, 1e-12, because="round-off")


@fig.claim("reported", "App. on conservation", word="conserved")
def kept(d):
    """v² − ‖k‖² and ‖k‖² − ‖q‖² of every head are conserved by gradient flow: the drift of gradient
    descent halves with the rate (ratio of the drifts, median over seeds)."""
    ratio = (d.drift.sel(halves=1) / d.drift.sel(halves=2)).values
    words = f"From {ratio.min():.3f} to {ratio.max():.3f}."
    return near(np.median(ratio), 2.0, 0.1, because="the next order in the rate", note=words)


@fig.claim("check", "derived", word="tokens")
def on_tokens(d):
    """Training on real tokens is the reduced dynamics to round-off (largest relative gap of L)."""
    return near(worst_ratio(d.tokens, d.reduced), 0.0, 1e-10, because="round-off, which grows")
