"""Layers with a γ each: the best polynomial, its law, and whether training finds it."""

import json
import math
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.optimize import minimize

from solvable import deep_icl as deep
from solvable.deep_icl.laws._untied import untied_depth_law
from solvable.deep_icl.theory import _gram as gram
from solvable.deep_icl.theory import medium_of
from solvable.deep_icl.theory._christoffel import bidiagonal, given_nodes, power_rule
from solvable.deep_icl.theory._untied import untied_curve, untied_loss, untied_optimum

TABLE = json.loads((Path(__file__).parents[1] / "oracles" / "deep_icl_untied.json").read_text())
SPECTRA = sorted({(p["nu"], p["beta"], p["dim"]) for p in TABLE["untied"]})
# The least loss at depths 1, 2, 3, 4, 8, 16, 32, by 80-digit arithmetic.
KNOWN = {
    (1.25, 1.0, 2000): ".167890080622 .0544625990487 .0237402166352 .012269977005 .00202638699991 "
    ".000244919072983 .0000106865608507",
    (
        1.25,
        0.8,
        10**4,
    ): ".225490704557 .0892199163706 .0452386600479 .0264324342243 .00617724919129 "
    ".00119588613508 .000174145577528",
    (1.5, 0.5, 1000): ".34217721788 .176604787326 .108699148513 .0738180402772 .0249595788398 "
    ".00598973489124 .000393715207113",
    (1.5, 0.8, 64): ".201103077873 .0720528834826 .0328600592088 .0169224258616 .00159078898877 "
    ".0000023871669428 .000000000000000400579517846",
}
# Of the equivalent at ν = 1.25, β = .8, D = 128, depths 1, 2, 4, 8, 16, by (width, context).
TYPICAL = {
    (128, 512): ".22501794293 .09285890396 .03845560468 .01294112192 .00299259482",
    (128, 128): ".23431900201 .11074993496 .04749624343 .01989990948 .00862037535",
    (64, None): ".24398319925 .12259736595 .06256541288 .03825214687 .03133743465",
    (64, 128): ".25652467611 .14077210232 .07641654935 .05085618068 .04531542034",
}


def rotated(nu, beta, dim, **more):
    return deep.RotatedStructure(nu=nu, beta=beta, dim=dim, **more)


def agree(found, printed):
    """Equal to every digit that is printed, of which the last may be one off."""
    for value, digits in zip(np.ravel(np.asarray(found)).tolist(), printed.split(), strict=True):
        places = len(digits.partition(".")[2])
        assert abs(value - float(digits)) <= 1.01 * 10.0**-places, (value, digits)


def rows(optimum):
    """γ of every depth, without what fills them up."""
    return [np.asarray(row)[np.isfinite(row)] for row in np.atleast_2d(np.asarray(optimum.gamma))]


# --- all contexts alike


@pytest.mark.parametrize(
    ("nu", "beta", "dim"),
    [pytest.param(*law, marks=[pytest.mark.slow] if law[2] > 5000 else []) for law in SPECTRA],
)
def test_every_depth_keeps_12_digits_of_the_table_down_to_1e_40(nu, beta, dim):
    points = [p for p in TABLE["untied"] if (p["nu"], p["beta"], p["dim"]) == (nu, beta, dim)]
    found = untied_optimum(rotated(nu, beta, dim), [p["depth"] for p in points]).loss.tolist()
    for value, point in zip(found, points, strict=True):
        assert abs(value / float(point["loss"]) - 1.0) < 1e-12, point


def test_the_table_reaches_512_layers_and_tiny_losses():
    assert max(p["depth"] for p in TABLE["untied"]) == 512
    assert min(float(p["loss"]) for p in TABLE["untied"]) < 1e-39


@pytest.mark.parametrize("law", KNOWN)
def test_known_losses_to_all_their_digits(law):
    agree(untied_optimum(rotated(*law), [1, 2, 3, 4, 8, 16, 32]).loss, KNOWN[law])


def test_losses_keep_their_digits_where_they_are_smallest():
    found = untied_optimum(rotated(1.5, 0.8, 64), [48, 56, 60]).loss
    np.testing.assert_allclose(found[:2], [7.365661397e-32, 6.446855169e-43], rtol=1e-9)
    assert found[2] == 0.0


