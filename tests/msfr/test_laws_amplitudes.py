"""Amplitudes without a fitted constant, finite-size forms, and the windows where laws hold."""

import math

import numpy as np
import pytest

from solvable import msfr

pytestmark = pytest.mark.slow

INIT = msfr.Init(v=0.1, w=0.11)
PAPER = msfr.Task(500, 1.8, 100.0, 0.5)
LARGE = msfr.Task(10**5, 1.8, 100.0, 0.5)


@pytest.fixture(scope="module")
def paper_time():
    return msfr.time_law(PAPER, INIT)


@pytest.fixture(scope="module")
def large_time():
    return msfr.time_law(LARGE, INIT)


@pytest.fixture(scope="module")
def large_window(large_time):
    return large_time.window(0.02)


def inside(law, tolerance=0.02, count=9):
    return np.geomspace(*law.window(tolerance), count)


def test_a_law_is_a_power_of_its_amplitude(paper_time):
    x = np.array([0.5, 3.0])
    np.testing.assert_allclose(paper_time(x), paper_time.amplitude * x ** -(4 / 9), rtol=1e-14)


def test_the_curve_of_a_time_law_is_the_loss(paper_time):
    t = np.geomspace(1e-3, 1e3, 7)
    np.testing.assert_allclose(paper_time.loss(t), msfr.loss(PAPER, INIT, t, "zeroth"), rtol=1e-13)


def test_the_local_exponent_is_the_slope_of_the_loss(paper_time):
    t, h = np.geomspace(1e-2, 1e2, 5), 1e-4
    around = np.log(paper_time.loss(t * math.exp(h)) / paper_time.loss(t * math.exp(-h)))
    # Central differences: h² of truncation and 1e-16/h of round-off.
    np.testing.assert_allclose(paper_time.local_exponent(t), -around / (2 * h), rtol=1e-6)


@pytest.mark.slow
def test_the_amplitude_in_time_is_that_of_the_sum(large_time, large_window):
    low, high = large_window
    t = np.geomspace(low, high, 9)
    ratio = large_time(t) / large_time.loss(t)
    # Missing tasks beyond S lower the loss by 2 % of it where they change its slope by 2 %.
    np.testing.assert_allclose(ratio, 1.0, rtol=0.021)
    t = np.geomspace(low, high / 10, 9)
    np.testing.assert_allclose(large_time(t) / large_time.loss(t), 1.0, rtol=0.01)


def test_the_finite_form_is_the_sum_at_500_tasks(paper_time):
    """The midpoint rule's error shows at the first task only, while it is being learned."""
    t = np.geomspace(0.05, 500.0, 41)
    error = np.abs(paper_time.finite(t) / paper_time.loss(t) - 1)
    assert error.max() < 1e-4
    assert error[t > 0.15].max() < 1e-5


def test_the_pure_law_is_a_third_off_at_500_tasks(paper_time):
    t = np.array([5.0])
    assert paper_time(t) / paper_time.loss(t) - 1 == pytest.approx(0.33, abs=0.02)


def test_windows_in_time(paper_time, large_window):
    """The paper's own size shows its exponent over a tenth of a decade; 10⁵ tasks over four."""
    assert 0.0 <= paper_time.decades(0.02) < 0.2
    low, high = large_window
    assert math.log10(high / low) == pytest.approx(4.2, abs=0.15)


def test_a_window_ends_where_the_tolerance_is_spent(paper_time, large_time, large_window):
    low, high = large_window
    miss = np.abs(large_time.local_exponent([low, high]) / large_time.exponent - 1)
    np.testing.assert_allclose(miss, 0.02, atol=1e-3)
    beyond = large_time.local_exponent([low / 1.05, high * 1.05]) / large_time.exponent - 1
    assert np.all(np.abs(beyond) > 0.02)
    narrow, wide = paper_time.window(0.02), paper_time.window(0.05)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_windows_and_amplitude_in_data():
    law = msfr.data_law(LARGE, INIT)
    assert law.exponent == pytest.approx(0.8 / 1.8)
    assert law.decades(0.02) == pytest.approx(3.7, abs=0.15)
    n = inside(law)
    np.testing.assert_allclose(law(n) / law.loss(n), 1.0, rtol=0.021)  # as in time
    p = np.asarray(LARGE.weights)
    e0 = float(msfr.residual(LARGE, INIT, 0.0, "zeroth")[0])
    for count, value in zip(n, law.loss(n), strict=True):
        true = 0.5 * e0**2 * np.sum(p * np.exp(count * np.log1p(-p)))
        assert value == pytest.approx(true, rel=1e-12)


