"""Batch size as the fourth resource: hits, the linear scaling rule, the edge, the best batch."""

import math

import numpy as np
import pytest
import scipy.stats
from scipy.integrate import solve_ivp

from solvable import msfr
from solvable.msfr.theory import _sgd

INIT = msfr.Init(0.1, 0.11)
SOFTMAX = msfr.SoftmaxInit(0.1, 0.1, 0.11)


def task(num_tasks=1000, alpha=1.8, context=100.0, strength=0.5):
    return msfr.Task(num_tasks, alpha, context, strength)


def matrix(context, strength, order="exact"):
    along = np.array([1.0, strength])
    return context * np.outer(along, along) + np.diag([order == "exact", 0.0])


def total(law, init=INIT, **how):
    """G(h), from the amplitude."""
    alpha = float(law.alpha)
    return 2.0 * alpha * msfr.sgd_amplitude(law, init, **how) / float(law.normaliser) ** (1 / alpha)


def test_the_steps_of_the_paper_s_start():
    one = _sgd._one_task(task(), INIT, "exact")
    np.testing.assert_allclose(one.first_rate, 628.2146, rtol=1e-10)
    np.testing.assert_allclose(msfr.one_hit_step(task(), INIT), 0.0021861245786, rtol=2.5e-11)


STARTS = {
    "the paper's": (100.0, 0.5, 0.1, 0.11),
    "short contexts": (2.0, -0.8, 0.3, -0.5),
    "from above": (20.0, 0.5, 0.4, 0.5),
    "one parameter at 0": (5.0, 1.5, 0.2, 0.0),
}


@pytest.mark.parametrize("order", ["exact", "zeroth"])
@pytest.mark.parametrize("case", STARTS)
def test_the_rate_at_the_end_is_that_of_an_ode(case, order):
    """K = |Hv|² + |Hw|² where an ODE solver takes v and w."""
    context, strength, v, w = STARTS[case]
    h = matrix(context, strength, order)

    def flow(_, y):
        off = y[:2] @ h @ y[2:] - strength
        return -off * np.concatenate([h @ y[2:], h @ y[:2]])

    end = solve_ivp(flow, (0.0, 30.0), [v, v, w, w], method="DOP853", rtol=1e-12, atol=1e-14)
    last = end.y[:, -1]
    assert abs(last[:2] @ h @ last[2:] - strength) < 1e-9
    found = _sgd._one_task(task(1, 2.0, context, strength), msfr.Init(v, w), order)
    np.testing.assert_allclose(
        found.last_rate, np.sum((h @ last[:2]) ** 2 + (h @ last[2:]) ** 2), rtol=1e-8
    )
    if order == "zeroth":
        pair = context**2 * ((v + w) * (v - w)) ** 2 * (1.0 + strength) ** 4 / 2.0  # C
        slope = context * (1.0 + strength**2) * math.sqrt(4.0 * strength**2 + 2.0 * pair)
        np.testing.assert_allclose(found.last_rate, slope, rtol=1e-12)


@pytest.mark.parametrize("order", ["exact", "zeroth"])
def test_a_task_hit_n_times_is_where_gradient_descent_has_it(order):
    context, strength, v, w = 100.0, 0.5, 0.1, 0.11
    h, step = matrix(context, strength, order), 1.3e-3
    found = _sgd._one_task(task(), INIT, order).residuals(step, 50)
    x, y = np.full(2, v), np.full(2, w)
    for left in found[:50]:
        off = x @ h @ y - strength
        np.testing.assert_allclose(left, off, rtol=0, atol=1e-13)
        x, y = x - step * off * h @ y, y - step * off * h @ x


G = {
    (1.8, 1e-3): 9.01218917905,
    (1.8, 5e-4): 11.5041332569,
    (2.5, 1e-3): 7.11305979658,
    (2.5, 5e-4): 9.94907370851,
}


@pytest.mark.parametrize(("alpha", "step"), G)
def test_the_amplitude_in_data(alpha, step):
    """G(h) depends on η/B alone."""
    for batch in (1, 8):
        found = total(task(alpha=alpha), lr=batch * step, batch=batch)
        np.testing.assert_allclose(found, G[alpha, step], rtol=1e-11)


