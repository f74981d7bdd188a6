"""Softmax attention with keys at rest: its two modes, its sums, its range."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from tests.asked import answers_to, is_one_sentence

from solvable import msfr
from solvable.msfr.theory import SoftmaxTasks, softmax_loss, softmax_pairs
from solvable.msfr.theory._softmax_modes import both_modes, chances

START = msfr.SoftmaxInit(value=0.1, key=0.1, query=0.11, width=501)


def of_width(width):
    return msfr.SoftmaxInit(value=0.1, key=0.1, query=0.11, width=width)


def one(length, agreeing, own, strength=0.5, first=0.1, second=0.1):
    """Rates and errors of one task, the fast mode first."""
    lengths = np.array([float(length)])
    start = tuple(np.array([x]) for x in (agreeing, own, strength, first, second))
    with np.errstate(all="ignore"):
        rates, errors = both_modes(np, lengths, chances(lengths), start)
    return rates[:, 0], errors[:, 0]


def precisely(length, agreeing, own, strength, first, second):
    """The same from the definition of M, in as many digits as its small eigenvalue takes."""
    with mpmath.workdps(60 + int(0.7 * length + 2 * abs(agreeing) + 2 * abs(own))):
        strength, first, second = map(mpmath.mpf, (strength, first, second))
        up, down, mine = (mpmath.exp(mpmath.mpf(x)) for x in (agreeing, -agreeing, own))
        matrix, pull = mpmath.zeros(2), [mpmath.mpf(0), mpmath.mpf(0)]
        for n in range(length + 1):
            chance = mpmath.binomial(length, n) / mpmath.mpf(2) ** length
            total = n * up + (length - n) * down + mine
            a = (n * up - (length - n) * down) / total
            c = (a + mine / total, strength * a)
            left = c[0] * first + c[1] * second - strength
            for i, j in itertools.product(range(2), repeat=2):
                matrix[i, j] += chance * c[i] * c[j]
            pull = [x + chance * y * left for x, y in zip(pull, c, strict=True)]
        rates, frame = mpmath.eigsy(matrix)
        errors = [(frame[0, i] * pull[0] + frame[1, i] * pull[1]) ** 2 / rates[i] for i in (1, 0)]
        return [float(rates[1]), float(rates[0])], [float(x) for x in errors]


@pytest.mark.parametrize(
    ("agreeing", "own", "rates", "errors"),
    [
        (2.97, 1.98, (1.2176375233, 1.9646700994e-5), (0.1244103222, 6.7044402e-6)),
        (8.2665, 5.511, (1.2466655185, 8.5728101e-7), (0.1227342630, 6.13598e-8)),
    ],
)
def test_modes_are_those_of_the_specification(agreeing, own, rates, errors):
    found = one(20, agreeing, own)
    np.testing.assert_allclose(found[0], rates, rtol=5e-8)  # as many digits as are given
    np.testing.assert_allclose(found[1], errors, rtol=1e-6)


@pytest.mark.parametrize("length", [1, 5, 20, 100, 129, 1000])
def test_both_modes_keep_their_digits(length):
    for agreeing, own in ((0.2, 0.1), (1.0, 3.0), (2.97, 1.98), (10.0, 4.0), (-3.0, -2.0)):
        for start in ((0.5, 0.1, 0.1), (-0.8, 0.3, -0.2)):
            if length == 1000 and (agreeing, start[0]) not in {(0.2, 0.5), (10.0, 0.5)}:
                continue  # which take a second each
            expected = precisely(length, agreeing, own, *start)
            # A thousand logarithms of up to 700 have been added and subtracted.
            np.testing.assert_allclose(one(length, agreeing, own, *start), expected, rtol=1e-12)


@pytest.mark.parametrize(("agreeing", "own"), [(60.0, 40.0), (300.0, 200.0), (-300.0, 100.0)])
def test_large_attention_neither_overflows_nor_loses_the_slow_mode(agreeing, own):
    expected = precisely(20, agreeing, own, 0.5, 0.1, 0.1)
    np.testing.assert_allclose(one(20, agreeing, own), expected, rtol=1e-12)


def test_saturated_attention_learns_the_slow_mode_where_no_token_agrees():
    for length in (1, 7, 60, 1000):
        missed, strength = 0.5**length, 0.7
        rates, errors = one(length, 1e6, 5e5, strength)
        agreeing, own = np.array([1.0, strength]), np.array([1.0, 0.0])
        whole = (1.0 - missed) * np.outer(agreeing, agreeing) + missed * np.outer(own, own)
        assert np.sum(rates) == pytest.approx(np.trace(whole), rel=1e-13)
        product = (1.0 - missed) * missed * strength**2
        assert np.prod(rates) == pytest.approx(product, rel=1e-12)
        start = 0.1 * (1.0 + strength) - strength
        mean = (1.0 - missed) * start**2 + missed * (0.1 - strength) ** 2
        assert np.sum(errors) == pytest.approx(mean, rel=1e-13)


def test_the_minimum_is_exact_for_every_number_of_agreeing_signs():
    length, agreeing, own, strength = 9, 0.7, 0.4, 0.6
    first = strength * (1.0 + length * math.exp(-agreeing - own) * (1.0 + math.tanh(agreeing)))
    second = math.tanh(agreeing) - first / strength
    _, errors = one(length, agreeing, own, strength, first, second)
    assert np.sum(errors) < 1e-28
    # One of them moved by a hundredth is no minimum.
    assert np.sum(one(length, agreeing, own, strength, 1.01 * first, second)[1]) > 1e-6


def test_the_flow_of_v_on_real_tokens():
    """All 2^4 contexts of one task, through the attention block as it is defined."""
    strength, length, width, rng = 0.5, 4, 3, np.random.default_rng(0)
    key, query = rng.normal(0.0, 0.6, (2, width, 2))
    start = np.array([0.1, -0.2])
    rows = []
    for signs in itertools.product((-1.0, 1.0), repeat=length + 1):
        tokens = np.array([signs, [*(strength * x for x in signs[:-1]), 0.0]])
        score = (key @ tokens).T @ (query @ tokens)
        attention = np.exp(score[:, -1]) / np.sum(np.exp(score[:, -1]))
        rows.append((tokens @ attention, strength * signs[-1]))
    features, labels = (np.array(x) for x in zip(*rows, strict=True))

    def downhill(_, value):
        return -features.T @ (features @ value - labels) / len(labels)

    times = np.array([0.0, 1.0, 10.0, 100.0])
    path = solve_ivp(downhill, (0.0, 100.0), start, "DOP853", times, rtol=1e-12, atol=1e-14).y
    expected = 0.5 * np.mean((features @ path - labels[:, None]) ** 2, axis=0)
    task = msfr.Task(1, 1.8, float(length), strength)
    init = msfr.SoftmaxInit(start[None, :], key, query)
    np.testing.assert_allclose(msfr.loss(task, init, times), expected, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "least", "most"), [(501, 1.0, 1.003), (180, 1.0, 1.006)])
def test_training_follows_keys_at_rest_from_u_of_three_on(width, least, most):
    """Steps of 0.1 are worth 1/steps, and the keys' own motion less than 0.3 % at u = 3."""
    task = msfr.Task(40, 1.8, 20.0, 0.5)
    run = msfr.train(task, of_width(width), lr=0.1, steps=2000, log_every=500)
    ratio = np.asarray(msfr.loss(task, of_width(width), run.time) / run.loss)[1:]
    assert msfr.softmax_start(task, of_width(width)).at_rest == (width == 501)  # 2.97 at 180
    assert np.all((ratio > least) & (ratio < most))


