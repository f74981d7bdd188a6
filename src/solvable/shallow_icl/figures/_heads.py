"""The heads of separate attention in a run: what each holds, and how it grows."""

import numpy as np

from .. import Run, Task, growth, growth_time, population

GROWN = 0.15  # of its final size: from where a head's growth is compared with theory
FEW = 40  # points of a head's growth that are kept
LONGEST = 2001  # the most times at which theory is asked for
SATURATED = 30.0  # in units of a head's own time, after which it has grown to round-off


class Heads:
    """The heads of a run in the eigenbasis and the paper's units, in the order of directions.

    Attributes:
        value: v, (runs, heads, points).
        key, query: their components along the eigenvectors, (runs, heads, dim, points).

    The first D heads are those that hold the eigenvectors in the end.
    """

    def __init__(self, run: Run, task: Task, factor: float):
        basis = np.asarray(task.basis)
        v = factor * np.asarray(run.value)[:, :, 0, -1]
        k = factor * np.einsum("nhdp,de->nhep", np.asarray(run.key)[:, :, 0, :-1], basis)
        q = factor * np.einsum("nhdp,de->nhep", np.asarray(run.query)[:, :, 0], basis)
        share = np.abs(v[:, :, None] * k * q)[..., -1]  # (runs, heads, dim)
        order = []
        for each in share:
            left = list(range(each.shape[0]))
            held = [left.pop(int(np.argmax(each[left, d]))) for d in range(task.dim)]
            order.append(held + left)
        first = np.array(order)
        self.value = np.take_along_axis(v, first[:, :, None], 1)
        self.key, self.query = (np.take_along_axis(x, first[:, :, None, None], 1) for x in (k, q))


def flattest(run: Run, drops: np.ndarray) -> np.ndarray:
    """The log points at which each run is flattest after each drop, (runs, drops)."""
    later = np.log(run.step[1:])
    slope = np.abs(np.gradient(np.asarray(run.loss)[:, 1:], later, axis=1))
    end = np.append(drops[:, 1:], np.full((len(drops), 1), np.inf), axis=1)
    inside = (run.step[1:] > drops[..., None]) & (run.step[1:] < end[..., None])
    return 1 + np.argmin(np.where(inside, slope[:, None], np.inf), axis=-1)


def growths(run: Run, heads: Heads, task: Task) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How each head grows: scaled times, v/v*, and its largest gap from theory.

    A head that has not grown before the end of the run is infinitely far from theory.
    """
    shape = heads.value.shape[0], task.dim
    x, y = np.full((*shape, FEW), np.nan), np.full((*shape, FEW), np.nan)
    gaps = np.full(shape, np.inf)
    t = np.arange(FEW) * (run.time[1] - run.time[0])
    for d, full in enumerate(full_sizes(task)):
        sizes = np.abs(heads.value[:, d])
        first = np.argmax(sizes >= GROWN * full, axis=1)
        for n in np.flatnonzero((first > 0) & (first + FEW <= sizes.shape[1])):
            y[n, d] = sizes[n, first[n] : first[n] + FEW] / full
            gaps[n, d] = np.abs(y[n, d] - grow(task, d, t, y[n, d, 0])).max()
            # On a common clock, which starts where theory is at GROWN.
            late = float(growth_time(task, d, y[n, d, 0], GROWN * full))
            x[n, d] = pace_of(task, d) * (t + late)
    return x, y, gaps


def grow(task: Task, direction: int, t: np.ndarray, start: float) -> np.ndarray:
    """The closed form of v/v* from a given part of v* on; of one shape, to be compiled once."""
    pace, full = pace_of(task, direction), full_sizes(task)[direction]
    padded = np.zeros(LONGEST)
    padded[: t.size] = np.minimum(t, (1.0 / start + SATURATED) / pace)
    return np.asarray(growth(task, direction, padded, start * full))[: t.size] / full


def full_sizes(task: Task) -> np.ndarray:
    """v*, the size of each learned head."""
    return np.cbrt(np.asarray(population(task).best))


def pace_of(task: Task, direction: int) -> float:
    """λ²v*, the rate of a head's growth."""
    return float(np.asarray(population(task).cross)[direction] * full_sizes(task)[direction])
