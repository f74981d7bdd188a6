"""Find what a lab's claims quote in a text of its paper, whitespace aside.

    python tests/oracles/check_quotes.py TEXT [LAB]

TEXT is a file with the paper's text, which is not in the project; LAB is msfr unless given. Prints
a line for every quote, and a count. Exit status: 0 all are found, 1 some are not, 2 bad usage.
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from solvable import reproduce
from solvable.reproduce import Statement


def quoting(lab: str) -> list[Statement]:
    """The statements of a lab that quote its paper."""
    return [s for figure in reproduce.figures([lab]) for s in figure.statements if s.quote]


def squeezed(text: str) -> str:
    """The text without whitespace."""
    return "".join(text.split())


def told(text: str, statements: Iterable[Statement]) -> tuple[list[str], int]:
    """A line for every quote, and how many are not in the text."""
    whole, lines, missing = squeezed(text), [], 0
    for statement in statements:
        assert statement.quote is not None
        found = squeezed(statement.quote.text) in whole
        missing += not found
        word = "found    " if found else "NOT FOUND"
        lines.append(f"{word}  {statement.id}  [{statement.quote.where}]")
    return lines, missing


def main(arguments: Sequence[str]) -> int:
    """Print what was found, and return the exit status."""
    if len(arguments) not in (1, 2):
        print("usage: check_quotes.py TEXT [LAB]", file=sys.stderr)
        return 2
    path, lab = Path(arguments[0]), arguments[1] if len(arguments) > 1 else "msfr"
    try:
        text, statements = path.read_text(encoding="utf-8"), quoting(lab)
    except (OSError, ValueError) as error:  # no such file, not of UTF-8, no such lab
        print(f"check_quotes.py: {error}", file=sys.stderr)
        return 2
    lines, missing = told(text, statements)
    print(*lines, f"{len(lines) - missing} of {len(lines)} quotes found", sep="\n")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
