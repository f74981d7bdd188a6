"""Two ranges of the law in time: tasks with Λ_s ≫ 1, as F.3 assumes, and with Λ_s ≪ 1."""

from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, Finding, decades, near, settings_of, worst_ratio
from ...reproduce.numerals import number
from ...reproduce.panels import Panel, drawn, level, line, theory
from ...style import colour
from .. import Init, Task, time_law
from ._judging import reach, sight, window_of, window_on
from ._labels import all_labelled, of_label

fig = Figure(
    "msfr/crossover",
    "Two ranges of the law in time: strong tasks and weak tasks",
    settings={
        "quick": {"num_tasks": 10**15, "per_decade": 8},
        "default": {"num_tasks": 10**15, "per_decade": 12},
        "full": {"num_tasks": 10**15, "per_decade": 12},
    },
    constants={
        "alpha": 1.8,
        "context": 100.0,
        "gammas": (0.3, 0.5),
        "strengths": (1.0, 1000.0),
        "init": (1e-5, 1e-5),
    },
    note=(
        "F.3 assumes Λ_s² ≫ 1, which with γ > 0 can hold for s < Λ_1^(1/γ) only: the law of Table "
        "2 has a range, and so has the one that follows. The rate of task s is p_s ψ_s Λ_s (1 + "
        "Λ_s²): with Λ_s ≫ 1 it falls like s^(−(α+β+3γ)), with Λ_s ≪ 1 like s^(−(α+β+γ)). Both, "
        "what lies between, and the logarithms that f_s(0) brings in (F.3 has Λ_s/f_s(0) alike for "
        "all s, which (107) does not give) are told by the time t_s = ln Δ_s/(2 a_s Λ_s) at which "
        "task s is half learned: the exponent is (α+2γ−1)/(d ln t_s/d ln s) there. α = 1.8, β = 0, "
        "ψ = 100, v = w = 1e-5 at the start (107), order zero. At first each task is learned by "
        "itself, so that the exponent swings; at the end the last task is. The law for Λ_s ≪ 1 has "
        "an end of its own: f_s(0) stays at 1e-8 as Λ_s falls, so that the exponent is above it by "
        "γ/((α+β+γ) ln(Λ_s/f_s(0))) of it, which at γ = 0.5 passes 2 % for good where the "
        "logarithm is near 12; at γ = 0.3 it would at 7, and the last tasks are learned before."
    ),
)


def _key(gamma: float, strength: float) -> str:
    return f"{gamma}-{strength:g}"


def _cases(settings: Any) -> list[tuple[float, float]]:
    return [(gamma, strength) for gamma in settings.gammas for strength in settings.strengths]


@fig.data
def local(settings: Any) -> xr.Dataset:
    """Local exponents in time, and the windows of either law, for weak and for strong tasks."""
    return all_labelled({_key(*case): _in_time(settings, *case) for case in _cases(settings)})


def _in_time(settings: Any, gamma: float, strength: float) -> xr.Dataset:
    task = Task(settings.num_tasks, settings.alpha, settings.context, strength, gamma=gamma)
    law = time_law(task, Init(*settings.init))
    grid = law.grid(settings.per_decade)
    exponent = law.local_exponent(grid)
    seen = [
        sight(regime, grid, exponent, window_on(grid, exponent, value))
        for regime, value in _exponents(settings, gamma).items()
    ]
    ends = [
        _at_ends(settings, gamma, strength, part[f"window_{regime}"].values, task)
        for regime, part in zip(REGIMES, seen, strict=True)
    ]
    seen.append(xr.Dataset({f"ends_{r}": ("end", s) for r, s in zip(REGIMES, ends, strict=True)}))
    s = np.geomspace(30.0, settings.num_tasks / 100.0, 60)
    t, predicted = _half_learned(settings, gamma, strength, s, float(task.normaliser))
    told = {"half_learned": t, "predicted": predicted, "there": law.local_exponent(t)}
    part = xr.Dataset({name: ("task", x) for name, x in told.items()}, coords={"task": s})
    return xr.merge([*seen, part])


def _at_ends(
    settings: Any, gamma: float, strength: float, window: np.ndarray, task: Task
) -> np.ndarray:
    """Which task is half learned at either end of a window, of all tasks."""
    s = np.geomspace(1.0, settings.num_tasks, 1000)
    t, _ = _half_learned(settings, gamma, strength, s, float(task.normaliser))
    return np.exp(np.interp(np.log(window), np.log(t), np.log(s)))


def _half_learned(
    settings: Any, gamma: float, strength: float, s: np.ndarray, normaliser: float
) -> tuple[np.ndarray, np.ndarray]:
    """When task s is half learned, and the exponent of the loss then.

    ``t_s = ln Δ_s/(2 a_s Λ_s)``, and the exponent ``(α+2γ−1)/(d ln t_s/d ln s)``, with the start
    (107).
    """
    alpha, context, (entry, _) = settings.alpha, settings.context, settings.init
    lam = strength * s**-gamma
    start = context * (entry * (1.0 + lam)) ** 2  # f_s(0)
    delta = lam / start - 1.0
    rate = normaliser * s**-alpha * context * (1.0 + lam**2)  # a_s
    slope = alpha + gamma + 2.0 * gamma * lam**2 / (1.0 + lam**2)
    # d ln Δ/d ln s over ln Δ: f_s(0) is (1 + Λ)², which does not fall as Λ does.
    bend = (1.0 + 1.0 / delta) * (2.0 * gamma * lam / (1.0 + lam) - gamma) / np.log(delta)
    return np.log(delta) / (2.0 * rate * lam), (alpha + 2.0 * gamma - 1.0) / (slope + bend)


