"""Untied layers that start a little apart: the saddle that they leave, and where they go."""

from typing import Any

import jax
import numpy as np
import xarray as xr

from ...compiling import jit
from ...reproduce import step
from .. import (
    Init,
    RotatedStructure,
    loss_curve,
    optimum,
    untied_curve,
    untied_loss,
    untied_optimum,
)


def _large(settings: Any) -> RotatedStructure:
    return RotatedStructure(settings.nu, settings.source, settings.large)


def _start(settings: Any, depth: int, run: int) -> np.ndarray:
    """γ of layers a little apart, of mean 0."""
    apart = np.random.default_rng([settings.seed, run]).standard_normal(depth)
    return settings.apart * (apart - apart.mean())


def saddle(settings: Any) -> xr.Dataset:
    """Second derivatives of the untied loss at the tied optimum, and at the best layers."""
    task, depths = _large(settings), list(settings.leaving)
    bend = jit(jax.hessian(lambda gamma: untied_loss(task, gamma)))
    lam, share = np.asarray(task.lam), np.asarray(task.share)
    tied = [float(g) for g in np.asarray(optimum(task, depths).gamma)]
    values, told, softest = np.full((len(depths), max(depths)), np.nan), [], []
    for row, depth, gamma in zip(values, depths, tied, strict=True):
        row[:depth] = np.linalg.eigvalsh(np.asarray(bend(np.full(depth, gamma))))
        left = 1.0 - gamma * lam / depth
        told.append(-2.0 / depth**2 * np.sum(share * lam**2 * left ** (2 * depth - 2)))
        best = np.asarray(untied_optimum(task, depth).gamma)
        softest.append(float(np.linalg.eigvalsh(np.asarray(bend(best)))[0]))
    found = {
        "bend": (("leaving", "mode"), values),
        "bend_told": ("leaving", told),
        "softest": ("leaving", softest),
    }
    return xr.Dataset(found, coords={"leaving": depths, "mode": np.arange(max(depths))})


def leave(settings: Any) -> xr.Dataset:
    """The flow from layers a little apart, tied layers, and the best of both."""
    task, depths = _large(settings), list(settings.leaving)
    t = np.geomspace(1.0, settings.end, 241)
    shape = (settings.runs, len(depths), t.size)
    losses, apart = np.empty(shape), np.empty(shape)
    layers = np.full((len(depths), t.size, max(depths)), np.nan)  # of the first run
    best = [untied_optimum(task, depth) for depth in depths]
    goal = np.full((len(depths), max(depths)), np.nan)
    for k, depth in enumerate(depths):
        goal[k, :depth] = np.asarray(best[k].gamma)
        for run in range(settings.runs):
            found = untied_curve(task, t, start=Init(gamma=_start(settings, depth, run)))
            gamma = np.asarray(found.gamma)
            losses[run, k] = np.asarray(found.loss)
            apart[run, k] = np.ptp(gamma, axis=1) / gamma.mean(axis=1)
            step(k * settings.runs + run + 1, len(depths) * settings.runs)
            if run == 0:
                layers[k, :, :depth] = gamma
    many = ("run", "leaving", "leave_time")
    data = {
        "left": (many, losses),
        "apart": (many, apart),
        "still": (("leaving", "leave_time"), np.asarray(loss_curve(task, t, depths)).T),
        "endless": ("leave_time", np.asarray(loss_curve(task, t, None))),
        "tied_best": ("leaving", np.asarray(optimum(task, depths).loss)),
        "own_best": ("leaving", [float(each.loss) for each in best]),
        "layers": (("leaving", "leave_time", "layer"), layers),
        "goal": (("leaving", "layer"), goal),
    }
    return xr.Dataset(data, coords={"leaving": depths, "leave_time": t})


def twice(settings: Any) -> xr.Dataset:
    """The flow of two layers by Runge and Kutta's rule, of a gradient written out here."""
    k = np.arange(1.0, settings.large + 1.0)
    lam, share = k**-settings.nu, k ** -(settings.nu * settings.source + 1.0)
    share, pace = share / share.sum(), 0.1

    def slope(g: np.ndarray) -> np.ndarray:
        one, two = 1.0 - 0.5 * g[0] * lam, 1.0 - 0.5 * g[1] * lam
        pull = 2.0 * share * lam * one * two  # −2 ∂𝓛/∂γ is this times the other factor
        return np.array([pull @ two, pull @ one])

    g, times, seen = _start(settings, 2, 0), [], []
    for n in range(1, round(settings.early / pace) + 1):
        a = slope(g)
        b = slope(g + 0.5 * pace * a)
        c = slope(g + 0.5 * pace * b)
        g = g + pace / 6.0 * (a + 2.0 * b + 2.0 * c + slope(g + pace * c))
        if n % round(settings.early / pace / 50) == 0:
            times.append(n * pace)
            seen.append(g)
    flow = untied_curve(_large(settings), times, start=Init(gamma=_start(settings, 2, 0)))
    both = ("twice_time", "pair")
    found = {"by_rule": (both, np.asarray(seen)), "by_curve": (both, np.asarray(flow.gamma))}
    return xr.Dataset(found, coords={"twice_time": times})
