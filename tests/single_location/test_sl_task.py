"""The token law, the five scalars of starts, and the predictors on tokens."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import ks_2samp

from solvable import single_location as sl
from solvable.single_location import model, state

NAMES = ("kappa", "nu", "theta", "eta", "rho")
TASK = sl.Task(dim=40, length=6, noise=0.2)


def test_tokens_follow_the_law():
    data = sl.sample(TASK, 20_000, seed=3)
    place = np.asarray(data.location)
    told = np.asarray(data.x)[np.arange(len(place)), place]
    assert np.mean(told[:, 0]) == pytest.approx(math.sqrt(20), abs=0.02)
    assert np.mean(told[:, 1:]) == pytest.approx(0.0, abs=0.01)
    assert np.std(told[:, 5]) == pytest.approx(math.sqrt(0.5), rel=0.02)
    others = np.delete(np.asarray(data.x[:500]), 0, axis=1)[place[:500] == 0]
    assert np.std(others) == pytest.approx(1.0, rel=0.02)
    assert np.std(data.y - told[:, 1]) == pytest.approx(0.2, rel=0.03)
    np.testing.assert_allclose(np.bincount(place) / len(place), 1 / 6, atol=0.01)
    # Neither kind of token is longer than the other.
    assert np.mean(np.sum(told**2, axis=1)) == pytest.approx(40.0, rel=0.01)


@pytest.mark.parametrize(
    ("location", "chances"), [(2, [0, 0, 1, 0]), ([0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4])]
)
def test_any_law_of_the_location(location, chances):
    data = sl.sample(sl.Task(6, 4, location=location), 20_000)
    seen = np.bincount(np.asarray(data.location), minlength=4) / 20_000
    np.testing.assert_allclose(seen, chances, atol=0.012)


@pytest.mark.parametrize("dim", [6, 40])
@pytest.mark.parametrize("kind", ["sphere", "manifold"])
def test_five_scalars_are_drawn_as_those_of_vectors(dim, kind):
    task = sl.Task(dim, 3)
    few = getattr(sl, kind)(task, runs=20_000, seed=1)
    draw = state.uniform_vectors if kind == "sphere" else state.manifold_vectors
    full = state.scalars(*draw(task, 20_000, seed=2))
    tested = NAMES if kind == "sphere" else ("kappa", "nu")
    for name in tested:
        assert ks_2samp(getattr(few, name), getattr(full, name)).pvalue > 1e-3, name
    if kind == "manifold":
        assert float(jnp.max(full.distance)) < 1e-15
        assert float(jnp.max(few.distance)) == 0.0
    else:  # ρ depends on the others
        both = [
            np.corrcoef(np.asarray(x.rho), np.asarray(x.kappa * x.theta))[0, 1] for x in (few, full)
        ]
        assert both[0] == pytest.approx(both[1], abs=0.03)


def test_vectors_have_their_scalars():
    start = sl.sphere(TASK, runs=50, seed=4)
    k, v = state.vectors(TASK, start)
    assert k.shape == v.shape == (50, 40)
    np.testing.assert_allclose(jnp.linalg.norm(k, axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(jnp.linalg.norm(v, axis=1), 1.0, rtol=1e-14)
    back = state.scalars(k, v)
    for name in NAMES:
        np.testing.assert_allclose(getattr(back, name), getattr(start, name), atol=1e-14)


@pytest.mark.parametrize("lam", [0.3, 1.5])
def test_the_risk_is_that_on_tokens(lam):
    x = sl.State(kappa=0.5, nu=0.6, theta=-0.2, eta=0.3, rho=0.1)
    k, v = state.vectors(TASK, x)
    data = sl.sample(TASK, 100_000, seed=5)
    predictor = model.ErfAttention(k, v)
    square = (jax.vmap(lambda t: predictor(t, jnp.asarray(lam)))(data.x) - data.y) ** 2
    error = float(jnp.std(square)) / math.sqrt(len(square))
    assert abs(float(jnp.mean(square)) - float(sl.risk(TASK, x, lam))) < 4 * error


def test_linear_predictors_are_no_better_than_theory_says():
    """On tokens: least squares over all entries reaches the risk of the best linear predictor."""
    task = sl.Task(6, 5)
    fitted = sl.least_squares(sl.sample(task, 40_000, seed=1))
    test = sl.sample(task, 40_000, seed=2)
    error = float(jnp.mean((jnp.einsum("nld,ld->n", test.x, fitted) - test.y) ** 2))
    assert error == pytest.approx(0.5 * 4 / (4 + 0.5), rel=0.03)
    weight = np.asarray(fitted)[:, 1]
    np.testing.assert_allclose(weight, 0.2 * 0.5 / (0.2 * 0.5 + 0.8), atol=0.02)


def test_softmax_attention_is_bayes_at_unit_gamma():
    task = sl.Task(20, 5, gamma=1.0)
    data = sl.sample(task, 50)
    axes = jnp.eye(2, 20)
    attention = sl.SoftmaxAttention(axes[0], axes[1])
    seen = jax.vmap(lambda x: attention(x, jnp.asarray(task.signal)))(data.x)
    np.testing.assert_allclose(seen, jax.vmap(lambda x: sl.bayes(task, x))(data.x), rtol=1e-10)


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sl.Task(3, 10), "dim must be"),
        (lambda: sl.Task(10, 0), "length must be"),
        (lambda: sl.Task(10, 3, gamma=0.0), "gamma must lie in"),
        (lambda: sl.Task(10, 3, noise=math.nan), "noise must lie in"),
        (lambda: sl.Task(10, 3, location=3), "location must be"),
        (lambda: sl.Task(10, 3, location="last"), "location must be one of"),
        (lambda: sl.Task(10, 3, location=[0.5, 0.5, 0.5]), "location must sum to 1"),
        (lambda: sl.State(1.2, 0.0), "kappa must lie in"),
        (lambda: sl.State(0.9, 0.0, eta=0.9), r"kappa² \+ eta² must be at most 1"),
        (lambda: sl.State(1.0, 1.0, rho=0.5), "rho must be that of two unit vectors"),
        (lambda: sl.State([0.1, 0.2], [0.1, 0.2, 0.3]), "must have one shape"),
        (lambda: sl.sphere(TASK, runs=0), "runs must be"),
        (lambda: sl.sample(TASK, 0), "data must be"),
        (lambda: sl.decay(0.0, 1e-4), "first must lie in"),
        (lambda: sl.decay(1.0, -1.0), "rate must lie in"),
        (lambda: sl.zeta(0.0, -1.0), "s must lie in"),
        (lambda: sl.excess_risk(TASK, sl.State(0.1, 0.1), lam=-1.0), "lam must lie in"),
    ],
)
def test_bad_input_is_one_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call()
