"""Elementary functions at their edges."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mpmath import mp

from solvable.numerics.special import log_add, log_square

INF = math.inf


def test_log_add_agrees_with_mpmath():
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-700.0, 700.0, (2, 300))
    b[:100] = a[:100] + rng.normal(0.0, 1.0, 100)
    found = jax.jit(log_add)(a, b)
    with mp.workdps(40):
        true = [float(mp.log(mp.exp(x) + mp.exp(y))) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(found, true, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize(
    ("a", "b", "value", "slopes"),
    [
        (-INF, -INF, -INF, (0.0, 0.0)),
        (-INF, 3.0, 3.0, (0.0, 1.0)),
        (3.0, -INF, 3.0, (1.0, 0.0)),
        (2.0, 2.0, 2.0 + math.log(2.0), (0.5, 0.5)),
        (-1e5, -1e5, -1e5 + math.log(2.0), (0.5, 0.5)),
        (1e5, 0.0, 1e5, (1.0, 0.0)),
        (0.0, math.log(3.0), math.log(4.0), (0.25, 0.75)),
    ],
)
def test_log_add_has_finite_slopes_also_of_vanished_terms(a, b, value, slopes):
    a, b = jnp.asarray(a), jnp.asarray(b)
    assert float(log_add(a, b)) == pytest.approx(value, rel=1e-15)
    assert jax.grad(log_add, argnums=(0, 1))(a, b) == pytest.approx(slopes, rel=1e-12)
    _, forward = jax.jvp(log_add, (a, b), (jnp.asarray(1.0), jnp.asarray(0.0)))
    assert float(forward) == pytest.approx(slopes[0], rel=1e-12)


def test_log_add_has_the_right_second_derivative():
    """∂²/∂a² log(e^a + e^b) = σ(a − b) (1 − σ(a − b))."""
    curve = jax.grad(jax.grad(log_add))(jnp.asarray(0.4), jnp.asarray(-0.3))
    share = 1.0 / (1.0 + math.exp(-0.7))
    assert float(curve) == pytest.approx(share * (1.0 - share), rel=1e-13)


@pytest.mark.parametrize("x", [1e-160, -1e-160, 0.3, -2.0, 1e160, 1e-300])
def test_log_square_is_twice_the_log(x):
    """x² itself would underflow or overflow."""
    x = jnp.asarray(x)
    assert float(log_square(x)) == pytest.approx(2.0 * math.log(abs(float(x))), rel=1e-15)


@pytest.mark.parametrize("x", [0.3, -2.0, 1e-100])
def test_log_square_has_slope_two_over_x(x):
    assert float(jax.grad(log_square)(jnp.asarray(x))) == pytest.approx(2.0 / x, rel=1e-15)


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_log_square_of_zero_has_no_slope(zero):
    assert float(log_square(jnp.asarray(zero))) == -INF
    assert float(jax.grad(log_square)(jnp.asarray(zero))) == 0.0


def test_square_through_its_log_is_flat_at_zero():
    """e^{log x²} has value and slope 0 at x = 0, with no NaN on the way."""
    value, slope = jax.value_and_grad(lambda x: jnp.exp(log_square(x)))(jnp.asarray(0.0))
    assert float(value) == float(slope) == 0.0
