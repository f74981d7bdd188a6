"""Verdicts follow from the numbers."""

import math

import pytest

from solvable.reproduce import (
    Finding,
    Quote,
    Statement,
    at_least,
    at_most,
    corrected,
    decades,
    near,
)
from solvable.reproduce.numerals import announced, card, counted

SAID = Statement("lab/fig/slope", "L ∝ t^-½", "Fig. 1", "paper")
QUOTE = Quote(r"L \propto t^{-1}", "(3)", "slip")
CORRECTED = Statement("lab/fig/slope", "L ∝ t^-½", "Fig. 1", "paper", QUOTE)


def judge(said, expected, measured, tolerance, **more):
    return said.judged(Finding(measured, expected, tolerance, **more))


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
    claim = judge(SAID, expected, measured, tolerance)
    assert claim.verdict == ("holds" if holds else "fails")
    assert (claim.id, claim.statement, claim.source) == (SAID.id, SAID.text, SAID.source)


def test_a_corrected_claim_has_the_quote_and_what_it_gives():
    claim = judge(CORRECTED, 0.5, 0.51, 0.02, as_printed=1.0, note="Seen.")
    assert claim.verdict == claim.known == "holds corrected"
    assert (claim.quote, claim.as_printed, claim.note) == (QUOTE, 1.0, "Seen.")


@pytest.mark.parametrize(("said", "printed"), [(CORRECTED, None), (SAID, 1.0)])
def test_a_correction_has_both_a_quote_and_its_number_or_neither(said, printed):
    with pytest.raises(ValueError, match="both a quote and what it gives, or neither"):
        judge(said, 0.5, 0.51, 0.02, as_printed=printed)


@pytest.mark.parametrize(
    ("quote", "words"),
    [
        (("", "(3)"), "must have the words"),
        (("L", " "), "must have the words"),
        (("L", "(3)", "typo"), "grade must be error or slip, not 'typo'"),
    ],
)
def test_a_quote_has_words_a_place_and_a_grade(quote, words):
    with pytest.raises(ValueError, match=words):
        Quote(*quote)


@pytest.mark.parametrize("kind", ["reported", "new", "check"])
def test_only_what_a_paper_states_can_be_corrected(kind):
    with pytest.raises(ValueError, match="so its kind must be paper"):
        Statement("lab/fig/slope", "L", "Fig. 1", kind, QUOTE)


def test_an_unknown_kind_or_verdict_is_refused():
    with pytest.raises(ValueError, match="kind of lab/fig/x must be one of paper, reported"):
        Statement("lab/fig/x", "L", "Fig. 1", "guess")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='known of lab/fig/x must be "fails", or that by size'):
        Statement("lab/fig/x", "L", "Fig. 1", "new", known={"huge": "fails"})  # type: ignore[dict-item]


def test_a_known_failure_is_no_news_and_its_end_is():
    said = Statement("lab/fig/x", "L", "Fig. 1", "paper", known={"quick": "fails"})
    falls, holds = near(1.0, 2.0, 0.5), near(2.0, 2.0, 0.5)
    assert said.judged(falls, "quick").as_known
    assert not said.judged(holds, "quick").as_known
    assert not said.judged(falls, "default").as_known
    assert said.judged(holds, "full").as_known


def test_a_known_failure_without_a_number_is_news():
    said = Statement("lab/fig/x", "L", "Fig. 1", "paper", known="fails")
    assert judge(said, 1.0, 3.0, 0.5).as_known
    assert not judge(said, 1.0, math.nan, 0.5).as_known
    assert not said.unjudged("It raised.").as_known


def test_makers_of_findings():
    claims = [
        SAID.judged(found)
        for found in (
            near(1.0, 1.1, 0.2, because="three standard errors", note="n"),
            at_most(3, 2),
            at_least(3, 2),
            decades((10.0, 1e4), at_least=3),
            decades(type("Window", (), {"decades": 1.5})()),
        )
    ]
    assert [claim.verdict for claim in claims] == ["holds", "fails", "holds", "holds", "fails"]
    assert [c.tolerance for c in claims] == [0.2, "at most", "at least", "at least", "at least"]
    assert (claims[0].because, claims[0].note) == ("three standard errors", "n")
    again = CORRECTED.judged(corrected(near(0.5, 0.5, 0.1, because="b", note="n"), 1.0))
    assert (again.verdict, again.because, again.note) == ("holds corrected", "b", "n")


def test_counts_are_by_kind():
    def judged(kind, good, quote=None):
        printed = None if quote is None else 9.0
        said = Statement("l/f/w", "t", "s", kind, quote)
        return judge(said, 1.0, 1.0 if good else 2.0, 0.1, as_printed=printed)

    claims = [judged("paper", True) for _ in range(3)]
    claims += [judged("paper", True, QUOTE), judged("paper", False), judged("reported", True)]
    claims += [judged("new", True), judged("new", False), judged("check", True)]
    assert counted(claims) == {
        "paper": {"holds": 3, "holds corrected": 1, "fails": 1},
        "reported": {"holds": 1},
        "new": {"holds": 1, "fails": 1},
        "check": {"holds": 1},
    }
    assert card(claims) == (
        "The paper: 3 hold, 1 holds corrected, 1 does not hold. Reported of the paper: 1 holds. "
        "Ours: 2 new results (1 fails), 1 check."
    )
    assert announced({"check": 0, "new": 1}) == "1 new result"


@pytest.mark.parametrize("as_printed", [0.515, 0.525])
def test_a_misprint_that_would_pass_is_none(as_printed):
    """Near what is expected, or near what is measured: the claim cannot tell the two apart."""
    claim = judge(CORRECTED, 0.5, 0.51, 0.02, as_printed=as_printed)
    assert claim.verdict == "fails"
    assert "What is printed agrees as well, so that nothing is corrected." in claim.note


@pytest.mark.parametrize(("printed", "verdict"), [(0.1, "holds corrected"), (2.5, "fails")])
def test_a_printed_form_must_miss_the_bound_that_the_corrected_one_keeps(printed, verdict):
    assert judge(CORRECTED, 2.0, 4.0, "at least", as_printed=printed).verdict == verdict


def test_a_corrected_claim_can_fail():
    assert judge(CORRECTED, 0.5, 0.6, 0.02, as_printed=1.0).verdict == "fails"