REGIMES = ("weak", "strong")


def _exponents(settings: Any, gamma: float) -> dict[str, float]:
    size = settings.alpha + 2 * gamma - 1
    return {"weak": size / (settings.alpha + gamma), "strong": size / (settings.alpha + 3 * gamma)}


WORDS = {
    "weak": r"$\Lambda_s \ll 1$: $(\alpha+2\gamma-1)/(\alpha+\beta+\gamma)$",
    "strong": r"Table 2: $(\alpha+2\gamma-1)/(\alpha+\beta+3\gamma)$",
}


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """One panel a γ: the local exponent against time, both laws, and what lies between."""
    settings, shown = settings_of(d), []
    for gamma in settings.gammas:
        marks = []
        for k, strength in enumerate(settings.strengths):
            get = of_label(d, _key(gamma, strength))
            words = rf"$\Lambda_1 = {strength:g}$"
            marks += [
                line(get("law_weak"), get("local_weak"), words, k, linewidth=1.8, alpha=0.6),
                theory(get("half_learned"), get("predicted"), k=k, color="black", linewidth=1.0),
            ]
        marks.append(theory([], [], r"from $t_s$", color="black", linewidth=1.0))
        for k, (regime, value) in enumerate(_exponents(settings, gamma).items()):
            look = {"color": colour(k), "linestyle": ":", "linewidth": 1.2}
            marks.append(level(value, label=WORDS[regime], **look))
        title = rf"$\gamma = {gamma}$"
        label = r"$-\,d \log L / d \log t$"
        shown.append(Panel("$t$", label, marks, log="x", ylim=(0.0, 1.2), title=title, legend=0))
    figure = drawn(*shown)
    figure.set_size_inches(7.5, 3.7)
    lines, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside upper center", ncols=3, fontsize=8.0)
    return figure


def _seen(d: xr.Dataset, gamma: float, strength: float, regime: str) -> Finding:
    get = of_label(d, _key(gamma, strength))
    window = window_of(get, regime)
    settings = settings_of(d)
    first, last = (strength * s**-gamma for s in get(f"ends_{regime}"))
    held = np.log(last / (settings.context * (settings.init[0] * (1.0 + last)) ** 2))
    law = _exponents(settings, gamma)[regime]
    whole = reach(settings.num_tasks, settings.alpha + 2.0 * gamma - 1.0, law)
    because = "a swing, as tasks are learned one by one, spans less than one"
    words = (
        f"{window.words('t')}, {window.decades / whole:.2f} of the {whole:.1f} decades that this "
        f"law would need for all tasks; Λ_s of the task being learned {number(first)} … "
        f"{number(last)}, ln(Λ_s/f_s(0)) {held:.1f} at the end."
    )
    return decades(window, 3.0, because=because, note=words)


@fig.claim("new", "F.3, beyond its assumption Λ_s² ≫ 1", word="weak-{x}", over="gammas")
def weak(d, x):
    """Where Λ_s ≤ 1 for all tasks (Λ_1 = {strengths[0]:g}), L ∝ t^(−(α+2γ−1)/(α+β+γ)) at γ = {x}
    (decades in which the local exponent is within 2 %)."""
    return _seen(d, x, settings_of(d).strengths[0], "weak")


@fig.claim("new", "Table 2, F.3", word="strong-{x}", over="gammas")
def strong(d, x):
    """Where Λ_1 = {strengths[1]}, the law of Table 2, L ∝ t^(−(α+2γ−1)/(α+β+3γ)), is seen at γ =
    {x} as long as Λ_s ≫ 1 (decades in which the local exponent is within 2 %)."""
    return _seen(d, x, settings_of(d).strengths[1], "strong")


@fig.claim("new", "F.3, beyond its assumption Λ_s² ≫ 1", word="then-weak-{x}", over="gammas")
def then_weak(d, x):
    """After it, once Λ_s ≪ 1, the same tasks have L ∝ t^(−(α+2γ−1)/(α+β+γ)) at γ = {x} (decades in
    which the local exponent is within 2 %)."""
    return _seen(d, x, settings_of(d).strengths[1], "weak")


@fig.claim("new", "F.3", word="between-{x}", over="gammas")
def between(d, x):
    """In both ranges and between them the local exponent is (α+2γ−1)/(d ln t_s/d ln s) when task s
    is half learned, at γ = {x} and Λ_1 = {strengths[1]} (largest relative gap, s = 30 … S/100)."""
    get = of_label(d, _key(x, settings_of(d).strengths[1]))
    gap = worst_ratio(get("there"), get("predicted"))
    because = "what single tasks at one end, and the last ones at the other, leave"
    return near(gap, 0.0, 0.01, because=because)
