"""Work in pieces equals work in one go, values and gradients, on either side of a boundary."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solvable.numerics.streaming import map_rows, sum_rows

PIECE = 4
COUNTS = [1, 3, 4, 5, 8, 9]


def rows_of(count):
    rng = np.random.default_rng(count)
    return {"x": jnp.asarray(rng.normal(size=(count, 3))), "y": jnp.asarray(rng.normal(size=count))}


def function(rows):
    return jnp.sin(rows["x"]) * rows["y"][:, None]


@pytest.mark.parametrize("count", COUNTS)
def test_rows_are_mapped_as_in_one_go(count):
    rows = rows_of(count)
    found = map_rows(function, rows, piece=PIECE)
    np.testing.assert_allclose(found, function(rows), rtol=1e-15)


@pytest.mark.parametrize("count", COUNTS)
def test_rows_are_summed_as_in_one_go(count):
    rows = rows_of(count)
    found = sum_rows(function, rows, piece=PIECE)
    np.testing.assert_allclose(found, function(rows).sum(axis=0), rtol=0.0, atol=1e-14)


@pytest.mark.parametrize("count", [4, 9])
def test_gradients_are_those_of_one_go(count):
    rows = rows_of(count)

    def weighted(work):
        return lambda rows: jnp.sum(jnp.asarray([1.0, -2.0, 3.0]) * work(rows))

    true = jax.grad(weighted(lambda r: function(r).sum(axis=0)))(rows)
    for work in (
        lambda r: sum_rows(function, r, piece=PIECE),
        lambda r: map_rows(function, r, piece=PIECE).sum(axis=0),
    ):
        found = jax.grad(weighted(work))(rows)
        for name in ("x", "y"):
            np.testing.assert_allclose(found[name], true[name], rtol=1e-13, atol=1e-15)


def test_padding_leaves_neither_value_nor_gradient():
    """The last piece is filled with copies of the last row, which must not count twice."""
    rows = jnp.asarray([1.0, 2.0, 3.0, 4.0, np.pi])
    assert float(sum_rows(lambda x: x, rows, piece=PIECE)) == pytest.approx(10.0 + np.pi, rel=1e-15)
    slopes = jax.grad(lambda x: sum_rows(lambda y: y**2, x, piece=PIECE))(rows)
    np.testing.assert_allclose(slopes, 2.0 * rows, rtol=1e-15)


def test_no_piece_holds_more_rows_than_asked():
    seen = []

    def watch(rows):
        seen.append(rows.shape[0])
        return rows

    map_rows(watch, jnp.arange(103.0), piece=10)
    sum_rows(watch, jnp.arange(103.0), piece=10)
    assert set(seen) == {10}


def test_results_may_be_trees_and_rows_may_hold_nothing():
    rows = (jnp.arange(9.0), None)
    double, square = map_rows(lambda r: (2.0 * r[0], r[0] ** 2), rows, piece=PIECE)
    np.testing.assert_array_equal(double, 2.0 * np.arange(9.0))
    np.testing.assert_array_equal(square, np.arange(9.0) ** 2)
