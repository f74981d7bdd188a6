"""Ugly tables: an answer with a status, or one sentence; never a silent nan."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.asked import answers_to, is_one_sentence

from solvable.scaling import Broken, additive, chinchilla, fit, power

pytestmark = pytest.mark.slow

LAWS = {"power": power(), "chinchilla": chinchilla(), "broken": Broken(), "sum": additive("x")}
SIZES = st.sampled_from([1e-25, 1e-9, 1.0, 1e3, 1e12, 1e25])


@st.composite
def ugly(draw, resources):
    """Columns with repetitions, constants, any order, any units, and noise from none to gross."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    count = draw(st.integers(7, 30))
    columns = {}
    for name in resources:
        kind = draw(st.sampled_from(["spread", "two", "constant", "grid", "close"]))
        column = {
            "spread": np.exp(rng.uniform(-4.0, 4.0, count)),
            "two": rng.choice([1.0, 7.0], count),
            "constant": np.ones(count),
            "grid": rng.choice([1.0, 2.0, 4.0, 8.0], count),
            "close": 1.0 + 1e-9 * rng.standard_normal(count),
        }[kind]
        columns[name] = column * draw(SIZES)
    y = draw(st.sampled_from(["power", "noise", "constant", "rising", "steps"]))
    x = columns[resources[0]] / np.exp(np.mean(np.log(columns[resources[0]])))
    shape = {
        "power": 1.0 + x**-0.4,
        "noise": np.exp(rng.standard_normal(count)),
        "constant": np.ones(count),
        "rising": x**0.3,
        "steps": rng.choice([1.0, 1e4], count),
    }[y]
    noise = draw(st.sampled_from([0.0, 1e-3, 0.1, 3.0]))
    return columns, shape * np.exp(noise * rng.standard_normal(count)) * draw(SIZES)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("loss", ["squares", "huber"])
def test_ugly_tables_get_an_answer_that_can_be_trusted(name, loss):
    law = LAWS[name]

    @given(ugly(law.resources))
    def check(drawn):
        columns, y = drawn
        found = fit(law, columns, y=y, loss=loss)
        assert found.status in ("converged", "ill_posed", "at_bound", "not_converged")
        assert (found.status == "converged") == (not found.message)
        assert np.isfinite(found.residuals).all()
        assert np.isfinite(found.rms)
        for key, one in found.parameters.items():
            low, high = law.bounds[key]
            assert not math.isnan(one.low)
            assert not math.isnan(one.high)
            assert low <= one.low <= one.high <= high
            if math.isnan(one.value):
                assert found.status != "converged"
                continue
            assert one.low <= one.value * (1 + 1e-12)
            assert one.value <= one.high * (1 + 1e-12)
            if one.value in (low, high):
                assert found.status in ("at_bound", "not_converged")
        if found.status == "converged":
            assert all(found.parameters[a].low > 0.0 for a in law.exponents)
        ends = found.predict(columns)
        assert np.all(ends.low <= ends.value)
        assert np.all(ends.value <= ends.high)

    check()


def test_a_constant_column_is_ill_posed():
    rng = np.random.default_rng(0)
    x = np.exp(rng.uniform(0.0, 8.0, 40))
    y = (1.0 + x**-0.4) * np.exp(0.01 * rng.standard_normal(40))
    found = fit(chinchilla(), {"N": x, "D": np.full(40, 3e9)}, y=y)
    assert found.status == "ill_posed"
    assert math.isnan(found["b"])
    assert "b" in found.message
    alone = fit(power(), {"x": np.full(40, 3e9)}, y=y)
    assert alone.status == "ill_posed"
    assert all(math.isnan(one.value) for one in alone.parameters.values())
    # What the data do see is still told.
    at = found.predict({"N": [100.0], "D": [3e9]}, kind="curve")
    assert at.high[0] / at.low[0] < 1.05
    away = found.predict({"N": [100.0], "D": [3e10]}, kind="curve")
    assert away.high[0] / away.low[0] > 1e3


def test_an_amplitude_at_its_bound_is_not_dropped_where_it_is_all_there_is():
    rng = np.random.default_rng(3)
    x, y = np.exp(rng.uniform(-4.0, 4.0, 26)), rng.choice([1.0, 1e4], 26)
    found = fit(Broken(), {"x": x}, y=y, loss="squares")
    assert found.status == "at_bound"
    assert np.isfinite(found.residuals).all()
    assert np.all(found.curve({"x": x}) > 0.0)


def test_rows_twice_are_rows():
    rng = np.random.default_rng(1)
    x = np.exp(rng.uniform(0.0, 8.0, 30))
    y = (1.0 + 2.0 * x**-0.4) * np.exp(0.01 * rng.standard_normal(30))
    once = fit(power(), {"x": x}, y=y)
    twice = fit(power(), {"x": np.tile(x, 2)}, y=np.tile(y, 2))
    np.testing.assert_allclose(twice.known.values, once.known.values, rtol=1e-6)


