"""`reproduce`: whole folders or none, reuse, resuming, workers that fail."""

import errno
import functools
import gc
import importlib
import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from solvable import __version__, reproduce
from solvable.cli import main
from solvable.reproduce import claim as judging
from solvable.reproduce.datasets import read_dataset
from solvable.reproduce.report import Shelf
from solvable.reproduce.store import FILES, read_result

pytestmark = pytest.mark.slow
reproduction = importlib.import_module("solvable.reproduce.run")

run = functools.partial(reproduce.run, prepare=gc.collect)  # toys do not wait for JAX
CLAIM = {"id", "statement", "source", "kind", "expected", "measured", "tolerance", "because"}
CLAIM |= {"verdict", "known", "note", "quote", "as_printed"}


class Here:
    """A crew of nobody: figures are made in this process, at once."""

    def __init__(self, todo, prepare, see):
        self.todo, self.see = todo, see

    def work(self, jobs):
        for job in self.todo:
            yield job.config.figure, reproduction._make(job, self)

    def send(self, message):
        word, words = message
        self.see(self.todo[0].config.figure, "running", log=words if word == "log" else "")

    def dismiss(self):
        pass


@pytest.fixture
def here(toy, monkeypatch):
    monkeypatch.setattr(reproduction, "_Crew", Here)


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
    assert sorted(path.name for path in folder.iterdir()) == sorted([*FILES, "manifest.json"])
    (claim,) = json.loads((folder / "claims.json").read_text())
    assert set(claim) == CLAIM
    assert (claim["id"], claim["measured"], claim["verdict"]) == ("toy/one/value", 1.0, "holds")
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (folder / "figure.svg").read_bytes()
    data = read_dataset(folder)
    np.testing.assert_array_equal(data["second"], [1.0, 2.0, 3.0])
    assert data.attrs["config"]["size"] == "quick"
    assert data.attrs["config"]["settings"] == data.attrs["settings"] == {"seed": 7, "parts": 2}
    assert data.attrs["versions"]["solvable"] == __version__
    assert {"jax", "numpy", "xarray", "zarr"} <= set(data.attrs["versions"])
    assert data.attrs["command"] == "solvable reproduce toy/one --quick"
    assert "toy/one" in (tmp_path / "out" / "index.html").read_text()
    hidden = [path.name for path in (tmp_path / "out" / "toy").iterdir() if path.name[0] == "."]
    assert hidden == []


def test_what_is_there_is_kept_until_something_changes(here, toy, diary, tmp_path):
    def again(**how):
        before = len(diary())
        (outcome,) = run(["toy/one"], out=tmp_path / "out", **{"size": "quick", **how})
        return outcome.state, len(diary()) - before, outcome.why

    assert again() == ("done", 2, "")
    assert again() == ("kept", 0, "")
    assert again(fresh=True) == ("done", 2, "asked for")
    assert again(size="default") == ("done", 3, "")
    assert again(size="default") == ("kept", 0, "")
    assert again() == ("kept", 0, "")  # was put aside, not thrown away
    edit(toy, "value + np.arange(3.0)", "value + 1.0 * np.arange(3.0)")
    assert again() == ("done", 2, "other code (toy_lab)")


def edit(toy, old, new):
    """Change the source of the toy lab, here and for the workers to come."""
    source = toy / "toy_lab.py"
    text = source.read_text()
    assert text.count(old) == 1, old
    source.write_text(text.replace(old, new))
    shutil.rmtree(toy / "__pycache__", ignore_errors=True)  # two edits of one second look alike
    sys.modules.pop("toy_lab", None)
    importlib.invalidate_caches()


def test_data_are_kept_while_only_claims_and_picture_change(here, toy, diary, tmp_path):
    """A figure declared in parts: what is judged or drawn otherwise shows at once."""

    def again():
        before = len(diary())
        (outcome,) = run(["toy/new"], out=tmp_path / "out", size="quick")
        verdicts = [claim.verdict for claim in outcome.claims]
        return outcome.state, len(diary()) - before, outcome.why, verdicts.count("fails")

    assert again() == ("done", 2, "", 1)
    assert again() == ("kept", 0, "", 1)
    edit(toy, "d.told[-1], 1e-9", "d.told[-1] + 1, 1e-9")
    assert again() == ("kept", 0, "drawn anew; judged otherwise: slope", 2)
    assert again() == ("kept", 0, "", 2)
    edit(toy, "plot(d.x, d.y)", "plot(d.x, -d.y)")
    assert again() == ("kept", 0, "drawn anew", 2)
    edit(toy, "settings.slope * values.x", "1.0 * settings.slope * values.x")
    assert again() == ("done", 2, "other code (toy_lab)", 2)
    edit(toy, '"offset": 0', '"offset": 1')
    state, computed, why, _ = again()
    assert (state, computed, why) == ("done", 2, "other settings (offset)")


