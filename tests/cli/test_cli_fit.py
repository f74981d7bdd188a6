import dataclasses
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest

from solvable import scaling
from solvable.cli import laws
from solvable.cli.fit_words import digits, percent

pytestmark = pytest.mark.slow

TRUTH = {"E": 1.69, "A": 406.4, "B": 410.7, "a": 0.34, "b": 0.28}
CHINCHILLA = ("--law", "chinchilla", "--x", "N=params", "--x", "D=tokens", "--y", "loss")
POWER = ("--law", "power", "--x", "steps", "--y", "loss")
OPENINGS = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}


def saved(path: Path, columns: dict) -> Path:
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(map(str, row)) for row in rows]
    path.write_text("\n".join([",".join(columns), *lines, ""]))
    return path


def runs(noise: float = 0.0) -> dict[str, list]:
    rng = np.random.default_rng(0)
    size, data = (
        v.ravel() for v in np.meshgrid(np.geomspace(1e7, 1e10, 6), np.geomspace(1e9, 1e12, 6))
    )
    loss = TRUTH["E"] + TRUTH["A"] * size ** -TRUTH["a"] + TRUTH["B"] * data ** -TRUTH["b"]
    return {
        "run": [f"run {k % 12}" for k in range(36)],
        "params": size.tolist(),
        "tokens": data.tolist(),
        "flops": (6.0 * size * data).tolist(),
        "loss": (loss * np.exp(noise * rng.standard_normal(36))).tolist(),
        "trust": [1.0 + k % 3 for k in range(36)],
    }


def steps(noise: float = 0.01) -> dict[str, list]:
    x = np.geomspace(1e2, 1e6, 25)
    rng = np.random.default_rng(1)
    loss = (1.5 + 8.0 * x**-0.3) * np.exp(noise * rng.standard_normal(25))
    return {"steps": x.tolist(), "loss": loss.tolist(), "run": ["abc"[k % 3] for k in range(25)]}


@pytest.fixture
def exact(tmp_path) -> Path:
    return saved(tmp_path / "exact.csv", runs())


@pytest.fixture
def noisy(tmp_path) -> Path:
    return saved(tmp_path / "noisy.csv", runs(0.01))


@pytest.fixture
def curve(tmp_path) -> Path:
    return saved(tmp_path / "curve.csv", steps())


def document(done) -> dict:
    assert (done.status, done.err) == (0, "")
    assert done.out.count("\n") == 1
    return json.loads(done.out)


def values(done) -> dict[str, float]:
    return {name: one["value"] for name, one in document(done)["parameters"].items()}


def test_a_law_without_noise_is_found(solvable, exact):
    found = values(solvable("fit", exact, *CHINCHILLA, "--json"))
    assert found == pytest.approx(TRUTH, rel=1e-7)


@pytest.mark.parametrize(
    "columns",
    [
        ("--x", "D=tokens", "--x", "N=params"),
        ("--x", "params", "--x", "tokens"),
        ("--x", "N=params", "--x", "D=flops/(6*params)"),
        ("--x", "D = flops / (6*params)", "--x", "params"),
    ],
)
def test_size_and_data_are_told_by_name_or_by_order(solvable, exact, columns):
    done = document(
        solvable("fit", exact, "--law", "chinchilla", *columns, "--y", "loss", "--json")
    )
    assert done["resources"] == ["N", "D"]
    found = {name: one["value"] for name, one in done["parameters"].items()}
    assert found == pytest.approx(TRUTH, rel=1e-6)


def test_parquet_gives_what_csv_gives(solvable, noisy, tmp_path):
    path = tmp_path / "noisy.parquet"
    parquet.write_table(arrow.table(runs(0.01)), path)
    one, two = (document(solvable("fit", p, *CHINCHILLA, "--json")) for p in (noisy, path))
    assert (one.pop("file"), two.pop("file")) == (str(noisy), str(path))
    for facts in (one, two):
        facts["outliers"] = [entry["ratio"] for entry in facts["outliers"]["worst"]]
    assert one == two


