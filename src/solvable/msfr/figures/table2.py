"""Table 2: the exponents when contexts or strengths fall with the task."""

from collections.abc import Mapping
from typing import Any

import matplotlib.figure
import numpy as np
import xarray as xr

from ...reproduce import Claim, Figure, Quote, Size, Statement, stage
from ...reproduce.claim import Kind
from ...style import colour, panels
from .. import Init, Task, data_law, exponents, size_law, time_law
from ._judging import judge_law, law_statement, seen
from ._labels import labelled, local_exponents, of_label
from ._split import SLACK, frontier_of_law, split_exponents

ALPHA, CONTEXT = 1.8, 100.0
INIT = (1e-5, 1e-5)  # (107)
# β, γ and Λ_1: contexts that fall, and strengths that fall from far above 1.
CASES = {"β = 1": (1.0, 0.0, 0.5), "γ = 0.5": (0.0, 0.5, 1e3)}
SETTINGS: Mapping[Size, Mapping[str, Any]] = {
    "quick": {"num_tasks": 30_000, "law_tasks": 10**5, "per_decade": 5},
    "default": {"num_tasks": 10**5, "law_tasks": 10**5, "per_decade": 8},
    "full": {"num_tasks": 10**6, "law_tasks": 10**6, "per_decade": 8},
}
ROWS = {"t": "time", "D": "size", "N": "data", "C": "compute"}


def _part(settings: Mapping[str, Any], beta: float, gamma: float, strength: float) -> xr.Dataset:
    init = Init(*INIT)
    task, many = (
        Task(settings[count], ALPHA, CONTEXT, strength, beta=beta, gamma=gamma)
        for count in ("num_tasks", "law_tasks")
    )
    laws = {
        "t": time_law(task, init),
        "D": size_law(many, init, shift=0.5),
        "N": data_law(many, init),
    }
    per_decade = settings["per_decade"]
    parts = [local_exponents(laws, per_decade), frontier_of_law(task, init, "zeroth", 2)]
    return xr.merge(parts)


def compute(size: Size) -> xr.Dataset:
    """Local exponents and optimal splits of both cases."""
    return xr.merge(
        labelled(stage(case, lambda p=parameters: _part(SETTINGS[size], *p)), case)
        for case, parameters in CASES.items()
    )


def _table(case: str) -> Any:
    beta, gamma, _ = CASES[case]
    return exponents(ALPHA, beta, gamma, "strong" if gamma else "weak")


def _printed(case: str) -> dict[str, float]:
    """The exponents of D* and t* in Table 2 and, with strengths that fall, that of N in (105)."""
    beta, gamma, _ = CASES[case]
    rate = ALPHA + 3 * gamma + beta
    found = {"D*": rate / (rate + 1), "t*": 1 / (rate + 1)}
    return found | ({"N": (ALPHA + gamma - 1) / ALPHA} if gamma else {})


def _grid(get: Any, symbol: str) -> np.ndarray:
    return get(f"law_{symbol}") - (0.5 if symbol == "D" else 0.0)


def draw(data: xr.Dataset) -> matplotlib.figure.Figure:
    """Each exponent: the corrected table's, the printed one where it differs, the measured."""
    figure, axes = panels(2)
    names = [*(f"$L$ in ${symbol}$" for symbol in ROWS), "$D^*$ in $C$", "$t^*$ in $C$"]
    rows = np.arange(len(names))[::-1]
    for each, case in zip(axes, CASES, strict=True):
        get, table = of_label(data, case), _table(case)
        law = [*(getattr(table, name) for name in ROWS.values())]
        law += [table.optimal_size, table.optimal_time]
        measured = [
            seen(_grid(get, s), get(f"local_{s}"), x).mean for s, x in zip(ROWS, law, strict=False)
        ]
        measured += split_exponents(get, table.compute)
        each.plot(law, rows, "|", color="black", markersize=16, label="Table 2, corrected")
        swapped = [_printed(case)[name] for name in ("D*", "t*")]
        each.plot(swapped, rows[-2:], "x", color=colour(1), label="as printed")
        each.plot(measured, rows, "o", color=colour(0), markersize=5.0, label="measured")
        each.set_yticks(rows, names)
        each.grid(axis="y", color="0.92")
        each.set_xlim(0.0, 2.0)
        each.set_xlabel("exponent")
        symbol = case.replace("β", r"$\beta$").replace("γ", r"$\gamma$")
        each.set_title(symbol, fontsize=9.0)
    axes[0].legend(fontsize=8.0, loc="center right")
    return figure


def _law_said(
    word: str,
    text: str,
    kind: Kind = "paper",
    source: str = "Table 2",
    quote: Quote | None = None,
) -> Statement:
    return law_statement(f"msfr/table2/{word}", text, source, kind, quote)


