import subprocess
import sys

import pytest
import tyro

from solvable import msfr
from solvable.cli.commands import COMMANDS

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
    ("completion", "shell must be given; see solvable completion --help"),
    ("completion powershell", "shell must be one of bash, zsh, fish, not 'powershell'"),
    (
        "cite nolab",
        "target must be one of msfr, shallow_icl, single_location, deep_icl, not 'nolab'",
    ),
    ("solve msfr --alpha 1.0", "alpha must lie in (1, 10], not 1"),
    ("solve msfr --alpha nan", "alpha must lie in (1, 10], not nan"),
    ("solve msfr --context -5", "context must lie in (0, 1e+09], not -5"),
    ("solve msfr --strength -inf", "strength must lie in [-1e+06, 1e+06], not -inf"),
    ("solve msfr --num-tasks 0", "num_tasks must be a whole number, at least 1, not 0"),
    ("solve msfr --size 502", "size must be a whole number, from 1 to 501, not 502"),
    ("solve msfr --data 0", "data must be a whole number, at least 1, not 0"),
    ("solve msfr --t-min 0", "t_min must lie in (0, 1e+300], not 0"),
    ("solve msfr --t-max 1e-4", "t_max must lie in (0.001, 1e+300], not 0.0001"),
    ("solve msfr --t-max inf", "t_max must lie in (0.001, 1e+300], not inf"),
    ("solve msfr --points 1", "points must be a whole number, at least 2, not 1"),
    ("train msfr --v nan", "v must lie in [-1000, 1000], not nan"),
    ("train msfr --lr -1", "lr must lie in (0, inf), not -1"),
    ("train msfr --optimizer adamw --lr 0", "lr must lie in (0, inf), not 0"),
    ("train msfr --steps -1", "steps must be a whole number, at least 0, not -1"),
    ("train msfr --log-every 0", "log_every must be a whole number, at least 1, not 0"),
    ("train msfr --seed -1", "seed must be a whole number, at least 0, not -1"),
    ("train msfr --value 0.2", "value, key and query are for --attention softmax, not linear"),
    ("train msfr --attention softmax --w 1", "v and w are for --attention linear, not softmax"),
]


@pytest.mark.parametrize(("line", "sentence"), SENTENCES)
def test_bad_input_gets_one_sentence_and_status_2(solvable, line, sentence):
    done = solvable(*line.split())
    assert done.status == 2
    assert done.out == ""
    assert done.err.startswith("solvable: ")
    assert sentence in done.err
    assert done.err.count("\n") == 1


def test_bad_usage_still_ends_with_status_2_where_tyro_has_no_hook(solvable, monkeypatch):
    monkeypatch.delattr(tyro, "_errors")
    assert solvable("solve", "nolab").status == 2


def test_sizes_beyond_memory_get_a_sentence(solvable, monkeypatch):
    def exhaust(*args, **options):
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 3325000004456 bytes.")

    monkeypatch.setattr(msfr, "loss", exhaust)
    done = solvable("solve", "msfr")
    assert done.status == 2
    assert done.err == (
        "solvable: there is not enough memory for what is asked; ask for smaller sizes\n"
    )


def test_a_bug_is_not_passed_off_as_bad_input(solvable, monkeypatch):
    def fail(*args, **options):
        raise RuntimeError("a bug")

    monkeypatch.setattr(msfr, "loss", fail)
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
