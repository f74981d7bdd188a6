"""Edges: several minima, losses below round-off, numbers that JAX traces, one direction."""

import math
import warnings

import jax
import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp

from solvable import deep_icl as deep
from solvable.deep_icl.theory import batch_floor


def landscape(alpha, noise, depth, step_sizes):
    """The isotropic loss by the arcsine substitution: the mean over Marchenko and Pastur's law."""
    angle = (np.arange(20_000) + 0.5) * math.pi / 20_000
    lam = 1.0 + 1.0 / alpha + 2.0 / math.sqrt(alpha) * np.cos(angle)
    weight = 2.0 / 20_000 * np.sin(angle) ** 2 / lam
    left = (1.0 - step_sizes[:, None] * lam) ** depth
    value = left**2 + noise**2 / (alpha * lam) * (1.0 - left) ** 2
    return value @ weight + max(1.0 - alpha, 0.0)


@pytest.mark.parametrize(
    ("alpha", "noise", "depth"),
    [(0.1, 1.0, 4), (0.1, 10.0, 256), (0.5, 3.0, 64), (2.0, 3.0, 256), (0.01, 0.3, 2), (3, 5, 6)],
)
def test_noise_gives_several_minima_of_which_the_best_is_found(alpha, noise, depth):
    task = deep.Isotropic(alpha, noise)
    found, edge = deep.optimum(task, depth), deep.edge(task).item()
    steps = np.geomspace(1e-7, 2.05 / edge, 3000)
    least = landscape(alpha, noise, depth, steps).min()
    assert found.loss == pytest.approx(least, rel=2e-6)
    assert found.loss <= least * (1.0 + 1e-9)
    traced = jax.jit(lambda noise: deep.optimum(deep.Isotropic(alpha, noise), depth).loss)(noise)
    assert traced == pytest.approx(found.loss.item(), rel=1e-12)
    # The flow stops there, and not further on.
    assert deep.gamma_curve(task, 1e6, depth) == pytest.approx(found.gamma.item(), rel=1e-9)


def test_hardly_any_noise_moves_the_minimum_far_out():
    best = deep.optimum(deep.Isotropic(1.0, 1e-9), None)
    assert 0.0 < best.loss < 2e-9
    assert deep.optimum(deep.Isotropic(2.0, 0.1), 10**6).loss == pytest.approx(0.00990174434)


def test_a_flow_may_start_below_zero():
    task = deep.RotatedStructure(1.3, 0.8, 12)
    slope = jax.jit(jax.grad(lambda g: deep.loss(task, gamma=g, depth=3)))
    found = solve_ivp(lambda _, g: [-slope(g[0]).item()], (0.0, 2.0), [-1.5], rtol=1e-9, atol=1e-11)
    here = deep.gamma_curve(task, 2.0, 3, start=deep.Init(gamma=-1.5))
    assert here == pytest.approx(found.y[0, -1], rel=1e-6)


@pytest.mark.parametrize("depth", [2, 4, 8])
@pytest.mark.parametrize("context", [10**3, 10**6, 10**12])
def test_a_loss_below_round_off_is_still_a_number(context, depth):
    best = deep.optimum(deep.FixedStructure(1.0, 1.0, 5, context=context), depth)
    assert 0.0 <= best.loss < 20.0 * context ** (-depth / 2.0) + 1e-15
    np.testing.assert_allclose(best.gamma * np.arange(1, 6) ** -1.0, depth, rtol=0.5)


NARROW = {"nu": 1.25, "beta": 0.8, "dim": 60, "width": 20, "context": 30}


def test_endless_depth_of_a_traced_gamma_is_right_or_no_number():
    task = deep.RotatedStructure(**NARROW, noise=0.2)
    traced = jax.jit(lambda gamma: deep.loss(task, gamma=gamma, depth=None))
    for gamma in (1e-3, 1.0, 30.0, 300.0):
        known = deep.loss(task, gamma=gamma, depth=None)
        assert traced(gamma) == pytest.approx(known.item(), rel=1e-12)
    assert np.isnan(traced(5000.0))
    fixed = deep.FixedStructure(1.25, 0.8, 12, context=9)
    assert np.isnan(jax.jit(lambda g: deep.loss(fixed, gamma=g, depth=None))(2000.0))


def test_a_traced_optimum_may_be_far_below_the_edge():
    def best(nu):
        task = deep.RotatedStructure(nu, 0.8, 30, width=20, context=10, noise=1000.0)
        return deep.optimum(task, 1000).loss

    assert jax.jit(best)(1.2) == pytest.approx(best(1.2).item(), rel=1e-12)


