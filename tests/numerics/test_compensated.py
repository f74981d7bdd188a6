"""Sums and products that keep their rounding error, against rational arithmetic."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvable.numerics.compensated import combine, two_product, two_sum

EPS = np.finfo(float).eps
COUNT = 512
SUM, PRODUCT, COMBINE = jax.jit(two_sum), jax.jit(two_product), jax.jit(combine)


def numbers(seed, spread=12.0):
    """Numbers of either sign over many decades, some of them zero."""
    rng = np.random.default_rng(seed)
    values = rng.choice([-1.0, 1.0], COUNT) * 10.0 ** rng.uniform(-spread, spread, COUNT)
    return np.where(rng.uniform(size=COUNT) < 0.05, 0.0, values)


def exactly(values):
    return [Fraction(x) for x in np.asarray(values).tolist()]


@pytest.mark.parametrize("spread", [1.0, 12.0])
def test_sum_and_its_error_are_the_exact_sum(spread):
    a, b = numbers(0, spread), numbers(1, spread)
    s, e = SUM(a, b)
    np.testing.assert_array_equal(s, a + b)
    for terms in zip(*(exactly(x) for x in (a, b, s, e)), strict=True):
        assert terms[0] + terms[1] == terms[2] + terms[3]


@pytest.mark.parametrize("spread", [1.0, 12.0])
def test_product_and_its_error_are_the_exact_product(spread):
    a, b = numbers(2, spread), numbers(3, spread)
    p, e = PRODUCT(a, b)
    np.testing.assert_array_equal(p, a * b)
    for terms in zip(*(exactly(x) for x in (a, b, p, e)), strict=True):
        assert terms[0] * terms[1] == terms[2] + terms[3]


def relative_errors(terms):
    """Error of (a + b) + x (c + d), and the largest term, both relative to the exact value."""
    found = COMBINE(*terms)
    for a, b, x, c, d, value in zip(*(exactly(t) for t in (*terms, found)), strict=True):
        true = (a + b) + x * (c + d)
        largest = max(abs(a), abs(b), abs(x * c), abs(x * d))
        yield true, abs(value - true), largest


@given(st.integers(0, 2**32 - 1))
def test_combination_is_rounded_once_unless_it_cancels_below_rounding(seed):
    terms = [numbers(seed + k, 3.0) for k in range(5)]
    for true, error, largest in relative_errors(terms):
        # One ulp, and rounding of the errors' own sum: eps² of the largest term.
        assert error <= EPS * abs(true) + 8 * EPS**2 * largest


def test_combination_keeps_its_digits_when_the_terms_cancel():
    """x₁ + Λx₂ at Λ near −1 with equal entries: plain arithmetic has lost 12 digits."""
    rng = np.random.default_rng(5)
    entry, zero = rng.uniform(0.1, 1.0, COUNT), np.zeros(COUNT)
    near = -(1.0 + 10.0 ** rng.uniform(-14.0, -10.0, COUNT))
    lost = 0.0
    for (true, error, _), plain in zip(
        relative_errors([entry, zero, near, entry, zero]), entry + near * entry, strict=True
    ):
        assert error <= 2 * EPS * abs(true)
        lost = max(lost, float(abs(Fraction(plain) - true) / abs(true)))
    assert lost > 1e-4


def test_combination_has_the_plain_derivatives():
    a, b, x, c, d = (jnp.asarray(v) for v in (0.3, -0.2, 1.7, 0.4, 0.9))
    slopes = jax.grad(combine, argnums=(0, 1, 2, 3, 4))(a, b, x, c, d)
    np.testing.assert_allclose(slopes, [1.0, 1.0, 1.3, 1.7, 1.7], rtol=1e-15)
