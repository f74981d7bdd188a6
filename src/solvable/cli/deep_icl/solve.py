"""``solvable solve deep_icl``: the loss of deep linear attention without training it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from .. import times
from ..compute import ComputeOptions
from ..output import Curve, OutputOptions, Rows
from ..progress import Waiting
from .options import NAMES, Depths, Numbers, StartOptions, TaskOptions, Unit

Over = Literal["time", "gamma", "depth", "width", "context", "alpha"]
MAX_TIME = 1e300
DEPTHS = (1.0, 2.0, 4.0, 8.0)
MORE_DEPTHS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
ALPHAS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
# Of which laws the optimum is looked at over each resource.
_LAWS = {"width": ("rrs",), "context": ("rrs", "fs"), "alpha": ("iso",)}
_SYMBOLS = {"width": "N", "context": "P", "alpha": "α"}
_TEX = {"gamma": r"\gamma/L", "alpha": r"\alpha"}


@dataclass(frozen=True)
class TimeOptions(times.TimeOptions):
    """When it is looked at: times evenly spaced in log t."""

    t_min: float = 1e-2
    """first time t, above 0"""
    t_max: float = 1e4
    """last time t, above the first"""
    points: int = 50
    """number of times, at least 2; of values of γ/L over gamma"""


@dataclass(frozen=True)
class AxisOptions:
    """What the loss is looked at over: training time unless told otherwise."""

    over: Over = "time"
    """gradient flow; the landscape; or the optimum over depth, width, context or alpha"""
    at: Numbers = None
    """widths, contexts or values of alpha (default: powers of 2)"""
    depth: Depths = None
    """depths L, one or several (default: 1 2 4 8; over depth up to 32)"""
    time: Unit = "scalar"
    """unit of t: that of dγ/dt = -dL/dγ, or of the N × N matrix Γ, N times as slow"""


@dataclass(frozen=True)
class Theory:
    """What was computed.

    Attributes:
        columns: the points.
        shown: headings of the columns.
        facts: what else there is to tell, for the JSON document.
        rows: the same for the reader.
    """

    columns: dict[str, Any]
    shown: dict[str, str]
    facts: dict[str, Any]
    rows: Rows | None = None


@dataclass(frozen=True)
class SolveDeepIcl:
    """Compute the loss of deep linear attention in theory, at one depth or several.

    Over time by gradient flow; over gamma/L; or at the best gamma over depth, width or context.
    """

    task: TaskOptions
    axis: AxisOptions
    start: StartOptions
    times: TimeOptions
    output: OutputOptions
    compute: ComputeOptions

    def run(self) -> int:
        """Compute the curve and write it."""
        self.output.check()
        axis, depths = self.axis, self._depths()
        self._check(depths)
        with Waiting("solving"):
            self.compute.prepare()
            if axis.over == "time":
                theory = self._over_time(depths)
            elif axis.over == "gamma":
                theory = self._landscape(depths)
            elif axis.over == "depth":
                theory = self._over_depth(depths)
            else:
                theory = self._over_resource(axis.over, depths)
        start = {"start": self.start.facts(), "unit": axis.time} if axis.over == "time" else {}
        self.output.write(
            Curve(
                facts={
                    "lab": "deep_icl",
                    "command": "solve",
                    "task": self.task.facts(),
                    "over": axis.over,
                    "depths": [None if math.isinf(d) else int(d) for d in depths],
                    **start,
                    "theory": theory.facts,
                },
                heading=self._words(),
                columns=theory.columns,
                shown=theory.shown,
                rows=theory.rows,
                x=next(iter(theory.columns)),
                symbol=_TEX.get(axis.over, next(iter(theory.shown.values()))),
                y=r"$\mathcal{L}$",
                lines={
                    name: theory.shown[name]
                    for name in theory.columns
                    if name.startswith("loss") or name == "floor"
                },
            )
        )
        return 0

    def _depths(self) -> list[float]:
        if self.axis.depth is None:
            return list(MORE_DEPTHS if self.axis.over == "depth" else DEPTHS)
        if not self.axis.depth:
            raise ValueError("depth must be followed by one number or more")
        return list(dict.fromkeys(self.axis.depth))

    def _check(self, depths: list[float]) -> None:
        over, law = self.axis.over, self.task.law
        if law not in _LAWS.get(over, NAMES):
            allowed = [word for word in get_args(Over) if law in _LAWS.get(word, NAMES)]
            raise ValueError(
                f"over must be one of {', '.join(allowed)} for --law {law}, not {over}"
            )
        if self.axis.at is not None and over not in _LAWS:
            raise ValueError(f"at is for --over width, context or alpha, not {over}")
        given = {"width": self.task.width, "alpha": self.task.alpha}
        given["context"] = None if self.task.context == math.inf else self.task.context
        if given.get(over) is not None:
            raise ValueError(f"{over} is what --over {over} goes over: give its values to --at")
        if self.axis.at == ():
            raise ValueError("at must be followed by one number or more")
        if over != "time" and self.start != StartOptions():
            raise ValueError(f"gamma and weights are for --over time, not {over}")
        usual = TimeOptions()
        if over != "time" and (self.times.t_min, self.times.t_max) != (usual.t_min, usual.t_max):
            raise ValueError(f"t_min and t_max are for --over time, not {over}")
        if over != "time" and self.axis.time != "scalar":
            raise ValueError(f"time is for --over time, not {over}")
        for depth in depths:
            if depth != math.inf and not (depth >= 1.0 and depth % 1.0 == 0.0):
                raise ValueError(f"depth must be a whole number, at least 1, or inf, not {depth:g}")

    def _words(self) -> str:
        law, over = self.task.law, self.axis.over
        what = {"time": "gradient flow", "gamma": "landscape"}.get(over, f"optimum over {over}")
        lines = [f"deep_icl, {what}, {NAMES[law]} ({law.upper()})", self.task.words(over)]
        if over == "time":
            lines.append(f"{self.start.words()}, {self.axis.time} time")
        return "\n".join(lines)

    def _over_time(self, depths: list[float]) -> Theory:
        from solvable import deep_icl

        time, task, start = self.times.build(MAX_TIME), self.task.build(), self.start.build()
        if self.task.law == "fs" and self.task.context != math.inf:
            raise ValueError("context must be inf for the flow of --law fs; see solvable train")
        loss = deep_icl.loss_curve(task, time, depths, start=start, time=self.axis.time)
        columns, shown = _by_depth({"time": time}, {"time": "t"}, loss, depths)
        return self._told(task, depths, columns, shown)

    def _landscape(self, depths: list[float]) -> Theory:
        import numpy as np

        from solvable import deep_icl

        task, points = self.task.build(), self.times.count()
        if math.inf in depths:
            raise ValueError("depth must be finite for --over gamma, which is γ/L, not inf")
        step_size = np.linspace(0.0, 2.0 / float(deep_icl.edge(task)), points)
        # Of a fixed structure a row would be Γ's diagonal: here all its entries are γ.
        rows = step_size if self.task.law != "fs" else np.outer(step_size, np.ones(task.dim))
        loss = deep_icl.loss(task, step_size=rows, depth=depths)
        columns, shown = _by_depth(
            {"step_size": step_size.tolist()}, {"step_size": "γ/L"}, loss, depths
        )
        return self._told(task, depths, columns, shown)

    def _over_depth(self, depths: list[float]) -> Theory:
        from solvable import deep_icl

        task = self.task.build()
        best = deep_icl.optimum(task, depths)
        columns: dict[str, Any] = {"depth": [_whole(depth) for depth in depths]}
        shown = {"depth": "L"}
        if self.task.law != "fs":
            pairs = zip(best.gamma.tolist(), depths, strict=True)
            load = [_load(task, gamma, depth) for gamma, depth in pairs]
            columns |= {"gamma": best.gamma.tolist(), "load": load}
            shown |= {"gamma": "γ*", "load": "γ*·edge/L"}
        columns["loss"], shown["loss"] = best.loss.tolist(), "loss at γ*"
        if self.task.law == "rrs":
            columns["floor"] = deep_icl.floor(task, "depth", depth=depths).tolist()
            shown["floor"] = "depth alone"
        facts, words = self._facts(task)
        return Theory(columns, shown, facts, _remarks(words))

    def _over_resource(self, over: str, depths: list[float]) -> Theory:
        import numpy as np

        from solvable import deep_icl

        at = self.axis.at or self._usual(over)
        places: list[Any] = list(at) if over == "alpha" else [_whole(x) for x in at]
        tasks = [self.task.build(**{over: x}) for x in places]
        loss = np.asarray([deep_icl.optimum(task, depths).loss for task in tasks])
        columns, shown = _by_depth({over: places}, {over: _SYMBOLS[over]}, loss, depths)
        if self.task.law == "rrs":
            limit: Any = over
            floors = [deep_icl.floor(task, limit).item() for task in tasks]
            columns["floor"], shown["floor"] = floors, f"{over} alone"
        facts, words = self._facts(None)
        return Theory(columns, shown, facts, _remarks(words) if words else None)

    def _usual(self, over: str) -> Sequence[float]:
        if over == "alpha":
            return ALPHAS
        dim = self.task.facts()["dim"]
        most = dim if over == "width" else 8 * dim
        powers = [float(2**k) for k in range(2, 30) if 2**k < most]
        return [*powers, float(most)]

    def _told(
        self, task: Any, depths: list[float], columns: dict[str, Any], shown: dict[str, str]
    ) -> Theory:
        """A curve with the optimum of every depth, and the other facts."""
        from solvable import deep_icl

        facts, words = self._facts(task)
        if self.task.law == "fs":  # γ* is a row, and of finite contexts takes its time
            return Theory(columns, shown, facts, _remarks(words))
        best = deep_icl.optimum(task, depths)
        facts["optimum"] = [
            {
                "depth": _whole(depth),
                "gamma": gamma,
                "load": _load(task, gamma, depth),
                "loss": loss,
            }
            for depth, gamma, loss in zip(
                depths, best.gamma.tolist(), best.loss.tolist(), strict=True
            )
        ]
        rows = [tuple(_word(value) for value in each.values()) for each in facts["optimum"]]
        headings = ("L", "γ*", "γ*·edge/L", "loss at γ*")
        return Theory(columns, shown, facts, Rows(headings, rows, _remarks(words).remark))

    def _facts(self, task: Any) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        """What the closed forms tell beside the curve, and the same in words."""
        from solvable import deep_icl

        facts: dict[str, Any] = {}
        words = []
        if task is not None:
            facts["edge"] = deep_icl.edge(task).item()
            words.append(("edge of the spectrum", f"{facts['edge']:.5g}; stable for γ < 2L/edge"))
        if self.task.law != "rrs":
            return facts, words
        if task is not None:
            facts["floors"] = _floors(task)
            left = [f"{name} {_word(x)}" for name, x in facts["floors"].items() if x is not None]
            words.append(("loss that is left by", ", ".join(left) or "nothing but depth and time"))
        given = self.task.facts()
        powers = deep_icl.exponents(given["nu"], given["beta"], self.axis.time)
        names = ("time", "depth", "width", "context")
        told = {name: getattr(powers, name) for name in names}
        if self.start.weights is not None:
            told["time"] = deep_icl.attention_time_exponent(given["beta"])
        else:
            told["compute"] = powers.compute()
        facts["exponents"] = told
        caps = {"width": 1.0, "context": 2.0}
        capped = {name for name in caps if given["beta"] > caps[name]}
        each = [f"{n} {told[n]:.5g}{' (capped)' if n in capped else ''}" for n in names]
        words.append(("exponents", ", ".join(each)))
        if "compute" in told:
            words.append(("exponent of compute t·N²·L", f"{told['compute']:.5g}"))
        return facts, words


def _remarks(words: list[tuple[str, str]]) -> Rows:
    """Facts to read, a line each."""
    return Rows((), (), "\n".join(f"{name}: {value}" for name, value in words))


def _floors(task: Any) -> dict[str, float | None]:
    """What width and context leave; None where they are not limited."""
    from solvable import deep_icl

    narrow, short = task.width < task.dim, task.context is not None
    both = narrow and short and task.context > task.width + 1
    asked: dict[Any, bool] = {"width": narrow, "context": short, "both": both}
    return {
        name: deep_icl.floor(task, name).item() if wanted else None
        for name, wanted in asked.items()
    }


def _by_depth(
    columns: dict[str, Any], shown: dict[str, str], loss: Any, depths: list[float]
) -> tuple[dict[str, Any], dict[str, str]]:
    """A column `loss`, or loss_1, loss_2 …, one a depth."""
    values = loss.T.tolist()
    if len(depths) == 1:
        return columns | {"loss": values[0]}, shown | {"loss": f"L = {depths[0]:g}"}
    for depth, each in zip(depths, values, strict=True):
        columns[f"loss_{depth:g}"], shown[f"loss_{depth:g}"] = each, f"L = {depth:g}"
    return columns, shown


def _whole(value: float) -> int | float:
    """Without a decimal point where it can do without."""
    return int(value) if math.isfinite(value) and value == round(value) else value


def _load(task: Any, gamma: float, depth: float) -> float:
    """γ·edge/L, stable below 2; no number where the depth is infinite."""
    from solvable import deep_icl

    return math.nan if math.isinf(depth) else gamma * float(deep_icl.edge(task)) / depth


def _word(value: int | float) -> str:
    if math.isnan(value):
        return ""
    return str(value) if isinstance(value, int) else f"{value:.5g}"