@pytest.mark.parametrize("depth", [3, None])
def test_slopes_in_the_noise(depth):
    def value(noise):
        task = deep.RotatedStructure(**NARROW, noise=noise)
        return deep.loss(task, gamma=1.0, depth=depth)

    by_hand = (value(0.2 + 1e-4) - value(0.2 - 1e-4)) / 2e-4
    assert jax.jit(jax.grad(value))(0.2) == pytest.approx(by_hand.item(), rel=1e-6)


def test_deep_optima_of_many_directions():
    task = deep.RotatedStructure(1.25, 0.8, 10**14, width=256)
    assert deep.optimum(task, 2048).loss == pytest.approx(
        deep.floor(task, "width").item(), rel=1e-6
    )


@pytest.mark.parametrize("count", [19_999.0, 19_999.9, 0.01, 3.0])
def test_a_level_keeps_its_digits_next_to_both_ends(count):
    lam = np.arange(1.0, 20_001.0) ** -1.25
    z = deep.Spectrum.power(1.25, 0.8, 20_000).level(count).item()
    assert math.fsum(lam / (lam + z)) == pytest.approx(count, rel=1e-13)
    assert math.fsum(z / (lam + z)) == pytest.approx(20_000 - count, rel=1e-13)


@pytest.mark.parametrize(
    ("cost", "dim", "budget"),
    [("t*N", 10**6, 1e3), ("t*N", 100, 1e3), ("t+N*10", 100, 1e3), ("t*N*P", 100, 1e3)],
)
def test_a_shape_of_endless_depth_has_the_loss_of_its_curve(cost, dim, budget):
    shape = deep.optimal_shape(budget, nu=1.25, beta=0.8, cost=cost, dim=dim)
    assert (shape.method, shape.depth) == ("exact", math.inf)
    width, context = (None if math.isinf(x) else int(x) for x in (shape.width, shape.context))
    loss = []
    for n in (0.8, 1.0, 1.25):  # N is near its best, all of the budget spent
        wide = round(n * width)
        t = {"t*N": budget / wide, "t+N*10": budget - 10 * wide}.get(cost)
        t = budget / (wide * context) if t is None else t
        task = deep.RotatedStructure(1.25, 0.8, dim, width=min(wide, dim), context=context)
        loss.append(deep.loss_curve(task, t, 256).item())
    assert loss[1] == pytest.approx(shape.loss, rel=1e-9)
    assert loss[1] <= min(loss) * (1.0 + 1e-9)


def test_a_turn_that_overflows_is_infinite():
    task = deep.FixedStructure(1.2, 0.8, 12)
    assert deep.shifted_loss(task, 0.5, [1000, 10_000]).tolist() == [math.inf, math.inf]
    spectra = deep.draw_spectra(deep.RotatedStructure(1.25, 0.8, 4, context=3), 2)
    assert np.all(np.isinf(spectra.loss(gamma=1e6, depth=[100, 1001])))


