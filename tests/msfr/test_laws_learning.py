"""Which tasks can be learned, and that all laws agree about it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from solvable import msfr
from solvable.msfr.theory import learnable, rest_square, rows_of

ORDERS = ["zeroth", "first", "exact"]
# [L(∞), L(D = 10), L(N = 100)] at order zero, then L(D = 10), L(N = 100) exactly; S = 50, α = 1.8,
# ψ = 100. By plain sums over the 50 tasks.
VECTORS = {
    (-0.5, 0.1, 0.1): (
        (0.125, 0.13799579121156, 0.13636026964751),
        (0.13862374784290, 0.13690919787688),
    ),
    (0.5, 0.1, -0.1): (
        (0.125, 0.42910151435041, 0.39083030975174),
        (0.43139293225683, 0.39283335249599),
    ),
    (0.5, 0.0, 0.0): ((0.125, 0.125, 0.125), (0.125, 0.125)),
}


def laws_of(task, init, order):
    made = (msfr.time_law, msfr.size_law, msfr.data_law, msfr.compute_law)
    return [make(task, init, order) for make in made]


@pytest.mark.parametrize("case", VECTORS)
def test_limits_of_size_and_data_hold_what_cannot_be_learned(case):
    strength, v, w = case
    task, init = msfr.Task(50, 1.8, 100.0, strength), msfr.Init(v, w)
    (limit, at_size, at_data), exact = VECTORS[case]
    for order, sizes, data in (("zeroth", at_size, at_data), ("exact", *exact)):
        assert msfr.time_law(task, init, order).limit == pytest.approx(limit, rel=1e-13)
        assert msfr.size_law(task, init, order).loss(10) == pytest.approx(sizes, rel=1e-13)
        assert msfr.data_law(task, init, order).loss(100) == pytest.approx(data, rel=1e-13)
        assert float(msfr.loss(task, init, math.inf, order, size=10)) == pytest.approx(
            sizes, rel=1e-12
        )
        assert float(msfr.loss(task, init, math.inf, order, data=100)) == pytest.approx(
            data, rel=1e-10
        )


STARTS = st.sampled_from([0.0, 0.1, -0.1, 0.11, -0.3, 1e-20, -1e-20, 2.0])
STRENGTHS = st.sampled_from([0.5, -0.5, -1.0, 1.0, -2.0, 30.0, 1e-3, 0.0])
DECAYS = st.sampled_from([0.0, 0.0, 0.3, 1.0])


@pytest.mark.parametrize("order", ORDERS)
@given(STARTS, STARTS, STRENGTHS, DECAYS, DECAYS, st.sampled_from([2, 60, 10**6]))
def test_every_limit_is_the_loss_of_endless_time(order, v, w, strength, beta, gamma, tasks):
    """Over all signs, saddles, Λ = 0 and Λ_s = −1 at one s among others."""
    tasks = min(tasks, 60) if order == "exact" else tasks  # a flow of its own for every node
    task, init = msfr.Task(tasks, 1.8, 30.0, strength, beta=beta, gamma=gamma), msfr.Init(v, w)
    first = float(msfr.loss(task, init, 0.0, order))
    if first == 0.0:
        with pytest.raises(ValueError, match="something to learn"):
            msfr.time_law(task, init, order)
        return
    end = float(msfr.loss(task, init, 1e300, order))
    laws = laws_of(task, init, order)
    # 1e-9 of L(0): Λ = 0 with v = ±w decays like 1/t, and 1e300 is not endless at p_s = 1e-11.
    for law in laws:
        assert law.limit == pytest.approx(end, rel=1e-9, abs=1e-9 * first), law
    assert len({law.status for law in laws}) == 1
    assert (laws[0].status == "saddle") == (laws[0].limit > 0.0)
    time, size, data, compute = (law.exponent for law in laws)
    assert compute == pytest.approx(time * size / (time + size))
    assert data == pytest.approx(size / 1.8)
    best = msfr.frontier(task, init, [1e200], order)
    assert best.loss[0] == pytest.approx(end, rel=1e-6, abs=1e-9 * first)
    assert best.limit == laws[0].limit


@pytest.mark.parametrize("order", ["zeroth", "exact"])
@pytest.mark.parametrize(
    ("strength", "v", "w", "learned"),
    [
        (0.5, 0.1, 0.1, True),
        (-0.5, 0.1, 0.1, False),
        (-0.5, 0.1, 0.11, True),
        (0.5, 0.1, -0.1, False),
        (-0.5, 0.1, -0.1, True),
        (0.5, 0.0, 0.2, True),
        (0.5, 0.0, 0.0, False),
        (0.0, 0.2, -0.2, True),
        (-1.0, 0.1, 0.11, None),  # nothing along (1, Λ): still at order zero, learned exactly
    ],
)
def test_the_predicate_is_what_an_ode_does(order, strength, v, w, learned):
    learned = order == "exact" if learned is None else learned
    task, init = msfr.Task(1, 1.8, 3.0, strength), msfr.Init(v, w)
    start = rows_of(task, init).start
    assert learnable(start, order).tolist() == [learned]
    u, own = np.array([1.0, strength]), np.array([float(order == "exact"), 0.0])

    def through(x):  # H x, without the rounding by which a saddle would be left
        return 3.0 * u * (x[0] + strength * x[1]) + own * x

    def field(_, y):
        a, b = y[:2], y[2:]
        pull = a @ through(b) - strength
        return np.concatenate([-pull * through(b), -pull * through(a)])

    path = solve_ivp(field, (0.0, 60.0), [v, v, w, w], method="DOP853", rtol=1e-11, atol=1e-13)
    a, b = path.y[:2, -1], path.y[2:, -1]
    end = a @ through(b)
    # Λ = 0 is reached like 1/t only.
    assert abs(end - strength * learned) < (1e-2 if strength == 0.0 else 1e-6)
    rest = float(rest_square(start, order)[0])
    assert rest == (0.0 if learned else strength**2)


def test_uniform_start_at_strength_minus_one_is_learned_in_the_exact_flow_only():
    task, init = msfr.Task(1, 1.8, 100.0, -1.0), msfr.Init(0.1, 0.11)
    assert float(msfr.predict(task, init, 0.0)[0]) == pytest.approx(0.011)
    assert float(msfr.predict(task, init, 1.0)[0]) == pytest.approx(-1.0, abs=5e-5)
    zeroth = msfr.time_law(msfr.Task(50, 1.8, 100.0, -1.0), init, "zeroth")
    assert (zeroth.status, zeroth.limit) == ("saddle", pytest.approx(0.5))
    assert msfr.time_law(msfr.Task(50, 1.8, 100.0, -1.0), init, "exact").status == "ok"


def test_at_a_saddle_what_can_be_learned_follows_the_table():
    """L − L(∞) has Table 1's exponents, its amplitude in D and N is (1 − Λ²/e²) of the usual."""
    task, init = msfr.Task(10**9, 1.8, 100.0, -0.5), msfr.Init(0.1, 0.1)
    size, data = msfr.size_law(task, init, shift=0.5), msfr.data_law(task, init)
    square = (
        float(msfr.predict(msfr.Task(1, 1.8, 100.0, -0.5), init, 0.0, "zeroth")[0]) + 0.5
    ) ** 2
    z = float(task.normaliser)
    share = 1.0 - 0.25 / square
    assert size.amplitude == pytest.approx(0.5 * z * square / 0.8 * share, rel=1e-12)
    gamma = math.gamma(1.0 - 1.0 / 1.8)
    assert data.amplitude == pytest.approx(share * z * square / 3.6 * gamma * z ** (1 / 1.8 - 1))
    for law in (msfr.time_law(task, init), size, data):
        assert law.status == "saddle"
        assert law.limit == pytest.approx(0.125, rel=1e-12)
        assert law.decades(0.02) > 4.0, law
        low, high = law.window(0.02)
        middle = math.sqrt(low * high)
        above = law.loss(middle) - law.limit
        assert above == pytest.approx(law(middle) - law.limit, rel=0.02)


