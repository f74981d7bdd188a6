"""A small arithmetic that runs nothing else."""

import numpy as np
import pytest

from solvable.scaling.expression import Expression


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("6*N*D", 120.0),
        ("N**2 + D/4", 6.5),
        ("-(N - D)", 8.0),
        ("+1e3*N", 2000.0),
        ("D/(2*N)", 2.5),
        ("2**-N", 0.25),
    ],
)
def test_expressions_are_computed(text, value):
    assert Expression(text)({"N": 2.0, "D": 10.0}) == value


def test_columns_are_computed_row_by_row():
    flops = Expression("flops/(6*params)")
    assert flops.names == ("flops", "params")
    found = flops({"flops": np.array([12.0, 60.0]), "params": np.array([1.0, 2.0])})
    np.testing.assert_allclose(found, [2.0, 5.0])


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "N.real",
        "N[0]",
        "lambda: 1",
        "N if N else D",
        "N == 1",
        "'a'",
        "True",
        "1e999",
        "N;D",
        "",
        "N and D",
        "f(N)",
        "N @ D",
        "N // 2",
        "N % 2",
        "[N]",
        "(N := 2)",
        "N" * 501,
        "1j",
        "--" * 2000 + "N",
    ],
)
def test_everything_else_is_refused(text):
    with pytest.raises(ValueError, match=r"^cost must be an expression of numbers, \+ - \* / \*\*"):
        Expression(text, field="cost")


def test_names_that_are_not_allowed_are_refused_naming_those_that_are():
    with pytest.raises(ValueError, match=r"the names N, D, not '6\*N\*X'"):
        Expression("6*N*X", ("N", "D"))


def test_what_is_too_large_is_infinite_and_what_is_divided_by_nothing_too():
    assert Expression("10**N")({"N": 400.0}) == np.inf
    assert Expression("1/N")({"N": 0.0}) == np.inf
    assert np.isnan(Expression("N/N")({"N": 0.0}))