@pytest.mark.parametrize(("alpha", "least"), [(1.8, 7.86036266), (2.5, 5.87366611)])
def test_the_best_step_learns_in_one_hit_and_none_is_below_it(alpha, least):
    law, initial = task(alpha=alpha), 1.986**2
    best = msfr.one_hit_step(law, INIT)
    np.testing.assert_allclose(total(law, lr=best, batch=1), least, rtol=2e-9)
    np.testing.assert_allclose(least, initial * math.gamma(1.0 - 1.0 / alpha), rtol=2e-9)
    others = [total(law, lr=x * best, batch=1) for x in (0.5, 0.9, 0.99, 1.01, 1.1, 1.5)]
    assert min(others) > least
    assert np.all(np.diff(others[:3]) < 0.0)
    assert np.all(np.diff(others[3:]) > 0.0)
    np.testing.assert_allclose(msfr.best_batch(law, INIT, 8.0 * best), 8.0, rtol=1e-13)
    once = msfr.train(task(1), INIT, lr=best, steps=1)
    assert once.loss[1] < 1e-20 * once.loss[0]


def test_the_loss_by_hits():
    given = {"lr": 0.004, "batch": 4}
    np.testing.assert_allclose(msfr.sgd_loss(task(), INIT, 200, **given), 0.0851693402, rtol=1e-9)
    given = {"lr": 0.001, "batch": 1}
    np.testing.assert_allclose(msfr.sgd_loss(task(), INIT, 400, **given), 0.1177317886, rtol=1e-9)
    best = msfr.one_hit_step(task(300), INIT)
    p = np.asarray(task(300).weights)
    unseen = 0.5 * np.sum(p * (1.0 - p) ** 640) * 1.986**2
    for batch in (1, 4):
        found = msfr.sgd_loss(task(300), INIT, 640 // batch, lr=batch * best, batch=batch)
        np.testing.assert_allclose(found, unseen, rtol=1e-12)


def test_it_is_the_sum_over_all_tasks_and_hits():
    """Binomial chances of scipy, one task at a time, and R_n by the recursion on v and w."""
    law, h, step = task(300, 1.5, 20.0, -0.7), matrix(20.0, -0.7), 0.02
    init = msfr.Init(0.3, -0.5)
    x, y, left = np.full(2, 0.3), np.full(2, -0.5), []
    for _ in range(401):
        left.append(x @ h @ y + 0.7)
        x, y = x - step * left[-1] * h @ y, y - step * left[-1] * h @ x
    p = np.asarray(law.weights)[:, None]
    for steps in (0, 3, 100):
        chance = scipy.stats.binom.pmf(np.arange(401)[None, :], 4 * steps, p)
        true = 0.5 * np.sum(p * chance * np.square(left))
        found = msfr.sgd_loss(law, init, steps, lr=4 * step, batch=4)
        np.testing.assert_allclose(found, true, rtol=1e-11)


def test_many_epochs_of_a_data_set_hit_each_datum_as_often():
    """R_{en}, n ~ Binomial(N, p): scipy's chances and the recursion on v and w again."""
    law, h, step = task(50), matrix(100.0, 0.5), 4e-4
    x, y, left = np.full(2, 0.1), np.full(2, 0.11), []
    for _ in range(1201):
        left.append(x @ h @ y - 0.5)
        x, y = x - step * left[-1] * h @ y, y - step * left[-1] * h @ x
    p, n = np.asarray(law.weights)[:, None], np.arange(61)
    found = msfr.sgd_loss(law, INIT, [0, 30, 90, 600], lr=2 * step, batch=2, data=60)
    chance = scipy.stats.binom.pmf(n[None, :], 60, p)
    true = [0.5 * np.sum(p * chance * np.square(left)[e * n]) for e in (0, 1, 3, 20)]
    np.testing.assert_allclose(found, true, rtol=1e-11)


def test_one_epoch_is_a_pass_over_fresh_data_and_small_steps_are_repetition():
    law, steps = task(10**12), 10**6
    once = msfr.sgd_loss(law, INIT, steps, lr=1e-3, batch=1, data=steps)
    np.testing.assert_array_equal(once, msfr.sgd_loss(law, INIT, steps, lr=1e-3, batch=1))
    lr, epochs = 1e-6, 2000
    found = msfr.sgd_loss(law, INIT, epochs * steps, lr=lr, batch=1, data=steps)
    flow = msfr.time_law(law, INIT, "exact")(lr * epochs * steps)
    ratio = msfr.repetition(law, INIT, 125.0 * lr * epochs, "exact").ratio
    # η/B is not 0, and N not infinite.
    np.testing.assert_allclose(found / flow, ratio, rtol=1e-3)


def test_many_tasks_tend_to_the_law_in_data():
    law = task(10**12)
    amplitude = msfr.sgd_amplitude(law, INIT, lr=1e-3, batch=1)
    data = 10.0 ** np.arange(2, 8)
    found = msfr.sgd_loss(law, INIT, data, lr=1e-3, batch=1)
    gaps = np.abs(found / (amplitude * data ** (-4.0 / 9.0)) - 1.0)
    assert np.all(np.diff(gaps) < 0.0)
    assert gaps[-1] < 2e-4


def test_small_steps_are_the_flow_on_data_seen_once():
    """The gap falls with η/B in first order."""
    law, gaps = task(), []
    for batch in (1000, 2000):
        lr, steps = 0.05, 50
        found = msfr.sgd_loss(law, INIT, steps, lr=lr, batch=batch)
        flow = msfr.loss(law, INIT, lr * steps, data=batch * steps)
        gaps.append(abs(float(found / flow) - 1.0))
    assert gaps[1] < 5e-3
    assert 1.9 < gaps[0] / gaps[1] < 2.1


def test_many_hits_are_summed_as_few_are(monkeypatch):
    """The rule for small steps, where R_n is smooth in n, against the sum over every n."""
    given = {"lr": 4e-5, "batch": 1}
    steps = np.array([10, 1000, 10**5, 10**7])
    each = msfr.sgd_loss(task(), INIT, steps, **given)
    assert len(_sgd._one_task(task(), INIT, "exact").residuals(4e-5, 10**6)) > _sgd._EACH
    monkeypatch.setattr(_sgd, "_EACH", 10**5)
    np.testing.assert_allclose(msfr.sgd_loss(task(), INIT, steps, **given), each, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batch", "steps", "runs", "data"),
    [(1, 400, 256, None), (4, 200, 128, None), (1, 400, 256, 80)],
)
def test_training_has_this_mean(batch, steps, runs, data):
    """Exact for B = 1, and for B = 4 at this time, when the tasks with Bp ~ 1 are learned."""
    how = {"lr": 0.001 * batch, "batch": batch, "data": data}
    seeds = {"log_every": steps, "seed": range(runs)}
    left = np.asarray(msfr.train(task(), INIT, steps=steps, **how, **seeds).loss)[:, -1]
    error = left.std(ddof=1) / math.sqrt(runs)
    found = float(msfr.sgd_loss(task(), INIT, steps, **how))
    assert abs(left.mean() - found) < 3.5 * error
    assert error < 0.02 * found  # else nothing is tested


def test_saturated_softmax_attention_has_closed_forms():
    """R_n = e(0)(1 − hK)^n, so ``G = e² Γ(1−δ) [1 − (1−hK)²]^{δ−1}``."""
    law, delta = task(), 1.0 / 1.8
    initial, rate = 0.15 - 0.5, 1.25
    for step in (0.05, 0.8, 1.2):
        shape = 1.0 - (1.0 - step * rate) ** 2
        true = initial**2 * math.gamma(1.0 - delta) * shape ** (delta - 1.0)
        np.testing.assert_allclose(total(law, SOFTMAX, lr=step, batch=1), true, rtol=1e-11)
        # E over hits of a power of n is (1 − p(1 − (1−hK)²))^Bt.
        p = np.asarray(law.weights)
        mean = 0.5 * initial**2 * np.sum(p * (1.0 - p * shape) ** 60)
        found = msfr.sgd_loss(law, SOFTMAX, 20, lr=3 * step, batch=3)
        np.testing.assert_allclose(found, mean, rtol=1e-11)
    np.testing.assert_allclose(msfr.one_hit_step(law, SOFTMAX), 0.8, rtol=1e-15)


@pytest.mark.slow
def test_softmax_attention_trained_one_datum_at_a_time():
    """Keys of u = 8.3, which saturate: the mean of 64 runs."""
    law, width = task(50, 1.8, 20.0), 501
    init, steps = msfr.SoftmaxInit(0.1, 0.1, 0.11, width=width), 200
    how = {"lr": 0.5, "steps": steps, "batch": 1, "log_every": steps, "seed": range(64)}
    left = np.asarray(msfr.train(law, init, **how).loss)[:, -1]
    found = float(msfr.sgd_loss(law, init, steps, lr=0.5, batch=1))
    error = left.std(ddof=1) / 8.0
    assert abs(left.mean() - found) < 3.5 * error
    assert error < 0.05 * found


def test_the_mean_square_near_the_end_is_that_of_random_hits():
    """Of the linear map δ ← (1 − ηK c/B) δ, c ~ Binomial(B, p), by the moments of c."""
    law, lr, batch = task(4, 1.5), 0.6, 3
    p, rate = np.asarray(law.weights), 1.25
    c = np.arange(batch + 1)
    chance = scipy.stats.binom.pmf(c[None, :], batch, p[:, None])
    true = np.sum(chance * (1.0 - lr * rate * c / batch) ** 2, axis=1)
    found = msfr.mean_square_rate(law, SOFTMAX, lr=lr, batch=batch)
    np.testing.assert_allclose(found, true, rtol=1e-13)


@pytest.mark.parametrize("init", [INIT, SOFTMAX], ids=["linear", "softmax"])
@pytest.mark.parametrize("batch", [1, 4, 100])
def test_at_the_edge_the_first_task_is_kept_as_it_is(init, batch):
    law = task(300)
    edge = msfr.stability_edge(law, init, batch=batch)
    found = msfr.mean_square_rate(law, init, lr=edge, batch=batch)
    np.testing.assert_allclose(found[0], 1.0, rtol=0, atol=1e-12)
    assert np.all(found[1:] < (1.0 if batch > 1 else 1.0 + 1e-12))  # one datum: all are there
    np.testing.assert_allclose(
        msfr.largest_batch(law, init, step=edge / batch), batch, rtol=0, atol=1e-10
    )
    rate = _sgd._one_task(law, init, "exact").last_rate
    assert edge * rate / batch <= 2.0 + 1e-12  # late tasks see a clock that runs forwards


def test_where_a_task_alone_diverges_there_is_no_mean():
    step = 10.0 * msfr.one_hit_step(task(), INIT)
    assert msfr.sgd_amplitude(task(), INIT, lr=step, batch=1) == math.inf
    assert msfr.sgd_loss(task(), INIT, 10**6, lr=step, batch=1) == math.inf
    assert np.isfinite(msfr.sgd_loss(task(), INIT, 1, lr=step, batch=1))
    for epochs in (3, 1000):
        left = msfr.sgd_loss(task(), INIT, 10 * epochs, lr=step, batch=1, data=10)
        assert left == math.inf


CASES = [
    ({"init": msfr.Init(0.1, -0.1)}, "init must be one from which tasks are learned"),
    ({"law": msfr.Task(5, 1.8, 9.0, 0.5, beta=0.1)}, "must be the same for all tasks"),
    ({"law": "task"}, "task must be a msfr.Task, not str"),
    ({"init": 0.1}, "init must be a msfr.Init or a msfr.SoftmaxInit, not float"),
    ({"steps": 1.5}, "steps must be whole numbers, not 1.5"),
    ({"steps": -1}, "steps must lie in"),
    ({"lr": 0.0}, "lr must lie in"),
    ({"batch": 0}, "batch must be a whole number, from 1 to"),
    ({"data": 1}, "data must be a whole number, from 2 to"),
    ({"data": 15}, "batch . steps must be whole epochs of data = 15"),
    ({"order": "first"}, "order must be one of exact, zeroth, not 'first'"),
    ({"lr": 1e-9, "steps": 10**9}, "lr/batch must be such that 1000000 hits teach a task"),
]


@pytest.mark.parametrize(("change", "words"), CASES)
def test_what_cannot_be_told_is_refused(change, words):
    given = {"law": task(), "init": INIT, "steps": 10, "lr": 0.01, "batch": 2} | change
    law, init, steps = (given.pop(name) for name in ("law", "init", "steps"))
    # The type checks of the tests would answer first.
    function = getattr(msfr.sgd_loss, "__wrapped__", msfr.sgd_loss)
    with pytest.raises(ValueError, match=words):
        function(law, init, steps, **given)


def test_no_step_learns_some_starts_in_one_hit():
    """Λ < 0 from v near w: the first step is away from a saddle."""
    with pytest.raises(ValueError, match="init must be one from which some step learns"):
        msfr.one_hit_step(task(strength=-0.5), msfr.Init(0.1, 0.1001))
