"""Whether 95 % intervals hold the truth 95 times in 100, on tables made for it.

``python -m solvable.scaling.coverage --sets 2000`` remakes the tables of docs/scaling.md.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from .fitting import Fit, Intervals, Loss, fit
from .laws import chinchilla

TRUTH = {"E": 1.69, "A": 406.4, "B": 410.7, "a": 0.34, "b": 0.28}
JUDGED = ("E", "a", "b")
NOISE = 0.02


@dataclass(frozen=True)
class Coverage:
    """How often intervals held the truth.

    Attributes:
        share: by parameter.
        sets: how many tables.
        converged: the share of fits with that status.
        redone, failed: refits of bootstraps that were searched again, and that failed even so.
    """

    share: dict[str, float]
    sets: int
    converged: float
    redone: int = 0
    failed: int = 0


def table(
    points: int, seed: int, *, runs: int = 0, noise: float = NOISE, outliers: float = 0.0
) -> dict[str, np.ndarray]:
    """Losses of the Chinchilla law with log-normal noise, at sizes and data drawn log-uniformly.

    Args:
        points: rows.
        seed: of everything drawn.
        runs: 0 for independent rows; else rows belong to so many runs, each one model size measured
            over the last decade of its data, with an effect of its own as large as the noise.
        noise: standard deviation of log y.
        outliers: the share of rows that are off by a factor of 1.3 to 3, up or down.
    """
    rng = np.random.default_rng(seed)
    run = np.arange(points) % runs if runs else np.arange(points)
    size = np.exp(rng.uniform(math.log(1e7), math.log(1e10), runs or points))[run]
    data = np.exp(rng.uniform(math.log(1e9), math.log(1e12), points))
    if runs:
        last = rng.uniform(math.log(1e10), math.log(1e12), runs)[run]
        data = np.exp(last - rng.uniform(0.0, math.log(10.0), points))
    clean = chinchilla().curve(np.array(list(TRUTH.values())), np.stack([size, data], axis=1))
    log_y = np.log(clean) + noise * rng.standard_normal(points)
    if runs:
        log_y += noise * rng.standard_normal(runs)[run]
    off = rng.permutation(points) < round(outliers * points)
    shift = np.log(rng.uniform(1.3, 3.0, points)) * rng.choice([-1.0, 1.0], points)
    return {"N": size, "D": data, "run": run, "y": np.exp(log_y + np.where(off, shift, 0.0))}


def held(found: Fit) -> list[bool]:
    """Whether each judged parameter's interval holds the truth."""
    return [found.parameters[n].low <= TRUTH[n] <= found.parameters[n].high for n in JUDGED]


def _one(
    seed: int, points: int, intervals: Intervals, loss: Loss, runs: int, ignore: bool, draws: int
) -> tuple[list[bool], bool, int, int]:
    columns = table(points, seed, runs=runs)
    group = "run" if runs and not ignore else None
    found = fit(
        chinchilla(),
        columns,
        y="y",
        group=group,
        loss=loss,
        intervals=intervals,
        draws=draws,
        seed=seed,
    )
    return held(found), found.status == "converged", found.redone, found.failed


def coverage(
    points: int,
    *,
    sets: int = 2000,
    intervals: Intervals = "delta",
    loss: Loss = "huber",
    runs: int = 0,
    ignore_runs: bool = False,
    draws: int = 1000,
    seed: int = 0,
    mapped: Callable[..., Sequence] = lambda f, *rows: list(map(f, *rows)),
) -> Coverage:
    """The share of tables whose intervals hold the true E, a and b.

    Args:
        points: rows of a table.
        sets: tables.
        intervals, loss, draws: as in `fit`.
        runs: how many runs the rows belong to, 0 for independent rows.
        ignore_runs: whether the fit is not told about them.
        seed: of the first table; the others follow.
        mapped: how the work is mapped, a pool's `map`.
    """
    same = (points, intervals, loss, runs, ignore_runs, draws)
    rows = list(mapped(_one, range(seed, seed + sets), *map(repeat, same)))
    shares = np.mean([row[0] for row in rows], axis=0)
    return Coverage(
        share=dict(zip(JUDGED, map(float, shares), strict=True)),
        sets=sets,
        converged=float(np.mean([row[1] for row in rows])),
        redone=sum(row[2] for row in rows),
        failed=sum(row[3] for row in rows),
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=2000, help="tables a line")
    parser.add_argument("--draws", type=int, default=1000, help="refits of a bootstrap")
    parser.add_argument("--noise", choices=("independent", "runs"), help="one kind of noise only")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    given = parser.parse_args(argv)
    print("| noise | points | loss | intervals | E | a | b | redone, failed |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    lines: list[tuple[str, dict]] = [
        ("independent", {"points": points, "loss": loss, "intervals": intervals})
        for loss in ("squares", "huber")
        for intervals in ("delta", "profile", "bootstrap")
        for points in (60, 240)
    ]
    if given.noise == "runs":
        lines.clear()
    for runs in (12, 24) if given.noise != "independent" else ():
        for loss in ("squares", "huber"):
            shared = {"points": 240, "runs": runs, "loss": loss}
            lines.append((f"{runs} runs, ignored", shared | {"ignore_runs": True}))
            lines.append((f"{runs} runs", shared))
            lines.append((f"{runs} runs", shared | {"intervals": "bootstrap"}))
    with ProcessPoolExecutor(given.workers) as pool:

        def mapped(function: Callable, *rows: Sequence) -> list:
            return list(pool.map(function, *rows, chunksize=10))

        for words, options in lines:
            begin = time.monotonic()
            found = coverage(sets=given.sets, draws=given.draws, mapped=mapped, **options)
            shares = " | ".join(f"{100.0 * found.share[name]:.1f} %" for name in JUDGED)
            method = options.get("intervals", "delta")
            refits = f"{found.redone}, {found.failed}" if method == "bootstrap" else ""
            print(
                f"| {words} | {options['points']} | {options['loss']} | {method} | {shares} | "
                f"{refits} |",
                flush=True,
            )
            print(f"{time.monotonic() - begin:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
