"""Power laws in time against quadrature, solvers, and the flow of very many modes."""

import math

import jax
import mpmath
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import zeta

from solvable import shallow_icl as icl
from solvable.shallow_icl.theory._clock import Clock
from solvable.shallow_icl.theory._power_tokens import PowerTokens

# p, ∫ x^b φ², ∫ x^{b−1}(1 − xφ)², A, B, e at N = ∞, worked out apart from this package.
TABLE = {
    1.1: (0.242424242424, 2.00580542036, 31.474830955, 0.516493156334, 1.25497478936),
    1.25: (0.233333333333, 1.97202791345, 13.5535790641, 0.627713155487, 1.29679315472),
    1.5: (0.222222222222, 1.94285156037, 7.64142024045, 0.690718116716, 1.16754066228),
    2.0: (0.208333333333, 1.92453796354, 4.73996024188, 0.707172308386, 0.875821678343),
    3.0: (0.194444444444, 1.92638826848, 3.3278234326, 0.669830486351, 0.556700414909),
}
EXPONENTS = {
    1.1: 0.0588235294118,
    1.25: 0.125,
    1.5: 0.2,
    2.0: 0.285714285714,
    3.0: 0.363636363636,
}
# L at t/τ for N = D = ∞ and s₀ = 1e-3, by modes to 20,000 and the tail: good to 1e-8.
LOSSES = {
    1.25: {1e4: 0.4106998463, 1e6: 0.2306095074},
    1.5: {1e6: 0.07366737747, 1e8: 0.02932729764},
    2.0: {1e6: 0.01690954164, 1e8: 0.00453629638},
}


SPECTRUM = np.arange(1.0, 6.0) ** -2.0 / np.sum(np.arange(1.0, 6.0) ** -2.0)


def slow(spectrum, context, start, times):
    """L − L* by a solver of order 8, on the D + 1 equations in t."""
    ratio = spectrum * (1.0 + 1.0 / context) + spectrum.sum() / context

    def velocity(_, y):
        s, g = y[0], y[1:]
        pull = spectrum**2 * (1.0 - s * ratio * g)
        return np.append(g @ pull, s * pull)

    drive = spectrum**2 / np.linalg.norm(spectrum**2)
    begin, how = start * np.append(1.0, drive), {"rtol": 1e-12, "atol": 1e-13 * start}
    found = solve_ivp(velocity, (0.0, times[-1]), begin, "DOP853", times, **how)
    left = 1.0 - (found.y[0] * found.y[1:]).T * ratio
    return left**2 @ (spectrum**2 / ratio)


@pytest.mark.parametrize("a", TABLE)
def test_constants_of_the_early_law(a):
    law = icl.time_law(a).early
    found = (law.clock, law.learned, law.missing, law.size, law.amplitude)
    np.testing.assert_allclose(found, TABLE[a], rtol=5e-12)  # twelve digits were printed
    assert law.exponent == pytest.approx(EXPONENTS[a], rel=5e-12)
    assert icl.time_law(a).exponent == pytest.approx((a - 1.0) / (2.0 * a - 0.5), rel=1e-14)


@pytest.mark.parametrize(("a", "context"), [(1.5, math.inf), (1.5, 30), (2.5, 7)])
def test_the_integrals_are_those_of_the_shape(a, context):
    """By mpmath's quadrature of its own ₁F₁; late laws have another b and p."""
    law, late = icl.time_law(a, context).early, icl.time_law(a, context).late
    b, p = (a - 1.0) / (3.0 * a), (2.0 * a + 1.0) / (12.0 * a)
    if late is not None:
        law, b, p = late, 1.0 - 0.5 / a, 1.0 / (8.0 * a)
    with mpmath.workdps(15):

        def shape(x):
            return mpmath.hyp1f1(1, 2 - p, -x) / (1 - p)

        pieces = [mpmath.mpf(10) ** k for k in range(-12, 7)]
        learned = mpmath.quad(lambda x: x**b * shape(x) ** 2, [0, *pieces])
        learned += pieces[-1] ** (b - 1) / (1 - b) + 2 * p * pieces[-1] ** (b - 2) / (2 - b)
        missing = mpmath.quad(lambda x: x ** (b - 1) * (1 - x * shape(x)) ** 2, pieces)
        missing += pieces[0] ** b / b
    assert law.learned == pytest.approx(float(learned), rel=1e-9)
    assert law.missing == pytest.approx(float(missing), rel=1e-9)


