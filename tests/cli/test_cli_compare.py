"""``solvable compare LAB``, witnesses side by side, and runs that are saved and taken up again."""

import ast
import csv
import json
from pathlib import Path

import pytest
import xarray as xr
from tests.command import assert_refused, document

import solvable as package
import solvable.cli as cli
from solvable import descent, training

pytestmark = pytest.mark.slow

SMALL = ("--num-tasks", 8, "--context", 12, "--lr", 0.01, "--steps", 60)
FIELDS = {"num_tasks": 8, "context": 12.0, "lr": 0.01, "steps": 60}


def test_the_document_holds_what_python_says(solvable):
    told = document(solvable("compare", "msfr", *SMALL, "--data", 40, "--seeds", 3, "--json"))
    data = package.lab("msfr").compare(**FIELDS, data=40, seeds=3)
    assert told["verdicts"] == json.loads(data.attrs["verdicts"])
    assert (told["silent"], told["first"], told["agrees"]) == ({}, "reduced", True)
    assert told["dims"]["loss"] == ["witness", "time"]
    assert told["loss"] == data.loss.values.tolist()
    assert told["witness"] == data.witness.values.tolist()
    assert told["question"]["limits"]["data"] == 40


def test_what_differs_ends_with_status_1(solvable):
    done = solvable("compare", "msfr", *SMALL, "--order", "zeroth")
    assert done.status == 1
    assert "differs" in done.out
    assert "silent: data or batch must be given for the tokens" in " ".join(done.out.split())


def test_everything_goes_into_files(solvable, tmp_path):
    paths = [tmp_path / name for name in ("all.csv", "all.zarr", "all.png")]
    words = [w for o, p in zip(("--csv", "--zarr", "--plot"), paths, strict=True) for w in (o, p)]
    done = solvable("compare", "msfr", *SMALL, *words)
    assert done.status == 0
    assert done.err == "".join(f"solvable: wrote {paths[k]}\n" for k in (1, 0, 2))
    with paths[0].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["step", "time", "witness", "loss", "gap", "allowed", "judged"]
    data = package.lab("msfr").compare(**FIELDS)
    assert [float(r["loss"]) for r in rows if r["witness"] == "theory"] == (
        data.loss.sel(witness="theory").values.tolist()
    )
    with xr.open_zarr(paths[1]) as stored:
        assert stored.attrs["caption"] == data.attrs["caption"]
        assert stored.loss.values.tolist() == data.loss.values.tolist()
    assert json.loads((tmp_path / "all.csv.json").read_text())["command"] == "compare"
    assert paths[2].read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("verb", ["solve", "train"])
def test_two_witnesses_are_told_side_by_side(solvable, tmp_path, verb):
    other = {"solve": "reduced", "train": "theory"}[verb]
    path = tmp_path / "both.csv"
    words = (*SMALL, "--with", other)
    told = document(solvable(verb, "msfr", *words, "--json"))
    lab = package.lab("msfr")
    run = lab.ask(witness="reduced", **FIELDS)
    theory = lab.ask(**FIELDS, at=run.time.values)
    main, beside = (theory, run) if verb == "solve" else (run, theory)
    assert told["loss"] == main.loss.values.tolist()
    assert (told["with"]["witness"], told["with"]["loss"]) == (other, beside.loss.values.tolist())
    done = solvable(verb, "msfr", *words, "--csv", path, "--plot", tmp_path / "both.svg")
    assert done.status == 0
    assert f"L(t), {other}" in done.out
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row[f"loss_{other}"]) for row in rows] == beside.loss.values.tolist()


