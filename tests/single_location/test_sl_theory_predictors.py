"""The oracle, its best λ, linear predictors and Bayes."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

from solvable import single_location as sl
from solvable.single_location.task import Law
from solvable.single_location.theory import _predictors

TASK = sl.Task(dim=400, length=10)


@jax.jit
def slope_of_the_log(gamma, signal, length, z):
    law = Law(signal, length, gamma, jnp.asarray(0.0))
    return jax.grad(lambda z: jnp.log(_predictors._oracle_excess(law, jnp.exp(z))))(z)


@pytest.mark.parametrize(
    ("lam", "value"),
    [(0.1, 0.11349808296474662), (0.9, 3.819360001784455), (1 / 13, 0.07501177652450952)],
)
def test_oracle_has_the_known_excess(lam, value):
    assert sl.oracle_excess(TASK, lam).item() == pytest.approx(value, rel=1e-12)


def test_oracle_is_the_risk_at_both_corners():
    lam = np.geomspace(1e-3, 100.0, 16)
    corner = sl.State(np.ones(16), np.ones(16))
    for x in (corner, sl.State(-np.ones(16), -np.ones(16))):
        np.testing.assert_allclose(
            sl.oracle_excess(TASK, lam), sl.excess_risk(TASK, x, lam), rtol=0.0, atol=1e-12
        )


def test_one_token_leaves_no_floor():
    """With L = 1 the excess is exponentially small, far below what 1 − 2 erf + ζ could show."""
    task = sl.Task(dim=400, length=1)
    best = sl.best_lam(task)
    # λ → ∞: 4γ² P(D + γG < 0).
    limit = 2.0 * math.erfc(math.sqrt(200.0)) * float(task.gamma) ** 2
    assert 0.0 < best.excess < limit
    assert sl.oracle_excess(task, 1000.0).item() == pytest.approx(limit, rel=0.03)


@pytest.mark.parametrize(
    ("dim", "lam", "excess"),
    [
        (80, 0.0925, 0.1818),
        (400, 0.0638, 0.0671),
        (4000, 0.0288, 0.0119),
        (40_000, 0.0114, 0.0017),
        (400_000, 0.0043, 0.00023),
    ],
)
def test_best_lam_has_the_known_values(dim, lam, excess):
    best = sl.best_lam(sl.Task(dim=dim, length=10))
    assert best.lam == pytest.approx(lam, abs=5.1e-5)
    assert best.excess == pytest.approx(excess, abs=5.1e-5 if dim < 4e5 else 5.1e-6)


@pytest.mark.parametrize("length", [1, 2, 30])
@pytest.mark.parametrize("dim", [4, 60])
@pytest.mark.parametrize("gamma", [0.1, 1.0, 20.0])
def test_best_lam_is_the_minimum(dim, length, gamma):
    task = sl.Task(dim=dim, length=length, gamma=gamma)
    best = sl.best_lam(task)
    grid = np.geomspace(1e-7, 1000.0, 4001)
    assert np.all(np.asarray(sl.oracle_excess(task, grid)) >= best.excess * (1.0 - 1e-12))
    if best.lam < 1000.0 and best.excess > 0.0:
        law = (gamma, task.signal, float(length))
        assert abs(slope_of_the_log(*law, math.log(best.lam)).item()) < 1e-9


def test_the_oracle_becomes_optimal_exactly_where_length_is_small_against_dim():
    dims = [10**3, 10**5, 10**7, 10**9]
    for exponent in (0.0, 0.5, 0.9):
        assert np.all(np.diff(sl.optimal_path(dims, exponent).excess) < 0.0)
    for exponent in (0.0, 0.5):
        path = sl.optimal_path(dims, exponent)
        share = path.length / path.dim
        law = 4.0 / math.pi * (path.length - 1) / path.dim * np.log(1.0 / share)
        # Like log log / log: slow, but the way is right.
        assert np.all(np.diff(path.excess / law) > 0.0)
        assert 0.7 < path.excess[-1] / law[-1] < 1.0
    assert sl.optimal_path(dims, 0.5).excess[-1] < 1e-3
    level = sl.optimal_path(dims, 1.0)
    assert np.all(level.excess > 0.3)
    np.testing.assert_allclose(level.excess[1:], level.excess[-1], rtol=1e-3)


def test_linear_predictors_fail_however_large_the_dimension():
    assert sl.linear_excess(TASK).item() == pytest.approx(0.5 * 9 / 9.5, rel=1e-14)
    assert sl.linear_excess(sl.Task(dim=10**9, length=10)) == sl.linear_excess(TASK)
    long = sl.Task(dim=400, length=10**6)
    gap = sl.zero_excess(long).item() - sl.linear_excess(long).item()
    assert gap == pytest.approx(0.25 / (10**6 - 0.5), rel=1e-8)
    noisy = sl.Task(dim=400, length=10, noise=0.1)
    assert sl.linear_risk(noisy).item() == pytest.approx(0.5 * 9 / 9.5 + 0.01, rel=1e-14)
    assert sl.zero_risk(noisy).item() == pytest.approx(0.51, rel=1e-14)
    assert sl.oracle_risk(noisy, 0.1).item() == pytest.approx(0.12349808296474662, rel=1e-12)


def test_linear_excess_is_that_of_least_squares_for_any_location_law():
    task = sl.Task(dim=6, length=4, gamma=0.8, location=[0.7, 0.3, 0.0, 0.0])
    tokens = sl.sample(task, 20_000, seed=1)
    beta = sl.least_squares(tokens)
    p, g2 = np.array([0.7, 0.3, 0.0, 0.0]), 0.64
    weights = p * g2 / (p * g2 + 1.0 - p)
    assert np.abs(np.asarray(beta)[:, 1] - weights).max() < 0.03
    fresh = sl.sample(task, 20_000, seed=2)
    guess = np.einsum("nld,ld->n", np.asarray(fresh.x), np.asarray(beta))
    squares = (guess - np.asarray(fresh.y)) ** 2
    error = squares.std() / math.sqrt(len(squares))
    assert abs(squares.mean() - sl.linear_excess(task).item()) < 4.0 * error


def test_a_known_location_needs_no_attention():
    task = sl.Task(dim=20, length=5, location=2)
    assert sl.linear_excess(task).item() == 0.0
    assert sl.bayes_risk(task, draws=100).excess == 0.0


def test_uniform_location_is_that_of_equal_probabilities():
    given = sl.Task(dim=8, length=4, location=[0.25] * 4)
    assert sl.linear_excess(given).item() == pytest.approx(
        sl.linear_excess(sl.Task(dim=8, length=4)).item(), rel=1e-15
    )


@pytest.mark.parametrize(
    ("gamma2", "dim", "excess", "digits"),
    [(0.5, 4, 0.328, 1e-3), (0.5, 8, 0.163, 1e-3), (0.5, 16, 0.029, 5e-4), (1.0, 8, 0.447, 1e-3)],
)
def test_bayes_has_the_known_excess(gamma2, dim, excess, digits):
    found = sl.bayes_risk(sl.Task(dim=dim, length=10, gamma=math.sqrt(gamma2)))
    assert abs(found.excess - excess) < 4.0 * found.error + digits


@pytest.mark.parametrize("dim", [4, 80, 1200])
def test_bayes_of_two_tokens_is_an_integral(dim):
    """At γ = 1 the log odds are N(D², 2D²): 2 E π(1 − π), here as far down as 1e-134."""
    half = dim / 2

    def integrand(x):  # N(D², 2D²) at x, times 1/(4 cosh²(x/2)), without their common e^{−D²/4}
        return math.exp(-(x**2) / (4 * half)) / (2 * math.cosh(x / 2))

    value = quad(integrand, -60, 60, epsabs=0, epsrel=1e-12, limit=200)[0]
    true = 2 * math.exp(-half / 4) * value / (2 * math.sqrt(4 * math.pi * half))
    found = sl.bayes_risk(sl.Task(dim=dim, length=2, gamma=1.0), draws=2**15)
    assert abs(found.excess - true) < 4.0 * found.error
    assert found.error < 0.05 * true


@pytest.mark.parametrize("location", ["uniform", [0.6, 0.3, 0.1, 0.0]])
def test_bayes_risk_is_that_of_its_predictor_on_tokens(location):
    task = sl.Task(dim=6, length=4, noise=0.3, location=location)
    tokens = sl.sample(task, 20_000, seed=3)
    guess = jax.jit(jax.vmap(lambda x: sl.bayes(task, x)))(tokens.x)
    squares = (np.asarray(guess) - np.asarray(tokens.y)) ** 2
    error = squares.std() / math.sqrt(len(squares))
    found = sl.bayes_risk(task)
    assert abs(found.risk - squares.mean()) < 4.0 * math.hypot(error, found.error)
    assert found.risk == found.excess + 0.3**2


def test_the_error_of_bayes_is_honest():
    task = sl.Task(dim=16, length=6)
    best = sl.bayes_risk(task, draws=2**18, seed=99)
    runs = [sl.bayes_risk(task, draws=2000, seed=s) for s in range(100)]
    z = np.array([(r.excess - best.excess) / math.hypot(r.error, best.error) for r in runs])
    # A hundred z: their standard deviation is 1 within 0.07, their mean 0 within 0.1.
    assert 0.75 < z.std() < 1.3
    assert abs(z.mean()) < 0.4


def test_no_predictor_beats_bayes():
    for dim in (8, 80):
        task = sl.Task(dim=dim, length=10)
        bayes = sl.bayes_risk(task, draws=2**14)
        assert bayes.excess < sl.best_lam(task).excess < sl.linear_excess(task).item()
