"""Without double precision every public function refuses, in one sentence, or is as right."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from solvable import msfr

TASK, INIT = msfr.Task(3, 1.8, 5.0, 0.5, gamma=0.1), msfr.Init(v=0.1, w=0.11)
SOFTMAX = msfr.SoftmaxInit(0.1, 0.1, 0.1)
LINEAR = msfr.LinearAttention.start(TASK, INIT)
TOKENS = msfr.sample(TASK, 4)
ADAM = optax.adam(1e-3)

CALLS = {
    "Task": lambda: msfr.Task(3, 1.8, 5.0, 0.5),
    "Task, weights": lambda: TASK.weights,
    "Task, strengths": lambda: TASK.strengths,
    "Task, rounded": lambda: TASK.rounded(),
    "Init": lambda: msfr.Init(0.1, 0.1),
    "SoftmaxInit": lambda: msfr.SoftmaxInit(0.1, 0.1, 0.1),
    "LinearAttention": lambda: msfr.LinearAttention.start(TASK, INIT),
    "SoftmaxAttention": lambda: msfr.SoftmaxAttention.start(TASK, SOFTMAX),
    "loss": lambda: msfr.loss(TASK, INIT, 1.0),
    "predict": lambda: msfr.predict(TASK, INIT, 1.0),
    "residual": lambda: msfr.residual(TASK, INIT, 1.0),
    "parameters": lambda: msfr.parameters(TASK, INIT, 1.0),
    "balanced": lambda: msfr.balanced(0.5, 0.1, 1.0, 1.0),
    "exact_flow": lambda: msfr.exact_flow([[1.0]], [1.0], [1.0], target=0.5, t=1.0),
    "exponents": lambda: msfr.exponents(1.8),
    "time_law": lambda: msfr.time_law(TASK, INIT),
    "size_law": lambda: msfr.size_law(TASK, INIT),
    "data_law": lambda: msfr.data_law(TASK, INIT),
    "compute_law": lambda: msfr.compute_law(TASK, INIT),
    "frontier": lambda: msfr.frontier(TASK, INIT, [1.0]),
    "curve_law": lambda: msfr.curve_law(num_tasks=3),
    "flow": lambda: msfr.flow(TASK, INIT, [1.0]),
    "sample": lambda: msfr.sample(TASK, 4),
    "train": lambda: msfr.train(TASK, INIT, optimizer=ADAM, steps=1),
    "train, softmax": lambda: msfr.train(TASK, SOFTMAX, optimizer=ADAM, steps=1),
    "train_brute": lambda: msfr.train_brute(TASK, INIT, optimizer=ADAM, steps=1, data=3),
    "adamw": lambda: msfr.adamw(5e-3),
    "train_tokens": lambda: msfr.train_tokens(LINEAR, TOKENS, optimizer=ADAM, steps=1),
}
RESULTS = {"Exponents", "Frontier", "Law", "Run", "Tokens"}  # what the others give


@pytest.mark.parametrize("name", CALLS)
def test_single_precision_is_refused(name):
    with jax.enable_x64(False), pytest.raises(ValueError, match="needs double precision") as error:
        CALLS[name]()
    assert "\n" not in str(error.value)


def test_nothing_is_left_out():
    public = {name for name, x in vars(msfr).items() if callable(x) and not inspect.ismodule(x)}
    public = {name for name in public if not name.startswith("_")}
    assert {name.split(",")[0] for name in CALLS} | RESULTS == public


def test_with_double_precision_all_of_it_works():
    """Or the refusals above could come from anything."""
    assert np.isfinite(float(msfr.loss(TASK, INIT, 1.0, "zeroth")))


def test_single_precision_that_was_asked_for_is_kept():
    """Tokens and a model of float32 are trained in float32, at half the cost."""
    task = msfr.Task(3, 1.8, 4.0, 0.5)
    model = msfr.LinearAttention.start(task, msfr.Init(v=0.1, w=0.11))
    single = jax.tree.map(
        lambda x: x.astype(jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x,
        (model, msfr.sample(task, 20)),
    )
    assert msfr.train_tokens(*single, lr=0.01, steps=2).loss.dtype == jnp.float32
