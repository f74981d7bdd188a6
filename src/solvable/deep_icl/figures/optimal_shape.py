"""The best width and depth for a budget: the exact frontier, and what its slopes come from."""

import math
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, Finding, at_least, at_most, near, settings_of, step
from ...reproduce.panels import Panel, drawn, entry, law, level, line, theory, tokens
from ...style import LAW, THEORY, TOKENS
from .. import RotatedStructure, Spectrum, loss_curve, optimal_shape, optimum
from ..laws import law as law_of

SOURCE = "accounts: compute figures"

fig = Figure(
    "deep_icl/optimal-shape",
    "The best width and depth for a budget",
    settings={
        "quick": {"ratio": 1.35, "shapes": ((16, None), (64, 128))},
        "default": {"ratio": 1.15, "shapes": ((16, None), (64, None), (256, None), (64, 128))},
        "full": {"ratio": 1.03, "shapes": ((16, None), (64, None), (256, None), (64, 128))},
    },
    constants={
        "nu": 1.25,
        "betas": (0.8, 1.5),
        "dim": 10**6,
        "budgets": (1e7, 1e11, 17),
        "judged": (1e8, 1e10),  # between which exponents are read; shapes along all budgets
        "many": 10**15,  # directions, of the balance far out
        "sums": (512, (2, 8, 32)),  # D and depths of the sums of floors
    },
    note=(
        "Accounts tell powers at the best shape; the exact frontier is ours. C = tN²L, endless "
        "contexts in (a) to (c), γ (D/N) Π and its time. The exact frontier is the least of the "
        "equivalent's flow over all L and a grid of whole N. Beside it, by sums over directions "
        "alone, is what follows if a width sees a share λ/(λ + z_N) of a direction, Σ λ/(λ + "
        "z_N) = N, and L layers leave (1 − γλ/L)^2L of what is seen: 𝓛 = Σ a [1 − λ/(λ + z)(1 − "
        "(1 − γλ/L)^2L)], with its own flow of γ. Terms that add up as in the sum of laws count "
        "directions twice that are neither seen nor learned: that sum is about twice the loss. "
        "Powers of the laws are those of large budgets: what a width leaves has, beside z^β, a "
        "term of order z, which is only N^-ν(1−β) smaller, a quarter power at β = 0.8. Panel (c) "
        "is the balance of the exact floors of width and depth and of the flow, −d(each)/d "
        "log(cost) alike, of 10¹⁵ directions, up to N = 10⁶; there the powers that are reported "
        "of C → ∞ are judged."
    ),
)


@fig.data
def frontier(settings: Any) -> xr.Dataset:
    """The best shape at every budget: exact, of laws, and of shares that are seen and learned."""
    budgets, rows = np.geomspace(*settings.budgets), []
    for beta in settings.betas:
        how: dict[str, Any] = {"nu": settings.nu, "beta": beta, "dim": settings.dim}
        shares = _shares(**how, budgets=budgets)
        laws = [optimal_shape(budget, method="law", **how) for budget in budgets.tolist()]
        told = np.asarray([[one.loss, one.width, one.depth] for one in laws])
        rows.append(
            [_exact(**how, budgets=budgets, near=shares, ratio=settings.ratio), told, shares]
        )
    dims = ("beta", "form", "budget", "quantity")
    coords = {"form": ["exact", "laws", "shares"], "quantity": ["loss", "width", "depth"]}
    coords |= {"beta": list(settings.betas), "budget": budgets}
    return xr.Dataset({"best": (dims, np.asarray(rows))}, coords=coords)


def _exact(
    nu: float, beta: float, dim: int, budgets: np.ndarray, near: np.ndarray, ratio: float
) -> np.ndarray:
    """Loss, N and L at every budget: the least of the equivalent's flow around a guess."""
    grid = np.unique((ratio ** np.arange(200.0)).round().clip(1, dim))
    pairs = sorted(
        (int(n), d)
        for _, wide, deep in near
        for n in grid[(grid > 0.65 * wide) & (grid < 1.55 * wide)]
        for d in range(max(1, int(deep) - 1), int(deep) + 3)
    )
    shapes = np.unique(pairs, axis=0)
    losses = []
    for k, (n, d) in enumerate(shapes.tolist()):
        task = RotatedStructure(nu, beta, dim, width=n)
        losses.append(np.asarray(loss_curve(task, budgets / (n**2 * d), d)))
        step(k + 1, len(shapes))
    best = np.argmin(losses, axis=0)
    return np.column_stack([np.min(losses, axis=0), shapes[best]])


