import numpy as np
import pytest
from scipy.integrate import solve_ivp

from solvable import shallow_icl as icl
from solvable.shallow_icl.theory import staircase_loss

TASK = icl.Task(dim=3, context=12)
TIMES = [80.0, 250.0, 1500.0]


def test_the_stairs_are_the_plateaus():
    far = [1e9, 1e12, 1e15]  # so far apart that the tails 1/t of the growth are gone
    levels = staircase_loss(TASK, far, [0.0, 1e10, 1e13, 1e16])
    np.testing.assert_allclose(levels, icl.plateau_losses(TASK), rtol=1e-12)


def test_half_of_a_drop_is_over_when_told():
    far = np.array([1e9, 1e12, 1e15])
    levels = staircase_loss(TASK, far, far)
    np.testing.assert_allclose(levels, icl.mid_levels(TASK), rtol=1e-6)  # 1e9 of 1e15 in t


def test_each_drop_follows_the_differential_equation_of_its_head():
    moments = icl.population(TASK)
    lam, best = (np.asarray(x) for x in (moments.spectrum, moments.best))
    gains, full = np.asarray(moments.cross) * best, np.cbrt(best)
    half = full * np.cbrt(1.0 - np.sqrt(0.5))
    grid = np.linspace(0.0, 1600.0, 200)
    loss = np.full(grid.shape, float(moments.floor))
    for d, middle in enumerate(TIMES):

        def pace(t, v, d=d):
            return lam[d] ** 2 * v**2 * (1.0 - (v / full[d]) ** 3)

        size = np.empty_like(grid)
        for side in (grid <= middle, grid > middle):
            if not side.any():
                continue
            times = grid[side] if grid[side][0] > middle else grid[side][::-1]
            found = solve_ivp(
                pace, (middle, times[-1]), [half[d]], t_eval=times, rtol=1e-11, atol=1e-14
            )
            size[side] = found.y[0] if times[0] == grid[side][0] else found.y[0][::-1]
        loss += gains[d] * (1.0 - (size / full[d]) ** 3) ** 2
    np.testing.assert_allclose(staircase_loss(TASK, TIMES, grid), loss, rtol=1e-8)


def test_a_drop_that_never_comes_leaves_its_plateau():
    levels = np.asarray(icl.plateau_losses(TASK))
    for times in ([80.0], [80.0, np.inf], [80.0, np.inf, np.inf]):
        assert staircase_loss(TASK, times, 1e15).item() == pytest.approx(levels[1].item())


def test_seeds_and_times_are_batches():
    seeds = np.array([TIMES, [50.0, 60.0, np.inf]])
    t = np.array([[0.0, 70.0], [300.0, 1e6]])
    batch = np.asarray(staircase_loss(TASK, seeds, t))
    assert batch.shape == (2, 2, 2)
    for k in range(2):
        one = staircase_loss(TASK, seeds[k], t[1, 0])
        np.testing.assert_allclose(batch[k, 1, 0], one, rtol=1e-12)


@pytest.mark.parametrize(
    ("times", "t", "sentence"),
    [
        (5.0, 1.0, "times must have a last axis of 1 to 3 drops"),
        ([1.0] * 4, 1.0, "times must have a last axis of 1 to 3 drops"),
        ([1.0, np.nan], 1.0, "times must be numbers or infinity, not nan"),
        (TIMES, -1.0, "t must lie in"),
    ],
)
def test_bad_input_is_named(times, t, sentence):
    with pytest.raises(ValueError, match=sentence):
        staircase_loss(TASK, times, t)