def test_one_direction_has_a_batch_floor():
    """‖∇𝓛_c‖² = 4x²(1 − γx²)²: of one token, γ* = 1/3, its mean is 4 E[x⁴(1 − x²/3)²]."""
    task = deep.RotatedStructure(1.25, 0.8, 1, context=1)
    normal = [
        quad(lambda x, p=p: x**p * math.exp(-(x**2) / 2) / math.sqrt(2 * math.pi), -12, 12)[0]
        for p in (4, 6, 8)
    ]
    mean = 4.0 * (normal[0] - 2.0 / 3.0 * normal[1] + normal[2] / 9.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = batch_floor(task, 1, lr=0.01, contexts=4)
    assert found.loss == pytest.approx(0.01 * mean / 16.0, rel=1e-9)


@pytest.mark.parametrize(("alpha", "noise"), [(1e8, 1e-5), (30.0, 1e-6), (1e8, 1.0)])
def test_untied_layers_under_little_noise_keep_their_digits(alpha, noise):
    best = deep.untied_optimum(deep.Isotropic(alpha, noise), [1, 2, 4])
    tied = deep.optimum(deep.Isotropic(alpha, noise), [1, 2, 4])
    assert np.all(best.loss >= best.bound)
    np.testing.assert_allclose(best.loss, best.bound, rtol=1e-6)
    assert np.all(best.loss <= tied.loss * (1.0 + 1e-12))


@pytest.mark.parametrize("alpha", [0.25, 1.0, 4.0])
def test_slopes_where_a_factor_is_zero(alpha):
    """At γ = α/(1+α) one node of ISO has 1 − γλ = 0; 𝓛 of one layer is known by moments."""
    noise, gamma = 0.4, alpha / (1.0 + alpha)
    task = deep.Isotropic(alpha, noise)
    bend = 2.0 * (1.0 + (1.0 + noise**2) / alpha)

    def value(g):
        return deep.loss(task, gamma=g, depth=1)

    assert jax.jit(jax.grad(value))(gamma) == pytest.approx(bend * gamma - 2.0, rel=1e-12)
    assert jax.jit(jax.grad(jax.grad(value)))(gamma) == pytest.approx(bend, rel=1e-12)
    run = deep.train(task, deep.Init(gamma=gamma), depth=1, lr=0.1, steps=1, log_every=1)
    assert run.gamma[-1] == pytest.approx(gamma - 0.1 * (bend * gamma - 2.0), rel=1e-12)


@pytest.mark.parametrize(("depth", "shape"), [(1, 2.0), (2, 0.0)])
def test_second_slopes_of_a_fixed_structure_at_its_optimum(depth, shape):
    """Σ a (1 − γλ/L)^2L at γ = L/λ: 2aλ² for one layer, 0 for more."""
    task = deep.FixedStructure(1.25, 0.8, 3)
    found = jax.jit(jax.hessian(lambda g: deep.loss(task, gamma=g, depth=depth)))(depth / task.lam)
    np.testing.assert_allclose(
        found, np.diag(shape * np.asarray(task.share) * np.asarray(task.lam) ** 2), atol=1e-15
    )


def test_the_edge_of_endless_contexts_has_slopes():
    def top(scale):
        return deep.edge(
            deep.RotatedStructure(lam=scale * np.asarray([2.0, 1.0]), omega=[1.0, 1.0])
        )

    assert jax.jit(jax.grad(top))(1.5) == pytest.approx(2.0)


@pytest.mark.parametrize("omega", [[1.0, 1.0], [1.0, 0.0]])
def test_an_optimum_of_one_eigenvalue_is_traced(omega):
    """γ* = L/λ, where 𝓛 and all its slopes up to 2L − 1 are 0."""

    def best(scale):
        lam = scale * np.asarray([1.0, 1.0 if omega[1] else 0.5])
        return deep.optimum(deep.RotatedStructure(lam=lam, omega=omega), 4).gamma

    assert jax.jit(best)(1.3) == pytest.approx(4.0 / 1.3)
    assert jax.jit(jax.grad(best))(1.3) == pytest.approx(-4.0 / 1.3**2)


@pytest.mark.parametrize(("dim", "depth"), [(1, 50), (1, 512), (2, 512), (20, 512)])
def test_an_optimum_is_found_where_the_loss_underflows(dim, depth):
    """Of two eigenvalues ``a₁λ₁ r₁^(2L−1) = −a₂λ₂ r₂^(2L−1)``; of many, between extreme ones."""
    task = deep.RotatedStructure(0.01 if dim == 20 else 1.25, 0.5, dim)
    lam, pull = np.asarray(task.lam), np.asarray(task.share) * np.asarray(task.lam)
    gamma = float(deep.optimum(task, depth).gamma)
    rest = 1.0 - gamma * lam / depth
    part = rest / np.abs(rest).max() if dim > 1 else rest
    assert abs(np.sum(pull * np.sign(part) * np.abs(part) ** (2 * depth - 1))) < 1e-10


@pytest.mark.parametrize("more", [{"context": 17, "noise": 0.4}, {"width": 9, "context": 9}])
def test_untied_layers_do_not_know_the_scale_of_a_spectrum(more):
    k = np.arange(1.0, 25.0)
    lam, omega = k**-1.25, k**-0.75 / np.sum(k**-2.0)
    found = [
        deep.untied_optimum(deep.RotatedStructure(lam=lam * c, omega=omega / c, **more), 8).loss
        for c in (1.0, 1e-6, 1e15)
    ]
    np.testing.assert_allclose(found, found[0], rtol=1e-10)


@pytest.mark.parametrize("scale", [2.0**-60, 2.0**50])
def test_drawn_contexts_and_untied_flows_do_not_know_the_scale_of_a_spectrum(scale):
    k = np.arange(1.0, 13.0)
    lam, omega = k**-1.3, k**-0.9 / np.sum(k**-2.2)
    found = []
    for c in (1.0, scale):
        spectrum = {"lam": c * lam, "omega": omega / c}
        drawn = deep.draw_spectra(deep.RotatedStructure(**spectrum, width=7, context=5), 20)
        depths = [1, 4, None]
        values = [drawn.loss(gamma=1.5 / c, depth=depths).ravel()]
        if c >= 1.0:  # γ of a start is at most 1e12
            start = deep.Init(gamma=np.array([0.0, 1e-3]) / c)
            task = deep.RotatedStructure(**spectrum)
            values.append(deep.untied_curve(task, np.array([1.0, 1e4]) / c**2, start=start).loss)
        found.append(values)
    for one, scaled in zip(*found, strict=False):
        np.testing.assert_allclose(scaled, one, rtol=1e-9)


def test_untied_layers_do_not_know_the_size_of_the_task():
    k = np.arange(1.0, 41.0)
    best = [
        deep.untied_optimum(deep.RotatedStructure(lam=k**-1.25, omega=c * k**-0.75), [1, 4, 16])
        for c in (1.0, 1e-60)
    ]
    np.testing.assert_allclose(best[1].loss, 1e-60 * best[0].loss, rtol=1e-12)


@pytest.mark.parametrize(
    ("alpha", "noise", "layers"),
    [
        (4.0, 0.5, [3.674, 3.6741, 4.1692, 4.1693, 6.2066, 6.2066, 12.7755, 12.7755, 64.2, 64.2]),
        (10.0, 1.0, [3.7135, 3.7135, 3.7135, 3.7135, 18.7182, 18.7182]),
    ],
)
def test_untied_layers_under_noise_are_no_worse_than_known_ones(alpha, noise, layers):
    """Found by many random searches: pairs, where a search from equal layers stays."""
    task = deep.Isotropic(alpha, noise)
    best = deep.untied_optimum(task, len(layers))
    assert best.loss <= deep.untied_loss(task, layers)
    assert best.loss < 0.995 * deep.optimum(task, len(layers)).loss


@pytest.mark.parametrize(
    ("task", "gamma"),
    [
        (deep.RotatedStructure(1.25, 0.8, 1), 256.0),
        (deep.Isotropic(1e6), 256.0),
    ],
)
def test_a_flow_that_has_nothing_left_to_learn_stays(task, gamma):
    start = deep.Init(gamma=gamma)
    np.testing.assert_array_equal(deep.gamma_curve(task, [0.0, 1.0], 512, start=start), gamma)


def test_no_times_have_no_losses():
    assert deep.loss_curve(deep.RotatedStructure(**NARROW), [], [1, 2]).shape == (0, 2)


def test_directions_without_a_task_are_told_nothing():
    task = deep.FixedStructure(lam=[1.0, 0.5, 0.2], omega=[1.0, 0.0, 2.0], context=5)
    gamma = deep.optimum(task, 4).gamma
    assert gamma[1] < 1e-10 < 1.0 < gamma[0] < gamma[2]


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (
            lambda: deep.gamma_curve(
                deep.Isotropic(1.0), [0.0, 1.0], None, start=deep.Init(gamma=-200.0)
            ),
            "start must be where the loss is a number, not at γ = -200",
        ),
        (
            lambda: deep.untied_loss(deep.RotatedStructure(1.25, 0.8, 9), [1e100] * 8),
            "gamma must be smaller: the loss overflows",
        ),
        (
            lambda: deep.Spectrum.given([1.0, 2.0], [1.0, 1.0], weight=[1.5, 1.0]),
            "weight must be a whole number, from 1 to 1000000000000000, not 1.5",
        ),
        (lambda: deep.RotatedStructure(lam=[1.0, 0.5], omega=[0.0, 0.0]), "omega must be above 0"),
        (
            lambda: deep.loss_curve(deep.RotatedStructure(**NARROW), 1.0, None),
            "depth must be finite for a flow",
        ),
        (
            lambda: deep.shifted_loss(deep.FixedStructure(1.2, 0.8, 12, context=4), 0.1),
            "context must be None for the loss after a turn, not 4",
        ),
        (
            lambda: deep.untied_optimum(deep.RotatedStructure(1.2, 0.8, 12), 2000),
            "from 1 to 1024, not 2000",
        ),
    ],
)
def test_what_cannot_be_answered_says_so(ask, words):
    with pytest.raises(ValueError, match=words):
        ask()