def _shares(nu: float, beta: float, dim: int, budgets: np.ndarray) -> np.ndarray:
    """Loss, N and L at every budget, of ``Σ a [1 − λ/(λ + z)(1 − (1 − γλ/L)^2L)]``."""
    spectrum = Spectrum.power(nu, beta, dim)
    lam, share = np.asarray(spectrum.lam), np.asarray(spectrum.share)
    widths, depths = np.geomspace(40.0, 2000.0, 160), np.unique(np.geomspace(1, 40, 28).round())
    seen = lam / (lam + np.asarray(spectrum.level(widths))[:, None])
    losses = np.empty((len(widths), len(depths), len(budgets)))
    for j, depth in enumerate(depths.tolist()):
        # γ up to the edge of stability; t = ∫dγ/(−d𝓛/dγ), where that falls.
        gamma = np.append(0.0, np.geomspace(1e-3, 2.0 * depth, 300))
        left = 1.0 - gamma[:, None] * lam / depth
        odd = left ** (2.0 * depth - 1.0)
        fall = 2.0 * odd @ (share * lam * seen).T
        value = (odd * left) @ (share * seen).T + np.sum(share * (1.0 - seen), axis=1)
        for i, width in enumerate(widths.tolist()):
            stop = int(np.argmax(fall[:, i] <= 0.0)) or len(gamma)
            pace = 1.0 / fall[:stop, i]
            t = np.append(0.0, np.cumsum(0.5 * (pace[1:] + pace[:-1]) * np.diff(gamma[:stop])))
            losses[i, j] = np.interp(budgets / (width**2 * depth), t, value[:stop, i])
    flat = losses.reshape(-1, len(budgets))
    wide, deep = np.unravel_index(np.argmin(flat, axis=0), losses.shape[:2])
    return np.stack([flat.min(axis=0), widths[wide], depths[deep]], axis=1)


@fig.data
def search(settings: Any) -> xr.Dataset:
    """The search over whole shapes, in the middle of the judged budgets."""
    budget = math.sqrt(math.prod(settings.judged))
    how: dict[str, Any] = {"nu": settings.nu, "beta": settings.betas[0], "dim": settings.dim}
    found = optimal_shape(budget, method="exact", **how)
    return xr.Dataset({"searched": ("quantity", [found.loss, found.width, found.depth])})


@fig.data
def balance(settings: Any) -> xr.Dataset:
    """Where exact floors and flow fall alike per cost, far out: C, and both exponents there."""
    sizes: dict[Any, np.ndarray] = {
        "width": np.geomspace(30.0, 1e6, 91),
        "depth": np.unique(np.geomspace(1.0, 1e7, 300).round()),
        "time": np.geomspace(1.0, 1e18, 300),
    }
    rows = []
    for beta in settings.betas:
        pulls, left = {}, {}
        for name, x in sizes.items():
            one = law_of(name, settings.nu, beta, settings.many)
            left[name] = np.log(np.asarray(one.loss(x)))
            pulls[name] = -left[name] - np.log(np.asarray(one.local_exponent(x)))
        wanted = pulls["width"] + math.log(2.0)  # N² is paid
        width = np.log(sizes["width"])
        depth, time = (np.interp(wanted, pulls[n], np.log(sizes[n])) for n in ("depth", "time"))
        total = sum(np.exp(np.interp(wanted, pulls[n], left[n])) for n in ("depth", "time"))
        # Each falls by exp(−wanted) per log C, and so does their sum.
        fall = np.exp(-wanted) / (total + np.exp(left["width"]))
        rows.append((time + 2.0 * width + depth, np.gradient(depth, width), fall))
    far = np.asarray(rows)
    found = {"far_budget": far[:, 0] / math.log(10.0), "far_slope": far[:, 1]}
    found["far_exponent"] = far[:, 2]
    both = {name: (("beta", "far_width"), row) for name, row in found.items()}
    return xr.Dataset(both, coords={"far_width": sizes["width"]})


