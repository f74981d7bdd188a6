"""The best width and depth for a budget: the exact frontier beside the sum of laws."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr
from matplotlib.ticker import NullFormatter

from ...reproduce import Claim, Figure, Size, stage, step
from ...style import LAW, THEORY, TOKENS, TRAINING, colour, loglog, panels
from .. import RotatedStructure, law, loss_curve, optimal_shape, optimum
from ..laws import DepthCurves, equivalent, step_sizes
from ._say import say

NU, BETAS = 1.25, (0.8, 1.5)
FAR = (1e20, 1e30)  # budgets between which the laws' frontiers are read
SUM_DIM = 512  # of the comparison of best losses with sums of floors
COSTS = {"plain": "t*N**2*L", "context": "t*P**2*N**2*L"}
SETTINGS: Mapping[Size, Mapping[str, Any]] = {
    "quick": {
        "dim": 10**4,
        "max_depth": 16,
        "widths": (12, 400, 14),
        "budgets": (1e3, 1e9, 31),
        "search": {"dim": 48, "budgets": (1e4,)},
        "shapes": ((16, None), (64, 128)),
        "depths": (2, 8),
    },
    "default": {
        "dim": 10**6,
        "max_depth": 64,
        "widths": (12, 1500, 24),
        "budgets": (1e3, 1e12, 91),
        "search": {"dim": 128, "budgets": (1e4, 1e6)},
        "shapes": ((16, None), (64, None), (256, None), (64, 128)),
        "depths": (2, 8, 32),
    },
    "full": {
        "dim": 10**8,
        "max_depth": 256,
        "widths": (12, 10_000, 80),
        "budgets": (1e3, 1e15, 241),
        "search": {"dim": 512, "budgets": (1e4, 1e5, 1e6, 1e7)},
        "shapes": ((16, None), (64, None), (256, None), (64, 128)),
        "depths": (2, 8, 32),
    },
}


def _frontier(settings: Mapping[str, Any], beta: float) -> xr.Dataset:
    """The best (N, L) at every budget, of all depths and a grid of widths, and of the laws."""
    dim = settings["dim"]
    table, edge = equivalent(NU, beta, dim)
    widths = np.unique(np.geomspace(*settings["widths"]).round().astype(int))
    budgets = np.geomspace(*settings["budgets"])
    deepest = settings["max_depth"]
    depths, etas = np.arange(1, deepest + 1), step_sizes(deepest)
    losses = np.empty((len(widths), deepest, len(budgets)))
    for n, width in enumerate(widths.tolist()):
        top = edge(float(width), math.inf)
        rows = table(float(width), math.inf, etas[1:] / top, deepest)
        curves = DepthCurves(np.concatenate([np.ones((1, deepest)), rows]), top)
        for depth in depths.tolist():
            time = budgets / (width**2 * depth)
            losses[n, depth - 1] = [curves.loss(t, depth) for t in time.tolist()]
        step(n + 1, len(widths))
    flat = losses.reshape(-1, len(budgets))
    wide, deep = np.unravel_index(np.argmin(flat, axis=0), losses.shape[:2])
    laws = [optimal_shape(c, nu=NU, beta=beta, dim=dim) for c in budgets.tolist()]
    kept = {
        "best_loss": flat.min(axis=0),
        "best_width": widths[wide].astype(float),
        "best_depth": depths[deep].astype(float),
        "law_loss": np.array([one.loss for one in laws]),
        "law_width": np.array([one.width for one in laws]),
        "law_depth": np.array([one.depth for one in laws]),
    }
    data = {name: (("beta", "budget"), row[None]) for name, row in kept.items()}
    coords = {"beta": [beta], "budget": budgets}
    return xr.Dataset(
        data, coords=coords, attrs={"dim": dim, "widest": int(widths[-1]), "deepest": deepest}
    )


def _search(settings: Mapping[str, Any]) -> xr.Dataset:
    """The search over whole shapes against the flow there and at its neighbours."""
    size, beta = settings["search"], BETAS[0]
    dim, rows = size["dim"], []
    for budget in size["budgets"]:
        shape = optimal_shape(budget, nu=NU, beta=beta, method="exact", dim=dim)
        width, depth = int(shape.width), int(shape.depth)
        far = max(1, round(0.1 * width))
        around = [
            (n, d)
            for n in sorted({max(1, width - far), width, min(dim, width + far)})
            for d in sorted({max(1, depth - 1), depth, depth + 1})
        ]
        losses = {at: _flow_loss(budget, beta, dim, *at) for at in around}
        rows.append((width, depth, shape.loss, losses[width, depth], min(losses.values())))
    width, depth, loss, flow, least = np.asarray(rows).T
    return xr.Dataset(
        {
            "search_width": ("search_budget", width),
            "search_depth": ("search_budget", depth),
            "search_loss": ("search_budget", loss),
            "flow_loss": ("search_budget", flow),
            "least_loss": ("search_budget", least),
        },
        coords={"search_budget": list(size["budgets"])},
        attrs={"search_dim": dim},
    )


def _flow_loss(budget: float, beta: float, dim: int, width: int, depth: int) -> float:
    """Of γΠ, whose time is (D/N)² times as long."""
    task = RotatedStructure(nu=NU, beta=beta, dim=dim, width=width)
    return float(loss_curve(task, budget / (width**2 * depth) * (dim / width) ** 2, depth))


def _sums(settings: Mapping[str, Any]) -> xr.Dataset:
    """The best loss over γ, and the sum of the floors of width, depth and context."""
    beta = BETAS[0]
    floors = {name: law(name, NU, beta, SUM_DIM) for name in ("width", "depth", "context")}
    exact, total = [], []
    for width, context in settings["shapes"]:
        task = RotatedStructure(nu=NU, beta=beta, dim=SUM_DIM, width=width, context=context)
        exact.append(np.asarray(optimum(task, list(settings["depths"])).loss))
        rest = float(floors["width"].loss(float(width)))
        rest += 0.0 if context is None else float(floors["context"].loss(float(context)))
        total.append(rest + np.asarray(floors["depth"].loss(np.asarray(settings["depths"], float))))
    names = [f"{n}, {'∞' if p is None else p}" for n, p in settings["shapes"]]
    return xr.Dataset(
        {
            "exact": (("shape", "depth"), np.asarray(exact)),
            "sum": (("shape", "depth"), np.asarray(total)),
        },
        coords={"shape": names, "depth": list(settings["depths"])},
    )


def _laws() -> xr.Dataset:
    """Slopes of the laws' frontiers, far out."""
    span = math.log(FAR[1] / FAR[0])
    found = {}
    for beta in BETAS:
        low, high = (optimal_shape(c, nu=NU, beta=beta) for c in FAR)
        found[f"shape_{beta}"] = math.log(high.depth / low.depth) / math.log(high.width / low.width)
    asked: dict[str, dict[str, Any]] = {
        "plain": {"cost": COSTS["plain"]},
        "context": {"cost": COSTS["context"]},
        "matrix": {"cost": COSTS["plain"], "time": "matrix"},
    }
    for name, how in asked.items():
        low, high = (optimal_shape(c, nu=NU, beta=BETAS[0], **how) for c in FAR)
        found[f"compute_{name}"] = math.log(low.loss / high.loss) / span
    return xr.Dataset(attrs=found)


