"""Whether the manifold attracts: the linearised flow, λ_c, the swapped minima."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solvable import single_location as sl
from solvable.single_location.reduced import pgd_step
from solvable.single_location.state import NAMES, scalars, vectors

TASK = sl.Task(dim=400, length=10)
PLACES = [(0.3, 0.5, 0.1), (-0.7, 0.2, 0.9), (1.0, 1.0, 0.4), (0.0, 0.0, 1.0), (0.9, -0.3, 2.0)]


@jax.jit
def moved(place, y, lam, lr):
    x = pgd_step(TASK, sl.State.raw(*place, *y), lam, lr)
    return jnp.stack([x.theta, x.eta, x.rho])


@jax.jit
def derivative_of_a_step(place, lam):
    """First in the step size, at 0, then in θ, η and ρ, at 0."""

    def flow(y):
        zero, one = jnp.asarray(0.0), jnp.asarray(1.0)
        return jax.jvp(lambda lr: moved(place, y, lam, lr), (zero,), (one,))[1]

    return jax.jacfwd(flow)(jnp.zeros(3))


@pytest.mark.parametrize(("kappa", "nu", "lam"), PLACES)
def test_linearisation_is_the_derivative_of_a_step(kappa, nu, lam):
    place, lam = jnp.asarray([kappa, nu]), jnp.asarray(lam)
    found = np.asarray(sl.transversal(TASK, kappa, nu, lam))
    scale = np.abs(found).max()
    exact = derivative_of_a_step(place, lam)
    np.testing.assert_allclose(found, exact, rtol=0.0, atol=1e-12 * scale)
    # And by plain differences: 1e-4 off the manifold, a step of 1e-7.
    lr, h = 1e-7, 1e-4
    for j in range(3):
        y = h * np.eye(3)[j]
        ends = [np.asarray(moved(place, sign * y, lam, lr)) for sign in (1.0, -1.0)]
        column = (ends[0] - ends[1]) / (2 * h)
        column = (column - np.eye(3)[j]) / lr
        np.testing.assert_allclose(found[:, j], column, rtol=0.0, atol=1e-4 * scale)


def test_linearisation_of_a_batch_is_that_of_its_members():
    kappa, nu, lam = (np.asarray(a) for a in zip(*PLACES, strict=True))
    batch = np.asarray(sl.transversal(TASK, kappa, nu, lam))
    growth = np.asarray(sl.transversal_growth(TASK, kappa, nu, lam))
    for i in range(len(PLACES)):
        scale = np.abs(np.asarray(batch[i])).max()
        one = sl.transversal(TASK, *PLACES[i])
        np.testing.assert_allclose(batch[i], one, rtol=0.0, atol=1e-12 * scale)
        true = np.linalg.eigvals(np.asarray(one)).real.max()
        assert growth[i].item() == pytest.approx(true, abs=1e-10 * scale)


@pytest.mark.parametrize(
    ("dim", "length", "lam"),
    [(400, 10, 0.8924), (4000, 10, 0.8686), (80, 10, 1.008), (400, 50, 1.024)],
)
def test_critical_lam_has_the_known_values(dim, length, lam):
    assert sl.critical_lam(sl.Task(dim=dim, length=length)) == pytest.approx(lam, abs=5.1e-4)


def test_critical_lam_tends_to_half_the_root_of_three_like_one_over_dim():
    gaps = [sl.critical_lam(sl.Task(dim=d, length=10)) - math.sqrt(0.75) for d in (10**4, 10**5)]
    assert gaps[0] / gaps[1] == pytest.approx(10.0, rel=0.02)
    far = sl.critical_lam(sl.Task(dim=10**9, length=10))
    assert far == pytest.approx(math.sqrt(0.75), abs=1e-7)


@pytest.mark.parametrize(("dim", "length"), [(400, 10), (80, 10), (400, 50)])
def test_critical_lam_is_that_of_saturated_attention(dim, length):
    d2, g2 = dim / 2, 0.5
    ratio = 2.0 * (d2 + g2) / (d2 - g2 * (length - 2))
    true = 0.5 * math.sqrt(ratio**2 - 1.0)
    # At d = 80 the erf is short of 1 by 1e-6.
    assert sl.critical_lam(sl.Task(dim=dim, length=length)) == pytest.approx(true, rel=1e-5)


def test_many_tokens_keep_the_manifold_attracting():
    """From L = 2 + D²/γ² on: here 402."""
    assert sl.critical_lam(sl.Task(dim=400, length=380)) < 1000.0
    assert sl.critical_lam(sl.Task(dim=400, length=420)) == math.inf


def test_one_token_leaves_nothing_to_repel():
    assert sl.critical_lam(sl.Task(dim=400, length=1)) == math.inf


def test_growth_at_the_oracle_changes_sign_at_the_critical_lam():
    lam = sl.critical_lam(TASK)
    growth = sl.oracle_growth(TASK, [0.99 * lam, lam, 1.01 * lam])
    below, at, above = np.asarray(growth)[:, 0].tolist()
    assert below < 0.0 < above
    assert abs(at) < 1e-10
    assert np.asarray(sl.oracle_growth(TASK, 0.9))[0] == pytest.approx(0.021, abs=5e-4)
    assert sl.transversal_growth(TASK, 0.3, 1.0, 0.9).item() == pytest.approx(0.032, abs=5e-4)


def test_oracle_growth_is_what_is_left_of_the_linearisation_at_the_corner():
    for lam in (0.1, 0.9):
        pair = np.asarray(sl.oracle_growth(TASK, lam))
        rates = sl.slopes(TASK, sl.State(1.0, 1.0), lam)
        third = rates.kappa.item() + rates.nu.item()
        full = np.linalg.eigvals(np.asarray(sl.transversal(TASK, 1.0, 1.0, lam)))
        np.testing.assert_allclose(
            np.sort(full.real), np.sort([*pair, third]), rtol=1e-9, atol=1e-11
        )


@pytest.mark.parametrize("lam", [0.5, 0.95])
def test_distance_to_the_manifold_grows_or_falls_at_that_rate(lam):
    """Near the oracle, by projected gradient descent with a small step."""
    task = sl.Task(dim=20, length=10)
    angle = 1e-5
    k, v = np.zeros((2, 20))
    k[:2], v[:2] = (1.0, angle), (-0.3 * angle, 1.0)
    start = scalars(*(jnp.asarray(x / np.linalg.norm(x)) for x in (k, v)))
    lr, steps = 2e-4, 20_000
    run = sl.train(task, start, lam=lam, lr=lr, steps=steps, log_every=steps // 2)
    logs = np.log(np.asarray(run.distance))
    measured = (logs[-1] - logs[-2]) / (lr * (steps // 2))
    # 1e-2: the step size times the rate, and what is left of the other mode.
    assert measured == pytest.approx(np.asarray(sl.oracle_growth(task, lam))[0], rel=1e-2)


def test_growth_at_the_origin():
    found = sl.origin_growth(TASK, [0.1, 1.0])
    np.testing.assert_allclose(found, [0.7668, 0.948], atol=5e-4)
    for lam in (0.02, 0.1, 1.0):
        block = np.asarray(sl.transversal(TASK, 0.0, 0.0, lam))
        assert np.all(block[:2, 2] == 0.0)
        assert np.all(block[2, :2] == 0.0)
        true = np.linalg.eigvalsh(block[:2, :2]).max()
        assert sl.origin_growth(TASK, lam).item() == pytest.approx(true, rel=1e-11)
    # Large λ favours the oracle, small λ tosses a coin.
    ratio = np.asarray(found) / np.asarray(sl.saddle(TASK, [0.1, 1.0]).growth)
    assert ratio[0] > 0.99
    assert ratio[1] < 0.6


# ---------------------------------------------------------------- the swapped minima

LAMS = [0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.9]


def test_swapped_minimum_has_the_known_values():
    found = sl.swapped(TASK, 0.1)
    assert found.state.theta.item() == pytest.approx(0.62977, abs=5e-6)
    assert found.excess.item() == pytest.approx(0.115512, abs=5e-7)
    assert not found.capped
    assert sl.swapped(TASK, 0.05).excess.item() == pytest.approx(0.0499, abs=5e-5)
    assert sl.swapped(sl.Task(dim=80, length=10), 0.1).excess.item() == pytest.approx(
        0.1575, abs=5e-5
    )


@pytest.mark.parametrize("dim", [80, 400])
def test_swapped_excess_is_the_risk_of_its_state_and_the_flow_rests_there(dim):
    task = sl.Task(dim=dim, length=10)
    lam = np.geomspace(1e-4, 10.0, 16)
    found = sl.swapped(task, lam)
    assert {True, False} == set(np.asarray(found.capped).tolist())
    np.testing.assert_allclose(found.excess, sl.excess_risk(task, found.state, lam), rtol=1e-12)
    speed = sl.flow_field(task, found.state, lam)
    for name in NAMES:
        assert np.abs(np.asarray(getattr(speed, name))).max() < 1e-11, name
    flipped = sl.State(*(-np.asarray(getattr(found.state, name)) for name in NAMES))
    np.testing.assert_allclose(found.excess, sl.excess_risk(task, flipped, lam), rtol=1e-12)


def test_swapped_theta_is_the_best_there_is():
    theta = np.linspace(-1.0, 1.0, 401)
    for lam in LAMS:
        x = sl.State(np.zeros(401), np.zeros(401), theta, np.ones(401), np.zeros(401))
        losses = np.asarray(sl.excess_risk(TASK, x, lam))
        best = sl.swapped(TASK, lam)
        assert np.all(losses >= best.excess.item() - 1e-14)
        assert abs(theta[losses.argmin()] - best.state.theta.item()) <= 0.0026


@pytest.mark.parametrize("lam", LAMS)
def test_swapped_states_are_strict_minima(lam):
    rates = sl.swapped_rates(TASK, lam)
    found = sl.swapped(TASK, lam)
    assert len(rates) == (4 if found.capped else 5)
    assert np.all(rates < 0.0)
    # And every small turn of both vectors costs.
    k, v = vectors(sl.Task(dim=6, length=2), found.state)
    draw = np.random.default_rng(0).normal(size=(2, 200, 6))
    turned = []
    for x, turn in zip((k, v), draw, strict=True):
        y = np.asarray(x) + 1e-3 * turn / np.linalg.norm(turn, axis=1, keepdims=True)
        turned.append(jnp.asarray(y / np.linalg.norm(y, axis=1, keepdims=True)))
    assert np.all(np.asarray(sl.excess_risk(TASK, scalars(*turned), lam)) > found.excess.item())


def test_where_theta_is_capped_the_flow_keeps_rho_at_kappa_plus_nu():
    """So that four scalars are left: the fifth row of the linearisation is the sum of two."""
    lam, task = 0.05, TASK
    state = sl.swapped(task, lam).state

    def speed(y):
        x = sl.flow_field(task, sl.State.raw(*y), lam)
        return jnp.stack([getattr(x, name) for name in NAMES])

    matrix = np.asarray(jax.jit(jax.jacfwd(speed))(jnp.stack([getattr(state, n) for n in NAMES])))
    for motion in (np.array([1.0, 0, 0, 0, 1]), np.array([0, 1.0, 0, 0, 1])):
        out = matrix @ motion
        assert out[4] == pytest.approx(out[0] + out[1], rel=1e-10)


def test_for_small_lam_the_swapped_minimum_beats_the_oracle():
    lam = np.geomspace(1e-3, 10.0, 16)
    for dim in (80, 400):
        task = sl.Task(dim=dim, length=10)
        gap = np.asarray(sl.swapped(task, lam).excess) - np.asarray(sl.oracle_excess(task, lam))
        np.testing.assert_allclose(sl.swapped_gap(task, lam), gap, rtol=0.0, atol=1e-13)
        cross = sl.crossover_lam(task)
        assert sl.swapped_gap(task, 0.999 * cross) < 0.0 < sl.swapped_gap(task, 1.001 * cross)
        assert np.all((np.asarray(gap) > 0.0) == (lam > cross))
        # The other tokens cost both the same.
        assert sl.crossover_lam(sl.Task(dim=dim, length=3)) == pytest.approx(cross, rel=1e-12)