@pytest.mark.parametrize("a", LOSSES)
def test_losses_of_all_modes(a):
    times = list(LOSSES[a])
    found = icl.power_flow(a, math.inf, times)
    np.testing.assert_allclose(found.loss, list(LOSSES[a].values()), atol=1e-8, rtol=0.0)
    np.testing.assert_array_less(found.error, 1e-8)
    np.testing.assert_array_equal(found.loss, found.excess)


def test_the_early_law_is_met_and_from_then_on_ever_better():
    law, times = icl.time_law(2.0), [1e4, 1e6, 1e8]
    gaps = np.abs(icl.power_flow(2.0, math.inf, times).loss / law.early(times) - 1.0)
    assert gaps[1] < 1e-5
    # What is left is a delay: a hundredth for times a hundred times longer.
    np.testing.assert_allclose(gaps[1:] / gaps[:-1], 0.01, rtol=0.2)


# Excess over the late law, with a billion modes; L*, at 1e6 by 2e7 terms and an integral; its
# ratio to the law of large N.
LATE = {
    (1.5, 30): (1.0000, 0.40949277, 0.998),
    (1.5, 1000): (1.0001, 0.12782893, 1.0026),
    (1.5, 10**6): (1.0085, 0.01275030918, 1.00004),
    (2.0, 30): (1.0002, 0.22952417, 1.026),
    (2.0, 1000): (1.0011, 0.039171818, 1.011),
    (2.0, 10**6): (1.033, 0.00122524303, 1.0005),
}


@pytest.mark.parametrize(("a", "context"), LATE)
def test_the_late_law_and_the_floor(a, context):
    ratio, floor, over = LATE[a, context]
    law = icl.time_law(a, context)
    assert law.late is not None
    found = icl.power_flow(a, context, [1e16, 1.5e16], dim=10**9)
    digits = 1e-4 if context < 10**6 else 5e-4
    assert found.excess[0] / law.late(1e16) == pytest.approx(ratio, abs=digits)
    assert law.floor == pytest.approx(floor, rel=5e-6)
    limit = zeta(a) ** (-1.0 / a) * (math.pi / a) / math.sin(math.pi / a)
    assert law.floor * context ** (1.0 - 1.0 / a) / limit == pytest.approx(over, abs=6e-4)
    slope = -math.log(found.excess[1] / found.excess[0]) / math.log(1.5)
    near = 1e-3 if context < 10**6 else 0.01  # still on its way there
    assert slope == pytest.approx((2.0 * a - 1.0) / (2.0 * a - 0.5), abs=near)
    assert law.early(law.crossover) == pytest.approx(law.late(law.crossover), rel=1e-12)
    np.testing.assert_allclose(law.excess(law.crossover * 4.0), law.late(law.crossover * 4.0))


@pytest.mark.parametrize("dim", [1, 3, 399, 401, 3000])
def test_any_number_of_modes_is_that_of_a_solver(dim):
    """Below 400 modes each for itself; above in integrals over ln d."""
    a, context, times = 1.3, 40.0, np.array([1.0, 60.0, 200.0, 500.0])
    spectrum = np.arange(1.0, dim + 1.0) ** -a
    spectrum /= spectrum.sum()
    told = slow(spectrum, context, 1e-3, times)
    found = icl.power_flow(a, 40, times, dim=dim)
    gamma = 1.0 + (1.0 + 1.0 / spectrum) / context
    floor = float(np.sum(spectrum * (1.0 - 1.0 / gamma)))
    tolerance = 3e-9 * (floor + told)  # the solver is the better one by far
    np.testing.assert_array_less(np.abs(found.excess - told), tolerance)
    np.testing.assert_array_less(np.abs(found.excess - told), found.error * found.loss + 1e-12)
    np.testing.assert_allclose(found.loss - found.excess, floor, rtol=1e-12)


def test_a_hundred_million_modes_to_a_late_time_cost_no_more_than_a_few_hundred():
    places, counts, most = PowerTokens(1.5, math.inf, 1e8).sampled(1e8)
    assert most == 1e8
    assert places.size < 1000
    assert counts.sum() == pytest.approx(1e8, rel=1e-12)
    found = icl.power_flow(1.5, math.inf, np.geomspace(1e6, 1e18, 25), dim=10**8)
    assert found.steps < 20_000
    # It is D = ∞ but for the tail that is missing and the trace of 1.
    c = 1.0 / (zeta(1.5) - zeta(1.5, 1e8 + 1.0))
    slope = np.gradient(np.log(found.loss + c * zeta(1.5, 1e8 + 1.0)), np.log(found.time))
    np.testing.assert_allclose(slope[1:-1], -0.2, atol=1e-4)


