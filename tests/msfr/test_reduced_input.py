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
    "train(task, init, lr=0.1, steps=5, data=5, batch=5)": "data and batch cannot both",
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
}
SETUP = """
import optax
from solvable.msfr import *
task, init, soft = Task(4, 1.8, 5, 0.5), Init(v=0.1, w=0.11), SoftmaxInit(0.1, 0.1, 0.1)
adam = optax.adam(1e-3)
"""


@pytest.fixture(scope="module")
def answers():
    return answers_to(list(CASES), SETUP)


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_named(case, answers):
    is_one_sentence(answers[case], CASES[case])
