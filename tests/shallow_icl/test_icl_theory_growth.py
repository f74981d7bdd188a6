"""The growth of one head: against its differential equation, at its limits, and its inverse."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from solvable import shallow_icl as icl

TASK = icl.Task(dim=4, context=31)
NOISY = icl.Task(dim=4, context=31, noise=0.7, lengths="varied")


def final_size(task, direction):
    return float(np.cbrt(np.asarray(icl.population(task).best)[direction]))


@pytest.mark.parametrize("task", [TASK, NOISY], ids=["plain", "varied"])
@pytest.mark.parametrize("direction", [0, 3])
def test_growth_matches_the_ode(task, direction):
    moments, full = icl.population(task), final_size(task, direction)
    lam, gram = np.asarray(moments.spectrum), np.asarray(moments.gram)
    cross, curvature = np.asarray(moments.cross)[direction], (gram * lam)[direction]
    start = 0.05 * full
    blow = 1.0 / (float(cross) * start)
    times = blow * np.linspace(0.02, 1.6, 64)

    true = solve_ivp(
        lambda _, v: cross * v**2 - curvature * v**5,
        (0.0, times[-1]),
        [start],
        "DOP853",
        times,
        rtol=1e-13,
        atol=1e-16,
    ).y[0]
    found = np.asarray(icl.growth(task, direction, times, start))
    np.testing.assert_allclose(found / full, true / full, rtol=0.0, atol=1e-9)
    assert float(found[-1]) > 0.999 * full


def test_growth_inverts_growth_time():
    fractions = np.concatenate([np.geomspace(2e-3, 0.5, 30), 1.0 - np.geomspace(0.5, 1e-9, 34)])
    starts = np.array([1e-3, 1e-7]) * final_size(TASK, 1)
    times = np.asarray(icl.growth_time(TASK, 1, fractions, starts))
    assert times.shape == (2, 64)
    for start, row in zip(starts, times, strict=True):
        found = np.asarray(icl.growth(TASK, 1, row, start)) / final_size(TASK, 1)
        # A rounding of t moves x by t ẋ, which is largest in the middle of the drop.
        sharp = 0.09 * float(row[-1]) * np.finfo(float).eps
        np.testing.assert_allclose(found, fractions, rtol=0.0, atol=1e-13 + sharp)


def test_half_drop_constant_is_the_root_of_its_equation():
    x = icl.HALF_DROP
    assert 2 * x**3 - x**6 == pytest.approx(0.5, rel=1e-15)
    assert x == pytest.approx(0.664105, abs=5e-7)
    assert icl.half_drop_lead() == pytest.approx(1.2534, abs=5e-5)
    # −F(x) through the time itself: from a start so small that F(x₀) = −1/x₀ but for x₀²/2.
    full, cross = final_size(TASK, 0), float(np.asarray(icl.population(TASK).cross)[0])
    start = 1e-4 * full
    wait = float(icl.growth_time(TASK, 0, x, start)) * cross * full
    assert 1e4 - wait == pytest.approx(icl.half_drop_lead(), abs=1e-8)


def test_time_to_half_a_drop_misses_its_estimate_by_the_square_of_the_start():
    full, cross = final_size(TASK, 0), float(np.asarray(icl.population(TASK).cross)[0])
    starts = np.geomspace(1e-3, 1e-1, 5) * full
    exact = np.asarray(icl.growth_time(TASK, 0, icl.HALF_DROP, starts))
    estimate = 1.0 / (cross * starts) - icl.half_drop_lead() / (cross * full)
    slope = np.polyfit(np.log(starts), np.log(np.abs(exact - estimate)), 1)[0]
    assert slope == pytest.approx(2.0, abs=0.01)


def test_drop_fraction_is_the_share_of_the_loss():
    full = final_size(TASK, 2)
    v = np.asarray(icl.growth(TASK, 2, np.linspace(0.0, 2000.0, 64), 0.05))
    maps = np.asarray(icl.fixed_point(TASK, [0, 1])) + np.einsum(
        "t,de->tde", v**3, np.diag([0.0, 0.0, 1.0, 0.0])
    )
    before, after = (float(icl.plateau_loss(TASK, range(m))) for m in (2, 3))
    done = (before - np.asarray(icl.loss(TASK, maps))) / (before - after)
    np.testing.assert_allclose(icl.drop_fraction(v / full), done, rtol=0.0, atol=1e-13)


def test_growth_at_its_limits():
    full = final_size(TASK, 0)
    for start in (1e-140, 1e-8, 0.3, full * (1.0 - 1e-13)):
        found = icl.growth(TASK, 0, [0.0, 1e300, math.inf], start).tolist()
        assert found[0] == pytest.approx(start, rel=1e-14)
        assert found[1] == found[2] == pytest.approx(full, rel=1e-15)
        assert float(icl.growth_time(TASK, 0, 1.0, start)) == math.inf
    assert float(icl.growth_time(TASK, 0, 0.5, 0.5 * full)) == 0.0
    assert float(icl.growth_time(TASK, 0, 0.25, 0.5 * full)) < 0.0
    endless = icl.Task(4, None)
    assert float(icl.growth(endless, 1, math.inf, 0.1)) == pytest.approx((1 / 0.3) ** (1 / 3))


def test_growth_batches():
    starts = np.geomspace(1e-6, 0.5, 64)
    times = np.concatenate([[0.0], np.geomspace(1e-2, 1e9, 63)])
    batch = np.asarray(icl.growth(TASK, 1, times, starts))
    assert batch.shape == (64, 64)
    compiled = jax.jit(lambda task, t, start: icl.growth(task, 1, t, start))
    np.testing.assert_allclose(compiled(TASK, times, starts), batch, rtol=1e-12)
    np.testing.assert_allclose(icl.growth(TASK, 1, times[50], starts[7]), batch[7, 50], rtol=1e-12)


def test_slopes_of_growth_are_those_of_finite_differences():
    def value(eigenvalue, start, t):
        lam = jnp.stack([jnp.asarray(0.4), eigenvalue, jnp.asarray(0.2), jnp.asarray(0.1)])
        return icl.growth(eqx.tree_at(lambda x: x.eigenvalues, TASK, lam), 1, t, start)

    both = jax.jit(jax.value_and_grad(value, argnums=(0, 1, 2)))
    at = np.array([0.3, 0.02, 500.0])
    found = [float(x) for x in both(*at)[1]]
    for place, step in enumerate((1e-6, 1e-7, 1e-3)):
        ends = [float(both(*(at + sign * step * np.eye(3)[place]))[0]) for sign in (1.0, -1.0)]
        # 1e-6: rounding of v over the step.
        assert found[place] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5)
    for t in (0.0, 1e-9, 1e300, math.inf):
        assert all(np.isfinite(float(x)) for x in both(0.3, 0.02, t)[1])
