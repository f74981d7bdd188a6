"""Standard output: one JSON document, or something to read."""

import json
import math
import sys
from typing import Any


def print_json(document: Any) -> None:
    """Print one JSON document; what is not a finite number becomes null."""
    print(json.dumps(_finite(document), allow_nan=False))


def print_rich(*renderables: Any) -> None:
    """Print tables and text as wide as the terminal allows."""
    from rich.console import Console

    # Written by hand: rich answers a closed pipe with exit status 1, which says a claim failed.
    console = Console(highlight=False)
    with console.capture() as capture:
        console.print(*renderables, sep="\n")
    sys.stdout.write(capture.get())


def note(sentence: str) -> None:
    """Say something on standard error that is no part of the result."""
    print(f"solvable: {sentence}", file=sys.stderr)


def _finite(value: Any) -> Any:
    match value:
        case dict():
            return {name: _finite(entry) for name, entry in value.items()}
        case list() | tuple():
            return [_finite(entry) for entry in value]
        case float() if not math.isfinite(value):
            return None
    return value
