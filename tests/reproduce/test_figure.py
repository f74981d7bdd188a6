"""Figures declared in parts: stages, claims, families, settings."""

import json

import numpy as np
import pytest
import xarray as xr

from solvable.reproduce import Figure, at_least, near, registry, settings_of, stage
from solvable.reproduce.change import parsed
from solvable.reproduce.datasets import read_dataset, write_dataset
from solvable.reproduce.stage import workbench

SIZES = {"quick": {"n": 2}, "default": {"n": 3}, "full": {"n": 4}}


@pytest.fixture
def new(toy):
    return registry.figure("toy/new")


def test_statements_are_known_before_anything_is_computed(new, diary):
    assert [(s.id, s.kind, s.text) for s in new.statements] == [
        ("toy/new/slope", "paper", "It rises with the slope 2 (the last value)."),
        ("toy/new/power-1", "new", "The count to the power 1 is at least one."),
        ("toy/new/power-2", "new", "The count to the power 2 is at least one."),
        ("toy/new/printed", "paper", "It is twice x (ratio)."),
        ("toy/new/many", "reported", "There are four values or more."),
    ]
    assert new.statements[3].quote.text == "y = x"
    assert diary() == []


def test_it_is_judged_from_what_is_stored(new, tmp_path):
    data = read_dataset(write_dataset(new.compute("quick"), tmp_path))
    assert settings_of(data).powers == (1, 2)
    verdicts = [claim.verdict for claim in new.judge(data, "quick")]
    assert verdicts == ["holds", "holds", "holds", "holds corrected", "fails"]
    assert all(claim.as_known for claim in new.judge(data, "quick"))
    assert new.judge(data, "quick")[0].because == "round-off"


def test_later_stages_see_earlier_ones_and_settings_are_passed(new, diary):
    data = new.compute("default", {"slope": 3.0})
    np.testing.assert_array_equal(data.told, [3.0, 6.0, 9.0, 12.0])
    assert [word for word, _ in diary()] == ["values", "theory"]
    assert settings_of(data).slope == 3.0
    assert new.judge(data)[0].statement == "It rises with the slope 3 (the last value)."


def test_settings_are_the_same_before_and_after_a_file(tmp_path):
    fig, seen = Figure("a/b", "", SIZES, constants={"pair": (1, (2.0, 3))}, seed=5), []

    @fig.data
    def part(settings):
        seen.append(settings)
        return xr.Dataset({"y": 1.0})

    data = read_dataset(write_dataset(fig.compute("quick"), tmp_path))
    assert vars(seen[0]) == {"seed": 5, "pair": (1, (2.0, 3)), "n": 2}
    assert vars(settings_of(data)) == vars(seen[0])


def test_what_is_declared_wrongly_is_told_at_once():
    fig = Figure("a/b", "", SIZES)
    with pytest.raises(TypeError, match="must take settings and earlier stages"):
        fig.data(lambda settings, unknown: None)
    fig.data(lambda settings: None)
    with pytest.raises(ValueError, match="a/b has the stage <lambda> twice"):
        fig.data(lambda settings: None)
    with pytest.raises(TypeError, match="must say what it claims, in a docstring"):
        fig.claim("new", "ours")(lambda d: None)

    def family(d, x):
        """Of {y}."""

    with pytest.raises(KeyError, match="y"):
        fig.claim("new", "ours", over=(1, 2))(family)


def test_two_claims_cannot_have_one_id():
    fig = Figure("a/b", "", SIZES)

    def same(d):
        """It is."""

    fig.claim("new", "ours")(same)
    with pytest.raises(ValueError, match="a/b/same is claimed twice"):
        fig.claim("new", "ours")(same)


def test_a_claim_that_raises_says_so_and_leaves_the_others():
    fig = Figure("a/b", "", SIZES, constants={"k": 1})

    @fig.data
    def part(settings):
        return xr.Dataset({"y": ("x", np.zeros(settings.k))})

    @fig.claim("paper", "Fig. 1")
    def first(d):
        """The first value is 0."""
        return near(d.y[0], 0.0, 0.1)

    @fig.claim("new", "ours")
    def count(d):
        """There are none or more."""
        return at_least(d.y.size, 0)

    data = fig.compute("quick", {"k": 0})
    claims = fig.judge(data, "quick")
    assert [claim.verdict for claim in claims] == ["fails", "holds"]
    assert [claim.unjudged for claim in claims] == [True, False]
    assert "It cannot be judged (IndexError" in claims[0].note


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ({"slope": "3"}, {"slope": 3.0}),
        ({"count": "1e2"}, {"count": 100}),
        ({"powers": "1,2,3"}, {"powers": [1, 2, 3]}),
        ({"powers": "[3]"}, {"powers": [3]}),
        ({"power": "3"}, {"powers": [3]}),
        ({"powers": 3}, {"powers": [3]}),
        ({"name": "3"}, {"name": "3"}),
        ({"seed": 8}, {"seed": 8}),
        ({"slope": "2.0"}, {}),  # as it is
    ],
)
def test_settings_are_read_by_their_type(new, text, value):
    found = parsed(new, "quick", text)
    assert found == value
    assert json.dumps(found) == json.dumps(value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"slop": "3"}, r"setting of toy/new must be one of seed, slope, .*; did you mean slope\?"),
        ({"slope": "steep"}, r"slope must be a finite number, such as 2\.0, not 'steep'"),
        ({"slope": "nan"}, "slope must be a finite number"),
        ({"slope": "true"}, "slope must be a finite number"),
        ({"count": "2.5"}, "count must be a whole number, such as 3, not '2.5'"),
        ({"powers": "a,b"}, "powers must be whole numbers with commas between, such as 1,2, not"),
        ({"powers": "[]"}, "powers must be whole numbers with commas between"),
        ({"powers": "2,2"}, "powers must be different values, not '2,2'"),
        ({"power": "2", "powers": "3"}, "powers must be given once, not twice"),
    ],
)
def test_a_wrong_change_is_one_sentence(new, change, words):
    with pytest.raises(ValueError, match=words):
        parsed(new, "quick", change)


def test_parts_of_the_same_name_in_two_stages_are_two(tmp_path):
    fig, told = Figure("a/b", "", SIZES), []

    @fig.data
    def one(settings):
        return stage("part", lambda: xr.Dataset({"x": 1.0}))

    @fig.data
    def two(settings):
        return stage("part", lambda: xr.Dataset({"y": 2.0}))

    for _ in range(2):
        with workbench(tmp_path, lambda words: None, told.append):
            data = fig.compute("quick")
        assert (float(data.x), float(data.y)) == (1.0, 2.0)
    assert told[-2:] == ["stage one is there already", "stage two is there already"]
