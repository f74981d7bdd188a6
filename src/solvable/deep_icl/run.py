"""What a training run is asked for, and what it gives, in the reductions and on tokens alike."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Array, Float

from .. import training, validation
from ..compiling import stage
from ..numerics.host import unpacked
from .start import Init
from .task import FixedStructure, Task, check_task, told

Layers = Literal["tied", "untied"]
Time = Literal["scalar", "matrix"]
LAYERS: tuple[Layers, ...] = get_args(Layers)
TIMES: tuple[Time, ...] = get_args(Time)
MAX_DEPTH = 10**6
MAX_CONTEXTS = 10**7  # of a step


@dataclass(frozen=True, repr=False)
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


def checked(
    task: Any, start: Any, depth: Any, lr: Any, layers: Any, time: Any
) -> tuple[Float[Array, "..."], int, Float[Array, ""]]:
    """Where training starts, the depth, and the rate in scalar time; or an error.

    The start is γ, with an axis of layers or directions where there is one, or four weights.
    """
    check_task(task)
    if not isinstance(start, Init):
        raise ValueError(f"start must be a deep_icl.Init, not {type(start).__name__}")
    depth = validation.whole("depth", depth, 1, MAX_DEPTH)
    validation.one_of("layers", layers, LAYERS)
    validation.one_of("time", time, TIMES)
    rate = training.check_rate(lr)
    attention, untied = start.weights is not None, layers == "untied"
    if attention and untied:
        raise ValueError("layers must be 'tied' for the weights of full attention")
    if isinstance(task, FixedStructure) and (attention or untied):
        raise ValueError(
            "law must be rrs or iso for untied layers and full attention, not fs (FixedStructure)"
        )
    if time == "matrix":
        if task.width is None:
            raise ValueError("dim must be given for time 'matrix': Isotropic(alpha, dim=…)")
        _, given = unpacked(rate)
        rate = rate if isinstance(task, FixedStructure) else stage(given / task.width)
    if start.weights is not None:
        return start.weights, depth, rate
    return _shaped(task, start.gamma, depth, untied), depth, rate


def prepared(
    trainer: str,
    build: Callable[[], tuple[Any, Any]],
    task: Task,
    start: Init,
    *,
    depth: int,
    lr: Any,
    rate: Float[Array, ""],
    layers: Layers,
    time: Time,
    **more: Any,
) -> training.Training[Run]:
    """The training of a problem; time is that of `lr` as it was given. More is of its origin."""
    pace = float(validation.floating("lr", lr))
    origin = {
        "kind": trainer,
        "task": told(task),
        "depth": depth,
        "layers": layers,
        "start": {"gamma": start.gamma, "weights": start.weights},
        "time": time,
        **more,
    }
    return training.Training(
        build,
        lambda history, _: Run.of(history, pace),
        origin,
        lr=rate,
        log_points=training.LOG_POINTS,
    )


def contexts_of(contexts: Any) -> int:
    """How many contexts, or an error."""
    validation.whole("contexts", contexts, 1)
    return validation.whole("contexts", contexts, 1, MAX_CONTEXTS)


def _shaped(task: Task, gamma: Any, depth: int, untied: bool) -> Float[Array, "..."]:
    """γ at the start with the axis that is trained."""
    size = depth if untied else task.dim if isinstance(task, FixedStructure) else None
    allowed = ((),) if size is None else ((), (size,))
    if size is None and gamma.shape == (depth,):
        raise ValueError("gamma must be one number for tied layers; layers 'untied' have one each")
    validation.shaped("gamma", gamma, *allowed)
    if size is None:
        return gamma
    _, numbers = unpacked(gamma)
    return stage(np.broadcast_to(numbers, (size,)))
