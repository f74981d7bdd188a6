"""Where training starts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solvable import msfr

TASK = msfr.Task(num_tasks=3, alpha=1.8, context=5.0, strength=0.5)
ROWS = np.arange(6.0).reshape(3, 2)


def test_one_number_fills_every_entry():
    v, w = msfr.Init(v=0.1, w=0.11).columns(TASK)
    np.testing.assert_array_equal(v, np.full((3, 2), 0.1))
    np.testing.assert_array_equal(w, np.full((3, 2), 0.11))


def test_rows_are_kept_and_may_be_mixed_with_one_number():
    v, w = msfr.Init(v=ROWS, w=0.5).columns(TASK)
    np.testing.assert_array_equal(v, ROWS)
    np.testing.assert_array_equal(w, np.full((3, 2), 0.5))


def test_only_two_numbers_are_known_to_be_uniform():
    assert msfr.Init(0.1, 0.1).is_uniform
    assert not msfr.Init(ROWS, 0.1).is_uniform
    assert not msfr.Init(0.1, np.full((3, 2), 0.1)).is_uniform


@pytest.mark.parametrize("field", ["v", "w"])
@pytest.mark.parametrize(
    "bad",
    ["x", None, np.nan, np.inf, 1001.0, -1000.1, [0.1, 0.2], np.ones((3, 3)), np.ones((2, 2, 2))],
)
def test_init_names_the_bad_entry(field, bad):
    with pytest.raises(ValueError, match=rf"^{field} must ") as error:
        msfr.Init(**({"v": 0.1, "w": 0.1} | {field: bad}))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("field", ["v", "w"])
def test_init_with_rows_of_other_tasks_is_refused(field):
    init = msfr.Init(**({"v": 0.1, "w": 0.1} | {field: np.ones((4, 2))}))
    with pytest.raises(ValueError, match=rf"^{field} must .*\(3, 2\).*\(4, 2\)"):
        init.columns(TASK)


def test_largest_entries_are_allowed():
    v, w = msfr.Init(v=1e3, w=-1e3).columns(TASK)
    assert float(v[0, 0]) == 1e3
    assert float(w[0, 0]) == -1e3


def test_init_is_built_under_tracing_whatever_its_values():
    total = jax.jit(lambda v: jnp.sum(msfr.Init(v=v, w=v).columns(TASK)[0]))
    assert float(total(1e6)) == 6e6


def test_softmax_init_fills_its_matrices():
    init = msfr.SoftmaxInit(value=0.1, key=0.2, query=0.3)
    assert init.width_for(TASK) == 4
    np.testing.assert_array_equal(init.values(TASK), np.full((3, 2), 0.1))
    np.testing.assert_array_equal(init.keys(TASK, 4), np.full((4, 4), 0.2))
    np.testing.assert_array_equal(init.queries(TASK, 4), np.full((4, 4), 0.3))


def test_softmax_init_keeps_matrices_and_their_width():
    key = np.arange(8.0).reshape(2, 4)
    init = msfr.SoftmaxInit(value=ROWS, key=key, query=0.1)
    assert init.width_for(TASK) == 2
    np.testing.assert_array_equal(init.values(TASK), ROWS)
    np.testing.assert_array_equal(init.keys(TASK, 2), key)
    np.testing.assert_array_equal(init.queries(TASK, 2), np.full((2, 4), 0.1))
    assert msfr.SoftmaxInit(0.1, 0.1, 0.1, width=7).width_for(TASK) == 7


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("value", "x"),
        ("value", np.nan),
        ("value", 1e4),
        ("value", np.ones(3)),
        ("value", np.ones((3, 3))),
        ("key", None),
        ("key", np.ones(4)),
        ("key", np.ones((2, 4, 1))),
        ("key", -1e4),
        ("query", "x"),
        ("query", np.ones(4)),
        ("query", np.inf),
        ("width", 0),
        ("width", 2.5),
        ("width", "wide"),
    ],
)
def test_softmax_init_names_the_bad_field(field, bad):
    good = {"value": 0.1, "key": 0.1, "query": 0.1}
    with pytest.raises(ValueError, match=rf"^{field} must ") as error:
        msfr.SoftmaxInit(**(good | {field: bad}))
    assert "\n" not in str(error.value)


def test_key_query_and_width_must_agree():
    with pytest.raises(ValueError, match="key and query must"):
        msfr.SoftmaxInit(0.1, np.ones((2, 4)), np.ones((3, 4)))
    with pytest.raises(ValueError, match=r"^width must be 2"):
        msfr.SoftmaxInit(0.1, np.ones((2, 4)), 0.1, width=5)


@pytest.mark.parametrize(
    ("field", "read"),
    [
        ("value", lambda init: init.values(TASK)),
        ("key", lambda init: init.keys(TASK, 5)),
        ("query", lambda init: init.queries(TASK, 5)),
    ],
)
def test_softmax_init_for_other_tasks_is_refused(field, read):
    rows = np.ones((4, 2)) if field == "value" else np.ones((5, 9))
    init = msfr.SoftmaxInit(**({"value": 0.1, "key": 0.1, "query": 0.1} | {field: rows}))
    with pytest.raises(ValueError, match=rf"^{field} must "):
        read(init)
