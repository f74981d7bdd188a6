"""Where training starts."""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from .. import validation
from ..compiling import stage
from ..numerics.host import unpacked


class Init(eqx.Module):
    r"""Where training starts, and so which weights are trained.

    Args:
        gamma: trains the preconditioner Γ = γI. One number; for untied layers also one for each
            layer, for `FixedStructure` also one for each direction.
        weights: trains the weights of full attention instead, γ = w_x² w_q w_k w_v: one number w
            for the balanced ``(√2 w, w, w, w)``, or the four (w_x, w_q, w_k, w_v).

    >>> Init(gamma=0.0)
    Init(gamma=0)
    >>> round(Init(weights=0.5).attention_gamma.item(), 6)
    0.0625
    """

    gamma: Float[Array, "..."] | None
    weights: Float[Array, " 4"] | None

    def __init__(self, gamma=None, weights=None):
        if (gamma is None) == (weights is None):
            raise ValueError("gamma or weights must be given, and only one")
        self.gamma = self.weights = None
        if gamma is not None:
            self.gamma = validation.floating("gamma", gamma)
            validation.within("gamma", self.gamma, -1e6, 1e12)
            if self.gamma.ndim > 1:
                raise ValueError(f"gamma must be a number or a row, not shape {self.gamma.shape}")
        else:
            weight = validation.floating("weights", weights)
            validation.shaped("weights", weight, (), (4,))
            validation.within("weights", weight, -1e3, 1e3)
            if weight.ndim == 0:
                _, number = unpacked(weight)
                weight = stage(number * np.array([2.0**0.5, 1.0, 1.0, 1.0]))
            self.weights = weight

    def __repr__(self) -> str:
        fields: dict[str, Any] = {"gamma": self.gamma, "weights": self.weights}
        return f"Init({validation.brief(**{k: v for k, v in fields.items() if v is not None})})"

    @property
    def attention_gamma(self) -> Float[Array, ""]:
        """γ = w_x² w_q w_k w_v of the four weights."""
        if self.weights is None:
            raise ValueError("weights must be given to have a γ of full attention")
        _, weights = unpacked(self.weights)
        return stage(gamma_of(weights))


def gamma_of(weights: Any) -> Any:
    """``γ = w_x² w_q w_k w_v``."""
    x, q, k, v = weights
    return x**2 * q * k * v
