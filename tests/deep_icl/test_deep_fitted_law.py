"""The exact finite-size curves as a law: values, slopes, and what a fit finds again."""

import numpy as np
import pytest

from solvable import deep_icl, scaling

WORDS = {"t": "time", "L": "depth", "N": "width", "P": "context"}
TRUE = np.array([0.02, 2.0, 1.5, 0.8, 3.0])
TIMES = np.geomspace(1e-2, 1e7, 32)


def places(name, dim):
    most = {"t": 1e9, "L": 1e3, "N": 0.95 * dim, "P": 0.95 * dim}[name]
    return np.geomspace(1e-3 if name == "t" else 1.0, most, 15)


@pytest.fixture(scope="module")
def small():
    return deep_icl.curve_law(dim=60)


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


@pytest.mark.parametrize("resources", [("t",), ("L",), ("N",), ("P",), ("P", "t", "L", "N")])
def test_slopes_are_central_differences(resources):
    law, h = deep_icl.curve_law(resources, dim=40), 1e-5
    x = np.stack([places(name, 40) for name in resources], axis=1)
    values = np.array([0.1, 2.0, 1.5, 0.8] + [0.8] * len(resources))
    slopes = law.slopes(values, x)
    for k in range(len(values)):
        shift = h * (np.arange(len(values)) == k)
        difference = (law.curve(values + shift, x) - law.curve(values - shift, x)) / (2.0 * h)
        # Differences are good to h² and to round-off over h.
        assert np.max(np.abs(slopes[:, k] - difference)) < 1e-6 * np.max(np.abs(difference))


def test_a_sum_of_curves():
    law, x = deep_icl.curve_law(("N", "t"), dim=40), np.array([[5.0, 10.0], [20.0, 1e4]])
    values = np.array([0.3, 2.0, 1.2, 0.7, 2.0, 4.0])
    width, time = (deep_icl.law(word, 1.2, 0.7, 40) for word in ("width", "time"))
    expected = 0.3 + 2.0 * (width.loss(x[:, 0] / 2.0) + time.loss(x[:, 1] / 4.0))
    np.testing.assert_allclose(law.curve(values, x), expected, rtol=1e-10)


@pytest.mark.slow
def test_exponents_are_found_from_anywhere(small):
    """Noise-free recovery to 1e-8 from 100 starts of ν, β in [0.02, 3] (within their bounds)."""
    rng, worst = np.random.default_rng(0), 0.0
    data = {"t": TIMES, "y": small.curve(TRUE, TIMES[:, None])}
    for starts in np.exp(rng.uniform(np.log(0.02), np.log(3.0), (100, 2))):
        nu, beta = np.maximum(starts, 0.05).tolist()
        start = {"nu": nu, "beta": beta, "unit_t": 1.0}
        found = scaling.fit(small, data, y="y", loss="squares", start=start)
        assert found.status == "converged"
        worst = max(worst, abs(found["nu"] - 1.5), abs(found["beta"] - 0.8))
    assert worst < 1e-8


def test_half_a_curve_foretells_the_other_half(small):
    y, half = small.curve(TRUE, TIMES[:, None]), len(TIMES) // 2
    found = scaling.fit(small, {"t": TIMES[:half]}, y=y[:half], loss="squares")
    # The early half knows E, 1 % of it, to some 1e-10 at round-off of 1e-16.
    np.testing.assert_allclose(found.curve({"t": TIMES[half:]}), y[half:], rtol=1e-7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"resources": ()}, "resources must be one or more of t, L, N, P"),
        ({"resources": ("t", "t")}, "each once"),
        ({"resources": ("D",)}, "resources must be one of t, L, N, P, not 'D'"),
        ({"dim": 1}, "dim must be a whole number, from 2"),
        ({"dim": 2.5}, "dim must be a whole number"),
    ],
)
@pytest.mark.usefixtures("as_users_run_it")
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        deep_icl.curve_law(**arguments)
