"""Questions: ranges, defaults that depend on words, captions, documents."""

import json
import math
import re
from dataclasses import dataclass, field
from typing import Literal

import pytest

from solvable import labs
from solvable.question import (
    GIVEN,
    Group,
    Parameter,
    Question,
    brief,
    fields,
    file,
    flag,
    interval,
    parameters,
    real,
    whole,
    word,
)
from solvable.schedule import Schedule, Times


@dataclass(frozen=True)
class Model(Group):
    """What it is."""

    kind: Literal["slow", "fast"] = word("slow", "which one", quiet=True)
    rate: float | None = real(
        None, "k", "rate", 0.0, 5.0, open_low=True, by=("kind", {"fast": 2.0})
    )
    size: int = whole(3, "n", "size", 1, 9)
    shift: float = real(0.0, "δ", "shift", -1.0, 1.0, quiet=True)


@dataclass(frozen=True)
class Asked(Question):
    """All of it."""

    model: Model = field(default_factory=Model)
    schedule: Schedule = field(default_factory=Schedule)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"rate": 0.0}, "rate must lie in (0, 5], not 0"),
        ({"rate": math.nan}, "rate must lie in (0, 5], not nan"),
        ({"rate": "two"}, "rate must be a number, not 'two'"),
        ({"size": 2.5}, "size must be a whole number, from 1 to 9, not 2.5"),
        ({"size": True}, "size must be a whole number, from 1 to 9, not True"),
        ({"shift": True}, "shift must be a number, not True"),
        ({"shift": -2}, "shift must lie in [-1, 1], not -2"),
        ({"kind": "quick"}, "kind must be one of slow, fast, not 'quick'"),
        ({"kind": None}, "kind must be one of slow, fast, not None"),
        ({"size": None}, "size must be a whole number, from 1 to 9, not None"),
        ({"shift": None}, "shift must be a number, not None"),
        ({"sise": 2}, "sise is no field of the question; did you mean size?"),
        (
            {"self": 2},
            "self is no field of the question; it has kind, rate, size, shift, lr, steps, seed, "
            "log_every, log_points",
        ),
        ({"shift": "0.5"}, "shift must be a number, not '0.5'"),
        ({"kind": ["slow"]}, "kind must be one of slow, fast, not ['slow']"),
        ({"lr": math.inf}, "lr must lie in (0, inf), not inf"),
        ({"steps": -1}, "steps must be a whole number, at least 0, not -1"),
    ],
)
def test_what_is_out_of_range_is_refused_by_one_sentence(given, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)) as error:
        Asked().changed(**given)
    assert str(error.value) == sentence


def test_numbers_are_kept_as_what_they_are():
    model = Model(size=4.0, shift=1, rate=None)
    assert (model.size, type(model.size)) == (4, int)
    assert (model.shift, type(model.shift)) == (1.0, float)


def test_a_default_may_depend_on_a_word_and_is_refused_for_another():
    assert Asked().settled().model.rate is None
    assert Asked().changed(kind="fast").settled().model.rate == 2.0
    assert Asked().changed(kind="fast", rate=3.0).settled().model.rate == 3.0
    with pytest.raises(ValueError, match="rate is for kind fast, not slow"):
        Asked().changed(rate=3.0).settled()


def test_settling_twice_changes_nothing():
    for lab in labs.labs().values():
        if lab.question is not None:
            once = lab.question().settled()
            assert once.settled() == once


def test_a_document_is_plain_data_and_can_be_asked_again():
    question = Asked().changed(kind="fast", size=5).settled()
    text = json.dumps(question.document())
    assert Asked.of(text) == question
    assert Asked.of(question.document()) == question
    assert Asked.of({"model": {"size": 7}}).model.size == 7
    with pytest.raises(ValueError, match="modell is no group of the question; it has model, sch"):
        Asked.of({"modell": {}})
    with pytest.raises(ValueError, match="document must be an object of groups, not a list"):
        Asked.of("[1]")
    for broken in ("{", "[" * 100_000):
        with pytest.raises(ValueError, match="document must be JSON"):
            Asked.of(broken)
    for stray in ({"lr": 0.5}, {"self": 1}, {1: 2}):
        with pytest.raises(ValueError, match="is no field of model; it has kind, rate, size, sh"):
            Asked.of({"model": stray})


def test_captions_name_quiet_fields_where_they_are_not_usual():
    names = list(parameters(Model))
    assert Asked().settled().caption(names) == "n = 3"
    told = Asked().changed(kind="fast", shift=0.5).settled().caption(names)
    assert told == "kind = fast, k = 2, n = 3, δ = 0.5"
    near = [Asked().changed(shift=x).settled().caption(names) for x in (0.1, 0.1 + 1e-9)]
    assert near == ["n = 3, δ = 0.1", "n = 3, δ = 0.100000001"]
    assert "n = 9" in Asked().changed(size=9).settled().caption(names)


