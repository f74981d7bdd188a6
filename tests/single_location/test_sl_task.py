"""The token law, the five scalars of starts, and the predictors on tokens."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import ks_2samp

from solvable import single_location as sl
from solvable.single_location import model, state

pytestmark = pytest.mark.slow

NAMES = ("kappa", "nu", "theta", "eta", "rho")
TASK = sl.Task(dim=40, length=6, noise=0.2)
FIELDS = ("x", "y", "location")
COUNT = 20_000  # of every sample: each shape is compiled


@pytest.fixture(scope="module")
def tokens():
    return sl.sample(TASK, COUNT, seed=3)


def test_tokens_follow_the_law(tokens):
    data = tokens
    place = np.asarray(data.location)
    told = np.asarray(data.x)[np.arange(len(place)), place]
    assert np.mean(told[:, 0]) == pytest.approx(math.sqrt(20), abs=0.02)
    assert np.mean(told[:, 1:]) == pytest.approx(0.0, abs=0.01)
    assert np.std(told[:, 5]) == pytest.approx(math.sqrt(0.5), rel=0.02)
    others = np.delete(np.asarray(data.x)[:500], 0, axis=1)[place[:500] == 0]
    assert np.std(others) == pytest.approx(1.0, rel=0.02)
    assert np.std(np.asarray(data.y) - told[:, 1]) == pytest.approx(0.2, rel=0.03)
    np.testing.assert_allclose(np.bincount(place) / len(place), 1 / 6, atol=0.01)
    # Neither kind of token is longer than the other.
    assert np.mean(np.sum(told**2, axis=1)) == pytest.approx(40.0, rel=0.01)


@pytest.mark.parametrize(
    ("location", "chances"), [(2, [0, 0, 1, 0]), ([0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4])]
)
def test_any_law_of_the_location(location, chances):
    data = sl.sample(sl.Task(6, 4, location=location), COUNT)
    seen = np.bincount(np.asarray(data.location), minlength=4) / COUNT
    np.testing.assert_allclose(seen, chances, atol=0.012)


@pytest.mark.parametrize("dim", [6, 40])
@pytest.mark.parametrize("kind", ["sphere", "manifold"])
def test_five_scalars_are_drawn_as_those_of_vectors(dim, kind):
    task = sl.Task(dim, 3)
    few = getattr(sl, kind)(task, runs=COUNT, seed=1)
    draw = state.uniform_vectors if kind == "sphere" else state.manifold_vectors
    full = state.scalars(*draw(task, COUNT, seed=2))
    tested = NAMES if kind == "sphere" else ("kappa", "nu")
    for name in tested:
        assert ks_2samp(getattr(few, name), getattr(full, name)).pvalue > 1e-3, name
    if kind == "manifold":
        assert np.max(full.distance) < 1e-15
        assert np.max(few.distance) == 0.0
    else:  # ρ depends on the others
        both = [
            np.corrcoef(np.asarray(x.rho), np.asarray(x.kappa) * np.asarray(x.theta))[0, 1]
            for x in (few, full)
        ]
        assert both[0] == pytest.approx(both[1], abs=0.03)


def test_vectors_have_their_scalars():
    start = sl.sphere(TASK, runs=50, seed=4)
    k, v = state.vectors(TASK, start)
    assert k.shape == v.shape == (50, 40)
    np.testing.assert_allclose(np.linalg.norm(k, axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(v, axis=1), 1.0, rtol=1e-14)
    back = state.scalars(k, v)
    for name in NAMES:
        np.testing.assert_allclose(getattr(back, name), getattr(start, name), atol=1e-14)


@jax.jit
def predictions(k, v, x, lam):
    return jax.vmap(lambda t: model.ErfAttention(k, v)(t, lam))(x)


@pytest.mark.parametrize("lam", [0.3, 1.5])
def test_the_risk_is_that_on_tokens(lam, tokens):
    x = sl.State(kappa=0.5, nu=0.6, theta=-0.2, eta=0.3, rho=0.1)
    k, v = state.vectors(TASK, x)
    parts = [tokens, *(sl.sample(TASK, COUNT, seed=seed) for seed in range(5, 9))]
    y = np.concatenate([np.asarray(part.y) for part in parts])
    guess = np.concatenate([np.asarray(predictions(k, v, part.x, lam)) for part in parts])
    square = (guess - y) ** 2
    error = square.std() / math.sqrt(len(square))
    assert abs(square.mean() - float(sl.risk(TASK, x, lam))) < 4 * error


def test_linear_predictors_are_no_better_than_theory_says():
    """On tokens: least squares over all entries reaches the risk of the best linear predictor."""
    task = sl.Task(6, 5)
    first, *tests = (sl.sample(task, COUNT, seed=seed) for seed in range(1, 5))
    second = tests.pop()
    both = (jnp.asarray(np.concatenate([getattr(first, f), getattr(second, f)])) for f in FIELDS)
    fitted = np.asarray(sl.least_squares(sl.Tokens(*both)))
    errors = [
        np.mean((np.einsum("nld,ld->n", np.asarray(t.x), fitted) - np.asarray(t.y)) ** 2)
        for t in tests
    ]
    error = np.mean(errors)
    assert error == pytest.approx(0.5 * 4 / (4 + 0.5), rel=0.03)
    weight = fitted[:, 1]
    np.testing.assert_allclose(weight, 0.2 * 0.5 / (0.2 * 0.5 + 0.8), atol=0.02)


def test_softmax_attention_is_bayes_at_unit_gamma():
    task = sl.Task(40, 6, gamma=1.0)
    x = sl.sample(task, COUNT).x
    one = sl.oracle(task)
    attention = sl.SoftmaxAttention(one.k, one.v)

    @jax.jit
    def both(x):
        seen = jax.vmap(lambda x: attention(x, jnp.asarray(task.signal)))(x)
        return seen, jax.vmap(lambda x: sl.bayes(task, x))(x)

    seen, best = both(x)
    np.testing.assert_allclose(seen, best, rtol=1e-10, atol=1e-10)


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
        (lambda: sl.zeta([0.1, 0.2], [0.1, 0.2, 0.3]), "t and s must have one shape"),
        (lambda: sl.Task(10, 3, location=None), "location must be"),
        (lambda: sl.Task(10, 3, location=[[0.5], [0.2, 0.3]]), "location must be"),
        (lambda: sl.Task(10, 3, location=[0.5, math.nan, 0.5]), "location must lie in"),
        (lambda: sl.Task(10**30, 3), "dim must be"),
        (lambda: sl.sphere(TASK, runs=10**15), "runs must be smaller than"),
        (lambda: sl.sample(TASK, 10**30), "data must be smaller than"),
        (lambda: sl.sample(TASK, 2, seed=2**63), "seed must be"),
        (lambda: sl.oracle(3), "task must be"),
        (lambda: sl.bayes(TASK, jnp.ones((2, 40))), "x must be"),
        (lambda: sl.bayes_risk(TASK, draws=10**15), "draws must be smaller than"),
        (lambda: sl.least_squares(3), "tokens must be"),
        (lambda: sl.least_squares(sl.Tokens(*jnp.ones((3, 2)))), "tokens must have"),
        (
            lambda: sl.least_squares(sl.Tokens(jnp.full((2, 2, 2), jnp.nan), *jnp.ones((2, 2)))),
            "finite",
        ),
        (lambda: sl.train_transformer(TASK, hidden=10**15), "hidden must be smaller than"),
        (lambda: sl.train_transformer(TASK, batch=10**15), "batch must be smaller than"),
        (lambda: sl.train_transformer(TASK, seed=2**63), "seed must be"),
        (lambda: sl.train_transformer(TASK, lr=math.nan), "lr must lie in"),
        (
            lambda: sl.train_brute(
                sl.Task(10**9, 3), sl.sphere(TASK, 10**5), lam=1.0, lr=1.0, steps=1
            ),
            "dim must be smaller than",
        ),
        (lambda: sl.excess_risk(TASK, sl.State(0.1, 0.1), lam=-1.0), "lam must lie in"),
    ],
)
def test_bad_input_is_one_sentence(call, words):
    with pytest.raises(ValueError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


SINGLE = {
    "Task": lambda: sl.Task(8, 3),
    "State": lambda: sl.State(0.1, 0.2),
    "decay": lambda: sl.decay(1.0, 0.1),
    "zeta": lambda: sl.zeta(0.1, 0.2),
    "conserved": lambda: sl.conserved(PLACE),
    "least_squares": lambda: sl.least_squares(DATA),
    "optimal_path": lambda: sl.optimal_path([10], 0.5),
    "linear_excess": lambda: sl.linear_excess(TASK),
    "zero_risk": lambda: sl.zero_risk(TASK),
    "best_lam": lambda: sl.best_lam(TASK),
    "sphere": lambda: sl.sphere(TASK),
    "sample": lambda: sl.sample(TASK, 2),
    "oracle": lambda: sl.oracle(TASK),
    "bayes": lambda: sl.bayes(TASK, jnp.ones((6, 40))),
    "excess_risk": lambda: sl.excess_risk(TASK, PLACE, 0.1),
    "train": lambda: sl.train(TASK, PLACE, lam=lambda step: 0.1, lr=0.1, steps=1),
    "train_brute": lambda: sl.train_brute(TASK, PLACE, lam=0.1, lr=0.1, steps=1, batch=2),
    "train_transformer": lambda: sl.train_transformer(TASK, steps=1),
}
PLACE = sl.State(0.1, 0.2)
DATA = sl.Tokens(jnp.ones((2, 2, 2)), jnp.ones(2), jnp.zeros(2, int))


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("name", SINGLE)
def test_single_precision_is_refused(name):
    with (
        jax.enable_x64(False),
        pytest.raises(ValueError, match=r"needs double precision: call solvable.setup\(\) first"),
    ):
        SINGLE[name]()
