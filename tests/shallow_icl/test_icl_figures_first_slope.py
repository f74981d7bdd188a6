"""The tensor by which all blocks first grow, from the tokens; and how it is that of the theory."""

import numpy as np

from solvable import shallow_icl as icl
from solvable.shallow_icl.figures._first_slope import first_slope


def test_the_first_slope_is_the_mean_over_sequences_of_targets_moments_and_queries():
    """``E[y_q G_ab x_{q,c}]``, ``G = XXᵀ/N``, the query's own label being zero in X."""
    task = icl.Task(dim=3, context=5, noise=0.3)
    data = icl.sample(task, 40, seed=1)
    told = np.zeros((4, 4, 3))
    for x, y, target in zip(*map(np.asarray, (data.x, data.y, data.target)), strict=True):
        shown = np.append(y[:-1, 0], 0.0)
        tokens = np.column_stack([x, shown]).T
        told += np.multiply.outer(target[-1, 0] * tokens @ tokens.T / 5.0, x[-1]) / 40.0
    found = first_slope(icl.statistics(data))
    np.testing.assert_allclose(found, told.reshape(4, 12), rtol=0, atol=1e-14)


def test_its_top_singular_value_is_the_rate_at_which_training_leaves_a_small_start():
    task = icl.Task(dim=3, context=5)
    found = icl.statistics(icl.sample(task, 200, seed=2))
    growth = np.log1p(2.0 * 0.02 * np.linalg.norm(first_slope(found), 2))
    steps = 50 * int(60.0 / growth / 50.0)  # by e^60: the other modes are left behind
    run = icl.train(found, icl.merged(4, 1e-30), lr=0.02, steps=steps, log_every=50)
    weights = (np.asarray(run.value), np.asarray(run.key_query))
    size = np.sqrt(sum(np.sum(w**2, axis=(0, 1, 2)) for w in weights))
    assert size[-1] < 1e-3
    np.testing.assert_allclose(np.log(size[-1] / size[-2]) / 50.0, growth, rtol=1e-6)