def test_the_document_is_the_fit_of_the_library(solvable, noisy):
    told = document(
        solvable("fit", noisy, *CHINCHILLA, "--weights", "trust", "--group", "run", "--json")
    )
    table = runs(0.01)
    found = scaling.fit(
        "chinchilla",
        {"N": table["params"], "D": table["tokens"]},
        y=table["loss"],
        weights=table["trust"],
        group=table["run"],
    )
    assert told["law"] == "chinchilla"
    assert told["status"] == found.status == "converged"
    for name, one in found.parameters.items():
        entry = told["parameters"][name]
        assert (entry["value"], entry["low"], entry["high"]) == (one.value, one.low, one.high)
        assert entry["low"] < entry["value"] < entry["high"]
    assert told["residual_rms"] == found.rms
    assert told["hold_out"] is None
    assert told["points"] == 36
    assert told["groups"] == 12
    assert told["left_out"] == 0
    assert told["columns"] == {
        "x": {"N": "params", "D": "tokens"},
        "y": "loss",
        "weights": "trust",
        "group": "run",
    }


@pytest.mark.parametrize("intervals", ["delta", "profile", "bootstrap"])
def test_every_kind_of_interval_is_told(solvable, noisy, intervals):
    words = ("fit", noisy, *CHINCHILLA, "--intervals", intervals, "--level", 0.999)
    told = document(solvable(*words, "--json"))
    assert told["intervals"] == intervals
    assert told["refits"] == (1000 if intervals == "bootstrap" else 0)
    for name, one in told["parameters"].items():
        assert one["low"] < TRUTH[name] < one["high"]
    out = solvable(*words).out
    assert "99.9 % interval" in out
    start = {"delta": "delta method", "profile": "profile likelihood", "bootstrap": "bootstrap of"}
    assert f"intervals  {start[intervals]}" in out


def test_a_seed_repeats_and_another_does_not(solvable, curve):
    words = ("fit", curve, *POWER, "--intervals", "bootstrap", "--draws", 100, "--json", "--seed")
    one, again, two = (solvable(*words, seed).out for seed in (1, 1, 2))
    assert one == again != two


def test_rows_held_out_are_predicted(solvable, noisy):
    told = document(solvable("fit", noisy, *CHINCHILLA, "--hold-out", "largest", "25%", "--json"))
    assert told["points"] == 27
    held = told["hold_out"]
    assert (held["kind"], held["points"]) == ("largest", 9)
    assert held["rms"] < 0.05
    assert held["inside"] >= 0.7
    out = " ".join(solvable("fit", noisy, *CHINCHILLA, "--hold-out", "random", 0.25).out.split())
    assert "27 of 36 rows" in out
    assert "9 random of 36 rows are predicted with rms" in out


def test_a_law_that_does_not_extrapolate_is_told(solvable, tmp_path):
    x = np.geomspace(1.0, 1e6, 40)
    bent = np.where(x < 1e4, x**-0.5, 1e-2 * (x / 1e4) ** -0.05)
    noise = np.exp(0.01 * np.random.default_rng(0).standard_normal(40))
    path = saved(tmp_path / "bent.csv", {"x": x, "y": bent * noise})
    words = ("--law", "power", "--x", "x", "--y", "y", "--hold-out", "largest", "25%")
    out = " ".join(solvable("fit", path, *words).out.split())
    assert "do not trust the law that far out" in out


def test_a_pinned_parameter_stays_and_is_said(solvable, curve):
    told = document(solvable("fit", curve, *POWER, "--pin", "E=1.5", "--json"))
    one = told["parameters"]["E"]
    assert (one["value"], one["low"], one["high"], one["state"]) == (1.5, 1.5, 1.5, "pinned")
    out = solvable("fit", curve, *POWER, "--pin", "E=1.5").out
    assert "pinned" in next(line for line in out.splitlines() if line.startswith("E "))


