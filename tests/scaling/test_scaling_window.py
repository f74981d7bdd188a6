"""Where a power law can be seen."""

import numpy as np
from scipy import stats

from solvable.scaling import local_exponent, longest_window, power_window

X = np.geomspace(1.0, 1e6, 61)


def noisy(clean, seed, noise=0.01):
    return clean * np.exp(noise * np.random.default_rng(seed).standard_normal(len(clean)))


def test_a_power_law_is_rejected_as_often_as_is_said():
    whole = sum(power_window(X, noisy(3.0 * X**-0.4, seed)).decades > 5.99 for seed in range(200))
    assert stats.binomtest(200 - whole, 200, 0.05).pvalue > 1e-3, whole


def test_the_window_ends_where_the_curve_bends():
    for seed in range(10):
        window = power_window(X, noisy((1.0 + 0.03 * X) ** -0.5, seed))
        # The local exponent is 0.5/(1 + 33/x): 0.48 at x = 800.
        assert 100.0 < window.low < 5e3
        assert window.high > 1e5
        assert abs(window.exponent - 0.5) < 0.01
        assert window.p_value >= 0.05
        assert window.exponent_low < window.exponent < window.exponent_high


def test_what_is_bent_everywhere_has_no_window():
    window = power_window(X, np.exp(-0.2 * np.log(X) ** 2))
    assert window.low == window.high
    assert window.points == 0
    assert np.isnan(window.exponent)


def test_runs_that_differ_are_not_taken_for_a_bend():
    # Six runs over a decade each, with an effect of their own: the joints look like bends.
    rejected = {True: 0, False: 0}
    group = np.repeat(np.arange(12), 10)
    for seed in range(100):
        rng = np.random.default_rng(seed)
        x = np.sort(np.exp(rng.uniform(0.0, 14.0, 120)))
        y = 3.0 * x**-0.4 * np.exp(0.02 * rng.standard_normal(12)[group])
        y = noisy(y, seed + 1000, 0.005)
        for grouped in (True, False):
            window = power_window(x, y, group=group if grouped else None)
            rejected[grouped] += window.low > x[0] or window.high < x[-1]
    assert rejected[True] <= 20, rejected
    assert rejected[False] >= 40, rejected


def test_bands_of_the_local_exponent_hold_it():
    inside = np.zeros(3)
    for seed in range(200):
        local = local_exponent(X, noisy(X**-0.4, seed), at=[1.0, 1e3, 1e6])
        inside += (local.low <= 0.4) & (local.high >= 0.4)
    for count in inside:
        assert stats.binomtest(int(count), 200, 0.95).pvalue > 1e-3, inside


def test_the_local_exponent_follows_a_bend():
    local = local_exponent(X, (1.0 + 0.03 * X) ** -0.5)
    true = 0.5 * 0.03 * local.x / (1.0 + 0.03 * local.x)
    # A quadratic over 30 % of six decades: what it cannot follow is about this much.
    np.testing.assert_allclose(local.exponent, true, atol=0.03)


def test_thousands_of_rows_are_averaged():
    x = np.exp(np.random.default_rng(0).uniform(0.0, 14.0, 50_000))
    y = noisy(3.0 * x**-0.4, 1, 0.3)
    window = power_window(x, y)
    assert window.decades > 5.5
    assert abs(window.exponent - 0.4) < 3e-3


def test_the_longest_window_is_where_an_exponent_is_near_a_law():
    low, high = longest_window(np.geomspace(1.0, 1e4, 49), lambda x: 0.5 + 1.0 / x, 0.5, 0.02)
    np.testing.assert_allclose([low, high], [100.0, 1e4], rtol=0.01)


def test_an_s_is_no_power_law():
    # Local exponents of 0.15, then 0.6, then back to 0.2.
    curve = 0.05 + 5.0 * X**-0.15 * (1.0 + (X / 2e3) ** 2.0) ** -0.225
    for seed in range(5):
        y = noisy(curve, seed)
        window = power_window(X, y)
        inside = (window.low * 0.999 <= X) & (window.high * 1.001 >= X)
        line = np.polyfit(np.log(X[inside]), np.log(y[inside]), 1)
        left = np.log(y[inside]) - np.polyval(line, np.log(X[inside]))
        assert np.std(left) < 0.03  # of noise of 0.01
        assert window.points == inside.sum()
