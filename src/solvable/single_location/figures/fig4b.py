"""Fig. 4b: from the invariant manifold, at constant λ, every run finds the oracle."""

from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, at_most, near, settings_of
from ...reproduce.panels import theory
from .. import State, basin_boundary, manifold_flow, oracle_rates
from . import _panels

fig = Figure(
    "single_location/fig4b",
    "From the invariant manifold: every run finds the oracle",
    settings={
        "quick": {"vector_runs": 8},
        "default": {"vector_runs": 30},
        "full": {"vector_runs": 30},
    },
    constants=_panels.setting("4b")
    # The rate of κ is measured beyond the figure, between so many thousand steps.
    | {"log_every": 200, "equal": 1000, "tail": (50, 60), "off": 2.0**-24},
    note=(
        "d = 400, L = 10, γ² = ½, λ = 0.1, α = 4e-3, 20k steps of projected gradient descent on "
        f"the exact risk from random places on the manifold, all as published. {_panels.STARTS} "
        "The paper's step-size bound and rate in Theorem 5 are not known to us; the flow and its "
        "rates are derived. (d) has nothing to draw: in five scalars the distance is exactly 0."
    ),
)


@fig.data
def runs(settings: Any) -> xr.Dataset:
    """All runs in five scalars, some in R^d; how fast κ comes to its end, and should."""
    run = _panels.trained(settings)
    found = _panels.record(settings, run, **_panels.with_vectors(settings, run, settings.equal))
    first, last = (1000 * at for at in settings.tail)
    late = _panels.trained(settings, steps=last, log_every=last - first)
    off = 1.0 - np.abs(np.asarray(late.kappa)[:, -2:])
    rate = ("run", np.log(off[:, 0] / off[:, 1]) / (settings.lr * (last - first)))
    limit = float(oracle_rates(_panels.task(settings), settings.lam).kappa)
    return found.assign(rate=rate, rate_limit=limit)


@fig.data
def off(settings: Any) -> xr.Dataset:
    """Distances of runs that start off the manifold by the round-off of single precision."""
    start = _panels.starts(settings)
    place = {name: settings.off for name in ("theta", "eta", "rho")}
    run = _panels.trained(settings, State(start.kappa, start.nu, **place))
    far = np.asarray(run.distance)
    return xr.Dataset({"off_most": ("run", far.max(axis=1)), "off_last": ("run", far[:, -1])})


@fig.data
def sides(settings: Any) -> xr.Dataset:
    """How far the starts are above the boundary between the basins of (1, 1) and (−1, −1)."""
    start = _panels.starts(settings)
    edge = basin_boundary(_panels.task(settings), start.kappa, settings.lam)
    return xr.Dataset({"above": ("run", np.asarray(start.nu) - np.asarray(edge))})


