"""Fits find the law: from any start, in any units, with outliers, and say when they cannot."""

import math

import numpy as np
import pytest
from scipy import stats

from solvable.scaling import Broken, Formula, Known, additive, chinchilla, fit, power
from solvable.scaling.coverage import TRUTH, table

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(3)
X = np.geomspace(1.0, 1e6, 60)
N, D, P = (
    np.exp(RNG.uniform(math.log(low), math.log(high), 120))
    for low, high in ((1e7, 1e10), (1e9, 1e12), (1.0, 1e4))
)
TRUE = {
    "power": (power(), {"x": X}, [1.5, 8.0, 0.3]),
    "chinchilla": (chinchilla(), {"N": N, "D": D}, list(TRUTH.values())),
    "additive": (
        additive("N", "D", "P"),
        {"N": N, "D": D, "P": P},
        [1.69, 406.4, 410.7, 2.0, 0.34, 0.28, 0.6],
    ),
    "broken": (Broken(), {"x": X}, [0.3, 5.0, 0.15, 0.6, 2e3, 0.4]),
}


def exact(name):
    law, columns, true = TRUE[name]
    y = law.curve(np.array(true), np.stack(list(columns.values()), axis=1))
    return law, columns, y, dict(zip(law.parameters, true, strict=True))


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("name", TRUE)
def test_noise_free_exponents_are_found_from_200_starts(name):
    law, columns, y, true = exact(name)
    rng, worst = np.random.default_rng(1), 0.0
    for _ in range(200):
        start = np.exp(rng.uniform(math.log(0.02), math.log(3.0), len(law.exponents)))
        found = fit(
            law, columns, y=y, loss="squares", start=dict(zip(law.exponents, start, strict=True))
        )
        assert found.status == "converged"
        worst = max(worst, *(abs(found[a] - true[a]) for a in law.exponents))
    assert worst <= 1e-8


@pytest.mark.parametrize("name", TRUE)
def test_noise_free_laws_are_found_without_a_start(name):
    law, columns, y, true = exact(name)
    found = fit(law, columns, y=y)
    assert found.status == "converged"
    assert found.rms <= 1e-13
    for one, value in true.items():
        np.testing.assert_allclose(found[one], value, rtol=1e-9)


def test_a_fit_can_be_asked_for_by_name():
    _, columns, y, true = exact("chinchilla")
    found = fit("chinchilla", columns | {"loss": y}, y="loss")
    assert found.law == chinchilla()
    np.testing.assert_allclose(found["a"], true["a"], rtol=1e-10)
    more = fit("additive", columns | {"loss": y}, y="loss")
    np.testing.assert_allclose(more["a_D"], true["b"], rtol=1e-10)


@pytest.mark.parametrize("unit", [1e-200, 1e-30, 1e30, 1e150])
def test_another_unit_changes_amplitudes_only(unit):
    data = table(60, 5)
    first = fit(chinchilla(), data, y="y")
    second = fit(chinchilla(), data | {"N": data["N"] * unit, "y": data["y"] * 1e40}, y="y")
    for name in ("a", "b"):
        one, other = first.parameters[name], second.parameters[name]
        np.testing.assert_allclose(
            [other.value, other.low, other.high], [one.value, one.low, one.high], rtol=1e-7
        )
    np.testing.assert_allclose(second["E"], 1e40 * first["E"], rtol=1e-7)
    np.testing.assert_allclose(second["B"], 1e40 * first["B"], rtol=1e-6)
    moved = math.log(first["A"]) + first["a"] * math.log(unit) + math.log(1e40)
    np.testing.assert_allclose(math.log(second["A"]), moved, rtol=1e-6)
    assert second.status == first.status


def test_the_order_of_rows_changes_nothing():
    data = table(60, 6)
    order = np.random.default_rng(0).permutation(60)
    first = fit(chinchilla(), data, y="y")
    second = fit(chinchilla(), {name: column[order] for name, column in data.items()}, y="y")
    np.testing.assert_allclose(second.known.values, first.known.values, rtol=1e-7)
    np.testing.assert_allclose(second.residuals, first.residuals[order], atol=1e-9)


def test_a_fit_is_the_minimum_that_scipy_finds():
    from scipy.optimize import least_squares

    data = table(60, 7)
    x = np.stack([data["N"], data["D"]], axis=1)

    def residual(p):
        values = np.array([math.exp(p[0]), math.exp(p[1]), math.exp(p[2]), p[3], p[4]])
        return np.log(chinchilla().curve(values, x) / data["y"])

    start = [math.log(1.69), math.log(406.4), math.log(410.7), 0.34, 0.28]
    scale = 0.02
    for loss in ("squares", "huber"):
        kind = "linear" if loss == "squares" else "huber"
        other = least_squares(
            residual, start, loss=kind, f_scale=scale, xtol=1e-15, ftol=1e-15, gtol=1e-15
        )
        found = fit(chinchilla(), data, y="y", loss=loss, scale=scale)
        # scipy stops where its cost is flat to 1e-16, which is 1e-8 in the parameters.
        np.testing.assert_allclose([found["a"], found["b"]], other.x[3:], rtol=1e-5)
        np.testing.assert_allclose(found["E"], math.exp(other.x[0]), rtol=1e-5)


