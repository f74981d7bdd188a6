"""The reduced training is the training on tokens: the same trajectory, to round-off."""

import numpy as np
import optax
import pytest

from solvable import msfr

pytestmark = pytest.mark.slow

S, N, STEPS, WIDTH = 6, 40, 60, 4  # those of the tests on tokens, too: one compilation serves
ROUND_OFF = 1e-10  # the promise of DESIGN.md; what is seen is about 1e-16
RNG = np.random.default_rng(0)
LINEAR = msfr.Init(RNG.normal(0.0, 0.3, (S, 2)), RNG.normal(0.0, 0.3, (S, 2)))
ALIKE = msfr.SoftmaxInit(value=0.1, key=0.4, query=0.44, width=WIDTH)  # one kept entry for 4
WIDE = msfr.SoftmaxInit(  # no two entries alike
    value=RNG.normal(0.0, 0.5, (S, 2)),
    key=RNG.normal(0.0, 0.4, (WIDTH, S + 1)),
    query=RNG.normal(0.0, 0.4, (WIDTH, S + 1)),
)
EQUAL = msfr.Task(S, 1.8, 7, 0.5)
VARIED = msfr.Task(S, 1.4, 7, 1.3, beta=0.6, gamma=0.4)  # contexts 7, 5, 4, 3, 3, 2
ADAM = optax.adam(2e-2)
ADAMW = optax.adamw(5e-3, weight_decay=1e-5)
GD = {"lr": 0.02}


def both(task, init, **options):
    options = {"steps": STEPS, "log_every": 3} | options
    return msfr.train(task, init, **options), msfr.train_brute(task, init, **options)


def assert_same(run, brute):
    np.testing.assert_array_equal(run.step, brute.step)
    np.testing.assert_array_equal(run.time, brute.time)
    for name in ("loss", "train_loss", "predictions"):
        seen, true = np.asarray(getattr(run, name)), np.asarray(getattr(brute, name))
        assert seen.shape == true.shape
        np.testing.assert_allclose(seen, true, rtol=0, atol=ROUND_OFF, err_msg=name)
    moved = np.abs(run.predictions[..., -1] - run.predictions[..., 0]).max()
    assert moved > 1e-2  # else nothing was compared


@pytest.mark.parametrize("size", [None, 4, 1])
@pytest.mark.parametrize("task", [EQUAL, VARIED], ids=["equal", "varied"])
def test_linear_attention_by_gradient_descent(task, size):
    run, brute = both(task, LINEAR, data=N, seed=3, size=size, **GD)
    if size == 1:  # nothing is learned
        assert np.ptp(run.loss) == np.ptp(brute.loss) == 0.0
        np.testing.assert_allclose(run.loss, brute.loss, rtol=0, atol=ROUND_OFF)
    else:
        assert_same(run, brute)


def test_linear_attention_by_mini_batches():
    assert_same(*both(VARIED, LINEAR, batch=16, seed=5, **GD))


def test_linear_attention_by_adam():
    assert_same(*both(VARIED, LINEAR, data=N, optimizer=ADAM))


@pytest.mark.parametrize("size", [None, 4])
@pytest.mark.parametrize("init", [ALIKE, WIDE], ids=["alike", "wide"])
def test_softmax_attention_by_gradient_descent(init, size):
    """Frozen tasks keep their f_s(0) although the shared K_y moves under them."""
    run, brute = both(VARIED, init, data=N, seed=3, size=size, lr=0.5)
    assert_same(run, brute)
    if size is not None:
        np.testing.assert_array_equal(np.ptp(run.predictions[size - 1 :], axis=-1), 0.0)
        start = msfr.SoftmaxAttention.start(VARIED, init)
        moved = brute.state[0].key[:, -1] - start.key[:, -1]
        assert np.abs(moved).max() > 1e-4


@pytest.mark.parametrize("init", [ALIKE, WIDE], ids=["alike", "wide"])
def test_softmax_attention_by_adamw(init):
    assert_same(*both(VARIED, init, data=N, seed=3, optimizer=ADAMW))


def test_softmax_attention_by_mini_batches():
    assert_same(*both(VARIED, WIDE, batch=16, seed=5, size=5, lr=0.5))


def test_one_kept_entry_stands_for_a_column_of_equal_ones():
    """A uniform start given as numbers, which is compressed, and as full matrices, which is not."""
    full = msfr.SoftmaxInit(0.1, *(np.full((WIDTH, S + 1), x) for x in (0.4, 0.44)))
    options = {"data": N, "steps": STEPS, "lr": 0.5}
    one, all_of_them = (msfr.train(VARIED, init, **options) for init in (ALIKE, full))
    assert one.state[0].key.shape == (S, 1)
    assert all_of_them.state[0].key.shape == (S, WIDTH)
    np.testing.assert_allclose(one.predictions, all_of_them.predictions, rtol=0, atol=1e-13)


def test_the_same_seed_draws_the_data_set_of_sample():
    """train_loss at step 0 is ½ Σ_s (#_s/N)(f_s(0) − Λ_s)² with the counts of `sample`."""
    losses = []
    for seed in (0, 1, 2):
        run = msfr.train(VARIED, LINEAR, data=N, seed=seed, steps=0, **GD)
        index = np.asarray(msfr.sample(VARIED, N, seed=seed).task)
        square = (np.asarray(run.predictions)[:, 0] - np.asarray(VARIED.strengths)) ** 2
        true = 0.5 * np.sum(np.bincount(index, minlength=S) / N * square)
        np.testing.assert_allclose(run.train_loss[0], true, rtol=1e-13)
        losses.append(float(true))
    assert len(set(losses)) == 3


DRAWS = {"linear, data": (LINEAR, {"data": N}), "softmax, batch": (WIDE, {"batch": 16})}


@pytest.mark.parametrize(("init", "draw"), DRAWS.values(), ids=DRAWS)
def test_seeds_side_by_side_are_the_single_runs(init, draw):
    options = {"steps": 20, "lr": 0.02, **draw}
    together = msfr.train(VARIED, init, seed=[4, 0, 9], **options)
    assert together.loss.shape == (3, 21)
    assert together.predictions.shape == (3, S, 21)
    for k, seed in enumerate((4, 0, 9)):
        alone = msfr.train(VARIED, init, seed=seed, **options)
        for name in ("loss", "train_loss", "predictions"):
            seen = getattr(together, name)[k]
            # A batched product may be summed in another order.
            np.testing.assert_allclose(seen, getattr(alone, name), rtol=0, atol=1e-14)
    assert np.ptp(together.loss[:, -1]) > 1e-6


def test_brute_seeds_side_by_side_are_the_reduced_ones():
    assert_same(*both(VARIED, LINEAR, data=N, seed=[4, 0, 9], **GD))
