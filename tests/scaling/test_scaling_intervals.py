"""Intervals are honest: they hold the truth as often as they say."""

import math

import numpy as np
import pytest
from scipy import stats

from solvable.scaling import Formula, chinchilla, fit, fitting, power
from solvable.scaling._inference import adjusted
from solvable.scaling.coverage import JUDGED, coverage, table

pytestmark = pytest.mark.slow

SETS = 400  # tables: the share of a true 95 % has a standard error of 1.1 %
LOW, HIGH = 0.915, 0.98


@pytest.fixture
def searched_once(monkeypatch, as_users_run_it):
    """The minimum for a table is found once; each method has its intervals around it."""
    known, search = {}, fitting.minimum_of

    def once(problem, loss, scale, starts=None):
        key = (problem.x.tobytes(), problem.log_y.tobytes(), loss, scale)
        if key not in known:
            known[key] = search(problem, loss, scale, starts)
        return known[key]

    monkeypatch.setattr(fitting, "minimum_of", once)


@pytest.mark.slow
@pytest.mark.usefixtures("searched_once")
@pytest.mark.parametrize(
    ("points", "loss", "methods"),
    [
        (60, "squares", ("delta", "profile", "bootstrap")),
        (60, "huber", ("delta",)),
        (240, "squares", ("delta",)),
        (240, "huber", ("delta", "profile")),
    ],
)
def test_95_percent_intervals_hold_the_truth(points, loss, methods):
    for method in methods:
        # 300 refits a table instead of 1000: the ends are less smooth, the coverage is the same.
        found = coverage(points, sets=SETS, intervals=method, loss=loss, draws=300)
        assert all(LOW <= found.share[name] <= HIGH for name in JUDGED), (method, found)
        assert found.failed == 0


@pytest.mark.usefixtures("searched_once")
@pytest.mark.parametrize(("runs", "least"), [(12, 0.90), (24, 0.915)])
def test_grouped_intervals_hold_the_truth_where_others_do_not(runs, least):
    # At least 90 and 91.5 % of 2000 tables (docs/scaling.md); of 400, two standard errors less.
    least -= 2.0 * math.sqrt(least * (1.0 - least) / SETS)
    found = coverage(240, sets=SETS, runs=runs, loss="squares")
    assert min(found.share.values()) >= least, found
    ignored = coverage(240, sets=100, runs=runs, loss="squares", ignore_runs=True)
    assert max(ignored.share.values()) < 0.85, ignored


def test_profiles_are_where_the_loss_has_risen_by_f():
    data = table(60, 3)
    found = fit(chinchilla(), data, y="y", loss="squares", intervals="profile")
    best = float(np.sum(found.residuals**2))
    rise = 1.0 + stats.f.ppf(0.95, 1, 55) / 55
    for name in found.law.parameters:
        for end in (found.parameters[name].low, found.parameters[name].high):
            held = fit(chinchilla(), data, y="y", loss="squares", pinned={name: end})
            np.testing.assert_allclose(np.sum(held.residuals**2), best * rise, rtol=1e-5)


def test_profile_and_delta_agree_where_the_law_is_nearly_linear():
    x = np.geomspace(1.0, 1e6, 400)
    y = 8.0 * x**-0.3 * np.exp(0.001 * np.random.default_rng(0).standard_normal(400))
    ends = [
        [getattr(found.parameters["a"], end) for end in ("low", "high")]
        for method in ("delta", "profile", "bootstrap")
        for found in [
            fit(power(), {"x": x}, y=y, loss="squares", intervals=method, pinned={"E": 0.0})
        ]
    ]
    width = ends[0][1] - ends[0][0]
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-3 * width)
    np.testing.assert_allclose(ends[2], ends[0], atol=0.1 * width)  # 1000 draws


def test_the_delta_method_is_linear_regression_where_that_is_exact():
    # log y = log A − a log x: a regression line, whose interval is known.
    x = np.geomspace(1.0, 1e3, 30)
    y = 8.0 * x**-0.3 * np.exp(0.05 * np.random.default_rng(1).standard_normal(30))
    found = fit(power(), {"x": x}, y=y, loss="squares", pinned={"E": 0.0})
    line = stats.linregress(np.log(x), np.log(y))
    reach = stats.t.ppf(0.975, 28) * line.stderr
    one = found.parameters["a"]
    np.testing.assert_allclose(
        [one.value, one.low, one.high],
        [-line.slope, -line.slope - reach, -line.slope + reach],
        rtol=1e-8,
    )
    amplitude = found.parameters["A"]
    half = stats.t.ppf(0.975, 28) * line.intercept_stderr
    np.testing.assert_allclose(
        np.log([amplitude.low, amplitude.high]),
        [line.intercept - half, line.intercept + half],
        rtol=1e-8,
    )
    assert found.method == "delta method, t(28)"


