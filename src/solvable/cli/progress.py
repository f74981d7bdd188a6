"""A sign of life on standard error, for people who wait."""

import sys
import threading
from collections import Counter
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..reproduce import Outcome

PATIENCE = 0.5  # seconds of silence before the bar appears


class Waiting:
    """A bar that appears once the work within it has lasted a while; nothing off a terminal.

    Call it with (step, steps) to move the bar; until then it only shows that something goes on.
    """

    def __init__(self, work: str, unit: str = "steps"):
        self._work, self._unit = work, unit
        self._progress = None
        self._timer = threading.Timer(PATIENCE, self._appear)
        self._timer.daemon = True

    def __call__(self, step: int, steps: int) -> None:
        """Move the bar."""
        if self._progress is not None:
            done = f"{step}/{steps} {self._unit}"
            self._progress.update(self._task, completed=step, total=steps, done=done)

    def __enter__(self) -> "Waiting":
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[done]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._progress.add_task(self._work, total=None, done="")
            self._timer.start()
        return self

    def _appear(self) -> None:
        if self._progress is not None:
            self._progress.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        if self._progress is not None:
            self._timer.join()
            self._progress.stop()


class Figures:
    """What each figure is at: a line a running figure on a terminal, else a line a finished one."""

    def __init__(self, ids: list[str]):
        self._count, self._finished = len(ids), 0
        self._bars: dict[str, Any] = {}
        self._progress = None

    def __call__(self, outcome: "Outcome", words: str) -> None:
        """Show an outcome's change."""
        if outcome.state in ("kept", "done", "failed", "skipped"):
            self._finished += 1
            self._tell(outcome)
        if self._progress is None:
            return
        if outcome.state == "running" and outcome.figure not in self._bars:
            self._bars[outcome.figure] = self._progress.add_task(outcome.figure, words=words)
        elif outcome.state == "running":
            self._progress.update(self._bars[outcome.figure], words=words)
        elif outcome.figure in self._bars:
            self._progress.remove_task(self._bars.pop(outcome.figure))

    def _tell(self, outcome: "Outcome") -> None:
        from ..reproduce import numerals

        counts = Counter(claim.verdict for claim in outcome.claims)
        verdicts = ", ".join(numerals.verdicts(counts))
        if news := sum(not c.as_known for c in outcome.claims) if not outcome.changes else 0:
            verdicts += f" ({news} not as known)"
        match outcome.state:
            case "kept":
                words = f"kept{f' ({outcome.why})' if outcome.why else ''}: {verdicts}"
            case "done":
                again = f" (again: {outcome.why})" if outcome.why else ""
                words = f"{outcome.seconds:.1f} s{again}: {verdicts}"
            case "skipped":
                words = f"skipped: {outcome.error}"
            case _:
                words = f"failed: {outcome.error}"
        line = f"[{self._finished}/{self._count}] {outcome.figure}  {words}"
        if self._progress is None:
            print(line, file=sys.stderr, flush=True)
        else:
            self._progress.console.print(line, highlight=False, markup=False)

    def __enter__(self) -> "Figures":
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            self._progress = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                TimeElapsedColumn(),
                TextColumn("{task.fields[words]}", markup=False),
                console=Console(stderr=True),
                transient=True,
            )
            self._progress.start()
        return self

    def close(self) -> None:
        """Take the lines off the terminal."""
        if self._progress is not None:
            self._progress.stop()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
