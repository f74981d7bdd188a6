"""Closed forms at their limits, against ODEs, and against each other."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import binom, ive

from solvable import deep_icl as deep
from solvable.deep_icl.theory import spectral
from solvable.deep_icl.theory._isotropic import density
from solvable.deep_icl.theory._spectral import spectral_descent

pytestmark = pytest.mark.slow

ISO = deep.Isotropic(alpha=2.0)
DEPTHS = [1, 2, 4, 8, 16]


def agree(found, printed):
    """Equal to every digit that is printed."""
    for value, digits in zip(np.ravel(np.asarray(found)).tolist(), printed.split(), strict=True):
        places = len(digits.partition(".")[2])
        assert abs(value - float(digits)) <= 0.501 * 10.0**-places, (value, digits)


@pytest.mark.parametrize(
    ("alpha", "printed"),
    [
        (0.5, ".66666667 .59259259 .54138089 .51328788 .50243182"),
        (1.0, ".5 .375 .2734375 .19638062 .13994993"),
        (2.0, ".33333333 .18518519 .08276177 .02657575 .00486364"),
    ],
)
def test_isotropic_optimum_has_its_known_values(alpha, printed):
    agree(deep.optimum(deep.Isotropic(alpha), depth=DEPTHS).loss, printed)


def test_isotropic_optimum_at_its_limits():
    ends = deep.optimum(deep.Isotropic(0.5), depth=None)
    assert (ends.gamma.item(), ends.loss.item()) == (math.inf, 0.5)
    assert deep.optimum(ISO, depth=None).loss.item() == 0.0
    one = deep.optimum(deep.Isotropic(1.0), depth=[1, 5, 40]).loss
    np.testing.assert_allclose(one, [binom(2 * d, d) / 4.0**d for d in (1, 5, 40)], rtol=1e-13)
    assert deep.optimum(deep.Isotropic(3.0)).loss.item() == pytest.approx(1.0 / 4.0, rel=1e-14)


def test_isotropic_optimum_is_the_minimum_of_the_loss():
    for alpha in (0.3, 1.0, 5.0):
        task = deep.Isotropic(alpha)
        best = deep.optimum(task, depth=6)
        np.testing.assert_allclose(
            deep.loss(task, gamma=best.gamma, depth=6), best.loss, rtol=1e-12
        )
        around = deep.loss(task, gamma=best.gamma * np.array([0.99, 1.01]), depth=6)
        assert np.all(around > best.loss)


@pytest.mark.parametrize("alpha", [0.5, 2.0])
def test_noise_at_one_layer_and_at_infinite_depth(alpha):
    task = deep.Isotropic(alpha, noise=0.5)
    one = deep.optimum(task)
    assert one.gamma.item() == pytest.approx(alpha / (1.25 + alpha), rel=1e-12)
    assert one.loss.item() == pytest.approx(1.25 / (1.25 + alpha), rel=1e-12)
    early = deep.optimum(task, depth=None).loss.item()
    assert deep.ridge_loss(task).item() < early < deep.optimum(task, depth=4).loss.item()
    agree([early], {0.5: ".64507", 2.0: ".18216"}[alpha])
    agree([deep.ridge_loss(task).item()], {0.5: ".64039", 2.0: ".17539"}[alpha])
    late = deep.optimum(task, depth=512).loss.item()
    assert late == pytest.approx(early, rel=1e-3)


def test_density_is_that_of_marchenko_and_pastur():
    for alpha in (1e-3, 0.5, 0.999, 1.0, 1.001, 7.0, 1e5):
        lam, weight = density(jnp.asarray(alpha))
        moments = [jnp.sum(weight * lam**k) for k in range(4)]
        c = 1.0 / alpha
        known = [min(1.0, alpha), 1.0, 1.0 + c, 1.0 + 3.0 * c + c**2]
        np.testing.assert_allclose(jnp.stack(moments), known, rtol=1e-13)


def test_response_functions_of_the_discrete_time_theory_give_the_same_loss():
    """H ← (1 + Θ(1 + HΘ/α)^-1)^-1 with Θ = η·(strictly lower ones): (H 1)_t = ∫ρ (1 − ηλ)^t."""
    alpha, eta, count = 1.7, 0.4, 17
    theta = eta * np.tril(np.ones((count, count)), -1)
    h, one = np.eye(count), np.eye(count)
    for _ in range(80):
        h = np.linalg.inv(one + theta @ np.linalg.inv(one + h @ theta / alpha))
    depths = [1, 2, 4, 8]
    found = deep.loss(deep.Isotropic(alpha), step_size=eta, depth=depths)
    np.testing.assert_allclose(found, (h @ np.ones(count))[[2 * d for d in depths]], rtol=1e-12)


def test_flow_at_infinite_depth_is_a_bessel_function():
    """dγ/dt = (√α/γ) e^(−2γ(1+1/α)) I₁(4γ/√α)."""
    gamma = np.geomspace(1e-3, 30.0, 20)
    for alpha in (0.5, 1.0, 4.0):
        found = spectral_descent(spectral(deep.Isotropic(alpha)), gamma, math.inf)
        x = 4.0 * gamma / math.sqrt(alpha)
        rest = np.exp(x - 2.0 * gamma * (1.0 + 1.0 / alpha))
        np.testing.assert_allclose(found, math.sqrt(alpha) / gamma * ive(1, x) * rest, rtol=1e-12)


def test_one_layer_relaxes_exponentially():
    task = deep.Isotropic(alpha=1.5, noise=0.5)
    c = 1.0 + 1.25 / 1.5
    t = np.array([0.0, 0.1, 1.0, 5.0])
    np.testing.assert_allclose(
        deep.gamma_curve(task, t), (1.0 - np.exp(-2.0 * c * t)) / c, rtol=1e-12, atol=1e-15
    )


@pytest.mark.parametrize(
    ("task", "depth"),
    [
        (ISO, 4),
        (deep.Isotropic(0.7, noise=0.4), 3),
        (deep.RotatedStructure(nu=1.5, beta=0.8, dim=20), 5),
        (deep.RotatedStructure(nu=1.5, beta=0.8, dim=20), None),
    ],
)
@pytest.mark.parametrize("start", [deep.Init(gamma=0.0), deep.Init(weights=0.3)])
def test_flow_by_quadrature_is_the_ode(task, depth, start):
    times = np.array([0.3, 3.0, 30.0])
    s = spectral(task)
    layers = math.inf if depth is None else float(depth)

    def slope(gamma):
        return spectral_descent(s, np.array([gamma]), layers)[0]

    if start.weights is None:
        found = solve_ivp(lambda t, y: [slope(y[0])], (0, 30), [0.0], t_eval=times, **SHARP)
        expected = found.y[0]
    else:

        def field(t, w):
            x, q, k, v = w
            pull = slope(x**2 * q * k * v)
            return [pull * g for g in (2 * x * q * k * v, x**2 * k * v, x**2 * q * v, x**2 * q * k)]

        found = solve_ivp(field, (0, 30), np.asarray(start.weights), t_eval=times, **SHARP)
        expected = found.y[0] ** 2 * found.y[1] * found.y[2] * found.y[3]
    gamma = deep.gamma_curve(task, times, depth, start=start)
    np.testing.assert_allclose(gamma, expected, rtol=1e-8)
    loss = deep.loss_curve(task, times, depth, start=start)
    np.testing.assert_allclose(
        loss, [deep.loss(task, gamma=g, depth=depth).item() for g in expected], rtol=1e-8
    )


SHARP = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-14}


def test_matrix_time_is_slower_by_the_width():
    task = deep.RotatedStructure(nu=1.5, beta=0.8, dim=20)
    np.testing.assert_allclose(
        deep.loss_curve(task, 60.0, 3, time="matrix"), deep.loss_curve(task, 3.0, 3), rtol=1e-13
    )
    with pytest.raises(ValueError, match=r"dim must be given for time 'matrix'"):
        deep.loss_curve(ISO, 1.0, time="matrix")


def test_flow_of_the_equivalent_follows_its_own_slope():
    task = deep.RotatedStructure(nu=1.25, beta=1.0, dim=30, width=15, context=40)
    times = np.array([0.0, 1.0, 20.0, 1e4])
    gamma = np.asarray(deep.gamma_curve(task, times, 4))
    loss = deep.loss_curve(task, times, 4)
    np.testing.assert_allclose(loss, deep.loss(task, gamma=gamma, depth=4), rtol=1e-7)
    best = deep.optimum(task, 4)
    assert gamma[-1] == pytest.approx(best.gamma.item(), rel=1e-6)
    # Fine steps of gradient descent, whose error is of first order: extrapolated.
    runs = [
        deep.train(task, deep.Init(gamma=0.0), depth=4, lr=lr, steps=round(20 / lr), log_every=4000)
        for lr in (0.1, 0.05)
    ]
    coarse, fine = (run.gamma[-1].item() for run in runs)
    assert 2.0 * fine - coarse == pytest.approx(gamma[2], rel=1e-4)


@pytest.mark.parametrize(
    ("depth", "printed"),
    [
        (1, ".15892691 .036395787 .0085977028"),
        (2, ".17091492 .04091202 .0096889655"),
        (8, ".19034156 .045788402 .010865947"),
        (None, ".19890856 .047822325 .01135657"),
    ],
)
def test_fixed_structure_has_its_known_values(depth, printed):
    task = deep.FixedStructure(nu=1.25, beta=1.25, dim=128)
    agree(deep.loss_curve(task, t=[10.0, 1e3, 1e5], depth=depth), printed)


@pytest.mark.parametrize("depth", [1, 2, 5, None])
def test_fixed_structure_is_the_ode(depth):
    task = deep.FixedStructure(nu=1.2, beta=0.9, dim=6)
    lam, share = np.asarray(task.lam), np.asarray(task.share)

    def field(t, g):
        if depth is None:
            return 2.0 * share * lam * np.exp(-2.0 * lam * g)
        return 2.0 * share * lam * (1.0 - lam * g / depth) ** (2 * depth - 1)

    found = solve_ivp(field, (0, 50), np.zeros(6), t_eval=[1.0, 50.0], **SHARP)
    np.testing.assert_allclose(deep.gamma_curve(task, [1.0, 50.0], depth), found.y.T, rtol=1e-9)


def test_rotated_structure_has_its_known_minima():
    task = deep.RotatedStructure(nu=1.5, beta=0.8, dim=64)
    depths = [1, 2, 4, 8, 16, 32, 64]
    best = deep.optimum(task, depth=depths)
    agree(best.loss, ".20110308 .12141224 .064530199 .033455674 .01677787 .0079113871 .0032827688")
    ratio = np.asarray(best.gamma) / np.array(depths)
    agree(ratio, "1.072333 1.302147 1.487871 1.651940 1.777956 1.865043 1.920543")


def test_a_fixed_structure_may_have_large_gammas_where_eigenvalues_are_small():
    """Γ = LΣ^-1 leaves nothing, at any depth: it is γλ/L that must be stable, not γ."""
    for task in (
        deep.FixedStructure(1.5, 1.0, 64),
        deep.FixedStructure(1.5, 1.0, 8, context=10**9),
    ):
        best = 200.0 / task.lam
        assert deep.loss(task, gamma=best, depth=200).item() < 1e-4
        with pytest.raises(ValueError, match=r"gamma times lam must be at most"):
            deep.loss(task, gamma=100.0 * best, depth=200)


def test_single_layer_optimum_is_exact():
    task = deep.FixedStructure(nu=1.0, beta=1.0, dim=24, context=48, noise=0.3)
    best = deep.optimum(task)
    assert deep.loss(task, gamma=best.gamma).item() == pytest.approx(best.loss.item(), rel=1e-13)
    grad = jax.jit(jax.grad(lambda g: deep.loss(task, gamma=g)))(best.gamma)
    assert float(jnp.max(jnp.abs(grad))) < 1e-14
    losses = deep.draw_spectra(task, 3000, gamma=best.gamma).loss(gamma=1.0)
    assert losses.mean() == pytest.approx(best.loss.item(), abs=4.0 * losses.std() / 3000**0.5)


def test_small_gamma_joins_the_equivalent_smoothly():
    task = deep.FixedStructure(nu=1.25, beta=1.25, dim=24, context=48, noise=0.3)
    lam, share = np.asarray(task.lam), np.asarray(task.share)
    grad = jax.jit(jax.grad(lambda g: deep.loss(task, gamma=g, depth=4)))
    np.testing.assert_allclose(grad(jnp.zeros(24)), -2.0 * lam * share, rtol=1e-12)
    below, above = (np.asarray(grad(jnp.full(24, g))) for g in (3.96e-4, 4.04e-4))
    # They differ by the curvature, and by 1/D of the equivalent's second order.
    np.testing.assert_allclose(below, above, rtol=1e-3)


def test_fixed_structure_in_finite_contexts_against_drawn_ones():
    task = deep.FixedStructure(nu=1.0, beta=1.0, dim=80, context=60)
    shape = 1.0 / (np.asarray(task.lam) + 0.05)
    drawn = deep.draw_spectra(task, 150, gamma=shape)
    top = float(np.max(shape * np.asarray(task.lam)))
    for depth in (2, 8):
        gamma = 0.5 * depth / top
        losses = drawn.loss(gamma=gamma, depth=depth)
        found = deep.loss(task, gamma=gamma * shape, depth=depth).item()
        slack = 3.0 * losses.std() / 150**0.5 + 2.0 / 60 * losses.mean()
        assert found == pytest.approx(losses.mean(), abs=slack)


def test_depth_helps_in_finite_contexts():
    """Trained diagonals at D = 24, P = 48: .159 .082 .037 .016, of which the equivalent has 1/D."""
    task = deep.FixedStructure(nu=1.0, beta=1.0, dim=24, context=48)
    found = np.asarray(deep.optimum(task, depth=[1, 2]).loss)
    assert found[0] == pytest.approx(0.159, abs=5e-4)
    assert found[1] == pytest.approx(0.082, rel=0.15)
    assert np.all(np.asarray(deep.optimum(deep.FixedStructure(1.0, 1.0, 24), depth=2).loss) == 0.0)


def test_turned_covariances():
    task = deep.FixedStructure(nu=1.25, beta=1.25, dim=64)
    angles = np.array([0.02, 0.05, 0.1, 0.25])
    losses = np.asarray(deep.shifted_loss(task, angles, depth=[1, 2, 4, 8]))
    radius = np.asarray(deep.shift_radius(task, angles))
    assert np.all(np.diff(losses, axis=0) > 0.0)  # in the angle
    assert np.all(np.diff(losses[radius < 0.9], axis=1) < 0.0)  # deeper is better
    assert np.all(np.diff(losses[radius > 1.5], axis=1) > 0.0)  # and then worse
    # One layer turned by little: θ² Σ S_kj² (λ_j − λ_k)² ω_j/λ_k.
    g = np.random.default_rng([0, 7]).standard_normal((64, 64))
    skew = (g - g.T) / (2.0 * 8.0)
    lam, omega = np.asarray(task.lam), np.asarray(task.omega)
    gap = (lam[None, :] - lam[:, None]) ** 2
    law = np.sum(skew**2 * gap * omega[None, :] / lam[:, None])
    small = deep.shifted_loss(task, 1e-5, 1).item()
    assert small == pytest.approx(1e-10 * law, rel=1e-4)
    assert deep.shifted_loss(task, 0.0, 3).item() < 1e-20


def test_untied_layers_have_a_better_minimum_and_the_tied_one_is_a_saddle():
    task = deep.RotatedStructure(nu=1.25, beta=1.0, dim=2000)
    tied = deep.optimum(task, depth=2)
    both = deep.untied_loss(task, np.full(2, tied.gamma.item()))
    assert both.item() == pytest.approx(tied.loss.item(), rel=1e-13)
    curvature = jax.jit(jax.hessian(lambda g: deep.untied_loss(task, g)))(
        jnp.full(2, tied.gamma.item())
    )
    assert np.linalg.eigvalsh(curvature)[0] < -1e-4
    assert abs(deep.untied_optimum(task, 2).loss.item() - 0.0545) < 5e-5
    assert abs(deep.untied_optimum(task, 4).loss.item() - 0.0123) < 5e-5
    agree(deep.optimum(task, depth=[2, 4]).loss, ".0902 .0430")


def test_sgd_of_one_layer():
    curve = deep.sgd_curve(deep.Isotropic(1.0), lr=0.1, steps=40, batch=1.0, queries=4.0)
    agree([curve.distance[-1].item()], ".0403")
    c, a, b = 2.0, 0.64 + 0.01 * 1.25 * 4.0, 0.01 * 1.25 * 1.0
    assert curve.factor == pytest.approx(a)
    assert curve.floor == pytest.approx(b / (1.0 - a))
    steps = [0.25]
    for _ in range(40):
        steps.append(a * steps[-1] + b)
    np.testing.assert_allclose(curve.distance, steps, rtol=1e-12)
    np.testing.assert_allclose(curve.loss, c * np.array(steps) + (c - 1.0) / c, rtol=1e-12)
    assert curve.far_loss[0].item() == pytest.approx(1.0)
    wild = deep.sgd_curve(deep.Isotropic(1.0), lr=0.9, steps=3, batch=0.1, queries=1.0)
    assert wild.factor > 1.0
    assert wild.floor == math.inf


def test_floors_against_contexts_that_have_converged():
    """Endless training: projecting on the span leaves the floor."""
    task = deep.RotatedStructure(nu=1.25, beta=1.0, dim=128, width=40)
    losses = deep.draw_spectra(task, 60, seed=5).loss(gamma=1e9, depth=None)
    slack = 3.0 * losses.std() / 60**0.5 + 2.0 / 40 * losses.mean()
    assert deep.floor(task, "width").item() == pytest.approx(losses.mean(), abs=slack)
    task = deep.RotatedStructure(nu=1.25, beta=1.0, dim=128, context=40)
    losses = deep.draw_spectra(task, 60, seed=6).loss(gamma=1e9, depth=None)
    slack = 3.0 * losses.std() / 60**0.5 + 2.0 / 40 * losses.mean()
    assert deep.floor(task, "context").item() == pytest.approx(losses.mean(), abs=slack)
    task = deep.RotatedStructure(nu=1.25, beta=1.0, dim=128, width=20, context=60)
    losses = deep.draw_spectra(task, 200, seed=7).loss(gamma=1e9, depth=None)
    slack = 3.0 * losses.std() / 200**0.5 + 2.0 / 20 * losses.mean()
    assert deep.floor(task, "both").item() == pytest.approx(losses.mean(), abs=slack)


def test_depth_floor_is_the_optimum():
    task = deep.RotatedStructure(nu=1.5, beta=0.8, dim=64, width=8)
    agree(deep.floor(task, "depth", depth=[8, 16]), ".033455674 .01677787")


def test_population_loss_does_not_overflow():
    task = deep.RotatedStructure(nu=1.5, beta=0.8, dim=8)
    assert np.isfinite(deep.loss(task, gamma=2.9, depth=1)).all()
    near = deep.loss(task, step_size=2.0, depth=[10, 1000, 10**6])
    # Beyond the first, every direction has been learned: (1 − 2)^(2L) = 1 remains.
    np.testing.assert_allclose(near[1:], task.share[0], rtol=1e-2)
    with pytest.raises(ValueError, match=r"gamma must be at most"):
        deep.loss(ISO, gamma=1e6, depth=100)


def test_gradients_are_finite_where_a_direction_is_spent():
    """At γλ/L = 1 the logarithm is infinite."""
    task = deep.RotatedStructure(lam=np.array([1.0, 0.5]), omega=np.array([0.5, 1.0]))
    value, slope = jax.jit(jax.value_and_grad(lambda g: deep.loss(task, gamma=g, depth=4)))(
        jnp.asarray(4.0)
    )
    assert value.item() == pytest.approx(0.5 * 0.5**8)
    assert slope.item() == pytest.approx(-0.5 * 8 * 0.5**7 * 0.5 / 4)
