"""Fixed points of separate attention, their stability, and levels between plateaus."""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from solvable import shallow_icl as icl

TASK = icl.Task(dim=4, context=31)
TURNED = icl.Task(dim=4, context=31, basis="random")
VARIED = icl.Task(dim=4, context=31, noise=0.3, lengths="varied", basis="random", basis_seed=2)
SUBSETS = [s for m in range(5) for s in itertools.combinations(range(4), m)]


def loss_of(task, weights):
    dim = task.dim
    value, key, query = map(np.asarray, (weights["value"], weights["key"], weights["query"]))
    value, key = value[:, 0, dim], key[..., :dim]
    return icl.loss(task, np.einsum("h,hrd,hre->de", value, key, query))


@jax.jit
def slope_and_curvature(moments, basis, weights):
    flat, rebuild = ravel_pytree(weights)

    def scalar(x):
        parts, dim = rebuild(x), len(basis)
        value, key = parts["value"][:, 0, dim], parts["key"][..., :dim]
        maps = jnp.einsum("h,hrd,hre->de", value, key, parts["query"])
        return moments.floor + moments.excess(moments.gap(basis.T @ maps @ basis))

    return jax.grad(scalar)(flat), jax.hessian(scalar)(flat)


def spectrum_of(task, weights):
    basis = np.eye(task.dim) if task.basis is None else np.asarray(task.basis)
    slope, curvature = slope_and_curvature(icl.population(task), basis, weights)
    return np.abs(np.asarray(slope)).max(), np.linalg.eigvalsh(np.asarray(curvature))


@pytest.mark.parametrize("subset", SUBSETS, ids=str)
def test_every_subset_is_a_fixed_point_with_the_predicted_curvature(subset):
    """Of L, not of L/2; with spare heads at zero."""
    for task in (TASK, VARIED):
        weights = icl.aligned_weights(task, subset, heads=5)
        slope, eigenvalues = spectrum_of(task, weights)
        assert slope <= 1e-15
        least = float(icl.stability(task, subset))
        assert least == pytest.approx(min(0.0, eigenvalues[0]), abs=1e-14)
        in_order = subset == tuple(range(len(subset)))
        assert (least == 0.0) == in_order
        np.testing.assert_allclose(
            loss_of(task, weights), icl.plateau_loss(task, subset), rtol=1e-14
        )


def test_stability_has_the_published_numbers():
    for subset, true in (([1], -0.0655), ([0, 2], -0.0579), ([1, 2], -0.158), ([0, 1, 2], 0.0)):
        assert float(icl.stability(TASK, subset)) == pytest.approx(true, abs=5e-4)


@pytest.mark.parametrize("task", [TASK, TURNED, VARIED], ids=["plain", "turned", "varied"])
def test_map_and_loss_of_a_fixed_point_agree(task):
    for subset in SUBSETS:
        m = icl.fixed_point(task, subset)
        np.testing.assert_allclose(
            icl.loss(task, m), icl.plateau_loss(task, subset), rtol=1e-14, atol=1e-15
        )
        assert int(np.linalg.matrix_rank(np.asarray(m))) == len(subset)
    np.testing.assert_allclose(icl.fixed_point(task, range(4)), icl.converged_map(task), atol=1e-14)
    losses = [float(icl.plateau_loss(task, range(m))) for m in range(5)]
    np.testing.assert_allclose(losses, icl.plateau_losses(task), rtol=1e-14)


def test_plateaus_of_long_contexts_are_the_eigenvalues_left():
    endless = icl.Task(4, None)
    losses = [float(icl.plateau_loss(endless, range(m))) for m in range(5)]
    np.testing.assert_allclose(losses, [1.0, 0.6, 0.3, 0.1, 0.0], atol=1e-15)
    np.testing.assert_allclose(icl.fixed_point(endless, [0, 3]), np.diag([2.5, 0, 0, 10.0]))


def test_members_with_mixed_signed_heads_are_critical_too():
    """C1 and C2 of the paper: heads may share the directions learned, and have any signs."""
    rng = np.random.default_rng(0)
    subset, dim, heads = (0, 2), 4, 5
    held = np.eye(dim)[:, list(subset)]
    key, query = (rng.normal(size=(heads, 1, 2)) @ held.T for _ in range(2))
    # v such that Σ v k qᵀ = M_S: four equations, five heads.
    pairs = np.einsum("hrd,hre->hde", key @ held, query @ held).reshape(heads, -1)
    target = (held.T @ np.asarray(icl.fixed_point(TASK, subset)) @ held).ravel()
    v = np.linalg.lstsq(pairs.T, target, rcond=None)[0]
    weights = {
        "value": np.pad(v[:, None, None], ((0, 0), (0, 0), (dim, 0))),
        "key": np.pad(key, ((0, 0), (0, 0), (0, 1))),
        "query": query,
    }
    slope, _ = spectrum_of(TASK, weights)
    assert slope <= 1e-13


