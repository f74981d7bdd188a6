"""What a plan says, to read and as a JSON document."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..scaling import Interval, Plan

SIDES = ("half", "double")
FAR = 1e6  # a factor that tells nothing
TELLING = {
    "ill_posed": "is ill-posed",
    "at_bound": "is at a bound",
    "not_converged": "did not converge",
}


@dataclass(frozen=True)
class Told:
    """A plan, and what it was made of.

    Attributes:
        plan: the plan.
        facts: the fit, or the model, as the JSON document tells them.
        remark: what the model's law is.
    """

    plan: "Plan"
    facts: dict[str, Any]
    remark: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The resources."""
        return tuple(self.plan.allocation)

    @property
    def sure(self) -> bool:
        """Whether nothing is uncertain."""
        return self.plan.known.covariance is None

    @property
    def shown(self) -> int:
        """The budget whose valley is told: the largest that has an optimum."""
        seen = [k for k, loss in enumerate(self.plan.loss.value) if math.isfinite(loss)]
        return seen[-1]

    def warnings(self) -> Iterator[str]:
        """What a reader must know before trusting the numbers."""
        status, message = self.facts.get("fit_status"), self.facts.get("fit_message")
        if status in TELLING:
            why = f" ({message})" if message else ""
            yield f"the fit {TELLING[status]}{why}: take this plan with care"
        for budget, status in zip(self.plan.budget, self.plan.status, strict=True):
            if status != "ok":
                yield f"at budget {budget:.4g}: {status}"

    def document(self) -> dict[str, Any]:
        """All that is told, with every digit."""
        plan = self.plan
        return {
            "command": "plan",
            **self.facts,
            "cost": plan.cost.text,
            "resources": list(self.names),
            "level": None if self.sure else plan.known.level,
            "closed_exponent": plan.closed,
            "budgets": [self._entry(k) for k in range(len(plan.budget))],
        }

    def _entry(self, k: int) -> dict[str, Any]:
        plan = self.plan
        return {
            "budget": float(plan.budget[k]),
            "status": plan.status[k],
            "allocation": {name: self._three(one, k) for name, one in plan.allocation.items()},
            "loss": self._three(plan.loss, k),
            "exponent": self._three(plan.exponent, k),
            "growth": {name: self._three(one, k) for name, one in plan.growth.items()},
            "mistakes": {
                name: {
                    side: {
                        "loss": float(one.loss[k, j]),
                        "ratio": float(one.ratio[k, j]),
                        "budget": float(one.budget[k, j]),
                    }
                    for j, side in enumerate(SIDES)
                }
                for name, one in plan.mistakes.items()
            },
            "outside": None if plan.outside is None else plan.outside[k],
        }

    def _three(self, one: "Interval", k: int) -> dict[str, float | None]:
        ends = (None, None) if self.sure else (float(one.low[k]), float(one.high[k]))
        return {"value": float(one.value[k]), "low": ends[0], "high": ends[1]}

    def csv(self) -> str:
        """A row for every budget."""
        plan = self.plan
        columns: dict[str, Sequence[Any]] = {"budget": plan.budget.tolist()}
        parts = {**plan.allocation, "loss": plan.loss, "exponent": plan.exponent}
        parts |= {f"growth_{name}": one for name, one in plan.growth.items()}
        for name, one in parts.items():
            columns[name] = one.value.tolist()
            if not self.sure:
                columns[f"{name}_low"], columns[f"{name}_high"] = (
                    one.low.tolist(),
                    one.high.tolist(),
                )
        for name, one in plan.mistakes.items():
            for j, side in enumerate(SIDES):
                columns[f"{side}_{name}_loss"] = one.loss[:, j].tolist()
                columns[f"{side}_{name}_budget"] = one.budget[:, j].tolist()
        columns["status"] = [f'"{status}"' for status in plan.status]
        rows = [
            ",".join(x if isinstance(x, str) else repr(x) for x in row)
            for row in zip(*columns.values(), strict=True)
        ]
        return "\n".join([",".join(columns), *rows, ""])

    def words(self) -> list[Any]:
        """What is printed."""
        return [
            self._title(),
            *([self.remark] if self.remark else []),
            "",
            self._allocations(),
            *([] if self.sure else [self._reading()]),
            *self._beyond(),
            "",
            *self._valley(),
            *self._powers(),
        ]

    def _title(self) -> str:
        facts, cost = self.facts, self.plan.cost.text
        if "model" in facts:
            rest = {name: x for name, x in facts.items() if name != "model"}
            told = ", ".join(f"{name} = {x:g}" for name, x in rest.items())
            return f"{facts['model']} ({told}), cost {cost}"
        return f"{facts['law']} of {facts['file']}, cost {cost}"

    def _reading(self) -> str:
        level = f"{100 * self.plan.known.level:g} %"
        return f"{level} intervals; x ×÷ f: from x/f to x·f"

    def _allocations(self) -> Any:
        table = _table("budget", *self.names, "loss")
        plan = self.plan
        for k, budget in enumerate(plan.budget):
            if math.isfinite(plan.loss.value[k]):
                cells = [self._amount(one, k) for one in plan.allocation.values()]
                table.add_row(f"{budget:.4g}", *cells, self._loss(k))
            else:
                table.add_row(f"{budget:.4g}", *[""] * len(self.names), plan.status[k])
        return table

    def _amount(self, one: "Interval", k: int) -> str:
        value = f"{one.value[k]:.4g}"
        if self.sure:
            return value
        factor = one.high[k] / one.value[k]
        return f"{value} ×÷ {factor:.3g}" if factor < FAR else f"{value} (unknown)"

    def _loss(self, k: int) -> str:
        loss = self.plan.loss
        ends = "" if self.sure else f" ({loss.low[k]:.4g} – {loss.high[k]:.4g})"
        return f"{loss.value[k]:.4g}{ends}"

    def _beyond(self) -> list[str]:
        """Where the plan goes beyond the data."""
        plan, lines = self.plan, []
        for name in self.names:
            beyond = {
                float(budget): outside[name]
                for budget, outside in zip(plan.budget, plan.outside or (), strict=False)
                if name in outside
            }
            if not beyond:
                continue
            budget, factor = max(beyond.items(), key=lambda pair: abs(math.log(pair[1])))
            size = (
                f"{factor:.2g} times the largest"
                if factor > 1
                else (f"1/{1 / factor:.2g} of the smallest")
            )
            where = f" at budget {budget:.4g}" if len(plan.budget) > 1 else ""
            lines.append(f"beyond the data: {name} is {size} that was fitted{where}")
        return lines

    def _valley(self) -> list[Any]:
        plan, k = self.plan, self.shown
        if not plan.mistakes:
            return []
        table = _table("a twofold mistake", "loss", "above the optimum", "as if the budget were")
        for name, one in plan.mistakes.items():
            for j, side in enumerate(("half", "twice")):
                loss, ratio, share = one.loss[k, j], one.ratio[k, j], one.budget[k, j]
                if math.isnan(loss):
                    table.add_row(f"{side} the {name}", "–", "–", "–")
                    continue
                less = "–" if math.isnan(share) else f"{100 * share:.3g} % of it"
                table.add_row(
                    f"{side} the {name}", f"{loss:.4g}", f"{100 * (ratio - 1):.3g} %", less
                )
        which = f"at budget {plan.budget[k]:.4g}, " if len(plan.budget) > 1 else ""
        return [table, f"{which}the other resources being the best for it", ""]

    def _powers(self) -> list[str]:
        plan, k = self.plan, self.shown
        floor = "loss − E" if "E" in plan.known.law.linear and "model" not in self.facts else "loss"
        parts = [f"{floor} ∝ C^{self._power(plan.exponent, k, -1.0)}"]
        parts += [f"{name} ∝ C^{self._power(one, k)}" for name, one in plan.growth.items()]
        where = f" (at budget {plan.budget[k]:.4g})" if len(plan.budget) > 1 else ""
        return [f"along the frontier{where}:", *(f"  {part}" for part in parts)]

    def _power(self, one: "Interval", k: int, sign: float = 1.0) -> str:
        value = f"{sign * one.value[k]:.4g}"
        if self.sure or not math.isfinite(one.low[k]):
            return value
        ends = sorted((sign * one.low[k], sign * one.high[k]))
        return f"{value}  ({ends[0]:.4g} to {ends[1]:.4g})"


def _table(first: str, *headings: str) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    table.add_column(first, justify="left" if " " in first else "right", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table
