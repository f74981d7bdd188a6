"""`solvable fit` and `solvable plan` with the law of another package's lab, and without any."""

import json
import subprocess
import sys
import textwrap
from inspect import signature
from pkgutil import resolve_name

import numpy as np
import pytest

from solvable import labs
from solvable.cli import laws

DESCRIPTION = """
from solvable.asking import Lab, LabLaw
from solvable.papers import Paper

LAB = Lab(
    paper=Paper("cooling", "someone2026", "Cooling", ("Some One",), "A journal", 2026),
    law=LabLaw(
        make="cooling_law:make",
        resources=("t", "W"),
        cost="t*W",
        exponents={"rate": 1.0},
        settings={"dim": 0.5, "layers": 2},
        words={"rate": "exponent of time", "dim": "exponent of width"},
        limits={"rate": (0.01, 5.0)},
        height="cooling_law:height",
    ),
)
"""
LAW = """
from math import inf

from solvable.scaling import Formula

NAME = "cooling"


def make(resources=("t",), *, dim=0.5, layers=2):
    def curve(p, x):
        parts = {"t": lambda t: t ** -p["rate"], "W": lambda w: layers * w**-dim}
        return p["E"] + p["A"] * sum(parts[n](x[n] / p[f"unit_{n}"]) for n in resources)

    units = {f"unit_{n}": (0.0, inf) for n in resources}
    return Formula(
        name=NAME,
        resources=resources,
        function=curve,
        bounds={"E": (0.0, inf), "A": (0.0, inf), "rate": (0.01, 5.0), **units},
        begin={"rate": (0.5, 2.0), **{n: (1.0,) for n in units}},
        linear=("E", "A"),
        exponents=("rate",),
        logarithmic=("A", *units),
        units={n: f"unit_{n}" for n in resources},
        settings={"dim": dim, "layers": layers},
    )


def height(exponents, settings):
    return 3.0 * settings["layers"]
"""
CLASHING = """
from dataclasses import replace

from cooling_lab import LAB as COOLING

paper = replace(COOLING.paper, lab="clashing")
LAB = replace(COOLING, paper=paper, law=replace(COOLING.law, settings={"points": 3}))
"""
POINTS = """
[solvable.labs]
cooling = cooling_lab:LAB
clashing = clashing_lab:LAB
broken_lab = no_such_module:LAB
"""


@pytest.fixture
def cooling(tmp_path, monkeypatch):
    """Installs a package with labs, for this process and its children; returns its folder."""
    site = tmp_path / "site"
    info = site / "cooling_lab-1.0.dist-info"
    info.mkdir(parents=True)
    sources = {"cooling_lab": DESCRIPTION, "cooling_law": LAW, "clashing_lab": CLASHING}
    for name, text in sources.items():
        (site / f"{name}.py").write_text(text)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cooling-lab\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site))
    yield site
    for name in sources:
        sys.modules.pop(name, None)


@pytest.fixture
def runs(tmp_path):
    """A table of E + A (t^-rate + 3 W^-½) with E = 1, A = 2 and rate = 0.8."""
    t, width = (x.ravel() for x in np.meshgrid(np.geomspace(1.0, 1e3, 6), [2.0, 9.0, 50.0, 400.0]))
    loss = 1.0 + 2.0 * (t**-0.8 + 3.0 * width**-0.5)
    path = tmp_path / "runs.csv"
    rows = zip(t.tolist(), width.tolist(), loss.tolist(), strict=True)
    path.write_text("\n".join(["t,width,loss", *(",".join(map(repr, row)) for row in rows)]))
    return path


def words(run, *more):
    pins = ("--pin", "unit_t=1", "--pin", "unit_W=1")
    columns = ("--x", "W=width", "--x", "t", "--y", "loss", *pins)
    return ("fit", run, "--law", "cooling", *columns, "--no-compile-cache", *more)