def compute(size: Size) -> xr.Dataset:
    """Frontiers, the search, sums of floors, and the laws' slopes."""
    settings = SETTINGS[size]
    fronts = [stage(f"frontier_{beta}", lambda b=beta: _frontier(settings, b)) for beta in BETAS]
    return xr.merge(
        [
            xr.concat(fronts, "beta"),
            stage("search", lambda: _search(settings)),
            stage("sums", lambda: _sums(settings)),
            stage("laws", _laws),
        ],
        combine_attrs="no_conflicts",
    )


def _inside(data: xr.Dataset, beta: float) -> xr.Dataset:
    """The frontier where it has more than one layer, and is inside what was tried."""
    here = data.sel(beta=beta)
    good = (here.best_depth > 1) & (here.best_depth < data.attrs["deepest"])
    good &= here.best_width < 0.9 * data.attrs["widest"]
    return here.isel(budget=good.values)


def _halves(here: xr.Dataset) -> tuple[xr.Dataset, xr.Dataset]:
    """The lower and the upper half of the budgets."""
    middle = here.sizes["budget"] // 2
    return here.isel(budget=slice(middle)), here.isel(budget=slice(middle, None))


def _slope(here: xr.Dataset) -> float:
    """The slope of log L in log N, by the budget: N falls back when a whole layer is added."""
    budget = np.log(here.budget.values)
    deep, wide = (
        np.polyfit(budget, np.log(here[name].values), 1)[0] for name in ("best_depth", "best_width")
    )
    return float(deep / wide)


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """The loss along the frontier, L* against N*, and sums of floors."""
    figure, (front, shape, sums) = panels(3)
    for k, beta in enumerate(data.beta.values):
        here, words = data.sel(beta=beta), rf"$\beta = {beta}$"
        front.plot(data.budget, here.best_loss, color=colour(k), label=words, **TRAINING)
        front.plot(data.budget, here.law_loss, color=colour(k), **THEORY)
        good = _inside(data, float(beta))
        pairs = np.unique(np.stack([good.best_width, good.best_depth]), axis=1)
        shape.plot(*pairs, color=colour(k), label=words, **TOKENS)
        shape.plot(here.law_width, here.law_depth, color=colour(k), **THEORY)
    front.plot([], [], color="0.3", label="exact", **TRAINING)
    shape.plot([], [], color="0.3", label="exact, whole $N$ and $L$", **TOKENS)
    for axes in (front, shape):
        axes.plot([], [], color="0.3", label="sum of laws", **THEORY)
    front.legend(fontsize=7.5)
    shape.legend(fontsize=7.0)
    loglog(front, r"C = t N^2 L", r"\mathcal{L}^*")
    loglog(shape, "N^*", "L^*", f"$D = 10^{{{math.log10(data.attrs['dim']):.0f}}}$")
    shape.xaxis.set_minor_formatter(NullFormatter())
    shape.set_ylim(0.9, None)
    for k, name in enumerate(data["shape"].values):
        ratio = data.exact.sel(shape=name) / data["sum"].sel(shape=name)
        sums.plot(data.depth, ratio, color=colour(k), label=f"$N, P = {name}$", **TOKENS)
        sums.plot(data.depth, ratio, color=colour(k), linewidth=0.8)
    sums.axhline(1.0, **LAW)
    sums.set_xscale("log", base=2)
    sums.set_xticks(data.depth.values, [str(n) for n in data.depth.values])
    sums.set_xlabel("$L$")
    sums.set_ylabel(r"$\min_\gamma \mathcal{L}$ / sum of floors")
    sums.set_title(f"$D = {SUM_DIM}$, $t = \\infty$", fontsize=9.0)
    sums.legend(fontsize=7.5)
    return figure


