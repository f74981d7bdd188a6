"""The two-point deterministic equivalent: known numbers, drawn contexts, exact limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solvable import deep_icl as deep
from solvable.deep_icl.theory import Medium, losses, resolvents
from solvable.deep_icl.theory._equivalent import log_rho, points_for
from solvable.deep_icl.theory._resolvents import edge as upper_edge

pytestmark = pytest.mark.slow

DEPTHS = [1, 2, 4, 8, 16, 32]
# Losses at (width, context, step of the projector itself) of D = 200, ν = 1.25, β = 1.
KNOWN = {
    (None, 100, 0.6): ".33599792 .19027787 .10941346 .061838529 .035017539 .020557411",
    (60, None, 1.0): ".60400103 .40076797 .22818447 .13200047 .082830571 .056682473",
    (60, 100, 0.6): ".74672763 .57493919 .37356552 .21386074 .12799149 .084701201",
    (120, 300, 1.0): ".33610175 .19034243 .11085585 .064094177 .037996114 .024147232",
}


def agree(found, printed):
    """Equal to every digit that is printed."""
    for value, digits in zip(np.ravel(np.asarray(found)).tolist(), printed.split(), strict=True):
        places = len(digits.partition(".")[2])
        assert abs(value - float(digits)) <= 0.501 * 10.0**-places, (value, digits)


def at(m, gamma, depth, noise=0.0, load=None, finer=1.0):
    """Loss and slope of a medium, on an ellipse that may be finer than it need be."""
    top = float(upper_edge(m))
    load = load or max(float(np.max(np.asarray(gamma))) * top, 2.0)
    points = 2 * int(finer * points_for(load) / 2)
    r = resolvents(m, top, log_rho(np, load, points) / finer**0.5, points)
    assert float(r.residual) < 1e-12
    gamma, depth = np.broadcast_arrays(np.asarray(gamma, float), np.asarray(depth, float))
    return losses(r, gamma, depth, noise)


def law(dim, width=None, context=None, nu=1.25, beta=1.0, **more):
    return deep.RotatedStructure(nu=nu, beta=beta, dim=dim, width=width, context=context, **more)


@pytest.mark.parametrize(("width", "context", "step"), KNOWN)
def test_known_losses_to_all_their_digits(width, context, step):
    task, known = law(200, width, context), KNOWN[width, context, step]
    step = step * task.width / task.dim
    found = deep.loss(task, step_size=step, depth=DEPTHS, method="equivalent")
    agree(found, known)


def test_a_step_size_is_gamma_over_depth():
    task = law(40, 20, 30)
    by_step_size = deep.loss(task, step_size=0.6, depth=[1, 8])
    each = [deep.loss(task, gamma=0.6 * d, depth=d) for d in (1, 8)]
    np.testing.assert_allclose(jnp.stack(each), by_step_size, rtol=1e-9)


def test_known_parts_of_the_noise():
    noisy = law(200, None, 100, noise=0.2**0.5)
    options = {"step_size": 0.6, "depth": [1, 4, 32], "method": "equivalent"}
    found, silent = deep.loss(noisy, **options), deep.loss(law(200, None, 100), **options)
    agree(found - silent, ".00096570175 .0040868905 .021632214")


@pytest.mark.parametrize(
    ("width", "context", "loss"),
    [
        (64, None, ".0642931209"),
        (256, None, ".0186347168"),
        (64, 128, ".0831428447"),
        (None, 128, ".0228112348"),
    ],
)
def test_optimum_at_512_directions_and_32_layers(width, context, loss):
    agree(deep.optimum(law(512, width, context, beta=0.8), depth=32).loss, loss)


# noise/σ² at (ν, β, D, N, P), depth and γ of the projector itself: converged to 1.5e-11.
NOISE = {
    (1.25, 1.0, 200, 200, 100, 1, 0.6): 0.00482850877332,
    (1.25, 1.0, 200, 200, 100, 4, 2.4): 0.0204344523508,
    (1.25, 1.0, 200, 200, 100, 32, 19.2): 0.108161067799,
    (1.25, 1.0, 200, 60, 100, 1, 0.6): 4.81724497578e-4,
    (1.25, 1.0, 200, 60, 100, 4, 2.4): 0.00484382061132,
    (1.25, 1.0, 200, 60, 100, 8, 16.0): 0.0405801510555,
    (1.25, 1.0, 200, 60, 100, 64, 128.0): 0.212968143872,
    (1.25, 1.0, 200, 60, 100, None, 64.0): 0.124857647747,
    (1.5, 0.5, 160, 90, 40, 12, 12.0): 0.0836801266939,
    (0.8, 0.7, 160, 50, 160, 3, 4.5): 0.022191285998,
}


@pytest.mark.parametrize("case", NOISE)
def test_known_noise_of_narrow_attention(case):
    nu, beta, dim, width, context, depth, gamma = case
    options = {"gamma": gamma * width / dim, "depth": depth, "method": "equivalent"}
    task = {"nu": nu, "beta": beta, "dim": dim, "width": width, "context": context}
    silent = deep.loss(deep.RotatedStructure(**task), **options)
    noisy = deep.loss(deep.RotatedStructure(**task, noise=1.0), **options)
    assert float(noisy - silent) == pytest.approx(NOISE[case], rel=5e-11)


# Slope at γ of the projector itself: (ν, β, D, N, P, L), then γ: (𝓛 − 1, slope).
SMALL = {
    (2.0, 1.5, 60, 8, 12, 32): {
        0.0: (0.0, -0.2506569682083),
        1e-4: (-2.5065271834e-5, -0.2506484685303),
        1.0: (-0.21306393828558, -0.1799064238023),
    },
    (1.3, 0.7, 60, 20, 40, 5): {
        0.0: (0.0, -0.4537513324906),
        0.01: (-0.004522993941964, -0.4508505414858),
        1.0: (-0.33505472725349, -0.2394417576994),
    },
}


@pytest.mark.parametrize("case", SMALL)
def test_no_digit_is_lost_as_gamma_vanishes(case):
    nu, beta, dim, width, context, depth = case
    task = deep.RotatedStructure(nu, beta, dim, width, context)
    grad = jax.jit(jax.value_and_grad(lambda g: deep.loss(task, gamma=g, depth=depth)))
    portion = width / dim
    for gamma, (fall, slope) in SMALL[case].items():
        value, found = grad(jnp.asarray(gamma * portion))
        assert float(value) - 1.0 == pytest.approx(fall, abs=3e-15)
        assert portion * float(found) == pytest.approx(slope, rel=1e-12)


@pytest.mark.parametrize("depth", [1, 2, 7, None])
@pytest.mark.parametrize(("width", "context"), [(5, None), (None, 3), (5, 40), (1, 1)])
def test_the_slope_at_zero_is_minus_twice_the_share_weighted_eigenvalue(width, context, depth):
    task = law(12, width, context, noise=0.4)
    found = jax.jit(jax.grad(lambda g: deep.loss(task, gamma=g, depth=depth)))(jnp.asarray(0.0))
    assert found == pytest.approx(-2.0 * float(jnp.sum(task.share * task.lam)), rel=1e-12)


def test_the_slopes_at_zero_of_a_fixed_structure():
    task = deep.FixedStructure(1.3, 0.7, 9, context=6)
    for depth in (1, 3, None):
        found = jax.jit(jax.grad(lambda g, d=depth: deep.loss(task, gamma=g, depth=d)))(
            jnp.zeros(9)
        )
        np.testing.assert_allclose(found, -2.0 * task.share * task.lam, rtol=1e-12)


def test_the_loss_falls_by_its_slope_at_the_smallest_gammas():
    """To second order: γ = 1e-9 once lost four digits of ten."""
    task = law(60, 8, 12, nu=2.0, beta=1.5)
    line = float(jnp.sum(task.share * task.lam))
    for gamma in (1e-6, 1e-8):
        fall = 1.0 - deep.loss(task, gamma=gamma, depth=32).item()
        assert fall == pytest.approx(2.0 * gamma * line, rel=1e-5, abs=3e-16)


@pytest.mark.parametrize(("width", "context"), [(None, 30), (20, None), (20, 30), (3, 200)])
def test_a_finer_ellipse_changes_nothing(width, context):
    m = Medium.of(law(40).spectrum, width, context)
    depths = np.array([2.0, 16.0, 512.0, np.inf])
    gamma = np.array([1.8, 1.8, 1.8, 1.8]) * np.array([2.0, 16.0, 512.0, 60.0]) / upper_edge(m)
    found, finer = (at(m, gamma, depths, 0.5, finer=x) for x in (1.0, 1.6))
    np.testing.assert_allclose(found[0], finer[0], rtol=2e-12)
    np.testing.assert_allclose(found[1], finer[1], rtol=1e-9, atol=1e-13)


def test_full_width_and_endless_contexts_are_the_sum_over_eigenvalues():
    """The formulas for N < D and finite P, taken to N = D and P = ∞, against the plain sum."""
    task = law(30)
    for width, context in ((30.0 - 1e-9, 1e15), (30.0 - 1e-9, 1e13)):
        m = Medium.of(task.spectrum, width, context)
        gamma, depth = np.meshgrid([0.3, 1.2], [1.0, 4.0, 9.0], indexing="ij")
        found = at(m, gamma * depth, depth)[0]
        exact = deep.loss(task, step_size=[0.3, 1.2], depth=[1, 4, 9])
        np.testing.assert_allclose(found, exact, rtol=1e-8)


def test_there_is_a_limit_of_many_directions_at_a_fixed_width():
    """The equivalent at D = 10⁹ and 10¹⁵, to what the directions beyond carry."""
    losses = [
        deep.loss(law(dim, 30, 80), gamma=3.0, depth=8).item() for dim in (10**6, 10**9, 10**15)
    ]
    # Σλ beyond D is 4 D^-1/4, of which 1/N adds to the ridge.
    ridge = float(law(10**15).spectrum.level(30.0))
    gaps = [abs(loss / losses[2] - 1.0) for loss in losses[:2]]
    for gap, dim in zip(gaps, (1e6, 1e9), strict=True):
        assert gap < 4.0 * dim**-0.25 / 30 / ridge
    assert gaps[1] / gaps[0] == pytest.approx(1e3**-0.25, rel=0.2)


def test_flat_spectra_are_isotropic():
    """At N = D the law of Λ̂ is Marchenko and Pastur's."""
    flat = deep.RotatedStructure(lam=np.ones(40), omega=np.full(40, 1 / 40), context=80)
    found = deep.loss(flat, gamma=[1.0, 3.0], depth=[1, 4], method="equivalent")
    np.testing.assert_allclose(
        found, deep.loss(deep.Isotropic(alpha=2.0), gamma=[1.0, 3.0], depth=[1, 4]), rtol=1e-9
    )
    noisy = deep.RotatedStructure(lam=np.ones(40), omega=np.full(40, 1 / 40), context=80, noise=0.5)
    both = deep.Isotropic(alpha=2.0, noise=0.5)
    np.testing.assert_allclose(
        deep.loss(noisy, gamma=3.0, depth=[4, None]),
        deep.loss(both, gamma=3.0, depth=[4, None]),
        rtol=1e-9,
    )


