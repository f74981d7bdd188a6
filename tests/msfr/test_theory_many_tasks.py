"""Sums over very many tasks by few nodes, against the sums over all of them."""

import math

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import haste

from solvable import msfr
from solvable.msfr.theory import _tasks, all_rows, host_loss, rows_of, shared_flow
from solvable.numerics import counting

pytestmark = pytest.mark.slow

TIMES = np.geomspace(1e-3, 1e9, 60)
PAPER = {"alpha": 1.8, "context": 100.0, "strength": 0.5}


def by_all(task, init, t, order, **limits):
    """L by the sum over all tasks."""
    flow = shared_flow(task, init, order)
    return host_loss(all_rows(task, init), np.asarray(t), order, flow, **limits)


def gap(task, init, t, order, **limits):
    """The largest relative error wherever L is above 1e-280."""
    true = by_all(task, init, t, order, **limits)
    found = np.asarray(msfr.loss(task, init, t, order, **limits))
    seen = true > 1e-280
    assert seen.sum() > 5
    return float(np.max(np.abs(found[seen] / true[seen] - 1.0)))


LAWS = {
    "paper": ({}, (0.1, 0.11)),
    "small": ({}, (1e-5, 1e-5)),
    "smaller": ({}, (1e-20, 1e-20)),
    "smallest": ({}, (1e-40, 1e-40)),
    "v = 0": ({}, (0.0, 0.11)),
    "saddle": ({}, (0.1, -0.1)),
    "beta": ({"beta": 0.5}, (0.1, 0.11)),
    "large beta": ({"beta": 2.0}, (0.1, 0.11)),
    "huge beta": ({"beta": 10.0}, (0.1, 0.11)),
    "gamma": ({"gamma": 0.7}, (0.1, 0.11)),
    "large gamma": ({"gamma": 3.0}, (0.1, 0.11)),
    "both, small": ({"beta": 0.5, "gamma": 0.5}, (1e-5, 1e-5)),
    "both, smaller": ({"beta": 1.0, "gamma": 1.0}, (1e-12, 1e-12)),
    "heavy tail": ({"alpha": 1.05}, (0.1, 0.11)),
    "light tail": ({"alpha": 3.0}, (0.1, 0.11)),
    "lighter": ({"alpha": 6.0}, (0.1, 0.11)),
    "lightest": ({"alpha": 10.0}, (0.1, 0.11)),
    "nearly still": ({"strength": -0.99}, (0.1, 0.11)),
    "large": ({}, (100.0, 100.0)),
    "one task near -1": ({"strength": -3.0, "gamma": 0.15}, (0.1, 0.11)),
    "longest plateau in between": ({"strength": 1e6, "gamma": 2.0}, (7e-5, 7e-5)),
    "shortest contexts": ({"beta": 20.0}, (1e-5, 1e-5)),
}


@pytest.mark.parametrize("name", LAWS)
def test_nodes_give_the_sum_over_all_tasks(name):
    law, init = LAWS[name]
    task = msfr.Task(20_000, **(PAPER | law))
    assert len(rows_of(task, msfr.Init(*init)).weight) < 20_000
    # 1e-12: p t times hundreds of e-folds rounds to 1e-13 in the sum over all tasks, too.
    assert gap(task, msfr.Init(*init), TIMES, "zeroth") < 1e-12


@pytest.mark.parametrize("order", ["first", "exact"])
@pytest.mark.parametrize("name", ["paper", "small", "beta", "gamma", "both, small"])
def test_nodes_serve_every_order(order, name):
    law, init = LAWS[name]
    task = msfr.Task(3000, **(PAPER | law))
    assert gap(task, msfr.Init(*init), TIMES[::4], order) < 1e-12


@pytest.mark.parametrize(("v", "w", "t"), [(1e-20, -1e-20, 5e6), (1e-5, 2e-5, 1e5)])
def test_nodes_know_how_long_the_exact_flow_waits_where_order_zero_stands_still(v, w, t):
    assert gap(msfr.Task(5000, 1.8, 100.0, -1.0), msfr.Init(v, w), np.full(6, t), "exact") < 1e-11


