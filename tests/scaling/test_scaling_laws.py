"""The laws themselves: their derivatives, their units, what they say at their ends."""

import jax.numpy as jnp
import numpy as np
import pytest

from solvable.scaling import Broken, Formula, Law, additive, chinchilla, power

X = np.geomspace(0.3, 4e3, 9)
ROWS = {
    "power": (power(), [[1.5, 8.0, 0.3], [0.0, 2.0, 1.4]]),
    "chinchilla": (chinchilla(), [[1.69, 4.0, 4.1, 0.34, 0.28]]),
    "additive": (additive("N", "D", "L"), [[1.0, 4.0, 3.0, 2.0, 0.34, 0.28, 1.1]]),
    "broken": (Broken(), [[0.3, 5.0, 0.15, 0.6, 50.0, 0.4], [0.0, 2.0, 0.9, 0.2, 8.0, 0.05]]),
}


def columns(law):
    rng = np.random.default_rng(0)
    return np.stack([X * np.exp(rng.normal(size=len(X))) for _ in law.resources], axis=1)


@pytest.mark.parametrize("name", ROWS)
def test_slopes_are_the_derivatives_of_the_curve(name):
    law, rows = ROWS[name]
    values, x = np.array(rows), columns(law)
    slopes = law.slopes(values, x)
    assert slopes.shape == (len(rows), len(x), len(law.parameters))
    for k in range(len(law.parameters)):
        h = 1e-6 * np.maximum(np.abs(values[:, k]), 0.1)[:, None]
        shift = h * (np.arange(len(law.parameters)) == k)
        difference = (law.curve(values + shift, x) - law.curve(values - shift, x)) / (2.0 * h)
        # Central differences at 1e-6: their own error is 1e-12 of the third derivative, and
        # round-off of 1e-16/1e-6.
        np.testing.assert_allclose(slopes[..., k], difference, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", ROWS)
def test_a_law_rescaled_is_the_same_curve_in_other_units(name):
    law, rows = ROWS[name]
    values, x = np.array(rows), columns(law)
    factors = 10.0 ** np.arange(1.0, 1.0 + len(law.resources))
    moved = law.curve(law.rescaled(values, factors), x * factors)
    np.testing.assert_allclose(moved, law.curve(values, x), rtol=1e-13)


@pytest.mark.parametrize("name", ROWS)
def test_laws_are_linear_in_their_amplitudes(name):
    law, rows = ROWS[name]
    values, x = np.array(rows), columns(law)
    is_linear = np.array([one in law.linear for one in law.parameters])
    twice = law.curve(np.where(is_linear, 2.0 * values, values), x)
    np.testing.assert_allclose(twice, 2.0 * law.curve(values, x), rtol=1e-14)
    assert isinstance(law, Law)


def test_the_broken_law_has_one_exponent_before_its_bend_and_the_other_after():
    law, values = Broken(), np.array([0.0, 5.0, 0.15, 0.6, 100.0, 0.1])
    far = np.array([1e-6, 1e-5, 1e9, 1e10])[:, None]
    logs = np.log(law.curve(values, far))
    early, late = (logs[0] - logs[1]) / np.log(10.0), (logs[2] - logs[3]) / np.log(10.0)
    np.testing.assert_allclose([early, late], [0.15, 0.6], rtol=1e-12)
    # Continuous: the two power laws meet at x0, up to the bend's own 2^(−(c−a)s).
    at_bend = law.curve(values, np.array([[100.0]]))[0]
    np.testing.assert_allclose(at_bend, 5.0 * 100.0**-0.15 * 2.0 ** (-0.45 * 0.1), rtol=1e-13)


def test_the_broken_law_without_a_bend_is_the_power_law():
    x = X[:, None]
    bent = Broken().curve(np.array([1.5, 8.0, 0.3, 0.3, 17.0, 0.4]), x)
    np.testing.assert_allclose(bent, power().curve(np.array([1.5, 8.0, 0.3]), x), rtol=1e-14)


def test_a_formula_gives_the_derivatives_that_are_written_out_elsewhere():
    written, values = power("t"), np.array([[1.5, 8.0, 0.3], [0.2, 1.0, 1.1]])
    made = Formula(
        name="power",
        resources=("t",),
        function=lambda p, x: p["E"] + p["A"] * x["t"] ** -p["a"],
        bounds=dict(written.bounds),
        begin={"a": (0.1, 1.0)},
        linear=("E", "A"),
        exponents=("a",),
        logarithmic=("A",),
    )
    x = X[:, None]
    np.testing.assert_allclose(made.curve(values, x), written.curve(values, x), rtol=1e-14)
    np.testing.assert_allclose(made.slopes(values, x), written.slopes(values, x), rtol=1e-13)
    assert isinstance(made, Law)


def test_a_formula_knows_which_parameters_are_units():
    decay = Formula(
        name="decay",
        resources=("t",),
        function=lambda p, x: p["A"] * jnp.exp(-x["t"] / p["tau"]),
        bounds={"A": (0.0, np.inf), "tau": (0.0, np.inf)},
        begin={"tau": (0.1, 1.0, 10.0)},
        linear=("A",),
        logarithmic=("A", "tau"),
        units={"t": "tau"},
    )
    values, x = np.array([2.0, 3.0]), X[:, None]
    moved = decay.rescaled(values, np.array([1e3]))
    np.testing.assert_allclose(moved, [2.0, 3e3])
    np.testing.assert_allclose(decay.curve(moved, 1e3 * x), decay.curve(values, x), rtol=1e-13)
    middle = np.exp(np.mean(np.log(X)))
    np.testing.assert_allclose(decay.starts(x)[:, 1], np.array([0.1, 1.0, 10.0]) * middle)