def test_a_fit_of_another_packages_law_is_stored_and_planned_with(
    solvable, cooling, runs, tmp_path
):
    done = solvable(*words(runs, "--set", "layers=3", "--json"))
    assert (done.status, done.err) == (0, "")
    told = json.loads(done.out)
    assert (told["law"], told["resources"]) == ("cooling", ["t", "W"])
    assert told["settings"] == {"dim": 0.5, "layers": 3}
    found = {name: one["value"] for name, one in told["parameters"].items()}
    assert found == pytest.approx({"E": 1.0, "A": 2.0, "rate": 0.8, "unit_t": 1.0, "unit_W": 1.0})

    stored = tmp_path / "fit.json"
    stored.write_text(done.out)
    budget = ("--budget", 1e4, "--cost", "t*W", "--no-compile-cache", "--json")
    planned = solvable("plan", "--law", stored, *budget)
    assert (planned.status, planned.err) == (0, "")
    (entry,) = json.loads(planned.out)["budgets"]
    place = {name: one["value"] for name, one in entry["allocation"].items()}
    # Where ∂/∂ln t of t^-0.8 and ∂/∂ln W of 3 W^-½ are the same along tW = C.
    assert place["t"] * place["W"] == pytest.approx(1e4)
    assert 0.8 * place["t"] ** -0.8 == pytest.approx(1.5 * place["W"] ** -0.5)


def test_a_fit_tells_what_the_parameters_of_another_packages_law_are(solvable, cooling, runs):
    done = solvable(*words(runs, "--set", "layers=3"))
    assert done.status == 0
    assert "exponent of time" in done.out
    assert "this much W is 1 of the model's" in done.out


def test_a_plan_has_the_options_and_the_height_of_another_packages_law(solvable, cooling):
    options = ("--rate", 0.8, "--dim", 0.25, "--layers", 1, "--no-compile-cache", "--json")
    done = solvable("plan", "--model", "cooling", "--budget", 1e4, *options)
    assert (done.status, done.err) == (0, "")
    told = json.loads(done.out)
    assert (told["rate"], told["dim"], told["layers"]) == (0.8, 0.25, 1)
    (entry,) = told["budgets"]
    t, width = (entry["allocation"][name]["value"] for name in ("t", "W"))
    assert 0.8 * t**-0.8 == pytest.approx(0.25 * width**-0.25)
    assert entry["loss"]["value"] == pytest.approx(3.0 * (t**-0.8 + width**-0.25))


def test_less_than_one_of_a_resource_is_none(solvable, cooling):
    options = ("--rate", 0.1, "--dim", 3.0, "--no-compile-cache", "--json")
    done = solvable("plan", "--model", "cooling", "--budget", 1.5, *options)
    (entry,) = json.loads(done.out)["budgets"]
    assert entry["allocation"]["W"]["value"] >= 1.0


def test_the_law_that_is_named_is_in_the_help(solvable, cooling):
    told = plain(solvable("plan", "--model=cooling", "--help").out)
    assert "--model {msfr,deep_icl,cooling}" in told
    assert "for deep_icl: t*N**2*L, for cooling: t*W)" in told
    assert "--rate FLOAT cooling: exponent of time, in [0.01, 5] (default: 1)" in told
    dims = "deep_icl: dimension D (default: 10000); cooling: exponent of width (default: 0.5)"
    assert f"--dim FLOAT {dims}" in told
    assert "--layers INT cooling: layers (default: 2)" in told
    told = plain(solvable("fit", "--law", "cooling", "--help").out)
    assert "broken,msfr,deep_icl,cooling}" in told
    assert "or of t, L, N, P (deep_icl) or of t, W (cooling)" in told
    assert "deep_icl has dim, cooling has dim and layers" in told