def test_judging_itself_is_never_stored_truth(here, diary, tmp_path, monkeypatch):
    """The code of `Statement.judged` is none of the data's business, and judges them all anew."""
    run(["toy/one"], out=tmp_path / "out", size="quick")
    monkeypatch.setattr(judging, "agrees", lambda *numbers: False)
    before = len(diary())
    (outcome,) = run(["toy/one"], out=tmp_path / "out", size="quick")
    assert (outcome.state, len(diary()) - before) == ("kept", 0)
    assert outcome.claims[0].verdict == "fails"
    assert not outcome.good


DATA, PICTURE, CLAIMS = "data", "picture", "claims"


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def chunk(folder, name="first"):
    return next(path for path in (folder / "data.zarr" / name).rglob("c/*") if path.is_file())


DAMAGES = {
    "a flipped bit of the data": (DATA, lambda f: flip(chunk(f))),
    "a flipped bit of a coordinate": (DATA, lambda f: flip(chunk(f, "x"))),
    "a missing chunk": (DATA, lambda f: chunk(f).unlink()),
    "a missing coordinate": (DATA, lambda f: chunk(f, "x").unlink()),
    "an emptied chunk": (DATA, lambda f: chunk(f).write_bytes(b"")),
    "a longer chunk": (DATA, lambda f: chunk(f).write_bytes(chunk(f).read_bytes() + b"0")),
    "a chunk too many": (DATA, lambda f: (f / "data.zarr/first/c/7").write_bytes(b"0")),
    "a missing variable": (DATA, lambda f: shutil.rmtree(f / "data.zarr" / "first")),
    "a variable too many": (DATA, lambda f: shutil.copytree(f / "data.zarr/x", f / "data.zarr/n")),
    "missing metadata": (DATA, lambda f: (f / "data.zarr" / "zarr.json").unlink()),
    "edited metadata": (DATA, lambda f: replace(f / "data.zarr" / "zarr.json", "quick", "quack")),
    "metadata of a variable": (DATA, lambda f: replace(f / "data.zarr/first/zarr.json", "x", "y")),
    "metadata that is no JSON": (DATA, lambda f: (f / "data.zarr" / "zarr.json").write_text("{")),
    "no data": (DATA, lambda f: shutil.rmtree(f / "data.zarr")),
    "a file for the data": (DATA, lambda f: as_file(f / "data.zarr")),
    "no manifest": (DATA, lambda f: (f / "manifest.json").unlink()),
    "an empty manifest": (DATA, lambda f: (f / "manifest.json").write_text("")),
    "a manifest that is no object": (DATA, lambda f: (f / "manifest.json").write_text("[]")),
    "an edited manifest": (DATA, lambda f: replace(f / "manifest.json", '"quick"', '"full"')),
    "an edited digest": (DATA, lambda f: replace(f / "manifest.json", 'digest": "', 'digest": "0')),
    "a folder for the manifest": (DATA, lambda f: as_folder(f / "manifest.json")),
    "no drawing": (PICTURE, lambda f: (f / "figure.svg").unlink()),
    "an emptied drawing": (PICTURE, lambda f: (f / "figure.svg").write_text("")),
    "no pixels": (PICTURE, lambda f: (f / "figure.png").unlink()),
    "a flipped pixel": (PICTURE, lambda f: flip(f / "figure.png")),
    "another picture": (PICTURE, lambda f: shutil.copy(f / "figure.svg", f / "figure.png")),
    "an edited verdict": (CLAIMS, lambda f: replace(f / "claims.json", '"holds"', '"fails"', 2)),
    "an edited number": (CLAIMS, lambda f: replace(f / "claims.json", "1.0", "2.0", 2)),
    "half of the claims": (CLAIMS, lambda f: (f / "claims.json").write_text('[{"id": "toy/one')),
    "claims of nothing": (CLAIMS, lambda f: (f / "claims.json").write_text("[{}]")),
    "no claims": (CLAIMS, lambda f: (f / "claims.json").unlink()),
    "claims that are a number": (CLAIMS, lambda f: (f / "claims.json").write_text("7")),
}  # fmt: skip


