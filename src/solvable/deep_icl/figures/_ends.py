"""Where the depth law of untied layers ends: at finite D, and where eigenvalues are spread out."""

from typing import Any

import numpy as np
import xarray as xr
from scipy.interpolate import CubicSpline

from ...reproduce import step
from .. import RotatedStructure, Spectrum, untied_optimum


def law_task(settings: Any, k: int, dim: int) -> RotatedStructure:
    """Rotated structure with the k-th ν and β."""
    return RotatedStructure(settings.nus[k], settings.betas[k], dim)


def finite(settings: Any) -> xr.Dataset:
    """Depths at which a finite D halves the loss, for every law."""
    half = np.empty((len(settings.nus), len(settings.ends)))
    for k, nu in enumerate(settings.nus):
        for n, dim in enumerate(settings.ends):
            scale = dim ** (nu / (2.0 + nu))
            depths = np.unique(np.linspace(0.9 * scale, 1.7 * scale, 9).round().astype(int))
            here, endless = (
                np.asarray(untied_optimum(law_task(settings, k, size), depths).loss)
                for size in (dim, settings.many)
            )
            lost = CubicSpline(depths, np.log2(endless / here))
            half[k, n] = lost.solve(1.0, extrapolate=False)[0]
            step(k * len(settings.ends) + n + 1, half.size)
    depths = np.unique(np.geomspace(1, 64, 40).round().astype(int))
    ended = untied_optimum(law_task(settings, 0, settings.bits_dim), depths).loss
    found = {"half": (("beta", "end"), half), "ended": ("ended_depth", np.asarray(ended))}
    return xr.Dataset(found, coords={"end": list(settings.ends), "ended_depth": depths})


def spread(settings: Any) -> xr.Dataset:
    """Each of the top 200 or 300 eigenvalues spread out, then single ones, then blocks."""
    nu, beta, rows = settings.nus[0], settings.betas[0], []
    k, edges = np.arange(1.0, 3001.0), [3001]
    while edges[-1] <= 10**8:
        edges.append(int(1.05 * edges[-1]))
    middle, many = 0.5 * (np.array(edges[1:]) + np.array(edges[:-1]) - 1.0), np.diff(edges)
    # Gauss's rule for p² dμ: exact up to L = points − 1.
    points = max(settings.spread_depths) + 1
    angle = np.pi * np.arange(1.0, points + 1.0) / (points + 1.0)
    parts = 2.0 / (points + 1.0) * np.sin(angle) ** 2
    for top in settings.tops:
        for delta in settings.spreads:
            apart = 1.0 + 2.0 * delta * np.cos(angle)
            lam = [(k[:top, None] ** -nu * apart).ravel(), k[top:] ** -nu, middle**-nu]
            share = k ** -(nu * beta + 1.0)
            share = [(share[:top, None] * parts).ravel(), share[top:]]
            share.append(many * middle ** -(nu * beta + 1.0))
            places, shares = np.concatenate(lam), np.concatenate(share)
            task = RotatedStructure(spectrum=Spectrum.given(places, shares / shares.sum() / places))
            rows.append(np.asarray(untied_optimum(task, list(settings.spread_depths)).loss))
    shape = (len(settings.tops), len(settings.spreads), -1)
    found = {"spread": (("top", "delta", "spread_depth"), np.reshape(rows, shape))}
    places = {"delta": list(settings.spreads), "spread_depth": list(settings.spread_depths)}
    places |= {"top": list(settings.tops)}
    return xr.Dataset(found, coords=places)