def test_short_contexts_are_learned_late_not_never():
    """By a sum of Theorem 3.1 in extended precision."""
    task = msfr.Task(1000, 1.8, 100.0, 0.5, beta=20.0)
    found = float(msfr.loss(task, msfr.Init(1e-5, 1e-5), 1e40, "zeroth"))
    assert found == pytest.approx(2.5321508902e-3, rel=1e-10)


def test_nodes_step_over_a_task_that_stands_still_unless_told(monkeypatch):
    """Or "one task near -1" could not fail: Λ_s passes −1 at s = 1518."""
    law, init = LAWS["one task near -1"]
    monkeypatch.setattr(_tasks, "_still", lambda task: ())
    assert gap(msfr.Task(20_000, **(PAPER | law)), msfr.Init(*init), TIMES, "zeroth") > 1e-10


@pytest.mark.parametrize(
    ("limits", "order"),
    [
        ({"size": 1000}, "zeroth"),
        ({"size": 17_777}, "zeroth"),
        ({"size": 77}, "exact"),
        ({"data": 2000}, "zeroth"),
        ({"data": 10**6, "size": 500}, "zeroth"),
        ({"data": 300}, "exact"),
    ],
)
def test_nodes_serve_limited_size_and_data(limits, order):
    task = msfr.Task(20_000 if "data" not in limits else 5000, **PAPER)
    for init in ((0.1, 0.11), (1e-5, 1e-5)):
        assert gap(task, msfr.Init(*init), TIMES[::6], order, **limits) < 2e-12


VECTORS = [  # the rows of 10⁹ tasks were confirmed by summing all of them
    (10**5, 0.1, 0.11, 0.0, 585.3257299996426, 4.137140019398617e-03),
    (10**9, 0.1, 0.11, 0.0, 2429338.694682832, 1.051220282276260e-04),
    (10**9, 1e-5, 1e-5, 0.0, 2429338.694682832, 6.380917260143375e-05),
    (10**15, 0.1, 0.11, 0.0, 649566690081.3218, 4.073516980943483e-07),
    (10**15, 1e-5, 1e-5, 0.0, 649566690081.3218, 2.470917830771555e-07),
    (10**15, 1e-5, 1e-5, 0.5, 649566690081.3218, 4.466398190944367e-10),
]


@pytest.mark.parametrize(("tasks", "v", "w", "decay", "t", "true"), VECTORS)
def test_losses_of_up_to_a_thousand_million_million_tasks(tasks, v, w, decay, t, true):
    task = msfr.Task(tasks, **PAPER, beta=decay, gamma=decay)
    assert float(msfr.loss(task, msfr.Init(v, w), t, "zeroth")) == pytest.approx(true, rel=1e-12)


@pytest.mark.parametrize("init", [(0.1, 0.11), (1e-5, 1e-5), (1e-20, 1e-20)])
def test_twice_as_many_nodes_change_nothing(init, monkeypatch):
    task, t = msfr.Task(10**15, **PAPER), np.geomspace(1e-3, 1e28, 60)
    few = np.asarray(msfr.loss(task, msfr.Init(*init), t, "zeroth"))
    monkeypatch.setattr(counting, "ORDER", 2 * counting.ORDER)
    counting._rule.cache_clear()
    many = np.asarray(msfr.loss(task, msfr.Init(*init), t, "zeroth"))
    counting._rule.cache_clear()
    np.testing.assert_allclose(few, many, rtol=1e-12)


