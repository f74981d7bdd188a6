"""Compilers that return wrong numbers are refused, whatever their version; this one does not."""

import os
import subprocess
import sys
import warnings
from importlib import metadata
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solvable import cli, compiler, compiling, reproduce
from solvable.numerics import host

CPU = jax.devices("cpu")[0]
pytestmark = pytest.mark.portable


@pytest.fixture
def untried(monkeypatch, tmp_path):
    """A process that has not tried its compiler, with an empty cache folder."""
    monkeypatch.setenv("SOLVABLE_CACHE", str(tmp_path))
    monkeypatch.setattr(compiler, "_seen", {})
    monkeypatch.setitem(compiling._state, "checked", False)
    monkeypatch.setitem(compiling._state, "beware_cpu", False)
    return tmp_path


@pytest.fixture
def broken(untried, monkeypatch):
    """A compiler whose sums are wrong, as jaxlib 0.12.0.1's are on a CPU: all of them 0."""
    true = compiler._cases

    def cases(xp=None):
        if xp is not None:
            return true(xp)
        return [lambda m, case=case: 0.0 * case(m) for case in true()]

    monkeypatch.setattr(compiler, "_cases", cases)
    return untried


def test_this_compiler_passes_with_room_to_spare():
    # Single precision's 1e-7 times a few; what is broken is off by 1.
    assert compiler._largest_error(CPU) < 1e-5 < compiler._ALLOWED


@pytest.mark.parametrize("factor", [0.9, np.nan])
@pytest.mark.parametrize("wrong", range(3))
def test_each_case_by_itself_can_fail(monkeypatch, wrong, factor):
    true = compiler._cases

    def cases(xp=None):
        found = true(xp)
        if xp is None:
            found[wrong] = lambda m, case=found[wrong]: factor * case(m)
        return found

    monkeypatch.setattr(compiler, "_cases", cases)
    assert compiler._largest_error(CPU) > 0.05


def test_a_broken_compiler_is_refused_in_one_sentence(broken):
    with pytest.raises(compiler.BrokenCompiler) as error:
        compiler.check()
    message = str(error.value)
    assert "\n" not in message
    assert f"jaxlib {metadata.version('jaxlib')} silently returns wrong sums on a CPU" in message
    assert "jax-ml/jax#39103" in message
    assert "pip install jax==0.10.1 jaxlib==0.10.1" in message
    assert not list(broken.rglob("cpu-*"))  # only what passes is remembered


def test_compiled_functions_the_command_line_and_reproduce_refuse_it(broken, tmp_path, capsys):
    twice = compiling.jit(lambda x: 2.0 * x)
    with pytest.raises(compiler.BrokenCompiler):
        twice(jnp.ones(3))
    with pytest.raises(compiler.BrokenCompiler):
        reproduce.run(["msfr/fig2"], out=tmp_path / "out", size="quick")
    assert not (tmp_path / "out").exists()
    assert cli.main(["solve", "msfr", "--order", "zeroth", "--no-compile-cache"]) == 2
    told = capsys.readouterr()
    assert told.err.startswith("solvable: jaxlib ")
    assert told.err.count("\n") == 1
    assert told.out == ""


def test_what_passes_is_remembered_for_this_compiler_and_its_flags(untried, monkeypatch):
    compiler.check()
    (mark,) = (untried / "compilers").iterdir()
    monkeypatch.setattr(compiler, "_seen", {})
    monkeypatch.setattr(compiler, "_largest_error", lambda device: np.inf)
    compiler.check()  # not tried again
    monkeypatch.setattr(compiler, "_seen", {})
    monkeypatch.setattr(compiler, "cpu_flags", lambda: "another processor")
    with pytest.raises(compiler.BrokenCompiler):
        compiler.check()
    assert [mark] == list((untried / "compilers").iterdir())


@pytest.mark.parametrize("trace", [jax.jit, jax.make_jaxpr, jax.grad])
def test_it_can_be_tried_while_a_user_is_tracing(untried, trace):
    twice = compiling.jit(lambda x: 2.0 * x)
    trace(lambda x: twice(x))(1.0)
    assert list((untried / "compilers").iterdir())


def test_a_broken_compiler_is_refused_in_what_a_user_compiles(broken):
    with pytest.raises(compiler.BrokenCompiler):
        jax.jit(lambda x: host.unpacked(x)[1])(1.0)


