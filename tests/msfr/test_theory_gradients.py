"""Derivatives of the loss in every parameter of the task and of the init."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests import haste

from solvable import msfr

pytestmark = pytest.mark.slow

TIMES = np.array([0.01, 0.2, 2.0])

POWER_LAWS = {"alpha": 1.8, "context": 20.0, "strength": 0.9, "beta": 0.4, "gamma": 0.3}
SHARED = {"alpha": 1.8, "context": 60.0, "strength": 0.5}
ARRAYS = {
    "alpha": 1.8,
    "context": np.array([3.0, 12.0, 40.0]),
    "strength": np.array([0.5, -0.8, 1.3]),
}
UNBALANCED = {
    "v": np.array([[0.10, 0.07], [0.31, -0.22], [-0.05, 0.12]]),
    "w": np.array([[0.11, -0.03], [0.18, 0.09], [0.21, 0.06]]),
}
BALANCED = {"v": UNBALANCED["v"], "w": UNBALANCED["v"], "strength": np.array([0.5, 0.8, 1.3])}
# Slow tasks: the way out of a saddle grows like e^{2aσt}, which differences could not follow.
SADDLE = {
    "v": UNBALANCED["v"],
    "w": UNBALANCED["v"] * np.array([[1.0], [1.0], [-1.0]]),
    "context": np.array([0.3, 1.2, 2.0]),
    "strength": np.array([-0.5, -0.8, 1.3]),
}


def rows_of(laws, v, w):
    """The tasks of power laws, one by one."""
    s = np.arange(1, 4.0)
    return {
        "context": laws["context"] * s ** -laws["beta"],
        "strength": laws["strength"] * s ** -laws["gamma"],
        "v": np.full((3, 2), v),
        "w": np.full((3, 2), w),
    }


POINTS = {
    "power laws": POWER_LAWS | {"v": 0.1, "w": 0.11},
    "power laws, balanced": POWER_LAWS | {"v": 0.1, "w": 0.1},
    "shared": SHARED | {"v": 0.1, "w": 0.11},
    "shared, balanced": SHARED | {"v": 0.1, "w": 0.1},
    "arrays": ARRAYS | UNBALANCED,
    "arrays, balanced": ARRAYS | BALANCED,
    "arrays, saddle": ARRAYS | SADDLE,
    "arrays, of power laws": ARRAYS | rows_of(POWER_LAWS, 0.1, 0.11),
    "arrays, of balanced power laws": ARRAYS | rows_of(POWER_LAWS, 0.1, 0.1),
}


def point_of(name):
    return jax.tree.map(lambda x: np.asarray(x, float), POINTS[name])


def score(point, order):
    """Σ_i log L(t_i) as a function of all parameters: every time counts, however small its loss."""
    law = {name: point[name] for name in point if name not in ("v", "w")}
    init = msfr.Init(point["v"], point["w"])
    return jnp.sum(jnp.log(msfr.loss(msfr.Task(3, **law), init, TIMES, order)))


score_and_gradient = haste.jit(jax.value_and_grad(score), static_argnames="order")


def differences(point, name, order):
    """Fourth-order central differences in every entry of one parameter."""
    entries = np.asarray(point[name])
    slopes = np.zeros(entries.size)
    for i in range(entries.size):
        step = 1e-3 * max(abs(entries.flat[i]), 0.01)

        def shifted(k, i=i, step=step):
            moved = entries.copy()
            moved.flat[i] += k * step
            return float(score_and_gradient(point | {name: moved}, order)[0])

        slopes[i] = (8 * (shifted(1) - shifted(-1)) - (shifted(2) - shifted(-2))) / (12 * step)
    return slopes.reshape(entries.shape)


# Laws become rows before any order sees them; shared tasks have a path of their own at the exact
# order only.
PAIRS = [("arrays", order) for order in ("zeroth", "first", "exact")]
PAIRS += [("power laws", "zeroth"), ("shared", "exact")]


@pytest.mark.parametrize(("kind", "order"), PAIRS)
def test_gradient_matches_finite_differences(kind, order):
    """All points of a kind in one test: on two workers each would compile the gradient again."""
    for name in (name for name in POINTS if name.split(",")[0] == kind):
        point = point_of(name)
        _, found = score_and_gradient(point, order)
        for parameter, slope in found.items():
            slope = np.asarray(slope)
            assert np.isfinite(slope).all(), (name, parameter)
            true = differences(point, parameter, order)
            # 1e-8: rounding of the loss (1e-13) over the step (1e-3 x), and the step's 4th power.
            scale = max(np.max(np.abs(true)), 1e-3)
            np.testing.assert_allclose(
                slope / scale, true / scale, rtol=0.0, atol=1e-8, err_msg=f"{name}: {parameter}"
            )


@pytest.mark.parametrize("order", ["first", "exact"])
def test_reverse_mode_equals_forward_mode(order):
    """The first order is a derivative of the zeroth, which is so differentiated twice."""
    point = point_of("arrays, balanced")
    rng = np.random.default_rng(0)
    tangent = jax.tree.map(lambda x: rng.normal(size=x.shape), point)

    @haste.jit
    def along(point, tangent):
        return jax.jvp(lambda point: score(point, order), (point,), (tangent,))[1]

    forward = along(point, tangent)
    _, gradient = score_and_gradient(point, order)
    terms = jax.tree.map(lambda g, t: np.sum(np.asarray(g) * t), gradient, tangent)
    terms = np.array(jax.tree.leaves(terms))
    # 1e-11: rounding of the sums, in units of their terms.
    assert abs(terms.sum() - float(forward)) <= 1e-11 * np.abs(terms).max()


@pytest.mark.parametrize("order", ["zeroth", "first", "exact"])
def test_gradient_at_the_zero_start_vanishes(order):
    """As f is bilinear in (v, w), so v = w = 0 is a stationary point of the loss."""
    zero = {"v": np.zeros((3, 2)), "w": np.zeros((3, 2))}
    point = point_of("arrays") | zero
    _, found = score_and_gradient(point, order)
    for name in ("v", "w", "context"):
        np.testing.assert_allclose(np.asarray(found[name]), 0.0, atol=1e-15)
    np.testing.assert_allclose(found["strength"], differences(point, "strength", order), rtol=1e-8)