@given(
    st.floats(1.001, 10.0),
    st.floats(0.0, 3.0),
    st.floats(0.0, 2.0),
    st.floats(-1.0, 6.0),
    st.floats(-2.0, 2.0),
    st.sampled_from([-1.0, 1.0]),
    st.floats(-12.0, 0.5),
    st.floats(-1.2, 1.2),
    st.one_of(st.none(), st.integers(1, 3001)),
    st.one_of(st.none(), st.integers(1, 10**6)),
)
def test_nodes_give_any_sum(alpha, beta, gamma, context, strength, sign, v, w, size, data):
    """S = 3000, random laws, starts, sizes and data; w a factor times v."""
    law = {"context": 10.0**context, "strength": sign * 10.0**strength}
    task = msfr.Task(3000, alpha, **law, beta=beta, gamma=gamma)
    init, t = msfr.Init(10.0**v, 10.0**v * w), np.array([1e-2, 30.0, 1e9])
    limits = {"size": size, "data": data}
    true = by_all(task, init, t, "zeroth", **limits)
    found = np.asarray(msfr.loss(task, init, t, "zeroth", **limits))
    np.testing.assert_allclose(
        found, true, rtol=1e-11, atol=1e-15 * float(msfr.loss(task, init, 0.0, "zeroth"))
    )


def test_gradients_of_few_nodes_are_those_of_the_sum():
    """In α, ψ, Λ, v and w: nodes do not depend on any of them."""
    point = {"alpha": 1.8, "context": 30.0, "strength": 0.6, "v": 0.1, "w": 0.11}
    arrays = {"context": 9000, "strength": 9000}

    def score(point, whole):
        given = {
            name: x * np.ones(arrays[name]) if whole and name in arrays else x
            for name, x in point.items()
        }
        init = msfr.Init(given.pop("v"), given.pop("w"))
        return msfr.loss(msfr.Task(9000, **given), init, 3.0, "zeroth")

    slope = haste.jit(jax.grad(score), static_argnames="whole")
    few, many = slope(point, False), slope(point, True)
    for name in point:
        scale = abs(float(many[name])) + 1e-3
        assert abs(float(few[name]) - float(many[name])) < 1e-12 * scale, name


@pytest.mark.parametrize("init", [(0.1, 0.11), (1e-5, 1e-5)])
@pytest.mark.parametrize("order", ["zeroth", "exact"])
def test_the_best_split_of_many_tasks_is_that_of_the_sum(init, order):
    task, budget = msfr.Task(20_000, **PAPER), np.geomspace(1.0, 1e5, 7)
    found = msfr.frontier(task, msfr.Init(*init), budget, order)
    for c, size, value in zip(budget, found.size, found.loss, strict=True):
        tried = {
            int(d): by_all(task, msfr.Init(*init), [c / d], order, size=int(d))[0]
            for d in (size - 1, size, size + 1)
            if d >= 1
        }
        assert value == pytest.approx(tried[int(size)], rel=1e-12)
        assert value <= min(tried.values()) * (1.0 + 1e-13)


def test_best_splits_of_very_many_tasks():
    found = msfr.frontier(
        msfr.Task(10**15, **PAPER), msfr.Init(0.1, 0.11), [8.858667904100832e9], "zeroth"
    )
    assert found.size.tolist() == [40631]
    assert found.loss[0] == pytest.approx(3.531736387527427e-04, rel=1e-12)
    found = msfr.frontier(
        msfr.Task(10**9, **PAPER), msfr.Init(1e-5, 1e-5), [6158482.110660267], "zeroth"
    )
    assert found.size.tolist() == [447]
    assert found.loss[0] == pytest.approx(6.438253684076047e-04, rel=1e-12)


@pytest.mark.parametrize("tasks", [2**53, 10**15])
def test_laws_of_very_many_tasks_are_seen_over_many_decades(tasks):
    """The window in t grows by α decades a decade of S, less what its ends take."""
    task, init = msfr.Task(tasks, **PAPER), msfr.Init(0.1, 0.11)
    time, size, data = (
        msfr.time_law(task, init),
        msfr.size_law(task, init),
        msfr.data_law(task, init),
    )
    for law, least in ((time, 18.0), (size, 8.0), (data, 18.0)):
        low, high = law.window(0.02)
        assert math.log10(high / low) > least, law
        middle = math.sqrt(low * high)
        assert law.loss(middle) == pytest.approx(float(law(middle)), rel=3e-3)