def test_from_a_zero_start_nothing_is_ever_learned():
    task, zero = msfr.Task(60, 1.8, 10.0, -0.5, beta=0.3), msfr.Init(v=0.0, w=0.0)
    for law in laws_of(task, zero, "zeroth"):
        assert (law.status, law.limit) == ("saddle", pytest.approx(0.125, rel=1e-12))
        np.testing.assert_allclose(law.loss([1.0, 50.0]), 0.125, rtol=1e-12)
    equal = msfr.time_law(msfr.Task(60, 1.8, 10.0, -0.5), zero)
    assert equal.amplitude == 0.0
    np.testing.assert_allclose(equal([1.0, 100.0]), 0.125, rtol=1e-12)


def test_a_fitted_curve_holds_what_cannot_be_learned():
    """At a saddle L/L(0) ends at Λ²/e²; without data or size to spare the same is left."""
    for names in (("t",), ("D",), ("N",)):
        law = msfr.curve_law(names, num_tasks=40, strength=-0.5, v=0.1, w=0.1)
        given = np.array([0.0, 1.0, 1.8, 0.0, 0.0, 1.0])
        end = law.curve(given, np.array([[1e9]]))[0]
        task, init = msfr.Task(40, 1.8, 100.0, -0.5), msfr.Init(0.1, 0.1)
        first = float(msfr.loss(task, init, 0.0, "zeroth"))
        assert end == pytest.approx(0.125 / first, rel=1e-9), names


def test_the_frontier_of_a_saddle_follows_its_law_where_the_limit_is_nearly_all():
    task, init = msfr.Task(10**12, 3.0, 100.0, -0.5), msfr.Init(0.1, 0.1)
    found = msfr.frontier(task, init, [1e18, 6.7e20], "zeroth")
    np.testing.assert_allclose(found.local_exponent, 0.5, rtol=1e-4)


def test_order_one_starts_where_it_should_however_unlike_v_and_w_are():
    """f(0) = (ψ + 1) v w at Λ = 0."""
    for psi, v, w in ((1.0, 0.1, 1e-20), (1e-3, 1e3, 1e-14)):
        task, init = msfr.Task(1, 2.0, psi, 0.0), msfr.Init(v, w)
        found = float(msfr.residual(task, init, 0.0, "first")[0])
        assert found == pytest.approx((psi + 1.0) * v * w, rel=1e-12)