def test_rows_with_empty_cells_are_left_out_aloud(solvable, tmp_path):
    table = steps()
    table["loss"][3] = table["loss"][9] = table["run"][9] = ""
    path = saved(tmp_path / "gaps.csv", table)
    done = solvable("fit", path, *POWER, "--group", "run", "--json")
    assert done.status == 0
    assert json.loads(done.out)["left_out"] == 2
    assert done.err == ("solvable: left out 2 of 25 rows with empty cells: 2 in loss, 1 in run\n")


def test_outliers_are_named_by_their_lines(solvable, tmp_path):
    table = steps()
    table["loss"][6] *= 1.5
    path = saved(tmp_path / "outlier.csv", table)
    far = document(solvable("fit", path, *POWER, "--json"))["outliers"]
    worst = far["worst"][0]
    assert far["count"] == len(far["worst"])
    assert worst["row"] == "line 8"
    assert worst["ratio"] == pytest.approx(1.5, rel=0.05)
    for loss in ("huber", "squares"):
        assert "line 8 (+" in solvable("fit", path, *POWER, "--loss", loss).out


@pytest.mark.parametrize(
    ("law", "options", "parameters"),
    [
        ("power", ("--x", "params"), "E A a"),
        ("additive", ("--x", "N=params", "--x", "tokens"), "E A_N A_tokens a_N a_tokens"),
        ("additive", ("--x", "params"), "E A_params a_params"),
        ("broken", ("--x", "params"), "E A a c x0 s"),
    ],
)
def test_every_law_has_its_parameters_and_a_formula(solvable, noisy, law, options, parameters):
    words = ("fit", noisy, "--law", law, *options, "--y", "loss")
    told = document(solvable(*words, "--json"))
    assert list(told["parameters"]) == parameters.split()
    out = solvable(*words).out
    assert out.startswith("loss = E + ")
    for name in parameters.split():
        assert any(line.startswith(f"{name} ") for line in out.splitlines())


def test_a_column_whose_name_is_no_symbol_is_called_x(solvable, tmp_path):
    table = {"train steps": steps()["steps"], "val-loss": steps()["loss"]}
    path = saved(tmp_path / "names.csv", table)
    words = ("fit", path, "--law", "power", "--x", "train steps", "--y", "val-loss")
    assert document(solvable(*words, "--json"))["resources"] == ["x"]
    assert solvable(*words).out.startswith("val-loss = E + A x^-a\nx = train steps; 25 points")


def test_the_window_of_a_power_law_and_the_local_exponent_are_told(solvable, tmp_path):
    x = np.geomspace(1.0, 1e6, 61)
    noise = np.exp(0.01 * np.random.default_rng(0).standard_normal(61))
    loss = (1.0 + 0.03 * x) ** -0.5 * noise
    path = saved(tmp_path / "bend.csv", {"steps": x, "loss": loss})
    told = document(solvable("fit", path, *POWER, "--json"))
    found = scaling.power_window(x, loss)
    assert told["window"] == {**dataclasses.asdict(found), "floor": 0.0}
    local = told["local_exponent"]
    assert local["x"][0] == pytest.approx(1.0)
    assert local["low"][-1] < 0.5 < local["high"][-1]
    out = " ".join(solvable("fit", path, *POWER).out.split())
    assert "a pure power law of loss is not rejected from steps = " in out
    assert "slope local exponent " in out


def test_a_pinned_floor_is_taken_off_before_the_window_is_looked_for(solvable, curve):
    told = document(solvable("fit", curve, *POWER, "--pin", "E=1.5", "--json"))
    assert told["window"]["floor"] == 1.5
    assert told["window"]["points"] == 25
    out = " ".join(solvable("fit", curve, *POWER, "--pin", "E=1.5").out.split())
    assert "power law of loss − 1.5 is not rejected over the whole range" in out


