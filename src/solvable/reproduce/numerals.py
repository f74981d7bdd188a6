"""Numbers and claims in words for a reader."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from .claim import KINDS, Claim, Kind, agrees

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
    if not math.isfinite(claim.expected):
        return "There is nothing to compare it with."
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


def counted(claims: Iterable[Claim]) -> dict[Kind, dict[str, int]]:
    """How many claims of each kind have which verdict."""
    found = Counter((claim.kind, claim.verdict) for claim in claims)
    every = ("holds", "holds corrected", "fails")
    counts: dict[Kind, dict[str, int]] = {
        kind: {verdict: found[kind, verdict] for verdict in every if found[kind, verdict]}
        for kind in KINDS
    }
    return {kind: each for kind, each in counts.items() if each}


_SAID = {"paper": "The paper", "reported": "Reported of the paper"}


def card(claims: Iterable[Claim]) -> str:
    """How a paper fares, and what there is besides, in two or three sentences."""
    counts = counted(claims)
    words = [
        f"{_SAID[kind]}: {', '.join(verdicts(counts[kind]))}." for kind in _SAID if kind in counts
    ]
    ours = [(kind, counts[kind]) for kind in ("new", "check") if kind in counts]
    if ours:
        words.append(f"Ours: {', '.join(_ours(kind, each) for kind, each in ours)}.")
    return " ".join(words)


def verdicts(counts: Mapping[str, int]) -> list[str]:
    """How many claims have which verdict.

    >>> verdicts({"holds": 2, "fails": 1})
    ['2 hold', '1 does not hold']
    """
    forms = {
        "holds": ("holds", "hold"),
        "holds corrected": ("holds corrected", "hold corrected"),
        "fails": ("does not hold", "do not hold"),
    }
    return [f"{counts[v]} {plural(counts[v], *forms[v])}" for v in forms if counts.get(v)]


def _ours(kind: str, counts: Mapping[str, int]) -> str:
    total, failing = sum(counts.values()), counts.get("fails", 0)
    words = announced({kind: total})
    return f"{words} ({failing} {plural(failing, 'fails', 'fail')})" if failing else words


def announced(counts: Mapping[Any, int]) -> str:
    """How many claims of each kind there are, before any is judged.

    >>> announced({"paper": 2, "check": 1})
    '2 of the paper, 1 check'
    """
    forms = {
        "paper": ("of the paper", "of the paper"),
        "reported": ("reported of it", "reported of it"),
        "new": ("new result", "new results"),
        "check": ("check", "checks"),
    }
    return ", ".join(f"{counts[k]} {plural(counts[k], *forms[k])}" for k in forms if counts.get(k))


def plural(number: int, one: str, many: str) -> str:
    """The form of a word that fits a number."""
    return one if number == 1 else many
