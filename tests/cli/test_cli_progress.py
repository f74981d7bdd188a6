import io
import time

import pytest

from solvable.cli import progress
from solvable.cli.progress import Waiting


class Terminal(io.StringIO):
    def isatty(self):
        return True


def _wait(monkeypatch, stderr, patience):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "PATIENCE", patience)
    monkeypatch.setattr("sys.stderr", stderr)
    with Waiting("training") as bar:
        time.sleep(0.3)
        bar(120, 500)
        time.sleep(0.3)
    return stderr.getvalue()


def test_the_bar_shows_steps_and_remaining_time_on_a_terminal(monkeypatch):
    shown = _wait(monkeypatch, Terminal(), patience=0.05)
    assert "training" in shown
    assert "120/500 steps" in shown
    assert "-:--:--" in shown or "0:00:" in shown


def test_short_work_shows_no_bar(monkeypatch):
    assert _wait(monkeypatch, Terminal(), patience=30.0) == ""


def test_nothing_is_shown_off_a_terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert _wait(monkeypatch, io.StringIO(), patience=0.0) == ""


def test_a_failure_within_takes_the_bar_away(monkeypatch):
    monkeypatch.setattr("sys.stderr", Terminal())
    with pytest.raises(ValueError, match="no"), Waiting("training"):
        raise ValueError("no")
