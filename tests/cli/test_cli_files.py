import os
import threading
from pathlib import Path

import pytest

from solvable.cli.compute import ComputeOptions
from solvable.cli.files import check_writable, write_file

QUICK = ("solve", "msfr", "--order", "zeroth")


@pytest.fixture
def no_work(monkeypatch):
    """Fails the test if the long work begins."""
    monkeypatch.setattr(ComputeOptions, "prepare", lambda self: pytest.fail("the work began"))


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("command", ["solve", "train"])
@pytest.mark.parametrize("option", ["csv", "plot"])
def test_an_unwritable_file_is_refused_before_the_work(solvable, tmp_path, command, option):
    path = tmp_path / "missing" / "curve.svg"
    done = solvable(command, "msfr", f"--{option}", path)
    assert (done.status, done.out) == (2, "")
    assert done.err == (
        f"solvable: {option} must be a file that can be written, not '{path}' "
        "(No such file or directory)\n"
    )


@pytest.mark.usefixtures("no_work")
def test_a_folder_or_something_below_a_file_is_refused(solvable, tmp_path):
    (tmp_path / "file").touch()
    for path, why in ((tmp_path, "it is a folder"), (tmp_path / "file" / "x", "Not a directory")):
        done = solvable("solve", "msfr", "--csv", path)
        assert done.status == 2
        assert f"'{path}' ({why})" in done.err


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("name", ["curve.gif", "curve", "svg"])
def test_a_picture_of_an_unknown_kind_is_refused(solvable, tmp_path, name):
    done = solvable("solve", "msfr", "--plot", tmp_path / name)
    assert (done.status, done.out) == (2, "")
    assert done.err == (f"solvable: plot must end in .svg, .png or .pdf, not '{tmp_path / name}'\n")


def test_the_check_leaves_nothing_behind(tmp_path):
    check_writable("csv", tmp_path / "curve.csv")
    assert list(tmp_path.iterdir()) == []


def test_bad_input_writes_no_file(solvable, tmp_path):
    done = solvable(
        "solve", "msfr", "--alpha", 1.0, "--csv", tmp_path / "c", "--plot", tmp_path / "p.svg"
    )
    assert done.status == 2
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing_behind(
    solvable, tmp_path, monkeypatch
):
    path = tmp_path / "curve.csv"
    path.write_text("old")

    def fail(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    done = solvable(*QUICK, "--csv", path)
    assert (done.status, done.out) == (2, "")
    assert "(No space left on device)" in done.err
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "target.csv", tmp_path / "link.csv"
    link.symlink_to(target)
    write_file("csv", link, b"content")
    assert link.is_symlink()
    assert target.read_bytes() == b"content"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    check_writable("csv", pipe)
    write_file("csv", pipe, b"content")
    reader.join(timeout=10)
    assert read == [b"content"]
    assert pipe.is_fifo()


def test_a_new_file_gets_the_usual_permissions(tmp_path):
    write_file("csv", tmp_path / "ours", b"")
    (tmp_path / "usual").touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_csv_on_standard_output_takes_the_place_of_the_table(solvable, tmp_path):
    path = tmp_path / "curve.csv"
    solvable(*QUICK, "--csv", path)
    done = solvable(*QUICK, "--csv", "-", "--plot", tmp_path / "curve.svg")
    assert (done.status, done.out) == (0, path.read_text())
    assert done.err == f"solvable: wrote {tmp_path / 'curve.svg'}\n"
    assert not Path("-").exists()


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("command", [QUICK, ("train", "msfr"), ("plan", "--budget", "1e9")])
def test_csv_and_json_do_not_both_take_standard_output(solvable, command):
    done = solvable(*command, "--csv", "-", "--json")
    assert (done.status, done.out) == (2, "")
    assert done.err == (
        "solvable: csv must be a file, not '-', with --json, which takes standard output\n"
    )