def replace(path, old, new, count=1):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, count))


def as_file(path):
    shutil.rmtree(path)
    path.write_text("")


def as_folder(path):
    path.unlink()
    path.mkdir()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished figure, to be copied and damaged; made by the first test that asks."""
    return tmp_path_factory.mktemp("whole")


@pytest.mark.parametrize("damage", DAMAGES)
def test_no_damage_is_kept(here, diary, whole, tmp_path, damage):
    """Of data, picture or claims just that is made anew which is not as it was written."""
    if not (whole / "toy").exists():
        run(["toy/one"], out=whole, size="quick")
    out = tmp_path / "out"
    shutil.copytree(whole, out)
    folder, before = out / "toy" / "one", len(diary())
    good = {name: (folder / name).read_bytes() for name in ("figure.svg", "figure.png")}
    claims = (folder / "claims.json").read_text()
    part, do = DAMAGES[damage]
    do(folder)
    (outcome,) = run(["toy/one"], out=out, size="quick")
    assert outcome.good
    assert outcome.state == ("done" if part == DATA else "kept")
    assert len(diary()) - before == (2 if part == DATA else 0)
    assert outcome.why
    result = read_result(folder)
    assert result.damaged == ()
    assert {name: (folder / name).read_bytes() for name in good} == good
    assert (folder / "claims.json").read_text() == claims
    np.testing.assert_array_equal(read_dataset(folder)["second"], [1.0, 2.0, 3.0])
    assert run(["toy/one"], out=out, size="quick")[0].why == ""


def test_a_broken_stage_is_thrown_away_by_itself(solvable, diary, tmp_path):
    out = tmp_path / "out"
    arguments = ("reproduce", "toy/one", "--out", out, "--full", "--jobs", "1")
    process = solvable(*arguments, TOY_PAUSE="0.5")
    wait_for(lambda: "fourth" in parts(diary))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    first, second = (next(out.glob(f"toy/.one*.work/{name}.stage")) for name in ("first", "second"))
    flip(chunk(first))
    (second / "manifest.json").unlink()
    process = solvable(*arguments)
    process.communicate()
    assert process.returncode == 0
    assert parts(diary) == ["first", "second", "third", "fourth", "first", "second", "fourth"]
    log = (out / "log.txt").read_text()
    assert "stage first is damaged, and made anew" in log
    assert "stage third is there already" in log


def test_sizes_are_put_aside_and_put_back(here, toy, diary, tmp_path):
    out = tmp_path / "out"
    for size in ("full", "quick", "default"):
        run(["toy/one"], out=out, size=size)
    computed = len(diary())
    assert {path.name for path in (out / "toy").iterdir()} == {"one", ".one@full", ".one@quick"}
    (out / "toy" / "one" / "mine.txt").write_text("a note")
    for size in ("quick", "full", "default", "quick"):
        (outcome,) = run(["toy/one"], out=out, size=size)
        assert outcome.state == "kept"
        assert read_result(out / "toy" / "one").size == size
        assert (out / "toy" / "one" / "mine.txt").read_text() == "a note"
    assert len(diary()) == computed
    assert {path.name for path in (out / "toy").iterdir()} == {"one", ".one@full", ".one@default"}


def test_a_users_files_are_not_deleted(here, toy, tmp_path):
    out = tmp_path / "out"
    run(["toy/one"], out=out, size="quick")
    (out / "toy" / "one" / "mine").mkdir()
    (out / "toy" / "one" / "mine" / "paper.txt").write_text("a draft")
    for how in ({"fresh": True, "size": "quick"}, {"size": "default"}, {"size": "quick"}):
        run(["toy/one"], out=out, **how)
        assert (out / "toy" / "one" / "mine" / "paper.txt").read_text() == "a draft"


def test_what_a_killed_run_had_put_aside_comes_back(here, toy, diary, tmp_path):
    """Killed between two renames: the old folder is hidden, and nothing is in its place."""
    out = tmp_path / "out"
    run(["toy/one"], out=out, size="quick")
    (out / "toy" / "one" / "mine.txt").write_text("a note")
    (out / "toy" / "one").rename(out / "toy" / ".one-0123abcd.old")
    computed = len(diary())
    (outcome,) = run(["toy/one"], out=out, size="quick")
    assert (outcome.state, len(diary())) == ("kept", computed)
    run(["toy/one"], out=out, size="full")
    (out / "toy" / "one").rename(out / "toy" / ".one@full")
    (outcome,) = run(["toy/one"], out=out, size="quick")
    assert outcome.state == "kept"
    assert (out / "toy" / "one" / "mine.txt").read_text() == "a note"
    assert {path.name for path in (out / "toy").iterdir()} == {"one", ".one@full"}


class Killed(BaseException):
    """What no handler of ours expects."""


def test_a_kill_at_any_rename_or_removal_loses_nothing(here, diary, tmp_path, monkeypatch):
    """Two sizes and a user's file, stopped before each change that publishing makes to folders."""
    ready = tmp_path / "ready"
    for size in ("full", "quick"):
        run(["toy/one"], out=ready, size=size)
    (ready / "toy" / "one" / "mine.txt").write_text("a note")
    computed = len(diary())
    for spared in range(100):
        out = tmp_path / str(spared)
        shutil.copytree(ready, out)
        left = spared

        def strike(do):
            def maybe(*arguments, **options):
                nonlocal left
                if left == 0:
                    raise Killed
                left -= 1
                return do(*arguments, **options)

            return maybe

        with monkeypatch.context() as patch:
            for name in ("rename", "unlink", "rmdir"):
                patch.setattr(Path, name, strike(getattr(Path, name)))
            patch.setattr(shutil, "rmtree", strike(shutil.rmtree))
            try:
                run(["toy/one"], out=out, size="full", fresh=True)
                break  # all moves were spared
            except Killed:
                pass
        before = len(diary())
        (outcome,) = run(["toy/one"], out=out, size="quick")
        assert (outcome.state, len(diary())) == ("kept", before)
        assert (out / "toy" / "one" / "mine.txt").read_text() == "a note"
        (outcome,) = run(["toy/one"], out=out, size="full")
        assert outcome.state == "kept", spared
        assert read_result(out / "toy" / "one").damaged == ()
        assert (out / "toy" / "one" / "mine.txt").read_text() == "a note"
    assert spared > 5
    assert len(diary()) > computed


