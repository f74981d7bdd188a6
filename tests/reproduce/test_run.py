"""`reproduce`: whole folders or none, reuse, resuming, workers that fail."""

import functools
import gc
import json
import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from solvable import __version__, reproduce
from solvable.cli import main
from solvable.reproduce.store import FILES, read_dataset, read_result

pytestmark = pytest.mark.slow

run = functools.partial(reproduce.run, prepare=gc.collect)  # toys do not wait for JAX
CLAIM = {"id", "statement", "source", "expected", "measured", "tolerance", "verdict", "note"}


def parts(diary):
    return [word for word, _ in diary()]


def test_a_figure_comes_with_all_its_files(toy, tmp_path):
    seen = []
    (outcome,) = run(
        ["toy/one"], out=tmp_path / "out", size="quick", watch=lambda o, w: seen.append(o.state)
    )
    assert outcome.state == "done"
    assert outcome.good
    assert {"running", "done"} <= set(seen)
    folder = tmp_path / "out" / "toy" / "one"
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    (claim,) = json.loads((folder / "claims.json").read_text())
    assert set(claim) == CLAIM
    assert (claim["id"], claim["measured"], claim["verdict"]) == ("toy/one/value", 1.0, "holds")
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (folder / "figure.svg").read_bytes()
    data = read_dataset(folder / "data.zarr")
    np.testing.assert_array_equal(data["second"], [1.0, 2.0, 3.0])
    assert data.attrs["config"]["size"] == "quick"
    assert data.attrs["config"]["settings"] == {"parts": 0}
    assert data.attrs["seed"] == 7
    assert data.attrs["versions"]["solvable"] == __version__
    assert {"jax", "numpy", "xarray", "zarr"} <= set(data.attrs["versions"])
    assert data.attrs["command"] == "solvable reproduce toy/one --quick"
    assert "toy/one" in (tmp_path / "out" / "index.html").read_text()
    hidden = [path.name for path in (tmp_path / "out" / "toy").iterdir() if path.name[0] == "."]
    assert hidden == []


def test_what_is_there_is_kept_until_something_changes(toy, diary, tmp_path):
    def again(**how):
        before = len(diary())
        (outcome,) = run(["toy/one"], out=tmp_path / "out", **{"size": "quick", **how})
        return outcome.state, len(diary()) - before, outcome.why

    assert again() == ("done", 2, "")
    assert again() == ("kept", 0, "")
    assert again(fresh=True) == ("done", 2, "computed afresh")
    assert again(size="default") == ("done", 3, "other size, settings")
    assert again(size="default") == ("kept", 0, "")
    source = toy / "toy_lab.py"
    source.write_text(source.read_text() + "\n# changed\n")
    assert again(size="default") == ("done", 3, "other code")


def test_a_damaged_folder_is_made_again(toy, diary, tmp_path):
    out = tmp_path / "out"
    for damage in (
        lambda folder: (folder / "figure.svg").unlink(),
        lambda folder: (folder / "claims.json").write_text('[{"id": "toy/one'),
        lambda folder: (folder / "data.zarr" / "zarr.json").unlink(),
    ):
        run(["toy/one"], out=out, size="quick")
        damage(out / "toy" / "one")
        assert run(["toy/one"], out=out, size="quick")[0].state == "done"
        assert read_result(out / "toy" / "one") is not None


def test_figures_that_fail_do_not_stop_the_others(toy, tmp_path, capfd):
    outcomes = run(["toy"], out=tmp_path / "out", size="quick", jobs=2)
    found = {outcome.figure: outcome for outcome in outcomes}
    assert list(found) == [figure.id for figure in reproduce.figures(["toy"])]
    for name in ("one", "two", "three"):
        assert found[f"toy/{name}"].good
    assert found["toy/false"].state == "done"
    assert not found["toy/false"].good
    assert found["toy/broken"].state == "failed"
    assert found["toy/broken"].error == "ArithmeticError: nothing adds up"
    assert found["toy/dead"].state == "failed"
    assert "ended with status 9" in found["toy/dead"].error
    assert not (tmp_path / "out" / "toy" / "broken").exists()
    assert "nothing adds up" in capfd.readouterr().err


