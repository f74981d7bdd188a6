import json
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from solvable import scaling
from solvable.scaling import Broken, Cost, Formula, Known, additive, chinchilla, plan, power
from solvable.scaling.stored import described, from_document, to_document

pytestmark = pytest.mark.slow

CHINCHILLA = np.array([1.69, 406.4, 410.7, 0.34, 0.28])
SPREAD = np.diag([0.05, 0.02, 0.02, 0.002, 0.002]) ** 2


def best_size(budget, values=CHINCHILLA):
    """N* = G (C/6)^(b/(a+b)), G = (aA/(bB))^(1/(a+b)): Hoffmann et al. (2022), eq. (4)."""
    _, a_size, b_size, a, b = np.moveaxis(np.asarray(values), -1, 0)
    return (a * a_size / (b * b_size)) ** (1.0 / (a + b)) * (budget / 6.0) ** (b / (a + b))


def table(seed=0, noise=0.005):
    rng = np.random.default_rng(seed)
    grids = np.meshgrid(np.geomspace(1e7, 1e9, 6), np.geomspace(1e9, 1e11, 6))
    size, data = (grid.ravel() for grid in grids)
    loss = chinchilla().curve(CHINCHILLA, np.stack([size, data], axis=1))
    return {"N": size, "D": data}, loss * np.exp(noise * rng.normal(size=len(size)))


def test_the_closed_form_of_chinchilla():
    budget = np.geomspace(1e3, 1e27, 9)
    best = plan(Known(chinchilla(), CHINCHILLA), budget, "6*N*D")
    assert best.status == ("ok",) * 9
    size, data = best.allocation["N"].value, best.allocation["D"].value
    # The loss is flat at the optimum: its place is known to the square root of round-off, but the
    # slope is brought below 1e-11, and with it the place.
    assert size == pytest.approx(best_size(budget), rel=1e-9)
    assert 6.0 * size * data == pytest.approx(budget, rel=1e-12)
    assert best.closed == pytest.approx(0.34 * 0.28 / 0.62, rel=1e-12)
    assert best.exponent.value == pytest.approx(best.closed, rel=1e-8)
    assert best.growth["N"].value == pytest.approx(0.28 / 0.62, rel=1e-7)
    assert best.growth["D"].value == pytest.approx(0.34 / 0.62, rel=1e-7)


def test_no_place_of_a_fine_grid_is_better():
    cost = "6*N*D + 40*N**1.2*D**0.5 + 1e9*N"
    best = plan(Known(chinchilla(), CHINCHILLA), 1e20, cost)
    size = np.geomspace(1e6, 1e10, 20001)
    data = Cost(cost).amounts("D", 1e20, {"N": size})
    seen = data > 0.0
    x = np.stack([size[seen], data[seen]], axis=1)
    losses = chinchilla().curve(CHINCHILLA, x)
    assert 0.0 <= losses.min() - best.loss.value[0] < 1e-7
    assert best.allocation["N"].value[0] == pytest.approx(x[np.argmin(losses), 0], rel=1e-3)


def test_three_resources_against_a_constrained_minimiser():
    law, values = additive("N", "D", "L"), np.array([0.5, 3.0, 8.0, 1.5, 0.34, 0.28, 0.7])
    best = plan(Known(law, values), 1e9, "6*N*D*(L + 3)")

    def loss(y):
        return float(np.log(law.curve(values, np.exp(y)[None])[0] - 0.5))

    def spent(y):
        return math.log(6.0) + y[0] + y[1] + math.log(math.exp(y[2]) + 3.0) - math.log(1e9)

    found = minimize(
        loss,
        [8.0, 8.0, 1.0],
        method="SLSQP",
        constraints={"type": "eq", "fun": spent},
        options={"ftol": 1e-15, "maxiter": 500},
    )
    ours = [math.log(best.allocation[name].value[0]) for name in law.resources]
    assert ours == pytest.approx(found.x.tolist(), abs=1e-4)
    assert math.log(best.loss.value[0] - 0.5) <= found.fun + 1e-12


def test_exponents_are_the_slopes_between_budgets():
    law, values = additive("N", "D", "L"), np.array([0.5, 3.0, 8.0, 1.5, 0.34, 0.28, 0.7])
    step = 1e-3
    budgets = 1e9 * np.exp([-step, 0.0, step])
    best = plan(Known(law, values), budgets, "6*N*D*(L + 3)")
    rise = np.log(best.loss.value - 0.5)
    # Central differences over ±1e-3 err by their square; the optimum by 1e-11/1e-3.
    assert best.exponent.value[1] == pytest.approx(-(rise[2] - rise[0]) / (2 * step), abs=1e-7)
    for name in law.resources:
        logs = np.log(best.allocation[name].value)
        slope = (logs[2] - logs[0]) / (2.0 * step)
        assert best.growth[name].value[1] == pytest.approx(slope, abs=1e-6)
    assert best.closed is None


