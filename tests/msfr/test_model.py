"""Attention on tokens: what the blocks compute, and what they must not see."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solvable import msfr
from solvable.msfr.model import predict_tokens

pytestmark = pytest.mark.slow

S, N, WIDTH = 6, 40, 4  # those of test_reduced_brute: one compilation serves
RNG = np.random.default_rng(3)
TASK = msfr.Task(S, 1.3, [7.0, 5.0, 4.0, 2.0, 2.0, 1.0], [0.7, -1.3, 2.0, 0.2, -0.4, 1.1])
LINEAR = msfr.Init(RNG.normal(0.0, 0.5, (S, 2)), RNG.normal(0.0, 0.5, (S, 2)))
SOFTMAX = msfr.SoftmaxInit(RNG.normal(0.0, 0.6, (S, 2)), *RNG.normal(0.0, 0.6, (2, WIDTH, S + 1)))
MODELS = {
    "linear": msfr.LinearAttention.start(TASK, LINEAR),
    "softmax": msfr.SoftmaxAttention.start(TASK, SOFTMAX),
}
predictions_of = jax.jit(predict_tokens)


@pytest.fixture(scope="module")
def tokens():
    return msfr.sample(TASK, N, seed=1)


def test_linear_attention_is_a_quadratic_form_whatever_the_signs(tokens):
    """The prediction is ε̂ v_sᵀ H_s w_s with H = [[ψ+1, ψΛ], [ψΛ, ψΛ²]] (7)."""
    found = np.asarray(predictions_of(MODELS["linear"], tokens))
    v, w = (np.asarray(x) for x in LINEAR.columns(TASK))
    psi, lam = np.asarray(TASK.contexts), np.asarray(TASK.strengths)
    assert set(np.asarray(tokens.task)) == set(range(S))
    for f, s, label in zip(found, *map(np.asarray, (tokens.task, tokens.label)), strict=True):
        h = psi[s] * np.outer([1.0, lam[s]], [1.0, lam[s]]) + np.diag([1.0, 0.0])
        assert f * float(label) / lam[s] == pytest.approx(v[s] @ h @ w[s], rel=1e-12)


def test_linear_attention_is_its_matrix_product(tokens):
    model = MODELS["linear"]
    phi = np.asarray(tokens.phi[0])
    true = np.asarray(model.value) @ phi @ phi.T @ np.asarray(model.key_query) @ phi[:-1, -1]
    found = model(tokens.phi[0], tokens.present[0])
    np.testing.assert_allclose(found, true, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("kind", MODELS)
def test_padding_is_not_seen(kind, tokens):
    """A short context in a wide matrix gives what it gives without its empty columns."""
    model = jax.jit(MODELS[kind].__call__)
    shorter = 0
    for phi, present in zip(*map(np.asarray, (tokens.phi, tokens.present)), strict=True):
        kept = np.flatnonzero(present)
        shorter += len(kept) < len(present)
        np.testing.assert_array_equal(phi[:, present == 0.0], 0.0)
        bare, whole = model(phi[:, kept], present[kept]), model(phi, present)
        np.testing.assert_allclose(whole, bare, rtol=1e-14, atol=1e-15)
    assert shorter > 10
    if kind == "softmax":  # which would see empty columns as tokens of logit 0
        phi, present = np.asarray(tokens.phi), np.asarray(tokens.present)
        k = int(np.flatnonzero(present.min(axis=1) == 0.0)[0])
        unmasked = model(phi[k], np.ones_like(present[k]))
        assert np.abs(np.subtract(unmasked, model(phi[k], present[k]))).max() > 1e-3


def test_softmax_of_huge_logits_is_finite(tokens):
    model = msfr.SoftmaxAttention.start(TASK, msfr.SoftmaxInit(0.5, 100.0, 100.0))

    @jax.jit
    @jax.value_and_grad
    def loss(model):
        return jnp.sum(predict_tokens(model, tokens) ** 2)

    value, gradient = loss(model)
    assert np.isfinite(value)
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(gradient))


@pytest.mark.parametrize("init", [LINEAR, SOFTMAX], ids=["linear", "softmax"])
def test_frozen_tasks_keep_rows_columns_and_predictions(init):
    """Tasks s ≥ D receive no gradient."""
    size = 3
    run = msfr.train_brute(TASK, init, lr=0.02, steps=20, data=N, size=size, log_every=20)
    model, start = run.state[0], MODELS["linear" if init is LINEAR else "softmax"]
    change = jax.tree.map(lambda x, y: np.abs(np.subtract(x, y)), model, start)
    learned, frozen = slice(0, size - 1), slice(size - 1, S)
    assert change.value[frozen].max() == 0.0
    assert change.value[learned].max() > 1e-4
    columns = [change.key_query] if init is LINEAR else [change.key, change.query]
    for moved in columns:
        assert moved[:, frozen].max() == 0.0
        assert moved[:, learned].max() > 1e-5
    np.testing.assert_array_equal(run.predictions[frozen, 0], run.predictions[frozen, -1])


@pytest.mark.parametrize("init", [LINEAR, SOFTMAX], ids=["linear", "softmax"])
def test_entries_off_the_two_coordinates_stay_zero(init):
    run = msfr.train_brute(TASK, init, lr=0.02, steps=20, data=N, log_every=20)
    off = np.ones((S, S + 1), bool)
    off[np.arange(S), np.arange(S)] = off[:, S] = False
    np.testing.assert_array_equal(np.asarray(run.state[0].value)[off], 0.0)
    if init is LINEAR:
        np.testing.assert_array_equal(np.asarray(run.state[0].key_query).T[off], 0.0)


@pytest.mark.parametrize("init", [LINEAR, SOFTMAX], ids=["linear", "softmax"])
def test_the_training_loss_is_half_the_mean_square_on_the_tokens(init):
    run = msfr.train_brute(TASK, init, lr=0.02, steps=0, data=N, seed=1)
    tokens = msfr.sample(TASK, N, seed=1)
    model = MODELS["linear" if init is LINEAR else "softmax"]
    true = 0.5 * np.mean(np.subtract(predictions_of(model, tokens), tokens.label) ** 2)
    assert float(run.train_loss[0]) == pytest.approx(true, rel=1e-13)
