"""Float64, strict dtypes and checked shapes for every test and doctest, in `tests` and in `src`."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # XLA talks about what it reloads

import hypothesis
import jax
import jax.monitoring
import jaxtyping
import pytest

# For doctests: conftests share a name, and the scripts that make oracles are run by themselves.
collect_ignore_glob = ["tests/*/conftest.py", "tests/oracles/make_*.py"]

# Before the first import of solvable, so that annotations of arrays in it are enforced. Not in
# figures, scaling, reproduce and the command line: they have few, and functions within functions
# are wrapped at every call, which more than doubles what long loops in them cost.
_SOURCE = Path(__file__).parent / "src" / "solvable"
_UNCHECKED = {"__init__", "__pycache__", "figures", "scaling", "reproduce", "cli", "papers"}


def _checked(folder: Path, name: str) -> Iterator[str]:
    for path in sorted(folder.iterdir()):
        if path.stem in _UNCHECKED:
            continue
        if path.suffix == ".py":
            yield f"{name}.{path.stem}"
        elif path.is_dir():
            yield from _checked(path, f"{name}.{path.name}")


jaxtyping.install_import_hook(list(_checked(_SOURCE, "solvable")), "beartype.beartype")

import solvable  # noqa: E402

solvable.setup(cache=False)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

hypothesis.settings.register_profile("local", deadline=None, max_examples=40)
hypothesis.settings.register_profile("ci", deadline=None, max_examples=25, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture
def as_users_run_it() -> Iterator[None]:
    """Without the tests' own type checks, which refuse a wrong type before the library can."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


# What is compiled, all workers together: modules, and seconds of tracing, lowering and compiling.
_BUDGET = Path(__file__).parent / "tests" / "compiled.json"
_SLACK = 1.2
_KINDS = ("jaxpr_trace_duration", "jaxpr_to_mlir_module_duration", "backend_compile_duration")
_spent = {"modules": 0, "seconds": 0.0}


def _count(event: str, duration_secs: float, **_: str | int) -> None:
    _spent["seconds"] += duration_secs if event.endswith(_KINDS) else 0.0
    _spent["modules"] += event.endswith(_KINDS[-1])


jax.monitoring.register_event_duration_secs_listener(_count)


def pytest_configure(config: pytest.Config) -> None:
    """Compiled code is shared by the workers, and kept for the next run of the tests."""
    cache = getattr(config, "cache", None)  # there is none with -p no:cacheprovider
    if cache is not None and not solvable.compile_cache(cache.mkdir("compiled")):
        # What compiles in less is read no faster than it is compiled.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker tells the controller what it has compiled."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["compiled"] = dict(_spent)  # pyright: ignore


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:
    """The controller adds up what its workers have compiled."""
    for name, value in getattr(node, "workeroutput", {}).get("compiled", {}).items():
        _spent[name] += value


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """Tell what was compiled; that of a run of all tests is held to `tests/compiled.json`."""
    modules, seconds = _spent["modules"], _spent["seconds"]
    terminalreporter.write_line(f"compiled {modules} modules in {seconds:.0f} s")
    chosen = config.args_source is not pytest.Config.ArgsSource.TESTPATHS
    partial = config.option.keyword or config.option.markexpr not in ("", "not long")
    if chosen or partial or not _BUDGET.exists():
        return
    most = _SLACK * json.loads(_BUDGET.read_text())["modules"]
    if modules > most:
        terminalreporter.write_line(
            f"that is more than {most:.0f}: something compiles again and again, or "
            f"{_BUDGET.name} is to be raised, with a reason"
        )
        terminalreporter._session.exitstatus = pytest.ExitCode.TESTS_FAILED