def test_infinite_depth_is_the_limit():
    task = law(40, 20, 30)
    limit = deep.loss(task, gamma=10.0, depth=None).item()
    gaps = [deep.loss(task, gamma=10.0, depth=d).item() - limit for d in (128, 256)]
    assert gaps[0] / gaps[1] == pytest.approx(2.0, rel=0.01)  # 1/L
    assert abs(gaps[1]) < 1e-3 * limit


def test_bins_of_equal_directions_are_as_good_as_the_directions():
    lam, omega = np.array([1.0, 0.3, 0.1]), np.array([0.05, 0.2, 0.25])
    three = deep.Spectrum.given(lam, omega, weight=[8, 8, 8])
    whole = deep.RotatedStructure(lam=np.repeat(lam, 8), omega=np.repeat(omega, 8), **BOTH)
    few = deep.RotatedStructure(spectrum=three, **BOTH)
    assert (few.dim, few.lam.shape) == (24, (24,))
    for options in ({"step_size": 0.5, "depth": [1, 8]}, {"gamma": 3.0, "depth": [2, None]}):
        one, two = (deep.loss(task, **options) for task in (whole, few))
        np.testing.assert_allclose(one, two, rtol=1e-13)


BOTH = {"width": 14, "context": 30, "noise": 0.3}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "context", "step"),
    [(None, 60, 0.6), (40, None, 0.66), (40, 60, 0.4), (80, 200, 0.66)],
)
def test_equivalent_against_drawn_contexts(width, context, step):
    """Within three standard errors of the mean and 2/min(N, P), where tails are light."""
    task = law(120, width, context)
    assert step * deep.edge(task).item() < 1.5
    losses = deep.draw_spectra(task, 200, seed=1).loss(step_size=step, depth=[1, 2, 4, 8, 16])
    error = losses.std(axis=-1) / 200**0.5
    fewest = min(width or 120, context or 10**9)
    gap = np.abs(
        losses.mean(axis=-1) - np.asarray(deep.loss(task, step_size=step, depth=[1, 2, 4, 8, 16]))
    )
    assert np.all(gap <= 3.0 * error + 2.0 / fewest * losses.mean(axis=-1))