def test_known_layers_to_all_their_digits():
    two, three, four = rows(untied_optimum(rotated(1.25, 1.0, 2000), [2, 3, 4]))
    agree(two, "2.00489175086 6.33354744182")
    agree(three, "3.00010371217 7.38297111576 20.6287457747")
    agree(four, "4.00000097964 9.53719262852 17.8121301538 51.558882335")


def test_the_layers_are_a_minimum_of_the_loss_of_given_layers():
    task = rotated(1.25, 0.8, 300)
    best = untied_optimum(task, 5)
    loss = lambda log_gamma: untied_loss(task, jnp.exp(log_gamma))  # noqa: E731
    place = jnp.log(best.gamma)
    np.testing.assert_allclose(loss(place), best.loss, rtol=1e-12)
    curvature = np.asarray(jax.jit(jax.hessian(loss))(place))
    assert np.linalg.eigvalsh(curvature).min() > 0.0
    # A step of Newton's method would not move them.
    assert np.abs(np.linalg.solve(curvature, jax.jit(jax.grad(loss))(place))).max() < 1e-12


def test_several_depths_at_once_are_those_one_by_one():
    task, depths = rotated(1.25, 0.8, 10**6), [[1, 5], [12, 3]]
    found = untied_optimum(task, depths)
    assert found.gamma.shape == (2, 2, 12)
    assert np.isfinite(found.gamma).sum() == 21
    for row, loss, depth in zip(
        found.gamma.reshape(4, 12), found.loss.ravel(), [1, 5, 12, 3], strict=True
    ):
        one = untied_optimum(task, depth)
        np.testing.assert_allclose(loss, one.loss, rtol=2e-14)
        np.testing.assert_allclose(row[:depth], one.gamma, rtol=1e-11)


def test_directions_in_blocks_are_as_good_as_one_by_one():
    nu, beta, dim, depth = 1.5, 0.6, 50_000, 8
    k = np.arange(1.0, dim + 1.0)
    share = k ** -(nu * beta + 1.0)
    whole = bidiagonal(given_nodes(k**-nu, share / share.sum()), depth)
    found = untied_optimum(rotated(nu, beta, dim), list(range(1, depth + 1)))
    assert power_rule(dim, depth)[0].size < 1000
    np.testing.assert_allclose(found.loss, whole.losses[1:], rtol=1e-13)


def test_as_many_layers_as_eigenvalues_leave_nothing():
    lam, omega = np.array([1.0, 0.5, 0.5, 0.2]), np.array([1.0, 1.0, 2.0, 0.3])
    task = deep.RotatedStructure(lam=lam, omega=omega)
    found = untied_optimum(task, [2, 3, 5])
    assert found.loss[0] > 1e-3
    assert found.loss[1:].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(rows(found)[1], 3.0 / np.array([1.0, 0.5, 0.2]))
    np.testing.assert_allclose(rows(found)[2], [0.0, 0.0, 5.0, 10.0, 25.0])
    assert untied_loss(task, found.gamma[1, :3]) < 1e-30


def test_eigenvalues_that_only_rounding_tells_apart_count_once():
    near = np.nextafter(1.0, 2.0)
    task = deep.RotatedStructure(lam=[1.0, near, 0.5], omega=[1.0, 1.0, 2.0])
    once = deep.RotatedStructure(lam=[1.0, 0.5], omega=[2.0, 2.0])
    np.testing.assert_allclose(
        untied_optimum(task, 1).loss, untied_optimum(once, 1).loss, rtol=1e-14
    )
    assert untied_optimum(task, [2, 3]).loss.max() < 1e-30


def test_rounded_is_the_loss_of_the_layers_as_they_are():
    task = rotated(1.25, 1.0, 200)
    best = untied_optimum(task, [4, 8, 13, 16])
    lam, share, reached = (np.asarray(x) for x in (task.lam, task.share, best.rounded))
    with mp.workdps(60):
        for gamma, rounded in zip(rows(best), reached.tolist(), strict=True):
            true = mpf(0)
            for x, a in zip(lam.tolist(), share.tolist(), strict=True):
                left = mp.fprod(1 - mpf(g) * mpf(x) / len(gamma) for g in gamma.tolist())
                true += mpf(a) * left**2
            assert abs(rounded / true - 1) < 1e-12
    ratio = reached / np.asarray(best.loss)
    assert np.abs(ratio[:2] - 1.0).max() < 1e-12
    assert ratio[2] > 2.0
    assert ratio[3] > 1e10


