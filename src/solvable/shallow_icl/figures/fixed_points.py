"""Where training can rest: the fixed points of separate and of merged attention, all of them."""

from itertools import combinations
from math import comb
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, near, settings_of, step, worst_ratio
from ...reproduce.panels import Mark, Panel, drawn, each, entry, level, line, tokens
from ...style import colour
from .. import (
    Task,
    aligned_weights,
    fixed_point,
    plateau_loss,
    plateau_losses,
    sample,
    separate,
    stability,
    train,
    train_brute,
)
from ._convolution import attended, cubic, parts_of, stacked, trained
from ._zeros import curvatures, joined, maps_of, size_of, slopes, zeros

fig = Figure(
    "shallow_icl/fixed-points",
    "Fixed points of separate and merged attention, their stability, and the convolutional form",
    settings={
        "quick": {"spectra": 4, "members": 6, "starts": 200, "seeds": 6, "tied": 3},
        "default": {"spectra": 20, "members": 20, "starts": 600, "seeds": 24, "tied": 6},
        "full": {"spectra": 100, "members": 50, "starts": 2000, "seeds": 100, "tied": 20},
    },
    constants={
        "dim": 4,
        "context": 31,
        "spare": 5,  # heads, of which all but one a direction are zero
        "negative": -1e-9,  # an eigenvalue below is no round-off
        # The search: D, heads, size of the starts, steps, and |∂L/∂W| at what counts as a zero.
        "small": 3,
        "found_heads": {"merged": (3,), "separate": (1, 2, 3)},
        "reach": 2.5,
        "search_steps": 100,
        "zero": 1e-12,
        "few": {"heads": (1, 2, 3, 4), "scale": 0.3, "lr": 0.3, "steps": 40_000, "log_every": 20},
        "tied_how": {"dim": 3, "context": 6, "heads": 4, "sequences": 120, "scale": 0.3}
        | {"lr": 0.1, "steps": 1200, "log_every": 10},
    },
    note=(
        "Every subset S of the eigenvectors gives separate attention a set of fixed points with "
        "one map, M_S, and one loss. (a) D = 4, N = 31: their losses and least Hessian eigenvalues "
        "by automatic differentiation of the population loss in v, k and q of 5 heads, at the "
        "aligned weights, spare heads zero; 𝐯 and κ, which are zero, add squares only. Beside the "
        "spectrum 4 : 3 : 2 : 1 that is drawn, random ones are judged. (b) D = 3: where a search "
        "for ∂L/∂W = 0 ends from random weights (Levenberg and Marquardt, accepted at "
        "|∂L/∂W| < 1e-12). Merged attention is stationary iff w₂ = 0 and tr(U_iΛ²) = 0 for all "
        "heads, or the residual is zero: two functions, which are the two that the paper is said "
        "to have; in weights the zero map is fixed on H(D² − 1) dimensions, not at zero alone. "
        "(c) D = 3, N = 6: attention on tokens and the convolutional net of its own code, on 120 "
        "sequences that are closed under w → −w; on others the free blocks 𝐯, κ part the two. "
        "(d) D = 4: training with few heads, population."
    ),
)


CROSS: dict[str, Any] = {"linestyle": "none", "marker": "x", "markersize": 3.5}


def _subsets(dim: int) -> list[tuple[int, ...]]:
    return [s for m in range(dim + 1) for s in combinations(range(dim), m)]


def _spectra(settings: Any) -> np.ndarray:
    """That of the published code, and random ones of the same trace."""
    rng = np.random.default_rng([settings.seed, 1])
    random = np.sort(rng.uniform(0.2, 1.0, (settings.spectra - 1, settings.dim)))[:, ::-1]
    whole = np.concatenate([np.arange(settings.dim, 0.0, -1.0)[None, :], random])
    return whole / whole.sum(axis=1, keepdims=True)