def test_work_is_found_by_its_whole_name(here, toy, diary, tmp_path):
    """A figure whose name begins with another's keeps its work."""
    out = tmp_path / "out"
    others = [
        out / "toy" / f".one{rest}" for rest in (
            "-more@quick-0123456789abcdef01234567.work",
            "@full-0123456789abcdef01234567.work",
            "-more-0123abcd.old",
            "-more@quick",
        )
    ]  # fmt: skip
    ours = out / "toy" / ".one@quick-0123456789abcdef01234567.work"
    for folder in (*others, ours):
        folder.mkdir(parents=True)
    run(["toy/one"], out=out, size="quick")
    assert all(folder.is_dir() for folder in others)
    assert not ours.exists()


def test_folders_that_are_no_figures_are_named_and_left_alone(here, toy, command, tmp_path):
    out = tmp_path / "out"
    run(["toy/two"], out=out, size="quick")
    (out / "toy" / "two" / "figure.svg").write_text("")
    (out / "notes" / "mine").mkdir(parents=True)
    (out / "notes" / "mine" / "a.txt").write_text("mine")
    shutil.copytree(out / "toy" / "two", out / "toy" / "copy")
    status, _, stderr = command("toy/one", "--quick", "--out", out)
    assert status == 0
    told = [line for line in stderr.splitlines() if "left out of the page" in line]
    assert len(told) == 3
    assert "mine has no manifest.json" in told[0]
    assert "copy holds toy/two" in told[1]
    assert "two is damaged (figure.svg)" in told[2]
    page = (out / "index.html").read_text()
    assert "A toy, one" in page
    assert "toy/copy holds toy/two" in page
    assert (out / "notes" / "mine" / "a.txt").read_text() == "mine"


def test_what_stands_in_the_way_is_one_line(toy, tmp_path):
    out, away = tmp_path / "out", tmp_path / "away"
    (out / "toy").mkdir(parents=True)
    away.mkdir()
    (out / "toy" / "one").symlink_to(away)
    (out / "toy" / "two").write_text("mine")
    outcomes = run(["toy/one", "toy/two", "toy/three"], out=out, size="quick")
    assert [outcome.state for outcome in outcomes] == ["failed", "failed", "done"]
    assert "one is no folder of ours" in outcomes[0].error
    assert "File exists" in outcomes[1].error or "no folder of ours" in outcomes[1].error
    assert list(away.iterdir()) == []
    assert (out / "toy" / "two").read_text() == "mine"


