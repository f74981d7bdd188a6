"""Finite data gone through again and again: Φ(c), its limits, and what sums of two laws miss."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import zeta

from solvable import msfr
from solvable.msfr.theory import _repetition, additive_in_size

INIT = msfr.Init(0.1, 0.11)
X = np.array([0.1, 0.3, 1.0, 3.0, 10.0])  # kt/N
TABLE = {
    1.8: [1.35269267302, 1.94423044311, 3.25090401564, 5.29498372955, 9.04180517792],
    2.5: [1.33978235348, 2.02637962314, 3.94065635278, 7.59960159074, 15.6500660923],
}
# M, Φ at c = 0.1, 1, 10, slope, crossover, c where Φ is 1.1
MORE = {
    1.8: (
        3.16872322737,
        [1.18937580400, 2.46494387951, 6.82619094975],
        *(1.8667, 0.132770, 0.0529263),
    ),
    2.5: (
        1.76246589581,
        [1.25062504409, 3.31724689837, 13.1209187135],
        *(2.3705, 0.137002, 0.0410297),
    ),
}


def task(alpha=1.8, strength=0.5, context=100.0, num_tasks=500):
    return msfr.Task(num_tasks, alpha, context, strength)


@pytest.mark.parametrize("alpha", TABLE)
def test_the_ratio_at_given_points(alpha):
    """An independent table, at x = kt/N, c = x/Z, Z = 1/ζ(α)."""
    found = msfr.repetition(task(alpha), INIT, X * zeta(alpha))
    np.testing.assert_allclose(found.ratio, TABLE[alpha], rtol=1e-11)


@pytest.mark.parametrize("alpha", MORE)
def test_its_constants(alpha):
    total, ratio, slope, crossover, tenth = MORE[alpha]
    found = msfr.repetition(task(alpha), INIT, [0.1, 1.0, 10.0])
    np.testing.assert_allclose(found.ratio, ratio, rtol=1e-11)
    np.testing.assert_allclose(found.slope, slope, atol=5e-5)
    np.testing.assert_allclose(found.crossover, crossover, atol=5e-7)
    np.testing.assert_allclose(found.amplitude * found.crossover**found.exponent, 1.0, rtol=1e-13)
    learning = _repetition.learning(task(alpha), INIT, "zeroth")
    np.testing.assert_allclose(learning.mellin(), total, rtol=1e-11)

    def off(clock):
        return float(msfr.repetition(task(alpha), INIT, clock).ratio) - 1.1

    assert abs(brentq(off, 0.01, 1.0) - tenth) < 5e-8


@pytest.mark.parametrize("alpha", [1.05, 1.8, 9.0])
def test_of_an_exponential_it_has_a_closed_form(alpha, monkeypatch):
    """``[2μc/(1 − e^−2μc)]^{1−δ}`` from c = 1e-6 to 1e6, to 1e-10."""
    rate = 0.7
    monkeypatch.setattr(_repetition, "_squares", lambda *_: 3.0 * np.exp(-2.0 * rate * _[-1]))
    c = np.geomspace(1e-6, 1e6, 49)
    found = msfr.repetition(task(alpha), INIT, c)
    delta, y = 1.0 / alpha, 2.0 * rate * c
    np.testing.assert_allclose(found.ratio, (y / -np.expm1(-y)) ** (1.0 - delta), rtol=1e-10)
    # To the digits that E(0) − E has near 0.
    np.testing.assert_allclose(found.slope, (1.0 - delta) * rate, rtol=1e-7)
    np.testing.assert_allclose(found.amplitude, (2.0 * rate) ** (1.0 - delta), rtol=1e-12)
    assert msfr.repetition(task(alpha), INIT, 0.0).ratio == 1.0


def square_of(x, alpha, context, strength, v, w):
    """E(x) at order zero, as positive terms: not the library's kernel."""
    along_v, along_w = v * (1.0 + strength), w * (1.0 + strength)
    g, h = context * (along_v + along_w) ** 2, context * (along_v - along_w) ** 2
    sigma = math.sqrt(strength**2 + g * h / 4.0)
    decay = np.exp(-2.0 * sigma * x)
    grown = -np.expm1(-2.0 * sigma * x) / (2.0 * sigma)
    up, down = 1.0 + strength / sigma, 1.0 - strength / sigma
    below = (g * grown + down + up * decay) * (h * grown + up + down * decay)
    return (4.0 * (context * along_v * along_w - strength) * decay / below) ** 2


