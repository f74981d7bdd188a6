"""Fig. 4a: from the sphere, with a decreasing λ, almost all runs find the oracle."""

from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...compiling import jit
from ...reproduce import Figure, at_least, at_most, near, worst_ratio
from .. import transversal
from . import _panels

# Mean excess risks of an earlier computation of ours, 30 other seeds.
EARLY = {0: "5.21", 3000: "3.44"}
LATE = {6000: "2.690", 12_000: "1.725", 24_000: "0.848", 60_000: "0.225", 90_000: "0.1139"}
LATE |= {120_000: "0.0750"}
ROUNDING = 1e-15  # smaller distances are chance

fig = Figure(
    "single_location/fig4a",
    "A decreasing λ: from the sphere to the oracle",
    settings={"quick": {"runs": 20}, "default": {"runs": 30}, "full": {"runs": 600}},
    constants=_panels.COMMON
    | {"lam": 1.0, "decay": 1e-4, "lr": 4e-3, "steps": 120_000, "log_every": 300, "vector_runs": 8}
    # Steps: before chaos, when it is over long since, at the edge of stability.
    | {"equal": 400, "later": 12_000, "edge": (3000, 15_000)},
    note=(
        "d = 400, L = 10, γ² = ½, λ_t = 1/(1 + 10⁻⁴t), α = 4e-3, 120k steps of projected gradient "
        "descent on the exact risk, all as published; the seeds are ours. Risk and scalars are of "
        "the same step, the authors' code has the risk one step earlier. Means and bands are over "
        "runs that reach the oracle, and the others are drawn one by one; (c): the first run that "
        "ends at either sign. The numbers compared with are from an earlier computation of this "
        "project, as the paper's picture is not at hand. α = 4e-3 is at the edge of stability, "
        "and chaotic between steps 500 and 1000."
    ),
)


@fig.data
def runs(settings: Any) -> xr.Dataset:
    """All runs in five scalars, a few in R^d."""
    run = _panels.trained(settings)
    return _panels.record(settings, run, **_panels.with_vectors(settings, run, settings.later))


@fig.data
def stiffness(settings: Any, runs: xr.Dataset) -> xr.Dataset:
    """α times the largest rate off the manifold at the places of the runs."""
    early = runs.sel(step=slice(*settings.edge))
    kappa, nu = (early[name].clip(-1.0, 1.0) for name in ("kappa", "nu"))  # round-off beyond 1
    find = jit(lambda *place: transversal(_panels.task(settings), *place))
    found = np.asarray(find(kappa.values, nu.values, early.lam.values[None, :]))
    largest = ("run", "edge_step"), settings.lr * np.abs(np.linalg.eigvals(found)).max(axis=-1)
    return xr.Dataset({"stiffness": largest, "edge_step": early.step.values})


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """The four panels."""
    return _panels.draw_panels(d, (0.0, 6.0))


def _left_out(d: xr.Dataset) -> str:
    """What a reader must know of the runs that do not reach the oracle."""
    lost = ~_panels.reached(d)
    return (
        f"{int(lost.sum())} of {lost.size} runs end at a swapped minimum and are left out; the "
        "authors' code with its 30 seeds, run here, has none, and how they would treat one is not "
        "known."
    )


@fig.claim("regression", "Fig. 4a; values ours")
def risks(d):
    """The mean excess risk falls as in an earlier computation: 2.690, 1.725, 0.848, 0.225, 0.1139
    and 0.0750 after 6k, 12k, 24k, 60k, 90k and 120k steps (largest relative gap)."""
    words = "The authors' code in float32 gives the same digits from 6k steps on."
    most, _ = _panels.parted(d)
    return _panels.near_earlier(most, LATE, f". {_left_out(d)} {words}", within=0.01)


@fig.claim("regression", "Fig. 4a; values ours")
def risks_early(d):
    """Before 6k steps the mean excess risk depends on the seeds: 5.21 at the start and 3.44 after
    3k steps (largest gap, in standard errors of the difference)."""
    return _panels.near_earlier(_panels.parted(d)[0], EARLY)


@fig.claim("check", "derived")
def oracle(d):
    """At the end the risk is that of the oracle at the last λ (largest relative gap of the runs
    that reach it)."""
    last = _panels.parted(d)[0].isel(step=-1)
    words = f"Oracle: {float(last.oracle):.6f}."
    return near(worst_ratio(last.loss, last.oracle), 0.0, 1e-3, note=words)


@fig.claim("paper", "Sec. 5, Fig. 4a")
def aligned(d):
    """At the end k and v have aligned with ±(k*, v*) (least of |κ|, |ν|, of the runs that reach
    the oracle)."""
    last = _panels.parted(d)[0].isel(step=-1)
    return at_least(min(abs(last.kappa).min(), abs(last.nu).min()), 0.999)


@fig.claim("regression", "ours")
def share(d):
    """Almost all runs reach the oracle: 96.2 % of 600 other seeds (share of the runs)."""
    return _panels.near_share(_panels.reached(d), 0.962, _left_out(d))


@fig.claim("new", "derived")
def edge(d):
    """From step {edge[0]} to {edge[1]} training is at the edge of stability: α times the largest
    rate of the flow off the manifold is 2 (median over steps and runs)."""
    found = _panels.parted(d)[0].stiffness
    words = (
        f"From {float(found.min()):.4f} to {float(found.max()):.4f}. It holds κ down: with a "
        "smaller α training would be faster at equal αt, so that no flow replaces it."
    )
    return near(found.median(), 2.0, 0.01, note=words)


@fig.claim("regression", "values ours")
def cycle(d):
    """On the edge of stability θ and ρ change sign at every step, at a distance to the manifold of
    0.022 after 6k steps and 0.012 after 12k (largest relative gap of the median over runs)."""
    apart = _panels.parted(d)[0].distance.sel(step=[6000, 12_000]).median("run").values
    words = f"{apart[0]:.5f} and {apart[1]:.5f}."
    because = "the earlier values have two digits"
    return near(worst_ratio(apart, [0.022, 0.012]), 0.0, 0.05, because=because, note=words)


@fig.claim("reported", "Fig. 4a, panel 4, by the authors' code")
def collapse(d):
    """At about step 20k the distance collapses (largest after 30k steps)."""
    words = "the authors' code, in single precision, stays at its round-off, 1e-8 to 4e-7."
    most = float(_panels.parted(d)[0].distance.sel(step=30_000).max())
    return at_most(max(most, ROUNDING), 1e-8, note=f"In double precision; {words}")


_panels.claim_vectors(fig, " until chaos begins")


@fig.claim("check", "derived")
def vectors_later(d):
    """When chaos is over, after {later} steps, what does not depend on signs is the same as in
    R^{dim}: R, |κ|, |ν| and the distance (largest relative gap, runs that reach the oracle)."""
    nu = d.isel(vector_step=-1).sel(quantity="nu")
    steady = ((abs(nu.in_scalars) > 0.5) & (abs(nu.in_vectors) > 0.5)).values
    even = d.sel(quantity=list(_panels.KEPT)).isel(vector_run=steady)
    gap = abs(abs(even.in_scalars / even.in_vectors) - 1.0).max("vector_run")
    words = (
        "Between steps 500 and 1000 the map is chaotic: after 900 steps the distances are "
        f"{float(gap.sel(vector_step=900, quantity='distance')):.0%} apart, and signs of θ and ρ "
        f"remain arbitrary. {int(steady.sum())} of {steady.size} runs."
    )
    return near(gap.isel(vector_step=-1).max(), 0.0, 1e-4, note=words)
