"""Closed forms against a 50-digit table."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from mpmath import mp, mpf

from solvable import deep_icl as deep
from solvable.deep_icl.theory import spectral, spectral_loss
from solvable.deep_icl.theory._isotropic import noiseless_optimum

TABLE = json.loads((Path(__file__).parents[1] / "oracles" / "deep_icl.json").read_text())


def errors(found, points, name="loss"):
    """|found/true − 1| of every point."""
    with mp.workdps(50):
        true = [mpf(point[name]) for point in points]
        pairs = zip(np.asarray(found).tolist(), true, strict=True)
        return np.array([float(abs(mpf(value) - x) / x) for value, x in pairs])


def column(points, name):
    return jnp.asarray([float(point[name]) for point in points])


def test_table_covers_the_range_and_its_edges():
    points = TABLE["optimum"]
    losses = [mpf(point["loss"]) for point in points]
    assert sum(len(TABLE[name]) for name in TABLE if name != "digits") >= 500
    assert min(losses) < mpf(10) ** -190
    assert {(1.0, 1000), (1e-6, 1), (1.000001, 1000)} <= {(p["alpha"], p["depth"]) for p in points}


def test_isotropic_optimum_keeps_its_digits_down_to_1e_200():
    points = TABLE["optimum"]
    gamma, loss = jax.jit(jax.vmap(noiseless_optimum))(
        column(points, "alpha"), column(points, "depth")
    )
    assert errors(loss, points).max() <= 1e-12
    alpha = np.asarray(column(points, "alpha"))
    expected = np.asarray(column(points, "depth")) * alpha / (1.0 + alpha)
    np.testing.assert_allclose(gamma, expected, rtol=1e-15)


def test_isotropic_loss_at_any_gamma_and_noise():
    points = TABLE["loss"]

    @jax.jit
    @jax.vmap
    def loss(alpha, noise, gamma, depth):
        return spectral_loss(spectral(deep.Isotropic(alpha, noise)), gamma, depth)

    found = loss(*(column(points, name) for name in ("alpha", "noise", "gamma", "depth")))
    assert errors(found, points).max() <= 1e-12


def test_fixed_structure_in_time():
    for nu, beta in sorted({(p["nu"], p["beta"]) for p in TABLE["curve"]}):
        points = [p for p in TABLE["curve"] if (p["nu"], p["beta"]) == (nu, beta)]
        task = deep.FixedStructure(nu=nu, beta=beta, dim=32)
        times = sorted({p["t"] for p in points})
        depths = [1, 2, 8, None]
        found = np.asarray(deep.loss_curve(task, t=times, depth=depths))
        where = {1: 0, 2: 1, 8: 2, "inf": 3}
        each = [found[times.index(p["t"]), where[p["depth"]]] for p in points]
        assert errors(each, points).max() <= 1e-12


def test_rotated_structure_at_its_optimum():
    for nu, beta in sorted({(p["nu"], p["beta"]) for p in TABLE["rotated"]}):
        points = [p for p in TABLE["rotated"] if (p["nu"], p["beta"]) == (nu, beta)]
        task = deep.RotatedStructure(nu=nu, beta=beta, dim=32)
        found = deep.optimum(task, depth=[p["depth"] for p in points])
        assert errors(found.loss, points).max() <= 1e-12
        # The minimum is flat: of its place, the slope's rounding leaves fewer digits.
        assert errors(found.gamma, points, "gamma").max() <= 1e-11


def test_floors():
    for point in TABLE["floor"]:
        law = {name: point[name] for name in ("nu", "beta", "dim")}
        task = deep.RotatedStructure(**law, width=point["count"], context=point["count"])
        for name in ("width", "context"):
            assert errors([deep.floor(task, name).item()], [point], name).max() <= 1e-12
