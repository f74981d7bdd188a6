"""The population loss: its sums, its three resources, and how it is compiled."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solvable import compiling, msfr
from solvable.msfr.theory import _loss
from solvable.msfr.theory._first import order_one
from solvable.msfr.theory._modes import Start
from solvable.msfr.theory._zeroth import order_zero

pytestmark = pytest.mark.slow

ORDERS = ["zeroth", "first", "exact"]
TIMES = np.concatenate([[0.0], np.geomspace(1e-3, 1e3, 15)])  # one length, few compilations
CONTEXTS = np.array([5.0, 100.0, 0.3, 20.0, 1e6, 7.0])
STRENGTHS = np.array([0.5, -0.7, 1.3, 0.2, 2.0, -1e-3])
V = np.array([[0.10, 0.07], [0.31, -0.22], [-0.05, 0.12], [0.40, 0.30], [0.02, 0.01], [0.2, -0.1]])
W = np.array([[0.11, -0.03], [0.18, 0.09], [0.21, 0.06], [0.35, 0.50], [0.03, -0.04], [-0.3, 0.1]])


def generic():
    return msfr.Task(6, 1.8, CONTEXTS, STRENGTHS), msfr.Init(V, W)


def shared(num_tasks=6, strength=0.5, alpha=1.8):
    return msfr.Task(num_tasks, alpha, 20.0, strength), msfr.Init(v=0.1, w=0.11)


def random_tasks(count, seed=0):
    rng = np.random.default_rng(seed)
    return Start(
        jnp.asarray(10.0 ** rng.uniform(-1.0, 4.0, count)),
        jnp.asarray(rng.choice([-1.0, 1.0], count) * 10.0 ** rng.uniform(-2.0, 1.0, count)),
        jnp.asarray(rng.normal(0.0, 0.3, (count, 2))),
        jnp.asarray(rng.normal(0.0, 0.3, (count, 2))),
    )


def public(start):
    """The same tasks as the public interface takes them."""
    count = start.context.shape[0]
    return msfr.Task(count, 1.2, start.context, start.strength), msfr.Init(start.v, start.w)


@pytest.mark.parametrize("order", ORDERS)
def test_loss_is_half_the_weighted_sum_of_squares(order):
    task, init = generic()
    left = np.asarray(msfr.residual(task, init, TIMES, order))
    true = 0.5 * left**2 @ np.asarray(task.weights)
    np.testing.assert_allclose(msfr.loss(task, init, TIMES, order), true, rtol=1e-13)


def test_prediction_is_residual_plus_strength_and_shapes_follow_t():
    task, init = generic()
    predicted = msfr.predict(task, init, TIMES, "zeroth")
    left = np.asarray(msfr.residual(task, init, TIMES, "zeroth"))
    np.testing.assert_array_equal(predicted, left + STRENGTHS)
    assert predicted.shape == (16, 6)
    assert msfr.predict(task, init, 0.5, "zeroth").shape == (6,)
    assert msfr.loss(task, init, 0.5, "zeroth").shape == ()
    assert msfr.loss(task, init, [0.5, 1.0], "zeroth").shape == (2,)


def test_exact_is_the_default_order():
    task, init = generic()
    np.testing.assert_array_equal(
        msfr.loss(task, init, TIMES), msfr.loss(task, init, TIMES, "exact")
    )


@pytest.mark.parametrize("order", ORDERS)
def test_frozen_tasks_keep_their_initial_prediction(order):
    """Tasks s ≥ D keep f_s(0), for ever."""
    task, init = generic()
    left = np.asarray(msfr.residual(task, init, TIMES, order))
    for size in range(1, 8):
        kept = np.where(np.arange(1, 7) < size, left, left[:1])
        true = 0.5 * kept**2 @ np.asarray(task.weights)
        found = msfr.loss(task, init, TIMES, order, size=size)
        np.testing.assert_allclose(found, true, rtol=1e-12)


def test_whole_size_is_no_limit():
    task, init = generic()
    np.testing.assert_allclose(
        msfr.loss(task, init, TIMES, "zeroth", size=7),
        msfr.loss(task, init, TIMES, "zeroth"),
        rtol=1e-14,
    )


@pytest.mark.parametrize(("order", "size"), [("zeroth", 3), ("zeroth", 7), ("exact", 3)])
def test_limited_data_at_late_times_leave_the_tasks_never_seen(order, size):
    """(66): at t → ∞ a share (1 − p)^N of the initial error stays; all of it where s ≥ D."""
    task, init = shared()
    p = np.asarray(task.weights)
    initial = np.asarray(msfr.residual(task, init, TIMES, order))[0]
    times = np.append(np.full(15, 1e280), math.inf)
    for data in (1, 7, 60, 400):
        stays = np.where(np.arange(1, 7) < size, (1.0 - p) ** data, 1.0)
        true = 0.5 * np.sum(p * stays * initial**2)
        found = msfr.loss(task, init, times, order, size=size, data=data)
        # 1e-10: the binomial average's promise.
        np.testing.assert_allclose(found, np.full(16, true), rtol=1e-10)


def test_loss_of_much_data_tends_to_that_of_unlimited_data_like_one_over_n():
    task, init = shared()
    limit = np.asarray(msfr.loss(task, init, TIMES, "zeroth"))[8]
    counts = [10**k for k in range(3, 9)]
    losses = [np.asarray(msfr.loss(task, init, TIMES, "zeroth", data=n))[8] for n in counts]
    slope = np.polyfit(np.log(counts), np.log(np.abs(losses - limit)), 1)[0]
    assert abs(slope + 1.0) < 0.02
    unlimited = msfr.loss(task, init, TIMES, "zeroth", data=math.inf)
    assert float(unlimited[8]) == float(limit)


@pytest.mark.parametrize("order", ["zeroth", "exact"])
def test_binomial_average_agrees_with_drawn_counts(order):
    """Task s trains with weight #_s/N, so its residual is that of p = 1 at time t·#_s/N."""
    draws, data = 4000, 15
    task, init = shared()
    alone, _ = shared(1)
    p, times = np.asarray(task.weights), np.geomspace(1e-3, 3.0, 16)
    counts = np.random.default_rng(3).multinomial(data, p, size=draws)
    found = np.asarray(msfr.loss(task, init, times, order, size=7, data=data))
    unlimited = np.asarray(msfr.loss(task, init, times, order))
    told_apart = 0
    for t, mine, other in zip(times, found, unlimited, strict=True):
        shares = np.arange(data + 1) / data * t
        square = np.asarray(msfr.residual(alone, init, shares, order))[:, 0] ** 2
        losses = 0.5 * square[counts] @ p
        error = losses.std() / math.sqrt(draws)
        assert abs(mine - losses.mean()) < 4.0 * error
        told_apart += abs(other - losses.mean()) > 20.0 * error
    # The average is not the loss at the average count, or the test could not tell.
    assert told_apart > 5


