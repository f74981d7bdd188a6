"""Exponents of Tables 1 and 2, corrected; the printed forms fail against the loss itself."""

import numpy as np
import pytest

from solvable import msfr

# Laws of long stretches only: measured over decades, in the middle of 10⁵ tasks.
LARGE = 10**5
SMALL_START = msfr.Init(v=1e-5, w=1e-5)


def measured(x, loss):
    """−d log L / d log x over the whole of x."""
    return -np.polyfit(np.log(x), np.log(loss), 1)[0]


@pytest.mark.parametrize("alpha", [1.2, 1.8, 2.1, 5.0])
def test_table_1(alpha):
    found = msfr.exponents(alpha)
    assert found.size == pytest.approx(alpha - 1)
    assert found.time == pytest.approx((alpha - 1) / alpha)
    assert found.data == pytest.approx((alpha - 1) / alpha)
    assert found.compute == pytest.approx((alpha - 1) / (alpha + 1))
    assert found.optimal_size == pytest.approx(1 / (alpha + 1))
    assert found.optimal_time == pytest.approx(alpha / (alpha + 1))


@pytest.mark.parametrize("regime", ["strong", "weak"])
@pytest.mark.parametrize(("alpha", "beta", "gamma"), [(1.8, 0.5, 0.3), (2.1, 1.0, 0.0)])
def test_table_2_corrected(alpha, beta, gamma, regime):
    found = msfr.exponents(alpha, beta, gamma, regime)
    top = alpha + 2 * gamma - 1
    slow = alpha + beta + (3 if regime == "strong" else 1) * gamma
    assert found.size == pytest.approx(top)
    assert found.data == pytest.approx(top / alpha)
    assert found.time == pytest.approx(top / slow)
    # C = D t at its best split: harmonic, and both limits L ∝ t*^-time ∝ D*^-size.
    assert 1 / found.compute == pytest.approx(1 / found.time + 1 / found.size)
    assert found.optimal_size + found.optimal_time == pytest.approx(1.0)
    assert found.optimal_time * found.time == pytest.approx(found.compute)
    assert found.optimal_size * found.size == pytest.approx(found.compute)


@pytest.fixture(scope="module")
def split():
    """The best sizes and times of 10⁴ tasks, in the middle of their range."""
    task, init = msfr.Task(10**4, 1.8, 100.0, 0.5), msfr.Init(v=0.1, w=0.11)
    return msfr.frontier(task, init, np.geomspace(30.0, 3e4, 10), "zeroth")


def test_erratum_5_time_not_size_takes_most_of_the_compute(split):
    """Table 2 prints t* ∝ C^(time/(time+size)) and D* ∝ C^(size/(time+size)): swapped."""
    table = msfr.exponents(1.8)
    time, size = -measured(split.compute, split.time), -measured(split.compute, split.size)
    printed_time, printed_size = table.optimal_size, table.optimal_time
    # Whole D: a step of one in about 40 at the lower end, over three decades.
    assert time == pytest.approx(table.optimal_time, abs=0.01)
    assert size == pytest.approx(table.optimal_size, abs=0.01)
    assert abs(time - printed_time) > 0.2
    assert abs(size - printed_size) > 0.2


def test_erratum_6_the_data_exponent_is_that_of_table_2():
    """(105) prints another exponent than (α + 2γ − 1)/α; γ = 0 would not tell them apart."""
    alpha, gamma = 1.8, 0.5
    law = msfr.data_law(msfr.Task(LARGE, alpha, 100.0, 1.0, gamma=gamma), SMALL_START)
    n = np.geomspace(1e2, 1e5, 10)
    found = measured(n, law.loss(n))
    assert found == pytest.approx((alpha + 2 * gamma - 1) / alpha, rel=0.02)
    assert found == pytest.approx(law.exponent, rel=0.02)
    assert abs(found / ((alpha - 1) / alpha) - 1) > 0.5
    assert abs(found / ((alpha + 2 * gamma - 1) / (alpha + 2 * gamma)) - 1) > 0.3


def test_strong_strengths_follow_the_printed_time_law():
    task = msfr.Task(LARGE, 1.8, 100.0, 1e3, gamma=0.3)
    law = msfr.time_law(task, SMALL_START)
    assert law.regime == "strong"
    t = np.geomspace(*law.window(0.02), 12)
    found = measured(t, law.loss(t))
    assert found == pytest.approx(1.4 / 2.7, rel=0.02)
    assert abs(found / (1.4 / 2.1) - 1) > 0.2


def test_the_rule_of_the_default_regime():
    """Whichever side of |Λ_s| = 1 has more of the tasks, in log s."""
    for strength, gamma, regime in [(0.5, 0.0, "weak"), (30.0, 0.3, "strong"), (-2.0, 0, "strong")]:
        task = msfr.Task(100, 1.8, 10.0, strength, gamma=gamma)
        assert msfr.time_law(task, msfr.Init(v=0.1, w=0.3)).regime == regime
