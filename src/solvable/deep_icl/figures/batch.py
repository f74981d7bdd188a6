"""What a finite batch leaves, at every depth: SGD on the matrix Γ around the optimum γ*I."""

import math
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import gamma as factorial
from scipy.special import zeta

from ...reproduce import Figure, at_most, near, settings_of, worst_ratio
from ...reproduce.panels import Mark, Panel, drawn, entry, law, level, line, theory, tokens
from ...style import LAW, THEORY, TOKENS, colour
from .. import Isotropic, RotatedStructure, batch_floor, sgd_curve
from ._contexts import Contexts, parts_of
from ._seeds import beyond, mean_of

NAMES = {"rotated": "RRS", "narrow": "RRS, $N = 5$", "isotropic": "ISO"}
PARTS = ("trace", "symmetric", "antisymmetric")
DRAWN = ("narrow-2", "isotropic-4")  # cases without an exact Tr S
LATE = 17  # looks in the second half of a run

fig = Figure(
    "deep_icl/batch",
    "What a finite batch leaves, at every depth",
    settings={
        "quick": {"steps": 300, "seeds": 16, "drawn": 20_000},
        "default": {"steps": 800, "seeds": 16, "drawn": 40_000},
        "full": {"steps": 6000, "seeds": 64, "drawn": 100_000},
    },
    constants={
        "cases": ("rotated-1", "rotated-4", "narrow-2", "isotropic-1", "isotropic-4"),
        "batches": (6, 12, 24, 48),
        "loads": (0.04, 0.1),  # η times the largest curvature
        "asked": 100,
        "dim": 8,
        "rotated": {"nu": 1.25, "beta": 0.8},
        "narrow": {"nu": 1.25, "beta": 0.8, "width": 5},
        "isotropic": {"alpha": 4.0, "noise": 1.5},
        # Tr S of very many directions: ν and β, D, and L = 1 … 2^octaves; D of back-propagation.
        "pairs": ((1.25, 0.5), (1.5, 1.5)),
        "many": 10**8,
        "octaves": 11,
        "direct": 10**4,
        # One layer's recursion: α and σ, of its η → 0, at D and τ = B/D.
        "large": ((1.0, 0.0), (2.0, 0.5)),
        "dims": (64, 128, 256, 512),
        "slow": 1e-6,
        # Antisymmetric Γ: α, D, L, and how large beside γ*.
        "long": 8.0,
        "turned_dims": (8, 32),
        "deep": (1, 2, 4, 8),
        "turns": (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3),
    },
    note=(
        "SGD on the matrix Γ from γ*I with B fresh contexts a step, tasks and label noise drawn, "
        "queries averaged exactly: the step of `train_brute`, η that of Γ's entries, for all runs "
        "of a case at once. The excess is that of the mean loss: over contexts that no run has "
        "seen, the loss of Γ less that of γ*I on the same contexts, less its slope there, whose "
        "mean is zero. D = 8. RRS: ν = 1.25, β = 0.8, endless contexts, N = D but for narrow-2. "
        "ISO: α = 4, σ = 1.5. With less noise γ* comes closer to the edge of stability: a few of "
        "10⁴ contexts have most of Tr S (σ = ½, L = 4), and at a finite η one of them throws Γ out "
        "of its basin (α = 2, σ = 1, L = 2, B = 6, ηh = 0.1: half of the runs within 4000 steps). "
        "Ratios to the law are taken to η → 0 by least squares in η and η/B, in every run. Bars "
        "are two standard errors, in (b), (c) of 16 runs (64 at full size), in (e) of contexts."
    ),
)


def _case(settings: Any, name: str) -> tuple[Any, int]:
    kind, _, depth = name.partition("-")
    law: Any = Isotropic if kind == "isotropic" else RotatedStructure
    return law(**getattr(settings, kind), dim=settings.dim), int(depth)


