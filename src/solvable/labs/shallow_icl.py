"""What can be asked of attention that learns in-context regression, and who answers."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..asking import Axes, Lab, Witness
from ..papers import PAPERS
from ..question import GIVEN, Group, Question, flag, parameters, real, whole, word
from ..schedule import Even, Times

DIM = 4
SEQUENCES = 400
MOST = 10**9  # of what has an axis in memory
MODELS = ("separate", "merged", "mlp")
CLEAR = 1.3  # margin from which two heads are told apart
SMALL = 0.01  # of a scale in the paper's units, up to which heads leave one by one


@dataclass(frozen=True)
class Task(Group):
    """The data law: in-context linear regression."""

    dim: int | None = whole(
        None, "D", "dimension D of the tokens", 1, MOST, told=f"{DIM}, or as many as eigenvalues"
    )
    context: int | float = whole(
        31, "N", "number N of examples in the context", 1, 10**15, endless=True
    )
    eigenvalues: float | tuple[float, ...] | None = real(
        None, "λ", "the eigenvalues of Λ, instead of a spectrum", 1e-12, 1e6, row=True
    )
    spectrum: Literal["linear", "white", "power"] | None = word(
        None,
        "eigenvalues of Λ, of sum 1: ∝ D … 1, all equal, or ∝ d^-exponent",
        by=("eigenvalues", {None: "linear"}),
    )
    exponent: float | None = real(
        None, "a", "exponent of the power spectrum", 0.0, 20.0, by=("spectrum", {"power": 1.0})
    )
    noise: float = real(
        0.0,
        "σ",
        "standard deviation of the noise on the context's labels",
        0.0,
        1e6,
        quiet=True,
    )
    in_context: float = real(
        1.0,
        "f",
        "fraction of sequences with a fresh task vector; the others share one",
        0.0,
        1.0,
        quiet=True,
    )
    labels: Literal["task", "noise"] = word(
        "task",
        "what the context's labels are; noise, which says nothing, needs --in-context 0",
        quiet=True,
    )
    lengths: Literal["fixed", "varied"] = word(
        "fixed", "contexts of N examples, or the average over those of 1 to N", quiet=True
    )
    normalise: Literal["n", "n-1"] | None = word(
        None,
        "what varied lengths are divided by: with the query counted, as in the code, or without",
        by=("lengths", {"varied": "n"}),
        quiet=True,
    )
    outputs: int = whole(1, "D_y", "labels of a token", 1, MOST, quiet=True)

    def implied(self) -> dict[str, Any]:
        """As many dimensions as there are eigenvalues, the largest first."""
        if self.eigenvalues is None:
            return {"dim": DIM if self.dim is None else self.dim}
        given = self.eigenvalues if isinstance(self.eigenvalues, tuple) else (self.eigenvalues,)
        if self.dim not in (None, len(given)):
            raise ValueError(f"dim must be {len(given)}, one an eigenvalue, not {self.dim}")
        return {"dim": len(given), "eigenvalues": tuple(sorted(given, reverse=True))}


def _by_model(linear: dict[str, Any], softmax: dict[str, Any]) -> Any:
    """A default for each model with linear attention, and for those that can have softmax."""
    kinds = {"linear": linear, "softmax": softmax}
    return (
        ("model", "attention"),
        {(model, kind): x for kind, defaults in kinds.items() for model, x in defaults.items()},
    )


# The settings of Fig. 3 and of Fig. 1, in the code's units. Softmax attention, an average and not a
# sum over the tokens, takes a larger rate; from a smaller scale the sample's own mean drives it
# first, and there are two drops.
_SCALES = {"separate": 1e-2, "merged": 1e-6, "mlp": 1e-6}
_RATES = {"separate": 0.02, "merged": 1e-3, "mlp": 1e-3}
_STEPS = {"separate": 10_000, "merged": 6_000, "mlp": 6_000}


@dataclass(frozen=True)
class Start(Group):
    """The model, and where it starts."""

    model: Literal["separate", "merged", "mlp"] = word(
        "separate", "attention with separate or merged key and query, or the MLP on cubic features"
    )
    attention: Literal["linear", "softmax"] = word(
        "linear", "softmax attention is trained on sequences only, and has no theory", quiet=True
    )
    heads: int | None = whole(
        None,
        "H",
        "heads H, or the width of the mlp",
        1,
        MOST,
        by=("model", {"separate": 5, "merged": 8, "mlp": 8}),
    )
    rank: int | None = whole(
        None, "R", "rank R of key and query, for separate", 1, MOST, by=("model", {"separate": 1})
    )
    scale: float | None = real(
        None,
        "s",
        "size of the first weights",
        0.0,
        1e3,
        open_low=True,
        by=_by_model(_SCALES, {"separate": 1e-2, "merged": 0.03}),
        told="0.01 for separate, else 1e-6; 0.03 for merged softmax",
    )
    init: Literal["A", "B", "C", "D"] | None = word(
        None,
        "how the published code scaled them, in four versions, for separate",
        by=("model", {"separate": "A"}),
        quiet=True,
    )

    def implied(self) -> dict[str, Any]:
        """Nothing; the MLP has no attention."""
        if (self.model, self.attention) == ("mlp", "softmax"):
            raise ValueError("attention must be linear for model mlp, not softmax")
        return {}


def _of_sample(doc: str) -> Any:
    return flag(doc, None, by=("sequences", {GIVEN: False}))


@dataclass(frozen=True)
class Sample(Group):
    """What it is trained on: the population, infinitely many sequences, unless told otherwise."""

    sequences: int | None = whole(
        None,
        "P",
        "number P of sampled sequences",
        1,
        10**15,
        by=("attention", {"linear": None, "softmax": SEQUENCES}),
        told=f"the population; softmax: {SEQUENCES}",
    )
    data_seed: int | None = whole(
        None, "data seed", "seed of the sequences", by=("sequences", {GIVEN: 0}), quiet=True
    )
    antithetic: bool | None = _of_sample("draw them in pairs with opposite labels")
    query_flip: bool | None = _of_sample("draw each with its copy at the opposite query")
    centred: bool | None = _of_sample("take its mean from every token, as the published code does")
    whitened: bool | None = _of_sample(
        "make the sample of task vectors exactly white, as the published code does"
    )


@dataclass(frozen=True)
class Descent(Even):
    """Gradient descent; t/τ = 2 × lr × step in the paper's units."""

    lr: float | None = real(
        None,
        "η",
        "learning rate η",
        0.0,
        open_low=True,
        by=_by_model(_RATES, {"separate": 0.3, "merged": 0.1}),
        told="0.02 for separate, else 1e-3; softmax: 0.3 for separate, 0.1 for merged",
    )
    steps: int | None = whole(  # pyright: ignore[reportIncompatibleVariableOverride]
        None,
        "",
        "number of steps",
        quiet=True,
        by=_by_model(_STEPS, {"separate": 2_000, "merged": 2_000}),
        told="10000 for separate, else 6000; softmax: 2000",
    )
    units: Literal["code", "paper"] | None = word(
        None,
        "of scale and lr: attention without 1/N, as in the published code, or with, as in the "
        "paper",
        by=("context", {GIVEN: "code", None: "paper"}),
        told="code; paper where N has no end",
    )
    blocks: Literal["all", "zero", "aligned"] | None = word(
        None,
        "weights that are trained; zero keeps 𝐯, u and κ at zero, aligned follows merged attention "
        "in D + 1 numbers",
        told="all on sequences, zero on the population",
    )
    seed: int = whole(0, "seed", "seed of the first weights", quiet=True)


