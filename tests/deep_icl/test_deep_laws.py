"""Laws in time, depth, width and context against direct sums, flows, and other people's numbers."""

import math

import mpmath
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq, minimize_scalar

from solvable.deep_icl import laws
from solvable.deep_icl.laws._depth import DepthFloor
from solvable.deep_icl.spectrum import Spectrum

pytestmark = pytest.mark.slow


def power_law(nu, beta, dim):
    k = np.arange(1.0, dim + 1.0)
    a = k ** -(nu * beta + 1.0)
    return k**-nu, a / a.sum()


def test_exponents_and_their_caps():
    for nu, beta, width, context in [
        (1.5, 0.5, 0.75, 0.75),
        (1.5, 1.5, 1.5, 2.25),
        (1.5, 3.0, 1.5, 3.0),
        (0.5, 0.5, 0.5, 0.5),
        (0.5, 3.0, 1.0, 2.0),
    ]:
        table = laws.exponents(nu, beta)
        assert (table.width, table.context) == (width, context)
        assert table.depth == beta
        assert table.time == pytest.approx(beta / (beta + 2.0), rel=1e-15)


def test_compute_exponents():
    for nu, beta in [(1.25, 0.8), (1.5, 0.5)]:
        table = laws.exponents(nu, beta)
        # C = t N² L, C = t P² N² L, and C = t L at unlimited width
        assert table.compute() == pytest.approx(nu * beta / ((3 + beta) * nu + 2), rel=1e-14)
        with_context = nu * beta / ((3 + beta) * nu + 4)
        assert table.compute(context=2.0) == pytest.approx(with_context, rel=1e-14)
        assert table.compute(width=0.0) == pytest.approx(beta / (3 + beta), rel=1e-14)
    assert laws.exponents(1.25, 0.8).compute() == pytest.approx(0.14815, abs=5e-6)
    assert laws.exponents(1.5, 0.5).compute() == pytest.approx(0.10345, abs=5e-6)


def test_untied_layers_have_twice_the_depth_exponent():
    """And so L ∝ N^(ν min(β,1)/2β), the exponent that the equivalent shows at 1.25, 0.8: 0.625."""
    tied, untied = laws.exponents(1.25, 0.8), laws.exponents(1.25, 0.8, layers="untied")
    assert (untied.depth, untied.width, untied.time) == (1.6, tied.width, tied.time)
    assert untied.width / untied.depth == pytest.approx(0.625)
    # C = t N² L: 1/(1/0.2857 + 2/1 + 1/1.6)
    assert untied.compute() == pytest.approx(1.0 / (2.8 / 0.8 + 2.0 + 0.625), rel=1e-14)


def test_matrix_time_costs_one_more_power_of_a_bounded_width():
    scalar, matrix = laws.exponents(1.25, 0.8), laws.exponents(1.25, 0.8, time="matrix")
    assert matrix.compute() == pytest.approx(scalar.compute(width=3.0), rel=1e-14)
    assert matrix.compute(width=0.0) == pytest.approx(scalar.compute(width=0.0), rel=1e-14)


@pytest.mark.parametrize("m", [1, 5, 7])
def test_time_exponent_of_a_product_of_weights(m):
    """dw/dt = −∂𝓛/∂w with γ = w^m, in the flow of a long tail (β = 0.8)."""
    tail = Spectrum.power(1.5, 0.8, 10**8)
    lam, share = np.asarray(tail.lam), np.asarray(tail.share)

    def loss(gamma):
        return float(share @ np.exp(-2 * gamma * lam))

    def flow(_, y):  # y = log w, in log t
        gamma = math.exp(m * y[0])
        fall = float((2 * share * lam) @ np.exp(-2 * gamma * lam))
        return [fall * m * math.exp((m - 2) * y[0]) * math.exp(_)]

    # Far below where γ ~ 10⁹ meets the last direction, far above γ ~ 1.
    end = (2.0 / m + 0.8) * math.log(1e7)
    done = solve_ivp(flow, (-3.0, end), [0.0], rtol=1e-9, atol=1e-10, t_eval=[end - 1.0, end])
    slope = math.log(loss(math.exp(m * done.y[0][0])) / loss(math.exp(m * done.y[0][1])))
    assert slope == pytest.approx(laws.attention_time_exponent(0.8, m), rel=2e-3)