@pytest.mark.parametrize(
    ("power", "context", "dim", "to"), [(1.5, math.inf, math.inf, 1e5), (1.2, 30.0, 5000.0, 5000.0)]
)
def test_sums_over_modes_are_those_one_by_one(power, context, dim, to):
    tokens = PowerTokens(power, context, dim)
    places, counts, most = tokens.sampled(to)
    ratio = tokens.ratio(tokens.spectrum(places))
    whole = np.arange(1.0, round(most) + 1.0)
    each = tokens.spectrum(whole)
    for shape in (1.0, 2.0, 3.5):
        told = np.sum(each**shape)
        assert counts @ tokens.spectrum(places) ** shape == pytest.approx(told, rel=1e-8)
    gains = tokens.spectrum(places) ** 2 / ratio
    assert counts @ gains + tokens.floor + tokens.beyond(most) == pytest.approx(1.0, rel=1e-8)


def test_the_start_delays_merged_attention_by_a_logarithm():
    """It is ln 10/‖Λ²‖ for each factor of ten."""
    times = np.linspace(1.0, 1e3, 2000)
    halves = [
        icl.crossing_times(times, icl.power_flow(2.0, 30, times, dim=5, start=s).loss, [0.7])[0]
        for s in (1e-4, 1e-6)
    ]
    growth = np.linalg.norm(SPECTRUM**2)
    assert halves[1] - halves[0] == pytest.approx(2.0 * math.log(10.0) / growth, rel=1e-3)


def test_exponents_of_separate_attention():
    law = icl.time_law(1.5, 30)
    assert (law.separate, law.separate_late) == (pytest.approx(1.0 / 6.0), pytest.approx(2.0 / 3.0))
    assert law.separate < law.exponent
    assert icl.time_law(1.5).late is None
    assert icl.time_law(1.5).crossover == math.inf
    assert icl.time_law(1.5).floor == 0.0


BAD = [
    (lambda: icl.time_law(1.0), "exponent"),
    (lambda: icl.time_law(0.5, 30), "exponent"),
    (lambda: icl.time_law(math.nan), "exponent"),
    (lambda: icl.time_law(1e9), "exponent"),
    (lambda: icl.time_law(1.5, 0), "context"),
    (lambda: icl.time_law(1.5, 2.5), "context"),
    (lambda: icl.time_law(1.5).early(0.0), "t"),
    (lambda: icl.time_law(1.5, 30).excess(-1.0), "t"),
    (lambda: icl.power_flow(1.0, 30, 1.0), "exponent"),
    (lambda: icl.power_flow(1.5, 30, -1.0), "times"),
    (lambda: icl.power_flow(1.5, 30, []), "times"),
    (lambda: icl.power_flow(1.5, 30, [[1.0]]), "times"),
    (lambda: icl.power_flow(1.5, 30, [1.0, math.nan]), "times"),
    (lambda: icl.power_flow(1.5, 30, 1.0, dim=0), "dim"),
    (lambda: icl.power_flow(1.5, 30, 1.0, start=0.0), "start"),
    (lambda: icl.power_flow(1.5, 30, 1.0, start=[0.1, 0.2]), "start"),
]


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(("ask", "field"), BAD, ids=[f"{n}-{f}" for n, (_, f) in enumerate(BAD)])
def test_what_cannot_be_answered_is_named(ask, field):
    with pytest.raises(ValueError, match=rf"\b{field}\b must") as error:
        ask()
    assert "\n" not in str(error.value)


def test_integrals_end_where_the_modes_do():
    """Just more modes than are summed one by one; at last the end of the spectrum is the loss."""
    dim, times = 450, np.array([1e3, 1e5, 3e6])
    lam = np.arange(1.0, dim + 1.0) ** -1.2
    lam /= lam.sum()
    clock = Clock(lam**2, lam**3, lam, np.ones(dim), 0.1, 0.0, times[-1])
    told, off = clock.excess(times)
    found = icl.power_flow(1.2, math.inf, times, dim=dim, start=0.1)
    np.testing.assert_allclose(found.loss, told, rtol=2e-8)
    np.testing.assert_array_less(np.abs(found.loss - told), found.error * told + off)


def test_errors_where_the_loss_is_far_smaller_than_one():
    few = icl.power_flow(1.5, math.inf, 1e6, dim=2)  # e^{−…}: less than is followed
    assert few.loss[0] <= 1e-29
    assert few.error[0] >= 0.99
    late = icl.power_flow(1.5, math.inf, 1e40)
    np.testing.assert_allclose(late.loss, icl.time_law(1.5).early(1e40), rtol=1e-8)
    assert late.error[0] < 1e-7


def test_laws_are_not_traced():
    law = icl.time_law(1.5).early
    with pytest.raises(ValueError, match="t cannot be traced"):
        jax.jit(law)(2.0)
