import subprocess
import sys
from importlib.metadata import version

import pytest

HEAVY = (
    "jax",
    "jaxlib",
    "numpy",
    "scipy",
    "equinox",
    "optax",
    "matplotlib",
    "pyarrow",
    "solvable.msfr",
    "solvable.shallow_icl",
    "solvable.single_location",
    "solvable.deep_icl",
)
COMMANDS = (
    [],
    ["list"],
    ["solve"],
    ["solve", "msfr"],
    ["solve", "shallow_icl"],
    ["solve", "single_location"],
    ["solve", "deep_icl"],
    ["train"],
    ["train", "msfr"],
    ["train", "shallow_icl"],
    ["train", "single_location"],
    ["train", "deep_icl"],
    ["compare"],
    ["compare", "msfr"],
    ["compare", "shallow_icl"],
    ["compare", "single_location"],
    ["compare", "deep_icl"],
    ["fit"],
    ["plan"],
    ["cite"],
    ["new-lab"],
    ["completion"],
)


def test_no_help_imports_what_is_heavy():
    code = f"""
import sys
from solvable.cli import main
for words in {COMMANDS!r}:
    assert main([*words, "--help"]) == 0
print("heavy:", [name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("heavy: []\n")
    assert done.stderr == ""


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_help_on_standard_output(solvable, words):
    done = solvable(*words, "--help")
    assert done.status == 0
    assert done.out.startswith(" ".join(["usage: solvable", *words]))
    assert done.err == ""


@pytest.mark.parametrize("command", ["solve", "train"])
@pytest.mark.parametrize(
    ("lab", "option"),
    [
        ("msfr", "--num-tasks"),
        ("shallow_icl", "--dim"),
        ("single_location", "--dim"),
        ("deep_icl", "--depth"),
    ],
)
def test_options_are_spelled_without_the_name_of_their_group(solvable, command, lab, option):
    out = solvable(command, lab, "--help").out
    assert option in out
    assert "--no-compile-cache" in out
    assert "--task." not in out
    assert f"--{lab}." not in out


def test_help_names_the_symbol_of_the_paper(solvable):
    out = " ".join(solvable("solve", "msfr", "--help").out.replace("│", " ").split())
    assert "--alpha FLOAT exponent α of the task law p_s ∝ s^-α, in (1, 10] (default: 1.8)" in out


@pytest.mark.parametrize("lab", ["msfr", "shallow_icl", "single_location", "deep_icl"])
def test_help_tells_no_default_where_there_is_none(solvable, lab):
    for command in ("solve", "train"):
        out = solvable(command, lab, "--help").out
        assert "default: None" not in out
        assert "default: True" not in out
        assert "default: False" not in out


def test_version_is_that_of_the_package(solvable):
    done = solvable("--version")
    assert (done.status, done.out) == (0, f"solvable {version('solvable')}\n")