def test_there_is_no_window_of_several_resources_or_few_points(solvable, noisy, tmp_path):
    assert document(solvable("fit", noisy, *CHINCHILLA, "--json"))["window"] is None
    x = np.geomspace(1.0, 1e4, 5)
    path = saved(tmp_path / "few.csv", {"steps": x, "loss": 1.0 + x**-0.5})
    done = solvable("fit", path, *POWER, "--json", "--plot", tmp_path / "few.svg")
    assert json.loads(done.out)["window"] is None
    assert "window" not in solvable("fit", path, *POWER).out


def test_the_fit_can_be_planned_with(solvable, noisy):
    from solvable.scaling import stored

    told = document(solvable("fit", noisy, *CHINCHILLA, "--json"))
    known = stored.from_document(told, scaling.chinchilla())
    assert dict(zip(known.law.parameters, known.values, strict=True)) == told["values"]


def test_what_is_ill_posed_is_told_with_what_to_do(solvable, tmp_path):
    x = np.geomspace(100.0, 300.0, 12)
    noise = np.exp(0.02 * np.random.default_rng(0).standard_normal(12))
    path = saved(tmp_path / "short.csv", {"steps": x, "loss": (1.0 + 3.0 * x**-0.3) * noise})
    told = document(solvable("fit", path, *POWER, "--json"))
    assert told["status"] in ("ill_posed", "at_bound")
    done = solvable("fit", path, *POWER)
    assert done.status == 0
    assert "wider range" in " ".join(done.out.split())


def test_a_curve_without_floor_is_at_the_bound(solvable, tmp_path):
    x = np.geomspace(1.0, 1e4, 20)
    path = saved(
        tmp_path / "pure.csv",
        {"steps": x, "loss": 3.0 * x**-0.5 * (1 + 1e-3 * (-1.0) ** np.arange(20)) - 1e-3},
    )
    told = document(solvable("fit", path, *POWER, "--json"))
    assert told["status"] == "at_bound"
    out = " ".join(solvable("fit", path, *POWER).out.split())
    assert "at a bound" in out
    assert "The data show no floor" in out


def test_every_line_fits_into_80_columns(solvable, noisy):
    out = solvable("fit", noisy, *CHINCHILLA, "--hold-out", "largest", "20%").out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("kind", OPENINGS)
def test_a_picture_of_one_resource_is_of_the_kind_its_name_says(solvable, curve, tmp_path, kind):
    path = tmp_path / f"fit.{kind}"
    words = ("fit", curve, *POWER, "--group", "run", "--hold-out", "largest", "20%", "--json")
    done = solvable(*words, "--plot", path)
    assert (done.status, done.err) == (0, f"solvable: wrote {path}\n")
    first = path.read_bytes()
    assert first.startswith(OPENINGS[kind])
    solvable(*words, "--plot", path)
    assert path.read_bytes() == first


@pytest.mark.parametrize(
    "options",
    [
        ("--law", "chinchilla", "--x", "params", "--x", "tokens", "--hold-out", "largest", "20%"),
        ("--law", "additive", "--x", "params", "--x", "tokens", "--x", "trust", "--group", "run"),
        ("--law", "chinchilla", "--x", "params", "--x", "D=2*params"),
        ("--law", "broken", "--x", "params"),
        ("--law", "power", "--x", "trust"),
    ],
    ids=" ".join,
)
def test_pictures_are_drawn_even_of_poor_fits(solvable, noisy, tmp_path, options):
    path = tmp_path / "fit.svg"
    done = solvable("fit", noisy, *options, "--y", "loss", "--plot", path)
    assert (done.status, done.err) == (0, f"solvable: wrote {path}\n")
    assert path.read_bytes().startswith(OPENINGS["svg"])


