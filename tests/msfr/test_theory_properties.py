"""Random parameters over the whole legal range: no NaN, no infinity, a loss that never rises."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import haste

from solvable import msfr

pytestmark = pytest.mark.slow

TASKS, TIMES = 256, 8
ORDERS = ["zeroth", "first", "exact"]


def pool(low, high, **kwargs):
    """A few of hypothesis' nasty floats: edges, subnormals, neighbours of round numbers, zeros."""
    return st.lists(st.floats(low, high, **kwargs), min_size=1, max_size=4)


RECIPES = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**32 - 1),
        "alpha": st.floats(1.0, 10.0, exclude_min=True),
        "context": pool(0.0, 1e9, exclude_min=True),
        "strength": pool(-1e6, 1e6),
        "v": pool(-1e3, 1e3),
        "w": pool(-1e3, 1e3),
        "t": pool(0.0, 1e300),
    }
)


def setting(recipe, least=0.0):
    """256 tasks and 8 times: half of each field log-uniform, half from a pool of nasty floats.

    Magnitudes are `least` or more, or exactly 0. About a quarter of the entries of w equals v's, a
    quarter is opposite to it, and a third of the tasks starts at f(0) = ±Λ but for rounding.
    """
    rng = np.random.default_rng(recipe["seed"])
    wide = -30.0 if least else -300.0

    def column(name, highest, shape):
        lowest = rng.choice([wide, -6.0], shape)
        plain = 10.0 ** (lowest + (highest - lowest) * rng.uniform(size=shape))
        if name not in ("context", "t"):
            plain = plain * rng.choice([-1.0, 1.0], shape)
        nasty = rng.choice(np.asarray(recipe[name]), shape)
        mixed = np.where(rng.uniform(size=shape) < 0.5, plain, nasty)
        return legal(mixed, highest)

    def legal(values, highest):
        values = np.clip(values, -(10.0**highest), 10.0**highest)
        return np.where(np.abs(values) < least, 0.0, values)

    context = column("context", 9.0, TASKS)
    context = np.where(context == 0.0, 1.0, context)
    strength = column("strength", 6.0, TASKS)
    v, w = (column(name, 3.0, (TASKS, 2)) for name in ("v", "w"))
    tie = rng.integers(0, 3, (TASKS, 1)) * (rng.uniform(size=(TASKS, 2)) < 0.8)
    w = np.where(tie == 1, v, np.where(tie == 2, -v, w))
    along_v, along_w = v[:, 0] + strength * v[:, 1], w[:, 0] + strength * w[:, 1]
    first = context * along_v * along_w + v[:, 0] * w[:, 0]
    arrive = (rng.uniform(size=TASKS) < 0.35) & (np.abs(first) > 1e-150)
    ratio = np.abs(strength / np.where(arrive, first, 1.0))
    scale = np.where(arrive, np.sqrt(np.minimum(ratio, 1e100)), 1.0)[:, None]
    t = np.sort(np.append(column("t", 300.0, TIMES // 2), column("t", 6.0, TIMES // 2)))
    task = msfr.Task(TASKS, recipe["alpha"], context, strength)
    return task, msfr.Init(legal(v * scale, 3.0), legal(w * scale, 3.0)), t


def culprit(task, init, index):
    """The one task to report."""
    return {
        "context": float(task.context[index]),
        "strength": float(task.strength[index]),
        "v": init.v[index].tolist(),
        "w": init.w[index].tolist(),
        "weight": float(task.weights[index]),
    }


@pytest.mark.parametrize("order", ORDERS)
@given(RECIPES)
def test_values_are_finite_everywhere(order, recipe):
    """So are predictions, which are residuals plus strengths."""
    task, init, t = setting(recipe)
    left = np.asarray(msfr.residual(task, init, t, order))
    bad = np.argwhere(~np.isfinite(left + np.asarray(task.strength)))
    assert bad.size == 0, (t[bad[0][0]], culprit(task, init, bad[0][1]))
    assert np.isfinite(np.asarray(msfr.loss(task, init, t, order))).all()


@pytest.mark.parametrize("order", ORDERS)
@given(RECIPES)
def test_flow_leaves_from_its_start(order, recipe):
    """No jump between t = 0 and the first instant, however far apart ψ, Λ and the entries are."""
    task, init, _ = setting(recipe)
    left = np.asarray(msfr.residual(task, init, np.repeat([0.0, 1e-300], TIMES // 2), order))
    initial = left[0] + np.asarray(task.strength)
    scale = np.maximum(np.abs(initial), np.abs(np.asarray(task.strength)))
    jumps = np.argwhere(~(np.abs(left[-1] - left[0]) <= 1e-12 * scale))
    assert jumps.size == 0, culprit(task, init, jumps[0][0])


@pytest.mark.parametrize("order", ["zeroth", "exact"])
@given(RECIPES)
def test_loss_never_rises(order, recipe):
    """Gradient flow descends, task by task."""
    task, init, t = setting(recipe)
    losses = np.asarray(msfr.loss(task, init, t, order))
    # 1e-12: the closed form's own error.
    assert np.all(np.diff(losses) <= 1e-12 * losses[:-1]), (t, losses)
    left = np.abs(np.asarray(msfr.residual(task, init, t, order)))
    scale = np.maximum(np.abs(left[0]), np.abs(np.asarray(task.strength)))
    rises = np.argwhere(np.diff(left, axis=0) > 1e-12 * scale)
    assert rises.size == 0, (t[rises[0][0] :][:2], culprit(task, init, rises[0][1]))


# The gradient of the exact order compiles for longer than all examples take.
@haste.jit
def _zeroth_gradient(task, init, t):
    return jax.grad(lambda x: jnp.sum(msfr.loss(*x, t, "zeroth")))((task, init))


@haste.jit
def _exact_gradient(task, init, t):
    return jax.grad(lambda x: jnp.sum(msfr.loss(*x, t, "exact")))((task, init))


@pytest.mark.parametrize("gradient", [_zeroth_gradient, _exact_gradient], ids=["zeroth", "exact"])
@given(RECIPES)
def test_gradients_are_finite(gradient, recipe):
    task, init, t = setting(recipe, least=1e-30)
    task_slopes, init_slopes = gradient(task, init, t)
    for name in ("v", "w"):
        bad = np.argwhere(~np.isfinite(np.asarray(getattr(init_slopes, name))))
        assert bad.size == 0, (name, t, culprit(task, init, bad[0][0]))
    for name in ("context", "strength"):
        bad = np.argwhere(~np.isfinite(np.asarray(getattr(task_slopes, name))))
        assert bad.size == 0, (name, t, culprit(task, init, bad[0][0]))
    assert np.isfinite(float(task_slopes.alpha))
