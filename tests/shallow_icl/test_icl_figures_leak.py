"""Statistics with less of what is odd in w, against data sets that have less of it."""

import numpy as np
import pytest

import solvable.shallow_icl as icl
from solvable.shallow_icl.figures.leak import scaled

TASK = icl.Task(dim=3, context=5)


def joined(data: icl.Sequences, copies: int, negatives: int) -> icl.Sequences:
    """So many copies of a data set, and of the one with w → −w."""
    signs = [1.0] * copies + [-1.0] * negatives
    y, target = (np.concatenate([s * a for s in signs]) for a in (data.y, data.target))
    return icl.Sequences(TASK, np.concatenate([data.x] * len(signs)), y, target)


@pytest.mark.parametrize(("copies", "negatives"), [(1, 0), (3, 1), (1, 1), (0, 1)])
def test_scaled_moments_are_those_of_a_data_set_with_its_negatives(copies, negatives):
    data = icl.sample(TASK, 300, seed=1)
    found = scaled(icl.statistics(data), (copies - negatives) / (copies + negatives))
    mixed = icl.statistics(joined(data, copies, negatives))
    for name in ("gram", "cross", "best", "floor"):
        np.testing.assert_allclose(getattr(found, name), getattr(mixed, name), rtol=0, atol=1e-11)
    assert np.abs(found.rest).max() < 1e-14