def test_names_with_dollars_and_brackets_are_printed_as_they_are(solvable, tmp_path):
    table = {"[red]$x_1^": steps()["steps"], "lo\\$s$": steps()["loss"]}
    path = saved(tmp_path / "odd.csv", table)
    picture = tmp_path / "fit.svg"
    words = (
        "fit",
        path,
        "--law",
        "power",
        "--x",
        "[red]$x_1^",
        "--y",
        "lo\\$s$",
        "--plot",
        picture,
    )
    done = solvable(*words)
    assert done.status == 0
    assert "x = [red]$x_1^; 25 points" in done.out


def saturating(name: str, resources: tuple[str, ...], settings: dict) -> scaling.Formula:
    """A law that is no sum of terms, in the place of a lab's."""
    assert (name, resources, settings) == ("msfr", ("t", "D"), {"num_tasks": 5, "kind": "slow"})
    return scaling.Formula(
        name=name,
        resources=resources,
        function=lambda p, x: p["A"] / ((1.0 + x["t"]) ** -p["a"] + x["D"] ** -1.0) ** -1.0,
        bounds={"A": (0.0, math.inf), "a": (0.01, 5.0)},
        begin={"a": (0.2, 1.0)},
        linear=("A",),
        exponents=("a",),
        logarithmic=("A",),
        settings=settings,
    )


