"""The one spectrum: its sums, ridge, floors and flow against direct sums and closed forms."""

import math

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy.optimize import brentq

from solvable.deep_icl import RotatedStructure, floor, law, loss_curve
from solvable.deep_icl.laws._resources import TimeCurve
from solvable.deep_icl.spectrum import Spectrum
from solvable.deep_icl.theory._floors import Floor

DIM = 10**5
SPECTRA = [(1.02, 0.5), (1.25, 0.8), (2.0, 1.5), (0.6, 1.0), (4.0, 5.0)]
SIZES = [1.5, 30.0, 1e4, 0.99 * DIM]


def total(x):
    """A sum right to round-off."""
    return math.fsum(x)


def direct(nu, beta, dim=DIM):
    k = np.arange(1.0, dim + 1.0)
    a = k ** -(nu * beta + 1.0)
    return k**-nu, a / total(a)


def ridge(lam, n):
    """The z with Σ λ/(λ + z) = n, by Brent's method on the whole sum."""

    def excess(y):
        return total(lam / (lam + math.exp(y))) - n

    return math.exp(brentq(excess, -60.0, 30.0, xtol=1e-16, rtol=1e-15))


@pytest.mark.parametrize(("nu", "beta"), SPECTRA)
def test_sums_are_the_direct_sums(nu, beta):
    lam, a = direct(nu, beta)
    s = Spectrum.power(nu, beta, DIM)
    assert s.lam.size < 600
    assert s.dim == DIM
    mine, share, weight = (np.asarray(x) for x in (s.lam, s.share, s.weight))
    for z in np.geomspace(0.3 * lam[-1], 1.0, 5):
        for found, true in (
            (weight @ (mine / (mine + z)), lam / (lam + z)),
            (weight @ (mine / (mine + z) ** 2), lam / (lam + z) ** 2),
            (share @ (z / (mine + z)), a * z / (lam + z)),
            (share @ (z / (mine + z)) ** 2, a * (z / (lam + z)) ** 2),
            (share @ np.exp(-2 * mine / z), a * np.exp(-2 * lam / z)),
        ):
            assert found == pytest.approx(total(true), rel=1e-13, abs=1e-300)


@pytest.mark.parametrize(("nu", "beta"), SPECTRA)
def test_floors_are_the_direct_sums(nu, beta):
    lam, a = direct(nu, beta)
    s = Spectrum.power(nu, beta, DIM)
    for n in SIZES:
        z = ridge(lam, n)
        left = z / (lam + z)
        width = total(a * left)
        context = n * total(a * left**2) / total(lam / (lam + z) * left)
        assert float(s.level(n)) == pytest.approx(z, rel=1e-13)
        assert float(s.width_floor(n)) == pytest.approx(width, rel=1e-13)
        assert float(s.context_floor(n)) == pytest.approx(context, rel=1e-13)


@pytest.mark.parametrize(("nu", "beta"), SPECTRA)
def test_slopes_of_the_width_floor_are_those_of_the_direct_sums(nu, beta):
    """By implicit differentiation of the whole sums: dλ/dν = −λ log k."""
    lam, a = direct(nu, beta)
    k = np.arange(1.0, DIM + 1.0)
    for n in (1.5, 30.0, 1e4):
        z = ridge(lam, n)
        spread = total(lam / (lam + z) ** 2)
        turned = -lam * np.log(k)
        of_nu = total(z * turned / (lam + z) ** 2) / spread  # dz/dν
        tilted = -beta * a * (np.log(k) - total(a * np.log(k)))
        by_nu = total(tilted * z / (lam + z)) + total(
            a * (lam * of_nu - z * turned) / (lam + z) ** 2
        )
        by_n = -total(a * lam / (lam + z) ** 2) / spread

        def found(nu, n):
            return Spectrum.power(nu, beta, DIM).width_floor(n)

        slopes = jax.jit(jax.grad(found, argnums=(0, 1)))(jnp.asarray(nu), jnp.asarray(n))
        np.testing.assert_allclose(slopes, (by_nu, by_n), rtol=1e-11)


@pytest.mark.parametrize("limit", ["width", "context"])
@pytest.mark.parametrize(("nu", "beta"), SPECTRA)
def test_local_exponents_are_the_slopes_that_jax_finds(nu, beta, limit):
    one = Floor(Spectrum.power(nu, beta, DIM), limit)
    sizes = jnp.asarray(SIZES)
    slopes = jax.jit(jax.vmap(jax.grad(lambda log_n: jnp.log(one.loss(jnp.exp(log_n))))))(
        jnp.log(sizes)
    )
    np.testing.assert_allclose(one.local(sizes), -slopes, rtol=1e-12)
    np.testing.assert_array_equal(one.local(np.asarray([DIM, 2.0 * DIM])), np.inf)


