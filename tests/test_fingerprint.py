"""What tells one training problem from another."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from solvable.fingerprint import difference, fingerprint


@dataclasses.dataclass(frozen=True)
class Law:
    context: float
    contexts: np.ndarray | None = None


def table(last):
    """A schedule that is read off, inside a compiled function of its own."""
    rates = jnp.asarray([*np.full(999, 0.1), last])
    return jax.jit(lambda step: rates[step])


def test_an_equal_problem_built_anew_has_the_same_words():
    def words():
        law = Law(9.0, np.arange(6.0))
        return fingerprint(
            kind="a",
            task=law,
            seed=jax.random.key(3),
            lam=lambda t: 1.0 / (1 + t),
            rates=table(0.2),
            optimizer=optax.sgd(table(0.2)),
        )

    assert words() == words()


@pytest.mark.parametrize("number", [9, 9.0, np.float64(9), jnp.asarray(9.0), np.array(9)])
def test_a_number_is_the_same_however_it_is_written(number):
    assert fingerprint(context=number) == {"context": "9"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.1, np.nextafter(0.1, 1.0)),
        (None, 0.0),
        (np.inf, 1e300),
        (0.0, -0.0),
        (np.arange(6.0), np.arange(6.0)[::-1]),
        (np.arange(6.0), np.arange(6.0).reshape(2, 3)),
        (np.arange(6.0), np.arange(6)),
        (np.zeros(6), -np.zeros(6)),
        ([1, 2], [1, 2, 2]),
        (jax.random.key(0), jax.random.key(1)),
        (Law(1.0), Law(2.0)),
        (lambda t: 1.0 / (1.0 + 1e-9 * t), lambda t: 1.0 + 0.0 * t),
        (lambda t: jnp.where(t < 700, 1.0, 0.5), lambda t: jnp.where(t < 700, 1.0, 0.4)),
        (lambda t: 1.0 * (t > 510) * (t < 999), lambda t: 1.0 * (t > 700) * (t < 999)),
        (table(0.1), table(0.2)),
        (optax.sgd(table(0.1)), optax.sgd(table(0.2))),
        (optax.adam(1e-3), optax.adam(2e-3)),
        (optax.adam(1e-3), optax.adam(1e-3, b1=0.8)),
        (optax.adam(1e-3), optax.adamw(1e-3)),
        (optax.sgd(1e-3), optax.sgd(1e-3, momentum=0.0)),
        (
            optax.sgd(optax.exponential_decay(0.1, 10, 0.5)),
            optax.sgd(optax.exponential_decay(0.1, 20, 0.5)),
        ),
        (
            optax.sgd(optax.piecewise_constant_schedule(0.1, {5000: 0.1})),
            optax.sgd(optax.piecewise_constant_schedule(0.1, {6000: 0.1})),
        ),
    ],
)
def test_what_differs_has_other_words(one, other):
    assert fingerprint(x=one) != fingerprint(x=other)
    assert "its x" in difference(fingerprint(x=one), fingerprint(x=other))


def test_an_optimiser_made_twice_is_one():
    assert fingerprint(x=optax.adamw(1e-3)) == fingerprint(x=optax.adamw(1e-3))


def test_digests_do_not_depend_on_how_an_array_lies_in_memory():
    array = np.arange(12.0).reshape(3, 4)
    padded = np.zeros((3, 8))
    padded[:, ::2] = array
    for other in (np.asfortranarray(array), padded[:, ::2], array.astype(">f8")):
        assert fingerprint(x=other) == fingerprint(x=array)


def test_the_first_difference_is_named_with_both_values():
    old = fingerprint(kind="a", task=Law(9.0), batch=None)
    new = fingerprint(kind="a", task=Law(20.0), batch=4)
    assert difference(old, new) == "its task.context is 9, here it is 20"
    assert difference(old, old) == ""
    assert difference({}, {"batch": "4"}) == "its batch is none, here it is 4"


def test_what_cannot_be_told_is_an_error_of_ours():
    with pytest.raises(TypeError, match="no fingerprint"):
        fingerprint(x=object())