@pytest.mark.usefixtures("as_users_run_it")
def test_outliers_move_a_huber_fit_by_less_than_its_standard_error():
    good = {"a": 0, "b": 0}
    squares = {"a": 0, "b": 0}
    for seed in range(200):
        clean, dirty = table(240, seed), table(240, seed, outliers=0.05)
        assert (clean["y"] != dirty["y"]).sum() == 12
        before = fit(chinchilla(), clean, y="y", loss="huber")
        after = fit(chinchilla(), dirty, y="y", loss="huber")
        for name in good:
            good[name] += abs(after[name] - before[name]) < before.parameters[name].error
        if seed < 50:
            pulled = fit(chinchilla(), dirty, y="y", loss="squares")
            for name in squares:
                error = before.parameters[name].error
                squares[name] += abs(pulled[name] - before[name]) < error
    assert min(good.values()) >= 180, good
    assert max(squares.values()) < 30, squares  # without Huber's loss they do move


def test_weights_are_inverse_variances():
    rng = np.random.default_rng(4)
    sigma = np.where(np.arange(60) % 2 == 0, 0.002, 0.1)
    y = (1.5 + 8.0 * X**-0.3) * np.exp(sigma * rng.standard_normal(60))
    columns = {"x": X, "y": y, "w": sigma**-2.0}
    heavy = fit(power(), columns, y="y", weights="w", loss="squares")
    plain = fit(power(), columns, y="y", loss="squares")
    assert heavy.parameters["a"].error < 0.2 * plain.parameters["a"].error
    again = fit(power(), columns, y="y", weights=1e6 * sigma**-2.0, loss="squares")
    np.testing.assert_allclose(again.parameters["a"].high, heavy.parameters["a"].high, rtol=1e-8)
    # A row of weight 2 is the same row twice, but for the degrees of freedom.
    double = np.where(np.arange(60) < 10, 2.0, 1.0)
    twice = np.concatenate([np.arange(60), np.arange(10)])
    one = fit(power(), columns, y="y", weights=double, loss="squares")
    two = fit(power(), {"x": X[twice], "y": y[twice]}, y="y", loss="squares")
    np.testing.assert_allclose(one.known.values, two.known.values, rtol=1e-8)


def test_a_pinned_parameter_is_held_and_said():
    _, columns, y, _ = exact("power")
    noisy = y * np.exp(0.01 * np.random.default_rng(5).standard_normal(len(y)))
    held = fit(power(), columns, y=noisy, pinned={"E": 1.5})
    assert held.parameters["E"].state == "pinned"
    assert held["E"] == held.parameters["E"].low == held.parameters["E"].high == 1.5
    free = fit(power(), columns, y=noisy)
    assert held.parameters["a"].error < free.parameters["a"].error
    amplitude = fit(power(), columns, y=noisy, pinned={"A": 8.0})
    assert amplitude["A"] == 8.0
    assert abs(amplitude["a"] - 0.3) < 0.01
    pure = fit(power(), columns, y=8.0 * X**-0.3, pinned={"E": 0.0})
    np.testing.assert_allclose(pure["a"], 0.3, rtol=1e-12)


def test_a_law_without_floor_ends_at_the_bound_and_says_so():
    y = 8.0 * X**-0.3 * np.exp(0.01 * np.random.default_rng(6).standard_normal(60))
    y *= np.exp(0.02 * np.log(X / 1e3) ** 2 / -30.0)  # bent down: no floor at all
    found = fit(power(), {"x": X}, y=y)
    assert found.status == "at_bound"
    assert found["E"] == 0.0
    assert "E" in found.message
    assert found.parameters["E"].state == "at bound"


def test_a_term_that_is_not_there_is_at_its_bound_and_its_exponent_unknown():
    rng = np.random.default_rng(7)
    y = (1.0 + 300.0 * N**-0.3) * np.exp(0.01 * rng.standard_normal(120))
    y = y * (D / 1e10) ** 0.01  # rises with D: no falling power law
    found = fit(chinchilla(), {"N": N, "D": D}, y=y)
    assert found.status == "at_bound"
    assert found["B"] == 0.0
    assert math.isnan(found["b"])
    assert "b cannot be told" in found.message
    assert np.isfinite(found.curve({"N": N, "D": D})).all()


def test_a_short_range_is_ill_posed():
    x = np.geomspace(1.0, 1.5, 40)
    y = (1.5 + 8.0 * x**-0.3) * np.exp(0.02 * np.random.default_rng(8).standard_normal(40))
    found = fit(power(), {"x": x}, y=y)
    assert found.status in ("ill_posed", "at_bound")
    assert found.message


