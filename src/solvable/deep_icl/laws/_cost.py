"""What a shape costs: an expression in t, N, L, P, or a function of them."""

import math
from typing import Any

from ...scaling import cost as costs

NAMES = ("t", "N", "L", "P")


class Cost(costs.Cost):
    """The cost of a shape, N, L, P ≥ 1.

    Args:
        cost: an expression such as "t*N**2*L", or a function whose arguments are named t, N, L, P.

    >>> cost = Cost("t*N**2*(L + 2)")
    >>> cost.names, cost({"t": 3.0, "N": 10.0, "L": 4.0})
    (('t', 'N', 'L'), 1800.0)
    """

    def __init__(self, cost: Any):
        super().__init__(cost, NAMES)

    def _places(self) -> list[dict[str, float]]:
        if "t" not in self.names:
            raise ValueError(f"cost must contain t, the training time, not {self.text!r}")
        spread = {"t": 1.0, "N": 1.3, "L": 0.8, "P": 1.7}
        return [
            {n: 1.0 + scale * spread[n] if n != "t" else scale for n in self.names}
            for scale in (0.3, 2.0, 40.0, 3e3)
        ]

    def time(self, budget: float, places: dict[str, float]) -> float:
        """The t at which a shape costs the budget; 0 where it costs more without training."""
        found = self.amount("t", budget, places)
        if math.isinf(found):
            raise ValueError(f"cost must rise with t without limit, not as {self.text!r} does")
        return found
