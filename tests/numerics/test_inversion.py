"""Integrals that are tabulated and inverted, against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solvable.numerics.inversion import Inverse
from solvable.numerics.quadrature import average_matrix, chebyshev_value, gauss_legendre


@pytest.mark.parametrize("degree", [0, 1, 7, 15])
def test_the_mean_from_zero_is_exact_for_polynomials(degree):
    x, _ = gauss_legendre(16)
    series = average_matrix(16) @ (x**degree)[:, None]
    places = np.concatenate([[0.0], np.geomspace(1e-12, 1.0, 9)])
    found = chebyshev_value(series, np.zeros(len(places), int), places)
    # Relative to the largest value of the series: the matrix has some 1e-15 of round-off.
    np.testing.assert_allclose(found, places**degree / (degree + 1), atol=1e-14)


def test_an_exponential_and_its_inverse():
    table = Inverse(np.exp, np.linspace(0.0, 5.0, 11))
    t = np.geomspace(1e-12, 100.0, 30).reshape(5, 6)
    np.testing.assert_allclose(table(t), np.log1p(t), rtol=1e-14)
    np.testing.assert_allclose(table.at(table(t)), t, rtol=2e-15)
    np.testing.assert_allclose(table.at(np.linspace(0.0, 5.0, 7)), np.expm1(np.linspace(0, 5, 7)))


def test_beyond_the_last_edge_there_is_nothing():
    table = Inverse(lambda x: 2.0 * x, np.linspace(0.0, 3.0, 4))
    np.testing.assert_allclose(table(np.asarray([0.0, 9.0, 1e9])), [0.0, 3.0, 3.0], atol=1e-15)
    np.testing.assert_allclose(table.at(np.asarray([-1.0, 4.0])), [0.0, 9.0], atol=1e-14)


def test_cells_without_a_time_end_the_table():
    """From x = 2 on the speed has underflowed: the flow has arrived."""
    table = Inverse(lambda x: 1.0 / np.where(x < 2.0, 1.0, 0.0), np.linspace(0.0, 3.0, 7))
    assert table.edges[-1] == 2.0
    assert table(np.asarray(1e9)) == pytest.approx(2.0, rel=1e-15)


def test_the_error_falls_with_the_order():
    """1/(1+x²) has a pole at i: 16 nodes a cell leave 1e-8 of what 8 leave."""
    edges, x = np.linspace(0.0, 4.0, 5), np.linspace(0.1, 3.9, 17)
    errors = [
        np.max(np.abs(Inverse(lambda x: 1.0 / (1.0 + x**2), edges, order).at(x) - np.arctan(x)))
        for order in (8, 16)
    ]
    assert 1e-9 < errors[0] < 1e-5
    assert errors[1] < 1e-5 * errors[0]


def logarithm(rate, t):
    """The x with ``∫_0^x rate e^(rate x) = t``: log(1 + t)/rate."""
    return Inverse(lambda x: rate * jnp.exp(rate * x), jnp.linspace(0.0, 8.0, 17))(t)


def test_slopes_in_what_the_pace_depends_on():
    t, rate = jnp.asarray([0.01, 0.5, 20.0]), jnp.asarray(0.7)
    found = jax.jit(logarithm)(rate, t)
    np.testing.assert_allclose(found, jnp.log1p(t) / rate, rtol=1e-13)
    for jacobian in (jax.jacfwd, jax.jacrev):
        by_rate, by_t = jacobian(logarithm, argnums=(0, 1))(rate, t)
        np.testing.assert_allclose(by_rate, -jnp.log1p(t) / rate**2, rtol=1e-12)
        np.testing.assert_allclose(by_t, jnp.diag(1.0 / (rate * (1.0 + t))), rtol=1e-12)


def test_many_tables_at_once():
    rates = jnp.asarray([0.5, 1.0, 2.0])
    found = jax.vmap(lambda rate: logarithm(rate, jnp.asarray([1.0, 3.0])))(rates)
    expected = np.log1p([[1.0, 3.0]]) / np.asarray(rates)[:, None]
    np.testing.assert_allclose(found, expected, rtol=1e-13)