@fig.data
def subsets(settings: Any) -> xr.Dataset:
    """Loss, slope and least curvature at every subset's aligned weights; in closed form, too."""
    heads, spectra, dim, rows = settings.spare, _spectra(settings), settings.dim, []
    for lam in spectra:
        task, parts = Task(dim, settings.context, spectrum=lam), []
        for s in _subsets(dim):
            found = {n: np.asarray(x) for n, x in aligned_weights(task, s, heads=heads).items()}
            parts.append((found["value"][:, 0, -1], found["key"][..., :dim], found["query"]))
        weights = joined(*map(np.stack, zip(*parts, strict=True)))
        how = (weights, lam, float(settings.context), "separate", heads)
        loss, (slope, hessian) = slopes(*how)[0], curvatures(*how)
        told = [(plateau_loss(task, s), stability(task, s)) for s in _subsets(dim)]
        least = np.linalg.eigvalsh(np.asarray(hessian))[:, 0]
        rows.append([loss, np.abs(np.asarray(slope)).max(axis=1), least, *np.array(told, float).T])
    names = ("aligned_loss", "aligned_slope", "least", "told_loss", "told_least")
    axes, columns = ("spectrum", "subset"), np.moveaxis(np.array(rows, float), 1, 0)
    found = {name: (axes, x) for name, x in zip(names, columns, strict=True)}
    words = ["".join(str(d + 1) for d in s) or "–" for s in _subsets(dim)]
    ordered = ("subset", [s == tuple(range(len(s))) for s in _subsets(dim)])
    places = {"subset": words, "ordered": ordered}
    return xr.Dataset(found, places).assign_coords(spectrum=np.arange(len(spectra)))


def _member(task: Task, s: tuple[int, ...], loose: bool, rng: Any) -> tuple[np.ndarray, ...]:
    """Weights with the map M_S: heads that share its directions, of any sign, and heads of value 0.

    These have k or q in the span of S; or, `loose`, any with kᵀRq = 0, R = Σ_{d ∉ S} λ_d²e_de_dᵀ.
    """
    dim, inside = task.dim, np.isin(np.arange(task.dim), s)
    many = 2 * dim**2
    k, q = rng.normal(size=(2, many + 2, dim))
    k[:many], q[:many] = k[:many] * inside, q[:many] * inside
    pairs = np.einsum("hd,he->hde", k[:many], q[:many]).reshape(many, -1)
    best = np.asarray(fixed_point(task, list(s))).ravel()
    v = np.append(np.linalg.lstsq(pairs.T, best, rcond=None)[0], np.zeros(2))
    if loose:
        pull = k[many:] * ~inside * np.asarray(task.eigenvalues) ** 2
        size = np.maximum(np.sum(pull**2, axis=1, keepdims=True), 1e-300)
        q[many:] -= np.sum(pull * q[many:], axis=1, keepdims=True) * pull / size
    else:
        k[many], q[many + 1] = k[many] * inside, q[many + 1] * inside
    return v, k, q


@fig.data
def mixed(settings: Any) -> xr.Dataset:
    """Random members of every subset's set: the slope and the loss there."""
    task, rng = Task(settings.dim, settings.context), np.random.default_rng([settings.seed, 2])
    lam, found = np.asarray(task.eigenvalues), {}
    for name, loose in (("member", False), ("loose", True)):
        every = [s for s in _subsets(settings.dim) for _ in range(settings.members)]
        parts = [_member(task, s, loose, rng) for s in every]
        v, k, q = map(np.stack, zip(*parts, strict=True))
        loss, slope = slopes(joined(v, k, q), lam, float(task.context), "separate", v.shape[1])
        shape = (len(_subsets(settings.dim)), settings.members)
        found[f"{name}_loss"] = (("subset", "draw"), np.reshape(loss, shape))
        steepest = np.abs(np.asarray(slope)).max(axis=1)
        found[f"{name}_slope"] = (("subset", "draw"), steepest.reshape(shape))
    # How far the loose heads' k and q are out of the span: the lesser of the two.
    outside = np.array([~np.isin(np.arange(settings.dim), s) for s in every])[:, None, :]
    out = np.minimum(*(np.linalg.norm(x[:, -2:] * outside, axis=2) for x in (k, q)))
    found["loose_out"] = (("subset", "draw"), out.min(axis=1).reshape(shape))
    return xr.Dataset(found)


