"""How laws are judged: the window by a rule, the worst exponent within it."""

import numpy as np
import pytest

from solvable import msfr
from solvable.msfr.figures._judging import judge_law, law_statement, log_points, seen
from solvable.msfr.figures._labels import labelled, local_exponents, of_label
from solvable.msfr.figures._split import split_exponents
from solvable.reproduce import Quote, Statement

SAID = Statement("msfr/fig/law", "L ∝ x^-0.5", "Fig.", "check")
X = np.geomspace(1e-4, 1e6, 81)


def bent(low, high, inside=0.5):
    """A local exponent that is right between `low` and `high` and leaves steeply outside."""
    away = np.maximum(np.log10(low / X), 0.0) + np.maximum(np.log10(X / high), 0.0)
    return inside + away


def test_the_window_is_where_the_exponent_is_within_two_per_cent():
    found = seen(X, bent(1e-1, 1e3), 0.5)
    # Outside, 2 % of 0.5 is used up within 0.01 decades.
    assert found.low == pytest.approx(1e-1, rel=0.03)
    assert found.high == pytest.approx(1e3, rel=0.03)
    assert found.decades == pytest.approx(4.0, abs=0.03)
    assert found.mean == pytest.approx(0.5, abs=1e-3)


def test_the_longest_window_is_taken():
    local = np.where((X < 1e-2) | (X > 1e1), 0.5, 0.8)
    found = seen(X, local, 0.5)
    assert found.low > 1e1
    assert found.high == pytest.approx(1e6)


def test_a_law_needs_two_decades():
    assert judge_law(SAID, X, bent(1e-1, 1e3), 0.5, "x").verdict == "holds"
    claim = judge_law(SAID, X, bent(1.0, 1e1), 0.5, "x")
    assert claim.verdict == "fails"
    assert claim.measured == pytest.approx(1.0, abs=0.03)


def test_an_exponent_that_is_off_is_not_a_law():
    claim = judge_law(SAID, X, bent(1e-1, 1e3, inside=0.511), 0.5, "x")
    assert claim.verdict == "fails"
    assert "Nowhere within 2 %" in claim.note
    assert claim.measured == 0.0


def test_a_printed_exponent_must_not_be_seen():
    quote = Quote("L ∝ x^(−1)", "Fig.")
    corrected = law_statement("msfr/fig/law", "L ∝ x^(−½)", "Fig.", "paper", quote)
    local = bent(1e-1, 1e3)
    assert judge_law(corrected, X, local, 0.5, "x", printed=1.0).verdict == "holds corrected"
    assert judge_law(corrected, X, local, 0.5, "x", printed=0.502).verdict == "fails"


def test_infinite_exponents_at_the_end_are_left_out():
    local = np.where(X > 1e5, np.inf, 0.5)
    assert seen(X, local, 0.5).mean == pytest.approx(0.5)


def test_log_points_are_whole_and_have_both_ends():
    points = log_points(5000, 100)
    assert points[0] == 0
    assert points[-1] == 5000
    assert np.all(np.diff(points) > 0)


def test_labels_keep_grids_apart():
    law = msfr.data_law(msfr.Task(50, 1.8, 10.0, 0.5), msfr.Init(0.1, 0.11))
    part = local_exponents({"N": law}, per_decade=3)
    get = of_label(labelled(part, "a"), "a")
    np.testing.assert_array_equal(get("law_N"), part.law_N)
    np.testing.assert_array_equal(get("local_N"), law.local_exponent(part.law_N.values))


def test_the_split_has_the_slopes_of_the_frontier():
    c = np.geomspace(1.0, 1e6, 25)
    columns = {"law_C": c, "local_C": np.full(25, 0.3), "split_size": c**0.4, "split_time": c**0.6}
    assert split_exponents(columns.__getitem__, 0.3) == pytest.approx((0.4, 0.6))
    assert np.isnan(split_exponents(columns.__getitem__, 0.6)).all()


def test_the_grid_of_a_law_spans_its_range():
    task, init = msfr.Task(1000, 1.8, 100.0, 0.5), msfr.Init(0.1, 0.11)
    for law in (msfr.time_law(task, init), msfr.size_law(task, init), msfr.data_law(task, init)):
        coarse, fine = law.grid(2), law.grid(8)
        assert np.all(np.diff(coarse) > 0.0)
        assert coarse[0] == fine[0]
        assert coarse[-1] == fine[-1]
        assert len(coarse) < len(fine)
        assert np.log10(coarse[-1] / coarse[0]) > 2.5
