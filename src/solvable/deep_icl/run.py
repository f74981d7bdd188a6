"""What a training run is asked for, and what it gives, in the reductions and on tokens alike."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Array, Float

from .. import training, validation
from ..compiling import stage
from ..numerics.host import unpacked
from .start import Init
from .task import FixedStructure, Task, check_task, seed_of, told

Layers = Literal["tied", "untied"]
Time = Literal["scalar", "matrix"]
LAYERS: tuple[Layers, ...] = get_args(Layers)
TIMES: tuple[Time, ...] = get_args(Time)
MAX_DEPTH = 10**6
MAX_CONTEXTS = 10**7  # of a step


@dataclass(frozen=True)
class Run(training.Run):
    """A training run of the deep_icl lab.

    Attributes:
        time: lr × step.
        loss: ⟨(f − y)²⟩ over queries and contexts, no factor ½: of the population where training
            descends it, of the fresh contexts of the step where it is on contexts.
        gamma: γ; of untied layers (layers, points), of `FixedStructure` (dim, points). On contexts
            the mean of Γ's diagonal, of `FixedStructure` that diagonal.
        weights: (w_x, w_q, w_k, w_v) of full attention, (4, points); None of Γ's own training.
    """

    gamma: Float[Array, "*parts points"]
    weights: Float[Array, "4 points"] | None = None


@dataclass(frozen=True)
class Request:
    """What a run was asked for, checked: shared by `train` and `train_brute`.

    Attributes:
        start: γ at the start, with an axis of layers or directions where there is one; or the four
            weights of full attention.
        rate: the learning rate in scalar time.
        given: the start as it was declared.
        time: the unit of time that was asked for.
    """

    task: Task
    start: Float[Array, "..."]
    attention: bool
    depth: int
    rate: Float[Array, ""]
    untied: bool
    contexts: int | None
    seed: int
    given: Init
    time: Time

    @classmethod
    def check(
        cls,
        task: Any,
        start: Any,
        depth: Any,
        lr: Any,
        layers: Any,
        time: Any,
        contexts: Any,
        seed: Any,
    ) -> "Request":
        """Validate the arguments that both kinds of training take."""
        check_task(task)
        if not isinstance(start, Init):
            raise ValueError(f"start must be a deep_icl.Init, not {type(start).__name__}")
        depth = validation.whole("depth", depth, 1, MAX_DEPTH)
        validation.one_of("layers", layers, LAYERS)
        validation.one_of("time", time, TIMES)
        rate = validation.floating("lr", lr)
        validation.shaped("lr", rate, ())
        validation.within("lr", rate, 0.0, open_low=True)
        attention, untied = start.weights is not None, layers == "untied"
        if attention and untied:
            raise ValueError("layers must be 'tied' for the weights of full attention")
        if isinstance(task, FixedStructure) and (attention or untied):
            raise ValueError("a FixedStructure is trained with gamma and tied layers only")
        contexts = None if contexts is None else contexts_of(contexts)
        width = task.width
        if time == "matrix":
            if width is None:
                raise ValueError("dim must be given for time 'matrix': Isotropic(alpha, dim=…)")
            _, given = unpacked(rate)
            rate = rate if isinstance(task, FixedStructure) else stage(given / width)
        begin = start.weights if attention else _shaped(task, start.gamma, depth, untied)
        assert begin is not None
        seed = seed_of(seed)
        return cls(task, begin, attention, depth, rate, untied, contexts, seed, start, time)

    def origin(self, kind: str, **more: Any) -> dict[str, Any]:
        """All that a run of this request depends on, for `training.follow`; more of some kinds."""
        return {
            "kind": kind,
            "task": told(self.task),
            "depth": self.depth,
            "layers": "untied" if self.untied else "tied",
            "start": {"gamma": self.given.gamma, "weights": self.given.weights},
            "time": self.time,
            **more,
        }


def contexts_of(contexts: Any) -> int:
    """How many contexts, or an error."""
    validation.whole("contexts", contexts, 1)
    return validation.whole("contexts", contexts, 1, MAX_CONTEXTS)


def _shaped(task: Task, gamma: Any, depth: int, untied: bool) -> Float[Array, "..."]:
    """γ at the start with the axis that is trained."""
    size = depth if untied else task.dim if isinstance(task, FixedStructure) else None
    allowed = ((),) if size is None else ((), (size,))
    validation.shaped("gamma", gamma, *allowed)
    if size is None:
        return gamma
    _, numbers = unpacked(gamma)
    return stage(np.broadcast_to(numbers, (size,)))