# ---- floors ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("nu", "beta"), [(1.5, 0.8), (1.25, 2.5), (0.7, 0.5), (1.0, 1.0)])
def test_floors_are_those_of_the_direct_sums(nu, beta):
    dim = 10**5
    lam, a = power_law(nu, beta, dim)
    width, context = laws.law("width", nu, beta, dim), laws.law("context", nu, beta, dim)
    for n in (3.0, 250.5, 2e4, 0.99 * dim):
        y = brentq(lambda y, n=n: np.sum(lam / (lam + np.exp(y))) - n, -60, 30, xtol=1e-14)
        z = np.exp(y)
        # brentq's z has 14 digits where N is far from D; near it z itself is ill-conditioned.
        assert width.loss(n) == pytest.approx(np.sum(a * z / (lam + z)), rel=1e-11)
        top = np.sum(a * (z / (lam + z)) ** 2)
        floor = top / (1 - np.sum((lam / (lam + z)) ** 2) / n)
        assert context.loss(n) == pytest.approx(floor, rel=1e-10)


def test_floors_at_256_directions():
    """The deterministic equivalents that simulations of 256 directions were compared with."""
    width, context = laws.law("width", 1.25, 1.0, 256), laws.law("context", 1.25, 1.0, 256)
    np.testing.assert_allclose(width.loss([8, 32, 128]), [0.316, 0.0824, 0.01023], rtol=2e-3)
    np.testing.assert_allclose(context.loss([8, 32, 128]), [0.175, 0.0305, 0.00301], rtol=3e-3)


@pytest.mark.parametrize("dim", [64, 10**8])
@pytest.mark.parametrize("resource", ["time", "depth", "width", "context"])
@pytest.mark.parametrize(("nu", "beta"), [(1.5, 0.8), (0.8, 2.3)])
def test_local_exponents_are_slopes_of_the_loss(resource, nu, beta, dim):
    law = laws.law(resource, nu, beta, dim)
    x, h = law.grid()[5:-5:9], 1e-4
    around = np.log(law.loss(x * math.exp(-h)) / law.loss(x * math.exp(h))) / (2 * h)
    # Central differences: h² of truncation and 1e-14/h of round-off.
    np.testing.assert_allclose(law.local_exponent(x), around, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("beta", "width", "context"),
    [(0.5, 0.748, 0.750), (0.8, 1.154, 1.201), (1.5, 1.493, 2.246), (1.8, 1.502, 2.64)],
)
def test_local_exponents_seen_at_four_million_directions(beta, width, context):
    """Slopes fitted earlier at D = 4·10⁶, ν = 1.5, for N and P of a few hundred to a thousand."""
    for resource, seen in (("width", width), ("context", context)):
        law = laws.law(resource, 1.5, beta, 4 * 10**6)
        slope = float(np.log(law.loss(300.0) / law.loss(1500.0)) / np.log(5.0))
        assert slope == pytest.approx(seen, abs=0.012)


def test_floors_end_at_the_dimension():
    for resource in ("width", "context"):
        law = laws.law(resource, 1.5, 0.8, 50)
        assert law.loss(49.9) > 0.0
        np.testing.assert_array_equal(law.loss([50.0, 80.0]), 0.0)
        np.testing.assert_array_equal(law.local_exponent([50.0, 80.0]), np.inf)


def test_the_ridge_of_a_convergent_spectrum_is_a_power():
    tail = Spectrum.power(1.5, 0.8, math.inf)
    angle = math.pi / 1.5
    for n in (1e4, 1e8):
        # The first correction is that of N + ½ for N.
        power = (angle / math.sin(angle) / (n + 0.5)) ** 1.5
        assert float(tail.level(n)) == pytest.approx(power, rel=1e-6)


