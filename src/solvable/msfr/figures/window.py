"""Where the laws can be seen: local exponents and windows for more and more tasks."""

from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Figure, at_least, at_most, near, settings_of
from ...reproduce.panels import Mark, Panel, drawn, level, line, theory
from ...style import colour
from .. import Init, Law, Task, data_law, size_law, time_law
from ._judging import WITHIN, sights, window_of
from ._labels import all_labelled, of_label

SHOWN = (500, 10**5, 10**9, 10**12)
GROWING = (10**5, 10**6, 10**9, 10**12, 10**15)

fig = Figure(
    "msfr/window",
    "Where the laws can be seen",
    settings={
        "quick": {"shown": SHOWN, "counts": (500, *GROWING), "per_decade": 6},
        "default": {"shown": SHOWN, "counts": (500, 5000, *GROWING), "per_decade": 12},
        "full": {"shown": SHOWN, "counts": (500, 5000, *GROWING), "per_decade": 12},
    },
    constants={"alpha": 1.8, "context": 100.0, "strength": 0.5, "init": (0.1, 0.11)},
    note=(
        "Not in the paper. α = 1.8, ψ = 100, Λ = 0.5, v = 0.1, w = 0.11 at the start (106), exact "
        "flow. A law is seen where the local exponent is within 2 % of its own; in (a) bars mark "
        "where. At the left end the first task has not been learned yet, at the right end the last "
        "one is being learned: what the two take away does not depend on S, so that the window "
        "grows as the way from the first task to the last does."
    ),
)


def _laws(settings: Any, count: int) -> dict[str, Law]:
    task = Task(count, settings.alpha, settings.context, settings.strength)
    init = Init(*settings.init)
    return {
        "t": time_law(task, init, "exact"),
        "D": size_law(task, init, "exact"),
        "N": data_law(task, init, "exact"),
    }


@fig.data
def local(settings: Any) -> xr.Dataset:
    """Local exponents in t, D and N, and their windows."""
    counts = settings.counts
    return all_labelled({str(n): sights(_laws(settings, n), settings.per_decade) for n in counts})


# What a law's decades are to those of s, the number of the task that is being learned.
WAY = {"t": lambda alpha: alpha, "D": lambda _: 1.0, "N": lambda alpha: alpha}


def _exponent(alpha: float, symbol: str) -> float:
    """Table 1's."""
    return (alpha - 1.0) / WAY[symbol](alpha)


def _decades(d: xr.Dataset, symbol: str) -> np.ndarray:
    return np.array([window_of(of_label(d, str(n)), symbol).decades for n in settings_of(d).counts])


@fig.draw
def picture(d: xr.Dataset) -> matplotlib.figure.Figure:
    """(a) the local exponent in time, (b) the lengths of the windows."""
    settings = settings_of(d)
    law = _exponent(settings.alpha, "t")
    marks = [
        Mark(
            lambda axes: axes.axhspan(
                (1 - WITHIN) * law, (1 + WITHIN) * law, color="0.88", label="within 2 %"
            )
        ),
        level(law, color="0.35", linestyle=":", label=r"$(\alpha-1)/\alpha$"),
    ]
    for k, count in enumerate(settings.shown):
        get = of_label(d, str(count))
        window = window_of(get, "t")
        height = 0.85 * law - 0.09 * k  # below the law, so that windows can be told apart
        words = f" $S = {_power(count)}$: {window.decades:.1f} decades"
        marks += [
            line(get("law_t"), get("local_t"), k=k),
            line([window.low, window.high], [height, height], k=k, linewidth=3.0),
            _written(window.high, height, words, k),
        ]
    label = r"$-\,d \log L / d \log t$"
    ranges: dict[str, Any] = {"xlim": (1e-6, 1e30), "ylim": (0.0, 1.2)}
    in_time = Panel("$t$", label, marks, log="x", legend=7.5, where="upper right", **ranges)
    counts = np.asarray(settings.counts, float)
    lengths = []
    for k, symbol in enumerate(WAY):
        way = WAY[symbol](settings.alpha) * np.log10(counts)
        lengths += [
            line(
                counts, _decades(d, symbol), f"window in ${symbol}$", k, marker="o", markersize=3.5
            ),
            theory(counts, way, k=k, linewidth=0.9, alpha=0.6),
        ]
    lengths.append(
        Mark(lambda axes: axes.plot([], [], "--", color="0.4", label="first task to the last"))
    )
    return drawn(in_time, Panel("$S$", "decades", lengths, log="x", ylim=(0.0, None)))


def _written(x: float, y: float, words: str, k: int) -> Mark:
    look: dict[str, Any] = {"color": colour(k), "fontsize": 7.5, "va": "center"}
    return Mark(lambda axes: axes.text(x, y, words, **look))


def _power(count: int) -> str:
    return str(count) if count < 10**4 else f"10^{{{np.log10(count):.0f}}}"


def _words(d: xr.Dataset, count: int) -> str:
    return f"{window_of(of_label(d, str(count)), 't').words('t')}."


@fig.claim("new", "Fig. 3b", word="paper-size")
def paper_size(d):
    """At the paper's S = 500 the law in t is seen over less than half a decade (decades within
    2 %)."""
    found = _decades(d, "t")[0]
    because = "of the five decades from the first task to the last that is a tenth"
    return at_most(found, 0.5, because=because, note=_words(d, 500))


@fig.claim("new", "Table 1", word="many-tasks")
def many_tasks(d):
    """At S = 10⁹ it is seen over ten decades (decades within 2 %)."""
    place = settings_of(d).counts.index(10**9)
    because = "most of the sixteen from the first task to the last"
    return at_least(_decades(d, "t")[place], 10.0, because=because, note=_words(d, 10**9))


@fig.claim("new", "Table 1", word="growth-{x}", over=tuple(WAY))
def growth(d, x):
    """The window of the law in {x} grows as the way from the first task to the last (decades per
    tenfold S, from S = 10⁶ to 10¹⁵)."""
    settings = settings_of(d)
    first, last = (settings.counts.index(count) for count in (10**6, 10**15))
    found = _decades(d, x)
    rate = (found[last] - found[first]) / 9.0
    way = WAY[x](settings.alpha)
    because = "a tenth of a decade at either end, found between points of a grid"
    listed = ", ".join(f"{n:.1f}" for n in found)
    return near(rate, way, 0.2 / 9.0, because=because, note=f"Windows of {listed} decades.")
