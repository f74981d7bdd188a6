"""Bad input to training: one sentence that names the field, its value and what is allowed.

Asked in a process of its own, as a user does: the type checks of the tests would answer first.
"""

import pytest
from tests.asked import answers_to, is_one_sentence

CASES = {
    "train(task, init, steps=5)": "lr .* or optimizer .* must be given",
    "train(task, init, lr=0.1, optimizer=adam, steps=5)": "lr .* or optimizer .* only one",
    "train(task, init, lr=-0.1, steps=5)": "lr must lie in .* not -0.1",
    "train(task, init, lr=0.0, steps=5)": "lr must lie in",
    "train(task, init, lr=float('nan'), steps=5)": "lr must lie in .* not nan",
    "train(task, init, lr=[0.1, 0.2], steps=5)": "lr must be a single number",
    "train(task, init, optimizer='adam', steps=5)": "optimizer must be an optax",
    "train(task, init, lr=0.1, steps=-1)": "steps must be .* not -1",
    "train(task, init, lr=0.1, steps=2.5)": "steps must be .* not 2.5",
    "train(task, init, lr=0.1, steps=5, log_every=0)": "log_every must be .* not 0",
    "train(task, init, lr=0.1, steps=5, seed=-1)": "seed must be .* not -1",
    "train(task, init, lr=0.1, steps=5, seed=1.5)": "seed must be .* not 1.5",
    "train(task, init, lr=0.1, steps=5, seed=[])": "seed must be",
    "train(task, init, lr=0.1, steps=5, seed=[0, -3])": "seed must be .* not -3",
    "train(task, init, lr=0.1, steps=5, size=0)": "size must be .* from 1 to 5, not 0",
    "train(task, init, lr=0.1, steps=5, size=6)": "size must be .* from 1 to 5, not 6",
    "train(task, init, lr=0.1, steps=5, data=0)": "data must be .* not 0",
    "train(task, init, lr=0.1, steps=5, batch=0)": "batch must be .* not 0",
    "train(task, init, lr=0.1, steps=5, data=5, batch=6)": "batch must be .* from 1 to 5, not 6",
    "train_brute(task, init, lr=0.1, steps=5, data=5, batch=0)": "batch must be .* from 1 to 5",
    "train(task, 0.1, lr=0.1, steps=5)": "init must be .* not float",
    "train('task', init, lr=0.1, steps=5)": "task must be a msfr.Task, not str",
    "train(task, Init(v=[[0.1, 0.1]] * 3, w=0.1), lr=0.1, steps=5)": r"v must be .*\(4, 2\)",
    "train(task, SoftmaxInit(0.1, [[0.1] * 4] * 2, 0.1), lr=0.1, steps=5)": r"key must .*\(2, 5\)",
    "train_brute(task, init, lr=0.1, steps=5)": "data or batch must be given",
    "train_brute(task, 0.1, lr=0.1, steps=5, data=5)": "init must be .* not float",
    "flow(task, soft, [0.0, 1.0])": "init must be a msfr.Init .* not SoftmaxInit",
    "flow(task, init, [1.0, 1.0])": "t must be increasing",
    "flow(task, init, [-1.0, 0.0])": "t must lie in .* not -1",
    "flow(task, init, 1.0)": "t must be one axis",
    "flow(task, init, [])": "t must be one axis",
    "sample(task, 0)": "data must be .* not 0",
    "sample(task, 5, seed=-1)": "seed must be .* not -1",
    "sample(task, 5, features='dense')": "features must be one of .* not 'dense'",
    "SoftmaxInit(0.1, 0.1, 0.1, width=0)": "width must be .* not 0",
    "SoftmaxInit(0.1, 0.1, 0.1, width=10**30)": "width must be .* not 1000",
    "train(task, init, lr=0.1, steps=10**30)": "steps must be at most .* not 1000",
    "train(task, init, lr=0.1, steps=10**14, log_every=1)": "steps must be smaller .* bytes",
    "train(task, init, lr=0.1, steps=5, seed=10**30)": "seed must be .* not 1000",
    "train(task, init, lr=0.1, steps=5, data=ones)": "data must be .* not an array",
    "train(task, init, lr=0.1, steps=5, data=10**15)": "data must be smaller .* 3.2e.16 bytes",
    "train(task, init, lr=0.1, steps=5, batch=10**15)": "batch must be smaller .* 3.2e.16 bytes",
    "train(Task(10**12, 1.8, 5, 0.5), init, lr=0.1, steps=5)": "num_tasks must be at most 1e.08 .*",
    "train(Task(4, 1.8, 1e9, 0.5), soft, lr=0.1, steps=5)": "context must be smaller .* bytes",
    "train_brute(task, init, lr=0.1, steps=5, data=10**12)": "data must be smaller .* bytes",
    "train_brute(Task(10**6, 1.8, 5, 0.5), init, lr=0.1, steps=5, data=5)": "must be .* bytes",
    "flow(task, init, [1.0], rtol=-1.0)": "rtol must lie in .* not -1",
    "flow(Task(10**12, 1.8, 5, 0.5), init, [1.0])": "num_tasks must be at most 1e.08 .*",
    "sample('task', 5)": "task must be a msfr.Task, not str",
    "sample(task, 10**12)": "data must be smaller .* bytes",
    "sample(task, 5, seed=10**30)": "seed must be .* not 1000",
    "sample(task, 5, features='source', decay=float('nan'))": "decay must lie in .* not nan",
    "on(task, tokens)": "model must be an attention block, not Task",
    "on(model, task)": "tokens must be msfr.Tokens, not Task",
    "on(model, but(phi=float('nan') * tokens.phi))": "tokens.phi must lie",
    "on(model, but(phi=tokens.phi[0]))": "tokens.phi must have the axes",
    "on(model, but(phi=tokens.phi[:, 1:]))": "tokens must have 5 rows",
    "on(model, but(label=tokens.label[:2]))": "tokens.label must be shape",
    "on(model, but(task=tokens.task + 9))": "tokens.task must lie in",
    "on(model, but(task=1.5 * tokens.task))": "tokens.task must be 5 whole",
    "on(model, but(present=ones))": "tokens.present must be shape",
    "on(model, tokens, learned=[True])": "learned must be 4 truth values",
    "on(model, tokens, learned=nans)": "learned must be 4 truth values",
    "on(LinearAttention(wide, wide), tokens)": "model.key_query must have",
    "on(LinearAttention(wide, nans), tokens)": "model.key_query must lie in",
}
SETUP = """
import optax
from solvable.msfr import *
task, init, soft = Task(4, 1.8, 5, 0.5), Init(v=0.1, w=0.11), SoftmaxInit(0.1, 0.1, 0.1)
adam = optax.adam(1e-3)
import dataclasses
import numpy as np
tokens, model = sample(task, 5), LinearAttention.start(task, init)
ones, wide, nans = np.ones(3), np.ones((4, 5)), np.full(4, np.nan)
on = lambda *given, **options: train_tokens(*given, **options, lr=0.1, steps=2)
but = lambda **changed: dataclasses.replace(tokens, **changed)
"""


@pytest.fixture(scope="module")
def answers():
    return answers_to(list(CASES), SETUP)


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_named(case, answers):
    is_one_sentence(answers[case], CASES[case])