# ---- amplitudes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resource", "nu", "beta", "x", "off"),
    [
        ("width", 1.5, 0.5, 1e10, 1e-4),
        ("width", 1.25, 0.3, 1e10, 1e-4),
        ("width", 1.5, 1.5, 1e10, 1e-4),
        ("width", 2.0, 3.0, 1e8, 1e-4),
        ("context", 1.5, 0.5, 1e8, 1e-4),
        ("context", 1.5, 1.5, 1e10, 1e-4),
        ("context", 1.5, 3.0, 1e8, 1e-4),
        ("depth", 1.5, 0.8, 1e6, 1e-4),
        ("depth", 1.25, 1.75, 1e6, 1e-4),
        ("depth", 0.7, 0.8, 1e6, 1e-4),
        ("time", 1.5, 0.8, 1e10, 1e-5),
        ("time", 1.25, 1.75, 1e8, 1e-5),
        ("time", 0.7, 0.8, 1e10, 1e-4),
    ],
)
def test_the_loss_without_end_tends_to_the_law(resource, nu, beta, x, off):
    law = laws.law(resource, nu, beta, math.inf)
    assert law.status == "ok"
    assert law(x) / law.loss(x) == pytest.approx(1.0, abs=off)
    assert law.local_exponent(x) == pytest.approx(law.exponent, rel=off)


def test_time_law_from_ten_thousand_on():
    for nu, beta in ((1.5, 0.8), (1.25, 1.75)):
        law, t = laws.law("time", nu, beta), np.array([1e4, 1e5, 1e6])
        np.testing.assert_allclose(law(t) / law.loss(t), 1.0, atol=5e-5)


def test_amplitudes_in_closed_form():
    z = ((math.pi / 1.5) / math.sin(math.pi / 1.5)) ** 1.5
    below = laws.law("width", 1.5, 0.5, math.inf).amplitude
    true = z**0.5 / (mpmath.zeta(1.75) * 1.5) * mpmath.pi / mpmath.sin(mpmath.pi / 2)
    assert below == pytest.approx(float(true), rel=1e-12)
    above = laws.law("width", 1.5, 1.5, math.inf).amplitude
    assert above == pytest.approx(float(z * mpmath.zeta(1.75) / mpmath.zeta(3.25)), rel=1e-12)
    short = laws.law("context", 1.5, 1.5, math.inf).amplitude
    true = 1.5 * z**1.5 / (1.5 * mpmath.zeta(3.25)) * mpmath.beta(0.5, 1.5)
    assert short == pytest.approx(float(true), rel=1e-12)
    capped = laws.law("context", 1.5, 3.0, math.inf).amplitude
    true = 1.5 * z**2 * mpmath.zeta(2.5) / mpmath.zeta(5.5)
    assert capped == pytest.approx(float(true), rel=1e-12)


def test_at_a_cap_there_is_a_logarithm_and_no_amplitude():
    """𝓛_N → (z/Z)(log(1/z)/ν + γ_E) at β = 1, 𝓛_P → ν(z²/Z)((log(1/z) − 1)/ν + γ_E) at β = 2."""
    tail = Spectrum.power(1.5, 1.0, math.inf)
    law, z = laws.law("width", 1.5, 1.0, math.inf), float(tail.level(1e8))
    true = z / float(mpmath.zeta(2.5)) * (math.log(1 / z) / 1.5 + np.euler_gamma)
    assert law.loss(1e8) == pytest.approx(true, rel=1e-6)
    assert (law.amplitude, law.status, law.exponent) == (None, "logarithm", 1.5)
    assert 1.35 < law.local_exponent(1e8) < 1.49
    with pytest.raises(ValueError, match="no amplitude"):
        law(3.0)
    tail = Spectrum.power(1.5, 2.0, math.inf)
    law, z = laws.law("context", 1.5, 2.0, math.inf), float(tail.level(1e8))
    true = 1.5 * z**2 / float(mpmath.zeta(4.0)) * ((math.log(1 / z) - 1) / 1.5 + np.euler_gamma)
    assert law.loss(1e8) == pytest.approx(true, rel=1e-6)
    assert (law.amplitude, law.status, law.exponent) == (None, "logarithm", 3.0)


