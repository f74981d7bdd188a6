"""Width: the loss of one layer in time, what a finite width leaves, and when Γ stays γ·I."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np
import xarray as xr

from ...compiling import jit
from ...reproduce import Claim, Figure, Size, stage, worst_ratio
from ...style import LAW, THEORY, TOKENS, colour, loglog, panels
from .. import RotatedStructure, draw_spectra, edge, floor, loss, optimum
from ..laws import law
from ..task import rotations
from ..theory import level
from ._rotated import CLOSE, draw_kinds, draw_trained, flows, gamma_gap, gap_note, trained
from ._say import ACCOUNTS, say

NU, BETA, DIM = 1.25, 0.75, 180
TIME = 5000 * 0.25  # of Γ's entries, at the end of the listed run
WIDTHS = (16, 32, 64, 128, 180)
SEED = 0
# What a width leaves is judged here, where it is known: ν = 1.25, β = 1, D = 256.
FLOOR_TASK = {"nu": 1.25, "beta": 1.0, "dim": 256}
FLOOR_WIDTHS = [8, 16, 32, 64, 128]
KNOWN = 32
# Drawn contexts against the equivalent: γ·edge/L, depths and N; ν = 1.25, β = 1, D = 200.
LOAD, DRAWN_DEPTHS, DRAWN_WIDTH = 1.3, [1, 4, 16], 60
FAR = 1e6  # N or P, at which exponents are read, of endless directions
STEEP, STEEPER, FLAT_BETA = 1.5, 3.0, 0.5
# A share of the gradient, at the sizes of the earlier computation.
SMALL = {"nu": 1.25, "beta": 1.0, "dim": 16, "width": 8, "depth": 2}
CHUNK = 500
SETTINGS: Mapping[Size, Mapping[str, Any]] = {
    "quick": {
        "trained": [32],
        "rate": 2.5,
        "steps": 300,
        "batch": 16,
        "seed": SEED,
        "contexts": 200,
        "draws": 20_000,
    },
    "default": {
        "trained": [16, 64],
        "rate": 2.5,
        "steps": 1000,
        "batch": 16,
        "seed": SEED,
        "contexts": 1000,
        "draws": 60_000,
    },
    "full": {
        "trained": [16, 32, 64, 128, 180],
        "rate": 0.25,
        "steps": 5000,
        "batch": 256,
        "seed": SEED,
        "contexts": 10_000,
        "draws": 1_000_000,
    },
}


def _task(width: int) -> RotatedStructure:
    return RotatedStructure(NU, BETA, DIM, width=width)


def _flows() -> xr.Dataset:
    """The flow of one layer at the listed size, and its end for endless widths."""
    spent = np.geomspace(1.0, TIME * DIM, 80)  # N²t
    rows = [flows(_task(width), spent / width**2, [1])[0] for width in WIDTHS]
    # Until then 𝓛 = 1 − 4(Σaλ)² N²t/D².
    first = 1.0 - np.asarray(rows)[:, 0]
    task = _task(DIM)
    start = 4.0 * float(jnp.sum(task.share * task.lam)) ** 2 / DIM**2
    return xr.Dataset(
        {
            "flow": (("width", "spent"), np.asarray(rows)),
            "start": ("width", first / (spent[0] * start)),
        },
        coords={"width": list(WIDTHS), "spent": spent},
        attrs={"end": float(optimum(task, 1).loss)},
    )


def _floors(settings: Mapping[str, Any]) -> xr.Dataset:
    """What widths leave: the equivalent, the square as reported, and drawn contexts."""
    mean, error, theory, square = [], [], [], []
    for width in FLOOR_WIDTHS:
        task = RotatedStructure(**FLOOR_TASK, width=width)
        # With γ large enough every direction that is seen is learned.
        values = draw_spectra(task, settings["contexts"], seed=SEED).loss(gamma=1e9, depth=None)
        mean.append(values.mean())
        error.append(values.std(ddof=1) / math.sqrt(len(values)))
        theory.append(float(floor(task, "width")))
        square.append(_squared(task))
    return xr.Dataset(
        {
            "floor_drawn": ("floor_width", np.asarray(mean)),
            "floor_error": ("floor_width", np.asarray(error)),
            "floor": ("floor_width", np.asarray(theory)),
            "floor_squared": ("floor_width", np.asarray(square)),
        },
        coords={"floor_width": FLOOR_WIDTHS},
    )


def _squared(task: RotatedStructure) -> float:
    """``Σ a z²/(λ + z)²`` with ``Σ λ/(λ + z) = N``."""
    lam, share = np.asarray(task.lam), np.asarray(task.share)
    z = level(lam, float(task.width))
    return float(np.sum(share * (z / (lam + z)) ** 2))


def _drawn(settings: Mapping[str, Any]) -> xr.Dataset:
    """Drawn contexts against the equivalent at several depths, away from the edge."""
    task = RotatedStructure(1.25, 1.0, 200, width=DRAWN_WIDTH)
    gamma = [LOAD * depth / float(edge(task)) for depth in DRAWN_DEPTHS]
    spectra = draw_spectra(task, settings["contexts"], seed=SEED)
    pairs = list(zip(gamma, DRAWN_DEPTHS, strict=True))
    values = np.stack([spectra.loss(gamma=g, depth=depth) for g, depth in pairs])
    theory = [float(loss(task, gamma=g, depth=depth)) for g, depth in pairs]
    error = values.std(axis=1, ddof=1) / math.sqrt(values.shape[1])
    one = spectra.loss(gamma=1.0, depth=1)
    return xr.Dataset(
        {
            "drawn": ("drawn_depth", values.mean(axis=1)),
            "drawn_error": ("drawn_depth", error),
            "drawn_theory": ("drawn_depth", np.asarray(theory)),
        },
        coords={"drawn_depth": DRAWN_DEPTHS},
        attrs={
            "one_layer": float(one.mean()),
            "one_layer_error": float(one.std(ddof=1)) / math.sqrt(one.size),
            "one_layer_exact": _one_layer(task, 1.0),
            "one_layer_theory": float(loss(task, gamma=1.0, depth=1)),
        },
    )


def _one_layer(task: RotatedStructure, gamma: float) -> float:
    """The loss of one layer that sees a random rank-N projection, at any N and D."""
    n, d = task.width, task.dim
    lam, share = np.asarray(task.lam), np.asarray(task.share)
    below = d * (d - 1) * (d + 2)
    same, other = n * (n * d + d - 2) / below, n * (d - n) / below
    square = same * np.sum(share * lam**2) + other * lam.sum() * np.sum(share * lam)
    return float(share.sum() - 2.0 * gamma * n / d * np.sum(share * lam) + gamma**2 * square)


def _laws() -> xr.Dataset:
    """Local exponents in N and P of endless directions."""
    betas = np.array([0.25, 0.5, 0.75, 1.25, 1.5, 1.75, 2.25, 2.5, 3.0])
    found = {
        name: np.asarray([law(name, NU, beta, math.inf).at(FAR)[1] for beta in betas.tolist()])
        for name in ("width", "context")
    }
    return xr.Dataset(
        {f"{name}_exponent": ("beta", values) for name, values in found.items()},
        coords={"beta": betas},
    )


def _share(rows: np.ndarray, settings: Mapping[str, Any]) -> tuple[float, float]:
    """The part of the gradient at Γ = AAᵀ that is not along AAᵀ, and its sampling error."""
    task = RotatedStructure(SMALL["nu"], SMALL["beta"], SMALL["dim"])
    depth = SMALL["depth"]
    begin = jnp.asarray(rows @ rows.T)
    root = jnp.diag(jnp.sqrt(task.omega))

    def mean(gamma: jax.Array, key: jax.Array) -> jax.Array:
        turned = jnp.asarray(rows) @ rotations(key, CHUNK, SMALL["dim"])  # A in a context's basis

        def one(a: jax.Array) -> jax.Array:
            v = root
            for _ in range(depth):
                v = v - a.T @ (gamma @ (a @ (task.lam[:, None] * v))) / depth
            return jnp.sum(task.lam[:, None] * v**2)

        return jnp.mean(jax.vmap(one)(turned))

    slope = jit(jax.grad(mean))
    keys = jax.random.split(jax.random.key(SEED), settings["draws"] // CHUNK)
    parts = np.stack([np.asarray(slope(begin, key)) for key in keys])
    along = np.asarray(begin) / np.linalg.norm(np.asarray(begin))
    off = parts - np.sum(parts * along, axis=(1, 2))[:, None, None] * along
    size = np.linalg.norm(parts.mean(axis=0))
    spread = off.std(axis=0, ddof=1) / math.sqrt(len(parts))
    return float(np.linalg.norm(off.mean(axis=0)) / size), float(np.linalg.norm(spread) / size)


def _shares(settings: Mapping[str, Any]) -> xr.Dataset:
    generator = np.random.default_rng(SEED)
    normal = generator.standard_normal((SMALL["width"], SMALL["dim"])) / math.sqrt(SMALL["dim"])
    flat = np.linalg.qr(normal.T)[0].T
    found = np.asarray([_share(rows, settings) for rows in (flat, normal)])
    return xr.Dataset(
        {"off": ("rows", found[:, 0]), "off_error": ("rows", found[:, 1])},
        coords={"rows": ["orthonormal", "Gaussian"]},
    )


def compute(size: Size) -> xr.Dataset:
    """Flows, floors, exponents, drawn contexts and both kinds of training."""
    settings = SETTINGS[size]
    runs = [
        stage(
            f"trained-{width}",
            lambda width=width: trained(_task(width), 1, settings["rate"], settings),
        )
        for width in settings["trained"]
    ]
    parts = [
        stage("flows", _flows),
        stage("floors", lambda: _floors(settings)),
        stage("drawn", lambda: _drawn(settings)),
        stage("laws", _laws),
        stage("shares", lambda: _shares(settings)),
        xr.concat(runs, xr.IndexVariable("trained", settings["trained"])),
    ]
    whole = xr.merge(parts, combine_attrs="no_conflicts")
    return whole.assign_attrs(rate=settings["rate"])


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """Loss against N²t, floors against N, and exponents against β."""
    figure, (time, floors, powers) = panels(3)
    for k, width in enumerate(data.width.values):
        line = data.flow.sel(width=width)
        time.plot(data.spent, line, color=colour(k), label=f"$N = {width}$", **THEORY)
        if width in data.trained.values:
            run = data.sel(trained=width)
            draw_trained(time, run, data.attrs["rate"] * width * data.step.values, k)
    time.axhline(data.attrs["end"], label=r"$N \to \infty$", **LAW)
    draw_kinds(time)
    loglog(time, r"N^2 t", r"\mathcal{L}", f"$L = 1$, $D = {DIM}$")
    time.set_xlim(1e2, None)
    time.set_ylim(0.09, 1.1)
    time.set_yticks([0.1, 0.2, 0.4, 0.6, 1.0], ["0.1", "0.2", "0.4", "0.6", "1"])
    time.minorticks_off()
    time.legend(fontsize=7.0, ncols=2, loc="lower left")
    floors.errorbar(
        data.floor_width,
        data.floor_drawn,
        yerr=3.0 * data.floor_error,
        color=colour(0),
        label="drawn contexts",
        **TOKENS,
    )
    words = r"$\sum_k a_k z_N/(\lambda_k + z_N)$"
    floors.plot(data.floor_width, data.floor, color=colour(0), label=words, **THEORY)
    words = r"$\sum_k a_k z_N^2/(\lambda_k + z_N)^2$, as reported"
    floors.plot(data.floor_width, data.floor_squared, color=colour(1), label=words, **THEORY)
    loglog(floors, "N", r"\mathcal{L}_N", "$L = t = \\infty$, $D = 256$")
    floors.legend(fontsize=7.0, loc="lower left")
    fine = np.linspace(0.0, 3.0, 121)
    for k, (name, letter, cap) in enumerate((("width", "N", 1.0), ("context", "P", 2.0))):
        found = data[f"{name}_exponent"]
        words = rf"in ${letter}$; $\nu\,\min(\beta, {cap:g})$"
        powers.plot(data.beta, found, color=colour(k), **TOKENS)
        powers.plot(fine, NU * np.minimum(fine, cap), color=colour(k), label=words, **THEORY)
    powers.plot(fine, NU * fine, label=r"$\nu\beta$, as reported", **LAW)
    powers.set_xlabel(r"$\beta$")
    powers.set_ylabel("exponent")
    powers.set_title(rf"$\nu = {NU:g}$, $N$ or $P = 10^6$, $D = \infty$", fontsize=9.0)
    powers.legend(fontsize=7.5, loc="upper left")
    return figure


SUMMARY = "accounts: summary law"
_say = partial(say, "width")
COLLAPSE = _say(
    "new",
    "collapse",
    "Early losses of all widths are one function of N²t: 𝓛 = 1 − 4(Σaλ)² N²t/D² (largest relative "
    "gap of 1 − 𝓛 at N²t = 1).",
)
TOKENS_CLAIM = _say(
    "check",
    "tokens",
    "Γ trained on fresh contexts, N × N, stays γI with the γ of the equivalent (largest relative "
    "gap of its mean diagonal from a tenth of the runs on, L = 1).",
)
ONE = _say(
    "new",
    "one-layer",
    "One layer's loss is Σa − 2γ(N/D)Σaλ + γ²(c₁Σaλ² + c₂ΣλΣaλ) at any N and D, "
    "c₁ = N(ND+D−2)/(D(D−1)(D+2)), c₂ = N(D−N)/(D(D−1)(D+2)) (mean over drawn contexts, D = 200, "
    "N = 60, γ = 1; within 3 standard errors).",
)
DRAWN = _say(
    "check",
    "drawn",
    f"The equivalent is the mean over drawn contexts (D = 200, N = {DRAWN_WIDTH}, L = 1, 4, 16, "
    f"γ·edge/L = {LOAD}; largest relative gap beyond 3 standard errors).",
)
FLOOR = _say(
    "new",
    "floor",
    f"With endless depth and time the width leaves Σ a z/(λ + z), Σ λ/(λ + z) = N (mean over drawn "
    f"contexts, N = {KNOWN}, D = 256, ν = 1.25, β = 1).",
)
FLOOR_REPORTED = _say(
    "reported",
    "floor-reported",
    "With endless depth and time the width is reported to leave Σ a z²/(λ + z)², Σ λ/(λ + z) = N "
    f"(mean over drawn contexts, N = {KNOWN}, D = 256, ν = 1.25, β = 1).",
    "a port and a note on the paper",
    known="fails",
)
BELOW = _say(
    "reported",
    "exponent",
    f"What a width leaves falls as N^-νβ for β < 1 (local exponent at N = 10⁶, β = {FLAT_BETA:g}).",
    SUMMARY,
)
ABOVE = _say(
    "new",
    "exponent-steep",
    f"What a width leaves falls as N^-ν for β > 1 (β = {STEEP:g}).",
)
ABOVE_REPORTED = _say(
    "reported",
    "exponent-steep-reported",
    f"Reported without a range of β: what a width leaves falls as N^-νβ, at β = {STEEP:g} (local "
    "exponent at N = 10⁶).",
    SUMMARY,
    known="fails",
)
CONTEXT = _say(
    "reported",
    "context-exponent",
    f"The context leaves P^-νβ for β < 2 (local exponent at P = 10⁶, β = {STEEP:g}).",
    SUMMARY,
)
CONTEXT_ABOVE = _say(
    "new",
    "context-exponent-steep",
    f"The context leaves P^-2ν for β > 2 (β = {STEEPER:g}).",
)
CONTEXT_ABOVE_REPORTED = _say(
    "reported",
    "context-exponent-steep-reported",
    f"Reported without a range of β: the context leaves P^-νβ, at β = {STEEPER:g} (local exponent "
    "at P = 10⁶).",
    SUMMARY,
    known="fails",
)
ALIGNED = _say(
    "reported",
    "flat",
    "Training keeps Γ = γAAᵀ, A having singular values that are all equal, as in the reported "
    "simulations: the part of the population gradient at Γ = AAᵀ that is not along AAᵀ "
    "(orthonormal rows, D = 16, N = 8, L = 2).",
    "accounts: Γ = γAAᵀ, with the A of the reported simulations",
)


def claims(data: xr.Dataset) -> list[Claim]:
    """The collapse, floors, exponents, and when Γ stays along AAᵀ."""
    known = data.sel(floor_width=KNOWN)
    beyond = abs(data.drawn / data.drawn_theory - 1.0) - 3.0 * data.drawn_error / data.drawn_theory
    flat, normal = data.sel(rows="orthonormal"), data.sel(rows="Gaussian")
    exact = data.attrs["one_layer_exact"]
    near = float(known.floor) / KNOWN + 3.0 * float(known.floor_error)
    widths = ", ".join(map(str, data.trained.values))

    def exponent(name: str, beta: float) -> float:
        return float(data[f"{name}_exponent"].sel(beta=beta))

    return [
        COLLAPSE.judge(0.0, worst_ratio(data.start, 1.0), 1e-3),
        TOKENS_CLAIM.judge(
            0.0,
            gamma_gap(data),
            CLOSE,
            note=f"N = {widths}; {int(data.step[-1])} steps of η = {data.attrs['rate']:g}. "
            f"{gap_note(data)}",
        ),
        ONE.judge(
            exact,
            data.attrs["one_layer"],
            3.0 * data.attrs["one_layer_error"],
            note=f"The equivalent has {data.attrs['one_layer_theory']:.6f}, "
            f"{data.attrs['one_layer_theory'] / exact - 1.0:.1e} off.",
        ),
        DRAWN.judge(
            0.0,
            max(float(beyond.max()), 0.0),
            2.0 / DRAWN_WIDTH,  # the equivalent's own error
            note=f"Largest gap {worst_ratio(data.drawn, data.drawn_theory):.4f}.",
        ),
        FLOOR.judge(
            known.floor,
            known.floor_drawn,
            near,
            note="Allowed are 1/N and 3 standard errors.",
        ),
        FLOOR_REPORTED.judge(
            known.floor_squared,
            known.floor_drawn,
            near,
            note=f"{ACCOUNTS} What is left is an orthogonal projection, which is its own square: "
            "of first order in z/(λ + z).",
        ),
        BELOW.judge(NU * FLAT_BETA, exponent("width", FLAT_BETA), 0.01),
        ABOVE.judge(NU, exponent("width", STEEP), 0.02),
        ABOVE_REPORTED.judge(
            NU * STEEP,
            exponent("width", STEEP),
            0.02,
            note=f"{ACCOUNTS} Σ a z/(λ + z) is at least of order z ∝ N^-ν, whatever β: it holds "
            "for β < 1.",
        ),
        CONTEXT.judge(NU * STEEP, exponent("context", STEEP), 0.02),
        CONTEXT_ABOVE.judge(2.0 * NU, exponent("context", STEEPER), 0.02),
        CONTEXT_ABOVE_REPORTED.judge(
            NU * STEEPER,
            exponent("context", STEEPER),
            0.02,
            note=f"{ACCOUNTS} Σ a z²/(λ + z)² is at least of order z² ∝ P^-2ν, whatever β: it "
            "holds for β < 2.",
        ),
        # Where nothing but sampling is left, the norm is its standard error, to a tenth or so.
        ALIGNED.judge(
            0.0,
            flat.off,
            1.5 * float(flat.off_error),
            note=f"The sampling error is {float(flat.off_error):.4f}. With Gaussian A the part is "
            f"{float(normal.off):.4f}: directions with different singular values move at different "
            "paces.",
        ),
    ]


FIGURE = Figure(
    id="deep_icl/width",
    title="Width: the loss against N²t, what a finite width leaves, and its exponent",
    settings=SETTINGS,
    constants={
        "nu": NU,
        "beta": BETA,
        "dim": DIM,
        "widths": WIDTHS,
        "floor": FLOOR_TASK,
        "gradient": SMALL,
    },
    statements=(
        COLLAPSE,
        TOKENS_CLAIM,
        ONE,
        DRAWN,
        FLOOR,
        FLOOR_REPORTED,
        BELOW,
        ABOVE,
        ABOVE_REPORTED,
        CONTEXT,
        CONTEXT_ABOVE,
        CONTEXT_ABOVE_REPORTED,
        ALIGNED,
    ),
    compute=compute,
    draw=draw,
    claims=claims,
    note=(
        "ν = 1.25, β = 0.75, D = 180, L = 1, endless contexts; widths beyond D, listed up to 256, "
        "mean nothing here and D stands for them. t is the time of the scalar γ, of which a step "
        "of Γ is η/N. Listed are η = 0.25, B = 256 contexts a step and T = 5000 steps, which only "
        "the full size trains; below it η = 2.5, B = 16 and fewer steps. The width is an exact "
        "projection of rank N. At β = 1 the floor has a logarithm beside its power."
    ),
    seed=SEED,
)
