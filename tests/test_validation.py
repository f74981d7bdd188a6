"""Checks at the edge: what passes, what is refused, and what the sentence says."""

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solvable import validation


@pytest.mark.parametrize("value", [1, 2.5, np.float32(2.0), [1, 2], (0.5,), np.arange(3), True + 1])
def test_numbers_become_double_arrays(value):
    found = validation.floating("x", value)
    assert found.dtype == jnp.float64
    np.testing.assert_array_equal(np.asarray(found), np.asarray(value, dtype=float))


def test_what_is_in_double_precision_is_left_as_it_is():
    double = jnp.ones(3)
    assert validation.floating("x", double) is double


def test_single_precision_becomes_double():
    assert validation.floating("x", jnp.ones(3, jnp.float32)).dtype == jnp.float64


def test_without_double_precision_numbers_are_refused_in_one_sentence():
    with (
        jax.enable_x64(False),
        pytest.raises(
            ValueError, match=r"^x needs double precision: call solvable.setup\(\) first$"
        ),
    ):
        validation.floating("x", 1.0)


def test_whole_jax_arrays_become_double():
    assert validation.floating("x", jnp.arange(3)).dtype == jnp.float64


@pytest.mark.parametrize(
    "value",
    ["one", None, [1.0, "two"], [[1.0], [1.0, 2.0]], 1j, True, {}, object(), jnp.array(True)],
)
def test_what_is_not_a_number_is_refused_by_name(value):
    with pytest.raises(ValueError, match=r"^x must be a number or an array of numbers, not "):
        validation.floating("x", value)


def test_tracers_pass_unseen():
    @jax.jit
    def traced(x):
        assert not validation.is_concrete(x)
        validation.within("x", validation.floating("x", x), 0.0, 1.0)
        return x

    assert float(traced(5.0)) == 5.0
    assert validation.is_concrete(5.0)
    assert validation.is_concrete(jnp.ones(2))


@pytest.mark.parametrize(
    ("value", "low", "high", "open_low", "sentence"),
    [
        (0.5, 1.0, 10.0, True, "x must lie in (1, 10], not 0.5"),
        (1.0, 1.0, 10.0, True, "x must lie in (1, 10], not 1"),
        (11.0, 1.0, 10.0, False, "x must lie in [1, 10], not 11"),
        (-1.0, 0.0, math.inf, False, "x must lie in [0, inf), not -1"),
        ([1.0, -2.0, -3.0], 0.0, math.inf, False, "x must lie in [0, inf), not -2"),
        (math.nan, -math.inf, math.inf, False, "x must lie in (-inf, inf), not nan"),
    ],
)
def test_interval_is_written_as_it_is_meant(value, low, high, open_low, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        validation.within("x", jnp.asarray(value), low, high, open_low=open_low)


@pytest.mark.parametrize("value", [1.0, 10.0, [1.0, 5.0, 10.0], np.zeros(0)])
def test_closed_ends_belong_to_the_interval(value):
    validation.within("x", jnp.asarray(value), 1.0, 10.0)


def test_shape_is_one_of_those_allowed():
    validation.shaped("x", jnp.ones(()), (), (3,))
    validation.shaped("x", jnp.ones(3), (), (3,))
    sentence = "x must be a single number or shape (3,), not an array of shape (3, 1)"
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        validation.shaped("x", jnp.ones((3, 1)), (), (3,))


@pytest.mark.parametrize("value", [3, 3.0, np.int32(3), np.float64(3.0), jnp.asarray(3)])
def test_whole_numbers_of_any_type_become_int(value):
    found = validation.whole("x", value, 1, 3)
    assert found == 3
    assert type(found) is int


@pytest.mark.parametrize(
    "value", [0, 4, 2.5, -1, math.nan, math.inf, "3", None, [3], True, np.array([1, 2]), 1j]
)
def test_other_values_are_not_whole_numbers(value):
    with pytest.raises(ValueError, match=r"^x must be a whole number, from 1 to 3, not "):
        validation.whole("x", value, 1, 3)


def test_numpy_booleans_are_not_whole_numbers():
    with pytest.raises(ValueError, match="whole number"):
        validation.whole("x", np.True_)


def test_word_is_one_of_those_allowed():
    validation.one_of("x", "a", ("a", "b"))
    with pytest.raises(ValueError, match=r"^x must be one of a, b, not 'c'$"):
        validation.one_of("x", "c", ("a", "b"))


def test_double_precision_is_on_here():
    validation.needs_double("this")


def test_what_is_traced_is_refused_where_the_host_works():
    sentence = r"^t cannot be traced by JAX \(jit, vmap, grad\): it is searched for on the host"
    for transform in (jax.jit, jax.vmap, jax.grad):
        with pytest.raises(ValueError, match=sentence):
            transform(lambda t: validation.concrete("t", {"a": [t]}, why="it is searched for"))(
                jnp.ones(3) if transform is jax.vmap else 1.0
            )
