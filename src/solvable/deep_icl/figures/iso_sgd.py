"""SGD of one layer on finite batches of isotropic contexts, and its recursion of one number."""

import math
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, Finding, at_most, near, settings_of, step
from ...reproduce.panels import Mark, Panel, drawn, entry, theory, training
from ...style import THEORY, TRAINING, colour
from .. import Isotropic, SgdCurve, SgdRun, sgd_curve, train_sgd

BLOCK = 25  # steps of which the means are independent
SYMBOLS = {"tau": r"\tau", "alpha": r"\alpha", "kappa": r"\kappa"}
SOURCE = "accounts: ISO SGD"

fig = Figure(
    "deep_icl/iso-sgd",
    "Isotropic contexts: SGD of one layer on finite batches",
    settings={
        "quick": {"dim": 20, "values": (0.4,), "sizes": ((16, 600), (32, 200))},
        "default": {"dim": 32, "values": (0.1, 0.4, 1.6)}
        | {"sizes": ((16, 1200), (32, 500), (48, 200))},
        "full": {"dim": 256, "values": (0.1, 0.2, 0.4, 0.8, 1.6)}
        | {"sizes": ((32, 8000), (64, 4000), (128, 2000), (256, 1000))},
    },
    constants={
        "lr": 0.03,
        "steps": 100,
        # A panel each: what is swept of τ = B/D, α = P/D, κ = K/D, and where the others rest.
        "sweeps": {
            "batch": ("tau", {"alpha": 1.0, "kappa": 4.0}),
            "context": ("alpha", {"tau": 1.0, "kappa": 4.0}),
            "queries": ("kappa", {"tau": 1.0, "alpha": 1.0}),
            "long": ("tau", {"alpha": 8.0, "kappa": 2.0}),
        },
        # Where C settles, and after how many steps it is averaged over time.
        "settle": {
            "check": {"tau": 1.0, "alpha": 1.0, "kappa": 4.0, "lr": 0.1, "begin": 40},
            "noisy": {"tau": 1.0, "alpha": 1.0, "kappa": 0.5, "lr": 0.05, "noise": 0.5}
            | {"begin": 80},
        },
    },
    note=(
        "η = 0.03, 100 steps and the sweeps as reported; D = 256 at full size only. B, P and K are "
        "whole numbers, and the recursion has their own ratios to D. One seed a curve. η is that "
        "of the step Γ ← Γ + (η/B) Σ Ω̂(b − Γu)uᵀ, with the 2/D of the gradient in it."
    ),
)


def _numbers(dim: int, at: Any) -> tuple[int, int, int]:
    """B, P and K: whole numbers."""
    return tuple(max(1, round(at[x] * dim)) for x in SYMBOLS)  # pyright: ignore


def _run(dim: int, at: Any, lr: float, steps: int, seed: int) -> tuple[SgdRun, SgdCurve]:
    """A simulation, and the recursion at its own B/D, P/D and K/D; noise is of queries, too."""
    contexts, labelled, queries = _numbers(dim, at)
    noise = at.get("noise", 0.0)
    task, noisy = Isotropic(labelled / dim, noise, dim=dim), noise > 0.0
    how: dict[str, Any] = {"lr": lr, "steps": steps, "noisy_queries": noisy}
    sizes: dict[str, Any] = {"contexts": contexts, "queries": queries, "seed": seed}
    run = train_sgd(task, **sizes, **how, progress=step)
    return run, sgd_curve(task, batch=contexts / dim, queries=queries / dim, **how)


def _settles(dim: int, at: Any) -> float:
    """Where C settles at finite D, B, P and K, without noise: exactly.

    ``u = Σ̂b`` has ``|u|² = |b|² t (t + q/P)`` and ``u·b = |b|² t``, with t and q independent,
    ``Pt ~ χ²_P`` and ``q ~ χ²_(D−1)``; and ``E Ω̂² = (1 + (D + 1)/K) I``.
    """
    b, p, k = _numbers(dim, at)
    eta, q1, q2 = at["lr"], (dim - 1) / p, (dim - 1) * (dim + 1) / p**2  # moments of q/P
    t1, t2, t3, t4 = np.cumprod([1.0 + 2.0 * i / p for i in range(4)])
    curvature, blur = t2 + t1 * q1, 1.0 + (dim + 1.0) / k
    best = 1.0 / curvature  # Γ* = I E b·u / E |u|²
    fourth = t4 + 2.0 * t3 * q1 + t2 * q2  # E |u|⁴ over E |b|⁴ = D(D + 2)
    missed = t2 + t1 * q1 - 2.0 * best * (t3 + t2 * q1) + best**2 * fourth  # E |u|²|b − Γ*u|²
    kept = 1.0 - 2.0 * eta * curvature + eta**2 * (1.0 - 1.0 / b) * curvature**2
    kept += eta**2 * blur * (dim + 2.0) * fourth / b
    level = eta**2 * blur * (dim + 2.0) * missed / b / (1.0 - kept)
    return level + (best - 1.0 / (1.0 + 1.0 / at["alpha"])) ** 2