@fig.data
def search(settings: Any) -> xr.Dataset:
    """Where the gradient is zero, from random weights; which of the maps M_S is there."""
    task = Task(settings.small, settings.context)
    lam, context, dim = np.asarray(task.eigenvalues), float(task.context), task.dim
    known = np.stack([np.asarray(fixed_point(task, list(s))) for s in _subsets(dim)])
    rng, found = np.random.default_rng([settings.seed, 3]), []
    cases = [(kind, h) for kind, many in settings.found_heads.items() for h in many]
    for n, (kind, heads) in enumerate(cases):
        start = rng.normal(size=(settings.starts, size_of(kind, heads, dim))) * settings.reach
        weights, size = zeros(start, lam, context, kind, heads, settings.search_steps)
        gaps = np.abs(maps_of(weights, kind, heads, dim)[:, None] - known).max(axis=(2, 3))
        loss, _ = slopes(weights, lam, context, kind, heads)
        found.append([size, gaps.argmin(axis=1), gaps.min(axis=1), loss])
        step(n + 1, len(cases))
    names = ("zero_slope", "zero_subset", "zero_gap", "zero_loss")
    columns = np.moveaxis(np.array(found, float), 1, 0)
    data: dict[str, Any] = {
        name: (("case", "start"), x) for name, x in zip(names, columns, strict=True)
    }
    data["zero_level"] = ("zero_known", [float(plateau_loss(task, s)) for s in _subsets(dim)])
    kinds, heads = zip(*cases, strict=True)
    return xr.Dataset(data, {"kind": ("case", list(kinds)), "case_heads": ("case", list(heads))})


@fig.data
def merged_zero(settings: Any) -> xr.Dataset:
    """Merged attention at the zero map with weights that are not zero: slope and curvature."""
    task, heads = Task(settings.small, settings.context), settings.found_heads["merged"][0]
    lam, dim, rng = np.asarray(task.eigenvalues), task.dim, np.random.default_rng(settings.seed)
    inner = rng.normal(size=(settings.members, heads, dim, dim))
    drive = np.diag(lam**2) / np.linalg.norm(lam**2)
    inner -= np.einsum("nhde,de->nh", inner, drive)[..., None, None] * drive
    weights = joined(np.zeros((settings.members, heads)), inner)
    how: tuple[Any, ...] = (weights, lam, float(task.context), "merged", heads)
    slope, hessian = map(np.asarray, curvatures(*how))
    values = np.linalg.eigvalsh(hessian)
    gram = lam**2 + (lam**2 + lam.sum() * lam) / task.context
    shared = np.einsum("nhde,d,e,nide->nhi", inner, gram, lam, inner)
    least, rate = np.linalg.eigvalsh(shared)[:, 0], np.linalg.norm(lam**2)
    found = {
        "flat_slope": np.abs(slope).max(axis=1),
        "flat_size": np.abs(inner).max(axis=(1, 2, 3)),
        "flat_count": np.sum(np.abs(values) < 1e-10, axis=1),
        "flat_least": values[:, 0],
        "flat_told": least - np.sqrt(least**2 + 4.0 * rate**2),
    }
    return xr.Dataset({name: ("flat", x) for name, x in found.items()})


@fig.data
def convolution(settings: Any) -> xr.Dataset:
    """Attention trained on tokens, and the convolutional net trained on their cubic features."""
    how, seeds = settings.tied_how, list(range(settings.seed, settings.seed + settings.tied))
    task, start = Task(how["dim"], how["context"]), separate(how["heads"], 1, how["scale"])
    asked, found = {name: how[name] for name in ("lr", "steps", "log_every")}, {}
    drawn_weights = [start.draw(task, seed) for seed in seeds]
    tied = parts_of(drawn_weights)
    for name, paired in (("paired", True), ("free", False)):
        data = sample(task, how["sequences"], seed=settings.seed, antithetic=paired)
        z, target = cubic(data)
        net = trained(tied, z, target, **asked)
        run = train_brute(data, start, seed=seeds, progress=step, **asked)
        found[f"{name}_net"] = (("tied_seed", "tied_step"), net)
        found[f"{name}_attention"] = (("tied_seed", "tied_step"), np.asarray(run.loss))
    # Of the last data: whole attention, with all that is drawn, against the matrices K_i.
    whole = attended(drawn_weights, data)
    split = [stacked({part: x[n] for part, x in tied.items()}, z) for n in range(len(seeds))]
    found["guess"] = (("tied_seed", "way", "sequence"), np.stack([whole, split], axis=1))
    return xr.Dataset(found, {"tied_seed": seeds, "tied_step": run.step})


@fig.data
def few(settings: Any) -> xr.Dataset:
    """Training with few heads, on the population."""
    how, task = settings.few, Task(settings.dim, settings.context)
    seeds = list(range(settings.seed, settings.seed + settings.seeds))
    asked: dict[str, Any] = {name: how[name] for name in ("lr", "steps", "log_every")}
    asked |= {"seed": seeds, "progress": step}
    runs = [train(task, separate(heads, 1, how["scale"]), **asked) for heads in how["heads"]]
    losses = [np.asarray(run.loss) for run in runs]
    found: dict[str, Any] = {"few_loss": (("few_heads", "seed", "few_step"), losses)}
    found["level"] = ("learned", np.asarray(plateau_losses(task)))
    places = {"few_heads": list(how["heads"]), "seed": seeds, "few_step": runs[0].step}
    return xr.Dataset(found, places)


