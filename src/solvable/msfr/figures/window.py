"""Where the law in time can be seen: the local exponent for more and more tasks."""

from collections.abc import Mapping
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Claim, Figure, Size, Statement, stage
from ...style import colour, panels
from .. import Init, Task, exponents, time_law
from ._judging import WITHIN, seen

ALPHA, CONTEXT, STRENGTH = 1.8, 100.0, 0.5
INIT = (0.1, 0.11)  # (106)
SETTINGS: Mapping[Size, Mapping[str, Any]] = {
    "quick": {"num_tasks": [500, 5000, 10**5], "per_decade": 6},
    "default": {"num_tasks": [500, 5000, 50_000, 10**5, 10**6], "per_decade": 8},
    "full": {"num_tasks": [500, 5000, 50_000, 10**5, 10**6], "per_decade": 12},
}


def _local(num_tasks: int, per_decade: int) -> xr.Dataset:
    task = Task(num_tasks, ALPHA, CONTEXT, STRENGTH)
    law = time_law(task, Init(*INIT), "exact")
    t = law.grid(per_decade)
    found = {f"local:{num_tasks}": (f"time:{num_tasks}", law.local_exponent(t))}
    return xr.Dataset(found, coords={f"time:{num_tasks}": t})


def compute(size: Size) -> xr.Dataset:
    """Local exponents of the exact flow."""
    settings = SETTINGS[size]
    parts = [
        stage(str(count), lambda count=count: _local(count, settings["per_decade"]))
        for count in settings["num_tasks"]
    ]
    return xr.merge(parts).assign_coords(num_tasks=list(settings["num_tasks"]))


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """The local exponent against time, its windows marked on the law."""
    figure, (axes,) = panels(1)
    figure.set_size_inches(6.4, 3.8)
    law = exponents(ALPHA).time
    axes.axhspan((1 - WITHIN) * law, (1 + WITHIN) * law, color="0.88", label="within 2 %")
    axes.axhline(law, color="0.35", linestyle=":", label=r"$(\alpha-1)/\alpha$")
    for k, count in enumerate(data.num_tasks.values):
        t, local = data[f"time:{count}"].values, data[f"local:{count}"].values
        found = seen(t, local, law)
        label = f"$S = {_power(count)}$: {found.decades:.1f} decades"
        axes.plot(t, local, color=colour(k), label=label)
        # Below the law, so that windows of different lengths can be told apart.
        height = law * (0.9 - 0.05 * k)
        axes.plot([found.low, found.high], [height, height], color=colour(k), linewidth=3.0)
    axes.set_xscale("log")
    axes.set_xlim(1e-4, 1e7)
    axes.set_ylim(0.0, 1.2)
    axes.set_xlabel("$t$")
    axes.set_ylabel(r"$-\,d \log L / d \log t$")
    axes.legend(fontsize=7.5, loc="upper left")
    return figure


def _power(count: Any) -> str:
    exponent = int(np.floor(np.log10(count)))
    lead = count / 10**exponent
    return rf"10^{{{exponent}}}" if lead == 1 else rf"{lead:g} \cdot 10^{{{exponent}}}"


SMALL = Statement(
    "msfr/window/paper-size",
    "At the paper's S = 500 the law in t is seen over less than half a decade (decades within "
    "2 %).",
    "Fig. 3b",
    "new",
)
LARGE = Statement(
    "msfr/window/many-tasks",
    "At S = 10⁵ it is seen over four decades (decades within 2 %).",
    "Fig. 3b, Table 1",
    "new",
)
GROWTH = Statement(
    "msfr/window/growth",
    "Tenfold more tasks make the window longer by at least a decade (least growth a decade of S, "
    "from S = 5000 on).",
    "Table 1",
    "new",
)


def claims(data: xr.Dataset) -> list[Claim]:
    """How long the window is."""
    law, counts = exponents(ALPHA).time, data.num_tasks.values
    windows = [seen(data[f"time:{n}"].values, data[f"local:{n}"].values, law) for n in counts]
    decades = np.asarray([window.decades for window in windows])
    growth = np.diff(decades) / np.diff(np.log10(counts))
    large = int(np.flatnonzero(counts == 10**5)[0])
    return [
        SMALL.judge(0.5, decades[0], "at most", note=windows[0].words("t")),
        LARGE.judge(4.0, decades[large], "at least", note=windows[large].words("t")),
        GROWTH.judge(1.0, growth[1:].min(), "at least"),
    ]


FIGURE = Figure(
    id="msfr/window",
    title="Where the law in time can be seen",
    settings=SETTINGS,
    constants={"alpha": ALPHA, "context": CONTEXT, "strength": STRENGTH, "init": INIT},
    statements=(SMALL, LARGE, GROWTH),
    compute=compute,
    draw=draw,
    claims=claims,
    note=(
        "Not in the paper. α = 1.8, ψ = 100, Λ = 0.5, v = 0.1, w = 0.11 at the start (106), "
        "exact flow. Bars mark where the "
        "local exponent is within 2 % of the law's. At the left end the first task has not been "
        "learned yet, at the right end the last one is being learned."
    ),
)
