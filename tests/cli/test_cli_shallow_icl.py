"""``solvable solve shallow_icl`` and ``solvable train shallow_icl``."""

import csv
import json
import math

import numpy as np
import pytest
from tests.command import document

from solvable import shallow_icl as icl

pytestmark = pytest.mark.slow

SMALL = ("--dim", 3, "--context", 8)
TASK = icl.Task(dim=3, context=8)


# What is said on the command line, and the same from Python.
CASES = {
    "Fig. 3's model": (
        "--steps 30",
        lambda: icl.train(TASK, icl.separate(5), lr=0.02, steps=30, units="code"),
    ),
    "Fig. 1's model": (
        "--model merged --steps 30 --seed 3",
        lambda: icl.train(TASK, icl.merged(8, scale=1e-6), lr=1e-3, steps=30, units="code", seed=3),
    ),
    "every option of the model": (
        "--heads 2 --rank 2 --scale 0.1 --init B --units paper --lr 0.1 --steps 30 --log-every 7",
        lambda: icl.train(TASK, icl.separate(2, 2, 0.1, "B"), lr=0.1, steps=30, log_every=7),
    ),
    "sequences": (
        "--sequences 40 --data-seed 5 --antithetic --centred --whitened --blocks zero --steps 30",
        lambda: icl.train(
            icl.sample(TASK, 40, seed=5, antithetic=True, centred=True, whitened=True),
            icl.separate(5),
            lr=0.02,
            steps=30,
            units="code",
            blocks="zero",
        ),
    ),
    "brute force": (
        "--sequences 20 --brute --steps 30 --model mlp --scale 0.1",
        lambda: icl.train_brute(
            icl.sample(TASK, 20), icl.mlp(8, scale=0.1), lr=1e-3, steps=30, units="code"
        ),
    ),
    "softmax": (
        "--sequences 20 --attention softmax --steps 10",
        lambda: icl.train(
            icl.sample(TASK, 20),
            icl.separate(5, attention="softmax"),
            lr=0.3,
            steps=10,
            units="code",
        ),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_training_is_that_of_the_python_api(solvable, case):
    words, train = CASES[case]
    told = document(solvable("train", "shallow_icl", *SMALL, *words.split(), "--json"))
    run = train()
    for name in ("step", "time", "loss"):
        assert told[name] == np.asarray(getattr(run, name)).tolist()
    assert told["interrupted"] is False


def test_every_option_of_the_task_reaches_it(solvable):
    words = "--eigenvalues 0.2 0.5 --context 6 --noise 0.3 --in-context 0.5 --lengths varied"
    rest = "--normalise n-1 --sequences 10 --steps 3 --lr 0.1 --scale 0.2 --model merged --json"
    told = document(solvable("train", "shallow_icl", *words.split(), *rest.split()))
    task = icl.Task(
        dim=2,
        context=6,
        spectrum=[0.5, 0.2],
        noise=0.3,
        in_context=0.5,
        lengths="varied",
        normalise="n-1",
    )
    run = icl.train(icl.sample(task, 10), icl.merged(8, 0.2), lr=0.1, steps=3, units="code")
    assert told["loss"] == run.loss.tolist()
    assert told["task"] == {
        "dim": 2,
        "context": 6,
        "eigenvalues": [0.5, 0.2],
        "noise": 0.3,
        "in_context": 0.5,
        "labels": "task",
        "lengths": "varied",
        "normalise": "n-1",
        "outputs": 1,
    }


def test_the_default_is_figure_3_and_shows_its_staircase(solvable):
    told = document(solvable("train", "shallow_icl", "--json"))
    assert told["task"]["eigenvalues"] == pytest.approx([0.4, 0.3, 0.2, 0.1])
    assert (told["model"], told["heads"], told["rank"]) == ("separate", 5, 1)
    task = icl.Task(dim=4, context=31)
    assert told["loss"][-1] == pytest.approx(icl.plateau_losses(task)[-1].item(), rel=1e-3)
    drops = icl.crossing_times(told["step"], told["loss"], icl.mid_levels(task))
    assert np.all(np.diff(drops, prepend=0.0) > 100.0)


def test_the_table_is_of_80_columns_and_csv_holds_every_bit(solvable, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / "run.csv"
    done = solvable("train", "shallow_icl", *SMALL, "--steps", 20, "--csv", path)
    assert (done.status, done.err) == (0, f"solvable: wrote {path}\n")
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "shallow_icl, separate linear attention on the population (exact reduction)"
    assert lines[3].split() == ["step", "t/τ", "L(t)"]
    run = icl.train(TASK, icl.separate(5), lr=0.02, steps=20, units="code")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["step", "time", "loss"]
    assert [float(row["loss"]) for row in rows] == run.loss.tolist()


@pytest.mark.parametrize("why", ["--brute", "--attention softmax"])
def test_what_needs_tokens_takes_400_sequences_and_says_so(solvable, why):
    done = solvable("train", "shallow_icl", *SMALL, *why.split(), "--steps", 2, "--json")
    assert json.loads(done.out)["sequences"] == 400
    assert done.err == f"solvable: {why} without --sequences: training on 400\n"


def test_the_plateaus_and_drops_are_those_of_the_python_api(solvable):
    words = ("--scale", 1e-3, "--seed", 4, "--steps", 100)
    told = document(solvable("solve", "shallow_icl", *SMALL, *words, "--json"))
    drops = icl.drop_times(TASK, icl.separate(5, scale=1e-3), units="code", seed=4)
    plateaus = told["plateaus"]
    assert [level["learned"] for level in plateaus] == [0, 1, 2, 3]
    assert [level["loss"] for level in plateaus] == icl.plateau_losses(TASK).tolist()
    assert [level["eigenvalue"] for level in plateaus[1:]] == TASK.eigenvalues.tolist()
    assert [level["time"] for level in plateaus[1:]] == drops.time.tolist()
    assert [level["margin"] for level in plateaus[1:]] == drops.margin.tolist()
    steps = [level["step"] for level in plateaus[1:]]
    np.testing.assert_allclose(steps, drops.steps(lr=0.02), rtol=1e-12)


def test_the_staircase_is_what_training_gives(solvable):
    # Margins above 1.3 at every drop; at this scale drops are then predicted to 1 %.
    words = ("--scale", 1e-3, "--seed", 4, "--steps", 60_000, "--log-every", 20, "--json")
    theory = document(solvable("solve", "shallow_icl", *words))
    run = document(solvable("train", "shallow_icl", *words))
    assert (theory["step"], theory["time"]) == (run["step"], run["time"])
    levels = icl.mid_levels(icl.Task(dim=4, context=31))
    drops = [icl.crossing_times(curve["step"], curve["loss"], levels) for curve in (theory, run)]
    np.testing.assert_allclose(drops[0], drops[1], rtol=0.01)
    # Away from the drops, where the two differ by when, the levels are the same.
    step = np.array(run["step"])
    calm = np.all(np.abs(step[:, None] / drops[1] - 1.0) > 0.1, axis=1)
    gap = np.abs(np.array(theory["loss"]) - run["loss"])
    assert np.mean(calm) > 0.5
    assert np.max(gap[calm]) < 0.01


def test_fewer_heads_than_dimensions_have_fewer_drops(solvable):
    told = document(solvable("solve", "shallow_icl", *SMALL, "--heads", 2, "--json"))
    assert len(told["plateaus"]) == 3
    end = told["plateaus"][-1]
    assert end["margin"] is None  # one head was left
    assert min(told["loss"]) >= end["loss"] * (1 - 1e-9)


@pytest.mark.parametrize("model", ["merged", "mlp"])
def test_merged_attention_on_white_tokens_is_the_closed_form(solvable, model):
    words = ("--model", model, "--spectrum", "white", "--seed", 2, "--json")
    theory = document(solvable("solve", "shallow_icl", *words))
    run = document(solvable("train", "shallow_icl", *words))
    assert theory["step"] == run["step"]
    # Gradient descent against gradient flow: O(lr), here 0.024.
    np.testing.assert_allclose(theory["loss"], run["loss"], atol=0.03)
    marks = {mark["mark"]: mark for mark in theory["marks"]}
    floor = icl.plateau_losses(icl.Task(dim=4, context=31, spectrum="white"))[-1].item()
    assert marks["end"]["loss"] == pytest.approx(floor)
    assert marks["end"]["time"] is None
    middle = np.interp(marks["half risen"]["step"], theory["step"], theory["loss"])
    assert middle == pytest.approx(marks["half risen"]["loss"], abs=0.01)


def test_the_table_of_plateaus_is_printed_and_rough_times_are_called_so(solvable, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    task = icl.Task(dim=4, context=31)
    margins = icl.drop_times(task, icl.separate(5), units="code", seed=range(9)).margin.min(1)
    for seed, rough in ((int(margins.argmin()), True), (int(margins.argmax()), False)):
        assert (margins[seed] < 1.3) == rough
        out = solvable("solve", "shallow_icl", "--seed", seed).out
        assert max(map(len, out.splitlines())) <= 80
        assert "learned" in out
        assert "0.377372" in out
        assert ("margin below 1.3" in out) == rough


def test_an_infinite_context_is_null_in_json(solvable):
    words = "--context inf --units paper --steps 2 --json"
    assert document(solvable("train", "shallow_icl", *words.split()))["task"]["context"] is None
    assert math.isinf(icl.Task(dim=4, context=None).context)
