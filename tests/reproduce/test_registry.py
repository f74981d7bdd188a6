"""Labs and figures by name: ours, and those of installed packages."""

import subprocess
import sys

import pytest

from solvable import reproduce
from solvable.papers import PAPERS
from solvable.reproduce import Figure, registry


def test_our_labs_are_found_with_all_their_figures():
    lab = reproduce.labs()["msfr"]
    assert lab.paper is PAPERS["msfr"]
    names = [figure.name for figure in lab.figures]
    assert {f"fig{k}" for k in range(2, 11)} <= set(names)
    assert {"crossover", "window", "table1", "table2", "unseen", "errata"} <= set(names)
    assert len(set(names)) == len(names)


def test_every_claim_has_one_id():
    ids = [s.id for lab in reproduce.labs().values() for f in lab.figures for s in f.statements]
    assert len(ids) == len(set(ids))
    assert len(ids) > 100


def test_an_installed_package_adds_a_lab(toy):
    assert registry.names() == [*PAPERS, "toy"]
    assert [f.id for f in reproduce.figures(["toy"])][:2] == ["toy/one", "toy/two"]
    assert reproduce.figures(["all"])[-1].lab == "toy"


def test_targets_are_taken_once_and_in_order(toy):
    found = reproduce.figures(["toy/two", "toy/one", "toy/two"])
    assert [figure.id for figure in found] == ["toy/two", "toy/one"]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("msrf", r"target must be one of all, msfr.* or LAB/FIGURE, not 'msrf'"),
        ("msfr/fig33", r"figure of msfr must be one of .*, not 'fig33'; did you mean msfr/fig3\?"),
        ("fig3", r"not 'fig3'; did you mean msfr/fig3\?"),
        ("nolab/fig1", r"lab must be one of msfr.*, not 'nolab'"),
        ("", r"target must be one of all"),
    ],
)
def test_an_unknown_target_is_refused_in_one_sentence(target, words):
    with pytest.raises(ValueError, match=words):
        reproduce.figures([target])


def test_an_entry_point_must_be_a_lab_of_its_name(toy):
    (toy / "toy_lab-1.0.dist-info" / "entry_points.txt").write_text(
        "[solvable.labs]\nother = toy_lab:LAB\n"
    )
    with pytest.raises(ValueError, match=r"'other' of solvable\.labs must be a solvable\.Lab"):
        registry.lab("other")


def test_a_package_that_cannot_be_loaded_is_told_and_left_out(toy):
    (toy / "toy_lab.py").write_text("import no_such_module\n")
    with pytest.raises(ValueError, match=r"the lab 'toy' of toy_lab:LAB cannot be loaded \(Module"):
        registry.lab("toy")
    with pytest.warns(UserWarning, match="cannot be loaded"):
        assert list(reproduce.labs()) == list(PAPERS)


SIZES = {"quick": {}, "default": {}, "full": {}}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": "fig1"}, "id must be LAB/FIGURE, .* not 'fig1'"),
        ({"id": "toy/.."}, r"id must be LAB/FIGURE, .* not 'toy/\.\.'"),
        ({"id": "toy/a b"}, "id must be LAB/FIGURE, .* not 'toy/a b'"),
        ({"settings": {"quick": {}}}, "settings of toy/one must have default, full"),
    ],
)
def test_a_figure_that_contradicts_itself_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        Figure(**{"id": "toy/one", "title": "", "settings": SIZES, **change})


def test_all_our_labs_are_there_without_setting_anything_up():
    """In a process of its own: the tests have set up double precision, a user's command has not."""
    code = "from solvable import reproduce; print(*reproduce.labs())"
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == list(PAPERS)
