"""``solvable solve shallow_icl``, ``train shallow_icl`` and ``compare shallow_icl``."""

import csv
import json

import numpy as np
import pytest
from tests.command import document

import solvable as package
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
        "--sequences 40 --data-seed 5 --antithetic --query-flip --centred --whitened "
        "--blocks zero --steps 30",
        lambda: icl.train(
            icl.sample(
                TASK, 40, seed=5, antithetic=True, query_flip=True, centred=True, whitened=True
            ),
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
    assert (told["interrupted"], told["status"]) == (False, "ok")
    separate = told["question"]["start"]["model"] == "separate"
    assert ("plateau" in told) == (separate and "softmax" not in words)


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
    assert told["question"]["task"] == {
        "dim": 2,
        "context": 6,
        "eigenvalues": [0.5, 0.2],
        "spectrum": None,
        "exponent": None,
        "noise": 0.3,
        "in_context": 0.5,
        "labels": "task",
        "lengths": "varied",
        "normalise": "n-1",
        "outputs": 1,
    }


def test_the_default_is_figure_3_and_shows_its_staircase(solvable):
    told = document(solvable("train", "shallow_icl", "--json"))
    assert told["eigenvalue"][1:] == pytest.approx([0.4, 0.3, 0.2, 0.1])
    start = told["question"]["start"]
    assert [start[name] for name in ("model", "heads", "rank")] == ["separate", 5, 1]
    task = icl.Task(dim=4, context=31)
    assert told["plateau"] == icl.plateau_losses(task).tolist()
    assert told["loss"][-1] == pytest.approx(told["plateau"][-1], rel=1e-3)
    drops = icl.crossing_times(told["step"], told["loss"], icl.mid_levels(task))
    assert np.all(np.diff(drops, prepend=0.0) > 100.0)


@pytest.mark.parametrize(
    ("words", "preset"),
    [
        ("", (5, 1, 0.01, "A", 0.02, 10_000, "code")),
        ("--model merged", (8, None, 1e-6, None, 1e-3, 6_000, "code")),
        ("--model mlp", (8, None, 1e-6, None, 1e-3, 6_000, "code")),
        ("--attention softmax --dim 2 --context 3", (5, 1, 0.01, "A", 0.3, 2_000, "code")),
        (
            "--attention softmax --dim 2 --context 3 --model merged",
            (8, None, 0.03, None, 0.1, 2_000, "code"),
        ),
        ("--context inf", (5, 1, 0.01, "A", 0.02, 10_000, "paper")),
    ],
)
def test_each_model_has_its_own_defaults(words, preset):
    names = ("heads", "rank", "scale", "init", "lr", "steps", "units")
    given = dict(zip(words.split()[::2], words.split()[1::2], strict=True))
    given = {name[2:]: int(x) if x.isdigit() else x for name, x in given.items()}
    flat = package.lab("shallow_icl").described().changed(**given).settled().flat()
    assert tuple(flat[name] for name in names) == preset
    assert flat["sequences"] == (400 if "softmax" in words else None)


def test_the_table_is_of_80_columns_and_csv_holds_every_bit(solvable, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / "run.csv"
    done = solvable("train", "shallow_icl", *SMALL, "--steps", 20, "--csv", path)
    assert (done.status, done.err) == (0, f"solvable: wrote {path}\n")
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "shallow_icl, separate linear attention on the population (exact reduction)"
    assert ["step", "t/τ", "L(t)"] in [line.split() for line in lines]
    run = icl.train(TASK, icl.separate(5), lr=0.02, steps=20, units="code")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["step", "time", "loss"]
    assert [float(row["loss"]) for row in rows] == run.loss.tolist()


def test_what_needs_tokens_takes_400_sequences_and_says_so(solvable):
    done = solvable("train", "shallow_icl", *SMALL, "--brute", "--steps", 2, "--json")
    assert json.loads(done.out)["question"]["sample"]["sequences"] == 400
    words = "sequences must be given for the tokens: taking sequences = 400"
    assert done.err == f"solvable: {words}\n"
    words = ("--attention", "softmax", "--steps", 2)
    told = solvable("train", "shallow_icl", *SMALL, *words).out.splitlines()
    assert told[0] == "shallow_icl, separate softmax attention on 400 sequences (the query's row)"
    assert "P = 400" in told[1] + told[2]


def test_the_plateaus_and_drops_are_those_of_the_python_api(solvable):
    words = ("--scale", 1e-3, "--seed", 4, "--steps", 100)
    told = document(solvable("solve", "shallow_icl", *SMALL, *words, "--json"))
    drops = icl.drop_times(TASK, icl.separate(5, scale=1e-3), units="code", seed=4)
    assert told["learned"] == [0, 1, 2, 3]
    names = ("plateau", "eigenvalue", "drop_time", "drop_step", "margin")
    assert all(told["dims"][name] == ["learned"] for name in names)
    assert told["plateau"] == icl.plateau_losses(TASK).tolist()
    assert told["eigenvalue"] == [None, *TASK.eigenvalues.tolist()]
    assert told["drop_time"] == [None, *drops.time.tolist()]
    assert told["margin"] == [None, *drops.margin.tolist()]
    np.testing.assert_allclose(told["drop_step"][1:], drops.steps(lr=0.02), rtol=1e-12)
    stairs = icl.staircase_loss(TASK, drops.time, told["time"])
    assert told["staircase"] == stairs.tolist()


def test_theory_and_training_are_told_at_the_same_times(solvable):
    words = (*SMALL, "--steps", 800, "--log-every", 2, "--json")
    run = document(solvable("train", "shallow_icl", *words))
    theory = document(solvable("solve", "shallow_icl", *SMALL, "--steps", 800, "--json"))
    np.testing.assert_allclose(theory["time"], run["time"], rtol=1e-12)
    both = document(solvable("solve", "shallow_icl", "--with", "reduced", *words))
    assert both["time"] == both["with"]["time"] == run["time"]
    assert both["with"]["loss"] == run["loss"]
    # Gradient descent against gradient flow: O(lr).
    np.testing.assert_allclose(theory["loss"], run["loss"], atol=0.02)


def test_the_flow_goes_through_the_predicted_drops(solvable):
    # Margins above 1.3 at every drop; at this scale drops are then predicted to 1 %.
    words = ("--scale", 1e-3, "--seed", 4, "--steps", 60_000, "--points", 3001, "--json")
    told = document(solvable("solve", "shallow_icl", *words))
    levels = icl.mid_levels(icl.Task(dim=4, context=31))
    curves = (told["loss"], told["staircase"])
    flow, stairs = (icl.crossing_times(told["time"], curve, levels) for curve in curves)
    np.testing.assert_allclose(stairs, told["drop_time"][1:], rtol=2e-3)
    np.testing.assert_allclose(flow, stairs, rtol=0.01)


def test_fewer_heads_than_dimensions_have_fewer_drops(solvable):
    told = document(solvable("solve", "shallow_icl", *SMALL, "--heads", 2, "--json"))
    assert told["learned"] == [0, 1, 2]
    assert told["heads_floor"] == told["plateau"][-1] > told["floor"]
    assert told["margin"][-1] is None  # one head was left
    assert min(told["loss"]) >= told["plateau"][-1] * (1 - 1e-9)


@pytest.mark.parametrize("model", ["merged", "mlp"])
def test_merged_attention_on_white_tokens_is_the_closed_form(solvable, model):
    words = ("--model", model, "--spectrum", "white", "--seed", 2, "--json")
    told = document(solvable("solve", "shallow_icl", *words))
    task = icl.Task(dim=4, context=31, spectrum="white")
    # The start is aligned but for what decays: of the size of the scale.
    white = icl.white_loss(task, told["growing_mode"], told["time"])
    np.testing.assert_allclose(told["loss"], white, rtol=1e-4)
    assert told["floor"] == icl.plateau_losses(task)[-1].item()
    assert told["half_rise_time"] == icl.half_rise_time(task, told["growing_mode"]).item()
    assert told["escape_rate"] == icl.escape_rate(task).item()
    assert 0.0 < told["escape_time"] < told["half_rise_time"] < told["time"][-1]


def test_the_table_of_plateaus_is_printed_and_rough_times_are_called_so(solvable, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    task = icl.Task(dim=4, context=31)
    margins = icl.drop_times(task, icl.separate(5), units="code", seed=range(9)).margin.min(1)
    for seed, rough in ((int(margins.argmin()), True), (int(margins.argmax()), False)):
        assert (margins[seed] < 1.3) == rough
        out = solvable("solve", "shallow_icl", "--seed", seed).out
        assert max(map(len, out.splitlines())) <= 80
        assert ["learned", "plateau", "eigenvalue"] in [x.split()[:3] for x in out.splitlines()]
        assert "0.37737" in out
        assert ("margin below 1.3" in out) == rough
        assert "predicted for smaller scales" in out
        assert "is later than" not in out
    out = solvable("solve", "shallow_icl", "--scale", 1e-3, "--steps", 10).out
    assert "predicted for smaller scales" not in out
    assert "which is later than 10 steps" in " ".join(out.split())


def test_an_infinite_context_is_in_the_papers_units(solvable):
    told = document(solvable("train", "shallow_icl", "--context", "inf", "--steps", 2, "--json"))
    assert told["question"]["task"]["context"] == "inf"
    assert told["question"]["schedule"]["units"] == "paper"
    run = icl.train(icl.Task(4, None), icl.separate(5), lr=0.02, steps=2)
    assert told["loss"] == run.loss.tolist()


def test_a_saved_run_goes_on(solvable, tmp_path):
    words = (*SMALL, "--sequences", 20, "--antithetic", "--log-every", 5)
    path = tmp_path / "run.zarr"
    solvable("train", "shallow_icl", *words, "--steps", 20, "--save", path)
    told = document(solvable("train", "shallow_icl", "--resume", path, "--steps", 40, "--json"))
    whole = document(solvable("train", "shallow_icl", *words, "--steps", 40, "--json"))
    assert told["loss"] == whole["loss"]
    assert told["question"] == whole["question"]
    done = solvable("train", "shallow_icl", "--resume", path, "--data-seed", 1)
    assert done.status == 2
    assert "resume must be a run of the same problem" in done.err
