import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from solvable import compiler
from solvable.cli.compute import ComputeOptions
from solvable.computing import cache_folder

pytestmark = pytest.mark.slow


def test_the_folder_is_below_the_cache_of_the_user(monkeypatch):
    monkeypatch.delenv("SOLVABLE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_folder().parent == Path("/caches/solvable")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/reader")
    assert cache_folder().parent == Path("/home/reader/.cache/solvable")
    monkeypatch.setenv("SOLVABLE_CACHE", "/elsewhere")
    assert cache_folder().parent == Path("/elsewhere")


def test_other_compilers_and_other_processors_have_other_folders(monkeypatch):
    here = cache_folder()
    monkeypatch.setattr(compiler, "cpu_flags", lambda: "flags : other")
    other = cache_folder()
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.99")
    assert len({here.name, other.name, cache_folder().name}) == 3


def test_a_folder_that_cannot_be_written_is_no_failure(monkeypatch, tmp_path, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setenv("SOLVABLE_CACHE", str(tmp_path / "file"))
    before = jax.config.jax_compilation_cache_dir
    ComputeOptions().prepare()
    assert jax.config.jax_compilation_cache_dir == before
    assert capsys.readouterr().err.startswith("solvable: compiling without a cache: ")


def test_compiled_code_is_kept_and_reused_silently_unless_the_flag_says_no(tmp_path):
    def train(*words: str) -> tuple[str, set[Path]]:
        # JAX put its own level of logging into the environment of this process.
        ours = {name: value for name, value in os.environ.items() if name[:6] != "TF_CPP"}
        code = "import sys; from solvable.cli import main; sys.exit(main())"
        done = subprocess.run(
            [sys.executable, "-c", code, "train", "msfr", "--steps", "20", "--json", *words],
            env={**ours, "SOLVABLE_CACHE": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        return done.stdout, {path for path in tmp_path.rglob("*-cache")}

    without, kept = train("--no-compile-cache")
    assert kept == set()
    first, kept = train()
    assert kept
    second, reused = train()
    assert reused == kept
    assert without == first == second


@pytest.mark.parametrize("cached", [True, False])
def test_the_flag_decides_what_jax_does(monkeypatch, tmp_path, cached):
    monkeypatch.setenv("SOLVABLE_CACHE", str(tmp_path))
    ComputeOptions(compile_cache=cached).prepare()
    assert jax.config.jax_enable_x64 is True
    if cached:
        assert jax.config.jax_compilation_cache_dir == str(cache_folder())
    else:
        assert jax.config.jax_enable_compilation_cache is False
