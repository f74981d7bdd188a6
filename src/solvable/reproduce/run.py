"""The run: figures handed to worker processes, published as they finish."""

import contextlib
import os
import shutil
import signal
import sys
import threading
import time as clock
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from typing import Any, Literal

from .. import compiler
from ..computing import setup
from . import closure, registry
from .change import parsed
from .claim import SIZES, Claim, Size
from .datasets import read_dataset
from .report import Shelf
from .stage import workbench
from .store import (
    Config,
    Result,
    candidate,
    drawn_anew,
    held,
    publish,
    read_result,
    recover,
    rows,
    sweep_up,
    write_result,
)

State = Literal["kept", "waiting", "running", "done", "failed", "skipped"]
LOG = "log.txt"
_TRIES = 2  # of a figure whose process ends
_THREADS = "OPENBLAS_NUM_THREADS"


@dataclass
class Outcome:
    """What became of a figure.

    Attributes:
        figure: its id.
        state: "kept" (its data were there already), "done", "failed", "skipped" (it needs something
            that is not installed); "waiting" or "running" before that.
        claims: judged now, from the data; empty unless kept or done.
        seconds: how long it took.
        error: why it failed or was skipped.
        why: why data that were there are computed again, or what of a kept figure is new.
        changes: the settings that are not the figure's own; what it says is then nobody's claim.
    """

    figure: str
    state: State = "waiting"
    claims: list[Claim] = field(default_factory=list)
    seconds: float = 0.0
    error: str = ""
    why: str = ""
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Whether the figure is there, or was skipped, and every verdict is the known one."""
        there = self.state in ("kept", "done", "skipped")
        return there and (bool(self.changes) or all(claim.as_known for claim in self.claims))


Watch = Callable[[Outcome, str], None]


def use_double() -> None:
    """What a worker does before it computes: the closed forms need double precision."""
    setup(cache=False)


def run(
    targets: Sequence[str] = ("all",),
    *,
    out: str | Path = "out",
    size: Size = "default",
    change: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    fresh: bool = False,
    prepare: Callable[[], None] = use_double,
    watch: Watch | None = None,
    warn: Callable[[str], None] | None = None,
) -> list[Outcome]:
    """Compute, draw and judge figures, each in a worker process, and write the report.

    Data that `out` already holds for the same settings, versions and code are kept, and judged
    anew; a figure that was interrupted goes on from its last finished stage.

    Args:
        targets: "all", LAB or LAB/FIGURE, any number of them.
        out: the folder that gets LAB/FIGURE/{figure.svg, figure.png, data.zarr, claims.json} and
            index.html.
        size: "quick", "default" (the paper's own where two cores can) or "full".
        change: other values for settings of the figures, which are then kept apart.
        jobs: figures worked on at once; as many as there are processors unless given.
        fresh: compute again what is there.
        prepare: called once in every worker; a function that can be pickled.
        watch: called with an outcome and what it is at, at every change.
        warn: called in the end with each folder in `out` that the page leaves out, and why.

    Returns:
        The outcomes, in the order of the targets.

    Raises:
        ValueError: for an unknown target or setting, or an `out` that is in use or cannot be
            written.
        compiler.BrokenCompiler: where JAX returns wrong numbers.
    """
    from .. import validation  # imports JAX, which a worker imports only if its figures do

    validation.one_of("size", size, SIZES)
    jobs = validation.whole("jobs", (os.cpu_count() or 1) if jobs is None else jobs, 1)
    chosen = registry.figures(targets)
    changes = {figure.id: parsed(figure, size, change or {}) for figure in chosen}
    compiler.repair()  # the workers inherit it
    compiler.check()
    out = Path(out)
    with held(out):
        closure.forget()
        configs = {figure.id: Config.of(figure, size, changes[figure.id]) for figure in chosen}
        missing = {figure.id: figure.missing() for figure in chosen}
        try:
            running = _Run(out, configs, missing, fresh, prepare, watch)
            outcomes, left_out = running.go(jobs)
        except OSError as error:  # a full disk, a folder that was taken away
            place = error.filename or str(out)
            raise ValueError(
                f"out can no longer be written: {error.strerror or error} ({place})"
            ) from error
    if warn is not None:
        for folder in left_out:
            warn(folder)
    return outcomes


class _Run:
    """One run: what is kept, what is computed, and what became of it."""

    def __init__(
        self,
        out: Path,
        configs: dict[str, Config],
        missing: dict[str, str],
        fresh: bool,
        prepare: Callable[[], None],
        watch: Watch | None,
    ):
        self._out, self._configs, self._missing, self._fresh = out, configs, missing, fresh
        self._prepare, self._watch = prepare, watch or (lambda outcome, words: None)
        self._outcomes = {id: Outcome(id, changes=config.changes) for id, config in configs.items()}
        self._shelf: Shelf | None = None

    def go(self, jobs: int) -> tuple[list[Outcome], list[str]]:
        """What became of the figures, and what the page leaves out."""
        with open(self._out / LOG, "a", encoding="utf-8", opener=_no_link) as self._log:
            self._note(f"run of {len(self._configs)} begins")
            todo = [each for each in map(self._begin, self._configs) if each is not None]
            self._shelf = shelf = Shelf(self._out)
            crew, end = _Crew(todo, self._prepare, self._see), "interrupted"
            try:
                for id, done in crew.work(min(jobs, len(todo))):
                    self._finish(id, done, shelf)
                end = "ends"
            finally:
                crew.dismiss()
                shelf.write()
                self._note(f"run {end}")
        return list(self._outcomes.values()), shelf.left_out

    def _see(
        self, id: str, state: State, words: str = "", *, log: str = "", error: str = ""
    ) -> None:
        """A figure's news: to whoever watches, and a line in the log where it is worth one."""
        outcome = self._outcomes[id]
        outcome.state, outcome.error = state, error
        if state == "failed" and self._shelf is not None:
            self._shelf.drop(self._configs[id].folder(self._out), error)
        if log:
            self._note(f"{id} ({self._configs[id].size})  {log}")
        if words or state in ("failed", "skipped"):
            self._watch(outcome, words)

    def _note(self, line: str) -> None:
        now = datetime.now().isoformat(sep=" ", timespec="seconds")
        print(f"{now}  {line}", file=self._log, flush=True)

    def _begin(self, id: str) -> "_Job | None":
        """What a worker is to do for a figure."""
        config, outcome = self._configs[id], self._outcomes[id]
        try:
            recover(config, self._out)
            bench = config.bench(self._out)
            sweep_up(config, self._out, keep=None if self._fresh else bench)
            found, outcome.why = candidate(self._out, config)
            if self._fresh and found is not None:
                found, outcome.why = None, "asked for"
            if found is not None and found.folder != config.folder(self._out):
                publish(found.folder, config, self._out)
                found = read_result(config.folder(self._out))
        except OSError as error:
            self._see(id, "failed", log=f"fails: {error}", error=_sentence(error))
            return None
        if found is None and self._missing[id]:
            self._see(id, "skipped", error=self._missing[id])
            return None
        return _Job(config, bench, found)

    def _finish(self, id: str, done: "_Done", shelf: Shelf) -> None:
        """Put a figure that a worker has finished in its place."""
        config, outcome = self._configs[id], self._outcomes[id]
        outcome.claims, outcome.seconds = done.claims, done.seconds
        state: State = "kept" if done.kept else "done"
        if done.kept:
            outcome.why = done.news
        try:
            if done.folder is not None:
                publish(done.folder, config, self._out)
            sweep_up(config, self._out, keep=None)
        except OSError as error:
            self._see(id, "failed", log=f"fails: {error}", error=_sentence(error))
            return
        shelf.refresh(config.folder(self._out))
        if done.folder is not None:
            shelf.write()
        what = f"is kept{': ' if done.news else ''}{done.news}" if done.kept else "is done"
        self._see(id, state, log=f"{what}, {len(done.claims)} claims judged")
        self._watch(outcome, "")


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


@dataclass(frozen=True)
class _Job:
    config: Config
    bench: Path
    kept: Result | None  # whose data are judged anew, instead of computed


@dataclass(frozen=True)
class _Done:
    folder: Path | None  # to be published; None where what is there is right already
    claims: list[Claim]
    seconds: float
    kept: bool
    news: str = ""


class _Crew:
    """Worker processes and what they are at."""

    def __init__(self, todo: Sequence[_Job], prepare: Callable[[], None], see: Callable[..., None]):
        self._todo = deque(todo)
        self._prepare, self._see = prepare, see
        self._workers: dict[connection.Connection, Any] = {}
        self._at: dict[connection.Connection, _Job] = {}
        self._tries: dict[str, int] = {}

    def work(self, jobs: int):
        """Yield (figure, what was made of it) as figures finish; failures are only told."""
        while self._todo or self._at:
            while self._todo and len(self._at) < jobs:
                with _sharing_cores(jobs):
                    self._hire()
            for line in connection.wait(list(self._at)) if self._at else ():
                assert isinstance(line, connection.Connection)
                id = self._at[line].config.figure
                try:
                    word, *rest = line.recv()
                except (EOFError, OSError):  # also in the middle of a message
                    word, rest = "died", []
                match word:
                    case "at":
                        self._see(id, "running", rest[0])
                    case "log":
                        self._see(id, "running", log=rest[0])
                    case "done":
                        self._next(line)
                        yield id, rest[0]
                    case "failed":
                        self._fail(self._at[line], rest[0])
                        self._next(line)
                    case _:
                        job = self._at[line]
                        code = self._leave(line)
                        self._again(job, f"its process ended with status {code}")

    def _again(self, job: _Job, what: str) -> None:
        """Try a figure once more whose process is gone."""
        id = job.config.figure
        self._tries[id] = self._tries.get(id, 0) + 1
        if self._tries[id] < _TRIES:
            self._see(id, "running", "starting again", log=f"{what}; tried again")
            self._todo.appendleft(job)
        else:
            self._fail(job, f"{what}, {_TRIES} times (not enough memory?)")

    def _fail(self, job: _Job, error: str) -> None:
        if not any(job.bench.glob("*.stage")):  # nothing to come back for
            shutil.rmtree(job.bench, ignore_errors=True)
        self._see(job.config.figure, "failed", log=f"fails: {error}", error=error)

    def _hire(self) -> None:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        worker = context.Process(target=_worker, args=(theirs, self._prepare))
        worker.daemon = True
        try:
            worker.start()
        except OSError as error:  # it died while it was told what to do, or there is no room
            ours.close()
            self._again(self._todo.popleft(), f"its process could not be started ({error})")
            return
        finally:
            theirs.close()
        self._workers[ours] = worker
        self._next(ours)

    def _next(self, line: connection.Connection) -> None:
        """Hand the next figure to a worker, or send it home."""
        self._at.pop(line, None)
        if not self._todo:
            self._leave(line)
            return
        job = self._todo.popleft()
        self._at[line] = job
        log = "" if job.kept else "begins"
        self._see(job.config.figure, "running", "judging" if job.kept else "starting", log=log)
        with contextlib.suppress(OSError):  # a dead worker is found by its silence
            line.send(job)

    def _leave(self, line: connection.Connection) -> int | None:
        self._at.pop(line, None)
        line.close()
        worker = self._workers.pop(line)
        worker.join(5.0)
        if worker.exitcode is None:
            worker.kill()
            worker.join()
        return worker.exitcode

    def dismiss(self) -> None:
        """End every worker; what they have finished so far is kept on their workbenches."""
        for worker in self._workers.values():
            worker.kill()
        for worker in self._workers.values():
            worker.join()


@contextlib.contextmanager
def _sharing_cores(workers: int):
    """Give the linear algebra of a process that starts here its share of the cores.

    Its threads spin while they wait: more of them than there are cores were 20 times slower.
    """
    mine = _THREADS not in os.environ and workers > 1
    if mine:
        os.environ[_THREADS] = str(max(1, (os.cpu_count() or 1) // workers))
    try:
        yield
    finally:
        if mine:
            del os.environ[_THREADS]


def _worker(line: connection.Connection, prepare: Callable[[], None]) -> None:
    """Compute figures until the line is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process says when to stop
    threading.Thread(target=_end_with_parent, daemon=True).start()
    prepare()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            job = line.recv()
            try:
                line.send(("done", _make(job, line)))
            except (BrokenPipeError, ConnectionResetError):
                raise
            except OSError as error:
                line.send(("failed", _sentence(error)))
            except ValueError as error:  # a changed setting is out of range
                if not job.config.changes:
                    traceback.print_exc(file=sys.stderr)
                line.send(("failed", str(error) if job.config.changes else _sentence(error)))
            except Exception as error:
                traceback.print_exc(file=sys.stderr)
                line.send(("failed", _sentence(error)))


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return f"{type(error).__name__}: {error}"


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _make(job: _Job, line: connection.Connection) -> _Done:
    """All files of a figure, in a folder that is ready to be published."""
    config, kept = job.config, job.kept
    figure = registry.figure(config.figure)
    began, told = clock.monotonic(), 0.0

    def tell(words: str) -> None:
        nonlocal told
        now = clock.monotonic()
        if now - told > 0.1:  # people cannot read faster
            line.send(("at", words))
            told = now

    if kept is not None:
        dataset = read_dataset(kept.folder)
        claims = figure.judge(dataset, config.size)
        anew = drawn_anew(kept, config)
        if not anew and _same(claims, kept):
            return _Done(None, claims, clock.monotonic() - began, kept=True)
        done = write_result(job.bench, figure, config, dataset, claims, seconds=0.0, kept=kept)
        news = _news(claims, kept, anew)
        return _Done(done, claims, clock.monotonic() - began, kept=True, news=news)
    with workbench(job.bench, tell, lambda words: line.send(("log", words))):
        dataset = figure.compute(config.size, config.changes)
    tell("drawing")
    claims = figure.judge(dataset, config.size)
    seconds = clock.monotonic() - began
    done = write_result(job.bench, figure, config, dataset, claims, seconds=seconds)
    return _Done(done, claims, seconds, kept=False)


def _same(claims: list[Claim], kept: Result) -> bool:
    """Whether claims are judged as they were."""
    return not kept.damaged and rows(claims) == rows(kept.claims)


def _news(claims: list[Claim], kept: Result, anew: bool) -> str:
    """What of a kept figure is not as it was."""
    old = {claim.id: claim.verdict for claim in kept.claims}
    other = [c.id.rpartition("/")[2] for c in claims if old.get(c.id) != c.verdict]
    words = [f"{', '.join(kept.damaged)} damaged, made anew"] if kept.damaged else []
    words += ["drawn anew"] if anew and not kept.damaged else []
    if other and "claims.json" not in kept.damaged:
        words.append(f"judged otherwise: {', '.join(other)}")
    return "; ".join(words) or "judged anew"
