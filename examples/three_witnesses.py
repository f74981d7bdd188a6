"""One small task, three independent witnesses: closed form, exact reduction, training on tokens.

Run it with ``make demo`` or ``python examples/three_witnesses.py --out out``.
"""

import solvable

solvable.setup()  # before JAX is imported

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from solvable import msfr
from solvable.style import figure_style

TASK = msfr.Task(num_tasks=12, alpha=1.8, context=20, strength=0.5)
INIT = msfr.Init(v=0.05, w=0.06)
LR, STEPS, DATA, SEED = 1e-3, 4000, 300, 0


def closed_form(time: np.ndarray, shares: jax.Array) -> np.ndarray:
    """The loss of gradient flow on this data set: task s learns at the pace of its share #_s/N."""
    weights = TASK.weights
    columns = [
        msfr.residual(TASK, INIT, time * float(shares[s] / weights[s]))[:, s]
        for s in range(TASK.num_tasks)
    ]
    return np.asarray(0.5 * jnp.stack(columns, axis=1) ** 2 @ weights)


def main(out: Path) -> float:
    """Compute, compare and draw; returns the largest difference of reduction and tokens."""
    console = Console()
    console.print(
        f"{TASK.num_tasks} tasks, {DATA} in-context data, {STEPS} steps of gradient descent …"
    )
    tokens = msfr.sample(TASK, DATA, seed=SEED)
    shares = jnp.bincount(tokens.task, length=TASK.num_tasks) / DATA
    how = {"lr": LR, "steps": STEPS, "data": DATA, "seed": SEED, "log_every": STEPS // 400}
    reduced = msfr.train(TASK, INIT, **how)
    brute = msfr.train_brute(TASK, INIT, **how)
    theory = closed_form(reduced.time, shares)

    table = Table(title="The population loss, by three witnesses")
    for name in ("t", "closed form", "reduction", "tokens", "flow/GD − 1", "GD − tokens"):
        table.add_column(name, justify="right")
    places = np.searchsorted(reduced.time, [0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0])
    for k in [*places, len(theory) - 1]:
        flow, small, full = theory[k], float(reduced.loss[k]), float(brute.loss[k])
        table.add_row(
            f"{reduced.time[k]:.3g}",
            f"{flow:.5e}",
            f"{small:.5e}",
            f"{full:.5e}",
            f"{abs(flow / small - 1):.1e}",
            f"{abs(small - full):.1e}",
        )
    console.print(table)
    console.print(
        "The closed form is gradient flow; gradient descent (GD) differs from it by O(lr). The "
        "reduction and the tokens are the same gradient descent, equal to round-off."
    )

    out.mkdir(parents=True, exist_ok=True)
    with figure_style():
        figure = Figure()
        axes = figure.add_subplot()
        seen = reduced.time > 0
        axes.loglog(
            reduced.time[seen], reduced.loss[seen], label="exact reduction", lw=3.5, alpha=0.35
        )
        some = np.unique(np.geomspace(1, len(brute.time) - 1, 24).astype(int))
        axes.loglog(brute.time[some], brute.loss[some], "o", ms=4, label="training on tokens")
        axes.loglog(reduced.time[seen], theory[seen], "k--", lw=1.2, label="closed form")
        axes.set_xlabel("$t$")
        axes.set_ylabel("$L(t)$")
        axes.set_title(
            f"{TASK.num_tasks} tasks, $\\psi$ = 20, $\\alpha$ = 1.8, $N$ = {DATA}", fontsize=10
        )
        axes.legend()
        for suffix in ("png", "svg"):
            figure.savefig(out / f"three_witnesses.{suffix}")
    console.print(f"picture: {out / 'three_witnesses.png'}")
    return float(jnp.max(jnp.abs(reduced.loss - brute.loss)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"), help="where the picture goes")
    main(parser.parse_args().out)
