"""How laws are judged: the window by one rule, over how much of the way a law is seen."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from solvable import msfr
from solvable.msfr.figures import crossover
from solvable.msfr.figures._judging import (
    RULES,
    WITHIN,
    Window,
    lag,
    log_points,
    rules,
    sights,
    window_of,
    window_on,
)
from solvable.msfr.figures._labels import all_labelled, of_label
from solvable.msfr.figures._split import (
    cut_sizes,
    frontier_of_law,
    lower_envelope,
    split_exponents,
)
from solvable.msfr.figures._witness import descended, descended_loss
from solvable.reproduce import Quote, Statement, corrected

X = np.geomspace(1e-4, 1e6, 81)
TASK, INIT = msfr.Task(1000, 1.8, 100.0, 0.5), msfr.Init(0.1, 0.11)


def bent(low, high, inside=0.5):
    """A local exponent that is right between `low` and `high` and leaves steeply outside."""
    away = np.maximum(np.log10(low / X), 0.0) + np.maximum(np.log10(X / high), 0.0)
    return inside + away


def test_the_window_is_where_the_exponent_is_within_two_per_cent():
    # Outside, 2 % of 0.5 is used up within 0.01 decades.
    assert window_on(X, bent(1e-1, 1e3), 0.5) == pytest.approx((1e-1, 1e3), rel=0.03)


def test_the_longest_window_is_taken():
    low, high = window_on(X, np.where((X < 1e-2) | (X > 1e1), 0.5, 0.8), 0.5)
    assert low > 1e1
    assert high == pytest.approx(1e6)


def test_an_exponent_that_is_off_is_seen_nowhere():
    low, high = window_on(X, bent(1e-1, 1e3, inside=0.511), 0.5)
    assert low == high
    assert Window(low, high, 0.511).words("x").startswith("Nowhere; closest at x = ")


def test_infinite_exponents_at_the_end_are_left_out():
    low, high = window_on(X, np.where(X > 1e5, np.inf, 0.5), 0.5)
    assert low == pytest.approx(X[0])
    assert high == pytest.approx(X[X <= 1e5][-1])


def test_a_law_is_to_rule_over_half_of_the_way():
    said = Statement("msfr/fig/law", "L ∝ x^-0.5", "Fig.", "paper")
    long, short = Window(1e-1, 1e3, 0.5), Window(1.0, 1e1, 0.5)
    assert said.judged(rules("x", {"": (long, 7.9)})).verdict == "holds"
    assert said.judged(rules("x", {"": (long, 8.1)})).verdict == "fails"
    claim = said.judged(rules("x", {"a": (long, 5.0), "b": (short, 5.0)}))
    assert claim.verdict == "fails"  # the worst case counts
    assert claim.measured == pytest.approx(0.2)
    assert claim.expected == RULES
    assert "a: 4.0 of 5.0 decades (x = 0.1 … 1000, there 0.5 on average); b: " in claim.note


def test_a_printed_exponent_must_not_be_seen():
    quote = Quote("L ∝ x^(−1)", "Fig.")
    said = Statement("msfr/fig/law", "L ∝ x^(−½)", "Fig.", "paper", quote)
    finding = rules("x", {"": (Window(1e-1, 1e3, 0.5), 6.0)})
    assert said.judged(corrected(finding, 0.0)).verdict == "holds corrected"
    assert said.judged(corrected(finding, 0.6)).verdict == "fails"


def test_log_points_are_whole_and_have_both_ends():
    points = log_points(5000, 100)
    assert points[0] == 0
    assert points[-1] == 5000
    assert np.all(np.diff(points) > 0)


def test_the_lag_of_gradient_descent_is_in_units_of_its_step_over_the_time():
    """(1 − lr r)^(2t/lr) is below e^(−2rt) by lr r²t of it; the start does not count."""
    lr, rate, steps = 1e-4, 2.0, np.array([0, 100, 5000])
    t = lr * steps
    trained, flow = (1.0 - lr * rate) ** (2 * steps), np.exp(-2.0 * rate * t)
    assert lag(t, lr, trained, flow) == pytest.approx((rate * t[-1]) ** 2, rel=1e-3)
    assert lag(t, lr, flow * np.array([9.0, 1.0, 1.0]), flow) == 0.0


def test_a_sight_of_a_law_is_what_the_law_says():
    law = msfr.data_law(TASK, INIT)
    other = dataclasses.replace(law, exponent=0.9)
    get = of_label(all_labelled({"a": sights({"N": law, "wrong": other}, per_decade=3)}), "a")
    np.testing.assert_array_equal(get("local_N"), law.local_exponent(get("law_N")))
    np.testing.assert_array_equal(get("loss_N"), law.loss(get("law_N")))
    assert float(get("amplitude_N")) == law.amplitude
    found = window_of(get, "N")
    assert (found.low, found.high) == law.window(WITHIN)
    assert found.decades == pytest.approx(law.decades(WITHIN))
    assert found.mean == pytest.approx(law.exponent, rel=WITHIN)
    assert window_of(get, "wrong").decades < 0.1 < found.decades


def test_a_window_between_two_points_of_the_grid_has_the_nearest_exponent():
    columns = {"law_x": X, "local_x": bent(1.0, 1.0), "window_x": np.array([1.01, 1.02])}
    assert window_of(columns.__getitem__, "x").mean == pytest.approx(0.5)


def test_the_split_has_the_slopes_of_the_frontier():
    c = np.geomspace(1.0, 1e6, 25)
    columns = {"law_C": c, "local_C": np.full(25, 0.3), "window_C": np.array([1.0, 1e6])}
    columns |= {"split_size": c**0.4, "split_time": c**0.6}
    assert split_exponents(columns.__getitem__) == pytest.approx((0.4, 0.6))
    columns["window_C"] = np.array([2.0, 2.0])
    assert np.isnan(split_exponents(columns.__getitem__)).all()


def test_the_frontier_of_a_law_is_the_frontier():
    found = frontier_of_law(TASK, INIT, "zeroth", 1, 0.8 / 2.8)
    best = msfr.frontier(TASK, INIT, found.law_C.values, "zeroth")
    np.testing.assert_array_equal(found.split_size, best.size)
    np.testing.assert_allclose(found.loss_C, best.loss, rtol=1e-12)


def test_sizes_are_cut_as_a_smaller_model_is_trained():
    t, sizes = np.array([0.0, 0.3, 5.0]), np.array([1, 2, 40, 1001])
    left = np.asarray(msfr.residual(TASK, INIT, t))
    found = cut_sizes(left.T, np.asarray(TASK.weights), sizes)
    for k, size in enumerate(sizes):
        np.testing.assert_allclose(found[:, k], msfr.loss(TASK, INIT, t, size=size), rtol=1e-12)


def test_the_grid_of_a_law_spans_its_range():
    for law in (msfr.time_law(TASK, INIT), msfr.size_law(TASK, INIT), msfr.data_law(TASK, INIT)):
        coarse, fine = law.grid(2), law.grid(8)
        assert np.all(np.diff(coarse) > 0.0)
        assert coarse[0] == fine[0]
        assert coarse[-1] == fine[-1]
        assert len(coarse) < len(fine)
        assert np.log10(coarse[-1] / coarse[0]) > 2.5


HOW = (20.0, 0.5, (0.1, 0.11), 5e-3)
STEPS = np.array([0, 1, 7, 60, 200])


def test_descended_is_gradient_descent():
    """By the reduction's training, on the population and on a data set."""
    task = msfr.Task(6, 1.5, HOW[0], HOW[1])
    for data, shares in ((None, task.weights), (40, msfr.task.realised_shares(task, 40, 3))):
        run = msfr.train(task, INIT, lr=HOW[3], steps=200, log_every=1, data=data, seed=3)
        left = descended(np.asarray(shares), *HOW, STEPS)
        true = np.asarray(run.predictions)[:, STEPS].T - HOW[1]
        np.testing.assert_allclose(left, true, rtol=0, atol=1e-13)


