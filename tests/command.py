"""A command of ``solvable``, run in this process: fixtures that conftests import."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import pytest

from solvable.cli import main
from solvable.cli.verbs import VERBS
from solvable.labs import names

SETTINGS = (
    "jax_enable_x64",
    "jax_enable_compilation_cache",
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
)


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str


Solvable = Callable[..., Outcome]


@pytest.fixture
def jax_settings() -> Iterator[None]:
    """Double precision, and whatever a command sets is set back."""
    before = {name: getattr(jax.config, name) for name in SETTINGS}
    jax.config.update("jax_enable_x64", True)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.fixture
def solvable(capsys: pytest.CaptureFixture[str], jax_settings: None) -> Solvable:
    """Run one command in this process."""

    def run(*words: object) -> Outcome:
        argv = [str(word) for word in words]
        if len(argv) > 1 and argv[0] in VERBS and argv[1] in names():
            argv.append("--no-compile-cache")
        capsys.readouterr()
        status = main(argv)
        return Outcome(status, *capsys.readouterr())

    return run


def document(done: Outcome) -> Any:
    """The JSON document of a command that did well."""
    assert (done.status, done.err) == (0, "")
    return json.loads(done.out, parse_constant=pytest.fail)


def assert_refused(done: Outcome, sentence: str) -> None:
    """Status 2, nothing on standard output, and one line on standard error that says why."""
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("solvable: ")
    assert sentence in done.err
    assert done.err.count("\n") == 1
