"""One line sets JAX up: double precision, and a cache of compiled code."""

import jax
import jax.numpy as jnp
import pytest
from tests.command import jax_settings

import solvable
from solvable import computing

__all__ = ["jax_settings"]
pytestmark = pytest.mark.usefixtures("jax_settings")


def test_setup_switches_on_double_precision_and_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("SOLVABLE_CACHE", str(tmp_path))
    jax.config.update("jax_enable_x64", False)
    solvable.setup()
    assert jnp.asarray(1.0).dtype == jnp.float64
    assert jax.config.jax_compilation_cache_dir == str(computing.cache_folder())
    assert tmp_path in computing.cache_folder().parents


def test_setup_without_the_cache_leaves_jax_as_it_is(monkeypatch, tmp_path):
    monkeypatch.setenv("SOLVABLE_CACHE", str(tmp_path))
    before = jax.config.jax_compilation_cache_dir
    solvable.setup(cache=False)
    assert jax.config.jax_compilation_cache_dir == before
    assert list(tmp_path.iterdir()) == []


def test_the_cache_may_lie_elsewhere(tmp_path):
    assert solvable.compile_cache(tmp_path / "mine") == ""
    assert jax.config.jax_compilation_cache_dir == str(computing.cache_folder(tmp_path / "mine"))


def test_a_cache_that_cannot_be_written_says_why(tmp_path):
    (tmp_path / "file").touch()
    before = jax.config.jax_compilation_cache_dir
    assert "cannot be written" in solvable.compile_cache(tmp_path / "file")
    assert jax.config.jax_compilation_cache_dir == before