@pytest.mark.parametrize(("shift", "low", "high"), [(0.0, 1.3, 1.5), (0.5, 2.3, 2.6)])
def test_windows_in_size(shift, low, high):
    """The tail sum goes like (D − ½)^(1−α): against D − ½ the law is seen a decade earlier."""
    law = msfr.size_law(LARGE, INIT, shift=shift)
    assert law.exponent == pytest.approx(0.8)
    assert low < law.decades(0.02) < high
    size = np.round(inside(law))
    np.testing.assert_allclose(law(size - shift) / law.loss(size), 1.0, rtol=0.021)


def test_the_size_law_is_the_tail_sum():
    task = msfr.Task(60, 1.8, 20.0, 0.7, beta=0.3, gamma=0.4)
    law = msfr.size_law(task, INIT)
    left = np.asarray(msfr.residual(task, INIT, 0.0, "zeroth")) ** 2 * np.asarray(task.weights)
    true = [0.5 * math.fsum(left[size - 1 :]) for size in range(1, 62)]
    np.testing.assert_allclose(law.loss(np.arange(1, 62)), true, rtol=1e-14)
    assert law.amplitude is None  # the tasks do not share everything
    with pytest.raises(ValueError, match="amplitude"):
        law(3)
    with pytest.raises(ValueError, match="finite"):
        law.finite(3)


def test_the_size_law_is_the_loss_after_long_training():
    task = msfr.Task(60, 1.8, 20.0, 0.7)
    law = msfr.size_law(task, INIT)
    for size in (1, 7, 61):
        long = msfr.loss(task, INIT, 1e9, "zeroth", size=size)
        np.testing.assert_allclose(law.loss([size])[0], long, rtol=1e-13, atol=1e-300)


def test_the_window_of_a_law_seen_nowhere_is_a_point():
    law = msfr.time_law(msfr.Task(60, 1.8, 100.0, 0.5, beta=0.5), msfr.Init(v=1e-5, w=1e-5))
    low, high = law.window(1e-9)  # steeper and steeper, it only passes the law's exponent
    assert low == high
    assert law.decades(1e-9) == 0.0
    assert abs(law.local_exponent([low])[0] / law.exponent - 1) > 1e-9


@pytest.mark.slow
def test_the_exact_order_has_an_amplitude_of_its_own_at_short_context():
    task = msfr.Task(50, 1.8, 5.0, 0.5)
    zeroth, exact = (msfr.time_law(task, INIT, order) for order in ("zeroth", "exact"))
    assert abs(zeroth.amplitude / exact.amplitude - 1) > 0.02
    t = np.geomspace(5.0, 500.0, 7)
    true = msfr.loss(task, INIT, t, "exact")
    # The midpoint rule at the last of 50 tasks is 100 times worse than at the last of 500.
    np.testing.assert_allclose(exact.finite(t), true, rtol=1e-3)
    assert np.abs(zeroth.finite(t) / true - 1).max() > 0.02


@pytest.mark.parametrize(("v", "tasks"), [(1e-5, 10**5), (1e-20, 10**5), (1e-100, 1000)])
def test_local_exponents_follow_sharp_steps(v, tasks):
    """T dL/dt = −Σ p (f − Λ)² p t 2a/p √(f² + C/2), at order zero, where C = 0."""
    task, init = msfr.Task(tasks, 1.8, 100.0, 0.5), msfr.Init(v, v)
    law, p = msfr.time_law(task, init), np.asarray(task.weights)
    for t in (3.0, 172.668, 335.251):
        left = np.asarray(msfr.residual(task, init, t, "zeroth"))
        change = 2.0 * 125.0 * p * t * np.abs(left + 0.5) * left**2
        true = np.sum(p * change) / (0.5 * np.sum(p * left**2))
        assert law.local_exponent(t) == pytest.approx(true, rel=1e-6, abs=1e-6)


def test_the_range_of_a_law_is_found_whichever_task_is_slower():
    """Task 1 waits at Λ ≈ −1 while the last is learned; and nothing overflows where p_S is tiny."""
    slow = msfr.time_law(
        msfr.Task(66, 1.0001, 88826.0, -1 + 1e-12, gamma=1.0), msfr.Init(1e-5, -0.1)
    )
    grid = slow.grid()
    assert np.all(np.diff(grid) > 0.0)
    for law in (
        msfr.time_law(msfr.Task(1000, 10.0, 100.0, -1.0), msfr.Init(0.1, 0.1)),
        msfr.time_law(msfr.Task(1, 1.8, 100.0, 0.0), msfr.Init(1e-20, 1e-20)),
    ):
        low, high = law.window()
        assert 0.0 < low <= high < math.inf
    fast = msfr.time_law(msfr.Task(10**12, 1.8, 1e9, 1e6), msfr.Init(1e3, 1e3))
    assert fast.window(0.02)[0] < 1e-46
