"""Bad input to laws: one sentence that names the field, its value and what is allowed.

Asked in a process of its own, as a user does: the type checks of the tests would answer first.
"""

import pytest
from tests.asked import answers_to, is_one_sentence

CASES = {
    "exponents(1.0)": "alpha must lie in .* not 1",
    "exponents(float('nan'))": "alpha must lie in .* not nan",
    "exponents(1.8, -0.1)": "beta must lie in .* not -0.1",
    "exponents(1.8, 0.0, -0.1)": "gamma must lie in .* not -0.1",
    "exponents(1.8, regime='odd')": "regime must be one of strong, weak, not 'odd'",
    "time_law(task, init, regime='odd')": "regime must be one of strong, weak, not 'odd'",
    "time_law(task, init, order='second')": "order must be one of .* not 'second'",
    "size_law(task, init, order='second')": "order must be one of .* not 'second'",
    "data_law(task, init, order='second')": "order must be one of .* not 'second'",
    "compute_law(task, init, order='second')": "order must be one of .* not 'second'",
    "frontier(task, init, [1.0], order='second')": "order must be one of .* not 'second'",
    "time_law(uneven, init)": "context and strength must be single numbers",
    "size_law(uneven, init)": "context and strength must be single numbers",
    "data_law(uneven, init)": "context and strength must be single numbers",
    "compute_law(uneven, init)": "context and strength must be single numbers",
    "time_law(task, 'soft')": "msfr.Init",
    "time_law('task', init)": "msfr.Task",
    "size_law(task, init, shift=-0.1)": "shift must lie in .* not -0.1",
    "size_law(task, init, shift=1.0)": "shift must lie in .* not 1",
    "size_law(task, init).window(0.0)": "tolerance must lie in .* not 0",
    "size_law(task, init).window(-0.1)": "tolerance must lie in .* not -0.1",
    "size_law(task, init).decades(float('nan'))": "tolerance must lie in .* not nan",
    "size_law(task, init).window([0.1, 0.2])": "tolerance must be a single number",
    "frontier(task, init, [1.0, -1.0])": "compute must lie in .* not -1",
    "frontier(task, init, 0.0)": "compute must lie in .* not 0",
    "frontier(task, init, float('nan'))": "compute must lie in .* not nan",
    "frontier(task, init, [[1.0]])": "compute must be one axis",
    "frontier(task, init, 'much')": "compute must be a number",
    "size_law(alone, init)": "num_tasks must be at least 2 for a law in size, not 1",
    "size_law(task, init, shift=[0.1, 0.2])": "shift must be a single number",
    "size_law(task, init).loss(float('nan'))": "x must lie in .* not nan",
    "size_law(task, init)('x')": "x must be a number",
    "size_law(task, init).grid(0)": "per_decade must be .* not 0",
    "time_law(done, zero)": "init must leave something to learn",
    "data_law(done, zero)": "init must leave something to learn",
    "curve_law(num_tasks=10**30)": "num_tasks must be .* not 1000",
    "curve_law(num_tasks=10**12)": "num_tasks must be at most 1e.08 .*",
    "curve_law(context=[1.0, 2.0])": "context must be a single number",
    "exponents(float('inf'))": "alpha must lie in .* not inf",
    "exponents([1.5])": "alpha must be a single number",
}
SETUP = """
from solvable.msfr import *
task, init, soft = Task(4, 1.8, 5, 0.5), Init(v=0.1, w=0.11), SoftmaxInit(0.1, 0.1, 0.1)
uneven = Task(2, 1.8, [5.0, 4.0], 0.5)
alone, done, zero = Task(1, 1.8, 5, 0.5), Task(4, 1.8, 5, 0.0), Init(v=0.0, w=0.0)
"""


@pytest.fixture(scope="module")
def answers():
    return answers_to(list(CASES), SETUP)


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_named(case, answers):
    is_one_sentence(answers[case], CASES[case])