@dataclass(frozen=True)
class Asked(Question):
    """All that can be asked of shallow_icl."""

    task: Task = field(default_factory=Task)
    start: Start = field(default_factory=Start)
    sample: Sample = field(default_factory=Sample)
    schedule: Descent = field(default_factory=Descent)


@dataclass(frozen=True)
class Flow(Times):
    """When it is looked at, in t/τ: evenly spaced as long as train lasts, or in log t."""

    t_min: float | None = real(  # pyright: ignore[reportIncompatibleVariableOverride]
        None,
        "",
        "first time t/τ, from which times are evenly spaced in log t/τ",
        0.0,
        1e300,
        open_low=True,
        told="0, and evenly spaced",
    )
    t_max: float | None = real(  # pyright: ignore[reportIncompatibleVariableOverride]
        None,
        "",
        "last time t/τ, above the first",
        0.0,
        1e300,
        open_low=True,
        told="the end of train, 2 × lr × steps in the paper's units",
    )
    points: int = whole(401, "", "number of times", 2)

    def __post_init__(self) -> None:
        limits = parameters(type(self))
        first = limits["t_min"].checked("t_min", self.t_min) or 0.0
        replace(limits["t_max"], low=first).checked("t_max", self.t_max)
        Group.__post_init__(self)

    def of(self, question: Any) -> "Flow":
        """To the end of training, unless told otherwise."""
        if self.t_max is not None:
            return self
        from ..shallow_icl.witnesses import pace

        return replace(self, t_max=pace(question) * max(1, question.schedule.steps))

    def grid(self) -> list[float]:
        """The times; the first and the last are exactly those asked for."""
        if self.t_min is not None:
            return super().grid()
        import numpy as np

        from .. import memory

        memory.refuse("points", self.points, 1000.0 * self.points)
        return np.linspace(0.0, self.t_max or 0.0, self.points).tolist()