def test_cr2_is_what_its_definition_says():
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(7), [3, 5, 2, 8, 4, 6, 2])
    x = np.exp(rng.uniform(0.0, 7.0, 30))
    y = (
        8.0
        * x**-0.3
        * np.exp(0.05 * rng.standard_normal(30) + 0.05 * rng.standard_normal(7)[groups])
    )
    found = fit(power(), {"x": x}, y=y, group=groups, loss="squares", pinned={"E": 0.0})
    design = np.stack([np.ones(30), -np.log(x)], axis=1)
    bread = np.linalg.inv(design.T @ design)
    hat = design @ bread @ design.T
    e = np.log(y) - hat @ np.log(y)
    meat = np.zeros((2, 2))
    for g in range(7):
        at = groups == g
        sizes, vectors = np.linalg.eigh(np.eye(at.sum()) - hat[np.ix_(at, at)])
        score = design[at].T @ (vectors @ ((vectors.T @ e[at]) / np.sqrt(sizes)))
        meat += np.outer(score, score)
    error = np.sqrt((bread @ meat @ bread)[1, 1])
    np.testing.assert_allclose(found.parameters["a"].error, error, rtol=1e-8)
    assert found.method == "CR2, t(6)"
    basis = np.linalg.qr(design)[0]
    grown = adjusted(basis, e, groups)
    np.testing.assert_allclose(adjusted(basis, 2.0 * e, groups), 2.0 * grown)


def test_one_row_a_group_is_no_grouping_but_for_unequal_noise():
    data = table(60, 4)
    alone = fit(chinchilla(), data, y="y", loss="squares")
    each = fit(chinchilla(), data, y="y", group=np.arange(60), loss="squares")
    np.testing.assert_allclose(each.known.values, alone.known.values, rtol=1e-12)
    for name in JUDGED:
        ratio = each.parameters[name].error / alone.parameters[name].error
        assert 0.5 < ratio < 2.0  # its own estimate, of 60 squares


def test_the_same_seed_draws_the_same_intervals():
    data = table(60, 5)
    first, same, other = (
        fit(chinchilla(), data, y="y", intervals="bootstrap", draws=200, seed=seed)
        for seed in (1, 1, 2)
    )
    assert first.parameters == same.parameters
    assert first.parameters["a"].low != other.parameters["a"].low
    assert first.refits == 200


def test_refits_that_do_not_converge_are_searched_again_and_counted(monkeypatch):
    from solvable.scaling import _intervals

    whole = _intervals.refitted

    def hasty(problem, log_y, begin, scale, close):
        found = whole(problem, log_y, begin, scale, close)
        found.converged[::7] = False
        found.coordinates[::7] = begin  # as an unfinished search would leave them
        return found

    monkeypatch.setattr(_intervals, "refitted", hasty)
    data = table(60, 6)
    broken = fit(chinchilla(), data, y="y", intervals="bootstrap", draws=140)
    monkeypatch.undo()
    good = fit(chinchilla(), data, y="y", intervals="bootstrap", draws=140)
    assert (broken.redone, broken.failed, good.redone) == (20, 0, 0)
    for name in JUDGED:
        np.testing.assert_allclose(
            broken.parameters[name].low, good.parameters[name].low, rtol=1e-5
        )


def test_a_resource_whose_unit_no_parameter_takes_is_left_in_its_own():
    import jax.numpy as jnp

    law = Formula(
        name="saturating",
        resources=("x",),
        function=lambda p, x: p["A"] * (1.0 + x["x"]) ** -p["a"] + 0.0 * jnp.ones_like(x["x"]),
        bounds={"A": (0.0, math.inf), "a": (1e-3, 10.0)},
        begin={"a": (0.1, 1.0)},
        linear=("A",),
        exponents=("a",),
        logarithmic=("A",),
    )
    x = np.geomspace(10.0, 1e5, 30)
    found = fit(law, {"x": x}, y=3.0 * (1.0 + x) ** -0.7)
    np.testing.assert_allclose([found["A"], found["a"]], [3.0, 0.7], rtol=1e-10)


def test_profiles_of_grouped_rows_are_refused():
    data = table(60, 7, runs=6)
    with pytest.raises(ValueError, match=r"intervals must be delta or bootstrap for grouped rows"):
        fit(chinchilla(), data, y="y", group="run", intervals="profile")


def test_a_bootstrap_of_groups_is_as_wide_as_cr2():
    data = table(240, 8, runs=24)
    first = fit(chinchilla(), data, y="y", group="run", loss="squares")
    second = fit(chinchilla(), data, y="y", group="run", loss="squares", intervals="bootstrap")
    for name in JUDGED:
        one, other = first.parameters[name], second.parameters[name]
        assert 0.6 < (other.high - other.low) / (one.high - one.low) < 1.6
    assert second.method == "wild bootstrap of 24 groups, 1000 refits, t(23)"
