"""The best shape for a budget against closed forms, brute force, and an exactly known table."""

import math

import numpy as np
import pytest

from solvable.deep_icl import laws
from solvable.deep_icl.laws._curves import DepthCurves, step_sizes

pytestmark = pytest.mark.slow

DIM = 64


def grown(cost, nu, beta, **options):
    small = laws.optimal_shape(1e12, nu=nu, beta=beta, cost=cost, **options)
    large = laws.optimal_shape(1e14, nu=nu, beta=beta, cost=cost, **options)
    assert small.status == large.status == "ok"
    return small, large


@pytest.mark.parametrize(
    ("nu", "beta", "cost", "exponent", "ratio"),
    [
        (1.25, 0.8, "t*N**2*L", 0.14815, 1.25),
        (1.5, 0.5, "t*N**2*L", 0.10345, 1.5),
        (1.5, 1.5, "t*N**2*L", 0.23077, 1.0),  # β > 1: L ∝ N^(ν/β)
        (1.25, 0.8, "t*P**2*N**2*L", 1.0 / (3.8 * 1.25 + 4), 1.25),
    ],
)
def test_monomial_costs(nu, beta, cost, exponent, ratio):
    small, large = grown(cost, nu, beta)
    assert small.exponent == pytest.approx(exponent, abs=5e-6)
    # On the sum of laws the optimum is a power from the first budget on.
    assert math.log(small.loss / large.loss) / math.log(100) == pytest.approx(small.exponent)
    slope = math.log(large.depth / small.depth) / math.log(large.width / small.width)
    assert slope == pytest.approx(ratio, rel=1e-8)


def test_what_the_cost_does_not_contain_has_no_limit():
    small, large = grown("L*t", 1.25, 0.8)
    assert small.width == small.context == math.inf
    assert small.exponent == pytest.approx(0.8 / 3.8)
    assert math.log(small.loss / large.loss) / math.log(100) == pytest.approx(0.8 / 3.8)
    alone = laws.optimal_shape(1e6, nu=1.25, beta=0.8, cost="2*t")
    assert (alone.time, alone.depth) == (pytest.approx(5e5), math.inf)


def test_a_budget_below_the_laws_says_so():
    assert laws.optimal_shape(100.0, nu=1.25, beta=0.8).status.startswith("beyond the laws")
    assert laws.optimal_shape(1e6, nu=1.25, beta=0.8).status == "ok"


COSTS = {
    "t*N**2*L": lambda t, N, L, P: t * N**2 * L,
    "t*(N**2*L + 40*N) + 1e4*N**1.5": lambda t, N, L, P: t * (N**2 * L + 40 * N) + 1e4 * N**1.5,
    "t**2*N*(L + 3) + 7": lambda t, N, L, P: t**2 * N * (L + 3) + 7,
}


@pytest.mark.parametrize("time", ["scalar", "matrix"])
@pytest.mark.parametrize("cost", COSTS)
def test_no_shape_on_a_grid_is_better(cost, time):
    """Grids around the optimum, finer and finer: none is better, and the finest is as good."""
    budget = 1e10
    best = laws.optimal_shape(budget, nu=1.25, beta=0.8, cost=cost, time=time, dim=512)
    assert best.status == "ok"
    place = (best.time, best.width, best.depth)
    assert COSTS[cost](*place, math.inf) == pytest.approx(budget, rel=1e-10)

    def loss(t, width, depth):
        return laws.additive_loss(1.25, 0.8, t=t, width=width, depth=depth, time=time, dim=512)

    assert loss(*place) == pytest.approx(best.loss, rel=1e-12)
    for reach in (5.0, 0.5, 1e-3):
        factor = np.exp(np.linspace(-reach, reach, 61))
        width = np.maximum(best.width * factor, 1.0)[:, None] * np.ones(61)
        depth = np.maximum(best.depth * factor, 1.0)[None, :] * np.ones((61, 1))
        low, high = np.full(width.shape, 1e-8), np.full(width.shape, 1e12)
        for _ in range(120):  # t by bisection
            t = np.sqrt(low * high)
            above = COSTS[cost](t, width, depth, None) > budget
            low, high = np.where(above, low, t), np.where(above, t, high)
        values = loss(np.sqrt(low * high), width, depth)
        assert values.min() > best.loss * (1 - 1e-12)
    assert values.min() < best.loss * (1 + 1e-9)


