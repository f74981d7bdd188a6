"""Statements of the figures, each with its kind."""

from typing import Literal

from ...reproduce import Statement
from ...reproduce.claim import Kind

ABSTRACT = "the abstract, as a summary quotes it"
ACCOUNTS = "Known from accounts only, which may not be the paper's own words."


def say(
    figure: str,
    kind: Kind,
    word: str,
    text: str,
    source: str = "derived",
    *,
    known: Literal["fails"] | None = None,
) -> Statement:
    """A statement of one of the figures; what the paper says is at most "reported" here."""
    return Statement(f"deep_icl/{figure}/{word}", text, source, kind, known=known)
