"""SGD of one layer on finite batches of isotropic contexts, and its recursion of one number."""

import math
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, Finding, near, settings_of, step
from ...reproduce.panels import Mark, Panel, drawn, entry, theory, training
from ...style import THEORY, TRAINING, colour
from .. import Isotropic, SgdCurve, SgdRun, sgd_curve, train_sgd
from ._seeds import beyond, mean_of

NODES = 6  # of rules that are exact for polynomials of degree 11
ENDLESS = 10**7  # D of the limit
BLOCK = 25  # steps of which the means are independent
SYMBOLS = {"tau": r"\tau", "alpha": r"\alpha", "kappa": r"\kappa"}
SOURCE = "accounts: ISO SGD"

fig = Figure(
    "deep_icl/iso-sgd",
    "Isotropic contexts: SGD of one layer on finite batches",
    settings={
        "quick": {"dim": 20, "values": (0.4,), "seeds": 8, "sizes": ((16, 600), (32, 200))},
        "default": {"dim": 32, "values": (0.1, 0.4, 1.6), "seeds": 8}
        | {"sizes": ((16, 1200), (32, 500), (48, 200))},
        "full": {"dim": 256, "values": (0.1, 0.2, 0.4, 0.8, 1.6), "seeds": 4}
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
        "whole numbers, and the recursion has their own ratios to D. Curves show one seed. η is "
        "that of the step Γ ← Γ + (η/B) Σ Ω̂(b − Γu)uᵀ, with the 2/D of the gradient in it."
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


def _moments(dim: int, at: Any) -> tuple[float, ...]:
    """Of ``u = Σ̂b + √D σXᵀε/P``: E b·u, E |u|², E |u|²b·u, E |u|⁴ and E |u|²|b|², each over D.

    Given the labels, ``|y|²/P = St`` with S = |b|² + Dσ² and Pt ~ χ²_P, u is Gaussian: of mean tb
    and covariance ``(St/P)(I − bbᵀ/S)``. Gauss rules in |b|², t, the normal number along b and the
    χ² across are exact.
    """
    p, noise = _numbers(dim, at)[1], at.get("noise", 0.0)
    normal, chance = np.polynomial.hermite_e.hermegauss(NODES)
    rules = [_squares(dim), _squares(p), _squares(dim - 1), (normal, chance / chance.sum())]
    square, t, across, along = np.meshgrid(*(x for x, _ in rules), indexing="ij")
    weight = math.prod(np.meshgrid(*(w for _, w in rules), indexing="ij"))
    t = t / p
    whole = square + dim * noise**2
    ahead = np.sqrt(square) * t + np.sqrt(t / p * (whole - square)) * along
    size, line = ahead**2 + whole * t / p * across, np.sqrt(square) * ahead
    found = (line, size, size * line, size**2, size * square)
    return tuple(float(np.sum(weight * x)) / dim for x in found)


def _squares(count: int) -> tuple[np.ndarray, np.ndarray]:
    """The Gauss rule of χ² with so many degrees of freedom."""
    k, shape = np.arange(NODES, dtype=float), count / 2.0
    off = np.sqrt(k[1:] * (k[1:] + shape - 1.0))
    x, v = np.linalg.eigh(np.diag(2.0 * k + shape) + np.diag(off, 1) + np.diag(off, -1))
    return 2.0 * x, v[0] ** 2


def _exact(dim: int, at: Any, lr: float, steps: int) -> tuple[np.ndarray, np.ndarray, float]:
    """At finite D, B, P and K, exactly: of EΓ = mI the m, and E|Γ − mI|²/D, after every step, and
    where C settles; queries' labels are noisy where the context's are."""
    (b, _, k), noise = _numbers(dim, at), at.get("noise", 0.0)
    line, curvature, third, fourth, square = _moments(dim, at)
    best, blur = line / curvature, 1.0 + (dim + 1.0) / k  # Γ*; E Ω̂² = blur I
    missed = blur * (square - 2.0 * best * third + best**2 * fourth)  # E |Ω̂(b − Γ*u)|²|u|²/D
    missed += dim**2 * noise**2 * curvature / k
    each = lr**2 / b
    kept = 1.0 - 2.0 * lr * curvature + (lr**2 - each) * curvature**2 + each * blur * fourth
    away, square = -best, best**2  # m − Γ*, E|Γ − Γ*|²/D
    rows = [(away, square)]
    for _ in range(steps):
        square = kept * square + each * (missed - 2.0 * blur * away * (third - best * fourth))
        away *= 1.0 - lr * curvature
        rows.append((away, square))
    means, squares = np.asarray(rows).T
    level = each * missed / (1.0 - kept) + (best - _aim(at)) ** 2
    return best + means, squares - means**2, level


def _aim(at: Any) -> float:
    """Γ* at D → ∞."""
    return 1.0 / (1.0 + (1.0 + at.get("noise", 0.0) ** 2) / at["alpha"])


@fig.data
def sweeps(settings: Any) -> xr.Dataset:
    """|I − Γ|²/D in time, of every value that is swept, and what the noise of SGD adds to it."""
    found: dict[str, Any] = {}
    for name, (swept, rest) in settings.sweeps.items():
        places = [{**rest, swept: value} for value in settings.values]
        how, rows = (settings.lr, settings.steps), []
        for at in places:
            aim = _aim({"alpha": _numbers(settings.dim, at)[1] / settings.dim})
            seeds = range(settings.seed, settings.seed + settings.seeds)
            runs = [_run(settings.dim, at, *how, seed) for seed in seeds]
            mean, noise, _ = _exact(settings.dim, at, *how)
            parts = [_spread(run, mean, aim)[1:].mean() for run, _ in runs]
            (run, curve), told = runs[0], noise[1:].mean()
            limit = (curve.far_loss - (1.0 - _noiseless(aim, *how)) ** 2)[1:].mean()
            rows.append((run.loss, curve.far_loss, np.asarray(parts) / told, limit / told))
        first, second, ratios, limits = zip(*rows, strict=True)
        found[f"{name}_run"] = (("value", "step"), np.asarray(first))
        found[f"{name}_theory"] = (("value", "step"), np.asarray(second))
        found[f"{name}_noise"] = (("value", "run"), np.asarray(ratios))
        found[f"{name}_limit"] = ("value", np.asarray(limits))
    return xr.Dataset(
        found, {"value": list(settings.values), "step": np.arange(settings.steps + 1)}
    )


def _spread(run: SgdRun, mean: np.ndarray, aim: float) -> np.ndarray:
    """|Γ − mI|²/D of a run, from |Γ − I|²/D and |Γ − Γ*|²/D."""
    loss, distance = np.asarray(run.loss), np.asarray(run.distance)
    trace = (1.0 + aim) / 2.0 - (loss - distance) / (2.0 * (1.0 - aim))
    return loss - (1.0 - mean) ** 2 + 2.0 * (1.0 - mean) * (trace - mean)


def _noiseless(aim: float, lr: float, steps: int) -> np.ndarray:
    """Γ at D → ∞ where B is endless, after every step."""
    return aim * (1.0 - (1.0 - lr / aim) ** np.arange(steps + 1))


@fig.data
def settled(settings: Any) -> xr.Dataset:
    """C when it has settled, at growing D, beside the recursion."""
    found: dict[str, Any] = {}
    dims = [dim for dim, _ in settings.sizes]
    for name, at in settings.settle.items():
        begin, rows = at["begin"], []
        exact = [_exact(dim, at, at["lr"], 0)[2] for dim in (*dims, ENDLESS)]
        for dim, steps in settings.sizes:
            run, curve = _run(dim, at, at["lr"], begin + steps, settings.seed)
            path, told = np.asarray(run.distance), np.asarray(curve.distance)[: begin + 1]
            rows.append(np.asarray(mean_of(path[begin + 1 :].reshape(-1, BLOCK).mean(axis=1))))
            found[f"{name}_floor"] = float(curve.floor)
            found[f"{name}_first"] = (f"{name}_step", path[: begin + 1])
            found[f"{name}_curve"] = (f"{name}_step", told)
        means, errors = np.transpose(rows) / found[f"{name}_floor"]
        *within, limit = np.asarray(exact) / found[f"{name}_floor"]
        found |= {f"{name}_ratio": ("dim", means), f"{name}_error": ("dim", errors)}
        found |= {f"{name}_exact": ("dim", within), f"{name}_limit": limit}
    at = settings.settle["noisy"]
    place = {"lr": at["lr"], "steps": 1, "batch": at["tau"], "queries": at["kappa"]}
    found["quiet_floor"] = float(sgd_curve(Isotropic(at["alpha"], at["noise"]), **place).floor)
    return xr.Dataset(found, {"dim": dims})


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
        gaps.append(theory(d.dim, d[f"{name}_exact"] - 1.0, k=k))
    gaps.append(entry("exact at finite $D$", color="0.3", **THEORY))
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


def _settled(d: xr.Dataset, name: str, note: str = "") -> Finding:
    """C at D → ∞ over the recursion: the mean of the simulation over what is exact at its D, times
    what is exact at D → ∞ over the recursion."""
    exact, settings = d[f"{name}_exact"], settings_of(d)
    ratio, error = (d[f"{name}_ratio"] / exact).values, (d[f"{name}_error"] / exact).values
    most = beyond(min(steps for _, steps in settings.sizes) // BLOCK)
    limit = float(d[f"{name}_limit"])
    found = zip(ratio, error, exact.values, d.dim.values, strict=True)
    words = "Over the finite-D form " + ", ".join(
        f"{r:.3f} ± {e:.3f} (D = {n}, itself {x:.3f} of the recursion)" for r, e, x, n in found
    )
    because = f"{most:.1f} standard errors over time, Student's t of the shortest run"
    words += f", at D = 10⁷ {limit:.6f}. {note}"
    slack = most * math.hypot(*error) / error.size
    return near(ratio.mean() * limit, 1.0, slack, because=because, note=words.strip())


@fig.claim("reported", SOURCE)
def recursion(d):
    """C = |Γ − Γ*|²/D follows C ← aC + b with a = (1−ηc)² + (η²/τ)(1+1/κ)c² and b =
    (η²/τ)(1+1/κ)(c−1): where C settles at τ = α = 1, κ = 4, η = 0.1 (simulation, taken to
    D → ∞ by what is exact at finite D, over the recursion)."""
    return _settled(d, "check")


@fig.claim("new", "derived")
def curves(d):
    """Along all curves of the sweeps what the noise of SGD adds, |Γ − EΓ|²/D, is that of the exact
    recursion at finite D, B, P and K (mean over the steps and {seeds} seeds, over it; the curve
    furthest off in standard errors; D = {dim})."""
    names = settings_of(d).sweeps
    ratios = np.concatenate([d[f"{name}_noise"].values for name in names])
    limits = np.concatenate([d[f"{name}_limit"].values for name in names])
    mean, error = mean_of(ratios)
    far = int(abs((mean - 1.0) / error).argmax())
    words = (
        f"All: {mean.min():.3f} to {mean.max():.3f}; the recursion of large D, less what it has "
    )
    words += f"without noise: {limits.min():.3f} to {limits.max():.3f}."
    most = beyond(ratios.shape[1], mean.size)
    because = f"{most:.1f} standard errors: of Student's t of all curves 1 in 100 is beyond"
    return near(mean[far], 1.0, most * error[far], because=because, note=words)


@fig.claim("new", "derived")
def noisy_queries(d):
    """Noisy labels of queries add (η²/τ)σ²c/κ to b (where C settles at τ = α = 1, κ = ½, σ = ½, η =
    0.05; simulation, taken to D → ∞ by what is exact at finite D, over the recursion)."""
    quiet = float(d.quiet_floor / d.noisy_floor)
    return _settled(d, "noisy", f"Without the term the recursion has {quiet:.2f} of it.")


FIGURE = fig
