"""The flow on the invariant manifold: a portrait of the (κ, ν) square."""

import math
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, Finding, near, settings_of, step
from ...reproduce.panels import Mark, Panel, drawn, law, line, theory, tokens, upright
from ...style import THEORY, colour
from .. import State, Task, train
from ..theory import basin_boundary, fixed_points, manifold_field, nullcline, oracle_rates, saddle

STARTS = ((0.9, -0.75), (0.4, -0.5), (-0.3, 0.6), (-0.8, 0.7), (-0.4, 0.1), (0.9, 0.1), (0.05, 0.9))
# By kind of fixed point: marker, face, size; and which of its two rates are positive.
MARKS = {"attractor": ("*", "black", 10), "source": ("o", "white", 6), "saddle": ("X", "black", 6)}
RATES = ("out", "in", "slope", "oracle-kappa", "oracle-nu")  # at the saddle and at the oracle
SIGNS = {"attractor": (False, False), "source": (True, True), "saddle": (True, False)}

fig = Figure(
    "single_location/phase",
    "The flow on the invariant manifold: saddle, basins, oracle",
    settings={
        "quick": {"places": 8, "halvings": 12},
        "default": {"places": 20, "halvings": 16},
        "full": {"places": 80, "halvings": 20},
    },
    constants={
        "dim": 400,
        "length": 10,
        "lams": (0.1, 1.0),
        "lr": 4e-3,  # as in Fig. 4b
        "steps": 6000,
        "every": 10,  # steps between two that are drawn
        "bisect": {"lr": 2e-3, "steps": 8000},
        "margin": 0.005,  # off the boundary, at which starts are put
        "grid": 41,  # of the arrows
        "starts": STARTS,
        "turns": ((0.9, 0.3), (0.7, 0.1), (0.5, 0.5), (0.8, -0.2), (-0.9, -0.3)),  # in κ
        "tiny": 1e-9,  # from the saddle, in the measurements of rates
        "near": 1e-4,  # from the oracle, where 1 − κ would lose its digits
        "angles": (0.3, 1.2, 2.1, 5.0),  # in which runs start at the saddle
        "leaving": (600, 1400),  # steps between which their growth is measured
        "newton": 256,
        "turns_of_newton": 60,
        "short": 200,  # steps over which rates are measured that need no waiting
    },
    note=(
        "Not a figure of the paper. On θ = η = ρ = 0 training is a flow in the (κ, ν) square, "
        "derived here; the paper's Theorem 5 says that it converges to ±(1, 1). d = 400, L = 10, "
        "γ² = ½. Blue: projected gradient descent with α = 4e-3, as in Fig. 4b. Stars attract, "
        "circles are sources, the cross is the saddle. (c): at every κ the ν at which training "
        "changes its end. As λ → 0 the boundary is ν = −κ; at λ = 1 it runs along ν = ±1 "
        "where |κ| > 0.3: there attention is saturated, nothing pulls κ, and ν goes where the sign "
        "of κ sends it. Runs then stay where they are, ν = ±1 but κ far from the oracle, beyond "
        "any practical time."
    ),
)


def _portrait(settings: Any, task: Task, lam: float) -> dict[str, Any]:
    """Arrows, the nullcline, and where the flow rests."""
    grid, fine = np.linspace(-1.0, 1.0, settings.grid), np.linspace(-1.0, 1.0, 401)
    across, up = manifold_field(task, *np.meshgrid(grid, grid), lam)
    way, oracle, points = saddle(task, lam), oracle_rates(task, lam), fixed_points(task, lam)
    told = [way.growth, way.decay, way.slope, oracle.kappa, oracle.nu]
    return {
        "kappa": grid,
        "nu": grid,
        "fine": fine,
        "across": (("nu", "kappa"), np.asarray(across)),
        "up": (("nu", "kappa"), np.asarray(up)),
        "nullcline": ("fine", np.asarray(nullcline(task, fine, lam))),
        "told": ("rate", np.asarray(told)),
        "kind": ("point", [point.kind for point in points]),
        "at": (("point", "axis"), [(point.kappa, point.nu) for point in points]),
        "eigenvalues": (("point", "axis"), [np.asarray(point.rates) for point in points]),
    }