@fig.data
def sums(settings: Any) -> xr.Dataset:
    """The best loss over γ, and the sum of what N, L and P leave alone."""
    (dim, depths), nu, beta = settings.sums, settings.nu, settings.betas[0]
    alone: tuple[Any, ...] = ("width", "depth", "context")
    laws = {name: law_of(name, nu, beta, dim) for name in alone}
    ratios = []
    for width, context in settings.shapes:
        task = RotatedStructure(nu, beta, dim, width=width, context=context)
        rest = float(laws["width"].loss(float(width)))
        rest += 0.0 if context is None else float(laws["context"].loss(float(context)))
        total = rest + np.asarray(laws["depth"].loss(np.asarray(depths, float)))
        ratios.append(np.asarray(optimum(task, list(depths)).loss) / total)
    names = [f"{n}, {'∞' if p is None else p}" for n, p in settings.shapes]
    coords = {"shape": names, "depth": list(depths)}
    return xr.Dataset({"to_sum": (("shape", "depth"), np.asarray(ratios))}, coords=coords)


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """The loss along the frontier, L against N, their slope far out, and sums of floors."""
    settings = settings_of(d)
    front, shape, far, sums_of = [], [], [], []
    for k, beta in enumerate(settings.betas):
        words = rf"$\beta = {beta}$"
        exact, laws, shares = (d.best.sel(beta=beta, form=n).values.T for n in d.form.values)
        front += [tokens(d.budget, exact[0], words, k), theory(d.budget, shares[0], "", k)]
        front.append(law(d.budget, laws[0]))
        shape.append(tokens(exact[1], exact[2], "", k))
        shape.append(theory(shares[1], shares[2], "", k, linewidth=0.8))
        power = _asymptote(settings, beta, "shape")
        anchor = 1.3 * shares[2, 0] * (shares[1] / shares[1, 0]) ** power
        shape.append(law(shares[1], anchor, r"$N^{\nu\,\min(\beta,1)/\beta}$" if k else ""))
        there = d.sel(beta=beta)
        far.append(line(10.0**there.far_budget, there.far_slope, words, k))
        far.append(level(power, **LAW))
    kinds = [
        entry("exact", color="0.3", **TOKENS),
        entry("shares seen and learned", color="0.3", **THEORY),
    ]
    front += [*kinds, entry("sum of laws", **LAW)]
    for k, name in enumerate(d["shape"].values):
        row = d.to_sum.sel(shape=name)
        sums_of.append(line(d.depth, row, f"$N, P = {name}$", k, marker="o", markersize=3.2))

    def ticks(*values: Any) -> Any:
        return lambda axes: (
            axes.set_xticks(values, [str(n) for n in values]),
            axes.xaxis.set_minor_formatter(""),
        )

    title = f"$D = 10^{{{math.log10(settings.dim):.0f}}}$"
    total = f"$D = {settings.sums[0]}$, $t = \\infty$, $\\beta = {settings.betas[0]}$"
    return drawn(
        Panel("$C = tN^2L$", r"$\mathcal{L}^*$", front, log="xy", title=title, legend=7.0),
        Panel(
            "$N^*$",
            "$L^*$",
            [*shape, *kinds],
            log="xy",
            legend=7.0,
            more=[ticks(100, 200, 500, 1000)],
        ),
        Panel("$C$", r"$d \log L^*/d \log N^*$", far, log="x", title="balance of exact floors"),
        Panel(
            "$L$",
            r"$\min_\gamma\mathcal{L}$ / sum",
            sums_of,
            title=total,
            log="x",
            more=[ticks(*d.depth.values)],
        ),
        rows=2,
    )


def _asymptote(settings: Any, beta: float, what: str, reported: bool = False) -> float:
    """Of laws: the exponent in compute, or of L in N; as reported, that of β < 1 at every β."""
    width = settings.nu * (beta if reported else min(beta, 1.0))
    if what == "shape":
        return width / beta
    return 1.0 / ((2.0 + beta) / beta + 2.0 / width + 1.0 / beta)


