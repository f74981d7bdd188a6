"""A folder of small figures with everything a report must cope with."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from solvable import Lab
from solvable.papers import Paper
from solvable.reproduce import Figure, Finding, Quote, Size, at_least, corrected, near, registry
from solvable.reproduce.claim import Kind
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


def _compute(settings) -> xr.Dataset:
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


def said(word: str, text: str, source: str, kind: Kind, found: Finding, **more: Any) -> Any:
    """A claim, as `figure` takes it."""

    def find(_: xr.Dataset) -> Finding:
        return found

    find.__doc__ = text
    return (kind, source), {"word": word, **more}, find


def figure(id: str, title: str, *claims: Any, note: str = "", panels: int = 1) -> Figure:
    settings = {size: SETTINGS for size in ("quick", "default", "full")}
    fig = Figure(id, title, settings, note=note, seed=3)
    fig.data(_compute)
    fig.draw(partial(_draw, panels))
    for where, how, find in claims:
        fig.claim(*where, **how)(find)
    return fig


LONG = " ".join(
    ["The paper gives no prefactor; we chose ψ_1 = 10⁻² so that its assumption holds."] * 4
)
FIGURES = (
    figure(
        "demo/fig1",
        "Loss & time: theory < training, at a short and a long context",
        said(
            "slope",
            "The loss falls like L ∝ t^(-α) with α < 1 & α > 0.",
            "Fig. 1, (7)",
            "reported",
            near(-0.501234, -0.5, 0.02, note=f"Fitted by <i>nothing</i>. {LONG}"),
        ),
        said(
            "tokens",
            "Training on tokens is the reduced dynamics.",
            "§3",
            "check",
            near(1.5543e-15, 0.0, 1e-10, because="round-off"),
        ),
        said(
            "gap",
            "The gap between order zero and training is visible at ψ = 5.",
            "",
            "new",
            at_least(0.14939, 0.00407),
        ),
        note=f"Here <b>ψ</b> & Λ are ours. {LONG}",
        panels=3,
    ),
    figure(
        "demo/fig3a",
        "A misprinted law",
        said(
            "sign",
            "The exponent is −β/(1 + β).",
            "(12)",
            "paper",
            corrected(near(-0.4441, -0.4444, 0.01, note="By the exact <flow>."), 0.4444),
            quote=Quote("\\beta/(1+\\beta) <sic>", "(12)"),
        ),
        said(
            "word",
            "The window closes at t ≈ S^(1+α).",
            "§4, below (31)",
            "paper",
            corrected(near(12.3, 12.0, 0.5), 7.0),
            quote=Quote("S^\\alpha", "below (31)", "slip"),
        ),
    ),
    figure(
        "demo/table1",
        "Numbers that do not come out",
        said(
            "lost",
            "The optimum is at <γ> = ½.",
            "Table 1",
            "paper",
            near(np.nan, 0.5, 0.01, note="The solver found no root & said so."),
        ),
        said(
            "low",
            "At least two decades follow the law.",
            "Table 1, row 2",
            "new",
            at_least(1.25, 2.0),
        ),
        said(
            "off",
            "The amplitude is 3.",
            "Table 1, row 3",
            "reported",
            near(123456.7, 3.0, 0.25),
            known="fails",
        ),
        panels=2,
    ),
    figure("demo/window", "A figure without any claim"),
    figure("demo/fig9", "Not <computed> yet"),
)
LAB = Lab(PAPER, figures=FIGURES)
DROPPED = figure("demo/dropped", "A figure that the lab no longer has")
GONE = figure(
    "gone/fig4",
    "Of a lab that is not installed",
    said("x", "It was so.", "p. 4", "paper", near(1.0, 1.0, 0.1)),
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