def test_compiled_equals_eager():
    """The first order is the zeroth and its derivative.

    The exact order is held to the oracle's numbers as it is compiled; eagerly it takes 20 s.
    """
    start = random_tasks(2)
    time = jnp.asarray([[0.02, 0.5], [0.1, 3.0]])
    compiled = np.asarray(jax.jit(order_one)(start, time))
    with jax.disable_jit():
        eager = np.asarray(order_one(start, time))
    scale = np.maximum(np.abs(start.prediction), np.abs(start.strength))[:, None]
    np.testing.assert_allclose(compiled / scale, eager / scale, atol=1e-12)


@pytest.mark.parametrize("order", ORDERS)
def test_one_task_alone_equals_the_same_task_among_ten_thousand(order):
    """Ten thousand tasks at 16 times are also more than one piece of the exact order."""
    start = random_tasks(10_000)
    task, init = public(start)
    times = np.geomspace(1e-3, 1e3, 16)
    assert order != "exact" or _loss._PIECE[order] < 160_000
    together = np.asarray(msfr.residual(task, init, times, order))
    weights = np.asarray(task.weights)
    for s in (0, 1, 17, 4_999, 9_999):
        alone = msfr.Task(1, 1.2, start.context[s : s + 1], start.strength[s : s + 1])
        begin = msfr.Init(start.v[s : s + 1], start.w[s : s + 1])
        found = np.asarray(msfr.residual(alone, begin, weights[s] * times, order))[:, 0]
        scale = max(abs(float(start.prediction[s])), abs(float(start.strength[s])))
        np.testing.assert_allclose(found, together[:, s], rtol=0.0, atol=1e-12 * scale)


@pytest.mark.parametrize("init", [(0.1, 0.11), (1e-5, 1e-5), (-0.3, 0.3), (0.2, 0.0)])
@pytest.mark.parametrize("strength", [0.5, -0.4, -1.0])
def test_shared_tasks_read_the_same_flow_as_tasks_with_rows_of_their_own(init, strength):
    task = msfr.Task(6, 1.8, 20.0, strength)
    rows = msfr.Task(6, 1.8, np.full(6, 20.0), np.full(6, strength))
    v, w = init
    shared_path = np.asarray(msfr.residual(task, msfr.Init(v, w), TIMES))
    starts = msfr.Init(np.full((6, 2), v), np.full((6, 2), w))
    general = np.asarray(msfr.residual(rows, starts, TIMES))
    scale = np.max(np.abs(general[0])) + abs(strength)
    np.testing.assert_allclose(shared_path, general, rtol=0.0, atol=1e-12 * scale)


