"""The flow on the manifold: solution, fixed points, basin boundary."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import erf

from solvable import single_location as sl
from solvable.single_location.reduced import pgd_step

TASK = sl.Task(dim=400, length=10)
TIMES = np.linspace(0.0, 40.0, 9)  # one shape, one compilation
STARTS = sl.State([0.05, -0.3, 0.4, 1.0], [0.02, 0.1, -0.6, 0.3])


def flow(task, start, times, lam):
    return sl.manifold_flow(task, start, times, lam=lam)


def velocity(task, lam):
    """κ̇ and ν̇ as the paper has them, in numpy."""
    square, s2 = float(task.gamma) ** 2, (lam * float(task.gamma)) ** 2
    p, w = lam * task.signal / np.sqrt(1.0 + 2.0 * s2), np.sqrt(1.0 + 4.0 * s2)

    def field(t, y):
        kappa, nu = y
        slope = 2.0 / np.sqrt(np.pi) * np.exp(-((p * kappa) ** 2))
        along = 2.0 * square * p * (1.0 - kappa**2) * slope * (nu - erf(p * kappa / w))
        return np.array([along, 2.0 * square * (1.0 - nu**2) * erf(p * kappa)])

    return field


def test_solution_follows_the_differential_equation_in_the_plane():
    found = flow(TASK, STARTS, TIMES, 0.1)
    assert found.kappa.shape == (4, 9)
    pace = velocity(TASK, 0.1)
    for i in range(4):
        start = [STARTS.kappa[i].item(), STARTS.nu[i].item()]
        true = solve_ivp(
            pace, (0, TIMES[-1]), start, "DOP853", t_eval=TIMES, rtol=1e-11, atol=1e-13
        )
        np.testing.assert_allclose(found.kappa[i], true.y[0], rtol=0.0, atol=1e-8)
        np.testing.assert_allclose(found.nu[i], true.y[1], rtol=0.0, atol=1e-8)


def test_flow_stays_inside_and_what_starts_on_an_edge_stays_there():
    edge = sl.State([1.0, -1.0, 0.5, 1.0 - 2e-16], [0.0, 1.0, 1.0, -1.0 + 2e-16])
    found = flow(TASK, edge, TIMES, 0.1)
    assert np.all(np.asarray(found.kappa[:2]) == np.array([[1.0], [-1.0]]))
    assert np.all(np.asarray(found.nu[1:3]) == 1.0)
    assert np.all(np.abs(np.asarray([found.kappa, found.nu])) <= 1.0)
    assert found.kappa[2, -1] > 0.9


def test_projected_gradient_descent_misses_the_flow_by_the_step_size():
    @jax.jit
    def descend(lr, steps):
        def step(_, x):
            return pgd_step(TASK, x, jnp.asarray(0.1), lr)

        return jax.lax.fori_loop(0, steps, step, sl.State([0.05, -0.3, 0.4], [0.02, 0.1, -0.6]))

    true = flow(TASK, STARTS, TIMES, 0.1)
    gaps = []
    for steps in (500, 1000, 2000):
        x = descend(jnp.asarray(5.0 / steps), steps)
        gaps.append(np.abs(np.asarray(x.kappa) - np.asarray(true.kappa)[:3, 1]).max())
        assert np.all(np.asarray(x.distance) == 0.0)
    orders = np.log2(np.array(gaps[:-1]) / np.array(gaps[1:]))
    np.testing.assert_allclose(orders, 1.0, atol=0.05)


def test_batch_of_runs_is_its_members():
    batch = flow(TASK, STARTS, TIMES, 0.1)
    some = flow(TASK, sl.State([[-0.3], [0.4], [0.9]], [[0.1], [-0.6], [0.0]]), TIMES, 0.1)
    assert some.kappa.shape == (3, 1, 9)
    for name in ("kappa", "nu"):
        found, true = (np.asarray(getattr(x, name)) for x in (some, batch))
        np.testing.assert_allclose(found[:2, 0], true[1:3], rtol=0.0, atol=1e-12)


def test_field_is_that_of_the_five_scalars():
    kappa, nu = np.linspace(-1, 1, 16), np.linspace(0.9, -0.4, 16)
    for lam in (0.05, 0.9):
        found = sl.manifold_field(TASK, kappa, nu, lam)
        true = sl.flow_field(TASK, sl.State(kappa, nu), lam)
        np.testing.assert_allclose(found[0], true.kappa, rtol=0.0, atol=1e-12)
        np.testing.assert_allclose(found[1], true.nu, rtol=0.0, atol=1e-12)
        np.testing.assert_allclose(found, velocity(TASK, lam)(0.0, (kappa, nu)), atol=1e-12)
        assert np.all(np.asarray([true.theta, true.eta, true.rho]) == 0.0)


def test_five_scalars_flow_as_small_steps_do():
    x = sl.sphere(sl.Task(dim=12, length=4), runs=16)
    task = sl.Task(dim=12, length=4)

    def step(lr):
        return pgd_step(task, x, jnp.asarray(0.4), lr)

    true = jax.jit(lambda: jax.jvp(step, (jnp.asarray(0.0),), (jnp.asarray(1.0),))[1])()
    found = sl.flow_field(task, x, 0.4)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(true), strict=True):
        np.testing.assert_allclose(a, b, rtol=0.0, atol=1e-12 * np.abs(np.asarray(b)).max())


@jax.jit
def slopes_of_the_field(y, lam):
    return jax.jacfwd(lambda y: jnp.stack(sl.manifold_field(TASK, y[0], y[1], lam)))(y)


@pytest.mark.parametrize("lam", [0.1, 1.0])
def test_fixed_points_rest_and_have_the_eigenvalues_of_the_field(lam):
    points = sl.fixed_points(TASK, lam)
    assert len(points) == 5

    for point in points:
        y = np.array([point.kappa, point.nu])
        assert np.all(np.asarray(sl.manifold_field(TASK, *y, lam)) == 0.0)
        true = np.sort(np.linalg.eigvals(np.asarray(slopes_of_the_field(y, lam))).real)[::-1]
        rates = np.asarray(point.rates)
        np.testing.assert_allclose(rates, true, rtol=1e-9, atol=1e-30)
        signs = {"attractor": (-1, -1), "source": (1, 1), "saddle": (1, -1)}[point.kind]
        assert np.all(np.sign(rates) == signs)


def test_nothing_else_rests():
    kappa, nu = (a.ravel() for a in np.meshgrid(np.linspace(-1, 1, 41), np.linspace(-1, 1, 41)))
    speed = np.hypot(*(np.asarray(v) for v in sl.manifold_field(TASK, kappa, nu, 0.1)))
    rest = sorted(zip(kappa[speed < 1e-6], nu[speed < 1e-6], strict=True))
    assert rest == [(-1, -1), (-1, 1), (0, 0), (1, -1), (1, 1)]


def test_nullcline_is_where_kappa_turns():
    kappa = np.linspace(-0.9, 0.9, 16)
    nu = sl.nullcline(TASK, kappa, 0.1)
    still, moving = sl.manifold_field(TASK, kappa, nu, 0.1)
    assert np.abs(np.asarray(still)).max() < 1e-15
    assert np.all(np.sign(np.asarray(moving)) == np.sign(kappa))


def test_saddle_and_oracle_have_the_known_rates():
    middle = sl.saddle(TASK, [0.1, 1.0])
    np.testing.assert_allclose(middle.growth, [0.7715, 1.693], atol=5e-4)
    assert middle.decay[0].item() == pytest.approx(3.268, abs=5e-4)
    assert middle.slope[0].item() == pytest.approx(2.06, abs=5e-3)
    np.testing.assert_allclose(np.asarray(middle.slope * middle.stable_slope), -1.0, rtol=1e-14)
    end = sl.oracle_rates(TASK, 0.1)
    assert end.nu.item() == pytest.approx(1.907, abs=5e-4)
    assert end.kappa.item() == pytest.approx(0.0214, abs=5e-5)


def test_flow_arrives_at_the_oracle_with_its_rates():
    late = flow(TASK, STARTS, np.linspace(0.0, 400.0, 9), 0.1)
    gap = 1.0 - np.abs(np.asarray(late.kappa[:3]))
    rate = np.log(gap[:, -2] / gap[:, -1]) / 50.0
    np.testing.assert_allclose(rate, sl.oracle_rates(TASK, 0.1).kappa.item(), rtol=1e-2)


@pytest.mark.parametrize("lam", [0.03, 0.1, 0.6])
def test_basin_boundary_is_the_orbit_that_comes_from_the_source(lam):
    """Backwards in time from next to the saddle, by another solver in another coordinate."""
    end = sl.saddle(TASK, lam)
    pace = velocity(TASK, lam)
    first = 1e-5 / (1.0 + lam * TASK.signal)
    start = first * np.array([1.0, end.stable_slope.item()])

    def near(t, y):
        return y[1] + 0.999

    near.terminal = True
    back = solve_ivp(
        lambda t, y: -pace(t, y), (0, 60 / end.decay.item() + 10.0), start, "DOP853", events=near,
        rtol=1e-11, atol=1e-14, dense_output=True,
    )  # fmt: skip
    grid = back.sol(np.linspace(0.2, 1.0, 21) * back.t[-1])
    assert grid[1, -1] < -0.9
    found = sl.basin_boundary(TASK, grid[0], lam)
    np.testing.assert_allclose(found, grid[1], rtol=1e-7, atol=1e-9)


def test_basin_boundary_is_odd_and_joins_the_sources():
    kappa = np.linspace(-1.0, 1.0, 21)
    nu = np.asarray(sl.basin_boundary(TASK, kappa, 0.1))
    np.testing.assert_allclose(nu, -nu[::-1], rtol=1e-14)
    assert nu[0] == 1.0
    assert nu[10] == 0.0
    assert np.all(np.diff(nu) < 0.0)
    tiny = sl.basin_boundary(TASK, np.linspace(-1e-4, 1e-4, 21), 0.1)
    slope = sl.saddle(TASK, 0.1).stable_slope.item()
    np.testing.assert_allclose(tiny, slope * np.linspace(-1e-4, 1e-4, 21), rtol=1e-6, atol=1e-20)


def test_starts_on_both_sides_of_the_boundary_end_at_opposite_corners():
    kappa = np.array([0.3, 0.3, -0.6, -0.6])
    nu = np.asarray(sl.basin_boundary(TASK, np.resize(kappa, 21), 0.1))[:4]
    side = np.array([1e-7, -1e-7, 1e-7, -1e-7])
    found = flow(TASK, sl.State(kappa, nu + side), np.linspace(0.0, 200.0, 9), 0.1)
    np.testing.assert_array_equal(np.sign(found.nu[:, -1]), np.sign(side))
    assert np.abs(np.asarray(found.nu[:, -1])).min() > 0.99


@pytest.mark.parametrize("lam", [1e-30, 1e-6, 10.0, 1000.0])
def test_basin_boundary_at_the_ends_of_the_range(lam):
    task = sl.Task(dim=400, length=10)
    kappa = np.linspace(-1.0, 1.0, 21)
    nu = np.asarray(sl.basin_boundary(task, kappa, lam))
    assert np.all(np.isfinite(nu))
    assert np.all(np.diff(nu) <= 0.0)
    if lam < 1e-3:
        np.testing.assert_allclose(nu, -kappa, atol=1e-4)


def test_ratio_is_conserved_to_first_order_in_the_scale():
    drifts = []
    for lam in (1e-2, 5e-3, 2.5e-3):
        start = sl.State([0.3, -0.2, 0.1, 0.5], [0.6, 0.4, 0.2, -0.1])
        x = flow(TASK, start, np.linspace(0.0, 0.1 / lam, 9), lam)
        drift = np.asarray(sl.conserved(x))
        drifts.append(np.abs(drift[:, -1] / drift[:, 0] - 1.0).max())
    orders = np.log2(np.array(drifts[:-1]) / np.array(drifts[1:]))
    np.testing.assert_allclose(orders, 1.0, atol=0.15)
    assert drifts[-1] < 0.1
