"""Compilers that are known to return wrong numbers are refused, and this one does not."""

import subprocess
import sys
from importlib import metadata

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solvable._guard import BROKEN_JAXLIB, refuse_broken_jaxlib


@pytest.mark.parametrize("version", sorted(BROKEN_JAXLIB))
def test_broken_jaxlib_is_refused_in_one_sentence(version):
    with pytest.raises(ImportError) as error:
        refuse_broken_jaxlib(version)
    message = str(error.value)
    assert "\n" not in message
    assert version in message
    assert "jax-ml/jax#39103" in message
    assert "pip install" in message


def test_known_broken_version_is_listed():
    with pytest.raises(ImportError):
        refuse_broken_jaxlib("0.10.2")


def test_installed_and_neighbouring_versions_pass():
    for version in (metadata.version("jaxlib"), "0.10.1", "0.10.3", "0.10.20"):
        refuse_broken_jaxlib(version)


def test_import_under_a_broken_jaxlib_is_refused():
    program = """
from importlib import metadata
true = metadata.version
metadata.version = lambda name: "0.10.2" if name == "jaxlib" else true(name)
try:
    import solvable
except ImportError as error:
    print(error)
else:
    print("imported")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.startswith("jaxlib 0.10.2 silently returns wrong sums")
    assert done.stdout.count("\n") == 1


def test_compiled_sums_of_expm1_are_right():
    """All zero under jaxlib 0.10.2 on a CPU."""
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