def test_intervals_against_draws_of_the_parameters():
    known = Known(chinchilla(), CHINCHILLA, SPREAD, math.inf, 0.95)
    best = plan(known, 1e21, "6*N*D")
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(20000, 5)) * np.sqrt(np.diag(SPREAD))
    draws = np.where([False, True, True, False, False], CHINCHILLA * np.exp(noise), 0.0)
    draws = np.where(draws > 0.0, draws, CHINCHILLA + noise)
    size = best_size(1e21, draws)
    exponent = draws[:, 3] * draws[:, 4] / (draws[:, 3] + draws[:, 4])
    data = 1e21 / 6.0 / size
    loss = draws[:, 0] + draws[:, 1] * size ** -draws[:, 3] + draws[:, 2] * data ** -draws[:, 4]

    def spread(interval):
        return math.log(interval.high[0] / interval.low[0]) / (2.0 * 1.959964)

    # 20000 draws know a standard deviation to 0.5 %, of which this is four; and they are not far
    # from linear here.
    assert spread(best.allocation["N"]) == pytest.approx(np.std(np.log(size)), rel=0.02)
    assert spread(best.loss) == pytest.approx(np.std(np.log(loss)), rel=0.02)
    width = (best.exponent.high[0] - best.exponent.low[0]) / (2.0 * 1.959964)
    assert width == pytest.approx(np.std(exponent), rel=0.02)


def test_intervals_without_covariance_are_the_values():
    best = plan(Known(chinchilla(), CHINCHILLA), 1e21, "6*N*D")
    assert best.loss.low == best.loss.value == best.loss.high
    assert best.exponent.low == best.exponent.high


def test_what_a_twofold_mistake_costs():
    best = plan(Known(chinchilla(), CHINCHILLA), 1e21, "6*N*D")
    size, data = (best.allocation[name].value[0] for name in ("N", "D"))

    def at(size, data):
        return 1.69 + 406.4 * size**-0.34 + 410.7 * data**-0.28

    by_hand = [at(size / 2, data * 2), at(size * 2, data / 2)]
    mistake = best.mistakes["N"]
    assert mistake.loss[0] == pytest.approx(by_hand, rel=1e-12)
    assert mistake.ratio[0] == pytest.approx(np.array(by_hand) / best.loss.value[0], rel=1e-12)
    assert best.mistakes["D"].loss[0] == pytest.approx(by_hand[::-1], rel=1e-12)
    # The frontier is L − E ∝ C^-c exactly: the budget of the same loss by hand.
    share = ((np.array(by_hand) - 1.69) / (best.loss.value[0] - 1.69)) ** (-0.62 / (0.34 * 0.28))
    assert mistake.budget[0] == pytest.approx(share, rel=1e-8)
    assert best.valley("N", [0.5, 1.0, 2.0]) == pytest.approx(
        [by_hand[0], best.loss.value[0], by_hand[1]], rel=1e-12
    )


def test_the_others_are_the_best_for_a_mistake():
    law, values = additive("N", "D", "L"), np.array([0.5, 3.0, 8.0, 1.5, 0.34, 0.28, 0.7])
    best = plan(Known(law, values), 1e9, "6*N*D*L")
    size = 2.0 * best.allocation["N"].value[0]
    left = power_pair(values, 1e9 / 6.0 / size)
    by_hand = 0.5 + 3.0 * size**-0.34 + left
    assert best.mistakes["N"].loss[0, 1] == pytest.approx(by_hand, rel=1e-10)
    assert best.mistakes["N"].loss[0, 1] > best.loss.value[0]


def power_pair(values, budget):
    """The least of ``8 D^-b + 1.5 L^-c`` where D L is the budget, on a fine grid."""
    data = np.geomspace(1e-3 * budget, budget, 2_000_001)
    return float(np.min(values[2] * data ** -values[5] + values[3] * (budget / data) ** -values[6]))


def test_one_resource_has_no_choice():
    best = plan(Known(power("D"), np.array([1.0, 2.0, 0.5])), [10.0, 1000.0], "5*D**2")
    assert best.allocation["D"].value == pytest.approx([math.sqrt(2.0), math.sqrt(200.0)])
    assert best.exponent.value == pytest.approx(0.25, rel=1e-9)
    assert best.mistakes == {}
    bent = plan(Known(Broken("x"), np.array([1.0, 2.0, 0.5, 0.2, 10.0, 0.3])), 1e9, "x")
    assert bent.exponent.value == pytest.approx(0.2, rel=1e-6)


