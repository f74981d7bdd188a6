"""Integrals that are tabulated and inverted: the time that a flow takes, and where it is."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .host import hold, module_of, repeat
from .quadrature import average_matrix, chebyshev_pair, gauss_legendre

_NEWTON = 10  # steps inside a cell, where the integral is a polynomial
_MOST = 1e280  # beyond it a time is none


class Inverse:
    """``t(x) = ∫ pace dx`` from the first edge on, and its inverse x(t), both at any shape.

    A Gauss rule in every cell, whose nodes also give the polynomial that is inverted there by
    Newton's method: the pace is asked for once, at cells × order places. In numpy or in JAX, as the
    edges and the pace are; under JAX x(t) has slopes in t and in what the pace depends on.

    Args:
        pace: dt/dx > 0 of a row of places, entry by entry, analytic inside the cells.
        edges: of the cells, rising. Known numbers end before the first cell whose time is none; if
            that is the first of all, nothing moves.
        order: nodes a cell.

    Attributes:
        edges: those that are left.
        times: t there.

    >>> squares = Inverse(lambda x: 2.0 * x, np.linspace(0.0, 3.0, 4))
    >>> squares.at(np.asarray(1.5)).round(12).item()
    2.25
    >>> squares(np.asarray([1.0, 4.0, 9.0, 10.0])).round(12)
    array([1., 2., 3., 3.])
    """

    def __init__(self, pace: Callable[[Any], Any], edges: Any, order: int = 16):
        edges = hold(edges)
        nodes, weights = gauss_legendre(order)
        width = edges[1:] - edges[:-1]
        places = edges[:-1, None] + width[:, None] * nodes[None, :]
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            values = width[:, None] * pace(places.ravel()).reshape(places.shape)
            spent = values @ weights
        self._xp = xp = module_of(values)
        if xp is np:
            total = np.cumsum(np.where(spent > 0.0, spent, np.nan))
            last = int(np.argmin(np.append(total < _MOST, False)))
            edges, values, spent = edges[: last + 1], values[:last], spent[:last]
        self.edges, self._series = edges, average_matrix(order) @ values.T
        self._spent = hold(spent)
        self.times = xp.concatenate([xp.zeros(1, spent.dtype), xp.cumsum(spent)])

    def _cell(self, table: Any, x: Any) -> tuple[Any, Any, Any]:
        """The cell that each number of a row is in, where that begins, and its length."""
        table, x = hold((table, x))
        cell = self._xp.clip(self._xp.searchsorted(table, x, side="right") - 1, 0, len(table) - 2)
        return cell, self.edges[cell], (self.edges[1:] - self.edges[:-1])[cell]

    def at(self, x: Any) -> Any:
        """t(x); beyond the edges, that of the nearest."""
        if len(self.times) == 1:
            return self._xp.zeros(x.shape)
        row = self._xp.clip(x.ravel(), self.edges[0], self.edges[-1])
        cell, low, width = self._cell(self.edges, row)
        part = (row - low) / width
        spent = part * chebyshev_pair(self._series[:, cell], part)[0]
        return (self.times[cell] + spent).reshape(x.shape)

    def __call__(self, t: Any) -> Any:
        """x(t); from the last time on, the last edge."""
        if len(self.times) == 1:
            return self._xp.full(t.shape, self.edges[0])
        xp, row = self._xp, t.ravel()
        row = xp.minimum(row, self.times[-1])
        cell, low, width = self._cell(self.times, row)
        series, rest = self._series[:, cell], row - self.times[cell]
        still, aim = hold((series, rest))

        def missed(part: Any, series: Any, rest: Any) -> tuple[Any, Any]:
            mean, slope = chebyshev_pair(series, part, rolled=True)
            return part * mean - rest, mean + part * slope

        def closer(part: Any) -> Any:
            miss, slope = missed(part, still, aim)
            return xp.clip(part - miss / slope, 0.0, 1.0)

        part = repeat(_NEWTON, closer, xp.clip(aim / self._spent[cell], 0.0, 1.0))
        if isinstance(part, jax.Array):
            miss, slope = missed(part, series, rest)
            part = part - (miss - hold(miss)) / hold(slope)  # for its slopes alone
        return (low + width * part).reshape(t.shape)
