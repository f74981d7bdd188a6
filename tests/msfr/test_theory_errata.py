"""Misprints of the paper: the corrected form agrees with the flow, the printed one does not."""

import numpy as np
import pytest

from solvable import msfr

CONTEXT = 3.0  # short, so that ψ (first − zeroth) = f¹ has not lost its digits
CASES = [(0.5, 0.30, 0.55), (0.5, 0.90, 0.40), (1.4, 0.20, 0.35), (0.8, -0.30, 0.5)]
TIMES = np.append(0.0, np.geomspace(2e-3, 1.5, 15))
VISIBLE = 1e-5  # what a misprint changes at least: 10⁵ times the tolerance of the corrected form


def setting(strength, v, w):
    """One task (p = 1) that starts along (1, Λ), and its quantities as the paper names them."""
    u = np.array([[1.0, strength]])
    task, init = msfr.Task(1, 2.0, [CONTEXT], [strength]), msfr.Init(v * u, w * u)
    norm = 1.0 + strength**2
    g, h = CONTEXT * ((v + w) * norm) ** 2, CONTEXT * ((v - w) * norm) ** 2
    return task, init, g, h, CONTEXT * norm


def by_order(task, init, order):
    return np.asarray(msfr.predict(task, init, TIMES, order))[:, 0]


def roots(strength, g, h, c):
    """λ, P and Q of Theorem 3.1 for a given C."""
    f0 = (g - h) / 4
    lam = np.sqrt(4 * strength**2 + 2 * c)
    p = (4 * f0 * strength + 2 * c + lam * np.sqrt(4 * f0**2 + 2 * c)) / (
        2 * (f0 - strength) * (lam - 2 * strength)
    )
    return lam, p, p * (2 * strength - lam) / (2 * strength + lam)


def theorem(strength, g, h, rate, c):
    """f⁰ of Theorem 3.1."""
    lam, p, q = roots(strength, g, h, c)
    grow = np.exp(rate * lam * TIMES)
    return strength + lam / 2 * (1 / (1 + p * grow) - 1 / (1 + q * grow))


def appendix(strength, g, h, rate, *, sign=1.0, start=1.0, factor=2.0):
    """f¹ of App. J: `sign` of the e^{−2ξt} term of I_z, `start` of I(0), `factor` of m − n."""
    c = g * h / 2
    lam, p, q = roots(strength, g, h, c)
    xi = rate * lam / 2
    k = strength * rate / xi

    def i_u(t):
        up, down = np.exp(2 * xi * t), np.exp(-2 * xi * t)
        return (
            -(q**2) * up * strength * (1 + k)
            + down * strength * (k - 1)
            + 4 * rate * q * t * (strength**2 + c)
        )

    def i_z(t):
        up, down = np.exp(2 * xi * t), np.exp(-2 * xi * t)
        return (
            p**2 * up * strength * (1 - k)
            + sign * down * strength * (1 + k)
            + 4 * rate * p * t * (strength**2 + c)
        )

    m = (i_u(TIMES) - start * i_u(0.0)) / (q * np.exp(xi * TIMES) + np.exp(-xi * TIMES)) ** 2
    n = (i_z(TIMES) - start * i_z(0.0)) / (p * np.exp(xi * TIMES) + np.exp(-xi * TIMES)) ** 2
    return (4 * theorem(strength, g, h, rate, c) + factor * (m - n)) / (4 * (1 + strength**2) ** 2)


@pytest.mark.parametrize("case", CASES)
def test_theorem_needs_c_equal_to_half_of_gh(case):
    """Erratum 2, eq. (40): C = gh/2, where gh = (vᵀHv + wᵀHw)² − 4 f0²."""
    strength, v, w = case
    task, init, g, h, rate = setting(*case)
    true = by_order(task, init, "zeroth")
    norm = (1.0 + strength**2) ** 2 * CONTEXT * (v**2 + w**2)
    f0 = (g - h) / 4
    corrected = (norm**2 - 4 * f0**2) / 2
    scale = max(abs(f0), strength)
    # 1e-11: λ − 2Λ cancels in P.
    np.testing.assert_allclose(
        theorem(strength, g, h, rate, corrected), true, rtol=0.0, atol=1e-11 * scale
    )
    without_half = theorem(strength, g, h, rate, 2 * corrected)
    assert np.max(np.abs(without_half - true)) > VISIBLE
    assert abs((norm - 4 * f0**2) / 2 - corrected) > VISIBLE * corrected  # without the square


@pytest.mark.parametrize("strength", [0.5, 1.4])
def test_balanced_flow_has_twice_the_printed_exponent(strength):
    """Erratum 3, eq. (58): the exponent is −2aΛt."""
    task, init, g, _, rate = setting(strength, 0.2, 0.2)
    true, f0 = by_order(task, init, "zeroth"), g / 4

    def form(exponent):
        return strength / (1 + (strength - f0) / f0 * np.exp(-exponent * rate * strength * TIMES))

    np.testing.assert_allclose(form(2.0), true, rtol=1e-12)
    np.testing.assert_allclose(msfr.balanced(strength, f0, rate, TIMES), true, rtol=1e-12)
    assert np.max(np.abs(form(1.0) - true)) > VISIBLE


@pytest.mark.parametrize("case", CASES)
def test_first_order_is_appendix_j_for_starts_along_the_context(case):
    strength, *_ = case
    task, init, g, h, rate = setting(*case)
    true = CONTEXT * (by_order(task, init, "first") - by_order(task, init, "zeroth"))
    # 1e-10: e^{2ξt} terms cancel in m − n.
    np.testing.assert_allclose(appendix(strength, g, h, rate), true, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "misprint", [{"sign": -1.0}, {"start": 0.0}, {"factor": 1.0}], ids=lambda x: next(iter(x))
)
def test_appendix_j_as_printed_is_not_the_first_order(case, misprint):
    """Erratum 9: the sign in I_z (149), (151), the missing I(0) (150), (151), and (137)'s 2."""
    strength, *_ = case
    task, init, g, h, rate = setting(*case)
    true = CONTEXT * (by_order(task, init, "first") - by_order(task, init, "zeroth"))
    assert np.max(np.abs(appendix(strength, g, h, rate, **misprint) - true)) > VISIBLE


@pytest.mark.parametrize("case", CASES)
def test_first_order_starts_at_the_exact_prediction(case):
    """f¹(0) = v₁w₁, which App. J without I(0) misses."""
    strength, v, w = case
    task, init, g, h, rate = setting(*case)
    change = CONTEXT * (by_order(task, init, "first")[0] - by_order(task, init, "zeroth")[0])
    assert change == pytest.approx(CONTEXT * v * w, rel=1e-12)
    assert appendix(strength, g, h, rate)[0] == pytest.approx(CONTEXT * v * w, rel=1e-12)
    assert abs(appendix(strength, g, h, rate, start=0.0)[0] - CONTEXT * v * w) > VISIBLE
