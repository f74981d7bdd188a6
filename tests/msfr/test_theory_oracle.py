"""The closed forms against 50-digit tables."""

import json
from pathlib import Path

import numpy as np
import pytest
from mpmath import mp, mpf

from solvable import msfr
from solvable.msfr.theory import _loss

pytestmark = pytest.mark.slow

TABLE = json.loads((Path(__file__).parents[1] / "oracles" / "msfr.json").read_text())
ORDERS = ["zeroth", "first", "exact"]
EPS = np.finfo(float).eps


def points_of(order):
    return [point for point in TABLE["points"] if point["order"] == order]


def column(points, name):
    return np.array([point[name] for point in points], dtype=float)


def errors(points, residuals):
    """Error of f over the largest of |f|, |f0|, |Λ|, and that of f − Λ over what it may be."""
    of_f, of_residual = [], []
    with mp.workdps(50):
        for point, residual in zip(points, residuals.tolist(), strict=True):
            f, f0, lam = mpf(point["f"]), mpf(point["f0"]), mpf(point["strength"])
            scale = max(abs(f), abs(f0), abs(lam))
            computed = mpf(residual + point["strength"])
            of_f.append(float(abs(computed - f) / scale) if scale else float(abs(computed)))
            true = mpf(point["residual"])
            if true == 0:
                of_residual.append(0.0 if residual == 0.0 else np.inf)
                continue
            # f0 − Λ itself is only known to the rounding of f0 and of Λ.
            gap = abs(f0 - lam)
            allowed = 1e-8 + 4 * EPS * float(max(abs(f0), abs(lam)) / gap) if gap else 1.0
            of_residual.append(float(abs(residual - true) / abs(true)) / allowed)
    return np.array(of_f), np.array(of_residual)


def worst(points, error):
    return points[int(np.argmax(error))]


def test_table_has_hundreds_of_points_of_every_order():
    for order in ORDERS:
        assert len(points_of(order)) > 700


def trajectories(order):
    """The table's points grouped by their start, each with its times p t."""
    groups = {}
    for point in points_of(order):
        key = tuple(point[name] for name in ("context", "strength", "weight"))
        groups.setdefault((*key, tuple(point["v"]), tuple(point["w"])), []).append(point)
    return groups


PATHS = [
    (where, laws, order)
    for where in ("host", "compiled")
    for laws, order in (*(("arrays", order) for order in ORDERS), ("numbers", "exact"))
]


@pytest.fixture(scope="module", params=PATHS, ids="-".join)
def table(request):
    """One task has p = 1, so its time is the table's p t.

    Numbers take the resampled path; at the other orders they are rows like any others. Few points
    are worked out in numpy, many by what is compiled.
    """
    where, laws, order = request.param
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_loss, "HOST", _loss.HOST if where == "host" else 0)
        points, residuals = table_of(laws, order)
    return points, *errors(points, np.concatenate(residuals))


def table_of(laws, order):
    """The table's points, and the residuals of each start's."""
    points, residuals = [], []
    for k, ((context, strength, weight, v, w), group) in enumerate(trajectories(order).items()):
        if laws == "arrays":
            task, init = msfr.Task(1, 2.0, [context], [strength]), msfr.Init([v], [w])
        elif v[0] == v[1] and w[0] == w[1]:
            task, init = msfr.Task(1, 2.0, context, strength), msfr.Init(v[0], w[0])
        else:
            continue
        times = np.zeros(16)  # one shape, one compilation
        times[: len(group)] = weight * column(group, "t")
        found = np.asarray(msfr.residual(task, init, times, order)[: len(group), 0])
        if k % 10 == 0:
            predicted = np.asarray(msfr.predict(task, init, times, order)[: len(group), 0])
            np.testing.assert_array_equal(predicted, found + strength)
        residuals.append(found)
        points += group
    assert len(points) > (700 if laws == "arrays" else 500)
    return points, residuals


@pytest.mark.portable
def test_prediction_is_within_1e12_of_its_scale(table):
    points, of_f, _ = table
    assert of_f.max() <= 1e-12, worst(points, of_f)


@pytest.mark.portable
def test_residual_keeps_eight_digits_down_to_1e145(table):
    points, _, of_residual = table
    assert of_residual.max() <= 1.0, worst(points, of_residual)


def test_finite_data_and_size_match_the_exact_binomial_sums():
    groups = {}
    for point in TABLE["sums"]:
        groups.setdefault((point["data"], point["size"]), []).append(point)
    assert len(groups) == 10
    for (data, size), group in groups.items():
        law = group[0]
        task = msfr.Task(law["num_tasks"], law["alpha"], law["context"], law["strength"])
        init = msfr.Init(law["v"], law["w"])
        times = column(group, "t")
        found = msfr.loss(task, init, times, order="zeroth", size=size, data=data)
        true = np.array([float(point["loss"]) for point in group])
        # 1e-10: the binomial average's own promise; 1e-40: it leaves out counts 18 standard
        # deviations below the mean, which rule where all that is left is below 1e-80.
        np.testing.assert_allclose(
            found, true, rtol=1e-10, atol=1e-40, err_msg=f"N = {data}, D = {size}"
        )