# --- isotropic covariates


def test_isotropic_layers_have_a_closed_form():
    agree(untied_optimum(deep.Isotropic(0.5), 8).loss, ".500978473581")
    agree(untied_optimum(deep.Isotropic(1.0), 8).loss, ".111111111111")
    agree(untied_optimum(deep.Isotropic(2.0), 8).loss, ".00195694716243")


@pytest.mark.parametrize("alpha", [0.25, 1.0, 3.0])
def test_isotropic_layers_are_the_best_polynomial_in_exact_moments(alpha):
    def narayana(k):
        terms = (
            mp.binomial(k, r) * mp.binomial(k - 1, r) / ((r + 1) * mpf(alpha) ** r)
            for r in range(k)
        )
        return mpf(1) if k == 0 else mp.fsum(terms)

    with mp.workdps(60):
        for depth in (1, 2, 5):
            moments = [narayana(k) for k in range(2 * depth + 1)]
            matrix = mp.matrix(depth, depth)
            for i in range(depth):
                for j in range(depth):
                    matrix[i, j] = moments[i + j + 2]
            right = mp.matrix(moments[1 : depth + 1])
            least = 1 - (right.T * mp.lu_solve(matrix, right))[0]
            found = untied_optimum(deep.Isotropic(alpha), depth).loss.item()
            assert abs(found / least - 1) < 1e-14


@pytest.mark.parametrize("alpha", [0.5, 0.99, 1.0, 1.0001, 2.0, 8.0])
def test_the_loss_of_given_isotropic_layers_sees_deep_polynomials(alpha):
    best = untied_optimum(deep.Isotropic(alpha), [1, 16, 48, 128])
    for gamma, loss in zip(rows(best), best.loss, strict=True):
        np.testing.assert_allclose(untied_loss(deep.Isotropic(alpha), gamma), loss, rtol=2e-13)


def test_isotropic_layers_pass_smoothly_through_equal_length_and_dimension():
    def loss(alpha, depth):
        return untied_optimum(deep.Isotropic(alpha), depth).loss

    for depth in (1, 8, 1000):
        assert abs(jax.grad(loss)(1.0, depth) + depth / (2.0 * (depth + 1.0))) < 1e-13
        for alpha in (
            1.0 - 1e-9,
            1.0 + 1e-9,
            1.0 + 0.0999 / (depth + 1),
            1.0 + 0.1001 / (depth + 1),
        ):
            with mp.workdps(40):
                true = 1 / mp.fsum(mpf(alpha) ** k for k in range(depth + 1))
                slope = -(true**2) * mp.fsum(k * mpf(alpha) ** (k - 1) for k in range(1, depth + 1))
            np.testing.assert_allclose(float(loss(alpha, depth)), float(true), rtol=1e-13)
            np.testing.assert_allclose(jax.grad(loss)(alpha, depth), float(slope), rtol=1e-10)


def test_isotropic_layers_under_jit_and_vmap():
    alphas = np.array([0.3, 1.0, 4.0])
    many = jax.jit(jax.vmap(lambda a: untied_optimum(deep.Isotropic(a), [2, 3])))(alphas)
    for k, alpha in enumerate(alphas.tolist()):
        one = untied_optimum(deep.Isotropic(alpha), [2, 3])
        np.testing.assert_allclose(many.gamma[k], one.gamma, rtol=1e-14)
        np.testing.assert_allclose(many.loss[k], one.loss, rtol=1e-14)


def test_isotropic_noise_has_the_known_bounds():
    for alpha, square, depth, printed, attained in (
        (1.0, 0.01, 4, ".21174243", True),
        (1.0, 0.25, 4, ".39774667", False),
        (2.0, 0.25, 3, ".19706960", True),
        (2.0, 0.25, 8, ".17548771", False),
    ):
        (best,) = gram.noisy_isotropic(alpha, math.sqrt(square), depth).best(depth)
        agree(best.bound, printed)
        assert (best.loss == best.bound) == attained
        closed = gram.isotropic_bound(alpha, math.sqrt(square), depth)
        assert abs(closed - best.bound) < 2e-15


