"""Every example runs."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.fixture(autouse=True)
def _the_tests_own_cache(monkeypatch):
    """What the pages set up stays out of the user's folder, and out of other tests."""
    monkeypatch.setattr("solvable.computing.compile_cache", lambda: "")


def test_the_three_witnesses_agree(tmp_path):
    main = runpy.run_path(str(ROOT / "examples" / "three_witnesses.py"))["main"]
    assert main(tmp_path) <= 1e-12  # the same gradient descent, up to round-off
    assert (tmp_path / "three_witnesses.svg").stat().st_size > 0
    assert (tmp_path / "three_witnesses.png").stat().st_size > 0


def test_the_plateaus_end_when_predicted(tmp_path):
    main = runpy.run_path(str(ROOT / "examples" / "plateaus.py"))["main"]
    assert main(tmp_path) <= 0.05  # at a scale of 1e-2; the error falls with it
    assert (tmp_path / "plateaus.svg").stat().st_size > 0
    assert (tmp_path / "plateaus.png").stat().st_size > 0


def test_the_best_shapes_follow_the_law_of_compute(tmp_path):
    main = runpy.run_path(str(ROOT / "examples" / "deep_shapes.py"))["main"]
    assert main(tmp_path) <= 1e-6  # a sum of powers at its minimum is a power, once L > 1
    assert (tmp_path / "deep_shapes.svg").stat().st_size > 0
    assert (tmp_path / "deep_shapes.png").stat().st_size > 0


def test_examples_say_what_they_do():
    """In a process of their own, which has set up nothing for them."""
    program = """
import runpy, sys
for path in sys.argv[1:]:
    sys.argv = [path, "--help"]
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        assert not end.code
    else:
        raise AssertionError(path)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, EXAMPLES)],
        capture_output=True,
        text=True,
        check=True,
    )
    for example in EXAMPLES:
        assert f"usage: {example.name}" in done.stdout


def test_a_table_of_runs_becomes_a_law_and_a_plan(tmp_path):
    main = runpy.run_path(str(ROOT / "examples" / "own_curves.py"))["main"]
    assert all(main(tmp_path).values())  # with the runs, every interval holds the truth here
    for name in ("runs.csv", "own_curves.svg", "own_curves.png"):
        assert (tmp_path / name).stat().st_size > 0


def blocks(file):
    """The Python of a page, block by block."""
    text = (ROOT / file).read_text()
    return [part.split("```")[0] for part in text.split("```python\n")[1:]]


TOLD = ["msfr", "a lab by name", "shallow_icl", "single_location", "deep_icl", "scaling"]


@pytest.mark.parametrize("place", range(len(TOLD)), ids=TOLD)
def test_the_python_of_the_readme_runs(place):
    code = blocks("README.md")
    assert len(code) == len(TOLD)
    exec(compile(code[place], "README.md", "exec"), {})


def test_the_python_of_the_page_on_asking_runs():
    for code in blocks("docs/ask.md"):
        exec(compile(code, "docs/ask.md", "exec"), {})


def test_the_python_of_the_page_on_scaling_runs():
    names = {}
    for code in blocks("docs/scaling.md"):
        exec(compile(code, "docs/scaling.md", "exec"), names)
    assert abs(names["fit"]["alpha"] - 1.8) < 1e-6


def test_the_python_of_the_page_on_deep_icl_runs():
    names = {}
    for code in blocks("docs/deep_icl.md"):
        exec(compile(code, "docs/deep_icl.md", "exec"), names)
    assert names["run"].loss[-1] < 0.08


def test_the_python_of_the_page_on_reproducing_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    use, own = blocks("docs/reproduce.md")
    exec(compile(use, "docs/reproduce.md", "exec"), {"__name__": "__main__"})
    assert (tmp_path / "out" / "shallow_icl" / "fig6" / "figure.svg").stat().st_size > 0
    names = {}
    exec(compile(own, "docs/reproduce.md", "exec"), names)
    (figure,) = names["LAB"].figures
    data = figure.compute("quick")
    verdicts = {claim.id: claim.verdict for claim in figure.judge(data, "quick")}
    assert verdicts == {
        "decay/fig1/slope": "holds corrected",
        "decay/fig1/monotone-first": "holds",
        "decay/fig1/monotone-last": "holds",
    }
    figure.picture(data)
