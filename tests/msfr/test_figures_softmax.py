"""What the figures of softmax attention are judged by: that they can fail, and for what."""

import numpy as np
import pytest
import xarray as xr

from solvable import msfr
from solvable.msfr.figures import _softmax, fig8, fig9
from solvable.msfr.figures._softmax import AtRest, in_steps, mean_exponent, start
from solvable.msfr.task import realised_shares


def verdicts(figure, parts, *words):
    """The verdicts of the claims whose ids begin with some words, on made-up data."""
    data = xr.merge([xr.Dataset(part) for part in parts])
    data = data.assign_attrs(settings=figure.values("default"))
    claims = [c for c in figure.judge(data) if c.id.rpartition("/")[2].startswith(words)]
    assert all(claim.measured == claim.measured for claim in claims), [c.note for c in claims]
    return {claim.id.rpartition("/")[2]: claim.verdict for claim in claims}


def test_keys_at_rest_with_the_tasks_own_shares_are_the_loss():
    task = msfr.Task(30, 1.8, 12.0, 0.5, beta=0.5)
    rest = AtRest(task, start())
    for t in (0.0, 3.0, 200.0):
        assert rest.loss(t, task.weights) == pytest.approx(float(msfr.loss(task, start(), t)))


@pytest.mark.slow
def test_keys_at_rest_with_realised_shares_are_training():
    task, data = msfr.Task(8, 1.8, 100.0, 0.5), 60
    run = msfr.train(task, start(), lr=0.05, steps=400, log_every=100, data=data)
    shares = realised_shares(task, data, 0)
    rest = AtRest(task, start())
    predicted = [rest.loss(t, shares) for t in run.time]
    assert in_steps(run.step, run.loss, predicted) < 0.5
    # With the task law instead of the realised shares it would not do.
    assert in_steps(run.step, run.loss, msfr.loss(task, start(), run.time)) > 2.0


def test_a_gap_is_weighed_by_the_steps_and_only_from_the_tenth_on():
    steps = np.array([0, 5, 10, 100])
    assert in_steps(steps, [9.0, 9.0, 1.01, 1.002], np.ones(4)) == pytest.approx(0.2)


def test_gradient_descent_differs_from_its_flow_by_what_the_tolerance_says():
    """Saturated attention has x = lr p (1 + Λ²): (1 − x)^(2n) and exp(−2xn), over all tasks."""
    for alpha, share in ((1.8, 0.16), (2.1, 0.20)):
        s = np.arange(1.0, 2e5)
        p = s**-alpha / np.sum(s**-alpha)
        n, x = 1000, 0.1 * 1.25 * p
        gap = np.sum(p * np.exp(-2.0 * x * n)) / np.sum(p * (1.0 - x) ** (2 * n)) - 1.0
        assert gap * n == pytest.approx(share, abs=0.02)


def test_mean_exponent_of_a_power_law():
    x = np.geomspace(2.0, 50.0, 7)
    assert mean_exponent(x, 3.0 * x**-0.4) == pytest.approx(0.4)


def test_whole_numbers_evenly_spaced():
    assert _softmax.between(1, 100, 3).tolist() == [1, 10, 100]


def curves_of_fig9(exponents, condition):
    """Pure power laws for every β; `condition` is what the four cases of (d) lose."""
    t = np.geomspace(20.0, 500.0, 60)
    betas = [0.0, 0.5, 1.0]
    curves = [0.03 * t**-x for x in exponents]
    cases = [[t**-0.5, t ** -(0.5 - a), t ** -(0.5 - b)] for a, b in condition]
    return [
        {
            "trained": (("beta", "time"), curves),
            "step": ("time", t),
            "shortest": ("beta", [500.0, 22.0, 1.0]),
            "small_trained": (("beta", "small_time"), curves),
            "condition_trained": (("agreeing", "case", "condition_time"), cases),
            "beta": betas,
            "time": t,
            "small_time": t,
            "condition_time": t,
            "agreeing": [0.99, 8.27],
        }
    ]


