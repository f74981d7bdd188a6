"""From a table of runs to a law, and from the law to a plan.

Makes a table of losses, 24 runs with an effect of their own and two rows that went wrong, and fits
it: as if all rows were independent, and with the runs. Then asks what to do with a budget.

Run it with ``python examples/own_curves.py --out out``.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from solvable import scaling
from solvable.style import figure_style

TRUTH = {"E": 1.69, "A": 406.4, "B": 410.7, "a": 0.34, "b": 0.28}
COST, BUDGETS = "6*N*D", np.geomspace(1e19, 1e24, 11)


def runs(seed: int = 3) -> dict[str, np.ndarray]:
    """24 model sizes, each measured ten times over the last decade of its data."""
    rng = np.random.default_rng(seed)
    run = np.repeat(np.arange(24), 10)
    size = np.geomspace(1e7, 1e10, 24)[run]
    last = np.exp(rng.uniform(np.log(1e10), np.log(1e12), 24))[run]
    data = last * 10.0 ** -np.tile(np.linspace(0.0, 1.0, 10), 24)
    law = scaling.chinchilla()
    loss = law.curve(np.array(list(TRUTH.values())), np.stack([size, data], axis=1))
    loss = loss * np.exp(0.01 * rng.standard_normal(240) + 0.01 * rng.standard_normal(24)[run])
    loss[[17, 118]] *= 1.5  # a spike in training, and a typing error
    return {"params": size, "tokens": data, "run": run, "loss": loss}


def main(out: Path) -> dict[str, bool]:
    """Fit, plan and draw; returns whether each parameter's interval holds the truth."""
    console, table = Console(), runs()
    out.mkdir(parents=True, exist_ok=True)
    with (out / "runs.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(table)
        rows.writerows(zip(*table.values(), strict=True))

    columns = {"N": table["params"], "D": table["tokens"]}
    alone = scaling.fit("chinchilla", columns, y=table["loss"])
    grouped = scaling.fit("chinchilla", columns, y=table["loss"], group=table["run"])
    shown = Table(title="L = E + A N^-a + B D^-b, 95 % intervals")
    for heading in ("", "truth", "value", "as if rows were independent", "with the runs"):
        shown.add_column(heading, justify="right")
    for name, true in TRUTH.items():
        intervals = (
            f"{one.low:.4g} to {one.high:.4g}{'' if one.low <= true <= one.high else '  misses'}"
            for one in (alone.parameters[name], grouped.parameters[name])
        )
        shown.add_row(name, f"{true:g}", f"{grouped[name]:.4g}", *intervals)
    console.print(shown)
    console.print(f"{grouped.status}; intervals by {grouped.method}")

    best = scaling.plan(grouped, BUDGETS, COST)
    size, budget = best.allocation["N"], best.budget
    console.print(
        f"With C = {budget[-1]:.0e} = {COST}: N = {size.value[-1]:.2g} ({size.low[-1]:.2g} to "
        f"{size.high[-1]:.2g}), loss {best.loss.value[-1]:.3f}; the reducible loss falls like "
        f"C^-{best.exponent.value[-1]:.3f}. Half the size would waste "
        f"{1.0 - best.mistakes['N'].budget[-1, 0]:.0%} of the budget."
    )

    with figure_style():
        figure = Figure(figsize=(7.2, 3.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        left.plot(grouped.curve(columns), table["loss"], ".", markersize=3)
        ends = [table["loss"].min(), table["loss"].max()]
        left.plot(ends, ends, linewidth=0.8)
        left.set_xlabel("fitted loss")
        left.set_ylabel("measured loss")
        right.loglog(budget, size.value, label="$N$")
        right.fill_between(budget, size.low, size.high, alpha=0.25)
        data = best.allocation["D"]
        right.loglog(budget, data.value, label="$D$")
        right.fill_between(budget, data.low, data.high, alpha=0.25)
        right.set_xlabel("budget $C = 6ND$")
        right.set_ylabel("best allocation")
        right.legend()
        for suffix in ("png", "svg"):
            figure.savefig(out / f"own_curves.{suffix}")
    console.print(f"table: {out / 'runs.csv'}; picture: {out / 'own_curves.png'}")
    console.print(
        f"The same on the command line: solvable fit {out / 'runs.csv'} --law chinchilla "
        "--x N=params --x D=tokens --y loss --group run"
    )
    return {n: one.low <= TRUTH[n] <= one.high for n, one in grouped.parameters.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"), help="where table and picture go")
    main(parser.parse_args().out)