def test_a_condition_number_above_a_thousand_is_ill_posed_even_without_noise():
    x = np.geomspace(1.0, 1.2, 40)
    found = fit(power(), {"x": x}, y=1.5 + 8.0 * x**-0.3)
    assert found.condition > 1e3
    assert found.status == "ill_posed"
    assert "condition" in found.message


@pytest.mark.usefixtures("as_users_run_it")
def test_the_curve_is_predicted_where_it_was_not_measured():
    inside = 0
    for seed in range(200):
        data = table(60, seed)
        far = {"N": np.array([1e11]), "D": np.array([1e13])}
        found = fit(chinchilla(), data, y="y", loss="squares")
        ends = found.predict(far, kind="curve")
        true = chinchilla().curve(np.array(list(TRUTH.values())), np.array([[1e11, 1e13]]))[0]
        inside += ends.low[0] <= true <= ends.high[0]
        new = found.predict(far)
        assert new.low[0] < ends.low[0] < ends.value[0] < ends.high[0] < new.high[0]
    assert stats.binomtest(inside, 200, 0.95).pvalue > 1e-3, inside


@pytest.mark.usefixtures("as_users_run_it")
def test_prediction_intervals_hold_new_measurements():
    inside = 0
    for seed in range(200):
        data = table(61, seed)
        first = {name: column[:60] for name, column in data.items()}
        found = fit(chinchilla(), first, y="y", loss="squares")
        ends = found.predict({name: data[name][60:] for name in ("N", "D")})
        inside += ends.low[0] <= data["y"][60] <= ends.high[0]
    assert stats.binomtest(inside, 200, 0.95).pvalue > 1e-3, inside


def test_what_is_held_out_is_not_fitted():
    data = table(100, 9)
    found = fit(chinchilla(), data, y="y", hold_out=("largest", 0.2))
    assert found.hold_out is not None
    assert len(found.hold_out.rows) == 20
    assert len(found.residuals) == 80
    product = data["N"] * data["D"]
    assert product[found.hold_out.rows].min() >= np.delete(product, found.hold_out.rows).max()
    rest = {name: np.delete(column, found.hold_out.rows) for name, column in data.items()}
    alone = fit(chinchilla(), rest, y="y")
    np.testing.assert_allclose(found.known.values, alone.known.values, rtol=1e-9)
    assert 0.01 < found.hold_out.rms < 0.04
    assert found.hold_out.inside >= 0.8
    other = fit(chinchilla(), data, y="y", hold_out=("random", 0.2), seed=1)
    assert other.hold_out is not None
    assert set(other.hold_out.rows) != set(found.hold_out.rows)


def test_a_law_of_ones_own_is_fitted():
    import jax.numpy as jnp

    law = Formula(
        name="decay",
        resources=("t",),
        function=lambda p, x: p["E"] + p["A"] * jnp.exp(-x["t"] / p["tau"]),
        bounds={"E": (0.0, np.inf), "A": (0.0, np.inf), "tau": (0.0, np.inf)},
        begin={"tau": (0.1, 1.0, 10.0)},
        linear=("E", "A"),
        logarithmic=("A", "tau"),
        units={"t": "tau"},
    )
    t = np.linspace(1.0, 300.0, 50)
    found = fit(law, {"t": t}, y=0.5 + 2.0 * np.exp(-t / 40.0))
    np.testing.assert_allclose([found["E"], found["A"], found["tau"]], [0.5, 2.0, 40.0], rtol=1e-9)


def test_a_known_law_must_have_all_of_its_values():
    with pytest.raises(ValueError, match=r"values must be 3 numbers, those of E, A, a"):
        Known(power(), np.array([1.0, 2.0]))


def test_a_law_that_misses_the_shape_is_told_by_its_residuals():
    rng = np.random.default_rng(11)
    x = np.geomspace(10.0, 1e6, 60)
    bent = Broken().curve(np.array([0.1, 5.0, 0.1, 0.6, 2e3, 0.3]), x[:, None])
    y = bent * np.exp(0.01 * rng.standard_normal(60))
    wrong, right = fit(power(), {"x": x}, y=y), fit(Broken(), {"x": x}, y=y)
    assert wrong.runs_p is not None
    assert wrong.runs_p < 1e-6
    assert right.runs_p is not None
    assert right.runs_p > 1e-2
    assert fit(power(), {"x": x}, y=y, group=np.arange(60) % 6).runs_p is None


@pytest.mark.usefixtures("as_users_run_it")
def test_runs_of_good_fits_are_as_rare_as_is_said():
    found = [fit(chinchilla(), table(60, seed), y="y").runs_p for seed in range(60)]
    share = np.mean([p is not None and p < 0.05 for p in found])
    assert share <= 0.15, share