def test_floors_of_very_many_directions():
    """The numbers of the specification at D = 10⁹ and 10¹⁵."""
    for dim, few, many in (
        (10**9, 0.020337214242768, 4.195548017373e-7),
        (10**15, 0.020340974264551, 4.282208985225e-7),
    ):
        found = Spectrum.power(1.5, 0.8, dim).width_floor(np.asarray([100.0, 1e6]))
        np.testing.assert_allclose(found, [few, many], rtol=5e-13)
        task = RotatedStructure(nu=1.5, beta=0.8, dim=dim, width=100)
        assert float(floor(task, "width")) == pytest.approx(few, rel=5e-13)


def test_sums_without_end_are_zeta_functions():
    s = Spectrum.power(1.5, 0.8, math.inf)
    lam, share, weight = (np.asarray(x) for x in (s.lam, s.share, s.weight))
    assert 1.0 / share[0] == pytest.approx(float(mpmath.zeta(2.2)), rel=1e-12)
    assert weight @ lam == pytest.approx(float(mpmath.zeta(1.5)), rel=1e-12)
    steep = Spectrum.power(1.5, 3.0, math.inf)
    moment = np.sum(np.asarray(steep.share) / np.asarray(steep.lam) ** 2)
    assert moment == pytest.approx(float(mpmath.zeta(2.5) / mpmath.zeta(5.5)), rel=1e-12)


# ---- the flow -----------------------------------------------------------------------------------


def taken(lam, a, gamma, cells=400):
    """t(γ) of the whole sum: 8 Gauss nodes in each of very many cells."""
    x, w = np.polynomial.legendre.leggauss(8)
    edges = 0.05 * np.expm1(np.linspace(0.0, math.log1p(gamma / 0.05), cells + 1))
    half = 0.5 * np.diff(edges)[:, None]
    places = 0.5 * (edges[1:] + edges[:-1])[:, None] + half * x
    speed = [2 * np.exp(-2 * g * lam) @ (a * lam) for g in places.ravel()]
    return total((half * w / np.reshape(speed, places.shape)).ravel())


@pytest.mark.slow
@pytest.mark.parametrize(("nu", "beta"), SPECTRA)
def test_the_flow_is_that_of_the_direct_sum(nu, beta):
    """γ(t) takes the time t on the whole sum, and the loss there is the whole sum's."""
    dim = 3000 if nu > 3.0 else 10**4
    lam, a = direct(nu, beta, dim)
    curve = TimeCurve(Spectrum.power(nu, beta, dim))
    times = np.array([1e-3, 1.0, 1e3, 1e6, 1e9])
    times = times[times < 1e-3 * curve.largest]
    assert len(times) > 3
    gamma, loss = curve.flow.gamma(times), curve.loss(times)
    np.testing.assert_allclose(curve.flow.time(gamma), times, rtol=2e-15)
    for t, g, value in zip(times, gamma, loss, strict=True):
        assert taken(lam, a, g) == pytest.approx(t, rel=1e-12)
        assert value == pytest.approx(total(a * np.exp(-2 * g * lam)), rel=1e-13)


def test_laws_and_theory_follow_one_flow():
    times = np.geomspace(1e-3, 1e9, 7)
    task = RotatedStructure(nu=1.25, beta=0.8, dim=10**12)
    curve = loss_curve(task, times, math.inf)
    np.testing.assert_allclose(law("time", 1.25, 0.8, 10**12).loss(times), curve, rtol=1e-13)


# ---- public functions under JAX -----------------------------------------------------------------


def narrow(nu, beta=0.8):
    return RotatedStructure(nu=nu, beta=beta, dim=300, width=40, context=120)


@pytest.mark.parametrize("limit", ["width", "context", "both"])
def test_floors_under_jit_vmap_and_grad(limit):
    nus, h = jnp.asarray([1.1, 1.6]), 1e-5
    at = jax.jit(jax.vmap(lambda nu: floor(narrow(nu), limit)))(nus)
    known = [float(floor(narrow(nu), limit)) for nu in nus.tolist()]
    np.testing.assert_allclose(jax.jit(lambda nu: floor(narrow(nu), limit))(nus[0]), known[0])
    np.testing.assert_allclose(at, known, rtol=1e-12)
    slope = jax.jit(jax.grad(lambda nu: floor(narrow(nu), limit)))(nus[0])
    ends = [float(floor(narrow(1.1 + sign * h), limit)) for sign in (-1.0, 1.0)]
    # Central differences: h² of truncation, 1e-15/h of round-off.
    assert float(slope) == pytest.approx((ends[1] - ends[0]) / (2 * h), rel=1e-8)


def test_the_depth_floor_under_grad():
    h = 1e-5

    def deep(nu):
        return floor(narrow(nu), "depth", depth=4)

    ends = [float(deep(1.3 + sign * h)) for sign in (-1.0, 1.0)]
    slope = jax.jit(jax.grad(deep))(jnp.asarray(1.3))
    assert float(slope) == pytest.approx((ends[1] - ends[0]) / (2 * h), rel=1e-8)