def test_the_bound_of_isotropic_noise_lies_between_no_noise_and_ridge():
    for alpha in (0.3, 1.0, 2.5):
        ridge = deep.ridge_loss(deep.Isotropic(alpha, noise=0.4)).item()
        assert abs(gram.isotropic_bound(alpha, 0.4, 300) - ridge) < 1e-13
        silent = untied_optimum(deep.Isotropic(alpha), 7).loss.item()
        assert abs(gram.isotropic_bound(alpha, 1e-9, 7) - silent) < 1e-14


def test_real_layers_under_noise_are_the_best_of_many_searches():
    task = deep.Isotropic(1.0, noise=0.5)
    best = untied_optimum(task, 4)
    np.testing.assert_allclose(untied_loss(task, best.gamma), best.loss, rtol=1e-12)
    assert gram.isotropic_bound(1.0, 0.5, 4) < best.loss < deep.optimum(task, 4).loss
    slope = jax.jit(jax.value_and_grad(lambda g: untied_loss(task, g)))
    rng = np.random.default_rng(0)
    ends = [minimize(slope, rng.uniform(0.5, 5.0, 4), jac=True).fun for _ in range(8)]
    np.testing.assert_allclose(min(ends), best.loss, rtol=1e-9)


def test_with_enough_noise_the_best_layers_are_tied():
    task = deep.Isotropic(2.0, noise=0.5)
    best, tied = untied_optimum(task, 8), deep.optimum(task, 8)
    np.testing.assert_allclose(best.loss, tied.loss, rtol=1e-10)
    np.testing.assert_allclose(best.gamma, np.full(8, tied.gamma), rtol=1e-4)


def test_no_depth_under_noise_is_worse_than_a_smaller_one_or_than_tied_layers():
    task, depths = deep.Isotropic(2.0, noise=0.1), [8, 16, 32]
    losses = np.asarray(untied_optimum(task, depths).loss)
    assert np.all(np.diff(losses) <= 0.0)
    assert np.all(losses < np.asarray(deep.optimum(task, depths).loss) * (1.0 + 1e-9))
    bounds = np.array([gram.isotropic_bound(2.0, 0.1, d) for d in depths])
    assert np.all(losses > bounds * (1.0 - 1e-12))
    assert np.all(losses < bounds * 1.01)


# --- the law


def test_the_law_has_the_known_constants():
    agree(untied_depth_law(1.25, 0.8).edge, "2.142171104165")
    agree(untied_depth_law(1.5, 0.5).edge, "2.265089372402")
    np.testing.assert_allclose(untied_depth_law(2.0, 1.0).edge, np.pi**2 / 4.0, rtol=1e-14)
    for law, printed in {
        (1.25, 0.8): "2.10939322801",
        (1.5, 0.5): "1.40552794802",
        (1.25, 1.5): "10.3186339011",
        (2.0, 1.0): "4.10529833286",
    }.items():
        agree(untied_depth_law(*law, dim=10**13).amplitude, printed)
    law = untied_depth_law(1.25, 0.8)
    np.testing.assert_allclose(
        [law.exponent, law.shift, law.spread_exponent, law.shape_exponent], [2.6, 1.4, 1.6, 0.625]
    )
    assert abs(law.seated - 0.54) < 5e-3
    assert abs(untied_depth_law(2.0, 1.0).seated - 0.64) < 5e-3


@pytest.mark.parametrize(
    ("law", "printed"),
    [
        ((1.25, 0.8), {1: "1.0414", 4: "1.00734", 8: "1.00229", 16: "1.00063", 32: "1.00016"}),
        ((1.5, 0.5), {4: "1.0021", 32: "1.00004"}),
        ((1.25, 1.5), {4: "1.0323", 32: "1.00087"}),
        ((2.0, 1.0), {4: "1.0146", 32: "1.00039"}),
    ],
)
def test_the_law_is_reached_to_second_order_in_the_inverse_depth(law, printed):
    depths = [*printed, 16, 32]
    ratio = np.asarray(
        untied_optimum(rotated(*law, 10**13), depths).loss / untied_depth_law(*law)(depths)
    )
    agree(ratio[:-2], " ".join(printed.values()))
    order = np.log2((ratio[-2] - 1.0) / (ratio[-1] - 1.0))
    assert abs(order - 2.0) < 0.15