@fig.data
def flow(settings: Any) -> xr.Dataset:
    """The gradient flow from the same starts, and descent with half the step beside it."""
    twice = {"steps": 2 * settings.steps, "log_every": 2 * settings.log_every}
    half = _panels.trained(settings, lr=0.5 * settings.lr, **twice)
    case = _panels.task(settings), _panels.starts(settings)
    flow = manifold_flow(*case, half.time, lam=settings.lam)
    found = {
        f"{kind}_{name}": (("run", "step"), np.asarray(getattr(x, name)))
        for kind, x in {"flow": flow, "half": half}.items()
        for name in ("kappa", "nu")
    }
    return xr.Dataset(found, coords={"step": half.step // 2})


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """The four panels; the distance is 0."""
    figure = _panels.draw_panels(d, (0.0, 0.7))
    _, scalars, _, distance, *_ = figure.axes
    theory(d.step, abs(d.flow_kappa).mean("run"), "gradient flow", 6).put(scalars)
    theory(d.step, abs(d.flow_nu).mean("run"), "", 6).put(scalars)
    scalars.legend(fontsize=7.5)
    distance.legend().remove()
    distance.axhspan(7e-9, 4e-7, color="0.88", linewidth=0.0)
    place = {"ha": "center", "va": "center", "fontsize": 8.0, "transform": distance.transAxes}
    distance.text(0.5, 0.24, "7e-9 to 4e-7: authors' code, single precision", **place)
    most = float(d.distance.max())
    words = "exactly 0" if most == 0.0 else f"at most {most:.1g}"
    distance.text(0.5, 0.6, f"{words}\nin all {d.sizes['run']} runs, at all steps", **place)
    return figure


@fig.claim("reported", "Theorem 5, Fig. 4b")
def oracle(d):
    """From the manifold every run reaches the oracle or its flip: κν > 0, |ν| > 0.999 and
    |κ| > 0.97 at the end (share of the runs)."""
    last = d.isel(step=-1)
    kappa, nu = abs(last.kappa), abs(last.nu)
    ends = (last.kappa * last.nu > 0.0) & (nu > 0.999) & (kappa > 0.97)
    words = f"Least |κ| {float(kappa.min()):.4f}, least |ν| {float(nu.min()):.6f}."
    return near(ends.mean(), 1.0, 0.0, because="all", note=words)


_panels.claim_shown(fig, {0: "−", 1: "+"})


@fig.claim("new", "derived")
def signs(d):
    """Which of both a run reaches is told by its start: (1, 1) from above the stable manifold of
    the saddle, (−1, −1) from below (share of the runs)."""
    right = np.sign(d.above) == d.sign
    words = (
        f"{int((d.sign > 0).sum())} of {d.sizes['run']} end at (1, 1); the closest start is "
        f"{float(abs(d.above).min()):.1e} from the boundary."
    )
    return near(right.mean(), 1.0, 0.0, because="all", note=words)


@fig.claim("new", "ours")
def manifold(d):
    """Descent stays close to the manifold: from starts that we put off it by the round-off of
    single precision, 2⁻²⁴ in θ, η and ρ (largest distance of all runs at all steps)."""
    # Fails if the manifold repelled on the way: at λ = 0.9 it does (Fig. 7a).
    words = (
        "The origin repels, all else attracts: at the end the distance is at most "
        f"{float(d.off_last.max()):.1e}. From the manifold itself it is "
        f"{float(d.distance.max()):g} at all steps. The authors' code has 7e-9 to 4e-7; the paper: "
        "“due to roundoff errors, the dynamics are not exactly on the manifold but stay very close "
        "to the manifold”."
    )
    because = "what is called very close: a hundredth of a per cent of what κ and ν come to"
    return at_most(d.off_most.max(), 1e-4, because=because, note=words)


@fig.claim("new", "derived")
def rate(d):
    """In the long run 1 − |κ| falls at the rate 4γ²p erf'(p) erfc(p/w) = 0.0214 (median over runs,
    steps {tail[0]}k to {tail[1]}k, relative to that)."""
    found, limit = float(d.rate.median()), float(d.rate_limit)
    words = (
        f"{found:.5f} where {limit:.5f} is the limit κ → 1. In the figure it is not reached yet: "
        f"1 − |κ| is still {float(1.0 - abs(d.kappa.isel(step=-1)).median()):.3f} at its end. |ν| "
        "is faster by a factor of 90."
    )
    because = "1 − |κ| at these steps is some per cent, by which the limit is not reached"
    return near(found / limit, 1.0, 0.05, because=because, note=words)


def _gaps(d: xr.Dataset, kind: str = "") -> Any:
    """The largest gap of κ or ν to the flow along each run."""
    names = ("kappa", "nu")
    kappa, nu = (abs(d[f"{kind}{name}"] - d[f"flow_{name}"]).max("step") for name in names)
    return np.maximum(kappa, nu)


@fig.claim("check", "derived", word="flow")
def flow_followed(d):
    """Descent follows the gradient flow on the manifold (largest gap of κ or ν along a run, median
    over runs)."""
    gaps = _gaps(d)
    words = f"Largest of all runs: {float(gaps.max()):.4f}, where a run leaves the saddle late."
    because = "2.5 α, as the gap is of first order in α"
    note = f"α = {settings_of(d).lr:g}. {words}"
    return near(gaps.median(), 0.0, 2.5 * settings_of(d).lr, because=because, note=note)


@fig.claim("check", "derived")
def flow_order(d):
    """The gap to the flow is of first order in α: half the step halves it (ratio, median over
    runs)."""
    ratio = (_gaps(d) / _gaps(d, "half_")).median()
    return near(ratio, 2.0, 0.05, because="what is of second order in α")


_panels.claim_vectors(fig)
