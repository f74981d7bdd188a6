"""The run: figures handed to worker processes, published as they finish."""

import contextlib
import os
import signal
import sys
import threading
import time as clock
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from typing import Any, Literal

from .. import compiler
from ..computing import setup
from . import registry
from .claim import Claim
from .figure import SIZES, Size
from .report import write_report
from .stage import workbench
from .store import (
    Config,
    bench_of,
    folder_of,
    held,
    publish,
    read_result,
    sweep_up,
    write_result,
)

State = Literal["kept", "waiting", "running", "done", "failed", "skipped"]


@dataclass
class Outcome:
    """What became of a figure.

    Attributes:
        figure: its id.
        state: "kept" (it was there already), "done", "failed", "skipped" (it needs something that
            is not installed); "waiting" or "running" before that.
        claims: judged; empty unless kept or done.
        seconds: how long it took.
        error: why it failed or was skipped.
        why: what has changed since, where there was an older result.
    """

    figure: str
    state: State = "waiting"
    claims: list[Claim] = field(default_factory=list)
    seconds: float = 0.0
    error: str = ""
    why: str = ""

    @property
    def good(self) -> bool:
        """Whether the figure is there, or was skipped, and none of its claims fails."""
        there = self.state in ("kept", "done", "skipped")
        return there and all(claim.verdict != "fails" for claim in self.claims)


Watch = Callable[[Outcome, str], None]


def use_double() -> None:
    """What a worker does before it computes: the closed forms need double precision."""
    setup(cache=False)


def run(
    targets: Sequence[str] = ("all",),
    *,
    out: str | Path = "out",
    size: Size = "default",
    jobs: int | None = None,
    fresh: bool = False,
    prepare: Callable[[], None] = use_double,
    watch: Watch | None = None,
) -> list[Outcome]:
    """Compute, draw and judge figures, each in a worker process, and write the report.

    What `out` already holds for the same settings, versions and code is kept; a figure that was
    interrupted goes on from its last finished stage.

    Args:
        targets: "all", LAB or LAB/FIGURE, any number of them.
        out: the folder that gets LAB/FIGURE/{figure.svg, figure.png, data.zarr, claims.json} and
            index.html.
        size: "quick", "default" (the paper's own where two cores can) or "full".
        jobs: figures worked on at once; as many as there are processors unless given.
        fresh: compute again what is there.
        prepare: called once in every worker; a function that can be pickled.
        watch: called with an outcome and what it is at, at every change.

    Returns:
        The outcomes, in the order of the targets.

    Raises:
        ValueError: for an unknown target, or an `out` that is in use or cannot be written.
        compiler.BrokenCompiler: where JAX returns wrong numbers.
    """
    from .. import validation  # imports JAX, which a worker imports only if its figures do

    validation.one_of("size", size, SIZES)
    jobs = validation.whole("jobs", (os.cpu_count() or 1) if jobs is None else jobs, 1)
    chosen = registry.figures(targets)
    compiler.repair()  # the workers inherit it
    compiler.check()
    out = Path(out)
    see = watch or (lambda outcome, words: None)
    with held(out):
        configs = {figure.id: Config.of(figure, size) for figure in chosen}
        outcomes = {figure.id: Outcome(figure.id) for figure in chosen}
        benches = {id: bench_of(out, id, config.key) for id, config in configs.items()}
        for id, bench in benches.items():
            sweep_up(out, id, keep=None if fresh else bench)
        todo: deque[str] = deque()
        absent = {figure.id: figure.missing() for figure in chosen}
        for id, config in configs.items():
            found = read_result(folder_of(out, id))
            if found is not None and found.key == config.key and not fresh:
                outcomes[id].state, outcomes[id].claims = "kept", found.claims
                see(outcomes[id], "")
            elif absent[id]:
                outcomes[id].state, outcomes[id].error = "skipped", absent[id]
                see(outcomes[id], "")
            else:
                outcomes[id].why = config.difference(found) if found is not None else ""
                todo.append(id)
        crew = _Crew(todo, outcomes, configs, benches, prepare, see)
        try:
            for id, done in crew.work(min(jobs, len(todo))):
                publish(done, folder_of(out, id))
                sweep_up(out, id, keep=None)
                result = read_result(folder_of(out, id))
                outcomes[id].claims = [] if result is None else result.claims
                write_report(out)
                see(outcomes[id], "")
        finally:
            crew.dismiss()
            write_report(out)
    return list(outcomes.values())


