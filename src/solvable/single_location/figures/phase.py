"""The flow on the invariant manifold: a portrait of the (κ, ν) square."""

import math
from collections.abc import Mapping
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Claim, Figure, Size, Statement, stage, step
from ...style import LAW, THEORY, colour, panels
from .. import (
    State,
    Task,
    basin_boundary,
    fixed_points,
    manifold_field,
    nullcline,
    oracle_rates,
    saddle,
    train,
)

LAMS = (0.1, 1.0)
RATE = 4e-3  # α, as in Fig. 4b
TINY = 1e-9  # from the saddle, in the measurements of rates
NEAR = 1e-4  # from the oracle, where 1 − κ would lose its digits
MARGIN = 0.005  # off the boundary, at which starts are put
GRID = 41  # of the arrows
TURNS = ((0.9, 0.3), (0.7, 0.1), (0.5, 0.5), (0.8, -0.2), (-0.9, -0.3))  # starts that turn in κ
STARTS = ((0.9, -0.75), (0.4, -0.5), (-0.3, 0.6), (-0.8, 0.7), (-0.4, 0.1), (0.9, 0.1), (0.05, 0.9))
LENGTH = 6000  # steps of a run
ANGLES = (0.3, 1.2, 2.1, 5.0)  # in which runs start at the saddle
LEAVING = (600, 1400)  # steps between which their growth is measured
SHORT = 200  # steps over which rates are measured that need no waiting
BISECT = {"lr": 2e-3, "steps": 8000}
SETTINGS: Mapping[Size, Mapping[str, Any]] = {
    "quick": {"places": 8, "halvings": 12},
    "default": {"places": 20, "halvings": 16},
    "full": {"places": 80, "halvings": 20},
}


def _task() -> Task:
    return Task(dim=400, length=10)


def _groups(lam: float) -> dict[str, np.ndarray]:
    """All starts of the runs that are followed step by step, as (κ, ν)."""
    out = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
    return {
        "shown": np.array(STARTS),
        "turn": np.array(TURNS),
        "out": TINY * out,
        "into": TINY * np.array([[1.0, float(saddle(_task(), lam).stable_slope)]]),
        "corner": np.full((1, 2), 1.0 - NEAR),
    }


def _follow(lam: float) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Step and, by group, (κ, ν) of runs at every step: all at once, for one compilation."""
    starts = _groups(lam)
    state = State(*np.concatenate(list(starts.values())).T)
    run = train(_task(), state, lam=lam, lr=RATE, steps=LENGTH, log_every=1, progress=step)
    paths = np.stack([np.asarray(run.kappa), np.asarray(run.nu)], axis=1)
    ends = np.cumsum([len(group) for group in starts.values()])
    return run.step, dict(zip(starts, np.split(paths, ends[:-1]), strict=True))


def _slope(values: np.ndarray, first: int, last: int) -> np.ndarray:
    """The rate in time at which the values' logarithm changes between two steps."""
    ratio = np.abs(values[..., last] / values[..., first])
    return np.asarray(np.log(ratio) / (RATE * (last - first)))


def _paths(lam: float) -> xr.Dataset:
    """Runs that are drawn, rates at the saddle and at the oracle, turns in κ."""
    steps, paths = _follow(lam)
    out, corner = paths["out"], 1.0 - paths["corner"][0]
    kappa, nu = paths["turn"][:, 0], paths["turn"][:, 1]
    at = np.argmin(np.sign(nu[:, -1:]) * kappa, axis=1)[:, None]
    turn_kappa, turn_nu = (np.take_along_axis(x, at, axis=1)[:, 0] for x in (kappa, nu))
    shown = paths["shown"][..., ::10]
    return xr.Dataset(
        {
            "run_kappa": (("run", "step"), shown[:, 0]),
            "run_nu": (("run", "step"), shown[:, 1]),
            "growth": ("angle", _slope(out[:, 0], *LEAVING)),
            "way_out": ("angle", out[:, 1, LEAVING[1]] / out[:, 0, LEAVING[1]]),
            "decay": -_slope(paths["into"][0, 0], 0, SHORT),
            "oracle_kappa": -_slope(corner[0], 0, SHORT),
            "oracle_nu": -_slope(corner[1], 0, SHORT),
            "turn_nu": ("turn", turn_nu),
            "turn_told": ("turn", np.asarray(nullcline(_task(), turn_kappa, lam))),
        },
        coords={"step": steps[::10], "angle": list(ANGLES)},
    )


