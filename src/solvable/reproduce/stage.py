"""Parts of a long computation: told as they begin, kept as they end."""

import contextvars
import shutil
import time as clock
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import sealed
from .datasets import read_dataset, write_dataset

if TYPE_CHECKING:
    import xarray as xr

Tell = Callable[[str], None]


@dataclass(frozen=True)
class _Bench:
    folder: Path
    tell: Tell
    log: Tell


_BENCH: contextvars.ContextVar[_Bench | None] = contextvars.ContextVar("bench", default=None)
_PART: contextvars.ContextVar[str] = contextvars.ContextVar("part", default="")


@contextmanager
def workbench(folder: Path, tell: Tell, log: Tell) -> Iterator[None]:
    """Within it, stages are kept in `folder`, to be taken up again.

    Args:
        folder: where.
        tell: called with what is being done, often.
        log: called when a stage begins and ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    token = _BENCH.set(_Bench(folder, tell, log))
    try:
        yield
    finally:
        _BENCH.reset(token)


def stage(name: str, compute: Callable[[], "xr.Dataset"]) -> "xr.Dataset":
    """A part of a figure's data.

    Within `solvable reproduce` the part is kept on disk until the figure is whole, so that an
    interrupted run takes it up again; elsewhere it is just computed.

    Args:
        name: of the part, within its figure; a file's name.
        compute: makes the part.
    """
    bench = _BENCH.get()
    if bench is None:
        return compute()
    if outer := _PART.get():  # of two stages each may have a part of the same name
        name = f"{outer}-{name}"
    kept = bench.folder / f"{name}.stage"
    if kept.exists():
        if (found := _kept(kept)) is not None:
            bench.log(f"stage {name} is there already")
            return found
        bench.log(f"stage {name} is damaged, and made anew")
        shutil.rmtree(kept)
    bench.tell(name)
    bench.log(f"stage {name} begins")
    began, token = clock.monotonic(), _PART.set(name)
    try:
        dataset = compute()
    finally:
        _PART.reset(token)
    beside = write_dataset(dataset, bench.folder)
    sealed.seal(beside)
    if kept.exists():  # the same stage, asked for twice at once
        shutil.rmtree(beside)
    else:
        beside.rename(kept)
    bench.log(f"stage {name} ends after {clock.monotonic() - began:.1f} s")
    return dataset


def _kept(folder: Path) -> "xr.Dataset | None":
    try:
        if sealed.damaged(folder, sealed.manifest(folder)):
            return None
    except ValueError:
        return None
    return read_dataset(folder)


def step(done: int, of: int) -> None:
    """Tell how far the present stage is; fits the `progress` argument of every `train`."""
    bench = _BENCH.get()
    if bench is not None:
        bench.tell(f"{_PART.get()} {done}/{of}")
