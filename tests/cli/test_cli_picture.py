import math

import matplotlib
import pytest

from solvable.cli.picture import draw
from solvable.style import COLOURS, figure_style

OPENINGS = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}
CURVE = ([0.0, 0.1, 1.0, 10.0], {"": [2.0, 1.0, 0.5, 0.0]})


@pytest.mark.parametrize("kind", OPENINGS)
def test_a_picture_is_of_the_kind_its_name_says(solvable, tmp_path, kind):
    path = tmp_path / f"curve.{kind.upper()}"
    done = solvable("solve", "msfr", "--order", "zeroth", "--plot", path)
    assert (done.status, done.err) == (0, f"solvable: wrote {path}\n")
    assert path.read_bytes().startswith(OPENINGS[kind])


@pytest.mark.parametrize("kind", OPENINGS)
def test_the_same_curve_gives_the_same_picture(kind):
    assert draw(*CURVE, kind) == draw(*CURVE, kind)


def test_points_without_a_logarithm_are_left_out():
    time, loss = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [3.0, 2.0, 0.0, math.inf, math.nan, 1.0]
    assert draw(time, {"": loss}, "svg") == draw([1.0, 5.0], {"": [2.0, 1.0]}, "svg")


def test_a_curve_without_a_logarithm_gives_empty_axes():
    assert draw([0.0, 1.0], {"": [1.0, 0.0]}, "svg").startswith(OPENINGS["svg"])


def test_several_curves_have_a_legend():
    one, two = ({name: [2.0, 1.0] for name in names} for names in (["a"], ["a", "b"]))
    assert len(draw([1.0, 2.0], two, "svg")) > len(draw([1.0, 2.0], one, "svg"))


def test_the_style_ends_with_its_block():
    before = dict(matplotlib.rcParams)
    with figure_style():
        assert matplotlib.rcParams["axes.prop_cycle"].by_key()["color"] == list(COLOURS)
    assert dict(matplotlib.rcParams) == before