def _paths(settings: Any, task: Task, lam: float) -> dict[str, Any]:
    """Runs that are drawn, rates at the saddle and at the oracle, turns in κ."""
    out = np.stack([np.cos(settings.angles), np.sin(settings.angles)], axis=1)
    into = np.array([[1.0, float(saddle(task, lam).stable_slope)]])
    corner = np.full((1, 2), 1.0 - settings.near)
    starts = [settings.starts, settings.turns, settings.tiny * out, settings.tiny * into, corner]
    how = {"lr": settings.lr, "steps": settings.steps, "log_every": 1, "progress": step}
    run = train(task, State(*np.concatenate(starts).T), lam=lam, **how)  # for one compilation
    both = np.stack([np.asarray(run.kappa), np.asarray(run.nu)], axis=1)
    shown, turn, out, into, corner = np.split(both, np.cumsum([len(x) for x in starts])[:-1])
    at = np.argmin(np.sign(turn[:, 1, -1:]) * turn[:, 0], axis=1)[:, None, None]
    back = np.take_along_axis(turn, at, axis=2)[..., 0]

    def rate(values: np.ndarray, first: int = 0, last: int = settings.short) -> float:
        """In time, at which the values' logarithm changes between two steps; a mean over runs."""
        ratio = np.abs(values[:, last] / values[:, first])
        return float(np.mean(np.log(ratio) / (settings.lr * (last - first))))

    way_out = float(np.mean((out[:, 1] / out[:, 0])[:, settings.leaving[1]]))
    found = [rate(out[:, 0], *settings.leaving), -rate(into[:, 0]), way_out]
    found += [-rate(1.0 - corner[:, 0]), -rate(1.0 - corner[:, 1])]
    return {
        "step": run.step[:: settings.every],
        "run_kappa": (("run", "step"), shown[:, 0, :: settings.every]),
        "run_nu": (("run", "step"), shown[:, 1, :: settings.every]),
        "found": ("rate", found),
        "turn_nu": ("turn", back[:, 1]),
        "turn_told": ("turn", np.asarray(nullcline(task, back[:, 0], lam))),
    }


def _boundary(settings: Any, task: Task, lam: float) -> dict[str, Any]:
    """The boundary, on which side of it runs end, and what bisection with training finds."""
    fine, places = np.linspace(-1.0, 1.0, 401), np.linspace(0.05, 0.95, settings.places)
    places = np.concatenate([-places[::-1], places])
    boundary = np.asarray(basin_boundary(task, np.concatenate([fine, places]), lam))
    told, off = boundary[len(fine) :], settings.margin

    def side(nu: np.ndarray) -> np.ndarray:
        """Whether runs end beside (1, 1) rather than (−1, −1)."""
        how = {"lam": lam, "log_every": settings.bisect["steps"]} | settings.bisect
        return np.asarray(train(task, State(places, nu), **how).nu)[:, -1] > 0.0

    low, high = -np.ones_like(places), np.ones_like(places)
    for done in range(settings.halvings):
        step(done, settings.halvings)
        middle = 0.5 * (low + high)
        up = side(middle)
        low, high = np.where(up, low, middle), np.where(up, middle, high)
    above, below = (side(np.clip(told + gap, -1.0, 1.0)) for gap in (off, -off))
    return {
        "place": places,
        "boundary": ("fine", boundary[: len(fine)]),
        "boundary_told": ("place", told),
        "boundary_found": ("place", 0.5 * (low + high)),
        "right": ("place", above & ~below),
    }


