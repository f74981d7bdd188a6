"""The exponents of the paper's tables as they are printed, to be compared with."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Printed:
    """Exponents of L in model size, time, data and compute."""

    size: float
    time: float
    data: float
    compute: float


def printed(alpha: float, beta: float = 0.0) -> Printed:
    """Tables 1 and 2 at γ = 0.

    >>> printed(2.0)
    Printed(size=1.0, time=0.5, data=0.5, compute=0.3333333333333333)
    """
    size = alpha - 1.0
    return Printed(size, size / (alpha + beta), size / alpha, size / (alpha + beta + 1.0))
