"""Rotated structure: the loss in training time, and in compute C = Lt at the best depth."""

from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, near, settings_of, worst_ratio
from ...reproduce.panels import Panel, drawn, entry, law, level, line, theory, tokens
from ...style import LAW, THEORY, TOKENS
from .. import RotatedStructure, gamma_curve, loss_curve
from .. import law as law_of
from ._accounts import ACCOUNTS
from ._rotated import SEEDS, repeated, spaced
from ._seeds import beyond

fig = Figure(
    "deep_icl/rrs-time",
    "Rotated structure: the loss in training time, and in C = Lt at the best depth",
    settings={
        "quick": {"trained": (4,), "steps": 80, "batch": 8, "grid": 3},
        "default": {"trained": (4, 16), "steps": 200, "batch": 8, "grid": 8},
        "full": {"trained": (1, 2, 4, 8, 16), "steps": 20_000, "batch": 512, "grid": 24},
    },
    constants={"nu": 1.75, "beta": 0.5, "dim": 45, "context": 512, "rate": 3.0, "listed": 20_000}
    | {"depths": (1, 2, 4, 8, 16), "pairs": ((1.75, 0.5), (1.5, 0.8), (1.25, 1.75))}
    | {"many": 10**8, "deepest": 9, "late": 1e4, "seeds": 6},  # octaves, depths in each
    note=(
        "ν = 1.75, β = 0.5, D = 45, P = 512; t is the time of the scalar γ, of which a step of Γ "
        "with η = 3 is η/D. Ports have B = 512 contexts a step and T = 20000 steps, which only the "
        "full size trains; below it B = 8 and fewer steps, and the flow of the equivalent goes on. "
        "At D = 45 the loss bends away from its power law: exponents are those of 10⁸ directions "
        "with endless contexts, where a depth's loss ends as γ nears 2L/λ₁."
    ),
)


def _task(settings: Any) -> RotatedStructure:
    return RotatedStructure(settings.nu, settings.beta, settings.dim, context=settings.context)


@fig.data
def flows(settings: Any) -> xr.Dataset:
    """The flow of the equivalent at the listed size, and of very many endlessly deep directions."""
    depths, end = list(settings.depths), settings.listed * settings.rate / settings.dim
    times, late = np.geomspace(0.05, end, 60), np.geomspace(0.1, 1e8, 73)
    endless = law_of("time", settings.nu, settings.beta, settings.many)
    after = late[late >= settings.late]
    found: dict[str, Any] = {}
    found["flow"] = (("depth", "time"), np.asarray(loss_curve(_task(settings), times, depths)).T)
    for name, values in ("endless_law", endless(late)), ("local", endless.local_exponent(late)):
        found[name] = ("late", values)
    laws = [law_of("time", nu, beta, settings.many) for nu, beta in settings.pairs]
    found["over"] = (("pair", "after"), np.asarray([one.loss(after) / one(after) for one in laws]))
    return xr.Dataset(found, coords={"depth": depths, "time": times, "late": late})


@fig.data
def frontier(settings: Any) -> xr.Dataset:
    """The loss at compute C = Lt of many depths, of very many directions."""
    octaves, budget = settings.deepest, np.geomspace(1e1, 1e9, 65)
    grid = 2.0 ** np.linspace(0.0, octaves, octaves * settings.grid + 1)
    depths = np.unique(grid.round().astype(int))
    task = RotatedStructure(settings.nu, settings.beta, settings.many)
    rows = [np.asarray(loss_curve(task, budget / depth, depth)) for depth in depths.tolist()]
    found = {"deep": (("layers", "budget"), np.asarray(rows))}
    return xr.Dataset(found, coords={"layers": depths, "budget": budget})


@fig.data
def trained(settings: Any) -> xr.Dataset:
    """Γ on fresh contexts, once a seed, and the time in which γ alone comes as far."""
    task = _task(settings)
    parts: list[xr.Dataset] = []
    for depth in settings.trained:
        run = repeated(task, depth, settings.rate, settings)
        end = settings.rate * float(run.step[-1])  # Γ's own time
        around = np.geomspace(0.5, 2.0, 81) * end / settings.dim
        gamma = np.log(np.asarray(gamma_curve(task, around, depth)))
        reached = np.log(run.tokens_gamma.values[:, -1])
        run["unit"] = ("run", end / np.exp(np.interp(reached, gamma, np.log(around))))
        parts.append(run.drop_vars("time"))
    return xr.concat(parts, xr.IndexVariable("trained", list(settings.trained)))


