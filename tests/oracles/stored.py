"""Figures against what they said when they were last looked at: numbers, never pixels."""

import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib.figure
import pytest

from solvable.reproduce import Figure
from solvable.reproduce.claim import agrees
from solvable.reproduce.datasets import read_dataset, write_dataset
from solvable.style import figure_style


def stored_claims(lab: str) -> dict[str, Any]:
    """What `make_figures.py LAB` wrote."""
    return json.loads(Path(__file__).with_name(f"{lab}_figures.json").read_text("utf-8"))


def says_what_it_said(
    figure: Figure, stored: dict[str, Any], folder: Path, rough: float = 0.0
) -> None:
    """Compute a figure at its quick size, draw it, judge it, and compare with the stored claims.

    Args:
        figure: which.
        stored: the claims of its lab.
        folder: where its data are written, and read again.
        rough: how far measured numbers may be off where single precision or chance makes them
            differ from machine to machine; verdicts that are as close as that may differ too.
    """
    # What is drawn and judged is what is stored.
    data = read_dataset(write_dataset(figure.compute("quick"), folder))
    with without_its_lab(figure):
        with figure_style():
            assert isinstance(figure.picture(data), matplotlib.figure.Figure)
        claims = figure.judge(data, "quick")
    for claim in claims:
        before = stored[claim.id]
        # Errors that are round-off differ from machine to machine, far below what they may be.
        slack = 1e-3 * claim.tolerance if isinstance(claim.tolerance, float) else 0.0
        slack += 1e-5 * abs(before["measured"]) + rough
        close = isinstance(claim.tolerance, float) and rough > 0.0
        close = close and abs(abs(claim.measured - claim.expected) - claim.tolerance) <= slack
        assert claim.measured == pytest.approx(before["measured"], rel=0.0, abs=slack), claim.id
        assert close or claim.verdict == before["verdict"], claim.id
        assert close or claim.as_known, claim.id
        assert math.isfinite(claim.expected)
        assert claim.verdict == "fails" or agrees(claim.expected, claim.measured, claim.tolerance)


@contextmanager
def without_its_lab(figure: Figure) -> Iterator[None]:
    """Within it, whatever a figure's package takes from its lab, or from JAX, raises."""
    lab = f"solvable.{figure.lab}"
    ours = [m for name, m in sys.modules.items() if name.startswith(f"{lab}.figures")]

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError(f"{figure.id} is drawn or judged with more than its data")

    with pytest.MonkeyPatch.context() as patch:
        for module in ours:
            for name, value in list(vars(module).items()):
                home = getattr(value, "__module__", "") or getattr(value, "__name__", "")
                home = home if isinstance(home, str) else ""
                foreign = home.startswith((lab, "jax", "solvable.numerics", "solvable.compiling"))
                if foreign and not home.startswith(f"{lab}.figures") and value is not module:
                    patch.setattr(module, name, refuse)
        yield


def sizes_have_the_same_settings(figure: Figure) -> None:
    """Quick, default and full differ in values only, all of which can be stored."""
    settings = figure.settings
    assert set(settings) == {"quick", "default", "full"}
    assert set(settings["quick"]) == set(settings["default"]) == set(settings["full"])
    json.dumps({size: dict(each) for size, each in settings.items()})
    json.dumps(dict(figure.constants))
