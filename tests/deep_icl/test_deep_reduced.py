"""Training in the small state space: what it descends, and what it conserves."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from solvable import deep_icl as deep
from solvable.training import Interrupted

pytestmark = pytest.mark.slow

RRS = deep.RotatedStructure(nu=1.25, beta=1.0, dim=30)
NARROW = deep.RotatedStructure(nu=1.25, beta=1.0, dim=30, width=15, context=40)
ZERO = deep.Init(gamma=0.0)


def test_descent_is_the_map_it_says():
    run = deep.train(RRS, ZERO, depth=3, lr=0.3, steps=20, log_every=1)
    lam, share = np.asarray(RRS.lam), np.asarray(RRS.share)
    gamma = 0.0
    for step in range(21):
        assert run.gamma[step].item() == pytest.approx(gamma, rel=1e-12)
        loss = share @ (1.0 - gamma * lam / 3) ** 6
        assert run.loss[step].item() == pytest.approx(loss, rel=1e-12)
        gamma += 0.3 * 2.0 * (share * lam) @ (1.0 - gamma * lam / 3) ** 5
    np.testing.assert_allclose(run.time, 0.3 * np.arange(21))


def test_step_error_is_of_first_order():
    flow = deep.gamma_curve(RRS, 8.0, 3).item()
    errors = []
    for lr in (0.1, 0.05, 0.025):
        run = deep.train(RRS, ZERO, depth=3, lr=lr, steps=round(8.0 / lr), log_every=10**6)
        errors.append(abs(run.gamma[-1].item() - flow))
    slope = np.polyfit(np.log([0.1, 0.05, 0.025]), np.log(errors), 1)[0]
    assert slope == pytest.approx(1.0, abs=0.05)


def test_matrix_time_divides_the_step_by_the_width():
    slow = deep.train(RRS, ZERO, depth=3, lr=3.0, steps=20, time="matrix")
    fast = deep.train(RRS, ZERO, depth=3, lr=0.1, steps=20)
    np.testing.assert_allclose(slow.gamma, fast.gamma, rtol=1e-13)
    np.testing.assert_allclose(slow.time, 3.0 * np.arange(21))
    fixed = deep.FixedStructure(1.25, 1.25, 8)
    pair = [deep.train(fixed, ZERO, depth=2, lr=0.5, steps=9, time=t) for t in ("scalar", "matrix")]
    np.testing.assert_array_equal(pair[0].gamma, pair[1].gamma)


def test_equal_untied_layers_move_like_tied_ones_and_others_do_not():
    tied = deep.train(RRS, ZERO, depth=4, lr=0.5, steps=300)
    untied = deep.train(RRS, ZERO, depth=4, lr=0.5, steps=300, layers="untied")
    assert untied.gamma.shape == (4, tied.gamma.shape[0])
    np.testing.assert_allclose(untied.loss, tied.loss, rtol=1e-12)
    np.testing.assert_allclose(untied.gamma, np.tile(tied.gamma, (4, 1)), rtol=1e-12)
    apart = deep.Init(gamma=1e-3 * np.array([1.0, -1.0, 0.5, -0.5]))
    free = deep.train(RRS, apart, depth=4, lr=0.5, steps=20000, layers="untied")
    assert free.loss[-1] < 0.7 * deep.optimum(RRS, depth=4).loss


def test_four_weights_conserve_their_balance():
    start = deep.Init(weights=[0.5, 0.6, 0.4, 0.7])
    run = deep.train(deep.Isotropic(2.0), start, depth=4, lr=1e-3, steps=3000)
    x, q, k, v = np.asarray(run.weights)
    for kept in (x**2 / 2 - q**2, q**2 - k**2, q**2 - v**2):
        np.testing.assert_allclose(kept, kept[0], atol=5e-3)  # to first order in lr
    np.testing.assert_allclose(run.gamma, x**2 * q * k * v, rtol=1e-12)
    assert run.loss[-1] == pytest.approx(deep.optimum(deep.Isotropic(2.0), 4).loss.item(), rel=1e-3)
    balanced = deep.train(deep.Isotropic(2.0), deep.Init(weights=0.4), depth=4, lr=1e-3, steps=2000)
    np.testing.assert_allclose(
        balanced.weights[0], math.sqrt(2.0) * balanced.weights[1], rtol=1e-12
    )
    np.testing.assert_allclose(
        balanced.loss[-1],
        deep.loss_curve(deep.Isotropic(2.0), 2.0, 4, start=deep.Init(weights=0.4)),
        rtol=1e-2,
    )


@pytest.mark.parametrize("depth", [1, 3])
def test_diagonal_descent_is_the_map_it_says(depth):
    task = deep.FixedStructure(nu=1.25, beta=1.25, dim=8)
    start = deep.Init(gamma=np.linspace(0.0, 0.3, 8))
    run = deep.train(task, start, depth=depth, lr=0.4, steps=10, log_every=1)
    lam, share = np.asarray(task.lam), np.asarray(task.share)
    gamma = np.linspace(0.0, 0.3, 8)
    for _ in range(10):
        gamma = gamma + 0.8 * share * lam * (1.0 - lam * gamma / depth) ** (2 * depth - 1)
    np.testing.assert_allclose(run.gamma[:, -1], gamma, rtol=1e-12)


def test_training_in_finite_contexts_reaches_the_optimum():
    run = deep.train(NARROW, ZERO, depth=4, lr=1.5, steps=300, log_every=100)
    best = deep.optimum(NARROW, depth=4)
    assert run.loss[-1].item() == pytest.approx(best.loss.item(), rel=1e-4)
    np.testing.assert_allclose(run.loss, deep.loss(NARROW, gamma=run.gamma, depth=4), rtol=1e-9)
    fixed = deep.FixedStructure(nu=1.0, beta=1.0, dim=12, context=24, noise=0.2)
    one = deep.train(fixed, ZERO, depth=1, lr=0.5, steps=40000, log_every=40000)
    assert one.loss[-1].item() == pytest.approx(deep.optimum(fixed).loss.item(), rel=1e-6)


def test_interrupted_training_keeps_what_it_has():
    def stop(step, steps):
        raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        deep.train(RRS, ZERO, depth=3, lr=0.3, steps=10**7, progress=stop)
    assert 0 < caught.value.run.step[-1] < 10**7


@pytest.mark.parametrize("task", [RRS, NARROW, deep.FixedStructure(1.25, 1.25, 8, context=20)])
def test_a_step_that_is_too_large_says_so(task):
    """Also where γ is thrown below 0, of which the equivalent knows nothing."""
    run = deep.train(task, ZERO, depth=3, lr=1e6, steps=50)
    assert run.status == "diverged"
    assert not np.isfinite(run.loss[-1])


def test_start_with_arrays():
    start = deep.Init(gamma=jnp.asarray(0.5))
    run = deep.train(RRS, start, depth=2, lr=0.1, steps=1)
    assert run.gamma[0].item() == 0.5
