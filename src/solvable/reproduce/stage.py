"""Parts of a long computation: told as they begin, kept as they end."""

import contextvars
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .store import read_dataset, write_dataset

if TYPE_CHECKING:
    import xarray as xr

Tell = Callable[[str], None]


@dataclass(frozen=True)
class _Bench:
    folder: Path
    tell: Tell


_BENCH: contextvars.ContextVar[_Bench | None] = contextvars.ContextVar("bench", default=None)
_PART: contextvars.ContextVar[str] = contextvars.ContextVar("part", default="")


@contextmanager
def workbench(folder: Path, tell: Tell) -> Iterator[None]:
    """Within it, stages are told to `tell` and kept in `folder`, to be taken up again."""
    folder.mkdir(parents=True, exist_ok=True)
    token = _BENCH.set(_Bench(folder, tell))
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
    kept = bench.folder / f"{name}.zarr"
    if kept.exists():
        return read_dataset(kept)
    bench.tell(name)
    token = _PART.set(name)
    try:
        dataset = compute()
    finally:
        _PART.reset(token)
    write_dataset(dataset, kept)
    return dataset


def step(done: int, of: int) -> None:
    """Tell how far the present stage is; fits the `progress` argument of every `train`."""
    bench = _BENCH.get()
    if bench is not None:
        bench.tell(f"{_PART.get()} {done}/{of}")
