"""Numbers and claims in words for a reader."""

import math
from collections.abc import Iterable

from .claim import Claim, agrees

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float) -> str:
    """Four significant digits, as one writes them by hand.

    >>> number(-0.33333), number(500.0), number(1.554e-15), number(1e-10), number(math.nan)
    ('−0.3333', '500', '1.554\xa0×\xa010⁻¹⁵', '10⁻¹⁰', 'no number')
    """
    if math.isnan(value):
        return "no number"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == int(value) and abs(value) < 1e6:
        return str(int(value)).replace("-", "−")
    digits, _, power = f"{value:.4g}".partition("e")
    digits = digits.replace("-", "−")
    if not power:
        return digits
    tens = f"10{str(int(power)).translate(_RAISED)}"
    if digits in ("1", "−1"):
        return digits.replace("1", tens)
    return f"{digits}\u00a0×\u00a0{tens}"


def expected(claim: Claim) -> str:
    """What a claim expects, with its tolerance."""
    match claim.tolerance:
        case "at least":
            return f"≥\u00a0{number(claim.expected)}"
        case "at most":
            return f"≤\u00a0{number(claim.expected)}"
        case slack:
            return f"{number(claim.expected)} ±\u00a0{number(slack)}"


def why_it_fails(claim: Claim) -> str:
    """What is wrong with the numbers of a failing claim, in one sentence."""
    measured, wanted = number(claim.measured), number(claim.expected)
    if not math.isfinite(claim.measured):
        return "No finite number came out."
    if agrees(claim.expected, claim.measured, claim.tolerance):
        return "The numbers agree, but so do those of the printed form that it is to correct."
    match claim.tolerance:
        case "at least":
            return f"Measured {measured}, which is less than {wanted}."
        case "at most":
            return f"Measured {measured}, which is more than {wanted}."
        case slack:
            gap, allowed = number(abs(claim.measured - claim.expected)), number(slack)
            return f"Measured {measured}, which is {gap} away from {wanted}; {allowed} is allowed."


def duration(seconds: float) -> str:
    """A time, as exact as one cares for.

    >>> duration(3.721), duration(75.2), duration(7530.0)
    ('3.7 s', '1 min 15 s', '2 h 6 min')
    """
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    if seconds < 3599.5:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min"


def listed(words: Iterable[str]) -> str:
    """Words in a row.

    >>> listed(["one", "two", "three"])
    'one, two and three'
    """
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