def test_the_local_exponent_of_other_costs():
    options = {"nu": 1.25, "beta": 0.8, "cost": "t*(N**2*L + 40*N) + 1e4*N**1.5"}
    best = laws.optimal_shape(1e10, **options)
    h = 1e-3
    near = [laws.optimal_shape(1e10 * math.exp(sign * h), **options).loss for sign in (-1, 1)]
    assert best.exponent == pytest.approx(math.log(near[0] / near[1]) / (2 * h), rel=1e-5)


def test_a_function_is_as_good_as_an_expression():
    text = laws.optimal_shape(1e10, nu=1.25, beta=0.8, cost="t*N**2*(L + 5)")
    code = laws.optimal_shape(1e10, nu=1.25, beta=0.8, cost=lambda t, L, N: t * N**2 * (L + 5))
    np.testing.assert_allclose(
        [code.time, code.width, code.depth], [text.time, text.width, text.depth], rtol=1e-9
    )
    assert code.context == math.inf


def test_small_budgets_end_at_one_layer():
    small = laws.optimal_shape(1e-2, nu=1.25, beta=0.8)
    assert small.depth == 1.0
    assert small.status.startswith("beyond the laws")


@pytest.mark.parametrize(("nu", "beta"), [(1.5, 1.0), (1.0, 0.8), (0.7, 0.8), (1.5, 2.0)])
def test_caps_and_flat_spectra(nu, beta):
    """At a logarithm the exact floor stands for the law; the exponent is approached slowly."""
    small, large = grown("t*N*P*L", nu, beta)
    local = math.log(small.loss / large.loss) / math.log(100)
    assert local == pytest.approx(small.exponent, rel=0.1)


# ---- from tables -----------------------------------------------------------------------------


def spectra(nu, beta):
    k = np.arange(1.0, DIM + 1)
    a = k ** -(nu * beta + 1)
    return k**-nu, a / a.sum()


def floor(width, context):
    """A made-up part of the loss that no training removes."""
    return 0.6 * width**-1.2 + (0.0 if math.isinf(context) else 0.3 * context**-0.9)


def made_up(nu, beta, floored):
    lam, a = spectra(nu, beta)

    def table(width, context, etas, max_depth):
        left = np.abs(1 - etas[:, None] * lam)[:, :, None] ** (2 * np.arange(1, max_depth + 1))
        kept = floor(width, context) if floored else 0.0
        return kept + (1 - kept) * np.einsum("k,ekl->el", a, left)

    return table, lambda width, context: 1.0


class Brute:
    """t(γ) by the trapezoid rule on a fine grid of γ, for every depth."""

    def __init__(self, nu, beta, max_depth):
        lam, a = spectra(nu, beta)
        self.depths = range(1, max_depth + 1)
        self.curves = []
        for depth in self.depths:
            c = np.concatenate([[0.0], np.geomspace(1e-5, 2.0, 8001)])
            left = 1 - c[:, None] * lam
            fall = (2 * np.sign(left) * np.abs(left) ** (2 * depth - 1)) @ (a * lam)
            good = np.cumprod(fall > 0).astype(bool)
            rate = 1 / fall[good]
            gamma = depth * c[good]
            # Simpson's weights are not needed: the grid is fine
            time = np.concatenate([[0], np.cumsum(0.5 * (rate[1:] + rate[:-1]) * np.diff(gamma))])
            self.curves.append((time, np.abs(left[good]) ** (2 * depth) @ a))

    def loss(self, t, depth, kept=0.0):
        return kept + (1 - kept) * np.interp(t * (1 - kept), *self.curves[depth - 1])


