"""A sign of life on standard error, for people who wait."""

import sys
import threading
from types import TracebackType

PATIENCE = 0.5  # seconds of silence before the bar appears


class Waiting:
    """A bar that appears once the work within it has lasted a while; nothing off a terminal.

    Call it with (step, steps) to move the bar; until then it only shows that something goes on.
    """

    def __init__(self, work: str):
        self._work = work
        self._progress = None
        self._timer = threading.Timer(PATIENCE, self._appear)
        self._timer.daemon = True

    def __call__(self, step: int, steps: int) -> None:
        """Move the bar."""
        if self._progress is not None:
            done = f"{step}/{steps} steps"
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
