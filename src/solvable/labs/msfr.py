"""What can be asked of multitask sparse feature regression, and who answers."""

from dataclasses import dataclass, field
from typing import Literal

from ..asking import Heading, Lab, LabLaw, Witness
from ..papers import PAPERS
from ..question import Group, Question, real, whole, word
from ..schedule import Schedule


@dataclass(frozen=True)
class Task(Group):
    """The data law: multitask sparse feature regression."""

    num_tasks: int = whole(500, "S", "number of tasks S (the paper's N_s)", 1, 2**53)
    alpha: float = real(1.8, "α", "exponent α of the task law p_s ∝ s^-α", 1.0, 10.0, open_low=True)
    context: float = real(
        100.0, "ψ₁", "context length ψ_1 of the first task", 0.0, 1e9, open_low=True
    )
    strength: float = real(0.5, "Λ₁", "strength Λ_1 of the first task", -1e6, 1e6)
    beta: float = real(
        0.0, "β", "decay β of the context lengths ψ_s = ψ_1 s^-β", 0.0, 100.0, quiet=True
    )
    gamma: float = real(0.0, "γ", "decay γ of the strengths Λ_s = Λ_1 s^-γ", 0.0, 100.0, quiet=True)


@dataclass(frozen=True)
class Start(Group):
    """Where attention starts."""

    attention: Literal["linear", "softmax"] = word(
        "linear",
        "linear attention starts at v, w, softmax attention at value, key, query",
        quiet=True,
    )
    v: float | None = real(
        None, "v", "start of every entry of V", -1e3, 1e3, by=("attention", {"linear": 0.1})
    )
    w: float | None = real(
        None, "w", "start of every entry of W", -1e3, 1e3, by=("attention", {"linear": 0.11})
    )
    value: float | None = real(
        None, "V", "start of every entry of V", -1e3, 1e3, by=("attention", {"softmax": 0.1})
    )
    key: float | None = real(
        None, "W_K", "start of every entry of W_K", -1e3, 1e3, by=("attention", {"softmax": 0.1})
    )
    query: float | None = real(
        None, "W_Q", "start of every entry of W_Q", -1e3, 1e3, by=("attention", {"softmax": 0.11})
    )


@dataclass(frozen=True)
class Limits(Group):
    """What is limited besides time."""

    size: int | None = whole(None, "D", "model size D, to S + 1; the whole model unless given", 1)
    data: int | None = whole(None, "N", "number of data N; unlimited unless given", 1)
    batch: int | None = whole(
        None,
        "B",
        "mini-batch size B, drawn afresh at every step, or with data from the data set, each datum "
        "once an epoch; none unless given",
        1,
    )


@dataclass(frozen=True)
class Theory(Group):
    """How far the closed form goes."""

    order: Literal["exact", "zeroth", "first"] = word(
        "exact",
        "exact at every context length ψ, or the expansion in 1/ψ (Theorem 3.1, App. J)",
        quiet=True,
    )


@dataclass(frozen=True)
class Descent(Schedule):
    """How it is trained; for gd, t = lr × step."""

    optimizer: Literal["gd", "adamw"] = word(
        "gd", "gradient descent, or AdamW with the paper's constants (Table 4)", quiet=True
    )
    lr: float | None = real(
        None,
        "η",
        "learning rate",
        0.0,
        open_low=True,
        by=("optimizer", {"gd": 1e-3, "adamw": 5e-3}),
    )
    seed: int = whole(0, "", "seed of the data set and of the mini-batches", quiet=True)


@dataclass(frozen=True)
class Asked(Question):
    """All that can be asked of msfr."""

    task: Task = field(default_factory=Task)
    start: Start = field(default_factory=Start)
    limits: Limits = field(default_factory=Limits)
    theory: Theory = field(default_factory=Theory)
    schedule: Descent = field(default_factory=Descent)


STILL = 10.0  # of u and u − d: beyond, softmax attention's keys move by less than steps are worth


def attention_of(q: Asked) -> tuple[float, float]:
    """The smallest |u| and |u − d| of all tasks, as softmax attention starts.

    A context token of the query's sign has ``u = (K_s + Λ_s K_y)·Q_s`` in the exponent, the query's
    own ``d = K_s·Q_s``.
    """
    own = (q.task.num_tasks + 1.0) * (q.start.key or 0.0) * (q.start.query or 0.0)
    ends = q.task.strength, q.task.strength * float(q.task.num_tasks) ** -q.task.gamma
    first, last = (own * (1.0 + strength) for strength in ends)
    least = 0.0 if first * last < 0.0 else min(abs(first), abs(last))
    return least, abs(own) * abs(ends[1])


def _apart(q: Asked) -> str:
    """Why the closed form is of another dynamics than training, if it is."""
    if q.start.attention == "softmax":
        u, ahead = attention_of(q)
        words = f"its keys are at rest, and training moves them where u or u − d is below {STILL:g}"
        return f"{words}, here {u:.2g} and {ahead:.2g}" if min(u, ahead) < STILL else ""
    # On a data set contexts are whole: linear attention's theory takes them as they are.
    if q.limits.data is None or (q.task.beta == 0.0 and q.task.context % 1.0 == 0.0):
        return ""
    return "contexts must be whole where data is given, as training rounds them"


def _solved(q: Asked) -> str:
    how = {"linear": "linear attention", "softmax": "softmax attention with keys at rest"}
    return f"gradient flow on {how[q.start.attention]}, in closed form"


_TRAINED = ("task", "start", "limits", "schedule")

LAB = Lab(
    paper=PAPERS["msfr"],
    question=Asked,
    module="solvable.msfr.witnesses",
    witnesses={
        "theory": Witness(
            "gradient flow on attention, in closed form",
            ("task", "start", "size", "data", "theory"),
            only={"batch": (None,), "optimizer": ("gd",)},
            in_law=("data",),
            smooth=("alpha", "context", "strength", "v", "w"),
            apart=_apart,
            told=_solved,
        ),
        "reduced": Witness(
            "{attention} attention trained with {optimizer} (exact reduction)",
            _TRAINED,
            trains=True,
        ),
        "tokens": Witness(
            "{attention} attention trained with {optimizer} (brute force, on tokens)",
            _TRAINED,
            trains=True,
            needs={"data": 400, "batch": None},
        ),
    },
    shown={"loss": "L(t)", "train_loss": Heading("training loss", given="data")},
    figures="solvable.msfr.figures:FIGURES",
    showcase={"num_tasks": 8, "context": 12.0, "data": 400, "lr": 0.01, "steps": 400},
    law=LabLaw(
        make="solvable.msfr:curve_law",
        resources=("t", "D", "N"),
        cost="D*t",
        exponents={"alpha": 1.8, "beta": 0.0, "gamma": 0.0},
        settings={"num_tasks": 500, "context": 100.0, "strength": 0.5},
        further=("v", "w", "order"),
        words={
            "alpha": "exponent α of the task law",
            "beta": "decay β of the contexts",
            "gamma": "decay γ of the strengths",
            "num_tasks": "number of tasks S",
            "context": "context length ψ_1",
            "strength": "strength Λ_1",
        },
        limits={"alpha": (1.001, 10.0)},
        height="solvable.msfr.witnesses:height",
    ),
)
