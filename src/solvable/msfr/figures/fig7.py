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
from ...reproduce import Claim, Figure, Quote, Size, Statement, stage
from ...reproduce.claim import Kind
from ...style import THEORY, TRAINING, colour, panels
from .. import exact_flow
from ..theory import zeroth_residual

SEED = 0
TARGET = 1.0  # Λ
SCALE = 2.0  # μ
EXAMPLES = 3  # ψ: as many as H has terms
POINTS = 161  # times at which curves are compared
SETTINGS: dict[Size, dict[str, Any]] = {
    "quick": {"width": 10, "starts": 3, "lr": 1e-3, "halvings": 3, "time": 4.0},
    "default": {"width": 10, "starts": 6, "lr": 1e-3, "halvings": 4, "time": 4.0},
    "full": {"width": 10, "starts": 50, "lr": 1e-3, "halvings": 7, "time": 4.0},
}

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


def projection(width: int) -> np.ndarray:
    """``H = Σ_{i≤3} μ u_i u_iᵀ`` with orthonormal u_i, so that ``H² = μH``."""
    normal = np.random.default_rng(SEED).normal(size=(width, EXAMPLES))
    u = np.linalg.qr(normal)[0]
    return SCALE * u @ u.T


def closed_form(matrix: Any, v: Any, w: Any, rate: float, t: Any) -> Array:
    """Theorem 3.1 with ``g = ηᵀHη``, ``h = ρᵀHρ`` and any rate a, at p = 1.

    Args:
        matrix: H with ``H² = μH``.
        v, w: initial parameters of every start, (starts, width).
        rate: a.
        t: times.

    Returns:
        Predictions (starts, times).
    """
    matrix, v, w, t = (jnp.asarray(x) for x in (matrix, v, w, t))

    def form(x: Array, y: Array) -> Array:
        return jnp.sum(x * (y @ matrix), axis=1)[:, None]

    plus, minus = (jnp.sqrt(form(x, x)) for x in (v + w, v - w))
    target, at = jnp.full_like(plus, TARGET), jnp.full_like(plus, rate)
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


def _curves(settings: dict) -> xr.Dataset:
    matrix = projection(settings["width"])
    v, w = np.random.default_rng(SEED + 1).normal(
        0.0, 0.1, (2, settings["starts"], settings["width"])
    )
    t = np.linspace(0.0, settings["time"], POINTS)
    rates = settings["lr"] * 0.5 ** np.arange(settings["halvings"])
    exact = [exact_flow(matrix, x, y, target=TARGET, t=t) for x, y in zip(v, w, strict=True)]
    return xr.Dataset(
        {
            "trained": (
                ("lr", "start", "time"),
                [descend(matrix, v, w, float(lr), settings["time"]) for lr in rates],
            ),
            "exact": (("start", "time"), np.asarray(exact)),
            "closed": (("start", "time"), np.asarray(closed_form(matrix, v, w, SCALE, t))),
            "printed": (
                ("start", "time"),
                np.asarray(closed_form(matrix, v, w, EXAMPLES * SCALE, t)),
            ),
        },
        coords={"time": t, "lr": rates},
    )


def compute(size: Size) -> xr.Dataset:
    """Gradient descent in R^d, the exact flow, and the closed form with both rates."""
    return stage("curves", lambda: _curves(SETTINGS[size]))


def _gaps(data: xr.Dataset) -> np.ndarray:
    """The largest |f_GD − f|/Λ for every learning rate."""
    return np.max(np.abs(data.trained - data.closed).values, axis=(1, 2)) / TARGET


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """Predictions in time, and how far gradient descent is from the closed form."""
    figure, (left, right) = panels(2)
    for k in range(3):
        here = data.isel(start=k)
        words = ("training", "theory, $a = p\\mu$", "as printed, $a = p\\mu\\psi$")
        labels = words if k == 0 else ("", "", "")
        left.plot(here.time, here.trained[0], color=colour(k), label=labels[0], **TRAINING)
        left.plot(here.time, here.closed, color=colour(k), label=labels[1], **THEORY)
        if k == 0:
            left.plot(
                here.time, here.printed, color=colour(k), label=labels[2], ls="-.", linewidth=1.0
            )
    left.set_xlabel("$t$")
    left.set_ylabel("$f$")
    left.set_title(r"$H = \sum_{i \leq 3} 2\,u_i u_i^T$, three starts", fontsize=9.0)
    left.legend(loc="lower right")
    gaps = _gaps(data)
    right.loglog(data.lr, gaps, "o-", color=colour(0), markersize=4, label="training")
    right.loglog(data.lr, 1.5 * gaps[0] * data.lr / data.lr[0], ":", color="0.35", label="∝ lr")
    right.xaxis.set_minor_formatter(NullFormatter())
    right.set_xlabel("learning rate")
    right.set_ylabel(r"$\max_t\,|f_{GD} - f|\,/\,\Lambda$")
    right.set_title("distance to theory", fontsize=9.0)
    right.legend(loc="upper left")
    return figure


def _say(word: str, kind: Kind, text: str, quote: Quote | None = None) -> Statement:
    return Statement(f"msfr/fig7/{word}", text, "Fig. 7, App. H.3", kind, quote)


TRAINED = _say(
    "training",
    "paper",
    "With H² = μH gradient descent follows the closed form with a = pμ "
    "(largest |f − f_theory|/Λ, all starts and times).",
    Quote(
        r"we now define $a_s = \#_s \psi_s \mu_s / N$",
        "App. H.3, below Eq. (117); (118) does not change",
    ),
)
FLOW = _say(
    "flow",
    "paper",
    "With H² = μH the closed form is the exact gradient flow (largest |f − f_exact|/Λ).",
)
ORDER = _say(
    "order",
    "check",
    "The distance of gradient descent to the closed form falls like the learning rate "
    "(exponent from the two smallest).",
)


def claims(data: xr.Dataset) -> list[Claim]:
    """Training against theory with both rates, and theory against the exact flow."""
    gaps = _gaps(data)
    printed = np.max(np.abs(data.trained[0] - data.printed).values) / TARGET
    flow = np.max(np.abs(data.closed - data.exact).values) / TARGET
    return [
        TRAINED.judge(
            0.0,
            gaps[0],
            0.01,
            as_printed=printed,
            note=f"lr {float(data.lr[0]):g}, {data.sizes['start']} starts. (118) has no ψ: in the "
            f"printed form it is {EXAMPLES}, as many examples as H has terms. Only at ψ = 1 do the "
            "two agree.",
        ),
        FLOW.judge(0.0, flow, 1e-10),
        ORDER.judge(
            1.0,
            np.log2(gaps[-2] / gaps[-1]),
            0.02,
            note="Each learning rate is half the one before.",
        ),
    ]


FIGURE = Figure(
    id="msfr/fig7",
    title="One task whose H is a multiple of a projection",
    settings=SETTINGS,
    statements=(TRAINED, FLOW, ORDER),
    compute=compute,
    draw=draw,
    claims=claims,
    note="The paper gives H. Ours: d = 10, Λ = p = 1, v, w ~ N(0, 0.1²), lr 1e-3, random "
    "orthonormal u_i, several starts.",
    seed=SEED,
)
