"""Fig. 7: one task whose H is a multiple of a projection, where order zero is exact."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, Int
from matplotlib.ticker import NullFormatter

from ... import descent
from ...reproduce import Figure, Quote, corrected, near
from ...reproduce.panels import Panel, drawn, law, line, theory, training
from .. import exact_flow
from ..theory import zeroth_residual
from ._formulas import AlongContext

TARGET = 1.0  # Λ
SCALE = 2.0  # μ
TERMS = 3  # of H
POINTS = 161  # times at which curves are compared
OURS = {"width": 10, "lr": 1e-3, "time": 4.0}

fig = Figure(
    "msfr/fig7",
    "One task whose H is a multiple of a projection",
    settings={
        "quick": OURS | {"starts": 3, "halvings": 3},
        "default": OURS | {"starts": 6, "halvings": 4},
        "full": OURS | {"starts": 50, "halvings": 7},
    },
    constants={"target": TARGET, "mu": SCALE, "case": (3.0, 0.5, 0.3, 0.55), "at": 0.2},
    note="The paper gives H. Ours: d = 10, Λ = p = 1, v, w ~ N(0, 0.1²), lr 1e-3, random "
    "orthonormal u_i, several starts. The rate is judged where H has a ψ: H = ψuuᵀ, u = (1, Λ), "
    "ψ = 3, Λ = 0.5, v = 0.3u, w = 0.55u at the start.",
)

Row = Float[Array, "starts width"]


class OneTask(eqx.Module):
    """``½ (vᵀHw − Λ)²`` with p = 1, from several starts side by side."""

    matrix: Float[Array, "width width"]

    def predictions(self, params: tuple[Row, Row]) -> Float[Array, " starts"]:
        """``f = vᵀHw``."""
        v, w = params
        return jnp.sum(v * (w @ self.matrix), axis=1)

    def gradient(self, params: tuple[Row, Row], step: Int[Array, ""]) -> tuple[Row, Row]:
        """By automatic differentiation."""
        return jax.grad(lambda p: 0.5 * jnp.sum((self.predictions(p) - TARGET) ** 2))(params)

    def observe(self, params: tuple[Row, Row]) -> dict[str, Array]:
        """Predictions."""
        return {"f": self.predictions(params)}


def projection(width: int, seed: int = 0) -> np.ndarray:
    """``H = Σ_{i≤3} μ u_i u_iᵀ`` with orthonormal u_i, so that ``H² = μH``."""
    normal = np.random.default_rng(seed).normal(size=(width, TERMS))
    u = np.linalg.qr(normal)[0]
    return SCALE * u @ u.T


def closed_form(matrix: Any, v: Any, w: Any, rate: Any, t: Any) -> Float[Any, "starts times"]:
    """Theorem 3.1 with ``g = ηᵀHη``, ``h = ρᵀHρ`` and any rate a, at p = 1.

    Args:
        matrix: H with ``H² = μH``.
        v, w: initial parameters of every start, (starts, width).
        rate: a.
        t: times.

    Returns:
        Predictions (starts, times).
    """

    def form(x: Any, y: Any) -> Any:
        return (x * (y @ matrix)).sum(axis=1)[:, None]

    plus, minus = (form(x, x) ** 0.5 for x in (v + w, v - w))
    target, at = 0.0 * plus + TARGET, 0.0 * plus + rate
    return TARGET + zeroth_residual(plus, minus, form(v, w), target, at, t[None, :])


def descend(matrix: Any, v: Any, w: Any, lr: float, time: float) -> np.ndarray:
    """Predictions (starts, times) of gradient descent at `POINTS` times up to `time`."""
    steps = round(time / lr)
    params = (jnp.asarray(v), jnp.asarray(w))
    optimizer, memory, _ = descent.choose_optimizer(params, lr, None)
    history = descent.descend(
        OneTask(jnp.asarray(matrix)),
        params,
        optimizer=optimizer,
        memory=memory,
        points=descent.log_steps(steps, steps // (POINTS - 1)),
    )
    return np.asarray(history.observed["f"])


@fig.data
def curves(settings: Any) -> xr.Dataset:
    """Gradient descent in R^d, the exact flow, and the closed form."""
    matrix = projection(settings.width, settings.seed)
    shape = (2, settings.starts, settings.width)
    v, w = np.random.default_rng(settings.seed + 1).normal(0.0, 0.1, shape)
    t = np.linspace(0.0, settings.time, POINTS)
    rates = settings.lr * 0.5 ** np.arange(settings.halvings)
    exact = [exact_flow(matrix, x, y, target=TARGET, t=t) for x, y in zip(v, w, strict=True)]
    return xr.Dataset(
        {
            "trained": (
                ("lr", "start", "time"),
                [descend(matrix, v, w, float(lr), settings.time) for lr in rates],
            ),
            "exact": (("start", "time"), np.asarray(exact)),
            "closed": (("start", "time"), np.asarray(closed_form(matrix, v, w, SCALE, t))),
        },
        coords={"time": t, "lr": rates},
    )


@fig.data
def with_context(settings: Any) -> xr.Dataset:
    """An H that has a ψ: Theorem 3.1 with both rates, and an ODE solve of (9)."""
    case, t = AlongContext(*settings.case), settings.at
    mu = case.context * case.norm  # of H² = μH, H = ψuuᵀ
    return xr.Dataset(
        {
            "with_mu": case.theorem(t, rate=mu),
            "with_psi_mu": case.theorem(t, rate=case.context * mu),
            "by_ode": case.prediction(t),
        }
    )


def _gaps(d: xr.Dataset) -> np.ndarray:
    """The largest |f_GD − f|/Λ for every learning rate."""
    return np.max(np.abs(d.trained - d.closed).values, axis=(1, 2)) / TARGET


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """Predictions in time, and how far gradient descent is from the closed form."""
    marks = []
    for k in range(3):
        here = d.isel(start=k)
        words = ("training", "theory, $a = p\\mu$") if k == 0 else ("", "")
        marks += [
            training(here.time, here.trained[0], words[0], k),
            theory(here.time, here.closed, words[1], k),
        ]
    gaps = _gaps(d)
    distance = line(d.lr, gaps, "training", marker="o", markersize=4)
    return drawn(
        Panel(
            "$t$",
            "$f$",
            marks,
            title=r"$H = \sum_{i \leq 3} 2\,u_i u_i^T$, three starts",
            where="lower right",
        ),
        Panel(
            "learning rate",
            r"$\max_t\,|f_{GD} - f|\,/\,\Lambda$",
            [distance, law(d.lr, 1.5 * gaps[0] * d.lr / d.lr[0], "∝ lr")],
            log="xy",
            title="distance to theory",
            where="upper left",
            more=[lambda axes: axes.xaxis.set_minor_formatter(NullFormatter())],
        ),
    )


@fig.claim("paper", "Fig. 7, App. H.3", word="training")
def trained(d):
    """With H² = μH gradient descent follows the closed form with a = pμ (largest
    |f − f_theory|/Λ, all starts and times)."""
    gap, lr = _gaps(d)[0], float(d.lr[0])
    words = f"lr {lr:g}, {d.sizes['start']} starts. (118) has no ψ."
    return near(gap, 0.0, 0.01, because="descent is of order lr away from its flow", note=words)


@fig.claim("paper", "Fig. 7, App. H.3")
def flow(d):
    """With H² = μH the closed form is the exact gradient flow (largest |f − f_exact|/Λ)."""
    gap = np.max(np.abs(d.closed - d.exact).values) / TARGET
    return near(gap, 0.0, 1e-10, because="quadrature and round-off of the exact flow")


@fig.claim(
    "paper",
    "App. H.3",
    quote=Quote(
        r"we now define $a_s = \#_s \psi_s \mu_s / N$",
        "App. H.3, below Eq. (117), where H is that of (9); (118), of Fig. 7, has no ψ, so that no "
        "figure is touched",
    ),
)
def rate(d):
    """The rate is a = #μ/N, where H² = μH for the H of (9) (f at t = {at} for H = ψuuᵀ, ψ = 3)."""
    found = near(
        d.with_mu,
        d.by_ode,
        1e-9,
        because="the ODE solver keeps 13 digits a step, Theorem 3.1's P and Q lose a few",
        note="ψ would have to be there only if it had been divided out of H. The witness is an "
        "ODE solve of (9).",
    )
    return corrected(found, as_printed=d.with_psi_mu)


@fig.claim("check", "Fig. 7, App. H.3")
def order(d):
    """The distance of gradient descent to the closed form falls like the learning rate (exponent
    from the two smallest)."""
    gaps = _gaps(d)
    return near(
        np.log2(gaps[-2] / gaps[-1]),
        1.0,
        0.02,
        because="the next order in lr is left out",
        note="Each learning rate is half the one before.",
    )
