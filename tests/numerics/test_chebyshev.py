"""The stabilised explicit method: its order, how far it is stable, what it says of its error."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import eigh

from solvable.numerics.chebyshev import Chebyshev, _stages

METHOD: Any = Chebyshev  # scipy's annotations know their own only
HEAT = 400  # points of a rod: eigenvalues from −9.87 to −4·401²


def stepper(field, y0=(1.0,), end=1.0):
    return Chebyshev(field, 0.0, np.array(y0), end)


def rod():
    """A discrete heat equation: its matrix, its start, and where it is at t = 0.1."""
    inside = (HEAT + 1.0) ** 2
    matrix = inside * (np.eye(HEAT, k=1) + np.eye(HEAT, k=-1) - 2.0 * np.eye(HEAT))
    x = np.arange(1, HEAT + 1) / (HEAT + 1.0)
    start = x * (1.0 - x) + 0.1 * np.sign(x - 0.3)
    values, vectors = eigh(matrix)
    end = vectors @ (np.exp(0.1 * values) * (vectors.T @ start))
    return matrix, start, end


@pytest.mark.parametrize("stages", [2, 5, 30])
def test_order_is_two_whatever_the_number_of_stages(stages):
    """On y' = −y² cos t, which is neither linear nor autonomous: y = 1/(1 + sin t)."""
    solver = stepper(lambda t, y: -(y**2) * np.cos(t))
    errors = []
    for count in (20, 40, 80):
        y, h = np.array([1.0]), 1.0 / count
        for n in range(count):
            y = solver.advanced(n * h, y, solver.fun(n * h, y), h, stages)
        errors.append(abs(y[0] - 1.0 / (1.0 + math.sin(1.0))))
    ratios = np.divide(errors[:-1], errors[1:])
    np.testing.assert_allclose(ratios, 4.0, rtol=0.1)  # the next order at h = 1/20


@pytest.mark.parametrize("stages", [2, 3, 10, 100])
def test_a_step_is_stable_as_far_as_it_claims_and_little_farther(stages):
    """On y' = z y over h = 1: |R(z)| ≤ 1 from z = 0 down to where one stage more is asked for."""
    longest = (stages**2 - 1.0) / 1.54  # `_stages` of less is at most this many
    assert _stages(0.999 * longest) <= stages < _stages(1.001 * longest)

    def factor(z):
        solver = stepper(lambda t, y: z * y)
        return abs(solver.advanced(0.0, np.array([1.0]), z, 1.0, stages)[0])

    assert max(factor(z) for z in -np.linspace(1e-3, longest, 400)) < 1.0
    assert max(factor(z) for z in -np.linspace(longest, 1.2 * longest + 1.0, 50)) > 1.0


def test_a_stiff_symmetric_field_costs_the_root_of_its_stiffness():
    """Of 0.1 · 4 · 401² = 6.4e4 units of the stiffest rate an order-4 method takes 2.8 a step."""
    matrix, start, end = rod()
    found = solve_ivp(lambda t, y: matrix @ y, (0.0, 0.1), start, METHOD, rtol=1e-5, atol=1e-7)
    assert found.success
    assert np.abs(found.y[:, -1] - end).max() < 1e-4 * np.abs(end).max()
    assert found.nfev < 4000


def test_the_error_of_a_run_follows_the_tolerance():
    """Order 2 with the error of a step kept: the error goes like tolerance^⅔."""
    matrix, start, end = rod()
    errors = []
    for size in (1e-4, 1e-6, 1e-8):
        found = solve_ivp(
            lambda t, y: matrix @ y, (0.0, 0.1), start, METHOD, rtol=size, atol=1e-3 * size
        )
        errors.append(np.abs(found.y[:, -1] - end).max() / np.abs(end).max())
    assert errors[0] < 1e-2
    for ratio in np.divide(errors[:-1], errors[1:]):
        assert 7.0 < ratio < 70.0  # 100^⅔ = 21.5


def test_the_inside_of_a_step_is_as_good_as_its_end():
    matrix, start, _ = rod()
    values, vectors = eigh(matrix)
    times = np.linspace(1e-3, 0.1, 23)
    found = solve_ivp(
        lambda t, y: matrix @ y, (0.0, 0.1), start, METHOD, times, rtol=1e-6, atol=1e-9
    )
    told = vectors @ (np.exp(np.outer(values, times)) * (vectors.T @ start)[:, None])
    assert np.abs(found.y - told).max() < 1e-5 * np.abs(told).max()


def test_stiffness_that_sets_in_later_is_noticed():
    """Rates 1 at first, 1e5 in the end."""

    def field(t, y):
        rate = 1.0 + 1e5 / (1.0 + math.exp(-50.0 * (t - 1.0)))
        return -rate * (y - math.cos(t))

    found = solve_ivp(field, (0.0, 2.0), [1.0], METHOD, rtol=1e-5, atol=1e-7)
    assert found.success
    assert found.y[0, -1] == pytest.approx(math.cos(2.0), abs=1e-4)


def test_backwards_at_rest_and_nowhere_to_go():
    back = solve_ivp(lambda t, y: y, (0.0, -3.0), [1.0], METHOD, rtol=1e-8, atol=1e-12)
    assert back.y[0, -1] == pytest.approx(math.exp(-3.0), rel=1e-5)
    rest = solve_ivp(lambda t, y: 0.0 * y, (0.0, 1e9), [2.0, 0.0], METHOD)
    assert rest.y[:, -1].tolist() == [2.0, 0.0]
    assert rest.nfev < 1000


def test_a_blow_up_ends_the_run_instead_of_the_program():
    found = solve_ivp(lambda t, y: y**2, (0.0, 2.0), [1.0], METHOD, rtol=1e-6, atol=1e-9)
    assert not found.success
    assert found.t[-1] == pytest.approx(1.0, abs=1e-3)