@pytest.mark.slow
def test_below_u_of_one_the_keys_learn_and_the_closed_form_is_left_behind():
    task = msfr.Task(40, 1.8, 20.0, 0.5)
    run = msfr.train(task, of_width(60), lr=0.1, steps=2000, log_every=1000)
    ratio = np.asarray(msfr.loss(task, of_width(60), run.time) / run.loss)
    assert not msfr.softmax_start(task, of_width(60)).at_rest
    assert ratio[-1] > 1.5


LAWS = {
    "equal": {},
    "contexts": {"beta": 1.0, "context": 500.0},
    "slow contexts": {"beta": 0.5, "context": 40.0},
    "strengths": {"gamma": 0.5},
    "strong": {"gamma": 2.0, "strength": 30.0},
    "both": {"gamma": 0.3, "beta": 0.7, "context": 300.0},
    "steep": {"alpha": 6.0},
    "flat": {"alpha": 1.05},
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("width", [501, 60])
def test_nodes_stand_for_all_tasks(law, width):
    task = msfr.Task(20_000, **({"alpha": 1.8, "context": 100.0, "strength": 0.5} | LAWS[law]))
    init, t = of_width(width), np.array([0.0, 1.0, 1e3, 1e6, 1e9, 1e12])
    every = SoftmaxTasks(task, init, each=True).tasks()
    assert len(SoftmaxTasks(task, init).tasks().index) < 2000 < len(every.index)
    p, rates, errors = every.weight, every.rates, every.errors
    for size, data in ((None, None), (777, None), (None, 1000), (4321, 10**7)):
        left = np.exp(-2.0 * (p * rates)[..., None] * t)
        if data:
            hit = -np.expm1(-2.0 * rates[..., None] * t / data)
            left = np.exp(data * np.log1p(-p[:, None] * hit))
        if size:
            left = np.where(every.index[:, None] < size, left, 1.0)
        full = 0.5 * np.einsum("s,ks,kst->t", p, errors, left)
        seen = full > 1e-280
        found = np.asarray(softmax_loss(task, init, t, size, data))
        np.testing.assert_allclose(found[seen], full[seen], rtol=1e-12)


@pytest.mark.parametrize("law", ["equal", "contexts", "both"])
def test_pairs_of_time_and_size_are_the_loss_at_each(law):
    task = msfr.Task(20_000, **({"alpha": 1.8, "context": 100.0, "strength": 0.5} | LAWS[law]))
    pairs = softmax_pairs(task, START)
    sizes = np.array([1, 2, 50, 777, 4321, 20_000, 20_001])
    times = np.array([1.0, 1e2, 1e5])
    single = [[float(msfr.loss(task, START, t, size=int(d))) for t in times] for d in sizes]
    np.testing.assert_allclose(pairs(times[None, :], sizes[:, None]), single, rtol=1e-12)


def test_arrays_of_parameters_are_the_law_that_they_follow():
    task = msfr.Task(30, 1.8, 40.0, 0.5, beta=0.5, gamma=0.3)
    lengths, strengths = np.asarray(task.contexts), np.asarray(task.strengths)
    told = msfr.Task(30, 1.8, lengths, strengths)
    init = msfr.SoftmaxInit(np.full((30, 2), 0.1), np.full((501, 31), 0.1), 0.11)
    t = [0.0, 1.0, 30.0]
    np.testing.assert_allclose(msfr.loss(told, init, t), msfr.loss(task, START, t), rtol=1e-12)
    found, law = msfr.softmax_start(told, init), msfr.softmax_start(task, START)
    np.testing.assert_allclose(found.agreeing, law.agreeing, rtol=1e-13)


def test_the_sum_of_a_million_tasks():
    task = msfr.Task(10**6, 1.8, 2000.0, 0.5)
    saturated = msfr.SoftmaxInit(value=0.1, key=10.0, query=10.0)
    found = msfr.loss(task, saturated, [1e2, 1e3, 1e4])
    np.testing.assert_allclose(found, [0.00410114, 0.00147346, 5.29122e-4], rtol=2e-6)


def test_limits_at_no_and_at_unlimited_time():
    task = msfr.Task(60, 1.8, 5.0, 0.5)
    p = np.asarray(task.weights)
    modes = msfr.softmax_modes(task, START)
    error = np.sum(np.asarray(modes.errors), axis=1)
    assert modes.rates.shape == modes.errors.shape == (60, 2)
    assert msfr.loss(task, START, 0.0) == pytest.approx(0.5 * p @ error, rel=1e-13)
    for forever in (math.inf, 1e300):
        assert float(msfr.loss(task, START, forever)) == 0.0
        unlearned = 0.5 * p[9:] @ error[9:]
        assert msfr.loss(task, START, forever, size=10) == pytest.approx(unlearned, rel=1e-13)
        unseen = 0.5 * (p * (1.0 - p) ** 100) @ error
        assert msfr.loss(task, START, forever, data=100) == pytest.approx(unseen, rel=1e-12)
    one_task = msfr.Task(1, 1.8, 5.0, 0.5)
    assert float(msfr.loss(one_task, START, math.inf, data=1)) == 0.0


def test_the_mean_over_data_sets_is_the_sum_over_all_counts():
    task, data, t = msfr.Task(4, 1.8, 12.0, 0.5), 5, 3.0
    modes, p = msfr.softmax_modes(task, START), np.asarray(task.weights)
    mean = 0.0
    for s, count in itertools.product(range(4), range(data + 1)):
        chance = math.comb(data, count) * p[s] ** count * (1.0 - p[s]) ** (data - count)
        left = np.exp(-2.0 * count / data * np.asarray(modes.rates[s]) * t)
        mean += chance * 0.5 * p[s] * float(np.asarray(modes.errors[s]) @ left)
    assert float(msfr.loss(task, START, t, data=data)) == pytest.approx(mean, rel=1e-13)


def traced(x, num_tasks=50):
    alpha, strength, value, key, query, t = x
    task = msfr.Task(num_tasks, alpha, 20.0, strength, beta=0.5)
    return msfr.loss(task, msfr.SoftmaxInit(value, key, query, width=100), t, size=30)


PLACE = jnp.array([1.8, 0.5, 0.1, 0.1, 0.11, 7.0])


@pytest.mark.slow
def test_compiled_values_are_those_of_numbers():
    for num_tasks in (50, 5000):
        found = jax.jit(functools.partial(traced, num_tasks=num_tasks))(PLACE)
        assert float(found) == pytest.approx(float(traced(PLACE, num_tasks)), rel=1e-13)


@pytest.mark.slow
def test_slopes_are_differences():
    steps = 1e-5 * np.eye(6)
    ends = [(traced(PLACE + jnp.asarray(h)), traced(PLACE - jnp.asarray(h))) for h in steps]
    slopes = [float(up - down) / 2e-5 for up, down in ends]
    # A central difference of 1e-5 is good to its square.
    np.testing.assert_allclose(jax.grad(traced)(PLACE), slopes, atol=1e-8)


@pytest.mark.slow
def test_a_slope_exists_where_there_is_nothing_to_learn_of_the_context():
    def at(strength):
        return msfr.loss(msfr.Task(9, 1.8, 20.0, strength), START, 3.0)

    assert np.isfinite(float(jax.grad(at)(0.0)))


numbers = st.floats(-1e3, 1e3)


@settings(max_examples=60, deadline=None)
@given(
    st.floats(1.01, 10.0),
    st.floats(0.1, 1e6),
    st.floats(-1e6, 1e6),
    st.floats(0.0, 3.0),
    numbers,
    numbers,
    numbers,
    st.integers(1, 10**9),
)
def test_any_start_gives_a_loss_that_falls_to_nothing(
    alpha, context, strength, gamma, value, key, query, width
):
    task = msfr.Task(7, alpha, context, strength, gamma=gamma)
    init = msfr.SoftmaxInit(value, key, query, width=width)
    losses = np.asarray(msfr.loss(task, init, [0.0, 1e-9, 1.0, 1e9, math.inf]))
    assert np.all(np.isfinite(losses))
    assert np.all(np.diff(losses) <= 0.0)
    assert losses[-1] == 0.0


def test_u_and_d_are_those_of_the_start():
    task = msfr.Task(500, 1.8, 100.0, 0.5)
    found = msfr.softmax_start(task, msfr.SoftmaxInit(value=0.1, key=0.1, query=0.11))
    assert float(found.agreeing) == pytest.approx(8.2665)
    assert float(found.own) == pytest.approx(5.511)
    assert found.at_rest


CASES = {
    "loss(task, soft, -1.0)": "t must lie in .* not -1",
    "loss(task, soft, 1.0, size=0)": "size must be .* not 0",
    "loss(task, soft, 1.0, data=2.5)": "data must be .* not 2.5",
    "loss(task, soft, 1.0, order='second')": "order must be one of .* not 'second'",
    "loss(many, soft, 1.0)": "context must give at most 20000 different lengths .*",
    "softmax_start(task, init)": r"init must be a msfr\.SoftmaxInit .* not Init",
    "softmax_modes(5, soft)": r"task must be a msfr\.Task, not int",
    "time_law(task, soft, order='second')": "order must be one of .* not 'second'",
    "time_law(task, soft, regime='odd')": "regime must be one of strong, weak, not 'odd'",
    "size_law(task, soft, shift=1.0)": "shift must lie in .* not 1",
    "size_law(alone, soft)": "num_tasks must be at least 2 for a law in size, not 1",
    "data_law(uneven, soft)": "context and strength must be single numbers",
    "compute_law(still, zero)": "init must leave something to learn",
    "frontier(task, soft, [0.0])": "compute must lie in .* not 0",
}
SETUP = """
from solvable.msfr import *
task, init, soft = Task(4, 1.8, 5, 0.5), Init(v=0.1, w=0.11), SoftmaxInit(0.1, 0.1, 0.1)
many, alone, uneven = Task(10**9, 1.8, 1e9, 0.5, 1.0), Task(1, 1.8, 5, 0.5), Task(2, 1.8, [5, 4], 1)
still, zero = Task(4, 1.8, 5, 0.0), SoftmaxInit(0.0, 0.1, 0.1)
"""


@pytest.fixture(scope="module")
def answers():
    return answers_to(list(CASES), SETUP)


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_named(case, answers):
    is_one_sentence(answers[case], CASES[case])
