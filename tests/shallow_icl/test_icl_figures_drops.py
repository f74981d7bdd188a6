"""The count of drops: synthetic curves whose number of drops is known, and training itself."""

import numpy as np
import pytest

import solvable.shallow_icl as icl
from solvable.shallow_icl.figures._drops import count_drops

TIMES = np.arange(0.0, 4001.0, 2.0)


def falls(*where: float, height: float = 0.25, sharpness: float = 12.0) -> np.ndarray:
    """A loss that falls by `height` at every one of some times."""
    return 0.1 + sum(height / (1.0 + (TIMES / at) ** sharpness) for at in where)


@pytest.mark.parametrize(
    "where", [(), (100.0,), (30.0, 700.0), (30.0, 300.0, 2000.0), (20.0, 80.0, 320.0, 1280.0)]
)
def test_as_many_drops_are_counted_as_were_made(where):
    assert count_drops(TIMES, falls(*where) + np.zeros_like(TIMES)) == len(where)


def test_two_drops_without_a_plateau_are_one():
    assert count_drops(TIMES, falls(500.0, 520.0)) == 1


def test_a_drop_of_any_height_counts_by_its_slope_in_units_of_the_first_loss():
    # A fall by h and of sharpness p is steepest with the slope p h/4.
    for scale in (1.0, 1e-6, 1e6):
        high, low = (scale * (falls(100.0, height=h) + 0.9 - h) for h in (0.02, 0.01))
        assert count_drops(TIMES, high) == 1
        assert count_drops(TIMES, low) == 0
        assert count_drops(TIMES, low, least=0.02) == 1


def test_a_drop_that_is_not_over_does_not_count():
    assert count_drops(TIMES, falls(100.0, 4200.0)) == 1
    assert count_drops(TIMES, falls(100.0, 3000.0)) == 2


def test_a_loss_that_shakes_drops_no_more_often():
    shaken = falls(100.0, 1000.0) * (1.0 + 1e-4 * np.cos(np.pi * TIMES / 2.0))
    assert not np.all(np.diff(shaken) <= 0.0)
    assert count_drops(TIMES, shaken) == 2


def test_the_sampling_does_not_matter():
    loss = falls(100.0, 1000.0)
    for every in (1, 5, 20):
        assert count_drops(TIMES[::every], loss[::every]) == 2
    grid = np.geomspace(1.0, 4000.0, 60)
    assert count_drops(grid, np.interp(grid, TIMES, loss)) == 2


def test_the_unit_of_time_does_not_matter():
    loss = falls(50.0, 1000.0)
    assert count_drops(1e-3 * TIMES, loss) == count_drops(1e6 * TIMES, loss) == 2


def test_curves_side_by_side_are_counted_one_by_one():
    curves = np.stack([[falls(50.0)], [falls(50.0, 1000.0)]])
    assert count_drops(TIMES, curves).tolist() == [[1], [2]]


def test_merged_attention_drops_once_and_separate_attention_once_for_every_direction():
    task = icl.Task(dim=4, context=31)
    how = {"units": "code", "seed": range(3)}
    run = icl.train(task, icl.merged(8, 1e-4), lr=1e-3, steps=4000, **how)
    assert count_drops(run.step, run.loss).tolist() == [1, 1, 1]
    run = icl.train(task, icl.separate(5, 1, 1e-2), lr=0.02, steps=40_000, log_every=20, **how)
    assert count_drops(run.step, run.loss).tolist() == [4, 4, 4]


@pytest.mark.parametrize(
    ("time", "loss", "words"),
    [
        ([1.0, 2.0], [1.0, 0.5, 0.2], "as long as"),
        ([0.0, 2.0], [1.0, 0.5], "2 points or more"),
        ([1.0, 1.0], [1.0, 0.5], "must increase"),
        ([-1.0, 1.0, 2.0], [1.0, 0.5, 0.2], "must increase"),
    ],
)
def test_bad_curves_are_refused(time, loss, words):
    with pytest.raises(ValueError, match=words):
        count_drops(time, loss)
