"""The options that say what is asked of the msfr lab: the task, the start and the resources."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ..arguments import Maybe
from ..screen import symbols

if TYPE_CHECKING:
    from solvable import msfr


@dataclass(frozen=True)
class TaskOptions:
    """The data law: multitask sparse feature regression."""

    num_tasks: int = 500
    """number of tasks S (the paper's N_s), at least 1"""
    alpha: float = 1.8
    """exponent α of the task law p_s ∝ s^-α, in (1, 10]"""
    context: float = 100.0
    """context length ψ_1 of the first task, in (0, 1e9]"""
    strength: float = 0.5
    """strength Λ_1 of the first task, of size at most 1e6"""
    beta: float = 0.0
    """decay β of the context lengths ψ_s = ψ_1 s^-β, at least 0"""
    gamma: float = 0.0
    """decay γ of the strengths Λ_s = Λ_1 s^-γ, at least 0"""

    def build(self) -> "msfr.Task":
        """The library's task."""
        from solvable import msfr

        return msfr.Task(**asdict(self))

    def words(self) -> str:
        """The law in the paper's symbols; decays are named where there are any."""
        law = {"S": self.num_tasks, "α": self.alpha, "ψ₁": self.context, "Λ₁": self.strength}
        decays = {"β": self.beta, "γ": self.gamma}
        return symbols(law | {symbol: decay for symbol, decay in decays.items() if decay})


@dataclass(frozen=True)
class LinearStart:
    """Where linear attention starts."""

    v: float = 0.1
    """start of every entry of V, of size at most 1e3"""
    w: float = 0.11
    """start of every entry of W, of size at most 1e3"""

    def build(self) -> "msfr.Init":
        """The library's start."""
        from solvable import msfr

        return msfr.Init(**asdict(self))


@dataclass(frozen=True)
class SoftmaxStart:
    """Where softmax attention starts."""

    value: float = 0.1
    """start of every entry of V, of size at most 1e3"""
    key: float = 0.1
    """start of every entry of W_K, of size at most 1e3"""
    query: float = 0.11
    """start of every entry of W_Q, of size at most 1e3"""

    def build(self) -> "msfr.SoftmaxInit":
        """The library's start."""
        from solvable import msfr

        return msfr.SoftmaxInit(**asdict(self))


@dataclass(frozen=True)
class ResourceOptions:
    """What is limited besides time."""

    size: Maybe[int] = None
    """model size D, from 1 to S + 1; the whole model unless given"""
    data: Maybe[int] = None
    """number of data N, at least 1; unlimited unless given"""

    def words(self) -> str:
        """The limits in the paper's symbols, after a comma; nothing where there is none."""
        limits = {"D": self.size, "N": self.data}
        given = {symbol: limit for symbol, limit in limits.items() if limit is not None}
        return f", {symbols(given)}" if given else ""
