"""What is claimed, where it comes from, and what came out."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

Size = Literal["quick", "default", "full"]
SIZES: tuple[Size, ...] = get_args(Size)

Kind = Literal["paper", "reported", "new", "check"]
KINDS: dict[Kind, str] = {
    "paper": "the paper states it",
    "reported": "known only from accounts of the paper, whose text was not at hand",
    "new": "a result of ours that the paper does not have",
    "check": "two of our own witnesses agree",
}
Verdict = Literal["holds", "holds corrected", "fails"]
Tolerance = float | Literal["at least", "at most"]


@dataclass(frozen=True)
class Quote:
    """What a paper prints and a claim corrects.

    Attributes:
        text: the formula or sentence, character by character in the paper's own notation.
        where: the equation, table or section that prints it.
        grade: "error" for a formula that is false as it stands, "slip" for an intermediate or
            typographic one from which the paper concludes what is right. What authors state as an
            assumption or a convention is neither.
    """

    text: str
    where: str
    grade: Literal["error", "slip"] = "error"

    def __post_init__(self) -> None:
        if not self.text.strip() or not self.where.strip():
            raise ValueError("a quote must have the words of the paper, and where they stand")
        if self.grade not in ("error", "slip"):
            raise ValueError(f"grade must be error or slip, not {self.grade!r}")


@dataclass(frozen=True)
class Claim:
    """A statement, judged.

    Attributes:
        id: LAB/FIGURE/WORD.
        statement: what is claimed, in one sentence; where a paper errs, the corrected claim.
        source: where the paper says it, or where it comes from.
        kind: "paper", "reported", "new" or "check"; `KINDS` says what each is.
        expected: the number that it implies.
        measured: the number that came out.
        tolerance: the largest |measured − expected| with which it holds, or "at least", "at most".
        because: why the tolerance is what it is.
        verdict: "holds", "holds corrected" (what `quote` prints does not, this does) or "fails".
        known: the verdict that it is known to have; any other is news.
        note: what a reader must know to weigh the numbers.
        quote: what the paper prints instead, where it errs.
        as_printed: the number that the quoted formula gives.
    """

    id: str
    statement: str
    source: str
    kind: Kind
    expected: float
    measured: float
    tolerance: Tolerance
    because: str
    verdict: Verdict
    known: Verdict
    note: str = ""
    quote: Quote | None = None
    as_printed: float | None = None

    @property
    def unjudged(self) -> bool:
        """Whether there was nothing to judge it by."""
        return math.isnan(self.expected)

    @property
    def as_known(self) -> bool:
        """Whether the verdict is no news; a failure without a number is none that is known."""
        return self.verdict == self.known and not math.isnan(self.measured)


@dataclass(frozen=True)
class Finding:
    """Two numbers and how far they may be apart: what the functions of claims return."""

    measured: float
    expected: float
    tolerance: Tolerance
    because: str = ""
    note: str = ""
    as_printed: float | None = None


def near(
    measured: Any, expected: Any, tolerance: Any, *, because: str = "", note: str = ""
) -> Finding:
    """`measured` is `expected` within `tolerance`, which is what it is `because` of something."""
    return Finding(float(measured), float(expected), float(tolerance), because, note)


def at_most(measured: Any, bound: Any, *, because: str = "", note: str = "") -> Finding:
    """`measured` does not exceed a bound, which is what it is `because` of something."""
    return Finding(float(measured), float(bound), "at most", because, note)


def at_least(measured: Any, bound: Any, *, because: str = "", note: str = "") -> Finding:
    """`measured` is not below a bound, which is what it is `because` of something."""
    return Finding(float(measured), float(bound), "at least", because, note)


def decades(window: Any, at_least: float = 2.0, *, because: str = "", note: str = "") -> Finding:
    """A law is seen over so many decades.

    Args:
        window: its two ends, or something with `decades`, for example of `seen`.
        at_least: how many are asked for.
        because: why so many.
        note: what a reader must know to weigh the number.

    >>> decades((1.0, 1000.0)).measured
    3.0
    """
    found = getattr(window, "decades", None)
    if found is None:
        low, high = window
        found = math.log10(high / low)
    return Finding(float(found), float(at_least), "at least", because, note)


def corrected(finding: Finding, as_printed: Any) -> Finding:
    """The finding of a claim that has a quote.

    Args:
        finding: of the corrected form.
        as_printed: the number that the quoted formula gives in its place, or how far off it is;
            a misprint that would pass too is no misprint, and the claim fails.
    """
    return Finding(
        finding.measured,
        finding.expected,
        finding.tolerance,
        finding.because,
        finding.note,
        float(as_printed),
    )


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
        text: what is claimed, in one sentence; where a paper errs, the corrected claim.
        source: where the paper says it, or where it comes from.
        kind: where it comes from, one of `KINDS`.
        quote: what the paper prints instead, where it errs.
        known: "fails" where the claim is known not to hold; by size, where that differs.
    """

    id: str
    text: str
    source: str
    kind: Kind
    quote: Quote | None = None
    known: Literal["fails"] | Mapping[Size, Literal["fails"]] | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            allowed = ", ".join(KINDS)
            raise ValueError(f"kind of {self.id} must be one of {allowed}, not {self.kind!r}")
        if self.quote and self.kind != "paper":
            raise ValueError(f"{self.id} quotes a paper, so its kind must be paper")
        failing = self.known if isinstance(self.known, Mapping) else {"full": self.known}
        if not set(failing) <= set(SIZES) or not set(failing.values()) <= {"fails", None}:
            raise ValueError(f'known of {self.id} must be "fails", or that by size')

    def known_at(self, size: Size) -> Verdict:
        """The verdict that it is known to have at a size."""
        failing = self.known.get(size) if isinstance(self.known, Mapping) else self.known
        return failing or ("holds corrected" if self.quote else "holds")

    def judged(self, found: Finding, size: Size = "default") -> Claim:
        """The claim with the verdict that follows from its numbers."""
        if (self.quote is None) != (found.as_printed is None):
            raise ValueError(f"{self.id} must have both a quote and what it gives, or neither")
        good, note = agrees(found.expected, found.measured, found.tolerance), found.note
        if found.as_printed is not None and good and _agrees_too(found):
            good = False
            note = f"What is printed agrees as well, so that nothing is corrected. {note}".rstrip()
        verdict: Verdict = ("holds corrected" if self.quote else "holds") if good else "fails"
        return self._claim(found, verdict, note, size)

    def unjudged(self, note: str, size: Size = "default") -> Claim:
        """The claim where there is no number to judge it by; a note says why."""
        return self._claim(Finding(math.nan, math.nan, 0.0), "fails", note, size)

    def _claim(self, found: Finding, verdict: Verdict, note: str, size: Size) -> Claim:
        return Claim(
            id=self.id,
            statement=self.text,
            source=self.source,
            kind=self.kind,
            expected=found.expected,
            measured=found.measured,
            tolerance=found.tolerance,
            because=found.because,
            verdict=verdict,
            known=self.known_at(size),
            note=note,
            quote=self.quote,
            as_printed=found.as_printed,
        )


def _agrees_too(found: Finding) -> bool:
    """Whether the printed form cannot be told from the corrected one."""
    printed = found.as_printed
    assert printed is not None
    if agrees(found.expected, printed, found.tolerance):
        return True
    # A printed number is told from both others; a printed result only from what is asked.
    slack = found.tolerance
    return isinstance(slack, float) and agrees(printed, found.measured, slack)


def finite(value: float | None) -> float | None:
    """The number, or None where JSON has none."""
    return value if value is not None and math.isfinite(value) else None


def worst_ratio(measured: Any, expected: Any) -> float:
    """The largest |measured/expected − 1|."""
    return float(np.max(np.abs(np.asarray(measured) / np.asarray(expected) - 1.0)))