@pytest.fixture
def extra(toy):
    """The toy lab with a good figure, and one that needs what `$TOY_MISSING` says."""
    (toy / "toy_lab-1.0.dist-info" / "entry_points.txt").write_text(
        "[solvable.labs]\ntoy = toy_lab:TIDY\n"
    )
    return "toy needs bricks: pip install 'toy[bricks]'"


def test_a_figure_that_needs_what_is_not_installed_is_skipped(extra, diary, tmp_path, monkeypatch):
    out = tmp_path / "out"

    def state(**how):
        (outcome,) = run(["toy/extra"], out=out, size="quick", **how)
        return outcome.state, outcome.error, outcome.good

    monkeypatch.setenv("TOY_MISSING", extra)
    assert state() == ("skipped", extra, True)
    assert diary() == []
    assert not (out / "toy").exists()
    monkeypatch.delenv("TOY_MISSING")
    assert state() == ("done", "", True)
    monkeypatch.setenv("TOY_MISSING", extra)
    assert state() == ("kept", "", True)  # what was computed before needs nothing
    assert state(fresh=True) == ("skipped", extra, True)
    assert read_result(out / "toy" / "extra") is not None  # and is not lost by asking again


@pytest.fixture
def command(toy, capsys):
    """Runs `solvable reproduce` in this process, its figures in workers."""

    def reproduced(*words):
        status = main(["reproduce", *map(str, words)])
        return status, *capsys.readouterr()

    return reproduced


def test_only_who_asks_for_a_skipped_figure_by_name_is_told_of_a_failure(
    extra, command, tmp_path, monkeypatch
):
    monkeypatch.setenv("TOY_MISSING", extra)
    out = tmp_path / "out"
    told = {}
    for words, wanted in ((("toy", "--json"), 0), (("toy/extra",), 1)):
        status, told[wanted], stderr = command(*words, "--quick", "--out", out)
        assert status == wanted
        assert f"toy/extra  skipped: {extra}" in stderr
        assert [path.name for path in (out / "toy").iterdir()] == ["one"]
    one, other = json.loads(told[0])["figures"]
    assert (one["figure"], one["state"]) == ("toy/one", "done")
    assert (other["figure"], other["state"], other["error"]) == ("toy/extra", "skipped", extra)
    assert "1 figure, 1 of them skipped" in told[1]