def test_help_without_a_name_looks_at_no_other_package(solvable, cooling, monkeypatch):
    monkeypatch.setattr(labs, "_points", lambda: pytest.fail("looked"))
    for command in ("plan", "fit"):
        for more in ((), ("--model", "msfr"), ("--law", "deep_icl"), ("--law", "power")):
            done = solvable(command, *more, "--help")
            assert "cooling" not in done.out


LISTED = "msfr, deep_icl, clashing, cooling"
SENTENCES = [
    ("fit FILE --law warming --x t --y loss", f"broken, {LISTED}, not 'warming'"),
    ("fit FILE --law cooling --x Q=t --y loss", "x must have a name for cooling, one of t, W"),
    (
        "fit FILE --law cooling --x t --y loss --set v=1",
        "set must be one of dim, layers for cooling, not v",
    ),
    ("fit FILE --law broken_lab --x t --y loss", "the lab 'broken_lab' of no_such_module:LAB"),
    ("plan --budget 9 --model warming", f"--model must be one of {LISTED}, not 'warming'"),
    ("plan --budget 9 --model single_location", "must be one of msfr, deep_icl, not 'single_loc"),
    ("plan --budget 9 --model cooling --alpha 2", "alpha is for --model msfr, not cooling"),
    ("plan --budget 9 --model cooling --beta 2", "beta is for --model msfr or deep_icl, not"),
    ("plan --budget 9 --model cooling --rate 9", "rate must lie in [0.01, 5], not 9"),
    ("plan --budget 9 --model cooling --layers 1.5", "--layers must be a whole number, not"),
    ("plan --budget 9 --model clashing", "the law of clashing cannot have points: plan has"),
    ("plan --budget 9 --cost t --law STORED", f"law must be one of power, .*{LISTED}, not 'gone'"),
]


@pytest.mark.parametrize(("line", "sentence"), SENTENCES)
def test_bad_input_gets_one_sentence(solvable, cooling, runs, tmp_path, line, sentence):
    stored = tmp_path / "stored.json"
    stored.write_text(json.dumps({"law": "gone", "resources": ["t"], "settings": {}}))
    files = {"FILE": runs, "STORED": stored}
    done = solvable(*(files.get(word, word) for word in line.split()))
    assert (done.status, done.out) == (2, "")
    head, _, tail = sentence.partition(".*")
    assert head in done.err
    assert tail in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('NAME = "cooling"', 'NAME = "other"', "cooling must be named so and keep its settings"),
        ('"layers": layers', "", "cooling must be named so and keep its settings"),
        ("def make", "def made", "'cooling_law:make' of the lab 'cooling' cannot be loaded"),
    ],
)
def test_a_law_that_could_not_be_stored_or_found_is_refused(
    solvable, cooling, runs, old, new, sentence
):
    (cooling / "cooling_law.py").write_text(LAW.replace(old, new))
    done = solvable(*words(runs, "--set", "layers=3"))
    assert (done.status, done.out) == (2, "")
    assert sentence in done.err


def test_help_with_another_packages_law_imports_nothing_heavy(cooling):
    code = """
    import sys
    from solvable.cli import main
    for words in (["plan", "--model", "cooling"], ["fit", "--law", "cooling"]):
        assert main([*words, "--help"]) == 0
    heavy = ("jax", "numpy", "scipy", "cooling_law", "solvable.msfr", "solvable.scaling")
    print("heavy:", [name for name in heavy if name in sys.modules])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("heavy: []\n")
    assert done.stderr == ""


@pytest.mark.parametrize("name", laws.ours())
def test_the_description_of_our_laws_is_what_they_are(name):
    told = laws.ours()[name]
    takes = list(signature(resolve_name(told.make)).parameters)[1:]
    assert [*told.settings, *told.further] == takes
    law = laws.law_of(name, told.resources[:1], {})
    for exponent in told.exponents:
        assert law.bounds[exponent] == told.limits.get(exponent, law.bounds[exponent])
    assert set(told.words) == set(told.planned)


def plain(text):
    return " ".join(text.replace("│", " ").split())
