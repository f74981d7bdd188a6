"""Every figure of the paper at its quick size: numbers against stored ones, never pixels."""

import json
import math
from pathlib import Path

import matplotlib.figure
import pytest

from solvable import reproduce
from solvable.reproduce.claim import agrees
from solvable.reproduce.store import read_dataset, write_dataset
from solvable.style import figure_style

STORED = json.loads(
    Path(__file__).parents[1].joinpath("oracles", "msfr_figures.json").read_text("utf-8")
)
FIGURES = {figure.name: figure for figure in reproduce.figures(["msfr"])}
# Trained for 1000 steps in single precision: on another processor a spike of the loss comes a few
# steps earlier or later, and verdicts that are as close as that may differ.
ROUGH = {"fig5": 0.05}


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_says_what_it_said(name, tmp_path):
    figure = FIGURES[name]
    write_dataset(figure.compute("quick"), tmp_path / "data.zarr")
    data = read_dataset(tmp_path / "data.zarr")  # what is drawn and judged is what is stored
    with figure_style():
        assert isinstance(figure.draw(data), matplotlib.figure.Figure)
    for claim in figure.judge(data):
        stored = STORED[claim.id]
        # Errors that are round-off differ from machine to machine, far below what they may be.
        slack = 1e-3 * claim.tolerance if isinstance(claim.tolerance, float) else 0.0
        slack += 1e-5 * abs(stored["measured"]) + ROUGH.get(name, 0.0)
        close = isinstance(claim.tolerance, float) and name in ROUGH
        close = close and abs(abs(claim.measured - claim.expected) - claim.tolerance) <= slack
        assert claim.measured == pytest.approx(stored["measured"], rel=0.0, abs=slack), claim.id
        assert close or claim.verdict == stored["verdict"], claim.id
        assert math.isfinite(claim.expected)
        assert claim.verdict == "fails" or agrees(claim.expected, claim.measured, claim.tolerance)


def test_the_stored_numbers_are_those_of_the_claims_there_are():
    assert list(STORED) == [s.id for figure in FIGURES.values() for s in figure.statements]


@pytest.mark.parametrize("name", FIGURES)
def test_sizes_differ_only_in_their_settings(name):
    settings = FIGURES[name].settings
    assert set(settings) == {"quick", "default", "full"}
    assert set(settings["quick"]) == set(settings["default"]) == set(settings["full"])
    json.dumps(settings)  # they are part of a stored config


def test_every_erratum_of_the_paper_is_a_corrected_claim():
    """Equations and tables that the paper misprints."""
    sources = [s.source for f in FIGURES.values() for s in f.statements if s.printed]
    wanted = ("(1)", "(40)", "(58)", "(76)", "(83)", "(105)", "(121)", "(137)", "(149), (151)")
    wanted += ("(150), (151)", "(39), (56)", "Table 2", "(F.1)", "H.3")
    for word in wanted:
        assert any(word in source for source in sources), word