LAWS = {
    "the paper's start": (1.8, 100.0, 0.5, 0.1, 0.11),
    "a small start": (2.5, 100.0, 0.5, 1e-4, 2e-4),
    "a negative strength": (9.0, 100.0, -0.7, 0.1, -0.2),
    "a slow law": (1.05, 3.0, 2.0, 0.4, 0.1),
}


@pytest.mark.parametrize("law", LAWS)
def test_it_is_the_sum_over_counts(law):
    """Term by term, with E from another formula and M by the trapezoid rule in log x."""
    alpha, context, strength, v, w = LAWS[law]
    delta = 1.0 / alpha
    found = msfr.repetition(
        task(alpha, strength, context), msfr.Init(v, w), np.array([3e-4, 1e-2, 0.3, 5.0])
    )
    # x^{1−δ} E falls slowly towards 0 for α near 1: what e^−x has of it is known.
    log_x = np.arange(-60.0 / (2.0 - delta), 8.0, 0.02)
    x = np.exp(log_x)
    first = float(square_of(np.zeros(1), *LAWS[law])[0])
    rest = x ** (1.0 - delta) * (square_of(x, *LAWS[law]) - first * np.exp(-x))
    total = first * math.gamma(1.0 - delta) + 0.02 * math.fsum(rest)
    for c, ratio in zip(found.clock, found.ratio, strict=True):
        n = np.arange(1.0, 60.0 / min(1.0, abs(strength)) / c + 100.0)
        factor = math.gamma(1.0 - delta) * np.exp(np.cumsum(np.log1p(-delta / n)))
        summed = first * math.gamma(1.0 - delta) + np.sum(factor * square_of(n * c, *LAWS[law]))
        np.testing.assert_allclose(ratio, c ** (1.0 - delta) * summed / total, rtol=1e-10)


@pytest.mark.parametrize("order", ["zeroth", "first", "exact"])
def test_a_slow_tail_is_summed_to_its_end(order):
    """Λ = 0 and v = w: E ∝ (1 + 2 f(0) x)^−2 at order zero, a sum of 10^12 terms and more.

    By Euler and Maclaurin beyond 10^5 terms, where E and the factor are powers.
    """
    law, init = task(strength=0.0, context=10**6), msfr.Init(1e-3, 1e-3)
    delta, c = 1.0 / 1.8, 1e-2
    initial = 10**6 * 1e-6
    total = (
        initial ** (1.0 + delta) * math.pi * delta / math.sin(math.pi * delta) * 2 ** (delta - 1)
    )
    n = np.arange(1.0, 1e5)
    factor = math.gamma(1.0 - delta) * np.exp(np.cumsum(np.log1p(-delta / n)))
    terms = factor * (initial / (1.0 + 2.0 * initial * c * n)) ** 2
    edge = 1e5 - 0.5
    tail = edge ** (-1.0 - delta) / (1.0 + delta) / (4.0 * c**2)
    tail *= 1.0 - 2.0 * (1.0 + delta) / (2.0 + delta) / (2.0 * initial * c * edge)
    summed = initial**2 * math.gamma(1.0 - delta) + math.fsum(terms) + tail
    found = float(msfr.repetition(law, init, c, order).ratio)
    # The tail's next terms; other orders differ by 1/ψ.
    accuracy = 1e-8 if order == "zeroth" else 1e-5
    np.testing.assert_allclose(found, c ** (1.0 - delta) * summed / total, rtol=accuracy)


@pytest.mark.parametrize("alpha", [1.8, 2.5])
@pytest.mark.parametrize("order", ["zeroth", "exact"])
def test_its_limits_are_those_of_time_and_of_data(alpha, order):
    found = msfr.repetition(task(alpha), INIT, [1e-12, 1e-6, 1e8], order)
    np.testing.assert_allclose(found.ratio[0], 1.0, rtol=1e-10)
    np.testing.assert_allclose(found.ratio[1] - 1.0, found.slope * 1e-6, rtol=1e-4)
    law = found.amplitude * 1e8**found.exponent
    np.testing.assert_allclose(found.ratio[2], law, rtol=1e-12)