@pytest.mark.parametrize(
    ("parameter", "words"),
    [
        (Parameter("", "", 1, 10, open_low=True), "in (1, 10]"),
        (Parameter("", "", 0.0, open_low=True), "above 0"),
        (Parameter("", "", 0.0), "at least 0"),
        (Parameter("", "", -1e6, 1e6), "of size at most 1e6"),
        (Parameter("", "", 1, whole=True), "at least 1"),
        (Parameter("", "", 1, 10**12, whole=True), "from 1 to 1e12"),
        (Parameter("", ""), ""),
    ],
)
def test_ranges_are_told_in_words(parameter, words):
    assert parameter.limits == words


def test_numbers_are_brief():
    assert interval(-math.inf, math.inf) == "(-inf, inf)"
    assert [brief(x) for x in (20_000, 10**7, 1e-3, 0.1 + 0.2)] == ["20000", "1e7", "0.001", "0.3"]
    assert brief(10**400) == str(10**400)
    assert [brief(x) for x in (10**12, 1234567)] == ["1e12", "1234567"]


def test_the_last_time_must_come_after_the_first():
    with pytest.raises(ValueError, match=r"t_max must lie in \(5, 1e\+300\], not 2"):
        Times(t_min=5.0, t_max=2.0)
    grid = Times(t_min=0.3, t_max=7.7, points=5).grid()
    assert (grid[0], grid[-1], len(grid)) == (0.3, 7.7, 5)


def test_points_are_evenly_spaced_in_log_step_unless_told_otherwise():
    assert Schedule().pace() == {"steps": 5000, "log_every": None, "log_points": 200}
    assert Schedule(log_every=7).pace()["log_points"] is None


@pytest.mark.parametrize("lab", ["msfr", "single_location"])
def test_the_typed_api_has_the_ranges_of_the_description(lab):
    """Every end of every range, asked of the description and of the library's own types."""
    import importlib

    import numpy as np

    module = importlib.import_module(f"solvable.{lab}")
    described = labs.lab(lab).described
    usual = {k: v for k, v in vars(described().task).items()}
    for name, parameter in parameters(type(described().task)).items():
        for end, step in ((parameter.low, -1), (parameter.high, 1)):
            if not math.isfinite(end):
                continue
            beyond = end + step if parameter.whole else np.nextafter(end, step * math.inf)
            inside = [] if step < 0 and parameter.open_low else [end]
            outside = [beyond] if inside else [beyond, end]
            for value in inside:
                module.Task(**(usual | {name: value}))
                described().changed(**{name: value})
            for value in outside:
                with pytest.raises(ValueError, match=f"^{name} must") as typed:
                    module.Task(**(usual | {name: value}))
                with pytest.raises(ValueError, match=f"^{name} must") as asked:
                    described().changed(**{name: value})
                assert str(typed.value) == str(asked.value)
    assert set(usual) <= set(fields(described))


# Several values, rows, infinity, files, and defaults that depend on several fields.


@dataclass(frozen=True)
class Wide(Group):
    """What it is."""

    law: Literal["one", "two"] = word("one", "which one", quiet=True)
    table: str | None = file("a table", by=("law", {"one": None}))
    size: int | float | tuple[int | float, ...] | None = whole(
        None, "N", "size", 1, 99, endless=True, spread=True, by=("law", {"one": math.inf})
    )
    rate: float | tuple[float, ...] = real(0.5, "g", "rates", -1.0, 1.0, row=True)
    power: float | None = real(
        None, "p", "power", 0.0, 9.0, by=(("law", "table"), {("one", None): 2.0})
    )
    slow: int | None = whole(None, "s", "steps", by=("size", {None: 7, GIVEN: 3}))


