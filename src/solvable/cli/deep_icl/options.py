"""The options that say what is asked of the deep_icl lab: the context law and the start."""

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from ..arguments import Maybe
from ..screen import symbols

if TYPE_CHECKING:
    from solvable import deep_icl

Law = Literal["rrs", "fs", "iso"]
Unit = Literal["scalar", "matrix"]
ALPHA = 2.0
SPECTRUM: dict[str, Any] = {"nu": 1.5, "beta": 0.8, "dim": 64}
NAMES = {"rrs": "rotated structure", "fs": "fixed structure", "iso": "isotropic covariates"}

Numbers = Annotated[
    tuple[float, ...] | None, tyro.conf.arg(metavar="FLOAT ...", help_behavior_hint="")
]
Depths = Annotated[
    tuple[float, ...] | None, tyro.conf.arg(metavar="INT|inf ...", help_behavior_hint="")
]
_Context = Annotated[float, tyro.conf.arg(metavar="INT|inf")]


@dataclass(frozen=True)
class TaskOptions:
    """The context law: how covariates and task vectors are drawn."""

    law: Law = "rrs"
    """a covariance rotated from context to context, one for all (fs), or isotropic covariates"""
    nu: Maybe[float] = None
    """capacity exponent ν of the eigenvalues λ_k = k^-ν, in (0, 20] (default: 1.5)"""
    beta: Maybe[float] = None
    """source exponent β of the tasks, ω_k λ_k ∝ k^-(νβ+1), in (0, 20] (default: 0.8)"""
    dim: Maybe[int] = None
    """dimension D, at least 1 (default: 64; iso: without end)"""
    width: Maybe[int] = None
    """width N of attention, from 1 to D, for rrs (default: D)"""
    context: _Context = math.inf
    """context length P, at least 1, for rrs and fs"""
    alpha: Maybe[float] = None
    """α = P/D of iso, in (0, 1e8] (default: 2)"""
    noise: float = 0.0
    """standard deviation σ of the noise on the context's labels, in [0, 1e6]"""

    def build(self, **changed: Any) -> Any:
        """The library's task of this law; `changed` fields take the place of those given."""
        from solvable import deep_icl

        given = {name: value for name, value in asdict(self).items() if value is not None}
        del given["law"]
        if self.context == math.inf:
            del given["context"]
        foreign = {
            "iso": ("nu", "beta", "width", "context"),
            "fs": ("alpha", "width"),
            "rrs": ("alpha",),
        }
        for name in foreign[self.law]:
            if name in given:
                laws = [law for law in NAMES if name not in foreign[law]]
                raise ValueError(f"{name} is for --law {' or '.join(laws)}, not {self.law}")
        if self.law == "iso":
            return deep_icl.Isotropic(**{"alpha": ALPHA} | given | changed)
        kind = deep_icl.FixedStructure if self.law == "fs" else deep_icl.RotatedStructure
        return kind(**SPECTRUM | given | changed)

    def facts(self) -> dict[str, Any]:
        """The law, as the JSON document tells it: with what is taken where nothing is given."""
        facts = asdict(self)
        usual = {"alpha": ALPHA} if self.law == "iso" else SPECTRUM
        return facts | {name: value for name, value in usual.items() if facts[name] is None}

    def words(self, over: str = "") -> str:
        """The law in the paper's symbols, but for what it is looked at over."""
        facts = self.facts()
        if self.law == "iso":
            told = {"α": facts["alpha"], "D": math.inf if self.dim is None else self.dim}
        else:
            told = {"ν": facts["nu"], "β": facts["beta"], "D": facts["dim"]}
            if self.width is not None:
                told["N"] = self.width
            told["P"] = self.context
        told.pop({"alpha": "α", "width": "N", "context": "P"}.get(over, ""), None)
        return symbols(told | {"σ": self.noise})


@dataclass(frozen=True)
class StartOptions:
    """Where training starts, and so what is trained: Γ = γI from 0 unless told otherwise."""

    gamma: Numbers = None
    """γ at the start; of untied layers one each, or one for all (default: 0)"""
    weights: Maybe[float] = None
    """train full attention instead, from balanced weights (√2 w, w, w, w), γ = w_x² w_q w_k w_v"""

    def build(self) -> "deep_icl.Init":
        """The library's start."""
        from solvable import deep_icl

        if self.gamma is not None and self.weights is not None:
            raise ValueError("gamma and weights cannot both be given")
        if self.weights is not None:
            return deep_icl.Init(weights=self.weights)
        return deep_icl.Init(gamma=self.facts()["gamma"])

    def facts(self) -> dict[str, Any]:
        """The start, as the JSON document tells it."""
        if self.weights is not None:
            return {"weights": self.weights}
        if self.gamma == ():
            raise ValueError("gamma must be followed by one number or more")
        gamma = self.gamma or (0.0,)
        return {"gamma": gamma[0] if len(gamma) == 1 else list(gamma)}

    def words(self) -> str:
        """``from γ = 0``."""
        name, value = "w" if self.weights is not None else "γ", next(iter(self.facts().values()))
        if isinstance(value, list):
            return f"from γ = {', '.join(f'{x:g}' for x in value)}"
        return f"from {symbols({name: value})}"
