"""Datasets of several tasks in one: variables and their grids carry the task's label."""

from collections.abc import Callable, Mapping

import numpy as np
import xarray as xr

from ..laws import Law


def labelled(part: xr.Dataset, label: str) -> xr.Dataset:
    """The dataset with ``:label`` behind every name; grids of two labels may differ."""
    return part.rename({name: f"{name}:{label}" for name in (*part, *part.dims)})


def of_label(data: xr.Dataset, label: str) -> Callable[[str], np.ndarray]:
    """The variables of one label, by their bare names."""
    return lambda name: data[f"{name}:{label}"].values


def local_exponents(laws: Mapping[str, Law], per_decade: int) -> xr.Dataset:
    """For each law X its local exponent ``local_X`` on the grid ``law_X`` of its whole range."""
    grids = {name: law.grid(per_decade) for name, law in laws.items()}
    return xr.Dataset(
        {
            f"local_{name}": (f"law_{name}", law.local_exponent(grids[name]))
            for name, law in laws.items()
        },
        coords={f"law_{name}": x for name, x in grids.items()},
    )