@fig.data
def resting(settings: Any) -> xr.Dataset:
    """Where Newton's method finds the flow at rest, and its rates there by finite differences."""
    task, lam, h = Task(settings.dim, settings.length), settings.lams[0], 1e-5

    def field(x: np.ndarray) -> np.ndarray:
        """The velocity, continued outside of the square by what it is at its edge."""
        kappa, nu = np.clip(x, -1.0, 1.0).T
        across, up = manifold_field(task, kappa, nu, lam)
        return np.stack([np.asarray(across), np.asarray(up)], axis=-1)

    def slopes(x: np.ndarray) -> np.ndarray:
        """By differences that stay inside."""
        inward = np.where(x > 0.0, -h, h)
        moves = np.stack([inward[:, :1] * [1.0, 0.0], inward[:, 1:] * [0.0, 1.0]], axis=1)
        columns = [(field(x + moves[:, j]) - field(x)) / inward[:, [j]] for j in (0, 1)]
        return np.stack(columns, axis=-1)

    x = np.random.default_rng(settings.seed).uniform(-1.0, 1.0, (settings.newton, 2))
    for done in range(settings.turns_of_newton):
        step(done, settings.turns_of_newton)
        matrix = slopes(x) + 1e-14 * np.eye(2)
        x = np.clip(x - np.linalg.solve(matrix, field(x)[..., None])[..., 0], -1.0, 1.0)
    lost = np.abs(field(x)).max(axis=1) > 1e-9
    x[lost] = np.nan
    rates = np.linalg.eigvals(slopes(np.where(lost[:, None], 0.0, x))).real
    return xr.Dataset({"rest": (("try", "axis"), x), "rest_rates": (("try", "axis"), rates)})


@fig.data
def portraits(settings: Any) -> xr.Dataset:
    """A portrait, rates, boundary and turns for every λ."""
    found: list[xr.Dataset] = []
    for lam in settings.lams:
        given = settings, Task(settings.dim, settings.length), lam
        parts = _portrait(*given) | _paths(*given) | _boundary(*given) | {"rate": list(RATES)}
        found.append(xr.Dataset(parts).expand_dims(lam=[lam]))
    return xr.concat(found, dim="lam")


def _square(d: xr.Dataset) -> Panel:
    """The portrait at one λ."""
    field = [d[name].values for name in ("kappa", "nu", "across", "up")]
    look = {"color": "0.75", "linewidth": 0.6, "arrowsize": 0.7, "density": 1.1}
    marks = [
        Mark(lambda axes: axes.streamplot(*field, **look)),
        theory(d.fine, d.nullcline, r"$\dot\kappa = 0$", 2),
        upright(color=colour(4), label=r"$\dot\nu = 0$", **THEORY, zorder=2),
        line(d.fine, d.boundary, "basin boundary", 1, linewidth=2.0),
    ]
    for n in range(d.sizes["run"]):
        x, y = d.run_kappa[n], d.run_nu[n]
        marks.append(line(x, y, "" if n else "descent", linewidth=1.4))
        marks.append(line(x[0], y[0], marker="o", markersize=3.0))
    for kind, place in zip(d.kind.values, d["at"].values, strict=True):
        mark, face, big = MARKS[str(kind)]
        points = {"marker": mark, "markerfacecolor": face, "markersize": big, "clip_on": False}
        marks.append(line(*place, color="black", zorder=5, **points))
    title, wide = rf"$\lambda = {float(d.lam):g}$", (-1.04, 1.04)
    return Panel(r"$\kappa$", r"$\nu$", marks, title=title, xlim=wide, ylim=wide, legend=0)


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """Two portraits, and the boundary found by training against the theory's."""
    squares, marks = [], []
    for k, here in enumerate(d.isel(lam=n) for n in range(d.sizes["lam"])):
        squares.append(_square(here))
        marks.append(line(d.fine, here.boundary, rf"theory, $\lambda = {float(here.lam):g}$", k))
        marks.append(tokens(d.place, here.boundary_found, "by training", k, markersize=4.0))
    marks.append(law([-1, 1], [1, -1], r"$\lambda \to 0$: $\nu = -\kappa$"))
    last = Panel(r"$\kappa$", r"$\nu$", marks, title="basin boundary", legend=7.5)
    figure = drawn(*squares, last)
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, fontsize=8.0, loc="outside lower center", ncols=len(names))
    return figure