def test_the_same_numbers_with_any_number_of_workers(toy, tmp_path):
    for jobs in (1, 3):
        run(["toy/one", "toy/two", "toy/three"], out=tmp_path / str(jobs), jobs=jobs)
    for name in ("one", "two", "three"):
        one, three = (tmp_path / str(jobs) / "toy" / name for jobs in (1, 3))
        assert read_dataset(one / "data.zarr").equals(read_dataset(three / "data.zarr"))
        for file in ("figure.svg", "claims.json"):
            assert (one / file).read_bytes() == (three / file).read_bytes()


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def gone(pid):
    """Whether a process has ended (a zombie, which nobody has waited for, has)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def test_a_killed_run_goes_on_where_it_was(solvable, diary, tmp_path):
    arguments = ("reproduce", "toy/one", "--out", tmp_path / "out", "--full", "--jobs", "1")
    process = solvable(*arguments, TOY_PAUSE="0.5")
    wait_for(lambda: "third" in parts(diary))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    workers = {int(pid) for _, pid in diary()}
    wait_for(lambda: all(gone(pid) for pid in workers))  # they end with their parent
    assert parts(diary) == ["first", "second", "third"]
    assert not (tmp_path / "out" / "toy" / "one").exists()
    process = solvable(*arguments)
    process.communicate()
    assert process.returncode == 0
    assert parts(diary) == ["first", "second", "third", "third", "fourth"]
    assert read_result(tmp_path / "out" / "toy" / "one") is not None


@pytest.mark.slow
def test_no_kill_leaves_a_folder_that_is_not_whole(solvable, tmp_path):
    """SIGKILL at random times, over folders that are there and are made again."""
    out, dice = tmp_path / "out", random.Random(0)
    names = ("one", "two", "three")
    arguments = ("reproduce", *(f"toy/{name}" for name in names), "--out", out)
    killed = 0
    for k in range(4):
        size = ("--quick", "--full")[k % 2]  # so that the folders are replaced
        process = solvable(*arguments, size, TOY_PAUSE="0.05")
        time.sleep(dice.uniform(1.0, 3.5))
        killed += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.communicate()
        for folder in out.glob("toy/[!.]*"):
            assert read_result(folder) is not None, f"{folder} is half-written"
    assert killed > 0
    process = solvable(*arguments, "--quick")
    process.communicate()
    assert process.returncode == 0
    assert sorted(path.name for path in (out / "toy").iterdir()) == sorted(names)
    for name in names:
        result = read_result(out / "toy" / name)
        assert result is not None
        assert result.size == "quick"


def test_an_interrupted_run_says_how_to_go_on(solvable, diary, tmp_path):
    arguments = ("reproduce", "toy/one", "--out", tmp_path / "out", "--full", "--jobs", "1")
    process = solvable(*arguments, TOY_PAUSE="1.0")
    wait_for(lambda: "second" in parts(diary))
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate()
    assert process.returncode == 130
    assert stdout == ""
    assert "the same command goes on" in stderr
    assert "Traceback" not in stderr
    assert all(gone(int(pid)) for _, pid in diary())


def test_two_runs_do_not_share_a_folder(solvable, diary, tmp_path):
    out = tmp_path / "out"
    first = solvable("reproduce", "toy/one", "--out", out, "--full", TOY_PAUSE="0.7")
    wait_for(lambda: parts(diary))
    with pytest.raises(ValueError, match="out is in use by another run"):
        run(["toy/two"], out=out)
    first.communicate()
    assert first.returncode == 0
    assert run(["toy/two"], out=out, size="quick")[0].good


def test_an_out_that_cannot_be_written_is_refused(toy, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(ValueError, match=r"out must be a folder that can be written, not '.*file'"):
        run(["toy/one"], out=file)


@pytest.mark.parametrize("jobs", [0, -1])
def test_bad_jobs_are_refused(toy, tmp_path, jobs):
    with pytest.raises(ValueError, match="jobs must be a whole number, at least 1"):
        run(["toy/one"], out=tmp_path / "out", jobs=jobs)
    assert not (tmp_path / "out").exists()


def test_the_command_line_prints_claims_and_the_page(command, tmp_path):
    out = tmp_path / "out"
    status, stdout, stderr = command("toy/one", "toy/false", "--quick", "--out", out)
    assert status == 1  # a claim fails
    assert "toy/one/value" in stdout
    assert "1 holds, 1 fails" in stdout
    assert f"{out}{os.sep}index.html" in stdout.replace("\n", "")
    assert "[1/2] toy/" in stderr


def test_json_is_one_document(command, tmp_path):
    status, stdout, _ = command("toy/one", "--quick", "--json", "--out", tmp_path / "out")
    document = json.loads(stdout)
    assert status == 0
    assert document["size"] == "quick"
    (figure,) = document["figures"]
    assert (figure["figure"], figure["state"], figure["good"]) == ("toy/one", "done", True)
    assert set(figure["claims"][0]) == CLAIM


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("toy/four",), "figure of toy must be one of one, two"),
        (("nolab",), "target must be one of all, msfr"),
        (("--quick", "--full", "toy/one"), "quick and full cannot both be given"),
        (("toy/one", "--jobs", "0"), "jobs must be a whole number, at least 1, not 0"),
        (("toy/one", "--jobs", "many"), "--jobs must be a whole number, not 'many'"),
    ],
)
@pytest.mark.usefixtures("toy", "as_users_run_it")
def test_bad_usage_is_one_sentence(tmp_path, capsys, arguments, words):
    status = main(["reproduce", "--out", str(tmp_path / "out"), *arguments])
    stdout, stderr = capsys.readouterr()
    assert status == 2
    assert stdout == ""
    assert words in stderr
    assert len(stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()
