"""Any arguments of any public function: no nan in what it gives, or a refusal in one sentence.

Numbers of a legal point are moved a little, or something odd takes the place of one of them. Shapes
stay as they are, so that little is compiled.
"""

import importlib
import json
import traceback
from pathlib import Path

import jax
import numpy as np
import pytest

from solvable import deep_icl, descent, msfr, scaling, shallow_icl, single_location
from solvable.cli import rejection
from solvable.cli.commands import COMMANDS as COMMANDS_BY_NAME

from . import LABS

pytestmark = pytest.mark.slow

MODULES = {lab: importlib.import_module(f"tests.labs.{lab}") for lab in LABS}
ROOT = Path(__file__).parents[2]
ODD = {
    "nan": np.nan,
    "inf": np.inf,
    "-inf": -np.inf,
    "negative": -1.0,
    "zero": 0.0,
    "small": 1e-300,
    "huge": 1e300,
    "-huge": -1e300,
    "no number": "two",
    "nothing": None,
    "true": True,
    "too long": 10**20,
    "half": 0.5,
    "empty": [],
    "a nan in it": [0.5, np.nan],
    "words": ["a", "b"],
    "ragged": [[1.0], [1.0, 2.0]],
    "a table": {},
    "imaginary": 1j,
    "4 axes": np.ones((2, 1, 1, 2)),
}
ENTRIES = ("nan", "inf", "-huge")
ANY = (np.inf, np.inf)
OPEN = {"shallow_icl.crossing_times"}  # nan where a curve has not fallen so far, as it says
LEGAL = ("the next", "a neighbour")
WORDS = ("numbers are nan", "are infinite")

X = np.geomspace(1.0, 1e3, 12)
Y = 1.5 + 8.0 * X**-0.3
CHINCHILLA = scaling.Known(scaling.chinchilla(), np.array([1.69, 406.4, 410.7, 0.34, 0.28]))
STRUCTURE = {"nu": 1.3, "beta": 0.8, "dim": 6, "context": 9, "noise": 0.1, "queries": 3}
# What is in no lab's tables: functions, and arguments at which they are legal.
CALLS = {
    "msfr.Task": (msfr.Task, {**MODULES["msfr"].LAW, "beta": 0.1, "gamma": 0.1}),
    "msfr.Init": (msfr.Init, {"v": 0.1, "w": 0.11}),
    "msfr.SoftmaxInit": (msfr.SoftmaxInit, {"value": 0.1, "key": 0.1, "query": 0.2, "width": 4}),
    "shallow_icl.Task": (shallow_icl.Task, {"dim": 3, "context": 7, "noise": 0.1, "outputs": 2}),
    "shallow_icl.separate": (shallow_icl.separate, {"heads": 2, "rank": 1, "scale": 0.1}),
    "shallow_icl.merged": (shallow_icl.merged, {"heads": 2, "scale": 0.1}),
    "shallow_icl.mlp": (shallow_icl.mlp, {"hidden": 2, "scale": 0.1}),
    "single_location.Task": (
        single_location.Task,
        {"dim": 20, "length": 4, "gamma": 0.7, "noise": 0.1},
    ),
    "single_location.State": (
        single_location.State,
        {"kappa": 0.1, "nu": 0.2, "theta": 0.1, "eta": 0.1, "rho": 0.1},
    ),
    "single_location.manifold": (
        lambda **how: single_location.manifold(single_location.Task(20, 4), **how),
        {"runs": 2, "seed": 0},
    ),
    "single_location.sphere": (
        lambda **how: single_location.sphere(single_location.Task(20, 4), **how),
        {"runs": 2, "seed": 0},
    ),
    "deep_icl.Isotropic": (deep_icl.Isotropic, {"alpha": 2.0, "noise": 0.1, "dim": 4}),
    "deep_icl.FixedStructure": (deep_icl.FixedStructure, STRUCTURE),
    "deep_icl.RotatedStructure": (deep_icl.RotatedStructure, {**STRUCTURE, "width": 4}),
    "deep_icl.Init, gamma": (deep_icl.Init, {"gamma": 0.1}),
    "deep_icl.Init, weights": (deep_icl.Init, {"weights": 0.1}),
    "deep_icl.sample": (
        lambda **how: deep_icl.sample(deep_icl.RotatedStructure(**STRUCTURE), **how),
        {"contexts": 2, "seed": 0},
    ),
    "deep_icl.curve_law": (deep_icl.curve_law, {"dim": 40}),
    "msfr.curve_law": (msfr.curve_law, {"num_tasks": 40, "context": 10.0, "strength": 0.5}),
    "scaling.fit": (
        lambda x, y, **how: scaling.fit("power", {"x": x}, y=y, **how),
        {"x": X, "y": Y, "weights": np.ones(12), "scale": 0.1, "level": 0.9, "seed": 0},
    ),
    "scaling.fit, bootstrap": (
        lambda **how: scaling.fit("power", {"x": X}, y=Y, intervals="bootstrap", **how),
        {"draws": 100},
    ),
    "scaling.fit, pinned": (
        lambda value: scaling.fit("power", {"x": X}, y=Y, pinned={"a": value}),
        {"value": 0.3},
    ),
    "scaling.fit, start": (
        lambda value: scaling.fit("power", {"x": X}, y=Y, start={"a": value}),
        {"value": 0.3},
    ),
    "scaling.fit, hold_out": (
        lambda share: scaling.fit("power", {"x": X}, y=Y, hold_out=("random", share)),
        {"share": 0.2},
    ),
    "scaling.Fit.predict": (
        lambda x: scaling.fit("power", {"x": X}, y=Y).predict({"x": x}),
        {"x": X},
    ),
    "scaling.Known": (lambda values: scaling.Known(scaling.power(), values), {"values": Y[:3]}),
    "scaling.Cost": (lambda cost: scaling.Cost(cost, ("N", "D")), {"cost": "6*N*D"}),
    "scaling.plan": (
        lambda budget, **how: scaling.plan(CHINCHILLA, budget, "6*N*D", **how).loss,
        {"budget": [1e20, 1e21]},
    ),
    "scaling.local_exponent": (scaling.local_exponent, {"x": X, "y": Y, "share": 0.5}),
    "scaling.power_window": (scaling.power_window, {"x": X, "y": Y, "significance": 0.05}),
    "scaling.longest_window": (
        lambda **how: scaling.longest_window(local=lambda x: 0.3 + 1.0 / x, **how),
        {"x": X, "exponent": 0.3, "tolerance": 0.02},
    ),
}


