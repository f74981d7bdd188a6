"""What a paper says, and what came out."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Verdict = Literal["holds", "holds corrected", "fails"]
Tolerance = float | Literal["at least", "at most"]


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, judged.

    Attributes:
        id: LAB/FIGURE/WORD.
        statement: what is claimed, in one sentence; where the paper errs, the corrected claim.
        source: where the paper says it.
        expected: the number that it implies.
        measured: the number that came out.
        tolerance: the largest |measured − expected| with which it holds, or "at least", "at most".
        verdict: "holds", "holds corrected" (the note says what the paper prints) or "fails".
        note: what a reader must know to weigh the numbers.
    """

    id: str
    statement: str
    source: str
    expected: float
    measured: float
    tolerance: Tolerance
    verdict: Verdict
    note: str = ""


def agrees(expected: float, measured: float, tolerance: Tolerance) -> bool:
    """Whether `measured` is what was `expected`; not a number never is.

    >>> agrees(0.444, 0.441, 0.01), agrees(2.0, 4.2, "at least"), agrees(1.0, math.nan, 9.0)
    (True, True, False)
    """
    match tolerance:
        case "at least":
            return measured >= expected
        case "at most":
            return measured <= expected
        case _:
            return abs(measured - expected) <= tolerance


@dataclass(frozen=True)
class Statement:
    """A claim before it is judged.

    Attributes:
        id: LAB/FIGURE/WORD.
        text: what is claimed, in one sentence; where the paper errs, the corrected claim.
        source: where the paper says it.
        printed: what the paper prints instead, where it errs.
    """

    id: str
    text: str
    source: str
    printed: str = ""

    def judge(
        self,
        expected: Any,
        measured: Any,
        tolerance: Any,
        *,
        as_printed: Any = None,
        note: str = "",
    ) -> Claim:
        """Compare two numbers.

        Args:
            expected: what the statement implies.
            measured: what came out.
            tolerance: the largest |measured − expected| allowed, or "at least", "at most".
            as_printed: what the paper's own form implies, or how far off it is, where it is a
                number; a misprint that would pass too is no misprint, and the claim fails.
            note: what a reader must know to weigh the numbers.

        >>> Statement("lab/fig1/slope", "L ∝ t^-½", "Fig. 1").judge(0.5, 0.51, 0.02).verdict
        'holds'
        """
        expected, measured = float(expected), float(measured)
        slack: Tolerance = tolerance if tolerance in ("at least", "at most") else float(tolerance)
        good = agrees(expected, measured, slack)
        # What is known from notes and code on the paper only is not put into its mouth.
        printed = self.printed.removesuffix(", as reported")
        told = printed != self.printed
        word, opening = ("reported", "Reported is") if told else ("printed", "The paper prints")
        if as_printed is not None:
            value = float(as_printed)
            # A printed number is told from both others; a printed result only from what is asked.
            same = agrees(expected, value, slack)
            same = same or (isinstance(slack, float) and agrees(value, measured, slack))
            twist = " It agrees as well, so that nothing is corrected." if good and same else ""
            good = good and not same
            note = f"As {word}: {value:.4g}.{twist} {note}".rstrip()
        if self.printed:
            note = f"{opening} {printed}. {note}".rstrip()
        verdict: Verdict = ("holds corrected" if self.printed else "holds") if good else "fails"
        return Claim(self.id, self.text, self.source, expected, measured, slack, verdict, note)


def finite(value: float) -> float | None:
    """The number, or None where JSON has none."""
    return value if math.isfinite(value) else None


def worst_ratio(measured: Any, expected: Any) -> float:
    """The largest |measured/expected − 1|."""
    return float(np.max(np.abs(np.asarray(measured) / np.asarray(expected) - 1.0)))
