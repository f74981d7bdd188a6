"""The paper's optimisers beside gradient descent."""

from typing import Any

import optax

from .. import validation


def adamw(
    lr: Any,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 1e-5,
) -> optax.GradientTransformation:
    """AdamW, with the paper's constants unless others are given.

    Args:
        lr: learning rate, above 0; the paper's is 5e-3.
        b1, b2: how much of the mean gradient and of the mean square is kept, in [0, 1].
        eps: what is added to the root of the mean square, at least 0; `adam_regimes` says what it
            decides.
        weight_decay: decoupled, at least 0; with 0 it is Adam.

    Reference: Table 4.
    """
    return optax.adamw(
        _number("lr", lr, open_low=True),
        b1=_number("b1", b1, 1.0),
        b2=_number("b2", b2, 1.0),
        eps=_number("eps", eps),
        weight_decay=_number("weight_decay", weight_decay),
    )


def _number(name: str, value: Any, high: float = float("inf"), *, open_low: bool = False) -> float:
    validation.concrete(name, value, why="the optimiser is made")
    validation.needs_double(name)
    number = validation.real(name, value)  # in numpy: figures make one as they are declared
    validation.shaped(name, number, ())
    validation.within(name, number, 0.0, high, open_low=open_low)
    return float(number)