SETUP = """
import numpy as np
from solvable.scaling import fit, power, chinchilla, additive, power_window, local_exponent
x = np.geomspace(1.0, 100.0, 20)
"""
BAD = {
    "fit('power', {'x': x}, y=-x)": r"^y must hold positive finite numbers, not -1 \(row 1\)",
    "fit('power', {'x': x, 'l': x - 1.0}, y='l')": r"^l must hold positive finite .* 0 \(row 1\)",
    "fit('power', {'x': x}, y=x * np.nan)": "^y must hold positive finite numbers, not nan",
    "fit('power', {'x': x[:3]}, y=x[:3])": "^points must be at least 4 for the 3 free parameters",
    "fit('power', {'x': x}, y=x[:5])": "^columns must have one length: x 20, y 5",
    "fit('power', {'x': x}, y='loss')": "^y must be one of x, not 'loss'",
    "fit('power', {'x': x, 'z': x}, y=x)": "^power takes one resource, not x, z",
    "fit('cubic', {'x': x}, y=x)": "^law must be one of power, chinchilla, additive, broken, not",
    "fit('chinchilla', {'N': x}, y=x)": "^chinchilla takes two resources, size and data, not N",
    "fit(chinchilla(), {'N': x}, y=x)": "^columns must hold N, D for chinchilla, not N",
    "fit('power', {'x': ['a'] * 20}, y=x)": "^x must be a column of numbers, not 'a'",
    "fit('power', {'x': x}, y=x, loss='l1')": "^loss must be one of huber, squares, not 'l1'",
    "fit('power', {'x': x}, y=x, intervals='wald')": "^intervals must be one of delta, profile",
    "fit('power', {'x': x}, y=x, level=95)": r"^level must be a number in \(0, 1\), not 95",
    "fit('power', {'x': x}, y=x, draws=10)": "^draws must be a whole number, from 100 to 10000000",
    "fit('power', {'x': x}, y=x, pinned={'e': 1})": "^pinned must be one of E, A, a, not 'e'",
    "fit('power', {'x': x}, y=x, pinned={'a': -1})": r"^a must lie in \[0.001, 10\] to be pinned",
    "fit('power', {'x': x}, y=x, pinned={'A': 0})": "^A must be above 0 to be pinned",
    "fit('power', {'x': x}, y=x, pinned={'E': 1, 'A': 1, 'a': 1})": "^pinned must leave",
    "fit('power', {'x': x}, y=x, hold_out=('smallest', .2))": "^hold_out must be one of largest",
    "fit('power', {'x': x}, y=x, hold_out=.2)": r"^hold_out must be a kind and a share, such as",
    "fit('power', {'x': x}, y=x, hold_out=('largest', 2))": r"^hold_out must be a number in \(0, 1",
    "fit('power', {'x': x}, y=x, group=['a', 'b'] * 10)": "^group must tell at least 3 groups",
    "fit('power', {'x': x}, y=x, weights=-x)": "^weights must hold positive finite numbers",
    "fit('power', {'x': x}, y=x, start={'q': 1})": "^start must be one of E, A, a, not 'q'",
    "fit('power', {'x': x}, y=x, scale=0)": r"^scale must be a number in \(0, 1e\+100\), not 0",
    "fit(7, {'x': x}, y=x)": "^law must be",
    "fit('power', {'x': 1e290 * x}, y=1e290 * (1.0 + x**-0.5))": "^columns must be in units nearer",
    "additive('x', 'x')": "^resources must be one or more different names",
    "power_window(x[:4], x[:4])": "^x must hold at least 6 different numbers, not 4",
    "power_window(x, x[:4])": "^columns must have one length",
    "local_exponent(x, x, share=-1)": "^share must be a number in",
}


@pytest.fixture(scope="module")
def answers():
    return answers_to(list(BAD), SETUP)


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_with_one_sentence(answers, case):
    is_one_sentence(answers[case], BAD[case])


def test_columns_that_vary_only_together_are_said_to():
    rng = np.random.default_rng(2)
    size = np.geomspace(1e7, 1e10, 30)
    y = 1.7 + 400.0 * size**-0.34 + 400.0 * (20.0 * size) ** -0.28
    columns = {"N": size, "D": 20.0 * size}
    found = fit(chinchilla(), columns, y=y * np.exp(0.01 * rng.standard_normal(30)))
    assert found.status in ("ill_posed", "at_bound")
    if found.status == "ill_posed":
        assert found.message.startswith("N and D vary only together")
    exact = fit(chinchilla(), columns, y=y)
    assert exact.status == "ill_posed"
    assert exact.message.startswith("N and D vary only together")


def test_the_exponent_of_an_absent_term_is_not_told():
    rng = np.random.default_rng(3)
    x = np.exp(rng.uniform(0.0, 12.0, 40))
    y = (1.0 + 5.0 * x**-0.4) * np.exp(0.01 * rng.standard_normal(40))
    found = fit(chinchilla(), {"N": x, "D": x.copy()}, y=y)
    for amplitude, exponent in (("A", "a"), ("B", "b")):
        if found[amplitude] == 0.0:
            assert math.isnan(found[exponent])
    assert found.status != "converged"
