"""The two-point deterministic equivalent: known numbers, drawn contexts, exact limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solvable import deep_icl as deep
from solvable.deep_icl.theory import Medium, totals

pytestmark = pytest.mark.slow

DEPTHS = [1, 2, 4, 8, 16, 32]
# Losses at (width, context, step) of D = 200, ν = 1.25, β = 1.
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


def law(dim, width=None, context=None, nu=1.25, beta=1.0, **more):
    return deep.RotatedStructure(nu=nu, beta=beta, dim=dim, width=width, context=context, **more)


@pytest.mark.parametrize(("width", "context", "step"), KNOWN)
def test_known_losses_to_all_their_digits(width, context, step):
    found = deep.loss(law(200, width, context), step_size=step, depth=DEPTHS)
    agree(found, KNOWN[width, context, step])


def test_a_step_size_is_gamma_over_depth():
    task = law(40, 20, 30)
    by_step_size = deep.loss(task, step_size=0.6, depth=[1, 8])
    each = [deep.loss(task, gamma=0.6 * d, depth=d) for d in (1, 8)]
    np.testing.assert_allclose(jnp.stack(each), by_step_size, rtol=1e-9)


def test_known_parts_of_the_noise():
    noisy = law(200, None, 100, noise=0.2**0.5)
    found = deep.loss(noisy, step_size=0.6, depth=[1, 4, 32])
    silent = deep.loss(law(200, None, 100), step_size=0.6, depth=[1, 4, 32])
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


def test_more_points_change_nothing():
    task = law(40, 20, 30)
    few = deep.loss(task, step_size=2.0, depth=[4, 16], points=64)
    many = deep.loss(task, step_size=2.0, depth=[4, 16], points=512)
    np.testing.assert_allclose(few, many, rtol=1e-9)


def test_full_width_and_endless_contexts_are_the_sum_over_eigenvalues():
    """The formulas for N < D and finite P, taken to N = D and P = ∞, against the plain sum."""
    task = law(30)
    for width, spread in ((30.0 - 1e-9, 0.0), (30.0 - 1e-9, 1e-13)):
        m = Medium(task.lam, task.share, jnp.ones(30), jnp.asarray(width), jnp.asarray(spread))
        steps, depths = jnp.asarray([0.3, 1.2]), jnp.asarray([1.0, 4.0, 9.0])
        found, residual = totals(
            m, jnp.asarray(0.0), steps, depths, points=64, narrow=True, noisy=False
        )
        exact = deep.loss(task, step_size=steps, depth=[1, 4, 9])
        np.testing.assert_allclose(found, exact, rtol=1e-8)
        assert float(residual) < 1e-12


def test_flat_spectra_are_isotropic():
    """At N = D the law of Λ̂ is Marchenko and Pastur's."""
    flat = deep.RotatedStructure(lam=np.ones(40), omega=np.full(40, 1 / 40), context=80)
    found = deep.loss(flat, gamma=[1.0, 3.0], depth=[1, 4])
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
    limit = deep.loss(task, gamma=20.0, depth=None).item()
    options = {"gamma": 20.0, "points": 1024}
    gaps = [deep.loss(task, depth=d, **options).item() - limit for d in (128, 256)]
    assert gaps[0] / gaps[1] == pytest.approx(2.0, rel=0.01)  # 1/L
    assert abs(gaps[1]) < 1e-3 * limit


def test_bins_of_equal_directions_are_as_good_as_the_directions():
    lam, share = np.repeat([1.0, 0.3, 0.1], 8), np.repeat([0.05, 0.05, 0.025], 8)
    numbers = jnp.asarray(14.0), jnp.asarray(1.0 / 30.0)
    whole = Medium(jnp.asarray(lam), jnp.asarray(share), jnp.ones(24), *numbers)
    three = jnp.asarray([1.0, 0.3, 0.1]), jnp.asarray([0.4, 0.4, 0.2]), jnp.full(3, 8.0)
    options = {"points": 64, "narrow": True, "noisy": False}
    steps, depths = jnp.asarray([0.5]), jnp.asarray([1.0, 8.0])
    one = totals(whole, jnp.asarray(0.0), steps, depths, **options)[0]
    two = totals(Medium(*three, *numbers), jnp.asarray(0.0), steps, depths, **options)[0]
    np.testing.assert_allclose(one, two, rtol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "context", "step"), [(None, 60, 0.6), (40, None, 2.0), (40, 60, 1.2), (80, 200, 1.0)]
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
        # Directions that count for nothing fill up to one shape, which compiles once.
        lam, share, weight = (
            np.pad(x, (0, 512 - dim)) for x in (task.lam, task.share, np.ones(dim))
        )
        numbers = jnp.asarray(float(dim)), jnp.asarray(2.0 / dim)
        padded = Medium(jnp.asarray(lam), jnp.asarray(share), jnp.asarray(weight), *numbers)
        options = {"points": 64, "narrow": False, "noisy": False}
        steps, depths = jnp.asarray([0.6]), jnp.asarray([1.0])
        found = totals(padded, jnp.asarray(0.0), steps, depths, **options)[0].item()
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


def test_width_at_one_layer_is_nearly_the_exact_mean_over_projectors():
    """E ΠAΠ of Haar projectors: c₁ A + c₂ Tr A."""
    dim, n = 200, 60
    task = law(dim, n)
    lam, share = np.asarray(task.lam), np.asarray(task.share)
    common = dim * (dim - 1.0) * (dim + 2.0)
    c1, c2 = n * (n * dim + dim - 2.0) / common, n * (dim - n) / common
    exact = (
        share.sum()
        - 2.0 * (n / dim) * (share @ lam)
        + c1 * (share @ lam**2)
        + c2 * lam.sum() * (share @ lam)
    )
    assert deep.loss(task, gamma=1.0, depth=1).item() == pytest.approx(exact, rel=2.0 / n / 10)


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
    many = deep.loss(task, step_size=3.0 / edge, depth=[4, 16], points=256)
    np.testing.assert_allclose(loss, many, rtol=1e-8)
    assert float(loss[1]) > 1e3
    assert np.isfinite(deep.loss(task, step_size=3.0 / edge, depth=400))
    with pytest.raises(ValueError, match=r"step_size must be at most .* at depth 1000"):
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
