"""What can be asked of single-location regression, and who answers."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from ..asking import Axes, Heading, Lab, Witness
from ..papers import PAPERS
from ..question import Group, Question, real, whole, word
from ..schedule import Even, Times

SCALARS = {"kappa": "κ", "nu": "ν", "theta": "θ", "eta": "η", "rho": "ρ"}
EVEN = math.sqrt(0.5)  # γ at which both kinds of token have the same mean square


@dataclass(frozen=True)
class Task(Group):
    """The data law: single-location regression."""

    # Two directions of the task, and two that k and v may have besides.
    dim: int = whole(400, "d", "dimension d of the tokens", 4, 10**9)
    length: int = whole(10, "L", "number L of tokens, of which one is informative", 1, 10**9)
    gamma: float = real(
        EVEN,
        "γ",
        "standard deviation γ of the informative token; the others have 1",
        1e-6,
        1e3,
        told="√½",
    )
    noise: float = real(0.0, "ε", "standard deviation ε of the noise on the labels", 0.0, 1e6)


def _scalar(name: str, doc: str) -> Any:
    more = "" if name != "kappa" else " of a given state; what is not given of the five is 0"
    return real(
        None,
        SCALARS[name],
        f"{SCALARS[name]} = {doc}{more}",
        -1.0,
        1.0,
        by=("start", {"state": 0.0}),
    )


@dataclass(frozen=True)
class Start(Group):
    """The attention, and where it starts: random directions, or a state by some of its scalars."""

    attention: Literal["erf", "softmax"] = word(
        "erf",
        "softmax, which the paper replaces by erf, is trained at one λ and has no theory",
        quiet=True,
    )
    start: Literal["manifold", "sphere", "state"] | None = word(
        None,
        "k and v random with θ = η = ρ = 0, or anywhere on the spheres, or the state that kappa, "
        "nu, theta, eta, rho give",
        told="manifold",
    )
    runs: int | None = whole(
        None, "runs", "number of runs", 1, by=("start", {"manifold": 5, "sphere": 5, "state": 1})
    )
    kappa: float | None = _scalar("kappa", "k·k*")
    nu: float | None = _scalar("nu", "v·v*")
    theta: float | None = _scalar("theta", "v·k*")
    eta: float | None = _scalar("eta", "k·v*")
    rho: float | None = _scalar("rho", "k·v")

    def implied(self) -> dict[str, Any]:
        """A given scalar means a given state."""
        given = any(getattr(self, name) is not None for name in SCALARS)
        if given and self.start not in (None, "state"):
            raise ValueError(f"start cannot be given with {', '.join(SCALARS)}, one or all")
        return {"start": self.start or ("state" if given else "manifold")}


@dataclass(frozen=True)
class Descent(Even):
    """Projected gradient descent of k and v, or SGD; t = lr × step."""

    lam: float = real(0.1, "λ", "inverse temperature λ", 0.0, 1e3, open_low=True)
    lam_decay: float | None = real(
        None,
        "r",
        "rate r of λ_t = λ/(1 + r × step); 0 for a constant λ",
        0.0,
        1e6,
        by=("attention", {"erf": 0.0}),
        quiet=True,
        told="0",
    )
    lr: float = real(4e-3, "α", "step size α", 0.0, open_low=True)
    steps: int = whole(20_000, "", "number of steps", quiet=True)
    batch: int | None = whole(
        None, "B", "SGD on so many fresh token matrices a step; the exact gradient unless given", 1
    )
    seed: int = whole(0, "", "seed of the starts and of the batches", quiet=True)


@dataclass(frozen=True)
class Asked(Question):
    """All that can be asked of single_location."""

    task: Task = field(default_factory=Task)
    start: Start = field(default_factory=Start)
    schedule: Descent = field(default_factory=Descent)


@dataclass(frozen=True)
class Flow(Times):
    """When it is looked at: times evenly spaced in log t; t is lr × step of train."""

    t_min: float = real(1e-3, "", "first time t", 0.0, 1e12, open_low=True)
    t_max: float = real(1e2, "", "last time t, above the first", 0.0, 1e12, open_low=True)


def _trained(q: Asked, exact: str, in_law: str) -> str:
    what = "softmax attention, " if q.start.attention == "softmax" else ""
    if q.schedule.batch is None:
        return f"{what}projected gradient descent ({exact})"
    return f"{what}mini-batch SGD ({in_law})"


_ZERO = (None, 0.0)

LAB = Lab(
    paper=PAPERS["single_location"],
    question=Asked,
    module="solvable.single_location.witnesses",
    witnesses={
        "theory": Witness(
            "gradient flow on the manifold, and what else is known at this λ",
            ("task", "start", "lam", "seed"),
            only={
                "attention": ("erf",),
                "start": ("manifold", "state"),
                "lam_decay": (0.0,),
                "batch": (None,),
                "theta": _ZERO,
                "eta": _ZERO,
                "rho": _ZERO,
            },
            smooth=("gamma", "noise", "lam", "kappa", "nu"),
        ),
        "reduced": Witness(
            "k and v trained in their five scalars",
            ("task", "start", "schedule"),
            trains=True,
            told=lambda q: _trained(q, "exact reduction", "reduction exact in law"),
        ),
        "tokens": Witness(
            "k and v trained as vectors, with batch on tokens",
            ("task", "start", "schedule"),
            trains=True,
            in_law=("batch",),
            told=lambda q: f"{_trained(q, *(2 * (f'brute force in R^{q.task.dim}',)))}",
        ),
    },
    shown={
        "lam": Heading("λ", given="lam_decay"),
        "loss": "L(t)",
        "mean_kappa": "|κ|",
        "mean_nu": "|ν|",
        # Of the runs with one end, as their headings say, with how many they are; |ν| is the one
        # that a narrow terminal can do without, as it is what the end is told by.
        "oracle_kappa": "|κ|, oracle",
        "swapped_eta": "|η|, swapped",
        "oracle_nu": "|ν|, oracle",
        "mean_distance": "distance",
    },
    ends={"loss": "last L", **SCALARS, "distance": "distance"},
    axes=(Axes("loss", "R - \\epsilon^2"), Axes("kappa", "\\kappa", "x"), Axes("nu", "\\nu", "x")),
    times=Flow(),
    figures="solvable.single_location.figures:FIGURES",
)
