"""Every command that docs/add-a-model.md shows, run in the order of the page."""

import json
import shlex

import pytest
from tests.outside.packages import blocks

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("whole_saxe")]

COMMANDS = [
    shlex.split(line, comments=True)[1:]
    for text in blocks("sh")
    for line in text.splitlines()
    if line.startswith("solvable ") and " NAME" not in line
]


def test_every_verb_is_shown():
    verbs = {"solve", "train", "compare", "reproduce", "list", "cite", "fit", "plan"}
    assert {words[0] for words in COMMANDS} == verbs
    assert ["train", "saxe", "--brute"] in COMMANDS


def test_every_command_does_well(solvable, tmp_path, monkeypatch):
    """In the order of the page: a later one reads what an earlier one wrote."""
    monkeypatch.chdir(tmp_path)
    for words in COMMANDS:
        done = solvable(*words)
        assert done.status == 0, (words, done.err)
        assert "saxe" in done.out or "--csv" in words
    for figure in ("wait", "witnesses"):
        claims = json.loads((tmp_path / "out" / "saxe" / figure / "claims.json").read_text())
        assert {claim["verdict"] for claim in claims} == {"holds"}
        assert len(claims) == {"wait": 3, "witnesses": 2}[figure]


def test_a_fit_of_its_law_finds_what_made_the_curve(solvable, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    solvable("solve", "saxe", "--t-min", 0.1, "--t-max", 30, "--csv", "curve.csv")
    words = ("--law", "saxe", "--x", "t=time", "--y", "loss", "--set", "modes=8", "--pin", "E=0")
    done = solvable("fit", "curve.csv", *words, "--json")
    found = json.loads(done.out)
    values = {name: told["value"] for name, told in found["parameters"].items()}
    assert values == pytest.approx({"E": 0.0, "A": 1.0, "decay": 1.0, "unit_t": 1.0}, rel=1e-6)
    (tmp_path / "fit.json").write_text(done.out)
    planned = solvable("plan", "--law", "fit.json", "--cost", "t", "--budget", 10, "--json")
    assert planned.status == 0, planned.err


def test_its_law_has_a_place_beside_the_others(solvable):
    assert "saxe" in solvable("fit", "--law", "saxe", "--help").out
    assert "decay α, in [0.6, 5]" in " ".join(
        solvable("plan", "--model", "saxe", "--help").out.replace("│", " ").split()
    )
