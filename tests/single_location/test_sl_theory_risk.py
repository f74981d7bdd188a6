"""The risk and its slopes: the published numbers, symmetries, tokens, jit and batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solvable import single_location as sl
from solvable.single_location.reduced import pgd_step
from solvable.single_location.state import NAMES, scalars, uniform_vectors, vectors

TASK = sl.Task(dim=400, length=10)
X = sl.State(kappa=0.3, nu=0.5, theta=-0.1, eta=0.2, rho=0.15)
LR = jnp.asarray(4e-3)

RISK = {0.1: 0.7483228532096899, 0.7: 3.9065309116808566}
SLOPES = {
    0.1: [
        1.6631140542514193,
        -0.4495075172501769,
        -6.429594541940242,
        0.13345689957999607,
        -1.031196266223649,
    ],
    0.7: [
        0.056670765091244676,
        -0.9994199473367034,
        -18.530310767995786,
        0.0028224198539023512,
        -6.4883243777721775,
    ],
}
STEP = {
    0.1: [
        0.29337101265558674,
        0.5029621713155065,
        -0.07312228391094078,
        0.20181900114371404,
        0.16687417909805835,
    ],
    0.7: [
        0.29593354115142295,
        0.5080779030913308,
        -0.018177871517254418,
        0.2121308321721402,
        0.2235104714047767,
    ],
}
THOUSAND = [
    0.7191098720834547,
    0.9976799843284601,
    -0.004116823056625479,
    0.057843028859456996,
    0.048393937983772096,
]


def numbers(x):
    return np.array([np.asarray(getattr(x, name)) for name in NAMES])


def some_states(task, count=16, seed=0):
    return scalars(*uniform_vectors(task, count, seed=seed))


@pytest.mark.parametrize(
    ("t", "s", "value"),
    [
        (0.5, 0.3, 0.30087776856431947),
        (0.0, 0.3, 0.09749210719829482),
        (-1.2, 0.07, 0.8261745172155436),
        (2.0, 1.414, 0.8211045934761713),
    ],
)
def test_zeta_has_the_known_values(t, s, value):
    assert sl.zeta(t, s).item() == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize("lam", [0.1, 0.7])
def test_risk_slopes_and_step_have_the_known_values(lam):
    assert sl.excess_risk(TASK, X, lam).item() == pytest.approx(RISK[lam], rel=1e-12)
    np.testing.assert_allclose(numbers(sl.slopes(TASK, X, lam)), SLOPES[lam], rtol=1e-12)
    step = pgd_step(TASK, X, jnp.asarray(lam), LR)
    np.testing.assert_allclose(numbers(step), STEP[lam], rtol=1e-12)


def test_a_thousand_steps_end_where_they_should():
    run = sl.train(TASK, X, lam=0.1, lr=4e-3, steps=1000, log_every=1000)
    found = np.array([getattr(run, name)[-1].item() for name in NAMES])
    np.testing.assert_allclose(found, THOUSAND, rtol=1e-12)


def test_origin_has_the_known_risk():
    assert sl.excess_risk(TASK, sl.State(0.0, 0.0), 0.1).item() == pytest.approx(
        0.615503500295242, rel=1e-12
    )


def test_noise_adds_its_variance():
    noisy = sl.Task(dim=400, length=10, noise=0.3)
    gap = sl.risk(noisy, X, 0.1) - sl.excess_risk(noisy, X, 0.1)
    assert gap.item() == pytest.approx(0.09, rel=1e-12)
    assert sl.excess_risk(noisy, X, 0.1) == sl.excess_risk(TASK, X, 0.1)


def test_flipping_both_vectors_changes_nothing():
    x = some_states(sl.Task(dim=8, length=3))
    flipped = sl.State.raw(-x.kappa, -x.nu, -x.theta, -x.eta, x.rho)
    task = sl.Task(dim=8, length=3)
    for lam in (0.05, 1.3):
        np.testing.assert_array_equal(
            sl.excess_risk(task, x, lam), sl.excess_risk(task, flipped, lam)
        )
        here, there = numbers(sl.slopes(task, x, lam)), numbers(sl.slopes(task, flipped, lam))
        np.testing.assert_array_equal(here * np.array([-1.0, -1, -1, -1, 1])[:, None], there)


def test_rotations_that_keep_the_task_change_nothing():
    task = sl.Task(dim=9, length=4)
    k, v = uniform_vectors(task, 16, seed=3)
    turn = np.eye(9)
    turn[2:, 2:] = np.linalg.qr(np.random.default_rng(0).normal(size=(7, 7)))[0]
    rotated = scalars(k @ jnp.asarray(turn), v @ jnp.asarray(turn))
    np.testing.assert_allclose(
        sl.excess_risk(task, rotated, 0.4), sl.excess_risk(task, scalars(k, v), 0.4), rtol=1e-13
    )


def test_slopes_are_the_gradient_of_the_risk():
    task = sl.Task(dim=40, length=6, gamma=0.9)
    x = some_states(task)
    grad = jax.jit(jax.grad(lambda y, lam: jnp.sum(sl.excess_risk(task, y, lam))))
    for lam in (0.02, 0.3, 2.0):
        found, true = numbers(sl.slopes(task, x, lam)), numbers(grad(x, jnp.asarray(lam)))
        np.testing.assert_allclose(found, true, rtol=0.0, atol=1e-12 * np.abs(true).max())


def test_risk_on_the_manifold_has_no_other_terms():
    """R = γ² − 2γ²ν erf(τ) + γ²ζ + (L−1)ζ(0, λ)."""
    kappa, nu, lam = jnp.linspace(-1, 1, 16), jnp.linspace(1, -0.5, 16), 0.3
    g, t = float(TASK.gamma), lam * TASK.signal * kappa
    s = lam * g
    zeta = sl.zeta(t, s)
    true = g**2 * (1 - 2 * nu * jax.lax.erf(t / np.sqrt(1 + 2 * s**2)) + zeta)
    true = true + 9 * sl.zeta(0.0, lam)
    np.testing.assert_allclose(sl.excess_risk(TASK, sl.State(kappa, nu), lam), true, rtol=1e-14)


@pytest.mark.parametrize(("gamma", "lam"), [(0.5**0.5, 0.4), (1.3, 1.5)])
def test_risk_is_the_mean_square_on_tokens(gamma, lam):
    task = sl.Task(dim=6, length=4, gamma=gamma, noise=0.2)
    x = some_states(task, 4, seed=1)
    tokens = sl.sample(task, 20_000, seed=2)
    k, v = vectors(task, x)
    scores, values = tokens.x @ k.T, tokens.x @ v.T  # (data, length, runs)
    output = jnp.sum(jax.lax.erf(lam * scores) * values, axis=1)
    squares = np.asarray((output - tokens.y[:, None]) ** 2)
    error = squares.std(axis=0) / np.sqrt(len(squares))
    z = (squares.mean(axis=0) - np.asarray(sl.risk(task, x, lam))) / error
    assert np.abs(z).max() < 4.0  # 4 standard errors
    assert np.all(error < 0.03 * squares.mean(axis=0))


def test_jitted_is_eager_and_a_batch_is_its_members():
    x = some_states(sl.Task(dim=40, length=6), 16)
    task = sl.Task(dim=40, length=6)
    lam = jnp.linspace(0.01, 3.0, 16)
    batch = sl.excess_risk(task, x, lam)
    np.testing.assert_allclose(jax.jit(sl.excess_risk)(task, x, lam), batch, rtol=1e-12)
    slopes = numbers(sl.slopes(task, x, lam))
    jitted = numbers(jax.jit(sl.slopes)(task, x, lam))
    np.testing.assert_allclose(jitted, slopes, rtol=0.0, atol=1e-12 * np.abs(slopes).max())
    for i in (0, 7, 15):
        one = jax.tree.map(lambda a, i=i: a[i], x)
        assert sl.excess_risk(task, one, lam[i]).item() == pytest.approx(batch[i].item(), rel=1e-12)
        single = numbers(sl.slopes(task, one, lam[i]))
        np.testing.assert_allclose(
            single, slopes[:, i], rtol=0.0, atol=1e-12 * np.abs(slopes).max()
        )
