"""What an erratum is: a quote, what it gives, what is right, and who says so."""

from collections.abc import Callable
from dataclasses import dataclass

from ...reproduce import Quote


@dataclass(frozen=True)
class Erratum:
    """A formula that the paper misprints, and three numbers.

    Attributes:
        word: the last part of the claim's id.
        says: the corrected claim, in one sentence, with the number that is judged.
        quote: the paper's own characters.
        printed: the number by what is quoted.
        right: the number by the corrected formula.
        witness: the number by something that shares no formula with either.
        slack: how far apart `right` and `witness` may be, relative to the larger of what is quoted
            and the witness.
        because: why that far.
        note: what a reader must know to weigh the numbers.
    """

    word: str
    says: str
    quote: Quote
    printed: Callable[[], float]
    right: Callable[[], float]
    witness: Callable[[], float]
    slack: float
    because: str
    note: str = ""

    @property
    def numbers(self) -> tuple[float, float, float]:
        """What is quoted gives, what is right gives, and the witness."""
        return float(self.printed()), float(self.right()), float(self.witness())