def test_the_lock_follows_no_link(toy, tmp_path):
    out, victim = tmp_path / "out", tmp_path / "victim"
    out.mkdir()
    victim.write_text("precious")
    (out / ".lock").symlink_to(victim)
    with pytest.raises(ValueError, match="out must be a folder that can be written"):
        run(["toy/one"], out=out)
    assert victim.read_text() == "precious"


def test_a_full_disk_is_one_sentence(here, toy, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "index.html")

    monkeypatch.setattr(Shelf, "write", full)
    with pytest.raises(ValueError, match="out can no longer be written: No space left on device"):
        run(["toy/one"], out=tmp_path / "out", size="quick")


def test_a_full_disk_in_a_worker_fails_that_figure(toy, tmp_path, capfd):
    edit(toy, "def breaks():\n", "def breaks():\n    raise OSError(28, 'No space left')\n")
    outcomes = run(["toy/broken", "toy/one"], out=tmp_path / "out", size="quick")
    assert [outcome.state for outcome in outcomes] == ["failed", "done"]
    assert outcomes[0].error == "No space left"
    assert "Traceback" not in capfd.readouterr().err


def test_a_process_that_ends_costs_one_try(toy, diary, tmp_path):
    """In a stage, and before it has begun."""
    mark = tmp_path / "mark"
    once = f"mark = pathlib.Path({str(mark)!r}); mark.exists() or (mark.touch(), os._exit(9))"
    edit(toy, "def part(name, value):\n", f"def part(name, value):\n    {once}\n")
    outcomes = run(["toy/one", "toy/two", "toy/dead"], out=tmp_path / "out", size="quick", jobs=2)
    assert [outcome.state for outcome in outcomes] == ["done", "done", "failed"]
    assert outcomes[2].error == "its process ended with status 9, 2 times (not enough memory?)"
    assert "its process ended with status 9; tried again" in (tmp_path / "out/log.txt").read_text()


def die(mark):
    if not mark.exists():
        mark.touch()
        os._exit(7)


def test_a_process_that_ends_as_it_starts_costs_one_try(toy, tmp_path):
    prepare = functools.partial(die, tmp_path / "mark")
    outcomes = reproduce.run(
        ["toy/one", "toy/two"], out=tmp_path / "out", size="quick", prepare=prepare
    )
    assert [outcome.state for outcome in outcomes] == ["done", "done"]


def test_processes_that_never_start_fail_every_figure_in_one_line_each(toy, tmp_path):
    outcomes = reproduce.run(
        ["toy/one", "toy/two"], out=tmp_path / "out", size="quick", prepare=sys.exit
    )
    assert [outcome.state for outcome in outcomes] == ["failed", "failed"]
    assert "its process ended with status 0, 2 times" in outcomes[0].error


def test_a_changed_setting_that_is_refused_is_one_sentence(toy, command, tmp_path):
    refusal = 'if settings.slope < 0: raise ValueError("slope must be > 0")'
    edit(toy, 'note("values")', f'note("values")\n    {refusal}')
    status, stdout, stderr = command(
        "toy/new", "--quick", "--out", tmp_path / "out", "--set", "slope=-1"
    )
    assert (status, stdout) == (2, "")
    assert "toy/new with these settings: slope must be > 0" in stderr
    assert "Traceback" not in stderr
    assert list((tmp_path / "out" / "toy").iterdir()) == []


def test_a_claim_that_can_no_longer_be_judged_is_not_shown_as_it_was(here, toy, tmp_path):
    out = tmp_path / "out"
    run(["toy/new"], out=out, size="quick")
    edit(toy, "d.told[-1], 1e-9", "d.gone[-1], 1e-9")
    (one,) = run(["toy/new"], out=out, size="quick")
    assert not one.good
    assert [claim.verdict for claim in one.claims[:2]] == ["fails", "holds"]
    assert "It cannot be judged (AttributeError" in one.claims[0].note
    assert "not judged" in (out / "index.html").read_text()
    (again,) = run(["toy/new"], out=out, size="quick")  # as it was, though it has no number
    assert (again.state, again.why) == ("kept", "")


def test_a_figure_that_can_no_longer_be_drawn_leaves_the_page(toy, tmp_path, capfd):
    out = tmp_path / "out"
    run(["toy/one"], out=out, size="quick")
    edit(toy, "plot(data.x, data.first)", "plot(data.gone)")
    told = []
    (outcome,) = run(["toy/one"], out=out, size="quick", warn=told.append)
    assert outcome.state == "failed"
    assert len(told) == 1
    page = (out / "index.html").read_text()
    assert "toy/one could not be made or judged anew (AttributeError" in page
    assert '<article id="toy/one">' not in page


