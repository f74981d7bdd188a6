"""Separate attention learns one eigenvector after another: when, told before it is trained.

Predicts the drops of the loss from the first weights alone, then trains on the population and on
5000 sequences. Run it with ``python examples/plateaus.py --out out``.
"""

import solvable

solvable.setup()  # before JAX is imported

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from solvable import shallow_icl as icl
from solvable.style import figure_style

TASK = icl.Task(dim=4, context=31, spectrum="linear")
START = icl.separate(heads=5, rank=1, scale=1e-2, init="A")
DESCENT = {"lr": 0.02, "steps": 10_000, "log_every": 5, "units": "code"}
SEQUENCES = 5000
CLEAR = 1.3  # the least margin: below, two heads grow together


def first_clear_seed() -> int:
    """The first seed whose drops are all well apart from a tie."""
    drops = icl.drop_times(TASK, START, units="code", seed=range(20))
    return int(np.argmax(np.all(drops.margin >= CLEAR, axis=1)))


def main(out: Path) -> float:
    """Predict, train, compare and draw; returns the largest relative error of a drop."""
    console = Console()
    seed = first_clear_seed()
    drops = icl.drop_times(TASK, START, units="code", seed=seed)
    predicted = drops.steps(lr=DESCENT["lr"])
    population = icl.train(TASK, START, seed=seed, **DESCENT)
    data = icl.sample(TASK, SEQUENCES, seed=0)
    sampled = icl.train(data, START, seed=seed, **DESCENT)

    middle = icl.mid_levels(TASK)
    seen = [icl.crossing_times(run.step, run.loss, middle) for run in (population, sampled)]
    levels = np.asarray(icl.plateau_losses(TASK))
    table = Table(title=f"The drops of seed {seed}, in steps")
    for name in ("learned", "down to", "margin", "predicted", "population", f"P = {SEQUENCES}"):
        table.add_column(name, justify="right")
    for m, step in enumerate(predicted):
        table.add_row(
            f"λ = {TASK.eigenvalues[m]:.1f}",
            f"{levels[m + 1]:.4f}",
            f"{drops.margin[m]:.2f}",
            f"{step:.0f}",
            f"{seen[0][m]:.0f}",
            f"{seen[1][m]:.0f}",
        )
    console.print(table)
    error = float(np.max(np.abs(predicted / seen[0] - 1.0)))
    console.print(
        f"The prediction takes the first weights and no training; on the population it is off by "
        f"{100 * error:.1f} % at most. A data set has plateaus and drops of its own."
    )

    out.mkdir(parents=True, exist_ok=True)
    with figure_style():
        figure = Figure()
        axes = figure.add_subplot()
        for level in levels:
            axes.axhline(level, color="0.75", lw=0.8, ls="--")
        axes.plot(population.step, population.loss, lw=3.5, alpha=0.35, label="population")
        axes.plot(sampled.step, sampled.loss, label=f"{SEQUENCES} sequences")
        theory = icl.staircase_loss(TASK, drops.time, population.time)
        axes.plot(population.step, theory, "k--", lw=1.2, label="predicted")
        axes.set_xscale("log")
        axes.set_xlim(100, DESCENT["steps"])
        axes.set_xlabel("step")
        axes.set_ylabel("$L$")
        axes.legend()
        for suffix in ("png", "svg"):
            figure.savefig(out / f"plateaus.{suffix}")
    console.print(f"picture: {out / 'plateaus.png'}")
    return error


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"), help="where the picture goes")
    main(parser.parse_args().out)
