"""The best shape for a budget against closed forms, brute force, and an exactly known table."""

import math

import numpy as np
import pytest

from solvable.deep_icl import gamma_curve, laws, loss, loss_curve
from solvable.deep_icl.laws._cost import Cost
from solvable.deep_icl.laws._exact import Model
from solvable.deep_icl.laws._shape import exact_shape

pytestmark = pytest.mark.slow

DIM = 64


def grown(cost, nu, beta, **options):
    options = {"nu": nu, "beta": beta, "cost": cost, "method": "law", **options}
    small, large = (laws.optimal_shape(budget, **options) for budget in (1e12, 1e14))
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
    alone = laws.optimal_shape(1e6, nu=1.25, beta=0.8, cost="2*t", method="law")
    assert (alone.time, alone.depth) == (pytest.approx(5e5), math.inf)


def test_a_budget_below_the_laws_says_so():
    little, more = (
        laws.optimal_shape(budget, nu=1.25, beta=0.8, method="law") for budget in (100.0, 1e6)
    )
    assert little.status.startswith("beyond the laws")
    assert more.status == "ok"


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
    options = {"cost": cost, "time": time, "dim": 512, "method": "law"}
    best = laws.optimal_shape(budget, nu=1.25, beta=0.8, **options)
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
    options = {"nu": 1.25, "beta": 0.8, "cost": "t*(N**2*L + 40*N) + 1e4*N**1.5", "method": "law"}
    best = laws.optimal_shape(1e10, **options)
    h = 1e-3
    near = [laws.optimal_shape(1e10 * math.exp(sign * h), **options).loss for sign in (-1, 1)]
    assert best.exponent == pytest.approx(math.log(near[0] / near[1]) / (2 * h), rel=1e-5)


def test_a_function_is_as_good_as_an_expression():
    costs = ("t*N**2*(L + 5)", lambda t, L, N: t * N**2 * (L + 5))
    text, code = (
        laws.optimal_shape(1e10, nu=1.25, beta=0.8, cost=cost, method="law") for cost in costs
    )
    np.testing.assert_allclose(
        [code.time, code.width, code.depth], [text.time, text.width, text.depth], rtol=1e-9
    )
    assert code.context == math.inf


def test_small_budgets_end_at_one_layer():
    small = laws.optimal_shape(1e-2, nu=1.25, beta=0.8, method="law")
    assert small.depth == 1.0
    assert small.status.startswith("beyond the laws")


@pytest.mark.parametrize(("nu", "beta"), [(1.5, 1.0), (1.0, 0.8), (0.7, 0.8), (1.5, 2.0)])
def test_caps_and_flat_spectra(nu, beta):
    """At a logarithm the exact floor stands for the law; the exponent is approached slowly."""
    small, large = grown("t*N*P*L", nu, beta)
    local = math.log(small.loss / large.loss) / math.log(100)
    assert local == pytest.approx(small.exponent, rel=0.1)


# ---- the search, on losses that are known otherwise --------------------------------------------


def spectra(nu, beta):
    k = np.arange(1.0, DIM + 1)
    a = k ** -(nu * beta + 1)
    return k**-nu, a / a.sum()


def floor(width, context):
    """A made-up part of the loss that no training removes."""
    bounded = 0.0 if math.isinf(width) else 0.6 * width**-1.2
    return bounded + (0.0 if math.isinf(context) else 0.3 * context**-0.9)


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


def searched(brute, budget, cost, time="scalar"):
    """The exact search on the brute losses and a made-up floor."""
    guess = laws.optimal_shape(
        budget, nu=1.5, beta=0.8, cost=cost, time=time, dim=DIM, method="law"
    )

    def made_up(t, width, context, depth):
        assert depth == round(depth)
        return float(brute.loss(t, min(depth, 64), floor(width, context)))

    return exact_shape(guess, Cost(cost), made_up)


@pytest.mark.parametrize("depth", [1, 2, 7, 30, 64])
def test_the_flow_of_the_model_at_unlimited_width(brute, depth):
    """Against the trapezoid rule over γ, whose error is a few 1e-6."""
    model = Model(1.5, 0.8, DIM)
    for t in np.geomspace(1e-3, 1e5, 9):
        found = model(float(t), math.inf, math.inf, depth)
        assert found == pytest.approx(brute.loss(t, depth), rel=1e-5)


@pytest.mark.parametrize("budget", [3e2, 1e4, 1e5])
def test_exact_shape_at_unlimited_width(brute, budget):
    found = searched(brute, budget, "t*L")
    losses = [brute.loss(budget / depth, depth) for depth in brute.depths]
    assert found.loss == pytest.approx(min(losses), rel=1e-12)
    assert found.depth == 1 + int(np.argmin(losses))
    assert (found.width, found.context, found.status) == (math.inf, math.inf, "ok")
    assert found.time * found.depth == pytest.approx(budget)


