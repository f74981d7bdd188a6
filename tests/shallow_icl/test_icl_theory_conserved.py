"""What gradient flow conserves, and heads that training does not need."""

import jax
import numpy as np
import pytest

from solvable import shallow_icl as icl

DATA = icl.sample(icl.Task(3, 6, noise=0.2), 200, seed=1)


def weights_of(run, *names):
    return [np.moveaxis(getattr(run, name), -1, 0) for name in names]


def drifts(start, conserved, names):
    """How far the conserved quantities drift over one time with two rates."""
    drift = []
    for lr, steps in ((0.04, 250), (0.01, 1000)):
        run = icl.train(DATA, start, lr=lr, steps=steps, log_every=steps, seed=2)
        found = [np.asarray(x) for x in jax.tree.leaves(conserved(*weights_of(run, *names)))]
        moved = [np.abs(w[-1] - w[0]).max() for w in weights_of(run, *names)]
        assert min(moved) > 0.05  # all weights have gone somewhere
        drift.append(max(np.abs(x[-1] - x[0]).max() for x in found))
    return drift


@pytest.mark.parametrize(
    ("start", "conserved", "names"),
    [
        (icl.merged(3, 0.3, zero_blocks=False), icl.conserved_merged, ("value", "key_query")),
        (
            icl.separate(3, 2, 0.5, zero_blocks=False),
            icl.conserved_separate,
            ("value", "key", "query"),
        ),
    ],
    ids=["merged", "separate"],
)
def test_conserved_quantities_drift_with_the_rate_only(start, conserved, names):
    """On any data and with all blocks; a step of Euler's is off by its square."""
    coarse, fine = drifts(start, conserved, names)
    assert coarse / fine == pytest.approx(4.0, rel=0.15)
    assert fine < 0.02


def test_conserved_quantities_are_those_of_the_definition():
    rng = np.random.default_rng(0)
    value, inner = rng.normal(size=(2, 3, 1, 5)), rng.normal(size=(2, 3, 5, 4))
    found = np.asarray(icl.conserved_merged(value, inner))
    assert found.shape == (2, 3, 3)
    i, j = 0, 2
    true = np.sum(inner[1, i] * inner[1, j]) - value[1, i, 0] @ value[1, j, 0]
    assert found[1, i, j] == pytest.approx(true, rel=1e-13)
    key, query = rng.normal(size=(3, 2, 5)), rng.normal(size=(3, 2, 4))
    found = icl.conserved_separate(value[0], key, query)
    assert found.value_key.shape == (3,)
    assert found.key_query.shape == (3, 2, 2)
    for i in range(3):
        norms = np.sum(value[0, i] ** 2) - np.sum(key[i] ** 2)
        assert float(found.value_key[i]) == pytest.approx(norms, rel=1e-13)
        np.testing.assert_allclose(
            found.key_query[i], key[i] @ key[i].T - query[i] @ query[i].T, rtol=1e-12, atol=1e-14
        )


def test_fewer_heads_train_to_the_same_losses():
    """Forty heads in three dimensions need ten."""
    task, start = icl.Task(3, 20), icl.merged(40, 0.05)
    full = icl.train(task, start, lr=0.2, steps=200, log_every=10)
    first = [np.asarray(weights)[..., 0] for weights in (full.value, full.key_query)]
    value, inner = icl.fewer_heads(*first)
    assert value.shape == (10, 1, 4)
    assert inner.shape == (10, 4, 3)
    np.testing.assert_array_equal(value[..., :3], 0.0)
    np.testing.assert_array_equal(inner[:, 3], 0.0)
    whole = {"value": np.zeros((10, 4, 4)), "key_query": np.zeros((10, 4, 4))}
    whole["value"][:, 3:], whole["key_query"][..., :3] = value, inner
    found = icl.train(task, icl.given(**whole, dim=3), lr=0.2, steps=200, log_every=10)
    np.testing.assert_allclose(found.loss, full.loss, rtol=0.0, atol=1e-14)
    ends = [np.asarray(run.map)[..., -1] for run in (found, full)]
    np.testing.assert_allclose(*ends, rtol=0.0, atol=1e-13)


def test_fewer_heads_leave_few_heads_alone_and_keep_the_map():
    rng = np.random.default_rng(0)
    value, inner = rng.normal(size=(2, 30, 1, 4)), rng.normal(size=(2, 30, 4, 3))
    fewer_value, fewer_inner = icl.fewer_heads(value, inner)
    assert fewer_value.shape == (2, 16, 1, 4)
    tensors = [
        np.einsum("nhoa,nhbc->noabc", *pair)
        for pair in ((value, inner), (fewer_value, fewer_inner))
    ]
    np.testing.assert_allclose(tensors[1], tensors[0], atol=1e-12)
    same_value, same_inner = icl.fewer_heads(value[:, :16], inner[:, :16])
    np.testing.assert_array_equal(same_value, value[:, :16])
    np.testing.assert_array_equal(same_inner, inner[:, :16])
    nothing, _ = icl.fewer_heads(np.zeros((5, 1, 4)), np.zeros((5, 4, 3)))
    assert nothing.shape == (1, 1, 4)
