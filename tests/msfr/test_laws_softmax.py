"""Laws of softmax attention with keys at rest: amplitudes, windows, frontier, repetition."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

from solvable import msfr
from solvable.msfr.laws._softmax import exponential_repetition, softmax_exponents

START = msfr.SoftmaxInit(value=0.1, key=0.1, query=0.11, width=501)
SATURATED = msfr.SoftmaxInit(value=0.1, key=10.0, query=10.0)
MANY = msfr.Task(10**9, 1.8, 100.0, 0.5)


def test_amplitude_of_saturated_attention_with_long_contexts_and_all_tasks():
    law = msfr.time_law(msfr.Task(2**53, 1.8, 2000.0, 0.5), SATURATED)
    assert law.amplitude == pytest.approx(0.0317584696546, rel=1e-11)  # as printed in full
    assert law.exponent == pytest.approx(0.8 / 1.8)


def test_the_law_of_a_million_tasks_and_their_sum():
    law = msfr.time_law(msfr.Task(10**6, 1.8, 2000.0, 0.5), SATURATED)
    t = np.array([1e2, 1e3, 1e4])
    # The law of all tasks, with Z of a million: 6e-6 beside that of all.
    np.testing.assert_allclose(law(t), [0.00410176, 0.00147410, 5.29763e-4], rtol=1e-5)
    np.testing.assert_allclose(law.loss(t), [0.00410114, 0.00147346, 5.29122e-4], rtol=2e-6)
    # Without the last tasks' end the sum over whole s is the integral from ½ to S + ½.
    np.testing.assert_allclose(law.finite(t), law.loss(t), rtol=1e-6)
    np.testing.assert_allclose(law.finite(1e9), law.loss(1e9), rtol=1e-6)


@pytest.mark.parametrize("width", [501, 60])
def test_amplitude_is_the_mellin_integral_of_both_modes(width):
    init = msfr.SoftmaxInit(0.1, 0.1, 0.11, width=width)
    modes, z = msfr.softmax_modes(msfr.Task(1, 1.8, 20.0, 0.5), init), float(MANY.normaliser)
    rates, errors = np.asarray(modes.rates)[0], np.asarray(modes.errors)[0]

    def part(rate, error):
        # ∫ x^{−δ} e^{−2μx} dx with x = y^{1/(1−δ)}, which has no singularity at 0.
        power = 1.0 - 1.0 / 1.8
        inner = quad(lambda y: np.exp(-2.0 * (y ** (1.0 / power))), 0.0, 10.0, epsabs=1e-13)[0]
        return error * rate**-power * inner / power

    total = sum(map(part, rates, errors))
    amplitude = msfr.time_law(msfr.Task(10**9, 1.8, 20.0, 0.5), init).amplitude
    assert amplitude == pytest.approx(z ** (1 / 1.8) / 3.6 * total, rel=1e-9)


def test_size_and_data_laws_are_sums_with_their_amplitudes():
    size, data = msfr.size_law(MANY, START), msfr.data_law(MANY, START)
    assert (size.exponent, data.exponent) == pytest.approx((0.8, 0.8 / 1.8))
    for d in (1, 500, 10**5):
        assert float(size.loss(d)) == pytest.approx(float(msfr.loss(MANY, START, math.inf, size=d)))
    for n in (1, 100, 10**6):
        assert float(data.loss(n)) == pytest.approx(float(msfr.loss(MANY, START, math.inf, data=n)))
    # Of a tail of 10^9 tasks from D on 1e-4 is missing at D = 10^4; whole D lie ½ beside.
    assert float(size.loss(1e4)) / float(size(1e4 - 0.5)) == pytest.approx(1.0, abs=2e-4)
    assert float(data.loss(1e8)) / float(data(1e8)) == pytest.approx(1.0, abs=1e-3)


def test_local_exponents_are_slopes():
    few = msfr.Task(500, 1.8, 100.0, 0.5)
    for law, x in (
        (msfr.time_law(few, START), np.array([1.0, 30.0, 1e3])),
        (msfr.data_law(few, START), np.array([5.0, 100.0, 1e4])),
    ):
        up, down = law.loss(x * 1.0001), law.loss(x / 1.0001)
        slope = -np.log(up / down) / (2.0 * math.log(1.0001))
        np.testing.assert_allclose(law.local_exponent(x), slope, rtol=1e-7)
    law, d = msfr.size_law(few, START, shift=0.5), np.array([5.0, 100.0])
    slope = np.log(law.loss(d) / law.loss(d + 1.0)) / np.log((d + 0.5) / (d - 0.5))
    np.testing.assert_allclose(law.local_exponent(d), slope, rtol=1e-9)


def test_windows_are_decades_long_at_a_billion_tasks():
    assert msfr.time_law(MANY, START).decades(0.02) > 11.0
    assert msfr.data_law(MANY, START).decades(0.02) > 10.0
    assert 5.0 < msfr.size_law(MANY, START).decades(0.02) < 6.0
    assert msfr.size_law(MANY, START, shift=0.5).decades(0.02) > 6.0
    # At the paper's size there is next to nothing.
    assert msfr.time_law(msfr.Task(500, 1.8, 100.0, 0.5), START).decades(0.02) < 0.5


@pytest.mark.parametrize("beta", [0.5, 1.0])
def test_contexts_do_not_change_the_exponents(beta):
    varied = msfr.Task(10**9, 1.8, 500.0, 0.5, beta=beta)
    law = msfr.time_law(varied, START)
    assert law.exponent == pytest.approx(0.8 / 1.8)
    assert law.amplitude is None
    assert law.decades(0.02) > 4.0


def test_strengths_that_fall_count_while_they_are_larger_than_the_start():
    task = msfr.Task(10**9, 1.8, 100.0, 0.5, gamma=0.5)
    zero = msfr.SoftmaxInit(value=0.0, key=0.1, query=0.11, width=501)
    for init, exponent in ((zero, 1.8 / 1.8), (START, 0.8 / 1.8)):
        law = msfr.time_law(task, init)
        assert law.exponent == pytest.approx(exponent)
        late = float(law.local_exponent(1e12))  # past the crossover, before the end
        assert late == pytest.approx(exponent, rel=0.03)
    strong = msfr.Task(10**9, 1.8, 100.0, 1e6, gamma=0.5)
    law = msfr.time_law(strong, START)
    assert law.regime == "strong"
    assert law.exponent == pytest.approx(1.8 / 2.8)
    assert law.decades(0.02) > 4.0
    assert softmax_exponents(strong, START)[0].data == pytest.approx(1.8 / 1.8)


def test_the_frontier_is_the_best_of_all_sizes():
    task = msfr.Task(60, 1.8, 20.0, 0.5)
    found = msfr.frontier(task, START, [20.0, 500.0])
    for c, size, best in zip(found.compute, found.size, found.loss, strict=True):
        losses = [float(msfr.loss(task, START, c / d, size=d)) for d in range(1, 62)]
        assert best == pytest.approx(min(losses), rel=1e-12)
        assert size == 1 + int(np.argmin(losses))


def test_the_frontier_tends_to_its_law():
    found = msfr.frontier(MANY, START, np.geomspace(1e9, 1e12, 4))
    law = msfr.compute_law(MANY, START)
    assert law.exponent == found.exponent == pytest.approx(0.8 / 2.8)
    np.testing.assert_allclose(found.loss, law(found.compute), rtol=2e-4)
    np.testing.assert_allclose(found.local_exponent, law.exponent, rtol=1e-3)
    slope = np.log(found.size[-1] / found.size[0]) / np.log(1e3)
    assert slope == pytest.approx(found.size_exponent, abs=2e-3)


def test_finite_data_cost_what_one_exponential_says():
    assert float(exponential_repetition(1.8, 1.0)) == pytest.approx(1.22612111352, rel=1e-11)
    assert float(exponential_repetition(1.8, 0.0)) == 1.0
    task = msfr.Task(2**40, 1.8, 2000.0, 0.5)
    for clock in (0.3, 1.0, 10.0):
        data = 10**6
        t = clock * data / 2.5  # 2μ = 2(1 + Λ²)
        ratio = float(msfr.loss(task, SATURATED, t, data=data) / msfr.loss(task, SATURATED, t))
        # Counts are binomial and s whole: of order N^−(1−δ) beside the limit.
        assert ratio == pytest.approx(float(exponential_repetition(1.8, clock)), rel=2e-3)