@pytest.mark.parametrize("resource", ["width", "context"])
@pytest.mark.parametrize("beta", [0.4, 3.5])
def test_below_nu_one_the_ridge_is_the_trace_over_the_width(resource, beta):
    """At ν < 1 the law is one in N/Σλ, for Σλ ≪ N ≪ D."""
    law = laws.law(resource, 0.5, beta, 10**15)
    assert law.status == "grows with dim"
    tail = Spectrum.power(0.5, beta, 10**15)
    trace = float(np.asarray(tail.weight) @ np.asarray(tail.lam))
    assert trace == pytest.approx(2 * math.sqrt(1e15), rel=1e-6)
    low, high = law.window(0.01)
    assert low > trace
    assert math.log10(high / low) > 0.7
    middle = math.sqrt(low * high)
    assert law(middle) / law.loss(middle) == pytest.approx(1.0, abs=0.03)
    with pytest.raises(ValueError, match="dim must be finite"):
        laws.law(resource, 0.5, beta, math.inf)


# ---- depth and time --------------------------------------------------------------------------


def test_depth_floor_at_64_directions():
    law = laws.law("depth", 1.5, 0.8, 64)
    true = [0.20110308, 0.12141224, 0.064530199, 0.033455674, 0.01677787, 0.0079113871]
    np.testing.assert_allclose(law.loss([1, 2, 4, 8, 16, 32]), true, rtol=1e-7)
    best = DepthFloor(Spectrum.power(1.5, 0.8, 64))
    steps = best.step(np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]))
    seen = [1.072333, 1.302147, 1.487871, 1.651940, 1.777956, 1.865043, 1.920543]
    np.testing.assert_allclose(steps, seen, atol=1e-6)


@pytest.mark.parametrize("depth", [1.0, 7.0, 300.0])
def test_depth_floor_is_the_least_loss(depth):
    lam, a = power_law(1.25, 1.75, 2000)

    def loss(c):
        return float(np.sum(a * np.abs(1 - c * lam) ** (2 * depth)))

    least = minimize_scalar(loss, bounds=(0.5, 2.0), method="bounded", options={"xatol": 1e-10})
    assert laws.law("depth", 1.25, 1.75, 2000).loss(depth) == pytest.approx(least.fun, rel=1e-9)


def test_the_best_step_tends_to_twice_that_of_stable_descent():
    best = DepthFloor(Spectrum.power(1.5, 0.8, 10**8))
    law, depths = laws.law("depth", 1.5, 0.8), np.array([4.0, 16.0, 64.0, 256.0])
    c = best.step(depths)
    np.testing.assert_allclose(c, [1.488, 1.778, 1.921, 1.975], atol=6e-4)
    # Γ(β)/(νZ) (2c*L)^-β, with the errors reported for it
    errors = law(depths) * (2.0 / c) ** 0.8 / law.loss(depths) - 1
    np.testing.assert_allclose(np.abs(errors), [0.055, 0.011, 0.003, 0.0006], atol=6e-4)


def test_the_flow_in_time_is_that_of_an_ode_solver():
    lam, a = power_law(1.5, 0.8, 300)
    law, t = laws.law("time", 1.5, 0.8, 300), np.geomspace(1e-3, 1e5, 9)

    def flow(_, g):
        return [2 * np.sum(a * lam * np.exp(-2 * g[0] * lam))]

    done = solve_ivp(flow, (0, 1e5), [0.0], method="LSODA", rtol=1e-11, atol=1e-13, t_eval=t)
    true = np.exp(-2 * done.y[0][:, None] * lam) @ a
    np.testing.assert_allclose(law.loss(t), true, rtol=1e-8)


# ---- windows ---------------------------------------------------------------------------------


@pytest.mark.parametrize("nu", [1.5, 2.0])
def test_exponents_show_to_one_per_cent_over_a_decade(nu):
    """10⁸ directions, at least 0.4 from the caps."""
    for beta in (0.5, 0.6, 1.4, 2.0):
        assert laws.law("width", nu, beta).decades(0.01) > 1.9
    for beta in (0.5, 1.6, 2.4, 3.0):
        assert laws.law("context", nu, beta).decades(0.01) > 1.9
    for beta in (0.6, 2.4):
        assert laws.law("depth", nu, beta).decades(0.01) > 3.0
    assert laws.law("time", nu, 0.6).decades(0.01) > 6.0


