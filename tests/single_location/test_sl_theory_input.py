"""Bad input to the theory: one sentence that names the field."""

import numpy as np
import pytest

from solvable import single_location as sl

TASK = sl.Task(dim=400, length=10)
X = sl.State(kappa=0.3, nu=0.5, theta=-0.1, eta=0.2, rho=0.15)

pytestmark = pytest.mark.usefixtures("as_users_run_it")

OF_LAM = {
    "excess_risk": lambda task, lam: sl.excess_risk(task, X, lam),
    "risk": lambda task, lam: sl.risk(task, X, lam),
    "slopes": lambda task, lam: sl.slopes(task, X, lam),
    "flow_field": lambda task, lam: sl.flow_field(task, X, lam),
    "oracle_excess": sl.oracle_excess,
    "oracle_risk": sl.oracle_risk,
    "manifold_field": lambda task, lam: sl.manifold_field(task, 0.1, 0.1, lam),
    "nullcline": lambda task, lam: sl.nullcline(task, 0.1, lam),
    "manifold_flow": lambda task, lam: sl.manifold_flow(task, sl.State(0.1, 0.1), [1.0], lam=lam),
    "saddle": sl.saddle,
    "oracle_rates": sl.oracle_rates,
    "fixed_points": sl.fixed_points,
    "basin_boundary": lambda task, lam: sl.basin_boundary(task, 0.1, lam),
    "transversal": lambda task, lam: sl.transversal(task, 0.1, 0.1, lam),
    "transversal_growth": lambda task, lam: sl.transversal_growth(task, 0.1, 0.1, lam),
    "oracle_growth": sl.oracle_growth,
    "origin_growth": sl.origin_growth,
    "swapped": sl.swapped,
    "swapped_gap": sl.swapped_gap,
    "swapped_rates": sl.swapped_rates,
}
OF_TASK = {
    "best_lam": sl.best_lam,
    "linear_excess": sl.linear_excess,
    "linear_risk": sl.linear_risk,
    "zero_excess": sl.zero_excess,
    "zero_risk": sl.zero_risk,
    "bayes_risk": sl.bayes_risk,
    "critical_lam": sl.critical_lam,
    "crossover_lam": sl.crossover_lam,
}


def refuses(field, call, *args, **kwargs):
    """A ValueError without line breaks that names the field and says what is allowed."""
    with pytest.raises(ValueError, match=rf"\b{field}\b") as error:
        call(*args, **kwargs)
    message = str(error.value)
    assert "\n" not in message
    assert " must " in message
    assert " not " in message or " lie in " in message


@pytest.mark.parametrize("name", list(OF_LAM))
def test_bad_lam_is_named(name):
    for bad in (0.0, -0.1, 1e4, float("nan"), "warm", None):
        refuses("lam", OF_LAM[name], TASK, bad)
    refuses("task", OF_LAM[name], None, 0.1)


@pytest.mark.parametrize(
    "name", ["manifold_flow", "fixed_points", "basin_boundary", "swapped_rates"]
)
def test_many_lam_are_refused_where_one_is_meant(name):
    refuses("lam", OF_LAM[name], TASK, [0.1, 0.2])


@pytest.mark.parametrize("name", list(OF_TASK))
def test_bad_task_is_named(name):
    refuses("task", OF_TASK[name], (400, 10))


def test_bad_states_are_named():
    for call in (sl.excess_risk, sl.risk, sl.slopes, sl.flow_field):
        refuses("x", call, TASK, (0.3, 0.5), 0.1)
    refuses("x", sl.conserved, (0.3, 0.5))
    refuses("lam", sl.excess_risk, TASK, X, [0.1, 0.2])
    for call in (sl.manifold_field, sl.transversal, sl.transversal_growth):
        refuses("kappa", call, TASK, 1.5, 0.0, 0.1)
        refuses("nu", call, TASK, 0.0, -2.0, 0.1)
        refuses("kappa", call, TASK, np.zeros(2), np.zeros(3), 0.1)
    refuses("kappa", sl.nullcline, TASK, float("nan"), 0.1)
    refuses("kappa", sl.basin_boundary, TASK, 1.1, 0.1)


def test_bad_flows_are_named():
    start = sl.State(0.1, 0.1)
    refuses("start", sl.manifold_flow, TASK, X, [1.0], lam=0.1)
    refuses("start", sl.manifold_flow, TASK, (0.1, 0.1), [1.0], lam=0.1)
    for bad in (-1.0, [-1.0], [], [[1.0]], [2.0, 1.0], [float("nan")], "soon"):
        refuses("times", sl.manifold_flow, TASK, start, bad, lam=0.1)


def test_bad_resources_are_named():
    refuses("draws", sl.bayes_risk, TASK, draws=1)
    refuses("seed", sl.bayes_risk, TASK, seed=-1)
    refuses("exponent", sl.optimal_path, [400], 3.0)
    refuses("dims", sl.optimal_path, [2], 0.5)
    refuses("dims", sl.optimal_path, 400, 0.5)
    refuses("gamma", sl.optimal_path, [400], 0.5, gamma=-1.0)
    refuses("t", sl.zeta, float("nan"), 0.1)
    refuses("s", sl.zeta, 0.1, -0.1)
