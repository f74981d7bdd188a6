"""The closed forms against independent solutions of the gradient flow, and their expansion."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from solvable import msfr

pytestmark = pytest.mark.slow

# Unbalanced, entries all different: f(0) below and above Λ, of either sign.
V = np.array([[0.10, 0.07], [0.31, -0.22], [-0.05, 0.12], [0.40, 0.30], [0.02, 0.01], [0.2, -0.1]])
W = np.array([[0.11, -0.03], [0.18, 0.09], [0.21, 0.06], [0.35, 0.50], [0.03, -0.04], [-0.3, 0.1]])
STRENGTHS = np.array([0.5, -0.7, 1.3, 0.2, 2.0, -1.0])


def context_matrix(context, strength, corner=1.0):
    u = np.array([1.0, strength])
    return context * np.outer(u, u) + corner * np.diag([1.0, 0.0])


def flow(matrix, v, w, target, times):
    """v(t) and w(t) of v̇ = (Λ − f) H w, ẇ = (Λ − f) H v, each (times, d), by an ODE solver."""
    d = len(v)

    def velocity(_, state):
        v, w = state[:d], state[d:]
        hv, hw = matrix @ v, matrix @ w
        return (target - v @ hw) * np.concatenate([hw, hv])

    times = np.asarray(times)
    found = solve_ivp(
        velocity,
        (0.0, times[-1]),
        np.concatenate([v, w]),
        method="DOP853",
        t_eval=times,
        rtol=1e-12,
        atol=1e-14,
    )
    assert found.success
    return found.y[:d].T, found.y[d:].T


def predictions(matrix, v, w):
    return np.einsum("ti,ij,tj->t", v, matrix, w)


@pytest.mark.parametrize("context", [2.0, 5.0, 100.0])
@pytest.mark.parametrize("order", ["exact", "zeroth"])
def test_closed_form_matches_the_ode_along_the_trajectory(context, order):
    task = msfr.Task(6, 1.8, np.full(6, context), STRENGTHS)
    times = np.concatenate([[0.0], np.geomspace(1e-3, 60.0, 15) / context])
    found = np.asarray(msfr.predict(task, msfr.Init(V, W), times, order))
    for s in range(6):
        matrix = context_matrix(context, STRENGTHS[s], corner=float(order == "exact"))
        weight = float(task.weights[s])
        v, w = flow(matrix, V[s], W[s], STRENGTHS[s], weight * times)
        true = predictions(matrix, v, w)
        scale = max(abs(true[0]), abs(STRENGTHS[s]))
        # 1e-8: the promise; the solver runs at 1e-12.
        np.testing.assert_allclose(found[:, s], true, rtol=0.0, atol=1e-8 * scale)


def test_exact_flow_reaches_far_from_order_zero_at_short_context():
    """At ψ = 2 the two orders must differ, or the comparison above would prove nothing."""
    task, init = msfr.Task(6, 1.8, np.full(6, 2.0), STRENGTHS), msfr.Init(V, W)
    times = np.linspace(0.0, 2.0, 16)
    exact, zeroth = (msfr.predict(task, init, times, order) for order in ("exact", "zeroth"))
    assert np.abs(np.subtract(exact, zeroth)).max() > 0.05


@pytest.mark.parametrize("kind", ["definite", "indefinite", "negative"])
@pytest.mark.parametrize("target", [0.9, -1.1])
def test_exact_flow_matches_the_ode_for_any_symmetric_matrix(kind, target):
    rng = np.random.default_rng(1)
    basis, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    eigenvalues = {
        "definite": np.array([0.03, 0.4, 0.9, 1.7, 3.0, 8.0]),
        "indefinite": np.array([-4.0, -0.6, -0.05, 0.2, 1.1, 5.0]),
        "negative": -np.array([0.03, 0.4, 0.9, 1.7, 3.0, 8.0]),
    }[kind]
    matrix = (basis * eigenvalues) @ basis.T
    matrix = 0.5 * (matrix + matrix.T)
    v, w = 0.3 * rng.normal(size=(2, 6))
    times = np.concatenate([[0.0], np.geomspace(1e-3, 30.0, 31)])
    found = msfr.exact_flow(matrix, v, w, target=target, t=times, weight=0.4)
    true = predictions(matrix, *flow(matrix, v, w, target, 0.4 * times))
    np.testing.assert_allclose(found, true, rtol=0.0, atol=1e-8 * max(abs(true[0]), abs(target)))
    # The flow must have gone somewhere.
    assert abs(true[-1] - true[0]) > 0.1


def one_mode(target, g, h, rate, times):
    """Theorem 3.1 as the paper writes it: f = Λ + (λ/2)[1/(1 + P e^{λat}) − 1/(1 + Q e^{λat})]."""
    c, f0 = g * h / 2, (g - h) / 4
    lam = np.sqrt(4 * target**2 + 2 * c)
    p = (4 * f0 * target + 2 * c + lam * np.sqrt(4 * f0**2 + 2 * c)) / (
        2 * (f0 - target) * (lam - 2 * target)
    )
    q = p * (2 * target - lam) / (2 * target + lam)
    grow = np.exp(rate * lam * np.asarray(times))
    return target + lam / 2 * (1 / (1 + p * grow) - 1 / (1 + q * grow))


def test_idempotent_like_matrix_follows_one_mode_with_rate_weight_times_eigenvalue():
    """App. H.3: H² = μH gives a = pμ (erratum 10: no further ψ)."""
    rng = np.random.default_rng(2)
    basis, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    matrix = 2.0 * basis[:, :3] @ basis[:, :3].T
    v, w = 0.1 * rng.normal(size=(2, 6))
    times, weight = np.linspace(0.0, 12.0, 32), 0.7
    found = msfr.exact_flow(matrix, v, w, target=1.0, t=times, weight=weight)
    g, h = (v + w) @ matrix @ (v + w), (v - w) @ matrix @ (v - w)
    true = one_mode(1.0, g, h, weight * 2.0, times)
    # 1e-11: the eigenvalues that are zero come out of eigh as 1e-16.
    np.testing.assert_allclose(found, true, rtol=0.0, atol=1e-11)
    assert abs(float(found[0]) - v @ matrix @ w) < 1e-14
    assert abs(float(found[-1]) - 1.0) < 1e-6


def test_parameters_of_order_zero_follow_the_ode():
    context = np.array([2.0, 5.0, 100.0, 3.0, 8.0, 20.0])
    task = msfr.Task(6, 1.8, context, STRENGTHS)
    times = np.concatenate([[0.0], np.geomspace(1e-3, 10.0, 15)])
    v, w = (np.asarray(x) for x in msfr.parameters(task, msfr.Init(V, W), times))
    for s in range(6):
        matrix = context_matrix(context[s], STRENGTHS[s], corner=0.0)
        true_v, true_w = flow(matrix, V[s], W[s], STRENGTHS[s], float(task.weights[s]) * times)
        np.testing.assert_allclose(v[:, s], true_v, rtol=0.0, atol=1e-8)
        np.testing.assert_allclose(w[:, s], true_w, rtol=0.0, atol=1e-8)


def test_parameters_start_at_the_init_and_conserve_the_part_across():
    context = np.array([2.0, 5.0, 100.0, 3.0, 8.0, 20.0])
    task, init = msfr.Task(6, 1.8, context, STRENGTHS), msfr.Init(V, W)
    times = np.concatenate([[0.0], np.geomspace(1e-3, 30.0, 15)])
    v, w = (np.asarray(x) for x in msfr.parameters(task, init, times))
    np.testing.assert_allclose(v[0], V, rtol=0.0, atol=1e-15)
    np.testing.assert_allclose(w[0], W, rtol=0.0, atol=1e-15)
    for x, start in ((v + w, V + W), (v - w, V - W)):
        across = STRENGTHS * x[..., 0] - x[..., 1]
        np.testing.assert_allclose(
            across, np.tile(STRENGTHS * start[:, 0] - start[:, 1], (16, 1)), rtol=0.0, atol=1e-14
        )
    along_v = v[..., 0] + STRENGTHS * v[..., 1]
    along_w = w[..., 0] + STRENGTHS * w[..., 1]
    product = context * along_v * along_w  # vᵀ ψH⁰ w
    true = msfr.predict(task, init, times, "zeroth")
    np.testing.assert_allclose(product, true, rtol=0.0, atol=1e-12)


def test_parameters_of_a_single_time_have_no_time_axis():
    task = msfr.Task(6, 1.8, 5.0, STRENGTHS)
    v, w = msfr.parameters(task, msfr.Init(V, W), 0.3)
    several, _ = msfr.parameters(task, msfr.Init(V, W), [0.1, 0.3])
    assert v.shape == w.shape == (6, 2)
    np.testing.assert_allclose(v, several[1], rtol=1e-14)


STARTS = {
    "uniform": lambda lam: (np.array([0.7, 0.7]), np.array([0.8, 0.8])),
    "along (1, Λ)": lambda lam: (0.7 * np.array([1.0, lam]), 0.5 * np.array([1.0, lam])),
    "generic": lambda lam: (np.array([0.9, -0.3]), np.array([0.2, 0.6])),
}


@pytest.mark.parametrize("start", list(STARTS))
@pytest.mark.parametrize("strength", [0.5, -0.8])
def test_orders_miss_the_exact_flow_by_one_more_power_of_the_context(start, strength):
    """With init ∝ ψ^-1/2 and t ∝ 1/ψ, f0 and a t are fixed and ε = 1/ψ is all that changes."""
    v, w = STARTS[start](strength)
    contexts = np.geomspace(300.0, 1e5, 6)
    errors = {"zeroth": [], "first": []}
    for context in contexts:
        task = msfr.Task(1, 2.0, [context], [strength])
        init = msfr.Init(v[None] / np.sqrt(context), w[None] / np.sqrt(context))
        times = np.geomspace(0.03, 3.0, 16) / context
        exact = msfr.predict(task, init, times, "exact")
        for order, found in errors.items():
            gap = np.subtract(msfr.predict(task, init, times, order), exact)
            found.append(np.abs(gap).max())
    for order, expected in (("zeroth", -1.0), ("first", -2.0)):
        slope = np.polyfit(np.log(contexts), np.log(errors[order]), 1)[0]
        assert abs(slope - expected) < 0.1, (order, slope, errors[order])
