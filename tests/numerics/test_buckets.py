"""Few lengths instead of many: what is padded gives what it gave, and compiles nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solvable import compiling
from solvable.numerics import buckets


@pytest.mark.parametrize("bucket", [buckets.time_bucket, buckets.run_bucket])
def test_buckets_hold_what_they_are_for_and_are_few(bucket):
    sizes = [bucket(n) for n in range(1, 1025)]
    assert all(size >= n for n, size in enumerate(sizes, 1))
    assert sizes == sorted(sizes)
    assert sizes[0] == 1  # one alone costs what one costs
    assert len(set(sizes)) <= 11


@pytest.mark.parametrize("count", [0, 1, 5, 16, 17])
def test_the_answer_is_that_of_the_times_given(count):
    t = np.linspace(0.0, 1.0, count)
    found = buckets.by_bucket(lambda t: {"a": 2.0 * t, "b": np.stack([t, -t])[0]}, t)
    np.testing.assert_array_equal(found["a"], 2.0 * t)
    across = buckets.by_bucket(lambda t: np.stack([t, -t]), t, axis=1)
    np.testing.assert_array_equal(across, np.stack([t, -t]))


def test_a_new_number_of_times_compiles_nothing():
    double = compiling.jit(lambda t: 2.0 * jnp.sin(t))
    buckets.by_bucket(double, np.linspace(0.0, 1.0, 20))
    before = compiling._state["compiled"]
    for count in (17, 21, 40, 64):
        t = np.linspace(0.0, 1.0, count)
        # A compiled sine rounds in its own way.
        np.testing.assert_allclose(
            buckets.by_bucket(double, t), 2.0 * np.sin(t), rtol=1e-15, atol=0.0
        )
    assert compiling._state["compiled"] == before


def test_traced_times_are_handed_on():
    t = jnp.linspace(0.0, 1.0, 5)
    traced = jax.jit(lambda t: buckets.by_bucket(lambda t: 3.0 * t, t))(t)
    np.testing.assert_allclose(traced, 3.0 * t)
    slope = jax.grad(lambda a: jnp.sum(buckets.by_bucket(lambda t: a * jnp.asarray(t), t)))(2.0)
    assert float(slope) == pytest.approx(float(jnp.sum(t)))
