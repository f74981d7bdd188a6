"""Datasets on disk: the folder data.zarr in a folder."""

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from .. import stores

if TYPE_CHECKING:
    import xarray as xr

DATA = "data.zarr"


def write_dataset(dataset: "xr.Dataset", folder: Path) -> Path:
    """Write a dataset into a new folder within `folder`, and say which."""
    new = folder / f"new-{secrets.token_hex(4)}"
    stores.write(dataset, new / DATA)
    return new


def read_dataset(folder: Path) -> "xr.Dataset":
    """The dataset of a folder, in memory."""
    import xarray as xr

    with xr.open_zarr(folder / DATA, chunks=None) as dataset:
        return dataset.load()
