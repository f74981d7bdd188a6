"""The paper's optimisers beside gradient descent."""

from typing import Any

import optax

from .. import validation


def adamw(lr: Any) -> optax.GradientTransformation:
    """AdamW with the paper's constants.

    Args:
        lr: learning rate, above 0; the paper's is 5e-3.

    Reference: Table 4.
    """
    validation.concrete("lr", lr, why="the optimiser is made")
    validation.needs_double("lr")
    rate = validation.real("lr", lr)  # in numpy: figures make one as they are declared
    validation.shaped("lr", rate, ())
    validation.within("lr", rate, 0.0, open_low=True)
    return optax.adamw(float(rate), b1=0.9, b2=0.999, eps=1e-8, weight_decay=1e-5)