def test_fewer_heads_than_dimensions_end_at_the_largest_eigenvalues():
    run = icl.train(TASK, icl.separate(heads=2, scale=0.3), lr=0.3, steps=4000, seed=range(3))
    expected = float(icl.plateau_loss(TASK, [0, 1]))
    np.testing.assert_allclose(np.asarray(run.loss)[:, -1], expected, rtol=1e-9)
    end = np.asarray(run.map)[0, :, :, -1]
    np.testing.assert_allclose(end, icl.fixed_point(TASK, [0, 1]), rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("groups", [[(0, 1), (2, 3)], [(0, 1, 2, 3)], [(0,), (1, 3), (2,)], []])
def test_heads_of_higher_rank_are_balanced_fixed_points(groups):
    weights = icl.final_weights(TURNED, groups, heads=4, rank=4)
    slope, eigenvalues = spectrum_of(TURNED, weights)
    assert slope <= 1e-15
    held = [d for group in groups for d in group]
    np.testing.assert_allclose(loss_of(TURNED, weights), icl.plateau_loss(TURNED, held), rtol=1e-14)
    kept = icl.conserved_separate(**weights)
    np.testing.assert_allclose(kept.value_key, 0.0, atol=1e-14)
    np.testing.assert_allclose(kept.key_query, 0.0, atol=1e-15)
    if len(held) == 4:
        assert eigenvalues[0] >= -1e-14


def test_spare_pair_of_rows_escapes_at_the_predicted_rate():
    weights = icl.final_weights(TASK, [(0,)], heads=4, rank=4)
    _, eigenvalues = spectrum_of(TASK, weights)
    rate = float(icl.rank_escape_rate(TASK, (0,), 1))
    assert eigenvalues[0] == pytest.approx(-2.0 * rate, rel=1e-12)
    assert 2.0 * rate == pytest.approx(0.235740, abs=5e-7)
    assert float(icl.rank_escape_rate(TASK, (), 1)) == 0.0


def test_published_sizes_of_heads():
    task = icl.Task(8, 31)
    sizes = [
        np.asarray(icl.final_weights(task, [group])["value"])[0, 0, -1]
        for group in ((6, 7), (4, 5), range(8), range(4, 8))
    ]
    np.testing.assert_allclose(sizes, [3.0210, 2.4803, 3.9480, 3.499], atol=5e-4)


@pytest.mark.parametrize(
    ("start", "paper", "code"),
    [
        (icl.merged(8, 1e-3), (1.42, 3.07), (0.0459, 0.099)),
        (icl.separate(9, 1), (1.59, 4.32), (0.161, 0.437)),
        (icl.separate(1, 8), (1.13, 2.47), (0.115, 0.250)),
    ],
    ids=["merged", "rank 1", "one head"],
)
def test_largest_rate_has_the_published_numbers(start, paper, code):
    for dim, in_paper, in_code in zip((4, 8), paper, code, strict=True):
        task = icl.Task(dim, 31)
        assert float(icl.largest_rate(task, start)) == pytest.approx(in_paper, rel=4e-3)
        assert float(icl.largest_rate(task, start, "code")) == pytest.approx(in_code, rel=4e-3)


@pytest.mark.parametrize(("heads", "rank"), [(5, 1), (2, 1), (2, 2), (2, 3), (4, 4), (1, 4)])
def test_largest_rate_is_that_of_the_hessian_for_separate_attention(heads, rank):
    for task in (TASK, VARIED):
        learned = min(4, heads * rank)
        groups = [range(i, min(i + rank, learned)) for i in range(0, learned, rank)]
        spare = (5, 1) if rank == 1 else (4, 4)
        weights = icl.final_weights(task, groups, heads=spare[0], rank=spare[1])
        _, eigenvalues = spectrum_of(task, weights)
        found = float(icl.largest_rate(task, icl.separate(heads, rank)))
        assert found == pytest.approx(2.0 / eigenvalues[-1], rel=1e-12)


@pytest.mark.parametrize("outputs", [1, 2])
def test_largest_rate_is_that_of_the_hessian_for_merged_attention(outputs):
    task = icl.Task(3, 20, outputs=outputs)
    moments = icl.population(task)
    best = np.asarray(moments.best)
    size = (outputs * np.sum(best**2)) ** 0.25
    mix = np.array([0.6, -0.8])
    v = mix[:, None, None] * size * np.eye(outputs) / outputs**0.5
    u = mix[:, None, None] * np.diag(best) * outputs**0.5 / size
    goal = np.eye(outputs)[:, :, None, None] * np.diag(best)

    def scalar(x):
        first, second = x[: v.size].reshape(v.shape), x[v.size :].reshape(u.shape)
        maps = jnp.einsum("hop,hde->opde", first, second)
        return jnp.sum(moments.excess(maps - goal)) / outputs

    value, curvature = jax.jit(lambda x: (scalar(x), jax.hessian(scalar)(x)))(
        np.concatenate([v.ravel(), u.ravel()])
    )
    assert float(value) <= 1e-28
    top = np.linalg.eigvalsh(np.asarray(curvature))[-1]
    found = float(icl.largest_rate(task, icl.merged(2, 1.0)))
    assert found == pytest.approx(2.0 / top, rel=1e-12)
    assert float(icl.largest_rate(task, icl.mlp(2, 1.0))) == found


def test_crossing_times_are_linear_between_points_and_first():
    time = np.array([0.0, 1.0, 2.0, 4.0])
    curves = np.array([[1.0, 0.5, 0.7, 0.1], [0.3, 0.2, 0.15, 0.12]])
    found = icl.crossing_times(time, curves, [0.75, 0.6, 0.11, 0.05])
    np.testing.assert_allclose(found[0], [0.5, 0.8, 4.0 - 2.0 / 60.0, np.nan], rtol=1e-13)
    np.testing.assert_allclose(found[1], [0.0, 0.0, np.nan, np.nan])
    batch = icl.crossing_times(time, np.tile(curves, (3, 2, 1, 1)), [0.75, 0.6])
    assert batch.shape == (3, 2, 2, 2)
    np.testing.assert_array_equal(batch[2, 1], found[:, :2])


def test_crossing_a_flat_curve_at_its_level_is_no_division_by_zero():
    assert icl.crossing_times([0.0, 1.0, 2.0], [0.5, 0.5, 0.2], [0.5, 0.3]).tolist() == [
        0.0,
        pytest.approx(1.0 + 2.0 / 3.0),
    ]


def test_plateau_levels_of_a_staircase_are_its_steps():
    time = np.concatenate([[0.0], np.geomspace(1e-2, 1e5, 4000)])
    heights = np.array([1.0, 0.6, 0.3, 0.1])
    drops = np.array([10.0, 300.0, 9e3])
    curve = heights[0] - np.sum(
        (heights[:-1] - heights[1:])[:, None] / (1.0 + (drops[:, None] / (time + 1e-9)) ** 8), 0
    )
    middles = 0.5 * (heights[:-1] + heights[1:])
    np.testing.assert_allclose(icl.crossing_times(time, curve, middles), drops, rtol=1e-3)
    found = icl.plateau_levels(time, np.stack([curve, np.ones_like(curve)]), middles)
    np.testing.assert_allclose(found[0], heights[1:-1], atol=1e-4)
    assert np.isnan(found[1]).all()
    assert np.isnan(icl.plateau_levels([0.0, 1.0], [1.0, 0.0], middles)).all()


def test_mid_levels_cross_where_half_of_the_drop_is_over():
    """A head at x_half has done half of its drop: (1 − x³)² = ½."""
    losses = np.asarray(icl.plateau_losses(TASK))
    done = float(icl.drop_fraction(icl.HALF_DROP))
    np.testing.assert_allclose(
        icl.mid_levels(TASK), losses[:-1] - done * (losses[:-1] - losses[1:]), rtol=1e-14
    )


def test_slopes_of_plateau_functions_are_those_of_finite_differences():
    def total(eigenvalues):
        task = eqx.tree_at(lambda t: t.eigenvalues, TASK, jnp.asarray(eigenvalues))
        return (
            icl.plateau_loss(task, [0, 2])
            + icl.stability(task, [0, 2])
            + jnp.sum(icl.mid_levels(task))
            + jnp.sum(icl.fixed_point(task, [1]))
            + jnp.sum(icl.final_weights(task, [(0, 1), (3,)])["key"])
            + icl.rank_escape_rate(task, (0,), 2)
            + icl.largest_rate(task, icl.merged(2, 1.0))
            + icl.largest_rate(task, icl.separate(3, 1))
            + icl.largest_rate(task, icl.separate(3, 2), "code")
        )

    compiled = jax.jit(jax.value_and_grad(total))
    assert np.isfinite(compiled(np.full(4, 0.25))[1]).all()  # where eigenvalues coincide
    at, step = np.asarray(TASK.eigenvalues), 1e-5
    slope = np.asarray(compiled(at)[1])
    for d in range(4):
        ends = [float(compiled(at + sign * step * np.eye(4)[d])[0]) for sign in (1, -1)]
        assert slope[d] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6)


def test_plateaus_of_infinite_context_and_one_dimension():
    single = icl.Task(1, math.inf)
    assert float(icl.plateau_loss(single, [0])) == 0.0
    assert float(icl.stability(single, [0])) == 0.0
    assert float(icl.stability(single, [])) == 0.0
    assert icl.mid_levels(single).tolist() == [0.5]
    assert icl.plateau_levels([1.0, 2.0], [1.0, 0.1], [0.5]).shape == (0,)