def test_a_lab_gets_its_resources_and_settings_and_measured_is_drawn_against_fitted(
    solvable, tmp_path, monkeypatch
):
    monkeypatch.setattr(laws, "law_of", saturating)
    t, size = (v.ravel() for v in np.meshgrid(np.geomspace(1.0, 100.0, 5), [3.0, 10.0, 30.0, 99.0]))
    loss = 2.0 * ((1.0 + t) ** -0.7 + 1.0 / size)
    path = saved(tmp_path / "lab.csv", {"width": size, "t": t, "loss": loss})
    words = ("fit", path, "--law", "msfr", "--x", "D=width", "--x", "t", "--y", "loss")
    words += ("--set", "num_tasks=5", "--set", "kind=slow", "--no-compile-cache")
    told = document(solvable(*words, "--json"))
    assert told["settings"] == {"num_tasks": 5, "kind": "slow"}
    assert told["parameters"]["a"]["value"] == pytest.approx(0.7, rel=1e-6)
    picture = tmp_path / "lab.svg"
    done = solvable(*words, "--plot", picture, "--hold-out", "random", "20%")
    assert done.status == 0
    assert done.out.startswith("loss = msfr(t, D; A, a)\nD = width, num_tasks = 5, kind = slow; 16")
    assert picture.read_bytes().startswith(OPENINGS["svg"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("law", "resource", "settings", "truth", "pins"),
    [
        ("deep_icl", "N", {"dim": 50}, [0.1, 2.0, 1.4, 0.9, 1.0], ()),
        ("msfr", "t", {"num_tasks": 20}, [0.1, 2.0, 1.8, 0.2, 0.1, 10.0], ("beta", "gamma")),
    ],
)
def test_the_models_of_the_labs_are_found_again(
    solvable, tmp_path, law, resource, settings, truth, pins
):
    made = laws.law_of(law, (resource,), settings)
    x = np.geomspace(1.0, 40.0, 16) if law == "deep_icl" else np.geomspace(0.1, 1e3, 16)
    path = saved(tmp_path / "lab.csv", {"x": x, "loss": made.curve(np.array(truth), x[:, None])})
    known = dict(zip(made.parameters, truth, strict=True))
    words = ["fit", path, "--law", law, "--x", f"{resource}=x", "--y", "loss"]
    for name, value in settings.items():
        words += ["--set", f"{name}={value}"]
    for name in pins:
        words += ["--pin", f"{name}={known[name]}"]
    told = document(solvable(*words, "--no-compile-cache", "--json"))
    assert told["settings"].items() >= settings.items()
    found = {name: one["value"] for name, one in told["parameters"].items()}
    assert found == pytest.approx(known, rel=1e-5)


BAD = [
    ("", "file and --law and --y must be given"),
    ("FILE --law power --x steps", "--y must be given; see solvable fit --help"),
    ("FILE --law cubic --x steps --y loss", "--law must be one of power, chinchilla, additive"),
    ("FILE --law power --y loss", "--x must be given"),
    ("FILE --law power --x steps --x run --y loss", "x must be given once for power"),
    ("FILE --law chinchilla --x steps --y loss", "x must be given twice for chinchilla"),
    ("FILE --law chinchilla --x N=steps --x N=run --y loss", "x must have different names"),
    ("FILE --law additive --x steps*2 --y loss", "x must have a name for additive"),
    ("FILE --law msfr --x steps --y loss", "x must have a name for msfr, one of t, D, N"),
    ("FILE --law deep_icl --x Q=steps --y loss", "one of t, L, N, P"),
    ("FILE --law power --x 2=steps --y loss", "x must be NAME=COLUMN, such as N=params"),
    ("FILE --law power --x N= --y loss", "x must be NAME=COLUMN"),
    ("FILE --law power --x stesp --y loss", "did you mean steps?; curve.csv has the columns"),
    ("FILE --law power --x steps --y los", "y names 'los', which is no column of curve.csv"),
    (
        "FILE --law power --x steps --y run",
        "run must hold numbers such as 0.25 or 1e9, not 'a'",
    ),
    ("FILE --law power --x steps --y loss-9", "y (loss-9) must hold positive finite numbers"),
    ("FILE --law power --x steps --y loss --weights run", "run must hold numbers"),
    ("FILE --law power --x steps --y loss --group steps*2", "group must be a column, not"),
    ("FILE --law power --x steps --y loss --pin E", "pin must be NAME=VALUE, such as E=1.7"),
    ("FILE --law power --x steps --y loss --pin E=x", "pin E must be a number, not 'x'"),
    (
        "FILE --law power --x steps --y loss --pin q=1",
        "pin must name a parameter of power, one",
    ),
    ("FILE --law power --x steps --y loss --pin E=-1", "E must lie in [0, inf] to be pinned"),
    ("FILE --law power --x steps --y loss --pin E=1 --pin E=2", "pin must be given once for E"),
    (
        "FILE --law power --x steps --y loss --set num_tasks=5",
        "set must be left out for power",
    ),
    ("FILE --law power --x steps --y loss --set =5", "set must be NAME=VALUE"),
    (
        "FILE --law power --x steps --y loss --hold-out largest",
        "--hold-out must be followed by {largest,random} SHARE",
    ),
    (
        "FILE --law power --x steps --y loss --hold-out best 20%",
        "largest or random, not 'best'",
    ),
    ("FILE --law power --x steps --y loss --hold-out largest 120%", "not '120%'"),
    ("FILE --law power --x steps --y loss --hold-out largest x", "a share such as 20% or 0.2"),
    ("FILE --law power --x steps --y loss --hold-out largest 95%", "points that are not held out"),
    ("FILE --law power --x steps --y loss --level 1", "level must be a number in (0, 1)"),
    ("FILE --law power --x steps --y loss --draws 5", "draws must be a whole number, from 100"),
    ("FILE --law power --x steps --y loss --seed -1", "seed must be a whole number"),
    ("FILE --law power --x steps --y loss --scale 0", "scale must be a number in (0, 1e+100)"),
    ("FILE --law power --x steps --y loss --loss absolute", "--loss must be one of huber"),
    (
        "FILE --law power --x steps --y loss --plot fit.jpg",
        "plot must end in .svg, .png or .pdf",
    ),
    (
        "FILE --law power --x steps --y loss --plot /no/where.svg",
        "plot must be a file that can",
    ),
    ("FILE --law power --x steps --y loss --grup run", "did you mean --group?"),
    (
        "FILE --law power --x steps --y loss --group run --intervals profile",
        "intervals must be delta or bootstrap for grouped rows",
    ),
    ("absent.csv --law power --x steps --y loss", "file must be a CSV or Parquet file"),
]


@pytest.mark.parametrize(("line", "sentence"), BAD, ids=[line for line, _ in BAD])
def test_bad_input_gets_one_sentence_and_writes_nothing(
    solvable, curve, tmp_path, monkeypatch, line, sentence
):
    monkeypatch.chdir(tmp_path)
    words = [str(curve) if word == "FILE" else word for word in line.split()]
    if "--plot" not in words and "--y" in words:
        words += ["--plot", str(tmp_path / "fit.svg")]
    done = solvable("fit", *words)
    assert done.status == 2
    assert done.out == ""
    assert done.err.startswith("solvable: ")
    assert done.err.count("\n") == 1
    assert sentence in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["curve.csv"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "is empty"),
        ("steps,loss\n", "only a line of column names"),
        ("1,2\n3,4\n", "must begin with a line of column names"),
        ("steps,loss\n1,2\n3\n", "line 3"),
        ("steps,loss\n1,3\n10,2\n100,1\n", "points must be at least 4 for the 3 free parameters"),
        ("steps,loss\n1,3\n10,-2\n", "loss must hold positive finite numbers, not -2 (line 3)"),
        ("steps,loss\n1,3\n10,nan\n", "not 'nan' (line 3)"),
        ("steps,loss\n1,\n,2\n", "every row of bad.csv has an empty cell in steps or loss"),
        ("steps,loss,loss\n1,2,3\n", "y names 'loss', of which bad.csv has 2 columns"),
    ],
)
def test_a_bad_table_gets_one_sentence(solvable, tmp_path, content, sentence):
    path = tmp_path / "bad.csv"
    path.write_text(content)
    done = solvable("fit", path, *POWER)
    assert (done.status, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert sentence in done.err


def test_two_groups_are_too_few(solvable, tmp_path):
    table = steps()
    table["run"] = ["ab"[k % 2] for k in range(25)]
    done = solvable("fit", saved(tmp_path / "two.csv", table), *POWER, "--group", "run")
    assert done.status == 2
    assert "group must tell at least 3 groups apart, not 2" in done.err


def test_as_many_digits_as_the_interval_bears():
    def told(value, low, high, bounds=(0.0, math.inf)):
        return digits(scaling.Parameter(value, low, high, 1.0), bounds)

    assert told(0.3412345, 0.3312345, 0.3512345) == ("0.341", "0.331 … 0.351")
    assert told(12345.6, 11345.6, 13345.6) == ("12300", "11300 … 13300")
    assert told(1.23456e9, 1.1e9, 1.4e9) == ("1.23e9", "1.10e9 … 1.40e9")
    assert told(1.23456e-7, 1.1e-7, 1.4e-7) == ("1.23e-7", "1.10e-7 … 1.40e-7")
    assert told(0.2, 0.0, 5.678) == ("0.2", "0 … 5.7")
    assert told(18.3, 0.000617, 534230.1) == ("18", "0.0006 … 530000")
    assert told(2.0, 1.0, math.inf) == ("2.0", "1.0 … ∞")
    assert told(2.0, 2.0, 2.0) == ("2", "exact")
    assert digits(scaling.Parameter(math.nan, 0.0, math.inf, math.inf)) == ("?", "cannot be told")
    assert percent(0.0123) == "1.2 %"
    assert percent(0.12345, signed=True) == "+12 %"
    assert percent(-12.0, signed=True) == "−1200 %"
    assert percent(1e-12) == "1.0e-10 %"


def test_a_fit_needs_no_compiler(exact):
    code = (
        "import sys; from solvable.cli import main; "
        f"main(['fit', {str(exact)!r}, *{list(CHINCHILLA)!r}]); "
        "sys.exit('matplotlib' in sys.modules or 'solvable.msfr' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