@dataclass(frozen=True)
class WideAsked(Question):
    """All of it."""

    wide: Wide = field(default_factory=Wide)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"size": 0}, "size must be a whole number, from 1 to 99, or inf, not 0"),
        ({"size": 2.5}, "size must be a whole number, from 1 to 99, or inf, not 2.5"),
        ({"size": (4, 100)}, "size must be a whole number, from 1 to 99, or inf, not 100"),
        ({"size": ()}, "size must have one value or more"),
        ({"size": "endless"}, "size must be a whole number, from 1 to 99, or inf, not 'endless'"),
        ({"size": -math.inf}, "size must be a whole number, from 1 to 99, or inf, not -inf"),
        ({"size": math.nan}, "size must be a whole number, from 1 to 99, or inf, not nan"),
        ({"rate": [0.5, 2.0]}, "rate must lie in [-1, 1], not 2"),
        ({"rate": [[0.5], [0.1]]}, "rate must be a number, not [0.5]"),
        ({"slow": (1, 2)}, "slow must be a whole number, at least 0, not (1, 2)"),
        ({"table": 3}, "table must be the path of a file, not 3"),
        ({"law": "two", "size": 3}, "size is for law one, not two"),
        ({"law": "two", "power": 3.0}, "power is for law one, not two"),
        ({"table": "none.csv"}, "table must be a file that can be read, not 'none.csv'"),
        ({"table": "."}, "table must be a file that can be read, not '.' (it is no plain file)"),
    ],
)
def test_several_values_rows_infinity_and_files_are_checked(given, sentence):
    with pytest.raises(ValueError, match="^" + re.escape(sentence)):
        WideAsked().changed(**given).settled()


def test_whole_numbers_may_be_infinite_and_documents_say_so():
    wide = WideAsked().settled()
    assert (wide.wide.size, wide.wide.slow) == (math.inf, 7)
    assert WideAsked().changed(size=4.0).settled().wide == Wide("one", None, 4, 0.5, 2.0, 3)
    for text in (json.dumps(wide.document()), json.dumps(wide.document(), allow_nan=False)):
        assert '"size": "inf"' in text
        assert WideAsked.of(text) == wide
    assert fields(WideAsked)["size"].limits == "from 1 to 99, or inf"


def test_several_values_are_an_axis_and_a_row_is_one_value():
    import numpy as np

    asked = WideAsked().changed(size=[4, math.inf, 4], rate=np.array([0.1, 0.1, 0.25])).settled()
    assert (asked.wide.size, asked.wide.rate) == ((4, math.inf), (0.1, 0.1, 0.25))
    assert asked.caption() == "N = 4 inf, g = 0.1 0.1 0.25, p = 2, s = 3"
    assert WideAsked.of(json.dumps(asked.document())) == asked
    assert asked.document()["wide"]["size"] == [4, "inf"]


def test_captions_of_long_rows_are_short_and_tell_them_apart():
    rows = [[0.01 * k for k in range(20)], [0.01 * k + 1e-9 * (k == 7) for k in range(20)]]
    told = [WideAsked().changed(rate=row).settled().caption(["rate"]) for row in rows]
    assert told[0].startswith("g = 0 0.01 … 0.19 (20, ")
    assert told[0] != told[1]
    assert max(map(len, told)) < 40


def test_a_file_is_its_path_and_a_part_of_its_checksum(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "a.csv"
    path.write_bytes(b"x\n")
    asked = WideAsked().changed(table="in/a.csv").settled()
    assert asked.wide.table == "in/a.csv#73cb3858a687a849"  # sha256 of "x\n"
    assert (asked.wide.power, asked.settled()) == (None, asked)
    assert asked.caption(["table"]) == "table = a.csv#73cb3858"
    assert WideAsked.of(json.dumps(asked.document())).settled() == asked
    with pytest.raises(ValueError, match="power cannot be given with table"):
        asked.changed(power=3.0).settled()
    path.write_bytes(b"y\n")
    with pytest.raises(ValueError, match="table must be the file that was asked about, but 'in/a"):
        asked.settled()
    assert WideAsked().changed(table=path).settled().wide.table.startswith(str(path))


@dataclass(frozen=True)
class Switched(Group):
    """What may be on."""

    size: int | None = whole(None, "N", "size", 1)
    loud: bool = flag("whether it is loud")
    deep: bool | None = flag("whether it is deep", None, by=("size", {GIVEN: False}))


@dataclass(frozen=True)
class SwitchedAsked(Question):
    """All of it."""

    switched: Switched = field(default_factory=Switched)


def test_a_flag_is_true_or_false_and_captions_name_it_where_it_is_true():
    asked = SwitchedAsked().changed(size=3, loud=True)
    assert asked.settled().switched == Switched(3, True, False)
    assert asked.settled().caption() == "N = 3, loud"
    assert asked.changed(deep=True).settled().caption() == "N = 3, loud, deep"
    assert SwitchedAsked.of(json.dumps(asked.document())) == asked
    for given, sentence in (
        ({"loud": 1}, "loud must be true or false, not 1"),
        ({"loud": None}, "loud must be true or false, not None"),
        ({"deep": True}, "deep needs size"),
    ):
        with pytest.raises(ValueError, match=sentence):
            SwitchedAsked().changed(**given).settled()
