"""Datasets on disk: the folder data.zarr in a folder."""

import secrets
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr

DATA = "data.zarr"


def write_dataset(dataset: "xr.Dataset", folder: Path) -> Path:
    """Write a dataset into a new folder within `folder`, and say which."""
    new = folder / f"new-{secrets.token_hex(4)}"
    store(dataset, new / DATA)
    return new


def store(dataset: "xr.Dataset", path: Path) -> None:
    """Write a dataset as a Zarr store."""
    words = [name for name, variable in dataset.variables.items() if variable.dtype.kind == "U"]
    for name in words:  # Zarr has a specification of strings of any length, not of fixed length
        dataset = dataset.assign({name: dataset[name].astype(object)})
    with warnings.catch_warnings():
        # Not in the specification of Zarr 3 yet; without it xarray warns whoever opens the store.
        warnings.filterwarnings("ignore", message="Consolidated metadata is currently not part")
        dataset.to_zarr(path, mode="w", consolidated=True)


def read_dataset(folder: Path) -> "xr.Dataset":
    """The dataset of a folder, in memory."""
    import xarray as xr

    with xr.open_zarr(folder / DATA, chunks=None) as dataset:
        return dataset.load()
