"""Float64, strict dtypes and checked shapes for every test and doctest, in `tests` and in `src`."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import jax
import jax.monitoring
import jaxtyping
import pytest

# For doctests: conftests share a name, and the scripts that make oracles are run by themselves.
collect_ignore_glob = ["tests/*/conftest.py", "tests/oracles/make_*.py"]

# Before the first import of solvable, so that every annotation in it is enforced.
jaxtyping.install_import_hook("solvable", "beartype.beartype")

jax.config.update("jax_enable_x64", True)
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


# Linux allows a process 65530 memory maps, of which compiled code takes 3 to 600 a function; past
# them the compiler crashes. So what is compiled is forgotten now and then: seldom, as what is
# needed again is compiled again. No test takes more than 10 000.
_MAPS, _MANY, _LOOK = Path("/proc/self/maps"), 48_000, 50
_compiled = 0


def _count(event: str, _: float, **__: object) -> None:
    global _compiled
    _compiled += event.endswith("backend_compile_duration")


jax.monitoring.register_event_duration_secs_listener(_count)


@pytest.fixture(autouse=True)
def _room_for_compiled_code() -> Iterator[None]:
    yield
    global _compiled
    if _compiled >= _LOOK and _MAPS.exists():
        _compiled = 0
        with _MAPS.open("rb") as maps:
            full = sum(1 for _ in maps) > _MANY
        if full:
            jax.clear_caches()
            gc.collect()
