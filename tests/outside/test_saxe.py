"""The lab that docs/add-a-model.md leads through, built from the page: its own numbers."""

import re

import numpy as np
import pytest
from tests.command import assert_refused, document
from tests.outside.packages import blocks, saxe_files

from solvable import lab

pytestmark = pytest.mark.usefixtures("saxe")

PUBLIC = {"solvable", *(f"solvable.{m}" for m in ("asking", "papers", "question", "schedule"))}
PUBLIC |= {"solvable.training", "solvable.scaling", "solvable.reproduce"}


def test_two_files_of_120_lines_are_a_lab():
    files = saxe_files()
    lines = [files[f"src/saxe/{name}.py"].count("\n") for name in ("lab", "witnesses")]
    assert sum(lines) <= 120


def test_it_is_written_with_public_names_alone():
    text = "\n".join(saxe_files(extended=True).values())
    found = set(re.findall(r"^(?:from|import) (solvable[\w.]*)", text, re.MULTILINE))
    assert {"solvable", "solvable.question", "solvable.training"} <= found <= PUBLIC
    assert "solvable import _" not in text


def test_the_closed_form_has_its_known_values():
    loss = lab("saxe").ask(at=[0.0, 1.0, 10.0]).loss
    known = [0.76099716893424, 0.75311402900975, 0.0542844404464899]
    np.testing.assert_allclose(loss, known, rtol=1e-13)  # the digits that are known


@pytest.mark.parametrize("witness", ["reduced", "tokens"])
def test_training_has_its_known_value(witness):
    run = lab("saxe").ask(witness=witness, steps=500)
    assert run.loss[-1].item() == pytest.approx(0.000419050533134783, rel=1e-12)


def test_the_inputs_are_white():
    """To the last digit: what is trained on them is the population."""
    problem = lab("saxe").training(lab("saxe").question(), "tokens").problem
    x, _ = problem.data
    np.testing.assert_allclose(x @ x.T / x.shape[1], np.eye(8), atol=1e-15)


def test_late_the_witnesses_agree_within_what_the_step_is_worth(solvable):
    found = document(solvable("compare", "saxe", "--json"))
    assert found["verdicts"] == {"theory": "agrees", "tokens": "agrees"}
    assert found["time"][-1] == pytest.approx(100.0)
    last = {
        word: dict(zip(found["witness"], np.asarray(found[word])[:, -1], strict=True))
        for word in ("loss", "gap", "allowed")
    }
    assert last["loss"]["reduced"] == pytest.approx(1.85456e-20, rel=1e-5)
    assert last["loss"]["theory"] == pytest.approx(2.32004e-20, rel=1e-5)
    assert last["gap"]["theory"] == pytest.approx(0.251, abs=5e-4)
    assert last["allowed"]["theory"] == pytest.approx(0.311, abs=5e-4)


@pytest.mark.parametrize(
    "given",
    [{"modes": 3}, {"modes": 1}, {"modes": 3, "lr": 0.2, "steps": 300}, {"modes": 1, "small": 1.0}],
    ids=str,
)
def test_the_right_witnesses_agree_however_small_the_loss_is(given):
    """Where the step is worth more than the loss, at round-off, and at exactly 0."""
    found = lab("saxe").compare(**given)
    assert found.attrs["verdicts"] == '{"theory": "agrees", "tokens": "agrees"}'


def test_a_closed_form_from_another_start_differs(solvable, monkeypatch):
    """Ten times as far on."""
    import saxe.witnesses as module

    right = module.Theory
    monkeypatch.setattr(module, "Theory", lambda small, **more: right(small=10 * small, **more))
    assert solvable("compare", "saxe", "--steps", 100).status == 1


def test_the_page_shows_what_compare_prints(solvable):
    (shown,) = [text for text in blocks("") if text.startswith("saxe, its witnesses")]
    printed = [line.strip() for line in solvable("compare", "saxe").out.splitlines()]
    for line in shown.splitlines()[:-1]:
        assert line.strip() in printed or line.startswith("tokens")  # round-off is the machine's


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--decay", 9), "decay must lie in [0, 5], not 9"),
        (("--decya", 9), "--decya is not an option of solvable solve saxe; did you mean --decay?"),
    ],
)
def test_it_refuses_in_the_words_that_the_page_shows(solvable, words, sentence):
    done = solvable("solve", "saxe", *words)
    assert_refused(done, sentence)
    assert done.err in "".join(blocks(""))


def test_the_python_of_the_page_runs(monkeypatch):
    monkeypatch.setattr("solvable.computing.compile_cache", lambda: "")
    (code,) = [text for text in blocks("python") if text.startswith("import solvable")]
    lines = code.splitlines()
    known: dict = {}
    exec("\n".join(lines[:4]), known)
    loss, caption, verdicts = (eval(line.partition("  #")[0], known) for line in lines[4:])
    assert [f"{x:.3g}" for x in loss.values] == re.findall(r"[\d.]+", lines[4].partition("#")[2])
    assert "α = 2" in caption
    assert repr(verdicts) in lines[6]


def test_a_saved_run_goes_on_where_it_was(solvable, tmp_path):
    words, run = ("train", "saxe", "--log-every", 100, "--json"), tmp_path / "run.zarr"
    assert solvable(*words, "--steps", 100, "--save", run).status == 0
    on = document(solvable("train", "saxe", "--resume", run, "--steps", 200, "--json"))
    assert on["step"] == [0, 100, 200]
    assert on["loss"] == document(solvable(*words, "--steps", 200))["loss"]
    other = solvable("train", "saxe", "--resume", run, "--steps", 200, "--decay", 2)
    assert_refused(other, "resume must be a run of the same problem: its task.decay is 1, here")


def test_another_witness_is_told_beside_it(solvable):
    found = document(solvable("solve", "saxe", "--with", "tokens", "--steps", 50, "--json"))
    assert found["with"]["witness"] == "tokens"
    np.testing.assert_allclose(found["loss"], found["with"]["loss"], rtol=0.05)  # lr = 0.05
