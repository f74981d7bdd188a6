"""What the figure of the fixed points computes, against finite differences and real tokens."""

import itertools

import numpy as np
import pytest

from solvable import shallow_icl as icl
from solvable.shallow_icl.figures._convolution import attended, cubic, parts_of, stacked, trained
from solvable.shallow_icl.figures._zeros import (
    curvatures,
    joined,
    losses_of,
    maps_of,
    size_of,
    slopes,
    split,
    zeros,
)

TASK = icl.Task(dim=3, context=7, spectrum=[0.6, 0.3, 0.1])
LAM = np.asarray(TASK.eigenvalues)
HEADS = 4
KINDS = ("merged", "separate")


def drawn(kind, many=1, seed=0):
    return np.random.default_rng(seed).normal(size=(many, size_of(kind, HEADS, TASK.dim)))


def loss_at(weights, kind):
    """The population loss by the theory's own function of M."""
    return np.asarray(icl.loss(TASK, maps_of(weights, kind, HEADS, TASK.dim)))


def slope_at(weights, kind, by=1e-4):
    """The gradient by central differences."""
    steps = by * np.eye(len(weights))
    return (loss_at(weights + steps, kind) - loss_at(weights - steps, kind)) / (2 * by)


def curvature_at(weights, kind, by=1e-4):
    """The Hessian by central differences."""
    steps, bend = by * np.eye(len(weights)), 0.0
    for a, b in itertools.product((1, -1), repeat=2):
        bend = bend + a * b * loss_at(weights + a * steps[:, None] + b * steps, kind)
    return bend / (4 * by**2)


@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_weights_are_put_together_again(kind):
    weights = drawn(kind, 2)
    np.testing.assert_array_equal(joined(*split(weights, kind, HEADS, TASK.dim)), weights)


@pytest.mark.parametrize("kind", KINDS)
def test_loss_is_that_of_the_theory(kind):
    weights = drawn(kind, 3)
    found = np.asarray(losses_of(LAM, 7.0, maps_of(weights, kind, HEADS, TASK.dim)))
    told = loss_at(weights, kind)
    np.testing.assert_allclose(found, told, rtol=1e-13)
    np.testing.assert_allclose(slopes(weights, LAM, 7.0, kind, HEADS)[0], told, rtol=1e-13)


def test_stability_is_the_least_eigenvalue_of_a_hessian_by_finite_differences():
    """At every subset; `curvatures` has that Hessian, too. Differences are good to 1e-8/1e-4²."""
    for subset in [s for m in range(4) for s in itertools.combinations(range(3), m)]:
        held = {n: np.asarray(x) for n, x in icl.aligned_weights(TASK, subset, heads=HEADS).items()}
        parts = held["value"][None, :, 0, -1], held["key"][None, ..., :3], held["query"][None]
        weights = joined(*parts)
        assert np.abs(slope_at(weights[0], "separate")).max() < 1e-7
        bend = curvature_at(weights[0], "separate")
        least = np.linalg.eigvalsh(bend)[0]
        # The flat directions, which are many, are flat up to 1e-6 by differences.
        assert float(icl.stability(TASK, subset)) == pytest.approx(min(0.0, least), abs=3e-6)
        if subset in ((1,), (0, 2)):
            hessian = np.asarray(curvatures(weights, LAM, 7.0, "separate", HEADS)[1])[0]
            np.testing.assert_allclose(hessian, bend, rtol=0.0, atol=3e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_search_ends_at_zeros_of_the_gradient_by_finite_differences(kind):
    weights, size = zeros(2.0 * drawn(kind, 40, seed=1), LAM, 7.0, kind, HEADS, 80)
    accepted = weights[size < 1e-12]
    assert len(accepted) >= 3
    known = [
        np.asarray(icl.fixed_point(TASK, list(s)))
        for m in range(4)
        for s in itertools.combinations(range(3), m)
    ]
    for one in accepted[:3]:
        assert np.abs(slope_at(one, kind)).max() < 1e-6
        gaps = [np.abs(maps_of(one, kind, HEADS, 3) - m).max() for m in known]
        assert min(gaps) < 1e-6


SEEDS = range(2)


@pytest.fixture(scope="module")
def tied():
    """Weights of separate attention as they are drawn, and their parts for the net."""
    start = icl.separate(HEADS, 1, 0.3)
    draws = [start.draw(TASK, seed) for seed in SEEDS]
    return start, draws, parts_of(draws)


def test_features_and_matrices_of_the_net_are_attention_written_out(tied):
    """``ŷ = Σ_n Σ_i y_n v_i (k_i·x_n)(q_i·x_q)/N``, by loops over tokens and heads."""
    _, draws, parts = tied
    data = icl.sample(TASK, 5, seed=3)
    x, y = np.asarray(data.x), np.asarray(data.y)[..., 0]
    told = np.zeros((2, 5))
    for seed, p, n, h in itertools.product(SEEDS, range(5), range(7), range(HEADS)):
        v, k, q = (parts[name][seed, h] for name in ("value", "key", "query"))
        told[seed, p] += v * y[p, n] * (k @ x[p, n]) * (q @ x[p, -1]) / 7.0
    z, target = cubic(data)
    split_up = [stacked({name: w[seed] for name, w in parts.items()}, z) for seed in SEEDS]
    np.testing.assert_allclose(split_up, told, rtol=0, atol=1e-14)
    np.testing.assert_allclose(attended(draws, data), told, rtol=0, atol=1e-14)
    np.testing.assert_allclose(target, np.asarray(data.target)[:, -1, 0], rtol=0)


def test_training_of_the_net_is_that_of_the_moments_without_the_blocks(tied):
    """On any data: `train` on statistics with zero blocks shares no code with the net."""
    start, _, parts = tied
    data = icl.sample(TASK, 60, seed=4)
    z, target = cubic(data)
    how = {"lr": 0.1, "steps": 200, "log_every": 20}
    found = trained(parts, z, target, **how)
    run = icl.train(icl.statistics(data, "zero"), start, blocks="zero", seed=SEEDS, **how)
    assert np.ptp(found) > 0.1
    np.testing.assert_allclose(found, run.loss, rtol=1e-12)
