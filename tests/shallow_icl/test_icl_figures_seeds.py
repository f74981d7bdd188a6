"""What seeds say of a mean and of a power law: by hand, and how often it is right."""

import numpy as np
import pytest

from solvable.shallow_icl.figures._seeds import beyond, mean_of, power_law, slope_of

SIZES = np.array([1250.0, 5000.0, 20_000.0])


def test_a_mean_is_within_what_is_told_99_times_in_100():
    """Of 20,000 samples, so that 0.99 is met to 0.003, four standard errors."""
    draw = np.random.default_rng(0)
    for runs, among in ((5, 1), (24, 1), (24, 3)):
        mean, error = mean_of(draw.normal(2.0, 3.0, (20_000, among, runs)))
        inside = np.all(np.abs(mean - 2.0) <= beyond(runs, among) * error, axis=1)
        # Bonferroni's bound is a little cautious for several.
        assert inside.mean() == pytest.approx(0.99, abs=0.003)


def test_a_slope_is_the_mean_of_the_slopes_of_the_seeds():
    values = np.stack([3.0 * SIZES**-1.2, 5.0 * SIZES**-0.8, 0.1 * SIZES**-1.0], axis=1)
    slope, error = slope_of(SIZES, values)
    assert slope == pytest.approx(-1.0, abs=1e-12)
    assert error == pytest.approx(0.2 / 3**0.5, abs=1e-12)


def test_a_power_law_is_told_from_that_of_the_square_root():
    """Scatter by a factor e either way, as that of the gaps of Fig. 1, at 24 seeds."""
    draw = np.random.default_rng(1)
    right, wrong = [], []
    for _ in range(400):
        values = np.exp(draw.normal(0.0, 1.0, (3, 24))) / SIZES[:, None]
        found = power_law(SIZES, values, -1.0)
        right.append(abs(found.measured - found.expected) <= found.tolerance)
        found = power_law(SIZES, values, -0.5)
        wrong.append(abs(found.measured - found.expected) <= found.tolerance)
    assert np.mean(right) >= 0.975  # 0.99 less three standard errors
    assert np.mean(wrong) <= 0.25
