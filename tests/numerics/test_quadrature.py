"""Gauss rules and Chebyshev series are exact for polynomials of their degree."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial import chebyshev

from solvable.numerics.quadrature import (
    Antiderivative,
    antiderivative_matrix,
    chebyshev_fit,
    chebyshev_pair,
    chebyshev_value,
    gauss_legendre,
)

X = np.linspace(0.0, 1.0, 41)


@pytest.mark.parametrize("count", [1, 5, 16, 160])
def test_gauss_rule_integrates_polynomials_of_degree_below_twice_its_nodes(count):
    nodes, weights = gauss_legendre(count)
    assert np.all((nodes > 0.0) & (nodes < 1.0))
    assert np.all(weights > 0.0)
    for degree in range(2 * count):
        assert weights @ nodes**degree == pytest.approx(1.0 / (degree + 1), rel=1e-12)
    if count <= 5:  # the next degree is not exact, by (n!)⁴ / ((2n+1) (2n)!²) of it
        assert abs(weights @ nodes ** (2 * count) * (2 * count + 1) - 1.0) > 1e-6


@pytest.mark.parametrize("count", [2, 5, 16])
def test_antiderivative_is_exact_for_polynomials_of_degree_below_its_nodes(count):
    nodes, _ = gauss_legendre(count)
    matrix = antiderivative_matrix(count)
    assert matrix.shape == (count + 1, count)
    for degree in range(count):
        series = matrix @ nodes**degree
        found = chebyshev.chebval(2.0 * X - 1.0, series)
        np.testing.assert_allclose(found, X ** (degree + 1) / (degree + 1), atol=1e-14)


def test_antiderivative_of_an_analytic_function_is_accurate():
    nodes, weights = gauss_legendre(16)
    series = antiderivative_matrix(16) @ np.exp(2.0 * nodes)
    found = chebyshev.chebval(2.0 * X - 1.0, series)
    np.testing.assert_allclose(found, 0.5 * np.expm1(2.0 * X), atol=1e-14)
    assert found[-1] == pytest.approx(weights @ np.exp(2.0 * nodes), rel=1e-14)


@pytest.mark.parametrize("count", [1, 2, 7, 24])
def test_chebyshev_fit_interpolates_polynomials_exactly(count):
    points, matrix = chebyshev_fit(count)
    assert np.all((points > 0.0) & (points < 1.0))
    for degree in range(count):
        series = matrix @ points**degree
        np.testing.assert_allclose(chebyshev.chebval(2.0 * X - 1.0, series), X**degree, atol=1e-14)


def test_series_are_evaluated_row_by_row():
    rng = np.random.default_rng(0)
    series = rng.normal(size=(9, 3))
    row, x = rng.integers(0, 3, 50), rng.uniform(size=50)
    true = np.array(
        [chebyshev.chebval(2.0 * z - 1.0, series[:, r]) for r, z in zip(row, x, strict=True)]
    )
    found = jax.jit(chebyshev_value)(jnp.asarray(series), jnp.asarray(row), jnp.asarray(x))
    np.testing.assert_allclose(found, true, rtol=0.0, atol=1e-13)


def test_value_and_slope_agree_with_numpy():
    rng = np.random.default_rng(1)
    series, x = rng.normal(size=(9, 40)), rng.uniform(size=40)
    value, slope = jax.jit(chebyshev_pair)(jnp.asarray(series), jnp.asarray(x))
    for i in range(40):
        u = 2.0 * x[i] - 1.0
        assert float(value[i]) == pytest.approx(chebyshev.chebval(u, series[:, i]), abs=1e-13)
        true = 2.0 * chebyshev.chebval(u, chebyshev.chebder(series[:, i]))
        assert float(slope[i]) == pytest.approx(true, abs=1e-11)


def test_antiderivative_between_many_limits_is_that_of_the_function():
    integral = Antiderivative(lambda x: jnp.exp(-x) * jnp.cos(3.0 * x), -1.0, 4.0, cells=50)
    x = np.linspace(-1.0, 4.0, 201).reshape(3, 67)

    def true(x):
        return np.exp(-x) * (3.0 * np.sin(3.0 * x) - np.cos(3.0 * x)) / 10.0

    np.testing.assert_allclose(integral(x), true(x) - true(-1.0), rtol=0.0, atol=1e-14)
    np.testing.assert_allclose(integral(np.array([-9.0, -1.0])), 0.0, atol=1e-14)
    np.testing.assert_array_equal(integral(np.array([4.0, 1e9])), integral(np.array([4.0, 4.0])))
