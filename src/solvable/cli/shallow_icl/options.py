"""The options that say what is asked of the shallow_icl lab: the task, the model, the descent."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from ..arguments import Maybe
from ..screen import symbols

if TYPE_CHECKING:
    from solvable import shallow_icl

DIM = 4

_Context = Annotated[float, tyro.conf.arg(metavar="INT|inf", help_behavior_hint="(default: 31)")]
_Eigenvalues = Annotated[
    tuple[float, ...] | None, tyro.conf.arg(metavar="FLOAT ...", help_behavior_hint="")
]


@dataclass(frozen=True)
class TaskOptions:
    """The data law: in-context linear regression."""

    dim: Maybe[int] = None
    """dimension D of the tokens, at least 1 (default: 4, or as many as there are eigenvalues)"""
    context: _Context = 31.0
    """number N of examples in the context, at least 1; inf for the population's limit"""
    spectrum: Literal["linear", "white", "power"] = "linear"
    """eigenvalues of Λ, of sum 1: ∝ D … 1, all equal, or ∝ d^-exponent"""
    exponent: Maybe[float] = None
    """exponent of the power spectrum, in [0, 20] (default: 1)"""
    eigenvalues: _Eigenvalues = None
    """the eigenvalues themselves instead of a spectrum, each in [1e-12, 1e6]"""
    noise: float = 0.0
    """standard deviation of the noise on the context's labels, at least 0"""
    in_context: float = 1.0
    """fraction of sequences with a fresh task vector, in [0, 1]; the others share one"""
    labels: Literal["task", "noise"] = "task"
    """what the context's labels are; noise, which says nothing, needs --in-context 0"""
    lengths: Literal["fixed", "varied"] = "fixed"
    """contexts of N examples, or the average over those of 1 to N"""
    normalise: Literal["n", "n-1"] = "n"
    """what varied lengths are divided by: with the query counted, as in the code, or without"""
    outputs: int = 1
    """labels of a token, at least 1"""

    def build(self) -> "shallow_icl.Task":
        """The library's task."""
        from solvable import shallow_icl

        spectrum: Any = self.spectrum
        dim = DIM if self.dim is None else self.dim
        if self.exponent is not None and spectrum != "power":
            raise ValueError(f"exponent is for --spectrum power, not {spectrum}")
        if self.normalise != "n" and self.lengths == "fixed":
            raise ValueError(f"normalise is for --lengths varied, not {self.lengths}")
        if self.eigenvalues is not None:
            if spectrum != "linear":
                raise ValueError("spectrum and eigenvalues cannot both be given")
            if not self.eigenvalues:
                raise ValueError("eigenvalues must be followed by one number or more")
            spectrum = sorted(self.eigenvalues, reverse=True)
            if self.dim not in (None, len(spectrum)):
                raise ValueError(f"dim must be {len(spectrum)}, one an eigenvalue, not {self.dim}")
            dim = len(spectrum)
        rest = ("context", "noise", "in_context", "labels", "lengths", "normalise", "outputs")
        return shallow_icl.Task(
            dim=dim,
            spectrum=spectrum,
            exponent=self.exponent,
            **{name: getattr(self, name) for name in rest},
        )

    def facts(self, task: "shallow_icl.Task") -> dict[str, Any]:
        """The law, as the JSON document tells it."""
        facts = asdict(self) | {"dim": task.dim, "context": task.context}
        del facts["spectrum"], facts["exponent"]
        return facts | {"eigenvalues": task.eigenvalues.tolist()}

    def words(self, task: "shallow_icl.Task") -> str:
        """The law in the paper's symbols; what is unusual is named."""
        law = symbols({"D": task.dim, "N": task.context})
        values = [f"{value:.4g}" for value in task.eigenvalues.tolist()]
        if len(set(values)) == 1:
            del values[1:]
        elif len(values) > 5:
            values[1:-1] = ["…"]
        law += f", λ = {' '.join(values)}"
        usual = TaskOptions()
        for name in ("noise", "in_context", "labels", "lengths", "normalise", "outputs"):
            if getattr(self, name) != getattr(usual, name):
                law += f", {name.replace('_', '-')} {getattr(self, name)}"
        return law


@dataclass(frozen=True)
class Preset:
    """What is taken for a model where nothing else is said."""

    heads: int
    scale: float
    lr: float
    steps: int


