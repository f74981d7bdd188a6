"""What the figures of softmax attention are judged by."""

import math

import numpy as np
import pytest
import xarray as xr

from solvable import msfr
from solvable.msfr.figures import _softmax, fig9
from solvable.msfr.figures._softmax import Saturated
from solvable.msfr.task import realised_shares

LONG = msfr.Task(4, 1.8, 12.0, 0.5)
DATA = 60


def train_small(width):
    how = {"lr": 0.05, "steps": 300, "log_every": 100, "data": DATA}
    run = msfr.train(LONG, msfr.SoftmaxInit(0.1, 0.1, 0.11, width), **how)
    late = run.step >= _softmax.SETTLED
    return run.time[late], np.asarray(run.loss)[late]


def test_the_flow_of_saturated_attention_is_training():
    t, trained = train_small(_softmax.WIDTH)
    flow = Saturated.of(LONG)
    predicted = flow.loss(t, shares=realised_shares(LONG, DATA, 0))
    # 1/steps for the steps of descent, which is 1 % at the first of these.
    np.testing.assert_allclose(trained, predicted, rtol=0.01)
    # With the task law instead of the realised shares it would not do.
    assert np.max(np.abs(flow.loss(t) / predicted - 1.0)) > 0.03


def test_the_flow_needs_attention_that_is_saturated_at_the_start():
    t, trained = train_small(5)
    predicted = Saturated.of(LONG).loss(t, shares=realised_shares(LONG, DATA, 0))
    assert np.min(np.abs(trained / predicted - 1.0)) > 0.1


def test_long_contexts_leave_one_mode_along_1_and_the_strength():
    task = msfr.Task(30, 1.8, 60.0, 0.5)
    p, t = np.asarray(task.weights), np.array([0.0, 1.0, 30.0])
    error = 0.5 - 0.1 * 1.5
    plain = [0.5 * np.sum(p * error**2 * np.exp(-2.0 * p * 1.25 * x)) for x in t]
    np.testing.assert_allclose(Saturated.of(task).loss(t), plain, rtol=1e-13)


def test_short_contexts_start_with_the_mean_square_error_over_all_signs():
    task = msfr.Task(1, 1.8, 1.0, 0.5)  # the one token agrees with the query or does not
    start = 0.5 * (0.5 * 0.35**2 + 0.5 * 0.4**2)
    assert Saturated.of(task).loss(0.0)[0] == pytest.approx(start, rel=1e-14)


def test_the_mean_over_data_sets_is_the_sum_over_all_counts():
    flow, data, t = Saturated.of(LONG), 5, 3.0
    mean = 0.0
    for s, p in enumerate(flow.weights):
        for count in range(data + 1):
            chance = math.comb(data, count) * p**count * (1.0 - p) ** (data - count)
            left = np.sum(flow.errors[s] * np.exp(-2.0 * count / data * flow.rates[s] * t))
            mean += chance * 0.5 * p * left
    assert flow.mean_loss(t, data) == pytest.approx(mean, rel=1e-13)


def test_the_frontier_is_the_lower_envelope_of_the_curves_of_all_sizes():
    flow, sizes = Saturated.of(msfr.Task(40, 1.8, 60.0, 0.5)), np.arange(2, 42)
    time = np.geomspace(0.1, 1e4, 2000)
    curves = np.array([flow.loss(time, size=int(size)) for size in sizes])
    compute = np.geomspace(10.0, 1e4, 9)
    lowest, best = _softmax.envelope(compute, sizes, time, curves)
    expected, where = flow.frontier(compute)
    np.testing.assert_allclose(lowest, expected, rtol=1e-5)
    np.testing.assert_array_equal(best, where)


def test_an_exponent_is_read_only_where_theory_shows_its_law():
    x = np.geomspace(1.0, 1e4, 81)
    bent = x**-0.5 * np.where(x > 100.0, (x / 100.0) ** -0.5, 1.0)
    read = _softmax.read_exponent(x, x**-0.52, bent, 0.5)
    assert read.value == pytest.approx(0.52)
    assert (read.low, read.high) == pytest.approx((1.0, 100.0))
    few = x < 3.0
    assert math.isnan(_softmax.read_exponent(x[few], x[few] ** -0.5, x[few] ** -0.5, 0.5).value)
    assert math.isnan(_softmax.read_exponent(x, x**-0.5, x**-0.6, 0.5).value)


def test_a_power_law_is_steady_and_an_exponential_is_not():
    x = np.geomspace(0.1, 10.0, 401)
    assert _softmax.steady_decades(x, 3.0 * x**-0.4) == pytest.approx(2.0)
    # log10(1.2/0.8), read off to one step of the grid.
    assert _softmax.steady_decades(x, np.exp(-x)) == pytest.approx(0.176, abs=0.011)


def curves_of_fig9(exponents):
    """A data set of Fig. 9 whose curves are pure power laws."""
    t = np.geomspace(20.0, 500.0, 60)
    curves = [0.03 * t**-x for x in exponents]
    return xr.Dataset(
        {
            "trained": (("beta", "time"), curves),
            "theory": (("beta", "time"), curves),
            "shortest": ("beta", [500.0, 22.0, 1.0]),
            "tokens": ("token_time", [1.0]),
            "reduced": ("token_time", [1.0]),
        },
        coords={"beta": list(fig9.BETAS), "time": t},
        attrs={"lr": 0.2},
    )


def verdicts_on_beta(data):
    claims = fig9.FIGURE.judge(data)
    judged = [claim for claim in claims if "/exponent-" in claim.id or "/same-" in claim.id]
    assert len(judged) == 4
    return {claim.verdict for claim in judged}


def test_fig9_would_fail_if_table_2_were_softmax_attentions_law():
    table_2 = [0.8 / (1.8 + beta) for beta in fig9.BETAS]
    assert verdicts_on_beta(curves_of_fig9(table_2)) == {"fails"}
    assert verdicts_on_beta(curves_of_fig9([0.8 / 1.8] * 3)) == {"holds"}