def test_a_law_with_corners_is_planned_by_its_values():
    """The loss falls in steps: whole numbers of N, between which it is a straight line."""

    def function(p, x):
        whole = jnp.floor(x["N"])
        stairs = (1.0 + whole) ** -0.5
        slope = (2.0 + whole) ** -0.5 - stairs
        return p["E"] + p["A"] * (stairs + slope * (x["N"] - whole) + x["D"] ** -0.5)

    bounds = {"E": (0.0, math.inf), "A": (0.0, math.inf)}
    law = Formula("stairs", ("N", "D"), function, bounds, {}, linear=("E", "A"))
    best = plan(Known(law, np.array([0.0, 1.0])), 300.0, "N*D", least={"N": 1.0})
    assert best.status == ("ok",)
    size = np.geomspace(1.0, 300.0, 200_001)
    values = law.curve(np.array([0.0, 1.0]), np.stack([size, 300.0 / size], axis=1))
    assert best.loss.value[0] <= values.min() + 1e-12
    assert best.allocation["N"].value[0] == pytest.approx(size[np.argmin(values)], rel=1e-3)
    assert 0.1 < best.exponent.value[0] < 0.4
    assert 0.3 < best.mistakes["N"].budget[0, 0] < 1.0


def test_the_least_that_makes_sense_is_kept():
    known = Known(chinchilla(), CHINCHILLA)
    free = plan(known, 1e3, "6*N*D")
    held = plan(known, 1e3, "6*N*D", least={"N": 1e3})
    assert free.allocation["N"].value[0] < 100.0
    assert held.allocation["N"].value[0] == pytest.approx(1e3, rel=1e-9)
    assert held.allocation["D"].value[0] == pytest.approx(1.0 / 6.0, rel=1e-9)
    assert held.growth["N"].value[0] == 0.0


def test_what_has_no_optimum_says_so():
    gone = np.array([1.69, 406.4, 0.0, 0.34, 0.28])
    best = plan(Known(chinchilla(), gone), 1e20, "6*N*D")
    assert best.status == ("no optimum: the loss falls without end as N grows",)
    assert np.isnan(best.loss.value[0])
    even = Known(additive("N", "D"), np.array([0.0, 1.0, 1.0, 0.5, 0.5]))
    level = plan(even, 1e4, lambda N, D: (N**-0.5 + D**-0.5) ** -2)
    assert level.status == ("flat: other allocations of this budget are as good",)


def test_where_the_data_end_is_told():
    columns, loss = table()
    fit = scaling.fit(chinchilla(), columns, y=loss)
    best = plan(fit, [1e18, 1e24], "6*N*D")
    assert best.outside is not None
    assert best.outside[0] == {}
    assert set(best.outside[1]) == {"N", "D"}
    assert best.outside[1]["N"] == pytest.approx(best.allocation["N"].value[1] / 1e9)
    low, high = best.allocation["N"].low[0], best.allocation["N"].high[0]
    assert low < best_size(1e18) < high


def test_a_fit_is_stored_and_read_back():
    columns, loss = table()
    fit = scaling.fit(chinchilla(), columns, y=loss, hold_out=("largest", 0.2))
    document = json.loads(json.dumps(to_document(fit), allow_nan=False))
    assert {"law", "status", "parameters", "residual_rms", "hold_out"} <= set(document)
    assert described(document) == ("chinchilla", ("N", "D"), {})
    known = from_document(document, chinchilla())
    assert known.values.tolist() == fit.known.values.tolist()
    assert known.covariance is not None
    assert known.covariance.tolist() == fit.known.covariance.tolist()
    assert (known.degrees, known.level) == (fit.known.degrees, fit.known.level)
    assert known.ranges == fit.known.ranges
    first, second = plan(fit, 1e21, "6*N*D"), plan(known, 1e21, "6*N*D")
    assert first.allocation["N"].high == second.allocation["N"].high


def test_a_term_that_is_not_there_is_stored_as_none():
    size = np.geomspace(1e6, 1e9, 12)
    columns = {"N": size, "D": np.geomspace(1e8, 1e9, 12)[::-1] * np.linspace(1.0, 3.0, 12)}
    fit = scaling.fit(chinchilla(), columns, y=1.0 + 406.4 * size**-0.34)
    document = to_document(fit)
    assert document["values"]["B"] == 0.0
    assert "no optimum" in plan(from_document(document, chinchilla()), 1e20, "6*N*D").status[0]


