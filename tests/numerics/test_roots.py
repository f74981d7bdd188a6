"""Roots of functions of one number: to round-off, entry by entry, with their slopes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solvable.numerics.roots import inverse_between, root_between


def test_a_root_to_round_off():
    assert root_between(lambda x: x**3 - 2.0, 0.0, 2.0) == pytest.approx(2 ** (1 / 3), rel=4e-16)
    assert root_between(lambda x: 1e-200 - x, 0.0, 1.0) == pytest.approx(1e-200, rel=1e-14)


def cubed(x, scale):
    return scale * x**3


def test_known_and_traced_numbers_have_the_same_inverse():
    target = np.array([[1.0, 8.0], [27.0, 1e-9]])
    known = inverse_between(cubed, target, 1e-9, 10.0, np.asarray(1.0))
    traced = jax.jit(lambda y: inverse_between(cubed, y, 1e-9, 10.0, jnp.asarray(1.0)))(target)
    np.testing.assert_allclose(known, np.cbrt(target), rtol=4e-16)
    np.testing.assert_allclose(traced, np.cbrt(target), rtol=1e-14)


def test_falling_functions_have_inverses_too():
    known = inverse_between(lambda x: 1.0 / x, np.asarray([0.5, 4.0]), 0.1, 10.0)
    traced = jax.jit(lambda y: inverse_between(lambda x: 1.0 / x, y, 0.1, 10.0))(
        jnp.asarray([0.5, 4.0])
    )
    np.testing.assert_allclose(known, [2.0, 0.25], rtol=4e-16)
    np.testing.assert_allclose(traced, [2.0, 0.25], rtol=1e-15)


def test_slopes_in_the_target_and_in_what_is_given():
    def inverse(y, scale):
        return inverse_between(cubed, y, 1e-9, 10.0, scale)

    y, scale = jnp.asarray(5.0), jnp.asarray(0.3)
    root = np.cbrt(5.0 / 0.3)
    for derivative in (jax.jacfwd, jax.grad):
        by_y, by_scale = derivative(inverse, argnums=(0, 1))(y, scale)
        assert float(by_y) == pytest.approx(root / (3 * 5.0), rel=1e-13)
        assert float(by_scale) == pytest.approx(-root / (3 * 0.3), rel=1e-13)


def test_no_entry_is_none():
    assert inverse_between(np.log, np.zeros((0, 3)), 0.1, 9.0).shape == (0, 3)
