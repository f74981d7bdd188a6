"""Ctrl-C during the training of any lab, from the command line."""

import json

import numpy as np
import pytest

from solvable import training
from solvable.cli.progress import Waiting

from . import LABS

STEPS = 1_000_000
SMALL = {
    "msfr": "--num-tasks 4 --context 6",
    "shallow_icl": "--dim 3 --context 8",
    "single_location": "--dim 20 --length 4",
    "deep_icl": "--nu 1.25 --beta 0.7 --dim 12",
}


@pytest.mark.parametrize("lab", LABS)
def test_ctrl_c_keeps_what_there_is_and_says_where_it_stopped(solvable, monkeypatch, tmp_path, lab):
    def stop(waiting, step, steps):
        if step < steps:
            raise KeyboardInterrupt

    monkeypatch.setattr(Waiting, "__call__", stop)
    path = tmp_path / "run.csv"
    words = (*SMALL[lab].split(), "--steps", STEPS, "--log-every", 10)
    done = solvable("train", lab, *words, "--csv", path, "--json")
    assert done.status == 130
    told = json.loads(done.out)
    last = told["step"][-1]
    assert told["interrupted"] is True
    assert told["status"] == "ok"
    assert 0 < last < STEPS
    assert np.shape(told["loss"])[-1] == len(told["step"])
    assert path.read_text().splitlines()[-1].startswith(f"{last},")
    assert done.err.startswith(
        f"solvable: wrote {path}\nsolvable: interrupted at step {last} of {STEPS};"
    )


@pytest.mark.parametrize("lab", LABS)
def test_ctrl_c_before_there_is_anything_writes_nothing(solvable, monkeypatch, tmp_path, lab):
    def stop(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(training.Training, "run", stop)
    done = solvable("train", lab, "--csv", tmp_path / "run.csv", "--json")
    assert (done.status, done.out, done.err) == (130, "", "solvable: interrupted\n")
    assert list(tmp_path.iterdir()) == []
