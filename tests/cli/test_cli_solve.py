import csv
import json
import math

import numpy as np
import pytest

from solvable import msfr
from solvable.cli.screen import print_json

pytestmark = pytest.mark.slow

SMALL = ("--num-tasks", 7, "--context", 12, "--beta", 0.4, "--gamma", 0.2, "--points", 20)


def curve(**options):
    """The same curve from Python: time and loss."""
    task = msfr.Task(7, alpha=1.8, context=12.0, strength=0.5, beta=0.4, gamma=0.2)
    time = np.geomspace(1e-3, 1e2, 20)
    loss = msfr.loss(task, msfr.Init(v=0.1, w=0.11), time, **options)
    return time.tolist(), loss.tolist()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"order": "zeroth"},
        {"order": "first", "size": 4},
        {"order": "zeroth", "size": 3, "data": 30},
    ],
    ids=str,
)
def test_json_is_one_document_with_the_curve_of_the_python_api(solvable, options):
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    done = solvable("solve", "msfr", *SMALL, *words, "--json")
    assert (done.status, done.err) == (0, "")
    time, loss = curve(**options)
    told = json.loads(done.out)
    assert set(told.pop("versions")) >= {"solvable", "jax", "jaxlib", "numpy"}
    asked = told.pop("question")
    assert told == {
        "lab": "msfr",
        "command": "solve",
        "witness": "theory",
        "over": "time",
        "dims": {"time": ["time"], "loss": ["time"]},
        "time": time,
        "loss": loss,
    }
    assert asked == {
        "task": {
            "num_tasks": 7,
            "alpha": 1.8,
            "context": 12.0,
            "strength": 0.5,
            "beta": 0.4,
            "gamma": 0.2,
        },
        "start": {
            "attention": "linear",
            "v": 0.1,
            "w": 0.11,
            "value": None,
            "key": None,
            "query": None,
        },
        "limits": {"size": options.get("size"), "data": options.get("data"), "batch": None},
        "theory": {"order": options.get("order", "exact")},
        "schedule": {
            "lr": 1e-3,
            "steps": 5000,
            "seed": 0,
            "log_every": None,
            "log_points": None,
            "optimizer": "gd",
        },
    }


def test_csv_holds_every_bit_of_the_curve(solvable, tmp_path):
    path = tmp_path / "curve.csv"
    done = solvable("solve", "msfr", *SMALL, "--csv", path)
    assert (done.status, done.err) == (0, f"solvable: wrote {path}\n")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    time, loss = curve()
    assert list(rows[0]) == ["time", "loss"]
    assert [float(row["time"]) for row in rows] == time
    assert [float(row["loss"]) for row in rows] == loss
    beside = json.loads((tmp_path / "curve.csv.json").read_text())
    assert beside["question"]["task"]["num_tasks"] == 7
    assert set(beside) == {"lab", "command", "witness", "versions", "question", "over"}


def test_the_times_begin_and_end_where_they_were_asked_to(solvable):
    done = solvable(
        "solve", "msfr", *SMALL, "--t-min", 0.3, "--t-max", 7.7, "--order", "zeroth", "--json"
    )
    time = json.loads(done.out)["time"]
    assert (time[0], time[-1]) == (0.3, 7.7)
    np.testing.assert_allclose(np.diff(np.log(time)), math.log(7.7 / 0.3) / 19, rtol=1e-12)


def test_the_table_has_the_first_and_the_last_point_and_fits_80_columns(solvable, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = solvable("solve", "msfr", *SMALL, "--order", "zeroth").out.splitlines()
    assert max(map(len, lines)) <= 80
    numbers = [line.split() for line in lines if "e-" in line or "e+" in line]
    assert len(numbers) == 14
    assert numbers[0][0] == "1.00000e-03"
    assert numbers[-1][0] == "1.00000e+02"
    assert lines[-1] == "14 of 20 points; --csv FILE writes them all"


def test_a_short_table_has_every_point(solvable):
    lines = solvable("solve", "msfr", *SMALL[:-1], 3, "--order", "zeroth").out.splitlines()
    assert len([line for line in lines if "e-" in line or "e+" in line]) == 3
    assert "points" not in lines[-1]


def test_what_is_not_finite_is_null_in_json(capsys):
    print_json({"loss": [1.0, math.nan, -math.inf], "task": {"alpha": math.inf}, "size": None})
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == {
        "loss": [1.0, None, None],
        "task": {"alpha": None},
        "size": None,
    }