def _looks(steps: int) -> np.ndarray:
    """When runs are looked at: ever more rarely, and at even times in their second half."""
    early = np.unique(np.geomspace(2, steps / 2, 24).round().astype(int))[:-1]
    return np.append(early, np.linspace(steps // 2, steps, LATE).astype(int))


def _descended(
    task: Any, depth: int, gamma: float, batch: int, rates: np.ndarray, settings: Any, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """The mean loss of Γ over that of γ*I along runs with different η, and parts of Γ − γ*I."""
    generator = np.random.default_rng([seed, batch, depth])
    start = gamma * np.eye(task.width or task.dim)[:, :, None]
    now, excess, parts = start * np.ones(rates.size), [], []
    looks = set(_looks(settings.steps).tolist())
    for k in range(1, settings.steps + 1):
        fresh = Contexts(task, (batch, rates.size), generator)
        now = now - rates * fresh.slope(now, depth)
        if k in looks:
            others = Contexts(task, (settings.asked, 1), generator)
            rise = (others.loss(now, depth) - others.loss(start, depth)).mean(axis=0)
            slope = others.slope(start, depth)
            excess.append(rise - np.sum(slope * (now - start), axis=(0, 1)))
            parts.append(parts_of(now - start))
    return np.asarray(excess), np.asarray(parts)


@fig.data
def runs(settings: Any) -> xr.Dataset:
    """SGD from γ*I at several η and B, and the law, of the loss and of the parts of Γ."""
    loads, seeds, looks = np.asarray(settings.loads), settings.seeds, _looks(settings.steps)
    cases = []
    for number, name in enumerate(settings.cases):
        task, depth = _case(settings, name)
        how: dict[str, Any] = {"time": "matrix", "seed": settings.seed}
        how |= {"drawn": settings.drawn} if name in DRAWN else {}
        unit = batch_floor(task, depth, lr=1.0, contexts=1, **how)
        rates, rows = loads / unit.curvature.max(), []
        grown = -np.expm1(-2.0 * np.multiply.outer(rates, np.outer(looks, unit.curvature)))
        unit_parts = rates[:, None, None] / 4.0 * unit.noise * grown  # of the loss, at B = 1
        for batch in settings.batches:
            every = np.repeat(rates, seeds)
            seen = _descended(
                task, depth, unit.gamma, batch, every, settings, settings.seed + number
            )
            shape = (loads.size, seeds)
            rows.append([x.reshape(*x.shape[:-1], *shape) for x in seen])
        excess, parts = (np.stack(x) for x in zip(*rows, strict=True))
        found: dict[str, Any] = {"excess": (("batch", "step", "pace", "run"), excess)}
        found["parts"] = (("batch", "step", "part", "pace", "run"), parts)
        found["told_parts"] = (("pace", "step", "part"), unit_parts)
        found |= {"rate": ("pace", rates), "curvature": ("part", unit.curvature)}
        found |= {"noise": ("part", unit.noise), "unsure": unit.error / unit.loss}
        cases.append(xr.Dataset(found))
    joined = xr.concat(cases, xr.IndexVariable("case", list(settings.cases)))
    places = {"batch": list(settings.batches), "pace": loads, "step": looks, "part": list(PARTS)}
    return joined.assign_coords(places)


def _back_propagated(nu: float, beta: float, dim: int, depth: int, gamma: float) -> float:
    """‖∇𝓛_c‖² of an endless context, which Γ = γI leaves in its own basis."""
    k = np.arange(1.0, dim + 1.0)
    lam, share = k**-nu, k ** (-nu * beta - 1.0)
    b, w, given, pulls = np.sqrt(share / share.sum() / lam), np.zeros(dim), [], []
    for _ in range(depth):
        given.append(lam * (b - w))
        w = w + gamma / depth * given[-1]
    back = -2.0 * lam * (b - w)
    for _ in range(depth):
        pulls.append(back)
        back = back - gamma / depth * lam * back
    left, right = np.asarray(pulls[::-1]), np.asarray(given)
    return float(np.sum((left @ left.T) * (right @ right.T)) / depth**2)


@fig.data
def depths(settings: Any) -> xr.Dataset:
    """Tr S against L, of very many directions, and by back-propagation of fewer."""
    how: dict[str, Any] = {"lr": 1.0, "contexts": 1, "time": "matrix"}
    layers, few, rows = 2 ** np.arange(settings.octaves + 1), 2 ** np.arange(5), []
    for nu, beta in settings.pairs:
        many, some = (RotatedStructure(nu, beta, n) for n in (settings.many, settings.direct))
        far = [batch_floor(many, int(n), **how) for n in layers]
        near_by = [batch_floor(some, int(n), **how) for n in few]
        both = zip(few, near_by, strict=True)
        direct = [_back_propagated(nu, beta, settings.direct, int(n), x.gamma) for n, x in both]
        found: dict[str, Any] = {"many_noise": ("layers", [x.noise.sum() for x in far])}
        found["many_gamma"] = ("layers", [x.gamma for x in far])
        found["few_noise"] = ("shallow", [x.noise.sum() for x in near_by])
        found["direct_noise"] = ("shallow", direct)
        rows.append(xr.Dataset(found, coords={"layers": layers, "shallow": few}))
    joined: Any = xr.concat(rows, "pair")
    return joined


@fig.data
def recursion(settings: Any) -> xr.Dataset:
    """What SGD leaves of one isotropic layer at growing D, over where the recursion settles."""
    rows, eta = [], settings.slow
    for alpha, noise in settings.large:
        curvature = 1.0 + (1.0 + noise**2) / alpha
        endless: dict[str, Any] = {"batch": 1.0, "queries": 1e15}
        curve = sgd_curve(Isotropic(alpha, noise), lr=eta, steps=1, **endless)
        # The recursion's η has the 2/D of the gradient in it: twice the step of γ.
        rows.append(
            [
                batch_floor(Isotropic(alpha, noise, dim=d), 1, lr=eta / 2, contexts=d).loss
                / (curvature * float(curve.floor))
                for d in settings.dims
            ]
        )
    return xr.Dataset({"over": (("layer", "dim"), rows)}, coords={"dim": list(settings.dims)})


@fig.data
def turned(settings: Any) -> xr.Dataset:
    """The mean loss of γ*(I + aJ), J antisymmetric and orthogonal, over that of γ*I."""
    means, errors = np.empty((2, 2, len(settings.deep), len(settings.turns)))
    for n, dim in enumerate(settings.turned_dims):
        # As many numbers are drawn at every D: the loss of a wide context fluctuates less.
        number = round(settings.drawn * (settings.dim / dim) ** 2)
        turn = np.kron(np.eye(dim // 2), [[0.0, 1.0], [-1.0, 0.0]])[:, :, None]
        eye = np.eye(dim)[:, :, None]
        generator = np.random.default_rng([settings.seed, 99])
        contexts = Contexts(Isotropic(settings.long, dim=dim), (number, 1), generator)
        for k, depth in enumerate(settings.deep):

            def mean(
                gamma: float, depth: int = depth, eye: Any = eye, contexts: Any = contexts
            ) -> float:
                return float(np.log(contexts.loss(gamma * eye, depth).mean()))

            best: Any = minimize_scalar(mean, bounds=(0.3 * depth, depth), method="bounded")
            gamma = best.x
            first, *rest = (
                contexts.loss(gamma * (eye + a * turn), depth)[:, 0] for a in (0.0, *settings.turns)
            )
            rise = np.asarray(rest) - first
            means[n, k] = np.mean(rise, axis=1) / first.mean()
            errors[n, k] = np.std(rise, axis=1, ddof=1) / math.sqrt(first.size) / first.mean()
    both = ("turned_dim", "deep", "turn")
    places = {"turned_dim": list(settings.turned_dims), "deep": list(settings.deep)}
    return xr.Dataset(
        {"rise": (both, means), "rise_error": (both, errors)},
        coords=places | {"turn": list(settings.turns)},
    )


def _told(d: xr.Dataset) -> xr.DataArray:
    """The law of the parts, with the dimensions of `d.parts` but runs: η/4B of the loss."""
    return d.told_parts / d.batch


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """Excess against B, over the law, parts of Γ in time, Tr S against L, a turned Γ, recursion."""
    settings, by_batch, by_ratio, by_time = settings_of(d), [], [], []
    slow, fast = settings.loads
    late = d.isel(step=slice(-LATE, None))
    excess, floor = late.excess.mean("step"), d.rate / 4.0 / d.batch * d.noise.sum("part")
    ratio = excess / _told(late).sum("part").mean("step")
    for k, name in enumerate(d.case.values):
        kind, _, depth = str(name).partition("-")
        label = f"{NAMES[kind]}, $L = {depth}$"
        if name != "isotropic-1":  # on top of L = 4
            mean, error = mean_of(excess.sel(case=name, pace=fast).transpose("batch", "run"))
            by_batch.append(_bars(d.batch, mean, 2.0 * error, k))
            by_batch.append(theory(d.batch, floor.sel(case=name, pace=fast), label, k))
        beside = d.batch * (1.0 + 0.04 * (k - 2))  # so that bars can be told apart
        mean, error = mean_of(ratio.sel(case=name, pace=slow).transpose("batch", "run"))
        by_ratio.append(_bars(beside, mean, 2.0 * error, k, label))
    by_batch.append(entry("SGD", color="0.3", marker="o", markersize=3.5, linestyle="none"))
    by_batch.append(entry(r"$\eta\,\mathrm{Tr}\,S/4B$", color="0.3", **THEORY))
    by_ratio.append(level(1.0, **LAW))
    narrow = d.sel(case="narrow-2", pace=slow)
    end = narrow.rate * narrow.noise / (2.0 * narrow.curvature) / d.batch
    some = np.append(d.step.values[:-LATE], d.step.values[-LATE::8])
    for k, part in enumerate(PARTS):
        here = (narrow.parts / end).mean("batch").sel(part=part, step=some)
        mean, error = mean_of(here.transpose("step", "run"))
        x = narrow.rate * d.step
        by_time.append(_bars(x.sel(step=some), mean, 2.0 * error, k))
        told = narrow.told_parts.sel(part=part) / (narrow.rate * narrow.noise.sel(part=part) / 4.0)
        by_time.append(theory(x, told, part, k))
    noise = []
    for k, (nu, beta) in enumerate(settings.pairs):
        words = rf"$D = 10^8$, $\nu = {nu:g}$, $\beta = {beta:g}$"
        noise.append(line(d.layers, d.many_noise[k], words, k))
        far = d.layers >= 8
        noise.append(law(d.layers[far], _quiet(nu, beta, d.layers[far])))
        noise.append(tokens(d.shallow, d.direct_noise[k], k=k))
    noise.append(law([], [], "two powers of $L$, derived"))
    noise.append(entry("back-propagation, $D = 10^4$", color="0.3", **TOKENS))
    turns = [level(0.0)]
    for k, n in enumerate(settings.deep):
        here = d.isel(turned_dim=0).sel(deep=n)
        turns.append(_bars(d.turn, here.rise, 2.0 * here.rise_error, k))
        turns.append(line(d.turn, here.rise, f"$L = {n}$", k))
    limits = [law(d.dim, float(d.over[0, 0] - 1.0) * d.dim[0] / d.dim, "$1/D$")]
    for k, (alpha, sigma) in enumerate(settings.large):
        words = rf"$\alpha = {alpha:g}$, $\sigma = {sigma:g}$"
        limits.append(line(d.dim, d.over[k] - 1.0, words, k, marker="o", markersize=3.5))
    wide, small = r"$\eta\,h_\mathrm{max}$", dict[str, Any](legend=7.0)
    c = rf"RRS, $N = 5$, $L = 2$, {wide} $= {slow:g}$"
    e = rf"ISO, $D = {settings.turned_dims[0]}$, $\alpha = {settings.long:g}$; "
    e += r"$J^\top = -J$, $J^2 = -I$"
    batches, dims = (_ticks(x.values) for x in (d.batch, d.dim))
    top = (None, 30.0 * float(excess.max()))  # room for the legend
    two = lambda axes: axes.legend(fontsize=7.0, loc="upper right", ncols=2)  # noqa: E731
    turn, over = r"$\Delta\mathcal{L}/\mathcal{L}$ of $\gamma^*(I + aJ)$", "over recursion $-$ 1"
    first, second = (
        rf"second half of the runs, {wide} $= {fast:g}$",
        rf"the same, {wide} $= {slow:g}$",
    )
    parts = r"$|\Gamma - \gamma^*I|^2$ of a part / its end"
    return drawn(
        Panel(
            "$B$",
            r"excess of $\mathcal{L}$",
            by_batch,
            "xy",
            first,
            ylim=top,
            legend=0,
            more=[batches, two],
        ),
        Panel(
            "$B$", "excess / law", by_ratio, "x", second, ylim=(0.7, 1.6), more=[batches], **small
        ),
        Panel(r"$\eta n$", parts, by_time, "x", c, where="upper left", ylim=(0.0, 1.8), **small),
        Panel("$L$", r"$\mathrm{Tr}\,S$", noise, "xy", "RRS, endless contexts", **small),
        Panel("$a$", turn, turns, "", e, **small),
        Panel("$D$", over, limits, "xy", r"ISO, $L = 1$, $\eta \to 0$", more=[dims], **small),
        rows=2,
    )


def _bars(x: Any, y: Any, error: Any, k: int, label: str = "") -> Mark:
    """Points with two standard errors."""
    look: dict[str, Any] = {"yerr": error, "color": colour(k), "fmt": "o", "markersize": 3.5}
    return Mark(lambda axes: axes.errorbar(x, y, label=label, **look))


def _ticks(values: Any) -> Any:
    def put(axes: Any) -> None:
        axes.set_xticks(values, [f"{x:g}" for x in values])
        axes.xaxis.set_minor_formatter("")

    return put


def _limits(d: xr.Dataset, ratio: xr.DataArray, powers: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Of every run measured over told at η → 0, maybe with a power of B, and what η adds at most.

    By least squares in η and η/B with weights ∝ η, as runs see so many times the relaxation.
    """
    load, batch = (x.values.ravel() for x in xr.broadcast(d.pace, d.batch))
    columns = [np.ones_like(load), load, load / batch, np.log(batch) - np.log(batch).mean()]
    design = np.stack(columns[: 3 + powers], axis=1)
    root = np.sqrt(load)[:, None]
    values = ratio.transpose("pace", "batch", "run").values.reshape(load.size, -1)
    found = np.linalg.lstsq(root * design, root * values, rcond=None)[0]
    return found, abs(design[:, 1:3] @ found[1:3].mean(axis=1))


def _over_law(d: xr.Dataset) -> xr.DataArray:
    """The mean excess over the second half of the runs over the law."""
    late = d.isel(step=slice(-LATE, None))
    return late.excess.mean("step") / _told(late).sum("part").mean("step")


NEXT = "for the next order in η the square of the first"


@fig.claim("new", "derived")
def on_the_law(d):
    """Started at γ*I, SGD with batches of B contexts is on the average Σ_i (η/4B) Tr S_i (1 −
    e^(−2ηh_i n)) above the least loss, on the way to (η/4B) Tr S: no curvature is in it (mean
    excess over the second half of the runs over that, at η → 0, mean over five cases)."""
    found = [_limits(d, _over_law(d).sel(case=name)) for name in d.case.values]
    mean, error = mean_of(np.mean([one[0] for one, _ in found], axis=0))
    unsure = float(np.sqrt((d.unsure**2).sum())) / len(found)
    late = d.told_parts.isel(step=slice(-LATE, None)).sum("part").mean("step")
    done = (late / (d.rate / 4.0 * d.noise.sum("part"))).min()
    words = ", ".join(
        "{:.3f} ± {:.3f} ({})".format(*mean_of(one[0]), name)
        for (one, _), name in zip(found, d.case.values, strict=True)
    )
    most = beyond(d.sizes["run"])
    because = f"{most:.1f} standard errors of Student's t over runs; {NEXT}"
    slack = most * math.hypot(error, unsure) + np.mean([more.max() ** 2 for _, more in found])
    words += f". The law has come to {float(done):.2f} of its end at the least."
    return near(mean, 1.0, slack, because=because, note=words)


@fig.claim("new", "derived")
def batches(d):
    """It falls as 1/B (log-log slope at η → 0, B from 6 to 48, mean over the cases)."""
    found, more = _limits(d, _over_law(d).mean("case"), powers=1)
    mean, error = mean_of(found[3] / found[0] - 1.0)
    most = beyond(d.sizes["run"])
    because = f"{most:.1f} standard errors of Student's t over runs; {NEXT}, over the logarithm"
    slack = most * error + more.max() ** 2 / math.log(d.batch.values[-1] / d.batch.values[0])
    return near(mean, -1.0, slack, because=because)


@fig.claim("new", "derived")
def approach(d):
    """Trace, symmetric rest and antisymmetric part of Γ each settle at their own pace and at their
    own height, E|·|² = (η/2B) (Tr S_i/h_i) (1 − e^(−2ηh_i n)) (mean from 2ηh_i n = ½ on over that,
    at η → 0, the part furthest off by its tolerance; RRS, N = 5 of D = 8, L = 2)."""
    here, rows = d.sel(case="narrow-2"), []
    for part in PARTS:
        one = here.sel(part=part)
        seen = 2.0 * here.rate * one.curvature * d.step >= 0.5
        told = _told(one) * 2.0 / one.curvature
        found, more = _limits(d, one.parts.where(seen).mean("step") / told.where(seen).mean("step"))
        rows.append((*mean_of(found[0]), more.max() ** 2))
    mean, error, more = np.asarray(rows).T
    most = beyond(d.sizes["run"], len(rows))
    slack = most * error + more
    far = int(np.argmax(abs(mean - 1.0) / slack))
    words = ", ".join(
        f"{m:.3f} ± {e:.3f} ({part}, h = {float(h):.2g})"
        for m, e, part, h in zip(mean, error, PARTS, here.curvature, strict=True)
    )
    words += ". With the h of the second the last would end at "
    words += f"{float(here.curvature[2] / here.curvature[1]):.2f} of where it does."
    because = f"{most:.1f} standard errors of Student's t over runs; {NEXT}"
    return near(mean[far], 1.0, slack[far], because=because, note=words)


def _quiet(nu: float, beta: float, layers: Any) -> Any:
    """Tr S of endless layers and directions: ``A L^(−2−2β) + B L^(−3−β)`` (derived).

    ``Tr S = (4/L²) Σ_jk z_j² u_k² (Σ_l m_j^(L−1−l) m_k^l)²`` with m = 1 − γλ/L, ``u² = aλ``, ``z² =
    aλ m^2L`` and γ/L → 2. Both λ of order 1/L: m^l = e^(−2λl), sums over directions are integrals
    with ``Σ aλ f(λ) → c ∫λ^β f``, c = 1/(νζ(νβ+1)), and over layers they leave one over the sum w
    of two shares of them; the top direction, where ``Σ_k z_k u_k m_k^(L−1) = 0``, adds as much as
    the rest has of the trace. λ_k of order 1: ``Σ_l = m_j^L/2λ_k``, so that ``Σ a/λ`` comes in.
    """
    whole = zeta(nu * beta + 1.0)
    size, power = factorial(beta + 1.0) / (nu * whole), -beta - 1.0
    inner = lambda w: w * ((2.0 * w * (8.0 - 2.0 * w)) ** power - (16.0 * w) ** power)  # noqa: E731
    outer = lambda w: (2.0 - w) * (2.0 * w * (8.0 - 2.0 * w)) ** power  # noqa: E731
    both = quad(inner, 0.0, 1.0)[0] + quad(outer, 1.0, 2.0)[0] + 16.0**power / (1.0 - beta)
    first = 4.0 * size**2 * (both + 16.0**power)
    second = size * 8.0**power * zeta(nu * (beta - 1.0) + 1.0) / whole
    return first * layers ** (2.0 * power) + second * layers ** (power - 2.0)


@fig.claim("new", "derived")
def deeper(d):
    """Depth makes it quieter: of endless rotated contexts Tr S falls as A L^(−2−2β) + B L^(−3−β), A
    and B in closed form, faster than the loss, L^−β; L is γ*λ₁/2, which differs by O(log L) (over
    that at L = 2048, D = 10⁸, the furthest of two ν and β)."""
    pairs = settings_of(d).pairs
    last = [
        float(d.many_noise[k, -1] / _quiet(nu, beta, d.many_gamma[k, -1] / 2.0))
        for k, (nu, beta) in enumerate(pairs)
    ]
    local = -np.diff(np.log2(d.many_noise.values))[:, -1]
    words = "; ".join(
        f"{x:.4f}, local exponent {y:.3f} (ν = {nu:g}, β = {beta:g})"
        for x, y, (nu, beta) in zip(last, local, pairs, strict=True)
    )
    because = "the next order, 1/L, with a factor of up to 4: either term alone is further off"
    slack = 4.0 / float(d.layers[-1])
    return near(max(last, key=lambda x: abs(x - 1.0)), 1.0, slack, because=because, note=words)


@fig.claim("check", "derived")
def gradient(d):
    """Tr S is |∂𝓛_c/∂Γ|² of a context at γ*I, back through its layers (largest relative gap, L from
    1 to 16, D = 10⁴, two ν and β)."""
    gap = worst_ratio(d.direct_noise, d.few_noise)
    return near(gap, 0.0, 1e-10, because="rounding of sums over 10⁴ directions")


@fig.claim("check", "accounts: ISO SGD; derived")
def one_layer(d):
    """For one isotropic layer it is what the recursion of SGD leaves, cC, as η → 0 and D → ∞
    (ratio, extrapolated from the two largest D; the furthest of two α and σ)."""
    ends = 2.0 * d.over.values[:, 1:] - d.over.values[:, :-1]
    far = np.argmax(abs(ends[:, -1] - 1.0))
    gap, dims = abs(d.over.values - 1.0), settings_of(d).dims
    because = "what the extrapolation moved when D was doubled last, three times what is left"
    words = f"Largest gap {gap[:, 0].max():.4f} at D = {dims[0]}, {gap[:, -1].max():.4f} at "
    words += f"D = {dims[-1]}. The recursion's η has the 2/D of the gradient in it."
    slack = abs(ends[far, -1] - ends[far, -2])
    return near(ends[far, -1], 1.0, slack, because=because, note=words)


@fig.claim("new", "numbers")
def saddle(d):
    """On isotropic contexts of α = 8 without noise γ*I is no minimum for deep Γ, at D = 8 and 32:
    an antisymmetric part lowers the mean loss (relative change of the loss at a = 0.2, L = 4, plus
    3 standard errors, the larger of two D)."""
    here = d.sel(deep=4, turn=0.2)
    words = "Change " + ", ".join(
        f"{float(here.rise[n]):.4f} ± {float(here.rise_error[n]):.4f} (D = {dim})"
        for n, dim in enumerate(d.turned_dim.values)
    )
    words += ". Largest fall at each depth, D = 8: "
    lows = d.rise.isel(turned_dim=0).min("turn").values
    words += ", ".join(f"{x:.3f} (L = {n})" for x, n in zip(lows, d.deep.values, strict=True))
    because = "above 0 γ*I would be as good; γ* is the best γ on the same contexts"
    change = (here.rise + 3.0 * here.rise_error).max()
    return at_most(change, 0.0, because=because, note=words + ".")


FIGURE = fig
