"""A folder of small figures with everything a report must cope with."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from solvable import Lab
from solvable.papers import Paper
from solvable.reproduce import Claim, Figure, Quote, Size, Statement, registry
from solvable.reproduce.store import Config, publish, write_result

PAPER = Paper(
    lab="demo",
    key="doe2026demo",
    title="On <b>Demonstrations</b> & Their Uses in Long Titles of Papers About Attention",
    authors=("Jane Doe", "Øyvind O'Neil", "Li & Söhne"),
    venue="Conference on <Examples>",
    year=2026,
)
SETTINGS = {"num_tasks": 100, "lr": 1e-3, "steps": (300, 30), "start": "<zero>", "psi_1": 1e-05}


def _compute(size: Size) -> xr.Dataset:
    t = np.geomspace(1e-3, 5, 40)
    return xr.Dataset({"loss": ("time", t**-0.5)}, coords={"time": t})


def _draw(panels: int, data: xr.Dataset):
    import matplotlib.figure

    figure = matplotlib.figure.Figure(figsize=(3.4 * panels, 3.1))
    for axes in np.atleast_1d(figure.subplots(1, panels)):
        axes.loglog(data.time, data.loss, "--", label="theory")
        axes.set(xlabel="$t$", ylabel=r"$\mathcal{L}$")
        axes.legend()
    return figure


def figure(
    id: str,
    title: str,
    judge: Callable[[xr.Dataset], list[Claim]],
    statements: tuple[Statement, ...] = (),
    note: str = "",
    panels: int = 1,
) -> Figure:
    settings = {size: SETTINGS for size in ("quick", "default", "full")}
    return Figure(
        id, title, settings, note=note, seed=3,
        statements=statements, compute=_compute, draw=partial(_draw, panels), claims=judge,
    )  # fmt: skip


PLAIN = (
    Statement(
        "demo/fig1/slope",
        "The loss falls like L ∝ t^(-α) with α < 1 & α > 0.",
        "Fig. 1, (7)",
        "reported",
    ),
    Statement(
        "demo/fig1/tokens",
        "Training on tokens is the reduced dynamics.",
        "§3",
        "check",
    ),
    Statement(
        "demo/fig1/gap", "The gap between order zero and training is visible at ψ = 5.", "", "new"
    ),
    Statement("demo/fig1/before", "The loss was 0.25 <before>.", "ours", "regression"),
)
MISPRINTS = (
    Statement(
        "demo/fig3a/sign",
        "The exponent is −β/(1 + β).",
        "(12)",
        "paper",
        Quote("\\beta/(1+\\beta) <sic>", "(12)"),
    ),
    Statement(
        "demo/fig3a/word",
        "The window closes at t ≈ S^(1+α).",
        "§4, below (31)",
        "paper",
        Quote("S^\\alpha", "below (31)", "slip"),
    ),
)
FALLING = (
    Statement("demo/table1/lost", "The optimum is at <γ> = ½.", "Table 1", "paper"),
    Statement("demo/table1/low", "At least two decades follow the law.", "Table 1, row 2", "new"),
    Statement(
        "demo/table1/off", "The amplitude is 3.", "Table 1, row 3", "reported", known="fails"
    ),
)
LONG = " ".join(
    ["The paper gives no prefactor; we chose ψ_1 = 10⁻² so that its assumption holds."] * 4
)


def _plain(_: xr.Dataset) -> list[Claim]:
    slope, tokens, gap, before = PLAIN
    return [
        slope.judge(-0.5, -0.501234, 0.02, note=f"Fitted by <i>nothing</i>. {LONG}"),
        tokens.judge(0.0, 1.5543e-15, 1e-10, because="round-off"),
        gap.judge(0.00407, 0.14939, "at least"),
        before.judge(0.25, 0.25, 1e-12),
    ]


def _misprints(_: xr.Dataset) -> list[Claim]:
    sign, word = MISPRINTS
    return [
        sign.judge(-0.4444, -0.4441, 0.01, as_printed=0.4444, note="By the exact <flow>."),
        word.judge(12.0, 12.3, 0.5, as_printed=7.0),
    ]


def _falling(_: xr.Dataset) -> list[Claim]:
    lost, low, off = FALLING
    return [
        lost.judge(0.5, np.nan, 0.01, note="The solver found no root & said so."),
        low.judge(2.0, 1.25, "at least"),
        off.judge(3.0, 123456.7, 0.25),
    ]


FIGURES = (
    figure(
        "demo/fig1",
        "Loss & time: theory < training, at a short and a long context",
        _plain,
        PLAIN,
        note=f"Here <b>ψ</b> & Λ are ours. {LONG}",
        panels=3,
    ),
    figure("demo/fig3a", "A misprinted law", _misprints, MISPRINTS),
    figure("demo/table1", "Numbers that do not come out", _falling, FALLING, panels=2),
    figure("demo/window", "A figure without any claim", lambda _: []),
    figure("demo/fig9", "Not <computed> yet", lambda _: []),
)
LAB = Lab(PAPER, figures=FIGURES)
DROPPED = figure("demo/dropped", "A figure that the lab no longer has", lambda _: [])
WAS = Statement("gone/fig4/x", "It was so.", "p. 4", "paper")
GONE = figure(
    "gone/fig4",
    "Of a lab that is not installed",
    lambda _: [WAS.judge(1.0, 1.0, 0.1)],
    (WAS,),
)


@contextmanager
def installed() -> Iterator[None]:
    """With the lab "demo" in the registry."""
    theirs = registry.lab
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "names", lambda: ["msfr", "demo"])
        patch.setattr(registry, "lab", lambda name: LAB if name == "demo" else theirs(name))
        yield


def put(out: Path, figure: Figure, size: Size = "default", seconds: float = 3.721) -> None:
    """A finished figure, as a run leaves it."""
    config = Config.of(figure, size)
    bench = config.bench(out)
    data = figure.compute(size)
    claims = figure.judge(data, size)
    done = write_result(bench, figure, config, data, claims, seconds=seconds)
    publish(done, config, out)
    bench.rmdir()


def fill(out: Path) -> Path:
    """All figures except demo/fig9."""
    put(out, FIGURES[0], "quick")
    put(out, FIGURES[1], seconds=75.2)
    put(out, FIGURES[2], "full", seconds=7530.0)
    put(out, FIGURES[3])
    put(out, DROPPED)
    put(out, GONE)
    return out
