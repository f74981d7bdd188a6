"""Verdicts follow from the numbers."""

import math

import pytest

from solvable.reproduce import Statement

SAID = Statement("lab/fig/slope", "L ∝ t^-½", "Fig. 1")
CORRECTED = Statement("lab/fig/slope", "L ∝ t^-½", "Fig. 1", "L ∝ t^-1")


@pytest.mark.parametrize(
    ("expected", "measured", "tolerance", "holds"),
    [
        (0.5, 0.519, 0.02, True),
        (0.5, 0.53, 0.02, False),
        (0.5, 0.47, 0.02, False),
        (2.0, 2.0, "at least", True),
        (2.0, 1.9, "at least", False),
        (2.0, 2.0, "at most", True),
        (2.0, 2.1, "at most", False),
        (0.5, math.nan, 0.02, False),
        (0.5, math.nan, "at most", False),
        (0.0, math.inf, 1.0, False),
    ],
)
def test_a_claim_holds_when_its_numbers_agree(expected, measured, tolerance, holds):
    claim = SAID.judge(expected, measured, tolerance)
    assert claim.verdict == ("holds" if holds else "fails")
    assert (claim.id, claim.statement, claim.source) == (SAID.id, SAID.text, SAID.source)


def test_a_corrected_claim_says_what_the_paper_prints():
    claim = CORRECTED.judge(0.5, 0.51, 0.02, as_printed=1.0, note="Seen.")
    assert claim.verdict == "holds corrected"
    assert claim.note == "The paper prints L ∝ t^-1. As printed: 1. Seen."


@pytest.mark.parametrize("as_printed", [0.515, 0.525])
def test_a_misprint_that_would_pass_is_none(as_printed):
    """Near what is expected, or near what is measured: the claim cannot tell the two apart."""
    claim = CORRECTED.judge(0.5, 0.51, 0.02, as_printed=as_printed)
    assert claim.verdict == "fails"
    assert "It agrees as well, so that nothing is corrected." in claim.note


@pytest.mark.parametrize(("printed", "verdict"), [(0.1, "holds corrected"), (2.5, "fails")])
def test_a_printed_form_must_miss_the_bound_that_the_corrected_one_keeps(printed, verdict):
    assert CORRECTED.judge(2.0, 4.0, "at least", as_printed=printed).verdict == verdict


def test_a_corrected_claim_can_fail():
    assert CORRECTED.judge(0.5, 0.6, 0.02, as_printed=1.0).verdict == "fails"


def test_an_unknown_tolerance_is_refused():
    with pytest.raises(ValueError, match="could not convert"):
        SAID.judge(0.5, 0.5, "about")