def _portrait(lam: float, settings: Mapping[str, Any]) -> xr.Dataset:
    """Arrows, nullcline and boundary, the latter at some places for themselves."""
    line = np.linspace(-1.0, 1.0, GRID)
    kappa, nu = np.meshgrid(line, line)
    across, up = manifold_field(_task(), kappa, nu, lam)
    fine, places = np.linspace(-1.0, 1.0, 401), np.linspace(0.05, 0.95, settings["places"])
    places = np.concatenate([-places[::-1], places])
    boundary = np.asarray(basin_boundary(_task(), np.concatenate([fine, places]), lam))
    return xr.Dataset(
        {
            "across": (("nu", "kappa"), np.asarray(across)),
            "up": (("nu", "kappa"), np.asarray(up)),
            "nullcline": ("fine", np.asarray(nullcline(_task(), fine, lam))),
            "boundary": ("fine", boundary[: len(fine)]),
            "boundary_told": ("place", boundary[len(fine) :]),
        },
        coords={"kappa": line, "nu": line, "fine": fine, "place": places},
    )


def _side(kappa: np.ndarray, nu: np.ndarray, lam: float) -> np.ndarray:
    """Whether runs end beside (1, 1) rather than (−1, −1)."""
    how = {"lam": lam, "log_every": BISECT["steps"]} | BISECT
    return np.asarray(train(_task(), State(kappa, nu), **how).nu)[:, -1] > 0.0


def _boundary(lam: float, settings: Mapping[str, Any], portrait: xr.Dataset) -> xr.Dataset:
    """On which side runs end, and the boundary found by bisection with training alone."""
    places, told = portrait.place.values, portrait.boundary_told.values
    sides = [np.clip(told + sign * MARGIN, -1.0, 1.0) for sign in (1.0, -1.0)]
    above, below = (_side(places, nu, lam) for nu in sides)
    low, high = -np.ones_like(places), np.ones_like(places)
    for done in range(settings["halvings"]):
        step(done, settings["halvings"])
        middle = 0.5 * (low + high)
        up = _side(places, middle, lam)
        low, high = np.where(up, low, middle), np.where(up, middle, high)
    return xr.Dataset(
        {
            "right": ("place", above & ~below),
            "boundary_found": ("place", 0.5 * (low + high)),
        },
        coords={"place": places},
    )


def compute(size: Size) -> xr.Dataset:
    """A portrait, rates, boundary and turns for either λ."""
    settings = SETTINGS[size]

    def parts(lam: float) -> xr.Dataset:
        portrait = _portrait(lam, settings)
        found = [portrait, _paths(lam), _boundary(lam, settings, portrait)]
        return xr.merge(found).expand_dims(lam=[lam])

    found = [stage(f"lam_{lam:g}", lambda lam=lam: parts(lam)) for lam in LAMS]
    return xr.concat(found, dim="lam")


def _square(axes: Any, data: xr.Dataset, lam: float) -> None:
    """The portrait at one λ."""
    axes.streamplot(
        data.kappa.values,
        data.nu.values,
        data.across.values,
        data.up.values,
        color="0.75",
        linewidth=0.6,
        arrowsize=0.7,
        density=1.1,
    )
    axes.plot(data.fine, data.nullcline, color=colour(2), label=r"$\dot\kappa = 0$", **THEORY)
    axes.axvline(0.0, color=colour(4), label=r"$\dot\nu = 0$", **THEORY)
    axes.plot(data.fine, data.boundary, color=colour(1), label="basin boundary", linewidth=2.0)
    for n in range(data.sizes["run"]):
        one = data.isel(run=n)
        axes.plot(
            one.run_kappa,
            one.run_nu,
            color=colour(0),
            linewidth=1.4,
            label="" if n else "descent",
        )
        axes.plot(one.run_kappa[0], one.run_nu[0], "o", color=colour(0), markersize=3.0)
    marks = {
        "attractor": ("*", "black", 10),
        "source": ("o", "white", 6),
        "saddle": ("X", "black", 6),
    }
    for point in fixed_points(_task(), lam):
        mark, face, big = marks[point.kind]
        axes.plot(
            point.kappa,
            point.nu,
            mark,
            color="black",
            markerfacecolor=face,
            markersize=big,
            clip_on=False,
            zorder=5,
        )
    axes.set_xlim(-1.04, 1.04)
    axes.set_ylim(-1.04, 1.04)
    axes.set_xlabel(r"$\kappa$")
    axes.set_ylabel(r"$\nu$")
    axes.set_title(rf"$\lambda = {lam:g}$", fontsize=9.0)


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """Two portraits, and the boundary found by training against the theory's."""
    figure, axes = panels(3)
    for each, lam in zip(axes, LAMS, strict=False):
        _square(each, data.sel(lam=lam), lam)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, fontsize=8.0, loc="outside lower center", ncols=len(names))
    for k, lam in enumerate(LAMS):
        here = data.sel(lam=lam)
        axes[2].plot(
            here.fine, here.boundary, color=colour(k), label=rf"theory, $\lambda = {lam:g}$"
        )
        axes[2].plot(
            here.place,
            here.boundary_found,
            "o",
            color=colour(k),
            markerfacecolor="white",
            markersize=4.0,
            label="by training",
        )
    axes[2].plot([-1, 1], [1, -1], label=r"$\lambda \to 0$: $\nu = -\kappa$", **LAW)
    axes[2].set_title("basin boundary", fontsize=9.0)
    axes[2].set_xlabel(r"$\kappa$")
    axes[2].set_ylabel(r"$\nu$")
    axes[2].legend(fontsize=7.5)
    return figure


