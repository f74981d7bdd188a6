"""The compute-optimal frontier: the best whole D at D·t = C, and its law."""

import numpy as np
import pytest

from solvable import msfr

pytestmark = pytest.mark.slow

INIT = msfr.Init(v=0.1, w=0.11)
SLOW = msfr.Init(v=1e-5, w=1e-5)
COMPUTE = np.geomspace(1e-3, 3e2, 12)
CASES = {
    "equal": (msfr.Task(60, 1.8, 100.0, 0.5), INIT, "zeroth"),
    "flat": (msfr.Task(60, 1.1, 100.0, 0.5), INIT, "zeroth"),
    "sigmoid": (msfr.Task(60, 1.8, 100.0, 0.5), SLOW, "zeroth"),  # a plateau, then all at once
    "decaying": (msfr.Task(60, 1.8, 100.0, 1.0, beta=0.5, gamma=0.3), INIT, "zeroth"),
    "exact": (msfr.Task(60, 1.8, 5.0, 0.5), INIT, "exact"),
}


def every_size(task, init, order):
    """L(C/D, D) for every C and every whole D."""
    sizes = range(1, task.num_tasks + 2)
    losses = [np.asarray(msfr.loss(task, init, COMPUTE / d, order, size=d)) for d in sizes]
    return np.stack(losses, axis=1)


@pytest.mark.parametrize("case", [*list(CASES)[:-1], pytest.param("exact", marks=pytest.mark.slow)])
def test_the_frontier_is_the_least_loss_over_every_whole_size(case):
    task, init, order = CASES[case]
    found = msfr.frontier(task, init, COMPUTE, order)
    losses = every_size(task, init, order)
    # The summation order may differ with the number of times.
    np.testing.assert_allclose(found.loss, losses.min(axis=1), rtol=1e-13)
    at_size = losses[np.arange(len(COMPUTE)), found.size - 1]
    np.testing.assert_allclose(at_size, losses.min(axis=1), rtol=1e-13)  # ties may go either way
    np.testing.assert_array_equal(found.time, COMPUTE / found.size)
    np.testing.assert_array_equal(found.compute, COMPUTE)
    assert found.size.min() >= 1
    assert found.size.max() <= 61
    assert len(set(found.size.tolist())) >= 5  # a frontier that moves


def test_the_frontier_is_a_loss_of_the_theory():
    task, init, order = CASES["equal"]
    found = msfr.frontier(task, init, COMPUTE, order)
    for size, t, value in zip(found.size, found.time, found.loss, strict=True):
        true = msfr.loss(task, init, t, order, size=int(size))
        assert value == pytest.approx(float(true), rel=1e-13)


@pytest.fixture(scope="module")
def long():
    task = msfr.Task(10**4, 1.8, 100.0, 0.5)
    return msfr.frontier(task, INIT, np.geomspace(3.0, 300.0, 7), "zeroth")


def test_the_local_exponent_tends_to_the_law(long):
    assert long.exponent == pytest.approx(0.8 / 2.8)
    np.testing.assert_allclose(long.local_exponent, long.exponent, rtol=0.03)


def test_the_amplitude_is_that_of_the_frontier(long):
    law = long.amplitude * long.compute**-long.exponent
    np.testing.assert_allclose(law, long.loss, rtol=0.02)


def test_the_compute_law_is_the_frontier(long):
    task = msfr.Task(10**4, 1.8, 100.0, 0.5)
    law = msfr.compute_law(task, INIT)
    assert law.resource == "compute"
    assert law.exponent == long.exponent
    assert law.amplitude == pytest.approx(long.amplitude, rel=1e-12)
    np.testing.assert_allclose(law.loss(long.compute), long.loss, rtol=1e-12)
    np.testing.assert_allclose(law.local_exponent(long.compute), long.local_exponent, rtol=1e-9)


def test_the_printed_size_shows_the_compute_law_nowhere():
    """At S = 500 the frontier follows its law to 2 % over less than a tenth of a decade."""
    law = msfr.compute_law(msfr.Task(500, 1.8, 100.0, 0.5), INIT)
    assert law.decades(0.02) < 0.1


def test_tasks_that_differ_have_no_amplitude():
    task, init, order = CASES["decaying"]
    found = msfr.frontier(task, init, COMPUTE, order)
    assert found.amplitude is None
    assert found.exponent == pytest.approx(msfr.exponents(1.8, 0.5, 0.3, "weak").compute)


def test_more_compute_is_never_worse():
    for case in ("equal", "sigmoid"):
        loss = msfr.frontier(*CASES[case][:2], COMPUTE, "zeroth").loss
        assert np.all(np.diff(loss) <= 0.0)


def test_a_frontier_with_nothing_left_to_learn_is_zero_without_a_warning():
    task, init, order = CASES["equal"]
    found = msfr.frontier(task, init, np.full(12, 1e12), order)
    assert np.all(found.loss < 1e-300)
    assert np.all(found.size == 61)