def test_losses_at_endless_directions():
    found = untied_optimum(rotated(1.25, 0.8, 10**13), [4, 32, 128]).loss
    agree(found, ".02649160522 .0002304024665 .000006809773919")


def test_the_law_has_slopes():
    def value(law):
        return untied_depth_law(law[0], law[1])(7.0)

    found, place = jax.jit(jax.grad(value))(np.array([1.3, 0.7])), np.array([1.3, 0.7])
    apart = [(value(place + step) - value(place - step)) / 2e-5 for step in 1e-5 * np.eye(2)]
    np.testing.assert_allclose(found, apart, rtol=1e-8)


def spread(nu, beta, delta, depth):
    """Losses where each of the top 300 eigenvalues is a semicircle of deviation δ, of 9 places."""
    k, weight = power_rule(10**13, max(depth, 20))
    lam, share = k**-nu, weight * k ** -(nu * beta + 1.0)
    angle = np.pi * np.arange(1.0, 10.0) / 10.0
    places = lam[:300, None] * (1.0 + 2.0 * delta * np.cos(angle))
    parts = share[:300, None] * 0.2 * np.sin(angle) ** 2
    nodes = given_nodes(
        np.concatenate([places.ravel(), lam[300:]]), np.concatenate([parts.ravel(), share[300:]])
    )
    return bidiagonal(nodes, depth).losses / np.sum(nodes.share)


def test_any_spread_of_the_top_eigenvalues_cuts_the_exponent():
    exact = spread(1.25, 0.8, 0.0, 32)
    np.testing.assert_allclose(
        exact[[4, 8, 16, 32]], [2.65e-2, 6.24e-3, 1.26e-3, 2.30e-4], rtol=5e-3
    )
    wide = spread(1.25, 0.8, 1e-3, 32)[[4, 8, 16, 32]]
    np.testing.assert_allclose(wide, [2.86e-2, 1.04e-2, 3.35e-3, 1.05e-3], rtol=5e-3)
    single = spread(1.25, 0.8, 6e-8, 32)[[4, 8, 16, 32]]
    np.testing.assert_allclose(single, [2.65e-2, 7.96e-3, 1.99e-3, 5.95e-4], rtol=5e-3)
    slopes = np.log2(wide[:-1] / wide[1:])
    assert np.all(slopes > 1.3)
    assert np.all(slopes < 1.9)  # 2β = 1.6, far from (2+ν)β = 2.6
    assert np.log2(exact[16] / exact[32]) > 2.4


# --- finite width and context


@pytest.mark.parametrize("law", TYPICAL)
def test_known_losses_of_the_typical_context(law):
    width, context = law
    task = rotated(1.25, 0.8, 128, width=width, context=context)
    form = gram.equivalent_form(medium_of(task), 0.0, 16)
    layers = form.best(1, 2, 4, 8, 16)
    agree([each.bound for each in layers], TYPICAL[law])
    best = untied_optimum(task, [1, 2, 4, 8, 16])
    # G's condition is up to 6e5: its least loss has ten digits.
    np.testing.assert_allclose(np.asarray(best.rounded), best.loss, rtol=1e-10)
    assert np.all(np.diff(np.asarray(best.loss)) < 0.0)
    np.testing.assert_allclose(best.loss[0], deep.optimum(task, 1).loss, rtol=1e-13)
    assert (layers[-1].loss > layers[-1].bound) == (law == (64, 128))
    assert layers[-1].loss < 1.001 * layers[-1].bound


def test_known_layers_of_the_typical_context():
    task = rotated(1.25, 0.8, 128, width=64)
    found = np.asarray(untied_optimum(task, 4).gamma)
    agree(found * 128 / 64, "7.103246 8.329352 18.92355 57.345462")


def test_equal_layers_have_the_loss_of_tied_ones():
    task = rotated(1.25, 1.0, 60, width=25, context=40, noise=0.5)
    form = gram.equivalent_form(medium_of(task), 0.5, 6)
    for depth, gamma in ((2, 1.0), (4, 3.0), (6, 5.0)):
        tied = deep.loss(task, gamma=gamma, depth=depth).item()
        np.testing.assert_allclose(form.at(np.full(depth, gamma)), tied, rtol=1e-10)
    assert untied_optimum(task, 6).loss < deep.optimum(task, 6).loss