def _exponents(d: xr.Dataset) -> tuple[float, float]:
    """In t and in C."""
    beta = settings_of(d).beta
    return beta / (2.0 + beta), beta / (3.0 + beta)


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """Loss against time, against C = Lt, and the local exponents of both."""
    settings, (in_time, in_compute) = settings_of(d), _exponents(d)
    steps, depths = d.step.values, list(d.depth.values)
    times = [theory(d.time, d.flow.sel(depth=n), f"$L = {n}$", k) for k, n in enumerate(depths)]
    marks = spaced(steps)
    for depth in d.trained.values:
        mean = d.tokens_loss.sel(trained=depth).mean("run").values
        at = settings.rate / settings.dim * steps
        times.append(tokens(at[marks], mean[marks], k=depths.index(depth)))
    early = d.sel(late=slice(1.0, float(d.time[-1])))
    times.append(law(early.late, early.endless_law, r"$t^{-\beta/(2+\beta)}$, $D = 10^8$"))
    times.append(entry("gradient flow", color="0.3", **THEORY))
    times.append(entry("Γ on contexts", color="0.3", **TOKENS))
    look = {"color": "0.75", "linewidth": 0.8}
    budgets = [line(d.budget, d.deep.sel(layers=2**k), **look) for k in range(10)]
    budgets.append(line([], [], "$L = 1, 2, 4, …, 512$", **look))
    best = d.deep.min("layers")
    power = 0.85 * float(best[-1]) * (d.budget / float(d.budget[-1])) ** -in_compute
    budgets += [line(d.budget, best, "best $L$"), law(d.budget, power, r"$C^{-\beta/(3+\beta)}$")]
    # Two decades of C, 16 points, smooth the steps between depths.
    cost, logs = np.log(d.budget.values), np.log(best.values)
    wide = -(logs[16:] - logs[:-16]) / (cost[16:] - cost[:-16])
    slopes = [line(d.late, d.local, r"in $t$, $L = \infty$", 1)]
    slopes.append(line(d.budget[8:-8], wide, "in $C = Lt$, best $L$, over 2 decades"))
    slopes.append(level(in_time, label=r"$\beta/(2+\beta)$, $\beta/(3+\beta)$", **LAW))
    slopes.append(level(in_compute, **LAW))
    many, loss = r"$D = 10^8$, $P = \infty$", r"$\mathcal{L}$"
    each: dict[str, Any] = {"log": "xy", "legend": 7.0, "where": "lower left"}
    size, local = f"$D = {settings.dim}$, $P = {settings.context}$", "local exponent"
    return drawn(
        Panel("$t$", loss, times, title=size, **each),
        Panel("$C = Lt$", loss, budgets, title=many, **each),
        Panel("$t$ or $C$", local, slopes, log="x", ylim=(0.08, 0.32), title=many, legend=7.0),
    )


@fig.claim("reported", "accounts: RRS, time")
def time(d):
    """At L = ∞ the loss falls as t^(−β/(2+β)) (local exponent at t = 10⁶, ν = {nu}, β = {beta}, D =
    10⁸)."""
    because = "2 % of what tells it from β/(3+β)"
    found = d.local.sel(late=1e6, method="nearest")
    return near(found, _exponents(d)[0], 1e-3, because=because, note=ACCOUNTS)


@fig.claim("new", "derived")
def amplitude(d):
    """It is cγ^-β with γ = (cβ(β+2)t)^(1/(β+2)), c = Γ(β)2^-β/(νZ): nothing is fitted (largest
    relative gap for t from 10⁴ to 10⁸, three pairs of ν and β, D = 10⁸)."""
    because = "what the first directions do shifts t by about one: β/((2+β)t), 4.7e-5 at t = 10⁴"
    return near(worst_ratio(d.over, 1.0), 0.0, 5e-5, because=because)


@fig.claim("reported", "accounts: RRS, time")
def compute(d):
    """In C = Lt at the best depth it falls as C^(−β/(3+β)) (least squares in log-log, C from 10⁵ to
    10⁹, D = 10⁸)."""
    far = d.deep.sel(budget=slice(0.9e5, 2e9))
    slope = -np.polyfit(np.log(far.budget.values), np.log(far.min("layers").values), 1)[0]
    best = far.layers.values[far.argmin("layers").values]
    because = "γ*λ₁/L, on its way to 2, grows as L^0.05, which adds 0.002; depths are on a grid"
    words = f"{ACCOUNTS} Best depths from {best[0]} to {best[-1]}."
    return near(slope, _exponents(d)[1], 0.003, because=because, note=words)


@fig.claim("new", "derived")
def units(d):
    """The matrix Γ moves N times as slowly as dγ/dt = −∂𝓛/∂γ: t of Γ over t of γ when both have
    come equally far (mean over {seeds} seeds; N = {dim}; the deepest run)."""
    settings, last = settings_of(d), d.unit.isel(trained=-1)
    error = float(last.std("run", ddof=1)) / settings.seeds**0.5
    because = f"γ ∝ t^(1/(2+β)) is right to 1/N, t to (2+β)/N; {SEEDS}"
    words = f"Standard error {error:.2f}; L = {int(last.trained)}, {int(d.step[-1])} steps. "
    words += "The gradient in Γ is (∂𝓛/∂γ)I/N; without the 2 of its derivative t would be off by 2."
    slack = 2.0 + settings.beta + beyond(settings.seeds) * error
    return near(last.mean(), settings.dim, slack, because=because, note=words)


FIGURE = fig
