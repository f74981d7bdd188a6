"""What the figure of invariants is made of, against brute force and high precision."""

import math

import mpmath
import numpy as np
import pytest

from solvable import msfr
from solvable.msfr.figures._conserved import descended, excess_of, gh, moved, parts_across, solved
from solvable.msfr.figures._source_average import average_loss, flow_losses, spectra
from solvable.msfr.figures._varied import varied_amplitude, varied_sums
from solvable.reproduce import figures

LAM = 0.5
U = np.array([1.0, LAM])
MATRIX = 3.0 * np.outer(U, U)
START = np.random.default_rng(0).normal(0.0, 0.4, (2, 3, 2))


def test_a_step_of_descent_multiplies_the_product_and_keeps_what_is_across():
    """Gh (1 − x²)² with x = lr a (f − Λ), whatever the start."""
    lr, (v, w) = 0.03, START
    end = descended(MATRIX, START, LAM, lr, 1)
    x = lr * 3.75 * (np.sum(v * (w @ MATRIX), axis=1) - LAM)
    np.testing.assert_allclose(gh(*end, MATRIX), gh(v, w, MATRIX) * (1 - x**2) ** 2, rtol=1e-12)
    kept = parts_across(v, w, LAM)
    np.testing.assert_allclose(parts_across(*end, LAM), kept, rtol=0.0, atol=1e-15)


def test_changes_are_seen_where_nothing_is_conserved():
    """With another matrix than a multiple of a projection both move."""
    other = MATRIX + np.diag([1.0, 0.0])
    products, across = moved(solved(other, START, LAM), [1.5], other, LAM)
    assert (products > 1e-3).all()
    assert (across > 1e-3).all()
    products, across = moved(solved(MATRIX, START, LAM), [1.5], MATRIX, LAM)
    assert max(products.max(), across.max()) < 1e-11


def test_what_is_lost_is_the_integral_of_the_squared_residual():
    found = excess_of(MATRIX, START, LAM, 1.5)
    lr = 1e-4
    v, w = START
    total = np.zeros(3)
    for _ in range(15_000):
        pull = np.sum(v * (w @ MATRIX), axis=1) - LAM
        total += lr * pull**2
        v, w = v - lr * pull[:, None] * (w @ MATRIX), w - lr * pull[:, None] * (v @ MATRIX)
    np.testing.assert_allclose(found, total, rtol=2e-3)


def test_the_spectrum_is_largest_at_the_task_and_shifts_in_a_circle():
    """(110)."""
    np.testing.assert_allclose(
        spectra(3, 2.0), [[1, 1 / 4, 1 / 9], [1 / 9, 1, 1 / 4], [1 / 4, 1 / 9, 1]]
    )
    np.testing.assert_array_equal(spectra(3, math.inf), np.eye(3))


def test_the_average_over_gaussian_tokens_of_one_task():
    """One feature: moments of χ² and of the query, by hand."""
    context, lam, (v, w) = 7.0, 0.6, np.array([[0.3, 0.2], [0.4, -0.1]])
    x, y = (v[0] + lam * v[1]) * (w[0] + lam * w[1]), v[0] * w[0]
    square = context * (context + 2) * x**2 - 2 * context * x * lam + lam**2
    square += 6 * y * (context * x - lam) + 15 * y**2
    found = average_loss(np.ones(1), np.array([[lam]]), 3.0, context, (v[None, :], w[:, None]))
    assert found == pytest.approx(square / 2, rel=1e-12)


def test_the_average_over_gaussian_tokens_is_that_of_drawn_ones():
    rng = np.random.default_rng(3)
    count, context, decay, data = 3, 6, 1.0, 40_000
    lam, weights = rng.normal(size=(count, count)), np.array([0.5, 0.3, 0.2])
    v, w = rng.normal(0.0, 0.3, (count, count + 1)), rng.normal(0.0, 0.3, (count + 1, count))
    means, errors = [], []
    for s, omega in enumerate(spectra(count, decay)):
        phi = rng.normal(size=(data, context + 1, count)) * np.sqrt(omega)
        target = phi @ lam[s]
        label, query = target[:, -1].copy(), phi[:, -1]
        target[:, -1] = 0.0
        z = np.concatenate([phi, target[..., None]], axis=-1)
        f = np.sum((z @ v[s]) * np.einsum("nci,ik,nk->nc", z, w, query, optimize=True), axis=1)
        square = 0.5 * (f - label) ** 2
        means.append(square.mean())
        errors.append(square.std() / math.sqrt(data))
    found = average_loss(weights, lam, decay, float(context), (v, w))
    error = math.sqrt(np.sum((weights * errors) ** 2))
    assert abs(found - weights @ means) < 4 * error
    assert error < 0.02 * found