RANGE = {"β = 1": "At order zero, ", "γ = 0.5": "While Λ_s ≫ 1, "}  # as F.3 assumes
TIME = {
    "β = 1": _law_said("time-beta-1", "L ∝ t^(−(α−1)/(α+β)) at β = 1"),
    "γ = 0.5": _law_said("time-gamma-0.5", "While Λ_s ≫ 1, L ∝ t^(−(α+2γ−1)/(α+3γ)) at γ = 0.5"),
}
SIZE = {  # Table 2 has D; in D − ½ the sum shows the law sooner.
    "β = 1": _law_said("size-beta-1", "Whatever β, here 1, L ∝ (D − ½)^(−(α−1))", "check"),
    "γ = 0.5": _law_said("size-gamma-0.5", "L ∝ (D − ½)^(−(α+2γ−1)) at γ = 0.5", "check"),
}
DATA = {
    "β = 1": _law_said("data-beta-1", "Whatever β, here 1, L ∝ N^(−(α−1)/α)"),
    "γ = 0.5": _law_said(
        "data-gamma-0.5",
        "L ∝ N^(−(α+2γ−1)/α) at γ = 0.5",
        source="Table 2, Eq. (105)",
        quote=Quote(
            r"L(N) \propto N^{-\frac{\alpha+\gamma-1}{\alpha}}",
            "Eq. (105); Table 2 has the right exponent",
        ),
    ),
}
COMPUTE = {
    case: _law_said(
        f"compute-{word}", f"{RANGE[case]}at the best split L ∝ C^(−α_t α_D/(α_t+α_D)) at {case}"
    )
    for case, word in (("β = 1", "beta-1"), ("γ = 0.5", "gamma-0.5"))
}
ROW = "Table 2, last row; F.1 has it right"
BEST_TIME = {
    case: Statement(
        f"msfr/table2/optimal-time-{word}",
        f"{RANGE[case]}t* ∝ C^(α_D/(α_t+α_D)) at {case}.",
        "Table 2, (F.1)",
        "paper",
        Quote(r"t \propto \mathcal{C}^{\frac{1}{\alpha+3\gamma+\beta+1}}", ROW),
    )
    for case, word in (("β = 1", "beta-1"), ("γ = 0.5", "gamma-0.5"))
}
BEST_SIZE = {
    case: Statement(
        f"msfr/table2/optimal-size-{word}",
        f"{RANGE[case]}D* ∝ C^(α_t/(α_t+α_D)) at {case}.",
        "Table 2, (F.1)",
        "paper",
        Quote(r"D \propto \mathcal{C}^{\frac{\alpha+3\gamma+\beta}{\alpha+3\gamma+\beta+1}}", ROW),
    )
    for case, word in (("β = 1", "beta-1"), ("γ = 0.5", "gamma-0.5"))
}
LAWS = {"t": TIME, "D": SIZE, "N": DATA, "C": COMPUTE}


def claims(data: xr.Dataset) -> list[Claim]:
    """Row by row."""
    found = []
    for case in CASES:
        get, table, printed = of_label(data, case), _table(case), _printed(case)
        for symbol, statements in LAWS.items():
            x, local = _grid(get, symbol), get(f"local_{symbol}")
            name = "D − ½" if symbol == "D" else symbol
            law = getattr(table, ROWS[symbol])
            of_printed = printed.get(symbol)
            found.append(judge_law(statements[case], x, local, law, name, printed=of_printed))
        size, time = split_exponents(get, table.compute)
        for said, law, slope, name in (
            (BEST_TIME, table.optimal_time, time, "t*"),
            (BEST_SIZE, table.optimal_size, size, "D*"),
        ):
            found.append(said[case].judge(law, slope, SLACK, as_printed=printed[name]))
    return found


FIGURE = Figure(
    id="msfr/table2",
    title="Exponents when contexts or strengths fall with the task",
    settings=SETTINGS,
    constants={"alpha": ALPHA, "context": CONTEXT, "beta, gamma, strength": CASES, "init": INIT},
    statements=tuple(
        said[case] for case in CASES for said in (*LAWS.values(), BEST_TIME, BEST_SIZE)
    ),
    compute=compute,
    draw=draw,
    claims=claims,
    note=(
        "α = 1.8, ψ_1 = 100, v = w = 1e-5 at the start (107), order zero; Λ = 0.5 with β = 1, "
        "Λ_1 = 1000 with γ = 0.5. "
        "The time law of weak strengths is judged in msfr/crossover. Dots: the local "
        "exponent of the loss, averaged over its window."
    ),
)
