"""How fast the losses of Fig. 5 fall: seed by seed, with the tasks that a finite S leaves out."""

from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

RISE = 1.1  # over its least value so far: a loss that rises by more is not descended


def descends(loss: np.ndarray) -> np.ndarray:
    """Which runs (…, times) have a loss that is finite, and nowhere rises by over a tenth.

    >>> descends(np.array([[1.0, 0.5, 0.52], [1.0, 0.5, 0.7], [1.0, np.nan, 0.1]])).tolist()
    [True, False, False]
    """
    finite = np.where(np.isfinite(loss), loss, np.inf)
    least = np.minimum.accumulate(finite, axis=-1)
    return np.logical_and.reduce(finite[..., 1:] <= RISE * least[..., :-1], axis=-1)


def stable(data: xr.Dataset, name: str) -> np.ndarray:
    """The seeds whose runs are stable at every α."""
    good = descends(data[name].transpose("alpha", "seed", "time").values)
    return np.logical_and.reduce(good, axis=0)


def mean_curve(loss: np.ndarray) -> np.ndarray:
    """The geometric mean over runs of L/L(0): its exponents are the mean of the runs'."""
    return np.exp(np.mean(np.log(loss / loss[:, :1]), axis=0))


def crossing(x: np.ndarray, curve: np.ndarray, level: float) -> float:
    """Where a curve first is down to `level`, linear between points in both logarithms.

    >>> x = np.array([0.0, 1.0, 10.0, 100.0])
    >>> round(crossing(x, np.array([1.0, 1.0, 0.1, 0.01]), 0.01**0.5), 9)
    10.0
    """
    k = int(np.argmax(curve <= level))
    if curve[k] > level or x[k - 1] == 0.0:
        return float(x[k]) if curve[k] <= level else float("nan")
    pair = np.log(curve[[k, k - 1]])
    return float(np.exp(np.interp(np.log(level), pair, np.log(x[[k, k - 1]]))))


def mean_exponent(x: np.ndarray, curve: np.ndarray, first: float, last: float) -> float:
    """The mean over log x of the local exponent ``−d log L / d log x`` from first to last."""
    ends = np.interp(np.log([first, last]), np.log(x[1:]), np.log(curve[1:]))
    return float((ends[0] - ends[1]) / np.log(last / first))


@dataclass(frozen=True)
class Sample:
    """Numbers of independent runs.

    Attributes:
        values: one a run.
    """

    values: np.ndarray

    @property
    def mean(self) -> float:
        """Their mean."""
        return float(np.mean(self.values))

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return float(np.std(self.values, ddof=1) / np.sqrt(len(self.values)))

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.error:.3f}"


@dataclass(frozen=True)
class Falls:
    """How the runs of one number of tasks fall in time.

    Attributes:
        time: the log points.
        whole: L with the tasks beyond the last, of each α, (runs, times).
        bare: L as it is trained.
        first: for each α where the mean of `whole` has lost the first task's share p_1.
    """

    time: np.ndarray
    whole: dict[float, np.ndarray]
    bare: dict[float, np.ndarray]
    first: dict[float, float]

    @classmethod
    def of(cls, data: xr.Dataset, name: str = "loss", *, every: bool = False) -> "Falls":
        """Those of the stable seeds, or of every seed whose runs stay finite."""
        loss = data[name].transpose("alpha", "time", "seed").values
        finite = np.logical_and.reduce(np.isfinite(loss), axis=(0, 1))
        kept, time = finite if every else stable(data, name), data.time.values
        alphas = [float(x) for x in data.alpha]
        bare = {a: data[name].sel(alpha=a).values[kept] for a in alphas}
        whole = {a: y + float(data[f"{name}_beyond"].sel(alpha=a)) for a, y in bare.items()}
        share = {a: float(data[f"{name}_share"].sel(alpha=a)) for a in alphas}
        first = {a: crossing(time, mean_curve(y), 1.0 - share[a]) for a, y in whole.items()}
        return cls(time, whole, bare, first)

    def exponents(self, runs: np.ndarray, first: float) -> np.ndarray:
        """The mean local exponent of each run from `first` to the end."""
        last = float(self.time[-1])
        return np.array([mean_exponent(self.time, y, first, last) for y in runs])

    def exponent(self, alpha: float, first: float | None = None, *, whole: bool = True) -> Sample:
        """At one α, from `first`, or where the first task's share is lost."""
        runs = self.whole if whole else self.bare
        return Sample(self.exponents(runs[alpha], self.first[alpha] if first is None else first))

    def paired(self, *, whole: bool = True) -> Sample:
        """The last α's exponent less the first's, seed by seed, over the range of both."""
        runs, first = self.whole if whole else self.bare, max(self.first.values())
        one, *_, other = (self.exponents(y, first) for y in runs.values())
        return Sample(other - one)

    def blind(self) -> dict[float, Sample]:
        """`paired` of training that does not know α: at all α the L/L(0) that is trained at one.

        What is left is the difference that the tasks beyond the last make by themselves.
        """
        found = {}
        for alpha, runs in self.bare.items():
            same = runs / runs[:, :1]
            whole = {a: self.whole[a] - y + same * y[:, :1] for a, y in self.bare.items()}
            found[alpha] = replace(self, whole=whole).paired()
        return found


def envelope(
    sizes: np.ndarray, time: np.ndarray, curves: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The least L at every compute ``C = D·t``, to where training of the best D ends.

    Args:
        sizes: D, increasing.
        time: t, from 0 on.
        curves: L of every size in time.

    Returns:
        C, the least L, and which size has it.
    """
    compute = np.geomspace(sizes[0] * time[1], sizes[-1] * time[-1], 600)
    logs = [
        np.interp(compute / d, time, np.log(curve), right=np.inf)
        for d, curve in zip(sizes, curves, strict=True)
    ]
    best = np.argmin(logs, axis=0)
    over = np.flatnonzero(compute[1:] > sizes[best[:-1]] * time[-1])
    known = slice(0, int(over[0]) + 1 if len(over) else None)
    return compute[known], np.exp(np.min(logs, axis=0))[known], best[known]