def test_without_all_but_one_feature_and_fluctuations_the_flow_is_that_of_msfr():
    """τ = ∞ and ψ = ∞: order zero, with the strengths Λ_{s;s}."""
    count = 4  # of the figure's shapes, so that nothing more is compiled
    strengths = np.random.default_rng(0).normal(size=(count, count))
    task = msfr.Task(count, 1.8, np.ones(count), np.diag(strengths))
    start = (np.full((count, count + 1), 0.3), np.full((count + 1, count), 0.33))
    t = np.append(0.0, np.geomspace(1e-2, 30.0, 60))
    weights = np.asarray(task.weights)
    found = flow_losses(weights, strengths, math.inf, math.inf, start, t)
    true = np.asarray(msfr.loss(task, msfr.Init(0.3, 0.33), t, "zeroth"))
    np.testing.assert_allclose(found, true, rtol=0.0, atol=1e-10 * true[0])


@pytest.mark.parametrize("delta", [0.1, 10.0, 1e7])
@pytest.mark.parametrize(("beta", "gamma"), [(0.0, 0.0), (1.0, 0.0), (0.5, 0.3)])
def test_the_amplitude_is_a_difference_of_polylogarithms(beta, gamma, delta):
    """Γ(ν)[Li_{ν−1}(−Δ) − Li_ν(−Δ)]/2m, and Γ(ν) 2^−ν Δ²/2m for small Δ."""
    m = 1.8 + beta + 3 * gamma
    nu, found = varied_amplitude(1.8, beta, gamma, 1.0, delta, 1.0)
    assert nu == pytest.approx((0.8 + 2 * gamma) / m)
    true = mpmath.gamma(nu) * (mpmath.polylog(nu - 1, -delta) - mpmath.polylog(nu, -delta))
    assert found == pytest.approx(float(mpmath.re(true)) / (2 * m), rel=1e-9)
    tiny = varied_amplitude(1.8, beta, gamma, 1.0, 1e-6, 1.0)[1]
    assert tiny == pytest.approx(math.gamma(nu) * 2**-nu * 1e-12 / (2 * m), rel=1e-5)


def test_the_amplitude_is_that_of_the_time_law_where_tasks_share_everything():
    """β = γ = 0, v = w: κ = 2ZψΛ(1 + Λ²), and Λ² times the amplitude of (17)."""
    task, init = msfr.Task(1000, 1.8, 100.0, LAM), msfr.Init(0.02, 0.02)
    initial = 100.0 * (0.02 * (1 + LAM)) ** 2
    z = float(task.normaliser)
    pace = 2 * z * 100.0 * LAM * (1 + LAM**2)
    nu, found = varied_amplitude(1.8, 0.0, 0.0, pace, LAM / initial - 1.0, z)
    law = msfr.time_law(task, init)
    assert (nu, LAM**2 * found) == pytest.approx((law.exponent, law.amplitude), rel=1e-8)


def test_the_sum_is_taken_over_every_task():
    """The rule against all tasks one by one, value and slope."""
    settings = type("Settings", (), {"alpha": 1.8, "num_tasks": 20_000})
    x, beta, gamma, delta = np.array([1e3, 1e6, 1e9]), 0.5, 0.3, 1e7
    s, m = np.arange(1.0, 20_001.0)[:, None], 1.8 + beta + 3 * gamma

    def brute(x):
        part = delta * np.exp(-x * s**-m)
        return np.sum(s ** -(1.8 + 2 * gamma) * (part / (1 + part)) ** 2, axis=0)

    value, slope = varied_sums(settings, beta, gamma, delta, x)
    np.testing.assert_allclose(value, brute(x), rtol=1e-12)
    step = 1e-5
    numeric = -np.log(brute(x * math.exp(step)) / brute(x * math.exp(-step))) / (2 * step)
    np.testing.assert_allclose(slope, numeric, rtol=1e-6)


def test_kinds_of_the_invariants():
    (figure,) = figures(["msfr/invariants"])
    kinds = {s.id.rpartition("/")[2]: s.kind for s in figure.statements}
    stated = {word for word, kind in kinds.items() if kind == "paper"}
    assert stated == {"product", "across", "msfr-limit", "varied-exponent"}
    assert kinds["time-amplitude"] == kinds["data-amplitude"] == kinds["varied-sum"] == "new"