@fig.data
def sweeps(settings: Any) -> xr.Dataset:
    """|I − Γ|²/D in time, of every value that is swept."""
    found: dict[str, Any] = {}
    for name, (swept, rest) in settings.sweeps.items():
        places = [{**rest, swept: value} for value in settings.values]
        how = settings.lr, settings.steps, settings.seed
        pairs = [_run(settings.dim, at, *how) for at in places]
        runs, told = [run.loss for run, _ in pairs], [curve.far_loss for _, curve in pairs]
        least = [min(settings.dim, *_numbers(settings.dim, at)) for at in places]
        found[f"{name}_run"] = (("value", "step"), np.asarray(runs))
        found[f"{name}_theory"] = (("value", "step"), np.asarray(told))
        found[f"{name}_least"] = ("value", least)
    return xr.Dataset(
        found, {"value": list(settings.values), "step": np.arange(settings.steps + 1)}
    )


@fig.data
def settled(settings: Any) -> xr.Dataset:
    """C when it has settled, at growing D, beside the recursion."""
    found: dict[str, Any] = {}
    for name, at in settings.settle.items():
        begin, means, errors, first, told = at["begin"], [], [], np.zeros(0), np.zeros(0)
        for dim, steps in settings.sizes:
            run, curve = _run(dim, at, at["lr"], begin + steps, settings.seed)
            blocks = np.asarray(run.distance)[begin + 1 :].reshape(-1, BLOCK).mean(axis=1)
            first, told = (np.asarray(x.distance)[: begin + 1] for x in (run, curve))
            means.append(blocks.mean() / float(curve.floor))
            errors.append(blocks.std(ddof=1) / math.sqrt(blocks.size) / float(curve.floor))
            found[f"{name}_floor"] = float(curve.floor)
        found |= {f"{name}_ratio": ("dim", means), f"{name}_error": ("dim", errors)}
        found |= {f"{name}_first": (f"{name}_step", first), f"{name}_curve": (f"{name}_step", told)}
    check, sizes = settings.settle["check"], settings.sizes
    exact = [_settles(dim, check) / found["check_floor"] for dim, _ in sizes]
    found["check_exact"] = ("dim", exact)
    at = settings.settle["noisy"]
    place = {"lr": at["lr"], "steps": 1, "batch": at["tau"], "queries": at["kappa"]}
    found["quiet_floor"] = float(sgd_curve(Isotropic(at["alpha"], at["noise"]), **place).floor)
    return xr.Dataset(found, {"dim": [dim for dim, _ in sizes]})


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """|I − Γ|²/D in time for each sweep, C at one place, and how its gap falls with D."""
    settings, panels = settings_of(d), []
    for name, (swept, rest) in settings.sweeps.items():
        marks = []
        for k, value in enumerate(settings.values):
            here, words = d.sel(value=value), f"${SYMBOLS[swept]} = {value:g}$"
            marks.append(training(d.step, here[f"{name}_run"], "", k))
            marks.append(theory(d.step, here[f"{name}_theory"], words, k))
        if not panels:
            marks.append(entry(f"SGD, $D = {settings.dim}$", color="0.3", **TRAINING))
            marks.append(entry("recursion", color="0.3", **THEORY))
        title = ", ".join(f"${SYMBOLS[x]} = {y:g}$" for x, y in rest.items())
        most = 1.3 * max(1.0, *(float(d[f"{name}_{x}"].max()) for x in ("run", "theory")))
        top = {"ylim": (0.0, most), "where": "upper right", "legend": 7.0}
        panels.append(Panel("step", r"$|I - \Gamma|^2/D$", marks, title=title, **top))
    at = settings.settle["check"]
    path = [training(d.check_step, d.check_first, f"SGD, $D = {int(d.dim[-1])}$")]
    path.append(theory(d.check_step, d.check_curve, "recursion"))
    title = rf"$\tau = \alpha = 1$, $\kappa = 4$, $\eta = {at['lr']:g}$"
    c, gaps = r"$C = |\Gamma - \Gamma^*|^2/D$", []
    for k, (name, words) in enumerate({"check": "as (e)", "noisy": "noisy queries"}.items()):
        gaps.append(_bars(d.dim, d[f"{name}_ratio"] - 1.0, 2.0 * d[f"{name}_error"], words, k))
    gaps.append(theory(d.dim, d.check_exact - 1.0, "exact at finite $D$, of (e)"))
    panels.append(Panel("step", c, path, "y", title))
    axis = [_ticks(d.dim.values)]
    panels.append(
        Panel("$D$", "SGD / recursion $-$ 1", gaps, "xy", "$C$ when it has settled", more=axis)
    )
    return drawn(*panels, rows=2)


