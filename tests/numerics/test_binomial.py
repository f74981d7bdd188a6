"""Averages over a binomial count against the full sum."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from solvable.numerics.binomial import NODES, binomial_nodes

pytestmark = pytest.mark.slow

DRAWS = [1, 2, 10, 63, 64, 65, 129, 200, 1000, 20_000]
CHANCES = np.array(
    [1e-12, 1e-6, 1e-3, 0.01, 0.05, 0.2, 0.31, 0.4, 0.5, 0.55, 0.7, 0.9, 0.99, 0.999, 1 - 1e-9, 1.0]
)

nodes_of = jax.jit(partial(binomial_nodes, jnp))


@jax.jit
@jax.vmap
def slope_of(p, draws):
    """d/dp E e^(−3k/N)."""

    def average(p):
        count, weight = binomial_nodes(jnp, draws, p[None])
        return jnp.sum(weight * jnp.exp(-3.0 * count / draws))

    return jax.grad(average)(p)


def law(draws, chance):
    """All counts and their probabilities."""
    k = np.arange(draws + 1)
    return k, stats.binom.pmf(k, draws, chance)


# Functions of the share k/N, as the loss has them: smooth ones, and steep ones near k = 0.
FUNCTIONS = {
    "one": lambda x: np.ones_like(x),
    "share": lambda x: x,
    "square": lambda x: x**2,
    "slow decay": lambda x: np.exp(-3.0 * x),
    "steep decay": lambda x: np.exp(-60.0 * x),
    "logistic": lambda x: 1.0 / (1.0 + 9.0 * np.expm1(np.minimum(8.0 * x, 50.0))) ** 2,
}


@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_average_equals_the_full_sum(draws, name):
    count, weight = (np.asarray(x) for x in nodes_of(jnp.asarray(float(draws)), CHANCES))
    assert count.shape == weight.shape == (len(CHANCES), NODES)
    function = FUNCTIONS[name]
    found = np.sum(weight * function(count / draws), axis=1)
    true = [(pmf @ function(k / draws)) for k, pmf in (law(draws, p) for p in CHANCES)]
    # 1e-10: the promise of the joint loss; scipy's own probabilities are good to 1e-12.
    np.testing.assert_allclose(found, true, rtol=1e-10)


@pytest.mark.parametrize("draws", DRAWS)
def test_counts_lie_between_none_and_all_and_weights_are_not_negative(draws):
    count, weight = (np.asarray(x) for x in nodes_of(jnp.asarray(float(draws)), CHANCES))
    assert np.all(weight >= 0.0)
    assert np.all((count >= 0.0) & (count * (weight > 0.0) <= draws))


@pytest.mark.parametrize("draws", [10**6, 10**9, 10**12])
def test_moments_are_right_at_numbers_no_sum_could_reach(draws):
    """Mean Np and variance Np(1 − p)."""
    count, weight = (np.asarray(x) for x in nodes_of(jnp.asarray(float(draws)), CHANCES))
    mean = draws * CHANCES
    variance = mean * (1.0 - CHANCES)
    np.testing.assert_allclose(weight.sum(axis=1), 1.0, rtol=1e-10)
    np.testing.assert_allclose((weight * count).sum(axis=1), mean, rtol=1e-10)
    spread = (weight * (count - mean[:, None]) ** 2).sum(axis=1)
    # Counts and their mean are rounded at eps·N each.
    rounding = 2 * np.finfo(float).eps * draws
    allowed = 1e-9 * variance + 2.0 * rounding * np.sqrt(variance) + rounding**2
    assert np.all(np.abs(spread - variance) <= allowed)


def test_certain_draws_are_all_hits():
    count, weight = (np.asarray(x) for x in nodes_of(jnp.asarray(7.0), CHANCES[-1:]))
    assert count[weight > 0.0].tolist() == [7.0]
    assert weight.sum() == 1.0


@pytest.mark.parametrize("draws", [5, 40, 700, 5000])
def test_derivative_in_the_chance_is_that_of_the_sum(draws):
    """d/dp E g = Σ_k P(k) g(k) (k − Np)/(p(1 − p))."""
    chances = np.array([0.003, 0.02, 0.3, 0.6, 0.97])
    slopes = slope_of(chances, np.full(5, float(draws)))
    for p, slope in zip(chances, slopes.tolist(), strict=True):
        k, pmf = law(draws, p)
        true = np.sum(pmf * np.exp(-3.0 * k / draws) * (k - draws * p)) / (p * (1.0 - p))
        assert slope == pytest.approx(true, rel=1e-9)
