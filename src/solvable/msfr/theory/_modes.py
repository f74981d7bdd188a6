"""The 2×2 context matrix of one task, and the start of its flow in the modes of that matrix."""

from typing import Any

import equinox as eqx
from jaxtyping import Float

from ...numerics.compensated import combine

Column = Float[Any, " tasks"]


class Start(eqx.Module):
    """Everything about the tasks that their flow depends on, one row a task.

    ``H = ψ u uᵀ + e₁e₁ᵀ`` with ``u = (1, Λ)``. A parameter's part along u is ``q = x₁ + Λ x₂`` and
    its part across is ``q⊥ = Λ x₁ − x₂``; both cancel for ordinary inits (Λ near −1, or init along
    u), so they are formed without rounding error.
    """

    context: Column
    strength: Column
    v: Float[Any, "tasks 2"]
    w: Float[Any, "tasks 2"]

    @property
    def squared_norm(self) -> Column:
        """|u|² = 1 + Λ²."""
        return 1.0 + self.strength**2

    def along(self, sign: float) -> Column:
        """The part q of ``v + sign·w``."""
        (v1, v2), (w1, w2) = self.v.T, self.w.T
        return combine(v1, sign * w1, self.strength, v2, sign * w2)

    def across(self, sign: float) -> Column:
        """q⊥ of ``v + sign·w``."""
        (v1, v2), (w1, w2) = self.v.T, self.w.T
        return combine(-v2, -sign * w2, self.strength, v1, sign * w1)

    @property
    def leading_prediction(self) -> Column:
        """f(0) at order zero: ``ψ q_v q_w``."""
        return self.context * self.along_v * self.along_w

    @property
    def prediction(self) -> Column:
        """f(0) = vᵀHw, exactly: ``ψ q_v q_w + v₁w₁``."""
        return self.leading_prediction + self.v[:, 0] * self.w[:, 0]

    @property
    def across_v(self) -> Column:
        """q⊥ of v."""
        zero = 0.0 * self.strength
        return combine(-self.v[:, 1], zero, self.strength, self.v[:, 0], zero)

    @property
    def across_w(self) -> Column:
        """q⊥ of w."""
        zero = 0.0 * self.strength
        return combine(-self.w[:, 1], zero, self.strength, self.w[:, 0], zero)

    @property
    def along_v(self) -> Column:
        """The part q of v."""
        zero = 0.0 * self.strength
        return combine(self.v[:, 0], zero, self.strength, self.v[:, 1], zero)

    @property
    def along_w(self) -> Column:
        """The part q of w."""
        zero = 0.0 * self.strength
        return combine(self.w[:, 0], zero, self.strength, self.w[:, 1], zero)