def test_it_is_a_line_just_where_it_is_taken_as_one():
    """On both sides of where the sum begins."""
    slope = msfr.repetition(task(), INIT, 0.0).slope
    c = np.array([0.99, 1.01, 10.0]) * _repetition._LINE / slope
    found = msfr.repetition(task(), INIT, c)
    np.testing.assert_allclose(found.ratio, 1.0 + slope * c, rtol=0, atol=1e-13)


def test_the_exact_binomial_sum_tends_to_it():
    """At t = 1: S = 2·10⁴ as an independent sum gave it, and closer the more tasks and data."""
    law = task(num_tasks=20_000)
    for data, ratio, poisson in ((221, 1.948842, 1.945514), (66, 3.258772, 3.259836)):
        exact = float(msfr.loss(law, INIT, 1.0, "zeroth", data=data))
        exact /= float(msfr.loss(law, INIT, 1.0, "zeroth"))
        clock = 125.0 / data
        np.testing.assert_allclose(exact, ratio, atol=1e-6)
        np.testing.assert_allclose(msfr.repetition(law, INIT, clock).ratio, poisson, atol=1e-6)
    delta, clock = 1.0 / 1.8, 0.5
    for data in (10**2, 10**4):
        law, t = task(num_tasks=10**15), clock * data / 125.0
        ratio = msfr.loss(law, INIT, t, "zeroth", data=data) / msfr.time_law(law, INIT)(t)
        less = math.exp(math.lgamma(data + 1.0) - math.lgamma(data + 2.0 - delta))
        less *= data ** (1.0 - delta)
        true = less * float(msfr.repetition(law, INIT, clock).ratio)
        np.testing.assert_allclose(ratio, true, rtol=3e-6)  # the first task, and the last


@pytest.mark.parametrize(
    ("alpha", "data", "size"), [(1.8, (1.604, 0.168), (1.641, 0.112)), (2.5, (1.492,), (1.556,))]
)
def test_how_wrong_sums_of_two_laws_are(alpha, data, size):
    c = np.geomspace(1e-2, 10.0, 601)
    for found, (most, *place) in (
        (msfr.repetition(task(alpha), INIT, c).additive, data),
        (additive_in_size(task(alpha), INIT, c[::10]), size),
    ):
        assert abs(found.max() - most) < 6e-4
        assert found.min() > 1.0
        if place:
            grid = c if found.size == c.size else c[::10]
            assert abs(grid[found.argmax()] / place[0] - 1.0) < 0.06


def test_the_sum_in_size_is_the_loss_of_a_cut_model():
    """At S = 10¹², where k t D^−α is y: L(t, D) = L(t, ∞) by the time law plus what is cut."""
    law = task(num_tasks=10**12)
    size, y = 10**4, np.array([0.01, 0.1, 1.0])
    k = float(law.normaliser) * 125.0
    t = y * (size - 0.5) ** 1.8 / k
    cut = np.asarray(msfr.loss(law, INIT, t, "zeroth", size=size))
    both = msfr.time_law(law, INIT)(t) + msfr.size_law(law, INIT)(size - 0.5)
    # S is not infinite, and the laws are those of a smooth sum: 1/D.
    np.testing.assert_allclose(both / cut, additive_in_size(law, INIT, y), rtol=1e-4)


@pytest.mark.parametrize(
    ("law", "init", "clock", "words"),
    [
        (task(), msfr.Init(0.1, -0.1), 1.0, "init must be one from which tasks are learned"),
        (task(strength=0.0), msfr.Init(0.0, 0.0), 1.0, "init must leave something to learn"),
        (msfr.Task(5, 1.8, 9.0, 0.5, gamma=0.1), INIT, 1.0, "must be the same for all tasks"),
        (task(), msfr.Init(np.ones((500, 2)), 0.1), 1.0, "must be the same for all tasks"),
        (task(), INIT, -1.0, r"clock must lie in \[0, 1e\+100\], not -1"),
        (task(), INIT, np.nan, "clock must lie in"),
    ],
)
def test_what_has_no_such_law_is_refused(law, init, clock, words):
    with pytest.raises(ValueError, match=words):
        msfr.repetition(law, init, clock)
