"""``solvable solve single_location``: the flow on the manifold, and what the closed forms tell."""

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ..compute import ComputeOptions
from ..output import Curve, OutputOptions, Rows
from ..progress import Waiting
from ..screen import symbols
from ..times import TimeOptions
from .options import TaskOptions

if TYPE_CHECKING:
    from solvable import single_location

MAX_TIME = 1e12
MAX_BAYES = 10**6  # tokens, beyond which the Bayes risk would take its time
_SCORES = 2**21  # of tokens for the Bayes risk: a fraction of a second
_DRAWS = 2**17

# Facts for the reader; the excess risks come first.
_TOLD = {
    "oracle_excess": "excess risk of the oracle, k = k*, v = v*",
    "swapped_excess": "… of the swapped minimum",
    "best_excess": "… of the oracle at its best λ",
    "linear_excess": "… of the best linear predictor",
    "bayes_excess": "… of the Bayes predictor",
    "best_lam": "best constant λ of the oracle",
    "crossover_lam": "λ below which the swapped minimum beats the oracle",
    "critical_lam": "λ_c above which the manifold repels at the oracle",
    "kappa_rate": "rate of 1 − κ at the oracle",
    "nu_rate": "rate of 1 − ν at the oracle",
    "saddle_rate": "rate from (0, 0) towards the oracle",
    "origin_rate": "rate from (0, 0) towards the swapped minimum",
}


@dataclass(frozen=True)
class FlowOptions:
    """The gradient flow on the manifold θ = η = ρ = 0, and its start."""

    kappa: float = 0.05
    """κ = k·k* at t = 0, in [-1, 1]"""
    nu: float = 0.05
    """ν = v·v* at t = 0, in [-1, 1]"""
    lam: float = 0.1
    """inverse temperature λ, in (0, 1000]"""


@dataclass(frozen=True)
class SolveSingleLocation:
    """Follow the flow on the manifold, and tell what else is known at this λ.

    The loss is the excess risk; t is lr × step of train.
    """

    task: TaskOptions
    flow: FlowOptions
    time: TimeOptions
    output: OutputOptions
    compute: ComputeOptions

    def run(self) -> int:
        """Compute the curve and write it."""
        self.output.check()
        with Waiting("solving"):
            self.compute.prepare()
            from solvable import single_location

            time, task, lam = self.time.build(MAX_TIME), self.task.build(), self.flow.lam
            start = single_location.State(self.flow.kappa, self.flow.nu)
            states = single_location.manifold_flow(task, start, time, lam=lam)
            loss = single_location.excess_risk(task, states, lam)
            facts = _facts(task, lam)
        symbolic = {"κ": self.flow.kappa, "ν": self.flow.nu, "λ": lam}
        how = "single_location, gradient flow on the manifold"
        self.output.write(
            Curve(
                facts={
                    "lab": "single_location",
                    "command": "solve",
                    "task": asdict(self.task),
                    "start": {"kappa": self.flow.kappa, "nu": self.flow.nu},
                    "lam": lam,
                    "theory": facts,
                },
                words="\n".join([how, self.task.words(), f"from {symbols(symbolic)}"]),
                columns={
                    "time": time,
                    "loss": loss.tolist(),
                    "kappa": states.kappa.tolist(),
                    "nu": states.nu.tolist(),
                },
                shown={"time": "t", "loss": "L(t)", "kappa": "κ(t)", "nu": "ν(t)"},
                rows=Rows(("theory", ""), [(_TOLD[name], _word(facts, name)) for name in _TOLD]),
            )
        )
        return 0


def _facts(task: "single_location.Task", lam: float) -> dict[str, Any]:
    """What the closed forms tell of the task at one λ."""
    from solvable import single_location as sl

    best, rates, bayes = sl.best_lam(task), sl.oracle_rates(task, lam), None
    if task.length <= MAX_BAYES:
        bayes = sl.bayes_risk(task, draws=max(2, min(_DRAWS, _SCORES // task.length)))
    return {
        "oracle_excess": sl.oracle_excess(task, lam).item(),
        "swapped_excess": sl.swapped(task, lam).excess.item(),
        "best_excess": best.excess,
        "linear_excess": sl.linear_excess(task).item(),
        "bayes_excess": None if bayes is None else bayes.excess,
        "bayes_error": None if bayes is None else bayes.error,
        "best_lam": best.lam,
        "crossover_lam": sl.crossover_lam(task),
        "critical_lam": sl.critical_lam(task),
        "kappa_rate": rates.kappa.item(),
        "nu_rate": rates.nu.item(),
        "saddle_rate": sl.saddle(task, lam).growth.item(),
        "origin_rate": sl.origin_growth(task, lam).item(),
    }


def _word(facts: dict[str, Any], name: str) -> str:
    """A number to read, the Bayes risk with its standard error."""
    value = facts[name]
    if value is None or value == math.inf:
        return "none" if value else "not estimated"
    error = f" ± {facts['bayes_error']:.1g}" if name == "bayes_excess" else ""
    return f"{value:.5g}{error}"
