"""A lab of an installed package: tiny figures, found through their entry point."""

import os
import subprocess
import sys
import textwrap

import pytest

SOURCE = '''
import os, pathlib, time

import matplotlib.figure
import numpy as np
import xarray as xr

from solvable.papers import Paper
from solvable import Lab
from solvable.reproduce import Figure, Quote, at_least, corrected, near, settings_of

DIARY = pathlib.Path(os.environ.get("TOY_DIARY", os.devnull))
PAUSE = float(os.environ.get("TOY_PAUSE", "0"))


def note(word):
    with DIARY.open("a") as diary:
        diary.write(f"{word} {os.getpid()}\\n")


def part(name, value):
    note(name)
    time.sleep(PAUSE)
    return xr.Dataset({name: ("x", value + np.arange(3.0))}, coords={"x": [1, 2, 3]})


def make(name, expected=1.0, act=lambda: None, missing=lambda: ""):
    fig = Figure(
        f"toy/{name}", f"A toy, {name}",
        settings={"quick": {"parts": 2}, "default": {"parts": 3}, "full": {"parts": 4}},
        seed=7, missing=missing,
    )

    def declare(place, word):
        def found(settings):
            act()
            return part(word, 1.0) if place < settings.parts else xr.Dataset()

        found.__name__ = word
        fig.data(found)

    for place, word in enumerate(("first", "second", "third", "fourth")):
        declare(place, word)

    @fig.claim("paper", "Sec. 1")
    def value(d):
        """The first value is 1 & <2>."""
        return near(d.first[0], expected, 1e-9)

    @fig.draw
    def draw(data):
        figure = matplotlib.figure.Figure()
        figure.add_subplot().plot(data.x, data.first)
        return figure

    return fig


def breaks():
    raise ArithmeticError("nothing adds up")


def dies():
    os._exit(9)


new = Figure(
    "toy/new", "A toy declared in parts",
    settings={"quick": {"count": 3}, "default": {"count": 4}, "full": {"count": 5}},
    constants={"slope": 2.0, "powers": (1, 2), "name": "toy", "offset": 0}, seed=7,
)


@new.data
def values(settings):
    note("values")
    time.sleep(PAUSE)
    x = np.arange(1.0, 1.0 + settings.count)
    return xr.Dataset({"y": ("x", settings.slope * x + settings.offset)}, coords={"x": x})


@new.data
def theory(settings, values):
    note("theory")
    time.sleep(PAUSE)
    return xr.Dataset({"told": settings.slope * values.x})


@new.claim("paper", "Fig. 1")
def slope(d):
    """It rises with the slope {slope:g} (the last value)."""
    return near(d.y[-1], d.told[-1], 1e-9, because="round-off")


@new.claim("new", "ours", over="powers")
def power(d, x):
    """The count to the power {x} is at least one."""
    return at_least(float(d.sizes["x"]) ** x, 1.0)


@new.claim("paper", "(1)", quote=Quote("y = x", "(1)", "slip"))
def printed(d):
    """It is twice x (ratio)."""
    return corrected(near(float(d.y[0] / d.x[0]), settings_of(d).slope, 0.1), 1.0)


@new.claim("reported", "elsewhere", known={"quick": "fails"})
def many(d):
    """There are four values or more."""
    return at_least(d.sizes["x"], 4)


@new.draw
def picture(d):
    figure = matplotlib.figure.Figure()
    figure.add_subplot().plot(d.x, d.y)
    return figure


PAPER = Paper("toy", "toy2026", "Toys", ("A. Toymaker",), "Toy Conference", 2026)
GOOD = (make("one"), make("two"), make("three"))
BAD = (make("false", expected=2.0), make("broken", act=breaks), make("dead", act=dies))
EXTRA = (make("extra", missing=lambda: os.environ.get("TOY_MISSING", "")),)
LAB = Lab(PAPER, figures=GOOD + BAD + (new,))
TIDY = Lab(PAPER, figures=GOOD[:1] + EXTRA)
'''


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """Installs the toy lab for this process and its children; returns the folder it is in."""
    site = tmp_path / "site"
    info = site / "toy_lab-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "toy_lab.py").write_text(textwrap.dedent(SOURCE))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-lab\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[solvable.labs]\ntoy = toy_lab:LAB\n")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setenv("TOY_DIARY", str(tmp_path / "diary"))
    yield site
    sys.modules.pop("toy_lab", None)


@pytest.fixture
def diary(tmp_path, toy):
    """The parts that were computed, in order, with the process that did."""

    def read():
        path = tmp_path / "diary"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    return read


def start(*arguments, **environment):
    """The command line in a process of its own, which can be interrupted."""
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from solvable.cli import main; sys.exit(main())"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def solvable(toy):
    """Starts the command line."""
    return start
