import subprocess
import sys

import pytest
import tyro
from tests.command import assert_refused

from solvable.cli.commands import COMMANDS
from solvable.msfr import witnesses

NAMES = ", ".join(COMMANDS)
SENTENCES = [
    ("", f"a command must be named, one of {NAMES}"),
    ("frobnicate", f"command must be one of {NAMES}, not 'frobnicate'"),
    ("--frobnicate", "--frobnicate is not an option of solvable"),
    (
        "solve",
        "a lab must be named, one of msfr, shallow_icl, single_location, deep_icl; "
        "see solvable solve --help",
    ),
    ("solve nolab", "lab must be one of msfr, shallow_icl, single_location, deep_icl, not 'nolab'"),
    (
        "train nolab --alpha 2",
        "lab must be one of msfr, shallow_icl, single_location, deep_icl, not 'nolab'",
    ),
    ("solve None", "lab must be one of msfr, shallow_icl, single_location, deep_icl, not 'None'"),
    ("solve --alpha 2 msfr", "--alpha must come after the name of a lab, one of msfr, shallow_icl"),
    (
        "solve msfr --alfa 2",
        "--alfa is not an option of solvable solve msfr; did you mean --alpha?",
    ),
    ("solve msfr --compile-cash", "did you mean --no-compile-cache?"),
    ("solve msfr --qqq", "--qqq is not an option of solvable solve msfr; see solvable solve msfr"),
    ("solve msfr surplus", "solvable solve msfr takes no argument 'surplus'"),
    ("solve msfr --alpha", "--alpha must be followed by a value"),
    ("solve msfr --alpha two", "--alpha must be a number, not 'two'"),
    ("solve msfr --num-tasks 2.5", "--num-tasks must be a whole number, not '2.5'"),
    ("solve msfr --size None", "--size must be a whole number, not 'None'"),
    ("solve msfr --order second", "--order must be one of exact, zeroth, first, not 'second'"),
    ("solve msfr --lr 0.1", "lr is for --with reduced or tokens"),
    (
        "solve msfr --with reduced --t-max 5",
        "t_max is for the theory alone: with reduced, lr × steps tells",
    ),
    ("train msfr --with reduced", "--with must be one of theory, not 'reduced'"),
    (
        "train msfr --optimizer adamw --with theory",
        "optimizer must be gd for the theory, not adamw",
    ),
    ("compare msfr --points 1", "points must be a whole number, at least 2, not 1"),
    ("compare msfr --steps 0", "steps must be a whole number, at least 1, not 0"),
    ("completion", "shell must be given; see solvable completion --help"),
    ("completion powershell", "shell must be one of bash, zsh, fish, not 'powershell'"),
    (
        "cite nolab",
        "target must be one of msfr, shallow_icl, single_location, deep_icl, not 'nolab'",
    ),
]


@pytest.mark.parametrize(("line", "sentence"), SENTENCES)
def test_bad_input_gets_one_sentence_and_status_2(solvable, line, sentence):
    assert_refused(solvable(*line.split()), sentence)


def test_bad_usage_still_ends_with_status_2_where_tyro_has_no_hook(solvable, monkeypatch):
    monkeypatch.delattr(tyro, "_errors")
    assert solvable("solve", "nolab").status == 2


def test_sizes_beyond_memory_get_a_sentence(solvable, monkeypatch):
    def exhaust(*args, **options):
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 3325000004456 bytes.")

    monkeypatch.setattr(witnesses, "loss", exhaust)
    done = solvable("solve", "msfr")
    assert done.status == 2
    assert done.err == (
        "solvable: there is not enough memory for what is asked; ask for smaller sizes\n"
    )


def test_a_bug_is_not_passed_off_as_bad_input(solvable, monkeypatch):
    def fail(*args, **options):
        raise RuntimeError("a bug")

    monkeypatch.setattr(witnesses, "loss", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        solvable("solve", "msfr")


def test_a_reader_that_goes_away_causes_no_traceback():
    command = [sys.executable, "-c", "import sys; from solvable.cli import main; sys.exit(main())"]
    process = subprocess.Popen(
        [*command, "cite"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate()
    assert err == ""
    assert process.returncode == 141
