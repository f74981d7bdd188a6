"""Sums over very many numbers by Gauss rules of the counting measure."""

import math

import numpy as np
import pytest
from mpmath import mp

from solvable.numerics.counting import (
    ORDER,
    TailSum,
    block_edges,
    counting_rule,
    gauss_of_counting,
)


def test_rules_are_those_of_gram_polynomials():
    """Nodes and weights worked out with 30 digits."""
    x, w = gauss_of_counting(np.array([10]), 3)
    np.testing.assert_allclose(x[0], [0.672468158199071, 4.5, 8.32753184180093], rtol=1e-14)
    np.testing.assert_allclose(
        w[0], [2.81569965870307, 4.36860068259386, 2.81569965870307], rtol=1e-14
    )
    x, w = gauss_of_counting(np.array([100]), 4)
    true = [6.45198365440536, 32.5059757521066, 66.4940242478934, 92.5480163455946]
    np.testing.assert_allclose(x[0], true, rtol=1e-14)
    np.testing.assert_allclose(w[0, :2], [17.402065148036, 32.597934851964], rtol=1e-13)


@pytest.mark.parametrize("length", [1, 5, 16, 17, 40, 1000, 123_456])
def test_polynomials_of_degree_below_twice_the_nodes_are_summed_exactly(length):
    x, w = gauss_of_counting(np.array([length]))
    s = [mp.mpf(k) for k in range(length)]
    middle = (length - 1) / 2
    for degree in range(0, 2 * ORDER, 3 if length > 1000 else 1):
        scaled = (x[0] - middle) / max(middle, 1.0)
        with mp.workdps(40):
            terms = (((k - middle) / max(middle, 1.0)) ** degree for k in s)
            true = float(mp.fsum(terms)) if length < 2000 else None
        if true is None:
            true = float(np.sum(((np.arange(length) - middle) / middle) ** degree))
        assert np.sum(w[0] * scaled**degree) == pytest.approx(true, rel=1e-12, abs=1e-9 * length)


def test_one_degree_more_is_not_exact():
    """Or the tests above could not fail."""
    x, w = gauss_of_counting(np.array([40]), 3)
    true = np.sum(((np.arange(40) - 19.5) / 20.0) ** 6)
    assert abs(np.sum(w[0] * ((x[0] - 19.5) / 20.0) ** 6) / true - 1.0) > 1e-3


@pytest.mark.parametrize(
    ("count", "true"),
    [
        (10**5, 1.8821046186028205467),
        (10**9, 1.8822295392331540182),
        (10**15, 1.8822296181015720467),
    ],
)
def test_the_normaliser_of_any_number_of_tasks_is_summed_to_round_off(count, true):
    s, w = counting_rule(count)
    assert np.sum((w * s**-1.8)[::-1]) == pytest.approx(true, rel=4e-16)
    assert np.sum(w) == pytest.approx(count, rel=1e-15)
    assert len(s) < 2000


@pytest.mark.parametrize("alpha", [1.0001, 1.5, 3.0, 9.0])
def test_powers_agree_with_zeta_functions(alpha):
    """Σ_{s ≤ S} s^-α = ζ(α) − ζ(α, S + 1)."""
    s, w = counting_rule(10**12)
    with mp.workdps(40):
        true = float(mp.zeta(mp.mpf(alpha)) - mp.zeta(mp.mpf(alpha), 10**12 + 1))
    assert np.sum((w * s**-alpha)[::-1]) == pytest.approx(true, rel=1e-15)


def test_a_cut_is_where_a_block_begins():
    """A function that jumps there is summed to round-off on both sides."""
    for cut in (1, 7, 1000, 77_777, 100_001):
        s, w = counting_rule(10**5, cuts=(cut,))
        index = np.arange(1, 100_001)
        true = np.sum(np.where(index < cut, 1.0 / index, 3.0 / index**2))
        assert np.sum(np.where(s < cut, w / s, 3.0 * w / s**2)) == pytest.approx(true, rel=1e-14)


def test_what_lives_in_the_last_terms_alone_is_seen():
    """Σ e^{−c s^-2} with c S^-2 = 300: all of it is in the last hundredth of the numbers."""
    count = 10**5
    index = np.arange(1, count + 1, dtype=float)

    def term(s):
        return np.exp(-300.0 * (count / s) ** 2)

    s, w = counting_rule(count)
    assert np.sum(w * term(s)) == pytest.approx(np.sum(term(index)), rel=1e-12)


def test_what_is_singular_next_to_a_number_is_seen():
    """1/(s − x)² with x between two numbers: without `near` the blocks would step over it."""
    index, x = np.arange(1.0, 20_001.0), 5000.3

    def term(s):
        return 1.0 / (s - x) ** 2

    true = np.sum(term(index))
    s, w = counting_rule(20_000, near=(5001,))
    assert np.sum(w * term(s)) == pytest.approx(true, rel=1e-13)
    s, w = counting_rule(20_000)
    assert abs(np.sum(w * term(s)) / true - 1.0) > 1e-2


def test_close_singularities_need_short_blocks():
    """1/(1 + (s/a)^40): poles at the angle π/40 in log s."""
    index = np.arange(1.0, 30_001.0)

    def term(s):
        return 1.0 / (1.0 + (s / 900.0) ** 40)

    true = np.sum(term(index))
    s, w = counting_rule(30_000, angle=math.pi / 40.0)
    assert np.sum(w * term(s)) == pytest.approx(true, rel=1e-14)
    s, w = counting_rule(30_000)
    assert abs(np.sum(w * term(s)) / true - 1.0) > 1e-9


def test_tails_are_those_of_the_sum():
    edges = block_edges(50_000)
    tail = TailSum(edges, lambda s: s**-1.5)
    terms = np.arange(1.0, 50_001.0) ** -1.5
    true = np.append(np.cumsum(terms[::-1])[::-1], 0.0)
    first = np.unique(np.concatenate([edges, np.arange(1, 200), [31_415, 49_999, 50_000, 50_001]]))
    np.testing.assert_allclose(tail(first), true[first - 1], rtol=1e-13)


def test_tails_at_astronomic_numbers_agree_with_zeta_functions():
    tail = TailSum(block_edges(10**15), lambda s: s**-1.8)
    for first in (10**6 + 1, 123_456_789_012, 10**15):
        with mp.workdps(40):
            true = float(mp.zeta(1.8, first) - mp.zeta(1.8, 10**15 + 1))
        assert tail(np.array([first]))[0] == pytest.approx(true, rel=1e-11)


@pytest.mark.parametrize("count", [0, 2**53 + 1])
def test_no_numbers_and_numbers_that_doubles_cannot_tell_apart_are_refused(count):
    with pytest.raises(ValueError, match=r"count must lie in \[1, 2\^53\]"):
        counting_rule(count)