@pytest.mark.parametrize("host", [True, False])
@pytest.mark.parametrize("count", [8, 9])
def test_pieces_of_tasks_sum_to_the_whole(count, host, monkeypatch):
    """2¹⁵ times make pieces of 8 tasks at order zero where it is compiled."""
    times = np.geomspace(1e-3, 1e3, 1 << 15)
    assert _loss._PIECE["zeroth"] // len(times) == 8
    assert len(times) > _loss._HOST_PIECE
    monkeypatch.setattr(_loss, "HOST", _loss.HOST if host else 0)
    start = random_tasks(count)
    task, init = public(start)
    left = jax.jit(order_zero)(start, task.weights[:, None] * jnp.asarray(times)[None, :])
    true = 0.5 * task.weights @ left**2
    np.testing.assert_allclose(msfr.loss(task, init, times, "zeroth"), true, rtol=1e-12)
    np.testing.assert_allclose(  # what is compiled takes subnormal numbers for 0
        msfr.residual(task, init, times, "zeroth"), left.T, rtol=1e-12, atol=1e-300
    )


def compilations():
    return compiling._state["compiled"]


@pytest.fixture(params=[True, False], ids=["host", "compiled"])
def host(request, monkeypatch):
    """Whether numbers are summed in numpy, or, as many are, by what is compiled."""
    monkeypatch.setattr(_loss, "HOST", _loss.HOST if request.param else 0)
    return request.param


@pytest.mark.parametrize("order", ORDERS)
def test_new_values_do_not_compile_again(order, host):
    def call(x):
        task = msfr.Task(6, 1.8 + x, CONTEXTS * (1 + x), STRENGTHS - x)
        begin = msfr.Init(V + x, W - x)
        msfr.loss(task, begin, TIMES + x, order)
        msfr.loss(task, begin, TIMES + x, order, size=3 + int(10 * x))
        msfr.predict(task, begin, TIMES + x, order)

    call(0.0)
    before = compilations()
    call(0.1)
    assert compilations() == before


@pytest.mark.parametrize("order", ["zeroth", "exact"])
def test_new_values_of_shared_tasks_do_not_compile_again(order, host):
    def call(x):
        task, begin = msfr.Task(6, 1.8 + x, 20.0 + x, 0.5 + x), msfr.Init(0.1 + x, 0.11 - x)
        msfr.loss(task, begin, TIMES + x, order)
        msfr.loss(task, begin, TIMES + x, order, size=3 + int(10 * x), data=50 + int(100 * x))
        msfr.predict(task, begin, TIMES + x, order)

    call(0.0)
    before = compilations()
    call(0.1)
    assert compilations() == before


@pytest.mark.parametrize("order", ["zeroth", "exact"])
def test_new_numbers_of_tasks_and_times_do_not_compile_again(order, host):
    def call(tasks, times):
        task, begin = shared(tasks)
        t = np.linspace(0.0, 1.0, times)
        msfr.loss(task, begin, t, order)
        msfr.predict(task, begin, t, order)
        rows = np.full((tasks, 2), 0.1)
        decaying = msfr.Task(tasks, 1.8, 20.0, 0.5, gamma=0.1)
        msfr.loss(decaying, msfr.Init(rows, rows), t, "zeroth", size=3)

    call(6, 16)
    before = compilations()
    for tasks, times in ((5, 16), (16, 7), (9, 2), (3, 11)):
        call(tasks, times)
    assert compilations() == before


def test_a_new_shape_does_compile_again(monkeypatch):
    """Or the tests above would watch the wrong counter."""
    monkeypatch.setattr(_loss, "HOST", 0)
    task, init = shared()
    msfr.predict(task, init, TIMES, "zeroth")
    before = compilations()
    msfr.predict(task, init, np.linspace(0.0, 1.0, 17), "zeroth")
    assert compilations() != before


@pytest.mark.parametrize("order", ORDERS)
def test_numbers_are_worked_out_without_compiling(order):
    before = compilations()
    for task in (shared(70)[0], msfr.Task(70, 1.7, 30.0, 0.6, beta=0.3, gamma=0.2)):
        msfr.loss(task, msfr.Init(0.1, 0.12), TIMES, order)
        msfr.loss(task, msfr.Init(0.1, 0.12), TIMES, order, size=40, data=300)
        msfr.predict(task, msfr.Init(0.1, 0.12), TIMES, order)
    assert compilations() == before
