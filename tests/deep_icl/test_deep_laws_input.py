"""Bad input to laws: one sentence that names the field, its value and what is allowed.

Asked in a process of its own, as a user does: the type checks of the tests would answer first.
"""

import pytest
from tests.asked import answers_to, is_one_sentence

CASES = {
    "exponents(0.0, 1.0)": "nu must lie in .* not 0",
    "exponents(1.5, float('nan'))": "beta must lie in .* not nan",
    "exponents(1.5, [1.0, 2.0])": "beta must be a single number",
    "exponents(1.5, 1.0, time='wall')": "time must be one of scalar, matrix, not 'wall'",
    "exponents(1.5, 1.0, layers='none')": "layers must be one of tied, untied, not 'none'",
    "exponents(1.5, 1.0).compute(t=0.0)": "t must lie in .* not 0",
    "exponents(1.5, 1.0).compute(width=-1.0)": "width must lie in .* not -1",
    "attention_time_exponent(-0.1)": "beta must lie in .* not -0.1",
    "attention_time_exponent(0.8, m=0)": "m must be a whole number",
    "law('data', 1.5, 0.8)": "resource must be one of .* not 'data'",
    "law('width', 'two', 0.8)": "nu must be a number",
    "law('width', 1.5, 0.8, 1)": "dim must be a whole number",
    "law('width', 1.5, 0.8, 2.5)": "dim must be a whole number",
    "law('width', 1.5, 0.8, 10**16)": "dim must be a whole number",
    "law('width', 20.0, 0.8, 10**8)": "dim.nu must be at most",
    "law('width', 0.9, 0.8, float('inf'))": "dim must be finite",
    "law('time', 1.5, 0.01, float('inf'))": "dim must be finite",
    "law('width', 1.5, 0.8).loss(0.0)": "x must lie in .* not 0",
    "law('depth', 1.5, 0.8).loss(0.5)": "x must lie in .* not 0.5",
    "law('time', 1.5, 0.8, 10).loss(1e300)": "x must lie in .* not 1e.300",
    "law('width', 1.5, 0.8)(-1.0)": "x must lie in .* not -1",
    "law('width', 1.5, 0.8).window(0.0)": "tolerance must lie in .* not 0",
    "additive_loss(1.5, 0.8, t=-1.0)": "t must lie in .* not -1",
    "additive_loss(1.5, 0.8, t=[1.0, 2.0], width=[1.0] * 3)": "must have one shape",
    "additive_loss(1.5, 0.8, t=1.0, time='matrix', dim=float('inf'))": "dim must be finite",
    "optimal_shape(0.0, nu=1.5, beta=0.8)": "budget must lie in .* not 0",
    "optimal_shape([1.0], nu=1.5, beta=0.8)": "budget must be a single number",
    "optimal_shape(1e9, nu=1.5, beta=0.8, method='guess')": "method must be one of law, exact",
    "optimal_shape(1e9, nu=1.5, beta=0.8, time='wall')": "time must be one of",
    "optimal_shape(9.0, nu=1.5, beta=0.8, cost='t*N + 10*L')": "budget must be above 10",
    "plan('N**2*L')": "cost must contain t",
    "plan('t/N')": "cost must rise with N",
    "plan('t*N**0')": "cost must rise with N",
    "plan('-t*N')": "cost must be a positive number",
    "plan('t*M')": "cost must be an expression of numbers, .* names t, N, L, P, not 't.M'",
    "plan('t*exp(N)')": "cost must be an expression",
    "plan('t*N if N else t')": "cost must be an expression",
    "plan('t.__class__')": "cost must be an expression",
    'plan(\'__import__("os").system("true")*t\')': "cost must be an expression",
    "plan('t*N**')": "cost must be an expression",
    "plan('')": "cost must be an expression",
    "plan('t*1j')": "cost must be an expression",
    "plan('t*True')": "cost must be an expression",
    "plan('t*1e999')": "cost must be an expression",
    "plan('t' + '+t' * 400)": "cost must be an expression",
    "plan('(' * 240 + 't' + ')' * 240)": "cost must be an expression",
    "plan('t*9**9**9**9')": "cost must",
    "plan(3.0)": "cost must be an expression .* not 3.0",
    "plan(lambda t, x: t * x)": "cost must be a function of arguments named t, N, L, P, not x",
    "plan(lambda *args: 1.0)": "cost must be a function of arguments named",
    "plan(lambda t, N: 'much')": "cost must be a positive number",
}
SETUP = """
from solvable.deep_icl.laws import *
def plan(cost):
    return optimal_shape(1e9, nu=1.5, beta=0.8, cost=cost)
"""


@pytest.fixture(scope="module")
def answers():
    return answers_to(list(CASES), SETUP)


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_named(case, answers):
    is_one_sentence(answers[case], CASES[case])
