"""The published figures' starts: their random numbers drawn anew, and where runs from them end."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from solvable import reproduce
from solvable import single_location as sl
from solvable.single_location.state import NAMES, scalars

FIGURES = ("4a", "4b", "5", "7a", "7b")


def five(state):
    return np.stack([np.asarray(getattr(state, name)) for name in NAMES], axis=-1)


def unit(x, *away):
    """A unit vector across unit vectors that are orthogonal to one another."""
    for other in away:
        x = x - (x @ other) * other
    return x / np.linalg.norm(x)


def drawn(figure):
    """The starts as the authors' code draws them: an older kind of key, single precision."""
    dim = sl.published(figure).task.dim
    found = []
    with jax.threefry_partitionable(False):
        for key in jax.random.split(jax.random.key(0), 30):
            if figure == "5":  # whose key is split for the batches first
                key = jax.random.split(key, 200_002)[0]
            first, of_k, of_v = jax.random.split(key, 3)
            keys = (*jax.random.split(first), of_k, of_v)
            normals = [jax.random.normal(each, (dim,), jnp.float32) for each in keys]
            star_k, star_v, k, v = (np.asarray(x, np.float64) for x in normals)
            star_k = unit(star_k)
            star_v = unit(star_v, star_k)
            if figure == "4b":
                k = unit(k, star_v)
                v = unit(v, star_k, unit(k, star_k))
            k, v = unit(k), unit(v)
            found.append([k @ star_k, v @ star_v, v @ star_k, k @ star_v, k @ v])
    return np.array(found)


@pytest.mark.parametrize("figure", ["4b", "7b", pytest.param("5", marks=pytest.mark.slow)])
def test_the_starts_are_those_of_the_published_random_numbers(figure):
    """Of single precision they keep what a unit in the last place moves a scalar by."""
    assert five(sl.published(figure).start) == pytest.approx(drawn(figure), abs=1e-7)


def test_three_figures_have_the_same_starts_and_the_settings_are_the_published_ones():
    found = {name: sl.published(name) for name in FIGURES}
    assert len({five(found[name].start).tobytes() for name in ("4a", "7a", "7b")}) == 1
    told = {n: (x.task.dim, x.lam, x.lam_decay, x.lr, x.steps) for n, x in found.items()}
    assert told == {
        "4a": (400, 1.0, 1e-4, 4e-3, 120_000),
        "4b": (400, 0.1, 0.0, 4e-3, 20_000),
        "5": (80, 2.0, 1e-4, 1e-3, 200_000),
        "7a": (400, 0.9, 0.0, 1e-3, 120_000),
        "7b": (400, 0.1, 0.0, 4e-3, 20_000),
    }
    assert [x.start.runs for x in found.values()] == [(30,)] * 5
    assert [x.task.length for x in found.values()] == [10] * 5
    assert (found["5"].batch, found["5"].task.noise, found["4a"].batch) == (5, 0.1, None)
    assert np.count_nonzero(five(found["4b"].start)[:, 2:]) == 0  # on the manifold exactly
    assert repr(found["7b"]).startswith("Published('7b', task=")


def test_a_figure_that_is_none_is_named():
    with pytest.raises(ValueError, match="figure must be one of"):
        sl.published("6")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("figure", "counts"),
    [("7b", {"oracle": 16, "swapped": 14}), ("4b", {"oracle": 30, "swapped": 0})],
)
def test_runs_end_where_the_published_ones_do_with_their_signs(figure, counts):
    """Witnesses are descent of vectors in R^d, for as long as it needs to an end, and what the
    start alone tells."""
    setting = sl.published(figure)
    run = sl.train(setting.task, setting.start, **setting.how, log_every=setting.steps)
    assert run.outcome.counts == counts | {"undecided": 0}
    short = setting.how | {"steps": 5000, "log_every": 5000}
    space = sl.train_brute(setting.task, setting.start, **short)
    assert np.array_equal(space.outcome.labels, run.outcome.labels)
    told = sl.outcome(setting.task, setting.start, setting.lam)
    assert np.array_equal(told.labels, run.outcome.labels)
    if figure == "4b":
        assert (np.asarray(run.kappa * run.nu)[:, -1] > 0.97).all()
        edge = sl.basin_boundary(setting.task, setting.start.kappa, setting.lam)
        above = np.asarray(setting.start.nu) > np.asarray(edge)
        assert np.array_equal(above, run.outcome.sign > 0)


@pytest.mark.slow
def test_the_schedule_of_figure_4a_brings_all_to_the_oracle():
    setting = sl.published("4a")
    run = sl.train(setting.task, setting.start, **setting.how, log_every=setting.steps)
    assert run.outcome.counts == {"oracle": 30, "swapped": 0, "undecided": 0}
    assert np.abs(run.kappa[:, -1]).min() > 0.999
    assert run.outcome.labels[[0, 2]].tolist() == ["+oracle", "−oracle"]


def test_scalars_of_vectors_are_those_that_are_stored():
    """The order of the columns, by vectors of R^d made from them."""
    setting = sl.published("7b")
    k, v = sl.state.vectors(setting.task, setting.start)
    assert five(scalars(k, v)) == pytest.approx(five(setting.start), abs=1e-14)


def test_a_figure_starts_from_a_place_that_there_is():
    (figure,) = reproduce.figures(["single_location/fig7b"])
    with pytest.raises(ValueError, match="start must be one of published, sphere, manifold, not"):
        figure.compute("quick", {"start": "box"})
