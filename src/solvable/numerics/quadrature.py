"""Quadrature: Gauss rules, Chebyshev series and antiderivatives."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from numpy.polynomial import chebyshev, legendre

from .host import module_of


@cache
def gauss_legendre(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the Gauss–Legendre rule on [0, 1]."""
    x, w = legendre.leggauss(count)
    return 0.5 * (x + 1.0), 0.5 * w


@cache
def antiderivative_matrix(count: int) -> np.ndarray:
    """From values at the Gauss nodes to the Chebyshev series of ``∫_0^x`` of their interpolant.

    Returns:
        Matrix (count + 1, count); the series is in T_n(2x − 1).
    """
    x, w = legendre.leggauss(count)
    degree = np.arange(count)
    # Legendre series of the interpolant: c_k = (2k + 1)/2 Σ_j w_j P_k(x_j) y_j, exact to degree n.
    to_legendre = (degree + 0.5)[:, None] * legendre.legvander(x, count - 1).T * w[None, :]
    nodes = np.cos(np.pi * (np.arange(count + 1) + 0.5) / (count + 1))
    columns = []
    for j in range(count):
        integral = legendre.legint(to_legendre[:, j], lbnd=-1.0) * 0.5
        columns.append(chebyshev.chebfit(nodes, legendre.legval(nodes, integral), count))
    return np.stack(columns, axis=1)


@cache
def average_matrix(count: int) -> np.ndarray:
    """From values at the Gauss nodes to the Chebyshev series of the mean over [0, x].

    ``(1/x) ∫_0^x`` of their interpolant, without the difference of two ends: it keeps its digits as
    x goes to 0.

    Returns:
        Matrix (count, count); the series is in T_n(2x − 1).
    """
    x, w = gauss_legendre(count)
    degree = np.arange(count)
    to_legendre = (2.0 * degree + 1.0)[:, None] * legendre.legvander(2.0 * x - 1.0, count - 1).T * w
    places, to_series = chebyshev_fit(count)
    # ∫_0^1 f(xu) du by the rule itself, exact for polynomials of this degree
    inside = legendre.legvander(2.0 * places[:, None] * x - 1.0, count - 1)
    return to_series @ np.einsum("pud,u->pd", inside, w) @ to_legendre


@cache
def chebyshev_fit(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Chebyshev points on (0, 1), and the matrix from values there to a series in T_n(2x − 1)."""
    angle = np.pi * (np.arange(count) + 0.5) / count
    matrix = 2.0 / count * np.cos(np.arange(count)[:, None] * angle[None, :])
    matrix[0] *= 0.5
    return 0.5 * (np.cos(angle) + 1.0), matrix


def chebyshev_value(
    series: Float[Any, "terms rows"], row: Int[Any, " points"], x: Float[Any, " points"]
) -> Float[Any, " points"]:
    """Chebyshev series in T_n(2x − 1), each point with its own row, by Clenshaw's recurrence.

    In numpy or in JAX, as its arguments are.
    """
    u = 2.0 * x - 1.0
    twice = 2.0 * u
    after = now = 0.0 * u
    for n in range(series.shape[0] - 1, 0, -1):
        after, now = now, series[n][row] + twice * now - after
    return series[0][row] + u * now - after


def chebyshev_pair(
    series: Float[Any, "terms *points"], x: Float[Any, "*points"], *, rolled: bool = False
) -> tuple[Float[Any, "*points"], Float[Any, "*points"]]:
    """A Chebyshev series in T_n(2x − 1) and its derivative in x, each point with its own series.

    In numpy or in JAX, as its arguments are. Rolled into a loop it compiles in a third of the time,
    and is slower at many points.
    """
    u = 2.0 * x - 1.0
    one = 1.0 + 0.0 * u

    def add(state: Any, term: tuple[Any, Any]) -> tuple[Any, None]:
        (t_old, t_new), (u_old, u_new), value, slope = state  # second kind: T_n' = n U_{n-1}
        n, part = term
        t_old, t_new = t_new, 2.0 * u * t_new - t_old
        value = value + part * t_new
        slope = slope + n * part * u_new
        return ((t_old, t_new), (u_new, 2.0 * u * u_new - u_old), value, slope), None

    state: Any = ((one, u), (one, 2.0 * u), series[0] + series[1] * u, series[1] * one)
    if rolled and module_of(series, x) is jnp:
        number = jnp.arange(2, series.shape[0], dtype=series.dtype)
        state, _ = jax.lax.scan(add, state, (number, series[2:]))
    else:
        for n in range(2, series.shape[0]):
            state, _ = add(state, (n, series[n]))
    return state[2], 2.0 * state[3]


class Antiderivative:
    """``∫_low^x function`` for x in [low, high], ready to be read at any number of x.

    A Gauss rule on equal cells, each with the Chebyshev series of its antiderivative; definite
    integrals between many limits then cost one pass over the function.

    Args:
        function: takes and returns an array of numpy, entry by entry.
        low, high: the interval.
        cells: into how many equal parts it is cut.
    """

    def __init__(
        self,
        function: Callable[[Float[np.ndarray, " n"]], Float[np.ndarray, " n"]],
        low: float,
        high: float,
        cells: int = 4000,
    ):
        nodes, weights = gauss_legendre(16)
        self.low, self.width, self.cells = low, (high - low) / cells, cells
        places = low + self.width * (np.arange(cells)[:, None] + nodes[None, :])
        values = self.width * np.asarray(function(places.ravel())).reshape(cells, -1)
        self.passed = np.concatenate([[0.0], np.cumsum(values @ weights)])
        self.series = antiderivative_matrix(16) @ values.T

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The integral from `low` to each x; x outside the interval is taken at its end."""
        place = np.clip((np.asarray(x, float) - self.low) / self.width, 0.0, self.cells)
        cell = np.minimum(place.astype(int), self.cells - 1)
        inside = chebyshev_value(self.series, cell.ravel(), (place - cell).ravel())
        return self.passed[cell] + inside.reshape(cell.shape)
