"""The options that say what is asked of the single_location lab: the task, the start, descent."""

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from ..arguments import Maybe
from ..screen import symbols

if TYPE_CHECKING:
    from solvable import single_location

RUNS = 5
EVEN = math.sqrt(0.5)  # γ at which both kinds of token have the same mean square
MAX_DECAY = 1e6
SCALARS = {"kappa": "κ", "nu": "ν", "theta": "θ", "eta": "η", "rho": "ρ"}

_Gamma = Annotated[float, tyro.conf.arg(help_behavior_hint="(default: √½)")]


@dataclass(frozen=True)
class TaskOptions:
    """The data law: single-location regression."""

    dim: int = 400
    """dimension d of the tokens, at least 4"""
    length: int = 10
    """number L of tokens, of which one is informative, from 1 to 1e9"""
    gamma: _Gamma = EVEN
    """standard deviation γ of the informative token, in [1e-6, 1000]; the others have 1"""
    noise: float = 0.0
    """standard deviation ε of the noise on the labels, in [0, 1e6]"""

    def build(self) -> "single_location.Task":
        """The library's task."""
        from solvable import single_location

        return single_location.Task(**asdict(self))

    def words(self) -> str:
        """The law in the paper's symbols."""
        return symbols({"d": self.dim, "L": self.length, "γ": self.gamma, "ε": self.noise})


@dataclass(frozen=True)
class StartOptions:
    """Where it starts: random directions, or a state given by some of its five scalars."""

    start: Maybe[Literal["manifold", "sphere"]] = None
    """k and v random with θ = η = ρ = 0, or anywhere on the spheres (default: manifold)"""
    runs: Maybe[int] = None
    """number of runs, at least 1 (default: 5, or 1 from a given state)"""
    kappa: Maybe[float] = None
    """κ = k·k* of a given state, in [-1, 1]; what is not given of the five is 0"""
    nu: Maybe[float] = None
    """ν = v·v*"""
    theta: Maybe[float] = None
    """θ = v·k*"""
    eta: Maybe[float] = None
    """η = k·v*"""
    rho: Maybe[float] = None
    """ρ = k·v"""

    @property
    def given(self) -> dict[str, float]:
        """The given state; empty where the start is random."""
        values = {name: getattr(self, name) for name in SCALARS}
        if all(value is None for value in values.values()):
            return {}
        return {name: 0.0 if value is None else value for name, value in values.items()}

    @property
    def count(self) -> int:
        """How many runs there are."""
        usual = 1 if self.given else RUNS
        return usual if self.runs is None else self.runs

    def build(
        self, task: "single_location.Task", seed: int, batch: int | None
    ) -> "single_location.State":
        """The library's starts, on one axis."""
        from solvable import single_location
        from solvable.validation import whole

        runs = whole("runs", self.count, 1)
        if not self.given:
            draw = single_location.sphere if self.start == "sphere" else single_location.manifold
            return draw(task, runs, seed=seed)
        if self.start is not None:
            raise ValueError(f"start cannot be given with {', '.join(SCALARS)}, one or all")
        if runs > 1 and batch is None:
            raise ValueError(f"runs must be 1 from a given state without --batch, not {runs}")
        state: dict[str, Any] = {name: [x] * runs for name, x in self.given.items()}
        return single_location.State(**state)

    def facts(self) -> dict[str, Any]:
        """The start, as the JSON document tells it."""
        return {"start": self.given or self.start or "manifold", "runs": self.count}

    def words(self) -> str:
        """``5 runs from the manifold``."""
        given = {SCALARS[name]: value for name, value in self.given.items()}
        where = symbols(given) if given else f"the {self.start or 'manifold'}"
        return f"{self.count} run{'' if self.count == 1 else 's'} from {where}"


@dataclass(frozen=True)
class DescentOptions:
    """Projected gradient descent of k and v, or SGD; t = lr × step."""

    lam: float = 0.1
    """inverse temperature λ, in (0, 1000]"""
    lam_decay: float = 0.0
    """rate r of λ_t = λ/(1 + r × step), in [0, 1e6]; 0 for a constant λ"""
    lr: float = 4e-3
    """step size α, above 0"""
    steps: int = 20_000
    """number of steps, at least 0"""
    batch: Maybe[int] = None
    """SGD on so many fresh token matrices a step, at least 1; the exact gradient unless given"""
    seed: int = 0
    """seed of the starts and of the batches, at least 0"""
    log_every: Maybe[int] = None
    """steps between two points of the curve; a 400th of the run unless given"""

    def build(self) -> dict[str, Any]:
        """The library's words for it."""
        from solvable import single_location
        from solvable.validation import floating, within

        within("lam_decay", floating("lam_decay", self.lam_decay), 0.0, MAX_DECAY)
        options = asdict(self)
        rate = options.pop("lam_decay")
        if rate:
            within("lam", floating("lam", self.lam), 0.0, 1e3, open_low=True)
            options["lam"] = single_location.decay(self.lam, rate)
        return options

    def words(self) -> str:
        """Schedule and rate in the paper's symbols."""
        decay = f"/(1 + {self.lam_decay:g}·step)" if self.lam_decay else ""
        batch = "" if self.batch is None else f", B = {self.batch}"
        return f"λ = {self.lam:g}{decay}, α = {self.lr:g}{batch}, seed {self.seed}"