def test_equivalent_is_the_typical_context_where_the_mean_is_not():
    """At the best γ rare contexts diverge: the median follows the equivalent, the mean does not."""
    task = law(128, 32, beta=0.8)
    best = deep.optimum(task, depth=8)
    assert best.gamma.item() * deep.edge(task).item() / 8 > 1.5
    losses = deep.draw_spectra(task, 400, seed=2).loss(gamma=best.gamma.item(), depth=8)
    assert np.median(losses) == pytest.approx(best.loss.item(), rel=2.0 / 32)
    assert losses.mean() > 1.1 * best.loss.item()


def test_noise_of_drawn_contexts():
    quiet, noisy = (law(60, None, 45, noise=noise) for noise in (0.0, 0.5))
    gaps = [
        deep.draw_spectra(task, 300, seed=3).loss(step_size=0.6, depth=[1, 8, 32]).mean(axis=-1)
        for task in (quiet, noisy)
    ]
    theory = [
        np.asarray(deep.loss(task, step_size=0.6, depth=[1, 8, 32])) for task in (quiet, noisy)
    ]
    np.testing.assert_allclose(gaps[1] - gaps[0], theory[1] - theory[0], rtol=2.0 / 45)


def single_layer_mean(task, gamma):
    """E of the loss of one layer, exact at any D and P for Gaussian tokens."""
    plain = deep.FixedStructure(lam=task.lam, omega=task.omega, context=task.context)
    return deep.loss(plain, gamma=gamma, depth=1).item()


