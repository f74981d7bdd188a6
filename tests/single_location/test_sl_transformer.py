"""The whole transformer on tokens: what its shortcut leaves out changes nothing, and it learns."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax

import solvable.single_location as sl
from solvable.single_location.transformer import SinglePass

pytestmark = pytest.mark.slow

TASK = sl.Task(dim=12, length=4)


@functools.cache
def fresh() -> sl.Transformer:
    return jax.jit(lambda key: sl.Transformer.draw(TASK, key, width=8, hidden=16))(
        jax.random.key(0)
    )


@functools.cache
def data() -> sl.Tokens:
    return sl.sample(TASK, 10)


@pytest.fixture(scope="module")
def model() -> sl.Transformer:
    """With a query, as after some training."""
    query = 0.3 * np.random.default_rng(1).standard_normal((12, 8))
    return sl.Transformer(**{**vars(fresh()), "query": jnp.asarray(query)})


def test_the_row_of_cls_is_that_of_the_full_attention(model):
    """All queries, keys and values of [CLS] and the tokens, then the row of [CLS]."""
    x = data().x
    predict = jax.jit(lambda model, x: (model(x), jax.vmap(model)(x)))
    at_once, one_by_one = predict(model, x)
    w = jax.tree.map(np.asarray, vars(model))
    for tokens, guess in zip(np.asarray(x), np.asarray(at_once), strict=True):
        every = np.concatenate([w["cls_vector"][None], tokens])
        scores = (every @ w["query"]) @ (tokens @ w["key"]).T / np.sqrt(8)
        z = (softmax(scores, axis=1) @ (tokens @ w["value"]))[0]
        hidden = np.maximum(z @ w["inner"][0] + w["inner"][1], 0.0)
        full = (z + hidden @ w["outer"][0] + w["outer"][1]) @ w["readout"]
        # Sums in another order: round-off.
        np.testing.assert_allclose(guess, full, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(at_once, one_by_one, rtol=1e-12, atol=1e-14)


def test_the_first_attention_is_even():
    """As Q is 0."""
    weights = jax.jit(lambda model, x: model.attention(x))(fresh(), data().x)
    np.testing.assert_allclose(weights, np.full((10, 4), 0.25), rtol=1e-15)


def test_the_start_has_the_published_variances():
    task = sl.Task(dim=200, length=2)
    draw = jax.jit(lambda key: sl.Transformer.draw(task, key, width=150, hidden=250))
    start = draw(jax.random.key(0))
    for matrix in (start.key, start.value, start.inner[0], start.outer[0]):
        expected = 2.0 / sum(matrix.shape)
        # The relative error of a variance from n draws is √(2/n) < 0.01; five of them.
        assert np.var(matrix) == pytest.approx(expected, rel=0.05)
    assert np.var(start.readout) == pytest.approx(1.0 / 200**2, rel=0.6)
    assert not np.any(start.query)


def test_gradients_reach_every_weight_but_the_fixed_query_vector(model):
    problem = SinglePass(TASK, 10, jax.random.key_data(jax.random.key(2)), data())
    gradient = jax.jit(lambda model, step: problem.gradient(model, step))
    slope = gradient(model, 0)
    assert not np.any(slope.cls_vector)
    for name, leaf in vars(slope).items():
        if name != "cls_vector":
            assert all(np.any(part) for part in jax.tree.leaves(leaf)), name
    again = gradient(model, 1)
    assert np.any(np.asarray(again.value) != np.asarray(slope.value))  # every step has new tokens


def test_training_finds_the_informative_token():
    task = sl.Task(dim=32, length=4, noise=0.1)
    how = {"hidden": 32, "lr": 0.02, "batch": 32}
    run = sl.train_transformer(task, steps=800, seed=[0, 1], log_every=400, **how)
    assert run.loss.shape == run.attention.shape == (2, 3)
    assert run.status == "ok"
    loss, attention = np.asarray(run.loss), np.asarray(run.attention)
    np.testing.assert_allclose(attention[:, 0], 0.25, rtol=1e-12)
    assert np.all(loss[:, -1] < 0.25 * sl.linear_excess(task).item())
    assert np.all(attention[:, -1] > 0.8)
    # A run does not depend on the one at its side.
    other = sl.train_transformer(task, steps=400, seed=[1, 2], log_every=400, **how)
    np.testing.assert_allclose(np.asarray(other.loss)[0], loss[1, :2], rtol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"hidden": 0}, "hidden"),
        ({"width": 0}, "width"),
        ({"batch": 0}, "batch"),
        ({"lr": -1.0}, "lr"),
        ({"seed": []}, "seed"),
    ],
)
def test_bad_input_is_refused_by_name(wrong, words):
    with pytest.raises(ValueError, match=words):
        sl.train_transformer(TASK, steps=1, **wrong)