def _say(word: str, text: str) -> Statement:
    return Statement(f"single_location/phase/{word}", text, "Sec. 4, Theorem 5; flow derived")


OUT = {
    lam: _say(
        f"out-{lam:g}",
        f"Descent leaves the saddle (0, 0) at the rate q(√(b² + 4) − b)/2 = {value} at λ = {lam:g} "
        "(mean over directions).",
    )
    for lam, value in zip(LAMS, ("0.7715", "1.693"), strict=True)
}
IN = _say("in", "and comes to it at the rate q(√(b² + 4) + b)/2 = 3.268 (λ = 0.1).")
WAY = _say("slope", "It leaves along ν/κ = (b + √(b² + 4))/2 = 2.06 (λ = 0.1, mean).")
KAPPA = _say(
    "oracle-kappa", "Next to the oracle 1 − κ falls at the rate 4γ²p erf'(p) erfc(p/w) = 0.0214,"
)
NU = _say("oracle-nu", "and 1 − ν at the rate 4γ² erf(p) = 1.907 (λ = 0.1).")
SIDES = _say(
    "basins",
    f"The stable manifold of the saddle parts the basins of ±(1, 1): runs from {MARGIN:g} above "
    "and below it end on their sides (share of places, both λ).",
)
FOUND = _say(
    "boundary",
    "Bisection with training alone finds the same boundary (largest gap of ν, both λ).",
)
TURN = _say(
    "nullcline",
    "Runs turn in κ where they cross ν = erf(pκ/w) (largest gap of ν, λ = 0.1).",
)
FIXED = _say(
    "fixed-points",
    "The flow rests at (0, 0) and at the corners only: one saddle, two attractors, two sources "
    "(number with those signs of both rates, fewest over λ).",
)


def _kinds(lam: float) -> int:
    """How many fixed points have the rates that their kind asks for."""
    signs = {"saddle": (True, False), "attractor": (False, False), "source": (True, True)}
    return sum(
        tuple(bool(rate > 0.0) for rate in point.rates) == signs[point.kind]
        for point in fixed_points(_task(), lam)
    )


def _discrete(rate: Any) -> float:
    """What a flow's rate is per unit of time in descent with steps of RATE."""
    return math.log1p(RATE * float(rate)) / RATE


def claims(data: xr.Dataset) -> list[Claim]:
    """Rates, the boundary, the nullcline."""
    first = data.sel(lam=LAMS[0])
    ways = {lam: saddle(_task(), lam) for lam in LAMS}
    way, oracle = ways[LAMS[0]], oracle_rates(_task(), LAMS[0])
    slow = f"Steps of α = {RATE:g} make"
    return [
        *(
            OUT[lam].judge(
                ways[lam].growth,
                data.growth.sel(lam=lam).mean(),
                0.005 * float(ways[lam].growth),
                note=f"{slow} it {_discrete(ways[lam].growth):.4f}.",
            )
            for lam in LAMS
        ),
        IN.judge(
            way.decay,
            first.decay,
            0.01 * float(way.decay),
            note=f"{slow} it {-_discrete(-way.decay):.4f}.",
        ),
        WAY.judge(way.slope, first.way_out.mean(), 1e-3),
        KAPPA.judge(oracle.kappa, first.oracle_kappa, 0.01 * float(oracle.kappa)),
        NU.judge(
            oracle.nu,
            first.oracle_nu,
            0.01 * float(oracle.nu),
            note=f"{slow} it {-_discrete(-oracle.nu):.4f}.",
        ),
        SIDES.judge(1.0, data.right.mean(), 0.0, note=f"{data.right.size} places."),
        FOUND.judge(
            0.0,
            abs(data.boundary_found - data.boundary_told).max(),
            MARGIN,
            note="The flow's boundary; that of descent differs by terms of order "
            f"α = {BISECT['lr']:g}.",
        ),
        TURN.judge(
            0.0,
            abs(first.turn_nu - first.turn_told).max(),
            0.01,
            note="Of the logged steps the one furthest back; ν moves by up to 0.004 in a step. "
            f"{first.sizes['turn']} runs.",
        ),
        FIXED.judge(5.0, min(_kinds(lam) for lam in LAMS), 0.0),
    ]


FIGURE = Figure(
    id="single_location/phase",
    title="The flow on the invariant manifold: saddle, basins, oracle",
    settings=SETTINGS,
    constants={
        "dim": 400,
        "length": 10,
        "lams": LAMS,
        "lr": RATE,
        "steps": LENGTH,
        "bisect": BISECT,
    },
    statements=(*OUT.values(), IN, WAY, KAPPA, NU, SIDES, FOUND, TURN, FIXED),
    compute=compute,
    draw=draw,
    claims=claims,
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