def _stabilities(d: xr.Dataset) -> Panel:
    """Every subset of the first spectrum: its loss against its least curvature."""
    here, marks = d.isel(spectrum=0), []
    for k, words in ((0, "$S$ = the largest $m$"), (1, "any other $S$")):
        some = here.isel(subset=here.ordered.values == (k == 0))
        marks.append(tokens(some.least, some.aligned_loss, words, k, markersize=5.0))
    marks.append(line(here.told_least, here.told_loss, "closed form", 6, **CROSS))
    aside = {"23": (-13, 2)}  # at the place of another
    for s, x, y in zip(here.subset.values, here.least.values, here.told_loss.values, strict=True):
        at: Any = {"textcoords": "offset points", "xytext": aside.get(s, (5, 2)), "fontsize": 6.5}
        marks.append(_label(s.replace("–", "∅"), (float(x), float(y)), at))
    look: dict[str, Any] = {"xlim": (-0.36, 0.04), "ylim": (0.05, 1.05), "where": "lower left"}
    ticks = [lambda axes: axes.set_xticks([-0.3, -0.2, -0.1, 0.0])]
    x, title = "least eigenvalue of the Hessian", "separate attention, $D = 4$, heads aligned"
    return Panel(x, "$L(M_S)$", marks, title=title, more=ticks, **look)


def _label(words: str, place: tuple[float, float], look: Any) -> Mark:
    return Mark(lambda axes: axes.annotate(words, place, **look))


def _zeros(d: xr.Dataset) -> Panel:
    """The losses at all the zeros that were found, attention by attention."""
    settings, names = settings_of(d), []
    marks = [level(y, linestyle="--") for y in d.zero_level.values]
    rng = np.random.default_rng(0)  # so that points do not hide each other
    for n, (kind, heads) in enumerate(zip(d.kind.values, d.case_heads.values, strict=True)):
        here = _accepted(d, n)
        place = n + rng.uniform(-0.25, 0.25, here.start.size)
        marks.append(tokens(place, here.zero_loss, "", int(kind == "separate"), alpha=0.6))
        names.append(f"{kind}\n$H = {heads}$")
    ticks = [lambda axes: axes.set_xticks(range(len(names)), names, fontsize=8.0)]
    title = f"all zeros of the gradient found, $D = {settings.small}$"
    return Panel("", "loss $L$", marks, title=title, more=ticks, legend=0.0)


def _trajectories(d: xr.Dataset) -> Panel:
    look: dict[str, Any] = {"linewidth": 2.4, "alpha": 0.5}
    marks = []
    for k, (name, words) in enumerate((("paired", r"$\pm w$ in pairs"), ("free", "i.i.d. $w$"))):
        both = (d[f"{name}_{x}"].transpose("tied_seed", "tied_step") for x in ("attention", "net"))
        attention, net = both
        marks.append(each(d.tied_step, attention, f"attention, {words}", k, **look))
        marks.append(each(d.tied_step, net, "", 6, linewidth=0.9, alpha=1.0, linestyle="--"))
    marks.append(entry("convolutional net", color=colour(6), linewidth=0.9, linestyle="--"))
    title = "$D = 3$, on tokens and as a convolution"
    return Panel("step", "loss $L$", marks, title=title, where="upper right")


def _few(d: xr.Dataset) -> Panel:
    marks = [level(y, linestyle="--") for y in d.level.values]
    for k, heads in enumerate(d.few_heads.values):
        runs = d.few_loss.sel(few_heads=heads).transpose("seed", "few_step")
        marks.append(each(d.few_step / 1000, runs, f"$H = {heads}$", k))
    look: dict[str, Any] = {"xlim": (0.0, 2.0), "where": (0.7, 0.62)}
    return Panel("step / 1000", "loss $L$", marks, title="few heads, $D = 4$", **look)


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """Stability of all subsets, all zeros found, the convolutional net, and few heads."""
    return drawn(_stabilities(d), _zeros(d), _trajectories(d), _few(d), rows=2)


def _accepted(d: xr.Dataset, case: int) -> xr.Dataset:
    """The zeros that the search found in a case."""
    here = d.isel(case=case)
    return here.isel(start=here.zero_slope.values <= settings_of(d).zero)


