"""Misprints of the paper: the corrected form agrees with the flow, the printed one does not."""

import math

import numpy as np
import pytest

from solvable import msfr
from solvable.msfr.figures._formulas import AlongContext, laplace

CONTEXT = 3.0  # short, so that ψ (first − zeroth) = f¹ has not lost its digits
CASES = [(0.5, 0.30, 0.55), (0.5, 0.90, 0.40), (1.4, 0.20, 0.35), (0.8, -0.30, 0.5)]
TIMES = np.append(0.0, np.geomspace(2e-3, 1.5, 15))
VISIBLE = 1e-5  # what a misprint changes at least: 10⁵ times the tolerance of the corrected form


def setting(strength, v, w):
    """One task (p = 1) that starts along (1, Λ), and the paper's formulas for it."""
    paper = AlongContext(CONTEXT, strength, v, w)
    u = paper.direction[None, :]
    return msfr.Task(1, 2.0, [CONTEXT], [strength]), msfr.Init(v * u, w * u), paper


def by_order(task, init, order):
    return np.asarray(msfr.predict(task, init, TIMES, order))[:, 0]


def first_order(task, init):
    return CONTEXT * (by_order(task, init, "first") - by_order(task, init, "zeroth"))


@pytest.mark.parametrize("case", CASES)
def test_theorem_needs_c_equal_to_half_of_gh(case):
    """Erratum 2, eq. (40): C = gh/2, where gh = (vᵀHv + wᵀHw)² − 4 f0²."""
    task, init, paper = setting(*case)
    true = by_order(task, init, "zeroth")
    corrected = paper.constant()
    assert corrected == pytest.approx(paper.g * paper.h / 2, rel=1e-12)
    scale = max(abs(paper.g - paper.h) / 4, paper.strength)
    # 1e-11: λ − 2Λ cancels in P.
    np.testing.assert_allclose(paper.theorem(TIMES), true, rtol=0.0, atol=1e-11 * scale)
    product, squares = paper.printed_constants()
    assert np.max(np.abs(paper.theorem(TIMES, product) - true)) > VISIBLE
    assert abs(squares - corrected) > VISIBLE * corrected  # may be negative, of which λ has no root


@pytest.mark.parametrize("strength", [0.5, 1.4])
def test_balanced_flow_has_half_the_printed_exponent(strength):
    """Erratum 3, eq. (58): the exponent is −2aΛt; −2aλt is printed, with λ = 2Λ."""
    task, init, paper = setting(strength, 0.2, 0.2)
    true = by_order(task, init, "zeroth")
    np.testing.assert_allclose(paper.balanced(TIMES), true, rtol=1e-12)
    ours = msfr.balanced(strength, paper.g / 4, paper.rate, TIMES)
    np.testing.assert_allclose(ours, true, rtol=1e-12)
    assert np.max(np.abs(paper.balanced(TIMES, twice=4.0) - true)) > VISIBLE


@pytest.mark.parametrize("case", CASES)
def test_first_order_is_appendix_j_for_starts_along_the_context(case):
    task, init, paper = setting(*case)
    # 1e-10: e^{2ξt} terms cancel in m − n.
    true = first_order(task, init)
    np.testing.assert_allclose(paper.first_order(TIMES), true, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("misprint", [{"sign": -1.0}, {"start": 0.0}], ids=lambda x: next(iter(x)))
def test_appendix_j_as_printed_is_not_the_first_order(case, misprint):
    """Erratum 9: the sign in I_z (149), (151), and the missing I_u(0) (150)."""
    task, init, paper = setting(*case)
    gap = np.max(np.abs(paper.first_order(TIMES, **misprint) - first_order(task, init)))
    assert gap > VISIBLE


@pytest.mark.parametrize("case", CASES)
def test_first_order_starts_at_the_exact_prediction(case):
    """f¹(0) = v₁w₁, which App. J without I(0) misses."""
    _, v, w = case
    task, init, paper = setting(*case)
    assert first_order(task, init)[0] == pytest.approx(CONTEXT * v * w, rel=1e-12)
    assert paper.first_order(TIMES)[0] == pytest.approx(CONTEXT * v * w, rel=1e-12)
    assert abs(paper.first_order(TIMES, start=0.0)[0] - CONTEXT * v * w) > VISIBLE


def test_laplace_is_exact_for_a_gaussian_and_off_for_the_tasks_integral():
    """Errata 4, (76), (83): ∫ s^-α e^{−c s^-α} ds has Γ(1 − 1/α), Laplace's method √(2π)/e."""
    x = np.linspace(-8.0, 8.0, 4001)
    assert laplace(x, np.exp(-0.5 * (x - 1.0) ** 2)) == pytest.approx(np.sqrt(2 * np.pi), rel=1e-4)
    alpha, c = 1.8, 1e4
    s = np.geomspace(1.0, 1e9, 400_000)
    integrand = s**-alpha * np.exp(-c * s**-alpha)
    front = c ** (1 / alpha - 1) / alpha
    assert np.trapezoid(integrand, s) == pytest.approx(front * math.gamma(1 - 1 / alpha), rel=1e-3)
    assert laplace(s, integrand) == pytest.approx(front * np.sqrt(2 * np.pi) / np.e, rel=1e-3)
