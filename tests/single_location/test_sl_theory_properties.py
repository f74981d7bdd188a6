"""Random parameters over the whole legal range: no NaN, no infinity, no negative risk."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvable import single_location as sl
from solvable.single_location import theory
from solvable.single_location.state import scalars
from solvable.single_location.task import law_of

pytestmark = pytest.mark.slow

RUNS = 64
SIZES = [(4, 1), (10**9, 10**6)]  # (d, L)

RECIPES = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32 - 1),
        "gamma": st.floats(1e-6, 1e3),
        "lam": st.lists(st.floats(0.0, 1e3, exclude_min=True), min_size=1, max_size=4),
    }
)


def setting(recipe):
    """γ, states of unit vectors, some on axes, and λ, nasty or log-uniform."""
    rng = np.random.default_rng(recipe["seed"])
    size = 10.0 ** rng.uniform(-12, 0, (2, RUNS, 4)) * (rng.uniform(size=(2, RUNS, 4)) < 0.8)
    vectors = rng.normal(size=(2, RUNS, 4)) * size
    vectors[:, :, 3] += vectors.any(axis=2) == 0
    vectors[:, :4] = np.eye(4)[rng.integers(0, 3, (2, 4))]
    k, v = jnp.asarray(vectors / np.linalg.norm(vectors, axis=2, keepdims=True))
    plain = 10.0 ** rng.uniform(-8, 3, RUNS)
    lam = np.where(rng.uniform(size=RUNS) < 0.5, plain, rng.choice(recipe["lam"], RUNS))
    return jnp.asarray(recipe["gamma"]), scalars(k, v), jnp.asarray(lam)


def values(task, x, lam):
    return {
        "excess_risk": sl.excess_risk(task, x, lam),
        "oracle_excess": sl.oracle_excess(task, lam),
        "swapped": sl.swapped(task, lam).excess,
        "saddle": sl.saddle(task, lam).growth,
        "origin_growth": sl.origin_growth(task, lam),
        "oracle_rates": sl.oracle_rates(task, lam).kappa,
    }


def others(task, x, lam):
    return {
        "slopes": sl.slopes(task, x, lam),
        "flow_field": sl.flow_field(task, x, lam),
        "transversal": sl.transversal(task, x.kappa, x.nu, lam),
        "oracle_growth": sl.oracle_growth(task, lam),
        "swapped_gap": sl.swapped_gap(task, lam),
    }


@jax.jit
@partial(jax.grad, argnums=(0, 1, 2))
def gradients(law, x, lam):
    """Of the sum of all values, in the numbers of the law (d and L among them), state and λ."""
    found = (
        theory.excess_of(law, x, lam),
        theory._predictors._oracle_excess(law, lam),
        theory._swapped._minimum(law, lam).excess,
        theory._flow._saddle(law, lam).growth,
        theory._stability._at_origin(law, lam),
        theory._flow._oracle_rates(law, lam).kappa,
    )
    return jnp.sum(jnp.stack(found))


@pytest.mark.parametrize("size", SIZES)
@given(RECIPES)
def test_values_and_gradients_are_finite(size, recipe):
    gamma, x, lam = setting(recipe)
    task = sl.Task(*size, gamma)
    found, rest = values(task, x, lam), others(task, x, lam)
    slopes = gradients(law_of(task), x, lam)
    for path, leaf in jax.tree_util.tree_leaves_with_path((found, rest, slopes)):
        assert np.isfinite(np.asarray(leaf)).all(), (path, gamma, lam)
    # The risk is a sum of terms of this size, some of them negative; the rest has none such.
    scale = float(gamma) ** 2 + size[0] + 10.0 * size[1] ** 2
    assert np.all(np.asarray(found.pop("excess_risk")) >= -1e-13 * scale)
    for name, value in found.items():
        assert np.all(np.asarray(value) >= 0.0), (name, gamma, lam)


@settings(max_examples=15)
@given(st.integers(4, 10**9), st.integers(1, 10**6), RECIPES)
def test_best_lam_is_found_everywhere(dim, length, recipe):
    gamma, _, lam = setting(recipe)
    task = sl.Task(dim, length, gamma)
    best = sl.best_lam(task)
    assert 0.0 < best.lam <= 1000.0
    excess = np.asarray(sl.oracle_excess(task, lam))
    assert np.all(excess >= best.excess * (1.0 - 1e-9)), (task, best, lam)


slopes_of_zeta = jax.jit(jax.grad(lambda a, b: jnp.sum(sl.zeta(a, b)), argnums=(0, 1)))


@given(st.lists(st.floats(-1e8, 1e8), min_size=4, max_size=4), st.floats(0.0, 1e4))
def test_zeta_is_a_mean_square_of_numbers_below_one(t, s):
    t, s = np.repeat(t, RUNS // 4), np.full(RUNS, s)
    value = np.asarray(sl.zeta(t, s))
    assert np.all((value >= 0.0) & (value <= 1.0 + 1e-15))
    slopes = slopes_of_zeta(t, s)
    assert all(np.isfinite(np.asarray(slope)).all() for slope in slopes)