def test_stages_are_logged(toy, tmp_path):
    run(["toy/new"], out=tmp_path / "out", size="quick")
    lines = (tmp_path / "out" / "log.txt").read_text().splitlines()
    assert lines[0].endswith("run of 1 begins")
    assert lines[-1].endswith("run ends")
    words = [line.partition("(quick)  ")[2] for line in lines[1:-1]]
    assert words[:2] == ["begins", "stage values begins"]
    assert words[2].startswith("stage values ends after ")
    assert words[-1] == "is done, 5 claims judged"


def test_changed_settings_are_kept_apart(here, toy, command, diary, tmp_path):
    out = tmp_path / "out"
    assert command("toy/new", "--quick", "--out", out)[0] == 0
    status, stdout, _ = command(
        "toy/new", "--quick", "--out", out, "--set", "slope=3", "--set", "powers=2,3"
    )
    assert status == 0
    assert "settings were changed" in stdout.replace("\n", " ")
    apart = out / "toy" / "new@powers=2,3,slope=3.0"
    assert {path.name for path in (out / "toy").iterdir()} == {"new", apart.name}
    result = read_result(apart)
    assert result.changes == {"slope": 3.0, "powers": [2, 3]}
    verdicts = {claim.id: claim.verdict for claim in result.claims}
    assert "toy/new/power-1" not in verdicts
    assert "toy/new/power-3" in verdicts
    page = (out / "index.html").read_text()
    assert "changed: powers = [2, 3], slope = 3.0" in page
    assert "(changed)" in page
    assert "1 with changed settings" in page
    computed = len(diary())
    line = result.about["command"].split()[1:]
    assert main([*line, "--out", str(out)]) == 0
    assert len(diary()) == computed
    assert command("toy/new", "--quick", "--out", out, "--set", "slope=2")[0] == 0  # as it is
    assert len(diary()) == computed


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
    assert "ended with status 9, 2 times" in found["toy/dead"].error
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
    assert list(out.glob("toy/*")) == []
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
        assert read_dataset(one).equals(read_dataset(three))
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
            assert read_result(folder).damaged == ()
    assert killed > 0
    process = solvable(*arguments, "--quick")
    process.communicate()
    assert process.returncode == 0
    shown = sorted(path.name for path in (out / "toy").iterdir() if path.name[0] != ".")
    assert shown == sorted(names)
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
    assert "/value" in stdout
    assert "The paper: 1 holds, 1 does not hold." in stdout
    assert "1 verdict is not the known one" in stdout
    assert "toy/false/value: Measured 1, which is 1 away from 2" in " ".join(stdout.split())
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
    assert document["counts"] == {"paper": {"holds": 1}}
    assert document["left_out"] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("toy/four",), "figure of toy must be one of one, two"),
        (("nolab",), "target must be one of all, msfr"),
        (("--quick", "--full", "toy/one"), "quick and full cannot both be given"),
        (("toy/one", "--jobs", "0"), "jobs must be a whole number, at least 1, not 0"),
        (("toy/new", "--set", "slop=2"), "did you mean slope?"),
        (("toy/new", "--set", "slope"), "--set must be NAME=VALUE, such as alpha=2.0, not 'slope'"),
        (("toy/..",), "figure of toy must be one of one, two"),
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


def diary_of_threads(folder):
    (folder / str(os.getpid())).write_text(os.environ.get("OPENBLAS_NUM_THREADS", "own"))


@pytest.mark.parametrize(
    ("set_to", "jobs", "each"), [("", 1, "own"), ("", 2, "half"), ("3", 2, "3")]
)
def test_workers_share_the_cores_with_their_linear_algebra(
    toy, tmp_path, monkeypatch, set_to, jobs, each
):
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if set_to:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", set_to)
    prepare, out = functools.partial(diary_of_threads, tmp_path), tmp_path / "out"
    reproduce.run(["toy/one", "toy/two"], out=out, size="quick", jobs=jobs, prepare=prepare)
    each = str(max(1, (os.cpu_count() or 1) // 2)) if each == "half" else each
    assert {path.read_text() for path in tmp_path.glob("[0-9]*")} == {each}
    assert os.environ.get("OPENBLAS_NUM_THREADS", "") == set_to