def is_number(value):
    return not isinstance(value, bool | str) and np.asarray(value).dtype.kind in "if"


def numbers(call):
    """A function and the numbers of its arguments."""
    function, given = call
    return function, given, {name: x for name, x in given.items() if is_number(x)}


THEORY = {
    **{
        f"{lab}.{name}": numbers(call)
        for lab, module in MODULES.items()
        for table in ("TRACED", "HOST")
        for name, call in getattr(module, table).items()
    },
    **{name: numbers(call) for name, call in CALLS.items()},
}
# The first way of each to train; the others are other data and starts.
TRAINED = {}
for lab, module in MODULES.items():
    for name, call in module.RESUMED.items():
        TRAINED.setdefault(f"{lab}.{name.split(',')[0]}", numbers(call[:2]))


def drawn(name, value, rng):
    """Something a little different, then something odd, by what it is."""
    if isinstance(value, int | np.integer):
        yield "the next", value + 1 if name == "seed" else value
    else:
        yield "a neighbour", np.multiply(value, rng.uniform(0.97, 1.03))
    for label, odd in ODD.items():
        if (name, label) != ("steps", "too long"):  # a wish that would be fulfilled, one day
            same = isinstance(odd, float) and np.ndim(value)  # shapes that are compiled already
            yield label, np.full(np.shape(value), odd) if same else odd
    for label in ENTRIES if np.ndim(value) else ():
        entries = np.array(value, float)
        entries.flat[rng.integers(entries.size)] = ODD[label]
        yield f"{label} in it", entries


def unknowns(out):
    """How many numbers of a result are nan, and how many infinite."""
    leaves = [np.asarray(x) for x in jax.tree.leaves(out) if not isinstance(x, str)]
    found = [x for x in leaves if x.dtype.kind == "f"]
    return sum(np.isnan(x).sum() for x in found), sum(np.isinf(x).sum() for x in found)


def raised_in(error):
    """Where an error comes from: "src", "tests" (a table's own arithmetic), or elsewhere below."""
    files = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
    ours = [file for file in files if ROOT in file.parents and ".venv" not in file.parts]
    if (ROOT / "tests") in ours[-1].parents:
        return "tests"
    return "src" if ours[-1] == files[-1] else "below"


class Began(Exception):
    """Training has begun: all arguments were accepted."""


def complaint(function, arguments, most):
    """What is wrong with the answer of one call, in words; "" where nothing is."""
    try:
        out = function(**arguments)
    except Began:
        return ""
    except Exception as error:
        if raised_in(error) == "tests":
            return ""
        fine = isinstance(error, ValueError) and raised_in(error) == "src"
        return "" if fine and str(error) and "\n" not in str(error) else repr(error)
    found = unknowns(out)
    words = [f"{n} {what}" for n, m, what in zip(found, most, WORDS, strict=True) if n > m]
    return ", ".join(words)


