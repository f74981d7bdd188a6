import math

import matplotlib
import pytest

import solvable as solvable_package
from solvable.cli.picture import saved
from solvable.drawing import answers
from solvable.style import COLOURS, figure_style

OPENINGS = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}


@pytest.mark.parametrize("kind", OPENINGS)
def test_a_picture_is_of_the_kind_its_name_says(solvable, tmp_path, kind):
    path = tmp_path / f"curve.{kind.upper()}"
    done = solvable("solve", "msfr", "--order", "zeroth", "--plot", path)
    assert (done.status, done.err) == (0, f"solvable: wrote {path}\n")
    assert path.read_bytes().startswith(OPENINGS[kind])


@pytest.mark.parametrize("kind", OPENINGS)
def test_the_same_answer_gives_the_same_picture(kind):
    one, two = (saved(kind, lambda: pictured(at=[1.0, 10.0], depth=2, dim=8)) for _ in range(2))
    assert one == two


def test_points_without_a_logarithm_are_left_out():
    data = solvable_package.lab("msfr").ask(num_tasks=3, at=[0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    data = data.assign(loss=("time", [3.0, 0.0, math.inf, math.nan, 1.0, 0.5]))
    (axes,) = answers(solvable_package.lab("msfr"), [data]).axes
    assert axes.lines[0].get_xdata().tolist() == [4.0, 5.0]
    assert axes.lines[0].get_marker() == "o"  # few points are marked


def pictured(**asked):
    lab = solvable_package.lab("deep_icl")
    with figure_style():
        return answers(lab, [lab.ask(nu=1.5, beta=0.8, **asked)])


def test_a_curve_goes_from_left_to_right_whatever_the_order_of_its_places():
    (axes,) = pictured(at=[100.0, 1.0, 10.0], depth=2, dim=8).axes
    assert axes.lines[0].get_xdata().tolist() == [1.0, 10.0, 100.0]


def test_whole_numbers_within_a_decade_have_an_even_axis():
    (axes,) = pictured(over="depth", at=[2, 3, 4], dim=8).axes
    assert axes.get_xscale() == "linear"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["optimum", "depth alone"]
    (axes,) = pictured(over="width", dim=64, depth=1).axes
    assert axes.get_xscale() == "log"


def test_two_fields_are_told_apart_by_colour_and_dash_beside_the_panel():
    figure = pictured(over="context", at=[4, 8], width=(4, 8), depth=(1, 2, 4), dim=8)
    (axes,) = figure.axes
    looks = {(line.get_color(), line.get_linestyle()) for line in axes.lines}
    assert len(axes.lines) == len(looks) == 6
    assert len({colour for colour, _ in looks}) == 2
    figure.canvas.draw()
    assert axes.get_legend().get_window_extent().x0 >= axes.get_window_extent().x1
    title = figure.get_suptitle().replace("\xa0", " ")
    assert all("=" in part for line in title.split("\n") for part in line.strip(", ").split(", "))


def test_levels_are_lines_and_axes_follow_the_spacing_of_times():
    lab = solvable_package.lab("shallow_icl")
    given = {"witness": "reduced", "dim": 2, "context": 5, "steps": 400}
    for more, scale in (({}, "linear"), ({"log_points": 20}, "log")):
        data = lab.ask(**given, **more)
        (axes,) = answers(lab, [data]).axes
        assert (axes.get_xscale(), axes.get_yscale()) == (scale, scale)
        levels = [line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == ":"]
        assert sorted(levels) == sorted(data.plateau.values.tolist())
        assert axes.get_xlabel() == "t/τ"
        names = [text.get_text() for text in axes.get_legend().get_texts()]
        assert names == ["reduced", "plateau"]  # the levels are one entry


def test_a_theory_alone_is_a_whole_line_and_dashed_where_it_lies_on_training():
    lab = solvable_package.lab("shallow_icl")
    asked = {"dim": 2, "context": 5, "steps": 400, "model": "merged"}
    both = [lab.ask(witness=name, **asked) for name in ("theory", "reduced")]
    for found, looks in ((both[:1], ["-"]), (both, ["--", "-"])):
        (axes,) = answers(lab, found).axes
        assert [line.get_linestyle() for line in axes.lines] == looks


def test_the_style_ends_with_its_block():
    before = dict(matplotlib.rcParams)
    with figure_style():
        assert matplotlib.rcParams["axes.prop_cycle"].by_key()["color"] == list(COLOURS)
    assert dict(matplotlib.rcParams) == before