@pytest.mark.parametrize("scale", [1e-110, 1e-80, 1e79])
def test_one_layer_does_not_know_the_scale_of_a_spectrum(scale):
    def of(unit):
        return deep.RotatedStructure(lam=[unit, 0.4 * unit], omega=[1.0, 1.0], width=1)

    one, other = deep.optimum(of(1.0), 1), deep.optimum(of(scale), 1)
    np.testing.assert_allclose(other.gamma * scale, one.gamma, rtol=1e-14)
    np.testing.assert_allclose(other.loss / scale, one.loss, rtol=1e-14)
    here = deep.loss(of(scale), gamma=0.7 / scale, depth=1) / scale
    np.testing.assert_allclose(here, deep.loss(of(1.0), gamma=0.7, depth=1), rtol=1e-14)


def test_an_optimum_may_be_as_far_from_its_limits_as_the_spectrum_allows():
    best = deep.optimum(deep.RotatedStructure(lam=[1e100, 1.0], omega=[1e100, 1.0], context=3), 1)
    # ℓ = 1e300 and Q = 5/3 · 1e400, by the moments of Gaussian tokens.
    np.testing.assert_allclose([best.gamma, best.loss], [6e-101, 4e199], rtol=1e-14)


@pytest.mark.parametrize(
    ("lam", "omega"), [([1e25, 1.0], [1e-25, 1.0]), ([1e10, 1e-10], [1e-10, 1e10])]
)
def test_the_flow_of_endless_depth_waits_for_the_slowest_direction(lam, omega):
    task = deep.RotatedStructure(lam=lam, omega=omega)
    unit = 1.0 / (omega[1] * lam[1] ** 3)
    t = unit * np.asarray([0.1, 1.0, 10.0, 1e3])
    # The other one is spent: what is left is one direction, of which 𝓛 = a/(1 + 4ωλ³t).
    told = omega[1] * lam[1] / (1.0 + 4.0 * t / unit)
    np.testing.assert_allclose(deep.loss_curve(task, t, None), told, rtol=1e-12)