@pytest.mark.parametrize("time", ["scalar", "matrix"])
def test_exact_shape_over_width_and_depth(brute, time):
    for budget in (1e4, 1e6):
        found = searched(brute, budget, "t*N**2*L", time)
        losses = {}
        for width in range(1, DIM + 1):
            unit = 1 if time == "scalar" else width
            for depth in brute.depths:
                t = budget / (width**2 * depth) / unit
                losses[width, depth] = brute.loss(t, depth, floor(width, math.inf))
        assert found.loss == pytest.approx(losses[found.width, found.depth], rel=1e-12)
        assert found.loss == pytest.approx(min(losses.values()), rel=1e-12)


def test_exact_shape_over_width_context_and_depth(brute):
    budget = 1e7
    found = searched(brute, budget, "t*N*P*L")
    width, context = np.meshgrid(np.arange(1.0, DIM + 1), np.arange(1.0, 600.0))
    kept = 0.6 * width**-1.2 + 0.3 * context**-0.9
    best = min(
        float(np.min(brute.loss(budget / (width * context * depth), depth, kept)))
        for depth in range(1, 33)
    )
    assert best * (1 - 1e-12) < found.loss < best * (1 + 1e-5)
    assert found.context == round(found.context) < 500


def test_the_local_exponent_of_an_exact_shape(brute):
    less, found, more = (searched(brute, budget, "t*L") for budget in (1.5e4, 3e4, 6e4))
    slope = math.log(less.loss / more.loss) / math.log(4)
    assert found.exponent == pytest.approx(slope, rel=1e-9)


# ---- the model's own shapes --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "options"),
    [
        (3e5, {"dim": 200}),
        (1e6, {"dim": 200, "time": "matrix"}),
        (1e6, {"dim": 200, "cost": "t*N*P*L"}),
        (1e3, {"dim": 200, "cost": "t*L"}),
        (30.0, {"dim": 200}),
        (1e4, {"dim": 200, "cost": "t*N"}),
    ],
)
def test_a_shape_has_the_loss_of_its_curve(budget, options):
    """Spec G: one t, one γ. The shape's loss is that of `loss_curve`, and of its γ."""
    shape = laws.optimal_shape(budget, nu=1.25, beta=0.8, method="exact", **options)
    task = shape.task()
    assert shape.curve() == pytest.approx(shape.loss, rel=1e-5)
    depth = min(shape.depth, 256.0)
    gamma = gamma_curve(task, shape.time, depth, time=shape.unit)
    assert loss(task, gamma=gamma, depth=depth) == pytest.approx(shape.loss, rel=1e-5)
    later = shape.curve([shape.time, 2.0 * shape.time])
    np.testing.assert_allclose(
        later, loss_curve(task, [shape.time, 2 * shape.time], depth, time=shape.unit)
    )
    assert later[1] < later[0]


def test_the_shape_of_the_specification():
    shape = laws.optimal_shape(3e5, nu=1.25, beta=0.8, dim=200)
    assert (shape.method, shape.width, shape.depth, shape.status) == ("exact", 47.0, 3.0, "ok")
    assert shape.time == pytest.approx(45.269, abs=5e-4)
    assert shape.loss == pytest.approx(0.15052507, rel=1e-6)
    assert "the model's loss" in repr(shape)


def test_no_whole_shape_near_the_exact_one_is_better():
    shape = laws.optimal_shape(3e5, nu=1.25, beta=0.8, dim=200, method="exact")
    model = Model(1.25, 0.8, 200)
    for width in range(38, 58):
        for depth in (2, 3, 4, 5):
            t = 3e5 / (width**2 * depth)
            assert model(t, float(width), math.inf, depth) >= shape.loss * (1 - 1e-9)


def test_the_exact_frontier_is_flatter_than_the_law():
    """At C = 10⁹: 0.141 from half to twice the budget, against 0.1481 far out."""
    shape = laws.optimal_shape(1e9, nu=1.25, beta=0.8)
    assert shape.method == "exact"
    assert (shape.width, shape.depth) == (282.0, 8.0)
    assert shape.exponent == pytest.approx(0.1410, abs=5e-4)
    assert shape.task().spectrum.lam.size < 2000


def test_a_law_is_called_one():
    """N, L and P go down to whole numbers, and the curve is the model's."""
    shape = laws.optimal_shape(1e9, nu=1.25, beta=0.8, method="law")
    assert "a law's number" in repr(shape)
    task = shape.task()
    assert (task.width, task.dim) == (math.floor(shape.width), 10**6)
    model = Model(1.25, 0.8, 10**6)
    found = model(shape.time, float(task.width), math.inf, math.floor(shape.depth))
    assert shape.curve() == pytest.approx(found, rel=1e-6)
    assert float(shape.curve()) < 0.7 * shape.loss


def test_unless_asked_deep_shapes_are_those_of_the_laws():
    assert laws.optimal_shape(1e16, nu=1.25, beta=0.8).method == "law"
    with pytest.raises(ValueError, match="dim must be finite for the method 'exact'"):
        laws.optimal_shape(1e9, nu=1.25, beta=0.8, dim=math.inf, method="exact")