def _exponent(d: xr.Dataset, beta: float, form: str) -> float:
    """−d log 𝓛*/d log C, between the judged budgets."""
    low, high = settings_of(d).judged
    losses = d.best.sel(beta=beta, form=form, quantity="loss")
    first, last = losses.sel(budget=[low, high], method="nearest").values
    return float(np.log(first / last) / np.log(high / low))


def _slope(d: xr.Dataset, beta: float, form: str) -> float:
    """Of log L* in log N*, each by least squares in log C: N falls back when a layer is added."""
    shapes = np.log(d.best.sel(beta=beta, form=form, quantity=["width", "depth"]).values)
    wide, deep = np.polyfit(np.log(d.budget.values), shapes, 1)[0]
    return float(deep / wide)


FLAT, STEEP = 0.8, 1.5
APART = "half of how far both forms are apart"
NEXT = "the next term of what a width leaves is smaller by N^-ν(1−β)"
CAPPED = "A width leaves N^-ν, not N^-νβ, for β > 1: deep_icl/width."


@fig.claim("new", "derived")
def exponent(d):
    """The power of large budgets is not reached from C = 10⁸ to 10¹⁰: there the loss along the
    exact frontier falls with the exponent of shares that are seen and learned, Σ a [1 −
    λ/(λ + z_N)(1 − (1 − γλ/L)^2L)] (β = 0.8)."""
    limit, told = _asymptote(settings_of(d), FLAT, "compute"), _exponent(d, FLAT, "shares")
    because = "half of how far the exponent of shares is there from its limit"
    words = f"The limit is {limit:.4f}."
    slack = 0.5 * abs(limit - told)
    return near(_exponent(d, FLAT, "exact"), told, slack, because=because, note=words)


def _far(d: xr.Dataset, name: str, beta: float) -> tuple[float, str]:
    """A slope at the end of the balance, and where that is."""
    end = d.sel(beta=beta).isel(far_width=-1)
    words = f"At N = {float(end.far_width):.0e}, C = 10^{float(end.far_budget):.1f}."
    return float(end[name]), words


def _flat(d: xr.Dataset, name: str, what: str) -> Finding:
    """At the end of the balance, as it is reported."""
    settings, (found, words) = settings_of(d), _far(d, name, FLAT)
    told = _asymptote(settings, FLAT, what, reported=True)
    slack = told * float(d.far_width[-1]) ** (-settings.nu * (1.0 - FLAT))
    return near(found, told, slack, because=NEXT, note=words)


def _steep(d: xr.Dataset, name: str, what: str, reported: bool) -> Finding:
    """At the end of the balance, for β > 1."""
    forms = [_asymptote(settings_of(d), STEEP, what, reported=r) for r in (False, True)]
    found, words = _far(d, name, STEEP)
    slack = 0.5 * abs(forms[1] - forms[0])
    return near(found, forms[reported], slack, because=APART, note=f"{words} {CAPPED}")


@fig.claim("reported", SOURCE)
def far_exponent(d):
    """At the best shape the loss falls as C^-νβ/((3+β)ν+2), C = tN²L with t of γ (D/N) Π, far out
    (balance of exact floors and flow at N = 10⁶, β = 0.8)."""
    return _flat(d, "far_exponent", "compute")


@fig.claim("new", "derived")
def far_exponent_steep(d):
    """For β > 1, where a width leaves N^-ν, it falls as C^-1/((2+β)/β + 2/ν + 1/β) (the same
    balance, β = 1.5)."""
    return _steep(d, "far_exponent", "compute", reported=False)


@fig.claim("reported", SOURCE, known="fails")
def far_exponent_steep_reported(d):
    """Reported without a range of β: it falls as C^-νβ/((3+β)ν+2), at β = 1.5 (the same
    balance)."""
    return _steep(d, "far_exponent", "compute", reported=True)


@fig.claim("new", "derived", over="betas")
def shape(d, x):
    """Along the exact frontier L grows with N as of shares that are seen and learned
    (d log L/d log N, C = 10⁷ to 10¹¹, β = {x})."""
    words = f"Far out it is {_asymptote(settings_of(d), x, 'shape'):.4g}."
    because = "N falls back by a third when a layer is added: that leaves a tenth of the slope"
    return near(_slope(d, x, "exact"), _slope(d, x, "shares"), 0.1, because=because, note=words)


