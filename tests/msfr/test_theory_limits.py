"""The closed forms at their limits: t = 0, t → ∞, saddles, zero starts, Λ = 0, balanced starts."""

import math

import jax
import numpy as np
import pytest

from solvable import msfr
from solvable.msfr.theory._zeroth import zeroth_residual

ORDERS = ["zeroth", "first", "exact"]
FOREVER = np.concatenate([[0.0], np.geomspace(1e-3, 1e9, 13), [1e300, math.inf]])
ROUNDING = 4 * np.finfo(float).eps  # f is formed as (f − Λ) + Λ, so it is rounded where Λ is

CONTEXTS = np.array([5.0, 100.0, 0.3, 20.0, 1e6, 7.0])
STRENGTHS = np.array([0.5, -0.7, 1.3, 0.2, 2.0, -1e-3])
V = np.array([[0.10, 0.07], [0.31, -0.22], [-0.05, 0.12], [0.40, 0.30], [0.02, 0.01], [0.2, -0.1]])
W = np.array([[0.11, -0.03], [0.18, 0.09], [0.21, 0.06], [0.35, 0.50], [0.03, -0.04], [-0.3, 0.1]])


def generic():
    return msfr.Task(6, 1.8, CONTEXTS, STRENGTHS), msfr.Init(V, W)


def column_task(contexts, strengths, v, w):
    """Tasks with entries of their own: v and w are (tasks, 2)."""
    return msfr.Task(len(contexts), 1.8, contexts, strengths), msfr.Init(v, w)


@pytest.mark.parametrize("order", ORDERS)
def test_prediction_starts_at_the_bilinear_form_of_the_init(order):
    task, init = generic()
    corner = 0.0 if order == "zeroth" else 1.0
    for s, found in enumerate(msfr.predict(task, init, FOREVER, order)[0].tolist()):
        u = np.array([1.0, STRENGTHS[s]])
        matrix = CONTEXTS[s] * np.outer(u, u) + corner * np.diag([1.0, 0.0])
        assert found == pytest.approx(V[s] @ matrix @ W[s], rel=1e-13, abs=1e-15)


@pytest.mark.parametrize("order", ORDERS)
def test_generic_start_learns_its_strength(order):
    task, init = generic()
    found = np.asarray(msfr.predict(task, init, FOREVER, order))
    np.testing.assert_allclose(found[-2:], np.tile(STRENGTHS, (2, 1)), rtol=1e-12)


def test_infinite_time_is_the_largest_time():
    task, init = generic()
    for order in ORDERS:
        found = np.asarray(msfr.residual(task, init, FOREVER, order))
        assert np.array_equal(found[-2], found[-1])
    for order in ("zeroth", "first"):  # a loss is summed in one way at all orders
        losses = msfr.loss(task, init, FOREVER, order)
        assert float(losses[-2]) == float(losses[-1])
    ends = [float(msfr.loss(task, init, t, "zeroth")) for t in (1e300, math.inf)]  # single times
    assert ends[0] == ends[1]


@pytest.mark.parametrize("order", ["zeroth", "exact"])
def test_saddles_end_at_zero_not_at_the_strength(order):
    """A start v = w keeps f ≥ 0, so Λ < 0 is never reached; v = −w keeps f ≤ 0."""
    contexts = np.array([5.0, 100.0, 1e6, 5.0, 0.7, 30.0])
    strengths = np.array([-0.7, -0.2, -10.0, 0.7, 3.0, 0.05])
    v = np.array([[0.3, 0.2], [0.1, 0.1], [0.2, 0.1], [0.3, 0.2], [0.1, -0.4], [1.0, 0.0]])
    w = v * np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0])[:, None]
    task, init = column_task(contexts, strengths, v, w)
    found = np.asarray(msfr.predict(task, init, FOREVER, order))
    assert np.all(np.sign(found[0]) == [1, 1, 1, -1, -1, -1])
    np.testing.assert_allclose(found[-2:], 0.0, atol=1e-12)


@pytest.mark.parametrize("order", ORDERS)
def test_zero_start_stays_at_zero(order):
    task, init = column_task(CONTEXTS, STRENGTHS, np.zeros((6, 2)), np.zeros((6, 2)))
    found = np.asarray(msfr.predict(task, init, FOREVER, order))
    assert np.all(np.abs(found) <= ROUNDING * np.abs(STRENGTHS))


def test_uniform_start_at_strength_minus_one_is_still_at_order_zero():
    """There q_v = q_w = 0; the exact flow does move, by the diag(1, 0) that order zero lacks."""
    task, init = column_task([5.0], [-1.0], [[0.1, 0.1]], [[0.11, 0.11]])
    found = np.asarray(msfr.predict(task, init, FOREVER, "zeroth"))
    assert np.all(np.abs(found) <= ROUNDING)
    np.testing.assert_allclose(
        msfr.predict(task, init, FOREVER, "exact")[-2:], -np.ones((2, 1)), rtol=1e-12
    )


