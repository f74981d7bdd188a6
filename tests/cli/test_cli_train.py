import csv
import json

import numpy as np
import optax
import pytest

from solvable import msfr

pytestmark = pytest.mark.slow

SMALL = ("--num-tasks", 4, "--context", 6, "--steps", 40)


def train(start, brute=False, **options):
    """The same run from Python."""
    task = msfr.Task(4, alpha=1.8, context=6.0, strength=0.5)
    run = msfr.train_brute if brute else msfr.train
    return run(task, start(), steps=40, **options)


def linear():
    return msfr.Init(v=0.1, w=0.11)


def softmax():
    return msfr.SoftmaxInit(value=0.1, key=0.1, query=0.11)


def adamw(lr):
    return optax.adamw(lr, b1=0.9, b2=0.999, eps=1e-8, weight_decay=1e-5)


CASES = {
    "the defaults": ("", linear, {"lr": 1e-3}),
    "a data set": (
        "--lr 0.01 --data 30 --size 3 --seed 5 --log-every 7",
        linear,
        {"lr": 0.01, "data": 30, "size": 3, "seed": 5, "log_every": 7},
    ),
    "mini-batches": ("--batch 8", linear, {"lr": 1e-3, "batch": 8}),
    "epochs": ("--data 30 --batch 8", linear, {"lr": 1e-3, "data": 30, "batch": 8}),
    "brute force": ("--brute --data 20", linear, {"lr": 1e-3, "data": 20, "brute": True}),
    "softmax": ("--attention softmax", softmax, {"lr": 1e-3}),
    "adamw": (
        "--attention softmax --optimizer adamw",
        softmax,
        {"optimizer": adamw(5e-3)},
    ),
    "adamw with a rate": ("--optimizer adamw --lr 0.02", linear, {"optimizer": adamw(0.02)}),
}


@pytest.mark.parametrize("case", CASES)
def test_json_is_one_document_with_the_run_of_the_python_api(solvable, case):
    words, start, options = CASES[case]
    done = solvable("train", "msfr", *SMALL, *words.split(), "--json")
    assert (done.status, done.err) == (0, "")
    document = json.loads(done.out)
    run = train(start, **options)
    for name in ("step", "time", "loss", "train_loss"):
        assert document[name] == np.asarray(getattr(run, name)).tolist()
        assert document["dims"][name] == ["time"]
    asked = document["question"]
    assert asked["start"]["attention"] == ("softmax" if start is softmax else "linear")
    assert document["witness"] == ("tokens" if options.get("brute") else "reduced")
    assert (document["status"], document["interrupted"]) == ("ok", False)
    assert "predictions" not in document  # 500 tasks at every point are for Zarr


def test_json_tells_the_learning_rate_that_was_used(solvable):
    for words, rate in (("", 1e-3), ("--optimizer adamw", 5e-3), ("--lr 0.5", 0.5)):
        done = solvable("train", "msfr", *SMALL, *words.split(), "--json")
        assert json.loads(done.out)["question"]["schedule"]["lr"] == rate


def test_csv_holds_every_bit_of_the_run(solvable, tmp_path):
    path = tmp_path / "run.csv"
    assert solvable("train", "msfr", *SMALL, "--data", 30, "--csv", path).status == 0
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    run = train(linear, lr=1e-3, data=30)
    for name in ("step", "time", "loss", "train_loss"):
        column = np.asarray(getattr(run, name))
        assert [column.dtype.type(row[name]) for row in rows] == column.tolist()


def test_brute_force_without_data_takes_400_and_says_so(solvable):
    done = solvable("train", "msfr", *SMALL, "--brute", "--json")
    assert json.loads(done.out)["question"]["limits"]["data"] == 400
    assert done.err == ("solvable: data or batch must be given for the tokens: taking data = 400\n")


def test_the_training_loss_is_shown_where_there_is_a_data_set(solvable):
    assert "training loss" in solvable("train", "msfr", *SMALL, "--data", 30).out
    assert "training loss" not in solvable("train", "msfr", *SMALL).out