def brute(task, gammas, count, seed):
    """``Tr Ω p(M)ᵀ Λ p(M)`` of contexts that are drawn here, with matrices."""
    rng, dim = np.random.default_rng(seed), task.dim
    lam, omega = np.asarray(task.lam), np.asarray(task.omega)
    found = np.zeros((len(gammas), count))
    for c in range(count):
        x = rng.standard_normal((task.context, dim)) * np.sqrt(lam)
        frame = np.linalg.qr(rng.standard_normal((dim, task.width)))[0]
        m = dim / task.width * frame @ frame.T @ (x.T @ x) / task.context
        for k, gamma in enumerate(gammas):
            left = np.eye(dim)
            for g in gamma:
                left = left - g / len(gamma) * m @ left
            found[k, c] = np.sum(omega * np.sum(left * (lam[:, None] * left), axis=0))
    return found


def test_layers_for_the_mean_have_the_mean_of_other_contexts():
    task = rotated(1.25, 0.8, 32, width=20, context=40)
    with pytest.warns(UserWarning, match="few of the fresh contexts own the mean"):
        safe = untied_optimum(task, [2, 6], contexts=1500, seed=3)
    losses = brute(task, rows(safe), 1500, 0)
    apart = losses.mean(axis=1) - np.asarray(safe.loss)
    error = np.hypot(losses.std(axis=1) / np.sqrt(1500), np.asarray(safe.error))
    assert np.abs(apart / error).max() < 4.0
    np.testing.assert_allclose(np.asarray(safe.typical), np.median(losses, axis=1), rtol=0.05)
    typical = brute(task, rows(untied_optimum(task, [2, 6])), 1500, 0)
    assert typical[1].mean() > 3.0 * losses[1].mean()  # rare contexts own the mean
    assert np.median(typical[1]) < np.median(losses[1])
    np.testing.assert_allclose(  # O(1/N)
        np.median(typical, axis=1), untied_optimum(task, [2, 6]).loss, rtol=0.1
    )


def test_layers_for_the_mean_include_the_noise():
    task = deep.Isotropic(2.0, noise=0.5, dim=40)
    found = untied_optimum(task, 3, contexts=300, seed=1)
    endless = untied_optimum(deep.Isotropic(2.0, noise=0.5), 3).loss
    np.testing.assert_allclose(found.loss, endless, rtol=0.1)  # O(1/D)
    assert found.loss > endless


@pytest.mark.slow
@pytest.mark.parametrize(
    ("law", "printed"),
    [
        ((128, 128), {4: 0.0550, 8: 0.0232, 16: 0.00980}),
        ((64, None), {4: 0.0692, 8: 0.0413, 16: 0.0321}),
    ],
)
def test_known_means_of_drawn_contexts(law, printed):
    task = rotated(1.25, 0.8, 128, width=law[0], context=law[1])
    with pytest.warns(UserWarning, match="few of the fresh contexts own the mean"):
        found = untied_optimum(task, list(printed), contexts=200, seed=1)
    # Those were means over as few contexts as were searched, without the rare ones that own the
    # mean over ten times as many: near the median.
    np.testing.assert_allclose(found.typical, list(printed.values()), rtol=0.06)
    typical = untied_optimum(task, list(printed)).loss
    assert np.all(found.typical > typical)
    assert np.all(found.loss > found.typical)
    assert found.loss[-1] > 100.0 * found.typical[-1]


def test_the_best_depth_grows_like_half_a_power_of_the_width():
    """Where 𝓛 is 1.5 times what the width leaves, d log L/d log N ≈ ν/2, not ν/(2+ν) or ν."""
    depths = []
    for width, most in ((64, 4), (256, 8), (1024, 17)):
        task = rotated(1.25, 0.8, 10**6, width=width)
        layers = np.arange(1, most + 1)
        excess = np.log(np.asarray(untied_optimum(task, layers).loss))
        excess -= np.log(1.5 * float(deep.floor(task, "width")))
        depths.append(np.interp(0.0, excess[::-1], layers[::-1]))
    np.testing.assert_allclose(depths, [2.75, 6.44, 14.8], rtol=5e-3)
    # The discrete top of the spectrum makes the slope wobble; ν/(2+ν) = .385, ν = 1.25.
    slopes = np.diff(np.log(depths)) / np.log(4.0)
    assert np.abs(slopes - 0.625).max() < 0.04


# --- training


