"""The command line: ``solvable COMMAND …``, one file a command.

Only a command's `run` imports what is heavy, so that help is quick.
"""

import io
import os
import sys
import warnings
from collections.abc import Sequence

from .statuses import BROKEN_PIPE, INTERRUPTED


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    0: fine. 1: a verdict is not the known one, witnesses differ or a run diverged. 2: bad usage or
    input, told in one sentence on standard error. 130: stopped by Ctrl-C. 141: nobody reads
    standard output any more.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # Greek letters must not break a narrow encoding
    before, warnings.showwarning = warnings.showwarning, _tell
    try:
        status = _run(sys.argv[1:] if argv is None else list(argv))
        sys.stdout.flush()
        return status
    except ValueError as error:
        return _refuse(str(error))
    except (MemoryError, RuntimeError) as error:
        from solvable.compiler import BrokenCompiler

        if isinstance(error, BrokenCompiler):
            return _refuse(str(error))
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):  # XLA's words
            return _refuse("there is not enough memory for what is asked; ask for smaller sizes")
        raise
    except KeyboardInterrupt:
        print("solvable: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _abandon_stdout()
        return BROKEN_PIPE
    except OSError as error:
        _abandon_stdout()
        return _refuse(str(error))
    finally:
        warnings.showwarning = before


def _run(argv: list[str]) -> int:
    from solvable import __version__

    if argv[:1] == ["--version"]:
        print(f"solvable {__version__}")
        return 0
    from .commands import parse

    try:
        return parse(argv).run()
    except SystemExit as stop:  # how tyro ends after --help
        return stop.code if isinstance(stop.code, int) else 0


def _tell(message: Warning | str, *_: object) -> None:
    """A warning as a sentence, without the line of code that gave it."""
    print(f"solvable: {message}", file=sys.stderr)


def _refuse(sentence: str) -> int:
    print(f"solvable: {sentence}", file=sys.stderr)
    return 2


def _abandon_stdout() -> None:
    """Let the interpreter's last flush go nowhere instead of failing again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