_say = partial(say, "optimal-shape")
SHAPE = {
    0.8: _say(
        "reported",
        "shape-0.8",
        "Along the laws' frontier L ∝ N^ν (β = 0.8).",
        "accounts: compute figures",
    ),
    1.5: _say("check", "shape-1.5", "For β > 1 it is L ∝ N^(ν/β) (β = 1.5)."),
}
EXACT = {
    beta: _say(
        "new",
        f"exact-shape-{beta}",
        f"The exact frontier's log-log slope of L in N rises with the budget (β = {beta}: the "
        "slope in the upper half of the budgets with more than one layer, less that in the lower).",
    )
    for beta in BETAS
}
BELOW = _say(
    "new",
    "exact-below",
    "At these budgets it has not yet come up to the laws' (upper half of the budgets, less the "
    "laws' slope; the larger of both β).",
)
PLAIN = _say(
    "reported",
    "compute",
    "With the cost tN²L the laws' loss falls as C^-νβ/((3+β)ν+2).",
    "accounts: compute figures",
)
CONTEXT = _say(
    "new",
    "compute-context",
    "With the cost tP²N²L it falls as C^-νβ/((3+β)ν+4).",
    "derived; the cost is that of accounts",
)
MATRIX = _say(
    "new",
    "compute-matrix",
    "In the time of the matrix Γ, N times as long, a width costs N³: C^-νβ/((3+β)ν+3).",
)
SEARCH = _say(
    "check",
    "search",
    "The search over whole shapes finds a loss that no neighbour's flow is below (largest excess, "
    "relative).",
)
FLOW = _say(
    "check",
    "flow",
    "Its loss is that of γΠ's flow at this shape and (D/N)² times its time (largest relative gap).",
)
LOWER = _say(
    "new", "sum-upper", "The sum of the floors is not below the best loss (largest ratio to it)."
)
UPPER = _say(
    "regression",
    "sum-lower",
    "And it is not far above: the smallest ratio of the best loss to it.",
    "an earlier computation",
)


