import csv
import json

import numpy as np
import pytest

from solvable import scaling
from solvable.scaling.stored import to_document

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A stored fit of 36 runs."""
    rng = np.random.default_rng(0)
    grids = np.meshgrid(np.geomspace(1e7, 1e9, 6), np.geomspace(1e9, 1e11, 6))
    size, data = (grid.ravel() for grid in grids)
    loss = (1.69 + 406.4 * size**-0.34 + 410.7 * data**-0.28) * np.exp(0.005 * rng.normal(size=36))
    fit = scaling.fit(scaling.chinchilla(), {"N": size, "D": data}, y=loss)
    path = tmp_path_factory.mktemp("plan") / "fit.json"
    path.write_text(json.dumps(to_document(fit), allow_nan=False))
    return path


def test_a_stored_fit_is_planned_with(solvable, fitted):
    done = solvable("plan", "--law", fitted, "--budget", "1e20", "--cost", "6*N*D", "--json")
    assert (done.status, done.err) == (0, "")
    document = json.loads(done.out)
    (entry,) = document["budgets"]
    assert (document["law"], document["cost"], entry["status"]) == ("chinchilla", "6*N*D", "ok")
    size, data = entry["allocation"]["N"], entry["allocation"]["D"]
    assert 6.0 * size["value"] * data["value"] == pytest.approx(1e20, rel=1e-9)
    assert size["low"] < 6.45e8 < size["high"]  # of the law that the runs were made with
    assert entry["exponent"]["value"] == pytest.approx(document["closed_exponent"], rel=1e-8)
    assert 0.8 < entry["mistakes"]["N"]["half"]["budget"] < 0.9
    assert entry["outside"] == {}


def test_tables_say_the_same(solvable, fitted, tmp_path):
    path = tmp_path / "plan.csv"
    words = ("--budget", "1e20:1e24", "--points", 3, "--cost", "6*N*D", "--csv", path)
    done = solvable("plan", "--law", fitted, *words)
    assert (done.status, done.err) == (0, f"solvable: wrote {path}\n")
    for word in ("×÷", "half the N", "loss − E ∝ C^-0.16", "beyond the data: N is"):
        assert word in done.out
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["budget"]) for row in rows] == pytest.approx([1e20, 1e22, 1e24])
    assert all(float(row["N_low"]) < float(row["N"]) < float(row["N_high"]) for row in rows)
    assert {row["status"] for row in rows} == {"ok"}


def test_the_picture_is_a_picture(solvable, fitted, tmp_path):
    path = tmp_path / "plan.png"
    done = solvable("plan", "--law", fitted, "--budget", 1e20, "--cost", "6*N*D", "--plot", path)
    assert (done.status, done.err) == (0, f"solvable: wrote {path}\n")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_doubtful_fit_is_planned_with_and_told(solvable, fitted, tmp_path):
    document = json.loads(fitted.read_text())
    path = tmp_path / "doubt.json"
    path.write_text(json.dumps(document | {"status": "ill_posed", "message": "condition 2e3"}))
    done = solvable("plan", "--law", path, "--budget", 1e20, "--cost", "6*N*D", "--json")
    assert done.status == 0
    assert "the fit is ill-posed (condition 2e3)" in done.err
    assert json.loads(done.out)["fit_status"] == "ill_posed"


def test_no_optimum_is_refused(solvable, fitted, tmp_path):
    document = json.loads(fitted.read_text())
    document["values"]["B"] = 0.0
    path = tmp_path / "gone.json"
    path.write_text(json.dumps(document))
    done = solvable("plan", "--law", path, "--budget", 1e20, "--cost", "6*N*D")
    assert (done.status, done.out) == (2, "")
    assert "no optimum: the loss falls without end as N grows" in done.err


def test_a_model_is_planned_with(solvable):
    words = ("--num-tasks", 40, "--no-compile-cache", "--json")
    done = solvable("plan", "--model", "msfr", "--budget", 20, *words)
    assert (done.status, done.err) == (0, "")
    document = json.loads(done.out)
    (entry,) = document["budgets"]
    place = {name: one["value"] for name, one in entry["allocation"].items()}
    assert place["t"] * place["D"] == pytest.approx(20.0, rel=1e-9)
    assert 1.0 <= place["D"] <= 41.0
    assert entry["loss"]["low"] is None
    assert (document["model"], document["num_tasks"]) == ("msfr", 40)


def test_a_plan_says_what_its_law_is(solvable):
    done = solvable("plan", "--model", "deep_icl", "--budget", 1e3)
    assert "by the sum of four laws, each of one resource alone; deep_icl.optimal_shape" in done.out


SENTENCES = [
    ("--budget abc --model msfr", "budget must be a positive number, or LOW:HIGH of two, not"),
    ("--budget 9:3 --model msfr", "budget must be LOW:HIGH with LOW below HIGH, not '9:3'"),
    ("--budget -3 --model msfr", "budget must be a positive number"),
    ("--budget 1:2:3 --model msfr", "budget must be a positive number, or LOW:HIGH"),
    ("--budget 10 --points 3 --model msfr", "points is for several budgets"),
    ("--budget 1:9 --points 1 --model msfr", "points must be a whole number, from 2"),
    ("--budget 10", "law and model must be given, one of them"),
    ("--budget 10 --model msfr --law FIT", "law and model cannot both be given"),
    ("--budget 10 --model gpt", "--model must be one of msfr, deep_icl, not 'gpt'"),
    ("--budget 10 --model msfr --nu 2", "nu is for --model deep_icl, not msfr"),
    ("--budget 10 --model deep_icl --alpha 2", "alpha is for --model msfr, not deep_icl"),
    ("--budget 10 --model msfr --alpha 0.5", "alpha must lie in [1.001, 10], not 0.5"),
    ("--budget 10 --model msfr --cost D*q", "names t, D, N, not 'D*q'"),
    ("--budget 10 --law FIT", "cost must be given with --law"),
    ("--budget 10 --law FIT --cost 6*N", "cost must contain D, of which there would be no limit"),
    ("--budget 10 --law FIT --cost 6*N*M", "cost must be an expression of numbers"),
    ("--budget 10 --law FIT --cost 6*N*D --alpha 2", "alpha is for --model, not for --law"),
    ("--budget 10 --law NONE --cost 6*N*D", "law must be a file that can be read, not"),
    ("--budget 10 --law TEXT --cost 6*N*D", "law must be a fit, the JSON document that solvable"),
    ("--budget 10 --law LIST --cost 6*N*D", "law must be a fit, the JSON document that solvable"),
    ("--budget 10 --model msfr --plot x.gif", "plot must end in .svg, .png or .pdf, not 'x.gif'"),
]


@pytest.mark.parametrize(("line", "sentence"), SENTENCES)
def test_bad_input_gets_one_sentence(solvable, fitted, tmp_path, line, sentence):
    (tmp_path / "text").write_text("no JSON")
    (tmp_path / "list").write_text("[1, 2]")
    files = {
        "FIT": fitted,
        "NONE": tmp_path / "none",
        "TEXT": tmp_path / "text",
        "LIST": tmp_path / "list",
    }
    done = solvable("plan", *(files.get(word, word) for word in line.split()))
    assert (done.status, done.out) == (2, "")
    assert sentence in done.err
    assert done.err.count("\n") == 1
