"""The exact finite-size curves as a law: values, slopes, and what a fit finds again."""

import numpy as np
import pytest

from solvable import deep_icl

pytestmark = pytest.mark.slow

WORDS = {"t": "time", "L": "depth", "N": "width", "P": "context"}


def places(name, dim):
    most = {"t": 1e9, "L": 1e3, "N": 0.95 * dim, "P": 0.95 * dim}[name]
    return np.geomspace(1e-3 if name == "t" else 1.0, most, 15)


@pytest.mark.parametrize("name", ["t", "L", "N", "P"])
@pytest.mark.parametrize("dim", [40, 10**5])
def test_curves_are_those_of_the_laws(name, dim):
    """Against nodes of their own and Brent's roots, up to the steepest spectra."""
    law, x = deep_icl.curve_law((name,), dim=dim), places(name, dim)
    for nu, beta in [(0.3, 0.3), (1.0, 1.0), (1.5, 0.8), (4.0, 0.05), (2.5, 3.0), (4.0, 5.0)]:
        exact = deep_icl.law(WORDS[name], nu, beta, dim).loss(x)
        mine = law.curve(np.array([0.0, 1.0, nu, beta, 1.0]), x[:, None])
        # Sums over the two sets of nodes are right to 1e-10; below 1e-12 a loss is none.
        np.testing.assert_allclose(mine, exact, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("name", ["t", "L", "N", "P"])
def test_curves_start_at_one_and_end(name):
    law = deep_icl.curve_law((name,), dim=40)
    values, x = np.array([0.0, 1.0, 1.5, 0.8, 1.0]), np.geomspace(1e-6, 1e12, 400)
    curve = law.curve(values, x[:, None])
    assert curve[0] == pytest.approx(1.0, abs=1e-5)
    assert np.all(np.diff(curve) <= 0.0) or name == "P"  # few tokens may be worse than none
    assert curve[-1] < 1e-6
    assert np.all(np.isfinite(law.slopes(values, x[:, None])))


def test_a_sum_of_curves():
    law, x = deep_icl.curve_law(("N", "t"), dim=40), np.array([[5.0, 10.0], [20.0, 1e4]])
    values = np.array([0.3, 2.0, 1.2, 0.7, 2.0, 4.0])
    width, time = (deep_icl.law(word, 1.2, 0.7, 40) for word in ("width", "time"))
    expected = 0.3 + 2.0 * (width.loss(x[:, 0] / 2.0) + time.loss(x[:, 1] / 4.0))
    np.testing.assert_allclose(law.curve(values, x), expected, rtol=1e-10)