def _bars(x: Any, y: Any, error: Any, label: str, k: int) -> Mark:
    look: dict[str, Any] = {"yerr": error, "color": colour(k), "label": label, "fmt": "o"}
    return Mark(lambda axes: axes.errorbar(x, y, markersize=4.0, capsize=2.0, **look))


def _ticks(values: Any) -> Any:
    def put(axes: Any) -> None:
        axes.set_xticks(values, [f"{x:g}" for x in values])
        axes.set_xticks([], minor=True)

    return put


def _extrapolated(d: xr.Dataset, name: str, note: str = "") -> Finding:
    """C at D → ∞ over the recursion, from the two largest D, the gap being O(1/D)."""
    ratio, error, dims = d[f"{name}_ratio"].values, d[f"{name}_error"].values, d.dim.values
    part = float(dims[-1] / dims[-2])
    weights = np.array([-1.0, part]) / (part - 1.0)
    slack = 3.0 * np.hypot(*(weights * error[-2:])) + abs(np.prod(ratio[-2:] - 1.0))
    found = zip(ratio, error, dims, strict=True)
    words = "SGD over recursion " + ", ".join(f"{r:.3f} ± {e:.3f} (D = {n})" for r, e, n in found)
    because = "3 standard errors over time, and for the next order the square of the gaps"
    return near(weights @ ratio[-2:], 1.0, slack, because=because, note=f"{words}. {note}".strip())


@fig.claim("reported", SOURCE)
def recursion(d):
    """C = |Γ − Γ*|²/D follows C ← aC + b with a = (1−ηc)² + (η²/τ)(1+1/κ)c² and b =
    (η²/τ)(1+1/κ)(c−1): where C settles at τ = α = 1, κ = 4, η = 0.1 (simulation extrapolated to
    D → ∞, over the recursion)."""
    return _extrapolated(d, "check")


@fig.claim("new", "derived")
def finite_size(d):
    """At finite D, B, P and K as well C has a recursion of its own, exactly (where C settles as
    before, simulation over its floor, the D furthest off in standard errors)."""
    ratio, error = d.check_ratio / d.check_exact, d.check_error / d.check_exact
    far = int(abs((ratio - 1.0) / error).argmax("dim"))
    pairs = zip(d.check_exact.values, d.dim.values, strict=True)
    words = "Over the recursion of large D: " + ", ".join(f"{x:.4f} (D = {n})" for x, n in pairs)
    because = "3.5 standard errors over time, of the furthest of a few D"
    slack = 3.5 * float(error[far])
    return near(ratio[far], 1.0, slack, because=because, note=f"{words}.")


@fig.claim("reported", SOURCE)
def curves(d):
    """Along all curves |I − Γ|²/D is that of the recursion, up to finite size (largest relative gap
    times the smallest of D, B, P, K)."""
    gaps, scaled = [], []
    for name in settings_of(d).sweeps:
        gap = abs(d[f"{name}_run"] / d[f"{name}_theory"] - 1.0).max("step")
        gaps.append(gap.values)
        scaled.append((gap * d[f"{name}_least"]).values)
    words = f"Largest gap {np.max(gaps):.1%}, median over curves {np.median(gaps):.1%}."
    because = "D, B, P and K each bring a next order, of about one over themselves"
    return at_most(np.max(scaled), 4.0, because=because, note=words)


@fig.claim("new", "derived")
def noisy_queries(d):
    """Noisy labels of queries add (η²/τ)σ²c/κ to b (where C settles at τ = α = 1, κ = ½, σ = ½, η =
    0.05; simulation extrapolated to D → ∞, over the recursion)."""
    quiet = float(d.quiet_floor / d.noisy_floor)
    return _extrapolated(d, "noisy", f"Without the term the recursion has {quiet:.2f} of it.")


FIGURE = fig