def test_equal_layers_flow_like_tied_ones():
    task, t = rotated(1.25, 1.0, 100), np.array([0.0, 0.3, 10.0, 300.0])
    found = untied_curve(task, t, start=deep.Init(gamma=np.zeros(4)))
    np.testing.assert_allclose(found.loss, deep.loss_curve(task, t, 4), rtol=1e-6)
    assert found.gamma.shape == (4, 4)


def test_the_flow_is_where_small_steps_lead():
    task, start = rotated(1.25, 1.0, 30), deep.Init(gamma=[0.1, 0.3, -0.2])
    true = untied_curve(task, 20.0, start=start).gamma
    gaps = []
    for steps in (2000, 4000):
        run = deep.train(task, start, depth=3, lr=20.0 / steps, steps=steps, layers="untied")
        gaps.append(np.abs(run.gamma[:, -1] - true).max())
    assert gaps[0] < 0.02
    assert abs(gaps[0] / gaps[1] - 2.0) < 0.05


@pytest.mark.slow
def test_the_flow_waits_at_the_tied_saddle_then_finds_the_optimum():
    task = rotated(1.25, 1.0, 500)
    for depth, tied, best, plateau, late in (
        (2, 0.090032, 0.0542828, None, 1e4),
        (4, 0.042810, 0.0120837, 1e3, 1e6),
        (8, 0.019964, 0.00184814, 1e4, 1e9),
    ):
        rng = np.random.default_rng(0)
        start = deep.Init(gamma=1e-3 * rng.standard_normal(depth))
        times = [plateau or 1.0, late]
        found = untied_curve(task, times, start=start)
        optimum = untied_optimum(task, depth)
        np.testing.assert_allclose(deep.optimum(task, depth).loss, tied, rtol=2e-5)
        np.testing.assert_allclose(optimum.loss, best, rtol=2e-5)
        if plateau:
            np.testing.assert_allclose(found.loss[0], tied, rtol=1e-3)
        np.testing.assert_allclose(found.loss[1], optimum.loss, rtol=1e-6)
        np.testing.assert_allclose(np.sort(found.gamma[1]), optimum.gamma, rtol=1e-5)


@pytest.mark.slow
def test_untied_layers_are_no_faster_than_tied_ones_without_end():
    task, t = rotated(1.25, 1.0, 500), 10.0 ** np.arange(2, 8)
    start = deep.Init(gamma=1e-3 * np.random.default_rng(1).standard_normal(8))
    untied, endless = untied_curve(task, t, start=start).loss, deep.loss_curve(task, t, None)
    agree(endless[2:], ".01335 .00608 .00270 .00115")
    # Before it leaves, eight tied layers are up to 4 % ahead of endless ones.
    assert np.all(untied[2:] > endless[2:])
    assert untied[-1] < 0.2 * deep.optimum(task, 8).loss  # though far below their own floor


# --- what is refused


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: untied_optimum(deep.FixedStructure(1.0, 1.0, 4), 2), "law must be rrs or iso"),
        (lambda: untied_optimum(rotated(1.0, 1.0, 4), math.inf), "depth must be finite"),
        (lambda: untied_optimum(rotated(1.0, 1.0, 4), 5000), "depth must be a whole number"),
        (lambda: untied_optimum(rotated(1.0, 1.0, 4, context=9), 129), "depth must be at most 128"),
        (
            lambda: untied_optimum(rotated(1.0, 1.0, 4), 2, contexts=9),
            "contexts must be None where",
        ),
        (
            lambda: untied_optimum(
                deep.RotatedStructure(spectrum=deep.Spectrum.power(1.5, 0.8, 10**6)), 2
            ),
            "whole multiplicities",
        ),
        (lambda: untied_loss(rotated(1.0, 1.0, 4, width=3), [1.0]), "task must be Isotropic, or"),
        (lambda: untied_loss(rotated(1.0, 1.0, 4), 1.0), "gamma must have one number for each"),
        (
            lambda: untied_curve(rotated(1.0, 1.0, 4), 1.0, start=deep.Init(gamma=0.0)),
            "start must be deep_icl.Init",
        ),
        (lambda: untied_depth_law(0.0, 1.0), "nu must lie in"),
        (lambda: untied_depth_law(1.0, 1.0)(0.5), "depth must lie in"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_words(ask, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        ask()
