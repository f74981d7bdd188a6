"""The panels of Fig. 8."""

from typing import Any

import numpy as np
import xarray as xr

from ...reproduce import settings_of
from ...reproduce.numerals import number
from ...reproduce.panels import Mark, Panel, entry, law, level, line, theory, training
from ...reproduce.panels import tokens as measured
from ...style import LAW, THEORY
from ._softmax import few_ticks
from ._table import printed


def by_size(d: xr.Dataset) -> Panel:
    """(a): L against D at the end, and at t → ∞."""
    marks: list[Mark] = []
    size = d["size"]
    for k, alpha in enumerate(d.alpha.values):
        last = d.sel(alpha=alpha).isel(size_time=-1)
        power = 0.7 * last.by_size_limit[0] * (size / size[0]) ** -printed(float(alpha)).size
        marks += [
            training(size, last.by_size, rf"GD, $\alpha = {alpha}$", k),
            theory(size, last.by_size_predicted, k=k),
            line(size, last.by_size_limit, k=k, linewidth=0.8, alpha=0.6),
            law(size, power),
        ]
    marks += [
        entry("theory", color="0.3", **THEORY),
        entry(r"theory, $t \to \infty$", color="0.3", linewidth=0.8),
        entry(r"$\propto D^{-(\alpha-1)}$", **LAW),
    ]
    title = rf"$t = {number(float(d.size_time[-1]))}$"
    shape = {"log": "xy", "title": title, "where": "lower left", "legend": 7.0}
    return Panel("$D$", "$L$", marks, more=[few_ticks], **shape)


def by_time(d: xr.Dataset) -> Panel:
    """(b): L against t."""
    marks: list[Mark] = []
    late = d.isel(time=slice(1, None))
    for k, alpha in enumerate(d.alpha.values):
        here = late.sel(alpha=alpha)
        t = here.time.values[here.time.values >= 1.0]
        marks += [
            training(here.time, here.trained, rf"GD, $\alpha = {alpha}$", k),
            theory(here.time, here.predicted, k=k),
            law(t, 0.7 * float(here.predicted.interp(time=1.0)) * t ** -((alpha - 1) / alpha)),
        ]
    marks += [
        entry("theory", color="0.3", **THEORY),
        entry(r"$\propto t^{-(\alpha-1)/\alpha}$", **LAW),
    ]
    return Panel("$t$", "$L$", marks, log="xy", where="lower left", legend=7.0)


def by_data(d: xr.Dataset) -> Panel:
    """(c): L against N, every data set."""
    marks: list[Mark] = []
    amount = d.amount.values.astype(float)
    crosses: dict[str, Any] = {"linestyle": "none", "marker": "x", "markersize": 3.0}
    for k, alpha in enumerate(d.alpha.values):
        here = d.sel(alpha=alpha)
        power = 0.7 * float(here.by_data_expected[0]) * (amount / amount[0]) ** -(1 - 1 / alpha)
        place = np.repeat(amount, d.sizes["seed"])
        marks += [
            measured(place, here.by_data.values.ravel(), rf"GD, $\alpha = {alpha}$", k),
            line(place, here.by_data_realised.values.ravel(), k=k, **crosses),
            theory(amount, here.by_data_expected, k=k),
            law(amount, power),
        ]
    marks += [
        entry("theory, same counts", color="0.3", **crosses),
        entry("theory, all data sets", color="0.3", **THEORY),
        entry(r"$\propto N^{-(\alpha-1)/\alpha}$", **LAW),
    ]
    title = rf"$t = {number(float(d.size_time[-1]))}$"
    shape = {"log": "xy", "title": title, "where": "lower left", "legend": 7.0}
    return Panel("$N$", "$L$", marks, more=[few_ticks], **shape)


def by_compute(d: xr.Dataset) -> Panel:
    """(d): L against C, a curve for every D."""
    alpha = settings_of(d).compute_alpha
    shades = np.linspace(0.3, 0.9, d.sizes["size"])
    t = d.size_time.values[1:]
    curves = [
        line(size * t, d.by_size.sel(alpha=alpha, size=size)[1:], linewidth=1.0, alpha=shade)
        for size, shade in zip(d["size"].values, shades, strict=True)
    ]
    c = d["compute"].values
    power = 0.7 * float(d.frontier[0]) * (c / c[0]) ** -printed(alpha).compute
    return Panel(
        "$C = D t$",
        "$L$",
        [
            *curves,
            entry("GD, one line a $D$", linewidth=1.0),
            theory(c, d.frontier, "theory, best of all $D$", 1, linewidth=1.8),
            law(c, power, r"$\propto C^{-(\alpha-1)/(\alpha+1)}$"),
        ],
        log="xy",
        title=rf"$\alpha = {alpha}$, $D = {d['size'].values[0]}$ to ${d['size'].values[-1]}$",
        where="lower left",
        legend=7.0,
    )


def by_range(d: xr.Dataset) -> Panel:
    """(e): theory over training from several u on."""
    marks: list[Mark] = [level(1.0)]
    t = d.range_time
    for k, u in enumerate(d.agreeing.values):
        here = d.sel(agreeing=u)
        marks += [
            # The curves of large u lie on each other: the first is wider.
            line(
                t,
                here.range_predicted / here.range_trained,
                f"$u = {u:.1f}$",
                k,
                linewidth=1.6 if k else 3.2,
            ),
            line(t, here.range_saturated / here.range_trained, k=k, linestyle=":", linewidth=1.0),
        ]
    marks.append(entry("saturated", color="0.3", linestyle=":", linewidth=1.0))
    title = "theory over training"
    return Panel(
        "$t$", "ratio of $L$", marks, log="xy", title=title, where="upper left", legend=7.0
    )


def by_law(d: xr.Dataset) -> Panel:
    """(f): local exponents in t."""
    marks: list[Mark] = []
    t = d.law_time
    for k, alpha in enumerate(d.alpha.values):
        here = d.sel(alpha=alpha)
        marks += [
            line(t, here.local, rf"$S = 10^9$, $\alpha = {alpha}$", k),
            line(t, here.drifting, rf"$S = 500$, $\alpha = {alpha}$", k, linestyle="--"),
            level(1.0 - 1.0 / float(alpha), **LAW),
        ]
    title = r"theory; dotted: $(\alpha-1)/\alpha$"
    shape = {"log": "x", "title": title, "ylim": (0.3, 0.75), "legend": 7.0}
    return Panel("$t$", "local exponent", marks, where="upper right", **shape)