def _cases(d: xr.Dataset, kind: str) -> list[xr.Dataset]:
    return [_accepted(d, n) for n, name in enumerate(d.kind.values) if name == kind]


def _shares(d: xr.Dataset, cases: list[xr.Dataset]) -> str:
    """How many searches ended at a zero; the others ended where |∂L/∂W| is least nearby."""
    words = ", ".join(f"{x.sizes['start']} at H = {int(x.case_heads)}" for x in cases)
    left = d.zero_slope.values[[str(x) == str(cases[0].kind.values) for x in d.kind.values]]
    left = left[left > settings_of(d).zero]
    words = f"Of {d.sizes['start']} searches this many ended at a zero: {words}"
    far = f"; the others where |∂L/∂W| is {np.median(left):.1g} (median)" if left.size else ""
    return f"{words}{far}."


ROUND = "round-off of sums of some hundred terms"


@fig.claim("reported", "Sec. 4, fixed points")
def members(d):
    """Every subset S is a set of fixed points of separate attention: heads of any sign, keys and
    queries in the span of S, that sum to M_S, and heads of value zero with one of both in it
    (largest entry of ∂L/∂W, all S)."""
    # Fails if a head of value zero needed both in the span, or if signs mattered.
    words = f"{d.member_slope.size} random members with {2 * settings_of(d).dim ** 2 + 2} heads."
    return near(d.member_slope.max(), 0.0, 1e-11, because=ROUND, note=words)


@fig.claim("reported", "eq. (15)")
def losses(d):
    """The loss there is L(M_S) = tr Λ − Σ_d∈S λ_d/γ_d (largest relative gap, members and aligned
    weights of all S and spectra)."""
    # Fails if another member of the set had another loss, or γ_d were not 1 + (1 + tr Λ/λ_d)/N.
    apart = d.member_loss / d.told_loss.isel(spectrum=0) - 1.0
    gap = max(worst_ratio(d.aligned_loss, d.told_loss), float(abs(apart).max()))
    return near(gap, 0.0, 1e-11, because=ROUND)


@fig.claim("new", "derived")
def spare_heads(d):
    """That a head of value zero has its key or query in the span is sufficient, not necessary: it
    is enough that kᵀRq = 0, R the residual (largest entry of ∂L/∂W, all S)."""
    # Fails if the set were no larger than the one above.
    out = d.loose_out.where(d.loose_out > 0.0)
    words = f"Up to {float(out.max()):.1f} of k and of q is out of the span."
    return near(d.loose_slope.max(), 0.0, 1e-11, because=ROUND, note=words)


@fig.claim("reported", "Sec. 4, fixed points")
def functions(d):
    """As functions these are all: every zero of the gradient of separate attention that is found
    has one of the 2^D maps M_S (largest entry of the difference, all H)."""
    # Fails if the gradient vanished at any map beside the M_S: a mixture of eigenvectors, say.
    cases = _cases(d, "separate")
    gap = max(float(x.zero_gap.max()) for x in cases)
    because = "the zeros are known to 1e-12, over the least curvature about them"
    return near(gap, 0.0, 1e-8, because=because, note=_shares(d, cases))


@fig.claim("new", "derived")
def count(d):
    """With H heads Σ_m≤H C(D, m) functions are left, and each is found (the largest difference in
    number, over H)."""
    # Fails if a set of more directions than heads were found, or one of fewer could not be.
    cases, dim = _cases(d, "separate"), settings_of(d).small
    found = [len(np.unique(x.zero_subset)) for x in cases]
    told = [sum(comb(dim, m) for m in range(int(x.case_heads) + 1)) for x in cases]
    words = f"Found {', '.join(map(str, found))}. {_shares(d, cases)}"
    off = max(np.subtract(found, told), key=abs)
    return near(off, 0.0, 0.0, because="functions are counted", note=words)


@fig.claim("check", "derived")
def curvature(d):
    """The least eigenvalue of the Hessian is the closed form's at every subset (largest difference,
    all S and spectra)."""
    # Fails if another direction than the one of the closed form were steeper, at any S.
    words = f"{d.least.size} Hessians, down to {float(d.least.min()):.3f}."
    return near(abs(d.least - d.told_least).max(), 0.0, 1e-12, because=ROUND, note=words)


@fig.claim("new", "derived")
def in_order(d):
    """Only the sets of the largest eigenvalues have no negative eigenvalue, so that training can
    rest there for long; all others are strict saddles (how many S of all spectra do not keep to
    this)."""
    # Fails if a plateau had a way down of first order, or a set out of order had none.
    negative = d.least < settings_of(d).negative
    highest = float(d.least.where(~d.ordered).max())
    words = (
        f"{negative.size} sets, {int(negative.sum())} strict saddles, the flattest {highest:.1e}."
    )
    return near((negative == d.ordered).sum(), 0.0, 0.0, because="sets are counted", note=words)