class _Crew:
    """Worker processes and what they are at."""

    def __init__(
        self,
        todo: deque[str],
        outcomes: dict[str, Outcome],
        configs: dict[str, Config],
        benches: dict[str, Path],
        prepare: Callable[[], None],
        see: Watch,
    ):
        self._todo, self._outcomes = deque(todo), outcomes
        self._configs, self._benches = configs, benches
        self._prepare, self._see = prepare, see
        self._workers: dict[connection.Connection, Any] = {}
        self._at: dict[connection.Connection, str] = {}

    def work(self, jobs: int):
        """Yield (figure, folder to publish) as figures finish; failures are only noted."""
        for _ in range(jobs):
            self._hire()
        while self._at:
            for line in connection.wait(list(self._at)):
                assert isinstance(line, connection.Connection)
                id = self._at[line]
                outcome = self._outcomes[id]
                try:
                    word, *rest = line.recv()
                except EOFError:
                    word, rest = "died", []
                if word == "at":
                    self._see(outcome, rest[0])
                    continue
                if word == "done":
                    outcome.state, outcome.seconds = "done", rest[1]
                    self._next(line)
                    yield id, Path(rest[0])
                    continue
                outcome.state = "failed"
                if word == "failed":
                    outcome.error = rest[0]
                    self._next(line)
                else:
                    code = self._leave(line)
                    outcome.error = f"its process ended with status {code} (not enough memory?)"
                    if self._todo:
                        self._hire()
                self._see(outcome, "")

    def _hire(self) -> None:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        worker = context.Process(target=_worker, args=(theirs, self._prepare))
        worker.daemon = True
        worker.start()
        theirs.close()
        self._workers[ours] = worker
        self._next(ours)

    def _next(self, line: connection.Connection) -> None:
        """Hand the next figure to a worker, or send it home."""
        self._at.pop(line, None)
        if not self._todo:
            self._leave(line)
            return
        id = self._todo.popleft()
        self._at[line] = id
        self._outcomes[id].state = "running"
        self._see(self._outcomes[id], "starting")
        with contextlib.suppress(BrokenPipeError):  # a dead worker is found by its silence
            line.send((self._configs[id], self._benches[id]))

    def _leave(self, line: connection.Connection) -> int | None:
        self._at.pop(line, None)
        line.close()
        worker = self._workers.pop(line)
        worker.join()
        return worker.exitcode

    def dismiss(self) -> None:
        """End every worker; what they have finished so far is kept on their workbenches."""
        for worker in self._workers.values():
            worker.kill()
        for worker in self._workers.values():
            worker.join()


def _worker(line: connection.Connection, prepare: Callable[[], None]) -> None:
    """Compute figures until the line is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process says when to stop
    threading.Thread(target=_end_with_parent, daemon=True).start()
    prepare()
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            config, bench = line.recv()
            try:
                line.send(("done", *_make(config, bench, line)))
            except BrokenPipeError:
                raise
            except Exception as error:
                traceback.print_exc(file=sys.stderr)
                line.send(("failed", f"{type(error).__name__}: {error}"))


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _make(config: Config, bench: Path, line: connection.Connection) -> tuple[str, float]:
    """All files of a figure, in a folder that is ready to be published."""
    figure = registry.figure(config.figure)
    began, told = clock.monotonic(), 0.0

    def tell(words: str) -> None:
        nonlocal told
        now = clock.monotonic()
        if now - told > 0.1:  # people cannot read faster
            line.send(("at", words))
            told = now

    with workbench(bench, tell):
        dataset = figure.compute(config.size)
    claims = figure.judge(dataset)
    tell("drawing")
    seconds = clock.monotonic() - began
    done = write_result(bench, figure, config, dataset, claims, seconds)
    return str(done), seconds
