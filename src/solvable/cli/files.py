"""Files are written whole or not at all."""

import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .. import stores
from .screen import note

if TYPE_CHECKING:
    import xarray as xr

STDOUT = Path("-")
_RUNS = ("save",)  # options that write runs, not answers


def check_writable(option: str, path: Path | None) -> None:
    """Raise a `ValueError` naming `option` unless a file can be written at `path`.

    Meant for before the long work: a file is made beside it and removed again.
    """
    if path is None:
        return
    try:
        if path.is_dir():
            raise IsADirectoryError(None, "it is a folder")
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(None, "it is read-only")
        if not _is_special(path):
            beside = _beside(path)
            beside.touch(exist_ok=False)
            beside.unlink()
    except OSError as error:
        raise _unwritable(option, path, error) from None


def check_folder(option: str, path: Path | None) -> None:
    """Raise a `ValueError` unless a Zarr store can be written at `path`, or in place of its like.

    A saved run is replaced by another one only, and another store by no run.
    """
    if path is None:
        return
    if path.exists() and (not stores.is_store(path) or stores.is_run(path) != (option in _RUNS)):
        kind = "a saved run" if option in _RUNS else "a Zarr store that is no saved run"
        raise ValueError(f"{option} must be a new path or {kind}, not {str(path)!r}")
    try:
        beside = _beside(path)
        beside.mkdir(parents=True)
        beside.rmdir()
    except OSError as error:
        raise _unwritable(option, path, error) from None


def check_different(**paths: Path | None) -> None:
    """Raise a `ValueError` if two options name one file."""
    seen: dict[Path, str] = {}
    for option, path in paths.items():
        if path is None or path == STDOUT or _is_special(path):
            continue
        if (other := seen.setdefault(path.resolve(), option)) != option:
            raise ValueError(
                f"{option} and {other} must be different files, not both {str(path)!r}"
            )


def write_folder(option: str, path: Path, dataset: "xr.Dataset") -> None:
    """Write a dataset as a Zarr store, whole or not at all."""
    try:
        stores.replaced(path, lambda new: stores.write(dataset, new))
    except OSError as error:
        raise _unwritable(option, path, error) from None


def check_csv(path: Path | None, json: bool) -> None:
    """Raise a `ValueError` unless a table can be written at `path`, or on standard output."""
    if path != STDOUT:
        check_writable("csv", path)
    elif json:
        raise ValueError("csv must be a file, not '-', with --json, which takes standard output")


def write_csv(path: Path, content: str) -> None:
    """Write a table into a file and say so, or on standard output."""
    if path == STDOUT:
        sys.stdout.write(content)
        return
    write_file("csv", path, content.encode())
    note(f"wrote {path}")


def write_file(option: str, path: Path, content: bytes) -> None:
    """Write `content` to a temporary name in the same folder, then rename."""
    try:
        if _is_special(path):
            path.write_bytes(content)
            return
        beside = _beside(path)
        try:
            beside.write_bytes(content)
            beside.replace(path.resolve())
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise _unwritable(option, path, error) from None


def _beside(path: Path) -> Path:
    """A new name in the folder of `path`, or of what it links to."""
    return path.resolve().with_name(f".solvable-{secrets.token_hex(8)}.tmp")


def _is_special(path: Path) -> bool:
    """Whether `path` is a device or a pipe, which must never be replaced by a file."""
    return path.exists() and (not path.is_file() or Path("/dev") in path.absolute().parents)


def _unwritable(option: str, path: Path, error: OSError) -> ValueError:
    return ValueError(
        f"{option} must be a file that can be written, not {str(path)!r} ({error.strerror})"
    )
