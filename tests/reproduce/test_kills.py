"""Sixty kills of real runs: nothing is lost, half-written, or hangs."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from solvable.reproduce.store import read_result

pytestmark = pytest.mark.long

FIGURES = ("single_location/fig7b", "msfr/unseen", "msfr/errata")
KILLS = 60
LATEST = 14.0  # seconds after its start; a run takes about as long
PATIENCE = 120.0


def start(out, *more):
    return subprocess.Popen(
        [sys.executable, "-c", "import sys; from solvable.cli import main; sys.exit(main())",
         "reproduce", *FIGURES, "--quick", "--jobs", "2", "--json", "--out", str(out), *more],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def family(pid):
    """The processes that descend from one, itself first."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().rpartition(")")
        except OSError:
            continue
        if rest.split()[0] != "Z":
            parents[int(name.split()[0])] = int(rest.split()[1])
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def whole(out, claims):
    """Every figure is there, shown or just put aside, and says what it said."""
    for figure in FIGURES:
        lab, name = figure.split("/")
        shown = out / lab / name
        aside = sorted((out / lab).glob(f".{name}-????????.old"))
        folder = shown if shown.exists() else aside[-1]
        assert read_result(folder).damaged == ()
        assert json.loads((folder / "claims.json").read_text()) == claims[figure]


def test_sixty_kills(tmp_path):
    out, dice = tmp_path / "out", random.Random(14)
    first = start(out)
    first.communicate()
    assert first.returncode == 0
    claims = {figure: json.loads((out / figure / "claims.json").read_text()) for figure in FIGURES}
    struck = {}
    for _ in range(KILLS):
        whom = dice.choice(["main", "worker", "group"])
        how = dice.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        process = start(out, "--fresh")
        when = time.monotonic() + dice.uniform(0.3, LATEST)
        while time.monotonic() < when and process.poll() is None:
            time.sleep(0.02)
        everyone = family(process.pid)
        try:
            match whom:
                case "main":
                    os.kill(process.pid, how)
                case "group":
                    os.killpg(process.pid, how)
                case _ if len(everyone) > 1:
                    os.kill(dice.choice(everyone[1:]), how)
        except ProcessLookupError:
            continue  # it was done before
        struck[whom, how.name] = struck.get((whom, how.name), 0) + 1
        process.communicate(timeout=PATIENCE)
        if whom == "worker":  # one figure is tried again, and the run goes on
            assert process.returncode == 0, how
        end = time.monotonic() + PATIENCE
        while any(alive(pid) for pid in everyone):
            assert time.monotonic() < end, "a process goes on without its run"
            time.sleep(0.05)
        whole(out, claims)
    print(struck)
    last = start(out)
    stdout, _ = last.communicate(timeout=PATIENCE)
    assert last.returncode == 0
    assert all(figure["state"] == "kept" for figure in json.loads(stdout)["figures"])
    whole(out, claims)
    hidden = [path.name for path in out.glob("*/.*")]
    assert hidden == []