@fig.claim("reported", SOURCE)
def far_shape(d):
    """At the best shape L grows as N^ν, far out (d log L/d log N of the balance of exact floors and
    flow at N = 10⁶, β = 0.8)."""
    return _flat(d, "far_slope", "shape")


@fig.claim("new", "derived")
def far_shape_steep(d):
    """For β > 1 it grows as N^ν/β (the same balance, β = 1.5)."""
    return _steep(d, "far_slope", "shape", reported=False)


@fig.claim("reported", SOURCE, known="fails")
def far_shape_steep_reported(d):
    """Reported without a range of β: L grows as N^ν, at β = 1.5 (the same balance)."""
    return _steep(d, "far_slope", "shape", reported=True)


@fig.claim("new", "derived")
def overlap(d):
    """The loss along it is that of shares that are seen and learned, where the sum of laws is about
    twice as large (largest relative gap, β = 0.8)."""
    losses = d.best.sel(beta=FLAT, quantity="loss")
    exact = losses.sel(form="exact")
    gaps = [float(abs(losses.sel(form=x) / exact - 1.0).max()) for x in ("shares", "laws")]
    words = f"The sum is {gaps[1]:.2f} off. For β > 1 shares do not tell the loss, only the shape."
    because = "a tenth of the loss, where the sum of laws is off by all of it"
    return at_most(gaps[0], 0.1, because=because, note=words)


@fig.claim("new", "derived")
def far_out(d):
    """L ∝ N^ν is seen at budgets out of reach only: the slope of the balance of exact floors and
    flow is within 5 % of ν from there on (log10 C, β = 0.8)."""
    here, told = d.sel(beta=FLAT), _asymptote(settings_of(d), FLAT, "shape")
    first = float(here.far_budget[int(np.argmax(here.far_slope.values > 0.95 * told))])
    nine = float(np.interp(9.0, here.far_budget, here.far_slope))
    because = "a billion times 10⁹, where shapes can still be searched for"
    return at_least(first, 18.0, because=because, note=f"At C = 10⁹ the slope is {nine:.3f}.")


@fig.claim("check", "ours", word="search")
def searched(d):
    """The search over whole shapes finds a loss as low as the least flow on a grid of shapes (over
    it, C = 10⁹, β = 0.8)."""
    middle = math.sqrt(math.prod(settings_of(d).judged))
    least = d.best.sel(beta=FLAT, form="exact").sel(budget=middle, method="nearest")
    words = "N, L = {:.0f}, {:.0f}; on the grid {:.0f}, {:.0f}."
    words = words.format(*d.searched.values[1:], *least.values[1:])
    because = "the search finds N to 1 %, where the loss is flat to 1e-4"
    return at_most(d.searched[0] / least[0], 1.0 + 1e-4, because=because, note=words)


TERMS = "it tells a sum from the larger of two or three equal terms, a half or a third of it"


@fig.claim("new", "derived")
def sum_of_floors(d):
    """At t = ∞ the least loss over γ is about the sum of what width, depth and context leave alone,
    exact (ratio, the one furthest from 1, β = 0.8)."""
    ratio = d.to_sum.values.ravel()
    return near(ratio[np.argmax(np.abs(ratio - 1.0))], 1.0, 0.2, because=TERMS)


@fig.claim("reported", "accounts: summary law", known="fails")
def sum_of_floors_reported(d):
    """The loss is reported to be about c_t t^-β/(2+β) + c_N N^-νβ + c_L L^-β, here with the
    constants that each has alone (least sum over the exact frontier, C from 10⁷ to 10¹¹, the ratio
    nearest to 1, β = 0.8)."""
    losses = d.best.sel(beta=FLAT, quantity="loss")
    ratio = (losses.sel(form="laws") / losses.sel(form="exact")).values
    words = f"Ratios {ratio.min():.2f} to {ratio.max():.2f}. The accounts tell no constants."
    return near(ratio[np.argmin(np.abs(ratio - 1.0))], 1.0, 0.2, because=TERMS, note=words)


FIGURE = fig