def complaints(call, most):
    """All that is wrong with the answers to any arguments."""
    function, given, varied = call
    rng = np.random.default_rng(len(given))
    return {
        f"{key}, {label}": words
        for key, value in varied.items()
        for label, other in drawn(key, value, rng)
        if (
            words := complaint(
                function, {**given, key: other}, most if label in LEGAL else (most[0], np.inf)
            )
        )
    }


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of numpy, on the way to the ends of floats
@pytest.mark.parametrize("name", THEORY)
def test_any_arguments_are_answered_or_refused_in_one_sentence(name):
    function, given, _ = THEORY[name]
    usual = ANY if name in OPEN else unknowns(function(**given))
    assert complaints(THEORY[name], usual) == {}


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("name", TRAINED)
def test_any_arguments_of_training_are_taken_or_refused_in_one_sentence(name, monkeypatch):
    def begin(*args, **options):
        raise Began

    monkeypatch.setattr(descent, "descend", begin)
    assert complaints(TRAINED[name], (0, 0)) == {}


# Small commands, to which one more option is added.
COMMANDS = {
    "solve msfr": "--num-tasks 3 --points 3 --order zeroth",
    "solve shallow_icl": "--dim 3 --context 8 --steps 4",
    "solve single_location": "--dim 20 --length 4 --points 3",
    "solve deep_icl": "--nu 1.25 --beta 0.7 --dim 12 --points 3 --depth 2",
    "train msfr": "--num-tasks 3 --context 6 --steps 4",
    "train shallow_icl": "--dim 3 --context 8 --steps 4",
    "train single_location": "--dim 20 --length 4 --runs 2 --steps 4",
    "train deep_icl": "--nu 1.25 --beta 0.7 --dim 12 --steps 4 --depth 2",
    "fit": "{table} --law power --x x --y y",
    "plan": "--law {law} --cost x**2 --budget 100",
}
LONG = "1" + 20 * "0"
VALUES = ("nan", "inf", "-inf", "-1", "0", "1e300", "-1e300", "1e-300", "two", "", "None", LONG)
VALUES += ("2.5", "1 2", "[]", "0x10", "a=b", "E=nan", "..", "1:0")
FILES = ("--json", "--csv", "--plot", "--zarr", "--compile-cache", "--no-compile-cache")
OTHERS = ("--with", "--save", "--resume")  # another witness, or a run that was saved
TRIED = 5  # of the values, for each option


def options_of(command):
    """The options of a command, but for those that say where its result goes."""
    name, *lab = command.split()
    kind = COMMANDS_BY_NAME[name](lab)
    for option in sorted(set(rejection._options(kind.labs[lab[0]] if lab else kind))):
        if option not in (*FILES, *OTHERS):
            yield option


def lines(command):
    """Command lines with one odd option each."""
    rng = np.random.default_rng(len(command))
    for option in options_of(command):
        for value in rng.choice(VALUES, TRIED, replace=False):
            if (option, value) not in (("--steps", LONG), ("--draws", LONG)):
                yield [option, *str(value).split(" ")]


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("command", COMMANDS)
def test_any_options_give_a_curve_or_one_sentence(command, solvable, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("x,y\n" + "\n".join(f"{x},{y}" for x, y in zip(X, Y, strict=True)))
    law = tmp_path / "fit.json"
    law.write_text(solvable("fit", *COMMANDS["fit"].format(table=path).split(), "--json").out)
    words = command.split() + COMMANDS[command].format(table=path, law=law).split()
    for line in lines(command):
        done = solvable(*words, *line, "--json")
        if done.status == 2:
            assert (done.out, done.err.count("\n")) == ("", 1), line
            assert done.err.startswith("solvable: "), line
            continue
        told = json.loads(done.out, parse_constant=pytest.fail)
        losses = [x for name in told if name.startswith("loss_") for x in told[name]]
        losses += list(np.ravel(told["loss"])) if isinstance(told.get("loss"), list) else []
        assert done.status == (None in losses), line  # 1 where training diverged
        assert (told.get("status") == "diverged") == (done.status == 1), line


def test_there_are_a_thousand_draws():
    rng = np.random.default_rng(0)
    varied = [pair for call in (*THEORY.values(), *TRAINED.values()) for pair in call[2].items()]
    assert sum(len(list(drawn(*pair, rng))) for pair in varied) > 1000
    assert sum(len(list(lines(command))) for command in COMMANDS) > 700