def claims(data: xr.Dataset) -> list[Claim]:
    """Slopes of the frontiers, the search, and how good the sum of laws is."""
    found, low = data.attrs, BETAS[0]
    wanted = {0.8: NU, 1.5: NU / 1.5}
    judged = [SHAPE[beta].judge(wanted[beta], found[f"shape_{beta}"], 1e-6) for beta in SHAPE]
    below = []
    for beta in BETAS:
        here = _inside(data, beta)
        slopes = [_slope(part) for part in _halves(here)]
        judged.append(
            EXACT[beta].judge(
                0.0,
                slopes[1] - slopes[0],
                "at least",
                note=f"D = {found['dim']:g}: {slopes[0]:.3f}, then {slopes[1]:.3f}, over all "
                f"{_slope(here):.3f}; far out the law has {wanted[beta]:.4g}. N from "
                f"{float(here.best_width.min()):.0f} to {float(here.best_width.max()):.0f}, L from "
                f"{float(here.best_depth.min()):.0f} to {float(here.best_depth.max()):.0f}.",
            )
        )
        below.append(slopes[1] - wanted[beta])
    ratio = (data.exact / data["sum"]).values
    power = {name: NU * low / ((3.0 + low) * NU + n) for name, n in _COST_POWERS.items()}
    gap = (data.search_loss / data.flow_loss - 1.0).values
    excess = (data.flow_loss / data.least_loss - 1.0).values
    shapes = ", ".join(
        f"({n:.0f}, {d:.0f})"
        for n, d in zip(data.search_width.values, data.search_depth.values, strict=True)
    )
    return [
        *judged,
        BELOW.judge(0.0, max(below), "at most"),
        *(
            statement.judge(power[name], found[f"compute_{name}"], 1e-6)
            for name, statement in (("plain", PLAIN), ("context", CONTEXT), ("matrix", MATRIX))
        ),
        SEARCH.judge(
            0.0,
            excess.max(),
            1e-3,
            note=f"D = {found['search_dim']}, (N, L) = {shapes}; neighbours a tenth wider or "
            "narrower, a layer deeper or shallower. N is found to 2 %, where the loss is flat.",
        ),
        FLOW.judge(0.0, np.abs(gap).max(), 2e-5, note="Splines between step sizes: about 1e-5."),
        LOWER.judge(1.0, ratio.max(), "at most"),
        UPPER.judge(0.835, ratio.min(), "at least"),
    ]


_COST_POWERS = {"plain": 2.0, "context": 4.0, "matrix": 3.0}
FIGURE = Figure(
    id="deep_icl/optimal-shape",
    title="The best width and depth for a budget",
    settings=SETTINGS,
    constants={"nu": NU, "betas": BETAS, "sum_dim": SUM_DIM},
    statements=(
        *SHAPE.values(),
        *EXACT.values(),
        BELOW,
        PLAIN,
        CONTEXT,
        MATRIX,
        SEARCH,
        FLOW,
        LOWER,
        UPPER,
    ),
    compute=compute,
    draw=draw,
    claims=claims,
    note=(
        "Not in the paper. Contexts without end in (a) and (b). A projector Π of rank N leaves N/D "
        "of every direction; here it is taken D/N times as large, Γ = γ (D/N) Π, as the laws need "
        "it: with Π itself training takes (D/N)² times as long, and the best width would be D at "
        "any budget. The exact frontier is the least of all depths on a grid of widths, by the "
        "deterministic equivalent; the search over whole shapes is checked at a smaller D. Along "
        "the frontier the sum of laws is above the exact loss by a factor of up to two or three: "
        "its terms are of one size there, and the power laws of time and depth overestimate their "
        "first values."
    ),
)
