"""Adam as one family in eps/p: against training, against sums, and in its regimes."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvable import msfr

INIT = msfr.Init(v=0.1, w=0.11)
ROUND_OFF = 1e-10


def paper(num_tasks, alpha=1.8, **more):
    return msfr.Task(num_tasks, alpha, 100.0, 0.5, **more)


def by_matrices(ratio, steps, lr=5e-3, b1=0.9, b2=0.999, decay=0.0, noise=0.0):
    """The same Adam of one task for each q, written with H itself; residuals (steps, ratios)."""
    h = np.array([[101.0, 50.0], [50.0, 25.0]])
    v, w = np.full((2, len(ratio)), 0.1), np.full((2, len(ratio)), 0.11)
    moments = np.zeros((2, 2, 2, len(ratio)))
    rng, found = np.random.default_rng(0), []
    for t in range(max(steps) + 1):
        left = np.einsum("in,ij,jn->n", v, h, w) - 0.5
        if t in steps:
            found.append(left)
        slopes = np.stack([left * (h @ w), left * (h @ v)])
        moments[0] += (1 - b1) * (slopes - moments[0])
        moments[1] += (1 - b2) * (slopes**2 - moments[1])
        mean, square = moments[0] / (1 - b1 ** (t + 1)), moments[1] / (1 - b2 ** (t + 1))
        move = mean / (np.sqrt(square) + ratio)
        v, w = (x - lr * (m + decay * x) for x, m in zip((v, w), move, strict=True))
        v = v + noise * rng.standard_normal(v.shape)
    return np.array(found)


# -- the family


def test_sign_descent_has_the_known_residuals():
    steps = [0, 5, 10, 15, 20, 50, 100, 200, 300]
    known = [1.986, 0.96688336, 0.31917623, -0.02440969, -0.18727961, -0.14218868]
    found = msfr.adam_residual(paper(1), INIT, steps, 0.0)
    np.testing.assert_allclose(found[:6], known, atol=6e-9)
    np.testing.assert_allclose(found[6:], [-0.0075612, -3.6425e-5, -1.604e-7], rtol=3e-4)
    np.testing.assert_allclose(msfr.adam_residual(paper(1), INIT, steps, 1e-12), found, atol=1e-12)


def test_residual_is_that_of_the_matrices():
    ratio, steps = np.geomspace(1e-3, 1e5, 30), [0, 1, 7, 40, 150]
    how = {"lr": 1e-2, "b1": 0.8, "b2": 0.99}
    found = msfr.adam_residual(paper(1), INIT, steps, ratio, weight_decay=0.03, **how)
    np.testing.assert_allclose(found, by_matrices(ratio, steps, decay=0.03, **how), atol=1e-12)


def test_shapes_follow_steps_and_ratio():
    def shape(steps, ratio):
        return msfr.adam_residual(paper(1), INIT, steps, ratio).shape

    assert shape(3, 1.0) == ()
    assert shape([3, 1], 1.0) == (2,)
    assert shape(3, [1.0, 2.0, 3.0]) == (3,)
    assert shape([5, 0, 5, 2], [1.0, 2.0]) == (4, 2)
    assert shape([], [1.0, 2.0]) == (0, 2)
    unsorted = msfr.adam_residual(paper(1), INIT, [5, 0, 5], [1.0])
    assert unsorted[0] == unsorted[2] != unsorted[1]


def test_the_family_is_gradient_descent_where_q_is_large():
    # At fixed lr t/q momentum lags by some steps, and √v̂ is g/q of what it is added to: the gap
    # falls like 1/t (β2 such that √v̂ remembers less than all of it).
    clock, steps = 2e-3, [1000, 2000, 4000]
    flow = float(msfr.residual(paper(1), INIT, clock)[0])
    found = [float(msfr.adam_residual(paper(1), INIT, t, 5e-3 * t / clock, b2=0.9)) for t in steps]
    gaps = np.array(found) / flow - 1.0
    assert abs(gaps[0]) < 0.02
    np.testing.assert_allclose(gaps[:-1] / gaps[1:], 2.0, rtol=0.05)


@pytest.mark.parametrize("b1", [0.8, 0.9, 0.95])
def test_after_arrival_it_rings_at_half_the_rate_at_which_momentum_is_forgotten(b1):
    left = np.abs(np.asarray(msfr.adam_residual(paper(1), INIT, np.arange(801), 0.0, b1=b1)))
    t = np.arange(1, 800)
    peak = (left[1:-1] > left[:-2]) & (left[1:-1] > left[2:])
    peak &= (t > 60) & (left[1:-1] > 1e-12)
    rate = -np.polyfit(t[peak], np.log(left[1:-1][peak]), 1)[0]
    assert rate == pytest.approx(-0.5 * math.log(b1), rel=0.03)  # √v̂ still moves a little


# -- the three witnesses


@pytest.mark.slow
def test_the_loss_is_that_of_training_2000_tasks():
    steps = [50, 100, 200, 300]
    known = [0.0239956920588, 0.0097647494697, 0.0064491148743, 0.0049478689277]
    found = msfr.adam_loss(paper(2000), INIT, steps, eps=1e-2)
    np.testing.assert_allclose(found, known, rtol=1e-11)
    optimizer = msfr.adamw(5e-3, eps=1e-2, weight_decay=0.0)
    run = msfr.train(paper(2000), INIT, optimizer=optimizer, steps=300, log_every=50)
    np.testing.assert_allclose(np.asarray(run.loss)[[1, 2, 4, 6]], found, rtol=ROUND_OFF)


@pytest.mark.slow
def test_tokens_the_reduction_and_the_family_agree():
    task = msfr.Task(6, 1.8, 7.0, 0.5)
    how = {"b1": 0.9, "b2": 0.99, "eps": 3e-2, "weight_decay": 1e-2}
    run = {"optimizer": msfr.adamw(2e-2, **how), "steps": 60, "log_every": 3}
    reduced = msfr.train(task, INIT, **run)
    family = msfr.adam_residual(
        task,
        INIT,
        reduced.step,
        how.pop("eps") / np.asarray(task.weights),
        lr=2e-2,
        **how,
    )
    np.testing.assert_allclose(family.T, reduced.predictions - 0.5, atol=ROUND_OFF)
    # Tokens of a data set, whose shares take the weights' place.
    run |= {"data": 40, "seed": 3}
    on_tokens = msfr.train_brute(task, INIT, **run)
    shares = np.asarray(msfr.task.realised_shares(task, 40, 3))
    with np.errstate(divide="ignore"):
        ratio = 3e-2 / shares
    family = msfr.adam_residual(task, INIT, reduced.step, ratio, lr=2e-2, **how)
    np.testing.assert_allclose(family.T, on_tokens.predictions - 0.5, atol=ROUND_OFF)


# -- sums over tasks


def test_a_million_tasks_have_the_known_loss():
    found = msfr.adam_loss(paper(10**6), INIT, [20, 100, 200, 400])
    known = [1.757038877e-2, 3.795150664e-5, 4.174795258e-6, 1.447292542e-6]
    np.testing.assert_allclose(found, known, rtol=5e-10)
    flow = msfr.adam_regimes(paper(10**6), INIT).flow([200, 400])
    np.testing.assert_allclose(flow, [4.26423311e-6, 1.47276584e-6], rtol=2e-9)


def test_tasks_without_end_are_a_sum_and_an_integral():
    steps, alpha, eps = [200, 400, 800, 1000], 1.8, 1e-8
    found = np.asarray(msfr.adam_loss(paper(1), INIT, steps, endless=True))
    # The spec's own interpolation is good to 1e-4.
    np.testing.assert_allclose(found, [2.0192e-5, 1.48744e-5, 1.09443e-5, 9.9135e-6], rtol=1e-4)
    z = 1.0 / 1.8822296181028220  # ζ(1.8)
    first = np.arange(1.0, 3001.0)
    head = 0.5 * np.sum(z * first**-alpha * by_matrices(eps * first**alpha / z, steps) ** 2, axis=1)
    log_q = np.linspace(np.log(eps * 3000.5**alpha / z), np.log(1e12), 8001)
    square = by_matrices(np.exp(log_q), steps) ** 2
    # Simpson in log q of (eps^(1−δ) Z^δ/2α) q^(δ−1) R², and what is beyond at R(0)².
    simpson = np.ones(8001)
    simpson[1:-1:2], simpson[2:-1:2] = 4.0, 2.0
    simpson *= (log_q[1] - log_q[0]) / 3.0
    delta = 1.0 / alpha
    front = eps ** (1.0 - delta) * z**delta / (2.0 * alpha)
    tail = front * (square * np.exp((delta - 1.0) * log_q)) @ simpson
    tail += front * 1.986**2 * 1e12 ** (delta - 1.0) / (1.0 - delta)
    # The midpoint rule of the integral's start is good to (α/3000)², of a small part.
    np.testing.assert_allclose(found, head + tail, rtol=1e-8)
    local = -np.diff(np.log(found))[:2] / np.log(2.0)
    np.testing.assert_allclose(local, [0.441, 0.443], atol=1e-3)
    law = 0.0724479 * (np.array(steps) * 5e-3 / eps) ** -(0.8 / 1.8)
    np.testing.assert_allclose(law, [2.01591e-5, 1.48142e-5, 1.08865e-5, 9.8586e-6], rtol=1e-5)
    np.testing.assert_allclose(found, law, rtol=0.01)


@pytest.mark.parametrize(("start", "r_0"), [((0.1, 0.11), 1.986), ((1e-5, 1e-5), 2.26e-8 - 0.5)])
@pytest.mark.parametrize("alpha", [1.2, 1.8, 3.0])
def test_more_and_more_tasks_tend_to_endless_ones(start, r_0, alpha):
    init, steps = msfr.Init(*start), [30, 300]
    endless = np.asarray(msfr.adam_loss(paper(7, alpha), init, steps, endless=True))
    task = paper(2**53, alpha)
    missing = float(task.normaliser) * 2.0 ** (53 * (1.0 - alpha)) / (alpha - 1.0)
    # The others weigh 1 + missing times as much; what misses has not moved yet.
    found = np.asarray(msfr.adam_loss(task, init, steps, eps=1e-8 * (1.0 + missing)))
    both = (found + 0.5 * missing * r_0**2) / (1.0 + missing)
    np.testing.assert_allclose(both, endless, rtol=1e-10)


def test_weight_decay_reaches_tasks_without_gradient():
    found = msfr.adam_loss(paper(1), INIT, 50, endless=True, weight_decay=0.5, eps=1e20)
    f_0 = 2.486 * (1.0 - 5e-3 * 0.5) ** 100
    assert float(found) == pytest.approx(0.5 * (f_0 - 0.5) ** 2, rel=1e-12)


@settings(max_examples=12)
@given(
    alpha=st.floats(1.05, 4.0),
    beta=st.sampled_from([0.0, 0.5]),
    gamma=st.sampled_from([0.0, 0.3]),
    strength=st.sampled_from([-0.7, 0.5, 2.0]),
    start=st.sampled_from([(0.1, 0.11), (1e-5, 1e-5), (0.3, -0.2), (0.0, 0.1)]),
    eps=st.sampled_from([1e-8, 1e-4, 1e-1]),
    decay=st.sampled_from([0.0, 1e-2]),
)
def test_the_rule_is_the_sum_over_all_tasks(alpha, beta, gamma, strength, start, eps, decay):
    law = msfr.Task(2000, alpha, 50.0, strength, beta=beta, gamma=gamma)
    every = msfr.Task(2000, alpha, law.contexts, law.strengths)  # arrays are summed one by one
    steps, how = [0, 5, 40, 120], {"eps": eps, "weight_decay": decay}
    found = msfr.adam_loss(law, msfr.Init(*start), steps, **how)
    true = msfr.adam_loss(every, msfr.Init(*start), steps, **how)
    np.testing.assert_allclose(found, true, rtol=1e-9, atol=1e-24)


def test_what_rounding_decides_is_refused():
    # With β2 = 0.99 the descent is forgotten within a thousand steps.
    unstable = msfr.adam_regimes(paper(10**6), INIT, b2=0.99).unstable
    assert unstable is not None
    assert 500 < unstable < 1500
    with pytest.raises(ValueError, match="tolerance must be larger than 1e-09: from step 2000 on"):
        msfr.adam_loss(paper(10**6), INIT, [400, 2000], b2=0.99)


# -- regimes


def test_scales_are_the_known_ones():
    found = msfr.adam_regimes(paper(10**6), INIT)
    assert found.gradient == pytest.approx(1.986 * (101 * 0.11 + 50 * 0.11), rel=1e-12)
    assert found.sign_tasks == pytest.approx(1.37e5, rel=5e-3)
    assert msfr.adam_regimes(paper(10**6), INIT, eps=1e-6).sign_tasks == pytest.approx(
        1.06e4, rel=5e-3
    )
    assert found.arrival == pytest.approx((0.105 - math.sqrt(0.5 / 226 + 0.005**2)) / 5e-3)
    assert found.plateau == float(msfr.loss(paper(10**6), INIT, 5e-3 * found.arrival / 1e-8))
    np.testing.assert_allclose(
        found.learned_at([1, found.sign_tasks, 10 * found.sign_tasks]) / found.arrival,
        [1.0, 1.0, 10**1.8],
    )


@pytest.mark.parametrize("start", [(0.1, 0.11), (0.3, -0.2), (0.0, 0.1), (-0.2, 0.05)])
@pytest.mark.parametrize("strength", [0.5, -0.5, 3.0, 0.02])
def test_arrival_is_that_of_sign_descent(start, strength):
    task, init = msfr.Task(3, 1.8, 20.0, strength), msfr.Init(*start)
    arrival = msfr.adam_regimes(task, init).arrival
    h = np.array([[21.0, 20 * strength], [20 * strength, 20 * strength**2]])
    v, w, small = np.full(2, start[0]), np.full(2, start[1]), 2e-5
    side, step = np.sign(v @ h @ w - strength), 0
    while side * (left := v @ h @ w - strength) > 0.0:
        v, w = v - small * np.sign(left * (h @ w)), w - small * np.sign(left * (h @ v))
        step += 1
    assert arrival == pytest.approx(step * small / 5e-3, abs=2e-2)


@pytest.mark.parametrize(
    ("start", "strength"), [((0.1, 0.1), -0.5), ((0.1, -0.1), 0.5), ((0.0, 0.0), 0.5)]
)
def test_nothing_arrives_from_where_nothing_is_learned(start, strength):
    task, init = msfr.Task(3, 1.8, 20.0, strength), msfr.Init(*start)
    found = msfr.adam_regimes(task, init)
    assert found.arrival == found.unstable == math.inf
    left = msfr.adam_residual(task, init, 400, [0.0, 1.0])
    np.testing.assert_allclose(left, -strength, atol=5e-3)  # f goes to 0, whatever the optimiser


@pytest.mark.parametrize(("b2", "lr"), [(0.99, 5e-3), (0.995, 2e-3)])
def test_learned_tasks_become_unstable_when_predicted(b2, lr):
    predicted = msfr.adam_regimes(paper(1), INIT, b2=b2, lr=lr, eps=1e-10).unstable
    assert predicted is not None
    steps = np.arange(2 * int(predicted))
    left = np.abs(by_matrices(np.array([1e-10]), steps.tolist(), lr=lr, b2=b2, noise=1e-14)[:, 0])
    calm = left[int(0.8 * predicted) : int(0.97 * predicted)].max()
    grown = np.flatnonzero(left[int(0.8 * predicted) :] > 30.0 * calm)[0] + int(0.8 * predicted)
    assert grown == pytest.approx(predicted, rel=0.1)


def test_what_q_keeps_stable_stays_so():
    assert msfr.adam_regimes(paper(1), INIT, eps=0.1).unstable == math.inf
    assert msfr.adam_regimes(paper(1), INIT, lr=1e-9).unstable is None  # too far to follow


def test_plateau_falls_like_a_power_of_eps():
    levels = [msfr.adam_regimes(paper(10**6), INIT, eps=e).plateau for e in (1e-4, 1e-6)]
    assert np.log(levels[0] / levels[1]) / np.log(100.0) == pytest.approx(0.8 / 1.8, rel=0.03)


# -- what is refused


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"steps": 2.5}, "steps must be a whole number, from 0 to 10000000, not "),
        ({"steps": [[1]]}, "steps must be one number or one axis of them"),
        ({"ratio": -1.0}, r"ratio must lie in \[0, inf\), not -1"),
        ({"ratio": [[1.0]]}, "ratio must be one number or one axis of them"),
        ({"lr": 0.0}, "lr must lie in"),
        ({"b1": 1.0}, "b1 must lie in"),
        ({"b2": -0.1}, "b2 must lie in"),
        ({"weight_decay": 2.0}, r"weight_decay must lie in \[0, 1\], not 2"),
        ({"task": msfr.Task(3, 1.8, 10.0, 0.5, beta=0.5)}, "task and init must have one context"),
        ({"init": msfr.SoftmaxInit(0.1, 0.1, 0.11)}, "init must be a msfr.Init"),
    ],
)
@pytest.mark.usefixtures("as_users_run_it")
def test_bad_input_is_told(change, words):
    given = {"task": paper(3), "init": INIT, "steps": 3, "ratio": 1.0} | change
    task, init, steps, ratio = (given.pop(name) for name in ("task", "init", "steps", "ratio"))
    with pytest.raises(ValueError, match=words):
        msfr.adam_residual(task, init, steps, ratio, **given)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"eps": 0.0}, "eps must lie in"),
        ({"tolerance": 0.0}, "tolerance must lie in"),
        ({"task": msfr.Task(3, 1.8, 10.0, 0.5, gamma=0.5), "endless": True}, "one context"),
    ],
)
def test_bad_input_of_the_loss_is_told(change, words):
    task = change.pop("task", paper(3))
    with pytest.raises(ValueError, match=words):
        msfr.adam_loss(task, INIT, 3, **change)
