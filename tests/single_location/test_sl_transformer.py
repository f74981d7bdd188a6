"""The whole transformer on tokens: what its shortcut leaves out changes nothing, and it learns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import solvable.single_location as sl
from solvable.single_location.transformer import SinglePass

TASK = sl.Task(dim=12, length=4)


@pytest.fixture(scope="module")
def model() -> sl.Transformer:
    """With a query, as after some training."""
    fresh = sl.Transformer.draw(TASK, jax.random.key(0), width=8, hidden=16)
    query = 0.3 * jax.random.normal(jax.random.key(1), fresh.query.shape)
    return sl.Transformer(**{**vars(fresh), "query": query})


def test_the_row_of_cls_is_that_of_the_full_attention(model):
    """All queries, keys and values of [CLS] and the tokens, then the row of [CLS]."""
    x = sl.sample(TASK, 5).x
    for tokens in x:
        every = jnp.concatenate([model.cls_vector[None], tokens])
        scores = (every @ model.query) @ (tokens @ model.key).T / np.sqrt(8)
        z = (jax.nn.softmax(scores, axis=1) @ (tokens @ model.value))[0]
        hidden = jnp.maximum(z @ model.inner[0] + model.inner[1], 0.0)
        full = (z + hidden @ model.outer[0] + model.outer[1]) @ model.readout
        # Sums in another order: round-off.
        np.testing.assert_allclose(model(tokens), full, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(model(x), jax.vmap(model)(x), rtol=1e-12, atol=1e-14)


def test_the_first_attention_is_even():
    """As Q is 0."""
    fresh = sl.Transformer.draw(TASK, jax.random.key(0), width=8, hidden=16)
    weights = fresh.attention(sl.sample(TASK, 3).x)
    np.testing.assert_allclose(weights, np.full((3, 4), 0.25), rtol=1e-15)


def test_the_start_has_the_published_variances():
    task = sl.Task(dim=200, length=2)
    fresh = sl.Transformer.draw(task, jax.random.key(0), width=150, hidden=250)
    for matrix in (fresh.key, fresh.value, fresh.inner[0], fresh.outer[0]):
        expected = 2.0 / sum(matrix.shape)
        # The relative error of a variance from n draws is √(2/n) < 0.01; five of them.
        assert np.var(matrix) == pytest.approx(expected, rel=0.05)
    assert np.var(fresh.readout) == pytest.approx(1.0 / 200**2, rel=0.6)
    assert not np.any(fresh.query)


def test_gradients_reach_every_weight_but_the_fixed_query_vector(model):
    key = jax.random.key(2)
    problem = SinglePass(TASK, 16, key, sl.sample(TASK, 10))
    slope = problem.gradient(model, jnp.asarray(0))
    assert not np.any(slope.cls_vector)
    for name, leaf in vars(slope).items():
        if name != "cls_vector":
            assert all(np.any(part) for part in jax.tree.leaves(leaf)), name
    again = problem.gradient(model, jnp.asarray(1))
    assert np.any(again.value != slope.value)  # every step has new tokens


def test_training_finds_the_informative_token():
    task = sl.Task(dim=32, length=4, noise=0.1)
    run = sl.train_transformer(
        task, hidden=32, lr=0.02, batch=32, steps=800, seed=[0, 1], log_every=400
    )
    assert run.loss.shape == run.attention.shape == (2, 3)
    assert run.status == "ok"
    np.testing.assert_allclose(run.attention[:, 0], 0.25, rtol=1e-12)
    assert np.all(run.loss[:, -1] < 0.25 * sl.linear_excess(task))
    assert np.all(run.attention[:, -1] > 0.8)


def test_a_run_goes_on_where_it_stopped_and_seeds_side_by_side_are_themselves():
    how = {"width": 6, "hidden": 8, "batch": 4, "log_every": 5}
    whole = sl.train_transformer(TASK, steps=20, seed=3, **how)
    half = sl.train_transformer(TASK, steps=10, seed=3, **how)
    rest = sl.train_transformer(TASK, steps=20, seed=3, resume=half, **how)
    np.testing.assert_array_equal(rest.loss, whole.loss)
    both = sl.train_transformer(TASK, steps=20, seed=[2, 3], **how)
    np.testing.assert_allclose(both.loss[1], whole.loss, rtol=1e-12)


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
