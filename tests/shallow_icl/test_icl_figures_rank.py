"""How long losses rest at each level, and what that says of the rank: staircases made by hand."""

import numpy as np
import pytest
import xarray as xr

from solvable.shallow_icl.figures._rank import _contrast, rests

LEVELS = np.array([1.0, 0.7, 0.5, 0.3, 0.2, 0.1])


def stairs(waits: dict[int, list[float]], every: float = 2e-3) -> xr.Dataset:
    """Losses that stay at the level m for so much of ln t, rank by rank, from ln t = 0 on."""
    whole = sum(next(iter(waits.values())))
    log_t = np.arange(0.0, whole, every)
    curves = [LEVELS[np.searchsorted(np.cumsum(w)[:-1], log_t, "right")] for w in waits.values()]
    step = np.append(0.0, np.exp(log_t))
    loss = np.stack([np.append(LEVELS[0], curve) for curve in curves])
    data = xr.Dataset(
        {"loss": (("rank", "seed", "step"), np.repeat(loss[:, None], 3, axis=1))},
        {"rank": list(waits), "seed": range(3), "step": step},
    ).assign(level=("learned", LEVELS))
    return data.assign_attrs(settings={"near": 0.1, "ranks": list(waits), "judged": [1, 2, 3, 4]})


WAITS = {1: [2.0, 0.6, 0.5, 0.4, 0.3, 0.2], 2: [2.0, 0.05, 0.8, 0.1, 0.6, 0.45]}


def test_rests_are_the_lengths_in_the_logarithm_of_time():
    found = rests(stairs(WAITS)).transpose("rank", "learned").values
    np.testing.assert_allclose(found, list(WAITS.values()), rtol=0, atol=5e-3)


def test_the_least_rest_at_a_multiple_is_over_the_most_elsewhere():
    ratio, words = _contrast(stairs(WAITS), lambda r, m: m % r == 0)
    assert ratio == pytest.approx(0.3 / 0.1, rel=0.05)
    assert "R = 1, m = 4" in words
    assert "R = 2, m = 3" in words


def test_levels_that_runs_do_not_get_to_are_not_judged():
    """Rank 1 stays at the level 3: at the level 4, where it has no rest, nothing is asked of it."""
    waits = WAITS | {1: [2.0, 0.6, 0.5, 0.9, 0.0, 0.0]}
    ratio, words = _contrast(stairs(waits), lambda r, m: m % r == 0)
    assert ratio == pytest.approx(0.5 / 0.1, rel=0.05)
    assert "R = 1, m = 2" in words
