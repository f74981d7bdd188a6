"""The best polynomials by least squares in hundreds of digits, and what rounding their γ loses."""

import math
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import xarray as xr

from ...reproduce import step
from .. import RotatedStructure, untied_optimum

# Rounding to b bits leaves a relative error of mean square 4^-b times ∫ dm/(3 m³ ln 2) from 1 to 2,
# m the digits before rounding, log-uniform where the unit is any.
ROUNDED = 1.0 / (8.0 * math.log(2.0))


def _digits(depth: int) -> int:
    """With which the normal equations keep more than 40: they lose about 4 a degree."""
    return 60 + 6 * depth


def _spectrum(settings: Any, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """λ and a, Σa = 1."""
    nu, beta = Decimal(str(settings.nus[0])), Decimal(str(settings.betas[0]))
    logs = [Decimal(k).ln() for k in range(1, dim + 1)]
    lam = np.array([(-nu * x).exp() for x in logs])
    share = np.array([(-(nu * beta + 1) * x).exp() for x in logs])
    return lam, share / share.sum()


def _solved(square: np.ndarray, line: np.ndarray) -> np.ndarray:
    """Gauss's elimination, of a positive matrix, which needs no pivots."""
    rows = np.concatenate([square, line[:, None]], axis=1)
    for j in range(len(line)):
        rows[j] = rows[j] / rows[j, j]
        for i in range(len(line)):
            if i != j:
                rows[i, j:] = rows[i, j:] - rows[i, j] * rows[j, j:]
    return rows[:, -1]


def _least(lam: np.ndarray, share: np.ndarray, depth: int) -> tuple[Decimal, np.ndarray]:
    """Min Σ a p(λ)² over p(λ) = 1 − Σ_j c_j λ^j of a degree, and c, from moments."""
    powers, moments = share, []
    for _ in range(2 * depth + 1):
        moments.append(powers.sum())
        powers = powers * lam
    line = np.array(moments[1 : depth + 1])
    square = np.array([moments[j + 2 : j + 2 + depth] for j in range(depth)])
    found = _solved(square, line)
    return moments[0] - found @ line, found


def least_squares(settings: Any) -> xr.Dataset:
    """𝓛* by brute force, in many digits, and by the library."""
    dim, losses = settings.brute_dim, []
    with localcontext() as context:
        for depth in settings.brute:
            context.prec = _digits(depth)
            losses.append(float(_least(*_spectrum(settings, dim), depth)[0]))
    task = RotatedStructure(settings.nus[0], settings.betas[0], dim)
    own = np.asarray(untied_optimum(task, list(settings.brute)).loss)
    found = {"by_force": ("brute", losses), "by_library": ("brute", own)}
    return xr.Dataset(found, coords={"brute": list(settings.brute)})


def _zeros(terms: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Zeros of 1 − Σ_j c_j z^j by Newton's rule, from the 16 digits of others."""
    found = []
    for z in (Decimal(x) for x in near.tolist()):
        for _ in range(6):
            value = slope = Decimal(0)
            for term in [*-terms[::-1], Decimal(1)]:
                value, slope = value * z + term, slope * z + value
            z -= value / slope
        found.append(z)
    return np.array(found)


def _cut(steps: np.ndarray, bits: int, unit: Decimal) -> np.ndarray:
    """Numbers that have been rounded to so many binary digits in another unit."""
    found = []
    for x in steps * unit:
        scale = Decimal(2) ** (bits - 1 - math.floor(math.log2(x)))
        found.append((x * scale).to_integral_value() / scale / unit)
    return np.array(found)


def rounding(settings: Any) -> xr.Dataset:
    """What γ lose when rounded, in several units of λ, in many digits; and what is told of it."""
    depths, bits, dim = list(settings.bits_depths), list(settings.bits), settings.bits_dim
    lost = np.empty((len(bits), len(depths), settings.units))
    told, exact = np.empty((len(bits), len(depths))), []
    best = untied_optimum(RotatedStructure(settings.nus[0], settings.betas[0], dim), depths)
    with localcontext() as context:
        context.prec = _digits(max(depths))
        lam, share = _spectrum(settings, dim)
        for n, depth in enumerate(depths):
            loss, terms = _least(lam, share, depth)
            zeros = _zeros(terms, depth / np.asarray(best.gamma)[n, :depth])
            steps = 1 / zeros
            exact.append(float(loss))
            # Half the second derivatives in log γ: p without a layer, times its part in that.
            parts = steps[:, None] * lam
            without = (1 - parts).prod(axis=0) / (1 - parts)
            bend = float(((without * parts) ** 2 @ share).sum() / loss)
            # Other units at every depth, as γ of the same top eigenvalues would be rounded alike.
            shift = Decimal(0.618 * depth % 1.0)
            units = [depth * 2 ** ((shift + m) / settings.units) for m in range(settings.units)]
            for k, digits in enumerate(bits):
                told[k, n] = bend * ROUNDED * 4.0**-digits
                for m, unit in enumerate(units):
                    left = (1 - _cut(steps, digits, unit)[:, None] * lam).prod(axis=0)
                    lost[k, n, m] = float(left**2 @ share / loss - 1)
            step(n + 1, len(depths))
    both = ("bits", "bits_depth")
    data = {"lost": ((*both, "unit"), lost), "lost_told": (both, told), "exact": (both[1], exact)}
    return xr.Dataset(data, coords={"bits": bits, "bits_depth": depths})