def test_fig9_would_hold_what_it_fails_if_table_2_were_softmax_attentions_law():
    table_2 = [0.8 / (1.8 + beta) for beta in (0.0, 0.5, 1.0)]
    lost = [(0.159, 0.159), (0.159, 0.159)]
    found = verdicts(fig9.fig, curves_of_fig9(table_2, lost), "table-2", "stays", "moves")
    assert found.pop("stays") == "fails"
    assert len(found) == 5
    assert set(found.values()) == {"holds"}


def test_fig9_fails_table_2_where_contexts_do_not_matter():
    same = [0.8 / 1.8] * 3
    lost = [(0.0, 0.0), (0.0, 0.0)]
    found = verdicts(fig9.fig, curves_of_fig9(same, lost), "table-2", "stays", "moves")
    assert found.pop("stays") == "holds"
    assert set(found.values()) == {"fails"}


def resources_of_fig9(change):
    size, amount, time = np.array([5, 10, 25]), np.array([10, 30, 100]), np.array([0.0, 450.0])
    betas = [0.0, 0.5, 1.0]
    by_size = [[[1.0, d ** -(0.8 - change * b)] for d in size] for b in betas]
    by_data = [[[n ** -(0.44 - change * b)] * 2 for n in amount] for b in betas]
    coords = {"beta": betas, "size": size, "amount": amount, "far_time": time, "seed": [0, 1]}
    return [
        {
            "by_size": (("beta", "size", "far_time"), by_size),
            "by_size_limit": (("beta", "size"), np.array(by_size)[..., 1]),
            "by_data": (("beta", "amount", "seed"), by_data),
            "by_data_expected": (("beta", "amount"), np.array(by_data)[..., 0]),
            **coords,
        }
    ]


@pytest.mark.parametrize(("change", "verdict"), [(0.0, "holds"), (0.4, "fails")])
def test_fig9_says_whether_contexts_change_the_laws_in_size_and_data(change, verdict):
    words = ("size-0.5", "size-1.0", "data-0.5", "data-1.0")
    assert set(verdicts(fig9.fig, resources_of_fig9(change), *words).values()) == {verdict}


def curves_of_fig8(shift):
    """Power laws in t, D, N and C whose exponents are Table 1's and `shift`."""
    alphas = np.array([1.8, 2.1])
    t, size, amount = np.geomspace(0.1, 500.0, 80), np.array([5, 20, 100]), np.array([10, 300])
    budget = np.geomspace(20.0, 1e5, 20)
    in_time = [np.minimum(1.0, t ** -(1.0 - 1.0 / a + shift)) for a in alphas]
    return [
        {
            "trained": (("alpha", "time"), in_time),
            "first": ("alpha", [0.5, 0.6]),
            "by_size_limit": (("alpha", "size"), [size ** -(a - 1.0 + shift) for a in alphas]),
            "by_data_expected": (
                ("alpha", "amount"),
                [amount ** -(1.0 - 1.0 / a + shift) for a in alphas],
            ),
            "frontier": ("compute", budget ** -(0.8 / 2.8 + shift)),
            "alpha": alphas,
            "time": t,
            "size": size.astype(float),
            "amount": amount.astype(float),
            "compute": budget,
            "size_time": [0.0, 900.0],
        }
    ]


WORDS = ("time-exponent", "size-exponent", "data-exponent", "compute-exponent")


@pytest.mark.parametrize(("shift", "verdict"), [(0.0, "holds"), (0.16, "fails")])
def test_fig8_tells_the_laws_of_its_two_alphas_apart(shift, verdict):
    found = verdicts(fig8.fig, curves_of_fig8(shift), *WORDS)
    assert len(found) == 7
    assert set(found.values()) == {verdict}


@pytest.mark.parametrize(("share", "verdict"), [(0.6, "holds"), (0.4, "fails")])
def test_fig8_asks_for_half_of_the_decades(share, verdict):
    alphas, resources = [1.8, 2.1], ["t", "D", "D − ½", "N", "C"]
    whole = [[9.0 * a, 9.0, 9.0, 9.0 * a, 9.0 * (a + 1.0)] for a in alphas]
    seen = (("alpha", "resource"), share * np.array(whole))
    part = {"seen": seen, "alpha": alphas, "resource": resources}
    assert verdicts(fig8.fig, [part], "laws") == {"laws": verdict}
