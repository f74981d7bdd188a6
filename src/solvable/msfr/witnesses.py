"""Who answers the questions of `solvable.labs.msfr`."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from ..labs.msfr import Asked, attention_of
from ..training import Training
from . import model
from . import reduced as reduction
from .optimizers import adamw
from .start import Init, SoftmaxInit
from .task import Task
from .theory import loss


class Theory(eqx.Module):
    """The loss of gradient flow at any times."""

    task: Task
    init: Init | SoftmaxInit
    order: Any = eqx.field(static=True)
    size: int | None = eqx.field(static=True)
    data: int | None = eqx.field(static=True)

    def __call__(self, t: Any) -> dict[str, Float[Array, " times"]]:
        """L(t)."""
        return {"loss": loss(self.task, self.init, t, self.order, self.size, self.data)}


def theory(q: Asked) -> Theory:
    """Gradient flow in closed form: on linear attention, or on softmax's with keys at rest."""
    return Theory(*_law(q), q.theory.order, q.limits.size, q.limits.data)


def facts(q: Asked) -> dict[str, tuple[float | None, str]]:
    """How far softmax attention is from flat, which tells whether its keys are at rest."""
    if q.start.attention == "linear":
        return {}
    return {
        "u": (attention_of(q)[0], "smallest u at the start; keys are as good as at rest for u ≥ 3")
    }


def reduced(q: Asked) -> Training:
    """Attention trained in its exact small state space."""
    return reduction.prepare(*_law(q), **_training(q))


def tokens(q: Asked) -> Training:
    """Attention trained on real tokens."""
    return model.prepare(*_law(q), **_training(q))


def _law(q: Asked) -> tuple[Task, Init | SoftmaxInit]:
    start = q.start
    if start.attention == "linear":
        return Task(**vars(q.task)), Init(start.v, start.w)
    return Task(**vars(q.task)), SoftmaxInit(start.value, start.key, start.query)


def _training(q: Asked) -> dict[str, Any]:
    rate = q.schedule.lr
    how = {"lr": rate} if q.schedule.optimizer == "gd" else {"optimizer": adamw(rate or 0.0)}
    return {**how, **vars(q.limits), "seed": q.schedule.seed}


def height(exponents: Mapping[str, float], settings: Mapping[str, Any]) -> float:
    """The loss before training, which the model's curve is a share of."""
    return float(loss(Task(**settings, **exponents), Init(0.1, 0.11), 0.0, "zeroth"))