def test_balanced_start_at_zero_strength_decays_algebraically():
    """Then f = f0 / (1 + 2 a f0 t), a = pψ at order zero and p(ψ + 1) exactly (one mode)."""
    task, init = msfr.Task(6, 1.8, CONTEXTS, np.zeros(6)), msfr.Init(V, V)
    times = np.concatenate([[0.0], np.geomspace(1e-3, 1e9, 15)])
    p = np.asarray(task.weights)
    for order, rate in (("zeroth", CONTEXTS), ("exact", CONTEXTS + 1.0)):
        f0 = rate * V[:, 0] ** 2
        true = f0 / (1.0 + 2.0 * p * rate * f0 * times[:, None])
        # 1e-12: the promise for closed forms, here relative.
        np.testing.assert_allclose(msfr.predict(task, init, times, order), true, rtol=1e-12)


def test_balanced_closed_form_is_order_zero_of_a_balanced_start():
    strengths = np.array([0.5, 0.7, 1.3, 0.2, 2.0, 1e-3])
    task, init = msfr.Task(6, 1.8, CONTEXTS, strengths), msfr.Init(V, V)
    times = np.concatenate([[0.0], np.geomspace(1e-3, 30.0, 15)])
    along = V[:, 0] + strengths * V[:, 1]
    rate = np.asarray(task.weights) * CONTEXTS * (1.0 + strengths**2)
    found = msfr.balanced(
        np.tile(strengths, (16, 1)),
        np.tile(CONTEXTS * along**2, (16, 1)),
        np.tile(rate, (16, 1)),
        np.tile(times[:, None], (1, 6)),
    )
    true = np.asarray(msfr.predict(task, init, times, "zeroth"))
    scale = np.maximum(true[0], strengths)
    np.testing.assert_allclose(np.asarray(found) / scale, true / scale, rtol=0.0, atol=1e-12)


def test_balanced_closed_form_ends_at_the_strength():
    assert float(msfr.balanced(0.5, 2.0, 3.0, 1e300)) == 0.5
    assert float(msfr.balanced(0.5, 2.0, 3.0, 0.0)) == 2.0


@pytest.mark.parametrize("order", ["zeroth", "exact"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_start_within_rounding_of_the_strength_stays_there(order, sign):
    """Balanced (v = w, Λ > 0) and opposite (v = −w, Λ < 0) starts, f(0) a few ulps from Λ."""
    corner = 0.0 if order == "zeroth" else 1.0
    v = np.array([[0.30, 0.01], [0.1, 0.0], [0.4, 0.03], [0.2, 0.1], [0.05, 0.2], [0.6, -0.01]])
    contexts = np.array([2.0, 35.3, 0.7, 1e-12, 1e-9, 1.2])
    strengths = np.zeros(6)
    for _ in range(500):  # Λ = ±(ψ(v₁ + Λv₂)² + v₁²) by iteration
        strengths = sign * (contexts * (v[:, 0] + strengths * v[:, 1]) ** 2 + corner * v[:, 0] ** 2)
    for ulps in range(-4, 5):
        near = strengths + ulps * np.spacing(strengths)
        task, init = column_task(contexts, near, v, sign * v)
        left = np.asarray(msfr.residual(task, init, FOREVER, order))
        # A few ulps of the terms that f is summed from.
        assert np.all(np.abs(left) <= 1e-14 * np.maximum(np.abs(near), contexts * v[:, 0] ** 2))


def test_slopes_of_order_zero_are_right_where_its_factors_are_out_of_range():
    """Rates σ that are next to nothing, and brackets beyond the root of the largest number."""
    slopes = jax.jit(jax.vmap(jax.grad(zeroth_residual, argnums=(0, 1, 3, 4))))
    tiny = np.array([1e-40, 1e-80, 1e-120, 1e-160])
    none, one = np.zeros(4), np.ones(4)
    # At Λ = 0 the flow from x, x has not begun: f − Λ = −Λ but for x² t.
    found = slopes(tiny, tiny, none, none, one, one)
    for slope, wanted in zip(found, (0.0, 0.0, -1.0, 0.0), strict=True):
        np.testing.assert_allclose(slope, wanted, atol=1e-39)
    # Once e^2y is all that is left, d(f − Λ)/d rate = −2σt (f − Λ).
    plus, minus, rate = -1e5 * one, -1e13 * one, 1e-2 * one
    time = np.array([2.0, 4.0, 6.0, 6.4]) * 1e-14
    initial = 0.25 * (plus**2 - minus**2)
    left = jax.jit(jax.vmap(zeroth_residual))(plus, minus, initial, -one, rate, time)
    *_, slope = slopes(plus, minus, initial, -one, rate, time)
    assert float(np.abs(left).min()) < 1e-250
    np.testing.assert_allclose(slope, -1e18 * time * np.asarray(left), rtol=1e-12)
