"""Panels as declared: what ends up on the axes."""

import numpy as np

from solvable.reproduce.panels import (
    Panel,
    band,
    drawn,
    each,
    entry,
    law,
    level,
    line,
    theory,
    tokens,
    training,
    upright,
)
from solvable.style import colour, figure_style

X = np.geomspace(1.0, 100.0, 5)
RUNS = np.stack([X, 2 * X, 3 * X])


def axes_of(*marks, **how):
    with figure_style():
        return drawn(Panel("$x$", "$y$", marks, **how)).axes[0]


def test_every_mark_has_its_look_colour_and_label():
    axes = axes_of(
        line(X, X, "a"), theory(X, X, "b", 1), training(X, X, "c", 2), tokens(X, X, "d"),
        law(X, X, "e"), level(), upright(2.0), entry("f", color="red"),
    )  # fmt: skip
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["a", "b", "c", "d", "e", "f"]
    looks = [one.get_linestyle() for one in axes.lines[:5]]
    assert looks == ["-", "--", "-", "None", ":"]
    assert axes.lines[1].get_color() == colour(1)
    assert axes.lines[4].get_color() == "0.35"


def test_a_band_is_the_mean_and_most_of_the_runs():
    axes = axes_of(band(X, RUNS, "runs", within=100.0), each(X, RUNS, "one"))
    np.testing.assert_allclose(axes.lines[0].get_ydata(), 2 * X)
    (patch,) = axes.collections
    edges = patch.get_paths()[0].vertices
    assert (edges[:, 1].min(), edges[:, 1].max()) == (1.0, 300.0)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["runs", "one"]
    assert len(axes.lines) == 4


def test_axes_are_as_asked():
    axes = axes_of(line(X, X), log="xy", title="t", xlim=(0.5, 200.0), ylim=(0.1, None), legend=0)
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_title()) == ("log", "log", "t")
    assert axes.get_xlim() == (0.5, 200.0)
    assert axes.get_ylim()[0] == 0.1
    assert axes.get_ylim()[1] > 100.0  # the data's, with its margin in the logarithm
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("$x$", "$y$")
    assert axes.get_legend() is None


def test_a_range_may_be_all_that_a_logarithm_has():
    axes = axes_of(line(X, 0 * X), log="y", ylim=(1e-8, 2.0), legend=0)
    assert axes.get_ylim() == (1e-8, 2.0)


def test_a_legend_is_shared_and_spare_places_are_empty():
    with figure_style():
        panel = Panel("x", "y", [line(X, X, "same")], legend=0)
        figure = drawn(panel, panel, panel, rows=2, shared="outside lower center")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["same"]
    assert [axes.get_visible() for axes in figure.axes] == [True, True, True, False]
    assert figure.axes[2].get_title(loc="left") == "(c)"
