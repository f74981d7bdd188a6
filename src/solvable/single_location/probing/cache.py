"""Arrays kept on disk by name: whole or not there, never pickled."""

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ...caches import base_folder


def usable(folder: Any) -> Path:
    """The folder, made where it is missing, or a `ValueError` naming `cache`."""
    path = base_folder() / "probing" if folder is None else Path(folder).absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        raise ValueError(
            f"cache must be a folder that can be written, not {str(path)!r} ({error.strerror})"
        ) from None
    return path


def kept(path: Path, rows: int, compute: Callable[[], np.ndarray]) -> np.ndarray:
    """The array at `path`, mapped into memory; computed and kept where it is missing or spoilt.

    Args:
        path: a file's name ending with .npy.
        rows: the length that its second axis must have.
        compute: makes the array.
    """
    with contextlib.suppress(OSError, ValueError, EOFError):
        found = np.load(path, mmap_mode="r", allow_pickle=False)
        if found.ndim == 3 and found.shape[1] == rows and found.dtype == np.float32:
            return found
    array = compute()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            np.save(file, array, allow_pickle=False)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    return array