@pytest.fixture(scope="module")
def brute():
    return Brute(1.5, 0.8, 64)


def test_the_flow_from_a_table_of_losses(brute):
    table, _ = made_up(1.5, 0.8, floored=False)
    c = step_sizes(64)
    losses = np.concatenate([np.ones((1, 64)), table(DIM, math.inf, c[1:], 64)])
    curves = DepthCurves(losses, 1.0)
    for depth in (1, 2, 7, 30, 64):
        for t in np.geomspace(1e-3, 1e5, 9):
            true = brute.loss(t, depth)
            assert curves.loss(float(t), depth) == pytest.approx(true, rel=1e-4)


@pytest.mark.parametrize("budget", [3e2, 1e4, 1e5])
def test_exact_shape_at_unlimited_width(brute, budget):
    table, edge = made_up(1.5, 0.8, floored=False)
    found = laws.exact_shape(budget, "t*L", 1.5, 0.8, DIM, table=table, edge=edge)
    losses = [brute.loss(budget / depth, depth) for depth in brute.depths]
    assert found.loss == pytest.approx(min(losses), rel=1e-4)
    assert abs(found.depth - 1 - int(np.argmin(losses))) <= 1
    assert (found.width, found.context, found.status) == (math.inf, math.inf, "ok")
    assert found.time * found.depth == pytest.approx(budget)


@pytest.mark.parametrize("time", ["scalar", "matrix"])
def test_exact_shape_over_width_and_depth(brute, time):
    table, edge = made_up(1.5, 0.8, floored=True)
    for budget in (1e4, 1e6):
        found = laws.exact_shape(budget, "t*N**2*L", 1.5, 0.8, DIM, time, table=table, edge=edge)
        losses = {}
        for width in range(1, DIM + 1):
            unit = 1 if time == "scalar" else width
            for depth in brute.depths:
                t = budget / (width**2 * depth) / unit
                losses[width, depth] = brute.loss(t, depth, floor(width, math.inf))
        assert found.loss == pytest.approx(min(losses.values()), rel=1e-4)
        assert losses[found.width, found.depth] < min(losses.values()) * (1 + 1e-4)


def test_exact_shape_over_width_context_and_depth(brute):
    table, edge = made_up(1.5, 0.8, floored=True)
    budget = 1e7
    found = laws.exact_shape(budget, "t*N*P*L", 1.5, 0.8, DIM, table=table, edge=edge)
    width, context = np.meshgrid(np.arange(1.0, DIM + 1), np.arange(1.0, 600.0))
    kept = 0.6 * width**-1.2 + 0.3 * context**-0.9
    best = min(
        float(np.min(brute.loss(budget / (width * context * depth), depth, kept)))
        for depth in range(1, 33)
    )
    assert best * (1 - 1e-4) < found.loss < best * (1 + 1e-4)
    assert found.context == round(found.context) < 500


def test_the_local_exponent_of_an_exact_shape():
    table, edge = made_up(1.5, 0.8, floored=False)
    options = {"table": table, "edge": edge}
    less, found, more = (
        laws.exact_shape(budget, "t*L", 1.5, 0.8, DIM, **options) for budget in (1.5e4, 3e4, 6e4)
    )
    slope = math.log(less.loss / more.loss) / math.log(4)
    assert found.exponent == pytest.approx(slope, rel=1e-9)


def test_more_depth_is_tried_where_the_best_is_the_largest():
    table, edge = made_up(1.5, 0.8, floored=False)
    options = {"table": table, "edge": edge}
    few = laws.exact_shape(1e5, "t*L", 1.5, 0.8, DIM, max_depth=4, **options)
    many = laws.exact_shape(1e5, "t*L", 1.5, 0.8, DIM, **options)
    assert few.depth == many.depth > 4
