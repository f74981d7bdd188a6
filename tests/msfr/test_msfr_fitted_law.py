"""The model's own curve as a law: its values, its slopes, and what a fit finds again."""

import numpy as np
import pytest

from solvable import msfr, scaling

pytestmark = pytest.mark.slow

TRUE = np.array([0.02, 2.0, 1.8, 0.5, 0.3, 3.0])
TIMES = np.geomspace(1e-3, 1e4, 32)


@pytest.fixture(scope="module")
def small():
    return msfr.curve_law(num_tasks=40)


def relative(law, values, x):
    """L/L(0) as `msfr.loss` has it, one size at a time."""
    given = dict(zip(law.parameters, values, strict=True))
    names = ("alpha", "context", "strength", "beta", "gamma")
    parts = {**law.settings, **given}
    task = msfr.Task(law.settings["num_tasks"], **{name: parts[name] for name in names})
    init, order = msfr.Init(parts["v"], parts["w"]), parts["order"]
    places = [column / given[f"unit_{r}"] for r, column in zip(law.resources, x.T, strict=True)]
    columns = dict(zip(law.resources, places, strict=True))
    t = columns.get("t", np.full(len(x), 1e300))
    size = columns.get("D", np.full(len(x), task.num_tasks + 1.0))
    rows = [
        msfr.loss(task, init, float(t[k]), order, size=round(float(size[k]))) for k in range(len(x))
    ]
    first = msfr.loss(task, init, 0.0, order)
    return given["E"] + given["A"] * np.array(rows) / float(first)


def test_the_curve_is_the_loss_of_the_model(small):
    x = TIMES[::4, None]
    # The same sums in another order.
    np.testing.assert_allclose(small.curve(TRUE, x), relative(small, TRUE, x), rtol=1e-13)


def test_the_curve_in_time_and_size_is_the_loss_of_the_model():
    law = msfr.curve_law(("D", "t"), num_tasks=40)
    size, time = np.meshgrid([1.0, 2.0, 7.0, 40.0, 41.0], [0.01, 1.0, 100.0])
    x = np.stack([size.ravel(), time.ravel()], axis=1)
    values = np.array([0.1, 1.5, 1.6, 0.4, 0.2, 1.0, 2.0])
    np.testing.assert_allclose(law.curve(values, x), relative(law, values, x), rtol=1e-13)


def test_between_whole_sizes_the_loss_is_interpolated():
    law = msfr.curve_law(("D",), num_tasks=40)
    values = np.array([0.0, 1.0, 1.6, 0.0, 0.0, 1.0])
    low, middle, high = law.curve(values, np.array([[4.0], [4.25], [5.0]]))
    assert middle == pytest.approx(0.75 * low + 0.25 * high, rel=1e-13)
    assert low > high


def test_the_curve_in_data_is_that_of_the_data_law():
    law = msfr.curve_law(("N",), num_tasks=50)
    task = msfr.Task(50, alpha=1.7, context=100.0, strength=0.5)
    exact = msfr.data_law(task, msfr.Init(0.1, 0.11))
    n = np.array([1.0, 10.0, 1e3])
    values = np.array([0.0, 1.0, 1.7, 0.0, 0.0, 1.0])
    expected = exact.loss(n) / exact.loss(1e-12)
    np.testing.assert_allclose(law.curve(values, n[:, None]), expected, rtol=1e-11)


def test_one_curve_tells_the_three_exponents_apart(small):
    data = {"t": TIMES, "y": small.curve(TRUE, TIMES[:, None])}
    found = scaling.fit(small, data, y="y", loss="squares")
    assert found.status == "converged"
    np.testing.assert_allclose(found.known.values, TRUE, rtol=1e-8)