def _rate(d: xr.Dataset, lam: float, name: str, slack: float, note: bool = True) -> Finding:
    """A rate of descent against the flow's, within a share of it."""
    here, lr, sign = d.sel(lam=lam, rate=name), settings_of(d).lr, 1.0 if name == "out" else -1.0
    told = float(here.told)
    words = f"Steps of α = {lr:g} make it {sign * math.log1p(sign * lr * told) / lr:.4f}."
    return near(here.found, told, slack * told, note=words if note else "")


@fig.claim("new", "derived", word="out-{x[0]:g}", over=((0.1, 0.7715), (1.0, 1.693)))
def out(d, x):
    """Descent leaves the saddle (0, 0) at the rate q(√(b² + 4) − b)/2 = {x[1]} at λ = {x[0]:g}
    (mean over directions)."""
    return _rate(d, x[0], "out", 0.005)


@fig.claim("new", "derived", word="in")
def into(d):
    """Descent comes to the saddle at the rate q(√(b² + 4) + b)/2 = 3.268 (λ = 0.1)."""
    return _rate(d, 0.1, "in", 0.01)


@fig.claim("new", "derived")
def slope(d):
    """It leaves along ν/κ = (b + √(b² + 4))/2 = 2.06 (λ = 0.1, mean)."""
    first = d.sel(lam=0.1, rate="slope")
    return near(first.found, first.told, 1e-3)


@fig.claim("new", "derived")
def oracle_kappa(d):
    """Next to the oracle 1 − κ falls at the rate 4γ²p erf'(p) erfc(p/w) = 0.0214 (λ = 0.1)."""
    return _rate(d, 0.1, "oracle-kappa", 0.01, note=False)


@fig.claim("new", "derived")
def oracle_nu(d):
    """Next to the oracle 1 − ν falls at the rate 4γ² erf(p) = 1.907 (λ = 0.1)."""
    return _rate(d, 0.1, "oracle-nu", 0.01)


@fig.claim("new", "derived")
def basins(d):
    """The stable manifold of the saddle parts the basins of ±(1, 1): runs from {margin:g} above and
    below it end on their sides (share of places, both λ)."""
    return near(d.right.mean(), 1.0, 0.0, note=f"{d.right.size} places.")


@fig.claim("check", "derived")
def boundary(d):
    """Bisection with training alone finds the same boundary (largest gap of ν, both λ)."""
    gap, given = abs(d.boundary_found - d.boundary_told).max(), settings_of(d)
    words = "The flow's boundary; that of descent differs by terms of order "
    return near(gap, 0.0, given.margin, note=f"{words}α = {given.bisect['lr']:g}.")


@fig.claim("new", "derived", word="nullcline")
def turning(d):
    """Runs turn in κ where they cross ν = erf(pκ/w) (largest gap of ν, λ = 0.1)."""
    gaps = abs(d.turn_nu - d.turn_told).sel(lam=0.1)
    words = "Of the logged steps the one furthest back; ν moves by up to 0.004 in a step. "
    return near(gaps.max(), 0.0, 0.01, note=f"{words}{gaps.size} runs.")


@fig.claim("check", "derived", word="fixed-points")
def fixed(d):
    """The flow rests at (0, 0) and at the corners only, one saddle, two attractors, two sources
    (places that Newton's method finds from {newton} random ones, λ = 0.1: those that are one of
    these, with its kind by finite differences, less those that are none)."""
    # Fails if the flow rests anywhere else in the square, or otherwise than its kind says.
    told, signs = d["at"].sel(lam=0.1).values, [SIGNS[str(x)] for x in d.kind.sel(lam=0.1).values]
    rest, known, strange = d.rest.values, set(), 0
    for place, rates in zip(rest, d.rest_rates.values, strict=True):
        if np.isnan(place).any():
            continue
        gaps = np.abs(told - place).max(axis=1)
        best = int(np.argmin(gaps))
        fits = gaps[best] < 1e-6 and sorted(rates > 0.0) == sorted(signs[best])
        known |= {best} if fits else set()
        strange += not fits
    count = int((~np.isnan(rest).any(axis=1)).sum())
    words = f"Newton's method converged within the square from {count} places."
    return near(len(known) - strange, 5.0, 0.0, because="a number of places", note=words)
