"""What is compiled for tasks and times of many numbers, and that it is forgotten in time."""

import numpy as np
import pytest

from solvable import compiling, msfr
from solvable.msfr.theory import _loss

pytestmark = pytest.mark.slow

INIT = msfr.Init(v=0.1, w=0.11)
SHAPES = 8  # each more than is filled up, so that each is compiled
EACH = 24  # memory maps that a shape takes


@pytest.mark.skipif(not compiling.maps_in_use(), reason="this system does not tell its memory maps")
def test_code_of_many_shapes_does_not_fill_the_memory_maps(monkeypatch):
    def call(shape):
        task = msfr.Task(5000 + shape, 1.8, np.full(5000 + shape, 20.0), 0.5)
        return float(msfr.loss(task, INIT, 0.5, "zeroth"))

    monkeypatch.setattr(_loss, "HOST", 0)  # few numbers are not compiled for
    compiling.forget()  # what other tests have left
    first = call(0)
    before = compiling.maps_in_use()
    forgotten, forget = [], compiling.forget
    monkeypatch.setattr(compiling, "forget", lambda: (forgotten.append(1), forget()))
    monkeypatch.setattr(compiling, "_LOOK", 1)
    monkeypatch.setattr(compiling, "_SHARE", 1.0)
    monkeypatch.setattr(compiling, "maps_allowed", lambda: before + EACH)
    compiled, seen = compiling._state["compiled"], []
    for shape in range(1, SHAPES):
        call(shape)
        seen.append(compiling.maps_in_use())
    assert compiling._state["compiled"] - compiled >= SHAPES - 1
    assert len(forgotten) >= 2
    assert max(seen) <= before + 4 * EACH
    assert call(0) == first  # and what is forgotten is compiled again


@pytest.mark.parametrize("order", ["zeroth", "exact"])
def test_laws_compile_nothing_for_a_new_number_of_tasks(order):
    def call(tasks, alpha):
        task = msfr.Task(tasks, alpha, 20.0, 0.5)
        law = msfr.time_law(task, INIT, order)
        msfr.frontier(task, INIT, np.geomspace(1.0, 10.0, tasks), order)
        msfr.data_law(task, INIT, order).window()
        msfr.size_law(task, INIT, order).window()
        return law.window(), law.amplitude

    call(9, 1.8)
    before = compiling._state["compiled"]
    call(14, 1.7)
    assert compiling._state["compiled"] == before