def test_a_store_is_replaced_and_nothing_else_is(solvable, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years")
    done = solvable("solve", "msfr", "--points", 2, "--zarr", tmp_path / "mine")
    assert_refused(done, "zarr must be a new path or a Zarr store that is no saved run, not ")
    for points in (2, 3):
        solvable("solve", "msfr", "--points", points, "--zarr", tmp_path / "a.zarr")
        with xr.open_zarr(tmp_path / "a.zarr") as stored:
            assert stored.sizes["time"] == points
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.zarr", "mine"]


@pytest.mark.parametrize(
    ("lab", "words"),
    [
        ("msfr", "--num-tasks 4 --context 6 --data 20 --brute"),
        ("msfr", "--num-tasks 4 --context 6 --batch 5 --optimizer adamw"),
        ("single_location", "--dim 20 --length 4 --start sphere --runs 3 --batch 2"),
    ],
)
def test_a_run_is_saved_and_taken_up_again(solvable, tmp_path, lab, words):
    brute = ["--brute"] if "--brute" in words else []
    path = tmp_path / "run.zarr"
    whole = document(
        solvable("train", lab, *words.split(), "--steps", 40, "--log-every", 10, "--json")
    )
    done = solvable("train", lab, *words.split(), "--steps", 20, "--log-every", 10, "--save", path)
    assert (done.status, done.err) == (0, f"solvable: wrote {path}\n")
    # What is not given is as it was.
    told = document(solvable("train", lab, "--resume", path, "--steps", 40, "--json"))
    assert told["loss"] == whole["loss"]
    assert told["question"] == whole["question"]
    done = solvable("train", lab, *brute, "--resume", path, "--steps", 40, "--lr", 0.5)
    assert_refused(done, "resume must be a run of the same problem: its ")
    done = solvable("train", lab, *brute, "--resume", path, "--steps", 10)
    assert_refused(done, "steps must be at least 20, those done already, not 10")


def test_what_would_lose_a_run_is_refused_before_training(solvable, tmp_path, monkeypatch):
    words = ("train", "msfr", "--num-tasks", 3, "--steps", 2)
    run, store = tmp_path / "run.zarr", tmp_path / "store.zarr"
    assert solvable(*words, "--save", run).status == 0
    assert solvable(*words, "--zarr", store).status == 0
    monkeypatch.setattr(training.Training, "run", lambda *_, **__: pytest.fail("it trained"))
    assert_refused(solvable(*words, "--save", store), "save must be a new path or a saved run")
    assert_refused(solvable(*words, "--zarr", run), "a Zarr store that is no saved run, not ")
    new = tmp_path / "new.zarr"
    done = solvable(*words, "--save", new, "--zarr", new)
    assert_refused(done, "zarr and save must be different files")
    picture = tmp_path / "a.svg"
    done = solvable(*words, "--csv", picture, "--plot", picture)
    assert_refused(done, "plot and csv must be different files")


def test_links_lead_to_what_is_replaced(solvable, tmp_path):
    words = ("train", "msfr", "--num-tasks", 3, "--steps")
    for option, name in (("--save", "run.zarr"), ("--zarr", "data.zarr")):
        link = tmp_path / f"link-{name}"
        link.symlink_to(tmp_path / name)  # at first to nothing
        for steps in (2, 3):
            assert solvable(*words, steps, option, link).status == 0
            assert link.is_symlink()
            with xr.open_zarr(tmp_path / name) as stored:
                assert stored.step.values[-1] == steps
    assert len(list(tmp_path.iterdir())) == 4


def test_a_single_point_has_a_picture(solvable, tmp_path):
    words = ("--num-tasks", 3, "--steps", 0, "--plot", tmp_path / "p.svg")
    assert solvable("train", "msfr", *words).status == 0


def test_what_is_no_saved_run_is_refused(solvable, tmp_path):
    done = solvable("train", "msfr", "--resume", tmp_path / "none.zarr")
    assert_refused(done, "none.zarr")
    solvable("solve", "msfr", "--points", 2, "--zarr", tmp_path / "a.zarr")
    assert_refused(solvable("train", "msfr", "--resume", tmp_path / "a.zarr"), "saved run")
    small = ("--dim", 20, "--length", 4, "--steps", 5, "--save", tmp_path / "s.zarr")
    solvable("train", "single_location", *small)
    done = solvable("train", "msfr", "--resume", tmp_path / "s.zarr")
    assert_refused(done, "resume must be a run of msfr, not of single_location, reduced")


def test_what_was_interrupted_is_saved_and_goes_on(solvable, tmp_path, monkeypatch):
    """Ctrl-C once some steps are done: what there is is written, and the run can go on."""
    path = tmp_path / "run.zarr"
    segments = descent._segment
    calls = []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return segments(*arguments)

    words = ("--num-tasks", 4, "--context", 6, "--steps", 4000, "--log-every", 1)
    monkeypatch.setattr(descent, "_segment", interrupted)
    done = solvable("train", "msfr", *words, "--save", path, "--json")
    monkeypatch.setattr(descent, "_segment", segments)
    assert done.status == 130
    told = json.loads(done.out)
    assert told["interrupted"] is True
    at = told["step"][-1]
    assert 0 < at < 4000
    assert done.err.endswith(f"interrupted at step {at} of 4000; --resume {path} goes on\n")
    whole = document(solvable("train", "msfr", *words, "--json"))
    again = document(solvable("train", "msfr", "--resume", path, "--json"))
    assert again["loss"] == whole["loss"]
    assert again["step"] == whole["step"]


def test_the_commands_know_no_described_lab_by_name():
    """Neither as a word nor as an import: what they know comes from descriptions."""
    described = {name for name, lab in package.labs.labs().items() if lab.question is not None}
    for path in sorted(Path(str(cli.__file__)).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.Constant) and node.value in described), path
            if isinstance(node, ast.Import | ast.ImportFrom):
                words = {*(getattr(node, "module", None) or "").split(".")}
                words |= {part for alias in node.names for part in alias.name.split(".")}
                assert not words & described, path