def test_the_loss_of_many_tasks_at_nodes_is_their_sum():
    """224 nodes in place of 3000 tasks, also where all but the last are learned."""
    weights = np.asarray(msfr.Task(3000, 1.8, HOW[0], HOW[1]).weights)
    steps = np.array([0, 10, 200, 2000])
    whole = 0.5 * descended(weights, *HOW, steps) ** 2 @ weights
    np.testing.assert_allclose(descended_loss(3000, 1.8, *HOW, steps), whole, rtol=1e-12)


@pytest.mark.parametrize("strength", [1.0, 1000.0])
def test_task_s_is_half_learned_when_the_crossover_says_so(strength):
    """F = Λ/2 at t_s, and the exponent is (α+2γ−1) over the slope of log t_s, by differences."""
    settings = SimpleNamespace(**crossover.fig.values("quick"))
    task = msfr.Task(400, settings.alpha, settings.context, strength, gamma=0.3)
    s, z = np.array([1.0, 30.0, 400.0]), float(task.normaliser)
    t, exponent = crossover._half_learned(settings, 0.3, strength, s, z)
    for place, time in zip(s.astype(int), t, strict=True):
        f = np.asarray(msfr.predict(task, msfr.Init(*settings.init), time, "zeroth"))[place - 1]
        assert f == pytest.approx(0.5 * float(task.strengths[place - 1]), rel=1e-9)
    step = 1e-5
    ends = [
        crossover._half_learned(settings, 0.3, strength, s * np.exp(shift), z)[0]
        for shift in (-step, step)
    ]
    slope = (np.log(ends[1]) - np.log(ends[0])) / (2 * step)
    np.testing.assert_allclose(exponent, (settings.alpha + 0.6 - 1.0) / slope, rtol=1e-8)


def test_the_task_at_the_end_of_a_window_is_one_of_all():
    """Also among the last, of which the comparison of exponents leaves some out."""
    settings = SimpleNamespace(**crossover.fig.values("quick"))
    task = msfr.Task(settings.num_tasks, settings.alpha, settings.context, 1.0, gamma=0.3)
    s = np.array([50.0, 0.5 * settings.num_tasks])
    t, _ = crossover._half_learned(settings, 0.3, 1.0, s, float(task.normaliser))
    np.testing.assert_allclose(crossover._at_ends(settings, 0.3, 1.0, t, task), s, rtol=1e-3)


def test_the_lower_envelope_is_the_least_loss_of_all_sizes():
    t, members = np.geomspace(1e-3, 10.0, 200), np.array([5, 20, 80])
    curves = members[None, :] ** -0.8 + t[:, None] ** -0.4
    whole = np.concatenate([np.full((1, 3), 9.0), curves])
    columns = {"time": np.append(0.0, t), "member": members, "trained_member": whole}
    c, value, size = lower_envelope(columns.__getitem__)
    for budget, least, best in zip(c[5:-5], value[5:-5], size[5:-5], strict=True):
        inside = members[(budget / members <= t[-1]) & (budget / members >= t[0])]
        true = inside**-0.8 + (budget / inside) ** -0.4
        assert least == pytest.approx(true.min(), rel=1e-3)
        assert best == inside[true.argmin()]
