"""A run is resumed as what it was, bit for bit, and as nothing else.

A lab's module has `RESUMED`, by name: (train function, its keyword arguments with `steps`, and by
field (the arguments that are changed, words that the refusal has)). Starts are so small that the
losses do not tell the problems apart.
"""

import copy
import dataclasses
import importlib
import importlib.util

import jax
import numpy as np
import pytest

from . import LABS

pytestmark = pytest.mark.slow

TABLES = {
    lab: getattr(importlib.import_module(f"tests.labs.{lab}"), "RESUMED", {})
    for lab in LABS
    if importlib.util.find_spec(f"tests.labs.{lab}")
}
RUNS = {f"{lab}.{name}": case for lab, table in TABLES.items() for name, case in table.items()}
CHANGES = [(name, field) for name, (_, _, changes) in RUNS.items() for field in changes]


@pytest.fixture(scope="module")
def begun():
    """Runs to go on from, each trained once."""
    runs = {}

    def run(name):
        if name not in runs:
            train, options, _ = RUNS[name]
            runs[name] = train(**options)
        return runs[name]

    return run


def seen(run):
    """All that a run has logged, and its state."""
    names = [f.name for f in dataclasses.fields(run) if f.name != "origin"]
    return {name: [np.asarray(x) for x in jax.tree.leaves(getattr(run, name))] for name in names}


@pytest.mark.parametrize("name", RUNS)
def test_a_resumed_run_is_the_unbroken_one(name, begun):
    train, options, _ = RUNS[name]
    twice = {**options, "steps": 2 * options["steps"]}
    whole = train(**twice)
    rest = train(**copy.deepcopy(twice), resume=begun(name))  # an equal problem, built anew
    assert whole.step[-1] == 2 * begun(name).step[-1]
    assert rest.origin == whole.origin == begun(name).origin
    for field, arrays in seen(whole).items():
        found = seen(rest)[field]
        assert len(found) == len(arrays), field
        for x, y in zip(found, arrays, strict=True):
            np.testing.assert_array_equal(x, y, err_msg=field)


@pytest.mark.parametrize(("name", "field"), CHANGES)
def test_a_run_of_another_problem_is_refused(name, field, begun):
    """And before anything is trained: the sentence must not come after hours of work."""
    train, options, changes = RUNS[name]
    changed, words = changes[field]
    asked = {**options, "steps": 2 * options["steps"], "progress": pytest.fail, **changed}
    with pytest.raises(ValueError, match="resume must be a run of the same problem: its ") as error:
        train(**asked, resume=begun(name))
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("name", RUNS)
def test_what_cannot_be_gone_on_from_is_refused(name, begun):
    train, options, _ = RUNS[name]
    with pytest.raises(ValueError, match="resume must be a run, not int"):
        train(**options, resume=3)
    done = options["steps"]
    with pytest.raises(ValueError, match=f"steps must be at least {done}, those done already"):
        train(**{**options, "steps": done - 1}, resume=begun(name))
