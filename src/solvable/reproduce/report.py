"""The page."""

from pathlib import Path


def write_report(out: Path) -> None:
    """Write index.html."""
