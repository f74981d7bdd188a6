"""Datasets of several tasks in one: variables and their grids carry the task's label."""

from collections.abc import Callable, Mapping

import numpy as np
import xarray as xr


def labelled(part: xr.Dataset, label: str) -> xr.Dataset:
    """The dataset with ``:label`` behind every name; grids of two labels may differ."""
    return part.rename({name: f"{name}:{label}" for name in (*part, *part.dims)})


def of_label(data: xr.Dataset, label: str) -> Callable[[str], np.ndarray]:
    """The variables of one label, by their bare names."""
    return lambda name: data[f"{name}:{label}"].values


def all_labelled(parts: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """Datasets by their labels as one."""
    return xr.merge([labelled(part, label) for label, part in parts.items()])
