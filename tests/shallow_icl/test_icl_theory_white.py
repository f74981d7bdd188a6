"""White tokens: the time course against the flow of all weights, and escape rates."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from solvable import shallow_icl as icl

WHITE = icl.Task(dim=4, context=31, spectrum="white")
TASK = icl.Task(dim=4, context=31)
MIXED = icl.Task(dim=4, context=31, in_context=0.4)


def flow(task, value, inner, times):
    """V_i (heads, outputs, outputs) and U_i (heads, dim, dim) of the gradient flow, by a solver."""
    moments, outputs = icl.population(task), task.outputs
    best, gram, lam = (np.asarray(x) for x in (moments.best, moments.gram, moments.spectrum))
    goal = np.einsum("op,de->opde", np.eye(outputs), np.diag(best))
    split = value.size

    def velocity(_, state):
        v, u = state[:split].reshape(value.shape), state[split:].reshape(inner.shape)
        gap = goal - np.einsum("hop,hde->opde", v, u)
        push = gram[:, None] * gap * lam / outputs  # −½ ∂L/∂M
        return np.concatenate(
            [
                np.einsum("opde,hde->hop", push, u).ravel(),
                np.einsum("opde,hop->hde", push, v).ravel(),
            ]
        )

    start = np.concatenate([value.ravel(), inner.ravel()])
    found = solve_ivp(
        velocity, (0.0, times[-1]), start, "DOP853", times, rtol=1e-12, atol=1e-15
    ).y.T
    return found[:, :split].reshape(-1, *value.shape), found[:, split:].reshape(-1, *inner.shape)


@pytest.mark.parametrize("size", [1e-3, 0.2, 3.0])
@pytest.mark.parametrize(
    "options",
    [{}, {"noise": 0.5}, {"lengths": "varied"}, {"outputs": 2}],
    ids=["plain", "noise", "varied", "two outputs"],
)
def test_time_course_is_exact_from_an_aligned_balanced_start_of_any_size(size, options):
    task = icl.Task(3, 12, "white", **options)
    mix = np.array([0.6, -0.8])
    eye = np.eye(task.outputs) / math.sqrt(task.outputs)
    value = size * mix[:, None, None] * eye
    inner = size * mix[:, None, None] * np.eye(3) / math.sqrt(3)
    times = np.linspace(0.0, 120.0, 40)
    v, u = flow(task, value, inner, times)
    maps = np.einsum("thop,thde->topde", v, u)
    sigma = icl.white_map(task, size**2, times)
    np.testing.assert_allclose(maps[:, 0, 0, 0, 0], sigma, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(
        maps, np.einsum("t,op,de->topde", sigma, np.eye(task.outputs), np.eye(3)), atol=1e-9
    )
    losses = icl.white_loss(task, size**2, times)
    np.testing.assert_allclose(losses, icl.loss(task, maps[:, 0, 0]), rtol=0.0, atol=1e-9)
    live = (
        np.pad(value, ((0, 0), (0, 0), (3, 0))),
        np.pad(inner, ((0, 0), (0, task.outputs), (0, 0))),
    )
    assert float(icl.growing_mode(task, *live)) == pytest.approx(size**2, rel=1e-13)


@pytest.mark.parametrize("outputs", [1, 2])
def test_time_course_follows_training_from_random_weights(outputs):
    task = icl.Task(4, 31, "white", outputs=outputs, basis="random")
    rates = np.array([0.02, 0.005])
    run = icl.train(
        task, icl.merged(heads=3, scale=1e-3), lr=rates, steps=12_000, seed=range(4), log_every=20
    )
    first = [np.asarray(weights)[0, ..., 0] for weights in (run.value, run.key_query)]
    u0 = icl.growing_mode(task, *first)
    assert u0.shape == (4,)
    middle = float(icl.loss(task, 0.5 * np.asarray(icl.converged_map(task))))
    half = np.asarray(icl.half_rise_time(task, u0))
    errors = []
    for time, loss in zip(run.time, np.asarray(run.loss), strict=True):
        gap = np.abs(loss - np.asarray(icl.white_loss(task, u0, time))).max()
        shift = np.abs(icl.crossing_times(time, loss, [middle])[:, 0] / half - 1.0).max()
        errors.append((gap, shift))
    # Euler's error falls with the rate; what the finite start leaves is below 1e-4.
    np.testing.assert_allclose(np.divide(*errors), 4.0, rtol=0.1)
    assert errors[1] <= (4e-3, 2e-3)


def test_growing_mode_is_not_the_size_of_the_weights():
    """Opposite w₂ and W₁m decay; with ‖w₂‖² instead the half-rise would be off by per cents."""
    rng = np.random.default_rng(0)
    mode = np.diag(np.asarray(TASK.eigenvalues) ** 2)
    mode /= np.linalg.norm(mode)
    v = rng.normal(size=5)
    value, inner = np.zeros((5, 1, 5)), np.zeros((5, 5, 4))
    value[:, 0, 4] = v
    inner[:, :4] = -v[:, None, None] * mode
    assert float(icl.growing_mode(TASK, value, inner)) == pytest.approx(0.0, abs=1e-30)
    assert float(icl.growing_mode(TASK, value, -inner)) == pytest.approx(v @ v, rel=1e-13)
    batch = icl.growing_mode(TASK, np.stack([value] * 3), np.stack([inner, -inner, 0 * inner]))
    np.testing.assert_allclose(batch, [0.0, v @ v, v @ v / 4], atol=1e-15)


def test_growing_mode_does_not_depend_on_the_basis():
    turned = icl.Task(4, 31, basis="random")
    basis = np.asarray(turned.basis)
    rng = np.random.default_rng(1)
    value, inner = rng.normal(size=(3, 1, 5)), rng.normal(size=(3, 5, 4))
    rotated = np.concatenate([basis @ inner[:, :4] @ basis.T, inner[:, 4:]], axis=1)
    assert float(icl.growing_mode(turned, value, rotated)) == pytest.approx(
        float(icl.growing_mode(TASK, value, inner)), rel=1e-13
    )


def test_white_course_at_its_limits():
    best = np.asarray(icl.population(WHITE).best)[0]
    for u0 in (1e-300, 1e-6, 0.5, 2.0 * best, 50.0):
        found = icl.white_map(WHITE, u0, [0.0, 1e300, math.inf]).tolist()
        assert found == pytest.approx([u0 / 2.0, best, best], rel=1e-13)
        losses = icl.white_loss(WHITE, u0, [1e300, math.inf]).tolist()
        assert losses == pytest.approx([float(icl.population(WHITE).floor)] * 2, rel=1e-14)
    assert icl.white_map(WHITE, 0.0, [0.0, 5.0, math.inf]).tolist() == [0.0, 0.0, 0.0]
    assert float(icl.white_loss(WHITE, 0.0, math.inf)) == pytest.approx(1.0, rel=1e-14)
    assert icl.half_rise_time(WHITE, [0.0, best, 3.0 * best]).tolist() == [math.inf, 0.0, 0.0]
    endless = icl.Task(4, None, "white")
    assert float(icl.white_loss(endless, 1e-4, math.inf)) == 0.0
    assert float(icl.white_map(endless, 1e-4, math.inf)) == pytest.approx(4.0, rel=1e-14)


def test_half_rise_time_is_where_the_map_is_half_way():
    u0 = np.geomspace(1e-12, 1.0, 64)
    t = icl.half_rise_time(WHITE, u0)
    found = np.diagonal(icl.white_map(WHITE, u0, t))
    half = 0.5 * np.asarray(icl.population(WHITE).best)[0]
    np.testing.assert_allclose(found, half, rtol=1e-12)


def test_escape_time_grows_by_the_predicted_wait_a_decade():
    times = np.asarray(icl.escape_time(TASK, [1.0, 0.1, 0.01]))
    rate = math.sqrt(np.sum(np.asarray(TASK.eigenvalues) ** 4))
    np.testing.assert_allclose(times, np.arange(3) * math.log(10.0) / rate, atol=1e-12)
    assert times[1] == pytest.approx(12.24, abs=5e-3)
    runs = [
        icl.train(TASK, icl.merged(2, s), lr=0.02, steps=2000, log_every=5) for s in (1e-3, 1e-4)
    ]
    level = np.asarray(icl.mid_levels(TASK))[:1]
    first, second = (icl.crossing_times(run.time, run.loss, level)[0] for run in runs)
    # Euler's growth a step is ln(1 + 2η rate), 0.4 % less than 2η rate.
    assert second - first == pytest.approx(times[1] * 1.0038, rel=1e-3)


@pytest.mark.parametrize(
    ("fraction", "true"), [(0.2, 15.89), (0.4, 12.38), (0.6, 8.95), (0.8, 5.76), (1.0, 3.875)]
)
def test_escape_rates_have_the_published_numbers(fraction, true):
    task = icl.Task(4, 31, "white", in_context=fraction)
    assert 31 * float(icl.escape_rate(task)) == pytest.approx(true, abs=6e-3)


def test_escape_rate_of_contexts_that_say_nothing():
    task = icl.Task(4, 31, "white", in_context=0.0, labels="noise")
    assert 31 * float(icl.escape_rate(task)) == pytest.approx(15.50, abs=5e-3)
    assert float(icl.escape_rate(task, "in-weight")) == float(icl.escape_rate(task))
    assert float(icl.escape_rate(task, "in-context")) == 0.0


def test_parts_of_the_escape_rate_bound_the_whole():
    for fraction in (0.0, 0.3, 0.7, 1.0):
        task = icl.Task(4, 31, "white", in_context=fraction)
        context, weight, whole = (
            float(icl.escape_rate(task, part)) for part in ("in-context", "in-weight", "all")
        )
        assert max(context, weight) <= whole * (1 + 1e-12)
        assert whole <= (context + weight) * (1 + 1e-12)
        assert context == pytest.approx(fraction * 0.125, rel=1e-13)
        full = float(icl.escape_rate(icl.Task(4, 31, "white", in_context=0.0)))
        assert weight == pytest.approx((1 - fraction) * full, rel=1e-12)


OPTIONS = {
    "mixed": {"in_context": 0.3, "noise": 0.4, "fixed": [1.0, 0.5, -2.0]},
    "noise": {"in_context": 0.0, "labels": "noise", "fixed": [1.0, 0.5, -2.0]},
    "varied n": {"in_context": 0.3, "lengths": "varied", "task_covariance": [1.0, 2.0, 0.5]},
    "varied n-1": {"in_context": 0.5, "lengths": "varied", "normalise": "n-1"},
}


@pytest.mark.parametrize("name", list(OPTIONS))
def test_escape_rate_is_the_singular_value_of_sampled_moments(name):
    task = icl.Task(3, 4, [0.6, 0.3, 0.1], basis="random", **OPTIONS[name])
    data = icl.sample(task, 100_000, seed=1)
    x, y, target = (np.asarray(part) for part in (data.x, data.y, data.target))
    lengths = range(1, 5) if task.lengths == "varied" else [4]
    moment = 0.0
    for m in lengths:
        shown = np.concatenate([y[:, :m], np.zeros_like(y[:, :1])], axis=1)
        tokens = np.concatenate([x[:, : m + 1], shown], axis=2)
        divisor = m + 1 if task.lengths == "varied" and task.normalise == "n" else m
        gram = np.einsum("pna,pnb->pab", tokens, tokens, optimize=True) / divisor
        weighted = target[:, m] * x[:, m]
        moment = moment + np.einsum("pab,pc->abc", gram, weighted, optimize=True) / len(x)
    top = np.linalg.svd((moment / len(lengths)).reshape(4, -1))[1][0]
    # 2 %: four standard errors of 100 000 sequences.
    assert float(icl.escape_rate(task)) == pytest.approx(top, rel=0.02)


def test_escape_rate_is_the_growth_of_training_a_step():
    """Merged attention with all its blocks, on a sample: ln(1 + 2η rate)."""
    task = icl.Task(3, 6, "white", in_context=0.4)
    data = icl.sample(task, 50_000, seed=3)
    lr, start = 0.05, icl.merged(4, 1e-9, zero_blocks=False)
    run = icl.train(data, start, lr=lr, steps=250, log_every=50)
    size = np.log(np.linalg.norm(np.asarray(run.value)[:, 0], axis=(0, 1)))
    growth = (size[-1] - size[-2]) / 50
    # 4 %: the sample's own rate is 2.5 % low at 50 000 sequences, 0.3 % at 400 000.
    assert growth == pytest.approx(math.log1p(2 * lr * float(icl.escape_rate(task))), rel=0.04)


def test_several_outputs_escape_more_slowly():
    rates = [float(icl.escape_rate(icl.Task(4, 31, outputs=k))) for k in (1, 2, 4)]
    np.testing.assert_allclose(rates, rates[0] / np.sqrt([1.0, 2.0, 4.0]), rtol=1e-14)


def test_softmax_rate_is_that_of_centred_statistics():
    task = icl.Task(2, 3, [0.7, 0.3])
    data = icl.sample(task, 200_000, seed=5, antithetic=True)
    x, y, target = (np.asarray(part) for part in (data.x, data.y, data.target))
    shown = y.copy()
    shown[:, -1] = 0.0
    mixed = np.mean(shown * x, axis=1) - np.mean(shown, axis=1) * np.mean(x, axis=1)
    moment = np.einsum("pb,pc->bc", mixed, target[:, -1] * x[:, -1]) / len(x)
    # 2 %: three standard errors of 200 000 sequences.
    assert float(icl.softmax_rate(task)) == pytest.approx(np.linalg.norm(moment), rel=0.02)
    assert float(icl.softmax_rate(icl.Task(4, None))) == float(icl.escape_rate(TASK))


def test_white_course_batches():
    u0, times = np.geomspace(1e-9, 10.0, 64), np.concatenate([[0.0], np.geomspace(1e-3, 1e6, 63)])
    batch = np.asarray(icl.white_loss(WHITE, u0, times))
    assert batch.shape == (64, 64)
    np.testing.assert_allclose(icl.white_loss(WHITE, u0[3], times[40]), batch[3, 40], rtol=1e-12)


def test_a_mode_far_above_its_end_falls_to_it():
    best = np.asarray(icl.population(WHITE).best)[0]
    found = icl.white_map(WHITE, 1e100, [0.0, 1e-60, math.inf]).tolist()
    # From so high σ = 1/(1/σ₀ + rate t/w*), rate = 2 √D λ².
    assert found == pytest.approx([0.5e100, best / (0.25 * 1e-60), best], rel=1e-12)


def test_slopes_of_white_functions_are_those_of_finite_differences():
    def total(eigenvalues, u0):
        task = eqx.tree_at(lambda t: t.eigenvalues, WHITE, eigenvalues)
        mixed = eqx.tree_at(lambda t: t.eigenvalues, MIXED, eigenvalues)
        return (
            jnp.sum(icl.white_loss(task, u0, np.array([0.0, 1.0, 60.0, 1e300, np.inf])))
            + icl.half_rise_time(task, u0)
            + icl.escape_time(task, u0)
            + icl.escape_rate(task)
            + icl.escape_rate(mixed)
            + icl.softmax_rate(task)
        )

    both = jax.jit(jax.value_and_grad(total, argnums=(0, 1)))
    at, step = (np.asarray(WHITE.eigenvalues), 1e-3), 1e-6
    value, slopes = both(*at)
    plain = total(*map(jnp.asarray, at))
    np.testing.assert_allclose(value, plain, rtol=1e-12)
    ends = [float(both(at[0] + sign * step, at[1])[0]) for sign in (1.0, -1.0)]
    summed = np.asarray(slopes[0]).sum()
    assert summed == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6)
    ends = [float(both(at[0], at[1] + sign * 1e-9)[0]) for sign in (1.0, -1.0)]
    assert float(slopes[1]) == pytest.approx((ends[0] - ends[1]) / 2e-9, rel=1e-5)
