"""The closed forms against 50-digit tables."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mpmath import mp, mpf

from solvable import msfr
from solvable.msfr.theory._exact import exact
from solvable.msfr.theory._modes import Start
from solvable.msfr.theory._zeroth import order_one, order_zero

pytestmark = pytest.mark.slow

TABLE = json.loads((Path(__file__).parents[1] / "oracles" / "msfr.json").read_text())
KERNELS = {"zeroth": order_zero, "first": order_one, "exact": exact}
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


@pytest.fixture(scope="module", params=list(KERNELS))
def table(request):
    points = points_of(request.param)
    start = Start(
        *(jnp.asarray(column(points, name)) for name in ("context", "strength", "v", "w"))
    )
    time = jnp.asarray(column(points, "weight") * column(points, "t"))[:, None]
    residuals = np.asarray(jax.jit(KERNELS[request.param])(start, time)[:, 0])
    return points, *errors(points, residuals)


def test_table_has_hundreds_of_points_of_every_order():
    for order in KERNELS:
        assert len(points_of(order)) > 700


@pytest.mark.portable
def test_prediction_is_within_1e12_of_its_scale(table):
    points, of_f, _ = table
    assert of_f.max() <= 1e-12, worst(points, of_f)


@pytest.mark.portable
def test_residual_keeps_eight_digits_down_to_1e145(table):
    points, _, of_residual = table
    assert of_residual.max() <= 1.0, worst(points, of_residual)


def trajectories(order):
    """The table's points grouped by their start, each with its times p t."""
    groups = {}
    for point in points_of(order):
        key = tuple(point[name] for name in ("context", "strength", "weight"))
        groups.setdefault((*key, tuple(point["v"]), tuple(point["w"])), []).append(point)
    return groups


@pytest.mark.parametrize("order", list(KERNELS))
@pytest.mark.parametrize("laws", ["arrays", "numbers"])
def test_public_residual_of_one_task_matches_the_table(order, laws):
    """One task has p = 1, so its time is the table's p t; numbers take the resampled path."""
    points, residuals, predictions = [], [], []
    for (context, strength, weight, v, w), group in trajectories(order).items():
        if laws == "arrays":
            task, init = msfr.Task(1, 2.0, [context], [strength]), msfr.Init([v], [w])
        elif v[0] == v[1] and w[0] == w[1]:
            task, init = msfr.Task(1, 2.0, context, strength), msfr.Init(v[0], w[0])
        else:
            continue
        times = np.zeros(16)  # one shape, one compilation
        times[: len(group)] = weight * column(group, "t")
        found = np.asarray(msfr.residual(task, init, times, order)[: len(group), 0])
        residuals.append(found)
        predictions.append(np.asarray(msfr.predict(task, init, times, order)[: len(group), 0]))
        points += group
    assert len(points) > 500
    residuals, predictions = np.concatenate(residuals), np.concatenate(predictions)
    of_f, of_residual = errors(points, residuals)
    assert of_f.max() <= 1e-12, worst(points, of_f)
    assert of_residual.max() <= 1.0, worst(points, of_residual)
    assert np.array_equal(predictions, residuals + column(points, "strength"))


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