def test_without_a_folder_to_write_it_is_tried_every_time(untried, monkeypatch):
    (untried / "file").touch()
    monkeypatch.setenv("SOLVABLE_CACHE", str(untried / "file"))
    tried = []
    true = compiler._largest_error
    monkeypatch.setattr(compiler, "_largest_error", lambda d: tried.append(d) or true(d))
    for _ in range(2):
        compiler.check()
        compiler._seen.clear()
    assert len(tried) == 2


def test_nothing_is_compiled_by_an_import():
    program = "import solvable, sys; print('jax' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize(
    ("version", "flagged"),
    [("0.10.1", False), ("0.10.2", True), ("0.11.0", True), ("0.12.0.1", True), ("0.12.1", False)],
)
def test_the_flag_is_set_for_the_releases_that_need_and_know_it(monkeypatch, version, flagged):
    """XLA ends a process that has a flag which it does not know."""
    monkeypatch.setattr(compiler, "_release", lambda: tuple(map(int, version.split("."))))
    monkeypatch.setenv("XLA_FLAGS", "--other=1")
    compiler.repair()
    compiler.repair()
    assert os.environ["XLA_FLAGS"] == "--other=1" + f" {compiler.REPAIR}" * flagged


def test_on_a_gpu_a_broken_cpu_is_told_once_and_refused_where_it_is_used(broken, monkeypatch):
    gpu = SimpleNamespace(platform="gpu", device_kind="H200", client=CPU.client)
    monkeypatch.setattr(compiler, "_default_device", lambda: gpu)
    compiler._seen[("gpu", "H200")] = ""
    twice = compiling.jit(lambda x: 2.0 * x)
    with pytest.warns(UserWarning, match="used only for what is placed on the CPU"):
        twice(np.ones(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        twice(np.ones(3))
    with pytest.raises(compiler.BrokenCompiler):
        twice(jax.device_put(np.ones(3), CPU))
    monkeypatch.setattr(compiler, "_default_device", lambda: CPU)
    with pytest.raises(compiler.BrokenCompiler):
        twice(np.ones(3))


def test_compiled_sums_of_expm1_are_right():
    """All zero under jaxlib 0.10.2 to 0.12.0.1 on a CPU without the flag."""
    m = np.random.default_rng(0).normal(size=(500, 16))
    compiled = jax.jit(lambda m: jnp.sum(jnp.expm1(m) - jnp.expm1(-m), 1))
    true = np.sum(np.expm1(m) - np.expm1(-m), axis=1)
    # Sums of 16 terms of size up to 100.
    np.testing.assert_allclose(compiled(m), true, rtol=0.0, atol=1e-11)


@pytest.mark.parametrize(("count", "dtype"), [(16_385, "float64"), (32_769, "float32")])
def test_compiled_squares_of_many_products_are_right(count, dtype):
    """jax-ml/jax#39103: row i holds (i, 0, 0); the last one's square came out as another row's."""
    number = jnp.arange(count, dtype=dtype)
    rows = jnp.stack([number, jnp.zeros_like(number), jnp.zeros_like(number)], axis=1)
    matrix = jnp.eye(3, dtype=dtype)
    squares = jax.vmap(lambda row: jnp.sum((matrix @ row) ** 2))
    np.testing.assert_array_equal(jax.jit(squares)(rows), squares(rows))
    np.testing.assert_allclose(squares(rows), np.arange(count, dtype=float) ** 2, rtol=1e-6)


def test_the_real_fault_is_seen_where_it_is():
    """On a jaxlib that has it, the check fails without the flag and passes with it."""
    program = """
import sys
from solvable import compiler
if sys.argv[1] == "repaired":
    compiler.repair()
try:
    compiler.check()
    print("right")
except compiler.BrokenCompiler:
    print("wrong")
"""
    plain = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "SOLVABLE_CACHE")}
    answers = [
        subprocess.run(
            [sys.executable, "-c", program, word],
            env=plain | {"SOLVABLE_CACHE": os.devnull},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for word in ("plain", "repaired")
    ]
    faulty = compiler._FIRST <= compiler._release() <= compiler._LAST
    assert answers == ["wrong" if faulty else "right", "right"]
