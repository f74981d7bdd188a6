"""What can be asked of deep linear attention in context, and who answers."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from ..asking import Axes, Lab, LabLaw, Witness
from ..papers import PAPERS
from ..question import GIVEN, Group, Question, file, real, whole, word
from ..schedule import Schedule, Times

NAMES = {"rrs": "rotated structure", "fs": "fixed structure", "iso": "isotropic covariates"}
DEPTH = 8
STEPS, FEW_STEPS = 2000, 200  # the latter where a step takes its time
ALPHAS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def _power(value: Any) -> Any:
    """The default of what a power law has: not where a spectrum is given, nor for iso."""
    return (("law", "spectrum"), {("rrs", None): value, ("fs", None): value})


@dataclass(frozen=True)
class Task(Group):
    """The context law: how covariates and task vectors are drawn."""

    law: Literal["rrs", "fs", "iso"] = word(
        "rrs",
        "a covariance rotated from context to context, one for all (fs), or isotropic covariates",
        quiet=True,
    )
    spectrum: str | None = file(
        "a spectrum of your own, of rrs or fs: a CSV table with the columns lam and omega, or lam "
        "and share, the row's part of E y²; weight, if there, is how many directions a row has",
        by=("law", {"rrs": None, "fs": None}),
    )
    nu: float | None = real(
        None,
        "ν",
        "capacity exponent ν of the eigenvalues λ_k = k^-ν",
        0.0,
        20.0,
        open_low=True,
        by=_power(1.5),
        told="1.5",
    )
    beta: float | None = real(
        None,
        "β",
        "source exponent β of the tasks, ω_k λ_k ∝ k^-(νβ+1)",
        0.0,
        20.0,
        open_low=True,
        by=_power(0.8),
        told="0.8",
    )
    dim: int | None = whole(
        None,
        "D",
        "dimension D",
        1,
        10**15,
        by=(
            ("law", "spectrum"),
            {("rrs", None): 64, ("fs", None): 64, ("iso", None): None},
        ),
        told="64; iso: without end",
    )
    width: int | tuple[int, ...] | None = whole(
        None,
        "N",
        "width N of attention, for rrs",
        1,
        10**15,
        by=("law", {"rrs": None}),
        told="D",
        spread=True,
    )
    context: int | float | tuple[int | float, ...] | None = whole(
        None,
        "P",
        "context length P of rrs and fs",
        1,
        10**12,
        by=("law", {"rrs": math.inf, "fs": math.inf}),
        told="inf",
        endless=True,
        spread=True,
    )
    alpha: float | tuple[float, ...] | None = real(
        None,
        "α",
        "α = P/D of iso",
        0.0,
        1e8,
        open_low=True,
        by=("law", {"iso": 2.0}),
        spread=True,
    )
    noise: float = real(
        0.0, "σ", "standard deviation σ of the noise on the context's labels", 0.0, 1e6
    )


@dataclass(frozen=True)
class Model(Group):
    """The layers, and what the best γ is the best of."""

    depth: int | float | tuple[int | float, ...] | None = whole(
        None, "L", "depth L", 1, 10**7, endless=True, spread=True, told=f"1 2 4 8; trained: {DEPTH}"
    )
    layers: Literal["tied", "untied"] = word(
        "tied", "one γ for all layers, or one for each, which moves with L × lr", quiet=True
    )
    draws: int | None = whole(
        None,
        "",
        "optimum of the mean over so many drawn contexts, told on fresh ones (2000 are enough for "
        "D up to 32, 300 for D = 100; fewer may leave rare contexts in); of the typical "
        "context unless given",
        1,
        10**7,
    )
    margin: float | None = real(
        None,
        "m",
        "optimum that stays this far from the edge of stability, in its fluctuations; 1.2 is "
        "fair, 2 safe",
        0.0,
        100.0,
    )

    def implied(self) -> dict[str, Any]:
        """One depth, where none is given and nobody goes over several."""
        if self.draws is not None and self.margin is not None:
            raise ValueError("draws and margin cannot both be given")
        if self.layers == "untied" and self.margin is not None:
            raise ValueError("margin is for layers tied, not untied: for those there is draws")
        return {"depth": DEPTH if self.depth is None else self.depth}


@dataclass(frozen=True)
class Start(Group):
    """Where training starts, and so what is trained: Γ = γI from 0 unless told otherwise."""

    gamma: float | tuple[float, ...] | None = real(
        None,
        "γ",
        "γ at the start; of untied layers one each, or one for all",
        -1e6,
        1e12,
        row=True,
        told="0",
    )
    weights: float | None = real(
        None,
        "w",
        "train full attention instead, from balanced weights (√2 w, w, w, w), γ = w_x² w_q w_k w_v",
        -1e3,
        1e3,
    )

    def implied(self) -> dict[str, Any]:
        """Γ from 0, unless something is given."""
        if self.gamma is not None and self.weights is not None:
            raise ValueError("gamma and weights cannot both be given")
        return {"gamma": 0.0} if self.gamma is None and self.weights is None else {}


_EITHER = (None, GIVEN)


@dataclass(frozen=True)
class Sample(Group):
    """Training on contexts: fresh ones at every step."""

    queries: int | None = whole(
        None,
        "K",
        "number K of queries a context; the mean over all of them unless given",
        1,
        10**12,
    )
    contexts: int | None = whole(
        None,
        "B",
        "number B of contexts a step",
        1,
        10**7,
        by=(
            ("law", "context", "queries"),
            # With one law of endless contexts, and all queries, there is nothing to draw.
            {
                (law, context, queries): 64
                for law in NAMES
                for context in _EITHER
                for queries in _EITHER
                if (law, context, queries) != ("fs", None, None)
            },
        ),
        told="64",
    )


@dataclass(frozen=True)
class Descent(Schedule):
    """Gradient descent; t = lr × step."""

    lr: float | None = real(
        None,
        "η",
        "step size",
        0.0,
        open_low=True,
        by=("weights", {None: 0.5, GIVEN: 0.02}),
        told="0.5; with --weights 0.02",
    )
    steps: int | None = whole(  # pyright: ignore[reportIncompatibleVariableOverride]
        None,
        "",
        "number of steps",
        quiet=True,
        by=(
            ("width", "context"),
            {
                (width, context): STEPS if width == context else FEW_STEPS
                for width in _EITHER
                for context in _EITHER
            }
            | {(GIVEN, GIVEN): FEW_STEPS},
        ),
        told=f"{STEPS}; {FEW_STEPS} on contexts, and with --width or --context",
    )
    time: Literal["scalar", "matrix"] = word(
        "scalar",
        "unit of t and lr: that of dγ/dt = -dL/dγ, or of the N × N matrix Γ, N times as slow",
        quiet=True,
    )
    seed: int = whole(0, "", "seed of the contexts", quiet=True)


@dataclass(frozen=True)
class Asked(Question):
    """All that can be asked of deep_icl."""

    task: Task = field(default_factory=Task)
    model: Model = field(default_factory=Model)
    start: Start = field(default_factory=Start)
    sample: Sample = field(default_factory=Sample)
    schedule: Descent = field(default_factory=Descent)


@dataclass(frozen=True)
class Flow(Times):
    """Where it is looked at: times evenly spaced in log t, or values of γ/L up to the edge."""

    t_min: float = real(1e-2, "", "first time t", 0.0, 1e300, open_low=True)
    t_max: float = real(1e4, "", "last time t, above the first", 0.0, 1e300, open_low=True)
    points: int = whole(50, "", "number of times, or of values of γ/L", 2)


def dim_of(q: Asked) -> int:
    """D of a settled question of rrs or fs."""
    if q.task.spectrum is None:
        return q.task.dim or 0
    from ..deep_icl.witnesses import measured

    return int(measured(q).dim)


def _powers(times: int) -> Callable[[Asked], tuple[int, ...]]:
    """Powers of 2 up to some times the dimension, and that."""

    def values(q: Asked) -> tuple[int, ...]:
        most = max(1, times * dim_of(q))
        return (*(2**k for k in range(2, 60) if 2**k < most), most)

    return values


def _least(value: Any) -> int | float:
    """The smallest of one value or several; infinity where none is given."""
    return min(value) if isinstance(value, tuple) else math.inf if value is None else value


def _is_limited(q: Asked) -> bool:
    """Whether width or context are finite, so that the theory is an equivalent."""
    return min(_least(q.task.width), _least(q.task.context)) < math.inf


def _law(q: Asked) -> str:
    return f"{NAMES[q.task.law]} ({q.task.law.upper()})"


def _own(q: Asked) -> str:
    return " of untied layers" * (q.model.layers == "untied")


def _trained(q: Asked) -> str:
    what = "full attention" if q.start.weights is not None else "preconditioner Γ"
    exact = "exact reduction as D → ∞" if q.task.law == "iso" else "exact reduction"
    equivalent = q.model.depth != 1 and _is_limited(q)
    return f"{what}, {_law(q)}, {'deterministic equivalent' if equivalent else exact}"


def _on_contexts(q: Asked) -> str:
    what = "full attention" if q.start.weights is not None else "matrix Γ"
    drawn = q.sample.contexts
    how = "exact gradient" if drawn is None else f"{drawn} contexts a step, seed {q.schedule.seed}"
    return f"{what}, {_law(q)}, {how}"


def _apart(q: Asked) -> str:
    """Why training on contexts is another dynamics than that of the mean loss, if it is."""
    if q.sample.contexts is None:
        return ""
    words = "its contexts are drawn: their noise moves the mean loss, by about lr/contexts"
    typical = "; and at finite N and P the reduced is off by O(1/N, 1/P)"
    return words + (typical if _is_limited(q) else "")


def _remark(q: Asked) -> str:
    """What γ, lr and t are at N < D: up to version 0.1 they were those of Γ = γ Π."""
    narrow = _least(q.task.width) < (q.task.dim or math.inf)
    return "γ, lr and t are those of Γ = γ (D/N) Π" if narrow else ""


def _remark_trained(q: Asked) -> str:
    if q.model.layers == "untied" and not isinstance(q.start.gamma, tuple):
        return "equal layers stay equal: give --gamma one value each to let them part"
    return _remark(q)


def _remark_best(q: Asked) -> str:
    told = [word for word in (_remark(q),) if word]
    deepest = max(q.model.depth) if isinstance(q.model.depth, tuple) else q.model.depth or 0
    untied, alike = q.model.layers == "untied", q.task.law == "rrs" and not _is_limited(q)
    if untied and deepest > _ROUNDED and alike:
        told.append(f"beyond about {_ROUNDED} layers double precision cannot hold the best γ")
    if _is_limited(q) and q.model.draws is None and q.model.depth != 1:
        ways = "--draws" if untied else "--margin, --draws"
        hint = f": rare ones may diverge ({ways})" if q.model.margin is None else ""
        told.append(f"loss of the typical context{hint}")
    if untied and (_is_limited(q) or (q.task.law == "iso" and q.task.noise > 0.0)):
        told.append("best p: the polynomial, which real γ reach where its zeros are real")
    return "\n".join(told)


_ROUNDED = 13
_TRAINS = ("task", "model", "start", "lr", "steps", "time", "log_every", "log_points")
_TIED = {"layers": ("tied",), "draws": (None,), "margin": (None,)}
_NO_BEST = {"draws": (None,), "margin": (None,)}
_DEPTHS = (1, 2, 4, 8)

LAB = Lab(
    paper=PAPERS["deep_icl"],
    question=Asked,
    module="solvable.deep_icl.witnesses",
    witnesses={
        "theory": Witness(
            "gradient flow, by quadrature",
            ("task", "depth", "layers", "start", "time"),
            only=_NO_BEST,
            over={"depth": _DEPTHS},
            told=lambda q: f"gradient flow{_own(q)}, {_law(q)}",
            remark=_remark,
        ),
        "landscape": Witness(
            "the loss over γ/L, up to the edge of stability",
            ("task", "depth"),
            only=_TIED,
            axis="step_size",
            over={"depth": _DEPTHS},
            smooth=("nu", "beta"),
            told=lambda q: f"landscape, {_law(q)}",
            remark=_remark,
        ),
        "optimum": Witness(
            "the loss at the best γ",
            ("task", "model", "seed"),
            axis="",
            over={
                "width": _powers(1),
                "context": _powers(8),
                "alpha": ALPHAS,
                "depth": (1, 2, 4, 8, 16, 32),
            },
            told=lambda q: f"optimum{_own(q)}, {_law(q)}",
            remark=_remark_best,
        ),
        "reduced": Witness(
            "trained in its exact small state space",
            _TRAINS,
            trains=True,
            only=_NO_BEST,
            told=_trained,
            remark=_remark_trained,
        ),
        "tokens": Witness(
            "matrices trained on contexts",
            ("task", "model", "start", "sample", "schedule"),
            trains=True,
            only=_NO_BEST,
            in_law=("contexts",),
            usual={"steps": FEW_STEPS},
            apart=_apart,
            told=_on_contexts,
            remark=_remark,
        ),
    },
    shown={
        "step_size": "γ/L",
        "best_gamma": "γ*",
        "load": "γ*·edge/L",
        "loss": "loss",
        "error": "± error",
        "typical": "median",
        "rounded": "at rounded γ",
        "bound": "best p",
        "best_loss": "loss at γ*",
        "floor": "floor",
        "gamma": "γ",
        "mean_gamma": "mean γ",
        "w_x": "w_x",
        "w_v": "w_v",  # four would be too wide
    },
    axes=(Axes(label="\\mathcal{L}", beside=("floor",)),),
    times=Flow(),
    figures="solvable.deep_icl.figures:FIGURES",
    showcase={"law": "fs", "dim": 12, "depth": 4, "lr": 0.2, "steps": 400},
    spread={"depth": _DEPTHS},
    documented=("gamma",),
    law=LabLaw(
        make="solvable.deep_icl:curve_law",
        resources=("t", "L", "N", "P"),
        cost="t*N**2*L",
        exponents={"nu": 1.5, "beta": 0.8},
        settings={"dim": 10**4},
        words={
            "nu": "capacity exponent ν",
            "beta": "source exponent β",
            "dim": "dimension D",
        },
        limits={"nu": (0.05, 4.0)},
        remark="by the sum of four laws, each of one resource alone; deep_icl.optimal_shape in "
        "Python has the model's own loss, about half of it, and its best shape",
    ),
)