BAD: dict[str, Any] = {
    "law must be a fit": [1, 2],
    "not one with a, b": {"a": 1, "b": 2},
    "resources is missing": {"law": "power"},
    "values must be those of E, A, a": {"law": "power", "resources": ["x"]},
    "values must be 3 finite": {
        "law": "power",
        "resources": ["x"],
        "values": {"E": 1.0, "A": None, "a": 0.5},
    },
    "covariance must be 3 × 3": {
        "law": "power",
        "resources": ["x"],
        "values": {"E": 1.0, "A": 1.0, "a": 0.5},
        "covariance": [[1.0]],
    },
    "level is out of range": {
        "law": "power",
        "resources": ["x"],
        "values": {"E": 1.0, "A": 1.0, "a": 0.5},
        "level": 2.0,
    },
}


@pytest.mark.parametrize("sentence", BAD)
def test_what_is_no_stored_fit_is_refused(sentence, as_users_run_it):
    with pytest.raises(ValueError, match=sentence):
        from_document(BAD[sentence], power("x"))


@pytest.mark.parametrize(
    ("budget", "cost", "sentence"),
    [
        (1e20, "6*N", "cost must contain D, of which there would be no limit, not '6.N'"),
        (1e20, "6*N*D*L", "cost must be an expression of numbers, .* names N, D, not '6.N.D.L'"),
        (1e20, "N/D", "cost must rise with D"),
        (1e20, 3.0, "cost must be an expression"),
        (1e20, lambda N, x: N * x, "cost must be a function of arguments named N, D, not x"),
        (0.0, "N*D", "budget must be one positive number or more, not 0.0"),
        ([], "N*D", "budget must be one positive number"),
        ("much", "N*D", "budget must be one positive number or more, not 'much'"),
    ],
)
def test_bad_input_is_named(budget, cost, sentence, as_users_run_it):
    with pytest.raises(ValueError, match=sentence):
        plan(Known(chinchilla(), CHINCHILLA), budget, cost)


def test_a_function_costs_what_its_expression_costs():
    known = Known(chinchilla(), CHINCHILLA)
    text = plan(known, 1e20, "6*N*D + N**1.5")
    code = plan(known, 1e20, lambda D, N: 6.0 * N * D + N**1.5)
    assert code.allocation["N"].value == pytest.approx(text.allocation["N"].value, rel=1e-9)


def test_mixtures_are_no_monomials():
    assert Cost("6*(N + D)").monomial is None
    assert Cost("6*N*D").monomial == {"N": 1.0, "D": 1.0}
    assert Cost("N**(1/3)*D").monomial == pytest.approx({"N": 1.0 / 3.0, "D": 1.0}, rel=1e-10)
    even = plan(Known(additive("N", "D"), np.array([0.0, 1.0, 1.0, 0.5, 0.5])), 1e20, "6*(N + D)")
    assert even.allocation["N"].value[0] == pytest.approx(1e20 / 12.0, rel=1e-9)
    part = Cost("6*(N - 5e7)*D")
    assert part.amounts("D", 6e8, {"N": np.array([1e7, 6e7])}) == pytest.approx([math.inf, 10.0])


@settings(max_examples=25)
@given(
    a=st.floats(0.05, 3.0),
    b=st.floats(0.05, 3.0),
    ratio=st.floats(-5.0, 5.0),
    budget=st.floats(-20.0, 40.0),
    unit=st.floats(-20.0, 20.0),
    floor=st.sampled_from([0.0, 1.0, 1e6]),
    cost=st.sampled_from(["6*N*D", "N**2*D", "N*(D + N)", "N + D"]),
)
def test_every_plan_meets_its_budget(a, b, ratio, budget, unit, floor, cost):
    values = np.array([floor, 1.0, math.exp(ratio), a, b])
    best = plan(Known(chinchilla(), values), math.exp(budget), cost)
    assert best.status == ("ok",)
    place = {name: float(one.value[0]) for name, one in best.allocation.items()}
    assert Cost(cost)(place) == pytest.approx(math.exp(budget), rel=1e-9)
    for mistake in best.mistakes.values():
        assert (mistake.ratio[0] >= 1.0 - 1e-12)[np.isfinite(mistake.ratio[0])].all()
    if best.closed is not None:
        assert best.exponent.value[0] == pytest.approx(best.closed, rel=1e-8)
        # Another unit of N changes the amount by it, and nothing else.
        k = math.exp(unit)
        moved = np.array([floor, k**a, math.exp(ratio), a, b])
        power = Cost(cost).monomial["N"]  # pyright: ignore[reportOptionalSubscript]
        there = plan(Known(chinchilla(), moved), math.exp(budget) * k**power, cost)
        assert there.allocation["N"].value[0] == pytest.approx(k * place["N"], rel=1e-7)
        assert there.loss.value == pytest.approx(best.loss.value, rel=1e-10)