def _name(q: Asked) -> str:
    """``separate linear attention``, ``MLP``."""
    return "MLP" if q.start.model == "mlp" else f"{q.start.model} {q.start.attention} attention"


def _sequences(q: Asked) -> str:
    """``the population``, ``5000 antithetic sequences``."""
    count = q.sample.sequences
    if count is None:
        return "the population"
    kinds = ("antithetic", "query_flip", "centred", "whitened")
    named = [kind.replace("_", "-") for kind in kinds if getattr(q.sample, kind)]
    return " ".join([str(count), *named, "sequence" + "s" * (count != 1)])


_SPACES = {"zero": "zero blocks", "aligned": "aligned reduction"}


def _solved(q: Asked) -> str:
    how = f" ({_SPACES[q.schedule.blocks]})" if q.schedule.blocks in _SPACES else ""
    return f"gradient flow of {_name(q)} on {_sequences(q)}{how}"


def _trained(q: Asked) -> str:
    space = _SPACES.get(q.schedule.blocks or "", "exact reduction")
    if q.start.attention == "softmax":
        space = "the queries' rows" if q.task.lengths == "varied" else "the query's row"
    return f"{_name(q)} on {_sequences(q)} ({space})"


def _remark(q: Asked) -> str:
    """What predicted drops are worth, and whether there are any."""
    from ..shallow_icl.witnesses import drops_of

    drops = drops_of(q)
    if drops is None:
        return ""
    told = []
    if drops.margin.min() < CLEAR:
        told.append(
            f"drops with a margin below {CLEAR}: two heads grow nearly together, and what follows "
            "may be off"
        )
    if drops.factor * (q.start.scale or math.inf) > SMALL:
        told.append(
            "drops are predicted for smaller scales: at this one heads may leave as mixtures"
        )
    last, first = q.schedule.steps or 0, drops.steps(q.schedule.lr).min()
    if last < first:
        told.append(
            f"the first drop is predicted at step {first:.5g}, t/τ = {drops.time.min():.5g}, which "
            f"is later than {last} steps"
        )
    return "\n".join(told)


_FLOW = ("lr", "steps", "units", "blocks", "seed")
_UNKNOWN = "simulations, of which only the numbers are known"

LAB = Lab(
    paper=PAPERS["shallow_icl"],
    question=Asked,
    module="solvable.shallow_icl.witnesses",
    witnesses={
        "theory": Witness(
            "gradient flow, and on the population the plateaus of separate attention",
            ("task", "start", "sample", *_FLOW),
            only={"attention": ("linear",)},
            told=_solved,
            remark=_remark,
        ),
        "reduced": Witness(
            "trained in its smallest exact state space",
            ("task", "start", "sample", "schedule"),
            trains=True,
            told=_trained,
        ),
        "tokens": Witness(
            "the whole attention block trained on tokens",
            ("task", "start", "sample", "schedule"),
            trains=True,
            only={"blocks": (None, "all")},
            needs={"sequences": SEQUENCES},
            told=lambda q: f"{_name(q)} on {_sequences(q)} (brute force)",
        ),
    },
    shown={
        "time": "t/τ",
        "loss": "L(t)",
        "staircase": "staircase",
        "learned": "learned",
        "plateau": "plateau",
        "eigenvalue": "eigenvalue",
        "drop_time": "drop at t/τ",
        "drop_step": "step",
        "margin": "margin",
    },
    axes=(Axes(log="", beside=("staircase",), levels=("plateau",)),),
    times=Flow(),
    figures="solvable.shallow_icl.figures:FIGURES",
    showcase={
        "dim": 3,
        "context": 15,
        "sequences": 2000,
        "centred": True,
        "whitened": True,
        "scale": 0.05,
        "lr": 0.03,
        "steps": 2_000,
    },
    absent=dict.fromkeys(("Fig. 7", "Fig. 8", "Fig. 10", "Fig. 13"), _UNKNOWN),
)
"""What the commands offer for the shallow_icl lab."""