@fig.claim("reported", "Sec. 3, fixed points")
def merged_functions(d):
    """As functions the fixed points of merged attention are two, the zero map and the minimum M*:
    every zero of the gradient that is found is one of them, and both are found (largest entry of
    the difference)."""
    # Fails if any third map were found, as with separate keys and queries.
    (here,) = _cases(d, "merged")
    last = 2 ** settings_of(d).small - 1
    two = sorted(np.unique(here.zero_subset).astype(int).tolist()) == [0, last]
    because = "the zeros are known to 1e-12, over the least curvature about them"
    gap = here.zero_gap.max() if two else np.inf
    return near(gap, 0.0, 1e-10, because=because, note=_shares(d, [here]))


@fig.claim("new", "derived")
def merged_weights(d):
    """In weights the zero map is fixed on more than the zero weights: wherever w₂ = 0 and
    tr(U_iΛ²) = 0 for every head (largest entry of ∂L/∂W)."""
    # Fails if zero weights were needed, as the set that is reported has it.
    words = f"{d.sizes['flat']} draws, with entries of U up to {float(d.flat_size.max()):.1f}."
    return near(d.flat_slope.max(), 0.0, 1e-12, because=ROUND, note=words)


@fig.claim("new", "derived")
def merged_dimension(d):
    """These are H(D² − 1) dimensions (zero eigenvalues of the Hessian there, the draw furthest
    from it)."""
    # Fails if the set had another direction, or fewer.
    settings, counts = settings_of(d), d.flat_count.values
    told = settings.found_heads["merged"][0] * (settings.small**2 - 1)
    far = counts[np.argmax(abs(counts - told))]
    return near(far, told, 0.0, because="dimensions are counted")


@fig.claim("new", "derived")
def merged_saddles(d):
    """All of them are strict saddles: the least eigenvalue is p − (p² + 4‖Λ²‖²)^½, p the least one
    of tr(U_iᵀE[Λ̂²]U_jΛ) (largest relative gap)."""
    # Fails if training could come to rest at any of them.
    words = f"From {float(d.flat_least.min()):.3f} to {float(d.flat_least.max()):.3f}."
    return near(worst_ratio(d.flat_least, d.flat_told), 0.0, 1e-11, because=ROUND, note=words)


@fig.claim("reported", "Sec. 4, convolutional form")
def conv_form(d):
    """Separate attention is the three-layer convolutional net ŷ = Σ v_i q_iᵀ(I ⊗ k_iᵀ)z on the
    cubic features z = vec(βx_qᵀ) (largest difference of predictions, weights and data random)."""
    # Fails if any other entry of the weights that are drawn reached the prediction.
    whole, split = d.guess.transpose("way", "tied_seed", "sequence").values
    words = f"{whole.size} predictions, of root mean square {np.sqrt(np.mean(whole**2)):.2f}."
    return near(np.abs(whole - split).max(), 0.0, 1e-13, because=ROUND, note=words)


@fig.claim("check", "derived")
def conv_training(d):
    """Gradient descent on that net is gradient descent on attention, step by step, where the data
    are closed under w → −w (largest difference of the losses, all seeds)."""
    # Fails if the blocks left zero, as they do on the i.i.d. sequences.
    gap, apart = (abs(d[f"{x}_net"] - d[f"{x}_attention"]).max() for x in ("paired", "free"))
    words = f"From {float(d.paired_net.max()):.2f} to {float(d.paired_net.min()):.2f}; on i.i.d. "
    words += f"sequences the two come apart by {float(apart):.2f}."
    return near(gap, 0.0, 1e-12, because="round-off of 1200 steps", note=words)


@fig.claim("new", "derived")
def few_heads(d):
    """With H ≤ D heads training ends at L(M_H) (largest relative gap, all H and seeds)."""
    # Fails if training ended at another set of H eigenvectors, or at a mixture.
    ends = d.few_loss.isel(few_step=-1).transpose("seed", "few_heads")
    gap = worst_ratio(ends, d.level.values[d.few_heads.values])
    words, because = f"{d.sizes['seed']} seeds each.", "all have settled, the slowest of H = D last"
    return near(gap, 0.0, 1e-9, because=because, note=words)
