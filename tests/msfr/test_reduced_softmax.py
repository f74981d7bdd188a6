"""The softmax reduction: one formula in n, the number of context signs equal to the query's."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from solvable import msfr
from solvable.msfr.reduced import SoftmaxProblem, softmax_problem
from solvable.msfr.run import checked

S, WIDTH = 3, 5
RNG = np.random.default_rng(2)
TASK = msfr.Task(S, 1.5, [5.0, 3.0, 1.0], [0.7, -1.3, 2.0])
VALUE = RNG.normal(0.0, 0.6, (S, 2))
KEY, QUERY = RNG.normal(0.0, 0.6, (2, WIDTH, S + 1))
INIT = msfr.SoftmaxInit(VALUE, KEY, QUERY)
predictions_of, gradient_of = jax.jit(SoftmaxProblem.predictions), jax.jit(SoftmaxProblem.gradient)


def problem_of(task, init):
    law, learned, data, batch, _ = checked(task, init, None, None, None, 0)
    return softmax_problem(law, init, learned, data, batch, 0)


def softmax_on_tokens(s, signs, query_sign):
    """[V G softmax(Gᵀ W_Kᵀ W_Q G)]_{s, last}, written out for one datum."""
    strength = float(TASK.strengths[s])
    g = np.zeros((S + 1, len(signs) + 1))
    g[s] = [*signs, query_sign]
    g[S, :-1] = strength * np.asarray(signs)
    v = np.zeros((S, S + 1))
    v[np.arange(S), np.arange(S)], v[:, S] = VALUE.T
    weight = np.exp(g.T @ KEY.T @ QUERY @ g[:, -1])
    return (v @ g @ (weight / weight.sum()))[s]


def test_the_formula_is_attention_on_tokens_for_every_choice_of_signs():
    problem, params = problem_of(TASK, INIT)
    formula = np.asarray(predictions_of(problem, params))
    for s in range(S):
        for signs in itertools.product([-1, 1], repeat=int(TASK.context[s])):
            for query in (-1, 1):
                equal = sum(sign == query for sign in signs)
                true = query * softmax_on_tokens(s, signs, query)
                assert formula[s, equal] == pytest.approx(true, abs=1e-14)


def test_the_weights_of_n_sum_to_the_task_law():
    problem, _ = problem_of(TASK, INIT)
    weights, law = np.asarray(problem.weights), np.asarray(TASK.weights)
    np.testing.assert_allclose(weights.sum(axis=1), law, rtol=1e-14)
    counts = np.array([1, 5, 10, 10, 5, 1])  # binomials of ψ = 5
    np.testing.assert_allclose(weights[0], law[0] * counts / 32, rtol=1e-13)
    assert np.all(weights[2, 2:] == 0.0)  # ψ = 1 has n = 0 and 1 only
    long, _ = problem_of(msfr.Task(2, 1.5, 2000, 0.5), msfr.SoftmaxInit(0.1, 0.1, 0.1))
    # log Γ(2001) ≈ 13 000 is known to 13 000 times the round-off.
    np.testing.assert_allclose(np.asarray(long.weights).sum(axis=1), long.task_weights, rtol=1e-11)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_huge_keys_and_queries_do_not_overflow(sign):
    """Exponents of ±10⁵: the largest is subtracted first."""
    init = msfr.SoftmaxInit(0.5, 100.0, sign * 100.0)
    problem, params = problem_of(TASK, init)
    predictions = np.asarray(predictions_of(problem, params))
    assert np.all(np.isfinite(predictions))
    # Attention falls on one kind of token, so predictions are values, of size |V|(1 + |Λ|) at most.
    assert np.abs(predictions).max() <= 0.5 * (1 + 2.0) + 1e-12
    gradient = gradient_of(problem, params, 0)
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(gradient))


def test_one_shared_key_column_feels_every_task():
    problem, params = problem_of(TASK, INIT)
    h = 1e-6
    change = np.zeros(WIDTH)
    change[2] = h

    def loss(shift):
        target_key = jnp.asarray(np.asarray(params.target_key) + shift)
        moved = type(params)(params.value, params.key, params.query, target_key)
        miss = np.asarray(predictions_of(problem, moved)) - np.asarray(problem.strength)[:, None]
        return 0.5 * np.sum(np.asarray(problem.weights) * miss**2)

    slope = (loss(change) - loss(-change)) / (2 * h)
    found = float(gradient_of(problem, params, 0).target_key[2])
    assert found == pytest.approx(float(slope), rel=1e-7)  # central differences


def test_early_loss_of_gradient_descent_is_that_of_independent_tasks():
    """½ Σ p e0² exp(−2p(1+Λ²)t), whose law in t has the exponent (α−1)/α (Fig. 8b).

    It holds where attention starts on the tokens of the query's sign, u ≫ 1, as at the paper's
    width of 501; then f = V_ss + Λ V_{s,S+1} is linear.
    """
    task, init = msfr.Task(50, 1.8, 100, 0.5), msfr.SoftmaxInit(0.1, 0.1, 0.11, width=501)
    run = msfr.train(task, init, lr=0.1, steps=500, log_every=25)
    p, lam = np.asarray(task.weights), 0.5
    e0 = np.asarray(run.predictions)[:, :1] - lam
    decay = np.exp(-2 * p[:, None] * (1 + lam**2) * run.time[None, :])
    np.testing.assert_allclose(run.loss, 0.5 * p @ (e0**2 * decay), rtol=0.02)
    assert run.loss[-1] < 0.3 * run.loss[0]


def test_adamw_shrinks_what_has_no_gradient():
    """Weight decay alone moves a frozen task's parameters, and none of its predictions."""
    optimizer = optax.adamw(1e-2, weight_decay=0.1)
    run = msfr.train(TASK, INIT, optimizer=optimizer, steps=30, size=2, log_every=30)
    shrunk = (1 - 1e-2 * 0.1) ** 30
    np.testing.assert_allclose(run.state[0].query[1:], shrunk * QUERY.T[1:S], rtol=1e-12)
    np.testing.assert_array_equal(run.predictions[1:, 0], run.predictions[1:, -1])
