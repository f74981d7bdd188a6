"""How deep, how wide, how long: the best shape of linear attention for a compute budget.

Takes the shape from the laws in time, width and depth, whose exponents are known in closed form,
and asks the deterministic equivalent for the loss of that very model: ``Shape.curve``.

Run it with ``python examples/deep_shapes.py --out out``.
"""

import solvable

solvable.setup()  # before JAX is imported

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from solvable import deep_icl
from solvable.style import figure_style

NU, BETA, DIM = 1.25, 0.8, 1024
COST = "t*N**2*L"
BUDGETS = np.geomspace(1e2, 1e8, 7)
CHECKED = (1, 3)  # budgets at which the equivalent is asked as well


def main(out: Path) -> float:
    """Find the shapes, check some and draw; returns the error of the frontier's exponent."""
    console = Console()
    shapes = [
        deep_icl.optimal_shape(budget, nu=NU, beta=BETA, cost=COST, dim=DIM, method="law")
        for budget in BUDGETS
    ]
    table = Table(title=f"The best shape for C = t·N²·L, ν = {NU:g}, β = {BETA:g}")
    for name in ("C", "t", "N", "L", "loss by the laws", "by the equivalent"):
        table.add_column(name, justify="right")
    for k, (budget, shape) in enumerate(zip(BUDGETS, shapes, strict=True)):
        table.add_row(
            f"{budget:.0e}",
            f"{shape.time:.3g}",
            f"{shape.width:.1f}",
            f"{shape.depth:.2f}",
            f"{shape.loss:.4f}",
            f"{float(shape.curve()):.4f}" if k in CHECKED else "",
        )
    console.print(table)
    loss, width, depth = (
        np.log([getattr(shape, name) for shape in shapes]) for name in ("loss", "width", "depth")
    )
    slope = float((loss[-2] - loss[-1]) / np.log(BUDGETS[-1] / BUDGETS[-2]))
    growth = float((depth[-1] - depth[-2]) / (width[-1] - width[-2]))
    exponent = deep_icl.exponents(NU, BETA).compute()
    console.print(
        f"The loss falls like C^-{slope:.4f}; νβ/((3+β)ν+2) = {exponent:.4f}. "
        f"Depth grows like N^{growth:.3f}; ν = {NU:g}. A sum of laws is an upper bound: the "
        "equivalent, in which resources share what is left, is lower."
    )

    out.mkdir(parents=True, exist_ok=True)
    with figure_style():
        figure = Figure()
        axes = figure.add_subplot()
        axes.loglog(BUDGETS, [shape.width for shape in shapes], label="width $N$")
        axes.loglog(BUDGETS, [shape.depth for shape in shapes], label="depth $L$")
        axes.loglog(BUDGETS, [shape.time for shape in shapes], label="time $t$")
        axes.set_xlabel("$C = t N^2 L$")
        axes.legend()
        for suffix in ("png", "svg"):
            figure.savefig(out / f"deep_shapes.{suffix}")
    console.print(f"picture: {out / 'deep_shapes.png'}")
    return abs(slope - exponent)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"), help="where the picture goes")
    main(parser.parse_args().out)