def test_near_a_cap_the_exponent_does_not_show():
    law = laws.law("width", 1.5, 0.95)
    assert law.decades(0.01) < 0.5
    assert law.local_exponent(1e3) < 0.95 * law.exponent


def test_a_flat_spectrum_needs_more_directions():
    """ν = 1.25: Σλ converges like D^-¼, and 10⁸ directions show 1 % over less than a decade."""
    assert laws.law("width", 1.25, 0.6).decades(0.01) == pytest.approx(0.81, abs=0.05)
    assert laws.law("width", 1.25, 0.6, math.inf).decades(0.01) > 8.0


def test_a_window_ends_where_the_tolerance_is_spent():
    law = laws.law("width", 1.5, 0.5)
    low, high = law.window(0.02)
    miss = np.abs(law.local_exponent([low, high]) / law.exponent - 1)
    assert np.all(miss <= 0.02)
    beyond = np.abs(law.local_exponent([low / 1.1, high * 1.1]) / law.exponent - 1)
    assert np.all(beyond > 0.02)
    assert law.decades(0.02) == pytest.approx(math.log10(high / low))


@pytest.mark.parametrize("resource", ["time", "depth", "width", "context"])
def test_laws_over_the_legal_range(resource):
    """No NaN, no warning, a loss that falls from at most 1."""
    for nu in (0.05, 1.001, 18.0):
        for beta in (0.01, 18.0):
            for dim in (2, 10**8):
                law = laws.law(resource, nu, beta, dim)
                x = law.grid(1)
                x = x[:: 1 + len(x) // 30]
                loss = law.loss(x)
                assert np.all(np.isfinite(loss)), (nu, beta, dim)
                slope = law.local_exponent(x)
                assert np.all(np.isfinite(slope)), (nu, beta, dim)
                if resource != "context":  # few tokens of a steep spectrum are fitted too well
                    assert np.all(loss <= 1 + 1e-9)
                    assert np.all(np.diff(loss) <= 1e-12 * loss[:-1]), (nu, beta, dim)
                    assert np.all(slope >= -1e-9)


# ---- the sum of laws -------------------------------------------------------------------------


def test_the_sum_of_laws_is_that_of_its_parts():
    parts = {"t": ("time", 1e5), "width": ("width", 300.0), "depth": ("depth", 20.0)}
    parts |= {"context": ("context", 700.0)}
    total = 0.0
    for name, (resource, x) in parts.items():
        alone = laws.additive_loss(1.25, 0.8, **{name: x})
        assert alone == pytest.approx(float(laws.law(resource, 1.25, 0.8)(x)), rel=1e-14)
        total += float(alone)
    everything = {name: x for name, (_, x) in parts.items()}
    assert laws.additive_loss(1.25, 0.8, **everything) == pytest.approx(total, rel=1e-14)
    assert laws.additive_loss(1.25, 0.8) == 0.0


def test_the_sum_of_laws_in_matrix_time():
    matrix = laws.additive_loss(1.25, 0.8, t=3e6, width=300.0, time="matrix")
    assert matrix == pytest.approx(laws.additive_loss(1.25, 0.8, t=1e4, width=300.0), rel=1e-14)
    wide = laws.additive_loss(1.25, 0.8, t=3e6, time="matrix", dim=3000)
    assert wide == pytest.approx(float(laws.additive_loss(1.25, 0.8, t=1e3, dim=3000)), rel=1e-14)


def test_the_sum_of_laws_takes_arrays():
    t = np.array([1e3, 1e4, np.inf])
    sums = laws.additive_loss(1.25, 0.8, t=t, width=50.0)
    each = [float(laws.additive_loss(1.25, 0.8, t=float(x), width=50.0)) for x in t]
    np.testing.assert_allclose(sums, each, rtol=1e-14)


def test_at_a_cap_the_sum_has_the_exact_floor():
    sums = laws.additive_loss(1.5, 1.0, width=[40.0, np.inf], dim=512)
    np.testing.assert_allclose(sums, [float(laws.law("width", 1.5, 1.0).loss(40.0)), 0.0])
