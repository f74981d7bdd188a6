"""Zarr stores: written whole or not at all. Nothing here imports NumPy or JAX by itself."""

import json
import secrets
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr

RUN = "a run of solvable, format 1"  # what a store says that training can go on from


def write(dataset: "xr.Dataset", path: Path) -> None:
    """Write a dataset as a new Zarr store."""
    words = [name for name, variable in dataset.variables.items() if variable.dtype.kind == "U"]
    for name in words:  # Zarr has a specification of strings of any length, not of fixed length
        dataset = dataset.assign({name: dataset[name].astype(object)})
    with quiet():
        dataset.to_zarr(path, mode="w", consolidated=True)


@contextmanager
def quiet() -> Iterator[None]:
    """Within it, consolidated metadata are not warned of.

    They are not in the specification of Zarr 3 yet; without them xarray warns whoever opens a
    store.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Consolidated metadata is currently not part")
        yield


def replaced(path: Path, make: Callable[[Path], None]) -> None:
    """Have a store made beside `path`, then put it there; what was there is kept until then."""
    path = path.resolve()  # of a link, what it leads to is replaced
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new-{secrets.token_hex(4)}")
    try:
        make(new)
        old = aside(path)
        if path.exists():
            shutil.rmtree(old, ignore_errors=True)
            path.rename(old)
        new.rename(path)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def found(path: str | Path) -> Path:
    """The path, where the old store is put back if a new one did not take its place."""
    path = Path(path).resolve()
    if not path.exists() and aside(path).is_dir():
        aside(path).rename(path)
    return path


def aside(path: Path) -> Path:
    """Where a store is while another one takes its place."""
    return path.with_name(f".{path.name}.old")


def is_store(path: Path) -> bool:
    """Whether there is a Zarr store."""
    return (path / "zarr.json").is_file()


def is_run(path: Path) -> bool:
    """Whether there is one that training can go on from."""
    try:
        return json.loads((path / "zarr.json").read_text())["attributes"]["solvable"] == RUN
    except (OSError, ValueError, KeyError, TypeError):
        return False
