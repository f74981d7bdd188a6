"""The risk and its slopes: the published numbers, symmetries, tokens, jit and batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf

from solvable import single_location as sl
from solvable.compiling import _state
from solvable.single_location.state import NAMES, scalars, vectors

TASK = sl.Task(dim=400, length=10)
X = sl.State(kappa=0.3, nu=0.5, theta=-0.1, eta=0.2, rho=0.15)

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


def numbers(x):
    return np.array([np.asarray(getattr(x, name)) for name in NAMES])


def some_states(task, count=16, seed=0):
    return sl.sphere(task, count, seed=seed)


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
def test_risk_and_slopes_have_the_known_values(lam):
    assert sl.excess_risk(TASK, X, lam).item() == pytest.approx(RISK[lam], rel=1e-12)
    np.testing.assert_allclose(numbers(sl.slopes(TASK, X, lam)), SLOPES[lam], rtol=1e-12)


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
    flipped = sl.State(*(-np.asarray(getattr(x, name)) for name in NAMES[:-1]), x.rho)
    task = sl.Task(dim=8, length=3)
    for lam in (0.05, 1.3):
        np.testing.assert_array_equal(
            sl.excess_risk(task, x, lam), sl.excess_risk(task, flipped, lam)
        )
        here, there = numbers(sl.slopes(task, x, lam)), numbers(sl.slopes(task, flipped, lam))
        np.testing.assert_array_equal(here * np.array([-1.0, -1, -1, -1, 1])[:, None], there)


def test_rotations_that_keep_the_task_change_nothing():
    task = sl.Task(dim=9, length=4)
    k, v = np.random.default_rng(3).normal(size=(2, 16, 9))
    k, v = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (k, v))
    turn = np.eye(9)
    turn[2:, 2:] = np.linalg.qr(np.random.default_rng(0).normal(size=(7, 7)))[0]
    plain = scalars(jnp.asarray(k), jnp.asarray(v))
    rotated = scalars(jnp.asarray(k @ turn), jnp.asarray(v @ turn))
    np.testing.assert_allclose(
        sl.excess_risk(task, rotated, 0.4), sl.excess_risk(task, plain, 0.4), rtol=1e-13
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
    kappa, nu, lam = np.linspace(-1, 1, 16), np.linspace(1, -0.5, 16), 0.3
    g, t = float(TASK.gamma), lam * TASK.signal * kappa
    s = lam * g
    zeta, floor = (np.asarray(sl.zeta(*at)) for at in ((t, s), (0.0, lam)))
    true = g**2 * (1 - 2 * nu * erf(t / np.sqrt(1 + 2 * s**2)) + zeta) + 9 * floor
    np.testing.assert_allclose(sl.excess_risk(TASK, sl.State(kappa, nu), lam), true, rtol=1e-14)


@pytest.mark.parametrize(("gamma", "lam"), [(0.5**0.5, 0.4), (1.3, 1.5)])
def test_risk_is_the_mean_square_on_tokens(gamma, lam):
    task = sl.Task(dim=6, length=4, gamma=gamma, noise=0.2)
    x = some_states(task, 4, seed=1)
    tokens = sl.sample(task, 20_000, seed=2)
    k, v = vectors(task, x)
    data = np.asarray(tokens.x)
    scores, values = data @ np.asarray(k).T, data @ np.asarray(v).T  # (data, length, runs)
    output = np.sum(erf(lam * scores) * values, axis=1)
    squares = (output - np.asarray(tokens.y)[:, None]) ** 2
    error = squares.std(axis=0) / np.sqrt(len(squares))
    z = (squares.mean(axis=0) - np.asarray(sl.risk(task, x, lam))) / error
    assert np.abs(z).max() < 4.0  # 4 standard errors
    assert np.all(error < 0.03 * squares.mean(axis=0))


ALONE = {
    "excess_risk": lambda x, lam: sl.excess_risk(TASK, x, lam),
    "slopes": lambda x, lam: sl.slopes(TASK, x, lam),
    "flow_field": lambda x, lam: sl.flow_field(TASK, x, lam),
    "transversal": lambda x, lam: sl.transversal(TASK, x.kappa, x.nu, lam),
    "manifold_field": lambda x, lam: sl.manifold_field(TASK, x.kappa, x.nu, lam),
    "nullcline": lambda x, lam: sl.nullcline(TASK, x.kappa, lam),
    "oracle_excess": lambda x, lam: sl.oracle_excess(TASK, lam),
    "saddle": lambda x, lam: sl.saddle(TASK, lam),
    "oracle_rates": lambda x, lam: sl.oracle_rates(TASK, lam),
    "oracle_growth": lambda x, lam: sl.oracle_growth(TASK, lam),
    "origin_growth": lambda x, lam: sl.origin_growth(TASK, lam),
    "swapped": lambda x, lam: sl.swapped(TASK, lam),
    "swapped_gap": lambda x, lam: sl.swapped_gap(TASK, lam),
    "zeta": lambda x, lam: sl.zeta(x.kappa, lam),
}


@pytest.mark.parametrize("name", ALONE)
def test_a_batch_of_any_shape_is_its_members(name):
    """And another shape of about as many entries compiles nothing."""
    x, lam = sl.sphere(TASK, runs=6), np.geomspace(1e-3, 3.0, 6)

    def values(pick):
        fields = (pick(np.asarray(getattr(x, field))) for field in NAMES)
        return [np.asarray(v) for v in jax.tree.leaves(ALONE[name](sl.State(*fields), pick(lam)))]

    batch = values(lambda a: a)
    for i in (0, 5):
        for one, many in zip(values(lambda a, i=i: a[i]), batch, strict=True):
            atol = 1e-12 * np.abs(many.astype(float)).max()
            np.testing.assert_allclose(one, many[i], rtol=1e-12, atol=atol)
    compiled = _state["compiled"]
    for square, many in zip(values(lambda a: a.reshape(2, 3)), batch, strict=True):
        np.testing.assert_array_equal(square, many.reshape(2, 3, *many.shape[1:]))
    assert [len(v) for v in values(lambda a: a[:5])] == [5] * len(batch)
    assert _state["compiled"] == compiled