def test_the_flow_of_isotropic_endless_depth_is_right_or_refused():
    early, late = np.asarray(deep.loss_curve(deep.Isotropic(1.0), [1e30, 1e40], None))
    assert late / early == pytest.approx(1e-2, rel=1e-6)  # t^-1/5
    with pytest.raises(ValueError, match=r"t must be at most 8\.9.e\+43 at endless depth"):
        deep.loss_curve(deep.Isotropic(1.0), 1e60, None)


def test_a_narrow_spectrum_under_little_noise_has_many_minima_close_by():
    task = deep.Isotropic(1e4, noise=0.115)
    # The first zero of 30-digit quadrature's slope; a ratio of 1.03 jumps over it.
    assert float(deep.optimum(task, 4).gamma) == pytest.approx(3.9071563653234, rel=1e-12)
    traced = jax.jit(lambda noise: deep.optimum(deep.Isotropic(1e4, noise=noise), 4).gamma)
    assert float(traced(0.115)) == pytest.approx(3.9071563653234, rel=1e-12)


@pytest.mark.parametrize("rate", [1e-9, 1e-12, 1e-17])
def test_the_floor_of_sgd_keeps_its_digits_at_small_rates(rate):
    found = deep.sgd_curve(deep.Isotropic(1.0), lr=rate, steps=2, batch=1.0, queries=4.0)
    with mp.workdps(60):
        eta, c, more = mp.mpf(rate), 2, 1 + mp.mpf(1) / 4
        floor = eta**2 * more * (c - 1) / (1 - (1 - eta * c) ** 2 - eta**2 * more * c**2)
    assert float(found.floor) == pytest.approx(float(floor), rel=1e-14)


def test_what_diverges_under_sgd_is_infinite_everywhere():
    found = deep.sgd_curve(deep.Isotropic(2.0), lr=5.0, steps=3000, batch=1e9, queries=1e9)
    assert found.far_loss[-1] == np.inf
    assert not np.any(np.isnan(found.far_loss))


HUGE = {"context": 10**12}


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: deep.optimum(narrow(), 2, margin=[1.0, 2.0]), "margin must be a single number"),
        (
            lambda: deep.draw_spectra(deep.RotatedStructure(1.3, 0.8, 1, **HUGE), 1),
            "context must be smaller than 1000000000000",
        ),
        (
            lambda: deep.sample(deep.RotatedStructure(1.3, 0.8, 1, **HUGE), 1),
            "context must be smaller than 1000000000000",
        ),
        (
            lambda: deep.batch_floor(narrow(), 2, lr=0.1, contexts=1, drawn=1),
            "drawn must be a whole number, from 2 to",
        ),
        (
            lambda: deep.loss(narrow(context=5, noise=1e6), gamma=1e150),
            "gamma must be smaller: the loss overflows, at 1e\\+150",
        ),
    ],
)
def test_what_is_too_much_is_named(ask, words):
    with pytest.raises(ValueError, match=words):
        ask()


def test_no_gammas_have_no_losses_in_single_contexts():
    assert deep.draw_spectra(narrow(), 3).loss(gamma=[], depth=2).shape == (0, 3)


def narrow(**more):
    return deep.RotatedStructure(1.3, 0.8, 8, width=3, **more)