# The settings of Fig. 3 and of Fig. 1, in the code's units. Softmax attention, an average and not a
# sum over the tokens, takes a larger rate.
SEPARATE = Preset(heads=5, scale=1e-2, lr=0.02, steps=10_000)
MERGED = Preset(heads=8, scale=1e-6, lr=1e-3, steps=6_000)
# From a smaller scale the sample's own mean drives it first, and there are two drops.
SOFTMAX = {
    "separate": {"lr": 0.3, "steps": 2_000},
    "merged": {"lr": 0.1, "steps": 2_000, "scale": 0.03},
}


@dataclass(frozen=True)
class ModelOptions:
    """The model, and where it starts."""

    model: Literal["separate", "merged", "mlp"] = "separate"
    """attention with separate or merged key and query, or the MLP on cubic features"""
    heads: Maybe[int] = None
    """heads H, or the width of the mlp, at least 1 (default: 5 for separate, else 8)"""
    rank: Maybe[int] = None
    """rank R of key and query, at least 1, for separate only (default: 1)"""
    scale: Maybe[float] = None
    """size of the first weights, in (0, 1000] (default: 0.01 for separate, else 1e-6;
    0.03 for merged softmax)"""
    init: Literal["A", "B", "C", "D"] = "A"
    """how the published code scaled them, in four versions, for separate only"""
    attention: Literal["linear", "softmax"] = "linear"
    """softmax attention is trained on sequences only, and has no theory curve"""

    @property
    def preset(self) -> Preset:
        """The usual setting of this model."""
        preset = SEPARATE if self.model == "separate" else MERGED
        if self.attention == "softmax":
            return replace(preset, **SOFTMAX.get(self.model, {}))
        return preset

    def build(self) -> "shallow_icl.Start":
        """The library's start."""
        from solvable import shallow_icl

        heads = self.preset.heads if self.heads is None else self.heads
        scale = self.preset.scale if self.scale is None else self.scale
        if self.model == "separate":
            rank = 1 if self.rank is None else self.rank
            return shallow_icl.separate(heads, rank, scale, self.init, attention=self.attention)
        for name, foreign in (("rank", self.rank is not None), ("init", self.init != "A")):
            if foreign:
                raise ValueError(f"{name} is for --model separate, not {self.model}")
        if self.model == "merged":
            return shallow_icl.merged(heads, scale, attention=self.attention)
        if self.attention == "softmax":
            raise ValueError("attention must be linear for --model mlp, not softmax")
        return shallow_icl.mlp(heads, scale)


def model_facts(start: "shallow_icl.Start") -> dict[str, Any]:
    """The model, as the JSON document tells it."""
    facts = {"model": start.kind, "heads": start.heads, "rank": start.rank, "scale": start.scale}
    init = start.init if start.kind == "separate" else None
    return facts | {"init": init, "attention": start.attention}


def model_name(start: "shallow_icl.Start") -> str:
    """``separate linear attention``, ``MLP``."""
    return "MLP" if start.kind == "mlp" else f"{start.kind} {start.attention} attention"


@dataclass(frozen=True)
class DescentOptions:
    """Gradient descent; t/τ = 2 × lr × step in the paper's units."""

    lr: Maybe[float] = None
    """learning rate η, above 0 (default: 0.02 for separate, else 1e-3; softmax: 0.3, 0.1)"""
    steps: Maybe[int] = None
    """number of steps, at least 0 (default: 10000 for separate, else 6000; softmax: 2000)"""
    units: Literal["code", "paper"] = "code"
    """of scale and lr: attention without 1/N, as in the published code, or with, as in the paper"""
    seed: int = 0
    """seed of the first weights, at least 0"""
    log_every: Maybe[int] = None
    """steps between two points of the curve; a 400th of the run unless given"""
    log_points: Maybe[int] = None
    """points of the curve, evenly spaced in log step, at least 2; instead of log_every"""

    def build(self, preset: Preset) -> dict[str, Any]:
        """The library's words for it."""
        lr = preset.lr if self.lr is None else self.lr
        steps = preset.steps if self.steps is None else self.steps
        return asdict(self) | {"lr": lr, "steps": steps}


def run_words(start: "shallow_icl.Start", options: Mapping[str, Any]) -> str:
    """The start and the descent in the paper's symbols."""
    words = symbols({"H": start.heads})
    if start.kind == "separate":
        words += f", R = {start.rank}, init {start.init}"
    rate = f"η = {options['lr']:g} ({options['units']}'s units), seed {options['seed']}"
    return f"{words}, scale {start.scale:g}, {rate}"
