"""Gradient descent, gradient flow, and the limits that join them."""

import numpy as np
import pytest

from solvable import msfr

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(1)
S = 5
TASK = msfr.Task(S, 1.6, 6.0, [0.5, 1.2, -0.7, 0.9, 0.3])
INIT = msfr.Init(RNG.normal(0.0, 0.3, (S, 2)), RNG.normal(0.0, 0.3, (S, 2)))
TIMES = np.concatenate([[0.0], np.geomspace(1e-2, 20.0, 12)])


def slope(x, y):
    return np.polyfit(np.log(x), np.log(y), 1)[0]


def test_gradient_descent_tends_to_the_flow_like_lr():
    t = 2.0
    # As many times as below: one compilation serves.
    true = np.asarray(msfr.predict(TASK, INIT, np.full_like(TIMES, t), order="exact"))[0]
    rates = 0.1 / 2.0 ** np.arange(6)
    errors = []
    for lr in rates:
        steps = round(t / lr)
        run = msfr.train(TASK, INIT, lr=lr, steps=steps, log_every=steps)
        assert run.time[-1] == pytest.approx(t, rel=1e-12)
        errors.append(np.abs(np.asarray(run.predictions)[:, -1] - true).max())
    assert errors[-1] < 1e-2
    assert slope(rates, errors) == pytest.approx(1.0, abs=0.1)  # Euler's order


def test_the_flow_by_an_ode_solver_is_the_closed_form():
    run = msfr.flow(TASK, INIT, TIMES)
    true = np.asarray(msfr.predict(TASK, INIT, TIMES, order="exact"))
    assert np.abs(true[-1] - true[0]).max() > 0.1
    np.testing.assert_allclose(run.predictions.T, true, rtol=0, atol=1e-8)
    loss = 0.5 * (true - np.asarray(TASK.strengths)) ** 2 @ np.asarray(TASK.weights)
    np.testing.assert_allclose(run.loss, loss, rtol=0, atol=1e-8)
    np.testing.assert_array_equal(run.train_loss, run.loss)
    np.testing.assert_array_equal(run.time, TIMES)


def test_finite_data_rescale_the_time_of_every_task():
    """f_s depends on p̂_s t alone: a data set turns t into t #_s/(N p_s)."""
    data, size = 30, 4
    run = msfr.flow(TASK, INIT, TIMES, data=data, seed=2, size=size)
    index = np.asarray(msfr.sample(TASK, data, seed=2).task)
    pace = np.bincount(index, minlength=S) / data / np.asarray(TASK.weights)
    pace[size - 1 :] = 0.0
    for s in range(S):
        true = np.asarray(msfr.predict(TASK, INIT, TIMES * pace[s]))[:, s]
        np.testing.assert_allclose(run.predictions[s], true, rtol=0, atol=1e-8)


def test_gradient_descent_is_the_recursion_in_the_eigenbasis():
    """η ← (1 − lr p̂ (f−Λ) μ) η, ρ ← (1 + lr p̂ (f−Λ) μ) ρ, f = ¼ Σ μ (η² − ρ²)."""
    lr, steps = 0.2, 100
    run = msfr.train(TASK, INIT, lr=lr, steps=steps, log_every=1)
    psi, lam, p = (np.asarray(x) for x in (TASK.contexts, TASK.strengths, TASK.weights))
    v, w = (np.asarray(x) for x in INIT.columns(TASK))
    for s in range(S):
        h = psi[s] * np.outer([1.0, lam[s]], [1.0, lam[s]]) + np.diag([1.0, 0.0])
        mu, basis = np.linalg.eigh(h)
        eta, rho = basis.T @ (v[s] + w[s]), basis.T @ (v[s] - w[s])
        path = []
        for _ in range(steps + 1):
            f = 0.25 * np.sum(mu * (eta**2 - rho**2))
            path.append(f)
            pull = lr * p[s] * (f - lam[s]) * mu
            eta, rho = (1.0 - pull) * eta, (1.0 + pull) * rho
        # Round-off of 100 steps.
        np.testing.assert_allclose(run.predictions[s], path, rtol=0, atol=1e-13)


def test_many_data_tend_to_the_population_like_one_over_root_n():
    options = {"lr": 0.05, "steps": 20, "log_every": 20}
    limit = msfr.train(TASK, INIT, **options).predictions[:, -1]
    counts = np.array([10**2, 10**4, 10**6])  # each is compiled anew
    runs = [msfr.train(TASK, INIT, data=int(n), seed=range(16), **options) for n in counts]
    errors = [np.sqrt(np.mean((run.predictions[:, :, -1] - limit[None]) ** 2)) for run in runs]
    # 16 seeds know each error to 18 %, and so the slope over 4 decades to 0.028.
    assert slope(counts, errors) == pytest.approx(-0.5, abs=0.1)


def test_the_mean_over_mini_batches_is_the_full_batch():
    seeds = range(64)
    for steps in (1, 40):
        options = {"lr": 0.01, "steps": steps, "log_every": steps}
        full = msfr.train(TASK, INIT, **options)
        runs = msfr.train(TASK, INIT, batch=4, seed=seeds, **options)
        for seen, true in zip(runs.state[0], full.state[0], strict=True):
            seen, true = np.asarray(seen), np.asarray(true)
            error = np.std(seen, axis=0, ddof=1) / np.sqrt(len(seeds))
            assert np.all(error > 0.0)
            # 20 entries: 4 standard errors are passed by chance once in 800 times.
            assert np.all(np.abs(seen.mean(axis=0) - true) < 4.0 * error)
