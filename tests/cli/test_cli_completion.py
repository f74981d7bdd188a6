import subprocess

import pytest


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_knows_commands_labs_and_options(solvable, shell):
    done = solvable("completion", shell)
    assert (done.status, done.err) == (0, "")
    for word in ("completion", "msfr", "num-tasks", "softmax", "hold-out", "chinchilla"):
        assert word in done.out


def test_bash_completes_an_option_of_a_lab(solvable):
    script = solvable("completion", "bash").out
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    ask = """
COMP_WORDS=(solvable solve msfr --alp); COMP_CWORD=3
_tyro_solvable solvable --alp msfr
echo "${COMPREPLY[@]}"
"""
    done = subprocess.run(["bash"], input=script + ask, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "--alpha"


def test_help_says_how_to_install_the_script(solvable):
    out = solvable("completion", "--help").out
    for place in (
        "bash-completion/completions/solvable",
        "$fpath",
        "fish/completions/solvable.fish",
    ):
        assert place in out
