"""ζ, its derivatives and E erfc² against a 50-digit table."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.special import erf

from solvable import single_location as sl
from solvable.single_location.theory._miss import miss_of
from solvable.single_location.theory._zeta import zeta_of, zeta_t, zeta_tt, zeta_ttt

POINTS = json.loads((Path(__file__).parents[1] / "oracles" / "single_location.json").read_text())[
    "points"
]
T, S = (np.asarray([point[name] for point in POINTS]) for name in ("t", "s"))


@jax.jit
def table(t, s):
    """All that is looked up, compiled as one."""

    def both(function):
        return jax.vmap(jax.grad(function, argnums=(0, 1)))(t, s)

    return {
        "zeta_t": zeta_t(t, s),
        "zeta_tt": zeta_tt(t, s),
        "zeta_ttt": zeta_ttt(t, s),
        "grad zeta": both(lambda t, s: zeta_of(t, s)),
        "second": jax.vmap(jax.grad(jax.grad(zeta_of)))(t, s),
        "miss": miss_of(t, s),
        "grad miss": both(lambda t, s: miss_of(t, s)),
    }


@pytest.fixture(scope="module")
def found():
    return jax.tree.map(np.asarray, table(jnp.asarray(T), jnp.asarray(S)))


def errors(found, name, factors=None):
    """|found − true| over max(|true|, erf'(τ) factor), or over |true| where no factor is given."""
    with mp.workdps(50):
        out = []
        for i, (value, point) in enumerate(zip(np.asarray(found).tolist(), POINTS, strict=True)):
            true = mpf(point[name])
            scale = abs(true)
            if factors is not None:
                scale = max(scale, mpf(point["slope"]) * mpf(float(factors[i])))
            gap = abs(mpf(value) - true)
            out.append(float(gap / scale) if scale else float(gap))
    return np.array(out)


def test_table_covers_the_range_and_its_edges():
    assert len(POINTS) >= 200
    assert {min(T.tolist()), max(S.tolist())} == {-7000.0, 1e4}
    inner = [(p["t"], p["s"]) for p in POINTS if p["s"] <= 3.0]
    assert len(inner) == 220
    assert {(-13.0, 1e-5), (20.0, 1e-5), (-13.0, 3.0), (20.0, 3.0)} <= set(inner)


def test_zeta_is_exact_to_round_off():
    assert errors(sl.zeta(T, S), "zeta").max() <= 1e-14


@pytest.mark.parametrize("name", ["zeta_t", "zeta_tt", "zeta_ttt"])
def test_derivatives_keep_their_digits(name, found):
    """Beyond |t| = 13 the rounding of τ² ≤ 400 alone is 4e-14 of them."""
    ratio = np.abs(T)
    wrong = errors(found[name], name, np.ones(len(POINTS)))
    assert wrong[ratio <= 13.0].max() <= 1e-13
    assert wrong.max() <= 1e-12


def test_gradients_of_zeta_in_both_arguments_match_the_table(found):
    along_t, along_s = found["grad zeta"]
    near = np.abs(T) <= 13.0
    for slope, name, factor in ((along_t, "zeta_t", np.ones(len(POINTS))), (along_s, "zeta_s", S)):
        wrong = errors(slope, name, factor)
        assert wrong[near].max() <= 1e-13, name
        assert wrong.max() <= 1e-12, name


def test_second_derivative_of_zeta_is_its_own(found):
    assert errors(found["second"], "zeta_tt", np.ones(len(POINTS))).max() <= 1e-12


def test_what_the_erf_misses_keeps_its_digits_down_to_1e_300(found):
    with mp.workdps(50):
        normal = np.array([mpf(point["miss"]) > mpf(10) ** -300 for point in POINTS])
    wrong = errors(found["miss"], "miss")
    # 2τ² up to 690 rounds to 1e-13.
    assert wrong[normal].max() <= 1e-12
    assert normal.sum() > 200
    assert np.all(found["miss"][~normal] < 1e-290)


def test_slopes_of_what_the_erf_misses(found):
    along_t, along_s = found["grad miss"]
    # Where t < 0 the slope in s changes sign: then of erf'(τ).
    for slope, name, factor in (
        (along_t, "miss_t", None),
        (along_s, "miss_s", np.where(T < 0.0, S, 0.0)),
    ):
        normal = np.array([abs(float(point[name])) > 1e-290 for point in POINTS])
        assert errors(slope, name, factor)[normal].max() <= 1e-12, name


def test_complement_is_one_minus_twice_erf_plus_zeta(found):
    plain = 1.0 - 2.0 * erf(T / np.sqrt(1.0 + 2.0 * S**2)) + np.asarray(sl.zeta(T, S))
    np.testing.assert_allclose(found["miss"], plain, rtol=0.0, atol=1e-14)