def test_error_falls_like_one_over_the_dimension_exactly_at_one_layer():
    dims = np.array([32, 64, 128, 256, 512])
    gaps = []
    for dim in dims.tolist():
        task = law(dim, None, dim // 2)
        found = deep.loss(task, gamma=0.6, depth=1, method="equivalent").item()
        gaps.append(abs(found / single_layer_mean(task, 0.6) - 1.0))
    slope = np.polyfit(np.log(dims), np.log(gaps), 1)[0]
    assert slope == pytest.approx(-1.0, abs=0.05)


@pytest.mark.slow
def test_error_falls_like_one_over_the_dimension_at_four_layers():
    """D (DE/mean − 1) = −2.0 ± 0.3; the loss of one layer, whose mean is known, controls noise."""
    for dim, count in ((32, 6000), (64, 4000), (128, 3000)):
        task = law(dim, None, dim // 2)
        drawn = deep.draw_spectra(task, count, seed=4)
        steps = (0.3, 0.9)  # the loss of one layer is quadratic in the step
        known = [single_layer_mean(task, eta) for eta in steps]
        control = drawn.loss(step_size=steps, depth=1).T - np.array(known)[None, :]
        design = np.concatenate([control, np.ones((count, 1))], axis=1)
        losses = drawn.loss(step_size=0.6, depth=4)
        weights, *_ = np.linalg.lstsq(design, losses, rcond=None)
        mean, rest = weights[-1], losses - design @ weights
        error = rest.std() / count**0.5 / mean
        found = dim * (deep.loss(task, step_size=0.6, depth=4).item() / mean - 1.0)
        assert dim * error < 0.15
        assert found == pytest.approx(-2.0, abs=0.3)


# One layer at (ν, β, D, N, P, σ), γ of the projector itself: the loss there, the best γ, its loss.
SINGLE = {
    (1.25, 1.0, 200, 60, 100, 0.0): (0.6, 0.747238901647, 3.306070306021, 0.234131823459),
    (1.25, 1.0, 200, 60, None, 0.0): (1.0, 0.604727625631, 3.404795359491, 0.211261657467),
    (1.25, 1.0, 200, 200, 100, 0.0): (0.6, 0.338575821372, 1.048227616544, 0.190575619016),
    (1.3, 0.7, 60, 25, 40, 0.5): (2.0, 0.379932710981, 2.205627019708, 0.374496125519),
    (1.3, 0.7, 60, 60, 40, 0.5): (1.0, 0.310761397999, 1.012814592230, 0.310651043815),
    (1.3, 0.7, 12, 5, 8, 0.5): (1.0, 0.633377628014, 1.300490804703, 0.612700272578),
    (1.3, 0.7, 12, 5, 1, 0.5): (0.7, 0.950009556807, 0.397682064457, 0.881566132872),
    (1.3, 0.7, 12, 1, 3, 0.5): (0.7, 0.938207217034, 1.351543763717, 0.919499233767),
}


@pytest.mark.parametrize("case", SINGLE)
def test_one_layer_is_exact(case):
    nu, beta, dim, width, context, noise = case
    gamma, value, best, least = SINGLE[case]
    task = deep.RotatedStructure(nu, beta, dim, width, context, noise)
    portion = width / dim
    assert deep.loss(task, gamma=gamma * portion).item() == pytest.approx(value, abs=6e-13)
    found = deep.optimum(task)
    assert found.gamma.item() == pytest.approx(best * portion, abs=6e-13)
    assert found.loss.item() == pytest.approx(least, abs=6e-13)


@pytest.mark.parametrize("noise", [0.0, 0.7])
@pytest.mark.parametrize("context", [1, 7, 200, None])
def test_one_layer_is_the_same_with_one_covariance_and_with_rotated_ones(context, noise):
    """At Γ = γI nothing tells a rotation from none."""
    law = {"nu": 1.3, "beta": 0.8, "dim": 23, "context": context, "noise": noise}
    for gamma in (0.0, 0.3, 1.7):
        fixed, rotated = (
            deep.loss(kind(**law), gamma=gamma).item()
            for kind in (deep.FixedStructure, deep.RotatedStructure)
        )
        assert rotated == pytest.approx(fixed, rel=1e-14)


@pytest.mark.parametrize("width", [None, 20])
def test_gradient_in_gamma(width):
    task = law(40, width, 30)
    grad = jax.jit(jax.grad(lambda g: deep.loss(task, gamma=g, depth=8)))
    for gamma in (0.5, 6.0):
        h = 1e-3 * gamma
        around = deep.loss(task, gamma=gamma + h * np.array([-2.0, -1.0, 1.0, 2.0]), depth=8)
        finite = (np.asarray(around) @ np.array([1.0, -8.0, 8.0, -1.0])) / (12.0 * h)
        assert grad(jnp.asarray(gamma)).item() == pytest.approx(finite, rel=1e-5)


def test_jitted_is_eager_and_a_batch_is_its_parts():
    task = law(40, 20, 30)
    gammas = jnp.asarray(np.geomspace(0.1, 12.0, 7))
    eager = deep.loss(task, gamma=gammas, depth=8)
    jitted = jax.jit(lambda g: deep.loss(task, gamma=g, depth=8))(gammas)
    np.testing.assert_allclose(jitted, eager, rtol=1e-12)
    np.testing.assert_allclose(deep.loss(task, gamma=gammas[3], depth=8), eager[3], rtol=1e-12)


def test_beyond_the_edge_of_stability_the_value_is_right_or_refused():
    task = law(40, None, 30)
    edge = deep.edge(task).item()
    loss = deep.loss(task, step_size=3.0 / edge, depth=[4, 16])
    m, depths = Medium.of(task.spectrum, None, 30), np.array([4.0, 16.0])
    finer = at(m, 3.0 * depths / edge, depths, finer=2.0)[0]
    np.testing.assert_allclose(loss, finer, rtol=1e-9)
    assert float(loss[1]) > 1e3
    assert np.isfinite(deep.loss(task, step_size=3.0 / edge, depth=400))
    with pytest.raises(ValueError, match=r"gamma must be at most .* at depth 1000"):
        deep.loss(task, step_size=3.0 / edge, depth=1000)
    with pytest.raises(ValueError, match=r"gamma must be at most .* at depth 4096"):
        deep.loss(law(40), gamma=1e5, depth=4096)


def test_the_old_name_of_the_step_size_is_told_and_still_taken():
    task = law(40, None, 30)
    for ask in (deep.loss, lambda task, **at: deep.draw_spectra(task, 3, seed=0).loss(**at)):
        with pytest.warns(DeprecationWarning, match="step is now called step_size"):
            old = ask(task, step=0.6, depth=[1, 4])
        np.testing.assert_array_equal(old, ask(task, step_size=0.6, depth=[1, 4]))
        with (
            pytest.warns(DeprecationWarning, match="step is now called"),
            pytest.raises(ValueError, match="step_size and step, its old name, cannot both"),
        ):
            ask(task, step=0.6, step_size=0.6)
